//! What a step makes of a lock.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::finding::Mark;
use super::happening::{Gone, Happening, Scene};
use super::lock::{
    End, Hold, How, Lock, MOST_PAST, MOST_WAITERS, Past, Place, Reason, Same, Standing, Waiter, Who, put,
};
use super::party::{Party, Read};
use super::picture::{Picture, Span, SpanKind};
use super::rules;
use super::stamp::Instant;
use super::step::{Act, Expiry, Guard, Intent, Shape, Step};

/// When locks end, in milliseconds on the server's clock.
pub type Deadlines = BTreeSet<(i64, Arc<Place>)>;

/// How many may have a lock at once, or believe so, and how many may be in one that lets several in.
const MOST_HOLDS: usize = 64;
const MOST_MEMBERS: usize = 1024;

/// A lock at the moment at which something happens to it.
pub struct Course<'s> {
    pub scene: Scene<'s>,
    pub deadlines: &'s mut Deadlines,
    pub picture: Option<&'s mut Picture>,
    /// When the line before was told, in real time: what happens by itself does so after that.
    pub since: i64,
}

impl Course<'_> {
    /// Lets the rules see what happens.
    fn emit(&mut self, happening: &Happening<'_>) {
        rules::see(&mut self.scene, happening);
    }

    fn lock(&mut self) -> &mut Lock {
        self.scene.lock
    }

    /// Who does it. Nobody only when time is up, or the server is emptied.
    fn who(&self) -> Option<Who> {
        self.scene.by.cloned()
    }

    fn is_own(&self, who: &Who) -> bool {
        self.scene.by.is_some_and(|by| by.is(who))
    }

    /// There is a reason to take the key for a lock. What was found so far counts, if it is the first.
    pub fn note_reason(&mut self, reason: Reason) {
        self.scene.note_reason(reason);
    }

    /// Ends what is over by now.
    pub fn pass(&mut self, at: i64, real: i64) {
        while let Some(over) = self.scene.lock.holds.iter().position(|hold| hold.is_over(at, real)) {
            self.end_of_time(over);
        }
        if self.scene.lock.deadline.is_some_and(|deadline| at.div_euclid(1000) > deadline) {
            self.emit(&Happening::Gone { how: Gone::Expired });
            let lock = &mut *self.scene.lock;
            (lock.value, lock.deadline) = (None, None);
            for hold in lock.holds.iter_mut().filter(|hold| hold.standing == Standing::Held) {
                if let Some(mark) = hold.shortened.clone() {
                    hold.standing = Standing::Deleted(mark);
                }
            }
        }
    }

    fn end_of_time(&mut self, over: usize) {
        let hold = &self.scene.lock.holds[over];
        let (at, real) = (hold.end().unwrap_or(self.scene.mark.at), self.scene.mark.real);
        let now = self.scene.mark.clone();
        // When the clock is moved, what is passed over happens at once.
        let real = real.saturating_sub(now.at.saturating_sub(at).max(0)).clamp(self.since.min(real), real);
        let who = hold.who.clone();
        self.scene.mark = Mark {
            server: who.server,
            seq: now.seq,
            at,
            real,
            client: 0,
            name: Arc::from(""),
            line: Arc::from("(the lock expired)"),
        };
        let by = self.scene.by.take();
        self.emit(&Happening::Expired { hold: over });
        self.scene.by = by;
        self.end(over, End::Expired, false);
        self.scene.mark = now;
        if let Some(party) = self.scene.parties.get_mut(&(who.server, who.client)) {
            party.lose(&self.scene.lock.place);
        }
    }

    /// A hold is over.
    fn end(&mut self, hold: usize, end: End, by_command: bool) {
        let mark = self.scene.mark.clone();
        let lock = self.lock();
        let hold = lock.holds.remove(hold);
        let place = Arc::clone(&lock.place);
        if lock.past.len() >= MOST_PAST {
            lock.past.pop_front();
        }
        let at = mark.at;
        if let Some(picture) = &mut self.picture {
            picture.note_hold(&place, &hold, Some((&end, &mark)));
        }
        let past = &mut self.lock().past;
        if past.capacity() == 0 {
            past.reserve_exact(1);
        }
        past.push_back(Past { hold, end, at, by: by_command.then_some(mark) });
    }

    /// What the server has there is not what was known: another value, or none.
    fn vanish(&mut self) {
        for hold in &mut self.lock().holds {
            if hold.standing == Standing::Held {
                hold.standing = Standing::Vanished;
            }
        }
        self.lock().value = None;
        self.set_deadline(None);
    }

    fn held(&self) -> Option<usize> {
        self.scene.lock.holds.iter().position(|hold| hold.standing == Standing::Held)
    }

    /// What whoever does it has read there last.
    fn last_read(&self) -> Option<Read> {
        let by = self.scene.by?;
        self.scene.parties.get(&(by.server, by.client))?.read_of(&self.scene.lock.place).cloned()
    }

    fn set_deadline(&mut self, deadline: Option<i64>) {
        let lock = &mut *self.scene.lock;
        if let Some(old) = lock.deadline.take() {
            self.deadlines.remove(&(old, Arc::clone(&lock.place)));
        }
        lock.deadline = deadline;
        if let Some(deadline) = deadline {
            self.deadlines.insert((deadline, Arc::clone(&lock.place)));
        }
    }

    /// Does what the step has done.
    pub fn apply(&mut self, step: &Step<'_>) {
        let Mark { at, real, .. } = self.scene.mark;
        self.pass(at, real);
        if let Guard::Compared(token) = step.guard {
            let is_evidence = match &step.act {
                Act::Remove { .. } => true,
                Act::Expire { .. } => self.scene.lock.shape != Shape::Semaphore,
                Act::Miss { intent, is_known } => *is_known && matches!(intent, Intent::Release | Intent::Extend),
                // To put another value there is what counters do, too.
                Act::Put { value, .. } => token.is_none_or(|token| token == *value),
                _ => false,
            };
            if is_evidence {
                self.note_reason(Reason::Compared);
            }
        }
        match &step.act {
            Act::Take { value, expiry, took: true } => self.take(value, *expiry),
            Act::Take { value, took: false, .. } => self.refuse(value),
            Act::Put { value, expiry, old: Some(old) } if step.guard == Guard::Blind => {
                self.swap(step, value, *expiry, *old);
            }
            Act::Put { value, expiry, .. } => self.put(step, value, *expiry),
            Act::Read { value } => self.read(*value),
            Act::Remove { removed } => match removed.unwrap_or(self.scene.lock.value.is_some()) {
                true => self.remove(step),
                false => self.miss(token_of(step.guard), Intent::Release),
            },
            Act::Expire { expiry, done: true } => self.expire(step, *expiry),
            Act::Expire { done: false, .. } => self.miss(token_of(step.guard), Intent::Extend),
            Act::Miss { intent, .. } => self.miss(token_of(step.guard), *intent),
            Act::Enter { shape, member } => self.enter(*shape, member),
            Act::Leave { member, missed: true, .. } => self.miss(Some(member), Intent::Release),
            Act::Leave { member, count, .. } => self.leave(member, *count),
            Act::Write | Act::Flush { .. } => {}
        }
    }

    /// Somebody gets the lock.
    fn take(&mut self, value: &[u8], expiry: Expiry) {
        if self.scene.lock.value.is_some() || self.held().is_some() {
            self.vanish();
        }
        let Mark { at, real, .. } = self.scene.mark;
        let deadline = expiry.deadline(at, None);
        let instant = self.written(value, at, real).filter(|_| deadline.is_none());
        self.begin(value, (How::Free, None), deadline, instant);
    }

    /// The instant that a value is which is put there. One that is over already is none unless others are there.
    fn written(&self, value: &[u8], at: i64, real: i64) -> Option<Instant> {
        let to_come = Instant::to_come(value, at, real);
        to_come.or_else(|| {
            let are_instants = self.scene.lock.reasons.has(Reason::Instant);
            are_instants.then(|| Instant::in_value(value, at, real)).flatten()
        })
    }

    /// The instant that a value is which was there: the one that it was when it was written, if that is known.
    fn written_before(&self, value: &[u8], at: i64, real: i64) -> Option<Instant> {
        let lock = &*self.scene.lock;
        let hold = lock.hold_with(value).or_else(|| lock.past_with(value).map(|past| &past.hold));
        hold.and_then(|hold| hold.instant).or_else(|| Instant::in_value(value, at, real))
    }

    /// Somebody has it from now on. `old` is what was there before if it was taken over.
    fn begin(
        &mut self,
        token: &[u8],
        (how, old): (How, Option<&[u8]>),
        deadline: Option<i64>,
        instant: Option<Instant>,
    ) {
        let Some(who) = self.who() else { return };
        if instant.is_some() {
            self.note_reason(Reason::Instant);
        }
        // Whatever it believed before, this is what it believes now.
        let before = self.scene.lock.holds.iter().position(|hold| hold.who.is(&who) && *hold.token == *token);
        let before = before.or_else(|| {
            let shape = self.scene.lock.shape;
            self.scene.lock.holds.iter().position(|hold| hold.who.is(&who) && shape != Shape::Semaphore)
        });
        if let Some(before) = before {
            self.end(before, End::Told, true);
        }
        self.stop_waiting(&who);
        self.set_deadline(deadline);
        let acquired = self.scene.mark.clone();
        let (is_certain, told) = (!self.scene.is_lost, self.scene.told);
        let lock = self.lock();
        lock.memory.taken += 1;
        lock.value = Some(token.into());
        let most = if lock.shape == Shape::Semaphore { MOST_MEMBERS } else { MOST_HOLDS };
        if lock.holds.len() >= most {
            lock.holds.remove(0);
        }
        let hold = Hold {
            who: who.clone(),
            token: token.into(),
            how,
            acquired,
            extended: None,
            extensions: 0,
            deadline,
            shortened: None,
            instant,
            is_certain,
            told,
            standing: Standing::Held,
        };
        put(&mut lock.holds, hold);
        let place = Arc::clone(&lock.place);
        self.scene.parties.entry((who.server, who.client)).or_insert_with(|| Party::new(who)).note_hold(&place);
        self.emit(&Happening::Acquired { old });
    }

    /// Somebody is refused.
    fn refuse(&mut self, value: &[u8]) {
        let Some(who) = self.who() else { return };
        let mark = self.scene.mark.clone();
        let is_contended = match self.scene.lock.holder() {
            Some(holder) => holder.who.same(&who) != Same::Yes,
            // Whoever had it has gone, and the key is still there.
            None => self.scene.lock.past.back().is_some_and(|past| past.end == End::Closed),
        };
        if is_contended {
            let is_alike = self.scene.lock.value.as_deref() == Some(value);
            match self.scene.lock.shape {
                // What limits a rate refuses, too.
                Shape::Semaphore => {}
                _ if is_alike => self.note_reason(Reason::Alike),
                _ => self.note_reason(Reason::Contended),
            }
        }
        let lock = &mut *self.scene.lock;
        match lock.waiters.iter_mut().find(|waiter| waiter.who.is(&who)) {
            Some(waiter) => {
                waiter.attempts += 1;
                waiter.last = mark;
            }
            None => {
                if lock.waiters.len() < MOST_WAITERS {
                    let party = self.scene.parties.entry((who.server, who.client));
                    party.or_insert_with(|| Party::new(who.clone())).meet(&lock.place);
                    put(&mut lock.waiters, Waiter { who, first: mark.clone(), last: mark, attempts: 1 });
                }
            }
        }
        self.emit(&Happening::Refused { value });
    }

    /// Somebody does not wait any more.
    pub fn stop_waiting(&mut self, who: &Who) {
        let Some(at) = self.scene.lock.waiters.iter().position(|waiter| waiter.who.is(who)) else { return };
        let waiter = self.lock().waiters.remove(at);
        let until = self.scene.mark.clone();
        if let Some(picture) = &mut self.picture {
            picture.note_wait(&self.scene.lock.place, &waiter, Some(&until));
        }
    }

    /// GETSET, or SET with GET: a lock whose value is a time is taken over if that is past.
    fn swap(&mut self, step: &Step<'_>, value: &[u8], expiry: Expiry, old: Option<&[u8]>) {
        let Mark { at, real, .. } = self.scene.mark;
        let instant = self.written(value, at, real);
        if instant.is_some() && (old.is_none() || expiry == Expiry::Never) {
            self.note_reason(Reason::Instant);
        }
        let Some(old) = old else {
            let deadline = expiry.deadline(at, None);
            return self.begin(value, (How::Free, None), deadline, instant);
        };
        if self.scene.lock.value.as_deref() != Some(old) {
            self.vanish();
            self.lock().value = Some(old.into());
        }
        let stale = self.written_before(old, at, real);
        let deadline = expiry.deadline(at, self.scene.lock.deadline);
        let is_free = match stale {
            // Programs go on using real time when a test has moved the server's clock.
            Some(stale) => stale.left(at, real) < 0,
            None => self.held().is_none(),
        };
        if instant.is_some() && is_free {
            // Whoever had it and has not noticed that its time is over has lost it.
            for hold in &mut self.lock().holds {
                hold.standing = Standing::Vanished;
            }
            return self.begin(value, (How::TakenOver, Some(old)), deadline, instant);
        }
        if self.held().is_some_and(|held| self.is_own(&self.scene.lock.holds[held].who)) {
            return self.put(step, value, expiry);
        }
        let hold = self.held();
        let read = self.last_read();
        // Whoever takes over what it has just read, and gets that back, believes that it was over.
        let believes = instant.is_some()
            && stale.is_some()
            && read.as_ref().is_some_and(|read| read.value.as_deref() == Some(old));
        self.emit(&Happening::Overwritten { hold, value, deadline, by_getset: true, read });
        let mark = self.scene.mark.clone();
        if believes {
            if let Some(hold) = hold {
                self.lock().holds[hold].standing = Standing::Overwritten(mark);
            }
            return self.begin(value, (How::TakenOver, Some(old)), deadline, instant);
        }
        self.lock().value = Some(value.into());
        self.set_deadline(deadline);
        // In the documented pattern the time in the value moves on a little, and the lock is still its holder's.
        if let Some(hold) = hold.filter(|_| instant.is_none()) {
            self.lock().holds[hold].standing = Standing::Overwritten(mark);
        }
    }

    /// Somebody sets the key, whoever has it.
    fn put(&mut self, step: &Step<'_>, value: &[u8], expiry: Expiry) {
        let Mark { at, real, .. } = self.scene.mark;
        let mark = self.scene.mark.clone();
        let deadline = expiry.deadline(at, self.scene.lock.deadline);
        let hold = self.held();
        let Some(held) = hold else {
            // Nobody has it, as far as is known. To set it is no way to take a lock, but it is taken then.
            if self.scene.lock.reasons.has(Reason::Said) && self.scene.lock.value.is_none() {
                return self.take(value, expiry);
            }
            self.lock().value = Some(value.into());
            self.set_deadline(deadline);
            return;
        };
        let is_own = self.is_own_hold(held, step.guard) || *self.scene.lock.holds[held].token == *value;
        if is_own {
            self.emit(&Happening::Extended { hold, guard: step.guard, is_own, expiry, deadline, value: Some(value) });
            self.set_deadline(deadline);
            let instant = self.written(value, at, real).filter(|_| deadline.is_none());
            let lock = self.lock();
            lock.value = Some(value.into());
            let hold = &mut lock.holds[held];
            (hold.token, hold.deadline, hold.instant) = (value.into(), deadline, instant);
            (hold.extended, hold.extensions) = (Some(mark), hold.extensions.saturating_add(1));
            return;
        }
        let read = self.last_read();
        self.emit(&Happening::Overwritten { hold, value, deadline, by_getset: false, read });
        self.set_deadline(deadline);
        let lock = self.lock();
        lock.value = Some(value.into());
        lock.holds[held].standing = Standing::Overwritten(mark);
    }

    /// Whether it is the holder who does something: by its connection, or because it has compared the token.
    fn is_own_hold(&self, held: usize, guard: Guard<'_>) -> bool {
        let hold = &self.scene.lock.holds[held];
        match guard {
            Guard::Compared(Some(token)) => {
                // Of some values only the beginning is the token.
                let is_beginning = token.len() >= 8 && hold.token.starts_with(token);
                *hold.token == *token || is_beginning || self.scene.lock.value.as_deref() == Some(token)
            }
            Guard::Compared(None) => true,
            Guard::Blind => self.is_own(&hold.who),
        }
    }

    fn read(&mut self, value: Option<&[u8]>) {
        if self.scene.lock.value.as_deref() != value && self.scene.lock.shape == Shape::Value {
            self.vanish();
            self.lock().value = value.map(Into::into);
        }
        if let Some(who) = self.who() {
            let (place, taken) = (Arc::clone(&self.scene.lock.place), self.scene.lock.memory.taken);
            let read = Read { place, value: value.map(Into::into), mark: self.scene.mark.clone(), taken };
            self.scene.parties.entry((who.server, who.client)).or_insert_with(|| Party::new(who)).note_read(read);
        }
        self.emit(&Happening::Seen { value });
        self.learn(value);
    }

    /// Whoever has lost the lock and reads it knows then.
    fn learn(&mut self, value: Option<&[u8]>) {
        let Some(who) = self.who().filter(|_| self.scene.lock.shape == Shape::Value && !self.scene.is_lost) else {
            return;
        };
        let is_lost = |hold: &Hold| hold.who.is(&who) && hold.standing != Standing::Held && value != Some(&*hold.token);
        let Some(lost) = self.scene.lock.holds.iter().position(is_lost) else { return };
        self.end(lost, End::Told, true);
        if let Some(party) = self.scene.parties.get_mut(&(who.server, who.client)) {
            party.give_back(&self.scene.lock.place);
        }
    }

    /// Somebody deletes it.
    fn remove(&mut self, step: &Step<'_>) {
        let hold = self.held();
        if hold.is_none() && self.scene.lock.value.is_none() {
            // The last member of a hash went before the hash itself.
            self.set_deadline(None);
            return;
        }
        let is_release = match step.guard {
            Guard::Compared(_) => true,
            Guard::Blind => hold.is_some_and(|hold| self.is_own(&self.scene.lock.holds[hold].who)),
        };
        if hold.is_some_and(|hold| self.is_own(&self.scene.lock.holds[hold].who)) {
            self.note_reason(Reason::Returned);
        }
        let read = self.last_read();
        self.emit(&Happening::Removed { hold, guard: step.guard, is_release, read });
        if let Some(hold) = hold {
            self.let_go(hold, is_release);
        }
        let lock = self.lock();
        lock.value = None;
        self.set_deadline(None);
        self.end_belief();
    }

    /// The lock that a hold stands for is gone; its holder knows if it was a release.
    fn let_go(&mut self, hold: usize, is_release: bool) {
        let mark = self.scene.mark.clone();
        if !is_release {
            self.lock().holds[hold].standing = Standing::Deleted(mark);
            return;
        }
        let who = self.scene.lock.holds[hold].who.clone();
        self.end(hold, End::Released, true);
        if let Some(party) = self.scene.parties.get_mut(&(who.server, who.client)) {
            party.give_back(&self.scene.lock.place);
        }
    }

    /// Whoever does it believes no more that it has the lock.
    fn end_belief(&mut self) {
        let Some(who) = self.who() else { return };
        if self.scene.lock.shape != Shape::Semaphore {
            while let Some(own) = self.scene.lock.holds.iter().position(|hold| hold.who.is(&who)) {
                self.end(own, End::Released, true);
            }
        }
        if let Some(party) = self.scene.parties.get_mut(&(who.server, who.client)) {
            party.give_back(&self.scene.lock.place);
        }
    }

    /// Somebody is told that it does not have the lock, when it wanted to release or to extend it.
    fn miss(&mut self, token: Option<&[u8]>, intent: Intent) {
        let Some(who) = self.who() else { return };
        if intent == Intent::Acquire {
            return self.refuse(token.unwrap_or_default());
        }
        let is_its = |hold: &Hold| match token {
            Some(token) => *hold.token == *token,
            None => hold.who.is(&who),
        };
        if let Some(own) = self.scene.lock.holds.iter().position(is_its) {
            if self.scene.lock.holds[own].standing == Standing::Held {
                self.vanish();
            }
            self.end(own, End::Told, true);
        }
        let late = self.scene.lock.past.iter().rev().find(|past| is_its(&past.hold));
        let late = late.is_some_and(|past| past.end != End::Released);
        self.emit(&Happening::Missed { token, intent, late });
        if let Some(party) = self.scene.parties.get_mut(&(who.server, who.client)) {
            party.give_back(&self.scene.lock.place);
        }
    }

    /// Somebody gives it another time to live.
    fn expire(&mut self, step: &Step<'_>, expiry: Expiry) {
        let mark = self.scene.mark.clone();
        let deadline = expiry.deadline(mark.at, None);
        let member = token_of(step.guard).filter(|_| self.scene.lock.shape == Shape::Semaphore);
        let hold = match member {
            Some(member) => self.scene.lock.holds.iter().position(|hold| *hold.token == *member),
            None => self.held(),
        };
        let is_own = hold.is_some_and(|hold| self.is_own_hold(hold, step.guard));
        if let Some(hold) = hold.filter(|_| is_own && step.guard == Guard::Blind)
            && deadline.is_some()
            && self.scene.lock.deadline.is_none()
            && self.scene.lock.holds[hold].extensions == 0
        {
            // What counts begins like that, too, but not with a token.
            let token = &self.scene.lock.holds[hold].token;
            let is_token = token.len() >= 8 && !token.iter().all(u8::is_ascii_digit);
            self.note_reason(if is_token { Reason::ExpiryBehind } else { Reason::Behind });
        }
        self.emit(&Happening::Extended { hold, guard: step.guard, is_own, expiry, deadline, value: None });
        if deadline.is_some_and(|deadline| deadline <= mark.at.div_euclid(1000)) {
            if let Some(hold) = hold {
                // Nobody gives back in the same step what it takes.
                let is_release = is_own && self.scene.lock.holds[hold].acquired.seq != mark.seq;
                self.let_go(hold, is_release);
            }
            self.lock().value = None;
            return self.set_deadline(None);
        }
        self.set_deadline(deadline);
        if let Some(hold) = hold {
            let by = self.who();
            let hold = &mut self.lock().holds[hold];
            if by.is_some_and(|by| !is_own && by.same(&hold.who) == Same::No) {
                // Its holder goes by the time that it knows.
                let is_sooner = deadline.is_some_and(|deadline| hold.deadline.is_none_or(|known| deadline < known));
                hold.shortened = is_sooner.then_some(mark);
                return;
            }
            (hold.deadline, hold.shortened) = (deadline, None);
            if is_own {
                (hold.extended, hold.extensions) = (Some(mark), hold.extensions.saturating_add(1));
            }
        }
    }

    /// A member is added.
    fn enter(&mut self, shape: Shape, member: &[u8]) {
        self.lock().shape = shape;
        // What limits a rate lets members in, too; a semaphore is left by those who have entered.
        if shape == Shape::Hash {
            self.note_reason(Reason::Shape);
        }
        if self.scene.lock.hold_with(member).is_some() {
            return;
        }
        let deadline = self.scene.lock.deadline;
        self.begin(member, (How::Member, None), deadline, None);
    }

    /// A member goes, or is counted down.
    fn leave(&mut self, member: &[u8], count: i64) {
        if count > 0 {
            return;
        }
        let hold = self.scene.lock.holds.iter().position(|hold| *hold.token == *member);
        if hold.is_some_and(|hold| self.is_own(&self.scene.lock.holds[hold].who)) {
            self.note_reason(Reason::Shape);
        }
        let guard = Guard::Compared(Some(member));
        self.emit(&Happening::Removed { hold, guard, is_release: true, read: None });
        if let Some(hold) = hold {
            self.let_go(hold, true);
        }
        if self.scene.lock.shape == Shape::Hash {
            self.lock().value = None;
        }
    }

    /// All keys are deleted.
    pub fn flush(&mut self, is_restart: bool) {
        if let Some(hold) = self.held() {
            self.emit(&Happening::Flushed { hold, is_restart });
        }
        self.emit(&Happening::Gone { how: Gone::Flushed });
        let mark = self.scene.mark.clone();
        for hold in &mut self.lock().holds {
            if hold.standing == Standing::Held {
                hold.standing = Standing::Flushed(mark.clone());
            }
        }
        self.lock().value = None;
        self.set_deadline(None);
    }

    /// The connection of a client has ended.
    pub fn close(&mut self, who: &Who) {
        self.stop_waiting(who);
        while let Some(hold) = self.scene.lock.holds.iter().position(|hold| hold.who.is(who)) {
            self.emit(&Happening::Closed { hold });
            self.end(hold, End::Closed, true);
        }
    }

    /// There is nothing more to come.
    pub fn finish(&mut self) {
        for hold in 0..self.scene.lock.holds.len() {
            self.emit(&Happening::Ended { hold });
            if let Some(picture) = &mut self.picture {
                picture.note_hold(&self.scene.lock.place, &self.scene.lock.holds[hold], None);
            }
        }
        self.emit(&Happening::Over);
        for waiter in &self.scene.lock.waiters {
            if let Some(picture) = &mut self.picture {
                picture.note_wait(&self.scene.lock.place, waiter, None);
            }
        }
    }

    /// Somebody writes what it has touched under the lock that it has lost.
    pub fn work(&mut self, key: &[u8]) {
        self.emit(&Happening::Worked { key });
    }
}

fn token_of(guard: Guard<'_>) -> Option<&[u8]> {
    if let Guard::Compared(token) = guard { token } else { None }
}

impl Picture {
    fn note_hold(&mut self, place: &Arc<Place>, hold: &Hold, end: Option<(&End, &Mark)>) {
        let kind = if hold.is_certain { SpanKind::Held } else { SpanKind::MayHold };
        self.spans.push(Span {
            place: Arc::clone(place),
            who: hold.who.clone(),
            kind,
            from: hold.acquired.clone(),
            until: end.map(|(_, mark)| mark.clone()),
            end: end.map(|(end, _)| end.clone()),
            standing: hold.standing.clone(),
        });
    }

    fn note_wait(&mut self, place: &Arc<Place>, waiter: &Waiter, until: Option<&Mark>) {
        self.spans.push(Span {
            place: Arc::clone(place),
            who: waiter.who.clone(),
            kind: SpanKind::Waiting,
            from: waiter.first.clone(),
            until: until.cloned(),
            end: None,
            standing: Standing::Held,
        });
    }
}
