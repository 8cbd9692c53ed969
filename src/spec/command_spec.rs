//! The row of a command: all that is known about it except its function, as plain data.

use super::key_spec::KeySpec;
use super::lock_effect::LockEffect;
use crate::base::profile::{Profile, Since};
use crate::protocol::Words;

/// The release from which on the log of slow commands is one of several.
const COMMAND_LOG: Since = Since::valkey(8, 1, 0);

/// A command, or a subcommand of a container such as CLIENT.
pub struct CommandSpec {
    /// In upper case. A subcommand has only its own name: `LIST`, not `CLIENT LIST`.
    pub name: &'static str,
    /// The arguments in the notation of redis.io (see `usage.rs`). COMMAND DOCS is generated from it.
    pub usage: &'static str,
    /// Usages of later releases. The last one that a profile has replaces `usage`.
    pub later_usages: &'static [(Since, &'static str)],
    pub summary: &'static str,
    pub complexity: &'static str,
    pub group: Group,
    pub since: Since,
    pub arity: Arity,
    /// Arities of later releases, chosen like `later_usages`.
    pub later_arities: &'static [(Since, Arity)],
    pub keys: &'static [KeySpec],
    pub flags: &'static [Flag],
    /// Flags of later releases, chosen like `later_usages`.
    pub later_flags: &'static [(Since, &'static [Flag])],
    /// ACL categories that do not follow from the flags.
    pub categories: &'static [Category],
    /// Hints for clients, as COMMAND INFO lists them.
    pub tips: &'static [&'static str],
    /// Hints of later releases, chosen like `later_usages`.
    pub later_tips: &'static [(Since, &'static [&'static str])],
    /// The release that deprecated the command, and its replacement.
    pub deprecated: Option<(&'static str, &'static str)>,
    /// Runs at once inside MULTI. Redis has no flag for that.
    pub never_queued: bool,
    /// Whether it comes upon keys that its arguments do not name.
    pub comes_upon_keys: bool,
    /// Allowed for a RESP2 client that is subscribed.
    pub runs_subscribed: bool,
    /// The databases that its arguments name.
    pub databases: DatabaseArgs,
    /// May change the client name that the journal records.
    pub names_client: bool,
    /// Needs a client, or a server that has started. See [`needs_client`](Self::needs_client).
    pub for_clients: bool,
    /// For tests of servers only (COMMAND DOCS: `syscmd`).
    pub for_server_tests: bool,
    /// The arguments that no record shows: see `redaction.rs`.
    pub secrets: Secrets,
    /// The arguments that are channels.
    pub channels: Channels,
    /// What it does to keys that are locks.
    pub lock_effect: LockEffect,
    /// Set by `Command::new`, from the handler.
    pub kind: CommandKind,
    /// Set by `Command::new`: the commands before it are counted when it runs. It reads what was counted, or counts
    /// commands itself, or its words do not stay where they are.
    pub reads_statistics: bool,
    /// Set by `Command::with_subcommands`.
    pub is_container: bool,
}

impl CommandSpec {
    /// A row with only a name. The other fields are set by struct update.
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
            later_flags: &[],
            categories: &[],
            tips: &[],
            later_tips: &[],
            deprecated: None,
            never_queued: false,
            comes_upon_keys: false,
            runs_subscribed: false,
            databases: DatabaseArgs::None,
            names_client: false,
            for_clients: false,
            for_server_tests: false,
            secrets: Secrets::None,
            channels: Channels::None,
            lock_effect: LockEffect::None,
            kind: CommandKind::Container,
            reads_statistics: false,
            is_container: false,
        }
    }

    /// Whether it needs the interpreters of scripts, as it runs one, or has to do with those that are loaded.
    #[inline]
    pub fn needs_scripts(&self) -> bool {
        matches!(self.kind, CommandKind::Script(_) | CommandKind::Library | CommandKind::Debug)
    }

    /// The row with what follows from the kind of its handler.
    pub const fn of_kind(self, kind: CommandKind) -> Self {
        let reads_statistics = match kind {
            CommandKind::Keys | CommandKind::Blocking | CommandKind::Database | CommandKind::Everything => false,
            CommandKind::Script(_) | CommandKind::Library | CommandKind::Transaction(TransactionCommand::Exec) => true,
            CommandKind::Connection | CommandKind::Debug | CommandKind::Transaction(_) | CommandKind::Container => {
                matches!(self.group, Group::Server)
            }
        };
        Self { kind, reads_statistics, ..self }
    }

    /// The same row under another name, for struct update by similar commands.
    pub const fn renamed(self, name: &'static str) -> Self {
        Self { name, ..self }
    }

    /// The only key of a request, if that is easily told, as for most.
    #[inline]
    pub fn only_key<'w>(&self, words: &[&'w [u8]]) -> Option<&'w [u8]> {
        let [keys] = self.keys else { return None };
        let position = keys.only_position(words).filter(|_| !self.is_container)?;
        words.get(position).copied()
    }

    /// Whether the first release with the command gave it a flag: for flags that no release changes.
    #[inline]
    pub fn has_flag(&self, flag: Flag) -> bool {
        self.flags.contains(&flag)
    }

    /// Whether the command makes sense for a client of a running server only, so that no file of commands can hold it.
    pub fn needs_client(&self) -> bool {
        let is_about_client = self.group == Group::Connection || self.has_flag(Flag::PubSub);
        self.for_clients || (is_about_client && self.has_flag(Flag::NoScript))
    }

    /// The flags in the release that a profile imitates.
    #[inline]
    pub fn flags_in(&self, profile: &Profile) -> &'static [Flag] {
        in_release(self.flags, self.later_flags, profile)
    }

    /// The hints for clients in the release that a profile imitates.
    pub fn tips_in(&self, profile: &Profile) -> &'static [&'static str] {
        in_release(self.tips, self.later_tips, profile)
    }

    /// Whether a request reads keys whose names it computes while it runs.
    #[inline]
    pub fn computes_keys(&self, words: Words<'_>) -> bool {
        self.keys.len() > 1 && self.keys.iter().any(|keys| keys.are_computed(words))
    }

    /// Whether a request could name other databases among its options, and names none.
    pub fn stays_in_database(&self, words: Words<'_>) -> bool {
        self.databases == DatabaseArgs::Options
            && !words.iter().skip(3).any(|option| option.eq_ignore_ascii_case(b"DB"))
    }

    /// The arity in the release that a profile imitates.
    #[inline]
    pub fn arity_in(&self, profile: &Profile) -> Arity {
        in_release(self.arity, self.later_arities, profile)
    }

    /// The usage in the release that a profile imitates.
    pub fn usage_in(&self, profile: &Profile) -> &'static str {
        in_release(self.usage, self.later_usages, profile)
    }

    /// All ACL categories in the release that a profile imitates, in Redis's order: the row's own and those implied by
    /// its flags.
    pub fn all_categories(&self, profile: &Profile) -> Vec<Category> {
        let implied = [
            (Flag::Write, &[Category::Write][..]),
            (Flag::ReadOnly, &[Category::Read]),
            (Flag::Admin, &[Category::Admin, Category::Dangerous]),
            (Flag::PubSub, &[Category::PubSub]),
            (Flag::Blocking, &[Category::Blocking]),
        ];
        let mut categories = self.categories.to_vec();
        // A command that only runs scripts is not in `@read`, even if it is read-only.
        let scripting = categories.contains(&Category::Scripting);
        let flags = self.flags_in(profile);
        let implies = |flag| flags.contains(&flag) && !(flag == Flag::ReadOnly && scripting);
        for (_, implied) in implied.iter().filter(|(flag, _)| implies(*flag)) {
            categories.extend_from_slice(implied);
        }
        categories.push(if flags.contains(&Flag::Fast) { Category::Fast } else { Category::Slow });
        categories.sort_unstable();
        categories.dedup();
        categories
    }
}

/// What the release that a profile imitates has: the last of the later values that it has, or the first value.
#[inline]
pub(super) fn in_release<T: Copy>(first: T, later: &[(Since, T)], profile: &Profile) -> T {
    later.iter().rev().find(|(since, _)| profile.has(*since)).map_or(first, |(_, later)| *later)
}

/// What a command's function receives, and so what it may touch. The function itself is in `commands`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandKind {
    /// Its keys, locked in one view.
    Keys,
    /// Like `Keys`, but the command may block until a key holds a value.
    Blocking,
    /// The whole selected database.
    Database,
    /// Every database.
    Everything,
    /// The connection and the server, no data.
    Connection,
    /// The selected database and the server. Only for DEBUG.
    Debug,
    /// Run by the engine: MULTI, EXEC, DISCARD, WATCH, UNWATCH.
    Transaction(TransactionCommand),
    /// Run by the engine: EVAL, EVALSHA, FCALL and their read-only forms.
    Script(ScriptCommand),
    /// The loaded scripts and functions, and the connection.
    Library,
    /// Nothing: a container of subcommands.
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
    /// EVAL and EVAL_RO.
    Eval { read_only: bool },
    /// EVALSHA and EVALSHA_RO.
    EvalSha { read_only: bool },
    /// FCALL and FCALL_RO.
    Function { read_only: bool },
}

/// The arguments that contain user names or passwords.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Secrets {
    None,
    /// All of them (AUTH).
    Credentials,
    /// Those of the option AUTH (HELLO).
    Handshake,
    /// All (ACL SETUSER).
    UserRules,
    /// The values of secret settings (CONFIG SET).
    Settings,
    /// None, but the reply may contain secret settings (CONFIG GET).
    SettingsInReply,
    /// None, but the reply is a password (ACL GENPASS).
    Reply,
    /// A script that may contain passwords, and what it is given (EVAL).
    Script,
    /// Those of a request that begins at this word (ACL DRYRUN).
    Request {
        at: usize,
    },
    /// Those of requests anywhere among the words (REDOUBLE).
    Requests,
}

/// The arguments that are channels, for ACL checks.
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

/// The arguments that are numbers of databases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatabaseArgs {
    /// The command works on the selected database, if on any.
    None,
    /// The first one, which the connection then uses (SELECT).
    Selected,
    /// The words at these positions.
    At(&'static [usize]),
    /// What follows each `DB` among the options behind the third word (COPY).
    Options,
    /// The command works on every database (FLUSHALL).
    All,
}

/// The number of words in a request, the command name included.
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

    /// Redis's number: negative for "at least".
    pub fn as_number(self) -> i64 {
        match self {
            Self::Exactly(count) => i64::from(count),
            Self::AtLeast(count) => -i64::from(count),
        }
    }
}

/// The groups of the documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    Bitmap,
    Cluster,
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
            Self::Cluster => "cluster",
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
    NoAsyncLoading,
    NoMulti,
    MovableKeys,
    AllowBusy,
}

impl Flag {
    /// Its name in the release that a profile imitates.
    pub fn name_in(self, profile: &Profile) -> &'static str {
        if self == Self::SkipSlowlog && profile.has(COMMAND_LOG) { "skip_commandlog" } else { self.name() }
    }

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
            Self::NoAsyncLoading => "no_async_loading",
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
    /// All categories, in Redis's order.
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

    /// The name in ACL rules, with the `@`.
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
