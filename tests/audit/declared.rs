//! Keys that the user declares to be locks, whatever is done with them.

use redouble::{Code, Severity};

use super::story::{Pair, judge, play, shown};

/// An error of this kind is found, and no other one.
#[track_caller]
fn error(code: Code, story: &str) {
    let played = play(story);
    let findings = played.findings();
    let told = findings.iter().map(|finding| shown(&played, finding)).collect::<String>();
    let is_it =
        |finding: &&std::sync::Arc<redouble::Finding>| finding.severity == Severity::Error && finding.code == code;
    assert!(findings.iter().any(|finding| is_it(&finding)), "no {} in\n{story}\n{told}", code.name());
}

/// No error is found.
#[track_caller]
fn no_error(story: &str) {
    let played = play(story);
    let errors = played.findings().into_iter().filter(|finding| finding.severity == Severity::Error);
    let told = errors.map(|finding| shown(&played, &finding)).collect::<String>();
    assert!(told.is_empty(), "found in\n{story}\n{told}");
}

#[test]
fn a_counter_that_was_free_a_step_before_lets_two_in() {
    judge(&Pair {
        code: Code::CheckedThenTaken,
        wrong: "
            locks door
            ! B: GET door
            A: GET door
            ! A: INCR door
            ! B: INCR door
            A: SET data 1
            ! B: SET data 2
            A: DECR door
            B: DECR door
        ",
        right: "
            locks door
            A: GET door
            B: GET door
            A: INCR door
            B: INCR door
            B: DECR door
            A: SET data 1
            A: DECR door
            B: INCR door
            B: SET data 2
            B: DECR door
        ",
    });
}

#[test]
fn who_finds_a_place_free_adds_itself_and_ignores_the_reply_is_told_of_whoever_goes_first() {
    for (look, add, give_back) in [
        ("SISMEMBER busy acme", "SADD busy acme", "SREM busy acme"),
        ("HEXISTS busy acme", "HSETNX busy acme 1", "HDEL busy acme"),
    ] {
        error(
            Code::CheckedThenTaken,
            &format!(
                "
                locks busy
                B: {look}
                A: {look}
                A: {add}
                B: {add}
                A: SET rows 30
                B: SET rows 12
                A: {give_back}
                B: {give_back}
                "
            ),
        );
        // It reads while the other one has it, and writes when that one has gone.
        error(
            Code::CheckedThenTaken,
            &format!(
                "
                locks busy
                B: {look}
                A: {look}
                A: {add}
                B: {add}
                B: GET rows
                A: SET rows 30
                A: {give_back}
                B: SET rows 12
                B: {give_back}
                "
            ),
        );
        // Who was told that another one has it counts that, and comes again later.
        no_error(&format!(
            "
            locks busy
            B: {look}
            A: {look}
            A: {add}
            B: {add}
            B: INCR skipped
            A: SET rows 30
            A: {give_back}
            B: {add}
            B: SET rows 12
            B: {give_back}
            "
        ));
        // Whoever tidies up whatever has happened, and has not worked.
        no_error(&format!(
            "
            locks busy
            B: {look}
            A: {look}
            A: {add}
            B: {add}
            A: SET rows 30
            A: {give_back}
            B: {give_back}
            "
        ));
    }
}

#[test]
fn a_key_that_was_free_a_step_before_is_set_by_two() {
    for look in ["GET", "EXISTS"] {
        for value in ["{a}", "1"] {
            error(
                Code::OverwroteLiveLock,
                &format!(
                    "locks busy:*
                    b: {look} busy:7
                    a: {look} busy:7
                    a: SET busy:7 {value} EX 600
                    b: SET busy:7 {} EX 600",
                    if value == "1" { "1" } else { "{b}" }
                ),
            );
        }
        no_error(&format!(
            "locks busy:*
            a: {look} busy:7
            a: SET busy:7 {{a}} EX 600
            b: {look} busy:7
            a: DEL busy:7
            b: {look} busy:7
            b: SET busy:7 {{b}} EX 600
            b: DEL busy:7"
        ));
    }
}

#[test]
fn whoever_is_refused_must_not_clean_up() {
    for (take, release) in
        [("HSETNX owners door-7", "HDEL owners door-7"), ("SADD owners", "SREM owners"), ("INCR owners", "DEL owners")]
    {
        let value = |client: &str| match take {
            "SADD owners" => " door-7".to_owned(),
            "INCR owners" => String::new(),
            _ => format!(" {client}"),
        };
        let item = if take.starts_with("SADD") { " door-7" } else { "" };
        let wrong = format!(
            "locks owners
            a: {take}{}
            b: {take}{}
            b: {release}{item}
            c: {take}{}
            a: {release}{item}",
            value("a"),
            value("b"),
            value("c")
        );
        error(Code::BlindDelete, &wrong);
        error(Code::TwoHolders, &wrong);
        no_error(&format!(
            "locks owners
            a: {take}{}
            a: {release}{item}
            b: {take}{}
            b: {release}{item}
            c: {take}{}
            a: {release}x",
            value("a"),
            value("b"),
            value("c")
        ));
    }
}

#[test]
fn a_program_may_give_back_over_another_connection() {
    no_error(
        "
        locks owners
        a: SADD owners door-7
        b: SREM owners door-7
        c: SADD owners door-7
        c: SREM owners door-7
        ",
    );
    no_error(
        "
        locks owners
        A: HSETNX owners door-7 a
        B: HDEL owners door-7
        C: HSETNX owners door-7 c
        ",
    );
}

#[test]
fn a_holder_whose_counter_has_expired_releases_that_of_another_one() {
    error(
        Code::ForeignRelease,
        "
        locks door
        a: INCR door
        a: EXPIRE door 1
        +2s
        b: INCR door
        b: EXPIRE door 1
        a: DEL door
        ",
    );
    no_error(
        "
        locks door
        a: INCR door
        a: EXPIRE door 1
        +2s
        b: INCR door
        b: EXPIRE door 1
        b: DEL door
        a: INCR door
        a: DEL door
        ",
    );
}

#[test]
fn a_counter_that_admits_several_is_no_lock_for_one() {
    no_error(
        "
        locks seats
        A: INCR seats
        B: INCR seats
        B: SET data 1
        C: GET seats
        C: INCR seats
        C: DECR seats
        B: DECR seats
        A: DECR seats
        ",
    );
}

#[test]
fn two_count_the_members_and_both_add_themselves() {
    for (count, add) in [("ZCARD", "ZADD slots 1 "), ("SCARD", "SADD slots "), ("ZRANGE slots 0 -1 |", "ZADD slots 1 ")]
    {
        let count =
            if count.ends_with('|') { count.trim_end_matches(" |").to_owned() } else { format!("{count} slots") };
        error(
            Code::CheckedThenTaken,
            &format!(
                "locks slots
                a: {count}
                b: {count}
                a: {add}{{a}}
                b: {add}{{b}}
                b: SET data 1"
            ),
        );
        no_error(&format!(
            "locks slots
            a: {count}
            a: {add}{{a}}
            b: {count}
            b: {add}{{b}}
            b: SET data 1
            b: ZREM other {{b}}"
        ));
    }
    no_error(
        "
        locks slots
        a: ZCARD slots
        b: ZCARD slots
        a: ZADD slots 1 {a}
        b: ZADD slots 2 {b}
        b: ZRANK slots {b}
        b: ZREM slots {b}
        ",
    );
}

#[test]
fn a_clock_that_is_behind_comes_in_before_those_who_are_in() {
    let story = |score: &str| {
        format!(
            "locks slots
            a: ZADD slots 1000 {{a}}
            a: ZRANK slots {{a}}
            +1s
            b: ZADD slots 2000 {{b}}
            b: ZRANK slots {{b}}
            b: ZREM slots {{b}}
            +1s
            c: ZADD slots {score} {{c}}
            c: ZRANK slots {{c}}"
        )
    };
    error(Code::TwoHolders, &story("500"));
    no_error(&story("3000"));
}

#[test]
fn a_token_is_put_into_the_list_while_somebody_has_it() {
    for refill in ["b: EXISTS tokens", "b: LLEN tokens", "b: LPOP tokens"] {
        error(
            Code::TwoHolders,
            &format!(
                "locks tokens
                a: RPUSH tokens gpu-0
                a: LPOP tokens
                {refill}
                b: RPUSH tokens gpu-0
                b: BLPOP tokens 1"
            ),
        );
    }
    no_error(
        "
        locks tokens
        a: RPUSH tokens gpu-0
        a: RPUSH tokens gpu-1
        a: LPOP tokens
        b: BLPOP tokens 1
        b: LLEN tokens
        b: RPUSH tokens gpu-1
        a: RPUSH tokens gpu-0
        b: LPOP tokens
        b: RPUSH tokens gpu-0
        ",
    );
    // Another connection of the program brings it back.
    no_error(
        "
        locks tokens
        a: RPUSH tokens gpu-0
        a: LPOP tokens
        b: RPUSH tokens gpu-0
        c: LPOP tokens
        ",
    );
}

#[test]
fn what_is_not_declared_is_a_counter_a_set_or_a_queue() {
    no_error(
        "
        a: GET views
        b: GET views
        a: INCR views
        b: INCR views
        b: SET data 1
        a: SADD seen 7
        b: SADD seen 7
        b: SREM seen 7
        c: SADD seen 7
        a: RPUSH jobs 1
        a: LPOP jobs
        b: LLEN jobs
        b: RPUSH jobs 1
        b: LPOP jobs
        a: EXISTS page
        b: EXISTS page
        a: SET page {a} EX 60
        b: SET page {b} EX 60
        a: HSETNX settings colour red
        b: HSETNX settings colour red
        b: HDEL settings colour
        ",
    );
}
