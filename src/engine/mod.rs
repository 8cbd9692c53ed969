//! The life of one command, and transactions.

mod monitor;
mod transaction;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use smallvec::SmallVec;

use crate::control::Matter;
use crate::error::CommandError;
use crate::instance::Instance;
use crate::keyspace::{Scope, View, hash_of};
use crate::resp::{Reply, Words};
use crate::session::{Replies, Session};
use crate::spec::{Args, Call, CommandResult, CommandSpec, Flag, Flow, Handler, Table, Waiting};

/// What is known about a request before it runs.
#[derive(Clone, Copy)]
pub struct Resolved {
    spec: &'static CommandSpec,
    /// Where its arguments begin.
    at: usize,
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
}

impl Engine {
    pub fn new(instance: Arc<Instance>, table: Table) -> Self {
        Self { instance, table }
    }

    /// Runs one request: its reply is appended to `out`, and the answer says how the connection goes on.
    ///
    /// This is the one place that every command passes, in this order: may it run, who looks on, the run itself, the
    /// reply.
    #[inline]
    pub fn execute(
        &self,
        session: &mut Session,
        resolved: Result<Resolved, CommandError>,
        words: Words<'_>,
        out: &mut Vec<u8>,
    ) -> Flow {
        let Resolved { spec, at, key } = match resolved {
            Ok(resolved) => resolved,
            Err(error) => return self.refuse_unresolved(session, words, error, out),
        };
        if let Err(error) = self.admit(session, spec) {
            return self.refuse(session, error, out);
        }
        if self.instance.attention.is_needed() && self.must_wait(session, spec) {
            return Flow::Wait(Waiting::Unpause);
        }
        let start = out.len();
        if session.transaction.is_some() && transaction::is_queued(spec) {
            transaction::queue(session, spec, at, words);
            Reply::Status("QUEUED").write(session.protocol, out);
            if session.replies != Replies::On {
                self.withhold(session, start, out);
            }
            return Flow::Continue;
        }
        self.show(session, spec, words);
        let flow = self.run(session, Resolved { spec, at, key }, words, out);
        if session.replies != Replies::On && !matches!(flow, Flow::Wait(_)) {
            self.withhold(session, start, out);
        }
        flow
    }

    /// Finds a request's row, and its key if there is exactly one.
    #[inline]
    pub fn resolve(&self, words: Words<'_>) -> Result<Resolved, CommandError> {
        let (spec, at) = self.table.resolve(words)?;
        let key = match spec.keys {
            [keys] => keys.only().and_then(|index| Some((index, hash_of(words.get(index)?)))),
            _ => None,
        };
        Ok(Resolved { spec, at, key })
    }

    #[inline]
    fn run(&self, session: &mut Session, resolved: Resolved, words: Words<'_>, out: &mut Vec<u8>) -> Flow {
        let Resolved { spec, at, key } = resolved;
        let mut args = Args::new(words, at, spec, &self.instance.profile);
        let error = match spec.run {
            Handler::Keys(run) => {
                let mut view = self.lock_keys(session, spec, key, words);
                view.set_touch(!session.no_touch);
                let result = run(&mut view, &mut args);
                let error = write(result, session, out);
                session.tally += view.finish();
                error
            }
            Handler::Database(run) => self.run_view(session, Scope::Database, run, &mut args, out),
            Handler::Everything(run) => self.run_view(session, Scope::Everything, run, &mut args, out),
            Handler::Connection(run) => {
                session.publish();
                self.instance.stats.add(std::mem::take(&mut session.tally));
                let mut call = Call { server: &self.instance, table: &self.table, session, flow: Flow::Continue };
                let result = run(&mut call, &mut args);
                let flow = call.flow;
                if let Some(error) = write(result, session, out) {
                    self.instance.stats.count_error(error.code());
                }
                return flow;
            }
            Handler::Debug(run) => {
                let mut view = self.instance.keyspace.lock(Scope::Database, session.db, &self.instance.clock);
                let mut call = Call { server: &self.instance, table: &self.table, session, flow: Flow::Continue };
                let result = run(&mut view, &mut call, &mut args);
                self.instance.stats.add(view.finish());
                write(result, session, out)
            }
            Handler::Transaction(which) => {
                let result = self.transaction(session, which, &mut args, out);
                write(result, session, out)
            }
            // Only reached without a subcommand, which the row's arity forbids unless that means something.
            Handler::Container => write(Err(CommandError::SYNTAX), session, out),
        };
        if let Some(error) = error {
            self.instance.stats.count_error(error.code());
        }
        Flow::Continue
    }

    fn run_view(
        &self,
        session: &mut Session,
        scope: Scope<'_>,
        run: for<'v> fn(&'v mut View<'_>, &mut Args<'v>) -> CommandResult<'v>,
        args: &mut Args<'_>,
        out: &mut Vec<u8>,
    ) -> Option<CommandError> {
        let mut view = self.instance.keyspace.lock(scope, session.db, &self.instance.clock);
        view.set_touch(!session.no_touch);
        let mut args = Args::new(args.words(), args.words().len() - args.left(), args.spec(), args.profile());
        let error = write(run(&mut view, &mut args), session, out);
        session.tally += view.finish();
        error
    }

    #[inline]
    fn lock_keys(
        &self,
        session: &Session,
        spec: &CommandSpec,
        key: Option<(usize, u64)>,
        words: Words<'_>,
    ) -> View<'_> {
        let Instance { keyspace, clock, .. } = &*self.instance;
        if let Some((index, hash)) = key {
            return keyspace.lock_key(words.get(index).unwrap_or_default(), hash, session.db, clock);
        }
        let mut hashes: SmallVec<[u64; 8]> = SmallVec::new();
        for keys in spec.keys {
            if let Some(positions) = keys.positions(words) {
                hashes.extend(positions.into_iter().filter_map(|at| words.get(at)).map(hash_of));
            }
        }
        keyspace.lock(Scope::Hashes(&hashes), session.db, clock)
    }

    /// Whether a session may run a command now.
    #[inline]
    fn admit(&self, session: &mut Session, spec: &CommandSpec) -> Result<(), CommandError> {
        if !session.authenticated && !spec.has_flag(Flag::NoAuth) {
            return Err(CommandError::NO_AUTH);
        }
        if session.transaction.is_some() && spec.has_flag(Flag::NoMulti) {
            return Err(CommandError::fixed("ERR Command not allowed inside a transaction"));
        }
        if matches!(spec.run, Handler::Debug(_)) {
            let local = session.client.peer().is_local();
            if !self.instance.config.live().allows_debug(local) {
                return Err(CommandError::DEBUG_REFUSED);
            }
        }
        let limit = self.instance.config.live().max_memory.load(Ordering::Relaxed);
        if limit != 0 && spec.has_flag(Flag::DenyOom) && self.instance.keyspace.used_bytes() > limit {
            return Err(CommandError::OUT_OF_MEMORY);
        }
        Ok(())
    }

    /// What can hold a command back: a server that stalls, a pause.
    #[cold]
    fn must_wait(&self, session: &Session, spec: &'static CommandSpec) -> bool {
        if self.instance.attention.has(Matter::Stall) {
            self.instance.wait_for_stall();
        }
        self.instance.paused().is_some_and(|(_, writes_only)| {
            let writes = spec.has_flag(Flag::Write) || spec.has_flag(Flag::MayReplicate);
            !writes_only || writes || transaction::will_write(session, spec)
        })
    }

    /// Lets MONITOR clients see a command that is about to run.
    #[inline]
    fn show(&self, session: &Session, spec: &'static CommandSpec, words: Words<'_>) {
        if self.instance.attention.is_needed()
            && self.instance.attention.has(Matter::Monitor)
            && !spec.has_flag(Flag::SkipMonitor)
            && !spec.has_flag(Flag::Admin)
        {
            monitor::feed(&self.instance, session, words);
        }
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
        self.refuse(session, error, out)
    }

    /// Answers with an error before anything ran; a transaction that is being queued is spoilt by it.
    #[cold]
    fn refuse(&self, session: &mut Session, error: CommandError, out: &mut Vec<u8>) -> Flow {
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

    /// CLIENT REPLY OFF and SKIP.
    #[cold]
    fn withhold(&self, session: &mut Session, start: usize, out: &mut Vec<u8>) {
        out.truncate(start);
        session.replies = match session.replies {
            Replies::SkipNext => Replies::Skip,
            Replies::Skip => Replies::On,
            other => other,
        };
    }
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

impl Engine {
    /// Forgets a connection that has ended.
    pub fn disconnect(&self, session: &mut Session) {
        self.unwatch(session);
        self.instance.remove_monitor(&session.client);
        self.instance.clients.remove(session.client.id());
    }
}
