//! Memory that several owners share: when they have too much together, the fullest forgets something first, whoever needs the
//! room. So an owner with little keeps what it has as long as another one has more.
//!
//! An owner counts its bytes while its own lock is held. Others are then only tried, never waited for: an owner that is in use
//! is passed over.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, TryLockError, Weak};

use super::sync::MutexExt;

/// What can forget, to make room for others.
pub trait Forgetful {
    /// Forgets some of what it has, the oldest first, and counts its bytes anew. Returns whether there was anything to forget.
    fn forget(&mut self) -> bool;
}

/// The bytes that all owners have and may have together.
pub struct Budget<T> {
    most: AtomicUsize,
    used: AtomicUsize,
    /// How many of these bytes their owners never forget.
    kept: AtomicUsize,
    owners: Mutex<Vec<Owner<T>>>,
}

struct Owner<T> {
    bytes: Weak<AtomicUsize>,
    owner: Weak<Mutex<T>>,
}

/// The part of one owner, given back when it is dropped.
pub struct Share<T> {
    budget: Arc<Budget<T>>,
    bytes: Arc<AtomicUsize>,
    kept: AtomicUsize,
}

/// The owner with the most bytes of those that were not tried yet.
struct Fullest<T> {
    count: usize,
    bytes: Arc<AtomicUsize>,
    owner: Weak<Mutex<T>>,
}

impl<T> Default for Budget<T> {
    fn default() -> Self {
        Self {
            most: AtomicUsize::new(usize::MAX),
            used: AtomicUsize::new(0),
            kept: AtomicUsize::new(0),
            owners: Mutex::default(),
        }
    }
}

impl<T: Forgetful> Budget<T> {
    pub fn set_most(&self, bytes: usize) {
        self.most.store(bytes, Ordering::Relaxed);
    }

    pub fn most(&self) -> usize {
        self.most.load(Ordering::Relaxed)
    }

    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    pub fn join(self: &Arc<Self>, owner: &Arc<Mutex<T>>) -> Share<T> {
        let bytes = Arc::new(AtomicUsize::new(0));
        let mut owners = self.owners.lock_ignoring_poison();
        owners.retain(|known| known.owner.strong_count() > 0);
        owners.push(Owner { bytes: Arc::downgrade(&bytes), owner: Arc::downgrade(owner) });
        Share { budget: Arc::clone(self), bytes, kept: AtomicUsize::new(0) }
    }

    fn fullest(&self, tried: &[Arc<AtomicUsize>]) -> Option<Fullest<T>> {
        let owners = self.owners.lock_ignoring_poison();
        let left = owners.iter().filter_map(|known| {
            let bytes = known.bytes.upgrade()?;
            let count = bytes.load(Ordering::Relaxed);
            let is_left = count > 0 && !tried.iter().any(|tried| Arc::ptr_eq(tried, &bytes));
            is_left.then(|| Fullest { count, bytes, owner: Weak::clone(&known.owner) })
        });
        left.max_by_key(|fullest| fullest.count)
    }
}

impl<T: Forgetful> Share<T> {
    /// Counts the owner's bytes anew.
    pub fn count(&self, bytes: usize) {
        count(&self.bytes, bytes, &self.budget.used);
    }

    /// Counts anew how many of them the owner never forgets.
    pub fn count_kept(&self, bytes: usize) {
        count(&self.kept, bytes, &self.budget.kept);
    }

    /// How many bytes more may be kept for good: at most half of all, so that there is room for what can be forgotten.
    pub fn room_to_keep(&self) -> usize {
        (self.budget.most() / 2).saturating_sub(self.budget.kept.load(Ordering::Relaxed))
    }

    /// How many bytes this owner may keep for good, those that were counted and as many as there is room for.
    pub fn most_to_keep(&self) -> usize {
        self.kept.load(Ordering::Relaxed) + self.room_to_keep()
    }

    /// Whether all owners together have more than they may.
    pub fn is_over(&self) -> bool {
        self.budget.used() > self.budget.most()
    }

    /// The bytes for each owner if all have as many.
    pub fn fair(&self) -> usize {
        self.budget.most() / self.budget.owners.lock_ignoring_poison().len().max(1)
    }

    /// Has others forget as long as all have too much, and there is one with more than so many bytes.
    pub fn take_from_fuller(&self, than: usize) {
        let mut tried = vec![Arc::clone(&self.bytes)];
        while self.is_over()
            && let Some(fullest) = self.budget.fullest(&tried)
            && fullest.count > than
        {
            let has_forgotten = fullest.owner.upgrade().is_some_and(|owner| match owner.try_lock() {
                Ok(mut owner) => owner.forget(),
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner().forget(),
                Err(TryLockError::WouldBlock) => false,
            });
            if !has_forgotten {
                tried.push(fullest.bytes);
            }
        }
    }
}

impl<T> Drop for Share<T> {
    fn drop(&mut self) {
        count(&self.bytes, 0, &self.budget.used);
        count(&self.kept, 0, &self.budget.kept);
    }
}

/// Counts one owner's bytes anew, and so those of all.
fn count(own: &AtomicUsize, bytes: usize, all: &AtomicUsize) {
    let before = own.swap(bytes, Ordering::Relaxed);
    // Unsigned numbers wrap around, and come back by the same way.
    all.fetch_add(bytes.wrapping_sub(before), Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of a known number, one forgotten at a time.
    struct Pile {
        bytes: usize,
        share: Option<Share<Pile>>,
    }

    impl Forgetful for Pile {
        fn forget(&mut self) -> bool {
            let before = self.bytes;
            self.bytes = self.bytes.saturating_sub(1);
            if let Some(share) = &self.share {
                share.count(self.bytes);
            }
            before > 0
        }
    }

    fn pile(budget: &Arc<Budget<Pile>>, bytes: usize) -> Arc<Mutex<Pile>> {
        let pile = Arc::new(Mutex::new(Pile { bytes, share: None }));
        let share = budget.join(&pile);
        share.count(bytes);
        pile.lock().unwrap().share = Some(share);
        pile
    }

    #[test]
    fn the_fullest_forgets_first_and_nobody_waits_for_it() {
        let budget = Arc::new(Budget::default());
        let (small, large, own) = (pile(&budget, 3), pile(&budget, 9), pile(&budget, 4));
        budget.set_most(14);
        let bytes = |pile: &Arc<Mutex<Pile>>| pile.lock().unwrap().bytes;
        own.lock().unwrap().share.as_ref().unwrap().take_from_fuller(4);
        assert_eq!((bytes(&small), bytes(&large), bytes(&own), budget.used()), (3, 7, 4, 14));

        budget.set_most(10);
        let held = large.lock().unwrap();
        own.lock().unwrap().share.as_ref().unwrap().take_from_fuller(4);
        assert_eq!((held.bytes, bytes(&small), budget.used()), (7, 3, 14));
        drop(held);

        own.lock().unwrap().share.as_ref().unwrap().take_from_fuller(4);
        assert_eq!((bytes(&small), bytes(&large), budget.used()), (3, 4, 11));
        own.lock().unwrap().share.as_ref().unwrap().take_from_fuller(0);
        assert_eq!((bytes(&small), bytes(&large), bytes(&own), budget.used()), (3, 3, 4, 10));
    }

    #[test]
    fn who_goes_gives_its_bytes_back() {
        let budget = Arc::new(Budget::default());
        let (one, other) = (pile(&budget, 3), pile(&budget, 9));
        budget.set_most(100);
        assert_eq!(other.lock().unwrap().share.as_ref().unwrap().fair(), 50);
        drop(one);
        assert_eq!(budget.used(), 9);
        let third = pile(&budget, 1);
        assert_eq!(third.lock().unwrap().share.as_ref().unwrap().fair(), 50);
    }

    #[test]
    fn half_of_all_may_be_kept_for_good_whoever_keeps_it() {
        let budget = Arc::new(Budget::default());
        let (one, other) = (pile(&budget, 30), pile(&budget, 0));
        budget.set_most(100);
        let with = |pile: &Arc<Mutex<Pile>>, keeps: usize| {
            let pile = pile.lock().unwrap();
            let share = pile.share.as_ref().unwrap();
            share.count_kept(keeps);
            assert_eq!(share.most_to_keep(), keeps + share.room_to_keep());
            share.room_to_keep()
        };
        assert_eq!(with(&one, 30), 20);
        assert_eq!(with(&other, 15), 5);
        assert_eq!(with(&one, 60), 0, "it was lowered meanwhile");
        assert_eq!(with(&one, 10), 25);
        drop(one);
        assert_eq!(with(&other, 15), 35);
    }
}
