//! The databases that a selector allows, and those that a request touches.

use std::collections::BTreeSet;
use std::num::IntErrorKind;

use smallvec::SmallVec;

use super::RuleError;
use crate::protocol::{Words, parse_integer};
use crate::spec::{Category, CommandSpec, DatabaseArgs, Flag};

/// The databases that a selector allows: a Valkey server's `alldbs`, `resetdbs` and `db=`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AllowedDatabases {
    #[default]
    All,
    Listed(BTreeSet<u32>),
}

/// Where a request runs.
#[derive(Clone, Copy, Debug)]
pub struct DatabaseContext {
    /// The database that is selected when the request runs.
    pub selected: u32,
    /// The number of the server's databases.
    pub count: u32,
}

impl AllowedDatabases {
    pub fn none() -> Self {
        Self::Listed(BTreeSet::new())
    }

    /// Parses what follows `db=`: numbers between commas.
    pub fn parse(list: &[u8]) -> Result<Self, RuleError> {
        list.split(|&byte| byte == b',').map(parse_number).collect::<Result<_, _>>().map(Self::Listed)
    }

    fn allow(&self, db: u32, databases: DatabaseContext) -> bool {
        match self {
            Self::All => true,
            Self::Listed(allowed) => db < databases.count && allowed.contains(&db),
        }
    }

    /// Checks the databases of a request. The error is the position of the word to blame, or 0.
    pub fn check(&self, spec: &CommandSpec, words: Words<'_>, databases: DatabaseContext) -> Result<(), usize> {
        if *self == Self::All {
            return Ok(());
        }
        let selected = || if self.allow(databases.selected, databases) { Ok(()) } else { Err(0) };
        match spec.databases {
            DatabaseArgs::All if (0..databases.count).all(|db| self.allow(db, databases)) => Ok(()),
            DatabaseArgs::All => Err(0),
            DatabaseArgs::None if touches_keys(spec) => selected(),
            DatabaseArgs::None => Ok(()),
            DatabaseArgs::Selected | DatabaseArgs::At(_) | DatabaseArgs::Options => {
                for (at, db) in databases_of(spec.databases, words, databases.count).unwrap_or_default() {
                    if !self.allow(db, databases) {
                        return Err(at);
                    }
                }
                if spec.keys.is_empty() { Ok(()) } else { selected() }
            }
        }
    }

    /// The value of `databases` in ACL GETUSER.
    pub fn describe(&self) -> String {
        match self {
            Self::All => "alldbs".to_owned(),
            Self::Listed(allowed) if allowed.is_empty() => String::new(),
            Self::Listed(allowed) => {
                let numbers: Vec<String> = allowed.iter().map(u32::to_string).collect();
                format!("db={}", numbers.join(","))
            }
        }
    }

    /// The rule that ACL LIST shows. The default is left out.
    pub fn rule(&self) -> Option<String> {
        match self {
            Self::All => None,
            Self::Listed(allowed) if allowed.is_empty() => Some("resetdbs".to_owned()),
            Self::Listed(_) => Some(self.describe()),
        }
    }
}

/// Reads a number as C's `strtoll` does.
fn parse_number(text: &[u8]) -> Result<u32, RuleError> {
    let text = std::str::from_utf8(text).map_err(|_| RuleError::Syntax)?.trim_start();
    match text.parse::<i64>() {
        Ok(number) if i32::try_from(number).is_ok() => u32::try_from(number).map_err(|_| RuleError::DatabaseRange),
        Ok(_) => Err(RuleError::DatabaseRange),
        Err(error) => Err(match error.kind() {
            IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => RuleError::DatabaseRange,
            _ => RuleError::Syntax,
        }),
    }
}

/// Whether a command that names no database works on the selected one.
fn touches_keys(spec: &CommandSpec) -> bool {
    let reads = spec.has_flag(Flag::ReadOnly) && !spec.categories.contains(&Category::Scripting);
    !spec.keys.is_empty() || reads || spec.has_flag(Flag::Write) || spec.categories.contains(&Category::Keyspace)
}

/// The databases that a request names, each with its position; `None` if the request is malformed.
fn databases_of(named: DatabaseArgs, words: Words<'_>, count: u32) -> Option<SmallVec<[(usize, u32); 2]>> {
    let database = |at: usize| {
        let number = words.get(at).and_then(parse_integer).and_then(|number| u32::try_from(number).ok());
        number.filter(|number| *number < count).map(|number| (at, number))
    };
    match named {
        DatabaseArgs::None | DatabaseArgs::All => Some(SmallVec::new()),
        DatabaseArgs::Selected => Some(SmallVec::from_iter([database(1)?])),
        DatabaseArgs::At(positions) => positions.iter().map(|at| database(*at)).collect(),
        DatabaseArgs::Options => {
            let mut found = SmallVec::new();
            let mut at = 3;
            while let Some(option) = words.get(at) {
                if option.eq_ignore_ascii_case(b"DB") {
                    found.push(database(at + 1)?);
                    at += 1;
                } else if !option.eq_ignore_ascii_case(b"REPLACE") {
                    return None;
                }
                at += 1;
            }
            Some(found)
        }
    }
}
