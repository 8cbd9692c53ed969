//! Puts the journals of several fronts before one server, or one deployment, together: one history, on the clock of the
//! first front.

use std::collections::{HashMap, HashSet};

use foldhash::fast::FixedState;

use super::effect_order::{Key, steps_of};
use super::front_clocks::{ClockOffset, Sighting, clock_offset};
use super::journal_line::{Front, JournalLine};
use crate::powers::{EffectOrder, Item, Outcome};
use crate::spec::Table;

/// The history of several fronts.
pub struct MergedFronts {
    /// In the order of their times. Sequence numbers count anew, and so do the ids of clients that several fronts have.
    pub lines: Vec<FrontLine>,
    /// For each front behind the first one, by how much its clock differs.
    pub clocks: Vec<ClockOffset>,
}

/// A line of the history.
pub struct FrontLine {
    pub item: Item,
    pub front: Front,
    /// Whether it is unknown when it took effect, relative to what other fronts have seen of its keys.
    pub is_unplaced: bool,
    /// The journal that it is from, and its place there, both from 0.
    pub origin: (usize, usize),
}

impl FrontLine {
    /// The line for the auditor.
    pub fn line(&self, server: u16) -> JournalLine<'_> {
        let mut line = JournalLine::item(server, &self.item);
        (line.front, line.is_unplaced) = (self.front, self.is_unplaced);
        line
    }
}

/// Puts journals together. `furthest` is how far their clocks are apart at most, in microseconds, if that is known. An error
/// is the place of the journal that no offset of its clock explains.
pub fn merged_fronts(journals: Vec<Vec<Item>>, commands: &Table, furthest: Option<i64>) -> Result<MergedFronts, usize> {
    let mut ids = ClientIds::of(&journals);
    let mut journals = journals.into_iter().enumerate();
    let mut merged = MergedFronts { lines: Vec::new(), clocks: Vec::new() };
    if let Some((_, first)) = journals.next() {
        merged.lines = lines_of(0, first, (0, 0), &mut ids);
    }
    for (number, items) in journals {
        let offset = clock_offset(sightings(&merged.lines, &items, commands), furthest).map_err(|()| number)?;
        // Of what no other front has seen, the order is known all the same.
        let (middle, error) = match offset.is_known() {
            true => offset.middle(),
            false => (0.clamp(offset.least, offset.most), 0),
        };
        let mut lines = lines_of(number, items, (middle, error), &mut ids);
        if !offset.is_known() {
            mark_shared(&mut merged.lines, &mut lines, commands);
        }
        merged.lines.extend(lines);
        merged.clocks.push(offset);
        merged.lines.sort_by_key(|line| real_of(&line.item));
    }
    for (seq, line) in (1..).zip(&mut merged.lines) {
        match &mut line.item {
            Item::Command(entry) => entry.seq = seq,
            Item::Event(event) => event.seq = seq,
        }
    }
    Ok(merged)
}

fn real_of(item: &Item) -> i64 {
    match item {
        Item::Command(entry) => entry.real,
        Item::Event(event) => event.real,
    }
}

/// The lines of a journal, moved to the first front's clock. What is uncertain makes their intervals longer.
fn lines_of(number: usize, items: Vec<Item>, (offset, slack): (i64, i64), ids: &mut ClientIds) -> Vec<FrontLine> {
    let line = |(at, mut item): (usize, Item)| {
        let is_ordered = match &mut item {
            Item::Command(entry) => {
                let is_ordered = entry.order != EffectOrder::Interval;
                let sent = entry.sent.unwrap_or(entry.real).min(entry.real);
                entry.sent = Some(sent.saturating_add(offset - slack));
                (entry.at, entry.real) =
                    (entry.at.saturating_add(offset + slack), entry.real.saturating_add(offset + slack));
                entry.order = EffectOrder::Interval;
                entry.client = ids.of_front(number, entry.client);
                is_ordered
            }
            Item::Event(event) => {
                (event.at, event.real) =
                    (event.at.saturating_add(offset + slack), event.real.saturating_add(offset + slack));
                event.client = ids.of_front(number, event.client);
                true
            }
        };
        let front = Front { number: u16::try_from(number).unwrap_or(u16::MAX), slack, is_ordered };
        FrontLine { item, front, is_unplaced: false, origin: (number, at) }
    };
    items.into_iter().enumerate().map(line).collect()
}

/// Marks the lines about keys that both have seen.
fn mark_shared(first: &mut [FrontLine], second: &mut [FrontLine], commands: &Table) {
    let keys = |lines: &[FrontLine]| -> HashSet<Key, FixedState> {
        lines.iter().flat_map(|line| steps_of(&line.line(1), commands)).map(|step| step.key).collect()
    };
    let shared: HashSet<Key, FixedState> = keys(first).intersection(&keys(second)).cloned().collect();
    for line in first.iter_mut().chain(second) {
        let steps = steps_of(&line.line(1), commands);
        line.is_unplaced |= steps.iter().any(|step| shared.contains(&step.key));
    }
}

/// What two fronts have seen: the history so far, and another journal.
fn sightings<'a>(
    first: &'a [FrontLine],
    second: &'a [Item],
    commands: &'a Table,
) -> impl Iterator<Item = Sighting<'a>> {
    let first = first.iter().map(|line| (false, line.line(1)));
    let second = second.iter().map(|item| (true, JournalLine::item(1, item)));
    let sighted = first.chain(second).filter(|(_, line)| {
        line.event.is_none()
            && line.outcome != Outcome::Unknown
            && line.outcome != Outcome::NeverRan
            && !line.is_queued()
    });
    sighted.map(|(is_second, line)| Sighting { is_second, steps: steps_of(&line, commands), line })
}

/// The ids of clients: each front counts its own from 1. An id that an earlier front has becomes a new one.
struct ClientIds {
    known: HashMap<(usize, u64), u64, FixedState>,
    used: HashMap<u64, usize, FixedState>,
    next: u64,
}

impl ClientIds {
    fn of(journals: &[Vec<Item>]) -> Self {
        let ids = journals.iter().flatten().map(|item| match item {
            Item::Command(entry) => entry.client,
            Item::Event(event) => event.client,
        });
        let next = ids.max().unwrap_or(0).saturating_add(1);
        Self { known: HashMap::default(), used: HashMap::default(), next }
    }

    fn of_front(&mut self, front: usize, id: u64) -> u64 {
        if id == 0 {
            return 0;
        }
        if let Some(known) = self.known.get(&(front, id)) {
            return *known;
        }
        let is_free = *self.used.entry(id).or_insert(front) == front;
        let new = if is_free { id } else { self.next };
        self.next += u64::from(!is_free);
        self.known.insert((front, id), new);
        new
    }
}
