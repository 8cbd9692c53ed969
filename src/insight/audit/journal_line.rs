//! One line of a journal, whether it is in memory or was read from a file.

use smallvec::SmallVec;

use crate::powers::{Child, EventKind, Item, Outcome, StoredRecord};

/// The furthest time from 1970 that is counted with, in microseconds. No server's clock shows it, but a file may say
/// anything, and differences of such times must not overflow.
const FURTHEST: i64 = 1 << 61;

/// The words of a command.
pub type LineWords<'a> = SmallVec<[&'a [u8]; 8]>;

/// A command or an event.
pub struct JournalLine<'a> {
    /// The server that received it, from 1.
    pub server: u16,
    pub seq: u64,
    /// When it took effect on the server's clock, in microseconds since 1970.
    pub at: i64,
    /// The same in real time.
    pub real: i64,
    pub client: u64,
    pub db: u32,
    pub event: Option<EventKind>,
    pub words: LineWords<'a>,
    pub reply: &'a [u8],
    pub outcome: Outcome,
    /// When the client got the reply, in microseconds of real time, if that was later than at once.
    pub replied_at: Option<i64>,
    origin: Origin<'a>,
}

enum Origin<'a> {
    Memory(&'a StoredRecord<'a>),
    File(&'a Item),
}

/// A command that EXEC or a script ran. A command with nested ones comes after them.
pub struct NestedCommand<'a> {
    /// 1 for what the line's own command ran, 2 for what that ran.
    pub depth: u8,
    pub db: u32,
    pub words: Vec<&'a [u8]>,
    pub reply: &'a [u8],
}

impl<'a> JournalLine<'a> {
    /// A line of a running server's journal.
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
            replied_at: record.held_after().map(|held| later(record.real, held)),
            origin: Origin::Memory(seen),
        }
    }

    /// A line that was read from a file.
    pub fn item(server: u16, item: &'a Item) -> Self {
        let origin = Origin::File(item);
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
                replied_at: entry.held_after.map(|held| later(entry.real, held)),
                origin,
            },
            Item::Event(event) => Self {
                server,
                seq: event.seq,
                at: plausible(event.at),
                real: plausible(event.real),
                client: event.client,
                db: event.key.as_ref().map_or(0, |(db, _)| *db),
                event: Some(event.kind),
                words: SmallVec::from_slice(&[match &event.key {
                    Some((_, key)) => key,
                    None => event.detail.as_bytes(),
                }]),
                reply: &[],
                outcome: Outcome::Silent,
                replied_at: None,
                origin,
            },
        }
    }

    /// The client's name at that time.
    pub fn client_name(&self) -> &'a [u8] {
        match self.origin {
            Origin::Memory(seen) => seen.client_name(),
            Origin::File(Item::Command(entry)) => &entry.name,
            Origin::File(Item::Event(event)) => &event.name,
        }
    }

    /// The client's address.
    pub fn address(&self) -> &'a str {
        match self.origin {
            Origin::Memory(seen) => seen.address(),
            Origin::File(Item::Command(entry)) => &entry.address,
            Origin::File(Item::Event(event)) => &event.address,
        }
    }

    /// Lends the commands that EXEC or a script ran.
    pub fn with_nested<R>(&self, look: impl FnOnce(&[NestedCommand<'_>]) -> R) -> R {
        match self.origin {
            Origin::Memory(seen) => {
                let (nested, _) = seen.record.nested();
                let nested: Vec<NestedCommand<'_>> = nested
                    .iter()
                    .map(|command| NestedCommand {
                        depth: command.depth,
                        db: command.db,
                        words: command.kept.words().iter().collect(),
                        reply: command.kept.reply,
                    })
                    .collect();
                look(&nested)
            }
            Origin::File(Item::Command(entry)) => {
                let mut nested = Vec::new();
                flatten(&entry.children, 1, &mut nested);
                look(&nested)
            }
            Origin::File(Item::Event(_)) => look(&[]),
        }
    }
}

/// The nearest time that is counted with, in microseconds since 1970.
pub fn plausible(micros: i64) -> i64 {
    micros.clamp(-FURTHEST / 2, FURTHEST)
}

fn later(real: i64, by: u64) -> i64 {
    real.saturating_add_unsigned(by)
}

fn flatten<'a>(children: &'a [Child], depth: u8, nested: &mut Vec<NestedCommand<'a>>) {
    for child in children {
        flatten(&child.children, depth.saturating_add(1), nested);
        let words = child.words.iter().map(Vec::as_slice).collect();
        nested.push(NestedCommand { depth, db: child.db, words, reply: &child.reply });
    }
}
