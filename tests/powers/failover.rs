//! Replicas in the process, and REDOUBLE FAILOVER: what a failover loses, on demand.

use std::time::Duration;

use redouble::{Server, Servers};

use crate::support::wire::{Frame, Wire, request};
use crate::support::{CHECKED_PROFILE, address, profile, wait_for};

/// A master with replicas, and a connection to each instance: first to the master.
struct Group {
    servers: Servers,
    wires: Vec<Wire>,
}

impl Group {
    fn start(replicas: usize) -> Self {
        let builder = Server::builder().compat(profile(CHECKED_PROFILE)).replicas(replicas);
        let servers = builder.spawn_all().expect("the servers start");
        let wires = servers.iter().map(|server| Wire::connect(address(server))).collect();
        Self { servers, wires }
    }

    /// Asks an instance by its number.
    fn ask(&mut self, instance: usize, line: &str) -> Frame {
        self.wires[instance - 1].ask(line)
    }

    fn port(&self, instance: usize) -> u16 {
        address(&self.servers[instance - 1]).port()
    }

    fn field(&mut self, instance: usize, section: &str, field: &str) -> String {
        let info = self.ask(instance, &format!("INFO {section}")).text();
        let line = info.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        line.unwrap_or_else(|| panic!("no {field} in {info}")).to_owned()
    }

    /// A field of the only link of an instance.
    fn link(&mut self, instance: usize, field: &str) -> Frame {
        let list = self.ask(instance, &format!("REDOUBLE LINK {instance} LIST"));
        let [link] = list.items() else { panic!("{list:?}") };
        link.items().chunks(2).find(|pair| pair[0] == Frame::bulk(field)).expect(field)[1].clone()
    }

    /// What a failover of an instance answers for a field.
    fn fail_over(&mut self, instance: usize, rest: &str, field: &str) -> Frame {
        let reply = self.ask(instance, &format!("REDOUBLE FAILOVER {instance} {rest}"));
        let found = reply.items().chunks(2).find(|pair| pair[0] == Frame::bulk(field));
        found.unwrap_or_else(|| panic!("{reply:?}"))[1].clone()
    }
}

fn ok() -> Frame {
    Frame::status("OK")
}

fn integer(number: i64) -> Frame {
    Frame::Integer(number)
}

#[test]
fn a_failover_can_wait_for_the_write_that_a_program_sends_at_a_time_of_its_own() {
    let mut group = Group::start(2);
    assert_eq!(group.ask(1, "REDOUBLE LINK 1 HOLD 2"), integer(1));
    let (mut test, mut program) =
        (Wire::connect(address(&group.servers[0])), Wire::connect(address(&group.servers[0])));
    assert_eq!(program.ask("SET before 1"), ok());
    // A question to the replicas is no change.
    assert_eq!(test.ask("REDOUBLE LINK 1 WAIT 1"), integer(1));
    test.send(&request(&["REDOUBLE", "LINK", "1", "WAIT", "2", "2"]));
    assert_eq!(program.ask("WAIT 2 1"), integer(1));
    assert!(!test.has_reply());
    assert_eq!(program.ask("SET lock alice NX PX 30000"), ok());
    assert_eq!(test.expect(), integer(2));
    assert_eq!(group.servers[0].wait_for_held_changes(2).expect("they are held"), 2);
    // The other link holds nothing.
    assert!(test.ask("REDOUBLE LINK 1 WAIT 1 TIMEOUT 1ms 3").text().starts_with("TIMEOUT"));
    assert_eq!(group.fail_over(1, "TO 2", "lost"), integer(2));
    assert_eq!(group.ask(2, "EXISTS lock before"), integer(0));
}

#[test]
fn a_replica_has_what_the_master_was_answered_for_before_the_answer_arrives() {
    let mut group = Group::start(2);
    for number in 0..100 {
        group.ask(1, &format!("SET key:{number} {number} PX 60000"));
        assert_eq!(group.ask(2, &format!("GET key:{number}")), Frame::bulk(&number.to_string()));
        assert_eq!(group.ask(3, "DBSIZE"), integer(number + 1));
    }
    for line in ["SELECT 3", "MULTI", "LPUSH list a b", "SADD set x", "EXEC", "EVAL redis.call('INCR','n') 0"] {
        group.ask(1, line);
    }
    assert_eq!(group.ask(2, "SELECT 3"), ok());
    assert_eq!(group.ask(2, "LRANGE list 0 -1"), Frame::Array(vec![Frame::bulk("b"), Frame::bulk("a")]));
    assert_eq!(group.ask(1, "DBSIZE"), group.ask(2, "DBSIZE"));
    assert_eq!(group.ask(1, "WAIT 2 0"), integer(2));
    let library = "#!lua name=own\nredis.register_function('one', function() return 1 end)";
    assert_eq!(group.wires[0].call(&["FUNCTION", "LOAD", library]), Frame::bulk("own"));
    let functions = group.ask(1, "FUNCTION LIST WITHCODE");
    assert_eq!((group.ask(2, "FUNCTION LIST WITHCODE"), functions.items().len()), (functions, 1));
    let (master, replica) =
        (group.field(1, "replication", "master_repl_offset"), group.field(2, "replication", "slave_repl_offset"));
    assert_eq!(master, replica);
    assert_eq!(group.field(2, "replication", "master_link_status"), "up");
    assert_eq!(group.field(1, "replication", "connected_slaves"), "2");
    let port = group.port(2);
    // A replica acknowledges once a second, so the lag may be a second in between.
    let line = format!("ip=127.0.0.1,port={port},state=online,offset={master},lag=0");
    wait_for(&line, || {
        let seen = group.field(1, "replication", "slave0");
        if seen == line { Ok(()) } else { Err(seen) }
    });
    let refused = group.ask(2, "SET a 1").text();
    assert_eq!(refused, "READONLY You can't write against a read only replica.");
}

#[test]
fn a_lock_that_was_not_replicated_is_granted_again_after_a_failover_each_time() {
    let mut group = Group::start(1);
    let mut master = 1;
    for round in 0..200 {
        let other = 3 - master;
        assert_eq!(group.ask(master, &format!("SET before:{round} 1")), ok());
        assert_eq!(group.ask(master, &format!("REDOUBLE LINK {master} HOLD")), integer(1));
        assert_eq!(group.ask(master, &format!("SET lock:{round} alice NX PX 30000")), ok());
        assert_eq!(group.fail_over(master, "", "lost"), integer(1));
        assert_eq!(group.ask(other, &format!("SET lock:{round} bob NX PX 30000")), ok(), "round {round}");
        assert_eq!(group.ask(other, &format!("GET before:{round}")), Frame::bulk("1"), "it was replicated");
        assert_eq!(group.ask(master, &format!("GET lock:{round}")), Frame::bulk("bob"), "the old master follows");
        group.ask(master, &format!("REDOUBLE LINK {master} HEAL"));
        master = other;
    }
}

#[test]
fn a_lock_that_was_replicated_survives_a_failover() {
    let mut group = Group::start(2);
    assert_eq!(group.ask(1, "SET lock alice NX PX 30000"), ok());
    assert_eq!(group.ask(1, "WAIT 2 0"), integer(2));
    assert_eq!(group.fail_over(1, "TO 3", "instance"), integer(3));
    assert_eq!(group.ask(3, "SET lock bob NX PX 30000"), Frame::NullBulk);
    for follower in [1, 2] {
        assert_eq!(group.ask(follower, "GET lock"), Frame::bulk("alice"));
        assert_eq!(group.field(follower, "replication", "master_port"), group.port(3).to_string());
        assert_eq!(group.field(follower, "replication", "master_link_status"), "up");
    }
    assert_eq!(group.field(3, "stats", "sync_partial_ok"), "2", "nobody needed all data");
    assert_eq!(group.field(3, "stats", "sync_full"), "0");
}

#[test]
fn a_master_that_was_cut_off_stays_writable_until_the_cut_is_healed_and_then_loses_what_it_took() {
    let mut group = Group::start(1);
    group.ask(1, "SET common 1");
    assert_eq!(group.ask(1, "REDOUBLE LINK 1 CUT"), integer(1));
    assert_eq!(group.field(2, "replication", "master_link_status"), "down");
    group.ask(1, "CONFIG SET min-replicas-to-write 1");
    assert_eq!(group.ask(1, "SET lock alice NX").text(), "NOREPLICAS Not enough good replicas to write.");
    group.ask(1, "CONFIG SET min-replicas-to-write 0");
    assert_eq!(group.ask(1, "SET lock alice NX"), ok());
    assert_eq!(group.fail_over(1, "", "instance"), integer(2));
    assert_eq!(group.ask(2, "SET lock bob NX"), ok());
    assert_eq!((group.ask(1, "GET lock"), group.ask(2, "GET lock")), (Frame::bulk("alice"), Frame::bulk("bob")));
    assert_eq!(group.ask(1, "SET more 1"), ok(), "two masters");
    group.ask(1, "REDOUBLE LINK 1 HEAL");
    assert_eq!((group.ask(1, "GET lock"), group.ask(1, "EXISTS more common")), (Frame::bulk("bob"), integer(1)));
    assert!(group.ask(1, "SET more 1").text().starts_with("READONLY"));
}

#[test]
fn changes_wait_for_their_step_their_time_or_the_end_of_a_hold() {
    let mut group = Group::start(1);
    group.servers[0].freeze();
    group.ask(1, "REDOUBLE LINK 1 HOLD 2");
    for line in ["SET a 1", "MULTI", "SET b 1", "SET c 1", "EXEC", "SET d 1"] {
        group.ask(1, line);
    }
    assert_eq!((group.link(1, "held"), group.ask(2, "DBSIZE")), (integer(3), integer(0)));
    assert_eq!(group.ask(1, "REDOUBLE LINK 1 STEP 2"), integer(2));
    assert_eq!(group.ask(2, "DBSIZE"), integer(3));
    group.ask(1, "REDOUBLE LINK 1 LAG 2s");
    group.servers[0].advance(Duration::from_millis(1999));
    assert_eq!(group.ask(2, "DBSIZE"), integer(3));
    group.servers[0].advance(Duration::from_millis(1));
    assert_eq!(group.ask(2, "DBSIZE"), integer(4));
    group.ask(1, "REDOUBLE LINK 1 HOLD");
    group.ask(1, "SET e 1");
    group.wires[0].send(&request(&["WAIT", "1", "0"]));
    let mut other = Wire::connect(address(&group.servers[0]));
    other.ask_until("INFO clients", |info| info.contains("blocked_clients:1\r"));
    other.ask("REDOUBLE LINK 1 HEAL");
    assert_eq!(group.wires[0].expect(), integer(1));
    assert_eq!(group.ask(2, "DBSIZE"), integer(5));
}

#[test]
fn a_replica_hides_what_has_expired_and_leaves_its_deletion_to_the_master() {
    let mut group = Group::start(1);
    group.servers.iter().for_each(|server| server.freeze());
    group.ask(1, "SET lock alice PX 1000");
    group.servers[1].advance(Duration::from_secs(2));
    assert_eq!((group.ask(2, "GET lock"), group.ask(2, "DBSIZE")), (Frame::NullBulk, integer(1)));
    assert_eq!(group.ask(1, "PEXPIRE lock 60000"), integer(1), "it is there where it counts");
    assert_eq!(group.ask(2, "GET lock"), Frame::bulk("alice"));
    group.servers[0].advance(Duration::from_secs(61));
    assert_eq!(group.ask(2, "DBSIZE"), integer(0), "the master has deleted it");
}

#[test]
fn who_waits_at_a_master_that_is_replaced_is_told_and_a_message_reaches_subscribers_of_the_replica() {
    let mut group = Group::start(1);
    let mut waiter = Wire::connect(address(&group.servers[0]));
    waiter.send(&request(&["BLPOP", "jobs", "0"]));
    group.wires[0].ask_until("INFO clients", |info| info.contains("blocked_clients:1\r"));
    let mut subscriber = Wire::connect(address(&group.servers[1]));
    subscriber.ask("SUBSCRIBE news");
    assert_eq!(group.ask(1, "PUBLISH news hello"), integer(0));
    assert_eq!(subscriber.expect().items()[2], Frame::bulk("hello"));
    assert_eq!(group.fail_over(1, "", "instance"), integer(2));
    assert!(waiter.expect().text().starts_with("UNBLOCKED "));
}

#[test]
fn a_master_that_comes_back_empty_wipes_its_replicas() {
    let mut group = Group::start(2);
    group.ask(1, "SET lock alice");
    group.ask(2, "REDOUBLE INSTANCE STOP 1");
    assert_eq!(group.field(2, "replication", "master_link_status"), "down");
    assert_eq!(group.ask(2, "GET lock"), Frame::bulk("alice"));
    assert_eq!(group.ask(2, "REDOUBLE INSTANCE START 1 EMPTY"), ok());
    for replica in [2, 3] {
        assert_eq!(
            (group.ask(replica, "DBSIZE"), group.field(replica, "replication", "master_link_status")),
            (integer(0), "up".to_owned())
        );
    }
}

#[test]
fn a_replica_takes_the_place_of_a_master_that_has_stopped_and_that_one_follows_when_it_is_back() {
    let mut group = Group::start(1);
    group.ask(1, "SET lock alice");
    group.ask(2, "REDOUBLE INSTANCE STOP 1");
    assert_eq!(group.ask(2, "REDOUBLE FAILOVER 1").items()[1], integer(2));
    assert_eq!(group.ask(2, "SET lock bob"), ok());
    group.ask(2, "REDOUBLE INSTANCE START 1");
    let mut back = Wire::connect(address(&group.servers[0]));
    assert_eq!(back.ask("GET lock"), Frame::bulk("bob"));
}

#[test]
fn orders_that_cannot_be_carried_out_say_why() {
    let mut group = Group::start(1);
    for (order, reason) in [
        ("REDOUBLE FAILOVER 7", "ERR there is no instance 7; they are numbered 1 to 2"),
        ("REDOUBLE FAILOVER 2", "ERR instance 2 is a replica of instance 1; name the master"),
        ("REDOUBLE FAILOVER 1 TO 1", "ERR instance 1 is no replica of instance 1"),
    ] {
        assert_eq!(group.ask(1, order).text(), reason, "{order}");
    }
    group.ask(1, "REDOUBLE INSTANCE STOP 2");
    let none = "ERR instance 1 has no replica that could take its place";
    assert_eq!(group.ask(1, "REDOUBLE FAILOVER 1").text(), none);
}

#[test]
fn the_last_changes_are_lost_although_the_replicas_had_them() {
    let mut group = Group::start(2);
    for line in ["SET a 1", "SET b 1", "MULTI", "SET c 1", "INCR n", "EXEC", "SET lock alice NX PX 30000"] {
        group.ask(1, line);
    }
    assert_eq!(group.ask(2, "GET lock"), Frame::bulk("alice"));
    assert_eq!(group.ask(1, "WAIT 2 0"), integer(2));
    assert_eq!(group.fail_over(1, "LOSING 2", "lost"), integer(2));
    for instance in [1, 2, 3] {
        assert_eq!(group.ask(instance, "EXISTS a b c n lock"), integer(2), "instance {instance}");
    }
    assert_eq!(group.ask(2, "SET lock bob NX PX 30000"), ok());
    let refused = "ERR only the last 1 changes of the replica can be taken back";
    assert_eq!(group.ask(2, "REDOUBLE FAILOVER 2 TO 1 LOSING 5").text(), refused);
    // What a held link has counts among the last ones, and earlier ones still go.
    group.ask(2, "REDOUBLE LINK 2 HOLD");
    for line in ["SET d 1", "SET e 1", "SET f 1"] {
        group.ask(2, line);
    }
    assert_eq!(group.fail_over(2, "TO 3 LOSING 1", "lost"), integer(1));
    assert_eq!(group.ask(3, "EXISTS d e f"), integer(2));
}

#[test]
fn a_reset_at_any_instance_of_a_group_puts_all_of_it_back() {
    for reset in 1..=3 {
        let mut group = Group::start(2);
        group.ask(1, "SET a 1");
        group.ask(1, "REDOUBLE LINK 1 HOLD");
        group.ask(1, "SET lock alice");
        group.fail_over(1, "TO 3", "instance");
        group.ask(3, "SET lock bob");
        group.ask(3, "REDOUBLE LINK 3 CUT 2");
        assert_eq!(group.ask(reset, "REDOUBLE RESET"), ok());
        for (instance, role) in [(1, "master"), (2, "slave"), (3, "slave")] {
            assert_eq!(group.field(instance, "replication", "role"), role, "reset at {reset}");
            assert_eq!(group.ask(instance, "DBSIZE"), integer(0), "instance {instance}, reset at {reset}");
        }
        group.ask(1, "SET again 1");
        assert_eq!((group.ask(2, "GET again"), group.ask(3, "GET again")), (Frame::bulk("1"), Frame::bulk("1")));
    }
}

#[test]
fn a_handover_loses_nothing_and_waits_until_the_replica_has_everything() {
    let mut group = Group::start(1);
    group.servers[0].freeze();
    assert_eq!(group.ask(1, "FAILOVER ABORT").text(), "ERR No failover in progress.");
    group.ask(1, "SET a 1");
    assert_eq!(group.ask(1, "FAILOVER"), ok());
    assert_eq!(group.field(1, "replication", "role"), "slave");
    assert_eq!(group.field(2, "replication", "role"), "master");
    group.ask(2, "REDOUBLE LINK 2 HOLD");
    group.ask(2, "SET b 1");
    let port = group.port(1);
    assert_eq!(group.ask(2, &format!("FAILOVER TO 127.0.0.1 {port}")), ok());
    assert_eq!(group.field(2, "replication", "master_failover_state"), "waiting-for-sync");
    assert_eq!(group.ask(2, "FAILOVER").text(), "ERR FAILOVER already in progress.");
    let mut writer = Wire::connect(address(&group.servers[1]));
    writer.send(&request(&["SET", "c", "1"]));
    group.wires[1].ask_until("INFO clients", |info| info.contains("blocked_clients:1\r"));
    group.ask(2, "REDOUBLE LINK 2 HEAL");
    assert!(writer.expect().text().starts_with("READONLY"), "the master is another one now");
    assert_eq!((group.ask(1, "GET b"), group.field(1, "replication", "role")), (Frame::bulk("1"), "master".to_owned()));
    // A replica that never has everything, and a time-out.
    group.ask(1, "REDOUBLE LINK 1 HOLD");
    group.ask(1, "SET d 1");
    assert_eq!(group.ask(1, "FAILOVER TIMEOUT 1000"), ok());
    group.servers[0].advance(Duration::from_secs(1));
    assert_eq!(group.field(1, "replication", "master_failover_state"), "no-failover");
    assert_eq!(group.ask(1, "SET e 1"), ok(), "it is still the master");
    let port = group.port(2);
    assert_eq!(group.ask(1, &format!("FAILOVER TO 127.0.0.1 {port} FORCE TIMEOUT 1000")), ok());
    group.servers[0].advance(Duration::from_secs(1));
    assert_eq!((group.ask(2, "SET d 2 NX"), group.ask(2, "EXISTS e")), (ok(), integer(0)));
}

#[test]
fn the_journals_say_who_was_promoted_and_which_changes_were_lost() {
    for (order, is_cut) in [("HOLD", false), ("CUT", true)] {
        let mut group = Group::start(1);
        let journals: Vec<_> = group.servers.iter().map(|server| server.journal()).collect();
        group.ask(1, "SET kept 1");
        group.ask(1, &format!("REDOUBLE LINK 1 {order}"));
        group.ask(1, "SELECT 3");
        group.ask(1, "SET lock alice NX PX 30000");
        group.ask(1, "MSET a 1 b 1");
        assert_eq!(group.fail_over(1, "", "lost"), integer(2));
        if is_cut {
            group.ask(1, "SET late 1");
            group.ask(1, "REDOUBLE LINK 1 HEAL");
        }
        let (old, new) = (format!("127.0.0.1:{}", group.port(1)), format!("127.0.0.1:{}", group.port(2)));
        let text = |number: usize| {
            let path = std::env::temp_dir().join(format!("redouble-failover-{}-{order}-{number}", std::process::id()));
            journals[number].export(&path).expect("the journal is written");
            let text = std::fs::read_to_string(&path).expect("a journal");
            std::fs::remove_file(&path).expect("it was there");
            text
        };
        let promoted = text(1).lines().filter(|line| line.contains(r#""event":"promoted""#)).count();
        assert_eq!(promoted, 1);
        assert!(text(1).contains(&format!(r#""node":"{new}""#)) && text(1).contains(&format!(r#""detail":"{old}""#)));
        let lost = text(0);
        let lost: Vec<&str> = lost.lines().filter(|line| line.contains(r#""event":"lost""#)).collect();
        let keys = ["lock", "a", "b", "late"].into_iter().take(if is_cut { 4 } else { 3 });
        assert_eq!(lost.len(), keys.len(), "{lost:?}");
        for (line, key) in lost.iter().zip(keys) {
            assert!(line.contains(&format!(r#""db":3,"key":"{key}""#)) && line.contains(&new), "{line}");
        }
    }
}

#[test]
fn a_clock_that_jumps_while_everybody_waits_jumps_to_what_is_late() {
    let mut group = Group::start(1);
    group.servers[0].auto_advance(None);
    assert_eq!(group.ask(1, "REDOUBLE LINK 1 LAG 1h"), integer(1));
    group.ask(1, "SET a 1");
    assert_eq!(group.ask(1, "WAIT 1 0"), integer(1), "an hour later, and at once");
}

#[test]
fn each_of_several_masters_has_its_replicas_behind_all_masters() {
    let servers = Server::builder().instances(2).replicas(2).spawn_all().expect("the servers start");
    let ports = |servers: &[Server]| servers.iter().map(|server| address(server).port()).collect::<Vec<_>>();
    assert_eq!(ports(&servers[0].replicas()), ports(&servers[2..4]));
    assert_eq!(ports(&servers[1].replicas()), ports(&servers[4..6]));
    for (number, role) in (1..=6).zip(["master", "master", "slave", "slave", "slave", "slave"]) {
        let info = Wire::connect(address(&servers[number - 1])).ask("INFO replication").text();
        assert!(info.contains(&format!("role:{role}\r\n")), "{number}: {info}");
        assert_eq!(info.contains("master_link_status:up"), role == "slave", "{number}: {info}");
    }
    assert!(Server::builder().instances(32).replicas(2).spawn_all().is_err(), "96 instances");
}

#[test]
fn a_replica_of_a_replica_gets_everything_and_goes_on_when_that_one_is_promoted() {
    let mut group = Group::start(2);
    let port = group.port(2);
    group.ask(1, "SELECT 5");
    group.ask(1, "SET a 1");
    assert_eq!(group.ask(3, &format!("REPLICAOF 127.0.0.1 {port}")), ok());
    group.ask(1, "SET b 1");
    group.ask(3, "SELECT 5");
    assert_eq!(group.ask(3, "EXISTS a b"), integer(2));
    group.ask(2, "REPLICAOF NO ONE");
    group.ask(2, "SET own 1");
    assert_eq!(group.field(3, "replication", "master_link_status"), "up");
    group.ask(3, "SELECT 0");
    assert_eq!(group.ask(3, "GET own"), Frame::bulk("1"));
}

#[test]
fn replication_stops_at_exactly_the_command_that_a_fault_names() {
    for (verdict, state) in [("hold-link *", "held"), ("hold-link 2", "held"), ("lag-link 2 by 1h", "late")] {
        let mut group = Group::start(1);
        let fault = format!("REDOUBLE FAULT ADD lost on SET key lock times 1 {verdict}");
        assert_eq!(group.ask(1, &fault), ok());
        group.ask(1, "SET before 1");
        assert_eq!(group.ask(2, "EXISTS before"), integer(1));
        assert_eq!(group.ask(1, "SET lock alice NX PX 30000"), ok());
        assert_eq!(group.ask(2, "EXISTS lock"), integer(0));
        assert_eq!((group.link(1, "state"), group.link(1, "held")), (Frame::bulk(state), integer(1)));
        let rules = group.ask(1, "REDOUBLE FAULT LIST").items()[0].items()[3].text();
        assert_eq!(rules, format!("on SET key lock times 1 {verdict}"));
        assert_eq!(group.fail_over(1, "", "lost"), integer(1));
        assert_eq!(group.ask(2, "SET lock bob NX PX 30000"), ok());
    }
    let mut group = Group::start(1);
    let port = group.port(2);
    group.ask(1, &format!("REDOUBLE FAULT ADD cut on SET key lock cut-link 127.0.0.1:{port}"));
    assert_eq!(group.ask(1, "SET lock alice NX"), ok());
    assert_eq!(group.field(2, "replication", "master_link_status"), "down");
    group.ask(1, "REDOUBLE LINK 1 HEAL");
    assert_eq!(group.ask(2, "GET lock"), Frame::bulk("alice"));
}

#[test]
fn a_fault_for_a_link_that_cannot_be_is_refused_or_changes_nothing() {
    let mut group = Group::start(1);
    let refused = group.ask(1, "REDOUBLE FAULT ADD a on SET hold-link");
    let expected =
        "ERR a replica's address and port, the number of an instance, or * for all was expected; received nothing";
    assert_eq!(refused, Frame::error(expected));
    let refused = group.ask(1, "REDOUBLE FAULT ADD a on SET lag-link 2 200ms");
    assert_eq!(refused, Frame::error("ERR lag-link <replica> by <duration> was expected; received '200ms'"));
    assert_eq!(group.ask(1, "AUTH space.own any"), ok());
    let refused = group.ask(1, "REDOUBLE FAULT ADD a on SET hold-link *");
    let expected = "ERR links to replicas are those of an instance with data of its own, outside of spaces";
    assert_eq!(refused, Frame::error(expected));
    let mut group = Group::start(1);
    assert_eq!(group.ask(1, "REDOUBLE FAULT ADD a on SET hold-link 7"), ok());
    assert_eq!(group.ask(1, "SET key 1"), ok());
    assert_eq!(group.ask(2, "GET key"), Frame::bulk("1"));
}

#[test]
fn nothing_of_the_former_master_runs_once_a_replica_was_told_to_follow_no_one() {
    for _ in 0..20 {
        let mut group = Group::start(1);
        let master = address(&group.servers[0]);
        std::thread::scope(|scope| {
            let writer = scope.spawn(move || {
                let mut wire = Wire::connect(master);
                (0..1000).for_each(|_| drop(wire.ask("INCR n")));
            });
            assert_eq!(group.ask(2, "REPLICAOF NO ONE"), ok());
            let (value, offset) = (group.ask(2, "GET n"), group.field(2, "replication", "master_repl_offset"));
            writer.join().expect("the writer");
            assert_eq!(group.ask(2, "GET n"), value);
            assert_eq!(group.field(2, "replication", "master_repl_offset"), offset);
        });
    }
}
