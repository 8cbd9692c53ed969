//! The end of a view: keyspace events are published and cached keys invalidated while the view still holds its locks.

use std::sync::atomic::Ordering;

use super::Instance;
use crate::clients::pubsub::SubscriptionKind;
use crate::clients::session::Session;
use crate::clients::tracking::PushSender;
use crate::data::keyspace::{KEYEVENT_CHANNEL, KEYSPACE_CHANNEL, Notification, View, ViewStats};

impl Instance {
    /// Ends a view: publishes its notifications, then drops its locks. `by` is the session that made the changes.
    #[inline]
    pub fn finish_view(&self, mut view: View<'_>, by: Option<&mut Session>) -> ViewStats {
        self.replicate(&mut view, false);
        self.announce(&mut view, by);
        view.finish()
    }

    /// Publishes the notifications of a view so far. To be called after every command, so that they are in order even
    /// within a transaction.
    #[inline]
    pub fn announce(&self, view: &mut View<'_>, by: Option<&mut Session>) {
        if view.has_notifications() {
            self.notify(&view.take_notifications(), by);
        }
    }

    #[cold]
    fn notify(&self, notifications: &[Notification], mut by: Option<&mut Session>) {
        for notification in notifications {
            match notification {
                Notification::Event { name, db, key, .. } => self.publish_event(name, *db, key, by.as_deref_mut()),
                Notification::Changed { .. } | Notification::Flushed => {}
            }
        }
        self.invalidate(notifications, by);
    }

    fn publish_event(&self, name: &str, db: u32, key: &[u8], mut by: Option<&mut Session>) {
        let channels = self.config.live().events.load(Ordering::Relaxed);
        if channels & KEYSPACE_CHANNEL != 0 {
            let channel = [format!("__keyspace@{db}__:").as_bytes(), key].concat();
            self.publish(SubscriptionKind::Channel, &channel, name.as_bytes(), by.as_deref_mut());
        }
        if channels & KEYEVENT_CHANNEL != 0 {
            self.publish(SubscriptionKind::Channel, format!("__keyevent@{db}__:{name}").as_bytes(), key, by);
        }
    }

    // ---- client-side caching

    /// Tells clients that cache keys which of them have changed.
    fn invalidate(&self, notifications: &[Notification], mut by: Option<&mut Session>) {
        if notifications.iter().all(|notification| matches!(notification, Notification::Event { .. })) {
            return;
        }
        self.push(|sender| self.tracking.notify(notifications, sender, by.as_deref_mut(), self.keyspace.settings()));
        if let Some(session) = by.filter(|session| !session.executing) {
            self.deliver_invalidations(session);
        }
    }

    /// Sends the invalidations that a command or a transaction has left for its end.
    pub fn deliver_invalidations(&self, session: &mut Session) {
        if !session.tracking.owed.is_empty() {
            self.push(|sender| self.tracking.deliver(sender, session));
        }
    }

    /// Tells the clients that track prefixes what the commands of a batch have changed, before its replies are sent. As in
    /// Redis, a key that was changed several times is told of once.
    #[inline]
    pub fn broadcast_invalidations(&self, session: &mut Session) {
        if !session.tracking.changed.is_empty() {
            self.push(|sender| self.tracking.broadcast(sender, session));
        }
    }

    /// Forgets some tracked keys, because there are too many, and invalidates them. Invalidations for a client that runs
    /// a command go to its output.
    #[cold]
    pub fn evict_tracked_keys(&self, by: Option<(&Session, &mut Vec<u8>)>) {
        self.push(|sender| self.tracking.evict(sender, by));
    }

    /// Has messages sent, and closes clients that do not read them.
    #[cold]
    fn push(&self, send: impl FnOnce(&PushSender<'_>)) {
        let live = self.config.live();
        let sender = PushSender::new(&self.clients, live.normal_output.notice().min(live.subscriber_output.notice()));
        send(&sender);
        self.check_output_limits(&sender.into_slow_clients());
    }
}
