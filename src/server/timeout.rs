//! Time-outs of what a test waits for, in real time.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::JoinHandle;

use crate::base::clock::Clock;
use crate::base::error::Error;

/// How long a test waits if it says nothing.
pub(super) const USUAL_TIMEOUT: Duration = Duration::from_secs(10);

/// A time-out that runs on the server's event loop. The runtime that awaits it needs no timer, and may have paused its own
/// time. It is also over when the server has ended.
pub(super) struct Timeout(JoinHandle<()>);

impl Timeout {
    pub(super) fn start(events: &Handle, timeout: Duration) -> Self {
        Self(events.spawn(Clock::pass(timeout)))
    }
}

impl Future for Timeout {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.0).poll(cx).map(|_over_either_way| ())
    }
}

impl Drop for Timeout {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Adds to the error of a blocking wait, on the only thread of a tokio runtime, what lets the runtime's tasks run meanwhile.
pub(super) fn with_runtime_hint(error: Error) -> Error {
    let blocks_tasks =
        Handle::try_current().is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::CurrentThread);
    match error {
        Error::Refused(reason) if blocks_tasks => Error::Refused(format!(
            "{reason} (wait_for blocks the only thread of this tokio runtime; if its tasks send the commands, await wait_for_async)"
        )),
        error => error,
    }
}
