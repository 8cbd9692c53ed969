//! Those who listen to findings as they come, of each server.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use super::live_state::LiveState;
use crate::base::sync::MutexExt;

/// The servers to whose findings a client subscribes.
#[derive(Default)]
pub struct Subscribers {
    /// A bit for each of these servers.
    servers: AtomicU64,
    /// Those of which the auditor's thread is to tell what is new.
    waiting: AtomicU64,
    /// The number of the last command before the first subscriber came, of the servers that the thread has told nothing of so far.
    since: Mutex<Vec<(u16, u64)>>,
}

impl Subscribers {
    /// Whether there are any.
    pub fn exist(&self) -> bool {
        self.servers.load(Ordering::Relaxed) != 0
    }

    /// There are none of a server any more.
    pub fn end(&self, server: u16) {
        if self.servers.load(Ordering::Relaxed) & bit(server) != 0 {
            self.servers.fetch_and(!bit(server), Ordering::Relaxed);
            self.since(server, true);
        }
    }

    /// There are some of a server, to whom all findings so far are no news. Returns whether there were before.
    pub fn begin(&self, server: u16) -> bool {
        self.servers.fetch_or(bit(server), Ordering::Relaxed) & bit(server) != 0
    }

    /// There are some of a server, and the thread is to tell them what is new. The findings up to the `last` command are no news to the
    /// first of them. Returns whether the thread has to know.
    pub fn ask_thread(&self, server: u16, last: u64) -> bool {
        if self.servers.load(Ordering::Relaxed) & bit(server) == 0 {
            let mut since = self.since.lock_ignoring_poison();
            if !self.begin(server) {
                since.retain(|(known, _)| *known != server);
                since.push((server, last));
            }
        }
        self.waiting.load(Ordering::Relaxed) & bit(server) == 0
            && self.waiting.fetch_or(bit(server), Ordering::AcqRel) & bit(server) == 0
    }

    /// Whether the thread is to tell some of what is new.
    pub fn are_waiting(&self) -> bool {
        self.waiting.load(Ordering::Acquire) != 0
    }

    /// The servers of which the thread is to tell what is new. They are not asked for again where `is_all` says that it tells all.
    pub fn waiting(&self, state: &LiveState, is_all: bool) -> Vec<u16> {
        let waiting = match is_all {
            true => self.waiting.swap(0, Ordering::AcqRel),
            false => self.waiting.load(Ordering::Acquire),
        };
        let waiting = waiting & self.servers.load(Ordering::Relaxed);
        state.servers.iter().map(|known| known.server).filter(|server| waiting & bit(*server) != 0).collect()
    }

    /// The thread tells nobody any more.
    pub fn forget_waiting(&self) {
        self.waiting.store(0, Ordering::Release);
    }

    /// Up to which command the findings of a server are no news. That is forgotten where `is_all` says that all of those are known.
    pub fn since(&self, server: u16, is_all: bool) -> u64 {
        let mut since = self.since.lock_ignoring_poison();
        let Some(at) = since.iter().position(|(known, _)| *known == server) else { return 0 };
        let (_, last) = since[at];
        if is_all {
            since.swap_remove(at);
        }
        last
    }
}

/// The bit of a server; there are at most 64.
fn bit(server: u16) -> u64 {
    1 << (server.saturating_sub(1) % 64)
}
