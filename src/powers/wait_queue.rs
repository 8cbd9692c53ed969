//! FIFO queues in which commands are parked: at a gate, by a fault, or for their turn in an exploration.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::line::line_of;
use crate::base::clock::{Alarm, Clock, Stopwatch};
use crate::base::sync::MutexExt;

/// A command in a queue, as others see it.
#[derive(Clone, Debug)]
pub struct ParkedCommand {
    pub client: u64,
    pub client_name: Vec<u8>,
    pub words: Vec<Vec<u8>>,
}

impl fmt::Display for ParkedCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "client {}", self.client)?;
        if !self.client_name.is_empty() {
            write!(f, " ({})", self.client_name.escape_ascii())?;
        }
        if !self.words.is_empty() {
            write!(f, " {}", line_of(&self.words))?;
        }
        Ok(())
    }
}

/// A FIFO queue of parked commands, shared by those that park and those that release.
///
/// No waker runs while the queue or a slot is locked: every function collects the wakers and calls them at its end.
#[derive(Default)]
pub struct WaitQueue(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    /// The last number given to a command or a watcher.
    last: u64,
    /// The commands that are parked, by number.
    parked: BTreeMap<u64, Parked>,
    /// How many commands have come here, and how many of those were released.
    arrived: u64,
    passed: u64,
    /// From now on nothing is parked.
    open: bool,
    /// Those that wait for so many parked commands, or for the queue to open.
    watchers: BTreeMap<u64, Watcher>,
}

struct Parked {
    command: ParkedCommand,
    since: Stopwatch,
    slot: Arc<Mutex<Slot>>,
}

struct Watcher {
    count: usize,
    waker: Waker,
}

/// How a command was released.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Release {
    /// Alone: if its client is gone by then, the next one is released instead.
    Alone,
    /// With all others.
    Together,
    /// By the watchdog, because it was parked for too long.
    Overdue,
}

/// What a permit and its queue share.
#[derive(Default)]
struct Slot {
    /// How it was released, if it was.
    release: Option<Release>,
    /// It has gone on.
    has_resumed: bool,
    /// Whoever released it waits until this is dropped.
    alarm: Option<Alarm>,
    waker: Option<Waker>,
}

/// The right of a parked command to go on once it is released. Dropping it leaves the queue.
#[must_use]
pub struct Permit {
    queue: Arc<WaitQueue>,
    number: u64,
    slot: Arc<Mutex<Slot>>,
}

impl WaitQueue {
    /// Parks a command; `None` if the queue is open.
    pub fn park(self: &Arc<Self>, command: ParkedCommand) -> Option<Permit> {
        let mut inner = self.inner();
        inner.arrived += 1;
        if inner.open {
            inner.passed += 1;
            return None;
        }
        let number = inner.next_number();
        let slot = Arc::default();
        inner.parked.insert(number, Parked { command, since: Stopwatch::start(), slot: Arc::clone(&slot) });
        let wakers = inner.watchers_to_wake();
        drop(inner);
        wakers.into_iter().for_each(Waker::wake);
        Some(Permit { queue: Arc::clone(self), number, slot })
    }

    /// Releases the command that has waited longest, and returns it. If its client turns out to be gone, the next one is
    /// released instead.
    pub fn release_next(&self, clock: &Arc<Clock>) -> Option<ParkedCommand> {
        let mut inner = self.inner();
        if inner.parked.is_empty() {
            return None;
        }
        let (command, waker) = inner.release_first(clock.rung_alarm(), Release::Alone)?;
        drop(inner);
        waker.into_iter().for_each(Waker::wake);
        Some(command)
    }

    /// Releases all commands, and parks none from now on. Returns how many were parked.
    pub fn open(&self, clock: &Arc<Clock>) -> usize {
        let mut inner = self.inner();
        inner.open = true;
        let mut wakers = Vec::new();
        let mut released = 0;
        while !inner.parked.is_empty() {
            wakers.extend(inner.release_first(clock.rung_alarm(), Release::Together).and_then(|(_, waker)| waker));
            released += 1;
        }
        wakers.extend(inner.watchers_to_wake());
        drop(inner);
        wakers.into_iter().for_each(Waker::wake);
        released
    }

    /// Releases the commands that have been parked for longer than this in real time, and returns them.
    pub fn release_overdue(&self, clock: &Arc<Clock>, longest: Duration) -> Vec<ParkedCommand> {
        let mut inner = self.inner();
        let (mut released, mut wakers) = (Vec::new(), Vec::new());
        while inner.parked.first_key_value().is_some_and(|(_, parked)| parked.since.elapsed() > longest) {
            if let Some((command, waker)) = inner.release_first(clock.rung_alarm(), Release::Overdue) {
                released.push(command);
                wakers.extend(waker);
            }
        }
        drop(inner);
        wakers.into_iter().for_each(Waker::wake);
        released
    }

    pub fn is_open(&self) -> bool {
        self.inner().open
    }

    /// The commands that are parked now, in order.
    pub fn parked(&self) -> Vec<ParkedCommand> {
        self.inner().parked.values().map(|parked| parked.command.clone()).collect()
    }

    /// How many commands are parked now.
    pub fn parked_count(&self) -> usize {
        self.inner().parked.len()
    }

    /// How many commands have come here since the queue was made.
    pub fn arrived(&self) -> u64 {
        self.inner().arrived
    }

    /// How many were released.
    pub fn passed(&self) -> u64 {
        self.inner().passed
    }

    /// Waits until at least so many commands are parked at the same time.
    pub fn watch(self: &Arc<Self>, count: usize) -> Watch {
        let number = self.inner().next_number();
        Watch { queue: Arc::clone(self), number, count }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock_ignoring_poison()
    }
}

impl Inner {
    fn next_number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Releases the first command. The caller calls the waker when nothing is locked any more.
    fn release_first(&mut self, alarm: Alarm, release: Release) -> Option<(ParkedCommand, Option<Waker>)> {
        let (_, parked) = self.parked.pop_first()?;
        self.passed += 1;
        let mut slot = parked.slot.lock_ignoring_poison();
        slot.release = Some(release);
        slot.alarm = Some(alarm);
        let waker = slot.waker.take();
        drop(slot);
        Some((parked.command, waker))
    }

    /// The wakers of those whose wait is over.
    fn watchers_to_wake(&self) -> Vec<Waker> {
        let (parked, open) = (self.parked.len(), self.open);
        let over = self.watchers.values().filter(|watcher| open || parked >= watcher.count);
        over.map(|watcher| watcher.waker.clone()).collect()
    }
}

/// A wait until so many commands are parked in a queue. Yields how many are, or `None` once the queue is open.
pub struct Watch {
    queue: Arc<WaitQueue>,
    number: u64,
    count: usize,
}

impl Future for Watch {
    type Output = Option<usize>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<usize>> {
        let mut inner = self.queue.inner();
        if inner.open {
            return Poll::Ready(None);
        }
        if inner.parked.len() >= self.count {
            return Poll::Ready(Some(inner.parked.len()));
        }
        inner.watchers.insert(self.number, Watcher { count: self.count, waker: cx.waker().clone() });
        Poll::Pending
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.queue.inner().watchers.remove(&self.number);
    }
}

impl Permit {
    /// Whether the command may go on; if not, `waker` is called when it may.
    pub fn is_released(&self, waker: &Waker) -> bool {
        let mut slot = self.slot();
        if slot.release.is_none() {
            slot.waker = Some(waker.clone());
        }
        slot.release.is_some()
    }

    /// Whether the watchdog released it.
    pub(crate) fn is_overdue(&self) -> bool {
        self.slot().release == Some(Release::Overdue)
    }

    /// The command goes on. The alarm is to be kept until all that it does then has happened.
    pub(crate) fn take_alarm(&self) -> Option<Alarm> {
        let mut slot = self.slot();
        slot.has_resumed = true;
        slot.alarm.take()
    }

    fn slot(&self) -> MutexGuard<'_, Slot> {
        self.slot.lock_ignoring_poison()
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut inner = self.queue.inner();
        if inner.parked.remove(&self.number).is_some() {
            return;
        }
        let mut slot = self.slot();
        let unused = slot.alarm.take().filter(|_| !slot.has_resumed);
        let alone = slot.release == Some(Release::Alone);
        drop(slot);
        let Some(alarm) = unused else { return };
        inner.passed -= 1;
        if alone {
            let next = inner.release_first(alarm, Release::Alone);
            drop(inner);
            next.and_then(|(_, waker)| waker).into_iter().for_each(Waker::wake);
        } else {
            // Dropping the alarm can wake those who wait for it.
            drop(inner);
            drop(alarm);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    fn command(client: u64) -> ParkedCommand {
        ParkedCommand { client, client_name: Vec::new(), words: vec![b"PING".to_vec()] }
    }

    fn queue() -> (Arc<WaitQueue>, Arc<Clock>) {
        (Arc::default(), Arc::new(Clock::new()))
    }

    fn poll(watch: &mut Watch) -> Poll<Option<usize>> {
        Pin::new(watch).poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn commands_are_released_in_the_order_in_which_they_came() {
        let (queue, clock) = queue();
        let (first, second) = (queue.park(command(1)).unwrap(), queue.park(command(2)).unwrap());
        assert!(!first.is_released(Waker::noop()));
        assert_eq!(queue.release_next(&clock).unwrap().client, 1);
        assert!(first.is_released(Waker::noop()) && !second.is_released(Waker::noop()));
        assert_eq!(queue.open(&clock), 1);
        assert!(second.is_released(Waker::noop()));
        assert!(queue.park(command(3)).is_none());
        assert_eq!(queue.open(&clock), 0);
    }

    #[test]
    fn a_dropped_permit_leaves_the_queue() {
        let (queue, clock) = queue();
        drop(queue.park(command(1)));
        assert_eq!((queue.parked_count(), queue.arrived(), queue.passed()), (0, 1, 0));
        assert!(queue.release_next(&clock).is_none());
        assert!(clock.is_quiescent());
    }

    #[test]
    fn whoever_opens_a_queue_waits_for_the_commands_it_releases() {
        let (queue, clock) = queue();
        let permit = queue.park(command(1)).unwrap();
        queue.open(&clock);
        assert!(!clock.is_quiescent());
        drop(permit);
        assert!(clock.is_quiescent());
    }

    #[test]
    fn the_release_of_a_dropped_permit_goes_to_the_next() {
        let (queue, clock) = queue();
        let (first, second) = (queue.park(command(1)).unwrap(), queue.park(command(2)).unwrap());
        let third = queue.park(command(3)).unwrap();
        queue.release_next(&clock);
        drop(first);
        assert!(second.is_released(Waker::noop()) && !third.is_released(Waker::noop()));
        // The release waits for this one now.
        assert!(!clock.is_quiescent());
        drop(second.take_alarm());
        drop(second);
        assert!(clock.is_quiescent() && !third.is_released(Waker::noop()));
        assert_eq!(queue.passed(), 1);
    }

    #[test]
    fn a_watch_ends_with_enough_commands_or_with_the_queue() {
        let (queue, clock) = queue();
        let (mut one, mut two) = (queue.watch(1), queue.watch(2));
        assert!(poll(&mut one).is_pending() && poll(&mut two).is_pending());
        let _permit = queue.park(command(1));
        assert_eq!(poll(&mut one), Poll::Ready(Some(1)));
        assert!(poll(&mut two).is_pending());
        queue.open(&clock);
        assert_eq!(poll(&mut two), Poll::Ready(None));
    }

    #[test]
    fn a_dropped_watch_leaves_nothing_behind() {
        let (queue, _clock) = queue();
        for _ in 0..10 {
            let mut watch = queue.watch(1);
            assert!(poll(&mut watch).is_pending() && poll(&mut watch).is_pending());
        }
        assert!(queue.inner().watchers.is_empty());
    }

    #[test]
    fn an_overdue_command_is_released() {
        let (queue, clock) = queue();
        let permit = queue.park(command(1)).unwrap();
        assert!(queue.release_overdue(&clock, Duration::from_secs(3600)).is_empty());
        while queue.release_overdue(&clock, Duration::ZERO).is_empty() {}
        assert!(permit.is_released(Waker::noop()));
    }

    #[test]
    fn thousands_can_leave_in_any_order() {
        let (queue, clock) = queue();
        let mut permits: Vec<_> = (0..20_000).map(|client| queue.park(command(client)).unwrap()).collect();
        // From the end, and from the middle.
        permits.truncate(15_000);
        permits.drain(5_000..10_000).for_each(drop);
        assert_eq!(queue.parked_count(), 10_000);
        assert_eq!(queue.release_next(&clock).unwrap().client, 0);
        assert_eq!(queue.parked()[4_999].client, 10_000);
    }

    /// Looks when it is woken whether anything is locked.
    struct Probe {
        queue: Arc<WaitQueue>,
        slot: Mutex<Option<Arc<Mutex<Slot>>>>,
        woken: AtomicUsize,
        locked: AtomicUsize,
    }

    impl Wake for Probe {
        fn wake(self: Arc<Self>) {
            self.woken.fetch_add(1, Ordering::Relaxed);
            let slot = self.slot.lock().unwrap().clone();
            if self.queue.0.try_lock().is_err() || slot.is_some_and(|slot| slot.try_lock().is_err()) {
                self.locked.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    #[test]
    fn wakers_run_when_nothing_is_locked() {
        let (queue, clock) = queue();
        let probe = Arc::new(Probe {
            queue: Arc::clone(&queue),
            slot: Mutex::default(),
            woken: AtomicUsize::new(0),
            locked: AtomicUsize::new(0),
        });
        let waker = Waker::from(Arc::clone(&probe));
        let mut watch = queue.watch(1);
        assert!(Pin::new(&mut watch).poll(&mut Context::from_waker(&waker)).is_pending());
        let releases: [&dyn Fn(); 3] =
            [&|| drop(queue.release_next(&clock)), &|| drop(queue.release_overdue(&clock, Duration::ZERO)), &|| {
                assert!(queue.open(&clock) <= 1)
            }];
        for release in releases {
            let permit = queue.park(command(1)).unwrap();
            *probe.slot.lock().unwrap() = Some(Arc::clone(&permit.slot));
            assert!(!permit.is_released(&waker));
            let (before, since) = (probe.woken.load(Ordering::Relaxed), Stopwatch::start());
            while permit.slot().release.is_none() && since.elapsed() < Duration::from_secs(10) {
                release();
            }
            assert!(probe.woken.load(Ordering::Relaxed) > before);
        }
        assert!(probe.woken.load(Ordering::Relaxed) >= 6, "the watch by each command, and each command by its release");
        assert_eq!(probe.locked.load(Ordering::Relaxed), 0);
    }
}
