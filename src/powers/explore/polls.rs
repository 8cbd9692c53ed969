//! Commands that a client repeats until they succeed, as it does while it waits for a lock.
//!
//! As long as nothing has changed, one more repetition leads to nothing new, and there is no end to them.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::footprint::Footprint;
use super::run::RacingCommand;

/// The most different commands of a client that are remembered.
const MOST_ATTEMPTS: usize = 64;

/// The commands of one client that have changed nothing since anything changed on their keys.
#[derive(Default)]
pub struct Polls {
    attempts: Vec<Attempt>,
    /// The command that runs.
    current: Option<(Attempt, bool)>,
}

#[derive(Clone)]
struct Attempt {
    /// Of the command and its key. What is different in each attempt, such as a token, does not count.
    hash: u64,
    footprint: Footprint,
    count: u32,
}

impl Polls {
    /// Whether a command was refused more often than it may be repeated.
    pub fn is_in_vain(&self, command: &RacingCommand, most: u32) -> bool {
        let hash = hash_of(command);
        self.attempts.iter().any(|attempt| attempt.hash == hash && attempt.count > most)
    }

    /// A command begins to run.
    pub fn begin(&mut self, command: &RacingCommand) {
        let attempt = Attempt { hash: hash_of(command), footprint: command.footprint.clone(), count: 1 };
        self.current = Some((attempt, command.writes));
    }

    /// It has this reply. Returns whether it may have changed something.
    pub fn end(&mut self, reply: &[u8]) -> bool {
        let Some((attempt, writes)) = self.current.take() else { return false };
        if writes && !is_refusal(reply) {
            return true;
        }
        if let Some(known) = self.attempts.iter_mut().find(|known| known.hash == attempt.hash) {
            known.count = known.count.saturating_add(1);
        } else if self.attempts.len() < MOST_ATTEMPTS {
            self.attempts.push(attempt);
        }
        false
    }

    /// Something has changed on these keys.
    pub fn forget_what_conflicts(&mut self, footprint: &Footprint) {
        self.attempts.retain(|attempt| attempt.footprint.commutes_with(footprint));
    }
}

fn hash_of(command: &RacingCommand) -> u64 {
    let words = &command.parked.words;
    let mut hasher = DefaultHasher::new();
    command.name.hash(&mut hasher);
    words.get(1).hash(&mut hasher);
    // A script or a function has its first key here.
    if command.name.starts_with("EVAL") || command.name.starts_with("FCALL") {
        words.get(3).hash(&mut hasher);
    }
    hasher.finish()
}

/// Whether a reply says that nothing was done: nil, 0, false, nothing, or an error.
fn is_refusal(reply: &[u8]) -> bool {
    let refusals: [&[u8]; 8] =
        [b"$-1\r\n", b"*-1\r\n", b"_\r\n", b":0\r\n", b"#f\r\n", b"*0\r\n", b"%0\r\n", b"~0\r\n"];
    reply.first() == Some(&b'-') || refusals.contains(&reply)
}
