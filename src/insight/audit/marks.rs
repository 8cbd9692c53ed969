//! The marks of journals: which test, or whatever else, a command belongs to.

use std::collections::VecDeque;
use std::sync::Arc;

use super::finding::JournalRef;
use super::journal_line::JournalLine;

/// How many of the last marks are remembered with their places, and how many texts.
const MAX_PLACES: usize = 4096;
pub const MAX_TEXTS: usize = 10_000;

/// The marks so far. They hold for all servers that are audited together.
#[derive(Clone, Default)]
pub struct Marks {
    places: VecDeque<Mark>,
    /// The different texts, in the order in which they came. Copies of the auditor share them.
    texts: Arc<Vec<Arc<str>>>,
}

#[derive(Clone)]
struct Mark {
    server: u16,
    seq: u64,
    real: i64,
    text: Arc<str>,
}

impl Marks {
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The different texts, in the order in which they came.
    pub fn texts(&self) -> &[Arc<str>] {
        &self.texts
    }

    /// A line that is a mark.
    pub fn note(&mut self, line: &JournalLine<'_>) {
        let detail = line.detail();
        let text = self.text(&detail);
        if self.places.len() >= MAX_PLACES {
            self.places.pop_front();
        }
        self.places.push_back(Mark { server: line.server, seq: line.seq, real: line.real, text });
    }

    /// The same text as before, if it is known.
    fn text(&mut self, text: &str) -> Arc<str> {
        // A test that is run again has mostly just been run.
        if let Some(known) = self.texts.iter().rev().find(|known| ***known == *text) {
            return Arc::clone(known);
        }
        let text: Arc<str> = text.into();
        self.add(&text);
        text
    }

    /// Adds a text to those that came.
    fn add(&mut self, text: &Arc<str>) {
        if self.texts.len() < MAX_TEXTS {
            Arc::make_mut(&mut self.texts).push(Arc::clone(text));
        }
    }

    /// Adds the texts of others.
    pub fn add_texts(&mut self, others: &[Arc<str>]) {
        for text in others {
            if !self.texts.contains(text) {
                self.add(text);
            }
        }
    }

    /// The mark that a command came after, on its own server or another one.
    pub fn before(&self, source: &JournalRef) -> Option<Arc<str>> {
        let is_before = |mark: &&Mark| match mark.server == source.server {
            true => (mark.real, mark.seq) < (source.real, source.seq),
            false => mark.real < source.real,
        };
        self.places.iter().rev().find(is_before).map(|mark| Arc::clone(&mark.text))
    }
}
