//! The explorer: runs of one test, each with the commands of its racing clients in another order.
//!
//! While a run is on, every command of the clients that race is held in front of its run. When the last one that was let
//! through has taken effect, and of every client is known what it does, one of those that are held has its turn. Which
//! one, is what makes an order; the next run differs from the one before in its last turn that leaves another choice.

mod brief;
mod footprint;
mod run;
mod token;
mod tree;

use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Waker;
use std::time::Duration;

pub use footprint::Footprint;
pub use run::{Entrant, Look, Standing};
pub use token::Order;

use super::wait_queue::Permit;
use crate::base::clock::Clock;
use crate::base::glob;
use crate::base::sync::MutexExt;
use run::{Rest, Run};
use tree::Tree;

/// Which orders are tried, and whose commands they are made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Search {
    pub(crate) runs: u64,
    pub(crate) random: u64,
    pub(crate) seed: u64,
    pub(crate) settle: Duration,
    pub(crate) client: Option<Vec<u8>>,
    pub(crate) clients: usize,
    pub(crate) every_order: bool,
}

impl Search {
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

    /// Where chance begins: the same seed, the same orders.
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

    /// How many clients are to have come before the first turn, if they come in time.
    pub fn clients(mut self, clients: usize) -> Self {
        self.clients = clients;
        self
    }

    /// Also tries orders that differ only in commands that commute.
    pub fn every_order(mut self) -> Self {
        self.every_order = true;
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
        }
    }
}

/// What an exploration has come to so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExplorationSummary {
    /// Runs that are over.
    pub runs: u64,
    /// How many of those went through orders by chance.
    pub random: u64,
    /// How many turned out to be an order that was tried before, but for commands that commute.
    pub repeated: u64,
    /// How many the test has failed.
    pub failed: u64,
    /// Choices that were left out, since they only differ from others in commands that commute.
    pub skipped: u64,
    /// The most turns of a run.
    pub turns: usize,
    /// The most clients of a run.
    pub clients: usize,
    /// How many runs did not follow the order they were to follow.
    pub strayed: u64,
    /// The first time that happened: what was different.
    pub how: Option<String>,
    /// How many runs had more turns or clients than can be kept in mind.
    pub too_long: u64,
    /// Whether every order was tried.
    pub is_complete: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Stage {
    Systematic,
    Random,
    /// One order, as often as it is asked for.
    Replay(Order),
    /// Nothing is left to be tried.
    Over,
}

struct Exploration {
    search: Search,
    stage: Stage,
    tree: Tree,
    findings: ExplorationSummary,
    run: Option<Run>,
    /// The run may begin: the server is put back.
    is_armed: bool,
    /// The client that drives the exploration, which never races.
    driver: u64,
}

/// The exploration of a server, if there is one.
#[derive(Default)]
pub struct Explorer(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    exploration: Option<Exploration>,
    /// Somebody gives the turns.
    is_conducted: bool,
    conductor: Option<Waker>,
    /// Whoever began it ends it, and nobody's RESET does.
    outlasts_reset: bool,
}

const NONE: &str = "no exploration is under way; REDOUBLE EXPLORE START begins one";
const ANOTHER: &str = "an exploration is under way; REDOUBLE EXPLORE STOP ends it";
const NO_RUN: &str = "no order is under way; REDOUBLE EXPLORE NEXT begins one";

impl Explorer {
    /// Begins to explore. The error says why not.
    pub fn start(&self, search: Search) -> Result<(), &'static str> {
        self.begin(search, Stage::Systematic)
    }

    /// Begins to go through one order, again and again. The error says why not.
    pub fn replay(&self, search: Search, order: Order) -> Result<(), &'static str> {
        self.begin(search, Stage::Replay(order))
    }

    fn begin(&self, search: Search, stage: Stage) -> Result<(), &'static str> {
        let mut inner = self.inner();
        if inner.exploration.is_some() {
            return Err(ANOTHER);
        }
        inner.exploration = Some(Exploration {
            search,
            stage,
            tree: Tree::default(),
            findings: ExplorationSummary::default(),
            run: None,
            is_armed: false,
            driver: 0,
        });
        Ok(())
    }

    /// Ends the run that is on, and chooses the next order, which begins with [`arm`](Self::arm). Says its number, or
    /// `None` if everything was tried. `driver` is the client that asks for it, if it is one.
    pub fn next(&self, driver: u64, clock: &Arc<Clock>) -> Result<Option<u64>, &'static str> {
        let mut inner = self.inner();
        let exploration = inner.exploration.as_mut().ok_or(NONE)?;
        exploration.driver = driver;
        exploration.finish(clock);
        exploration.is_armed = false;
        exploration.run = exploration.plan();
        Ok(exploration.run.as_ref().map(|_| exploration.findings.runs + 1))
    }

    /// From now on commands are held; whether there is an exploration.
    pub fn arm(&self) -> bool {
        let mut inner = self.inner();
        let Some(exploration) = &mut inner.exploration else { return false };
        exploration.is_armed = exploration.run.is_some();
        true
    }

    /// Notes that the test has failed in this run; its token.
    pub fn fail(&self) -> Result<String, &'static str> {
        let mut inner = self.inner();
        let exploration = inner.exploration.as_mut().ok_or(NONE)?;
        let run = exploration.run.as_mut().ok_or(NO_RUN)?;
        run.has_failed = true;
        Ok(run.order().to_string())
    }

    /// The order so far, a line for each turn.
    pub fn order(&self) -> Result<Vec<String>, &'static str> {
        let inner = self.inner();
        let exploration = inner.exploration.as_ref().ok_or(NONE)?;
        Ok(exploration.run.as_ref().ok_or(NO_RUN)?.lines())
    }

    /// What has come of it so far; the run that is on does not count.
    pub fn findings(&self) -> Result<ExplorationSummary, &'static str> {
        let inner = self.inner();
        Ok(inner.exploration.as_ref().ok_or(NONE)?.findings())
    }

    /// Where the run that is on went another way than it was to.
    pub fn strayed(&self) -> Option<String> {
        let inner = self.inner();
        let run = inner.exploration.as_ref()?.run.as_ref()?;
        let ended_early = || format!("it ended after {} of {} turns", run.turns(), run.plan.len());
        run.strayed.clone().or_else(|| (run.turns() < run.plan.len()).then(ended_early))
    }

    /// Ends the exploration, and lets everybody go on; what has come of it.
    pub fn stop(&self, clock: &Arc<Clock>) -> Result<ExplorationSummary, &'static str> {
        let mut inner = self.inner();
        let mut exploration = inner.exploration.take().ok_or(NONE)?;
        inner.outlasts_reset = false;
        if let Some(conductor) = inner.conductor.take() {
            conductor.wake();
        }
        drop(inner);
        exploration.finish(clock);
        Ok(exploration.findings())
    }

    /// From now on a RESET does not end the exploration: a test that is run again and again may begin with one.
    pub fn outlast_reset(&self) {
        self.inner().outlasts_reset = true;
    }

    pub fn outlasts_reset(&self) -> bool {
        self.inner().outlasts_reset
    }

    // ---- what commands and clients do

    /// Holds a command until it is its turn; `None` if it may run at once.
    pub fn hold(&self, mut entrant: Entrant) -> Option<Permit> {
        let mut inner = self.inner();
        let exploration = inner.exploration.as_mut().filter(|exploration| exploration.is_armed)?;
        let guest = &entrant.guest;
        let races = guest.client != exploration.driver
            && exploration.search.client.as_ref().is_none_or(|glob| glob::matches(glob, &guest.client_name, false));
        if exploration.search.every_order {
            entrant.footprint = Footprint::everything();
        }
        let ticket = exploration.run.as_mut().filter(|_| races)?.hold(entrant);
        inner.wake();
        ticket
    }

    /// Whether somebody is held.
    pub fn holds_anybody(&self) -> bool {
        self.inner().run().is_some_and(|run| run.holds_anybody())
    }

    /// Notes what a client got for its last command.
    pub fn replied(&self, client: u64, reply: &[u8]) {
        if let Some(run) = self.inner().run() {
            run.replied(client, reply);
        }
    }

    /// A client is gone.
    pub fn left(&self, client: u64) {
        let mut inner = self.inner();
        if let Some(run) = inner.run() {
            run.left(client);
        }
        inner.wake();
    }

    // ---- who gives the turns

    /// Whether somebody is needed to give the turns; who asks first is.
    pub fn needs_conductor(&self) -> bool {
        let mut inner = self.inner();
        inner.exploration.is_some() && !std::mem::replace(&mut inner.is_conducted, true)
    }

    /// Gives the next turn, if it is time for that. The waker is called when there may be more to do.
    pub fn look(&self, waker: &Waker, standing: impl Fn(u64) -> Standing, clock: &Arc<Clock>) -> Look {
        let mut inner = self.inner();
        inner.conductor = Some(waker.clone());
        let Some(exploration) = &mut inner.exploration else {
            inner.is_conducted = false;
            inner.conductor = None;
            return Look::Over;
        };
        match &mut exploration.run {
            Some(run) if exploration.is_armed => run.look(&mut exploration.tree, standing, clock),
            _ => Look::Wait(None),
        }
    }

    /// The one that was let through has got as far as it can.
    pub fn took_effect(&self) {
        if let Some(run) = self.inner().run() {
            run.took_effect();
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock_ignoring_poison()
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
        if let Some(conductor) = &self.conductor {
            conductor.wake_by_ref();
        }
    }
}

impl Exploration {
    /// Ends the run that is on: everybody goes on.
    fn finish(&mut self, clock: &Arc<Clock>) {
        let Some(mut run) = self.run.take() else { return };
        run.free_all(clock);
        let findings = &mut self.findings;
        findings.runs += 1;
        findings.failed += u64::from(run.has_failed);
        findings.too_long += u64::from(run.is_too_long);
        findings.turns = findings.turns.max(run.turns());
        findings.clients = findings.clients.max(run.clients());
        if run.turns() < run.plan.len() {
            self.tree.cut(run.turns());
            run.strayed.get_or_insert(format!("it ended after {} of {} turns", run.turns(), run.plan.len()));
        }
        if let Some(how) = run.strayed {
            findings.strayed += 1;
            findings.how.get_or_insert(format!("run {}, {how}", findings.runs));
        }
        match self.stage {
            Stage::Systematic => {
                findings.repeated += u64::from(run.is_cut);
                self.tree.advance();
            }
            Stage::Random => findings.random += 1,
            Stage::Replay(_) | Stage::Over => {}
        }
    }

    /// The next run, if anything is left to be tried.
    fn plan(&mut self) -> Option<Run> {
        let Search { runs, random, seed, settle, clients, .. } = self.search;
        if self.stage == Stage::Systematic && (self.tree.is_done || self.findings.runs >= runs) {
            self.stage = if self.tree.is_done { Stage::Over } else { Stage::Random };
        }
        if self.stage == Stage::Random && self.findings.random >= random {
            self.stage = Stage::Over;
        }
        let (plan, rest) = match &self.stage {
            Stage::Systematic => (self.tree.plan(), Rest::Tree),
            Stage::Random => {
                // Each run draws its own numbers, so that it does not matter how many the one before has drawn.
                let state = seed.wrapping_add(self.findings.random.wrapping_mul(0xd134_2543_de82_ef95));
                (Order::default(), Rest::Dice(state))
            }
            Stage::Replay(order) => (order.clone(), Rest::Same),
            Stage::Over => return None,
        };
        let joining: usize = plan.0.iter().map(|turn| usize::from(turn.joining)).sum();
        Some(Run::new(plan, rest, settle, clients.max(self.findings.clients).max(joining)))
    }

    fn findings(&self) -> ExplorationSummary {
        let is_complete = self.tree.is_done && self.findings.strayed == 0 && self.findings.too_long == 0;
        ExplorationSummary { skipped: self.tree.skipped, is_complete, ..self.findings.clone() }
    }
}
