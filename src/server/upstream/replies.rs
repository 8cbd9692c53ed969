//! From the server to the client: the ends of replies are found, and bytes pass as they came.

use std::sync::atomic::Ordering;

use super::connection::{ProxyConnection, Raw, Scratch};
use super::membership::Rewritten;
use crate::base::clock::real_micros;
use crate::clients::session::Wait;
use crate::engine::{Follows, Heard, Own, Replied, WaitEnd, Waiting, is_error};
use crate::server::node::Trouble;

/// The most bytes that are kept of a reply that comes in several pieces, if nothing is to be known of it but its kind.
const HEAD: usize = 128;
/// The most bytes that are kept of one that the journal records or a transaction needs.
const MOST_RECORDED: usize = 1 << 20;

impl ProxyConnection {
    /// Hears what the server sends: passes it to the client, and notes the replies in it.
    pub(super) fn hear(&mut self, data: &[u8], scratch: &mut Scratch) {
        if self.is_raw == Raw::All {
            return self.to_client.push(data, &mut scratch.spare);
        }
        let now = real_micros();
        self.engine.begin_batch(&mut self.session, &mut scratch.fibers);
        // Where the bytes begin that pass with the next ones, and where the next reply begins or goes on.
        let (mut begin, mut at) = (0, 0);
        while at < data.len() && self.is_raw != Raw::All {
            if self.awaits() {
                // What is behind a reply that waits passes behind it.
                self.unheard.extend_from_slice(&data[at..]);
                begin = data.len();
                break;
            }
            let is_begun = self.scanner.is_partial();
            let first = data[at];
            if !is_begun && self.membership.is_some() {
                // What has no reply is not what this one is for.
                self.end_silent(now);
            }
            match self.scanner.next(&data[at..]) {
                Ok(Some(length)) => {
                    let piece = &data[at..at + length];
                    at += length;
                    let is_checked = !is_begun && self.membership.is_some() && self.may_have_addresses(first);
                    if !is_begun && !is_checked && self.is_plain_reply(piece) {
                        continue;
                    }
                    let holds = if is_begun { self.is_held } else { is_checked || self.is_for_somebody_else() };
                    if holds {
                        self.to_client.push(&data[begin..at - length], &mut scratch.spare);
                        begin = at;
                    } else {
                        // In front of what a command that ends now may add.
                        self.to_client.push(&data[begin..at], &mut scratch.spare);
                        begin = at;
                    }
                    if is_begun {
                        let mut whole = std::mem::take(&mut self.reply);
                        self.keep(&mut whole, piece, holds);
                        self.end_reply(&whole, holds, now, scratch);
                        whole.clear();
                        self.reply = whole;
                    } else {
                        self.end_reply(piece, holds, now, scratch);
                    }
                }
                Ok(None) => {
                    if !is_begun {
                        self.is_held = self.holds_reply(first);
                    }
                    let holds = self.is_held;
                    if holds {
                        self.to_client.push(&data[begin..at], &mut scratch.spare);
                        begin = data.len();
                    }
                    let mut reply = std::mem::take(&mut self.reply);
                    self.keep(&mut reply, &data[at..], holds);
                    self.reply = reply;
                    at = data.len();
                }
                Err(_) => {
                    self.give_up_replies(scratch);
                    break;
                }
            }
        }
        self.to_client.push(&data[begin..], &mut scratch.spare);
        self.end_silent(now);
        if self.reply.is_empty() && self.reply.capacity() > MOST_RECORDED / 8 {
            self.reply = Vec::new();
        }
        if self.session.in_flight.trace.staging.has_memory() {
            self.engine.end_batch(&mut self.session, &mut scratch.fibers);
        }
        self.show_oldest_sent();
    }

    /// Lets the audit know since when a command has no reply: it decides nothing that this command may change. The records of
    /// those that have one are in the journal before.
    pub(super) fn show_oldest_sent(&self) {
        let sent = self.passed.oldest_sent().unwrap_or(0);
        self.session.client.seen().oldest_sent.store(sent, Ordering::Release);
    }

    /// Counts a whole reply to a command of which nothing is to be known, the usual case. Returns whether it was one.
    #[inline]
    fn is_plain_reply(&mut self, reply: &[u8]) -> bool {
        if self.state.hears_messages() || reply.first() == Some(&b'>') {
            return false;
        }
        match self.passed.front_mut() {
            Some(Waiting::Plain(count)) if *count > 1 => *count -= 1,
            Some(Waiting::Plain(_)) => drop(self.passed.pop()),
            _ => return false,
        }
        true
    }

    /// Whether the bytes of the next reply, which begins with this one, do not pass as they come.
    #[inline]
    pub(super) fn holds_reply(&mut self, first: u8) -> bool {
        if self.membership.is_some() && self.may_have_addresses(first) {
            return true;
        }
        self.is_for_somebody_else()
    }

    /// Whether the first reply goes through the stages, or to this program itself, instead of straight to the client.
    pub(super) fn is_for_somebody_else(&mut self) -> bool {
        match self.passed.front_mut() {
            Some(Waiting::Own(_)) => true,
            Some(Waiting::Command(command)) => command.is_intercepted || command.is_monitored,
            Some(Waiting::Plain(_)) | None => false,
        }
    }

    /// Keeps as much of a reply as will be needed of it.
    fn keep(&mut self, kept: &mut Vec<u8>, piece: &[u8], holds: bool) {
        let most = match self.passed.front_mut() {
            _ if holds => usize::MAX,
            Some(Waiting::Command(_)) => MOST_RECORDED,
            _ => HEAD,
        };
        kept.extend_from_slice(&piece[..piece.len().min(most.saturating_sub(kept.len()))]);
    }

    /// A reply has ended, or a message. If it was held, its bytes did not pass.
    fn end_reply(&mut self, reply: &[u8], holds: bool, now: i64, scratch: &mut Scratch) {
        self.end_silent(now);
        let first = match self.passed.front_mut() {
            Some(Waiting::Command(command)) => Some(&**command),
            _ => None,
        };
        let may_be_message = self.state.hears_messages() || reply.first() == Some(&b'>');
        if may_be_message && self.state.hear(reply, first) == Heard::Message {
            if holds {
                let rewritten = self.message_with_local_addresses(reply);
                self.to_client.push(rewritten.as_deref().unwrap_or(reply), &mut scratch.spare);
            }
            return;
        }
        let rewritten = match self.with_local_addresses(reply) {
            Rewritten::Unchanged => None,
            Rewritten::Changed(rewritten) => Some(rewritten),
            Rewritten::Unknown => return,
        };
        let reply = rewritten.as_deref().unwrap_or(reply);
        if holds && !self.is_for_somebody_else() {
            // It was held only for its addresses.
            self.to_client.push(reply, &mut scratch.spare);
        }
        match self.passed.front_mut() {
            // Nobody asked: the server says why it closes the connection.
            None => self.log(Trouble::Unasked, &format!("it says unasked '{}'", first_line(reply))),
            Some(Waiting::Plain(count)) if *count > 1 => *count -= 1,
            Some(Waiting::Plain(_)) => drop(self.passed.pop()),
            Some(Waiting::Own(own)) => {
                let own = *own;
                self.passed.pop();
                self.end_own(own, reply);
            }
            Some(Waiting::Command(command)) => {
                let is_last = match (command.follows, self.replies.is_empty()) {
                    (Follows::Exec, true) => {
                        let more = self.state.more_replies(&self.session, reply);
                        command.left = Some(more);
                        more == 0
                    }
                    (Follows::Exec, false) => {
                        command.left = command.left.map(|left| left - 1);
                        command.left == Some(0)
                    }
                    _ => self.state.count_reply(command, self.session.transaction.is_some(), reply),
                };
                if is_last && self.replies.is_empty() {
                    self.end_command(reply, now, scratch);
                } else {
                    self.replies.extend_from_slice(reply);
                    if is_last {
                        let replies = std::mem::take(&mut self.replies);
                        self.end_command(&replies, now, scratch);
                    }
                }
            }
        }
    }

    /// The first command has all its replies.
    pub(super) fn end_command(&mut self, reply: &[u8], now: i64, scratch: &mut Scratch) {
        if self.wait_for_calls(reply, now) {
            return;
        }
        self.note_promotion(reply);
        let Some(Waiting::Command(mut command)) = self.passed.pop() else { return };
        if command.is_intercepted && self.session.in_flight.trace.is_open() {
            let seq = self.engine.instance.control.journal.next();
            self.session.in_flight.trace.stamp(seq, now, Some(now));
        }
        self.has_quit |= command.follows == Follows::Quit;
        self.engine.end_passed(&mut self.session, &mut self.state, &mut command, Replied::With(reply), now);
        let is_intercepted = command.is_intercepted;
        scratch.commands.give_back(command);
        if is_intercepted && matches!(self.session.in_flight.wait.as_deref(), Some(Wait::Upstream)) {
            self.end_wait(WaitEnd::Passed(reply.to_vec()), scratch);
        }
    }

    /// The commands without replies that are the next ones are over.
    fn end_silent(&mut self, now: i64) {
        while let Some(Waiting::Command(command)) = self.passed.front_mut()
            && command.has_no_reply
        {
            let Some(Waiting::Command(mut command)) = self.passed.pop() else { return };
            self.engine.end_passed(&mut self.session, &mut self.state, &mut command, Replied::With(&[]), now);
        }
    }

    /// A command of the proxy itself has its reply.
    fn end_own(&mut self, own: Own, reply: &[u8]) {
        let line = first_line(reply);
        match own {
            Own::Ping => {
                self.is_let_in = !reply.starts_with(b"-NOAUTH");
                self.is_refused = !self.is_let_in;
            }
            Own::Auth | Own::Select if is_error(reply) => {
                let what = if own == Own::Auth { "AUTH" } else { "SELECT" };
                self.log(Trouble::Refused, &format!("{what} with what --upstream says was answered with '{line}'"));
                if own == Own::Select {
                    self.session.db = 0;
                }
            }
            Own::Address => self.note_address(reply),
            Own::Auth => self.is_let_in = true,
            Own::Select | Own::Discard | Own::Spoil => {}
        }
    }

    /// What the server sends is no reply. From now on everything passes without a look at it.
    fn give_up_replies(&mut self, scratch: &mut Scratch) {
        self.log(
            Trouble::Unasked,
            "it sends what is no reply; from now on all bytes of this client pass, unseen by journal, faults and gates",
        );
        let reply = std::mem::take(&mut self.reply);
        if self.is_held && self.is_for_somebody_else() {
            self.to_client.push(&reply, &mut scratch.spare);
        }
        self.is_raw = Raw::All;
        self.forget_passed();
        let input = std::mem::take(&mut self.input);
        self.to_server.push(&input, &mut scratch.spare);
    }
}

/// The first line of a reply, for the log.
fn first_line(reply: &[u8]) -> String {
    const SHOWN: usize = 200;
    let line = reply.split(|byte| *byte == b'\r').next().unwrap_or_default();
    String::from_utf8_lossy(&line[..line.len().min(SHOWN)]).escape_debug().to_string()
}
