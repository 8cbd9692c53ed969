//! Everything as it was when the server started, but for who is connected.

use std::sync::atomic::Ordering;

use super::Engine;

impl Engine {
    /// Lets everybody go who is held or waits, then forgets all there is: data, scripts, users, settings, counters. Each
    /// power adds its line here. Clients stay connected, with their names, databases and subscriptions.
    pub(super) async fn reset_everything(&self) {
        let instance = &self.instance;
        // First of all, so that nobody who goes on now meets anything, and what they do goes with the rest.
        instance.clear_faults();
        instance.clear_gates();
        instance.unpause();
        self.end_all_waits().await;

        // A script that takes long would be in the way, and then nobody gets here.
        let _ = self.empty();
        instance.active_expire.store(true, Ordering::Relaxed);
        instance.reset_settings();
        instance.clock.reset();
        instance.cron();
        self.quiesce().await;
        instance.stats.reset();
        instance.reset_journal();
    }

    /// Answers whoever waits as if the time were up, and lets those go on at once who were delayed.
    async fn end_all_waits(&self) {
        /// What a client sends behind a command that waits may wait, too; a client that begins anew, again and again, is
        /// not waited for any longer.
        const ROUNDS: u32 = 1_000;
        for _ in 0..ROUNDS {
            self.quiesce().await;
            let clients = self.instance.clients.all();
            let mut ended = 0;
            for client in clients.iter().filter(|client| self.instance.unblock(client, false)) {
                client.hold_until_signals_end(|| self.instance.clock.rung_alarm());
                ended += 1;
            }
            if !self.instance.clock.ring_early() && ended == 0 {
                return;
            }
        }
    }
}
