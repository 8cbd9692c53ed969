//! The interface from a script to the server that runs it.

use std::cell::RefCell;

use super::random::Random;
use super::register::Registered;
use super::symbolic::Hypotheses;
use crate::base::error::CommandError;
use crate::base::log::Level;
use crate::base::profile::Profile;
use crate::protocol::{OwnedWords, Protocol, Words};

/// The server, as a running script sees it.
pub trait Host {
    /// Called at a fixed interval of instructions. Returns the message of the error that ends the script, if it must
    /// end.
    fn tick(&self) -> Result<(), &'static str>;

    /// Runs a command and appends its reply, in [`protocol`](Self::protocol). An error means that the command was
    /// refused before its run.
    fn call(&self, words: Words<'_>, reply: &mut Vec<u8>) -> Result<(), CommandError>;

    /// Sets whether replicas get the commands that follow.
    fn set_replicating(&self, _sends: bool) {}

    /// The protocol of the replies that the script gets (`redis.setresp`).
    fn protocol(&self) -> Protocol;

    fn set_protocol(&self, protocol: Protocol);

    /// Whether the user may run a command; `None` if there is no such command.
    fn may_run(&self, words: Words<'_>) -> Option<bool>;

    fn log(&self, level: Level, text: &str);

    fn profile(&self) -> &Profile;

    /// Buffers that all calls of one script share.
    fn scratch(&self) -> &RefCell<ScratchBuffers>;

    fn random(&self) -> &Random;

    /// The script's reply is or contains this error. `is_counted` if it was counted when a command raised it.
    fn answer_error(&self, _line: &[u8], _is_counted: bool) {}

    /// The list of registered functions while a library loads; `None` at other times.
    fn registered(&self) -> Option<&RefCell<Registered>> {
        None
    }

    /// What the script assumes about its data, if it runs without them.
    fn symbolic(&self) -> Option<&Hypotheses<'_>> {
        None
    }
}

/// Buffers for one call of a command.
#[derive(Default)]
pub struct ScratchBuffers {
    pub words: OwnedWords,
    pub reply: Vec<u8>,
}

/// One call of a script: its keys and arguments, and the host that runs it.
#[derive(Clone, Copy)]
pub struct Invocation<'r> {
    pub keys: Words<'r>,
    pub arguments: Words<'r>,
    pub host: &'r dyn Host,
    /// The client's protocol.
    pub client: Protocol,
}
