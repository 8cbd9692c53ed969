//! What the users of sessions may run.

use super::Engine;
use crate::acl::Denial;
use crate::commands;
use crate::error::CommandError;
use crate::resp::Words;
use crate::session::Session;
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
        if session.user.is_unrestricted() { Ok(()) } else { self.permit_restricted(session, spec, words) }
    }

    #[cold]
    fn permit_restricted(
        &self,
        session: &mut Session,
        spec: &'static CommandSpec,
        words: Words<'_>,
    ) -> Result<(), Denial> {
        let result = self.instance.acl.may_run(&session.user, spec, words);
        if let Err(denial) = result {
            let in_transaction = session.transaction.is_some() || session.executing;
            let context = if in_transaction { "multi" } else { "toplevel" };
            if !session.executing {
                session.publish();
            }
            let call = self.call(session, None);
            commands::record_denial(&call, denial, spec, context, words);
        }
        result
    }

    /// What a session hears that is not permitted to run a command.
    #[cold]
    pub(super) fn refusal(&self, session: &Session, spec: &CommandSpec, denial: Denial) -> CommandError {
        denial.refusal(&self.instance.profile, session.user.name(), &self.table.full_name(spec))
    }
}
