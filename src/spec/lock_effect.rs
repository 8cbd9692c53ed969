//! What a command does to a key that may be a lock.

/// The effect of a command on its keys, as far as locks are concerned. The auditor reads from it, from the words and
/// from the reply what one run did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockEffect {
    /// None, or one that no lock library relies on.
    None,
    /// `key value [options]`: sets, takes (`NX`) or compares and sets (`IFEQ`), by its options.
    SetByOptions,
    /// `key value`: sets a free key, which takes the lock.
    SetIfAbsent,
    /// `key ttl value`
    SetWithTtl(TtlUnit),
    /// `key value`: sets, and returns the old value.
    SetAndReturn,
    /// `key value [key value ...]`
    SetMany,
    /// `key value [key value ...]`: sets all keys if all are free.
    SetManyIfAbsent,
    /// `numkeys key value [key value ...] [options]`
    SetManyByOptions,
    /// Reads the value.
    Get,
    /// `key start end`: reads the value, or a part of it.
    GetRange,
    /// `key [key ...]`
    GetMany,
    /// `key [options]`: reads the value, and changes the deadline by its options.
    GetAndExpire,
    /// Reads the value, and deletes the key.
    GetAndDelete,
    /// Counts which keys there are.
    Exists,
    /// `key [key ...]`: deletes.
    Delete,
    /// `key value`: deletes the key while it has the value.
    DeleteIfEqual,
    /// `key [IFEQ value | ...]`: deletes, by its options only while the key has a value.
    DeleteByOptions,
    /// `key time`: changes the deadline.
    Expire(TtlUnit, TtlFrom),
    /// Takes the deadline away.
    Persist,
    /// `key member increment`: counts a member up or down.
    CountMember,
    /// `key member ...`: sets a member.
    SetMember,
    /// `key ... member`: adds a member.
    AddMember,
    /// `key member`: removes a field of a hash.
    RemoveField,
    /// `key member`: removes a member of a sorted set.
    RemoveMember,
    /// `key member`: looks for a member.
    FindMember,
    /// Counts the members.
    CountMembers,
    /// `key newkey`: the value goes to the new key.
    Rename,
    /// `key newkey`: the value goes to the new key if that is free, which takes the lock.
    RenameIfAbsent,
    /// `key db`: the value goes to another database.
    Move,
    /// `key newkey [DB db] [REPLACE]`: the new key has the value, too.
    Copy,
    /// `key ttl payload [options]`: sets the key to a value that the words do not show.
    Restore,
    /// `one other`: exchanges two databases.
    SwapDatabases,
    /// Deletes all keys of a database.
    FlushDatabase,
    /// Deletes all keys.
    FlushAll,
    /// Writes as nobody writes a lock: a counter, a collection.
    OtherWrite,
}

/// The unit of a time to live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TtlUnit {
    Seconds,
    Millis,
}

/// From when a time to live counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TtlFrom {
    Now,
    /// From 1970.
    Epoch,
}

impl LockEffect {
    /// Whether it is an effect on all keys of a database, or of all databases.
    pub fn is_on_all_keys(self) -> bool {
        matches!(self, Self::FlushAll | Self::FlushDatabase | Self::SwapDatabases)
    }
}
