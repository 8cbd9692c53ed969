//! What the auditor found, and the commands that prove it.

use std::sync::Arc;

use super::client_process::ClientProcess;
use super::code::{Code, Severity};

/// A command or event in a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalRef {
    /// The server that received it, from 1.
    pub server: u16,
    /// Its number in that server's journal.
    pub seq: u64,
    /// When it took effect: on the server's clock, in microseconds since 1970.
    pub at: i64,
    /// The same in real time.
    pub real: i64,
    /// The earliest real time at which it may have taken effect: before `real` only of a command to an upstream server,
    /// of which it is known when it was sent, and when its reply came.
    pub earliest: i64,
    /// Its place in the order in which commands took effect, as far as it is known: the same as `seq`, unless replies of an
    /// upstream server came in another order.
    pub place: u64,
    /// The real address of the node that it was sent to, or that an event is about, with a Cluster or a Sentinel set.
    pub node: Option<Arc<str>>,
    /// The client that sent it; 0 if none did.
    pub client: u64,
    /// The client's name from CLIENT SETNAME; empty without one.
    pub name: Arc<str>,
    /// The client's process, if it is known.
    pub process: Option<Arc<ClientProcess>>,
    /// The command on one line, cut off if it is long.
    pub line: Arc<str>,
}

/// A command or event, with what it shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// The command or event.
    pub source: JournalRef,
    /// What it did, without a subject: "took the lock until 12:00:01.000".
    pub what: String,
}

/// A misuse of a lock, or what looks like one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The kind of finding.
    pub code: Code,
    /// How bad it is.
    pub severity: Severity,
    /// The server that has the lock, from 1.
    pub server: u16,
    /// The database that has the lock.
    pub db: u32,
    /// The lock's key; empty if the finding is about no single lock.
    pub key: Arc<[u8]>,
    /// One sentence that names the lock and the clients.
    pub sentence: String,
    /// The commands that prove it, in the order in which they took effect.
    pub evidence: Vec<Evidence>,
    /// How often it was seen; only the first time is described in full.
    pub times: u64,
    /// The number in the journal of the command that completed it, the first time.
    pub seq: u64,
    /// The same for the last time.
    pub last_seq: u64,
    /// When it was completed, in microseconds on the server's clock.
    pub at: i64,
    /// The client whose mistake it is; 0 if nobody's. The same code for the same culprit is one finding.
    pub culprit: u64,
    /// The mark that it came after (`REDOUBLE MARK`), such as the name of a test.
    pub mark: Option<Arc<str>>,
    /// The reason why it is allowed, if it is.
    pub allowed: Option<String>,
}

impl Finding {
    /// About how many bytes it takes.
    pub fn memory(&self) -> usize {
        /// What a table takes in which it is found again, and what the allocator adds.
        const AROUND: usize = 256;
        let evidence = |evidence: &Evidence| size_of::<Evidence>() + evidence.what.len() + evidence.source.line.len();
        size_of::<Self>()
            + AROUND
            + self.key.len()
            + self.sentence.len()
            + self.evidence.iter().map(evidence).sum::<usize>()
    }
}

impl JournalRef {
    /// What no client did, at this place of a server's journal.
    pub fn of_nobody(server: u16, (seq, at, real): (u64, i64, i64), line: &str) -> Self {
        Self {
            server,
            seq,
            at,
            real,
            earliest: real,
            place: seq,
            node: None,
            client: 0,
            name: Arc::from(""),
            process: None,
            line: Arc::from(line),
        }
    }

    /// This command as evidence.
    pub fn shows(&self, what: impl Into<String>) -> Evidence {
        Evidence { source: self.clone(), what: what.into() }
    }

    /// The client in a sentence: `python worker.py (pid 4711)`, `worker-a (client 7)`, or `client 7`.
    pub fn display_name(&self) -> String {
        display_name(&self.name, self.client, self.server, self.process.as_deref())
    }

    /// The same with the node that the client is connected to, if there is a deployment: `worker-a (client 7) on 10.0.0.1:7001`.
    pub fn placed_name(&self) -> String {
        match &self.node {
            Some(node) => format!("{} on {node}", self.display_name()),
            None => self.display_name(),
        }
    }
}

/// A client in a sentence: its name, if it has one, or its process. That is the same on all servers; its connections are
/// numbered if it has several.
pub fn display_name(name: &str, client: u64, server: u16, process: Option<&ClientProcess>) -> String {
    let on = if server > 1 { format!(" on server {server}") } else { String::new() };
    let program = process.and_then(|process| process.process.display_name());
    match (program, process.is_some_and(ClientProcess::is_only_client), name) {
        (Some(program), true, "") => program,
        (Some(program), false, "") => format!("client {client}{on} of {program}"),
        (None, _, "") => format!("client {client}{on}"),
        (_, _, name) => format!("{name} (client {client}{on})"),
    }
}
