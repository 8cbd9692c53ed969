//! What commands did whose replies are not in the journal: as much as follows from what is known of their keys.
//!
//! The journal may be another program's (MONITOR shows no replies), or the client wanted none. Where nothing follows, the
//! key is in doubt from then on.

use smallvec::SmallVec;

use super::command_effects::{Condition, Executed, SetOptions, effects_of};
use super::effect::{Effect, KeyEffect, KeyEffects, Precondition};
use crate::protocol::parse_integer;
use crate::spec::{Flag, LockEffect, RequestKeys, Table};

/// What is known of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Knowledge {
    Unknown,
    /// The server does not have it.
    Absent,
    /// The server has it with this value.
    Value(Box<[u8]>),
}

/// What is known of some keys, command by command.
pub struct KnownKeys<F> {
    keys: Vec<(u32, Box<[u8]>, Knowledge)>,
    /// What is known of a key before the first command.
    before: F,
}

/// What follows about a command.
pub enum Conclusion {
    /// Its reply was this one.
    Reply(Vec<u8>),
    /// Whatever the reply was, the keys are gone now.
    Gone,
    /// Nothing; its keys are in doubt.
    Unknown,
}

impl<F: Fn(u32, &[u8]) -> Knowledge> KnownKeys<F> {
    pub fn new(before: F) -> Self {
        Self { keys: Vec::new(), before }
    }

    pub fn of(&mut self, db: u32, key: &[u8]) -> &mut Knowledge {
        let at = self.keys.iter().position(|(other, known, _)| *other == db && **known == *key);
        let at = at.unwrap_or_else(|| {
            self.keys.push((db, key.into(), (self.before)(db, key)));
            self.keys.len() - 1
        });
        &mut self.keys[at].2
    }

    /// Concludes what a command replied, and what its keys are afterwards. `keys` are those that it names.
    pub fn conclude(&mut self, kind: LockEffect, db: u32, words: &[&[u8]], keys: &[&[u8]]) -> Conclusion {
        let value = |at: usize| words.get(at).copied().unwrap_or_default();
        let reply = |text: &str| Conclusion::Reply(text.as_bytes().to_vec());
        let Some(&key) = keys.first() else { return reply("+OK\r\n") };
        let known = self.of(db, key);
        let was = known.clone();
        match (kind, was) {
            (LockEffect::SetByOptions, was) => {
                let options = SetOptions::of(words.get(3..).unwrap_or_default());
                let is_set = match (options.condition, &was) {
                    (Condition::None, _) | (Condition::Absent, Knowledge::Absent) => Some(true),
                    (Condition::Absent, Knowledge::Value(_)) => Some(false),
                    (Condition::Equal(Some(_)) | Condition::Exists, Knowledge::Absent) => Some(false),
                    (Condition::Equal(Some(token)), Knowledge::Value(found)) => Some(**found == *token),
                    (Condition::Exists, Knowledge::Value(_)) => Some(true),
                    _ => None,
                };
                if is_set != Some(false) {
                    *known = if is_set.is_some() { Knowledge::Value(value(2).into()) } else { Knowledge::Unknown };
                }
                match (is_set, options.get, was) {
                    (None, ..) | (_, true, Knowledge::Unknown) => Conclusion::Unknown,
                    (_, true, Knowledge::Value(found)) => Conclusion::Reply(bulk(&found)),
                    (_, true, Knowledge::Absent) | (Some(false), ..) => reply("$-1\r\n"),
                    (Some(true), ..) => reply("+OK\r\n"),
                }
            }
            (LockEffect::SetIfAbsent, Knowledge::Absent) => {
                *known = Knowledge::Value(value(2).into());
                reply(":1\r\n")
            }
            (LockEffect::SetIfAbsent, Knowledge::Value(_)) => reply(":0\r\n"),
            (LockEffect::SetWithTtl(_), _) => {
                *known = Knowledge::Value(value(3).into());
                reply("+OK\r\n")
            }
            (LockEffect::SetMany, _) => {
                for pair in words[1..].chunks_exact(2) {
                    *self.of(db, pair[0]) = Knowledge::Value(pair[1].into());
                }
                reply("+OK\r\n")
            }
            (LockEffect::SetAndReturn, was) => {
                *known = Knowledge::Value(value(2).into());
                match was {
                    Knowledge::Unknown => Conclusion::Unknown,
                    Knowledge::Absent => reply("$-1\r\n"),
                    Knowledge::Value(found) => Conclusion::Reply(bulk(&found)),
                }
            }
            (LockEffect::Get, Knowledge::Absent) => reply("$-1\r\n"),
            (LockEffect::Get, Knowledge::Value(found)) => Conclusion::Reply(bulk(&found)),
            (LockEffect::GetAndDelete, was) => {
                *known = Knowledge::Absent;
                match was {
                    Knowledge::Unknown => Conclusion::Gone,
                    Knowledge::Absent => reply("$-1\r\n"),
                    Knowledge::Value(found) => Conclusion::Reply(bulk(&found)),
                }
            }
            (LockEffect::Delete, was) => {
                let is_one = keys.len() == 1;
                for key in keys {
                    *self.of(db, key) = Knowledge::Absent;
                }
                match was {
                    Knowledge::Absent if is_one => reply(":0\r\n"),
                    Knowledge::Value(_) if is_one => reply(":1\r\n"),
                    _ => Conclusion::Gone,
                }
            }
            (LockEffect::DeleteIfEqual, was) => delete_if(known, &was, value(2)),
            (LockEffect::DeleteByOptions, was) if value(2).eq_ignore_ascii_case(b"IFEQ") => {
                delete_if(known, &was, value(3))
            }
            // NX, XX, GT and LT depend on the deadline.
            (LockEffect::Expire(..), Knowledge::Value(_)) if words.len() == 3 => reply(":1\r\n"),
            (LockEffect::Expire(..), Knowledge::Absent) => reply(":0\r\n"),
            // These change no key that is not there, and nothing else either.
            (
                LockEffect::None | LockEffect::Exists | LockEffect::GetMany | LockEffect::Get | LockEffect::GetRange,
                _,
            ) => reply(""),
            (LockEffect::FindMember | LockEffect::CountMembers, _) => reply(""),
            _ => {
                for key in keys {
                    *self.of(db, key) = Knowledge::Unknown;
                }
                Conclusion::Unknown
            }
        }
    }
}

fn delete_if(known: &mut Knowledge, was: &Knowledge, token: &[u8]) -> Conclusion {
    let is_deleted = match was {
        Knowledge::Unknown => return Conclusion::Unknown,
        Knowledge::Absent => false,
        Knowledge::Value(found) => **found == *token,
    };
    if is_deleted {
        *known = Knowledge::Absent;
    }
    Conclusion::Reply(if is_deleted { b":1\r\n".to_vec() } else { b":0\r\n".to_vec() })
}

fn bulk(value: &[u8]) -> Vec<u8> {
    [format!("${}\r\n", value.len()).as_bytes(), value, b"\r\n"].concat()
}

/// What a command did whose reply is concluded.
pub fn concluded_effects<'a>(
    kind: LockEffect,
    db: u32,
    words: &[&'a [u8]],
    keys: &[&'a [u8]],
    conclusion: &'a Conclusion,
) -> KeyEffects<'a> {
    let of_keys = |effect: Effect<'a>| -> KeyEffects<'a> {
        keys.iter().map(|key| KeyEffect { db, key, effect: effect.clone(), precondition: Precondition::None }).collect()
    };
    match conclusion {
        Conclusion::Reply(reply) => effects_of(kind, Executed { db, words, reply }),
        Conclusion::Gone => of_keys(Effect::Delete { removed: None }),
        Conclusion::Unknown => of_keys(Effect::Unknown { may_take: takes_free_keys(kind, words) }),
    }
}

/// What a command may have done of which only the words are known, and perhaps not all of them.
pub fn unknown_effects<'a>(db: u32, keys: impl IntoIterator<Item = &'a [u8]>, may_take: bool) -> KeyEffects<'a> {
    let unknown = |key| KeyEffect { db, key, effect: Effect::Unknown { may_take }, precondition: Precondition::None };
    keys.into_iter().map(unknown).collect()
}

/// Whether a command sets keys that are free, and no others.
pub fn takes_free_keys(kind: LockEffect, words: &[&[u8]]) -> bool {
    match kind {
        LockEffect::SetIfAbsent => true,
        LockEffect::SetByOptions => SetOptions::of(words.get(3..).unwrap_or_default()).condition == Condition::Absent,
        _ => false,
    }
}

/// A command that a script ran.
pub struct ScriptCommand<'a> {
    pub kind: LockEffect,
    pub db: u32,
    pub words: &'a [&'a [u8]],
    pub keys: Vec<&'a [u8]>,
}

/// Fills in the replies of the commands that a script ran, as far as they follow. A script that reads a key and changes it
/// then has found there the one of its arguments that is no number.
pub fn replies_in_script(
    commands: &[ScriptCommand<'_>],
    args: &[&[u8]],
    known: &mut KnownKeys<impl Fn(u32, &[u8]) -> Knowledge>,
) -> Vec<Conclusion> {
    let mut tokens = args.iter().filter(|arg| parse_integer(arg).is_none());
    let token = tokens.next().filter(|_| tokens.next().is_none());
    let mut concluded = Vec::with_capacity(commands.len());
    for (at, ScriptCommand { kind, db, words, keys }) in commands.iter().enumerate() {
        if let (LockEffect::Get, Some(&key), Some(token)) = (kind, keys.first(), token)
            && *known.of(*db, key) == Knowledge::Unknown
        {
            let changes = |later: &ScriptCommand<'_>| {
                let is_change = matches!(later.kind, LockEffect::Delete | LockEffect::Expire(..));
                later.db == *db && later.keys.contains(&key) && is_change
            };
            if commands[at + 1..].iter().any(changes) {
                *known.of(*db, key) = Knowledge::Value((*token).into());
            }
        }
        concluded.push(known.conclude(*kind, *db, words, keys));
    }
    concluded
}

/// The keys of a command in the order of its words, and whether it writes.
pub fn accessed_keys<'a>(commands: &Table, words: &[&'a [u8]]) -> (SmallVec<[&'a [u8]; 4]>, bool) {
    let Some(row) = words.first().and_then(|name| commands.find(name)) else { return (SmallVec::new(), false) };
    if let Some(key) = row.only_key(words) {
        return (SmallVec::from_slice(&[key]), row.has_flag(Flag::Write));
    }
    let owned: crate::protocol::OwnedWords = words.iter().collect();
    let RequestKeys { keys, writes } = commands.keys(owned.as_words());
    // The words themselves live longer than their copy.
    let same = |key: &&[u8]| words.iter().skip(1).find(|word| **word == *key).copied();
    (keys.iter().filter_map(same).collect(), writes)
}

/// The keys of a command that is about keys at all.
pub fn keys_of<'a>(commands: &Table, words: &[&'a [u8]]) -> SmallVec<[&'a [u8]; 4]> {
    if let Some(key) = words.first().and_then(|name| commands.find(name)).and_then(|row| row.only_key(words)) {
        return SmallVec::from_slice(&[key]);
    }
    let owned: crate::protocol::OwnedWords = words.iter().collect();
    let positions = commands.keys(owned.as_words()).keys;
    let is_key = |word: &&&'a [u8]| positions.iter().any(|key| *key == **word);
    // The words themselves live longer than their copy.
    let mut keys: SmallVec<[&'a [u8]; 4]> = words.iter().skip(1).filter(is_key).copied().collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}
