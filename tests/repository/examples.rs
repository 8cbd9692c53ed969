//! The examples run and succeed.

#[path = "../../examples/deadlock_race.rs"]
mod deadlock_race;
#[path = "../../examples/expired_lease.rs"]
mod expired_lease;
#[path = "../../examples/lost_reply.rs"]
mod lost_reply;
#[path = "../../examples/redlock_partition.rs"]
mod redlock_partition;
#[path = "../../examples/tokio_current_thread.rs"]
mod tokio_current_thread;
#[path = "../../examples/tokio_multi_thread.rs"]
mod tokio_multi_thread;

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
fn on_a_runtime_with_one_thread_a_late_release_leaves_the_next_lock_alone() {
    tokio_current_thread::main().unwrap();
}

#[test]
fn on_a_runtime_with_several_threads_one_of_many_tasks_gets_the_lock() {
    tokio_multi_thread::main().unwrap();
}
