//! Goes through a journal, line by line, and keeps what is needed to judge the next.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::FixedState;

use super::allowance::Allowance;
use super::answer::Answer;
use super::code::Code;
use super::course::{Course, Deadlines};
use super::finding::{Finding, Mark};
use super::happening::Scene;
use super::lock::{Lock, Place, Reason, Standing, Who};
use super::party::{Parties, Party, Touch, Watched};
use super::picture::{DeedKind, Picture};
use super::read::{Ran, Verb, read};
use super::report::Report;
use super::rules::Wide;
use super::script::{Scripts, joined, read_script};
use super::stamp::Instant;
use super::step::{Act, Guard, Shape, Step, Steps};
use super::told::{Inside, Told};
use crate::base::duration::parse_duration;
use crate::base::glob;
use crate::powers::{EventKind, Outcome, RecordHeader, short_line};
use crate::protocol::{OwnedWords, Words};
use crate::spec::RequestKeys;

/// How many keys are watched that may be locks, known ones included. Beyond, those are forgotten that nobody holds, or that
/// the server does not have.
const MOST_LOCKS: usize = 20_000;

/// What an audit is to look for, and at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// Globs of keys that are locks, whatever clients do with them,
    pub locks: Vec<Vec<u8>>,
    /// and of keys that are none.
    pub not_locks: Vec<Vec<u8>>,
    /// What is known and allowed.
    pub allowed: Vec<Allowance>,
    /// Rules that are not to be followed.
    pub off: Vec<Code>,
}

/// Tells which keys a command names: only whoever knows the commands can.
pub type Naming = dyn for<'w> Fn(Words<'w>) -> RequestKeys<'w> + Send + Sync;

/// Goes through the journals of one or more servers. The same journals give the same findings.
#[derive(Clone)]
pub struct Auditor {
    scope: Arc<Scope>,
    naming: Arc<Naming>,
    locks: Locks,
    /// When locks end, by server.
    deadlines: Vec<(u16, Deadlines)>,
    parties: Parties,
    scripts: Scripts,
    wide: Wide,
    report: Report,
    picture: Option<Picture>,
    /// The last line of each server.
    last: Vec<Mark>,
    /// Clocks that were moved on: the server, the place of the line that says so, and to when, in microseconds.
    moved: Vec<(u16, u64, i64)>,
    /// When the line before the last was told, in real time.
    since: i64,
    /// How many lines it has gone through.
    pub lines: u64,
}

/// Those of one database, by key.
type Database = HashMap<Arc<[u8]>, Arc<Lock>, FixedState>;

/// All keys that may be locks.
#[derive(Clone, Default)]
struct Locks {
    /// Shared with copies of the auditor, as long as nothing happens to them.
    databases: Vec<((u16, u32), Database)>,
    count: usize,
    /// How many there may be before those are forgotten that nobody holds.
    most: usize,
}

impl Locks {
    #[inline]
    fn get_mut(&mut self, server: u16, db: u32, key: &[u8]) -> Option<&mut Lock> {
        let (_, locks) = self.databases.iter_mut().find(|(number, _)| *number == (server, db))?;
        locks.get_mut(key).map(Arc::make_mut)
    }

    #[inline]
    fn find(&self, server: u16, db: u32, key: &[u8]) -> Option<&Lock> {
        let (_, locks) = self.databases.iter().find(|(number, _)| *number == (server, db))?;
        locks.get(key).map(|lock| &**lock)
    }

    fn get(&self, place: &Place) -> Option<&Lock> {
        self.find(place.server, place.db, &place.key)
    }

    fn at(&mut self, place: &Place) -> Option<&mut Lock> {
        self.get_mut(place.server, place.db, &place.key)
    }

    fn add(&mut self, server: u16, db: u32, key: &[u8]) {
        if self.count >= self.most.max(MOST_LOCKS) {
            self.forget_free();
        }
        let at = self.databases.iter().position(|(number, _)| *number == (server, db)).unwrap_or_else(|| {
            self.databases.push(((server, db), HashMap::default()));
            self.databases.len() - 1
        });
        let key: Arc<[u8]> = key.into();
        let place = Arc::new(Place { server, db, key: key.clone() });
        if self.databases[at].1.insert(key, Arc::new(Lock::new(place, Shape::Value))).is_none() {
            self.count += 1;
        }
    }

    fn remove(&mut self, place: &Place) {
        let number = (place.server, place.db);
        let database = self.databases.iter_mut().find(|(other, _)| *other == number);
        if database.is_some_and(|(_, locks)| locks.remove(&place.key).is_some()) {
            self.count -= 1;
        }
    }

    #[cold]
    fn forget_free(&mut self) {
        for (_, locks) in &mut self.databases {
            locks.retain(|_, lock| !lock.holds.is_empty() || !lock.waiters.is_empty() || lock.value.is_some());
        }
        self.count = self.databases.iter().map(|(_, locks)| locks.len()).sum();
        if self.count >= MOST_LOCKS {
            // Those whose holders were never told that they have lost them may be more and more.
            for (_, locks) in &mut self.databases {
                locks.retain(|_, lock| lock.value.is_some());
            }
            self.count = self.databases.iter().map(|(_, locks)| locks.len()).sum();
        }
        self.most = self.count * 2;
    }

    /// A copy with those alone that are taken for locks and that somebody holds or waits for.
    fn live(&self) -> Self {
        let mut live = self.clone();
        for (_, locks) in &mut live.databases {
            locks.retain(|_, lock| is_live(lock));
        }
        live.count = live.databases.iter().map(|(_, locks)| locks.len()).sum();
        live
    }

    /// Forgets those of a server.
    fn forget(&mut self, server: u16) {
        self.databases.retain(|((number, _), _)| *number != server);
        self.count = self.databases.iter().map(|(_, locks)| locks.len()).sum();
    }

    /// All of them, in the order of their places.
    fn places(&self, is_meant: impl Fn(&Lock) -> bool) -> Vec<Arc<Place>> {
        let all = self.databases.iter().flat_map(|(_, locks)| locks.values());
        let mut places: Vec<_> = all.filter(|lock| is_meant(lock)).map(|lock| Arc::clone(&lock.place)).collect();
        places.sort();
        places
    }
}

impl Auditor {
    pub fn new(scope: Arc<Scope>, naming: Arc<Naming>) -> Self {
        let report = Report::new(Arc::clone(&scope));
        Self {
            scope,
            naming,
            locks: Locks::default(),
            deadlines: Vec::new(),
            parties: Parties::default(),
            scripts: Scripts::default(),
            wide: Wide::default(),
            report,
            picture: None,
            last: Vec::new(),
            moved: Vec::new(),
            since: 0,
            lines: 0,
        }
    }

    /// Also keeps who held a lock when, and what was done to it, which takes memory for each command that is about a lock.
    pub fn draw(mut self) -> Self {
        self.picture = Some(Picture::default());
        self
    }

    /// All findings so far, in the order in which they were found.
    pub fn findings(&self) -> &[Arc<Finding>] {
        self.report.findings()
    }

    /// Findings that there was no more room for.
    pub fn unlisted(&self) -> u64 {
        self.report.unlisted
    }

    /// How many keys it has taken for locks.
    pub fn watched(&self) -> u64 {
        self.report.locks
    }

    /// How many keys are remembered that are locks or may be.
    #[cfg(feature = "internals")]
    pub fn everything(&self) -> usize {
        self.locks.count
    }

    /// Who held which lock when, if that is kept.
    pub fn picture(&self) -> Option<&Picture> {
        self.picture.as_ref()
    }

    /// All keys that are taken for locks, in the order of servers, databases and keys.
    pub fn known(&self) -> Vec<Arc<Place>> {
        self.locks.places(Lock::is_known)
    }

    /// A copy that knows of those locks alone that somebody holds or waits for.
    pub fn live(&self) -> Self {
        let Self { scope, naming, .. } = self;
        Self {
            locks: self.locks.live(),
            deadlines: self.deadlines.iter().map(|(server, _)| (*server, Deadlines::new())).collect(),
            parties: self.parties.clone(),
            wide: self.wide.clone(),
            last: self.last.clone(),
            since: self.since,
            lines: self.lines,
            ..Self::new(Arc::clone(scope), Arc::clone(naming))
        }
    }

    /// All keys that are taken for locks and that somebody holds or waits for, in the order of servers, databases and keys.
    /// What is over at these times of the servers' clocks is not held: for each server the time on its clock and the real
    /// time, in microseconds.
    pub fn locks(&mut self, now: impl Fn(u16) -> (i64, i64)) -> Vec<Lock> {
        for place in self.locks.places(Lock::is_known) {
            let (at, real) = now(place.server);
            let mark = Mark { at, real, ..self.end_of(place.server) };
            self.on(&place, None, mark, |course| course.pass(at, real));
        }
        let places = self.locks.places(is_live);
        places.iter().filter_map(|place| self.locks.get(place).cloned()).collect()
    }

    /// Takes in the next line, if a glance is enough to see that it has nothing to do with locks: nearly all lines of
    /// nearly all programs have not. Says whether it was.
    #[inline]
    pub fn skims(&mut self, server: u16, glance: &RecordHeader<'_>) -> bool {
        if glance.is_event || self.parties.contains_key(&(server, glance.client)) {
            return false;
        }
        let is_about_key = match Verb::of(glance.first) {
            Verb::Nothing => false,
            Verb::Set => {
                if glance.words != 3 || !self.scope.locks.is_empty() {
                    return false;
                }
                true
            }
            Verb::Get | Verb::GetRange | Verb::Exists | Verb::Change | Verb::Del if glance.words <= 4 => {
                if glance.words != 2 && matches!(Verb::of(glance.first), Verb::Exists | Verb::Del) {
                    return false;
                }
                true
            }
            _ => return false,
        };
        if is_about_key && self.locks.find(server, glance.db, glance.second).is_some() {
            return false;
        }
        self.lines += 1;
        self.pass(server, glance.seq, glance.at, glance.real);
        true
    }

    /// Takes in the next line. Those of one server come in the order of their places.
    pub fn feed(&mut self, told: &Told<'_>) {
        self.lines += 1;
        self.pass(told.server, told.seq, told.at, told.real);
        match told.event {
            Some(EventKind::Closed) => return self.close(told),
            Some(EventKind::Started) => {
                if told.words.first().is_some_and(|detail| *detail == b"empty") {
                    self.flush(told, None, true);
                }
                return;
            }
            Some(EventKind::Clock) => return self.note_move(told),
            None if matches!(told.outcome, Outcome::NeverRan | Outcome::Queued) => return,
            None => {}
        }
        let Some(name) = told.words.first() else { return };
        let verb = Verb::of(name);
        match verb {
            Verb::Exec => self.exec(told),
            Verb::Eval | Verb::EvalSha => self.script(told),
            Verb::Watch => self.watch(told),
            Verb::Unwatch | Verb::Discard => {
                self.unwatch(told);
            }
            _ => {
                let ran = Ran { db: told.db, words: &told.words, reply: told.reply };
                for step in read(verb, ran) {
                    if let Act::Read { value } = step.act {
                        self.note_watched(told, step.key, value);
                    }
                    self.apply(told, &step);
                }
            }
        }
        self.work(told);
    }

    /// There is nothing more to come.
    pub fn finish(&mut self) {
        for place in
            self.locks.places(|lock| !(lock.holds.is_empty() && lock.waiters.is_empty() && lock.value.is_none()))
        {
            let mut mark = self.end_of(place.server);
            // What comes last may be that a clock is moved, and nothing has told the time since.
            let moved = self.moved.iter().find(|(server, seq, _)| (*server, *seq) == (mark.server, mark.seq));
            mark.at = moved.map_or(mark.at, |(.., to)| mark.at.max(*to));
            let (at, real) = (mark.at, mark.real);
            self.on(&place, None, mark, |course| {
                course.pass(at, real);
                course.finish();
            });
        }
    }

    /// A clock is about to be moved. What that has for consequences comes in lines of its own, each with its time.
    fn note_move(&mut self, told: &Told<'_>) {
        let by = told.words.first().and_then(|detail| parse_duration(detail.strip_prefix(b"+")?));
        let Some(by) = by.and_then(|by| i64::try_from(by.as_micros()).ok()) else { return };
        self.moved.retain(|(server, ..)| *server != told.server);
        self.moved.push((told.server, told.seq, told.at.saturating_add(by)));
    }

    /// Looks for something else from now on; what was found before is allowed by the new scope or not.
    pub fn set_scope(&mut self, scope: Arc<Scope>) {
        self.report.set_scope(Arc::clone(&scope));
        self.scope = scope;
    }

    /// Something was not seen of what clients did on a server: who holds what there is not known any more. What was found
    /// stays.
    pub fn miss(&mut self, server: u16) {
        self.locks.forget(server);
        self.deadlines.iter_mut().filter(|(number, _)| *number == server).for_each(|(_, ends)| ends.clear());
        self.parties.retain(|(number, _), _| *number != server);
        self.wide = Wide::default();
    }

    /// A server begins anew: nothing of it is known, nor what was found there.
    pub fn forget(&mut self, server: u16) {
        self.miss(server);
        self.deadlines.retain(|(number, _)| *number != server);
        self.last.retain(|mark| mark.server != server);
        self.moved.retain(|(moved, ..)| *moved != server);
        self.report.forget(Some(server));
    }

    /// Forgets what was found. Who holds what stays known.
    pub fn forget_findings(&mut self) {
        self.report.forget(None);
    }

    fn end_of(&self, server: u16) -> Mark {
        let last = self.last.iter().find(|mark| mark.server == server).cloned();
        let nothing = Arc::from("");
        last.unwrap_or(Mark { server, seq: 0, at: 0, real: 0, client: 0, name: Arc::clone(&nothing), line: nothing })
    }

    /// Ends the locks whose time is over when a line is told.
    #[inline]
    fn pass(&mut self, server: u16, seq: u64, at: i64, real: i64) {
        match self.last.iter_mut().find(|mark| mark.server == server) {
            Some(last) => {
                self.since = last.real;
                (last.seq, last.at, last.real) = (seq, at, real);
            }
            None => {
                let line = Arc::from("(the end)");
                self.last.push(Mark { server, seq, at, real, client: 0, name: Arc::from(""), line });
                self.deadlines.push((server, Deadlines::new()));
                self.wide.redlock.note_clock(server, at - real);
            }
        }
        let now = at.div_euclid(1000);
        while let Some((_, deadlines)) = self.deadlines.iter_mut().find(|(other, _)| *other == server)
            && let Some((deadline, _)) = deadlines.first()
            && *deadline < now
        {
            let Some((_, place)) = deadlines.pop_first() else { return };
            let mark = self.end_of(server);
            self.on(&place, None, mark, |course| course.pass(at, real));
        }
    }

    /// Something happens to a lock that is there. It is forgotten afterwards if there is no reason to remember it.
    fn on(&mut self, place: &Place, by: Option<&Who>, mark: Mark, happen: impl FnOnce(&mut Course<'_>)) {
        let Some(lock) = self.locks.at(place) else { return };
        let Some((_, deadlines)) = self.deadlines.iter_mut().find(|(server, _)| *server == place.server) else {
            return;
        };
        let scene = Scene {
            lock,
            by,
            mark,
            is_lost: false,
            told: None,
            parties: &mut self.parties,
            wide: &mut self.wide,
            report: &mut self.report,
        };
        let mut course = Course { scene, deadlines, picture: self.picture.as_mut(), since: self.since };
        happen(&mut course);
        self.forget_if_nothing(place);
    }

    fn forget_if_nothing(&mut self, place: &Place) {
        let is_nothing =
            |lock: &Lock| !lock.is_known() && lock.holds.is_empty() && lock.waiters.is_empty() && lock.value.is_none();
        if self.locks.get(place).is_some_and(is_nothing) {
            self.locks.remove(place);
        }
    }

    fn who(&self, told: &Told<'_>) -> Who {
        let known = self.parties.get(&(told.server, told.client)).map(|party| &party.who);
        let name = String::from_utf8_lossy(told.name());
        match known {
            Some(known) if *known.name == *name => known.clone(),
            _ => Who {
                server: told.server,
                client: told.client,
                name: Arc::from(&*name),
                address: Arc::from(told.address()),
            },
        }
    }

    fn mark(told: &Told<'_>, who: &Who) -> Mark {
        let Told { server, seq, at, real, client, .. } = *told;
        let line = if told.event.is_some() { "(the connection ended)".to_owned() } else { short_line(&told.words) };
        Mark { server, seq, at, real, client, name: Arc::clone(&who.name), line: Arc::from(line) }
    }

    /// Takes in what a command has done to a key.
    fn apply(&mut self, told: &Told<'_>, step: &Step<'_>) {
        if let Act::Flush { all } = step.act {
            return self.flush(told, (!all).then_some(step.db), false);
        }
        if self.locks.find(told.server, step.db, step.key).is_none() {
            if !self.begins(told, step) {
                return;
            }
            self.locks.add(told.server, step.db, step.key);
        }
        let who = self.who(told);
        let mark = Self::mark(told, &who);
        if let Some(party) = self.parties.get_mut(&(told.server, told.client)) {
            party.who = who.clone();
        }
        let Some(lock) = self.locks.get_mut(told.server, step.db, step.key) else { return };
        let place = Arc::clone(&lock.place);
        if step.is_no_locks() && !lock.is_known() {
            // A counter, or a collection.
            let deadline = lock.deadline;
            self.locks.remove(&place);
            let ends = self.deadlines.iter_mut().find(|(server, _)| *server == told.server);
            if let (Some((_, ends)), Some(deadline)) = (ends, deadline) {
                ends.remove(&(deadline, place));
            }
            return;
        }
        let Some((_, deadlines)) = self.deadlines.iter_mut().find(|(server, _)| *server == told.server) else { return };
        let scene = Scene {
            lock,
            by: Some(&who),
            mark,
            is_lost: told.outcome != Outcome::Answered,
            told: told.told,
            parties: &mut self.parties,
            wide: &mut self.wide,
            report: &mut self.report,
        };
        let mut course = Course { scene, deadlines, picture: self.picture.as_mut(), since: self.since };
        if !self.scope.locks.is_empty() && self.scope.locks.iter().any(|glob| glob::matches(glob, step.key, false)) {
            course.note_reason(Reason::Said);
        }
        course.apply(step);
        if let (Some(picture), Some(lock)) = (&mut self.picture, self.locks.get(&place)) {
            picture.note_act(lock, told.seq, &step.act);
        }
        self.trim_met(&who);
        self.forget_if_nothing(&place);
    }

    /// Whether a step is one with which a lock may begin that is not known yet.
    #[inline]
    fn begins(&self, told: &Told<'_>, step: &Step<'_>) -> bool {
        let begins = match step.act {
            Act::Take { .. } | Act::Enter { .. } => true,
            Act::Put { value, old: Some(_), .. } if Instant::to_come(value, told.at, told.real).is_some() => true,
            Act::Remove { removed: Some(true) } | Act::Expire { done: true, .. } if step.guard != Guard::Blind => true,
            Act::Put { value, .. } if step.guard == Guard::Compared(Some(value)) => true,
            Act::Put { .. } => self.scope.locks.iter().any(|glob| glob::matches(glob, step.key, false)),
            _ => false,
        };
        begins && !self.scope.not_locks.iter().any(|glob| glob::matches(glob, step.key, false))
    }

    fn script(&mut self, told: &Told<'_>) {
        told.inside(|inside| {
            for step in read_script(&told.words, inside, 1, &mut self.scripts) {
                self.apply(told, &step);
            }
        });
    }

    fn exec(&mut self, told: &Told<'_>) {
        let watched: Vec<Watched> = self.unwatch(told);
        let watched = watched.as_slice();
        if matches!(Answer::of(told.reply), Answer::Null | Answer::Error) {
            return;
        }
        told.inside(|inside| {
            let mut first = 0;
            let mut steps = Steps::new();
            for (at, ran) in inside.iter().enumerate().filter(|(_, inside)| inside.depth == 1) {
                let deeper: &[Inside<'_>] = &inside[first..at];
                first = at + 1;
                let Some(name) = ran.words.first() else { continue };
                let verb = Verb::of(name);
                steps.extend(match verb {
                    Verb::Eval | Verb::EvalSha => read_script(&ran.words, deeper, 2, &mut self.scripts),
                    _ => read(verb, Ran { db: ran.db, words: &ran.words, reply: ran.reply }),
                });
            }
            for step in joined(steps) {
                let step = Step { joint: true, ..step };
                let watched = guarded(step.clone(), watched);
                // To watch a key is no sign of a lock; what was taken before may be one.
                if watched == step || self.locks.find(told.server, step.db, step.key).is_some() {
                    self.apply(told, &watched);
                }
            }
        });
    }

    fn watch(&mut self, told: &Told<'_>) {
        const MOST_WATCHED: usize = 16;
        let who = self.who(told);
        let party = self.parties.entry((told.server, told.client)).or_insert_with(|| Party::new(who));
        for key in told.words.iter().skip(1).take(MOST_WATCHED) {
            if party.watched.len() < MOST_WATCHED {
                party.watched.push((told.db, (*key).into(), None));
            }
        }
    }

    /// A client that watches a key has read it.
    fn note_watched(&mut self, told: &Told<'_>, key: &[u8], value: Option<&[u8]>) {
        let Some(party) = self.parties.get_mut(&(told.server, told.client)) else { return };
        for (db, watched, read) in &mut party.watched {
            if *db == told.db && **watched == *key {
                *read = value.map(Into::into);
            }
        }
    }

    /// A client watches nothing any more; what it had watched, with what it has read there since.
    fn unwatch(&mut self, told: &Told<'_>) -> Vec<Watched> {
        let party = self.parties.get_mut(&(told.server, told.client));
        party.map(|party| std::mem::take(&mut party.watched)).unwrap_or_default()
    }

    /// All keys of a database are gone, or of the whole server.
    fn flush(&mut self, told: &Told<'_>, db: Option<u32>, is_restart: bool) {
        let who = self.who(told);
        let mut mark = Self::mark(told, &who);
        if is_restart {
            mark.line = Arc::from("(the server started empty)");
        }
        let is_there = |lock: &Lock| lock.value.is_some() || lock.holder().is_some();
        let is_meant =
            |lock: &Lock| lock.place.server == told.server && db.is_none_or(|db| lock.place.db == db) && is_there(lock);
        for place in self.locks.places(is_meant) {
            let by = (!is_restart).then_some(&who);
            self.on(&place, by, mark.clone(), |course| course.flush(is_restart));
            if let (Some(picture), Some(lock)) = (&mut self.picture, self.locks.get(&place)) {
                picture.note_deed(lock, told.seq, DeedKind::Flushed);
            }
        }
    }

    /// The connection of a client has ended.
    fn close(&mut self, told: &Told<'_>) {
        let client = (told.server, told.client);
        let Some(who) = self.parties.get(&client).map(|party| party.who.clone()) else { return };
        let mark = Self::mark(told, &who);
        let mut places = self.parties.get_mut(&client).map(|party| std::mem::take(&mut party.met)).unwrap_or_default();
        self.keep_met(&mut places, &who);
        for place in places {
            self.on(&place, Some(&who), mark.clone(), |course| course.close(&who));
        }
        self.parties.remove(&client);
    }

    /// Forgets locks that somebody has met and neither holds nor waits for now.
    fn keep_met(&self, places: &mut Vec<Arc<Place>>, who: &Who) {
        places.sort();
        places.dedup();
        places.retain(|place| {
            self.locks.get(place).is_some_and(|lock| {
                lock.holds.iter().any(|hold| hold.who.is(who)) || lock.waiters.iter().any(|waiter| waiter.who.is(who))
            })
        });
    }

    /// Makes room if a client has met many locks since that was last done.
    fn trim_met(&mut self, who: &Who) {
        let client = (who.server, who.client);
        let Some(party) = self.parties.get_mut(&client).filter(|party| party.has_met_many()) else { return };
        let mut places = std::mem::take(&mut party.met);
        self.keep_met(&mut places, who);
        if let Some(party) = self.parties.get_mut(&client) {
            party.keep_met(places);
        }
    }

    /// Looks at what somebody does who holds a lock, or has lost one.
    #[inline]
    fn work(&mut self, told: &Told<'_>) {
        let key = (told.server, told.client);
        if self.parties.is_empty() || !self.parties.get(&key).is_some_and(Party::is_at_work) {
            return;
        }
        self.judge_work(told);
    }

    fn judge_work(&mut self, told: &Told<'_>) {
        let mut done: Vec<(u32, OwnedWords)> = Vec::new();
        if matches!(Verb::of(told.words[0]), Verb::Exec | Verb::Eval | Verb::EvalSha) {
            told.inside(|inside| {
                done.extend(inside.iter().map(|inside| (inside.db, inside.words.iter().collect())));
            });
        } else {
            done.push((told.db, told.words.iter().collect()));
        }
        let naming = Arc::clone(&self.naming);
        let who = self.who(told);
        for (db, words) in &done {
            let RequestKeys { keys, writes } = naming(words.as_words());
            for key in keys {
                if self.locks.find(told.server, *db, key).is_some() {
                    continue;
                }
                let Some(party) = self.parties.get_mut(&(told.server, told.client)) else { return };
                (party.work, party.worked_at) = (party.work + 1, told.at);
                if let Some(touch) = party.touch_of(*db, key).filter(|_| writes).cloned() {
                    let places: Vec<Arc<Place>> = party.lost.iter().chain(&party.holds).cloned().collect();
                    let (at, real) = (told.at, told.real);
                    let is_over = |lock: &Lock| lock.holds.iter().any(|hold| hold.is_over(at, real));
                    for place in &places {
                        if self.locks.get(place).is_some_and(is_over) {
                            let mark = Self::mark(told, &who);
                            self.on(place, Some(&who), mark, |course| course.pass(at, real));
                        }
                    }
                    // What one lock does not guard any more another may.
                    let is_held = |place: &Arc<Place>| self.locks.get(place).is_some_and(|lock| has(lock, &who));
                    if !places.iter().any(is_held) {
                        for place in &places {
                            if self.has_touched_under(place, &who, &touch) {
                                let mark = Self::mark(told, &who);
                                self.on(place, Some(&who), mark, |course| course.work(key));
                            }
                        }
                    }
                }
                if let Some(party) = self.parties.get_mut(&(told.server, told.client))
                    && !party.holds.is_empty()
                {
                    party.touch(*db, key, told.seq, told.at);
                }
            }
        }
    }

    /// Whether somebody has touched a key while it had this lock, which it has lost.
    fn has_touched_under(&self, place: &Place, who: &Who, touch: &Touch) -> bool {
        let Some(lock) = self.locks.get(place) else { return false };
        let (hold, until) = match (lock.hold_of(who), lock.past_of(who)) {
            (Some(hold), _) => (hold, i64::MAX),
            (None, Some(past)) => (&past.hold, past.at),
            (None, None) => return false,
        };
        let to = match &hold.standing {
            Standing::Deleted(mark) | Standing::Overwritten(mark) | Standing::Flushed(mark) => mark.seq,
            Standing::Held | Standing::Vanished => u64::MAX,
        };
        touch.is_within(hold.acquired.seq, to, until)
    }
}

/// Whether somebody holds it or waits for it.
fn is_live(lock: &Lock) -> bool {
    lock.is_known() && !(lock.holds.is_empty() && lock.waiters.is_empty())
}

/// Whether the server stands by somebody's hold of a lock.
fn has(lock: &Lock, who: &Who) -> bool {
    lock.hold_of(who).is_some_and(|hold| hold.standing == Standing::Held)
}

/// What EXEC runs is guarded by what was read since WATCH.
fn guarded<'a>(step: Step<'a>, watched: &'a [Watched]) -> Step<'a> {
    let read = watched.iter().find(|(db, key, _)| *db == step.db && **key == *step.key);
    match read.and_then(|(_, _, value)| value.as_deref()) {
        Some(value) if step.guard == Guard::Blind => Step { guard: Guard::Compared(Some(value)), ..step },
        _ => step,
    }
}
