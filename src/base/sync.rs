//! Locks without poisoning.

use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Locks a mutex whose last holder may have panicked.
///
/// A panic in a handler closes one connection, and the server continues. The state it had locked is consistent, because
/// no change of shared state panics halfway.
pub trait MutexExt<T> {
    fn lock_ignoring_poison(&self) -> MutexGuard<'_, T>;
}

impl<T> MutexExt<T> for Mutex<T> {
    #[inline]
    fn lock_ignoring_poison(&self) -> MutexGuard<'_, T> {
        self.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Like [`MutexExt`], for a read-write lock.
pub trait RwLockExt<T> {
    fn read_ignoring_poison(&self) -> RwLockReadGuard<'_, T>;
    fn write_ignoring_poison(&self) -> RwLockWriteGuard<'_, T>;
}

impl<T> RwLockExt<T> for RwLock<T> {
    #[inline]
    fn read_ignoring_poison(&self) -> RwLockReadGuard<'_, T> {
        self.read().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline]
    fn write_ignoring_poison(&self) -> RwLockWriteGuard<'_, T> {
        self.write().unwrap_or_else(PoisonError::into_inner)
    }
}
