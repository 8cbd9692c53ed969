//! The locks of a command.

use smallvec::SmallVec;

use super::Local;
use crate::clients::instance::Instance;
use crate::clients::session::Session;
use crate::data::keyspace::{Busy, LockedShard, Scope, View};
use crate::engine::{key_count, key_hashes};
use crate::protocol::Words;
use crate::spec::{CommandSpec, Flag};

/// With so many keys for each shard, a command locks all of them.
const KEYS_OF_A_SHARD: usize = 16;

impl Local {
    /// Whether a session's user may read keys that the arguments of a command do not name.
    pub(super) fn may_read_all_keys(&self, session: &Session, spec: &CommandSpec, words: Words<'_>) -> bool {
        let databases = self.instance.database_context(session);
        self.instance.acl.may_read_all_keys(&session.user, spec, words, databases)
    }

    /// Locks the only key of a command, unless a client is blocked on any key.
    #[inline]
    pub(super) fn lock_only_key(
        &self,
        session: &Session,
        key: Option<(usize, u64)>,
    ) -> Result<Option<(LockedShard<'_>, usize, u64)>, Busy> {
        let Some((index, hash)) = key else { return Ok(None) };
        let keyspace = &self.instance.keyspace;
        let locked = keyspace.lock_shard(hash, session.db)?;
        // A client blocks while it holds the key's lock, so the check is reliable only now.
        Ok(keyspace.waiters().is_empty().then_some((locked, index, hash)))
    }

    pub(super) fn lock_keys(
        &self,
        session: &Session,
        spec: &CommandSpec,
        key: Option<(usize, u64)>,
        words: Words<'_>,
    ) -> Result<View<'_>, Busy> {
        let Instance { keyspace, clock, .. } = &*self.instance;
        if let Some((index, hash)) = key {
            let view = keyspace.lock_key(words.get(index).unwrap_or_default(), hash, session.db, clock)?;
            return self.widen_for_waiters(view, session.db, &[hash], spec.has_flag(Flag::Write));
        }
        if words.len() > KEYS_OF_A_SHARD * keyspace.shards()
            && let Some(view) = self.lock_for_many(session, spec, words)?
        {
            return Ok(view);
        }
        let hashes: SmallVec<[u64; 8]> = key_hashes(spec, words).collect();
        if spec.computes_keys(words) {
            let mut view = keyspace.lock_growing(&hashes, session.db, clock)?;
            view.set_confined(!self.may_read_all_keys(session, spec, words));
            return Ok(view);
        }
        let view = keyspace.lock(Scope::Hashes(&hashes), session.db, clock)?;
        self.widen_for_waiters(view, session.db, &hashes, spec.has_flag(Flag::Write))
    }

    /// Locks the keys that there are, for a command that adds none.
    pub(super) fn lock_existing(&self, session: &Session, scope: Scope<'_>) -> Result<View<'_>, Busy> {
        let Instance { keyspace, clock, .. } = &*self.instance;
        let view = keyspace.lock(scope, session.db, clock)?;
        // A client blocks while it holds the keys' locks. Its command may be served, and add keys.
        if keyspace.waiters().is_empty() {
            return Ok(view);
        }
        view.finish();
        let all = if let Scope::KeysOfAll = scope { Scope::Everything } else { Scope::Database };
        keyspace.lock(all, session.db, clock)
    }

    /// Locks the whole database for a command with so many keys that hardly a shard would stay free: to look which ones are named takes
    /// as long as to read the keys. `None` if it has fewer, or if it matters which keys it locks.
    #[cold]
    fn lock_for_many(&self, session: &Session, spec: &CommandSpec, words: Words<'_>) -> Result<Option<View<'_>>, Busy> {
        let Instance { keyspace, clock, .. } = &*self.instance;
        if spec.computes_keys(words) || key_count(spec, words) <= KEYS_OF_A_SHARD * keyspace.shards() {
            return Ok(None);
        }
        let view = keyspace.lock(Scope::Database, session.db, clock)?;
        // A client blocks while it holds the key's lock.
        Ok(keyspace.waiters().is_empty().then_some(view))
    }

    /// Makes a view growing if it may write a key that a client is blocked on: the command that is served can write
    /// other keys. Even a read can write: it deletes an expired key.
    #[inline]
    pub(super) fn widen_for_waiters<'k>(
        &'k self,
        view: View<'k>,
        db: u32,
        hashes: &[u64],
        writes: bool,
    ) -> Result<View<'k>, Busy> {
        let waiters = self.instance.keyspace.waiters();
        let concerns = |hash| waiters.has_hash(db, hash) && (writes || view.holds_overdue(hash));
        // A client blocks while it holds the key's lock, which the view holds now.
        if waiters.is_empty() || !hashes.iter().any(|&hash| concerns(hash)) {
            return Ok(view);
        }
        view.finish();
        self.instance.keyspace.lock_growing(hashes, db, &self.instance.clock)
    }
}
