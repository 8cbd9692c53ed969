//! Logs of notable commands: SLOWLOG, and what COMMANDLOG of Valkey adds to it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

use crate::base::sync::MutexExt;
use crate::protocol::{OwnedWords, Words};

/// The most words of an entry. The last one tells how many more there were.
pub const MOST_WORDS: usize = 32;
/// The most bytes of a word. Behind them stands how many more there were.
const LONGEST_WORD: usize = 128;

/// A command in a log.
pub struct LoggedCommand {
    pub id: u64,
    /// When it was logged, in seconds since 1970.
    pub time: i64,
    /// What made it notable: for the slow log, how many microseconds it took.
    pub value: i64,
    pub words: OwnedWords,
    pub address: String,
    pub name: Vec<u8>,
}

/// A log of commands, of which it keeps the newest.
#[derive(Default)]
pub struct CommandLog {
    entries: Mutex<Entries>,
    len: AtomicUsize,
}

#[derive(Default)]
struct Entries {
    next: u64,
    /// The newest first.
    newest_first: VecDeque<LoggedCommand>,
}

impl CommandLog {
    /// Adds a command, and removes the oldest ones beyond `most`. The log sets the entry's id.
    pub fn add(&self, entry: LoggedCommand, most: usize) {
        let mut entries = self.entries();
        let id = entries.next;
        entries.next += 1;
        entries.newest_first.push_front(LoggedCommand { id, ..entry });
        entries.newest_first.truncate(most);
        self.len.store(entries.newest_first.len(), Ordering::Relaxed);
    }

    /// Calls `visit` with the newest entries, newest first.
    pub fn for_each(&self, most: usize, visit: impl FnMut(&LoggedCommand)) {
        self.entries().newest_first.iter().take(most).for_each(visit);
    }

    pub fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// Removes all entries. Ids go on.
    pub fn clear(&self) {
        self.entries().newest_first.clear();
        self.len.store(0, Ordering::Relaxed);
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock_ignoring_poison()
    }
}

/// The words of a request as a log keeps them: no more than 32 words of 128 bytes. `all` is how many it has; of more than a log keeps,
/// the last ones may be missing.
pub fn trimmed(words: Words<'_>, all: usize) -> OwnedWords {
    let mut kept = OwnedWords::default();
    let shown = if all > MOST_WORDS { MOST_WORDS - 1 } else { all };
    for word in words.iter().take(shown) {
        match word.get(..LONGEST_WORD).filter(|_| word.len() > LONGEST_WORD) {
            None => kept.push(word),
            Some(start) => {
                let more = format!("... ({} more bytes)", word.len() - LONGEST_WORD);
                kept.push(&[start, more.as_bytes()].concat());
            }
        }
    }
    if all > shown {
        kept.push(format!("... ({} more arguments)", all - shown).as_bytes());
    }
    kept
}
