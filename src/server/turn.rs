//! What the connections of a thread do between two waits of its event loop, and whether it is worth while to look out for the
//! next request instead of sleeping.
//!
//! When several connections have requests at once, all of them run theirs before the replies are written, because waking a client for
//! each reply costs more than running its commands. For a client alone, that detour would only make it wait longer.
//!
//! A client alone sends its next request as soon as it has its reply, and what takes longest then is that the system puts the server to
//! sleep and wakes it up again. So the event loop looks out for that request for some microseconds, as long as it often comes
//! within them (decision 39).

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::base::clock::Stopwatch;

/// How long to look out: what it takes to sleep and to be woken up, about.
const LONGEST: Duration = Duration::from_micros(50);
/// How many looks may fail before they are not tried any more, and how many at most after many that did not.
const FAILURES: u8 = 4;
const MOST_FAILURES: u8 = 16;
/// How many waits lie between two looks then.
const SELDOM: u8 = 128;

thread_local! {
    static TURN: Cell<Turn> = const { Cell::new(Turn { now: 0, before: 0, who: Who::Nobody, was: Who::Nobody }) };
    static LOOKOUT: RefCell<Lookout> = const { RefCell::new(Lookout::new()) };
}

#[derive(Clone, Copy)]
struct Turn {
    /// How often connections have run requests since the event loop last waited, and between its last two waits.
    now: u32,
    before: u32,
    /// Who was served since, and in the turn before.
    who: Who,
    was: Who,
}

/// The connections that were served in a turn.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Who {
    Nobody,
    /// One that begins.
    New,
    /// The one of the client with this id: it has sent something, or ends.
    One(u64),
    Several,
}

impl Who {
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Nobody | Self::New, other) => other,
            (known, Self::Nobody | Self::New) => known,
            (known, other) if known == other => known,
            _ => Self::Several,
        }
    }
}

impl Turn {
    /// Whether it is one client that sends requests, over the same connection, or over one after the other.
    fn is_of_one(self) -> bool {
        self.who != Who::Nobody && self.was.and(self.who) != Who::Several
    }
}

/// A connection of this thread begins.
pub(super) fn note_new() {
    note(Who::New);
}

/// A connection of this thread is served, or ends.
#[inline]
pub(super) fn note_client(id: u64) {
    note(Who::One(id));
}

#[inline]
fn note(who: Who) {
    let turn = TURN.get();
    TURN.set(Turn { who: turn.who.and(who), ..turn });
}

/// A connection of this thread has run requests. Returns whether it probably is the only one with requests: none came before it in
/// this turn, and at most one in the last.
#[inline]
pub(super) fn note_requests() -> bool {
    let turn = TURN.get();
    TURN.set(Turn { now: turn.now.saturating_add(1), ..turn });
    turn.now == 0 && turn.before <= 1
}

/// The event loop of this thread has nothing left to do, and is about to sleep.
pub(super) fn end() {
    let turn = TURN.get();
    TURN.set(Turn { now: 0, before: turn.now, who: Who::Nobody, was: turn.who });
    if turn.is_of_one() {
        LOOKOUT.with_borrow_mut(Lookout::begin);
    }
}

/// Schedules another poll after all other sockets were polled. A task that merely wakes itself delays that by dozens of
/// rounds.
pub(super) fn yield_to_others(cx: &mut Context<'_>) {
    let _ = pin!(tokio::task::yield_now()).poll(cx);
}

/// Whether looking out pays.
struct Patience {
    /// How many looks may fail.
    left: u8,
    /// How many were left out since the last one.
    left_out: u8,
}

impl Patience {
    const fn new() -> Self {
        Self { left: FAILURES, left_out: 0 }
    }

    /// Whether it is to be tried now.
    fn is_to_try(&mut self) -> bool {
        if self.left == 0 && self.left_out < SELDOM {
            self.left_out += 1;
            return false;
        }
        self.left_out = 0;
        true
    }

    fn note(&mut self, has_paid: bool) {
        self.left = if has_paid { (self.left + 2).min(MOST_FAILURES) } else { self.left.saturating_sub(1) };
    }
}

struct Lookout {
    patience: Patience,
    /// Since when it goes on.
    since: Option<Stopwatch>,
    /// Wakes the task of this thread that looks out.
    task: Option<Waker>,
}

impl Lookout {
    const fn new() -> Self {
        Self { patience: Patience::new(), since: None, task: None }
    }

    fn begin(&mut self) {
        if let Some(task) = &self.task
            && self.patience.is_to_try()
        {
            self.since = Some(Stopwatch::start());
            task.wake_by_ref();
        }
    }

    /// Whether it goes on.
    fn goes_on(&mut self) -> bool {
        let Some(since) = self.since else { return false };
        let has_paid = TURN.get().who != Who::Nobody;
        let is_over = has_paid || since.elapsed() > LONGEST;
        if is_over {
            self.since = None;
            self.patience.note(has_paid);
        }
        !is_over
    }
}

/// The task that keeps the event loop of its thread from sleeping while it looks out.
pub(super) struct LookoutTask;

impl Future for LookoutTask {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let goes_on = LOOKOUT.with_borrow_mut(|lookout| {
            // Another event loop may have run on this thread before.
            if !lookout.task.as_ref().is_some_and(|task| task.will_wake(cx.waker())) {
                lookout.task = Some(cx.waker().clone());
            }
            lookout.goes_on()
        });
        if goes_on {
            // Whoever else wants this processor has it: the client, perhaps.
            std::thread::yield_now();
            yield_to_others(cx);
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_alone_when_no_other_ran_requests_in_its_turn_or_the_last() {
        end();
        end();
        assert!(note_requests());
        assert!(!note_requests());
        end();
        assert!(!note_requests(), "two had requests in the last turn");
        end();
        assert!(note_requests(), "only one had");
    }

    #[test]
    fn a_client_is_alone_that_goes_on_or_comes_anew() {
        let turn = |was, who| Turn { now: 0, before: 0, who, was };
        for (was, who) in
            [(Who::One(1), Who::One(1)), (Who::One(1), Who::New), (Who::New, Who::One(2)), (Who::Nobody, Who::One(1))]
        {
            assert!(turn(was, who).is_of_one());
        }
        for (was, who) in [
            (Who::One(1), Who::One(2)),
            (Who::Several, Who::One(1)),
            (Who::New, Who::Several),
            (Who::One(1), Who::Nobody),
        ] {
            assert!(!turn(was, who).is_of_one());
        }
        assert!(Who::One(1).and(Who::New).and(Who::One(2)) == Who::Several);
    }

    #[test]
    fn looking_out_is_seldom_tried_while_it_does_not_pay() {
        let mut patience = Patience::new();
        for _ in 0..FAILURES {
            assert!(patience.is_to_try());
            patience.note(false);
        }
        let mut tries = || (0..SELDOM).filter(|_| patience.is_to_try()).count();
        assert_eq!((tries(), tries()), (0, 1));
        patience.note(true);
        assert!(patience.is_to_try());
        (0..100).for_each(|_| patience.note(true));
        for _ in 0..MOST_FAILURES {
            assert!(patience.is_to_try());
            patience.note(false);
        }
        assert!(!patience.is_to_try());
    }

    #[test]
    fn looking_out_ends_with_the_next_event_and_counts_it() {
        let mut lookout = Lookout::new();
        lookout.since = Some(Stopwatch::start());
        lookout.patience.left = 0;
        note_new();
        assert!(!lookout.goes_on() && lookout.since.is_none());
        assert_eq!(lookout.patience.left, 2);
        assert!(!lookout.goes_on(), "it has ended");
    }
}
