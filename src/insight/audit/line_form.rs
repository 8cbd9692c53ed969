//! Commands as evidence shows them, in what many of them have in common: the client, and all but the key and the value.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::FixedState;
use smallvec::SmallVec;

use super::client_identity::{ClientIdentity, ClientLabels};
use super::command_text::text_of;
use super::finding::JournalRef;
use super::journal_line::NestedCommand;
use crate::powers::is_shown_as_it_is;

/// What the lines have in common that one client sends alike.
#[derive(Debug)]
pub struct LineForm {
    client: u64,
    labels: Arc<ClientLabels>,
    pattern: Arc<LinePattern>,
}

/// A command without its key and its value, which whoever has noted it knows.
#[derive(Clone, Debug)]
pub struct NotedCommand {
    pub form: Arc<LineForm>,
    pub seq: u64,
    /// In microseconds on the server's clock, and in reality.
    pub at: i64,
    pub real: i64,
}

/// The command of a line, with gaps for the key and the value: locks with which the same is done share it.
#[derive(Debug)]
enum LinePattern {
    /// What is shown before the key, between key and value, and after the value.
    Shown([Box<str>; 3]),
    /// The words of a command, and of those that it ran.
    Words { words: Box<[Word]>, inside: Box<[Box<[Word]>]> },
}

#[derive(Debug)]
enum Word {
    Key,
    Value,
    Other(Box<[u8]>),
}

/// The forms of the last lines.
#[derive(Clone, Default)]
pub struct LineForms {
    patterns: Vec<Arc<LinePattern>>,
    /// By client and by the address of the pattern, which each keeps.
    forms: HashMap<(u64, usize), Arc<LineForm>, FixedState>,
    /// The last one: in a pipeline the next line is alike.
    last: Option<Arc<LineForm>>,
}

/// How many patterns are compared with a new line, and how many forms are kept.
const MAX_PATTERNS: usize = 8;
const MAX_FORMS: usize = 1024;
/// How many bytes of words a pattern may have. Most scripts that give a lock back are shorter; where a word is new in each line, as the
/// number of a request, each line has a pattern of its own.
const MOST_BYTES: usize = 512;

impl LineForms {
    /// The form of a command whose second word is the key, and the third one the value.
    pub fn of_words(&mut self, by: &ClientIdentity, words: &[&[u8]]) -> Option<Arc<LineForm>> {
        if words.len() < 3 {
            return None;
        }
        if !is_shown_as_it_is(words) {
            return self.of_commands(by, words, &[], (words[1], words[2]));
        }
        if let Some(known) = self.patterns.iter().find(|pattern| pattern.is_of_words(words)) {
            return Some(match self.last_form(by, known) {
                Some(last) => Arc::clone(last),
                None => self.form(by, Arc::clone(known)),
            });
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let after: String = words[3..].iter().flat_map(|word| [" ".to_owned(), text(word)]).collect();
        let pattern = self.add(LinePattern::Shown([(text(words[0]) + " ").into(), " ".into(), after.into()]));
        Some(self.form(by, pattern))
    }

    /// The form of a command, and of those that it ran, if it did, with gaps for a key and a value; `None` if they are too long.
    pub fn of_commands(
        &mut self,
        by: &ClientIdentity,
        words: &[&[u8]],
        inside: &[NestedCommand<'_>],
        gaps: (&[u8], &[u8]),
    ) -> Option<Arc<LineForm>> {
        if let Some(known) = self.patterns.iter().find(|pattern| pattern.is_of_commands(words, inside, gaps)) {
            return Some(self.form(by, Arc::clone(known)));
        }
        let own: Vec<&[&[u8]]> =
            inside.iter().filter(|command| command.depth == 1).map(|command| &*command.words).collect();
        let kept =
            words.iter().chain(own.iter().copied().flatten()).filter(|word| **word != gaps.0 && **word != gaps.1);
        if kept.map(|word| word.len()).sum::<usize>() > MOST_BYTES {
            return None;
        }
        let pattern = self.add(LinePattern::Words {
            words: Word::all_of(words, gaps),
            inside: own.iter().map(|words| Word::all_of(words, gaps)).collect(),
        });
        Some(self.form(by, pattern))
    }

    /// The form of a line that shows the key, and behind it the value; `None` if it does not.
    pub fn of_line(&mut self, by: &ClientIdentity, line: &str, (key, value): (&str, &str)) -> Option<Arc<LineForm>> {
        let (before, rest) = line.split_once(key)?;
        let (between, after) = rest.split_once(value)?;
        let parts = [before, between, after];
        let is_it = |pattern: &&Arc<LinePattern>| match &***pattern {
            LinePattern::Shown(shown) => shown.iter().zip(parts).all(|(own, part)| **own == *part),
            LinePattern::Words { .. } => false,
        };
        let pattern = match self.patterns.iter().find(is_it) {
            Some(known) => Arc::clone(known),
            None => self.add(LinePattern::Shown(parts.map(Into::into))),
        };
        Some(self.form(by, pattern))
    }

    fn add(&mut self, pattern: LinePattern) -> Arc<LinePattern> {
        let new = Arc::new(pattern);
        if self.patterns.len() >= MAX_PATTERNS {
            self.patterns.remove(0);
        }
        self.patterns.push(Arc::clone(&new));
        new
    }

    /// The last form, if it is that of a client with a pattern.
    fn last_form(&self, by: &ClientIdentity, pattern: &Arc<LinePattern>) -> Option<&Arc<LineForm>> {
        let is_it = |last: &&Arc<LineForm>| {
            last.client == by.id && Arc::ptr_eq(&last.pattern, pattern) && Arc::ptr_eq(&last.labels, &by.labels)
        };
        self.last.as_ref().filter(is_it)
    }

    fn form(&mut self, by: &ClientIdentity, pattern: Arc<LinePattern>) -> Arc<LineForm> {
        let place = (by.id, Arc::as_ptr(&pattern).addr());
        let known = self.forms.get(&place).filter(|known| Arc::ptr_eq(&known.labels, &by.labels)).cloned();
        let form = known.unwrap_or_else(|| {
            if self.forms.len() >= MAX_FORMS {
                self.forms.clear();
            }
            let new = Arc::new(LineForm { client: by.id, labels: Arc::clone(&by.labels), pattern });
            self.forms.insert(place, Arc::clone(&new));
            new
        });
        self.last = Some(Arc::clone(&form));
        form
    }
}

impl NotedCommand {
    pub fn client(&self) -> u64 {
        self.form.client
    }

    /// Its client, as it was then.
    pub fn by(&self, server: u16) -> ClientIdentity {
        ClientIdentity { server, id: self.form.client, seen: self.real, labels: Arc::clone(&self.form.labels) }
    }

    /// The command with its key and its value.
    pub fn source(&self, server: u16, key: &[u8], value: &[u8]) -> Arc<JournalRef> {
        Arc::new(self.by(server).source((self.seq, self.at), self.form.pattern.line(key, value)))
    }
}

impl Word {
    fn all_of(words: &[&[u8]], (key, value): (&[u8], &[u8])) -> Box<[Self]> {
        let of = |word: &&[u8]| match *word {
            word if word == key => Self::Key,
            word if word == value => Self::Value,
            word => Self::Other(word.into()),
        };
        words.iter().map(of).collect()
    }

    fn all_filled<'a>(words: &'a [Self], gaps: (&'a [u8], &'a [u8])) -> SmallVec<[&'a [u8]; 8]> {
        words.iter().map(|word| word.filled(gaps)).collect()
    }

    fn filled<'a>(&'a self, (key, value): (&'a [u8], &'a [u8])) -> &'a [u8] {
        match self {
            Self::Key => key,
            Self::Value => value,
            Self::Other(word) => word,
        }
    }
}

impl LinePattern {
    /// Whether a command has this pattern, its second word being the key, and the third one the value.
    fn is_of_words(&self, words: &[&[u8]]) -> bool {
        let Self::Shown([before, between, after]) = self else { return false };
        let mut left = after.as_bytes();
        let mut is_next = |word: &&[u8]| match left.strip_prefix(b" ").and_then(|left| left.strip_prefix(*word)) {
            Some(rest) => {
                left = rest;
                true
            }
            None => false,
        };
        before.as_bytes().strip_suffix(b" ") == Some(words[0])
            && **between == *" "
            && words[3..].iter().all(&mut is_next)
            && left.is_empty()
    }

    /// Whether a command has this pattern, and those that it ran.
    fn is_of_commands(&self, words: &[&[u8]], inside: &[NestedCommand<'_>], gaps: (&[u8], &[u8])) -> bool {
        let Self::Words { words: own, inside: own_inside } = self else { return false };
        let are_alike = |own: &[Word], words: &[&[u8]]| {
            own.len() == words.len() && own.iter().zip(words).all(|(own, word)| own.filled(gaps) == *word)
        };
        let mut left = own_inside.iter();
        are_alike(own, words)
            && inside
                .iter()
                .filter(|command| command.depth == 1)
                .all(|command| left.next().is_some_and(|own| are_alike(own, &command.words)))
            && left.next().is_none()
    }

    fn line(&self, key: &[u8], value: &[u8]) -> Arc<str> {
        match self {
            Self::Shown([before, between, after]) => {
                let text = |bytes| str::from_utf8(bytes).unwrap_or_default();
                [before, text(key), between, text(value), after].concat().into()
            }
            Self::Words { words, inside } => text_of(&Word::all_filled(words, (key, value)), |look| {
                inside.iter().for_each(|words| look(&Word::all_filled(words, (key, value))));
            }),
        }
    }
}
