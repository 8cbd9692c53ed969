//! The tests that pass on redis-server and cannot pass on another server, with the reasons.

pub struct Inapplicable {
    pub unit: &'static str,
    pub test: &'static str,
    pub reason: &'static str,
}

const REPLICATION: &str = "it reads the replication stream (SYNC), and there is no replication";
const NO_MIGRATE: &str = "there is no MIGRATE";
const ALLOCATOR: &str = "it measures what jemalloc rounds a size up to, and runs only where that is the allocator";
const PORT: &str = "it changes the port by CONFIG SET, and this server stays where it listens";

const LIST: &[Inapplicable] = &[
    in_unit("unit/type/string", "trim on SET with big value", ALLOCATOR),
    in_unit("unit/type/list", "SWAPDB wants to wake blocked client, but the key already expired", REPLICATION),
    in_unit(
        "unit/type/list",
        "MULTI + LPUSH + EXPIRE + DEBUG SLEEP on blocked client, key already expired",
        REPLICATION,
    ),
    in_unit("unit/expire", "SCAN: Lazy-expire should not be wrapped in MULTI/EXEC", REPLICATION),
    in_unit("unit/expire", "RANDOMKEY: Lazy-expire should not be wrapped in MULTI/EXEC", REPLICATION),
    in_unit("unit/introspection", "CONFIG SET rollback on apply error", PORT),
    in_unit("unit/introspection-2", "MIGRATE command is marked with movablekeys", NO_MIGRATE),
];

const fn in_unit(unit: &'static str, test: &'static str, reason: &'static str) -> Inapplicable {
    Inapplicable { unit, test, reason }
}

/// The entry of a test, if it is listed.
pub fn inapplicable(unit: &str, test: &str) -> Option<&'static Inapplicable> {
    of_unit(unit).find(|entry| entry.test == test)
}

pub fn of_unit(unit: &str) -> impl Iterator<Item = &'static Inapplicable> {
    LIST.iter().filter(move |entry| entry.unit == unit)
}
