//! The stories of the test powers in front of a real server.

use crate::support::both_backends::run_in_front_of_redis;

const CLOCK: &str = "moves the clock by which keys expire, which is the server's";
const SPACES: &str = "is about spaces, and the server behind has none";
const OF_THE_SERVER: &str = "asks for statistics, settings or clients of the front, which has none: the server answers";
const IN_EXEC: &str = "an error inside EXEC cannot be given: the server runs the queue";
const IN_SCRIPT: &str = "an error inside a script cannot be given: the server runs it";
const INTERVALS: &str = "is about the exact order of commands that are in flight at once";
const REPLICAS: &str = "is about replicas of the embedded server";
const OWN_SERVERS: &str = "starts servers of its own, with settings of the embedded one";

/// The stories that cannot be played there, with reasons.
const EXCEPTIONS: &[(&str, &str)] = &[
    ("journal::a_hundred_spaces_do_not_remember_more_together_than_they_may", SPACES),
    ("clock::", CLOCK),
    ("spaces::", SPACES),
    ("servers::", OWN_SERVERS),
    ("instances::", OWN_SERVERS),
    ("links::", REPLICAS),
    ("failover::", REPLICAS),
    ("explore_failover::", REPLICAS),
    ("sentinel::", REPLICAS),
    ("async_waits::clocks_and_guards_are_at_rest_when_they_return_although_no_task_ran_meanwhile", CLOCK),
    ("explore_chaos::a_holder_that_stands_still_past_its_deadline_and_then_writes_is_found", CLOCK),
    ("explore_chaos::a_waiting_client_gets_the_lock_of_a_dead_one_when_its_time_has_passed", CLOCK),
    ("explore_chaos::all_four_are_found_when_everything_may_happen_at_once", CLOCK),
    ("explore_chaos::an_expiry_between_get_and_del_is_found", CLOCK),
    ("explore_chaos::the_clock_goes_on_again_when_the_exploration_has_ended", CLOCK),
    ("faults::a_delay_of_nothing_and_one_of_an_eternity_are_delays", CLOCK),
    ("faults::a_delayed_command_does_not_run_in_a_pause_either", CLOCK),
    ("faults::a_delayed_command_runs_when_the_clock_gets_there_and_not_before", CLOCK),
    ("faults::a_jump_of_the_clock_brings_all_drops_that_are_due_by_then", CLOCK),
    ("faults::a_lease_can_run_out_while_its_renewal_is_delayed", CLOCK),
    ("faults::a_paused_server_runs_nothing_and_answers_nobody_but_whoever_drives_the_test", CLOCK),
    ("faults::a_reply_drips_by_the_clock", CLOCK),
    ("faults::a_server_ends_at_once_whoever_waits_there", CLOCK),
    ("faults::an_error_comes_as_it_was_given_and_the_command_has_not_run", OF_THE_SERVER),
    ("faults::an_error_does_not_spoil_the_transaction_that_a_command_is_queued_for", IN_EXEC),
    ("faults::an_error_in_a_script_is_raised_by_call_and_returned_by_pcall", IN_SCRIPT),
    ("faults::an_error_in_a_transaction_stands_in_its_array_and_the_other_commands_run", IN_EXEC),
    ("faults::new_connections_are_refused_and_existing_ones_go_on", OF_THE_SERVER),
    ("faults::nothing_else_ends_a_hang", CLOCK),
    ("faults::replies_keep_their_order_behind_a_delay", CLOCK),
    (
        "faults::what_a_client_is_told_of_its_own_change_stands_behind_a_reply_that_drips_and_not_behind_one_that_is_cut",
        CLOCK,
    ),
    ("faults::whoever_gives_up_while_its_reply_drips_is_forgotten", CLOCK),
    ("faults::whoever_hangs_cannot_have_the_server_keep_whatever_it_sends", OF_THE_SERVER),
    ("faults_matching::a_client_is_meant_by_its_number_or_its_name_also_if_it_got_that_later", OF_THE_SERVER),
    ("faults_matching::a_command_that_waits_for_a_pause_is_counted_once", CLOCK),
    ("faults_matching::a_database_is_meant_also_behind_a_select_in_a_transaction", IN_EXEC),
    ("faults_matching::a_transaction_meets_a_rule_once_however_many_of_its_commands_are_meant", CLOCK),
    ("faults_on_the_way::a_function_that_meets_an_error_can_go_on", IN_SCRIPT),
    ("faults_on_the_way::a_handshake_can_fail_like_anything_else", OWN_SERVERS),
    ("faults_on_the_way::a_lock_is_taken_although_its_owner_saw_an_error", CLOCK),
    ("faults_on_the_way::a_message_never_stands_in_the_middle_of_a_reply_that_drips", CLOCK),
    ("faults_on_the_way::a_script_that_takes_long_meets_every_verdict", CLOCK),
    ("faults_on_the_way::a_subscription_that_fails_is_none_and_one_that_is_late_misses_what_came_before", CLOCK),
    ("faults_on_the_way::an_error_that_nobody_is_to_hear_is_not_sent", CLOCK),
    ("faults_on_the_way::every_verdict_falls_on_a_command_that_waited_for_an_element", CLOCK),
    ("faults_on_the_way::monitor_shows_what_ran_and_not_what_did_not", "its MONITOR shows the PING of the front, too"),
    ("faults_on_the_way::resp3_replies_are_cut_and_drip_as_they_stand", CLOCK),
    ("faults_on_the_way::whoever_a_moved_clock_lets_go_serves_others_before_the_mover_is_answered", CLOCK),
    ("faults_writes::a_command_that_never_ran_and_one_whose_reply_was_lost_look_alike_to_the_client_only", CLOCK),
    ("faults_writes::a_script_that_never_ran_and_one_whose_reply_was_lost_are_told_apart_too", CLOCK),
    ("faults_writes::whoever_waits_for_an_element_takes_it_even_if_the_reply_is_lost", CLOCK),
    ("gates::a_blocking_command_is_held_before_it_waits_and_after_it_was_served", CLOCK),
    ("gates::a_client_that_has_given_no_password_is_not_held", OWN_SERVERS),
    ("gates::a_fault_stands_between_the_gates_of_a_command", CLOCK),
    ("gates::a_held_client_is_seen_to_be_blocked_and_is_not_idle", OF_THE_SERVER),
    (
        "gates::a_held_client_that_is_killed_does_not_run_and_has_no_turn",
        "the front hears a moment later of who is killed",
    ),
    ("gates::reset_and_quit_are_held_like_any_command", "the server closes the connection before QUIT's reply is held"),
    ("gates::the_watchdogs_time_can_be_set_for_the_server_and_for_a_gate", OF_THE_SERVER),
    ("guards::a_fault_of_one_space_is_none_of_the_others", SPACES),
    (
        "journal::a_client_that_goes_while_it_waits_has_done_nothing",
        "what a client that has gone waited for is unknown",
    ),
    ("journal::a_reply_that_its_client_did_not_stay_for_is_lost", "a reply that was not read to its end is unknown"),
    ("journal::a_rule_inside_a_transaction_stands_with_the_command_that_met_it", IN_EXEC),
    ("journal::a_space_has_a_journal_of_its_own_and_a_reset_begins_anew", SPACES),
    ("journal::evictions_are_listed_among_the_commands_and_can_be_counted_and_awaited", OF_THE_SERVER),
    ("journal::threads_agree_on_the_order", INTERVALS),
    ("journal::time_is_the_servers_and_the_machines", CLOCK),
    ("journal::what_exec_and_scripts_have_run_stands_inside_them", "what a script ran is not known"),
    ("journal::what_is_loaded_at_the_start_was_sent_by_nobody", OWN_SERVERS),
    ("journal::what_is_too_long_is_cut_off_and_its_length_told", "what a script ran is not known"),
    ("journal::who_waits_takes_effect_when_somebody_lets_it", INTERVALS),
];

#[test]
fn every_other_story_holds_in_front_of_a_real_server() {
    run_in_front_of_redis(EXCEPTIONS);
}
