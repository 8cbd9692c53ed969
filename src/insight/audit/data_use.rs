//! What a command does to data, as far as lost updates are concerned: which values it read, and which it wrote.

use super::reply_value::{ReplyValue, reply_values};
use crate::spec::{CommandSpec, Flag, Group, LockEffect};

/// How many keys, fields or members of one command are looked at.
const MAX_PARTS: usize = 64;

/// One use of a key, or of one field, member or place in it.
pub struct DataUse<'a> {
    pub key: &'a [u8],
    /// The field, member or place; empty for the whole value.
    pub part: &'a [u8],
    pub access: DataAccess<'a>,
}

/// What was done.
#[derive(Clone, Copy)]
pub enum DataAccess<'a> {
    /// The client was told the value; `None` if there was none.
    Read(Option<&'a [u8]>),
    /// The client was told something of the value.
    PartlyRead,
    /// The value was replaced by one that the client had made up.
    Write {
        value: &'a [u8],
        /// The new value has an expiry.
        expires: bool,
    },
    /// Elements or fields were added.
    Add(&'a [&'a [u8]]),
    /// The value was changed in one step, from what it was.
    Update,
    Delete,
    /// The key may have another value, which no word of the command tells.
    Replace,
}

/// Whether a command has to do with data at all. Nearly all that have not are told by this.
#[inline]
pub fn uses_data(row: &CommandSpec) -> bool {
    !row.keys.is_empty()
        && !matches!(row.lock_effect, LockEffect::Expire(..) | LockEffect::Persist | LockEffect::CountMembers)
        && (row.group != Group::Generic || row.has_flag(Flag::Write) || row.lock_effect == LockEffect::Exists)
}

/// Tells the uses of data by one command that is no script and ran without an error, one after the other. `words` begin
/// with its name, and `keys` are the keys that it names.
pub fn tell_uses<'a>(
    row: &CommandSpec,
    words: &'a [&'a [u8]],
    reply: &'a [u8],
    keys: impl FnOnce() -> Vec<&'a [u8]>,
    tell: &mut impl FnMut(DataUse<'a>),
) {
    let Some(&key) = words.get(1) else { return };
    let whole: &[u8] = b"";
    let value = ReplyValue::of(reply);
    let read = match value {
        ReplyValue::Text(text) => Some(Some(text)),
        ReplyValue::Null => Some(None),
        ReplyValue::Number(_) | ReplyValue::Error | ReplyValue::Other => None,
    };
    let read_access = read.map_or(DataAccess::PartlyRead, DataAccess::Read);
    let did_nothing = matches!(value, ReplyValue::Null | ReplyValue::Number(0));
    match (row.lock_effect, row.name) {
        (LockEffect::Exists, _) => {
            let access = if did_nothing { DataAccess::Read(None) } else { DataAccess::PartlyRead };
            keys().into_iter().for_each(|key| tell(DataUse { key, part: whole, access }));
        }
        (LockEffect::Get | LockEffect::GetAndExpire, _) => tell(DataUse { key, part: whole, access: read_access }),
        (LockEffect::SetByOptions, _) => {
            let Some(&value) = words.get(2) else { return };
            match SetOptions::of(&words[3..]) {
                SetOptions { is_conditional: true, .. } => {
                    if !did_nothing {
                        tell(DataUse { key, part: whole, access: DataAccess::Update });
                    }
                }
                // SET XX that found nothing.
                _ if matches!(read, Some(None)) => {}
                SetOptions { expires, .. } => {
                    tell(DataUse { key, part: whole, access: DataAccess::Write { value, expires } });
                }
            }
        }
        (LockEffect::SetWithTtl(_), _) => {
            let Some(&value) = words.get(3) else { return };
            tell(DataUse { key, part: whole, access: DataAccess::Write { value, expires: true } });
        }
        (LockEffect::SetMany, _) => {
            for pair in words[1..].chunks_exact(2).take(MAX_PARTS) {
                let access = DataAccess::Write { value: pair[1], expires: false };
                tell(DataUse { key: pair[0], part: whole, access });
            }
        }
        (LockEffect::GetMany, _) => tell_values(&words[1..], reply, &mut |key, access| {
            tell(DataUse { key, part: whole, access });
        }),
        (LockEffect::SetMember, _) | (_, "HMSET") => {
            for pair in words[2..].chunks_exact(2).take(MAX_PARTS) {
                let access = DataAccess::Write { value: pair[1], expires: false };
                tell(DataUse { key, part: pair[0], access });
            }
            tell(DataUse { key, part: whole, access: DataAccess::Add(&words[2..]) });
        }
        (_, "HGET" | "ZSCORE" | "LINDEX") => {
            let Some(&part) = words.get(2) else { return };
            tell(DataUse { key, part, access: read_access });
        }
        (_, "HMGET" | "ZMSCORE") => tell_values(&words[2..], reply, &mut |part, access| {
            tell(DataUse { key, part, access });
        }),
        (_, "HGETALL") => {
            let mut values = reply_values(reply).into_iter();
            for _ in 0..MAX_PARTS {
                let (Some(ReplyValue::Text(part)), Some(value)) = (values.next(), values.next()) else { break };
                tell(DataUse { key, part, access: DataAccess::Read(value.text()) });
            }
            tell(DataUse { key, part: whole, access: DataAccess::Read(Some(reply)) });
        }
        (_, "HGETEX") => {
            let Some(fields) = words.iter().position(|word| word.eq_ignore_ascii_case(b"FIELDS")) else { return };
            let fields = words.get(fields + 2..).unwrap_or_default();
            tell_values(fields, reply, &mut |part, access| tell(DataUse { key, part, access }));
        }
        (_, "HSETEX") => {
            let Some(fields) = words.iter().position(|word| word.eq_ignore_ascii_case(b"FIELDS")) else { return };
            let options = SetOptions::of(&words[2..fields.max(2)]);
            for pair in words.get(fields + 2..).unwrap_or_default().chunks_exact(2).take(MAX_PARTS) {
                let access = match options.is_conditional {
                    true => DataAccess::Update,
                    false => DataAccess::Write { value: pair[1], expires: options.expires },
                };
                tell(DataUse { key, part: pair[0], access });
            }
        }
        (_, "LSET") => {
            let (Some(&part), Some(&value)) = (words.get(2), words.get(3)) else { return };
            tell(DataUse { key, part, access: DataAccess::Write { value, expires: false } });
        }
        (LockEffect::AddMember, "ZADD") => {
            if matches!(words.get(2).and_then(|word| word.first()), Some(b'0'..=b'9' | b'-' | b'+' | b'.')) {
                for pair in words[2..].chunks_exact(2).take(MAX_PARTS) {
                    let access = DataAccess::Write { value: pair[0], expires: false };
                    tell(DataUse { key, part: pair[1], access });
                }
            } else if let Some(&member) = words.last() {
                tell(DataUse { key, part: member, access: DataAccess::Update });
            }
            tell(DataUse { key, part: whole, access: DataAccess::Add(&words[2..]) });
        }
        (_, "LRANGE") if words[2..] == [&b"0"[..], b"-1"] => {
            tell(DataUse { key, part: whole, access: DataAccess::Read(Some(reply)) });
        }
        (_, "ZRANGE") if words[2..].starts_with(&[&b"0"[..], b"-1"]) => {
            tell(DataUse { key, part: whole, access: DataAccess::Read(Some(reply)) });
        }
        (_, "SMEMBERS") => tell(DataUse { key, part: whole, access: DataAccess::Read(Some(reply)) }),
        (_, "RPUSH" | "LPUSH" | "SADD") => {
            if !did_nothing {
                tell(DataUse { key, part: whole, access: DataAccess::Add(&words[2..]) });
            }
        }
        (
            LockEffect::Delete | LockEffect::GetAndDelete | LockEffect::DeleteIfEqual | LockEffect::DeleteByOptions,
            _,
        ) => {
            if !did_nothing {
                keys().into_iter().for_each(|key| tell(DataUse { key, part: whole, access: DataAccess::Delete }));
            }
        }
        (_, "HINCRBY" | "HINCRBYFLOAT" | "HSETNX" | "HDEL" | "ZREM") => {
            if row.name.starts_with("HINCRBY") || !did_nothing {
                let last = if row.name.ends_with("DEL") || row.name == "ZREM" { MAX_PARTS } else { 1 };
                for part in words[2..].iter().take(last) {
                    tell(DataUse { key, part, access: DataAccess::Update });
                }
                tell(DataUse { key, part: whole, access: DataAccess::Update });
            }
        }
        (_, "ZINCRBY") => {
            let Some(&part) = words.get(3) else { return };
            tell(DataUse { key, part, access: DataAccess::Update });
            tell(DataUse { key, part: whole, access: DataAccess::Update });
        }
        _ => {
            let access = match (row.has_flag(Flag::Write), row.group) {
                (true, Group::Generic) => DataAccess::Replace,
                (true, _) => DataAccess::Update,
                (false, _) => DataAccess::PartlyRead,
            };
            keys().into_iter().for_each(|key| tell(DataUse { key, part: whole, access }));
        }
    }
}

/// Tells which value each of some keys or fields had.
fn tell_values<'a>(parts: &'a [&'a [u8]], reply: &'a [u8], tell: &mut impl FnMut(&'a [u8], DataAccess<'a>)) {
    let values = reply_values(reply);
    for (place, &part) in parts.iter().enumerate().take(MAX_PARTS) {
        tell(
            part,
            match values.get(place) {
                Some(ReplyValue::Text(text)) => DataAccess::Read(Some(text)),
                Some(ReplyValue::Null) => DataAccess::Read(None),
                _ => DataAccess::PartlyRead,
            },
        );
    }
}

/// What the options of SET say.
#[derive(Default)]
struct SetOptions {
    /// It compares, or returns the old value.
    is_conditional: bool,
    expires: bool,
}

impl SetOptions {
    fn of(words: &[&[u8]]) -> Self {
        let mut options = Self::default();
        for word in words {
            let is = |name: &[u8]| word.eq_ignore_ascii_case(name);
            let compares = word.len() >= 4 && word[..2].eq_ignore_ascii_case(b"IF");
            options.is_conditional |= compares || [&b"NX"[..], b"GET", b"FNX", b"FXX"].iter().any(|name| is(name));
            options.expires |= [&b"EX"[..], b"PX", b"EXAT", b"PXAT", b"KEEPTTL"].iter().any(|name| is(name));
        }
        options
    }
}
