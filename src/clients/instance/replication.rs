//! Replication: the stream of commands that replicas get, the end of it that is kept for those that come back, and who has how
//! much of it.
//!
//! The stream begins with the first replica. It goes on without any, until `repl-backlog-ttl` has passed.

mod follower;
mod handover;
mod links;
mod rewind;
mod sync;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Waker;

use super::Instance;
use crate::base::clock::Millis;
use crate::base::profile::Profile;
use crate::base::sync::MutexExt;
use crate::clients::fleet::LinkState;
use crate::clients::session::{Client, Message, Peer, ReplicaIntroduction};
use crate::data::keyspace::{Busy, REPLICATED, Replicated, View};
use crate::data::seed::{Capture, Form};
use crate::powers::Hook;
use crate::protocol::{Reply, Words, write_request};
use follower::{Follower, Inbox};
use handover::PendingHandover;
use links::{Links, Pending};
use sync::Syncs;

pub use follower::{Due, MasterLink, Synced};
pub use handover::Handover;
pub use rewind::{Rewound, count_changes, each_request};

/// What is left to do when something was sent.
struct Sent {
    /// The replicas for which much waits, and how many bytes.
    slow: Vec<(Arc<Client>, usize)>,
    watchers: Vec<Waker>,
}

/// How many bytes of room for encoded commands are kept.
const MOST_ENCODED: usize = 64 * 1024;

#[derive(Default)]
pub(super) struct Replication {
    /// A thread that writes a snapshot has it, too.
    stream: Arc<Mutex<Stream>>,
    /// The number of bytes since the beginning of all, as it is in the stream.
    offset: AtomicU64,
    /// How many clients wait for replicas, or have not noticed yet that they wait no more.
    awaiting: AtomicUsize,
    follower: Follower,
    handover: PendingHandover,
}

#[derive(Default)]
struct Stream {
    is_on: bool,
    offset: u64,
    /// Where commands are encoded, empty in between.
    encoded: Vec<u8>,
    /// The database that the stream has selected, as far as all replicas know it.
    selected: Option<u32>,
    /// The one that is selected at its end, whoever knows it.
    database: u32,
    /// The last bytes of the stream.
    backlog: VecDeque<u8>,
    backlog_size: usize,
    replicas: Vec<Replica>,
    /// Since when there are no replicas.
    alone_since: Millis,
    /// When the replicas were pinged last.
    pinged_at: Millis,
    awaiting: Vec<Awaiting>,
    links: Links,
    syncs: Syncs,
    /// Those who wait until links hold changes.
    watchers: Vec<Waker>,
}

struct Replica {
    client: Arc<Client>,
    /// Where it finds what it is sent, if it is an instance of this process.
    inbox: Option<Arc<Inbox>>,
    about: ReplicaIntroduction,
    acknowledged: u64,
    /// How much it has in its append-only file.
    fsynced: u64,
    acknowledged_at: Millis,
    /// The snapshot that it waits for: what is sent meanwhile is kept for it.
    syncing: Option<u64>,
    /// What its link holds.
    pending: Pending,
}

/// A client that waits for replicas.
struct Awaiting {
    client: u64,
    wanted: usize,
    offset: u64,
    kind: Acknowledgement,
    /// How many there were when there were enough.
    count: Option<usize>,
}

/// What WAIT and WAITAOF wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acknowledgement {
    Received,
    Fsynced,
}

impl Acknowledgement {
    /// The reply to WAIT or WAITAOF.
    pub fn reply(self, count: usize) -> Reply<'static> {
        match self {
            Self::Received => Reply::Integer(count as i64),
            // Nothing is ever in an append-only file here.
            Self::Fsynced => Reply::Array(vec![Reply::Integer(0), Reply::Integer(count as i64)]),
        }
    }
}

/// What a replica asks for.
#[derive(Clone, Copy)]
pub struct SyncRequest<'a> {
    /// The history that it has, and the first byte of it that it lacks; `None` for SYNC.
    pub history: Option<(&'a [u8], i64)>,
}

/// A replica as INFO and ROLE show it.
pub struct ReplicaState {
    pub address: String,
    pub port: u16,
    /// It is an instance of this process.
    pub is_in_process: bool,
    /// It has its snapshot, or needed none.
    pub is_online: bool,
    pub acknowledged: u64,
    /// Since when it has acknowledged nothing, in seconds.
    pub lag: Millis,
}

/// The stream as INFO shows it.
pub struct StreamState {
    pub offset: u64,
    pub is_on: bool,
    /// The place of the first byte that is kept, and how many are.
    pub first_byte: u64,
    pub kept: usize,
    pub replicas: Vec<ReplicaState>,
}

impl Stream {
    /// Encodes a command, behind a SELECT if it needs one.
    fn encode(&mut self, db: u32, words: Words<'_>, out: &mut Vec<u8>) {
        self.select(db, out);
        write_request(out, words.iter());
    }

    fn select(&mut self, db: u32, out: &mut Vec<u8>) {
        if self.selected != Some(db) {
            (self.selected, self.database) = (Some(db), db);
            write_request(out, [b"SELECT", db.to_string().as_bytes()].into_iter());
        }
    }

    fn encode_unit(&mut self, commands: &[Replicated], (is_unit, profile): (bool, &Profile), out: &mut Vec<u8>) {
        let is_unit = is_unit && commands.len() > 1;
        if is_unit {
            // Since 7.2, the transaction begins with SELECT.
            if let Some(first) = commands.first().filter(|_| !profile.since_redis(7, 2)) {
                self.select(first.db, out);
            }
            write_request(out, [b"MULTI".as_slice()].into_iter());
        }
        for Replicated { db, words } in commands {
            self.encode(*db, words.as_words(), out);
        }
        if is_unit {
            write_request(out, [b"EXEC".as_slice()].into_iter());
        }
    }

    fn keep(&mut self, bytes: &[u8]) {
        self.offset += bytes.len() as u64;
        let bytes = &bytes[bytes.len().saturating_sub(self.backlog_size)..];
        let excess = (self.backlog.len() + bytes.len()).saturating_sub(self.backlog_size);
        self.backlog.drain(..excess.min(self.backlog.len()));
        self.backlog.extend(bytes);
    }

    fn first_byte(&self) -> u64 {
        self.offset + 1 - self.backlog.len() as u64
    }

    /// The stream from one of its bytes on, if all of that is kept.
    fn since(&self, first: i64) -> Option<Vec<u8>> {
        let first = u64::try_from(first).ok()?;
        if !self.is_on || first < self.first_byte() || first > self.offset + 1 {
            return None;
        }
        let skipped = usize::try_from(first - self.first_byte()).ok()?;
        Some(self.backlog.range(skipped..).copied().collect())
    }

    fn count(&self, offset: u64, kind: Acknowledgement) -> usize {
        let has = |replica: &&Replica| {
            let place = match kind {
                Acknowledgement::Received => replica.acknowledged,
                Acknowledgement::Fsynced => replica.fsynced,
            };
            replica.is_online() && place >= offset
        };
        self.replicas.iter().filter(has).count()
    }

    /// Adds a replica, which gets this first.
    fn add(
        &mut self,
        client: &Arc<Client>,
        about: ReplicaIntroduction,
        inbox: Option<&Arc<Inbox>>,
        now: Millis,
        first: &[&[u8]],
    ) {
        client.seen().replica.store(true, Ordering::Relaxed);
        if self.replicas.is_empty() {
            self.pinged_at = now;
        }
        let mut replica = Replica {
            client: Arc::clone(client),
            inbox: inbox.map(Arc::clone),
            about,
            acknowledged: 0,
            fsynced: 0,
            acknowledged_at: now,
            syncing: None,
            pending: Pending::default(),
        };
        for bytes in first.iter().filter(|bytes| !bytes.is_empty()) {
            replica.deliver(&Message::new(bytes), false, &self.links, || now);
        }
        self.replicas.push(replica);
    }
}

impl Replica {
    /// Sends it something, or holds it back. Returns how many bytes wait to be sent.
    fn deliver(&mut self, message: &Message<'_>, is_change: bool, links: &Links, now: impl Fn() -> Millis) -> usize {
        if links.are_untouched() {
            return self.send(message);
        }
        match links.state(&self.name()) {
            LinkState::Open => self.send(message),
            // A link that is cut is about to be closed.
            LinkState::Held | LinkState::Cut => self.waiting() + self.pending.push(message.bytes(), is_change, None),
            LinkState::Late(lag) => {
                let due = now().saturating_add(lag);
                self.waiting() + self.pending.push(message.bytes(), is_change, Some(due))
            }
        }
    }

    /// Whether it has its snapshot, or needed none.
    fn is_online(&self) -> bool {
        self.syncing.is_none()
    }

    /// How it is called in orders for its link.
    fn name(&self) -> String {
        name_of(&self.client, &self.about)
    }

    fn address(&self) -> String {
        address_of(&self.client, &self.about)
    }

    fn lag(&self, now: Millis) -> Millis {
        (now.div_euclid(1000) - self.acknowledged_at.div_euclid(1000)).max(0)
    }
}

fn address_of(client: &Client, about: &ReplicaIntroduction) -> String {
    match client.peer() {
        _ if !about.address.is_empty() => String::from_utf8_lossy(&about.address).into_owned(),
        Peer::Tcp { peer, .. } => peer.ip().to_string(),
        Peer::Unix { .. } => "?".to_owned(),
    }
}

fn name_of(client: &Client, about: &ReplicaIntroduction) -> String {
    format!("{}:{}", address_of(client, about), about.port)
}

impl Instance {
    fn stream(&self) -> MutexGuard<'_, Stream> {
        self.replication.stream.lock_ignoring_poison()
    }

    /// Sends replicas what a view has done so far. It is to be called while the view holds its locks, so that the order is
    /// that of the changes. Several commands of a unit take effect together.
    #[inline]
    pub fn replicate(&self, view: &mut View<'_>, is_unit: bool) {
        if view.has_replicated() {
            self.replicate_commands(&view.take_replicated(), is_unit);
        }
    }

    /// Sends replicas commands. What is written to a replica goes no further.
    #[cold]
    pub fn replicate_commands(&self, commands: &[Replicated], is_unit: bool) {
        self.replicate_encoded(|stream, out| stream.encode_unit(commands, (is_unit, &self.profile), out));
    }

    /// Sends replicas one command as it came. If it ran in a view, that still holds its locks.
    pub fn replicate_words(&self, db: u32, words: Words<'_>) {
        self.replicate_encoded(|stream, out| stream.encode(db, words, out));
    }

    fn replicate_encoded(&self, encode: impl FnOnce(&mut Stream, &mut Vec<u8>)) {
        let mut stream = self.stream();
        if !stream.is_on || self.is_replica() {
            return;
        }
        let mut bytes = std::mem::take(&mut stream.encoded);
        encode(&mut stream, &mut bytes);
        let sent = self.send_to_replicas(&mut stream, &bytes, true);
        bytes.clear();
        bytes.shrink_to(MOST_ENCODED);
        stream.encoded = bytes;
        drop(stream);
        self.follow_up(sent);
    }

    /// Asks replicas something, or tells them something that is no change.
    fn tell_replicas(&self, mut stream: MutexGuard<'_, Stream>, words: &[&[u8]]) {
        let mut bytes = Vec::new();
        write_request(&mut bytes, words.iter().copied());
        let sent = self.send_to_replicas(&mut stream, &bytes, false);
        drop(stream);
        self.follow_up(sent);
    }

    /// Returns what is to be done once the stream is not locked any more.
    fn send_to_replicas(&self, stream: &mut Stream, bytes: &[u8], is_change: bool) -> Sent {
        stream.keep(bytes);
        self.replication.offset.store(stream.offset, Ordering::Release);
        let notice = self.config.live().replica_output.notice();
        let mut slow = Vec::new();
        let Stream { replicas, links, watchers, syncs, .. } = stream;
        syncs.keep(bytes, is_change);
        let message = Message::new(bytes);
        for replica in replicas {
            let waiting = match replica.syncing {
                Some(number) => replica.waiting() + syncs.bytes_since(number),
                None => replica.deliver(&message, is_change, links, || self.clock.millis()),
            };
            if waiting > notice {
                slow.push((Arc::clone(&replica.client), waiting));
            }
        }
        Sent { slow, watchers: std::mem::take(watchers) }
    }

    fn follow_up(&self, Sent { slow, watchers }: Sent) {
        watchers.into_iter().for_each(Waker::wake);
        if !slow.is_empty() {
            self.check_output_limits(&slow);
        }
    }

    /// Whether there are replicas, or were some a while ago.
    #[inline]
    pub fn is_replicated(&self) -> bool {
        self.active_hooks.has(Hook::Replicated)
    }

    /// Whether there is a stream, to replicas or from a master.
    #[inline]
    pub fn has_links(&self) -> bool {
        self.is_replicated() || self.is_replica()
    }

    /// The number of bytes of the stream so far.
    #[inline]
    pub fn replication_offset(&self) -> u64 {
        self.replication.offset.load(Ordering::Acquire)
    }

    // ---- replicas that come and go

    /// Sends a client all data, or what it lacks, and from then on all that changes.
    pub fn attach_replica(
        &self,
        client: &Arc<Client>,
        about: ReplicaIntroduction,
        request: SyncRequest<'_>,
    ) -> Result<(), Busy> {
        if let Some((id, first)) = request.history {
            if self.missing_since(id, first, |stream, id, missing| {
                let head = if about.knows_ids { format!("+CONTINUE {id}\r\n") } else { "+CONTINUE\r\n".to_owned() };
                stream.add(client, about.clone(), None, self.clock.millis(), &[head.as_bytes(), missing]);
            }) {
                self.stats.partial_syncs.fetch_add(1, Ordering::Relaxed);
                return Ok(());
            }
            if id.first() != Some(&b'?') {
                self.stats.refused_partial_syncs.fetch_add(1, Ordering::Relaxed);
            }
        }
        self.sync_replica(client, about, request)
    }

    /// Like [`attach_replica`](Self::attach_replica), for an instance of this process.
    fn attach_instance(
        &self,
        client: &Arc<Client>,
        about: ReplicaIntroduction,
        request: SyncRequest<'_>,
        inbox: &Arc<Inbox>,
    ) -> Result<Synced, Busy> {
        let mut history = String::new();
        if let Some((id, first)) = request.history {
            if self.missing_since(id, first, |stream, id, missing| {
                id.clone_into(&mut history);
                stream.add(client, about.clone(), Some(inbox), self.clock.millis(), &[missing]);
            }) {
                self.stats.partial_syncs.fetch_add(1, Ordering::Relaxed);
                return Ok(Synced::Rest { history });
            }
            self.stats.refused_partial_syncs.fetch_add(1, Ordering::Relaxed);
        }
        self.stats.full_syncs.fetch_add(1, Ordering::Relaxed);
        let (mut offset, mut selected) = (0, 0);
        let snapshot = self.with_everything(|view, libraries| {
            let mut stream = self.stream();
            self.begin_stream(&mut stream);
            if !self.is_replica() {
                stream.selected = None;
            }
            self.identity.replication_id().current.clone_into(&mut history);
            (offset, selected) = (stream.offset, stream.database);
            stream.add(client, about, Some(inbox), self.clock.millis(), &[]);
            Capture::begin(view, libraries, &self.profile, Form::Internal).copied(view).finish()
        })?;
        Ok(Synced::Everything { history, offset, selected, snapshot })
    }

    /// The stream begins, unless it is on: with a new history, of which no replica has a part.
    fn begin_stream(&self, stream: &mut Stream) {
        if !stream.is_on {
            self.identity.change_replication_id();
            stream.is_on = true;
            self.watch_changes(true);
        }
    }

    /// Has views tell what they change, or no more. The stream of a replica is that of its master.
    fn watch_changes(&self, is_on: bool) {
        let wanted = if is_on && !self.is_replica() { REPLICATED } else { 0 };
        self.keyspace.settings().set_wanted_notifications(REPLICATED, wanted);
        self.active_hooks.set(Hook::Replicated, is_on);
    }

    /// The role has changed: the stream is its own, or that of its master.
    pub(super) fn apply_role_to_stream(&self) {
        let mut stream = self.stream();
        if self.is_replica() {
            // As in Redis, a replica keeps a backlog, so that others can go on where they were if it is promoted.
            self.begin_stream(&mut stream);
        }
        if stream.is_on {
            self.watch_changes(true);
        }
    }

    /// Calls `send` with the part of the stream that is missing to somebody who has a history up to a place, and with the id
    /// under which it goes on. Whether that is kept.
    fn missing_since(&self, id: &[u8], first: i64, send: impl FnOnce(&mut Stream, &str, &[u8])) -> bool {
        let ids = self.identity.replication_id();
        let is_same = |own: &str| id.eq_ignore_ascii_case(own.as_bytes());
        let is_former = ids.former.as_deref().is_some_and(is_same)
            && u64::try_from(first).is_ok_and(|first| first <= ids.former_until);
        if !is_same(&ids.current) && !is_former {
            return false;
        }
        let mut stream = self.stream();
        let Some(missing) = stream.since(first) else { return false };
        send(&mut stream, &ids.current, &missing);
        true
    }

    /// Begins a new history, of which no replica has a part.
    pub fn begin_history(&self) {
        self.close_replicas();
        let mut stream = self.stream();
        if stream.is_on {
            stream.backlog.clear();
            self.identity.change_replication_id();
        }
    }

    /// Forgets a replica whose connection is gone, or a client that waits for replicas.
    pub fn detach_replica(&self, client: &Client) {
        self.stop_awaiting(client);
        if !client.seen().replica.swap(false, Ordering::Relaxed) {
            return;
        }
        let mut stream = self.stream();
        let inbox = |replica: &Replica| replica.inbox.clone().filter(|_| replica.client.id() == client.id());
        if let Some(inbox) = stream.replicas.iter().find_map(inbox) {
            inbox.call();
        }
        stream.replicas.retain(|other| other.client.id() != client.id());
        stream.forget_unwanted_syncs();
        if stream.replicas.is_empty() {
            stream.alone_since = self.clock.millis();
        }
    }

    /// Closes the connections of all replicas. They ask to go on where they were.
    pub fn close_replicas(&self) {
        let mut stream = self.stream();
        stream.selected = None;
        let mut replicas = stream.syncs.forget();
        replicas.extend(stream.replicas.iter().map(|replica| Arc::clone(&replica.client)));
        drop(stream);
        replicas.iter().for_each(|client| self.kill(client));
    }

    /// A replica is about to be a primary: what it has of the stream is kept from now on, as long as if replicas had just left.
    pub(super) fn begin_alone(&self) {
        self.stream().alone_since = self.clock.millis();
    }

    pub(super) fn set_backlog_size(&self, bytes: usize) {
        let mut stream = self.stream();
        stream.backlog_size = bytes;
        let excess = stream.backlog.len().saturating_sub(bytes);
        stream.backlog.drain(..excess);
    }

    // ---- acknowledgements

    /// A replica tells how far it is. Returns whether the client is one.
    pub fn acknowledge(&self, client: &Client, offset: u64, fsynced: Option<u64>) {
        client.seen().snapshot.store(0, Ordering::Relaxed);
        let mut stream = self.stream();
        let now = self.clock.millis();
        let Some(replica) = stream.replicas.iter_mut().find(|replica| replica.client.id() == client.id()) else {
            return;
        };
        replica.acknowledged = replica.acknowledged.max(offset);
        replica.fsynced = replica.fsynced.max(fsynced.unwrap_or(0));
        replica.acknowledged_at = now;
        let mut served = Vec::new();
        let mut awaiting = std::mem::take(&mut stream.awaiting);
        for one in awaiting.iter_mut().filter(|one| one.count.is_none()) {
            let count = stream.count(one.offset, one.kind);
            if count >= one.wanted {
                one.count = Some(count);
                served.push(one.client);
            }
        }
        stream.awaiting = awaiting;
        drop(stream);
        for client in served.into_iter().filter_map(|id| self.clients.get(id)) {
            // Its reply is the count that was noted.
            self.unblock(&client, false);
        }
    }

    /// How many replicas have the stream up to an offset.
    pub fn count_acknowledged(&self, offset: u64, kind: Acknowledgement) -> usize {
        self.stream().count(offset, kind)
    }

    /// Lets a blocked client wait until so many replicas have the stream up to an offset, and asks them how far they are. The
    /// number of those that have it, if these are enough already.
    pub fn await_replicas(&self, client: &Client, wanted: usize, offset: u64, kind: Acknowledgement) -> Option<usize> {
        let mut stream = self.stream();
        let count = stream.count(offset, kind);
        if count >= wanted {
            return Some(count);
        }
        // Comes first, so that whoever ends the wait can claim it.
        client.wait_for_time();
        stream.awaiting.push(Awaiting { client: client.id(), wanted, offset, kind, count: None });
        self.replication.awaiting.fetch_add(1, Ordering::Release);
        if !stream.replicas.is_empty() {
            self.tell_replicas(stream, &[b"REPLCONF", b"GETACK", b"*"]);
        }
        None
    }

    /// Ends the wait of a client for replicas, if it is in one. The reply that it gets, if no error is the reason.
    pub fn stop_awaiting(&self, client: &Client) -> Option<Reply<'static>> {
        if self.replication.awaiting.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut stream = self.stream();
        let place = stream.awaiting.iter().position(|one| one.client == client.id())?;
        let one = stream.awaiting.swap_remove(place);
        self.replication.awaiting.fetch_sub(1, Ordering::Release);
        Some(one.kind.reply(one.count.unwrap_or_else(|| stream.count(one.offset, one.kind))))
    }

    /// How many replicas have told of themselves recently enough for `min-replicas-max-lag`.
    pub fn good_replicas(&self) -> usize {
        let most = self.config.number::<Millis>("min-replicas-max-lag");
        let now = self.clock.millis();
        self.stream().replicas.iter().filter(|replica| replica.is_online() && replica.lag(now) <= most).count()
    }

    /// Whether writes are refused because too few replicas are there (`min-replicas-to-write`).
    #[inline]
    pub fn lacks_replicas(&self) -> bool {
        self.active_hooks.has(Hook::NeedsReplicas)
            && self.good_replicas() < self.config.number::<usize>("min-replicas-to-write")
    }

    // ---- periodic work

    /// Pings the replicas, leaves those that do not answer, and ends the stream if there was none for long.
    pub(super) fn tend_replicas(&self) {
        if !self.is_replicated() {
            return;
        }
        let now = self.clock.millis();
        let seconds = |name: &str| self.config.number::<Millis>(name);
        let mut stream = self.stream();
        stream.tell_waiting(now);
        if stream.replicas.is_empty() {
            let kept = seconds("repl-backlog-ttl");
            if kept > 0 && !self.is_replica() && now - stream.alone_since > kept.saturating_mul(1000) {
                stream.is_on = false;
                stream.backlog = VecDeque::new();
                stream.selected = None;
                self.identity.change_replication_id();
                self.watch_changes(false);
            }
            return;
        }
        for replica in &mut stream.replicas {
            if replica.inbox.as_ref().is_some_and(|inbox| inbox.is_answering()) {
                replica.acknowledged_at = now;
            }
        }
        Self::send_what_is_due(&mut stream, now);
        let longest = seconds("repl-timeout");
        let silent = |replica: &&Replica| replica.is_online() && replica.lag(now) > longest;
        let silent: Vec<Arc<Client>> =
            stream.replicas.iter().filter(silent).map(|replica| Arc::clone(&replica.client)).collect();
        if !self.is_replica() && now - stream.pinged_at >= seconds("repl-ping-replica-period").saturating_mul(1000) {
            stream.pinged_at = now;
            self.tell_replicas(stream, &[b"ping"]);
        } else {
            drop(stream);
        }
        for client in silent {
            self.log.warn(format!("Disconnecting timedout replica (streaming sync): {}", client.peer().address()));
            self.kill(&client);
        }
    }

    /// The stream and those that get it.
    pub fn replication_state(&self) -> StreamState {
        let now = self.clock.millis();
        let stream = self.stream();
        let replicas = stream.replicas.iter().map(|replica| ReplicaState {
            address: replica.address(),
            port: replica.about.port,
            is_in_process: replica.inbox.is_some(),
            is_online: replica.is_online(),
            acknowledged: replica.acknowledged,
            lag: replica.lag(now),
        });
        StreamState {
            offset: stream.offset,
            is_on: stream.is_on,
            first_byte: if stream.is_on { stream.first_byte() } else { 0 },
            kept: stream.backlog.len(),
            replicas: replicas.collect(),
        }
    }
}
