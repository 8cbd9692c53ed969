//! A place where commands are held until somebody lets them go on.

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

/// Who is held, as others are told.
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

/// A place where commands wait in the order in which they came. Shared by whoever holds them there and whoever waits.
#[derive(Default)]
pub struct WaitQueue(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    /// What the next one gets who comes or watches.
    next: u64,
    /// Who is held, by turn.
    held: BTreeMap<u64, Held>,
    /// How many have come here, and how many of those were let go.
    arrived: u64,
    passed: u64,
    /// From now on nobody is held.
    open: bool,
    /// Those who want to know when so many are held, or the stop ends.
    watchers: BTreeMap<u64, Watcher>,
}

struct Held {
    guest: ParkedCommand,
    since: Stopwatch,
    spot: Arc<Mutex<Slot>>,
}

struct Watcher {
    count: usize,
    waker: Waker,
}

/// How somebody is let go.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Release {
    /// Alone: if it is gone by then, the next one has its turn.
    Alone,
    /// With everybody else.
    Together,
    /// By nobody: it was held for too long.
    Overdue,
}

/// What a ticket and its stop share.
#[derive(Default)]
struct Slot {
    /// How it was let go, if it was.
    release: Option<Release>,
    /// It has gone on.
    has_left: bool,
    /// Whoever has let it go waits until this is dropped.
    alarm: Option<Alarm>,
    waker: Option<Waker>,
}

/// The right to go on, some day. Dropping it leaves the stop.
pub struct Permit {
    stop: Arc<WaitQueue>,
    turn: u64,
    spot: Arc<Mutex<Slot>>,
}

impl WaitQueue {
    /// Holds a command; `None` if nobody is held here any more.
    pub fn hold(self: &Arc<Self>, guest: ParkedCommand) -> Option<Permit> {
        let mut inner = self.inner();
        inner.arrived += 1;
        if inner.open {
            inner.passed += 1;
            return None;
        }
        let turn = inner.take_turn();
        let spot = Arc::default();
        inner.held.insert(turn, Held { guest, since: Stopwatch::start(), spot: Arc::clone(&spot) });
        inner.tell();
        Some(Permit { stop: Arc::clone(self), turn, spot })
    }

    /// Lets the one go on who has waited longest; who it was. If its client turns out to be gone, the next one goes in
    /// its place.
    pub fn step(&self, clock: &Arc<Clock>) -> Option<ParkedCommand> {
        let mut inner = self.inner();
        if inner.held.is_empty() {
            return None;
        }
        inner.free_first(clock.rung_alarm(), Release::Alone)
    }

    /// Lets everybody go on, and holds nobody from now on; how many were held.
    pub fn open(&self, clock: &Arc<Clock>) -> usize {
        let mut inner = self.inner();
        inner.open = true;
        let mut freed = 0;
        while !inner.held.is_empty() {
            inner.free_first(clock.rung_alarm(), Release::Together);
            freed += 1;
        }
        inner.tell();
        freed
    }

    /// Lets those go on who have been held for longer than this in real time; who they were.
    pub fn free_overdue(&self, clock: &Arc<Clock>, longest: Duration) -> Vec<ParkedCommand> {
        let mut inner = self.inner();
        let mut freed = Vec::new();
        while inner.held.first_key_value().is_some_and(|(_, held)| held.since.elapsed() > longest) {
            freed.extend(inner.free_first(clock.rung_alarm(), Release::Overdue));
        }
        freed
    }

    pub fn is_open(&self) -> bool {
        self.inner().open
    }

    /// Who is held now, in order.
    pub fn guests(&self) -> Vec<ParkedCommand> {
        self.inner().held.values().map(|held| held.guest.clone()).collect()
    }

    pub fn held(&self) -> usize {
        self.inner().held.len()
    }

    /// How many have come here since it was made.
    pub fn arrived(&self) -> u64 {
        self.inner().arrived
    }

    /// How many were let go.
    pub fn passed(&self) -> u64 {
        self.inner().passed
    }

    /// Waits until at least so many are held at the same time.
    pub fn watch(self: &Arc<Self>, count: usize) -> Watch {
        let place = self.inner().take_turn();
        Watch { stop: Arc::clone(self), place, count }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock_ignoring_poison()
    }
}

impl Inner {
    fn take_turn(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn free_first(&mut self, alarm: Alarm, release: Release) -> Option<ParkedCommand> {
        let (_, held) = self.held.pop_first()?;
        self.passed += 1;
        let mut spot = held.spot.lock_ignoring_poison();
        spot.release = Some(release);
        spot.alarm = Some(alarm);
        let waker = spot.waker.take();
        drop(spot);
        if let Some(waker) = waker {
            waker.wake();
        }
        Some(held.guest)
    }

    /// Wakes those who wait for what has come about.
    fn tell(&mut self) {
        let (held, open) = (self.held.len(), self.open);
        for watcher in self.watchers.values().filter(|watcher| open || held >= watcher.count) {
            watcher.waker.wake_by_ref();
        }
    }
}

/// A wait until so many are held at a stop: then how many are, or `None` once nobody is held there any more.
pub struct Watch {
    stop: Arc<WaitQueue>,
    place: u64,
    count: usize,
}

impl Future for Watch {
    type Output = Option<usize>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<usize>> {
        let mut inner = self.stop.inner();
        if inner.open {
            return Poll::Ready(None);
        }
        if inner.held.len() >= self.count {
            return Poll::Ready(Some(inner.held.len()));
        }
        inner.watchers.insert(self.place, Watcher { count: self.count, waker: cx.waker().clone() });
        Poll::Pending
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop.inner().watchers.remove(&self.place);
    }
}

impl Permit {
    /// Whether its holder may go on; if not, `waker` is called when it may.
    pub fn is_free(&self, waker: &Waker) -> bool {
        let mut spot = self.spot();
        if spot.release.is_none() {
            spot.waker = Some(waker.clone());
        }
        spot.release.is_some()
    }

    /// Whether it was let go because it was held for too long.
    pub(crate) fn is_overdue(&self) -> bool {
        self.spot().release == Some(Release::Overdue)
    }

    /// Its holder goes on. What is to be kept until whatever it goes on to do has happened.
    pub(crate) fn take_alarm(&self) -> Option<Alarm> {
        let mut spot = self.spot();
        spot.has_left = true;
        spot.alarm.take()
    }

    fn spot(&self) -> MutexGuard<'_, Slot> {
        self.spot.lock_ignoring_poison()
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut inner = self.stop.inner();
        if inner.held.remove(&self.turn).is_some() {
            return;
        }
        let mut spot = self.spot();
        let unused = spot.alarm.take().filter(|_| !spot.has_left);
        let alone = spot.release == Some(Release::Alone);
        drop(spot);
        if let Some(alarm) = unused {
            inner.passed -= 1;
            if alone {
                inner.free_first(alarm, Release::Alone);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guest(client: u64) -> ParkedCommand {
        ParkedCommand { client, client_name: Vec::new(), words: vec![b"PING".to_vec()] }
    }

    fn stop() -> (Arc<WaitQueue>, Arc<Clock>) {
        (Arc::default(), Arc::new(Clock::new()))
    }

    fn poll(watch: &mut Watch) -> Poll<Option<usize>> {
        Pin::new(watch).poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn they_go_on_in_the_order_in_which_they_came() {
        let (stop, clock) = stop();
        let (first, second) = (stop.hold(guest(1)).unwrap(), stop.hold(guest(2)).unwrap());
        assert!(!first.is_free(Waker::noop()));
        assert_eq!(stop.step(&clock).unwrap().client, 1);
        assert!(first.is_free(Waker::noop()) && !second.is_free(Waker::noop()));
        assert_eq!(stop.open(&clock), 1);
        assert!(second.is_free(Waker::noop()));
        assert!(stop.hold(guest(3)).is_none());
        assert_eq!(stop.open(&clock), 0);
    }

    #[test]
    fn who_leaves_is_forgotten() {
        let (stop, clock) = stop();
        drop(stop.hold(guest(1)));
        assert_eq!((stop.held(), stop.arrived(), stop.passed()), (0, 1, 0));
        assert!(stop.step(&clock).is_none());
        assert!(clock.is_settled());
    }

    #[test]
    fn whoever_opens_a_stop_waits_for_those_it_lets_go() {
        let (stop, clock) = stop();
        let ticket = stop.hold(guest(1)).unwrap();
        stop.open(&clock);
        assert!(!clock.is_settled());
        drop(ticket);
        assert!(clock.is_settled());
    }

    #[test]
    fn the_turn_of_one_who_is_gone_is_the_next_ones() {
        let (stop, clock) = stop();
        let (first, second) = (stop.hold(guest(1)).unwrap(), stop.hold(guest(2)).unwrap());
        let third = stop.hold(guest(3)).unwrap();
        stop.step(&clock);
        drop(first);
        assert!(second.is_free(Waker::noop()) && !third.is_free(Waker::noop()));
        // Whoever stepped waits for this one now.
        assert!(!clock.is_settled());
        drop(second.take_alarm());
        drop(second);
        assert!(clock.is_settled() && !third.is_free(Waker::noop()));
        assert_eq!(stop.passed(), 1);
    }

    #[test]
    fn who_watches_hears_of_enough_and_of_the_end() {
        let (stop, clock) = stop();
        let (mut one, mut two) = (stop.watch(1), stop.watch(2));
        assert!(poll(&mut one).is_pending() && poll(&mut two).is_pending());
        let _ticket = stop.hold(guest(1));
        assert_eq!(poll(&mut one), Poll::Ready(Some(1)));
        assert!(poll(&mut two).is_pending());
        stop.open(&clock);
        assert_eq!(poll(&mut two), Poll::Ready(None));
    }

    #[test]
    fn who_stops_watching_leaves_nothing_behind() {
        let (stop, _clock) = stop();
        for _ in 0..10 {
            let mut watch = stop.watch(1);
            assert!(poll(&mut watch).is_pending() && poll(&mut watch).is_pending());
        }
        assert!(stop.inner().watchers.is_empty());
    }

    #[test]
    fn whoever_is_held_too_long_goes_on() {
        let (stop, clock) = stop();
        let ticket = stop.hold(guest(1)).unwrap();
        assert!(stop.free_overdue(&clock, Duration::from_secs(3600)).is_empty());
        while stop.free_overdue(&clock, Duration::ZERO).is_empty() {}
        assert!(ticket.is_free(Waker::noop()));
    }

    #[test]
    fn thousands_can_leave_in_any_order() {
        let (stop, clock) = stop();
        let mut tickets: Vec<_> = (0..20_000).map(|client| stop.hold(guest(client)).unwrap()).collect();
        // From the end, and from the middle.
        tickets.truncate(15_000);
        tickets.drain(5_000..10_000).for_each(drop);
        assert_eq!(stop.held(), 10_000);
        assert_eq!(stop.step(&clock).unwrap().client, 0);
        assert_eq!(stop.guests()[4_999].client, 10_000);
    }
}
