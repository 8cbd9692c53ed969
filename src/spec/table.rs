//! The table of commands that a server has.

use std::borrow::Cow;
use std::sync::Arc;

use smallvec::SmallVec;

use super::command_spec::{CommandSpec, Flag};
use crate::base::error::CommandError;
use crate::base::profile::Profile;
use crate::protocol::Words;

/// About four times the number of commands, which keeps probe sequences short.
const SLOTS: usize = 1024;
/// Marks a slot without a row: there are fewer rows.
const FREE: u16 = u16::MAX;

/// The index of a row among the rows of all profiles. Tables of per-command data use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowId(u16);

impl RowId {
    /// No row.
    pub const NONE: Self = Self(u16::MAX);
    #[cfg(test)]
    pub const FIRST: Self = Self(0);

    pub fn new(index: usize) -> Self {
        Self(u16::try_from(index).unwrap_or(u16::MAX))
    }

    #[inline]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// `get`, `client|list`.
fn row_name(container: Option<&Row>, spec: &CommandSpec) -> String {
    container.map_or_else(|| spec.name.to_ascii_lowercase(), |container| full_name(container.spec, spec))
}

/// A full name, parted into the command and the subcommand.
fn split_full(name: &[u8]) -> (&[u8], Option<&[u8]>) {
    match name.iter().position(|&byte| byte == b'|') {
        None => (name, None),
        Some(bar) => (&name[..bar], Some(&name[bar + 1..])),
    }
}

/// A row with its id and its subcommands.
#[derive(Clone)]
pub struct Row {
    /// The name that clients use for the command: that of the row, unless it was renamed. It stands here so that a
    /// look-up compares it without a further load.
    name: Cow<'static, [u8]>,
    pub spec: &'static CommandSpec,
    pub id: RowId,
    pub subcommands: Vec<Row>,
}

impl Row {
    pub fn new(spec: &'static CommandSpec, id: RowId, subcommands: Vec<Row>) -> Self {
        Self { name: Cow::Borrowed(spec.name.as_bytes()), spec, id, subcommands }
    }

    #[inline]
    fn is_called(&self, name: &[u8]) -> bool {
        // Most clients send upper case, and an exact comparison is faster.
        *self.name == *name || self.name.eq_ignore_ascii_case(name)
    }
}

/// Why `rename-command` is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RenameError {
    /// There is no such command.
    Unknown,
    /// The new name is that of a command.
    Taken,
}

impl RenameError {
    /// Redis's text.
    pub fn text(self) -> &'static str {
        match self {
            Self::Unknown => "No such command in rename-command",
            Self::Taken => "Target command name already exists",
        }
    }
}

/// The row that a request resolves to, of a command or a subcommand.
#[derive(Clone, Copy)]
pub struct ResolvedRow {
    pub spec: &'static CommandSpec,
    pub id: RowId,
    /// The index of the first argument among the words.
    pub at: usize,
}

/// The command name and keys of a request, as patterns of the test powers and journal queries match them.
pub struct NamedRequest<'w> {
    /// The container, if the command is a subcommand.
    pub container: Option<&'static str>,
    pub name: &'static str,
    pub keys: SmallVec<[&'w [u8]; 4]>,
}

/// The keys of a request, and whether its command writes.
#[derive(Default)]
pub struct RequestKeys<'w> {
    pub keys: Vec<&'w [u8]>,
    pub writes: bool,
}

/// The rows of one profile, indexed by name. Clones share the rows.
#[derive(Clone)]
pub struct Table {
    rows: Arc<[Row]>,
    /// The numbers of the rows that clients can name. A command that `rename-command` removed is in no slot.
    slots: Arc<[u16; SLOTS]>,
    profile: Profile,
}

impl Table {
    /// Keeps the rows that a profile has.
    pub fn new(rows: impl IntoIterator<Item = Row>, profile: Profile) -> Self {
        Self::of(rows.into_iter().filter(|row| profile.has(row.spec.since)).collect(), profile)
    }

    fn of(rows: Vec<Row>, profile: Profile) -> Self {
        let slots = Arc::new(slots_of(&rows));
        Self { rows: rows.into(), slots, profile }
    }

    /// Renames a command. Without a new name, no client can run it. Users' rules, statistics and COMMAND keep the
    /// original name.
    pub fn rename(&self, name: &[u8], new: &[u8]) -> Result<Self, RenameError> {
        let mut rows = self.rows.to_vec();
        let named = |name: &[u8]| rows.iter().position(|row| !name.is_empty() && row.is_called(name));
        let row = named(name).ok_or(RenameError::Unknown)?;
        // As in Redis, a command can be given the name that it has.
        if named(new).is_some_and(|other| other != row) {
            return Err(RenameError::Taken);
        }
        rows[row].name = Cow::Owned(new.to_vec());
        Ok(Self::of(rows, self.profile))
    }

    /// The rows of all profiles: for journals of servers whose profile is unknown.
    pub fn of_every_profile(rows: impl IntoIterator<Item = Row>) -> Self {
        Self::of(rows.into_iter().collect(), Profile::default())
    }

    pub fn rows(&self) -> impl ExactSizeIterator<Item = &'static CommandSpec> + '_ {
        self.rows.iter().map(|row| row.spec)
    }

    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// The rows of the commands that clients can run: all but those that were removed.
    pub fn named_rows(&self) -> impl Iterator<Item = &'static CommandSpec> + '_ {
        self.rows.iter().filter(|row| !row.name.is_empty()).map(|row| row.spec)
    }

    /// Finds a command by its original name, case-insensitively.
    pub fn find_original(&self, name: &[u8]) -> Option<&'static CommandSpec> {
        self.rows().find(|row| row.name.as_bytes().eq_ignore_ascii_case(name))
    }

    /// The name that clients use for a command, in upper case.
    pub fn name_of(&self, row: &CommandSpec) -> String {
        let found = self.rows.iter().find(|known| std::ptr::eq(known.spec, row));
        let name = found.map_or(row.name.as_bytes(), |row| &row.name);
        String::from_utf8_lossy(&name.to_ascii_uppercase()).into_owned()
    }

    /// Finds a command by name, case-insensitively.
    #[inline]
    pub fn find(&self, name: &[u8]) -> Option<&'static CommandSpec> {
        Some(self.row(name)?.spec)
    }

    #[inline]
    fn row(&self, name: &[u8]) -> Option<&Row> {
        let mut slot = slot_of(name);
        while let Some(row) = self.rows.get(usize::from(self.slots[slot])) {
            if row.is_called(name) {
                return Some(row);
            }
            slot = (slot + 1) % SLOTS;
        }
        None
    }

    /// Finds a subcommand of a container, if this profile has it.
    pub fn find_sub(&self, container: &CommandSpec, name: &[u8]) -> Option<&'static CommandSpec> {
        self.subs(container).find(|row| row.name.as_bytes().eq_ignore_ascii_case(name))
    }

    /// A row's full name: `get`, `client|list`. The row must come from this table.
    pub fn full_name(&self, row: &CommandSpec) -> String {
        let has = |container: &&Row| container.subcommands.iter().any(|sub| std::ptr::eq(sub.spec, row));
        let container = self.rows.iter().find(has);
        row_name(container, row)
    }

    /// Finds a command by its full name (`get`, `client|list`). Also returns its container, if it has one.
    pub fn find_full(&self, name: &[u8]) -> Option<(Option<&'static CommandSpec>, &'static CommandSpec)> {
        self.find_full_by(name, |name| self.find(name))
    }

    /// The same by its original name.
    pub fn find_full_original(&self, name: &[u8]) -> Option<&'static CommandSpec> {
        Some(self.find_full_by(name, |name| self.find_original(name))?.1)
    }

    fn find_full_by(
        &self,
        name: &[u8],
        find: impl Fn(&[u8]) -> Option<&'static CommandSpec>,
    ) -> Option<(Option<&'static CommandSpec>, &'static CommandSpec)> {
        match split_full(name) {
            (name, None) => Some((None, find(name)?)),
            (container, Some(sub)) => {
                let container = find(container)?;
                Some((Some(container), self.find_sub(container, sub)?))
            }
        }
    }

    /// The subcommands of a container that this profile has.
    pub fn subs<'s>(&'s self, container: &'s CommandSpec) -> impl Iterator<Item = &'static CommandSpec> + 's {
        let row = self.rows.iter().find(|row| container.is_container && std::ptr::eq(row.spec, container));
        let rows = row.into_iter().flat_map(|row| &row.subcommands);
        rows.filter(|row| self.profile.has(row.spec.since)).map(|row| row.spec)
    }

    /// Resolves a request to its row, and checks name and arity.
    #[inline]
    pub fn resolve(&self, words: Words<'_>) -> Result<ResolvedRow, CommandError> {
        let name = words.get(0).unwrap_or_default();
        let Some(&Row { spec, id, .. }) = self.row(name) else { return Err(self.unknown_command(words)) };
        if !spec.is_container || words.len() == 1 {
            return if spec.arity_in(&self.profile).admits(words.len()) {
                Ok(ResolvedRow { spec, id, at: 1 })
            } else {
                Err(wrong_arity(&spec.name.to_ascii_lowercase()))
            };
        }
        self.resolve_sub(spec, words)
    }

    /// The error for a request whose subcommand does not exist, if that is so.
    pub fn unknown_subcommand(&self, words: Words<'_>) -> Option<CommandError> {
        let container = self.row(words.get(0)?)?.spec;
        container.is_container.then(|| self.resolve(words).err()).flatten()
    }

    /// Resolves a request to its row without checking the arity.
    pub fn row_of(&self, words: Words<'_>) -> Option<ResolvedRow> {
        let &Row { spec, id, ref subcommands, .. } = self.row(words.get(0)?)?;
        match words.get(1) {
            Some(name) if spec.is_container => {
                let mut subs = subcommands.iter().filter(|row| self.profile.has(row.spec.since));
                let sub = subs.find(|row| row.spec.name.as_bytes().eq_ignore_ascii_case(name))?;
                Some(ResolvedRow { spec: sub.spec, id: sub.id, at: 2 })
            }
            _ => Some(ResolvedRow { spec, id, at: 1 }),
        }
    }

    /// The ids of the rows that are wanted, with their original full names. A container is followed by its subcommands.
    pub fn full_names<'t>(
        &'t self,
        is_wanted: impl Fn(RowId) -> bool + 't,
    ) -> impl Iterator<Item = (RowId, String)> + 't {
        let rows = self.rows.iter().flat_map(|row| self.with_subcommands(row));
        rows.filter(move |(_, row)| is_wanted(row.id)).map(|(container, row)| (row.id, row_name(container, row.spec)))
    }

    /// The rows that a full name means (`get`, `client|list`): for a container, also its subcommands.
    pub fn full_names_of<'t>(&'t self, name: &'t [u8]) -> impl Iterator<Item = (RowId, String)> + 't {
        let (first, sub) = split_full(name);
        let rows = self.row(first).into_iter().flat_map(|row| self.with_subcommands(row));
        let is_named = move |container: Option<&Row>, row: &Row| {
            sub.is_none_or(|sub| container.is_some() && row.spec.name.as_bytes().eq_ignore_ascii_case(sub))
        };
        let named = rows.filter(move |(container, row)| is_named(*container, row));
        named.map(|(container, row)| (row.id, row_name(container, row.spec)))
    }

    /// A row, and its subcommands in this profile, each with its container.
    fn with_subcommands<'t>(&'t self, row: &'t Row) -> impl Iterator<Item = (Option<&'t Row>, &'t Row)> {
        let subcommands = row.subcommands.iter().filter(|sub| self.profile.has(sub.spec.since));
        std::iter::once((None, row)).chain(subcommands.map(move |sub| (Some(row), sub)))
    }

    /// The name and keys of a request, from its words alone.
    pub fn name<'w>(&self, words: Words<'w>) -> NamedRequest<'w> {
        let container = words.get(0).and_then(|name| self.find(name));
        let Some(ResolvedRow { spec, .. }) = self.row_of(words) else {
            return NamedRequest { container: None, name: "", keys: SmallVec::new() };
        };
        let container = container.filter(|container| !std::ptr::eq(*container, spec)).map(|container| container.name);
        let positions = spec.keys.iter().filter_map(|keys| keys.positions_to_lock(words)).flatten();
        NamedRequest { container, name: spec.name, keys: positions.filter_map(|at| words.get(at)).collect() }
    }

    /// The keys of a request and whether it writes, from its words alone.
    pub fn keys<'w>(&self, words: Words<'w>) -> RequestKeys<'w> {
        let Some(ResolvedRow { spec, .. }) = self.row_of(words) else { return RequestKeys::default() };
        let positions = spec.keys.iter().filter_map(|keys| keys.positions_to_lock(words)).flatten();
        RequestKeys { keys: positions.filter_map(|at| words.get(at)).collect(), writes: spec.has_flag(Flag::Write) }
    }

    fn resolve_sub(&self, container: &'static CommandSpec, words: Words<'_>) -> Result<ResolvedRow, CommandError> {
        let name = words.get(1).unwrap_or_default();
        let old = !self.profile.since_redis(7, 0);
        match self.row_of(words) {
            Some(row) if row.spec.arity_in(&self.profile).admits(words.len()) => Ok(row),
            Some(_) if old => Err(unknown_subcommand_6(container, name)),
            Some(row) => Err(wrong_arity(&full_name(container, row.spec))),
            None if old => Err(unknown_subcommand_6(container, name)),
            None => {
                let mut text = b"ERR unknown subcommand '".to_vec();
                text.extend_from_slice(clipped(name, 128));
                text.extend_from_slice(format!("'. Try {} HELP.", self.name_of(container)).as_bytes());
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

/// The rows by name.
fn slots_of(rows: &[Row]) -> [u16; SLOTS] {
    let mut slots = [FREE; SLOTS];
    for (index, row) in (0..FREE).zip(rows).filter(|(_, row)| !row.name.is_empty()) {
        let mut slot = slot_of(&row.name);
        while slots[slot] != FREE {
            slot = (slot + 1) % SLOTS;
        }
        slots[slot] = index;
    }
    slots
}

/// `container|subcommand`, as Redis has named subcommands since 7.0.
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

/// At most `most` bytes of a word, and nothing after a NUL, as C would print it.
fn clipped(word: &[u8], most: usize) -> &[u8] {
    let end = word.iter().take(most).position(|&byte| byte == 0).unwrap_or(word.len().min(most));
    &word[..end]
}

/// Hashes a name to a slot, case-insensitively: the case bit of every byte is set first.
#[inline]
fn slot_of(name: &[u8]) -> usize {
    const LOWER: u64 = 0x2020_2020_2020_2020;
    // The first and last bytes, which overlap in a short name.
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
    // A rotation by 27 bits, found by trial, puts most commands of lock libraries into their first slot.
    let mixed = (first | LOWER).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        ^ (last | LOWER).rotate_left(27).wrapping_mul(0xff51_afd7_ed55_8ccd)
        ^ (name.len() as u64).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    (mixed >> (u64::BITS - SLOTS.trailing_zeros())) as usize % SLOTS
}
