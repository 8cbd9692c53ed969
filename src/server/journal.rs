//! The journal from Rust: what REDOUBLE JOURNAL does on the wire.

use std::future::poll_fn;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::runtime::Handle;

use super::handle::{World, refused};
use super::timeout::{Timeout, USUAL_TIMEOUT, with_runtime_hint};
use crate::base::clock::{Stopwatch, wait_here_for};
use crate::base::error::Error;
use crate::commands::reached;
use crate::engine::Engine;
use crate::powers::{Entry, Query, USUAL_SIZE, write_journal};

impl World {
    /// The journal: every command that clients send from now on, in the order in which it took effect. If it was off it is
    /// on until this is dropped, with the newest 64 MiB of entries.
    ///
    /// ```
    /// use redouble::Pattern;
    /// # fn main() -> Result<(), redouble::Error> {
    /// let server = redouble::Server::builder().spawn()?;
    /// let journal = server.journal();
    /// // ... your code takes a lock through server.url() ...
    /// # let mut client = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    /// # redis::cmd("SET").arg("lock:a").arg("token").arg("NX").exec(&mut client).unwrap();
    /// journal.wait_for(Pattern::on("SET").key("lock:*"), 1)?;
    /// for entry in journal.entries(Pattern::on("SET")) {
    ///     println!("{}. client {}: {:?}", entry.seq, entry.client, entry.outcome);
    /// }
    /// # assert_eq!(journal.entries(Pattern::on("SET"))[0].reply, b"+OK\r\n");
    /// # Ok(())
    /// # }
    /// ```
    pub fn journal(&self) -> JournalGuard {
        JournalGuard::begin(self.engine(), self.events())
    }
}

/// The journal of a world. Dropping it stops the journal if it was off before; what was written stays until it is begun
/// anew.
pub struct JournalGuard {
    engine: Arc<Engine>,
    events: Handle,
    began: bool,
}

impl JournalGuard {
    pub(super) fn begin(engine: &Arc<Engine>, events: &Handle) -> Self {
        let began = !engine.instance.control.journal.is_on();
        if began {
            engine.instance.start_journal(USUAL_SIZE);
        }
        Self { engine: Arc::clone(engine), events: events.clone(), began }
    }

    /// The entries that a question is about, the oldest first.
    pub fn entries(&self, query: impl Into<Query>) -> Vec<Entry> {
        let table = &self.engine.table;
        self.engine.instance.control.journal.entries(&query.into(), usize::MAX, &|words| table.name(words))
    }

    /// How many commands a question is about.
    pub fn count(&self, query: impl Into<Query>) -> u64 {
        let (table, query) = (&self.engine.table, query.into());
        let journal = &self.engine.instance.control.journal;
        journal.read(0, |all| all.map(|seen| query.count(&seen, &|words| table.name(words))).sum())
    }

    /// Blocks the thread until there are so many commands like this, and says how many there are. An error after ten
    /// seconds of real time; it names the nearest ones that have come instead.
    ///
    /// In an async test use [`wait_for_async`](Self::wait_for_async): on a current-thread runtime, as `#[tokio::test]`
    /// makes it, nothing else runs while this blocks, also not the tasks that are to send the commands.
    pub fn wait_for(&self, query: impl Into<Query>, count: u64) -> Result<u64, Error> {
        self.wait_for_within(query, count, USUAL_TIMEOUT)
    }

    /// As [`wait_for`](Self::wait_for), for so long in real time at most.
    pub fn wait_for_within(&self, query: impl Into<Query>, count: u64, timeout: Duration) -> Result<u64, Error> {
        let since = Stopwatch::start();
        let time = poll_fn(|_| if since.elapsed() >= timeout { Poll::Ready(()) } else { Poll::Pending });
        let mut event = pin!(self.reached(query.into(), count, timeout, time));
        loop {
            if let Some(outcome) = wait_here_for(event.as_mut(), timeout.saturating_sub(since.elapsed())) {
                return outcome.map_err(with_runtime_hint);
            }
        }
    }

    /// As [`wait_for`](Self::wait_for), for async tests: other tasks run meanwhile, on any runtime.
    pub async fn wait_for_async(&self, query: impl Into<Query>, count: u64) -> Result<u64, Error> {
        self.wait_for_within_async(query, count, USUAL_TIMEOUT).await
    }

    /// As [`wait_for_async`](Self::wait_for_async), for so long in real time at most.
    pub async fn wait_for_within_async(
        &self,
        query: impl Into<Query>,
        count: u64,
        timeout: Duration,
    ) -> Result<u64, Error> {
        self.reached(query.into(), count, timeout, Timeout::start(&self.events, timeout)).await
    }

    async fn reached(
        &self,
        query: Query,
        count: u64,
        timeout: Duration,
        time: impl Future<Output = ()>,
    ) -> Result<u64, Error> {
        let follower = self.engine.instance.control.journal.follower();
        reached(follower, query, (count, timeout), time, self.engine.table.clone()).await.map_err(refused)
    }

    /// How many entries have fallen out because there was no more room.
    pub fn forgotten(&self) -> u64 {
        self.engine.instance.control.journal.stats().forgotten
    }

    /// Forgets all entries; the order goes on.
    pub fn clear(&self) {
        self.engine.instance.clear_journal();
    }

    /// Writes all entries to a file, one JSON object a line; it is there whole or not at all. Says how many there were.
    pub fn export(&self, path: impl AsRef<Path>) -> Result<usize, Error> {
        let written = write_journal(path.as_ref(), &self.engine.instance.control.journal.items())?;
        Ok(usize::try_from(written).unwrap_or(usize::MAX))
    }
}

impl Drop for JournalGuard {
    fn drop(&mut self) {
        if self.began {
            self.engine.instance.stop_journal();
        }
    }
}
