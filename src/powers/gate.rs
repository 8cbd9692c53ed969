//! Gates: a test holds commands there, and releases them in the order that it wants.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use smallvec::SmallVec;

use super::active_hooks::{ActiveHooks, Hook};
use super::pattern::{CommandInfo, Pattern};
use super::wait_queue::{ParkedCommand, WaitQueue};
use crate::base::clock::Clock;
use crate::base::duration::spell_duration;
use crate::base::sync::MutexExt;

/// The most gates of a server.
const MOST_GATES: usize = 10_000;
/// The most bytes of a gate's pattern.
const MOST_BYTES: usize = 64 * 1024;
/// How many recent commands are kept, to explain a GATE WAIT that timed out.
const MOST_RECENT: usize = 8;
/// How many commands such an explanation shows.
const MOST_SHOWN: usize = 8;

/// When a command is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Before it runs.
    Before,
    /// After it has run, before its reply is sent.
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

/// A gate: commands that match its pattern wait in its queue.
pub struct Gate {
    pub name: String,
    pub pattern: Pattern,
    pub side: Side,
    /// How long a command is held at most, in real time; zero: for ever; `None`: as `gate-timeout` says.
    pub timeout: Option<Duration>,
    pub queue: Arc<WaitQueue>,
    /// Its number in the order of adding.
    number: u64,
    /// How many commands had been seen when it was added.
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
    /// How many gates were ever added.
    added: u64,
    gates: BTreeMap<u64, Arc<Gate>>,
    numbers: BTreeMap<String, u64>,
    /// How many commands were seen while there was a gate.
    seen: u64,
    recent: VecDeque<RecentCommand>,
    /// Gates that the next control job opens.
    opening: Vec<Arc<Gate>>,
}

/// A command that was seen while there was a gate.
struct RecentCommand {
    command: ParkedCommand,
    number: u64,
    /// The gates that it matched.
    gates: SmallVec<[u64; 2]>,
}

impl Gates {
    /// Adds a gate. The error says why not.
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
        let (number, since) = (inner.added, inner.seen);
        let gate = Gate { name: name.to_owned(), pattern, side, timeout, queue: Arc::default(), number, since };
        let gate = Arc::new(gate);
        inner.gates.insert(number, Arc::clone(&gate));
        inner.numbers.insert(name.to_owned(), number);
        // Raised under the lock, so that removing the last gate cannot lower it afterwards.
        active_hooks.arm(Hook::Gate);
        Ok(gate)
    }

    pub fn find(&self, name: &str) -> Option<Arc<Gate>> {
        let inner = self.inner();
        inner.gates.get(inner.numbers.get(name)?).cloned()
    }

    /// Removes a gate: it holds no further command. The caller releases those that it holds.
    pub fn remove(&self, name: &str, active_hooks: &ActiveHooks) -> Option<Arc<Gate>> {
        let mut inner = self.inner();
        let number = inner.numbers.remove(name)?;
        let gate = inner.gates.remove(&number);
        inner.lower_hook_if_empty(active_hooks);
        gate
    }

    /// As [`remove`](Self::remove), for a gate that may have been removed already; returns whether it was there.
    pub fn remove_this(&self, gate: &Arc<Gate>, active_hooks: &ActiveHooks) -> bool {
        let mut inner = self.inner();
        let was_there = inner.gates.remove(&gate.number).is_some();
        if was_there {
            inner.numbers.remove(&gate.name);
            inner.lower_hook_if_empty(active_hooks);
        }
        was_there
    }

    /// Removes all gates. The caller releases the commands that they hold.
    pub fn remove_all(&self, active_hooks: &ActiveHooks) -> Vec<Arc<Gate>> {
        let mut inner = self.inner();
        inner.numbers.clear();
        let gates = std::mem::take(&mut inner.gates);
        inner.lower_hook_if_empty(active_hooks);
        gates.into_values().collect()
    }

    pub fn all(&self) -> Vec<Arc<Gate>> {
        self.inner().gates.values().cloned().collect()
    }

    /// The gates that hold a command, or the transaction that it runs, before it runs. `parked` is the command as it is
    /// shown to others; it is kept for a while.
    pub fn before(
        &self,
        command: &CommandInfo<'_>,
        inside: &[CommandInfo<'_>],
        parked: impl FnOnce() -> ParkedCommand,
    ) -> VecDeque<Arc<Gate>> {
        let mut inner = self.inner();
        let matching: Vec<Arc<Gate>> = inner.matching(command, inside).cloned().collect();
        inner.seen += 1;
        let recent = RecentCommand {
            command: parked(),
            number: inner.seen,
            gates: matching.iter().map(|gate| gate.number).collect(),
        };
        if inner.recent.len() == MOST_RECENT {
            inner.recent.pop_front();
        }
        inner.recent.push_back(recent);
        drop(inner);
        matching.into_iter().filter(|gate| gate.side == Side::Before).collect()
    }

    /// The gates that hold it after it has run.
    pub fn after(&self, command: &CommandInfo<'_>, inside: &[CommandInfo<'_>]) -> VecDeque<Arc<Gate>> {
        self.inner().matching(command, inside).filter(|gate| gate.side == Side::After).cloned().collect()
    }

    /// The recent commands that were seen since a gate was added and did not match it.
    fn recent_misses(&self, gate: &Gate) -> Vec<ParkedCommand> {
        let inner = self.inner();
        let missed = |recent: &&RecentCommand| recent.number > gate.since && !recent.gates.contains(&gate.number);
        inner.recent.iter().filter(missed).map(|recent| recent.command.clone()).collect()
    }

    /// The explanation of a GATE WAIT that timed out: what the gate holds, or which commands passed it by.
    pub fn timeout_message(&self, gate: &Gate, wanted: usize, timeout: Duration) -> String {
        let (held, misses) = (gate.queue.parked(), self.recent_misses(gate));
        let instead = if !held.is_empty() {
            listed(&held)
        } else if !misses.is_empty() {
            format!("these came last and do not match: {}", listed(&misses))
        } else if gate.queue.arrived() > 0 {
            format!("{} have come and gone", gate.queue.arrived())
        } else {
            "no command has come since it was put up".to_owned()
        };
        let (name, held, timeout) = (&gate.name, held.len(), spell_duration(timeout));
        format!("gate '{name}' holds {held} of {wanted} after {timeout}: {instead}")
    }

    /// Has the next control job open a gate.
    pub fn queue_opening(&self, gate: &Arc<Gate>) {
        self.inner().opening.push(Arc::clone(gate));
    }

    /// The gates that are to be opened now.
    pub fn take_queued_openings(&self) -> Vec<Arc<Gate>> {
        std::mem::take(&mut self.inner().opening)
    }

    /// Releases the commands that were held for longer than their gate's timeout in real time, or `usual` if it has none;
    /// zero is no limit. Returns each with its gate and that timeout.
    pub fn release_overdue(&self, clock: &Arc<Clock>, usual: Duration) -> Vec<(Arc<Gate>, Duration, ParkedCommand)> {
        let gates = self.all();
        let overdue = gates.iter().flat_map(|gate| {
            let longest = gate.timeout.unwrap_or(usual);
            let freed = if longest.is_zero() { Vec::new() } else { gate.queue.release_overdue(clock, longest) };
            freed.into_iter().map(move |command| (Arc::clone(gate), longest, command))
        });
        overdue.collect()
    }

    /// The names of the gates that no command has reached.
    pub fn unreached(&self) -> Vec<String> {
        self.all().iter().filter(|gate| gate.queue.arrived() == 0).map(|gate| gate.name.clone()).collect()
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock_ignoring_poison()
    }
}

impl Inner {
    fn matching<'g>(
        &'g self,
        command: &CommandInfo<'_>,
        inside: &[CommandInfo<'_>],
    ) -> impl Iterator<Item = &'g Arc<Gate>> {
        let matches =
            |gate: &Gate| gate.pattern.matches(command) || inside.iter().any(|command| gate.pattern.matches(command));
        self.gates.values().filter(move |gate| matches(gate))
    }

    /// Once there is no gate, commands need not look for one, and none is kept.
    fn lower_hook_if_empty(&mut self, active_hooks: &ActiveHooks) {
        if self.gates.is_empty() {
            self.recent.clear();
            active_hooks.disarm(Hook::Gate);
        }
    }
}

fn listed(commands: &[ParkedCommand]) -> String {
    let mut names: Vec<String> = commands.iter().take(MOST_SHOWN).map(ParkedCommand::to_string).collect();
    if commands.len() > MOST_SHOWN {
        names.push(format!("and {} more", commands.len() - MOST_SHOWN));
    }
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use smallvec::smallvec;

    use super::*;

    fn command(name: &'static str) -> CommandInfo<'static> {
        CommandInfo { container: None, name, keys: smallvec![], client: 1, client_name: b"", db: 0, node: None }
    }

    fn come(gates: &Gates, name: &'static str) -> Vec<String> {
        let parked = || ParkedCommand { client: 1, client_name: Vec::new(), words: vec![name.as_bytes().to_vec()] };
        gates.before(&command(name), &[], parked).iter().map(|gate| gate.name.clone()).collect()
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
        assert!(gates.remove("b", &active_hooks).is_some() && gates.remove("b", &active_hooks).is_none());
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
        gates.remove("a", &active_hooks);
        assert!(active_hooks.has(Hook::Gate));
        gates.remove("b", &active_hooks);
        assert!(!active_hooks.affects_processing());
        add(&gates, &active_hooks, "a", "SET");
        gates.remove_all(&active_hooks);
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
        let names = |gate| -> Vec<Vec<u8>> {
            gates.recent_misses(gate).iter().map(|command| command.words[0].clone()).collect()
        };
        assert_eq!(names(&gate), [b"GET".to_vec(), b"INCR".to_vec()]);
        for _ in 0..100 {
            come(&gates, "DEL");
        }
        assert_eq!(names(&gate).len(), MOST_RECENT);
    }
}
