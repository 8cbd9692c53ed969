//! The stories about locks in front of a real server.

use crate::support::both_backends::run_in_front_of_redis;

const CLOCK: &str = "moves the clock of the server, or is about what a journal says of that";
const MILLISECONDS: &str = "is about a millisecond, and real time passes";
const SCRIPTS: &str = "is found by what a script did, which is not always known";
const LATER: &str = "has commands that redis-server 7.0 lacks";
const EMBEDDED: &str = "is about spaces, settings, messages, replicas or restarts of the embedded server";
const ORDER: &str = "needs the order of what two servers did, which is not known exactly there";
const UNREAD: &str = "a reply that was not read to its end is unknown, not lost";

/// The stories that cannot be played there, with reasons.
const EXCEPTIONS: &[(&str, &str)] = &[
    ("corpus::", CLOCK),
    ("in_short::", CLOCK),
    ("intervals::", CLOCK),
    ("partial::", CLOCK),
    ("report::", CLOCK),
    ("clocks::a_live_lock_is_set_by_somebody_else", SCRIPTS),
    ("clocks::a_live_lock_is_set_with_setex", SCRIPTS),
    ("clocks::clients_that_give_the_lock_round_times_have_different_time_outs", MILLISECONDS),
    ("cross_slot::a_script_that_guards_data_by_a_lock_runs_here_and_is_refused_in_production", SCRIPTS),
    ("failover::", CLOCK),
    ("fronts::", CLOCK),
    ("ending::a_flush_of_unknown_origin_is_told_of_only_if_the_holder_still_counted_on_its_lock", SCRIPTS),
    ("ending::a_full_server_evicts_a_lock_that_is_held", EMBEDDED),
    ("ending::a_leader_that_renews_its_lock_while_it_works_is_not_said_to_renew_for_ever", SCRIPTS),
    ("ending::a_lock_that_is_renewed_for_ever_although_the_work_is_done", SCRIPTS),
    ("ending::a_lock_that_was_renewed_and_then_not_any_more_expires_under_its_working_holder", SCRIPTS),
    ("ending::a_lock_whose_time_a_test_lets_pass_at_the_end_is_not_leaked", CLOCK),
    ("ending::a_member_of_a_hash_that_is_released_over_another_connection_is_not_left_behind", SCRIPTS),
    ("ending::a_server_that_comes_back_empty_gives_the_lock_to_another_and_its_first_holder_deletes_it", EMBEDDED),
    ("ending::a_test_that_moves_the_clock_over_the_end_of_a_renewed_lock_is_no_stopped_renewal", CLOCK),
    ("ending::renewals_that_the_end_of_the_connection_ends_have_gone_on_for_ever_too", SCRIPTS),
    ("ending::whoever_comes_back_long_after_the_last_renewal_has_not_watched_over_it", SCRIPTS),
    ("expiry::a_lock_without_any_expiry_is_told_when_it_is_released", SCRIPTS),
    ("expiry::an_expiry_of_minus_one_deletes_the_lock_that_was_just_taken", SCRIPTS),
    ("expiry::seconds_are_taken_for_milliseconds", MILLISECONDS),
    ("findings_page::of_what_a_section_says_is_right_nothing_is_said", MILLISECONDS),
    ("findings_page::the_mistake_that_a_section_shows_is_found", SCRIPTS),
    ("lateness::a_client_writes_on_after_its_lock_is_over_and_another_has_it", SCRIPTS),
    ("lateness::a_renewal_comes_when_the_lock_is_over", MILLISECONDS),
    ("lateness::a_holder_deletes_its_lock_although_the_time_in_it_is_over", MILLISECONDS),
    ("lateness::a_millisecond_decides_whether_a_release_is_late", MILLISECONDS),
    ("lateness::a_program_writes_to_another_store_when_its_lock_is_over", ORDER),
    ("lateness::a_release_over_another_connection_is_late_as_well", SCRIPTS),
    ("lateness::a_script_that_has_extended_before_is_known_when_it_comes_too_late", SCRIPTS),
    ("lateness::locks_are_released_again_and_again_when_hardly_any_time_is_left", MILLISECONDS),
    ("lateness::the_lock_expires_again_and_again_before_its_holders_are_done", SCRIPTS),
    ("lateness::whoever_leaves_a_lock_to_its_expiry_on_purpose_is_not_accused_of_working_on", SCRIPTS),
    ("lateness::work_in_a_transaction_or_a_script_is_work_as_well", SCRIPTS),
    ("listeners::a_listener_hears_of_each_finding_once_however_the_number_of_locks_grows_and_shrinks", EMBEDDED),
    ("listeners::whoever_begins_to_listen_while_the_auditor_is_behind_hears_of_nothing_that_came_before", EMBEDDED),
    ("listeners::whoever_listens_behind_many_locks_hears_of_each_finding_once_and_of_none_from_before", EMBEDDED),
    ("live::a_reply_that_turns_out_to_be_lost_takes_back_what_was_concluded_from_it", UNREAD),
    ("live::one_sees_who_holds_a_lock_and_who_waits_for_it", CLOCK),
    ("live::somebody_who_listened_before_the_audit_began_hears_what_comes_then", EMBEDDED),
    ("live::spaces_are_audited_apart", EMBEDDED),
    ("live::whoever_listens_hears_of_findings_as_they_come", EMBEDDED),
    ("many_locks::", CLOCK),
    ("reset::what_was_found_in_a_space_stays_when_the_space_is_dropped", EMBEDDED),
    ("ownership::a_holder_that_comes_back_proves_that_it_was_another_who_deleted_its_lock", SCRIPTS),
    ("ownership::a_late_release_by_key_alone_takes_the_lock_of_the_next_holder", MILLISECONDS),
    ("ownership::a_lock_is_taken_anew_after_all_keys_were_deleted_and_its_holder_comes_back", SCRIPTS),
    ("ownership::a_lock_that_was_overwritten_is_freed_and_taken_while_its_first_holder_still_believes_in_it", SCRIPTS),
    ("ownership::a_release_that_is_done_twice_takes_the_lock_of_another", SCRIPTS),
    ("ownership::a_script_that_compares_a_token_that_all_have_takes_the_lock_of_another", SCRIPTS),
    ("ownership::between_a_look_and_the_release_another_gets_the_lock", MILLISECONDS),
    ("ownership::commands_that_compare_release_and_extend_without_a_script", LATER),
    ("recognition::", SCRIPTS),
    ("redlock::a_lock_that_one_of_three_servers_gave_is_used", SCRIPTS),
    ("redlock::an_attempt_that_failed_leaves_its_lock_on_the_server_that_gave_it", SCRIPTS),
    ("redlock::taking_the_lock_took_as_long_as_it_lives", SCRIPTS),
    ("redlock::two_of_five_servers_are_no_majority_however_long_they_are_renewed", SCRIPTS),
    ("split_brain::", EMBEDDED),
    ("tokens::two_clients_share_a_token", SCRIPTS),
    ("transfer::a_copy_is_a_value_that_nobody_took", SCRIPTS),
    ("transfer::a_holder_renames_its_own_lock_and_holds_it_under_the_new_name", SCRIPTS),
    ("transfer::a_restored_key_is_a_set", SCRIPTS),
    ("transfer::every_way_to_flush_deletes_the_locks", SCRIPTS),
    ("transfer::renamenx_takes_a_lock_that_is_free_and_is_refused_by_one_that_is_not", SCRIPTS),
    ("transfer::the_same_holds_in_transactions_and_scripts", SCRIPTS),
    ("wait::", EMBEDDED),
    ("waiting::a_client_that_tries_without_a_pause_is_a_storm", SCRIPTS),
    ("waiting::a_holder_that_takes_its_lock_again_waits_for_itself", SCRIPTS),
    ("waiting::a_storm_is_seen_although_many_have_tried_before", SCRIPTS),
    ("waiting::more_than_two_hundred_attempts_in_a_second_are_a_storm", SCRIPTS),
];

#[test]
fn every_other_story_is_judged_the_same_in_front_of_a_real_server() {
    run_in_front_of_redis(EXCEPTIONS);
}
