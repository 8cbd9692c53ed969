//! The explorer: runs of one test, each with the commands of its racing clients in another order.
//!
//! During a run, every command of a racing client is held before it runs. Once the last released command is over, and every
//! client is known to be held, blocked or gone, one held command is released: it takes its turn. The sequence of turns is
//! the order of the run. The next run differs in the last turn that leaves another choice.

mod chaos;
mod cheapest_first;
mod footprint;
mod links;
mod polls;
mod racer;
mod reply_summary;
mod run;
mod taken_turn;
mod token;
mod tree;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Waker;
use std::time::Duration;

pub use chaos::{Action, Chaos};
pub use footprint::Footprint;
pub use links::{HeldLink, HeldLinks, MOST_HELD, Observes};
pub use reply_summary::summarize;
pub use run::{ClientOf, Deadlines, Hold, NextTurn, RacerState, RacingCommand, RunId, Surroundings, TurnEvent};
pub use token::Order;

use crate::base::clock::Clock;
use crate::base::glob;
use crate::base::sync::MutexExt;
use run::{Run, RunLimits, TurnPolicy};
use tree::OrderTree;

/// Which orders are tried, and which clients race.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Search {
    pub(crate) runs: u64,
    pub(crate) random: u64,
    pub(crate) seed: u64,
    pub(crate) settle: Duration,
    pub(crate) client: Option<Vec<u8>>,
    pub(crate) clients: usize,
    pub(crate) every_order: bool,
    pub(crate) chaos: Chaos,
    pub(crate) polls: u32,
}

impl Search {
    /// The error for an expiry in front of another server.
    pub(crate) const FOREIGN_CLOCK: &str =
        "expiry does not go with an upstream: keys expire by the clock of the upstream server";

    /// How many runs there are at most while orders are tried systematically; 1000 unless this says otherwise.
    pub fn runs(mut self, runs: u64) -> Self {
        self.runs = runs;
        self
    }

    /// How many runs there are in random orders if that was not enough; 100 unless this says otherwise.
    pub fn random(mut self, runs: u64) -> Self {
        self.random = runs;
        self
    }

    /// The seed of the random orders: the same seed gives the same orders.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// How long a client may be silent, in real time, before the others go on without it; 10 ms unless this says
    /// otherwise.
    pub fn settle(mut self, settle: Duration) -> Self {
        self.settle = settle;
        self
    }

    /// Only the clients race whose names, as CLIENT SETNAME gives them, match this glob.
    pub fn client(mut self, glob: impl Into<Vec<u8>>) -> Self {
        self.client = Some(glob.into());
        self
    }

    /// How many clients the first turn waits for, as long as `settle` allows.
    pub fn clients(mut self, clients: usize) -> Self {
        self.clients = clients;
        self
    }

    /// Also tries orders that differ only in commands that commute.
    pub fn every_order(mut self) -> Self {
        self.every_order = true;
        self
    }

    /// Also tries what else can happen between commands: expiries, lost replies, crashes, pauses. The server's clock then
    /// goes on only for an expiry, or when nothing else can happen. The fewer of these and of changes between clients an
    /// order has, the earlier it is tried.
    pub fn chaos(mut self, chaos: Chaos) -> Self {
        self.chaos = chaos.with_failovers_of(&self.chaos);
        self
    }

    /// Up to so many times in a run, a replica becomes the master, perhaps without the last changes; not at all unless this says
    /// otherwise. Only for a server with replicas. See [`Builder::replicas`](crate::Builder::replicas).
    pub fn failovers(mut self, most: u32) -> Self {
        self.chaos = self.chaos.failover(most);
        self
    }

    /// How often a client may repeat a refused command before the others go on, as long as nothing has changed; once
    /// unless this says otherwise.
    pub fn polls(mut self, polls: u32) -> Self {
        self.polls = polls;
        self
    }
}

impl Default for Search {
    fn default() -> Self {
        Self {
            runs: 1000,
            random: 100,
            seed: 0,
            settle: Duration::from_millis(10),
            client: None,
            clients: 0,
            every_order: false,
            chaos: Chaos::default(),
            polls: 1,
        }
    }
}

/// The result of an exploration so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExplorationSummary {
    /// How many runs are over.
    pub runs: u64,
    /// How many of those took random orders.
    pub random: u64,
    /// How many repeated an earlier order, apart from commands that commute.
    pub repeated: u64,
    /// How many the test has failed.
    pub failed: u64,
    /// How many choices were left out because they differ from others only in commands that commute.
    pub skipped: u64,
    /// The most turns of a run.
    pub turns: usize,
    /// The most clients of a run.
    pub clients: usize,
    /// How many runs did not follow their planned order.
    pub strayed: u64,
    /// What was different the first time.
    pub how: Option<String>,
    /// How many runs had more turns or clients than an order can have.
    pub too_long: u64,
    /// How many choices were left out because a client repeats a refused command although nothing has changed.
    pub polls: u64,
    /// How many runs came to a point where nothing else happened than such repetitions.
    pub endless: u64,
    /// How many choices were dropped because there were too many to remember.
    pub dropped: u64,
    /// Whether every order was tried, apart from [`polls`](Self::polls).
    pub is_complete: bool,
}

/// How many orders are left to try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrdersLeft {
    Exactly(u64),
    /// As an estimate.
    About(u64),
    /// There are probably more, but no more than these are tried.
    AtMost(u64),
    /// So many are known, and each can lead to more.
    AtLeast(u64),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Phase {
    Systematic,
    Random,
    /// One order, as often as requested.
    Replay(Order),
    /// Nothing is left to try.
    Over,
}

struct Exploration {
    search: Search,
    phase: Phase,
    tree: OrderTree,
    summary: ExplorationSummary,
    run: Option<Run>,
    /// The server has been reset, and the run may begin.
    is_armed: bool,
    has_replicas: bool,
    /// The client that drives the exploration. It never races.
    driver: ClientOf,
}

/// The exploration of a server, if there is one.
#[derive(Default)]
pub struct Explorer {
    inner: Mutex<Inner>,
    /// The server has replicas in this process, whose clients are explored with its own.
    has_replicas: AtomicBool,
}

#[derive(Default)]
struct Inner {
    exploration: Option<Exploration>,
    /// A task gives the turns.
    has_scheduler: bool,
    scheduler: Option<Waker>,
    /// REDOUBLE RESET does not end the exploration.
    survives_reset: bool,
}

const NONE: &str = "no exploration is under way; REDOUBLE EXPLORE START begins one";
const ANOTHER: &str = "an exploration is under way; REDOUBLE EXPLORE STOP ends it";
const NO_REPLICAS: &str = "failovers need replicas: the server is to be started with --replicas";
const NO_RUN: &str = "no order is under way; REDOUBLE EXPLORE NEXT begins one";

impl Explorer {
    /// Begins to explore. The error says why not.
    pub fn start(&self, search: Search) -> Result<(), &'static str> {
        self.begin(search, Phase::Systematic)
    }

    /// Begins to repeat one order. The error says why not.
    pub fn replay(&self, search: Search, order: Order) -> Result<(), &'static str> {
        self.begin(search, Phase::Replay(order))
    }

    fn begin(&self, search: Search, phase: Phase) -> Result<(), &'static str> {
        let has_replicas = self.has_replicas();
        if search.chaos.failovers() > 0 && !has_replicas {
            return Err(NO_REPLICAS);
        }
        let mut inner = self.inner();
        if inner.exploration.is_some() {
            return Err(ANOTHER);
        }
        inner.exploration = Some(Exploration {
            tree: OrderTree::new(has_replicas || !search.chaos.is_empty()),
            has_replicas,
            search,
            phase,
            summary: ExplorationSummary::default(),
            run: None,
            is_armed: false,
            driver: ClientOf::default(),
        });
        Ok(())
    }

    /// Ends the current run and plans the next one, which begins with [`arm`](Self::arm). Returns its number, or `None`
    /// if everything was tried. `driver` is the client that asks for it, if one does.
    pub fn next(&self, driver: ClientOf, clock: &Arc<Clock>) -> Result<Option<u64>, &'static str> {
        let mut inner = self.inner();
        let exploration = inner.exploration.as_mut().ok_or(NONE)?;
        exploration.driver = driver;
        exploration.finish(clock);
        exploration.is_armed = false;
        exploration.run = exploration.plan();
        Ok(exploration.run.as_ref().map(|_| exploration.summary.runs + 1))
    }

    /// Begins to hold commands. Returns whether there is an exploration.
    pub fn arm(&self) -> bool {
        let mut inner = self.inner();
        let Some(exploration) = &mut inner.exploration else { return false };
        exploration.is_armed = exploration.run.is_some();
        true
    }

    /// Marks the current run as failed; returns the token of its order.
    pub fn fail(&self) -> Result<String, &'static str> {
        let mut inner = self.inner();
        let exploration = inner.exploration.as_mut().ok_or(NONE)?;
        let run = exploration.run.as_mut().ok_or(NO_RUN)?;
        run.has_failed = true;
        Ok(run.order().to_string())
    }

    /// The order so far, one line for each turn.
    pub fn order(&self) -> Result<Vec<String>, &'static str> {
        let inner = self.inner();
        let exploration = inner.exploration.as_ref().ok_or(NONE)?;
        Ok(exploration.run.as_ref().ok_or(NO_RUN)?.lines())
    }

    /// The result so far, without the current run.
    pub fn summary(&self) -> Result<ExplorationSummary, &'static str> {
        let inner = self.inner();
        Ok(inner.exploration.as_ref().ok_or(NONE)?.summary())
    }

    /// How many orders are left, the current run included; `None` if that cannot be told.
    pub fn left(&self) -> Option<OrdersLeft> {
        self.inner().exploration.as_ref()?.left()
    }

    /// Where the current run left its plan.
    pub fn strayed(&self) -> Option<String> {
        let inner = self.inner();
        let run = inner.exploration.as_ref()?.run.as_ref()?;
        let ended_early = || format!("it ended after {} of {} turns", run.turns(), run.plan.len());
        run.strayed.clone().or_else(|| (run.turns() < run.plan.len()).then(ended_early))
    }

    /// Ends the exploration and releases every held command; returns the result.
    pub fn stop(&self, clock: &Arc<Clock>) -> Result<ExplorationSummary, &'static str> {
        let mut inner = self.inner();
        let mut exploration = inner.exploration.take().ok_or(NONE)?;
        inner.survives_reset = false;
        if let Some(scheduler) = inner.scheduler.take() {
            scheduler.wake();
        }
        drop(inner);
        exploration.finish(clock);
        Ok(exploration.summary())
    }

    /// Keeps the exploration over a RESET: a test that is repeated may begin with one.
    pub fn survive_reset(&self) {
        self.inner().survives_reset = true;
    }

    pub fn survives_reset(&self) -> bool {
        self.inner().survives_reset
    }

    // ---- commands and clients

    /// Holds a command until its turn.
    pub fn hold(&self, mut command: RacingCommand) -> Hold {
        let mut inner = self.inner();
        let Some(exploration) = inner.exploration.as_mut().filter(|exploration| exploration.is_armed) else {
            return Hold::Pass;
        };
        let parked = &command.parked;
        let is_driver = (ClientOf { instance: command.instance, id: parked.client }) == exploration.driver;
        let races = !is_driver
            && exploration.search.client.as_ref().is_none_or(|glob| glob::matches(glob, &parked.client_name, false));
        if exploration.search.every_order {
            command.footprint = Footprint::everything();
        }
        let hold = match &mut exploration.run {
            Some(run) if races => run.hold(command),
            Some(run) if run.holds_links() => Hold::PassBeside,
            _ => Hold::Pass,
        };
        inner.wake();
        hold
    }

    /// What happens to the command of a client that had its turn.
    pub fn take_fate(&self, client: ClientOf) -> Action {
        self.inner().run().map_or(Action::Run, |run| run.take_fate(client))
    }

    /// Whether the clock goes on only for the explorer.
    pub fn owns_clock(&self) -> bool {
        self.inner()
            .exploration
            .as_ref()
            .is_some_and(|exploration| exploration.has_replicas || !exploration.search.chaos.is_empty())
    }

    /// From now on, replicas of the server are explored with it.
    pub fn include_replicas(&self) {
        self.has_replicas.store(true, Ordering::Relaxed);
    }

    pub fn has_replicas(&self) -> bool {
        self.has_replicas.load(Ordering::Relaxed)
    }

    /// The server was reset in the middle of a run, which has opened its links.
    pub fn links_were_opened(&self) {
        if let Some(run) = self.inner().run() {
            run.links_were_opened();
        }
    }

    /// Whether this run has not ended.
    pub fn is_in_run(&self, id: RunId) -> bool {
        self.inner()
            .exploration
            .as_ref()
            .is_some_and(|exploration| exploration.run.is_some() && exploration.summary.runs == id)
    }

    /// Whether any command is held.
    pub fn holds_any(&self) -> bool {
        self.inner().run().is_some_and(|run| run.holds_any())
    }

    /// Keeps the reply to a client's last command.
    pub fn record_reply(&self, client: ClientOf, reply: &[u8]) {
        if let Some(run) = self.inner().run() {
            run.record_reply(client, reply);
        }
    }

    /// A client has disconnected.
    pub fn client_left(&self, client: ClientOf) {
        let mut inner = self.inner();
        if let Some(run) = inner.run() {
            run.client_left(client);
        }
        inner.wake();
    }

    // ---- the scheduler

    /// Whether the caller is to give the turns: true for the first caller only.
    pub fn claim_scheduling(&self) -> bool {
        let mut inner = self.inner();
        inner.exploration.is_some() && !std::mem::replace(&mut inner.has_scheduler, true)
    }

    /// Releases the next command, if it is time for that. The waker is called when there may be more to do.
    pub fn next_turn(&self, waker: &Waker, around: &impl Surroundings, clock: &Arc<Clock>) -> NextTurn {
        let mut inner = self.inner();
        inner.scheduler = Some(waker.clone());
        let Some(exploration) = &mut inner.exploration else {
            inner.has_scheduler = false;
            inner.scheduler = None;
            return NextTurn::Over;
        };
        match &mut exploration.run {
            Some(run) if exploration.is_armed => run.next_turn(&mut exploration.tree, around, clock),
            _ => NextTurn::Wait(None),
        }
    }

    /// The released command has run as far as it can.
    pub fn turn_is_over(&self) {
        if let Some(run) = self.inner().run() {
            run.turn_is_over();
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock_ignoring_poison()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.wake();
    }
}

impl Inner {
    fn run(&mut self) -> Option<&mut Run> {
        self.exploration.as_mut()?.run.as_mut()
    }

    fn wake(&self) {
        if let Some(scheduler) = &self.scheduler {
            scheduler.wake_by_ref();
        }
    }
}

impl Exploration {
    /// Ends the current run and releases every held command.
    fn finish(&mut self, clock: &Arc<Clock>) {
        let Some(mut run) = self.run.take() else { return };
        run.free_all(clock);
        let summary = &mut self.summary;
        summary.runs += 1;
        summary.failed += u64::from(run.has_failed);
        summary.too_long += u64::from(run.is_too_long);
        summary.polls += run.polls_left_out;
        summary.endless += u64::from(run.is_endless);
        summary.turns = summary.turns.max(run.turns());
        summary.clients = summary.clients.max(run.clients());
        if run.turns() < run.plan.len() {
            self.tree.cut(run.turns());
            run.strayed.get_or_insert(format!("it ended after {} of {} turns", run.turns(), run.plan.len()));
        }
        let has_strayed = run.strayed.is_some();
        if let Some(how) = run.strayed {
            summary.strayed += 1;
            summary.how.get_or_insert(format!("run {}, {how}", summary.runs));
        }
        match self.phase {
            Phase::Systematic => {
                summary.repeated += u64::from(run.is_redundant && !has_strayed);
                self.tree.advance();
            }
            Phase::Random => summary.random += 1,
            Phase::Replay(_) | Phase::Over => {}
        }
    }

    /// The next run, if anything is left to try.
    fn plan(&mut self) -> Option<Run> {
        let Search { runs, random, seed, settle, clients, polls, .. } = self.search;
        if self.phase == Phase::Systematic && (self.tree.is_done() || self.summary.runs >= runs) {
            self.phase = if self.tree.is_done() { Phase::Over } else { Phase::Random };
        }
        if self.phase == Phase::Random && self.summary.random >= random {
            self.phase = Phase::Over;
        }
        let (plan, policy) = match &self.phase {
            Phase::Systematic => (self.tree.plan(), TurnPolicy::Tree),
            Phase::Random => {
                // Each run has a generator of its own, so it does not depend on how many numbers earlier runs drew.
                let state = seed.wrapping_add(self.summary.random.wrapping_mul(0xd134_2543_de82_ef95));
                (Order::default(), TurnPolicy::Random(state))
            }
            Phase::Replay(order) => (order.clone(), TurnPolicy::Usual),
            Phase::Over => return None,
        };
        let joining: usize = plan.0.iter().map(|turn| usize::from(turn.joining)).sum();
        let limits = RunLimits { settle, chaos: self.search.chaos.clone(), polls, has_replicas: self.has_replicas };
        let expected = clients.max(self.summary.clients).max(joining);
        Some(Run::new(self.summary.runs, plan, policy, limits, expected))
    }

    fn left(&self) -> Option<OrdersLeft> {
        let Search { runs, random, .. } = self.search;
        match self.phase {
            Phase::Systematic => {
                let tried = self.summary.runs;
                let most = runs.saturating_sub(tried).saturating_add(random);
                let part = match &self.tree {
                    OrderTree::DepthFirst(tree) => tree.tried_part(),
                    OrderTree::CheapestFirst(search) if search.left() >= most => return Some(OrdersLeft::AtMost(most)),
                    OrderTree::CheapestFirst(search) => return Some(OrdersLeft::AtLeast(search.left())),
                };
                let all = (part > 0.0).then(|| (tried as f64 / part).round())?;
                let left = all - tried as f64;
                Some(if left < most as f64 {
                    OrdersLeft::About((left as u64).max(1))
                } else {
                    OrdersLeft::AtMost(most)
                })
            }
            Phase::Random => Some(OrdersLeft::Exactly(random.saturating_sub(self.summary.random))),
            Phase::Replay(_) | Phase::Over => None,
        }
    }

    fn summary(&self) -> ExplorationSummary {
        let ExplorationSummary { strayed, too_long, endless, .. } = self.summary;
        let dropped = self.tree.dropped();
        let is_complete = self.tree.is_done() && strayed + too_long + endless + dropped == 0;
        ExplorationSummary { skipped: self.tree.skipped(), dropped, is_complete, ..self.summary.clone() }
    }
}
