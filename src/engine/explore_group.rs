//! What is explored together: an instance and the replicas that it was started with. Their clients get their turns from one
//! explorer, their clocks show the same, and what a master sends to its replicas waits for a turn of its own.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::task::Waker;

use super::Engine;
use super::control_job::in_micros;
use crate::base::clock::{MAX_MICROS, Millis};
use crate::base::error::CommandError;
use crate::clients::fleet::{FailoverOrder, LinkOrder};
use crate::clients::instance::each_request;
use crate::powers::{
    ClientOf, Deadlines, HeldLink, HeldLinks, MOST_HELD, NextTurn, RacerState, RunId, Surroundings, TurnEvent, line_of,
};

impl Engine {
    /// From now on it is explored together with these, which contain it.
    pub fn explore_with(&self, all: Vec<Weak<Engine>>) {
        self.instance.control.explorer.include_replicas();
        let _ = self.explored_together.set(all);
    }

    /// All that are explored with this one; none if it is alone.
    pub(super) fn explored_together(&self) -> Vec<Arc<Engine>> {
        self.explored_together.get().into_iter().flatten().filter_map(Weak::upgrade).collect()
    }

    pub(super) fn each_other_explored(&self, visit: impl FnMut(Arc<Engine>)) {
        let others = self.explored_together().into_iter();
        others.filter(|other| !Arc::ptr_eq(&other.instance, &self.instance)).for_each(visit);
    }

    /// Whether none of the instances that are explored has a client.
    pub fn has_no_explored_clients(&self) -> bool {
        self.instance.clients.is_empty()
            && self.explored_together().iter().all(|engine| engine.instance.clients.is_empty())
    }

    /// Waits until the last turn has had all its consequences.
    pub(super) async fn wait_for_explored(&self) {
        self.instance.clock.wait_until_quiescent().await;
        for engine in self.explored_together() {
            engine.instance.clock.wait_until_quiescent().await;
        }
    }

    /// Gives the next turn, if it is due.
    pub(super) fn look(&self, waker: &Waker) -> NextTurn {
        let around = Explored { engine: self, together: self.explored_together() };
        self.instance.control.explorer.next_turn(waker, &around, &self.instance.clock)
    }

    /// Moves the clocks in a run that has not ended.
    pub(super) async fn move_clocks_in_run(&self, to: Millis, run: RunId) {
        self.move_clock_in_run(to, run).await;
        let mut others = Vec::new();
        self.each_other_explored(|other| others.push(other));
        for other in others {
            other.move_clock_in_run(to, run).await;
        }
    }

    async fn move_clock_in_run(&self, to: Millis, run: RunId) {
        let _turn = self.control_jobs.lock().await;
        if self.instance.control.explorer.is_in_run(run) {
            self.move_clock(in_micros(to)).await;
        }
    }

    /// Replicas get the next change, or one of them becomes the master, in a run that has not ended.
    pub(super) async fn treat_links_in_run(&self, event: TurnEvent, run: RunId) {
        if !self.instance.control.explorer.is_in_run(run) {
            return;
        }
        let done = match event {
            TurnEvent::MoveClock(_) => Ok(()),
            TurnEvent::HoldLinks => {
                self.explored_together().iter().try_for_each(|engine| engine.order_links(LinkOrder::Hold, None))
            }
            TurnEvent::Replicate(to) => self.step_link(to, 1),
            TurnEvent::FailOver { to, losing } => self.fail_over_in_run(to, usize::from(losing)).await,
        };
        if let Err(error) = done {
            self.instance.log.warn(format!("The explorer could not do what it has chosen: {error}"));
        }
        // Who waited for replicas, or was blocked at a master that is none any more, is only told.
        for engine in self.explored_together() {
            engine.quiesce().await;
        }
    }

    /// Whoever reads a replica finds there what the master has.
    pub(super) fn let_links_catch_up(&self) {
        for engine in self.explored_together() {
            // Fails only if it has no replica, or none whose link is held.
            let _ = engine.order_links(LinkOrder::Step(u64::MAX), None);
        }
        self.bring_replicas_up_to_date();
    }

    fn order_links(&self, order: LinkOrder, replica: Option<&str>) -> Result<(), CommandError> {
        let Some(fleet) = self.instance.fleet() else { return Ok(()) };
        fleet.order_link(usize::from(self.instance.number), order, replica).map(drop)
    }

    fn step_link(&self, to: u16, changes: usize) -> Result<(), CommandError> {
        if let Some(master) = master_of(&self.explored_together()) {
            master.order_links(LinkOrder::Step(changes as u64), Some(&to.to_string()))?;
            master.bring_replicas_up_to_date();
        }
        Ok(())
    }

    async fn fail_over_in_run(&self, to: u16, losing: usize) -> Result<(), CommandError> {
        let together = self.explored_together();
        let (Some(master), Some(fleet)) = (master_of(&together), self.instance.fleet()) else { return Ok(()) };
        let held = links_of(master, &together).into_iter().find(|link| link.replica == to);
        let kept = held.map_or(0, |link| link.changes.len().saturating_sub(losing));
        if kept > 0 {
            self.step_link(to, kept)?;
        }
        let (from, has_sentinels) = (usize::from(master.instance.number), self.has_sentinels());
        let order =
            FailoverOrder { to: Some(usize::from(to)), closes_clients: has_sentinels, ..FailoverOrder::default() };
        fleet.fail_over(from, order, 0)?.1.await?;
        if !has_sentinels {
            // Clients know one address only. Whoever is the master, it is there.
            let back = FailoverOrder { to: Some(from), ..FailoverOrder::default() };
            fleet.fail_over(usize::from(to), back, 0)?.1.await?;
        }
        // What a replica lacks of its new master's history is no change that could be lost.
        for order in [LinkOrder::Heal, LinkOrder::Hold] {
            together.iter().try_for_each(|engine| engine.order_links(order, None))?;
            self.bring_replicas_up_to_date();
        }
        Ok(())
    }

    /// Whether clients are told of a new master, so that it has an address of its own.
    fn has_sentinels(&self) -> bool {
        self.instance.config.number::<usize>("sentinels") > 0
    }
}

/// Who of them is the master.
fn master_of(together: &[Arc<Engine>]) -> Option<&Arc<Engine>> {
    together.iter().find(|engine| !engine.instance.is_replica())
}

/// What a master holds of each replica. Links that hold more than is explored let the first changes go.
fn links_of(master: &Engine, together: &[Arc<Engine>]) -> Vec<HeldLink> {
    let address = |replica: &Engine| replica.instance.identity.port.get().copied();
    let describe = |(name, changes): (String, Vec<Vec<u8>>)| {
        let port = name.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
        let replica = together.iter().find(|engine| address(engine) == port && port.is_some())?;
        let instance = &replica.instance;
        if changes.len() > MOST_HELD {
            let excess = LinkOrder::Step((changes.len() - MOST_HELD) as u64);
            master.order_links(excess, Some(&instance.number.to_string())).ok()?;
        }
        Some(HeldLink {
            replica: instance.number,
            may_lead: instance.config.number::<u32>("replica-priority") > 0,
            changes: changes.iter().rev().take(MOST_HELD).rev().map(|change| in_words(change)).collect(),
        })
    };
    let mut links: Vec<HeldLink> = master.instance.held_links().into_iter().filter_map(describe).collect();
    links.sort_by_key(|link| link.replica);
    links
}

/// A change as it is in the stream, without what is around it.
fn in_words(change: &[u8]) -> String {
    let mut lines = Vec::new();
    each_request(change, |_, words| {
        let is_around = |name: &&str| words.get(0).is_some_and(|word| word.eq_ignore_ascii_case(name.as_bytes()));
        if !["SELECT", "MULTI", "EXEC", "PING", "REPLCONF"].iter().any(is_around) {
            lines.push(line_of(&words.iter().map(<[u8]>::to_vec).collect::<Vec<_>>()));
        }
    });
    lines.join("; ")
}

/// The servers around a run.
struct Explored<'a> {
    engine: &'a Engine,
    together: Vec<Arc<Engine>>,
}

impl Explored<'_> {
    fn all(&self) -> impl Iterator<Item = &Engine> {
        let alone = self.together.is_empty().then_some(self.engine);
        alone.into_iter().chain(self.together.iter().map(|engine| &**engine))
    }
}

impl Surroundings for Explored<'_> {
    fn state(&self, client: ClientOf) -> RacerState {
        let at = self.all().find(|engine| engine.instance.number == client.instance);
        match at.and_then(|engine| engine.instance.clients.get(client.id)) {
            None => RacerState::Gone,
            Some(client) if client.seen().blocked.load(Ordering::Acquire) => RacerState::Blocked,
            Some(_) => RacerState::Idle,
        }
    }

    /// Replicas leave it to their master to delete what has expired.
    fn deadlines(&self) -> Option<Deadlines> {
        if self.engine.backend.upstream().is_some() {
            return None;
        }
        let now = self.engine.instance.clock.millis();
        let end = |(deadline, key): (Millis, Vec<u8>)| (deadline.saturating_add(1), key);
        let masters = self.all().filter(|engine| !engine.instance.is_replica());
        let keys = masters.filter_map(|engine| engine.instance.keyspace.next_expiry(now)).map(end);
        let key = keys.filter(|(end, _)| *end <= MAX_MICROS / 1000).min();
        let wait = self.all().filter_map(Engine::next_deadline).filter(|deadline| *deadline > now).min();
        Some(Deadlines { now, key, wait })
    }

    fn links(&self) -> HeldLinks {
        let links = master_of(&self.together).map(|master| links_of(master, &self.together));
        HeldLinks { links: links.unwrap_or_default(), keeps_address: !self.engine.has_sentinels() }
    }
}
