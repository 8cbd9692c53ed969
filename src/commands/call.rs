//! What a connection command is given, and what it can ask of its connection.

use std::cell::Cell;

use crate::base::clock::Millis;
use crate::clients::instance::Instance;
use crate::clients::session::{Flow, Session};
use crate::spec::Table;

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
