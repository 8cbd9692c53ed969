//! Access control lists: users, their rules, and the log of denials.

mod check;
mod commands;
mod databases;
mod file;
mod log;
mod password;
mod selector;
#[cfg(test)]
mod tests;
mod user;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::base::error::plain;
use crate::base::sync::MutexExt;
use crate::clients::config::Config;
use crate::protocol::Words;
use crate::spec::{CommandSpec, Table};

pub use check::Denial;
pub use commands::{Commands, category};
pub use databases::DatabaseContext;
pub use log::{Case, DenialLog, Entry};
pub use selector::{DATABASE_RULES, Selector, is_one_word};
pub use user::{Rules, User};

/// The user of clients that have not authenticated.
pub const DEFAULT_USER: &[u8] = b"default";

/// Why a rule is refused, with Redis's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleError {
    Syntax,
    /// There is no such command or category.
    Unknown,
    AfterAllKeys,
    AfterAllChannels,
    NoSuchPassword,
    Hash,
    PartOfSubcommand,
    DatabaseRange,
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Syntax => "Syntax error",
            Self::Unknown => "Unknown command or category name in ACL",
            Self::AfterAllKeys => {
                "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any \
                 effect. Try 'resetkeys' to start with an empty list of patterns"
            }
            Self::AfterAllChannels => {
                "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any \
                 effect. Try 'resetchannels' to start with an empty list of channels"
            }
            Self::NoSuchPassword => "The password you are trying to remove from the user does not exist",
            Self::Hash => {
                "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters"
            }
            Self::PartOfSubcommand => "Allowing first-arg of a subcommand is not supported",
            Self::DatabaseRange => "The provided database ID is out of range",
        })
    }
}

/// Why a change of a user is refused.
#[derive(Debug)]
pub enum Refusal<'a> {
    /// The selector that begins with this word is not closed.
    Unmatched(&'a [u8]),
    /// This rule, the first wrong one.
    Rule(Cow<'a, [u8]>, RuleError),
}

/// The users of one server.
pub struct Acl {
    commands: Arc<Commands>,
    users: Mutex<BTreeMap<Vec<u8>, Arc<User>>>,
    default: Arc<User>,
    pub log: DenialLog,
    /// `acl-pubsub-default`: whether new users and selectors may use all channels.
    all_channels: AtomicBool,
    /// `requirepass`, as of the last time it set the default user's password.
    required: Mutex<Vec<u8>>,
}

impl Default for Acl {
    fn default() -> Self {
        Self::with_commands(Commands::default())
    }
}

/// The result of a change of a user.
pub struct Changed {
    pub user: Arc<User>,
    /// The old rules, if the user existed.
    before: Option<Arc<Rules>>,
}

impl Changed {
    /// The new rules, if the user has lost channels: subscriptions must be checked against them.
    pub fn with_fewer_channels(&self) -> Option<Arc<Rules>> {
        let after = self.user.rules();
        self.before.as_ref().filter(|before| !after.keep_channels_of(before)).map(|_| Arc::clone(&after))
    }
}

/// The rules of all users at some time.
#[derive(Default)]
pub struct Snapshot(BTreeMap<Vec<u8>, Arc<Rules>>);

impl Acl {
    /// A server's initial users: only the default user, without restrictions.
    pub fn new(table: &Table) -> Self {
        Self::with_commands(Commands::new(table))
    }

    fn with_commands(commands: Commands) -> Self {
        let default = Arc::new(User::new(DEFAULT_USER, Rules::of_default_user(&commands), &commands));
        Self {
            commands: Arc::new(commands),
            users: Mutex::new(BTreeMap::from([(DEFAULT_USER.to_vec(), Arc::clone(&default))])),
            default,
            log: DenialLog::default(),
            all_channels: AtomicBool::new(false),
            required: Mutex::default(),
        }
    }

    /// A copy of the users, for another server with these commands.
    pub fn copy(&self) -> Self {
        let commands = Arc::clone(&self.commands);
        let copied = |user: &User| Arc::new(User::new(user.name(), Rules::clone(&user.rules()), &commands));
        let mut users: BTreeMap<_, _> = self.users().iter().map(|(name, user)| (name.clone(), copied(user))).collect();
        let default = copied(&self.default);
        users.insert(DEFAULT_USER.to_vec(), Arc::clone(&default));
        Self {
            users: Mutex::new(users),
            default,
            log: DenialLog::default(),
            all_channels: AtomicBool::new(self.all_channels()),
            required: Mutex::new(self.required.lock_ignoring_poison().clone()),
            commands,
        }
    }

    /// Applies the settings. Must be called after every change of the configuration.
    pub fn configure(&self, config: &Config) {
        self.all_channels.store(config.value("acl-pubsub-default") == b"allchannels", Ordering::Relaxed);
        self.log.set_most(config.number("acllog-max-len"));
        let password = config.value("requirepass");
        let mut required = self.required.lock_ignoring_poison();
        if *required != password {
            let rule = if password.is_empty() { b"nopass".to_vec() } else { [b">", password.as_slice()].concat() };
            let mut rules = Rules::clone(&self.default.rules());
            // Neither rule can fail.
            let _ = rules.apply(&self.commands, self.all_channels(), b"resetpass");
            let _ = rules.apply(&self.commands, self.all_channels(), &rule);
            self.default.set(rules, &self.commands);
            *required = password;
        }
    }

    pub fn commands(&self) -> &Commands {
        &self.commands
    }

    pub fn default_user(&self) -> &Arc<User> {
        &self.default
    }

    pub fn user(&self, name: &[u8]) -> Option<Arc<User>> {
        self.users().get(name).cloned()
    }

    /// Every user, by name.
    pub fn all(&self) -> Vec<Arc<User>> {
        self.users().values().cloned().collect()
    }

    /// Every user as a line of an ACL file.
    pub fn lines(&self) -> Vec<Vec<u8>> {
        let line =
            |user: &Arc<User>| [b"user ", user.name(), b" ", user.rules().describe(&self.commands).as_slice()].concat();
        self.users().values().map(line).collect()
    }

    /// The user with this name and password, if it is enabled.
    pub fn authenticate(&self, name: &[u8], password: &[u8]) -> Option<Arc<User>> {
        self.user(name).filter(|user| user.rules().accept(password))
    }

    /// Whether a user may run a command with these arguments.
    #[inline]
    pub fn may_run(
        &self,
        user: &User,
        spec: &CommandSpec,
        words: Words<'_>,
        databases: DatabaseContext,
    ) -> Result<(), Denial> {
        if user.is_unrestricted() { Ok(()) } else { self.check(user, spec, words, databases) }
    }

    /// Whether a user that runs this command may also read keys that its arguments do not name.
    pub fn may_read_all_keys(
        &self,
        user: &User,
        spec: &CommandSpec,
        words: Words<'_>,
        databases: DatabaseContext,
    ) -> bool {
        user.is_unrestricted() || user.rules().reads_all_keys(&self.commands, spec, words, databases)
    }

    #[cold]
    fn check(
        &self,
        user: &User,
        spec: &CommandSpec,
        words: Words<'_>,
        databases: DatabaseContext,
    ) -> Result<(), Denial> {
        user.rules().check(&self.commands, spec, words, databases)
    }

    /// Creates or changes a user: applies all of the rules, or none.
    pub fn set_user<'a>(&self, name: &[u8], rules: &[&'a [u8]]) -> Result<Changed, Refusal<'a>> {
        let rules = joined(rules).map_err(Refusal::Unmatched)?;
        let mut users = self.users();
        let before = users.get(name).map(|user| user.rules());
        let mut after = before.as_deref().cloned().unwrap_or_else(|| self.new_rules());
        for rule in rules {
            if let Err(error) = after.apply(&self.commands, self.all_channels(), &rule) {
                return Err(Refusal::Rule(rule, error));
            }
        }
        let user = match users.get(name) {
            Some(user) => {
                user.set(after, &self.commands);
                Arc::clone(user)
            }
            None => {
                let user = Arc::new(User::new(name, after, &self.commands));
                users.insert(name.to_vec(), Arc::clone(&user));
                user
            }
        };
        Ok(Changed { user, before })
    }

    /// Applies the user declaration of a configuration file. A declaration of the default user replaces its rules.
    pub fn declare(&self, name: &[u8], rules: &[&[u8]]) -> Result<Changed, String> {
        if !is_one_word(name) {
            return Err("Spaces not allowed in ACL usernames".to_owned());
        }
        if name == DEFAULT_USER {
            let rules = Rules::new(&self.commands, self.all_channels());
            self.default.set(rules, &self.commands);
        }
        self.set_user(name, rules).map_err(|refusal| {
            let name = String::from_utf8_lossy(name);
            match refusal {
                Refusal::Unmatched(start) => {
                    let start = String::from_utf8_lossy(start);
                    format!("Error in user declaration '{name}': Unmatched parenthesis starting at '{start}'")
                }
                Refusal::Rule(rule, error @ RuleError::Unknown) => {
                    let rule = String::from_utf8_lossy(&rule);
                    format!("Error loading ACL rule '{rule}' for the user named '{name}': {error}")
                }
                // The rule itself is left out: it could reveal a password.
                Refusal::Rule(_, error) => format!("Error in user declaration '{name}': {error}"),
            }
        })
    }

    /// Removes a user. Clients that are authenticated as that user lose all permissions.
    pub fn remove(&self, name: &[u8]) -> Option<Arc<User>> {
        let user = self.users().remove(name)?;
        self.disarm(&user);
        Some(user)
    }

    fn disarm(&self, user: &User) {
        user.set(Rules::new(&self.commands, false), &self.commands);
    }

    /// Replaces all users by those in a file, or none if the file has errors. Returns the removed users. As in Redis
    /// 7.0, these are all except the default user, even if the file has a user of the same name.
    pub fn load(&self, path: &Path) -> Result<Vec<Arc<User>>, Vec<u8>> {
        let text = crate::base::files::read(path).map_err(|error| {
            format!("Error loading ACLs, opening file '{}': {}", path.display(), plain(&error)).into_bytes()
        })?;
        let mut loaded = file::parse(&self.commands, self.all_channels(), &text, &path.display())?;
        let default = loaded.remove(DEFAULT_USER).unwrap_or_else(|| Rules::of_default_user(&self.commands));
        let mut users = self.users();
        self.default.set(default, &self.commands);
        let mut gone = std::mem::take(&mut *users);
        users.extend(gone.remove_entry(DEFAULT_USER));
        users.extend(loaded.into_iter().map(|(name, rules)| {
            let user = Arc::new(User::new(&name, rules, &self.commands));
            (name, user)
        }));
        gone.values().for_each(|user| self.disarm(user));
        Ok(gone.into_values().collect())
    }

    /// The rules of all users, by name.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot(self.users().iter().map(|(name, user)| (name.clone(), user.rules())).collect())
    }

    /// Restores the users and rules of a snapshot. Returns the users that were removed.
    pub fn restore(&self, snapshot: &Snapshot) -> Vec<Arc<User>> {
        let mut users = self.users();
        let strangers: Vec<_> = users.keys().filter(|name| !snapshot.0.contains_key(*name)).cloned().collect();
        let gone: Vec<Arc<User>> = strangers.iter().filter_map(|name| users.remove(name)).collect();
        gone.iter().for_each(|user| self.disarm(user));
        for (name, rules) in &snapshot.0 {
            let rules = Rules::clone(rules);
            match users.get(name) {
                Some(user) => user.set(rules, &self.commands),
                None => {
                    users.insert(name.clone(), Arc::new(User::new(name, rules, &self.commands)));
                }
            }
        }
        gone
    }

    /// Writes all users to a file.
    pub fn save(&self, path: &Path) -> std::io::Result<()> {
        let mut text = self.lines().join(&b'\n');
        text.push(b'\n');
        crate::base::files::write_atomically(path, &text)
    }

    fn new_rules(&self) -> Rules {
        Rules::new(&self.commands, self.all_channels())
    }

    fn all_channels(&self) -> bool {
        self.all_channels.load(Ordering::Relaxed)
    }

    fn users(&self) -> MutexGuard<'_, BTreeMap<Vec<u8>, Arc<User>>> {
        self.users.lock_ignoring_poison()
    }
}

/// Joins the words of each selector, from `(` to `)`. An error names the first word of an unclosed selector.
fn joined<'a>(words: &[&'a [u8]]) -> Result<Vec<Cow<'a, [u8]>>, &'a [u8]> {
    let mut rules = Vec::new();
    let mut open: Option<(&[u8], Vec<u8>)> = None;
    for &word in words {
        let closes = word.last() == Some(&b')');
        match open.take() {
            Some((start, mut selector)) => {
                selector.push(b' ');
                selector.extend(word);
                if closes {
                    rules.push(Cow::Owned(selector));
                } else {
                    open = Some((start, selector));
                }
            }
            None if word.first() == Some(&b'(') && !closes => open = Some((word, word.to_vec())),
            None => rules.push(Cow::Borrowed(word)),
        }
    }
    open.map_or(Ok(rules), |(start, _)| Err(start))
}
