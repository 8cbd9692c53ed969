//! What to do instead, for the mistake as it was made: a client that releases by a script is not told to use one, and a client that
//! renews is not told to renew. It follows from the commands of the evidence.

use super::code::Code;
use super::finding::{Evidence, Finding};

/// How evidence says of a hold that it was renewed before.
pub const RENEWED: &str = ", and renewed it";

/// How evidence says of a hold that its value is the time at which it ends.
pub const UNTIL_ITS_VALUE: &str = ", until the time in its value";

const TAKE_OVER: &str = "Take over a lock whose time is over with GETSET, and count it as taken only if that returns the time which GET has \
    shown: deleted, it may be another one's by then.";
/// How evidence says of a transaction that its watch began too late.
pub const WATCHED_LATE: &str = "; it watched the key only after the other write";

const COMPARE_IN_SCRIPT: &str =
    "Let the script compare the key's value with the caller's token, and delete the key only if they are equal.";
const LEAVE_TO_HOLDER: &str = "Let nobody delete or overwrite a lock without its token; for the case that it is lost all the same, guard the data \
    with a fencing token.";
const NEW_TOKENS: &str = "Make a new token for each attempt, from at least 16 random bytes: the comparison cannot tell holders apart that \
    have the same.";
const GIVE_BACK_OWN: &str =
    "Give back only what the reply of the taking command gave: who was refused, or has lost it, gives nothing back.";

impl Finding {
    /// What to do instead, in one or two sentences.
    pub fn instead(&self) -> &'static str {
        match self.code {
            Code::TwoHolders => self.for_two_holders(),
            Code::ForeignRelease | Code::BlindDelete => self.for_release_of_others(),
            Code::UncheckedRelease => match self.last() {
                Some(last) if is_script(last) => Some(COMPARE_IN_SCRIPT),
                Some(last) if is_transaction(last) => Some(
                    "WATCH the key and compare its value with your token before MULTI and DEL, or do both in one script.",
                ),
                _ => None,
            },
            Code::LateRelease if self.is_renewed() => Some(
                "Renew well before the end, at a third of the time, and stop the work when a renewal fails or comes too late.",
            ),
            Code::LateExtension => match self.last() {
                Some(last) if is(last, &["SET", "SETEX", "PSETEX"]) => Some(
                    "Renew only while the key still has your token, in one step: a script or SET IFEQ. A plain SET takes it from whoever \
                     has it by then.",
                ),
                _ => None,
            },
            Code::WorkAfterExpiry => self.for_work_after_expiry(),
            Code::LostUpdate => self.for_lost_update(),
            Code::ExpiryTooShort | Code::CloseToExpiry if self.is_renewed() => {
                Some("Renew earlier and more often, at a third of the time, and independently of how long a step of the work takes.")
            }
            Code::ForeignExtension => match self.last() {
                Some(last) if is_script(last) && ran(last, "GET") => Some(NEW_TOKENS),
                Some(last) if is_script(last) => {
                    Some("Let the script compare the key's value with the caller's token before it extends the key.")
                }
                _ => None,
            },
            Code::UncheckedExtension => match self.last() {
                Some(last) if is_script(last) => {
                    Some("Let the script compare the key's value with the caller's token before it extends the key.")
                }
                _ => None,
            },
            Code::NoExpiry | Code::ExpiryInSecondStep => match self.evidence.first() {
                Some(first) if is_script(first) => Some("Let the script that takes the lock give it its expiry, too."),
                Some(first) if is_transaction(first) => Some("Give the lock its expiry in the transaction that takes it."),
                Some(first) if !is(first, &["SET", "SETNX", "GETSET", "MSETNX"]) => {
                    Some("Take the lock and give it its expiry in one step: a script, or both in one MULTI.")
                }
                _ => None,
            },
            Code::OverwroteLiveLock => match self.evidence.iter().find(|one| one.what.starts_with("overwrote")) {
                Some(one) if is(one, &["GETSET"]) => Some(
                    "Take over with GETSET only what GET has shown to be over, and count it as taken only if GETSET returns the same value.",
                ),
                Some(one) if is(one, &["SET"]) && has_word(one, "XX") => {
                    Some("Renew only while the key still has your token, in one step: a script or SET IFEQ. XX does not look at whose it is.")
                }
                Some(one) if is_script(one) => Some("Let the script set the key only if it is free, or still has the caller's token."),
                _ => None,
            },
            Code::CheckedThenTaken => match self.last() {
                Some(last) if is(last, &["ZADD", "SADD"]) => {
                    Some("Count and add in one step, in a script; or add first, and remove yourself if you are one too many.")
                }
                _ if self.evidence.iter().any(|one| is(one, &["INCR", "INCRBY"])) => {
                    Some("Go by the reply of INCR: only the client that gets 1 has the lock, and every other one counts back.")
                }
                _ => None,
            },
            Code::ExpiryRemoved => match self.last() {
                Some(last) if is(last, &["PERSIST"]) => Some("Extend a lock, and leave its expiry there: without one it outlives its holder."),
                _ => None,
            },
            Code::LateRelease
            | Code::GetThenDelete
            | Code::ExpiryTooShort
            | Code::StaleDeleteRace
            | Code::ClockDisagrees
            | Code::MixedTimeUnits
            | Code::OddExpiry
            | Code::CloseToExpiry
            | Code::TokenReused
            | Code::TokenConstant
            | Code::TokenGuessable
            | Code::HeldAtDisconnect
            | Code::Leaked
            | Code::RenewalStopped
            | Code::RenewalNeverStops
            | Code::RetryStorm
            | Code::RetryInStep
            | Code::LostAndNotReleased
            | Code::RefusedByItself
            | Code::SelfDeadlock
            | Code::LockOrder
            | Code::FlushedLocks
            | Code::ReleaseAfterFlush
            | Code::EvictedLock
            | Code::CrossSlot
            | Code::HeldThroughFailover
            | Code::LostInFailover
            | Code::SplitBrainHolder
            | Code::WaitIgnored
            | Code::NoQuorum
            | Code::ValidityUsedUp
            | Code::OneServer
            | Code::NotReleasedEverywhere => None,
        }
        .unwrap_or(self.code.instead())
    }

    /// By what let the second one in.
    fn for_two_holders(&self) -> Option<&'static str> {
        let is_cause = |one: &&Evidence| {
            !["took", "still believed", "came in"].iter().any(|what| one.what.starts_with(what)) && !one.what.is_empty()
        };
        let Some(cause) = self.evidence.iter().find(is_cause) else {
            return self.evidence.iter().any(|one| is(one, &["GETSET"])).then_some(
                "Take over with GETSET only what GET has shown to be over, and count it as taken only if GETSET returns the same value.",
            );
        };
        match () {
            () if cause.source.client == 0 && cause.what.starts_with("evicted") => Some(Code::EvictedLock.instead()),
            () if cause.what == "had not got it" => Some(Code::HeldThroughFailover.instead()),
            () if is(cause, &["FLUSHALL", "FLUSHDB"]) || cause.source.client == 0 => Some(Code::FlushedLocks.instead()),
            () if cause.what.starts_with("gave it back") || cause.what.starts_with("put one more") => {
                Some(GIVE_BACK_OWN)
            }
            () if cause.what.starts_with("overwrote") && is(cause, &["SET", "SETEX", "PSETEX", "MSET"]) => Some(
                "Take a lock only with NX, and renew it only while it has your token: a plain SET takes it from its holder.",
            ),
            () if is(cause, &["EXPIRE", "PEXPIRE", "EXPIREAT", "PEXPIREAT"]) => {
                Some("Change the expiry of a lock only while it has your token, in one step: a script or SET IFEQ.")
            }
            () if is_script(cause) && ran(cause, "GET") => Some(NEW_TOKENS),
            () if is_script(cause) => Some(COMPARE_IN_SCRIPT),
            () if is(cause, &["DEL", "UNLINK", "GETDEL"]) && self.is_until_its_value() => Some(TAKE_OVER),
            () if is(cause, &["DEL", "UNLINK", "GETDEL"]) => Some(
                "Delete a lock only while it has your token, in one step: a script, DELEX IFEQ or DELIFEQ. By its key alone everybody \
                 deletes everybody's.",
            ),
            () => None,
        }
    }

    /// By how the other one's lock was released.
    fn for_release_of_others(&self) -> Option<&'static str> {
        let release = self.evidence.iter().rev().find(|one| one.source.client == self.culprit || self.culprit == 0)?;
        match () {
            () if is(release, &["DEL", "UNLINK", "GETDEL"]) => self.is_until_its_value().then_some(TAKE_OVER),
            () if is_script(release) && ran(release, "GET") => Some(NEW_TOKENS),
            () if is_script(release) => Some(COMPARE_IN_SCRIPT),
            () if is(release, &["DELEX", "DELIFEQ"]) => Some(NEW_TOKENS),
            () if is(release, &["DECR", "DECRBY", "INCRBY", "SREM", "ZREM", "HDEL", "HINCRBY", "LPUSH", "RPUSH"]) => {
                Some(GIVE_BACK_OWN)
            }
            () => None,
        }
    }

    fn for_work_after_expiry(&self) -> Option<&'static str> {
        let has = |what: &str| self.evidence.iter().any(|one| one.what.starts_with(what));
        match () {
            () if has("was told that the lock is lost") => {
                Some("Stop the work as soon as a reply says that the lock is gone, and write nothing more under it.")
            }
            () if has("deleted the lock") || has("overwrote the lock") => Some(LEAVE_TO_HOLDER),
            () if has("evicted") => Some(Code::EvictedLock.instead()),
            () if self.is_renewed() => {
                Some("Stop the work when a renewal fails or comes too late, and guard the data with a fencing token.")
            }
            () if has("deleted all keys") || has("swapped") || has("had not got") => None,
            () => Some(
                "Give the lock more time than the work ever takes, or renew it; for the case that it is lost all the same, check it before \
                 each write, or guard the data with a fencing token.",
            ),
        }
    }

    /// By which of the two had a lock, and when.
    fn for_lost_update(&self) -> Option<&'static str> {
        let took: Vec<&Evidence> = self.evidence.iter().filter(|one| one.what.starts_with("took `")).collect();
        let write =
            self.evidence.iter().rev().find(|one| one.source.client == self.culprit && one.what.starts_with("wrote"));
        let own_lock = took.iter().find(|one| one.source.client == self.culprit);
        let has_read_before = own_lock.is_some_and(|lock| {
            let is_read = |one: &&Evidence| one.what.starts_with("read") || one.what.starts_with("found nothing");
            let read = self.evidence.iter().find(|one| is_read(one) && one.source.client == self.culprit);
            read.is_some_and(|read| read.source.place < lock.source.place && read.source.server == lock.source.server)
        });
        match took.as_slice() {
            _ if write.is_some_and(|write| write.what.ends_with(WATCHED_LATE)) => Some(
                "WATCH the key before you read it, not after, and begin anew when EXEC returns nil: what was written before the watch \
                 stops no EXEC.",
            ),
            _ if self
                .evidence
                .iter()
                .any(|one| one.what.starts_with("deleted `") || one.what.starts_with("overwrote `")) =>
            {
                Some(LEAVE_TO_HOLDER)
            }
            [] if write.is_some_and(is_transaction) => Some(
                "WATCH the key before you read it, and begin anew when EXEC returns nil: a transaction alone does not notice other writes.",
            ),
            [] if write.is_some_and(is_script) => Some("Read the value in the script that writes it."),
            [] => None,
            [_] => Some("Take the same lock in every program that writes this data, and write only if it was given."),
            [one, other] if one.what != other.what || one.source.server != other.source.server => Some(
                "Guard the data with one lock: the same key, on the same server, in the same database, in every program that writes it.",
            ),
            _ if has_read_before => {
                Some("Read the value again after you have taken the lock: what was read before may be old.")
            }
            _ => Some(
                "Keep the lock from the read until after the write, longer than the work ever takes; for the case that it is lost, let the \
                 write fail: a fencing token, or a script that compares.",
            ),
        }
    }

    /// Whether the value of the lock is the time at which it ends.
    fn is_until_its_value(&self) -> bool {
        self.evidence.iter().any(|one| one.what.contains(UNTIL_ITS_VALUE))
    }

    fn last(&self) -> Option<&Evidence> {
        self.evidence.last()
    }

    /// Whether the lock was renewed before it was lost.
    fn is_renewed(&self) -> bool {
        self.evidence.iter().any(|one| one.what.contains(RENEWED))
    }
}

/// Whether the command is one of these.
fn is(evidence: &Evidence, names: &[&str]) -> bool {
    let name = evidence.source.line.split(' ').next().unwrap_or_default();
    names.iter().any(|known| name.eq_ignore_ascii_case(known))
}

fn is_script(evidence: &Evidence) -> bool {
    is(evidence, &["EVAL", "EVALSHA", "FCALL"])
}

fn is_transaction(evidence: &Evidence) -> bool {
    is(evidence, &["EXEC"])
}

fn has_word(evidence: &Evidence, word: &str) -> bool {
    evidence.source.line.split(' ').any(|other| other.eq_ignore_ascii_case(word))
}

/// Whether a script ran such a command.
fn ran(evidence: &Evidence, name: &str) -> bool {
    let inside = evidence.source.line.split_once(" (ran ").map_or("", |(_, inside)| inside);
    inside.split("; ").any(|command| command.split(' ').next().is_some_and(|word| word.eq_ignore_ascii_case(name)))
}
