//! From the client to the server: requests are framed, and pass as they came.

use std::sync::atomic::Ordering;

use super::connection::{ProxyConnection, Raw, Scratch, State};
use super::script_monitor::Monitoring;
use crate::base::clock::real_micros;
use crate::base::error::CommandError;
use crate::clients::session::{Flow, Replies, Wait};
use crate::clients::stats::add;
use crate::engine::addresses::AddressKind;
use crate::engine::{Follows, Own, PassedCommand, Replied, Resolved, Turn, replies_after};
use crate::powers::{Hook, HookPath};
use crate::protocol::{Limits, Protocol, Reply, ReplyScanner, Words};
use crate::spec::{CommandKind, CommandSpec, Group};

/// What becomes of one request.
enum Course {
    /// Its bytes pass, with those before it.
    Pass,
    /// It waits where it is, and what is behind it, too.
    Hold,
    /// It is answered here, and does not pass.
    Answered(Flow),
    /// It passes alone, and its reply goes through the stages.
    PassAlone { has_reply: bool },
}

/// A request to the server that is framed.
pub(super) struct Request<'w> {
    pub(super) words: Words<'w>,
    pub(super) resolved: Result<Resolved, CommandError>,
    /// When its bytes were read, in microseconds since 1970.
    read_at: i64,
}

impl ProxyConnection {
    /// Passes every complete request at the start of `data`, and returns how many bytes are consumed.
    pub(super) fn pass(&mut self, data: &[u8], scratch: &mut Scratch) -> usize {
        if self.is_raw != Raw::Nothing {
            self.to_server.push(data, &mut scratch.spare);
            return data.len();
        }
        if let Some(end) = self.pass_rest(data) {
            self.to_server.push(&data[..end], &mut scratch.spare);
            return end;
        }
        // What is beyond them passes without a look at it: a server with the usual limits refuses it at once.
        let max_bulk = self.engine.instance.config.live().max_bulk.load(Ordering::Relaxed);
        let limits = Limits { bulk: max_bulk, authenticated: true };
        let read_at = real_micros();
        // Where the bytes begin that pass with the next ones.
        let (mut begin, mut used) = (0, 0);
        let mut passed = 0;
        let mut framer = std::mem::take(&mut self.framer);
        self.session.in_flight.trace.begin_batch();
        while self.flow == State::Open && self.session.in_flight.wait.is_none() {
            let framed = match framer.next(&data[used..], limits) {
                Ok(Some(framed)) => framed,
                Ok(None) => {
                    if self.passes_as_it_comes(&data[used..]) {
                        passed += 1;
                        framer.reset();
                        used = data.len();
                    }
                    break;
                }
                Err(_) => {
                    // The server says what is wrong with it.
                    self.is_raw = Raw::Requests;
                    self.passed.push_plain();
                    used = data.len();
                    break;
                }
            };
            let request = &data[used..used + framed.length()];
            // The same request, if it names nodes by local addresses.
            let mut rewritten = None;
            let course = if framed.is_empty() {
                Course::Pass
            } else {
                let words = framer.words(framed, &data[used..]);
                if self.membership.is_some() {
                    rewritten = self.with_real_addresses(words).map(|words| request_of(words.as_words()));
                }
                self.course(Request { words, resolved: self.engine.resolve(words), read_at }, request, scratch)
            };
            match course {
                Course::Pass => {
                    passed += u64::from(!framed.is_empty());
                    if let Some(rewritten) = rewritten {
                        self.to_server.push(&data[begin..used], &mut scratch.spare);
                        self.to_server.push(&rewritten, &mut scratch.spare);
                        begin = used + framed.length();
                    }
                    used += framed.length();
                }
                Course::Hold => {
                    framer.reset();
                    break;
                }
                Course::Answered(flow) => {
                    self.to_server.push(&data[begin..used], &mut scratch.spare);
                    if matches!(&flow, Flow::Wait(wait) if wait.is_before_run()) {
                        begin = used;
                        framer.reset();
                        self.go_on(flow, &mut Vec::new(), scratch);
                        break;
                    }
                    used += framed.length();
                    begin = used;
                    if !matches!(flow, Flow::Continue) {
                        self.go_on(flow, &mut Vec::new(), scratch);
                    }
                }
                Course::PassAlone { has_reply } => {
                    passed += 1;
                    let end = used + framed.length();
                    let passing = if rewritten.is_some() { &data[begin..used] } else { &data[begin..end] };
                    self.to_server.push(passing, &mut scratch.spare);
                    self.to_server.push(rewritten.as_deref().unwrap_or_default(), &mut scratch.spare);
                    used = end;
                    begin = end;
                    if !has_reply {
                        self.end_command(&[], real_micros(), scratch);
                    }
                }
            }
            framer.forget();
            if self.is_raw != Raw::Nothing {
                used = data.len();
                break;
            }
        }
        self.framer = framer;
        self.to_server.push(&data[begin..used], &mut scratch.spare);
        if self.session.in_flight.trace.staging.has_memory() {
            self.engine.end_batch(&mut self.session, &mut scratch.fibers);
        }
        self.show_oldest_sent();
        add(&self.session.counters.commands, passed);
        add(&self.session.client.seen().commands, passed);
        used
    }

    #[inline]
    fn course(&mut self, request: Request<'_>, bytes: &[u8], scratch: &mut Scratch) -> Course {
        if request.resolved.as_ref().is_ok_and(|resolved| resolved.group() == Group::Control) {
            return self.run_here(request, bytes, scratch);
        }
        if self.engine.keeps_key_order() && self.passed.may_block() {
            return Course::Hold;
        }
        let is_monitored = match self.monitoring(&request, scratch) {
            Monitoring::Hold => return Course::Hold,
            Monitoring::On => true,
            Monitoring::Off => false,
        };
        if self.engine.instance.active_hooks.path() == HookPath::All || self.session.in_flight.is_intercepted() {
            return self.intercept(request, is_monitored, scratch);
        }
        self.pass_on(&request, is_monitored, scratch)
    }

    /// Runs a command of the test powers, which the server never sees, once all commands before it have their replies.
    fn run_here(&mut self, request: Request<'_>, bytes: &[u8], scratch: &mut Scratch) -> Course {
        if !self.passed.is_empty() {
            return Course::Hold;
        }
        if std::mem::take(&mut self.is_refused) {
            let mut out = Vec::new();
            self.engine.answer(&mut self.session, &Reply::Error(CommandError::NO_AUTH), &mut out);
            self.to_client.push(&out, &mut scratch.spare);
            return Course::Answered(Flow::Continue);
        }
        // Whoever is in a transaction was let in.
        if !self.is_let_in && self.session.transaction.is_none() {
            if self.session.replies != Replies::On {
                // The server would not say whether it lets the client in.
                return Course::Answered(Flow::Continue);
            }
            self.send_own(Own::Ping, &[b"PING"], scratch);
            return Course::Hold;
        }
        let mut out = Vec::new();
        let is_skipped = self.session.replies == Replies::Skip;
        self.session.timer.request = 0;
        let flow =
            self.engine.execute(&mut self.session, request.resolved, request.words, &mut out, &mut scratch.fibers);
        self.engine.end_calls(&mut self.session, bytes);
        self.to_client.push(&out, &mut scratch.spare);
        if is_skipped && self.session.replies == Replies::On {
            self.skip_a_reply(scratch);
        }
        if self.session.transaction.is_some() {
            // It was refused, which spoils a transaction.
            self.send_own(Own::Spoil, &[b"?"], scratch);
        }
        Course::Answered(flow)
    }

    /// CLIENT REPLY SKIP was for a command that the server does not see: it skips the reply to this one.
    fn skip_a_reply(&mut self, scratch: &mut Scratch) {
        self.to_server.push(b"*1\r\n$4\r\nPING\r\n", &mut scratch.spare);
    }

    /// Passes what is left of a long request. Returns where it ends, or all that is there.
    fn pass_rest(&mut self, data: &[u8]) -> Option<usize> {
        match self.passing.as_mut()?.next(data) {
            Ok(None) => Some(data.len()),
            Ok(Some(end)) => {
                self.passing = None;
                Some(end)
            }
            Err(_) => {
                // The server says what is wrong with it.
                self.passing = None;
                self.is_raw = Raw::Requests;
                Some(data.len())
            }
        }
    }

    /// Whether a long request that has begun passes as it comes, because nobody wants to know more of it than its name. It
    /// counts as passed then.
    fn passes_as_it_comes(&mut self, data: &[u8]) -> bool {
        /// Shorter requests are kept until they are there.
        const LONG: usize = 64 * 1024;
        let hooks = &self.engine.instance.active_hooks;
        let is_looked_at = hooks.path() != HookPath::None || self.session.in_flight.is_intercepted();
        if data.len() < LONG
            || data.first() != Some(&b'*')
            || is_looked_at
            || self.in_multi
            || self.session.replies != Replies::On
            || self.engine.keeps_key_order()
        {
            return false;
        }
        let mut lines = data.splitn(4, |byte| *byte == b'\n');
        let name = lines.nth(2).map(<[u8]>::trim_ascii_end);
        let row = name.and_then(|name| self.engine.table.find(name)).filter(|row| !row.is_container);
        let is_plain = |row: &CommandSpec| {
            let follows = Follows::of(&row.name.to_ascii_lowercase());
            follows == Follows::Nothing && row.kind != CommandKind::Blocking && row.group != Group::Control
        };
        if !row.is_some_and(is_plain) {
            return false;
        }
        let mut scanner = Box::<ReplyScanner>::default();
        if !matches!(scanner.next(data), Ok(None)) {
            return false;
        }
        self.passing = Some(scanner);
        self.passed.push_plain();
        true
    }

    /// Takes a command through the stages: past gates and rules, and alone to the server.
    fn intercept(&mut self, request: Request<'_>, is_monitored: bool, scratch: &mut Scratch) -> Course {
        if !self.passed.is_empty() {
            return Course::Hold;
        }
        let Request { words, resolved, read_at } = request;
        let follows = self.follows(&resolved, words);
        let row = self.engine.table.row_of(words);
        let in_transaction = self.session.transaction.is_some();
        let mut out = Vec::new();
        let is_skipped = self.session.replies == Replies::Skip;
        let flow = self.engine.intercept(&mut self.session, resolved, words, &mut out, &mut scratch.fibers);
        if !matches!(&flow, Flow::Wait(wait) if matches!(**wait, Wait::Upstream)) {
            self.to_client.push(&out, &mut scratch.spare);
            if is_skipped && self.session.replies == Replies::On {
                self.skip_a_reply(scratch);
            }
            if in_transaction && self.session.transaction.is_none() {
                // A rule has answered EXEC: the server still has the transaction.
                self.in_multi = false;
                self.send_own(Own::Discard, &[b"DISCARD"], scratch);
            }
            return Course::Answered(flow);
        }
        if self.session.in_flight.trace.is_open() {
            self.session.in_flight.trace.sent = Some(read_at.max(self.session.in_flight.trace.began()));
        }
        let has_reply = self.note_passing(follows, words);
        let is_ordered = self.session.in_flight.trace.is_ordered;
        self.passed.push(words, &mut scratch.commands, |command| {
            (command.row, command.follows, command.sent) = (row, follows, read_at);
            (command.is_intercepted, command.is_ordered) = (true, is_ordered);
            command.is_monitored = is_monitored;
        });
        self.begin_monitoring(is_monitored);
        self.go_on(flow, &mut out, scratch);
        Course::PassAlone { has_reply }
    }

    /// A command that no hook intercepts.
    #[inline]
    fn pass_on(&mut self, request: &Request<'_>, is_monitored: bool, scratch: &mut Scratch) -> Course {
        let Request { words, resolved, read_at } = request;
        let follows = self.follows(resolved, *words);
        let is_journaled = self.engine.instance.active_hooks.has(Hook::Journal);
        let keeps_order = self.engine.keeps_key_order();
        let is_plain = follows == Follows::Nothing && !is_journaled && !keeps_order;
        if is_plain && !self.in_multi && self.session.replies == Replies::On {
            self.passed.push_plain();
            return Course::Pass;
        }
        if follows == Follows::Replication && !self.passed.is_empty() {
            return Course::Hold;
        }
        if keeps_order && follows == Follows::Exec && !self.passed.is_empty() {
            // What is queued is known when it has its replies.
            return Course::Hold;
        }
        let row = resolved.as_ref().map_or_else(|_| self.engine.table.row_of(*words), |known| Some(known.row()));
        let turn = self.engine.take_turn(&self.session, row, *words, self.in_multi);
        if turn == Turn::Wait {
            return Course::Hold;
        }
        let is_ordered = turn == Turn::Taken;
        let has_reply = self.note_passing(follows, *words);
        if !has_reply && is_ordered {
            // Nobody will know when it is over.
            self.engine.give_back_turn(&self.session);
        }
        if !has_reply && !is_journaled {
            return Course::Pass;
        }
        self.begin_monitoring(is_monitored);
        if follows == Follows::Nothing && !is_ordered && !self.passed.has_room() {
            self.passed.push_plain();
            return Course::Pass;
        }
        let describe = |command: &mut PassedCommand| {
            (command.row, command.follows, command.sent) = (row, follows, *read_at);
            (command.is_intercepted, command.is_ordered) = (false, is_ordered && has_reply);
            command.is_monitored = is_monitored;
        };
        if has_reply || !self.passed.is_empty() {
            let describe = |command: &mut PassedCommand| {
                describe(command);
                command.has_no_reply = !has_reply;
            };
            self.passed.push(*words, &mut scratch.commands, describe);
        } else {
            let mut command = PassedCommand { words: words.into_owned(), ..PassedCommand::default() };
            describe(&mut command);
            self.engine.end_passed(&mut self.session, &mut self.state, &mut command, Replied::With(&[]), *read_at);
        }
        Course::Pass
    }

    /// What the front has to know of a request.
    #[inline]
    pub(super) fn follows(&self, resolved: &Result<Resolved, CommandError>, words: Words<'_>) -> Follows {
        match resolved {
            Ok(resolved) => self.engine.follows(resolved),
            Err(_) => words.get(0).map_or(Follows::Nothing, |name| {
                let lower = |word: &[u8]| String::from_utf8_lossy(&word[..word.len().min(32)]).to_ascii_lowercase();
                let name = lower(name);
                if self.membership.is_some() && name == "sentinel" {
                    // Only Sentinels have this command.
                    let full = format!("{name}|{}", lower(words.get(1).unwrap_or_default()));
                    return AddressKind::of(&full).map_or(Follows::Nothing, Follows::Addresses);
                }
                Follows::of(&name)
            }),
        }
    }

    /// Notes what follows for the commands behind from one that passes now. Returns whether it has a reply.
    fn note_passing(&mut self, follows: Follows, words: Words<'_>) -> bool {
        let replies = self.session.replies;
        let mut has_reply = !replies.are_suppressed();
        self.session.replies = replies.for_next();
        match follows {
            Follows::Multi => self.in_multi = true,
            Follows::Exec | Follows::Discard | Follows::Reset => self.in_multi = false,
            Follows::Replication => self.is_raw = Raw::All,
            Follows::ClientReply if !self.in_multi => {
                if let Some(next) = replies_after(words) {
                    has_reply = next == Replies::On;
                    self.session.replies = match (replies, next) {
                        (Replies::Off, Replies::SkipNext) => Replies::Off,
                        (_, Replies::SkipNext) => Replies::Skip,
                        (_, next) => next,
                    };
                }
            }
            _ => {}
        }
        has_reply
    }
}

/// A request as bytes.
pub(super) fn request_of(words: Words<'_>) -> Vec<u8> {
    let mut request = Vec::new();
    Reply::Array(words.iter().map(|word| Reply::bulk(word.to_vec())).collect()).write(Protocol::Resp2, &mut request);
    request
}
