//! SCAN and its kin, while other clients write: what stays comes once, and the cursor fits where clients keep it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use redis::{Commands, Connection, cmd, pipe};
use redouble::Server;

use crate::support::{client, spawn};

const STAY: u32 = 2000;

/// A whole scan: how often each element came. The cursor is kept in 32 bits, as some clients do.
fn scan(connection: &mut Connection, name: &str, key: Option<&str>, options: &[&str]) -> HashMap<String, u32> {
    let has_values = matches!(name, "HSCAN" | "ZSCAN");
    let mut seen = HashMap::new();
    let mut cursor = 0_i32;
    loop {
        let mut step = cmd(name);
        key.iter().for_each(|key| {
            step.arg(*key);
        });
        step.arg(cursor).arg(options);
        let (next, elements): (String, Vec<String>) = step.query(connection).expect("a step");
        for element in elements.into_iter().step_by(if has_values { 2 } else { 1 }) {
            *seen.entry(element).or_default() += 1;
        }
        cursor = next.parse().expect("a cursor of 32 bits");
        if cursor == 0 {
            return seen;
        }
    }
}

/// Ends the writers, also if a scan panics.
struct EndOfScans<'a>(&'a AtomicBool);

impl Drop for EndOfScans<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs `scans` while two clients write what does not stay, with expiry, renames and flushes of another database.
fn while_others_write(server: &Server, scans: impl FnOnce(&mut Connection)) {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        for writer in 0..2_u32 {
            let mut connection = client(server);
            let over = &over;
            scope.spawn(move || {
                for round in 0_u32.. {
                    if over.load(Ordering::Relaxed) {
                        break;
                    }
                    let passing = |number: u32| format!("passes:{writer}:{}", number % 700);
                    let mut batch = pipe();
                    for number in round * 20..(round + 1) * 20 {
                        let (new, old) = (passing(number), passing(number + 350));
                        batch.pset_ex(&new, "v", 1 + u64::from(number % 7)).ignore();
                        batch.set(format!("{old}:long"), "v").ignore().del(&old).ignore();
                        batch.sadd("set", &new).ignore().srem("set", &old).ignore();
                        batch.hset("hash", &new, "v").ignore().hdel("hash", &old).ignore();
                        batch.zadd("zset", &new, number).ignore().zrem("zset", &old).ignore();
                        batch.zadd("zset", format!("stays:{}", number % STAY), number).ignore();
                    }
                    batch.cmd("SELECT").arg(1).ignore().set("x", 1).ignore().cmd("FLUSHDB").ignore();
                    batch.cmd("SELECT").arg(0).ignore();
                    batch.query::<()>(&mut connection).expect("writes");
                }
            });
        }
        let _end = EndOfScans(&over);
        scans(&mut client(server));
    });
}

fn fill(server: &Server) {
    let mut batch = pipe();
    for number in 0..STAY {
        let name = format!("stays:{number}");
        batch.set(&name, "v").ignore().sadd("set", &name).ignore();
        batch.hset("hash", &name, "v").ignore().zadd("zset", &name, number).ignore();
    }
    batch.query::<()>(&mut client(server)).expect("filled");
}

#[test]
fn a_key_that_stays_comes_once_whatever_others_write_meanwhile() {
    let server = spawn();
    fill(&server);
    while_others_write(&server, |connection| {
        for options in [&[][..], &["COUNT", "1"], &["COUNT", "1000"], &["MATCH", "stays:*"], &["TYPE", "string"]] {
            let seen = scan(connection, "SCAN", None, options);
            for number in 0..STAY {
                assert_eq!(seen.get(&format!("stays:{number}")), Some(&1), "{number} {options:?}");
            }
        }
    });
}

#[test]
fn a_member_that_stays_comes_once_whatever_others_add_and_remove_meanwhile() {
    let server = spawn();
    fill(&server);
    while_others_write(&server, |connection| {
        for (name, key) in [("SSCAN", "set"), ("HSCAN", "hash"), ("ZSCAN", "zset")] {
            for options in [&[][..], &["COUNT", "1"], &["COUNT", "300"], &["MATCH", "stays:*"]] {
                let seen = scan(connection, name, Some(key), options);
                for number in 0..STAY {
                    assert_eq!(seen.get(&format!("stays:{number}")), Some(&1), "{name} {number} {options:?}");
                }
            }
        }
    });
}

#[test]
fn two_scans_of_one_set_at_a_time_do_not_disturb_each_other() {
    let server = spawn();
    fill(&server);
    let mut connection = client(&server);
    let mut step = |cursor: u64, count: u32| -> (u64, Vec<String>) {
        cmd("SSCAN").arg("set").arg(cursor).arg("COUNT").arg(count).query(&mut connection).expect("a step")
    };
    let mut other = client(&server);
    let mut seen: [HashMap<String, u32>; 2] = Default::default();
    let mut cursors = [None, None];
    let mut removed = 0;
    while cursors != [Some(0), Some(0)] {
        for (scan, count) in [(0, 13), (1, 40)] {
            if cursors[scan] == Some(0) {
                continue;
            }
            let (next, members) = step(cursors[scan].unwrap_or(0), count);
            members.into_iter().for_each(|member| *seen[scan].entry(member).or_default() += 1);
            cursors[scan] = Some(next);
        }
        // Every other member goes, and comes back at last.
        for number in (removed..removed + 20).map(|number| number * 2 % STAY) {
            let member = format!("stays:{number}");
            if other.srem::<_, _, u32>("set", &member).expect("removed") == 0 {
                other.sadd::<_, _, ()>("set", &member).expect("added");
            }
        }
        removed += 20;
    }
    for number in (1..STAY).step_by(2) {
        let counts = seen.each_ref().map(|seen| seen.get(&format!("stays:{number}")).copied());
        assert_eq!(counts, [Some(1), Some(1)], "{number}");
    }
}
