//! Where the keys of a command stand among its words.

use smallvec::SmallVec;

use crate::protocol::{Words, parse_integer};

/// One group of keys, in the terms of Redis's key specifications.
#[derive(Clone, Copy, Debug)]
pub struct KeySpec {
    /// How the command uses these keys: `RW`, `access`, `insert` and so on, as COMMAND INFO lists them.
    pub flags: &'static [&'static str],
    pub notes: &'static str,
    pub begin_search: BeginSearch,
    pub find_keys: FindKeys,
    /// For commands whose options decide how they use these keys: the flags that a request really means.
    pub flags_by: Option<fn(Words<'_>) -> &'static [&'static str]>,
}

/// Where the group begins.
#[derive(Clone, Copy, Debug)]
pub enum BeginSearch {
    Index(u8),
    /// There is no telling but by looking through a request.
    Unknown,
    /// Behind the first such word at or behind a position.
    Keyword {
        word: &'static str,
        from: u8,
    },
}

/// How the keys go on from there.
#[derive(Clone, Copy, Debug)]
pub enum FindKeys {
    /// Up to `last` (from the beginning; negative: from the end of the request), every `step`th word.
    Range { last: i8, step: u8 },
    /// One of so many equal parts of what is left of the request.
    LimitedRange { limit: u8 },
    /// A word says how many keys there are. Positions are relative to the beginning.
    KeyNum { index: u8, first: u8, step: u8 },
    /// A function finds them.
    Function(fn(Words<'_>) -> SmallVec<[usize; 4]>),
    /// They stand nowhere, as their names are made while the command runs. The function tells whether there are any.
    Computed(fn(Words<'_>) -> bool),
}

impl KeySpec {
    /// One key.
    pub const fn one(index: u8, flags: &'static [&'static str]) -> Self {
        Self::range(index, 0, 1, flags)
    }

    pub const fn range(index: u8, last: i8, step: u8, flags: &'static [&'static str]) -> Self {
        Self {
            flags,
            notes: "",
            begin_search: BeginSearch::Index(index),
            find_keys: FindKeys::Range { last, step },
            flags_by: None,
        }
    }

    pub const fn counted(index: u8, first: u8, step: u8, flags: &'static [&'static str]) -> Self {
        let find_keys = FindKeys::KeyNum { index: 0, first, step };
        Self { flags, notes: "", begin_search: BeginSearch::Index(index), find_keys, flags_by: None }
    }

    /// Keys that only a function finds.
    pub const fn found_by(function: fn(Words<'_>) -> SmallVec<[usize; 4]>, flags: &'static [&'static str]) -> Self {
        Self {
            flags,
            notes: "",
            begin_search: BeginSearch::Unknown,
            find_keys: FindKeys::Function(function),
            flags_by: None,
        }
    }

    /// Keys whose names are made while the command runs.
    pub const fn computed(are_computed: fn(Words<'_>) -> bool, flags: &'static [&'static str]) -> Self {
        Self {
            flags,
            notes: "",
            begin_search: BeginSearch::Unknown,
            find_keys: FindKeys::Computed(are_computed),
            flags_by: None,
        }
    }

    /// The key behind a word that stands at or behind a position, if it is there.
    pub const fn after_keyword(word: &'static str, from: u8, flags: &'static [&'static str]) -> Self {
        Self { begin_search: BeginSearch::Keyword { word, from }, ..Self::one(0, flags) }
    }

    /// The first half of what stands behind a word.
    pub const fn half_after_keyword(word: &'static str, from: u8, flags: &'static [&'static str]) -> Self {
        Self {
            flags,
            notes: "",
            begin_search: BeginSearch::Keyword { word, from },
            find_keys: FindKeys::LimitedRange { limit: 2 },
            flags_by: None,
        }
    }

    /// Whether a request uses keys of this group that do not stand in it.
    pub fn are_computed(&self, words: Words<'_>) -> bool {
        matches!(self.find_keys, FindKeys::Computed(are_computed) if are_computed(words))
    }

    pub const fn with_notes(mut self, notes: &'static str) -> Self {
        self.notes = notes;
        self
    }

    /// For commands whose options decide how they use the keys.
    pub const fn with_flags_by(mut self, flags_by: fn(Words<'_>) -> &'static [&'static str]) -> Self {
        self.flags_by = Some(flags_by);
        self
    }

    /// Whether these are keys at all, and not the shard channels that a cluster finds in the same way.
    pub fn are_keys(&self) -> bool {
        !self.flags.contains(&"not_key")
    }

    /// How a request uses the keys. What only describes the specification is left out.
    pub fn flags_of(&self, words: Words<'_>) -> Vec<&'static str> {
        let flags = self.flags_by.map_or(self.flags, |flags_by| flags_by(words));
        flags.iter().copied().filter(|flag| !matches!(*flag, "variable_flags" | "incomplete")).collect()
    }

    /// Whether a word at this position, in a request long enough, is one of these keys.
    pub fn covers(&self, position: usize) -> bool {
        let BeginSearch::Index(begin) = self.begin_search else { return false };
        let begin = usize::from(begin);
        let (first, last, step) = match self.find_keys {
            FindKeys::LimitedRange { .. } => (begin, usize::MAX, 1),
            FindKeys::Function(_) | FindKeys::Computed(_) => return false,
            FindKeys::Range { last, step } => {
                let last = if last >= 0 { begin + usize::from(last.unsigned_abs()) } else { usize::MAX };
                (begin, last, step)
            }
            FindKeys::KeyNum { first, step, .. } => (begin + usize::from(first), usize::MAX, step),
        };
        (first..=last).contains(&position) && (position - first).is_multiple_of(usize::from(step.max(1)))
    }

    /// The position of the key, if this group is always exactly one key at a fixed place.
    #[inline]
    pub fn single_position(&self) -> Option<usize> {
        match (self.begin_search, self.find_keys) {
            (BeginSearch::Index(index), FindKeys::Range { last: 0, .. }) => Some(usize::from(index)),
            _ => None,
        }
    }

    /// The positions of the keys in a request. `None` when the request is too malformed to tell.
    pub fn positions(&self, words: Words<'_>) -> Option<SmallVec<[usize; 4]>> {
        match self.begin_search {
            BeginSearch::Index(begin) => self.positions_from(usize::from(begin), words),
            BeginSearch::Unknown => self.positions_from(0, words),
            BeginSearch::Keyword { word, from } => match after_word(word, from, words).next() {
                Some(begin) => self.positions_from(begin, words),
                None => Some(SmallVec::new()),
            },
        }
    }

    /// As [`positions`](Self::positions), with all words that the command may come to take for such keys: a keyword may
    /// stand there twice, and then the last one counts for the command, but the first one for those who look for keys.
    pub fn positions_to_lock(&self, words: Words<'_>) -> Option<SmallVec<[usize; 4]>> {
        match self.begin_search {
            BeginSearch::Index(_) | BeginSearch::Unknown => self.positions(words),
            BeginSearch::Keyword { word, from } => Some(
                after_word(word, from, words).filter_map(|begin| self.positions_from(begin, words)).flatten().collect(),
            ),
        }
    }

    fn positions_from(&self, begin: usize, words: Words<'_>) -> Option<SmallVec<[usize; 4]>> {
        let mut positions = SmallVec::new();
        match self.find_keys {
            FindKeys::Function(function) => return Some(function(words)),
            FindKeys::Computed(_) => {}
            FindKeys::LimitedRange { limit } => {
                let count = words.len().checked_sub(begin)? / usize::from(limit.max(1));
                if count == 0 {
                    return None;
                }
                positions.extend(begin..begin + count);
            }
            FindKeys::Range { last, step } => {
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
            FindKeys::KeyNum { index, first, step } => {
                let number = words.get(begin + usize::from(index)).and_then(parse_integer)?;
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

/// The positions behind a keyword, wherever it stands from a position on.
fn after_word(word: &'static str, from: u8, words: Words<'_>) -> impl Iterator<Item = usize> {
    let is_word = move |at: &usize| words.get(*at).is_some_and(|found| found.eq_ignore_ascii_case(word.as_bytes()));
    (usize::from(from)..words.len().saturating_sub(1)).filter(is_word).map(|at| at + 1)
}
