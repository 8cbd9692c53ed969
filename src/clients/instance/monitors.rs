//! MONITOR: the clients that are shown every command.

use std::sync::{Arc, Mutex};

use super::Instance;
use crate::base::sync::MutexExt;
use crate::clients::session::{Client, Message};
use crate::powers::{ActiveHooks, Hook};

/// The clients in MONITOR mode.
#[derive(Default)]
pub(super) struct Monitors(Mutex<Vec<Arc<Client>>>);

impl Monitors {
    fn add(&self, client: &Arc<Client>, hooks: &ActiveHooks) {
        let mut monitors = self.0.lock_ignoring_poison();
        if !monitors.iter().any(|other| Arc::ptr_eq(other, client)) {
            monitors.push(Arc::clone(client));
        }
        hooks.arm(Hook::Monitor);
    }

    fn remove(&self, client: &Client, hooks: &ActiveHooks) {
        let mut monitors = self.0.lock_ignoring_poison();
        monitors.retain(|other| other.id() != client.id());
        if monitors.is_empty() {
            hooks.disarm(Hook::Monitor);
        }
    }
}

impl Instance {
    pub fn add_monitor(&self, client: &Arc<Client>) {
        self.monitors.add(client, &self.active_hooks);
    }

    pub fn remove_monitor(&self, client: &Client) {
        self.monitors.remove(client, &self.active_hooks);
    }

    /// Sends a line to every MONITOR client but the one whose command it shows. Returns whether that one is in MONITOR
    /// mode, too. A client that does not read is closed at its output limit.
    pub fn feed_monitors(&self, line: &[u8], about: &Client) -> bool {
        let mut itself = false;
        let mut slow = Vec::new();
        let message = Message::new(line);
        for monitor in self.monitors.0.lock_ignoring_poison().iter() {
            if monitor.id() == about.id() {
                itself = true;
                continue;
            }
            let waiting = message.send_to(monitor);
            if waiting > self.output_limit(monitor).notice() {
                slow.push((Arc::clone(monitor), waiting));
            }
        }
        self.check_output_limits(&slow);
        itself
    }
}
