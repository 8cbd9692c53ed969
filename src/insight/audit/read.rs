//! Finds out what a command has done to keys, by its words and its reply.

use smallvec::{SmallVec, smallvec};

use super::answer::{Answer, answers};
use super::step::{Act, Expiry, Guard, Intent, Shape, Step, Steps};
use crate::protocol::parse_integer;

/// What a command is, as far as locks are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Set,
    SetNx,
    SetEx,
    PSetEx,
    GetSet,
    MSet,
    MSetNx,
    MSetEx,
    Get,
    GetEx,
    GetDel,
    GetRange,
    MGet,
    Exists,
    Del,
    DelIfEq,
    DelEx,
    Expire,
    PExpire,
    ExpireAt,
    PExpireAt,
    Persist,
    HIncrBy,
    HSet,
    HLen,
    HExists,
    HGet,
    HDel,
    ZAdd,
    ZRem,
    ZScore,
    ZCard,
    FlushDb,
    FlushAll,
    Watch,
    Unwatch,
    Multi,
    Discard,
    Exec,
    Eval,
    EvalSha,
    Push,
    Pop,
    Publish,
    Subscribe,
    Change,
    SetName,
    Nothing,
}

/// Which command a name is. Names are at most so long.
const LONGEST: usize = 12;

impl Verb {
    pub fn of(name: &[u8]) -> Self {
        let mut upper = [0; LONGEST];
        let Some(upper) = upper.get_mut(..name.len()) else { return Self::Nothing };
        for (to, from) in upper.iter_mut().zip(name) {
            *to = from.to_ascii_uppercase();
        }
        match &*upper {
            b"SET" => Self::Set,
            b"SETNX" => Self::SetNx,
            b"SETEX" => Self::SetEx,
            b"PSETEX" => Self::PSetEx,
            b"GETSET" => Self::GetSet,
            b"MSET" => Self::MSet,
            b"MSETNX" => Self::MSetNx,
            b"MSETEX" => Self::MSetEx,
            b"GET" => Self::Get,
            b"GETEX" => Self::GetEx,
            b"GETDEL" => Self::GetDel,
            b"GETRANGE" | b"SUBSTR" => Self::GetRange,
            b"MGET" => Self::MGet,
            b"EXISTS" => Self::Exists,
            b"DEL" | b"UNLINK" => Self::Del,
            b"DELIFEQ" => Self::DelIfEq,
            b"DELEX" => Self::DelEx,
            b"EXPIRE" => Self::Expire,
            b"PEXPIRE" => Self::PExpire,
            b"EXPIREAT" => Self::ExpireAt,
            b"PEXPIREAT" => Self::PExpireAt,
            b"PERSIST" => Self::Persist,
            b"HINCRBY" => Self::HIncrBy,
            b"HSET" => Self::HSet,
            b"HLEN" => Self::HLen,
            b"HEXISTS" => Self::HExists,
            b"HGET" => Self::HGet,
            b"HDEL" => Self::HDel,
            b"ZADD" => Self::ZAdd,
            b"ZREM" => Self::ZRem,
            b"ZSCORE" => Self::ZScore,
            b"ZCARD" | b"ZCOUNT" => Self::ZCard,
            b"FLUSHDB" => Self::FlushDb,
            b"FLUSHALL" => Self::FlushAll,
            b"WATCH" => Self::Watch,
            b"UNWATCH" => Self::Unwatch,
            b"MULTI" => Self::Multi,
            b"DISCARD" => Self::Discard,
            b"EXEC" => Self::Exec,
            b"EVAL" | b"EVAL_RO" => Self::Eval,
            b"EVALSHA" | b"EVALSHA_RO" | b"FCALL" | b"FCALL_RO" => Self::EvalSha,
            b"LPUSH" | b"RPUSH" => Self::Push,
            b"BLPOP" | b"BRPOP" | b"LPOP" | b"RPOP" | b"BLMOVE" | b"BRPOPLPUSH" => Self::Pop,
            b"PUBLISH" | b"SPUBLISH" => Self::Publish,
            b"SUBSCRIBE" | b"SSUBSCRIBE" => Self::Subscribe,
            b"INCR" | b"DECR" | b"INCRBY" | b"DECRBY" | b"INCRBYFLOAT" | b"APPEND" | b"SETRANGE" | b"SETBIT"
            | b"HSETNX" | b"HMSET" | b"SADD" | b"SREM" | b"SPOP" | b"LREM" | b"LSET" | b"XADD" | b"ZINCRBY"
            | b"PFADD" | b"HINCRBYFLOAT" | b"INCREX" => Self::Change,
            b"CLIENT" => Self::SetName,
            _ => Self::Nothing,
        }
    }
}

/// A command as it ran, with its reply.
#[derive(Clone, Copy)]
pub struct Ran<'a, 'w> {
    pub db: u32,
    pub words: &'w [&'a [u8]],
    pub reply: &'a [u8],
}

/// What a single command has done. Scripts and EXEC are read elsewhere.
pub fn read<'a>(verb: Verb, ran: Ran<'a, '_>) -> Steps<'a> {
    let Ran { words, reply, .. } = ran;
    let answer = || Answer::of(reply);
    let Some(&key) = words.get(1) else {
        return match verb {
            Verb::FlushAll if answer().text().is_some() => one(ran, b"", Act::Flush { all: true }),
            Verb::FlushDb if answer().text().is_some() => one(ran, b"", Act::Flush { all: false }),
            _ => SmallVec::new(),
        };
    };
    let value = words.get(2).copied().unwrap_or_default();
    match verb {
        Verb::Set => set(ran, key, value),
        Verb::SetNx => match answer() {
            Answer::Number(took) => one(ran, key, Act::Take { value, expiry: Expiry::Never, took: took == 1 }),
            _ => SmallVec::new(),
        },
        Verb::SetEx | Verb::PSetEx if answer().text().is_some() => {
            let value = words.get(3).copied().unwrap_or_default();
            let scale = if verb == Verb::SetEx { 1000 } else { 1 };
            let expiry = Expiry::In(number(words, 2).saturating_mul(scale));
            one(ran, key, Act::Put { value, expiry, old: None })
        }
        Verb::GetSet => match answer() {
            Answer::Text(old) => one(ran, key, Act::Put { value, expiry: Expiry::Never, old: Some(Some(old)) }),
            Answer::Null => one(ran, key, Act::Put { value, expiry: Expiry::Never, old: Some(None) }),
            _ => SmallVec::new(),
        },
        Verb::MSet if answer().text().is_some() => pairs(&words[1..])
            .map(|(key, value)| step(ran, key, Act::Put { value, expiry: Expiry::Never, old: None }))
            .collect(),
        Verb::MSetNx => match answer() {
            Answer::Number(took) => pairs(&words[1..])
                .map(|(key, value)| step(ran, key, Act::Take { value, expiry: Expiry::Never, took: took == 1 }))
                .collect(),
            _ => SmallVec::new(),
        },
        Verb::MSetEx => many_with_expiry(ran),
        // A part of a value is none.
        Verb::GetRange if words.get(2..4) != Some(&[b"0", b"-1"]) => SmallVec::new(),
        Verb::Get | Verb::GetRange => match answer() {
            Answer::Text(value) => one(ran, key, Act::Read { value: Some(value) }),
            Answer::Null => one(ran, key, Act::Read { value: None }),
            _ => SmallVec::new(),
        },
        Verb::GetEx => match answer() {
            Answer::Text(value) => {
                let mut steps = one(ran, key, Act::Read { value: Some(value) });
                let options = Options::of(&words[2..]);
                if options.expiry != Expiry::Kept {
                    steps.push(step(ran, key, Act::Expire { expiry: options.expiry, done: true }));
                }
                steps
            }
            Answer::Null => one(ran, key, Act::Read { value: None }),
            _ => SmallVec::new(),
        },
        Verb::GetDel => match answer() {
            Answer::Text(value) => {
                let mut steps = one(ran, key, Act::Read { value: Some(value) });
                steps.push(step(ran, key, Act::Remove { removed: Some(true) }));
                steps
            }
            Answer::Null => one(ran, key, Act::Remove { removed: Some(false) }),
            _ => SmallVec::new(),
        },
        Verb::MGet => words[1..]
            .iter()
            .zip(answers(reply))
            .filter_map(|(key, answer)| match answer {
                Answer::Text(value) => Some(step(ran, key, Act::Read { value: Some(value) })),
                Answer::Null => Some(step(ran, key, Act::Read { value: None })),
                _ => None,
            })
            .collect(),
        Verb::Del => match answer() {
            Answer::Number(count) => {
                let keys = &words[1..];
                let all = usize::try_from(count).is_ok_and(|count| count == keys.len());
                let removed = if all { Some(true) } else { (count == 0).then_some(false) };
                keys.iter().map(|key| step(ran, key, Act::Remove { removed })).collect()
            }
            _ => SmallVec::new(),
        },
        Verb::DelIfEq => match answer() {
            Answer::Number(1) => compared(ran, key, Act::Remove { removed: Some(true) }, Some(value)),
            Answer::Number(_) => compared(ran, key, Act::Miss { intent: Intent::Release, is_known: true }, Some(value)),
            _ => SmallVec::new(),
        },
        Verb::DelEx => {
            let given = words.get(3).copied();
            let guard = match words.get(2) {
                Some(word) if word.eq_ignore_ascii_case(b"IFEQ") => Some(given),
                Some(word) if word.eq_ignore_ascii_case(b"IFDEQ") => Some(None),
                _ => None,
            };
            match (answer(), guard) {
                (Answer::Number(1), Some(token)) => compared(ran, key, Act::Remove { removed: Some(true) }, token),
                (Answer::Number(_), Some(token)) => {
                    compared(ran, key, Act::Miss { intent: Intent::Release, is_known: true }, token)
                }
                (Answer::Number(count), None) => one(ran, key, Act::Remove { removed: Some(count == 1) }),
                _ => SmallVec::new(),
            }
        }
        Verb::Expire | Verb::PExpire | Verb::ExpireAt | Verb::PExpireAt => match answer() {
            Answer::Number(done) => {
                let given = number(words, 2);
                let expiry = match verb {
                    Verb::Expire => Expiry::In(given.saturating_mul(1000)),
                    Verb::PExpire => Expiry::In(given),
                    Verb::ExpireAt => Expiry::At(given.saturating_mul(1000)),
                    _ => Expiry::At(given),
                };
                one(ran, key, Act::Expire { expiry, done: done == 1 })
            }
            _ => SmallVec::new(),
        },
        Verb::Persist => match answer() {
            Answer::Number(done) => one(ran, key, Act::Expire { expiry: Expiry::Never, done: done == 1 }),
            _ => SmallVec::new(),
        },
        Verb::FlushAll if answer().text().is_some() => one(ran, b"", Act::Flush { all: true }),
        Verb::FlushDb if answer().text().is_some() => one(ran, b"", Act::Flush { all: false }),
        Verb::ZRem => match answer() {
            Answer::Number(count) => {
                let leave = Act::Leave { shape: Shape::Semaphore, member: value, count: 0, missed: count == 0 };
                one(ran, key, leave)
            }
            _ => SmallVec::new(),
        },
        Verb::HIncrBy | Verb::HSet | Verb::HDel | Verb::ZAdd | Verb::Push | Verb::Change
            if !matches!(answer(), Answer::Error) =>
        {
            one(ran, key, Act::Write)
        }
        _ => SmallVec::new(),
    }
}

fn set<'a>(ran: Ran<'a, '_>, key: &'a [u8], value: &'a [u8]) -> Steps<'a> {
    let options = Options::of(ran.words.get(3..).unwrap_or_default());
    let answer = Answer::of(ran.reply);
    if matches!(answer, Answer::Error | Answer::Other | Answer::Number(_)) {
        return SmallVec::new();
    }
    // With GET the reply is what was there.
    let old = options.get.then(|| answer.text());
    let expiry = if options.expiry == Expiry::Kept && !options.keeps { Expiry::Never } else { options.expiry };
    match options.condition {
        Condition::Absent => {
            let took = if options.get { answer == Answer::Null } else { answer != Answer::Null };
            one(ran, key, Act::Take { value, expiry, took })
        }
        Condition::Equal(token) => {
            let is_set = match options.get {
                true => answer.text().is_some() && (token.is_none() || answer.text() == token),
                false => answer != Answer::Null,
            };
            match is_set {
                true => compared(ran, key, Act::Put { value, expiry, old }, token),
                false => compared(ran, key, Act::Miss { intent: Intent::Extend, is_known: true }, token),
            }
        }
        Condition::None | Condition::Other => {
            let is_set = options.condition == Condition::None
                || if options.get { answer != Answer::Null } else { answer.text().is_some() };
            match is_set {
                true => one(ran, key, Act::Put { value, expiry, old }),
                false => SmallVec::new(),
            }
        }
    }
}

/// MSETEX numkeys key value [key value ...] [NX | XX] [EX ...]
fn many_with_expiry<'a>(ran: Ran<'a, '_>) -> Steps<'a> {
    let count = usize::try_from(number(ran.words, 1)).unwrap_or(0);
    let Some(end) = count.checked_mul(2).and_then(|words| words.checked_add(2)) else { return SmallVec::new() };
    let (Some(given), Some(rest)) = (ran.words.get(2..end), ran.words.get(end..)) else { return SmallVec::new() };
    let options = Options::of(rest);
    let expiry = if options.expiry == Expiry::Kept && !options.keeps { Expiry::Never } else { options.expiry };
    let Answer::Number(done) = Answer::of(ran.reply) else { return SmallVec::new() };
    let act = |value| match options.condition {
        Condition::Absent => Some(Act::Take { value, expiry, took: done == 1 }),
        _ if done == 1 => Some(Act::Put { value, expiry, old: None }),
        _ => None,
    };
    pairs(given).filter_map(|(key, value)| Some(step(ran, key, act(value)?))).collect()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Condition<'a> {
    None,
    Absent,
    /// Only if it has this value; without one, if its digest is the one given.
    Equal(Option<&'a [u8]>),
    Other,
}

/// The options of SET.
struct Options<'a> {
    condition: Condition<'a>,
    get: bool,
    keeps: bool,
    expiry: Expiry,
}

impl<'a> Options<'a> {
    fn of(words: &[&'a [u8]]) -> Self {
        let mut options = Self { condition: Condition::None, get: false, keeps: false, expiry: Expiry::Kept };
        let mut at = 0;
        while let Some(word) = words.get(at) {
            let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
            let given = number(words, at + 1);
            let mut takes_value = true;
            if is("EX") {
                options.expiry = Expiry::In(given.saturating_mul(1000));
            } else if is("PX") {
                options.expiry = Expiry::In(given);
            } else if is("EXAT") {
                options.expiry = Expiry::At(given.saturating_mul(1000));
            } else if is("PXAT") {
                options.expiry = Expiry::At(given);
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
                    options.condition = Condition::Other;
                } else if is("GET") {
                    options.get = true;
                } else if is("KEEPTTL") {
                    options.keeps = true;
                } else if is("PERSIST") {
                    options.expiry = Expiry::Never;
                }
            }
            at += 1 + usize::from(takes_value);
        }
        options
    }
}

fn pairs<'a, 'w>(words: &'w [&'a [u8]]) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a, 'w> {
    words.chunks_exact(2).map(|pair| (pair[0], pair[1]))
}

fn number(words: &[&[u8]], at: usize) -> i64 {
    words.get(at).and_then(|word| parse_integer(word)).unwrap_or(0)
}

fn step<'a>(ran: Ran<'a, '_>, key: &'a [u8], act: Act<'a>) -> Step<'a> {
    Step { db: ran.db, key, act, guard: Guard::Blind, joint: false }
}

fn one<'a>(ran: Ran<'a, '_>, key: &'a [u8], act: Act<'a>) -> Steps<'a> {
    smallvec![step(ran, key, act)]
}

fn compared<'a>(ran: Ran<'a, '_>, key: &'a [u8], act: Act<'a>, token: Option<&'a [u8]>) -> Steps<'a> {
    smallvec![Step { guard: Guard::Compared(token), ..step(ran, key, act) }]
}
