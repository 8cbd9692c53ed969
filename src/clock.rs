//! The only source of time.
//!
//! A server's clock runs with the machine's, shifted by an offset, or stands still. Everything that has a deadline
//! reads this clock; nothing else in the crate asks the machine for the time or waits for it (a lint keeps it so).
//! Slow-log, uptime and log lines are about the machine and stay on real time.

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// A point in time on a server's clock, in milliseconds since 1970: the unit of every deadline.
pub type Millis = i64;

/// Marks "not frozen" in [`Clock::frozen`].
const RUNNING: i64 = i64::MIN;

/// The last instant a clock can be set to, in microseconds: far from the end of what can be counted, so that sums with it
/// do not overflow. The first is 1970.
const LATEST: i64 = i64::MAX / 4;

/// A server's clock. Each server has its own.
pub struct Clock {
    /// Microseconds added to the machine's time while the clock runs.
    offset: AtomicI64,
    /// The instant at which the clock stands, in microseconds, or [`RUNNING`].
    frozen: AtomicI64,
    started: Instant,
    alarms: Mutex<Alarms>,
    /// Notified when the last alarm that rang has been dealt with.
    settled: Condvar,
}

#[derive(Default)]
struct Alarms {
    next: u64,
    waiting: BTreeMap<(Millis, u64), Arc<AlarmState>>,
    /// Alarms that have rung and that their sleepers still hold.
    ringing: usize,
    /// Woken when the earliest deadline may have become earlier, or time has moved.
    driver: Option<Waker>,
    /// Woken when no alarm rings any more.
    settlers: Vec<Waker>,
}

struct AlarmState {
    inner: Mutex<AlarmInner>,
}

#[derive(Default)]
struct AlarmInner {
    rang: bool,
    sleeper: Option<Waker>,
}

/// Real time since something began: for what must end although the server's clock stands still.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    #[allow(clippy::disallowed_methods)]
    pub fn start() -> Self {
        Self(Instant::now())
    }

    pub fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock {
    #[allow(clippy::disallowed_methods)]
    pub fn new() -> Self {
        Self {
            offset: AtomicI64::new(0),
            frozen: AtomicI64::new(RUNNING),
            started: Instant::now(),
            alarms: Mutex::default(),
            settled: Condvar::new(),
        }
    }

    /// Microseconds since 1970.
    #[inline]
    pub fn micros(&self) -> i64 {
        match self.frozen.load(Ordering::Acquire) {
            RUNNING => machine_micros().saturating_add(self.offset.load(Ordering::Acquire)),
            frozen => frozen,
        }
    }

    /// Milliseconds since 1970.
    #[inline]
    pub fn millis(&self) -> Millis {
        self.micros().div_euclid(1000)
    }

    pub fn is_frozen(&self) -> bool {
        self.frozen.load(Ordering::Acquire) != RUNNING
    }

    /// Real time since the server was made.
    pub fn uptime(&self) -> Duration {
        self.started.elapsed()
    }

    /// Stops the clock where it is.
    pub(crate) fn freeze(&self) {
        let _alarms = self.alarms();
        if !self.is_frozen() {
            self.frozen.store(self.micros(), Ordering::Release);
        }
    }

    /// Lets the clock run on from where it is.
    pub(crate) fn resume(&self) {
        let mut alarms = self.alarms();
        let frozen = self.frozen.load(Ordering::Acquire);
        if frozen != RUNNING {
            self.offset.store(frozen - machine_micros(), Ordering::Release);
            self.frozen.store(RUNNING, Ordering::Release);
        }
        alarms.wake_driver();
    }

    /// Moves the clock to an instant, forwards or backwards, within what it can show; it goes on running or standing as
    /// before.
    pub(crate) fn set(&self, micros: i64) {
        let mut alarms = self.alarms();
        let micros = micros.clamp(0, LATEST);
        if self.is_frozen() {
            self.frozen.store(micros, Ordering::Release);
        } else {
            self.offset.store(micros - machine_micros(), Ordering::Release);
        }
        alarms.wake_driver();
    }

    /// An alarm that rings once the clock has reached `deadline`.
    pub(crate) fn alarm(self: &Arc<Self>, deadline: Millis) -> Alarm {
        let mut alarms = self.alarms();
        let id = alarms.next;
        alarms.next += 1;
        let state = Arc::new(AlarmState { inner: Mutex::default() });
        let earliest = alarms.waiting.first_key_value().is_none_or(|((first, _), _)| deadline < *first);
        alarms.waiting.insert((deadline, id), Arc::clone(&state));
        if earliest {
            alarms.wake_driver();
        }
        Alarm { clock: Arc::clone(self), key: (deadline, id), state }
    }

    /// An alarm that rings so long from now, but not before the next millisecond.
    pub(crate) fn alarm_after(self: &Arc<Self>, duration: Duration) -> Alarm {
        let millis = i64::try_from(duration.as_micros().div_ceil(1000)).unwrap_or(LATEST).max(1);
        self.alarm(self.millis().saturating_add(millis))
    }

    /// An alarm that has rung already: for what the passing of time has set off otherwise, and is not yet dealt with.
    pub(crate) fn rung_alarm(self: &Arc<Self>) -> Alarm {
        let mut alarms = self.alarms();
        let id = alarms.next;
        alarms.next += 1;
        alarms.ringing += 1;
        let inner = AlarmInner { rang: true, ..AlarmInner::default() };
        Alarm {
            clock: Arc::clone(self),
            key: (Millis::MIN, id),
            state: Arc::new(AlarmState { inner: Mutex::new(inner) }),
        }
    }

    /// Rings every alarm that is due.
    pub(crate) fn ring(&self) {
        let now = self.millis();
        let mut alarms = self.alarms();
        while let Some(entry) = alarms.waiting.first_entry() {
            if entry.key().0 > now {
                break;
            }
            entry.remove().ring();
            alarms.ringing += 1;
        }
    }

    /// The earliest deadline that somebody waits for.
    pub(crate) fn next_alarm(&self) -> Option<Millis> {
        self.alarms().waiting.first_key_value().map(|((deadline, _), _)| *deadline)
    }

    /// Blocks until whoever waited for an alarm that has rung has dealt with it.
    pub(crate) fn settle_here(&self) {
        let alarms = self.alarms();
        drop(self.settled.wait_while(alarms, |alarms| alarms.ringing > 0));
    }

    /// Whether everything that has rung has been dealt with.
    #[cfg(test)]
    pub(crate) fn is_settled(&self) -> bool {
        self.alarms().ringing == 0
    }

    /// Waits until whoever waited for an alarm that has rung has dealt with it.
    pub(crate) async fn settle(&self) {
        poll_fn(|cx| {
            let mut alarms = self.alarms();
            if alarms.ringing == 0 {
                return Poll::Ready(());
            }
            alarms.settlers.push(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Rings the alarms as time passes, for ever.
    pub(crate) async fn drive(self: Arc<Self>) {
        loop {
            let wait = poll_fn(|cx| match self.until_next_alarm(cx.waker()) {
                None => Poll::Pending,
                Some(wait) => Poll::Ready(wait),
            })
            .await;
            if wait.is_zero() {
                self.ring();
                continue;
            }
            // Whatever comes first: the deadline, or a change that makes another one the earliest.
            let mut sleep = pin!(Self::pass(wait));
            let mut first = true;
            poll_fn(|cx| {
                if sleep.as_mut().poll(cx).is_ready() || !std::mem::replace(&mut first, false) {
                    return Poll::Ready(());
                }
                self.alarms().driver = Some(cx.waker().clone());
                Poll::Pending
            })
            .await;
        }
    }

    /// Lets real time pass.
    #[allow(clippy::disallowed_methods)]
    pub(crate) async fn pass(duration: Duration) {
        tokio::time::sleep(duration).await;
    }

    /// Blocks this thread until something has happened, for so long in real time at most.
    #[allow(clippy::disallowed_methods)]
    pub(crate) fn wait_here<T>(event: impl Future<Output = T>, longest: Duration) -> Option<T> {
        struct Thread(std::thread::Thread);
        impl std::task::Wake for Thread {
            fn wake(self: Arc<Self>) {
                self.0.unpark();
            }
        }
        let mut event = pin!(event);
        let waker = Waker::from(Arc::new(Thread(std::thread::current())));
        let since = Instant::now();
        loop {
            if let Poll::Ready(outcome) = event.as_mut().poll(&mut Context::from_waker(&waker)) {
                return Some(outcome);
            }
            std::thread::park_timeout(longest.checked_sub(since.elapsed()).filter(|left| !left.is_zero())?);
        }
    }

    /// How long, in real time, until the earliest alarm is due; `None` when time stands still or nobody waits.
    /// The waker is called when that may have changed.
    pub(crate) fn until_next_alarm(&self, waker: &Waker) -> Option<Duration> {
        let mut alarms = self.alarms();
        alarms.driver = Some(waker.clone());
        let deadline = alarms.waiting.first_key_value()?.0.0;
        if self.is_frozen() && deadline > self.millis() {
            return None;
        }
        let micros = deadline.saturating_mul(1000).saturating_sub(self.micros()).max(0);
        Some(Duration::from_micros(micros.unsigned_abs()))
    }

    /// Blocks this thread in real time, as DEBUG SLEEP does.
    #[allow(clippy::disallowed_methods)]
    pub(crate) fn block(&self, duration: Duration) {
        std::thread::sleep(duration);
    }

    fn alarms(&self) -> MutexGuard<'_, Alarms> {
        self.alarms.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Alarms {
    fn wake_driver(&mut self) {
        if let Some(driver) = &self.driver {
            driver.wake_by_ref();
        }
    }
}

impl AlarmState {
    fn inner(&self) -> MutexGuard<'_, AlarmInner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ring(&self) {
        let mut inner = self.inner();
        inner.rang = true;
        if let Some(sleeper) = inner.sleeper.take() {
            sleeper.wake();
        }
    }
}

/// A deadline somebody waits for. Dropping it means: done with it.
pub(crate) struct Alarm {
    clock: Arc<Clock>,
    key: (Millis, u64),
    state: Arc<AlarmState>,
}

impl Alarm {
    /// Whether the alarm has rung; if not, `waker` is called when it does.
    pub(crate) fn has_rung(&self, waker: &Waker) -> bool {
        let mut inner = self.state.inner();
        if !inner.rang {
            inner.sleeper = Some(waker.clone());
        }
        inner.rang
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        let mut alarms = self.clock.alarms();
        if alarms.waiting.remove(&self.key).is_none() {
            alarms.ringing -= 1;
            if alarms.ringing == 0 {
                self.clock.settled.notify_all();
                alarms.settlers.drain(..).for_each(Waker::wake);
            }
        }
    }
}

/// Asked for on every command, so by the cheapest road: `SystemTime` would compute with 128 bits on the way.
#[inline]
fn machine_micros() -> i64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    now.tv_sec * 1_000_000 + now.tv_nsec / 1000
}

/// The machine's time in microseconds since 1970, for log lines and start-up stamps.
pub(crate) fn real_micros() -> i64 {
    machine_micros()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frozen_clock_stands_until_it_is_moved() {
        let clock = Clock::new();
        clock.freeze();
        let before = clock.micros();
        assert_eq!(clock.micros(), before);
        clock.set(before + 1_500);
        assert_eq!(clock.micros(), before + 1_500);
        clock.set(1_000_000);
        assert_eq!(clock.millis(), 1_000);
    }

    #[test]
    fn a_resumed_clock_goes_on_from_where_it_stood() {
        let clock = Clock::new();
        clock.freeze();
        clock.set(5_000_000_000_000_000);
        clock.resume();
        let now = clock.micros();
        assert!((5_000_000_000_000_000..5_000_000_600_000_000).contains(&now), "{now}");
    }

    #[test]
    fn an_alarm_rings_when_time_reaches_it_and_not_before() {
        let clock = Arc::new(Clock::new());
        clock.freeze();
        clock.set(1_000_000);
        let alarm = clock.alarm(2_000);
        clock.set(1_999_999);
        clock.ring();
        assert!(!alarm.has_rung(Waker::noop()));
        clock.set(2_000_000);
        clock.ring();
        assert!(alarm.has_rung(Waker::noop()));
        drop(alarm);
        clock.settle_here();
    }
}
