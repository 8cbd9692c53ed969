//! Time-outs of a test's waits, in real time.

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::JoinHandle;

use crate::base::clock::{Clock, Stopwatch, block_on_timeout};
use crate::base::error::Error;

/// The time-out of a wait without an explicit one.
pub(super) const USUAL_TIMEOUT: Duration = Duration::from_secs(10);

/// A time-out that runs on the server's event loop: the awaiting runtime needs no timer, and may have paused its time.
/// It also elapses when the server ends.
pub(super) struct Timeout(JoinHandle<()>);

impl Timeout {
    pub(super) fn start(events: &Handle, timeout: Duration) -> Self {
        Self(events.spawn(Clock::sleep(timeout)))
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

/// The time-out of [`block_within`]: the future that it passes to the wait.
pub(super) struct Elapsed {
    since: Stopwatch,
    timeout: Duration,
}

impl Future for Elapsed {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if self.since.elapsed() >= self.timeout { Poll::Ready(()) } else { Poll::Pending }
    }
}

/// Blocks this thread on a wait that ends when the time-out that it is given elapses.
pub(super) fn block_within<F: Future>(timeout: Duration, wait: impl FnOnce(Elapsed) -> F) -> F::Output {
    let since = Stopwatch::start();
    let mut wait = pin!(wait(Elapsed { since, timeout }));
    loop {
        if let Some(output) = block_on_timeout(wait.as_mut(), timeout.saturating_sub(since.elapsed())) {
            return output;
        }
    }
}

/// Adds a hint to the error of a blocking wait on the only thread of a tokio runtime: the async variant lets other
/// tasks run.
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
