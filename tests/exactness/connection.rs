//! What connections do to each other, and to themselves.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use redouble::{Builder, Profile, Server};

use crate::support::wait_until;

/// A connection that shows its replies as they stood on the wire.
struct Client {
    reader: BufReader<TcpStream>,
}

impl Client {
    fn of(server: &Server) -> Self {
        let stream = TcpStream::connect(server.address().unwrap()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Self { reader: BufReader::new(stream) }
    }

    /// Sends commands, words apart by blanks, lines by `|`, all at once.
    fn send(&mut self, commands: &str) {
        let text: String = commands.split('|').map(|line| format!("{}\r\n", line.trim())).collect();
        self.reader.get_mut().write_all(text.as_bytes()).unwrap();
    }

    fn ask(&mut self, command: &str) -> String {
        self.send(command);
        self.read()
    }

    /// One reply, whole.
    fn read(&mut self) -> String {
        let mut reply = String::new();
        let length = self.reader.read_line(&mut reply).unwrap();
        assert_ne!(length, 0, "the connection was closed");
        let count: usize = reply[1..].trim_end().parse().unwrap_or(0);
        let is_null = reply[1..].starts_with('-');
        match reply.as_bytes()[0] {
            b'$' | b'=' if !is_null => {
                let mut body = vec![0; count + 2];
                self.reader.read_exact(&mut body).unwrap();
                reply.push_str(&String::from_utf8(body).unwrap());
            }
            b'*' if !is_null => (0..count).for_each(|_| reply.push_str(&self.read())),
            b'%' => (0..count * 2).for_each(|_| reply.push_str(&self.read())),
            _ => {}
        }
        reply
    }

    fn is_closed(&mut self) -> bool {
        self.reader.read(&mut [0]).map_or(true, |read| read == 0)
    }

    fn id(&mut self) -> String {
        self.ask("CLIENT ID").trim_start_matches(':').trim_end().to_owned()
    }

    /// Asks for the line of a connection until it says something. The connection is at work meanwhile.
    fn see(&mut self, id: &str, field: &str) {
        wait_until(format_args!("{field} of client {id}"), || {
            self.ask(&format!("CLIENT LIST ID {id}")).contains(field)
        });
    }
}

fn compat(profile: &str) -> Builder {
    Server::builder().compat(profile.parse::<Profile>().unwrap())
}

fn spawn() -> Server {
    compat("redis-7.0").spawn().unwrap()
}

#[test]
fn a_killed_connection_is_gone_before_the_killer_hears_of_it() {
    let server = spawn();
    let (mut killer, mut victim) = (Client::of(&server), Client::of(&server));
    let id = victim.id();
    assert_eq!(killer.ask(&format!("CLIENT KILL ID {id}")), ":1\r\n");
    assert_eq!(killer.ask(&format!("CLIENT LIST ID {id}")), "$0\r\n\r\n");
    assert!(victim.is_closed());
}

#[test]
fn whoever_kills_itself_has_the_answer_first() {
    let server = spawn();
    let (mut one, mut other) = (Client::of(&server), Client::of(&server));
    other.ask("PING");
    assert_eq!(one.ask("CLIENT KILL TYPE normal SKIPME no"), ":2\r\n");
    assert!(one.is_closed() && other.is_closed());

    let mut inside = Client::of(&server);
    inside.send("MULTI|CLIENT KILL TYPE normal SKIPME no|SET written yes|EXEC");
    let replies: Vec<String> = (0..3).map(|_| inside.read()).collect();
    assert_eq!(replies, ["+OK\r\n", "+QUEUED\r\n", "+QUEUED\r\n"]);
    let mut rest = String::new();
    inside.reader.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "*2\r\n:1\r\n");
    assert_eq!(Client::of(&server).ask("GET written"), "$3\r\nyes\r\n");
}

#[test]
fn connections_are_killed_by_address_and_by_age() {
    let server = compat("redis-7.4").spawn().unwrap();
    server.freeze();
    let mut old = Client::of(&server);
    old.ask("PING");
    server.advance(Duration::from_secs(100));
    let (mut young, mut killer) = (Client::of(&server), Client::of(&server));
    assert_eq!(young.ask("PING"), "+PONG\r\n");
    assert_eq!(killer.ask("CLIENT KILL MAXAGE 101"), ":0\r\n");
    assert_eq!(killer.ask("CLIENT KILL MAXAGE 100"), ":1\r\n");
    assert!(old.is_closed());
    let address = young.reader.get_ref().local_addr().unwrap();
    assert_eq!(killer.ask(&format!("CLIENT KILL LADDR {address}")), ":0\r\n");
    assert_eq!(killer.ask(&format!("CLIENT KILL {address}")), "+OK\r\n");
    assert!(young.is_closed());
}

#[test]
fn a_pause_holds_writers_back_until_it_is_called_off() {
    let server = spawn();
    let (mut holder, mut writer) = (Client::of(&server), Client::of(&server));
    let id = writer.id();
    assert_eq!(holder.ask("CLIENT PAUSE 100000 WRITE"), "+OK\r\n");
    writer.send("GET key|SET key value|GET key");
    assert_eq!(writer.read(), "$-1\r\n");
    holder.see(&id, "flags=b ");
    assert_eq!(holder.ask("GET key"), "$-1\r\n");
    assert_eq!(holder.ask(&format!("CLIENT UNBLOCK {id}")), ":0\r\n");
    assert_eq!(holder.ask("CLIENT UNPAUSE"), "+OK\r\n");
    assert_eq!([writer.read(), writer.read()], ["+OK\r\n", "$5\r\nvalue\r\n"]);
}

#[test]
fn a_pause_ends_when_the_servers_clock_says_so() {
    let server = spawn();
    server.freeze();
    let (mut holder, mut other) = (Client::of(&server), Client::of(&server));
    other.ask("PING");
    assert_eq!(holder.ask("CLIENT PAUSE 1000 ALL"), "+OK\r\n");
    // Errors need no data, and so no waiting.
    assert!(other.ask("NOPE").starts_with("-ERR unknown command"));
    other.send("PING");
    server.advance(Duration::from_millis(999));
    other.reader.get_ref().set_nonblocking(true).unwrap();
    assert!(other.reader.read(&mut [0]).is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock));
    other.reader.get_ref().set_nonblocking(false).unwrap();
    server.advance(Duration::from_millis(1));
    assert_eq!(other.read(), "+PONG\r\n");
}

#[test]
fn a_shorter_pause_does_not_end_a_longer_one() {
    let server = spawn();
    server.freeze();
    let (mut holder, mut writer) = (Client::of(&server), Client::of(&server));
    let id = writer.id();
    holder.ask("CLIENT PAUSE 1000 WRITE");
    holder.ask("CLIENT PAUSE 1 WRITE");
    writer.send("SET key value");
    holder.see(&id, "flags=b ");
    server.advance(Duration::from_millis(500));
    assert_eq!(holder.ask("GET key"), "$-1\r\n");
    server.advance(Duration::from_millis(500));
    assert_eq!(writer.read(), "+OK\r\n");
}

#[test]
fn a_connection_that_waits_is_let_go_by_another_or_by_time() {
    let server = spawn();
    server.freeze();
    let (mut waiter, mut other) = (Client::of(&server), Client::of(&server));
    let id = waiter.id();
    for (unblock, answer) in [
        (format!("CLIENT UNBLOCK {id}"), ":0\r\n"),
        (format!("CLIENT UNBLOCK {id} ERROR"), "-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n"),
    ] {
        waiter.send("WAIT 1 0|PING");
        other.see(&id, "flags=b ");
        assert_eq!(other.ask(&unblock), ":1\r\n");
        assert_eq!(other.ask(&unblock), ":0\r\n");
        assert_eq!([waiter.read().as_str(), waiter.read().as_str()], [answer, "+PONG\r\n"]);
    }
    // One wait behind the other, and time ends both.
    waiter.send("WAIT 1 1000|WAIT 1 1000|PING");
    other.see(&id, "flags=b ");
    server.advance(Duration::from_millis(1000));
    assert_eq!(waiter.read(), ":0\r\n");
    server.advance(Duration::from_millis(1000));
    assert_eq!([waiter.read(), waiter.read()], [":0\r\n", "+PONG\r\n"]);
}

#[test]
fn an_exec_that_would_write_waits_for_the_end_of_a_pause() {
    let server = spawn();
    let (mut holder, mut writer) = (Client::of(&server), Client::of(&server));
    let id = writer.id();
    writer.send("MULTI|SET key value");
    assert_eq!([writer.read(), writer.read()], ["+OK\r\n", "+QUEUED\r\n"]);
    holder.ask("CLIENT PAUSE 100000 WRITE");
    writer.send("EXEC");
    holder.see(&id, "flags=xb ");
    holder.ask("CLIENT UNPAUSE");
    assert_eq!(writer.read(), "*1\r\n+OK\r\n");
}

#[test]
fn replies_are_left_out_exactly_as_asked_for() {
    let server = spawn();
    let mut client = Client::of(&server);
    client.send("CLIENT REPLY SKIP|PING one|PING two");
    assert_eq!(client.read(), "$3\r\ntwo\r\n");
    client.send("CLIENT REPLY SKIP|CLIENT REPLY SKIP|PING one|NOPE");
    assert!(client.read().starts_with("-ERR unknown command 'NOPE'"));
    client.send("CLIENT REPLY OFF|PING|NOPE|SET key off|CLIENT REPLY SKIP|CLIENT REPLY ON|GET key");
    assert_eq!([client.read(), client.read()], ["+OK\r\n", "$3\r\noff\r\n"]);
    // Inside a transaction only what follows is left out.
    client.send("MULTI|PING one|CLIENT REPLY SKIP|PING two|EXEC|PING three|PING four");
    let replies: Vec<String> = (0..5).map(|_| client.read()).collect();
    assert_eq!(
        replies.concat(),
        "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*3\r\n$3\r\none\r\n$3\r\ntwo\r\n$4\r\nfour\r\n"
    );
}

#[test]
fn nothing_but_the_password_opens_a_server_that_has_one() {
    let server = compat("redis-7.0").password("pw").spawn().unwrap();
    let mut client = Client::of(&server);
    assert_eq!(client.ask("GET key"), "-NOAUTH Authentication required.\r\n");
    assert_eq!(client.ask("AUTH p"), "-WRONGPASS invalid username-password pair or user is disabled.\r\n");
    assert_eq!(client.ask("AUTH other pw"), "-WRONGPASS invalid username-password pair or user is disabled.\r\n");
    assert!(client.ask("HELLO 3").starts_with("-NOAUTH HELLO must be called"));
    let aborted = "-EXECABORT Transaction discarded because of: NOAUTH Authentication required.\r\n";
    assert_eq!(client.ask("EXEC"), aborted);
    assert_eq!(client.ask("AUTH pw"), "+OK\r\n");
    assert_eq!(client.ask("GET key"), "$-1\r\n");
    assert!(client.ask("AUTH default wrong").starts_with("-WRONGPASS"));
    assert_eq!(client.ask("GET key"), "$-1\r\n");
    assert!(Client::of(&server).ask("HELLO 3 AUTH default pw").starts_with("%7\r\n"));
}

#[test]
fn a_wrong_name_in_hello_leaves_a_newer_server_closed() {
    for (profile, then) in [("redis-7.0", "+PONG\r\n"), ("redis-7.2", "-NOAUTH Authentication required.\r\n")] {
        let server = compat(profile).password("pw").spawn().unwrap();
        let mut client = Client::of(&server);
        assert!(client.ask("HELLO 3 AUTH default pw SETNAME \"a b\"").starts_with("-ERR Client names"));
        assert_eq!(client.ask("PING"), then, "{profile}");
    }
}

#[test]
fn reset_makes_a_connection_new() {
    let server = compat("redis-7.2").password("pw").spawn().unwrap();
    let mut client = Client::of(&server);
    client.ask("HELLO 3 AUTH default pw SETNAME me");
    for command in ["SELECT 3", "CLIENT NO-TOUCH on", "CLIENT SETINFO LIB-NAME lib", "WATCH key", "MULTI"] {
        assert_eq!(client.ask(command), "+OK\r\n", "{command}");
    }
    assert_eq!(client.ask("RESET"), "+RESET\r\n");
    assert_eq!(client.ask("PING"), "-NOAUTH Authentication required.\r\n");
    client.ask("AUTH pw");
    let line = client.ask("CLIENT INFO");
    for field in [" name= ", " flags=N ", " db=0 ", " multi=-1 ", " resp=2 ", " lib-name=lib "] {
        assert!(line.contains(field), "{field:?} in {line}");
    }
    assert_eq!(client.ask("EXEC"), "-ERR EXEC without MULTI\r\n");
}

#[test]
fn a_monitor_sees_what_others_run_but_no_secrets() {
    let server = spawn();
    let (mut monitor, mut client) = (Client::of(&server), Client::of(&server));
    assert_eq!(monitor.ask("MONITOR"), "+OK\r\n");
    client.send("SET key \"a\\\"b\\x00\"|GET|SELECT 2|MULTI|get key|EXEC|AUTH default pw|HELLO 2 AUTH default pw|CLIENT LIST|PING");
    let address = client.reader.get_ref().local_addr().unwrap();
    let expected = [
        (0, r#""SET" "key" "a\"b\x00""#),
        (2, r#""SELECT" "2""#),
        (2, r#""MULTI""#),
        (2, r#""get" "key""#),
        (2, r#""EXEC""#),
        (2, r#""AUTH" "(redacted)" "(redacted)""#),
        (2, r#""HELLO" "2" "AUTH" "(redacted)" "(redacted)""#),
        (2, r#""PING""#),
    ];
    for (db, words) in expected {
        let line = monitor.read();
        let (time, rest) = line.split_once(' ').unwrap();
        assert!(time.starts_with('+') && time.contains('.'), "{line}");
        assert_eq!(rest, format!("[{db} {address}] {words}\r\n"));
    }
    // Its own commands are shown to it behind their replies.
    assert_eq!(monitor.ask("PING"), "+PONG\r\n");
    assert!(monitor.read().ends_with("\"PING\"\r\n"));
    assert_eq!(monitor.ask("RESET"), "+RESET\r\n");
    assert_eq!(client.reader.read(&mut [0]).unwrap(), 1);
    client.ask("PING");
    assert_eq!(monitor.ask("ECHO still-here"), "$10\r\nstill-here\r\n");
}

#[test]
fn a_touched_key_makes_exec_answer_with_nothing() {
    let server = spawn();
    server.freeze();
    let (mut watcher, mut other) = (Client::of(&server), Client::of(&server));
    for touch in ["SET key 2", "PING"] {
        watcher.ask("SET key 1 PX 1000");
        watcher.ask("WATCH key");
        other.ask(touch);
        if touch == "PING" {
            server.advance(Duration::from_millis(1001));
        }
        watcher.ask("MULTI");
        watcher.ask("GET key");
        assert_eq!(watcher.ask("EXEC"), "*-1\r\n", "{touch}");
    }
    // A key that was gone already does not go again.
    watcher.ask("WATCH key");
    watcher.ask("MULTI");
    watcher.ask("PING");
    assert_eq!(watcher.ask("EXEC"), "*1\r\n+PONG\r\n");
}

#[test]
fn a_command_that_cannot_be_queued_spoils_the_transaction() {
    let server = spawn();
    let mut client = Client::of(&server);
    for (wrong, answer) in [
        ("NOPE", "-ERR unknown command 'NOPE', with args beginning with: \r\n"),
        ("GET", "-ERR wrong number of arguments for 'get' command\r\n"),
        ("SHUTDOWN NOSAVE", "-ERR Command not allowed inside a transaction\r\n"),
    ] {
        client.ask("MULTI");
        assert_eq!(client.ask(wrong), answer);
        assert_eq!(client.ask("PING"), "+QUEUED\r\n");
        assert_eq!(client.ask("EXEC"), "-EXECABORT Transaction discarded because of previous errors.\r\n");
    }
    client.ask("MULTI");
    let aborted = "-EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command\r\n";
    assert_eq!(client.ask("EXEC now"), aborted);
    assert_eq!(client.ask("DISCARD"), "-ERR DISCARD without MULTI\r\n");
}

#[test]
fn shutdown_ends_the_server_unless_it_cannot_do_what_it_was_asked() {
    let server = spawn();
    let mut client = Client::of(&server);
    for wrong in ["SHUTDOWN NOPE", "SHUTDOWN SAVE NOSAVE", "SHUTDOWN ABORT NOW"] {
        assert_eq!(client.ask(wrong), "-ERR syntax error\r\n");
    }
    assert_eq!(client.ask("SHUTDOWN ABORT"), "-ERR No shutdown in progress.\r\n");
    assert_eq!(client.ask("SHUTDOWN SAVE"), "-ERR Errors trying to SHUTDOWN. Check logs.\r\n");
    client.send("SHUTDOWN NOSAVE");
    assert!(client.is_closed());
}
