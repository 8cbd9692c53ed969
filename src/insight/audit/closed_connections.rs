//! What becomes of the locks of a client whose connection has ended.
//!
//! A client may hold thousands of locks, and have been refused by more. Of those at rest it is remembered alone that the connection has
//! ended ([`RecentEnds`](super::recent_ends::RecentEnds)), and the rules see it when something else happens to the lock. What they would
//! tell at once is told at once, and what concerns more than the lock is done at once.

use std::sync::Arc;

use super::audit_state::{AuditState, MAX_REFUSED};
use super::client_identity::ClientIdentity;
use super::code::Code;
use super::id_pages::IdPages;
use super::journal_line::JournalLine;
use super::lock::LockId;
use super::lock_table::{FETCHED, Place, drop_repeated};
use super::recent_ends::ConnectionEnd;
use super::rules::OFTEN_REFUSED;

impl AuditState {
    /// Ends what a client holds and waits for: its connection ended.
    pub fn close_connection(&mut self, line: &JournalLine<'_>) {
        let key = (line.server, line.client);
        self.processes.leave(key, line.real);
        let Some(state) = self.clients.get(&key) else { return };
        let (client, met) = (state.client.clone(), state.locks_met().map(IdPages::clone));
        self.note_all_refused(&met, &client);
        let end = Arc::new(ConnectionEnd { source: Self::source_of(line, &client), client });
        let [had, awaited] = &met;
        // Of the locks that it awaits, those that still rest need not be looked at.
        let may_skip = self.is_plain() && self.locks.most_awake() < awaited.len();
        let others: Vec<_> = match may_skip {
            true => self.locks.awake().cloned().collect(),
            false => awaited.iter().cloned().collect(),
        };
        let mut ids: Vec<_> = had.iter().chain(&others).collect();
        drop_repeated(&mut ids);
        let mut others = Vec::new();
        for ids in ids.chunks(FETCHED) {
            self.locks.fetch_ahead(line.server, ids.iter().map(|id| (id.db, &*id.key)));
            for id in ids {
                let place = self.locks.place_concerning(id, &end.client);
                if place.is_some_and(|place| !self.close_in_short(id, place, &end, false)) {
                    others.push(Arc::clone(id));
                }
            }
        }
        // In the order in which it is told.
        others.sort();
        others.dedup();
        for id in &others {
            let place = self.locks.place(id.server, id.db, &id.key);
            if !place.is_some_and(|place| self.close_in_short(id, place, &end, true)) {
                let (client, source) = (&end.client, Arc::clone(&end.source));
                self.with_lock(id, Some(client), source, |tracker| tracker.close_connection(client));
            }
        }
        if met.iter().any(|ids| !ids.is_empty()) {
            self.locks.add_end(end, met);
        }
        self.clients.remove(&key);
    }

    /// Remembers for which of the locks that a client has met it waits in vain: what it has done meanwhile may be found out later.
    fn note_all_refused(&mut self, met: &[IdPages; 2], client: &ClientIdentity) {
        let mut awaited = Vec::new();
        for id in met.iter().flat_map(|ids| ids.iter().rev()) {
            if self.locks.has_waiter(id, client) && !awaited.contains(&id) {
                awaited.push(id);
            }
            if awaited.len() == MAX_REFUSED {
                break;
            }
        }
        awaited.into_iter().rev().for_each(|id| self.note_refused(id, client));
    }

    fn note_refused(&mut self, id: &Arc<LockId>, client: &ClientIdentity) {
        let waiters = self.locks.get(id).into_iter().flat_map(|lock| &lock.waiters);
        let own = waiters.into_iter().find(|waiter| waiter.client.is_same_connection(client)).cloned();
        if let Some(waiter) = own {
            if self.refused.len() >= MAX_REFUSED {
                self.refused.pop_front();
            }
            self.refused.push_back((Arc::clone(id), waiter));
        }
    }

    /// Whether all is done at the end of the connection of a client that holds a lock or waits for it: the lock is at rest, and no rule
    /// has anything to tell but that the lock stays behind without an expiry, which `may_tell` allows and is done here.
    fn close_in_short(&mut self, id: &Arc<LockId>, place: Place, end: &Arc<ConnectionEnd>, may_tell: bool) -> bool {
        if !self.is_plain() {
            return false;
        }
        let Some(lock) = self.locks.resting(place) else { return false };
        if lock.was_taken_by(&end.client) {
            let own = lock.refusals().iter().filter(|refusal| refusal.command.client() == end.client.id);
            // Of a key that is not known for a lock it is told once it is.
            let is_told = lock.is_endless() && lock.reasons().are_enough();
            if own.count() as u64 >= OFTEN_REFUSED || is_told && !may_tell {
                return false;
            }
            if is_told {
                let recent = self.locks.recent_ends();
                self.collector.add_if_listed((Code::NoExpiry, 0), id, || lock.left_behind(end, recent));
            }
            self.global.note_left(id, lock.token());
            if let Some(state) = self.clients.get_mut(&(end.client.server, end.client.id)) {
                state.note_had(id);
            }
        }
        true
    }
}
