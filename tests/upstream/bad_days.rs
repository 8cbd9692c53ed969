//! Days on which the server is absent, slow, broken or wrong. The client sees what it sees without redouble, the log says
//! what happened, the journal says what is known of each command, and nothing is sent twice.

use std::fmt::Debug;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use socket2::{Domain, Socket, Type};

use crate::place::{Place, both_ways_with};
use crate::support::process::ServerProcess;
use crate::support::scripted::Step::{
    AnswerAll, Close, Drip, FinishSending, Hang, Read as ReadOne, ReadMany, Repeat, Reset, Send,
};
use crate::support::scripted::{ScriptedServer, Step, say};
use crate::support::upstream::{Front, outcomes};
use crate::support::wire::{Frame, PATIENCE, Wire, request};
use crate::support::{wait_for, wait_until};

const MEGABYTE: usize = 1 << 20;

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Closed,
    Reset,
}

/// What a client has read, and how its connection ended then.
type Sight = (String, End);

/// A client at the level of packets.
struct Client(TcpStream);

impl Client {
    fn connect(address: SocketAddr) -> Self {
        let socket = TcpStream::connect(address).expect("somebody listens");
        socket.set_nodelay(true).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.set_write_timeout(Some(PATIENCE)).unwrap();
        Self(socket)
    }

    fn send(&mut self, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        // The server may be gone already. What the client reads then tells.
        let _ = self.0.write_all(&request(&words));
    }

    #[track_caller]
    fn read(&mut self, count: usize) -> String {
        let mut bytes = vec![0; count];
        self.0.read_exact(&mut bytes).expect("so many bytes");
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Reads until the connection ends.
    #[track_caller]
    fn rest(&mut self) -> Sight {
        let mut bytes = Vec::new();
        let end = match self.0.read_to_end(&mut bytes) {
            Ok(_) => End::Closed,
            Err(error) if error.kind() == ErrorKind::ConnectionReset => End::Reset,
            Err(error) => panic!("{error} after {:?}", String::from_utf8_lossy(&bytes)),
        };
        (String::from_utf8_lossy(&bytes).into_owned(), end)
    }
}

fn closed(bytes: &str) -> Sight {
    (bytes.to_owned(), End::Closed)
}

/// A misbehaving server with redouble in front of it, after a story.
struct Day {
    front: Front,
    server: ScriptedServer,
    clients: usize,
}

/// Plays a story to clients of a misbehaving server, directly and through redouble. Clients must see the same, and the
/// server must hear these requests on each connection, and not one more.
#[track_caller]
fn both_ways<T: PartialEq + Debug>(
    scripts: &[Vec<Step>],
    requests: &[&[&str]],
    story: impl Fn(SocketAddr) -> T,
) -> (T, Day) {
    let heard = |server: &ScriptedServer| {
        server.until(&format!("{requests:?}"), |heard| {
            heard.len() == requests.len() && heard.iter().zip(requests).all(|(heard, want)| heard.requests == *want)
        });
    };
    let server = ScriptedServer::start(scripts);
    let direct = story(server.address());
    heard(&server);
    drop(server);
    let server = ScriptedServer::start(scripts);
    let front = Front::of(&server.url());
    let through = story(front.address());
    heard(&server);
    assert_eq!(through, direct, "through redouble, and then as it is without");
    (through, Day { front, server, clients: requests.len() })
}

impl Day {
    /// Waits until the journal has these entries. The words of a list are `GET k: unknown`.
    #[track_caller]
    fn recorded(&self, wanted: &[&str]) {
        let mut wire = Wire::connect(self.front.address());
        wait_for(format_args!("{wanted:?} in the journal"), || {
            let seen = outcomes(&crate::support::upstream::journal(&mut wire, ""));
            if seen == wanted { Ok(()) } else { Err(seen) }
        });
        // The connection that asked is the only one that was added.
        assert_eq!(self.server.heard().len(), self.clients + 1, "nothing is connected again behind a client's back");
        let asked = self.server.heard()[self.clients].requests.join(" ");
        assert!(!asked.contains("REDOUBLE"), "REDOUBLE commands do not reach the server: {asked}");
    }

    /// Waits for a line of the log that names the server and has one of these words.
    #[track_caller]
    fn logged(&self, one_of: &[&str]) {
        logged(&self.front, &self.server.address().to_string(), one_of);
    }
}

#[track_caller]
fn logged(front: &Front, name: &str, one_of: &[&str]) {
    wait_for(format_args!("a line about {name} with one of {one_of:?} in the log"), || {
        let log = front.log();
        let says = |line: &str| line.contains(name) && one_of.iter().any(|word| line.to_lowercase().contains(word));
        if log.lines().any(says) { Ok(()) } else { Err(log) }
    });
}

/// Whether a line of the log about the upstream has one of these words. What a client has seen is logged before.
fn is_logged(front: &Front, one_of: &[&str]) -> bool {
    let log = front.log().to_lowercase();
    log.lines().any(|line| line.contains("upstream") && one_of.iter().any(|word| line.contains(word)))
}

/// A bound address on which nobody listens yet.
fn absent() -> (Socket, SocketAddr) {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    (socket, address)
}

// ---- nobody there

#[test]
fn a_server_that_is_absent_at_the_start_is_found_by_the_first_client_that_comes_after_it() {
    let (socket, address) = absent();
    let front = Front::of(&format!("redis://{address}"));
    for _ in 0..3 {
        let mut client = Client::connect(front.address());
        client.send("SET k v");
        let (bytes, _) = client.rest();
        assert_eq!(bytes, "", "a client without a server gets no reply from anybody");
    }
    logged(&front, &address.to_string(), &["refused"]);
    socket.listen(16).unwrap();
    let server = ScriptedServer::listen(TcpListener::from(socket), &[vec![AnswerAll]]);
    assert_eq!(Wire::connect(front.address()).ask("PING"), Frame::status("OK"));
    assert_eq!(server.heard()[0].requests, ["PING"], "what was asked while nobody was there is asked by nobody again");
    assert_eq!(front.journal("outcome unknown").len(), 0, "it was never sent");
    assert_eq!(front.journal("outcome answered").len(), 1);
}

#[test]
fn a_client_without_a_server_is_closed_at_once_even_if_it_only_listens() {
    let (_socket, address) = absent();
    let front = Front::of(&format!("redis://{address}"));
    assert_eq!(Client::connect(front.address()).rest().0, "");
}

#[test]
fn a_server_that_goes_and_comes_back_is_lost_by_its_clients_and_found_by_new_ones() {
    let redis = ServerProcess::redis(&["--save", ""]);
    let port = redis.address().port().to_string();
    let front = Front::of(&redis.url());
    let mut idle = Client::connect(front.address());
    let mut blocked = Client::connect(front.address());
    idle.send("PING");
    assert_eq!(idle.read(7), "+PONG\r\n");
    blocked.send("BLPOP list 0");
    Wire::connect(redis.address()).ask_until("INFO clients", |info| info.contains("blocked_clients:1\r"));
    drop(redis);
    assert_eq!(idle.rest().0, "");
    assert_eq!(blocked.rest().0, "");
    logged(&front, &port, &["closed", "broke", "ended", "reset"]);
    assert_eq!(Client::connect(front.address()).rest().0, "");
    let again = ServerProcess::redis(&["--save", "", "--port", &port]);
    let mut client = Wire::connect(front.address());
    assert_eq!(client.ask("PING"), Frame::status("PONG"));
    assert_eq!(
        outcomes(&crate::support::upstream::journal(&mut client, "")),
        ["PING: answered", "BLPOP list 0: unknown", "PING: answered"]
    );
    let info = Wire::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port.parse().unwrap()))).ask("INFO stats").text();
    // This connection and that of the client: nobody else has been connected again.
    assert!(info.contains("total_connections_received:2\r"), "{info}");
    drop(again);
}

#[test]
fn troubles_that_differ_are_both_in_the_log() {
    let redis = ServerProcess::redis(&["--save", ""]);
    let port = redis.address().port().to_string();
    let front = Front::of(&redis.url());
    let mut blocked = Client::connect(front.address());
    blocked.send("BLPOP list 0");
    Wire::connect(redis.address()).ask_until("INFO clients", |info| info.contains("blocked_clients:1\r"));
    drop(redis);
    assert_eq!(blocked.rest().0, "");
    logged(&front, &port, &["closed", "broke", "ended", "reset"]);
    assert_eq!(Client::connect(front.address()).rest().0, "");
    logged(&front, &port, &["refused"]);
}

#[test]
fn a_server_that_does_not_accept_is_given_up_after_the_timeout_that_was_asked_for() {
    let (socket, address) = absent();
    socket.listen(0).unwrap();
    // The queue of connections that wait for `accept` is full then, and the machine drops what comes.
    let filling: Vec<Socket> = (0..8)
        .map(|_| {
            let filler = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
            filler.set_nonblocking(true).unwrap();
            let _ = filler.connect(&address.into());
            filler
        })
        .collect();
    let front = Front::start(&[&format!("redis://{address}")], &["--upstream-timeout", "300ms"]);
    let mut client = Client::connect(front.address());
    client.send("SET k v");
    assert_eq!(client.rest().0, "");
    logged(&front, &address.to_string(), &["timed out", "timeout", "300ms", "within", "in time"]);
    drop(filling);
}

#[test]
fn a_name_that_nobody_has_is_named_in_the_log_and_its_clients_are_closed() {
    let front = Front::of("redis://no-such-host.invalid:6379");
    assert_eq!(Client::connect(front.address()).rest().0, "");
    logged(&front, "no-such-host.invalid", &["lookup", "resolve", "name", "address"]);
}

#[test]
fn a_unix_socket_that_is_not_there_is_named_in_the_log_and_its_clients_are_closed() {
    let front = Front::of("unix:/nonexistent/redis.sock");
    assert_eq!(Client::connect(front.address()).rest().0, "");
    logged(&front, "/nonexistent/redis.sock", &["no such file"]);
}

// ---- connections that end

#[test]
fn a_server_that_closes_every_connection_at_once_closes_its_clients() {
    let (sight, day) = both_ways(&[vec![Close]], &[&[]], |server| Client::connect(server).rest());
    assert_eq!(sight, closed(""));
    day.recorded(&[]);
}

#[test]
fn a_server_that_is_full_says_so_to_its_client_before_it_closes() {
    let (sight, day) = both_ways(&[vec![say("-ERR max number of clients reached\r\n"), Close]], &[&[]], |server| {
        Client::connect(server).rest()
    });
    assert_eq!(sight, closed("-ERR max number of clients reached\r\n"));
    day.recorded(&[]);
    day.logged(&["max number of clients reached", "closed", "unasked", "before"]);
}

#[test]
fn a_command_whose_connection_closes_before_its_reply_may_have_run() {
    let (sight, day) = both_ways(&[vec![ReadOne, Close]], &[&["INCR n"]], |server| {
        let mut client = Client::connect(server);
        client.send("INCR n");
        client.rest()
    });
    assert_eq!(sight, closed(""));
    day.logged(&["closed", "broke", "ended"]);
    day.recorded(&["INCR n: unknown"]);
}

#[test]
fn a_reset_is_a_reset_for_the_client_too() {
    let (sight, day) = both_ways(&[vec![ReadOne, Reset]], &[&["INCR n"]], |server| {
        let mut client = Client::connect(server);
        client.send("INCR n");
        client.rest()
    });
    assert_eq!(sight, (String::new(), End::Reset));
    day.logged(&["reset"]);
    day.recorded(&["INCR n: unknown"]);
}

#[test]
fn half_a_reply_reaches_the_client_before_its_connection_closes() {
    let (sight, day) = both_ways(&[vec![ReadOne, say("$10\r\nhello"), Close]], &[&["GET k"]], |server| {
        let mut client = Client::connect(server);
        client.send("GET k");
        client.rest()
    });
    assert_eq!(sight, closed("$10\r\nhello"));
    day.logged(&["closed", "broke", "ended"]);
    day.recorded(&["GET k: unknown"]);
}

#[test]
fn half_a_reply_is_there_while_the_other_half_is_waited_for() {
    let (sight, day) = both_ways(
        &[vec![ReadOne, say("*2\r\n$1\r\na\r\n$1"), ReadOne, say("\r\nb\r\n"), Close]],
        &[&["LRANGE l 0 -1", "PING"]],
        |server| {
            let mut client = Client::connect(server);
            client.send("LRANGE l 0 -1");
            let half = client.read(13);
            client.send("PING");
            (half, client.rest())
        },
    );
    assert_eq!(sight, ("*2\r\n$1\r\na\r\n$1".to_owned(), closed("\r\nb\r\n")));
    day.recorded(&["LRANGE l 0 -1: answered", "PING: unknown"]);
}

#[test]
fn of_a_pipeline_that_breaks_off_each_command_has_the_outcome_that_is_known() {
    let (sight, day) =
        both_ways(&[vec![ReadMany(3), say("+OK\r\n:1"), Close]], &[&["SET k v", "INCR n", "INCR n"]], |server| {
            let mut client = Client::connect(server);
            let pipeline = [request(&["SET", "k", "v"]), request(&["INCR", "n"]), request(&["INCR", "n"])].concat();
            client.0.write_all(&pipeline).unwrap();
            client.rest()
        });
    assert_eq!(sight, closed("+OK\r\n:1"));
    day.recorded(&["SET k v: answered", "INCR n: unknown", "INCR n: unknown"]);
}

#[test]
fn a_connection_that_closes_while_nothing_is_asked_closes_its_client() {
    let (sight, day) = both_ways(&[vec![ReadOne, say("+PONG\r\n"), Close]], &[&["PING"]], |server| {
        let mut client = Client::connect(server);
        client.send("PING");
        client.rest()
    });
    assert_eq!(sight, closed("+PONG\r\n"));
    day.recorded(&["PING: answered"]);
}

#[test]
fn a_server_that_only_stops_sending_has_closed_the_connection_for_its_client() {
    let (sight, day) = both_ways(&[vec![ReadOne, say("+OK\r\n"), FinishSending]], &[&["SET k v"]], |server| {
        let mut client = Client::connect(server);
        client.send("SET k v");
        client.rest()
    });
    assert_eq!(sight, closed("+OK\r\n"));
    day.recorded(&["SET k v: answered"]);
}

// ---- clients that end

#[test]
fn a_client_that_gives_up_takes_its_connection_to_the_server_with_it() {
    let (_, day) = both_ways(&[vec![ReadOne, say("$10\r\nhel")]], &[&["GET k"]], |server| {
        let mut client = Client::connect(server);
        client.send("GET k");
        client.read(8)
    });
    day.server.until("the end of the connection", |heard| heard[0].left);
    day.recorded(&["GET k: unknown"]);
}

#[test]
fn a_client_that_leaves_in_the_middle_of_a_request_has_sent_none() {
    let (_, day) = both_ways(&[vec![]], &[&[]], |server| {
        let mut client = Client::connect(server);
        client.0.write_all(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$100\r\nhalf").unwrap();
    });
    day.server.until("the end of the connection", |heard| heard[0].left);
    day.recorded(&[]);
}

#[test]
fn a_client_that_stops_sending_gets_the_replies_to_what_it_has_sent() {
    let script = vec![ReadMany(2), say("+OK\r\n"), Drip(b"$5\r\nhello\r\n".to_vec()), Close];
    let (sight, day) = both_ways(&[script], &[&["SET k v", "GET k"]], |server| {
        let mut client = Client::connect(server);
        client.0.write_all(&[request(&["SET", "k", "v"]), request(&["GET", "k"])].concat()).unwrap();
        client.0.shutdown(Shutdown::Write).unwrap();
        client.rest()
    });
    assert_eq!(sight, closed("+OK\r\n$5\r\nhello\r\n"));
    day.recorded(&["SET k v: answered", "GET k: answered"]);
}

#[test]
fn a_server_that_hangs_keeps_redouble_from_nothing() {
    let server = ScriptedServer::start(&[vec![Hang], vec![AnswerAll]]);
    let mut front = Front::of(&server.url());
    let mut stuck = Client::connect(front.address());
    stuck.send("SET k v");
    let mut other = Wire::connect(front.address());
    server.until("two connections", |heard| heard.len() == 2);
    assert_eq!(other.ask("PING"), Frame::status("OK"));
    assert_eq!(other.ask("REDOUBLE JOURNAL COUNT on PING"), Frame::Integer(1));
    front.terminate();
    wait_until("redouble to end", || !front.is_alive());
}

// ---- replies that are none

/// What servers, and what is no server, have been seen to say.
const GARBAGE: &[&[u8]] = &[
    b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n",
    b"\x00\x01\x02\x03\xff\xfe",
    b"\x15\x03\x01\x00\x02\x02\x50",
    b"$abc\r\n",
    b"$-2\r\n",
    b"*-5\r\n",
    b"\r\n",
    b"OK\r\n",
    b"$99999999999999999999999\r\n",
    b"*99999999999999999999999\r\n",
    b"%-1\r\n",
    b"ERR no sign in front\n",
];

#[test]
fn whatever_the_server_says_the_client_reads_and_the_log_names() {
    let mut missing = Vec::new();
    for garbage in GARBAGE {
        let script = vec![ReadOne, Send(garbage.to_vec()), ReadOne, say("+still here\r\n"), Close];
        let (sight, day) = both_ways(&[script], &[&["GET k", "PING"]], |server| {
            let mut client = Client::connect(server);
            client.send("GET k");
            let said = client.read(garbage.len());
            client.send("PING");
            (said, client.rest())
        });
        assert_eq!(sight.1, closed("+still here\r\n"), "{garbage:?}");
        let said = String::from_utf8_lossy(garbage);
        if !is_logged(&day.front, &["protocol", "resp", "no reply", "cannot be read"]) {
            missing.push(said);
        }
        // What cannot be understood is not known: it is no reply that was seen.
        let mut wire = Wire::connect(day.front.address());
        assert_eq!(wire.ask("REDOUBLE JOURNAL COUNT on GET outcome answered"), Frame::Integer(0), "{garbage:?}");
        assert_eq!(wire.ask("REDOUBLE JOURNAL COUNT on PING outcome answered"), Frame::Integer(0), "{garbage:?}");
    }
    assert!(missing.is_empty(), "the log says nothing of {missing:?}");
}

#[test]
fn lines_that_make_no_sense_are_replies_all_the_same() {
    for line in [
        "+\r\n",
        "-\r\n",
        ":notanumber\r\n",
        ",x\r\n",
        "#x\r\n",
        "(1x\r\n",
        "$-1\r\n",
        "*-1\r\n",
        "_\r\n",
        "*0\r\n",
        "$0\r\n\r\n",
        "$5\r\nhelloXX",
    ] {
        let script = vec![ReadOne, say(line), ReadOne, say("+PONG\r\n"), Close];
        let (sight, day) = both_ways(&[script], &[&["GET k", "PING"]], |server| {
            let mut client = Client::connect(server);
            client.send("GET k");
            let said = client.read(line.len());
            client.send("PING");
            (said, client.rest())
        });
        assert_eq!(sight, (line.to_owned(), closed("+PONG\r\n")));
        day.recorded(&["GET k: answered", "PING: answered"]);
    }
}

#[test]
fn what_is_said_before_anything_was_asked_is_passed_on_and_answers_nothing() {
    let script = vec![say("+hello there\r\n"), ReadOne, say("$1\r\nv\r\n"), Close];
    let (sight, day) = both_ways(&[script], &[&["GET k"]], |server| {
        let mut client = Client::connect(server);
        let greeting = client.read(14);
        client.send("GET k");
        (greeting, client.rest())
    });
    assert_eq!(sight, ("+hello there\r\n".to_owned(), closed("$1\r\nv\r\n")));
    let mut wire = Wire::connect(day.front.address());
    assert_eq!(wire.ask("REDOUBLE JOURNAL COUNT reply *hello*"), Frame::Integer(0));
}

#[test]
fn two_replies_to_one_command_both_arrive_and_the_next_command_is_not_given_the_second() {
    let script = vec![ReadOne, say(":1\r\n:2\r\n"), ReadOne, say("+PONG\r\n"), Close];
    let (sight, _day) = both_ways(&[script], &[&["INCR n", "PING"]], |server| {
        let mut client = Client::connect(server);
        client.send("INCR n");
        let both = client.read(8);
        client.send("PING");
        (both, client.rest())
    });
    assert_eq!(sight, (":1\r\n:2\r\n".to_owned(), closed("+PONG\r\n")));
}

#[test]
fn a_reply_of_a_million_arrays_in_each_other_harms_nobody() {
    let deep = b"*1\r\n".repeat(1_000_000);
    let (sight, mut day) = both_ways(&[vec![ReadOne, Send(deep.clone()), Close]], &[&["GET k"]], |server| {
        let mut client = Client::connect(server);
        client.send("GET k");
        client.rest().0.len()
    });
    assert_eq!(sight, deep.len());
    assert!(day.front.is_alive());
    day.recorded(&["GET k: unknown"]);
}

#[test]
fn lengths_that_are_only_claimed_take_no_memory() {
    for claim in ["*2147483647\r\n:1\r\n", "$536870912\r\nabc", "%1073741823\r\n+a\r\n", ">2147483647\r\n+message\r\n"]
    {
        let server = ScriptedServer::start(&[vec![ReadOne, say(claim)]]);
        let front = Front::of(&server.url());
        let before = front.resident();
        let mut client = Client::connect(front.address());
        client.send("GET k");
        assert_eq!(client.read(claim.len()), claim);
        let grown = front.most_resident().saturating_sub(before);
        assert!(grown < 16 * MEGABYTE, "{claim:?}: {grown} bytes");
    }
}

#[test]
fn a_reply_of_a_gigabyte_passes_through_little_memory() {
    let pieces = 1024;
    let header = format!("${}\r\n", pieces * MEGABYTE);
    let script = vec![ReadOne, say(&header), Repeat(vec![b'x'; MEGABYTE], pieces), say("\r\n"), Close];
    let server = ScriptedServer::start(&[script]);
    let front = Front::of(&server.url());
    let before = front.resident();
    let mut client = Client::connect(front.address());
    client.send("GET k");
    let mut read = 0;
    let mut chunk = vec![0; MEGABYTE];
    loop {
        match client.0.read(&mut chunk).unwrap() {
            0 => break,
            count => read += count,
        }
    }
    assert_eq!(read, header.len() + pieces * MEGABYTE + 2);
    let grown = front.most_resident().saturating_sub(before);
    assert!(grown < 32 * MEGABYTE, "{grown} bytes");
    front.until_recorded("on GET outcome answered", 1);
}

// ---- back-pressure

/// Sends pieces until one is not taken for a second, or this many were. Returns how many bytes were taken.
fn send_until_stuck(client: &mut Client, piece: &[u8], most: usize) -> usize {
    client.0.set_write_timeout(Some(Duration::from_secs(1))).unwrap();
    let mut sent = 0;
    while sent < most {
        match client.0.write(piece) {
            Ok(count) => sent += count,
            Err(_) => break,
        }
    }
    sent
}

#[test]
fn a_server_that_does_not_read_stops_its_client_and_nobody_else() {
    let piece = request(&["SET", "k", &"x".repeat(MEGABYTE)]);
    let server = ScriptedServer::start(&[vec![Hang], vec![AnswerAll]]);
    let front = Front::of(&server.url());
    let before = front.resident();
    let mut stuck = Client::connect(front.address());
    server.until("the first connection", |heard| heard.len() == 1);
    let sent = send_until_stuck(&mut stuck, &piece, 512 * MEGABYTE);
    assert!(sent < 512 * MEGABYTE, "everything was taken, and nobody has read it");
    let grown = front.most_resident().saturating_sub(before);
    assert!(grown < 32 * MEGABYTE, "{grown} bytes");
    assert_eq!(Wire::connect(front.address()).ask("PING"), Frame::status("OK"));
}

#[test]
fn a_server_that_reads_and_never_answers_makes_nothing_grow_without_bound() {
    for piece in [request(&["SET", "k", &"x".repeat(1024)]), request(&["PING"])] {
        let server = ScriptedServer::start(&[vec![]]);
        let front = Front::of(&server.url());
        let before = front.resident();
        let mut client = Client::connect(front.address());
        send_until_stuck(&mut client, &piece.repeat(65_536 / piece.len()), 128 * MEGABYTE);
        let grown = front.most_resident().saturating_sub(before);
        // The journal may take 64 MB, and knows nothing yet.
        assert!(grown < 128 * MEGABYTE, "{grown} bytes for requests of {} bytes", piece.len());
    }
}

#[test]
fn a_client_that_does_not_read_stops_its_own_connection_to_the_server() {
    let server = ScriptedServer::start(&[vec![ReadOne, Repeat(vec![b'x'; MEGABYTE], 512)], vec![AnswerAll]]);
    let front = Front::of(&server.url());
    let before = front.resident();
    let mut slow = Client::connect(front.address());
    server.until("the first connection", |heard| heard.len() == 1);
    slow.send("GET k");
    let mut other = Wire::connect(front.address());
    for _ in 0..2000 {
        assert_eq!(other.ask("PING"), Frame::status("OK"));
    }
    let grown = front.most_resident().saturating_sub(before);
    assert!(grown < 32 * MEGABYTE, "{grown} bytes");
}

// ---- passwords

#[test]
fn a_wrong_password_of_redoubles_own_is_in_the_log_and_the_client_sees_that_it_is_not_authenticated() {
    let redis = ServerProcess::redis(&["--save", "", "--requirepass", "secret"]);
    let front = Front::of(&format!("redis://:wrong@{}", redis.address()));
    let mut client = Wire::connect(front.address());
    assert_eq!(client.ask("GET k"), Frame::error("NOAUTH Authentication required."));
    front.until_logged(&["WRONGPASS"]);
    assert!(!front.log().contains(":wrong@"), "no password stands in the log:\n{}", front.log());
    assert_eq!(client.ask("AUTH secret"), Frame::status("OK"));
    assert_eq!(client.ask("GET k"), Frame::NullBulk);
}

#[test]
fn a_password_and_a_database_of_the_url_are_given_before_anything_else_and_their_replies_are_not_the_clients() {
    let redis = ServerProcess::redis(&["--save", "", "--requirepass", "secret"]);
    let front = Front::of(&format!("redis://default:secret@{}/3", redis.address()));
    let mut client = Wire::connect(front.address());
    client.send(&[request(&["SET", "k", "v"]), request(&["GET", "k"])].concat());
    assert_eq!((client.expect(), client.expect()), (Frame::status("OK"), Frame::bulk("v")));
    let mut direct = Wire::connect(redis.address());
    direct.ask("AUTH secret");
    direct.ask("SELECT 3");
    assert_eq!(direct.ask("GET k"), Frame::bulk("v"));
    let entries = front.journal("");
    assert_eq!(outcomes(&entries), ["SET k v: answered", "GET k: answered"]);
    assert!(entries.iter().all(|entry| entry["db"] == Frame::Integer(3)), "{entries:?}");
    assert!(!front.log().contains("secret"), "{}", front.log());
}

#[test]
fn a_server_that_hangs_before_it_knows_the_password_is_sent_nothing_twice() {
    let server = ScriptedServer::start(&[vec![ReadMany(2), Hang]]);
    let front = Front::of(&format!("redis://:secret@{}", server.address()));
    let mut client = Client::connect(front.address());
    client.send("SET k v");
    server.until("the password", |heard| heard.first().is_some_and(|heard| !heard.requests.is_empty()));
    drop(client);
    assert_eq!(server.heard().len(), 1);
    assert_eq!(server.heard()[0].requests[0], "AUTH secret");
}

// ---- the real server's bad days

#[test]
fn a_server_that_becomes_a_replica_says_so_to_those_who_write_and_to_those_who_wait() {
    let story = |place: &Place| {
        let (mut client, mut waiting, mut server) = (place.client(), place.client(), place.server());
        client.ask("SET k v");
        waiting.send(&request(&["BLPOP", "list", "0"]));
        server.ask_until("INFO clients", |info| info.contains("blocked_clients:1\r"));
        server.ask("REPLICAOF 127.0.0.1 1");
        let unblocked = (waiting.read().map_err(|error| error.to_string()), waiting.is_closed());
        let seen =
            vec![client.ask("SET k w"), client.ask("GET k"), client.ask("EVAL return{redis.call('incr','n')} 0")];
        (unblocked, seen)
    };
    let (_, seen) = both_ways_with(&[], story);
    assert_eq!(seen[0], Frame::error("READONLY You can't write against a read only replica."));
}

#[test]
fn a_client_that_is_killed_by_the_server_has_no_reply_and_a_new_connection_works() {
    both_ways_with(&[], |place| {
        let (mut client, mut server) = (place.client(), place.server());
        client.ask("SET k v");
        client.send(&request(&["BLPOP", "list", "0"]));
        server.ask_until("INFO clients", |info| info.contains("blocked_clients:1\r"));
        server.ask("CLIENT KILL TYPE normal");
        assert!(client.is_closed());
        if let Some(front) = &place.front {
            front.until_recorded("on BLPOP outcome unknown", 1);
        }
        place.client().ask("GET k")
    });
}

#[test]
fn a_full_output_buffer_closes_the_slow_client_alone() {
    both_ways_with(&["--client-output-buffer-limit", "pubsub 1mb 0 0"], |place| {
        let (mut slow, mut quick, mut publisher) = (place.client(), place.client(), place.client());
        slow.ask("SUBSCRIBE news");
        quick.ask("SUBSCRIBE news");
        let text = "x".repeat(MEGABYTE / 4);
        let before = place.front.as_ref().map(Front::resident);
        let closed = (0..1000).any(|_| {
            let reached = publisher.call(&["PUBLISH", "news", &text]).integer();
            assert_eq!(quick.expect().items()[2].text().len(), text.len());
            reached == 1
        });
        assert!(closed, "the server never closes the slow one, so somebody keeps what it does not read");
        if let (Some(front), Some(before)) = (&place.front, before) {
            let grown = front.most_resident().saturating_sub(before);
            assert!(grown < 64 * MEGABYTE, "{grown} bytes");
        }
        assert!(slow.is_closed());
        quick.ask("UNSUBSCRIBE news")
    });
}

#[test]
fn a_server_that_is_shut_down_closes_the_client_that_asked_for_it() {
    both_ways_with(&[], |place| {
        let mut client = place.client();
        client.send(&request(&["SHUTDOWN", "NOSAVE"]));
        client.is_closed()
    });
}

#[test]
fn a_server_that_is_busy_or_loads_answers_so_and_nothing_is_tried_again() {
    let said = "-LOADING Redis is loading the dataset in memory\r\n-BUSY Redis is busy running a script.\r\n";
    let (sight, day) = both_ways(&[vec![ReadMany(2), say(said), Close]], &[&["SET k v", "SET k v"]], |server| {
        let mut client = Client::connect(server);
        client.send("SET k v");
        client.send("SET k v");
        client.rest()
    });
    assert_eq!(sight, closed(said));
    day.recorded(&["SET k v: answered", "SET k v: answered"]);
}
