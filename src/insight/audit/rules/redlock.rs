//! Locks over several servers.
//!
//! The parts of one attempt have the same key and the same token, which is long enough to be nobody else's. Who releases on
//! servers that never gave the lock does right, and so do attempts that meet and refuse each other.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::fast::FixedState;
use smallvec::SmallVec;

use crate::insight::audit::code::Code;
use crate::insight::audit::finding::{Evidence, Mark};
use crate::insight::audit::happening::{Draft, Gone, Happening, Scene, spelled};
use crate::insight::audit::lock::{Reason, Same, Standing, Who};
use crate::insight::audit::step::{Guard, Intent, Shape};

use super::ending::{is_telling, name_of};

/// What is remembered beyond one lock.
#[derive(Clone, Default)]
pub struct Wide {
    attempts: HashMap<Name, Attempt, FixedState>,
    /// Which servers are asked for a key.
    asked: HashMap<Arc<[u8]>, SmallVec<[u16; 8]>, FixedState>,
    /// How far each server's clock was from real time when something was first told of it, in microseconds.
    clocks: Vec<(u16, i64)>,
    begun: u64,
}

/// A key and a token: what they hash to, as there may be many.
type Name = u64;

fn name(key: &[u8], token: &[u8]) -> Name {
    FixedState::default().hash_one((key, token))
}

/// How many attempts are remembered, the keys of how many locks, and how many places one attempt may ask.
const MOST_ATTEMPTS: usize = 4096;
const MOST_KEYS: usize = 10_000;
const MOST_PARTS: usize = 32;

/// For how long after one connection took a lock another is refused that belongs to the same attempt, in microseconds.
const AT_ONCE: i64 = 200_000;

/// How far apart the first and the last server are asked at most, in microseconds.
const LONGEST: i64 = 60_000_000;

#[derive(Clone)]
struct Attempt {
    /// Which one it is, in the order in which they began.
    number: u64,
    parts: Vec<Part>,
    /// Its lock was used, and how that is known.
    used: Option<Evidence>,
    is_told: bool,
}

/// What one server has answered.
#[derive(Clone)]
struct Part {
    who: Who,
    db: u32,
    /// The command that asked.
    asked: Mark,
    gave: bool,
    /// For how long, in milliseconds.
    lives: Option<i64>,
    released: Option<Mark>,
    /// The lock is gone there, or cannot be reached.
    is_over: bool,
    /// What the client had done beside locks by then.
    work: u64,
}

pub(super) fn see(scene: &mut Scene<'_>, happening: &Happening<'_>) {
    if scene.lock.shape != Shape::Value {
        return;
    }
    match *happening {
        Happening::Acquired { .. } => {
            let Some(hold) = scene.lock.holds.last() else { return };
            let token = hold.token.clone();
            let lives = hold.deadline.map(|deadline| deadline - scene.mark.at.div_euclid(1000));
            asked(scene, &token, Some(lives));
        }
        Happening::Refused { value, .. } => {
            one_server_refuses(scene, value);
            asked(scene, value, None);
        }
        Happening::Extended { hold, guard, is_own: true, .. } => {
            let Some(token) = token_of(scene, hold, guard) else { return };
            let evidence = scene.now("extended it");
            with(scene, &token, |attempt| attempt.used = Some(evidence));
            judge_use(scene, &token);
        }
        Happening::Removed { hold, guard, .. } => {
            let Some(token) = token_of(scene, hold, guard) else { return };
            released(scene, &token);
        }
        Happening::Missed { token: Some(token), intent, .. } if intent != Intent::Extend => released(scene, token),
        Happening::Expired { hold } => {
            let token = scene.lock.holds[hold].token.clone();
            over(scene, &token, "until it expired");
        }
        Happening::Gone { how: Gone::Expired } => {
            let Some(token) = scene.lock.value.clone() else { return };
            over(scene, &token, "until it expired");
        }
        Happening::Closed { hold } | Happening::Flushed { hold, .. } => {
            // It is not there any more, or whoever has it cannot get there, as far as is known.
            let token = scene.lock.holds[hold].token.clone();
            let (server, db) = (scene.lock.place.server, scene.lock.place.db);
            with(scene, &token, |attempt| {
                attempt.parts.iter_mut().filter(|part| part.is_at(server, db)).for_each(|part| part.is_over = true);
            });
        }
        Happening::Ended { hold } => {
            let token = scene.lock.holds[hold].token.clone();
            if scene.lock.holds[hold].standing == Standing::Held {
                over(scene, &token, "until the end");
            }
        }
        _ => {}
    }
}

impl Part {
    fn is_at(&self, server: u16, db: u32) -> bool {
        self.who.server == server && self.db == db
    }
}

impl Attempt {
    fn new(number: u64) -> Self {
        Self { number, parts: Vec::new(), used: None, is_told: false }
    }

    /// How many servers were asked, and how many of them gave the lock.
    fn answers(&self) -> (usize, usize) {
        let servers = |gave: bool| {
            let mut servers: Vec<u16> =
                self.parts.iter().filter(|part| part.gave || !gave).map(|part| part.who.server).collect();
            servers.sort_unstable();
            servers.dedup();
            servers.len()
        };
        (servers(false), servers(true))
    }
}

fn token_of(scene: &Scene<'_>, hold: Option<usize>, guard: Guard<'_>) -> Option<Box<[u8]>> {
    match (guard, hold) {
        (Guard::Compared(Some(token)), _) => Some(token.into()),
        (_, Some(hold)) => Some(scene.lock.holds[hold].token.clone()),
        _ => None,
    }
}

fn with(scene: &mut Scene<'_>, token: &[u8], change: impl FnOnce(&mut Attempt)) {
    let name = name(&scene.lock.place.key, token);
    if let Some(attempt) = scene.wide.redlock.attempts.get_mut(&name) {
        change(attempt);
    }
}

/// A server was asked; it gave the lock for so long, or refused it.
fn asked(scene: &mut Scene<'_>, token: &[u8], gave: Option<Option<i64>>) {
    let Some(by) = scene.by.filter(|_| is_telling(token)) else { return };
    let (server, db, key) = (scene.lock.place.server, scene.lock.place.db, scene.lock.place.key.clone());
    let (mark, work) = (scene.mark.clone(), scene.work_of(by));
    let wide = &mut scene.wide.redlock;
    wide.make_room();
    wide.begun += 1;
    let attempt = wide.attempts.entry(name(&key, token)).or_insert_with(|| Attempt::new(wide.begun));
    // What is the same much later is a value that is always the same, and no attempt that goes on.
    if attempt.parts.iter().all(|part| mark.real - part.asked.real > LONGEST) {
        *attempt = Attempt::new(wide.begun);
    }
    let beside = attempt.parts.iter().find(|part| part.who.server == server && part.db != db && part.gave);
    let beside = beside.filter(|part| gave.is_some() && part.released.is_none()).map(|part| part.asked.clone());
    let part = Part {
        who: by.clone(),
        db,
        asked: mark,
        gave: gave.is_some(),
        lives: gave.flatten(),
        released: None,
        is_over: false,
        work,
    };
    match attempt.parts.iter().position(|part| part.is_at(server, db)) {
        Some(known) => {
            let known = &mut attempt.parts[known];
            // If it asks again with the same token, it has the lock all the same.
            if !known.gave || gave.is_some() || known.released.is_some() {
                *known = part;
            }
        }
        None if attempt.parts.len() < MOST_PARTS => attempt.parts.push(part),
        None => {}
    }
    let servers: SmallVec<[u16; 8]> = attempt.parts.iter().map(|part| part.who.server).collect();
    let is_wide = servers.iter().any(|other| *other != server);
    if is_wide && (wide.asked.len() < MOST_KEYS || wide.asked.contains_key(&key)) {
        let known = wide.asked.entry(key).or_default();
        for server in servers {
            if !known.contains(&server) {
                known.push(server);
            }
        }
    }
    if is_wide {
        scene.note_reason(Reason::Several);
    }
    if let Some(beside) = beside {
        one_server(scene, &beside, "in several databases of one server");
    }
}

impl Wide {
    /// How far a server's clock is from real time when the first line of its journal is told, in microseconds.
    pub fn note_clock(&mut self, server: u16, ahead: i64) {
        self.clocks.push((server, ahead));
    }

    /// Forgets the older half of all attempts if there are too many.
    fn make_room(&mut self) {
        if self.attempts.len() >= MOST_ATTEMPTS {
            let mut numbers: Vec<u64> = self.attempts.values().map(|attempt| attempt.number).collect();
            numbers.sort_unstable();
            let oldest = numbers.get(numbers.len() / 2).copied().unwrap_or(0);
            self.attempts.retain(|_, attempt| attempt.number >= oldest);
        }
    }

    /// How far a server's clock was from real time at first.
    fn clock(&self, server: u16) -> i64 {
        self.clocks.iter().find(|(known, _)| *known == server).map_or(0, |(_, clock)| *clock)
    }
}

/// An attempt that was over several servers, or is for a lock that others were taken for on several: with how many there
/// are to ask.
fn wide(scene: &Scene<'_>, token: &[u8]) -> Option<(Attempt, usize)> {
    let wide = &scene.wide.redlock;
    let servers = wide.asked.get(&scene.lock.place.key)?;
    let attempt = wide.attempts.get(&name(&scene.lock.place.key, token))?;
    Some((attempt.clone(), servers.len()))
}

/// The lock is released on one server, or was to be.
fn released(scene: &mut Scene<'_>, token: &[u8]) {
    let mark = scene.mark.clone();
    let (server, db) = (scene.lock.place.server, scene.lock.place.db);
    if let Some((attempt, _)) = wide(scene, token)
        && attempt.used.is_none()
        && attempt.parts.iter().all(|part| part.released.is_none())
    {
        let used = kept(scene, &attempt);
        with(scene, token, |attempt| attempt.used = used);
        judge_use(scene, token);
    }
    with(scene, token, |attempt| {
        for part in attempt.parts.iter_mut().filter(|part| part.is_at(server, db)) {
            (part.released, part.is_over) = (Some(mark.clone()), true);
        }
    });
    forget_if_over(scene, token);
}

/// Whether somebody who releases a lock has kept it before: for a good part of its time, if it has worked meanwhile, or for
/// most of it.
fn kept(scene: &Scene<'_>, attempt: &Attempt) -> Option<Evidence> {
    let last = attempt.parts.iter().max_by_key(|part| part.asked.real)?;
    let lives = attempt.parts.iter().filter_map(|part| part.lives).min()?;
    let here = scene.lock.place.server;
    let own = attempt.parts.iter().filter(|part| part.who.server == here).max_by_key(|part| part.asked.real);
    // Each server has a clock of its own.
    let by_clock = own.map_or(0, |part| scene.mark.at - part.asked.at);
    let kept = by_clock.max(scene.mark.real - last.asked.real) / 1000;
    let has_worked = attempt.parts.iter().any(|part| scene.work_of(&part.who) != part.work);
    let is_long = kept * 2 >= lives || (has_worked && kept * 10 >= lives);
    is_long.then(|| scene.now(format!("released it {} later", spelled(kept * 1000))))
}

/// Somebody has used a lock: it must have had enough servers, and have got them in time.
fn judge_use(scene: &mut Scene<'_>, token: &[u8]) {
    let Some((attempt, servers)) = wide(scene, token) else { return };
    let Some(used) = attempt.used.clone().filter(|_| !attempt.is_told) else { return };
    let (_, gave) = attempt.answers();
    let parts = || attempt.parts.iter().filter(|part| part.gave);
    let Some(last) = attempt.parts.iter().max_by_key(|part| part.asked.real) else { return };
    let (who, culprit) = (last.who.actor(), last.who.client);
    let key = name_of(scene);
    let draft = if gave * 2 <= servers {
        let mut evidence: Vec<Evidence> = attempt.parts.iter().map(Part::shown).collect();
        evidence.push(used);
        let sentence = format!("{who} used `{key}`, which only {gave} of {servers} servers had given it");
        Draft { code: Code::NoQuorum, severity: None, sentence, evidence, culprit }
    } else if let (Some(first), Some(lives)) =
        (parts().min_by_key(|part| part.asked.real), parts().filter_map(|part| part.lives).min())
        && let Some(last) = parts().max_by_key(|part| part.asked.real)
        && let took = elapsed(&scene.wide.redlock, &first.asked, &last.asked)
        && took / 1000 + lives / 100 + 2 >= lives
    {
        let mut evidence: Vec<Evidence> = parts().map(Part::shown).collect();
        evidence.push(used);
        let sentence = format!(
            "{who} used `{key}`, although it had taken {} to get it from all servers, and it lives for {}",
            spelled(took),
            spelled(lives * 1000)
        );
        Draft { code: Code::ValidityUsedUp, severity: None, sentence, evidence, culprit }
    } else {
        return;
    };
    with(scene, token, |attempt| attempt.is_told = true);
    scene.note_reason(Reason::Several);
    scene.tell(draft);
}

impl Part {
    fn shown(&self) -> Evidence {
        self.asked.shows(if self.gave { "was given the lock" } else { "was refused" })
    }
}

/// How much time has passed between two commands to servers whose clocks may differ, in microseconds: at least so much.
fn elapsed(wide: &Wide, first: &Mark, last: &Mark) -> i64 {
    let shown = last.at - first.at;
    let difference = wide.clock(last.server) - wide.clock(first.server);
    shown.min(shown - difference).max(0)
}

/// The lock of an attempt is over on one server, and was not released there.
fn over(scene: &mut Scene<'_>, token: &[u8], until: &str) {
    let (server, db) = (scene.lock.place.server, scene.lock.place.db);
    let Some((attempt, servers)) = wide(scene, token) else { return };
    let own = attempt.parts.iter().find(|part| part.is_at(server, db) && part.gave && !part.is_over);
    let (asked, gave) = attempt.answers();
    if let Some(own) = own
        && asked >= 2
        && gave * 2 <= servers
        && !attempt.is_told
    {
        let key = name_of(scene);
        let who = own.who.actor();
        let sentence = format!(
            "{who} did not get `{key}` from enough servers ({gave} of {servers}), and did not release it on server \
             {server}, which had given it, {until}"
        );
        let mut evidence = vec![own.asked.shows("was given the lock, and did not release it")];
        evidence.extend(attempt.parts.iter().filter(|part| !part.gave).map(Part::shown));
        let culprit = own.who.client;
        scene.note_reason(Reason::Several);
        scene.tell(Draft { code: Code::NotReleasedEverywhere, severity: None, sentence, evidence, culprit });
    }
    with(scene, token, |attempt| {
        attempt.parts.iter_mut().filter(|part| part.is_at(server, db)).for_each(|part| part.is_over = true);
    });
}

/// Forgets an attempt that was released wherever it was asked for.
fn forget_if_over(scene: &mut Scene<'_>, token: &[u8]) {
    let name = name(&scene.lock.place.key, token);
    let attempts = &mut scene.wide.redlock.attempts;
    if attempts.get(&name).is_some_and(|attempt| attempt.parts.iter().all(|part| part.released.is_some())) {
        attempts.remove(&name);
    }
}

/// A connection is refused by what another one of the same attempt has just taken on the same server.
fn one_server_refuses(scene: &mut Scene<'_>, value: &[u8]) {
    let Some(by) = scene.by.filter(|_| is_telling(value)) else { return };
    let Some(holder) = scene.lock.holder().filter(|hold| hold.is_certain && *hold.token == *value) else { return };
    let soon = scene.mark.real - holder.acquired.real < AT_ONCE;
    if soon && !holder.who.is(by) && holder.who.same(by) != Same::No {
        let first = holder.acquired.clone();
        one_server(scene, &first, "over several connections to one server");
    }
}

fn one_server(scene: &mut Scene<'_>, first: &Mark, how: &str) {
    let key = name_of(scene);
    let sentence = format!("{} took `{key}` with one token {how}, which is worth no more than once", first.actor());
    let evidence = vec![first.shows("took the lock"), scene.now("asked for it with the same token")];
    scene.note_reason(Reason::Several);
    scene.tell(Draft { code: Code::OneServer, severity: None, sentence, evidence, culprit: 0 });
}
