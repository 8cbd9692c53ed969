//! The data: the keyspace with its types, and the formats in which values are written and read.
//!
//! Knows values, deadlines and the clients blocked on keys; no session, no command, no test power.
//! May use: `base`, `protocol`.
//! Begin with [`keyspace`]: `Keyspace::lock` and the `View` that it returns are the only way to the data.

pub mod geo;
pub mod hyperloglog;
pub mod keyspace;
pub mod listpack;
pub mod rdb;
pub mod seed;
