//! INFO memory.

use std::sync::atomic::Ordering;

use super::{AFTER_FORK, Fields, human};
use crate::base::profile::Since;
use crate::commands::Call;
use crate::commands::memory_figures::{MemoryFigures, total_system_memory};

pub(super) fn memory(call: &Call<'_>, fields: &mut Fields) {
    let instance = call.server;
    let figures = MemoryFigures::of(instance);
    let seven = Since::redis(7, 0, 0);
    fields.bytes("used_memory", figures.used);
    fields.bytes("used_memory_rss", figures.resident);
    fields.bytes("used_memory_peak", figures.peak);
    fields.add("used_memory_peak_perc", format!("{:.2}%", figures.peak_percentage()));
    fields.add("used_memory_overhead", figures.overhead());
    fields.add("used_memory_startup", figures.startup);
    fields.add("used_memory_dataset", figures.dataset());
    fields.add("used_memory_dataset_perc", format!("{:.2}%", figures.dataset_percentage()));
    fields.add("allocator_allocated", figures.used);
    fields.add("allocator_active", figures.allocator_resident());
    fields.add("allocator_resident", figures.allocator_resident());
    fields.zeros_since(AFTER_FORK, &["allocator_muzzy"]);
    fields.bytes("total_system_memory", total_system_memory());
    scripts(call, fields);
    fields.bytes("maxmemory", instance.config.live().max_memory.load(Ordering::Relaxed) as u64);
    fields.add("maxmemory_policy", instance.config.text("maxmemory-policy"));
    fields.ratio("allocator_frag_ratio", figures.allocator_fragmentation());
    fields.add("allocator_frag_bytes", figures.allocator_fragmentation_bytes());
    fields.ratio("allocator_rss_ratio", 1.0);
    fields.add("allocator_rss_bytes", 0);
    fields.ratio("rss_overhead_ratio", figures.resident_overhead());
    fields.add("rss_overhead_bytes", figures.resident_overhead_bytes());
    fields.ratio("mem_fragmentation_ratio", figures.fragmentation());
    fields.add("mem_fragmentation_bytes", figures.fragmentation_bytes());
    fields.zeros(&["mem_not_counted_for_evict"]);
    fields.add("mem_replication_backlog", figures.backlog);
    fields.add_since(seven, "mem_total_replication_buffers", figures.backlog);
    fields.zeros_since(Since::redis(8, 0, 0), &["mem_replica_full_sync_buffer"]);
    fields.zeros_since(Since::valkey(9, 0, 0), &["mem_replicas_repl_buffer"]);
    fields.add("mem_clients_slaves", figures.replicas);
    fields.add("mem_clients_normal", figures.clients);
    fields.zeros_since(seven, &["mem_cluster_links"]);
    fields.zeros_since(Since::valkey(9, 0, 0), &["mem_cluster_slot_import", "mem_cluster_slot_export"]);
    fields.add("mem_aof_buffer", 0);
    fields.add("mem_allocator", "libc");
    fields.zeros_since(AFTER_FORK, &["mem_overhead_db_hashtable_rehashing"]);
    fields.add("active_defrag_running", 0);
    // What is freed late is freed before the next command, so nothing is ever pending.
    fields.add("lazyfree_pending_objects", 0);
    fields.add("lazyfreed_objects", instance.keyspace.freed_lazily());
}

fn scripts(call: &Call<'_>, fields: &mut Fields) {
    let stats = call.server.scripts.stats();
    let (eval, function) = (stats.eval_memory as u64, stats.function_memory as u64);
    if !fields.profile.since_redis(7, 0) {
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
