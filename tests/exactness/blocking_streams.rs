//! Clients blocked on streams, as plain readers and as members of a consumer group.
//!
//! No test waits for time to pass: clocks are frozen until the test advances them.

use std::net::SocketAddr;
use std::time::Duration;

use redouble::Server;

use crate::support::process::ServerProcess;
use crate::support::wire::{Frame, Wire, request};
use crate::support::{CHECKED_PROFILE, Deadline, address, profile, spawn_frozen, start};

const GONE: &str = "UNBLOCKED the stream key no longer exists";

/// Returns a connection that is blocked by a command.
fn wait(server: SocketAddr, admin: &mut Wire, line: &str) -> Wire {
    let before = blocked(admin);
    let mut client = Wire::connect(server);
    let words: Vec<&str> = line.split_whitespace().collect();
    client.send(&request(&words));
    admin.ask_until("INFO clients", |info| info.contains(&format!("blocked_clients:{}\r", before + 1)));
    client
}

fn blocked(admin: &mut Wire) -> usize {
    let info = admin.ask("INFO clients").text();
    let line = info.lines().find_map(|line| line.strip_prefix("blocked_clients:")).expect("blocked_clients");
    line.trim().parse().expect("a number")
}

/// Runs a test on redouble and on the real server, which must behave the same.
fn on_both(test: impl Fn(SocketAddr)) {
    let redis = ServerProcess::redis(&[]);
    test(redis.address());
    let server = start(Server::builder().compat(profile(CHECKED_PROFILE)));
    test(address(&server));
}

fn frozen_as_checked() -> Server {
    let server = start(Server::builder().compat(profile(CHECKED_PROFILE)));
    server.freeze();
    server
}

/// The entries of one stream in a reply, each with one field `f`.
fn entries(stream: &str, entries: &[(&str, &str)]) -> Frame {
    let entry = |(id, value): &(&str, &str)| {
        Frame::Array(vec![Frame::bulk(id), Frame::Array(vec![Frame::bulk("f"), Frame::bulk(value)])])
    };
    let entries = Frame::Array(entries.iter().map(entry).collect());
    Frame::Array(vec![Frame::Array(vec![Frame::bulk(stream), entries])])
}

#[test]
fn a_frozen_clock_decides_when_reading_a_stream_ends() {
    let server = spawn_frozen();
    let mut admin = Wire::connect(address(&server));
    admin.ask("XGROUP CREATE s g $ MKSTREAM");
    let mut reader = wait(address(&server), &mut admin, "XREAD BLOCK 1500 STREAMS s $");
    let mut member = wait(address(&server), &mut admin, "XREADGROUP GROUP g c BLOCK 1500 STREAMS s >");
    server.advance(Duration::from_millis(1499));
    assert!(!reader.has_reply() && !member.has_reply());
    server.advance(Duration::from_millis(1));
    assert!(reader.has_reply() && member.has_reply(), "the replies are there when the clock has been moved");
    assert_eq!((reader.expect(), member.expect()), (Frame::NullArray, Frame::NullArray));
    admin.ask("XADD s 1-1 f v");
    assert!(!reader.has_reply() && !member.has_reply(), "nobody waits any longer");
    assert_eq!(member.ask("XREADGROUP GROUP g c STREAMS s >"), entries("s", &[("1-1", "v")]));
}

#[test]
fn members_of_a_group_are_told_when_their_stream_has_run_out_of_time() {
    let server = frozen_as_checked();
    let mut admin = Wire::connect(address(&server));
    for line in ["XGROUP CREATE s g $ MKSTREAM", "XGROUP CREATE t g $ MKSTREAM", "PEXPIRE s 1000"] {
        admin.ask(line);
    }
    let read = "XREADGROUP GROUP g c BLOCK 0 STREAMS t s > >";
    let mut members: Vec<Wire> = (0..20).map(|_| wait(address(&server), &mut admin, read)).collect();
    let mut other = wait(address(&server), &mut admin, "XREADGROUP GROUP g c BLOCK 0 STREAMS t >");
    let mut reader = wait(address(&server), &mut admin, "XREAD BLOCK 0 STREAMS s $");
    server.advance(Duration::from_millis(1000));
    assert!(!members[0].has_reply(), "a key lives through its last millisecond");
    server.advance(Duration::from_millis(1));
    for member in &mut members {
        assert!(member.has_reply(), "the reply is there when the clock has been moved");
        assert_eq!(member.expect(), Frame::error(GONE));
    }
    assert!(!other.has_reply() && !reader.has_reply());
    assert_eq!(blocked(&mut admin), 2);
}

#[test]
fn members_of_a_group_share_out_what_comes_and_readers_all_get_it() {
    on_both(|server| {
        let mut admin = Wire::connect(server);
        admin.ask("XGROUP CREATE s g $ MKSTREAM");
        let mut reader = wait(server, &mut admin, "XREAD BLOCK 0 STREAMS s $");
        let mut members: Vec<Wire> = (0..5)
            .map(|member| {
                wait(server, &mut admin, &format!("XREADGROUP GROUP g c{member} BLOCK 0 COUNT 1 STREAMS s >"))
            })
            .collect();
        for turn in 0..5 {
            let id = format!("{}-1", turn + 1);
            admin.ask(&format!("XADD s {id} f v{turn}"));
            assert_eq!(members[turn].expect(), entries("s", &[(&id, &format!("v{turn}"))]));
            assert!(members[turn + 1..].iter_mut().all(|member| !member.has_reply()));
        }
        assert_eq!(reader.expect(), entries("s", &[("1-1", "v0")]));
        // The server delivers a transaction's entries after EXEC has added all of them.
        let mut greedy = wait(server, &mut admin, "XREADGROUP GROUP g c0 BLOCK 0 COUNT 2 STREAMS s >");
        let mut modest = wait(server, &mut admin, "XREADGROUP GROUP g c1 BLOCK 0 STREAMS s >");
        let mut late = wait(server, &mut admin, "XREADGROUP GROUP g c2 BLOCK 0 STREAMS s >");
        for line in ["MULTI", "XADD s 6-1 f a", "XADD s 7-1 f b", "XADD s 8-1 f c", "XADD s 9-1 f d", "EXEC"] {
            admin.ask(line);
        }
        assert_eq!(greedy.expect(), entries("s", &[("6-1", "a"), ("7-1", "b")]));
        assert_eq!(modest.expect(), entries("s", &[("8-1", "c"), ("9-1", "d")]));
        assert_eq!(blocked(&mut admin), 1);
        admin.ask("XGROUP DESTROY s g");
        let gone = "NOGROUP the consumer group this client was blocked on no longer exists";
        assert_eq!(late.expect(), Frame::error(gone));
    });
}

#[test]
fn members_of_a_group_are_told_when_a_list_has_taken_the_place_of_their_stream_even_if_others_have_emptied_it() {
    on_both(|server| {
        let mut admin = Wire::connect(server);
        let mut first = wait(server, &mut admin, "BLPOP s 0");
        admin.ask("XGROUP CREATE s g $ MKSTREAM");
        let mut member = wait(server, &mut admin, "XREADGROUP GROUP g c BLOCK 0 STREAMS s >");
        for line in ["MULTI", "DEL s", "RPUSH s x", "EXEC"] {
            admin.ask(line);
        }
        assert_eq!(first.expect(), Frame::Array(vec![Frame::bulk("s"), Frame::bulk("x")]));
        assert_eq!(member.expect(), Frame::error(GONE));
        assert_eq!(admin.ask("EXISTS s"), Frame::Integer(0));
    });
}

/// Since 7.2 a blocked command that runs again is a request like any other, even if it goes on waiting.
#[test]
fn those_who_go_on_waiting_were_seen_and_have_looked() {
    let server = start(Server::builder().compat(profile("redis-7.2")));
    server.freeze();
    let mut admin = Wire::connect(address(&server));
    let hits = |admin: &mut Wire| {
        let info = admin.ask("INFO stats").text();
        info.lines()
            .find_map(|line| line.strip_prefix("keyspace_hits:"))
            .expect("hits")
            .parse::<usize>()
            .expect("a number")
    };
    let consumers = |admin: &mut Wire| -> Vec<(String, i64)> {
        let consumers = admin.ask("XINFO CONSUMERS s g");
        consumers.items().iter().map(|fields| (fields.items()[1].text(), fields.items()[5].integer())).collect()
    };
    admin.ask("XGROUP CREATE s g $ MKSTREAM");
    admin.ask("XGROUP CREATE t g $ MKSTREAM");
    let mut clients: Vec<Wire> = [
        "XREADGROUP GROUP g a BLOCK 0 STREAMS s >",
        "XREADGROUP GROUP g b BLOCK 0 STREAMS s >",
        "XREADGROUP GROUP g c BLOCK 0 STREAMS t s > >",
        "XREAD BLOCK 0 STREAMS s 9-1",
    ]
    .iter()
    .map(|line| wait(address(&server), &mut admin, line))
    .collect();
    server.advance(Duration::from_millis(70));
    admin.ask("XGROUP DELCONSUMER s g b");
    let before = hits(&mut admin);
    admin.ask("XADD s 1-1 f v");
    assert_eq!(clients[0].expect(), entries("s", &[("1-1", "v")]));
    // Two look-ups for each stream of each client.
    assert_eq!(hits(&mut admin) - before, 2 + 2 + 4 + 2);
    let seen = |names: &[&str]| -> Vec<(String, i64)> { names.iter().map(|name| (name.to_string(), 0)).collect() };
    assert_eq!(consumers(&mut admin), seen(&["a", "b", "c"]));
    server.advance(Duration::from_millis(70));
    let before = hits(&mut admin);
    admin.ask("XADD s 2-1 f v");
    assert_eq!(clients[1].expect(), entries("s", &[("2-1", "v")]));
    assert_eq!(hits(&mut admin) - before, 2 + 4 + 2);
    let now = consumers(&mut admin);
    assert_eq!((now[0].1, &now[1..]), (70, &seen(&["b", "c"])[..]));
    assert_eq!(blocked(&mut admin), 2);
}

#[test]
fn an_entry_wakes_those_alone_who_read_from_before_it() {
    on_both(|server| {
        let mut admin = Wire::connect(server);
        for line in ["XGROUP CREATE s g $ MKSTREAM", "XGROUP CREATE s h $", "XGROUP CREATE t g $ MKSTREAM"] {
            admin.ask(line);
        }
        let mut clients: Vec<Wire> = [
            "XREAD BLOCK 0 STREAMS s 5-1",
            "XREADGROUP GROUP g c BLOCK 0 STREAMS t s > >",
            "XREADGROUP GROUP g d BLOCK 0 STREAMS s >",
            "XREADGROUP GROUP h c BLOCK 0 STREAMS s >",
            // Of a stream that is named twice the first id counts, and each stream has an id of its own.
            "XREAD BLOCK 0 STREAMS s s 3-1 0-0",
            "XREAD BLOCK 0 STREAMS t s 9-1 $",
            "XREAD BLOCK 0 STREAMS t s $ 9-1",
        ]
        .iter()
        .map(|line| wait(server, &mut admin, line))
        .collect();
        let mut served = |admin: &mut Wire, id: &str, members: &[usize]| {
            admin.ask(&format!("XADD s {id} f v"));
            for member in members {
                assert_eq!(clients[*member].expect(), entries("s", &[(id, "v")]), "client {member}, entry {id}");
            }
        };
        served(&mut admin, "3-1", &[1, 3, 5]);
        assert_eq!(blocked(&mut admin), 4);
        served(&mut admin, "5-1", &[2, 4]);
        assert_eq!(blocked(&mut admin), 2);
        served(&mut admin, "5-2", &[0]);
        admin.ask("XADD t 1-1 f v");
        assert_eq!(clients[6].expect(), entries("t", &[("1-1", "v")]));
        assert_eq!(blocked(&mut admin), 0);
    });
}

#[test]
fn every_entry_goes_to_exactly_one_member_of_a_group_however_many_read() {
    const MEMBERS: usize = 6;
    const ENTRIES: usize = 600;
    let server = start(Server::builder().threads(4));
    let at = address(&server);
    let mut admin = Wire::connect(at);
    admin.ask("XGROUP CREATE s g $ MKSTREAM");
    let members: Vec<_> = (0..MEMBERS)
        .map(|member| {
            std::thread::spawn(move || {
                let mut client = Wire::connect(at);
                let mut got = Vec::new();
                loop {
                    let read = format!("XREADGROUP GROUP g c{member} COUNT 3 BLOCK 0 STREAMS s >");
                    let reply = client.ask(&read);
                    for entry in reply.items()[0].items()[1].items() {
                        match entry.items()[1].items()[1].text() {
                            end if end == format!("end{member}") => return got,
                            end if end.starts_with("end") => {}
                            value => got.push(value),
                        }
                    }
                }
            })
        })
        .collect();
    for entry in 0..ENTRIES {
        admin.ask(&format!("XADD s * f {entry}"));
    }
    let finished =
        |members: &Vec<std::thread::JoinHandle<Vec<String>>>| members.iter().all(|member| member.is_finished());
    let deadline = Deadline::start();
    while !finished(&members) {
        deadline.check("the members to end");
        // A member that reads the end entry of another member ignores it, so every round adds them again.
        for member in (0..MEMBERS).filter(|member| !members[*member].is_finished()) {
            admin.ask(&format!("XADD s * f end{member}"));
        }
    }
    let mut all: Vec<String> = members.into_iter().flat_map(|member| member.join().expect("a member")).collect();
    all.sort_unstable();
    let mut wanted: Vec<String> = (0..ENTRIES).map(|entry| entry.to_string()).collect();
    wanted.sort_unstable();
    assert_eq!(all, wanted);
}

/// A server as of Redis 8.4 with a stopped clock, where `c` has read one of two entries of the stream `s`.
fn frozen_with_pending_entry() -> (Server, Wire) {
    let server = start(Server::builder().compat(profile("redis-8.4")));
    server.freeze();
    let mut admin = Wire::connect(address(&server));
    for line in ["XGROUP CREATE s g $ MKSTREAM", "XADD s 1-1 f v", "XREADGROUP GROUP g c STREAMS s >"] {
        admin.ask(line);
    }
    (server, admin)
}

/// The reply with one entry of the stream `s` that came by a claim, and `s` as its value.
fn claimed(id: &str, idle: i64, deliveries: i64) -> Frame {
    let fields = Frame::Array(vec![Frame::bulk("f"), Frame::bulk("v")]);
    let entry = Frame::Array(vec![Frame::bulk(id), fields, Frame::Integer(idle), Frame::Integer(deliveries)]);
    Frame::Array(vec![Frame::Array(vec![Frame::bulk("s"), Frame::Array(vec![entry])])])
}

#[test]
fn a_blocked_claim_gets_the_entry_once_its_consumer_has_been_silent_for_long_enough() {
    let (server, mut admin) = frozen_with_pending_entry();
    server.advance(Duration::from_millis(300));
    let mut first = wait(address(&server), &mut admin, "XREADGROUP GROUP g d BLOCK 0 CLAIM 1000 STREAMS s >");
    let mut second = wait(address(&server), &mut admin, "XREADGROUP GROUP g e BLOCK 0 CLAIM 1000 STREAMS s >");
    server.advance(Duration::from_millis(699));
    assert!(!first.has_reply() && !second.has_reply());
    server.advance(Duration::from_millis(1));
    assert!(first.has_reply(), "the reply is there when the clock has been moved");
    assert_eq!(first.expect(), claimed("1-1", 1000, 1));
    assert!(!second.has_reply(), "the entry has a new owner");
    server.advance(Duration::from_millis(999));
    assert!(!second.has_reply());
    server.advance(Duration::from_millis(1));
    assert_eq!(second.expect(), claimed("1-1", 1000, 2));
    assert_eq!(blocked(&mut admin), 0);
}

#[test]
fn a_blocked_claim_waits_for_what_is_delivered_while_it_waits_and_takes_what_is_new() {
    let (server, mut admin) = frozen_with_pending_entry();
    admin.ask("XACK s g 1-1");
    let mut claimer = wait(address(&server), &mut admin, "XREADGROUP GROUP g d BLOCK 0 CLAIM 1000 STREAMS s >");
    server.advance(Duration::from_millis(400));
    for line in ["MULTI", "XADD s 2-1 f v", "XREADGROUP GROUP g c STREAMS s >", "EXEC"] {
        admin.ask(line);
    }
    server.advance(Duration::from_millis(999));
    assert!(!claimer.has_reply());
    server.advance(Duration::from_millis(1));
    assert_eq!(claimer.expect(), claimed("2-1", 1000, 1));

    let mut claimer = wait(address(&server), &mut admin, "XREADGROUP GROUP g d BLOCK 0 CLAIM 1000 STREAMS s >");
    admin.ask("XADD s 3-1 f v");
    assert_eq!(claimer.expect(), claimed("3-1", 0, 0), "a new entry ends the wait at once");
}

#[test]
fn a_blocked_claim_ends_with_its_time_out_or_when_it_is_unblocked() {
    let (server, mut admin) = frozen_with_pending_entry();
    let mut hasty = wait(address(&server), &mut admin, "XREADGROUP GROUP g d BLOCK 500 CLAIM 1000 STREAMS s >");
    let mut patient = wait(address(&server), &mut admin, "XREADGROUP GROUP g e BLOCK 0 CLAIM 5000 STREAMS s >");
    server.advance(Duration::from_millis(500));
    assert_eq!(hasty.expect(), Frame::NullArray);
    admin.ask("XACK s g 1-1");
    server.advance(Duration::from_millis(60_000));
    assert!(!patient.has_reply(), "nothing is pending");
    admin.ask("XGROUP DESTROY s g");
    assert!(patient.expect().is_error());
    assert_eq!(blocked(&mut admin), 0);
}

#[test]
fn a_reader_sleeps_on_when_a_key_of_another_type_takes_the_place_of_its_stream() {
    on_both(|server| {
        let mut admin = Wire::connect(server);
        admin.ask("XADD s 1-1 f v");
        let mut reader = wait(server, &mut admin, "XREAD BLOCK 0 STREAMS s $");
        for line in ["MULTI", "XADD s 2-1 f v", "DEL s", "LPUSH s x", "EXEC", "DEL s"] {
            admin.ask(line);
        }
        assert_eq!(blocked(&mut admin), 1);
        admin.ask("XADD s 3-1 f v");
        assert_eq!(reader.expect(), entries("s", &[("3-1", "v")]));
    });
    let server = start(Server::builder().compat(profile("redis-8.4")));
    let mut admin = Wire::connect(address(&server));
    let mut reader = wait(address(&server), &mut admin, "XREAD BLOCK 0 STREAMS s $");
    for line in ["MULTI", "XADD s 2-1 f v", "DEL s", "LPUSH s x", "EXEC", "DEL s"] {
        admin.ask(line);
    }
    assert_eq!(blocked(&mut admin), 1);
    admin.ask("XADD s 3-1 f v");
    assert_eq!(reader.expect(), entries("s", &[("3-1", "v")]));
}

#[test]
fn a_delete_of_thousands_of_keys_wakes_who_waits_for_one_of_them() {
    on_both(|server| {
        let (mut admin, keys) = (Wire::connect(server), (0..20_000).map(|number| format!("k{number}")));
        let keys: Vec<String> = keys.collect();
        let all = |command: &str| {
            let words = [command].into_iter().chain(keys.iter().map(String::as_str)).chain(["s"]);
            request(&words.collect::<Vec<_>>())
        };
        let set = |command: &'static str| {
            let words = [command].into_iter().chain(keys.iter().flat_map(|key| [&**key, "v"]));
            request(&words.collect::<Vec<_>>())
        };
        admin.send(&set("MSET"));
        assert_eq!(admin.expect(), Frame::status("OK"));
        admin.ask("XGROUP CREATE s g $ MKSTREAM");
        let mut member = wait(server, &mut admin, "XREADGROUP GROUP g c BLOCK 0 STREAMS s >");
        let mut bystander = wait(server, &mut admin, "BLPOP list 0");
        for (command, count) in [("EXISTS", 20_001), ("DEL", 20_001), ("EXISTS", 0)] {
            admin.send(&all(command));
            assert_eq!(admin.expect(), Frame::Integer(count), "{command}");
        }
        assert_eq!(member.expect(), Frame::error(GONE));
        admin.ask("RPUSH list v");
        assert_eq!(bystander.expect(), Frame::Array(vec![Frame::bulk("list"), Frame::bulk("v")]));
        admin.send(&set("MSETNX"));
        assert_eq!(admin.expect(), Frame::Integer(1));
        admin.send(&all("UNLINK"));
        assert_eq!(admin.expect(), Frame::Integer(20_000));
    });
}
