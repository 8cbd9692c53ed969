//! The connections that have ended last.
//!
//! A client may have taken thousands of locks, and been refused by more. To note at each of those at rest that its connection has ended
//! takes longer than what it did to them; and many are forgotten, or all of them, before anybody asks. So the end is remembered once,
//! with the locks, and who looks at a lock asks here for the ends of the clients that have to do with it. When there are too many, the
//! oldest is noted at its locks.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use foldhash::fast::FixedState;

use super::client_identity::ClientIdentity;
use super::finding::JournalRef;
use super::id_pages::IdPages;
use super::lock::LockId;

/// How many ends are remembered. In a debug build tests are to see all ways.
const MAX_ENDS: usize = if cfg!(debug_assertions) { 2 } else { 256 };
/// With how many locks together: so many times as many as are tracked, and at least so many.
const MOST_MET: usize = 16;
const FEW_MET: usize = 1024;

/// The end of a connection.
pub struct ConnectionEnd {
    pub client: ClientIdentity,
    pub source: Arc<JournalRef>,
}

/// The last ends of connections, and the locks that their clients had to do with: all that rest are among them.
#[derive(Clone, Default)]
pub struct RecentEnds {
    by_client: HashMap<(u16, u64), Arc<RecentEnd>, FixedState>,
    /// The clients, the latest at the end.
    order: VecDeque<(u16, u64)>,
    /// How many locks they had to do with, together.
    met: usize,
}

pub struct RecentEnd {
    pub end: Arc<ConnectionEnd>,
    met: [IdPages; 2],
}

impl RecentEnd {
    pub fn met(&self) -> impl Iterator<Item = &Arc<LockId>> {
        self.met.iter().flat_map(IdPages::iter)
    }

    fn count(&self) -> usize {
        self.met.iter().map(IdPages::len).sum()
    }
}

impl RecentEnds {
    pub fn is_empty(&self) -> bool {
        self.by_client.is_empty()
    }

    /// About how many bytes they take: some of the locks are kept by nothing else any more.
    pub fn memory(&self) -> usize {
        const MET: usize = 24;
        const END: usize = 400;
        self.met * MET + self.order.len() * END
    }

    pub fn push(&mut self, end: Arc<ConnectionEnd>, met: [IdPages; 2]) {
        let (client, recent) = ((end.client.server, end.client.id), RecentEnd { end, met });
        self.met += recent.count();
        self.order.push_back(client);
        self.by_client.insert(client, Arc::new(recent));
    }

    /// Takes the oldest out if there are too many; `tracked` is how many locks there are.
    pub fn take_surplus(&mut self, tracked: usize) -> Option<Arc<RecentEnd>> {
        let is_surplus = self.order.len() > MAX_ENDS || self.met > MOST_MET * tracked + FEW_MET;
        let client = if is_surplus { self.order.pop_front()? } else { return None };
        let oldest = self.by_client.remove(&client)?;
        self.met -= oldest.count();
        Some(oldest)
    }

    /// The end of a client's connection, if it came behind a line of this number.
    pub fn behind(&self, client: (u16, u64), seq: u64) -> Option<&Arc<ConnectionEnd>> {
        self.by_client.get(&client).map(|recent| &recent.end).filter(|end| seq < end.source.seq)
    }

    /// Forgets the clients of a server.
    pub fn forget(&mut self, server: u16) {
        self.order.retain(|(number, _)| *number != server);
        self.by_client.retain(|(number, _), _| *number != server);
        self.met = self.by_client.values().map(|recent| recent.count()).sum();
    }
}
