//! How long a session's commands take.
//!
//! A command that takes locks reads the clock anyway, when it holds them. That is its beginning, and the end of the command
//! before it in the same batch. So a batch costs one reading more than before, when its last command has ended. Calls of
//! one command, one after the other, are a run, and are counted together at its end.

use crate::base::clock::real_micros;
use crate::clients::config::Live;
use crate::clients::stats::Counters;
use crate::protocol::{OwnedWords, Words};
use crate::spec::RowId;

/// Measures the commands of one session.
pub struct CallTimer {
    /// The row of the run; [`NO_ROW`] if there is none.
    row: RowId,
    calls: u64,
    /// When the first and the last call of the run began, in microseconds of the machine's time.
    first: i64,
    last: i64,
    /// The time in `last` is that of the end of the last call, which was a moment ago.
    has_just_ended: bool,
    /// A call that takes so many microseconds is measured by itself.
    notable: u64,
    /// Where the request that runs now begins in its batch.
    pub request: usize,
    last_request: usize,
    /// Calls of this batch that took long.
    slow: Vec<SlowCall>,
    /// The command that waits for its reply.
    blocked: Option<Box<BlockedCall>>,
    /// Counts the commands inside EXEC and scripts, of which only some are measured.
    inner: u8,
    /// When the next command inside EXEC begins, if that was read from the clock just before.
    inner_begin: Option<i64>,
}

/// A call that took long.
pub struct SlowCall {
    /// Where its request begins in its batch.
    pub request: usize,
    pub micros: u64,
}

/// A command that has begun to run and waits for its reply. The wait is not counted.
pub struct BlockedCall {
    pub row: RowId,
    pub micros: u64,
    /// Kept only if the call took long.
    pub words: Option<OwnedWords>,
}

const NO_ROW: RowId = RowId::NONE;

impl Default for CallTimer {
    fn default() -> Self {
        Self {
            row: NO_ROW,
            calls: 0,
            first: 0,
            last: 0,
            has_just_ended: false,
            notable: 0,
            request: 0,
            last_request: 0,
            slow: Vec::new(),
            blocked: None,
            inner: 0,
            inner_begin: None,
        }
    }
}

/// From one instant to another, in microseconds. The machine's time may be set back in between.
#[inline]
pub fn micros_between(began: i64, ended: i64) -> u64 {
    ended.saturating_sub(began).max(0).unsigned_abs()
}

impl CallTimer {
    /// A call of a row begins, and the call before it has ended.
    #[inline]
    pub fn begin(&mut self, row: RowId, now: i64, counters: &Counters, live: &Live) {
        // A clock that was set back makes this a very long time, which is looked at more closely.
        let micros = now.wrapping_sub(self.last).cast_unsigned();
        if row != self.row || micros >= self.notable {
            return self.begin_run(row, now, counters, live);
        }
        self.calls += 1;
        self.last = now;
        self.last_request = self.request;
    }

    #[inline(never)]
    fn begin_run(&mut self, row: RowId, now: i64, counters: &Counters, live: &Live) {
        if self.calls > 0 {
            self.end_run(now, counters, live);
        }
        self.row = row;
        self.calls = 1;
        self.first = now;
        self.last = now;
        self.last_request = self.request;
        self.notable = live.notable_micros();
    }

    /// When the last call began, in microseconds of the machine's time.
    #[inline]
    pub fn last_began(&self) -> i64 {
        self.last
    }

    /// Like [`begin`](Self::begin), for a command that never takes long: it reads the clock only if it begins a run.
    #[inline]
    pub fn begin_short(&mut self, row: RowId, counters: &Counters, live: &Live) {
        let now = if self.row == row { self.last } else { real_micros() };
        self.begin(row, now, counters, live);
    }

    /// Like [`begin`](Self::begin), for a command that has not read the clock.
    pub fn begin_now(&mut self, row: RowId, counters: &Counters, live: &Live) {
        let now = if std::mem::take(&mut self.has_just_ended) { self.last } else { real_micros() };
        self.begin(row, now, counters, live);
    }

    /// The last call has ended.
    #[inline]
    pub fn end(&mut self, counters: &Counters, live: &Live) {
        self.has_just_ended = false;
        if self.calls > 0 {
            self.end_run(real_micros(), counters, live);
        }
    }

    /// The last call has ended, and the next one begins now.
    pub fn end_before_next(&mut self, counters: &Counters, live: &Live) {
        if self.calls > 0 {
            let now = real_micros();
            self.end_run(now, counters, live);
            self.last = now;
            self.has_just_ended = true;
        }
    }

    /// Counts the calls of the run, the last of which has ended.
    #[inline(never)]
    fn end_run(&mut self, now: i64, counters: &Counters, live: &Live) {
        let micros = micros_between(self.last, now);
        if micros < self.notable {
            self.count_run(self.calls, now, counters, live);
        } else {
            self.slow.push(SlowCall { request: self.last_request, micros });
            self.count_run(self.calls - 1, self.last, counters, live);
            counters.calls.row(self.row).add_calls(1, micros, live.tracks_latency());
        }
        self.row = NO_ROW;
        self.calls = 0;
    }

    fn count_run(&self, calls: u64, ended: i64, counters: &Counters, live: &Live) {
        if calls > 0 {
            let micros = micros_between(self.first, ended);
            counters.calls.row(self.row).add_calls(calls, micros, live.tracks_latency());
        }
    }

    /// The last call waits for its reply.
    pub fn block(&mut self, words: Words<'_>, counters: &Counters, live: &Live) {
        if self.calls > 0 {
            let micros = micros_between(self.last, real_micros());
            let words = (micros >= live.notable_micros()).then(|| words.into_owned());
            self.blocked = Some(Box::new(BlockedCall { row: self.row, micros, words }));
            self.count_run(self.calls - 1, self.last, counters, live);
            self.row = NO_ROW;
            self.calls = 0;
        }
    }

    /// The command that waited for its reply, which it has now.
    pub fn end_block(&mut self) -> Option<Box<BlockedCall>> {
        self.blocked.take()
    }

    /// The calls of this batch that took long, oldest first.
    pub fn take_slow(&mut self) -> Vec<SlowCall> {
        std::mem::take(&mut self.slow)
    }

    #[inline]
    pub fn has_slow(&self) -> bool {
        !self.slow.is_empty()
    }

    /// The first command inside EXEC begins now, by a clock that was just read; `None` behind the last one.
    #[inline]
    pub fn set_inner_begin(&mut self, now: Option<i64>) {
        self.inner_begin = now;
    }

    /// When a command inside EXEC or a script begins, if it is measured. Of those that take a constant time, only each
    /// sixteenth is: two readings of the clock would take longer than many of them.
    #[inline]
    pub fn begin_inner(&mut self, is_fast: bool, live: &Live) -> Option<i64> {
        const EVERY: u8 = 16;
        /// Who looks for calls as short as this wants to see each.
        const LEAST_NOTABLE: u64 = 1000;
        self.inner = self.inner.wrapping_add(1);
        let is_measured = !is_fast || self.inner.is_multiple_of(EVERY) || live.notable_micros() < LEAST_NOTABLE;
        let begin = self.inner_begin.take();
        is_measured.then(|| begin.unwrap_or_else(real_micros))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clients::call_stats::CallTotals;
    use crate::clients::histogram::Histogram;
    use std::sync::atomic::Ordering;

    const GET: RowId = RowId::FIRST;

    #[test]
    fn a_slow_call_in_a_run_is_measured_by_itself() {
        let (counters, live) = (Counters::default(), Live::default());
        live.slow_threshold.store(10_000, Ordering::Relaxed);
        let mut timer = CallTimer::default();
        for (request, now) in [(0, 1_000), (10, 1_001), (20, 21_002), (30, 21_003)] {
            timer.request = request;
            timer.begin(GET, now, &counters, &live);
        }
        timer.end_run(21_004, &counters, &live);
        let slow: Vec<_> = timer.take_slow().iter().map(|call| (call.request, call.micros)).collect();
        assert_eq!(slow, [(10, 20_001)]);
        let mut totals = CallTotals::default();
        counters.calls.add_to(&mut totals);
        let mut durations = Histogram::default();
        counters.calls.add_durations(GET, &mut durations);
        let row = totals.of(GET);
        assert_eq!((row.calls, row.micros, durations.count()), (4, 20_004, 4));
    }

    #[test]
    fn a_machine_whose_time_is_set_back_measures_nothing() {
        let (counters, live) = (Counters::default(), Live::default());
        let mut timer = CallTimer::default();
        timer.begin(GET, 5_000_000, &counters, &live);
        timer.begin(GET, 1_000_000, &counters, &live);
        timer.end_run(1_000_003, &counters, &live);
        let mut totals = CallTotals::default();
        counters.calls.add_to(&mut totals);
        let row = totals.of(GET);
        assert_eq!((row.calls, row.micros), (2, 3));
        assert!(!timer.has_slow());
    }
}
