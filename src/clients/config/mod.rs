//! Configuration: `redis-server`'s directives.
//!
//! A directive is one row in [`table`]. Flags, configuration files and CONFIG SET all use [`Directive::read`], so a
//! value has the same meaning and the same error text from every source.

mod directive;
mod file;
mod no_effect;
mod output_limit;
mod rewrite;
mod special;
mod table;
mod tls;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, RwLock};
use std::time::Duration;

use rustls::ServerConfig;

use crate::base::log::Level;
use crate::base::profile::Profile;
use crate::base::sync::{MutexExt, RwLockExt};
use crate::insight::audit::{Allowance, Scope};

pub use directive::{Change, Directive, Reason, parse_memory};
pub use file::{LoadError, Loaded, directive_names, load_over};
pub use output_limit::OutputLimit;
use table::TABLE;

/// The values of `enable-debug-command`.
pub const DEBUG_NO: u8 = 0;
pub const DEBUG_YES: u8 = 1;
pub const DEBUG_LOCAL: u8 = 2;

/// The settings that running code reads, in the form in which it reads them.
pub struct Live {
    pub max_clients: AtomicUsize,
    /// Seconds until an idle connection is closed; 0 for never.
    pub timeout: AtomicU64,
    /// Seconds until the peer of an idle connection is probed; 0 for never.
    pub keepalive: AtomicU32,
    pub max_bulk: AtomicI64,
    pub query_buffer_limit: AtomicUsize,
    /// The limits of unsent output, for normal clients and for subscribers.
    pub normal_output: OutputLimit,
    pub subscriber_output: OutputLimit,
    pub replica_output: OutputLimit,
    /// `notify-keyspace-events`, as bits: event classes and channels.
    pub events: AtomicU32,
    pub max_memory: AtomicUsize,
    /// `maxmemory-clients`; a negative number is a percentage of `maxmemory`.
    pub max_client_memory: AtomicI64,
    /// Whether one of these two is set.
    limits_memory: AtomicBool,
    /// Milliseconds until a running script makes other commands fail with BUSY; 0 for never.
    pub busy_threshold: AtomicU64,
    /// `slowlog-log-slower-than`, in microseconds; negative for never.
    pub slow_threshold: AtomicI64,
    /// `slowlog-max-len`.
    pub slow_log_length: AtomicUsize,
    /// `commandlog-request-larger-than` and `commandlog-reply-larger-than`, with the lengths of their logs.
    pub large_requests: LargeLimits,
    pub large_replies: LargeLimits,
    /// `latency-monitor-threshold`, in milliseconds; 0 for never.
    pub latency_threshold: AtomicU64,
    /// See [`notable_micros`](Self::notable_micros).
    notable_micros: AtomicU64,
    /// `latency-tracking`.
    pub latency_tracking: AtomicBool,
    /// `tracking-table-max-keys`; 0 for no limit.
    pub max_tracked_keys: AtomicUsize,
    /// `gate-timeout`, in microseconds of real time: the longest time for which a gate holds a command; 0 for no limit.
    pub gate_timeout: AtomicU64,
    pub protected_mode: AtomicBool,
    /// Whether SELECT enters the space that is named like the number.
    pub spaces_by_database: AtomicBool,
    /// `enable-debug-command`: the clients that may use DEBUG.
    pub debug_commands: AtomicU8,
    /// The lowest [`Level`] that is logged.
    pub log_level: AtomicU8,
    password: RwLock<Option<Vec<u8>>>,
    unix_socket: RwLock<Option<PathBuf>>,
    tls: RwLock<Option<Arc<ServerConfig>>>,
}

impl Default for Live {
    fn default() -> Self {
        Self {
            max_clients: AtomicUsize::new(10_000),
            timeout: AtomicU64::new(0),
            keepalive: AtomicU32::new(300),
            max_bulk: AtomicI64::new(512 << 20),
            query_buffer_limit: AtomicUsize::new(1 << 30),
            busy_threshold: AtomicU64::new(5000),
            normal_output: OutputLimit::new(1 << 30, 0, 0),
            subscriber_output: OutputLimit::new(32 << 20, 8 << 20, 60),
            replica_output: OutputLimit::new(256 << 20, 64 << 20, 60),
            events: AtomicU32::new(0),
            max_memory: AtomicUsize::new(0),
            max_client_memory: AtomicI64::new(0),
            limits_memory: AtomicBool::new(false),
            slow_threshold: AtomicI64::new(10_000),
            slow_log_length: AtomicUsize::new(128),
            large_requests: LargeLimits::default(),
            large_replies: LargeLimits::default(),
            latency_threshold: AtomicU64::new(0),
            notable_micros: AtomicU64::new(10_000),
            latency_tracking: AtomicBool::new(true),
            max_tracked_keys: AtomicUsize::new(1_000_000),
            gate_timeout: AtomicU64::new(60_000_000),
            protected_mode: AtomicBool::new(true),
            spaces_by_database: AtomicBool::new(false),
            debug_commands: AtomicU8::new(DEBUG_NO),
            log_level: AtomicU8::new(Level::Notice as u8),
            password: RwLock::new(None),
            unix_socket: RwLock::new(None),
            tls: RwLock::new(None),
        }
    }
}

/// Which requests or replies are logged because they are large, and how many of them.
pub struct LargeLimits {
    /// In bytes; negative for none.
    pub threshold: AtomicI64,
    pub length: AtomicUsize,
}

impl Default for LargeLimits {
    fn default() -> Self {
        Self { threshold: AtomicI64::new(-1), length: AtomicUsize::new(128) }
    }
}

impl LargeLimits {
    /// The least number of bytes that is logged.
    #[inline]
    pub fn least(&self) -> usize {
        usize::try_from(self.threshold.load(Ordering::Relaxed)).unwrap_or(usize::MAX)
    }
}

impl Live {
    /// `requirepass`, if it is set.
    pub fn password(&self) -> Option<Vec<u8>> {
        self.password.read_ignoring_poison().clone()
    }

    /// The limits of unsent output for a client.
    #[inline]
    pub fn output_limit(&self, subscriber: bool, replica: bool) -> &OutputLimit {
        match (subscriber, replica) {
            (_, true) => &self.replica_output,
            (true, false) => &self.subscriber_output,
            (false, false) => &self.normal_output,
        }
    }

    /// Whether the memory of keys or of clients is limited.
    #[inline]
    pub fn limits_memory(&self) -> bool {
        self.limits_memory.load(Ordering::Relaxed)
    }

    fn set_max_memory(&self, bytes: usize) {
        self.max_memory.store(bytes, Ordering::Relaxed);
        self.update_memory_limits();
    }

    fn set_max_client_memory(&self, value: i64) {
        self.max_client_memory.store(value, Ordering::Relaxed);
        self.update_memory_limits();
    }

    fn update_memory_limits(&self) {
        let is_limited =
            self.max_memory.load(Ordering::Relaxed) != 0 || self.max_client_memory.load(Ordering::Relaxed) != 0;
        self.limits_memory.store(is_limited, Ordering::Relaxed);
    }

    /// The least duration of a call that is worth a look by itself, in microseconds: for the slow log, or for the latency
    /// monitor.
    #[inline]
    pub fn notable_micros(&self) -> u64 {
        self.notable_micros.load(Ordering::Relaxed)
    }

    fn set_slow_threshold(&self, micros: i64) {
        self.slow_threshold.store(micros, Ordering::Relaxed);
        self.update_notable_micros();
    }

    fn set_latency_threshold(&self, millis: u64) {
        self.latency_threshold.store(millis, Ordering::Relaxed);
        self.update_notable_micros();
    }

    fn update_notable_micros(&self) {
        let slow = u64::try_from(self.slow_threshold.load(Ordering::Relaxed)).unwrap_or(u64::MAX);
        let latency = match self.latency_threshold.load(Ordering::Relaxed) {
            0 => u64::MAX,
            millis => millis.saturating_mul(1000),
        };
        self.notable_micros.store(slow.min(latency), Ordering::Relaxed);
    }

    /// Whether commands with large requests or replies are logged.
    #[inline]
    pub fn logs_large(&self) -> bool {
        self.large_requests.least() != usize::MAX || self.large_replies.least() != usize::MAX
    }

    /// Whether the distribution of durations is tracked.
    #[inline]
    pub fn tracks_latency(&self) -> bool {
        self.latency_tracking.load(Ordering::Relaxed)
    }

    /// Whether a client may use DEBUG.
    pub fn allows_debug(&self, local: bool) -> bool {
        match self.debug_commands.load(Ordering::Relaxed) {
            DEBUG_YES => true,
            DEBUG_LOCAL => local,
            _ => false,
        }
    }

    /// `unixsocket`, if it is set.
    pub fn unix_socket(&self) -> Option<PathBuf> {
        self.unix_socket.read_ignoring_poison().clone()
    }

    fn set_unix_socket(&self, path: Option<PathBuf>) {
        *self.unix_socket.write_ignoring_poison() = path;
    }

    /// What the next client over TLS is greeted with, if there is a port for it.
    pub fn tls(&self) -> Option<Arc<ServerConfig>> {
        self.tls.read_ignoring_poison().clone()
    }

    fn set_tls(&self, context: Arc<ServerConfig>) {
        *self.tls.write_ignoring_poison() = Some(context);
    }

    fn set_password(&self, password: Option<Vec<u8>>) {
        *self.password.write_ignoring_poison() = password;
    }
}

/// The configuration of one server.
#[derive(Default)]
pub struct Config {
    values: Mutex<Values>,
    live: Live,
    /// The target of CONFIG REWRITE.
    file: Option<PathBuf>,
    /// The rows of the directives that the file or a flag names.
    named: BTreeSet<usize>,
    /// Directives that the file or a flag names, and that only other profiles have.
    foreign: Vec<&'static str>,
    /// The users that the file declares: names and rules.
    users: Vec<Vec<Vec<u8>>>,
    /// The commands that the file renames, in its order.
    renames: Vec<Rename>,
}

/// A `rename-command`. Whether there is such a command is checked when the commands are known.
pub struct Rename {
    pub name: Vec<u8>,
    /// Empty if the command is removed.
    pub new: Vec<u8>,
    /// The number and the text of its line.
    pub line: (usize, Vec<u8>),
}

/// The values that differ from the defaults of a profile, by row index.
#[derive(Clone, Default)]
struct Values {
    profile: Profile,
    changed: BTreeMap<usize, Vec<u8>>,
}

/// All settings at some time.
#[derive(Clone, Default)]
pub struct Settings(Values);

/// Why CONFIG SET is refused.
#[derive(Debug)]
pub enum ConfigError {
    Unknown {
        name: Vec<u8>,
    },
    /// Some reasons are too long for the client; then they are for the log.
    Value {
        name: Vec<u8>,
        reason: Reason,
        log: Option<String>,
    },
}

impl Config {
    /// Copies the limit of what may wait to be sent to a replica. One that could not take what is kept for it would never
    /// come back to the end of the stream.
    pub fn limit_replica_output(&self) {
        let live = self.live();
        table::set_output_limit(&live.replica_output, &self.value("client-output-buffer-limit"), 1);
        live.replica_output.allow_at_least(self.number("repl-backlog-size"));
    }

    pub fn live(&self) -> &Live {
        &self.live
    }

    /// An independent copy of the settings for another server, without settings that name files, which both would
    /// share.
    pub fn copy(&self) -> Self {
        let copy = Self::default();
        let own = self.values().clone();
        copy.imitate(own.profile);
        let mut values = copy.values();
        for (place, value) in own.changed {
            store(&mut values, &copy.live, place, value);
        }
        for name in ["aclfile", "unixsocket"] {
            if let Some(place) = find_row(name.as_bytes()) {
                store(&mut values, &copy.live, place, Vec::new());
            }
        }
        drop(values);
        copy
    }

    /// Gives a setting its default value.
    pub fn forget(&self, name: &str) {
        if let Some(place) = find_row(name.as_bytes()) {
            let mut values = self.values();
            let default = default_of(&values, place);
            store(&mut values, &self.live, place, default);
        }
    }

    /// Takes the defaults of a profile for what is not set.
    pub fn imitate(&self, profile: Profile) {
        let mut values = self.values();
        values.profile = profile;
        for (place, row) in TABLE.iter().enumerate().filter(|(_, row)| !row.later_defaults.is_empty()) {
            let value = value_of(&values, place);
            if let Some(carry) = row.carry {
                carry(&self.live, &value);
            }
        }
    }

    /// The configuration file, if there is one.
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// The users that the configuration declares: names and rules.
    pub fn users(&self) -> &[Vec<Vec<u8>>] {
        &self.users
    }

    /// The commands that `rename-command` renames, in their order.
    pub fn renames(&self) -> &[Rename] {
        &self.renames
    }

    /// A setting in its form for CONFIG GET. Empty for an unknown name.
    pub fn value(&self, name: &str) -> Vec<u8> {
        find_row(name.as_bytes()).map(|place| value_of(&self.values(), place)).unwrap_or_default()
    }

    /// A setting as text.
    pub fn text(&self, name: &str) -> String {
        String::from_utf8_lossy(&self.value(name)).into_owned()
    }

    /// A numeric setting.
    pub fn number<N: std::str::FromStr + Default>(&self, name: &str) -> N {
        table::number(&self.value(name))
    }

    /// A setting of `yes` or `no`.
    pub fn is_on(&self, name: &str) -> bool {
        self.value(name) == b"yes"
    }

    /// A setting with a duration.
    pub fn duration(&self, name: &str) -> Duration {
        Duration::from_micros(special::micros(&self.value(name)))
    }

    /// A setting with a path, if it is not empty.
    pub fn path(&self, name: &str) -> Option<PathBuf> {
        Some(self.value(name)).filter(|value| !value.is_empty()).map(|value| table::path(&value))
    }

    /// A setting with a list of quoted paths.
    pub fn paths(&self, name: &str) -> Vec<PathBuf> {
        self.list(name).iter().map(|word| table::path(word)).collect()
    }

    /// The URLs of the real servers that instances stand in front of.
    pub fn upstreams(&self) -> Vec<String> {
        self.words("upstream")
    }

    /// A setting with a list of quoted words, as text.
    pub fn words(&self, name: &str) -> Vec<String> {
        self.list(name).iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect()
    }

    /// Whether real servers have the data.
    pub fn has_upstream(&self) -> bool {
        ["upstream", "upstream-cluster", "upstream-sentinel"].iter().any(|name| !self.value(name).is_empty())
    }

    /// How many sockets a client has: in front of a real server, a connection of its own to it, too.
    pub fn sockets_of_a_client(&self) -> usize {
        if self.has_upstream() { 2 } else { 1 }
    }

    /// A setting with a list of quoted words.
    fn list(&self, name: &str) -> Vec<Vec<u8>> {
        crate::protocol::split_line(&self.value(name)).unwrap_or_default()
    }

    /// The save points: seconds, and the changes that are enough after so many.
    pub fn save_points(&self) -> Vec<(i64, u64)> {
        let value = self.text("save");
        let numbers: Vec<i64> = value.split(' ').filter_map(|word| word.parse().ok()).collect();
        numbers.chunks_exact(2).map(|pair| (pair[0], pair[1].unsigned_abs())).collect()
    }

    /// The lock auditor's scope.
    pub fn lock_scope(&self) -> Scope {
        // The values were validated when they were set.
        let allowed = self.list("audit-allow");
        let allowed = allowed.iter().filter_map(|line| Allowance::parse(&String::from_utf8_lossy(line)).ok());
        Scope {
            locks: self.list("locks"),
            not_locks: self.list("not-locks"),
            resources: self.list("resources"),
            allowed: allowed.collect(),
            ..Scope::default()
        }
    }

    /// Sets a value that the server's own code chose.
    pub fn assign(&self, name: &str, value: impl Into<Vec<u8>>) {
        if let Some(place) = find_row(name.as_bytes()) {
            store(&mut self.values(), &self.live, place, value.into());
        }
    }

    /// Whether the file or a flag names a directive.
    pub fn is_named(&self, name: &str) -> bool {
        find_row(name.as_bytes()).is_some_and(|place| self.named.contains(&place))
    }

    /// All settings as they are now.
    pub fn settings(&self) -> Settings {
        Settings(self.values().clone())
    }

    /// Restores all settings.
    pub fn restore(&self, settings: &Settings) {
        let mut values = self.values();
        let changed: Vec<usize> = values.changed.keys().copied().collect();
        for place in changed.iter().filter(|place| !settings.0.changed.contains_key(place)) {
            let default = default_of(&values, *place);
            store(&mut values, &self.live, *place, default);
        }
        for (place, value) in &settings.0.changed {
            store(&mut values, &self.live, *place, value.clone());
        }
        let is_of_tls = |place: &usize| tls::CONTEXT.contains(&TABLE[*place].name);
        if changed.iter().any(is_of_tls)
            && self.live.tls().is_some()
            && let Ok(context) = tls::context(&values)
        {
            self.live.set_tls(context);
        }
    }

    /// The settings that a name or a pattern of CONFIG GET matches, each once and with the name under which it is shown.
    pub fn matching<'p>(&self, patterns: impl Iterator<Item = &'p [u8]>, profile: &Profile) -> Vec<(Vec<u8>, Vec<u8>)> {
        let values = self.values();
        let (mut found, mut known) = (Vec::new(), BTreeSet::new());
        for pattern in patterns {
            if !pattern.iter().any(|byte| b"[*?".contains(byte)) {
                if let Some((place, _)) = find(pattern, profile)
                    && known.insert(pattern.to_ascii_lowercase())
                {
                    found.push((pattern.to_vec(), shown_value(&values, place)));
                }
                continue;
            }
            for (place, row) in TABLE.iter().enumerate().filter(|(_, row)| row.is_listed(profile)) {
                for name in row.names(profile).map(str::as_bytes) {
                    if !known.contains(name) && crate::base::glob::matches(pattern, name, true) {
                        known.insert(name.to_vec());
                        found.push((name.to_vec(), shown_value(&values, place)));
                    }
                }
            }
        }
        found
    }

    /// There are fewer parameters than this, with their aliases.
    pub const MOST_PARAMETERS: usize = 2 * TABLE.len();

    /// Whether a parameter of CONFIG SET concerns the whole process, or its files.
    pub fn is_of_process(&self, name: &[u8], profile: &Profile) -> bool {
        find(name, profile).is_some_and(|(place, _)| {
            let row = &TABLE[place];
            matches!(row.change, Change::Protected)
                || ["maxclients", "loglevel"].contains(&row.name)
                || tls::CONTEXT.contains(&row.name)
        })
    }

    /// CONFIG SET: sets all of the pairs, or none.
    pub fn set(&self, pairs: &[(&[u8], &[u8])], profile: &Profile, is_local: bool) -> Result<(), ConfigError> {
        let mut values = self.values();
        let protected_may_change = match value_of_name(&values, "enable-protected-configs").as_slice() {
            b"no" => false,
            b"local" => is_local,
            _ => true,
        };
        let mut named: Vec<(usize, &'static str)> = Vec::new();
        for (name, _) in pairs {
            let refuse = |reason: Reason| ConfigError::Value { name: name.to_vec(), reason, log: None };
            let Some((place, canonical)) = find(name, profile) else {
                return Err(ConfigError::Unknown { name: name.to_vec() });
            };
            match TABLE[place].change {
                Change::AtStart => return Err(refuse("can't set immutable config".into())),
                Change::Protected if !protected_may_change => {
                    return Err(refuse("can't set protected config".into()));
                }
                _ => {}
            }
            // As in Redis, a name and its alias are two parameters.
            if named.contains(&(place, canonical)) {
                return Err(refuse("duplicate parameter".into()));
            }
            named.push((place, canonical));
        }
        let mut after = values.clone();
        for (at, ((place, name), (_, value))) in named.iter().zip(pairs).enumerate() {
            let row = &TABLE[*place];
            let before = value_of(&after, *place);
            let read = row.read(&words_of(row, value), &before, profile);
            let checked = read.and_then(|new| if new == before { Ok(new) } else { check(row, &new).map(|()| new) });
            match checked {
                Ok(new) => after.changed.insert(*place, new),
                Err(reason) => {
                    self.take_back(&mut values, &named[..=at]);
                    return Err(ConfigError::Value { name: name.as_bytes().to_vec(), reason, log: None });
                }
            };
        }
        let of_tls = named.iter().find(|(place, _)| tls::CONTEXT.contains(&TABLE[*place].name));
        if let Some((_, name)) = of_tls
            && self.live.tls().is_some()
        {
            let refuse = |failure| ConfigError::Value {
                name: name.as_bytes().to_vec(),
                reason: "Unable to update TLS configuration. Check server logs.".into(),
                log: Some(failure),
            };
            self.live.set_tls(tls::context(&after).map_err(refuse)?);
        }
        for (place, value) in after.changed {
            store(&mut values, &self.live, place, value);
        }
        Ok(())
    }

    /// Redis rolls a refused CONFIG SET back to the values of CONFIG GET, which can differ from the stored ones.
    fn take_back(&self, values: &mut Values, named: &[(usize, &'static str)]) {
        for (place, _) in named.iter().filter(|(place, _)| TABLE[*place].shown.is_some()) {
            let shown = shown_value(values, *place);
            store(values, &self.live, *place, shown);
        }
    }

    /// CONFIG REWRITE. `None` without a configuration file. `users` are the lines of all users, unless they have a file
    /// of their own.
    pub fn rewrite(&self, profile: &Profile, users: &[Vec<u8>]) -> Option<std::io::Result<()>> {
        let file = self.file.as_deref()?;
        Some(rewrite::rewrite(file, &self.values(), users, profile))
    }

    fn values(&self) -> MutexGuard<'_, Values> {
        self.values.lock_ignoring_poison()
    }
}

/// Checks that need the running server.
fn check(row: &Directive, new: &[u8]) -> Result<(), Reason> {
    if let Change::Settled(reason) = row.change {
        return Err(reason.into());
    }
    if row.name == "maxclients" {
        let clients = table::number(new);
        // In front of a real server, CONFIG SET is that server's, so each client here has one socket.
        if let Err(possible) = crate::base::files::allow_clients(clients, 1) {
            let text = "The operating system is not able to handle the specified number of clients, try with";
            return Err(format!("{text} {possible}").into());
        }
    }
    Ok(())
}

/// The words of a value of CONFIG SET. Every single blank is a separator.
fn words_of<'a>(row: &Directive, value: &'a [u8]) -> Vec<&'a [u8]> {
    if !row.takes_several_words() {
        vec![value]
    } else if value.is_empty() {
        Vec::new()
    } else {
        value.split(|&byte| byte == b' ').collect()
    }
}

fn store(values: &mut Values, live: &Live, place: usize, value: Vec<u8>) {
    let row = &TABLE[place];
    if let Some(carry) = row.carry {
        carry(live, &value);
    }
    if value == default_of(values, place) {
        values.changed.remove(&place);
    } else {
        values.changed.insert(place, value);
    }
}

fn default_of(values: &Values, place: usize) -> Vec<u8> {
    TABLE[place].default_in(&values.profile).as_bytes().to_vec()
}

fn value_of(values: &Values, place: usize) -> Vec<u8> {
    values.changed.get(&place).cloned().unwrap_or_else(|| default_of(values, place))
}

fn shown_value(values: &Values, place: usize) -> Vec<u8> {
    let value = value_of(values, place);
    TABLE[place].shown.map_or_else(|| value.clone(), |shown| shown(&value))
}

fn value_of_name(values: &Values, name: &str) -> Vec<u8> {
    find_row(name.as_bytes()).map(|place| value_of(values, place)).unwrap_or_default()
}

/// A directive of a profile: its row index and the name by which it was found.
fn find(name: &[u8], profile: &Profile) -> Option<(usize, &'static str)> {
    // This server's name of Redis's I/O threads, which is listed only under Redis's name.
    let name = if name.eq_ignore_ascii_case(b"threads") { b"io-threads" } else { name };
    TABLE.iter().enumerate().find_map(|(place, row)| {
        let found = row.names(profile).find(|known| known.as_bytes().eq_ignore_ascii_case(name))?;
        Some((place, found))
    })
}

fn find_row(name: &[u8]) -> Option<usize> {
    TABLE.iter().position(|row| row.name.as_bytes() == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_protected_changes_for_local_clients_only_if_that_is_asked_for() {
        let may_change = |setting: &str, is_local| {
            let config = Config::default();
            config.assign("enable-protected-configs", setting);
            config.set(&[(b"dbfilename", b"other.rdb")], &Profile::default(), is_local).is_ok()
        };
        assert!(!may_change("no", true) && !may_change("no", false));
        assert!(may_change("local", true) && !may_change("local", false));
        assert!(may_change("yes", true) && may_change("yes", false));
    }
}
