//! What commands do to a lock that is no string, read from their words and replies.

use super::code::Severity;
use super::command_effects::expiry_of;
use super::finding::{Finding, JournalRef};
use super::lock::LockId;
use super::occupancy::{Act, Mistake, Occupancy, with_key};
use super::reply_value::{ReplyValue, reply_values};
use crate::protocol::parse_integer;

/// A command as it ran.
pub struct Ran<'a> {
    pub db: u32,
    pub words: &'a [&'a [u8]],
    pub reply: &'a [u8],
}

/// What is told about a mistake.
pub fn finding_of(source: &JournalRef, id: &LockId, mistake: Mistake) -> Finding {
    let Mistake { code, client, sentence, mut evidence } = mistake;
    evidence.sort_by_key(|evidence| (evidence.source.real, evidence.source.seq));
    let sentence = format!("{} {}", client.display_name(), with_key(&sentence, &id.key));
    Finding {
        code,
        severity: Severity::Error,
        server: id.server,
        db: id.db,
        key: id.shared_key(),
        sentence,
        evidence,
        times: 1,
        seq: source.seq,
        last_seq: source.seq,
        at: source.at,
        culprit: client.id,
        allowed: None,
        mark: None,
    }
}

/// Applies a command to a lock. Returns whether it is known what the command did.
pub fn applied(lock: &mut Occupancy, act: &mut Act<'_>, name: &str, key: &[u8], command: &Ran<'_>) -> bool {
    let Ran { words, reply, .. } = command;
    let answer = ReplyValue::of(reply);
    if answer == ReplyValue::Error {
        return true;
    }
    let number = answer.number();
    let word = |at: usize| words.get(at).copied().unwrap_or_default();
    let rest = |at: usize| words.get(at..).unwrap_or_default();
    if name != "ZREM" {
        lock.forget_told_place();
    }
    match name {
        "GET" => match answer {
            ReplyValue::Null => lock.look(act, None, 0),
            ReplyValue::Text(value) => {
                if let Some(count) = parse_integer(value) {
                    lock.look(act, None, count);
                }
            }
            _ => {}
        },
        "EXISTS" if words.len() == 2 => lock.look(act, None, number.unwrap_or(1)),
        "LLEN" | "SCARD" | "HLEN" | "ZCARD" | "ZCOUNT" => lock.look(act, None, number.unwrap_or(1)),
        "SMEMBERS" | "HGETALL" | "HKEYS" | "LRANGE" | "ZRANGE" | "ZRANGEBYSCORE" => {
            lock.look(act, None, i64::try_from(reply_values(reply).len()).unwrap_or(1));
        }
        "SISMEMBER" | "HEXISTS" => lock.look(act, Some(word(2)), number.unwrap_or(1)),
        "HGET" | "ZSCORE" => lock.look(act, Some(word(2)), i64::from(answer != ReplyValue::Null)),
        "ZRANK" => {
            if let Some(at) = number {
                lock.tell_place(act, word(2), at);
            }
        }
        "INCR" | "INCRBY" | "DECR" | "DECRBY" => {
            let by = words.get(2).map_or(Some(1), |by| parse_integer(by));
            let (Some(by), Some(now)) = (by, number) else { return false };
            lock.count(act, if name.starts_with("DECR") { -by } else { by }, now);
        }
        "SADD" => match (rest(2), number) {
            ([member], Some(1)) => lock.enter(act, member, 0.0),
            ([member], Some(_)) => lock.refuse(act, member),
            (members, Some(added)) if usize::try_from(added) == Ok(members.len()) => {
                members.iter().for_each(|member| lock.enter(act, member, 0.0));
            }
            _ => return false,
        },
        "HSETNX" => match number {
            Some(1) => lock.enter(act, word(2), 0.0),
            _ => lock.refuse(act, word(2)),
        },
        "HSET" => rest(2).chunks_exact(2).for_each(|pair| lock.overwrite(act, pair[0])),
        "ZADD" => return add_scored(lock, act, rest(2), number),
        "SREM" | "HDEL" | "ZREM" => {
            let members = rest(2);
            let all = number.and_then(|count| usize::try_from(count).ok());
            if members.len() > 1 && all != Some(0) && all != Some(members.len()) {
                return false;
            }
            members.iter().for_each(|member| lock.leave(act, member, all != Some(0)));
        }
        "ZREMRANGEBYSCORE" => match (number, score_of(word(3))) {
            (Some(0), _) => {}
            (_, Some(until)) => lock.expire_members(until),
            _ => return false,
        },
        "LPOP" | "RPOP" if words.len() == 2 => match answer {
            ReplyValue::Text(token) => lock.draw(act, token),
            _ => lock.refuse(act, b""),
        },
        "BLPOP" | "BRPOP" => match reply_values(reply).as_slice() {
            [ReplyValue::Text(from), ReplyValue::Text(token)] if *from == key => lock.draw(act, token),
            [ReplyValue::Text(_), ReplyValue::Text(_)] => {}
            _ => lock.refuse(act, b""),
        },
        "LMOVE" | "RPOPLPUSH" | "BLMOVE" | "BRPOPLPUSH" => match answer {
            ReplyValue::Text(token) if word(1) == key => lock.draw(act, token),
            ReplyValue::Text(token) => lock.put(act, token),
            _ => lock.refuse(act, b""),
        },
        "LPUSH" | "RPUSH" => rest(2).iter().for_each(|token| lock.put(act, token)),
        "DEL" | "UNLINK" | "GETDEL" if number != Some(0) && answer != ReplyValue::Null => lock.delete(act),
        "DEL" | "UNLINK" | "GETDEL" => {}
        "EXPIRE" | "PEXPIRE" | "EXPIREAT" | "PEXPIREAT" | "PERSIST" => {
            if number == Some(1) {
                let expiry = expiry_of(name, word(2));
                lock.set_deadline(expiry.deadline(act.source.at, None));
                lock.advance_time(act.source.at);
            }
        }
        _ => return false,
    }
    true
}

/// `[options] score member [score member ...]`
fn add_scored(lock: &mut Occupancy, act: &mut Act<'_>, words: &[&[u8]], number: Option<i64>) -> bool {
    let options = words.iter().take_while(|word| {
        [&b"NX"[..], b"XX", b"GT", b"LT", b"CH"].iter().any(|option| word.eq_ignore_ascii_case(option))
    });
    let given = &words[options.count()..];
    let added = number.and_then(|count| usize::try_from(count).ok());
    match (given, added) {
        ([score, member], Some(1)) => match score_of(score) {
            Some(score) => lock.enter(act, member, score),
            None => return false,
        },
        ([_, member], Some(0)) => lock.refuse(act, member),
        _ => return false,
    }
    true
}

fn score_of(word: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(word).ok()?.trim_start_matches('(');
    text.parse().ok()
}
