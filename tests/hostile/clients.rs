//! Malicious and broken clients: the server stays up, keeps its memory small, and serves other clients.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;

use redouble::Server;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::support::process::ServerProcess;
use crate::support::wire::{Frame, ReadError, Wire, request};
use crate::support::{Dice, address, spawn, start, wait_until};

const MB: usize = 1 << 20;

fn pong() -> Frame {
    Frame::status("PONG")
}

/// Checks that a well-behaved client is served normally.
fn assert_unaffected(address: SocketAddr) {
    let mut wire = Wire::connect(address);
    assert_eq!(wire.ask("PING"), pong());
    assert_eq!(wire.ask("SET good v"), Frame::status("OK"));
    assert_eq!(wire.ask("GET good"), Frame::bulk("v"));
}

#[test]
fn random_bytes_end_nothing_but_their_own_connection() {
    let server = spawn();
    let mut dice = Dice::new(1);
    for _ in 0..400 {
        let mut wire = Wire::connect(address(&server));
        let length = 1 + dice.below(2000);
        let mut bytes = dice.bytes(length);
        // Half of them begin like a request.
        if dice.below(2) == 0 {
            bytes[0] = b'*';
        }
        wire.send(&bytes);
        wire.finish_sending();
        wire.read_to_end();
    }
    assert_unaffected(address(&server));
}

#[test]
fn damaged_requests_end_nothing_but_their_own_connection() {
    let server = spawn();
    let mut dice = Dice::new(2);
    let good: Vec<Vec<u8>> = vec![
        request(&["SET", "k", "some value", "EX", "100"]),
        request(&["MSET", "a", "1", "b", "2"]),
        request(&["BITFIELD", "b", "SET", "u8", "0", "1", "OVERFLOW", "SAT", "INCRBY", "u8", "0", "300"]),
        request(&["SCAN", "0", "MATCH", "[a-", "COUNT", "10"]),
        request(&["RESTORE", "r", "0", "\0\u{5}hello", "REPLACE"]),
        request(&["LCS", "a", "b", "IDX"]),
        request(&["CLIENT", "LIST", "ID", "1"]),
        request(&["COMMAND", "GETKEYS", "MSET", "a", "b"]),
        request(&["CONFIG", "GET", "*"]),
        request(&["MULTI"]),
        request(&["EXEC"]),
        request(&["HELLO", "3", "AUTH", "a", "b", "SETNAME", "c"]),
    ];
    for _ in 0..400 {
        let mut bytes: Vec<u8> = (0..6).flat_map(|_| good[dice.below(good.len())].clone()).collect();
        for _ in 0..dice.below(4) {
            let at = dice.below(bytes.len());
            bytes[at] = dice.next() as u8;
        }
        let end = if dice.below(2) == 0 { dice.below(bytes.len()) } else { bytes.len() };
        let mut wire = Wire::connect(address(&server));
        wire.send(&bytes[..end]);
        wire.finish_sending();
        wire.read_to_end();
    }
    assert_unaffected(address(&server));
}

#[test]
fn lengths_that_are_only_claimed_take_no_memory() {
    let server = ServerProcess::redouble(&[]);
    assert_unaffected(server.address());
    let before = server.resident();
    let claims: [&[u8]; 4] = [
        b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$536870912\r\nx",
        b"*2147483647\r\n$4\r\nPING\r\n",
        b"*2147483647\r\n",
        b"*2\r\n$536870912\r\n",
    ];
    let mut waiting = Vec::new();
    for index in 0..200 {
        let mut wire = Wire::connect(server.address());
        wire.send(claims[index % claims.len()]);
        waiting.push(wire);
    }
    assert_unaffected(server.address());
    let grown = server.resident().saturating_sub(before);
    assert!(grown < 16 * MB, "200 claims of half a gigabyte each took {} kB", grown / 1024);
}

#[test]
fn nesting_is_refused_at_its_first_level() {
    let server = spawn();
    let mut wire = Wire::connect(address(&server));
    wire.send(&b"*1\r\n".repeat(100_000));
    let answer = wire.read_to_end();
    assert_eq!(String::from_utf8_lossy(&answer), "-ERR Protocol error: expected '$', got '*'\r\n");
    assert_unaffected(address(&server));
}

#[test]
fn a_request_of_a_million_words_is_a_request() {
    let server = ServerProcess::redouble(&[]);
    let mut wire = Wire::connect(server.address());
    let mut words = vec!["EXISTS"];
    words.resize(1_000_001, "k");
    assert_eq!(wire.call(&words), Frame::Integer(0));
    drop(wire);
    assert_unaffected(server.address());
}

#[test]
fn lua_keeps_to_its_own_memory() {
    let server = ServerProcess::redouble(&[]);
    let mut wire = Wire::connect(server.address());
    // The ranges overflow Lua's own arithmetic or make Lua drop a string that is in use.
    for range in ["-1, 2147483647", "-2147483648, 2147483647", "-2147483648"] {
        let script = format!("return {{pcall(unpack, {{}}, {range})}}");
        let answer = wire.call(&["EVAL", &script, "0"]);
        assert_eq!(answer.items()[1..], [Frame::bulk("too many results to unpack")]);
    }
    assert_eq!(wire.call(&["EVAL", "return {unpack({1, 2, 3}, -1)}", "0"]), Frame::Array(vec![]));
    assert_eq!(wire.call(&["EVAL", "return {unpack({1, 2, 3}, 2)}", "0"]).items().len(), 2);
    for (name, shown) in [("nil", "(load)"), ("'@a chunk'", "a chunk"), ("'@a\\0chunk'", "a"), ("'=' .. 7", "7")] {
        let script = format!(
            "local pieces = 0
            local f = load(function()
                pieces = pieces + 1
                if pieces == 1 then return '' end
                if pieces == 20 then return 'error(1)' end
                if pieces > 20 then return nil end
                collectgarbage()
                local others = {{}}
                for i = 1, 2000 do others[i] = ('x'):rep(i % 40) .. i end
                return ' '
            end, {name})
            return {{pcall(f)}}"
        );
        let answer = wire.call(&["EVAL", &script, "0"]);
        assert_eq!(answer.items()[1..], [Frame::bulk(&format!("{shown}:1: 1"))]);
    }
}

#[test]
fn slow_senders_hold_nobody_up() {
    let server = spawn();
    let mut slow: Vec<Wire> = (0..50).map(|_| Wire::connect(address(&server))).collect();
    let mut good = Wire::connect(address(&server));
    let bytes = request(&["ECHO", "patience"]);
    for byte in &bytes {
        for wire in &mut slow {
            wire.send(std::slice::from_ref(byte));
        }
        assert_eq!(good.ask("PING"), pong());
    }
    for wire in &mut slow {
        assert_eq!(wire.expect(), Frame::bulk("patience"));
    }
}

#[test]
fn a_pipeline_of_slow_requests_lets_others_in_between_and_is_run_to_its_end() {
    const PAIRS: usize = 500;
    let server = start(Server::builder().threads(1));
    let mut good = Wire::connect(address(&server));
    // Counting the bits of 50 MB takes milliseconds.
    good.ask("SETBIT large 400000000 1");
    let mut hog = Wire::connect(address(&server));
    hog.send(&[request(&["INCR", "n"]), request(&["BITCOUNT", "large"])].concat().repeat(PAIRS));
    let mut seen = Frame::NullBulk;
    wait_until("its first request", || {
        seen = good.ask("GET n");
        seen != Frame::NullBulk
    });
    assert!(seen.text().parse::<usize>().expect("a number") < PAIRS, "it was served alone");
    assert_eq!(good.ask("DEL large"), Frame::Integer(1));
    let replies: Vec<Frame> = (0..2 * PAIRS).map(|_| hog.expect()).collect();
    let counted = replies.iter().step_by(2).map(Frame::integer);
    assert!(counted.eq(1..=PAIRS as i64), "{replies:?}");
    let bits: Vec<i64> = replies.iter().skip(1).step_by(2).map(Frame::integer).collect();
    assert!(bits.is_sorted_by(|a, b| a >= b) && bits[0] == 1 && bits[PAIRS - 1] == 0, "{bits:?}");
}

#[test]
fn a_client_that_never_reads_is_closed_at_its_output_limit() {
    let server = ServerProcess::redouble(&["--client-output-buffer-limit", "normal", "8mb", "0", "0"]);
    let mut good = Wire::connect(server.address());
    assert_eq!(good.call(&[b"SET".as_slice(), b"large", &vec![b'x'; MB]]), Frame::status("OK"));
    let before = server.resident();

    let mut hog = TcpStream::connect(server.address()).expect("a connection");
    hog.set_write_timeout(Some(crate::support::wire::PATIENCE)).expect("a time-out");
    // The requests exceed the limit and the socket buffers, so the server closes the connection.
    let asked = (0..1000).take_while(|_| hog.write_all(&request(&["GET", "large"])).is_ok()).count();
    assert_eq!(good.ask("PING"), pong());
    // Whoever reads as fast as the server writes is not closed.
    let port = hog.local_addr().expect("an address").port();
    wait_until("the client is closed", || !good.ask("CLIENT LIST").text().contains(&format!(":{port} ")));
    let mut taken = 0;
    let mut chunk = vec![0; MB];
    hog.set_read_timeout(Some(crate::support::wire::PATIENCE)).expect("a time-out");
    loop {
        match hog.read(&mut chunk) {
            Ok(0) => break,
            Ok(read) => taken += read,
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => break,
            Err(error) => panic!("the server neither answers nor closes: {error}"),
        }
    }
    assert!(taken < asked * MB, "all of it was sent after all");
    let grown = server.resident().saturating_sub(before);
    assert!(grown < 64 * MB, "one client took {} MB", grown / MB);
    assert_unaffected(server.address());
}

#[test]
fn a_client_that_pipelines_without_reading_does_not_fill_the_memory() {
    let server = ServerProcess::redouble(&["--client-output-buffer-limit", "normal", "4mb", "0", "0"]);
    let before = server.resident();
    let hog = TcpStream::connect(server.address()).expect("a connection");
    hog.set_nonblocking(true).expect("a socket that does not wait");
    let batch = request(&["ECHO", &"x".repeat(1000)]).repeat(1000);
    let mut good = Wire::connect(server.address());
    let mut sent = 0;
    // Each turn writes what the socket takes; the round trips give the server time to read it.
    for _ in 0..400 {
        match (&hog).write(&batch) {
            Ok(written) => sent += written,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_closed) => break,
        }
        assert_eq!(good.ask("PING"), pong());
    }
    let grown = server.resident().saturating_sub(before);
    assert!(grown < 48 * MB, "{} MB sent, {} MB taken", sent / MB, grown / MB);
}

#[test]
fn a_transaction_that_never_runs_does_not_fill_the_memory() {
    let server = ServerProcess::redouble(&["--client-query-buffer-limit", "4mb"]);
    let mut wire = Wire::connect(server.address());
    assert_eq!(wire.ask("MULTI"), Frame::status("OK"));
    let command = request(&["SET", "k", &"x".repeat(MB)]);
    let is_queued = |answer| matches!(answer, Ok(frame) if frame == Frame::status("QUEUED"));
    let queued = (0..100).take_while(|_| wire.send(&command) && is_queued(wire.read())).count();
    assert!(queued < 5, "{queued} MB wait for EXEC");
    assert_unaffected(server.address());
}

#[test]
fn a_transaction_whose_replies_are_too_long_ends_the_connection_but_not_halfway() {
    let server = ServerProcess::redouble(&["--client-output-buffer-limit", "normal", "8mb", "0", "0"]);
    let mut good = Wire::connect(server.address());
    assert_eq!(good.call(&[b"SET".as_slice(), b"large", &vec![b'x'; MB]]), Frame::status("OK"));
    let before = server.resident();
    let mut hog = Wire::connect(server.address());
    assert_eq!(hog.ask("MULTI"), Frame::status("OK"));
    for _ in 0..200 {
        assert_eq!(hog.ask("GET large"), Frame::status("QUEUED"));
    }
    assert_eq!(hog.ask("SET last 1"), Frame::status("QUEUED"));
    assert!(hog.send(&request(&["EXEC"])));
    assert!(hog.is_closed());
    assert_eq!(good.ask("GET last"), Frame::bulk("1"));
    let grown = server.resident().saturating_sub(before);
    assert!(grown < 48 * MB, "one client took {} MB", grown / MB);
}

#[test]
fn one_client_too_many_is_told_so() {
    let server = spawn();
    let mut first = Wire::connect(address(&server));
    assert_eq!(first.ask("CONFIG SET maxclients 3"), Frame::status("OK"));
    let mut others = [Wire::connect(address(&server)), Wire::connect(address(&server))];
    for other in &mut others {
        assert_eq!(other.ask("PING"), pong());
    }
    for _ in 0..3 {
        let mut refused = Wire::connect(address(&server));
        assert_eq!(refused.read_to_end(), b"-ERR max number of clients reached\r\n");
    }
    assert!(first.ask("INFO stats").text().contains("rejected_connections:3\r\n"));
    // A closed connection makes room for a new one.
    let [gone, mut stays] = others;
    let id = { gone }.ask("CLIENT ID").integer();
    stays.ask_until("CLIENT LIST", |list| !list.contains(&format!("id={id} ")));
    let mut next = Wire::connect(address(&server));
    assert_eq!(next.ask("PING"), pong());
    assert_eq!(stays.ask("PING"), pong());
}

#[test]
fn ten_thousand_idle_connections_leave_room_for_those_that_work() {
    const IDLE: usize = 10_000;
    raise_file_limit(IDLE as u64 + 500);
    let server = ServerProcess::redouble(&["--maxclients", "10100"]);
    let mut good = Wire::connect(server.address());
    assert_eq!(good.ask("PING"), pong());
    let before = server.resident();
    let connections: Vec<TcpStream> = thread::scope(|scope| {
        let halves: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| (0..IDLE / 2).map(|_| TcpStream::connect(server.address()).expect("a place")).collect())
            })
            .collect();
        halves.into_iter().flat_map(|half| half.join().unwrap_or_else(|_| Vec::new())).collect()
    });
    assert_eq!(connections.len(), IDLE);
    // The server may still be accepting connections.
    let connected = format!("connected_clients:{}\r\n", IDLE + 1);
    good.ask_until("INFO clients", |info| info.contains(&connected));
    let grown = server.resident().saturating_sub(before);
    assert!(grown < IDLE * 4096, "an idle connection takes {} bytes", grown / IDLE);
    for turn in 0..1000 {
        assert_eq!(good.ask(&format!("SET k {turn}")), Frame::status("OK"));
    }
    // Connections that were idle are served like any other.
    for mut idle in connections.iter().step_by(997) {
        idle.write_all(b"PING\r\n").expect("it is connected");
        let mut answer = [0; 7];
        idle.read_exact(&mut answer).expect("an answer");
        assert_eq!(&answer, b"+PONG\r\n");
    }
    drop(connections);
    good.ask_until("INFO clients", |info| info.contains("connected_clients:1\r\n"));
}

/// Raises the limit of open files for this process and its children.
fn raise_file_limit(wanted: u64) {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= wanted) {
        return;
    }
    let maximum = limit.maximum;
    assert!(
        maximum.is_none_or(|maximum| maximum >= wanted),
        "this test opens {wanted} files, and `ulimit -Hn` allows {maximum:?}: raise it"
    );
    setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum }).expect("within the hard limit");
}

#[test]
fn connections_that_come_and_go_leave_nothing_behind() {
    let server = ServerProcess::redouble(&[]);
    let mut good = Wire::connect(server.address());
    let mut visit = |visits: usize| {
        for turn in 0..visits {
            let mut wire = Wire::connect(server.address());
            match turn % 4 {
                0 => {}
                1 => drop(wire.ask("WATCH a b c")),
                2 => assert!(wire.send(b"*3\r\n$3\r\nSET\r\n$1")),
                _ => {
                    wire.ask("MULTI");
                    wire.ask("SET a 1");
                }
            }
        }
        good.ask_until("INFO clients", |info| info.contains("connected_clients:1\r\n"));
    };
    visit(500);
    let before = server.resident();
    visit(3000);
    let grown = server.resident().saturating_sub(before);
    assert!(grown < 4 * MB, "3000 visits left {} kB behind", grown / 1024);
}

#[test]
fn a_client_that_closes_in_the_middle_of_a_reply_is_forgotten() {
    let server = spawn();
    let mut good = Wire::connect(address(&server));
    good.call(&[b"SET".as_slice(), b"large", &vec![b'x'; 8 * MB]]);
    for _ in 0..20 {
        let mut rude = Wire::connect(address(&server));
        rude.send(&request(&["GET", "large"]));
        rude.read_bytes(1000);
    }
    good.ask_until("INFO clients", |info| info.contains("connected_clients:1\r\n"));
    assert_eq!(good.ask("PING"), pong());
}

#[test]
fn a_closed_connection_is_seen_as_such() {
    let server = spawn();
    let mut wire = Wire::connect(address(&server));
    wire.ask("QUIT");
    assert!(matches!(wire.read(), Err(ReadError::Closed)));
}

#[test]
fn replies_to_a_client_that_left_are_not_given_to_the_next_one() {
    let server = spawn();
    let mut good = Wire::connect(address(&server));
    assert_eq!(good.ask(&format!("SET secret {}", "s".repeat(100))), Frame::status("OK"));
    for _ in 0..50 {
        let mut rude = Wire::connect(address(&server));
        // The replies exceed the socket buffer, and the client resets the connection while they are written.
        rude.send(&request(&["GET", "secret"]).repeat(5_000));
        drop(rude);
        let mut next = Wire::connect(address(&server));
        assert_eq!(next.ask("PING"), pong());
        assert_eq!(good.ask("PING"), pong());
    }
}
