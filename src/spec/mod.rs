//! What a command is: its row, the cursor over its arguments, and the table of all rows.

mod args;
mod call;
mod docs;
mod info;
mod keys;
#[cfg(feature = "internals")]
mod markdown;
mod row;
mod table;
mod usage;
mod waiting;

pub use args::Args;
pub use call::{Call, Destination, Errand, Flow, Waiting};
pub use docs::document;
pub use info::describe;
pub use keys::KeySpec;
#[cfg(test)]
pub use keys::{Begin, Find};
#[cfg(feature = "internals")]
pub use markdown::markdown;
pub use row::{Arity, Category, CommandResult, CommandSpec, Flag, Group, Handler, Script, Transaction};
pub use table::{Table, full_name};
#[cfg(test)]
pub use usage::{Argument, arguments};
pub use waiting::{Outcome, Ready, Wish};
