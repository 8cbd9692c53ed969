//! Commands that move locks: RENAME, RENAMENX, MOVE, COPY, RESTORE, SWAPDB, UNLINK, and all ways to flush. Each is judged as
//! the DEL and the SET that it comes to.

use redouble::internals::{Lock, Scope};
use redouble::{Code, Severity};

use super::story::{Pair, found, judge, nothing_is_found, play, token};

/// The locks at the end, `DB/KEY: HOLDER TOKEN` each; `-` stands for nobody, and for a value that is unknown.
#[track_caller]
fn sees(story: &str, locks: &[&str]) {
    let named = |value: &[u8]| {
        let text = String::from_utf8_lossy(value);
        ('a'..='z').find(|letter| *text == token(&letter.to_string())).map_or("-".to_owned(), String::from)
    };
    let described = |lock: &Lock| {
        let holder = lock.holder().map_or("-", |hold| &*hold.client.name).to_owned();
        let value = named(lock.value.as_deref().unwrap_or_default());
        format!("{}/{}: {holder} {value}", lock.id.db, String::from_utf8_lossy(&lock.id.key))
    };
    let seen: Vec<String> = play(story).locks_in(Scope::default()).iter().map(described).collect();
    assert_eq!(seen, locks, "{story}");
}

/// How bad a finding is.
#[track_caller]
fn severity(code: Code, story: &str) -> Severity {
    found(code, story).unwrap_or_else(|| panic!("no {} in\n{story}", code.name())).severity
}

#[test]
fn a_stranger_renames_a_lock_that_is_held() {
    judge(&Pair {
        code: Code::BlindDelete,
        wrong: "
            ! A: SET lock {a} NX PX 10000
            B: SET lock {b} NX PX 10000
            ! B: RENAME lock old
        ",
        right: "
            A: SET lock {a} NX PX 10000
            B: SET lock {b} NX PX 10000
            A: RELEASE lock {a}
            B: SET data 1
            B: RENAME data old
        ",
    });
    let taken = "
        A: SET lock {a} NX PX 10000
        B: SET lock {b} NX PX 10000
        B: RENAME lock old
        C: SET lock {c} NX PX 10000
    ";
    assert_eq!(severity(Code::TwoHolders, taken), Severity::Error);
}

#[test]
fn a_holder_renames_its_own_lock_and_holds_it_under_the_new_name() {
    judge(&Pair {
        code: Code::UncheckedRelease,
        wrong: "
            ! A: SET lock {a} NX PX 10000
            B: SET lock {b} NX PX 10000
            ! A: RENAME lock lock2
        ",
        right: "
            A: SET lock{1} {a} NX PX 10000
            B: SET lock{1} {b} NX PX 10000
            A: EVAL \"if redis.call('get', KEYS[1]) == ARGV[1] then redis.call('rename', KEYS[1], KEYS[2]) return 1 end return 0\" 2 lock{1} lock2{1} {a}
            A: RELEASE lock2{1} {a}
        ",
    });
    sees(
        "A: SET lock {a} NX PX 10000
         B: SET lock {b} NX PX 10000
         A: RENAME lock lock2",
        &["0/lock: - -", "0/lock2: A a"],
    );
    // The deadline goes with it.
    sees(
        "A: SET lock {a} NX PX 1000
         B: SET lock {b} NX PX 1000
         A: RENAME lock lock2
         B: RELEASE lock {b}
         +2s
         C: SET lock2 {c} NX PX 1000",
        &["0/lock: - -", "0/lock2: C c"],
    );
}

#[test]
fn a_lock_is_renamed_over_another_that_is_held() {
    judge(&Pair {
        code: Code::OverwroteLiveLock,
        wrong: "
            ! A: SET lock {a} NX PX 10000
            B: SET lock {b} NX PX 10000
            B: SET new {b}
            ! B: RENAME new lock
        ",
        right: "
            A: SET lock{1} {a} NX PX 10000
            B: SET lock{1} {b} NX PX 10000
            B: SET new{1} {b}
            B: RENAMENX new{1} lock{1}
            A: RELEASE lock{1} {a}
            B: DEL new{1}
        ",
    });
}

#[test]
fn renamenx_takes_a_lock_that_is_free_and_is_refused_by_one_that_is_not() {
    judge(&Pair {
        code: Code::BlindDelete,
        wrong: "
            A: SET tmp:a {a} PX 10000
            ! A: RENAMENX tmp:a lock
            B: SET tmp:b {b} PX 10000
            B: RENAMENX tmp:b lock
            ! B: DEL lock
        ",
        right: "
            A: SET tmp:a{1} {a} PX 10000
            A: RENAMENX tmp:a{1} lock{1}
            B: SET tmp:b{1} {b} PX 10000
            B: RENAMENX tmp:b{1} lock{1}
            A: RELEASE lock{1} {a}
            B: RENAMENX tmp:b{1} lock{1}
            B: RELEASE lock{1} {b}
        ",
    });
    // What the value is the first comparison shows.
    sees(
        "A: SET tmp:a {a} PX 10000
         A: RENAMENX tmp:a lock
         B: RENAMENX tmp:a lock
         B: SET tmp:b {b}
         B: RENAMENX tmp:b lock
         A: EXTEND lock {a} 20000",
        &["0/lock: A a"],
    );
}

#[test]
fn a_lock_that_was_taken_with_renamenx_may_have_an_expiry() {
    nothing_is_found(
        "A: SET tmp:a{1} {a} PX 1000
         A: RENAMENX tmp:a{1} lock{1}
         B: SET tmp:b{1} {b} PX 10000
         B: RENAMENX tmp:b{1} lock{1}
         +2s
         B: RENAMENX tmp:b{1} lock{1}
         B: RELEASE lock{1} {b}",
    );
}

#[test]
fn what_is_no_lock_may_be_renamed() {
    nothing_is_found(
        "A: RPUSH queue 1
         B: RPUSH busy 1
         A: RENAMENX queue busy
         B: RENAMENX queue busy
         B: DEL busy
         A: RENAMENX queue busy
         B: DEL busy
         A: SET cache:new 1
         A: RENAME cache:new cache
         B: SET cache:new 2
         B: RENAME cache:new cache",
    );
}

#[test]
fn a_lock_is_moved_to_another_database() {
    judge(&Pair {
        code: Code::BlindDelete,
        wrong: "
            ! A: SET lock {a} NX PX 10000
            B: SET lock {b} NX PX 10000
            ! B: MOVE lock 1
        ",
        right: "
            A: SET lock {a} NX PX 10000
            B: SET lock {b} NX PX 10000
            B: SELECT 1
            B: SET lock {b} NX PX 10000
            A: MOVE lock 1
            A: RELEASE lock {a}
            B: RELEASE lock {b}
        ",
    });
    sees(
        "A: SET lock {a} NX PX 10000
         B: SET lock {b} NX PX 10000
         A: MOVE lock 1",
        &["0/lock: - -", "1/lock: A a"],
    );
}

#[test]
fn a_copy_is_a_value_that_nobody_took() {
    nothing_is_found(
        "A: SET lock {a} NX PX 10000
         B: SET lock {b} NX PX 10000
         B: COPY lock backup
         B: DEL backup
         B: COPY lock lock DB 1
         A: RELEASE lock {a}",
    );
    sees(
        "A: SET lock {a} NX PX 10000
         B: SET lock {b} NX PX 10000
         A: SET other {c} NX PX 10000
         B: SET other {d} NX PX 10000
         A: RELEASE other {c}
         A: COPY lock other",
        &["0/lock: A a", "0/other: - a"],
    );
}

#[test]
fn a_copy_replaces_a_lock_that_is_held() {
    judge(&Pair {
        code: Code::OverwroteLiveLock,
        wrong: "
            ! A: SET lock {a} NX PX 10000
            B: SET lock {b} NX PX 10000
            B: SET mine {b}
            ! B: COPY mine lock REPLACE
        ",
        right: "
            A: SET lock {a} NX PX 10000
            B: SET lock {b} NX PX 10000
            B: SET mine {b}
            B: COPY mine lock
            A: RELEASE lock {a}
        ",
    });
    judge(&Pair {
        code: Code::OverwroteLiveLock,
        wrong: "
            A: SELECT 1
            ! A: SET lock {a} NX PX 10000
            C: SELECT 1
            C: SET lock {c} NX PX 10000
            B: SET lock {b}
            ! B: COPY lock lock DB 1 REPLACE
        ",
        right: "
            A: SELECT 1
            A: SET lock {a} NX PX 10000
            C: SELECT 1
            C: SET lock {c} NX PX 10000
            B: SET lock {b}
            B: COPY lock lock DB 2 REPLACE
            A: RELEASE lock {a}
        ",
    });
}

#[test]
fn a_restored_key_is_a_set() {
    let restored = |options: &str| {
        format!(
            "A: SET lock{{1}} {{a}} NX PX 10000
             B: SET lock{{1}} {{b}} NX PX 10000
             B: SET mine{{1}} x
             B: EVAL \"return redis.call('restore', KEYS[1], 0, redis.call('dump', KEYS[2]){options})\" 2 lock{{1}} mine{{1}}
             A: RELEASE lock{{1}} {{a}}"
        )
    };
    assert_eq!(severity(Code::OverwroteLiveLock, &restored(", 'REPLACE'")), Severity::Error);
    // Without REPLACE the key is busy, and nothing happens.
    nothing_is_found(&restored(""));
}

#[test]
fn databases_are_swapped_while_a_lock_is_held() {
    judge(&Pair {
        code: Code::FlushedLocks,
        wrong: "
            ! A: SET lock {a} NX PX 10000
            B: SET lock {b} NX PX 10000
            ! B: SWAPDB 0 1
        ",
        right: "
            A: SET lock {a} NX PX 10000
            B: SET lock {b} NX PX 10000
            A: RELEASE lock {a}
            B: SWAPDB 0 1
        ",
    });
    let both = "
        A: SET lock {a} NX PX 10000
        B: SET lock {b} NX PX 10000
        B: SWAPDB 0 1
        B: SET lock {b} NX PX 10000
    ";
    let told = found(Code::TwoHolders, both).expect("both hold it");
    assert!(told.sentence.ends_with("because the databases had been swapped"), "{}", told.sentence);
}

#[test]
fn the_locks_of_two_databases_change_places() {
    sees(
        "A: SET lock {a} NX PX 10000
         B: SET lock {b} NX PX 10000
         C: SELECT 1
         C: SET other {c} NX PX 10000
         D: SELECT 1
         D: SET other {d} NX PX 10000
         D: SWAPDB 1 0
         B: SET other {b} NX PX 10000
         D: SET lock {d} NX PX 10000",
        &["0/lock: - -", "0/other: - c", "1/lock: - a", "1/other: - -"],
    );
    // The holder finds its lock there, until its time is over.
    nothing_is_found(
        "A: SET lock {a} NX PX 1000
         B: SET lock {b} NX PX 1000
         A: SWAPDB 0 1
         A: SELECT 1
         A: RELEASE lock {a}",
    );
    nothing_is_found(
        "A: SET lock {a} NX PX 1000
         B: SET lock {b} NX PX 1000
         A: SWAPDB 0 1
         B: SELECT 1
         B: SET lock {b} NX PX 1000
         +2s
         B: SET lock {b} NX PX 1000
         B: RELEASE lock {b}",
    );
}

#[test]
fn unlink_is_a_del() {
    judge(&Pair {
        code: Code::BlindDelete,
        wrong: "
            ! A: SET lock {a} NX PX 10000
            B: SET lock {b} NX PX 10000
            ! B: UNLINK lock
        ",
        right: "
            A: SET lock {a} NX PX 10000
            B: SET lock {b} NX PX 10000
            A: EVAL \"if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('unlink', KEYS[1]) end return 0\" 1 lock {a}
        ",
    });
}

#[test]
fn every_way_to_flush_deletes_the_locks() {
    for flush in [
        "FLUSHALL",
        "FLUSHALL ASYNC",
        "FLUSHALL SYNC",
        "FLUSHDB",
        "FLUSHDB ASYNC",
        "FLUSHDB SYNC",
        "EVAL \"return redis.call('flushall')\" 0",
        "EVAL \"return redis.call('flushdb', 'async')\" 0",
    ] {
        let story = format!(
            "A: SET lock {{a}} NX PX 10000
             B: SET lock {{b}} NX PX 10000
             B: {flush}"
        );
        assert_eq!(severity(Code::FlushedLocks, &story), Severity::Warning, "{flush}");
        let queued = format!(
            "A: SET lock {{a}} NX PX 10000
             B: SET lock {{b}} NX PX 10000
             B: MULTI
             B: {flush}
             B: EXEC"
        );
        assert_eq!(severity(Code::FlushedLocks, &queued), Severity::Warning, "{flush} in EXEC");
    }
    nothing_is_found(
        "A: SET lock {a} NX PX 10000
         B: SET lock {b} NX PX 10000
         B: SELECT 1
         B: FLUSHDB ASYNC
         A: RELEASE lock {a}",
    );
}

#[test]
fn the_same_holds_in_transactions_and_scripts() {
    for (code, command) in [
        (Code::BlindDelete, "RENAME lock old"),
        (Code::BlindDelete, "MOVE lock 1"),
        (Code::BlindDelete, "UNLINK lock"),
        (Code::OverwroteLiveLock, "RENAME mine lock"),
        (Code::OverwroteLiveLock, "COPY mine lock REPLACE"),
        (Code::FlushedLocks, "SWAPDB 0 1"),
    ] {
        let arguments: Vec<String> = command.split(' ').map(|word| format!("'{word}'")).collect();
        let script = format!("EVAL \"return redis.call({})\" 0", arguments.join(", "));
        for way in [format!("B: {command}"), format!("B: {script}"), format!("B: MULTI\nB: {command}\nB: EXEC")] {
            let story = format!(
                "A: SET lock {{a}} NX PX 10000
                 B: SET lock {{b}} NX PX 10000
                 B: SET mine {{b}}
                 {way}"
            );
            assert!(found(code, &story).is_some(), "no {} in\n{story}", code.name());
        }
    }
}

#[test]
fn a_command_that_fails_moves_nothing() {
    nothing_is_found(
        "A: SET lock{1} {a} NX PX 10000
         B: SET lock{1} {b} NX PX 10000
         B: SET other{1} 1
         B: RENAME nothing{1} lock{1}
         B: RENAMENX lock{1} other{1}
         B: MOVE lock{1} 0
         B: MOVE lock{1} 99
         B: SWAPDB 0 0
         B: SWAPDB 0 99
         B: COPY lock{1} lock{1}
         B: RENAME lock{1} lock{1}
         B: RESTORE lock{1} 0 nonsense REPLACE
         A: RELEASE lock{1} {a}",
    );
}
