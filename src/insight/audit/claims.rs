//! Members that belong to whoever removes them, as a job that is due: a client that is told that another one was first, and does
//! all that this one has done with it, does it a second time.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

use foldhash::fast::FixedState;
use smallvec::SmallVec;

use super::audit_state::AuditState;
use super::client_identity::{ClientIdentity, SameProgram};
use super::code::{Code, Severity};
use super::finding::{Finding, JournalRef};
use super::guarded_work::hash_on;
use super::journal_line::JournalLine;
use super::reply_value::ReplyValue;
use crate::powers::{EventKind, Outcome, RecordHeader};
use crate::protocol::OwnedWords;
use crate::spec::{CommandKind, CommandSpec, Table, TransactionCommand};

/// How many claims are remembered, how many writes of one, and how many commands a client may send meanwhile.
const MAX_CLAIMS: usize = 256;
const MAX_WORK: usize = 8;
const MAX_COMMANDS: u32 = 32;
/// How long the name of a member must be, so that another command has it by no accident.
const TELLING: usize = 3;

const HASH: FixedState = FixedState::with_seed(5);

/// Numbers of claims, the oldest first.
type Numbers = SmallVec<[u64; 4]>;

/// The last claims.
///
/// They are found by their key and by their client. A set that is used often has each of its commands looked at here, and going
/// through all claims for each took longer than all else that the auditor does with it.
#[derive(Clone, Default)]
pub struct Claims {
    /// By their numbers, in the order in which they were made.
    claims: BTreeMap<u64, Box<Claim>>,
    /// How many there ever were.
    made: u64,
    /// Those of each key, by its hash.
    at_place: Index<u64>,
    /// Those of each member, by its hash with that of its key.
    of_member: Index<u64>,
    /// Those of each client that are not over, by its server and its number.
    open: Index<(u16, u64)>,
}

/// The numbers of claims by what they have in common.
#[derive(Clone)]
struct Index<K>(HashMap<K, Numbers, FixedState>);

impl<K> Default for Index<K> {
    fn default() -> Self {
        Self(HashMap::default())
    }
}

impl<K: Eq + Hash> Index<K> {
    fn contains(&self, key: &K) -> bool {
        self.0.contains_key(key)
    }

    fn numbers(&self, key: &K) -> Numbers {
        self.0.get(key).cloned().unwrap_or_default()
    }

    fn add(&mut self, key: K, number: u64) {
        self.0.entry(key).or_default().push(number);
    }

    fn remove(&mut self, key: K, number: u64) {
        if let Entry::Occupied(mut numbers) = self.0.entry(key) {
            numbers.get_mut().retain(|other| *other != number);
            if numbers.get().is_empty() {
                numbers.remove();
            }
        }
    }
}

/// A client has removed a member, or was told that there is none.
#[derive(Clone)]
struct Claim {
    client: ClientIdentity,
    source: Arc<JournalRef>,
    db: u32,
    key: Arc<[u8]>,
    /// The hash of the key, with its server and database.
    place: u64,
    member: Box<[u8]>,
    /// The place of the claim that was first; `None` if it is this one.
    first: Option<u64>,
    work: SmallVec<[Work; 2]>,
    commands: u32,
    is_over: bool,
    is_reported: bool,
}

/// A write that follows.
#[derive(Clone)]
struct Work {
    /// The hash of what was done to which key.
    what: u64,
    /// Whether it is about the member, and does more if it is done twice.
    adds: bool,
    source: Arc<JournalRef>,
}

/// A command that ran, alone or in EXEC.
struct Step<'a> {
    row: &'static CommandSpec,
    db: u32,
    words: &'a [&'a [u8]],
    reply: &'a [u8],
}

impl Claims {
    /// Whether a command that its header tells is worth a look.
    #[inline]
    pub fn concerns(&self, server: u16, header: &RecordHeader<'_>, row: &CommandSpec) -> bool {
        if is_claim(row.name) || self.claims.is_empty() {
            return is_claim(row.name);
        }
        self.open.contains(&(server, header.client))
            || self.at_place.contains(&hash_on(server, header.db, header.second))
    }

    pub fn is_empty(&self) -> bool {
        self.claims.is_empty()
    }

    /// Forgets the claims on a server.
    pub fn forget(&mut self, server: u16) {
        let of_server = self.claims.iter().filter(|(_, claim)| claim.client.server == server);
        self.remove_all(of_server.map(|(number, _)| *number).collect());
    }

    /// Looks at a line of the journal.
    pub fn note(&mut self, state: &mut AuditState, line: &JournalLine<'_>, commands: &Table) {
        match line.event {
            Some(EventKind::Closed) => return self.end(state, &self.open_of(line)),
            Some(EventKind::Started | EventKind::Missing | EventKind::Promoted) => return self.forget(line.server),
            Some(_) => return,
            None if line.is_queued() || line.outcome == Outcome::NeverRan || line.was_sent_away() => return,
            None => {}
        }
        let Some(row) = line.words.first().and_then(|name| commands.find(name)) else { return };
        if row.lock_effect.is_on_all_keys() {
            return self.forget(line.server);
        }
        let is_exec = row.kind == CommandKind::Transaction(TransactionCommand::Exec);
        if self.claims.is_empty() && !is_claim(row.name) && !is_exec {
            return;
        }
        let is_known = !line.is_unplaced && !line.is_cut && line.outcome == Outcome::Answered && !line.is_stale;
        let runs_unknown = matches!(row.kind, CommandKind::Script(_)) || is_exec && line.are_children_unknown;
        if !is_known || line.reply.is_empty() || runs_unknown {
            return self.drop_keys(line, line.db, &line.words, commands);
        }
        if !is_exec {
            let step = Step { row, db: line.db, words: &line.words, reply: line.reply };
            return self.note_step(state, line, &step, commands);
        }
        line.with_nested(|nested| {
            for command in nested.iter().filter(|command| command.depth == 1) {
                let Some(row) = command.words.first().and_then(|name| commands.find(name)) else { continue };
                let step = Step { row, db: command.db, words: &command.words, reply: command.reply };
                match matches!(row.kind, CommandKind::Script(_)) || command.is_cut || command.reply.is_empty() {
                    true => self.drop_keys(line, step.db, step.words, commands),
                    false => self.note_step(state, line, &step, commands),
                }
            }
        });
    }

    /// The journals end.
    pub fn finish(&mut self, state: &mut AuditState) {
        self.end(state, &self.claims.keys().copied().collect::<Numbers>());
    }

    // ---- the claims

    fn open_of(&self, line: &JournalLine<'_>) -> Numbers {
        self.open.numbers(&(line.server, line.client))
    }

    /// The claims of a member, the oldest first.
    fn of_member(&self, place: u64, member: &[u8]) -> Numbers {
        self.of_member.numbers(&hash_of_member(place, member))
    }

    fn remove_place(&mut self, place: u64) {
        self.remove_all(self.at_place.numbers(&place));
    }

    fn add(&mut self, claim: Claim) {
        if self.claims.len() >= MAX_CLAIMS
            && let Some((&oldest, _)) = self.claims.first_key_value()
        {
            self.remove(oldest);
        }
        self.made += 1;
        self.at_place.add(claim.place, self.made);
        self.of_member.add(hash_of_member(claim.place, &claim.member), self.made);
        self.open.add(claim.owner(), self.made);
        self.claims.insert(self.made, Box::new(claim));
    }

    fn remove(&mut self, number: u64) {
        let Some(claim) = self.claims.remove(&number) else { return };
        self.at_place.remove(claim.place, number);
        self.of_member.remove(hash_of_member(claim.place, &claim.member), number);
        self.open.remove(claim.owner(), number);
    }

    fn remove_all(&mut self, numbers: Numbers) {
        numbers.into_iter().for_each(|number| self.remove(number));
    }

    /// Nothing that their clients do from now on belongs to these claims.
    fn close(&mut self, numbers: &[u64]) {
        for number in numbers {
            if let Some(claim) = self.claims.get_mut(number) {
                claim.is_over = true;
                self.open.remove(claim.owner(), *number);
            }
        }
    }

    /// It is not known any more what the members of some keys are.
    fn drop_keys(&mut self, line: &JournalLine<'_>, db: u32, words: &[&[u8]], commands: &Table) {
        if self.claims.is_empty() {
            return;
        }
        let words: OwnedWords = words.iter().copied().collect();
        for key in &commands.keys(words.as_words()).keys {
            self.remove_place(hash_on(line.server, db, key));
        }
    }

    fn end(&mut self, state: &mut AuditState, numbers: &[u64]) {
        self.close(numbers);
        self.judge(state, numbers);
    }

    fn note_step(&mut self, state: &mut AuditState, line: &JournalLine<'_>, step: &Step<'_>, commands: &Table) {
        let Step { row, db, words, reply } = *step;
        let removed = ReplyValue::of(reply).number();
        match (member_of(row.name, words), removed) {
            (Some(member), Some(removed)) => return self.claim(state, line, step, (member, removed > 0)),
            _ if is_claim(row.name) => return self.drop_keys(line, db, words, commands),
            _ => {}
        }
        if self.claims.is_empty() {
            return;
        }
        let words_of: OwnedWords = words.iter().copied().collect();
        let accessed = commands.keys(words_of.as_words());
        let own = self.open_of(line);
        let mut over = Numbers::new();
        for number in &own {
            let Some(claim) = self.claims.get_mut(number) else { continue };
            claim.commands += 1;
            if claim.commands > MAX_COMMANDS {
                over.push(*number);
            }
        }
        self.close(&over);
        if !accessed.writes {
            return self.judge(state, &over);
        }
        let places: SmallVec<[u64; 2]> = accessed.keys.iter().map(|key| hash_on(line.server, db, key)).collect();
        // A member that is there again is another one.
        let added = added_members(row.name, words);
        for place in &places {
            match added {
                Some(members) => {
                    members.iter().for_each(|member| self.remove_all(self.of_member(*place, member)));
                }
                None => self.remove_place(*place),
            }
        }
        let Some(&place) = places.first() else { return self.judge(state, &over) };
        let mut done = None;
        for number in &own {
            let Some(claim) = self.claims.get_mut(number).filter(|claim| !claim.is_over && claim.place != place) else {
                continue;
            };
            if claim.work.len() < MAX_WORK {
                let (what, source) = done.get_or_insert_with(|| {
                    (what_is_done(row.name, db, words), AuditState::source_of(line, &state.client_of(line)))
                });
                let adds = adds(row.name, words, &claim.member);
                claim.work.push(Work { what: *what, adds, source: Arc::clone(source) });
            }
        }
        self.judge(state, &own);
    }

    /// A client removes a member, or is told that it is not there.
    fn claim(
        &mut self,
        state: &mut AuditState,
        line: &JournalLine<'_>,
        step: &Step<'_>,
        (member, is_first): (&[u8], bool),
    ) {
        let Some(&key) = step.words.get(1) else { return };
        let place = hash_on(line.server, step.db, key);
        let own = self.open_of(line).into_iter();
        let is_here = |number: &u64| self.claims.get(number).is_some_and(|claim| claim.place == place);
        self.end(state, &own.filter(is_here).collect::<Numbers>());
        let client = state.meet_client_of(line);
        let same = self.of_member(place, member);
        let first = match is_first {
            true => {
                self.remove_all(same);
                None
            }
            false => {
                let mut same = same.iter().rev().filter_map(|number| self.claims.get(number));
                let Some(winner) = same.find(|claim| claim.first.is_none()) else { return };
                if winner.client.same_program(&client) != SameProgram::No {
                    return;
                }
                Some(winner.source.place)
            }
        };
        let source = AuditState::source_of(line, &client);
        let (key, member, work) = (key.into(), member.into(), SmallVec::new());
        let db = step.db;
        self.add(Claim {
            client,
            source,
            db,
            key,
            place,
            member,
            first,
            work,
            commands: 0,
            is_over: false,
            is_reported: false,
        });
    }

    /// Finds the clients that were told that another one was first, and have done all that it has done. Of `changed` claims
    /// more is known: what was done, or that it was all.
    fn judge(&mut self, state: &mut AuditState, changed: &[u64]) {
        let mut seconds = Numbers::new();
        for number in changed {
            match self.claims.get(number) {
                Some(claim) if claim.first.is_some() => seconds.push(*number),
                Some(claim) if claim.is_over => seconds.extend(self.of_member(claim.place, &claim.member)),
                _ => {}
            }
        }
        seconds.sort_unstable();
        seconds.dedup();
        for number in seconds {
            let Some(claim) = self.claims.get(&number) else { continue };
            if claim.is_reported || claim.work.is_empty() {
                continue;
            }
            let same = self.of_member(claim.place, &claim.member);
            let mut same = same.iter().filter_map(|number| self.claims.get(number));
            let Some(winner) = same.find(|other| claim.comes_behind(other)).filter(|winner| winner.is_over) else {
                continue;
            };
            let has_done = |work: &&Work| claim.work.iter().find(|own| own.what == work.what);
            if winner.work.len() >= MAX_WORK || !winner.work.iter().all(|work| has_done(&work).is_some()) {
                continue;
            }
            let Some((theirs, own)) =
                winner.work.iter().filter(|work| work.adds).find_map(|work| has_done(&work).map(|own| (work, own)))
            else {
                continue;
            };
            state.collector.add(finding(claim, winner, (theirs, own)));
            if let Some(claim) = self.claims.get_mut(&number) {
                claim.is_reported = true;
            }
        }
    }
}

impl Claim {
    /// The server and the number of its client.
    fn owner(&self) -> (u16, u64) {
        (self.client.server, self.client.id)
    }

    /// Whether another one had removed the same member before.
    fn comes_behind(&self, other: &Self) -> bool {
        other.first.is_none() && self.first == Some(other.source.place)
    }
}

fn hash_of_member(place: u64, member: &[u8]) -> u64 {
    HASH.hash_one((place, member))
}

fn finding(claim: &Claim, winner: &Claim, (theirs, own): (&Work, &Work)) -> Finding {
    let key = String::from_utf8_lossy(&claim.key);
    let sentence = format!(
        "{} did with a member of `{key}` what {} had done, although it was told that this one had removed it before: it is done twice",
        claim.client.display_name(),
        winner.client.display_name(),
    );
    let mut evidence = vec![
        winner.source.shows("removed the member, which was there"),
        theirs.source.shows("did its work"),
        claim.source.shows("removed it, too, and was told that it was not there any more"),
        own.source.shows("did the same work again"),
    ];
    evidence.sort_by_key(|evidence| (evidence.source.real, evidence.source.seq));
    Finding {
        code: Code::CheckedThenTaken,
        severity: Severity::Error,
        server: claim.client.server,
        db: claim.db,
        key: Arc::clone(&claim.key),
        sentence,
        evidence,
        times: 1,
        seq: own.source.seq,
        last_seq: own.source.seq,
        at: own.source.at,
        culprit: claim.client.id,
        allowed: None,
        mark: None,
    }
}

/// Whether a command removes members, and tells whether they were there.
fn is_claim(name: &str) -> bool {
    matches!(name, "ZREM" | "SREM" | "HDEL" | "LREM")
}

/// The only member that a command removes.
fn member_of<'a>(name: &str, words: &[&'a [u8]]) -> Option<&'a [u8]> {
    match (name, words) {
        ("ZREM" | "SREM" | "HDEL", [_, _, member]) | ("LREM", [_, _, _, member]) => Some(member),
        _ => None,
    }
}

/// The members that a command may put into a key, among other words; `None` if it may be any. What it does is not looked at more
/// closely than by its words.
fn added_members<'a, 'w>(name: &str, words: &'a [&'w [u8]]) -> Option<&'a [&'w [u8]]> {
    let is_told =
        matches!(name, "ZADD" | "SADD" | "HSET" | "HMSET" | "HSETNX" | "HINCRBY" | "ZINCRBY" | "LPUSH" | "RPUSH");
    is_told.then(|| words.get(2..).unwrap_or_default())
}

/// The hash of what a command does: its name, its key, and its field or member; of a list the elements.
fn what_is_done(name: &str, db: u32, words: &[&[u8]]) -> u64 {
    let part = match name {
        "HINCRBY" | "HINCRBYFLOAT" | "HSET" | "HMSET" | "HSETNX" => words.get(2..3),
        "ZINCRBY" => words.get(3..4),
        "LPUSH" | "RPUSH" | "LPUSHX" | "RPUSHX" | "SADD" => words.get(2..),
        _ => None,
    };
    HASH.hash_one((name, db, words.get(1), part.unwrap_or_default()))
}

/// Whether a command is about a member, and does more if it is done twice: it counts for it, or puts it into a list.
fn adds(name: &str, words: &[&[u8]], member: &[u8]) -> bool {
    let is_about = |at: usize| words.get(at).is_some_and(|word| is_named_in(word, member));
    match name {
        "INCR" | "INCRBY" | "INCRBYFLOAT" | "DECR" | "DECRBY" => is_about(1),
        "HINCRBY" | "HINCRBYFLOAT" => is_about(1) || is_about(2),
        "ZINCRBY" => is_about(1) || is_about(3),
        "LPUSH" | "RPUSH" | "LPUSHX" | "RPUSHX" => words.get(2..).is_some_and(|elements| elements.contains(&member)),
        _ => false,
    }
}

/// Whether a part of a word is a part of a member: both have the same name in them.
fn is_named_in(word: &[u8], member: &[u8]) -> bool {
    let is_letter = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let has_digit = |part: &&[u8]| part.iter().any(u8::is_ascii_digit);
    let names = |text: &'_ [u8]| -> Vec<Vec<u8>> {
        let parts = text.split(|byte| !is_letter(byte)).filter(|part| part.len() >= TELLING);
        parts.map(<[u8]>::to_vec).collect()
    };
    let of_member = names(member);
    let is_only = of_member.len() == 1;
    names(word).iter().any(|name| of_member.contains(name) && (is_only || has_digit(&name.as_slice())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_about_a_member_has_its_name() {
        for (word, member) in
            [("refund-9", r#"{"id":"refund-9","cents":4500}"#), ("runs:job17", "job17"), ("mail:ada", "ada")]
        {
            assert!(is_named_in(word.as_bytes(), member.as_bytes()), "{word} {member}");
        }
        for (word, member) in [
            ("cents", r#"{"id":"refund-9","cents":4500}"#),
            ("runs", "job17"),
            ("a:b", "b"),
            ("stats:done", "mail:done:7"),
        ] {
            assert!(!is_named_in(word.as_bytes(), member.as_bytes()), "{word} {member}");
        }
    }
}
