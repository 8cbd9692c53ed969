//! What a script has done to keys: by the commands that it has run, not by its text.

use std::collections::{HashMap, HashSet};

use foldhash::fast::FixedState;
use sha1_smol::Sha1;
use smallvec::SmallVec;

use super::answer::{Answer, answers};
use super::read::{Ran, Verb, read};
use super::step::{Act, Expiry, Guard, Intent, Shape, Step, Steps};
use super::told::Inside;
use crate::protocol::parse_integer;

/// What scripts have been seen to do, so that one that does nothing is known for what it was for.
#[derive(Clone, Default)]
pub struct Scripts {
    /// By the name that EVALSHA or FCALL calls them by.
    intents: HashMap<Box<[u8]>, Intent, FixedState>,
    /// Those that have put something else where something was: no lock is taken like that.
    others: HashSet<Box<[u8]>, FixedState>,
    /// The names of those that EVAL has brought.
    names: HashMap<Box<[u8]>, Box<[u8]>, FixedState>,
}

/// How many scripts are remembered, and how many of them by their source.
const MOST_SCRIPTS: usize = 10_000;
const MOST_SOURCES: usize = 1_000;

impl Scripts {
    /// The name of the script that a command runs: the same for EVAL and for the EVALSHA before it that has failed.
    fn name(&mut self, words: &[&[u8]]) -> Box<[u8]> {
        let script = words.get(1).copied().unwrap_or_default();
        if words.first().is_none_or(|name| Verb::of(name) != Verb::Eval) {
            return script.to_ascii_lowercase().into();
        }
        if let Some(name) = self.names.get(script) {
            return name.clone();
        }
        let name: Box<[u8]> = Sha1::from(script).digest().to_string().into_bytes().into();
        if self.names.len() < MOST_SOURCES {
            self.names.insert(script.into(), name.clone());
        }
        name
    }

    fn intent(&self, name: &[u8]) -> Intent {
        self.intents.get(name).copied().unwrap_or(Intent::Unknown)
    }

    fn learn(&mut self, name: &[u8], intent: Intent) {
        if !self.intents.contains_key(name) && self.intents.len() < MOST_SCRIPTS {
            self.intents.insert(name.into(), intent);
        }
    }
}

/// What has been found out about a key while a script ran.
struct Look<'a> {
    db: u32,
    key: &'a [u8],
    /// It was read, and this was there.
    found: Option<Option<&'a [u8]>>,
    /// What was there is one of the script's arguments.
    matched: Option<&'a [u8]>,
    /// The member that was looked for.
    sought: Option<&'a [u8]>,
    /// Something was done to it.
    done: bool,
    /// Something else was there than the script was given, and it was set all the same.
    overwrote: bool,
}

/// What a script has done. `words` are those of EVAL or EVALSHA.
pub fn read_script<'a>(words: &[&'a [u8]], inside: &[Inside<'a>], depth: u8, scripts: &mut Scripts) -> Steps<'a> {
    let count = words.get(2).and_then(|word| parse_integer(word)).and_then(|count| usize::try_from(count).ok());
    let count = count.unwrap_or(0).min(words.len().saturating_sub(3));
    let args: &[&'a [u8]] = words.get(3 + count..).unwrap_or_default();
    let mut looks: SmallVec<[Look<'a>; 2]> = SmallVec::new();
    let mut steps = Steps::new();
    for inside in inside.iter().filter(|inside| inside.depth == depth) {
        let Some(name) = inside.words.first() else { continue };
        let verb = Verb::of(name);
        let ran = Ran { db: inside.db, words: &inside.words, reply: inside.reply };
        take_in(verb, ran, args, &mut looks, &mut steps);
    }
    let mut steps = joined(steps);
    if looks.is_empty() && steps.is_empty() {
        return steps;
    }
    let name = scripts.name(words);
    if looks.iter().any(|look| look.overwrote) && scripts.others.len() < MOST_SCRIPTS {
        scripts.others.insert(name.clone());
    }
    if scripts.others.contains(&name) {
        steps.iter_mut().filter(|step| is_set(step)).for_each(|step| step.act = Act::Write);
        return steps;
    }
    if let Some(intent) = steps.iter().find_map(intent_of) {
        scripts.learn(&name, intent);
    }
    // What only looked was for something, too.
    for look in looks.iter().filter(|look| !look.done && look.matched.is_none()) {
        let token = args.iter().copied().find(|arg| !is_number(arg)).or_else(|| args.first().copied());
        let token = look.sought.or(token);
        let known = scripts.intent(&name);
        let act = match known {
            // A script that takes a lock has found that somebody has it.
            Intent::Acquire if look.found != Some(None) => {
                Act::Take { value: token.unwrap_or_default(), expiry: Expiry::Kept, took: false }
            }
            // What it is given tells: whoever extends says for how long.
            Intent::Unknown if token.is_some() => {
                let is_timed = args.iter().any(|arg| is_number(arg) && Some(*arg) != token);
                Act::Miss { intent: if is_timed { Intent::Extend } else { Intent::Release }, is_known: false }
            }
            intent if token.is_some() => Act::Miss { intent, is_known: true },
            _ => continue,
        };
        let guard = Guard::Compared(token);
        steps.push(Step { db: look.db, key: look.key, act, guard, joint: true });
    }
    steps
}

/// What several commands come to that run in one step: a lock that is taken, or set, and given its expiry is taken with it,
/// and one that is refused first and set then is set.
pub fn joined(steps: Steps<'_>) -> Steps<'_> {
    let mut joined = Steps::new();
    for step in steps {
        let earlier = joined.iter().rposition(|earlier: &Step<'_>| earlier.db == step.db && earlier.key == step.key);
        match (earlier, &step.act) {
            (Some(at), Act::Expire { expiry: given, done: true }) if !matches!(given, Expiry::In(..=0)) => {
                if let Act::Take { expiry, took: true, .. } | Act::Put { expiry, .. } = &mut joined[at].act {
                    *expiry = *given;
                    continue;
                }
            }
            (Some(at), Act::Put { .. }) if matches!(joined[at].act, Act::Take { took: false, .. }) => {
                joined[at] = step;
                continue;
            }
            _ => {}
        }
        joined.push(step);
    }
    joined
}

fn is_set(step: &Step<'_>) -> bool {
    matches!(step.act, Act::Take { .. } | Act::Put { .. })
}

fn intent_of(step: &Step<'_>) -> Option<Intent> {
    match (&step.act, step.guard) {
        (Act::Take { took: true, .. } | Act::Enter { .. }, _) => Some(Intent::Acquire),
        (Act::Remove { removed: Some(true) }, Guard::Compared(_)) | (Act::Leave { missed: false, .. }, _) => {
            Some(Intent::Release)
        }
        (Act::Expire { done: true, .. } | Act::Put { .. }, Guard::Compared(_)) => Some(Intent::Extend),
        _ => None,
    }
}

/// Takes in one command of a script.
fn take_in<'a>(
    verb: Verb,
    ran: Ran<'a, '_>,
    args: &[&'a [u8]],
    looks: &mut SmallVec<[Look<'a>; 2]>,
    steps: &mut Steps<'a>,
) {
    let Some(&key) = ran.words.get(1) else { return };
    let answer = Answer::of(ran.reply);
    let member = ran.words.get(2).copied().unwrap_or_default();
    match verb {
        Verb::Get => look(looks, ran.db, key).find(answer, args),
        Verb::GetRange => {
            let look = look(looks, ran.db, key);
            look.find(answer, args);
            // Its beginning is the token, what is behind it says something else.
            let found = answer.text().filter(|found| !found.is_empty());
            look.matched = found.filter(|found| args.iter().any(|arg| arg.starts_with(found)));
        }
        Verb::MGet => {
            for (&key, answer) in ran.words[1..].iter().zip(answers(ran.reply)) {
                look(looks, ran.db, key).find(answer, args);
            }
        }
        Verb::Exists => {
            let look = look(looks, ran.db, key);
            if answer == Answer::Number(0) {
                look.found = Some(None);
            } else if look.found.is_none() {
                look.found = Some(Some(b""));
            }
        }
        Verb::HExists | Verb::ZScore | Verb::HGet => {
            let look = look(looks, ran.db, key);
            let is_there = !matches!(answer, Answer::Number(0) | Answer::Null);
            look.found = look.found.or(Some(is_there.then_some(member)));
            look.sought = Some(member);
            if is_there {
                look.matched = Some(member);
            }
        }
        Verb::HIncrBy => {
            let by = ran.words.get(3).and_then(|word| parse_integer(word)).unwrap_or(0);
            let look = look(looks, ran.db, key);
            look.done = true;
            // Somebody may have it who has just looked whether nobody does.
            let looked = look.found.is_some();
            if let (Some(count), true) = (answer.number(), looked) {
                let shape = Shape::Hash;
                look.matched = Some(member);
                let act = match by > 0 {
                    true => Act::Enter { shape, member },
                    false => Act::Leave { shape, member, count, missed: false },
                };
                steps.push(Step { db: ran.db, key, act, guard: Guard::Compared(Some(member)), joint: true });
            }
        }
        Verb::ZCard | Verb::HLen => {
            let look = look(looks, ran.db, key);
            look.found = look.found.or(Some((answer != Answer::Number(0)).then_some(b"")));
        }
        Verb::ZAdd | Verb::HSet if answer != Answer::Error => {
            let member = if verb == Verb::HSet { member } else { ran.words.last().copied().unwrap_or_default() };
            let look = look(looks, ran.db, key);
            look.done = true;
            // A semaphore lets somebody in who has looked how many are in there.
            let mut act = Act::Write;
            if look.found.is_some() {
                look.matched = Some(member);
                act = Act::Enter { shape: Shape::Semaphore, member };
            }
            steps.push(Step { db: ran.db, key, act, guard: Guard::Compared(Some(member)), joint: true });
        }
        Verb::HDel => {
            let Answer::Number(count) = answer else { return };
            look(looks, ran.db, key).done = true;
            let act = Act::Leave { shape: Shape::Semaphore, member, count: 0, missed: count == 0 };
            steps.push(Step { db: ran.db, key, act, guard: Guard::Compared(Some(member)), joint: true });
        }
        _ => {
            for step in read(verb, ran) {
                let look = look(looks, step.db, step.key);
                let step = look.refine(step);
                let is_other = matches!(look.found, Some(Some(_))) && look.matched.is_none();
                look.overwrote |= is_other && !look.done && matches!(step.act, Act::Put { .. });
                look.done = true;
                steps.push(Step { joint: true, ..step });
            }
        }
    }
}

fn look<'l, 'a>(looks: &'l mut SmallVec<[Look<'a>; 2]>, db: u32, key: &'a [u8]) -> &'l mut Look<'a> {
    let at = looks.iter().position(|look| look.db == db && look.key == key).unwrap_or_else(|| {
        looks.push(Look { db, key, found: None, matched: None, sought: None, done: false, overwrote: false });
        looks.len() - 1
    });
    &mut looks[at]
}

impl<'a> Look<'a> {
    fn find(&mut self, answer: Answer<'a>, args: &[&'a [u8]]) {
        self.found = match answer {
            Answer::Text(value) => Some(Some(value)),
            Answer::Null => Some(None),
            _ => return,
        };
        self.matched = answer.text().filter(|value| args.contains(value));
    }

    /// What something comes to after what was found out before.
    fn refine(&self, step: Step<'a>) -> Step<'a> {
        let guard = if self.matched.is_some() { Guard::Compared(self.matched) } else { step.guard };
        let act = match step.act {
            // It has looked whether somebody has it, and nobody has.
            Act::Put { value, expiry, .. } if self.found == Some(None) => Act::Take { value, expiry, took: true },
            act => act,
        };
        Step { act, guard, ..step }
    }
}

fn is_number(word: &[u8]) -> bool {
    !word.is_empty() && word.len() < 12 && word.iter().all(u8::is_ascii_digit)
}
