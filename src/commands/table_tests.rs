//! Tests that hold for every row.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use super::{Command, all};
use crate::base::profile::PROFILES;
use crate::spec::{
    ABSENT, Argument, Arity, BeginSearch, CommandKind, CommandSpec, FindKeys, Flag, HISTORIES, KeySpec, LockEffect,
    arguments,
};

/// Every row and subcommand, with its full name and the position of its first argument.
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
fn a_history_is_that_of_a_row_and_its_arguments() {
    fn all(arguments: Vec<Argument>) -> Vec<Argument> {
        let inner = |argument: Argument| {
            let inner = all(argument.arguments.clone());
            std::iter::once(argument).chain(inner)
        };
        arguments.into_iter().flat_map(inner).collect()
    }
    for history in HISTORIES {
        let name = history.command.replace('|', " ").to_ascii_uppercase();
        let row = rows().into_iter().find(|(known, ..)| *known == name);
        let (_, row, first) = row.unwrap_or_else(|| panic!("{} is no command", history.command));
        let known: Vec<Argument> =
            PROFILES.iter().flat_map(|profile| all(arguments(row, first, profile).unwrap_or_default())).collect();
        for (argument, since) in history.arguments {
            let is_known = known.iter().any(|known| history.since(known) == Some(*since));
            assert!(is_known, "{} has no {argument}", history.command);
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
            let BeginSearch::Index(begin) = keys.begin_search else { continue };
            let begin = usize::from(begin);
            // PFMERGE's last keys are optional.
            let optional = usize::from(matches!(keys.find_keys, FindKeys::Range { last: ..0, .. }));
            assert!((first..words + optional).contains(&begin), "{name}: a key at {begin}, with {words} words");
            match keys.find_keys {
                FindKeys::Range { last, .. } if last >= 0 => assert!(begin + last as usize <= words, "{name}"),
                FindKeys::Range { step, .. }
                | FindKeys::LimitedRange { limit: step }
                | FindKeys::KeyNum { step, .. } => {
                    assert!(step > 0, "{name}");
                }
                FindKeys::Function(_) | FindKeys::Computed(_) => {}
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

/// Adds the words of all test files below a folder, in upper case and in order. Of a transcript only the requests count;
/// the transcript of wrong arities does not count, because it runs nothing.
fn add_test_words(folder: &Path, words: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let is_transcript = path.extension().is_some_and(|extension| extension == "txt");
        if path.is_dir() {
            add_test_words(&path, words);
        } else if is_transcript && !path.ends_with("arity.txt") || path.extension().is_some_and(|rust| rust == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            let is_request = |line: &&str| line.split(' ').next().is_some_and(|prompt| prompt.ends_with('>'));
            for line in text.lines().filter(|line| !is_transcript || is_request(line)) {
                let line = line.to_ascii_uppercase();
                words.extend(
                    line.split(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '_').map(str::to_owned),
                );
            }
        }
    }
}

#[test]
fn a_command_that_is_given_its_keys_says_whether_it_reads_or_writes() {
    for (name, row, _) in rows() {
        let accesses_data = matches!(row.kind, CommandKind::Keys | CommandKind::Blocking);
        let is_said = row.has_flag(Flag::ReadOnly) || row.has_flag(Flag::Write);
        assert!(!accesses_data || row.keys.is_empty() || is_said, "{name} has neither `readonly` nor `write`");
    }
}

#[test]
fn every_command_is_run_by_a_test() {
    let mut words = Vec::new();
    add_test_words(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests"), &mut words);
    words.retain(|word| !word.is_empty());
    let single: HashSet<&str> = words.iter().map(String::as_str).collect();
    let pairs: HashSet<[&str; 2]> = words.windows(2).map(|pair| [pair[0].as_str(), pair[1].as_str()]).collect();
    for (name, ..) in rows() {
        let is_run = match name.split_once(' ') {
            Some((container, sub)) => pairs.contains(&[container, sub]),
            None => single.contains(name.as_str()),
        };
        assert!(is_run, "no test runs {name}: add a transcript to tests/exactness/transcripts");
    }
}

#[test]
fn no_command_that_is_there_is_listed_as_absent() {
    for profile in PROFILES {
        let table = super::table(profile);
        for absent in ABSENT.iter().filter(|absent| absent.is_in(&profile)) {
            let container = absent.container.map(|container| format!("{container}|")).unwrap_or_default();
            let name = container + absent.spec.name;
            assert!(table.find_full(name.as_bytes()).is_none(), "{profile} has {name}");
        }
    }
}
