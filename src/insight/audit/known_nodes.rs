//! What a journal shows of the nodes of a Cluster or a Sentinel set, in the order in which its lines come: which of them are
//! masters, and which connections read from replicas. What a replica answers may be out of date.

use std::collections::HashSet;
use std::sync::Arc;

use foldhash::fast::FixedState;

use super::journal_line::{JournalLine, NestedCommand};
use super::reply_value::ReplyValue;
use crate::powers::{EventKind, Outcome};
use crate::protocol::{OwnedWords, parse_integer};
use crate::spec::{CommandKind, Table, TransactionCommand};

/// How long before a promotion the command may have come that asked for it, in microseconds of real time.
const MAX_PLANNED: i64 = 60_000_000;
/// How many such commands are remembered.
const MAX_REQUESTS: usize = 64;

type Node = (u16, Arc<str>);

/// The nodes of the deployments in front of which journals were written, by server.
#[derive(Clone, Default)]
pub struct KnownNodes {
    /// The nodes that have taken a write, or were promoted.
    masters: HashSet<Node, FixedState>,
    /// The nodes in the place of which others were promoted.
    replaced: HashSet<Node, FixedState>,
    /// The connections that have said READONLY.
    readers: HashSet<(u16, u64), FixedState>,
    /// The servers that are nodes of a Cluster: a replica there sends away whoever has not said READONLY.
    clusters: HashSet<u16, FixedState>,
    /// Failovers for which the new master waits until it has all writes, by the node that was told to: the replica or the
    /// master.
    synchronised: Vec<(Node, i64)>,
    /// The last that was said of the hash slots of nodes.
    slots: Vec<(Node, Vec<(u16, u16)>)>,
}

impl KnownNodes {
    /// Notes a line. Returns whether what it has read may be out of date.
    pub fn note(&mut self, line: &JournalLine<'_>, commands: &Table) -> bool {
        let Some(node) = line.node() else { return false };
        let node: Node = (line.server, Arc::from(&*node));
        match line.event {
            Some(EventKind::Promoted) => {
                let replaced = (line.server, Arc::from(line.detail()));
                self.masters.remove(&replaced);
                // It has the slots of the former one.
                self.slots.retain(|(other, _)| *other != node);
                self.slots
                    .iter_mut()
                    .filter(|(other, _)| *other == replaced)
                    .for_each(|(other, _)| *other = node.clone());
                self.replaced.insert(replaced);
                self.replaced.remove(&node);
                self.masters.insert(node);
            }
            Some(EventKind::Topology) => self.note_slots(node, &line.detail()),
            Some(EventKind::Closed) => {
                self.readers.remove(&(line.server, line.client));
            }
            Some(
                EventKind::Started
                | EventKind::Clock
                | EventKind::Evicted
                | EventKind::Missing
                | EventKind::Mark
                | EventKind::Lost
                | EventKind::Link
                | EventKind::Replaced,
            ) => {}
            None => return self.note_command(node, line, commands),
        }
        false
    }

    fn note_command(&mut self, node: Node, line: &JournalLine<'_>, commands: &Table) -> bool {
        if line.shows_a_cluster() {
            self.clusters.insert(line.server);
        }
        let word = |at: usize| line.words.get(at).copied().unwrap_or_default();
        let is = |at: usize, name: &str| word(at).eq_ignore_ascii_case(name.as_bytes());
        let is_done = !matches!(ReplyValue::of(line.reply), ReplyValue::Error) && !line.lacks_reply();
        let client = (line.server, line.client);
        if is(0, "READONLY") && is_done {
            self.readers.insert(client);
        } else if is(0, "READWRITE") || is(0, "RESET") {
            self.readers.remove(&client);
        } else if is_done && waits_for_all_writes(&line.words) {
            if self.synchronised.len() >= MAX_REQUESTS {
                self.synchronised.remove(0);
            }
            self.synchronised.push((node.clone(), line.real));
        }
        match writes(line, commands) {
            Some(true) if is_done && !self.replaced.contains(&node) => {
                self.masters.insert(node);
                return false;
            }
            Some(_) => {}
            None => return false,
        }
        let is_master = self.clusters.contains(&line.server) && !self.replaced.contains(&node);
        self.readers.contains(&client) || !is_master && !self.masters.contains(&node)
    }

    fn note_slots(&mut self, node: Node, detail: &str) {
        let Some(ranges) = detail.strip_prefix("slots ").or_else(|| (detail == "no slots").then_some("")) else {
            return;
        };
        self.clusters.insert(node.0);
        let number = |text: &str| u16::try_from(parse_integer(text.trim().as_bytes())?).ok();
        let range = |text: &str| {
            let (first, last) = text.split_once('-').unwrap_or((text, text));
            Some((number(first)?, number(last)?))
        };
        self.slots.retain(|(other, _)| *other != node);
        self.slots.push((node, ranges.split(',').filter_map(range).collect()));
    }

    /// Whether a promotion came by a command that lets the new master wait for all writes.
    pub fn is_synchronised(&self, line: &JournalLine<'_>) -> bool {
        let (new, replaced) = (line.node(), line.detail());
        self.synchronised.iter().any(|((server, node), at)| {
            *server == line.server
                && (new.as_deref() == Some(&**node) || **node == *replaced)
                && (line.real - MAX_PLANNED..=line.real).contains(at)
        })
    }

    /// The node that was last said to have a hash slot.
    pub fn owner(&self, server: u16, slot: u16) -> Option<&str> {
        let has = |ranges: &[(u16, u16)]| ranges.iter().any(|(first, last)| (*first..=*last).contains(&slot));
        let owner = self.slots.iter().rev().find(|((number, _), ranges)| *number == server && has(ranges));
        owner.map(|((_, node), _)| &**node)
    }

    /// A server begins anew.
    pub fn forget(&mut self, server: u16) {
        self.masters.retain(|(number, _)| *number != server);
        self.replaced.retain(|(number, _)| *number != server);
        self.readers.retain(|(number, _)| *number != server);
        self.clusters.remove(&server);
        self.synchronised.retain(|((number, _), _)| *number != server);
        self.slots.retain(|((number, _), _)| *number != server);
    }
}

/// Whether a line has written; `None` if it is unknown what it ran.
fn writes(line: &JournalLine<'_>, commands: &Table) -> Option<bool> {
    let is_write = |words: &[&[u8]]| {
        let words: OwnedWords = words.iter().collect();
        commands.keys(words.as_words()).writes
    };
    let row = commands.find(line.words.first()?)?;
    match row.kind {
        CommandKind::Script(_) | CommandKind::Transaction(TransactionCommand::Exec) => {
            if line.are_children_unknown {
                return None;
            }
            let is_done = |reply: &[u8]| !matches!(ReplyValue::of(reply), ReplyValue::Error);
            let has_written = |nested: &[NestedCommand<'_>]| {
                nested.iter().any(|command| is_done(command.reply) && is_write(&command.words))
            };
            Some(line.with_nested(has_written))
        }
        _ => Some(line.outcome != Outcome::Queued && is_write(&line.words)),
    }
}

/// Whether a command asks for a failover before which the master stops and the replica gets all its writes: CLUSTER
/// FAILOVER to a replica, FAILOVER to a master, both without the words that leave this out. SENTINEL FAILOVER does not.
fn waits_for_all_writes(words: &[&[u8]]) -> bool {
    let is = |word: &[u8], name: &str| word.eq_ignore_ascii_case(name.as_bytes());
    let arguments = match words {
        [name, sub, rest @ ..] if is(name, "CLUSTER") && is(sub, "FAILOVER") => rest,
        [name, rest @ ..] if is(name, "FAILOVER") => rest,
        _ => return false,
    };
    !arguments.iter().any(|word| is(word, "FORCE") || is(word, "TAKEOVER") || is(word, "ABORT"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failover_that_waits_for_all_writes_is_known_by_its_words() {
        let waits = |text: &str| waits_for_all_writes(&text.split(' ').map(str::as_bytes).collect::<Vec<_>>());
        assert!(waits("CLUSTER FAILOVER") && waits("failover to 127.0.0.1 7002 timeout 100"));
        assert!(!waits("CLUSTER FAILOVER FORCE") && !waits("CLUSTER FAILOVER TAKEOVER") && !waits("FAILOVER ABORT"));
        assert!(!waits("SENTINEL FAILOVER mymaster") && !waits("FAILOVER TO 127.0.0.1 7002 TIMEOUT 1 FORCE"));
        assert!(!waits("CLUSTER NODES") && !waits("GET FAILOVER"));
    }
}
