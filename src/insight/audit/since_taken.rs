//! What has happened to a lock at rest since a client took it: what its holder did, and who was refused.

use std::num::{NonZeroI64, NonZeroU64};
use std::sync::Arc;

use thin_vec::ThinVec;

use super::finding::JournalRef;
use super::guarded_work::GuardedWork;
use super::line_form::NotedCommand;
use super::lock::LockId;
use super::recent_ends::ConnectionEnd;
use super::rules::WaitCommand;

/// What its holder has done since.
#[derive(Clone, Default)]
pub struct HoldersWork {
    /// The hashes of the keys that it has used.
    pub used_keys: Vec<u64>,
    /// What it wrote, until the key is known for a lock.
    pub guarded: Option<Box<GuardedWork>>,
    pub extensions: ThinVec<Extension>,
}

impl HoldersWork {
    pub fn of(used_keys: &[u64], guarded: Option<&GuardedWork>) -> Option<Box<Self>> {
        let work =
            Self { used_keys: used_keys.to_vec(), guarded: guarded.cloned().map(Box::new), extensions: ThinVec::new() };
        work.if_any()
    }

    pub fn if_any(self) -> Option<Box<Self>> {
        let is_any = !self.used_keys.is_empty() || self.guarded.is_some() || !self.extensions.is_empty();
        is_any.then(|| Box::new(self))
    }
}

/// How a client makes sure that a lock is its own which it extends or gives back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum OwnerCheck {
    /// It compares its token in the same step.
    Compared,
    /// It looks at nothing but the key.
    ByKey,
}

/// A command by which the holder gave the lock another deadline, before anybody else had to do with it.
#[derive(Clone)]
pub struct Extension {
    pub command: NotedCommand,
    pub check: OwnerCheck,
    /// The deadline until then.
    pub before: Option<NonZeroI64>,
    pub work: WorkSoFar,
}

/// What a client has done beside locks until it extends one.
#[derive(Clone, Copy)]
pub struct WorkSoFar {
    /// How many keys it has accessed.
    pub keys: u64,
    /// Whether it has accessed any since it held a lock.
    pub has_accessed: bool,
}

/// How its holder gives a lock back.
#[derive(Clone)]
pub struct Release {
    pub check: OwnerCheck,
    /// The command with which it has found its token there, in a step before.
    pub read: Option<Arc<JournalRef>>,
}

/// What has happened since beside the refusals.
#[derive(Clone)]
pub enum Since {
    /// The client deleted the key with this command. There are no refusals then.
    GivenBack(NotedCommand, Release),
    /// The connections of the holder or of clients that were refused have ended. The last ends are in `RecentEnds` alone.
    Ended(ThinVec<Arc<ConnectionEnd>>),
}

/// A refusal of another client.
#[derive(Clone)]
pub struct Refusal {
    pub command: NotedCommand,
    /// What it offered; `None` if that is the value that the lock has.
    value: Option<Box<[u8]>>,
    /// One more than the work.
    work: Option<NonZeroU64>,
}

/// They are many, and each is looked at when its client is refused again.
const _: () = assert!(size_of::<Refusal>() == 56);

impl Refusal {
    /// `offered` is `None` if it was the value that the lock has.
    pub fn new(command: NotedCommand, offered: Option<&[u8]>) -> Self {
        Self { command, value: offered.map(Into::into), work: None }
    }

    /// How many keys beside locks its client had accessed, if it held another lock and is not known to wait for this one.
    pub fn work(&self) -> Option<u64> {
        self.work.map(|work| work.get() - 1)
    }

    pub fn set_work(&mut self, work: Option<u64>) {
        self.work = work.and_then(|work| NonZeroU64::new(work.saturating_add(1)));
    }

    /// The command, at a lock with this token.
    pub fn source(&self, id: &LockId, token: &[u8]) -> Arc<JournalRef> {
        self.command.source(id.server, &id.key, self.value(token))
    }

    /// The same for a wait that it is a part of.
    pub fn of_wait(&self, token: &[u8]) -> WaitCommand {
        WaitCommand::Noted(self.command.clone(), self.value(token).into())
    }

    /// Whether it offered the value that the lock has.
    pub fn is_alike(&self) -> bool {
        self.value.is_none()
    }

    /// What it offered, at a lock with this token.
    pub fn value<'a>(&'a self, token: &'a [u8]) -> &'a [u8] {
        self.value.as_deref().unwrap_or(token)
    }
}
