//! What a view's commands send to replicas.
//!
//! A command that has changed something is sent as it came, unless its function has said what to send instead: what
//! depends on the time, on chance, or on what was there before would become something else elsewhere.

use std::sync::atomic::{AtomicBool, Ordering};

use super::View;
use crate::data::keyspace::notifications::REPLICATED;
use crate::protocol::{OwnedWords, Words};

/// A command as replicas get it.
pub struct Replicated {
    pub db: u32,
    pub words: OwnedWords,
}

#[derive(Default)]
pub(super) struct Replication {
    commands: Vec<Replicated>,
    /// The running command has said what to send instead of it.
    is_rewritten: bool,
    /// What to send instead of the running command if it changes something.
    replacement: Option<OwnedWords>,
    /// The running script has asked for its commands not to be sent.
    is_off: bool,
}

/// The changes that were counted when a command began.
#[derive(Clone, Copy)]
pub struct ReplicatedRun {
    changes: u64,
}

impl View<'_> {
    /// Whether there are replicas, or were some a while ago.
    #[inline]
    pub fn is_replicated(&self) -> bool {
        self.wanted & REPLICATED != 0
    }

    /// A command begins to run. `None` if nobody wants to know what it does.
    #[inline]
    pub fn begin_replicated_run(&mut self) -> Option<ReplicatedRun> {
        if !self.is_replicated() {
            return None;
        }
        Some(self.begin_run())
    }

    #[cold]
    fn begin_run(&mut self) -> ReplicatedRun {
        if let Some(effects) = &mut self.effects {
            effects.replication.is_rewritten = false;
            effects.replication.replacement = None;
        }
        ReplicatedRun { changes: self.own_changes() }
    }

    /// Whether the command that has run is all that this view has to send, as it came.
    #[inline]
    pub fn is_sent_as_it_came(&self, run: ReplicatedRun) -> bool {
        let says_nothing = |replication: &Replication| {
            let Replication { commands, is_rewritten, replacement, is_off } = replication;
            commands.is_empty() && !is_rewritten && replacement.is_none() && !is_off
        };
        self.own_changes() != run.changes
            && self.effects.as_ref().is_none_or(|effects| says_nothing(&effects.replication))
    }

    /// A command has run: it is sent if it has changed something, or has said what to send.
    #[cold]
    pub fn end_replicated_run(&mut self, run: ReplicatedRun, words: Words<'_>) {
        if self.own_changes() == run.changes {
            return;
        }
        let replication = &mut self.effects().replication;
        if !replication.is_rewritten {
            let replacement = replication.replacement.take();
            self.push(replacement.unwrap_or_else(|| words.into_owned()));
        }
    }

    /// Sends this instead of the running command. Called several times, it sends all of these.
    pub fn replicate_as(&mut self, words: &[&[u8]]) {
        if self.is_replicated() {
            self.effects().replication.is_rewritten = true;
            self.push(words.iter().copied().collect());
        }
    }

    /// Sends this instead of the running command if that changes something.
    pub fn replicate_changes_as(&mut self, words: &[&[u8]]) {
        if self.is_replicated() {
            self.effects().replication.replacement = Some(words.iter().copied().collect());
        }
    }

    /// Sends the running command as it came, although it may have changed nothing.
    pub fn replicate_anyway(&mut self, words: Words<'_>) {
        if self.is_replicated() {
            self.effects().replication.is_rewritten = true;
            self.push(words.into_owned());
        }
    }

    /// Sends nothing of the running command but what it has said so far.
    pub fn replicate_no_more(&mut self) {
        if self.is_replicated() {
            self.effects().replication.is_rewritten = true;
        }
    }

    /// Sends the removal of a key that no command has removed.
    pub(super) fn replicate_removal(&mut self, key: &[u8], lazily: &AtomicBool) {
        if self.is_replicated() {
            let name: &[u8] = if lazily.load(Ordering::Relaxed) { b"UNLINK" } else { b"DEL" };
            self.push([name, key].into_iter().collect());
        }
    }

    /// Whether the commands that follow are sent (`redis.set_repl`).
    pub fn set_replicating(&mut self, sends: bool) {
        if self.is_replicated() {
            self.effects().replication.is_off = !sends;
        }
    }

    #[inline]
    pub fn has_replicated(&self) -> bool {
        self.effects.as_ref().is_some_and(|effects| !effects.replication.commands.is_empty())
    }

    /// Takes what is to be sent so far, in order.
    pub fn take_replicated(&mut self) -> Vec<Replicated> {
        self.effects.as_mut().map(|effects| std::mem::take(&mut effects.replication.commands)).unwrap_or_default()
    }

    #[cold]
    fn push(&mut self, words: OwnedWords) {
        let db = self.db;
        let replication = &mut self.effects().replication;
        if !replication.is_off {
            replication.commands.push(Replicated { db, words });
        }
    }

    /// The changes so far without those by expiry, which are sent for themselves.
    fn own_changes(&self) -> u64 {
        self.stats.changes.wrapping_sub(self.expiries)
    }
}
