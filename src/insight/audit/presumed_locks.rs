//! Keys that are no strings and that nobody declares, but that clients use as locks are used: counters that they count up from
//! nothing, members that they add and remove, tokens that they take out of a list and put back.
//!
//! Sets, counters and queues are used like that, too. So what looks like a mistake waits until it is a fact that the key is
//! a lock that let two in: both wrote the same data while they had it, and both gave it back. A key whose name says lock
//! needs less, and a set of holders that count each other, too.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use foldhash::fast::FixedState;
use smallvec::SmallVec;

use super::audit_state::{AuditState, is_matched};
use super::client_identity::ClientIdentity;
use super::finding::{Finding, JournalRef};
use super::guarded_work::{GuardedWork, hash_of, hash_on};
use super::guesses::family_of;
use super::journal_line::JournalLine;
use super::lock::LockId;
use super::lock_reason::is_named_lock;
use super::occupancy::{Act, Move, Occupancy};
use super::occupancy_commands::{Ran, applied, finding_of};
use super::reply_value::ReplyValue;
use super::rules::is_unique_token;
use crate::powers::{EventKind, Outcome, RecordHeader};
use crate::protocol::{OwnedWords, parse_integer};
use crate::spec::{CommandKind, CommandSpec, Table, TransactionCommand};

/// How many keys are followed, and how many times one is used before it is taken for none.
const MAX_KEYS: usize = 256;
const MAX_USES: u32 = 200;
/// How many keys are remembered as none.
const MAX_DISMISSED: usize = 4096;
/// How many keys may come to nothing before none is followed any more: what uses so many of them keeps data there.
const MAX_FRUITLESS: u64 = 5_000;
/// The same of keys that differ in numbers and random parts alone, and how many families of such keys are told apart.
pub const MAX_FRUITLESS_ALIKE: u32 = 500;
const MAX_FAMILIES: usize = 256;
/// How many keys a client may have at once, and how many commands it may send meanwhile.
const MAX_AT_ONCE: usize = 4;
const MAX_COMMANDS: u32 = 1000;
/// How many findings wait.
const MAX_PENDING: usize = 16;

/// The keys that may be locks, by the hashes of their names.
#[derive(Clone, Default)]
pub struct PresumedLocks {
    locks: HashMap<u64, Arc<Presumed>, FixedState>,
    /// In the order in which they were met.
    met: VecDeque<u64>,
    dismissed: HashSet<u64, FixedState>,
    fruitless: u64,
    /// How many keys of a family came to nothing; none is followed any more if that is many. `None` if one of them was a lock.
    families: HashMap<u64, Option<u32>, FixedState>,
    /// The clients that have one, or were refused.
    guests: HashMap<(u16, u64), Guest, FixedState>,
}

/// A key that may be a lock.
#[derive(Clone)]
struct Presumed {
    id: LockId,
    occupancy: Occupancy,
    guarded: GuardedWork,
    pending: Vec<Finding>,
    uses: u32,
    /// Its name says lock.
    is_named: bool,
    /// Why it is one, and the command that showed it.
    shown: Option<(PresumedReason, JournalRef)>,
}

/// Why a key is taken for a lock.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum PresumedReason {
    /// Two had it at once, wrote the same data, and gave it back.
    Broken,
    /// Its name says so, and a client wrote other data while it had it.
    Named,
    /// Its members count each other, and remove themselves.
    Semaphore,
}

impl PresumedReason {
    /// The name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Broken => "held-by-two",
            Self::Named => "name",
            Self::Semaphore => "shape",
        }
    }

    /// What was seen.
    pub fn sentence(self) -> &'static str {
        match self {
            Self::Broken => "two programs had it at once, wrote the same other key, and gave it back",
            Self::Named => "its name says lock, and a client took it, wrote another key, and gave it back",
            Self::Semaphore => "clients counted its members, added themselves with tokens, and removed themselves",
        }
    }
}

/// A client that has a key, or was refused.
#[derive(Clone, Default)]
struct Guest {
    keys: SmallVec<[u64; 2]>,
    commands: u32,
}

impl PresumedLocks {
    // ---- from headers

    /// Whether a command that its header tells is worth a look.
    #[inline]
    pub fn concerns(&self, server: u16, header: &RecordHeader<'_>, row: &CommandSpec) -> bool {
        if !self.guests.is_empty() && self.guests.contains_key(&(server, header.client)) {
            return true;
        }
        if !self.locks.is_empty() && self.locks.contains_key(&hash_on(server, header.db, header.second)) {
            return true;
        }
        if !self.may_be_about_places(row.name) {
            return false;
        }
        let is_begun = takes(row.name, (header.words, || header.all_words().nth(2)), header.reply)
            || looks_at_places(row.name, header.reply);
        is_begun
            && !self.dismissed.contains(&hash_on(server, header.db, header.second))
            && !self.are_fruitless(header.db, header.second)
    }

    /// Whether so many keys of a key's family came to nothing that none is followed any more.
    fn are_fruitless(&self, db: u32, key: &[u8]) -> bool {
        let count = || self.families.get(&family_of(db, key)).copied().flatten();
        !self.families.is_empty() && count().is_some_and(|count| count >= MAX_FRUITLESS_ALIKE)
    }

    /// A key is followed no more. If many of its family came to nothing, none of them is.
    fn note_end(&mut self, ended: &Presumed) {
        let family = family_of(ended.id.db, &ended.id.key);
        let is_of_family = |lock: &Presumed| family_of(lock.id.db, &lock.id.key) == family;
        if self.families.len() >= MAX_FAMILIES && !self.families.contains_key(&family) {
            return;
        }
        let count = self.families.entry(family).or_insert(Some(0));
        *count = count.filter(|_| ended.shown.is_none()).map(|count| count + 1);
        if *count != Some(MAX_FRUITLESS_ALIKE) {
            return;
        }
        if self.locks.values().any(|lock| lock.shown.is_some() && is_of_family(lock)) {
            *count = None;
            return;
        }
        self.locks.retain(|_, lock| !lock.pending.is_empty() || !is_of_family(lock));
        self.forget_unknown();
    }

    /// Whether a key is followed.
    pub fn knows(&self, server: u16, db: u32, key: &[u8]) -> bool {
        !self.locks.is_empty() && self.locks.contains_key(&hash_on(server, db, key))
    }

    /// Whether nothing is known of any key, nor of this client.
    pub fn is_idle(&self, server: u16, client: u64) -> bool {
        self.locks.is_empty() && !self.guests.contains_key(&(server, client))
    }

    // ---- from lines

    /// Looks at a line of the journal. `looks` tells who has found a key absent.
    pub fn note(
        &mut self,
        state: &mut AuditState,
        line: &JournalLine<'_>,
        commands: &Table,
        looks: impl Fn(&AuditState, &[u8]) -> Vec<(ClientIdentity, Arc<JournalRef>)>,
    ) {
        match line.event {
            Some(EventKind::Closed) => return self.close(state, line),
            Some(EventKind::Started | EventKind::Missing | EventKind::Promoted) => return self.forget(line.server),
            Some(_) => return,
            None if line.is_queued() || line.outcome == Outcome::NeverRan || line.was_sent_away() => return,
            None => {}
        }
        let Some(row) = line.words.first().and_then(|name| commands.find(name)) else { return };
        let runs_others = match row.kind {
            CommandKind::Script(_) | CommandKind::Transaction(TransactionCommand::Exec) => true,
            CommandKind::Keys | CommandKind::Blocking => false,
            _ => {
                if row.lock_effect.is_on_all_keys() {
                    self.forget(line.server);
                }
                return;
            }
        };
        let is_guest = self.guests.contains_key(&(line.server, line.client));
        if !runs_others && !is_guest && !self.may_be_about_places(row.name) && self.locks.is_empty() {
            return;
        }
        let is_known = !line.is_unplaced && !line.is_cut && line.outcome == Outcome::Answered && !line.is_stale;
        if !is_known || line.reply.is_empty() || runs_others && line.are_children_unknown {
            let words: OwnedWords = line.words.iter().collect();
            return commands.keys(words.as_words()).keys.iter().for_each(|key| self.drop_key(line, line.db, key));
        }
        if !runs_others {
            let ran = Ran { db: line.db, words: &line.words, reply: line.reply };
            return self.note_commands(state, line, &[ran], commands, &looks);
        }
        line.with_nested(|nested| {
            if nested.iter().any(|command| command.is_cut || command.reply.is_empty()) {
                return;
            }
            let ran: SmallVec<[Ran<'_>; 4]> = nested
                .iter()
                .map(|command| Ran { db: command.db, words: &command.words, reply: command.reply })
                .collect();
            self.note_commands(state, line, &ran, commands, &looks);
        });
    }

    /// Forgets the keys of a server.
    pub fn forget(&mut self, server: u16) {
        self.locks.retain(|_, lock| lock.id.server != server);
        let locks = &self.locks;
        self.met.retain(|hash| locks.contains_key(hash));
        self.guests.retain(|(number, _), _| *number != server);
    }

    /// Why a key is taken for a lock, on each server and in each database.
    pub fn reasons_of(&self, key: &[u8]) -> Vec<(LockId, PresumedReason, JournalRef)> {
        let of_key = self.locks.values().filter(|lock| *lock.id.key == *key);
        let mut reasons: Vec<_> = of_key
            .filter_map(|lock| lock.shown.clone().map(|(reason, source)| (lock.id.clone(), reason, source)))
            .collect();
        reasons.sort_by(|(one, ..), (other, ..)| one.cmp(other));
        reasons
    }

    fn close(&mut self, state: &AuditState, line: &JournalLine<'_>) {
        let Some(guest) = self.guests.remove(&(line.server, line.client)) else { return };
        let client = state.client_of(line);
        for hash in guest.keys {
            if let Some(lock) = self.locks.get_mut(&hash) {
                Arc::make_mut(lock).occupancy.close(&client);
            }
        }
    }

    fn drop_key(&mut self, line: &JournalLine<'_>, db: u32, key: &[u8]) {
        if !self.locks.is_empty() {
            drop(self.remove(hash_on(line.server, db, key)));
        }
    }

    fn remove(&mut self, hash: u64) -> Option<Arc<Presumed>> {
        let removed = self.locks.remove(&hash)?;
        self.met.retain(|other| *other != hash);
        Some(removed)
    }

    /// The key is none.
    fn dismiss(&mut self, hash: u64) {
        if let Some(ended) = self.remove(hash) {
            self.note_end(&ended);
        }
        if self.dismissed.len() >= MAX_DISMISSED {
            self.dismissed.clear();
        }
        self.dismissed.insert(hash);
    }

    fn note_commands(
        &mut self,
        state: &mut AuditState,
        line: &JournalLine<'_>,
        ran: &[Ran<'_>],
        commands: &Table,
        looks: &impl Fn(&AuditState, &[u8]) -> Vec<(ClientIdentity, Arc<JournalRef>)>,
    ) {
        let is_guest = self.guests.contains_key(&(line.server, line.client));
        let mut actor = None;
        for command in ran {
            let Some(row) = command.words.first().and_then(|name| commands.find(name)) else { continue };
            let is_about = self.may_be_about_places(row.name);
            if !is_guest && !is_about && self.locks.is_empty() {
                continue;
            }
            let words: OwnedWords = command.words.iter().copied().collect();
            let accessed = commands.keys(words.as_words());
            for key in &accessed.keys {
                let hash = hash_on(line.server, command.db, key);
                let is_followed = self.locks.contains_key(&hash);
                if is_guest && accessed.writes {
                    let (client, source) = actor.get_or_insert_with(|| met(state, line));
                    self.work(state, (client, source), (command.db, key, hash));
                }
                if !(is_followed || is_about && self.may_begin(state, row.name, key, hash, command)) {
                    continue;
                }
                let (client, source) = actor.get_or_insert_with(|| met(state, line));
                if !is_followed {
                    self.begin(LockId { server: line.server, db: command.db, key: (*key).into() }, hash);
                    let seen = looks(state, key);
                    if let Some(lock) = self.locks.get_mut(&hash) {
                        for (looker, look) in seen {
                            let mut none = Vec::new();
                            Arc::make_mut(lock).occupancy.look(&Act::new(&looker, &look, &mut none), None, 0);
                        }
                    }
                }
                self.apply(state, (client, source), (hash, key), (row.name, command, accessed.writes));
            }
        }
        if is_guest {
            let (client, source) = actor.get_or_insert_with(|| met(state, line));
            self.go_on(state, client, source);
        }
    }

    fn may_begin(&self, state: &AuditState, name: &str, key: &[u8], hash: u64, command: &Ran<'_>) -> bool {
        let words = command.words;
        (takes(name, (words.len(), || words.get(2).copied()), command.reply) || looks_at_places(name, command.reply))
            && !self.dismissed.contains(&hash)
            && !self.are_fruitless(command.db, key)
            && !state.scope.is_declared(key)
            && !is_matched(&state.scope.not_locks, key)
    }

    /// Whether a command may take or give places in a key that is worth following.
    fn may_be_about_places(&self, name: &str) -> bool {
        self.fruitless < MAX_FRUITLESS && is_about_places(name)
    }

    fn begin(&mut self, id: LockId, hash: u64) {
        while self.locks.len() >= MAX_KEYS {
            let Some(oldest) = self.met.pop_front() else { break };
            let Some(ended) = self.locks.remove(&oldest) else { continue };
            self.fruitless += u64::from(ended.shown.is_none());
            self.note_end(&ended);
        }
        if self.fruitless >= MAX_FRUITLESS {
            return self.give_up();
        }
        let (occupancy, guarded, is_named) = (Occupancy::default(), GuardedWork::default(), is_named_lock(&id.key));
        let presumed = Presumed { id, occupancy, guarded, pending: Vec::new(), uses: 0, is_named, shown: None };
        self.locks.insert(hash, Arc::new(presumed));
        self.met.push_back(hash);
    }

    /// Follows only those keys any more at which there was something to find.
    fn give_up(&mut self) {
        self.locks.retain(|_, lock| lock.shown.is_some() || !lock.pending.is_empty());
        self.forget_unknown();
    }

    /// Keys are followed no more: neither is who had them.
    fn forget_unknown(&mut self) {
        let locks = &self.locks;
        self.met.retain(|hash| locks.contains_key(hash));
        self.guests.retain(|_, guest| guest.keys.iter().any(|hash| locks.contains_key(hash)));
    }

    /// A client does something to a key that is followed.
    fn apply(
        &mut self,
        state: &mut AuditState,
        (client, source): (&ClientIdentity, &JournalRef),
        (hash, key): (u64, &[u8]),
        (name, command, writes): (&str, &Ran<'_>, bool),
    ) {
        let Some(lock) = self.locks.get_mut(&hash).map(Arc::make_mut) else { return };
        lock.uses += 1;
        lock.occupancy.advance_time(source.at);
        let mut mistakes = Vec::new();
        let mut act = Act::new(client, source, &mut mistakes);
        let is_followed = applied(&mut lock.occupancy, &mut act, name, key, command);
        let moves = std::mem::take(&mut act.moves);
        for mistake in mistakes {
            lock.found(state, finding_of(source, &lock.id.clone(), mistake));
        }
        let mut is_in = false;
        for step in moves {
            is_in |= !matches!(step, Move::Out { .. });
            lock.note_move(client, step, source.place);
        }
        lock.look_for_reasons(state, source);
        let is_none =
            !is_followed && writes || lock.uses >= MAX_USES && lock.shown.is_none() && lock.pending.is_empty();
        if is_none {
            return self.dismiss(hash);
        }
        if is_in {
            let guest = self.guests.entry((client.server, client.id)).or_default();
            guest.commands = 0;
            if !guest.keys.contains(&hash) && guest.keys.len() < MAX_AT_ONCE {
                guest.keys.push(hash);
            }
        }
    }

    /// A client writes another key.
    fn work(
        &mut self,
        state: &mut AuditState,
        (client, source): (&ClientIdentity, &JournalRef),
        (db, key, written): (u32, &[u8], u64),
    ) {
        let Some(guest) = self.guests.get(&(client.server, client.id)) else { return };
        if self.locks.get(&written).is_some_and(|lock| lock.shown.is_some()) {
            return;
        }
        let others: SmallVec<[u64; 2]> = guest.keys.iter().copied().filter(|hash| *hash != written).collect();
        for hash in others {
            let Some(lock) = self.locks.get_mut(&hash).map(Arc::make_mut) else { continue };
            let mut mistakes = Vec::new();
            lock.occupancy.work(&mut Act::new(client, source, &mut mistakes), key, true);
            for mistake in mistakes {
                lock.found(state, finding_of(source, &lock.id.clone(), mistake));
            }
            match lock.guarded.write(client, hash_of(db, key), source.place) {
                true => self.dismiss(hash),
                false => lock.look_for_reasons(state, source),
            }
        }
    }

    /// A client that has a key, or was refused, has sent another command.
    fn go_on(&mut self, state: &mut AuditState, client: &ClientIdentity, source: &JournalRef) {
        let Some(guest) = self.guests.get_mut(&(client.server, client.id)) else { return };
        guest.commands += 1;
        let is_over = guest.commands > MAX_COMMANDS;
        let locks = &self.locks;
        guest.keys.retain(|hash| locks.contains_key(hash));
        for hash in guest.keys.clone() {
            let Some(lock) = self.locks.get_mut(&hash).map(Arc::make_mut) else { continue };
            let mut mistakes = Vec::new();
            lock.occupancy.go_on(&mut Act::new(client, source, &mut mistakes));
            for mistake in mistakes {
                lock.found(state, finding_of(source, &lock.id.clone(), mistake));
            }
        }
        let is_idle = self.guests.get(&(client.server, client.id)).is_some_and(|guest| guest.keys.is_empty());
        if is_over || is_idle {
            self.guests.remove(&(client.server, client.id));
        }
    }
}

impl Presumed {
    /// Keeps a finding until the key is known for a lock.
    fn found(&mut self, state: &mut AuditState, finding: Finding) {
        match self.shown {
            Some(_) => state.collector.add(finding),
            None if self.pending.len() < MAX_PENDING => self.pending.push(finding),
            None => {}
        }
    }

    fn note_move(&mut self, client: &ClientIdentity, step: Move, at: u64) {
        match step {
            Move::In { place, looked } => {
                let hash = hash_of(0, &place);
                self.guarded.enter(client, (hash, hash), at);
                if looked && is_unique_token(&place) {
                    self.guarded.count(client, hash);
                }
            }
            Move::Placed { place } if is_unique_token(&place) => self.guarded.count(client, hash_of(0, &place)),
            Move::Placed { .. } => {}
            Move::Refused { place } => self.guarded.refuse(client, hash_of(0, &place), at),
            Move::Out { place, at_once: true } => self.guarded.refuse(client, hash_of(0, &place), at),
            Move::Out { place, at_once: false } => self.guarded.leave(client, hash_of(0, &place), at),
        }
    }

    fn look_for_reasons(&mut self, state: &mut AuditState, source: &JournalRef) {
        if self.shown.is_some() {
            return;
        }
        let reason = match () {
            () if self.guarded.is_broken(!self.pending.is_empty()) => PresumedReason::Broken,
            () if self.is_named && self.guarded.is_of_use() => PresumedReason::Named,
            () if self.guarded.is_semaphore() => PresumedReason::Semaphore,
            () => return,
        };
        self.shown = Some((reason, source.clone()));
        state.collector.locks += 1;
        self.pending.drain(..).for_each(|finding| state.collector.add(finding));
    }
}

fn met(state: &mut AuditState, line: &JournalLine<'_>) -> (ClientIdentity, Arc<JournalRef>) {
    let client = state.meet_client_of(line);
    let source = AuditState::source_of(line, &client);
    (client, source)
}

/// Whether a command takes or gives places, as far as its name tells.
fn is_about_places(name: &str) -> bool {
    takes_places(name)
        || matches!(
            name,
            "DECR"
                | "DECRBY"
                | "SREM"
                | "HDEL"
                | "ZREM"
                | "LPUSH"
                | "RPUSH"
                | "ZRANK"
                | "ZCARD"
                | "ZCOUNT"
                | "SCARD"
                | "SISMEMBER"
                | "HEXISTS"
                | "HGET"
        )
}

fn takes_places(name: &str) -> bool {
    matches!(name, "INCR" | "INCRBY" | "SADD" | "HSETNX" | "ZADD" | "LPOP" | "RPOP" | "BLPOP" | "BRPOP")
}

/// Whether a command of so many words has taken a place that was free. `by` looks up its third word.
#[inline]
fn takes<'a>(name: &str, (words, by): (usize, impl FnOnce() -> Option<&'a [u8]>), reply: &[u8]) -> bool {
    let answer = || ReplyValue::of(reply);
    let is_one = reply == b":1\r\n";
    match name {
        "INCR" | "HSETNX" | "ZADD" => is_one,
        "INCRBY" => {
            let now = answer().number().filter(|now| *now > 0);
            now.is_some() && now == by().and_then(parse_integer)
        }
        "SADD" => words == 3 && is_one,
        "LPOP" | "RPOP" => words == 2 && matches!(answer(), ReplyValue::Text(_)),
        "BLPOP" | "BRPOP" => !matches!(answer(), ReplyValue::Null | ReplyValue::Error),
        _ => false,
    }
}

/// Whether a command has looked who is there, and found nobody.
fn looks_at_places(name: &str, reply: &[u8]) -> bool {
    match name {
        "ZCARD" | "ZCOUNT" | "SCARD" | "SISMEMBER" | "HEXISTS" => ReplyValue::of(reply).number() == Some(0),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn behind_thousands_of_keys_that_came_to_nothing_none_is_followed_any_more() {
        let mut presumed = PresumedLocks::default();
        let mut begin = |number: u64| {
            let id = LockId { server: 1, db: 0, key: number.to_string().as_bytes().into() };
            presumed.begin(id, number);
            (presumed.locks.len(), presumed.may_be_about_places("INCR"))
        };
        let last = MAX_KEYS as u64 + MAX_FRUITLESS - 1;
        assert!((0..last).all(|number| begin(number).1));
        assert_eq!(begin(last), (0, false));
        assert!(presumed.met.is_empty());
    }

    #[test]
    fn keys_that_differ_in_a_number_alone_are_followed_until_many_came_to_nothing() {
        let mut presumed = PresumedLocks::default();
        let mut begin = |key: String, hash: u64| {
            presumed.begin(LockId { server: 1, db: 0, key: key.as_bytes().into() }, hash);
            (presumed.are_fruitless(0, b"visits:7"), presumed.are_fruitless(0, b"jobs:7"), presumed.locks.len())
        };
        let last = MAX_KEYS as u64 + u64::from(MAX_FRUITLESS_ALIKE) - 1;
        assert!((0..last).all(|number| !begin(format!("visits:{number}"), number).0));
        assert_eq!(begin("jobs:7".to_owned(), last), (true, false, 1), "those that are followed are forgotten");
    }
}
