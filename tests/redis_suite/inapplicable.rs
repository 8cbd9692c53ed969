//! The tests that pass on redis-server and cannot pass on another server, with the reasons.

pub struct Inapplicable {
    pub unit: &'static str,
    pub test: &'static str,
    pub reason: &'static str,
}

const REPLICATION: &str = "it reads the replication stream (SYNC), and there is no replication";

const LIST: &[Inapplicable] = &[
    Inapplicable {
        unit: "unit/type/list",
        test: "SWAPDB wants to wake blocked client, but the key already expired",
        reason: REPLICATION,
    },
    Inapplicable {
        unit: "unit/type/list",
        test: "MULTI + LPUSH + EXPIRE + DEBUG SLEEP on blocked client, key already expired",
        reason: REPLICATION,
    },
];

/// The entry of a test, if it is listed.
pub fn inapplicable(unit: &str, test: &str) -> Option<&'static Inapplicable> {
    of_unit(unit).find(|entry| entry.test == test)
}

pub fn of_unit(unit: &str) -> impl Iterator<Item = &'static Inapplicable> {
    LIST.iter().filter(move |entry| entry.unit == unit)
}
