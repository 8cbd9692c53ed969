//! What clients can see of the spaces and instances of a process, and have done with them.

use std::sync::Arc;

use super::node::{Node, Nodes};
use crate::clock::{Clock, Millis};
use crate::error::CommandError;
use crate::fleet::{Fleet, InstanceFigures, InstanceState, Order, SpaceFigures};
use crate::keyspace::Busy;

impl Fleet for Node {
    fn spaces(&self) -> Vec<SpaceFigures> {
        let figures = self.spaces().into_iter().map(|engine| {
            let instance = &engine.instance;
            let keys = instance.keyspace.sizes().iter().map(|(_, [keys, ..])| keys).sum();
            SpaceFigures { name: instance.space.to_vec(), clients: instance.clients.len(), keys }
        });
        figures.collect()
    }

    fn open_space(&self, name: &[u8], user: &[u8]) -> Result<(), CommandError> {
        if self.world(name)?.instance.acl.user(user).is_some() {
            return Ok(());
        }
        let user = String::from_utf8_lossy(user);
        Err(CommandError::new(format!(
            "ERR there is no user '{user}' in that space: the users are those from when it was made"
        )))
    }

    fn drop_space(&self, name: &[u8]) -> Result<(), CommandError> {
        self.drop_world(name)
    }

    fn accepts(&self, password: &[u8]) -> bool {
        self.instance().acl.default_user().rules().accept(password)
    }

    fn number(&self) -> usize {
        self.number()
    }

    fn instances(&self) -> Vec<InstanceFigures> {
        let Ok(nodes) = self.beside() else { return Vec::new() };
        let figures = nodes.all().iter().map(|node| InstanceFigures {
            number: node.number(),
            port: node.addresses().first().map_or(0, |address| address.port()),
            state: node.state(),
            skew: nodes.skew_of(node),
            clients: node.connected(),
        });
        figures.collect()
    }

    fn order(&self, number: usize, order: Order, by: u64) -> Result<Option<Arc<Clock>>, CommandError> {
        let nodes = self.beside()?;
        let node = nodes.get(number).ok_or_else(|| no_such_instance(number, nodes.all().len()))?;
        match order {
            Order::Stop => node.stop((number == self.number()).then_some(by))?,
            Order::Start { empty } => node.start(empty)?,
            Order::Pause if node.state() == InstanceState::Stopped => return Err(wrong_state(number, "is stopped")),
            Order::Pause => node.pause(),
            Order::Resume => node.resume(),
            Order::Skew(micros) => return Ok(Some(nodes.skew(node, micros))),
            Order::Cut(_) | Order::Heal(_) => {}
        }
        Ok(None)
    }

    fn abandon_scripts(&self) {
        for engine in self.beside().iter().flat_map(|nodes| nodes.worlds()) {
            engine.instance.scripts.abandon();
        }
    }
}

impl Nodes {
    /// How far a clock is ahead of the first instance's.
    fn skew_of(&self, node: &Node) -> Millis {
        self.first().map_or(0, |first| {
            let difference = node.instance().clock.micros() - first.instance().clock.micros();
            // Two clocks that run alike are not looked at in the same microsecond.
            difference.saturating_add(500).div_euclid(1000)
        })
    }

    /// Sets an instance's clock so many microseconds ahead of the first one's. What that sets off is yet to be waited for.
    pub(super) fn skew(&self, node: &Node, micros: i64) -> Arc<Clock> {
        let clock = &node.instance().clock;
        if let Some(first) = self.first() {
            clock.set(first.instance().clock.micros().saturating_add(micros));
        }
        node.root().keep_house();
        Arc::clone(clock)
    }
}

impl Node {
    pub(super) fn state(&self) -> InstanceState {
        if !self.is_serving() {
            InstanceState::Stopped
        } else if self.is_paused() {
            InstanceState::Paused
        } else {
            InstanceState::Running
        }
    }

    /// Refuses connections and closes those there are, but for `except`, as if the process had ended.
    pub(super) fn stop(&self, except: Option<u64>) -> Result<(), CommandError> {
        if !self.is_serving() {
            return Err(wrong_state(self.number(), "is stopped already"));
        }
        self.close(except);
        self.resume();
        Ok(())
    }

    /// Serves again on the same port, with what it held or without.
    pub(super) fn start(self: &Arc<Self>, empty: bool) -> Result<(), CommandError> {
        if self.is_serving() {
            return Err(wrong_state(self.number(), "is running; REDOUBLE INSTANCE STOP comes first"));
        }
        if empty {
            self.drop_worlds();
            let running = |Busy| CommandError::new(format!("ERR instance {} still runs a script", self.number()));
            self.root().empty().map_err(running)?;
        }
        self.reopen().map_err(|error| CommandError::new(format!("ERR {error}")))
    }

    /// Answers nothing from now on, in any space.
    pub(super) fn pause(&self) {
        self.set_paused(true);
        self.worlds().iter().for_each(|engine| engine.instance.pause(Millis::MAX, false));
    }

    /// Goes on with whatever was asked meanwhile.
    pub(super) fn resume(&self) {
        if self.set_paused(false) {
            self.worlds().iter().for_each(|engine| engine.instance.unpause());
        }
    }
}

fn wrong_state(number: usize, state: &str) -> CommandError {
    CommandError::new(format!("ERR instance {number} {state}"))
}

fn no_such_instance(number: usize, count: usize) -> CommandError {
    CommandError::new(format!("ERR there is no instance {number}; they are numbered 1 to {count}"))
}
