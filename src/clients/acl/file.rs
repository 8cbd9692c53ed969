//! ACL files: lines of `user NAME RULES`.

use std::collections::BTreeMap;
use std::fmt::Display;

use super::commands::Commands;
use super::selector::is_one_word;
use super::user::Rules;
use super::{RuleError, joined};

const NOTHING_CHANGED: &[u8] =
    b"WARNING: ACL errors detected, no change to the previously active ACL rules was performed";

/// Parses a whole ACL file. The error lists all mistakes.
pub(super) fn parse(
    commands: &Commands,
    all_channels: bool,
    text: &[u8],
    file: &dyn Display,
) -> Result<BTreeMap<Vec<u8>, Rules>, Vec<u8>> {
    let mut users = BTreeMap::new();
    let mut errors: Vec<u8> = Vec::new();
    for (index, line) in text.split(|&byte| byte == b'\n').enumerate() {
        let line = trimmed(line, b" \t\r\n");
        if line.is_empty() {
            continue;
        }
        let place = format!("{file}:{}", index + 1);
        let words: Vec<&[u8]> = line.split(|&byte| byte == b' ').collect();
        let [b"user", name, rules @ ..] = words.as_slice() else {
            errors.extend(format!("{place} should start with user keyword followed by the username. ").bytes());
            continue;
        };
        if !is_one_word(name) {
            // The leading quote is Redis's.
            errors.extend([b"'", place.as_bytes(), b": username '", name, b"' contains invalid characters. "].concat());
            continue;
        }
        if users.contains_key(*name) {
            errors.extend([b"WARNING: Duplicate user '", *name].concat());
            errors.extend(format!("' found on line {}. ", index + 1).bytes());
            continue;
        }
        let Ok(rules) = joined(rules) else {
            errors.extend(format!("{place}: Unmatched parenthesis in selector definition.").bytes());
            continue;
        };
        let mut user = Rules::new(commands, all_channels);
        let mut told = false;
        for rule in &rules {
            let rule = trimmed(rule, b"\t\r\n");
            match user.apply(commands, all_channels, rule) {
                Ok(()) => {}
                Err(error @ RuleError::Unknown) => {
                    errors.extend([place.as_bytes(), b": Error in applying operation '", rule].concat());
                    errors.extend(format!("': {error}. ").bytes());
                }
                // Further errors of the line may be consequences of the first.
                Err(error) if !told => {
                    errors.extend(format!("{place}: {error}. ").bytes());
                    told = true;
                }
                Err(_) => {}
            }
        }
        users.insert(name.to_vec(), user);
    }
    if errors.is_empty() {
        return Ok(users);
    }
    errors.extend(NOTHING_CHANGED);
    Err(errors)
}

fn trimmed<'a>(text: &'a [u8], blanks: &[u8]) -> &'a [u8] {
    let start = text.iter().position(|byte| !blanks.contains(byte)).unwrap_or(text.len());
    let end = text.iter().rposition(|byte| !blanks.contains(byte)).map_or(start, |last| last + 1);
    &text[start..end]
}
