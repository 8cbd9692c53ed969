//! The lock auditor from Rust: what REDOUBLE AUDIT does on the wire.

use std::sync::Arc;

use super::handle::World;
use super::journal::JournalGuard;
use crate::audit::{Auditor, Finding, Scope, audit, auditor};
#[cfg(feature = "internals")]
use crate::{audit::Keys, commands::all, control::Item, profile::Profile, resp::Words, spec::Table};

impl World {
    /// The lock auditor: it looks at every command that clients send from now on.
    pub fn audit(&self) -> AuditGuard {
        AuditGuard { journal: self.journal() }
    }
}

/// All that the journal of a world has, for this repository's own tests.
#[cfg(feature = "internals")]
pub fn journal_of(world: &World) -> Vec<Item> {
    world.engine().instance.control.journal.items()
}

/// What the clock of a world shows, in microseconds, for this repository's own tests.
#[cfg(feature = "internals")]
pub fn now_of(world: &World) -> i64 {
    world.engine().instance.clock.micros()
}

/// Which keys commands name, for this repository's own tests.
#[cfg(feature = "internals")]
pub fn naming() -> impl for<'w> Fn(Words<'w>) -> Keys<'w> + Send + Sync + 'static {
    let table = Table::new(all(), Profile::default());
    move |words| table.keys(words)
}

/// The audit of a world.
pub struct AuditGuard {
    journal: JournalGuard,
}

impl AuditGuard {
    /// All findings so far, as if nothing more were to come.
    pub fn findings(&self) -> Vec<Arc<Finding>> {
        self.run().findings().to_vec()
    }

    fn run(&self) -> Auditor {
        let engine = self.journal.engine();
        let table = engine.table.clone();
        let auditor = auditor(Scope::default(), move |words| table.keys(words));
        audit(vec![(1, engine.instance.control.journal.items())], auditor)
    }
}
