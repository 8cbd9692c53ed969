//! What a replica keeps of the past, so that a failover can lose changes that it has already.

use crate::base::error::CommandError;
use crate::protocol::{Framer, Limits, Words, write_request};

/// So many bytes of changes can be taken back at least, also right after all data were copied.
const LEAST: usize = 1 << 20;

/// All data are copied again after so many bytes of changes, or after so many times as much as the copy takes if that is more:
/// a copy costs each change little.
const MOST: usize = 16 << 20;
const TIMES: usize = 4;

const OF_MASTER: Limits = Limits { bulk: i64::MAX, authenticated: true };

/// All data at a place of the stream, and what has run since.
pub(super) struct Checkpoint {
    snapshot: Vec<u8>,
    offset: u64,
    selected: u32,
    log: Vec<u8>,
}

/// The last two checkpoints: the log of the older one ends where the newer one begins.
#[derive(Default)]
pub(super) struct Past {
    older: Option<Checkpoint>,
    newer: Option<Checkpoint>,
}

/// What to load, and to run behind it, to be where a replica was before its last changes.
pub struct Rewound {
    pub snapshot: Vec<u8>,
    pub selected: u32,
    /// Without messages: their subscribers have them.
    pub log: Vec<u8>,
    /// The place in the stream behind it.
    pub offset: u64,
}

impl Past {
    pub(super) fn is_empty(&self) -> bool {
        self.newer.is_none()
    }

    /// All data as they are now.
    pub(super) fn add(&mut self, snapshot: Vec<u8>, offset: u64, selected: u32) {
        self.older = self.newer.replace(Checkpoint { snapshot, offset, selected, log: Vec::new() });
    }

    /// A part of the stream has run.
    pub(super) fn note(&mut self, bytes: &[u8]) {
        if let Some(newer) = &mut self.newer {
            newer.log.extend_from_slice(bytes);
            if newer.log.len() >= LEAST {
                self.older = None;
            }
        }
    }

    /// Whether all data are to be copied again.
    pub(super) fn is_long(&self) -> bool {
        self.newer.as_ref().is_some_and(|newer| newer.log.len() > MOST.max(newer.snapshot.len() * TIMES))
    }

    /// The past before the last so many changes.
    pub(super) fn before_last(&self, changes: u64) -> Result<Rewound, CommandError> {
        let mut known = 0;
        for (first, second) in [(&self.newer, &None), (&self.older, &self.newer)] {
            let Some(first) = first else { continue };
            let mut log = first.log.clone();
            log.extend_from_slice(second.as_ref().map_or(&[], |second: &Checkpoint| &second.log));
            let begins = beginnings(&log);
            known = begins.len() as u64;
            if known >= changes {
                let end = usize::try_from(known - changes).ok().and_then(|place| begins.get(place)).copied();
                log.truncate(end.unwrap_or(log.len()));
                let offset = first.offset + log.len() as u64;
                let log = without_messages(&log);
                return Ok(Rewound { snapshot: first.snapshot.clone(), selected: first.selected, log, offset });
            }
        }
        Err(CommandError::new(format!("ERR only the last {known} changes of the replica can be taken back")))
    }
}

/// Visits each request of a part of a stream, with its place.
pub fn each_request(stream: &[u8], mut visit: impl FnMut(usize, Words<'_>)) {
    let (mut framer, mut at) = (Framer::default(), 0);
    while let Ok(Some(request)) = framer.next(&stream[at..], OF_MASTER) {
        visit(at, framer.words(request, &stream[at..]));
        framer.forget();
        at += request.length();
    }
}

fn is_one_of(words: Words<'_>, names: &[&[u8]]) -> bool {
    words.get(0).is_some_and(|name| names.iter().any(|other| name.eq_ignore_ascii_case(other)))
}

/// How many changes are in a part of a stream.
pub fn count_changes(stream: &[u8]) -> u64 {
    beginnings(stream).len() as u64
}

/// Where each change in a part of a stream begins. A transaction is one.
fn beginnings(stream: &[u8]) -> Vec<usize> {
    let (mut begins, mut is_inside) = (Vec::new(), false);
    each_request(stream, |at, words| {
        if is_one_of(words, &[b"EXEC"]) {
            is_inside = false;
        } else if !is_inside && !is_one_of(words, &[b"SELECT", b"PING", b"REPLCONF", b"PUBLISH", b"SPUBLISH"]) {
            begins.push(at);
            is_inside = is_one_of(words, &[b"MULTI"]);
        }
    });
    begins
}

fn without_messages(stream: &[u8]) -> Vec<u8> {
    let mut rest = Vec::new();
    each_request(stream, |_, words| {
        if !is_one_of(words, &[b"PUBLISH", b"SPUBLISH"]) {
            write_request(&mut rest, words.iter());
        }
    });
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(lines: &[&str]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for line in lines {
            let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            write_request(&mut bytes, words.into_iter());
        }
        bytes
    }

    #[test]
    fn a_transaction_is_one_change_and_what_changes_nothing_is_none() {
        let lines = ["SELECT 0", "SET a 1", "ping", "MULTI", "SET b 1", "PUBLISH c x", "EXEC", "SELECT 3", "DEL d"];
        let mut past = Past::default();
        past.add(b"data".to_vec(), 100, 0);
        past.note(&stream(&lines));
        let rewound = past.before_last(1).expect("three are known");
        assert_eq!(rewound.log, stream(&["SELECT 0", "SET a 1", "ping", "MULTI", "SET b 1", "EXEC", "SELECT 3"]));
        assert_eq!(rewound.offset, 100 + stream(&lines[..8]).len() as u64);
        assert_eq!(past.before_last(3).expect("three are known").log, stream(&["SELECT 0"]));
        let refused = past.before_last(4).err().expect("there are only three");
        assert_eq!(refused.line(), b"ERR only the last 3 changes of the replica can be taken back");
    }

    #[test]
    fn changes_in_front_of_the_last_copy_can_be_taken_back_too() {
        let mut past = Past::default();
        past.add(b"old".to_vec(), 0, 0);
        past.note(&stream(&["SET a 1", "SET b 1"]));
        past.add(b"new".to_vec(), 54, 0);
        past.note(&stream(&["SET c 1"]));
        assert_eq!(past.before_last(1).expect("one").snapshot, b"new");
        let rewound = past.before_last(2).expect("two");
        assert_eq!((rewound.snapshot, rewound.log), (b"old".to_vec(), stream(&["SET a 1"])));
    }
}
