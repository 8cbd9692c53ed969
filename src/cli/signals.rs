//! The signals that this program catches: those that end a server, and those that a command gets passed on.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustix::process::Signal;
use tokio::signal::unix::{self, SignalKind, signal};

use crate::clients::instance::Instance;

/// The signals of a plain server. Once they are caught, the kernel no longer ends the process for them.
pub(super) struct ShutdownSignals {
    terminate: unix::Signal,
    interrupt: unix::Signal,
    /// Caught so that it is ignored.
    _hangup: unix::Signal,
}

impl ShutdownSignals {
    /// Needs an event loop around it.
    pub fn catch() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            _hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Shuts the server down on SIGTERM and SIGINT. A second SIGINT ends the process at once.
    pub async fn answer(mut self, instance: Arc<Instance>) {
        let mut is_shutting_down = false;
        loop {
            let name = poll_fn(|cx| {
                if self.terminate.poll_recv(cx).is_ready() {
                    return Poll::Ready("SIGTERM");
                }
                self.interrupt.poll_recv(cx).map(|_| "SIGINT")
            })
            .await;
            if is_shutting_down && name == "SIGINT" {
                instance.log.signal("You insist... exiting now.");
                std::process::exit(1);
            }
            instance.log.signal(&format!("Received {name} scheduling shutdown..."));
            if instance.save_at_signal(&format!("shutdown-on-{}", name.to_ascii_lowercase())) {
                is_shutting_down = true;
                instance.shut_down();
            }
        }
    }
}

/// The signals that `run` and `explore` pass on to their command.
pub(super) struct ForwardedSignals(Vec<(Signal, unix::Signal)>);

impl ForwardedSignals {
    pub fn catch() -> Result<Self, String> {
        let kinds = [
            (Signal::TERM, SignalKind::terminate()),
            (Signal::INT, SignalKind::interrupt()),
            (Signal::HUP, SignalKind::hangup()),
            (Signal::QUIT, SignalKind::quit()),
            (Signal::USR1, SignalKind::user_defined1()),
            (Signal::USR2, SignalKind::user_defined2()),
        ];
        let caught: io::Result<_> = kinds.into_iter().map(|(name, kind)| Ok((name, signal(kind)?))).collect();
        caught.map(Self).map_err(|error| format!("signals cannot be caught: {}", crate::base::error::plain(&error)))
    }

    /// The next signal that has arrived.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Signal> {
        let arrived = self.0.iter_mut().find_map(|(name, signal)| signal.poll_recv(cx).is_ready().then_some(*name));
        arrived.map_or(Poll::Pending, Poll::Ready)
    }
}
