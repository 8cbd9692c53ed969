//! What a view has for others: news, and keys for those who wait.

use std::collections::HashSet;

use super::View;
use crate::data::keyspace::entry::Entry;
use crate::data::keyspace::notifications::{EventClass, Notification};
use crate::data::keyspace::store::Contents;
use crate::data::keyspace::value::ValueKind;

#[derive(Default)]
pub(super) struct Effects {
    pub(super) notifications: Vec<Notification>,
    /// Keys, with their databases, that clients who wait for them are to look at when the command is over.
    ready: Vec<(u32, Box<[u8]>)>,
    /// The same, to be found: one client can wait for very many.
    signalled: HashSet<(u32, Box<[u8]>)>,
    /// Flushed tables.
    pub(super) garbage: Vec<Contents>,
}

impl View<'_> {
    // ---- news

    /// Tells of an event, if anybody asked for its class: `name` as Redis names it, such as `set` or `expire`.
    #[inline]
    pub fn notify(&mut self, class: EventClass, name: &'static str, key: &[u8]) {
        if self.wanted & class as u32 != 0 {
            let db = self.db;
            self.effects().notifications.push(Notification::Event { class, name, db, key: key.into() });
        }
    }

    /// Whether there may be news, or somebody who waits.
    #[inline]
    pub fn has_effects(&self) -> bool {
        self.effects.is_some()
    }

    #[inline]
    pub fn has_notifications(&self) -> bool {
        self.effects.as_ref().is_some_and(|effects| !effects.notifications.is_empty())
    }

    /// What has happened since this was last asked, in order.
    pub fn take_notifications(&mut self) -> Vec<Notification> {
        self.effects.as_mut().map(|effects| std::mem::take(&mut effects.notifications)).unwrap_or_default()
    }

    #[cold]
    pub(super) fn effects(&mut self) -> &mut Effects {
        self.effects.get_or_insert_default()
    }

    // ---- those who wait

    /// Has those who wait for a key look at it again, once the command is over. A key that comes into being does that by
    /// itself.
    pub fn signal(&mut self, key: &[u8]) {
        if !self.keyspace.waiters.is_empty() {
            self.signal_to_waiters(key);
        }
    }

    /// As [`signal`](Self::signal), for what is no longer there: who reads in a stream's group is told so. A view that
    /// cannot reach what else they wait for leaves them alone; only a key that has run out of time is lost in one.
    pub(super) fn signal_removal(&mut self, entry: &Entry) {
        if entry.kind() == ValueKind::Stream && (self.growing.is_some() || self.everything.is_some()) {
            self.signal(entry.key());
        }
    }

    #[cold]
    fn signal_to_waiters(&mut self, key: &[u8]) {
        let db = self.db;
        if self.keyspace.waiters.has_key(db, key) {
            let effects = self.effects();
            let ready = (db, Box::from(key));
            if effects.signalled.insert(ready.clone()) {
                effects.ready.push(ready);
            }
        }
    }

    #[inline]
    pub fn has_ready(&self) -> bool {
        self.effects.as_ref().is_some_and(|effects| !effects.ready.is_empty())
    }

    /// The keys, with their databases, that those who wait for them are to look at; in the order in which they were
    /// signalled.
    pub fn take_ready(&mut self) -> Vec<(u32, Box<[u8]>)> {
        let Some(effects) = &mut self.effects else { return Vec::new() };
        effects.signalled.clear();
        std::mem::take(&mut effects.ready)
    }

    /// Has all look again who wait for keys of a database that has become another.
    pub(super) fn signal_all(&mut self, db: u32) {
        if self.keyspace.waiters.is_empty() {
            return;
        }
        let selected = std::mem::replace(&mut self.db, db);
        for key in self.keyspace.waiters.keys(db) {
            if self.exists(&key) {
                self.signal(&key);
            }
        }
        self.db = selected;
    }
}
