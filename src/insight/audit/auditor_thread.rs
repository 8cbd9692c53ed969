//! A thread of its own commits records while the servers go on, and tells subscribers what is new behind many locks.
//!
//! It begins when records are due, and ends when none were for a while. It commits a portion at a time, so that whoever asks the
//! auditor waits for one portion at most.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::live_state::LiveState;
use super::subscribers::Subscribers;
use crate::base::clock::Stopwatch;
use crate::base::sync::MutexExt;

/// How long the thread waits for more records before it ends.
const PATIENCE: Duration = Duration::from_secs(1);

/// How long to rest before the next look at what the auditor has found: to look takes time for all locks, however few records are
/// new.
pub fn rest_after(look: Duration) -> Duration {
    const SHORTEST: Duration = Duration::from_millis(1);
    const LONGEST: Duration = Duration::from_millis(200);
    (look * 4).clamp(SHORTEST, LONGEST)
}

/// The state of an audit, and the thread that goes on with it.
pub struct AuditorThread {
    shared: Arc<Shared>,
}

struct Shared {
    state: Arc<Mutex<LiveState>>,
    /// Held while somebody waits for the state: the thread would take it again before the other one has woken up.
    turnstile: Mutex<()>,
    /// Whether the audit is on.
    is_on: Arc<AtomicBool>,
    subscribers: Subscribers,
    /// Whether the thread commits records.
    is_busy: AtomicBool,
    course: Mutex<Course>,
    changed: Condvar,
}

#[derive(Default)]
struct Course {
    is_running: bool,
    /// How many portions were committed.
    portions: u64,
    /// The time since somebody last waited for a portion for a short time.
    waited: Option<Stopwatch>,
    /// Whether nobody needs the thread any more.
    is_over: bool,
}

impl AuditorThread {
    pub fn new(state: Arc<Mutex<LiveState>>, is_on: Arc<AtomicBool>) -> Self {
        let (turnstile, is_busy) = (Mutex::new(()), AtomicBool::new(false));
        let (course, changed) = (Mutex::default(), Condvar::new());
        let subscribers = Subscribers::default();
        Self { shared: Arc::new(Shared { state, turnstile, is_on, subscribers, is_busy, course, changed }) }
    }

    pub fn state(&self) -> MutexGuard<'_, LiveState> {
        self.shared.state()
    }

    pub fn subscribers(&self) -> &Subscribers {
        &self.shared.subscribers
    }

    /// Whether the thread is behind with its records.
    pub fn is_busy(&self) -> bool {
        self.shared.is_busy.load(Ordering::Acquire)
    }

    /// Has the thread commit the records that are due. Returns whether there is one.
    pub fn go_on(&self) -> bool {
        if self.shared.is_busy.swap(true, Ordering::AcqRel) {
            return true;
        }
        let mut course = self.shared.course.lock_ignoring_poison();
        if !course.is_running {
            let shared = Arc::clone(&self.shared);
            let thread = std::thread::Builder::new().name("redouble-audit".to_owned());
            course.is_running = thread.spawn(move || shared.run()).is_ok();
            self.shared.is_busy.store(course.is_running, Ordering::Release);
        }
        self.shared.changed.notify_all();
        course.is_running
    }

    /// Waits until the thread has committed a portion.
    pub fn await_portion(&self) {
        drop(self.await_portion_until(self.shared.course.lock_ignoring_poison(), Duration::MAX));
    }

    /// Waits until the thread has committed a portion, or as long as the limit says. Not again before a tenth of that has gone by:
    /// each of many clients that are served one after the other would wait, and all of them for all.
    pub fn await_portion_shortly(&self, limit: Duration) {
        let mut course = self.shared.course.lock_ignoring_poison();
        if course.waited.as_ref().is_none_or(|waited| waited.elapsed() >= limit / 10) {
            course = self.await_portion_until(course, limit);
            course.waited = Some(Stopwatch::start());
        }
    }

    fn await_portion_until<'c>(&self, course: MutexGuard<'c, Course>, limit: Duration) -> MutexGuard<'c, Course> {
        let before = course.portions;
        let is_awaited = |course: &mut Course| course.is_running && course.portions == before && self.is_busy();
        self.shared.changed.wait_timeout_while(course, limit, is_awaited).unwrap_or_else(PoisonError::into_inner).0
    }
}

impl Drop for AuditorThread {
    fn drop(&mut self) {
        self.shared.course.lock_ignoring_poison().is_over = true;
        self.shared.changed.notify_all();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, LiveState> {
        let turn = self.turnstile.lock_ignoring_poison();
        let state = self.state.lock_ignoring_poison();
        drop(turn);
        state
    }

    fn run(&self) {
        let _ending = Ending(self);
        let mut rest = Rest { so_far: Stopwatch::start(), wanted: Duration::ZERO };
        loop {
            while self.commit_portion() {
                self.tell_news(&mut rest, false);
            }
            self.tell_news(&mut rest, true);
            let mut course = self.course.lock_ignoring_poison();
            // What is asked for from now on is seen below.
            self.is_busy.swap(false, Ordering::AcqRel);
            self.changed.notify_all();
            let is_resting = self.subscribers.are_waiting();
            let patience = if is_resting { rest.left() } else { PATIENCE };
            let is_idle = |course: &mut Course| !course.is_over && !self.is_busy.load(Ordering::Acquire);
            let waited = self.changed.wait_timeout_while(course, patience, is_idle);
            course = waited.unwrap_or_else(PoisonError::into_inner).0;
            if course.is_over || !is_resting && !self.is_busy.load(Ordering::Acquire) {
                course.is_running = false;
                return;
            }
        }
    }

    /// Tells those who wait for news, if it is time. They are told the rest later unless all records are committed that are due.
    fn tell_news(&self, rest: &mut Rest, are_committed: bool) {
        if !self.subscribers.are_waiting() || !rest.left().is_zero() {
            return;
        }
        let looking = Stopwatch::start();
        let mut news = Vec::new();
        {
            let mut state = self.state();
            let is_on = self.is_on.load(Ordering::Relaxed);
            let is_all = are_committed && !(is_on && state.commit_portion(false));
            let waiting = self.subscribers.waiting(&state, is_all);
            let findings = match is_all {
                true => state.up_to_date(is_on).findings().to_vec(),
                false => state.committed.findings().to_vec(),
            };
            for server in waiting {
                let since = self.subscribers.since(server, is_all);
                news.push((state.server(server), state.news(server, &findings, since)));
            }
        }
        for (server, news) in &news {
            news.iter().for_each(|finding| server.iter().for_each(|server| server.publish_finding(finding)));
        }
        *rest = Rest { so_far: Stopwatch::start(), wanted: rest_after(looking.elapsed()) };
    }

    /// Returns whether there are more.
    fn commit_portion(&self) -> bool {
        let has_more = {
            let mut state = self.state();
            self.is_on.load(Ordering::Relaxed) && state.commit_portion(false)
        };
        let mut course = self.course.lock_ignoring_poison();
        course.portions += 1;
        self.changed.notify_all();
        has_more && !course.is_over
    }
}

/// The rest behind a look for news.
struct Rest {
    so_far: Stopwatch,
    wanted: Duration,
}

impl Rest {
    fn left(&self) -> Duration {
        self.wanted.saturating_sub(self.so_far.elapsed())
    }
}

/// The end of the thread. If it comes by a panic, nobody waits for the thread; the next one to ask the auditor goes on.
struct Ending<'a>(&'a Shared);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.course.lock_ignoring_poison().is_running = false;
            self.0.is_busy.store(false, Ordering::Release);
            self.0.subscribers.forget_waiting();
            self.0.changed.notify_all();
        }
    }
}
