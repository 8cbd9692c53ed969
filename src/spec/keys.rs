//! Where the keys of a command stand among its words.

use smallvec::SmallVec;

use crate::resp::{Words, parse_integer};

/// One group of keys, in the terms of Redis's key specifications.
#[derive(Clone, Copy, Debug)]
pub struct KeySpec {
    /// How the command uses these keys: `RW`, `access`, `insert` and so on, as COMMAND INFO lists them.
    pub flags: &'static [&'static str],
    pub notes: &'static str,
    pub begin: Begin,
    pub find: Find,
}

/// Where the group begins.
#[derive(Clone, Copy, Debug)]
pub enum Begin {
    Index(u8),
}

/// How the keys go on from there.
#[derive(Clone, Copy, Debug)]
pub enum Find {
    /// Up to `last` (from the beginning; negative: from the end of the request), every `step`th word.
    Range { last: i8, step: u8 },
    /// A word says how many keys there are. Positions are relative to the beginning.
    Count { count: u8, first: u8, step: u8 },
}

impl KeySpec {
    /// One key.
    pub const fn one(index: u8, flags: &'static [&'static str]) -> Self {
        Self::range(index, 0, 1, flags)
    }

    pub const fn range(index: u8, last: i8, step: u8, flags: &'static [&'static str]) -> Self {
        Self { flags, notes: "", begin: Begin::Index(index), find: Find::Range { last, step } }
    }

    pub const fn counted(index: u8, first: u8, step: u8, flags: &'static [&'static str]) -> Self {
        Self { flags, notes: "", begin: Begin::Index(index), find: Find::Count { count: 0, first, step } }
    }

    pub const fn with_notes(mut self, notes: &'static str) -> Self {
        self.notes = notes;
        self
    }

    /// The position of the key, if this group is always exactly one key at a fixed place.
    #[inline]
    pub fn only(&self) -> Option<usize> {
        match (self.begin, self.find) {
            (Begin::Index(index), Find::Range { last: 0, .. }) => Some(usize::from(index)),
            _ => None,
        }
    }

    /// The positions of the keys in a request. `None` when the request is too malformed to tell.
    pub fn positions(&self, words: Words<'_>) -> Option<SmallVec<[usize; 4]>> {
        let Begin::Index(begin) = self.begin;
        let begin = usize::from(begin);
        let mut positions = SmallVec::new();
        match self.find {
            Find::Range { last, step } => {
                let last = if last >= 0 {
                    begin + usize::from(last.unsigned_abs())
                } else {
                    words.len().checked_sub(usize::from(last.unsigned_abs()))?
                };
                if begin > last || last >= words.len() {
                    return None;
                }
                positions.extend((begin..=last).step_by(usize::from(step)));
            }
            Find::Count { count, first, step } => {
                let number = words.get(begin + usize::from(count)).and_then(parse_integer)?;
                let number = usize::try_from(number).ok().filter(|number| (1..=words.len()).contains(number))?;
                let first = begin + usize::from(first);
                let last = first + (number - 1) * usize::from(step);
                if last >= words.len() {
                    return None;
                }
                positions.extend((first..=last).step_by(usize::from(step)));
            }
        }
        Some(positions)
    }
}
