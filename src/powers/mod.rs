//! The test powers: faults, gates, the explorer of orders, the journal.
//!
//! Knows commands on their way, and replies as bytes; never the keyspace.
//! May use: `base`, `protocol`, `spec`.
//! Begin with [`Control`], which holds the powers of one server, and [`ActiveHooks`], which says what is armed.

mod active_hooks;
mod explore;
mod fault;
mod gate;
mod journal;
mod pattern;
mod wait_queue;

use crate::base::sync::MutexExt;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};

pub use active_hooks::{ActiveHooks, Hook, HookPath};
pub use explore::{Entrant, ExplorationSummary, Explorer, Footprint, Look, Order, Search, Standing};
pub use fault::{Fault, Faults, Rule, Verdict, line_of};
pub use gate::{Gate, Gates, Side};
#[cfg(feature = "internals")]
pub use journal::Event;
pub use journal::{
    Child, ClientRecord, CommandTrace, Ending, Entry, EventKind, Follower, Held, Item, Journal, LEAST_SIZE, Line,
    MOST_SIZE, Outcome, Query, RecordHeader, RecordedLines, Seen, Staging, Stamp, USUAL_SIZE, Unread, distance,
    read_journal, rendered, short_line, write_journal,
};
pub use pattern::{Arrival, Pattern, Who};
pub use wait_queue::{ParkedCommand, Permit, WaitQueue};

/// The test powers of one server.
#[derive(Default)]
pub struct Control {
    pub faults: Faults,
    pub gates: Gates,
    pub journal: Arc<Journal>,
    pub explorer: Explorer,
    /// Faults and gates that were taken away before anything had come to them; gates that nobody opened in time.
    unused: Mutex<[BTreeSet<String>; 3]>,
}

/// Most names that are remembered of what was never used.
const MOST_UNUSED: usize = 1000;

impl Control {
    /// The names of the faults that never fired, also of those that are gone.
    pub fn unfired(&self) -> Vec<String> {
        let gone = self.unused()[0].clone();
        gone.into_iter().chain(self.faults.unfired()).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// The names of the gates that nobody has reached, also of those that are gone.
    pub fn unreached(&self) -> Vec<String> {
        let gone = self.unused()[1].clone();
        gone.into_iter().chain(self.gates.unreached()).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Remembers that a fault is gone, if it never fired.
    pub fn remember_unfired(&self, rule: &Rule) {
        if rule.fired() == 0 {
            remember(&mut self.unused()[0], &rule.fault.name);
        }
    }

    /// Remembers that a gate is gone, if nobody has reached it.
    pub fn remember_unreached(&self, gate: &Gate) {
        if gate.stop.arrived() == 0 {
            remember(&mut self.unused()[1], &gate.name);
        }
    }

    /// The names of the gates that the watchdog had to open for somebody.
    pub fn forgotten(&self) -> Vec<String> {
        self.unused()[2].iter().cloned().collect()
    }

    /// Remembers that the watchdog had to open a gate for somebody.
    pub fn remember_overdue(&self, gate: &Gate) {
        remember(&mut self.unused()[2], &gate.name);
    }

    fn unused(&self) -> MutexGuard<'_, [BTreeSet<String>; 3]> {
        self.unused.lock_ignoring_poison()
    }
}

fn remember(names: &mut BTreeSet<String>, name: &str) {
    if names.len() < MOST_UNUSED {
        names.insert(name.to_owned());
    }
}
