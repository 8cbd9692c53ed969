//! The memory of the server as INFO and MEMORY STATS report it.

use std::fs::read_to_string;
use std::sync::atomic::Ordering;

use crate::clients::instance::{EMPTY_SERVER, Instance};

/// What the tables of a database take for each key, and for each key with a deadline.
const KEY_OVERHEAD: u64 = 9;
const DEADLINE_OVERHEAD: u64 = 16;

/// How much memory the server uses, and for what, in bytes.
pub(super) struct MemoryFigures {
    pub used: u64,
    pub peak: u64,
    pub startup: u64,
    /// Of clients that are no replicas, and of those that are.
    pub clients: u64,
    pub replicas: u64,
    /// What is kept of the stream to replicas.
    pub backlog: u64,
    /// What the process takes of the machine's memory.
    pub resident: u64,
    pub scripts: u64,
    /// Lua's memory for EVAL, and for functions.
    pub interpreters: u64,
    pub keys: u64,
    /// The databases with keys, each with what its tables take for keys and for deadlines.
    pub databases: Vec<(u32, [u64; 2])>,
}

impl MemoryFigures {
    pub fn of(instance: &Instance) -> Self {
        let used = instance.used_memory() as u64;
        // All were just counted.
        let (mut replicas, mut clients) = (0, 0);
        instance.clients.visit(|client| {
            let is_replica = client.seen().replica.load(Ordering::Relaxed);
            *if is_replica { &mut replicas } else { &mut clients } += client.counted_memory() as u64;
        });
        let sizes = instance.keyspace.sizes();
        let stats = instance.scripts.stats();
        Self {
            used,
            peak: instance.peak_memory.fetch_max(used, Ordering::Relaxed).max(used),
            startup: EMPTY_SERVER as u64,
            clients,
            replicas,
            backlog: instance.replication_state().kept as u64,
            resident: resident_memory().unwrap_or(used),
            scripts: (stats.script_text + stats.library_text) as u64,
            interpreters: (stats.eval_memory + stats.function_memory) as u64,
            keys: sizes.iter().map(|(_, [keys, ..])| keys).sum(),
            databases: sizes
                .iter()
                .map(|(db, [keys, volatile, _])| (*db, [keys * KEY_OVERHEAD, volatile * DEADLINE_OVERHEAD]))
                .collect(),
        }
    }

    /// All but the data.
    pub fn overhead(&self) -> u64 {
        let tables: u64 = self.databases.iter().map(|(_, [main, expires])| main + expires).sum();
        (self.startup + self.clients + self.replicas + self.scripts + tables).min(self.used)
    }

    pub fn dataset(&self) -> u64 {
        self.used - self.overhead()
    }

    /// How much of what an empty server does not use is data.
    pub fn dataset_percentage(&self) -> f64 {
        percentage(self.dataset(), self.used - self.startup)
    }

    pub fn peak_percentage(&self) -> f64 {
        percentage(self.used, self.peak)
    }

    /// What the allocator holds: like Redis with an allocator that cannot tell, all but Lua's memory.
    pub fn allocator_resident(&self) -> u64 {
        self.resident.saturating_sub(self.interpreters)
    }

    pub fn allocator_fragmentation(&self) -> f64 {
        ratio(self.allocator_resident(), self.used)
    }

    pub fn allocator_fragmentation_bytes(&self) -> i64 {
        difference(self.allocator_resident(), self.used)
    }

    pub fn resident_overhead(&self) -> f64 {
        ratio(self.resident, self.allocator_resident())
    }

    pub fn resident_overhead_bytes(&self) -> i64 {
        difference(self.resident, self.allocator_resident())
    }

    pub fn fragmentation(&self) -> f64 {
        ratio(self.resident, self.used)
    }

    pub fn fragmentation_bytes(&self) -> i64 {
        difference(self.resident, self.used)
    }
}

fn ratio(one: u64, other: u64) -> f64 {
    // Redis computes with less precision, too.
    f64::from(one as f32 / other.max(1) as f32)
}

fn percentage(part: u64, whole: u64) -> f64 {
    f64::from(part as f32 * 100.0 / whole.max(1) as f32)
}

fn difference(one: u64, other: u64) -> i64 {
    i64::try_from(one).unwrap_or(i64::MAX) - i64::try_from(other).unwrap_or(i64::MAX)
}

/// The machine's memory.
pub(super) fn total_system_memory() -> u64 {
    #[cfg(target_os = "linux")]
    {
        let info = rustix::system::sysinfo();
        info.totalram as u64 * u64::from(info.mem_unit)
    }
    #[cfg(not(target_os = "linux"))]
    {
        0
    }
}

/// What the process takes of the machine's memory. Of the files that tell it, this one costs the kernel least.
fn resident_memory() -> Option<u64> {
    let text = read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}
