//! The link of a replica to its master, if that is another instance of this process: what has come over it, and how far the
//! replica is.
//!
//! The link has two ends, which CLIENT LIST shows as connections: one is listed by the master, one by the replica. Whichever is
//! closed, the link is down.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use super::rewind::{Past, Rewound};
use super::{Replica, SyncRequest};
use crate::base::clock::Millis;
use crate::base::error::CommandError;
use crate::base::sync::MutexExt;
use crate::clients::fleet::Losing;
use crate::clients::instance::Instance;
use crate::clients::session::{Client, Message, Peer, ReplicaIntroduction};
use crate::data::keyspace::Busy;
use crate::data::seed::Form;
use crate::powers::Hook;

/// What a replica has to do.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Due {
    Nothing,
    /// To run what has come over its link.
    Changes,
    /// To look at its link as well, which may be down or another one.
    Everything,
}

/// [`Due`] as bits.
const CHANGES: u8 = 1;
const LINK: u8 = 2;

/// What a master has sent to a replica, and the replica has not run.
pub struct Inbox {
    bytes: Mutex<Vec<u8>>,
    due: Arc<AtomicU8>,
    /// Whether its replica runs what it gets: it is not paused.
    is_answering: Arc<AtomicBool>,
}

impl Inbox {
    /// Returns how many bytes wait.
    pub(super) fn push(&self, bytes: &[u8]) -> usize {
        let mut waiting = self.bytes.lock_ignoring_poison();
        waiting.extend_from_slice(bytes);
        let count = waiting.len();
        drop(waiting);
        self.due.fetch_or(CHANGES, Ordering::Release);
        count
    }

    /// Swaps what waits with an empty buffer.
    pub fn take_into(&self, buffer: &mut Vec<u8>) {
        std::mem::swap(&mut *self.bytes.lock_ignoring_poison(), buffer);
    }

    /// Puts back what could not be run yet, in front of what has come since.
    pub fn put_back(&self, rest: &[u8]) {
        self.bytes.lock_ignoring_poison().splice(..0, rest.iter().copied());
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.lock_ignoring_poison().len()
    }

    pub(super) fn is_answering(&self) -> bool {
        self.is_answering.load(Ordering::Relaxed)
    }

    /// Has the replica look at its link.
    pub(super) fn call(&self) {
        self.due.fetch_or(LINK, Ordering::Release);
    }
}

/// A replica's side of replication.
#[derive(Default)]
pub(super) struct Follower {
    due: Arc<AtomicU8>,
    is_silent: AtomicBool,
    is_answering: Arc<AtomicBool>,
    link: Mutex<Option<Arc<MasterLink>>>,
    /// When something came last, and since when the link is down, by the replica's clock; 0 if never.
    heard_at: AtomicI64,
    down_since: AtomicI64,
    /// What it has is no part of a history: only all data help it.
    has_no_history: AtomicBool,
    past: Mutex<Past>,
}

/// The link of a replica to its master in this process.
pub struct MasterLink {
    pub master: Weak<Instance>,
    pub inbox: Arc<Inbox>,
    /// What the master lists.
    pub at_master: Arc<Client>,
    /// What the replica lists. The stream runs in its name.
    pub at_replica: Arc<Client>,
}

impl MasterLink {
    pub fn is_up(&self) -> bool {
        self.at_master.seen().replica.load(Ordering::Relaxed) && !self.at_replica.seen().closing.load(Ordering::Relaxed)
    }
}

/// What a replica gets when its link is made.
pub enum Synced {
    /// All data as of a place in a history.
    Everything { history: String, offset: u64, selected: u32, snapshot: Vec<u8> },
    /// What it lacks of the history that goes on under this id. It is in the inbox.
    Rest { history: String },
}

/// A replica's link as INFO and ROLE show it.
pub struct MasterLinkState {
    pub is_up: bool,
    /// How many bytes of the stream it has.
    pub offset: u64,
    /// How long ago something came.
    pub silent_for: Millis,
    /// For how long it is down, if it was up once.
    pub down_for: Option<Millis>,
}

impl Instance {
    /// Whether the link to a master in this process has something to do.
    #[inline]
    pub fn is_link_due(&self) -> bool {
        self.replication.follower.due.load(Ordering::Acquire) != 0
    }

    /// What it has to do; taken back with the question.
    #[inline]
    pub fn take_due_link(&self) -> Due {
        let due = &self.replication.follower.due;
        match if due.load(Ordering::Acquire) == 0 { 0 } else { due.swap(0, Ordering::AcqRel) } {
            0 => Due::Nothing,
            CHANGES => Due::Changes,
            _ => Due::Everything,
        }
    }

    /// Has the replica look at its link.
    pub fn call_link(&self) {
        self.replication.follower.due.fetch_or(LINK, Ordering::Release);
    }

    /// The link to a master in this process, up or down.
    pub fn master_link(&self) -> Option<Arc<MasterLink>> {
        self.link_slot().clone()
    }

    fn link_slot(&self) -> MutexGuard<'_, Option<Arc<MasterLink>>> {
        self.replication.follower.link.lock_ignoring_poison()
    }

    pub fn is_linked(&self) -> bool {
        self.link_slot().as_ref().is_some_and(|link| link.is_up())
    }

    /// Whether it runs what comes over the link, and says so.
    pub fn set_answering(&self, answers: bool) {
        let follower = &self.replication.follower;
        follower.is_silent.store(!answers, Ordering::Relaxed);
        follower.is_answering.store(answers, Ordering::Relaxed);
        self.call_link();
    }

    pub fn is_answering(&self) -> bool {
        !self.replication.follower.is_silent.load(Ordering::Relaxed)
    }

    /// How the link to the master is.
    pub fn master_link_state(&self) -> MasterLinkState {
        let now = self.clock.millis();
        let follower = &self.replication.follower;
        let since = |time: &AtomicI64| match time.load(Ordering::Relaxed) {
            0 => None,
            time => Some((now - time).max(0)),
        };
        MasterLinkState {
            is_up: self.is_linked(),
            offset: self.replication_offset(),
            silent_for: since(&follower.heard_at).unwrap_or(0),
            down_for: since(&follower.down_since),
        }
    }

    /// Closes the link to the master at both ends.
    pub fn unlink(&self) {
        let Some(link) = self.link_slot().take() else { return };
        let follower = &self.replication.follower;
        follower.down_since.store(self.clock.millis().max(1), Ordering::Relaxed);
        if let Some(master) = link.master.upgrade() {
            master.kill(&link.at_master);
        }
        self.kill(&link.at_replica);
    }

    /// What this replica has is not what its master had at that place of the stream: it needs everything.
    pub fn forget_history(&self) {
        self.replication.follower.has_no_history.store(true, Ordering::Relaxed);
        self.unlink();
        self.call_link();
    }

    /// Makes the link to a master in this process, which begins to send at once. What of it is still to be loaded.
    pub fn link_to(
        &self,
        master: &Arc<Self>,
        own_address: SocketAddr,
        master_address: SocketAddr,
    ) -> Result<Synced, Busy> {
        let follower = &self.replication.follower;
        follower.is_answering.store(self.is_answering(), Ordering::Relaxed);
        let inbox = Arc::new(Inbox {
            bytes: Mutex::default(),
            due: Arc::clone(&follower.due),
            is_answering: Arc::clone(&follower.is_answering),
        });
        let history = (self.is_replicated() && !follower.has_no_history.load(Ordering::Relaxed)).then(|| {
            let offset = self.replication_offset();
            (self.identity.replication_id().current, i64::try_from(offset).unwrap_or(i64::MAX).saturating_add(1))
        });
        let about = ReplicaIntroduction { port: own_address.port(), knows_ids: true, ..ReplicaIntroduction::default() };
        let peer = Peer::Tcp { peer: own_address, local: master_address };
        let at_master = master.clients.add_link(peer, master.clock.millis());
        let request = SyncRequest { history: history.as_ref().map(|(id, first)| (id.as_bytes(), *first)) };
        let synced = match master.attach_instance(&at_master, about, request, &inbox) {
            Ok(synced) => synced,
            Err(busy) => {
                master.kill(&at_master);
                return Err(busy);
            }
        };
        let peer = Peer::Tcp { peer: master_address, local: own_address };
        let at_replica = self.clients.add_link(peer, self.clock.millis());
        at_replica.seen().master.store(true, Ordering::Relaxed);
        let link = MasterLink { master: Arc::downgrade(master), inbox, at_master, at_replica };
        *self.link_slot() = Some(Arc::new(link));
        follower.heard_at.store(self.clock.millis().max(1), Ordering::Relaxed);
        follower.down_since.store(0, Ordering::Relaxed);
        if let Synced::Rest { history } = &synced {
            self.identity.adopt_replication_id(history);
        }
        Ok(synced)
    }

    /// It has now what its master had at this place of a history.
    pub fn adopt_history(&self, history: &str, offset: u64, selected: u32) {
        // What they have may be of another history. They find out when they come back.
        self.close_replicas();
        self.identity.adopt_replication_id(history);
        self.replication.follower.has_no_history.store(false, Ordering::Relaxed);
        let mut stream = self.stream();
        stream.is_on = true;
        stream.offset = offset;
        (stream.selected, stream.database) = (None, selected);
        stream.backlog.clear();
        self.replication.offset.store(offset, Ordering::Release);
        self.active_hooks.arm(Hook::Replicated);
    }

    /// This replica is about to be promoted: which of its master's last changes it is not to have. What a held link has of
    /// earlier ones is let go. How many it has that it has to take back.
    pub fn lose(&self, losing: Losing) -> Result<u64, CommandError> {
        let link = self.master_link().filter(|link| link.is_up());
        let link = link.and_then(|link| Some((link.master.upgrade()?, link)));
        let held = link.as_ref().map_or(0, |(master, link)| master.held_changes(&link.at_master));
        match (losing, link) {
            (Losing::Unreplicated, _) => Ok(0),
            (Losing::Last(_), None) => Err(CommandError::fixed(
                "ERR the link to that replica is down, so the last changes are lost already; leave LOSING out",
            )),
            (Losing::Last(changes), Some((master, link))) => {
                master.let_go(&link.at_master, held.saturating_sub(changes));
                Ok(changes.saturating_sub(held))
            }
        }
    }

    /// What to load and run to be where this replica was before its last so many changes.
    pub fn before_last(&self, changes: u64) -> Result<Rewound, CommandError> {
        self.past().before_last(changes)
    }

    /// Copies all data, for [`before_last`](Self::before_last), if that is due. To be called while nothing is locked.
    pub fn keep_past(&self) {
        let past = self.past();
        let is_due = past.is_empty() || past.is_long();
        drop(past);
        if is_due && let Ok(capture) = self.capture_at_once(Form::Internal) {
            let snapshot = capture.finish();
            let (offset, selected) = (self.replication_offset(), self.selected_by_stream());
            self.past().add(snapshot, offset, selected);
        }
    }

    /// This is what it has.
    pub fn keep_first_past(&self, snapshot: Vec<u8>) {
        let (offset, selected) = (self.replication_offset(), self.selected_by_stream());
        let mut past = self.past();
        *past = Past::default();
        past.add(snapshot, offset, selected);
    }

    pub(in crate::clients::instance) fn forget_past(&self) {
        *self.past() = Past::default();
    }

    fn past(&self) -> MutexGuard<'_, Past> {
        self.replication.follower.past.lock_ignoring_poison()
    }

    /// What this server has sent, or wanted to send, from a place of its stream on, as far as that is kept.
    pub fn written_since(&self, offset: u64) -> Vec<u8> {
        let first = i64::try_from(offset).unwrap_or(i64::MAX).saturating_add(1);
        self.stream().since(first).unwrap_or_default()
    }

    /// Lets so many changes go to a replica, however its link is treated.
    fn let_go(&self, replica: &Client, changes: u64) {
        let mut stream = self.stream();
        if let Some(replica) = stream.replicas.iter_mut().find(|other| other.client.id() == replica.id()) {
            let (bytes, _) = replica.pending.take(Some(changes));
            replica.send(&Message::new(&bytes));
        }
    }

    /// How many changes the link to a replica holds.
    fn held_changes(&self, replica: &Client) -> u64 {
        let stream = self.stream();
        let found = stream.replicas.iter().find(|other| other.client.id() == replica.id());
        found.map_or(0, |replica| replica.pending.changes() as u64)
    }

    /// The database that the stream of the master has selected.
    pub fn selected_by_stream(&self) -> u32 {
        self.stream().database
    }

    /// A part of the master's stream has run here: those that follow this replica get it, too.
    pub fn pass_on(&self, bytes: &[u8], selected: u32) {
        self.replication.follower.heard_at.store(self.clock.millis().max(1), Ordering::Relaxed);
        self.past().note(bytes);
        let mut stream = self.stream();
        (stream.selected, stream.database) = (Some(selected), selected);
        let sent = self.send_to_replicas(&mut stream, bytes, true);
        drop(stream);
        self.follow_up(sent);
    }
}

impl Replica {
    /// Sends it something at once. Returns how many bytes wait.
    pub(super) fn send(&self, message: &Message<'_>) -> usize {
        match &self.inbox {
            Some(inbox) => inbox.push(message.bytes()),
            None => message.send_to(&self.client),
        }
    }

    /// How many bytes wait to be sent, or to be run.
    pub(super) fn waiting(&self) -> usize {
        self.inbox.as_ref().map_or_else(|| self.client.waiting(), |inbox| inbox.len())
    }
}
