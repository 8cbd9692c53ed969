//! The data that a script may have found: which replies each command can have, after all that came before it in the run.
//!
//! A reply that cannot come is never given; what is not known about a key is decided when a command asks for it. Commands that
//! are missing here have no known replies, and a script that calls them is not understood. A list by hand, as rows say nothing
//! of replies.

use std::collections::BTreeMap;

use crate::protocol::{parse_float, parse_integer};
use crate::script::symbolic::{Answer, Choices, Word, World};

/// The keys of one run, as far as they were asked for.
#[derive(Default)]
pub struct AssumedData {
    keys: BTreeMap<Vec<u8>, Key>,
}

/// What is assumed about a key. Nothing is by default.
#[derive(Clone, Default)]
struct Key {
    exists: Option<bool>,
    kind: Option<Kind>,
    /// The value of a string.
    value: Option<Answer>,
    /// It has a deadline.
    expires: Option<bool>,
    /// Fields of a hash, members of a set or sorted set: whether they are there.
    members: BTreeMap<Vec<u8>, bool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    String,
    List,
    Set,
    SortedSet,
    Hash,
    Stream,
}

impl Kind {
    const ALL: [Self; 6] = [Self::String, Self::List, Self::Set, Self::SortedSet, Self::Hash, Self::Stream];

    fn name(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::List => "list",
            Self::Set => "set",
            Self::SortedSet => "zset",
            Self::Hash => "hash",
            Self::Stream => "stream",
        }
    }
}

/// Commands that no key makes fail.
const FOR_ANY_KEY: &[&str] = &[
    "DEL",
    "UNLINK",
    "EXISTS",
    "TOUCH",
    "TYPE",
    "TTL",
    "PTTL",
    "EXPIRETIME",
    "PEXPIRETIME",
    "PERSIST",
    "SETNX",
    "MSET",
    "MSETNX",
    "MGET",
    "PING",
    "ECHO",
    "TIME",
    "PUBLISH",
    "SPUBLISH",
    "INFO",
];
const OK: Answer = Answer::Status("OK");
const MOST: f64 = i64::MAX as f64;
const LEAST: f64 = i64::MIN as f64;
/// The most elements of a list whose elements are all tried.
const MOST_ELEMENTS: u8 = 3;
/// The most keys or members that one command names.
const MOST_NAMED: usize = 24;

impl Key {
    fn missing() -> Self {
        Self { exists: Some(false), ..Self::default() }
    }

    fn string(value: Option<Answer>, expires: Option<bool>) -> Self {
        Self { exists: Some(true), kind: Some(Kind::String), value, expires, members: BTreeMap::new() }
    }

    fn exists(&mut self, ask: &mut Choices<'_>) -> bool {
        let exists = self.exists.unwrap_or_else(|| ask.either());
        if !exists {
            *self = Self::missing();
        }
        self.exists = Some(exists);
        exists
    }

    /// Whether it exists and is of this kind. `None` if it is known to be of another: the command fails.
    fn is(&mut self, kind: Kind, ask: &mut Choices<'_>) -> Option<bool> {
        if !self.exists(ask) {
            return Some(false);
        }
        match self.kind {
            Some(known) if known != kind => None,
            _ => {
                self.kind = Some(kind);
                Some(true)
            }
        }
    }

    /// A command that writes this kind of value has made it exist.
    fn becomes(&mut self, kind: Kind) -> Option<()> {
        if self.exists == Some(true) && self.kind.is_some_and(|known| known != kind) {
            return None;
        }
        if self.exists == Some(false) {
            self.expires = Some(false);
        }
        (self.exists, self.kind) = (Some(true), Some(kind));
        Some(())
    }

    /// Elements were removed: it can be gone.
    fn shrinks(&mut self) {
        self.exists = None;
        self.expires = None;
    }

    fn value(&mut self, ask: &mut Choices<'_>) -> Answer {
        self.value.get_or_insert_with(|| ask.text()).clone()
    }

    /// Whether a member is there.
    fn has(&mut self, kind: Kind, member: &[u8], ask: &mut Choices<'_>) -> Option<bool> {
        if !self.is(kind, ask)? {
            return Some(false);
        }
        Some(*self.members.entry(member.to_vec()).or_insert_with(|| ask.either()))
    }
}

/// A fixed reply to a command that fails for certain.
fn or_error<T>(known: Option<T>, reply: impl FnOnce(T) -> Answer) -> Answer {
    known.map_or(Answer::Error, reply)
}

impl World for AssumedData {
    fn reset(&mut self) {
        self.keys.clear();
    }

    fn can_fail(&self, words: &[Word]) -> bool {
        let Some(Word::Known(name)) = words.first() else { return true };
        !FOR_ANY_KEY.iter().any(|any| name.eq_ignore_ascii_case(any.as_bytes()))
    }

    fn answer(&mut self, words: &[Word], ask: &mut Choices<'_>) -> Option<Answer> {
        // What is known by now of words that were unknown counts, too.
        let known: Vec<Option<Vec<u8>>> = words.iter().map(|word| ask.word(word).map(<[u8]>::to_vec)).collect();
        let name = known.first()?.as_ref()?.to_ascii_lowercase();
        let command = Command { words, known: &known };
        match command.answer_without_key(&name, ask) {
            Some(reply) => reply,
            None => self.answer_keys(&name, &command, ask),
        }
    }
}

/// A command with its words, as far as they are known.
struct Command<'c> {
    words: &'c [Word],
    known: &'c [Option<Vec<u8>>],
}

impl<'c> Command<'c> {
    fn word(&self, index: usize) -> Option<&'c [u8]> {
        self.known.get(index)?.as_deref()
    }

    /// A word, as a reply that gives it back.
    fn echoed(&self, index: usize) -> Option<Answer> {
        match (self.word(index), self.words.get(index)?) {
            (Some(text), _) => Some(Answer::Text(text.to_vec())),
            (None, Word::Unknown(id)) => Some(Answer::Unknown(*id)),
            (None, Word::Known(_)) => None,
        }
    }

    fn number(&self, index: usize) -> Option<i64> {
        parse_integer(self.word(index)?)
    }

    fn has(&self, from: usize, option: &str) -> bool {
        (from..self.known.len())
            .any(|at| self.word(at).is_some_and(|word| word.eq_ignore_ascii_case(option.as_bytes())))
    }

    fn len(&self) -> usize {
        self.known.len()
    }

    /// The words from an index on, all of which must be known.
    fn names(&self, from: usize) -> Option<Vec<&'c [u8]>> {
        let count = self.len().checked_sub(from).filter(|count| (1..=MOST_NAMED).contains(count))?;
        (from..from + count).map(|at| self.word(at)).collect()
    }

    /// Commands that no key changes. `Some(None)` if the reply is not known.
    #[expect(clippy::option_option, reason = "the command is not here, its reply is not known, the reply")]
    fn answer_without_key(&self, name: &[u8], ask: &mut Choices<'_>) -> Option<Option<Answer>> {
        Some(match name {
            b"ping" if self.len() == 1 => Some(Answer::Status("PONG")),
            b"ping" | b"echo" => self.echoed(1),
            b"publish" | b"spublish" => Some(ask.integer(0.0, MOST)),
            b"time" => Some(Answer::List(vec![ask.numeric_text(), ask.numeric_text()])),
            b"info" => Some(ask.text()),
            _ => return None,
        })
    }
}

impl AssumedData {
    fn answer_keys(&mut self, name: &[u8], command: &Command<'_>, ask: &mut Choices<'_>) -> Option<Answer> {
        match name {
            b"del" | b"unlink" | b"exists" | b"touch" => {
                let keys = command.names(1)?;
                let mut count = 0;
                for key in keys {
                    let key = self.keys.entry(key.to_vec()).or_default();
                    count += i64::from(key.exists(ask));
                    if matches!(name, b"del" | b"unlink") {
                        *key = Key::missing();
                    }
                }
                return Some(Answer::Integer(count));
            }
            b"mget" => {
                let values = command.names(1)?.into_iter().map(|key| {
                    let key = self.keys.entry(key.to_vec()).or_default();
                    // A value of another type counts as none.
                    let is_other =
                        key.exists(ask) && key.kind != Some(Kind::String) && (key.kind.is_some() || ask.either());
                    match is_other {
                        false if key.exists == Some(true) => or_error(key.is(Kind::String, ask), |_| key.value(ask)),
                        _ => Answer::Nil,
                    }
                });
                return Some(Answer::List(values.collect()));
            }
            b"mset" | b"msetnx" => {
                let names = command.len().checked_sub(1).filter(|count| count % 2 == 0 && *count > 0)? / 2;
                let keys = (0..names).map(|pair| command.word(1 + pair * 2)).collect::<Option<Vec<_>>>()?;
                if name == b"msetnx" && keys.iter().any(|key| self.key(key).exists(ask)) {
                    return Some(Answer::Integer(0));
                }
                for (pair, key) in keys.into_iter().enumerate() {
                    *self.key(key) = Key::string(command.echoed(2 + pair * 2), Some(false));
                }
                return Some(if name == b"mset" { OK } else { Answer::Integer(1) });
            }
            b"rename" => {
                let (key, target) = (command.word(1)?.to_vec(), command.word(2)?.to_vec());
                if !self.key(&key).exists(ask) {
                    return Some(Answer::Error);
                }
                let moved = std::mem::replace(self.key(&key), Key::missing());
                *self.key(&target) = moved;
                return Some(OK);
            }
            _ => {}
        }
        let key = self.keys.entry(command.word(1)?.to_vec()).or_default();
        answer_string(key, name, command, ask)
            .or_else(|| answer_expiry(key, name, command, ask))
            .or_else(|| answer_hash(key, name, command, ask))
            .or_else(|| answer_set(key, name, command, ask))
            .or_else(|| answer_list(key, name, command, ask))
            .flatten()
    }

    fn key(&mut self, name: &[u8]) -> &mut Key {
        self.keys.entry(name.to_vec()).or_default()
    }
}

/// `None`: the command is not of this kind. `Some(None)`: its reply is not known.
type Found = Option<Option<Answer>>;

fn answer_string(key: &mut Key, name: &[u8], command: &Command<'_>, ask: &mut Choices<'_>) -> Found {
    let is_string = |key: &mut Key, ask: &mut Choices<'_>| key.is(Kind::String, ask);
    Some(Some(match name {
        b"get" => or_error(is_string(key, ask), |is| if is { key.value(ask) } else { Answer::Nil }),
        b"set" => return Some(set(key, command, ask)),
        b"setnx" => {
            if key.exists(ask) {
                return Some(Some(Answer::Integer(0)));
            }
            *key = Key::string(command.echoed(2), Some(false));
            Answer::Integer(1)
        }
        b"setex" | b"psetex" => {
            *key = Key::string(command.echoed(3), Some(true));
            OK
        }
        b"getset" => {
            let old = or_error(is_string(key, ask), |is| if is { key.value(ask) } else { Answer::Nil });
            if old != Answer::Error {
                *key = Key::string(command.echoed(2), Some(false));
            }
            old
        }
        b"getdel" => {
            let old = or_error(is_string(key, ask), |is| if is { key.value(ask) } else { Answer::Nil });
            if old != Answer::Error {
                *key = Key::missing();
            }
            old
        }
        b"strlen" => or_error(is_string(key, ask), |is| if is { ask.integer(0.0, MOST) } else { Answer::Integer(0) }),
        b"getrange" | b"substr" => or_error(is_string(key, ask), |is| match is {
            true if command.number(2) == Some(0) && command.number(3) == Some(-1) => key.value(ask),
            true => ask.text(),
            false => Answer::Text(Vec::new()),
        }),
        b"append" => or_error(key.becomes(Kind::String), |()| {
            key.value = None;
            ask.integer(0.0, MOST)
        }),
        b"incr" | b"decr" | b"incrby" | b"decrby" => count(key, name, command, ask),
        b"incrbyfloat" => or_error(key.becomes(Kind::String), |()| {
            let value = ask.numeric_text();
            key.value = Some(value.clone());
            value
        }),
        _ => return None,
    }))
}

/// INCR and its kin. A counter that did not exist begins at 0.
fn count(key: &mut Key, name: &[u8], command: &Command<'_>, ask: &mut Choices<'_>) -> Answer {
    let by = match name {
        b"incr" => Some(1),
        b"decr" => Some(-1),
        b"incrby" => command.number(2),
        _ => command.number(2).and_then(i64::checked_neg),
    };
    let before = match (&key.exists, &key.value) {
        (Some(false), _) => Some(0),
        (_, Some(Answer::Text(value))) => match parse_integer(value) {
            Some(value) => Some(value),
            None => return Answer::Error,
        },
        _ => None,
    };
    if key.becomes(Kind::String).is_none() {
        return Answer::Error;
    }
    match before.zip(by).and_then(|(before, by)| before.checked_add(by)) {
        Some(sum) => {
            key.value = Some(Answer::Text(sum.to_string().into_bytes()));
            Answer::Integer(sum)
        }
        None => {
            key.value = None;
            ask.integer(LEAST, MOST)
        }
    }
}

/// `SET key value [options]`
fn set(key: &mut Key, command: &Command<'_>, ask: &mut Choices<'_>) -> Option<Answer> {
    const CONDITIONS: [&str; 4] = ["IFEQ", "IFNE", "IFDEQ", "IFDNE"];
    // An option that is not known can be any.
    if (3..command.len()).any(|at| {
        command.word(at).is_none()
            && !["EX", "PX", "EXAT", "PXAT"]
                .iter()
                .any(|option| command.word(at - 1).is_some_and(|word| word.eq_ignore_ascii_case(option.as_bytes())))
    }) || CONDITIONS.iter().any(|option| command.has(3, option))
    {
        return None;
    }
    let expires = ["EX", "PX", "EXAT", "PXAT"].iter().any(|option| command.has(3, option));
    let (nx, xx, get) = (command.has(3, "NX"), command.has(3, "XX"), command.has(3, "GET"));
    let mut old = Answer::Nil;
    if get {
        old = match key.is(Kind::String, ask) {
            Some(true) => key.value(ask),
            Some(false) => Answer::Nil,
            None => return Some(Answer::Error),
        };
    }
    if (nx || xx) && key.exists(ask) == nx {
        return Some(old);
    }
    let expires =
        if command.has(3, "KEEPTTL") { key.expires.filter(|_| key.exists == Some(true)) } else { Some(expires) };
    // A deadline in the past deletes at once.
    let is_past = ["EXAT", "PXAT"].iter().any(|option| command.has(3, option));
    *key = Key::string(command.echoed(2), expires);
    if is_past {
        key.exists = None;
    }
    Some(if get { old } else { OK })
}

fn answer_expiry(key: &mut Key, name: &[u8], command: &Command<'_>, ask: &mut Choices<'_>) -> Found {
    Some(Some(match name {
        b"expire" | b"pexpire" | b"expireat" | b"pexpireat" => {
            let given = command.word(2).map(parse_integer);
            if given == Some(None) {
                return Some(Some(Answer::Error));
            }
            if !key.exists(ask) || command.len() > 3 && ask.either() {
                return Some(Some(Answer::Integer(0)));
            }
            match given.flatten() {
                Some(0) => *key = Key::missing(),
                Some(given) if given < 0 => *key = Key::missing(),
                Some(_) if matches!(name, b"expire" | b"pexpire") => key.expires = Some(true),
                _ => {
                    key.expires = Some(true);
                    key.exists = None;
                }
            }
            Answer::Integer(1)
        }
        b"persist" => {
            let expires = key.exists(ask) && key.expires.unwrap_or_else(|| ask.either());
            key.expires = Some(false);
            Answer::Integer(i64::from(expires))
        }
        b"ttl" | b"pttl" | b"expiretime" | b"pexpiretime" => {
            if !key.exists(ask) {
                return Some(Some(Answer::Integer(-2)));
            }
            let expires = *key.expires.get_or_insert_with(|| ask.either());
            if expires { ask.integer(0.0, MOST) } else { Answer::Integer(-1) }
        }
        b"type" => {
            if !key.exists(ask) {
                return Some(Some(Answer::Status("none")));
            }
            let kind = *key.kind.get_or_insert_with(|| Kind::ALL[usize::from(ask.choose(6))]);
            Answer::Status(kind.name())
        }
        _ => return None,
    }))
}

fn answer_hash(key: &mut Key, name: &[u8], command: &Command<'_>, ask: &mut Choices<'_>) -> Found {
    const KIND: Kind = Kind::Hash;
    let field = || command.word(2);
    Some(match name {
        b"hexists" => field().map(|field| number(key.has(KIND, field, ask))),
        b"hget" => {
            field().map(|field| or_error(key.has(KIND, field, ask), |has| if has { ask.text() } else { Answer::Nil }))
        }
        b"hmget" => command.names(2).and_then(|fields| {
            let mut values = Vec::new();
            for field in fields {
                values.push(if key.has(KIND, field, ask)? { ask.text() } else { Answer::Nil });
            }
            Some(Answer::List(values))
        }),
        b"hset" | b"hmset" => {
            let pairs =
                command.len().checked_sub(2).filter(|count| count % 2 == 0 && *count > 0).map(|count| count / 2);
            pairs.and_then(|pairs| {
                let fields = (0..pairs).map(|pair| command.word(2 + pair * 2)).collect::<Option<Vec<_>>>()?;
                let added = add(key, KIND, &fields, ask);
                Some(if name == b"hmset" && added != Answer::Error { OK } else { added })
            })
        }
        b"hsetnx" => field().map(|field| match key.has(KIND, field, ask) {
            None => Answer::Error,
            Some(true) => Answer::Integer(0),
            Some(false) => {
                add(key, KIND, &[field], ask);
                Answer::Integer(1)
            }
        }),
        b"hdel" => command.names(2).map(|fields| remove(key, KIND, &fields, ask)),
        b"hincrby" => field().map(|field| {
            let is_new = key.exists == Some(false) || key.members.get(field) == Some(&false);
            let by = command.number(3).filter(|_| is_new);
            or_error(key.becomes(KIND), |()| {
                key.members.insert(field.to_vec(), true);
                by.map_or_else(|| ask.integer(LEAST, MOST), Answer::Integer)
            })
        }),
        b"hincrbyfloat" => field().map(|field| {
            or_error(key.becomes(KIND), |()| {
                key.members.insert(field.to_vec(), true);
                ask.numeric_text()
            })
        }),
        b"hlen" => Some(length(key, KIND, ask)),
        b"hstrlen" => field().map(|_| ask.integer(0.0, MOST)),
        b"hkeys" | b"hvals" => elements(key, KIND, false, 1, ask),
        b"hgetall" => elements(key, KIND, false, 2, ask),
        _ => return None,
    })
}

fn answer_set(key: &mut Key, name: &[u8], command: &Command<'_>, ask: &mut Choices<'_>) -> Found {
    let kind = if name.first() == Some(&b'z') { Kind::SortedSet } else { Kind::Set };
    let member = || command.word(2);
    Some(match name {
        b"sismember" => member().map(|member| number(key.has(kind, member, ask))),
        b"sadd" => command.names(2).map(|members| add(key, kind, &members, ask)),
        b"srem" | b"zrem" => command.names(2).map(|members| remove(key, kind, &members, ask)),
        b"scard" | b"zcard" => Some(length(key, kind, ask)),
        b"smembers" => elements(key, kind, false, 1, ask),
        b"zscore" => member().map(|member| {
            or_error(key.has(kind, member, ask), |has| if has { ask.numeric_text() } else { Answer::Nil })
        }),
        b"zrank" | b"zrevrank" if command.len() == 3 => member().map(|member| {
            or_error(key.has(kind, member, ask), |has| if has { ask.integer(0.0, MOST) } else { Answer::Nil })
        }),
        b"zadd" => zadd(key, command, ask),
        b"zincrby" => command.word(3).map(|member| {
            or_error(key.becomes(kind), |()| {
                key.members.insert(member.to_vec(), true);
                ask.numeric_text()
            })
        }),
        b"zcount" | b"zlexcount" => {
            Some(or_error(key.is(kind, ask), |is| if is { ask.integer(0.0, MOST) } else { Answer::Integer(0) }))
        }
        b"zremrangebyscore" | b"zremrangebyrank" | b"zremrangebylex" => Some(or_error(key.is(kind, ask), |is| {
            if !is {
                return Answer::Integer(0);
            }
            // Nothing removed leaves everything as it is.
            if ask.either() {
                return Answer::Integer(0);
            }
            key.members.retain(|_, is_there| !*is_there);
            key.shrinks();
            ask.integer(1.0, MOST)
        })),
        b"zrange" | b"zrangebyscore" | b"zrevrange" | b"zrevrangebyscore" => {
            elements(key, kind, true, if command.has(4, "WITHSCORES") { 2 } else { 1 }, ask)
        }
        _ => return None,
    })
}

/// `ZADD key [options] score member [score member ...]`
fn zadd(key: &mut Key, command: &Command<'_>, ask: &mut Choices<'_>) -> Option<Answer> {
    let is_score = |at: usize| match command.word(at) {
        Some(word) => parse_float(word).is_some() || word.ends_with(b"inf"),
        None => true,
    };
    let first = (2..command.len()).find(|at| is_score(*at))?;
    let has = |option: &str| {
        (2..first).any(|at| command.word(at).is_some_and(|word| word.eq_ignore_ascii_case(option.as_bytes())))
    };
    let members = (first + 1..command.len()).step_by(2).map(|at| command.word(at)).collect::<Option<Vec<_>>>()?;
    if has("INCR") || has("GT") || has("LT") {
        return None;
    }
    if has("XX") {
        return Some(match key.is(Kind::SortedSet, ask) {
            None => Answer::Error,
            Some(true) if has("CH") => ask.integer(0.0, members.len() as f64),
            Some(_) => Answer::Integer(0),
        });
    }
    if has("CH") {
        return Some(or_error(key.becomes(Kind::SortedSet), |()| {
            key.members.extend(members.iter().map(|member| (member.to_vec(), true)));
            ask.integer(0.0, members.len() as f64)
        }));
    }
    Some(add(key, Kind::SortedSet, &members, ask))
}

fn answer_list(key: &mut Key, name: &[u8], command: &Command<'_>, ask: &mut Choices<'_>) -> Found {
    const KIND: Kind = Kind::List;
    let none_or_text = |key: &mut Key, ask: &mut Choices<'_>| {
        or_error(key.is(KIND, ask), |is| {
            if !is {
                return Answer::Nil;
            }
            key.shrinks();
            ask.text()
        })
    };
    Some(Some(match name {
        b"lpush" | b"rpush" => {
            let (count, is_new) = (command.len().saturating_sub(2) as f64, key.exists == Some(false));
            or_error(key.becomes(KIND), |()| ask.integer(count, if is_new { count } else { MOST }))
        }
        b"lpushx" | b"rpushx" => {
            or_error(key.is(KIND, ask), |is| if is { ask.integer(2.0, MOST) } else { Answer::Integer(0) })
        }
        b"llen" => length(key, KIND, ask),
        b"lpop" | b"rpop" if command.len() == 2 => none_or_text(key, ask),
        b"lindex" => or_error(key.is(KIND, ask), |is| if is && ask.either() { ask.text() } else { Answer::Nil }),
        b"lrem" => or_error(key.is(KIND, ask), |is| {
            if !is || ask.either() {
                return Answer::Integer(0);
            }
            key.shrinks();
            ask.integer(1.0, MOST)
        }),
        b"ltrim" => {
            key.shrinks();
            OK
        }
        b"lset" => or_error(key.is(KIND, ask), |is| if is { OK } else { Answer::Error }),
        b"lrange" => return Some(elements(key, KIND, true, 1, ask)),
        _ => return None,
    }))
}

fn number(is: Option<bool>) -> Answer {
    or_error(is, |is| Answer::Integer(i64::from(is)))
}

fn length(key: &mut Key, kind: Kind, ask: &mut Choices<'_>) -> Answer {
    or_error(key.is(kind, ask), |is| if is { ask.integer(1.0, MOST) } else { Answer::Integer(0) })
}

/// Adds members; the reply counts the new ones.
fn add(key: &mut Key, kind: Kind, members: &[&[u8]], ask: &mut Choices<'_>) -> Answer {
    let was_missing = key.exists == Some(false);
    if key.becomes(kind).is_none() {
        return Answer::Error;
    }
    let (mut low, mut high) = (0.0, 0.0);
    let mut seen: Vec<&[u8]> = Vec::new();
    for &member in members {
        let before =
            if was_missing && !seen.contains(&member) { Some(false) } else { key.members.get(member).copied() };
        low += f64::from(u8::from(before == Some(false)));
        high += f64::from(u8::from(before != Some(true)));
        seen.push(member);
        key.members.insert(member.to_vec(), true);
    }
    ask.integer(low, high)
}

/// Removes members; the reply counts those that were there.
fn remove(key: &mut Key, kind: Kind, members: &[&[u8]], ask: &mut Choices<'_>) -> Answer {
    let mut count = 0;
    for &member in members {
        match key.has(kind, member, ask) {
            None => return Answer::Error,
            Some(false) => {}
            Some(true) => {
                count += 1;
                key.members.insert(member.to_vec(), false);
            }
        }
    }
    if count > 0 {
        key.shrinks();
    }
    Answer::Integer(count)
}

/// A list of elements that are not known. `None` if it can have more than are tried.
fn elements(key: &mut Key, kind: Kind, can_be_empty: bool, width: usize, ask: &mut Choices<'_>) -> Option<Answer> {
    let Some(is) = key.is(kind, ask) else { return Some(Answer::Error) };
    if !is {
        return Some(Answer::List(Vec::new()));
    }
    let least = u8::from(!can_be_empty);
    let count = least + ask.choose(MOST_ELEMENTS + 2 - least);
    if count > MOST_ELEMENTS {
        return None;
    }
    Some(Answer::List((0..usize::from(count) * width).map(|_| ask.text()).collect()))
}
