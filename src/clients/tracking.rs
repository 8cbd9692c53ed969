//! Client-side caching (CLIENT TRACKING): which client has read which key, and the invalidations that changes cause.
//!
//! A read is recorded while its view still holds the key's lock, and an invalidation is sent before the view that made the
//! change releases the lock. So no change falls between a read and its record. An invalidated key is forgotten until it
//! is read again.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::base::sync::MutexExt;
use crate::clients::session::{Client, Clients, Session, TrackingMode};
use crate::data::keyspace::{KEY_CHANGES, Notification, Settings};
use crate::protocol::{Protocol, Reply};

/// The channel of invalidations for clients with RESP2.
const CHANNEL: &str = "__redis__:invalidate";
/// How many keys are evicted at once, at first.
const EFFORT: usize = 100;
/// Up to so many readers of a key, closed connections among them are not looked for.
const FEW: usize = 64;

/// What a server knows about its clients' caches.
#[derive(Default)]
pub struct Tracking {
    most_keys: AtomicUsize,
    overfull: AtomicBool,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    trackers: BTreeMap<u64, Tracker>,
    /// The ids of clients that have read a key since it last changed. A closed connection stays until the key changes.
    readers: BTreeMap<Box<[u8]>, BTreeSet<u64>>,
    /// The number of readers of all keys.
    items: usize,
    /// The ids of clients in broadcast mode, by prefix.
    prefixes: BTreeMap<Box<[u8]>, BTreeSet<u64>>,
    /// The key that was evicted last.
    evicted: Box<[u8]>,
    /// How many evictions in a row were not enough.
    struggles: usize,
}

struct Tracker {
    client: Arc<Client>,
    mode: TrackingMode,
    prefixes: BTreeSet<Box<[u8]>>,
    /// The connection that its invalidations are redirected to is closed.
    broken: bool,
}

/// What CLIENT TRACKINGINFO and CLIENT LIST show.
pub struct TrackingInfo {
    pub mode: TrackingMode,
    pub broken: bool,
    pub prefixes: Vec<Box<[u8]>>,
}

/// What INFO counts.
pub struct TrackingTotals {
    pub clients: usize,
    pub keys: usize,
    pub items: usize,
    pub prefixes: usize,
}

/// Two prefixes of one client of which one begins with the other.
pub struct PrefixOverlap {
    pub new: Box<[u8]>,
    pub other: Box<[u8]>,
    /// The other one holds already; otherwise it is of the same request.
    pub holds: bool,
    /// The position of the new one in the request.
    pub at: usize,
}

/// Sends messages to connections, and notes those that do not read.
pub struct PushSender<'a> {
    clients: &'a Clients,
    /// A client for which more bytes wait than this is noted as slow.
    notice: usize,
    slow: RefCell<Vec<(Arc<Client>, usize)>>,
}

/// The output of the connection that runs the command.
struct OwnOutput<'a> {
    id: u64,
    out: &'a mut Vec<u8>,
}

impl Tracking {
    /// `tracking-table-max-keys`; 0 for no limit.
    pub fn set_most_keys(&self, most: usize) {
        self.most_keys.store(most, Ordering::Relaxed);
        self.update_overfull(&self.table());
    }

    /// Whether more keys are remembered than there is room for.
    #[inline]
    pub fn is_overfull(&self) -> bool {
        self.overfull.load(Ordering::Relaxed)
    }

    fn update_overfull(&self, table: &Table) {
        let most = self.most_keys.load(Ordering::Relaxed);
        let overfull = most != 0 && table.readers.len() > most && !table.trackers.is_empty();
        self.overfull.store(overfull, Ordering::Relaxed);
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock_ignoring_poison()
    }

    // ---- trackers

    /// Turns tracking on for a session, or changes its mode. Prefixes are added to those there are.
    pub fn start(&self, session: &mut Session, mode: TrackingMode, prefixes: &[&[u8]], settings: &Settings) {
        let id = session.client.id();
        let mut table = self.table();
        let table = &mut *table;
        let tracker = table.trackers.entry(id).or_insert_with(|| Tracker {
            client: Arc::clone(&session.client),
            mode,
            prefixes: BTreeSet::new(),
            broken: false,
        });
        tracker.mode = mode;
        tracker.broken = false;
        if mode.broadcast {
            let every: &[&[u8]] = &[b""];
            for &prefix in if prefixes.is_empty() { every } else { prefixes } {
                tracker.prefixes.insert(prefix.into());
                table.prefixes.entry(prefix.into()).or_default().insert(id);
            }
        }
        session.client.seen().tracked_prefixes.store(tracker.prefixes.len(), Ordering::Relaxed);
        session.tracking.start(mode);
        settings.set_wanted_notifications(KEY_CHANGES, KEY_CHANGES);
        self.update_overfull(table);
    }

    /// Turns tracking off for a session.
    pub fn stop(&self, session: &mut Session, settings: &Settings) {
        if session.tracking.mode.is_some() {
            session.tracking.stop();
            self.forget(session.client.id(), settings);
        }
    }

    /// Forgets a connection that has turned tracking off or is closed.
    pub fn forget(&self, id: u64, settings: &Settings) {
        let mut table = self.table();
        let table = &mut *table;
        let Some(tracker) = table.trackers.remove(&id) else { return };
        tracker.client.seen().tracked_prefixes.store(0, Ordering::Relaxed);
        for prefix in tracker.prefixes {
            if let Some(clients) = table.prefixes.get_mut(&prefix) {
                clients.remove(&id);
                if clients.is_empty() {
                    table.prefixes.remove(&prefix);
                }
            }
        }
        table.stop_reporting_if_unused(settings);
        self.update_overfull(table);
    }

    /// The first prefix that overlaps with another one of the same client.
    pub fn overlap(&self, id: u64, prefixes: &[&[u8]]) -> Option<PrefixOverlap> {
        let table = self.table();
        let held = table.trackers.get(&id).map(|tracker| &tracker.prefixes);
        prefixes.iter().enumerate().find_map(|(at, &new)| {
            let of = |other: &[u8], holds| PrefixOverlap { new: new.into(), other: other.into(), holds, at };
            let overlaps = |other: &[u8]| new.starts_with(other) || other.starts_with(new);
            let holding = held.and_then(|held| held.iter().find(|other| overlaps(other)));
            let given = || prefixes[at + 1..].iter().find(|other| overlaps(other));
            holding.map(|other| of(other, true)).or_else(|| given().map(|other| of(other, false)))
        })
    }

    /// How a connection tracks, if it does.
    pub fn info(&self, id: u64) -> Option<TrackingInfo> {
        let table = self.table();
        let Tracker { mode, broken, prefixes, .. } = table.trackers.get(&id)?;
        Some(TrackingInfo { mode: *mode, broken: *broken, prefixes: prefixes.iter().cloned().collect() })
    }

    pub fn totals(&self) -> TrackingTotals {
        let table = self.table();
        TrackingTotals {
            clients: table.trackers.len(),
            keys: table.readers.len(),
            items: table.items,
            prefixes: table.prefixes.len(),
        }
    }

    // ---- reads

    /// Records that a connection has read keys. To be called while the view that read them holds its locks.
    pub fn record_reads<'k>(&self, id: u64, keys: impl Iterator<Item = &'k [u8]>) {
        let mut table = self.table();
        let Table { trackers, readers, items, .. } = &mut *table;
        if !trackers.contains_key(&id) {
            return;
        }
        for key in keys {
            let Some(ids) = readers.get_mut(key) else {
                readers.insert(key.into(), BTreeSet::from([id]));
                *items += 1;
                continue;
            };
            *items += usize::from(ids.insert(id));
            if ids.len() > FEW && ids.len().is_power_of_two() {
                let before = ids.len();
                ids.retain(|id| trackers.contains_key(id));
                *items -= before - ids.len();
            }
        }
        self.update_overfull(&table);
    }

    /// Evicts some keys if there are too many, and invalidates them. Invalidations for a session that runs a command go
    /// to its output.
    pub fn evict(&self, sender: &PushSender<'_>, by: Option<(&Session, &mut Vec<u8>)>) {
        let most = self.most_keys.load(Ordering::Relaxed);
        let mut table = self.table();
        let own = &mut by.map(|(session, out)| OwnOutput { id: session.client.id(), out });
        for _ in 0..EFFORT.saturating_mul(table.struggles + 1) {
            if table.readers.len() <= most {
                break;
            }
            let Some(key) = table.next_to_evict() else { break };
            table.invalidate(&key, sender, own, None);
            table.evicted = key;
        }
        table.struggles = if table.readers.len() > most { table.struggles + 1 } else { 0 };
        self.update_overfull(&table);
    }

    // ---- invalidations

    /// Sends invalidations, while the view that made the changes holds its locks. Those for the session `by` itself wait for
    /// [`deliver`](Self::deliver), broadcasts for [`broadcast`](Self::broadcast).
    pub fn notify(
        &self,
        notifications: &[Notification],
        sender: &PushSender<'_>,
        by: Option<&mut Session>,
        settings: &Settings,
    ) {
        let mut table = self.table();
        let mut changed = BTreeMap::new();
        match by {
            Some(session) => {
                let id = session.client.id();
                let tracking = &mut session.tracking;
                let own = &mut Some(OwnOutput { id, out: &mut session.messages_behind });
                table.apply(notifications, sender, own, Some(&mut tracking.owed), &mut tracking.changed);
            }
            None => {
                table.apply(notifications, sender, &mut None, None, &mut changed);
                table.broadcast(changed, sender);
            }
        }
        table.stop_reporting_if_unused(settings);
        self.update_overfull(&table);
    }

    /// Sends the invalidations that a command or a transaction has left for the end of its reply.
    pub fn deliver(&self, sender: &PushSender<'_>, session: &mut Session) {
        let id = session.client.id();
        let tracking = &mut session.tracking;
        let owed = std::mem::take(&mut tracking.owed);
        let mut table = self.table();
        let own = &mut Some(OwnOutput { id, out: &mut session.messages_behind });
        for key in owed {
            let resp3 = is_resp3(&session.client);
            let body = key.map_or_else(|| null(resp3), |key| array(&[&key]));
            table.send(&session.client, tracking.redirect, &body, sender, own);
        }
    }

    /// Tells the clients that track prefixes what a session has changed since it did so last. The session's own client gets it as
    /// the others do, behind its replies, and not at all if it is closed.
    pub fn broadcast(&self, sender: &PushSender<'_>, session: &mut Session) {
        let changed = std::mem::take(&mut session.tracking.changed);
        self.table().broadcast(changed, sender);
    }
}

/// Changed keys, each with the client that changed it; `None` if it expired.
type Changed = BTreeMap<Box<[u8]>, Option<u64>>;
/// Keys that the client itself changed and had read, or `None` for all at once.
type OwnInvalidations = Vec<Option<Box<[u8]>>>;

impl Table {
    /// Views report no changes while there are no trackers and no readers.
    fn stop_reporting_if_unused(&self, settings: &Settings) {
        if self.trackers.is_empty() && self.readers.is_empty() {
            settings.set_wanted_notifications(KEY_CHANGES, 0);
        }
    }

    fn apply(
        &mut self,
        notifications: &[Notification],
        sender: &PushSender<'_>,
        own: &mut Option<OwnOutput<'_>>,
        mut owed: Option<&mut OwnInvalidations>,
        changed: &mut Changed,
    ) {
        let id = own.as_ref().map(|own| own.id);
        for notifications in notifications {
            match notifications {
                Notification::Changed { key, expired } => {
                    if self.has_prefix_of(key) {
                        changed.insert(key.clone(), id.filter(|_| !expired));
                    }
                    self.invalidate(key, sender, own, owed.as_deref_mut());
                }
                Notification::Flushed => self.flush(sender, own, owed.as_deref_mut()),
                Notification::Event { .. } => {}
            }
        }
    }

    /// Invalidates a key with its readers, and forgets them. For the client that runs the command, the key is added to
    /// `owed` if there is such a list; otherwise it is sent at once, too.
    fn invalidate(
        &mut self,
        key: &[u8],
        sender: &PushSender<'_>,
        own: &mut Option<OwnOutput<'_>>,
        mut owed: Option<&mut OwnInvalidations>,
    ) {
        let Some(ids) = self.readers.remove(key) else { return };
        self.items -= ids.len();
        let body = array(&[key]);
        for id in ids {
            let Some(Tracker { client, mode, .. }) = self.trackers.get(&id) else { continue };
            let is_own = own.as_ref().is_some_and(|own| own.id == id);
            if mode.broadcast || mode.no_loop && is_own {
                continue;
            }
            match &mut owed {
                Some(owed) if is_own => owed.push(Some(key.into())),
                _ => {
                    let (client, redirect) = (Arc::clone(client), mode.redirect);
                    self.send(&client, redirect, &body, sender, own);
                }
            }
        }
    }

    /// Invalidates everything with all trackers.
    fn flush(
        &mut self,
        sender: &PushSender<'_>,
        own: &mut Option<OwnOutput<'_>>,
        mut owed: Option<&mut OwnInvalidations>,
    ) {
        let all: Vec<_> = self.trackers.values().map(|one| (Arc::clone(&one.client), one.mode.redirect)).collect();
        for (client, redirect) in all {
            let is_own = own.as_ref().is_some_and(|own| own.id == client.id());
            match &mut owed {
                Some(owed) if is_own => owed.push(None),
                _ => self.send(&client, redirect, &null(is_resp3(&client)), sender, own),
            }
        }
        self.readers.clear();
        self.items = 0;
    }

    /// Sends invalidations to clients in broadcast mode, all keys of one prefix together.
    fn broadcast(&mut self, changed: Changed, sender: &PushSender<'_>) {
        if changed.is_empty() {
            return;
        }
        let mut messages = Vec::new();
        for (prefix, ids) in &self.prefixes {
            let from = changed.range::<[u8], _>((Bound::Included(&**prefix), Bound::Unbounded));
            let keys: Vec<_> = from.take_while(|(key, _)| key.starts_with(prefix)).collect();
            // Without the keys that a client has changed itself, if one is named.
            let body_without = |own: Option<u64>| {
                let others = keys.iter().filter(|(_, by)| own.is_none() || **by != own);
                let told: Vec<&[u8]> = others.map(|(key, _)| &***key).collect();
                (!told.is_empty()).then(|| Arc::new(array(&told)))
            };
            let Some(whole) = body_without(None) else { continue };
            for id in ids {
                let Some(Tracker { client, mode, .. }) = self.trackers.get(id) else { continue };
                let body = match mode.no_loop && keys.iter().any(|(_, by)| **by == Some(*id)) {
                    true => body_without(Some(*id)),
                    false => Some(Arc::clone(&whole)),
                };
                messages.extend(body.map(|body| (Arc::clone(client), mode.redirect, body)));
            }
        }
        for (client, redirect, body) in messages {
            self.send(&client, redirect, &body, sender, &mut None);
        }
    }

    /// Whether some client is told of each change of a key that begins as this one.
    fn has_prefix_of(&self, key: &[u8]) -> bool {
        let mut rest = key;
        loop {
            // The last prefix that is not behind the key, or else has a beginning in common with it: any other that the key begins
            // with is in front of it, and no longer than that.
            let before = self.prefixes.range::<[u8], _>((Bound::Unbounded, Bound::Included(rest))).next_back();
            let Some((prefix, _)) = before else { return false };
            if key.starts_with(prefix) {
                return true;
            }
            let common = prefix.iter().zip(rest).take_while(|(one, other)| one == other).count();
            rest = &rest[..common];
        }
    }

    /// Sends one message to a connection, or to the one that its messages go to instead.
    fn send(
        &mut self,
        client: &Arc<Client>,
        redirect: u64,
        body: &[u8],
        sender: &PushSender<'_>,
        own: &mut Option<OwnOutput<'_>>,
    ) {
        let mut message = Vec::new();
        if redirect == 0 {
            if is_resp3(client) {
                write_push(&mut message, body);
                sender.push(client, &message, own);
            }
            return;
        }
        let Some(target) = sender.clients.get(redirect) else {
            if let Some(tracker) = self.trackers.get_mut(&client.id()) {
                tracker.broken = true;
            }
            if is_resp3(client) {
                let broken = Reply::Push(vec![Reply::text("tracking-redir-broken"), Reply::Integer(redirect as i64)]);
                broken.write(Protocol::Resp3, &mut message);
                sender.push(client, &message, own);
            }
            return;
        };
        if is_resp3(&target) {
            write_push(&mut message, body);
        } else if target.seen().is_subscriber() {
            message.extend_from_slice(b"*3\r\n");
            Reply::text("message").write(Protocol::Resp2, &mut message);
            Reply::text(CHANNEL).write(Protocol::Resp2, &mut message);
            message.extend_from_slice(body);
        } else {
            return;
        }
        sender.push(&target, &message, own);
    }

    /// The key behind the one evicted last, so that each has its turn.
    fn next_to_evict(&self) -> Option<Box<[u8]>> {
        let behind = (Bound::Excluded(&*self.evicted), Bound::Unbounded);
        let next = self.readers.range::<[u8], _>(behind).next().or_else(|| self.readers.iter().next());
        next.map(|(key, _)| key.clone())
    }
}

impl<'a> PushSender<'a> {
    pub fn new(clients: &'a Clients, notice: usize) -> Self {
        Self { clients, notice, slow: RefCell::default() }
    }

    /// The clients for which too much waits, each with how many bytes.
    pub fn into_slow_clients(self) -> Vec<(Arc<Client>, usize)> {
        self.slow.into_inner()
    }

    fn push(&self, client: &Arc<Client>, message: &[u8], own: &mut Option<OwnOutput<'_>>) {
        match own {
            Some(own) if own.id == client.id() => own.out.extend_from_slice(message),
            _ => {
                let waiting = client.send(message);
                if waiting > self.notice {
                    self.slow.borrow_mut().push((Arc::clone(client), waiting));
                }
            }
        }
    }
}

fn is_resp3(client: &Client) -> bool {
    client.seen().resp3.load(Ordering::Relaxed)
}

fn write_push(message: &mut Vec<u8>, body: &[u8]) {
    message.extend_from_slice(b">2\r\n");
    Reply::text("invalidate").write(Protocol::Resp3, message);
    message.extend_from_slice(body);
}

fn array(keys: &[&[u8]]) -> Vec<u8> {
    let mut body = Vec::new();
    Reply::Array(keys.iter().map(|&key| Reply::bulk(key)).collect()).write(Protocol::Resp3, &mut body);
    body
}

/// Null in the protocol of the client whose cache it concerns, also where the message is redirected.
fn null(resp3: bool) -> Vec<u8> {
    if resp3 { b"_\r\n".to_vec() } else { b"$-1\r\n".to_vec() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prefix_of_a_key_is_found_among_any_others() {
        // All words of up to four letters, and some of them as prefixes, chosen in thousands of ways.
        let words: Vec<Vec<u8>> = (0..=4)
            .flat_map(|length| {
                (0..1_u32 << length).map(move |bits| (0..length).map(|at| b'a' + (bits >> at & 1) as u8).collect())
            })
            .collect();
        for choice in (1..u64::from(u32::MAX >> 1)).step_by(10_007) {
            let chosen =
                words.iter().enumerate().filter(|(at, _)| choice.wrapping_mul(0x9E37_79B9) >> (at + 3) & 7 == 0);
            let table = Table {
                prefixes: chosen.map(|(_, word)| (word.clone().into(), BTreeSet::new())).collect(),
                ..Table::default()
            };
            for key in &words {
                let wanted = table.prefixes.keys().any(|prefix| key.starts_with(prefix));
                assert_eq!(table.has_prefix_of(key), wanted, "{key:?} in {:?}", table.prefixes.keys());
            }
        }
    }
}
