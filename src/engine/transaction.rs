//! MULTI, EXEC, DISCARD, WATCH, UNWATCH.

use std::sync::Arc;

use smallvec::SmallVec;

use super::script::Scene;
use super::{Engine, is_exec, key_hashes, write};
use crate::base::error::CommandError;
use crate::clients::session::{Flow, Queued, Session, Transaction};
use crate::commands::{CommandResult, Handler};
use crate::data::keyspace::{Busy, Scope, View, hash_of};
use crate::powers::HookPath;
use crate::protocol::{Reply, Words};
use crate::script::{Interpreters, Pause};
use crate::spec::{Args, CommandKind, CommandSpec, Flag, ResolvedRow, ScriptCommand, TransactionCommand as Which};

const NESTED: CommandError = CommandError::fixed("ERR MULTI calls can not be nested");
const EXEC_WITHOUT_MULTI: CommandError = CommandError::fixed("ERR EXEC without MULTI");
const DISCARD_WITHOUT_MULTI: CommandError = CommandError::fixed("ERR DISCARD without MULTI");
const ABORTED: CommandError = CommandError::fixed("EXECABORT Transaction discarded because of previous errors.");
const WATCH_INSIDE: CommandError = CommandError::fixed("ERR WATCH inside MULTI is not allowed");

/// What EXEC answers when it was refused itself. An error without a code of its own loses its `ERR`.
pub(super) fn aborted_by(error: &CommandError) -> CommandError {
    let line = error.line();
    let reason = line.strip_prefix(b"ERR ").unwrap_or(line);
    CommandError::new([b"EXECABORT Transaction discarded because of: ", reason].concat())
}

/// Whether a command waits for EXEC while a transaction is open.
pub(super) fn is_queued(spec: &CommandSpec) -> bool {
    match spec.kind {
        CommandKind::Transaction(which) => which == Which::Unwatch,
        _ => !spec.never_queued,
    }
}

/// Keeps a command for EXEC, and returns how many bytes wait for it by now.
pub(super) fn queue(session: &mut Session, row: ResolvedRow, words: Words<'_>) -> usize {
    // What will never run takes no memory.
    let Some(transaction) = session.transaction.as_mut().filter(|transaction| !transaction.broken) else { return 0 };
    let words = words.into_owned();
    transaction.size += words.size();
    transaction.queue.push(Queued { row, words });
    transaction.size
}

/// Whether a command changes data, or may do so.
pub(super) fn may_write(spec: &CommandSpec) -> bool {
    let script = match spec.kind {
        CommandKind::Script(
            ScriptCommand::Eval { read_only }
            | ScriptCommand::EvalSha { read_only }
            | ScriptCommand::Function { read_only },
        ) => !read_only,
        _ => false,
    };
    script || spec.has_flag(Flag::Write) || spec.has_flag(Flag::MayReplicate)
}

/// Whether a command may run scripts: one that does, or an EXEC of one. A library runs when it is loaded.
#[inline]
pub(super) fn may_run_scripts(session: &Session, spec: &CommandSpec) -> bool {
    needs_scripts(spec) || is_exec(spec) && queued(session).any(|queued| needs_scripts(queued.row.spec))
}

#[inline]
fn needs_scripts(spec: &CommandSpec) -> bool {
    matches!(spec.kind, CommandKind::Script(_) | CommandKind::Library)
}

/// Whether a command may make the server hold more: what it writes, or what it adds to the queue.
pub(super) fn may_grow(session: &Session, spec: &CommandSpec) -> bool {
    if spec.has_flag(Flag::DenyOom) || session.transaction.is_none() {
        return spec.has_flag(Flag::DenyOom);
    }
    match spec.kind {
        CommandKind::Transaction(Which::Exec) => queued(session).any(|queued| queued.row.spec.has_flag(Flag::DenyOom)),
        CommandKind::Transaction(Which::Discard) => false,
        _ => !spec.never_queued,
    }
}

pub(super) fn queued(session: &Session) -> impl Iterator<Item = &Queued> {
    session.transaction.iter().flat_map(|transaction| &transaction.queue)
}

impl Engine {
    /// Runs one of these commands. [`Reply::Nothing`] means that EXEC has written its reply itself.
    pub(super) fn transaction(
        &self,
        session: &mut Session,
        which: Which,
        args: &mut Args<'_>,
        out: &mut Vec<u8>,
        pause: Option<&Pause<'_>>,
    ) -> Result<(CommandResult<'static>, Flow), Busy> {
        let inside = session.transaction.is_some();
        let result = match which {
            Which::Multi if inside => Err(NESTED),
            Which::Multi => {
                session.transaction = Some(Transaction::default());
                Ok(Reply::OK)
            }
            Which::Discard if inside => {
                self.discard(session);
                Ok(Reply::OK)
            }
            Which::Discard => Err(DISCARD_WITHOUT_MULTI),
            Which::Watch if inside => Err(WATCH_INSIDE),
            Which::Watch => {
                self.watch(session, args);
                Ok(Reply::OK)
            }
            Which::Unwatch => {
                self.unwatch(session);
                Ok(Reply::OK)
            }
            Which::Exec => return self.exec(session, out, pause),
        };
        Ok((result, Flow::Continue))
    }

    fn watch(&self, session: &mut Session, args: &mut Args<'_>) {
        // While a script keeps its locks, keys can be watched all the same: every change from now on is told.
        let mut view = self.lock_keys(session, args.spec(), None, args.words()).ok();
        while let Some(key) = args.optional() {
            let watching = &mut session.watching;
            if watching.keys.iter().any(|(db, other)| *db == session.db && **other == *key) {
                continue;
            }
            if let Some(view) = &mut view {
                // A key that is already over is gone, not about to change.
                view.exists(key);
            }
            self.instance.keyspace.watch(session.db, key, &watching.watch);
            watching.keys.push((session.db, key.into()));
        }
        if let Some(view) = &mut view {
            self.conclude(view, session);
        }
    }

    /// Forgets all watched keys.
    pub(super) fn unwatch(&self, session: &mut Session) {
        if !session.watching.keys.is_empty() {
            self.instance.unwatch(std::mem::take(&mut session.watching));
        }
    }

    /// Forgets the queue and all watched keys.
    pub(super) fn discard(&self, session: &mut Session) {
        session.transaction = None;
        self.unwatch(session);
    }

    /// Runs the queue in one view, at one instant.
    fn exec(
        &self,
        session: &mut Session,
        out: &mut Vec<u8>,
        pause: Option<&Pause<'_>>,
    ) -> Result<(CommandResult<'static>, Flow), Busy> {
        // The queue as it is now is what CLIENT LIST shows while it runs.
        session.publish();
        if session.transaction.is_none() {
            return Ok((Err(EXEC_WITHOUT_MULTI), Flow::Continue));
        }
        let instance = Arc::clone(&self.instance);
        let mut scripts = if queued(session).any(|queued| needs_scripts(queued.row.spec)) {
            Some(self.interpreters()?)
        } else {
            None
        };
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
        let watching = std::mem::take(&mut session.watching);
        for (db, key) in &watching.keys {
            view.select(*db);
            // A watched key whose time has run out is touched by being found gone.
            view.exists(key);
            instance.keyspace.unwatch(*db, key, &watching.watch);
        }
        view.select(session.db);
        let mut flow = Flow::Continue;
        let result = if transaction.broken {
            Err(ABORTED)
        } else if watching.watch.is_touched() {
            Ok(Reply::NullArray)
        } else {
            flow = self.run_queue(session, &mut view, scripts.as_deref_mut(), &transaction.queue, out, pause);
            Ok(Reply::Nothing)
        };
        self.conclude(&mut view, session);
        Ok((result, flow))
    }

    fn run_queue(
        &self,
        session: &mut Session,
        view: &mut View<'_>,
        mut scripts: Option<&mut Interpreters>,
        queue: &[Queued],
        out: &mut Vec<u8>,
        pause: Option<&Pause<'_>>,
    ) -> Flow {
        if !session.replies.are_withheld() {
            out.push(b'*');
            crate::protocol::write_integer(out, queue.len() as i64);
            out.extend_from_slice(b"\r\n");
        }
        let limit = self.instance.config.live().output_limit(session.subscriber);
        view.set_touch(!session.no_touch);
        session.executing = true;
        if session.trace.is_open() {
            session.trace.children().depth = 1;
        }
        let mut seen = Vec::new();
        let mut flow = Flow::Continue;
        for queued in queue {
            let start = out.len();
            // What the user may do can have changed since.
            let denied = self.permit(session, queued.row.spec, queued.words.as_words()).err();
            let fault = if self.instance.active_hooks.company() == HookPath::Everybody && denied.is_none() {
                self.fault_inside(session, queued.row.spec, queued.words.as_words())
            } else {
                None
            };
            let asked = match denied {
                None if fault.is_some() => {
                    fault.iter().for_each(|(error, _)| Reply::Error(error.clone()).write(session.protocol, out));
                    Flow::Continue
                }
                None => self.run_queued(session, view, scripts.as_deref_mut(), queued, out, pause),
                Some(denial) => {
                    let error = denial.at_exec();
                    self.instance.stats.count_error(error.code());
                    Reply::Error(error).write(session.protocol, out);
                    Flow::Continue
                }
            };
            let rule = fault.as_ref().map(|(_, rule)| rule.fault.name.as_str());
            self.note_child(session, Some(queued.row.spec), queued.words.as_words(), &out[start..], rule);
            self.remember(view, session, queued.row.spec, queued.words.as_words());
            // Whoever asked to be closed hears no more, but what was queued still runs.
            if session.replies.are_withheld() || !matches!(flow, Flow::Continue) {
                out.truncate(start);
            }
            if limit.is_hard_passed(out.len()) {
                // As in Redis the client is lost, but not half of its transaction.
                flow = Flow::Drop;
                *out = Vec::new();
            }
            if !matches!(asked, Flow::Continue) && !matches!(flow, Flow::Drop) {
                flow = asked;
            }
            if self.instance.active_hooks.is_needed() && denied.is_none() {
                self.show(session, queued.row.spec, queued.words.as_words(), &mut seen);
            }
        }
        session.executing = false;
        self.instance.deliver_invalidations(session);
        out.extend_from_slice(&seen);
        flow
    }

    fn run_queued(
        &self,
        session: &mut Session,
        view: &mut View<'_>,
        scripts: Option<&mut Interpreters>,
        queued: &Queued,
        out: &mut Vec<u8>,
        pause: Option<&Pause<'_>>,
    ) -> Flow {
        let words = queued.words.as_words();
        let mut args = Args::new(words, queued.row, &self.instance.profile);
        let error = match (self.handlers.of(queued.row.id), scripts) {
            (Handler::Script(which), Some(scripts)) => {
                view.select(session.db);
                let scene = Scene { view: &mut *view, interpreters: scripts, pause };
                let error = self.run_script_within(session, scene, which, &mut args, out);
                self.instance.announce(view, Some(session));
                error
            }
            (Handler::Library(run), Some(scripts)) => {
                let mut call = self.call(session, Some(view.micros()));
                let result = run(scripts, &mut call, &mut args);
                self.instance.scripts.note(scripts);
                write(result, session, out)
            }
            _ => return self.run_within(session, view, queued.row, words, out),
        };
        if let Some(error) = error {
            self.instance.stats.count_error(error.code());
        }
        session.executed += 1;
        Flow::Continue
    }
}

/// The keys that a transaction can reach, if it stays in one database and all its commands name their keys.
fn hashes(session: &Session) -> Option<SmallVec<[u64; 8]>> {
    let mut hashes: SmallVec<[u64; 8]> = SmallVec::new();
    for (db, key) in &session.watching.keys {
        if *db != session.db {
            return None;
        }
        hashes.push(hash_of(key));
    }
    for Queued { row: ResolvedRow { spec, .. }, words } in queued(session) {
        if !matches!(spec.kind, CommandKind::Keys | CommandKind::Blocking) {
            return None;
        }
        if spec.computes_keys(words.as_words()) {
            return None;
        }
        hashes.extend(key_hashes(spec, words.as_words()));
    }
    Some(hashes)
}
