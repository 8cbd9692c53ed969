//! What the commands of clients show about which connections belong to one program.
//!
//! Connections of one process with the same name belong together, those with different names do not. Of connections without
//! a name it is unknown, unless their commands show it.

use std::sync::Arc;

use super::client_identity::ClientIdentity;
use super::finding::JournalRef;
use crate::base::process::Process;

/// What was seen of one lock's clients.
#[derive(Clone, Default)]
pub struct ProgramLinks {
    /// A token was released over another connection than the one that took the lock: a pool of one program.
    pub is_pooled: bool,
    /// The last command that deleted or overwrote the lock and was certainly not of the holder's program.
    foreign_command: Option<u64>,
    /// The connection that released the lock last by comparing its token.
    comparing: Option<(u16, u64)>,
}

impl ProgramLinks {
    /// Whether nothing was seen.
    pub fn is_initial(&self) -> bool {
        let Self { is_pooled, foreign_command, comparing } = self;
        !is_pooled && foreign_command.is_none() && comparing.is_none()
    }

    pub fn note_foreign(&mut self, source: &JournalRef) {
        self.foreign_command = Some(source.seq);
    }

    pub fn is_foreign(&self, source: &JournalRef) -> bool {
        self.foreign_command == Some(source.seq)
    }

    pub fn note_comparing(&mut self, client: &ClientIdentity) {
        self.comparing = Some((client.server, client.id));
    }

    /// Whether a connection has released the lock by comparing its token, and no other one has since.
    pub fn is_comparing(&self, client: &ClientIdentity) -> bool {
        self.comparing == Some((client.server, client.id))
    }
}

/// The servers on which several parts of a program share connections without a name, and the process of the program. None
/// of these connections is certain to be a stranger to another one.
#[derive(Clone, Default)]
pub struct SharedConnections {
    known: Vec<(u16, Option<Arc<Process>>)>,
}

/// How many processes are remembered that share connections.
const MAX_SHARED: usize = 1024;

impl SharedConnections {
    pub fn note(&mut self, client: &ClientIdentity) {
        if client.name.is_empty() && self.known.len() < MAX_SHARED && !self.are_seen_on(client.server, Some(client)) {
            self.known.push((client.server, client.known_process()));
        }
    }

    /// Whether a client may be one of them. What the connections of one process show says nothing of another one's.
    pub fn are_seen_on(&self, server: u16, client: Option<&ClientIdentity>) -> bool {
        let process = client.and_then(|client| client.process.as_ref());
        self.known.iter().any(|(on, shared)| {
            let is_other = shared.as_ref().zip(process).is_some_and(|(shared, own)| !shared.is(&own.process));
            *on == server && !is_other
        })
    }
}
