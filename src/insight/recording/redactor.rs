//! Takes the values out of a journal's lines.

use std::sync::Arc;

use super::argument_places::{ArgumentPlaces, Place};
use super::reply_redaction::{ReplyKind, ReplyRedaction};
use super::values::{HashKey, ValueMode};
use crate::powers::{Child, Item};
use crate::protocol::OwnedWords;
use crate::spec::{CommandKind, Table, TransactionCommand};

const REDACTED: &[u8] = b"(redacted)";

/// Takes the values out of a journal's lines. Names stay: of commands, options, keys, channels, clients, programs; texts of
/// scripts, too.
pub struct Redactor {
    mode: ValueMode,
    key: HashKey,
    places: ArgumentPlaces,
}

/// The parts of a line that can hold values.
struct Parts<'a> {
    words: &'a mut Vec<Vec<u8>>,
    words_missing: &'a mut u64,
    reply: &'a mut Vec<u8>,
    reply_length: &'a mut u64,
    children: &'a mut Vec<Child>,
}

impl Redactor {
    /// The error says that there are no random bytes.
    pub fn new(mode: ValueMode) -> Result<Self, String> {
        Ok(Self { mode, key: HashKey::random()?, places: ArgumentPlaces::default() })
    }

    /// Takes the values out of a line.
    pub fn redact(&mut self, table: &Table, item: &mut Item) {
        if self.mode == ValueMode::Keep {
            return;
        }
        let process = match item {
            Item::Command(entry) => &mut entry.process,
            Item::Event(event) => &mut event.process,
        };
        if let Some(process) = process {
            *process = Arc::new(process.without_arguments());
        }
        if let Item::Command(entry) = item {
            let times = (entry.at, entry.real);
            let parts = Parts {
                words: &mut entry.words,
                words_missing: &mut entry.words_missing,
                reply: &mut entry.reply,
                reply_length: &mut entry.reply_length,
                children: &mut entry.children,
            };
            self.redact_parts(table, parts, times);
        }
    }

    fn redact_parts(&mut self, table: &Table, parts: Parts<'_>, times: (i64, i64)) {
        let Parts { words, words_missing, reply, reply_length, children } = parts;
        let request: OwnedWords = words.iter().map(Vec::as_slice).collect();
        let spec = table.row_of(request.as_words()).map(|row| row.spec);
        let key = (self.mode == ValueMode::Hash).then_some(&self.key);
        let mut redaction = ReplyRedaction::new(key, times);
        let is_exec = spec.is_some_and(|spec| spec.kind == CommandKind::Transaction(TransactionCommand::Exec));
        let is_whole = *reply_length <= reply.len() as u64;
        let is_complete = if is_exec && reply.starts_with(b"*") && !reply.starts_with(b"*-1") && !children.is_empty() {
            let kinds: Vec<ReplyKind> = children.iter().map(|child| kind_of(table, child)).collect();
            redaction.add_elements(&kinds, reply)
        } else {
            // The commands inside are unknown, and so is what their replies hold.
            redaction.add_all(ReplyKind::of(spec.filter(|_| !is_exec)), reply)
        };
        match (key.is_some(), redaction.had_value) {
            // A reply without its values would say something else.
            (false, true) => reply.clear(),
            _ => {
                *reply = redaction.written;
                let kept = reply.len() as u64;
                *reply_length = if is_whole && is_complete { kept } else { (*reply_length).max(kept + 1) };
            }
        }
        let places = self.places.of(table, request.as_words());
        for (word, place) in words.iter_mut().zip(places) {
            if place != Place::Value || word == REDACTED {
                continue;
            }
            match self.mode {
                ValueMode::Hash => *word = self.key.text_for(word, times),
                ValueMode::Redact => {
                    *words_missing += (word.len() as u64).max(1);
                    *word = REDACTED.to_vec();
                }
                ValueMode::Keep => {}
            }
        }
        for Child { words, words_missing, reply, reply_length, children, .. } in children {
            self.redact_parts(table, Parts { words, words_missing, reply, reply_length, children }, times);
        }
    }
}

/// What the reply of a command inside EXEC can hold.
fn kind_of(table: &Table, child: &Child) -> ReplyKind {
    let words: OwnedWords = child.words.iter().map(Vec::as_slice).collect();
    ReplyKind::of(table.row_of(words.as_words()).map(|row| row.spec))
}
