//! INFO: sections of `field:value` lines in Redis's order. Fields that have no meaning here are left out.

use std::fmt::{Display, Write};
use std::fs::read_to_string;
use std::path::Path;
use std::sync::atomic::Ordering;

use crate::base::error::CommandError;
use crate::base::profile::{Family, Since, Version};
use crate::clients::acl::DATABASE_RULES;
use crate::clients::instance::Instance;
use crate::clients::pubsub::SubscriptionKind;
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
    /// Shown by INFO without arguments.
    default: bool,
    since: Since,
    write: fn(&Instance, &mut Fields),
}

const fn section(title: &'static str, names: &'static [&'static str], write: fn(&Instance, &mut Fields)) -> Section {
    Section { title, names, default: true, since: Since::redis(1, 0, 0), write }
}

/// All sections, in the order of the reply.
const SECTIONS: &[Section] = &[
    section("Server", &["server"], server),
    section("Clients", &["clients"], clients),
    section("Memory", &["memory"], memory),
    section("Persistence", &["persistence"], persistence),
    section("Stats", &["stats"], stats),
    section("Replication", &["replication"], replication),
    section("CPU", &["cpu"], cpu),
    section("Modules", &["modules", "module_list"], |_, _| {}),
    Section { default: false, ..section("Commandstats", &["commandstats"], |_, _| {}) },
    section("Errorstats", &["errorstats"], errorstats),
    Section { default: false, since: Since::redis(7, 0, 0), ..section("Latencystats", &["latencystats"], |_, _| {}) },
    section("Cluster", &["cluster"], |_, fields| fields.add("cluster_enabled", 0)),
    section("Keyspace", &["keyspace"], keyspace),
    Section { default: false, ..section("Redouble", &["redouble"], redouble) },
];

fn info(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    if args.left() > 1 && !args.profile().since_redis(7, 0) {
        return Err(CommandError::SYNTAX);
    }
    let asked = |word: &str| args.rest().iter().any(|name| name.eq_ignore_ascii_case(word.as_bytes()));
    let all = asked("all") || asked("everything");
    let default = args.is_empty() || asked("default");
    let mut fields = Fields { text: String::with_capacity(4096), micros: call.micros() };
    for section in SECTIONS.iter().filter(|section| args.profile().has(section.since)) {
        if all || default && section.default || section.names.iter().any(|name| asked(name)) {
            fields.title(section.title);
            (section.write)(call.server, &mut fields);
        }
    }
    Ok(Reply::Verbatim("txt", fields.text.into_bytes().into()))
}

/// The text of the reply.
struct Fields {
    text: String,
    /// The time of the command, in microseconds.
    micros: i64,
}

impl Fields {
    fn title(&mut self, title: &str) {
        let blank = if self.text.is_empty() { "" } else { "\r\n" };
        let _ = write!(self.text, "{blank}# {title}\r\n");
    }

    fn add(&mut self, name: &str, value: impl Display) {
        let _ = write!(self.text, "{name}:{value}\r\n");
    }

    fn zeros(&mut self, names: &[&str]) {
        for name in names {
            self.add(name, 0);
        }
    }

    /// Adds a number of bytes, plain and human-readable.
    fn bytes(&mut self, name: &str, value: u64) {
        self.add(name, value);
        self.add(&format!("{name}_human"), human(value));
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

fn server(instance: &Instance, fields: &mut Fields) {
    let profile = &instance.profile;
    fields.add("redis_version", profile.redis_version());
    if profile.family() == Family::Valkey {
        fields.add("server_name", "valkey");
        fields.add("valkey_version", profile.version());
        fields.add("valkey_release_stage", "ga");
    }
    fields.add("redis_git_sha1", "00000000");
    fields.add("redis_git_dirty", 0);
    fields.add(if profile.family() == Family::Valkey { "server_mode" } else { "redis_mode" }, "standalone");
    let release = read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let system = match std::env::consts::OS {
        "linux" => "Linux",
        "macos" => "Darwin",
        other => other,
    };
    fields.add("os", format!("{system} {} {}", release.trim(), std::env::consts::ARCH));
    fields.add("arch_bits", usize::BITS);
    fields.add("multiplexing_api", if cfg!(target_os = "linux") { "epoll" } else { "kqueue" });
    fields.add("process_id", std::process::id());
    fields.add("process_supervised", "no");
    fields.add("run_id", instance.identity.run_id());
    fields.add("tcp_port", instance.identity.port.get().copied().unwrap_or(0));
    let micros = fields.micros;
    fields.add("server_time_usec", micros);
    let uptime = instance.clock.uptime().as_secs();
    fields.add("uptime_in_seconds", uptime);
    fields.add("uptime_in_days", uptime / 86_400);
    let hz = instance.config.text("hz");
    fields.add("hz", &hz);
    fields.add("configured_hz", &hz);
    fields.add("lru_clock", micros.div_euclid(1_000_000) & 0xff_ffff);
    let executable = std::env::current_exe().unwrap_or_default();
    fields.add("executable", executable.display());
    fields.add("config_file", instance.config.file().unwrap_or(Path::new("")).display());
    fields.add("io_threads_active", 0);
}

fn clients(instance: &Instance, fields: &mut Fields) {
    let all = instance.clients.all();
    let blocked = all.iter().filter(|client| client.seen().blocked.load(Ordering::Relaxed)).count();
    let timed = all.iter().filter(|client| client.seen().timed.load(Ordering::Relaxed)).count();
    fields.add("connected_clients", all.len());
    fields.add("cluster_connections", 0);
    fields.add("maxclients", instance.config.live().max_clients.load(Ordering::Relaxed));
    fields.add("blocked_clients", blocked);
    fields.add("tracking_clients", instance.tracking.totals().clients);
    fields.add("clients_in_timeout_table", timed);
    if instance.profile.has(Since::each(Version(7, 4, 0), Version(8, 0, 0))) {
        fields.add("pubsub_clients", instance.pubsub.clients());
    }
}

fn memory(instance: &Instance, fields: &mut Fields) {
    let used = instance.keyspace.used_bytes() as u64;
    let limit = instance.config.live().max_memory.load(Ordering::Relaxed) as u64;
    let resident = kilobytes("/proc/self/status", "VmRSS:");
    fields.bytes("used_memory", used);
    if let Some(resident) = resident {
        fields.bytes("used_memory_rss", resident);
    }
    fields.add("used_memory_dataset", used);
    if let Some(total) = kilobytes("/proc/meminfo", "MemTotal:") {
        fields.bytes("total_system_memory", total);
    }
    scripts(instance, fields);
    fields.bytes("maxmemory", limit);
    fields.add("maxmemory_policy", instance.config.text("maxmemory-policy"));
    if let Some(resident) = resident {
        fields.add("mem_fragmentation_ratio", format!("{:.2}", resident as f64 / used.max(1) as f64));
        fields.add("mem_fragmentation_bytes", resident as i64 - used as i64);
    }
    fields.zeros(&[
        "mem_not_counted_for_evict",
        "mem_replication_backlog",
        "mem_total_replication_buffers",
        "mem_clients_slaves",
        "mem_cluster_links",
        "mem_aof_buffer",
    ]);
    fields.add("mem_allocator", "libc");
    fields.zeros(&["active_defrag_running", "lazyfree_pending_objects", "lazyfreed_objects"]);
}

fn scripts(instance: &Instance, fields: &mut Fields) {
    let stats = instance.scripts.stats();
    let (eval, function) = (stats.eval_memory as u64, stats.function_memory as u64);
    if !instance.profile.since_redis(7, 0) {
        fields.bytes("used_memory_lua", eval);
        fields.bytes("used_memory_scripts", stats.script_text as u64);
        fields.add("number_of_cached_scripts", stats.scripts);
        return;
    }
    fields.add("used_memory_lua", eval);
    fields.add("used_memory_vm_eval", eval);
    fields.add("used_memory_lua_human", human(eval));
    fields.add("used_memory_scripts_eval", stats.script_text);
    fields.add("number_of_cached_scripts", stats.scripts);
    fields.add("number_of_functions", stats.functions);
    fields.add("number_of_libraries", stats.libraries);
    fields.add("used_memory_vm_functions", function);
    fields.bytes("used_memory_vm_total", eval + function);
    fields.add("used_memory_functions", stats.library_text);
    fields.bytes("used_memory_scripts", (stats.script_text + stats.library_text) as u64);
}

/// A value that a file of `/proc` gives in kilobytes, in bytes.
fn kilobytes(file: &str, name: &str) -> Option<u64> {
    let text = read_to_string(file).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok().map(|kilobytes: u64| kilobytes * 1024)
}

fn persistence(instance: &Instance, fields: &mut Fields) {
    fields.zeros(&["loading", "async_loading", "current_cow_peak", "current_cow_size", "current_cow_size_age"]);
    fields.add("current_fork_perc", "0.00");
    fields.zeros(&["current_save_keys_processed", "current_save_keys_total"]);
    let persistence = &instance.persistence;
    fields.add("rdb_changes_since_last_save", instance.unsaved_changes());
    fields.add("rdb_bgsave_in_progress", u8::from(persistence.is_in_background()));
    fields.add("rdb_last_save_time", persistence.last_save().div_euclid(1000));
    fields.add("rdb_last_bgsave_status", if persistence.is_last_ok() { "ok" } else { "err" });
    fields.add("rdb_last_bgsave_time_sec", persistence.last_seconds());
    fields.add("rdb_current_bgsave_time_sec", persistence.present_seconds(instance.clock.millis()));
    fields.add("rdb_saves", persistence.saves());
    fields.zeros(&["rdb_last_cow_size", "rdb_last_load_keys_expired"]);
    fields.add("rdb_last_load_keys_loaded", persistence.loaded_keys());
    fields.zeros(&["aof_enabled"]);
    // BGREWRITEAOF writes the snapshot.
    fields.add("aof_rewrite_in_progress", u8::from(persistence.is_in_background()));
    fields.zeros(&["aof_rewrite_scheduled"]);
    fields.add("aof_last_rewrite_time_sec", -1);
    fields.add("aof_current_rewrite_time_sec", -1);
    fields.add("aof_last_bgrewrite_status", "ok");
    fields.zeros(&["aof_rewrites", "aof_rewrites_consecutive_failures"]);
    fields.add("aof_last_write_status", "ok");
    fields.zeros(&["aof_last_cow_size", "module_fork_in_progress", "module_fork_last_cow_size"]);
}

/// The releases that evict scripts of EVAL.
const EVICTED_SCRIPTS: Since = Since::each(Version(7, 4, 0), Version(8, 0, 0));

fn stats(instance: &Instance, fields: &mut Fields) {
    let totals = instance.stats.totals();
    fields.add("total_connections_received", totals.connections);
    fields.add("total_commands_processed", totals.commands);
    fields.add("total_net_input_bytes", totals.input_bytes);
    fields.add("total_net_output_bytes", totals.output_bytes);
    fields.zeros(&["total_net_repl_input_bytes", "total_net_repl_output_bytes"]);
    fields.add("rejected_connections", totals.rejected_connections);
    fields.zeros(&["sync_full", "sync_partial_ok", "sync_partial_err"]);
    fields.add("expired_keys", totals.expired);
    fields.zeros(&["evicted_keys", "evicted_clients"]);
    if instance.profile.has(EVICTED_SCRIPTS) {
        fields.add("evicted_scripts", instance.scripts.stats().evicted);
    }
    fields.zeros(&["total_eviction_exceeded_time", "current_eviction_exceeded_time"]);
    fields.add("keyspace_hits", totals.hits);
    fields.add("keyspace_misses", totals.misses);
    fields.add("pubsub_channels", instance.pubsub.len(SubscriptionKind::Channel));
    fields.add("pubsub_patterns", instance.pubsub.len(SubscriptionKind::Pattern));
    if instance.profile.since_redis(7, 0) {
        fields.add("pubsubshard_channels", instance.pubsub.len(SubscriptionKind::ShardChannel));
    }
    fields.zeros(&[
        "latest_fork_usec",
        "total_forks",
        "migrate_cached_sockets",
        "slave_expires_tracked_keys",
        "active_defrag_hits",
        "active_defrag_misses",
        "active_defrag_key_hits",
        "active_defrag_key_misses",
        "total_active_defrag_time",
        "current_active_defrag_time",
    ]);
    let tracking = instance.tracking.totals();
    fields.add("tracking_total_keys", tracking.keys);
    fields.add("tracking_total_items", tracking.items);
    fields.add("tracking_total_prefixes", tracking.prefixes);
    fields.add("unexpected_error_replies", 0);
    fields.add("total_error_replies", totals.errors);
    fields.zeros(&["dump_payload_sanitizations", "io_threaded_reads_processed", "io_threaded_writes_processed"]);
    if instance.profile.since_redis(7, 2) {
        for (reason, count) in instance.acl.log.counts() {
            let reason = match reason {
                "command" => "cmd",
                "database" if !instance.profile.has(DATABASE_RULES) => continue,
                "database" => "db",
                reason => reason,
            };
            fields.add(&format!("acl_access_denied_{reason}"), count);
        }
    }
}

fn replication(instance: &Instance, fields: &mut Fields) {
    fields.add("role", "master");
    fields.add("connected_slaves", 0);
    fields.add("master_failover_state", "no-failover");
    fields.add("master_replid", instance.identity.replication_id());
    fields.add("master_replid2", "0".repeat(40));
    fields.add("master_repl_offset", 0);
    fields.add("second_repl_offset", -1);
    fields.add("repl_backlog_active", 0);
    fields.add("repl_backlog_size", 1 << 20);
    fields.zeros(&["repl_backlog_first_byte_offset", "repl_backlog_histlen"]);
}

fn cpu(_: &Instance, fields: &mut Fields) {
    /// The kernel's unit in `/proc` is 1/100 s, whatever its timer frequency.
    const TICKS: f64 = 100.0;
    let Some(process) = ticks("/proc/self/stat") else { return };
    let [user, system, children_user, children_system] = process.map(|ticks| ticks as f64 / TICKS);
    for (name, seconds) in [
        ("used_cpu_sys", system),
        ("used_cpu_user", user),
        ("used_cpu_sys_children", children_system),
        ("used_cpu_user_children", children_user),
    ] {
        fields.add(name, format!("{seconds:.6}"));
    }
    let Some(main) = ticks(&format!("/proc/self/task/{}/stat", std::process::id())) else { return };
    let [user, system, ..] = main.map(|ticks| ticks as f64 / TICKS);
    fields.add("used_cpu_sys_main_thread", format!("{system:.6}"));
    fields.add("used_cpu_user_main_thread", format!("{user:.6}"));
}

/// The user and system time of the process and of its children.
fn ticks(file: &str) -> Option<[u64; 4]> {
    let text = read_to_string(file).ok()?;
    // The second field is the program's name in brackets, which may contain any bytes.
    let (_, rest) = text.rsplit_once(") ")?;
    let mut times = rest.split_whitespace().skip(11).map(|field| field.parse().unwrap_or(0));
    Some([times.next()?, times.next()?, times.next()?, times.next()?])
}

fn errorstats(instance: &Instance, fields: &mut Fields) {
    for (code, count) in instance.stats.errors_by_code() {
        fields.add(&format!("errorstat_{}", String::from_utf8_lossy(&code)), format!("count={count}"));
    }
}

/// What no Redis has: only shown when it is asked for.
fn redouble(instance: &Instance, fields: &mut Fields) {
    fields.add("handler_panics", instance.panics());
}

fn keyspace(instance: &Instance, fields: &mut Fields) {
    let profile = &instance.profile;
    let partly_name = if profile.has(Since::redis(7, 4, 0)) {
        Some("subexpiry")
    } else {
        profile.has(Since::valkey(9, 0, 0)).then_some("keys_with_volatile_items")
    };
    for (db, [keys, volatile, partly]) in instance.keyspace.sizes() {
        let partly = partly_name.map_or_else(String::new, |name| format!(",{name}={partly}"));
        fields.add(&format!("db{db}"), format!("keys={keys},expires={volatile},avg_ttl=0{partly}"));
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
