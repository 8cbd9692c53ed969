//! INFO about what the server did: stats, commandstats, errorstats, latencystats.

use super::{AFTER_FORK, Fields, VALKEY_9_1};
use crate::base::profile::{Family, Since};
use crate::clients::acl::DATABASE_RULES;
use crate::clients::call_stats::CallCounts;
use crate::clients::pubsub::SubscriptionKind;
use crate::commands::Call;

pub(super) fn stats(call: &Call<'_>, fields: &mut Fields) {
    let instance = call.server;
    let profile = fields.profile;
    let is_valkey = profile.family() == Family::Valkey;
    let seven = Since::redis(7, 0, 0);
    let totals = instance.stats.totals();
    let rates = instance.rates.per_second();
    fields.add("total_connections_received", totals.connections);
    fields.add("total_commands_processed", totals.commands);
    fields.add("instantaneous_ops_per_sec", rates.commands);
    fields.add("total_net_input_bytes", totals.input_bytes);
    fields.add("total_net_output_bytes", totals.output_bytes);
    fields.zeros_since(seven, &["total_net_repl_input_bytes", "total_net_repl_output_bytes"]);
    fields.zeros_since(
        Since::valkey(9, 0, 0),
        &["total_net_cluster_slot_import_bytes", "total_net_cluster_slot_export_bytes"],
    );
    fields.ratio("instantaneous_input_kbps", rates.input_bytes as f64 / 1024.0);
    fields.ratio("instantaneous_output_kbps", rates.output_bytes as f64 / 1024.0);
    if profile.since_redis(7, 0) {
        fields.ratio("instantaneous_input_repl_kbps", 0.0);
        fields.ratio("instantaneous_output_repl_kbps", 0.0);
    }
    fields.add("rejected_connections", totals.rejected_connections);
    fields.add("sync_full", totals.full_syncs);
    fields.add("sync_partial_ok", totals.partial_syncs);
    fields.add("sync_partial_err", totals.refused_partial_syncs);
    fields.add_since(Since::redis(7, 4, 0), "expired_subkeys", totals.expired_fields);
    fields.add("expired_keys", totals.expired);
    fields.add_since(Since::valkey(9, 0, 0), "expired_fields", totals.expired_fields);
    // The sweep leaves no expired key behind, and takes the time that it needs.
    fields.ratio("expired_stale_perc", 0.0);
    if profile.has(Since::valkey(9, 0, 0)) {
        fields.ratio("expired_keys_with_volatile_items_stale_perc", 0.0);
    }
    fields.add("expired_time_cap_reached_count", 0);
    fields.add("expire_cycle_cpu_milliseconds", totals.expire_cycle_micros / 1000);
    fields.add("evicted_keys", totals.evicted_keys);
    fields.add_since(seven, "evicted_clients", totals.evicted_clients);
    fields.add_since(AFTER_FORK, "evicted_scripts", instance.scripts.stats().evicted);
    let (exceeded, exceeded_now) = instance.exceeded_times();
    fields.add_since(seven, "total_eviction_exceeded_time", exceeded);
    fields.add_since(seven, "current_eviction_exceeded_time", exceeded_now);
    fields.add("keyspace_hits", totals.hits);
    fields.add("keyspace_misses", totals.misses);
    fields.add("pubsub_channels", instance.pubsub.len(SubscriptionKind::Channel));
    fields.add("pubsub_patterns", instance.pubsub.len(SubscriptionKind::Pattern));
    fields.add_since(seven, "pubsubshard_channels", instance.pubsub.len(SubscriptionKind::ShardChannel));
    fields.zeros(&[
        "latest_fork_usec",
        "total_forks",
        "migrate_cached_sockets",
        "slave_expires_tracked_keys",
        "active_defrag_hits",
        "active_defrag_misses",
        "active_defrag_key_hits",
        "active_defrag_key_misses",
    ]);
    fields.zeros_since(seven, &["total_active_defrag_time", "current_active_defrag_time"]);
    let tracking = instance.tracking.totals();
    fields.add("tracking_total_keys", tracking.keys);
    fields.add("tracking_total_items", tracking.items);
    fields.add("tracking_total_prefixes", tracking.prefixes);
    fields.add("unexpected_error_replies", 0);
    fields.add("total_error_replies", totals.errors);
    fields.add("dump_payload_sanitizations", 0);
    fields.add("total_reads_processed", totals.reads);
    fields.add("total_writes_processed", totals.writes);
    fields.zeros(&["io_threaded_reads_processed", "io_threaded_writes_processed"]);
    if is_valkey {
        fields.add("io_threaded_freed_objects", 0);
        fields.zeros_since(Since::valkey(8, 1, 0), &["io_threaded_accept_processed"]);
        fields.zeros(&[
            "io_threaded_poll_processed",
            "io_threaded_total_prefetch_batches",
            "io_threaded_total_prefetch_entries",
        ]);
    }
    fields.zeros_since(
        AFTER_FORK,
        &["client_query_buffer_limit_disconnections", "client_output_buffer_limit_disconnections"],
    );
    fields.zeros_since(seven, &["reply_buffer_shrinks", "reply_buffer_expands"]);
    if profile.since_redis(7, 2) {
        let cycles = totals.reads + totals.expire_cycles;
        let micros = instance.stats.call_micros();
        fields.add("eventloop_cycles", cycles);
        fields.add("eventloop_duration_sum", micros + totals.expire_cycle_micros);
        fields.add("eventloop_duration_cmd_sum", micros);
        fields.add("instantaneous_eventloop_cycles_per_sec", rates.cycles);
        fields.add("instantaneous_eventloop_duration_usec", (micros + totals.expire_cycle_micros) / cycles.max(1));
        let mut database_denials = 0;
        for (reason, count) in instance.acl.log.counts() {
            match reason {
                "command" => fields.add("acl_access_denied_cmd", count),
                "database" => database_denials = count,
                reason => fields.add(&format!("acl_access_denied_{reason}"), count),
            }
        }
        fields.zeros_since(VALKEY_9_1, &["acl_access_denied_tls_cert"]);
        fields.add_since(DATABASE_RULES, "acl_access_denied_db", database_denials);
    }
}

pub(super) fn commands(call: &Call<'_>, fields: &mut Fields) {
    let totals = call.server.stats.calls();
    let is_new = fields.profile.since_redis(7, 0);
    let used = call.table.full_names(|id| totals.of(id).is_used());
    let rows = used.map(|(id, name)| (name, totals.of(id)));
    let mut shown: Vec<(String, CallCounts)> = Vec::new();
    for (name, row) in rows {
        // Before 7.0 the calls of subcommands counted for their container.
        let container = name.split('|').next().unwrap_or_default().to_owned();
        match shown.last_mut() {
            Some((last, sum)) if !is_new && *last == container => *sum += row,
            _ => shown.push((if is_new { name } else { container }, row)),
        }
    }
    for (name, row) in shown {
        let (calls, micros) = (row.calls, row.micros);
        let each = if calls == 0 { 0.0 } else { micros as f64 / calls as f64 };
        let text = format!(
            "calls={calls},usec={micros},usec_per_call={each:.2},rejected_calls={},failed_calls={}",
            row.rejected, row.failed
        );
        fields.add(&format!("cmdstat_{name}"), text);
    }
}

pub(super) fn errors(call: &Call<'_>, fields: &mut Fields) {
    for (code, count) in call.server.stats.errors_by_code() {
        fields.add(&format!("errorstat_{}", shown_code(&code)), format!("count={count}"));
    }
}

/// An error code without the characters that have a meaning in INFO.
fn shown_code(code: &[u8]) -> String {
    let replaced = |&byte: &u8| if b"#:\n\r".contains(&byte) { b'_' } else { byte };
    String::from_utf8_lossy(&code.iter().map(replaced).collect::<Vec<u8>>()).into_owned()
}

pub(super) fn latencies(call: &Call<'_>, fields: &mut Fields) {
    if !call.server.config.live().tracks_latency() {
        return;
    }
    let percentiles = call.server.config.text("latency-tracking-info-percentiles");
    let totals = call.server.stats.calls();
    for (id, name) in call.table.full_names(|id| totals.of(id).calls > 0) {
        let durations = call.server.stats.durations_of(id);
        if durations.count() == 0 {
            continue;
        }
        let values: Vec<String> = percentiles
            .split_whitespace()
            .map(|percent| format!("p{percent}={:.3}", durations.percentile(percent.parse().unwrap_or(0.0))))
            .collect();
        fields.add(&format!("latency_percentiles_usec_{name}"), values.join(","));
    }
}
