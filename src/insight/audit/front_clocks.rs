//! By how much the clocks of two fronts before one server differ, as far as the commands tell that both have seen.
//!
//! Of a command it is known when its front sent it and when the reply had come, by the clock of that front. If a command of
//! one front took effect before one of the other, the offset of the clocks has a bound. The order follows from a value that
//! one has written and the other has found, from the numbers that INCR has counted, and from TIME. A token that was found
//! under its key, twice, was there in between: no other command can have set the key meanwhile. Only if these leave the
//! offset open on a side, refused attempts count, too: the key was there then, and a command has set it.

use std::collections::HashMap;

use foldhash::fast::FixedState;

use super::effect_order::{Found, Key, KeyStep, Left};
use super::journal_line::JournalLine;
use super::reply_value::{ReplyValue, reply_values};
use crate::protocol::parse_integer;

/// The furthest offset that is thought of, in microseconds: a day.
const FURTHEST: i64 = 86_400_000_000;
/// How far the truth may be from the middle at most, in microseconds.
const MAX_ERROR: i64 = 1_000_000;
/// How many steps of a key are compared, and how many pairs in all. Fewer comparisons only leave the offset less certain.
const MAX_STEPS: usize = 4096;
const MAX_PAIRS: usize = 4_000_000;
/// How many ranges of offsets are kept apart.
const MAX_RANGES: usize = 4096;
/// How long a value is at least of which it counts who has written it.
const SHORTEST_TOKEN: usize = 8;

/// What is known of the offset: what is to be added to the second clock's times to get the first one's, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockOffset {
    pub least: i64,
    pub most: i64,
    /// How many comparisons it rests on.
    pub comparisons: u64,
}

impl ClockOffset {
    /// The middle, and by how much the truth may differ from it.
    pub fn middle(self) -> (i64, i64) {
        let middle = self.least + (self.most - self.least) / 2;
        (middle, self.most - middle)
    }

    /// Whether it is known well enough to put commands in order.
    pub fn is_known(self) -> bool {
        self.middle().1 <= MAX_ERROR
    }
}

/// A line of a front, with what it found and did.
pub struct Sighting<'a> {
    /// Whether it is of the second front.
    pub is_second: bool,
    pub line: JournalLine<'a>,
    pub steps: Vec<KeyStep>,
}

/// A step of a command on one key.
#[derive(Clone)]
struct Step {
    is_second: bool,
    sent: i64,
    replied: i64,
    found: Found,
    left: Left,
}

/// Compares two fronts. Their sightings come each in the order of their replies. An error if no offset explains them.
/// `furthest` is how far the clocks are apart at most, in microseconds, if that is known.
pub fn clock_offset<'a>(
    sightings: impl Iterator<Item = Sighting<'a>>,
    furthest: Option<i64>,
) -> Result<ClockOffset, ()> {
    let mut keys: HashMap<Key, Vec<Step>, FixedState> = HashMap::default();
    let mut counts: HashMap<Key, Vec<(i64, Step)>, FixedState> = HashMap::default();
    // By front: what TIME has shown of the server's clock.
    let mut server_clock = [(i64::MIN, i64::MAX); 2];
    for sighting in sightings {
        let Sighting { is_second, line, steps } = sighting;
        let (sent, replied) = (line.earliest, line.real);
        let step = |found, left| Step { is_second, sent, replied, found, left };
        match line.words.as_slice() {
            [name, key] if name.eq_ignore_ascii_case(b"INCR") => {
                if let Some(number) = ReplyValue::of(line.reply).number() {
                    let seen = counts.entry((line.server, line.db, (*key).into())).or_default();
                    if seen.len() < 2 * MAX_STEPS {
                        seen.push((number, step(Found::Anything, Left::Same)));
                    }
                }
            }
            [name] if name.eq_ignore_ascii_case(b"TIME") => {
                if let [Some(seconds), Some(micros)] = two_numbers(&reply_values(line.reply)) {
                    let time = seconds.saturating_mul(1_000_000).saturating_add(micros);
                    let (least, most) = &mut server_clock[usize::from(is_second)];
                    (*least, *most) = ((*least).max(time - replied), (*most).min(time - sent));
                }
            }
            _ => {}
        }
        for KeyStep { key, found, left } in steps {
            let seen = keys.entry(key).or_default();
            if seen.len() < 2 * MAX_STEPS {
                seen.push(step(found, left));
            }
        }
    }
    let mut offsets = Offsets::within(furthest.unwrap_or(FURTHEST).min(FURTHEST));
    if server_clock.iter().all(|(least, _)| *least != i64::MIN) {
        let [(least, most), (other_least, other_most)] = server_clock;
        offsets.at_least(other_least.saturating_sub(most));
        offsets.at_most(other_most.saturating_sub(least));
    }
    for (key, numbers) in &mut counts {
        // Nothing else was done to the counter.
        if keys.get(key).is_none_or(|steps| steps.len() == numbers.len()) {
            compare_counts(numbers, &mut offsets);
        }
    }
    let mut keys: Vec<(Key, Vec<Step>)> = keys.into_iter().collect();
    keys.retain(|(_, steps)| steps.iter().any(|step| step.is_second) && steps.iter().any(|step| !step.is_second));
    keys.sort_by(|(one, _), (other, _)| one.cmp(other));
    let lives: Vec<Vec<Life>> = keys.iter().map(|(_, steps)| lives_of(steps)).collect();
    for ((_, steps), lives) in keys.iter().zip(&lives) {
        lives.iter().for_each(|life| compare_readers(life, steps, &mut offsets));
    }
    let mut pairs = 0;
    for ((_, steps), lives) in keys.iter().zip(&lives) {
        lives.iter().for_each(|life| exclude_overlaps(life, steps, &mut offsets, &mut pairs));
    }
    if offsets.hull().is_some_and(|hull| hull.least == -offsets.furthest || hull.most == offsets.furthest) {
        let certain = offsets.clone();
        for (_, steps) in &keys {
            explain_refusals(steps, &mut offsets, &mut pairs);
        }
        if offsets.hull().is_none() {
            offsets = certain;
        }
    }
    offsets.hull().ok_or(())
}

/// The numbers in a reply of two texts.
fn two_numbers(values: &[ReplyValue<'_>]) -> [Option<i64>; 2] {
    let number =
        |at: usize| values.get(at).and_then(|value| parse_integer(value.text()?)).filter(|_| values.len() == 2);
    [number(0), number(1)]
}

/// The offsets that are possible, as ranges in order.
#[derive(Clone)]
struct Offsets {
    ranges: Vec<(i64, i64)>,
    comparisons: u64,
    furthest: i64,
}

impl Offsets {
    fn within(furthest: i64) -> Self {
        Self { ranges: vec![(-furthest, furthest)], comparisons: 0, furthest }
    }

    fn at_least(&mut self, least: i64) {
        self.comparisons += 1;
        self.ranges.retain_mut(|(from, to)| {
            *from = (*from).max(least);
            from <= to
        });
    }

    fn at_most(&mut self, most: i64) {
        self.comparisons += 1;
        self.ranges.retain_mut(|(from, to)| {
            *to = (*to).min(most);
            from <= to
        });
    }

    /// Nothing between the two is possible.
    fn exclude(&mut self, above: i64, below: i64) {
        if below - above < 2 || self.ranges.len() >= MAX_RANGES {
            return;
        }
        self.comparisons += 1;
        let is_met = |(from, to): &(i64, i64)| *from < below && *to > above;
        let Some(first) = self.ranges.iter().position(is_met) else { return };
        let end =
            self.ranges[first..].iter().position(|range| !is_met(range)).map_or(self.ranges.len(), |end| first + end);
        let left = self.ranges[first..end]
            .iter()
            .flat_map(|(from, to)| [(*from, (*to).min(above)), ((*from).max(below), *to)]);
        let left: Vec<(i64, i64)> = left.filter(|(from, to)| from <= to).collect();
        self.ranges.splice(first..end, left);
    }

    /// Only these ranges are possible.
    fn keep(&mut self, mut kept: Vec<(i64, i64)>) {
        self.comparisons += 1;
        kept.retain(|(from, to)| from <= to);
        kept.sort_unstable();
        let mut merged: Vec<(i64, i64)> = Vec::new();
        for (from, to) in kept {
            match merged.last_mut() {
                Some((_, end)) if from <= *end => *end = (*end).max(to),
                _ => merged.push((from, to)),
            }
        }
        let both = self.ranges.iter().flat_map(|(from, to)| {
            let meets = merged.iter().filter(move |(start, end)| start <= to && end >= from);
            meets.map(move |(start, end)| (*start.max(from), *end.min(to)))
        });
        self.ranges = both.collect();
    }

    fn hull(&self) -> Option<ClockOffset> {
        let (least, most) = (self.ranges.first()?.0, self.ranges.last()?.1);
        Some(ClockOffset { least, most, comparisons: self.comparisons })
    }

    /// One step came before another one.
    fn order(&mut self, earlier: &Step, later: &Step) {
        match (earlier.is_second, later.is_second) {
            (false, true) => self.at_least(earlier.sent - later.replied),
            (true, false) => self.at_most(later.replied - earlier.sent),
            _ => {}
        }
    }
}

/// The numbers that INCR has counted are in order, if each front has seen them grow and none is missing.
fn compare_counts(numbers: &mut [(i64, Step)], offsets: &mut Offsets) {
    let grows = |is_second: bool| {
        let mut own = numbers.iter().filter(|(_, step)| step.is_second == is_second);
        let mut before = own.next();
        own.all(|next| {
            let has_grown = before.is_some_and(|before| before.0 < next.0 || before.1.replied > next.1.sent);
            before = Some(next);
            has_grown
        })
    };
    if !grows(false) || !grows(true) {
        return;
    }
    numbers.sort_by_key(|(number, _)| *number);
    if numbers.windows(2).all(|pair| pair[0].0 + 1 == pair[1].0) {
        numbers.windows(2).for_each(|pair| offsets.order(&pair[0].1, &pair[1].1));
    }
}

/// A value that was written once, and who found it.
struct Life {
    value: Box<[u8]>,
    written: usize,
    found: Vec<usize>,
}

/// The lives of values, in the order in which they were written.
fn lives_of(steps: &[Step]) -> Vec<Life> {
    let mut lives: HashMap<&[u8], Option<Life>, FixedState> = HashMap::default();
    for (written, step) in steps.iter().enumerate() {
        let Left::Value(value, _) = &step.left else { continue };
        if step.found == Found::Value(value.clone()) {
            continue;
        }
        let life = Life { value: value.clone(), written, found: Vec::new() };
        let is_token = value.len() >= SHORTEST_TOKEN;
        lives.entry(value).and_modify(|known| *known = None).or_insert_with(|| is_token.then_some(life));
    }
    for (at, step) in steps.iter().enumerate() {
        if let Found::Value(value) = &step.found
            && let Some(Some(life)) = lives.get_mut(&**value)
        {
            life.found.push(at);
        }
    }
    let mut lives: Vec<Life> = lives.into_values().flatten().collect();
    lives.sort_by_key(|life| life.written);
    lives
}

/// Whoever found the value came after the one who wrote it, and before whoever changed it later.
fn compare_readers(life: &Life, steps: &[Step], offsets: &mut Offsets) {
    let written = &steps[life.written];
    let ends = steps.iter().filter(|step| {
        step.is_second == written.is_second && step.sent > written.replied && step.contradicts(&life.value)
    });
    let end = ends.min_by_key(|step| step.replied);
    for found in life.found.iter().map(|found| &steps[*found]).filter(|found| found.is_second != written.is_second) {
        offsets.order(written, found);
        if let Some(end) = end {
            offsets.order(found, end);
        }
    }
}

/// While the value was there, the other front has set no other.
fn exclude_overlaps(life: &Life, steps: &[Step], offsets: &mut Offsets, pairs: &mut usize) {
    let written = &steps[life.written];
    let last = life.found.iter().rev().map(|found| &steps[*found]).find(|found| found.is_second == written.is_second);
    let Some(last) = last else { return };
    for other in steps.iter().filter(|other| other.is_second != written.is_second && other.contradicts(&life.value)) {
        *pairs += 1;
        if *pairs > MAX_PAIRS {
            return;
        }
        match written.is_second {
            false => offsets.exclude(written.replied - other.sent, last.sent - other.replied),
            true => offsets.exclude(other.replied - last.sent, other.sent - written.replied),
        }
    }
}

impl Step {
    /// Whether it cannot have taken effect while the key had this value, which was there afterwards, too.
    fn contradicts(&self, value: &[u8]) -> bool {
        let is_changed = match &self.left {
            Left::Value(left, _) => **left != *value,
            Left::Absent => true,
            Left::Same | Left::Extended(_) | Left::Unknown => false,
        };
        let is_elsewhere = match &self.found {
            Found::Absent => true,
            Found::Value(found) => **found != *value,
            Found::Not(found) => **found == *value,
            Found::Anything | Found::Present => false,
        };
        is_changed || is_elsewhere
    }

    fn sets(&self) -> bool {
        matches!(self.left, Left::Value(..))
    }

    fn shows_absence(&self) -> bool {
        self.found == Found::Absent || self.left == Left::Absent
    }
}

/// The times at which a front knows that it may have set the key: from a step that set it to the next one that shows that
/// it is gone; and the time before the first one that shows that.
fn presences(steps: &[Step], is_second: bool) -> Vec<(i64, i64)> {
    const FIRST: i64 = i64::MIN / 4;
    const LAST: i64 = i64::MAX / 4;
    let mut presences = vec![(FIRST, LAST)];
    // Until when the last step that set the key took effect.
    let mut set_until = FIRST;
    for step in steps.iter().filter(|step| step.is_second == is_second) {
        if step.shows_absence()
            && step.sent > set_until
            && let Some((_, until)) = presences.last_mut()
        {
            *until = (*until).min(step.replied);
        }
        if step.sets() {
            presences.push((step.sent, LAST));
            set_until = step.replied;
        }
    }
    presences
}

/// Where a front found the key, somebody had set it: the front itself, or the other one.
fn explain_refusals(steps: &[Step], offsets: &mut Offsets, pairs: &mut usize) {
    if steps.len() >= 2 * MAX_STEPS || steps.iter().any(|step| step.left == Left::Unknown) {
        return;
    }
    for is_second in [false, true] {
        let (own, others) = (presences(steps, is_second), presences(steps, !is_second));
        let found = steps
            .iter()
            .filter(|step| step.is_second == is_second && step.left == Left::Same && step.found == Found::Present);
        for step in found {
            if own.iter().any(|(from, until)| *from <= step.replied && *until >= step.sent) {
                continue;
            }
            *pairs += others.len();
            if *pairs > 2 * MAX_PAIRS {
                return;
            }
            let explained = others.iter().map(|(from, until)| match is_second {
                true => (from - step.replied, until - step.sent),
                false => (step.sent - until, step.replied - from),
            });
            offsets.keep(explained.collect());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_offsets_are_cut_and_joined() {
        let mut offsets = Offsets::within(100);
        offsets.exclude(-10, 10);
        assert_eq!(offsets.ranges, [(-100, -10), (10, 100)]);
        offsets.exclude(-50, 20);
        assert_eq!(offsets.ranges, [(-100, -50), (20, 100)]);
        offsets.keep(vec![(90, 300), (-60, -55), (-58, 30), (5, 1)]);
        assert_eq!(offsets.ranges, [(-60, -50), (20, 30), (90, 100)]);
        offsets.at_least(-55);
        offsets.at_most(25);
        assert_eq!(offsets.ranges, [(-55, -50), (20, 25)]);
        assert_eq!(offsets.hull().map(|hull| (hull.least, hull.most, hull.comparisons)), Some((-55, 25, 5)));
        offsets.exclude(-60, 40);
        assert_eq!(offsets.hull(), None);
    }
}
