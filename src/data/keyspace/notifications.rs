//! Notifications of a view, made on request: keyspace events and changed keys.

/// A class of keyspace events, as a bit of `notify-keyspace-events`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum EventClass {
    /// `g`: commands that concern all types.
    Generic = 1 << 2,
    /// `$`
    String = 1 << 3,
    /// `l`
    List = 1 << 4,
    /// `s`
    Set = 1 << 5,
    /// `h`
    Hash = 1 << 6,
    /// `z`
    SortedSet = 1 << 7,
    /// `x`: a key was deleted because it expired.
    Expired = 1 << 8,
    /// `e`: a key was deleted to free memory.
    Evicted = 1 << 9,
    /// `t`
    Stream = 1 << 10,
    /// `m`: a read of a key that does not exist.
    KeyMiss = 1 << 11,
    /// `d`
    Module = 1 << 13,
    /// `n`: a key was created.
    New = 1 << 14,
}

/// Bits that are no event class.
pub const KEYSPACE_CHANNEL: u32 = 1 << 0;
pub const KEYEVENT_CHANNEL: u32 = 1 << 1;
/// Changes of keys are wanted, for client-side caching.
pub const KEY_CHANGES: u32 = 1 << 31;
/// No notification, but here because every view reads these bits: expired keys are not deleted (CLIENT PAUSE).
pub const EXPIRY_PAUSED: u32 = 1 << 30;

/// Import mode (Valkey): expired keys are deleted only when they are written, deadlines may be set in the past, and the
/// clients that import see expired keys.
pub const IMPORT_MODE: u32 = 1 << 26;

/// Bits that are no notification, but are looked at together with them: each key's usage is how often it is used, as LFU
/// policies need it.
pub const COUNTS_USES: u32 = 1 << 27;
/// Keys share no small integers, because each must have a usage of its own.
pub const OWN_INTEGERS: u32 = 1 << 29;
/// The memory of all keys is summed up, because it is limited.
pub const SUMS_MEMORY: u32 = 1 << 28;

/// What commands change is sent to replicas.
pub const REPLICATED: u32 = 1 << 25;

/// One notification of a view.
#[derive(Debug, PartialEq, Eq)]
pub enum Notification {
    Event {
        class: EventClass,
        name: &'static str,
        db: u32,
        key: Box<[u8]>,
    },
    /// A key was written or deleted, or has expired.
    Changed {
        key: Box<[u8]>,
        expired: bool,
    },
    /// A database, or several, was flushed or swapped.
    Flushed,
}
