//! What one connection remembers, and what others can see and ask of it.

mod client;
mod clients;

use std::sync::Arc;

use crate::keyspace::{Tally, Watch};
use crate::resp::{OwnedWords, Protocol};
use crate::spec::CommandSpec;

pub use client::{Client, Peer, Signal};
pub use clients::Clients;

/// The state of one connection, owned by whoever runs its commands.
pub struct Session {
    /// What other connections see of this one.
    pub client: Arc<Client>,
    pub db: u32,
    pub protocol: Protocol,
    pub authenticated: bool,
    pub replies: Replies,
    /// CLIENT NO-TOUCH: reading a key does not count as using it.
    pub no_touch: bool,
    pub transaction: Option<Transaction>,
    pub watching: Watching,
    /// What its commands did since the statistics were last told.
    pub tally: Tally,
}

/// What CLIENT REPLY asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replies {
    On,
    Off,
    /// CLIENT REPLY SKIP was just read; its own reply is left out, and the next one.
    SkipNext,
    /// The command that now runs gets no reply.
    Skip,
}

/// Commands queued since MULTI.
#[derive(Default)]
pub struct Transaction {
    pub queue: Vec<Queued>,
    /// A command could not be queued, so EXEC will refuse.
    pub broken: bool,
    /// Bytes held by the queue, for limits and CLIENT LIST.
    pub size: usize,
}

/// A command that waits for EXEC. Its options are parsed when it runs.
pub struct Queued {
    pub spec: &'static CommandSpec,
    /// Where its arguments begin.
    pub at: usize,
    pub words: OwnedWords,
}

/// The keys a connection watches.
#[derive(Default)]
pub struct Watching {
    pub watch: Arc<Watch>,
    pub keys: Vec<(u32, Box<[u8]>)>,
}

impl Session {
    pub fn new(client: Arc<Client>, authenticated: bool) -> Self {
        Self {
            client,
            db: 0,
            protocol: Protocol::Resp2,
            authenticated,
            replies: Replies::On,
            no_touch: false,
            transaction: None,
            watching: Watching::default(),
            tally: Tally::default(),
        }
    }

    /// Lets other connections see what this one has become.
    pub fn publish(&self) {
        let queued = self.transaction.as_ref().map(|transaction| (transaction.queue.len(), transaction.size));
        self.client.publish(self.db, self.protocol, queued, self.watching.keys.len());
    }
}
