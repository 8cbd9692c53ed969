//! What happens to a lock, as the rules see it.

use std::sync::Arc;

use super::client_state::LockRead;
use super::effect::{ExpiryChange, Intent, Precondition};
use super::finding::JournalRef;
use super::lock::{FlushCause, Hold};
use super::lock_reason::LockReasons;

/// An event of one lock. Positions are those in the lock's `holds`.
#[derive(Debug)]
pub enum LockEvent<'a> {
    /// A client got the lock: the last of `holds` is new. The other holds in there believe to have it, too.
    Acquired {
        /// The old value, for a lock that was taken over.
        old: Option<&'a [u8]>,
    },
    /// A client was refused.
    Refused {
        /// The value that it offered.
        value: &'a [u8],
    },
    /// A client read the key.
    Read { value: Option<&'a [u8]> },
    /// A client is about to delete the key. `hold` is the one that the server agrees with.
    Deleted {
        hold: Option<usize>,
        precondition: Precondition<'a>,
        /// The client releases its own lock: by its connection, or by its token.
        is_release: bool,
        /// The client's last read of the key.
        read: Option<LockRead>,
    },
    /// A release or extension found no lock, or not the client's own, and the reply said so. `had_held` is whether the
    /// client once held the lock: how that ended is in `past_holds`.
    NotOwned { token: Option<&'a [u8]>, intent: Intent, had_held: bool },
    /// The key is about to get another deadline. `hold` is the one that the server agrees with.
    Extended {
        hold: Option<usize>,
        precondition: Precondition<'a>,
        /// The holder extends it: by its connection, or by its token.
        is_own: bool,
        expiry: ExpiryChange,
        /// The new deadline, in milliseconds.
        deadline: Option<i64>,
        /// The new value, if the command writes one.
        value: Option<&'a [u8]>,
    },
    /// A client that does not hold the lock is about to overwrite its value. `hold` is the one that the server agrees
    /// with.
    Overwritten {
        hold: Option<usize>,
        value: &'a [u8],
        deadline: Option<i64>,
        /// GETSET, which returns the old value.
        by_getset: bool,
        /// The client's last read of the key.
        read: Option<LockRead>,
    },
    /// The time of a hold is over; it is about to end.
    Expired { hold: usize },
    /// The connection of a holder ended.
    ConnectionClosed { hold: usize },
    /// The lock is about to go with all keys of its database.
    Flushed { hold: usize, cause: FlushCause },
    /// The server is about to evict the lock.
    Evicted { hold: usize },
    /// The node that had the lock was replaced by one that may not have it. `failover` of its holds says so.
    FailedOver,
    /// The former master had given the lock, too, and what it had is lost.
    GivenElsewhere,
    /// A master that was cut off and replaced has given the lock, or extended it, and the one in its place has given it, too.
    GivenByTwo {
        old: &'a Hold,
        new: &'a Hold,
        /// Why the key is a lock, as far as the former master has shown.
        reasons: LockReasons,
        /// The line that says that it was replaced.
        replaced: &'a Arc<JournalRef>,
        successor: &'a str,
    },
    /// A client reads or writes a key while it holds the lock. Comes only after a WAIT that has answered less than asked for.
    WorkedUnder { by: (u16, u64), key: &'a [u8] },
    /// A client writes a key that it or others accessed while they held the lock, and its hold is over: how is in `past_holds`, or
    /// the client still believes to hold it.
    WroteAfterLoss {
        key: &'a [u8],
        /// It had not accessed the key before, but other holders of the lock have.
        is_first: bool,
    },
    /// A client writes something after its hold is over, on the condition that nobody else has written it.
    WroteGuarded,
    /// The journal ends, and a client holds the lock.
    HeldAtEnd { hold: usize },
    /// The key vanished without a command naming it.
    KeyVanished { cause: VanishCause },
    /// Who holds the lock is unknown from now on: all holds end.
    Doubted,
    /// The journal ends. Comes once, after the `HeldAtEnd` of each hold.
    AuditEnded,
}

/// Why a key vanished without a command naming it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VanishCause {
    /// Its deadline passed.
    Expired,
    /// All keys of its database went.
    Flushed(FlushCause),
    /// The server evicted it.
    Evicted,
}
