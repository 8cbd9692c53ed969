//! Auto-advance: a frozen clock that moves to the next deadline whenever all clients are blocked.
//!
//! Each connection publishes its activity at the end of its poll, and then checks all others'; the last one to block
//! sees all others blocked, and starts the clock move. Nothing polls, except for the idle grace, if one is set.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::runtime::Handle;

use super::Engine;
use super::control_job::in_micros;
use crate::base::clock::Clock;
use crate::clients::instance::Instance;
use crate::clients::session::{Activity, Client, Signal};
use crate::powers::Hook;

/// The running tasks of an auto-advancing clock.
#[derive(Default)]
pub(super) struct AutoAdvance {
    /// A task moves the clock.
    moving: AtomicBool,
    /// A task checks again once the silent clients have been silent for the idle grace.
    again: AtomicBool,
}

/// Whether the clock may move to the next deadline.
enum Readiness {
    /// Every client is blocked.
    Blocked,
    /// Every client is blocked, if the silent ones stay silent for this long.
    SilentAfter(Duration),
    /// A client can still act.
    Active,
}

impl Engine {
    /// Turns auto-advance on.
    pub(super) fn begin_auto(self: &Arc<Self>, idle_grace: Option<Duration>) {
        let clients = self.instance.clients.all();
        clients.iter().filter(|client| client.activity() != Activity::Scripting).for_each(|client| {
            client.set_activity(Activity::Acting);
        });
        self.instance.clock.set_auto(Some(idle_grace));
        // Makes each connection publish its activity.
        clients.iter().for_each(|client| client.wake());
    }

    /// Starts a clock move if auto-advance is on and every client is blocked.
    #[cold]
    pub fn maybe_auto_advance(self: &Arc<Self>) {
        if let Some(owner) = &self.clock_owner {
            // Time is a matter of the clients there.
            return owner.maybe_auto_advance();
        }
        if !self.instance.clock.is_auto() || self.next_deadline().is_none() {
            return;
        }
        let Ok(event_loop) = Handle::try_current() else { return };
        match self.readiness() {
            Readiness::Active => {}
            Readiness::Blocked => {
                if !self.auto_advance.moving.swap(true, Ordering::SeqCst) {
                    event_loop.spawn(Arc::clone(self).advance_while_blocked());
                }
            }
            Readiness::SilentAfter(wait) => {
                if !self.auto_advance.again.swap(true, Ordering::SeqCst) {
                    let engine = Arc::clone(self);
                    event_loop.spawn(async move {
                        Clock::sleep(wait).await;
                        engine.auto_advance.again.store(false, Ordering::SeqCst);
                        engine.maybe_auto_advance();
                    });
                }
            }
        }
    }

    /// Moves the clock from deadline to deadline, as long as every client is blocked.
    async fn advance_while_blocked(self: Arc<Self>) {
        let clock = &self.instance.clock;
        loop {
            // Locked per step, so that a control job that moves or freezes the clock can run in between.
            let _turn = self.control_jobs.lock().await;
            if !clock.is_auto() || !matches!(self.readiness(), Readiness::Blocked) {
                break;
            }
            let Some(stop) = self.next_deadline().map(in_micros) else { break };
            if stop > clock.micros() {
                clock.set(stop);
            }
            self.run_due();
            self.quiesce().await;
        }
        self.auto_advance.moving.store(false, Ordering::SeqCst);
        // Another connection may have relied on this task to check again.
        self.maybe_auto_advance();
    }

    /// Makes the commands that wait for an event check whether it has happened. Time stands still until they have.
    pub fn wake_awaiting_drivers(&self) {
        for client in self.instance.clients.all() {
            if client.activity() == Activity::Awaiting {
                client.signal(Signal::Look);
            }
        }
    }

    fn readiness(&self) -> Readiness {
        let Instance { clock, active_hooks, control, .. } = &*self.instance;
        // A command that waits for its turn can continue without any time passing.
        if active_hooks.has(Hook::Explore) && control.explorer.holds_any() {
            return Readiness::Active;
        }
        let (idle_grace, now) = (clock.idle_grace(), clock.uptime());
        let mut longest = Duration::ZERO;
        for client in self.instance.clients.all() {
            // It has a signal that it has not handled yet.
            if client.has_signals() {
                return Readiness::Active;
            }
            if is_listener(&client) {
                continue;
            }
            match (client.activity(), idle_grace) {
                (Activity::Waiting | Activity::Driving | Activity::Awaiting, _) => {}
                (Activity::Idle, Some(idle_grace)) => {
                    longest = longest.max(idle_grace.saturating_sub(now.saturating_sub(client.idle_since())));
                }
                _ => return Readiness::Active,
            }
        }
        match () {
            // A command that was resumed by an alarm or a release has not published its activity yet.
            () if !clock.is_quiescent() => Readiness::Active,
            () if longest > Duration::ZERO => Readiness::SilentAfter(longest),
            () => Readiness::Blocked,
        }
    }
}

/// Whether a client only receives messages.
fn is_listener(client: &Client) -> bool {
    let seen = client.seen();
    seen.is_subscriber() || seen.monitor.load(Ordering::Relaxed) || seen.replica.load(Ordering::Relaxed)
}
