//! The test powers in front of another server: faults, gates, the explorer, the journal, the auditor, instances. What they
//! do is told once and played on both backends: on the embedded server, and on redouble in front of redis-server. What
//! clients see, what the server has and what the journal says must be the same.
//!
//! Clocks run. A delay is one of real time, and nothing depends on how long it was.

use std::fmt::Debug;
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Output, Stdio};

use crate::place::Place;
use crate::support::CHECKED_PROFILE;
use crate::support::process::ServerProcess;
use crate::support::upstream::{Entry, Front, journal};
use crate::support::wait_until;
use crate::support::wire::{Frame, ReadError, Wire, request, split};

const RELEASE: &str = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";

/// A server with the powers, of one of the backends.
struct Stage {
    address: SocketAddr,
    /// Where the data is.
    data: SocketAddr,
    _embedded: Option<ServerProcess>,
    _upstream: Option<Place>,
}

impl Stage {
    fn embedded(arguments: &[&str]) -> Self {
        let all = [&["--compat", CHECKED_PROFILE, "--journal", "yes"], arguments].concat();
        let server = ServerProcess::redouble(&all);
        let address = server.address();
        Self { address, data: address, _embedded: Some(server), _upstream: None }
    }

    fn upstream(arguments: &[&str]) -> Self {
        let mut place = Place::direct(&[]);
        let front = Front::start(&[&place.redis.url()], &[&["--upstream-disposable", "yes"], arguments].concat());
        let (address, data) = (front.address(), place.redis.address());
        place.front = Some(front);
        Self { address, data, _embedded: None, _upstream: Some(place) }
    }

    fn client(&self, name: &str) -> Wire {
        let mut wire = Wire::connect(self.address);
        assert_eq!(wire.ask(&format!("CLIENT SETNAME {name}")), ok());
        wire
    }

    /// A connection of the test, whose commands no story is about.
    fn driver(&self) -> Wire {
        self.client("driver")
    }

    /// Looks at the data, behind the powers where there is a behind.
    fn look(&self, line: &str) -> Frame {
        let mut wire = Wire::connect(self.data);
        wire.ask("CLIENT SETNAME driver");
        wire.ask(line)
    }

    /// The journal without the commands of the test itself: client, words, outcome, reply and fault.
    fn told(&self) -> Vec<String> {
        told(&journal(&mut self.driver(), ""))
    }
}

fn told(entries: &[Entry]) -> Vec<String> {
    let text = |frame: &Frame| match frame {
        Frame::NullBulk | Frame::Null | Frame::NullArray => "-".to_owned(),
        other => other.text(),
    };
    let line = |entry: &Entry| {
        let words = entry["command"].items().iter().map(Frame::text).collect::<Vec<_>>().join(" ");
        let [name, outcome, reply, fault] = ["name", "outcome", "reply", "fault"].map(|field| text(&entry[field]));
        format!("{name}: {words} | {outcome} | {reply} | {fault}")
    };
    let relevant = entries.iter().filter(|entry| text(&entry["name"]) != "driver");
    relevant.map(line).filter(|line| !line.contains("CLIENT SETNAME")).collect()
}

/// Two replies may arrive in another order than that in which their commands took effect.
fn in_any_order(mut lines: Vec<String>) -> Vec<String> {
    lines.sort();
    lines
}

fn ok() -> Frame {
    Frame::status("OK")
}

/// Plays a story on both backends, which must answer the same.
#[track_caller]
fn on_both_backends<T: PartialEq + Debug>(story: impl Fn(&Stage) -> T) -> T {
    on_both_backends_with(&[], story)
}

#[track_caller]
fn on_both_backends_with<T: PartialEq + Debug>(arguments: &[&str], story: impl Fn(&Stage) -> T) -> T {
    let embedded = story(&Stage::embedded(arguments));
    let upstream = story(&Stage::upstream(arguments));
    assert_eq!(upstream, embedded, "in front of redis-server, and then the embedded server");
    upstream
}

/// What a client sees of a command: its reply, or how the connection ended.
fn sight(client: &mut Wire, line: &str) -> String {
    client.send(&request(&split(line.as_bytes()).expect("quotes")));
    match client.read() {
        Ok(frame) => format!("{frame:?}"),
        Err(ReadError::Closed) => "closed".to_owned(),
        Err(other) => panic!("{line}: {other}"),
    }
}

fn send(client: &mut Wire, line: &str) {
    assert!(client.send(&request(&split(line.as_bytes()).expect("quotes"))));
}

/// A field of a fault in FAULT LIST.
fn count(driver: &mut Wire, fault: &str, field: &str) -> i64 {
    let list = driver.ask("REDOUBLE FAULT LIST");
    let rule = list.items().iter().find(|rule| rule.items()[1].text() == fault).expect("the fault").clone();
    let at = rule.items().iter().position(|item| *item == Frame::bulk(field)).expect("the field");
    rule.items()[at + 1].integer()
}

fn arm(driver: &mut Wire, rule: &str) {
    let words = split(format!("REDOUBLE FAULT ADD {rule}").as_bytes()).expect("quotes");
    assert_eq!(driver.call(&words), ok(), "{rule}");
}

// ---- faults

#[test]
fn each_verdict_does_to_client_server_and_journal_what_it_does_in_front_of_the_embedded_server() {
    for verdict in [
        r#"error "TRYAGAIN later""#,
        "error oops",
        "delay 30ms",
        "delay 0",
        "close-before",
        "close-after",
        "truncate 0",
        "truncate 2",
        "truncate 1000",
        "drip 1 every 1ms",
        "reset",
    ] {
        for command in ["SET k v", "INCR k", "GET k", "EVAL return{1,2} 0", "LPOP nothing", "BLPOP l 0.01", "BOGUS"] {
            on_both_backends(|stage| {
                let (mut driver, mut client) = (stage.driver(), stage.client("one"));
                let name = command.split(' ').next().unwrap_or_default();
                let on = if name == "BOGUS" { "client one".to_owned() } else { format!("on {name}") };
                arm(&mut driver, &format!("f {on} times 1 {verdict}"));
                let first = sight(&mut client, command);
                let second = if first == "closed" { "closed".to_owned() } else { sight(&mut client, command) };
                let exists = stage.look("EXISTS k");
                let counts = ["matched", "fired", "hanging"].map(|field| count(&mut driver, "f", field));
                drop(client);
                (verdict, command, first, second, exists, counts, stage.told())
            });
        }
    }
}

#[test]
fn a_command_that_hangs_has_not_reached_the_server_and_runs_when_its_rule_is_removed() {
    on_both_backends(|stage| {
        let (mut driver, mut client) = (stage.driver(), stage.client("one"));
        arm(&mut driver, "f on SET hang");
        send(&mut client, "SET k v");
        wait_until("a client that hangs", || count(&mut driver, "f", "hanging") == 1);
        let before = stage.look("EXISTS k");
        let removed = driver.ask("REDOUBLE FAULT REMOVE f");
        assert!(client.has_reply(), "whoever removes the rule is answered after the consequences");
        (before, removed, client.expect(), stage.look("EXISTS k"), stage.told())
    });
}

#[test]
fn a_client_that_gives_up_while_it_hangs_has_sent_nothing() {
    on_both_backends(|stage| {
        let (mut driver, mut client) = (stage.driver(), stage.client("one"));
        arm(&mut driver, "f on SET hang");
        send(&mut client, "SET k v");
        wait_until("a client that hangs", || count(&mut driver, "f", "hanging") == 1);
        drop(client);
        wait_until("a client that has gone", || count(&mut driver, "f", "hanging") == 0);
        let removed = driver.ask("REDOUBLE FAULT REMOVE f");
        driver.ask("REDOUBLE JOURNAL AWAIT on SET outcome never-ran 1 10s");
        (removed, stage.look("EXISTS k"), stage.told())
    });
}

#[test]
fn faults_match_commands_by_key_client_database_number_and_chance() {
    on_both_backends(|stage| {
        let (mut driver, mut one, mut two) = (stage.driver(), stage.client("one"), stage.client("two"));
        for rule in [
            "a on SET key lock:* error BY-KEY",
            "b on GET client two error BY-CLIENT",
            "c on @hash error BY-CATEGORY",
            "d on CLIENT|GETNAME error BY-SUBCOMMAND",
            "e on INCR db 3 error BY-DB",
            "f on ECHO nth 2 times 2 error BY-NUMBER",
            "g on STRLEN probability 0.5 seed 7 error BY-CHANCE",
            "h on EVAL key lock:* error BY-KEY-OF-SCRIPT",
            "i on BLPOP key b error BY-SECOND-KEY",
        ] {
            arm(&mut driver, rule);
        }
        let mut seen = Vec::new();
        let lines = [
            "SET lock:1 v",
            "SET other v",
            "MSET lock:2 v",
            "GET other",
            "HSET h f v",
            "HGETALL h",
            "CLIENT GETNAME",
            "CLIENT ID",
            "INCR n",
            "SELECT 3",
            "INCR n",
            "SELECT 0",
            "INCR n",
            "SELECT 99",
            "INCR n",
            "ECHO 1",
            "ECHO 2",
            "ECHO 3",
            "ECHO 4",
            "STRLEN a",
            "STRLEN a",
            "STRLEN a",
            "STRLEN a",
            "STRLEN a",
            "STRLEN a",
            "EVAL 'return 1' 1 lock:1",
            "EVAL 'return 1' 1 x",
            "BLPOP a b 0.01",
            "BLPOP a 0.01",
            "SET",
            "GET a b",
        ];
        for client in [&mut one, &mut two] {
            // The numbers that clients have are the server's.
            seen.extend(lines.iter().filter(|line| **line != "CLIENT ID").map(|line| sight(client, line)));
        }
        let fired: Vec<i64> = ["a", "b", "c", "d", "e", "f", "g", "h", "i"]
            .iter()
            .map(|name| count(&mut driver, name, "fired"))
            .collect();
        (seen, fired, driver.ask("REDOUBLE FAULT CLEAR"))
    });
}

#[test]
fn names_that_clients_take_and_lose_are_known_to_the_rules() {
    on_both_backends(|stage| {
        let mut driver = stage.driver();
        arm(&mut driver, "f on GET client worker-* error MATCHED");
        let mut client = Wire::connect(stage.address);
        let mut seen = vec![sight(&mut client, "GET k")];
        for line in [
            "CLIENT SETNAME worker-1",
            "GET k",
            "CLIENT SETNAME 'not a name'",
            "GET k",
            "CLIENT SETNAME ''",
            "GET k",
            "MULTI",
            "CLIENT SETNAME worker-2",
            "EXEC",
            "GET k",
            "RESET",
            "GET k",
        ] {
            seen.push(sight(&mut client, line));
        }
        client.ask("HELLO 3 SETNAME worker-3");
        seen.push(sight(&mut client, "GET k"));
        // A HELLO that fails gives no name.
        client.ask("RESET");
        client.ask("HELLO 9 SETNAME worker-4");
        seen.push(sight(&mut client, "GET k"));
        seen
    });
}

#[test]
fn of_a_transaction_all_runs_or_nothing() {
    for verdict in ["close-before", "close-after", "truncate 3", "reset", "delay 10ms"] {
        on_both_backends(|stage| {
            let (mut driver, mut client) = (stage.driver(), stage.client("one"));
            arm(&mut driver, &format!("f on INCR key n times 1 {verdict}"));
            let seen: Vec<String> =
                ["MULTI", "SET k v", "INCR n", "EXEC"].map(|line| sight(&mut client, line)).to_vec();
            drop(client);
            (verdict, seen, stage.look("MGET k n"), stage.told())
        });
    }
}

#[test]
fn an_error_for_exec_leaves_no_transaction_and_no_watched_keys_behind() {
    on_both_backends(|stage| {
        let (mut driver, mut client) = (stage.driver(), stage.client("one"));
        arm(&mut driver, "f on EXEC times 1 error oops");
        let lines = ["WATCH k", "MULTI", "SET k v", "EXEC", "EXEC", "GET k", "MULTI", "SET k w", "EXEC", "GET k"];
        let seen: Vec<String> = lines.map(|line| sight(&mut client, line)).to_vec();
        (seen, stage.told())
    });
}

#[test]
fn an_error_for_a_command_that_is_queued_is_the_answer_to_exec_and_nothing_runs() {
    let stage = Stage::upstream(&[]);
    let (mut driver, mut client) = (stage.driver(), stage.client("one"));
    driver.ask("REDOUBLE FAULT ADD f on INCR error oops");
    let seen: Vec<Frame> = ["MULTI", "SET k v", "INCR n", "EXEC"].map(|line| client.ask(line)).to_vec();
    assert_eq!(seen[3], Frame::error("ERR oops"), "{seen:?}");
    assert_eq!(stage.look("MGET k n"), Frame::Array(vec![Frame::NullBulk, Frame::NullBulk]));
    assert_eq!(client.ask("GET k"), Frame::NullBulk, "the transaction is over");
}

#[test]
fn faults_are_met_by_pipelined_commands_one_by_one() {
    on_both_backends(|stage| {
        let (mut driver, mut client) = (stage.driver(), stage.client("one"));
        arm(&mut driver, "e on INCR nth 2 times 1 error oops");
        arm(&mut driver, "c on DEL close-after");
        let lines = ["SET n 1", "INCR n", "INCR n", "INCR n", "DEL n", "SET after 1"];
        client.send(&lines.iter().flat_map(|line| request(&line.split(' ').collect::<Vec<_>>())).collect::<Vec<u8>>());
        let said = String::from_utf8_lossy(&client.read_to_end()).into_owned();
        drop(client);
        (said, stage.look("EXISTS n after"), stage.told())
    });
}

#[test]
fn a_client_without_replies_gets_no_error_of_a_fault_either() {
    on_both_backends(|stage| {
        let (mut driver, mut client) = (stage.driver(), stage.client("one"));
        arm(&mut driver, "f on SET error oops");
        client.send(
            &[request(&["CLIENT", "REPLY", "OFF"]), request(&["SET", "k", "v"]), request(&["CLIENT", "REPLY", "ON"])]
                .concat(),
        );
        (client.expect(), sight(&mut client, "GET k"), stage.told())
    });
}

#[test]
fn new_connections_are_refused_and_old_ones_stay() {
    on_both_backends(|stage| {
        let (mut driver, mut old) = (stage.driver(), stage.client("one"));
        arm(&mut driver, "f times 2 refuse");
        let refused: Vec<bool> = (0..2).map(|_| Wire::connect(stage.address).is_closed()).collect();
        (refused, old.ask("SET k v"), Wire::connect(stage.address).ask("GET k"), driver.ask("REDOUBLE FAULT REMOVE f"))
    });
}

#[test]
fn a_paused_server_answers_nobody_until_it_goes_on() {
    on_both_backends(|stage| {
        let (mut driver, mut client) = (stage.driver(), stage.client("one"));
        arm(&mut driver, "f pause");
        send(&mut client, "SET k v");
        wait_until("a client that hangs", || count(&mut driver, "f", "hanging") == 1);
        assert!(!client.has_reply());
        let data = if stage.data == stage.address { Frame::Integer(0) } else { stage.look("EXISTS k") };
        (data, driver.ask("REDOUBLE FAULT REMOVE f"), client.expect(), stage.look("EXISTS k"))
    });
}

#[test]
fn a_blocking_command_loses_its_reply_and_the_element_with_it() {
    on_both_backends(|stage| {
        let (mut driver, mut client, mut other) = (stage.driver(), stage.client("one"), stage.client("two"));
        arm(&mut driver, "f on BLPOP close-after");
        send(&mut client, "BLPOP l 0");
        driver.ask_until("INFO clients", |info| info.contains("blocked_clients:1\r"));
        other.ask("RPUSH l a");
        assert!(client.is_closed());
        (stage.look("LLEN l"), in_any_order(stage.told()))
    });
}

#[test]
fn errors_inside_scripts_are_refused_with_a_reason_or_never_fire_there() {
    let stage = Stage::upstream(&[]);
    let (mut driver, mut client) = (stage.driver(), stage.client("one"));
    arm(&mut driver, "f on SET error oops");
    assert_eq!(client.call(&["EVAL", "return redis.call('SET', 'k', 'v')", "0"]), ok(), "the server runs scripts");
    assert_eq!(count(&mut driver, "f", "fired"), 0, "nothing has fired that nobody could see");
}

// ---- gates

#[test]
fn a_gate_holds_a_command_in_front_of_the_server_and_lets_it_go() {
    on_both_backends(|stage| {
        let (mut driver, mut one, mut two) = (stage.driver(), stage.client("one"), stage.client("two"));
        let mut seen = vec![driver.ask("REDOUBLE GATE ADD door on SET client one")];
        send(&mut one, "SET lock one NX");
        seen.push(driver.ask("REDOUBLE GATE WAIT door"));
        seen.push(two.ask("SET lock two NX"));
        assert!(!one.has_reply());
        seen.push(driver.ask("REDOUBLE GATE STEP door"));
        assert!(one.has_reply(), "the driver is answered last");
        seen.push(one.expect());
        seen.push(driver.ask("REDOUBLE GATE REMOVE door"));
        (seen, stage.told())
    });
}

#[test]
fn a_gate_behind_a_command_holds_its_reply_when_the_server_has_run_it() {
    on_both_backends(|stage| {
        let (mut driver, mut one, mut two) = (stage.driver(), stage.client("one"), stage.client("two"));
        let mut seen = vec![driver.ask("REDOUBLE GATE ADD door after on SET client one")];
        send(&mut one, "SET lock one NX");
        seen.push(driver.ask("REDOUBLE GATE WAIT door"));
        seen.push(stage.look("GET lock"));
        seen.push(two.ask("SET lock two NX"));
        assert!(!one.has_reply());
        seen.push(driver.ask("REDOUBLE GATE OPEN door"));
        seen.push(one.expect());
        (seen, stage.told())
    });
}

#[test]
fn a_client_that_leaves_at_a_gate_has_sent_nothing_and_one_behind_it_lost_its_reply() {
    for (place, outcome) in [("", "never-ran"), ("after ", "lost")] {
        on_both_backends(|stage| {
            let (mut driver, mut one) = (stage.driver(), stage.client("one"));
            driver.ask(&format!("REDOUBLE GATE ADD door {place}on SET"));
            send(&mut one, "SET k v");
            driver.ask("REDOUBLE GATE WAIT door");
            drop(one);
            let recorded = driver.ask(&format!("REDOUBLE JOURNAL AWAIT on SET outcome {outcome} 1 10s"));
            driver.ask("REDOUBLE GATE REMOVE door");
            (recorded, stage.look("EXISTS k"), stage.told())
        });
    }
}

#[test]
fn commands_at_a_gate_go_on_one_by_one_in_the_order_in_which_they_came() {
    on_both_backends(|stage| {
        let mut driver = stage.driver();
        driver.ask("REDOUBLE GATE ADD door on RPUSH");
        let mut clients: Vec<Wire> = Vec::new();
        for number in 1..=4 {
            let mut client = stage.client(&format!("c{number}"));
            send(&mut client, &format!("RPUSH l {number}"));
            driver.ask(&format!("REDOUBLE GATE WAIT door {number}"));
            clients.push(client);
        }
        let mut seen = vec![
            driver.ask("REDOUBLE GATE STEP door"),
            driver.ask("REDOUBLE GATE STEP door"),
            clients[0].expect(),
            clients[1].expect(),
        ];
        seen.push(Frame::Boolean(clients[2].has_reply()));
        seen.push(driver.ask("REDOUBLE GATE REMOVE door"));
        seen.extend([clients[2].expect(), clients[3].expect(), stage.look("LRANGE l 0 -1")]);
        seen
    });
}

#[test]
fn a_blocking_command_at_a_gate_and_one_that_blocks_behind_it() {
    on_both_backends(|stage| {
        let (mut driver, mut one, mut two) = (stage.driver(), stage.client("one"), stage.client("two"));
        driver.ask("REDOUBLE GATE ADD before on BLPOP");
        send(&mut one, "BLPOP l 0");
        let mut seen = vec![driver.ask("REDOUBLE GATE WAIT before")];
        seen.push(two.ask("RPUSH l a"));
        seen.push(driver.ask("REDOUBLE GATE REMOVE before"));
        seen.push(one.expect());
        driver.ask("REDOUBLE GATE ADD behind after on BLPOP");
        send(&mut one, "BLPOP l 0");
        driver.ask_until("INFO clients", |info| info.contains("blocked_clients:1\r"));
        seen.push(two.ask("RPUSH l b"));
        seen.push(driver.ask("REDOUBLE GATE WAIT behind"));
        assert!(!one.has_reply());
        seen.push(driver.ask("REDOUBLE GATE REMOVE behind"));
        seen.push(one.expect());
        (seen, in_any_order(stage.told()))
    });
}

// ---- the journal

#[test]
fn the_journal_is_asked_as_in_front_of_the_embedded_server() {
    on_both_backends(|stage| {
        let (mut driver, mut one) = (stage.driver(), stage.client("one"));
        for line in [
            "SET a 1",
            "SET b 2 NX",
            "SET b 3 NX",
            "GET a",
            "MULTI",
            "INCR a",
            "SET c 1",
            "EXEC",
            "BOGUS",
            "SELECT 2",
            "GET a",
        ] {
            sight(&mut one, line);
        }
        let queries = [
            "COUNT on SET client one",
            "COUNT on SET reply OK client one",
            "COUNT on SET outcome queued",
            "COUNT children on SET",
            "COUNT children on INCR",
            "COUNT key b",
            "COUNT db 2 client one",
            "COUNT on @write client one",
            "COUNT reply (error)*",
            "AWAIT on SET key b 2 1s",
            "AWAIT on SET key nobody 1 50ms",
        ];
        let answers: Vec<Frame> =
            queries.iter().map(|query| driver.ask(&format!("REDOUBLE JOURNAL {query}"))).collect();
        (answers, stage.told(), driver.ask("REDOUBLE JOURNAL OFF"), driver.ask("REDOUBLE JOURNAL CLEAR"), stage.told())
    });
}

#[test]
fn what_exec_ran_stands_in_its_entry_with_replies() {
    on_both_backends(|stage| {
        let mut one = stage.client("one");
        for line in ["SET k text", "MULTI", "SET a 1", "INCR k", "GET a", "EXEC"] {
            one.ask(line);
        }
        let entries = journal(&mut stage.driver(), "on EXEC");
        let child = |child: &Frame| -> Vec<(String, String)> {
            let fields = child.items().chunks(2).map(|pair| (pair[0].text(), format!("{:?}", pair[1])));
            fields.filter(|(name, _)| ["db", "command", "reply"].contains(&name.as_str())).collect()
        };
        entries[0]["children"].items().iter().map(child).collect::<Vec<_>>()
    });
}

// ---- the auditor

fn findings(driver: &mut Wire) -> Vec<(String, String)> {
    let list = driver.ask("REDOUBLE AUDIT LIST");
    let mut all: Vec<(String, String)> = list
        .items()
        .iter()
        .map(|finding| {
            let field = |name: &str| {
                let at = finding.items().iter().position(|item| *item == Frame::bulk(name)).expect("a field");
                finding.items()[at + 1].text()
            };
            (field("code"), field("severity"))
        })
        .collect();
    all.sort();
    all
}

#[test]
fn a_lock_that_two_clients_hold_is_found_in_front_of_a_real_server() {
    let found = on_both_backends_with(&["--audit", "yes"], |stage| {
        let (mut one, mut two, mut driver) = (stage.client("one"), stage.client("two"), stage.driver());
        one.ask("SET lock:a token-1-abcdef NX PX 30000");
        two.ask("SET lock:a token-2-abcdef NX PX 30000");
        two.ask("DEL lock:a");
        two.ask("SET lock:a token-2-abcdef NX PX 30000");
        driver.ask("REDOUBLE AUDIT AWAIT code two-holders 1");
        findings(&mut driver)
    });
    assert!(found.iter().any(|(code, _)| code == "two-holders"), "{found:?}");
}

#[test]
fn a_lock_that_is_used_right_has_no_findings_in_front_of_a_real_server() {
    let found = on_both_backends_with(&["--audit", "yes"], |stage| {
        let (mut one, mut two, mut driver) = (stage.client("one"), stage.client("two"), stage.driver());
        for round in 0..20 {
            let (holder, other) = if round % 2 == 0 { (&mut one, &mut two) } else { (&mut two, &mut one) };
            let token = format!("token-{round}-0123456789abcdef");
            assert_eq!(holder.ask(&format!("SET lock:a {token} NX PX 30000")), ok());
            assert_eq!(other.ask("SET lock:a other-0123456789abcdef NX PX 30000"), Frame::NullBulk);
            assert_eq!(holder.call(&["EVAL", RELEASE, "1", "lock:a", &token]), Frame::Integer(1));
        }
        findings(&mut driver)
    });
    assert_eq!(found, []);
}

#[test]
fn a_lock_whose_reply_was_lost_is_judged_the_same() {
    on_both_backends_with(&["--audit", "yes"], |stage| {
        let (mut one, mut two, mut driver) = (stage.client("one"), stage.client("two"), stage.driver());
        arm(&mut driver, "lost on SET client one times 1 close-after");
        assert_eq!(sight(&mut one, "SET lock:a token-1-abcdef NX PX 30000"), "closed");
        drop(one);
        let mut one = stage.client("one");
        one.ask("SET lock:a token-3-abcdef NX PX 30000");
        two.ask("SET lock:a token-2-abcdef NX PX 30000");
        two.ask("DEL lock:a");
        findings(&mut driver)
    });
}

/// Runs a shell script below `redouble run`, with a real server behind it or without. `$R` is this program's redis-cli.
fn run(upstream: Option<&str>, flags: &[&str], script: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_redouble"));
    command.arg("run").args(flags);
    match upstream {
        Some(url) => drop(command.args(["--upstream", url])),
        None => drop(command.args(["--compat", CHECKED_PROFILE])),
    }
    command.env("R", format!("{} cli -u", env!("CARGO_BIN_EXE_redouble")));
    command.args(["--", "sh", "-c", script]).stdin(Stdio::null()).output().expect("the binary starts")
}

/// A client deletes the lock of another one and takes it.
const STOLEN_LOCK: &str = r#"
        (
            echo CLIENT SETNAME one
            echo SET lock:a token-1-abcdef NX PX 30000
            echo REDOUBLE JOURNAL AWAIT on SET client two reply OK 1 10s
        ) | $R "$REDIS_URL" &
        (
            echo CLIENT SETNAME two
            echo REDOUBLE JOURNAL AWAIT on SET client one 1 10s
            echo SET lock:a token-2-abcdef NX PX 30000
            echo DEL lock:a
            echo SET lock:a token-2-abcdef NX PX 30000
        ) | $R "$REDIS_URL" >/dev/null
        wait
    "#;

#[test]
fn redouble_run_audits_a_command_in_front_of_a_real_server() {
    let place = Place::direct(&[]);
    let (embedded, upstream) =
        (run(None, &["--audit"], STOLEN_LOCK), run(Some(&place.redis.url()), &["--audit"], STOLEN_LOCK));
    let codes = |output: &Output| {
        let text = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
        let mut codes: Vec<String> = ["two-holders", "blind-delete", "token-guessable", "held-at-disconnect"]
            .iter()
            .filter(|code| text.contains(**code))
            .map(|code| (*code).to_owned())
            .collect();
        codes.sort();
        (output.status.code(), codes)
    };
    assert!(!embedded.status.success(), "{}", String::from_utf8_lossy(&embedded.stderr));
    assert_eq!(codes(&upstream), codes(&embedded), "{}", String::from_utf8_lossy(&upstream.stderr));
    assert_eq!(place.client().ask("GET lock:a"), Frame::bulk("token-2-abcdef"), "the data is the server's, and stays");
}

#[test]
fn a_journal_of_a_real_server_is_audited_and_drawn_from_its_file() {
    let stage = Stage::upstream(&[]);
    let folder = std::env::temp_dir().join(format!("redouble-upstream-report-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("journal.jsonl");
    let place = Place::direct(&[]);
    let output = run(Some(&place.redis.url()), &["--journal-out", file.to_str().unwrap()], STOLEN_LOCK);
    assert!(output.status.success(), "{output:?}");
    let program = |arguments: &[&str]| Command::new(env!("CARGO_BIN_EXE_redouble")).args(arguments).output().unwrap();
    let audit = program(&["audit", file.to_str().unwrap()]);
    let text = String::from_utf8_lossy(&audit.stdout).into_owned() + &String::from_utf8_lossy(&audit.stderr);
    assert!(text.contains("two-holders"), "{text}");
    let page = folder.join("report.html");
    let report = program(&["report", file.to_str().unwrap(), "-o", page.to_str().unwrap()]);
    let drawn = std::fs::read_to_string(&page).unwrap_or_else(|_| String::from_utf8_lossy(&report.stdout).into_owned());
    assert!(drawn.contains("lock:a"), "{report:?}");
    drop(stage);
    std::fs::remove_dir_all(&folder).unwrap();
}

// ---- several servers

fn is_refused(address: SocketAddr) -> bool {
    TcpStream::connect(address).is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionRefused)
}

fn state(wire: &mut Wire, number: usize) -> String {
    let list = wire.ask("REDOUBLE INSTANCE LIST");
    list.items()[number - 1].items()[5].text()
}

#[test]
fn several_servers_are_instances_each_with_a_port_data_faults_and_a_journal_of_its_own() {
    let servers: Vec<ServerProcess> = (0..5).map(|_| ServerProcess::redis(&["--save", ""])).collect();
    let urls: Vec<String> = servers.iter().map(ServerProcess::url).collect();
    let front = Front::start(&urls.iter().map(String::as_str).collect::<Vec<_>>(), &[]);
    assert_eq!(front.addresses().len(), 5);
    for (number, address) in front.addresses().iter().enumerate() {
        assert_eq!(Wire::connect(*address).ask(&format!("SET k {number}")), ok());
    }
    for (number, server) in servers.iter().enumerate() {
        assert_eq!(Wire::connect(server.address()).ask("GET k"), Frame::bulk(&number.to_string()));
    }
    let mut wires: Vec<Wire> = front.addresses().iter().map(|address| Wire::connect(*address)).collect();
    arm(&mut wires[2], "f on GET error only-here");
    for (number, wire) in wires.iter_mut().enumerate() {
        assert_eq!(wire.ask("GET k").is_error(), number == 2);
        assert_eq!(wire.ask("REDOUBLE JOURNAL COUNT on SET"), Frame::Integer(1));
    }
}

#[test]
fn an_instance_that_is_stopped_is_refused_and_comes_back_with_the_data_of_its_server() {
    let servers: Vec<ServerProcess> = (0..2).map(|_| ServerProcess::redis(&["--save", ""])).collect();
    let urls: Vec<String> = servers.iter().map(ServerProcess::url).collect();
    let front = Front::start(&[&urls[0], &urls[1]], &[]);
    let [one, two] = [front.addresses()[0], front.addresses()[1]];
    let (mut first, mut second, mut waiting) = (Wire::connect(one), Wire::connect(two), Wire::connect(two));
    assert_eq!(second.ask("SET lock token"), ok());
    send(&mut waiting, "BLPOP l 0");
    let mut direct = Wire::connect(servers[1].address());
    direct.ask_until("INFO clients", |info| info.contains("blocked_clients:1\r"));
    assert_eq!(first.ask("REDOUBLE INSTANCE STOP 2"), ok());
    assert!(is_refused(two));
    assert!(second.is_closed() && waiting.is_closed());
    direct.ask_until("INFO clients", |info| info.contains("blocked_clients:0\r"));
    assert_eq!(state(&mut first, 2), "stopped");
    assert_eq!(direct.ask("GET lock"), Frame::bulk("token"), "the server itself knows nothing of it");
    assert_eq!(first.ask("REDOUBLE INSTANCE START 2"), ok());
    assert_eq!(Wire::connect(two).ask("GET lock"), Frame::bulk("token"));
    assert_eq!(state(&mut first, 2), "running");
}

#[test]
fn an_instance_is_paused_or_cut_off_from_one_client_alone() {
    let servers: Vec<ServerProcess> = (0..2).map(|_| ServerProcess::redis(&["--save", ""])).collect();
    let urls: Vec<String> = servers.iter().map(ServerProcess::url).collect();
    let front = Front::start(&[&urls[0], &urls[1]], &[]);
    let [one, two] = [front.addresses()[0], front.addresses()[1]];
    let mut first = Wire::connect(one);
    let named = |name: &str| {
        let mut wire = Wire::connect(two);
        wire.ask(&format!("CLIENT SETNAME {name}"));
        wire
    };
    let (mut alice, mut bob) = (named("alice"), named("bob"));
    assert_eq!(first.ask("REDOUBLE INSTANCE CUT 2 alice"), ok());
    send(&mut alice, "SET k alice");
    assert_eq!(bob.ask("SET k bob"), ok());
    let mut of_two = Wire::connect(two);
    wait_until("alice to hang", || count(&mut of_two, "instance-cut:alice", "hanging") == 1);
    assert_eq!(first.ask("REDOUBLE INSTANCE HEAL 2"), ok());
    assert_eq!(alice.expect(), ok());
    assert_eq!(first.ask("REDOUBLE INSTANCE PAUSE 2"), ok());
    assert_eq!(state(&mut first, 2), "paused");
    send(&mut bob, "GET k");
    wait_until("bob to hang", || count(&mut of_two, "instance-pause", "hanging") == 1);
    assert_eq!(first.ask("SET still works"), ok());
    assert_eq!(first.ask("REDOUBLE INSTANCE RESUME 2"), ok());
    assert_eq!(bob.expect(), Frame::bulk("alice"));
}

#[test]
fn what_only_an_embedded_server_can_do_to_an_instance_is_refused() {
    let servers: Vec<ServerProcess> = (0..2).map(|_| ServerProcess::redis(&["--save", ""])).collect();
    let urls: Vec<String> = servers.iter().map(ServerProcess::url).collect();
    let front = Front::start(&[&urls[0], &urls[1]], &[]);
    let mut first = Wire::connect(front.address());
    Wire::connect(servers[1].address()).ask("SET k v");
    refused(&mut first, "REDOUBLE INSTANCE SKEW 2 10s");
    assert_eq!(first.ask("REDOUBLE INSTANCE STOP 2"), ok());
    let started = first.ask("REDOUBLE INSTANCE START 2 EMPTY");
    assert_eq!(Wire::connect(servers[1].address()).ask("GET k"), Frame::bulk("v"));
    assert!(started.is_error(), "its data is still there: {started:?}");
}

// ---- what is refused

#[track_caller]
fn refused(wire: &mut Wire, line: &str) {
    let answer = wire.ask(line);
    let Frame::Error(text) = &answer else { panic!("{line}: {answer:?}") };
    let text = String::from_utf8_lossy(text);
    let (what, reason) =
        text.split_once(" is not available with an upstream: ").unwrap_or_else(|| panic!("{line}: {text}"));
    assert!(what.starts_with("ERR ") && reason.len() > 10, "{line}: {text}");
}

#[test]
fn what_an_upstream_cannot_give_is_refused_with_a_reason() {
    let place = Place::through(&[]);
    let mut client = place.client();
    client.ask("SET k v");
    for line in [
        "REDOUBLE CLOCK FREEZE",
        "REDOUBLE CLOCK FREEZE 1700000000000",
        "REDOUBLE CLOCK ADVANCE 1s",
        "REDOUBLE CLOCK SET 1700000000000",
        "REDOUBLE CLOCK SPEED 2",
        "REDOUBLE CLOCK AUTO",
        "REDOUBLE SPACE one",
        "REDOUBLE SAVE dump.rdb",
        "REDOUBLE RESET",
        "REDOUBLE EXPLORE START",
    ] {
        refused(&mut client, line);
    }
    assert_eq!(client.ask("GET k"), Frame::bulk("v"), "nothing was deleted");
    assert!(!client.ask("REDOUBLE CLOCK NOW").is_error());
    assert!(!client.ask("REDOUBLE HELP").is_error());
    assert!(!client.ask("REDOUBLE CLOCK INFO").is_error());
}

#[test]
fn flags_that_an_upstream_cannot_have_are_refused_at_the_start() {
    let place = Place::direct(&[]);
    let url = place.redis.url();
    let mut taken = Vec::new();
    for flags in [
        &["--load", "dump.rdb"][..],
        &["--persist"],
        &["--requirepass", "secret"],
        &["--spaces-by-database", "yes"],
        &["--upstream-order", "sometimes"],
        &["--upstream-scripts", "guess"],
        &["--upstream-timeout", "soon"],
        &["--upstream-disposable", "perhaps"],
        &["--upstream", "http://127.0.0.1:1"],
        &["--upstream", "redis://"],
        &["--upstream", "127.0.0.1"],
        &["--upstream", "redis://127.0.0.1:99999"],
        &["--upstream", "redis://127.0.0.1:6379/db"],
        &["--upstream-ca-cert-file", "/nonexistent.pem"],
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_redouble"))
            .args(["run", "--upstream", &url])
            .args(flags)
            .args(["--", "true"])
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
        let names_it = flags.iter().any(|flag| said.contains(flag.trim_start_matches('-'))) || said.contains("TLS");
        if output.status.success() || !names_it {
            taken.push((flags, said));
        }
    }
    assert!(taken.is_empty(), "{taken:#?}");
}

#[test]
fn a_password_in_the_url_is_shown_by_nobody() {
    let redis = ServerProcess::redis(&["--save", "", "--requirepass", "hunter2"]);
    let front = Front::of(&format!("redis://:hunter2@{}", redis.address()));
    let mut client = Wire::connect(front.address());
    for line in ["REDOUBLE INSTANCE LIST", "REDOUBLE HELP", "REDOUBLE JOURNAL LIST", "CONFIG GET upstream*"] {
        let shown = format!("{:?}", client.ask(line));
        assert!(!shown.contains("hunter2"), "{line}: {shown}");
    }
    assert!(!front.log().contains("hunter2"), "{}", front.log());
}

// ---- data that may be deleted

#[test]
fn reset_empties_a_disposable_server_and_takes_all_rules_away() {
    on_both_backends(|stage| {
        let (mut driver, mut one) = (stage.driver(), stage.client("one"));
        one.ask("SET k v");
        one.ask("SELECT 3");
        one.ask("SET k v");
        arm(&mut driver, "f on GET error oops");
        driver.ask("REDOUBLE GATE ADD door on SET");
        let answer = driver.ask("REDOUBLE RESET");
        let keys = stage.look("DBSIZE");
        (
            answer,
            keys,
            driver.ask("REDOUBLE FAULT LIST"),
            driver.ask("REDOUBLE GATE LIST"),
            Wire::connect(stage.address).ask("GET k"),
            stage.told(),
        )
    });
}

#[test]
fn every_order_of_two_clients_is_tried_on_a_disposable_server() {
    on_both_backends(|stage| {
        let mut driver = stage.driver();
        assert_eq!(driver.ask("REDOUBLE EXPLORE START clients 2 settle 10s"), ok());
        let mut outcomes = Vec::new();
        while driver.ask("REDOUBLE EXPLORE NEXT") != Frame::NullBulk {
            driver.ask("SET n 0");
            // Each reads and writes: an update is lost in some orders.
            std::thread::scope(|scope| {
                for number in 1..=2 {
                    scope.spawn(move || {
                        let mut client = stage.client(&format!("worker-{number}"));
                        let seen: i64 = client.ask("GET n").text().parse().unwrap();
                        client.ask(&format!("SET n {}", seen + 1));
                    });
                }
            });
            outcomes.push(driver.ask("GET n").text());
        }
        let order = driver.ask("REDOUBLE EXPLORE ORDER");
        driver.ask("REDOUBLE EXPLORE STOP");
        outcomes.sort();
        (outcomes, order)
    });
}

#[test]
fn redouble_explore_finds_the_orders_of_a_program_in_front_of_a_disposable_server() {
    let script = r#"
        R="$BIN cli -u $REDIS_URL"
        $R SET n 0 >/dev/null
        work() { v=$($R GET n); $R SET n $((v + 1)) >/dev/null; }
        work & work & wait
        test "$($R GET n)" = 2
    "#;
    let place = Place::direct(&[]);
    let explore = |upstream: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_redouble"))
            .args(["explore", "--runs", "50"])
            .args(upstream)
            .env("BIN", env!("CARGO_BIN_EXE_redouble"))
            .args(["--", "sh", "-c", script])
            .stdin(Stdio::null())
            .output()
            .unwrap()
    };
    let found = explore(&["--upstream", &place.redis.url(), "--upstream-disposable", "yes"]);
    assert_eq!(found.status.code(), Some(1), "{}", String::from_utf8_lossy(&found.stderr));
    let refused = explore(&["--upstream", &place.redis.url()]);
    assert!(!refused.status.success());
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(said.contains("upstream-disposable"), "{said}");
}

#[test]
fn the_summary_of_a_run_counts_what_has_passed() {
    let redis = ServerProcess::redis(&["--save", ""]);
    let client = "redis-cli -u $REDIS_URL SET lock a NX PX 30000 && redis-cli -u $REDIS_URL INCR n";
    let output = Command::new(env!("CARGO_BIN_EXE_redouble"))
        .args(["run", "--report", "--upstream", &redis.url(), "--", "sh", "-c", client])
        .output()
        .expect("the binary runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("redouble run: 2 commands, 2 connections\n"), "{said}");
}
