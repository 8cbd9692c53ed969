//! Messages to subscribers, and the limits of what may wait for a client.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Instance;
use crate::clients::config::OutputLimit;
use crate::clients::pubsub::{Publisher, SubscriptionKind};
use crate::clients::session::{Client, Session};

impl Instance {
    /// Sends a message to the subscribers of a channel or a shard channel, and returns how many times it was sent. `by`
    /// is the session that causes it, which may be a subscriber itself.
    pub fn publish(
        &self,
        kind: SubscriptionKind,
        channel: &[u8],
        payload: &[u8],
        mut by: Option<&mut Session>,
    ) -> usize {
        let notice = self.config.live().subscriber_output.notice();
        let publisher = by.as_deref_mut().map(|session| {
            let id = session.client.id();
            // Redis 7.0 writes it in front of the reply, even inside the array that EXEC answers, where no client
            // expects a push; there it goes behind.
            let behind = session.executing || self.profile.since_redis(7, 2);
            Publisher {
                id,
                own_output: if behind { &mut session.messages_behind } else { &mut session.messages_ahead },
            }
        });
        let delivery = self.pubsub.publish(kind, channel, payload, publisher, notice);
        if !delivery.slow.is_empty() {
            self.check_output_limits(&delivery.slow);
        }
        if let Some(session) =
            by.filter(|session| session.messages_behind.len() + session.messages_ahead.len() > notice)
        {
            self.check_own_output(session);
        }
        delivery.count
    }

    /// Closes a client that has sent more to itself than its output limit allows.
    #[cold]
    fn check_own_output(&self, session: &mut Session) {
        if self
            .output_limit(&session.client)
            .is_hard_passed(session.messages_behind.len() + session.messages_ahead.len())
        {
            self.kill(&session.client);
            session.messages_behind = Vec::new();
            session.messages_ahead = Vec::new();
        }
    }

    pub(super) fn output_limit(&self, client: &Client) -> &OutputLimit {
        let seen = client.seen();
        self.config.live().output_limit(seen.is_subscriber(), seen.replica.load(Ordering::Relaxed))
    }

    /// Closes those of some clients that are over their hard output limit, or have been over the soft one for too long.
    #[cold]
    pub fn check_output_limits(&self, clients: &[(Arc<Client>, usize)]) {
        let now = self.clock.millis();
        for &(ref client, waiting) in clients {
            let limit = self.output_limit(client);
            if client.lags_for_too_long(waiting, limit, now) {
                self.kill(client);
            } else if limit.is_soft_passed(client.counted_output(waiting)) {
                self.has_soft_limit_clients.store(true, Ordering::Relaxed);
            }
        }
    }

    /// Checks the clients again that were over their soft limit.
    pub(super) fn close_soft_limit_clients(&self) {
        if self.has_soft_limit_clients.swap(false, Ordering::Relaxed) {
            for client in self.clients.all() {
                let waiting = client.waiting();
                self.check_output_limits(&[(client, waiting)]);
            }
        }
    }
}
