//! What a rule, a gate or a question to the journal is about.

use smallvec::SmallVec;

use crate::base::glob;

/// A command on its way, as the test powers see it.
pub struct Arrival<'a> {
    /// The container's name, if the command is a subcommand: `CLIENT`.
    pub container: Option<&'a str>,
    /// The command's own name, in capitals; empty if there is no such command.
    pub name: &'a str,
    pub keys: SmallVec<[&'a [u8]; 4]>,
    pub client: u64,
    pub client_name: &'a [u8],
    pub db: u32,
}

impl Arrival<'_> {
    pub fn names(&self) -> Names {
        Names::of(self.container.unwrap_or(self.name))
    }
}

/// Names of commands, one bit each: two of these without a common bit have no name in common. A subcommand goes by its
/// container's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Names(u64);

impl Names {
    pub const NONE: Self = Self(0);
    pub const ALL: Self = Self(u64::MAX);

    fn of(name: &str) -> Self {
        let hash = name.bytes().fold(0u64, |hash, byte| hash.wrapping_mul(31).wrapping_add(u64::from(byte)));
        Self(1 << (hash.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58))
    }

    /// These and those.
    pub fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether there may be a name in common.
    #[inline]
    pub fn meet(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

/// Whose commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Who {
    /// The client with this number, as CLIENT ID gives it.
    Id(u64),
    /// Clients whose name, as CLIENT SETNAME gave it, matches this glob.
    Name(Vec<u8>),
}

impl From<u64> for Who {
    fn from(id: u64) -> Self {
        Self::Id(id)
    }
}

impl From<&str> for Who {
    fn from(name: &str) -> Self {
        Self::Name(name.as_bytes().to_vec())
    }
}

/// Which commands are meant: those that fit everything that is said. The empty pattern means every command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pattern {
    commands: Vec<String>,
    key: Option<Vec<u8>>,
    client: Option<Who>,
    db: Option<u32>,
}

impl Pattern {
    /// Every command.
    pub fn any() -> Self {
        Self::default()
    }

    /// One command: `SET`, `CLIENT`, or `CLIENT|KILL`, in whatever case.
    pub fn on(command: &str) -> Self {
        Self::any().command(command)
    }

    /// This command, too: `SET`, `CLIENT`, or `CLIENT|KILL`, in whatever case.
    pub fn command(mut self, name: &str) -> Self {
        self.commands.push(name.to_ascii_uppercase());
        self
    }

    /// Only if one of its keys matches this glob.
    pub fn key(mut self, glob: impl Into<Vec<u8>>) -> Self {
        self.key = Some(glob.into());
        self
    }

    /// Only from this client, by its number or by its name, or from those whose names match this glob.
    pub fn client(mut self, who: impl Into<Who>) -> Self {
        self.client = Some(who.into());
        self
    }

    /// Only in this database.
    pub fn db(mut self, db: u32) -> Self {
        self.db = Some(db);
        self
    }

    /// The glob that a key must match.
    pub(crate) fn key_glob(&self) -> Option<&[u8]> {
        self.key.as_deref()
    }

    /// Whether every command is meant.
    pub(crate) fn is_any(&self) -> bool {
        *self == Self::default()
    }

    /// The names that are meant, to tell quickly that a command cannot be.
    pub(crate) fn names(&self) -> Names {
        match self.commands.as_slice() {
            [] => Names::ALL,
            commands => commands.iter().map(|name| Names::of(first_of(name))).fold(Names::NONE, Names::and),
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

    /// The commands that are named, in capitals.
    pub(crate) fn commands(&self) -> &[String] {
        &self.commands
    }

    pub(crate) fn matches(&self, arrival: &Arrival<'_>) -> bool {
        self.db.is_none_or(|db| db == arrival.db)
            && (self.commands.is_empty() || self.commands.iter().any(|name| is_called(arrival, name)))
            && self.client.as_ref().is_none_or(|who| match who {
                Who::Id(id) => *id == arrival.client,
                Who::Name(name) => glob::matches(name, arrival.client_name, false),
            })
            && self.key.as_ref().is_none_or(|glob| arrival.keys.iter().any(|key| glob::matches(glob, key, false)))
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
                Who::Id(id) => id.to_string().into_bytes(),
                Who::Name(name) => name.clone(),
            });
        }
        if let Some(db) = self.db {
            words.extend([b"db".to_vec(), db.to_string().into_bytes()]);
        }
        words
    }
}

/// A full name up to its bar, if it has one.
fn first_of(name: &str) -> &str {
    name.split('|').next().unwrap_or(name)
}

/// Whether a command goes by this name: its own, its container's, or both with a bar between.
fn is_called(arrival: &Arrival<'_>, name: &str) -> bool {
    match (arrival.container, name.split_once('|')) {
        (None, None) => arrival.name == name,
        (Some(container), None) => container == name,
        (Some(container), Some((first, second))) => container == first && arrival.name == second,
        (None, Some(_)) => false,
    }
}

#[cfg(test)]
mod tests {
    use smallvec::smallvec;

    use super::*;

    fn set<'a>() -> Arrival<'a> {
        Arrival {
            container: None,
            name: "SET",
            keys: smallvec![&b"lock:a"[..]],
            client: 7,
            client_name: b"worker-1",
            db: 0,
        }
    }

    #[test]
    fn the_empty_pattern_means_every_command() {
        assert!(Pattern::any().matches(&set()));
    }

    #[test]
    fn everything_that_is_said_must_fit() {
        let pattern = Pattern::any().command("get").command("set").key("lock:*");
        let pattern = pattern.client(Who::Name(b"worker-*".to_vec())).db(0);
        assert!(pattern.matches(&set()));
        assert!(!pattern.matches(&Arrival { name: "DEL", ..set() }));
        assert!(!pattern.matches(&Arrival { keys: smallvec![&b"other"[..]], ..set() }));
        assert!(!pattern.matches(&Arrival { client_name: b"", ..set() }));
        assert!(!pattern.matches(&Arrival { db: 1, ..set() }));
        assert!(!Pattern::any().client(Who::Id(8)).matches(&set()));
    }

    #[test]
    fn names_never_rule_out_what_matches() {
        for name in ["SET", "CLIENT", "CLIENT|KILL", "client|kill"] {
            let pattern = Pattern::any().command("GET").command(name);
            for arrival in [set(), Arrival { container: Some("CLIENT"), name: "KILL", ..set() }] {
                assert!(!pattern.matches(&arrival) || pattern.names().meet(arrival.names()), "{name}");
            }
        }
        assert!(Pattern::any().names().meet(set().names()));
        assert!(!Pattern::any().command("DEL").names().meet(set().names()));
    }

    #[test]
    fn a_container_stands_for_its_subcommands() {
        let kill = || Arrival { container: Some("CLIENT"), name: "KILL", ..set() };
        assert!(Pattern::any().command("CLIENT").matches(&kill()));
        assert!(Pattern::any().command("client|kill").matches(&kill()));
        assert!(!Pattern::any().command("CLIENT|LIST").matches(&kill()));
        assert!(!Pattern::any().command("KILL").matches(&kill()));
    }
}
