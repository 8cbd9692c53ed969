//! MULTI, EXEC, DISCARD, WATCH, UNWATCH.

use smallvec::SmallVec;

use super::Local;
use super::script::ScriptContext;
use crate::base::error::CommandError;
use crate::clients::session::{CommandQueue, Flow, Queued, Session, Watching};
use crate::commands::{CommandResult, Handler};
use crate::data::keyspace::{Busy, Presence, Scope, View, hash_of};
use crate::engine::replies::write;
use crate::engine::transaction::queue_needs_scripts;
use crate::engine::{Engine, key_hashes};
use crate::powers::HookPath;
use crate::protocol::Reply;
use crate::script::{Interpreters, Yielder};
use crate::spec::{Args, CommandKind, Flag, ResolvedRow, TransactionCommand as Which};

const NESTED: CommandError = CommandError::fixed("ERR MULTI calls can not be nested");
const EXEC_WITHOUT_MULTI: CommandError = CommandError::fixed("ERR EXEC without MULTI");
const DISCARD_WITHOUT_MULTI: CommandError = CommandError::fixed("ERR DISCARD without MULTI");
const ABORTED: CommandError = CommandError::fixed("EXECABORT Transaction discarded because of previous errors.");
const WATCH_INSIDE: CommandError = CommandError::fixed("ERR WATCH inside MULTI is not allowed");

/// The caller of EXEC: the front, and the pause of slow scripts.
#[derive(Clone, Copy)]
struct Caller<'c, 'p> {
    front: &'c Engine,
    yielder: Option<&'c Yielder<'p>>,
}

impl Local {
    /// Runs one of these commands. [`Reply::Nothing`] means that EXEC has written its reply itself.
    pub(super) fn transaction(
        &self,
        front: &Engine,
        session: &mut Session,
        which: Which,
        args: &mut Args<'_>,
        out: &mut Vec<u8>,
        yielder: Option<&Yielder<'_>>,
    ) -> Result<(CommandResult<'static>, Flow), Busy> {
        let inside = session.transaction.is_some();
        let result = match which {
            Which::Multi if inside => Err(NESTED),
            Which::Multi => {
                session.open_transaction();
                Ok(Reply::OK)
            }
            Which::Discard if inside => {
                front.discard(session);
                Ok(Reply::OK)
            }
            Which::Discard => Err(DISCARD_WITHOUT_MULTI),
            Which::Watch if inside => Err(WATCH_INSIDE),
            Which::Watch => {
                self.watch(session, args);
                Ok(Reply::OK)
            }
            Which::Unwatch => {
                self.instance.unwatch(session);
                Ok(Reply::OK)
            }
            Which::Exec => return self.exec(front, session, out, yielder),
        };
        Ok((result, Flow::Continue))
    }

    fn watch(&self, session: &mut Session, args: &mut Args<'_>) {
        // Keys can also be watched while a slow script holds its locks: every later change touches them.
        let mut view = self.lock_keys(session, args.spec(), None, args.words()).ok();
        let (db, watching) = (session.db, &mut session.watching);
        let is_expired = |key: &[u8]| view.as_mut().is_some_and(|view| view.presence(db, key) == Presence::Expired);
        let watchers = self.instance.keyspace.watchers();
        watchers.add(db, args.rest().iter(), &watching.watch, is_expired, &mut watching.keys);
        if let Some(view) = &mut view {
            self.finish_view(view, session);
        }
    }

    /// Runs the queue in one view, at one instant.
    fn exec(
        &self,
        front: &Engine,
        session: &mut Session,
        out: &mut Vec<u8>,
        yielder: Option<&Yielder<'_>>,
    ) -> Result<(CommandResult<'static>, Flow), Busy> {
        // CLIENT LIST shows the queue as of now while EXEC runs.
        session.publish();
        if session.transaction.is_none() {
            return Ok((Err(EXEC_WITHOUT_MULTI), Flow::Continue));
        }
        let instance = &*self.instance;
        let mut scripts = if queue_needs_scripts(session) { Some(self.interpreters()?) } else { None };
        let mut view = match (hashes(session), &scripts) {
            (hashes, Some(_)) => {
                instance.keyspace.lock_growing(&hashes.unwrap_or_default(), session.db, &instance.clock)?
            }
            (Some(hashes), None) => {
                let view = instance.keyspace.lock(Scope::Hashes(&hashes), session.db, &instance.clock)?;
                self.widen_for_waiters(view, session.db, &hashes, true)?
            }
            (None, None) => instance.keyspace.lock(Scope::Everything, session.db, &instance.clock)?,
        };
        let transaction = session.transaction.take().unwrap_or_default();
        let watching = session.watching.take();
        let mut expired = false;
        if let Some(Watching { keys, watch }) = &watching {
            instance.keyspace.watchers().remove(keys, watch, |db, key, had_expired| {
                expired |= !had_expired && view.presence(db, key) == Presence::Expired;
            });
        }
        view.select(session.db);
        let mut flow = Flow::Continue;
        let result = if transaction.broken {
            Err(ABORTED)
        } else if expired || watching.as_ref().is_some_and(|watching| watching.watch.is_touched()) {
            Ok(Reply::NullArray)
        } else {
            flow = self.run_queue(
                Caller { front, yielder },
                session,
                &mut view,
                scripts.as_deref_mut(),
                &transaction.queue,
                out,
            );
            Ok(Reply::Nothing)
        };
        self.finish_view(&mut view, session);
        // The queue and what was watched are freed behind the view: others do not wait for that.
        drop(view);
        session.recycle(transaction);
        Ok((result, flow))
    }

    fn run_queue(
        &self,
        caller: Caller<'_, '_>,
        session: &mut Session,
        view: &mut View<'_>,
        mut scripts: Option<&mut Interpreters>,
        queue: &CommandQueue,
        out: &mut Vec<u8>,
    ) -> Flow {
        let front = caller.front;
        if !session.replies.are_suppressed() {
            out.push(b'*');
            crate::protocol::write_integer(out, queue.len() as i64);
            out.extend_from_slice(b"\r\n");
        }
        let limit = self.instance.config.live().output_limit(session.subscriber, false);
        super::attribute(view, session);
        session.executing = true;
        session.timer.set_inner_begin(Some(view.real_micros()));
        if session.in_flight.trace.is_open() {
            session.in_flight.trace.children().depth = 1;
        }
        let mut seen = Vec::new();
        let mut flow = Flow::Continue;
        for queued in queue.iter() {
            let start = out.len();
            // The user's permissions can have changed since the command was queued.
            let denied = front.permit(session, queued.row.spec, queued.words).err();
            let fault = if self.instance.active_hooks.path() == HookPath::All && denied.is_none() {
                front.fault_inside(session, queued.row.spec, queued.words)
            } else {
                None
            };
            let asked = match denied {
                None if fault.is_some() => {
                    fault.iter().for_each(|(error, _)| Reply::Error(error.clone()).write(session.protocol, out));
                    Flow::Continue
                }
                None => self.run_queued(caller, session, view, scripts.as_deref_mut(), queued, out),
                Some(denial) => {
                    let error = denial.at_exec();
                    self.instance.stats.count_error(error.code());
                    Reply::Error(error).write(session.protocol, out);
                    Flow::Continue
                }
            };
            let rule = fault.as_ref().map(|(_, rule)| rule.fault.name.as_str());
            front.record_child(session, Some(queued.row.spec), queued.words, &out[start..], rule);
            self.track_reads(view, session, queued.row.spec, queued.words);
            // A client that asked to be closed gets no more replies, but the rest of the queue runs.
            if session.replies.are_suppressed() || !matches!(flow, Flow::Continue) {
                out.truncate(start);
            }
            if limit.is_hard_passed(out.len()) {
                // As in Redis, the client is closed, but its transaction runs to the end.
                flow = Flow::Drop;
                *out = Vec::new();
            }
            if !matches!(asked, Flow::Continue) && !matches!(flow, Flow::Drop) {
                flow = asked;
            }
            if self.instance.active_hooks.affects_processing() && denied.is_none() {
                front.feed_monitors(session, queued.row.spec, queued.words, &mut seen);
            }
        }
        session.executing = false;
        session.timer.set_inner_begin(None);
        self.instance.deliver_invalidations(session);
        out.extend_from_slice(&seen);
        flow
    }

    fn run_queued(
        &self,
        caller: Caller<'_, '_>,
        session: &mut Session,
        view: &mut View<'_>,
        scripts: Option<&mut Interpreters>,
        queued: Queued<'_>,
        out: &mut Vec<u8>,
    ) -> Flow {
        let words = queued.words;
        let mut args = Args::new(words, queued.row, &self.instance.profile);
        let began = caller.front.begin_inner_call(session, queued.row.spec);
        let error = match (self.handlers.of(queued.row.id), scripts) {
            (Handler::Script(which), Some(scripts)) => {
                view.select(session.db);
                let context = ScriptContext { view: &mut *view, interpreters: scripts, yielder: caller.yielder };
                let error = self.run_script_within(caller.front, session, context, which, &mut args, out);
                self.instance.announce(view, Some(session));
                error
            }
            (Handler::Debug(run), Some(scripts)) => {
                view.select(session.db);
                view.extend_scope(Scope::Everything);
                let mut call = self.connection_call(session, Some(view.micros()));
                let result = run(view, Some(scripts), &mut call, &mut args);
                let error = write(result, session, out);
                self.instance.announce(view, Some(session));
                error
            }
            (Handler::Library(run), Some(scripts)) => {
                let mut call = self.connection_call(session, Some(view.micros()));
                let result = run(scripts, &mut call, &mut args);
                self.instance.scripts.update_stats(scripts);
                if result.is_ok() && queued.row.spec.has_flag(Flag::Write) {
                    view.select(session.db);
                    view.replicate_anyway(words);
                }
                write(result, session, out)
            }
            _ => return self.run_within(caller.front, session, view, queued.row, words, out),
        };
        if let Some(error) = error {
            self.count_failure(session, queued.row, &error);
        }
        caller.front.end_inner_call(session, queued.row, words, began);
        session.executed += 1;
        Flow::Continue
    }
}

/// The keys of a transaction, if it stays in one database and all its commands name their keys.
fn hashes(session: &Session) -> Option<SmallVec<[u64; 8]>> {
    let mut hashes: SmallVec<[u64; 8]> = SmallVec::new();
    for (db, key) in &session.watching.keys {
        if *db != session.db {
            return None;
        }
        hashes.push(hash_of(key));
    }
    for Queued { row: ResolvedRow { spec, .. }, words } in session.queued() {
        if !matches!(spec.kind, CommandKind::Keys | CommandKind::Blocking) {
            return None;
        }
        if spec.computes_keys(words) {
            return None;
        }
        hashes.extend(key_hashes(spec, words));
    }
    Some(hashes)
}
