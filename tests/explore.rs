//! The explorer: tests whose clients race, run in every order of their commands.
//!
//! How long a silent client is waited for only matters where a story says so: elsewhere every client is held, waits for
//! another one or is gone whenever a turn is given, and the number of clients is told beforehand.

mod support;

use std::collections::BTreeSet;
use std::net::SocketAddr;

use redouble::Server;
use support::wire::{Frame, Wire};
use support::{address, spawn};

/// A search in which only what clients do decides.
const TWO_CLIENTS: &str = "REDOUBLE EXPLORE START clients 2 settle 10s";
/// The time at which the workers of these stories look, and the times at which their locks are over.
const NOW: i64 = 1_000;
const EXPIRED: i64 = 900;

/// A race: clients that do something at the same time, and what has come of each.
type Work<T> = fn(&mut Wire, usize) -> T;

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
    assert_eq!(finding(&findings, "complete"), Frame::bulk("yes"), "{findings:?}");
    assert_eq!(number(&findings, "strayed"), 0);
    eprintln!("{findings:?}");
}
