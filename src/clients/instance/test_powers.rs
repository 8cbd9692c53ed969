//! Arming and disarming the test powers: faults, gates, the explorer. The flags in `active_hooks` follow.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Instance;
use crate::base::clock::Pace;
use crate::base::duration::spell_duration;
use crate::powers::{ExplorationSummary, Fault, Gate, Hook, Pattern, Precedence, Rule, Side, Verdict};

impl Instance {
    /// Arms a fault. The error says why it cannot be armed.
    pub fn add_fault(&self, fault: Fault) -> Result<Arc<Rule>, String> {
        self.add_fault_with(fault, Precedence::Usual)
    }

    pub(super) fn add_fault_with(&self, mut fault: Fault, precedence: Precedence) -> Result<Arc<Rule>, String> {
        self.resolve_node(&mut fault.pattern, &[])?;
        if matches!(fault.verdict, Verdict::Refuse) && !self.space.is_empty() {
            return Err(
                "refuse is about new connections, which are in no space yet: add it outside of spaces".to_owned()
            );
        }
        if fault.verdict.is_about_links() && (!self.space.is_empty() || self.upstream.is_some()) {
            return Err("links to replicas are those of an instance with data of its own, outside of spaces".to_owned());
        }
        let rule = self.control.faults.add(fault, precedence)?;
        self.update_fault_hooks();
        Ok(rule)
    }

    /// Disarms a fault, and releases the commands that it holds.
    pub fn remove_fault(&self, name: &str) -> Option<Arc<Rule>> {
        let had_cuts = self.has_node_cuts();
        let rule = self.control.faults.remove(name, &self.clock);
        self.update_fault_hooks();
        self.resume_after_cuts(had_cuts);
        rule.iter().for_each(|rule| self.control.remember_unfired(rule));
        rule
    }

    /// As [`remove_fault`](Self::remove_fault), for one that may be gone already; whether it was there.
    pub fn remove_this_fault(&self, rule: &Arc<Rule>) -> bool {
        let had_cuts = self.has_node_cuts();
        let was_there = self.control.faults.remove_this(rule, &self.clock);
        self.update_fault_hooks();
        self.resume_after_cuts(had_cuts);
        was_there
    }

    /// Disarms every fault, and releases the commands that they hold.
    pub fn clear_faults(&self) -> Vec<Arc<Rule>> {
        let had_cuts = self.has_node_cuts();
        let rules = self.control.faults.clear(&self.clock);
        self.update_fault_hooks();
        self.resume_after_cuts(had_cuts);
        rules.iter().for_each(|rule| self.control.remember_unfired(rule));
        rules
    }

    /// Sets the flags of faults if there are any, and clears them otherwise.
    fn update_fault_hooks(&self) {
        let faults = &self.control.faults;
        let update = |hook, is_needed: &dyn Fn() -> bool| {
            if !is_needed() {
                self.active_hooks.disarm(hook);
            }
            // Asked again: another thread may have armed a fault in between. The flag is never down while there is one.
            if is_needed() {
                self.active_hooks.arm(hook);
            }
        };
        update(Hook::FaultPause, &|| faults.is_paused());
        update(Hook::Fault, &|| !faults.is_empty());
    }

    /// Adds a gate, with a time-out of its own if one is given. The error says why it cannot be added.
    pub fn add_gate(
        &self,
        name: &str,
        mut pattern: Pattern,
        side: Side,
        timeout: Option<Duration>,
    ) -> Result<Arc<Gate>, String> {
        self.resolve_node(&mut pattern, &[])?;
        self.control.gates.add(name, pattern, side, timeout, &self.active_hooks)
    }

    /// Removes a gate. The commands it holds are released by the job `LetGo`.
    pub fn remove_gate(&self, name: &str) -> Option<Arc<Gate>> {
        let gate = self.control.gates.remove(name, &self.active_hooks)?;
        self.open_removed_gate(&gate);
        Some(gate)
    }

    /// As [`remove_gate`](Self::remove_gate), for one that may be gone already; whether it was there.
    pub fn remove_this_gate(&self, gate: &Arc<Gate>) -> bool {
        let was_there = self.control.gates.remove_this(gate, &self.active_hooks);
        if was_there {
            self.open_removed_gate(gate);
        }
        was_there
    }

    /// Removes every gate. The commands they hold are released by the job `LetGo`.
    pub fn remove_gates(&self) -> Vec<Arc<Gate>> {
        let gates = self.control.gates.remove_all(&self.active_hooks);
        gates.iter().for_each(|gate| self.open_removed_gate(gate));
        gates
    }

    fn open_removed_gate(&self, gate: &Arc<Gate>) {
        self.control.remember_unreached(gate);
        self.control.gates.queue_opening(gate);
    }

    /// Removes every gate, and releases all commands at once.
    pub fn clear_gates(&self) {
        for gate in self.control.gates.remove_all(&self.active_hooks) {
            self.control.remember_unreached(&gate);
            gate.queue.open(&self.clock);
        }
    }

    /// The watchdog: releases commands that a gate has held for longer than a test can have meant.
    pub(super) fn release_overdue_commands(&self) {
        if !self.active_hooks.has(Hook::Gate) {
            return;
        }
        let default = Duration::from_micros(self.config.live().gate_timeout.load(Ordering::Relaxed));
        for (gate, longest, command) in self.control.gates.release_overdue(&self.clock, default) {
            self.control.remember_timed_out(&gate);
            let (name, longest) = (&gate.name, spell_duration(longest));
            self.log.warn(format!("Gate '{name}' has held {command} for longer than {longest}: it goes on by itself."));
        }
    }

    /// Ends the exploration of orders, if there is one; all parked commands go on. The error says that there is none.
    pub fn stop_exploring(&self) -> Result<ExplorationSummary, &'static str> {
        let owned_clock = self.control.explorer.owns_clock() && self.upstream.is_none();
        let summary = self.control.explorer.stop(&self.clock);
        if owned_clock {
            self.clock.set_pace(Pace::Speed(1.0));
        }
        // A run that is about to begin raises this flag first, and finds the explorer stopped afterwards.
        self.active_hooks.disarm(Hook::Explore);
        summary
    }
}
