//! The journal from Rust: the interface to REDOUBLE JOURNAL.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;

use super::timeout::{Timeout, USUAL_TIMEOUT, block_within, with_runtime_hint};
use super::world::{World, refused};
use crate::base::error::Error;
use crate::commands::reached;
use crate::engine::Engine;
use crate::powers::{Entry, Query, USUAL_SIZE, write_journal};

impl World {
    /// Starts the journal: every command that clients send from now on, in the order in which they took effect. If it
    /// was off, it is on until the guard is dropped, with the newest 64 MiB of entries.
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
        JournalGuard::attach(self.engine(), self.event_loop())
    }
}

/// The journal of a world. Dropping it stops the journal if it was off before. The entries are kept until the journal
/// starts again.
#[must_use = "the journal stops when this is dropped, if it was off before"]
pub struct JournalGuard {
    engine: Arc<Engine>,
    events: Handle,
    began: bool,
}

impl JournalGuard {
    pub(super) fn attach(engine: &Arc<Engine>, events: &Handle) -> Self {
        let began = !engine.instance.control.journal.is_on();
        if began && let Some(shrink) = engine.instance.start_journal(USUAL_SIZE) {
            shrink();
        }
        Self { engine: Arc::clone(engine), events: events.clone(), began }
    }

    /// The entries that match a query, the oldest first.
    pub fn entries(&self, query: impl Into<Query>) -> Vec<Entry> {
        let table = &self.engine.table;
        self.engine.instance.control.journal.entries(&query.into(), usize::MAX, &|words| table.name(words))
    }

    /// The number of commands that match a query.
    pub fn count(&self, query: impl Into<Query>) -> u64 {
        let (table, query) = (&self.engine.table, query.into());
        let journal = &self.engine.instance.control.journal;
        journal.read(0, |all| all.map(|seen| query.count(&seen, &|words| table.name(words))).sum())
    }

    /// Blocks the thread until `count` commands match, and returns how many match. Fails after ten seconds of real
    /// time; the error names the nearest matches.
    ///
    /// In an async test use [`wait_for_async`](Self::wait_for_async): on a current-thread runtime, such as that of
    /// `#[tokio::test]`, this blocks all other tasks, including those that are to send the commands.
    pub fn wait_for(&self, query: impl Into<Query>, count: u64) -> Result<u64, Error> {
        self.wait_for_within(query, count, USUAL_TIMEOUT)
    }

    /// Like [`wait_for`](Self::wait_for), with a time-out in real time.
    pub fn wait_for_within(&self, query: impl Into<Query>, count: u64, timeout: Duration) -> Result<u64, Error> {
        let query = query.into();
        block_within(timeout, |elapsed| self.reached(query, count, timeout, elapsed)).map_err(with_runtime_hint)
    }

    /// Like [`wait_for`](Self::wait_for), for async tests: other tasks run meanwhile, on any runtime.
    pub async fn wait_for_async(&self, query: impl Into<Query>, count: u64) -> Result<u64, Error> {
        self.wait_for_within_async(query, count, USUAL_TIMEOUT).await
    }

    /// Like [`wait_for_async`](Self::wait_for_async), with a time-out in real time.
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

    /// The number of entries that were dropped for lack of room.
    pub fn forgotten(&self) -> u64 {
        self.engine.instance.control.journal.stats().forgotten
    }

    /// Deletes all entries; sequence numbers continue.
    pub fn clear(&self) {
        self.engine.instance.clear_journal()();
    }

    /// Writes all entries to a file, one JSON object a line, atomically. Returns their number.
    pub fn export(&self, path: impl AsRef<Path>) -> Result<usize, Error> {
        let written = write_journal(path.as_ref(), &self.engine.instance.control.journal.items())?;
        Ok(usize::try_from(written).unwrap_or(usize::MAX))
    }
}

impl Drop for JournalGuard {
    fn drop(&mut self) {
        if self.began {
            self.engine.instance.stop_journal()();
        }
    }
}
