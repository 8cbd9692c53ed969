//! What a script did to keys: by the commands that it ran, not by its text.

use std::collections::{HashMap, HashSet};

use foldhash::fast::FixedState;
use sha1_smol::Sha1;
use smallvec::SmallVec;

use super::command_effects::{Executed, effects_of};
use super::effect::{Effect, ExpiryChange, Intent, KeyEffect, KeyEffects, LockShape, Precondition};
use super::journal_line::NestedCommand;
use super::missing_replies::unknown_effects;
use super::reply_value::{ReplyValue, reply_values};
use crate::powers::ValueClass;
use crate::protocol::parse_integer;
use crate::spec::{CommandKind, LockEffect, ScriptCommand, Table};

/// What scripts did so far: it says what a run was for that does nothing.
#[derive(Clone, Default)]
pub struct KnownScripts {
    /// By the name that EVALSHA or FCALL uses.
    intents: HashMap<Box<[u8]>, Intent, FixedState>,
    /// The scripts that replaced another value than the one given to them: none of them takes a lock.
    other_writers: HashSet<Box<[u8]>, FixedState>,
    /// The names of the sources that came with EVAL.
    names: HashMap<Box<[u8]>, Box<[u8]>, FixedState>,
}

/// How many scripts are remembered, and how many of them by their source.
const MAX_SCRIPTS: usize = 10_000;
const MAX_SOURCES: usize = 1_000;

impl KnownScripts {
    /// The name of the script that a command runs: the same for EVAL and for an EVALSHA that failed before it.
    fn name(&mut self, words: &[&[u8]], commands: &Table) -> Box<[u8]> {
        let script = words.get(1).copied().unwrap_or_default();
        let row = words.first().and_then(|name| commands.find(name));
        if !row.is_some_and(|row| matches!(row.kind, CommandKind::Script(ScriptCommand::Eval { .. }))) {
            return script.to_ascii_lowercase().into();
        }
        if let Some(name) = self.names.get(script) {
            return name.clone();
        }
        let name: Box<[u8]> = Sha1::from(script).digest().to_string().into_bytes().into();
        if self.names.len() < MAX_SOURCES {
            self.names.insert(script.into(), name.clone());
        }
        name
    }

    fn intent(&self, name: &[u8]) -> Intent {
        self.intents.get(name).copied().unwrap_or(Intent::Unknown)
    }

    fn learn(&mut self, name: &[u8], intent: Intent) {
        if !self.intents.contains_key(name) && self.intents.len() < MAX_SCRIPTS {
            self.intents.insert(name.into(), intent);
        }
    }
}

/// What a run of a script showed about a key so far.
struct ScriptKey<'a> {
    db: u32,
    key: &'a [u8],
    /// The value that was read there; `Some(None)` if the key was free.
    found: Option<Option<&'a [u8]>>,
    /// The value, if it is one of the script's arguments.
    matched: Option<&'a [u8]>,
    /// The member that the script looked for.
    sought: Option<&'a [u8]>,
    /// The script did something to the key.
    is_changed: bool,
    /// The script replaced another value than the one given to it.
    overwrote: bool,
}

/// What a script did. `words` are those of EVAL or EVALSHA.
pub fn script_effects<'a>(
    words: &[&'a [u8]],
    nested: &[NestedCommand<'a>],
    depth: u8,
    commands: &Table,
    scripts: &mut KnownScripts,
) -> KeyEffects<'a> {
    let count = words.get(2).and_then(|word| parse_integer(word)).and_then(|count| usize::try_from(count).ok());
    let count = count.unwrap_or(0).min(words.len().saturating_sub(3));
    let args: &[&'a [u8]] = words.get(3 + count..).unwrap_or_default();
    let mut run = ScriptRun { args, keys: SmallVec::new(), effects: KeyEffects::new() };
    for command in nested.iter().filter(|command| command.depth == depth) {
        let Some(row) = command.words.first().and_then(|name| commands.find(name)) else { continue };
        let executed = Executed { db: command.db, words: &command.words, reply: command.reply };
        run.add(row.lock_effect, executed);
    }
    let ScriptRun { keys, effects, .. } = run;
    let mut effects = merged_effects(effects);
    if keys.is_empty() && effects.is_empty() {
        return effects;
    }
    let name = scripts.name(words, commands);
    if keys.iter().any(|key| key.overwrote) && scripts.other_writers.len() < MAX_SCRIPTS {
        scripts.other_writers.insert(name.clone());
    }
    if scripts.other_writers.contains(&name) {
        effects.iter_mut().filter(|effect| is_set(effect)).for_each(|effect| effect.effect = Effect::OtherWrite);
        return effects;
    }
    if let Some(intent) = effects.iter().find_map(intent_of) {
        scripts.learn(&name, intent);
    }
    // A run that only looked had a purpose, too.
    for key in keys.iter().filter(|key| !key.is_changed && key.matched.is_none()) {
        let token = args.iter().copied().find(|arg| !is_number(arg)).or_else(|| args.first().copied());
        let token = key.sought.or(token);
        let effect = match scripts.intent(&name) {
            // A script that takes a lock found that another client has it.
            Intent::Acquire if key.found != Some(None) => {
                Effect::Take { value: token.unwrap_or_default(), expiry: ExpiryChange::Kept, took: false }
            }
            // A script that extends is given a duration.
            Intent::Unknown if token.is_some() => {
                let is_timed = args.iter().any(|arg| is_number(arg) && Some(*arg) != token);
                let intent = if is_timed { Intent::Extend } else { Intent::Release };
                Effect::NotOwned { intent, is_known: false }
            }
            intent if token.is_some() => Effect::NotOwned { intent, is_known: true },
            _ => continue,
        };
        let precondition = Precondition::Compared(token);
        effects.push(KeyEffect { db: key.db, key: key.key, effect, precondition });
    }
    effects
}

/// What a script did of which only the request and the reply are known. It may have done anything to the keys that it was
/// given, and to locks that another word of it names (`named`).
pub fn effects_without_children<'a>(
    words: &[&'a [u8]],
    db: u32,
    reply: &[u8],
    named: impl IntoIterator<Item = &'a [u8]>,
) -> KeyEffects<'a> {
    // A script that the server does not know has not run.
    if reply.starts_with(b"-NOSCRIPT") {
        return KeyEffects::new();
    }
    let count = words.get(2).and_then(|word| parse_integer(word)).and_then(|count| usize::try_from(count).ok());
    let keys = words.iter().skip(3).take(count.unwrap_or(0)).copied();
    unknown_effects(db, keys.chain(named), false)
}

/// The effects of several commands in one step: a key that is set and given its deadline then is set with it, and one
/// that is refused first and set then is set.
pub fn merged_effects(effects: KeyEffects<'_>) -> KeyEffects<'_> {
    let mut merged = KeyEffects::new();
    for effect in effects {
        let is_same = |earlier: &KeyEffect<'_>| earlier.db == effect.db && earlier.key == effect.key;
        match (merged.iter().rposition(is_same), &effect.effect) {
            (Some(at), Effect::Expire { expiry: given, done: true }) if !matches!(given, ExpiryChange::In(..=0)) => {
                if let Effect::Take { expiry, took: true, .. } | Effect::Set { expiry, .. } = &mut merged[at].effect {
                    *expiry = *given;
                    continue;
                }
            }
            (Some(at), Effect::Set { .. }) if matches!(merged[at].effect, Effect::Take { took: false, .. }) => {
                merged[at] = effect;
                continue;
            }
            _ => {}
        }
        merged.push(effect);
    }
    merged
}

fn is_set(effect: &KeyEffect<'_>) -> bool {
    matches!(effect.effect, Effect::Take { .. } | Effect::Set { .. })
}

fn intent_of(effect: &KeyEffect<'_>) -> Option<Intent> {
    match (&effect.effect, effect.precondition) {
        (Effect::Take { took: true, .. } | Effect::AddMember { .. }, _) => Some(Intent::Acquire),
        (Effect::Delete { removed: Some(true) }, Precondition::Compared(_))
        | (Effect::RemoveMember { missed: false, .. }, _) => Some(Intent::Release),
        (Effect::Expire { done: true, .. } | Effect::Set { .. }, Precondition::Compared(_)) => Some(Intent::Extend),
        _ => None,
    }
}

/// A run of a script, command by command.
struct ScriptRun<'a, 'r> {
    args: &'r [&'a [u8]],
    keys: SmallVec<[ScriptKey<'a>; 2]>,
    effects: KeyEffects<'a>,
}

impl<'a> ScriptRun<'a, '_> {
    /// Adds a command. A read is remembered: it may be the comparison in front of a change.
    fn add(&mut self, kind: LockEffect, command: Executed<'a, '_>) {
        if kind.is_on_all_keys() {
            return self.effects.extend(effects_of(kind, command));
        }
        let Some(&key) = command.words.get(1) else { return };
        let answer = ReplyValue::of(command.reply);
        let member = command.words.get(2).copied().unwrap_or_default();
        let args = self.args;
        match kind {
            LockEffect::Get => self.key(command.db, key).note_value(answer, args),
            LockEffect::GetRange => {
                let key = self.key(command.db, key);
                key.note_value(answer, args);
                // The beginning of the value is the token; the rest says something else.
                let found = answer.text().filter(|found| !found.is_empty());
                key.matched = found.filter(|found| args.iter().any(|arg| arg.starts_with(found)));
            }
            LockEffect::GetMany => {
                for (&key, answer) in command.words[1..].iter().zip(reply_values(command.reply)) {
                    self.key(command.db, key).note_value(answer, args);
                }
            }
            LockEffect::Exists => {
                let key = self.key(command.db, key);
                if answer == ReplyValue::Number(0) {
                    key.found = Some(None);
                } else if key.found.is_none() {
                    key.found = Some(Some(b""));
                }
            }
            LockEffect::FindMember => {
                let key = self.key(command.db, key);
                let is_there = !matches!(answer, ReplyValue::Number(0) | ReplyValue::Null);
                key.found = key.found.or(Some(is_there.then_some(member)));
                key.sought = Some(member);
                if is_there {
                    key.matched = Some(member);
                }
            }
            LockEffect::CountMembers => {
                let key = self.key(command.db, key);
                key.found = key.found.or(Some((answer != ReplyValue::Number(0)).then_some(b"")));
            }
            LockEffect::CountMember => self.count_member(command, key, member, answer),
            LockEffect::AddMember | LockEffect::SetMember if answer != ReplyValue::Error => {
                let last = command.words.last().copied().unwrap_or_default();
                self.add_member(command.db, key, if kind == LockEffect::SetMember { member } else { last });
            }
            LockEffect::RemoveField => {
                let ReplyValue::Number(count) = answer else { return };
                self.key(command.db, key).is_changed = true;
                let (shape, missed) = (LockShape::Semaphore, count == 0);
                self.push(command.db, key, member, Effect::RemoveMember { shape, member, count: 0, missed });
            }
            _ => {
                for effect in effects_of(kind, command) {
                    let key = self.key(effect.db, effect.key);
                    let effect = key.refine(effect);
                    let is_other = matches!(key.found, Some(Some(_))) && key.matched.is_none();
                    key.overwrote |= is_other && !key.is_changed && matches!(effect.effect, Effect::Set { .. });
                    key.is_changed = true;
                    self.effects.push(effect);
                }
            }
        }
    }

    fn count_member(&mut self, command: Executed<'a, '_>, key: &'a [u8], member: &'a [u8], answer: ReplyValue<'a>) {
        let by = command.words.get(3).and_then(|word| parse_integer(word)).unwrap_or(0);
        let args = self.args;
        let state = self.key(command.db, key);
        state.is_changed = true;
        // A script that takes such a lock has looked whether it is free, and is told for whom.
        let has_looked = state.found.is_some() && args.contains(&member);
        if let (Some(count), true) = (answer.number(), has_looked) {
            state.matched = Some(member);
            let shape = LockShape::Hash;
            let effect = match by > 0 {
                true => Effect::AddMember { shape, member },
                false => Effect::RemoveMember { shape, member, count, missed: false },
            };
            self.push(command.db, key, member, effect);
        }
    }

    /// A script that admits a client to a semaphore has looked how many members there are.
    fn add_member(&mut self, db: u32, key: &'a [u8], member: &'a [u8]) {
        let state = self.key(db, key);
        state.is_changed = true;
        let mut effect = Effect::OtherWrite;
        if state.found.is_some() {
            state.matched = Some(member);
            effect = Effect::AddMember { shape: LockShape::Semaphore, member };
        }
        self.push(db, key, member, effect);
    }

    fn push(&mut self, db: u32, key: &'a [u8], member: &'a [u8], effect: Effect<'a>) {
        self.effects.push(KeyEffect { db, key, effect, precondition: Precondition::Compared(Some(member)) });
    }

    fn key(&mut self, db: u32, key: &'a [u8]) -> &mut ScriptKey<'a> {
        let known = self.keys.iter().position(|known| known.db == db && known.key == key);
        let at = known.unwrap_or_else(|| {
            let (found, matched, sought) = (None, None, None);
            self.keys.push(ScriptKey { db, key, found, matched, sought, is_changed: false, overwrote: false });
            self.keys.len() - 1
        });
        &mut self.keys[at]
    }
}

impl<'a> ScriptKey<'a> {
    fn note_value(&mut self, answer: ReplyValue<'a>, args: &[&'a [u8]]) {
        self.found = match answer {
            ReplyValue::Text(value) => Some(Some(value)),
            ReplyValue::Null => Some(None),
            _ => return,
        };
        self.matched = answer.text().filter(|value| args.contains(value));
    }

    /// The effect of a command after what the script read before.
    fn refine(&self, effect: KeyEffect<'a>) -> KeyEffect<'a> {
        let compared = Precondition::Compared(self.matched);
        let precondition = if self.matched.is_some() { compared } else { effect.precondition };
        let refined = match effect.effect {
            // The script looked whether the key is free, and it was.
            Effect::Set { value, expiry, .. } if self.found == Some(None) => Effect::Take { value, expiry, took: true },
            effect => effect,
        };
        KeyEffect { effect: refined, precondition, ..effect }
    }
}

fn is_number(word: &[u8]) -> bool {
    if let Some(class) = ValueClass::of_hashed(word) {
        return matches!(class, ValueClass::Number | ValueClass::Digit);
    }
    !word.is_empty() && word.len() < 12 && word.iter().all(u8::is_ascii_digit)
}
