//! What passes through redouble: everything, unchanged, in both directions, whatever it is. The journal has read along, as
//! it does in front of the embedded server.

use std::collections::BTreeSet;
use std::io::{Read, Write};

use redouble::Server;

use crate::place::{Place, both_ways, both_ways_with};
use crate::support::process::ServerProcess;
use crate::support::scripted::{ScriptedServer, Step};
use crate::support::upstream::{Entry, Front, journal};
use crate::support::wire::{Frame, Wire, request, split};
use crate::support::{CHECKED_PROFILE, Dice, address, start, wait_until};

const MEGABYTE: usize = 1 << 20;

// ---- conversations

/// The bytes of a conversation. A line is a command with redis-cli's quoting; one that begins with `@raw` is sent as it is.
fn bytes_of(conversation: &str) -> Vec<u8> {
    let lines = conversation.lines().map(str::trim).filter(|line| !line.is_empty());
    lines
        .flat_map(|line| match line.strip_prefix("@raw ") {
            Some(raw) => split(raw.as_bytes()).expect("quotes").concat(),
            None => request(&split(line.as_bytes()).expect("quotes")),
        })
        .collect()
}

/// How a client sends a conversation.
#[derive(Clone, Copy, Debug)]
enum Pace {
    AtOnce,
    ByBytes,
}

/// Holds a conversation, which the server ends, and returns all that it said.
fn converse(mut client: Wire, bytes: &[u8], pace: Pace) -> String {
    let piece = match pace {
        Pace::AtOnce => bytes.len(),
        Pace::ByBytes => 1,
    };
    for piece in bytes.chunks(piece) {
        client.send(piece);
    }
    String::from_utf8_lossy(&client.read_to_end()).into_owned()
}

/// What a journal has of each command: its words, the database, the outcome, the reply. In the order of the journal.
fn told(entries: &[Entry]) -> Vec<String> {
    let line = |entry: &Entry| {
        let words = entry["command"].items().iter().map(Frame::text).collect::<Vec<_>>().join(" ");
        let reply = match &entry["command"].items()[0] {
            // It answers with the version of the server and the id of the client.
            name if name.text() == "HELLO" => String::new(),
            // The embedded server's reply has the messages to the client itself in front.
            name if name.text().ends_with("PUBLISH") => {
                entry["reply"].text().rsplit("] ").next().unwrap_or_default().to_owned()
            }
            _ => entry["reply"].text(),
        };
        format!("{words} | db {} | {} | {reply}", entry["db"].integer(), entry["outcome"].text())
    };
    entries.iter().map(line).collect()
}

/// Holds a conversation with the real server, with the real server through redouble, and with the embedded server. The
/// bytes that the first two say must be the same, and so must the journals of the last two.
#[track_caller]
fn same_conversation(conversation: &str) {
    let bytes = bytes_of(conversation);
    for pace in [Pace::AtOnce, Pace::ByBytes] {
        let direct = Place::direct(&["--enable-debug-command", "yes"]);
        let direct = converse(direct.client(), &bytes, pace);
        let place = Place::through(&["--enable-debug-command", "yes"]);
        let through = converse(place.client(), &bytes, pace);
        assert_eq!(through, direct, "{pace:?}: through redouble, and then as it is without");
        let arguments = ["--compat", CHECKED_PROFILE, "--journal", "yes", "--enable-debug-command", "yes"];
        let embedded = ServerProcess::redouble(&arguments);
        converse(Wire::connect(embedded.address()), &bytes, pace);
        let expected = told(&journal(&mut Wire::connect(embedded.address()), ""));
        let front = place.front.as_ref().expect("redouble");
        let mut wire = Wire::connect(front.address());
        wire.ask(&format!("REDOUBLE JOURNAL AWAIT {} 10s", expected.len()));
        let seen = told(&journal(&mut wire, ""));
        assert_eq!(seen, expected, "{pace:?}: the journal of redouble in front, and then of the embedded server");
    }
}

#[test]
fn commands_errors_and_commands_that_nobody_knows() {
    same_conversation(
        r#"
        SET k v
        GET k
        GET missing
        BOGUS
        BOGUS a "b c" "d\r\ne"
        GET
        SET k
        INCR k
        JSON.SET doc $ 1
        FT.SEARCH idx "*"
        MODULE LIST
        OBJECT HELP
        LRANGE missing 0 -1
        RPUSH l a "" "\x00\xff" "with blank"
        LRANGE l 0 -1
        HSET h f 1 g 2
        HGETALL h
        CONFIG GET maxmemory
        CLIENT NO-SUCH
        "" ""
        PING
        QUIT
        "#,
    );
}

#[test]
fn transactions_with_errors_of_every_kind() {
    same_conversation(
        r"
        MULTI
        SET k v
        INCR k
        GET k
        EXEC
        EXEC
        DISCARD
        MULTI
        MULTI
        WATCH k
        BOGUS
        SET k w
        EXEC
        MULTI
        SET k only
        DISCARD
        GET k
        WATCH k
        SET k touched
        MULTI
        SET k lost
        EXEC
        MULTI
        EXEC
        WATCH k
        UNWATCH
        MULTI
        SELECT 2
        SET k in-two
        EXEC
        GET k
        MULTI
        BLPOP l 0
        EVAL return{1,{2,'x'}} 0
        EXEC
        MULTI
        GET a b c
        EXEC
        QUIT
        ",
    );
}

#[test]
fn subscriptions_in_resp2() {
    same_conversation(
        r"
        SUBSCRIBE a b c
        PSUBSCRIBE p.* q.*
        PING
        PING text
        GET k
        SUBSCRIBE a
        UNSUBSCRIBE a zzz b
        UNSUBSCRIBE
        PUNSUBSCRIBE q.*
        PUNSUBSCRIBE
        UNSUBSCRIBE
        PUNSUBSCRIBE
        GET k
        SSUBSCRIBE s t
        SUNSUBSCRIBE t
        SUNSUBSCRIBE
        SUNSUBSCRIBE
        SUBSCRIBE again
        RESET
        GET k
        PING
        QUIT
        ",
    );
}

#[test]
fn subscriptions_in_a_transaction_have_more_replies_than_its_array_has_elements() {
    same_conversation(
        r"
        MULTI
        SUBSCRIBE x y
        UNSUBSCRIBE y
        UNSUBSCRIBE
        EXEC
        PING
        GET k
        QUIT
        ",
    );
}

#[test]
fn subscriptions_in_resp3_with_commands_and_messages_in_between() {
    same_conversation(
        r"
        HELLO 3
        SUBSCRIBE a b
        GET k
        PUBLISH a own
        PSUBSCRIBE a*
        PUBLISH a twice
        SET k v
        UNSUBSCRIBE b
        UNSUBSCRIBE
        GET k
        PUNSUBSCRIBE nothing
        PUNSUBSCRIBE
        UNSUBSCRIBE
        SSUBSCRIBE s
        SPUBLISH s own
        SUNSUBSCRIBE s
        PING
        EVAL return{redis.call('publish','a','x'),1} 0
        SUBSCRIBE a
        UNSUBSCRIBE a
        PING
        QUIT
        ",
    );
}

#[test]
fn messages_inside_the_array_of_exec_are_no_elements_of_it() {
    let place = Place::through(&[]);
    let mut client = place.client();
    client.ask("HELLO 3");
    for line in ["SUBSCRIBE a", "MULTI", "PUBLISH a inside", "INCR k"] {
        client.ask(line);
    }
    client.send(&[request(&["EXEC"]), request(&["PING"])].concat());
    while client.expect() != Frame::status("PONG") {}
    let front = place.front.as_ref().expect("redouble");
    let entries = front.journal("on EXEC");
    let replies: Vec<String> =
        entries[0]["children"].items().iter().map(|child| format!("{:?}", child.items())).collect();
    assert!(replies.iter().all(|reply| !reply.contains("message")) && replies.len() == 2, "{replies:?}");
    front.until_recorded("on PING reply PONG", 1);
}

#[test]
fn replies_that_are_switched_off() {
    same_conversation(
        r"
        CLIENT REPLY SKIP
        SET k 1
        GET k
        CLIENT REPLY OFF
        SET k 2
        BOGUS
        CLIENT REPLY BOGUS
        CLIENT REPLY SKIP
        GET k
        CLIENT REPLY ON
        GET k
        CLIENT REPLY SKIP
        CLIENT REPLY SKIP
        PING lost
        PING seen
        CLIENT REPLY SKIP
        BOGUS
        CLIENT REPLY OFF
        MULTI
        SET k 4
        EXEC
        CLIENT REPLY ON
        GET k
        QUIT
        ",
    );
}

/// The server announces three replies in EXEC's array then, and sends two.
#[test]
fn an_array_that_is_shorter_than_it_says() {
    let bytes = bytes_of(
        r"
        MULTI
        CLIENT REPLY SKIP
        SET k 3
        GET k
        EXEC
        GET k
        CLIENT REPLY SKIP
        PING lost
        GET k
        QUIT
        ",
    );
    both_ways(|place| converse(place.client(), &bytes, Pace::AtOnce));
}

#[test]
fn protocols_that_change_on_the_way() {
    same_conversation(
        r"
        GET missing
        HELLO 3 SETNAME me
        GET missing
        HGETALL missing
        CLIENT GETNAME
        HELLO 4
        HELLO 2
        GET missing
        HELLO 3
        RESET
        GET missing
        CLIENT GETNAME
        QUIT
        ",
    );
}

#[test]
fn both_protocols_have_all_their_types() {
    let kinds =
        ["string", "integer", "double", "bignum", "null", "array", "set", "map", "attrib", "push", "verbatim", "true"];
    both_ways_with(&["--enable-debug-command", "yes"], |place| {
        let mut client = place.client();
        let mut seen = Vec::new();
        for protocol in [2, 3] {
            client.ask(&format!("HELLO {protocol}"));
            for kind in kinds {
                client.send(&[request(&["DEBUG", "PROTOCOL", kind]), request(&["ECHO", "mark"])].concat());
                loop {
                    let frame = client.expect();
                    if frame == Frame::bulk("mark") {
                        break;
                    }
                    seen.push(frame);
                }
            }
        }
        if let Some(front) = &place.front {
            front.until_recorded("on ECHO reply \"mark\"", 2 * kinds.len() as i64);
        }
        seen
    });
}

#[test]
fn databases_that_are_selected_and_swapped() {
    same_conversation(
        r"
        SET k zero
        SELECT 3
        SET k three
        SELECT 99
        SELECT x
        GET k
        SWAPDB 0 3
        GET k
        SELECT 0
        GET k
        MOVE k 5
        MULTI
        SELECT 5
        GET k
        EXEC
        GET k
        MULTI
        SELECT 1
        DISCARD
        GET k
        RESET
        GET k
        QUIT
        ",
    );
}

#[test]
fn users_and_passwords() {
    same_conversation(
        r"
        AUTH wrong
        ACL SETUSER reader on >secret ~r:* +get +auth +select +multi +exec +quit
        AUTH reader wrong
        AUTH reader secret
        GET r:1
        GET other
        SET r:1 v
        MULTI
        GET other
        EXEC
        SELECT 1
        ACL WHOAMI
        AUTH a b c
        QUIT
        ",
    );
}

#[test]
fn scripts_and_functions() {
    same_conversation(
        r##"
        EVAL "return redis.call('SET', KEYS[1], ARGV[1])" 1 k v
        EVAL "return redis.error_reply('MY own')" 0
        EVAL "return {1, 2, {3, 'x'}, false}" 0
        EVAL "no lua" 0
        EVALSHA ffffffffffffffffffffffffffffffffffffffff 0
        SCRIPT LOAD "return 7"
        SCRIPT EXISTS ffffffffffffffffffffffffffffffffffffffff
        FUNCTION LOAD "#!lua name=lib\nredis.register_function('seven', function() return 7 end)"
        FCALL seven 0
        FCALL eight 0
        QUIT
        "##,
    );
}

#[test]
fn clients_that_wait() {
    same_conversation(
        r"
        BLPOP l 0.01
        RPUSH l a b c
        BLPOP l m 0
        BRPOPLPUSH l m 0
        BLMOVE l m LEFT RIGHT 0.01
        BZPOPMIN z 0.01
        XADD s 1-1 f v
        XREAD BLOCK 10 STREAMS s $
        XREAD BLOCK 10 STREAMS s 0
        WAIT 1 10
        MULTI
        BLPOP nothing 0
        EXEC
        BLPOP l -1
        BLPOP m notanumber
        PING
        QUIT
        ",
    );
}

#[test]
fn commands_in_lines() {
    same_conversation(
        r#"
        @raw "PING\r\n"
        @raw "\r\n"
        @raw "   \r\n"
        @raw "SET k \"quoted value\"\n"
        @raw "get k\r\n"
        @raw "*0\r\n"
        @raw "*-1\r\n"
        @raw "SET 'single' 'it\\'s'\r\n"
        @raw "GET single\r\nGET k\r\n"
        @raw "*1\r\n$4\r\nPING\r\nPING\r\n"
        @raw "QUIT\r\n"
        "#,
    );
}

#[test]
fn bytes_that_are_no_request() {
    for bytes in [
        r#"@raw "SET k \"unbalanced\r\n""#,
        r#"@raw "*1\r\n:4\r\n""#,
        r#"@raw "*1\r\n$-1\r\n""#,
        r#"@raw "*1\r\n$abc\r\n""#,
        r#"@raw "*abc\r\n""#,
        r#"@raw "*2147483648\r\n""#,
        r#"@raw "*1\r\n$536870913\r\n""#,
        r#"@raw "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n""#,
        r#"@raw "POST /path HTTP/1.1\r\n\r\n""#,
        r#"@raw "*1\r\n$4\r\nPING\r\n*1\r\n$x\r\n*1\r\n$4\r\nPING\r\n""#,
    ] {
        // HTTP is closed without the replies that are not written yet. When its lines come one by one, whether the first one's
        // reply is written by then is chance.
        let is_http = bytes.contains("HTTP");
        let before = if is_http { "" } else { "SET k v\n" };
        let bytes = bytes_of(&format!("{before}{bytes}"));
        both_ways(|place| {
            let at_once = converse(place.client(), &bytes, Pace::AtOnce);
            (at_once, (!is_http).then(|| converse(place.client(), &bytes, Pace::ByBytes)))
        });
    }
}

#[test]
fn what_is_behind_quit_is_not_run() {
    same_conversation("SET k 1\nQUIT\nSET k 2\nSET k 3");
}

// ---- volumes

#[test]
fn ten_thousand_commands_in_one_write_have_their_replies_in_order() {
    both_ways(|place| {
        let mut client = place.client();
        let requests: Vec<u8> = (0..10_000).flat_map(|number| request(&["ECHO", &number.to_string()])).collect();
        client.send(&requests);
        for number in 0..10_000 {
            assert_eq!(client.expect(), Frame::bulk(&number.to_string()));
        }
        if let Some(front) = &place.front {
            front.until_recorded("on ECHO outcome answered", 10_000);
            let entries = front.journal("on ECHO");
            for (number, entry) in entries.iter().enumerate() {
                assert_eq!(entry["reply"].text(), format!("\"{number}\""));
            }
        }
    });
}

#[test]
fn a_client_that_writes_everything_before_it_reads_anything_gets_all_replies() {
    both_ways(|place| {
        let mut client = place.client();
        let text = "x".repeat(300);
        let requests: Vec<u8> = (0..100_000).flat_map(|_| request(&["ECHO", &text])).collect();
        assert!(client.send(&requests), "the server takes commands whether their replies are read or not");
        let reply = format!("${}\r\n{text}\r\n", text.len());
        for _ in 0..100_000 {
            assert_eq!(client.read_bytes(reply.len()), reply.as_bytes());
        }
    });
}

#[test]
fn values_of_a_hundred_megabytes_pass_in_both_directions() {
    both_ways(|place| {
        let value = Dice::new(1).bytes(100 * MEGABYTE);
        let mut client = place.client();
        if place.front.is_some() {
            // With it, a request is kept whole before it passes.
            assert_eq!(client.ask("REDOUBLE JOURNAL OFF"), Frame::status("OK"));
        }
        let before = place.front.as_ref().map(Front::resident);
        assert_eq!(client.call(&[b"SET".as_slice(), b"k", &value]), Frame::status("OK"));
        assert!(client.ask("GET k") == Frame::Bulk(value.clone()), "the value comes back as it was");
        assert_eq!(client.ask("STRLEN k"), Frame::Integer(value.len() as i64));
        if let (Some(front), Some(before)) = (&place.front, before) {
            let grown = front.most_resident().saturating_sub(before);
            assert!(grown < 64 * MEGABYTE, "{grown} bytes for a value that only passes");
        }
    });
}

#[test]
fn a_reply_that_comes_byte_by_byte_is_passed_on_byte_by_byte() {
    let reply = b"*3\r\n$5\r\nhello\r\n:1\r\n*1\r\n$-1\r\n";
    let mut steps = vec![Step::Read];
    steps.extend(reply.iter().flat_map(|byte| [Step::Send(vec![*byte]), Step::Read]));
    let server = ScriptedServer::start(&[steps]);
    let front = Front::of(&server.url());
    let mut client = Wire::connect(front.address());
    for byte in reply {
        // The server sends the next byte when it has been asked again, so none of them can be waited for with another.
        client.send(&request(&["GET", "k"]));
        assert_eq!(client.read_bytes(1), [*byte]);
    }
}

#[test]
fn a_client_that_stops_sending_gets_all_of_its_replies_and_the_end() {
    both_ways(|place| {
        let mut client = place.client();
        let requests: Vec<u8> = (0..1000).flat_map(|number| request(&["ECHO", &number.to_string()])).collect();
        client.send(&requests);
        client.finish_sending();
        String::from_utf8_lossy(&client.read_to_end()).into_owned()
    });
}

#[test]
fn many_clients_have_each_their_own_connection() {
    let place = Place::through(&[]);
    let mut clients: Vec<Wire> = (0..200).map(|_| place.client()).collect();
    let ids: BTreeSet<i64> = clients.iter_mut().map(|client| client.ask("CLIENT ID").integer()).collect();
    assert_eq!(ids.len(), clients.len());
    for (number, client) in clients.iter_mut().enumerate() {
        client.ask(&format!("CLIENT SETNAME name-{number}"));
    }
    let list = place.server().ask("CLIENT LIST").text();
    assert!((0..200).all(|number| list.contains(&format!("name=name-{number} "))), "{list}");
    drop(clients);
    // The one that asks.
    place.server().ask_until("INFO clients", |info| info.contains("connected_clients:1\r"));
}

// ---- messages, tracking, monitor

#[test]
fn keys_that_a_client_has_cached_are_invalidated_in_its_connection() {
    both_ways(|place| {
        let (mut client, mut other) = (place.client(), place.client());
        client.ask("HELLO 3");
        let mut seen =
            vec![client.ask("CLIENT TRACKING ON"), client.ask("GET k"), other.ask("SET k v"), client.expect()];
        seen.extend([client.ask("GET k"), other.ask("FLUSHALL"), client.expect(), client.ask("GET k")]);
        seen.push(client.ask("CLIENT TRACKING ON BCAST PREFIX a PREFIX b NOLOOP"));
        seen.push(client.ask("CLIENT TRACKING OFF"));
        seen
    });
}

#[test]
fn keys_that_a_client_has_cached_are_invalidated_in_another_connection() {
    both_ways(|place| {
        let (mut client, mut listener, mut other) = (place.client(), place.client(), place.client());
        let id = listener.ask("CLIENT ID").integer();
        let mut seen = vec![listener.ask("SUBSCRIBE __redis__:invalidate")];
        seen.push(client.ask(&format!("CLIENT TRACKING ON REDIRECT {id}")));
        seen.extend([client.ask("GET k"), other.ask("SET k v"), listener.expect()]);
        seen
    });
}

#[test]
fn a_client_that_monitors_sees_what_the_others_do_and_can_stop() {
    both_ways(|place| {
        let (mut monitor, mut other) = (place.client(), place.client());
        let mut seen = vec![monitor.ask("MONITOR")];
        seen.push(other.ask("SET k v"));
        let shown = monitor.expect().text();
        assert!(shown.ends_with(r#"] "SET" "k" "v""#), "{shown}");
        seen.push(monitor.ask("RESET"));
        seen.push(other.ask("SET k w"));
        seen.push(monitor.ask("GET k"));
        if let Some(front) = &place.front {
            front.until_recorded("on GET reply \"w\"", 1);
        }
        seen
    });
}

#[test]
fn messages_reach_a_client_between_its_own_replies_and_are_none_of_them() {
    both_ways(|place| {
        let (mut client, mut other) = (place.client(), place.client());
        client.ask("HELLO 3");
        let mut seen = vec![client.ask("SUBSCRIBE news")];
        for number in 0..100 {
            other.ask(&format!("PUBLISH news {number}"));
            client.send(&request(&["INCR", "n"]));
            seen.extend([client.expect(), client.expect()]);
        }
        if let Some(front) = &place.front {
            let entries = front.journal("on INCR");
            for (number, entry) in entries.iter().enumerate() {
                assert_eq!(entry["reply"].text(), format!("(integer) {}", number + 1));
            }
            assert_eq!(entries.len(), 100);
        }
        seen
    });
}

// ---- waiting

#[test]
fn a_blocked_client_is_served_through_redouble() {
    both_ways(|place| {
        let (mut waiting, mut other, mut server) = (place.client(), place.client(), place.server());
        waiting.send(&[request(&["BLPOP", "l", "0"]), request(&["ECHO", "after"])].concat());
        server.ask_until("INFO clients", |info| info.contains("blocked_clients:1\r"));
        assert!(!waiting.has_reply());
        vec![other.ask("RPUSH l a"), waiting.expect(), waiting.expect()]
    });
}

#[test]
fn a_blocked_client_that_leaves_is_no_longer_blocked_on_the_server_and_takes_nothing_with_it() {
    both_ways(|place| {
        let (waiting, mut server) = (place.client(), place.server());
        let mut waiting = waiting;
        waiting.send(&request(&["BLPOP", "l", "0"]));
        server.ask_until("INFO clients", |info| info.contains("blocked_clients:1\r"));
        drop(waiting);
        server.ask_until("INFO clients", |info| info.contains("blocked_clients:0\r"));
        server.ask_until("CLIENT LIST", |list| !list.contains("cmd=blpop"));
        (server.ask("RPUSH l a"), server.ask("LLEN l"))
    });
}

#[test]
fn a_paused_server_holds_its_clients_and_lets_them_go() {
    both_ways(|place| {
        let (mut client, mut server) = (place.client(), place.server());
        server.ask("CLIENT PAUSE 100000 WRITE");
        client.send(&request(&["SET", "k", "v"]));
        server.ask_until("CLIENT LIST", |list| list.contains("cmd=set"));
        assert!(!client.has_reply());
        (server.ask("GET k"), server.ask("CLIENT UNPAUSE"), client.expect(), client.ask("GET k"))
    });
}

// ---- redouble's own commands

#[test]
fn redoubles_commands_between_others_are_answered_in_their_place_and_never_reach_the_server() {
    let place = Place::through(&[]);
    let mut monitor = place.server();
    monitor.ask("MONITOR");
    let mut client = place.client();
    let lines: Vec<Vec<&str>> = [
        "SET k 1",
        "REDOUBLE JOURNAL COUNT on SET",
        "INCR k",
        "REDOUBLE BOGUS",
        "redouble fault list",
        "GET k",
        "REDOUBLE JOURNAL COUNT on INCR",
        "GET k",
    ]
    .iter()
    .map(|line| line.split(' ').collect())
    .collect();
    client.send(&lines.iter().flat_map(|words| request(words)).collect::<Vec<u8>>());
    assert_eq!(client.expect(), Frame::status("OK"));
    assert_eq!(client.expect(), Frame::Integer(1), "it is answered after what was sent before it");
    assert_eq!(client.expect(), Frame::Integer(2));
    assert!(client.expect().is_error());
    assert_eq!(client.expect(), Frame::Array(Vec::new()));
    assert_eq!(client.expect(), Frame::bulk("2"));
    assert_eq!((client.expect(), client.expect()), (Frame::Integer(1), Frame::bulk("2")));
    client.ask("ECHO the-end");
    let mut shown = Vec::new();
    loop {
        let line = monitor.expect().text().to_lowercase();
        let at = line.find("] ").expect("an address");
        shown.push(line[at + 2..].to_owned());
        if line.contains("the-end") {
            break;
        }
    }
    assert!(!shown.iter().any(|line| line.contains("redouble")), "{shown:?}");
    assert!(
        shown.iter().all(|line| ["\"set", "\"incr", "\"ping", "\"get", "\"multi", "\"exec", "\"echo"]
            .iter()
            .any(|name| line.starts_with(name))),
        "the server is sent what the client sends, and a PING that asks whether it is let in: {shown:?}"
    );
}

#[test]
fn redoubles_commands_in_a_transaction_are_refused_and_spoil_it_as_unknown_ones_do() {
    let story =
        |mut client: Wire| ["MULTI", "SET k 1", "REDOUBLE JOURNAL COUNT", "EXEC", "GET k"].map(|line| client.ask(line));
    let embedded = ServerProcess::redouble(&["--compat", CHECKED_PROFILE, "--journal", "yes"]);
    assert_eq!(story(Place::through(&[]).client()), story(Wire::connect(embedded.address())));
}

#[test]
fn redoubles_command_behind_one_that_waits_is_answered_behind_it() {
    let place = Place::through(&[]);
    let (mut client, mut server) = (place.client(), place.server());
    client.send(&[request(&["BLPOP", "l", "0"]), request(&["REDOUBLE", "FAULT", "LIST"]), request(&["PING"])].concat());
    server.ask_until("INFO clients", |info| info.contains("blocked_clients:1\r"));
    assert!(!client.has_reply());
    server.ask("RPUSH l a");
    assert_eq!(client.expect().items().len(), 2);
    assert_eq!(client.expect(), Frame::Array(Vec::new()));
    assert_eq!(client.expect(), Frame::status("PONG"));
}

#[test]
fn what_is_behind_a_command_of_redouble_that_waits_is_sent_after_it() {
    let place = Place::through(&[]);
    let (mut client, mut other) = (place.client(), place.client());
    let wait = request(&["REDOUBLE", "JOURNAL", "AWAIT", "on", "INCR", "1", "15s"]);
    client.send(&[request(&["SET", "k", "1"]), wait, request(&["GET", "k"])].concat());
    assert_eq!(client.expect(), Frame::status("OK"));
    assert_eq!(other.ask("INCR k"), Frame::Integer(2));
    assert_eq!((client.expect(), client.expect()), (Frame::Integer(1), Frame::bulk("2")));
}

// ---- the journal's times and order

#[test]
fn an_entry_says_between_which_instants_its_command_took_effect() {
    let place = Place::through(&[]);
    let (mut client, mut server) = (place.client(), place.server());
    client.ask("SET k v");
    client.send(&request(&["BLPOP", "l", "0"]));
    server.ask_until("INFO clients", |info| info.contains("blocked_clients:1\r"));
    let time = server.ask("TIME");
    let instant = |frame: &Frame| {
        let part = |at: usize| frame.items()[at].text().parse::<i64>().unwrap();
        part(0) * 1_000_000 + part(1)
    };
    let between = instant(&time);
    server.ask("RPUSH l a");
    client.expect();
    let entries = place.front.as_ref().expect("redouble").journal("");
    assert_eq!(entries.len(), 2, "{entries:?}");
    for entry in &entries {
        let (sent, replied) = (entry["sent-us"].integer(), entry["time-us"].integer());
        assert!(sent <= replied, "{entry:?}");
        assert_eq!(entry["real-time-us"], entry["time-us"]);
        assert_eq!(entry["order"].text(), "interval");
    }
    assert!(entries[0]["time-us"].integer() <= entries[1]["sent-us"].integer());
    assert!(entries[1]["sent-us"].integer() <= between && between <= entries[1]["time-us"].integer());
}

#[test]
fn a_journal_that_is_written_to_a_file_has_the_interval_of_each_command() {
    let place = Place::through(&[]);
    let front = place.front.as_ref().expect("redouble");
    place.client().ask("SET k v");
    let lines = front.exported();
    let line = lines.iter().find(|line| line["command"][0] == "SET").expect("the command");
    assert_eq!(line["order"], "interval", "{line}");
    assert!(line["sent_us"].as_i64().unwrap() <= line["time_us"].as_i64().unwrap());
}

// ---- other ways to a server

#[test]
fn a_server_behind_a_unix_socket_is_passed_to_as_well() {
    let folder = std::env::temp_dir().join(format!("redouble-unix-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let socket = folder.join("redis.sock");
    let place = Place::direct(&["--unixsocket", socket.to_str().unwrap()]);
    let front = Front::of(&format!("unix:{}", socket.display()));
    let mut client = Wire::connect(front.address());
    assert_eq!(client.ask("SET k v"), Frame::status("OK"));
    assert_eq!(place.client().ask("GET k"), Frame::bulk("v"));
    drop(front);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_server_in_this_process_stands_in_front_of_another_as_the_program_does() {
    let place = Place::direct(&[]);
    let server = start(Server::builder().upstream(place.redis.url()).journal(1 << 20));
    let mut client = Wire::connect(address(&server));
    assert_eq!(client.ask("SET k v"), Frame::status("OK"));
    assert_eq!(place.client().ask("GET k"), Frame::bulk("v"));
    assert_eq!(server.journal().count(redouble::Pattern::on("SET")), 1);
}

#[test]
fn a_client_at_a_unix_socket_of_redouble_is_passed_on_as_well() {
    let place = Place::direct(&[]);
    let folder = std::env::temp_dir().join(format!("redouble-unix-client-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let socket = folder.join("redouble.sock");
    let front = Front::start(&[&place.redis.url()], &["--unixsocket", socket.to_str().unwrap()]);
    wait_until("the socket", || socket.exists());
    let mut stream = std::os::unix::net::UnixStream::connect(&socket).unwrap();
    stream.write_all(b"SET k v\r\nGET k\r\nQUIT\r\n").unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).unwrap();
    assert_eq!(said, "+OK\r\n$1\r\nv\r\n+OK\r\n");
    drop(front);
    std::fs::remove_dir_all(&folder).unwrap();
}
