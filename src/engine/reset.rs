//! RESET: restores the state at start-up, except for the connections.

use std::sync::Arc;

use super::Engine;
use crate::base::background::in_background;
use crate::base::error::CommandError;
use crate::insight::audit::Judgement;

impl Engine {
    /// Releases and answers every waiting command, then resets data, scripts, users, settings and counters. Each test
    /// power is reset here. Clients stay connected, with their names, databases and subscriptions.
    ///
    /// Fails if an upstream server has the data, and it could not be deleted there.
    pub(super) async fn reset_everything(&self) -> Result<(), CommandError> {
        let instance = &self.instance;
        // Comes first, so that a resumed command meets no hook, and its writes are deleted with the rest.
        instance.clear_faults();
        instance.clear_gates();
        instance.unpause();
        instance.heal_links();
        self.end_all_waits().await;
        // Before the locks are deleted with the rest: clients that go on meanwhile would seem to have lost them.
        let mut judgement = self.judge_locks().await;
        if instance.control.explorer.summary().is_ok() {
            // A run of an exploration must find the same whichever runs came before.
            judgement.learned = Arc::default();
        }

        // Can fail only while a slow script runs, and then RESET is refused.
        let _ = self.empty();
        if let Some(upstream) = self.backend.upstream() {
            upstream.wipe().await.map_err(|reason| {
                CommandError::new(format!("ERR the data of the upstream server is not deleted: {reason}"))
            })?;
        }
        if instance.deployment().is_ok()
            && let Some(fleet) = instance.fleet()
        {
            fleet.start_stopped_nodes()?;
        }
        instance.reset_debug();
        instance.reset_settings();
        if let Some(fleet) = instance.fleet().filter(|_| instance.space.is_empty()) {
            fleet.reset_replication();
        }
        instance.clock.reset();
        instance.cron();
        self.quiesce().await;
        instance.reset_statistics();
        [&instance.slow_log, &instance.large_requests, &instance.large_replies].iter().for_each(|log| log.clear());
        instance.latency.forget(|_| true);
        instance.reset_journal(judgement);
        Ok(())
    }

    /// Judges what the journal has shown so far. If that takes long, other clients do not wait meanwhile.
    async fn judge_locks(&self) -> Judgement {
        let (audit, number) = (Arc::clone(&self.instance.audit), self.instance.number);
        if audit.is_large() {
            let judged = in_background("redouble-audit", move || audit.judge(number));
            if let Ok(judged) = judged
                && let Some(judgement) = judged.await
            {
                return judgement;
            }
        }
        self.instance.audit.judge(number)
    }

    /// Answers every blocked command as if it had timed out, and ends all delays.
    async fn end_all_waits(&self) {
        /// A client's next command can block, too; after this many rounds, the reset stops waiting for it.
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
