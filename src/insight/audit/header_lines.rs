//! Commands that their records' headers tell: each is about one lock and nothing else.
//!
//! To decode a record, and to go through all that a line may be about, takes several times as long as what the commands of locks need:
//! SETNX, SET with NX, DEL, EXPIRE and their like, and scripts that use one key, as libraries release and extend locks.

use std::sync::Arc;

use smallvec::SmallVec;

use super::audit_state::AuditState;
use super::auditor::Auditor;
use super::client_identity::ClientIdentity;
use super::command_effects::{Executed, effects_of};
use super::command_text::text_of;
use super::cross_slot::uses_only;
use super::effect::{Effect, KeyEffect};
use super::finding::JournalRef;
use super::journal_line::{NestedCommand, NestedCommands, later, nested_commands, plausible};
use super::last_client::Labels;
use super::line_form::{LineForm, NotedCommand};
use super::lock::LockId;
use super::lock_table::Place;
use super::reply_value::ReplyValue;
use super::script_effects::script_effects;
use super::short_notes::{Attempt, HolderStep, Note};
use crate::powers::{EffectOrder, Outcome, RawRecord, RecordHeader};
use crate::protocol::parse_integer;
use crate::spec::{CommandKind, CommandSpec, Flag, LockEffect};

type Words<'a> = SmallVec<[&'a [u8]; 8]>;

/// What a header tells.
struct HeaderLine<'a, 'r> {
    seq: u64,
    at: i64,
    /// The client at this command.
    by: ClientIdentity,
    words: &'r [&'a [u8]],
    /// What a script has run; `None` for another command.
    script: Option<&'r Script<'a>>,
}

/// What a script has run.
struct Script<'a> {
    nested: NestedCommands<'a>,
    replied_at: Option<i64>,
}

/// What becomes of a command.
enum Course<'a> {
    Attempt(Attempt<'a>, Note<'a>, Arc<LineForm>),
    Step(Place, Arc<LineForm>, HolderStep),
    Read(Arc<LockId>),
    Tracked(Arc<LockId>),
}

impl HeaderLine<'_, '_> {
    fn source(&self) -> Arc<JournalRef> {
        let Self { seq, at, by, words, script } = self;
        let nested = script.map_or(&[][..], |script| &script.nested);
        let line = text_of(words, |look| nested.iter().for_each(|command| look(&command.words)));
        Arc::new(by.source((*seq, *at), line))
    }

    fn replied_at(&self) -> Option<i64> {
        self.script.and_then(|script| script.replied_at)
    }
}

/// Whether a command that is no script is about one key, and does to it what is done to locks.
fn is_about_lock(row: &CommandSpec, header: &RecordHeader<'_>) -> bool {
    if row.lock_effect == LockEffect::Get {
        return header.reply.first() == Some(&b'$') && !header.has_more;
    }
    let is_answer = matches!(header.reply, b":0\r\n" | b"$-1\r\n" | b"_\r\n" | b"*-1\r\n" | b":1\r\n" | b"+OK\r\n");
    let is_about_one = match row.lock_effect {
        LockEffect::SetIfAbsent => true,
        // Without a condition it has three words.
        LockEffect::SetByOptions => header.words > 3,
        LockEffect::Delete => header.words == 2,
        LockEffect::DeleteByOptions | LockEffect::DeleteIfEqual | LockEffect::Expire(..) => true,
        _ => false,
    };
    is_about_one && is_answer && !header.has_more
}

impl Auditor {
    /// Processes a command by its header alone, if that says all about it: it is about one lock and nothing else. Returns whether it did.
    ///
    /// The command is noted in short if all that it did is to take a key of which nothing is known, to be refused by a lock at rest, or
    /// to give one back. Otherwise the rules see it at once.
    #[inline]
    pub fn process_header(
        &mut self,
        server: u16,
        (record, header): (&RawRecord<'_>, &RecordHeader<'_>),
        row: Option<&'static CommandSpec>,
    ) -> bool {
        if header.is_event
            || header.is_cut
            || header.order != EffectOrder::Total
            || header.outcome != Outcome::Answered
            || self.has_waiting_lines()
            || !self.state.is_plain()
        {
            return false;
        }
        let Some(row) = row else { return false };
        let is_script = match row.kind {
            CommandKind::Keys if is_about_lock(row, header) => false,
            CommandKind::Script(_) if header.has_more => true,
            _ => return false,
        };
        let (at, real) = (plausible(header.at), plausible(header.real));
        let Some(labels) = record.labels_without_node(header) else { return false };
        let Some(by) = self.client_of((server, header.client), labels, real) else { return false };
        let words: Words<'_> = header.all_words().collect();
        let script = if is_script {
            let Some(script) = self.script_of(server, header, &words) else { return false };
            Some(script)
        } else {
            None
        };
        let effects = match &script {
            Some(script) => script_effects(&words, &script.nested, 1, &self.commands, &mut self.scripts),
            None => effects_of(row.lock_effect, Executed { db: header.db, words: &words, reply: header.reply }),
        };
        let [effect] = effects.as_slice() else { return false };
        let line = HeaderLine { seq: header.seq, at, by, words: &words, script: script.as_ref() };
        let place = self.state.locks.place(server, effect.db, effect.key);
        let Some(course) = self.state.course(&line, effect, place) else { return false };
        if self.state.has_due(server, at)
            || !is_script && (self.presumed.concerns(server, header, row) || self.claims.concerns(server, header, row))
            || self.declared.awaits(server, header.client)
            || self.declared.knows(server, header.db, effect.key)
        {
            return false;
        }
        self.data.tell_awaited(&mut self.state);
        if !is_script && !self.data.note_header(server, (record, header), row, &self.state.guesses) {
            return false;
        }
        self.lines += 1;
        self.last_client.forget_idle();
        (self.state.is_loose, self.state.is_stale) = (false, false);
        self.state.advance_time(server, header.seq, (at, real), real);
        match course {
            Course::Attempt(attempt, note, form) => self.state.note(&attempt, note, form),
            Course::Step(place, form, step) => {
                let command = NotedCommand { form, seq: line.seq, at, real };
                self.state.note_step(place, &line.by, command, step);
            }
            Course::Read(id) => {
                self.last_client.forget();
                let Effect::Read { value: Some(value) } = effect.effect else { return true };
                self.state.note_read(id, &line.by, value, line.source());
            }
            Course::Tracked(id) => {
                self.state.apply_to_tracked(&id, &line.by, (line.source(), line.replied_at()), effect);
            }
        }
        true
    }

    /// The client of a command, if it is known as it is there, and nothing is to be said of it but what it does to locks.
    fn client_of(&mut self, client: (u16, u64), labels: Labels<'_>, real: i64) -> Option<ClientIdentity> {
        if let Some(by) = self.last_client.at(client, labels, real) {
            return Some(by);
        }
        let state = self.state.clients.get(&client)?;
        let by = self.state.identity(state, labels, real)?;
        let is_known = !self.state.is_looking(state) && self.data.knows_by(client, labels);
        is_known.then(|| self.last_client.note(by, labels))
    }

    /// What a script has run, if all of it is known, it is about one key, and nobody has to do with that key but for the locks.
    fn script_of<'a>(&self, server: u16, header: &RecordHeader<'a>, words: &[&'a [u8]]) -> Option<Script<'a>> {
        let [_, _, b"1", key, ..] = *words else { return None };
        let is_done = !matches!(header.reply.first(), None | Some(b'-' | b'!'));
        if !is_done
            || !self.presumed.is_idle(server, header.client)
            || !self.claims.is_empty()
            || !self.data.may_skip_script((server, header.client), header.db, key)
        {
            return None;
        }
        let inside = header.ran_inside()?;
        let replied_at = inside.held_after.map(|held| later(plausible(header.real), held));
        let nested = nested_commands(inside);
        let is_declared = self.state.scope.is_declared(key);
        let mut writes = false;
        for command in &nested {
            let row = self.commands().find(command.words.first()?)?;
            let is_whole = command.depth == 1 && !command.is_cut && !command.reply.is_empty();
            let is_on_string = row.lock_effect != LockEffect::CountMember && uses_only(row, command, (header.db, key));
            if !is_whole || !is_on_string || is_declared && may_count(row, command) {
                return None;
            }
            writes |= row.has_flag(Flag::Write);
        }
        // A script that only looks reads the key as data are read.
        writes.then_some(Script { nested, replied_at })
    }
}

/// Whether a command may tell or change how many clients hold a declared lock.
fn may_count(row: &CommandSpec, command: &NestedCommand<'_>) -> bool {
    !matches!(row.lock_effect, LockEffect::Get | LockEffect::Delete)
        || ReplyValue::of(command.reply).text().is_some_and(|value| parse_integer(value).is_some())
}

impl AuditState {
    /// What becomes of a command that did this to a key; `None` if that takes the whole line.
    fn course<'a>(
        &mut self,
        line: &'a HeaderLine<'_, '_>,
        effect: &KeyEffect<'a>,
        place: Option<Place>,
    ) -> Option<Course<'a>> {
        if line.script.is_none()
            && let Some(attempt) = Attempt::of(effect, &line.by, (line.seq, line.at))
            && let Some(note) = self.in_short(&attempt, place)
        {
            let form = self.locks.forms().of_words(&line.by, line.words)?;
            return Some(Course::Attempt(attempt, note, form));
        }
        let place = place?;
        if let Effect::Read { value: Some(value) } = effect.effect {
            return self.read_in_short(place, &line.by, value, line.at).map(Course::Read);
        }
        let inside = line.script.map_or(&[][..], |script| &script.nested);
        match self.step_in_short(place, &line.by, (effect, line.at), (line.words, inside)) {
            Some((form, step)) => Some(Course::Step(place, form, step)),
            None => self.tracked(place, effect).map(Course::Tracked),
        }
    }
}
