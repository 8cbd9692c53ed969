//! What a command is: its row, the cursor over its arguments, and the table of all rows.

mod args;
mod call;
mod keys;
mod row;
mod table;

pub use args::Args;
pub use call::{Call, Flow, Waiting};
pub use keys::{Begin, Find, KeySpec};
pub use row::{Arity, Category, CommandResult, CommandSpec, Flag, Group, Handler, Transaction};
pub use table::{Table, full_name};
