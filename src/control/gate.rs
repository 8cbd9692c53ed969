//! Gates: places where a test holds commands, to let them go on in the order that it wants.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::pattern::{Arrival, Pattern};
use super::stop::Stop;
use crate::clock::Clock;

/// How many gates there can be.
const MOST_GATES: usize = 10_000;

/// On which side of its run a command is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// It has not run yet.
    Before,
    /// It has run, and its client does not know yet.
    After,
}

impl Side {
    pub fn name(self) -> &'static str {
        match self {
            Self::Before => "before",
            Self::After => "after",
        }
    }
}

/// A gate: the commands that fit its pattern wait at its stop.
pub struct Gate {
    pub name: String,
    pub pattern: Pattern,
    pub side: Side,
    pub stop: Arc<Stop>,
}

impl Gate {
    /// What to say when too few have come in time.
    pub fn too_few(&self, wanted: usize, timeout: &str) -> String {
        let guests: Vec<String> = self.stop.guests().iter().map(ToString::to_string).collect();
        let name = &self.name;
        let who = if guests.is_empty() { String::new() } else { format!(": {}", guests.join(", ")) };
        format!("gate '{name}' holds {} of {wanted} after {timeout}{who}", guests.len())
    }
}

/// The gates of a server, in the order in which they were added.
#[derive(Default)]
pub struct Gates(Mutex<Vec<Arc<Gate>>>);

impl Gates {
    /// Puts up a gate. The error says why not.
    pub fn add(&self, name: impl Into<String>, pattern: Pattern, side: Side) -> Result<Arc<Gate>, String> {
        let name = name.into();
        let mut gates = self.gates();
        if gates.iter().any(|gate| gate.name == name) {
            return Err(format!("there is a gate '{name}' already"));
        }
        if gates.len() >= MOST_GATES {
            return Err(format!("there are {MOST_GATES} gates already, which is the most there can be"));
        }
        let gate = Arc::new(Gate { name, pattern, side, stop: Arc::default() });
        gates.push(Arc::clone(&gate));
        Ok(gate)
    }

    pub fn find(&self, name: &str) -> Option<Arc<Gate>> {
        self.gates().iter().find(|gate| gate.name == name).cloned()
    }

    /// Takes a gate away, and lets go whoever is held there.
    pub fn remove(&self, name: &str, clock: &Arc<Clock>) -> Option<Arc<Gate>> {
        let mut gates = self.gates();
        let place = gates.iter().position(|gate| gate.name == name)?;
        let gate = gates.remove(place);
        drop(gates);
        gate.stop.open(clock);
        Some(gate)
    }

    /// As [`remove`](Self::remove), for one that may have been removed by now; whether it was there.
    pub fn remove_this(&self, gate: &Arc<Gate>, clock: &Arc<Clock>) -> bool {
        let mut gates = self.gates();
        let before = gates.len();
        gates.retain(|other| !Arc::ptr_eq(other, gate));
        let is_gone = gates.len() < before;
        drop(gates);
        gate.stop.open(clock);
        is_gone
    }

    /// Takes all gates away, and lets everybody go.
    pub fn clear(&self, clock: &Arc<Clock>) -> Vec<Arc<Gate>> {
        let gates = std::mem::take(&mut *self.gates());
        for gate in &gates {
            gate.stop.open(clock);
        }
        gates
    }

    pub fn is_empty(&self) -> bool {
        self.gates().is_empty()
    }

    pub fn all(&self) -> Vec<Arc<Gate>> {
        self.gates().clone()
    }

    /// The gates that a command comes to, or the transaction that it runs.
    pub fn on_the_way(&self, arrival: &Arrival<'_>, inside: &[Arrival<'_>]) -> Vec<Arc<Gate>> {
        let concerns =
            |gate: &Gate| gate.pattern.matches(arrival) || inside.iter().any(|arrival| gate.pattern.matches(arrival));
        self.gates().iter().filter(|gate| concerns(gate)).cloned().collect()
    }

    /// The names of the gates that nobody has reached.
    pub fn unreached(&self) -> Vec<String> {
        self.gates().iter().filter(|gate| gate.stop.arrived() == 0).map(|gate| gate.name.clone()).collect()
    }

    fn gates(&self) -> MutexGuard<'_, Vec<Arc<Gate>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
