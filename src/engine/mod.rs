//! The life of one command, from its request to the last byte of its reply.
//!
//! Knows the order of the steps: hooks, permission, locks, the run, the reply, the journal.
//! May use: every floor below it; sees no socket.
//! Begin with [`Engine::execute`], the one function that every command passes.

mod auto;
mod control_job;
mod explore;
mod fibers;
mod journal;
mod monitor;
mod passage;
mod permissions;
mod reset;
mod script;
mod tracking;
mod transaction;
mod waiting;

use std::cell::Cell;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};

use smallvec::SmallVec;

use crate::base::error::CommandError;
use crate::base::profile::Since;
use crate::base::sync::MutexExt;
use crate::clients::instance::Instance;
use crate::clients::session::{Activity, Flow, Replies, Session, Waiting};
use crate::clients::stats::Counters;
use crate::commands::{self, Call, CommandResult, Handler, Handlers, ReplyOrBlock};
use crate::data::keyspace::{Busy, Locked, Scope, View, hash_of};
use crate::powers::{Hook, HookPath};
use crate::protocol::{Protocol, Reply, Words};
use crate::script::{Interpreters, Pause};
use crate::spec::{Args, CommandKind, CommandSpec, Flag, Group, ResolvedRow, Table, TransactionCommand};

pub use fibers::Fibers;

/// Where Valkey began to say which command a transaction does not take, and to ask for the password first of all.
const VALKEY_9: Since = Since::valkey(9, 0, 0);

/// To Redis, who monitors is a kind of replica.
const MONITOR_WITHOUT_KEYS: CommandError = CommandError::fixed("ERR Replica can't interact with the keyspace");

/// What is known about a request before it runs.
#[derive(Clone, Copy)]
pub struct Resolved {
    row: ResolvedRow,
    /// Its key, if it has exactly one: the position and the hash.
    key: Option<(usize, u64)>,
}

impl Resolved {
    /// The hash of the only key, to fetch ahead.
    #[inline]
    pub fn hash(&self) -> Option<u64> {
        self.key.map(|(_, hash)| hash)
    }
}

/// Runs commands against one server's data.
pub struct Engine {
    pub instance: Arc<Instance>,
    pub table: Table,
    handlers: Handlers,
    /// Held while somebody keeps house, so that who moves the clock finds done what that set off.
    house: Mutex<()>,
    /// Errands are done one by one.
    turn: tokio::sync::Mutex<()>,
    outlook: auto::AutoAdvance,
}

impl Engine {
    pub fn new(instance: Arc<Instance>, table: Table) -> Self {
        Self {
            instance,
            table,
            handlers: Handlers::new(commands::all()),
            house: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
            outlook: auto::AutoAdvance::default(),
        }
    }

    /// What is to be done now and then, and when the clock was moved: deletes keys whose time has passed, unless DEBUG
    /// SET-ACTIVE-EXPIRE has put an end to that, and closes connections that nobody uses.
    pub fn cron(&self) {
        let _house = self.house.lock_ignoring_poison();
        let instance = &self.instance;
        if instance.active_expire.load(Ordering::Relaxed)
            && let Some(mut view) = instance.keyspace.sweep(&instance.clock)
        {
            self.serve(&mut view, None);
            instance.stats.add(instance.settle(view, None));
        }
        instance.cron();
    }

    /// Forgets all data, scripts and functions, unless a script has them.
    pub fn empty(&self) -> Result<(), Busy> {
        let mut interpreters = self.interpreters()?;
        let mut view = self.instance.keyspace.lock(Scope::Everything, 0, &self.instance.clock)?;
        view.flush_everything();
        self.serve(&mut view, None);
        self.instance.stats.add(self.instance.settle(view, None));
        interpreters.flush();
        interpreters.flush_libraries();
        self.instance.scripts.note(&interpreters);
        Ok(())
    }

    /// Runs one request: its reply is appended to `out`, and the answer says how the connection goes on.
    ///
    /// This is the one place that every command passes, in this order: may it run, the run itself, the reply, who looks
    /// on.
    #[inline]
    pub fn execute(
        self: &Arc<Self>,
        session: &mut Box<Session>,
        resolved: Result<Resolved, CommandError>,
        words: Words<'_>,
        out: &mut Vec<u8>,
        fibers: &mut Fibers,
    ) -> Flow {
        // What has begun its way ends it, although nothing may stand there any more.
        match self.instance.active_hooks.company() {
            HookPath::Nobody if !session.is_under_way() => self.perform(session, resolved, words, out, fibers),
            HookPath::Journal if session.passage.is_none() => self.journalled(session, resolved, words, out, fibers),
            _ => self.accompany(session, resolved, words, out, fibers),
        }
    }

    /// Runs one request that nothing stands in the way of.
    #[inline]
    fn perform(
        self: &Arc<Self>,
        session: &mut Box<Session>,
        resolved: Result<Resolved, CommandError>,
        words: Words<'_>,
        out: &mut Vec<u8>,
        fibers: &mut Fibers,
    ) -> Flow {
        let resolved = match resolved {
            Ok(resolved) => resolved,
            Err(error) => return self.refuse_unresolved(session, words, error, out),
        };
        let spec = resolved.row.spec;
        session.last_command = Some(spec);
        if let Err(error) = self.admit(session, spec, words) {
            self.end_exception(session, Some(spec));
            let flow = self.refuse(session, is_exec(spec), error, out);
            if is_exec(spec) && self.instance.active_hooks.is_needed() {
                self.show(session, spec, words, out);
            }
            return flow;
        }
        if self.instance.active_hooks.is_needed() {
            if let Some(error) = self.is_busy(spec) {
                return self.refuse(session, is_exec(spec), error, out);
            }
            if is_monitor(session) && (transaction::may_write(spec) || spec.has_flag(Flag::ReadOnly)) {
                return self.refuse(session, is_exec(spec), MONITOR_WITHOUT_KEYS, out);
            }
            if self.must_wait(session, spec, words) {
                return Flow::Wait(Box::new(Waiting::Unpause));
            }
        }
        if self.instance.tracking.is_overfull() {
            self.instance.evict_tracked_keys(session, out);
        }
        if session.transaction.is_some() && transaction::is_queued(spec) {
            let start = out.len();
            let queued = transaction::queue(session, resolved.row, words);
            if queued > self.instance.config.live().query_buffer_limit.load(Ordering::Relaxed) {
                return Flow::Drop;
            }
            Reply::Status("QUEUED").write(session.protocol, out);
            if session.replies != Replies::On {
                self.withhold(session, start, out);
            }
            return Flow::Continue;
        }
        if transaction::may_run_scripts(session, spec) {
            return self.run_in_fiber(session, resolved, words, out, fibers);
        }
        self.carry_out(session, resolved, words, out, None)
    }

    /// Runs a request that may run now, up to the last byte of what its client gets for it.
    #[inline]
    fn carry_out(
        &self,
        session: &mut Session,
        resolved: Resolved,
        words: Words<'_>,
        out: &mut Vec<u8>,
        pause: Option<&Pause<'_>>,
    ) -> Flow {
        let spec = resolved.row.spec;
        let start = out.len();
        let flow = match self.run(session, resolved, words, out, pause) {
            Ok(flow) => flow,
            Err(Busy) => return self.refuse(session, is_exec(spec), self.busy_error(), out),
        };
        session.executed += 1;
        if session.replies != Replies::On && !matches!(flow, Flow::Wait(_)) {
            // EXEC leaves out what is to be left out itself, reply by reply.
            let start = if matches!(spec.kind, CommandKind::Transaction(_)) { out.len() } else { start };
            self.withhold(session, start, out);
        }
        if !session.aside.is_empty() || !session.ahead.is_empty() {
            add_messages(session, start, out);
        }
        self.end_exception(session, Some(spec));
        if self.instance.active_hooks.is_needed() {
            self.show(session, spec, words, out);
        }
        flow
    }

    /// Finds a request's row, and its key if there is exactly one.
    #[inline]
    pub fn resolve(&self, words: Words<'_>) -> Result<Resolved, CommandError> {
        let row = self.table.resolve(words)?;
        let key = match row.spec.keys {
            [keys] => keys.single_position().and_then(|index| Some((index, hash_of(words.get(index)?)))),
            _ => None,
        };
        Ok(Resolved { row, key })
    }

    #[inline]
    fn run(
        &self,
        session: &mut Session,
        resolved: Resolved,
        words: Words<'_>,
        out: &mut Vec<u8>,
        pause: Option<&Pause<'_>>,
    ) -> Result<Flow, Busy> {
        let Resolved { row, key } = resolved;
        let spec = row.spec;
        let mut args = Args::new(words, row, &self.instance.profile);
        let error = match self.handlers.of(row.id) {
            Handler::Keys(run) => {
                let mut view = match self.lock_only_key(session, key)? {
                    // Made here and moved nowhere, for to read what was copied a moment ago takes longer than many a
                    // command.
                    Some((locked, index, hash)) => {
                        let Instance { keyspace, clock, .. } = &*self.instance;
                        keyspace.view_of_key(locked, words.get(index).unwrap_or_default(), hash, clock)
                    }
                    None => self.lock_keys(session, spec, key, words)?,
                };
                view.set_touch(!session.no_touch);
                let result = run(&mut view, &mut args);
                let error = write(result, session, out);
                self.remember(&mut view, session, spec, words);
                self.conclude(&mut view, session);
                error
            }
            Handler::Blocking(run) => {
                let mut view = self.lock_keys(session, spec, key, words)?;
                view.set_touch(!session.no_touch);
                let (block, error) = match run(&mut view, &mut args, None) {
                    Ok(ReplyOrBlock::Block(block)) => (Some(block), None),
                    Ok(ReplyOrBlock::Reply(reply)) => (None, write(Ok(reply), session, out)),
                    Err(error) => (None, write(Err(error), session, out)),
                };
                // As long as the view lives, nobody can put anything under the keys.
                let wait = block.map(|block| self.begin_wait(session, row, words, block));
                if wait.is_some() {
                    session.trace.block();
                }
                self.conclude(&mut view, session);
                if let Some(wait) = wait {
                    return Ok(Flow::Wait(Box::new(wait)));
                }
                error
            }
            Handler::Database(run) => self.run_view(session, Scope::Database, run, &mut args, out)?,
            Handler::Everything(run) => self.run_view(session, Scope::Everything, run, &mut args, out)?,
            Handler::Connection(run) => {
                session.publish();
                session.count();
                let mut call = self.call(session, None);
                let result = run(&mut call, &mut args);
                let flow = call.flow;
                if let Flow::Wait(wait) = &flow {
                    if matches!(**wait, Waiting::Until { .. }) {
                        session.client.wait_for_time();
                    } else {
                        // The reply comes when that is over.
                        return Ok(flow);
                    }
                }
                if let Some(error) = write(result, session, out) {
                    self.instance.stats.count_error(error.code());
                }
                return Ok(flow);
            }
            Handler::Debug(run) => {
                let mut view = self.instance.keyspace.lock(Scope::Everything, session.db, &self.instance.clock)?;
                let mut call = self.call(session, Some(view.micros()));
                let result = run(&mut view, &mut call, &mut args);
                self.conclude(&mut view, session);
                write(result, session, out)
            }
            Handler::Transaction(which) => {
                let start = out.len();
                let (result, flow) = self.transaction(session, which, &mut args, out, pause)?;
                let ran = matches!(result, Ok(Reply::Nothing));
                if let Some(error) = write(result, session, out) {
                    self.instance.stats.count_error(error.code());
                }
                if !ran && session.replies.are_withheld() {
                    out.truncate(start);
                }
                return Ok(flow);
            }
            Handler::Script(which) => self.run_script(session, which, &mut args, out, pause)?,
            Handler::Library(run) => {
                let mut interpreters = self.interpreters()?;
                let mut call = self.call(session, None);
                let result = run(&mut interpreters, &mut call, &mut args);
                self.instance.scripts.note(&interpreters);
                write(result, session, out)
            }
            // Only reached without a subcommand, which the row's arity forbids unless that means something.
            Handler::Container => write(Err(CommandError::SYNTAX), session, out),
        };
        if let Some(error) = error {
            self.instance.stats.count_error(error.code());
        }
        Ok(Flow::Continue)
    }

    /// Runs a command within a view that others have opened: EXEC, or a script.
    fn run_within(
        &self,
        session: &mut Session,
        view: &mut View<'_>,
        row: ResolvedRow,
        words: Words<'_>,
        out: &mut Vec<u8>,
    ) -> Flow {
        let spec = row.spec;
        let mut args = Args::new(words, row, &self.instance.profile);
        view.select(session.db);
        if spec.computes_keys(words) {
            view.set_confined(!self.instance.acl.may_read_all_keys(&session.user, spec, words));
        }
        let mut flow = Flow::Continue;
        let error = match self.handlers.of(row.id) {
            Handler::Keys(run) => write(run(view, &mut args), session, out),
            Handler::Blocking(run) => {
                write(run(view, &mut args, None).map(ReplyOrBlock::without_blocking), session, out)
            }
            Handler::Database(run) => {
                view.widen(Scope::Database);
                write(run(view, &mut args), session, out)
            }
            Handler::Everything(run) => {
                view.widen(Scope::Everything);
                write(run(view, &mut args), session, out)
            }
            Handler::Connection(run) => {
                session.count();
                let mut call = self.call(session, Some(view.micros()));
                let result = run(&mut call, &mut args);
                let result = match call.flow {
                    // Here nothing blocks: what would wait answers at once as if its time were up.
                    Flow::Wait(wait) => match *wait {
                        Waiting::Until { reply, .. } => Ok(reply),
                        _ => result,
                    },
                    asked => {
                        flow = asked;
                        result
                    }
                };
                write(result, session, out)
            }
            Handler::Debug(run) => {
                view.widen(Scope::Everything);
                let mut call = self.call(session, Some(view.micros()));
                let result = run(view, &mut call, &mut args);
                write(result, session, out)
            }
            // Only UNWATCH is ever queued, and EXEC has forgotten the watched keys already.
            Handler::Transaction(_) => write(Ok(Reply::OK), session, out),
            // EXEC runs these itself, and scripts must not.
            Handler::Script(_) | Handler::Library(_) | Handler::Container => {
                write(Err(CommandError::SYNTAX), session, out)
            }
        };
        if let Some(error) = error {
            self.instance.stats.count_error(error.code());
        }
        self.instance.announce(view, Some(session));
        session.executed += 1;
        flow
    }

    /// The interpreters, as soon as nobody else has them.
    fn interpreters(&self) -> Result<MutexGuard<'_, Interpreters>, Busy> {
        self.instance.keyspace.patiently(|| self.instance.scripts.try_lock())
    }

    /// What a connection command is given; inside a view, at the view's instant.
    fn call<'c>(&'c self, session: &'c mut Session, instant: Option<i64>) -> Call<'c> {
        let instant = Cell::new(instant);
        Call { server: &self.instance, table: &self.table, session, instant, flow: Flow::Continue }
    }

    fn run_view(
        &self,
        session: &mut Session,
        scope: Scope<'_>,
        run: for<'v> fn(&'v mut View<'_>, &mut Args<'v>) -> CommandResult<'v>,
        args: &mut Args<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Option<CommandError>, Busy> {
        let mut view = self.instance.keyspace.lock(scope, session.db, &self.instance.clock)?;
        view.set_touch(!session.no_touch);
        let (spec, words) = (args.spec(), args.words());
        let mut args = args.clone();
        let error = write(run(&mut view, &mut args), session, out);
        self.remember(&mut view, session, spec, words);
        self.conclude(&mut view, session);
        Ok(error)
    }

    /// Locks the only key of a command, unless somebody waits for something.
    #[inline]
    fn lock_only_key(
        &self,
        session: &Session,
        key: Option<(usize, u64)>,
    ) -> Result<Option<(Locked<'_>, usize, u64)>, Busy> {
        let Some((index, hash)) = key else { return Ok(None) };
        let keyspace = &self.instance.keyspace;
        let locked = keyspace.lock_shard(hash, session.db)?;
        // Who begins to wait holds the key's lock, so this is only to be asked now.
        Ok(keyspace.waiters().is_empty().then_some((locked, index, hash)))
    }

    fn lock_keys(
        &self,
        session: &Session,
        spec: &CommandSpec,
        key: Option<(usize, u64)>,
        words: Words<'_>,
    ) -> Result<View<'_>, Busy> {
        let Instance { keyspace, clock, .. } = &*self.instance;
        if let Some((index, hash)) = key {
            let view = keyspace.lock_key(words.get(index).unwrap_or_default(), hash, session.db, clock)?;
            return self.widen_for_waiters(view, session.db, &[hash], spec.has_flag(Flag::Write));
        }
        let hashes: SmallVec<[u64; 8]> = key_hashes(spec, words).collect();
        if spec.computes_keys(words) {
            let mut view = keyspace.lock_growing(&hashes, session.db, clock)?;
            view.set_confined(!self.instance.acl.may_read_all_keys(&session.user, spec, words));
            return Ok(view);
        }
        let view = keyspace.lock(Scope::Hashes(&hashes), session.db, clock)?;
        self.widen_for_waiters(view, session.db, &hashes, spec.has_flag(Flag::Write))
    }

    /// Whether a session may run a command now.
    #[inline]
    fn admit(&self, session: &mut Session, spec: &'static CommandSpec, words: Words<'_>) -> Result<(), CommandError> {
        if spec.kind == CommandKind::Debug {
            let local = session.client.peer().is_local();
            if !self.instance.config.live().allows_debug(local) {
                return Err(CommandError::DEBUG_REFUSED);
            }
        }
        if !session.authenticated && !spec.has_flag(Flag::NoAuth) && !self.is_authenticated(session) {
            return Err(CommandError::NO_AUTH);
        }
        if session.transaction.is_some() {
            self.admit_to_transaction(spec)?;
        }
        if let Err(denial) = self.permit(session, spec, words) {
            return Err(self.refusal(session, spec, denial));
        }
        let limit = self.instance.config.live().max_memory.load(Ordering::Relaxed);
        if limit != 0
            && (transaction::may_grow(session, spec) || transaction::may_run_scripts(session, spec))
            && self.instance.keyspace.used_bytes() > limit
            && (transaction::may_grow(session, spec) || self.scripts_may_grow(session, spec, words))
        {
            return Err(CommandError::OUT_OF_MEMORY);
        }
        if session.subscriber && session.protocol == Protocol::Resp2 && !spec.runs_subscribed {
            return Err(self.not_while_subscribed(spec));
        }
        Ok(())
    }

    /// The error for a command that would answer where the client only expects messages.
    #[cold]
    fn not_while_subscribed(&self, spec: &CommandSpec) -> CommandError {
        let name = self.table.full_name(spec);
        // Before 7.0 a subcommand had no name of its own, and there were no shard channels.
        let (name, kinds) = if self.instance.profile.since_redis(7, 0) {
            (name.as_str(), "P|S")
        } else {
            (name.split('|').next().unwrap_or_default(), "P")
        };
        CommandError::new(format!(
            "ERR Can't execute '{name}': only ({kinds})SUBSCRIBE / ({kinds})UNSUBSCRIBE / PING / QUIT / RESET are \
             allowed in this context"
        ))
    }

    /// Whether a session may run commands: it has given a password, or needs none (any more).
    pub fn is_authenticated(&self, session: &Session) -> bool {
        session.authenticated || self.instance.acl.default_user().is_open()
    }

    fn admit_to_transaction(&self, spec: &CommandSpec) -> Result<(), CommandError> {
        if !self.instance.profile.has(VALKEY_9) {
            let forbidden = spec.has_flag(Flag::NoMulti);
            return if forbidden { Err(CommandError::NOT_IN_TRANSACTION) } else { Ok(()) };
        }
        if !spec.has_flag(Flag::NoMulti)
            && !matches!(spec.kind, CommandKind::Transaction(TransactionCommand::Multi | TransactionCommand::Watch))
            && !spec.refused_in_transaction_by_valkey_9
        {
            return Ok(());
        }
        let name = self.table.full_name(spec);
        Err(CommandError::new(format!("ERR Command '{name}' not allowed inside a transaction")))
    }

    /// Whether a command is refused because a script takes long.
    #[cold]
    fn is_busy(&self, spec: &CommandSpec) -> Option<CommandError> {
        let busy = self.instance.active_hooks.has(Hook::Script) && !spec.has_flag(Flag::AllowBusy);
        busy.then(|| self.busy_error())
    }

    #[cold]
    fn busy_error(&self) -> CommandError {
        self.instance.scripts.busy_error()
    }

    /// What can hold a command back: a server that stalls, a pause.
    #[cold]
    fn must_wait(&self, session: &Session, spec: &'static CommandSpec, words: Words<'_>) -> bool {
        if self.instance.active_hooks.has(Hook::Stall) {
            self.instance.wait_for_stall();
        }
        // Whoever drives a test is never held up.
        if is_monitor(session) || spec.group == Group::Control {
            return false;
        }
        self.instance.paused().is_some_and(|(_, writes_only)| !writes_only || self.will_write(session, spec, words))
    }

    /// Lets MONITOR clients see a command that has just run; if the session is one itself, what it sees goes to `own`.
    #[cold]
    fn show(&self, session: &Session, spec: &'static CommandSpec, words: Words<'_>, own: &mut Vec<u8>) {
        if self.instance.active_hooks.has(Hook::Monitor)
            && !spec.has_flag(Flag::SkipMonitor)
            && !spec.has_flag(Flag::Admin)
        {
            monitor::feed(&self.instance, session, spec, words, own);
        }
    }

    /// As [`show`](Self::show), for a command that a script has run.
    #[cold]
    fn show_script(&self, session: &mut Session, spec: &'static CommandSpec, words: Words<'_>) {
        if self.instance.active_hooks.has(Hook::Monitor)
            && !spec.has_flag(Flag::SkipMonitor)
            && !spec.has_flag(Flag::Admin)
        {
            let mut own = std::mem::take(&mut session.aside);
            monitor::feed_as(monitor::SCRIPT, &self.instance, session, spec, words, &mut own);
            session.aside = own;
        }
    }

    /// As [`show`](Self::show), for a command that is about to run a script: it comes before what the script runs, and
    /// even if there is no such script.
    #[cold]
    fn show_caller(&self, session: &mut Session, spec: &'static CommandSpec, words: Words<'_>) {
        let mut own = std::mem::take(&mut session.aside);
        monitor::feed(&self.instance, session, spec, words, &mut own);
        session.aside = own;
    }

    #[cold]
    fn refuse_unresolved(
        &self,
        session: &mut Session,
        words: Words<'_>,
        error: CommandError,
        out: &mut Vec<u8>,
    ) -> Flow {
        // What a browser was tricked into sending must not reach a server behind it.
        let name = words.get(0).unwrap_or_default();
        if name.eq_ignore_ascii_case(b"post") || name.eq_ignore_ascii_case(b"host:") {
            return Flow::Drop;
        }
        session.last_command = self.table.find(name);
        let sub = session.last_command.and_then(|row| self.table.find_sub(row, words.get(1).unwrap_or_default()));
        self.end_exception(session, sub);
        self.count_unsupported(words);
        let exec = session.last_command.is_some_and(is_exec);
        let open = session.last_command.is_some_and(|spec| spec.has_flag(Flag::NoAuth));
        if self.instance.profile.has(VALKEY_9) && !open && !self.is_authenticated(session) {
            return self.refuse(session, exec, CommandError::NO_AUTH, out);
        }
        self.refuse(session, exec, error, out)
    }

    /// Counts a request for a command that the table does not have.
    #[cold]
    fn count_unsupported(&self, words: Words<'_>) {
        let stats = &self.instance.stats;
        let name = words.get(0).unwrap_or_default();
        match (self.table.find(name), words.get(1)) {
            (None, _) => stats.count_unsupported(name),
            (Some(row), Some(sub)) if row.is_container && self.table.find_sub(row, sub).is_none() => {
                stats.count_unsupported(&[row.name.as_bytes(), sub].join(&b' '));
            }
            _ => {}
        }
    }

    /// Answers with an error before anything ran. A transaction that is being queued is spoilt by it, and one that was
    /// about to run is over.
    #[cold]
    fn refuse(&self, session: &mut Session, exec: bool, error: CommandError, out: &mut Vec<u8>) -> Flow {
        let error = if exec {
            self.discard(session);
            transaction::aborted_by(&error)
        } else {
            error
        };
        if let Some(transaction) = &mut session.transaction {
            transaction.broken = true;
        }
        self.instance.stats.count_error(error.code());
        let start = out.len();
        Reply::Error(error).write(session.protocol, out);
        if session.replies != Replies::On {
            self.withhold(session, start, out);
        }
        Flow::Continue
    }

    /// CLIENT REPLY OFF and SKIP: takes back the reply that begins at `start`.
    #[cold]
    fn withhold(&self, session: &mut Session, start: usize, out: &mut Vec<u8>) {
        if session.replies.are_withheld() {
            out.truncate(start);
        }
        session.replies = session.replies.for_next();
    }

    /// Writes a reply that a command had to wait for.
    pub fn answer(&self, session: &mut Session, reply: &Reply<'_>, out: &mut Vec<u8>) {
        let start = out.len();
        reply.write(session.protocol, out);
        if let Reply::Error(error) = reply {
            self.instance.stats.count_error(error.code());
        }
        self.withhold(session, start, out);
    }
}

impl Engine {
    /// Writes a reply that somebody else has made for a command that waited.
    pub fn hand_on(&self, session: &mut Session, reply: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(reply);
        self.withhold(session, start, out);
    }
}

/// Adds the messages to the session itself that its command has caused, around the reply that begins at `start`. They
/// answer nothing, so that CLIENT REPLY has no say in them.
#[cold]
fn add_messages(session: &mut Session, start: usize, out: &mut Vec<u8>) {
    out.splice(start..start, session.ahead.drain(..));
    out.append(&mut session.aside);
}

/// Writes a result's reply. Hands back the error, if it was one, to be counted.
#[inline]
fn write(result: CommandResult<'_>, session: &Session, out: &mut Vec<u8>) -> Option<CommandError> {
    match result {
        Ok(reply) => {
            reply.write(session.protocol, out);
            None
        }
        Err(error) => {
            Reply::Error(error.clone()).write(session.protocol, out);
            Some(error)
        }
    }
}

/// The hashes of the keys that a request names.
fn key_hashes(spec: &CommandSpec, words: Words<'_>) -> impl Iterator<Item = u64> {
    keys(spec, words).map(hash_of)
}

/// The keys that a request names, or may come to name.
fn keys<'w>(spec: &CommandSpec, words: Words<'w>) -> impl Iterator<Item = &'w [u8]> {
    let positions = spec.keys.iter().filter_map(move |keys| keys.positions_to_lock(words)).flatten();
    positions.filter_map(move |at| words.get(at))
}

fn is_monitor(session: &Session) -> bool {
    session.client.seen().monitor.load(Ordering::Relaxed)
}

fn is_exec(spec: &CommandSpec) -> bool {
    spec.kind == CommandKind::Transaction(TransactionCommand::Exec)
}

impl Engine {
    /// Forgets a connection that has ended, with a reply that was held back, if there is one.
    pub fn disconnect(&self, session: &mut Session, held_back: &[u8]) {
        self.forget(session, held_back);
        self.instance.clients.remove(session.client.id());
    }

    /// Takes in a connection that leaves another world behind the same port, with its user of the same name. It keeps
    /// what RESET leaves alone, its name, protocol and database; what it knew there, it forgets. Whether there is such a
    /// user.
    pub fn take_over(&self, session: &mut Session, from: &Arc<Engine>, counters: Arc<Counters>) -> bool {
        let (here, there) = (&self.instance, &from.instance);
        let Some(user) = here.acl.user(session.user.name()) else { return false };
        session.count();
        from.forget(session, &[]);
        session.trace.change_journals();
        session.client.seen().monitor.store(false, Ordering::Relaxed);
        session.client.change_clocks(there.clock.millis(), here.clock.millis());
        session.counters = counters;
        session.become_user(&user, session.authenticated);
        here.look_at_clock();
        session.client.set_activity(Activity::Acting);
        session.client.set_idle_since(here.clock.uptime());
        there.clients.hand_over(session.client.id(), &here.clients);
        // There it may have been the last for whom time had to wait.
        from.maybe_auto_advance();
        true
    }

    fn forget(&self, session: &mut Session, held_back: &[u8]) {
        self.unwatch(session);
        self.part(session);
        self.instance.claim_wait(&session.client);
        // It may have been served without having heard of it yet.
        match session.client.take_served() {
            Some(served) => {
                session.trace.set_stamp(served.stamp);
                self.give_up(session, &served.reply);
            }
            None => self.give_up(session, held_back),
        }
        self.tell_end(session);
        self.instance.remove_monitor(&session.client);
        self.instance.tracking.stop(session, self.instance.keyspace.settings());
        self.instance.pubsub.forget(&session.client);
    }
}
