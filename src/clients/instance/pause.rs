//! CLIENT PAUSE: holds commands back until an instant on the server's clock. Meanwhile no expired key is deleted, nor while the
//! server is a replica that nobody writes to.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};

use super::Instance;
use crate::base::clock::Millis;
use crate::base::sync::MutexExt;
use crate::clients::session::Signal;
use crate::data::keyspace::{EXPIRY_PAUSED, Settings};
use crate::powers::{ActiveHooks, Hook};

#[derive(Default)]
pub(super) struct Pause {
    /// Until when commands are held back, and whether only writes are.
    in_force: Mutex<Option<(Millis, bool)>>,
    /// The server is a replica: expired keys are deleted by its primary.
    expires_elsewhere: AtomicBool,
}

impl Pause {
    /// Begins a pause. One in force only becomes longer and stricter.
    fn begin(&self, until: Millis, writes_only: bool, now: Millis, hooks: &ActiveHooks, settings: &Settings) {
        let mut pause = self.lock();
        *pause = match *pause {
            Some((longest, lenient)) if longest > now => Some((until.max(longest), writes_only && lenient)),
            // It would be over at once, and wake every client.
            None if until <= now => return,
            _ => Some((until, writes_only)),
        };
        // Under the lock: the flag follows the order in which pauses begin and end.
        hooks.arm(Hook::ClientPause);
        self.hold_expiry(hooks, settings);
    }

    /// Returns whether one was in force: then clients may wait for its end.
    fn end(&self, hooks: &ActiveHooks, settings: &Settings) -> bool {
        let mut pause = self.lock();
        let was_in_force = pause.take().is_some();
        hooks.disarm(Hook::ClientPause);
        self.hold_expiry(hooks, settings);
        was_in_force
    }

    /// Notes whether the server is a replica that leaves the deletion of expired keys to its primary.
    pub(super) fn set_replica(&self, is_replica: bool, hooks: &ActiveHooks, settings: &Settings) {
        let _pause = self.lock();
        self.expires_elsewhere.store(is_replica, Ordering::Relaxed);
        self.hold_expiry(hooks, settings);
    }

    /// The pause in force, and whether one has just ended because its time is over.
    fn check(&self, now: Millis, hooks: &ActiveHooks, settings: &Settings) -> (Option<(Millis, bool)>, bool) {
        let mut pause = self.lock();
        let is_over = pause.is_some_and(|(until, _)| now >= until);
        if is_over {
            *pause = None;
            hooks.disarm(Hook::ClientPause);
            self.hold_expiry(hooks, settings);
        }
        (*pause, is_over)
    }

    /// Stops the deletion of expired keys, or lets it go on. To be called under the lock.
    fn hold_expiry(&self, hooks: &ActiveHooks, settings: &Settings) {
        let is_held = hooks.has(Hook::ClientPause) || self.expires_elsewhere.load(Ordering::Relaxed);
        settings.set_wanted_notifications(EXPIRY_PAUSED, if is_held { EXPIRY_PAUSED } else { 0 });
    }

    fn lock(&self) -> MutexGuard<'_, Option<(Millis, bool)>> {
        self.in_force.lock_ignoring_poison()
    }
}

impl Instance {
    /// Holds commands back until an instant. A pause in force only becomes longer and stricter.
    pub fn pause(&self, until: Millis, writes_only: bool) {
        let now = self.clock.millis();
        self.pause.begin(until, writes_only, now, &self.active_hooks, self.keyspace.settings());
    }

    /// Ends the pause; the commands it held back run.
    pub fn unpause(&self) {
        if self.pause.end(&self.active_hooks, self.keyspace.settings()) {
            self.clients.signal_all(Signal::Unpause);
        }
    }

    /// Until when commands are held back, if they are, and whether only writes are.
    pub fn paused(&self) -> Option<(Millis, bool)> {
        if !self.active_hooks.has(Hook::ClientPause) {
            return None;
        }
        let (pause, has_ended) = self.pause.check(self.clock.millis(), &self.active_hooks, self.keyspace.settings());
        if has_ended {
            self.clients.signal_all(Signal::Unpause);
        }
        pause
    }
}
