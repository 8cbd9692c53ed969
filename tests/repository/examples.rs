//! The examples run and succeed.

#[path = "../../examples/deadlock_race.rs"]
mod deadlock_race;
#[path = "../../examples/expired_lease.rs"]
mod expired_lease;
#[path = "../../examples/lost_reply.rs"]
mod lost_reply;
#[path = "../../examples/redlock_partition.rs"]
mod redlock_partition;
/// Its tests are tests here, too.
#[path = "../../examples/tokio_tests.rs"]
mod tokio_tests;

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

#[test]
fn an_example_that_consists_of_tests_says_so() {
    tokio_tests::main();
}
