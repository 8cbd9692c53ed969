//! Commands of real servers that this one does not have: names, categories and keys, for rules of users.
//!
//! An ACL that was written for a real server names them, so a rule may. They are in no table: a client that runs one gets
//! the error of an unknown command, and COMMAND does not list them.

use smallvec::SmallVec;

use super::command_spec::{Arity, Category, CommandSpec, Flag};
use super::key_spec::KeySpec;
use crate::base::profile::{Profile, Since, Version};
use crate::protocol::Words;

/// A command or a subcommand that only rules of users know.
pub struct AbsentCommand {
    /// The container, if it is a subcommand.
    pub container: Option<&'static str>,
    pub spec: CommandSpec,
    /// The first release that has it no longer.
    until: Option<Version>,
    /// Whether it comes with a module, so that it is in no category.
    is_of_module: bool,
}

impl AbsentCommand {
    /// Whether the server of a profile has the command.
    pub fn is_in(&self, profile: &Profile) -> bool {
        let is_over = self.until.is_some_and(|until| profile.has(Since::each(until, until)));
        profile.has(self.spec.since) && !is_over
    }

    /// All its ACL categories in a profile.
    pub fn categories(&self, profile: &Profile) -> Vec<Category> {
        if self.is_of_module { Vec::new() } else { self.spec.all_categories(profile) }
    }
}

/// The commands and subcommands that rules can name besides those of the table.
pub const ABSENT: &[AbsentCommand] = &[
    // Keys that go from server to server.
    AbsentCommand {
        spec: CommandSpec {
            keys: &[KeySpec::found_by(migrated, &["RW", "access", "delete"])],
            ..row("MIGRATE", TWO_6, Arity::AtLeast(6), WRITE, MOVES_KEYS)
        },
        ..command("MIGRATE", TWO_6, Arity::AtLeast(6), WRITE, MOVES_KEYS)
    },
    AbsentCommand {
        spec: CommandSpec {
            keys: &[KeySpec::one(1, &["OW", "update"])],
            ..row("RESTORE-ASKING", THREE, Arity::AtLeast(4), WRITE, MOVES_KEYS)
        },
        ..command("RESTORE-ASKING", THREE, Arity::AtLeast(4), WRITE, MOVES_KEYS)
    },
    sub("CLUSTER", "MIGRATION", Since::redis(8, 4, 0), Arity::AtLeast(4), ADMIN),
    // The module of vector sets.
    vectors("VADD", WRITES),
    vectors("VCARD", READS),
    vectors("VDIM", READS),
    vectors("VEMB", READS),
    vectors("VGETATTR", READS),
    vectors("VINFO", READS),
    vectors("VISMEMBER", READS),
    vectors("VLINKS", READS),
    vectors("VRANDMEMBER", READS),
    vectors("VREM", WRITES),
    vectors("VSETATTR", WRITES),
    vectors("VSIM", READS),
    // The rest.
    AbsentCommand {
        until: Some(SEVEN),
        ..command("STRALGO", SIX, Arity::AtLeast(2), &[Flag::ReadOnly], &[Category::String])
    },
    // How Redis before 7.0 recognised web browsers.
    AbsentCommand { until: Some(SEVEN), ..command("HOST:", THREE, Arity::AtLeast(1), &[Flag::ReadOnly], &[]) },
    AbsentCommand { until: Some(SEVEN), ..command("POST", THREE, Arity::AtLeast(1), &[Flag::ReadOnly], &[]) },
];

const ADMIN: &[Flag] = &[Flag::Admin];
const WRITE: &[Flag] = &[Flag::Write];
const MOVES_KEYS: &[Category] = &[Category::Keyspace, Category::Dangerous];
const READS: &[KeySpec] = &[KeySpec::one(1, &["RO", "access"])];
const WRITES: &[KeySpec] = &[KeySpec::one(1, &["RW", "update"])];
const SEVEN: Version = Version(7, 0, 0);

const TWO_6: Since = Since::redis(2, 6, 0);
const THREE: Since = Since::redis(3, 0, 0);
const SIX: Since = Since::redis(6, 0, 0);

const fn row(
    name: &'static str,
    since: Since,
    arity: Arity,
    flags: &'static [Flag],
    categories: &'static [Category],
) -> CommandSpec {
    CommandSpec { since, arity, flags, categories, ..CommandSpec::new(name) }
}

const fn command(
    name: &'static str,
    since: Since,
    arity: Arity,
    flags: &'static [Flag],
    categories: &'static [Category],
) -> AbsentCommand {
    let spec = row(name, since, arity, flags, categories);
    AbsentCommand { container: None, spec, until: None, is_of_module: false }
}

const fn sub(
    container: &'static str,
    name: &'static str,
    since: Since,
    arity: Arity,
    flags: &'static [Flag],
) -> AbsentCommand {
    AbsentCommand { container: Some(container), ..command(name, since, arity, flags, &[]) }
}

/// A command of the module for vector sets.
const fn vectors(name: &'static str, keys: &'static [KeySpec]) -> AbsentCommand {
    let spec = CommandSpec { keys, ..row(name, Since::redis(8, 0, 0), Arity::AtLeast(1), &[], &[]) };
    AbsentCommand { container: None, spec, until: None, is_of_module: true }
}

/// The keys of MIGRATE: those behind KEYS if the key itself is empty.
fn migrated(words: Words<'_>) -> SmallVec<[usize; 4]> {
    let is_list = |at: &usize| words.get(*at).is_some_and(|word| word.eq_ignore_ascii_case(b"KEYS"));
    match (6..words.len()).find(is_list) {
        Some(list) if words.get(3).is_some_and(<[u8]>::is_empty) => (list + 1..words.len()).collect(),
        _ => SmallVec::from_slice(&[3]),
    }
}
