//! Periodic work, as Redis's `serverCron` does it.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Instance;
use crate::base::clock::Millis;
use crate::clients::latency::LatencyEvent;

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
        self.rates.sample(self.clock.uptime(), self.stats.sums());
        self.save_if_due();
        self.tend_replicas();
    }

    /// CONFIG RESETSTAT.
    pub fn reset_statistics(&self) {
        self.stats.reset();
        self.reset_exceeded_times();
        self.rates.reset();
        self.keyspace.reset_freed_lazily();
        self.scripts.reset_evicted();
    }

    /// Deleting expired keys took so long, in real time.
    pub fn note_expire_cycle(&self, took: Duration) {
        self.stats.expire_cycles.fetch_add(1, Ordering::Relaxed);
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.stats.expire_cycle_micros.fetch_add(micros, Ordering::Relaxed);
        self.note_latency(LatencyEvent::ExpireCycle, micros / 1000);
    }

    /// Adds a sample to the latency monitor, if it is on and the event took long enough.
    pub fn note_latency(&self, event: LatencyEvent, millis: u64) {
        let threshold = self.config.live().latency_threshold.load(Ordering::Relaxed);
        if threshold > 0 && millis >= threshold {
            self.latency.add(event, self.clock.millis().div_euclid(1000), millis);
        }
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
    /// subscriber, a replica or in MONITOR mode is not idle.
    fn close_idle(&self) {
        let timeout = self.config.live().timeout.load(Ordering::Relaxed);
        if timeout == 0 {
            return;
        }
        let oldest = self.clock.millis().saturating_sub_unsigned(timeout.saturating_mul(1000));
        for client in self.clients.all() {
            let seen = client.seen();
            let exempt =
                [&seen.blocked, &seen.monitor, &seen.replica].iter().any(|is_it| is_it.load(Ordering::Relaxed))
                    || seen.is_subscriber();
            if !exempt && seen.last_used.load(Ordering::Relaxed) < oldest {
                // A clock move returns only after these connections are closed.
                client.hold_until_closed(self.clock.rung_alarm());
                self.kill(&client);
            }
        }
    }
}
