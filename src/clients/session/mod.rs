//! The state of one connection, and what other connections see and ask of it.
//!
//! Begin with [`Session`]; [`InFlight`] is the command that it runs, [`Flow`] and [`Wait`] say how its connection goes on.

mod call_timer;
mod client;
mod clients;
mod command_queue;
mod flow;
mod in_flight;
mod message;
mod outbox;
mod replica;
mod tracking;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;

use crate::clients::acl::User;
use crate::clients::deployment::DeploymentNode;
use crate::clients::stats::{Counters, add};
use crate::data::keyspace::{ViewStats, Watch, WatchedKey};
use crate::protocol::Protocol;
use crate::spec::CommandSpec;

pub use call_timer::{CallTimer, micros_between};
pub use client::{Activity, BlockedCommand, Claim, Client, Peer, Served, Signal};
pub use clients::Clients;
pub use command_queue::{CommandQueue, Queued};
pub use flow::{ControlJob, Destination, Flow, Wait};
pub use in_flight::{Hooks, InFlight, Stage};
pub use message::Message;
pub use replica::{ReplicaIntroduction, SnapshotContent};
pub use tracking::{Choice, SessionTracking, TrackingMode};

/// The state of one connection, owned by the task that runs its commands.
pub struct Session {
    /// What other connections see of this one.
    pub client: Arc<Client>,
    /// The node of the deployment that it is connected to through this server.
    pub node: Option<Arc<DeploymentNode>>,
    pub db: u32,
    pub protocol: Protocol,
    /// The client's user: the default user, until it authenticates as another.
    pub user: Arc<User>,
    pub authenticated: bool,
    /// Who the client is to the root world, for what touches the process.
    pub at_root: AtRoot,
    pub replies: Replies,
    /// CLIENT NO-TOUCH: reading a key does not count as using it.
    pub no_touch: bool,
    /// CLIENT IMPORT-SOURCE: the client sees expired keys while the server is in import mode.
    pub import_source: bool,
    /// It runs what the master of this replica sends: what has expired is there until the master deletes it, as for an import.
    pub is_master: bool,
    pub transaction: Option<Transaction>,
    /// An empty queue for the next transaction, with the memory of the last one.
    pub spare_queue: CommandQueue,
    pub watching: Watching,
    pub tracking: SessionTracking,
    /// EXEC or a script runs commands inside itself: none of them may block.
    pub executing: bool,
    /// Messages to this connection that go in front of the running command's reply.
    pub messages_ahead: Vec<u8>,
    /// Messages to this connection that the running command has caused, to follow its reply.
    pub messages_behind: Vec<u8>,
    /// It listens to channels.
    pub subscriber: bool,
    /// What it has said of itself as a replica.
    pub introduction: Option<Box<ReplicaIntroduction>>,
    /// How long the stream to replicas was after its last command, if there was one.
    pub replicated: u64,
    /// The row of the last command that other connections see.
    published_command: Option<&'static CommandSpec>,
    /// How many commands it ran since the statistics were last updated.
    pub executed: u64,
    /// What they did.
    pub view_stats: ViewStats,
    /// The command that it runs.
    pub in_flight: InFlight,
    /// The buffer of the running request, if it is long.
    pub received: Option<Bytes>,
    /// The bytes of the running command's reply, behind the line that says how many, if the connection takes them from where they are.
    pub shared_reply: Option<Box<Bytes>>,
    /// Its connection does so.
    pub takes_shared: bool,
    /// A control job waits until everything has happened that follows from what the session does now.
    pub is_driven: bool,
    /// How long its commands take.
    pub timer: CallTimer,
    /// The counters of the thread that runs its commands.
    pub counters: Arc<Counters>,
}

/// Who a client is to the root world. A space has users of its own, and any client may make some there: they say nothing
/// about what the client may do to the process and its files.
#[derive(Clone)]
pub enum AtRoot {
    /// The session is in the root world, with the user that it has.
    Here,
    /// The session is in a space, and its client has authenticated as this user of the root world.
    As(Arc<User>),
    /// The session is in a space, and its client has logged out.
    Nobody,
}

/// What CLIENT REPLY asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replies {
    On,
    Off,
    /// CLIENT REPLY SKIP was just run: the next command gets no reply.
    SkipNext,
    /// The command that now runs gets no reply.
    Skip,
}

impl Replies {
    /// Whether a reply that is due now is suppressed.
    pub fn are_suppressed(self) -> bool {
        matches!(self, Self::Off | Self::Skip)
    }

    /// The setting for the command after the one that has just run.
    pub fn for_next(self) -> Self {
        match self {
            Self::SkipNext => Self::Skip,
            Self::Skip => Self::On,
            other => other,
        }
    }
}

/// Commands queued since MULTI.
#[derive(Default)]
pub struct Transaction {
    pub queue: CommandQueue,
    /// A command could not be queued, so EXEC is refused.
    pub broken: bool,
    /// The database that the last queued SELECT names.
    pub selected: Option<u32>,
}

/// The keys a connection watches.
#[derive(Default)]
pub struct Watching {
    pub watch: Arc<Watch>,
    pub keys: Vec<WatchedKey>,
}

impl Watching {
    /// What is watched, if anything is: nothing is watched from now on.
    pub fn take(&mut self) -> Option<Self> {
        (!self.keys.is_empty()).then(|| std::mem::take(self))
    }
}

impl Session {
    /// A session of the default user.
    pub fn new(client: Arc<Client>, user: &Arc<User>, counters: Arc<Counters>) -> Self {
        client.labels().user = Some(Arc::clone(user));
        Self {
            client,
            node: None,
            db: 0,
            protocol: Protocol::Resp2,
            user: Arc::clone(user),
            authenticated: user.is_open(),
            at_root: AtRoot::Here,
            replies: Replies::On,
            no_touch: false,
            import_source: false,
            is_master: false,
            transaction: None,
            spare_queue: CommandQueue::default(),
            watching: Watching::default(),
            tracking: SessionTracking::default(),
            executing: false,
            messages_ahead: Vec::new(),
            messages_behind: Vec::new(),
            subscriber: false,
            introduction: None,
            replicated: 0,
            published_command: None,
            executed: 0,
            view_stats: ViewStats::default(),
            in_flight: InFlight::default(),
            received: None,
            shared_reply: None,
            takes_shared: false,
            is_driven: false,
            timer: CallTimer::default(),
            counters,
        }
    }

    /// The database in which a command runs that is queued, or run, now.
    pub fn database(&self) -> u32 {
        let queued = self.transaction.as_ref().filter(|_| !self.executing);
        queued.and_then(|transaction| transaction.selected).unwrap_or(self.db)
    }

    /// MULTI: opens a transaction.
    pub fn open_transaction(&mut self) {
        let queue = std::mem::take(&mut self.spare_queue);
        self.transaction = Some(Transaction { queue, ..Transaction::default() });
    }

    /// A transaction has ended: keeps the memory of its queue for the next one, unless it is large.
    pub fn recycle(&mut self, transaction: Transaction) {
        self.spare_queue = transaction.queue.recycled().unwrap_or_default();
    }

    /// Changes the protocol. Others that send to the connection see it at once.
    pub fn set_protocol(&mut self, protocol: Protocol) {
        self.protocol = protocol;
        self.client.seen().resp3.store(protocol == Protocol::Resp3, Ordering::Relaxed);
    }

    /// Changes the client's user.
    pub fn become_user(&mut self, user: &Arc<User>, authenticated: bool) {
        self.client.labels().user = Some(Arc::clone(user));
        self.user = Arc::clone(user);
        self.authenticated = authenticated;
    }

    /// Adds to the statistics what was done since they were last updated.
    pub fn count(&mut self) {
        let executed = std::mem::take(&mut self.executed);
        add(&self.counters.commands, executed);
        add(&self.client.seen().commands, executed);
        self.counters.add(std::mem::take(&mut self.view_stats));
    }

    /// Lets other connections see the session's state.
    pub fn publish(&mut self) {
        let (queued, bytes) = match &self.transaction {
            Some(transaction) => (transaction.queue.len() as i64, transaction.queue.size()),
            None => (-1, 0),
        };
        let seen = self.client.seen();
        seen.db.store(self.db, Ordering::Relaxed);
        seen.resp3.store(self.protocol == Protocol::Resp3, Ordering::Relaxed);
        seen.queued.store(queued, Ordering::Relaxed);
        seen.queued_bytes.store(bytes, Ordering::Relaxed);
        seen.watched.store(self.watching.keys.len(), Ordering::Relaxed);
        seen.touched.store(self.watching.watch.is_touched(), Ordering::Relaxed);
        seen.no_touch.store(self.no_touch, Ordering::Relaxed);
        seen.import_source.store(self.import_source, Ordering::Relaxed);
        let same = match (self.in_flight.row, self.published_command) {
            (Some(last), Some(published)) => std::ptr::eq(last, published),
            (last, published) => last.is_none() && published.is_none(),
        };
        if !same {
            self.client.labels().last_command = self.in_flight.row;
            self.published_command = self.in_flight.row;
        }
    }
}
