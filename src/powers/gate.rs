//! Gates: places where a test holds commands, to let them go on in the order that it wants.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use smallvec::SmallVec;

use super::active_hooks::{ActiveHooks, Hook};
use super::pattern::{Arrival, Pattern};
use super::wait_queue::{ParkedCommand, WaitQueue};
use crate::base::clock::Clock;
use crate::base::duration::spell_duration;
use crate::base::sync::MutexExt;

/// How many gates there can be.
const MOST_GATES: usize = 10_000;
/// How many bytes the pattern of one can have.
const MOST_BYTES: usize = 64 * 1024;
/// How many of the last commands are remembered, to be shown to who waits at a gate in vain.
const REMEMBERED: usize = 8;
/// How many of those who are held are named when there are too few of them.
const NAMED: usize = 8;

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
    /// After how long in real time whoever is held goes on by itself, zero for never; `None` for what the server's
    /// configuration says.
    pub timeout: Option<Duration>,
    pub stop: Arc<WaitQueue>,
    /// Its place in the order in which the gates were put up, and how many commands had come by then.
    number: u64,
    since: u64,
}

impl Gate {
    /// The gate as it is written on the wire, without its name.
    pub fn words(&self) -> Vec<Vec<u8>> {
        let mut words = self.pattern.words();
        words.push(self.side.name().as_bytes().to_vec());
        if let Some(timeout) = self.timeout {
            words.extend([b"timeout".to_vec(), spell_duration(timeout).into_bytes()]);
        }
        words
    }
}

/// The gates of a server, in the order in which they were added.
#[derive(Default)]
pub struct Gates(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    /// How many gates there have ever been.
    added: u64,
    gates: BTreeMap<u64, Arc<Gate>>,
    numbers: BTreeMap<String, u64>,
    /// How many commands have come while there was a gate, and the last of them.
    came: u64,
    last: VecDeque<Passer>,
    /// Gates that are about to be opened.
    opening: Vec<Arc<Gate>>,
}

/// A command that came while there was a gate.
struct Passer {
    guest: ParkedCommand,
    /// Which in turn it was,
    number: u64,
    /// and the gates that it came to.
    gates: SmallVec<[u64; 2]>,
}

impl Gates {
    /// Puts up a gate. The error says why not.
    pub fn add(
        &self,
        name: &str,
        pattern: Pattern,
        side: Side,
        timeout: Option<Duration>,
        active_hooks: &ActiveHooks,
    ) -> Result<Arc<Gate>, String> {
        let bytes: usize = pattern.words().iter().map(Vec::len).sum();
        if bytes > MOST_BYTES {
            return Err(format!("the words of a gate have at most {MOST_BYTES} bytes; received {bytes}"));
        }
        let mut inner = self.inner();
        if inner.numbers.contains_key(name) {
            return Err(format!("there is a gate '{name}' already"));
        }
        if inner.gates.len() >= MOST_GATES {
            return Err(format!("there are {MOST_GATES} gates already, which is the most there can be"));
        }
        inner.added += 1;
        let (number, since) = (inner.added, inner.came);
        let gate = Gate { name: name.to_owned(), pattern, side, timeout, stop: Arc::default(), number, since };
        let gate = Arc::new(gate);
        inner.gates.insert(number, Arc::clone(&gate));
        inner.numbers.insert(name.to_owned(), number);
        // While the gates are held, so that nobody who takes the last one away lowers it again.
        active_hooks.arm(Hook::Gate);
        Ok(gate)
    }

    pub fn find(&self, name: &str) -> Option<Arc<Gate>> {
        let inner = self.inner();
        inner.gates.get(inner.numbers.get(name)?).cloned()
    }

    /// Takes a gate away: nobody comes there any more. Whoever is held there is still to be let go.
    pub fn take(&self, name: &str, active_hooks: &ActiveHooks) -> Option<Arc<Gate>> {
        let mut inner = self.inner();
        let number = inner.numbers.remove(name)?;
        let gate = inner.gates.remove(&number);
        inner.rest(active_hooks);
        gate
    }

    /// As [`take`](Self::take), for a gate that may have been taken away by now; whether it was there.
    pub fn take_this(&self, gate: &Arc<Gate>, active_hooks: &ActiveHooks) -> bool {
        let mut inner = self.inner();
        let was_there = inner.gates.remove(&gate.number).is_some();
        if was_there {
            inner.numbers.remove(&gate.name);
            inner.rest(active_hooks);
        }
        was_there
    }

    /// Takes all gates away. Whoever is held there is still to be let go.
    pub fn take_all(&self, active_hooks: &ActiveHooks) -> Vec<Arc<Gate>> {
        let mut inner = self.inner();
        inner.numbers.clear();
        let gates = std::mem::take(&mut inner.gates);
        inner.rest(active_hooks);
        gates.into_values().collect()
    }

    pub fn all(&self) -> Vec<Arc<Gate>> {
        self.inner().gates.values().cloned().collect()
    }

    /// The gates that a command comes to in front of its run, or the transaction does that it runs. `guest` is the command
    /// as others are told of it, which is remembered for a while.
    pub fn in_front(
        &self,
        arrival: &Arrival<'_>,
        inside: &[Arrival<'_>],
        guest: impl FnOnce() -> ParkedCommand,
    ) -> VecDeque<Arc<Gate>> {
        let mut inner = self.inner();
        let met: Vec<Arc<Gate>> = inner.met(arrival, inside).cloned().collect();
        inner.came += 1;
        let passer = Passer { guest: guest(), number: inner.came, gates: met.iter().map(|gate| gate.number).collect() };
        if inner.last.len() == REMEMBERED {
            inner.last.pop_front();
        }
        inner.last.push_back(passer);
        drop(inner);
        met.into_iter().filter(|gate| gate.side == Side::Before).collect()
    }

    /// The gates that it comes to behind its run.
    pub fn behind(&self, arrival: &Arrival<'_>, inside: &[Arrival<'_>]) -> VecDeque<Arc<Gate>> {
        self.inner().met(arrival, inside).filter(|gate| gate.side == Side::After).cloned().collect()
    }

    /// The last commands that have come since a gate was put up, and did not come to it.
    fn passers(&self, gate: &Gate) -> Vec<ParkedCommand> {
        let inner = self.inner();
        let passed_by = |passer: &&Passer| passer.number > gate.since && !passer.gates.contains(&gate.number);
        inner.last.iter().filter(passed_by).map(|passer| passer.guest.clone()).collect()
    }

    /// What to say when too few have come to a gate in time: who is held there, or else what has happened instead.
    pub fn too_few(&self, gate: &Gate, wanted: usize, timeout: Duration) -> String {
        let (held, passers) = (gate.stop.parked(), self.passers(gate));
        let instead = if !held.is_empty() {
            named(&held)
        } else if !passers.is_empty() {
            format!("these came last and do not match: {}", named(&passers))
        } else if gate.stop.arrived() > 0 {
            format!("{} have come and gone", gate.stop.arrived())
        } else {
            "no command has come since it was put up".to_owned()
        };
        let (name, held, timeout) = (&gate.name, held.len(), spell_duration(timeout));
        format!("gate '{name}' holds {held} of {wanted} after {timeout}: {instead}")
    }

    /// Has a gate opened with the next look at [`take_opening`](Self::take_opening).
    pub fn open_soon(&self, gate: &Arc<Gate>) {
        self.inner().opening.push(Arc::clone(gate));
    }

    /// The gates that are to be opened now.
    pub fn take_opening(&self) -> Vec<Arc<Gate>> {
        std::mem::take(&mut self.inner().opening)
    }

    /// Lets those go on who have been held for too long, in real time: `usual`, unless their gate says otherwise; never,
    /// if that is zero. Who they were, where, and how long that was.
    pub fn free_overdue(&self, clock: &Arc<Clock>, usual: Duration) -> Vec<(Arc<Gate>, Duration, ParkedCommand)> {
        let gates = self.all();
        let overdue = gates.iter().flat_map(|gate| {
            let longest = gate.timeout.unwrap_or(usual);
            let freed = if longest.is_zero() { Vec::new() } else { gate.stop.release_overdue(clock, longest) };
            freed.into_iter().map(move |guest| (Arc::clone(gate), longest, guest))
        });
        overdue.collect()
    }

    /// The names of the gates that nobody has reached.
    pub fn unreached(&self) -> Vec<String> {
        self.all().iter().filter(|gate| gate.stop.arrived() == 0).map(|gate| gate.name.clone()).collect()
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock_ignoring_poison()
    }
}

impl Inner {
    fn met<'g>(&'g self, arrival: &Arrival<'_>, inside: &[Arrival<'_>]) -> impl Iterator<Item = &'g Arc<Gate>> {
        let concerns =
            |gate: &Gate| gate.pattern.matches(arrival) || inside.iter().any(|arrival| gate.pattern.matches(arrival));
        self.gates.values().filter(move |gate| concerns(gate))
    }

    /// When there is no gate any more, nobody looks for one, and nobody need be remembered.
    fn rest(&mut self, active_hooks: &ActiveHooks) {
        if self.gates.is_empty() {
            self.last.clear();
            active_hooks.disarm(Hook::Gate);
        }
    }
}

fn named(guests: &[ParkedCommand]) -> String {
    let mut names: Vec<String> = guests.iter().take(NAMED).map(ParkedCommand::to_string).collect();
    if guests.len() > NAMED {
        names.push(format!("and {} more", guests.len() - NAMED));
    }
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use smallvec::smallvec;

    use super::*;

    fn arrival(name: &'static str) -> Arrival<'static> {
        Arrival { container: None, name, keys: smallvec![], client: 1, client_name: b"", db: 0 }
    }

    fn come(gates: &Gates, name: &'static str) -> Vec<String> {
        let guest = || ParkedCommand { client: 1, client_name: Vec::new(), words: vec![name.as_bytes().to_vec()] };
        gates.in_front(&arrival(name), &[], guest).iter().map(|gate| gate.name.clone()).collect()
    }

    fn add(gates: &Gates, active_hooks: &ActiveHooks, name: &str, command: &str) -> Arc<Gate> {
        gates.add(name, Pattern::any().command(command), Side::Before, None, active_hooks).unwrap()
    }

    #[test]
    fn a_command_comes_to_its_gates_in_the_order_in_which_they_were_put_up() {
        let (gates, active_hooks) = (Gates::default(), ActiveHooks::default());
        for (name, command) in [("b", "SET"), ("other", "GET"), ("a", "SET")] {
            add(&gates, &active_hooks, name, command);
        }
        assert_eq!(come(&gates, "SET"), ["b", "a"]);
        assert!(gates.take("b", &active_hooks).is_some() && gates.take("b", &active_hooks).is_none());
        add(&gates, &active_hooks, "b", "SET");
        assert_eq!(come(&gates, "SET"), ["a", "b"]);
        assert!(gates.add("a", Pattern::any(), Side::After, None, &active_hooks).is_err());
        assert!(gates.add("long", Pattern::any().key("k".repeat(70_000)), Side::After, None, &active_hooks).is_err());
    }

    #[test]
    fn attention_is_paid_as_long_as_there_is_a_gate() {
        let (gates, active_hooks) = (Gates::default(), ActiveHooks::default());
        add(&gates, &active_hooks, "a", "SET");
        add(&gates, &active_hooks, "b", "SET");
        gates.take("a", &active_hooks);
        assert!(active_hooks.has(Hook::Gate));
        gates.take("b", &active_hooks);
        assert!(!active_hooks.affects_processing());
        add(&gates, &active_hooks, "a", "SET");
        gates.take_all(&active_hooks);
        assert!(!active_hooks.affects_processing() && gates.all().is_empty() && gates.find("a").is_none());
    }

    #[test]
    fn who_passes_a_gate_by_is_remembered_for_a_while() {
        let (gates, active_hooks) = (Gates::default(), ActiveHooks::default());
        add(&gates, &active_hooks, "other", "GET");
        come(&gates, "DEL");
        let gate = add(&gates, &active_hooks, "gate", "SET");
        for name in ["SET", "GET", "INCR"] {
            come(&gates, name);
        }
        let names = |gate| -> Vec<Vec<u8>> { gates.passers(gate).iter().map(|guest| guest.words[0].clone()).collect() };
        assert_eq!(names(&gate), [b"GET".to_vec(), b"INCR".to_vec()]);
        for _ in 0..100 {
            come(&gates, "DEL");
        }
        assert_eq!(names(&gate).len(), REMEMBERED);
    }
}
