//! The table of commands that a server knows.

use std::sync::Arc;

use smallvec::SmallVec;

use super::row::{CommandSpec, Flag};
use crate::base::error::CommandError;
use crate::base::profile::Profile;
use crate::insight::audit::Keys;
use crate::powers::Named;
use crate::protocol::Words;

/// Four times the number of commands, so that probes stay short.
const SLOTS: usize = 1024;

/// The rows of one profile, found by name. Its clones share them, at no cost to a look-up.
#[derive(Clone)]
pub struct Table {
    rows: Arc<[&'static CommandSpec]>,
    slots: Arc<[Option<&'static CommandSpec>; SLOTS]>,
    profile: Profile,
}

impl Table {
    /// The rows that a profile has. A row later in the list replaces an earlier one of the same name.
    pub fn new(rows: impl IntoIterator<Item = &'static CommandSpec>, profile: Profile) -> Self {
        let rows: Vec<_> = rows.into_iter().filter(|row| profile.has(row.since)).collect();
        let mut slots = [None; SLOTS];
        for row in &rows {
            let mut slot = slot_of(row.name.as_bytes());
            while slots[slot].is_some() {
                slot = (slot + 1) % SLOTS;
            }
            slots[slot] = Some(*row);
        }
        Self { rows: rows.into(), slots: Arc::new(slots), profile }
    }

    pub fn rows(&self) -> &[&'static CommandSpec] {
        &self.rows
    }

    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// A command by name, in whatever case.
    #[inline]
    pub fn find(&self, name: &[u8]) -> Option<&'static CommandSpec> {
        let mut slot = slot_of(name);
        while let Some(row) = self.slots[slot] {
            // Most clients send capitals, and comparing those as they are is the faster way.
            if row.name.as_bytes() == name || row.name.as_bytes().eq_ignore_ascii_case(name) {
                return Some(row);
            }
            slot = (slot + 1) % SLOTS;
        }
        None
    }

    /// A subcommand of a container, if this profile has it.
    pub fn find_sub(&self, container: &CommandSpec, name: &[u8]) -> Option<&'static CommandSpec> {
        container
            .subcommands
            .iter()
            .find(|row| row.name.as_bytes().eq_ignore_ascii_case(name) && self.profile.has(row.since))
    }

    /// A row's name as clients see it: `get`, `client|list`. The row must come from this table.
    pub fn full_name(&self, row: &CommandSpec) -> String {
        let container =
            self.rows.iter().find(|container| container.subcommands.iter().any(|sub| std::ptr::eq(sub, row)));
        container.map_or_else(|| row.name.to_ascii_lowercase(), |container| full_name(container, row))
    }

    /// A command by its full name, `get` or `client|list`; with its container, if it has one.
    pub fn find_full(&self, name: &[u8]) -> Option<(Option<&'static CommandSpec>, &'static CommandSpec)> {
        match name.iter().position(|&byte| byte == b'|') {
            None => Some((None, self.find(name)?)),
            Some(bar) => {
                let container = self.find(&name[..bar])?;
                Some((Some(container), self.find_sub(container, &name[bar + 1..])?))
            }
        }
    }

    /// The subcommands of a container that this profile has.
    pub fn subs<'s>(&'s self, container: &'s CommandSpec) -> impl Iterator<Item = &'static CommandSpec> + 's {
        container.subcommands.iter().filter(|row| self.profile.has(row.since))
    }

    /// The row that a request runs, once its name and its number of words are known to be right. Also says where its
    /// arguments begin.
    #[inline]
    pub fn resolve(&self, words: Words<'_>) -> Result<(&'static CommandSpec, usize), CommandError> {
        let name = words.get(0).unwrap_or_default();
        let Some(row) = self.find(name) else { return Err(self.unknown_command(words)) };
        if row.subcommands.is_empty() || words.len() == 1 {
            return if row.arity_in(&self.profile).admits(words.len()) {
                Ok((row, 1))
            } else {
                Err(wrong_arity(&row.name.to_ascii_lowercase()))
            };
        }
        self.resolve_sub(row, words)
    }

    /// The row that a request names, and where its arguments begin, whether or not it has the right number of words.
    pub fn row_of(&self, words: Words<'_>) -> Option<(&'static CommandSpec, usize)> {
        let row = self.find(words.get(0)?)?;
        match words.get(1) {
            Some(name) if !row.subcommands.is_empty() => Some((self.find_sub(row, name)?, 2)),
            _ => Some((row, 1)),
        }
    }

    /// What a command is called, and which keys it names, by its words alone.
    pub fn name<'w>(&self, words: Words<'w>) -> Named<'w> {
        let container = words.get(0).and_then(|name| self.find(name));
        let Some((row, _)) = self.row_of(words) else {
            return Named { container: None, name: "", keys: SmallVec::new() };
        };
        let container = container.filter(|container| !std::ptr::eq(*container, row)).map(|container| container.name);
        let positions = row.keys.iter().filter_map(|keys| keys.lockable(words)).flatten();
        Named { container, name: row.name, keys: positions.filter_map(|at| words.get(at)).collect() }
    }

    /// Which keys a command names, and whether it writes, by its words alone.
    pub fn keys<'w>(&self, words: Words<'w>) -> Keys<'w> {
        let Some((row, _)) = self.row_of(words) else { return Keys::default() };
        let positions = row.keys.iter().filter_map(|keys| keys.lockable(words)).flatten();
        Keys { keys: positions.filter_map(|at| words.get(at)).collect(), writes: row.has_flag(Flag::Write) }
    }

    fn resolve_sub(
        &self,
        container: &'static CommandSpec,
        words: Words<'_>,
    ) -> Result<(&'static CommandSpec, usize), CommandError> {
        let name = words.get(1).unwrap_or_default();
        let old = !self.profile.since_redis(7, 0);
        match self.find_sub(container, name) {
            Some(row) if row.arity.admits(words.len()) => Ok((row, 2)),
            Some(_) if old => Err(unknown_subcommand_6(container, name)),
            Some(row) => Err(wrong_arity(&full_name(container, row))),
            None if old => Err(unknown_subcommand_6(container, name)),
            None => {
                let mut text = b"ERR unknown subcommand '".to_vec();
                text.extend_from_slice(clipped(name, 128));
                text.extend_from_slice(format!("'. Try {} HELP.", container.name).as_bytes());
                Err(CommandError::new(text))
            }
        }
    }

    fn unknown_command(&self, words: Words<'_>) -> CommandError {
        let name = words.get(0).unwrap_or_default();
        let old = !self.profile.since_redis(7, 0);
        let quote = if old { b'`' } else { b'\'' };
        let mut text = b"ERR unknown command ".to_vec();
        text.push(quote);
        text.extend_from_slice(clipped(name, 128));
        text.push(quote);
        text.extend_from_slice(b", with args beginning with: ");
        let start = text.len();
        for word in words.from(1).iter() {
            let room = 128usize.saturating_sub(text.len() - start);
            if room == 0 {
                break;
            }
            text.push(quote);
            text.extend_from_slice(clipped(word, room));
            text.push(quote);
            text.extend_from_slice(if old { b", " } else { b" " });
        }
        CommandError::new(text)
    }
}

/// `container|subcommand`, as Redis names subcommands since 7.0.
pub fn full_name(container: &CommandSpec, row: &CommandSpec) -> String {
    format!("{}|{}", container.name, row.name).to_ascii_lowercase()
}

fn wrong_arity(name: &str) -> CommandError {
    CommandError::new(format!("ERR wrong number of arguments for '{name}' command"))
}

fn unknown_subcommand_6(container: &CommandSpec, name: &[u8]) -> CommandError {
    let mut text = b"ERR Unknown subcommand or wrong number of arguments for '".to_vec();
    text.extend_from_slice(clipped(name, 128));
    text.extend_from_slice(format!("'. Try {} HELP.", container.name).as_bytes());
    CommandError::new(text)
}

/// At most `most` bytes, and, as C prints a string, nothing behind a NUL.
fn clipped(word: &[u8], most: usize) -> &[u8] {
    let end = word.iter().take(most).position(|&byte| byte == 0).unwrap_or(word.len().min(most));
    &word[..end]
}

/// Capitals and small letters share a slot: the bit that tells them apart is set everywhere.
#[inline]
fn slot_of(name: &[u8]) -> usize {
    const LOWER: u64 = 0x2020_2020_2020_2020;
    // Both ends, which overlap in a name that is short.
    let (first, last) = match (name.first_chunk(), name.last_chunk(), name.first_chunk(), name.last_chunk()) {
        (Some(first), Some(last), ..) => (u64::from_le_bytes(*first), u64::from_le_bytes(*last)),
        (_, _, Some(first), Some(last)) => {
            (u64::from(u32::from_le_bytes(*first)), u64::from(u32::from_le_bytes(*last)))
        }
        _ => match *name {
            [a, b, c] => (u64::from(u32::from_le_bytes([a, b, c, 0])), 0),
            [a, ..] => (u64::from(a), 0),
            [] => (0, 0),
        },
    };
    // Turned by 27 bits, which is chance, all that lock libraries send most stands where it is looked for first.
    let mixed = (first | LOWER).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        ^ (last | LOWER).rotate_left(27).wrapping_mul(0xff51_afd7_ed55_8ccd)
        ^ (name.len() as u64).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    (mixed >> (u64::BITS - SLOTS.trailing_zeros())) as usize % SLOTS
}
