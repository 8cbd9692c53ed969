//! One line of a journal, whether it is in memory or was read from a file.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::base::process::Process;
use crate::powers::{Child, EffectOrder, EventKind, Item, Outcome, RanInside, StoredRecord};

/// The furthest time from 1970 that is counted with, in microseconds. No server's clock shows it, but a file may say
/// anything, and differences of such times must not overflow.
const FURTHEST: i64 = 1 << 61;

/// The words of a command.
pub type LineWords<'a> = SmallVec<[&'a [u8]; 8]>;

/// The words of a command that another one ran.
pub type NestedWords<'a> = SmallVec<[&'a [u8]; 4]>;

/// What a command that its header tells ran inside.
pub type NestedCommands<'a> = SmallVec<[NestedCommand<'a>; 4]>;

/// A command or an event.
#[derive(Clone)]
pub struct JournalLine<'a> {
    /// The server that received it, from 1.
    pub server: u16,
    pub seq: u64,
    /// When it took effect on the server's clock, in microseconds since 1970.
    pub at: i64,
    /// The same in real time.
    pub real: i64,
    /// The earliest real time at which it may have taken effect: when an upstream server was sent it.
    pub earliest: i64,
    pub order: EffectOrder,
    /// Whether it is unknown when it took effect, relative to other commands on the same keys.
    pub is_unplaced: bool,
    /// Whether it changed nothing, and may have taken effect at several places in the order.
    pub is_loose: bool,
    /// Its place in the order in which commands took effect, as far as that is known.
    pub place: u64,
    pub client: u64,
    pub db: u32,
    pub event: Option<EventKind>,
    pub words: LineWords<'a>,
    pub reply: &'a [u8],
    pub outcome: Outcome,
    /// When the client got the reply, in microseconds of real time, if that was later than at once.
    pub replied_at: Option<i64>,
    /// Whether it is unknown what EXEC or a script ran.
    pub are_children_unknown: bool,
    /// Whether words were cut off.
    pub is_cut: bool,
    /// Whether a replica may have answered it, which may be out of date.
    pub is_stale: bool,
    /// The front that has seen it, if there are several in front of one server.
    pub front: Front,
    origin: Origin<'a>,
    /// What EXEC or a script ran, once somebody has asked.
    nested: OnceCell<Vec<NestedCommand<'a>>>,
}

#[derive(Clone, Copy)]
enum Origin<'a> {
    Memory(&'a StoredRecord<'a>),
    File(&'a Item),
}

/// One of several fronts before one server. Each has a clock of its own; the times of lines are on that of the first one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Front {
    pub number: u16,
    /// By how many microseconds the times of the line may be wrong, before and behind. The interval of the line is longer by
    /// that on both sides; among lines of the same front it counts without.
    pub slack: i64,
    /// Whether lines of the same front come in the order of their effects.
    pub is_ordered: bool,
}

/// A command that EXEC or a script ran. A command with nested ones comes after them.
#[derive(Clone)]
pub struct NestedCommand<'a> {
    /// 1 for what the line's own command ran, 2 for what that ran.
    pub depth: u8,
    pub db: u32,
    pub words: NestedWords<'a>,
    pub reply: &'a [u8],
    /// Whether words were cut off, or are unknown.
    pub is_cut: bool,
}

/// The commands inside another one, of which nothing is copied.
pub fn nested_commands<'a>(inside: RanInside<'a>) -> NestedCommands<'a> {
    let read = inside.map(|command| NestedCommand {
        depth: command.depth,
        db: command.db,
        words: command.words().collect(),
        reply: command.reply,
        is_cut: command.is_cut,
    });
    read.collect()
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
            earliest: earliest(record.sent(), record.real),
            order: record.order,
            is_unplaced: false,
            is_loose: false,
            place: record.seq,
            client: record.client,
            db: record.db,
            event: record.event,
            // In front of the detail of an event at a node, the record has the node.
            words: record
                .words()
                .iter()
                .skip(usize::from(record.event.is_some_and(EventKind::is_about_node)))
                .collect(),
            reply: record.kept().reply,
            outcome: record.outcome,
            replied_at: record.held_after().map(|held| later(record.real, held)),
            are_children_unknown: record.are_children_unknown,
            is_cut: record.kept().words_missing > 0,
            is_stale: false,
            front: Front::default(),
            origin: Origin::Memory(seen),
            nested: OnceCell::new(),
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
                earliest: earliest(entry.sent, entry.real),
                order: entry.order,
                is_unplaced: false,
                is_loose: false,
                place: entry.seq,
                client: entry.client,
                db: entry.db,
                event: None,
                words: entry.words.iter().map(Vec::as_slice).collect(),
                reply: &entry.reply,
                outcome: entry.outcome,
                replied_at: entry.held_after.map(|held| later(entry.real, held)),
                are_children_unknown: entry.are_children_unknown,
                is_cut: entry.words_missing > 0,
                is_stale: false,
                front: Front::default(),
                origin,
                nested: OnceCell::new(),
            },
            Item::Event(event) => Self {
                server,
                seq: event.seq,
                at: plausible(event.at),
                real: plausible(event.real),
                earliest: plausible(event.real),
                order: EffectOrder::Total,
                is_unplaced: false,
                is_loose: false,
                place: event.seq,
                client: event.client,
                db: event.key.as_ref().map_or(0, |(db, _)| *db),
                event: Some(event.kind),
                words: {
                    let first = event.key.as_ref().map_or(event.detail.as_bytes(), |(_, key)| key);
                    std::iter::once(first).chain(event.had_by.iter().map(String::as_bytes)).collect()
                },
                reply: &[],
                outcome: Outcome::Silent,
                replied_at: None,
                are_children_unknown: false,
                is_cut: false,
                is_stale: false,
                front: Front::default(),
                origin,
                nested: OnceCell::new(),
            },
        }
    }

    /// The line with all that it borrows.
    pub fn to_item(&self) -> Item {
        match self.origin {
            Origin::Memory(seen) => seen.item(),
            Origin::File(item) => item.clone(),
        }
    }

    /// Whether another program wrote it, and left out what redouble writes. What is missing is unknown.
    pub fn is_partial(&self) -> bool {
        let lacks_outcome = self.reply.is_empty() && self.outcome == Outcome::Answered;
        self.event.is_none() && self.order == EffectOrder::Total && (self.are_children_unknown || lacks_outcome)
    }

    /// Whether it ran, and its reply is unknown.
    pub fn lacks_reply(&self) -> bool {
        self.event.is_none() && self.reply.is_empty() && self.outcome != Outcome::NeverRan
    }

    /// Whether the node that received it sent it away, because another one has the keys or the server was not ready: it
    /// changed nothing.
    pub fn was_sent_away(&self) -> bool {
        const CODES: [&[u8]; 9] = [
            b"MOVED",
            b"ASK",
            b"CROSSSLOT",
            b"CLUSTERDOWN",
            b"TRYAGAIN",
            b"READONLY",
            b"MASTERDOWN",
            b"NOREPLICAS",
            b"LOADING",
        ];
        error_code(self.reply).is_some_and(|code| CODES.contains(&code))
    }

    /// Whether a Cluster sent it away.
    pub fn shows_a_cluster(&self) -> bool {
        const CODES: [&[u8]; 5] = [b"MOVED", b"ASK", b"CROSSSLOT", b"CLUSTERDOWN", b"TRYAGAIN"];
        error_code(self.reply).is_some_and(|code| CODES.contains(&code))
    }

    /// Whether a Cluster refused it because its keys are in different hash slots.
    pub fn is_refused_for_slots(&self) -> bool {
        error_code(self.reply) == Some(b"CROSSSLOT")
    }

    /// Whether it only waits for EXEC.
    pub fn is_queued(&self) -> bool {
        self.outcome == Outcome::Queued || self.are_children_unknown && self.reply == b"+QUEUED\r\n"
    }

    /// The earliest time at which it may have taken effect, on the server's clock.
    pub fn earliest_at(&self) -> i64 {
        self.at - (self.real - self.earliest)
    }

    /// The client's name and process, as they were known at that time.
    pub fn client_labels(&self) -> (&'a [u8], Option<&'a Arc<Process>>) {
        match self.origin {
            Origin::Memory(seen) => seen.client_labels(),
            Origin::File(Item::Command(entry)) => (&entry.name, entry.process.as_ref()),
            Origin::File(Item::Event(event)) => (&event.name, event.process.as_ref()),
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

    /// The real address of the node that the command was sent to, or that the event is about, if there is a deployment.
    pub fn node(&self) -> Option<Cow<'a, str>> {
        match self.origin {
            Origin::Memory(seen) => seen.node(),
            Origin::File(Item::Command(entry)) => entry.node.as_deref().map(Cow::Borrowed),
            Origin::File(Item::Event(event)) => event.node.as_deref().map(Cow::Borrowed),
        }
    }

    /// The detail of an event.
    pub fn detail(&self) -> Cow<'a, str> {
        String::from_utf8_lossy(self.words.first().copied().unwrap_or_default())
    }

    /// Lends the words of each command that EXEC or a script ran itself.
    pub fn each_inside(&self, mut look: impl FnMut(&[&[u8]])) {
        match self.origin {
            Origin::Memory(seen) => {
                let (nested, _) = seen.record.nested();
                let own = nested.iter().filter(|command| command.depth == 1);
                own.for_each(|command| look(&command.kept.words().iter().collect::<LineWords<'_>>()));
            }
            Origin::File(Item::Command(entry)) => {
                let words = entry.children.iter().map(|child| child.words.iter().map(Vec::as_slice));
                words.for_each(|words| look(&words.collect::<LineWords<'_>>()));
            }
            Origin::File(Item::Event(_)) => {}
        }
    }

    /// Lends the commands that EXEC or a script ran. They are decoded once.
    pub fn with_nested<R>(&self, look: impl FnOnce(&[NestedCommand<'a>]) -> R) -> R {
        look(self.nested.get_or_init(|| self.read_nested()))
    }

    fn read_nested(&self) -> Vec<NestedCommand<'a>> {
        match self.origin {
            Origin::Memory(seen) => {
                let (nested, _) = seen.record.nested();
                let read = nested.iter().map(|command| NestedCommand {
                    depth: command.depth,
                    db: command.db,
                    words: command.kept.kept_words().collect(),
                    reply: command.kept.reply,
                    is_cut: command.kept.words_missing > 0,
                });
                read.collect()
            }
            Origin::File(Item::Command(entry)) => {
                let mut nested = Vec::new();
                flatten(&entry.children, 1, &mut nested);
                nested
            }
            Origin::File(Item::Event(_)) => Vec::new(),
        }
    }
}

/// The nearest time that is counted with, in microseconds since 1970.
pub fn plausible(micros: i64) -> i64 {
    micros.clamp(-FURTHEST / 2, FURTHEST)
}

/// The first word of an error.
fn error_code(reply: &[u8]) -> Option<&[u8]> {
    let text = match reply.split_first()? {
        (b'-', text) => text,
        // As RESP3 has long errors.
        (b'!', rest) => rest.get(memchr::memchr(b'\n', rest)? + 1..)?,
        _ => return None,
    };
    text.split(|byte| matches!(byte, b' ' | b'\r')).next()
}

fn earliest(sent: Option<i64>, real: i64) -> i64 {
    plausible(sent.unwrap_or(real).min(real))
}

pub fn later(real: i64, by: u64) -> i64 {
    real.saturating_add_unsigned(by)
}

fn flatten<'a>(children: &'a [Child], depth: u8, nested: &mut Vec<NestedCommand<'a>>) {
    for child in children {
        flatten(&child.children, depth.saturating_add(1), nested);
        let words = child.words.iter().map(Vec::as_slice).collect();
        let is_cut = child.words_missing > 0;
        nested.push(NestedCommand { depth, db: child.db, words, reply: &child.reply, is_cut });
    }
}
