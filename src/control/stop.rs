//! A place where commands are held until somebody lets them go on.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use super::fault::line_of;
use crate::clock::{Alarm, Clock, Stopwatch};

/// Who is held, as others are told.
#[derive(Clone, Debug)]
pub struct Guest {
    pub client: u64,
    pub client_name: Vec<u8>,
    pub words: Vec<Vec<u8>>,
}

impl fmt::Display for Guest {
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
pub struct Stop(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    next: u64,
    held: VecDeque<Held>,
    /// How many have come here, and how many of those were let go.
    arrived: u64,
    passed: u64,
    /// From now on nobody is held.
    open: bool,
    /// Those who want to know when somebody comes, goes, or the stop ends.
    watchers: Vec<Waker>,
}

struct Held {
    id: u64,
    guest: Guest,
    since: Stopwatch,
    spot: Arc<Mutex<Spot>>,
}

/// What a ticket and its stop share.
#[derive(Default)]
struct Spot {
    free: bool,
    /// Whoever has let it go waits until this is dropped.
    alarm: Option<Alarm>,
    waker: Option<Waker>,
}

/// The right to go on, some day. Dropping it leaves the stop.
pub struct Ticket {
    stop: Arc<Stop>,
    id: u64,
    spot: Arc<Mutex<Spot>>,
}

impl Stop {
    /// Holds a command; `None` if nobody is held here any more.
    pub fn hold(self: &Arc<Self>, guest: Guest) -> Option<Ticket> {
        let mut inner = self.inner();
        inner.arrived += 1;
        if inner.open {
            inner.passed += 1;
            return None;
        }
        inner.next += 1;
        let id = inner.next;
        let spot = Arc::default();
        inner.held.push_back(Held { id, guest, since: Stopwatch::start(), spot: Arc::clone(&spot) });
        inner.tell();
        Some(Ticket { stop: Arc::clone(self), id, spot })
    }

    /// Lets the one go on who has waited longest; who it was.
    pub fn step(&self, clock: &Arc<Clock>) -> Option<Guest> {
        self.inner().free_first(clock)
    }

    /// Lets everybody go on, and holds nobody from now on; how many were held.
    pub fn open(&self, clock: &Arc<Clock>) -> usize {
        let mut inner = self.inner();
        inner.open = true;
        let mut freed = 0;
        while inner.free_first(clock).is_some() {
            freed += 1;
        }
        inner.tell();
        freed
    }

    /// Lets those go on who have been held for longer than this in real time; who they were.
    pub fn free_overdue(&self, clock: &Arc<Clock>, longest: std::time::Duration) -> Vec<Guest> {
        let mut inner = self.inner();
        let mut freed = Vec::new();
        while inner.held.front().is_some_and(|held| held.since.elapsed() > longest) {
            freed.extend(inner.free_first(clock));
        }
        freed
    }

    pub fn is_open(&self) -> bool {
        self.inner().open
    }

    /// Who is held now, in order.
    pub fn guests(&self) -> Vec<Guest> {
        self.inner().held.iter().map(|held| held.guest.clone()).collect()
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

    /// Ready once at least so many are held, with how many; or once nobody is held any more, with `None`.
    pub fn poll_held(&self, count: usize, cx: &mut Context<'_>) -> Poll<Option<usize>> {
        let mut inner = self.inner();
        if inner.held.len() >= count {
            return Poll::Ready(Some(inner.held.len()));
        }
        if inner.open {
            return Poll::Ready(None);
        }
        if !inner.watchers.iter().any(|watcher| watcher.will_wake(cx.waker())) {
            inner.watchers.push(cx.waker().clone());
        }
        Poll::Pending
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn free_first(&mut self, clock: &Arc<Clock>) -> Option<Guest> {
        let held = self.held.pop_front()?;
        self.passed += 1;
        let mut spot = held.spot.lock().unwrap_or_else(PoisonError::into_inner);
        spot.free = true;
        spot.alarm = Some(clock.rung_alarm());
        let waker = spot.waker.take();
        drop(spot);
        if let Some(waker) = waker {
            waker.wake();
        }
        Some(held.guest)
    }

    fn tell(&mut self) {
        self.watchers.drain(..).for_each(Waker::wake);
    }
}

impl Ticket {
    /// Whether its holder may go on; if not, `waker` is called when it may.
    pub fn is_free(&self, waker: &Waker) -> bool {
        let mut spot = self.spot();
        if !spot.free {
            spot.waker = Some(waker.clone());
        }
        spot.free
    }

    /// What is to be kept until whatever the holder goes on to do has happened.
    pub(crate) fn take_alarm(&self) -> Option<Alarm> {
        self.spot().alarm.take()
    }

    fn spot(&self) -> MutexGuard<'_, Spot> {
        self.spot.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        // Outside the locks: an alarm that is dropped takes the clock's.
        let alarm = self.take_alarm();
        let mut inner = self.stop.inner();
        if let Some(place) = inner.held.iter().position(|held| held.id == self.id) {
            inner.held.remove(place);
            inner.tell();
        }
        drop(inner);
        drop(alarm);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guest(client: u64) -> Guest {
        Guest { client, client_name: Vec::new(), words: vec![b"PING".to_vec()] }
    }

    #[test]
    fn they_go_on_in_the_order_in_which_they_came() {
        let (stop, clock) = (Arc::new(Stop::default()), Arc::new(Clock::new()));
        let (first, second) = (stop.hold(guest(1)).unwrap(), stop.hold(guest(2)).unwrap());
        assert!(!first.is_free(Waker::noop()));
        assert_eq!(stop.step(&clock).unwrap().client, 1);
        assert!(first.is_free(Waker::noop()) && !second.is_free(Waker::noop()));
        assert_eq!(stop.open(&clock), 1);
        assert!(second.is_free(Waker::noop()));
        assert!(stop.hold(guest(3)).is_none());
    }

    #[test]
    fn who_leaves_is_forgotten() {
        let (stop, clock) = (Arc::new(Stop::default()), Arc::new(Clock::new()));
        drop(stop.hold(guest(1)));
        assert_eq!((stop.held(), stop.arrived()), (0, 1));
        assert!(stop.step(&clock).is_none());
    }

    #[test]
    fn whoever_opens_a_stop_waits_for_those_it_lets_go() {
        let (stop, clock) = (Arc::new(Stop::default()), Arc::new(Clock::new()));
        let ticket = stop.hold(guest(1)).unwrap();
        stop.open(&clock);
        assert!(!clock.is_settled());
        drop(ticket);
        assert!(clock.is_settled());
    }
}
