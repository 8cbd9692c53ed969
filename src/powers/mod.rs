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
mod line;
mod node_info;
mod pattern;
mod wait_queue;

use crate::base::sync::MutexExt;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};

pub use active_hooks::{ActiveHooks, Hook, HookPath};
pub use explore::{
    Action, Chaos, ClientOf, Deadlines, ExplorationSummary, Explorer, Footprint, HeldLink, HeldLinks, Hold, MOST_HELD,
    NextTurn, Observes, Order, OrdersLeft, RacerState, RacingCommand, RunId, Search, Surroundings, TurnEvent,
};
pub use fault::{Fault, Faults, Precedence, Rule, Verdict, VerdictKind};
pub use gate::{Gate, Gates, Side};
pub use journal::{
    Child, Children, ClientRecord, CommandFeed, CommandTrace, EffectOrder, Ending, Entry, Event, EventKind, Follower,
    Item, Journal, JournalFeed, JournalView, LEAST_SIZE, Line, LockedJournal, MONITOR_SCRIPT, MOST_SIZE, MonitorReader,
    MonitoredScripts, Outcome, Query, RanInside, RawRecord, RecordHeader, RecordedLines, ShownLine, Staging, Stamp,
    StoredRecord, USUAL_SIZE, Urgency, ValueClass, distance, exported_journal, hashed_value, is_shown_as_it_is,
    push_line, read_journal, rendered, shared_line, short_line, write_journal, write_monitor_line,
};
#[cfg(feature = "internals")]
pub use journal::{MonitorLine, MonitorSource};
pub use line::line_of;
pub use node_info::{NodeInfo, NodeRole, NodeSelector, NodeSnapshot};
pub use pattern::{ClientSelector, CommandInfo, Pattern};
pub use wait_queue::{ParkedCommand, Permit, WaitQueue};

/// The test powers of one server.
#[derive(Default)]
pub struct Control {
    pub faults: Faults,
    pub gates: Gates,
    pub journal: Arc<Journal>,
    /// Shared with the replicas that were started with it.
    pub explorer: Arc<Explorer>,
    reported: Mutex<Reported>,
}

/// What the server reports at its end, by name.
#[derive(Default)]
struct Reported {
    /// Faults that were removed without having fired.
    unfired: BTreeSet<String>,
    /// Gates that were removed without having held a command.
    unreached: BTreeSet<String>,
    /// Gates from which the watchdog released a command.
    timed_out: BTreeSet<String>,
}

/// The most names of one kind that are kept for the report.
const MOST_REPORTED: usize = 1000;

impl Control {
    /// The names of the faults that never fired, removed ones included.
    pub fn unfired(&self) -> Vec<String> {
        let gone = self.reported().unfired.clone();
        gone.into_iter().chain(self.faults.unfired()).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// The names of the gates that no command has reached, removed ones included.
    pub fn unreached(&self) -> Vec<String> {
        let gone = self.reported().unreached.clone();
        gone.into_iter().chain(self.gates.unreached()).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Keeps the name of a fault that is removed, if it never fired.
    pub fn remember_unfired(&self, rule: &Rule) {
        if rule.fired() == 0 {
            remember(&mut self.reported().unfired, &rule.fault.name);
        }
    }

    /// Keeps the name of a gate that is removed, if no command has reached it.
    pub fn remember_unreached(&self, gate: &Gate) {
        if gate.queue.arrived() == 0 {
            remember(&mut self.reported().unreached, &gate.name);
        }
    }

    /// The names of the gates from which the watchdog released a command.
    pub fn timed_out_gates(&self) -> Vec<String> {
        self.reported().timed_out.iter().cloned().collect()
    }

    /// Keeps the name of a gate from which the watchdog released a command.
    pub fn remember_timed_out(&self, gate: &Gate) {
        remember(&mut self.reported().timed_out, &gate.name);
    }

    fn reported(&self) -> MutexGuard<'_, Reported> {
        self.reported.lock_ignoring_poison()
    }
}

fn remember(names: &mut BTreeSet<String>, name: &str) {
    if names.len() < MOST_REPORTED {
        names.insert(name.to_owned());
    }
}
