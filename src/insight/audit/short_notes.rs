//! What is noted in short: that a client takes a key of which nothing is known, and that a lock at rest refuses a client, or is extended
//! or given back by its holder. `closed_connections.rs` has the ends of connections.
//!
//! Most attempts to take a lock are refused, and for as long as nothing else happens, nothing follows but who waits for how long. With
//! many locks it is the memory that costs time: a lock at rest has a tenth of it, and so has a refusal that is postponed. The rules see
//! it when something else happens to the lock. A lock that is taken begins at rest, in the state in which the rules would leave it. Most
//! locks are given back before anything else happens to them, and many of those are forgotten before it does.
//!
//! What a rule could report at once is not noted in short, nor what concerns more than the lock, but for the few things that are done
//! here at once: the client has met the lock, holds it, or may wait for it while it holds another one, and its token may be that of an
//! attempt at several servers.

use std::iter;
use std::sync::Arc;

use super::apply_effect::{shown_by_expiry, shown_by_refusal};
use super::audit_state::{AuditState, is_matched};
use super::client_identity::{ClientIdentity, SameProgram};
use super::client_state::{ClientState, LockRead};
use super::code::Code;
use super::effect::{Effect, ExpiryChange, KeyEffect, Precondition};
use super::finding::JournalRef;
use super::finding_collector::FindingCollector;
use super::journal_line::{JournalLine, NestedCommand};
use super::line_form::{LineForm, NotedCommand};
use super::lock::LockId;
use super::lock_reason::{LockReason, LockReasons};
use super::lock_table::Place;
use super::resting_lock::{RestingLock, Taking};
use super::rule_context::is_lock_if_misused;
use super::rules::{
    NotedAnswer, RestingRules, are_one_unit, beginning, is_of_attempt, is_quiet, is_trivial, is_unique_token,
    work_while_holding,
};
use super::since_taken::{OwnerCheck, Refusal, Release, WorkSoFar};
use super::timestamp::Timestamp;
use crate::base::process::Process;
use crate::powers::{EffectOrder, Outcome};

/// How many refusals of a lock are postponed at most, and how many of one client: less than any rule counts that tells of clients
/// that try often, at equal distances, or together.
const MAX_POSTPONED: usize = 64;
const MAX_OF_CLIENT: usize = 3;

/// How many lines after it was taken a lock is put to rest, if it is refused then for the first time, and there are many.
const LONG_AGO: u64 = 1024;

/// What follows from a refusal.
pub struct Consequence {
    /// The reasons of the lock with those that it shows.
    reasons: LockReasons,
    /// Whether the client has met the lock before.
    has_met: bool,
    /// Whether the client was refused before while it held another lock, and does not wait yet.
    was_holding: bool,
    /// Whether the client offered the value that the lock has.
    is_alike: bool,
    /// Whether it is the client that holds the lock.
    is_own: bool,
    /// Whether the value is one that everybody writes who has no token, and others than the holder have.
    is_constant: bool,
}

/// A command that asks for a lock.
pub struct Attempt<'a> {
    /// The client at this command.
    by: &'a ClientIdentity,
    seq: u64,
    at: i64,
    db: u32,
    key: &'a [u8],
    value: &'a [u8],
    expiry: ExpiryChange,
    took: bool,
}

/// What is noted of an attempt.
pub enum Note<'a> {
    Taken(NewLock<'a>),
    Refused(Place, Consequence),
}

/// What the holder of a lock at rest does to it.
pub enum HolderStep {
    /// It gives it another deadline.
    Extension(OwnerCheck, i64),
    Release(Release),
}

/// What becomes of a key of which nothing was known.
pub struct NewLock<'a> {
    taking: Taking<'a>,
    /// Whether the token may be that of an attempt at several servers.
    is_of_attempt: bool,
}

impl<'a> Attempt<'a> {
    pub fn of(effect: &KeyEffect<'a>, by: &'a ClientIdentity, (seq, at): (u64, i64)) -> Option<Self> {
        let KeyEffect { db, key, effect: Effect::Take { value, expiry, took }, precondition: Precondition::None } =
            *effect
        else {
            return None;
        };
        Some(Self { by, seq, at, db, key, value, expiry, took })
    }
}

/// Whether a line finds locks at rest however few there are. Tests have too few for them to come to rest by themselves: in a debug
/// build it is half of the lines.
fn is_trial(seq: u64) -> bool {
    cfg!(debug_assertions) && seq.is_multiple_of(2)
}

/// What follows from a refusal; `None` if a rule may have something to tell.
fn consequence(lock: &RestingLock, attempt: &Attempt<'_>) -> Option<Consequence> {
    let Attempt { by, at, value, .. } = attempt;
    let refusals = lock.refusals();
    // How often the client was refused before, and how often while it held another lock.
    let (mut before, mut holding) = (0, 0);
    for refusal in refusals.iter().filter(|refusal| refusal.command.client() == by.id) {
        before += 1;
        holding += usize::from(refusal.work().is_some());
    }
    let mut reasons = lock.reasons();
    let is_often = refusals.len() >= MAX_POSTPONED || before >= MAX_OF_CLIENT;
    // Of long tokens, rules compare the beginnings.
    let is_alike_at_first = *value != lock.token() && beginning(value) == beginning(lock.token());
    if is_often || is_alike_at_first {
        return None;
    }
    let timestamp = lock.timestamp();
    if reasons.has(LockReason::Timestamp) {
        let offered = Timestamp::in_value(value, *at, by.seen);
        let is_in_time = timestamp.filter(|timestamp| !timestamp.is_past(*at, by.seen))?;
        if offered.is_some_and(|offered| !are_one_unit(is_in_time.unit, offered.unit)) {
            return None;
        }
    }
    let (is_alike, is_own) = (*value == lock.token(), lock.was_taken_by(by));
    // Two that ask in the same second offer the same time.
    let is_reuse = is_alike && timestamp.is_none();
    if is_own {
        // As of a default or a flag, of which one writer makes sure as often as it likes.
        if !is_unique_token(value) {
            reasons.note_data();
        }
    } else {
        // Of a value that everybody writes who has no token, it is told here that others have it.
        let is_noted = || is_trivial(value) || is_quiet(value, *at, by.seen) && !is_of_attempt(value);
        if lock.holder().same_program(by) == SameProgram::Yes || is_reuse && !is_noted() {
            return None;
        }
        match shown_by_refusal(reasons, Some(lock.token()), Some(value)) {
            Some(reason) => reasons.add(reason),
            None => reasons.note_data(),
        }
    }
    let was_constant = || lock.refused_with_constant().is_some();
    if reasons.are_enough() && !lock.reasons().are_enough() && was_constant() {
        // What was held back until now is told.
        return None;
    }
    let is_constant = is_reuse && lock.has_constant() && (!is_own || was_constant());
    Some(Consequence { reasons, has_met: before > 0, was_holding: holding == 1, is_alike, is_own, is_constant })
}

/// The reasons of a lock at rest with those that its release shows.
fn given_back_reasons(lock: &RestingLock, release: &Release) -> LockReasons {
    let mut reasons = lock.reasons();
    // To look in a step before is an error.
    let is_compared = match (release.check, &release.read) {
        (OwnerCheck::Compared, _) => true,
        (OwnerCheck::ByKey, read) => read.is_some() && is_lock_if_misused(reasons, iter::once(lock.token())),
    };
    if is_compared {
        reasons.add(LockReason::Compared);
    }
    reasons.add(LockReason::Returned);
    reasons
}

/// The same when its holder gives it another deadline.
fn extended_reasons(lock: &RestingLock, check: OwnerCheck) -> LockReasons {
    let mut reasons = lock.reasons();
    match check {
        OwnerCheck::Compared => reasons.add(LockReason::Compared),
        OwnerCheck::ByKey if lock.deadline().is_none() => {
            reasons.add(shown_by_expiry(lock.token()));
            // It is told that it was done in a second step.
            if is_lock_if_misused(reasons, iter::once(lock.token())) {
                reasons.add(LockReason::Compared);
            }
        }
        OwnerCheck::ByKey => {}
    }
    reasons
}

/// Counts a lock at rest that is known for one with these reasons, and was not before, and tells that its token can be guessed.
fn note_known(collector: &mut FindingCollector, lock: &RestingLock, reasons: LockReasons) {
    if lock.reasons().are_enough() || !reasons.are_enough() {
        return;
    }
    collector.locks += 1;
    if lock.has_guess() {
        collector.add_if_listed((Code::TokenGuessable, 0), lock.id(), || Some(lock.guess()));
    }
}

impl AuditState {
    /// Whether there is one server alone, of which nothing is missing, and nothing that a refusal could be about beside a lock.
    pub fn is_plain(&self) -> bool {
        !self.has_several_servers()
            && self.carried.is_empty()
            && self.timeline.is_none()
            && self.global.replacements().is_empty()
            && self.collector.are_whole()
    }

    /// Puts the lock at a place to rest, if it is time.
    fn put_to_rest(&mut self, place: Place, seq: u64) {
        let is_trial = is_trial(seq);
        if is_trial || self.locks.are_many() {
            self.locks.put_to_rest(place, if is_trial { seq } else { seq.saturating_sub(LONG_AGO) });
        }
    }

    /// A client at a command, if it is known by the name and the process that it has there.
    pub fn identity(
        &self,
        client: &ClientState,
        labels: (&[u8], Option<&Arc<Process>>),
        seen: i64,
    ) -> Option<ClientIdentity> {
        let known = &client.client;
        (known.has_labels(labels) && self.is_met(known)).then(|| ClientIdentity { seen, ..known.clone() })
    }

    /// Notes in short what a line did to a key, if that can be. Returns whether it did.
    pub fn note_effect_in_short(&mut self, line: &JournalLine<'_>, effect: &KeyEffect<'_>) -> bool {
        let is_plain = line.order == EffectOrder::Total
            && line.outcome == Outcome::Answered
            && (line.earliest, line.place) == (line.real, line.seq)
            && !(line.is_loose || line.is_stale || line.is_cut || line.lacks_reply())
            && line.node().is_none();
        let is_meant = match effect.effect {
            // What a script or a transaction has run is shown otherwise.
            Effect::Take { value, .. } => {
                let is_shown = line.words.get(1) == Some(&effect.key) && line.words.get(2) == Some(&value);
                is_shown && line.replied_at.is_none() && line.with_nested(<[NestedCommand<'_>]>::is_empty)
            }
            Effect::Delete { .. } | Effect::Expire { done: true, .. } => true,
            _ => false,
        };
        if !is_plain || !is_meant || !self.is_plain() {
            return false;
        }
        let Some(client) = self.clients.get(&(line.server, line.client)) else { return false };
        let Some(by) = self.identity(client, line.client_labels(), line.real) else { return false };
        let place = self.locks.place(line.server, effect.db, effect.key);
        if let Some(attempt) = Attempt::of(effect, &by, (line.seq, line.at)) {
            let Some(note) = self.in_short(&attempt, place) else { return false };
            let Some(form) = self.locks.forms().of_words(&by, &line.words) else { return false };
            self.note(&attempt, note, form);
            return true;
        }
        let Some(place) = place else { return false };
        let step = line.with_nested(|inside| self.step_in_short(place, &by, (effect, line.at), (&line.words, inside)));
        let Some((form, step)) = step else { return false };
        let JournalLine { seq, at, real, .. } = *line;
        self.note_step(place, &by, NotedCommand { form, seq, at, real }, step);
        true
    }

    /// The lock at a place, if it stays tracked when a command has done this to it, and the command is about nothing else.
    pub fn tracked(&self, place: Place, effect: &KeyEffect<'_>) -> Option<Arc<LockId>> {
        let (id, mut reasons) = self.locks.known_at(place)?;
        let stays = match effect.effect {
            Effect::Take { .. } | Effect::Expire { .. } => !reasons.are_a_guess(),
            Effect::Delete { .. } => {
                if effect.precondition != Precondition::None {
                    reasons.add(LockReason::Compared);
                }
                reasons.are_enough()
            }
            Effect::NotOwned { .. } => reasons.are_enough(),
            _ => false,
        };
        stays.then(|| Arc::clone(id))
    }

    /// Shows the rules what a command did to a lock. `replied_at` is when the client got its reply, if that was later than at once.
    pub fn apply_to_tracked(
        &mut self,
        id: &LockId,
        by: &ClientIdentity,
        (source, replied_at): (Arc<JournalRef>, Option<i64>),
        effect: &KeyEffect<'_>,
    ) {
        let is_said = is_matched(&self.scope.locks, effect.key);
        self.clients.meet(by).client.seen = by.seen;
        let is_free = self.track(id, Some(by), source, (false, replied_at), |tracker| {
            if is_said {
                tracker.note_reason(LockReason::Said);
            }
            tracker.apply(effect);
        });
        self.prune_met(by);
        if is_free {
            self.forget_free(id);
        }
    }

    // ---- reads

    /// The lock at a place, if it is at rest, and a client is told nothing but whose it is when it reads this value there.
    pub fn read_in_short(&self, place: Place, by: &ClientIdentity, value: &[u8], at: i64) -> Option<Arc<LockId>> {
        let lock = self.locks.resting(place)?;
        let is_data = || !is_unique_token(value) && !is_trivial(value) && !lock.was_taken_by(by);
        let may_show_data = !lock.reasons().are_enough() && !lock.reasons().are_of_data() && is_data();
        let is_said = || is_matched(&self.scope.locks, &lock.id().key) && !lock.reasons().has(LockReason::Said);
        let is_as_taken =
            *value == *lock.token() && !lock.is_free() && lock.is_undisturbed((at, by.seen), self.locks.recent_ends());
        (is_as_taken && !may_show_data && !is_said()).then(|| Arc::clone(lock.id()))
    }

    /// A client reads the token of a lock at rest.
    pub fn note_read(&mut self, id: Arc<LockId>, by: &ClientIdentity, value: &[u8], source: Arc<JournalRef>) {
        let client = self.clients.meet(by);
        client.client.seen = by.seen;
        client.note_read(LockRead { id, value: Some(value.into()), source, times_taken: 1 });
    }

    // ---- releases

    /// What its holder does to the lock at a place, and the form of the command, with those that the command ran; `None` if the lock is not
    /// at rest, or more follows.
    pub fn step_in_short(
        &mut self,
        place: Place,
        by: &ClientIdentity,
        (effect, at): (&KeyEffect<'_>, i64),
        (words, inside): (&[&[u8]], &[NestedCommand<'_>]),
    ) -> Option<(Arc<LineForm>, HolderStep)> {
        let lock = self.locks.resting(place)?;
        let step = match effect.effect {
            Effect::Delete { .. } => self.given_back(lock, by, (effect, at))?,
            Effect::Expire { .. } => self.extended(lock, by, (effect, at))?,
            _ => return None,
        };
        let (id, token) = (Arc::clone(lock.id()), effect.precondition.token().unwrap_or_default());
        Some((self.locks.forms().of_commands(by, words, inside, (&id.key, token))?, step))
    }

    pub fn note_step(&mut self, place: Place, by: &ClientIdentity, command: NotedCommand, step: HolderStep) {
        match step {
            HolderStep::Release(release) => self.give_back(place, by, (command, release)),
            HolderStep::Extension(check, deadline) => self.extend(place, by, (command, check), deadline),
        }
    }

    fn extended(
        &self,
        lock: &RestingLock,
        by: &ClientIdentity,
        (effect, at): (&KeyEffect<'_>, i64),
    ) -> Option<HolderStep> {
        let (check, deadline) = lock.extended_by(effect, at).filter(|_| lock.was_taken_by(by))?;
        let is_known = extended_reasons(lock, check).are_enough();
        (is_known && self.is_about_it_alone(lock, effect.key)).then_some(HolderStep::Extension(check, deadline))
    }

    fn given_back(
        &self,
        lock: &RestingLock,
        by: &ClientIdentity,
        (effect, at): (&KeyEffect<'_>, i64),
    ) -> Option<HolderStep> {
        let check = lock.given_back_by(effect, (at, by.seen)).filter(|_| lock.was_taken_by(by))?;
        let read = match self.clients.get(&(by.server, by.id)).and_then(|client| client.last_read_of(lock.id())) {
            // Of who compares when it extends the lock, it is less severe.
            Some(read) if lock.is_found_by(read) && !lock.is_extended() => Some(Arc::clone(&read.source)),
            Some(_) => return None,
            None => None,
        };
        let release = Release { check, read };
        let is_known = given_back_reasons(lock, &release).are_enough();
        (is_known && self.is_about_it_alone(lock, effect.key)).then_some(HolderStep::Release(release))
    }

    /// Whether nothing follows beyond the lock, which has this key, from what its holder does to it.
    fn is_about_it_alone(&self, lock: &RestingLock, key: &[u8]) -> bool {
        (lock.reasons().has(LockReason::Said) || !is_matched(&self.scope.locks, key))
            && !self.global.has_losses()
            && self.global.is_alone(lock.id(), lock.token())
    }

    /// The holder of a lock at rest gives it another deadline.
    fn extend(
        &mut self,
        place: Place,
        by: &ClientIdentity,
        (command, check): (NotedCommand, OwnerCheck),
        deadline: i64,
    ) {
        let Some(lock) = self.locks.resting(place) else { return };
        let (id, number, before) = (Arc::clone(lock.id()), lock.number(), lock.deadline());
        let reasons = extended_reasons(lock, check);
        note_known(&mut self.collector, lock, reasons);
        self.global.note_used(&id, lock.token(), &command);
        let client = self.clients.meet(by);
        client.client.seen = by.seen;
        let work = WorkSoFar { keys: client.work, has_accessed: client.has_accessed_keys() };
        let seq = command.seq;
        let told = self.locks.note_extension(place, (command, check), (deadline, work), reasons);
        told.into_iter().for_each(|told| self.collector.add(told));
        if let Some(lock) = self.locks.resting(place).filter(|_| check == OwnerCheck::ByKey) {
            let recent = self.locks.recent_ends();
            let of = match before {
                None => (Code::ExpiryInSecondStep, by.id),
                Some(_) => (Code::UncheckedExtension, 0),
            };
            self.collector.add_if_listed(of, &id, || lock.told_of(of.0, seq, recent));
        }
        if let Some(before) = before {
            self.forget_deadline(id.server, before, number);
        }
        self.note_deadline(deadline, number, &id);
        self.prune_met(by);
    }

    /// The holder of a lock at rest gives it back.
    fn give_back(&mut self, place: Place, by: &ClientIdentity, (command, release): (NotedCommand, Release)) {
        let Some(lock) = self.locks.resting(place) else { return };
        let (id, number, deadline) = (Arc::clone(lock.id()), lock.number(), lock.deadline());
        let reasons = given_back_reasons(lock, &release);
        note_known(&mut self.collector, lock, reasons);
        self.global.note_given_back(&id.key, lock.token());
        let seq = command.seq;
        let told = self.locks.note_release(place, (command, release), reasons);
        told.into_iter().for_each(|told| self.collector.add(told));
        if let Some(lock) = self.locks.resting(place) {
            let recent = self.locks.recent_ends();
            let is_endless = lock.was_endless().then_some((Code::NoExpiry, 0));
            for of in lock.mistake().into_iter().chain(is_endless) {
                self.collector.add_if_listed(of, &id, || lock.told_of(of.0, seq, recent));
            }
        }
        if let Some(deadline) = deadline {
            self.forget_deadline(id.server, deadline, number);
        }
        let client = self.clients.meet(by);
        client.client.seen = by.seen;
        client.note_parted(&id);
        client.note_had(&id);
        client.note_release(&id);
        self.prune_met(by);
    }

    // ---- attempts

    /// What an attempt comes to at a lock that stands there, if that can be noted in short.
    pub fn in_short<'a>(&mut self, attempt: &Attempt<'a>, place: Option<Place>) -> Option<Note<'a>> {
        match (attempt.took, place) {
            (true, None) => self.new_lock(attempt).map(Note::Taken),
            (false, Some(place)) => {
                let is_said = is_matched(&self.scope.locks, attempt.key);
                self.put_to_rest(place, attempt.seq);
                let lock = self.locks.resting(place)?;
                if lock.is_free() || lock.is_left(self.locks.recent_ends()) {
                    return None;
                }
                if is_said && !lock.reasons().has(LockReason::Said) {
                    return None;
                }
                consequence(lock, attempt).map(|consequence| Note::Refused(place, consequence))
            }
            (true, Some(_)) | (false, None) => None,
        }
    }

    pub fn note(&mut self, attempt: &Attempt<'_>, note: Note<'_>, form: Arc<LineForm>) {
        let Attempt { by, seq, at, value, .. } = *attempt;
        let command = NotedCommand { form, seq, at, real: by.seen };
        match note {
            Note::Taken(new) => self.take(attempt, new, command),
            Note::Refused(place, consequence) => {
                let offered = (!consequence.is_alike).then_some(value);
                self.postpone(place, by, Refusal::new(command, offered), &consequence);
            }
        }
    }

    /// What becomes of a key that is taken; `None` if something may be known of it, or a rule may have something to tell.
    fn new_lock<'a>(&self, attempt: &Attempt<'a>) -> Option<NewLock<'a>> {
        let Attempt { by, seq, at, db, key, value: token, expiry, .. } = *attempt;
        let is_of_attempt = is_of_attempt(token);
        if !(is_trial(seq) || self.locks.are_many())
            || is_of_attempt && self.global.was_asked(key, token)
            || self.global.has_losses()
            || is_matched(&self.scope.not_locks, key)
            || !self.learned.is_empty() && self.learned.knows(key, token)
            || self.shelved.contains(by.server, db, key)
        {
            return None;
        }
        let deadline = expiry.deadline(at, None);
        let rules = RestingRules::of_taking(token, deadline, (at, by.seen))?;
        let (mut reasons, mut shown) = (LockReasons::of_key(key), [None; 2]);
        let mut show = |at: usize, reason: LockReason| {
            reasons.add(reason);
            shown[at] = Some(reason);
        };
        let is_said = is_matched(&self.scope.locks, key);
        if is_said {
            show(0, LockReason::Said);
        }
        if rules.is_timed {
            show(usize::from(is_said), LockReason::Timestamp);
        }
        Some(NewLock { taking: Taking { token, deadline, reasons, shown, rules }, is_of_attempt })
    }

    /// A client takes a key of which nothing is known.
    fn take(&mut self, attempt: &Attempt<'_>, new: NewLock<'_>, command: NotedCommand) {
        let Attempt { by, at, db, key, value, .. } = *attempt;
        let NewLock { mut taking, is_of_attempt } = new;
        let (is_known, deadline) = (taking.reasons.are_enough(), taking.deadline);
        // What is known for a lock holds nothing back.
        let is_guess_told = is_known && std::mem::take(&mut taking.rules.has_guess);
        let noted = is_of_attempt.then(|| command.clone());
        let (number, lock) = self.locks.add_resting((by.server, db, key), taking, command);
        let id = Arc::clone(lock.id());
        let client = self.clients.meet(by);
        client.client.seen = by.seen;
        client.note_hold(&id);
        let work = client.work;
        if let Some(deadline) = deadline {
            self.note_deadline(deadline, number, &id);
        }
        if is_known {
            self.collector.locks += 1;
        }
        if is_guess_told {
            self.collector.add_if_listed((Code::TokenGuessable, 0), &id, || Some(lock.guess()));
        }
        if let Some(command) = noted {
            let lives = deadline.map(|deadline| deadline - at.div_euclid(1000));
            self.global.note_asked(&id, value, NotedAnswer { command, gave: Some(lives), work });
        }
        self.prune_met(by);
    }

    /// The command with this number has shown that others use the token of a lock at rest, too.
    fn tell_constant(&mut self, place: Place, id: &LockId, seq: u64) {
        let Some(lock) = self.locks.resting(place) else { return };
        if !self.collector.count_again(Code::TokenConstant, id, seq) {
            self.collector.add_if_listed((Code::TokenConstant, 0), id, || lock.constant());
        }
    }

    /// Notes a refusal at a lock at rest.
    fn postpone(&mut self, place: Place, by: &ClientIdentity, mut refusal: Refusal, consequence: &Consequence) {
        let Some(lock) = self.locks.resting(place) else { return };
        let (id, token) = (Arc::clone(lock.id()), lock.token());
        let client = self.clients.meet(by);
        client.client.seen = by.seen;
        if !consequence.has_met {
            client.note_awaited(&id);
        }
        let (all_work, work) = (client.work, work_while_holding(client, &id));
        if is_of_attempt(refusal.value(token)) {
            let answer = NotedAnswer { command: refusal.command.clone(), gave: None, work: all_work };
            self.global.note_asked(&id, refusal.value(token), answer);
        }
        let mut waits = false;
        if consequence.is_own && !consequence.is_alike {
            // Several parts of a program share the connection.
            self.shared.note(by);
        }
        if let Some(work) = work.filter(|_| !consequence.is_own) {
            waits = self.global.wait_longer(by, &id, || refusal.of_wait(token), work);
            refusal.set_work((!waits).then_some(work));
            if !waits && consequence.was_holding {
                let is_first = |known: &&Refusal| known.command.client() == by.id && known.work().is_some();
                let first = lock.refusals().iter().find(is_first);
                let first = first.and_then(|first| Some((first.of_wait(token), first.work()?)));
                if let Some(first) = first {
                    let attempts = [first, (refusal.of_wait(token), work)];
                    self.global.note_wait(by, &id, (lock.holder(), lock.taken_for_wait()), attempts);
                    waits = true;
                }
            }
        }
        note_known(&mut self.collector, lock, consequence.reasons);
        let now = (refusal.command.at, refusal.command.real);
        let has_circle = waits && self.global.has_circle(&self.clients, by, &id, now);
        let source = has_circle.then(|| refusal.source(&id, token));
        let seq = refusal.command.seq;
        self.locks.postpone(place, refusal, consequence.reasons).into_iter().for_each(|told| self.collector.add(told));
        if consequence.is_constant && consequence.reasons.are_enough() {
            self.tell_constant(place, &id, seq);
        }
        self.prune_met(by);
        if let Some(source) = source {
            self.with_lock(&id, Some(by), source, |tracker| tracker.global.tell_circle(&mut tracker.context));
        }
    }
}
