//! Users and their rules.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, RwLock};

use super::RuleError;
use super::check::Denial;
use super::commands::Commands;
use super::databases::DatabaseContext;
use super::password::Password;
use super::selector::Selector;
use crate::base::profile::Family;
use crate::base::sync::RwLockExt;
use crate::protocol::{Words, split_line, until_nul};
use crate::spec::CommandSpec;

/// A user: a name and the current rules, which connections share.
pub struct User {
    name: Vec<u8>,
    rules: RwLock<Arc<Rules>>,
    /// No restrictions: a fast check before every command.
    unrestricted: AtomicBool,
}

impl User {
    pub(super) fn new(name: &[u8], rules: Rules, commands: &Commands) -> Self {
        let unrestricted = AtomicBool::new(rules.allow_everything(commands));
        Self { name: name.to_vec(), rules: RwLock::new(Arc::new(rules)), unrestricted }
    }

    pub fn name(&self) -> &[u8] {
        &self.name
    }

    pub fn rules(&self) -> Arc<Rules> {
        Arc::clone(&self.rules.read_ignoring_poison())
    }

    /// Whether all commands, keys and channels are allowed.
    #[inline]
    pub fn is_unrestricted(&self) -> bool {
        self.unrestricted.load(Ordering::Relaxed)
    }

    /// Whether clients are this user without authentication.
    pub fn is_open(&self) -> bool {
        let rules = self.rules();
        rules.enabled && rules.no_password
    }

    /// Replaces the rules, also for clients that are authenticated already.
    pub(super) fn set(&self, rules: Rules, commands: &Commands) {
        let unrestricted = rules.allow_everything(commands);
        *self.rules.write_ignoring_poison() = Arc::new(rules);
        self.unrestricted.store(unrestricted, Ordering::Relaxed);
    }
}

/// The permissions and the passwords of a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    pub enabled: bool,
    /// Any password is accepted.
    pub no_password: bool,
    pub passwords: Vec<Password>,
    /// Whether RESTORE payloads are checked thoroughly, if a rule sets that.
    sanitize: Option<bool>,
    /// The root selector, then the others.
    selectors: Vec<Selector>,
}

impl Rules {
    /// The rules of a new user: disabled, without a password, and without permissions.
    pub(super) fn new(commands: &Commands, all_channels: bool) -> Self {
        let sanitize = commands.profile().since_redis(7, 2).then_some(true);
        let selectors = vec![Selector::new(all_channels)];
        Self { enabled: false, no_password: false, passwords: Vec::new(), sanitize, selectors }
    }

    /// The default user's initial rules.
    pub(super) fn of_default_user(commands: &Commands) -> Self {
        let selectors = vec![Selector::everything()];
        Self { enabled: true, no_password: true, selectors, ..Self::new(commands, true) }
    }

    pub fn root(&self) -> Option<&Selector> {
        self.selectors.first()
    }

    /// The selectors except the root.
    pub fn others(&self) -> &[Selector] {
        self.selectors.get(1..).unwrap_or_default()
    }

    fn allow_everything(&self, commands: &Commands) -> bool {
        self.selectors.iter().any(|selector| selector.is_everything(commands))
    }

    /// Whether a client can authenticate with this password.
    pub fn accept(&self, password: &[u8]) -> bool {
        self.enabled && (self.no_password || self.passwords.contains(&Password::new(password)))
    }

    /// Checks a request. The error is the most specific reason of the selectors.
    pub fn check(
        &self,
        commands: &Commands,
        spec: &CommandSpec,
        words: Words<'_>,
        databases: DatabaseContext,
    ) -> Result<(), Denial> {
        let mut reason = Denial::Database(0);
        for selector in &self.selectors {
            match selector.check(commands, spec, words, databases) {
                Ok(()) => return Ok(()),
                Err(denial) => reason = reason.max(denial),
            }
        }
        Err(reason)
    }

    /// Whether a selector that allows a request also allows reads of every key.
    pub fn reads_all_keys(
        &self,
        commands: &Commands,
        spec: &CommandSpec,
        words: Words<'_>,
        databases: DatabaseContext,
    ) -> bool {
        self.selectors.iter().any(|selector| selector.reads_all_keys(commands, spec, words, databases))
    }

    /// Whether a channel may be subscribed to.
    pub fn allow_channel(&self, channel: &[u8], is_pattern: bool) -> bool {
        self.selectors.iter().any(|selector| selector.allows_channel(channel, is_pattern))
    }

    /// Whether every channel rule of `old` still exists.
    pub fn keep_channels_of(&self, old: &Self) -> bool {
        let all = |rules: &Self| rules.selectors.iter().any(|selector| selector.all_channels);
        let named = |rules: &Self| -> Vec<Vec<u8>> {
            rules.selectors.iter().flat_map(|selector| selector.channels.iter().cloned()).collect()
        };
        let kept = named(self);
        all(self) || (!all(old) && named(old).iter().all(|channel| kept.contains(channel)))
    }

    /// Applies a rule. `all_channels` is the default of new selectors.
    pub fn apply(&mut self, commands: &Commands, all_channels: bool, rule: &[u8]) -> Result<(), RuleError> {
        let word = until_nul(rule);
        let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        match () {
            () if rule.is_empty() => {}
            () if is("on") => self.enabled = true,
            () if is("off") => self.enabled = false,
            () if is("nopass") => (self.no_password, self.passwords) = (true, Vec::new()),
            () if is("resetpass") => (self.no_password, self.passwords) = (false, Vec::new()),
            () if is("sanitize-payload") => self.sanitize = Some(true),
            () if is("skip-sanitize-payload") => self.sanitize = Some(false),
            () if is("clearselectors") => self.selectors.truncate(1),
            () if is("reset") => {
                *self = Self { sanitize: Some(true), ..Self::new(commands, all_channels) };
            }
            () => return self.apply_other(commands, all_channels, rule),
        }
        Ok(())
    }

    fn apply_other(&mut self, commands: &Commands, all_channels: bool, rule: &[u8]) -> Result<(), RuleError> {
        match rule {
            [sign @ (b'>' | b'#' | b'<' | b'!'), text @ ..] => {
                let password = if matches!(sign, b'>' | b'<') {
                    Password::new(text)
                } else {
                    Password::from_hex(text).ok_or(RuleError::Hash)?
                };
                let known = self.passwords.iter().position(|other| *other == password);
                match (sign, known) {
                    (b'>' | b'#', known) => {
                        self.no_password = false;
                        if known.is_none() {
                            self.passwords.push(password);
                        }
                    }
                    (_, Some(at)) => drop(self.passwords.remove(at)),
                    (_, None) => return Err(RuleError::NoSuchPassword),
                }
            }
            [b'(', inside @ .., b')'] => {
                let mut selector = Selector::new(all_channels);
                // As in Redis, a selector with an unclosed quote has no rules.
                for rule in split_line(inside).unwrap_or_default() {
                    selector.apply(commands, &rule)?;
                }
                self.selectors.push(selector);
            }
            _ => match self.selectors.first_mut() {
                Some(root) => root.apply(commands, rule)?,
                None => return Err(RuleError::Syntax),
            },
        }
        Ok(())
    }

    /// The user's flags in Redis's order.
    pub fn flags(&self, commands: &Commands) -> Vec<&'static str> {
        let mut flags = vec![if self.enabled { "on" } else { "off" }];
        let root = self.root().filter(|_| !commands.profile().since_redis(7, 0));
        let sanitizes = commands.profile().family() == Family::Redis;
        flags.extend(root.filter(|root| root.all_keys).map(|_| "allkeys"));
        flags.extend(root.filter(|root| root.all_channels).map(|_| "allchannels"));
        flags.extend(root.filter(|root| root.commands.is_all(commands)).map(|_| "allcommands"));
        flags.extend(self.no_password.then_some("nopass"));
        flags.extend(match self.sanitize {
            Some(true) if sanitizes => Some("sanitize-payload"),
            Some(false) if sanitizes => Some("skip-sanitize-payload"),
            _ => None,
        });
        flags
    }

    /// Rules that create this user.
    pub fn describe(&self, commands: &Commands) -> Vec<u8> {
        let flags = self.flags(commands).into_iter().filter(|flag| !flag.starts_with("all"));
        let mut parts: Vec<Vec<u8>> = flags.map(|flag| flag.as_bytes().to_vec()).collect();
        parts.extend(self.passwords.iter().map(|password| format!("#{}", password.hex()).into_bytes()));
        parts.extend(self.root().map(|root| root.describe(commands)));
        parts.extend(self.others().iter().map(|other| [b"(", other.describe(commands).as_slice(), b")"].concat()));
        parts.join(&b' ')
    }
}
