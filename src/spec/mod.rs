//! What a command is, in plain data: its row, the cursor over its arguments, and the table of all rows.
//!
//! Knows names, words, flags, keys, categories and effects on locks; not what a command does, nor to what.
//! May use: `base`, `protocol`.
//! Begin with [`CommandSpec`], the row, and [`Table::resolve`], which finds the row of a request.

mod args;
mod docs;
mod info;
mod keys;
mod lock_effect;
#[cfg(feature = "internals")]
mod markdown;
mod row;
mod table;
mod usage;

pub use args::Args;
pub use docs::document;
pub use info::describe;
pub use keys::KeySpec;
#[cfg(test)]
pub use keys::{Begin, Find};
pub use lock_effect::{LockEffect, TtlFrom, TtlUnit};
#[cfg(feature = "internals")]
pub use markdown::markdown;
pub use row::{
    Arity, Category, Channels, CommandKind, CommandSpec, Flag, Group, ScriptCommand, Secrets, TransactionCommand,
};
pub use table::{NamedRequest, RequestKeys, ResolvedRow, Row, RowId, Table, full_name};
#[cfg(test)]
pub use usage::{Argument, arguments};
