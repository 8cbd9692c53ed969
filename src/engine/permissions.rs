//! What the users of sessions may run.

use super::Engine;
use crate::base::error::CommandError;
use crate::clients::acl::Denial;
use crate::clients::session::Session;
use crate::commands;
use crate::protocol::Words;
use crate::spec::CommandSpec;

impl Engine {
    /// Whether a session's user may run a command. A denial goes on record.
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

    /// Whether a script may run a command, which it may if its caller may; if not, what it hears instead.
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
        let result = self.instance.acl.may_run(&session.user, spec, words);
        if let Err(denial) = result {
            // The record shows the client as it is now. While EXEC runs, others see it as it was when EXEC began.
            if !session.executing {
                session.publish();
            }
            commands::record_denial(&self.connection_call(session, None), denial, spec, context, words);
        }
        result
    }

    /// What a session hears that is not permitted to run a command.
    #[cold]
    pub(super) fn refusal(&self, session: &Session, spec: &CommandSpec, denial: Denial) -> CommandError {
        denial.refusal(&self.instance.profile, session.user.name(), &self.table.full_name(spec))
    }
}
