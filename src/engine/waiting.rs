//! Clients that wait for a key to hold something, and how they get it.
//!
//! A command that waits is tried again, with the words with which it came, by whoever has put something under one of its
//! keys: in that view, so that nobody comes between, when the command, transaction or script is over. Those who wait for
//! a key have their turn in the order in which they came; only who gets something is woken.

use super::Engine;
use crate::clients::session::{Blocked, Served, Session, Signal, Waiting};
use crate::commands::{BlockForKeys, Handler, ReplyOrBlock};
use crate::data::keyspace::{Busy, Entry, Kind, View};
use crate::protocol::{Reply, Words};
use crate::spec::{Args, ResolvedRow};

impl Engine {
    /// What there is to do before the view of a command, transaction or script ends: those who wait for what it has put
    /// under keys get it, whoever asked for it hears what has happened, and it goes into the statistics.
    #[inline]
    pub(super) fn conclude(&self, view: &mut View<'_>, session: &mut Session) {
        if session.trace.takes_effect() {
            self.stamp(view, session);
        }
        if view.has_something_aside() {
            self.pass_on(view, session);
        }
        session.tally += view.tally();
    }

    #[cold]
    fn pass_on(&self, view: &mut View<'_>, session: &mut Session) {
        if view.has_ready() {
            self.serve(view, Some(session));
        }
        self.instance.announce(view, Some(session));
    }

    /// Lets a view that may write where somebody waits reach every key: those who are served may write elsewhere. What has
    /// run out of time goes away even if it is only read.
    #[inline]
    pub(super) fn widen_for_waiters<'k>(
        &'k self,
        view: View<'k>,
        db: u32,
        hashes: &[u64],
        writes: bool,
    ) -> Result<View<'k>, Busy> {
        let waiters = self.instance.keyspace.waiters();
        let concerns = |hash| waiters.await_hash(db, hash) && (writes || view.holds_overdue(hash));
        // Who begins to wait holds the key's lock, and so does the view.
        if waiters.is_empty() || !hashes.iter().any(|&hash| concerns(hash)) {
            return Ok(view);
        }
        view.finish();
        self.instance.keyspace.lock_growing(hashes, db, &self.instance.clock)
    }

    /// Puts a client into the queues of the keys that it waits for.
    pub(super) fn begin_wait(
        &self,
        session: &Session,
        row: ResolvedRow,
        words: Words<'_>,
        block: BlockForKeys<'_>,
    ) -> Waiting {
        let client = &session.client;
        client.wait_for_keys(Blocked {
            row,
            words: block.retry.unwrap_or_else(|| words.into_owned()),
            db: session.db,
            keys: block.keys.iter().map(Box::from).collect(),
            kind: block.kind,
            protocol: session.protocol,
        });
        self.instance.keyspace.waiters().add(session.db, block.keys.iter(), client.id());
        Waiting::Until { deadline: block.deadline, reply: block.timeout_reply }
    }

    /// Lets those who wait for keys that hold something now have it, key after key. What they write may be what others
    /// wait for, whose turn comes when these have had theirs.
    /// `by` is the session that has put it there; nobody, if time has taken something away.
    #[cold]
    pub(super) fn serve(&self, view: &mut View<'_>, mut by: Option<&mut Session>) {
        let selected = view.db();
        while view.has_ready() {
            for (db, key) in view.take_ready() {
                view.select(db);
                self.serve_key(view, db, &key, by.as_deref_mut());
            }
        }
        view.select(selected);
    }

    fn serve_key(&self, view: &mut View<'_>, db: u32, key: &[u8], mut by: Option<&mut Session>) {
        let waiters = self.instance.keyspace.waiters();
        let mut turn = 0;
        let was_there = view.peek(key).is_some();
        while let Some((next, id)) = waiters.next(db, key, turn) {
            turn = next;
            if was_there && view.peek(key).is_none() {
                break;
            }
            // A client that has gone is about to leave the queues itself.
            let Some(client) = self.instance.clients.get(id) else { continue };
            let serve = |blocked: &Blocked| {
                let reply = self.attempt(view, blocked, key)?;
                let stamp = self.stamp_served(view);
                let is_awaited = by.as_deref().is_none_or(|session| session.is_awaited);
                let alarm = is_awaited.then(|| self.instance.clock.rung_alarm());
                Some(Served { reply, alarm, stamp })
            };
            if let Some(blocked) = client.serve(serve) {
                self.instance.stop_waiting(&client, &blocked);
                client.signal(Signal::Served);
                self.instance.announce(view, by.as_deref_mut());
            }
        }
    }

    /// Tries a command again that waits. The reply, if it need not wait any longer.
    fn attempt(&self, view: &mut View<'_>, blocked: &Blocked, key: &[u8]) -> Option<Vec<u8>> {
        let Blocked { row, words, kind, protocol, .. } = blocked;
        let Handler::Blocking(run) = self.handlers.of(row.id) else { return None };
        // Who reads in a stream's group is told when the stream is gone.
        if *kind != Kind::Stream && view.peek(key).map(Entry::kind) != Some(*kind) {
            return None;
        }
        let profile = &self.instance.profile;
        let ready = (!profile.since_redis(7, 2)).then_some(key);
        let mut args = Args::new(words.as_words(), *row, profile);
        let reply = match run(view, &mut args, ready) {
            Ok(ReplyOrBlock::Block(_)) => return None,
            Ok(ReplyOrBlock::Reply(reply)) => reply,
            Err(error) => {
                self.instance.stats.count_error(error.code());
                Reply::Error(error)
            }
        };
        let mut bytes = Vec::new();
        reply.write(*protocol, &mut bytes);
        Some(bytes)
    }
}
