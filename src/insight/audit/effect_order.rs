//! The order in which the commands of upstream servers took effect, as far as their intervals and replies tell it.
//!
//! Of a command it is known when it was sent and when its reply came. Commands whose intervals overlap may have taken
//! effect in either order, but their replies show what they found: SET NX that succeeds found the key free, DEL that
//! returns 1 found it there. So of commands that overlap and share a key, all orders are tried that fit every reply. If
//! there is one, the commands are audited in it. Where several fit, the commands are marked as unplaced: what they touched
//! is in doubt afterwards, and nobody is blamed for it.

use std::collections::{HashMap, VecDeque};

use foldhash::fast::FixedState;
use smallvec::SmallVec;

use super::command_effects::{Executed, effects_of};
use super::effect::{Claim, Effect, ExpiryChange, KeyEffect, Precondition};
use super::journal_line::{Front, JournalLine};
use super::missing_replies::{Knowledge, keys_of};
use crate::powers::{EffectOrder, Item, Outcome};
use crate::spec::{CommandKind, LockEffect, Table, TransactionCommand};

/// How many microseconds a command is waited for that was sent before others and is answered after them.
const GRACE: i64 = 10_000_000;
/// How many lines wait at most.
const MAX_WAITING: usize = 32_768;
/// How many commands that change keys, and how many in all, may overlap for their orders to be tried.
const MAX_CHANGES: usize = 6;
const MAX_GROUP: usize = 64;

/// Lines that wait until it is known what belongs in front of them, in the order in which their replies came.
#[derive(Clone, Default)]
pub struct WaitingLines {
    lines: VecDeque<WaitingLine>,
    /// The latest time so far, and until when lines have left.
    newest: i64,
    left_until: i64,
}

#[derive(Clone)]
struct WaitingLine {
    server: u16,
    item: Item,
    client: u64,
    earliest: i64,
    real: i64,
    /// What it found and did, key by key, in one step.
    steps: Vec<KeyStep>,
    /// Whether it changes all keys of a database.
    is_wide: bool,
    /// Whether only its interval is known.
    is_interval: bool,
    is_unplaced: bool,
    is_loose: bool,
    is_stale: bool,
    front: Front,
}

/// A key of one server.
pub type Key = (u16, u32, Box<[u8]>);

/// What a command found at a key, and what it left there.
#[derive(Clone)]
pub struct KeyStep {
    pub key: Key,
    pub found: Found,
    pub left: Left,
}

#[derive(Clone, PartialEq, Eq)]
pub enum Found {
    Anything,
    Absent,
    Present,
    Value(Box<[u8]>),
    /// The key was free, or had another value.
    Not(Box<[u8]>),
}

#[derive(Clone, PartialEq, Eq)]
pub enum Left {
    Same,
    /// The same value, for so many milliseconds from now on.
    Extended(Option<i64>),
    Absent,
    /// This value for so many milliseconds.
    Value(Box<[u8]>, Option<i64>),
    Unknown,
}

impl WaitingLines {
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Adds a line. Lines come in the order in which their replies came.
    pub fn push(&mut self, line: &JournalLine<'_>, item: Item, commands: &Table) {
        let is_interval = line.event.is_none() && line.order == EffectOrder::Interval;
        let mut new = WaitingLine {
            server: line.server,
            item,
            client: line.client,
            earliest: line.earliest,
            real: line.real,
            steps: steps_of(line, commands),
            is_wide: is_wide(line, commands),
            is_interval,
            // It is too late for what has left already.
            is_unplaced: line.is_unplaced || is_interval && line.earliest < self.left_until,
            is_loose: false,
            is_stale: line.is_stale,
            front: line.front,
        };
        self.newest = self.newest.max(line.real);
        if line.outcome == Outcome::Unknown {
            // It may have run at once, or at any time until now.
            new.is_interval = false;
            let at = self.lines.iter().position(|other| other.server == line.server && other.real >= line.earliest);
            self.lines.insert(at.unwrap_or(self.lines.len()), new.clone());
        }
        self.lines.push_back(new);
    }

    /// The lines in front of which nothing can come any more, unless a command took very long.
    pub fn due(&self) -> Option<i64> {
        let first = self.lines.front()?;
        if self.lines.len() > MAX_WAITING {
            return self.lines.get(MAX_WAITING / 2).map(|line| line.real);
        }
        // A few at a time would be compared again and again.
        let until = self.newest.saturating_sub(GRACE);
        (first.real < until.saturating_sub(GRACE)).then_some(until)
    }

    /// Lets the lines up to a time go, one by one, in their order. `known` says what is known of a key at that moment, and
    /// `leave` takes a line.
    pub fn settle<S>(
        &mut self,
        until: i64,
        state: &mut S,
        known: impl Fn(&S, &JournalLine<'_>, u32, &[u8]) -> (Knowledge, bool),
        mut leave: impl FnMut(&mut S, JournalLine<'_>),
    ) {
        let lines: Vec<WaitingLine> = self.lines.drain(..).collect();
        let mut order = Ordering::new(lines);
        let mut next = Vec::new();
        for at in 0..order.lines.len() {
            if order.lines[at].real > until {
                continue;
            }
            order.visit(at, &mut next, state, &known, &mut leave);
        }
        self.left_until = order.left_until.max(self.left_until);
        let Ordering { lines, has_left, .. } = order;
        self.lines = lines.into_iter().zip(has_left).filter(|(_, has_left)| !has_left).map(|(line, _)| line).collect();
    }

    pub fn forget(&mut self, server: u16) {
        self.lines.retain(|line| line.server != server);
    }
}

/// Lines on their way, with the groups of those that overlap and share a key.
struct Ordering {
    lines: Vec<WaitingLine>,
    has_left: Vec<bool>,
    is_visited: Vec<bool>,
    /// The line before it of the same client.
    before: Vec<Option<usize>>,
    /// The group of each line, if it has one, and the members of each.
    group_of: Vec<Option<usize>>,
    groups: Vec<Vec<usize>>,
    is_ordered: Vec<bool>,
    /// The line before it in its group.
    before_in_group: Vec<Option<usize>>,
    left_until: i64,
}

impl Ordering {
    fn new(mut lines: Vec<WaitingLine>) -> Self {
        mark_wide(&mut lines);
        let count = lines.len();
        let mut last: HashMap<(u16, u64), usize, FixedState> = HashMap::default();
        let before = lines
            .iter()
            .enumerate()
            .map(|(at, line)| last.insert((line.server, line.client), at).filter(|_| line.client != 0))
            .collect();
        let (groups, group_of) = groups(&lines);
        Self {
            has_left: vec![false; count],
            is_visited: vec![false; count],
            before,
            group_of,
            is_ordered: vec![false; groups.len()],
            groups,
            before_in_group: vec![None; count],
            left_until: i64::MIN,
            lines,
        }
    }

    /// Lets a line go, after those that come before it.
    fn visit<S>(
        &mut self,
        at: usize,
        stack: &mut Vec<usize>,
        state: &mut S,
        known: &impl Fn(&S, &JournalLine<'_>, u32, &[u8]) -> (Knowledge, bool),
        leave: &mut impl FnMut(&mut S, JournalLine<'_>),
    ) {
        stack.push(at);
        while let Some(&at) = stack.last() {
            if self.has_left[at] {
                stack.pop();
                continue;
            }
            if let Some(group) = self.group_of[at].filter(|group| !self.is_ordered[*group]) {
                self.is_ordered[group] = true;
                self.order_group(group, |line, db, key| known(state, line, db, key));
            }
            let earlier = [self.before[at], self.before_in_group[at]];
            let missing = earlier.into_iter().flatten().find(|earlier| !self.has_left[*earlier]);
            match missing {
                Some(missing) if !self.is_visited[missing] => {
                    self.is_visited[at] = true;
                    stack.push(missing);
                }
                // Nothing, or a circle: commands that were sent together on several keys.
                circle => {
                    self.lines[at].is_unplaced |= circle.is_some();
                    self.has_left[at] = true;
                    stack.pop();
                    let line = &self.lines[at];
                    self.left_until = self.left_until.max(line.real);
                    leave(state, line.journal_line());
                }
            }
        }
    }

    /// Decides the order of a group.
    fn order_group(&mut self, group: usize, known: impl Fn(&JournalLine<'_>, u32, &[u8]) -> (Knowledge, bool)) {
        let members = self.groups[group].clone();
        let Some((order, ambiguous, loose)) = self.orders(&members, &known) else {
            // Too many, or no order fits.
            for at in members.iter().copied() {
                self.lines[at].is_unplaced = true;
            }
            return self.chain(&members);
        };
        for at in loose {
            self.lines[at].is_loose = true;
        }
        for at in members.iter().copied() {
            let is_ambiguous = self.lines[at].steps.iter().any(|step| ambiguous.contains(&step.key));
            self.lines[at].is_unplaced |= is_ambiguous;
        }
        self.chain(&order);
    }

    fn chain(&mut self, order: &[usize]) {
        for pair in order.windows(2) {
            self.before_in_group[pair[1]] = Some(pair[0]);
        }
    }

    /// An order of a group that fits all replies, the keys for which another one fits, too, and the commands that fit at
    /// several places. `None` if none does, or if
    /// there are too many to try.
    fn orders(
        &self,
        members: &[usize],
        known: &impl Fn(&JournalLine<'_>, u32, &[u8]) -> (Knowledge, bool),
    ) -> Option<(Vec<usize>, Vec<Key>, Vec<usize>)> {
        let changes: Vec<usize> = members.iter().copied().filter(|at| self.lines[*at].changes()).collect();
        let others: Vec<usize> = members.iter().copied().filter(|at| !self.lines[*at].changes()).collect();
        if changes.len() > MAX_CHANGES || members.len() > MAX_GROUP {
            return None;
        }
        let mut start: Vec<(Key, KeyState)> = Vec::new();
        let mut clocked: Vec<Key> = Vec::new();
        for at in members.iter().copied() {
            let line = &self.lines[at];
            for step in &line.steps {
                if start.iter().all(|(key, _)| *key != step.key) {
                    let (state, is_clocked) = known(&line.journal_line(), step.key.1, &step.key.2);
                    start.push((step.key.clone(), KeyState::of(state)));
                    if is_clocked {
                        clocked.push(step.key.clone());
                    }
                }
            }
        }
        let spans = members.iter().map(|at| (self.lines[*at].earliest, self.lines[*at].real));
        let (from, until) = spans.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)))?;
        let mut search =
            Search { order: self, changes: &changes, others: &others, span: until - from, fits: Vec::new() };
        search.extend(&mut Vec::new(), &mut vec![start]);
        let (first, rest) = search.fits.split_first()?;
        let mut ambiguous: Vec<Key> = Vec::new();
        for key in members.iter().flat_map(|at| self.lines[*at].steps.iter().map(|step| &step.key)) {
            let on_key = |fit: &Fit| -> Vec<usize> {
                fit.changes.iter().copied().filter(|at| self.lines[*at].touches(key)).collect()
            };
            let differs = rest.iter().any(|other| on_key(other) != on_key(first));
            // What a client read that judges by clocks counts only in its exact place.
            let is_loose =
                clocked.contains(key) && others.iter().any(|at| self.lines[*at].touches(key) && first.is_loose(*at));
            if (differs || is_loose) && !ambiguous.contains(key) {
                ambiguous.push(key.clone());
            }
        }
        let loose = others.iter().copied().filter(|at| first.is_loose(*at)).collect();
        Some((self.with_others(first), ambiguous, loose))
    }

    /// The commands that change nothing, each at the earliest place where it fits, between those that do.
    fn with_others(&self, fit: &Fit) -> Vec<usize> {
        let mut order = Vec::new();
        for (place, change) in fit.changes.iter().map(Some).chain([None]).enumerate() {
            order.extend(fit.places.iter().filter(|(_, places)| places.0 == place).map(|(at, _)| *at));
            order.extend(change);
        }
        order
    }

    /// Whether one line certainly took effect before another: it was answered before that was sent, or both are of one
    /// connection.
    fn precedes(&self, one: usize, other: usize) -> bool {
        let (before, after) = (&self.lines[one], &self.lines[other]);
        let is_same = (before.server, before.client) == (after.server, after.client);
        if is_same { one < other } else { before.is_before(after, one < other) }
    }
}

/// An order of the commands that change keys, which fits all replies.
struct Fit {
    changes: Vec<usize>,
    /// The first and the last place where each of the other commands fits: so many changes come before it.
    places: Vec<(usize, (usize, usize))>,
}

impl Fit {
    fn is_loose(&self, at: usize) -> bool {
        self.places.iter().any(|(other, (first, last))| *other == at && first != last)
    }
}

/// What is known of a key between two commands.
#[derive(Clone, PartialEq, Eq)]
enum KeyState {
    Unknown,
    Absent,
    Present,
    Value(Box<[u8]>),
}

impl KeyState {
    fn of(known: Knowledge) -> Self {
        match known {
            Knowledge::Unknown => Self::Unknown,
            Knowledge::Absent => Self::Absent,
            Knowledge::Value(value) => Self::Value(value),
        }
    }

    /// Whether a command can have found this.
    fn fits(&self, found: &Found) -> bool {
        match (self, found) {
            (_, Found::Anything) | (Self::Unknown, _) => true,
            (Self::Absent, Found::Absent | Found::Not(_)) => true,
            (Self::Absent, _) => false,
            (Self::Present | Self::Value(_), Found::Absent) => false,
            (Self::Value(value), Found::Value(found)) => value == found,
            (Self::Value(value), Found::Not(found)) => value != found,
            (Self::Present, _) | (Self::Value(_), Found::Present) => true,
        }
    }

    fn after(&self, step: &KeyStep, span: i64) -> Self {
        match &step.left {
            Left::Extended(Some(millis)) if millis.saturating_mul(1000) <= span => Self::Unknown,
            Left::Same | Left::Extended(_) => match &step.found {
                Found::Value(value) => Self::Value(value.clone()),
                Found::Absent => Self::Absent,
                Found::Present if *self == Self::Unknown => Self::Present,
                Found::Present | Found::Not(_) | Found::Anything => self.clone(),
            },
            Left::Absent => Self::Absent,
            // It may be over before the others take effect.
            Left::Value(_, Some(millis)) if millis.saturating_mul(1000) <= span => Self::Unknown,
            Left::Value(value, _) => Self::Value(value.clone()),
            Left::Unknown => Self::Unknown,
        }
    }
}

type KeyStates = Vec<(Key, KeyState)>;

/// The search for orders.
struct Search<'o> {
    order: &'o Ordering,
    changes: &'o [usize],
    others: &'o [usize],
    /// How many microseconds lie between the first and the last moment of the group.
    span: i64,
    fits: Vec<Fit>,
}

impl Search<'_> {
    /// Adds each command that can come next. `states` are those after each command so far.
    fn extend(&mut self, order: &mut Vec<usize>, states: &mut Vec<KeyStates>) {
        if order.len() == self.changes.len() {
            if let Some(places) = self.places(order, states) {
                self.fits.push(Fit { changes: order.clone(), places });
            }
            return;
        }
        for next in self.changes.iter().copied() {
            let is_due = |other: &usize| *other == next || order.contains(other) || !self.order.precedes(*other, next);
            if order.contains(&next) || !self.changes.iter().all(is_due) {
                continue;
            }
            let Some(state) = states.last().and_then(|state| self.run(next, state)) else { continue };
            order.push(next);
            states.push(state);
            self.extend(order, states);
            states.pop();
            order.pop();
        }
    }

    /// What a command leaves, if it can have found this.
    fn run(&self, at: usize, before: &KeyStates) -> Option<KeyStates> {
        let mut states = before.clone();
        for step in &self.order.lines[at].steps {
            let (_, state) = states.iter_mut().find(|(key, _)| *key == step.key)?;
            if !state.fits(&step.found) {
                return None;
            }
            *state = state.after(step, self.span);
        }
        Some(states)
    }

    /// Where the other commands fit, each for itself.
    fn places(&self, order: &[usize], states: &[KeyStates]) -> Option<Vec<(usize, (usize, usize))>> {
        let place = |at: usize| {
            let least = order.iter().rposition(|change| self.order.precedes(*change, at)).map_or(0, |last| last + 1);
            let most = order.iter().position(|change| self.order.precedes(at, *change)).unwrap_or(order.len());
            let mut fits = (least..=most).filter(|place| self.run(at, &states[*place]).is_some());
            let first = fits.next()?;
            Some((at, (first, fits.next_back().unwrap_or(first))))
        };
        self.others.iter().map(|at| place(*at)).collect()
    }
}

/// The groups of lines that overlap and share a key that one of them changes.
fn groups(lines: &[WaitingLine]) -> (Vec<Vec<usize>>, Vec<Option<usize>>) {
    let mut parent: Vec<usize> = (0..lines.len()).collect();
    fn root(parent: &mut [usize], mut at: usize) -> usize {
        while parent[at] != at {
            parent[at] = parent[parent[at]];
            at = parent[at];
        }
        at
    }
    // By key: those that may still overlap with what comes.
    let mut open: HashMap<&Key, SmallVec<[usize; 8]>, FixedState> = HashMap::default();
    let mut order: Vec<usize> = (0..lines.len()).filter(|at| !lines[*at].steps.is_empty()).collect();
    order.sort_by_key(|at| lines[*at].earliest);
    for at in order {
        let line = &lines[at];
        for step in &line.steps {
            let others = open.entry(&step.key).or_default();
            others.retain(|other| lines[*other].real >= line.earliest);
            for other in others.iter().copied().filter(|other| *other != at) {
                let is_other = (lines[other].server, lines[other].client) != (line.server, line.client);
                let is_loose = lines[other].is_interval || line.is_interval;
                let is_decided = line.is_before(&lines[other], at < other) || lines[other].is_before(line, other < at);
                if is_other
                    && is_loose
                    && !is_decided
                    && (lines[other].changes_key(&step.key) || line.changes_key(&step.key))
                {
                    let (one, two) = (root(&mut parent, at), root(&mut parent, other));
                    parent[one.max(two)] = one.min(two);
                }
            }
            if !others.contains(&at) {
                others.push(at);
            }
        }
    }
    let mut members: HashMap<usize, Vec<usize>, FixedState> = HashMap::default();
    for at in 0..lines.len() {
        members.entry(root(&mut parent, at)).or_default().push(at);
    }
    let mut groups: Vec<Vec<usize>> = members.into_values().filter(|members| members.len() > 1).collect();
    groups.sort_unstable();
    let mut group_of = vec![None; lines.len()];
    for (number, group) in groups.iter().enumerate() {
        for at in group {
            group_of[*at] = Some(number);
        }
    }
    (groups, group_of)
}

impl WaitingLine {
    fn journal_line(&self) -> JournalLine<'_> {
        let mut line = JournalLine::item(self.server, &self.item);
        (line.is_unplaced, line.is_loose, line.is_stale) = (self.is_unplaced, self.is_loose, self.is_stale);
        line.front = self.front;
        line
    }

    /// Whether it certainly took effect before another line. `has_come_first` is whether it stands before that.
    fn is_before(&self, other: &Self, has_come_first: bool) -> bool {
        match self.front.number == other.front.number {
            true if self.front.is_ordered && other.front.is_ordered => has_come_first,
            true => self.real - self.front.slack < other.earliest + other.front.slack,
            false => self.real < other.earliest,
        }
    }

    fn changes(&self) -> bool {
        self.steps.iter().any(|step| step.left != Left::Same)
    }

    fn changes_key(&self, key: &Key) -> bool {
        self.steps.iter().any(|step| step.left != Left::Same && step.key == *key)
    }

    fn touches(&self, key: &Key) -> bool {
        self.steps.iter().any(|step| step.key == *key)
    }
}

/// Whether a command changes all keys of a database.
fn is_wide(line: &JournalLine<'_>, commands: &Table) -> bool {
    let is_wide_name = |name: &&[u8]| {
        let kind = commands.find(name).map_or(LockEffect::None, |row| row.lock_effect);
        kind.is_on_all_keys()
    };
    line.event.is_none()
        && (line.words.first().is_some_and(&is_wide_name)
            || line.with_nested(|nested| nested.iter().any(|command| command.words.first().is_some_and(is_wide_name))))
}

/// What changes all keys of a database has no place among the commands that it overlaps, and these have none either.
fn mark_wide(lines: &mut [WaitingLine]) {
    for at in (0..lines.len()).filter(|at| lines[*at].is_wide).collect::<Vec<_>>() {
        let (server, client, is_interval) = (lines[at].server, lines[at].client, lines[at].is_interval);
        let (earliest, real) = (lines[at].earliest, lines[at].real);
        let mut overlaps = false;
        for other in lines.iter_mut().filter(|other| other.server == server && other.client != client) {
            let is_loose = (other.is_interval || is_interval) && (!other.steps.is_empty() || other.is_wide);
            if is_loose && other.earliest <= real && other.real >= earliest {
                other.is_unplaced = true;
                overlaps = true;
            }
        }
        lines[at].is_unplaced |= overlaps;
    }
}

/// What a line found and did.
pub fn steps_of(line: &JournalLine<'_>, commands: &Table) -> Vec<KeyStep> {
    let Some(row) = line.words.first().and_then(|name| commands.find(name)) else { return Vec::new() };
    if line.event.is_some() || line.is_queued() || line.outcome == Outcome::NeverRan || line.was_sent_away() {
        return Vec::new();
    }
    // What a replica has says nothing of what the master had at that time.
    if line.is_stale {
        return Vec::new();
    }
    let unknown = |db: u32, words: &[&[u8]]| -> Vec<KeyStep> {
        let step = |key: &&[u8]| KeyStep {
            key: (line.server, db, (*key).into()),
            found: Found::Anything,
            left: Left::Unknown,
        };
        keys_of(commands, words).iter().map(step).collect()
    };
    if line.is_cut || line.outcome == Outcome::Unknown {
        return unknown(line.db, &line.words);
    }
    let runs_others = matches!(row.kind, CommandKind::Script(_) | CommandKind::Transaction(TransactionCommand::Exec));
    if runs_others && line.are_children_unknown {
        return unknown(line.db, &line.words);
    }
    if !runs_others {
        return steps_of_command(line.server, row.lock_effect, line.db, &line.words, line.reply, &unknown);
    }
    line.with_nested(|nested| {
        if nested.iter().any(|command| command.is_cut) {
            return unknown(line.db, &line.words);
        }
        let steps = nested.iter().flat_map(|command| {
            let row = command.words.first().and_then(|name| commands.find(name));
            let kind = row.map_or(LockEffect::None, |row| row.lock_effect);
            steps_of_command(line.server, kind, command.db, &command.words, command.reply, &unknown)
        });
        steps.collect()
    })
}

fn steps_of_command(
    server: u16,
    kind: LockEffect,
    db: u32,
    words: &[&[u8]],
    reply: &[u8],
    unknown: &impl Fn(u32, &[&[u8]]) -> Vec<KeyStep>,
) -> Vec<KeyStep> {
    if kind == LockEffect::None {
        return Vec::new();
    }
    if reply.is_empty() {
        return unknown(db, words);
    }
    let effects = effects_of(kind, Executed { db, words, reply });
    effects.iter().filter(|effect| !effect.key.is_empty()).map(|effect| step_of(server, effect)).collect()
}

fn millis_of(expiry: ExpiryChange) -> Option<i64> {
    if let ExpiryChange::In(millis) = expiry { Some(millis) } else { None }
}

fn step_of(server: u16, effect: &KeyEffect<'_>) -> KeyStep {
    let token = match effect.precondition {
        Precondition::Compared(token) => token,
        Precondition::None => None,
    };
    let there = || token.map_or(Found::Present, |token| Found::Value(token.into()));
    let value_for = |value: &[u8], expiry: ExpiryChange| Left::Value(value.into(), millis_of(expiry));
    let (found, left) = match &effect.effect {
        Effect::Take { value, expiry, took: true } => (Found::Absent, value_for(value, *expiry)),
        Effect::Take { took: false, .. } | Effect::Arrive { claim: Claim::Refused, .. } => (Found::Present, Left::Same),
        Effect::Set { value, expiry, old } => {
            let found = match old {
                Some(Some(old)) => Found::Value((*old).into()),
                Some(None) => Found::Absent,
                None if effect.precondition == Precondition::None => Found::Anything,
                None => there(),
            };
            (found, value_for(value, *expiry))
        }
        Effect::Read { value: Some(value) } => (Found::Value((*value).into()), Left::Same),
        Effect::Read { value: None } => (Found::Absent, Left::Same),
        Effect::Delete { removed: Some(true) } => (there(), Left::Absent),
        Effect::Delete { removed: Some(false) } => (Found::Absent, Left::Same),
        Effect::Delete { removed: None } => (Found::Anything, Left::Absent),
        Effect::Expire { expiry: ExpiryChange::In(..=0), done: true } => (there(), Left::Absent),
        Effect::Expire { expiry, done: true } => (there(), Left::Extended(millis_of(*expiry))),
        Effect::Expire { done: false, .. } => (Found::Absent, Left::Same),
        Effect::NotOwned { .. } => (token.map_or(Found::Anything, |token| Found::Not(token.into())), Left::Same),
        Effect::RemoveMember { missed: true, .. } => (Found::Anything, Left::Same),
        Effect::Arrive { .. }
        | Effect::Transfer { .. }
        | Effect::AddMember { .. }
        | Effect::RemoveMember { .. }
        | Effect::OtherWrite
        | Effect::Unknown { .. }
        | Effect::Flush { .. }
        | Effect::SwapDatabases { .. } => (Found::Anything, Left::Unknown),
    };
    KeyStep { key: (server, effect.db, effect.key.into()), found, left }
}
