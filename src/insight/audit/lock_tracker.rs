//! The state machine of one lock: holds begin and end, clients wait, time passes, and the rules see each event.
//!
//! What the commands of clients do to it is in `apply_effect.rs`.

use std::sync::Arc;

use super::client_identity::ClientIdentity;
use super::deadlines::Deadlines;
use super::effect::LockShape;
use super::finding::JournalRef;
use super::lock::{
    Acquisition, Failover, Flush, FlushCause, Hold, HoldEnd, HoldStatus, Lock, MAX_PAST_HOLDS, PastHold, push_exact,
};
use super::lock_event::{LockEvent, VanishCause};
use super::lock_reason::LockReason;
use super::rule_context::RuleContext;
use super::rules::{self, GlobalRuleState, RuleState};
use super::timeline::LockTimeline;
use super::timestamp::Timestamp;

/// How long before a promotion the former master may have taken its connections with it, in microseconds.
const MAX_CUT_OFF: i64 = 60_000_000;

/// How many holds a lock may have, and how many members a lock that admits several.
pub const MAX_HOLDS: usize = 64;
pub const MAX_MEMBERS: usize = 1024;

/// How many keys a client may hold of which it is a guess that they are locks.
const MAX_GUESSES: usize = 4;

/// A lock at the moment of an event, with all that the event may change.
pub struct LockTracker<'s> {
    pub context: RuleContext<'s>,
    pub rules: &'s mut RuleState,
    pub global: &'s mut GlobalRuleState,
    pub deadlines: &'s mut Deadlines,
    pub timeline: Option<&'s mut LockTimeline>,
    /// The real time of the journal's line before: what happens by itself happens after it.
    pub previous_real: i64,
}

/// How a hold begins.
pub struct NewHold<'a> {
    /// `None` if it is unknown.
    pub token: Option<&'a [u8]>,
    pub how: Acquisition,
    /// The old value, for a lock that is taken over.
    pub old: Option<&'a [u8]>,
    pub deadline: Option<i64>,
    pub timestamp: Option<Timestamp>,
}

impl LockTracker<'_> {
    /// Shows an event to the rules.
    pub fn emit(&mut self, event: &LockEvent<'_>) {
        rules::observe(&mut self.context, self.rules, self.global, event);
    }

    pub fn lock(&mut self) -> &mut Lock {
        self.context.lock
    }

    /// The client that acts; `None` only if time is up or the server starts empty.
    pub fn actor(&self) -> Option<ClientIdentity> {
        self.context.actor.cloned()
    }

    /// Whether the client that acts owns the hold.
    pub fn is_own(&self, hold: usize) -> bool {
        let owner = &self.context.lock.holds[hold].client;
        self.context.actor.is_some_and(|actor| actor.is_same_connection(owner))
    }

    /// The hold that the server agrees with.
    pub fn held(&self) -> Option<usize> {
        self.context.lock.holds.iter().position(|hold| hold.status == HoldStatus::Held)
    }

    /// Notes a reason to take the key for a lock.
    pub fn note_reason(&mut self, reason: LockReason) {
        self.context.note_reason(reason);
    }

    // ---- time

    /// Ends the holds and the deadline that are over by now.
    pub fn advance_time(&mut self, at: i64, real: i64) {
        while let Some(over) = self.context.lock.holds.iter().position(|hold| hold.is_over(at, real)) {
            self.expire_hold(over);
        }
        if self.context.lock.deadline.is_some_and(|deadline| at.div_euclid(1000) > deadline) {
            self.emit(&LockEvent::KeyVanished { cause: VanishCause::Expired });
            let lock = &mut *self.context.lock;
            (lock.value, lock.is_value_unknown, lock.deadline) = (None, false, None);
            for hold in lock.holds.iter_mut().filter(|hold| hold.status == HoldStatus::Held) {
                if let Some(source) = hold.shortened.clone() {
                    hold.status = HoldStatus::Deleted(source);
                }
            }
        }
    }

    fn expire_hold(&mut self, over: usize) {
        let hold = &self.context.lock.holds[over];
        let (at, real) = (hold.end().unwrap_or(self.context.source.at), self.context.source.real);
        let now = self.context.source.clone();
        // When the clock is moved, what it passes over happens at once in real time.
        let real = real.saturating_sub(now.at.saturating_sub(at).max(0)).clamp(self.previous_real.min(real), real);
        let client = hold.client.clone();
        self.context.source = Arc::new(JournalRef {
            place: now.place,
            ..JournalRef::of_nobody(client.server, (now.seq, at, real), "(the lock expired)")
        });
        let actor = self.context.actor.take();
        self.emit(&LockEvent::Expired { hold: over });
        self.context.actor = actor;
        self.end_hold(over, HoldEnd::Expired, false);
        self.context.source = now;
        if let Some(state) = self.context.clients.get_mut(&(client.server, client.id)) {
            state.note_loss(&self.context.lock.id);
        }
    }

    pub fn set_deadline(&mut self, deadline: Option<i64>) {
        let source = &self.context.source;
        // In milliseconds, both rounded down.
        let slack = (source.real.div_euclid(1000) - source.earliest.div_euclid(1000)).max(0);
        let lock = &mut *self.context.lock;
        if let Some(old) = lock.deadline.take() {
            self.deadlines.remove(old, lock.number);
        }
        (lock.deadline, lock.deadline_slack) = (deadline, slack);
        if let Some(deadline) = deadline {
            self.deadlines.insert(deadline, lock.number, &lock.id);
        }
    }

    // ---- values

    /// The server has this value, or none.
    pub fn set_value(&mut self, value: Option<&[u8]>) {
        let lock = self.lock();
        (lock.value, lock.is_value_unknown, lock.is_in_doubt) = (value.map(Into::into), false, false);
    }

    /// The server has this value, or an unknown one.
    pub fn write_value(&mut self, value: Option<&[u8]>) {
        let lock = self.lock();
        (lock.value, lock.is_value_unknown) = (Some(value.unwrap_or_default().into()), value.is_none());
        lock.is_in_doubt = false;
    }

    /// Something may have happened to the key that the journal does not say. Nothing is held against anybody that rests on
    /// what was known before.
    pub fn doubt(&mut self) {
        self.emit(&LockEvent::Doubted);
        while let Some(hold) = self.context.lock.holds.first() {
            let client = hold.client.clone();
            self.end_hold(0, HoldEnd::Unknown, false);
            self.note_release(&client);
            if let Some(state) = self.context.clients.get_mut(&(client.server, client.id)) {
                state.may_hold_more = true;
            }
        }
        while let Some(waiter) = self.context.lock.waiters.first() {
            let client = waiter.client.clone();
            self.stop_waiting(&client);
        }
        for past in std::mem::take(&mut self.lock().past_holds) {
            self.note_release(&past.hold.client);
        }
        self.set_value(None);
        self.set_deadline(None);
        self.lock().is_in_doubt = true;
    }

    /// The server has another value than was known, or none.
    pub fn vanish(&mut self) {
        for hold in &mut self.lock().holds {
            if hold.status == HoldStatus::Held {
                let failover = hold.failover.as_ref().map(|failover| failover.source.clone());
                hold.status = failover.map_or(HoldStatus::Vanished, HoldStatus::FailedOver);
            }
        }
        self.set_value(None);
        self.set_deadline(None);
    }

    // ---- holds

    /// The client that acts holds the lock from now on.
    pub fn begin_hold(&mut self, new: &NewHold<'_>) {
        let Some(client) = self.actor() else { return };
        if new.timestamp.is_some() {
            self.note_reason(LockReason::Timestamp);
        }
        let token = new.token.unwrap_or_default();
        // Whatever the client believed before, this is what it believes now.
        let holds = &self.context.lock.holds;
        let is_semaphore = self.context.lock.shape == LockShape::Semaphore;
        let before = holds.iter().position(|hold| hold.client.is_same_connection(&client) && *hold.token == *token);
        let before =
            before.or_else(|| holds.iter().position(|hold| hold.client.is_same_connection(&client) && !is_semaphore));
        if let Some(before) = before {
            self.end_hold(before, HoldEnd::Noticed, true);
        }
        self.stop_waiting(&client);
        self.set_deadline(new.deadline);
        self.write_value(new.token);
        let acquired = self.context.source.clone();
        let (is_certain, replied_at) = (!self.context.is_lost, self.context.replied_at);
        let lock = self.lock();
        lock.times_taken += 1;
        let most = if is_semaphore { MAX_MEMBERS } else { MAX_HOLDS };
        if lock.holds.len() >= most {
            lock.holds.remove(0);
        }
        let hold = Hold {
            client: client.clone(),
            token: token.into(),
            how: new.how,
            acquired,
            extended: None,
            extensions: 0,
            deadline: new.deadline,
            is_deadline_unknown: new.token.is_none() && new.deadline.is_none(),
            shortened: None,
            timestamp: new.timestamp,
            is_certain,
            replied_at,
            status: HoldStatus::Held,
            acknowledged: None,
            short_wait: None,
            failover: None,
        };
        push_exact(&mut lock.holds, hold);
        let (id, is_guess) = (Arc::clone(&lock.id), lock.is_guess());
        let state = self.context.clients.meet(&client);
        // What is data after all takes no place from locks.
        if !is_guess || state.holds.len() < MAX_GUESSES {
            state.note_hold(&id);
        }
    }

    /// A hold ends.
    pub fn end_hold(&mut self, hold: usize, end: HoldEnd, by_command: bool) {
        let source = self.context.source.clone();
        let lock = self.lock();
        let hold = lock.holds.remove(hold);
        let (id, is_guess) = (Arc::clone(&lock.id), lock.is_guess());
        if let Some(state) = self.context.clients.get_mut(&(hold.client.server, hold.client.id)) {
            state.note_parted(&id);
            if !is_guess {
                state.note_had(&id);
            }
        }
        let lock = self.lock();
        if lock.past_holds.len() >= MAX_PAST_HOLDS {
            lock.past_holds.pop_front();
        }
        let at = source.at;
        if let Some(timeline) = &mut self.timeline {
            timeline.note_hold(&id, &hold, Some((&end, &source)));
        }
        let past_holds = &mut self.lock().past_holds;
        if past_holds.capacity() == 0 {
            past_holds.reserve_exact(1);
        }
        past_holds.push_back(PastHold { hold, end, at, ended_by: by_command.then_some(source) });
    }

    /// A client knows that it does not hold the lock any more.
    pub fn note_release(&mut self, client: &ClientIdentity) {
        if let Some(state) = self.context.clients.get_mut(&(client.server, client.id)) {
            state.note_release(&self.context.lock.id);
        }
    }

    pub fn stop_waiting(&mut self, client: &ClientIdentity) {
        let waiters = &self.context.lock.waiters;
        let Some(at) = waiters.iter().position(|waiter| waiter.client.is_same_connection(client)) else { return };
        let waiter = self.lock().waiters.remove(at);
        if let Some(state) = self.context.clients.get_mut(&(client.server, client.id)) {
            state.note_parted(&self.context.lock.id);
        }
        let until = self.context.source.clone();
        if let Some(timeline) = &mut self.timeline {
            timeline.note_wait(&self.context.lock.id, &waiter, Some(&until));
        }
    }

    // ---- what no command does to this one key

    /// All keys of the database go.
    pub fn flush(&mut self, cause: FlushCause) {
        if let Some(hold) = self.held() {
            self.emit(&LockEvent::Flushed { hold, cause });
        }
        self.emit(&LockEvent::KeyVanished { cause: VanishCause::Flushed(cause) });
        let source = self.context.source.clone();
        for hold in &mut self.lock().holds {
            if hold.status == HoldStatus::Held {
                hold.status = HoldStatus::Flushed(Flush { source: source.clone(), cause });
            }
        }
        self.set_value(None);
        self.set_deadline(None);
    }

    /// The server evicts the key.
    pub fn evict(&mut self) {
        if let Some(hold) = self.held() {
            self.emit(&LockEvent::Evicted { hold });
        }
        self.emit(&LockEvent::KeyVanished { cause: VanishCause::Evicted });
        let source = self.context.source.clone();
        for hold in &mut self.lock().holds {
            if hold.status == HoldStatus::Held {
                hold.status = HoldStatus::Evicted(Arc::clone(&source));
            }
        }
        self.set_value(None);
        self.set_deadline(None);
    }

    /// The node that has the key is replaced: what was written last may be lost. A client may have met the new one before the
    /// promotion is seen, and connections to the former one may have ended with it.
    pub fn fail_over(&mut self, replaced: &str) {
        let source = self.context.source.clone();
        let lock = &mut *self.context.lock;
        let is_there = lock.node.as_deref() == Some(replaced);
        let is_new = |hold: &Hold| hold.status == HoldStatus::Held && hold.node() == source.node.as_ref();
        let is_given_anew = lock.holds.iter().any(is_new);
        let failover = Failover { source: source.clone(), replaced: Arc::from(replaced) };
        let was_given_there = |hold: &Hold| {
            hold.node().is_some_and(|node| **node == *replaced) && !hold.may_be_over(source.at, source.real)
        };
        let mut is_affected = false;
        for hold in lock.holds.iter_mut().filter(|hold| was_given_there(hold)) {
            match hold.status {
                HoldStatus::Held if is_there => {}
                HoldStatus::Vanished if is_given_anew => hold.status = HoldStatus::FailedOver(source.clone()),
                _ => continue,
            }
            hold.failover = Some(Box::new(failover.clone()));
            is_affected = true;
        }
        let is_cut_off = |past: &PastHold| {
            let ended = past.ended_by.as_ref().map_or(past.at, |ended| ended.real);
            past.end == HoldEnd::Closed && past.hold.status == HoldStatus::Held && source.real - ended <= MAX_CUT_OFF
        };
        let has_value = lock.value.is_some();
        if let Some(past) = lock.past_holds.back_mut().filter(|past| is_there && has_value && is_cut_off(past))
            && was_given_there(&past.hold)
        {
            past.hold.failover = Some(Box::new(failover));
            is_affected = true;
        }
        if is_affected {
            self.emit(&LockEvent::FailedOver);
        }
    }

    /// The connection of a client ended.
    pub fn close_connection(&mut self, client: &ClientIdentity) {
        self.stop_waiting(client);
        let own = |lock: &Lock| lock.holds.iter().position(|hold| hold.client.is_same_connection(client));
        while let Some(hold) = own(self.context.lock) {
            self.emit(&LockEvent::ConnectionClosed { hold });
            self.end_hold(hold, HoldEnd::Closed, true);
        }
    }

    /// The journal ends.
    pub fn finish(&mut self) {
        for hold in 0..self.context.lock.holds.len() {
            self.emit(&LockEvent::HeldAtEnd { hold });
            if let Some(timeline) = &mut self.timeline {
                timeline.note_hold(&self.context.lock.id, &self.context.lock.holds[hold], None);
            }
        }
        self.emit(&LockEvent::AuditEnded);
        for waiter in &self.context.lock.waiters {
            if let Some(timeline) = &mut self.timeline {
                timeline.note_wait(&self.context.lock.id, waiter, None);
            }
        }
    }

    /// A client that lost the lock writes on the condition that nobody else has written.
    pub fn note_guarded_write(&mut self) {
        self.emit(&LockEvent::WroteGuarded);
    }

    /// A client that lost the lock writes a key that it accessed under it, or that others do.
    pub fn note_write_after_loss(&mut self, key: &[u8], is_first: bool) {
        self.emit(&LockEvent::WroteAfterLoss { key, is_first });
    }
}
