//! Directives that this server accepts, checks and shows, but that change nothing, with the reasons.
//!
//! `docs/configuration.md` has the same lists; a test compares them.

use std::collections::BTreeSet;

use super::table::TABLE;
use super::{Config, value_of};

/// Directives that have no effect for one reason.
pub struct NoEffect {
    pub reason: &'static str,
    /// Their names in the table.
    pub directives: &'static [&'static str],
}

/// All directives without effect.
pub const NO_EFFECT: &[NoEffect] = &[
    NoEffect {
        reason: "no append-only file is written",
        directives: &[
            "aof-disable-auto-gc",
            "aof-load-truncated",
            "aof-rewrite-incremental-fsync",
            "aof-timestamp-enabled",
            "aof-use-rdb-preamble",
            "appenddirname",
            "appendfilename",
            "appendfsync",
            "appendonly",
            "auto-aof-rewrite-min-size",
            "auto-aof-rewrite-percentage",
            "no-appendfsync-on-rewrite",
        ],
    },
    NoEffect {
        reason: "snapshots are written in one way: whole, with a checksum, and compressed where that saves space",
        directives: &[
            "rdb-del-sync-files",
            "rdb-key-save-delay",
            "rdb-save-incremental-fsync",
            "rdb-version-check",
            "rdbchecksum",
            "rdbcompression",
        ],
    },
    NoEffect {
        reason: "values from outside are always checked, and loading delays nothing",
        directives: &["key-load-delay", "loading-process-events-interval-bytes", "sanitize-dump-payload"],
    },
    NoEffect {
        reason: "a replica gets its snapshot from memory and at once, and this server is nobody's replica",
        directives: &[
            "dual-channel-replication-enabled",
            "masterauth",
            "masteruser",
            "propagation-error-behavior",
            "repl-disable-tcp-nodelay",
            "repl-diskless-load",
            "repl-diskless-sync",
            "repl-diskless-sync-delay",
            "repl-diskless-sync-max-replicas",
            "repl-mptcp",
            "repl-rdb-channel",
            "replica-announce-ip",
            "replica-announce-port",
            "replica-full-sync-buffer-limit",
            "replica-ignore-disk-write-errors",
            "replica-lazy-flush",
            "replicaof",
        ],
    },
    NoEffect {
        reason: "there is no cluster",
        directives: &[
            "availability-zone",
            "cluster-allow-pubsubshard-when-down",
            "cluster-allow-reads-when-down",
            "cluster-allow-replica-migration",
            "cluster-announce-bus-port",
            "cluster-announce-client-ipv4",
            "cluster-announce-client-ipv6",
            "cluster-announce-client-port",
            "cluster-announce-client-tls-port",
            "cluster-announce-hostname",
            "cluster-announce-human-nodename",
            "cluster-announce-ip",
            "cluster-announce-port",
            "cluster-announce-tls-port",
            "cluster-blacklist-ttl",
            "cluster-compatibility-sample-ratio",
            "cluster-config-file",
            "cluster-config-save-behavior",
            "cluster-databases",
            "cluster-enabled",
            "cluster-link-sendbuf-limit",
            "cluster-manual-failover-timeout",
            "cluster-message-gossip-perc",
            "cluster-migration-barrier",
            "cluster-node-timeout",
            "cluster-ping-interval",
            "cluster-port",
            "cluster-preferred-endpoint-type",
            "cluster-replica-no-failover",
            "cluster-replica-validity-factor",
            "cluster-require-full-coverage",
            "cluster-slot-migration-log-max-len",
            "cluster-slot-stats-enabled",
            "slot-migration-max-failover-repl-bytes",
        ],
    },
    NoEffect {
        reason: "connections are TCP, TLS or unix sockets, without marks",
        directives: &[
            "bind-source-addr",
            "max-new-connections-per-cycle",
            "max-new-tls-connections-per-cycle",
            "mptcp",
            "rdma-bind",
            "rdma-completion-vector",
            "rdma-port",
            "rdma-rx-size",
            "socket-mark-id",
            "unixsocketgroup",
        ],
    },
    NoEffect {
        reason: "TLS is for clients only; its library has one set of safe ciphers for TLS 1.2, forgets sessions by their \
                 number, reads keys without a passphrase, and reads files again on CONFIG SET",
        directives: &[
            "tls-auth-clients-user",
            "tls-auto-reload-interval",
            "tls-ciphers",
            "tls-client-cert-file",
            "tls-client-key-file",
            "tls-client-key-file-pass",
            "tls-cluster",
            "tls-dh-params-file",
            "tls-key-file-pass",
            "tls-replication",
            "tls-session-cache-timeout",
        ],
    },
    NoEffect {
        reason: "the process is an ordinary one: it logs to its file or output, and leaves its title, its processors and \
                 the settings of the system alone",
        directives: &[
            "always-show-logo",
            "aof_rewrite_cpulist",
            "bgsave_cpulist",
            "bio_cpulist",
            "crash-log-enabled",
            "crash-memcheck-enabled",
            "debug-context",
            "disable-thp",
            "enable-debug-assert",
            "hide-user-data-from-log",
            "ignore-warnings",
            "log-format",
            "log-timestamp-format",
            "oom-score-adj",
            "oom-score-adj-values",
            "proc-title-template",
            "server_cpulist",
            "set-proc-title",
            "syslog-enabled",
            "syslog-facility",
            "syslog-ident",
            "use-exit-on-panic",
            "watchdog-period",
        ],
    },
    NoEffect {
        reason: "the work of the server is divided in another way: no timer, no rehashing, no I/O threads beside its own",
        directives: &[
            "active-expire-effort",
            "activerehashing",
            "dynamic-hz",
            "events-per-io-thread",
            "hz",
            "io-threads-always-active",
            "io-threads-do-reads",
            "min-io-threads-avoid-copy-reply",
            "min-string-size-avoid-copy-reply",
            "min-string-size-avoid-copy-reply-threaded",
            "prefetch-batch-max-size",
        ],
    },
    NoEffect {
        reason: "memory is laid out and freed in another way",
        directives: &[
            "active-defrag-cycle-max",
            "active-defrag-cycle-min",
            "active-defrag-cycle-us",
            "active-defrag-ignore-bytes",
            "active-defrag-max-scan-fields",
            "active-defrag-threshold-lower",
            "active-defrag-threshold-upper",
            "activedefrag",
            "hash-seed",
            "jemalloc-bg-thread",
            "list-compress-depth",
        ],
    },
    NoEffect {
        reason: "there are no modules, inline Gopher requests, locales or older Lua functions",
        directives: &[
            "enable-module-command",
            "extended-redis-compatibility",
            "gopher-enabled",
            "locale-collate",
            "lua-enable-deprecated-api",
            "lua-replicate-commands",
        ],
    },
];

impl Config {
    /// What the start should say of directives that the configuration names and that change nothing: one line for those
    /// of this profile, one for those that only other profiles have.
    pub fn without_effect(&self) -> Vec<String> {
        let values = self.values();
        let shown = |row: usize| TABLE[row].names(&values.profile).next().unwrap_or(TABLE[row].name);
        let mut reasons = Vec::new();
        for NoEffect { reason, directives } in NO_EFFECT {
            let named = self.named.iter().filter(|row| directives.contains(&TABLE[**row].name));
            let names: Vec<&str> = named.map(|row| shown(*row)).collect();
            if !names.is_empty() {
                reasons.push(format!("{} ({reason})", names.join(", ")));
            }
        }
        let mut lines = Vec::new();
        if !reasons.is_empty() {
            lines.push(format!("Accepted without effect: {}.", reasons.join("; ")));
        }
        if !self.foreign.is_empty() {
            let names: BTreeSet<&str> = self.foreign.iter().copied().collect();
            let names: Vec<&str> = names.into_iter().collect();
            lines.push(format!(
                "Accepted without effect, because {} does not have them: {}.",
                values.profile,
                names.join(", ")
            ));
        }
        lines
    }

    /// Whether the configuration asks by name for data to be kept.
    pub fn asks_to_keep_data(&self) -> bool {
        let values = self.values();
        let asks = |row: usize| match TABLE[row].name {
            "save" => !value_of(&values, row).is_empty(),
            "appendonly" => value_of(&values, row) == b"yes",
            _ => false,
        };
        self.named.iter().any(|row| asks(*row))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::profile::Profile;
    use crate::clients::config::load_over;

    #[test]
    fn every_name_is_that_of_one_directive() {
        let mut seen = BTreeSet::new();
        for name in NO_EFFECT.iter().flat_map(|group| group.directives) {
            assert!(TABLE.iter().any(|row| row.name == *name), "{name}");
            assert!(seen.insert(name), "{name} is there twice");
        }
    }

    #[test]
    fn the_page_lists_them() {
        let page = include_str!("../../../docs/configuration.md");
        for NoEffect { reason, directives } in NO_EFFECT {
            let names: Vec<String> = directives.iter().map(|name| format!("`{name}`")).collect();
            let row = format!("| {} | {reason} |\n", names.join(", "));
            assert!(page.contains(&row), "docs/configuration.md lacks {row}");
        }
    }

    #[test]
    fn a_directive_with_an_effect_is_not_listed() {
        let text = b"hz 20\nmaxclients 5\nset-proc-title no\ncommandlog-reply-larger-than 5\nsave \"\"";
        let config = load_over(Config::default(), text, None, Profile::default())
            .map(|loaded| loaded.config)
            .unwrap_or_default();
        let lines = config.without_effect();
        let [own, other] = lines.as_slice() else { panic!("{lines:?}") };
        assert!(own.contains("set-proc-title (") && own.contains("hz ("), "{own}");
        assert!(!own.contains("maxclients"), "{own}");
        assert!(other.contains("redis-7.2 does not have them: commandlog-reply-larger-than."), "{other}");
        assert!(!config.asks_to_keep_data());
    }
}
