//! `client-output-buffer-limit`: limits of the unsent output of one client.

use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use crate::base::clock::Millis;
use crate::protocol::LARGEST_REPLY;

/// The limits of one class of clients. 0 is no limit but that of replies.
pub struct OutputLimit {
    /// A client with more unsent output is closed.
    hard: AtomicUsize,
    /// A client that has more unsent output for some time is closed.
    soft: AtomicUsize,
    seconds: AtomicI64,
}

impl OutputLimit {
    /// Redis counts only what exceeds the 16 KiB reply buffer that every client has.
    const FREE: usize = 16 << 10;

    /// The most unsent output of a client that has yet to authenticate.
    pub const UNAUTHENTICATED: usize = Self::FREE + 1024;

    pub fn new(hard: usize, soft: usize, seconds: i64) -> Self {
        let limit = Self { hard: AtomicUsize::new(0), soft: AtomicUsize::new(0), seconds: AtomicI64::new(0) };
        limit.set(hard, soft, seconds);
        limit
    }

    pub(super) fn set(&self, hard: usize, soft: usize, seconds: i64) {
        let passed_at = |bytes: usize| if bytes == 0 { usize::MAX } else { bytes.saturating_add(Self::FREE) };
        self.hard.store(passed_at(hard).min(LARGEST_REPLY), Ordering::Relaxed);
        self.soft.store(passed_at(soft), Ordering::Relaxed);
        self.seconds.store(seconds, Ordering::Relaxed);
    }

    /// Lets at least so much wait to be sent.
    pub(super) fn allow_at_least(&self, bytes: usize) {
        self.hard.fetch_max(bytes.saturating_add(Self::FREE), Ordering::Relaxed);
    }

    /// The amount of unsent output that needs no check.
    #[inline]
    pub fn notice(&self) -> usize {
        self.hard.load(Ordering::Relaxed).min(self.soft.load(Ordering::Relaxed))
    }

    #[inline]
    pub fn is_hard_passed(&self, waiting: usize) -> bool {
        waiting > self.hard.load(Ordering::Relaxed)
    }

    pub fn is_soft_passed(&self, waiting: usize) -> bool {
        waiting > self.soft.load(Ordering::Relaxed)
    }

    /// Whether a client that exceeds the soft limit for this long is closed. Redis counts whole seconds.
    pub fn is_over(&self, lagging: Millis) -> bool {
        lagging.div_euclid(1000) > self.seconds.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_limit_is_passed_by_no_more_than_replies_can_have() {
        let limit = OutputLimit::new(0, 0, 0);
        assert!(!limit.is_hard_passed(LARGEST_REPLY) && !limit.is_soft_passed(usize::MAX - 1));
        assert!(limit.is_hard_passed(LARGEST_REPLY + 1));
        assert_eq!(limit.notice(), LARGEST_REPLY);
    }

    #[test]
    fn a_soft_limit_may_be_passed_for_a_while() {
        let limit = OutputLimit::new(1 << 20, 1 << 10, 2);
        assert_eq!(limit.notice(), (1 << 10) + OutputLimit::FREE);
        assert!(limit.is_soft_passed(1 << 18) && !limit.is_hard_passed(1 << 18));
        assert!(!limit.is_over(2_999) && limit.is_over(3_000));
    }
}
