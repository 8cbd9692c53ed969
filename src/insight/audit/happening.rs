//! What the auditor makes of the steps of clients, as the rules are told of it.

use std::time::Duration;

use super::finding::{Evidence, Finding, Mark};
use super::lock::{Lock, Reason, Who};
use super::party::{Parties, Read};
use super::report::Report;
use super::rules::Wide;
use super::step::{Expiry, Guard, Intent};
use super::{Code, Severity};
use crate::base::duration::spell_duration;

/// Something that has happened to a lock. Positions are those in the lock's `holds`.
#[derive(Debug)]
pub enum Happening<'a> {
    /// Somebody has got it: the last of `holds` is new. Others in there believe that they have it, too.
    Acquired {
        /// What was there before, for a lock that was taken over.
        old: Option<&'a [u8]>,
    },
    /// Somebody was refused.
    Refused {
        /// What it offered.
        value: &'a [u8],
    },
    /// Somebody has read it.
    Seen { value: Option<&'a [u8]> },
    /// It is about to be gone: somebody deletes it. `hold` is the one that the server stands by.
    Removed {
        hold: Option<usize>,
        guard: Guard<'a>,
        /// Whoever deletes it gives back a lock of its own: by its connection, or by its token.
        is_release: bool,
        /// What it has read there last, if it has.
        read: Option<Read>,
    },
    /// Somebody wanted to delete or extend what is not there, or not its own, and was told so. `late` is whether it once
    /// held the lock: how that ended is in the lock's `past`.
    Missed { token: Option<&'a [u8]>, intent: Intent, late: bool },
    /// It is about to get another deadline. `hold` is the one that the server stands by.
    Extended {
        hold: Option<usize>,
        guard: Guard<'a>,
        /// It is the holder who does that, by its connection or by its token.
        is_own: bool,
        expiry: Expiry,
        /// The deadline that it gets, in milliseconds.
        deadline: Option<i64>,
        /// It also gets this value.
        value: Option<&'a [u8]>,
    },
    /// Its value is about to be overwritten by somebody who does not hold it. `hold` is the one that the server stands by.
    Overwritten {
        hold: Option<usize>,
        value: &'a [u8],
        deadline: Option<i64>,
        /// GETSET, which tells what was there.
        by_getset: bool,
        /// What the client has read there last, if it has.
        read: Option<Read>,
    },
    /// A hold is about to be over, because its time is.
    Expired { hold: usize },
    /// The connection of a holder has ended.
    Closed { hold: usize },
    /// It is about to be gone with all others.
    Flushed {
        hold: usize,
        /// The server began anew.
        is_restart: bool,
    },
    /// Somebody writes what it has touched while it held the lock, and its hold is over: how is in the lock's `past`, or it
    /// believes to hold it still.
    Worked { key: &'a [u8] },
    /// There is nothing more to come; somebody still holds it.
    Ended { hold: usize },
    /// The server has not got the key any more, and nobody has named it: also if those who took it are no longer there to
    /// hold it.
    Gone { how: Gone },
    /// There is nothing more to come, whoever holds it. Comes behind what is said of each that does.
    Over,
}

/// How a key went that nobody has named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gone {
    /// Its time was over.
    Expired,
    /// All keys were deleted, or the server began anew.
    Flushed,
}

/// Where and when something happens, and to whom a rule can tell what it finds.
pub struct Scene<'s> {
    pub lock: &'s mut Lock,
    /// Who does it; nobody if it happens by itself.
    pub by: Option<&'s Who>,
    /// The command or event. At the moment at which a hold expires, that.
    pub mark: Mark,
    /// Its reply has not reached the client.
    pub is_lost: bool,
    /// When its client gets the reply, in real time in microseconds, if that is later than at once.
    pub told: Option<i64>,
    pub parties: &'s mut Parties,
    pub wide: &'s mut Wide,
    pub report: &'s mut Report,
}

/// What a rule has found.
pub struct Draft {
    pub code: Code,
    /// If it is another one than usual.
    pub severity: Option<Severity>,
    pub sentence: String,
    pub evidence: Vec<Evidence>,
    /// Whose mistake it is, by client; 0 if nobody's. The same by the same counts as once.
    pub culprit: u64,
}

impl Scene<'_> {
    /// Tells what a rule has found about this lock; at once if it is known to be one, or else as soon as it is.
    pub fn tell(&mut self, draft: Draft) {
        self.add(draft, 1);
    }

    /// Tells more about what was told before of the same culprit, now that more is known: it does not count again.
    pub fn tell_more(&mut self, draft: Draft) {
        self.add(draft, 0);
    }

    fn add(&mut self, draft: Draft, times: u64) {
        let Draft { code, severity, sentence, mut evidence, culprit } = draft;
        evidence.sort_by_key(|evidence| (evidence.mark.real, evidence.mark.seq));
        evidence.dedup_by(|later, earlier| {
            (later.mark.server, later.mark.seq) == (earlier.mark.server, earlier.mark.seq) && later.mark.seq != 0
        });
        let place = &self.lock.place;
        let finding = Finding {
            code,
            severity: severity.unwrap_or(code.severity()),
            server: place.server,
            db: place.db,
            key: place.key.clone(),
            sentence,
            evidence,
            times,
            seq: self.mark.seq,
            last_seq: self.mark.seq,
            at: self.mark.at,
            culprit,
            allowed: None,
        };
        if self.lock.is_known() {
            self.report.add(finding);
        } else {
            Report::hold_back(&mut self.lock.pending, finding);
        }
    }

    /// There is a reason to take the key for a lock. What was found so far counts, if it is the first.
    pub fn note_reason(&mut self, reason: Reason) {
        let lock = &mut *self.lock;
        let was_known = lock.is_known();
        lock.reasons.add(reason);
        if !was_known && lock.is_known() {
            self.report.locks += 1;
            lock.pending.drain(..).for_each(|finding| self.report.add(finding));
        }
    }

    /// How much a client has done beside locks, if it has to do with any.
    pub fn work_of(&self, who: &Who) -> u64 {
        self.parties.get(&(who.server, who.client)).map_or(0, |party| party.work)
    }

    /// What happens now, with a few words about it.
    pub fn now(&self, what: impl Into<String>) -> Evidence {
        Evidence { mark: self.mark.clone(), what: what.into() }
    }
}

/// A stretch of time as a sentence has it, from microseconds.
pub fn spelled(micros: i64) -> String {
    spell_duration(Duration::from_millis(u64::try_from(micros / 1000).unwrap_or(0)))
}

impl Mark {
    /// This with a few words about what it shows.
    pub fn shows(&self, what: impl Into<String>) -> Evidence {
        Evidence { mark: self.clone(), what: what.into() }
    }

    /// Who did it, as a sentence has it: `worker-a (client 7)`, or `client 7`.
    pub fn actor(&self) -> String {
        actor(&self.name, self.client, self.server)
    }
}

impl Who {
    /// As a sentence has it: `worker-a (client 7)`, or `client 7`.
    pub fn actor(&self) -> String {
        actor(&self.name, self.client, self.server)
    }
}

fn actor(name: &str, client: u64, server: u16) -> String {
    let on = if server > 1 { format!(" on server {server}") } else { String::new() };
    if name.is_empty() { format!("client {client}{on}") } else { format!("{name} (client {client}{on})") }
}
