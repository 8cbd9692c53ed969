//! The keys and channels of a request, and the reasons of a denial.

use smallvec::SmallVec;

use super::selector::Access;
use crate::base::error::CommandError;
use crate::base::profile::Profile;
use crate::protocol::Words;
use crate::spec::{Channels, CommandSpec};

/// Why a request is denied, the least specific reason first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Denial {
    /// The word at this position names a database without permission; 0 if the selected one is.
    Database(usize),
    Command,
    /// The word at this position is a key without the needed permission.
    Key(usize),
    /// The word at this position is a channel without permission.
    Channel(usize),
}

const NO_DATABASE: CommandError = CommandError::fixed("NOPERM No permissions to access database");

impl Denial {
    /// The error reply of a denied command.
    pub fn refusal(self, profile: &Profile, user: &[u8], command: &str) -> CommandError {
        let command = if profile.since_redis(7, 0) { command } else { container(command) };
        if profile.since_redis(7, 2) {
            return match self {
                Self::Command => {
                    let end = format!(" has no permissions to run the '{command}' command");
                    CommandError::quoting("NOPERM User ", user, &end)
                }
                Self::Key(_) => CommandError::fixed("NOPERM No permissions to access a key"),
                Self::Channel(_) => CommandError::fixed("NOPERM No permissions to access a channel"),
                Self::Database(_) => NO_DATABASE,
            };
        }
        match self {
            Self::Command => {
                let end = if profile.since_redis(7, 0) { "" } else { " or its subcommand" };
                let text = format!("NOPERM this user has no permissions to run the '{command}' command{end}");
                CommandError::new(text)
            }
            Self::Key(_) => {
                CommandError::fixed("NOPERM this user has no permissions to access one of the keys used as arguments")
            }
            Self::Channel(_) => CommandError::fixed(
                "NOPERM this user has no permissions to access one of the channels used as arguments",
            ),
            Self::Database(_) => NO_DATABASE,
        }
    }

    /// The reply in EXEC's array for a command that lost its permission after it was queued.
    pub fn at_exec(self) -> CommandError {
        let reason = match self {
            Self::Command => "no permission to execute the command or subcommand",
            Self::Key(_) => "no permission to touch the specified keys",
            Self::Channel(_) => "no permission to access one of the channels used as arguments to the command",
            Self::Database(_) => "no permission",
        };
        CommandError::new(format!(
            "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This \
             command is no longer allowed for the following reason: {reason}"
        ))
    }

    /// The error that a script gets, without the code.
    pub fn in_script(self, profile: &Profile, user: &[u8], command: &str) -> Vec<u8> {
        if profile.since_redis(7, 2) {
            let refusal = self.refusal(profile, user, command);
            let reason = refusal.line().strip_prefix(b"NOPERM ").unwrap_or(refusal.line());
            return [b"ACL failure in script: ", reason].concat();
        }
        let reason = match self {
            Self::Command => "can't run this command or subcommand",
            Self::Key(_) => "can't access at least one of the keys mentioned in the command arguments",
            Self::Channel(_) => "can't publish to the channel mentioned in the command",
            Self::Database(_) => "can't access the database",
        };
        format!("The user executing the script {reason}").into_bytes()
    }

    /// The reply of ACL DRYRUN.
    pub fn foretold(self, profile: &Profile, user: &[u8], command: &str, words: Words<'_>) -> Vec<u8> {
        let who = if profile.since_redis(7, 2) { [b"User ", user].concat() } else { b"This user".to_vec() };
        let (verb, what, kind) = match self {
            Self::Database(at) => {
                let word = words.get(at).unwrap_or_default();
                return [&who, &b" has no permissions to access database "[..], crate::protocol::until_nul(word)]
                    .concat();
            }
            Self::Command => ("run", command.as_bytes(), "command"),
            Self::Key(at) => ("access", words.get(at).unwrap_or_default(), "key"),
            Self::Channel(at) => ("access", words.get(at).unwrap_or_default(), "channel"),
        };
        let (before, after) = (format!(" has no permissions to {verb} the '"), format!("' {kind}"));
        [&who, before.as_bytes(), crate::protocol::until_nul(what), after.as_bytes()].concat()
    }

    /// The reason's name in ACL LOG.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::Key(_) => "key",
            Self::Channel(_) => "channel",
            Self::Database(_) => "database",
        }
    }
}

fn container(command: &str) -> &str {
    command.split_once('|').map_or(command, |(container, _)| container)
}

/// The positions of a request's keys, each with the access to it. Empty if the request is malformed.
pub(super) fn keys_of(spec: &CommandSpec, words: Words<'_>, profile: &Profile) -> SmallVec<[(usize, Access); 4]> {
    let mut found = SmallVec::new();
    for keys in spec.keys {
        let flags = keys.flags_of(words, profile);
        if flags.contains(&"not_key") {
            continue;
        }
        let Some(positions) = keys.positions(words) else { return SmallVec::new() };
        let read = flags.contains(&"access");
        let write = ["insert", "update", "delete"].iter().any(|flag| flags.contains(flag));
        found.extend(positions.into_iter().map(|at| (at, Access { read, write })));
    }
    found
}

/// The positions of the channels that a request publishes or subscribes to, and whether they are patterns.
pub(super) fn channels_of(spec: &CommandSpec, words: Words<'_>) -> Option<(std::ops::Range<usize>, bool)> {
    match spec.channels {
        Channels::None => None,
        Channels::First => Some((1..2, false)),
        Channels::All => Some((1..words.len(), false)),
        Channels::Patterns => Some((1..words.len(), true)),
    }
}
