//! Clients that misuse TLS, or its absence; and what must hold over TLS as over TCP.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use rustls::ClientConfig;

use crate::support::certificates::Certificates;
use crate::support::process::{ServerProcess, free_port};
use crate::support::wait_until;
use crate::support::wire::{Frame, Wire, request};

/// The beginning of every TLS connection.
const HELLO: &[u8] = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";

/// A server with a plain port and one for TLS, and its log.
struct Both {
    server: ServerProcess,
    tls: SocketAddr,
    log: PathBuf,
    certificates: Certificates,
    client: Arc<ClientConfig>,
}

impl Both {
    fn new(name: &str, arguments: &[&str]) -> Self {
        let certificates = Certificates::new(name);
        let port = free_port();
        let log = certificates.folder().join("log");
        let directives = certificates.directives();
        let port_text = port.to_string();
        let mut all = vec!["--tls-port", &port_text, "--tls-auth-clients", "no"];
        all.extend(directives.iter().map(String::as_str));
        all.extend(arguments);
        let server = ServerProcess::redouble_logging_to(&log, &all);
        let client = certificates.client(None);
        Self { server, tls: SocketAddr::from((Ipv4Addr::LOCALHOST, port)), log, certificates, client }
    }

    fn plain(&self) -> Wire {
        Wire::connect(self.server.address())
    }

    fn over_tls(&self) -> Wire {
        Wire::connect_tls(self.tls, &self.client)
    }

    fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    /// The lines of the log with a text. There will be one, perhaps after the client has its answer.
    fn lines(&self, text: &str) -> Vec<String> {
        wait_until(format_args!("'{text}' in the log"), || self.log().contains(text));
        self.log().lines().filter(|line| line.contains(text)).map(str::to_owned).collect()
    }
}

#[test]
fn a_tls_hello_on_a_plain_port_is_answered_at_once_and_named_in_the_log() {
    let both = Both::new("hello", &[]);
    let mut wire = both.plain();
    wire.send(HELLO);
    assert_eq!(wire.read_to_end(), b"-ERR Protocol error: TLS on a port without TLS\r\n");
    let from = wire.tcp().local_addr().unwrap();
    let lines = both.lines("begins with a TLS handshake on a port without TLS");
    let [line] = lines.as_slice() else { panic!("{}", both.log()) };
    assert!(line.contains(&format!("TLS is served on port {}", both.tls.port())), "{line}");
    assert!(line.contains(&format!("addr={from}")), "{line}");
}

#[test]
fn bytes_like_a_hello_inside_a_connection_are_a_request_like_any_other() {
    let both = Both::new("later", &[]);
    let mut wire = both.plain();
    assert_eq!(wire.ask("PING"), Frame::status("PONG"));
    wire.send(b"\x16\x03 x\r\n");
    assert!(wire.expect().text().contains("unknown command '\u{16}\u{3}'"));
}

#[test]
fn a_thousand_hellos_do_not_fill_the_log() {
    let both = Both::new("flood", &[]);
    for _ in 0..1000 {
        let mut wire = both.plain();
        wire.send(HELLO);
        assert!(wire.is_closed());
    }
    let lines = both.lines("begins with a TLS handshake");
    assert!((1..100).contains(&lines.len()), "{}", both.log());
    assert!(both.log().lines().count() < 120, "{}", both.log());
}

#[test]
fn a_plain_request_on_the_tls_port_is_answered_in_plain_text_and_named_in_the_log() {
    let both = Both::new("plain", &[]);
    let mut wire = Wire::connect(both.tls);
    wire.send(b"PING\r\n");
    let reply = String::from_utf8(wire.read_to_end()).unwrap();
    assert_eq!(reply, "-ERR Protocol error: a request without TLS on a port for TLS\r\n");
    let lines = both.lines("Error accepting a client connection: the client does not speak TLS");
    assert_eq!(lines.len(), 1, "{}", both.log());
}

#[test]
fn clients_that_do_not_finish_their_handshake_hold_up_nobody_and_count_as_clients() {
    let both = Both::new("unfinished", &["--maxclients", "20"]);
    let mut plain = both.plain();
    let unfinished: Vec<Wire> = (0..18)
        .map(|number| {
            let mut wire = Wire::connect(both.tls);
            // Some are silent, some stop in the middle.
            wire.send(&HELLO[..number % HELLO.len()]);
            wire
        })
        .collect();
    plain.ask_until("INFO clients", |info| info.contains("connected_clients:19"));
    assert_eq!(both.over_tls().ask("PING"), Frame::status("PONG"));
    plain.ask_until("INFO clients", |info| info.contains("connected_clients:19"));
    let mut last = both.plain();
    assert_eq!(last.ask("PING"), Frame::status("PONG"));
    // One too many: without a handshake, nothing can be said to it.
    let mut refused = Wire::connect(both.tls);
    assert!(refused.is_closed());
    for mut wire in unfinished {
        let address = wire.tcp().local_addr().unwrap();
        assert_eq!(plain.ask(&format!("CLIENT KILL ADDR {address}")), Frame::Integer(1));
        assert!(wire.is_closed());
    }
    assert_eq!(both.over_tls().ask("PING"), Frame::status("PONG"));
}

#[test]
fn a_client_without_a_handshake_is_closed_after_ten_seconds() {
    let both = Both::new("silent", &[]);
    let mut silent = Wire::connect(both.tls);
    let mut begun = Wire::connect(both.tls);
    begun.send(HELLO);
    assert!(silent.is_closed() && begun.is_closed());
    assert!(!both.lines("no TLS handshake within 10 seconds").is_empty(), "{}", both.log());
}

#[test]
fn a_hundred_thousand_pipelined_requests_and_a_reply_of_megabytes_arrive_whole() {
    let both = Both::new("bulk", &[]);
    let mut wire = both.over_tls();
    let value = "v".repeat(20_000_000);
    assert_eq!(wire.call(&["SET", "large", &value]), Frame::status("OK"));
    assert_eq!(wire.ask("GET large"), Frame::bulk(&value));
    let batch: Vec<u8> = (0..1000).flat_map(|_| request(&["INCR", "n"])).collect();
    for round in 0..100_i64 {
        wire.send(&batch);
        for number in 1..=1000 {
            assert_eq!(wire.expect(), Frame::Integer(round * 1000 + number));
        }
    }
}

#[test]
fn a_slow_reader_over_tls_takes_no_more_memory_than_its_replies() {
    let both = Both::new("slow", &["--client-output-buffer-limit", "normal 30mb 0 0"]);
    let mut wire = both.over_tls();
    assert_eq!(wire.call(&["SET", "large", &"v".repeat(4_000_000)]), Frame::status("OK"));
    // Replies for a client that reads none of them: over the limit it is closed, as over TCP.
    let requests: Vec<u8> = (0..50).flat_map(|_| request(&["GET", "large"])).collect();
    wire.send(&requests);
    wait_until("the client to be closed", || both.plain().ask("INFO clients").text().contains("connected_clients:1\r"));
    assert!(both.server.resident() < 200 << 20, "{}", both.server.resident());
}

#[test]
fn faults_and_kills_end_a_connection_over_tls() {
    let both = Both::new("faults", &[]);
    let mut driver = both.plain();
    let mut wire = both.over_tls();
    assert_eq!(driver.ask("REDOUBLE FAULT ADD lost on SET times 1 close-after"), Frame::status("OK"));
    wire.send(&request(&["SET", "k", "1"]));
    assert_eq!(wire.read_to_end(), b"");
    assert_eq!(driver.ask("GET k"), Frame::bulk("1"));
    let mut blocked = both.over_tls();
    blocked.send(&request(&["BLPOP", "queue", "0"]));
    driver.ask_until("INFO clients", |info| info.contains("blocked_clients:1"));
    driver.ask("CLIENT KILL TYPE normal SKIPME yes");
    assert!(blocked.is_closed());
}

#[test]
fn a_client_that_leaves_is_noticed_while_its_command_is_held() {
    let both = Both::new("leaves", &[]);
    let mut driver = both.plain();
    assert_eq!(driver.ask("REDOUBLE GATE ADD door on SET"), Frame::status("OK"));
    let mut wire = both.over_tls();
    assert_eq!(wire.ask("PING"), Frame::status("PONG"));
    wire.send(&request(&["SET", "k", "1"]));
    assert_eq!(driver.ask("REDOUBLE GATE WAIT door 1"), Frame::Integer(1));
    drop(wire);
    // Released, the command finds that its client has left, and does not run.
    driver.ask("REDOUBLE GATE OPEN door");
    driver.ask_until("INFO clients", |info| info.contains("connected_clients:1\r"));
    assert_eq!(driver.ask("EXISTS k"), Frame::Integer(0));
}

#[test]
fn a_client_with_the_certificate_of_a_stranger_is_not_let_in() {
    let both = Both::new("stranger", &[]);
    assert_eq!(both.plain().ask("CONFIG SET tls-auth-clients optional"), Frame::status("OK"));
    assert_eq!(both.over_tls().ask("PING"), Frame::status("PONG"));
    let with = |name| Wire::connect_tls(both.tls, &both.certificates.client(Some(name)));
    assert_eq!(with("client").ask("PING"), Frame::status("PONG"));
    let mut stranger = with("stranger");
    stranger.send(&request(&["PING"]));
    assert!(stranger.read().is_err());
    assert_eq!(both.lines("the client's certificate is signed by an unknown authority").len(), 1, "{}", both.log());
}
