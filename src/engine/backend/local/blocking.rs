//! Clients that are blocked on keys, and serving them.
//!
//! A blocked command is retried, with its own arguments, by the command, transaction or script that has written one of
//! its keys: in the same view, so that no other command runs in between. Clients are served in the order in which they
//! blocked; only a client that gets its reply is woken.

use super::Local;
use smallvec::SmallVec;

use crate::clients::session::{BlockedCommand, Client, Served, Session, Signal, Wait};
use crate::commands::{BlockForKeys, Handler, ReplyOrBlock};
use crate::data::keyspace::{Awaited, Busy, Entry, QueuePosition, Stream, ValueKind, View, hash_of};
use crate::engine::journal::{stamp, stamp_served};
use crate::protocol::{Reply, Words};
use crate::spec::{Args, Flag, ResolvedRow};

impl Local {
    /// Finishes the view of a command, transaction or script: takes its place in the journal, serves the clients that
    /// are blocked on what it wrote, publishes events and invalidations, and updates the statistics.
    #[inline]
    pub(super) fn finish_view(&self, view: &mut View<'_>, session: &mut Session) {
        if session.in_flight.trace.takes_effect() {
            stamp(&self.instance, view, session);
        }
        if view.has_effects() {
            self.serve_and_announce(view, session);
        }
        session.view_stats += view.stats();
    }

    #[cold]
    fn serve_and_announce(&self, view: &mut View<'_>, session: &mut Session) {
        self.instance.replicate(view, true);
        if view.has_ready() {
            self.serve(view, Some(session));
        }
        self.instance.announce(view, Some(session));
    }

    /// Adds a client to the queues of the keys that it is blocked on.
    pub(super) fn block_on_keys(
        &self,
        session: &Session,
        row: ResolvedRow,
        words: Words<'_>,
        block: BlockForKeys<'_>,
    ) -> Wait {
        let client = &session.client;
        client.wait_for_keys(BlockedCommand {
            row,
            words: block.retry.unwrap_or_else(|| words.into_owned()),
            db: session.db,
            keys: block.keys.iter().map(Box::from).collect(),
            kind: block.kind,
            protocol: session.protocol,
            retry_at: block.retry_at,
        });
        let awaited = block.awaited.into_iter().map(Some).chain(std::iter::repeat(None));
        let awaited = awaited.map(|awaited| awaited.unwrap_or(Awaited::Value(block.kind)));
        let keys = block.keys.iter().zip(awaited);
        self.instance.keyspace.waiters().add(session.db, keys, client.id());
        Wait::Blocked { deadline: block.deadline, reply: block.timeout_reply }
    }

    /// Serves the clients that are blocked on ready keys, key by key. Their writes can make further keys ready, which
    /// are served afterwards. `by` is the session that wrote; `None` if a key has expired.
    #[cold]
    pub(super) fn serve(&self, view: &mut View<'_>, mut by: Option<&mut Session>) {
        self.instance.replicate(view, false);
        let selected = view.db();
        // A served command runs after the one that wrote, not at its instant: a transaction can take long.
        view.move_to(self.instance.clock.micros());
        while view.has_ready() {
            for (db, key) in view.take_ready() {
                view.select(db);
                self.serve_key(view, db, &key, by.as_deref_mut());
                self.instance.replicate(view, false);
            }
        }
        view.select(selected);
    }

    /// Serves the clients that are blocked on the keys that a client awaits, as if these had been written.
    pub fn retry_waiters_of(&self, client: &Client) -> Result<(), Busy> {
        let Some((db, keys)) = client.awaited_keys() else { return Ok(()) };
        let instance = &self.instance;
        let hashes: SmallVec<[u64; 8]> = keys.iter().map(|key| hash_of(key)).collect();
        let mut view = instance.keyspace.lock_growing(&hashes, db, &instance.clock)?;
        keys.iter().for_each(|key| view.signal(key));
        self.serve(&mut view, None);
        instance.stats.add(instance.finish_view(view, None));
        Ok(())
    }

    fn serve_key(&self, view: &mut View<'_>, db: u32, key: &[u8], mut by: Option<&mut Session>) {
        let mut turn = 0;
        view.peek(key);
        // An expired key was removed by that, ahead of what clients do.
        self.instance.replicate(view, false);
        loop {
            let found = view.peek(key).map(Entry::kind);
            let Some((next, id)) = self.next_due(view, db, key, turn, found) else { break };
            turn = next;
            // A disconnected client leaves the queues itself.
            let Some(client) = self.instance.clients.get(id) else { continue };
            let serve = |blocked: &mut BlockedCommand| {
                let reply = self.retry_blocked(view, blocked, key)?;
                let stamp = stamp_served(&self.instance, view);
                let is_driven = by.as_deref().is_none_or(|session| session.is_driven);
                let alarm = is_driven.then(|| self.instance.clock.rung_alarm());
                Some(Served { reply, alarm, stamp, messages: Vec::new() })
            };
            if let Some(blocked) = client.serve(serve) {
                self.instance.stop_waiting(&client, &blocked);
                client.signal(Signal::Served);
                self.instance.announce(view, by.as_deref_mut());
            }
        }
    }

    /// The next client in a key's queue that what was found there can serve. Those who read a stream as far as it goes, often
    /// thousands, are passed over without running their commands again.
    fn next_due(
        &self,
        view: &mut View<'_>,
        db: u32,
        key: &[u8],
        turn: QueuePosition,
        found: Option<ValueKind>,
    ) -> Option<(QueuePosition, u64)> {
        let waiters = self.instance.keyspace.waiters();
        let is_stream = found == Some(ValueKind::Stream);
        if !self.instance.profile.since_redis(7, 2) {
            let stream = if is_stream { view.peek_found_collection::<Stream>(key) } else { None };
            return waiters.next(db, key, turn, found, |awaited| stream.is_none_or(|stream| awaited.is_in(stream)));
        }
        if !is_stream || view.counts_uses() {
            return waiters.next(db, key, turn, found, |_| true);
        }
        // Since 7.2 they run again: each looks its key up twice, and a consumer was seen.
        let (now, mut passed) = (view.now(), 0);
        let next = view.change_quietly(key, |stream| {
            waiters.next(db, key, turn, found, |awaited| {
                let is_due = awaited.is_in(stream) || !awaited.touch_consumer(stream, now);
                passed += u64::from(!is_due);
                is_due
            })
        });
        view.count_hits(2 * passed);
        next.ok()??
    }

    /// Retries a blocked command. Returns its reply, unless it stays blocked.
    fn retry_blocked(&self, view: &mut View<'_>, blocked: &mut BlockedCommand, key: &[u8]) -> Option<Vec<u8>> {
        let BlockedCommand { row, words, kind, protocol, retry_at, .. } = blocked;
        let Handler::Blocking(run) = self.handlers.of(row.id) else { return None };
        if !is_consumer(*row, *kind) && view.peek(key).map(Entry::kind) != Some(*kind) {
            return None;
        }
        let profile = &self.instance.profile;
        let ready = (!profile.since_redis(7, 2)).then_some(key);
        let mut args = Args::new(words.as_words(), *row, profile);
        let replicated_run = view.begin_replicated_run();
        let reply = match run(view, &mut args, ready) {
            Ok(ReplyOrBlock::Block(block)) => {
                *retry_at = block.retry_at;
                return None;
            }
            Ok(ReplyOrBlock::Reply(reply)) => reply,
            Err(error) => {
                self.instance.stats.count_error(error.code());
                Reply::Error(error)
            }
        };
        let mut bytes = Vec::new();
        reply.write(*protocol, &mut bytes);
        if let Some(run) = replicated_run {
            view.end_replicated_run(run, words.as_words());
            self.instance.replicate(view, true);
        }
        Some(bytes)
    }
}

/// Whether a blocked command is that of a consumer of a stream's group. Unlike one that only reads, it gets an error when the
/// stream is gone.
fn is_consumer(row: ResolvedRow, kind: ValueKind) -> bool {
    kind == ValueKind::Stream && row.spec.has_flag(Flag::Write)
}
