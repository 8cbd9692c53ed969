//! The context of commands that deal with the connection or the server.

use std::cell::Cell;

use crate::base::clock::Millis;
use crate::base::error::CommandError;
use crate::clients::instance::Instance;
use crate::clients::session::{Flow, Session};
use crate::spec::{Args, Table};

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
    /// Fails if the client may not run this command in the root world. For what touches the process or its files, which
    /// no space has for itself.
    pub fn permit_at_root(&self, args: &Args<'_>) -> Result<(), CommandError> {
        let words = args.words();
        let Some(row) = self.table.row_of(words) else { return Ok(()) };
        self.server.permit_at_root(self.session, self.table, row.spec, words)
    }

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
