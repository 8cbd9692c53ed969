//! The only source of time.
//!
//! A server's clock runs at the machine's speed with an offset, at another speed, or is frozen. Everything with a
//! deadline reads this clock; nothing else in the crate reads the machine's time or sleeps (a lint enforces it). Uptime,
//! log lines and how long a command took concern the machine and use real time.

use crate::base::sync::MutexExt;
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// A point in time on a server's clock, in milliseconds since 1970: the unit of every deadline.
pub type Millis = i64;

/// In [`Clock::mode`]: runs at the machine's speed.
const RUNNING: i64 = i64::MIN;
/// In [`Clock::mode`]: runs at another speed.
const SCALED: i64 = i64::MIN + 1;

/// The last instant that a clock can be set to, in microseconds: far enough from the end of the range that sums do not
/// overflow. The first is 1970.
pub(crate) const MAX_MICROS: i64 = i64::MAX / 4;

/// How fast a clock runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// Not running.
    Frozen,
    /// A multiple of the machine's speed.
    Speed(f64),
}

/// A period of constant speed: its start on the machine's clock and on this one, in microseconds.
#[derive(Clone, Copy, Debug)]
struct ScaledPeriod {
    from: i64,
    to: i64,
    speed: f64,
}

impl ScaledPeriod {
    fn micros(self) -> i64 {
        // Saturates.
        let passed = (machine_micros().saturating_sub(self.from) as f64 * self.speed) as i64;
        self.to.saturating_add(passed).min(MAX_MICROS)
    }
}

/// A server's clock. Each server has its own.
pub struct Clock {
    /// Microseconds added to the machine's time while the clock runs.
    offset: AtomicI64,
    /// The instant at which the clock is frozen, in microseconds, or [`RUNNING`], or [`SCALED`].
    mode: AtomicI64,
    /// The current period while the mode is [`SCALED`].
    scaled: Mutex<Option<ScaledPeriod>>,
    /// The clock is frozen, and advances by itself when all clients are blocked.
    auto: AtomicBool,
    /// The time in real time after which a silent client counts as blocked for auto-advance.
    idle_grace: Mutex<Option<Duration>>,
    started: Instant,
    alarms: Mutex<Alarms>,
}

#[derive(Default)]
struct Alarms {
    next: u64,
    waiting: BTreeMap<(Millis, u64), Arc<AlarmState>>,
    /// The number of alarms that have rung and were not dropped yet.
    ringing: usize,
    /// Woken when the earliest deadline may have become earlier, or the clock was moved.
    driver: Option<Waker>,
    /// Woken when every alarm that has rung was dropped.
    quiescence_wakers: Vec<Waker>,
}

struct AlarmState {
    inner: Mutex<AlarmInner>,
}

#[derive(Default)]
struct AlarmInner {
    rang: bool,
    /// It rang before its deadline, because a reset ends all waits.
    early: bool,
    sleeper: Option<Waker>,
}

/// One reading of a server's clock, and of the machine's beside it.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// The server's time, in microseconds since 1970.
    pub micros: i64,
    /// The machine's, which passes also while the server's clock stands.
    pub real: i64,
}

/// Measures real time, for limits that apply although the server's clock is frozen.
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
            mode: AtomicI64::new(RUNNING),
            scaled: Mutex::default(),
            auto: AtomicBool::new(false),
            idle_grace: Mutex::default(),
            started: Instant::now(),
            alarms: Mutex::default(),
        }
    }

    /// Microseconds since 1970.
    #[inline]
    pub fn micros(&self) -> i64 {
        match self.mode.load(Ordering::Acquire) {
            RUNNING => machine_micros().saturating_add(self.offset.load(Ordering::Acquire)),
            SCALED => self.scaled_micros(),
            mode => mode,
        }
    }

    /// This clock's time and the machine's. While the clock runs at the machine's speed, both are one reading.
    #[inline]
    pub fn read(&self) -> Reading {
        if self.mode.load(Ordering::Acquire) == RUNNING {
            let real = machine_micros();
            return Reading { micros: real.saturating_add(self.offset.load(Ordering::Acquire)), real };
        }
        self.read_both()
    }

    #[cold]
    fn read_both(&self) -> Reading {
        Reading { micros: self.micros(), real: machine_micros() }
    }

    #[cold]
    fn scaled_micros(&self) -> i64 {
        match *self.scaled() {
            Some(scaled) => scaled.micros(),
            // The pace has changed since the first check.
            None => self.micros(),
        }
    }

    /// The machine's time at an instant of this clock, in microseconds, if this one runs at the machine's speed.
    #[inline]
    pub(crate) fn real_at(&self, micros: i64) -> Option<i64> {
        let is_running = self.mode.load(Ordering::Acquire) == RUNNING;
        is_running.then(|| micros.saturating_sub(self.offset.load(Ordering::Acquire)))
    }

    /// This clock's time at the machine's present time `micros`.
    #[inline]
    pub(crate) fn at_real(&self, micros: i64) -> i64 {
        match self.mode.load(Ordering::Acquire) {
            RUNNING => micros.saturating_add(self.offset.load(Ordering::Acquire)),
            SCALED => self.scaled_micros(),
            mode => mode,
        }
    }

    /// Milliseconds since 1970.
    #[inline]
    pub fn millis(&self) -> Millis {
        self.micros().div_euclid(1000)
    }

    pub fn pace(&self) -> Pace {
        match self.mode.load(Ordering::Acquire) {
            RUNNING => Pace::Speed(1.0),
            SCALED => Pace::Speed(self.scaled().map_or(1.0, |scaled| scaled.speed)),
            _ => Pace::Frozen,
        }
    }

    /// How far ahead of the machine's clock it is, in microseconds.
    pub fn offset(&self) -> i64 {
        self.micros().saturating_sub(machine_micros())
    }

    /// Real time since the server was made.
    pub fn uptime(&self) -> Duration {
        self.started.elapsed()
    }

    /// Sets the pace; the clock continues from its present time. Returns the old pace.
    pub(crate) fn set_pace(&self, pace: Pace) -> Pace {
        let alarms = self.alarms();
        let before = self.pace();
        self.set_from(self.micros(), pace);
        wake_driver(alarms);
        before
    }

    /// Moves the clock to an instant, forwards or backwards, within its range. It keeps running or stays frozen.
    pub(crate) fn set(&self, micros: i64) {
        let alarms = self.alarms();
        self.set_from(micros.clamp(0, MAX_MICROS), self.pace());
        wake_driver(alarms);
    }

    /// Makes the clock show the machine's time.
    pub(crate) fn reset(&self) {
        let alarms = self.alarms();
        self.set_auto(None);
        self.offset.store(0, Ordering::Release);
        self.mode.store(RUNNING, Ordering::Release);
        *self.scaled() = None;
        wake_driver(alarms);
    }

    /// The caller holds the lock of the alarms.
    fn set_from(&self, micros: i64, pace: Pace) {
        match pace {
            Pace::Frozen => self.mode.store(micros, Ordering::Release),
            Pace::Speed(1.0) => {
                self.offset.store(micros.saturating_sub(machine_micros()), Ordering::Release);
                self.mode.store(RUNNING, Ordering::Release);
            }
            Pace::Speed(speed) => {
                *self.scaled() = Some(ScaledPeriod { from: machine_micros(), to: micros, speed });
                self.mode.store(SCALED, Ordering::Release);
            }
        }
    }

    fn scaled(&self) -> MutexGuard<'_, Option<ScaledPeriod>> {
        self.scaled.lock_ignoring_poison()
    }

    /// Whether the clock advances by itself when all clients are blocked.
    #[inline]
    pub fn is_auto(&self) -> bool {
        self.auto.load(Ordering::Relaxed)
    }

    /// The time in real time after which a silent client counts as blocked for auto-advance.
    pub fn idle_grace(&self) -> Option<Duration> {
        *self.idle_grace.lock_ignoring_poison()
    }

    /// Turns auto-advance on or off. The inner `Option` is the [`idle_grace`](Self::idle_grace).
    pub(crate) fn set_auto(&self, auto: Option<Option<Duration>>) {
        *self.idle_grace.lock_ignoring_poison() = auto.flatten();
        self.auto.store(auto.is_some(), Ordering::SeqCst);
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
            wake_driver(alarms);
        }
        Alarm { clock: Arc::clone(self), key: (deadline, id), state }
    }

    /// An alarm that rings after a duration, but not before the next millisecond.
    pub(crate) fn alarm_after(self: &Arc<Self>, duration: Duration) -> Alarm {
        let millis = i64::try_from(duration.as_micros().div_ceil(1000)).unwrap_or(MAX_MICROS).max(1);
        self.alarm(self.millis().saturating_add(millis))
    }

    /// An alarm that has rung already: it stands for a consequence of passing time that is not complete yet.
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
        let mut wakers = Vec::new();
        while let Some(entry) = alarms.waiting.first_entry() {
            if entry.key().0 > now {
                break;
            }
            wakers.extend(entry.remove().ring(false));
            alarms.ringing += 1;
        }
        drop(alarms);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Rings every alarm before its time. Returns whether there was any.
    pub(crate) fn ring_early(&self) -> bool {
        let mut alarms = self.alarms();
        let early = std::mem::take(&mut alarms.waiting);
        alarms.ringing += early.len();
        let wakers: Vec<Waker> = early.values().filter_map(|alarm| alarm.ring(true)).collect();
        drop(alarms);
        wakers.into_iter().for_each(Waker::wake);
        !early.is_empty()
    }

    /// The earliest deadline of an alarm, if the clock can reach it.
    pub(crate) fn next_alarm(&self) -> Option<Millis> {
        let earliest = self.alarms().waiting.first_key_value().map(|((deadline, _), _)| *deadline);
        earliest.filter(|&deadline| deadline <= MAX_MICROS / 1000)
    }

    /// Whether no alarm that has rung is still held.
    pub(crate) fn is_quiescent(&self) -> bool {
        self.alarms().ringing == 0
    }

    /// Waits until every alarm that has rung was dropped, which its owner does once the consequences are done.
    pub(crate) async fn wait_until_quiescent(&self) {
        poll_fn(|cx| {
            let mut alarms = self.alarms();
            if alarms.ringing == 0 {
                return Poll::Ready(());
            }
            if !alarms.quiescence_wakers.iter().any(|waker| waker.will_wake(cx.waker())) {
                alarms.quiescence_wakers.push(cx.waker().clone());
            }
            Poll::Pending
        })
        .await;
    }

    /// Rings the alarms as time passes. Never returns.
    pub(crate) async fn run_alarms(self: Arc<Self>) {
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
            // Ends at the deadline, or when another alarm has become the earliest.
            let mut sleep = pin!(Self::sleep(wait));
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

    /// A duration of this clock in real time, if the clock is faster than the machine's; otherwise the duration itself.
    pub(crate) fn in_real_time(&self, duration: Duration) -> Duration {
        match self.pace() {
            Pace::Speed(speed) if speed > 1.0 => duration.div_f64(speed),
            _ => duration,
        }
    }

    /// Lets real time pass.
    #[allow(clippy::disallowed_methods)]
    pub(crate) async fn sleep(duration: Duration) {
        tokio::time::sleep(duration).await;
    }

    /// Waits for a future, but no longer than a while of real time.
    pub(crate) async fn within<F: Future>(limit: Duration, future: F) -> Option<F::Output> {
        let (mut future, mut elapsed) = (pin!(future), pin!(Self::sleep(limit)));
        poll_fn(|cx| match future.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending => elapsed.as_mut().poll(cx).map(|()| None),
        })
        .await
    }

    /// Real time until the earliest alarm is due; `None` if the clock is frozen or there is no alarm. The waker is called
    /// when that may have changed.
    pub(crate) fn until_next_alarm(&self, waker: &Waker) -> Option<Duration> {
        let mut alarms = self.alarms();
        alarms.driver = Some(waker.clone());
        let deadline = alarms.waiting.first_key_value()?.0.0;
        let micros = deadline.saturating_mul(1000).saturating_sub(self.micros());
        if micros <= 0 {
            return Some(Duration::ZERO);
        }
        match self.pace() {
            Pace::Frozen => None,
            // Never zero, so that the caller really waits.
            Pace::Speed(speed) => Some(Duration::from_micros(((micros as f64 / speed).ceil() as u64).max(1))),
        }
    }

    /// Blocks this thread in real time, as DEBUG SLEEP and `redis-cli -i` do.
    #[allow(clippy::disallowed_methods)]
    pub(crate) fn block_thread(duration: Duration) {
        std::thread::sleep(duration);
    }

    fn alarms(&self) -> MutexGuard<'_, Alarms> {
        self.alarms.lock_ignoring_poison()
    }
}

/// Unlocks the alarms, then wakes the task that rings them.
fn wake_driver(alarms: MutexGuard<'_, Alarms>) {
    let driver = alarms.driver.clone();
    drop(alarms);
    driver.into_iter().for_each(Waker::wake);
}

impl AlarmState {
    fn inner(&self) -> MutexGuard<'_, AlarmInner> {
        self.inner.lock_ignoring_poison()
    }

    /// Marks the alarm as rung. The caller calls the waker after all locks are released.
    fn ring(&self, early: bool) -> Option<Waker> {
        let mut inner = self.inner();
        inner.rang = true;
        inner.early = early;
        inner.sleeper.take()
    }
}

/// A deadline that something waits for. Its owner drops it once the consequences of the deadline are done.
pub struct Alarm {
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

    /// Whether it rang before its deadline.
    pub(crate) fn is_early(&self) -> bool {
        self.state.inner().early
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        let mut alarms = self.clock.alarms();
        if alarms.waiting.remove(&self.key).is_none() {
            alarms.ringing -= 1;
            if alarms.ringing == 0 {
                let wakers = std::mem::take(&mut alarms.quiescence_wakers);
                drop(alarms);
                wakers.into_iter().for_each(Waker::wake);
            }
        }
    }
}

/// Wakes a thread that is parked.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Blocks this thread, which must not run an event loop, until a future is ready.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    loop {
        // A thread can be unparked spuriously.
        if let Some(there) = block_on_timeout(future.as_mut(), Duration::MAX) {
            return there;
        }
    }
}

/// Like [`block_on`], with a time-out in real time; `None` if it elapses.
#[allow(clippy::disallowed_methods)]
pub(crate) fn block_on_timeout<T>(future: impl Future<Output = T>, longest: Duration) -> Option<T> {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    let since = Instant::now();
    loop {
        if let Poll::Ready(there) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return Some(there);
        }
        let left = longest.checked_sub(since.elapsed()).filter(|left| !left.is_zero())?;
        std::thread::park_timeout(left);
    }
}

/// Every command reads it, so it uses the cheapest system call; `SystemTime` computes with 128 bits.
#[inline]
fn machine_micros() -> i64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    now.tv_sec * 1_000_000 + now.tv_nsec / 1000
}

/// The machine's time in microseconds since 1970, for log lines, start-up stamps and the journal.
#[inline]
pub(crate) fn real_micros() -> i64 {
    machine_micros()
}

/// Microseconds since the machine started, also those in which it slept.
#[cfg(target_os = "linux")]
pub(crate) fn boot_micros() -> i64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    now.tv_sec * 1_000_000 + now.tv_nsec / 1000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frozen_clock_stands_until_it_is_moved() {
        let clock = Clock::new();
        clock.set_pace(Pace::Frozen);
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
        clock.set_pace(Pace::Frozen);
        clock.set(5_000_000_000_000_000);
        clock.set_pace(Pace::Speed(1.0));
        let now = clock.micros();
        assert!((5_000_000_000_000_000..5_000_000_600_000_000).contains(&now), "{now}");
    }

    #[test]
    fn an_alarm_rings_when_time_reaches_it_and_not_before() {
        let clock = Arc::new(Clock::new());
        clock.set_pace(Pace::Frozen);
        clock.set(1_000_000);
        let alarm = clock.alarm(2_000);
        clock.set(1_999_999);
        clock.ring();
        assert!(!alarm.has_rung(Waker::noop()));
        clock.set(2_000_000);
        clock.ring();
        assert!(alarm.has_rung(Waker::noop()));
        drop(alarm);
        assert!(clock.is_quiescent());
    }

    #[test]
    fn a_clock_at_another_speed_goes_on_from_where_it_is_and_back_again() {
        let clock = Clock::new();
        clock.set(5_000_000_000_000_000);
        clock.set_pace(Pace::Speed(1_000_000.0));
        let (first, second) = (clock.micros(), clock.micros());
        assert!(5_000_000_000_000_000 <= first && first <= second, "{first} {second}");
        assert_eq!(clock.set_pace(Pace::Speed(1.0)), Pace::Speed(1_000_000.0));
        assert!(clock.micros() >= second);
        clock.set_pace(Pace::Frozen);
        clock.set(7);
        clock.set_pace(Pace::Speed(0.001));
        assert!((7..1_000_000).contains(&clock.micros()));
    }

    #[test]
    fn waits_are_as_much_shorter_as_the_clock_is_faster() {
        let clock = Arc::new(Clock::new());
        let wait = |speed: f64, millis: i64| {
            clock.set_pace(Pace::Frozen);
            clock.set(1_000_000);
            let _alarm = clock.alarm(1_000 + millis);
            clock.set_pace(Pace::Speed(speed));
            clock.until_next_alarm(Waker::noop()).unwrap()
        };
        let about = |wait: Duration, most: u64| {
            let most = Duration::from_micros(most);
            assert!(most / 2 < wait && wait <= most, "{wait:?} {most:?}");
        };
        about(wait(1.0, 60_000), 60_000_000);
        about(wait(10.0, 600_000), 60_000_000);
        about(wait(0.001, 60), 60_000_000);
        assert!(wait(1_000_000.0, 1) <= Duration::from_micros(1));
        let farthest = wait(0.001, i64::MAX - 1_000);
        assert!(farthest > Duration::from_secs(1 << 40), "{farthest:?}");
    }

    #[test]
    fn a_clock_stays_within_what_it_can_show() {
        let clock = Clock::new();
        clock.set_pace(Pace::Frozen);
        for (to, shown) in [(i64::MAX, MAX_MICROS), (i64::MIN, 0), (-1, 0), (0, 0)] {
            clock.set(to);
            assert_eq!(clock.micros(), shown, "{to}");
        }
        clock.set(i64::MAX);
        clock.set_pace(Pace::Speed(1_000_000.0));
        assert!(clock.micros() <= MAX_MICROS);
        clock.reset();
        assert!(clock.offset().abs() < 1_000_000);
        assert_eq!(clock.pace(), Pace::Speed(1.0));
    }

    #[test]
    fn what_rings_early_says_so() {
        let clock = Arc::new(Clock::new());
        let (near, far) = (clock.alarm(Millis::MAX - 1), clock.alarm(Millis::MAX));
        assert_eq!(clock.next_alarm(), None, "no clock gets there");
        assert!(clock.ring_early() && !clock.ring_early());
        assert!(near.has_rung(Waker::noop()) && far.is_early());
        drop((near, far));
        assert!(clock.is_quiescent());
    }

    /// Counts its wakes, and those during which the alarms were locked.
    struct Probe {
        clock: Arc<Clock>,
        woken: AtomicI64,
        locked: AtomicI64,
    }

    impl Wake for Probe {
        fn wake(self: Arc<Self>) {
            self.woken.fetch_add(1, Ordering::Relaxed);
            if self.clock.alarms.try_lock().is_err() {
                self.locked.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    #[test]
    fn wakers_run_when_the_alarms_are_not_locked() {
        let clock = Arc::new(Clock::new());
        clock.set_pace(Pace::Frozen);
        clock.set(1_000_000);
        let probe = Arc::new(Probe { clock: Arc::clone(&clock), woken: AtomicI64::new(0), locked: AtomicI64::new(0) });
        let waker = Waker::from(Arc::clone(&probe));
        let woken = || probe.woken.swap(0, Ordering::Relaxed);

        assert!(clock.until_next_alarm(&waker).is_none());
        let (first, second) = (clock.alarm(2_000), clock.alarm(3_000));
        assert_eq!(woken(), 1, "the driver, by the first deadline only");
        clock.set(2_000_000);
        clock.set_pace(Pace::Frozen);
        assert_eq!(woken(), 2, "the driver, when time or its pace changes");
        assert!(!first.has_rung(&waker) && !second.has_rung(&waker));
        clock.ring();
        assert_eq!(woken(), 1);
        assert!(clock.ring_early());
        assert_eq!(woken(), 1);
        let mut quiet = pin!(clock.wait_until_quiescent());
        assert!(quiet.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        drop((first, second));
        assert_eq!(woken(), 1);
        clock.reset();
        assert_eq!(woken(), 1);
        assert_eq!(probe.locked.load(Ordering::Relaxed), 0);
    }
}
