//! Writing replies: suppressed ones, late ones, and the messages around them.

use super::Engine;
use crate::base::error::CommandError;
use crate::clients::session::{Replies, Session};
use crate::commands::CommandResult;
use crate::protocol::{LARGE_REPLY, LINE_END, Reply, bulk_line};

impl Engine {
    /// CLIENT REPLY OFF and SKIP: removes the reply that begins at `start`.
    #[cold]
    pub(super) fn suppress_reply(&self, session: &mut Session, start: usize, out: &mut Vec<u8>) {
        if session.replies.are_suppressed() {
            out.truncate(start);
        }
        session.replies = session.replies.for_next();
    }

    /// Whether nobody but its connection needs the reply of a command.
    #[cold]
    fn can_share(&self, session: &Session) -> bool {
        session.takes_shared
            && session.replies == Replies::On
            && !session.in_flight.is_intercepted()
            && self.instance.active_hooks.are_idle()
            && !self.instance.config.live().logs_large()
    }

    /// Writes the reply of a command whose wait is over.
    pub fn answer(&self, session: &mut Session, reply: &Reply<'_>, out: &mut Vec<u8>) {
        let start = out.len();
        reply.write(session.protocol, out);
        if let Reply::Error(error) = reply {
            self.instance.stats.count_error(error.code());
        }
        self.suppress_reply(session, start, out);
    }

    /// The same for a reply that is not needed any more: a large one that is encoded already is not copied.
    pub fn answer_with(&self, session: &mut Session, reply: Reply<'_>, out: &mut Vec<u8>) {
        match reply {
            Reply::Encoded(bytes) if out.is_empty() => {
                *out = bytes;
                self.suppress_reply(session, 0, out);
            }
            reply => self.answer(session, &reply, out),
        }
    }

    /// Writes the reply of a blocked command that another client's command has served.
    pub fn resume_with(&self, session: &mut Session, reply: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(reply);
        self.suppress_reply(session, start, out);
    }
}

/// Adds the messages of a command to its own client, around the reply that begins at `start`. CLIENT REPLY does not
/// suppress them.
#[cold]
pub(super) fn add_messages(session: &mut Session, start: usize, out: &mut Vec<u8>) {
    if let Some(bytes) = session.shared_reply.take() {
        out.extend_from_slice(&bytes);
        out.extend_from_slice(LINE_END);
    }
    out.splice(start..start, session.messages_ahead.drain(..));
    out.append(&mut session.messages_behind);
}

/// Like [`write`], for a command that is answered by itself: its connection may take a long string from where it is.
#[inline]
pub(super) fn write_or_share(
    front: &Engine,
    result: CommandResult<'_>,
    session: &mut Session,
    out: &mut Vec<u8>,
) -> Option<CommandError> {
    match result {
        Ok(Reply::Shared(bytes)) if front.can_share(session) => {
            bulk_line(out, bytes.len());
            session.shared_reply = Some(Box::new(bytes));
            None
        }
        result => write(result, session, out),
    }
}

/// Writes the reply of a result. Returns an error, which the caller counts.
#[inline]
pub(super) fn write(result: CommandResult<'_>, session: &Session, out: &mut Vec<u8>) -> Option<CommandError> {
    match result {
        Ok(Reply::Bulks(bulks)) if bulks.are_large() && out.is_empty() => {
            *out = bulks.into_encoded();
            None
        }
        Ok(Reply::Encoded(bytes)) if bytes.len() >= LARGE_REPLY && out.is_empty() => {
            *out = bytes;
            None
        }
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
