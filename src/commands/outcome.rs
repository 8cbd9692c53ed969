//! Commands that may have to wait until there is something to be had.

use crate::base::clock::Millis;
use crate::data::keyspace::ValueKind;
use crate::protocol::{OwnedWords, Reply, Words};

/// The key that has just got something, when a command that waits is tried again; only this one may then be served. `None`
/// at the first attempt, and always on servers that try again as if the command had just come (Redis 7.2 and later).
pub type Ready<'v> = Option<&'v [u8]>;

/// What an attempt has come to.
pub enum Outcome<'v> {
    Done(Reply<'v>),
    /// There is nothing to be had yet. Where nothing may wait (in a transaction, in a script), the client hears the wish's
    /// reply at once.
    Wait(Wish<'v>),
    /// The same, but where nothing may wait the client hears this.
    WaitOr(Wish<'v>, Reply<'static>),
}

/// What a client waits for.
pub struct Wish<'v> {
    /// Any of these keys is to hold something,
    pub keys: Words<'v>,
    /// of this type.
    pub kind: ValueKind,
    /// When the client stops waiting, if ever,
    pub deadline: Option<Millis>,
    /// and what it hears then.
    pub reply: Reply<'static>,
    /// The request to be tried again, if not word for word as it came.
    pub again: Option<OwnedWords>,
}

impl<'v> Outcome<'v> {
    /// What the client hears where nothing may wait.
    pub fn into_reply(self) -> Reply<'v> {
        match self {
            Self::Done(reply) => reply,
            Self::Wait(wish) => wish.reply,
            Self::WaitOr(_, reply) => reply,
        }
    }
}
