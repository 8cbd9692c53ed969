//! What programs of others do in front of a server, which they must not notice that redouble does not do.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use crate::place::{Place, both_ways, both_ways_with};
use crate::support::process::ServerProcess;
use crate::support::wait_until;
use crate::support::wire::{Frame, Wire, request};

/// Runs redis-cli in a place, and gives it this to read.
fn redis_cli(place: &Place, arguments: &[&str], input: &[u8]) -> Output {
    let mut command = Command::new("redis-cli");
    command.args(["-p", &place.address().port().to_string()]).args(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("redis-cli starts");
    child.stdin.take().expect("piped").write_all(input).expect("it reads");
    child.wait_with_output().expect("it ends")
}

fn field(info: &Frame, name: &str) -> String {
    let text = info.text();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_default().trim().to_owned()
}

#[test]
fn a_request_that_announces_more_than_a_server_takes_is_refused_before_the_rest_of_it_comes() {
    let refused = both_ways(|place| {
        let mut client = place.client();
        client.send(b"*3\r\n$3\r\nSET\r\n$1\r\nx\r\n$2000000000\r\n");
        (client.expect(), client.is_closed())
    });
    assert_eq!(refused, (Frame::error("ERR Protocol error: invalid bulk length"), true));
}

#[test]
fn a_replica_follows_its_master_through_redouble_and_goes_on_where_it_was_when_the_connection_broke() {
    let followed = both_ways_with(&["--repl-diskless-sync-delay", "0"], |place| {
        let mut master = place.client();
        master.ask("SET before 1");
        let port = place.address().port().to_string();
        let replica = ServerProcess::redis(&["--save", "", "--replicaof", "127.0.0.1", &port]);
        let mut follower = Wire::connect(replica.address());
        follower.ask_until("INFO replication", |info| info.contains("master_link_status:up"));
        master.ask("SET behind 2");
        wait_until("the replica to follow", || follower.ask("GET behind") == Frame::bulk("2"));
        assert_eq!(master.ask("CLIENT KILL TYPE replica"), Frame::Integer(1));
        master.ask("SET later 3");
        wait_until("the replica to go on", || follower.ask("GET later") == Frame::bulk("3"));
        let stats = place.server().ask("INFO stats");
        let syncs = ["sync_full", "sync_partial_ok"].map(|name| field(&stats, name));
        (follower.ask("GET before"), syncs, master.ask("WAIT 1 10000"))
    });
    assert_eq!(followed, (Frame::bulk("1"), ["1", "1"].map(str::to_owned), Frame::Integer(1)));
}

#[test]
fn redis_cli_loads_a_hundred_thousand_commands_and_reads_them_back_as_a_file() {
    let said = both_ways_with(&["--repl-diskless-sync-delay", "0"], |place| {
        let load: Vec<u8> = (0..100_000).flat_map(|n| request(&["SET", &format!("key:{n}"), "value"])).collect();
        let loaded = redis_cli(place, &["--pipe"], &load);
        let mut client = place.client();
        let keys = client.ask("DBSIZE");
        let file = std::env::temp_dir().join(format!("redouble-rdb-{}", place.address().port()));
        let saved = redis_cli(place, &["--rdb", file.to_str().expect("a text")], b"");
        let size = std::fs::metadata(&file).map(|file| file.len());
        let _ = std::fs::remove_file(&file);
        let found = redis_cli(place, &["--scan", "--pattern", "key:9999*"], b"");
        let mut found: Vec<_> = String::from_utf8_lossy(&found.stdout).lines().map(str::to_owned).collect();
        found.sort();
        (loaded.stdout, keys, saved.status.success(), size.is_ok_and(|size| size > 1_000_000), found)
    });
    let (loaded, keys, is_saved, is_whole, found) = said;
    let loaded = String::from_utf8_lossy(&loaded).into_owned();
    assert!(loaded.contains("errors: 0, replies: 100000"), "{loaded}");
    assert_eq!((keys, is_saved, is_whole, found.len()), (Frame::Integer(100_000), true, true, 11));
}

#[test]
fn thousands_of_connections_that_come_and_go_leave_none_at_the_server() {
    let place = Place::through(&[]);
    std::thread::scope(|scope| {
        for number in 0..8 {
            let place = &place;
            scope.spawn(move || {
                for round in 0..250 {
                    let mut client = place.client();
                    match (number + round) % 3 {
                        // Gone before a word, before a reply, and after it.
                        0 => {}
                        1 => drop(client.send(&request(&["INCR", "half"]).repeat(100))),
                        _ => drop(client.ask("INCR whole")),
                    }
                }
            });
        }
    });
    let mut server = place.server();
    server.ask_until("CLIENT LIST", |list| list.lines().count() == 1);
    assert_eq!(server.ask("GET whole"), Frame::bulk("666"));
    assert_eq!(place.client().ask("PING"), Frame::status("PONG"));
}
