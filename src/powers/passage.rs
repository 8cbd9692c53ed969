//! What a command carries along on its way past gates and faults.

use std::collections::VecDeque;
use std::sync::Arc;

use super::fault::Rule;
use super::gate::Gate;
use super::wait_queue::{ParkedCommand, Permit};

/// A command's way from its arrival to its reply. It survives in the session while the command is held.
#[derive(Default)]
pub struct Passage {
    /// The gates in front of its run that it has not come to yet.
    pub before: VecDeque<Arc<Gate>>,
    /// Whether it is known yet what it meets from there on: that is only asked when it has passed the gates in front.
    pub is_judged: bool,
    /// The rule that it meets, if any,
    pub rule: Option<Arc<Rule>>,
    /// and whether that has held it as long as it was to.
    pub rule_is_over: bool,
    /// Whether the explorer has seen it.
    pub is_explored: bool,
    /// The gates behind its run that it has not come to yet.
    pub after: VecDeque<Arc<Gate>>,
    /// The command as others are told of it there.
    pub guest: Option<ParkedCommand>,
    /// The gates that it came to, by name, in that order.
    pub gates: Vec<Box<str>>,
}

impl Passage {
    /// Has it stand in the journal that the last gate let it go because it had been forgotten there.
    pub fn note(&mut self, ticket: &Permit) {
        if let Some(gate) = self.gates.last_mut().filter(|_| ticket.is_overdue()) {
            *gate = format!("{gate} (freed by the watchdog)").into();
        }
    }

    /// Whether nothing is in the command's way.
    pub fn is_free(&self) -> bool {
        self.before.is_empty() && self.after.is_empty() && self.rule.is_none()
    }
}
