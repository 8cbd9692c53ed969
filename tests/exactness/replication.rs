//! Replicas: what a primary sends them, what it knows of them, and what clients can make depend on them.
//!
//! Most replicas here are connections that speak as one, so that they acknowledge what the test wants. The others are real.

use std::net::SocketAddr;
use std::time::Duration;

use redouble::Server;

use crate::support::process::ServerProcess;
use crate::support::wire::{Frame, Wire, request};
use crate::support::{CHECKED_PROFILE, Dice, address, profile, start, wait_until};

/// Runs a test on redouble and on the real server, which must behave the same.
fn on_both(test: impl Fn(SocketAddr)) {
    let redis = ServerProcess::redis(&["--save", "", "--repl-diskless-sync", "no"]);
    test(redis.address());
    test(address(&primary()));
}

/// The same with DEBUG.
fn on_both_with_debug(test: impl Fn(SocketAddr)) {
    let redis = ServerProcess::redis(&["--save", "", "--repl-diskless-sync", "no", "--enable-debug-command", "yes"]);
    test(redis.address());
    let double = ServerProcess::redouble(&["--compat", CHECKED_PROFILE, "--enable-debug-command", "yes"]);
    test(double.address());
}

fn primary() -> Server {
    start(Server::builder().compat(profile(CHECKED_PROFILE)))
}

/// A connection that follows a server as a replica does.
struct Replica {
    wire: Wire,
    /// The history that it has, and how much of it.
    history: String,
    offset: usize,
}

impl Replica {
    /// One that has everything that is there now.
    fn new(server: SocketAddr) -> Self {
        Self::introduced(server, "REPLCONF capa psync2")
    }

    /// One that says this of itself first.
    fn introduced(server: SocketAddr, introduction: &str) -> Self {
        let mut wire = Wire::connect(server);
        assert_eq!(wire.ask(introduction), Frame::status("OK"));
        let mut replica = Self { wire, history: String::new(), offset: 0 };
        let answer = replica.ask_for("?", -1);
        assert!(answer.starts_with("+FULLRESYNC"), "{answer}");
        replica
    }

    /// One that has a part of a history. Returns the answer, too.
    fn returning(server: SocketAddr, history: &str, offset: usize) -> (Self, String) {
        let mut wire = Wire::connect(server);
        assert_eq!(wire.ask("REPLCONF capa psync2"), Frame::status("OK"));
        let mut replica = Self { wire, history: history.to_owned(), offset };
        let answer = replica.ask_for(history, offset as i64 + 1);
        (replica, answer)
    }

    fn ask_for(&mut self, history: &str, first: i64) -> String {
        self.wire.send(&request(&["PSYNC", history, &first.to_string()]));
        let answer = self.line();
        if let Some(state) = answer.strip_prefix("+FULLRESYNC ") {
            let (id, offset) = state.split_once(' ').expect("an id and an offset");
            (self.history, self.offset) = (id.to_owned(), offset.parse().expect("an offset"));
            let length = self.line();
            let length = length.strip_prefix('$').expect("the length of a snapshot").parse().expect("a number");
            let snapshot = self.wire.read_bytes(length);
            assert!(snapshot.starts_with(b"REDIS"));
            self.acknowledge();
        }
        answer
    }

    /// The next line that is not empty, as are those that keep a connection alive.
    fn line(&mut self) -> String {
        let mut line = Vec::new();
        loop {
            match self.wire.read_bytes(1)[0] {
                b'\n' if line.is_empty() => {}
                b'\n' => return String::from_utf8(line).expect("a text"),
                b'\r' => {}
                byte => line.push(byte),
            }
        }
    }

    /// The next command of the stream that is no ping.
    fn next(&mut self) -> String {
        loop {
            let command = self.wire.expect();
            let words: Vec<String> = command.items().iter().map(Frame::text).collect();
            self.offset += request(&words).len();
            if words != ["ping"] {
                return words.join(" ");
            }
        }
    }

    /// The commands up to this one.
    fn up_to(&mut self, last: &str) -> Vec<String> {
        let mut commands = Vec::new();
        while commands.last().is_none_or(|command| command != last) {
            commands.push(self.next());
        }
        commands
    }

    /// Acknowledges everything, and waits until that is known.
    fn catch_up(&mut self, client: &mut Wire) {
        wait_until("the acknowledgement of everything", || {
            let end: usize = field(client, "master_repl_offset").parse().expect("an offset");
            while self.offset < end {
                self.next();
            }
            self.acknowledge();
            field(client, "slave0").contains(&format!(",offset={end},"))
        });
    }

    fn acknowledge(&mut self) {
        self.acknowledge_up_to(self.offset);
    }

    fn acknowledge_up_to(&mut self, offset: usize) {
        self.wire.send(&request(&["REPLCONF", "ACK", &offset.to_string()]));
    }
}

/// A field of INFO.
fn field(wire: &mut Wire, name: &str) -> String {
    let info = wire.ask("INFO everything").text();
    let find = |line: &str| line.strip_prefix(name)?.strip_prefix(':').map(str::to_owned);
    info.lines().find_map(find).unwrap_or_default()
}

fn until(wire: &mut Wire, name: &str, value: &str) {
    wait_until(format_args!("{name}:{value}"), || field(wire, name) == value);
}

fn ok() -> Frame {
    Frame::status("OK")
}

#[test]
fn a_replica_gets_what_is_there_and_then_every_change_as_it_is_the_same_later() {
    on_both(|server| {
        let mut client = Wire::connect(server);
        client.ask("SET before 1");
        let mut replica = Replica::new(server);
        let began = replica.offset;
        client.ask("GET before");
        client.ask("SET a 1 NX");
        client.ask("SET a 2 NX");
        client.ask("SADD s one");
        client.ask("SPOP s");
        client.ask("MULTI");
        client.ask("INCR a");
        client.ask("GET a");
        client.ask("LPUSH l x");
        client.ask("EXEC");
        client.ask("SELECT 3");
        client.ask("INCRBYFLOAT f 1.5");
        client.ask("PUBLISH channel message");
        let commands = replica.up_to("PUBLISH channel message");
        let expected = [
            "SELECT 0",
            "SET a 1 NX",
            "SADD s one",
            "SREM s one",
            "MULTI",
            "INCR a",
            "LPUSH l x",
            "EXEC",
            "SELECT 3",
            "SET f 1.5 KEEPTTL",
            "PUBLISH channel message",
        ];
        assert_eq!(commands, expected);
        assert_eq!(field(&mut client, "master_repl_offset"), replica.offset.to_string());
        assert_eq!(field(&mut client, "repl_backlog_histlen"), (replica.offset - began).to_string());
        assert_eq!(field(&mut client, "repl_backlog_first_byte_offset"), (began + 1).to_string());
    });
}

#[test]
fn what_is_restored_for_a_while_expires_on_replicas_when_it_does_here() {
    on_both(|server| {
        let mut client = Wire::connect(server);
        client.ask("SET a 1");
        let Frame::Bulk(payload) = client.ask("DUMP a") else { panic!("no payload") };
        let mut replica = Replica::new(server);
        assert_eq!(client.call(&[b"RESTORE", &b"b"[..], b"100000", &payload, b"REPLACE"]), ok());
        assert_eq!(client.call(&[b"RESTORE", &b"c"[..], b"0", &payload]), ok());
        let deadline = client.ask("PEXPIRETIME b").integer();
        client.ask("SET last 1");
        let commands = replica.up_to("SET last 1");
        let begins = ["SELECT 0", &format!("RESTORE b {deadline} "), "RESTORE c 0 ", "SET last 1"];
        let ends = ["0", " REPLACE ABSTTL", "", "1"];
        assert_eq!(commands.len(), begins.len());
        for (command, (begin, end)) in commands.iter().zip(begins.iter().zip(ends)) {
            assert!(command.starts_with(*begin) && command.ends_with(end), "{command}");
        }
    });
}

#[test]
fn a_replica_that_comes_back_gets_only_what_it_lacks_and_all_if_that_is_gone() {
    on_both(|server| {
        let mut client = Wire::connect(server);
        let mut replica = Replica::new(server);
        client.ask("SET a 1");
        replica.up_to("SET a 1");
        let (history, offset) = (replica.history.clone(), replica.offset);
        drop(replica);
        until(&mut client, "connected_slaves", "0");
        client.ask("SET missed 1");
        let (mut again, answer) = Replica::returning(server, &history, offset);
        assert_eq!(answer, format!("+CONTINUE {history}"));
        assert_eq!(again.next(), "SET missed 1");
        assert_eq!(field(&mut client, "sync_partial_ok"), "1");
        // Another history, bytes that nobody has sent, and bytes that are not kept any more.
        let end = again.offset;
        client.ask("CONFIG SET repl-backlog-size 16384");
        for (history, offset) in [("x".repeat(40), end), (history.clone(), end + 100)] {
            let (_, answer) = Replica::returning(server, &history, offset);
            assert!(answer.starts_with("+FULLRESYNC "), "{answer}");
        }
        for _ in 0..64 {
            client.call(&["SET", "large", &"x".repeat(4096)]);
        }
        let (_, answer) = Replica::returning(server, &history, end);
        assert!(answer.starts_with("+FULLRESYNC "), "{answer}");
        assert_eq!(field(&mut client, "sync_partial_err"), "3");
        assert_eq!(field(&mut client, "sync_full"), "4");
    });
}

#[test]
fn wait_tells_how_many_replicas_have_what_its_connection_wrote() {
    on_both(|server| {
        let (mut writer, mut other) = (Wire::connect(server), Wire::connect(server));
        assert_eq!(writer.ask("WAIT 0 0"), Frame::Integer(0));
        let mut replica = Replica::new(server);
        writer.ask("SET a 1");
        replica.up_to("SET a 1");
        let written = replica.offset;
        assert_eq!(writer.ask("WAIT 0 0"), Frame::Integer(0), "the replica has not said that it has it");
        other.ask("SET b 1");
        // The primary asks, and the reply comes with the acknowledgement. What others wrote since does not matter.
        writer.send(&request(&["WAIT", "1", "0"]));
        assert_eq!(replica.up_to("REPLCONF GETACK *"), ["SET b 1", "REPLCONF GETACK *"]);
        replica.acknowledge_up_to(written - 1);
        until(&mut other, "blocked_clients", "1");
        replica.acknowledge_up_to(written);
        assert_eq!(writer.expect(), Frame::Integer(1));
        // From the next command on, what others wrote before it matters, too.
        assert_eq!(writer.ask("WAIT 1 50"), Frame::Integer(0));
        replica.up_to("REPLCONF GETACK *");
        replica.acknowledge();
        assert_eq!(writer.ask("WAIT 1 0"), Frame::Integer(1));
        // Too few, and a time-out.
        other.ask("SET c 1");
        assert_eq!(other.ask("WAIT 2 50"), Frame::Integer(0));
        replica.up_to("REPLCONF GETACK *");
        replica.catch_up(&mut other);
        assert_eq!(writer.ask("WAIT 2 50"), Frame::Integer(1));
        // Nothing blocks in a transaction.
        replica.catch_up(&mut other);
        writer.ask("MULTI");
        writer.ask("WAIT 5 0");
        assert_eq!(writer.ask("EXEC"), Frame::Array(vec![Frame::Integer(1)]));
    });
}

#[test]
fn a_wait_is_ended_by_another_client_with_the_count_so_far() {
    on_both(|server| {
        let (mut writer, mut other) = (Wire::connect(server), Wire::connect(server));
        let mut replica = Replica::new(server);
        let id = writer.ask("CLIENT ID").integer();
        writer.ask("SET a 1");
        replica.up_to("SET a 1");
        replica.acknowledge();
        let acknowledged = format!(",offset={},", replica.offset);
        for (unblock, answer) in [
            (format!("CLIENT UNBLOCK {id}"), Frame::Integer(1)),
            (format!("CLIENT UNBLOCK {id} ERROR"), Frame::error("UNBLOCKED client unblocked via CLIENT UNBLOCK")),
        ] {
            writer.send(&request(&["WAIT", "2", "0"]));
            until(&mut other, "blocked_clients", "1");
            wait_until("the acknowledgement", || field(&mut other, "slave0").contains(&acknowledged));
            assert_eq!(other.ask(&unblock), Frame::Integer(1));
            assert_eq!(writer.expect(), answer);
        }
    });
}

#[test]
fn writes_are_refused_while_too_few_replicas_are_there() {
    on_both(|server| {
        let mut client = Wire::connect(server);
        client.ask("CONFIG SET min-replicas-to-write 1");
        let refused = Frame::error("NOREPLICAS Not enough good replicas to write.");
        assert_eq!(client.ask("SET a 1"), refused);
        assert_eq!(field(&mut client, "min_slaves_good_slaves"), "0");
        let replica = Replica::new(server);
        until(&mut client, "min_slaves_good_slaves", "1");
        assert_eq!(client.ask("SET a 1"), ok());
        assert_eq!(client.call(&["EVAL", "return redis.call('set', 'a', '2')", "0"]), ok());
        drop(replica);
        until(&mut client, "connected_slaves", "0");
        assert_eq!(client.ask("SET a 3"), refused);
        let error = client.call(&["EVAL", "return redis.call('set', 'a', '3')", "0"]).text();
        assert!(error.starts_with("NOREPLICAS Not enough good replicas to write. script: "), "{error}");
        assert_eq!(client.call(&["EVAL", "#!lua\nreturn 1", "0"]), refused);
        assert_eq!(client.ask("GET a"), Frame::bulk("2"));
    });
}

#[test]
fn replicas_are_listed_with_what_they_say_and_closed_as_such() {
    on_both(|server| {
        let mut client = Wire::connect(server);
        let mut replica = Replica::introduced(server, "REPLCONF listening-port 7777 ip-address some.host capa psync2");
        client.ask("SET a 1");
        replica.up_to("SET a 1");
        replica.acknowledge();
        let offset = replica.offset.to_string();
        wait_until("the acknowledgement", || field(&mut client, "slave0").contains(&format!("offset={offset},")));
        let described = field(&mut client, "slave0");
        assert!(described.starts_with("ip=some.host,port=7777,state=online,"), "{described}");
        let row = Frame::Array(["some.host", "7777", &offset].map(Frame::bulk).to_vec());
        assert_eq!(client.ask("ROLE").items()[2], Frame::Array(vec![row]));
        assert_eq!(field(&mut client, "connected_clients"), "1");
        let list = client.ask("CLIENT LIST TYPE replica").text();
        assert!(list.contains(" flags=S ") && list.lines().count() == 1, "{list}");
        assert_eq!(client.ask("CLIENT LIST TYPE normal").text().lines().count(), 1);
        assert_eq!(client.ask("CLIENT KILL TYPE normal SKIPME yes"), Frame::Integer(0));
        assert_eq!(client.ask("CLIENT KILL TYPE slave"), Frame::Integer(1));
        assert!(replica.wire.is_closed());
        assert_eq!(client.ask("ROLE").items()[2], Frame::Array(Vec::new()));
    });
}

#[test]
fn a_replica_that_asks_for_a_reply_is_disconnected() {
    on_both(|server| {
        for command in ["PING", "GET a", "NO SUCH COMMAND", "REPLCONF listening-port 1"] {
            let mut replica = Replica::new(server);
            let words: Vec<&str> = command.split(' ').collect();
            replica.wire.send(&request(&words));
            assert!(replica.wire.is_closed(), "{command}");
        }
        // One that wants a snapshot alone gets no changes, and is let go when it has it.
        let mut replica = Replica::introduced(server, "REPLCONF rdb-only 1");
        Wire::connect(server).ask("SET a 1");
        assert!(replica.wire.read_to_end().is_empty());
    });
}

#[test]
fn replicas_of_a_server_that_followed_another_go_on_with_their_history() {
    on_both(|server| {
        let mut client = Wire::connect(server);
        let mut replica = Replica::new(server);
        client.ask("SET a 1");
        replica.up_to("SET a 1");
        assert_eq!(client.ask("REPLICAOF 127.0.0.1 1"), ok());
        let refused = Frame::error("NOMASTERLINK Can't SYNC while not connected with my master");
        assert_eq!(Wire::connect(server).ask("PSYNC ? -1"), refused);
        assert_eq!(client.ask("REPLICAOF NO ONE"), ok());
        assert!(replica.wire.is_closed(), "it has to learn the new id");
        assert_eq!(field(&mut client, "master_replid2"), replica.history);
        assert_eq!(field(&mut client, "second_repl_offset"), (replica.offset + 1).to_string());
        client.ask("SET a 2");
        let (mut again, answer) = Replica::returning(server, &replica.history, replica.offset);
        assert_eq!(answer, format!("+CONTINUE {}", field(&mut client, "master_replid")));
        assert_ne!(answer, format!("+CONTINUE {}", replica.history));
        assert_eq!(again.up_to("SET a 2"), ["SELECT 0", "SET a 2"]);
        // What came after is only in the new history.
        let (_, answer) = Replica::returning(server, &replica.history, again.offset);
        assert!(answer.starts_with("+FULLRESYNC "), "{answer}");
    });
}

#[test]
fn a_replica_that_does_not_read_is_closed_at_its_limit() {
    on_both(|server| {
        let mut client = Wire::connect(server);
        client.call(&["CONFIG", "SET", "client-output-buffer-limit", "replica 1mb 0 0"]);
        client.call(&["CONFIG", "SET", "repl-backlog-size", "16384"]);
        let _replica = Replica::new(server);
        let large = "x".repeat(1 << 20);
        wait_until("its end", || {
            client.call(&["SET", "large", &large]);
            field(&mut client, "connected_slaves") == "0"
        });
    });
}

#[test]
fn pings_and_time_outs_of_replicas_are_those_of_the_servers_clock() {
    let server = primary();
    server.freeze();
    let mut client = Wire::connect(address(&server));
    let mut replica = Replica::new(address(&server));
    server.advance(Duration::from_secs(9));
    client.ask("SET a 1");
    replica.up_to("SET a 1");
    server.advance(Duration::from_secs(1));
    assert_eq!(replica.wire.expect(), Frame::Array(vec![Frame::bulk("ping")]));
    replica.offset += request(&["ping"]).len();
    assert_eq!(field(&mut client, "master_repl_offset"), replica.offset.to_string());
    replica.acknowledge();
    wait_until("the acknowledgement", || field(&mut client, "slave0").ends_with("lag=0"));
    client.ask("CONFIG SET min-replicas-to-write 1");
    server.advance(Duration::from_secs(10));
    assert!(field(&mut client, "slave0").ends_with("lag=10"));
    assert_eq!(client.ask("SET a 2"), ok());
    server.advance(Duration::from_secs(1));
    assert_eq!(client.ask("SET a 3"), Frame::error("NOREPLICAS Not enough good replicas to write."));
    client.ask("CONFIG SET min-replicas-to-write 0");
    // WAIT, too.
    client.send(&request(&["WAIT", "1", "5000"]));
    let mut other = Wire::connect(address(&server));
    until(&mut other, "blocked_clients", "1");
    server.advance(Duration::from_secs(5));
    assert_eq!(client.expect(), Frame::Integer(0));
    server.advance(Duration::from_secs(45));
    assert!(replica.wire.is_closed());
    assert_eq!(field(&mut client, "connected_slaves"), "0");
    // The history ends an hour later.
    let history = field(&mut client, "master_replid");
    server.advance(Duration::from_secs(3600));
    assert_eq!((field(&mut client, "repl_backlog_active"), field(&mut client, "master_replid")), ("1".into(), history));
    server.advance(Duration::from_secs(1));
    assert_eq!(field(&mut client, "repl_backlog_active"), "0");
    let (_, answer) = Replica::returning(address(&server), &replica.history, replica.offset);
    assert!(answer.starts_with("+FULLRESYNC "), "{answer}");
}

#[test]
fn keys_that_expire_are_deleted_on_replicas_by_the_primary() {
    let server = primary();
    server.freeze();
    let mut client = Wire::connect(address(&server));
    let mut replica = Replica::new(address(&server));
    client.ask("SET a 1 PX 100");
    client.ask("SET b 1 PX 100");
    server.advance(Duration::from_millis(101));
    client.ask("SET end 1");
    let mut commands = replica.up_to("SET end 1");
    assert!(commands[1].starts_with("SET a 1 PXAT ") && commands[2].starts_with("SET b 1 PXAT "), "{commands:?}");
    commands[3..5].sort();
    assert_eq!(commands[3..], ["DEL a", "DEL b", "SET end 1"]);
}

/// A key that a client waits for is there, and has expired by the time that the client would be served.
#[test]
fn a_key_that_expired_before_it_served_anybody_is_deleted_on_replicas_behind_the_command() {
    on_both_with_debug(|server| {
        let (mut client, mut waiting) = (Wire::connect(server), Wire::connect(server));
        client.ask("DEBUG SET-ACTIVE-EXPIRE 0");
        let mut replica = Replica::new(server);
        waiting.send(&request(&["BRPOP", "k", "0"]));
        client.ask_until("INFO clients", |info| info.contains("blocked_clients:1\r"));
        client.ask("MULTI");
        client.ask("RPUSH k hello");
        client.ask("PEXPIRE k 50");
        client.ask("DEBUG SLEEP 0.1");
        client.ask("EXEC");
        client.ask("SET end 1");
        let commands = replica.up_to("SET end 1");
        assert_eq!(commands[..3], ["SELECT 0", "MULTI", "RPUSH k hello"]);
        assert!(commands[3].starts_with("PEXPIREAT k "), "{commands:?}");
        assert_eq!(commands[4..], ["EXEC", "DEL k", "SET end 1"]);
        client.ask("SELECT 1");
        client.ask("RPUSH k hello");
        client.ask("PEXPIRE k 50");
        client.ask("DEBUG SLEEP 0.1");
        client.ask("SWAPDB 0 1");
        client.ask("SET end 2");
        let commands = replica.up_to("SET end 2");
        assert_eq!(commands[3..], ["SWAPDB 0 1", "SELECT 0", "DEL k", "SELECT 1", "SET end 2"]);
        // Nobody was served.
        client.ask_until("INFO clients", |info| info.contains("blocked_clients:1\r"));
    });
}

#[test]
fn expired_keys_that_scan_and_randomkey_come_upon_are_deleted_on_replicas_one_by_one() {
    on_both_with_debug(|server| {
        let mut client = Wire::connect(server);
        client.ask("DEBUG SET-ACTIVE-EXPIRE 0");
        let mut replica = Replica::new(server);
        for looks in [&["SCAN 0"][..], &["RANDOMKEY"], &["MGET a b"], &["MULTI", "SCAN 0", "EXEC"]] {
            client.ask("SET a 1 PX 1");
            client.ask("SET b 1 PX 1");
            client.ask("DEBUG SLEEP 0.005");
            replica.catch_up(&mut client);
            looks.iter().for_each(|look| drop(client.ask(look)));
            client.ask("PUBLISH end 1");
            let mut commands = replica.up_to("PUBLISH end 1");
            commands.sort();
            let alone = looks.len() == 1 && looks[0] != "MGET a b";
            let deleted = if alone { vec![] } else { vec!["EXEC", "MULTI"] };
            let expected: Vec<&str> = [vec!["DEL a", "DEL b"], deleted, vec!["PUBLISH end 1"]].concat();
            assert_eq!(commands, expected, "{looks:?}");
        }
    });
}

#[test]
fn what_takes_the_place_of_an_expired_key_is_sent_to_replicas_behind_its_deletion() {
    on_both_with_debug(|server| {
        let mut client = Wire::connect(server);
        client.ask("DEBUG SET-ACTIVE-EXPIRE 0");
        let mut replica = Replica::new(server);
        for command in ["RENAME from to", "COPY from to REPLACE", "LMOVE list to LEFT LEFT"] {
            client.ask("SET from 1");
            client.ask("RPUSH list a");
            client.ask("SET to 2 PX 1");
            client.ask("DEBUG SLEEP 0.005");
            client.ask(command);
            client.ask("PUBLISH end 1");
            let commands = replica.up_to("PUBLISH end 1");
            let sent = commands.iter().rposition(|sent| sent == "DEL to").expect("the deletion");
            assert_eq!(commands[sent + 1..], [command, "EXEC", "PUBLISH end 1"], "{commands:?}");
            client.ask("DEL to");
        }
    });
}

#[test]
fn what_expires_within_a_transaction_is_deleted_on_replicas_within_it() {
    on_both_with_debug(|server| {
        let mut client = Wire::connect(server);
        client.ask("DEBUG SET-ACTIVE-EXPIRE 0");
        client.ask("SET k 1 PX 1");
        client.ask("DEBUG SLEEP 0.005");
        let mut replica = Replica::new(server);
        client.ask("MULTI");
        client.ask("GET k");
        client.ask("SET a 1");
        client.ask("EXEC");
        assert_eq!(replica.up_to("EXEC"), ["SELECT 0", "MULTI", "DEL k", "SET a 1", "EXEC"]);
    });
}

#[test]
fn replicas_real_ones_and_those_in_the_process_have_the_same_data_after_a_hundred_thousand_random_commands() {
    have_the_same_data(100_000, "1");
}

#[test]
fn replicas_have_the_same_data_when_several_threads_write() {
    have_the_same_data(20_000, "3");
}

fn have_the_same_data(commands: usize, threads: &str) {
    const PIPELINED: usize = 50;
    let debug = ["--enable-debug-command", "yes"];
    let own = ["--compat", CHECKED_PROFILE, "--replicas", "1", "--threads", threads];
    let server = ServerProcess::redouble(&[&own[..], &debug].concat());
    let port = server.address().port().to_string();
    let redis = ServerProcess::redis(&[&["--save", "", "--replicaof", "127.0.0.1", &port][..], &debug].concat());
    let mut client = Wire::connect(server.address());
    let in_process = field(&mut client, "slave0");
    let in_process = in_process.strip_prefix("ip=127.0.0.1,port=").and_then(|rest| rest.split(',').next());
    let in_process: u16 = in_process.and_then(|port| port.parse().ok()).expect("the port of the replica");
    let mut replicas = [Wire::connect(redis.address()), Wire::connect(([127, 0, 0, 1], in_process).into())];
    replicas.iter_mut().for_each(|replica| until(replica, "master_link_status", "up"));
    let mut random = Dice::new(20);
    let mut clients: Vec<Wire> = (0..3).map(|_| Wire::connect(server.address())).collect();
    for _ in 0..commands / (PIPELINED * clients.len()) + 1 {
        for client in &mut clients {
            let batch: Vec<u8> = (0..PIPELINED).flat_map(|_| random_command(&mut random)).collect();
            assert!(client.send(&batch));
        }
        for client in &mut clients {
            for _ in 0..PIPELINED {
                client.expect();
            }
        }
    }
    assert_eq!(client.ask("WAIT 2 0"), Frame::Integer(2));
    for replica in &mut replicas {
        // Keys expire meanwhile, here sooner than there.
        wait_until("the same data", || client.ask("DEBUG DIGEST") == replica.ask("DEBUG DIGEST"));
        assert_eq!(client.ask("FUNCTION LIST WITHCODE"), replica.ask("FUNCTION LIST WITHCODE"));
        assert_eq!(client.ask("DBSIZE"), replica.ask("DBSIZE"));
    }
    assert_eq!(field(&mut client, "sync_full"), "2");
}

#[test]
fn replicas_that_come_while_everything_changes_have_the_same_data() {
    const PIPELINED: usize = 50;
    let debug = ["--enable-debug-command", "yes"];
    let server = ServerProcess::redouble(&[&["--compat", CHECKED_PROFILE, "--threads", "2"][..], &debug].concat());
    let port = server.address().port().to_string();
    let mut client = Wire::connect(server.address());
    let follow = [&["--save", "", "--replicaof", "127.0.0.1", &port][..], &debug].concat();
    let mut random = Dice::new(21);
    let mut replicas = Vec::new();
    for _ in 0..4 {
        // So much that its snapshot is not there at once.
        let many: Vec<String> = (0..40_000).flat_map(|key| [format!("key:{key}"), key.to_string()]).collect();
        assert_eq!(client.call(&[&["MSET".to_owned()][..], &many].concat()), ok());
        replicas.push(ServerProcess::redis(&follow));
        for _ in 0..100 {
            let batch: Vec<u8> = (0..PIPELINED).flat_map(|_| random_command(&mut random)).collect();
            assert!(client.send(&batch));
            (0..PIPELINED).for_each(|_| drop(client.expect()));
        }
        assert_eq!(client.ask("SELECT 0"), ok());
    }
    for replica in &replicas {
        until(&mut Wire::connect(replica.address()), "master_link_status", "up");
    }
    assert_eq!(client.ask("WAIT 4 0"), Frame::Integer(4));
    for replica in &replicas {
        let mut replica = Wire::connect(replica.address());
        wait_until("the same data", || client.ask("DEBUG DIGEST") == replica.ask("DEBUG DIGEST"));
    }
    assert_eq!(field(&mut client, "sync_full"), "4");
}

#[test]
fn replicas_that_come_at_once_are_sent_the_same_snapshot_and_then_the_same_stream() {
    let server = ServerProcess::redouble(&["--compat", CHECKED_PROFILE, "--enable-debug-command", "yes"]);
    let address = server.address();
    let mut client = Wire::connect(address);
    assert_eq!(client.ask("DEBUG POPULATE 100000"), ok());
    let mut wires: Vec<Wire> = (0..5).map(|_| Wire::connect(address)).collect();
    // The last one wants the snapshot alone.
    assert_eq!(wires[4].ask("REPLCONF rdb-only 1"), ok());
    for wire in &mut wires {
        assert!(wire.send(&request(&["PSYNC", "?", "-1"])));
    }
    assert_eq!(client.ask("SET last 1"), ok());
    let mut replicas: Vec<Replica> =
        wires.into_iter().map(|wire| Replica { wire, history: String::new(), offset: 0 }).collect();
    let only = replicas.pop().expect("the last");
    for replica in &mut replicas {
        assert!(replica.line().starts_with("+FULLRESYNC"));
        let length = replica.line().strip_prefix('$').expect("the length of a snapshot").parse().expect("a number");
        let snapshot = replica.wire.read_bytes(length);
        let has_change = snapshot.windows(4).any(|bytes| bytes == b"last");
        replica.acknowledge();
        if !has_change {
            assert_eq!(replica.up_to("SET last 1"), ["SELECT 0", "SET last 1"]);
        }
    }
    drop(only);
    assert_eq!(client.ask("SET more 1"), ok());
    for replica in &mut replicas {
        assert_eq!(replica.up_to("SET more 1").last().map(String::as_str), Some("SET more 1"));
    }
    assert_eq!(client.ask("PING"), Frame::status("PONG"));
}

/// A request with one of the commands that write, on one of a few keys. Many fail, because the key holds another type.
fn random_command(random: &mut Dice) -> Vec<u8> {
    const COMMANDS: &str = "SET K V|SET K V PX T|SET K V GET|SETNX K V|PSETEX K T V|GETSET K V|GETDEL K|GETEX K PX T|APPEND K V|\
        SETRANGE K N V|INCR K|INCRBY K N|DECR K|INCRBYFLOAT K 0.1|MSET K V K V|MSETNX K V K V|SETBIT K N 1|BITOP XOR K K K|\
        BITFIELD K INCRBY u8 #1 N|PFADD K V V|PFMERGE K K|LPUSH K V V|RPUSH K V|LPUSHX K V|LPOP K|RPOP K 2|LREM K N V|LTRIM K 0 20|\
        LSET K 0 V|LINSERT K BEFORE V V|RPOPLPUSH K K|LMOVE K K LEFT RIGHT|LMPOP 2 K K LEFT COUNT 2|BLPOP K K 0.001|\
        SADD K V V V|SADD K N N|SREM K V|SPOP K|SPOP K N|SMOVE K K V|SINTERSTORE K K K|SUNIONSTORE K K K|SDIFFSTORE K K K|\
        HSET K V V V V|HSETNX K V V|HDEL K V|HINCRBY K V N|HINCRBYFLOAT K V 1.25|ZADD K N V N V|ZADD K GT CH N V|ZADD K NX INCR N V|\
        ZINCRBY K N V|ZREM K V|ZPOPMIN K|ZPOPMAX K 3|ZMPOP 1 K MIN|BZPOPMIN K 0.001|ZREMRANGEBYRANK K 0 1|ZREMRANGEBYSCORE K 0 3|\
        ZUNIONSTORE K 2 K K|ZINTERSTORE K 2 K K WEIGHTS 2 3|ZRANGESTORE K K 0 5|ZDIFFSTORE K 2 K K|GEOADD K 13.36 38.11 V|\
        GEOSEARCHSTORE K K FROMLONLAT 13 38 BYRADIUS 900 km|XADD K * V V|XADD K MAXLEN ~ 10 * V V|XADD K MAXLEN 5 * V V|XTRIM K MAXLEN 3|\
        XGROUP CREATE K g 0 MKSTREAM|XREADGROUP GROUP g V COUNT 2 STREAMS K >|XAUTOCLAIM K g V 0 0 COUNT 2|XGROUP DELCONSUMER K g V|\
        DEL K|UNLINK K K|PEXPIRE K T|EXPIREAT K 1|PERSIST K|RENAME K K|RENAMENX K K|COPY K K REPLACE|MOVE K 1|SORT K ALPHA STORE K|\
        GET K|SELECT 0|SELECT 1|SWAPDB 0 1|PUBLISH channel V|EVAL S 2 K K|FLUSHDB";
    const SCRIPT: &str = "redis.pcall('incr', KEYS[1]) redis.pcall('spop', KEYS[2]) return redis.pcall('set', KEYS[2], math.random(), 'px', 50)";
    let all: Vec<&str> = COMMANDS.split('|').collect();
    let mut line = all[random.below(all.len())];
    if line == "FLUSHDB" && random.below(50) > 0 {
        line = "PING";
    }
    let words: Vec<String> = line
        .split(' ')
        .map(|word| match word {
            "K" => format!("k{}", random.below(40)),
            "V" => ["1", "22", "abc", "-5", "3.5", &format!("v{}", random.below(30)), &"x".repeat(70)][random.below(7)]
                .to_owned(),
            "N" => random.below(40).to_string(),
            "T" => (1 + random.below(300)).to_string(),
            "S" => SCRIPT.to_owned(),
            word => word.to_owned(),
        })
        .collect();
    request(&words)
}
