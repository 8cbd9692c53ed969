//! Gates: a test holds the commands that it chooses, and lets them go on in the order that it wants.
//!
//! Nothing here sleeps: whoever is to be held is waited for with GATE WAIT, and what STEP has let go has happened when it
//! answers.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

use redouble::Server;

use crate::support::process::ServerProcess;
use crate::support::wire::{Frame, PATIENCE, Wire, request};
use crate::support::{address, start, wait_until};

/// A server, and the connection of the test itself.
struct Stage {
    server: Server,
    driver: Wire,
}

impl Stage {
    fn new(threads: usize) -> Self {
        let server = start(Server::builder().threads(threads));
        let driver = Wire::connect(address(&server));
        Self { server, driver }
    }

    fn client(&self, name: &str) -> Wire {
        let mut client = Wire::connect(address(&self.server));
        assert_eq!(client.ask(&format!("CLIENT SETNAME {name}")), ok());
        client
    }

    /// `REDOUBLE GATE ...` of the test, which is to answer OK.
    #[track_caller]
    fn gate(&mut self, line: &str) {
        assert_eq!(self.driver.ask(&format!("REDOUBLE GATE {line}")), ok(), "{line}");
    }

    /// Waits until so many are held.
    #[track_caller]
    fn held(&mut self, gate: &str, count: i64) {
        assert_eq!(self.driver.ask(&format!("REDOUBLE GATE WAIT {gate} {count}")), Frame::Integer(count));
    }

    /// Has a client send a command that is to be held.
    #[track_caller]
    fn park(&mut self, client: &mut Wire, line: &str, gate: &str, count: i64) {
        client.send(&words(line));
        self.held(gate, count);
    }

    #[track_caller]
    fn ask(&mut self, line: &str) -> Frame {
        self.driver.ask(line)
    }

    /// What GATE LIST says of a gate.
    fn list(&mut self, gate: &str) -> BTreeMap<String, Frame> {
        let gates = self.driver.ask("REDOUBLE GATE LIST");
        let described = gates.items().iter().map(|gate| {
            gate.items().chunks(2).map(|pair| (pair[0].text(), pair[1].clone())).collect::<BTreeMap<_, _>>()
        });
        described.into_iter().find(|described| described["name"].text() == gate).expect("the gate")
    }

    /// Who is held at a gate, as GATE LIST shows it, without the numbers of the clients.
    fn guests(&mut self, gate: &str) -> Vec<String> {
        let held = self.list(gate)["held"].clone();
        held.items().iter().map(|guest| guest.text().splitn(3, ' ').nth(2).unwrap_or_default().to_owned()).collect()
    }

    /// Waits until nobody is held there any more: what the server has heard of a client that is gone.
    fn until_nobody_is_held(&mut self, gate: &str) {
        wait_until(format_args!("nobody at {gate}"), || self.guests(gate).is_empty());
    }
}

fn ok() -> Frame {
    Frame::status("OK")
}

fn words(line: &str) -> Vec<u8> {
    request(&line.split(' ').collect::<Vec<_>>())
}

/// Tells a story to a server of one thread, and to one of several.
fn on_each(story: impl Fn(Stage)) {
    [1, 4].into_iter().for_each(|threads| story(Stage::new(threads)));
}

// ---- the documented race

/// The lock has run out; both clients have seen that.
fn an_expired_lock(stage: &mut Stage) -> (Wire, Wire) {
    assert_eq!(stage.ask("SET lock.foo 1000"), ok());
    let (mut one, mut two) = (stage.client("one"), stage.client("two"));
    for client in [&mut one, &mut two] {
        assert_eq!(client.ask("SETNX lock.foo 2000"), Frame::Integer(0));
        assert_eq!(client.ask("GET lock.foo"), Frame::bulk("1000"));
    }
    (one, two)
}

#[test]
fn two_clients_that_delete_an_expired_lock_both_get_it() {
    on_each(|mut stage| {
        let (mut one, mut two) = an_expired_lock(&mut stage);
        stage.gate("ADD first on DEL client one");
        stage.gate("ADD second on DEL client two");
        stage.park(&mut one, "DEL lock.foo", "first", 1);
        stage.park(&mut two, "DEL lock.foo", "second", 1);
        stage.gate("STEP first");
        assert_eq!(one.expect(), Frame::Integer(1));
        assert_eq!(one.ask("SETNX lock.foo 2001"), Frame::Integer(1));
        stage.gate("STEP second");
        assert_eq!(two.expect(), Frame::Integer(1));
        assert_eq!(two.ask("SETNX lock.foo 2002"), Frame::Integer(1));
    });
}

#[test]
fn of_two_clients_that_take_over_with_getset_one_sees_the_old_value() {
    for faster in ["one", "two"] {
        on_each(|mut stage| {
            let (mut one, mut two) = an_expired_lock(&mut stage);
            stage.gate("ADD first on GETSET client one");
            stage.gate("ADD second on GETSET client two");
            stage.park(&mut one, "GETSET lock.foo 2001", "first", 1);
            stage.park(&mut two, "GETSET lock.foo 2002", "second", 1);
            let order = if faster == "one" { ["first", "second"] } else { ["second", "first"] };
            order.iter().for_each(|gate| stage.gate(&format!("STEP {gate}")));
            let (winner, loser, value) =
                if faster == "one" { (&mut one, &mut two, "2001") } else { (&mut two, &mut one, "2002") };
            assert_eq!(winner.expect(), Frame::bulk("1000"));
            assert_eq!(loser.expect(), Frame::bulk(value));
        });
    }
}

// ---- before and after

#[test]
fn before_it_has_not_run_and_after_it_has() {
    on_each(|mut stage| {
        let mut client = stage.client("c");
        stage.gate("ADD before on SET");
        stage.park(&mut client, "SET k v", "before", 1);
        assert_eq!(stage.ask("GET k"), Frame::NullBulk);
        stage.gate("STEP before");
        // The reply is on its way when STEP has answered.
        assert_eq!(stage.ask("GET k"), Frame::bulk("v"));
        assert_eq!(client.expect(), ok());
        stage.gate("REMOVE before");
        stage.gate("ADD after on SET after");
        stage.park(&mut client, "SET k w", "after", 1);
        assert_eq!(stage.ask("GET k"), Frame::bulk("w"));
        assert!(!client.has_reply());
        stage.gate("STEP after");
        assert!(client.has_reply());
        assert_eq!(client.expect(), ok());
    });
}

#[test]
fn the_list_tells_who_is_held_with_what_on_either_side() {
    let mut stage = Stage::new(1);
    stage.gate("ADD before on SET key a* timeout 90s");
    stage.gate("ADD after on SET GETSET client c2 db 0 after");
    let (mut one, mut two, mut three) = (stage.client("c1"), stage.client("c2"), stage.client("c3"));
    stage.park(&mut one, "SET a 1", "before", 1);
    stage.park(&mut three, "SET a2 3", "before", 2);
    stage.park(&mut two, "SET b 2", "after", 1);
    assert_eq!(stage.guests("before"), ["(c1) SET a 1", "(c3) SET a2 3"]);
    assert_eq!(stage.guests("after"), ["(c2) SET b 2"]);
    let list = stage.list("after");
    assert_eq!(list["rule"].text(), "on SET GETSET client c2 db 0 after");
    assert_eq!(stage.list("before")["rule"].text(), "on SET key a* before timeout 90s");
    assert_eq!((list["arrived"].integer(), list["passed"].integer()), (1, 0));
    stage.gate("STEP after");
    let list = stage.list("after");
    assert_eq!((list["arrived"].integer(), list["passed"].integer(), list["held"].items().len()), (1, 1, 0));
}

#[test]
fn a_blocking_command_is_held_before_it_waits_and_after_it_was_served() {
    on_each(|mut stage| {
        stage.gate("ADD before on BLPOP");
        stage.gate("ADD after on BLPOP after");
        let mut client = stage.client("c");
        stage.park(&mut client, "BLPOP l 0", "before", 1);
        // It does not wait for the key yet.
        assert_eq!(stage.ask("RPUSH l a"), Frame::Integer(1));
        assert_eq!(stage.ask("LPOP l"), Frame::bulk("a"));
        // When STEP has answered, it does: who pushes now serves it, and the list stays empty.
        stage.gate("STEP before");
        assert_eq!(stage.ask("RPUSH l b"), Frame::Integer(1));
        assert_eq!(stage.ask("EXISTS l"), Frame::Integer(0));
        stage.held("after", 1);
        assert_eq!(stage.guests("after"), ["(c) BLPOP l 0"]);
        assert!(!client.has_reply());
        stage.gate("STEP after");
        assert_eq!(client.expect(), Frame::Array(vec![Frame::bulk("l"), Frame::bulk("b")]));
        // Also what comes of its time being over is held.
        stage.ask("REDOUBLE CLOCK FREEZE");
        stage.park(&mut client, "BLPOP l 5", "before", 1);
        stage.gate("STEP before");
        assert_eq!(stage.ask("REDOUBLE CLOCK ADVANCE 6s"), ok());
        assert_eq!(stage.guests("after"), ["(c) BLPOP l 5"]);
        stage.gate("STEP after");
        assert_eq!(client.expect(), Frame::NullArray);
    });
}

#[test]
fn who_steps_a_push_finds_the_waiting_client_served() {
    on_each(|mut stage| {
        let (mut waiter, mut pusher) = (stage.client("waiter"), stage.client("pusher"));
        stage.gate("ADD waits on BLPOP");
        stage.gate("ADD got on BLPOP after");
        stage.gate("ADD push on RPUSH");
        stage.park(&mut waiter, "BLPOP l 0", "waits", 1);
        stage.gate("STEP waits");
        stage.park(&mut pusher, "RPUSH l a", "push", 1);
        stage.gate("STEP push");
        // Nobody need wait for it: it is there already.
        assert_eq!(stage.guests("got"), ["(waiter) BLPOP l 0"]);
        assert!(pusher.has_reply());
    });
}

#[test]
fn a_watched_key_that_changes_while_exec_is_held_breaks_the_transaction() {
    on_each(|mut stage| {
        let mut client = stage.client("c");
        stage.gate("ADD exec on INCR");
        stage.gate("ADD done on EXEC after");
        for line in ["WATCH k", "MULTI", "INCR k"] {
            assert!(!client.ask(line).is_error());
        }
        stage.park(&mut client, "EXEC", "exec", 1);
        assert_eq!(stage.ask("SET k 5"), ok());
        stage.gate("STEP exec");
        assert_eq!(stage.guests("done"), ["(c) EXEC"]);
        stage.gate("STEP done");
        assert_eq!(client.expect(), Frame::NullArray);
        for line in ["MULTI", "INCR k"] {
            assert!(!client.ask(line).is_error());
        }
        stage.park(&mut client, "EXEC", "exec", 1);
        stage.gate("STEP exec");
        assert_eq!(stage.ask("GET k"), Frame::bulk("6"));
        stage.gate("STEP done");
        assert_eq!(client.expect(), Frame::Array(vec![Frame::Integer(6)]));
    });
}

#[test]
fn a_step_of_a_slow_script_answers_when_the_script_is_done() {
    on_each(|mut stage| {
        assert_eq!(stage.ask("CONFIG SET busy-reply-threshold 1"), ok());
        let script = "local n = 0 for i = 1, 2000000 do n = n + 1 end return redis.call('SET', KEYS[1], n)";
        stage.gate("ADD before on EVAL");
        stage.gate("ADD after on EVAL after");
        let mut client = stage.client("c");
        client.send(&[request(&["EVAL", script, "1", "k"]), request(&["EVAL", script, "1", "l"])].concat());
        for (key, other) in [("k", "l"), ("l", "none")] {
            stage.held("before", 1);
            stage.gate("STEP before");
            assert_eq!(stage.ask(&format!("EXISTS {key} {other}")), Frame::Integer(1));
            assert_eq!(stage.guests("after").len(), 1);
            stage.gate("STEP after");
            assert!(client.has_reply());
            assert_eq!(client.expect(), ok());
        }
    });
}

#[test]
fn a_slow_script_behind_a_held_command_runs_by_itself() {
    on_each(|mut stage| {
        assert_eq!(stage.ask("CONFIG SET busy-reply-threshold 1"), ok());
        stage.gate("ADD door on SET after");
        let mut client = stage.client("c");
        let script = "local n = 0 for i = 1, 2000000 do n = n + 1 end return n";
        client.send(&[words("SET k v"), request(&["EVAL", script, "0"])].concat());
        stage.held("door", 1);
        stage.gate("STEP door");
        assert_eq!(client.expect(), ok());
        assert_eq!(client.expect(), Frame::Integer(2_000_000));
    });
}

#[test]
fn what_a_client_has_sent_behind_a_held_command_waits_and_comes_in_order() {
    on_each(|mut stage| {
        stage.gate("ADD before on INCR");
        stage.gate("ADD after on INCR after");
        let mut client = stage.client("c");
        client.send(&[words("SET k 1"), words("INCR k"), words("INCR k"), words("GET k")].concat());
        assert_eq!(client.expect(), ok());
        for value in [2, 3] {
            stage.held("before", 1);
            stage.gate("STEP before");
            assert_eq!(stage.ask("GET k"), Frame::bulk(&value.to_string()));
            assert!(!client.has_reply());
            stage.held("after", 1);
            stage.gate("STEP after");
            assert_eq!(client.expect(), Frame::Integer(value));
        }
        assert_eq!(client.expect(), Frame::bulk("3"));
    });
}

#[test]
fn a_held_client_of_resp3_still_hears_what_is_pushed_to_it() {
    on_each(|mut stage| {
        let mut client = stage.client("c");
        assert!(!client.ask("HELLO 3").is_error());
        client.ask("SUBSCRIBE news");
        stage.gate("ADD door on HGETALL after");
        stage.ask("HSET h f v");
        stage.park(&mut client, "HGETALL h", "door", 1);
        assert_eq!(stage.ask("PUBLISH news hello"), Frame::Integer(1));
        let push = client.expect();
        assert!(matches!(&push, Frame::Push(items) if items[2] == Frame::bulk("hello")), "{push:?}");
        stage.gate("STEP door");
        assert_eq!(client.expect(), Frame::Map(vec![Frame::bulk("f"), Frame::bulk("v")]));
    });
}

// ---- several gates, and faults

#[test]
fn a_command_comes_to_its_gates_one_after_another() {
    on_each(|mut stage| {
        stage.gate("ADD b on SET");
        stage.gate("ADD d on SET after");
        stage.gate("ADD a on SET client c");
        stage.gate("ADD c on SET key k after");
        let mut client = stage.client("c");
        stage.park(&mut client, "SET k v", "b", 1);
        for (from, to) in [("b", "a"), ("a", "d"), ("d", "c")] {
            stage.gate(&format!("STEP {from}"));
            // It is there: STEP answers no sooner.
            assert_eq!(stage.guests(to), ["(c) SET k v"], "{to}");
        }
        stage.gate("STEP c");
        assert_eq!(client.expect(), ok());
    });
}

#[test]
fn a_fault_that_is_armed_while_a_command_is_held_is_for_that_command() {
    on_each(|mut stage| {
        stage.gate("ADD door on SET");
        let (mut one, mut two) = (stage.client("one"), stage.client("two"));
        stage.park(&mut one, "SET a 1", "door", 1);
        stage.park(&mut two, "SET b 2", "door", 2);
        assert_eq!(stage.ask("REDOUBLE FAULT ADD lost on SET times 1 close-after"), ok());
        stage.gate("STEP door");
        assert!(one.is_closed());
        assert_eq!(stage.ask("EXISTS a b"), Frame::Integer(1));
        stage.gate("STEP door");
        assert_eq!(two.expect(), ok());
    });
}

#[test]
fn a_fault_stands_between_the_gates_of_a_command() {
    on_each(|mut stage| {
        stage.ask("REDOUBLE CLOCK FREEZE");
        stage.gate("ADD before on SET");
        stage.gate("ADD after on SET after");
        assert_eq!(stage.ask("REDOUBLE FAULT ADD late on SET delay 5s"), ok());
        let mut client = stage.client("c");
        stage.park(&mut client, "SET k v", "before", 1);
        stage.gate("STEP before");
        assert_eq!(stage.ask("GET k"), Frame::NullBulk);
        assert_eq!(stage.ask("REDOUBLE CLOCK ADVANCE 5s"), ok());
        assert_eq!(stage.guests("after"), ["(c) SET k v"]);
        assert_eq!(stage.ask("GET k"), Frame::bulk("v"));
        stage.gate("STEP after");
        assert_eq!(client.expect(), ok());
    });
}

// ---- clients that go away

#[test]
fn a_held_client_that_disconnects_is_forgotten() {
    on_each(|mut stage| {
        stage.gate("ADD door on SET");
        let (mut one, mut two) = (stage.client("one"), stage.client("two"));
        stage.park(&mut one, "SET a 1", "door", 1);
        stage.park(&mut two, "SET b 2", "door", 2);
        drop(one);
        // It may or may not be known yet that the first is gone: the turn is the second's either way.
        stage.gate("STEP door");
        assert_eq!(stage.ask("EXISTS a"), Frame::Integer(0));
        assert_eq!(stage.ask("GET b"), Frame::bulk("2"));
        assert_eq!(two.expect(), ok());
        let mut three = stage.client("three");
        stage.park(&mut three, "SET c 3", "door", 1);
        drop(three);
        stage.until_nobody_is_held("door");
        let nobody = stage.ask("REDOUBLE GATE STEP door");
        assert_eq!(nobody, Frame::error("ERR nobody is held at gate 'door'"));
    });
}

#[test]
fn a_held_client_that_is_killed_does_not_run_and_has_no_turn() {
    on_each(|mut stage| {
        stage.gate("ADD door on SET");
        let (mut one, mut two) = (stage.client("one"), stage.client("two"));
        let id = one.ask("CLIENT ID").integer();
        stage.park(&mut one, "SET a 1", "door", 1);
        stage.park(&mut two, "SET b 2", "door", 2);
        // CLIENT UNBLOCK is for who waits for keys or replicas.
        assert_eq!(stage.ask(&format!("CLIENT UNBLOCK {id}")), Frame::Integer(0));
        assert_eq!(stage.ask(&format!("CLIENT KILL ID {id}")), Frame::Integer(1));
        stage.gate("STEP door");
        assert!(one.is_closed());
        assert_eq!(stage.ask("EXISTS a"), Frame::Integer(0));
        assert_eq!(stage.ask("GET b"), Frame::bulk("2"));
        assert_eq!(stage.list("door")["passed"].integer(), 1);
    });
}

#[test]
fn a_held_client_is_seen_to_be_blocked_and_is_not_idle() {
    on_each(|mut stage| {
        stage.gate("ADD before on SET");
        stage.gate("ADD after on GET after");
        let (mut one, mut two) = (stage.client("one"), stage.client("two"));
        let mut idle = stage.client("idle");
        stage.park(&mut one, "SET a 1", "before", 1);
        assert!(stage.ask("INFO clients").text().contains("blocked_clients:1\r"));
        stage.park(&mut two, "GET a", "after", 1);
        assert!(stage.ask("INFO clients").text().contains("blocked_clients:2\r"));
        let list = stage.ask("CLIENT LIST").text();
        let flags = |name: &str| {
            let line = list.lines().find(|line| line.contains(&format!("name={name} "))).expect(name);
            line.split(' ').find_map(|field| field.strip_prefix("flags=")).expect("flags").to_owned()
        };
        assert_eq!((flags("one"), flags("two"), flags("idle")), ("b".into(), "b".into(), "N".into()));
        assert_eq!(stage.ask("CONFIG SET timeout 10"), ok());
        stage.ask("REDOUBLE CLOCK FREEZE");
        stage.ask("REDOUBLE CLOCK ADVANCE 60s");
        assert!(idle.is_closed());
        let mut driver = Wire::connect(address(&stage.server));
        assert_eq!(driver.ask("REDOUBLE GATE STEP before"), ok());
        // Nor is one idle that has just been let go.
        driver.ask("REDOUBLE CLOCK ADVANCE 1s");
        assert_eq!(one.expect(), ok());
        assert_eq!(one.ask("EXISTS a"), Frame::Integer(1));
        assert_eq!(driver.ask("REDOUBLE GATE OPEN after"), Frame::Integer(1));
        assert_eq!(two.expect(), Frame::NullBulk);
    });
}

#[test]
fn reset_and_quit_are_held_like_any_command() {
    on_each(|mut stage| {
        stage.gate("ADD door on RESET QUIT after");
        let mut client = stage.client("c");
        client.ask("MULTI");
        stage.park(&mut client, "RESET", "door", 1);
        assert!(stage.ask("CLIENT LIST").text().contains(" multi=-1 "));
        stage.gate("STEP door");
        assert_eq!(client.expect(), Frame::status("RESET"));
        assert_eq!(client.ask("GET k"), Frame::NullBulk);
        stage.park(&mut client, "QUIT", "door", 1);
        stage.gate("STEP door");
        assert_eq!(client.expect(), ok());
        assert!(client.is_closed());
    });
}

#[test]
fn a_client_that_has_given_no_password_is_not_held() {
    let server = start(Server::builder().password("secret"));
    let mut driver = Wire::connect(address(&server));
    driver.ask("AUTH secret");
    assert_eq!(driver.ask("REDOUBLE GATE ADD all"), ok());
    let mut client = Wire::connect(address(&server));
    assert!(client.ask("GET k").text().starts_with("NOAUTH"));
    assert!(client.ask("REDOUBLE GATE OPEN all").text().starts_with("NOAUTH"));
    assert!(client.ask("NO SUCH COMMAND").is_error());
    client.send(&words("AUTH secret"));
    assert_eq!(driver.ask("REDOUBLE GATE WAIT all"), Frame::Integer(1));
}

// ---- the end of the server

#[test]
fn a_server_ends_at_once_although_clients_are_held() {
    for threads in [1, 4] {
        let mut stage = Stage::new(threads);
        stage.gate("ADD before on SET");
        stage.gate("ADD after on GET after");
        let (mut one, mut two, mut three) = (stage.client("one"), stage.client("two"), stage.client("three"));
        stage.park(&mut one, "SET a 1", "before", 1);
        stage.park(&mut two, "GET a", "after", 1);
        three.send(&words("REDOUBLE GATE WAIT before 5 1h"));
        drop(stage);
        for client in [&mut one, &mut two, &mut three] {
            assert_eq!(client.read_to_end(), b"");
        }
    }
}

#[test]
fn shutdown_and_sigterm_end_a_server_with_held_clients() {
    for by_signal in [true, false] {
        let server = ServerProcess::redouble(&[]);
        let (mut driver, mut client) = (Wire::connect(server.address()), Wire::connect(server.address()));
        assert_eq!(driver.ask("REDOUBLE GATE ADD door on SET"), ok());
        client.send(&words("SET a 1"));
        assert_eq!(driver.ask("REDOUBLE GATE WAIT door"), Frame::Integer(1));
        if by_signal {
            let status = Command::new("kill").arg(server.id().to_string()).status();
            assert!(status.is_ok_and(|status| status.success()));
        } else {
            driver.send(&words("SHUTDOWN NOSAVE"));
        }
        assert_eq!(client.read_to_end(), b"");
        assert!(driver.is_closed());
    }
}

// ---- forgotten gates

#[test]
fn a_forgotten_gate_lets_go_by_itself() {
    on_each(|mut stage| {
        stage.gate("ADD before on SET timeout 1ms");
        stage.gate("ADD after on SET after timeout 1ms");
        // Real time is meant: it passes although the server's stands still.
        stage.ask("REDOUBLE CLOCK FREEZE");
        let mut client = stage.client("c");
        assert_eq!(client.ask("SET k v"), ok());
        let list = stage.list("after");
        assert_eq!((list["arrived"].integer(), list["passed"].integer()), (1, 1));
    });
}

#[test]
fn the_watchdogs_time_can_be_set_for_the_server_and_for_a_gate() {
    let server = start(Server::builder().gate_timeout(Duration::from_millis(1)));
    let mut client = Wire::connect(address(&server));
    assert_eq!(client.ask("CONFIG GET gate-timeout").items()[1], Frame::bulk("1ms"));
    assert_eq!(client.ask("REDOUBLE GATE ADD door on SET"), ok());
    assert_eq!(client.ask("SET k v"), ok());
    let server = ServerProcess::redouble(&["--gate-timeout", "0"]);
    let (mut driver, mut client) = (Wire::connect(server.address()), Wire::connect(server.address()));
    assert_eq!(driver.ask("REDOUBLE GATE ADD door on SET"), ok());
    assert_eq!(driver.ask("REDOUBLE GATE ADD other on GET timeout 1ms"), ok());
    client.send(&words("SET k v"));
    assert_eq!(driver.ask("REDOUBLE GATE WAIT door"), Frame::Integer(1));
    // The watchdog has looked around when the other gate lets go, and left this one alone.
    assert_eq!(driver.ask("GET k"), Frame::NullBulk);
    assert!(!client.has_reply());
    assert_eq!(driver.ask("CONFIG SET gate-timeout 1ms"), ok());
    assert_eq!(client.expect(), ok());
    assert!(driver.ask("CONFIG SET gate-timeout soon").text().contains("must be a duration"));
}

#[test]
fn the_journal_warns_of_a_forgotten_gate() {
    let server = start(Server::builder().gate_timeout(Duration::from_millis(1)));
    let journal = server.journal();
    let mut client = Wire::connect(address(&server));
    assert_eq!(client.ask("REDOUBLE GATE ADD before on SET"), ok());
    assert_eq!(client.ask("REDOUBLE GATE ADD after on SET after"), ok());
    assert_eq!(client.ask("SET k v"), ok());
    let entries = journal.entries(redouble::Pattern::on("SET"));
    assert_eq!(entries[0].gates, ["before (freed by the watchdog)", "after (freed by the watchdog)"]);
}

#[test]
fn the_log_warns_of_a_forgotten_gate() {
    let socket = std::env::temp_dir().join(format!("redouble-gates-{}.sock", std::process::id()));
    let path = socket.display().to_string();
    let mut server = Command::new(env!("CARGO_BIN_EXE_redouble"))
        .args(["--port", "0", "--unixsocket", &path, "--gate-timeout", "1ms"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary");
    let output = BufReader::new(server.stdout.take().expect("piped"));
    let (sender, lines) = channel();
    std::thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
    let until = |part: &str| loop {
        let line = lines.recv_timeout(PATIENCE).expect("a line");
        if line.contains(part) {
            break line;
        }
    };
    until("Ready to accept connections");
    let mut client = Wire::connect_unix(&socket);
    assert_eq!(client.ask("CLIENT SETNAME c"), ok());
    assert_eq!(client.ask("REDOUBLE GATE ADD door on SET"), ok());
    assert_eq!(client.ask("SET k v"), ok());
    let line = until("Gate 'door'");
    assert!(line.ends_with("(c) SET k v for longer than 1ms: it goes on by itself."), "{line}");
    let _ = server.kill();
    let _ = server.wait();
    let _ = std::fs::remove_file(socket);
}

// ---- waiting for clients

#[test]
fn who_waits_in_vain_is_told_who_came() {
    let mut stage = Stage::new(1);
    stage.gate("ADD door on SET key lock.*");
    let told = |stage: &mut Stage, count: u32| stage.ask(&format!("REDOUBLE GATE WAIT door {count} 1ms")).text();
    let nobody = "TIMEOUT gate 'door' holds 0 of 1 after 1ms: ";
    assert_eq!(told(&mut stage, 1), format!("{nobody}no command has come since it was put up"));
    let mut client = stage.client("c");
    client.call(&["SET", "lokc.\nfoo", &"v".repeat(1000)]);
    let message = told(&mut stage, 1);
    assert!(message.starts_with(&format!("{nobody}these came last and do not match: client ")), "{message}");
    assert!(message.contains("(c) SET \"lokc.\\nfoo\" vvv") && message.len() < 600, "{message}");
    // Only the last of many.
    for number in 0..50 {
        client.ask(&format!("GET key{number}"));
    }
    let message = told(&mut stage, 1);
    assert!(message.ends_with("(c) GET key49") && message.contains("key42") && !message.contains("key41"), "{message}");
    stage.park(&mut client, "SET lock.a 1", "door", 1);
    let message = told(&mut stage, 2);
    assert!(message.starts_with("TIMEOUT gate 'door' holds 1 of 2 after 1ms: client "), "{message}");
    assert!(message.ends_with("(c) SET lock.a 1"), "{message}");
    stage.gate("STEP door");
    for _ in 0..8 {
        client.send(&words("SET lock.a 1"));
        stage.held("door", 1);
        stage.gate("STEP door");
    }
    assert_eq!(told(&mut stage, 1), format!("{nobody}9 have come and gone"));
}

#[test]
fn many_wait_at_once_and_each_hears_of_its_count_or_of_the_end() {
    on_each(|mut stage| {
        stage.gate("ADD door on SET");
        let mut waiting: Vec<Wire> = (0..12).map(|number| stage.client(&format!("w{number}"))).collect();
        for (number, wire) in waiting.iter_mut().enumerate() {
            let wait = words(&format!("REDOUBLE GATE WAIT door {} 1h", number / 4 + 1));
            // Who has the answer to what it sent in one go with that waits.
            wire.send(&[words("PING"), wait].concat());
            assert_eq!(wire.expect(), Frame::status("PONG"));
        }
        let (mut one, mut two) = (stage.client("one"), stage.client("two"));
        stage.park(&mut one, "SET a 1", "door", 1);
        waiting[..4].iter_mut().for_each(|wire| assert_eq!(wire.expect(), Frame::Integer(1)));
        assert!(!waiting[4].has_reply());
        two.send(&words("SET b 2"));
        waiting[4..8].iter_mut().for_each(|wire| assert_eq!(wire.expect(), Frame::Integer(2)));
        // One goes away while it waits, the others hear that the gate is gone.
        drop(waiting.pop());
        stage.gate("REMOVE door");
        for wire in &mut waiting[8..] {
            assert_eq!(wire.expect(), Frame::error("ERR gate 'door' is open: it holds nobody"));
        }
        assert_eq!((one.expect(), two.expect()), (ok(), ok()));
    });
}

// ---- hostile use

#[test]
fn a_gate_is_opened_once_and_holds_nobody_from_then_on() {
    on_each(|mut stage| {
        stage.gate("ADD door on RPUSH");
        stage.gate("ADD other on GET");
        let mut clients: Vec<Wire> = (0..50).map(|number| stage.client(&format!("c{number}"))).collect();
        for (number, client) in clients.iter_mut().enumerate() {
            stage.park(client, &format!("RPUSH l {number}"), "door", number as i64 + 1);
        }
        assert_eq!(stage.ask("REDOUBLE GATE OPEN door"), Frame::Integer(50));
        // In the order in which they came, and with their replies.
        let order = stage.ask("LRANGE l 0 -1");
        assert_eq!(order.items(), (0..50).map(|number| Frame::bulk(&number.to_string())).collect::<Vec<_>>());
        assert!(clients.iter_mut().all(Wire::has_reply));
        assert_eq!(stage.ask("REDOUBLE GATE OPEN door"), Frame::Integer(0));
        assert_eq!(stage.ask("REDOUBLE GATE STEP door"), Frame::error("ERR nobody is held at gate 'door'"));
        assert_eq!(stage.ask("REDOUBLE GATE WAIT door"), Frame::error("ERR gate 'door' is open: it holds nobody"));
        assert_eq!(stage.ask("RPUSH l x"), Frame::Integer(51));
        assert_eq!(stage.list("door")["state"].text(), "open");
        assert_eq!(stage.ask("REDOUBLE GATE CLEAR"), Frame::Array(vec![Frame::bulk("other")]));
        assert_eq!(stage.ask("REDOUBLE GATE LIST"), Frame::Array(Vec::new()));
    });
}

#[test]
fn a_thousand_clients_are_held_and_a_removed_gate_lets_them_all_go() {
    on_each(|mut stage| {
        stage.gate("ADD door on INCR");
        let mut clients: Vec<Wire> = (0..1000).map(|_| Wire::connect(address(&stage.server))).collect();
        for client in &mut clients {
            client.send(&words("INCR k"));
        }
        stage.held("door", 1000);
        // Half of them have had enough.
        clients.truncate(500);
        assert_eq!(stage.guests("door").first().map(String::as_str), Some("INCR k"));
        wait_until("half of them to be gone", || stage.list("door")["held"].items().len() <= 500);
        stage.gate("REMOVE door");
        assert_eq!(stage.ask("GET k"), Frame::bulk("500"));
        assert!(clients.iter_mut().all(Wire::has_reply));
    });
}

#[test]
fn there_is_an_end_to_gates() {
    let mut stage = Stage::new(1);
    let many: Vec<u8> =
        (0..10_000).flat_map(|number| words(&format!("REDOUBLE GATE ADD g{number} on SET key none"))).collect();
    let mut sender = stage.client("sender");
    assert!(sender.send(&many));
    (0..10_000).for_each(|_| assert_eq!(sender.expect(), ok()));
    let refused = Frame::error("ERR there are 10000 gates already, which is the most there can be");
    assert_eq!(stage.ask("REDOUBLE GATE ADD more"), refused);
    assert_eq!(stage.ask("SET k v"), ok());
    assert_eq!(stage.ask("REDOUBLE GATE CLEAR").items().len(), 10_000);
    stage.gate("ADD more on GET");
}

#[test]
fn a_gate_holds_what_arrives_after_it_was_put_up() {
    on_each(|mut stage| {
        stage.gate("ADD first on BLPOP");
        let mut client = stage.client("c");
        stage.park(&mut client, "BLPOP l 0", "first", 1);
        // The second gate is of no concern to one that has come already, nor is the first one's namesake.
        stage.gate("ADD second on BLPOP");
        stage.gate("REMOVE first");
        stage.gate("ADD first on BLPOP");
        assert_eq!(stage.ask("RPUSH l a"), Frame::Integer(1));
        assert_eq!(client.expect().items()[1], Frame::bulk("a"));
        assert_eq!(stage.list("second")["arrived"].integer(), 0);
    });
}

#[test]
fn two_servers_in_one_process_have_gates_of_their_own() {
    let (mut one, mut other) = (Stage::new(1), Stage::new(1));
    one.gate("ADD all");
    assert_eq!(other.ask("SET k v"), ok());
    assert_eq!(other.ask("REDOUBLE GATE LIST"), Frame::Array(Vec::new()));
}
