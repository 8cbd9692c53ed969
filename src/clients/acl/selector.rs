//! Selectors: permissions for commands, keys and channels.

use super::RuleError;
use super::check::{Denial, channels_of, keys_of};
use super::commands::{CommandSet, Commands};
use super::databases::{AllowedDatabases, DatabaseContext};
use crate::base::glob;
use crate::base::profile::Since;
use crate::protocol::{Words, is_blank, until_nul};
use crate::spec::CommandSpec;

/// One set of permissions. A user has a root selector and optional further ones; a request is allowed if any of them
/// allows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    pub commands: CommandSet,
    pub all_keys: bool,
    pub keys: Vec<KeyPattern>,
    pub all_channels: bool,
    pub channels: Vec<Vec<u8>>,
    pub databases: AllowedDatabases,
}

/// Rules about databases.
pub const DATABASE_RULES: Since = Since::valkey(9, 1, 0);

/// A pattern of keys, and the allowed access.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyPattern {
    pattern: Vec<u8>,
    access: Access,
}

/// Access to a key: reads, writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access {
    pub read: bool,
    pub write: bool,
}

impl Selector {
    /// Allows no command and no key; channels as in `acl-pubsub-default`.
    pub fn new(all_channels: bool) -> Self {
        Self { all_channels, ..Self::default() }
    }

    pub fn everything() -> Self {
        let commands = CommandSet::all();
        Self { commands, all_keys: true, all_channels: true, ..Self::default() }
    }

    pub fn is_everything(&self, commands: &Commands) -> bool {
        self.all_keys && self.all_channels && self.databases == AllowedDatabases::All && self.commands.is_all(commands)
    }

    /// Applies a rule for commands, keys or channels.
    pub fn apply(&mut self, commands: &Commands, rule: &[u8]) -> Result<(), RuleError> {
        let word = until_nul(rule);
        let has_databases = commands.profile().has(DATABASE_RULES);
        let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        match () {
            () if is("allkeys") || is("~*") => (self.all_keys, self.keys) = (true, Vec::new()),
            () if is("resetkeys") => (self.all_keys, self.keys) = (false, Vec::new()),
            () if is("allchannels") || is("&*") => (self.all_channels, self.channels) = (true, Vec::new()),
            () if is("resetchannels") => (self.all_channels, self.channels) = (false, Vec::new()),
            () if is("alldbs") && has_databases => self.databases = AllowedDatabases::All,
            () if is("resetdbs") && has_databases => self.databases = AllowedDatabases::none(),
            () => match rule {
                [b'd' | b'D', b'b' | b'B', b'=', ..] if has_databases => {
                    self.databases = AllowedDatabases::parse(&word[3..])?;
                }
                [b'~' | b'%', ..] if self.all_keys => return Err(RuleError::AfterAllKeys),
                [b'~', pattern @ ..] => self.allow_keys(pattern, Access { read: true, write: true })?,
                [b'%', rest @ ..] => {
                    let (access, pattern) = access(rest)?;
                    self.allow_keys(pattern, access)?;
                }
                [b'&', ..] if self.all_channels => return Err(RuleError::AfterAllChannels),
                [b'&', pattern @ ..] => {
                    if !is_one_word(pattern) {
                        return Err(RuleError::Syntax);
                    }
                    if !self.channels.iter().any(|known| known == pattern) {
                        self.channels.push(pattern.to_vec());
                    }
                }
                _ => self.commands.apply(commands, word)?,
            },
        }
        Ok(())
    }

    fn allow_keys(&mut self, pattern: &[u8], access: Access) -> Result<(), RuleError> {
        if !is_one_word(pattern) {
            return Err(RuleError::Syntax);
        }
        match self.keys.iter_mut().find(|known| known.pattern == pattern) {
            Some(known) => {
                known.access.read |= access.read;
                known.access.write |= access.write;
            }
            None => self.keys.push(KeyPattern { pattern: pattern.to_vec(), access }),
        }
        Ok(())
    }

    /// Checks a request. The error is the reason of the denial.
    pub fn check(
        &self,
        commands: &Commands,
        spec: &CommandSpec,
        words: Words<'_>,
        databases: DatabaseContext,
    ) -> Result<(), Denial> {
        self.databases.check(spec, words, databases).map_err(Denial::Database)?;
        if !self.commands.allows(commands, spec, words) {
            return Err(Denial::Command);
        }
        if !self.all_keys {
            for (at, access) in keys_of(spec, words, commands.profile()) {
                if !words.get(at).is_some_and(|key| self.allows_key(key, access)) {
                    return Err(Denial::Key(at));
                }
            }
        }
        if !self.all_channels
            && let Some((channels, is_pattern)) = channels_of(spec, words)
        {
            for at in channels {
                if !words.get(at).is_some_and(|channel| self.allows_channel(channel, is_pattern)) {
                    return Err(Denial::Channel(at));
                }
            }
        }
        Ok(())
    }

    /// Whether it allows a request and reads of every key.
    pub fn reads_all_keys(
        &self,
        commands: &Commands,
        spec: &CommandSpec,
        words: Words<'_>,
        databases: DatabaseContext,
    ) -> bool {
        let everything = |known: &KeyPattern| known.access.read && known.pattern == b"*";
        (self.all_keys || self.keys.iter().any(everything)) && self.check(commands, spec, words, databases).is_ok()
    }

    fn allows_key(&self, key: &[u8], access: Access) -> bool {
        let suffices = |have: Access| (have.read || !access.read) && (have.write || !access.write);
        self.keys.iter().any(|known| suffices(known.access) && glob::matches(&known.pattern, key, false))
    }

    /// Whether a channel may be used. A pattern must equal a rule's pattern.
    pub fn allows_channel(&self, channel: &[u8], is_pattern: bool) -> bool {
        self.all_channels
            || self
                .channels
                .iter()
                .any(|known| if is_pattern { known == channel } else { glob::matches(known, channel, false) })
    }

    // ---- description

    pub fn describe_keys(&self) -> Vec<u8> {
        if self.all_keys {
            return b"~*".to_vec();
        }
        let rules = self.keys.iter().map(|KeyPattern { pattern, access }| {
            let sign: &[u8] = match (access.read, access.write) {
                (true, false) => b"%R~",
                (false, true) => b"%W~",
                _ => b"~",
            };
            [sign, pattern].concat()
        });
        rules.collect::<Vec<_>>().join(&b' ')
    }

    pub fn describe_channels(&self) -> Vec<u8> {
        if self.all_channels {
            return b"&*".to_vec();
        }
        let rules = self.channels.iter().map(|pattern| [b"&", pattern.as_slice()].concat());
        rules.collect::<Vec<_>>().join(&b' ')
    }

    pub fn describe(&self, commands: &Commands) -> Vec<u8> {
        let mut parts = vec![self.describe_keys()];
        if !self.all_channels {
            parts.push(b"resetchannels".to_vec());
        }
        parts.push(self.describe_channels());
        parts.extend(self.databases.rule().map(String::into_bytes));
        parts.push(self.commands.describe(commands));
        parts.retain(|part| !part.is_empty());
        parts.join(&b' ')
    }
}

/// Parses `R~`, `W~`, `RW~` and returns the rest.
fn access(rule: &[u8]) -> Result<(Access, &[u8]), RuleError> {
    let mut access = Access::default();
    let mut rest = rule;
    while let [first, tail @ ..] = rest {
        rest = tail;
        match first {
            b'r' | b'R' if !access.read => access.read = true,
            b'w' | b'W' if !access.write => access.write = true,
            b'~' => break,
            _ => return Err(RuleError::Syntax),
        }
    }
    if access == Access::default() { Err(RuleError::Syntax) } else { Ok((access, rest)) }
}

/// Whether a pattern or a name is a single word of an ACL file.
pub fn is_one_word(text: &[u8]) -> bool {
    !text.iter().any(|&byte| byte == 0 || is_blank(byte))
}
