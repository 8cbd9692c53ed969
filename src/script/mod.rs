//! The Lua host: runs a script, and calls the server back for the commands that the script runs.
//!
//! Knows Lua, the sandbox, libraries of functions, and which scripts need no Lua; no command and no data.
//! May use: `base`, `protocol`.
//! Begin with [`Interpreters`], the Lua states of one server.

mod api;
mod arguments;
mod bit;
mod cjson;
mod cmsgpack;
mod compiled;
mod convert;
mod direct;
mod eval;
mod fiber;
mod functions;
mod host;
mod interpreters;
mod lua;
mod random;
mod register;
mod sandbox;
mod scripts;
mod shebang;
mod structs;
pub mod symbolic;
pub mod texts;
mod tokens;
mod vm;

#[cfg(test)]
mod library_tests;

pub use compiled::{Script, ScriptKind};
pub use eval::Origin;
pub use fiber::{Fiber, FiberStack, FiberState, Yielder};
pub use functions::{Library, RestorePolicy};
pub use host::{Host, Invocation, ScratchBuffers};
pub use interpreters::Interpreters;
pub use random::Random;
pub use register::Function;
pub use scripts::{BusyScript, KillError, KillReason, Scripts};
pub use shebang::ScriptFlags;
