//! Finds locks that are used in one step, a script, a transaction or a command, with keys of other hash slots: a Cluster
//! refuses that. Databases and servers are told apart: their keys are in no common step of a Cluster.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::FixedState;
use sha1_smol::Sha1;

use super::audit_state::AuditState;
use super::code::{Code, Severity};
use super::journal_line::{JournalLine, NestedCommand};
use super::lock::{Lock, LockId};
use super::missing_replies::keys_of;
use super::queued_commands::Queue;
use super::rule_context::FindingDraft;
use crate::base::hash_slot::hash_slot;
use crate::protocol::parse_integer;
use crate::spec::{CommandKind, CommandSpec, LockEffect, ScriptCommand, Table, TransactionCommand};

/// How many kinds of steps are told of: a program has few scripts and transactions, however many keys they are for.
pub const MAX_KINDS: usize = 256;
/// How many keys of one step are looked at, how many tell one kind from another, and how many are named.
const MAX_KEYS: usize = 64;
const MAX_TELLING: usize = 8;
const MAX_NAMED: usize = 3;

/// What is known beyond one step.
#[derive(Clone, Default)]
pub struct CrossSlots {
    /// The kinds of steps that were told of, each with the lock under which it was.
    kinds: HashMap<(u16, Vec<u8>), Arc<LockId>, FixedState>,
    /// The servers that have answered as a Cluster does.
    clusters: Vec<u16>,
}

/// What a step is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StepKind {
    Script,
    Transaction,
    Command,
}

/// A key of a step.
struct UsedKey {
    db: u32,
    key: Box<[u8]>,
    slot: u16,
    /// A command names it, or a script declares it. The others are found out when they are used.
    is_named: bool,
    /// The step does something to it, if it is a lock, or depends on it.
    is_subject: bool,
}

/// What a line is about, as far as this is not known any more when it has been processed.
pub struct UsedBefore {
    kind: StepKind,
    keys: Vec<UsedKey>,
    /// What is queued, for what is not told what it ran.
    names: Vec<Vec<u8>>,
}

impl UsedBefore {
    /// `None` for what is no such step.
    pub fn of(
        state: &AuditState,
        queue: Option<&Queue>,
        line: &JournalLine<'_>,
        (kind, lock_effect): (CommandKind, LockEffect),
        commands: &Table,
    ) -> Option<Self> {
        let empty = |kind| Some(Self { kind, keys: Vec::new(), names: Vec::new() });
        let is_own = |key: &&[u8]| {
            let lock = state.locks.find(line.server, line.db, key);
            lock.is_some_and(|lock| lock.holds.iter().any(|hold| hold.client.id == line.client))
        };
        match (kind, lock_effect) {
            _ if line.is_cut || state.locks.is_empty() && !begins_lock(kind, lock_effect) => None,
            (CommandKind::Script(_), _) => empty(StepKind::Script),
            (CommandKind::Transaction(TransactionCommand::Exec), _) => {
                let watched = state.clients.get(&(line.server, line.client)).map(|client| &client.watched);
                let watched = watched.into_iter().flatten();
                let mut keys: Vec<UsedKey> =
                    watched.map(|(db, key, _)| UsedKey::new(*db, key, (false, true))).collect();
                let mut names = Vec::new();
                let mut selected = None;
                for (db, words) in queue.filter(|queue| !queue.is_cut).iter().flat_map(|queue| &queue.commands) {
                    let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
                    if let [name, to] = words.as_slice()
                        && name.eq_ignore_ascii_case(b"SELECT")
                    {
                        selected = parse_integer(to).and_then(|to| u32::try_from(to).ok());
                    }
                    let db = &selected.unwrap_or(*db);
                    names.push(words.first().copied().unwrap_or_default().to_ascii_uppercase());
                    add_named(&mut keys, commands, *db, &words);
                }
                Some(Self { kind: StepKind::Transaction, keys, names })
            }
            (
                _,
                LockEffect::SetManyIfAbsent
                | LockEffect::SetManyByOptions
                | LockEffect::Rename
                | LockEffect::RenameIfAbsent,
            ) => empty(StepKind::Command),
            // Clients of a Cluster divide DEL by slots, and whoever cleans up deletes what there is. A holder releases.
            (_, LockEffect::Delete)
                if line.words.len() > 2 && (line.is_refused_for_slots() || line.words[1..].iter().any(is_own)) =>
            {
                empty(StepKind::Command)
            }
            _ => None,
        }
    }
}

/// Whether a step may make a lock of a key that is none so far.
fn begins_lock(kind: CommandKind, lock_effect: LockEffect) -> bool {
    matches!(kind, CommandKind::Script(_) | CommandKind::Transaction(TransactionCommand::Exec))
        || matches!(lock_effect, LockEffect::SetManyIfAbsent | LockEffect::SetManyByOptions)
}

impl UsedKey {
    fn new(db: u32, key: &[u8], (is_named, is_subject): (bool, bool)) -> Self {
        Self { db, key: key.into(), slot: hash_slot(key), is_named, is_subject }
    }
}

/// Adds the keys that a command of a transaction names. A command that only looks has no subject.
fn add_named(keys: &mut Vec<UsedKey>, commands: &Table, db: u32, words: &[&[u8]]) {
    let row = words.first().and_then(|name| commands.find(name));
    let looks = row.is_none_or(|row| {
        matches!(row.lock_effect, LockEffect::Get | LockEffect::GetRange | LockEffect::GetMany | LockEffect::Exists)
            || row.lock_effect == LockEffect::None && !matches!(row.kind, CommandKind::Script(_))
    });
    for key in keys_of(commands, words) {
        add(keys, UsedKey::new(db, key, (true, !looks)));
    }
}

fn add(keys: &mut Vec<UsedKey>, new: UsedKey) {
    if let Some(known) = keys.iter_mut().find(|known| known.db == new.db && known.key == new.key) {
        known.is_named |= new.is_named;
        known.is_subject |= new.is_subject;
    } else if keys.len() < MAX_KEYS {
        keys.push(new);
    }
}

impl CrossSlots {
    /// Looks at a line that was processed. `used` is what was known before.
    pub fn note(&mut self, state: &mut AuditState, line: &JournalLine<'_>, used: Option<UsedBefore>, commands: &Table) {
        if line.shows_a_cluster() && !self.clusters.contains(&line.server) {
            self.clusters.push(line.server);
        }
        let Some(UsedBefore { kind, mut keys, mut names }) = used.filter(|_| !state.locks.is_empty()) else { return };
        match kind {
            StepKind::Command => add_all(&mut keys, line.db, &keys_of(commands, &line.words), true),
            StepKind::Script if uses_one_key(line, commands) => return,
            StepKind::Script => {
                add_all(&mut keys, line.db, &keys_of(commands, &line.words), true);
                line.with_nested(|nested| {
                    for command in nested.iter().filter(|command| !command.is_cut) {
                        add_all(&mut keys, command.db, &keys_of(commands, &command.words), false);
                    }
                });
            }
            StepKind::Transaction => line.with_nested(|nested| {
                for command in nested.iter().filter(|command| !command.is_cut) {
                    if command.depth == 1 {
                        names.push(command.words.first().copied().unwrap_or_default().to_ascii_uppercase());
                        add_named(&mut keys, commands, command.db, &command.words);
                    } else {
                        add_all(&mut keys, command.db, &keys_of(commands, &command.words), false);
                    }
                }
            }),
        }
        let Some((db, lock)) = crossed_lock(state, line.server, &keys) else { return };
        keys.retain(|used| used.db == db);
        keys.sort_by_key(|used| *used.key != *lock.key);
        let shape = (line.server, shape(kind, line, &names, &keys, commands));
        if self.kinds.len() >= MAX_KINDS && !self.kinds.contains_key(&shape) {
            return;
        }
        let draft = self.draft(state, line, kind, &keys);
        let id = self.place_of(state, shape, lock);
        let client = state.client_of(line);
        let source = AuditState::source_of(line, &client);
        state.with_lock(&id, Some(&client), source, |tracker| tracker.context.report(draft));
    }

    /// A server begins anew.
    pub fn forget(&mut self, server: u16) {
        self.kinds.retain(|(number, _), _| *number != server);
        self.clusters.retain(|number| *number != server);
    }

    /// The lock under which a kind of steps is told of: the first one that it was seen with, and that is known for a lock.
    fn place_of(&mut self, state: &mut AuditState, shape: (u16, Vec<u8>), lock: Arc<LockId>) -> Arc<LockId> {
        let is_known = |id: &LockId| state.locks.get(id).is_some_and(Lock::is_known);
        if let Some(known) = self.kinds.get(&shape)
            && state.locks.get(known).is_some()
            && (is_known(known) || !is_known(&lock))
        {
            return Arc::clone(known);
        }
        if let Some(before) = self.kinds.insert(shape, Arc::clone(&lock))
            && let Some(tracked) = state.locks.get_mut(&before)
        {
            // It is told of once.
            tracked.lock.pending.retain(|finding| finding.code != Code::CrossSlot);
        }
        lock
    }

    fn draft(&self, state: &AuditState, line: &JournalLine<'_>, kind: StepKind, keys: &[UsedKey]) -> FindingDraft {
        let is_refused = line.is_refused_for_slots();
        let client = state.client_of(line).display_name();
        let what = match kind {
            StepKind::Script => format!("the script that {client} ran"),
            StepKind::Transaction => format!("the transaction of {client}"),
            StepKind::Command => {
                let name = line.words.first().copied().unwrap_or_default().to_ascii_uppercase();
                format!("the {} of {client}", String::from_utf8_lossy(&name))
            }
        };
        let text = |used: &UsedKey| format!("`{}` in {}", String::from_utf8_lossy(&used.key), used.slot);
        let mut named: Vec<&UsedKey> = Vec::new();
        for used in keys {
            if named.len() < MAX_NAMED && named.iter().all(|other| other.slot != used.slot) {
                named.push(used);
            }
        }
        let mut slots = named.iter().map(|used| text(used)).collect::<Vec<_>>().join(", ");
        if keys.len() > named.len() {
            slots.push_str(&format!(", and {} more", keys.len() - named.len()));
        }
        let is_always = named_slots_differ(keys);
        let sentence = match (is_refused, is_always) {
            (true, _) => {
                format!("The Cluster refused {what}: a lock and its other keys are in different hash slots ({slots})")
            }
            (false, true) => {
                format!(
                    "A Cluster would refuse {what}: a lock and its other keys are in different hash slots ({slots})"
                )
            }
            (false, false) => format!(
                "A Cluster would refuse {what} once these hash slots are on different nodes, a lock's and those of its \
                 other keys ({slots})"
            ),
        };
        let shown = if is_refused { "was refused for using" } else { "used" };
        let client = state.client_of(line);
        let evidence = vec![AuditState::source_of(line, &client).shows(format!("{shown} keys of several hash slots"))];
        let severity = match () {
            () if is_refused => Severity::Error,
            () if self.clusters.contains(&line.server) => Severity::Warning,
            () => Severity::Note,
        };
        FindingDraft { code: Code::CrossSlot, severity: Some(severity), sentence, evidence, culprit: 0 }
    }
}

fn add_all(keys: &mut Vec<UsedKey>, db: u32, new: &[&[u8]], is_named: bool) {
    new.iter().for_each(|key| add(keys, UsedKey::new(db, key, (is_named, true))));
}

/// Whether a script uses no key but the one that it declares. Nearly all do.
fn uses_one_key(line: &JournalLine<'_>, commands: &Table) -> bool {
    let [_, _, b"1", key, ..] = line.words[..] else { return false };
    let is_on_it = |command: &NestedCommand<'_>| {
        let row = command.words.first().and_then(|name| commands.find(name));
        row.is_some_and(|row| uses_only(row, command, (line.db, key)))
    };
    line.with_nested(|nested| nested.iter().all(is_on_it))
}

/// Whether a command of a script uses no key but this one.
pub fn uses_only(row: &CommandSpec, command: &NestedCommand<'_>, (db, key): (u32, &[u8])) -> bool {
    let has_one_key = match row.lock_effect {
        LockEffect::Get
        | LockEffect::GetRange
        | LockEffect::SetByOptions
        | LockEffect::SetIfAbsent
        | LockEffect::SetWithTtl(_)
        | LockEffect::Expire(..)
        | LockEffect::CountMember => true,
        LockEffect::Delete | LockEffect::Exists => command.words.len() == 2,
        _ => false,
    };
    has_one_key && command.db == db && command.words.get(1) == Some(&key)
}

/// The database in which a lock is used with keys of other hash slots, and that lock: one that is known for one first.
fn crossed_lock(state: &AuditState, server: u16, keys: &[UsedKey]) -> Option<(u32, Arc<LockId>)> {
    let is_crossed = |used: &UsedKey| keys.iter().any(|other| other.db == used.db && other.slot != used.slot);
    let locks = keys.iter().filter(|used| used.is_subject && is_crossed(used));
    let locks = locks.filter_map(|used| state.locks.find(server, used.db, &used.key));
    let lock = locks.max_by_key(|lock| lock.is_known())?;
    Some((lock.id.db, Arc::clone(&lock.id)))
}

fn named_slots_differ(keys: &[UsedKey]) -> bool {
    let mut slots = keys.iter().filter(|used| used.is_named).map(|used| used.slot);
    slots.next().is_some_and(|first| slots.any(|slot| slot != first))
}

/// What makes two steps the same: the script, or the names of commands with their keys, in which all that varies is left
/// out.
fn shape(kind: StepKind, line: &JournalLine<'_>, names: &[Vec<u8>], keys: &[UsedKey], commands: &Table) -> Vec<u8> {
    let name = line.words.first().copied().unwrap_or_default();
    if kind == StepKind::Script {
        let script = line.words.get(1).copied().unwrap_or_default();
        let row = commands.find(name);
        return match row.map(|row| row.kind) {
            Some(CommandKind::Script(ScriptCommand::Eval { .. })) => {
                Sha1::from(script).digest().to_string().into_bytes()
            }
            _ => script.to_ascii_lowercase(),
        };
    }
    let keys = &keys[..keys.len().min(MAX_TELLING)];
    let mut patterns: Vec<Vec<u8>> = keys.iter().map(|used| pattern(&used.key, keys)).collect();
    patterns.sort_unstable();
    patterns.dedup();
    let mut names: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
    names.dedup();
    let name = name.to_ascii_uppercase();
    [&[name.as_slice()], names.as_slice(), &patterns.iter().map(Vec::as_slice).collect::<Vec<_>>()].concat().join(&b' ')
}

/// A key without its varying parts: words with digits, and those that stand in another key of the step, too.
fn pattern(key: &[u8], keys: &[UsedKey]) -> Vec<u8> {
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || !byte.is_ascii();
    let words = |key: &'_ [u8]| -> Vec<Vec<u8>> { key.split(|byte| !is_word(byte)).map(<[u8]>::to_vec).collect() };
    let is_shared = |word: &Vec<u8>| keys.iter().any(|other| *other.key != *key && words(&other.key).contains(word));
    let kept = words(key).into_iter().map(|word| match word.iter().any(u8::is_ascii_digit) || is_shared(&word) {
        true => b"*".to_vec(),
        false => word,
    });
    kept.collect::<Vec<_>>().join(&b':')
}
