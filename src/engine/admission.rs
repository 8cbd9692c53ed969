//! Admission: whether a command may run, and the error reply if it may not.

use std::cell::Cell;

use super::{Engine, is_exec, is_monitor, is_replica, transaction};
use crate::base::error::CommandError;
use crate::base::profile::Since;
use crate::clients::acl::Denial;
use crate::clients::instance::MemoryState;
use crate::clients::session::{Flow, Replies, Session};
use crate::commands::{self, Call};
use crate::powers::Hook;
use crate::protocol::{Protocol, Reply, Words};
use crate::spec::{CommandKind, CommandSpec, Flag, Group};

/// The first Valkey that names the refused command in a transaction's error, and that checks the password first.
const VALKEY_9: Since = Since::valkey(9, 0, 0);

impl Engine {
    /// Whether a session may run a command now.
    #[inline]
    pub(super) fn admit(
        &self,
        session: &mut Session,
        spec: &'static CommandSpec,
        words: Words<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), CommandError> {
        if spec.kind == CommandKind::Debug {
            let local = session.client.peer().is_local();
            if !self.instance.config.live().allows_debug(local) {
                return Err(CommandError::DEBUG_REFUSED);
            }
            self.instance.permit_at_root(session, &self.table, spec, words)?;
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
        if self.instance.config.live().limits_memory() {
            self.make_room(session, spec, words, out)?;
        }
        if session.subscriber && session.protocol == Protocol::Resp2 && !spec.runs_subscribed {
            return Err(self.not_while_subscribed(spec));
        }
        Ok(())
    }

    /// Evicts keys if there is too little memory. A command that can take more is refused if that was not enough.
    #[cold]
    fn make_room(
        &self,
        session: &mut Session,
        spec: &'static CommandSpec,
        words: Words<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), CommandError> {
        let state = self.backend.evict();
        if session.client.has_signals() {
            // What the evictions have to tell this client is about what was there before its command.
            session.client.take_mail(out);
        }
        let is_exhausted = state == MemoryState::Exceeded;
        if is_exhausted
            && (transaction::may_grow(session, spec, &self.instance.profile)
                || transaction::may_run_scripts(session, spec) && self.backend.scripts_may_grow(session, spec, words))
        {
            return Err(CommandError::OUT_OF_MEMORY);
        }
        self.instance.note_out_of_memory(is_exhausted);
        Ok(())
    }

    /// The error for a command whose reply a RESP2 subscriber could not distinguish from messages.
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

    /// Whether a session may run commands: its client has authenticated, or needs no password (any more).
    pub fn is_authenticated(&self, session: &Session) -> bool {
        session.authenticated || self.instance.acl.default_user().is_open()
    }

    fn admit_to_transaction(&self, spec: &CommandSpec) -> Result<(), CommandError> {
        let profile = &self.instance.profile;
        if !spec.flags_in(profile).contains(&Flag::NoMulti) {
            return Ok(());
        }
        if !profile.has(VALKEY_9) {
            return Err(CommandError::NOT_IN_TRANSACTION);
        }
        let name = self.table.full_name(spec);
        Err(CommandError::new(format!("ERR Command '{name}' not allowed inside a transaction")))
    }

    /// The error for a write after a save that failed, or that needs replicas, or for a command that a replica does not run.
    /// After such a save, PING fails, too.
    #[cold]
    pub(super) fn write_refusal(
        &self,
        session: &Session,
        spec: &CommandSpec,
        words: Words<'_>,
    ) -> Option<CommandError> {
        let writes = |spec: &CommandSpec| spec.has_flag(Flag::Write);
        let writes = writes(spec) || is_exec(spec) && session.queued().any(|queued| writes(queued.row.spec));
        let lacks_replicas = writes && self.instance.lacks_replicas();
        (writes || spec.name == "PING")
            .then(|| self.instance.failed_save())
            .flatten()
            .or_else(|| lacks_replicas.then_some(CommandError::NO_REPLICAS))
            .or_else(|| self.instance.is_replica().then(|| self.replica_refusal(session, spec, words)).flatten())
    }

    fn replica_refusal(&self, session: &Session, spec: &CommandSpec, words: Words<'_>) -> Option<CommandError> {
        // Clients that control a test are never refused.
        if spec.group == Group::Control {
            return None;
        }
        if self.instance.is_read_only_replica() && self.backend.is_write(session, spec, words) {
            return Some(CommandError::READ_ONLY_REPLICA);
        }
        let is_stale = self.instance.is_stale_replica() && self.backend.needs_fresh_data(session, spec, words);
        is_stale.then_some(CommandError::MASTER_DOWN)
    }

    /// The error for a command while a slow script runs.
    #[cold]
    pub(super) fn busy_refusal(&self, spec: &CommandSpec) -> Option<CommandError> {
        let busy = self.instance.active_hooks.has(Hook::SlowScript)
            && !spec.flags_in(&self.instance.profile).contains(&Flag::AllowBusy);
        busy.then(|| self.busy_error())
    }

    #[cold]
    pub(super) fn busy_error(&self) -> CommandError {
        self.instance.scripts.busy_error()
    }

    /// Whether a command waits for the end of a pause. DEBUG SLEEP is waited for here.
    #[cold]
    pub(super) fn is_held_back(&self, session: &Session, spec: &'static CommandSpec, words: Words<'_>) -> bool {
        if self.instance.active_hooks.has(Hook::DebugSleep) {
            self.instance.wait_for_debug_sleep();
        }
        // Clients that control a test are never held.
        if is_monitor(session) || is_replica(session) || spec.group == Group::Control {
            return false;
        }
        self.instance
            .paused()
            .is_some_and(|(_, writes_only)| !writes_only || self.backend.will_write(session, spec, words))
    }

    #[cold]
    pub(super) fn refuse_unresolved(
        &self,
        session: &mut Session,
        words: Words<'_>,
        error: CommandError,
        out: &mut Vec<u8>,
    ) -> Flow {
        // A cross-protocol request of a browser ends the connection, before its body can contain commands.
        let name = words.get(0).unwrap_or_default();
        if name.eq_ignore_ascii_case(b"post") || name.eq_ignore_ascii_case(b"host:") {
            return Flow::Drop;
        }
        session.in_flight.row = self.table.find(name);
        let sub = session.in_flight.row.and_then(|row| self.table.find_sub(row, words.get(1).unwrap_or_default()));
        self.end_caching_exception(session, sub);
        self.count_unsupported(words);
        // An unknown command has no row.
        self.count_rejection(session, self.table.row_of(words).map(|row| row.id));
        let exec = session.in_flight.row.is_some_and(is_exec);
        let open = session.in_flight.row.is_some_and(|spec| spec.has_flag(Flag::NoAuth));
        if self.instance.profile.has(VALKEY_9) && !open && !self.is_authenticated(session) {
            return self.refuse(session, exec, CommandError::NO_AUTH, out);
        }
        self.refuse(session, exec, error, out)
    }

    /// Counts a request for an unknown command.
    #[cold]
    pub(super) fn count_unsupported(&self, words: Words<'_>) {
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

    /// Rejects a command with an error before it runs. The error breaks an open transaction, and discards one that was
    /// about to run.
    #[cold]
    pub(super) fn refuse(&self, session: &mut Session, exec: bool, error: CommandError, out: &mut Vec<u8>) -> Flow {
        if is_replica(session) {
            return self.drop_talking_replica(session);
        }
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
            self.suppress_reply(session, start, out);
        }
        Flow::Continue
    }

    /// Closes the connection of a replica that has asked for a reply: no place in its stream is one for that.
    #[cold]
    pub(super) fn drop_talking_replica(&self, session: &Session) -> Flow {
        let name = session.in_flight.row.map_or_else(|| "unknown".to_owned(), |spec| self.table.full_name(spec));
        self.instance.log.warn(format!(
            "The replica {} is disconnected, because its command '{name}' asks for a reply.",
            session.client.peer()
        ));
        Flow::Drop
    }

    /// Whether a session's user may run a command. A denial is logged.
    #[inline]
    pub(super) fn permit(
        &self,
        session: &mut Session,
        spec: &'static CommandSpec,
        words: Words<'_>,
    ) -> Result<(), Denial> {
        if session.user.is_unrestricted() {
            return Ok(());
        }
        let in_transaction = session.transaction.is_some() || session.executing;
        self.permit_restricted(session, spec, words, if in_transaction { "multi" } else { "toplevel" })
    }

    /// Whether a script may run a command: if its caller may. The error is for the script.
    pub(super) fn permit_in_script(
        &self,
        session: &mut Session,
        spec: &'static CommandSpec,
        words: Words<'_>,
    ) -> Result<(), CommandError> {
        if session.user.is_unrestricted() {
            return Ok(());
        }
        self.permit_restricted(session, spec, words, "lua").map_err(|denial| {
            let name = self.table.full_name(spec);
            let text = denial.in_script(&self.instance.profile, session.user.name(), &name);
            CommandError::new([b"ERR ", text.as_slice()].concat())
        })
    }

    #[cold]
    fn permit_restricted(
        &self,
        session: &mut Session,
        spec: &'static CommandSpec,
        words: Words<'_>,
        context: &'static str,
    ) -> Result<(), Denial> {
        let databases = self.instance.database_context(session);
        let result = self.instance.acl.may_run(&session.user, spec, words, databases);
        if let Err(denial) = result {
            // The log shows the client as it is now. While EXEC runs, others see it as it was when EXEC began.
            if !session.executing {
                session.publish();
            }
            let call = Call {
                server: &self.instance,
                table: &self.table,
                session,
                instant: Cell::new(None),
                flow: Flow::Continue,
            };
            commands::record_denial(&call, denial, spec, context, words);
        }
        result
    }

    /// The error for a session that may not run a command.
    #[cold]
    pub(super) fn refusal(&self, session: &Session, spec: &CommandSpec, denial: Denial) -> CommandError {
        denial.refusal(&self.instance.profile, session.user.name(), &self.table.full_name(spec))
    }
}
