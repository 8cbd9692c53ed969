//! Periodic work, as Redis's `serverCron` does it.

use std::sync::atomic::Ordering;

use super::Instance;
use crate::base::clock::Millis;

impl Instance {
    /// Runs ten times a second, and whenever the clock was moved. Expired keys are deleted elsewhere.
    pub fn cron(&self) {
        self.refresh_cached_now();
        self.close_idle();
        self.close_soft_limit_clients();
        self.release_overdue_commands();
        if self.tracking.is_overfull() {
            self.evict_tracked_keys(None);
        }
        self.publish_findings(false);
        self.save_if_due();
    }

    /// Reads the clock for [`cached_now`](Self::cached_now).
    pub fn refresh_cached_now(&self) {
        self.cached_now.store(self.clock.millis(), Ordering::Relaxed);
    }

    /// The server's time, up to a tenth of a second old: for values in seconds that every command needs.
    #[inline]
    pub fn cached_now(&self) -> Millis {
        self.cached_now.load(Ordering::Relaxed)
    }

    /// Closes connections that have been idle for longer than `timeout`. One that is blocked, a
    /// subscriber or in MONITOR mode is not idle.
    fn close_idle(&self) {
        let timeout = self.config.live().timeout.load(Ordering::Relaxed);
        if timeout == 0 {
            return;
        }
        let oldest = self.clock.millis().saturating_sub_unsigned(timeout.saturating_mul(1000));
        for client in self.clients.all() {
            let seen = client.seen();
            let exempt =
                seen.blocked.load(Ordering::Relaxed) || seen.monitor.load(Ordering::Relaxed) || seen.is_subscriber();
            if !exempt && seen.last_used.load(Ordering::Relaxed) < oldest {
                // A clock move returns only after these connections are closed.
                client.hold_until_closed(self.clock.rung_alarm());
                self.kill(&client);
            }
        }
    }
}
