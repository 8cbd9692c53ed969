//! Why a key is taken for a lock, or not: what was seen, in words, and how to say that it is otherwise.

use std::fmt::{self, Display, Formatter};
use std::sync::Arc;

use super::audit_state::{AuditState, is_matched};
use super::code::Code;
use super::finding::{Finding, JournalRef};
use super::lock::{Lock, LockId};
use super::lock_reason::LockReason;
use super::presumed_locks::{PresumedLocks, PresumedReason};
use crate::base::text::{printable, utf8_or_escaped};

/// Why a key is taken for a lock, or why not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockExplanation {
    /// The key.
    pub key: Arc<[u8]>,
    /// Its database.
    pub db: u32,
    /// Its server, from 1.
    pub server: u16,
    /// `lock`, `no-lock`, or `undecided`: what was seen is not enough.
    pub verdict: &'static str,
    /// The same in a sentence.
    pub sentence: String,
    /// What was seen that speaks for a lock.
    pub signs: Vec<LockSign>,
    /// The command that showed that it is none, if one did.
    pub against: Option<JournalRef>,
    /// How to say that it is otherwise.
    pub declare: String,
    /// What was found about it.
    pub findings: Vec<Code>,
}

/// Something that speaks for a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockSign {
    /// `contended`, `compared`, ...: as [`KnownLock::reasons`](crate::KnownLock::reasons), and further names for weaker
    /// signs.
    pub name: &'static str,
    /// Whether it is enough by itself. Of the weaker signs two are needed.
    pub is_enough: bool,
    /// What it is, in words.
    pub sentence: &'static str,
    /// The command that showed it first; `None` if none had to.
    pub source: Option<JournalRef>,
}

/// Why a key is taken for a lock, or not, on each server and in each database in which it was seen.
pub fn explain_key(state: &AuditState, presumed: &PresumedLocks, key: &[u8]) -> Vec<LockExplanation> {
    let codes_of = |id: &LockId| {
        let is_own =
            |finding: &&Arc<Finding>| (finding.server, finding.db, &*finding.key) == (id.server, id.db, &*id.key);
        let mut codes: Vec<_> = state.collector.findings().iter().filter(is_own).map(|finding| finding.code).collect();
        codes.sort();
        codes.dedup();
        codes
    };
    let tracked = state.locks.ids_placed(|id| *id.key == *key);
    let tracked = tracked.iter().filter_map(|id| Some(LockExplanation::of(state.locks.get(id)?, codes_of(id))));
    let mut explanations: Vec<LockExplanation> = tracked.collect();
    let is_declared = is_matched(&state.scope.locks, key);
    for (id, reason, source) in presumed.reasons_of(key) {
        explanations.retain(|explanation| (explanation.server, explanation.db) != (id.server, id.db));
        explanations.push(LockExplanation::presumed(&id, (reason, source), codes_of(&id)));
    }
    for (id, source) in state.dismissed.iter().filter(|(id, _)| *id.key == *key) {
        let is_told = explanations.iter().any(|told| (told.server, told.db) == (id.server, id.db));
        if !is_declared && !is_told && state.locks.get(id).is_none() {
            explanations.push(LockExplanation::dismissed(id, source.clone()));
        }
    }
    if explanations.is_empty() {
        let id = LockId { server: 1, db: 0, key: key.into() };
        explanations.push(match (is_matched(&state.scope.not_locks, key), is_declared) {
            (true, _) => LockExplanation::excluded(&id),
            (false, true) => LockExplanation::declared(&id, codes_of(&id)),
            (false, false) => LockExplanation::unseen(&id),
        });
    }
    explanations
}

impl LockExplanation {
    /// Of a key that is tracked.
    fn of(lock: &Lock, findings: Vec<Code>) -> Self {
        let signs: Vec<LockSign> = LockReason::ALL
            .into_iter()
            .filter(|reason| lock.reasons.has(*reason))
            .map(|reason| LockSign {
                name: reason.name(),
                is_enough: !reason.is_weak(),
                sentence: reason.sentence(),
                source: lock
                    .reason_sources
                    .iter()
                    .find(|(noted, _)| *noted == reason)
                    .map(|(_, source)| source.clone()),
            })
            .collect();
        let key = readable(&lock.id.key);
        let (verdict, sentence) = match (lock.is_known(), signs.is_empty(), lock.pending.len()) {
            (true, ..) => ("lock", format!("`{key}` is taken for a lock")),
            (false, true, _) => {
                ("undecided", format!("`{key}` may be a lock, but nothing was seen that a cache does not show, too"))
            }
            (false, false, 0) => ("undecided", format!("`{key}` may be a lock, but what was seen is not enough")),
            (false, false, count) => (
                "undecided",
                format!("`{key}` may be a lock, but what was seen is not enough; findings that wait for more: {count}"),
            ),
        };
        let is_lock = lock.is_known();
        Self::new(&lock.id, verdict, sentence, findings).with(signs, None, is_lock)
    }

    /// Of a key that is no string, and that clients use as a lock.
    fn presumed(id: &LockId, (reason, source): (PresumedReason, JournalRef), findings: Vec<Code>) -> Self {
        let sentence = format!("`{}` is taken for a lock", readable(&id.key));
        let (name, sign) = (reason.name(), reason.sentence());
        let signs = vec![LockSign { name, is_enough: true, sentence: sign, source: Some(source) }];
        Self::new(id, "lock", sentence, findings).with(signs, None, true)
    }

    /// Of a key that was written as no lock is.
    fn dismissed(id: &LockId, source: JournalRef) -> Self {
        let sentence = format!("`{}` is no lock: a command wrote it as no lock is written", readable(&id.key));
        Self::new(id, "no-lock", sentence, Vec::new()).with(Vec::new(), Some(source), false)
    }

    /// Of a key that the user has declared to be none.
    fn excluded(id: &LockId) -> Self {
        let sentence = format!("`{}` is no lock: --not-locks says so", readable(&id.key));
        let mut explanation = Self::new(id, "no-lock", sentence, Vec::new());
        explanation.declare = "take back --not-locks".to_owned();
        explanation
    }

    /// Of a key that the user has declared to be one, and that is no string, or free.
    fn declared(id: &LockId, findings: Vec<Code>) -> Self {
        let sentence = format!("`{}` is taken for a lock: --locks says so", readable(&id.key));
        let mut explanation = Self::new(id, "lock", sentence, findings);
        explanation.declare = "take back --locks".to_owned();
        explanation
    }

    /// Of a key that no command takes as a lock is taken.
    fn unseen(id: &LockId) -> Self {
        let key = readable(&id.key);
        let sentence =
            format!("`{key}` is no lock: no command was seen that takes it as a lock is taken, or it was free again");
        Self::new(id, "no-lock", sentence, Vec::new()).with(Vec::new(), None, false)
    }

    fn new(id: &LockId, verdict: &'static str, sentence: String, findings: Vec<Code>) -> Self {
        let (key, signs, declare) = (id.shared_key(), Vec::new(), String::new());
        Self { key, db: id.db, server: id.server, verdict, sentence, signs, against: None, declare, findings }
    }

    fn with(mut self, signs: Vec<LockSign>, against: Option<JournalRef>, is_lock: bool) -> Self {
        let (flag, method, otherwise) = match is_lock {
            true => ("--not-locks", "not_locks", "is none"),
            false => ("--locks", "locks", "is one"),
        };
        let glob = readable(&as_glob(&self.key));
        self.declare = format!(
            "if it {otherwise}: {flag} '{}' of redouble, redouble run and redouble audit, or .{method}({glob:?}) of the \
             builder in Rust; a glob such as 'lock:*' names many",
            glob.replace('\'', "'\\''")
        );
        (self.signs, self.against) = (signs, against);
        self
    }
}

impl Display for LockExplanation {
    fn fmt(&self, text: &mut Formatter<'_>) -> fmt::Result {
        let shown = |source: &JournalRef| {
            let client = if source.client == 0 { String::new() } else { source.placed_name() + ": " };
            printable(&format!("#{} {client}{}", source.seq, source.line)).into_owned()
        };
        let place = [
            (self.server > 1).then(|| format!("server {}", self.server)),
            (self.db > 0).then(|| format!("database {}", self.db)),
        ];
        let place: Vec<String> = place.into_iter().flatten().collect();
        let place = if place.is_empty() { String::new() } else { format!(" ({})", place.join(", ")) };
        writeln!(text, "{}{place}", printable(&self.sentence))?;
        for sign in &self.signs {
            let weaker = if sign.is_enough { "" } else { " (a weaker sign, of which two are needed)" };
            writeln!(text, "  {}: {}{weaker}", sign.name, sign.sentence)?;
            if let Some(source) = &sign.source {
                writeln!(text, "    {}", shown(source))?;
            }
        }
        if let Some(source) = &self.against {
            writeln!(text, "    {}", shown(source))?;
        }
        if !self.findings.is_empty() {
            let codes: Vec<&str> = self.findings.iter().map(|code| code.name()).collect();
            writeln!(text, "  found: {}", codes.join(", "))?;
        }
        writeln!(text, "  {}", printable(&self.declare))
    }
}

fn readable(key: &[u8]) -> String {
    printable(&utf8_or_escaped(key)).into_owned()
}

/// The glob that matches this key alone.
fn as_glob(key: &[u8]) -> Vec<u8> {
    let mut glob = Vec::with_capacity(key.len());
    for byte in key {
        if b"*?[]\\^".contains(byte) {
            glob.push(b'\\');
        }
        glob.push(*byte);
    }
    glob
}
