//! The binary under the names of Redis's programs: as `redis-cli` it says, byte by byte, what the real one says.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::symlink;
use std::process::{Command, Output, Stdio};
use std::thread;

use redouble::Server;

use crate::run::{BINARY, Folder, errors, out};
use crate::support::process::ServerProcess;
use crate::support::{self, CHECKED_PROFILE, address, client, client_at, profile};

/// Command lines of `redis-cli` and, behind `<<<`, what it reads. `PORT` is the port of a server, `CLOSED` that of nobody.
const INVOCATIONS: &[&str] = &[
    "-p PORT ping",
    "-p PORT --no-raw ping",
    "-p PORT ping hello",
    "-p PORT --no-raw ping hello",
    "-h localhost -p PORT ping",
    "-c -p PORT ping",
    "-2 -p PORT ping",
    "-p PORT set a b",
    "-p PORT get missing",
    "-p PORT --no-raw get missing",
    "-p PORT incr a",
    "-p PORT --no-raw incr a",
    "-p PORT --no-raw keys *",
    "-p PORT echo é",
    "-p PORT --no-raw echo é",
    "-p PORT select 3",
    "-p PORT lolwut version 1 1 1",
    "-p PORT --no-raw cluster info",
    // Errors, and what they do to the status.
    "-p PORT nosuch command",
    "-p PORT --no-raw nosuch command",
    "-p PORT -e nosuch command",
    "-p PORT -e ping",
    "-p PORT -e <<< nosuch|ping",
    "-p CLOSED ping",
    "-p CLOSED -e ping",
    "-p CLOSED --scan",
    "-p CLOSED <<< ping|ping",
    "-h localhost -p CLOSED ping",
    "-h nosuch.invalid -p CLOSED ping",
    "-s /nosuch/socket ping",
    "-s /nosuch/socket -c ping",
    "-p PORT --bogus",
    "-p",
    "-p PORT -2 -3 ping",
    "-p PORT --eval /nosuch/script.lua",
    // Passwords, users, databases, URLs.
    "-p PORT -a wrong ping",
    "-p PORT -a secret ping",
    "-p PORT --pass secret --no-auth-warning ping",
    "-p PORT --no-auth-warning --user default -a secret ping",
    "-p PORT --no-auth-warning --user bob -a secret ping",
    "-p PORT -n 3 -a secret set a 1",
    "-p PORT -n 99 ping",
    "-p PORT -n 99 -e ping",
    "-u redis://127.0.0.1:PORT/2 --no-raw set a b",
    "-u redis://default:secret@127.0.0.1:PORT/1 ping",
    "-u redis://bob:se%63ret@127.0.0.1:PORT ping",
    "-u redis://127.0.0.1:CLOSED/0 ping",
    "-u http://127.0.0.1:PORT ping",
    "-p PORT <<< auth secret|ping",
    // Standard input as an argument, and as commands.
    "-p PORT -x set a <<< value",
    "-p PORT -x --no-raw echo <<< two|lines|",
    "-p PORT -X tag set a tag <<< value",
    "-p PORT -X tag set a b <<< value",
    "-p PORT <<< ping",
    "-p PORT <<< set a 1|get a|incr b|lrange a 0 -1|",
    "-p PORT --no-raw <<< set a 1|\"get\" a|get \"a|3 incr b|0 ping|-1 ping|quit|get a|",
    "-p PORT <<< ||  |ping|",
    "-p PORT <<< exit|ping",
    "-p PORT <<< multi|set a 1|get a|exec|multi|discard|",
    "-p PORT <<< select 3|set a 1|reset|get a|select 3|get a|",
    "-p PORT <<< connect 127.0.0.1 CLOSED|ping",
    "-p PORT -n 2 <<< shutdown nosave bogus|ping",
    // Repetition, delimiters, scripts, scanning.
    "-p PORT -r 3 incr a",
    "-p PORT -r 2 -i 0.01 --no-raw incr a",
    "-p PORT -d , eval return{1,2,3} 0",
    "-p PORT -d , -D ; eval return{1,{2,3}} 0",
    "-p PORT --eval SCRIPT k1 k2 , a1 a2",
    "-p PORT --no-raw --eval SCRIPT k1",
    "-p PORT --scan",
    "-p PORT --scan --pattern k*",
    "-p PORT --no-raw --scan --pattern a*",
    // Every type of reply, in both protocols.
    "-p PORT --no-raw <<< rpush l a b c|lrange l 0 -1|hset h f v g w|hgetall h|smembers none|zadd z 1.5 m|zscore z m",
    "-p PORT -3 --no-raw <<< rpush l a b c|lrange l 0 -1|hset h f v g w|hgetall h|smembers none|zadd z 1.5 m|zscore z m",
    "-p PORT -3 <<< rpush l a b c|lrange l 0 -1|hset h f v g w|hgetall h|smembers none|zadd z 1.5 m|zscore z m|get none",
    "-p PORT --no-raw eval return{1,{2,{3,'a'}},'x',{},false,redis.status_reply('fine')} 0",
    "-p PORT eval return{1,{2,{3,'a'}},'x',{},false} 0",
    "-p PORT --no-raw eval return{1,2,3,4,5,6,7,8,9,{10,11}} 0",
    "-p PORT --no-raw eval return{err='MINE'} 0",
    "-p PORT -3 --no-raw debug protocol verbatim",
    "-p PORT -3 --no-raw debug protocol map",
    "-p PORT -3 --no-raw debug protocol set",
    "-p PORT -3 --no-raw debug protocol true",
    "-p PORT -3 --no-raw debug protocol double",
    "-p PORT -3 --no-raw debug protocol push",
    "-p PORT -3 debug protocol map",
    "-p PORT --no-raw monitor bogus",
    "-p PORT subscribe",
];

/// A port that is taken, and on which nobody listens.
fn closed_port() -> (socket2::Socket, u16) {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).unwrap();
    let port = socket.local_addr().unwrap().as_socket().unwrap().port();
    (socket, port)
}

/// The links to the binary, and a script.
fn folder(name: &str) -> Folder {
    let folder = Folder::new(name);
    for name in ["redis-cli", "redis-server", "valkey-cli"] {
        symlink(BINARY, folder.text(name)).unwrap();
    }
    std::fs::write(folder.text("script.lua"), "return {KEYS, ARGV}").unwrap();
    folder
}

/// Runs `redis-cli`, the real one or this program in its place, in front of a server with one key.
fn redis_cli(program: &str, row: &str, server: &ServerProcess) -> Output {
    let mut client = client_at(&server.url());
    redis::cmd("FLUSHALL").exec(&mut client).unwrap();
    redis::cmd("SET").arg("k\n1").arg("v").exec(&mut client).unwrap();
    let (line, input) = row.split_once(" <<< ").unwrap_or((row, ""));
    let mut child = Command::new(program)
        .args(line.split(' '))
        .env_remove("REDISCLI_AUTH")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A program that has ended does not read.
    let _ = child.stdin.take().unwrap().write_all(input.replace('|', "\n").as_bytes());
    child.wait_with_output().unwrap()
}

#[test]
fn as_redis_cli_it_says_what_the_real_one_says() {
    let folder = folder("cli");
    let server = ServerProcess::redouble(&["--compat", CHECKED_PROFILE, "--enable-debug-command", "yes"]);
    let (_taken, closed) = closed_port();
    let mut differences = Vec::new();
    for row in INVOCATIONS {
        let row = row.replace("PORT", &server.address().port().to_string()).replace("CLOSED", &closed.to_string());
        let row = row.replace("SCRIPT", &folder.text("script.lua"));
        let real = redis_cli("redis-cli", &row, &server);
        let ours = redis_cli(&folder.text("redis-cli"), &row, &server);
        if real != ours {
            differences.push(format!("redis-cli {row}\nreal: {real:?}\nours: {ours:?}\n"));
        }
    }
    assert!(differences.is_empty(), "{}", differences.concat());
}

#[test]
fn a_server_with_a_password_is_asked_as_the_real_one_asks_it() {
    let folder = folder("cli-password");
    let server = support::start(Server::builder().compat(profile(CHECKED_PROFILE)).password("secret"));
    for row in ["ping", "-e ping", "-a secret ping", "-a wrong ping", "-a secret -n 99 ping", "-e -a wrong ping"] {
        let row = format!("-p PORT --no-auth-warning {row}");
        let ask = |program: &str| {
            let mut command = Command::new(program);
            command.args(row.replace("PORT", &address(&server).port().to_string()).split(' ')).stdin(Stdio::null());
            command.env_remove("REDISCLI_AUTH").output().unwrap()
        };
        assert_eq!(ask(&folder.text("redis-cli")), ask("redis-cli"), "{row}");
    }
    let asked = Command::new(folder.text("redis-cli"))
        .args(["-u", &format!("redis://{}", address(&server)), "ping"])
        .env("REDISCLI_AUTH", "secret")
        .output()
        .unwrap();
    assert_eq!((out(&asked).as_str(), errors(&asked).as_str()), ("PONG\n", ""));
}

#[test]
fn a_subscriber_gets_each_message_when_it_comes() {
    let folder = folder("cli-subscribe");
    let server = support::spawn();
    let port = address(&server).port().to_string();
    let mut child = Command::new(folder.text("redis-cli"))
        .args(["-p", &port, "--no-raw", "subscribe", "news"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut next = |count: usize| lines.by_ref().take(count).collect::<Vec<_>>().join("\n");
    assert_eq!(next(4), "Reading messages... (press Ctrl-C to quit)\n1) \"subscribe\"\n2) \"news\"\n3) (integer) 1");
    redis::cmd("PUBLISH").arg("news").arg("hello").exec(&mut client(&server)).unwrap();
    assert_eq!(next(3), "1) \"message\"\n2) \"news\"\n3) \"hello\"");
    drop(server);
    let ended = child.wait_with_output().unwrap();
    assert_eq!((errors(&ended).as_str(), ended.status.code()), ("Error: Server closed the connection\n", Some(1)));
}

#[test]
fn the_word_cli_and_the_name_of_valkey_ask_the_same() {
    let folder = folder("cli-names");
    let server = support::spawn();
    let port = address(&server).port().to_string();
    let said = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).stdin(Stdio::null()).output().unwrap();
        (out(&output) + &errors(&output)).trim_end().to_owned()
    };
    assert_eq!(said(BINARY, &["cli", "-p", &port, "ping"]), "PONG");
    assert_eq!(said(&folder.text("valkey-cli"), &["-p", &port, "ping"]), "PONG");
    assert!(said(&folder.text("redis-cli"), &["--version"]).starts_with("redis-cli 7."));
    assert!(said(&folder.text("valkey-cli"), &["-v"]).starts_with("valkey-cli 9."));
    assert!(said(&folder.text("redis-server"), &["--version"]).starts_with("Redis server v="));
    // What this one does not have is said, not ignored.
    let refused = "redouble has no redis-cli --cluster; Redis's own redis-cli has it";
    assert_eq!(said(&folder.text("redis-cli"), &["--cluster", "info"]), refused);
}

#[test]
fn bytes_that_are_no_reply_are_an_error() {
    let folder = folder("cli-no-redis");
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let answering = thread::spawn(move || {
        let (mut connection, _) = listener.accept().unwrap();
        connection.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
    });
    let output = Command::new(folder.text("redis-cli")).args(["-p", &port, "ping"]).output().unwrap();
    answering.join().unwrap();
    let expected = "Error: Protocol error, got \"H\" as reply type byte\n";
    assert_eq!((errors(&output).as_str(), output.status.code()), (expected, Some(1)));
}

#[test]
fn in_a_container_the_server_listens_on_every_address_without_protected_mode() {
    let asked = |script: &str, is_in_container: bool| {
        let mut command = Command::new("sh");
        command.args(["-c", script]).env("BINARY", BINARY).stdin(Stdio::null()).stderr(Stdio::inherit());
        if is_in_container {
            command.env("REDOUBLE_IN_CONTAINER", "yes");
        }
        out(&command.output().unwrap())
    };
    let folder = folder("container");
    let script = |arguments: &str| {
        let port = folder.text("served");
        format!(
            "rm -f {port}; $BINARY --port 0 --port-file {port} {arguments} >/dev/null & \
             until port=$(cat {port} 2>/dev/null); do :; done; \
             $BINARY cli -p $port config get bind; $BINARY cli -p $port config get protected-mode; kill $!; wait"
        )
    };
    assert_eq!(asked(&script(""), true), "bind\n* -::*\nprotected-mode\nno\n");
    assert_eq!(asked(&script("--bind 127.0.0.1"), true), "bind\n127.0.0.1\nprotected-mode\nno\n");
    assert_eq!(asked(&script(""), false), "bind\n127.0.0.1 -::1\nprotected-mode\nyes\n");
}
