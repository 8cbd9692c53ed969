//! INFO: sections of `field:value` lines, with the fields of the profile's release in its order. Clients read them into
//! records, so a field that means nothing here is there, too, with the value of a server that does not use the feature.
//!
//! This file has the sections that are short; [`process`], [`memory`] and [`stats`] have the others.

mod memory;
mod process;
mod stats;

use std::fmt::{Display, Write};
use std::sync::atomic::Ordering;

use super::sentinel::info_lines;
use crate::base::clock::Millis;
use crate::base::error::CommandError;
use crate::base::profile::{Profile, Since, Version};
use crate::clients::instance::{Instance, Primary, ReplicaState};
use crate::commands::{Call, Command, CommandResult, Handler};
use crate::protocol::Reply;
use crate::spec::{Args, Arity, Category, CommandSpec, Flag, Group};

pub(super) const ROWS: &[Command] = &[INFO];

const INFO: Command = Command::new(
    Handler::Connection(info),
    CommandSpec {
        usage: "[section [section ...]]",
        summary: "Shows what the server is and what it has done.",
        group: Group::Server,
        arity: Arity::AtLeast(1),
        flags: &[Flag::Loading, Flag::Stale],
        categories: &[Category::Dangerous],
        tips: &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"],
        ..CommandSpec::new("INFO")
    },
);

struct Section {
    title: &'static str,
    /// The arguments that select it.
    names: &'static [&'static str],
    shown: Shown,
    since: Since,
    write: fn(&Call<'_>, &mut Fields),
}

/// When a section is shown that is not asked for by name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    /// By INFO without arguments, `default`, `all` and `everything`.
    Always,
    /// By `all` and `everything`.
    InAll,
    /// Never: it is no section of Redis.
    Asked,
}

const fn section(title: &'static str, names: &'static [&'static str], write: fn(&Call<'_>, &mut Fields)) -> Section {
    Section { title, names, shown: Shown::Always, since: Since::redis(1, 0, 0), write }
}

/// All sections, in the order of the reply.
const SECTIONS: &[Section] = &[
    section("Server", &["server"], process::server),
    Section { shown: Shown::InAll, since: VALKEY_9_1, ..section("TLS", &["tls"], process::tls) },
    section("Clients", &["clients"], clients),
    section("Memory", &["memory"], memory::memory),
    section("Persistence", &["persistence"], persistence),
    Section { since: Since::redis(8, 0, 0), ..section("Threads", &["threads"], process::threads) },
    section("Stats", &["stats"], stats::stats),
    section("Replication", &["replication"], replication),
    section("CPU", &["cpu"], process::cpu),
    section("Modules", &["modules", "module_list"], process::modules),
    Section { shown: Shown::InAll, ..section("Commandstats", &["commandstats"], stats::commands) },
    section("Errorstats", &["errorstats"], stats::errors),
    Section {
        shown: Shown::InAll,
        since: Since::redis(7, 0, 0),
        ..section("Latencystats", &["latencystats"], stats::latencies)
    },
    section("Sentinel", &["sentinel"], sentinel),
    section("Cluster", &["cluster"], |_, fields| fields.add("cluster_enabled", 0)),
    Section { shown: Shown::InAll, since: VALKEY_9_1, ..section("Cluster Info", &["cluster_info"], |_, _| {}) },
    Section {
        shown: Shown::InAll,
        since: VALKEY_9_1,
        ..section("Scripting Engines", &["scriptingengines"], process::engines)
    },
    section("Keyspace", &["keyspace"], keyspace),
    Section { shown: Shown::Asked, ..section("Redouble", &["redouble"], redouble) },
];

/// The sections that a Sentinel has in common with other servers.
const OF_SENTINEL: &[&str] = &["Server", "Clients", "Stats", "CPU"];

/// What came to Valkey with a release that is not known; the one that was asked has it.
const VALKEY_9_1: Since = Since::valkey(9, 1, 0);
/// What came to both servers soon after they had parted.
const AFTER_FORK: Since = Since::each(Version(7, 4, 0), Version(8, 0, 0));

fn info(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    if args.left() > 1 && !args.profile().since_redis(7, 0) {
        return Err(CommandError::SYNTAX);
    }
    let asked = |word: &str| args.rest().iter().any(|name| name.eq_ignore_ascii_case(word.as_bytes()));
    let all = asked("everything") || asked("all");
    let default = args.is_empty() || asked("default");
    let mut fields = Fields { text: String::with_capacity(8192), micros: call.micros(), profile: *args.profile() };
    let is_sentinel = call.server.sentinel.is_some();
    let has = |section: &&Section| match section.title {
        "Sentinel" => is_sentinel,
        title => !is_sentinel || OF_SENTINEL.contains(&title),
    };
    for section in SECTIONS.iter().filter(|section| args.profile().has(section.since)).filter(has) {
        let is_shown = match section.shown {
            Shown::Always => all || default,
            Shown::InAll => all,
            Shown::Asked => false,
        };
        if is_shown || section.names.iter().any(|name| asked(name)) {
            fields.title(section.title);
            (section.write)(call, &mut fields);
        }
    }
    let text = fields.text.into_bytes();
    Ok(if is_sentinel { Reply::bulk(text) } else { Reply::Verbatim("txt", text.into()) })
}

/// The text of the reply.
struct Fields {
    text: String,
    /// The time of the command, in microseconds.
    micros: i64,
    profile: Profile,
}

impl Fields {
    fn title(&mut self, title: &str) {
        let blank = if self.text.is_empty() { "" } else { "\r\n" };
        let _ = write!(self.text, "{blank}# {title}\r\n");
    }

    fn add(&mut self, name: &str, value: impl Display) {
        let _ = write!(self.text, "{name}:{value}\r\n");
    }

    /// Adds a field that is not in every release.
    fn add_since(&mut self, since: Since, name: &str, value: impl Display) {
        if self.profile.has(since) {
            self.add(name, value);
        }
    }

    fn zeros(&mut self, names: &[&str]) {
        for name in names {
            self.add(name, 0);
        }
    }

    fn zeros_since(&mut self, since: Since, names: &[&str]) {
        if self.profile.has(since) {
            self.zeros(names);
        }
    }

    /// Adds a number of bytes, plain and human-readable.
    fn bytes(&mut self, name: &str, value: u64) {
        self.add(name, value);
        self.add(&format!("{name}_human"), human(value));
    }

    /// Adds a ratio with two decimals.
    fn ratio(&mut self, name: &str, value: f64) {
        self.add(name, format!("{value:.2}"));
    }
}

/// A number of bytes as Redis abbreviates it.
fn human(bytes: u64) -> String {
    const UNITS: [char; 5] = ['K', 'M', 'G', 'T', 'P'];
    if bytes < 1024 {
        return format!("{bytes}B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.2}{}", UNITS[unit])
}

/// What INFO tells of all connections, counted in one go.
#[derive(Default)]
struct ClientCounts {
    /// Without replicas.
    connected: usize,
    largest_input: usize,
    largest_output: usize,
    blocked: usize,
    timed: usize,
    watching: usize,
}

impl ClientCounts {
    fn of(instance: &Instance) -> Self {
        let mut counts = Self::default();
        instance.clients.visit(|client| {
            let seen = client.seen();
            counts.connected += usize::from(!seen.replica.load(Ordering::Relaxed));
            counts.largest_input = counts.largest_input.max(seen.input.load(Ordering::Relaxed));
            counts.largest_output = counts.largest_output.max(client.waiting());
            counts.blocked += usize::from(seen.blocked.load(Ordering::Acquire));
            counts.timed += usize::from(seen.timed.load(Ordering::Relaxed));
            counts.watching += usize::from(seen.watched.load(Ordering::Relaxed) > 0);
        });
        counts
    }
}

fn clients(call: &Call<'_>, fields: &mut Fields) {
    let instance = call.server;
    let counts = ClientCounts::of(instance);
    fields.add("connected_clients", counts.connected);
    fields.add("cluster_connections", 0);
    fields.add("maxclients", instance.config.live().max_clients.load(Ordering::Relaxed));
    fields.add("client_recent_max_input_buffer", counts.largest_input);
    fields.add("client_recent_max_output_buffer", counts.largest_output);
    fields.add("blocked_clients", counts.blocked);
    fields.add("tracking_clients", instance.tracking.totals().clients);
    fields.add_since(AFTER_FORK, "pubsub_clients", instance.pubsub.clients());
    fields.add_since(AFTER_FORK, "watching_clients", counts.watching);
    fields.add("clients_in_timeout_table", counts.timed);
    fields.add_since(AFTER_FORK, "total_watched_keys", instance.keyspace.watched_keys());
    if fields.profile.since_redis(7, 2) {
        let blocked = instance.clients.find(|client| client.seen().blocked.load(Ordering::Acquire));
        let blocked = blocked.iter().filter_map(|client| client.blocked_on_keys());
        // A consumer of a group is told, too, when its stream is gone.
        let on_missing: usize = blocked.filter(|(spec, _)| spec.name == "XREADGROUP").map(|(_, keys)| keys).sum();
        fields.add("total_blocking_keys", instance.keyspace.blocking_keys());
        fields.add("total_blocking_keys_on_nokey", on_missing);
    }
    if fields.profile.has(VALKEY_9_1) {
        let pause = instance.paused();
        fields.add("paused_reason", if pause.is_some() { "client_pause" } else { "none" });
        let actions = match pause {
            None => "none",
            Some((_, true)) => "write",
            Some((_, false)) => "all",
        };
        fields.add("paused_actions", actions);
        let left = pause.map_or(0, |(until, _)| until.saturating_sub(call.now()).max(0));
        fields.add("paused_timeout_milliseconds", left);
    }
}

fn persistence(call: &Call<'_>, fields: &mut Fields) {
    let instance = call.server;
    let seven = Since::redis(7, 0, 0);
    fields.zeros(&["loading"]);
    fields.zeros_since(seven, &["async_loading", "current_cow_peak"]);
    fields.zeros(&["current_cow_size", "current_cow_size_age"]);
    fields.ratio("current_fork_perc", 0.0);
    fields.zeros(&["current_save_keys_processed", "current_save_keys_total"]);
    let persistence = &instance.persistence;
    fields.add("rdb_changes_since_last_save", instance.unsaved_changes());
    fields.add("rdb_bgsave_in_progress", u8::from(persistence.is_in_background()));
    fields.add("rdb_last_save_time", persistence.last_save().div_euclid(1000));
    fields.add("rdb_last_bgsave_status", if persistence.is_last_ok() { "ok" } else { "err" });
    fields.add("rdb_last_bgsave_time_sec", persistence.last_seconds());
    fields.add("rdb_current_bgsave_time_sec", persistence.present_seconds(instance.clock.millis()));
    fields.add_since(seven, "rdb_saves", persistence.saves());
    fields.zeros(&["rdb_last_cow_size"]);
    fields.zeros_since(seven, &["rdb_last_load_keys_expired"]);
    fields.add_since(seven, "rdb_last_load_keys_loaded", persistence.loaded_keys());
    fields.zeros(&["aof_enabled"]);
    // BGREWRITEAOF writes the snapshot.
    fields.add("aof_rewrite_in_progress", u8::from(persistence.is_in_background()));
    fields.zeros(&["aof_rewrite_scheduled"]);
    fields.add("aof_last_rewrite_time_sec", -1);
    fields.add("aof_current_rewrite_time_sec", -1);
    fields.add("aof_last_bgrewrite_status", "ok");
    fields.zeros_since(seven, &["aof_rewrites", "aof_rewrites_consecutive_failures"]);
    fields.add("aof_last_write_status", "ok");
    fields.zeros(&["aof_last_cow_size", "module_fork_in_progress", "module_fork_last_cow_size"]);
    fields.zeros_since(Since::valkey(9, 0, 0), &["slot_migration_fork_in_progress"]);
}

fn replication(call: &Call<'_>, fields: &mut Fields) {
    let instance = call.server;
    let id = instance.identity.replication_id();
    fields.add("role", if instance.is_replica() { "slave" } else { "master" });
    if let Some(primary) = instance.primary() {
        replica(call, &primary, fields);
    }
    let stream = instance.replication_state();
    fields.add("connected_slaves", stream.replicas.len());
    let least = |name: &str| instance.config.number::<u32>(name);
    if least("min-replicas-to-write") != 0 && least("min-replicas-max-lag") != 0 {
        fields.add("min_slaves_good_slaves", instance.good_replicas());
    }
    let more = match () {
        () if fields.profile.has(Since::valkey(8, 0, 0)) => ",type=replica",
        () if fields.profile.has(Since::redis(8, 0, 0)) => ",io-thread=0",
        () => "",
    };
    for (place, ReplicaState { address, port, is_online, acknowledged, lag, .. }) in stream.replicas.iter().enumerate()
    {
        // A replica that waits for its snapshot has told nothing yet.
        let (state, lag) = if *is_online { ("online", *lag) } else { ("wait_bgsave", 0) };
        let state = format!("ip={address},port={port},state={state},offset={acknowledged},lag={lag}{more}");
        fields.add(&format!("slave{place}"), state);
    }
    fields.zeros_since(Since::valkey(8, 0, 0), &["replicas_waiting_psync"]);
    let failover = if instance.handover().is_some() { "waiting-for-sync" } else { "no-failover" };
    fields.add("master_failover_state", failover);
    // The former id holds up to the offset at which the server became a primary.
    let second_offset = if id.former.is_some() { id.former_until.to_string() } else { "-1".to_owned() };
    fields.add("master_replid", id.current);
    fields.add("master_replid2", id.former.unwrap_or_else(|| "0".repeat(40)));
    fields.add("master_repl_offset", stream.offset);
    fields.add("second_repl_offset", second_offset);
    fields.add("repl_backlog_active", u8::from(stream.is_on));
    fields.add("repl_backlog_size", instance.config.text("repl-backlog-size"));
    fields.add("repl_backlog_first_byte_offset", stream.first_byte);
    fields.add("repl_backlog_histlen", stream.kept);
}

/// What a replica tells of itself.
fn replica(call: &Call<'_>, primary: &Primary, fields: &mut Fields) {
    let config = &call.server.config;
    let link = call.server.master_link_state();
    // Of a primary that never answered, nothing is known.
    let was_up = link.is_up || link.down_for.is_some();
    let seconds = |millis: Millis| millis.div_euclid(1000);
    let offset = if was_up { link.offset } else { 0 };
    fields.add("master_host", String::from_utf8_lossy(&primary.host).into_owned());
    fields.add("master_port", primary.port);
    fields.add("master_link_status", if link.is_up { "up" } else { "down" });
    fields.add("master_last_io_seconds_ago", if link.is_up { seconds(link.silent_for) } else { -1 });
    fields.zeros(&["master_sync_in_progress"]);
    fields.add_since(Since::each(Version(7, 0, 0), Version(7, 2, 4)), "slave_read_repl_offset", offset);
    fields.add("slave_repl_offset", offset);
    fields.zeros_since(Since::redis(8, 0, 0), &["replica_full_sync_buffer_size", "replica_full_sync_buffer_peak"]);
    fields.zeros_since(Since::valkey(8, 0, 0), &["replicas_repl_buffer_size", "replicas_repl_buffer_peak"]);
    if !link.is_up {
        fields.add("master_link_down_since_seconds", link.down_for.map_or(-1, seconds));
    }
    fields.add("slave_priority", config.text("replica-priority"));
    fields.add("slave_read_only", u8::from(config.is_on("replica-read-only")));
    fields.add("replica_announced", u8::from(config.is_on("replica-announced")));
}

fn sentinel(call: &Call<'_>, fields: &mut Fields) {
    // It fails only while the process ends.
    for (name, value) in info_lines(call).unwrap_or_default() {
        fields.add(&name, value);
    }
}

/// What no Redis has: only shown when it is asked for.
fn redouble(call: &Call<'_>, fields: &mut Fields) {
    fields.add("handler_panics", call.server.panics());
}

fn keyspace(call: &Call<'_>, fields: &mut Fields) {
    let profile = fields.profile;
    let partly_name = if profile.has(Since::redis(7, 4, 0)) {
        Some("subexpiry")
    } else {
        profile.has(Since::valkey(9, 0, 0)).then_some("keys_with_volatile_items")
    };
    for (db, [keys, volatile, partly]) in call.server.keyspace.sizes() {
        let partly = partly_name.map_or_else(String::new, |name| format!(",{name}={partly}"));
        let average = call.server.keyspace.average_ttl(db, call.now());
        fields.add(&format!("db{db}"), format!("keys={keys},expires={volatile},avg_ttl={average}{partly}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_shortened_as_redis_shortens_them() {
        for (bytes, text) in [
            (0, "0B"),
            (1023, "1023B"),
            (1024, "1.00K"),
            (1_015_184, "991.39K"),
            (6_742_016, "6.43M"),
            (25_276_502_016, "23.54G"),
        ] {
            assert_eq!(human(bytes), text);
        }
    }
}
