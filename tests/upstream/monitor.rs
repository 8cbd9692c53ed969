//! `--upstream-scripts monitor`: what scripts did on the server, where their text and their reply do not tell it.

use std::net::SocketAddr;

use crate::place::Place;
use crate::support::scripted::{ScriptedServer, Step, say};
use crate::support::upstream::{Entry, Front};
use crate::support::wire::{Frame, Wire, request};

/// Deletes a lock if it has this token, and answers nothing.
const QUIET_RELEASE: &str =
    "if redis.call('get', KEYS[1]) == ARGV[1] then redis.call('del', KEYS[1]) end return 'done'";
/// Extends a lock by what it has left, as redis-py does.
const EXTEND: &str = "local token = redis.call('get', KEYS[1])
    if not token or token ~= ARGV[1] then return 0 end
    local left = redis.call('pttl', KEYS[1])
    if not left then left = 0 end
    if left < 0 then return 0 end
    redis.call('pexpire', KEYS[1], left + ARGV[2])
    return 1";
/// Releases a lock that can be held more than once; nil tells of another holder.
const UNLOCK: &str = "if redis.call('hexists', KEYS[1], ARGV[2]) == 0 then return nil end
    local left = redis.call('hincrby', KEYS[1], ARGV[2], -1)
    if left > 0 then redis.call('pexpire', KEYS[1], ARGV[1]) return 0 end
    redis.call('del', KEYS[1]) redis.call('publish', KEYS[2], 0) return 1";

/// A fresh redis-server with redouble in front of it, whose MONITOR is there.
fn monitored(directives: &[&str]) -> Place {
    let mut place = Place::direct(directives);
    let url = place.redis.url();
    let front = Front::start(&[&url], &["--upstream-scripts", "monitor"]);
    front.until_logged(&["MONITOR tells what scripts did"]);
    place.front = Some(front);
    place
}

fn front(place: &Place) -> &Front {
    place.front.as_ref().expect("redouble")
}

/// The commands inside an entry, those inside them in parentheses; `?` if they are not known.
fn children(entry: &Entry) -> String {
    match entry["children-known"].text().as_str() {
        "no" => "?".to_owned(),
        _ => listed(&entry["children"]),
    }
}

fn listed(children: &Frame) -> String {
    let one = |child: &Frame| {
        let field = |name: &str| child.items().chunks(2).find(|pair| pair[0].text() == name).map(|pair| &pair[1]);
        let words = field("command").expect("words").items().iter().map(Frame::text).collect::<Vec<_>>().join(" ");
        match field("children").map(listed).filter(|inside| !inside.is_empty()) {
            Some(inside) => format!("{words} ({inside})"),
            None => words,
        }
    };
    children.items().iter().map(one).collect::<Vec<_>>().join(", ")
}

/// What the journal tells of each command that matches a query.
fn told(place: &Place, query: &str) -> Vec<String> {
    front(place).journal(query).iter().map(children).collect()
}

fn eval(client: &mut Wire, script: &str, words: &[&str]) -> Frame {
    client.call(&[&["EVAL", script], words].concat())
}

#[test]
fn what_a_script_did_is_known_although_its_reply_is_always_the_same() {
    let place = monitored(&[]);
    let mut client = place.client();
    client.ask("SET lock token");
    for _ in 0..2 {
        assert_eq!(eval(&mut client, QUIET_RELEASE, &["1", "lock", "token"]), Frame::bulk("done"));
    }
    client.ask("SET lock token PX 60000");
    assert_eq!(eval(&mut client, EXTEND, &["1", "lock", "token", "1000"]).integer(), 1);
    client.ask("HSET mutex me 1");
    assert_eq!(eval(&mut client, UNLOCK, &["2", "mutex", "channel", "30000", "me"]).integer(), 1);
    let told = told(&place, "on EVAL");
    assert_eq!(told[..2], ["get lock, del lock", "get lock"]);
    assert!(told[2].starts_with("get lock, pttl lock, pexpire lock 6") && !told[2].contains('?'), "{told:?}");
    assert_eq!(told[3], "hexists mutex me, hincrby mutex me -1, del mutex, publish channel 0");
    let info = client.ask("REDOUBLE UPSTREAM INFO");
    assert!(info.items().chunks(2).any(|pair| pair[0].text() == "scripts" && pair[1].text() == "monitor"), "{info:?}");
}

#[test]
fn without_monitor_such_a_script_is_not_guessed_at() {
    let place = Place::through(&[]);
    let mut client = place.client();
    client.ask("SET lock token");
    eval(&mut client, QUIET_RELEASE, &["1", "lock", "token"]);
    assert_eq!(told(&place, "on EVAL"), ["?"]);
    let info = client.ask("REDOUBLE UPSTREAM INFO");
    assert!(info.items().chunks(2).any(|pair| pair[0].text() == "scripts" && pair[1].text() == "infer"), "{info:?}");
}

#[test]
fn a_script_whose_text_nobody_saw_is_known_by_its_calls() {
    let place = monitored(&[]);
    let sha = place.server().call(&["SCRIPT", "LOAD", QUIET_RELEASE]).text();
    let library = "#!lua name=locks\nredis.register_function('release', function(keys, arguments)
        redis.call('del', keys[1]) return 'done' end)";
    place.server().call(&["FUNCTION", "LOAD", library]);
    let mut client = place.client();
    client.ask("SET lock token");
    client.call(&["EVALSHA", &sha, "1", "lock", "token"]);
    client.ask("FCALL release 1 other");
    assert_eq!(told(&place, "on EVALSHA"), ["get lock, del lock"]);
    assert_eq!(told(&place, "on FCALL"), ["del other"]);
}

#[test]
fn scripts_in_a_transaction_have_what_they_called() {
    let place = monitored(&[]);
    let mut client = place.client();
    client.ask("SET lock token");
    // All at once, on a connection that was never asked for its address.
    let mut other = place.client();
    let script = ["EVAL", QUIET_RELEASE, "1", "lock", "token"];
    let pipeline: [&[&str]; 6] = [&["MULTI"], &script, &["SET", "k", "v"], &script, &["EXEC"], &["GET", "k"]];
    other.send(&pipeline.iter().flat_map(|words| request(words)).collect::<Vec<u8>>());
    let replies: Vec<Frame> = (0..6).map(|_| other.expect()).collect();
    assert_eq!(replies[4], Frame::Array(vec![Frame::bulk("done"), Frame::status("OK"), Frame::bulk("done")]));
    assert_eq!(replies[5], Frame::bulk("v"));
    let script = script.join(" ");
    assert_eq!(told(&place, "on EXEC"), [format!("{script} (get lock, del lock), SET k v, {script} (get lock)")]);
}

#[test]
fn a_pipeline_around_a_script_keeps_its_order_and_messages_stay_where_they_are() {
    let place = monitored(&[]);
    let mut client = place.client();
    client.ask("HELLO 3");
    client.ask("SUBSCRIBE news");
    let publish = "redis.call('set', KEYS[1], ARGV[1]) redis.call('publish', 'news', ARGV[1]) return ARGV[1]";
    let mut bytes = Vec::new();
    for number in 0..50 {
        let number = number.to_string();
        bytes.extend(request(&["ECHO", &number]));
        bytes.extend(request(&["EVAL", publish, "1", "k", &number]));
        bytes.extend(request(&["GET", "k"]));
    }
    client.send(&bytes);
    for number in 0..50 {
        let mut replies = Vec::new();
        while replies.len() < 3 {
            let frame = client.expect();
            if !matches!(frame, Frame::Push(_)) {
                replies.push(frame);
            }
        }
        assert_eq!(replies, vec![Frame::bulk(&number.to_string()); 3]);
    }
    let told = told(&place, "on EVAL");
    assert_eq!(told.len(), 50);
    assert_eq!(told[7], "set k 7, publish news 7");
}

fn run_client(address: SocketAddr, client: usize, rounds: usize) {
    let mut wire = Wire::connect(address);
    let key = format!("lock-{client}");
    for round in 0..rounds {
        let token = format!("{client}-{round}");
        wire.call(&["SET", &key, &token]);
        for _ in 0..2 {
            assert_eq!(eval(&mut wire, QUIET_RELEASE, &["1", &key, &token]), Frame::bulk("done"));
        }
    }
}

#[test]
fn many_clients_at_once_each_have_the_calls_of_their_own_scripts() {
    const CLIENTS: usize = 20;
    const ROUNDS: usize = 20;
    let place = monitored(&[]);
    let address = place.address();
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            scope.spawn(move || run_client(address, client, ROUNDS));
        }
    });
    let entries = front(&place).journal("on EVAL");
    assert_eq!(entries.len(), CLIENTS * ROUNDS * 2);
    let mut deleted = 0;
    for entry in &entries {
        let key = entry["command"].items()[3].text();
        let children = children(entry);
        deleted += usize::from(children == format!("get {key}, del {key}"));
        assert!([format!("get {key}"), format!("get {key}, del {key}")].contains(&children), "{key}: {children}");
    }
    assert_eq!(deleted, CLIENTS * ROUNDS);
}

#[test]
fn when_monitor_is_lost_nothing_hangs_and_it_comes_back() {
    let place = monitored(&[]);
    let (mut client, mut server) = (place.client(), place.server());
    let release = |client: &mut Wire| {
        client.ask("SET lock token");
        assert_eq!(eval(client, QUIET_RELEASE, &["1", "lock", "token"]), Frame::bulk("done"));
        told(&place, "on EVAL").pop().expect("an entry")
    };
    assert_eq!(release(&mut client), "get lock, del lock");
    // MONITOR cannot come back for a while.
    server.ask("ACL SETUSER default -monitor");
    let list = server.ask("CLIENT LIST").text();
    let monitor = list.lines().find(|line| line.contains("cmd=monitor") || line.contains("flags=O")).expect("MONITOR");
    let id = monitor.split([' ', '=']).nth(1).expect("an id").to_owned();
    assert_eq!(server.ask(&format!("CLIENT KILL ID {id}")), Frame::Integer(1));
    front(&place).until_logged(&["the connection with MONITOR is lost"]);
    front(&place).until_logged(&["does not work", "MONITOR was answered with", "NOPERM"]);
    assert_eq!(release(&mut client), "?");
    server.ask("ACL SETUSER default +monitor");
    crate::support::wait_until("MONITOR is back", || release(&mut client) == "get lock, del lock");
}

#[test]
fn a_monitor_that_falls_silent_holds_one_script_up_for_a_while_and_no_other() {
    let silent = vec![Step::Read, say("+OK\r\n"), Step::ReadMany(100)];
    let server = ScriptedServer::start(&[silent]);
    let front = Front::start(&[&server.url()], &["--upstream-scripts", "monitor"]);
    front.until_logged(&["MONITOR tells what scripts did"]);
    let mut client = Wire::connect(front.address());
    for _ in 0..20 {
        assert_eq!(eval(&mut client, "return 'OK'", &["0"]), Frame::status("OK"));
    }
    // Only the first one has asked.
    assert_eq!(server.heard()[0].requests, ["MONITOR", "PING"]);
    front.until_logged(&["MONITOR does not answer"]);
}

#[test]
fn what_redouble_asks_for_itself_is_in_no_journal() {
    let place = monitored(&[]);
    let mut client = place.client();
    for _ in 0..3 {
        eval(&mut client, "return redis.call('incr', KEYS[1])", &["1", "n"]);
    }
    let commands: Vec<String> =
        front(&place).journal("").iter().map(|entry| entry["command"].items()[0].text()).collect();
    assert_eq!(commands, ["EVAL"; 3]);
}

#[test]
fn faults_and_a_user_who_may_not_ask_for_its_address_make_no_difference() {
    let place = monitored(&[]);
    place.server().ask("ACL SETUSER app on >secret ~* &* +@all -client");
    let (mut client, mut driver) = (place.client(), place.client());
    eval(&mut client, "return 1", &["0"]);
    let mut app = place.client();
    app.ask("AUTH app secret");
    assert_eq!(driver.ask("REDOUBLE FAULT ADD slow on EVAL delay 1ms"), Frame::status("OK"));
    client.ask("SET lock token");
    for client in [&mut client, &mut app] {
        assert_eq!(eval(client, QUIET_RELEASE, &["1", "lock", "token"]), Frame::bulk("done"));
    }
    assert_eq!(told(&place, "on EVAL")[1..], ["get lock, del lock", "get lock"]);
}
