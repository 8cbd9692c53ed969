//! What a replica says of itself before it asks for data.

/// A replica as it has introduced itself.
#[derive(Clone, Default)]
pub struct ReplicaIntroduction {
    /// Where it says that it can be found; empty and 0 if it has not said it.
    pub address: Vec<u8>,
    pub port: u16,
    /// It keeps the id of the history that it follows, so that it can go on after the id has changed.
    pub knows_ids: bool,
    pub content: SnapshotContent,
    /// It can tell where a snapshot ends whose length it is not told.
    pub knows_end: bool,
    /// It wants no changes after the snapshot.
    pub snapshot_only: bool,
}

/// What is in the snapshot that a replica asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SnapshotContent {
    #[default]
    Everything,
    Functions,
    Nothing,
}
