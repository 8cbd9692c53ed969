//! How a server is asked to end.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;

use super::Instance;
use crate::base::sync::MutexExt;

/// Whether the process was asked to end. All servers of a process share one.
#[derive(Default)]
pub(super) struct Shutdown {
    requested: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl Shutdown {
    fn request(&self) {
        self.requested.store(true, Ordering::Release);
    }

    fn wake(&self) {
        let waker = self.waker.lock_ignoring_poison().take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn is_requested(&self, waker: &Waker) -> bool {
        *self.waker.lock_ignoring_poison() = Some(waker.clone());
        self.requested.load(Ordering::Acquire)
    }
}

impl Instance {
    /// Asks the process to end, with every server in it.
    pub fn shut_down(&self) {
        self.shutdown.request();
        // A script may occupy the very thread that waits for this request.
        self.scripts.kill_for_shutdown();
        if let Some(fleet) = self.fleet() {
            fleet.abandon_scripts();
        }
        self.shutdown.wake();
    }

    /// Whether the server was asked to end; if not, `waker` is called when it is.
    pub(crate) fn is_shutting_down(&self, waker: &Waker) -> bool {
        self.shutdown.is_requested(waker)
    }
}
