//! Replies without the values in them.

use super::values::HashKey;
use crate::protocol::parse_integer;
use crate::spec::{CommandKind, CommandSpec, Group, LockEffect};

/// How deep values of replies may be nested. What is deeper is not kept.
const DEEPEST: usize = 32;
/// Numbers below this one say how many keys or members there are, or how often one was counted.
const SMALL: u64 = 1000;
const REDACTED: &[u8] = b"(redacted)";

/// What becomes of the integers in a command's reply.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Integers {
    Keep,
    /// Large ones are rounded down to a power of ten.
    Round,
    /// They are data.
    Hide,
}

/// What the reply of a command can hold beside values.
#[derive(Clone, Copy)]
pub struct ReplyKind {
    integers: Integers,
    /// Its simple strings and errors are Redis's own texts.
    has_own_texts: bool,
}

impl ReplyKind {
    pub fn of(spec: Option<&'static CommandSpec>) -> Self {
        let Some(spec) = spec else { return Self { integers: Integers::Hide, has_own_texts: false } };
        let is_script = matches!(spec.kind, CommandKind::Script(_));
        let is_stored = matches!(
            spec.group,
            Group::Bitmap
                | Group::Geo
                | Group::Hash
                | Group::HyperLogLog
                | Group::List
                | Group::Set
                | Group::SortedSet
                | Group::Stream
                | Group::String
        );
        let integers = match spec.lock_effect {
            LockEffect::CountMember => Integers::Round,
            LockEffect::None | LockEffect::OtherWrite if is_script => Integers::Round,
            LockEffect::None | LockEffect::OtherWrite if is_stored => Integers::Hide,
            _ => Integers::Keep,
        };
        Self { integers, has_own_texts: !is_script }
    }
}

/// A reply on its way into a recording.
pub struct ReplyRedaction<'k> {
    /// Without a key, values are left out.
    pub key: Option<&'k HashKey>,
    /// When the command took effect.
    pub times: (i64, i64),
    pub written: Vec<u8>,
    /// Whether there was a value.
    pub had_value: bool,
}

impl<'k> ReplyRedaction<'k> {
    pub fn new(key: Option<&'k HashKey>, times: (i64, i64)) -> Self {
        Self { key, times, written: Vec::new(), had_value: false }
    }

    /// Writes all values of a reply; returns whether none is cut off.
    pub fn add_all(&mut self, kind: ReplyKind, mut rest: &[u8]) -> bool {
        while !rest.is_empty() {
            if self.add(kind, &mut rest, 0).is_none() {
                return false;
            }
        }
        true
    }

    /// Writes the reply of EXEC, whose elements are the replies of these commands; returns whether none is cut off.
    pub fn add_elements(&mut self, kinds: &[ReplyKind], reply: &[u8]) -> bool {
        let mut rest = reply;
        let Some(head) = take_line(&mut rest) else { return false };
        self.line(head);
        kinds.iter().all(|kind| self.add(*kind, &mut rest, 1).is_some())
    }

    /// Writes the next value; `None` if it is cut off.
    fn add(&mut self, kind: ReplyKind, rest: &mut &[u8], depth: usize) -> Option<()> {
        let line = take_line(rest)?;
        let (first, text) = line.split_first()?;
        match first {
            b'+' if text == b"OK" || text == b"QUEUED" || text == REDACTED => self.line(line),
            b'+' if kind.has_own_texts && text.iter().all(u8::is_ascii_alphanumeric) => self.line(line),
            b'-' if kind.has_own_texts && !text.iter().any(|byte| b"'`\"".contains(byte)) => self.line(line),
            b'-' => self.error(text),
            b':' => self.integer(kind, line, text),
            b'+' | b',' | b'(' => self.value(text),
            b'$' | b'=' | b'!' => {
                let Some(length) = parse_integer(text).and_then(|length| usize::try_from(length).ok()) else {
                    self.line(line);
                    return Some(());
                };
                let (value, behind) = rest.split_at_checked(length)?;
                *rest = behind.get(2..)?;
                match first {
                    b'!' => self.error(value),
                    // A verbatim string begins with its format.
                    b'=' => self.value(value.get(4..).unwrap_or_default()),
                    _ => self.value(value),
                }
            }
            b'*' | b'~' | b'>' | b'%' | b'|' if depth < DEEPEST => {
                self.line(line);
                let count = parse_integer(text).and_then(|count| usize::try_from(count).ok()).unwrap_or(0);
                let values = if matches!(first, b'%' | b'|') { 2 } else { 1 };
                for _ in 0..count.checked_mul(values)? {
                    self.add(kind, rest, depth + 1)?;
                }
            }
            b'#' | b'_' => self.line(line),
            _ => return None,
        }
        Some(())
    }

    fn line(&mut self, line: &[u8]) {
        self.written.extend_from_slice(line);
        self.written.extend_from_slice(b"\r\n");
    }

    /// The code of an error says what went wrong; its text can have arguments.
    fn error(&mut self, text: &[u8]) {
        let code = text.split(|byte| *byte == b' ').next().unwrap_or_default();
        let is_code = !code.is_empty() && code.len() <= 20 && code.iter().all(|byte| byte.is_ascii_uppercase());
        let code: &[u8] = if is_code { code } else { b"ERR" };
        self.line(&[b"-", code, b" (the text is not kept)"].concat());
    }

    fn integer(&mut self, kind: ReplyKind, line: &[u8], text: &[u8]) {
        match kind.integers {
            Integers::Keep => self.line(line),
            Integers::Hide => self.value(text),
            Integers::Round => {
                let number = parse_integer(text).unwrap_or(0);
                let rounded = match number.unsigned_abs() {
                    small if small < SMALL => number,
                    large => number.signum() * 10i64.pow(large.ilog10()),
                };
                self.line(format!(":{rounded}").as_bytes());
            }
        }
    }

    fn value(&mut self, value: &[u8]) {
        self.had_value = true;
        let Some(key) = self.key else { return };
        let text = if value == REDACTED { value.to_vec() } else { key.text_for(value, self.times) };
        self.line(format!("${}", text.len()).as_bytes());
        self.line(&text);
    }
}

fn take_line<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let end = memchr::memmem::find(rest, b"\r\n")?;
    let line = &rest[..end];
    *rest = &rest[end + 2..];
    Some(line)
}
