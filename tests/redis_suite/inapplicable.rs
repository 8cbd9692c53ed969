//! The tests that pass on redis-server and cannot pass on another side, with the reasons.

use super::side::Side;

pub struct Inapplicable {
    pub unit: &'static str,
    pub test: &'static str,
    pub reason: &'static str,
}

const NO_MIGRATE: &str = "there is no MIGRATE";
const ALLOCATOR: &str = "it measures what jemalloc rounds a size up to, and runs only where that is the allocator";
const PORT: &str = "it changes the port by CONFIG SET, and this server stays where it listens";
const BUFFERS: &str = "it measures the reply buffer of a client, and here all clients of a thread share theirs";
const SPEED: &str = "it counts on 20 ms to free a million members, and here it can take less";

const LIST: &[Inapplicable] = &[
    in_unit("unit/type/string", "trim on SET with big value", ALLOCATOR),
    in_unit("unit/latency-monitor", "LATENCY of expire events are correctly collected", SPEED),
    in_unit("unit/replybufsize", "verify reply buffer limits", BUFFERS),
    in_unit("unit/introspection", "CONFIG SET rollback on apply error", PORT),
    in_unit("unit/introspection-2", "MIGRATE command is marked with movablekeys", NO_MIGRATE),
];

const fn in_unit(unit: &'static str, test: &'static str, reason: &'static str) -> Inapplicable {
    Inapplicable { unit, test, reason }
}

/// The same for redouble in front of redis-server.
const UPSTREAM: &[Inapplicable] = &[];

/// Whether a test is listed.
pub fn is_inapplicable(side: &Side, unit: &str, test: &str) -> bool {
    of_unit(side, unit).any(|entry| entry.test == test)
}

pub fn of_unit(side: &Side, unit: &str) -> impl Iterator<Item = &'static Inapplicable> {
    let list = if side.upstream.is_some() { UPSTREAM } else { LIST };
    list.iter().filter(move |entry| entry.unit == unit)
}
