//! What holds for every row of the table.

use std::collections::HashSet;

use super::{Command, all};
use crate::base::profile::PROFILES;
use crate::spec::{Arity, Begin, CommandKind, CommandSpec, Find, Flag, KeySpec, LockEffect, arguments};

/// Every row and subcommand with its full name and the position of its first argument.
fn rows() -> Vec<(String, &'static CommandSpec, usize)> {
    let mut rows = Vec::new();
    for Command { spec, subcommands, .. } in all() {
        rows.push((spec.name.to_owned(), spec, 1));
        rows.extend(subcommands.iter().map(|sub| (format!("{} {}", spec.name, sub.spec.name), &sub.spec, 2)));
    }
    rows
}

#[test]
fn names_are_unique_and_in_capitals() {
    let mut seen = HashSet::new();
    for (name, ..) in rows() {
        assert_eq!(name, name.to_ascii_uppercase());
        assert!(seen.insert(name.clone()), "{name} is there twice");
    }
}

#[test]
fn every_row_is_documented() {
    for (name, row, _) in rows() {
        assert!(!row.summary.is_empty(), "{name} has no summary");
        assert!(!row.complexity.is_empty(), "{name} has no complexity");
        for text in [row.summary, row.complexity] {
            assert!(!text.contains("REWORD"), "{name}: {text}");
        }
    }
}

#[test]
fn every_usage_parses_in_every_profile() {
    for (name, row, first) in rows() {
        for profile in &PROFILES {
            let parsed = arguments(row, first, profile);
            let parsed = parsed.unwrap_or_else(|error| panic!("{name} in {profile}: {error}"));
            let wants = match row.arity {
                Arity::Exactly(count) => usize::from(count) > first,
                Arity::AtLeast(count) => usize::from(count) > first && row.kind != CommandKind::Container,
            };
            assert!(!wants || !parsed.is_empty(), "{name} takes arguments and its usage has none");
        }
    }
}

#[test]
fn keys_stand_where_the_arity_says_there_are_words() {
    for (name, row, first) in rows() {
        let words = match row.arity {
            Arity::Exactly(count) | Arity::AtLeast(count) => usize::from(count),
        };
        for keys in row.keys.iter().filter(|keys| keys.are_keys()) {
            let Begin::Index(begin) = keys.begin else { continue };
            let begin = usize::from(begin);
            // PFMERGE can do without the last of its keys.
            let optional = usize::from(matches!(keys.find, Find::Range { last: ..0, .. }));
            assert!((first..words + optional).contains(&begin), "{name}: a key at {begin}, with {words} words");
            match keys.find {
                Find::Range { last, .. } if last >= 0 => assert!(begin + last as usize <= words, "{name}"),
                Find::Range { step, .. } | Find::Part { of: step } | Find::Count { step, .. } => {
                    assert!(step > 0, "{name}");
                }
                Find::Search(_) | Find::Made(_) => {}
            }
        }
        let locks = matches!(
            row.kind,
            CommandKind::Keys
                | CommandKind::Blocking
                | CommandKind::Everything
                | CommandKind::Transaction(_)
                | CommandKind::Script(_)
        );
        assert!(locks || !row.keys.iter().any(KeySpec::are_keys), "{name} locks no keys");
    }
}

#[test]
fn usages_name_as_many_keys_as_the_row_has() {
    fn specs(arguments: &[crate::spec::Argument], found: &mut HashSet<usize>) {
        for argument in arguments {
            found.extend(argument.key_spec);
            specs(&argument.arguments, found);
        }
    }
    for (name, row, first) in rows() {
        let mut found = HashSet::new();
        specs(&arguments(row, first, &PROFILES[1]).unwrap_or_default(), &mut found);
        let keys = row.keys.iter().filter(|keys| keys.are_keys()).count();
        assert_eq!(found.len(), keys, "{name}: the keys of the row and of its usage differ");
    }
}

#[test]
fn what_a_row_does_to_locks_agrees_with_its_flags() {
    for (name, row, _) in rows() {
        let reads = match row.lock_effect {
            LockEffect::None => continue,
            LockEffect::Get
            | LockEffect::GetRange
            | LockEffect::GetMany
            | LockEffect::Exists
            | LockEffect::FindMember
            | LockEffect::CountMembers => true,
            _ => false,
        };
        assert_eq!(reads, !row.has_flag(Flag::Write), "{name}");
    }
}
