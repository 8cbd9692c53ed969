//! Control of instances and spaces by clients and tests: stop, start, pause, skew, cut off.

use std::future::poll_fn;
use std::sync::Arc;

use super::node::Node;
use super::nodes::Nodes;
use super::replicas::promote;
use crate::base::clock::Millis;
use crate::base::error::CommandError;
use crate::clients::acl::User;
use crate::clients::fleet::{
    CLOSED, Completion, FailedOver, FailoverOrder, Fleet, HeldChanges, InstanceCommand, InstanceInfo, InstanceState,
    LinkInfo, LinkOrder, SpaceInfo,
};
use crate::clients::instance::Instance;
use crate::clients::session::ControlJob;
use crate::data::keyspace::Busy;
use crate::engine::{Engine, job_end};
use crate::powers::{ClientSelector, Fault, Hook, Pattern, Verdict};

const FIRST_IS_THE_MEASURE: CommandError =
    CommandError::fixed("ERR the clocks of the others are compared with that of instance 1; skew another one");

impl Fleet for Node {
    fn spaces(&self) -> Vec<SpaceInfo> {
        let figures = self.spaces().into_iter().map(|engine| {
            let instance = &engine.instance;
            let keys = instance.keyspace.sizes().iter().map(|(_, [keys, ..])| keys).sum();
            SpaceInfo { name: instance.space.to_vec(), clients: instance.clients.len(), keys }
        });
        figures.collect()
    }

    fn root_user(&self, name: &[u8], password: &[u8]) -> Option<Arc<User>> {
        self.instance().acl.authenticate(name, password)
    }

    fn open_root_user(&self) -> Option<Arc<User>> {
        Some(self.instance().acl.default_user()).filter(|user| user.is_open()).map(Arc::clone)
    }

    fn save_at_end(&self, asked: Option<bool>) -> Result<(), CommandError> {
        self.instance().save_at_end(asked)
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
        self.drop_space(name)
    }

    fn accepts(&self, password: &[u8]) -> bool {
        self.instance().acl.default_user().rules().accept(password)
    }

    fn number(&self) -> usize {
        self.number()
    }

    fn instances(&self) -> Vec<InstanceInfo> {
        let Ok(nodes) = self.nodes() else { return Vec::new() };
        let figures = nodes.all().iter().map(|node| InstanceInfo {
            number: node.number(),
            port: node.main_address().map_or(0, |address| address.port()),
            state: node.state(),
            skew: nodes.skew_of(node),
            clients: node.connected(),
        });
        figures.collect()
    }

    fn control_instance(&self, number: usize, order: InstanceCommand, by: u64) -> Result<Completion, CommandError> {
        let nodes = self.nodes()?;
        let node = nodes.get(number).ok_or_else(|| no_such_instance(number, nodes.all().len()))?;
        match order {
            InstanceCommand::Stop if nodes.all().iter().all(|other| other.is_serving() == Arc::ptr_eq(other, node)) => {
                return Err(CommandError::new(format!(
                    "ERR instance {number} is the last one that runs: nobody could start it again"
                )));
            }
            InstanceCommand::Skew(_) if number == 1 => return Err(FIRST_IS_THE_MEASURE),
            InstanceCommand::Stop => node.stop((number == self.number()).then_some(by))?,
            InstanceCommand::Start { empty } => node.start(empty)?,
            InstanceCommand::Pause => node.pause()?,
            InstanceCommand::Cut(client) => node.cut(&client)?,
            InstanceCommand::Resume => return Ok(settled(node.resume())),
            InstanceCommand::Heal(client) => return Ok(settled(node.heal(client.as_deref())?)),
            InstanceCommand::Skew(micros) => {
                let job = node.spawn_job(node.root(), nodes.skew(micros));
                let engine = Arc::clone(node.root());
                return Ok(Box::pin(async move { job_end(job, &engine.instance.log).await? }));
            }
        }
        Ok(settled(Vec::new()))
    }

    fn order_link(&self, number: usize, order: LinkOrder, replica: Option<&str>) -> Result<u64, CommandError> {
        let nodes = self.nodes()?;
        let node = nodes.get(number).ok_or_else(|| no_such_instance(number, nodes.all().len()))?;
        let name = replica.map(|replica| nodes.replica_named(replica));
        let done = nodes.order_link(node, order, name.as_deref())?;
        if order == LinkOrder::Heal {
            nodes.heal_roles(node);
            nodes.call_links();
            nodes.tell_sentinels();
        }
        Ok(done)
    }

    fn watch_link(&self, number: usize, replica: Option<&str>, changes: usize) -> Result<HeldChanges, CommandError> {
        let nodes = self.nodes()?;
        let node = nodes.get(number).ok_or_else(|| no_such_instance(number, nodes.all().len()))?;
        let name = replica.map(|replica| nodes.replica_named(replica));
        let instance = node.instance();
        if let Some(name) = name.as_ref().filter(|name| !instance.links().iter().any(|link| link.replica == **name)) {
            return Err(CommandError::quoting("ERR there is no replica '", name.as_bytes(), "'; LIST names them"));
        }
        let instance = Arc::clone(instance);
        Ok(Box::pin(poll_fn(move |cx| instance.poll_held(name.as_deref(), changes, cx.waker()))))
    }

    fn links(&self, number: usize) -> Result<Vec<LinkInfo>, CommandError> {
        let nodes = self.nodes()?;
        let node = nodes.get(number).ok_or_else(|| no_such_instance(number, nodes.all().len()))?;
        Ok(node.instance().links())
    }

    fn instance_at(&self, host: &[u8], port: i64) -> Option<usize> {
        self.nodes().ok()?.at(host, port).map(|node| node.number())
    }

    fn bring_replicas_up_to_date(&self) {
        if let Ok(nodes) = self.nodes() {
            nodes.bring_replicas_up_to_date();
            nodes.hand_over();
        }
    }

    fn follow_no_one(&self) {
        promote(self);
    }

    fn reset_replication(&self) {
        if let Ok(nodes) = self.nodes() {
            nodes.reset_replication(self);
            if self.number() == 1 {
                nodes.reset_sentinels();
            }
            nodes.tell_sentinels();
        }
    }

    fn fail_over(
        &self,
        number: usize,
        order: FailoverOrder,
        by: u64,
    ) -> Result<(FailedOver, Completion), CommandError> {
        let nodes = self.nodes()?;
        let (done, changed) = nodes.fail_over(number, order, (self.number(), by))?;
        nodes.tell_sentinels();
        Ok((done, settled(changed)))
    }

    fn stop_node(&self, number: u16, except: Option<u64>) -> Result<(), CommandError> {
        self.stop_node(number, except)
    }

    fn start_node(&self, number: u16) -> Result<(), CommandError> {
        let nodes = self.nodes()?;
        nodes.get(self.number()).ok_or(CLOSED)?.start_node(number)
    }

    fn start_stopped_nodes(&self) -> Result<(), CommandError> {
        let nodes = self.nodes()?;
        nodes.get(self.number()).ok_or(CLOSED)?.start_stopped_nodes()
    }

    fn abandon_scripts(&self) {
        for engine in self.nodes().iter().flat_map(|nodes| nodes.worlds()) {
            engine.instance.scripts.kill_for_shutdown();
        }
    }
}

impl Nodes {
    /// How far a clock is ahead of the first instance's, in milliseconds.
    fn skew_of(&self, node: &Node) -> Millis {
        self.first().map_or(0, |first| {
            let difference = node.instance().clock.micros() - first.instance().clock.micros();
            // Rounded: the two clocks are not read in the same microsecond.
            difference.saturating_add(500).div_euclid(1000)
        })
    }

    /// A job that sets a clock ahead of the first instance's.
    pub(super) fn skew(&self, micros: i64) -> ControlJob {
        let first = self.first().map_or(0, |first| first.instance().clock.micros());
        ControlJob::SetClock(first.saturating_add(micros))
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

    /// Refuses connections, and closes all clients except `except`, as if the process had ended.
    pub(super) fn stop(&self, except: Option<u64>) -> Result<(), CommandError> {
        let turn = self.lock_lifecycle();
        if !self.is_serving() {
            return Err(wrong_state(self.number(), "is stopped already"));
        }
        self.close(except);
        self.instance().unlink();
        self.instance().close_replicas();
        // A restarted instance is not paused. No command is left that could be released.
        self.end_pause();
        drop(turn);
        self.tell_sentinels();
        Ok(())
    }

    /// Serves again on the same port, with its data or empty.
    pub(super) fn start(self: &Arc<Self>, empty: bool) -> Result<(), CommandError> {
        let turn = self.lock_lifecycle();
        if self.is_serving() {
            return Err(wrong_state(self.number(), "is running; REDOUBLE INSTANCE STOP comes first"));
        }
        if empty {
            self.drop_spaces();
            let running = |Busy| CommandError::new(format!("ERR instance {} still runs a script", self.number()));
            self.root().empty().map_err(running)?;
            // What its replicas have is no part of what it has: they get everything anew, which is nothing.
            self.instance().begin_history();
            self.instance().forget_history();
        }
        self.worlds().iter().for_each(|engine| engine.record_start(empty));
        self.reopen().map_err(|error| CommandError::new(format!("ERR {error}")))?;
        drop(turn);
        if let Ok(nodes) = self.nodes() {
            nodes.call_links();
            nodes.bring_replicas_up_to_date();
        }
        self.tell_sentinels();
        Ok(())
    }

    /// Globs of the client names that the instance is cut off from.
    pub(super) fn cuts(&self) -> Vec<Vec<u8>> {
        let rules = self.instance().control.faults.all();
        let names = rules.iter().filter_map(|rule| rule.fault.name.strip_prefix(CUT));
        names.map(|glob| glob.as_bytes().to_vec()).collect()
    }

    /// Lets the Sentinels of the process see how the instance is now.
    fn tell_sentinels(&self) {
        if let Ok(nodes) = self.nodes() {
            nodes.tell_sentinels();
        }
    }

    fn is_paused(&self) -> bool {
        self.instance().control.faults.all().iter().any(|rule| rule.fault.name == PAUSE)
    }

    /// Stops replying, in every space.
    pub(super) fn pause(&self) -> Result<(), CommandError> {
        match self.state() {
            InstanceState::Stopped => Err(wrong_state(self.number(), "is stopped")),
            InstanceState::Paused => Ok(()),
            InstanceState::Running => {
                self.instance().set_answering(false);
                self.arm(&Fault::new(PAUSE, Verdict::Pause))
            }
        }?;
        self.tell_sentinels();
        Ok(())
    }

    /// Ends the pause. Returns the worlds in which commands were released.
    pub(super) fn resume(&self) -> Vec<Arc<Engine>> {
        let worlds = self.end_pause();
        self.tell_sentinels();
        worlds
    }

    fn end_pause(&self) -> Vec<Arc<Engine>> {
        self.instance().set_answering(true);
        self.disarm(|name| name == PAUSE)
    }

    /// Holds the commands of clients with a name that matches, in every space.
    pub(super) fn cut(&self, client: &[u8]) -> Result<(), CommandError> {
        let rules = self.instance().control.faults.all();
        if rules.iter().filter(|rule| rule.fault.name.starts_with(CUT)).count() >= MOST_CUTS {
            return Err(CommandError::new(format!(
                "ERR instance {} is cut off from {MOST_CUTS} already",
                self.number()
            )));
        }
        let mut fault = Fault::new(cut_of(client), Verdict::Hang);
        fault.pattern = Pattern::any().client(ClientSelector::Name(client.to_vec()));
        self.arm(&fault)?;
        self.tell_sentinels();
        Ok(())
    }

    /// Ends the cut of this name, or all cuts. Returns the worlds in which commands were released.
    pub(super) fn heal(&self, client: Option<&[u8]>) -> Result<Vec<Arc<Engine>>, CommandError> {
        let Some(client) = client else {
            let worlds = self.disarm(|name| name.starts_with(CUT));
            self.tell_sentinels();
            return Ok(worlds);
        };
        let name = cut_of(client);
        let worlds = self.disarm(|other| other == name);
        self.tell_sentinels();
        if worlds.is_empty() {
            let before = format!("ERR instance {} is not cut off from '", self.number());
            return Err(CommandError::quoting(&before, client, "'"));
        }
        Ok(worlds)
    }

    /// Arms a fault in all worlds, or in none if that fails.
    fn arm(&self, fault: &Fault) -> Result<(), CommandError> {
        let worlds = self.worlds();
        for (place, engine) in worlds.iter().enumerate() {
            if let Err(reason) = engine.instance.add_fault(fault.clone()) {
                for engine in &worlds[..place] {
                    engine.instance.remove_fault(&fault.name);
                }
                return Err(CommandError::new(format!("ERR {reason}")));
            }
        }
        Ok(())
    }

    /// Disarms the faults with matching names in all worlds. Returns the worlds that had one.
    fn disarm(&self, which: impl Fn(&str) -> bool) -> Vec<Arc<Engine>> {
        let mut worlds = self.worlds();
        worlds.retain(|engine| {
            let rules = engine.instance.control.faults.all();
            let names = rules.iter().map(|rule| rule.fault.name.as_str()).filter(|name| which(name));
            names.filter(|name| engine.instance.remove_fault(name).is_some()).count() > 0
        });
        worlds
    }

    /// Copies the faults of the whole instance to a new space.
    pub(super) fn copy_instance_faults(&self, space: &Instance) {
        let active_hooks = &self.instance().active_hooks;
        if active_hooks.has(Hook::Fault) {
            let rules = self.instance().control.faults.all();
            for rule in rules.iter().filter(|rule| rule.fault.name == PAUSE || rule.fault.name.starts_with(CUT)) {
                // Cannot fail: a new space has room, and no fault of this name.
                let _ = space.add_fault(rule.fault.clone());
            }
        }
    }
}

/// The names of the faults that pause an instance or cut clients off.
const PAUSE: &str = "instance-pause";
const CUT: &str = "instance-cut:";

/// The most simultaneous cuts of one instance: each takes a rule in every space.
const MOST_CUTS: usize = 64;

fn cut_of(client: &[u8]) -> String {
    format!("{CUT}{}", String::from_utf8_lossy(client))
}

/// Waits until the released commands in some worlds have ended or are blocked again.
pub(super) fn settled(worlds: Vec<Arc<Engine>>) -> Completion {
    Box::pin(async move {
        for engine in worlds {
            engine.run_control_job(ControlJob::Quiesce).await?;
        }
        Ok(())
    })
}

fn wrong_state(number: usize, state: &str) -> CommandError {
    CommandError::new(format!("ERR instance {number} {state}"))
}

pub(super) fn no_such_instance(number: usize, count: usize) -> CommandError {
    CommandError::new(format!("ERR there is no instance {number}; they are numbered 1 to {count}"))
}
