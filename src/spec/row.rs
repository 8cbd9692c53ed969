//! The row of a command: everything that is known about it but what it does, declared once, in plain data.

use super::keys::KeySpec;
use super::lock_effect::LockEffect;
use crate::base::profile::{Profile, Since};
use crate::protocol::Words;

/// A command, or a subcommand of a container such as CLIENT.
pub struct CommandSpec {
    /// In capitals. A subcommand has its own name only: `LIST`, not `CLIENT LIST`.
    pub name: &'static str,
    /// The arguments in redis.io notation; COMMAND DOCS is parsed from it.
    pub usage: &'static str,
    /// Usages with the options that came later; the last one that a profile has takes the place of `usage`.
    pub later_usages: &'static [(Since, &'static str)],
    pub summary: &'static str,
    pub complexity: &'static str,
    pub group: Group,
    pub since: Since,
    pub arity: Arity,
    /// Numbers of words that came later, with new options, as with `later_usages`.
    pub later_arities: &'static [(Since, Arity)],
    pub keys: &'static [KeySpec],
    pub flags: &'static [Flag],
    /// ACL categories beyond those that follow from flags and group.
    pub categories: &'static [Category],
    /// Hints for clients, as COMMAND INFO lists them.
    pub tips: &'static [&'static str],
    /// Since when, and in favour of what, the command is no longer recommended.
    pub deprecated: Option<(&'static str, &'static str)>,
    /// Runs at once even while a transaction is open. No flag of Redis's says so.
    pub never_queued: bool,
    /// Runs although the client listens to channels and speaks RESP2.
    pub runs_subscribed: bool,
    /// Changes the selected database to the one that its first argument names.
    pub selects_database: bool,
    /// Can change the name by which the journal knows the client.
    pub names_client: bool,
    /// Valkey refuses it in a transaction since 9.0, although it has no flag `no_multi`.
    pub refused_in_transaction_by_valkey_9: bool,
    /// Only tests of a server call it (COMMAND DOCS: `syscmd`).
    pub for_server_tests: bool,
    /// Which arguments MONITOR and the journal do not show.
    pub secrets: Secrets,
    /// Which arguments are channels.
    pub channels: Channels,
    /// What it does to keys that are locks.
    pub lock_effect: LockEffect,
    /// What it is given when it runs. Set where the row gets its function.
    pub kind: CommandKind,
    /// Has subcommands. Set where the row gets them.
    pub is_container: bool,
}

impl CommandSpec {
    /// A row with only a name; the rest is meant to be filled in by struct update.
    pub const fn new(name: &'static str) -> Self {
        Self {
            name,
            usage: "",
            later_usages: &[],
            summary: "",
            complexity: "O(1)",
            group: Group::Generic,
            since: Since::redis(1, 0, 0),
            arity: Arity::Exactly(1),
            later_arities: &[],
            keys: &[],
            flags: &[],
            categories: &[],
            tips: &[],
            deprecated: None,
            never_queued: false,
            runs_subscribed: false,
            selects_database: false,
            names_client: false,
            refused_in_transaction_by_valkey_9: false,
            for_server_tests: false,
            secrets: Secrets::None,
            channels: Channels::None,
            lock_effect: LockEffect::None,
            kind: CommandKind::Container,
            is_container: false,
        }
    }

    #[inline]
    pub fn has_flag(&self, flag: Flag) -> bool {
        self.flags.contains(&flag)
    }

    /// Whether a request looks at keys whose names it makes while it runs.
    #[inline]
    pub fn makes_keys(&self, words: Words<'_>) -> bool {
        self.keys.len() > 1 && self.keys.iter().any(|keys| keys.are_made(words))
    }

    /// How many words a request has on a server of a profile.
    #[inline]
    pub fn arity_in(&self, profile: &Profile) -> Arity {
        if self.later_arities.is_empty() {
            return self.arity;
        }
        let later = self.later_arities.iter().rev().find(|(since, _)| profile.has(*since));
        later.map_or(self.arity, |(_, arity)| *arity)
    }

    /// The usage with the options that a profile has.
    pub fn usage_in(&self, profile: &Profile) -> &'static str {
        let later = self.later_usages.iter().rev().find(|(since, _)| profile.has(*since));
        later.map_or(self.usage, |(_, usage)| usage)
    }

    /// All ACL categories, in Redis's order: those that follow from the flags, and those the row adds.
    pub fn all_categories(&self) -> Vec<Category> {
        let implied = [
            (Flag::Write, &[Category::Write][..]),
            (Flag::ReadOnly, &[Category::Read]),
            (Flag::Admin, &[Category::Admin, Category::Dangerous]),
            (Flag::PubSub, &[Category::PubSub]),
            (Flag::Blocking, &[Category::Blocking]),
        ];
        let mut categories = self.categories.to_vec();
        // What only runs scripts reads nothing itself.
        let scripting = categories.contains(&Category::Scripting);
        let implies = |flag| self.has_flag(flag) && !(flag == Flag::ReadOnly && scripting);
        for (_, implied) in implied.iter().filter(|(flag, _)| implies(*flag)) {
            categories.extend_from_slice(implied);
        }
        categories.push(if self.has_flag(Flag::Fast) { Category::Fast } else { Category::Slow });
        categories.sort_unstable();
        categories.dedup();
        categories
    }
}

/// What a command is given when it runs, and so what it may touch. The function itself stands in the table of handlers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandKind {
    /// Its keys, in one locked view.
    Keys,
    /// Its keys, as above; it may block until one of them holds something.
    Blocking,
    /// The whole selected database.
    Database,
    /// Every database.
    Everything,
    /// The connection and the server, but no data.
    Connection,
    /// The selected database and the server (DEBUG).
    Debug,
    /// MULTI, EXEC and their kin, which the engine runs itself.
    Transaction(TransactionCommand),
    /// EVAL and its kin, which the engine runs itself.
    Script(ScriptCommand),
    /// The scripts and functions that the server knows, and the connection.
    Library,
    /// Nothing: it only has subcommands.
    Container,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionCommand {
    Multi,
    Exec,
    Discard,
    Watch,
    Unwatch,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScriptCommand {
    /// EVAL, and EVAL_RO, which may not write.
    Eval { read_only: bool },
    /// EVALSHA and EVALSHA_RO.
    EvalSha { read_only: bool },
    /// FCALL and FCALL_RO.
    Function { read_only: bool },
}

/// Arguments that hold names of users or passwords.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Secrets {
    None,
    /// All of them (AUTH).
    Credentials,
    /// Those behind its option AUTH (HELLO).
    Handshake,
    /// All but the first (ACL SETUSER).
    UserRules,
    /// The values of secret settings (CONFIG SET).
    Settings,
    /// None; but its reply can hold secret settings (CONFIG GET).
    SettingsInReply,
}

/// Arguments that are channels, for permissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channels {
    None,
    /// The first one (PUBLISH).
    First,
    /// All of them (SUBSCRIBE).
    All,
    /// All of them, as patterns (PSUBSCRIBE).
    Patterns,
}

/// How many words a request has, the command's name included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arity {
    Exactly(u8),
    AtLeast(u8),
}

impl Arity {
    #[inline]
    pub fn admits(self, words: usize) -> bool {
        match self {
            Self::Exactly(count) => words == usize::from(count),
            Self::AtLeast(count) => words >= usize::from(count),
        }
    }

    /// As Redis shows it: negative for "at least".
    pub fn as_number(self) -> i64 {
        match self {
            Self::Exactly(count) => i64::from(count),
            Self::AtLeast(count) => -i64::from(count),
        }
    }
}

/// The documentation groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    Bitmap,
    Connection,
    Control,
    Generic,
    Geo,
    Hash,
    HyperLogLog,
    List,
    PubSub,
    Scripting,
    Server,
    Set,
    SortedSet,
    Stream,
    String,
    Transactions,
}

impl Group {
    pub fn name(self) -> &'static str {
        match self {
            Self::Bitmap => "bitmap",
            Self::Connection => "connection",
            Self::Control => "redouble",
            Self::Generic => "generic",
            Self::Geo => "geo",
            Self::Hash => "hash",
            Self::HyperLogLog => "hyperloglog",
            Self::List => "list",
            Self::PubSub => "pubsub",
            Self::Scripting => "scripting",
            Self::Server => "server",
            Self::Set => "set",
            Self::SortedSet => "sorted-set",
            Self::Stream => "stream",
            Self::String => "string",
            Self::Transactions => "transactions",
        }
    }
}

/// Command flags, in the order in which Redis lists them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Flag {
    Write,
    ReadOnly,
    DenyOom,
    Admin,
    PubSub,
    NoScript,
    Blocking,
    Loading,
    Stale,
    SkipMonitor,
    SkipSlowlog,
    Fast,
    NoAuth,
    MayReplicate,
    NoMandatoryKeys,
    NoMulti,
    MovableKeys,
    AllowBusy,
}

impl Flag {
    pub fn name(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::ReadOnly => "readonly",
            Self::DenyOom => "denyoom",
            Self::Admin => "admin",
            Self::PubSub => "pubsub",
            Self::NoScript => "noscript",
            Self::Blocking => "blocking",
            Self::Loading => "loading",
            Self::Stale => "stale",
            Self::SkipMonitor => "skip_monitor",
            Self::SkipSlowlog => "skip_slowlog",
            Self::Fast => "fast",
            Self::NoAuth => "no_auth",
            Self::MayReplicate => "may_replicate",
            Self::NoMandatoryKeys => "no_mandatory_keys",
            Self::NoMulti => "no_multi",
            Self::MovableKeys => "movablekeys",
            Self::AllowBusy => "allow_busy",
        }
    }
}

/// ACL categories, in the order in which Redis lists them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Category {
    Keyspace,
    Read,
    Write,
    Set,
    SortedSet,
    List,
    Hash,
    String,
    Bitmap,
    HyperLogLog,
    Geo,
    Stream,
    PubSub,
    Admin,
    Fast,
    Slow,
    Blocking,
    Dangerous,
    Connection,
    Transaction,
    Scripting,
}

impl Category {
    /// All of them, in that order.
    pub const ALL: &'static [Self] = &[
        Self::Keyspace,
        Self::Read,
        Self::Write,
        Self::Set,
        Self::SortedSet,
        Self::List,
        Self::Hash,
        Self::String,
        Self::Bitmap,
        Self::HyperLogLog,
        Self::Geo,
        Self::Stream,
        Self::PubSub,
        Self::Admin,
        Self::Fast,
        Self::Slow,
        Self::Blocking,
        Self::Dangerous,
        Self::Connection,
        Self::Transaction,
        Self::Scripting,
    ];

    /// As ACL rules write it.
    pub fn rule(self) -> &'static str {
        match self {
            Self::Keyspace => "@keyspace",
            Self::Read => "@read",
            Self::Write => "@write",
            Self::Set => "@set",
            Self::SortedSet => "@sortedset",
            Self::List => "@list",
            Self::Hash => "@hash",
            Self::String => "@string",
            Self::Bitmap => "@bitmap",
            Self::HyperLogLog => "@hyperloglog",
            Self::Geo => "@geo",
            Self::Stream => "@stream",
            Self::PubSub => "@pubsub",
            Self::Admin => "@admin",
            Self::Fast => "@fast",
            Self::Slow => "@slow",
            Self::Blocking => "@blocking",
            Self::Dangerous => "@dangerous",
            Self::Connection => "@connection",
            Self::Transaction => "@transaction",
            Self::Scripting => "@scripting",
        }
    }

    pub fn name(self) -> &'static str {
        &self.rule()[1..]
    }
}
