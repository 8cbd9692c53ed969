//! What the commands of clients show about which connections belong to one program.
//!
//! Connections with the same name belong together, those with different names do not. Of connections without a name it
//! is unknown, unless their commands show it.

use super::client_identity::ClientIdentity;
use super::finding::JournalRef;

/// What was seen of one lock's clients.
#[derive(Clone, Default)]
pub struct ProgramLinks {
    /// A token was released over another connection than the one that took the lock: a pool of one program.
    pub is_pooled: bool,
    /// The last command that deleted or overwrote the lock and was certainly not of the holder's program.
    foreign_command: Option<u64>,
}

impl ProgramLinks {
    pub fn note_foreign(&mut self, source: &JournalRef) {
        self.foreign_command = Some(source.seq);
    }

    pub fn is_foreign(&self, source: &JournalRef) -> bool {
        self.foreign_command == Some(source.seq)
    }
}

/// The servers on which several parts of a program share connections without a name. None of these connections is
/// certain to be a stranger to another one.
#[derive(Clone, Default)]
pub struct SharedConnections {
    servers: Vec<u16>,
}

impl SharedConnections {
    pub fn note(&mut self, client: &ClientIdentity) {
        if client.name.is_empty() && !self.servers.contains(&client.server) {
            self.servers.push(client.server);
        }
    }

    pub fn are_seen_on(&self, server: u16) -> bool {
        self.servers.contains(&server)
    }
}
