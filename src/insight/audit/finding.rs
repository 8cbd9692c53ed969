//! What the auditor has found, and by what that is proved.

use std::sync::Arc;

use super::code::{Code, Severity};

/// One command or event that a finding rests on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Which server it was sent to, from 1.
    pub server: u16,
    /// Its place in the order of that server's journal.
    pub seq: u64,
    /// When it took effect on the server's clock, in microseconds since 1970,
    pub at: i64,
    /// and in real time.
    pub real: i64,
    /// Who sent it; 0 if nobody did.
    pub client: u64,
    /// As CLIENT SETNAME has given it; empty without.
    pub name: Arc<str>,
    /// The command on one line, cut off if it is long.
    pub line: Arc<str>,
}

/// A mark with what it shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// The command or event.
    pub mark: Mark,
    /// What happened there, in a few words without a subject: "took the lock until 12:00:01.000".
    pub what: String,
}

/// Something that is wrong, or looks like it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What kind of finding it is.
    pub code: Code,
    /// How bad it is.
    pub severity: Severity,
    /// The server that has the lock, from 1,
    pub server: u16,
    /// and the database.
    pub db: u32,
    /// The lock; empty if it is about no one lock.
    pub key: Arc<[u8]>,
    /// One plain sentence that names the lock and the clients.
    pub sentence: String,
    /// In the order in which it happened.
    pub evidence: Vec<Evidence>,
    /// How often the same was seen; only the first time is told in full.
    pub times: u64,
    /// The place in the order of the command that made it a finding, the first time
    pub seq: u64,
    /// and the last time.
    pub last_seq: u64,
    /// When that was on the server's clock.
    pub at: i64,
    /// Who did it, if somebody did: the same of the same client counts as once.
    pub culprit: u64,
    /// Why it is allowed, if it is.
    pub allowed: Option<String>,
}
