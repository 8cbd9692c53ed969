//! What makes one holder of a lock differ from another.

use redouble::Code;

use super::story::{Pair, judge, play};

#[test]
fn two_clients_share_a_token() {
    judge(&Pair {
        code: Code::TokenReused,
        wrong: r#"
            ! A: SET lock {a} NX PX 10000
            A: EVAL "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end" 1 lock {a}
            ! B: SET lock {a} NX PX 10000
            B: EVAL "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end" 1 lock {a}
        "#,
        right: r#"
            A: SET lock {a} NX PX 10000
            A: EVAL "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end" 1 lock {a}
            A: SET lock {a} NX PX 10000
            A: EVAL "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end" 1 lock {a}
            B: SET lock {b} NX PX 10000
            B: EVAL "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end" 1 lock {b}
        "#,
    });
}

#[test]
fn a_client_offers_the_token_of_the_holder() {
    judge(&Pair {
        code: Code::TokenReused,
        wrong: r#"
            ! A: SET lock {a} NX PX 10000
            ! B: SET lock {a} NX PX 10000
            A: EVAL "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end" 1 lock {a}
        "#,
        right: r#"
            A: SET lock {a} NX PX 10000
            B: SET lock {b} NX PX 10000
            A: EVAL "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end" 1 lock {a}
            B: SET lock {b} NX PX 10000
            B: EVAL "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end" 1 lock {b}
        "#,
    });
}

#[test]
fn a_token_is_the_same_on_several_servers_but_not_for_two_clients() {
    judge(&Pair {
        code: Code::TokenReused,
        wrong: r#"
            ! A: SET lock {a} NX PX 10000
            B: SET lock {b} NX PX 10000
            A: EVAL "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end" 1 lock {a}
            ! B: SET lock {a} NX PX 10000
            B: EVAL "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end" 1 lock {a}
        "#,
        right: r#"
            A: SET lock {a} NX PX 10000
            A@2: SET lock {a} NX PX 10000
            A@3: SET lock {a} NX PX 10000
            A: EVAL "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end" 1 lock {a}
            A@2: EVAL "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end" 1 lock {a}
            A@3: EVAL "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end" 1 lock {a}
        "#,
    });
}

#[test]
fn everybody_uses_the_token_1() {
    judge(&Pair {
        code: Code::TokenConstant,
        wrong: r#"
            ! A: SET lock 1 NX PX 10000
            ! B: SET lock 1 NX PX 10000
            A: DEL lock
        "#,
        right: r#"
            A: SET lock {a} NX PX 10000
            B: SET lock {b} NX PX 10000
            A: EVAL "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end" 1 lock {a}
            B: SET lock {b} NX PX 10000
            B: EVAL "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end" 1 lock {b}
        "#,
    });
}

#[test]
fn everybody_uses_the_same_word_without_a_name() {
    judge(&Pair {
        code: Code::TokenConstant,
        wrong: r#"
            ! a: SET lock worker-pool NX PX 10000
            b: SET lock {b} NX PX 10000
            a: EVAL "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end" 1 lock worker-pool
            ! b: SET lock worker-pool NX PX 10000
            b: EVAL "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end" 1 lock worker-pool
            ! a: SET lock worker-pool NX PX 10000
            a: EVAL "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end" 1 lock worker-pool
        "#,
        right: r#"
            A: SET lock {a} NX PX 10000
            B: SET lock {b} NX PX 10000
            A: EVAL "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end" 1 lock {a}
            B: SET lock {b} NX PX 10000
            B: EVAL "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end" 1 lock {b}
        "#,
    });
}

#[test]
fn an_empty_token_is_everybodys() {
    judge(&Pair {
        code: Code::TokenConstant,
        wrong: r#"
            ! A: SET lock "" NX PX 10000
            ! B: SET lock "" NX PX 10000
            A: DEL lock
        "#,
        right: r#"
            A: SET lock {a} NX PX 10000
            B: SET lock {b} NX PX 10000
            A: EVAL "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end" 1 lock {a}
            B: SET lock {b} NX PX 10000
            B: EVAL "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end" 1 lock {b}
        "#,
    });
}

#[test]
fn the_time_is_no_token() {
    judge(&Pair {
        code: Code::TokenGuessable,
        wrong: r#"
            ! A: SET lock {ms+0} NX PX 10000
            B: SET lock {ms+1} NX PX 10000
            A: EVAL "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end" 1 lock {ms+0}
        "#,
        right: r#"
            A: SET lock {a} NX PX 10000
            B: SET lock {b} NX PX 10000
            A: EVAL "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end" 1 lock {a}
            B: SET lock {b} NX PX 10000
            B: EVAL "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end" 1 lock {b}
        "#,
    });
}

#[test]
fn a_host_and_a_process_are_no_token() {
    judge(&Pair {
        code: Code::TokenGuessable,
        wrong: r#"
            ! A: SET lock web-1:4711 NX PX 10000
            B: SET lock web-2:4712 NX PX 10000
            A: EVAL "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end" 1 lock web-1:4711
        "#,
        right: r#"
            A: SET lock {a} NX PX 10000
            B: SET lock {b} NX PX 10000
            A: EVAL "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end" 1 lock {a}
            B: SET lock {b} NX PX 10000
            B: EVAL "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end" 1 lock {b}
        "#,
    });
}

#[test]
fn a_host_and_a_time_are_no_token() {
    judge(&Pair {
        code: Code::TokenGuessable,
        wrong: r#"
            ! A: SET lock web-1:{s+0} NX PX 10000
            B: SET lock web-2:{s+0} NX PX 10000
            A: EVAL "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end" 1 lock web-1:{s+0}
        "#,
        right: r#"
            A: SET lock web-1:{a} NX PX 10000
            B: SET lock web-2:{b} NX PX 10000
            A: EVAL "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end" 1 lock web-1:{a}
        "#,
    });
}

#[test]
fn a_small_number_is_no_token() {
    judge(&Pair {
        code: Code::TokenGuessable,
        wrong: r#"
            ! A: SET lock 731649 NX PX 10000
            B: SET lock 88421 NX PX 10000
            A: EVAL "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end" 1 lock 731649
        "#,
        right: r#"
            A: SET lock 9f86d081-884c-4d65-9a2f-eaa0c55ad015 NX PX 10000
            B: SET lock sJ8fK2mQ9xT4bV7nL1cW6z NX PX 10000
            A: EVAL "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end" 1 lock 9f86d081-884c-4d65-9a2f-eaa0c55ad015
        "#,
    });
}

fn codes(story: &str) -> Vec<Code> {
    play(story).findings().iter().map(|finding| finding.code).collect()
}

#[test]
fn connections_without_names_that_share_a_random_token_may_be_one_program() {
    let codes = codes(
        "
            a: SET lock {a} NX PX 10000
            c: SET lock {c} NX PX 10000
            a: DEL lock
            b: SET lock {a} NX PX 10000
            b: DEL lock
            a: SET lock {a} NX PX 10000
            a: DEL lock
        ",
    );
    assert!(!codes.contains(&Code::TokenReused) && !codes.contains(&Code::TokenConstant), "{codes:?}");
}

#[test]
fn times_as_values_are_no_bad_tokens() {
    let codes = codes(
        "
            A: SETNX lock.foo {s+10}
            B: SETNX lock.foo {s+10}
            +20s
            B: GET lock.foo
            B: GETSET lock.foo {s+10}
            B: DEL lock.foo
            A: SETNX lock.foo {s+10}
            A: DEL lock.foo
        ",
    );
    let bad = [Code::TokenReused, Code::TokenConstant, Code::TokenGuessable];
    assert!(codes.iter().all(|code| !bad.contains(code)), "{codes:?}");
}
