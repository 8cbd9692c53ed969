//! What a script asks of the server that runs it.

use std::cell::RefCell;

use super::random::Random;
use super::register::Function;
use crate::base::error::CommandError;
use crate::base::log::Level;
use crate::base::profile::Profile;
use crate::protocol::{OwnedWords, Protocol, Words};

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

/// Who called a script, and for what.
#[derive(Clone, Copy)]
pub struct Invocation<'r> {
    pub keys: Words<'r>,
    pub arguments: Words<'r>,
    pub host: &'r dyn Host,
    /// The client's protocol.
    pub client: Protocol,
}
