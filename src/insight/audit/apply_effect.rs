//! What the commands of clients do to a lock.

use std::sync::Arc;

use super::client_identity::{ClientIdentity, SameProgram};
use super::client_state::LockRead;
use super::code::Severity;
use super::effect::{Claim, Effect, ExpiryChange, Intent, KeyEffect, LockShape, Precondition};
use super::finding::JournalRef;
use super::lock::{Acquisition, Hold, HoldEnd, HoldStatus, Lock, MAX_WAITERS, PastHold, Waiter, push_exact};
use super::lock_event::LockEvent;
use super::lock_reason::{LockReason, LockReasons};
use super::lock_tracker::{LockTracker, NewHold};
use super::rules::{is_count, is_trivial, is_unique_token, may_be_owner};
use super::timestamp::Timestamp;

impl LockTracker<'_> {
    /// Applies what a command did to the key.
    pub fn apply(&mut self, effect: &KeyEffect<'_>) {
        let JournalRef { at, real, earliest, .. } = *self.context.source;
        self.advance_time(at - (real - earliest), earliest);
        if self.may_have_expired(effect) {
            self.doubt();
        }
        if self.context.lock.is_value_unknown && !self.context.is_stale {
            self.learn_value(effect);
        }
        if self.shows_a_lock(effect) {
            self.note_reason(LockReason::Compared);
        }
        let token = effect.precondition.token();
        match &effect.effect {
            Effect::Take { value, expiry, took: true } => self.take(Some(value), *expiry, Acquisition::Free),
            Effect::Take { value, took: false, .. } => self.refuse(Some(value)),
            Effect::Set { value, expiry, old: Some(old) } if effect.precondition == Precondition::None => {
                self.swap(effect.precondition, value, *expiry, *old);
            }
            Effect::Set { value, expiry, .. } => self.set(effect.precondition, Some(value), *expiry, Claim::Sets),
            Effect::Arrive { value, claim: Claim::Refused, .. } => self.refuse(*value),
            Effect::Arrive { value, expiry, claim: Claim::TakesFree } => self.take(*value, *expiry, Acquisition::Free),
            Effect::Arrive { value, expiry, claim } => self.set(effect.precondition, *value, *expiry, *claim),
            Effect::Read { value } => self.read(*value),
            Effect::Delete { removed } => {
                match removed.unwrap_or(self.context.lock.value.is_some() || self.context.lock.is_in_doubt) {
                    true => self.delete(effect.precondition),
                    false => {
                        if self.has_held() {
                            self.note_reason(LockReason::Returned);
                            self.note_leaving();
                        }
                        self.note_not_owned(token, Intent::Release);
                    }
                }
            }
            Effect::Expire { expiry, done: true } => self.set_expiry(effect.precondition, *expiry),
            Effect::Expire { done: false, .. } => self.note_not_owned(token, Intent::Extend),
            Effect::NotOwned { intent, .. } => self.note_not_owned(token, *intent),
            Effect::AddMember { shape, member } => self.add_member(*shape, member),
            Effect::RemoveMember { member, missed: true, .. } => self.note_not_owned(Some(member), Intent::Release),
            Effect::RemoveMember { member, count, .. } => self.remove_member(member, *count),
            Effect::Unknown { .. } => self.doubt(),
            // The auditor divides these into the effects above.
            Effect::Transfer { .. } | Effect::Flush { .. } | Effect::SwapDatabases { .. } => {}
            // A declared lock of another type is followed elsewhere.
            Effect::OtherWrite if self.context.lock.holds.is_empty() => {}
            Effect::OtherWrite if self.context.lock.reasons.has(LockReason::Said) => self.doubt(),
            Effect::OtherWrite => {}
        }
        if let Some(node) = self.context.source.node.clone().filter(|_| !self.context.is_stale) {
            self.lock().node = Some(node);
        }
    }

    /// Whether the time of the key or of a hold may be over for a command that took effect some time in an interval, and
    /// that does not tell.
    fn may_have_expired(&self, effect: &KeyEffect<'_>) -> bool {
        let JournalRef { at, real, earliest, .. } = *self.context.source;
        let lock = &self.context.lock;
        if earliest >= real && lock.deadline_slack == 0 && lock.holds.iter().all(|hold| hold.slack() == 0) {
            return false;
        }
        let is_key_over = lock.deadline.is_some_and(|deadline| at.div_euclid(1000) > deadline - lock.deadline_slack);
        let is_hold_over = |hold: &Hold| match hold.timestamp {
            // That the key is there says nothing about the time in its value.
            Some(_) => hold.may_be_over(at, real) && !is_harmless(effect),
            // Nor does it about a hold whose key is gone, or was given another deadline.
            None if hold.status != HoldStatus::Held || hold.deadline != lock.deadline => {
                hold.may_be_over(at, real) && !is_harmless(effect)
            }
            None => hold.may_be_over(at, real) && !shows_the_key(effect),
        };
        is_key_over && !shows_the_key(effect) || lock.holds.iter().any(is_hold_over)
    }

    /// A reply or a comparison says which value is there that RESTORE or RENAME brought.
    fn learn_value(&mut self, effect: &KeyEffect<'_>) {
        let shown = match effect.effect {
            Effect::Read { value } => value,
            Effect::Set { old: Some(old), .. } => old,
            Effect::Delete { .. } | Effect::Expire { .. } | Effect::Set { .. } => effect.precondition.token(),
            Effect::Take { .. }
            | Effect::Arrive { .. }
            | Effect::Transfer { .. }
            | Effect::NotOwned { .. }
            | Effect::AddMember { .. }
            | Effect::RemoveMember { .. }
            | Effect::OtherWrite
            | Effect::Unknown { .. }
            | Effect::Flush { .. }
            | Effect::SwapDatabases { .. } => None,
        };
        let Some(value) = shown else { return };
        self.set_value(Some(value));
        if let Some(held) = self.held() {
            self.lock().holds[held].token = value.into();
        }
    }

    /// Whether the comparison in front of a command is a reason to take the key for a lock.
    fn shows_a_lock(&self, effect: &KeyEffect<'_>) -> bool {
        let Precondition::Compared(token) = effect.precondition else { return false };
        match &effect.effect {
            Effect::Delete { .. } => true,
            Effect::Expire { .. } => self.context.lock.shape != LockShape::Semaphore,
            Effect::NotOwned { intent, is_known } => *is_known && matches!(intent, Intent::Release | Intent::Extend),
            // To write another value is what counters do, too.
            Effect::Set { value, .. } => token.is_none_or(|token| token == *value),
            Effect::Take { .. }
            | Effect::Arrive { .. }
            | Effect::Transfer { .. }
            | Effect::Read { .. }
            | Effect::AddMember { .. }
            | Effect::RemoveMember { .. }
            | Effect::OtherWrite
            | Effect::Unknown { .. }
            | Effect::Flush { .. }
            | Effect::SwapDatabases { .. } => false,
        }
    }

    /// The client gets the lock, which was free.
    fn take(&mut self, value: Option<&[u8]>, expiry: ExpiryChange, how: Acquisition) {
        if self.context.lock.value.is_some() || self.held().is_some() {
            self.vanish();
        }
        let JournalRef { at, real, earliest, .. } = *self.context.source;
        let deadline = expiry.deadline(at, None);
        let written = (at - (real - earliest), earliest);
        let timestamp =
            value.and_then(|value| self.timestamp_written(value, written.0, written.1)).filter(|_| deadline.is_none());
        self.acquire(&NewHold { token: value, how, old: None, deadline, timestamp });
    }

    fn acquire(&mut self, new: &NewHold<'_>) {
        if self.context.actor.is_some() {
            self.begin_hold(new);
            self.emit(&LockEvent::Acquired { old: new.old });
        }
    }

    /// The timestamp in a value that is being written. One in the past is none, unless the lock has had timestamps.
    fn timestamp_written(&self, value: &[u8], at: i64, real: i64) -> Option<Timestamp> {
        let to_come = Timestamp::to_come(value, at, real);
        to_come.or_else(|| {
            let has_timestamps = self.context.lock.reasons.has(LockReason::Timestamp);
            has_timestamps.then(|| Timestamp::in_value(value, at, real)).flatten()
        })
    }

    /// The timestamp in an old value, as it was read when it was written, if that was seen.
    fn timestamp_found(&self, value: &[u8], at: i64, real: i64) -> Option<Timestamp> {
        let lock = &*self.context.lock;
        let hold = lock.hold_with(value).or_else(|| lock.past_hold_with(value).map(|past| &past.hold));
        hold.and_then(|hold| hold.timestamp).or_else(|| Timestamp::in_value(value, at, real))
    }

    /// The client is refused. The value that it offered may be unknown.
    pub fn refuse(&mut self, value: Option<&[u8]>) {
        let Some(client) = self.actor() else { return };
        let source = self.context.source.clone();
        let is_contended = match self.context.lock.holder() {
            Some(holder) => holder.client.same_program(&client) != SameProgram::Yes,
            // The holder's connection has ended, and the key is still there.
            None => self.context.lock.past_holds.back().is_some_and(|past| past.end == HoldEnd::Closed),
        };
        if is_contended {
            match self.context.lock.shape {
                // A rate limiter refuses, too.
                LockShape::Semaphore => {}
                LockShape::Value | LockShape::Hash => {
                    let lock = &*self.context.lock;
                    match shown_by_refusal(lock.reasons, lock.value.as_deref(), value) {
                        Some(reason) => self.note_reason(reason),
                        None => self.lock().reasons.note_data(),
                    }
                }
            }
        }
        // Whoever holds a lock does not ask for it again; of a default or a flag one writer makes sure as often as it likes.
        let is_again =
            self.context.lock.hold_of(&client).is_some() && value.is_some_and(|value| !is_unique_token(value));
        if is_again && !self.context.lock.is_known() {
            self.lock().reasons.note_data();
        }
        let lock = &mut *self.context.lock;
        // Somebody has it, but it is unknown who.
        lock.is_in_doubt |= lock.value.is_none() && !lock.reasons.has(LockReason::Said);
        self.note_waiter(client, source);
        if !self.context.is_loose {
            self.emit(&LockEvent::Refused { value: value.unwrap_or_default() });
        }
    }

    /// A client that wants the lock has not got it.
    fn note_waiter(&mut self, client: ClientIdentity, source: Arc<JournalRef>) {
        let lock = &mut *self.context.lock;
        match lock.waiters.iter_mut().find(|waiter| waiter.client.is_same_connection(&client)) {
            Some(waiter) => {
                waiter.attempts += 1;
                if !self.context.is_loose {
                    waiter.last = source;
                }
            }
            None => {
                if lock.waiters.len() < MAX_WAITERS {
                    self.context.clients.meet(&client).note_met(&lock.id);
                    // Whom it met is unknown.
                    let place = if self.context.is_loose { 0 } else { source.place };
                    let last = if place == source.place {
                        Arc::clone(&source)
                    } else {
                        Arc::new(JournalRef { place, ..(*source).clone() })
                    };
                    let waiter = Waiter { client, first: source, last, attempts: 1 };
                    push_exact(&mut lock.waiters, waiter);
                }
            }
        }
    }

    /// GETSET, or SET with GET: takes over a lock whose timestamp is past.
    fn swap(&mut self, precondition: Precondition<'_>, value: &[u8], expiry: ExpiryChange, old: Option<&[u8]>) {
        let JournalRef { at, real, .. } = *self.context.source;
        let timestamp = self.timestamp_written(value, at, real);
        if timestamp.is_some() && (old.is_none() || expiry == ExpiryChange::Never) {
            self.note_reason(LockReason::Timestamp);
        }
        let Some(old) = old else {
            let deadline = expiry.deadline(at, None);
            return self.acquire(&NewHold {
                token: Some(value),
                how: Acquisition::Free,
                old: None,
                deadline,
                timestamp,
            });
        };
        if self.context.lock.value.as_deref() != Some(old) {
            self.vanish();
            self.set_value(Some(old));
        }
        let stale = self.timestamp_found(old, at, real);
        let deadline = expiry.deadline(at, self.context.lock.deadline);
        let is_free = match stale {
            // Programs go on using real time when a test has moved the server's clock.
            Some(stale) => stale.left(at, real) < 0,
            None => self.held().is_none(),
        };
        let taken_over =
            NewHold { token: Some(value), how: Acquisition::TakenOver, old: Some(old), deadline, timestamp };
        if timestamp.is_some() && is_free {
            // A holder that has not noticed the end of its time has lost the lock.
            for hold in &mut self.lock().holds {
                hold.status = HoldStatus::Vanished;
                // It was over when it was put there: the lock of one who died, in a test.
                if hold.deadline.is_none() && *hold.token == *old {
                    hold.timestamp = hold.timestamp.or(stale);
                }
            }
            return self.acquire(&taken_over);
        }
        if self.held().is_some_and(|held| self.is_own(held)) {
            return self.set(precondition, Some(value), expiry, Claim::Sets);
        }
        let hold = self.held();
        let read = self.last_read();
        // A client that gets back what it had read before believes that it took over a stale lock.
        let believes = timestamp.is_some()
            && stale.is_some()
            && read.as_ref().is_some_and(|read| read.value.as_deref() == Some(old));
        self.emit(&LockEvent::Overwritten { hold, value, deadline, by_getset: true, read });
        let source = self.context.source.clone();
        if believes {
            if let Some(hold) = hold {
                self.lock().holds[hold].status = HoldStatus::Overwritten(source);
            }
            return self.acquire(&taken_over);
        }
        if let Some(client) = self.actor().filter(|_| hold.is_some() && timestamp.is_some()) {
            self.note_waiter(client, source.clone());
        }
        self.set_value(Some(value));
        self.set_deadline(deadline);
        // In the documented pattern GETSET moves the time on a little, and the lock is still its holder's.
        if let Some(hold) = hold.filter(|_| timestamp.is_none()) {
            self.lock().holds[hold].status = HoldStatus::Overwritten(source);
        }
    }

    /// The client sets the key, free or not. The value may be unknown.
    fn set(&mut self, precondition: Precondition<'_>, value: Option<&[u8]>, expiry: ExpiryChange, claim: Claim) {
        let JournalRef { at, real, .. } = *self.context.source;
        let source = self.context.source.clone();
        let deadline = expiry.deadline(at, self.context.lock.deadline);
        let hold = self.held();
        let Some(held) = hold else {
            // SET is no way to take a lock, but where the user says that the key is one, the client has it then.
            let how = match claim {
                Claim::Takes | Claim::TakesFree => Some(Acquisition::Free),
                Claim::Sets if self.renews_expired(precondition, value) => Some(Acquisition::Renewed),
                Claim::Sets => {
                    let lock = &self.context.lock;
                    // A counter is put to nothing before it is used.
                    let is_nothing = value.is_some_and(|value| value.is_empty() || value == b"0");
                    let is_free = lock.value.is_none() && !lock.is_in_doubt && !is_nothing;
                    let is_meant = lock.reasons.has(LockReason::Said)
                        || self.takes_after_refusal(value)
                        || precondition == Precondition::None && self.looked() && !self.stages();
                    (is_meant && is_free).then_some(Acquisition::Free)
                }
                Claim::None | Claim::Refused => None,
            };
            if how == Some(Acquisition::Renewed) && self.is_retaken(value) {
                self.note_reason(LockReason::Retaken);
            }
            if let Some(how) = how {
                if claim == Claim::Sets && self.looked() && !self.stages() {
                    self.note_reason(LockReason::Checked);
                }
                return self.take(value, expiry, how);
            }
            self.write_value(value);
            self.set_deadline(deadline);
            return;
        };
        let is_same = |lock: &Lock| !lock.is_value_unknown && value == Some(&*lock.holds[held].token);
        let is_race = precondition == Precondition::None && self.found_free_before(held, is_same(self.context.lock));
        let is_own = !is_race && (self.is_own_hold(held, precondition) || is_same(self.context.lock));
        let written = value.unwrap_or_default();
        if is_own && precondition == Precondition::None && is_put_by_hand(&self.context.lock.holds[held].token, written)
        {
            let client = self.context.lock.holds[held].client.clone();
            self.end_hold(held, HoldEnd::Released, true);
            self.note_release(&client);
            self.write_value(value);
            return self.set_deadline(deadline);
        }
        if is_own && leaves_a_mark(precondition, written) {
            self.emit(&LockEvent::Deleted { hold, precondition, is_release: true, read: None });
            self.lose_key(held, true);
            self.write_value(value);
            return self.set_deadline(deadline);
        }
        if is_own {
            self.emit(&LockEvent::Extended { hold, precondition, is_own, expiry, deadline, value: Some(written) });
            self.set_deadline(deadline);
            let timestamp = self.timestamp_written(written, at, real).filter(|_| deadline.is_none());
            self.write_value(value);
            let hold = &mut self.lock().holds[held];
            (hold.token, hold.deadline, hold.timestamp) = (written.into(), deadline, timestamp);
            (hold.extended, hold.extensions) = (Some(source), hold.extensions.saturating_add(1));
            return;
        }
        let is_retaken = !is_race && precondition == Precondition::None && self.is_retaken(value);
        let read = self.last_read();
        self.emit(&LockEvent::Overwritten { hold, value: written, deadline, by_getset: false, read });
        self.set_deadline(deadline);
        self.write_value(value);
        self.lock().holds[held].status = HoldStatus::Overwritten(source);
        if is_retaken {
            self.note_reason(LockReason::Retaken);
        }
        if is_race || is_retaken {
            // It found the lock free, or had it before, and believes that it has it.
            let how = if is_race { Acquisition::Free } else { Acquisition::Renewed };
            self.acquire(&NewHold { token: value, how, old: None, deadline, timestamp: None });
        }
    }

    /// Whether a client that was refused sets its token when the lock is free: it takes what somebody told it is free.
    fn takes_after_refusal(&self, value: Option<&[u8]>) -> bool {
        let (Some(actor), lock) = (self.context.actor, &self.context.lock) else { return false };
        let is_waiting = lock.waiters.iter().any(|waiter| waiter.client.is_same_connection(actor));
        lock.is_known() && is_waiting && value.is_some_and(is_unique_token)
    }

    /// Whether the client that acts sets its former value again, which it had put there when the key was free and which has
    /// expired, after another client has taken the key with a value of its own.
    fn is_retaken(&self, value: Option<&[u8]>) -> bool {
        let (Some(actor), Some(value), lock) = (self.context.actor, value, &self.context.lock) else { return false };
        let is_its = |past: &&PastHold| {
            past.end == HoldEnd::Expired
                && past.hold.is_certain
                && past.hold.how != Acquisition::TakenOver
                && *past.hold.token == *value
                && past.hold.client.is_same_connection(actor)
        };
        let Some(own) = lock.past_holds.iter().rev().find(is_its) else { return false };
        let mut since = lock.holds.iter().chain(lock.past_holds.iter().map(|past| &past.hold));
        since.any(|hold| {
            hold.acquired.place > own.hold.acquired.place
                && hold.how == Acquisition::Free
                && hold.deadline.is_some()
                && *hold.token != *value
                && hold.client.same_program(actor) == SameProgram::No
        })
    }

    /// Whether the client that acts found the key free before the hold began: it looked first and sets the key now. With
    /// the value that is there it may be another connection of the holder, unless the holder looked first, too.
    fn found_free_before(&self, held: usize, is_same_value: bool) -> bool {
        let Some(actor) = self.context.actor else { return false };
        let hold = &self.context.lock.holds[held];
        let found_free = |client: &ClientIdentity| {
            let state = self.context.clients.get(&(client.server, client.id));
            let read = state.and_then(|state| state.last_read_of(&self.context.lock.id));
            let is_earlier = |look: &JournalRef, taken: &JournalRef| {
                let are_exact = look.earliest == look.real && taken.earliest == taken.real;
                look.place < taken.place && (are_exact || look.real < taken.earliest)
            };
            read.is_some_and(|read| read.value.is_none() && is_earlier(&read.source, &hold.acquired))
        };
        let are_two = match actor.same_program(&hold.client) {
            SameProgram::Yes => false,
            SameProgram::No => true,
            SameProgram::Unknown => !is_same_value || found_free(&hold.client),
        };
        are_two && found_free(actor)
    }

    /// Whether the client that acts has found the key free, and nobody has taken it since.
    fn looked(&self) -> bool {
        let times_taken = self.context.lock.times_taken;
        self.last_read().is_some_and(|read| read.value.is_none() && read.times_taken >= times_taken)
    }

    /// Whether the client that acts has taken the lock before, and nobody ever in two steps: who sets it now as well prepares a
    /// scene, as tests do.
    fn stages(&self) -> bool {
        let lock = &self.context.lock;
        let has_taken = || self.actor().is_some_and(|client| lock.past_hold_of(&client).is_some());
        lock.is_known() && !lock.reasons.has(LockReason::Checked) && has_taken()
    }

    /// The client that acts gives the key back, or tries to.
    fn note_leaving(&mut self) {
        let (Some(client), at) = (self.actor(), self.context.source.place) else { return };
        let Some(guarded) = self.context.lock.guarded.as_mut() else { return };
        guarded.leave(&client, 0, at);
        self.note_guard();
    }

    /// Looks whether what was written under the key shows that it is a lock.
    pub fn note_guard(&mut self) {
        let lock = &*self.context.lock;
        let Some(guarded) = &lock.guarded else { return };
        let is_count = || lock.value.as_deref().is_some_and(is_count);
        let is_text = |hold: &Hold| is_text(&hold.token);
        let is_text = || lock.holds.iter().chain(lock.past_holds.iter().map(|past| &past.hold)).any(is_text);
        let may_be_data = lock.reasons.are_of_data() && (!guarded.has_own_values() || is_count() || is_text());
        if guarded.is_guard() && !may_be_data {
            self.note_reason(LockReason::Guards);
        }
        if self.context.lock.is_known() {
            self.lock().guarded = None;
        }
    }

    /// Whether the client renews a hold of its own that has expired, and thereby takes the lock anew.
    fn renews_expired(&self, precondition: Precondition<'_>, value: Option<&[u8]>) -> bool {
        let (Some(actor), Some(value)) = (self.context.actor, value) else { return false };
        let lock = &self.context.lock;
        let may_be_lock = lock.is_known() || lock.reasons.has(LockReason::Named) || self.is_retaken(Some(value));
        let is_its = |past: &PastHold| {
            past.end == HoldEnd::Expired
                && past.hold.is_certain
                && *past.hold.token == *value
                && past.hold.client.is_same_connection(actor)
        };
        let is_over = lock.value.as_deref() != Some(value) && !lock.is_in_doubt && !lock.is_value_unknown;
        is_over && may_be_lock && precondition == Precondition::None && lock.past_holds.iter().any(is_its)
    }

    /// A value arrives that the client claims nothing of: SWAPDB.
    pub fn place_value(&mut self, value: Option<&[u8]>, deadline: Option<i64>) {
        self.write_value(value);
        self.set_deadline(deadline);
    }

    /// Whether the holder acts: by its connection, or because the token was compared.
    fn is_own_hold(&self, held: usize, precondition: Precondition<'_>) -> bool {
        let hold = &self.context.lock.holds[held];
        match precondition {
            Precondition::Compared(Some(token)) => {
                // Of some values only the beginning is the token.
                let is_beginning = token.len() >= 8 && hold.token.starts_with(token);
                *hold.token == *token || is_beginning || self.context.lock.value.as_deref() == Some(token)
            }
            Precondition::Compared(None) => true,
            Precondition::None => self.is_own(held),
        }
    }

    /// Whether the client that acts has held the lock, or believes that it does.
    fn has_held(&self) -> bool {
        let lock = &self.context.lock;
        self.context.actor.is_some_and(|actor| lock.hold_of(actor).is_some() || lock.past_hold_of(actor).is_some())
    }

    /// The last read of the client that acts.
    fn last_read(&self) -> Option<LockRead> {
        let actor = self.context.actor?;
        self.context.clients.get(&(actor.server, actor.id))?.last_read_of(&self.context.lock.id).cloned()
    }

    fn read(&mut self, value: Option<&[u8]>) {
        let is_stale = self.context.is_stale;
        if self.context.lock.is_in_doubt && !is_stale {
            self.set_value(value);
        }
        if !is_stale && self.context.lock.value.as_deref() != value && self.context.lock.shape == LockShape::Value {
            self.vanish();
            self.set_value(value);
        }
        let is_data = |value| !is_unique_token(value) && !is_trivial(value);
        if !self.context.lock.is_known() && !self.has_held() && value.is_some_and(is_data) {
            self.lock().reasons.note_data();
        }
        if let Some(client) = self.actor() {
            let (id, times_taken) = (Arc::clone(&self.context.lock.id), self.context.lock.times_taken);
            let read = LockRead { id, value: value.map(Into::into), source: self.context.source.clone(), times_taken };
            self.context.clients.meet(&client).note_read(read);
        }
        self.emit(&LockEvent::Read { value });
        self.notice_loss(value);
    }

    /// A client that lost the lock and reads it knows then.
    fn notice_loss(&mut self, value: Option<&[u8]>) {
        let is_readable = self.context.lock.shape == LockShape::Value && !self.context.is_lost;
        let Some(client) = self.actor().filter(|_| is_readable) else { return };
        let is_lost = |hold: &Hold| {
            hold.client.is_same_connection(&client) && hold.status != HoldStatus::Held && value != Some(&*hold.token)
        };
        let Some(lost) = self.context.lock.holds.iter().position(is_lost) else { return };
        self.end_hold(lost, HoldEnd::Noticed, true);
        self.note_release(&client);
    }

    fn delete(&mut self, precondition: Precondition<'_>) {
        let hold = self.held();
        self.lock().is_in_doubt = false;
        self.note_leaving();
        if hold.is_none() && self.context.lock.value.is_none() {
            // The last member of a hash went before the hash itself.
            self.set_deadline(None);
            return;
        }
        let is_own = hold.is_some_and(|hold| self.is_own(hold));
        let is_release = match precondition {
            Precondition::Compared(_) => true,
            Precondition::None => is_own,
        };
        if is_own || self.has_held() {
            self.note_reason(LockReason::Returned);
        }
        let read = self.last_read();
        self.emit(&LockEvent::Deleted { hold, precondition, is_release, read });
        if let Some(hold) = hold {
            self.lose_key(hold, is_release);
        }
        self.set_value(None);
        self.set_deadline(None);
        self.end_belief();
    }

    /// The key of a hold is gone; the holder knows if it released it.
    fn lose_key(&mut self, hold: usize, is_release: bool) {
        let source = self.context.source.clone();
        if !is_release {
            self.lock().holds[hold].status = HoldStatus::Deleted(source);
            return;
        }
        let client = self.context.lock.holds[hold].client.clone();
        self.end_hold(hold, HoldEnd::Released, true);
        self.note_release(&client);
    }

    /// The client that acts believes no more that it holds the lock.
    fn end_belief(&mut self) {
        let Some(client) = self.actor() else { return };
        if self.context.lock.shape != LockShape::Semaphore {
            let is_own = |hold: &Hold| hold.client.is_same_connection(&client);
            while let Some(own) = self.context.lock.holds.iter().position(is_own) {
                self.end_hold(own, HoldEnd::Released, true);
            }
        }
        self.note_release(&client);
    }

    /// A reply tells the client that it does not hold the lock that it wanted to release or extend.
    fn note_not_owned(&mut self, token: Option<&[u8]>, intent: Intent) {
        let Some(client) = self.actor() else { return };
        if intent == Intent::Acquire {
            return self.refuse(Some(token.unwrap_or_default()));
        }
        let is_its = |hold: &Hold| match token {
            Some(token) => *hold.token == *token,
            None => hold.client.is_same_connection(&client),
        };
        if let Some(own) = self.context.lock.holds.iter().position(is_its) {
            if self.context.lock.holds[own].status == HoldStatus::Held && !self.context.is_stale {
                self.vanish();
            }
            self.end_hold(own, HoldEnd::Noticed, true);
        }
        let past = self.context.lock.past_holds.iter().rev().find(|past| is_its(&past.hold));
        let had_held = past.is_some_and(|past| past.end != HoldEnd::Released);
        // A script that is given the token which the client put there was to compare it.
        let is_token = token.is_some_and(|token| token.len() >= 8 && !token.iter().all(u8::is_ascii_digit));
        let is_own_token = past.is_some_and(|past| past.hold.client.is_same_connection(&client)) && is_token;
        let is_late_renewal = intent == Intent::Extend && past.is_some_and(|past| past.end == HoldEnd::Expired);
        if is_own_token && self.context.lock.shape == LockShape::Value {
            let is_wrong = self.context.lock.pending.iter().any(|finding| finding.severity == Severity::Error);
            self.note_reason(if is_wrong { LockReason::Compared } else { LockReason::Sought });
        }
        self.emit(&LockEvent::NotOwned { token, intent, had_held });
        // Whether it stops, its next writes show.
        if !is_late_renewal {
            self.note_release(&client);
        }
    }

    /// The client gives the key another deadline.
    fn set_expiry(&mut self, precondition: Precondition<'_>, expiry: ExpiryChange) {
        let source = self.context.source.clone();
        let deadline = expiry.deadline(source.at, None);
        let member = precondition.token().filter(|_| self.context.lock.shape == LockShape::Semaphore);
        let hold = match member {
            Some(member) => self.context.lock.holds.iter().position(|hold| *hold.token == *member),
            None => self.held(),
        };
        let is_own = hold.is_some_and(|hold| self.is_own_hold(hold, precondition));
        if let Some(hold) = hold.filter(|_| is_own && precondition == Precondition::None)
            && deadline.is_some()
            && self.context.lock.deadline.is_none()
            && self.context.lock.holds[hold].extensions == 0
        {
            self.note_reason(shown_by_expiry(&self.context.lock.holds[hold].token));
        }
        self.emit(&LockEvent::Extended { hold, precondition, is_own, expiry, deadline, value: None });
        if deadline.is_some_and(|deadline| deadline <= source.at.div_euclid(1000)) {
            if let Some(hold) = hold {
                // Nobody releases in the same step what it takes.
                let is_release = is_own && self.context.lock.holds[hold].acquired.seq != source.seq;
                self.lose_key(hold, is_release);
            }
            self.set_value(None);
            return self.set_deadline(None);
        }
        self.set_deadline(deadline);
        if let Some(hold) = hold {
            let actor = self.actor();
            let hold = &mut self.lock().holds[hold];
            if actor.is_some_and(|actor| !is_own && actor.same_program(&hold.client) == SameProgram::No) {
                // The holder goes by the deadline that it knows.
                let is_sooner = deadline.is_some_and(|deadline| hold.deadline.is_none_or(|known| deadline < known));
                hold.shortened = is_sooner.then_some(source);
                return;
            }
            (hold.deadline, hold.is_deadline_unknown, hold.shortened) = (deadline, false, None);
            if is_own {
                (hold.extended, hold.extensions) = (Some(source), hold.extensions.saturating_add(1));
            }
        }
    }

    fn add_member(&mut self, shape: LockShape, member: &[u8]) {
        self.lock().shape = shape;
        // A rate limiter adds members, too; the members of a semaphore remove themselves.
        if shape == LockShape::Hash {
            self.note_reason(LockReason::Shape);
        }
        if self.context.lock.hold_with(member).is_some() {
            return;
        }
        let deadline = self.context.lock.deadline;
        self.acquire(&NewHold { token: Some(member), how: Acquisition::Member, old: None, deadline, timestamp: None });
    }

    /// A member is removed, or counted down.
    fn remove_member(&mut self, member: &[u8], count: i64) {
        if count > 0 {
            return;
        }
        let hold = self.context.lock.holds.iter().position(|hold| *hold.token == *member);
        if hold.is_some_and(|hold| self.is_own(hold)) {
            self.note_reason(LockReason::Shape);
        }
        let precondition = Precondition::Compared(Some(member));
        self.emit(&LockEvent::Deleted { hold, precondition, is_release: true, read: None });
        if let Some(hold) = hold {
            self.lose_key(hold, true);
        }
        if self.context.lock.shape == LockShape::Hash {
            self.set_value(None);
        }
    }
}

/// Whether a holder that compares its token writes something in its place that is no token: `done`, for those who look
/// later. It has given the lock up then.
fn leaves_a_mark(precondition: Precondition<'_>, written: &[u8]) -> bool {
    let is_mark =
        |token: &[u8]| written.len() < token.len() && !token.starts_with(written) && !is_unique_token(written);
    precondition.token().is_some_and(|token| is_unique_token(token) && is_mark(token))
}

/// Whether a value is a text of several words, or no owner's name for another reason.
fn is_text(value: &[u8]) -> bool {
    !may_be_owner(value) || value.iter().filter(|byte| **byte == b' ').count() > 1
}

/// Whether a holder without a look puts something in the place of its token that is none: it plays another client, as tests
/// do, or leaves a mark. It knows that it has the lock no more.
fn is_put_by_hand(token: &[u8], written: &[u8]) -> bool {
    is_unique_token(token) && !is_unique_token(written) && !written.starts_with(token)
}

/// Whether the reply of a command shows that the key was there.
fn shows_the_key(effect: &KeyEffect<'_>) -> bool {
    match effect.effect {
        Effect::Take { took, .. } => !took,
        Effect::Set { old: Some(old), .. } => old.is_some(),
        Effect::Set { .. } => effect.precondition != Precondition::None,
        Effect::Read { value } => value.is_some(),
        Effect::Delete { removed } => removed == Some(true),
        Effect::Expire { done, .. } => done,
        Effect::Arrive { claim, .. } => claim == Claim::Refused,
        Effect::Transfer { .. }
        | Effect::NotOwned { .. }
        | Effect::AddMember { .. }
        | Effect::RemoveMember { .. }
        | Effect::OtherWrite
        | Effect::Unknown { .. }
        | Effect::Flush { .. }
        | Effect::SwapDatabases { .. } => false,
    }
}

/// Whether a command neither changes the key nor shows that it is gone.
fn is_harmless(effect: &KeyEffect<'_>) -> bool {
    matches!(effect.effect, Effect::Take { took: false, .. } | Effect::Read { value: Some(_) })
}

/// For which reason it is a lock if a client of another program is refused that offers a value; `None` if that shows that it is data.
pub fn shown_by_refusal(known: LockReasons, has: Option<&[u8]>, offered: Option<&[u8]>) -> Option<LockReason> {
    // An unknown value may be the same. What is no token may be data.
    let is_same = |value| has == Some(value);
    let is_known = known.has(LockReason::Contended);
    let is_alike = offered.is_none_or(|value| is_same(value) || !(is_known || is_unique_token(value)));
    // Two that come to the same number or document have computed it.
    let is_computed = offered.is_some_and(|value| is_same(value) && is_result(value));
    match () {
        () if is_computed => None,
        () if is_alike => Some(LockReason::Alike),
        () => Some(LockReason::Contended),
    }
}

/// For which reason it is a lock if its holder gives it an expiry in a second command. A counter begins like that, too, but not with a
/// token.
pub fn shown_by_expiry(token: &[u8]) -> LockReason {
    if is_unique_token(token) { LockReason::ExpiryBehind } else { LockReason::Behind }
}

/// Whether a value is a number that is no mark, or a document.
fn is_result(value: &[u8]) -> bool {
    // So many digits are a finite number.
    let is_whole = (1..=300).contains(&value.len()) && value.iter().all(u8::is_ascii_digit);
    let is_finite = |text: &str| text.parse::<f64>().is_ok_and(f64::is_finite);
    let is_number = is_whole || std::str::from_utf8(value).is_ok_and(is_finite);
    is_number && value != b"0" && value != b"1" || value.len() > 1 && matches!(value[0], b'{' | b'[')
}
