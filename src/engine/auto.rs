//! A clock that stands and goes to the next deadline by itself, whenever everybody waits for that.
//!
//! Each connection says what it does when it has done all there was to do, and then looks around; whoever is the last to
//! begin to wait sees all others wait, and has the clock moved. Nothing is looked at from time to time, but for how long a
//! client has been silent, if that was asked for.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::runtime::Handle;

use super::Engine;
use super::control_job::in_micros;
use crate::base::clock::{Clock, LATEST, Millis};
use crate::clients::instance::Instance;
use crate::clients::session::{Activity, Client, Signal};
use crate::powers::Hook;

/// What was set going because somebody has looked around.
#[derive(Default)]
pub(super) struct AutoAdvance {
    /// The clock is about to be moved.
    moving: AtomicBool,
    /// Somebody will look again when silent clients have been silent for long enough.
    again: AtomicBool,
}

/// Who could still do something that time has to wait for.
enum Others {
    /// Nobody.
    Wait,
    /// Nobody, if those who are silent now still are after so long.
    AreSilent(Duration),
    Act,
}

impl Engine {
    /// From now on the clock moves by itself.
    pub(super) fn begin_auto(self: &Arc<Self>, grace: Option<Duration>) {
        let clients = self.instance.clients.all();
        clients.iter().filter(|client| client.activity() != Activity::Scripting).for_each(|client| {
            client.set_activity(Activity::Acting);
        });
        self.instance.clock.set_auto(Some(grace));
        // Each of them says what it does.
        clients.iter().for_each(|client| client.wake());
    }

    /// Has the clock moved if it moves by itself and everybody waits for that.
    #[cold]
    pub fn maybe_auto_advance(self: &Arc<Self>) {
        if !self.instance.clock.is_auto() || self.next_stop().is_none() {
            return;
        }
        let Ok(event_loop) = Handle::try_current() else { return };
        match self.others() {
            Others::Act => {}
            Others::Wait => {
                if !self.outlook.moving.swap(true, Ordering::SeqCst) {
                    event_loop.spawn(Arc::clone(self).move_on());
                }
            }
            Others::AreSilent(wait) => {
                if !self.outlook.again.swap(true, Ordering::SeqCst) {
                    let engine = Arc::clone(self);
                    event_loop.spawn(async move {
                        Clock::pass(wait).await;
                        engine.outlook.again.store(false, Ordering::SeqCst);
                        engine.maybe_auto_advance();
                    });
                }
            }
        }
    }

    /// Moves the clock from deadline to deadline, as long as everybody waits.
    async fn move_on(self: Arc<Self>) {
        let clock = &self.instance.clock;
        loop {
            // Whoever wants to move or to stop it gets in between.
            let _turn = self.turn.lock().await;
            if !clock.is_auto() || !matches!(self.others(), Others::Wait) {
                break;
            }
            let Some(stop) = self.next_stop().map(in_micros) else { break };
            if stop > clock.micros() {
                clock.set(stop);
            }
            self.set_off_due();
            self.quiesce().await;
        }
        self.outlook.moving.store(false, Ordering::SeqCst);
        // Somebody may have looked just now and left it to this.
        self.maybe_auto_advance();
    }

    /// Lets those who wait for what others do see whether it was what has just been done. Until they have, time stands.
    pub fn let_drivers_look(&self) {
        for client in self.instance.clients.all() {
            if client.activity() == Activity::Awaiting {
                client.signal(Signal::Look);
            }
        }
    }

    fn others(&self) -> Others {
        let Instance { clock, active_hooks, control, .. } = &*self.instance;
        // Who is held for the sake of an order goes on without any time passing.
        if active_hooks.has(Hook::Explore) && control.explorer.holds_any() {
            return Others::Act;
        }
        let (grace, now) = (clock.grace(), clock.uptime());
        let mut longest = Duration::ZERO;
        for client in self.instance.clients.all() {
            // It was asked for something that it has not done yet.
            if client.has_signals() {
                return Others::Act;
            }
            if only_listens(&client) {
                continue;
            }
            match (client.activity(), grace) {
                (Activity::Waiting | Activity::Driving | Activity::Awaiting, _) => {}
                (Activity::Idle, Some(grace)) => {
                    longest = longest.max(grace.saturating_sub(now.saturating_sub(client.idle_since())));
                }
                _ => return Others::Act,
            }
        }
        match () {
            // Whoever goes on because an alarm has rung, or because it was let go on, has not shown it yet.
            () if !clock.is_settled() => Others::Act,
            () if longest > Duration::ZERO => Others::AreSilent(longest),
            () => Others::Wait,
        }
    }

    /// When the first key is gone whose end somebody waits for: a stream that a group's consumer reads.
    pub(super) fn next_awaited_end(&self) -> Option<Millis> {
        let instance = &self.instance;
        if instance.keyspace.waiters().is_empty() || !instance.active_expire.load(Ordering::Relaxed) {
            return None;
        }
        // A key lives through its last millisecond.
        let end = instance.keyspace.next_awaited_deadline()?.saturating_add(1);
        (end > instance.clock.millis() && end <= LATEST / 1000).then_some(end)
    }
}

/// Whether a client only hears what others do.
fn only_listens(client: &Client) -> bool {
    let seen = client.seen();
    seen.is_subscriber() || seen.monitor.load(Ordering::Relaxed)
}
