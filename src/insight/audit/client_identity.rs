//! Which connection a client is, and whether two connections belong to one program.

use std::sync::Arc;

use super::finding::{JournalRef, display_name};

/// A connection to a server.
#[derive(Clone, Debug)]
pub struct ClientIdentity {
    pub server: u16,
    pub id: u64,
    /// The name from CLIENT SETNAME; empty without one.
    pub name: Arc<str>,
    pub address: Arc<str>,
}

/// Whether two connections belong to one program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SameProgram {
    Yes,
    No,
    /// At least one of the connections has no name.
    Unknown,
}

impl ClientIdentity {
    /// One connection is one program. Two connections are told apart by their names.
    pub fn same_program(&self, other: &Self) -> SameProgram {
        same_program((self.server, self.id, &self.name), (other.server, other.id, &other.name))
    }

    /// The same for the client of a command.
    pub fn same_program_as(&self, source: &JournalRef) -> SameProgram {
        same_program((self.server, self.id, &self.name), (source.server, source.client, &source.name))
    }

    pub fn is_same_connection(&self, other: &Self) -> bool {
        self.server == other.server && self.id == other.id
    }

    /// The client in a sentence: `worker-a (client 7)`, or `client 7`.
    pub fn display_name(&self) -> String {
        display_name(&self.name, self.id, self.server)
    }
}

fn same_program(one: (u16, u64, &str), other: (u16, u64, &str)) -> SameProgram {
    if (one.0, one.1) == (other.0, other.1) {
        return SameProgram::Yes;
    }
    match (one.2.is_empty(), other.2.is_empty()) {
        (false, false) if one.2 == other.2 => SameProgram::Yes,
        (false, false) => SameProgram::No,
        _ => SameProgram::Unknown,
    }
}
