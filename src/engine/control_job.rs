//! What a command of the test powers sets going, and the wait until all of it has happened.

use std::sync::Arc;

use super::Engine;
use crate::base::clock::{LATEST, Millis, Pace, wait_here};
use crate::clients::instance::Instance;
use crate::clients::session::ControlJob;

impl Engine {
    /// Does an job, and returns once all consequences have happened: keys that are due are gone, whoever waited for a
    /// time that has come has its reply, and so has whoever was let go on; what was published is on its way.
    pub async fn run_control_job(self: Arc<Self>, job: ControlJob) {
        if job == ControlJob::Settle {
            return self.quiesce().await;
        }
        // One by one: two that move the clock at once would each go past what the other has set off.
        let _turn = self.turn.lock().await;
        let clock = &self.instance.clock;
        match job {
            ControlJob::Settle => {}
            ControlJob::LetGo => self.let_go().await,
            ControlJob::Advance(by) => {
                let to = clock.micros().saturating_add(by.max(0));
                self.move_clock(to).await;
            }
            ControlJob::SetClock(to) => self.move_clock(to).await,
            ControlJob::Freeze(at) => {
                clock.set_auto(None);
                clock.set_pace(Pace::Standing);
                match at {
                    Some(at) => self.move_clock(at).await,
                    None => self.instance.cron(),
                }
            }
            ControlJob::Run(speed) => {
                clock.set_auto(None);
                clock.set_pace(Pace::Times(speed));
            }
            ControlJob::Auto(grace) => {
                clock.set_pace(Pace::Standing);
                self.instance.cron();
                self.begin_auto(grace);
            }
            ControlJob::Reset => {
                if !self.instance.control.explorer.survives_reset() {
                    // There may be none.
                    let _ = self.instance.stop_exploring();
                }
                self.reset_everything().await;
            }
            ControlJob::PutBack => self.reset_everything().await,
            ControlJob::BeginRun => self.begin_run().await,
        }
    }

    /// As [`run_control_job`](Self::run_control_job), for a thread that serves nobody.
    pub fn run_control_job_here(self: &Arc<Self>, job: ControlJob) {
        wait_here(Arc::clone(self).run_control_job(job));
    }

    /// Moves the clock, and stops at every deadline on the way until everything due there has happened. Meanwhile it
    /// stands, so that it shows the deadline to whoever goes on there.
    async fn move_clock(&self, to: i64) {
        let clock = &self.instance.clock;
        let to = to.clamp(0, LATEST);
        self.tell_move(to);
        let pace = clock.set_pace(Pace::Standing);
        while let Some(stop) = self.next_stop().map(in_micros).filter(|&stop| stop < to) {
            if stop > clock.micros() {
                clock.set(stop);
            }
            self.set_off_due();
            self.quiesce().await;
        }
        clock.set(to);
        self.set_off_due();
        self.quiesce().await;
        clock.set_pace(pace);
    }

    /// Opens the gates that are to be opened.
    async fn let_go(&self) {
        let Instance { control, clock, .. } = &*self.instance;
        for gate in control.gates.take_queued_openings() {
            // Not those who come meanwhile, which may be without end.
            for _ in 0..gate.queue.held() {
                gate.queue.step(clock);
                clock.settle().await;
            }
            gate.queue.open(clock);
        }
        self.quiesce().await;
    }

    /// The next instant at which something happens that somebody waits for.
    pub(super) fn next_stop(&self) -> Option<Millis> {
        let alarm = self.instance.clock.next_alarm();
        let key = self.next_awaited_end();
        alarm.into_iter().chain(key).min()
    }

    /// Deletes what is due, then rings whoever waits for a time that has come.
    pub(super) fn set_off_due(&self) {
        self.cron();
        self.instance.clock.ring();
    }

    /// Waits until everything that was set off has happened.
    pub(super) async fn quiesce(&self) {
        /// Whoever goes on because of what was sent to it may send something to another, and so on; no further.
        const ROUNDS: u32 = 4;
        let clock = &self.instance.clock;
        let mut rounds = 0;
        loop {
            clock.settle().await;
            if clock.next_alarm().is_some_and(|deadline| deadline <= clock.millis()) {
                self.set_off_due();
                rounds = 0;
                continue;
            }
            // What was sent to clients beside their replies is to be written, too.
            for client in self.instance.clients.all() {
                client.expect(|| clock.rung_alarm());
            }
            rounds += 1;
            if clock.is_settled() || rounds > ROUNDS {
                return clock.settle().await;
            }
        }
    }
}

pub(super) fn in_micros(millis: Millis) -> i64 {
    millis.saturating_mul(1000)
}
