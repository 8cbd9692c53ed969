//! Signals and messages of other connections.

use std::sync::Arc;

use super::{Connection, Scratch, State};
use crate::base::error::CommandError;
use crate::clients::session::{Signal, Wait};
use crate::engine::WaitEnd;

impl Connection {
    /// Handles the signals of other connections, and sends their messages.
    pub(super) fn take_signals(&mut self, scratch: &mut Scratch) {
        if self.session.client.has_signals() {
            self.session.client.begin_signals();
            if matches!(self.session.in_flight.wait.as_deref(), Some(Wait::Drip { .. })) {
                // Messages must not interrupt the parts of one reply.
                self.session.client.take_mail(&mut self.mail);
                self.publish_output();
            } else {
                self.session.client.take_mail_segments(&mut scratch.output, &mut scratch.segments);
                self.queue_output(&mut scratch.output, &mut scratch.spare);
                self.queue_segments(&mut scratch.segments, &mut scratch.spare);
            }
            self.answer_signals(scratch);
        }
    }

    fn answer_signals(&mut self, scratch: &mut Scratch) {
        let client = Arc::clone(&self.session.client);
        if client.take_signal(Signal::Kill) {
            self.state = State::Dropped;
            return;
        }
        if client.take_signal(Signal::Close) {
            self.state = State::Closing;
        }
        // These signals only wake the connection, so that it polls its wait.
        client.take_signal(Signal::Unpause);
        client.take_signal(Signal::Look);
        if client.take_signal(Signal::Identified) {
            self.engine.introduce_again(&mut self.session);
        }
        let unblocked = client.take_signal(Signal::UnblockTimeout);
        let refused = client.take_signal(Signal::UnblockError);
        if unblocked || refused {
            self.end_wait(if refused { WaitEnd::Unblocked(CommandError::UNBLOCKED) } else { WaitEnd::Over }, scratch);
        }
        if client.take_signal(Signal::RoleChanged) {
            self.end_wait(WaitEnd::Dismissed(CommandError::NOW_A_REPLICA), scratch);
        }
        if client.take_signal(Signal::Served)
            && let Some(served) = client.take_served()
        {
            self.end_wait(WaitEnd::Served(served), scratch);
        }
    }
}
