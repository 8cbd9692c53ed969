//! The explorer from Rust: the interface to REDOUBLE EXPLORE.

use std::future::Future;
use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use tokio::runtime::Handle;

use super::load::load;
use super::world::{self, World};
use crate::base::clock::Clock;
use crate::base::error::Error;
use crate::clients::session::ControlJob;
use crate::engine::Engine;
use crate::powers::{ClientOf, ExplorationSummary, Order, OrdersLeft, Search};

impl World {
    /// Starts an exploration: runs of a test in every order of the commands that its clients send concurrently. The
    /// clients that are connected when [`next`](Exploration::next) returns take part. Fails if an exploration is
    /// running already.
    ///
    /// ```
    /// # fn race(url: String) -> bool { true }
    /// # fn main() -> Result<(), redouble::Error> {
    /// let server = redouble::Server::builder().spawn()?;
    /// let mut exploration = server.explore(redouble::Search::default().clients(2))?;
    /// while exploration.next()?.is_some() {
    ///     // A test with clients on threads of their own.
    ///     if !race(server.url()) {
    ///         let token = exploration.fail()?;
    ///         panic!("{}\nREDOUBLE EXPLORE REPLAY {token}", exploration.order()?.join("\n"));
    ///     }
    /// }
    /// assert!(exploration.findings()?.is_complete);
    /// # Ok(())
    /// # }
    /// ```
    pub fn explore(&self, search: Search) -> Result<Exploration, Error> {
        self.may_explore(&search)?;
        let explorer = &self.engine().instance.control.explorer;
        explorer.start(search).map_err(refused)?;
        Ok(self.exploration())
    }

    /// Starts a replay of one order, which every [`next`](Exploration::next) begins again. Only the parts of the search
    /// that describe clients apply. Fails if the token is invalid, or if an exploration is running already.
    pub fn replay(&self, token: &str, search: Search) -> Result<Exploration, Error> {
        let order = Order::parse(token.as_bytes());
        let order =
            order.map_err(|reason| Error::Refused(format!("'{token}' is not the token of an order: {reason}")))?;
        self.may_explore(&search)?;
        self.engine().instance.control.explorer.replay(search, order).map_err(refused)?;
        Ok(self.exploration())
    }

    /// Each run begins with no data, and an expiry moves the clock.
    fn may_explore(&self, search: &Search) -> Result<(), Error> {
        if self.engine().instance.upstream.is_some() && search.chaos.needs_own_clock() {
            return Err(Error::Refused(Search::FOREIGN_CLOCK.to_owned()));
        }
        match &self.engine().instance.upstream {
            Some(upstream) if !upstream.is_disposable => {
                let text = "each run deletes the data of the upstream server, which upstream-disposable allows";
                Err(Error::Refused(text.to_owned()))
            }
            _ => Ok(()),
        }
    }

    fn exploration(&self) -> Exploration {
        self.engine().instance.control.explorer.survive_reset();
        Exploration { engine: Arc::clone(self.engine()), events: self.event_loop().clone(), seeds: Vec::new() }
    }
}

/// Runs of one test, each in another order. Dropping it ends the exploration and releases all parked commands.
#[must_use = "the exploration ends when this is dropped"]
pub struct Exploration {
    engine: Arc<Engine>,
    events: Handle,
    seeds: Vec<PathBuf>,
}

impl Exploration {
    /// Loads files before every run.
    pub(crate) fn load(mut self, seeds: Vec<PathBuf>) -> Self {
        self.seeds = seeds;
        self
    }

    /// Ends the current run, resets the server, and begins the next run. Returns its number, or `None` when every order
    /// was tried.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<u64>, Error> {
        let instance = &self.engine.instance;
        let number = instance.control.explorer.next(ClientOf::default(), &instance.clock).map_err(refused)?;
        if number.is_none() {
            self.engine.settle_here();
            return Ok(None);
        }
        self.wait_for(Arc::clone(&self.engine).run_control_job(ControlJob::ResetForRun))?.map_err(world::refused)?;
        self.seeds.iter().try_for_each(|path| load(&self.engine, path))?;
        let engine = Arc::clone(&self.engine);
        self.wait_for(async move { engine.arm_run() })?;
        Ok(number)
    }

    /// Waits a limited time until no client is connected.
    pub(crate) fn wait_for_goodbyes(&self) -> Result<(), Error> {
        const STEP: Duration = Duration::from_millis(1);
        const STEPS: usize = 500;
        let engine = Arc::clone(&self.engine);
        self.wait_for(async move {
            for _ in 0..STEPS {
                if engine.has_no_explored_clients() {
                    break;
                }
                Clock::sleep(STEP).await;
            }
        })
    }

    /// Marks the current run as failed, and returns the token of its order. Fails if no run is active.
    pub fn fail(&self) -> Result<String, Error> {
        self.engine.instance.control.explorer.fail().map_err(refused)
    }

    /// The commands of the current run in their order, one line each, with client and reply. Fails if no run is active.
    pub fn order(&self) -> Result<Vec<String>, Error> {
        self.engine.instance.control.explorer.order().map_err(refused)
    }

    /// Where the current run deviated from the order that it was to follow, if it did.
    pub fn strayed(&self) -> Option<String> {
        self.engine.instance.control.explorer.strayed()
    }

    /// How many orders are left, the current run included; `None` if that cannot be told.
    pub(crate) fn left(&self) -> Option<OrdersLeft> {
        self.engine.instance.control.explorer.left()
    }

    /// The results so far, without the current run.
    pub fn findings(&self) -> Result<ExplorationSummary, Error> {
        self.engine.instance.control.explorer.summary().map_err(refused)
    }

    /// Ends the exploration and releases all parked commands. Returns the results, including the current run.
    pub fn stop(self) -> Result<ExplorationSummary, Error> {
        let findings = self.engine.instance.stop_exploring().map_err(refused)?;
        self.engine.end_exploration();
        self.engine.settle_here();
        Ok(findings)
    }

    /// Runs a future on the server's event loop, and returns when it is done.
    fn wait_for<R: Send + 'static>(&self, work: impl Future<Output = R> + Send + 'static) -> Result<R, Error> {
        let (sender, receiver) = mpsc::channel();
        self.events.spawn(async move {
            let _ = sender.send(work.await);
        });
        receiver.recv().map_err(|_| Error::Refused("the server has ended".to_owned()))
    }
}

impl Drop for Exploration {
    fn drop(&mut self) {
        // The exploration may have been stopped by command.
        if self.engine.instance.stop_exploring().is_ok() {
            self.engine.end_exploration();
            self.engine.settle_here();
        }
    }
}

fn refused(reason: &'static str) -> Error {
    Error::Refused(reason.to_owned())
}
