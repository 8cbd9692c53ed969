//! The stories: what must be true of redouble in front of a deployment, beside what programs see.

use super::{administration, bad_days, crawl, own_sentinels};

pub struct Story {
    pub name: &'static str,
    pub play: fn() -> Result<(), String>,
}

macro_rules! stories {
    ($($module:ident::$name:ident,)*) => {
        pub const STORIES: &[Story] = &[$(Story { name: stringify!($name), play: $module::$name }),*];
    };
}

stories! {
    administration::redis_cli_makes_and_changes_a_cluster,
    bad_days::a_seed_that_is_down_is_passed_over,
    bad_days::all_seeds_down_are_named,
    bad_days::a_cluster_that_is_down_says_so_and_comes_back,
    bad_days::a_slot_that_nobody_has_is_an_error,
    bad_days::a_redirect_loop_stays_a_loop_among_local_ports,
    bad_days::two_fronts_of_one_cluster_do_not_mix,
    bad_days::thousands_of_redirects_during_resharding_are_all_right,
    bad_days::a_node_that_comes_back_elsewhere_keeps_its_local_port,
    bad_days::a_killed_master_closes_its_clients_and_comes_back,
    bad_days::a_node_that_joins_has_a_local_port,
    bad_days::hostnames_and_unknown_endpoints_are_local_ones,
    bad_days::another_host_is_announced,
    bad_days::passwords_are_given_by_redouble_or_by_the_client,
    bad_days::a_wrong_password_is_named_in_the_log,
    bad_days::sentinels_with_passwords_are_followed,
    bad_days::tls_to_the_nodes_is_not_told_to_plain_clients,
    bad_days::tls_to_clients_is_on_every_local_port,
    bad_days::run_gives_the_addresses_of_all_nodes,
    bad_days::sentinels_that_are_down_are_passed_over,
    bad_days::a_local_address_in_a_command_means_the_node,
    bad_days::sentinels_that_tell_hostnames_are_followed,
    bad_days::a_node_that_is_cut_off_is_there_for_the_others,
    bad_days::an_unknown_service_is_named,
    bad_days::clients_of_a_former_master_are_disconnected,
    bad_days::cluster_nodes_is_the_same_but_for_addresses,
    crawl::no_real_address_of_a_cluster_leaves,
    crawl::no_real_address_of_a_sentinel_set_leaves,
    crawl::data_that_looks_like_addresses_is_not_changed,
    own_sentinels::redis_py_sees_no_difference_between_own_sentinels_and_real_ones,
    own_sentinels::redis_py_with_asyncio_sees_no_difference_between_own_sentinels_and_real_ones,
    own_sentinels::ioredis_sees_no_difference_between_own_sentinels_and_real_ones,
    own_sentinels::node_redis_sees_no_difference_between_own_sentinels_and_real_ones,
    own_sentinels::redis_rs_sees_no_difference_between_own_sentinels_and_real_ones,
    own_sentinels::redis_py_passes_the_same_of_its_own_tests_on_own_sentinels_as_on_real_ones,
}
