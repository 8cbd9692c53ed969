//! The context of commands that deal with the connection or the server.

use std::cell::Cell;

use crate::base::clock::Millis;
use crate::clients::instance::Instance;
use crate::clients::session::{Flow, Session};
use crate::spec::Table;

/// What such a command receives beside its arguments.
pub struct Call<'a> {
    pub server: &'a Instance,
    pub table: &'a Table,
    pub session: &'a mut Session,
    /// The command's time in microseconds, once it is known. In a transaction it is set from the start.
    pub instant: Cell<Option<i64>>,
    /// What happens to the connection after the reply is written.
    pub flow: Flow,
}

impl Call<'_> {
    /// The command's time in milliseconds.
    pub fn now(&self) -> Millis {
        self.micros().div_euclid(1000)
    }

    /// The command's time in microseconds. Every call returns the same.
    pub fn micros(&self) -> i64 {
        let micros = self.instant.get().unwrap_or_else(|| self.server.clock.micros());
        self.instant.set(Some(micros));
        micros
    }
}
