//! The Lua host: a script in, a reply out, and a callback for what the script asks of the server.
//!
//! Knows Lua, the sandbox and libraries of functions; no command and no data.
//! May use: `base`, `protocol`.
//! Begin with [`Interpreters`], the Lua states of one server.

mod api;
mod arguments;
mod bit;
mod cjson;
mod cmsgpack;
mod convert;
mod eval;
mod fiber;
mod functions;
mod lua;
mod random;
mod sandbox;
mod scripts;
mod shebang;
mod structs;
mod vm;

#[cfg(test)]
mod library_tests;

use std::cell::{Cell, RefCell};

use crate::base::error::CommandError;
use crate::base::log::Level;
use crate::base::profile::Profile;
use crate::protocol::{OwnedWords, Protocol, Words};

pub use eval::EvalInterpreter;
pub use fiber::{Fiber, FiberStack, FiberState, Pause};
pub use functions::{Function, FunctionInterpreter, Library, RestorePolicy};
pub use scripts::{Interpreters, KillError, KillReason, ScriptKind, Scripts, SlowScript};
pub use shebang::ScriptFlags;
pub use vm::{Invocation, Script};

/// Who runs a script: what it asks of the server goes there.
pub trait Host {
    /// Asked every so many instructions: whether the script may go on, or the message of the error that ends it.
    fn tick(&self) -> Result<(), &'static str>;

    /// Runs a command and appends its reply, in [`protocol`](Self::protocol). An error means that it was refused before
    /// it ran.
    fn call(&self, words: Words<'_>, reply: &mut Vec<u8>) -> Result<(), CommandError>;

    /// The protocol in which the script gets replies (`redis.setresp`).
    fn protocol(&self) -> Protocol;

    fn set_protocol(&self, protocol: Protocol);

    /// Whether the user may run a command; nothing if there is no such command.
    fn may_run(&self, words: Words<'_>) -> Option<bool>;

    fn log(&self, level: Level, text: &str);

    fn profile(&self) -> &Profile;

    /// Buffers that every call uses again.
    fn scratch(&self) -> &RefCell<ScratchBuffers>;

    fn random(&self) -> &Random;

    /// A script ends with an error, or returns one, that was not counted yet.
    fn count_error(&self, _line: &[u8]) {}

    /// Where functions are put down that a library registers; nothing unless one is being loaded.
    fn registered(&self) -> Option<&RefCell<Vec<Function>>> {
        None
    }
}

/// What a call of a command needs for a short time.
#[derive(Default)]
pub struct ScratchBuffers {
    pub words: OwnedWords,
    pub reply: Vec<u8>,
}

/// The state of `math.random`, which all scripts of a server share, and which outlives SCRIPT FLUSH.
pub struct Random(Cell<u64>);

impl Default for Random {
    fn default() -> Self {
        Self(Cell::new(random::UNSEEDED))
    }
}
