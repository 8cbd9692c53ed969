//! SORT and SORT_RO.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::ops::Range;

use smallvec::SmallVec;

use super::keys::delete;
use crate::base::error::CommandError;
use crate::base::profile::{Family, Profile, Since, Version};
use crate::commands::{Command, CommandResult, Handler};
use crate::data::keyspace::{Entry, EventClass, Hash, List, Set, SortedSet, ValueKind, View};
use crate::data::listpack::Element;
use crate::protocol::{LARGEST_REPLY, Reply, Words, parse_float, until_nul};
use crate::spec::{Args, Arity, Category, CommandSpec, Flag, Group, KeySpec};

pub(super) const ROWS: &[Command] = &[SORT, SORT_RO];

const BY_DENIED: CommandError =
    CommandError::fixed("ERR BY option of SORT denied due to insufficient ACL permissions.");
const GET_DENIED: CommandError =
    CommandError::fixed("ERR GET option of SORT denied due to insufficient ACL permissions.");
const TOO_LARGE: CommandError = CommandError::fixed("ERR the result is larger than a reply can be");
const NO_NUMBERS: CommandError = CommandError::fixed("ERR One or more scores can't be converted into double");

const CATEGORIES: &[Category] = &[Category::Set, Category::SortedSet, Category::List, Category::Dangerous];
const PATTERNS: KeySpec = KeySpec::computed(reads_other_keys, &["RO", "access"]).with_notes(
    "For the optional BY/GET keyword. It is marked 'unknown' because the key names derive from the content of the key we \
     sort",
);

const SORT: Command = Command::new(
    Handler::Keys(sort),
    CommandSpec {
        usage: "key [BY pattern] [LIMIT offset count] [GET pattern [GET pattern ...]] [ASC | DESC] [ALPHA] [STORE \
            destination]",
        summary: "Sorts the elements of a list, a set or a sorted set.",
        complexity: "O(N+M*log(M)) for N elements, of which M are returned; O(N) if they are not to be sorted",
        group: Group::Generic,
        since: Since::redis(1, 0, 0),
        arity: Arity::AtLeast(2),
        keys: &[
            KeySpec::one(1, &["RO", "access"]),
            PATTERNS,
            KeySpec::found_by(destination, &["OW", "update"]).with_notes(
                "For the optional STORE keyword. It is marked 'unknown' because the keyword can appear anywhere in the \
             argument array",
            ),
        ],
        flags: &[Flag::Write, Flag::DenyOom, Flag::MovableKeys],
        categories: CATEGORIES,
        ..CommandSpec::new("SORT")
    },
);

const SORT_RO: Command = Command::new(
    Handler::Keys(sort),
    CommandSpec {
        usage: "key [BY pattern] [LIMIT offset count] [GET pattern [GET pattern ...]] [ASC | DESC] [ALPHA]",
        summary: "Sorts the elements of a list, a set or a sorted set, and cannot write.",
        complexity: "O(N+M*log(M)) for N elements, of which M are returned; O(N) if they are not to be sorted",
        group: Group::Generic,
        since: Since::redis(7, 0, 0),
        arity: Arity::AtLeast(2),
        keys: &[KeySpec::one(1, &["RO", "access"]), PATTERNS],
        flags: &[Flag::ReadOnly, Flag::MovableKeys],
        categories: CATEGORIES,
        ..CommandSpec::new("SORT_RO")
    },
);

/// Whether a request may read keys that are not in it (BY and GET).
fn reads_other_keys(words: Words<'_>) -> bool {
    words.from(2).iter().any(|word| word.eq_ignore_ascii_case(b"BY") || word.eq_ignore_ascii_case(b"GET"))
}

/// The position of the destination: the key after the last STORE.
fn destination(words: Words<'_>) -> SmallVec<[usize; 4]> {
    let mut found = None;
    let mut at = 2;
    while let Some(word) = words.get(at) {
        let is = |option: &str| word.eq_ignore_ascii_case(option.as_bytes());
        if is("LIMIT") {
            at += 2;
        } else if is("GET") || is("BY") {
            at += 1;
        } else if is("STORE") && at + 1 < words.len() {
            found = Some(at + 1);
            at += 1;
        }
        at += 1;
    }
    found.into_iter().collect()
}

#[derive(Default)]
struct Options<'a> {
    by: Option<&'a [u8]>,
    get: Vec<&'a [u8]>,
    /// Offset and count, as the request gives them.
    limit: Option<(i64, i64)>,
    descending: bool,
    alpha: bool,
    store: Option<&'a [u8]>,
}

impl<'a> Options<'a> {
    fn parse(view: &View<'_>, args: &mut Args<'a>) -> Result<Self, CommandError> {
        let mut options = Self::default();
        let may_store = args.spec().has_flag(Flag::Write);
        while !args.is_empty() {
            let more = args.left() > 1;
            if args.take("ASC") {
                options.descending = false;
            } else if args.take("DESC") {
                options.descending = true;
            } else if args.take("ALPHA") {
                options.alpha = true;
            } else if args.left() > 2 && args.take("LIMIT") {
                options.limit = Some((args.integer()?, args.integer()?));
            } else if more && may_store && args.take("STORE") {
                options.store = Some(args.key()?);
            } else if more && args.take("BY") {
                let by = args.bytes()?;
                if star_position(by).is_some() && view.is_confined() {
                    return Err(BY_DENIED);
                }
                options.by = Some(by);
            } else if more && args.take("GET") {
                if view.is_confined() {
                    return Err(GET_DENIED);
                }
                options.get.push(args.bytes()?);
            } else {
                return Err(CommandError::SYNTAX);
            }
        }
        Ok(options)
    }

    /// Whether BY has no star, and so gives no order.
    fn is_unsorted(&self) -> bool {
        self.by.is_some_and(|by| star_position(by).is_none())
    }

    /// The range of elements to return, of `len`.
    fn range(&self, len: usize) -> Range<usize> {
        let (offset, count) = self.limit.unwrap_or((0, -1));
        let start = usize::try_from(offset.max(0)).map_or(len, |offset| offset.min(len));
        let end = usize::try_from(count).map_or(len, |count| start.saturating_add(count).min(len));
        start..end
    }
}

/// The position of the star, which an element replaces.
fn star_position(pattern: &[u8]) -> Option<usize> {
    memchr::memchr(b'*', until_nul(pattern))
}

fn sort<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let key = args.key()?;
    let mut options = Options::parse(view, args)?;
    let kind = view.read(key).map(Entry::kind);
    if kind.is_some_and(|kind| !matches!(kind, ValueKind::List | ValueKind::Set | ValueKind::SortedSet)) {
        return Err(CommandError::WRONG_TYPE);
    }
    // An unordered set is sorted after all where the reply must be deterministic: with STORE and in scripts.
    if options.is_unsorted() && kind == Some(ValueKind::Set) && (options.store.is_some() || view.is_repeatable()) {
        options.by = None;
        options.alpha = true;
    }
    let entry = view.peek(key);
    let len = length(entry);
    let range = options.range(len);
    let elements = if options.is_unsorted() {
        elements(entry, range, options.descending)
    } else {
        let all = elements(entry, 0..len, false);
        let mut elements = sorted(view, all, &options, args.profile())?;
        elements.truncate(range.end);
        elements.drain(..range.start);
        elements
    };
    let elements = elements.into_iter();
    let found: Vec<Option<Vec<u8>>> = if options.get.is_empty() {
        elements.map(Some).collect()
    } else {
        let mut found = Vec::new();
        let mut bytes = 0;
        for element in elements {
            for get in &options.get {
                let value = look_up(view, get, &element);
                bytes += size_of_val(&value) + value.as_ref().map_or(0, Vec::len);
                if bytes > LARGEST_REPLY {
                    return Err(TOO_LARGE);
                }
                found.push(value);
            }
        }
        found
    };
    let Some(destination) = options.store else {
        return Ok(Reply::Array(found.into_iter().map(|value| value.map_or(Reply::Null, Reply::bulk)).collect()));
    };
    let limits = view.settings().list_limits(args.profile());
    let count = found.len();
    if count > 0 {
        let elements = found.iter().map(|value| value.as_deref().unwrap_or_default());
        view.put_list(destination, elements, &limits);
        view.notify(EventClass::List, "sortstore", destination);
    } else {
        delete(view, destination);
    }
    Ok(Reply::Integer(count as i64))
}

/// The number of elements of a list, set or sorted set.
fn length(entry: Option<&Entry>) -> usize {
    let Some(entry) = entry else { return 0 };
    let list = || entry.collection::<List>().map(List::len);
    let sorted_set = || entry.collection::<SortedSet>().map(SortedSet::len);
    let set = || entry.collection::<Set>().map(Set::len);
    list().or_else(sorted_set).or_else(set).unwrap_or(0)
}

/// A range of the elements of a list, set or sorted set. `backwards` applies to types with an order.
fn elements(entry: Option<&Entry>, range: Range<usize>, backwards: bool) -> Vec<Vec<u8>> {
    let Some(entry) = entry else { return Vec::new() };
    if let Some(list) = entry.collection::<List>() {
        let owned = |element: Element<'_>| element.to_bytes().into_owned();
        return if backwards {
            let last = list.len().saturating_sub(range.start + 1);
            list.backwards(last, range.len()).map(owned).collect()
        } else {
            list.range(range.start, range.len()).map(owned).collect()
        };
    }
    if let Some(set) = entry.collection::<SortedSet>() {
        let ranks = if backwards { set.len() - range.end..set.len() - range.start } else { range };
        return set.range(ranks, backwards).map(|scored| scored.member().to_vec()).collect();
    }
    let set = entry.collection::<Set>();
    set.map_or_else(Vec::new, |set| range.filter_map(|place| set.get(place).map(Cow::into_owned)).collect())
}

enum SortKey {
    Number(f64),
    Text(Vec<u8>),
    /// The key or field that BY names does not exist.
    Missing,
    /// The element itself.
    Element,
}

fn sorted(
    view: &mut View<'_>,
    elements: Vec<Vec<u8>>,
    options: &Options<'_>,
    profile: &Profile,
) -> Result<Vec<Vec<u8>>, CommandError> {
    let numbers = NumberFormat::of(profile);
    let mut failed = false;
    let mut weighed = Vec::with_capacity(elements.len());
    for element in elements {
        let value = options.by.map(|by| look_up(view, by, &element));
        let weight = match value {
            None if options.alpha => SortKey::Element,
            Some(Some(value)) if options.alpha => SortKey::Text(value),
            Some(None) if options.alpha => SortKey::Missing,
            Some(None) => SortKey::Number(0.0),
            Some(Some(value)) => SortKey::Number(numbers.read(&value, &mut failed)),
            None => SortKey::Number(numbers.read(&element, &mut failed)),
        };
        weighed.push((weight, element));
    }
    if failed {
        return Err(NO_NUMBERS);
    }
    // Without STORE, Redis compares C strings, which end at a NUL. Where there is none, it is not looked for in each comparison.
    let has_nul = |(key, element): &(SortKey, Vec<u8>)| match key {
        SortKey::Text(text) => memchr::memchr(0, text).is_some(),
        SortKey::Element => memchr::memchr(0, element).is_some(),
        SortKey::Number(_) | SortKey::Missing => false,
    };
    let are_c_strings = options.store.is_none() && weighed.iter().any(has_nul);
    let text: fn(&[u8]) -> &[u8] = if are_c_strings { until_nul } else { |text| text };
    let order = |(one, element): &(SortKey, Vec<u8>), (other, other_element): &(SortKey, Vec<u8>)| match (one, other) {
        (SortKey::Number(one), SortKey::Number(other)) => {
            one.partial_cmp(other).unwrap_or(Ordering::Equal).then_with(|| element.cmp(other_element))
        }
        (SortKey::Text(one), SortKey::Text(other)) => text(one).cmp(text(other)),
        (SortKey::Element, SortKey::Element) => text(element).cmp(text(other_element)),
        (SortKey::Missing, SortKey::Missing) => Ordering::Equal,
        (SortKey::Missing, _) => Ordering::Less,
        _ => Ordering::Greater,
    };
    if options.descending {
        weighed.sort_by(|one, other| order(other, one));
    } else {
        weighed.sort_by(order);
    }
    Ok(weighed.into_iter().map(|(_, element)| element).collect())
}

/// The texts that count as numbers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NumberFormat {
    /// What C's `strtod` parses, within the range where that is exact.
    C,
    /// Decimal numbers without blanks, of any magnitude.
    Decimal,
    /// Decimal numbers without blanks that neither overflow nor underflow.
    DecimalInRange,
}

impl NumberFormat {
    fn of(profile: &Profile) -> Self {
        match profile.family() {
            _ if !profile.has(Since::each(Version(8, 0, 0), Version(9, 0, 0))) => Self::C,
            Family::Redis => Self::Decimal,
            Family::Valkey => Self::DecimalInRange,
        }
    }

    fn read(self, text: &[u8], failed: &mut bool) -> f64 {
        let text = until_nul(text);
        if text.is_empty() && self != Self::DecimalInRange {
            return 0.0;
        }
        let blank = |byte: u8| self == Self::C && (byte == b'\x0b' || byte.is_ascii_whitespace());
        let blanks = text.iter().take_while(|&&byte| blank(byte)).count();
        let digits = &text[blanks..];
        let has = |letter: u8| digits.iter().any(|byte| byte.eq_ignore_ascii_case(&letter));
        let mantissa = || digits.iter().take_while(|byte| !byte.eq_ignore_ascii_case(&b'e'));
        let overflown = |value: f64| value.is_infinite() && !has(b'n');
        let vanished = |value: f64| {
            self == Self::C && value.is_subnormal()
                || value == 0.0 && mantissa().any(|byte| (b'1'..=b'9').contains(byte))
        };
        let fits = |value: f64| match self {
            Self::C => !overflown(value) && !vanished(value),
            Self::Decimal => !has(b'x'),
            Self::DecimalInRange => !has(b'x') && !overflown(value) && !vanished(value),
        };
        match parse_float(digits).filter(|&value| fits(value)) {
            Some(value) => value,
            None => {
                *failed = true;
                0.0
            }
        }
    }
}

/// The value of a pattern for an element: the string, or with `->` the hash field, of the key that results when the
/// element replaces the star.
fn look_up(view: &mut View<'_>, pattern: &[u8], element: &[u8]) -> Option<Vec<u8>> {
    if pattern.first() == Some(&b'#') && until_nul(pattern) == b"#" {
        return Some(element.to_vec());
    }
    let star = star_position(pattern)?;
    let (before, after) = (&pattern[..star], &pattern[star + 1..]);
    let visible = until_nul(after);
    let arrow = memchr::memmem::find(visible, b"->").filter(|at| at + 2 < visible.len());
    let (after, field) = match arrow {
        Some(at) => (&after[..at], Some(&after[at + 2..])),
        None => (after, None),
    };
    let entry = view.read(&[before, element, after].concat())?;
    match field {
        Some(field) => entry.collection::<Hash>()?.get(field).map(<[u8]>::to_vec),
        None => entry.text().map(|text| text.bytes.to_vec()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_c_reads_them() {
        let read_by = |numbers: NumberFormat, text: &str| {
            let mut failed = false;
            let value = numbers.read(text.as_bytes(), &mut failed);
            (!failed).then_some(value)
        };
        let read = |text| read_by(NumberFormat::C, text);
        for (text, value) in [("", 0.0), (" 5", 5.0), ("-1.5e3", -1500.0), ("0x10", 16.0), ("1\0x", 1.0), ("0e9", 0.0)]
        {
            assert_eq!(read(text), Some(value), "{text:?}");
        }
        assert_eq!(read("-inf"), Some(f64::NEG_INFINITY));
        for text in [" ", "5 ", "x", "nan", "1e999", "1e-999", "1e", "--1"] {
            assert_eq!(read(text), None, "{text:?}");
        }
        for (text, decimal, within) in [
            ("", Some(0.0), None),
            (" 5", None, None),
            ("0x10", None, None),
            ("1e999", Some(f64::INFINITY), None),
            ("1e-999", Some(0.0), None),
            ("5e-324", Some(5e-324), Some(5e-324)),
        ] {
            assert_eq!(read_by(NumberFormat::Decimal, text), decimal, "{text:?}");
            assert_eq!(read_by(NumberFormat::DecimalInRange, text), within, "{text:?}");
        }
    }

    #[test]
    fn a_limit_means_places_that_there_are() {
        let range = |limit| Options { limit, ..Options::default() }.range(5);
        assert_eq!(range(None), 0..5);
        assert_eq!(range(Some((1, 2))), 1..3);
        assert_eq!(range(Some((-3, 2))), 0..2);
        assert_eq!(range(Some((3, -1))), 3..5);
        assert_eq!(range(Some((9, 2))), 5..5);
        assert_eq!(range(Some((4, i64::MAX))), 4..5);
    }
}
