//! The commands: a row and a function each, one file per group.

mod client;
mod client_list;
mod connection;
mod strings;
mod transactions;

use crate::spec::CommandSpec;

/// Every row, group by group.
pub fn all() -> impl Iterator<Item = &'static CommandSpec> {
    [client::ROWS, connection::ROWS, strings::ROWS, transactions::ROWS].into_iter().flatten()
}
