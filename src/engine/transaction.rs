//! The queue of a transaction, and which commands are queued.

use super::{Engine, is_exec};
use crate::base::error::CommandError;
use crate::base::profile::Profile;
use crate::clients::session::Session;
use crate::protocol::{Words, parse_integer};
use crate::spec::{
    CommandKind, CommandSpec, DatabaseArgs, Flag, ResolvedRow, ScriptCommand, TransactionCommand as Which,
};

/// The reply to a refused EXEC. An error with the generic code loses its `ERR`.
pub(super) fn aborted_by(error: &CommandError) -> CommandError {
    let line = error.line();
    let reason = line.strip_prefix(b"ERR ").unwrap_or(line);
    CommandError::new([b"EXECABORT Transaction discarded because of: ", reason].concat())
}

/// Whether a command is queued while a transaction is open.
pub(super) fn is_queued(spec: &CommandSpec) -> bool {
    match spec.kind {
        CommandKind::Transaction(which) => which == Which::Unwatch,
        _ => !spec.never_queued,
    }
}

/// The database that a queued command selects for those behind it, if it is a SELECT that will succeed.
pub(super) fn selected_by(spec: &CommandSpec, words: Words<'_>, databases: u32) -> Option<u32> {
    let index = words.get(1).filter(|_| spec.databases == DatabaseArgs::Selected)?;
    parse_integer(index).and_then(|number| u32::try_from(number).ok()).filter(|db| *db < databases)
}

/// Queues a command for EXEC, and returns the memory of the queue in bytes.
pub(super) fn queue(session: &mut Session, row: ResolvedRow, words: Words<'_>, databases: u32) -> usize {
    // A transaction that will not run queues nothing.
    let Some(transaction) = session.transaction.as_mut().filter(|transaction| !transaction.broken) else { return 0 };
    transaction.selected = selected_by(row.spec, words, databases).or(transaction.selected);
    transaction.queue.push(row, words);
    transaction.queue.size()
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

/// Whether a command may run scripts: directly, or as an EXEC of one. Loading a library runs its code, and so does DEBUG RELOAD.
#[inline]
pub(super) fn may_run_scripts(session: &Session, spec: &CommandSpec) -> bool {
    spec.needs_scripts() || is_exec(spec) && queue_needs_scripts(session)
}

/// Whether the queue has a command that needs the interpreters of scripts.
#[inline]
pub(super) fn queue_needs_scripts(session: &Session) -> bool {
    session.transaction.as_ref().is_some_and(|transaction| transaction.queue.needs_scripts())
}

/// Whether a command can take more memory: by its writes, or by being queued.
pub(super) fn may_grow(session: &Session, spec: &CommandSpec, profile: &Profile) -> bool {
    let grows = |spec: &CommandSpec| spec.flags_in(profile).contains(&Flag::DenyOom);
    if grows(spec) || session.transaction.is_none() {
        return grows(spec);
    }
    match spec.kind {
        CommandKind::Transaction(Which::Exec) => session.queued().any(|queued| grows(queued.row.spec)),
        CommandKind::Transaction(Which::Discard) => false,
        _ => !spec.never_queued,
    }
}

impl Engine {
    /// Drops the queue and all watched keys.
    pub(super) fn discard(&self, session: &mut Session) {
        session.transaction = None;
        self.instance.unwatch(session);
    }
}
