//! What a command did to keys, by its row, its words and its reply.
//!
//! The rows of commands say what each does to locks (`LockEffect`); no command is named here.

use smallvec::{SmallVec, smallvec};

use super::effect::{
    Claim, Effect, ExpiryChange, Intent, KeyEffect, KeyEffects, LockShape, Precondition, TransferKind,
};
use super::reply_value::{ReplyValue, reply_values};
use crate::powers::RecordHeader;
use crate::protocol::parse_integer;
use crate::spec::{CommandKind, LockEffect, Table, TtlFrom, TtlUnit};

/// A command as it ran, with its reply.
#[derive(Clone, Copy)]
pub struct Executed<'a, 'w> {
    pub db: u32,
    pub words: &'w [&'a [u8]],
    pub reply: &'a [u8],
}

/// The database and the key of a command that may be about a lock.
pub fn lock_key<'a>(commands: &Table, header: &RecordHeader<'a>) -> Option<(u32, &'a [u8])> {
    let row = commands.find(header.first).filter(|_| !header.is_event)?;
    match (row.kind, row.lock_effect) {
        (CommandKind::Script(_), _) => Some((header.db, header.all_words().nth(3)?)),
        (
            _,
            LockEffect::SetByOptions
            | LockEffect::SetIfAbsent
            | LockEffect::SetAndReturn
            | LockEffect::Get
            | LockEffect::Delete
            | LockEffect::DeleteByOptions
            | LockEffect::DeleteIfEqual
            | LockEffect::Expire(..),
        ) => Some((header.db, header.second)),
        _ => None,
    }
}

/// What a single command did. Scripts and EXEC are read elsewhere.
pub fn effects_of<'a>(kind: LockEffect, command: Executed<'a, '_>) -> KeyEffects<'a> {
    let Executed { words, reply, .. } = command;
    let answer = || ReplyValue::of(reply);
    let none = SmallVec::new;
    match kind {
        LockEffect::FlushDatabase | LockEffect::FlushAll if answer().text().is_some() => {
            return one(command, b"", Effect::Flush { all: kind == LockEffect::FlushAll });
        }
        LockEffect::SwapDatabases if answer().text().is_some() => {
            let (Some(first), Some(second)) = (database(words, 1), database(words, 2)) else { return none() };
            return one(command, b"", Effect::SwapDatabases { one: first, other: second });
        }
        _ => {}
    }
    let Some(&key) = words.get(1) else { return none() };
    let value = words.get(2).copied().unwrap_or_default();
    match kind {
        LockEffect::SetByOptions => set(command, key, value),
        LockEffect::SetIfAbsent => match answer() {
            ReplyValue::Number(took) => {
                one(command, key, Effect::Take { value, expiry: ExpiryChange::Never, took: took == 1 })
            }
            _ => none(),
        },
        LockEffect::SetWithTtl(unit) if answer().text().is_some() => {
            let value = words.get(3).copied().unwrap_or_default();
            let expiry = ExpiryChange::In(millis(unit, number(words, 2)));
            one(command, key, Effect::Set { value, expiry, old: None })
        }
        LockEffect::SetAndReturn => match answer() {
            ReplyValue::Text(old) => {
                one(command, key, Effect::Set { value, expiry: ExpiryChange::Never, old: Some(Some(old)) })
            }
            ReplyValue::Null => one(command, key, Effect::Set { value, expiry: ExpiryChange::Never, old: Some(None) }),
            _ => none(),
        },
        LockEffect::SetMany if answer().text().is_some() => pairs(&words[1..])
            .map(|(key, value)| effect(command, key, Effect::Set { value, expiry: ExpiryChange::Never, old: None }))
            .collect(),
        LockEffect::SetManyIfAbsent => match answer() {
            ReplyValue::Number(took) => pairs(&words[1..])
                .map(|(key, value)| {
                    effect(command, key, Effect::Take { value, expiry: ExpiryChange::Never, took: took == 1 })
                })
                .collect(),
            _ => none(),
        },
        LockEffect::SetManyByOptions => set_many(command),
        // A part of a value is none.
        LockEffect::GetRange if words.get(2..4) != Some(&[b"0", b"-1"]) => none(),
        LockEffect::Get | LockEffect::GetRange => match answer() {
            ReplyValue::Text(value) => one(command, key, Effect::Read { value: Some(value) }),
            ReplyValue::Null => one(command, key, Effect::Read { value: None }),
            _ => none(),
        },
        LockEffect::GetAndExpire => match answer() {
            ReplyValue::Text(value) => {
                let mut effects = one(command, key, Effect::Read { value: Some(value) });
                let options = SetOptions::of(&words[2..]);
                if options.expiry != ExpiryChange::Kept {
                    effects.push(effect(command, key, Effect::Expire { expiry: options.expiry, done: true }));
                }
                effects
            }
            ReplyValue::Null => one(command, key, Effect::Read { value: None }),
            _ => none(),
        },
        LockEffect::GetAndDelete => match answer() {
            ReplyValue::Text(value) => {
                let mut effects = one(command, key, Effect::Read { value: Some(value) });
                effects.push(effect(command, key, Effect::Delete { removed: Some(true) }));
                effects
            }
            ReplyValue::Null => one(command, key, Effect::Delete { removed: Some(false) }),
            _ => none(),
        },
        LockEffect::GetMany => words[1..]
            .iter()
            .zip(reply_values(reply))
            .filter_map(|(key, answer)| match answer {
                ReplyValue::Text(value) => Some(effect(command, key, Effect::Read { value: Some(value) })),
                ReplyValue::Null => Some(effect(command, key, Effect::Read { value: None })),
                _ => None,
            })
            .collect(),
        LockEffect::Exists => match answer() {
            ReplyValue::Number(0) => {
                words[1..].iter().map(|key| effect(command, key, Effect::Read { value: None })).collect()
            }
            _ => none(),
        },
        LockEffect::Delete => match answer() {
            ReplyValue::Number(count) => {
                let keys = &words[1..];
                let all = usize::try_from(count).is_ok_and(|count| count == keys.len());
                let removed = if all { Some(true) } else { (count == 0).then_some(false) };
                keys.iter().map(|key| effect(command, key, Effect::Delete { removed })).collect()
            }
            _ => none(),
        },
        LockEffect::DeleteIfEqual => match answer() {
            ReplyValue::Number(count) => delete_if(command, key, count, Some(value)),
            _ => none(),
        },
        LockEffect::DeleteByOptions => {
            let token = match words.get(2) {
                Some(word) if word.eq_ignore_ascii_case(b"IFEQ") => Some(words.get(3).copied()),
                Some(word) if word.eq_ignore_ascii_case(b"IFDEQ") => Some(None),
                _ => None,
            };
            match (answer(), token) {
                (ReplyValue::Number(count), Some(token)) => delete_if(command, key, count, token),
                (ReplyValue::Number(count), None) => one(command, key, Effect::Delete { removed: Some(count == 1) }),
                _ => none(),
            }
        }
        LockEffect::Expire(unit, from) => match answer() {
            ReplyValue::Number(done) => {
                let given = millis(unit, number(words, 2));
                let expiry = match from {
                    TtlFrom::Now => ExpiryChange::In(given),
                    TtlFrom::Epoch => ExpiryChange::At(given),
                };
                one(command, key, Effect::Expire { expiry, done: done == 1 })
            }
            _ => none(),
        },
        LockEffect::Persist => match answer() {
            ReplyValue::Number(done) => {
                one(command, key, Effect::Expire { expiry: ExpiryChange::Never, done: done == 1 })
            }
            _ => none(),
        },
        LockEffect::RemoveMember => match answer() {
            ReplyValue::Number(count) => {
                let (shape, missed) = (LockShape::Semaphore, count == 0);
                one(command, key, Effect::RemoveMember { shape, member: value, count: 0, missed })
            }
            _ => none(),
        },
        LockEffect::Rename | LockEffect::RenameIfAbsent | LockEffect::Move | LockEffect::Copy => {
            transfer(kind, command, key)
        }
        LockEffect::Restore if answer().text().is_some() => {
            let expiry = restored_expiry(words);
            one(command, key, Effect::Arrive { value: None, expiry, claim: Claim::Sets })
        }
        LockEffect::CountMember
        | LockEffect::SetMember
        | LockEffect::RemoveField
        | LockEffect::AddMember
        | LockEffect::OtherWrite
            if !matches!(answer(), ReplyValue::Error) =>
        {
            one(command, key, Effect::OtherWrite)
        }
        LockEffect::None
        | LockEffect::SetWithTtl(_)
        | LockEffect::SetMany
        | LockEffect::CountMember
        | LockEffect::SetMember
        | LockEffect::AddMember
        | LockEffect::RemoveField
        | LockEffect::FindMember
        | LockEffect::CountMembers
        | LockEffect::Restore
        | LockEffect::SwapDatabases
        | LockEffect::FlushDatabase
        | LockEffect::FlushAll
        | LockEffect::OtherWrite => none(),
    }
}

/// `key value [options]`
fn set<'a>(command: Executed<'a, '_>, key: &'a [u8], value: &'a [u8]) -> KeyEffects<'a> {
    let options = SetOptions::of(command.words.get(3..).unwrap_or_default());
    let answer = ReplyValue::of(command.reply);
    if matches!(answer, ReplyValue::Error | ReplyValue::Other | ReplyValue::Number(_)) {
        return SmallVec::new();
    }
    // With GET the reply is the old value.
    let old = options.get.then(|| answer.text());
    let expiry = options.new_expiry();
    match options.condition {
        Condition::Absent => {
            let took = if options.get { answer == ReplyValue::Null } else { answer != ReplyValue::Null };
            one(command, key, Effect::Take { value, expiry, took })
        }
        Condition::Equal(token) => {
            let is_set = match options.get {
                true => answer.text().is_some() && (token.is_none() || answer.text() == token),
                false => answer != ReplyValue::Null,
            };
            match is_set {
                true => compared(command, key, Effect::Set { value, expiry, old }, token),
                false => compared(command, key, Effect::NotOwned { intent: Intent::Extend, is_known: true }, token),
            }
        }
        Condition::None | Condition::Exists | Condition::Other => {
            let is_set = options.condition == Condition::None
                || if options.get { answer != ReplyValue::Null } else { answer.text().is_some() };
            match is_set {
                true => one(command, key, Effect::Set { value, expiry, old }),
                false => SmallVec::new(),
            }
        }
    }
}

/// `numkeys key value [key value ...] [options]`
fn set_many<'a>(command: Executed<'a, '_>) -> KeyEffects<'a> {
    let count = usize::try_from(number(command.words, 1)).unwrap_or(0);
    let Some(end) = count.checked_mul(2).and_then(|words| words.checked_add(2)) else { return SmallVec::new() };
    let (Some(given), Some(rest)) = (command.words.get(2..end), command.words.get(end..)) else {
        return SmallVec::new();
    };
    let options = SetOptions::of(rest);
    let expiry = options.new_expiry();
    let ReplyValue::Number(done) = ReplyValue::of(command.reply) else { return SmallVec::new() };
    let set = |value| match options.condition {
        Condition::Absent => Some(Effect::Take { value, expiry, took: done == 1 }),
        _ if done == 1 => Some(Effect::Set { value, expiry, old: None }),
        _ => None,
    };
    pairs(given).filter_map(|(key, value)| Some(effect(command, key, set(value)?))).collect()
}

/// A deletion that compares the value first; without a token, its digest.
fn delete_if<'a>(command: Executed<'a, '_>, key: &'a [u8], count: i64, token: Option<&'a [u8]>) -> KeyEffects<'a> {
    let effect = match count {
        1 => Effect::Delete { removed: Some(true) },
        _ => Effect::NotOwned { intent: Intent::Release, is_known: true },
    };
    compared(command, key, effect, token)
}

/// A command that carries a value to another key or database.
fn transfer<'a>(kind: LockEffect, command: Executed<'a, '_>, key: &'a [u8]) -> KeyEffects<'a> {
    let Executed { words, db, reply } = command;
    let second = words.get(2).copied().unwrap_or_default();
    let (answer, none) = (ReplyValue::of(reply), SmallVec::new());
    let (kind, to_db, to_key, done) = match (kind, answer) {
        (LockEffect::Rename, ReplyValue::Text(_)) => (TransferKind::Rename, Some(db), second, true),
        (LockEffect::RenameIfAbsent, ReplyValue::Number(done)) => {
            (TransferKind::RenameIfAbsent, Some(db), second, done == 1)
        }
        (LockEffect::Move, ReplyValue::Number(done)) => (TransferKind::Move, database(words, 2), key, done == 1),
        (LockEffect::Copy, ReplyValue::Number(done)) => {
            let options = words.get(3..).unwrap_or_default();
            let named = options.iter().position(|word| word.eq_ignore_ascii_case(b"DB"));
            let to_db = named.map_or(Some(db), |at| database(options, at + 1));
            (TransferKind::Copy, to_db, second, done == 1)
        }
        _ => return none,
    };
    let Some(to_db) = to_db.filter(|to_db| (*to_db, to_key) != (db, key)) else { return none };
    one(command, key, Effect::Transfer { to_db, to_key, kind, done })
}

/// `key ttl payload [ABSTTL] ...`
fn restored_expiry(words: &[&[u8]]) -> ExpiryChange {
    let is_absolute = words.iter().skip(4).any(|word| word.eq_ignore_ascii_case(b"ABSTTL"));
    match number(words, 2) {
        0 => ExpiryChange::Never,
        at if is_absolute => ExpiryChange::At(at),
        millis => ExpiryChange::In(millis),
    }
}

/// The condition of a SET.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Condition<'a> {
    None,
    Absent,
    /// Only if the key exists.
    Exists,
    /// Only if the key has this value; `None` if a digest is given.
    Equal(Option<&'a [u8]>),
    Other,
}

/// The options of SET and of the commands that share them.
pub struct SetOptions<'a> {
    pub condition: Condition<'a>,
    pub get: bool,
    keeps_expiry: bool,
    expiry: ExpiryChange,
}

impl<'a> SetOptions<'a> {
    pub fn of(words: &[&'a [u8]]) -> Self {
        let mut options =
            Self { condition: Condition::None, get: false, keeps_expiry: false, expiry: ExpiryChange::Kept };
        let mut at = 0;
        while let Some(word) = words.get(at) {
            let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
            let given = number(words, at + 1);
            let mut takes_value = true;
            if is("EX") {
                options.expiry = ExpiryChange::In(given.saturating_mul(1000));
            } else if is("PX") {
                options.expiry = ExpiryChange::In(given);
            } else if is("EXAT") {
                options.expiry = ExpiryChange::At(given.saturating_mul(1000));
            } else if is("PXAT") {
                options.expiry = ExpiryChange::At(given);
            } else if is("IFEQ") {
                options.condition = Condition::Equal(words.get(at + 1).copied());
            } else if is("IFDEQ") {
                options.condition = Condition::Equal(None);
            } else if is("IFNE") || is("IFDNE") {
                options.condition = Condition::Other;
            } else {
                takes_value = false;
                if is("NX") {
                    options.condition = Condition::Absent;
                } else if is("XX") {
                    options.condition = Condition::Exists;
                } else if is("GET") {
                    options.get = true;
                } else if is("KEEPTTL") {
                    options.keeps_expiry = true;
                } else if is("PERSIST") {
                    options.expiry = ExpiryChange::Never;
                }
            }
            at += 1 + usize::from(takes_value);
        }
        options
    }

    /// A command that sets a key takes its deadline away, unless the options say otherwise.
    fn new_expiry(&self) -> ExpiryChange {
        if self.expiry == ExpiryChange::Kept && !self.keeps_expiry { ExpiryChange::Never } else { self.expiry }
    }
}

/// The deadline that EXPIRE and its kin give.
pub fn expiry_of(name: &str, time: &[u8]) -> ExpiryChange {
    let time = parse_integer(time).unwrap_or(0);
    match name {
        "EXPIRE" => ExpiryChange::In(time.saturating_mul(1000)),
        "PEXPIRE" => ExpiryChange::In(time),
        "EXPIREAT" => ExpiryChange::At(time.saturating_mul(1000)),
        "PEXPIREAT" => ExpiryChange::At(time),
        _ => ExpiryChange::Never,
    }
}

fn millis(unit: TtlUnit, time: i64) -> i64 {
    match unit {
        TtlUnit::Seconds => time.saturating_mul(1000),
        TtlUnit::Millis => time,
    }
}

fn pairs<'a, 'w>(words: &'w [&'a [u8]]) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a, 'w> {
    words.chunks_exact(2).map(|pair| (pair[0], pair[1]))
}

fn number(words: &[&[u8]], at: usize) -> i64 {
    words.get(at).and_then(|word| parse_integer(word)).unwrap_or(0)
}

fn database(words: &[&[u8]], at: usize) -> Option<u32> {
    u32::try_from(parse_integer(words.get(at)?)?).ok()
}

fn effect<'a>(command: Executed<'a, '_>, key: &'a [u8], effect: Effect<'a>) -> KeyEffect<'a> {
    KeyEffect { db: command.db, key, effect, precondition: Precondition::None }
}

fn one<'a>(command: Executed<'a, '_>, key: &'a [u8], done: Effect<'a>) -> KeyEffects<'a> {
    smallvec![effect(command, key, done)]
}

fn compared<'a>(command: Executed<'a, '_>, key: &'a [u8], done: Effect<'a>, token: Option<&'a [u8]>) -> KeyEffects<'a> {
    smallvec![KeyEffect { precondition: Precondition::Compared(token), ..effect(command, key, done) }]
}
