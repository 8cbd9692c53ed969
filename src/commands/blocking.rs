//! What blocking commands (BLPOP, XREAD BLOCK …) return: a reply, or the keys to block on.

use crate::base::clock::Millis;
use crate::base::error::CommandError;
use crate::base::profile::Since;
use crate::data::keyspace::{Awaited, ValueKind};
use crate::protocol::{OwnedWords, Reply, Words};

/// The releases in which scripts may call blocking commands: these return at once.
pub(super) const FROM_SCRIPTS: Since = Since::redis(7, 2, 0);

pub type BlockingResult<'v> = Result<ReplyOrBlock<'v>, CommandError>;

/// The key that made a blocked command run again, if the server serves only that key (Redis before 7.2). `None` in the
/// first attempt, and always where a blocked command runs again from the start (Redis 7.2 and later).
pub type ReadyKey<'v> = Option<&'v [u8]>;

/// Whether this attempt may take elements from a key.
pub(super) fn may_serve(key: &[u8], ready: ReadyKey<'_>) -> bool {
    ready.is_none_or(|ready| ready == key)
}

pub enum ReplyOrBlock<'v> {
    Reply(Reply<'v>),
    Block(BlockForKeys<'v>),
}

/// A request to block until one of several keys holds a value of a type.
pub struct BlockForKeys<'v> {
    pub keys: Words<'v>,
    pub kind: ValueKind,
    /// What exactly is awaited at each key; any value of the type at those for which nothing stands here.
    pub awaited: Vec<Awaited>,
    /// `None` blocks for ever.
    pub deadline: Option<Millis>,
    pub timeout_reply: Reply<'static>,
    /// The reply in transactions and scripts, where no command blocks.
    pub denied_reply: Reply<'static>,
    /// When to run the request again even if no key is ready: time alone can serve it then.
    pub retry_at: Option<Millis>,
    /// The request to run when a key is ready, if it differs from the original one.
    pub retry: Option<OwnedWords>,
}

impl<'v> BlockForKeys<'v> {
    /// For commands whose reply to a time-out, and where they must not block, is a null array.
    pub fn new(keys: Words<'v>, kind: ValueKind, deadline: Option<Millis>) -> Self {
        let (timeout_reply, denied_reply) = (Reply::NullArray, Reply::NullArray);
        let awaited = Vec::new();
        Self { keys, kind, awaited, deadline, timeout_reply, denied_reply, retry_at: None, retry: None }
    }
}

impl<'v> ReplyOrBlock<'v> {
    /// The reply in transactions and scripts.
    pub fn without_blocking(self) -> Reply<'v> {
        match self {
            Self::Reply(reply) => reply,
            Self::Block(block) => block.denied_reply,
        }
    }
}
