//! Which connection a client is, and whether two connections belong to one program.

use std::ops::Deref;
use std::sync::Arc;

use super::client_process::ClientProcess;
use super::finding::{JournalRef, display_name};
use crate::base::process::Process;

/// A connection to a server, at one of its commands. Copies share the labels.
#[derive(Clone, Debug)]
pub struct ClientIdentity {
    pub server: u16,
    pub id: u64,
    /// The real time of the command that this is about, in microseconds since 1970.
    pub seen: i64,
    pub labels: Arc<ClientLabels>,
}

/// What a connection is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientLabels {
    /// The name from CLIENT SETNAME; empty without one.
    pub name: Arc<str>,
    pub address: Arc<str>,
    /// The client's process, if it is known.
    pub process: Option<Arc<ClientProcess>>,
}

impl Deref for ClientIdentity {
    type Target = ClientLabels;

    fn deref(&self) -> &ClientLabels {
        &self.labels
    }
}

/// Whether two connections belong to one program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SameProgram {
    Yes,
    No,
    /// At least one of the connections has no name, and their processes do not tell.
    Unknown,
}

/// What tells connections apart.
struct Signs<'a> {
    connection: (u16, u64),
    name: &'a str,
    process: Option<&'a ClientProcess>,
    seen: i64,
}

impl ClientIdentity {
    /// One connection is one program. Two connections are told apart by their processes, and by their names.
    pub fn same_program(&self, other: &Self) -> SameProgram {
        self.signs().same_program(&other.signs())
    }

    /// The same for the client of a command.
    pub fn same_program_as(&self, source: &JournalRef) -> SameProgram {
        self.signs().same_program(&Signs {
            connection: (source.server, source.client),
            name: &source.name,
            process: source.process.as_deref(),
            seen: source.real,
        })
    }

    pub fn is_same_connection(&self, other: &Self) -> bool {
        self.server == other.server && self.id == other.id
    }

    /// The command that this is about, as far as it ran in the order of its number.
    pub fn source(&self, (seq, at): (u64, i64), line: Arc<str>) -> JournalRef {
        JournalRef {
            server: self.server,
            seq,
            at,
            real: self.seen,
            earliest: self.seen,
            place: seq,
            node: None,
            client: self.id,
            name: Arc::clone(&self.name),
            process: self.process.clone(),
            line,
        }
    }

    /// Whether a line with this name and process is of the client as it is known.
    pub fn has_labels(&self, (name, process): (&[u8], Option<&Arc<Process>>)) -> bool {
        let is_named = self.name.as_bytes() == name || *self.name == *String::from_utf8_lossy(name);
        self.process.is_some() == process.is_some() && is_named
    }

    /// Whether both connections are known to be of one process.
    pub fn is_same_process(&self, other: &Self) -> bool {
        self.process.as_ref().zip(other.process.as_ref()).is_some_and(|(one, other)| one.is(other))
    }

    /// The same for the client of a command.
    pub fn is_same_process_as(&self, source: &JournalRef) -> bool {
        self.process.as_ref().zip(source.process.as_ref()).is_some_and(|(one, other)| one.is(other))
    }

    /// Whether one connection may take locks for what the other one does, as the connections of one program do.
    pub fn may_work_for(&self, other: &Self) -> bool {
        let is_one = match self.same_program(other) {
            SameProgram::Yes => true,
            SameProgram::No => false,
            SameProgram::Unknown => self.is_same_process(other),
        };
        is_one && !self.is_same_connection(other)
    }

    /// The client in a sentence: `python worker.py (pid 4711)`, `worker-a (client 7)`, or `client 7`.
    pub fn display_name(&self) -> String {
        display_name(&self.name, self.id, self.server, self.process.as_deref())
    }

    /// The client's process, if it is known.
    pub fn known_process(&self) -> Option<Arc<Process>> {
        self.process.as_ref().map(|process| Arc::clone(&process.process))
    }

    /// More is known now of the client's process.
    pub fn set_process(&mut self, process: &Arc<ClientProcess>) {
        Arc::make_mut(&mut self.labels).process = Some(Arc::clone(process));
    }

    fn signs(&self) -> Signs<'_> {
        let Self { server, id, seen, labels } = self;
        Signs { connection: (*server, *id), name: &labels.name, process: labels.process.as_deref(), seen: *seen }
    }
}

impl Signs<'_> {
    fn same_program(&self, other: &Self) -> SameProgram {
        if self.connection == other.connection {
            return SameProgram::Yes;
        }
        if self.is_other_process(other) {
            return SameProgram::No;
        }
        match (self.name.is_empty(), other.name.is_empty()) {
            (false, false) if self.name == other.name => SameProgram::Yes,
            (false, false) => SameProgram::No,
            _ => SameProgram::Unknown,
        }
    }

    /// Whether they are two processes of which none can go on with what the other one has begun: they have lived at the
    /// same time, and none was started by the other one after what is looked at.
    fn is_other_process(&self, other: &Self) -> bool {
        let (Some(one), Some(another)) = (self.process, other.process) else { return false };
        !one.is(another)
            && one.was_alongside(another)
            && !one.may_inherit(another, other.seen)
            && !another.may_inherit(one, self.seen)
    }
}
