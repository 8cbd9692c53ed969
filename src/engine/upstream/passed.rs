//! Commands that were passed to the server and have no reply yet.

use std::collections::VecDeque;

use super::Follows;
use crate::protocol::{OwnedWords, Words};
use crate::spec::ResolvedRow;

/// A command of which the front knows more than that it has no reply yet.
#[derive(Default)]
pub struct PassedCommand {
    pub row: Option<ResolvedRow>,
    pub words: OwnedWords,
    pub follows: Follows,
    /// When its request was handed to the connection, in microseconds since 1970.
    pub sent: i64,
    /// CLIENT REPLY has switched its reply off.
    pub has_no_reply: bool,
    /// How many replies it still has, once that is known.
    pub left: Option<usize>,
    /// A gate, a rule or the explorer has seen it: it is alone, and its reply goes through the stages.
    pub is_intercepted: bool,
    /// It has its turn on its keys until its reply.
    pub is_ordered: bool,
    /// It is alone, and what its scripts call is looked for in the feed of MONITOR.
    pub is_monitored: bool,
    /// What each of its scripts has called, once MONITOR has shown it.
    pub calls: Vec<Option<Vec<OwnedWords>>>,
}

/// What a connection has passed to the server, and has no reply to.
pub enum Waiting {
    /// So many commands, each with one reply, of which nothing else is known.
    Plain(u64),
    Command(Box<PassedCommand>),
    /// A command of the front itself, whose reply the client does not see.
    Own(Own),
}

/// What a command of the front itself is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Own {
    /// Authenticates with the user and password of the upstream's address.
    Auth,
    /// Selects the database of the upstream's address.
    Select,
    /// Spoils a transaction in which a command of the test powers was refused.
    Spoil,
    /// Ends a transaction whose EXEC was answered by a rule.
    Discard,
    /// Asks whether the server lets the client in, before a command of the test powers runs for it.
    Ping,
    /// Asks for the address under which the server shows the client in MONITOR.
    Address,
}

/// Memory of commands that are over, for the next ones. The connections of a thread share it, so that those that are idle keep
/// none.
#[derive(Default)]
#[allow(clippy::vec_box, reason = "the same boxes are in the queue of a connection")]
pub struct SpareCommands(Vec<Box<PassedCommand>>);

impl SpareCommands {
    const MOST: usize = 64;

    /// Gives back the memory of a command that is over.
    #[inline]
    pub fn give_back(&mut self, mut command: Box<PassedCommand>) {
        /// Words with more bytes than this are given back to the allocator.
        const MOST_KEPT: usize = 1024;
        command.calls = Vec::new();
        if self.0.len() < Self::MOST {
            command.words.empty(MOST_KEPT);
            self.0.push(command);
        }
    }
}

/// The commands of one connection that have no reply, in the order in which they were passed.
#[derive(Default)]
pub struct PassedQueue {
    queue: VecDeque<Waiting>,
    /// The bytes that are kept of the commands.
    kept: usize,
    /// How many of them can wait for others without end.
    blocking: usize,
}

impl PassedQueue {
    /// The most bytes that a connection keeps of its commands. What is passed beyond is not recorded.
    const MOST_KEPT: usize = 64 << 20;
    /// For how many commands an empty queue keeps room.
    const ROOM: usize = 32;

    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// When the first command was sent that has no reply, as far as that is known. One that can wait without end does not
    /// count.
    pub fn oldest_sent(&self) -> Option<i64> {
        self.queue.iter().find_map(|waiting| match waiting {
            Waiting::Command(command) if !command.follows.may_block() => Some(command.sent),
            _ => None,
        })
    }

    /// How many commands have no reply.
    pub fn len(&self) -> u64 {
        let count = |waiting: &Waiting| if let Waiting::Plain(count) = waiting { *count } else { 1 };
        self.queue.iter().map(count).sum()
    }

    /// Whether one of the commands can wait for others without end.
    pub fn may_block(&self) -> bool {
        self.blocking > 0
    }

    /// Whether the words of another command can be kept.
    #[inline]
    pub fn has_room(&self) -> bool {
        self.kept < Self::MOST_KEPT
    }

    #[inline]
    pub fn push_plain(&mut self) {
        match self.queue.back_mut() {
            Some(Waiting::Plain(count)) => *count += 1,
            _ => self.queue.push_back(Waiting::Plain(1)),
        }
    }

    pub fn push_own(&mut self, own: Own) {
        self.queue.push_back(Waiting::Own(own));
    }

    /// Adds a command whose words are kept.
    pub fn push(&mut self, words: Words<'_>, spare: &mut SpareCommands, describe: impl FnOnce(&mut PassedCommand)) {
        let mut command = spare.0.pop().unwrap_or_default();
        command.words.fill(words);
        command.has_no_reply = false;
        describe(&mut command);
        command.left = if command.has_no_reply { Some(0) } else { command.follows.replies(words.len()) };
        self.kept += size_of(&command);
        self.blocking += usize::from(command.follows.may_block());
        self.queue.push_back(Waiting::Command(command));
    }

    #[inline]
    pub fn front_mut(&mut self) -> Option<&mut Waiting> {
        self.queue.front_mut()
    }

    /// The first command has its reply.
    pub fn pop(&mut self) -> Option<Waiting> {
        let first = self.queue.pop_front();
        if let Some(Waiting::Command(command)) = &first {
            self.kept -= size_of(command);
            self.blocking -= usize::from(command.follows.may_block());
        }
        if self.queue.is_empty() && self.queue.capacity() > Self::ROOM {
            self.queue = VecDeque::new();
        }
        first
    }
}

/// The memory of a command that is kept.
fn size_of(command: &PassedCommand) -> usize {
    size_of_val(command) + command.words.size()
}
