//! What a command is, as plain data: its row, the cursor over its arguments, and the table of all rows.
//!
//! Knows names, arity, flags, keys, categories and effects on locks; not what a command does.
//! May use: `base`, `protocol`.
//! Begin with [`CommandSpec`], the row, and [`Table::resolve`], which finds the row of a request.

mod absent;
mod args;
mod command_docs;
mod command_info;
mod command_spec;
mod history;
mod key_spec;
mod lock_effect;
#[cfg(feature = "internals")]
mod markdown;
mod redaction;
mod table;
mod usage;

pub use absent::{ABSENT, AbsentCommand};
pub use args::Args;
pub use command_docs::command_docs;
pub use command_info::command_info;
pub use command_spec::{
    Arity, Category, Channels, CommandKind, CommandSpec, DatabaseArgs, Flag, Group, ScriptCommand, Secrets,
    TransactionCommand,
};
#[cfg(test)]
pub use history::HISTORIES;
pub use key_spec::KeySpec;
#[cfg(test)]
pub use key_spec::{BeginSearch, FindKeys};
pub use lock_effect::{LockEffect, TtlFrom, TtlUnit};
#[cfg(feature = "internals")]
pub use markdown::markdown;
pub use redaction::{REDACTED_REPLY, Redaction};
pub use table::{NamedRequest, RenameError, RequestKeys, ResolvedRow, Row, RowId, Table, full_name};
pub use usage::{Argument, ArgumentKind, arguments};
