//! Which commands a rule, a gate or a query of the journal matches.

use std::ops::RangeInclusive;

use smallvec::SmallVec;

use super::node_info::{NodeSelector, NodeSnapshot};
use crate::base::glob;
use crate::base::hash_slot::hash_slot;

/// What patterns know about a command.
pub struct CommandInfo<'a> {
    /// The container's name, if the command is a subcommand: `CLIENT`.
    pub container: Option<&'a str>,
    /// The command's own name, in capitals; empty if there is no such command.
    pub name: &'a str,
    pub keys: SmallVec<[&'a [u8]; 4]>,
    pub client: u64,
    pub client_name: &'a [u8],
    pub db: u32,
    /// The node that the client is connected to, if there is a deployment.
    pub node: Option<NodeSnapshot>,
}

impl CommandInfo<'_> {
    pub fn names(&self) -> NameMask {
        NameMask::of(self.container.unwrap_or(self.name))
    }
}

/// A set of command names, hashed to one bit each: two masks without a common bit have no name in common. A subcommand
/// counts by its container's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameMask(u64);

impl NameMask {
    pub const NONE: Self = Self(0);
    pub const ALL: Self = Self(u64::MAX);

    fn of(name: &str) -> Self {
        let hash = name.bytes().fold(0u64, |hash, byte| hash.wrapping_mul(31).wrapping_add(u64::from(byte)));
        Self(1 << (hash.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58))
    }

    pub fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether the two may have a name in common.
    #[inline]
    pub fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

/// Which clients a pattern matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientSelector {
    /// The client with this id (CLIENT ID).
    Id(u64),
    /// Clients whose name (CLIENT SETNAME) matches this glob.
    Name(Vec<u8>),
}

impl From<u64> for ClientSelector {
    fn from(id: u64) -> Self {
        Self::Id(id)
    }
}

impl From<&str> for ClientSelector {
    fn from(name: &str) -> Self {
        Self::Name(name.as_bytes().to_vec())
    }
}

/// Which commands are meant: those that fulfil every condition. The empty pattern matches every command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pattern {
    commands: Vec<String>,
    key: Option<Vec<u8>>,
    client: Option<ClientSelector>,
    db: Option<u32>,
    node: Option<NodeSelector>,
    /// The first and the last slot.
    slots: Option<(u16, u16)>,
}

impl Pattern {
    /// Every command.
    pub fn any() -> Self {
        Self::default()
    }

    /// One command: `SET`, `CLIENT` or `CLIENT|KILL`, in any case.
    pub fn on(command: &str) -> Self {
        Self::any().command(command)
    }

    /// Also this command: `SET`, `CLIENT` or `CLIENT|KILL`, in any case.
    pub fn command(mut self, name: &str) -> Self {
        self.commands.push(name.to_ascii_uppercase());
        self
    }

    /// Only if one of its keys matches this glob.
    pub fn key(mut self, glob: impl Into<Vec<u8>>) -> Self {
        self.key = Some(glob.into());
        self
    }

    /// Only from this client, by its id, or from clients whose names match this glob.
    pub fn client(mut self, client: impl Into<ClientSelector>) -> Self {
        self.client = Some(client.into());
        self
    }

    /// Only in this database.
    pub fn db(mut self, db: u32) -> Self {
        self.db = Some(db);
        self
    }

    /// Only on this node of the Cluster or the Sentinel set behind the server, by its address, port or id; or only on nodes
    /// of a role, [`NodeRole::Master`](crate::NodeRole::Master); or only on the replicas of a node.
    ///
    /// ```
    /// use redouble::{NodeRole, NodeSelector, Pattern};
    ///
    /// let one = Pattern::on("SET").node("127.0.0.1:7001");
    /// let masters = Pattern::on("SET").node(NodeRole::Master);
    /// let its_replicas = Pattern::on("GET").node(NodeSelector::replica_of("127.0.0.1:7001"));
    /// ```
    pub fn node(mut self, node: impl Into<NodeSelector>) -> Self {
        self.node = Some(node.into());
        self
    }

    /// Only if one of its keys is in these hash slots. Keys have slots without a Cluster, too.
    pub fn slots(mut self, slots: RangeInclusive<u16>) -> Self {
        self.slots = Some(slots.into_inner());
        self
    }

    /// The glob that a key must match.
    pub(crate) fn key_glob(&self) -> Option<&[u8]> {
        self.key.as_deref()
    }

    /// Whether it matches every command.
    pub(crate) fn is_any(&self) -> bool {
        *self == Self::default()
    }

    /// The names that it matches, to rule out other commands quickly.
    pub(crate) fn names(&self) -> NameMask {
        match self.commands.as_slice() {
            [] => NameMask::ALL,
            commands => {
                commands.iter().map(|name| NameMask::of(container_of(name))).fold(NameMask::NONE, NameMask::union)
            }
        }
    }

    pub(crate) fn names_commands(&self) -> bool {
        !self.commands.is_empty()
    }

    pub(crate) fn names_key(&self) -> bool {
        self.key.is_some()
    }

    pub(crate) fn names_client(&self) -> bool {
        self.client.is_some()
    }

    pub(crate) fn names_db(&self) -> bool {
        self.db.is_some()
    }

    pub(crate) fn names_slots(&self) -> bool {
        self.slots.is_some()
    }

    pub(crate) fn names_node(&self) -> bool {
        self.node.is_some()
    }

    /// The node that is meant, if one is by its number.
    pub(crate) fn node_number(&self) -> Option<u16> {
        match self.node {
            Some(NodeSelector::Numbered(number, _)) => Some(number),
            _ => None,
        }
    }

    /// The glob for the names of clients, if one is given.
    pub(crate) fn client_name(&self) -> Option<&[u8]> {
        match &self.client {
            Some(ClientSelector::Name(name)) => Some(name),
            _ => None,
        }
    }

    /// The node that is meant, to look it up.
    pub(crate) fn node_mut(&mut self) -> Option<&mut NodeSelector> {
        self.node.as_mut()
    }

    /// The commands that are named, in capitals.
    pub(crate) fn commands(&self) -> &[String] {
        &self.commands
    }

    pub(crate) fn matches(&self, command: &CommandInfo<'_>) -> bool {
        self.db.is_none_or(|db| db == command.db)
            && (self.commands.is_empty() || self.commands.iter().any(|name| has_name(command, name)))
            && self.client.as_ref().is_none_or(|client| match client {
                ClientSelector::Id(id) => *id == command.client,
                ClientSelector::Name(name) => glob::matches(name, command.client_name, false),
            })
            && self.node.as_ref().is_none_or(|node| command.node.as_ref().is_some_and(|at| node.matches(at)))
            && self.key.as_ref().is_none_or(|glob| command.keys.iter().any(|key| glob::matches(glob, key, false)))
            && (self.slots.is_none() || command.keys.iter().any(|key| self.has_slot_of(key)))
    }

    fn has_slot_of(&self, key: &[u8]) -> bool {
        self.slots.is_none_or(|(first, last)| (first..=last).contains(&hash_slot(key)))
    }

    /// Whether it matches what happens to a key without a command.
    pub(crate) fn matches_key(&self, db: u32, key: &[u8]) -> bool {
        self.commands.is_empty()
            && self.client.is_none()
            && self.node.is_none()
            && self.db.is_none_or(|wanted| wanted == db)
            && self.has_slot_of(key)
            && self.key.as_ref().is_none_or(|glob| glob::matches(glob, key, false))
    }

    /// The pattern as it is written on the wire; empty for every command.
    pub(crate) fn words(&self) -> Vec<Vec<u8>> {
        let mut words = Vec::new();
        if !self.commands.is_empty() {
            words.push(b"on".to_vec());
            words.extend(self.commands.iter().map(|name| name.clone().into_bytes()));
        }
        if let Some(key) = &self.key {
            words.extend([b"key".to_vec(), key.clone()]);
        }
        if let Some(client) = &self.client {
            words.push(b"client".to_vec());
            words.push(match client {
                ClientSelector::Id(id) => id.to_string().into_bytes(),
                ClientSelector::Name(name) => name.clone(),
            });
        }
        if let Some(db) = self.db {
            words.extend([b"db".to_vec(), db.to_string().into_bytes()]);
        }
        if let Some(node) = &self.node {
            words.push(b"node".to_vec());
            words.extend(node.words());
        }
        if let Some((first, last)) = self.slots {
            words.extend([b"slots".to_vec(), format!("{first}-{last}").into_bytes()]);
        }
        words
    }
}

/// A full name up to its bar, if it has one.
fn container_of(name: &str) -> &str {
    name.split('|').next().unwrap_or(name)
}

/// Whether a command has this name: its own, its container's, or both with a bar between.
fn has_name(command: &CommandInfo<'_>, name: &str) -> bool {
    match (command.container, name.split_once('|')) {
        (None, None) => command.name == name,
        (Some(container), None) => container == name,
        (Some(container), Some((first, second))) => container == first && command.name == second,
        (None, Some(_)) => false,
    }
}

#[cfg(test)]
mod tests {
    use smallvec::smallvec;

    use super::*;

    fn set<'a>() -> CommandInfo<'a> {
        CommandInfo {
            container: None,
            name: "SET",
            keys: smallvec![&b"lock:a"[..]],
            client: 7,
            client_name: b"worker-1",
            db: 0,
            node: None,
        }
    }

    #[test]
    fn the_empty_pattern_means_every_command() {
        assert!(Pattern::any().matches(&set()));
    }

    #[test]
    fn everything_that_is_said_must_fit() {
        let pattern = Pattern::any().command("get").command("set").key("lock:*");
        let pattern = pattern.client(ClientSelector::Name(b"worker-*".to_vec())).db(0);
        assert!(pattern.matches(&set()));
        assert!(!pattern.matches(&CommandInfo { name: "DEL", ..set() }));
        assert!(!pattern.matches(&CommandInfo { keys: smallvec![&b"other"[..]], ..set() }));
        assert!(!pattern.matches(&CommandInfo { client_name: b"", ..set() }));
        assert!(!pattern.matches(&CommandInfo { db: 1, ..set() }));
        assert!(!Pattern::any().client(ClientSelector::Id(8)).matches(&set()));
    }

    #[test]
    fn slots_are_those_of_any_key() {
        // foo is in slot 12182, bar in 5061.
        let command = || CommandInfo { keys: smallvec![&b"{bar}1"[..], &b"{foo}2"[..]], ..set() };
        for (slots, is_meant) in [(12_182..=12_182, true), (0..=5_061, true), (5_062..=12_181, false)] {
            assert_eq!(Pattern::any().slots(slots.clone()).matches(&command()), is_meant, "{slots:?}");
        }
        assert!(!Pattern::any().slots(0..=16_383).matches(&CommandInfo { keys: smallvec![], ..set() }));
    }

    #[test]
    fn no_node_is_meant_where_there_is_none() {
        assert!(!Pattern::any().node(crate::powers::NodeRole::Master).matches(&set()));
        assert!(!Pattern::any().node("7001").matches_key(0, b"foo"));
    }

    #[test]
    fn names_never_rule_out_what_matches() {
        for name in ["SET", "CLIENT", "CLIENT|KILL", "client|kill"] {
            let pattern = Pattern::any().command("GET").command(name);
            for command in [set(), CommandInfo { container: Some("CLIENT"), name: "KILL", ..set() }] {
                assert!(!pattern.matches(&command) || pattern.names().intersects(command.names()), "{name}");
            }
        }
        assert!(Pattern::any().names().intersects(set().names()));
        assert!(!Pattern::any().command("DEL").names().intersects(set().names()));
    }

    #[test]
    fn a_container_stands_for_its_subcommands() {
        let kill = || CommandInfo { container: Some("CLIENT"), name: "KILL", ..set() };
        assert!(Pattern::any().command("CLIENT").matches(&kill()));
        assert!(Pattern::any().command("client|kill").matches(&kill()));
        assert!(!Pattern::any().command("CLIENT|LIST").matches(&kill()));
        assert!(!Pattern::any().command("KILL").matches(&kill()));
    }
}
