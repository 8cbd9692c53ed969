//! The explorer: tests whose clients race, run in every order of their commands.
//!
//! How long a silent client is waited for only matters where a story says so: elsewhere every client is held, waits for
//! another one or is gone whenever a turn is given, and the number of clients is told beforehand.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use crate::support::wire::{Frame, Wire};
use crate::support::{address, spawn, start};
use redouble::{Search, Server};

/// A search in which only what clients do decides.
const TWO_CLIENTS: &str = "REDOUBLE EXPLORE START clients 2 settle 10s";
/// The time at which the workers of these stories look, and the times at which their locks are over.
const NOW: i64 = 1_000;
const EXPIRED: i64 = 900;

/// Runs clients at the same time, each with a connection of its own that is closed when it is done.
fn race<T: Send>(address: SocketAddr, clients: usize, work: impl Fn(&mut Wire, usize) -> T + Sync) -> Vec<T> {
    std::thread::scope(|scope| {
        let (work, mut running) = (&work, Vec::new());
        for client in 1..=clients {
            running.push(scope.spawn(move || {
                let mut wire = Wire::connect(address);
                wire.ask(&format!("CLIENT SETNAME worker-{client}"));
                work(&mut wire, client)
            }));
        }
        running.into_iter().map(|client| client.join().expect("a client")).collect()
    })
}

fn next(driver: &mut Wire) -> bool {
    match driver.ask("REDOUBLE EXPLORE NEXT") {
        Frame::Integer(_) => true,
        Frame::NullBulk => false,
        other => panic!("{other:?}"),
    }
}

fn finding(findings: &Frame, name: &str) -> Frame {
    let place = findings.items().iter().position(|item| *item == Frame::bulk(name)).expect(name);
    findings.items()[place + 1].clone()
}

fn number(findings: &Frame, name: &str) -> i64 {
    finding(findings, name).integer()
}

fn lines(driver: &mut Wire) -> Vec<String> {
    driver.ask("REDOUBLE EXPLORE ORDER").items().iter().map(Frame::text).collect()
}

/// Runs a test in every order; what came of each run, with the findings.
fn explore<T: Send>(
    server: &Server,
    start: &str,
    clients: usize,
    set_up: impl Fn(&mut Wire),
    work: impl Fn(&mut Wire, usize) -> T + Sync,
) -> (Vec<Vec<T>>, Frame) {
    let mut driver = Wire::connect(address(server));
    assert_eq!(driver.ask(start), Frame::status("OK"));
    let mut outcomes = Vec::new();
    while next(&mut driver) {
        set_up(&mut driver);
        outcomes.push(race(address(server), clients, &work));
    }
    (outcomes, driver.ask("REDOUBLE EXPLORE STOP"))
}

fn expired_lock(driver: &mut Wire) {
    driver.ask(&format!("SET lock.foo {EXPIRED}"));
}

/// The time of a lock in a reply to GET or GETSET; a lock that is not there is over.
fn deadline(reply: &Frame) -> i64 {
    match reply {
        Frame::NullBulk => 0,
        reply => reply.text().parse().expect("a time"),
    }
}

/// Takes over an expired lock as nobody should; whether it believes to hold it.
fn take_over_with_del(wire: &mut Wire, client: usize) -> bool {
    let mine = 2_000 + client;
    if wire.ask(&format!("SETNX lock.foo {mine}")) == Frame::Integer(1) {
        return true;
    }
    if deadline(&wire.ask("GET lock.foo")) > NOW {
        return false;
    }
    wire.ask("DEL lock.foo");
    wire.ask(&format!("SETNX lock.foo {mine}")) == Frame::Integer(1)
}

/// Takes over an expired lock as the documentation of SETNX says.
fn take_over_with_getset(wire: &mut Wire, client: usize) -> bool {
    let mine = 2_000 + client;
    if wire.ask(&format!("SETNX lock.foo {mine}")) == Frame::Integer(1) {
        return true;
    }
    deadline(&wire.ask("GET lock.foo")) <= NOW && deadline(&wire.ask(&format!("GETSET lock.foo {mine}"))) <= NOW
}

fn both(held: &[bool]) -> bool {
    held.iter().all(|held| *held)
}

#[test]
fn the_order_in_which_both_hold_the_lock_is_found_and_always_fails_again() {
    let server = spawn();
    let mut driver = Wire::connect(address(&server));
    driver.ask(TWO_CLIENTS);
    let mut runs = 0;
    let (token, order) = loop {
        assert!(next(&mut driver), "no order of {runs} fails");
        runs += 1;
        expired_lock(&mut driver);
        if both(&race(address(&server), 2, take_over_with_del)) {
            let token = driver.ask("REDOUBLE EXPLORE FAILED").text();
            break (token, lines(&mut driver));
        }
    };
    assert!(runs <= 40, "it took {runs} runs");
    assert_eq!(order.len(), 8);
    assert!(order.iter().any(|line| line.contains("worker-2  SETNX lock.foo 2002  -> 1")), "{order:#?}");
    let findings = driver.ask("REDOUBLE EXPLORE STOP");
    assert_eq!((number(&findings, "failed"), number(&findings, "strayed")), (1, 0));
    assert_eq!(driver.ask(&format!("REDOUBLE EXPLORE REPLAY {token} settle 10s")), Frame::status("OK"));
    for _ in 0..20 {
        assert!(next(&mut driver));
        expired_lock(&mut driver);
        assert!(both(&race(address(&server), 2, take_over_with_del)));
        assert_eq!(lines(&mut driver), order);
        assert_eq!(driver.ask("REDOUBLE EXPLORE FAILED").text(), token);
    }
    assert_eq!(number(&driver.ask("REDOUBLE EXPLORE STOP"), "strayed"), 0);
}

#[test]
fn with_getset_one_client_gets_the_lock_in_every_order() {
    let server = spawn();
    let (outcomes, findings) = explore(&server, TWO_CLIENTS, 2, expired_lock, take_over_with_getset);
    assert!(outcomes.iter().all(|held| held.iter().filter(|held| **held).count() == 1), "{outcomes:?}");
    assert_eq!(finding(&findings, "complete"), Frame::bulk("yes"));
    // Worked out by hand: of the orders of SETNX, GET and GETSET, those that differ only in which GET is first are one.
    assert_eq!((number(&findings, "runs"), number(&findings, "repeated")), (16, 0));
    assert_eq!((number(&findings, "turns"), number(&findings, "strayed")), (6, 0));
    let (every, findings) =
        explore(&server, &format!("{TWO_CLIENTS} every-order"), 2, expired_lock, take_over_with_getset);
    assert_eq!(number(&findings, "skipped"), 0);
    assert!(every.len() > outcomes.len());
    assert_eq!(every.into_iter().collect::<BTreeSet<_>>(), outcomes.into_iter().collect());
}

#[test]
fn three_clients_are_let_through_in_every_order() {
    let server = spawn();
    let append = |wire: &mut Wire, client: usize| {
        (0..2).for_each(|_| drop(wire.ask(&format!("APPEND log {client}"))));
    };
    let mut driver = Wire::connect(address(&server));
    driver.ask("REDOUBLE EXPLORE START clients 3 settle 10s");
    let mut logs = BTreeSet::new();
    let mut runs = 0;
    while next(&mut driver) {
        runs += 1;
        race(address(&server), 3, append);
        logs.insert(driver.ask("GET log").text());
    }
    // 6! / (2! 2! 2!)
    assert_eq!((runs, logs.len()), (90, 90));
    assert_eq!(finding(&driver.ask("REDOUBLE EXPLORE FINDINGS"), "complete"), Frame::bulk("yes"));
}

#[test]
fn what_commutes_is_tried_in_one_order_and_misses_no_outcome() {
    let server = spawn();
    let transfer = |wire: &mut Wire, client: usize| {
        let (from, to) = if client == 1 { ("a", "b") } else { ("b", "c") };
        let seen = wire.ask(&format!("INCR {from}")).integer();
        wire.ask(&format!("SET note.{client} {seen}"));
        wire.ask(&format!("INCR {to}")).integer() * 10 + seen
    };
    let (some, few) = explore(&server, TWO_CLIENTS, 2, |_| {}, transfer);
    let (every, all) = explore(&server, &format!("{TWO_CLIENTS} every-order"), 2, |_| {}, transfer);
    assert_eq!(number(&all, "runs"), 20);
    assert!(number(&few, "runs") - number(&few, "repeated") == 2, "{few:?}");
    assert!(number(&few, "skipped") > 0);
    assert_eq!(some.into_iter().collect::<BTreeSet<_>>(), every.into_iter().collect());
}

#[test]
fn beyond_the_bound_the_same_seed_draws_the_same_orders() {
    let server = spawn();
    let orders = |seed: u64| {
        let mut driver = Wire::connect(address(&server));
        driver.ask(&format!("REDOUBLE EXPLORE START runs 2 random 8 seed {seed} clients 3 settle 10s"));
        let mut orders = Vec::new();
        while next(&mut driver) {
            race(address(&server), 3, |wire, client| {
                (0..3).for_each(|_| drop(wire.ask(&format!("APPEND log {client}"))));
            });
            orders.push(driver.ask("GET log").text());
        }
        let findings = driver.ask("REDOUBLE EXPLORE STOP");
        assert_eq!((number(&findings, "runs"), number(&findings, "random")), (10, 8));
        assert_eq!(finding(&findings, "complete"), Frame::bulk("no"));
        orders
    };
    let first = orders(7);
    assert_eq!(first[0], "111222333");
    assert_eq!(first, orders(7));
    assert_ne!(first, orders(8));
}

#[test]
fn a_client_that_disconnects_in_the_middle_holds_nobody_up() {
    let server = spawn();
    let work = |wire: &mut Wire, client: usize| {
        wire.ask("INCR visits");
        if client == 1 {
            // It is gone before its second command has its turn, or with its reply unread.
            wire.send(b"*2\r\n$4\r\nINCR\r\n$6\r\nvisits\r\n");
            return;
        }
        wire.ask("INCR visits");
        wire.ask("INCR visits");
    };
    let (runs, findings) = explore(&server, TWO_CLIENTS, 2, |_| {}, work);
    assert!(runs.len() > 1, "{findings:?}");
    assert_eq!(number(&findings, "clients"), 2);
}

#[test]
fn a_client_that_waits_lets_the_one_go_first_that_serves_it() {
    let server = spawn();
    let work = |wire: &mut Wire, client: usize| match client {
        1 => wire.ask("BLPOP jobs 0").items()[1].text(),
        _ => {
            wire.ask("RPUSH jobs one");
            wire.ask("RPUSH jobs two");
            String::new()
        }
    };
    let (outcomes, findings) = explore(&server, TWO_CLIENTS, 2, |_| {}, work);
    // It waits first, or between the two, or after both.
    assert_eq!(outcomes.len(), 3);
    assert!(outcomes.iter().all(|outcome| outcome[0] == "one"), "{outcomes:?}");
    assert_eq!(finding(&findings, "complete"), Frame::bulk("yes"));
}

#[test]
fn a_transaction_is_one_turn_and_what_it_watches_counts() {
    let server = spawn();
    let work = |wire: &mut Wire, client: usize| {
        if client == 2 {
            return wire.ask("SET a changed");
        }
        wire.ask("WATCH a");
        let seen = wire.ask("GET a");
        wire.ask("MULTI");
        wire.ask("SET b copied");
        match wire.ask("EXEC") {
            Frame::NullArray => Frame::Null,
            _ => seen,
        }
    };
    let (outcomes, findings) = explore(&server, TWO_CLIENTS, 2, |_| {}, work);
    let seen: BTreeSet<String> = outcomes.iter().map(|outcome| format!("{:?}", outcome[0])).collect();
    // SET before WATCH, between WATCH and EXEC (in front of GET or behind it), behind EXEC.
    assert_eq!((outcomes.len(), seen.len()), (4, 3), "{outcomes:?}");
    assert_eq!(number(&findings, "turns"), 4);
}

#[test]
fn only_clients_with_such_names_race() {
    let server = spawn();
    let mut driver = Wire::connect(address(&server));
    driver.ask("REDOUBLE EXPLORE START client worker-* clients 2 settle 10s");
    assert!(next(&mut driver));
    let mut other = Wire::connect(address(&server));
    assert_eq!(other.ask("SET a 1"), Frame::status("OK"));
    assert_eq!(driver.ask("GET a"), Frame::bulk("1"));
    race(address(&server), 2, |wire, _| drop(wire.ask("INCR a")));
    let order = lines(&mut driver);
    assert_eq!(order, ["  1. worker-1  INCR a  -> 2", "  2. worker-2  INCR a  -> 3"]);
}

#[test]
fn a_run_begins_with_a_server_as_new() {
    let server = spawn();
    let mut driver = Wire::connect(address(&server));
    driver.ask(TWO_CLIENTS);
    assert!(next(&mut driver));
    race(address(&server), 2, |wire, client| drop(wire.ask(&format!("INCR key.{client}"))));
    driver.ask("SELECT 3");
    driver.ask("SET other 1");
    driver.ask("REDOUBLE FAULT ADD gone hang");
    assert!(next(&mut driver));
    assert_eq!(driver.ask("EXISTS other"), Frame::Integer(0));
    driver.ask("SELECT 0");
    assert_eq!(driver.ask("DBSIZE"), Frame::Integer(0));
    assert_eq!(driver.ask("REDOUBLE FAULT LIST"), Frame::Array(Vec::new()));
}

#[test]
fn a_test_that_does_not_follow_its_order_is_reported_and_not_held_up() {
    let server = spawn();
    let mut driver = Wire::connect(address(&server));
    driver.ask(TWO_CLIENTS);
    let mut runs = 0;
    while next(&mut driver) {
        runs += 1;
        // Two clients, of which one does something else in every other run.
        race(address(&server), 2, |wire, client| {
            wire.ask("INCR a");
            wire.ask(if client == 2 && runs % 2 == 0 { "GET a" } else { "INCR a" });
        });
    }
    let findings = driver.ask("REDOUBLE EXPLORE STOP");
    assert!(number(&findings, "strayed") > 0, "{findings:?}");
    assert_eq!(finding(&findings, "complete"), Frame::bulk("no"));
    assert!(finding(&findings, "how").text().starts_with("run "));
}

#[test]
fn stop_lets_everybody_go_on() {
    let server = spawn();
    let mut driver = Wire::connect(address(&server));
    driver.ask("REDOUBLE EXPLORE START clients 3 settle 1h");
    assert!(next(&mut driver));
    let mut held = Wire::connect(address(&server));
    held.send(b"PING\r\nINCR a\r\n");
    assert_eq!(held.expect(), Frame::status("PONG"));
    assert_eq!(number(&driver.ask("REDOUBLE EXPLORE STOP"), "runs"), 1);
    assert_eq!(held.expect(), Frame::Integer(1));
    assert_eq!(held.ask("INCR a"), Frame::Integer(2));
}

#[test]
fn reset_ends_an_exploration() {
    let server = spawn();
    let mut driver = Wire::connect(address(&server));
    driver.ask("REDOUBLE EXPLORE START clients 3 settle 1h");
    assert!(next(&mut driver));
    let mut held = Wire::connect(address(&server));
    held.send(b"PING\r\nINCR a\r\n");
    assert_eq!(held.expect(), Frame::status("PONG"));
    assert_eq!(driver.ask("REDOUBLE RESET"), Frame::status("OK"));
    assert_eq!(held.expect(), Frame::Integer(1));
    assert_eq!(driver.ask("EXISTS a"), Frame::Integer(0));
    assert!(driver.ask("REDOUBLE EXPLORE FINDINGS").is_error());
}

#[test]
fn a_test_that_begins_with_reset_is_explored_all_the_same() {
    let server = spawn();
    let search = Search::default().clients(2).settle(Duration::from_secs(10)).client("worker-*");
    let mut exploration = server.explore(search).unwrap();
    let mut driver = Wire::connect(address(&server));
    while exploration.next().unwrap().is_some() {
        assert_eq!(driver.ask("REDOUBLE RESET"), Frame::status("OK"));
        expired_lock(&mut driver);
        race(address(&server), 2, take_over_with_getset);
    }
    let findings = exploration.stop().unwrap();
    assert!(findings.is_complete, "{findings:?}");
    assert_eq!(findings.runs, 16);
}

#[test]
fn it_makes_no_difference_how_many_threads_serve() {
    let server = start(Server::builder().threads(3));
    let (outcomes, findings) = explore(&server, TWO_CLIENTS, 2, expired_lock, take_over_with_getset);
    assert_eq!((outcomes.len(), number(&findings, "strayed")), (16, 0));
    assert_eq!(finding(&findings, "complete"), Frame::bulk("yes"));
}

#[test]
fn a_server_ends_although_somebody_is_held() {
    let server = spawn();
    let exploration = server.explore(Search::default().clients(2).settle(Duration::from_secs(3600)));
    let mut exploration = exploration.unwrap();
    exploration.next().unwrap();
    let mut held = Wire::connect(address(&server));
    held.send(b"PING\r\nINCR a\r\n");
    assert_eq!(held.expect(), Frame::status("PONG"));
    drop(server);
    assert!(held.is_closed());
    drop(exploration);
}

#[test]
fn from_rust_the_failing_order_is_found_and_replayed() {
    let server = spawn();
    let search = || Search::default().clients(2).settle(Duration::from_secs(10));
    let run = || {
        expired_lock(&mut Wire::connect(address(&server)));
        both(&race(address(&server), 2, take_over_with_del))
    };
    let mut exploration = server.explore(search().client("worker-*")).unwrap();
    assert!(server.explore(search()).is_err());
    let token = loop {
        assert!(exploration.next().unwrap().is_some());
        if run() {
            break exploration.fail().unwrap();
        }
    };
    assert_eq!(exploration.stop().unwrap().failed, 1);
    let mut replay = server.replay(&token, search().client("worker-*")).unwrap();
    for number in 1..=5 {
        assert_eq!(replay.next().unwrap(), Some(number));
        assert!(run() && replay.strayed().is_none());
    }
    drop(replay);
    let refusal = server.replay("1-B12-no", search()).err().unwrap().to_string();
    assert!(refusal.contains("'1-B12-no' is not the token of an order: its checksum is wrong"), "{refusal}");
}

// ---- the program

/// What the program runs below: this very test, as a process that is told to race.
#[test]
fn racers() {
    let Ok(takeover) = std::env::var("TAKEOVER") else { return };
    let at = |name| std::env::var(name).expect(name);
    let address: SocketAddr = format!("{}:{}", at("REDIS_HOST"), at("REDIS_PORT")).parse().expect("an address");
    if takeover == "hang" {
        Wire::connect(address).ask("BLPOP nothing 0");
    }
    expired_lock(&mut Wire::connect(address));
    println!("they race");
    let held = race(address, 2, if takeover == "del" { take_over_with_del } else { take_over_with_getset });
    assert!(!both(&held), "both hold the lock");
}

fn explore_racers(flags: &[&str], takeover: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_redouble"));
    command
        .arg("explore")
        .args(flags)
        .arg("--")
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "explore::racers"]);
    command.arg("--nocapture").env("TAKEOVER", takeover);
    command.process_group(0).stdin(Stdio::null()).output().unwrap()
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn the_program_finds_the_order_and_says_how_to_replay_it() {
    let output = explore_racers(&["--settle", "10s", "--client", "worker-*", "--clients", "2"], "del");
    let said = errors(&output);
    assert_eq!(output.status.code(), Some(101), "{said}");
    assert!(said.contains("both hold the lock") && said.contains("they race"), "{said}");
    assert!(said.contains("worker-2  SETNX lock.foo 2002  -> 1"), "{said}");
    assert!(said.contains("1 failed; up to 2 clients and 8 commands; ended at the first failure"), "{said}");
    let line = said.lines().find(|line| line.starts_with("redouble explore: replay: ")).expect("a replay");
    let token = line.split_whitespace().skip_while(|word| *word != "--replay").nth(1).expect("a token");
    assert!(line.contains("--settle 10s --client 'worker-*' -- ") && !line.contains("--clients"), "{line}");
    let replay = explore_racers(&["--settle", "10s", "--client", "worker-*", "--replay", token], "del");
    assert_eq!(replay.status.code(), Some(101), "{}", errors(&replay));
    assert!(errors(&replay).contains(token) && !errors(&replay).contains("did not follow"), "{}", errors(&replay));
    // With the mistake gone the same order is gone through as far as it goes.
    let mended = explore_racers(&["--settle", "10s", "--client", "worker-*", "--replay", token], "getset");
    assert_eq!(mended.status.code(), Some(0), "{}", errors(&mended));
    assert!(errors(&mended).contains("the order passes (it did not follow its order"), "{}", errors(&mended));
}

#[test]
fn the_program_says_when_that_was_all() {
    let flags = ["--settle", "10s", "--client", "worker-*", "--clients", "2", "--keep-going"];
    let output = explore_racers(&flags, "getset");
    assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
    let said = errors(&output);
    let summary = "16 runs, 0 failed; up to 2 clients and 6 commands; these are all orders";
    assert!(said.starts_with(&format!("redouble explore: {summary}\n")), "{said}");
    assert!(!said.contains("they race"));
}

#[test]
fn a_test_that_hangs_is_ended() {
    let output = explore_racers(&["--settle", "1ms", "--limit", "2s"], "hang");
    let said = errors(&output);
    assert_eq!(output.status.code(), Some(124), "{said}");
    assert!(
        said.contains("order 1 fails: not done after 2s") && said.contains("BLPOP nothing 0  -> (no reply)"),
        "{said}"
    );
}

#[test]
fn a_test_that_never_reached_the_server_was_not_explored() {
    let program = env!("CARGO_BIN_EXE_redouble");
    let output = Command::new(program).args(["explore", "--", "true"]).output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(errors(&output).contains("no command was held in any run"), "{}", errors(&output));
}

#[test]
fn a_command_that_cannot_be_run_is_no_failing_order() {
    let program = env!("CARGO_BIN_EXE_redouble");
    let output = Command::new(program).args(["explore", "--", "/no/such/test"]).output().unwrap();
    assert_eq!(output.status.code(), Some(127));
    assert_eq!(errors(&output), "redouble: /no/such/test: No such file or directory\n");
}

#[test]
fn a_bad_token_and_bad_flags_are_explained() {
    let refused = |flags: &[&str]| {
        let output = explore_racers(flags, "getset");
        assert_eq!(output.status.code(), Some(125));
        errors(&output)
    };
    assert!(
        refused(&["--replay", "abc"]).contains("'abc' is not the token of an order: it is not of the form 1-B1212-xy")
    );
    assert!(refused(&["--runs", "many"]).contains("redouble explore: --runs takes a number, not 'many'"));
    assert!(refused(&["--nonsense", "1"]).contains("nonsense"));
}
