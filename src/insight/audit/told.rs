//! What the auditor is told: one line of a journal, whether it stands in memory or was read from a file.

use smallvec::SmallVec;

use crate::powers::{Child, EventKind, Item, Outcome, StoredRecord};

/// Times further from 1970 than that, in microseconds, count as so far: no server's clock goes there, but a file may say
/// anything, and the differences of what is left can be counted with.
const FURTHEST: i64 = 1 << 61;

/// The words of a command.
pub type Said<'a> = SmallVec<[&'a [u8]; 8]>;

/// One line of a journal.
pub struct Told<'a> {
    /// Which server it was sent to, from 1.
    pub server: u16,
    pub seq: u64,
    /// When it took effect: on the server's clock and in real time, in microseconds since 1970.
    pub at: i64,
    pub real: i64,
    pub client: u64,
    pub db: u32,
    pub event: Option<EventKind>,
    pub words: Said<'a>,
    pub reply: &'a [u8],
    pub outcome: Outcome,
    /// When its client was told, in real time in microseconds, if that was later than at once.
    pub told: Option<i64>,
    source: Source<'a>,
}

enum Source<'a> {
    Seen(&'a StoredRecord<'a>),
    Item(&'a Item),
}

/// A command that EXEC or a script has run. Whoever runs others comes behind them.
pub struct Inside<'a> {
    /// 1 for what the command itself has run, 2 for what that has run.
    pub depth: u8,
    pub db: u32,
    pub words: Vec<&'a [u8]>,
    pub reply: &'a [u8],
}

impl<'a> Told<'a> {
    /// A line of a server's journal that stands in memory.
    pub fn seen(server: u16, seen: &'a StoredRecord<'a>) -> Self {
        let record = &seen.record;
        Self {
            server,
            seq: record.seq,
            at: plausible(record.at),
            real: plausible(record.real),
            client: record.client,
            db: record.db,
            event: record.event,
            words: record.words().iter().collect(),
            reply: record.kept().reply,
            outcome: record.outcome,
            told: record.held_after().map(|held| later(record.real, held)),
            source: Source::Seen(seen),
        }
    }

    /// A line of a server's journal that was read from a file.
    pub fn item(server: u16, item: &'a Item) -> Self {
        let source = Source::Item(item);
        match item {
            Item::Command(entry) => Self {
                server,
                seq: entry.seq,
                at: plausible(entry.at),
                real: plausible(entry.real),
                client: entry.client,
                db: entry.db,
                event: None,
                words: entry.words.iter().map(Vec::as_slice).collect(),
                reply: &entry.reply,
                outcome: entry.outcome,
                told: entry.held_after.map(|held| later(entry.real, held)),
                source,
            },
            Item::Event(event) => Self {
                server,
                seq: event.seq,
                at: plausible(event.at),
                real: plausible(event.real),
                client: event.client,
                db: 0,
                event: Some(event.kind),
                words: SmallVec::from_slice(&[event.detail.as_bytes()]),
                reply: &[],
                outcome: Outcome::Silent,
                told: None,
                source,
            },
        }
    }

    /// What the client was called then.
    pub fn name(&self) -> &'a [u8] {
        match self.source {
            Source::Seen(seen) => seen.client_name(),
            Source::Item(Item::Command(entry)) => &entry.name,
            Source::Item(Item::Event(event)) => &event.name,
        }
    }

    /// Where it was connected from.
    pub fn address(&self) -> &'a str {
        match self.source {
            Source::Seen(seen) => seen.address(),
            Source::Item(Item::Command(entry)) => &entry.address,
            Source::Item(Item::Event(event)) => &event.address,
        }
    }

    /// Lets somebody look at what EXEC or a script has run.
    pub fn inside<R>(&self, look: impl FnOnce(&[Inside<'_>]) -> R) -> R {
        match self.source {
            Source::Seen(seen) => {
                let (inside, _) = seen.record.nested();
                let inside: Vec<Inside<'_>> = inside
                    .iter()
                    .map(|inside| Inside {
                        depth: inside.depth,
                        db: inside.db,
                        words: inside.kept.words().iter().collect(),
                        reply: inside.kept.reply,
                    })
                    .collect();
                look(&inside)
            }
            Source::Item(Item::Command(entry)) => {
                let mut inside = Vec::new();
                flatten(&entry.children, 1, &mut inside);
                look(&inside)
            }
            Source::Item(Item::Event(_)) => look(&[]),
        }
    }
}

/// A time in microseconds since 1970 as somebody says, or the nearest that can be.
pub fn plausible(micros: i64) -> i64 {
    micros.clamp(-FURTHEST / 2, FURTHEST)
}

fn later(real: i64, by: u64) -> i64 {
    real.saturating_add_unsigned(by)
}

fn flatten<'a>(children: &'a [Child], depth: u8, inside: &mut Vec<Inside<'a>>) {
    for child in children {
        flatten(&child.children, depth.saturating_add(1), inside);
        let words = child.words.iter().map(Vec::as_slice).collect();
        inside.push(Inside { depth, db: child.db, words, reply: &child.reply });
    }
}
