//! Which keys are taken for locks, and which are not; who holds them, until when, and who waits.

use redouble::Code;
use redouble::internals::{Hold, HoldEnd, HoldStatus, Lock, Scope};

use super::story::{Played, play, token};

/// What libraries send to take, to extend and to release locks; what is behind the word in a story follows.
const SCRIPTS: &[(&str, &str)] = &[
    (
        "$release",
        "local token = redis.call('get', KEYS[1]) if not token or token ~= ARGV[1] then return 0 end \
         redis.call('del', KEYS[1]) return 1",
    ),
    (
        "$extend",
        "local token = redis.call('get', KEYS[1]) if not token or token ~= ARGV[1] then return 0 end \
         local expiration = redis.call('pttl', KEYS[1]) if expiration < 0 then return 0 end \
         redis.call('pexpire', KEYS[1], expiration + ARGV[2]) return 1",
    ),
    (
        "$node_lock",
        "for i, key in ipairs(KEYS) do if redis.call('exists', key) == 1 then return 0 end end \
         for i, key in ipairs(KEYS) do redis.call('set', key, ARGV[1], 'PX', ARGV[2]) end return #KEYS",
    ),
    (
        "$node_extend",
        "for i, key in ipairs(KEYS) do if redis.call('get', key) ~= ARGV[1] then return 0 end end \
         for i, key in ipairs(KEYS) do redis.call('set', key, ARGV[1], 'PX', ARGV[2]) end return #KEYS",
    ),
    (
        "$node_unlock",
        "local count = 0 for i, key in ipairs(KEYS) do if redis.call('get', key) == ARGV[1] then \
         redis.pcall('del', key) count = count + 1 end end return count",
    ),
    (
        "$sync_unlock",
        "local val = redis.call('GET', KEYS[1]) if val == ARGV[1] then return redis.call('DEL', KEYS[1]) \
         elseif val == false then return -1 else return 0 end",
    ),
    (
        "$bsm_obtain",
        "if redis.call('msetnx', KEYS[1], ARGV[1], KEYS[2], ARGV[1]) ~= 1 then for _, key in ipairs(KEYS) do \
         if redis.call('getrange', key, 0, tonumber(ARGV[2]) - 1) ~= string.sub(ARGV[1], 1, tonumber(ARGV[2])) then \
         return false end end redis.call('mset', KEYS[1], ARGV[1], KEYS[2], ARGV[1]) end \
         for _, key in ipairs(KEYS) do redis.call('pexpire', key, ARGV[3]) end return redis.status_reply('OK')",
    ),
    (
        "$bsm_release",
        "local values = redis.call('mget', unpack(KEYS)) for i, _ in ipairs(KEYS) do \
         if values[i] ~= ARGV[1] then return false end end redis.call('del', unpack(KEYS)) \
         return redis.status_reply('OK')",
    ),
    (
        "$aio_lock",
        "local v = redis.call('get', KEYS[1]) if v == false or v == ARGV[1] then \
         redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2]) return 'OK' end return redis.error_reply('ERROR')",
    ),
    (
        "$signal_unlock",
        "if redis.call('get', KEYS[1]) ~= ARGV[1] then return 1 else redis.call('del', KEYS[2]) \
         redis.call('lpush', KEYS[2], 1) redis.call('pexpire', KEYS[2], ARGV[2]) redis.call('del', KEYS[1]) \
         return 0 end",
    ),
    (
        "$spring_obtain",
        "local id = redis.call('GET', KEYS[1]) if id == ARGV[1] then redis.call('PEXPIRE', KEYS[1], ARGV[2]) return true \
         elseif not id then redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2]) return true end return false",
    ),
    (
        "$spring_release",
        "if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('UNLINK', KEYS[1]) \
         redis.call('PUBLISH', ARGV[2], KEYS[1]) return 1 end return 0",
    ),
    (
        "$redisson_lock",
        "if ((redis.call('exists', KEYS[1]) == 0) or (redis.call('hexists', KEYS[1], ARGV[2]) == 1)) then \
         redis.call('hincrby', KEYS[1], ARGV[2], 1) redis.call('pexpire', KEYS[1], ARGV[1]) return nil end \
         return redis.call('pttl', KEYS[1])",
    ),
    (
        "$redisson_watchdog",
        "if (redis.call('hexists', KEYS[1], ARGV[2]) == 1) then redis.call('pexpire', KEYS[1], ARGV[1]) return 1 end \
         return 0",
    ),
    (
        "$redisson_unlock",
        "local val = redis.call('get', KEYS[3]) if val ~= false then return tonumber(val) end \
         if (redis.call('hexists', KEYS[1], ARGV[3]) == 0) then return nil end \
         local counter = redis.call('hincrby', KEYS[1], ARGV[3], -1) if (counter > 0) then \
         redis.call('pexpire', KEYS[1], ARGV[2]) redis.call('set', KEYS[3], 0, 'px', ARGV[5]) return 0 else \
         redis.call('del', KEYS[1]) redis.call(ARGV[4], KEYS[2], ARGV[1]) \
         redis.call('set', KEYS[3], 1, 'px', ARGV[5]) return 1 end",
    ),
    (
        "$semaphore_enter",
        "redis.call('zremrangebyscore', KEYS[1], '-inf', ARGV[4] - ARGV[3]) \
         if redis.call('zcard', KEYS[1]) < tonumber(ARGV[1]) then redis.call('zadd', KEYS[1], ARGV[4], ARGV[2]) \
         redis.call('pexpire', KEYS[1], ARGV[3]) return 1 else return 0 end",
    ),
    (
        "$unique_lock",
        "if redis.call('hexists', KEYS[1], ARGV[1]) == 1 then return ARGV[1] end \
         if redis.call('hlen', KEYS[1]) >= tonumber(ARGV[2]) then return nil end \
         redis.call('hset', KEYS[1], ARGV[1], ARGV[3]) redis.call('pexpire', KEYS[1], ARGV[4]) return ARGV[1]",
    ),
    (
        "$unique_unlock",
        "if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return nil end redis.call('hdel', KEYS[1], ARGV[1]) \
         if redis.call('hlen', KEYS[1]) == 0 then redis.call('unlink', KEYS[1]) end return ARGV[1]",
    ),
    (
        "$count",
        "local n = redis.call('incr', KEYS[1]) if n == 1 then redis.call('pexpire', KEYS[1], ARGV[1]) end return n",
    ),
    (
        "$first_set",
        r#"if redis.call('exists',KEYS[1])==0 then return redis.call('set',KEYS[1],ARGV[1],'PX',ARGV[2]) end return 0"#,
    ),
    (
        "$attempt",
        r#"if redis.call('exists',KEYS[1])==1 then return redis.call('hincrby',KEYS[1],'attempts',1) end return 0"#,
    ),
    (
        "$first_count",
        "if redis.call('setnx', KEYS[1], 1) == 1 then redis.call('expire', KEYS[1], ARGV[1]) return 1 end \
         return redis.call('incr', KEYS[1])",
    ),
    (
        "$window",
        "redis.call('zremrangebyscore', KEYS[1], '-inf', ARGV[1] - 1000) \
         if redis.call('zcard', KEYS[1]) >= 2 then return 0 end redis.call('zadd', KEYS[1], ARGV[1], ARGV[2]) \
         redis.call('pexpire', KEYS[1], 1000) return 1",
    ),
    ("$cached", "local v = redis.call('get', KEYS[1]) if v then return v end return ARGV[1]"),
    (
        "$highest",
        "local now = tonumber(redis.call('get', KEYS[1])) if now == nil or now < tonumber(ARGV[1]) then \
         redis.call('set', KEYS[1], ARGV[1]) return tonumber(ARGV[1]) end return nil",
    ),
    (
        "$swap",
        "if redis.call('get', KEYS[1]) == ARGV[1] then redis.call('set', KEYS[1], ARGV[2]) return 1 end return 0",
    ),
];

fn playing(story: &str) -> Played {
    let mut story = story.to_owned();
    for (name, script) in SCRIPTS {
        story = story.replace(&format!("{name} "), &format!("EVAL \"{script}\" "));
        story = story.replace(&format!("{name}_sha "), &format!("EVALSHA {} ", sha(script)));
    }
    play(&story)
}

fn sha(script: &str) -> String {
    sha1_smol::Sha1::from(script).digest().to_string()
}

/// What is known of each lock after a story, one line each: `KEY: HOLDER has TOKEN ...; WAITER waits n; HOLDER had TOKEN`.
fn seen(story: &str) -> Vec<String> {
    seen_in(story, Scope::default())
}

fn seen_in(story: &str, scope: Scope) -> Vec<String> {
    playing(story).locks_in(scope).iter().map(described).collect()
}

fn described(lock: &Lock) -> String {
    let mut parts = Vec::new();
    for hold in &lock.holds {
        let mut part = format!("{} has {}", hold.client.name, named(&hold.token));
        if let Some(deadline) = hold.deadline {
            part.push_str(&format!(" for {} ms", deadline - hold.acquired.at / 1000));
        }
        if let Some(instant) = hold.timestamp {
            part.push_str(&format!(" for {:.0} s", (instant.micros - hold.acquired.at) as f64 / 1e6));
        }
        if hold.extensions > 0 {
            part.push_str(&format!(", extended {}", hold.extensions));
        }
        match &hold.status {
            HoldStatus::Held if hold.is_certain => {}
            HoldStatus::Held => part.push_str(", perhaps"),
            other => part.push_str(&format!(", but {}", fate(other))),
        }
        parts.push(part);
    }
    for waiter in &lock.waiters {
        parts.push(format!("{} waits {}", waiter.client.name, waiter.attempts));
    }
    for past in &lock.past_holds {
        let end = match past.end {
            HoldEnd::Released => "released",
            HoldEnd::Expired => "expired",
            HoldEnd::Closed => "closed",
            HoldEnd::Noticed => "told",
            HoldEnd::Unknown => "unknown",
        };
        parts.push(format!("{} had {}, {end}", past.hold.client.name, held(&past.hold)));
    }
    format!("{}: {}", String::from_utf8_lossy(&lock.id.key), parts.join("; "))
}

fn held(hold: &Hold) -> String {
    match hold.timestamp {
        Some(_) => "a time".to_owned(),
        None => named(&hold.token),
    }
}

fn fate(standing: &HoldStatus) -> &'static str {
    match standing {
        HoldStatus::Held => "held",
        HoldStatus::Deleted(_) => "deleted",
        HoldStatus::Overwritten(_) => "overwritten",
        HoldStatus::Flushed(_) => "flushed",
        HoldStatus::Evicted(_) => "evicted",
        HoldStatus::FailedOver(_) => "failed-over",
        HoldStatus::Vanished => "vanished",
    }
}

/// The letter that stands for a token in a story; times are all the same.
fn named(value: &[u8]) -> String {
    let text = String::from_utf8_lossy(value);
    for letter in 'a'..='z' {
        if text.contains(&token(&letter.to_string())) {
            return letter.to_string();
        }
    }
    if text.starts_with("17") || text.starts_with("18") { "a time".to_owned() } else { text.into_owned() }
}

#[track_caller]
fn sees(story: &str, locks: &[&str]) {
    assert_eq!(seen(story), locks, "{story}");
}

#[test]
fn setnx_with_the_time_of_its_end_is_a_lock_in_any_unit() {
    for unit in ["s", "ms", "f"] {
        let story = format!("A: SETNX foo {{{unit}+10}}");
        let locks = seen(&story);
        assert!(locks.len() == 1 && locks[0].starts_with("foo: A has a time for "), "{locks:?}");
    }
    sees("A: SETNX foo {ms+10}\nB: SETNX foo {ms+10}", &["foo: A has a time for 10 s; B waits 1"]);
    sees("A: SETNX foo {a}:{ms+10}", &["foo: A has a for 10 s"]);
    sees("A: SETNX foo {ms+10}\n+11s\nB: SETNX foo {ms+10}", &["foo: B waits 1; A had a time, expired"]);
}

#[test]
fn a_stale_lock_is_taken_over_with_getset_and_whoever_is_late_knows() {
    sees(
        "A: SETNX foo {ms+10}\n+11s\nB: GET foo\nC: GET foo\nB: GETSET foo {ms+10}\nC: GETSET foo {ms+10}",
        &["foo: B has a time for 10 s; C waits 1; A had a time, expired"],
    );
    sees("A: GETSET foo {ms+10}", &["foo: A has a time for 10 s"]);
}

#[test]
fn setnx_and_then_expire_is_a_lock() {
    sees("A: SETNX foo {a}\nA: EXPIRE foo 10", &["foo: A has a for 10000 ms, extended 1"]);
    sees("A: SETNX foo:lock 1\nA: EXPIRE foo:lock 10", &["foo:lock: A has 1 for 10000 ms, extended 1"]);
    sees("A: SETNX foo 1\nA: EXPIRE foo 10", &[]);
}

#[test]
fn what_a_second_client_fails_to_take_is_a_lock() {
    sees("A: SET foo {a} NX PX 1000", &[]);
    sees(
        "A: SET foo {a} NX PX 1000\nB: SET foo {b} NX PX 1000\nB: SET foo {b} NX PX 1000",
        &["foo: A has a for 1000 ms; B waits 2"],
    );
    sees("A: SET foo {a} EX 10 NX\nB: SET foo {b} NX EX 10 GET", &["foo: A has a for 10000 ms; B waits 1"]);
    sees(
        "A: SET foo {a} NX PX 1000\nB: SET foo {b} NX PX 1000\n+2s\nB: SET foo {b} NX PXAT {ms+5}",
        &["foo: B has b for 5000 ms; A had a, expired"],
    );
    sees("A: SET foo {a} NX PX 1000\nB: SET foo {b} NX PX 1000\nclose A", &["foo: B waits 1; A had a, closed"]);
}

#[test]
fn a_lock_without_tokens_shows_when_it_is_given_back() {
    sees("A: SET foo 1 NX PX 1000\nB: SET foo 1 NX PX 1000", &[]);
    sees(
        "A: SET foo 1 NX PX 1000\nB: SET foo 1 NX PX 1000\nA: DEL foo\nB: SET foo 1 NX PX 1000",
        &["foo: B has 1 for 1000 ms; A had 1, released"],
    );
    sees("A: SET foo:lock 1 NX PX 1000\nB: SET foo:lock 1 NX PX 1000", &["foo:lock: A has 1 for 1000 ms; B waits 1"]);
}

#[test]
fn a_short_token_may_be_compared_too() {
    sees("A: SET foo t1 NX PX 1000\nA: $node_extend 1 foo t1 3000", &["foo: A has t1 for 3000 ms, extended 1"]);
}

#[test]
fn several_keys_are_taken_with_msetnx() {
    sees("A: MSETNX x {a} y {a}\nB: MSETNX x {b} z {b}", &["x: A has a; B waits 1"]);
    sees(
        "profile redis-8.4\nA: MSETEX 2 x {a} y {a} NX PX 1000\nB: MSETEX 2 y {b} x {b} NX PX 1000",
        &["x: A has a for 1000 ms; B waits 1", "y: A has a for 1000 ms; B waits 1"],
    );
}

#[test]
fn redis_py_compares_in_scripts_that_are_loaded_when_they_are_missing() {
    sees(
        "
            A: SET foo {a} NX PX 1000
            A: $extend_sha 1 foo {a} 500
            A: $extend 1 foo {a} 500
            A: $extend_sha 1 foo {a} 500
        ",
        &["foo: A has a for 2000 ms, extended 2"],
    );
    sees(
        "
            A: SET foo {a} NX PX 1000
            A: $release 1 foo {a}
            B: SET foo {b} NX PX 1000
            B: $release_sha 1 foo {c}
        ",
        &["foo: B has b for 1000 ms; A had a, released"],
    );
}

#[test]
fn node_redlock_takes_several_keys_in_a_script() {
    sees(
        "
            A: $node_lock_sha 2 x y {a} 1000
            A: $node_lock 2 x y {a} 1000
            B: $node_lock_sha 1 y {b} 1000
            A: $node_extend 2 x y {a} 3000
        ",
        &["x: A has a for 3000 ms, extended 1", "y: A has a for 3000 ms, extended 1; B waits 1"],
    );
    sees(
        "
            A: $node_lock 2 x y {a} 1000
            B: $node_lock 2 x y {b} 1000
            A: $node_unlock 2 x y {a}
            B: $node_lock 2 x y {b} 1000
        ",
        &["x: B has b for 1000 ms; A had a, released", "y: B has b for 1000 ms; A had a, released"],
    );
}

#[test]
fn redsync_tells_a_lock_that_is_gone_from_one_that_is_anothers() {
    let story = "
        A: SET foo {a} PX 1000 NX
        B: SET foo {b} PX 1000 NX
        A: $sync_unlock 1 foo {a}
        B: SET foo {b} PX 1000 NX
        C: SET foo {c} PX 1000 NX
        C: $sync_unlock 1 foo {c}
    ";
    sees(story, &["foo: B has b for 1000 ms; C waits 1; A had a, released"]);
}

#[test]
fn bsm_redislock_compares_the_beginning_of_a_value() {
    sees(
        "
            A: $bsm_obtain 2 x y {a}meta 32 1000
            B: $bsm_obtain 2 x y {b}meta 32 1000
            A: $bsm_obtain 2 x y {a}more 32 3000
        ",
        &["x: A has a for 3000 ms, extended 1; B waits 1", "y: A has a for 3000 ms, extended 1; B waits 1"],
    );
    sees(
        "
            A: $bsm_obtain 2 x y {a} 32 1000
            A: $bsm_release 2 x y {a}
            B: $bsm_obtain 2 x y {b} 32 1000
        ",
        &["x: B has b for 1000 ms; A had a, released", "y: B has b for 1000 ms; A had a, released"],
    );
}

#[test]
fn aioredlock_sets_what_nobody_has() {
    sees(
        "
            A: $aio_lock 1 foo {a} 1000
            B: $aio_lock 1 foo {b} 1000
            A: $aio_lock 1 foo {a} 5000
        ",
        &["foo: A has a for 5000 ms, extended 1; B waits 1"],
    );
}

#[test]
fn the_list_that_wakes_waiters_of_python_redis_lock_is_no_lock() {
    sees(
        "
            A: SET lock:foo {a} NX EX 10
            B: SET lock:foo {b} NX EX 10
            A: $signal_unlock 2 lock:foo lock-signal:foo {a} 1000
            B: BLPOP lock-signal:foo 5
            B: SET lock:foo {b} NX EX 10
            C: SET lock:foo {c} NX EX 10
            D: SET lock:foo {d} NX EX 10
        ",
        &["lock:foo: B has b for 10000 ms; C waits 1; D waits 1; A had a, released"],
    );
}

#[test]
fn spring_extends_for_whoever_has_it_and_takes_for_others() {
    sees(
        "
            A: $spring_obtain 1 foo {a} 1000
            A: $spring_obtain 1 foo {a} 3000
            B: $spring_obtain 1 foo {b} 1000
        ",
        &["foo: A has a for 3000 ms, extended 1; B waits 1"],
    );
    sees(
        "
            A: $spring_obtain 1 foo {a} 1000
            A: $spring_release 1 foo {a} channel
            B: $spring_obtain 1 foo {b} 1000
        ",
        &["foo: B has b for 1000 ms; A had a, released"],
    );
}

#[test]
fn redisson_counts_how_often_its_owner_has_it() {
    sees(
        "
            A: $redisson_lock 1 foo 30000 {a}:1
            B: $redisson_lock 1 foo 30000 {b}:1
            A: $redisson_lock 1 foo 30000 {a}:1
            A: $redisson_unlock 3 foo ch latch:x 0 30000 {a}:1 publish 1000
        ",
        &["foo: A has a for 30000 ms, extended 3; B waits 1"],
    );
    sees(
        "
            A: $redisson_lock 1 foo 30000 {a}:1
            +10s
            A: $redisson_watchdog 1 foo 30000 {a}:1
            B: $redisson_unlock 3 foo ch latch:y 0 30000 {b}:1 publish 1000
            A: $redisson_unlock 3 foo ch latch:x 0 30000 {a}:1 publish 1000
            B: $redisson_lock 1 foo 30000 {b}:1
        ",
        &["foo: B has b for 30000 ms, extended 1; A had a, released"],
    );
}

#[test]
fn a_semaphore_lets_several_in() {
    sees(
        "
            A: $semaphore_enter 1 foo 2 {a} 1000 {ms+0}
            B: $semaphore_enter 1 foo 2 {b} 1000 {ms+0}
            C: $semaphore_enter 1 foo 2 {c} 1000 {ms+0}
            A: ZREM foo {a}
        ",
        &["foo: B has b for 1000 ms, extended 1; C waits 1; A had a, released"],
    );
}

#[test]
fn unique_jobs_are_fields_of_a_hash() {
    sees(
        "
            A: $unique_lock 1 foo {a} 1 {s+0} 5000
            B: $unique_lock 1 foo {b} 1 {s+0} 5000
            A: $unique_unlock 1 foo {a}
            B: $unique_lock 1 foo {b} 1 {s+0} 5000
        ",
        &["foo: B has b for 5000 ms, extended 1; A had a, released"],
    );
}

#[test]
fn a_command_that_compares_makes_a_lock() {
    sees(
        "profile valkey-9.1\nA: SET foo {a} NX PX 1000\nB: DELIFEQ foo {b}\nA: SET foo {a} IFEQ {a} PX 3000",
        &["foo: A has a for 3000 ms, extended 1"],
    );
    sees(
        "profile valkey-9.1\nA: SET foo {a} NX PX 1000\nA: DELIFEQ foo {a}\nB: SET foo {b} NX PX 1000",
        &["foo: B has b for 1000 ms; A had a, released"],
    );
    sees(
        "profile redis-8.4\nA: SET foo {a} NX PX 1000\nA: DELEX foo IFEQ {a}\nB: SET foo {b} NX PX 1000",
        &["foo: B has b for 1000 ms; A had a, released"],
    );
}

#[test]
fn what_was_watched_and_read_is_compared() {
    sees(
        "
            A: SET foo {a} NX PX 1000
            A: WATCH foo
            A: GET foo
            A: MULTI
            A: PEXPIRE foo 3000
            A: EXEC
        ",
        &["foo: A has a for 3000 ms, extended 1"],
    );
    sees(
        "
            A: SET foo {a} NX PX 1000
            A: WATCH foo
            A: GET foo
            A: MULTI
            A: DEL foo
            A: EXEC
            B: SET foo {b} NX PX 1000
        ",
        &["foo: B has b for 1000 ms; A had a, released"],
    );
}

#[test]
fn scripts_run_inside_exec_and_as_functions() {
    sees(
        "
            A: SET foo {a} NX PX 1000
            A: MULTI
            A: $release 1 foo {a}
            A: EXEC
            B: SET foo {b} NX PX 1000
        ",
        &["foo: B has b for 1000 ms; A had a, released"],
    );
    let library = "#!lua name=locks\\nredis.register_function('unlock', function(keys, args) \
        if redis.call('get', keys[1]) == args[1] then return redis.call('del', keys[1]) end return 0 end)";
    sees(
        &format!(
            "
            A: FUNCTION LOAD \"{library}\"
            A: SET foo {{a}} NX PX 1000
            A: FCALL unlock 1 foo {{a}}
            B: SET foo {{b}} NX PX 1000
        "
        ),
        &["foo: B has b for 1000 ms; A had a, released"],
    );
}

#[test]
fn the_expiry_in_the_same_step_is_the_locks() {
    sees(
        "A: MULTI\nA: SETNX foo {a}\nA: PEXPIRE foo 1000\nA: EXEC\nB: SETNX foo {b}",
        &["foo: A has a for 1000 ms; B waits 1"],
    );
}

#[test]
fn whoever_lost_the_reply_may_have_the_lock() {
    let locks = seen("A: SETNX bar {a}\nlost A: SET foo {b} NX PX 1000\nB: SET foo {c} NX PX 1000");
    assert_eq!(locks, ["foo: B waits 1; A had b, closed"]);
}

/// Stories in which nothing is a lock, and of which nothing may be said.
#[test]
fn caches_counters_and_defaults_are_no_locks() {
    for story in [
        // A cache that adds what is missing.
        "A: SET page {a} NX PX 1000\nB: GET page\nB: GET page\nA: DEL page\nA: SET page {b} NX PX 1000",
        "A: SET page {a} NX EX 100\n+50s\nA: EXPIRE page 100\nA: GET page",
        // A script that reads what is there, and one that only reads.
        "A: SET page {a} NX PX 1000\nB: $cached 1 page {b}\nB: $cached 1 page {b}",
        // Counters.
        "A: SET hits 0 NX\nA: INCR hits\nB: SET hits 0 NX\nB: INCR hits\nB: GET hits",
        "A: SETNX hits 0\nA: EXPIRE hits 60\nA: INCR hits\nB: SETNX hits 0\nB: INCR hits",
        "A: SET left 3 PX 1000 NX\nB: WATCH left\nB: GET left\nB: MULTI\nB: SET left 2 PX 1000\nB: EXEC",
        "A: SET left 1 PX 1000 NX\nB: WATCH left\nB: GET left\nB: MULTI\nB: SET left 2 PX 1000\nB: EXEC\nC: SET left 1 NX",
        "A: $highest 1 id 1\nB: $highest 1 id 1\nC: $highest 1 id 2\nB: $highest 1 id 2\nA: $highest 1 id 1",
        "A: SET left 3 NX\nB: $swap 1 left 3 2\nB: $swap 1 left 2 1",
        // A default that everybody sets.
        "A: SETNX limit 100\nB: SETNX limit 100\nC: SETNX limit 100\nC: GET limit",
        // Rate limiters.
        "A: $count 1 rate:7 1000\nB: $count 1 rate:7 1000\n+2s\nA: $count 1 rate:7 1000",
        "A: $first_count 1 rate:7 10\nB: $first_count 1 rate:7 10\nB: $first_count 1 rate:7 10",
        "A: $window 1 rate:7 {ms+0} {a}\nB: $window 1 rate:7 {ms+0} {b}\nC: $window 1 rate:7 {ms+0} {c}",
        // A request that is done once.
        "A: SET request:7 {a} NX EX 86400\nB: GET request:7\nA: GET request:7\nC: EXISTS request:7",
        "A: SET request:7 1 NX EX 86400\nB: SET request:7 1 NX EX 86400\nB: GET request:7",
        // When something was seen first, and last.
        "A: SETNX first {s+0}\nB: SETNX first {s+0}\nB: GET first\nA: GETSET last {s+0}\n+5s\nB: GETSET last {s+0}",
        // Optimistic changes of other data.
        "A: SET cart {a}\nA: WATCH cart\nA: GET cart\nA: MULTI\nA: DEL cart\nA: EXEC",
        "A: SET state open\nA: $swap 1 state open shut\nB: $swap 1 state open shut",
        // Pages, sessions, flags and limits that are made by whoever comes first, and read, kept, set and deleted by all.
        "A: SETNX page first-page\nA: EXPIRE page 60\nB: SETNX page other-page\nB: GET page\nA: DEL page\nB: SETNX page new-page",
        "A: SET page first-page NX\nB: SET page other-page NX\nB: GET page\nC: DEL page\nB: SET page new-page NX\nB: DEL page",
        "A: SET user:7 4711 NX EX 9\nB: SET user:7 4712 NX EX 9\nB: EXPIRE user:7 9\nC: EXPIRE user:7 9\nD: DEL user:7",
        "A: SET flag off NX\nB: SET flag off NX\nC: SET flag on\nA: SET flag off NX\nA: GET flag",
        "A: SET limit fast NX\nB: SET limit slow NX\nC: SET limit slower\nC: DEL limit\nB: SET limit slow NX",
        // What is done once in a while, by whoever looks first.
        "A: SET window:10 host/1 NX EX 60\nB: SET window:10 host/2 NX EX 60\nclose A\nB: SET window:10 host/2 NX EX 60",
        "A: $first_set 1 tick {ms+0} 1000\nB: $first_set 1 tick {ms+0} 1000\n+2s\nB: $first_set 1 tick {ms+0} 1000\nclose B",
        // The hash of a job, in which a queue counts the attempts.
        "A: HSET job:1 data x\nB: $attempt 1 job:1\nC: $attempt 1 job:1\nA: DEL job:1",
        // Queues.
        "A: ZADD jobs 1 {a}\nB: ZREM jobs {a}\nA: LPUSH list x\nB: BRPOP list 1\nA: HSET h f v\nB: HDEL h f",
    ] {
        let played = playing(story);
        let locks: Vec<String> = played.locks_in(Scope::default()).iter().map(described).collect();
        assert!(locks.is_empty(), "{story}\n{locks:?}");
        let findings: Vec<(Code, String)> =
            played.findings().iter().map(|finding| (finding.code, finding.sentence.clone())).collect();
        assert!(findings.is_empty(), "{story}\n{findings:?}");
    }
}

#[test]
fn whoever_runs_the_audit_says_what_is_a_lock_and_what_is_none() {
    let locks = |story: &str, locks: &[&str], not: &[&str]| {
        let bytes = |globs: &[&str]| globs.iter().map(|glob| glob.as_bytes().to_vec()).collect();
        seen_in(story, Scope { locks: bytes(locks), not_locks: bytes(not), ..Scope::default() })
    };
    let lone = "A: SET job:7 {a} NX PX 1000";
    assert_eq!(locks(lone, &["job:*"], &[]), ["job:7: A has a for 1000 ms"]);
    assert!(locks(lone, &["work:*"], &[]).is_empty());
    assert!(locks(lone, &["job:*"], &["*:7"]).is_empty());
    assert_eq!(locks("A: SET leader {a} EX 10", &["leader"], &[]), ["leader: A has a for 10000 ms"]);
    let contended = "A: SETNX job:7 {s+10}\nB: SETNX job:7 {s+10}\nB: SETNX job:8 {s+10}";
    assert_eq!(locks(contended, &[], &["job:7"]).len(), 1);
    let misuse = playing("A: SET lock {a} NX PX 1000\nB: SET lock {b} NX PX 1000\nB: SET lock {b}");
    assert!(!misuse.findings().is_empty());
    let not_locks = Scope { not_locks: vec![b"lo*".to_vec()], ..Scope::default() };
    assert!(misuse.findings_in(not_locks).is_empty());
}

#[test]
fn whoever_has_gone_waits_no_more() {
    let played = play(
        "A: SET lock {a} NX PX 60000
         b: SET lock {b} NX PX 60000
         c: SET lock {c} NX PX 60000
         close b",
    );
    let locks = played.locks_in(Scope::default());
    let [lock] = locks.as_slice() else { panic!("{} locks", locks.len()) };
    assert_eq!(lock.waiters.len(), 1, "the one that is still there");
}

#[test]
fn a_script_that_compares_a_token_after_the_expiry_shows_that_it_was_a_lock() {
    let story = "
        a: SET busy:7 {a} NX PX 20
        a: GET data
        +60ms
        a: SET data 1
        a: RELEASE busy:7 {a}
    ";
    assert!(play(story).findings().iter().any(|finding| finding.code == Code::WorkAfterExpiry));
    let cache = "
        a: SET page {a} NX PX 20
        a: GET data
        +60ms
        a: SET data 1
        a: GET page
    ";
    assert!(play(cache).findings().is_empty());
}

#[test]
fn the_documented_lock_foo_is_recognised_when_nobody_was_refused() {
    for until in ["{s+30}", "{ms+30}", "{f+30}"] {
        for key in ["lock.foo", "foo"] {
            let played = play(&format!(
                "a: SETNX {key} {until}
                a: GET {key}
                a: DEL {key}"
            ));
            let locks = play(&format!("a: SETNX {key} {until}")).locks_in(Scope::default());
            assert_eq!(locks.len(), 1, "{key} {until}");
            drop(played);
        }
    }
    // Without a time in it, the name and the release say so.
    let played = play(
        "
        a: SETNX lock.foo 1
        a: GET lock.foo
        a: DEL lock.foo
        ",
    );
    assert!(!played.findings().is_empty());
}

#[test]
fn a_token_under_the_name_of_a_lock_is_one_if_something_is_wrong() {
    let story = |key: &str| {
        format!(
            "a: SET {key} {{a}} NX PX 600
            a: GET {key}
            +700ms
            b: SET {key} {{b}} NX PX 600
            a: DEL {key}"
        )
    };
    let found = |key: &str| play(&story(key)).findings().iter().any(|finding| finding.code == Code::ForeignRelease);
    assert!(found("coupon:mutex") && !found("coupon:page"));
}

#[test]
fn a_former_holder_that_renews_over_another_one_shows_that_it_was_a_lock() {
    let story = |last: &str| {
        format!(
            "A: SET ingest:active ingester-1 NX PX 300
            +400ms
            B: SET ingest:active ingester-2 NX PX 300
            {last}"
        )
    };
    let found =
        |last: &str| play(&story(last)).findings().iter().any(|finding| finding.code == Code::OverwroteLiveLock);
    assert!(found("A: SET ingest:active ingester-1 XX PX 300"));
    assert!(
        !found("A: SET ingest:active something-new XX PX 300") && !found("A: SET ingest:active ingester-2 XX PX 300")
    );
}
