//! The keys that the user declares to be locks, and that are no strings: reads from commands and replies who is in.
//!
//! These commands make counters, sets and queues, so no row says of them what they do to locks.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::FixedState;

use super::audit_state::AuditState;
use super::client_identity::ClientIdentity;
use super::code::Severity;
use super::command_effects::expiry_of;
use super::finding::{Finding, JournalRef};
use super::journal_line::{JournalLine, LineWords};
use super::lock::LockId;
use super::occupancy::{Act, Mistake, Occupancy, with_key};
use super::reply_value::{ReplyValue, reply_values};
use crate::powers::{EventKind, Outcome};
use crate::protocol::{OwnedWords, parse_integer};
use crate::spec::{CommandKind, LockEffect, Table, TransactionCommand};

/// How many keys are followed.
const MAX_KEYS: usize = 10_000;

/// The declared locks that are no strings.
#[derive(Clone, Default)]
pub struct DeclaredLocks {
    locks: HashMap<LockId, Occupancy, FixedState>,
}

/// A command as it ran.
struct Ran<'a> {
    db: u32,
    words: LineWords<'a>,
    reply: &'a [u8],
}

impl DeclaredLocks {
    /// Looks at a line of the journal.
    pub fn note(&mut self, state: &mut AuditState, line: &JournalLine<'_>, commands: &Table) {
        if state.scope.locks.is_empty() {
            return;
        }
        match line.event {
            Some(EventKind::Closed) => {
                let client = state.client_of(line);
                return self.locks.values_mut().for_each(|lock| lock.close(&client));
            }
            Some(EventKind::Started | EventKind::Missing | EventKind::Promoted) => return self.forget(line.server),
            Some(_) => return,
            None if line.is_queued() || line.outcome == Outcome::NeverRan || line.was_sent_away() => return,
            None => {}
        }
        let row = line.words.first().and_then(|name| commands.find(name));
        let runs_others = row.is_some_and(|row| {
            matches!(row.kind, CommandKind::Script(_) | CommandKind::Transaction(TransactionCommand::Exec))
        });
        let is_known = !line.is_unplaced && !line.is_cut && line.outcome != Outcome::Unknown && !line.is_stale;
        let client = state.client_of(line);
        if !runs_others {
            let ran = Ran { db: line.db, words: line.words.clone(), reply: line.reply };
            return self.note_commands(state, (line, &client), &[ran], (commands, is_known && !line.reply.is_empty()));
        }
        if line.are_children_unknown {
            let words: OwnedWords = line.words.iter().collect();
            return commands.keys(words.as_words()).keys.iter().for_each(|key| self.doubt(line, line.db, key));
        }
        line.with_nested(|nested| {
            let is_known = is_known && nested.iter().all(|command| !command.is_cut && !command.reply.is_empty());
            let ran: Vec<Ran<'_>> = nested
                .iter()
                .map(|command| Ran {
                    db: command.db,
                    words: LineWords::from_slice(&command.words),
                    reply: command.reply,
                })
                .collect();
            self.note_commands(state, (line, &client), &ran, (commands, is_known));
        });
    }

    /// Forgets the locks of a server.
    pub fn forget(&mut self, server: u16) {
        self.locks.retain(|id, _| id.server != server);
    }

    fn doubt(&mut self, line: &JournalLine<'_>, db: u32, key: &[u8]) {
        if !self.locks.is_empty() {
            self.locks.remove(&LockId { server: line.server, db, key: key.into() });
        }
    }

    fn note_commands(
        &mut self,
        state: &mut AuditState,
        (line, client): (&JournalLine<'_>, &ClientIdentity),
        ran: &[Ran<'_>],
        (commands, is_known): (&Table, bool),
    ) {
        let source = AuditState::source_of(line, client);
        let mut found: Vec<(LockId, Mistake)> = Vec::new();
        for command in ran {
            let Some(row) = command.words.first().and_then(|name| commands.find(name)) else { continue };
            match row.lock_effect {
                LockEffect::FlushAll | LockEffect::SwapDatabases => self.forget(line.server),
                LockEffect::FlushDatabase => self.locks.retain(|id, _| (id.server, id.db) != (line.server, command.db)),
                _ => {}
            }
            let words: OwnedWords = command.words.iter().copied().collect();
            let accessed = commands.keys(words.as_words());
            let (declared, others): (Vec<&[u8]>, Vec<&[u8]>) =
                accessed.keys.iter().copied().partition(|key| state.scope.is_declared(key));
            let mut act = Turn { server: line.server, db: command.db, client, source: &source, found: &mut found };
            if let Some(other) = others.first() {
                self.work(&mut act, other, accessed.writes);
            }
            if !is_known {
                declared.iter().for_each(|key| self.doubt(line, command.db, key));
                continue;
            }
            for key in declared {
                self.apply(&mut act, row.name, key, (command, accessed.writes));
            }
        }
        if !self.locks.is_empty() {
            let mut mistakes = Vec::new();
            for (id, lock) in self.locks.iter_mut().filter(|(id, _)| id.server == line.server) {
                lock.go_on(&mut Act { client, source: &source, mistakes: &mut mistakes });
                found.extend(mistakes.drain(..).map(|mistake| (id.clone(), mistake)));
            }
        }
        found.sort_by(|(one, _), (other, _)| one.cmp(other));
        found.into_iter().for_each(|(id, mistake)| report(state, &source, id, mistake));
    }

    /// A client uses a key that is no lock.
    fn work(&mut self, turn: &mut Turn<'_>, key: &[u8], writes: bool) {
        let may_work = |(id, lock): &(&LockId, &mut Occupancy)| id.server == turn.server && lock.may_work(turn.client);
        for (id, lock) in self.locks.iter_mut().filter(may_work) {
            let mut mistakes = Vec::new();
            lock.work(&mut Act { client: turn.client, source: turn.source, mistakes: &mut mistakes }, key, writes);
            turn.found.extend(mistakes.into_iter().map(|mistake| (id.clone(), mistake)));
        }
    }

    fn apply(&mut self, turn: &mut Turn<'_>, name: &str, key: &[u8], (command, writes): (&Ran<'_>, bool)) {
        let id = LockId { server: turn.server, db: turn.db, key: key.into() };
        if self.locks.len() >= MAX_KEYS && !self.locks.contains_key(&id) {
            return;
        }
        let lock = self.locks.entry(id.clone()).or_default();
        lock.advance_time(turn.source.at);
        let mut mistakes = Vec::new();
        let mut act = Act { client: turn.client, source: turn.source, mistakes: &mut mistakes };
        let is_followed = applied(lock, &mut act, name, key, command);
        turn.found.extend(mistakes.into_iter().map(|mistake| (id.clone(), mistake)));
        if !is_followed && writes {
            self.locks.remove(&id);
        }
    }
}

/// A command of a client, and what is found in it.
struct Turn<'a> {
    server: u16,
    db: u32,
    client: &'a ClientIdentity,
    source: &'a JournalRef,
    found: &'a mut Vec<(LockId, Mistake)>,
}

fn report(state: &mut AuditState, source: &JournalRef, id: LockId, mistake: Mistake) {
    let Mistake { code, client, sentence, mut evidence } = mistake;
    evidence.sort_by_key(|evidence| (evidence.source.real, evidence.source.seq));
    let sentence = format!("{} {}", client.display_name(), with_key(&sentence, &id.key));
    state.collector.add(Finding {
        code,
        severity: Severity::Error,
        server: id.server,
        db: id.db,
        key: Arc::clone(&id.key),
        sentence,
        evidence,
        times: 1,
        seq: source.seq,
        last_seq: source.seq,
        at: source.at,
        culprit: client.id,
        allowed: None,
        mark: None,
    });
}

/// Applies a command to a lock. Returns whether it is known what the command did.
fn applied(lock: &mut Occupancy, act: &mut Act<'_>, name: &str, key: &[u8], command: &Ran<'_>) -> bool {
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
