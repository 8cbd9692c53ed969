//! What the journal is told of a command: by its session when it has its reply, or is given up.
//!
//! Its place in the order is taken while what it has locked is still locked, so that the order is the one in which
//! commands took effect. A command that waits for another client takes its place when that client lets it have what it
//! waits for.

use std::sync::Arc;
use std::time::Duration;

use super::monitor::secrets;
use super::{Engine, Fibers, Resolved, transaction};
use crate::base::clock::real_micros;
use crate::base::duration::spell_duration;
use crate::base::error::CommandError;
use crate::clients::instance::Instance;
use crate::clients::session::{Flow, Session};
use crate::data::keyspace::View;
use crate::powers::{ClientRecord, Ending, EventKind, Hook, Line, Outcome, Passage, Stamp, Verdict};
use crate::protocol::{OwnedWords, Words};
use crate::spec::{CommandKind, CommandSpec, Group, Secrets};

const REDACTED: &[u8] = b"(redacted)";
const REDACTED_REPLY: &[u8] = b"+(redacted)\r\n";

/// Settings that are secret, as CONFIG names them.
const SECRET_SETTINGS: &[&str] = &["requirepass", "masterauth", "tls-key-file-pass", "tls-client-key-file-pass"];

impl Engine {
    /// Runs a request that only the journal wants to know of.
    #[inline(never)]
    pub(super) fn journalled(
        self: &Arc<Self>,
        session: &mut Box<Session>,
        resolved: Result<Resolved, CommandError>,
        words: Words<'_>,
        out: &mut Vec<u8>,
        fibers: &mut Fibers,
    ) -> Flow {
        let spec = resolved.as_ref().ok().map(|resolved| resolved.row.spec);
        if spec.is_some_and(|spec| spec.group == Group::Control) {
            self.keep_staged(session);
            return self.perform(session, resolved, words, out, fibers);
        }
        session.trace.open(session.db);
        if spec.is_some_and(|spec| transaction::may_run_scripts(session, spec)) {
            // The session may be elsewhere when the script ends.
            session.trace.keep(words);
            self.keep_staged(session);
        }
        let start = out.len();
        match self.perform(session, resolved, words, out, fibers) {
            Flow::Wait(wait) => {
                session.trace.keep(words);
                Flow::Wait(wait)
            }
            flow => {
                if !session.trace.staging.has_memory() {
                    session.trace.staging = std::mem::take(&mut fibers.staging);
                }
                let reply = &out[start..];
                let outcome = outcome(session, reply, &flow);
                self.tell(session, spec, words, reply, outcome, None);
                session.trace.tidy(None);
                flow
            }
        }
    }

    /// Puts what is staged into the journal: before anybody hears of it.
    pub(super) fn keep_staged(&self, session: &mut Session) {
        let trace = &mut session.trace;
        if !trace.staging.is_empty() {
            trace.end_last();
            let kept = self.instance.control.journal.append(&mut trace.staging);
            trace.unwritten = trace.unwritten.or(kept.map(|(index, _)| index));
            if self.instance.audit.is_on() {
                self.instance.attend_audit(kept.is_some_and(|(_, is_pressing)| is_pressing));
            }
        }
    }

    /// As `keep_staged`, when the session's requests have run as far as they can.
    #[inline(never)]
    pub fn end_batch(&self, session: &mut Session, fibers: &mut Fibers) {
        self.keep_staged(session);
        fibers.staging = std::mem::take(&mut session.trace.staging);
    }

    /// Begins to remember a request that gates and rules want to know of, too.
    pub(super) fn begin_note(&self, session: &mut Session, words: Words<'_>) {
        if self.instance.active_hooks.has(Hook::Journal) {
            session.trace.open(session.db);
            session.trace.keep(words);
        }
    }

    /// Takes the place in the order of the command whose view ends.
    #[cold]
    pub(super) fn stamp(&self, view: &View<'_>, session: &mut Session) {
        let at = view.micros();
        session.trace.stamp(self.instance.control.journal.next(), at, self.instance.clock.real_at(at));
    }

    /// The place in the order of a command that is let have what it has waited for.
    pub(super) fn stamp_served(&self, view: &View<'_>) -> Option<Stamp> {
        if !self.instance.active_hooks.has(Hook::Journal) {
            return None;
        }
        Some(Stamp { seq: self.instance.control.journal.next(), at: view.micros(), real: real_micros() })
    }

    /// Tells of the command that the session has remembered, now that it has its reply.
    pub(super) fn tell_kept(&self, session: &mut Session, passage: Option<&Passage>, reply: &[u8], flow: &Flow) {
        if !session.trace.is_open() {
            return;
        }
        let outcome = match passage.and_then(|passage| passage.rule.as_ref()).map(|rule| &rule.fault.verdict) {
            Some(Verdict::CloseBefore | Verdict::Reset) => Outcome::NeverRan,
            Some(Verdict::CloseAfter) => Outcome::Lost,
            Some(&Verdict::Truncate(bytes)) if bytes < reply.len() => Outcome::Lost,
            _ => outcome(session, reply, flow),
        };
        self.tell_as(session, passage, reply, outcome);
    }

    fn tell_as(&self, session: &mut Session, passage: Option<&Passage>, reply: &[u8], outcome: Outcome) {
        let kept = session.trace.take_kept();
        let words = kept.as_ref().map_or(Words::new(&[], &[]), |kept| kept.as_words());
        self.tell(session, None, words, reply, outcome, passage);
        self.keep_staged(session);
        session.trace.tidy(kept);
    }

    /// Tells of a command whose connection is gone: what it has waited for will not be told to anybody. `reply` is what
    /// it would have been.
    pub(super) fn give_up(&self, session: &mut Session, reply: &[u8]) {
        if !session.trace.is_open() {
            return;
        }
        let passage = session.passage.take();
        let outcome = if session.trace.is_stamped() { Outcome::Lost } else { Outcome::NeverRan };
        self.tell_as(session, passage.as_deref(), reply, outcome);
    }

    /// Tells that the last so many bytes of a session's replies will never be read by anybody.
    pub fn lose(&self, session: &Session, unwritten: usize) {
        if let Some(from) = session.trace.unwritten.filter(|_| unwritten > 0) {
            self.instance.control.journal.mark_replies_lost(session.client.id(), from, unwritten);
        }
    }

    #[inline]
    fn tell(
        &self,
        session: &mut Session,
        spec: Option<&'static CommandSpec>,
        words: Words<'_>,
        reply: &[u8],
        outcome: Outcome,
        passage: Option<&Passage>,
    ) {
        let journal = &self.instance.control.journal;
        let (stamp, duration) = match session.trace.close() {
            Ending::Stamped(stamp) => (stamp, None),
            Ending::Now { end, real, duration } => {
                (Stamp { seq: journal.next(), at: self.instance.clock.at_real(end), real }, Some(duration))
            }
        };
        let Stamp { seq, at, real } = stamp;
        let mut redacted = OwnedWords::default();
        let (words, reply) = self.readable(session, spec, words, reply, &mut redacted);
        if session.trace.introduced != journal.epoch() {
            self.introduce(session);
        }
        let children = session.trace.take_inside();
        let line = Line {
            seq,
            event: None,
            at,
            real,
            client: session.client.id(),
            db: session.trace.db,
            duration: duration.unwrap_or_default(),
            outcome,
            words,
            reply,
            held_after: passage.map(|_| real_micros().saturating_sub(real).max(0).unsigned_abs()),
            fault: passage.and_then(|passage| passage.rule.as_ref()).map(|rule| rule.fault.name.as_str()),
            gates: passage.map(|passage| passage.gates.as_slice()).unwrap_or_default(),
            children: children.as_deref(),
        };
        session.trace.put(&line, duration.is_some());
        session.trace.give_back(children);
        if session.trace.staging.is_full() {
            self.keep_staged(session);
        }
    }

    /// Tells that the connection of a session has ended, if anything is told of it.
    pub(super) fn tell_end(&self, session: &mut Session) {
        let journal = &self.instance.control.journal;
        if session.trace.introduced == journal.epoch() {
            self.keep_staged(session);
            let at = (self.instance.clock.micros(), real_micros());
            journal.note_event(EventKind::Closed, session.client.id(), at, &OwnedWords::default());
            if self.instance.audit.is_on() {
                self.instance.attend_audit(false);
            }
        }
    }

    /// Tells that the server serves again after it was stopped, before anybody can notice.
    pub fn tell_start(&self, empty: bool) {
        let Instance { control, clock, .. } = &*self.instance;
        let detail = if empty { "empty" } else { "kept" };
        let at = (clock.micros(), real_micros());
        control.journal.note_event(EventKind::Started, 0, at, &[detail].into_iter().collect());
    }

    /// Tells that the clock is moved, before that has consequences.
    pub(super) fn tell_move(&self, to: i64) {
        let Instance { control, clock, .. } = &*self.instance;
        let now = clock.micros();
        let by = Duration::from_micros(to.abs_diff(now));
        let sign = if to < now { '-' } else { '+' };
        let detail = format!("{sign}{}", spell_duration(by));
        control.journal.note_event(EventKind::Clock, 0, (now, real_micros()), &[detail].into_iter().collect());
    }

    /// Tells the journal what the client of the session is called, from the next command on.
    #[cold]
    fn introduce(&self, session: &mut Session) {
        self.keep_staged(session);
        let journal = &self.instance.control.journal;
        session.trace.introduced = journal.epoch();
        let client = &session.client;
        let introduction = ClientRecord { address: client.peer().address(), name: client.labels().name.clone() };
        journal.add_client(client.id(), introduction);
    }

    /// A command as others may read it. Only those for the connection, and what is no command, can have secrets.
    #[inline]
    fn readable<'w>(
        &self,
        session: &mut Session,
        spec: Option<&'static CommandSpec>,
        words: Words<'w>,
        reply: &'w [u8],
        redacted: &'w mut OwnedWords,
    ) -> (Words<'w>, &'w [u8]) {
        match spec.map(|spec| spec.kind) {
            Some(CommandKind::Connection) | None => self.without_secrets(session, spec, words, reply, redacted),
            _ => (words, reply),
        }
    }

    /// Takes out of a command what nobody else may read. If it has given the client another name, that is to be told.
    #[cold]
    fn without_secrets<'w>(
        &self,
        session: &mut Session,
        spec: Option<&'static CommandSpec>,
        words: Words<'w>,
        reply: &'w [u8],
        redacted: &'w mut OwnedWords,
    ) -> (Words<'w>, &'w [u8]) {
        let Some(spec) = spec.or_else(|| Some(self.table.row_of(words)?.spec)) else { return (words, reply) };
        if spec.names_client {
            // No life has this number.
            session.trace.introduced = 0;
        }
        let hidden = hidden(spec, words);
        let words = if hidden.is_empty() {
            words
        } else {
            for (at, word) in words.iter().enumerate() {
                redacted.push(if hidden.contains(&at) { REDACTED } else { word });
            }
            redacted.as_words()
        };
        let is_told = spec.secrets == Secrets::SettingsInReply
            && SECRET_SETTINGS.iter().any(|name| memchr::memmem::find(reply, name.as_bytes()).is_some());
        (words, if is_told { REDACTED_REPLY } else { reply })
    }

    /// Keeps a command that EXEC or a script has run, if the journal wants to know.
    #[inline]
    pub(super) fn note_child(
        &self,
        session: &mut Session,
        spec: Option<&'static CommandSpec>,
        words: Words<'_>,
        reply: &[u8],
        fault: Option<&str>,
    ) {
        if session.trace.is_open() {
            self.note_one_inside(session, spec, words, reply, fault);
        }
    }

    #[cold]
    fn note_one_inside(
        &self,
        session: &mut Session,
        spec: Option<&'static CommandSpec>,
        words: Words<'_>,
        reply: &[u8],
        fault: Option<&str>,
    ) {
        let mut redacted = OwnedWords::default();
        let (words, reply) = self.readable(session, spec, words, reply, &mut redacted);
        let db = session.db;
        session.trace.children().push(db, words, reply, fault);
    }
}

/// What has become of a command that has this reply.
#[inline]
fn outcome(session: &Session, reply: &[u8], flow: &Flow) -> Outcome {
    match flow {
        Flow::Drop if session.trace.is_stamped() => Outcome::Lost,
        Flow::Drop => Outcome::NeverRan,
        _ if reply.is_empty() => Outcome::Silent,
        _ if session.transaction.is_some() && reply == b"+QUEUED\r\n" => Outcome::Queued,
        _ => Outcome::Answered,
    }
}

/// The positions of names and passwords that nobody else may read.
fn hidden(spec: &CommandSpec, words: Words<'_>) -> Vec<usize> {
    match spec.secrets {
        // Whatever is wrong with it.
        Secrets::Credentials => (1..words.len()).collect(),
        Secrets::UserRules => (2..words.len()).collect(),
        Secrets::Settings => {
            let is_secret = |at: &usize| {
                words.get(at - 1).is_some_and(|name| {
                    SECRET_SETTINGS.iter().any(|secret| name.eq_ignore_ascii_case(secret.as_bytes()))
                })
            };
            (3..words.len()).step_by(2).filter(is_secret).collect()
        }
        Secrets::None | Secrets::Handshake | Secrets::SettingsInReply => secrets(spec, words),
    }
}
