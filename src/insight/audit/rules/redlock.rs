//! Locks over several servers.
//!
//! The parts of one attempt have the same key and the same token, which is long enough to be unique. To release on
//! servers that never granted the lock is right, and attempts that refuse each other are no mistake.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher;
use std::ops::RangeInclusive;
use std::sync::Arc;

use foldhash::fast::FixedState;
use smallvec::SmallVec;
use thin_vec::ThinVec;

use super::tokens::is_unique_token;
use super::wording::{key_text, spelled};
use crate::insight::audit::client_identity::{ClientIdentity, SameProgram};
use crate::insight::audit::code::Code;
use crate::insight::audit::effect::{Intent, LockShape, Precondition};
use crate::insight::audit::finding::{Evidence, JournalRef};
use crate::insight::audit::line_form::NotedCommand;
use crate::insight::audit::lock::{HoldStatus, LockId, LockKey};
use crate::insight::audit::lock_event::{LockEvent, VanishCause};
use crate::insight::audit::lock_reason::LockReason;
use crate::insight::audit::rule_context::{FindingDraft, RuleContext};

/// What is remembered beyond one lock.
#[derive(Clone, Default)]
pub struct GlobalRedlockState {
    /// Boxed: most are found absent or removed soon, and the table is small enough then to stay near.
    attempts: HashMap<AttemptName, Box<KnownAttempt>, FixedState>,
    /// The servers that clients ask for a key.
    asked: HashMap<LockKey, SmallVec<[u16; 8]>, FixedState>,
    /// By how many microseconds each server's clock is ahead of real time at its first line.
    clocks: Vec<(u16, i64)>,
    /// The servers that took the place of another one, and that one: they are one server for a lock over several.
    successors: SmallVec<[(u16, u16); 2]>,
    /// What clients wrote while they had a key on some server, by its hash.
    worked: HashMap<LockKey, Worked, FixedState>,
    /// The keys that were asked for, by their hashes, with commands that never ran.
    unanswered: HashSet<u64, FixedState>,
    begun: u64,
}

/// The hashes of the keys that were written, and by whom.
type Worked = SmallVec<[(u64, ClientIdentity); 2]>;

/// The hash of a key and a token, to save memory.
pub type AttemptName = u64;

fn name(key: &[u8], token: &[u8]) -> AttemptName {
    FixedState::default().hash_one((key, token))
}

fn hash_of(key: &[u8]) -> u64 {
    FixedState::default().hash_one(key)
}

/// Whether a value may be the token of an attempt: it is most probably unique. Some libraries take random bytes as they are.
pub fn is_of_attempt(token: &[u8]) -> bool {
    is_unique_token(token) || is_random_bytes(token)
}

/// Whether these are random bytes, and no text or data: hardly one of them comes twice.
fn is_random_bytes(token: &[u8]) -> bool {
    const LENGTHS: RangeInclusive<usize> = 16..=64;
    if !LENGTHS.contains(&token.len()) || std::str::from_utf8(token).is_ok() {
        return false;
    }
    let mut different = SmallVec::<[u8; 64]>::from_slice(token);
    different.sort_unstable();
    different.dedup();
    different.len() * 4 >= token.len() * 3
}

/// How many attempts, keys, and parts of one attempt are remembered.
pub const MAX_ATTEMPTS: usize = 4096;
const MAX_KEYS: usize = 10_000;
const MAX_PARTS: usize = 32;
/// How many keys that were written meanwhile are remembered of one attempt, and of one lock.
const MAX_WRITTEN: usize = 8;
const MAX_WORKED: usize = 32;

/// For how many microseconds after an acquisition a refusal belongs to the same attempt.
const AT_ONCE: i64 = 200_000;

/// How many microseconds lie between the first and the last part of an attempt at most.
const LONGEST: i64 = 60_000_000;

/// Nearly all values that look like one are known to one server alone.
#[derive(Clone)]
enum KnownAttempt {
    InShort(OnePart),
    Whole(Attempt),
}

/// An attempt of which one part is noted in short: more is known once somebody asks who knows its key and its token.
#[derive(Clone)]
struct OnePart {
    number: u64,
    server: u16,
    place: u16,
    db: u32,
    answer: NotedAnswer,
    written: ThinVec<Written>,
    /// The command that extended its lock.
    used: Option<Box<NotedCommand>>,
}

/// What a server has answered to a client that asked for a lock.
#[derive(Clone)]
pub struct NotedAnswer {
    pub command: NotedCommand,
    /// The time to live, in milliseconds, if it gave the lock.
    pub gave: Option<Option<i64>>,
    /// How many keys beside locks the client had accessed by then.
    pub work: u64,
}

#[derive(Clone)]
struct Attempt {
    /// Its number in the order in which attempts began.
    number: u64,
    parts: Vec<Part>,
    /// What its client wrote while some server had given it the lock.
    written: ThinVec<Written>,
    /// The proof that its lock was used.
    used: Option<Box<Evidence>>,
    is_reported: bool,
}

/// A key that a client wrote.
#[derive(Clone)]
struct Written {
    hash: u64,
    key: Box<[u8]>,
    by: ClientIdentity,
    source: Arc<JournalRef>,
}

/// The answer of one server.
#[derive(Clone)]
struct Part {
    client: ClientIdentity,
    /// The server, or the first one in whose place it is.
    place: u16,
    db: u32,
    /// The command that asked for the lock.
    asked: Arc<JournalRef>,
    gave: bool,
    /// The time to live, in milliseconds.
    lives: Option<i64>,
    released: Option<Arc<JournalRef>>,
    /// The lock is gone there, or out of reach.
    is_over: bool,
    /// How many keys beside locks the client had accessed by then.
    work: u64,
}

pub fn observe(context: &mut RuleContext<'_>, state: &mut GlobalRedlockState, event: &LockEvent<'_>) {
    if context.lock.shape != LockShape::Value {
        return;
    }
    match *event {
        LockEvent::Acquired { .. } => {
            let Some(hold) = context.lock.holds.last() else { return };
            let token = hold.token.clone();
            let lives = hold.deadline.map(|deadline| deadline - context.source.at.div_euclid(1000));
            asked(context, state, &token, Some(lives));
        }
        LockEvent::Refused { value, .. } => {
            one_server_refuses(context, value);
            asked(context, state, value, None);
        }
        LockEvent::Extended { hold, precondition, is_own: true, .. } => {
            let Some(token) = token_of(context, hold, precondition) else { return };
            let evidence = extension(&context.source);
            with(context, state, &token, |attempt| attempt.used = Some(Box::new(evidence)));
            judge_use(context, state, &token);
        }
        LockEvent::Deleted { hold, precondition, .. } => {
            let Some(token) = token_of(context, hold, precondition) else { return };
            released(context, state, &token);
        }
        LockEvent::NotOwned { token: Some(token), intent, .. } if intent != Intent::Extend => {
            released(context, state, token)
        }
        LockEvent::Expired { hold } => {
            let token = context.lock.holds[hold].token.clone();
            over(context, state, &token, "until it expired");
        }
        LockEvent::KeyVanished { cause: VanishCause::Expired } => {
            let Some(token) = context.lock.value.clone() else { return };
            over(context, state, &token, "until it expired");
        }
        LockEvent::ConnectionClosed { hold } | LockEvent::Flushed { hold, .. } | LockEvent::Evicted { hold } => {
            // The lock is gone, or its holder cannot reach it any more.
            state.note_out_of_reach(&context.lock.id, &context.lock.holds[hold].token);
        }
        LockEvent::Doubted => {
            // What other servers did with the same attempts is judged only once all are asked anew.
            state.asked.remove(&context.lock.id.key);
        }
        LockEvent::HeldAtEnd { hold } => {
            let token = context.lock.holds[hold].token.clone();
            if context.lock.holds[hold].status == HoldStatus::Held {
                over(context, state, &token, "until the end");
            }
        }
        _ => {}
    }
}

impl Part {
    /// What a server has answered: `gave` is the time to live, if it gave the lock. `work` is how many keys beside locks the client had
    /// accessed by then.
    fn new(
        (client, work): (ClientIdentity, u64),
        (place, db): (u16, u32),
        asked: Arc<JournalRef>,
        gave: Option<Option<i64>>,
    ) -> Self {
        let (gave, lives) = (gave.is_some(), gave.flatten());
        Self { client, place, db, asked, gave, lives, released: None, is_over: false, work }
    }

    fn is_at(&self, place: u16, db: u32) -> bool {
        self.place == place && self.db == db
    }
}

impl OnePart {
    fn is_at(&self, place: u16, db: u32) -> bool {
        self.place == place && self.db == db
    }
}

impl NotedAnswer {
    /// The part of an attempt with this key and this token.
    fn part(&self, (server, place, db): (u16, u16, u32), key: &[u8], token: &[u8]) -> Part {
        let Self { command, gave, work } = self;
        Part::new((command.by(server), *work), (place, db), command.source(server, key, token), *gave)
    }
}

impl KnownAttempt {
    fn number(&self) -> u64 {
        match self {
            Self::InShort(part) => part.number,
            Self::Whole(attempt) => attempt.number,
        }
    }

    fn written(&mut self) -> &mut ThinVec<Written> {
        match self {
            Self::InShort(part) => &mut part.written,
            Self::Whole(attempt) => &mut attempt.written,
        }
    }

    /// The attempt, which has this key and this token.
    fn whole(&mut self, key: &[u8], token: &[u8]) -> &mut Attempt {
        if let Self::InShort(OnePart { number, server, place, db, answer, written, used }) = self {
            let part = answer.part((*server, *place, *db), key, token);
            let written = std::mem::take(written);
            let used = used.as_deref().map(|command| Box::new(extension(&command.source(*server, key, token))));
            *self = Self::Whole(Attempt { parts: vec![part], written, used, ..Attempt::new(*number) });
        }
        match self {
            Self::Whole(attempt) => attempt,
            Self::InShort(_) => unreachable!("it was made whole"),
        }
    }
}

impl Attempt {
    fn new(number: u64) -> Self {
        Self { number, parts: Vec::new(), written: ThinVec::new(), used: None, is_reported: false }
    }

    /// How many servers were asked, and how many of them granted the lock.
    fn answers(&self) -> (usize, usize) {
        let servers = |gave: bool| {
            let mut servers: Vec<u16> =
                self.parts.iter().filter(|part| part.gave || !gave).map(|part| part.place).collect();
            servers.sort_unstable();
            servers.dedup();
            servers.len()
        };
        (servers(false), servers(true))
    }
}

/// The proof that a client used a lock: it extended it.
fn extension(source: &Arc<JournalRef>) -> Evidence {
    source.shows("extended it")
}

fn token_of(context: &RuleContext<'_>, hold: Option<usize>, precondition: Precondition<'_>) -> Option<Box<[u8]>> {
    match (precondition, hold) {
        (Precondition::Compared(Some(token)), _) => Some(token.into()),
        (_, Some(hold)) => Some(context.lock.holds[hold].token.clone()),
        _ => None,
    }
}

fn with(
    context: &mut RuleContext<'_>,
    state: &mut GlobalRedlockState,
    token: &[u8],
    change: impl FnOnce(&mut Attempt),
) {
    if let Some(attempt) = state.whole(&context.lock.id.key, token) {
        change(attempt);
    }
}

/// A server was asked: it granted the lock for this long, or refused it.
fn asked(context: &mut RuleContext<'_>, state: &mut GlobalRedlockState, token: &[u8], gave: Option<Option<i64>>) {
    let Some(actor) = context.actor.filter(|_| is_of_attempt(token)) else { return };
    let LockId { server, db, key } = &*context.lock.id;
    let by = (actor.clone(), context.work_of(actor));
    let part = Part::new(by, (state.place_of(*server), *db), context.source.clone(), gave);
    let (is_wide, beside) = state.add_part(key, token, part);
    if is_wide {
        context.note_reason(LockReason::Several);
    }
    if let Some(beside) = beside {
        one_server(context, &beside, "in several databases of one server");
    }
}

impl GlobalRedlockState {
    /// Notes what a server has answered to a client that asks for a lock with a token that may be that of an attempt, if nothing follows
    /// from that at once.
    pub fn note_asked(&mut self, id: &LockId, token: &[u8], answer: NotedAnswer) {
        let LockId { server, db, key } = id;
        let place = self.place_of(*server);
        self.make_room();
        match self.attempts.entry(name(key, token)) {
            Entry::Vacant(attempt) => {
                self.begun += 1;
                let (number, written) = (self.begun, ThinVec::new());
                let part = OnePart { number, server: *server, place, db: *db, answer, written, used: None };
                attempt.insert(Box::new(KnownAttempt::InShort(part)));
            }
            Entry::Occupied(_) => {
                self.add_part(key, token, answer.part((*server, place, *db), key, token));
            }
        }
    }

    /// Adds the answer of a server to an attempt with this token. Returns whether several servers were asked, and the command that got
    /// the lock in another database of this one.
    fn add_part(&mut self, key: &LockKey, token: &[u8], part: Part) -> (bool, Option<Arc<JournalRef>>) {
        let (place, db) = (part.place, part.db);
        self.make_room();
        self.begun += 1;
        let new = || Box::new(KnownAttempt::Whole(Attempt::new(self.begun)));
        let attempt = self.attempts.entry(name(key, token)).or_insert_with(new).whole(key, token);
        // The same value much later is a constant, not the same attempt.
        if attempt.parts.iter().all(|known| part.asked.real - known.asked.real > LONGEST) {
            *attempt = Attempt::new(self.begun);
        }
        let beside = attempt.parts.iter().find(|known| known.place == place && known.db != db && known.gave);
        let beside = beside.filter(|known| part.gave && known.released.is_none()).map(|known| known.asked.clone());
        match attempt.parts.iter().position(|part| part.is_at(place, db)) {
            Some(known) => {
                let known = &mut attempt.parts[known];
                // A refusal after a grant with the same token takes nothing away.
                if !known.gave || part.gave || known.released.is_some() {
                    *known = part;
                }
            }
            None if attempt.parts.len() < MAX_PARTS => attempt.parts.push(part),
            None => {}
        }
        let servers: SmallVec<[u16; 8]> = attempt.parts.iter().map(|part| part.place).collect();
        let is_wide = servers.iter().any(|other| *other != place);
        if is_wide && (self.asked.len() < MAX_KEYS || self.asked.contains_key(key)) {
            let known = self.asked.entry(key.clone()).or_default();
            for server in servers {
                if !known.contains(&server) {
                    known.push(server);
                }
            }
        }
        (is_wide, beside)
    }

    /// Notes by how many microseconds a server's clock is ahead of real time at its first line.
    pub fn note_clock(&mut self, server: u16, ahead: i64) {
        self.clocks.push((server, ahead));
    }

    /// Notes that a server is master in another one's place.
    pub fn note_successor(&mut self, server: u16, of: u16) {
        /// How many are remembered.
        const MAX_SUCCESSORS: usize = 64;
        let place = self.place_of(of);
        let is_known = server == place || self.successors.iter().any(|(known, _)| *known == server);
        if !is_known && self.successors.len() < MAX_SUCCESSORS {
            self.successors.push((server, place));
        }
    }

    /// The server, or the first one in whose place it is.
    fn place_of(&self, server: u16) -> u16 {
        self.successors.iter().find(|(known, _)| *known == server).map_or(server, |(_, place)| *place)
    }

    /// Notes a command that asked for a key and never ran.
    pub fn note_unanswered(&mut self, key: &[u8]) {
        if self.unanswered.len() < MAX_KEYS {
            self.unanswered.insert(hash_of(key));
        }
    }

    fn find(&self, key: &[u8], token: &[u8]) -> Option<&KnownAttempt> {
        self.attempts.get(&name(key, token)).map(|attempt| &**attempt)
    }

    /// The attempt with this token.
    fn whole(&mut self, key: &[u8], token: &[u8]) -> Option<&mut Attempt> {
        self.attempts.get_mut(&name(key, token)).map(|attempt| attempt.whole(key, token))
    }

    /// Whether the attempt that this server has given a lock to with this token, if there is one, has asked for it in this database
    /// alone, and no client asks several servers for the key.
    pub fn is_alone(&self, id: &LockId, token: &[u8]) -> bool {
        let place = self.place_of(id.server);
        let is_alone = |attempt: &KnownAttempt| match attempt {
            KnownAttempt::InShort(part) => part.is_at(place, id.db) && part.answer.gave.is_some(),
            KnownAttempt::Whole(attempt) => {
                !attempt.is_reported && matches!(&attempt.parts[..], [part] if part.is_at(place, id.db) && part.gave)
            }
        };
        (self.asked.is_empty() || !self.asked.contains_key(&id.key)) && self.find(&id.key, token).is_none_or(is_alone)
    }

    /// Whether an attempt has asked this server alone, in this database, and there is no other one. Nothing follows from its release.
    fn is_only_here(&self, id: &LockId, token: &[u8]) -> bool {
        let place = self.place_of(id.server);
        let is_here = |attempt: &KnownAttempt| match attempt {
            KnownAttempt::InShort(part) => part.is_at(place, id.db),
            KnownAttempt::Whole(attempt) => matches!(&attempt.parts[..], [part] if part.is_at(place, id.db)),
        };
        self.clocks.len() < 2 && !self.asked.contains_key(&id.key) && self.find(&id.key, token).is_some_and(is_here)
    }

    /// Notes that a lock is gone from a server that has given it with this token, or cannot be reached there.
    pub fn note_out_of_reach(&mut self, id: &LockId, token: &[u8]) {
        let (place, db) = (self.place_of(id.server), id.db);
        if let Some(attempt) = self.whole(&id.key, token) {
            attempt.parts.iter_mut().filter(|part| part.is_at(place, db)).for_each(|part| part.is_over = true);
        }
    }

    /// Notes that a client extends a lock that this server alone has given it with this token.
    pub fn note_used(&mut self, id: &LockId, token: &[u8], command: &NotedCommand) {
        match self.attempts.get_mut(&name(&id.key, token)).map(|attempt| &mut **attempt) {
            Some(KnownAttempt::InShort(part)) => part.used = Some(Box::new(command.clone())),
            Some(KnownAttempt::Whole(attempt)) => {
                attempt.used = Some(Box::new(extension(&command.source(id.server, &id.key, token))));
            }
            None => {}
        }
    }

    /// Notes that a server gets back what it has given to an attempt that has asked nowhere else: the attempt is over.
    pub fn note_given_back(&mut self, key: &[u8], token: &[u8]) {
        self.attempts.remove(&name(key, token));
    }

    /// Whether an attempt with this token is known.
    pub fn was_asked(&self, key: &[u8], token: &[u8]) -> bool {
        self.attempts.contains_key(&name(key, token))
    }

    /// The attempt with this token, if locks may lie on several servers.
    pub fn attempt(&self, key: &[u8], token: &[u8]) -> Option<AttemptName> {
        let name = name(key, token);
        (self.clocks.len() > 1 && self.attempts.contains_key(&name)).then_some(name)
    }

    /// Notes that the client of an attempt writes another key. `hash` is that of the other key.
    pub fn note_write(
        &mut self,
        (lock, attempt): (&LockKey, AttemptName),
        (hash, key): (u64, &[u8]),
        by: &ClientIdentity,
        source: Arc<JournalRef>,
    ) {
        let Some(attempt) = self.attempts.get_mut(&attempt) else { return };
        let known = attempt.written();
        if known.len() < MAX_WRITTEN && known.iter().all(|written| written.hash != hash) {
            known.push(Written { hash, key: key.into(), by: by.clone(), source });
        }
        if self.worked.len() >= MAX_KEYS && !self.worked.contains_key(lock) {
            return;
        }
        let worked = self.worked.entry(lock.clone()).or_default();
        let is_its = |(other, client): &(u64, ClientIdentity)| *other == hash && client.is_same_connection(by);
        if worked.len() < MAX_WORKED && !worked.iter().any(is_its) {
            worked.push((hash, by.clone()));
        }
    }

    /// Whether several servers were asked for a key with this token.
    pub fn is_wide(&self, key: &[u8], token: &[u8]) -> bool {
        match self.find(key, token) {
            Some(KnownAttempt::Whole(attempt)) => attempt.answers().0 > 1,
            Some(KnownAttempt::InShort(_)) | None => false,
        }
    }

    /// Forgets the older half of all attempts if there are too many.
    fn make_room(&mut self) {
        if self.attempts.len() >= MAX_ATTEMPTS {
            let mut numbers: Vec<u64> = self.attempts.values().map(|attempt| attempt.number()).collect();
            let middle = numbers.len() / 2;
            let oldest = *numbers.select_nth_unstable(middle).1;
            self.attempts.retain(|_, attempt| attempt.number() >= oldest);
        }
    }

    /// By how many microseconds a server's clock is ahead of real time.
    fn clock(&self, server: u16) -> i64 {
        self.clocks.iter().find(|(known, _)| *known == server).map_or(0, |(_, clock)| *clock)
    }
}

/// The attempt with a token, and the number of its servers, for a lock that clients take on several.
fn wide_attempt(context: &RuleContext<'_>, state: &mut GlobalRedlockState, token: &[u8]) -> Option<(Attempt, usize)> {
    let servers = state.asked.get(&context.lock.id.key)?.len();
    let attempt = state.whole(&context.lock.id.key, token)?;
    Some((attempt.clone(), servers))
}

/// A client releases the lock on one server, or tries to.
fn released(context: &mut RuleContext<'_>, state: &mut GlobalRedlockState, token: &[u8]) {
    if state.is_only_here(&context.lock.id, token) {
        return state.note_given_back(&context.lock.id.key, token);
    }
    stopped_early(context, state, token);
    worked_with_few(context, state, token);
    let source = context.source.clone();
    let (place, db) = (state.place_of(context.lock.id.server), context.lock.id.db);
    if let Some((attempt, _)) = wide_attempt(context, state, token)
        && attempt.used.is_none()
        && attempt.parts.iter().all(|part| part.released.is_none())
    {
        let used = kept(context, &attempt);
        with(context, state, token, |attempt| attempt.used = used.map(Box::new));
        judge_use(context, state, token);
    }
    with(context, state, token, |attempt| {
        for part in attempt.parts.iter_mut().filter(|part| part.is_at(place, db)) {
            (part.released, part.is_over) = (Some(source.clone()), true);
        }
    });
    forget_if_over(context, state, token);
}

/// A client releases the lock on a server that it never asked for it: it stopped at the first servers that gave it, which are
/// no majority. Whoever does not get a majority asks all of them.
fn stopped_early(context: &mut RuleContext<'_>, state: &mut GlobalRedlockState, token: &[u8]) {
    let (place, db, key) = (state.place_of(context.lock.id.server), context.lock.id.db, &context.lock.id.key);
    let Some(attempt) = state.whole(key, token).cloned() else { return };
    let Some(last) = attempt.parts.iter().max_by_key(|part| part.asked.real) else { return };
    let was_asked = attempt.parts.iter().any(|part| part.is_at(place, db));
    if was_asked || attempt.is_reported || !last.gave || state.unanswered.contains(&hash_of(key)) {
        return;
    }
    let mut servers: Vec<u16> = attempt.parts.iter().map(|part| part.place).collect();
    servers.extend(state.asked.get(key).into_iter().flatten());
    servers.push(place);
    servers.sort_unstable();
    servers.dedup();
    let (_, gave) = attempt.answers();
    if gave * 2 > servers.len() || context.source.real - last.asked.real > LONGEST {
        return;
    }
    let servers = servers.len();
    let (client, culprit) = (last.client.display_name(), last.client.id);
    let sentence = format!(
        "{client} used `{}`, which {gave} of at least {servers} servers had given it: it asked no more of them",
        key_text(context.lock)
    );
    let mut evidence: Vec<Evidence> = attempt.parts.iter().map(Part::shown).collect();
    evidence.push(context.now("released it on a server that it had not asked"));
    with(context, state, token, |attempt| attempt.is_reported = true);
    context.note_reason(LockReason::Several);
    context.report(FindingDraft { code: Code::NoQuorum, severity: None, sentence, evidence, culprit });
}

/// A client wrote, while a minority of the servers had given it the lock, what other programs write under the same lock.
fn worked_with_few(context: &mut RuleContext<'_>, state: &mut GlobalRedlockState, token: &[u8]) {
    let Some((attempt, servers)) = wide_attempt(context, state, token) else { return };
    let (_, gave) = attempt.answers();
    let Some(worked) = state.worked.get(&context.lock.id.key).filter(|_| gave * 2 <= servers) else { return };
    let is_common = |written: &&Written| {
        worked.iter().any(|(hash, other)| *hash == written.hash && other.same_program(&written.by) == SameProgram::No)
    };
    let Some(written) = attempt.written.iter().find(is_common).filter(|_| !attempt.is_reported) else { return };
    let what = String::from_utf8_lossy(&written.key);
    let sentence = format!(
        "{} wrote `{what}` under `{}`, which only {gave} of {servers} servers had given it: others that write it can have the lock \
         at the same time",
        written.by.display_name(),
        key_text(context.lock)
    );
    let mut evidence: Vec<Evidence> = attempt.parts.iter().map(Part::shown).collect();
    evidence.push(written.source.shows(format!("wrote `{what}`")));
    let culprit = written.by.id;
    with(context, state, token, |attempt| attempt.is_reported = true);
    context.note_reason(LockReason::Several);
    context.report(FindingDraft { code: Code::NoQuorum, severity: None, sentence, evidence, culprit });
}

/// The proof that a client used the lock before it releases it: it kept it for a tenth of its time and worked
/// meanwhile, or for half of it.
fn kept(context: &RuleContext<'_>, attempt: &Attempt) -> Option<Evidence> {
    let last = attempt.parts.iter().max_by_key(|part| part.asked.real)?;
    let lives = attempt.parts.iter().filter_map(|part| part.lives).min()?;
    let here = context.lock.id.server;
    let own = attempt.parts.iter().filter(|part| part.client.server == here).max_by_key(|part| part.asked.real);
    // Each server has a clock of its own.
    let by_clock = own.map_or(0, |part| context.source.at - part.asked.at);
    let kept = by_clock.max(context.source.real - last.asked.real) / 1000;
    let has_worked = attempt.parts.iter().any(|part| context.work_of(&part.client) != part.work);
    let is_long = kept * 2 >= lives || (has_worked && kept * 10 >= lives);
    is_long.then(|| context.now(format!("released it {} later", spelled(kept * 1000))))
}

/// Checks a lock that was used: a majority of servers must have granted it in time.
fn judge_use(context: &mut RuleContext<'_>, state: &mut GlobalRedlockState, token: &[u8]) {
    let Some((attempt, servers)) = wide_attempt(context, state, token) else { return };
    let Some(used) = attempt.used.clone().filter(|_| !attempt.is_reported) else { return };
    let (_, gave) = attempt.answers();
    let parts = || attempt.parts.iter().filter(|part| part.gave);
    let Some(last) = attempt.parts.iter().max_by_key(|part| part.asked.real) else { return };
    let (client, culprit) = (last.client.display_name(), last.client.id);
    let key = key_text(context.lock);
    let draft = if gave * 2 <= servers {
        let mut evidence: Vec<Evidence> = attempt.parts.iter().map(Part::shown).collect();
        evidence.push(*used);
        let sentence = format!(
            "{client} used `{key}`, which only {gave} of {servers} servers had given it: another client can get the others \
             at the same time"
        );
        FindingDraft { code: Code::NoQuorum, severity: None, sentence, evidence, culprit }
    } else if let (Some(first), Some(lives)) =
        (parts().min_by_key(|part| part.asked.real), parts().filter_map(|part| part.lives).min())
        && let Some(last) = parts().max_by_key(|part| part.asked.real)
        && let took = elapsed(state, &first.asked, &last.asked)
        && took / 1000 + lives / 100 + 2 >= lives
    {
        let mut evidence: Vec<Evidence> = parts().map(Part::shown).collect();
        evidence.push(*used);
        let sentence = format!(
            "{client} used `{key}`, although it had taken {} to get it from all servers, and it lives for {}: it was over when \
             the work began",
            spelled(took),
            spelled(lives * 1000)
        );
        FindingDraft { code: Code::ValidityUsedUp, severity: None, sentence, evidence, culprit }
    } else {
        return;
    };
    with(context, state, token, |attempt| attempt.is_reported = true);
    context.note_reason(LockReason::Several);
    context.report(draft);
}

impl Part {
    fn shown(&self) -> Evidence {
        self.asked.shows(if self.gave { "was given the lock" } else { "was refused" })
    }
}

/// The least number of microseconds between two commands to servers whose clocks may differ.
fn elapsed(state: &GlobalRedlockState, first: &JournalRef, last: &JournalRef) -> i64 {
    let shown = last.at - first.at - (last.real - last.earliest);
    let difference = state.clock(last.server) - state.clock(first.server);
    shown.min(shown - difference).max(0)
}

/// The lock of an attempt ends on one server without a release.
fn over(context: &mut RuleContext<'_>, state: &mut GlobalRedlockState, token: &[u8], until: &str) {
    let (server, db) = (context.lock.id.server, context.lock.id.db);
    let place = state.place_of(server);
    let Some((attempt, servers)) = wide_attempt(context, state, token) else { return };
    let own = attempt.parts.iter().find(|part| part.is_at(place, db) && part.gave && !part.is_over);
    let (asked, gave) = attempt.answers();
    if let Some(own) = own
        && asked >= 2
        && gave * 2 <= servers
        && !attempt.is_reported
    {
        let key = key_text(context.lock);
        let client = own.client.display_name();
        let sentence = format!(
            "{client} did not get `{key}` from enough servers ({gave} of {servers}), and did not release it on server \
             {server}, which had given it, {until}"
        );
        let mut evidence = vec![own.asked.shows("was given the lock, and did not release it")];
        evidence.extend(attempt.parts.iter().filter(|part| !part.gave).map(Part::shown));
        let culprit = own.client.id;
        context.note_reason(LockReason::Several);
        context.report(FindingDraft { code: Code::NotReleasedEverywhere, severity: None, sentence, evidence, culprit });
    }
    with(context, state, token, |attempt| {
        attempt.parts.iter_mut().filter(|part| part.is_at(place, db)).for_each(|part| part.is_over = true);
    });
}

/// Forgets an attempt that was released on all servers.
fn forget_if_over(context: &mut RuleContext<'_>, state: &mut GlobalRedlockState, token: &[u8]) {
    let name = name(&context.lock.id.key, token);
    let servers = state.clocks.len();
    let Some(attempt) = state.whole(&context.lock.id.key, token) else { return };
    // It may still be released on servers that were not asked.
    let last = attempt.parts.iter().max_by_key(|part| part.asked.real);
    let may_be_early = !attempt.is_reported && attempt.answers().1 * 2 <= servers && last.is_some_and(|part| part.gave);
    if !may_be_early && attempt.parts.iter().all(|part| part.released.is_some()) {
        state.attempts.remove(&name);
    }
}

/// A connection is refused by the lock that another one of the same attempt has just taken on this server.
fn one_server_refuses(context: &mut RuleContext<'_>, value: &[u8]) {
    let Some(actor) = context.actor else { return };
    let Some(holder) = context.lock.holder().filter(|hold| hold.is_certain && *hold.token == *value) else { return };
    if !is_of_attempt(value) {
        return;
    }
    let soon = context.source.real - holder.acquired.earliest < AT_ONCE;
    if soon && !holder.client.is_same_connection(actor) && holder.client.same_program(actor) != SameProgram::No {
        let first = holder.acquired.clone();
        one_server(context, &first, "over several connections to one server");
    }
}

fn one_server(context: &mut RuleContext<'_>, first: &JournalRef, how: &str) {
    let key = key_text(context.lock);
    let sentence =
        format!("{} took `{key}` with one token {how}, which is worth no more than once", first.display_name());
    let evidence = vec![first.shows("took the lock"), context.now("asked for it with the same token")];
    context.note_reason(LockReason::Several);
    context.report(FindingDraft { code: Code::OneServer, severity: None, sentence, evidence, culprit: 0 });
}
