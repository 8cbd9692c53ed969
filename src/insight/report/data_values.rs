//! What commands did to data: which values of it they read and wrote.

use std::collections::HashMap;

use super::readable::{clipped, readable, visible};
use super::report_data::{Client, Moment, PlacedFinding};
use crate::insight::audit::{Code, DataAccess, DataUse, LockId, keys_of, tell_uses};
use crate::powers::{Child, Entry, Item, Outcome, rendered};
use crate::spec::{CommandKind, CommandSpec, Flag, Table, TransactionCommand};

/// How many characters of a value are shown.
const MAX_VALUE: usize = 80;
/// How many uses of data a report has.
const MAX_USES: usize = 20_000;

/// A key of which a finding says that what was written to it is lost.
pub struct Data {
    pub server: u16,
    pub db: u32,
    pub name: String,
}

/// One use of data by a command.
pub struct ValueUse {
    /// The places in the lists of data and of moments.
    pub data: usize,
    pub moment: usize,
    /// The field, member or place; empty for the whole value.
    pub part: String,
    pub act: Act,
    /// The value, if it is told.
    pub value: Option<String>,
}

/// What a command does to data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Act {
    Watched,
    Read,
    /// It read the key, and there was nothing.
    Missed,
    Wrote,
    /// It changed the value in one step.
    Changed,
    Deleted,
}

impl Act {
    /// The name on the page.
    pub fn name(self) -> &'static str {
        match self {
            Self::Watched => "watched",
            Self::Read => "read",
            Self::Missed => "missed",
            Self::Wrote => "wrote",
            Self::Changed => "changed",
            Self::Deleted => "deleted",
        }
    }
}

/// A command, alone or inside EXEC or a script.
struct Ran<'a> {
    row: &'static CommandSpec,
    db: u32,
    words: Vec<&'a [u8]>,
    reply: &'a [u8],
}

/// The data of lost updates, and what each command did to it. `acts` is what each moment did to any key.
pub struct DataValues {
    pub data: Vec<Data>,
    pub uses: Vec<ValueUse>,
    pub acts: Vec<Option<Act>>,
}

impl DataValues {
    pub fn of(moments: &[Moment<'_>], found: &[PlacedFinding<'_>], commands: &Table) -> Self {
        let mut data = Vec::new();
        let mut places: HashMap<LockId, usize> = HashMap::new();
        for finding in found.iter().map(|found| found.finding).filter(|finding| finding.code == Code::LostUpdate) {
            let id = LockId { server: finding.server, db: finding.db, key: (&*finding.key).into() };
            places.entry(id).or_insert_with(|| {
                data.push(Data { server: finding.server, db: finding.db, name: readable(&finding.key) });
                data.len() - 1
            });
        }
        let mut values = Self { data, uses: Vec::new(), acts: vec![None; moments.len()] };
        for (at, moment) in moments.iter().enumerate() {
            let Item::Command(entry) = moment.item else { continue };
            if !matches!(entry.outcome, Outcome::Answered | Outcome::Lost | Outcome::Silent) {
                continue;
            }
            for ran in ran_by(entry, commands) {
                values.acts[at] = values.acts[at].max(act_of(ran.row));
                values.note(at, moment.server, &ran, (&places, commands));
            }
        }
        values
    }

    fn note(&mut self, at: usize, server: u16, ran: &Ran<'_>, (places, commands): (&HashMap<LockId, usize>, &Table)) {
        if places.is_empty() || self.uses.len() >= MAX_USES {
            return;
        }
        let place = |key: &[u8]| places.get(&LockId { server, db: ran.db, key: key.into() }).copied();
        let keys = || keys_of(commands, &ran.words).to_vec();
        if is_watch(ran.row) {
            let watched = ran.words.iter().skip(1).filter_map(|key| place(key));
            let watched =
                watched.map(|data| ValueUse { data, moment: at, part: String::new(), act: Act::Watched, value: None });
            return self.uses.extend(watched);
        }
        let uses = &mut self.uses;
        tell_uses(ran.row, &ran.words, ran.reply, keys, &mut |DataUse { key, part, access }| {
            let Some(data) = place(key) else { return };
            let shown = |value: &[u8]| Some(clipped(&readable(value), MAX_VALUE));
            let all = |reply: &[u8]| Some(clipped(&visible(&rendered(reply)), MAX_VALUE));
            let (act, value) = match access {
                DataAccess::Read(None) => (Act::Missed, None),
                DataAccess::Read(Some(value)) if std::ptr::eq(value, ran.reply) => (Act::Read, all(value)),
                DataAccess::Read(Some(value)) => (Act::Read, shown(value)),
                DataAccess::PartlyRead => (Act::Read, None),
                DataAccess::Write { value, .. } => (Act::Wrote, shown(value)),
                DataAccess::Delete => (Act::Deleted, None),
                DataAccess::Update if matches!(ran.row.name, "INCR" | "INCRBY" | "DECR" | "DECRBY" | "HINCRBY") => {
                    (Act::Changed, ran.reply.strip_prefix(b":").and_then(|number| shown(number.trim_ascii_end())))
                }
                DataAccess::Add(elements) => {
                    let last = uses
                        .last()
                        .is_some_and(|last| (last.data, last.moment) == (data, at) && last.act == Act::Deleted);
                    let told: Vec<String> = elements.iter().map(|element| readable(element)).collect();
                    let told = clipped(&told.join(", "), MAX_VALUE);
                    match last {
                        // The whole is written anew.
                        true => {
                            uses.pop();
                            (Act::Wrote, Some(format!("[{told}]")))
                        }
                        false => (Act::Changed, Some(format!("+ {told}"))),
                    }
                }
                DataAccess::Update | DataAccess::Replace => (Act::Changed, None),
            };
            uses.push(ValueUse { data, moment: at, part: readable(part), act, value });
        });
    }
}

fn is_watch(row: &CommandSpec) -> bool {
    row.kind == CommandKind::Transaction(TransactionCommand::Watch)
}

fn act_of(row: &CommandSpec) -> Option<Act> {
    match () {
        () if is_watch(row) => Some(Act::Watched),
        () if row.keys.is_empty() => None,
        () if row.has_flag(Flag::Write) => Some(Act::Wrote),
        () => Some(Act::Read),
    }
}

/// The commands that ran: those inside EXEC and scripts, and not those themselves.
fn ran_by<'a>(entry: &'a Entry, commands: &Table) -> Vec<Ran<'a>> {
    let mut ran = Vec::new();
    let Some(row) = entry.words.first().and_then(|name| commands.find(name)) else { return ran };
    if matches!(row.kind, CommandKind::Script(_)) || row.kind == CommandKind::Transaction(TransactionCommand::Exec) {
        add_children(&entry.children, commands, &mut ran);
    } else if entry.reply.first().is_none_or(|kind| !matches!(kind, b'-' | b'!')) {
        let words = entry.words.iter().map(Vec::as_slice).collect();
        ran.push(Ran { row, db: entry.db, words, reply: &entry.reply });
    }
    ran
}

fn add_children<'a>(children: &'a [Child], commands: &Table, ran: &mut Vec<Ran<'a>>) {
    for child in children {
        add_children(&child.children, commands, ran);
        let Some(row) = child.words.first().and_then(|name| commands.find(name)) else { continue };
        let is_error = child.reply.first().is_some_and(|kind| matches!(kind, b'-' | b'!'));
        if !is_error && !matches!(row.kind, CommandKind::Script(_)) {
            let words = child.words.iter().map(Vec::as_slice).collect();
            ran.push(Ran { row, db: child.db, words, reply: &child.reply });
        }
    }
}

/// The place of the client whose mistake a finding is.
pub fn culprit_of(found: &PlacedFinding<'_>, clients: &[Client]) -> Option<usize> {
    let finding = found.finding;
    clients.iter().position(|client| (client.server, client.id) == (finding.server, finding.culprit))
}
