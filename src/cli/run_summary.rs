//! `--report` and `--strict` of `redouble run`: what has happened while the command ran, and what should not have.

use std::sync::Arc;

use super::print_note;
use super::subcommand::Subcommand;
use crate::base::text::counted;
use crate::clients::instance::Instance;
use crate::clients::stats::Unsupported;

#[derive(Default)]
pub(super) struct RunSummary {
    commands: u64,
    connections: u64,
    /// Of servers with data of their own: what others did is not known here.
    locks: Option<u64>,
    unsupported: Unsupported,
    /// Names of faults that never fired, and of gates that were never reached. A test that relies on them has tested
    /// nothing.
    unfired_faults: Vec<String>,
    unreached_gates: Vec<String>,
    /// Names of gates that the watchdog opened.
    timed_out_gates: Vec<String>,
    /// How often a handler of the servers has panicked.
    panics: u64,
}

impl RunSummary {
    /// What these servers have seen together.
    pub fn of(instances: &[Arc<Instance>]) -> Self {
        // All servers of a process count panics together.
        let panics = instances.first().map_or(0, |instance| instance.panics());
        let mut summary = Self { panics, ..Self::default() };
        for instance in instances {
            let totals = instance.stats.all();
            summary.commands += totals.commands;
            summary.connections += totals.connections;
            if instance.upstream.is_none() {
                summary.locks = Some(summary.locks.unwrap_or(0) + totals.locks);
            }
            summary.unsupported.add(instance.stats.unsupported());
            summary.unfired_faults.extend(instance.control.unfired());
            summary.unreached_gates.extend(instance.control.unreached());
            summary.timed_out_gates.extend(instance.control.timed_out_gates());
        }
        summary
    }

    /// Whether `--strict` has nothing to fail for.
    pub fn is_clean(&self) -> bool {
        self.failures().is_empty()
    }

    /// Says that nobody connected, because an audit without a finding is no good sign then.
    pub fn print_if_nobody_connected(&self) {
        if self.connections == 0 {
            say("nobody connected: the command finds the server in REDIS_URL, or at a port of your choice with --port");
        }
    }

    /// Says that handlers have panicked, if any has: then the run fails, with or without `--strict`.
    pub fn print_panics(&self) -> bool {
        if self.panics > 0 {
            say(&format!(
                "failed because of {} in the server, which is a bug in redouble",
                counted(self.panics, "panic")
            ));
        }
        self.panics > 0
    }

    /// What `--strict` fails for.
    fn failures(&self) -> Vec<&'static str> {
        let what = [
            (self.connections == 0, "nobody having connected"),
            (self.unsupported.matters(), "unsupported commands"),
            (!self.unfired_faults.is_empty(), "faults that never fired"),
            (!self.unreached_gates.is_empty(), "gates that were never reached"),
            (!self.timed_out_gates.is_empty(), "gates that nobody opened in time"),
        ];
        what.into_iter().filter(|(is, _)| *is).map(|(_, what)| what).collect()
    }

    /// Prints what `--report` says.
    pub fn print(&self) {
        let locks = self.locks.map(|locks| counted(locks, "lock") + " taken");
        let counts = [Some(counted(self.commands, "command")), Some(counted(self.connections, "connection")), locks];
        say(&counts.into_iter().flatten().collect::<Vec<_>>().join(", "));
        self.details().for_each(|line| say(&line));
    }

    /// Prints what `--strict` fails for, without the details if `--report` has told them.
    pub fn print_failures(&self, is_printed: bool) {
        if !is_printed {
            self.details().for_each(|line| say(&line));
        }
        say(&format!("failed because of {} (--strict)", self.failures().join(" and ")));
    }

    fn details(&self) -> impl Iterator<Item = String> {
        let unsupported = (!self.unsupported.is_empty()).then(|| format!("unsupported commands: {}", self.unsupported));
        let named = |what: &str, names: &[String]| (!names.is_empty()).then(|| format!("{what}: {}", names.join(", ")));
        let unfired = named("faults that never fired", &self.unfired_faults);
        let unreached = named("gates that were never reached", &self.unreached_gates);
        let timed_out = named("gates that nobody opened in time", &self.timed_out_gates);
        [unsupported, unfired, unreached, timed_out].into_iter().flatten()
    }
}

/// Prints a line of `redouble run`.
pub(super) fn say(line: &str) {
    print_note(Subcommand::Run, line);
}
