//! Sets of commands that a user may run, and the rules that describe them.

use std::collections::{BTreeMap, HashMap};
use std::sync::OnceLock;

use super::RuleError;
use crate::base::profile::Profile;
use crate::protocol::{Words, until_nul};
use crate::spec::{ABSENT, AbsentCommand, Category, CommandSpec, Flag, Group, Table, full_name};

/// The commands of one server that rules know. They are numbered when a rule first asks for one: most servers have only
/// the default user, who may run them all.
#[derive(Default)]
pub struct Commands {
    /// `None`: no command.
    table: Option<Table>,
    profile: Profile,
    numbered: OnceLock<NumberedCommands>,
}

/// The numbered commands, including subcommands, and those that only rules know.
#[derive(Default)]
struct NumberedCommands {
    entries: Vec<Entry>,
    /// Entry numbers by name.
    by_name: HashMap<String, usize>,
    /// Entry numbers by the address of the command's row.
    by_row: HashMap<usize, usize>,
    profile: Profile,
}

/// The words of a set of all commands, whatever their number.
const ALL_WORDS: usize = 16;

struct Entry {
    row: &'static CommandSpec,
    /// The full name: `get`, `client|list`.
    name: String,
    categories: u32,
    /// A subcommand follows its container, and has no subcommands.
    is_sub: bool,
    /// The number of subcommands that follow.
    subs: usize,
    no_auth: bool,
    /// Only rules know it.
    is_absent: bool,
}

impl NumberedCommands {
    fn new(table: &Table) -> Self {
        let profile = table.profile();
        let mut commands = Self { profile: *profile, ..Self::default() };
        let absent = |container: Option<&'static str>| {
            let of_container = move |absent: &&AbsentCommand| absent.container == container;
            ABSENT.iter().filter(of_container).filter(|absent| absent.is_in(profile))
        };
        for row in table.rows() {
            let missing: Vec<_> =
                absent(Some(row.name)).filter(|sub| table.find_sub(row, sub.spec.name.as_bytes()).is_none()).collect();
            commands.add(row, None, table.subs(row).count() + missing.len());
            table.subs(row).for_each(|sub| commands.add(sub, Some(row), 0));
            missing.iter().for_each(|sub| commands.add_absent(sub, Some(row), 0));
        }
        for command in absent(None).filter(|command| table.find_original(command.spec.name.as_bytes()).is_none()) {
            let subs: Vec<_> = absent(Some(command.spec.name)).collect();
            commands.add_absent(command, None, subs.len());
            subs.iter().for_each(|sub| commands.add_absent(sub, Some(&command.spec), 0));
        }
        debug_assert!(commands.entries.len() <= ALL_WORDS * 64, "a set of all commands has too few bits");
        commands
    }

    fn add(&mut self, row: &'static CommandSpec, container: Option<&CommandSpec>, subs: usize) {
        let number = self.entries.len();
        let name = container.map_or_else(|| row.name.to_ascii_lowercase(), |container| full_name(container, row));
        self.by_row.insert(std::ptr::from_ref(row).addr(), number);
        self.by_name.insert(name.clone(), number);
        let (categories, no_auth) = (mask(row.all_categories(&self.profile)), row.has_flag(Flag::NoAuth));
        let is_sub = container.is_some();
        self.entries.push(Entry { row, name, categories, is_sub, subs, no_auth, is_absent: false });
    }

    fn add_absent(&mut self, command: &'static AbsentCommand, container: Option<&CommandSpec>, subs: usize) {
        self.add(&command.spec, container, subs);
        if let Some(entry) = self.entries.last_mut() {
            (entry.categories, entry.is_absent) = (mask(command.categories(&self.profile)), true);
        }
    }
}

impl Commands {
    pub fn new(table: &Table) -> Self {
        Self { table: Some(table.clone()), profile: *table.profile(), numbered: OnceLock::new() }
    }

    fn numbered(&self) -> &NumberedCommands {
        self.numbered.get_or_init(|| self.table.as_ref().map(NumberedCommands::new).unwrap_or_default())
    }

    fn entries(&self) -> &[Entry] {
        &self.numbered().entries
    }

    /// The row and the full name of the command that a request would run if this server had it.
    pub fn absent_row(&self, words: Words<'_>) -> Option<(&'static CommandSpec, &str)> {
        let name = words.get(0)?;
        let command = self.find(name)?;
        let found = match words.get(1) {
            Some(sub) if self.entries()[command].subs > 0 => self.find(&[name, b"|", sub].concat())?,
            _ => command,
        };
        let Entry { row, name, is_absent, .. } = &self.entries()[found];
        is_absent.then_some((row, name))
    }

    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Since 7.2, rules are kept as they were given. Earlier servers describe a set by the best rules they find for
    /// it.
    fn keep_rules(&self) -> bool {
        self.profile.since_redis(7, 2)
    }

    fn number_of(&self, row: &CommandSpec) -> Option<usize> {
        self.numbered().by_row.get(&std::ptr::from_ref(row).addr()).copied()
    }

    /// A command by its full name, in any case.
    fn find(&self, name: &[u8]) -> Option<usize> {
        let name = std::str::from_utf8(until_nul(name)).ok()?;
        self.numbered().by_name.get(&name.to_ascii_lowercase()).copied()
    }

    /// The names of all commands in a category.
    pub fn in_category(&self, category: Category) -> impl Iterator<Item = &str> {
        let members = self.entries().iter().filter(move |entry| entry.categories & bit(category) != 0);
        members.map(|entry| entry.name.as_str())
    }

    /// The numbers of a container and all its subcommands, or of a single command.
    fn family(&self, number: usize) -> std::ops::RangeInclusive<usize> {
        number..=number + self.entries()[number].subs
    }
}

fn mask(categories: Vec<Category>) -> u32 {
    categories.into_iter().fold(0, |mask, category| mask | bit(category))
}

fn bit(category: Category) -> u32 {
    1 << category as u32
}

/// A category by its name, in any case.
pub fn category(name: &[u8]) -> Option<Category> {
    Category::ALL.iter().copied().find(|category| category.name().as_bytes().eq_ignore_ascii_case(name))
}

/// A set of a server's commands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandSet {
    /// One bit per command.
    allowed: Vec<u64>,
    /// Began as all commands, so it includes commands that later versions add.
    future: bool,
    /// Commands that are allowed only with certain first arguments.
    first_arguments: BTreeMap<usize, Vec<Vec<u8>>>,
    /// The rules that made the set, without those that a later rule overrides.
    rules: Vec<(bool, String)>,
}

impl CommandSet {
    /// Every command.
    pub fn all() -> Self {
        Self { allowed: vec![u64::MAX; ALL_WORDS], future: true, ..Self::default() }
    }

    /// Whether no command is missing.
    pub fn is_all(&self, commands: &Commands) -> bool {
        let has_every_bit = self.allowed.len() >= ALL_WORDS && self.allowed.iter().all(|word| *word == u64::MAX);
        has_every_bit || (0..commands.entries().len()).all(|number| self.has(number))
    }

    /// Whether a command is allowed with these arguments.
    pub fn allows(&self, commands: &Commands, row: &CommandSpec, words: Words<'_>) -> bool {
        let Some(number) = commands.number_of(row) else { return false };
        let entry = &commands.entries()[number];
        if entry.no_auth || self.has(number) {
            return true;
        }
        let first = words.get(1 + usize::from(entry.is_sub)).map(until_nul);
        let allowed = self.first_arguments.get(&number).map(Vec::as_slice).unwrap_or_default();
        first.is_some_and(|first| allowed.iter().any(|argument| argument.eq_ignore_ascii_case(first)))
    }

    /// Applies a rule: `+get`, `-@dangerous`, `+select|0`, `allcommands`.
    pub fn apply(&mut self, commands: &Commands, rule: &[u8]) -> Result<(), RuleError> {
        let is = |word: &str| rule.eq_ignore_ascii_case(word.as_bytes());
        if is("allcommands") || is("+@all") {
            *self = Self::all();
            return Ok(());
        }
        if is("nocommands") || is("-@all") {
            *self = Self::default();
            return Ok(());
        }
        match rule {
            [sign @ (b'+' | b'-'), b'@', name @ ..] => {
                let category = category(name).ok_or(RuleError::Unknown)?;
                self.put_category(commands, category, *sign == b'+');
            }
            [b'+', name @ ..] => match name.iter().rposition(|&byte| byte == b'|') {
                Some(bar) => self.allow_part(commands, &name[..bar], &name[bar + 1..])?,
                None => self.put_family(commands, commands.find(name).ok_or(RuleError::Unknown)?, true),
            },
            [b'-', name @ ..] => self.put_family(commands, commands.find(name).ok_or(RuleError::Unknown)?, false),
            _ => return Err(RuleError::Syntax),
        }
        if commands.keep_rules() {
            self.remember(rule);
        }
        Ok(())
    }

    /// `+command|part`: a subcommand, or a command with this first argument only.
    fn allow_part(&mut self, commands: &Commands, name: &[u8], part: &[u8]) -> Result<(), RuleError> {
        let number = commands.find(name).ok_or(RuleError::Unknown)?;
        if commands.entries()[number].is_sub {
            return Err(RuleError::PartOfSubcommand);
        }
        if part.is_empty() {
            return Err(RuleError::Syntax);
        }
        if commands.entries()[number].subs > 0 {
            let sub = commands.find(&[name, b"|", part].concat()).ok_or(RuleError::Unknown)?;
            self.put_family(commands, sub, true);
            return Ok(());
        }
        let arguments = self.first_arguments.entry(number).or_default();
        if !arguments.iter().any(|known| known.eq_ignore_ascii_case(part)) {
            arguments.push(part.to_vec());
        }
        Ok(())
    }

    /// Appends a rule, and removes those that it overrides.
    fn remember(&mut self, rule: &[u8]) {
        let name = String::from_utf8_lossy(&rule[1..]).to_ascii_lowercase();
        let is_void =
            |old: &str| old.strip_prefix(name.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('|'));
        self.rules.retain(|(_, old)| !is_void(old));
        self.rules.push((rule[0] == b'+', name));
    }

    fn has(&self, number: usize) -> bool {
        self.allowed.get(number / 64).is_some_and(|word| word >> (number % 64) & 1 == 1)
    }

    fn put(&mut self, number: usize, allow: bool) {
        if self.allowed.len() <= number / 64 {
            self.allowed.resize(number / 64 + 1, 0);
        }
        let mask = 1 << (number % 64);
        if allow {
            self.allowed[number / 64] |= mask;
        } else {
            self.allowed[number / 64] &= !mask;
        }
    }

    /// Sets a command and its subcommands, and forgets rules about its first arguments.
    fn put_family(&mut self, commands: &Commands, number: usize, allow: bool) {
        self.first_arguments.remove(&number);
        commands.family(number).for_each(|number| self.put(number, allow));
    }

    fn put_category(&mut self, commands: &Commands, category: Category, allow: bool) {
        for (number, entry) in commands.entries().iter().enumerate() {
            if entry.categories & bit(category) != 0 {
                self.put_family(commands, number, allow);
            }
        }
    }

    // ---- description

    /// Rules that create this set.
    pub fn describe(&self, commands: &Commands) -> Vec<u8> {
        let start: &[u8] = if self.future { b"+@all" } else { b"-@all" };
        let mut text = start.to_vec();
        if commands.keep_rules() {
            for (allow, name) in &self.rules {
                text.extend([b' ', if *allow { b'+' } else { b'-' }]);
                text.extend(name.as_bytes());
            }
            return text;
        }
        let mut made = if self.future { Self::all() } else { Self::default() };
        for category in self.best_categories(commands) {
            made.put_category(commands, category, !self.future);
            text.extend([b' ', if self.future { b'-' } else { b'+' }]);
            text.extend(category.rule().as_bytes());
        }
        for (number, entry) in commands.entries().iter().enumerate() {
            let allow = self.has(number);
            if allow != made.has(number) {
                made.put_family(commands, number, allow);
                text.extend([b' ', if allow { b'+' } else { b'-' }]);
                text.extend(entry.name.as_bytes());
            }
            for argument in self.first_arguments.get(&number).into_iter().flatten().filter(|_| !allow) {
                text.extend([b" +", entry.name.as_bytes(), b"|", argument].concat());
            }
        }
        text
    }

    /// The categories to add (or to remove, if the set began as all commands) that approximate the set best: each time
    /// the one with the fewest unwanted commands, and among those the one with the most wanted.
    fn best_categories(&self, commands: &Commands) -> Vec<Category> {
        let mut left = self.clone();
        let mut best: Vec<Category> = Vec::new();
        loop {
            let mut found: Option<(usize, usize, Category)> = None;
            for category in Category::ALL.iter().copied().filter(|category| !best.contains(category)) {
                let members = commands.entries().iter().enumerate();
                // The commands of no real server do not tip the balance.
                let counts = |entry: &Entry| entry.row.group != Group::Control && entry.categories & bit(category) != 0;
                let members = members.filter(|(_, entry)| counts(entry));
                let (on, off): (Vec<_>, Vec<_>) = members.partition(|(number, _)| left.has(*number));
                let (same, differing) = if self.future { (off.len(), on.len()) } else { (on.len(), off.len()) };
                let is_better =
                    found.is_none_or(|(least, most, _)| differing < least || (differing == least && same > most));
                if same > differing && is_better {
                    found = Some((differing, same, category));
                }
            }
            let Some((_, _, category)) = found else { return best };
            left.put_category(commands, category, self.future);
            best.push(category);
        }
    }
}
