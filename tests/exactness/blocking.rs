//! Clients blocked on lists and sorted sets: who is served, in which order, and what happens to one that disconnects.
//!
//! No test waits for time to pass. INFO tells when a client is blocked, and clocks are frozen until the test advances
//! them.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use redouble::Server;

use crate::support::process::ServerProcess;
use crate::support::wire::{Frame, Wire, request};
use crate::support::{address, profile, spawn, spawn_frozen, start};

/// Returns connections that are blocked by the same command, in this order.
fn waiting(server: std::net::SocketAddr, admin: &mut Wire, line: &str, count: usize) -> Vec<Wire> {
    (0..count).map(|_| wait(server, admin, line)).collect()
}

/// Returns a connection that is blocked by a command.
fn wait(server: std::net::SocketAddr, admin: &mut Wire, line: &str) -> Wire {
    let before = blocked(admin);
    let mut client = Wire::connect(server);
    send(&mut client, line);
    admin.ask_until("INFO clients", |info| info.contains(&format!("blocked_clients:{}\r", before + 1)));
    client
}

fn blocked(admin: &mut Wire) -> usize {
    let info = admin.ask("INFO clients").text();
    let line = info.lines().find_map(|line| line.strip_prefix("blocked_clients:")).expect("blocked_clients");
    line.trim().parse().expect("a number")
}

fn send(client: &mut Wire, line: &str) {
    let words: Vec<&str> = line.split_whitespace().collect();
    client.send(&request(&words));
}

/// The reply of BLPOP.
fn popped(key: &str, element: &str) -> Frame {
    Frame::Array(vec![Frame::bulk(key), Frame::bulk(element)])
}

/// Runs a test on redouble and on the real server, which must behave the same.
fn on_both(test: impl Fn(std::net::SocketAddr)) {
    let redis = ServerProcess::redis(&[]);
    test(redis.address());
    let server = start(Server::builder().compat(profile(crate::support::CHECKED_PROFILE)));
    test(address(&server));
}

#[test]
fn who_has_waited_longest_is_served_first_and_nobody_else_is_woken() {
    on_both(|server| {
        let mut admin = Wire::connect(server);
        let mut clients = waiting(server, &mut admin, "BLPOP l 0", 5);
        for turn in 0..5 {
            assert_eq!(admin.ask(&format!("RPUSH l {turn}")), Frame::Integer(1));
            assert_eq!(clients[turn].expect(), popped("l", &turn.to_string()));
            assert_eq!(blocked(&mut admin), 4 - turn);
            assert!(clients[turn + 1..].iter_mut().all(|client| !client.has_reply()));
        }
    });
}

#[test]
fn those_who_will_give_up_by_themselves_are_counted() {
    on_both(|server| {
        let mut admin = Wire::connect(server);
        let mut clients = waiting(server, &mut admin, "BLPOP l 0", 1);
        clients.extend(waiting(server, &mut admin, "BLPOP l 1000", 2));
        assert!(admin.ask("INFO clients").text().contains("\r\nclients_in_timeout_table:2\r\n"));
        admin.ask("RPUSH l 1 2");
        clients.iter_mut().take(2).for_each(|client| drop(client.expect()));
        admin.ask_until("INFO clients", |info| info.contains("\r\nclients_in_timeout_table:1\r\n"));
    });
}

#[test]
fn a_push_of_several_elements_is_over_before_the_first_of_them_is_taken() {
    on_both(|server| {
        let mut admin = Wire::connect(server);
        let mut clients = waiting(server, &mut admin, "BLPOP l 0", 2);
        assert_eq!(admin.ask("LPUSH l a b c"), Frame::Integer(3));
        assert_eq!(clients[0].expect(), popped("l", "c"));
        assert_eq!(clients[1].expect(), popped("l", "b"));
        assert_eq!(admin.ask("LRANGE l 0 -1"), Frame::Array(vec![Frame::bulk("a")]));
    });
}

#[test]
fn of_a_thousand_clients_each_gets_one_element_in_the_order_of_their_coming() {
    let server = start(Server::builder().threads(4));
    let mut admin = Wire::connect(address(&server));
    let mut clients: Vec<Wire> = Vec::new();
    for count in 1..=1000 {
        let mut client = Wire::connect(address(&server));
        send(&mut client, "BLPOP l 0");
        admin.ask_until("INFO clients", |info| info.contains(&format!("blocked_clients:{count}\r")));
        clients.push(client);
    }
    let elements: Vec<String> = (0..1000).map(|element| element.to_string()).collect();
    let push: Vec<&str> = ["RPUSH", "l"].into_iter().chain(elements.iter().map(String::as_str)).collect();
    assert_eq!(admin.call(&push), Frame::Integer(1000));
    for (client, element) in clients.iter_mut().zip(&elements) {
        assert_eq!(client.expect(), popped("l", element));
    }
    assert_eq!(admin.ask("EXISTS l"), Frame::Integer(0));
    assert!(clients.iter_mut().all(|client| !client.has_reply()));
}

#[test]
fn a_client_that_has_gone_takes_nothing_with_it() {
    on_both(|server| {
        let mut admin = Wire::connect(server);
        let gone = wait(server, &mut admin, "BLPOP l 0");
        let mut stays = wait(server, &mut admin, "BLPOP l 0");
        drop(gone);
        admin.ask_until("INFO clients", |info| info.contains("blocked_clients:1\r"));
        admin.ask("RPUSH l a");
        assert_eq!(stays.expect(), popped("l", "a"));
    });
}

#[test]
fn a_client_that_is_killed_takes_nothing_with_it() {
    on_both(|server| {
        let mut admin = Wire::connect(server);
        let mut client = Wire::connect(server);
        let id = client.ask("CLIENT ID").integer();
        send(&mut client, "BLPOP l 0");
        admin.ask_until("INFO clients", |info| info.contains("blocked_clients:1\r"));
        // One write sends both commands, so the server cannot close the connection between them.
        let kill = request(&["CLIENT", "KILL", "ID", &id.to_string()]);
        admin.send(&[kill, request(&["RPUSH", "l", "a"])].concat());
        assert_eq!((admin.expect(), admin.expect()), (Frame::Integer(1), Frame::Integer(1)));
        assert!(client.is_closed());
        assert_eq!(admin.ask("LLEN l"), Frame::Integer(1));
    });
}

#[test]
fn a_frozen_clock_decides_when_waiting_ends() {
    let server = spawn_frozen();
    let mut admin = Wire::connect(address(&server));
    let mut client = wait(address(&server), &mut admin, "BLPOP l 1.5");
    server.advance(Duration::from_millis(1499));
    assert!(!client.has_reply());
    server.advance(Duration::from_millis(1));
    assert!(client.has_reply(), "the reply is there when the clock has been moved");
    assert_eq!(client.expect(), Frame::NullArray);
    assert_eq!(admin.ask("RPUSH l a"), Frame::Integer(1));
    assert_eq!(admin.ask("LLEN l"), Frame::Integer(1));
    assert!(!client.has_reply(), "nobody waits any longer");
}

#[test]
fn unblocking_ends_the_wait_as_time_would_or_with_an_error() {
    on_both(|server| {
        let mut admin = Wire::connect(server);
        for (how, reply) in
            [("TIMEOUT", Frame::NullArray), ("ERROR", Frame::error("UNBLOCKED client unblocked via CLIENT UNBLOCK"))]
        {
            let mut client = Wire::connect(server);
            let id = client.ask("CLIENT ID").integer();
            send(&mut client, "BLPOP l 0");
            admin.ask_until("INFO clients", |info| info.contains("blocked_clients:1\r"));
            assert_eq!(admin.ask(&format!("CLIENT UNBLOCK {id} {how}")), Frame::Integer(1));
            assert_eq!(admin.ask(&format!("CLIENT UNBLOCK {id} {how}")), Frame::Integer(0));
            assert_eq!(client.expect(), reply);
            assert_eq!(admin.ask("RPUSH l a"), Frame::Integer(1));
            assert_eq!(client.ask("LPOP l"), Frame::bulk("a"));
        }
    });
}

#[test]
fn what_a_transaction_pushes_and_takes_back_nobody_ever_sees() {
    on_both(|server| {
        let mut admin = Wire::connect(server);
        let mut client = wait(server, &mut admin, "BLPOP l 0");
        for line in ["MULTI", "RPUSH l a", "LPOP l", "EXEC"] {
            admin.ask(line);
        }
        assert_eq!(blocked(&mut admin), 1);
        for line in ["MULTI", "RPUSH l a", "LPUSH l b"] {
            admin.ask(line);
        }
        assert_eq!(admin.ask("EXEC"), Frame::Array(vec![Frame::Integer(1), Frame::Integer(2)]));
        assert_eq!(client.expect(), popped("l", "b"));
        assert_eq!(admin.ask("LLEN l"), Frame::Integer(1));
    });
}

#[test]
fn what_a_script_pushes_is_taken_when_the_script_is_over() {
    on_both(|server| {
        let mut admin = Wire::connect(server);
        let mut client = wait(server, &mut admin, "BLPOP l 0");
        let script = "redis.call('RPUSH', 'l', 'a') redis.call('LPOP', 'l') return redis.call('LPUSH', 'l', 'b', 'c')";
        assert_eq!(admin.call(&["EVAL", script, "1", "l"]), Frame::Integer(2));
        assert_eq!(client.expect(), popped("l", "c"));
        assert_eq!(admin.ask("LRANGE l 0 -1"), Frame::Array(vec![Frame::bulk("b")]));
    });
}

#[test]
fn an_element_goes_from_hand_to_hand_as_far_as_somebody_waits_for_it() {
    on_both(|server| {
        let mut admin = Wire::connect(server);
        let mut first = wait(server, &mut admin, "BLMOVE a b LEFT LEFT 0");
        let mut second = wait(server, &mut admin, "BRPOPLPUSH b c 0");
        let mut third = wait(server, &mut admin, "BLPOP d c 0");
        assert_eq!(admin.ask("RPUSH a x"), Frame::Integer(1));
        assert_eq!((first.expect(), second.expect()), (Frame::bulk("x"), Frame::bulk("x")));
        assert_eq!(third.expect(), popped("c", "x"));
        assert_eq!(admin.ask("DBSIZE"), Frame::Integer(0));
    });
}

#[test]
fn something_of_another_type_is_not_what_a_client_waits_for() {
    on_both(|server| {
        let mut admin = Wire::connect(server);
        let mut list = wait(server, &mut admin, "BLPOP k 0");
        let mut set = wait(server, &mut admin, "BZPOPMIN k 0");
        admin.ask("ZADD k 1 m 2 n");
        let scored = Frame::Array(vec![Frame::bulk("k"), Frame::bulk("m"), Frame::bulk("1")]);
        assert_eq!(set.expect(), scored);
        assert_eq!(blocked(&mut admin), 1);
        admin.ask("DEL k");
        admin.ask("RPUSH k e");
        assert_eq!(list.expect(), popped("k", "e"));
    });
}

#[test]
fn what_is_gone_again_or_of_another_type_serves_nobody_and_changes_no_order() {
    on_both(|server| {
        let mut admin = Wire::connect(server);
        let lines = ["BLPOP k 0", "BZPOPMIN k 0", "BLMOVE k to LEFT LEFT 0", "BLPOP other k k 0"];
        let mut clients: Vec<Wire> = lines.iter().map(|line| wait(server, &mut admin, line)).collect();
        for [fill, empty] in [["RPUSH k a", "LPOP k"], ["ZADD k 1 m", "ZREM k m"], ["SET k v", "DEL k"]] {
            for line in ["MULTI", fill, empty, "EXEC"] {
                admin.ask(line);
            }
            let words = |line: &str| line.split(' ').map(|word| format!("'{word}'")).collect::<Vec<_>>().join(",");
            let script = format!("redis.call({}) redis.call({})", words(fill), words(empty));
            assert_eq!(admin.call(&["EVAL", &script, "1", "k"]), Frame::NullBulk);
            assert_eq!(blocked(&mut admin), 4);
            assert!(clients.iter_mut().all(|client| !client.has_reply()));
        }
        assert_eq!((admin.ask("SET k v"), admin.ask("DEL k")), (Frame::status("OK"), Frame::Integer(1)));
        assert_eq!(blocked(&mut admin), 4);
        assert_eq!(admin.ask("RPUSH k a b"), Frame::Integer(2));
        assert_eq!((clients[0].expect(), clients[2].expect()), (popped("k", "a"), Frame::bulk("b")));
        assert_eq!(blocked(&mut admin), 2);
        admin.ask("ZADD k 1 m");
        let scored = Frame::Array(vec![Frame::bulk("k"), Frame::bulk("m"), Frame::bulk("1")]);
        assert_eq!(clients[1].expect(), scored);
        assert_eq!(admin.ask("RPUSH k c d"), Frame::Integer(2));
        assert_eq!(clients[3].expect(), popped("k", "c"));
        assert_eq!(admin.ask("LRANGE k 0 -1"), Frame::Array(vec![Frame::bulk("d")]));
    });
}

#[test]
fn a_destination_of_the_wrong_type_is_an_error_and_the_element_stays() {
    on_both(|server| {
        let mut admin = Wire::connect(server);
        let mut client = wait(server, &mut admin, "BLMOVE l s LEFT LEFT 0");
        admin.ask("SET s x");
        admin.ask("RPUSH l a");
        assert!(client.expect().text().starts_with("WRONGTYPE"));
        assert_eq!(admin.ask("LLEN l"), Frame::Integer(1));
    });
}

#[test]
fn of_two_lists_filled_at_once_the_one_is_taken_that_was_filled_first_or_since_7_2_named_first() {
    let fill = |server: std::net::SocketAddr| {
        let mut admin = Wire::connect(server);
        let mut client = wait(server, &mut admin, "BLPOP one two 0");
        for line in ["MULTI", "RPUSH two b", "RPUSH one a", "EXEC"] {
            admin.ask(line);
        }
        client.expect()
    };
    on_both(|server| assert_eq!(fill(server), popped("two", "b")));
    let newer = start(Server::builder().compat(profile("redis-7.2")));
    assert_eq!(fill(address(&newer)), popped("one", "a"));
}

#[test]
fn requests_behind_one_that_waits_are_run_when_it_has_its_reply() {
    on_both(|server| {
        let mut admin = Wire::connect(server);
        let mut client = Wire::connect(server);
        let behind = [request(&["BLPOP", "l", "0"]), request(&["SET", "k", "v"]), request(&["BLPOP", "l", "0"])];
        client.send(&behind.concat());
        admin.ask_until("INFO clients", |info| info.contains("blocked_clients:1\r"));
        assert_eq!(admin.ask("EXISTS k"), Frame::Integer(0));
        admin.ask("RPUSH l a");
        assert_eq!((client.expect(), client.expect()), (popped("l", "a"), Frame::status("OK")));
        admin.ask_until("INFO clients", |info| info.contains("blocked_clients:1\r"));
        admin.ask("RPUSH l b");
        assert_eq!(client.expect(), popped("l", "b"));
    });
}

#[test]
fn databases_that_change_places_bring_what_is_waited_for() {
    on_both(|server| {
        let mut admin = Wire::connect(server);
        let mut client = wait(server, &mut admin, "BLPOP l 0");
        admin.ask("SELECT 1");
        admin.ask("RPUSH l a");
        assert_eq!(blocked(&mut admin), 1);
        admin.ask("SWAPDB 0 1");
        assert_eq!(client.expect(), popped("l", "a"));
    });
}

#[test]
fn a_name_that_is_given_to_a_list_brings_it_to_those_who_wait() {
    on_both(|server| {
        let mut admin = Wire::connect(server);
        let mut clients = waiting(server, &mut admin, "BLPOP l 0", 3);
        admin.ask("RPUSH other a");
        admin.ask("RENAME other l");
        admin.ask("RPUSH other b");
        admin.ask("COPY other l");
        admin.ask("SELECT 1");
        admin.ask("RPUSH l c");
        admin.ask("MOVE l 0");
        for (client, element) in clients.iter_mut().zip(["a", "b", "c"]) {
            assert_eq!(client.expect(), popped("l", element));
        }
    });
}

#[test]
fn clients_that_are_told_no_replies_get_none_for_what_they_waited_for() {
    on_both(|server| {
        let mut admin = Wire::connect(server);
        let mut client = Wire::connect(server);
        client.send(&[request(&["CLIENT", "REPLY", "SKIP"]), request(&["BLPOP", "l", "0"])].concat());
        admin.ask_until("INFO clients", |info| info.contains("blocked_clients:1\r"));
        admin.ask("RPUSH l a");
        admin.ask_until("INFO clients", |info| info.contains("blocked_clients:0\r"));
        assert_eq!(client.ask("ECHO next"), Frame::bulk("next"));
    });
}

#[test]
fn producers_and_consumers_on_many_threads_lose_nothing_and_double_nothing() {
    const PRODUCERS: usize = 4;
    const CONSUMERS: usize = 8;
    const EACH: usize = 500;
    let server = start(Server::builder().threads(4));
    let at = address(&server);
    let consumers: Vec<_> = (0..CONSUMERS)
        .map(|consumer| {
            thread::spawn(move || {
                let mut client = Wire::connect(at);
                let mut got = Vec::new();
                loop {
                    // Consumers block on two lists in either order, or on a third list.
                    let reply = match consumer % 4 {
                        0 => client.ask("BLPOP one two 0"),
                        1 => client.ask("BRPOP two one 0"),
                        2 => Frame::Array(vec![Frame::bulk("one"), client.ask("BLMOVE one done LEFT RIGHT 0")]),
                        _ => Frame::Array(vec![Frame::bulk("two"), client.ask("BRPOPLPUSH two done 0")]),
                    };
                    match reply.items()[1].text() {
                        end if end == "end" => return got,
                        element => got.push(element),
                    }
                }
            })
        })
        .collect();
    let producers: Vec<_> = (0..PRODUCERS)
        .map(|producer| {
            thread::spawn(move || {
                let mut client = Wire::connect(at);
                for number in 0..EACH {
                    let element = format!("{producer}:{number}");
                    match number % 3 {
                        0 => client.call(&["LPUSH", "one", &element]),
                        1 => client.call(&["RPUSH", "two", &element]),
                        _ => {
                            client.ask("MULTI");
                            client.call(&["RPUSH", if producer % 2 == 0 { "one" } else { "two" }, &element]);
                            client.ask("EXEC")
                        }
                    };
                }
            })
        })
        .collect();
    producers.into_iter().for_each(|producer| producer.join().expect("a producer"));
    let mut admin = Wire::connect(at);
    let all = |info: &str| info.contains(&format!("blocked_clients:{CONSUMERS}\r"));
    admin.ask_until("INFO clients", all);
    for list in ["one", "two"].into_iter().flat_map(|list| [list; CONSUMERS]) {
        admin.call(&["RPUSH", list, "end"]);
    }
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for consumer in consumers {
        for element in consumer.join().expect("a consumer") {
            *counts.entry(element).or_default() += 1;
        }
    }
    assert_eq!(counts.len(), PRODUCERS * EACH);
    assert!(counts.values().all(|&count| count == 1));
}

#[test]
fn the_server_ends_although_clients_wait() {
    let server = spawn();
    let mut admin = Wire::connect(address(&server));
    let mut clients = waiting(address(&server), &mut admin, "BLPOP l 0", 3);
    drop(server);
    assert!(clients.iter_mut().all(Wire::is_closed));
}
