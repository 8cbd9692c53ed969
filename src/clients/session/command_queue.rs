//! The commands that a transaction has queued.

use super::Session;
use crate::protocol::{OwnedWords, Words};
use crate::spec::ResolvedRow;

/// The commands queued for EXEC, oldest first, in one buffer: with buffers of its own for each command, most of the time that a
/// short transaction takes would go into getting and freeing them.
#[derive(Default)]
pub struct CommandQueue {
    words: OwnedWords,
    commands: Vec<Place>,
    /// One of the commands needs the interpreters of scripts.
    needs_scripts: bool,
}

/// A command's row, and the place of its words among all.
#[derive(Clone, Copy)]
struct Place {
    row: ResolvedRow,
    start: usize,
    end: usize,
}

/// A command that is queued for EXEC. Its options are parsed when it runs.
#[derive(Clone, Copy)]
pub struct Queued<'q> {
    pub row: ResolvedRow,
    pub words: Words<'q>,
}

impl CommandQueue {
    const EMPTY: &Self =
        &Self { words: OwnedWords::new(Vec::new(), Vec::new()), commands: Vec::new(), needs_scripts: false };

    /// The most bytes of words that a queue's memory is kept for, when its commands have run.
    const KEPT: usize = 512;

    pub fn push(&mut self, row: ResolvedRow, words: Words<'_>) {
        let start = self.words.as_words().len();
        self.words.append(words);
        self.commands.push(Place { row, start, end: start + words.len() });
        self.needs_scripts |= row.spec.needs_scripts();
    }

    pub fn len(&self) -> usize {
        self.commands.len()
    }

    /// Whether one of the commands needs the interpreters of scripts.
    #[inline]
    pub fn needs_scripts(&self) -> bool {
        self.needs_scripts
    }

    /// The size in bytes, for limits and CLIENT LIST.
    pub fn size(&self) -> usize {
        self.words.size()
    }

    pub fn iter(&self) -> impl Iterator<Item = Queued<'_>> + Clone {
        let words = self.words.as_words();
        self.commands
            .iter()
            .map(move |place| Queued { row: place.row, words: words.first(place.end).from(place.start) })
    }

    /// The memory of the queue for the next one, unless it is large.
    pub fn recycled(mut self) -> Option<Self> {
        if self.size() > Self::KEPT {
            return None;
        }
        self.words.clear();
        self.commands.clear();
        self.needs_scripts = false;
        Some(self)
    }
}

impl Session {
    /// The commands queued for EXEC; none without a transaction.
    #[inline]
    pub fn queued(&self) -> impl Iterator<Item = Queued<'_>> + Clone {
        self.transaction.as_ref().map_or(CommandQueue::EMPTY, |transaction| &transaction.queue).iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{CommandSpec, RowId};

    const ROW: ResolvedRow = ResolvedRow { spec: &CommandSpec::new("SET"), id: RowId::NONE, at: 1 };

    fn queue_of(commands: &[&[&str]]) -> CommandQueue {
        let mut queue = CommandQueue::default();
        commands.iter().for_each(|words| queue.push(ROW, words.iter().collect::<OwnedWords>().as_words()));
        queue
    }

    #[test]
    fn commands_come_out_as_they_went_in() {
        let commands: &[&[&str]] = &[&["SET", "key", ""], &["PING"], &["MSET", "a", "1", "b", "2"]];
        let queue = queue_of(commands);
        let queued: Vec<Vec<&[u8]>> = queue.iter().map(|queued| queued.words.iter().collect()).collect();
        let expected: Vec<Vec<&[u8]>> =
            commands.iter().map(|words| words.iter().map(|word| word.as_bytes()).collect()).collect();
        assert_eq!(queued, expected);
        assert_eq!(queue.size(), queue.iter().map(|queued| queued.words.into_owned().size()).sum::<usize>());
    }

    #[test]
    fn the_memory_of_a_short_queue_is_used_again_and_that_of_a_long_one_freed() {
        let recycled = queue_of(&[&["SET", "key", "value"]]).recycled().unwrap();
        assert_eq!((recycled.len(), recycled.size(), recycled.iter().count()), (0, 0, 0));
        assert!(queue_of(&[&["SET", "key", &"x".repeat(2000)]]).recycled().is_none());
    }
}
