//! The lock auditor from Rust: the interface to REDOUBLE AUDIT and REDOUBLE LOCKS.

use std::sync::Arc;
#[cfg(feature = "internals")]
use std::sync::Weak;
use std::time::Duration;

use tokio::runtime::Handle;

use super::handle::Servers;
use super::journal::JournalGuard;
use super::timeout::{Timeout, USUAL_TIMEOUT, block_within, with_runtime_hint};
use super::world::{World, refused};
use crate::base::error::Error;
#[cfg(feature = "internals")]
use crate::clients::instance::Instance;
use crate::commands::so_many_found;
#[cfg(feature = "internals")]
use crate::commands::table_of_every_profile;
use crate::insight::audit::{
    Allowance, AuditFailure, Code, Finding, FindingQuery, KnownLock, LiveAudit, LockExplanation, Severity,
};
#[cfg(feature = "internals")]
use crate::insight::audit::{AuditedServer, Scope};
#[cfg(feature = "internals")]
use crate::powers::Item;
#[cfg(feature = "internals")]
use crate::spec::Table;

impl World {
    /// Starts the lock auditor, which checks every command that clients send from now on, and those that the journal
    /// has already. If it was off, it and the journal, which it needs, are on until the guard is dropped.
    ///
    /// Servers that were started together are audited together.
    ///
    /// ```
    /// # fn main() -> Result<(), redouble::Error> {
    /// let server = redouble::Server::builder().spawn()?;
    /// let audit = server.audit();
    /// // ... your code takes and releases a lock through server.url() ...
    /// # let client = redis::Client::open(server.url()).unwrap();
    /// # let (mut one, mut other) = (client.get_connection().unwrap(), client.get_connection().unwrap());
    /// # let set = |key: &str| redis::cmd("SET").arg(key).arg("token").arg("NX").arg("PX").arg(30_000).to_owned();
    /// # set("lock:a").exec(&mut one).unwrap();
    /// # set("lock:a").exec(&mut other).unwrap();
    /// for lock in audit.locks() {
    ///     println!("{} is {}", lock.key.escape_ascii(), lock.state);
    /// }
    /// # assert_eq!(audit.locks()[0].holders[0].token, b"token");
    /// # redis::cmd("EVAL").arg("if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0")
    /// #     .arg(1).arg("lock:a").arg("token").exec(&mut one).unwrap();
    /// # drop(other);
    /// # audit.allow(None, "lock:*", "this is an example")?;
    /// audit.expect_clean();
    /// # Ok(())
    /// # }
    /// ```
    pub fn audit(&self) -> AuditGuard {
        let engine = self.engine();
        let audit = Arc::clone(&engine.instance.audit);
        let events = self.event_loop().clone();
        let journals = self.audited_together().iter().map(|engine| JournalGuard::attach(engine, &events)).collect();
        let began = !audit.is_on();
        if began {
            engine.instance.start_audit();
        }
        AuditGuard { audit, events, journals, began }
    }
}

impl Servers {
    /// The lock auditor of all these servers. See [`World::audit`].
    pub fn audit(&self) -> AuditGuard {
        // There is at least one server.
        self[0].audit()
    }
}

/// All records of a world's journal, for this repository's own tests.
#[cfg(feature = "internals")]
pub fn journal_of(world: &World) -> Vec<Item> {
    world.engine().instance.control.journal.items()
}

/// The same from the record with this index on, and the index of the next record.
#[cfg(feature = "internals")]
pub fn journal_since(world: &World, index: u64) -> (Vec<Item>, u64) {
    world.engine().instance.control.journal.items_from(index)
}

/// What an auditor of running worlds finds in their journals so far if they ended here, for this repository's own tests.
#[cfg(feature = "internals")]
pub fn live_findings(worlds: &[&World], scope: Scope) -> Vec<Arc<Finding>> {
    let audit = LiveAudit::new(table_of_every_profile(), scope, false);
    for (number, world) in (1..).zip(worlds) {
        let audited: Weak<dyn AuditedServer> = Arc::<Instance>::downgrade(&world.engine().instance);
        audit.join(number, audited);
    }
    audit.turn_on();
    audit.findings_at_end()
}

/// The clock of a world in microseconds, for this repository's own tests.
#[cfg(feature = "internals")]
pub fn now_of(world: &World) -> i64 {
    world.engine().instance.clock.micros()
}

/// All commands, for this repository's own tests.
#[cfg(feature = "internals")]
pub fn command_table() -> Table {
    table_of_every_profile()
}

/// The audit of a world, or of several servers. Dropping it stops the audit if it was off before. The findings can
/// still be queried on the wire.
#[must_use = "the audit stops when this is dropped, if it was off before"]
pub struct AuditGuard {
    audit: Arc<LiveAudit>,
    events: Handle,
    journals: Vec<JournalGuard>,
    began: bool,
}

impl AuditGuard {
    /// The findings so far, in the order of their detection, including allowed ones. Findings that need the end of the
    /// test, such as a lock that is never released, are not included.
    pub fn findings(&self) -> Vec<Arc<Finding>> {
        self.audit.findings()
    }

    /// Like [`findings`](Self::findings), as if the test had ended.
    pub fn findings_at_end(&self) -> Vec<Arc<Finding>> {
        self.audit.findings_at_end()
    }

    /// Like [`findings_at_end`](Self::findings_at_end), with the findings from before resets, each of which was the end of a test, and from
    /// spaces that were dropped.
    pub fn findings_of_run(&self) -> Vec<Arc<Finding>> {
        self.audit.findings_of_run()
    }

    /// All locks that are held or waited for, as far as the audit knows.
    pub fn locks(&self) -> Vec<KnownLock> {
        self.audit.locks()
    }

    /// Why a key is taken for a lock, or not: what was seen, and how to say that it is otherwise. One explanation for each
    /// server and database in which the key was seen; it can be printed.
    pub fn why(&self, key: impl AsRef<[u8]>) -> Vec<LockExplanation> {
        self.audit.explain_key(key.as_ref())
    }

    /// Blocks the thread until there are `count` findings of this kind that are not allowed, and returns how many there
    /// are. Fails after ten seconds of real time; the error lists the findings so far.
    ///
    /// In an async test use [`wait_for_async`](Self::wait_for_async): on a current-thread runtime, such as that of
    /// `#[tokio::test]`, this blocks all other tasks, including those that are to cause the finding.
    pub fn wait_for(&self, code: Code, count: u64) -> Result<u64, Error> {
        self.wait_for_within(code, count, USUAL_TIMEOUT)
    }

    /// Like [`wait_for`](Self::wait_for), with a time-out in real time.
    pub fn wait_for_within(&self, code: Code, count: u64, timeout: Duration) -> Result<u64, Error> {
        block_within(timeout, |elapsed| self.so_many_found(code, count, timeout, elapsed)).map_err(with_runtime_hint)
    }

    /// Like [`wait_for`](Self::wait_for), for async tests: other tasks run meanwhile, on any runtime.
    pub async fn wait_for_async(&self, code: Code, count: u64) -> Result<u64, Error> {
        self.wait_for_within_async(code, count, USUAL_TIMEOUT).await
    }

    /// Like [`wait_for_async`](Self::wait_for_async), with a time-out in real time.
    pub async fn wait_for_within_async(&self, code: Code, count: u64, timeout: Duration) -> Result<u64, Error> {
        self.so_many_found(code, count, timeout, Timeout::start(&self.events, timeout)).await
    }

    async fn so_many_found(
        &self,
        code: Code,
        count: u64,
        timeout: Duration,
        time: impl Future<Output = ()>,
    ) -> Result<u64, Error> {
        let query = FindingQuery { code: Some(code), ..FindingQuery::default() };
        let sleep = |rest| Timeout::start(&self.events, rest);
        so_many_found(Arc::clone(&self.audit), query, (count, timeout), time, sleep).await.map_err(refused)
    }

    /// Panics if there are errors or warnings that are not allowed, as if the test had ended. The message tells the
    /// story of each, with the commands that prove it and the correct way. Notes do not fail the test.
    /// [`clean`](Self::clean) is the same without a panic.
    #[track_caller]
    pub fn expect_clean(&self) {
        let mistakes = self.clean();
        assert!(mistakes.is_ok(), "{}", mistakes.err().map(|mistakes| mistakes.to_string()).unwrap_or_default());
    }

    /// Fails if there are errors or warnings that are not allowed, as if the test had ended.
    pub fn clean(&self) -> Result<(), AuditFailure> {
        let query = FindingQuery { severity: Some(Severity::Warning), ..FindingQuery::default() };
        let mut findings = self.findings_at_end();
        findings.retain(|finding| query.fits(finding));
        findings.sort_by_key(|finding| finding.harm());
        if findings.is_empty() { Ok(()) } else { Err(AuditFailure { findings }) }
    }

    /// Allows a kind of finding, or every kind (`None`), for locks whose key matches a glob. Fails without a reason, or
    /// if there are 1000 allowances.
    pub fn allow(
        &self,
        code: impl Into<Option<Code>>,
        keys: impl Into<Vec<u8>>,
        reason: impl Into<String>,
    ) -> Result<(), Error> {
        let allowance = Allowance { code: code.into(), keys: keys.into(), reason: reason.into() };
        if allowance.reason.trim().is_empty() {
            return Err(Error::Refused("to allow a finding takes a reason".to_owned()));
        }
        self.audit.allow(allowance).map_err(Error::Refused)
    }

    /// Deletes the findings. The state of the locks is kept.
    pub fn clear(&self) {
        self.audit.clear();
    }

    /// The number of journal records that were dropped before the audit read them. It is above 0 only if the journals
    /// are very small; the audit then no longer knows which locks are held.
    pub fn missed(&self) -> u64 {
        self.audit.status().missed
    }

    /// The number of locks that were forgotten because all audits together knew more than
    /// [they may](crate::Builder::audit_memory). If it is above 0, findings may be missing.
    pub fn forgotten(&self) -> u64 {
        self.audit.status().forgotten
    }

    /// The journals that the audit reads.
    pub fn journals(&self) -> &[JournalGuard] {
        &self.journals
    }
}

impl Drop for AuditGuard {
    fn drop(&mut self) {
        if self.began {
            self.audit.turn_off();
        }
    }
}
