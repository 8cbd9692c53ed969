//! What a Sentinel answers and announces, beside a real one: redis-server 7.0.15 with three Sentinels.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use redouble::Server;

use crate::support::deployments::SentinelSet;
use crate::support::wire::{Frame, Wire};
use crate::support::{CHECKED_PROFILE, address, profile, start, wait_until};

/// Three Sentinels of a master with two replicas.
struct Set {
    sentinels: Vec<SocketAddr>,
    /// The names of ports, so that two sets say the same.
    names: BTreeMap<String, String>,
}

impl Set {
    fn new(sentinels: Vec<SocketAddr>, nodes: &[u16]) -> Self {
        let mut names = BTreeMap::new();
        for (place, sentinel) in sentinels.iter().enumerate() {
            // Real ones list each other in any order.
            names.insert(sentinel.port().to_string(), if place == 0 { "<first>" } else { "<sentinel>" }.to_owned());
        }
        for (place, port) in nodes.iter().enumerate() {
            names.insert(port.to_string(), if place == 0 { "<master>" } else { "<replica>" }.to_owned());
        }
        Self { sentinels, names }
    }

    /// Names the ports anew after a failover: real Sentinels choose any of the two replicas.
    fn name_new_master(&mut self) {
        let port = self.connect(2).ask("SENTINEL GET-MASTER-ADDR-BY-NAME mymaster").items()[1].text();
        self.names.insert(port, "<new>".to_owned());
    }

    fn connect(&self, protocol: u8) -> Wire {
        let mut wire = Wire::connect(self.sentinels[0]);
        if protocol == 3 {
            wire.ask("HELLO 3");
        }
        wire
    }

    /// A text without what differs from set to set: ports and ids.
    fn common(&self, text: &str) -> String {
        let mut common = String::new();
        for word in text.split_inclusive(|c: char| !c.is_ascii_alphanumeric()) {
            let end = word.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
            let is_id = end.len() == 40 && end.bytes().all(|byte| byte.is_ascii_hexdigit());
            common.push_str(if is_id { "<id>" } else { self.names.get(end).map_or(end, String::as_str) });
            common.push_str(&word[end.len()..]);
        }
        common
    }

    /// A reply as text, with the kinds of its parts. Entries of a list of servers come in any order.
    fn shown(&self, reply: &Frame) -> String {
        self.common(&spelled(reply))
    }
}

/// A reply with the kinds of its parts, and without times.
fn spelled(reply: &Frame) -> String {
    let list = |kind: char, items: &[Frame]| {
        let mut texts = Vec::new();
        let mut is_time = false;
        for item in items {
            texts.push(if is_time { "<time>".to_owned() } else { spelled(item) });
            is_time = matches!(item, Frame::Bulk(name) if TIMES.iter().any(|time| time.as_bytes() == name));
        }
        format!("{kind}[{}]", texts.join(" "))
    };
    let text = |kind: char, bytes: &[u8]| format!("{kind}{}", String::from_utf8_lossy(bytes));
    match reply {
        Frame::Status(bytes) => text('+', bytes),
        Frame::Error(bytes) => text('-', bytes),
        Frame::Bulk(bytes) => text('$', bytes),
        Frame::Verbatim(bytes) => text('=', bytes),
        Frame::Array(items) => list('*', items),
        Frame::Map(items) => list('%', items),
        Frame::Push(items) => list('>', items),
        other => format!("{other:?}"),
    }
}

/// Fields that differ from look to look.
const TIMES: &[&str] = &[
    "link-pending-commands",
    "last-ping-sent",
    "last-ok-ping-reply",
    "last-ping-reply",
    "info-refresh",
    "role-reported-time",
    "slave-repl-offset",
    "last-hello-message",
    "s-down-time",
    "o-down-time",
];

fn on_both(test: impl Fn(&mut Set) -> Vec<String>) {
    let real = SentinelSet::start();
    // Real ones connect to each other some time after they have heard of each other.
    let mut first = Wire::connect(real.sentinels[0].address());
    wait_until("the Sentinels to be connected", || {
        !spelled(&first.ask("SENTINEL SENTINELS mymaster")).contains("disconnected")
    });
    let nodes: Vec<u16> = real.nodes.iter().map(|node| node.port()).collect();
    let mut real_set = Set::new(real.sentinels.iter().map(|node| node.address()).collect(), &nodes);
    let builder = Server::builder().compat(profile(CHECKED_PROFILE)).replicas(2).sentinels(3);
    let own = start(builder);
    let nodes: Vec<u16> =
        std::iter::once(address(&own).port()).chain(own.replicas().iter().map(|node| address(node).port())).collect();
    let mut own_set = Set::new(own.sentinels(), &nodes);
    for sentinel in &own_set.sentinels {
        let settings = "down-after-milliseconds 2000 failover-timeout 5000 parallel-syncs 2";
        let reply = Wire::connect(*sentinel).ask(&format!("SENTINEL SET mymaster {settings}"));
        assert_eq!(reply, Frame::status("OK"));
    }
    let (expected, got) = (test(&mut real_set), test(&mut own_set));
    // Of the master at a port where nobody listens, both say for a moment that they are connected.
    let settled = |answer: &str| match answer.contains("$name $other") {
        true => answer.replace(",disconnected", ""),
        false => answer.to_owned(),
    };
    for (expected, got) in expected.iter().zip(&got) {
        assert_eq!(settled(got), settled(expected));
    }
    assert_eq!(got.len(), expected.len());
}

/// One command a line. The answers to those with a `*` in front are lists of servers in any order.
const LINES: &str = "\
PING
PING hello
ROLE
SENTINEL MASTERS
SENTINEL MASTER mymaster
*SENTINEL REPLICAS mymaster
*SENTINEL SLAVES mymaster
*SENTINEL SENTINELS mymaster
SENTINEL GET-MASTER-ADDR-BY-NAME mymaster
SENTINEL get-master-addr-by-name nobody
SENTINEL MYID
SENTINEL MASTER nobody
SENTINEL REPLICAS nobody
SENTINEL SLAVES nobody
SENTINEL SENTINELS nobody
SENTINEL CKQUORUM mymaster
SENTINEL CKQUORUM nobody
SENTINEL CKQUORUM
SENTINEL RESET nobody
SENTINEL FAILOVER nobody
SENTINEL REMOVE nobody
SENTINEL SET nobody quorum 2
SENTINEL SET mymaster
SENTINEL SET mymaster quorum
SENTINEL SET mymaster quorum x
SENTINEL SET mymaster quorum 0
SENTINEL SET mymaster what ever
SENTINEL SET mymaster down-after-milliseconds 0
SENTINEL SET mymaster failover-timeout 0
SENTINEL SET mymaster parallel-syncs -1
SENTINEL SET mymaster notification-script /nowhere
SENTINEL SET mymaster client-reconfig-script /nowhere
SENTINEL SET mymaster quorum 2 parallel-syncs 2
SENTINEL SET mymaster quorum 2 parallel-syncs
SENTINEL SET mymaster down-after-milliseconds 2000 what 2
SENTINEL SET mymaster rename-command CONFIG
SENTINEL SET mymaster master-reboot-down-after-period -1
SENTINEL IS-MASTER-DOWN-BY-ADDR 1.2.3.4 1 0 *
SENTINEL IS-MASTER-DOWN-BY-ADDR 127.0.0.1 1 x *
SENTINEL IS-MASTER-DOWN-BY-ADDR 127.0.0.1 1 0
SENTINEL FLUSHCONFIG
SENTINEL CONFIG GET *
SENTINEL CONFIG GET port
SENTINEL CONFIG GET *host*
SENTINEL CONFIG GET
SENTINEL CONFIG SET what ever
SENTINEL CONFIG SET resolve-hostnames maybe
SENTINEL CONFIG SET announce-port 99999999
SENTINEL CONFIG SET resolve-hostnames no
SENTINEL CONFIG WHAT ever
SENTINEL PENDING-SCRIPTS
SENTINEL INFO-CACHE
SENTINEL INFO-CACHE nobody
SENTINEL SIMULATE-FAILURE help
SENTINEL SIMULATE-FAILURE what
SENTINEL
SENTINEL WHAT
SENTINEL MASTERS more
SENTINEL MONITOR
SENTINEL MONITOR a b c d
SENTINEL MONITOR other 127.0.0.1 1 x
SENTINEL MONITOR other 127.0.0.1 1 0
SENTINEL MONITOR other 127.0.0.1 70000 1
SENTINEL MONITOR other 127.0.0.1 abc 1
SENTINEL MONITOR other no-address 1 1
SENTINEL MONITOR mymaster 127.0.0.1 1 1
SENTINEL MONITOR other 127.0.0.1 1 1
SENTINEL MONITOR other 127.0.0.1 1 1
SENTINEL MASTER other
SENTINEL FAILOVER other
SENTINEL CKQUORUM other
SENTINEL REPLICAS other
SENTINEL SENTINELS other
SENTINEL REMOVE other
SENTINEL MONITOR local localhost 1 1
SENTINEL CONFIG SET resolve-hostnames yes
SENTINEL MONITOR local localhost 1 1
SENTINEL GET-MASTER-ADDR-BY-NAME local
SENTINEL CONFIG SET announce-hostnames yes
SENTINEL GET-MASTER-ADDR-BY-NAME local
SENTINEL CONFIG SET announce-hostnames no
SENTINEL CONFIG SET resolve-hostnames no
SENTINEL REMOVE local
INFO sentinel
INFO what
CLIENT SETNAME me
CLIENT GETNAME
CLIENT WHAT
HELLO 4
AUTH x
ACL WHOAMI
ACL LIST
GET a
SET a b
CONFIG GET *
MULTI
SELECT 0
ECHO hello
PUBLISH a b
PUBLISH __sentinel__:hello x
PUBSUB CHANNELS
UNSUBSCRIBE
PUNSUBSCRIBE
SUBSCRIBE news
UNSUBSCRIBE news
SSUBSCRIBE news
RESET
QUIT
TIME
SHUTDOWN what
EVAL 1 0
REPLICAOF NO ONE";

#[test]
fn every_answer_is_that_of_a_real_sentinel_in_both_protocols() {
    on_both(|set| {
        let mut shown = Vec::new();
        for protocol in [2, 3] {
            let mut wire = set.connect(protocol);
            for line in LINES.lines() {
                let (line, is_list) = line.strip_prefix('*').map_or((line, false), |line| (line, true));
                let reply = wire.ask(line);
                let mut entries = vec![set.shown(&reply)];
                if is_list {
                    entries = reply.items().iter().map(|entry| set.shown(entry)).collect();
                    entries.sort();
                }
                shown.push(format!("RESP{protocol} {line} {entries:#?}"));
            }
        }
        shown
    });
}

/// The events of a failover that do not depend on when a real Sentinel looks.
const SURE: &[&str] = &[
    "+new-epoch",
    "+try-failover",
    "+vote-for-leader",
    "+elected-leader",
    "+failover-state-select-slave",
    "+selected-slave",
    "+failover-state-send-slaveof-noone",
    "+failover-state-wait-promotion",
    "+promoted-slave",
    "+failover-state-reconf-slaves",
    "+slave-reconf-sent",
    "+failover-end",
    "+switch-master",
];

#[test]
fn a_failover_is_announced_as_real_sentinels_announce_it() {
    on_both(|set| {
        let mut listeners: Vec<Wire> = set.sentinels.iter().map(|sentinel| Wire::connect(*sentinel)).collect();
        for listener in &mut listeners {
            listener.ask("PSUBSCRIBE *");
        }
        let reply = set.connect(2).ask("SENTINEL FAILOVER mymaster");
        assert_eq!(reply, Frame::status("OK"));
        let mut events: Vec<Vec<(String, String)>> = Vec::new();
        for listener in &mut listeners[..2] {
            let mut heard = Vec::new();
            // The switch, then the two replicas that there are now.
            while heard.iter().filter(|(channel, _)| channel == "+slave").count() < 2 {
                let message = listener.expect();
                let words: Vec<String> = message.items().iter().map(Frame::text).collect();
                heard.push((words[2].clone(), words[3].clone()));
            }
            events.push(heard);
        }
        set.name_new_master();
        let of = |events: &[(String, String)], is_wanted: &dyn Fn(&str) -> bool| -> Vec<String> {
            let wanted = events.iter().filter(|(channel, _)| is_wanted(channel));
            wanted.map(|(channel, payload)| format!("{channel} {}", set.common(payload))).collect()
        };
        let mut shown = of(&events[0], &|channel| SURE.contains(&channel));
        let mut replicas = of(&events[0], &|channel| channel == "+slave");
        replicas.sort();
        shown.append(&mut replicas);
        shown.extend(of(&events[1], &|channel| {
            matches!(channel, "+new-epoch" | "+config-update-from" | "+switch-master")
        }));
        shown.push(set.shown(&set.connect(2).ask("SENTINEL GET-MASTER-ADDR-BY-NAME mymaster")));
        shown
    });
}
