//! The client of the last command that was processed by its header.

use std::sync::Arc;

use super::client_identity::ClientIdentity;
use crate::base::process::Process;

/// A client's name and process, as a record in memory tells them.
pub type Labels<'a> = (&'a [u8], Option<&'a Arc<Process>>);

/// What was found out of a client for its last command. In a pipeline the next one is of the same client, for which the same is true
/// until a line is processed as a whole.
#[derive(Clone, Default)]
pub struct LastClient {
    of_locks: Option<(ClientIdentity, LabelPlaces)>,
    idle: Option<((u16, u64), LabelPlaces)>,
}

/// Where a client's labels are in memory. They stay there for as long as they are the same.
#[derive(Clone, PartialEq, Eq)]
struct LabelPlaces {
    name: (usize, usize),
    process: Option<usize>,
}

impl LabelPlaces {
    fn of((name, process): Labels<'_>) -> Self {
        let process = process.map(|process| Arc::as_ptr(process).addr());
        Self { name: (name.as_ptr().addr(), name.len()), process }
    }
}

impl LastClient {
    /// The client at a command of this real time, if it is the last one and has the same labels.
    #[inline]
    pub fn at(&self, client: (u16, u64), labels: Labels<'_>, real: i64) -> Option<ClientIdentity> {
        let (by, places) = self.of_locks.as_ref()?;
        let is_it = (by.server, by.id) == client && *places == LabelPlaces::of(labels);
        is_it.then(|| ClientIdentity { seen: real, ..by.clone() })
    }

    /// Whether it is this client.
    #[inline]
    pub fn is(&self, client: (u16, u64)) -> bool {
        self.of_locks.as_ref().is_some_and(|(by, _)| (by.server, by.id) == client)
    }

    /// Notes a client of which all is known that a header does not tell.
    pub fn note(&mut self, by: ClientIdentity, labels: Labels<'_>) -> ClientIdentity {
        self.of_locks = Some((by.clone(), LabelPlaces::of(labels)));
        by
    }

    /// Whether it is this client, with the same labels, and has nothing to do with locks at present.
    #[inline]
    pub fn is_idle(&self, client: (u16, u64), labels: Labels<'_>) -> bool {
        self.idle.as_ref().is_some_and(|(last, places)| *last == client && *places == LabelPlaces::of(labels))
    }

    /// Notes a client that has nothing to do with locks at present.
    pub fn note_idle(&mut self, client: (u16, u64), labels: Labels<'_>) {
        self.idle = Some((client, LabelPlaces::of(labels)));
    }

    /// Something has happened to a lock.
    pub fn forget_idle(&mut self) {
        self.idle = None;
    }

    pub fn forget(&mut self) {
        *self = Self::default();
    }
}
