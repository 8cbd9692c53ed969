//! The examples do what they say.

#[path = "../../examples/deadlock_race.rs"]
mod deadlock_race;
#[path = "../../examples/expired_lease.rs"]
mod expired_lease;
#[path = "../../examples/lost_reply.rs"]
mod lost_reply;
#[path = "../../examples/redlock_partition.rs"]
mod redlock_partition;

#[test]
fn a_lost_reply_leaves_the_lock_taken() {
    lost_reply::main().unwrap();
}

#[test]
fn a_lease_ends_with_its_last_millisecond() {
    expired_lease::main().unwrap();
}

#[test]
fn the_documented_race_happens_every_time() {
    deadlock_race::main().unwrap();
}

#[test]
fn two_clients_come_to_a_quorum_when_servers_forget() {
    redlock_partition::main().unwrap();
}
