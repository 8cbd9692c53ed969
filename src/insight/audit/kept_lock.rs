//! A lock as the table keeps it: awake, with all that the rules remember of it, or at rest.

use std::borrow::Cow;
use std::iter;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use super::client_identity::ClientIdentity;
use super::effect::LockShape;
use super::learned_locks::LearnedLocks;
use super::line_form::LineForms;
use super::lock::{HoldStatus, Lock, LockId};
use super::lock_reason::LockReasons;
use super::recent_ends::RecentEnds;
use super::resting_lock::{Guarded, RestingLock, TrackedLock};

/// A lock, shared with the copies of the auditor.
#[derive(Clone)]
pub enum KeptLock {
    Awake(Arc<TrackedLock>),
    Resting(Arc<Resting>),
}

/// A lock at rest.
#[derive(Clone)]
pub struct Resting {
    lock: RestingLock,
    /// The same, once it is asked for.
    woken: OnceLock<Box<Woken>>,
}

/// A lock at rest as it was before it rested.
#[derive(Clone)]
struct Woken {
    /// The sum that tells which connections had ended of those that have to do with it.
    ends: u64,
    tracked: Arc<TrackedLock>,
    /// The same when others had ended: a copy of the auditor may have seen more of them.
    later: OnceLock<Box<Woken>>,
}

/// With the two counters of its [`Arc`] and the allocator's word, 160 bytes.
const _: () = assert!(size_of::<Resting>() <= 136);
const _: () = assert!(size_of::<LockId>() <= 40);

impl Resting {
    pub fn new(lock: RestingLock) -> Self {
        Self { lock, woken: OnceLock::new() }
    }

    /// The lock at rest, to be changed.
    pub fn lock_mut(&mut self) -> &mut RestingLock {
        self.woken.take();
        &mut self.lock
    }

    /// The lock as it was, if it was asked for when the same connections had ended.
    fn known(&self, recent: &RecentEnds) -> Option<&Arc<TrackedLock>> {
        let mut all = iter::successors(self.woken.get(), |woken| woken.later.get()).peekable();
        all.peek()?;
        let ends = self.lock.sum_of_ends(recent);
        all.find(|woken| woken.ends == ends).map(|woken| &woken.tracked)
    }

    /// The lock as it was.
    fn woken(&self, recent: &RecentEnds) -> &Arc<TrackedLock> {
        let ends = self.lock.sum_of_ends(recent);
        let new = || Box::new(Woken { ends, tracked: Arc::new(self.lock.wake(recent)), later: OnceLock::new() });
        let mut last = self.woken.get_or_init(new);
        while last.ends != ends {
            last = last.later.get_or_init(new);
        }
        &last.tracked
    }
}

impl Deref for Resting {
    type Target = RestingLock;

    fn deref(&self) -> &RestingLock {
        &self.lock
    }
}

impl KeptLock {
    pub fn id(&self) -> &Arc<LockId> {
        match self {
            Self::Awake(tracked) => &tracked.lock.id,
            Self::Resting(resting) => resting.lock.id(),
        }
    }

    pub fn tracked(&self, recent: &RecentEnds) -> &TrackedLock {
        match self {
            Self::Awake(tracked) => tracked,
            Self::Resting(resting) => resting.woken(recent),
        }
    }

    /// The same for one look: a lock at rest goes on resting.
    pub fn seen(&self, recent: &RecentEnds) -> Cow<'_, TrackedLock> {
        match self {
            Self::Awake(tracked) => Cow::Borrowed(tracked),
            Self::Resting(resting) => match resting.known(recent) {
                Some(woken) => Cow::Borrowed(woken),
                None => Cow::Owned(resting.lock.wake(recent)),
            },
        }
    }

    /// Until when nothing happens to it unless a command is about it, in microseconds on the server's clock, if it rests.
    pub fn rests_until(&self) -> Option<i64> {
        let Self::Resting(resting) = self else { return None };
        Some(resting.lock.rests_until())
    }

    /// Lets others learn the name of a lock.
    pub fn teach(&self, learned: &mut LearnedLocks) {
        match self {
            Self::Awake(tracked) => learned.learn(&tracked.lock),
            Self::Resting(lock) => learned.learn_held(&lock.id().key, lock.reasons(), lock.token()),
        }
    }

    pub fn reasons(&self) -> LockReasons {
        match self {
            Self::Awake(tracked) => tracked.lock.reasons,
            Self::Resting(resting) => resting.lock.reasons(),
        }
    }

    /// Whether a client holds the lock or waits for it.
    pub fn concerns(&self, client: &ClientIdentity, recent: &RecentEnds) -> bool {
        match self {
            Self::Awake(tracked) => {
                let TrackedLock { lock, .. } = &**tracked;
                let mut clients = lock.holds.iter().map(|hold| &hold.client);
                clients.any(|other| other.is_same_connection(client)) || self.has_waiter(client, recent)
            }
            Self::Resting(resting) => resting.lock.concerns(client, recent),
        }
    }

    pub fn has_waiter(&self, client: &ClientIdentity, recent: &RecentEnds) -> bool {
        match self {
            Self::Awake(tracked) => tracked.lock.waiters.iter().any(|waiter| waiter.client.is_same_connection(client)),
            Self::Resting(resting) => resting.lock.has_waiter(client, recent),
        }
    }

    /// How many refusals and releases are postponed, and how many lists there are of what the holder did.
    pub fn postponed(&self) -> usize {
        match self {
            Self::Awake(_) => 0,
            Self::Resting(resting) => {
                let beside = [resting.lock.is_free(), resting.lock.has_work()].map(usize::from);
                resting.lock.refusals().len() + beside.iter().sum::<usize>()
            }
        }
    }

    /// Whether a client has the lock for certain: the server agrees, and no hold is over at this time on the server's clock and in reality.
    pub fn is_certain(&self, client: &ClientIdentity, (at, real): (i64, i64), recent: &RecentEnds) -> bool {
        match self {
            Self::Awake(tracked) => {
                let TrackedLock { lock, .. } = &**tracked;
                lock.hold_of(client).is_some_and(|hold| hold.status == HoldStatus::Held)
                    && !lock.holds.iter().any(|hold| hold.is_over(at, real))
            }
            Self::Resting(resting) => resting.lock.is_certain(client, (at, real), recent),
        }
    }

    /// Whether it is noted what its holders write, as long as it is not known for a lock.
    pub fn may_guard(&self) -> bool {
        let has_guarded = match self {
            Self::Awake(tracked) => tracked.lock.guarded.is_some(),
            Self::Resting(resting) => resting.lock.has_guarded(),
        };
        has_guarded && !self.reasons().are_enough()
    }

    /// Whether a holder has used the key with this hash.
    pub fn is_used_for(&self, key: u64) -> bool {
        match self {
            Self::Awake(tracked) => tracked.lock.is_used_for(key),
            Self::Resting(resting) => resting.lock.is_used_for(key),
        }
    }

    /// Lets what a client writes be noted at the hold that it has, or had last, of a key that is a value.
    pub fn with_guarded<T>(&mut self, client: &ClientIdentity, note: impl FnOnce(Guarded<'_>) -> T) -> Option<T> {
        match self {
            Self::Awake(tracked) => {
                let lock = &tracked.lock;
                let is_meant = lock.shape == LockShape::Value
                    && (lock.hold_of(client).is_some() || lock.past_hold_of(client).is_some());
                let lock = is_meant.then(|| &mut Arc::make_mut(tracked).lock)?;
                let mut noted = lock.guarded.take();
                let hold = lock.hold_of(client).or(lock.past_hold_of(client).map(|past| &past.hold))?;
                let told = note(Guarded { noted: &mut noted, token: &hold.token, from: hold.acquired.place });
                lock.guarded = noted;
                Some(told)
            }
            Self::Resting(resting) => {
                let is_meant = resting.lock.was_taken_by(client);
                is_meant.then(|| note(Arc::make_mut(resting).lock_mut().guarded()))
            }
        }
    }

    /// Whether a client holds the lock, waits for it, or the server has the key.
    pub fn is_in_use(&self) -> bool {
        match self {
            Self::Awake(tracked) => tracked.lock.is_in_use(),
            Self::Resting(resting) => !resting.lock.is_free(),
        }
    }

    /// Whether the server has the key.
    pub fn has_value(&self) -> bool {
        match self {
            Self::Awake(tracked) => tracked.lock.value.is_some(),
            Self::Resting(resting) => !resting.lock.is_free(),
        }
    }

    pub fn awake(&self) -> Option<&Lock> {
        match self {
            Self::Awake(tracked) => Some(&tracked.lock),
            Self::Resting(_) => None,
        }
    }

    /// The lock, to be changed.
    #[inline]
    pub fn wake(&mut self, recent: &RecentEnds) -> Option<&mut TrackedLock> {
        if let Self::Resting(resting) = self {
            let tracked = match resting.known(recent) {
                Some(woken) => Arc::clone(woken),
                None => Arc::new(resting.lock.wake(recent)),
            };
            *self = Self::Awake(tracked);
        }
        let Self::Awake(tracked) = self else { return None };
        Some(Arc::make_mut(tracked))
    }

    /// Puts the lock to rest, if nothing is to be remembered but who took it. Returns whether it did.
    pub fn rest(&mut self, forms: &mut LineForms) -> bool {
        let Self::Awake(tracked) = self else { return false };
        let Some(mut lock) = RestingLock::of(tracked, forms) else { return false };
        lock.hold_back(match Arc::get_mut(tracked) {
            Some(tracked) => std::mem::take(&mut tracked.lock.pending),
            None => tracked.lock.pending.clone(),
        });
        *self = Self::Resting(Arc::new(Resting::new(lock)));
        true
    }

    pub fn is_resting(&self) -> bool {
        matches!(self, Self::Resting(_))
    }
}
