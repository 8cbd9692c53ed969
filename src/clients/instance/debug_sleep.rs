//! DEBUG SLEEP: while one thread sleeps, no other command of the server runs.

use std::sync::{Condvar, Mutex};
use std::time::Duration;

use super::Instance;
use crate::base::clock::Clock;
use crate::base::sync::MutexExt;
use crate::powers::Hook;

/// The threads that sleep at the moment.
#[derive(Default)]
pub(super) struct DebugSleep {
    sleepers: Mutex<usize>,
    over: Condvar,
}

impl Instance {
    /// Blocks this thread, and every other command of this server, for a stretch of real time.
    pub fn debug_sleep(&self, duration: Duration) {
        *self.debug_sleep.sleepers.lock_ignoring_poison() += 1;
        self.active_hooks.arm(Hook::DebugSleep);
        Clock::block_thread(duration);
        let mut sleepers = self.debug_sleep.sleepers.lock_ignoring_poison();
        *sleepers -= 1;
        if *sleepers == 0 {
            self.active_hooks.disarm(Hook::DebugSleep);
            self.debug_sleep.over.notify_all();
        }
    }

    /// Blocks this thread until no other one sleeps.
    pub fn wait_for_debug_sleep(&self) {
        let sleepers = self.debug_sleep.sleepers.lock_ignoring_poison();
        drop(self.debug_sleep.over.wait_while(sleepers, |sleepers| *sleepers > 0));
    }
}
