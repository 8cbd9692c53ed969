//! What happened while a command ran: what a person wants to know, and what should not have been.

use std::sync::Arc;

use super::complain;
use crate::clients::instance::Instance;
use crate::clients::stats::Unsupported;

pub(super) struct Report {
    commands: u64,
    connections: u64,
    locks: u64,
    unsupported: Unsupported,
    /// Names of faults that never fired, and of gates that were never reached: a test that relies on them has tested
    /// nothing.
    unfired: Vec<String>,
    unreached: Vec<String>,
    /// Names of gates that the watchdog had to open.
    forgotten: Vec<String>,
}

impl Report {
    /// What these servers have seen together.
    pub(super) fn of(instances: &[Arc<Instance>]) -> Self {
        let mut report = Self {
            commands: 0,
            connections: 0,
            locks: 0,
            unsupported: Unsupported::default(),
            unfired: Vec::new(),
            unreached: Vec::new(),
            forgotten: Vec::new(),
        };
        for instance in instances {
            let totals = instance.stats.all();
            report.commands += totals.commands;
            report.connections += totals.connections;
            report.locks += totals.locks;
            report.unsupported.add(instance.stats.unsupported());
            report.unfired.extend(instance.control.unfired());
            report.unreached.extend(instance.control.unreached());
            report.forgotten.extend(instance.control.overdue_gates());
        }
        report
    }

    /// Whether nothing is in it that `--strict` fails for.
    pub(super) fn is_clean(&self) -> bool {
        self.weighty().is_empty()
    }

    /// Says that nobody came, in case somebody takes it for a good sign that nothing was found.
    pub(super) fn print_silence(&self) {
        if self.connections == 0 {
            say("nobody connected: the command finds the server in REDIS_URL, or at a port of your choice with --port");
        }
    }

    /// What `--strict` fails for.
    fn weighty(&self) -> Vec<&'static str> {
        let what = [
            (self.connections == 0, "nobody having connected"),
            (self.unsupported.matters(), "unsupported commands"),
            (!self.unfired.is_empty(), "faults that never fired"),
            (!self.unreached.is_empty(), "gates that were never reached"),
            (!self.forgotten.is_empty(), "gates that nobody opened in time"),
        ];
        what.into_iter().filter(|(is, _)| *is).map(|(_, what)| what).collect()
    }

    pub(super) fn print(&self) {
        say(&format!(
            "{}, {}, {}",
            counted(self.commands, "command"),
            counted(self.connections, "connection"),
            counted(self.locks, "lock") + " taken"
        ));
        self.faults().for_each(|line| say(&line));
    }

    /// Says what `--strict` fails for; only that it does, if the rest was told already.
    pub(super) fn print_faults(&self, is_told: bool) {
        if !is_told {
            self.faults().for_each(|line| say(&line));
        }
        say(&format!("failed because of {} (--strict)", self.weighty().join(" and ")));
    }

    fn faults(&self) -> impl Iterator<Item = String> {
        let unsupported = (!self.unsupported.is_empty()).then(|| format!("unsupported commands: {}", self.unsupported));
        let named = |what: &str, names: &[String]| (!names.is_empty()).then(|| format!("{what}: {}", names.join(", ")));
        let unfired = named("faults that never fired", &self.unfired);
        let unreached = named("gates that were never reached", &self.unreached);
        let forgotten = named("gates that nobody opened in time", &self.forgotten);
        [unsupported, unfired, unreached, forgotten].into_iter().flatten()
    }
}

pub(super) fn say(line: &str) {
    let _ = complain(format!("redouble run: {line}").as_bytes());
}

fn counted(number: u64, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}
