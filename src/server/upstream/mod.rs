//! A real server behind the front.

mod target;

pub(super) use target::{Target, TargetSettings};
