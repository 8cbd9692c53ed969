//! The commands: a row and a function each, one file per group.

mod config;
mod strings;

use crate::spec::CommandSpec;

/// Every row, group by group.
pub fn all() -> impl Iterator<Item = &'static CommandSpec> {
    [config::ROWS, strings::ROWS].into_iter().flatten()
}
