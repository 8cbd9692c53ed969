//! What a view leaves for others: notifications, keys for blocked clients, flushed tables.

use std::collections::HashSet;

use super::View;
use super::replication::Replication;
use crate::data::keyspace::entry::Entry;
use crate::data::keyspace::lazy_free::Garbage;
use crate::data::keyspace::notifications::{EventClass, Notification};
use crate::data::keyspace::value::ValueKind;
use crate::data::keyspace::watch::Presence;

#[derive(Default)]
pub(super) struct Effects {
    pub(super) notifications: Vec<Notification>,
    /// Keys, with their databases, for which blocked clients are served at the end of the command.
    ready: Vec<(u32, Box<[u8]>)>,
    /// The same as a set, because one client can block on very many keys.
    signalled: HashSet<(u32, Box<[u8]>)>,
    /// What replicas get, and what the running command has said of that.
    pub(super) replication: Replication,
    /// Flushed tables and large values.
    pub(super) garbage: Garbage,
    /// How many keys are at some homes, until the view adds or removes one.
    pub(super) sizes: Vec<(u32, usize)>,
}

impl View<'_> {
    // ---- notifications

    /// Records a keyspace event if its class is wanted. `name` is Redis's, such as `set` or `expire`.
    #[inline]
    pub fn notify(&mut self, class: EventClass, name: &'static str, key: &[u8]) {
        if self.wanted & class as u32 != 0 {
            let db = self.db;
            self.effects().notifications.push(Notification::Event { class, name, db, key: key.into() });
        }
    }

    /// Whether there may be notifications or ready keys.
    #[inline]
    pub fn has_effects(&self) -> bool {
        self.effects.is_some()
    }

    #[inline]
    pub fn has_notifications(&self) -> bool {
        self.effects.as_ref().is_some_and(|effects| !effects.notifications.is_empty())
    }

    /// Takes the notifications so far, in order.
    pub fn take_notifications(&mut self) -> Vec<Notification> {
        self.effects.as_mut().map(|effects| std::mem::take(&mut effects.notifications)).unwrap_or_default()
    }

    #[cold]
    pub(super) fn effects(&mut self) -> &mut Effects {
        self.effects.get_or_insert_default()
    }

    // ---- what is freed later

    /// Drops a removed entry; a large collection only when the locks are released.
    #[inline]
    pub(in crate::data::keyspace) fn discard(&mut self, entry: Entry) {
        if Garbage::is_large(&entry) {
            self.effects().garbage.add_entry(entry);
        }
    }

    // ---- blocked clients

    /// Marks a key as ready: clients blocked on it are tried again at the end of the command. Inserting a key does that by
    /// itself.
    pub fn signal(&mut self, key: &[u8]) {
        if !self.keyspace.waiters.is_empty() {
            self.signal_to_waiters(key);
        }
    }

    /// As [`signal`](Self::signal), for a removed stream: clients blocked in XREADGROUP get an error. A view that cannot
    /// reach their other keys leaves them alone; only an expired key is removed in such a view.
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

    /// Takes the ready keys, with their databases, in the order in which they were signalled.
    pub fn take_ready(&mut self) -> Vec<(u32, Box<[u8]>)> {
        let Some(effects) = &mut self.effects else { return Vec::new() };
        effects.signalled.clear();
        std::mem::take(&mut effects.ready)
    }

    /// The keys of streams in a database that clients are blocked on.
    pub(super) fn awaited_streams(&mut self, db: u32) -> Vec<Box<[u8]>> {
        if self.keyspace.waiters.is_empty() {
            return Vec::new();
        }
        let selected = std::mem::replace(&mut self.db, db);
        let is_stream = |key: &[u8], view: &mut Self| view.peek(key).map(Entry::kind) == Some(ValueKind::Stream);
        let mut keys = self.keyspace.waiters.keys(db);
        keys.retain(|key| is_stream(key, self));
        self.db = selected;
        keys
    }

    /// Marks those of these keys as ready that are no streams any more: clients blocked in XREADGROUP get an error.
    pub(super) fn signal_missing_streams(&mut self, db: u32, keys: &[Box<[u8]>]) {
        let selected = std::mem::replace(&mut self.db, db);
        for key in keys {
            if !self.exists(key) {
                self.signal(key);
            }
        }
        self.db = selected;
    }

    /// Marks all awaited keys of a database as ready, because its content was replaced; those that have expired, too, if they are to be
    /// removed behind this command.
    pub(super) fn signal_all(&mut self, db: u32, expired: bool) {
        if self.keyspace.waiters.is_empty() {
            return;
        }
        let selected = std::mem::replace(&mut self.db, db);
        for key in self.keyspace.waiters.keys(db) {
            let presence = self.presence(db, &key);
            if presence == Presence::Live || expired && presence == Presence::Expired {
                self.signal(&key);
            }
        }
        self.db = selected;
    }
}
