//! What a view reports if it is wanted: keyspace events, and keys that changed.

/// A class of keyspace events, as a bit of `notify-keyspace-events`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum EventClass {
    /// `g`: commands that are about no type in particular.
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
    /// `x`: a key was deleted because its time had passed.
    Expired = 1 << 8,
    /// `e`: a key was deleted to free memory.
    Evicted = 1 << 9,
    /// `t`
    Stream = 1 << 10,
    /// `m`: a key was read that does not exist.
    KeyMiss = 1 << 11,
    /// `d`
    Module = 1 << 13,
    /// `n`: a key was created.
    New = 1 << 14,
}

/// Bits of the settings that are no class of events.
pub const KEYSPACE_CHANNEL: u32 = 1 << 0;
pub const KEYEVENT_CHANNEL: u32 = 1 << 1;
/// Changed keys are wanted, for client-side caching.
pub const KEY_CHANGES: u32 = 1 << 31;

/// One report of a view.
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
    /// A whole database (or more) was emptied or exchanged.
    Flushed,
}
