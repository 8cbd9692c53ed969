//! A thread of its own commits records while the servers go on.
//!
//! It begins when records are due, and ends when none were for a while. It commits a portion at a time, so that whoever asks the
//! auditor waits for one portion at most.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::live_state::LiveState;
use crate::base::sync::MutexExt;

/// How long the thread waits for more records before it ends.
const PATIENCE: Duration = Duration::from_secs(1);

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
    /// Whether nobody needs the thread any more.
    is_over: bool,
}

impl AuditorThread {
    pub fn new(state: Arc<Mutex<LiveState>>, is_on: Arc<AtomicBool>) -> Self {
        let (turnstile, is_busy) = (Mutex::new(()), AtomicBool::new(false));
        let (course, changed) = (Mutex::default(), Condvar::new());
        Self { shared: Arc::new(Shared { state, turnstile, is_on, is_busy, course, changed }) }
    }

    pub fn state(&self) -> MutexGuard<'_, LiveState> {
        self.shared.state()
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

    /// Waits until the thread has committed a portion, or as long as the limit says.
    pub fn await_portion(&self, limit: Duration) {
        let course = self.shared.course.lock_ignoring_poison();
        let before = course.portions;
        let is_awaited = |course: &mut Course| course.is_running && course.portions == before && self.is_busy();
        drop(self.shared.changed.wait_timeout_while(course, limit, is_awaited).unwrap_or_else(PoisonError::into_inner));
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
        loop {
            while self.commit_portion() {}
            let mut course = self.course.lock_ignoring_poison();
            self.is_busy.store(false, Ordering::Release);
            self.changed.notify_all();
            let is_idle = |course: &mut Course| !course.is_over && !self.is_busy.load(Ordering::Acquire);
            let waited = self.changed.wait_timeout_while(course, PATIENCE, is_idle);
            course = waited.unwrap_or_else(PoisonError::into_inner).0;
            if course.is_over || !self.is_busy.load(Ordering::Acquire) {
                course.is_running = false;
                return;
            }
        }
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

/// The end of the thread. If it comes by a panic, nobody waits for the thread; the next one to ask the auditor goes on.
struct Ending<'a>(&'a Shared);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.course.lock_ignoring_poison().is_running = false;
            self.0.is_busy.store(false, Ordering::Release);
            self.0.changed.notify_all();
        }
    }
}
