//! The table of directives: all of Redis 7.0, and those that later servers and this one add.

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::atomic::Ordering::Relaxed;

use super::directive::{Directive, ReadWords, Reason, SettingKind};
use super::special;
use super::{DEBUG_LOCAL, DEBUG_NO, DEBUG_YES, OutputLimit};
use crate::base::log::Level;
use crate::base::profile::{Since, Version};
use crate::powers::{LEAST_SIZE, MOST_SIZE};

const INT: i64 = i32::MAX as i64;
const UINT: i64 = u32::MAX as i64;
const LONG: i64 = i64::MAX;
const LONG_MEMORY: u64 = i64::MAX as u64;
const PERMISSION: &[&str] = &["no", "yes", "local"];
const SEVEN: Since = Since::redis(7, 0, 0);
const NO_CLUSTER_TLS: &str =
    "this server has no cluster bus and no replication, so it speaks TLS with its clients only";
const NO_CERTIFICATE_USERS: &str = "clients log in with AUTH here, whatever their certificates say";
const NO_PASSPHRASES: &str = "only keys without a passphrase can be read";
const NO_RDMA: &str = "this server speaks no RDMA";
const NO_MPTCP: &str = "this server speaks no Multipath TCP";
const LISTENING: &str = "this server cannot change where it listens while it runs";
const NO_DEFRAGMENTATION: &str = "Active defragmentation cannot be enabled: it requires a Redis server compiled with a modified Jemalloc like the \
     one shipped by default with the Redis source distribution";

/// The rows. The index of a row is its number in the rest of the crate.
pub(super) static TABLE: &[Directive] = &[
    // Network and access.
    words("bind", "127.0.0.1 -::1", special::bind).fixed(LISTENING),
    text("bind-source-addr", "").since(SEVEN),
    integer("port", "6379", 0, 65535).fixed(LISTENING),
    text("unixsocket", "")
        .at_start()
        .mirrored(|live, value| live.set_unix_socket((!value.is_empty()).then(|| path(value)))),
    Directive::new("unixsocketperm", "0", SettingKind::Octal { most: 0o777 }).at_start(),
    integer("tcp-backlog", "511", 0, INT).at_start(),
    integer("tcp-keepalive", "300", 0, INT).mirrored(|live, value| live.keepalive.store(number(value), Relaxed)),
    integer("timeout", "0", 0, INT).mirrored(|live, value| live.timeout.store(number(value), Relaxed)),
    integer("maxclients", "10000", 1, UINT).mirrored(|live, value| live.max_clients.store(number(value), Relaxed)),
    switch("protected-mode", "yes").mirrored(|live, value| live.protected_mode.store(value == b"yes", Relaxed)),
    text("requirepass", "").mirrored(|live, value| live.set_password((!value.is_empty()).then(|| value.to_vec()))),
    integer("socket-mark-id", "0", 0, UINT).at_start().since(SEVEN),
    choice("acl-pubsub-default", "resetchannels", &["allchannels", "resetchannels"]),
    integer("acllog-max-len", "128", 0, LONG),
    text("aclfile", "").at_start(),
    // The process.
    switch("daemonize", "no").at_start(),
    text("pidfile", "").at_start(),
    choice("supervised", "no", &["upstart", "systemd", "auto", "no"]).at_start(),
    custom("dir", "", special::directory).protected(),
    text("logfile", "").at_start(),
    choice("loglevel", "notice", &["debug", "verbose", "notice", "warning"])
        .later_kind(SEVEN_2, SettingKind::Choice(&["debug", "verbose", "notice", "warning", "nothing"]))
        .mirrored(|live, value| live.log_level.store(level(value), Relaxed)),
    switch("syslog-enabled", "no").at_start(),
    text("syslog-ident", "redis").at_start().later_defaults(&[(VALKEY_8, "valkey")]),
    choice(
        "syslog-facility",
        "local0",
        &["user", "local0", "local1", "local2", "local3", "local4", "local5", "local6", "local7"],
    )
    .at_start(),
    switch("always-show-logo", "no").at_start(),
    switch("set-proc-title", "yes").at_start(),
    checked("proc-title-template", "{title} {listen-addr} {server-mode}", special::title_template),
    custom("databases", "16", special::databases).at_start(),
    integer("io-threads", "1", 1, 128).at_start(),
    switch("io-threads-do-reads", "no").at_start().until(BOTH_8_0),
    custom("hz", "10", special::hz),
    switch("dynamic-hz", "yes").until(VALKEY_9),
    choice("enable-debug-command", "no", PERMISSION)
        .at_start()
        .since(SEVEN)
        .mirrored(|live, value| live.debug_commands.store(permission(value), Relaxed)),
    choice("enable-module-command", "no", PERMISSION).at_start().since(SEVEN),
    choice("enable-protected-configs", "no", PERMISSION).at_start().since(SEVEN),
    integer("shutdown-timeout", "10", 0, INT).since(SEVEN),
    words("shutdown-on-sigint", "default", special::on_signal).since(SEVEN).later_kind(VALKEY_9, VALKEY_SIGNALS),
    words("shutdown-on-sigterm", "default", special::on_signal).since(SEVEN).later_kind(VALKEY_9, VALKEY_SIGNALS),
    text("server_cpulist", "").at_start().later_name(BOTH_7_4, "server-cpulist"),
    text("bio_cpulist", "").at_start().later_name(BOTH_7_4, "bio-cpulist"),
    text("aof_rewrite_cpulist", "").at_start().later_name(BOTH_7_4, "aof-rewrite-cpulist"),
    text("bgsave_cpulist", "").at_start().later_name(BOTH_7_4, "bgsave-cpulist"),
    switch("crash-log-enabled", "yes"),
    switch("crash-memcheck-enabled", "yes"),
    text("ignore-warnings", ""),
    switch("disable-thp", "yes").at_start(),
    switch("jemalloc-bg-thread", "yes"),
    custom("oom-score-adj", "no", special::oom_score_adj),
    words("oom-score-adj-values", "0 200 800", special::oom_score_adj_values),
    // Limits on clients and memory.
    memory("client-query-buffer-limit", "1073741824", 1_048_576, LONG_MEMORY)
        .mirrored(|live, value| live.query_buffer_limit.store(number(value), Relaxed)),
    words(
        "client-output-buffer-limit",
        "normal 1073741824 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60",
        special::buffer_limits,
    )
    .mirrored(|live, value| {
        set_output_limit(&live.normal_output, value, 0);
        set_output_limit(&live.subscriber_output, value, 2);
    }),
    memory("proto-max-bulk-len", "536870912", 1_048_576, LONG_MEMORY)
        .mirrored(|live, value| live.max_bulk.store(number(value), Relaxed)),
    memory("maxmemory", "0", 0, u64::MAX).mirrored(|live, value| live.set_max_memory(number(value))),
    choice(
        "maxmemory-policy",
        "noeviction",
        &[
            "volatile-lru",
            "volatile-lfu",
            "volatile-random",
            "volatile-ttl",
            "allkeys-lru",
            "allkeys-lfu",
            "allkeys-random",
            "noeviction",
        ],
    ),
    integer("maxmemory-samples", "5", 1, INT).later_kind(BOTH_7_4, SettingKind::Integer { least: 1, most: 64 }),
    Directive::new("maxmemory-clients", "0", SettingKind::MemoryOrPercent)
        .since(SEVEN)
        .mirrored(|live, value| live.set_max_client_memory(memory_or_percent(value))),
    integer("maxmemory-eviction-tenacity", "10", 0, 100),
    // Statistics and notifications.
    integer("slowlog-log-slower-than", "10000", -1, LONG)
        .later_name(VALKEY_8_1, "commandlog-execution-slower-than")
        .mirrored(|live, value| live.set_slow_threshold(number(value))),
    integer("slowlog-max-len", "128", 0, LONG)
        .later_name(VALKEY_8_1, "commandlog-slow-execution-max-len")
        .mirrored(|live, value| live.slow_log_length.store(number(value), Relaxed)),
    integer("latency-monitor-threshold", "0", 0, LONG)
        .mirrored(|live, value| live.set_latency_threshold(number(value))),
    switch("latency-tracking", "yes")
        .since(SEVEN)
        .mirrored(|live, value| live.latency_tracking.store(value == b"yes", Relaxed)),
    words("latency-tracking-info-percentiles", "50 99 99.9", special::percentiles).since(SEVEN),
    custom("notify-keyspace-events", "", special::events)
        .mirrored(|live, value| live.events.store(special::event_bits(value), Relaxed))
        .shown_as(special::shown_events),
    integer("tracking-table-max-keys", "1000000", 0, LONG)
        .mirrored(|live, value| live.max_tracked_keys.store(number(value), Relaxed)),
    // Persistence, which this server does not have.
    switch("aof-disable-auto-gc", "no").since(SEVEN).hidden_since(SEVEN_2),
    switch("aof-load-truncated", "yes"),
    switch("aof-rewrite-incremental-fsync", "yes"),
    switch("aof-timestamp-enabled", "no").since(SEVEN),
    switch("aof-use-rdb-preamble", "yes"),
    checked("appenddirname", "appendonlydir", special::append_directory_name).at_start().since(SEVEN),
    checked("appendfilename", "appendonly.aof", special::append_file_name).at_start(),
    choice("appendfsync", "everysec", &["everysec", "always", "no"]),
    switch("appendonly", "no"),
    memory("auto-aof-rewrite-min-size", "67108864", 0, LONG_MEMORY),
    integer("auto-aof-rewrite-percentage", "100", 0, INT),
    checked("dbfilename", "dump.rdb", special::dump_file_name).protected(),
    switch("no-appendfsync-on-rewrite", "no"),
    switch("rdb-del-sync-files", "no"),
    switch("rdb-save-incremental-fsync", "yes"),
    switch("rdbchecksum", "yes").at_start(),
    switch("rdbcompression", "yes"),
    choice("sanitize-dump-payload", "no", &["no", "yes", "clients"]).until(VALKEY_9),
    words("save", "3600 1 300 100 60 10000", special::save),
    switch("stop-writes-on-bgsave-error", "yes"),
    // Replication: not supported either.
    text("masterauth", "").later_name(VALKEY_8, "primaryauth"),
    text("masteruser", "").later_name(VALKEY_8, "primaryuser"),
    integer("min-replicas-max-lag", "10", 0, INT).alias("min-slaves-max-lag"),
    integer("min-replicas-to-write", "0", 0, INT).alias("min-slaves-to-write"),
    choice("propagation-error-behavior", "ignore", &["ignore", "panic", "panic-on-replicas"]).since(SEVEN),
    custom("repl-backlog-size", "1048576", special::backlog_size).later_defaults(&[(VALKEY_8, "10485760")]),
    integer("repl-backlog-ttl", "3600", 0, LONG),
    switch("repl-disable-tcp-nodelay", "no"),
    choice("repl-diskless-load", "disabled", &["disabled", "on-empty-db", "swapdb"])
        .later_kind(VALKEY_8_1, SettingKind::Choice(&["disabled", "on-empty-db", "swapdb", "flush-before-load"])),
    switch("repl-diskless-sync", "no").later_defaults(&[(SEVEN, "yes")]),
    integer("repl-diskless-sync-delay", "5", 0, INT),
    integer("repl-diskless-sync-max-replicas", "0", 0, INT).since(SEVEN),
    integer("repl-ping-replica-period", "10", 1, INT).alias("repl-ping-slave-period"),
    integer("repl-timeout", "60", 1, INT),
    text("replica-announce-ip", "").alias("slave-announce-ip"),
    integer("replica-announce-port", "0", 0, 65535).alias("slave-announce-port"),
    switch("replica-announced", "yes"),
    switch("replica-ignore-disk-write-errors", "no").since(SEVEN),
    switch("replica-ignore-maxmemory", "yes").alias("slave-ignore-maxmemory"),
    switch("replica-lazy-flush", "no").alias("slave-lazy-flush").later_defaults(FREES_LATER),
    integer("replica-priority", "100", 0, INT).alias("slave-priority"),
    switch("replica-read-only", "yes").alias("slave-read-only"),
    switch("replica-serve-stale-data", "yes").alias("slave-serve-stale-data"),
    words("replicaof", "", special::replica_of)
        .alias("slaveof")
        .at_start()
        .only_default("this server follows no other"),
    // Clusters: not supported either.
    switch("cluster-allow-pubsubshard-when-down", "yes").since(SEVEN),
    switch("cluster-allow-reads-when-down", "no"),
    switch("cluster-allow-replica-migration", "yes"),
    integer("cluster-announce-bus-port", "0", 0, 65535),
    checked("cluster-announce-hostname", "", special::host_name).since(SEVEN),
    text("cluster-announce-ip", ""),
    integer("cluster-announce-port", "0", 0, 65535),
    integer("cluster-announce-tls-port", "0", 0, 65535),
    text("cluster-config-file", "nodes.conf").at_start(),
    switch("cluster-enabled", "no").at_start().only_default("this server does not run as a cluster"),
    memory("cluster-link-sendbuf-limit", "0", 0, u64::MAX).since(SEVEN),
    integer("cluster-migration-barrier", "1", 0, INT),
    integer("cluster-node-timeout", "15000", 0, LONG),
    integer("cluster-port", "0", 0, 65535).at_start().since(SEVEN),
    choice("cluster-preferred-endpoint-type", "ip", &["ip", "hostname", "unknown-endpoint"]).since(SEVEN),
    switch("cluster-replica-no-failover", "no").alias("cluster-slave-no-failover"),
    integer("cluster-replica-validity-factor", "10", 0, INT).alias("cluster-slave-validity-factor"),
    switch("cluster-require-full-coverage", "yes"),
    // Encryption: not supported either.
    choice("tls-auth-clients", "yes", &["no", "yes", "optional"]),
    text("tls-ca-cert-dir", ""),
    text("tls-ca-cert-file", ""),
    text("tls-cert-file", ""),
    text("tls-ciphers", ""),
    text("tls-ciphersuites", ""),
    text("tls-client-cert-file", ""),
    text("tls-client-key-file", ""),
    text("tls-client-key-file-pass", ""),
    switch("tls-cluster", "no").only_default(NO_CLUSTER_TLS),
    text("tls-dh-params-file", ""),
    text("tls-key-file", ""),
    text("tls-key-file-pass", "").only_default(NO_PASSPHRASES),
    integer("tls-port", "0", 0, 65535).fixed(LISTENING),
    switch("tls-prefer-server-ciphers", "no"),
    text("tls-protocols", ""),
    switch("tls-replication", "no").only_default(NO_CLUSTER_TLS),
    integer("tls-session-cache-size", "20480", 0, INT),
    integer("tls-session-cache-timeout", "300", 0, INT),
    switch("tls-session-caching", "yes"),
    // Encodings and memory.
    integer("active-defrag-cycle-max", "25", 1, 99),
    integer("active-defrag-cycle-min", "1", 1, 99),
    memory("active-defrag-ignore-bytes", "104857600", 1, LONG_MEMORY),
    integer("active-defrag-max-scan-fields", "1000", 1, LONG),
    integer("active-defrag-threshold-lower", "10", 0, 1000),
    integer("active-defrag-threshold-upper", "100", 0, 1000),
    integer("active-expire-effort", "1", 1, 10),
    switch("activedefrag", "no").only_default(NO_DEFRAGMENTATION),
    switch("activerehashing", "yes"),
    integer("busy-reply-threshold", "5000", 0, LONG)
        .alias("lua-time-limit")
        .since(SEVEN)
        .mirrored(|live, value| live.busy_threshold.store(number(value), Relaxed)),
    integer("hash-max-listpack-entries", "512", 0, LONG).alias("hash-max-ziplist-entries").since(SEVEN),
    memory("hash-max-listpack-value", "64", 0, LONG_MEMORY).alias("hash-max-ziplist-value").since(SEVEN),
    memory("hll-sparse-max-bytes", "3000", 0, LONG_MEMORY),
    switch("lazyfree-lazy-eviction", "no").later_defaults(FREES_LATER),
    switch("lazyfree-lazy-expire", "no").later_defaults(FREES_LATER),
    switch("lazyfree-lazy-server-del", "no").later_defaults(FREES_LATER),
    switch("lazyfree-lazy-user-del", "no").later_defaults(FREES_LATER),
    switch("lazyfree-lazy-user-flush", "no").later_defaults(FREES_LATER),
    integer("lfu-decay-time", "1", 0, INT),
    integer("lfu-log-factor", "10", 0, INT),
    integer("list-compress-depth", "0", 0, INT),
    integer("list-max-listpack-size", "-2", -INT - 1, INT).alias("list-max-ziplist-size").since(SEVEN),
    integer("set-max-intset-entries", "512", 0, LONG),
    memory("stream-node-max-bytes", "4096", 0, LONG_MEMORY),
    integer("stream-node-max-entries", "100", 0, LONG),
    integer("zset-max-listpack-entries", "128", 0, LONG).alias("zset-max-ziplist-entries").since(SEVEN),
    memory("zset-max-listpack-value", "64", 0, LONG_MEMORY).alias("zset-max-ziplist-value").since(SEVEN),
    // Added by later servers.
    integer("set-max-listpack-entries", "128", 0, LONG).since(Since::redis(7, 2, 0)),
    integer("set-max-listpack-value", "64", 0, LONG).since(Since::redis(7, 2, 0)),
    checked("cluster-announce-human-nodename", "", special::node_name).since(Since::redis(7, 2, 0)),
    text("locale-collate", "").since(Since::redis(7, 2, 0)),
    integer("max-new-connections-per-cycle", "10", 1, 1000).since(BOTH_7_4),
    integer("max-new-tls-connections-per-cycle", "1", 1, 1000).since(BOTH_7_4),
    switch("hide-user-data-from-log", "no").since(BOTH_7_4).later_defaults(&[(VALKEY_8, "yes")]),
    memory("replica-full-sync-buffer-limit", "0", 0, LONG_MEMORY).since(Since::redis(8, 0, 0)),
    integer("cluster-compatibility-sample-ratio", "0", 0, 100).since(Since::redis(8, 0, 0)),
    text("availability-zone", "").since(VALKEY_8),
    switch("import-mode", "no").since(VALKEY_8_1),
    switch("extended-redis-compatibility", "no").since(VALKEY_8),
    switch("dual-channel-replication-enabled", "no").since(VALKEY_8),
    integer("prefetch-batch-max-size", "16", 0, 128).since(VALKEY_8),
    text("unixsocketgroup", "").at_start().since(VALKEY_8),
    integer("commandlog-request-larger-than", "1048576", -1, LONG)
        .since(VALKEY_8_1)
        .mirrored(|live, value| live.large_requests.threshold.store(number(value), Relaxed)),
    integer("commandlog-large-request-max-len", "128", 0, LONG)
        .since(VALKEY_8_1)
        .mirrored(|live, value| live.large_requests.length.store(number(value), Relaxed)),
    integer("commandlog-reply-larger-than", "1048576", -1, LONG)
        .since(VALKEY_8_1)
        .mirrored(|live, value| live.large_replies.threshold.store(number(value), Relaxed)),
    integer("commandlog-large-reply-max-len", "128", 0, LONG)
        .since(VALKEY_8_1)
        .mirrored(|live, value| live.large_replies.length.store(number(value), Relaxed)),
    switch("cluster-slot-stats-enabled", "no").since(Since::each(Version(8, 2, 0), Version(8, 0, 0))),
    integer("events-per-io-thread", "2", 0, INT).since(VALKEY_8).until(VALKEY_9),
    integer("cluster-blacklist-ttl", "60", 0, LONG).since(VALKEY_8),
    checked("cluster-announce-client-ipv4", "", special::ip_v4).since(VALKEY_8),
    checked("cluster-announce-client-ipv6", "", special::ip_v6).since(VALKEY_8),
    integer("active-defrag-cycle-us", "500", 0, 100_000).since(VALKEY_8_1),
    integer("cluster-manual-failover-timeout", "5000", 1, INT).since(VALKEY_8_1),
    choice("log-format", "legacy", &["legacy", "logfmt", "json"]).since(VALKEY_8_1),
    choice("log-timestamp-format", "legacy", &["legacy", "iso8601", "milliseconds"]).since(VALKEY_8_1),
    words("rdma-bind", "", special::bind).since(VALKEY_8_1).only_default(NO_RDMA),
    integer("rdma-completion-vector", "-1", -1, 1024).at_start().since(VALKEY_8_1),
    integer("rdma-port", "0", 0, 65535).since(VALKEY_8_1).only_default(NO_RDMA),
    integer("rdma-rx-size", "1048576", 65_536, 16 << 20).at_start().since(VALKEY_8_1),
    integer("cluster-databases", "1", 1, INT).at_start().since(VALKEY_9),
    integer("cluster-slot-migration-log-max-len", "1000", 0, LONG).since(VALKEY_9),
    switch("mptcp", "no").at_start().since(VALKEY_9).only_default(NO_MPTCP),
    choice("rdb-version-check", "strict", &["strict", "relaxed"]).since(VALKEY_9),
    switch("repl-mptcp", "no").at_start().since(VALKEY_9).only_default(NO_MPTCP),
    custom("slot-migration-max-failover-repl-bytes", "0", special::signed_memory).since(VALKEY_9),
    choice("tls-auth-clients-user", "off", &["CN", "URI", "off"]).since(VALKEY_9).only_default(NO_CERTIFICATE_USERS),
    integer("cluster-announce-client-port", "0", 0, 65535).since(VALKEY_9_1),
    integer("cluster-announce-client-tls-port", "0", 0, 65535).since(VALKEY_9_1),
    choice("cluster-config-save-behavior", "sync", &["sync", "best-effort"]).since(VALKEY_9_1),
    checked("hash-seed", "", special::hash_seed).at_start().since(VALKEY_9_1),
    integer("tls-auto-reload-interval", "0", 0, INT).since(VALKEY_9_1),
    // Shown only for their full names, by all releases or by later ones.
    switch("gopher-enabled", "no").until(SEVEN),
    switch("lua-replicate-commands", "yes").until(SEVEN),
    integer("key-load-delay", "0", -INT - 1, INT).hidden_since(SEVEN),
    integer("rdb-key-save-delay", "0", -INT - 1, INT).hidden_since(SEVEN),
    switch("use-exit-on-panic", "no").hidden_since(SEVEN),
    integer("watchdog-period", "0", 0, INT).hidden_since(SEVEN),
    switch("lua-enable-deprecated-api", "no").at_start().hidden().later_name(VALKEY_8_1, "lua-enable-insecure-api"),
    integer("loading-process-events-interval-bytes", "2097152", 1024, INT)
        .hidden()
        .since(SEVEN)
        .later_defaults(&[(Since::redis(8, 0, 0), "524288")]),
    integer("cluster-ping-interval", "0", 0, LONG).hidden().since(SEVEN_2),
    switch("repl-rdb-channel", "yes").hidden().since(Since::redis(8, 0, 0)),
    text("debug-context", "").hidden().since(VALKEY_8),
    switch("enable-debug-assert", "no").at_start().hidden().since(VALKEY_8),
    switch("io-threads-always-active", "no").hidden().since(VALKEY_8_1),
    integer("cluster-message-gossip-perc", "10", 1, 100).hidden().since(VALKEY_9),
    integer("min-io-threads-avoid-copy-reply", "7", 0, INT).hidden().since(VALKEY_9),
    integer("min-string-size-avoid-copy-reply", "16384", 0, INT).hidden().since(VALKEY_9),
    integer("min-string-size-avoid-copy-reply-threaded", "65536", 0, INT).hidden().since(VALKEY_9),
    // This server's own.
    custom("compat", "redis-7.2", special::profile).at_start().hidden(),
    text("port-file", "").at_start().hidden(),
    text("tls-port-file", "").at_start().hidden(),
    text("tls-self-signed", "").at_start().hidden(),
    custom("load", "", special::quoted).at_start().hidden(),
    integer("instances", "1", 1, 64).at_start().hidden(),
    integer("sentinels", "0", 0, 9).at_start().hidden(),
    text("sentinel-requirepass", "").at_start().hidden(),
    integer("sentinel-port", "0", 0, 65_535).at_start().hidden(),
    integer("sentinel-down-after-milliseconds", "30000", 1, INT).at_start().hidden(),
    integer("replicas", "0", 0, 63).at_start().hidden(),
    switch("spaces-by-database", "no")
        .at_start()
        .hidden()
        .mirrored(|live, value| live.spaces_by_database.store(value == b"yes", Relaxed)),
    switch("exit-with-parent", "no").at_start().hidden(),
    switch("persist", "no").at_start().hidden(),
    switch("control", "yes").at_start().hidden(),
    switch("enable-paths-outside-dir", "no").at_start().hidden(),
    switch("journal", "no").at_start().hidden(),
    memory("journal-size", "67108864", LEAST_SIZE as u64, MOST_SIZE as u64).at_start().hidden(),
    memory("journal-memory", "0", 0, MOST_SIZE as u64).at_start().hidden(),
    switch("audit", "no").at_start().hidden(),
    memory("audit-memory", "1073741824", LEAST_SIZE as u64, MOST_SIZE as u64).at_start().hidden(),
    choice("identify-clients", "machine", &["machine", "children", "no"]).at_start().hidden(),
    custom("locks", "", special::glob).at_start().hidden(),
    custom("not-locks", "", special::glob).at_start().hidden(),
    custom("resources", "", special::glob).at_start().hidden(),
    words("audit-allow", "", special::allowance).at_start().hidden(),
    custom("upstream", "", special::quoted).at_start().hidden(),
    custom("upstream-cluster", "", special::quoted).at_start().hidden(),
    custom("upstream-sentinel", "", special::quoted).at_start().hidden(),
    text("service", "").at_start().hidden(),
    text("upstream-user", "").at_start().hidden(),
    text("upstream-password", "").at_start().hidden(),
    text("upstream-announce-host", "").at_start().hidden(),
    text("port-range", "").at_start().hidden(),
    switch("upstream-disposable", "no").at_start().hidden(),
    choice("upstream-order", "interval", &["interval", "exact"]).at_start().hidden(),
    choice("upstream-scripts", "infer", &["infer", "monitor"]).at_start().hidden(),
    custom("upstream-timeout", "5s", special::duration).at_start().hidden(),
    text("upstream-ca-cert-file", "").at_start().hidden(),
    text("upstream-cert-file", "").at_start().hidden(),
    text("upstream-key-file", "").at_start().hidden(),
    text("upstream-sni", "").at_start().hidden(),
    switch("upstream-insecure", "no").at_start().hidden(),
    custom("gate-timeout", "1m", special::duration)
        .mirrored(|live, value| live.gate_timeout.store(special::micros(value), Relaxed))
        .hidden(),
];

const SEVEN_2: Since = Since::redis(7, 2, 0);
const BOTH_7_4: Since = Since::each(Version(7, 4, 0), Version(8, 0, 0));
const BOTH_8_0: Since = Since::each(Version(8, 0, 0), Version(8, 1, 0));
const VALKEY_8: Since = Since::valkey(8, 0, 0);
const VALKEY_8_1: Since = Since::valkey(8, 1, 0);
const VALKEY_9: Since = Since::valkey(9, 0, 0);
const VALKEY_9_1: Since = Since::valkey(9, 1, 0);
const VALKEY_SIGNALS: SettingKind = SettingKind::Words(special::on_signal_of_valkey);
/// Valkey frees memory in a thread by default.
const FREES_LATER: &[(Since, &str)] = &[(VALKEY_8, "yes")];

const fn switch(name: &'static str, default: &'static str) -> Directive {
    Directive::new(name, default, SettingKind::Switch)
}

const fn integer(name: &'static str, default: &'static str, least: i64, most: i64) -> Directive {
    Directive::new(name, default, SettingKind::Integer { least, most })
}

const fn memory(name: &'static str, default: &'static str, least: u64, most: u64) -> Directive {
    Directive::new(name, default, SettingKind::Memory { least, most })
}

const fn choice(name: &'static str, default: &'static str, names: &'static [&'static str]) -> Directive {
    Directive::new(name, default, SettingKind::Choice(names))
}

const fn text(name: &'static str, default: &'static str) -> Directive {
    Directive::new(name, default, SettingKind::Text(special::any))
}

const fn checked(name: &'static str, default: &'static str, check: fn(&[u8]) -> Result<(), &'static str>) -> Directive {
    Directive::new(name, default, SettingKind::Text(check))
}

const fn custom(name: &'static str, default: &'static str, read: fn(&[u8]) -> Result<Vec<u8>, Reason>) -> Directive {
    Directive::new(name, default, SettingKind::Custom(read))
}

const fn words(name: &'static str, default: &'static str, read: ReadWords) -> Directive {
    Directive::new(name, default, SettingKind::Words(read))
}

/// A validated number. One that is too large for its type counts as 0, no limit.
pub(super) fn number<N: FromStr + Default>(value: &[u8]) -> N {
    std::str::from_utf8(value).ok().and_then(|text| text.parse().ok()).unwrap_or_default()
}

/// A number of bytes, or a percentage as a negative number.
fn memory_or_percent(value: &[u8]) -> i64 {
    match value.strip_suffix(b"%") {
        Some(percent) => -number::<i64>(percent),
        None => number(value),
    }
}

fn word(value: &[u8], index: usize) -> &[u8] {
    value.split(|&byte| byte == b' ').nth(index).unwrap_or_default()
}

pub(super) fn path(value: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStringExt;
    std::ffi::OsString::from_vec(value.to_vec()).into()
}

/// Takes the limits of one class of clients from the list of all classes.
pub(super) fn set_output_limit(limit: &OutputLimit, value: &[u8], class: usize) {
    let place = class * 4;
    limit.set(number(word(value, place + 1)), number(word(value, place + 2)), number(word(value, place + 3)));
}

fn level(value: &[u8]) -> u8 {
    let level = match value {
        b"nothing" => return Level::Warning as u8 + 1,
        b"debug" => Level::Debug,
        b"verbose" => Level::Verbose,
        b"warning" => Level::Warning,
        _ => Level::Notice,
    };
    level as u8
}

fn permission(value: &[u8]) -> u8 {
    match value {
        b"yes" => DEBUG_YES,
        b"local" => DEBUG_LOCAL,
        _ => DEBUG_NO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::profile::Profile;

    #[test]
    fn every_name_is_there_once() {
        let names: Vec<_> = TABLE.iter().flat_map(Directive::all_names).collect();
        for (at, name) in names.iter().enumerate() {
            assert!(!names[..at].contains(name), "{name}");
        }
    }

    #[test]
    fn every_default_is_a_value_that_could_be_set() {
        for row in TABLE {
            let words: Vec<&[u8]> = if row.takes_several_words() && !row.default.is_empty() {
                row.default.split(' ').map(str::as_bytes).collect()
            } else if row.name == "replicaof" || row.name == "dir" {
                continue;
            } else {
                vec![row.default.as_bytes()]
            };
            let value = row.read(&words, row.default.as_bytes(), &Profile::default());
            assert_eq!(value.unwrap_or_default(), row.default.as_bytes(), "{}", row.name);
        }
    }
}
