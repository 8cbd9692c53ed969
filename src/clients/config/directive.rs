//! Directives: the rows of the table, and how each kind of value is parsed.

use std::borrow::Cow;

use super::Live;
use crate::base::profile::{Profile, Since};
use crate::protocol::parse_integer;

/// Older than every profile.
const EVER: Since = Since::redis(1, 0, 0);

/// Why a value is refused.
pub type Reason = Cow<'static, str>;

/// Parses a value of several words; the second argument is the present value.
pub type ReadWords = fn(&[&[u8]], &[u8]) -> Result<Vec<u8>, Reason>;

/// Converts a value to its form in CONFIG GET.
pub type ShowValue = fn(&[u8]) -> Vec<u8>;

/// One directive: a line of a configuration file, a flag, a parameter of CONFIG.
pub struct Directive {
    pub name: &'static str,
    /// An older name, which CONFIG GET lists besides the present one.
    pub alias: Option<&'static str>,
    pub kind: SettingKind,
    /// The syntax in later releases.
    pub later_kind: Option<(Since, SettingKind)>,
    pub default: &'static str,
    pub change: Change,
    /// The release that added the name. An alias is older than every profile.
    pub since: Since,
    /// The release that removed the directive.
    pub until: Option<Since>,
    /// A newer name, and the release that added it. From then on, this name is the alias.
    pub later_name: Option<(Since, &'static str)>,
    /// Defaults of later releases. The last one that a profile has replaces `default`.
    pub later_defaults: &'static [(Since, &'static str)],
    /// The release since which it is shown only for its full name, so that CONFIG GET * looks like Redis's.
    pub hidden: Option<Since>,
    /// Why only the default is accepted. A refusal is better than a setting without effect.
    pub unsupported: Option<&'static str>,
    /// Applies a new value to the code that reads it.
    pub carry: Option<fn(&Live, &[u8])>,
    /// The value in CONFIG GET, if that differs.
    pub shown: Option<ShowValue>,
}

/// When a directive can be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Anytime,
    AtStart,
    /// At run time only with `enable-protected-configs`.
    Protected,
    /// Redis can change it at run time; this server cannot.
    Settled(&'static str),
}

/// The syntax and the range of a value.
pub enum SettingKind {
    Switch,
    Integer {
        least: i64,
        most: i64,
    },
    Memory {
        least: u64,
        most: u64,
    },
    MemoryOrPercent,
    Octal {
        most: u32,
    },
    Choice(&'static [&'static str]),
    Text(fn(&[u8]) -> Result<(), &'static str>),
    /// One word with its own parser.
    Custom(fn(&[u8]) -> Result<Vec<u8>, Reason>),
    /// Several words. The parser also gets the present value, since some settings change only a part of it.
    Words(ReadWords),
}

impl Directive {
    pub(super) const fn new(name: &'static str, default: &'static str, kind: SettingKind) -> Self {
        Self {
            name,
            alias: None,
            kind,
            later_kind: None,
            default,
            change: Change::Anytime,
            since: EVER,
            until: None,
            later_name: None,
            later_defaults: &[],
            hidden: None,
            unsupported: None,
            carry: None,
            shown: None,
        }
    }

    pub(super) const fn alias(mut self, alias: &'static str) -> Self {
        self.alias = Some(alias);
        self
    }

    pub(super) const fn at_start(mut self) -> Self {
        self.change = Change::AtStart;
        self
    }

    pub(super) const fn protected(mut self) -> Self {
        self.change = Change::Protected;
        self
    }

    pub(super) const fn fixed(mut self, reason: &'static str) -> Self {
        self.change = Change::Settled(reason);
        self
    }

    pub(super) const fn since(mut self, since: Since) -> Self {
        self.since = since;
        self
    }

    pub(super) const fn until(mut self, until: Since) -> Self {
        self.until = Some(until);
        self
    }

    pub(super) const fn later_kind(self, since: Since, kind: SettingKind) -> Self {
        // The old kind has no destructor, but the compiler cannot tell.
        Self { later_kind: Some((since, kind)), ..self }
    }

    pub(super) const fn later_name(mut self, since: Since, name: &'static str) -> Self {
        self.later_name = Some((since, name));
        self
    }

    pub(super) const fn later_defaults(mut self, defaults: &'static [(Since, &'static str)]) -> Self {
        self.later_defaults = defaults;
        self
    }

    pub(super) const fn hidden(self) -> Self {
        self.hidden_since(EVER)
    }

    pub(super) const fn hidden_since(mut self, since: Since) -> Self {
        self.hidden = Some(since);
        self
    }

    pub(super) const fn only_default(mut self, reason: &'static str) -> Self {
        self.unsupported = Some(reason);
        self
    }

    pub(super) const fn mirrored(mut self, carry: fn(&Live, &[u8])) -> Self {
        self.carry = Some(carry);
        self
    }

    pub(super) const fn shown_as(mut self, shown: ShowValue) -> Self {
        self.shown = Some(shown);
        self
    }

    /// The names in all profiles.
    pub fn all_names(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.later_name.map(|(_, name)| name).into_iter().chain([self.name]).chain(self.alias)
    }

    /// The default in the release that a profile imitates.
    pub fn default_in(&self, profile: &Profile) -> &'static str {
        let later = self.later_defaults.iter().rev().find(|(since, _)| profile.has(*since));
        later.map_or(self.default, |(_, default)| default)
    }

    /// Whether CONFIG GET lists the directive for a pattern.
    pub fn is_listed(&self, profile: &Profile) -> bool {
        !self.hidden.is_some_and(|since| profile.has(since))
    }

    /// The names in a profile, the present one first.
    pub fn names(&self, profile: &Profile) -> impl Iterator<Item = &'static str> + use<> {
        let is_gone = self.until.is_some_and(|until| profile.has(until));
        let later = self.later_name.filter(|(since, _)| profile.has(*since)).map(|(_, name)| name);
        let name = profile.has(self.since).then_some(self.name);
        later.into_iter().chain(name).chain(self.alias).filter(move |_| !is_gone)
    }

    pub fn takes_several_words(&self) -> bool {
        matches!(self.kind, SettingKind::Words(_))
    }

    /// Parses a value, and returns it in its form for CONFIG GET.
    pub fn read(&self, words: &[&[u8]], current: &[u8], profile: &Profile) -> Result<Vec<u8>, Reason> {
        let later = self.later_kind.as_ref().filter(|(since, _)| profile.has(*since));
        let value = match (later.map_or(&self.kind, |(_, kind)| kind), words) {
            (SettingKind::Words(read), _) => read(words, current)?,
            (kind, [word]) => kind.read(word)?,
            _ => return Err("wrong number of arguments".into()),
        };
        match self.unsupported {
            Some(reason) if value != self.default.as_bytes() => Err(reason.into()),
            _ => Ok(value),
        }
    }
}

impl SettingKind {
    fn read(&self, word: &[u8]) -> Result<Vec<u8>, Reason> {
        match self {
            Self::Switch => match word {
                _ if word.eq_ignore_ascii_case(b"yes") => Ok(b"yes".to_vec()),
                _ if word.eq_ignore_ascii_case(b"no") => Ok(b"no".to_vec()),
                _ => Err("argument must be 'yes' or 'no'".into()),
            },
            Self::Integer { least, most } => {
                let value = parse_integer(word).ok_or("argument couldn't be parsed into an integer")?;
                within(value, *least, *most)?;
                Ok(value.to_string().into_bytes())
            }
            Self::Memory { least, most } => {
                let value = parse_memory(word).ok_or("argument must be a memory value")?;
                within(value, *least, *most)?;
                Ok(value.to_string().into_bytes())
            }
            Self::MemoryOrPercent => memory_or_percent(word),
            Self::Octal { most } => {
                let value = parse_octal(word).ok_or("argument couldn't be parsed as an octal number")?;
                if value > u64::from(*most) {
                    return Err(format!("argument must be between 0 and {most:o} inclusive").into());
                }
                Ok(format!("{value:o}").into_bytes())
            }
            Self::Choice(names) => choose(names, word).map(|name| name.as_bytes().to_vec()),
            Self::Text(check) => check(word).map(|()| word.to_vec()).map_err(Cow::Borrowed),
            Self::Custom(read) => read(word),
            Self::Words(read) => read(&[word], b""),
        }
    }
}

pub(super) fn within<N: PartialOrd + std::fmt::Display>(value: N, least: N, most: N) -> Result<(), Reason> {
    if (least <= value) && (value <= most) {
        Ok(())
    } else {
        Err(format!("argument must be between {least} and {most} inclusive").into())
    }
}

pub(super) fn choose(names: &[&'static str], word: &[u8]) -> Result<&'static str, Reason> {
    let found = names.iter().find(|name| name.as_bytes().eq_ignore_ascii_case(word));
    found.copied().ok_or_else(|| format!("argument(s) must be one of the following: {}", names.join(", ")).into())
}

/// Parses an amount of memory: digits with an optional unit, decimal (`k`, `m`, `g`) or binary (`kb`, `mb`, `gb`). As
/// in Redis, no digits mean 0, and an overflow means the largest number.
pub fn parse_memory(word: &[u8]) -> Option<u64> {
    let digits = word.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, unit) = word.split_at(digits);
    let unit: u64 = match unit.to_ascii_lowercase().as_slice() {
        b"" | b"b" => 1,
        b"k" => 1_000,
        b"kb" => 1 << 10,
        b"m" => 1_000_000,
        b"mb" => 1 << 20,
        b"g" => 1_000_000_000,
        b"gb" => 1 << 30,
        _ => return None,
    };
    let number =
        digits.iter().fold(0u64, |number, digit| number.saturating_mul(10).saturating_add(u64::from(digit - b'0')));
    Some(number.wrapping_mul(unit))
}

fn memory_or_percent(word: &[u8]) -> Result<Vec<u8>, Reason> {
    const MOST: i64 = 100;
    // A percentage is stored as a negative number, and a number above the signed range becomes negative.
    let value = match word {
        [digits @ .., b'%'] if !digits.is_empty() && digits.iter().all(u8::is_ascii_digit) => {
            parse_memory(digits).map(|percent| 0i64.saturating_sub_unsigned(percent))
        }
        _ => parse_memory(word).map(|bytes| bytes as i64),
    };
    match value.ok_or("argument must be a memory or percent value")? {
        value if value < -MOST => Err(format!("percentage argument must be less or equal to {MOST}").into()),
        value if value < 0 => Ok(format!("{}%", -value).into_bytes()),
        value => Ok(value.to_string().into_bytes()),
    }
}

fn parse_octal(word: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(word).ok()?;
    match text.strip_prefix('-') {
        // C wraps a negative number to a huge one.
        Some(digits) => u64::from_str_radix(digits, 8).ok().map(u64::wrapping_neg),
        None if text.is_empty() => Some(0),
        None => u64::from_str_radix(text, 8).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(kind: SettingKind, word: &str) -> Result<String, String> {
        let value = kind.read(word.as_bytes());
        value.map(|value| String::from_utf8(value).unwrap()).map_err(Cow::into_owned)
    }

    #[test]
    fn memory_takes_decimal_and_binary_units() {
        let values =
            [("", 0), ("1", 1), ("2B", 2), ("1k", 1000), ("1kB", 1024), ("10mb", 10 << 20), ("1G", 1_000_000_000)];
        for (text, value) in values {
            assert_eq!(parse_memory(text.as_bytes()), Some(value), "{text:?}");
        }
        assert_eq!(parse_memory(b"99999999999999999999"), Some(u64::MAX));
        for text in ["-1", "1.5", "1tb", " 1", "kb1", "10%"] {
            assert_eq!(parse_memory(text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn a_percentage_is_at_most_a_hundred() {
        let percent = |text| read(SettingKind::MemoryOrPercent, text);
        assert_eq!(percent("10%").unwrap(), "10%");
        assert_eq!(percent("0%").unwrap(), "0");
        assert_eq!(percent("1kb").unwrap(), "1024");
        assert_eq!(percent("101%").unwrap_err(), "percentage argument must be less or equal to 100");
        for text in ["-5", "1.5%", "%", "5 %", "+5%"] {
            assert_eq!(percent(text).unwrap_err(), "argument must be a memory or percent value", "{text:?}");
        }
    }

    #[test]
    fn permissions_are_octal() {
        let octal = |text| read(SettingKind::Octal { most: 0o777 }, text);
        assert_eq!(octal("700").unwrap(), "700");
        assert_eq!(octal("999").unwrap_err(), "argument couldn't be parsed as an octal number");
        assert_eq!(octal("1000").unwrap_err(), "argument must be between 0 and 777 inclusive");
        assert_eq!(octal("-1").unwrap_err(), "argument must be between 0 and 777 inclusive");
    }
}
