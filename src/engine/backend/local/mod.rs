//! The embedded keyspace as a back: it locks the keys of a command, runs its function, and serves the clients that are
//! blocked on what it wrote.
//!
//! Begin with [`Local::execute`]. [`locking`] chooses the locks, [`transaction`] runs EXEC, [`script`] EVAL and related
//! commands, [`fibers`] gives these a stack of their own, [`eviction`] evicts keys in front of commands, [`blocking`]
//! serves blocked clients, [`tracking`] remembers the reads of caching clients.

mod blocking;
mod eviction;
mod fibers;
mod locking;
mod script;
mod tracking;
mod transaction;

use std::cell::Cell;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};

use smallvec::SmallVec;

use crate::base::clock::{MAX_MICROS, Millis, Stopwatch};
use crate::base::error::CommandError;
use crate::base::sync::MutexExt;
use crate::clients::instance::Instance;
use crate::clients::session::{Flow, Session, Wait};
use crate::commands::{Call, CommandResult, Handler, Handlers, ReplyOrBlock};
use crate::data::keyspace::{Busy, EvictionPool, Recovery, ReplicatedRun, Scope, View};
use crate::engine::replies::{write, write_or_share};
use crate::engine::{Engine, Resolved, key_hashes};
use crate::protocol::{Reply, Words};
use crate::script::{Interpreters, Yielder};
use crate::spec::{Args, CommandSpec, Flag, ResolvedRow, Table};

pub use fibers::Fibers;

/// The embedded keyspace, with the functions of all commands.
pub struct Local {
    instance: Arc<Instance>,
    table: Table,
    handlers: Handlers,
    /// Serializes housekeeping, so that a clock move returns after the expiries it caused.
    cron_lock: Mutex<()>,
    eviction_pool: Mutex<EvictionPool>,
}

impl Local {
    pub fn new(instance: Arc<Instance>, table: Table, handlers: Handlers) -> Self {
        Self { instance, table, handlers, cron_lock: Mutex::default(), eviction_pool: Mutex::default() }
    }
}
/// Tells a view whose it is.
#[inline]
fn attribute(view: &mut View<'_>, session: &Session) {
    view.set_touch(!session.no_touch);
    if session.import_source && (session.is_master || view.is_importing()) {
        view.see_expired();
    }
}

/// Tells a view whose it is, and which command runs in it.
#[inline]
fn attribute_command(view: &mut View<'_>, session: &Session, spec: &CommandSpec) {
    attribute(view, session);
    if view.is_importing() {
        view.set_writing(spec.has_flag(Flag::Write));
    }
}

impl Local {
    pub fn fetch_ahead(&self, db: u32, hashes: &[u64]) {
        self.instance.keyspace.fetch_ahead(db, hashes);
    }

    /// Deletes so many expired keys, unless DEBUG SET-ACTIVE-EXPIRE disables that, and does the periodic work of the instance. Returns
    /// whether more have expired, or are to be evicted.
    pub fn cron(&self, most: usize) -> bool {
        let mut has_more = false;
        let _lock = self.cron_lock.lock_ignoring_poison();
        let instance = &self.instance;
        if instance.debug_switches.cron_paused.load(Ordering::Relaxed) {
            return false;
        }
        // A replica waits for its master to delete what has expired.
        if instance.expires_actively() && instance.paused().is_none() && !instance.is_read_only_replica() {
            let began = Stopwatch::start();
            if let Some((mut view, is_part)) = instance.keyspace.sweep(&instance.clock, most) {
                has_more = is_part;
                self.serve(&mut view, None);
                instance.stats.add(instance.finish_view(view, None));
            }
            instance.note_expire_cycle(began.elapsed());
        }
        if instance.config.live().limits_memory() {
            instance.sum_memory();
            if instance.is_eviction_due() {
                has_more |= self.continue_eviction();
            }
        }
        instance.cron();
        has_more
    }

    /// Puts right what a command may have left half done that has panicked.
    pub fn recover(&self) -> Result<Recovery, Busy> {
        let interpreters = self.interpreters()?;
        self.instance.scripts.end(&interpreters);
        let mut view = self.instance.keyspace.lock(Scope::Everything, 0, &self.instance.clock)?;
        let recovery = view.recover();
        self.serve(&mut view, None);
        self.instance.stats.add(self.instance.finish_view(view, None));
        Ok(recovery)
    }

    /// Deletes all data, scripts and functions, unless a script holds them.
    pub fn empty(&self) -> Result<(), Busy> {
        let mut interpreters = self.interpreters()?;
        let mut view = self.instance.keyspace.lock(Scope::Everything, 0, &self.instance.clock)?;
        view.flush_everything();
        view.replicate_as(&[b"FLUSHALL"]);
        view.replicate_as(&[b"FUNCTION", b"FLUSH"]);
        self.serve(&mut view, None);
        self.instance.stats.add(self.instance.finish_view(view, None));
        interpreters.flush();
        interpreters.flush_libraries();
        self.instance.scripts.update_stats(&interpreters);
        Ok(())
    }

    /// Takes over all data of a master, in place of its own, unless a script holds these.
    pub fn take_over(&self, snapshot: &[u8]) -> Result<(), Busy> {
        let mut interpreters = self.interpreters()?;
        let mut view = self.instance.keyspace.lock(Scope::Everything, 0, &self.instance.clock)?;
        if let Err(reason) = self.instance.load_from_master(&mut view, &mut interpreters, snapshot) {
            self.instance.log.warn(format!("The data of the master cannot be loaded: {reason}"));
        }
        self.serve(&mut view, None);
        self.instance.stats.add(self.instance.finish_view(view, None));
        Ok(())
    }

    /// Runs a command: its reply is appended to `out`.
    #[inline]
    pub fn execute(
        &self,
        front: &Engine,
        session: &mut Session,
        resolved: Resolved,
        words: Words<'_>,
        out: &mut Vec<u8>,
        yielder: Option<&Yielder<'_>>,
    ) -> Result<Flow, Busy> {
        let Resolved { row, key } = resolved;
        let spec = row.spec;
        let mut args = Args::new(words, row, &self.instance.profile);
        let error = match self.handlers.of(row.id) {
            Handler::Keys(run) => {
                let mut view = match self.lock_only_key(session, key)? {
                    // Built in place: moving it costs more than most commands.
                    Some((locked, index, hash)) => {
                        let Instance { keyspace, clock, .. } = &*self.instance;
                        keyspace.view_of_key(locked, session.db, words.get(index).unwrap_or_default(), hash, clock)
                    }
                    None => self.lock_keys(session, spec, key, words)?,
                };
                session.timer.begin(row.id, view.real_micros(), &session.counters, self.instance.config.live());
                attribute_command(&mut view, session, spec);
                if let Some(request) = session.received.take() {
                    view.set_received(request);
                }
                let replicated_run = view.begin_replicated_run();
                let result = run(&mut view, &mut args);
                let error = write_or_share(front, result, session, out);
                if let Some(run) = replicated_run {
                    self.replicate_run(&mut view, run, words);
                }
                self.track_reads(&mut view, session, spec, words);
                self.finish_view(&mut view, session);
                error
            }
            Handler::Blocking(run) => {
                let mut view = self.lock_keys(session, spec, key, words)?;
                session.timer.begin(row.id, view.real_micros(), &session.counters, self.instance.config.live());
                attribute_command(&mut view, session, spec);
                let replicated_run = view.begin_replicated_run();
                let (block, error) = match run(&mut view, &mut args, None) {
                    Ok(ReplyOrBlock::Block(block)) => (Some(block), None),
                    Ok(ReplyOrBlock::Reply(reply)) => (None, write(Ok(reply), session, out)),
                    Err(error) => (None, write(Err(error), session, out)),
                };
                // No other client can write the keys while the view lives.
                let wait = block.map(|block| self.block_on_keys(session, row, words, block));
                if let Some(run) = replicated_run {
                    view.end_replicated_run(run, words);
                }
                if wait.is_some() {
                    session.in_flight.trace.block();
                }
                self.finish_view(&mut view, session);
                if let Some(wait) = wait {
                    session.timer.block(words, &session.counters, self.instance.config.live());
                    return Ok(Flow::Wait(Box::new(wait)));
                }
                error
            }
            Handler::Database(run) => {
                let view = self.lock_existing(session, Scope::KeysOfDatabase)?;
                self.run_view(session, view, run, &mut args, out)
            }
            Handler::Scan(extent, run) => {
                let (cursor, count) = extent(&mut args.clone()).unwrap_or((0, 1));
                let view = self.lock_existing(session, Scope::ScannedKeys { cursor, count })?;
                self.run_view(session, view, run, &mut args, out)
            }
            Handler::AllDatabases(run) => {
                let view = self.lock_existing(session, Scope::KeysOfAll)?;
                self.run_view(session, view, run, &mut args, out)
            }
            Handler::Everything(run) => {
                let Instance { keyspace, clock, .. } = &*self.instance;
                let view = match () {
                    () if spec.stays_in_database(words) => self.lock_keys(session, spec, None, words)?,
                    () if !spec.keys.is_empty() => {
                        let hashes: SmallVec<[u64; 8]> = key_hashes(spec, words).collect();
                        keyspace.lock_in_all(&hashes, session.db, clock)?
                    }
                    () => keyspace.lock(Scope::Everything, session.db, clock)?,
                };
                self.run_view(session, view, run, &mut args, out)
            }
            Handler::Connection(run) => {
                session.publish();
                session.count();
                self.begin_call(session, row);
                let mut call = self.connection_call(session, None);
                let result = run(&mut call, &mut args);
                let flow = call.flow;
                if spec.has_flag(Flag::MayReplicate) && result.is_ok() {
                    self.replicate_as_it_came(session, words);
                }
                if let Flow::Wait(wait) = &flow {
                    if matches!(**wait, Wait::Blocked { .. }) {
                        session.timer.block(words, &session.counters, self.instance.config.live());
                    } else {
                        // The reply is written when the wait is over.
                        return Ok(flow);
                    }
                }
                if let Some(error) = write(result, session, out) {
                    self.count_failure(session, row, &error);
                }
                if self.instance.is_eviction_due() {
                    // CONFIG SET has lowered the limit.
                    self.evict();
                }
                return Ok(flow);
            }
            Handler::Debug(run) => {
                let mut interpreters = self.interpreters()?;
                let mut view = self.instance.keyspace.lock(Scope::Everything, session.db, &self.instance.clock)?;
                session.timer.begin(row.id, view.real_micros(), &session.counters, self.instance.config.live());
                let mut call = self.connection_call(session, Some(view.micros()));
                let result = run(&mut view, Some(&mut interpreters), &mut call, &mut args);
                self.finish_view(&mut view, session);
                write(result, session, out)
            }
            Handler::Transaction(which) => {
                let start = out.len();
                self.begin_call(session, row);
                let (result, flow) = self.transaction(front, session, which, &mut args, out, yielder)?;
                let ran = matches!(result, Ok(Reply::Nothing));
                if let Some(error) = write(result, session, out) {
                    self.count_failure(session, row, &error);
                }
                if !ran && session.replies.are_suppressed() {
                    out.truncate(start);
                }
                return Ok(flow);
            }
            Handler::Script(which) => self.run_script(front, session, which, &mut args, out, yielder)?,
            Handler::Library(run) => {
                let mut interpreters = self.interpreters()?;
                self.begin_call(session, row);
                let mut call = self.connection_call(session, None);
                let result = run(&mut interpreters, &mut call, &mut args);
                self.instance.scripts.update_stats(&interpreters);
                let error = write(result, session, out);
                if error.is_none() && spec.has_flag(Flag::Write) {
                    self.replicate_as_it_came(session, words);
                }
                error
            }
            // Reached only without a subcommand, which the arity rules out unless the bare command has a meaning.
            Handler::Container => write(Err(CommandError::SYNTAX), session, out),
        };
        if let Some(error) = error {
            self.count_failure(session, row, &error);
        }
        Ok(Flow::Continue)
    }

    /// A command without a view begins.
    #[inline]
    fn begin_call(&self, session: &mut Session, row: ResolvedRow) {
        let live = self.instance.config.live();
        if row.spec.has_flag(Flag::Fast) {
            session.timer.begin_short(row.id, &session.counters, live);
        } else {
            session.timer.begin_now(row.id, &session.counters, live);
        }
    }

    /// Counts the error reply of a command that ran.
    #[cold]
    pub(super) fn count_failure(&self, session: &Session, row: ResolvedRow, error: &CommandError) {
        self.instance.stats.count_error(error.code());
        session.counters.calls.row(row.id).add_failure();
    }

    /// Runs a command inside the view of EXEC or of a script.
    fn run_within(
        &self,
        front: &Engine,
        session: &mut Session,
        view: &mut View<'_>,
        row: ResolvedRow,
        words: Words<'_>,
        out: &mut Vec<u8>,
    ) -> Flow {
        let spec = row.spec;
        let mut args = Args::new(words, row, &self.instance.profile);
        view.select(session.db);
        view.set_writing(spec.has_flag(Flag::Write));
        if !self.instance.profile.since_redis(7, 2) {
            view.set_instant(self.instance.clock.micros());
        }
        if spec.computes_keys(words) {
            view.set_confined(!self.may_read_all_keys(session, spec, words));
        }
        let mut flow = Flow::Continue;
        let began = front.begin_inner_call(session, spec);
        let replicated_run = view.begin_replicated_run();
        let error = match self.handlers.of(row.id) {
            Handler::Keys(run) => write(run(view, &mut args), session, out),
            Handler::Blocking(run) => {
                write(run(view, &mut args, None).map(ReplyOrBlock::without_blocking), session, out)
            }
            Handler::Database(run) | Handler::Scan(_, run) => {
                view.extend_scope(Scope::Database);
                write(run(view, &mut args), session, out)
            }
            Handler::Everything(run) | Handler::AllDatabases(run) => {
                // A view that grows locks the keys in the other database when it comes to them.
                if spec.keys.is_empty() {
                    view.extend_scope(Scope::Everything);
                }
                write(run(view, &mut args), session, out)
            }
            Handler::Connection(run) => {
                session.count();
                let mut call = self.connection_call(session, Some(view.micros()));
                let result = run(&mut call, &mut args);
                let result = match call.flow {
                    // A command that would block is answered as if it had timed out.
                    Flow::Wait(wait) => match *wait {
                        Wait::Blocked { reply, .. } => Ok(reply),
                        _ => result,
                    },
                    asked => {
                        flow = asked;
                        result
                    }
                };
                if spec.has_flag(Flag::MayReplicate) && result.is_ok() {
                    view.replicate_anyway(words);
                }
                write(result, session, out)
            }
            Handler::Debug(run) => {
                view.extend_scope(Scope::Everything);
                let mut call = self.connection_call(session, Some(view.micros()));
                let result = run(view, None, &mut call, &mut args);
                view.replicate_no_more();
                write(result, session, out)
            }
            // Only UNWATCH is ever queued, and EXEC has dropped the watched keys already.
            Handler::Transaction(_) => write(Ok(Reply::OK), session, out),
            // EXEC runs these itself, and scripts must not call them.
            Handler::Script(_) | Handler::Library(_) | Handler::Container => {
                write(Err(CommandError::SYNTAX), session, out)
            }
        };
        if let Some(run) = replicated_run {
            view.end_replicated_run(run, words);
        }
        if let Some(error) = error {
            self.count_failure(session, row, &error);
        }
        front.end_inner_call(session, row, words, began);
        self.instance.announce(view, Some(session));
        session.executed += 1;
        flow
    }

    /// Sends replicas what a command in a view of its own has changed, or notes it for the end of the view.
    #[cold]
    fn replicate_run(&self, view: &mut View<'_>, run: ReplicatedRun, words: Words<'_>) {
        if view.is_sent_as_it_came(run) {
            self.instance.replicate_words(view.db(), words);
        } else {
            view.end_replicated_run(run, words);
        }
    }

    /// Sends replicas a command that has run without a view.
    fn replicate_as_it_came(&self, session: &Session, words: Words<'_>) {
        if self.instance.is_replicated() {
            self.instance.replicate_words(session.db, words);
        }
    }

    /// The interpreters, once no other command holds them.
    fn interpreters(&self) -> Result<MutexGuard<'_, Interpreters>, Busy> {
        self.instance.keyspace.lock_with_backoff(|| self.instance.scripts.try_lock())
    }

    /// The argument of a connection command. Inside a view, its instant is the view's.
    fn connection_call<'c>(&'c self, session: &'c mut Session, instant: Option<i64>) -> Call<'c> {
        let instant = Cell::new(instant);
        Call { server: &self.instance, table: &self.table, session, instant, flow: Flow::Continue }
    }

    fn run_view(
        &self,
        session: &mut Session,
        mut view: View<'_>,
        run: for<'v> fn(&'v mut View<'_>, &mut Args<'v>) -> CommandResult<'v>,
        args: &mut Args<'_>,
        out: &mut Vec<u8>,
    ) -> Option<CommandError> {
        session.timer.begin(args.row_id(), view.real_micros(), &session.counters, self.instance.config.live());
        attribute_command(&mut view, session, args.spec());
        let (spec, words) = (args.spec(), args.words());
        let mut args = args.clone();
        let replicated_run = view.begin_replicated_run();
        let error = write(run(&mut view, &mut args), session, out);
        if let Some(run) = replicated_run {
            view.end_replicated_run(run, words);
        }
        self.track_reads(&mut view, session, spec, words);
        if spec.comes_upon_keys {
            // Each key that it found expired is deleted on replicas by itself.
            self.instance.replicate(&mut view, false);
        }
        self.finish_view(&mut view, session);
        error
    }

    /// The next expiry of a key that clients block on until it disappears: a stream with a blocked consumer group
    /// reader.
    pub fn next_awaited_expiry(&self) -> Option<Millis> {
        let instance = &self.instance;
        if instance.keyspace.waiters().is_empty() || !instance.expires_actively() {
            return None;
        }
        // A key exists through the millisecond of its deadline.
        let end = instance.keyspace.next_awaited_deadline()?.saturating_add(1);
        (end > instance.clock.millis() && end <= MAX_MICROS / 1000).then_some(end)
    }
}
