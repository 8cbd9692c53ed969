//! Counting commands, and logging the slow ones.
//!
//! How long a command took is known when the next one of its batch begins, or the batch ends
//! ([`CallTimer`](crate::clients::session::CallTimer)). The words of a slow command are still in the buffer then.

use std::sync::atomic::Ordering;

use super::Engine;
use crate::base::clock::real_micros;
use crate::clients::latency::LatencyEvent;
use crate::clients::session::{Session, micros_between};
use crate::clients::slow_log::{LoggedCommand, MOST_WORDS, trimmed};
use crate::protocol::{Framer, Limits, Words};
use crate::spec::{CommandSpec, Flag, Redaction, ResolvedRow, RowId, Secrets};

impl Engine {
    /// The last of a batch's commands so far has ended: counts them, and logs the slow ones. `batch` has their requests.
    #[inline]
    pub fn end_calls(&self, session: &mut Session, batch: &[u8]) {
        session.timer.end(&session.counters, self.instance.config.live());
        if session.timer.has_slow() {
            self.log_slow_calls(session, batch);
        }
    }

    /// Like [`end_calls`](Self::end_calls), in front of a command that reads statistics.
    pub fn end_calls_before_next(&self, session: &mut Session, batch: &[u8]) {
        session.timer.end_before_next(&session.counters, self.instance.config.live());
        if session.timer.has_slow() {
            self.log_slow_calls(session, batch);
        }
    }

    /// A command has run: logs it if its request or reply is large, as far as the logs of these are on.
    pub fn log_large(&self, session: &Session, words: Words<'_>, request: usize, reply: usize) {
        let live = self.instance.config.live();
        if request < live.large_requests.least() && reply < live.large_replies.least() {
            return;
        }
        let Some(ResolvedRow { spec, .. }) = self.table.row_of(words) else { return };
        if spec.has_flag(Flag::SkipSlowlog) {
            return;
        }
        for (bytes, limits, log) in [
            (request, &live.large_requests, &self.instance.large_requests),
            (reply, &live.large_replies, &self.instance.large_replies),
        ] {
            if bytes >= limits.least() {
                let entry = self.entry(session, (words, words.len()), bytes as u64);
                log.add(entry, limits.length.load(Ordering::Relaxed));
            }
        }
    }

    #[cold]
    fn log_slow_calls(&self, session: &mut Session, batch: &[u8]) {
        let limits = Limits { bulk: i64::MAX, authenticated: true };
        for call in session.timer.take_slow() {
            let request = batch.get(call.request..).unwrap_or_default();
            if self.log_by_head(session, request, call.micros) {
                continue;
            }
            let mut framer = Framer::default();
            if let Ok(Some(framed)) = framer.next(request, limits) {
                let words = framer.words(framed, request);
                if let Some(row) = self.table.row_of(words) {
                    self.log_if_slow(session, row.spec, (words, words.len()), call.micros);
                }
            }
        }
    }

    /// Logs a slow call by the words that a log keeps: a request may have millions. Returns false if the others say which of them are
    /// secret.
    fn log_by_head(&self, session: &Session, request: &[u8], micros: u64) -> bool {
        let Some((framer, framed, all)) = Framer::head(request, MOST_WORDS) else { return false };
        let words = framer.words(framed, request);
        let row = self.table.row_of(words).filter(|row| row.spec.secrets == Secrets::None);
        row.inspect(|row| self.log_if_slow(session, row.spec, (words, all), micros)).is_some()
    }

    /// Ends the last call with these words, which are in no batch.
    pub(super) fn end_call(&self, session: &mut Session, spec: &'static CommandSpec, words: Words<'_>) {
        session.timer.end(&session.counters, self.instance.config.live());
        for call in session.timer.take_slow() {
            self.log_if_slow(session, spec, (words, words.len()), call.micros);
        }
    }

    /// A command that waited has its reply.
    pub(super) fn end_blocked_call(&self, session: &mut Session, has_failed: bool) {
        let Some(blocked) = session.timer.end_block() else { return };
        let counters = session.counters.calls.row(blocked.row);
        counters.add_calls(1, blocked.micros, self.instance.config.live().tracks_latency());
        if has_failed {
            counters.add_failure();
        }
        if let Some(words) = &blocked.words
            && let Some(row) = self.table.row_of(words.as_words())
        {
            let words = words.as_words();
            self.log_if_slow(session, row.spec, (words, words.len()), blocked.micros);
        }
    }

    /// A command begins inside EXEC or a script. Returns when, if it is measured.
    #[inline]
    pub(super) fn begin_inner_call(&self, session: &mut Session, spec: &CommandSpec) -> Option<i64> {
        session.timer.begin_inner(spec.has_flag(Flag::Fast), self.instance.config.live())
    }

    /// A command inside EXEC or a script has ended.
    #[inline]
    pub(super) fn end_inner_call(&self, session: &Session, row: ResolvedRow, words: Words<'_>, began: Option<i64>) {
        let live = self.instance.config.live();
        let counters = session.counters.calls.row(row.id);
        match began {
            None => counters.add_unmeasured(live.tracks_latency()),
            Some(began) => {
                let micros = micros_between(began, real_micros());
                counters.add_calls(1, micros, live.tracks_latency());
                if micros >= live.notable_micros() {
                    self.log_if_slow(session, row.spec, (words, words.len()), micros);
                }
            }
        }
    }

    /// Counts a command that was refused before it ran.
    #[cold]
    pub(super) fn count_rejection(&self, session: &Session, row: Option<RowId>) {
        if let Some(row) = row {
            session.counters.calls.row(row).add_rejection();
        }
    }

    /// A command as a log shows it, with what made it notable. `all` is how many words it has.
    fn entry(&self, session: &Session, (words, all): (Words<'_>, usize), value: u64) -> LoggedCommand {
        LoggedCommand {
            id: 0,
            time: self.instance.clock.millis().div_euclid(1000),
            value: i64::try_from(value).unwrap_or(i64::MAX),
            words: trimmed(Redaction::default().words(&self.table, words), all),
            address: session.client.peer().address(),
            name: session.client.labels().name.clone(),
        }
    }

    /// Adds a command to the slow log and to the latency monitor, as far as it took long enough for them. `all` is how many words it
    /// has.
    #[cold]
    fn log_if_slow(
        &self,
        session: &Session,
        spec: &'static CommandSpec,
        (words, all): (Words<'_>, usize),
        micros: u64,
    ) {
        let instance = &self.instance;
        let live = instance.config.live();
        let threshold = u64::try_from(live.slow_threshold.load(Ordering::Relaxed));
        if threshold.is_ok_and(|threshold| micros >= threshold) && !spec.has_flag(Flag::SkipSlowlog) {
            let entry = self.entry(session, (words, all), micros);
            instance.slow_log.add(entry, live.slow_log_length.load(Ordering::Relaxed));
        }
        let is_fast = spec.has_flag(Flag::Fast);
        instance.note_latency(if is_fast { LatencyEvent::FastCommand } else { LatencyEvent::Command }, micros / 1000);
    }
}
