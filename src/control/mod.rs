//! The test powers. They see calls and replies, never the keyspace.

mod attention;

pub use attention::{Attention, Matter};
