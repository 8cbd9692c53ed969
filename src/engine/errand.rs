//! What a command of the test powers sets going, and the wait until all of it has happened.

use std::sync::Arc;

use super::Engine;
use crate::clock::Millis;
use crate::spec::Errand;

impl Engine {
    /// Does an errand, and returns once all consequences have happened: keys that are due are gone, whoever waited for a
    /// time that has come has its reply, and so has whoever was let go on.
    pub async fn run_errand(self: Arc<Self>, errand: Errand) {
        if errand == Errand::BeginRun {
            self.begin_run().await;
        }
        if let Errand::MoveClock(to) = errand {
            while self.move_towards(to) {
                self.instance.clock.settle().await;
            }
        }
        loop {
            self.instance.clock.settle().await;
            if !self.ring_due() {
                return;
            }
        }
    }

    /// As [`run_errand`](Self::run_errand), for a thread that serves nobody.
    pub fn run_errand_here(&self, errand: Errand) {
        if let Errand::MoveClock(to) = errand {
            while self.move_towards(to) {
                self.instance.clock.settle_here();
            }
        }
        loop {
            self.instance.clock.settle_here();
            if !self.ring_due() {
                return;
            }
        }
    }

    /// Moves the clock to the next deadline on the way, or else to the instant itself, and sets off what is due then.
    /// Whether the instant is not reached yet.
    fn move_towards(&self, to: i64) -> bool {
        let clock = &self.instance.clock;
        let deadline = clock.next_alarm().map(in_micros).filter(|&deadline| deadline < to);
        match deadline.filter(|&deadline| deadline > clock.micros()) {
            Some(deadline) => clock.set(deadline),
            None => clock.set(to),
        }
        self.keep_house();
        clock.ring();
        deadline.is_some()
    }

    /// Rings what has become due; whether anything has.
    fn ring_due(&self) -> bool {
        let clock = &self.instance.clock;
        if clock.next_alarm().is_none_or(|deadline| deadline > clock.millis()) {
            return false;
        }
        self.keep_house();
        clock.ring();
        true
    }
}

fn in_micros(millis: Millis) -> i64 {
    millis.saturating_mul(1000)
}
