//! Key specifications: where the keys stand in a request. The terms are Redis's (`begin_search`, `find_keys`).

use std::iter::StepBy;
use std::ops::Range;

use smallvec::SmallVec;

use super::command_spec::in_release;
use crate::base::profile::{Profile, Since};
use crate::protocol::{Words, parse_integer};

/// One group of keys of a command.
#[derive(Clone, Copy, Debug)]
pub struct KeySpec {
    /// How the command uses these keys (`RW`, `access`, `insert` …), as COMMAND INFO lists it.
    pub flags: &'static [&'static str],
    /// The flags from a later release on.
    pub later_flags: &'static [(Since, &'static [&'static str])],
    pub notes: &'static str,
    pub begin_search: BeginSearch,
    pub find_keys: FindKeys,
    /// The flags of one request, for commands whose options decide how they use the keys.
    pub flags_by: Option<fn(Words<'_>) -> &'static [&'static str]>,
}

/// How to find the beginning of the group.
#[derive(Clone, Copy, Debug)]
pub enum BeginSearch {
    Index(u8),
    /// Only a search through the request finds the keys.
    Unknown,
    /// After the first occurrence of a word at or after position `from`.
    Keyword {
        word: &'static str,
        from: u8,
    },
}

/// How to find the keys, counted from the beginning of the group.
#[derive(Clone, Copy, Debug)]
pub enum FindKeys {
    /// Every `step`th word up to `last`. A negative `last` counts from the end of the request.
    Range { last: i8, step: u8 },
    /// The first `1/limit` of the words that are left (Redis: a range with a limit).
    LimitedRange { limit: u8 },
    /// The word at `index` is the number of keys. Positions are relative to the beginning of the group.
    KeyNum { index: u8, first: u8, step: u8 },
    /// A function finds the positions of the keys.
    Function(fn(Words<'_>) -> SmallVec<[usize; 4]>),
    /// The keys are not in the request: the command computes their names. The function says whether a request has any.
    Computed(fn(Words<'_>) -> bool),
}

/// The positions of keys in a request.
pub enum Positions {
    /// There may be millions.
    Stepped(StepBy<Range<usize>>),
    Listed(smallvec::IntoIter<[usize; 4]>),
}

impl KeySpec {
    /// One key.
    pub const fn one(index: u8, flags: &'static [&'static str]) -> Self {
        Self::range(index, 0, 1, flags)
    }

    pub const fn range(index: u8, last: i8, step: u8, flags: &'static [&'static str]) -> Self {
        Self {
            flags,
            later_flags: &[],
            notes: "",
            begin_search: BeginSearch::Index(index),
            find_keys: FindKeys::Range { last, step },
            flags_by: None,
        }
    }

    pub const fn counted(index: u8, first: u8, step: u8, flags: &'static [&'static str]) -> Self {
        let find_keys = FindKeys::KeyNum { index: 0, first, step };
        Self { flags, later_flags: &[], notes: "", begin_search: BeginSearch::Index(index), find_keys, flags_by: None }
    }

    /// Keys that a function finds.
    pub const fn found_by(function: fn(Words<'_>) -> SmallVec<[usize; 4]>, flags: &'static [&'static str]) -> Self {
        Self {
            flags,
            later_flags: &[],
            notes: "",
            begin_search: BeginSearch::Unknown,
            find_keys: FindKeys::Function(function),
            flags_by: None,
        }
    }

    /// Keys whose names the command computes.
    pub const fn computed(are_computed: fn(Words<'_>) -> bool, flags: &'static [&'static str]) -> Self {
        Self {
            flags,
            later_flags: &[],
            notes: "",
            begin_search: BeginSearch::Unknown,
            find_keys: FindKeys::Computed(are_computed),
            flags_by: None,
        }
    }

    /// The key after a keyword at or after position `from`. The keyword may be absent.
    pub const fn after_keyword(word: &'static str, from: u8, flags: &'static [&'static str]) -> Self {
        Self { begin_search: BeginSearch::Keyword { word, from }, ..Self::one(0, flags) }
    }

    /// The first half of the words after a keyword.
    pub const fn half_after_keyword(word: &'static str, from: u8, flags: &'static [&'static str]) -> Self {
        Self {
            flags,
            later_flags: &[],
            notes: "",
            begin_search: BeginSearch::Keyword { word, from },
            find_keys: FindKeys::LimitedRange { limit: 2 },
            flags_by: None,
        }
    }

    /// Whether a request uses keys of this group that are not in the request.
    pub fn are_computed(&self, words: Words<'_>) -> bool {
        matches!(self.find_keys, FindKeys::Computed(are_computed) if are_computed(words))
    }

    pub const fn with_notes(mut self, notes: &'static str) -> Self {
        self.notes = notes;
        self
    }

    /// Gives other flags to later releases.
    pub const fn with_later_flags(mut self, later: &'static [(Since, &'static [&'static str])]) -> Self {
        self.later_flags = later;
        self
    }

    /// Lets a function choose the flags for each request.
    pub const fn with_flags_by(mut self, flags_by: fn(Words<'_>) -> &'static [&'static str]) -> Self {
        self.flags_by = Some(flags_by);
        self
    }

    /// The flags in the release that a profile imitates.
    pub fn flags_in(&self, profile: &Profile) -> &'static [&'static str] {
        in_release(self.flags, self.later_flags, profile)
    }

    /// Whether these are keys. Shard channels have a specification too.
    pub fn are_keys(&self) -> bool {
        !self.flags.contains(&"not_key")
    }

    /// How a request uses the keys: the flags without those that only describe the specification.
    pub fn flags_of(&self, words: Words<'_>, profile: &Profile) -> Vec<&'static str> {
        let flags = self.flags_by.map_or_else(|| self.flags_in(profile), |flags_by| flags_by(words));
        flags.iter().copied().filter(|flag| !matches!(*flag, "variable_flags" | "incomplete")).collect()
    }

    /// Whether the word at this position is one of these keys, if the request is long enough.
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

    /// The position of the key, if this group is always one key at a fixed position.
    #[inline]
    pub fn single_position(&self) -> Option<usize> {
        match (self.begin_search, self.find_keys) {
            (BeginSearch::Index(index), FindKeys::Range { last: 0, .. }) => Some(usize::from(index)),
            _ => None,
        }
    }

    /// Where the only key of this group stands, if that is easily told, as for most requests.
    #[inline]
    pub fn only_position(&self, words: &[&[u8]]) -> Option<usize> {
        match (self.begin_search, self.find_keys) {
            (BeginSearch::Index(1), FindKeys::Range { last: 0, .. }) if words.len() >= 2 => Some(1),
            (BeginSearch::Index(1), FindKeys::Range { last: -1, .. }) if words.len() == 2 => Some(1),
            (BeginSearch::Index(begin), FindKeys::KeyNum { index: 0, first, .. }) => {
                let (count, key) = (usize::from(begin), usize::from(begin) + usize::from(first));
                (words.get(count) == Some(&&b"1"[..]) && key < words.len()).then_some(key)
            }
            _ => None,
        }
    }

    /// The positions of the keys in a request. `None` for a malformed request.
    pub fn positions(&self, words: Words<'_>) -> Option<Positions> {
        match self.begin_search {
            BeginSearch::Index(begin) => self.positions_from(usize::from(begin), words),
            BeginSearch::Unknown => self.positions_from(0, words),
            BeginSearch::Keyword { word, from } => match after_word(word, from, words).next() {
                Some(begin) => self.positions_from(begin, words),
                None => Some(Positions::none()),
            },
        }
    }

    /// The positions of all words that the command may use as keys of this group. They differ from
    /// [`positions`](Self::positions) if a keyword is repeated: the command uses the last occurrence, but COMMAND
    /// GETKEYS reports the first.
    pub fn positions_to_lock(&self, words: Words<'_>) -> Option<Positions> {
        match self.begin_search {
            BeginSearch::Index(_) | BeginSearch::Unknown => self.positions(words),
            BeginSearch::Keyword { word, from } => {
                let found = after_word(word, from, words).filter_map(|begin| self.positions_from(begin, words));
                Some(Positions::Listed(found.flatten().collect::<SmallVec<_>>().into_iter()))
            }
        }
    }

    fn positions_from(&self, begin: usize, words: Words<'_>) -> Option<Positions> {
        Some(match self.find_keys {
            FindKeys::Function(function) => Positions::Listed(function(words).into_iter()),
            FindKeys::Computed(_) => Positions::none(),
            FindKeys::LimitedRange { limit } => {
                let count = words.len().checked_sub(begin)? / usize::from(limit.max(1));
                if count == 0 {
                    return None;
                }
                Positions::Stepped((begin..begin + count).step_by(1))
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
                Positions::Stepped((begin..last + 1).step_by(usize::from(step)))
            }
            FindKeys::KeyNum { index, first, step } => {
                let number = words.get(begin + usize::from(index)).and_then(parse_integer)?;
                let number = usize::try_from(number).ok().filter(|number| (1..=words.len()).contains(number))?;
                let first = begin + usize::from(first);
                let last = first + (number - 1) * usize::from(step);
                if last >= words.len() {
                    return None;
                }
                Positions::Stepped((first..last + 1).step_by(usize::from(step)))
            }
        })
    }
}

impl Positions {
    fn none() -> Self {
        Self::Stepped((0..0).step_by(1))
    }
}

impl Iterator for Positions {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        match self {
            Self::Stepped(positions) => positions.next(),
            Self::Listed(positions) => positions.next(),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match self {
            Self::Stepped(positions) => positions.size_hint(),
            Self::Listed(positions) => positions.size_hint(),
        }
    }
}

impl ExactSizeIterator for Positions {}

/// The position after each occurrence of a word, from a position on.
fn after_word(word: &'static str, from: u8, words: Words<'_>) -> impl Iterator<Item = usize> {
    let is_word = move |at: &usize| words.get(*at).is_some_and(|found| found.eq_ignore_ascii_case(word.as_bytes()));
    (usize::from(from)..words.len().saturating_sub(1)).filter(is_word).map(|at| at + 1)
}
