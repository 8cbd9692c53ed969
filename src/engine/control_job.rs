//! Control jobs: work that the commands of the test powers start, including the wait until all its consequences have
//! happened.
//!
//! A new job is a variant of [`ControlJob`], and an arm here.

use std::sync::Arc;

use super::Engine;
use crate::base::clock::{MAX_MICROS, Millis, Pace, block_on};
use crate::base::error::CommandError;
use crate::clients::instance::Instance;
use crate::clients::session::ControlJob;

impl Engine {
    /// Runs a job, and returns once all consequences have happened: expired keys are deleted; commands whose deadline
    /// has come, or that were released, have their replies; published messages are written.
    ///
    /// Fails if an upstream server is to be emptied, and is not.
    pub async fn run_control_job(self: Arc<Self>, job: ControlJob) -> Result<(), CommandError> {
        if job == ControlJob::Quiesce {
            self.quiesce().await;
            return Ok(());
        }
        if let Some(owner) = &self.clock_owner
            && job != ControlJob::OpenGates
        {
            // With its keys, and all that waits there.
            return Box::pin(Arc::clone(owner).run_control_job(job)).await;
        }
        // Serialized: two jobs that move the clock at once would each skip the deadlines of the other.
        let _turn = self.control_jobs.lock().await;
        let clock = &self.instance.clock;
        match job {
            ControlJob::Quiesce => {}
            ControlJob::OpenGates => self.open_gates().await,
            ControlJob::Advance(by) => {
                let to = clock.micros().saturating_add(by.max(0));
                self.move_clock(to).await;
            }
            ControlJob::SetClock(to) => self.move_clock(to).await,
            ControlJob::Freeze(at) => {
                clock.set_auto(None);
                clock.set_pace(Pace::Frozen);
                match at {
                    Some(at) => self.move_clock(at).await,
                    None => self.instance.cron(),
                }
            }
            ControlJob::Run(speed) => {
                clock.set_auto(None);
                clock.set_pace(Pace::Speed(speed));
            }
            ControlJob::Auto(idle_grace) => {
                clock.set_pace(Pace::Frozen);
                self.instance.cron();
                self.begin_auto(idle_grace);
            }
            ControlJob::Reset => {
                if !self.instance.control.explorer.survives_reset() {
                    // There may be no exploration.
                    if self.instance.stop_exploring().is_ok() {
                        self.end_exploration();
                    }
                }
                self.reset_everything().await?;
                self.stop_explored_clock();
                self.instance.control.explorer.links_were_opened();
            }
            ControlJob::EndExploration => {
                self.end_exploration();
                self.quiesce().await;
            }
            ControlJob::ResetForRun => self.reset_for_run().await?,
            ControlJob::BeginRun => self.begin_run().await?,
        }
        Ok(())
    }

    /// As [`run_control_job`](Self::run_control_job), on a thread without an event loop.
    pub fn run_control_job_here(self: &Arc<Self>, job: ControlJob) -> Result<(), CommandError> {
        block_on(Arc::clone(self).run_control_job(job))
    }

    /// Waits until every command that was released has gone as far as it can, on a thread without an event loop.
    pub fn settle_here(&self) {
        block_on(self.quiesce());
    }

    /// Opens the gates that are marked for it, on a thread without an event loop.
    pub fn open_gates_here(self: &Arc<Self>) {
        // Only a reset can fail.
        let _ = self.run_control_job_here(ControlJob::OpenGates);
    }

    /// Moves the clock, and stops at every deadline on the way until everything due there has happened. The clock is
    /// frozen meanwhile, so that a resumed command sees the deadline as the time.
    pub(super) async fn move_clock(&self, to: i64) {
        let clock = &self.instance.clock;
        let to = to.clamp(0, MAX_MICROS);
        self.record_clock_move(to);
        let pace = clock.set_pace(Pace::Frozen);
        while let Some(stop) = self.next_deadline().map(in_micros).filter(|&stop| stop < to) {
            if stop > clock.micros() {
                clock.set(stop);
            }
            self.run_due();
            self.quiesce().await;
        }
        clock.set(to);
        self.run_due();
        self.quiesce().await;
        clock.set_pace(pace);
    }

    /// Opens the gates that are marked for opening.
    async fn open_gates(&self) {
        let Instance { control, clock, .. } = &*self.instance;
        for gate in control.gates.take_queued_openings() {
            // Commands that arrive meanwhile are excluded: there can be arbitrarily many.
            for _ in 0..gate.queue.parked_count() {
                gate.queue.release_next(clock);
                clock.wait_until_quiescent().await;
            }
            gate.queue.open(clock);
        }
        self.quiesce().await;
    }

    /// The next deadline that a command waits for.
    pub(super) fn next_deadline(&self) -> Option<Millis> {
        let alarm = self.instance.clock.next_alarm();
        let key = self.backend.next_awaited_expiry();
        alarm.into_iter().chain(key).chain(self.instance.next_link_deadline()).min()
    }

    /// Deletes the keys that have expired, then rings the alarms that are due.
    pub(super) fn run_due(&self) {
        self.cron();
        self.instance.clock.ring();
    }

    /// Waits until all consequences have happened.
    pub(super) async fn quiesce(&self) {
        /// A client that is resumed by a message can send another one, and so on; the wait ends after this many rounds.
        const ROUNDS: u32 = 4;
        let clock = &self.instance.clock;
        let mut rounds = 0;
        loop {
            clock.wait_until_quiescent().await;
            if clock.next_alarm().is_some_and(|deadline| deadline <= clock.millis()) {
                self.run_due();
                rounds = 0;
                continue;
            }
            // Messages to clients must be written, too.
            for client in self.instance.clients.all() {
                client.hold_until_signals_end(|| clock.rung_alarm());
            }
            rounds += 1;
            if clock.is_quiescent() || rounds > ROUNDS {
                return clock.wait_until_quiescent().await;
            }
        }
    }
}

pub(super) fn in_micros(millis: Millis) -> i64 {
    millis.saturating_mul(1000)
}
