//! MULTI, EXEC, DISCARD, WATCH, UNWATCH.

use std::sync::Arc;

use smallvec::SmallVec;

use super::{Engine, is_exec, key_hashes, write};
use crate::error::CommandError;
use crate::keyspace::{Scope, View, hash_of};
use crate::resp::{Reply, Words};
use crate::session::{Queued, Session, Transaction, Watching};
use crate::spec::{Args, CommandResult, CommandSpec, Flag, Flow, Handler, Transaction as Which, Waiting};

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
    match spec.run {
        Handler::Transaction(which) => which == Which::Unwatch,
        _ => !spec.never_queued,
    }
}

/// Keeps a command for EXEC, and returns how many bytes wait for it by now.
pub(super) fn queue(session: &mut Session, spec: &'static CommandSpec, at: usize, words: Words<'_>) -> usize {
    // What will never run takes no memory.
    let Some(transaction) = session.transaction.as_mut().filter(|transaction| !transaction.broken) else { return 0 };
    let words = words.into_owned();
    transaction.size += words.size();
    transaction.queue.push(Queued { spec, at, words });
    transaction.size
}

/// Whether a command is an EXEC whose transaction changes data.
pub(super) fn will_write(session: &Session, spec: &CommandSpec) -> bool {
    is_exec(spec) && queue_has(session, &[Flag::Write, Flag::MayReplicate])
}

/// Whether a command may make the server hold more: what it writes, or what it adds to the queue.
pub(super) fn may_grow(session: &Session, spec: &CommandSpec) -> bool {
    if spec.has_flag(Flag::DenyOom) || session.transaction.is_none() {
        return spec.has_flag(Flag::DenyOom);
    }
    match spec.run {
        Handler::Transaction(Which::Exec) => queue_has(session, &[Flag::DenyOom]),
        Handler::Transaction(Which::Discard) => false,
        _ => !spec.never_queued,
    }
}

fn queue_has(session: &Session, flags: &[Flag]) -> bool {
    session.transaction.as_ref().is_some_and(|transaction| {
        transaction.queue.iter().any(|queued| flags.iter().any(|&flag| queued.spec.has_flag(flag)))
    })
}

impl Engine {
    /// Runs one of these commands. [`Reply::Nothing`] means that EXEC has written its reply itself.
    pub(super) fn transaction(
        &self,
        session: &mut Session,
        which: Which,
        args: &mut Args<'_>,
        out: &mut Vec<u8>,
    ) -> (CommandResult<'static>, Flow) {
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
            Which::Exec => return self.exec(session, out),
        };
        (result, Flow::Continue)
    }

    fn watch(&self, session: &mut Session, args: &mut Args<'_>) {
        let mut view = self.lock_keys(session, args.spec(), None, args.words());
        while let Some(key) = args.optional() {
            let watching = &mut session.watching;
            if !watching.keys.iter().any(|(db, other)| *db == session.db && **other == *key) {
                view.watch(key, &watching.watch);
                watching.keys.push((session.db, key.into()));
            }
        }
        let tally = self.instance.settle(view, Some(session));
        session.tally += tally;
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
    fn exec(&self, session: &mut Session, out: &mut Vec<u8>) -> (CommandResult<'static>, Flow) {
        // The queue as it is now is what CLIENT LIST shows while it runs.
        session.publish();
        let Some(transaction) = session.transaction.take() else { return (Err(EXEC_WITHOUT_MULTI), Flow::Continue) };
        let watching = std::mem::take(&mut session.watching);
        let instance = Arc::clone(&self.instance);
        let mut view = match hashes(session.db, &transaction, &watching) {
            Some(hashes) => instance.keyspace.lock(Scope::Hashes(&hashes), session.db, &instance.clock),
            None => instance.keyspace.lock(Scope::Everything, session.db, &instance.clock),
        };
        for (db, key) in &watching.keys {
            view.select(*db);
            // A watched key whose time has run out is touched by being found gone.
            view.exists(key);
            view.unwatch(key, &watching.watch);
        }
        view.select(session.db);
        let mut flow = Flow::Continue;
        let result = if transaction.broken {
            Err(ABORTED)
        } else if watching.watch.is_touched() {
            Ok(Reply::NullArray)
        } else {
            flow = self.run_queue(session, &mut view, &transaction.queue, out);
            Ok(Reply::Nothing)
        };
        let tally = self.instance.settle(view, Some(session));
        session.tally += tally;
        (result, flow)
    }

    fn run_queue(&self, session: &mut Session, view: &mut View<'_>, queue: &[Queued], out: &mut Vec<u8>) -> Flow {
        if !session.replies.are_withheld() {
            out.push(b'*');
            crate::resp::write_integer(out, queue.len() as i64);
            out.extend_from_slice(b"\r\n");
        }
        let limit = self.instance.config.live().output_limit(session.subscriber);
        view.set_touch(!session.no_touch);
        session.executing = true;
        let mut seen = Vec::new();
        let mut flow = Flow::Continue;
        for queued in queue {
            let start = out.len();
            let asked = self.run_queued(session, view, queued, out);
            self.instance.announce(view, Some(session));
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
            if self.instance.attention.is_needed() {
                self.show(session, queued.spec, queued.words.as_words(), &mut seen);
            }
        }
        session.executing = false;
        out.extend_from_slice(&seen);
        flow
    }

    fn run_queued(&self, session: &mut Session, view: &mut View<'_>, queued: &Queued, out: &mut Vec<u8>) -> Flow {
        let words = queued.words.as_words();
        let mut args = Args::new(words, queued.at, queued.spec, &self.instance.profile);
        view.select(session.db);
        let mut flow = Flow::Continue;
        let error = match queued.spec.run {
            Handler::Keys(run) | Handler::Database(run) | Handler::Everything(run) => {
                write(run(view, &mut args), session, out)
            }
            Handler::Connection(run) => {
                session.count();
                let mut call = self.call(session, Some(view.micros()));
                let result = run(&mut call, &mut args);
                let result = match call.flow {
                    // Inside a transaction nothing blocks: what would wait answers at once as if its time were up.
                    Flow::Wait(Waiting::Until { reply, .. }) => Ok(reply),
                    Flow::Wait(Waiting::Unpause) => result,
                    asked => {
                        flow = asked;
                        result
                    }
                };
                write(result, session, out)
            }
            Handler::Debug(run) => {
                let mut call = self.call(session, Some(view.micros()));
                let result = run(view, &mut call, &mut args);
                write(result, session, out)
            }
            Handler::Transaction(_) => {
                // Only UNWATCH is ever queued, and EXEC has forgotten the watched keys already.
                write(Ok(Reply::OK), session, out)
            }
            Handler::Container => write(Err(CommandError::SYNTAX), session, out),
        };
        if let Some(error) = error {
            self.instance.stats.count_error(error.code());
        }
        session.executed += 1;
        flow
    }
}

/// The keys that a transaction can reach, if it stays in one database and all its commands name their keys.
fn hashes(db: u32, transaction: &Transaction, watching: &Watching) -> Option<SmallVec<[u64; 8]>> {
    let mut hashes: SmallVec<[u64; 8]> = SmallVec::new();
    for (other, key) in &watching.keys {
        if *other != db {
            return None;
        }
        hashes.push(hash_of(key));
    }
    for Queued { spec, words, .. } in &transaction.queue {
        if !matches!(spec.run, Handler::Keys(_)) {
            return None;
        }
        hashes.extend(key_hashes(spec, words.as_words()));
    }
    Some(hashes)
}
