//! MULTI, EXEC, DISCARD, WATCH, UNWATCH.

use std::sync::Arc;

use super::{Engine, write};
use crate::error::CommandError;
use crate::keyspace::{Scope, View};
use crate::resp::{Reply, Words};
use crate::session::{Queued, Session, Watching};
use crate::spec::{Args, Call, CommandResult, CommandSpec, Flag, Flow, Handler, Transaction as Which, Waiting};

const NESTED: CommandError = CommandError::fixed("ERR MULTI calls can not be nested");
const EXEC_WITHOUT_MULTI: CommandError = CommandError::fixed("ERR EXEC without MULTI");
const DISCARD_WITHOUT_MULTI: CommandError = CommandError::fixed("ERR DISCARD without MULTI");
const ABORTED: CommandError = CommandError::fixed("EXECABORT Transaction discarded because of previous errors.");
const WATCH_INSIDE: CommandError = CommandError::fixed("ERR WATCH inside MULTI is not allowed");

/// Whether a command waits for EXEC while a transaction is open. QUIT and RESET do not wait.
pub(super) fn is_queued(spec: &CommandSpec) -> bool {
    match spec.run {
        Handler::Transaction(which) => which == Which::Unwatch,
        _ => !matches!(spec.name, "QUIT" | "RESET"),
    }
}

pub(super) fn queue(session: &mut Session, spec: &'static CommandSpec, at: usize, words: Words<'_>) {
    if let Some(transaction) = &mut session.transaction {
        let words = words.to_owned();
        transaction.size += words.size();
        transaction.queue.push(Queued { spec, at, words });
    }
}

/// Whether a command is an EXEC whose transaction changes data.
pub(super) fn will_write(session: &Session, spec: &CommandSpec) -> bool {
    matches!(spec.run, Handler::Transaction(Which::Exec))
        && session.transaction.as_ref().is_some_and(|transaction| {
            transaction
                .queue
                .iter()
                .any(|queued| queued.spec.has_flag(Flag::Write) || queued.spec.has_flag(Flag::MayReplicate))
        })
}

impl Engine {
    pub(super) fn transaction(
        &self,
        session: &mut Session,
        which: Which,
        args: &mut Args<'_>,
        out: &mut Vec<u8>,
    ) -> CommandResult<'static> {
        match which {
            Which::Multi if session.transaction.is_some() => return Err(NESTED),
            Which::Multi => session.transaction = Some(Default::default()),
            Which::Discard => {
                session.transaction.take().ok_or(DISCARD_WITHOUT_MULTI)?;
                self.unwatch(session);
            }
            Which::Watch if session.transaction.is_some() => return Err(WATCH_INSIDE),
            Which::Watch => self.watch(session, args),
            Which::Unwatch => self.unwatch(session),
            Which::Exec => return self.exec(session, out),
        }
        Ok(Reply::OK)
    }

    fn watch(&self, session: &mut Session, args: &mut Args<'_>) {
        let mut view = self.instance.keyspace.lock(Scope::Database, session.db, &self.instance.clock);
        while let Some(key) = args.optional() {
            let watching = &mut session.watching;
            if !watching.keys.iter().any(|(db, other)| *db == session.db && **other == *key) {
                view.watch(key, &watching.watch);
                watching.keys.push((session.db, key.into()));
            }
        }
        view.finish();
    }

    /// Forgets all watched keys.
    pub fn unwatch(&self, session: &mut Session) {
        if session.watching.keys.is_empty() {
            return;
        }
        let Watching { watch, keys } = std::mem::take(&mut session.watching);
        let mut view = self.instance.keyspace.lock(Scope::Everything, session.db, &self.instance.clock);
        for (db, key) in keys {
            view.select(db);
            view.unwatch(&key, &watch);
        }
        view.finish();
    }

    /// Runs the queue in one view, at one instant.
    fn exec(&self, session: &mut Session, out: &mut Vec<u8>) -> CommandResult<'static> {
        let transaction = session.transaction.take().ok_or(EXEC_WITHOUT_MULTI)?;
        let watching = std::mem::take(&mut session.watching);
        let instance = Arc::clone(&self.instance);
        let mut view = instance.keyspace.lock(Scope::Everything, session.db, &instance.clock);
        for (db, key) in &watching.keys {
            view.select(*db);
            // A watched key whose time has run out is touched by being found gone.
            view.exists(key);
            view.unwatch(key, &watching.watch);
        }
        view.select(session.db);
        let result = if transaction.broken {
            Err(ABORTED)
        } else if watching.watch.is_touched() {
            Ok(Reply::NullArray)
        } else {
            out.push(b'*');
            crate::resp::write_integer(out, transaction.queue.len() as i64);
            out.extend_from_slice(b"\r\n");
            view.set_touch(!session.no_touch);
            for queued in &transaction.queue {
                self.run_queued(session, &mut view, queued, out);
            }
            Ok(Reply::Nothing)
        };
        session.tally += view.finish();
        result
    }

    fn run_queued(&self, session: &mut Session, view: &mut View<'_>, queued: &Queued, out: &mut Vec<u8>) {
        let words = queued.words.as_words();
        let mut args = Args::new(words, queued.at, queued.spec, &self.instance.profile);
        view.select(session.db);
        self.show(session, queued.spec, words);
        let error = match queued.spec.run {
            Handler::Keys(run) | Handler::Database(run) | Handler::Everything(run) => {
                write(run(view, &mut args), session, out)
            }
            Handler::Connection(run) => {
                let mut call = Call { server: &self.instance, table: &self.table, session, flow: Flow::Continue };
                let result = run(&mut call, &mut args);
                // Inside a transaction nothing blocks: what would wait answers at once as if its time were up.
                let result = match call.flow {
                    Flow::Wait(Waiting::Until { reply, .. }) => Ok(reply),
                    _ => result,
                };
                write(result, session, out)
            }
            Handler::Debug(run) => {
                let mut call = Call { server: &self.instance, table: &self.table, session, flow: Flow::Continue };
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
    }
}
