//! What a connection command is given, and what it can ask of its connection.

use std::cell::Cell;

use super::table::Table;
use crate::clock::Millis;
use crate::instance::Instance;
use crate::resp::Reply;
use crate::session::Session;

/// One run of a command that deals with the connection or the server.
pub struct Call<'a> {
    pub server: &'a Instance,
    pub table: &'a Table,
    pub session: &'a mut Session,
    /// The command's instant, in microseconds, once it is known: a transaction has one from the start.
    pub instant: Cell<Option<i64>>,
    /// What happens to the connection once the reply is written.
    pub flow: Flow,
}

impl Call<'_> {
    /// The command's instant, in milliseconds.
    pub fn now(&self) -> Millis {
        self.micros().div_euclid(1000)
    }

    /// The command's instant, in microseconds: the same, however often it is asked for.
    pub fn micros(&self) -> i64 {
        let micros = self.instant.get().unwrap_or_else(|| self.server.clock.micros());
        self.instant.set(Some(micros));
        micros
    }
}

/// How a connection goes on after a command.
#[derive(Debug)]
pub enum Flow {
    Continue,
    /// Write what there is to write, then close.
    Close,
    /// Close at once, whatever is still unwritten.
    Drop,
    /// Go over to another space, and on with the next request there.
    Move(Box<Destination>),
    /// The command has no answer yet. In a box, so that all other commands have little to hand on.
    Wait(Box<Waiting>),
}

/// The space that a connection goes to; without a name, it is where it was when it was opened.
#[derive(Debug)]
pub struct Destination(pub Vec<u8>);

/// What a connection waits for before it goes on to its next request.
#[derive(Debug)]
pub enum Waiting {
    /// For CLIENT PAUSE to end; then the same request is tried again.
    Unpause,
    /// For a script that takes long.
    Script,
    /// For a deadline (or for ever), or for CLIENT UNBLOCK; then this is the reply.
    Until { deadline: Option<Millis>, reply: Reply<'static> },
}
