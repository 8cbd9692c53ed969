//! What Sentinels reply, and tell those who have subscribed.

use super::*;

#[test]
fn a_client_that_asks_a_sentinel_for_the_master_connects_to_this_server() {
    let reply = |host: &str, port: &str| list([bulk(host), bulk(port)]);
    let kind = AddressKind::SentinelAddress;
    assert_eq!(received(kind, &reply("10.0.0.2", "7002"), &SENTINELS), shown(&reply(HOST, "6002")));
    assert_eq!(received(kind, &reply("node-5.test", "7005"), &SENTINELS), shown(&reply(HOST, "6005")));
    assert_eq!(rewrite_reply(kind, &line("*-1"), &SENTINELS), None);
    assert_eq!(rewrite_reply(kind, &line("_"), &SENTINELS), None);
}

/// The fields of an instance: its name, its address, that of its master.
fn instance(is_resp3: bool, name: &str, [host, port]: [&str; 2], master: Option<[&str; 2]>) -> Vec<u8> {
    let mut all = vec![
        ("name", bulk(name)),
        ("ip", bulk(host)),
        ("port", bulk(port)),
        ("runid", bulk("5d4d6e97de1ee299d8e2342494c4bc8499c28e5c")),
        ("flags", bulk("slave")),
        ("info-refresh", bulk("7002")),
    ];
    if let Some([host, port]) = master {
        all.extend([("master-host", bulk(host)), ("master-port", bulk(port))]);
    }
    fields(is_resp3, &all)
}

#[test]
fn instances_are_named_and_found_where_this_server_has_them() {
    let kind = AddressKind::SentinelInstances;
    for is_resp3 in [false, true] {
        let master = |address| instance(is_resp3, "mymaster", address, None);
        let (real, local) = (["10.0.0.2", "7002"], [HOST, "6002"]);
        assert_eq!(received(kind, &master(real), &SENTINELS), shown(&master(local)));
        assert_eq!(received(kind, &list([master(real)]), &SENTINELS), shown(&list([master(local)])));
        let replicas = |[first, second, third]: [(&str, [&str; 2], [&str; 2]); 3]| {
            let replica = |(name, address, master)| instance(is_resp3, name, address, Some(master));
            list([replica(first), replica(second), replica(third)])
        };
        let real = replicas([
            ("10.0.0.1:7001", ["10.0.0.1", "7001"], real),
            ("[fd00::4]:7004", ["fd00::4", "7004"], ["?", "0"]),
            ("node-5.test:7005", ["node-5.test", "7005"], ["10.9.9.9", "7002"]),
        ]);
        let local = replicas([
            ("front.test:6001", [HOST, "6001"], local),
            ("front.test:6004", [HOST, "6004"], ["?", "0"]),
            ("front.test:6005", [HOST, "6005"], ["10.9.9.9", "7002"]),
        ]);
        assert_eq!(received(kind, &real, &SENTINELS), shown(&local));
    }
}

#[test]
fn a_name_with_our_ipv6_address_has_brackets_as_sentinels_write_it() {
    let book = Book { host: "::1", ..SENTINELS };
    let real = instance(true, "10.0.0.1:7001", ["10.0.0.1", "7001"], None);
    let local = instance(true, "[::1]:6001", ["::1", "6001"], None);
    assert_eq!(received(AddressKind::SentinelInstances, &real, &book), shown(&local));
}

#[test]
fn the_info_that_a_sentinel_keeps_of_nodes_is_rewritten_for_each_of_them() {
    let master = |port: &str, replica: &str| {
        bulk(&format!("# Server\r\ntcp_port:{port}\r\n# Replication\r\nrole:master\r\nslave0:{replica},lag=0\r\n"))
    };
    let replica = |own: &str, host: &str, port: &str| {
        bulk(&format!("tcp_port:{own}\r\nrole:slave\r\nmaster_host:{host}\r\nmaster_port:{port}\r\n"))
    };
    let cache = |master: Vec<u8>, replica: Vec<u8>| {
        let nodes = [list([integer(7063), master]), list([integer(12), replica]), list([integer(-1), line("$-1")])];
        list([bulk("mymaster"), list(nodes)])
    };
    let real = cache(master("7001", "ip=10.0.0.2,port=7002"), replica("7002", "10.0.0.1", "7001"));
    let local = cache(master("6001", "ip=front.test,port=6002"), replica("6002", HOST, "6001"));
    assert_eq!(received(AddressKind::SentinelInfoCache, &real, &SENTINELS), shown(&local));
}

#[test]
fn scripts_that_wait_have_our_addresses_in_their_arguments() {
    let pending = |is_resp3, words: &[&str]| {
        let words = list(words.iter().map(|word| bulk(word)).collect::<Vec<_>>());
        list([fields(is_resp3, &[("argv", words), ("flags", bulk("scheduled")), ("pid", bulk("0"))])])
    };
    for is_resp3 in [false, true] {
        for (real, local) in [
            (
                &["/bin/a", "mymaster", "leader", "start", "10.0.0.1", "7001", "10.0.0.2", "7002"][..],
                &["/bin/a", "mymaster", "leader", "start", HOST, "6001", HOST, "6002"][..],
            ),
            (
                &["/bin/b", "+switch-master", "mymaster 10.0.0.1 7001 10.0.0.2 7002"],
                &["/bin/b", "+switch-master", "mymaster front.test 6001 front.test 6002"],
            ),
        ] {
            let rewritten = received(AddressKind::SentinelScripts, &pending(is_resp3, real), &SENTINELS);
            assert_eq!(rewritten, shown(&pending(is_resp3, local)));
        }
    }
}

/// The messages of a subscription to a channel and to a pattern, in both protocols.
fn messages(channel: &str, text: &str) -> [Vec<u8>; 4] {
    let message = [bulk("message"), bulk(channel), bulk(text)].concat();
    let by_pattern = [bulk("pmessage"), bulk("*"), bulk(channel), bulk(text)].concat();
    [
        [line("*3"), message.clone()].concat(),
        [line(">3"), message].concat(),
        [line("*4"), by_pattern.clone()].concat(),
        [line(">4"), by_pattern].concat(),
    ]
}

#[test]
fn every_event_of_a_sentinel_has_the_addresses_that_clients_know() {
    for (channel, real, local) in [
        ("+switch-master", "mymaster 10.0.0.1 7001 10.0.0.2 7002", "mymaster front.test 6001 front.test 6002"),
        ("+switch-master", "mymaster node-5.test 7005 10.0.0.2 7002", "mymaster front.test 6005 front.test 6002"),
        ("+redirect-to-master", "mymaster 10.0.0.1 7001 10.0.0.2 7002", "mymaster front.test 6001 front.test 6002"),
        ("+sdown", "master mymaster 10.0.0.1 7001", "master mymaster front.test 6001"),
        ("+odown", "master mymaster 10.0.0.1 7001 #quorum 2/2", "master mymaster front.test 6001 #quorum 2/2"),
        ("+monitor", "master mymaster 10.0.0.1 7001 quorum 2", "master mymaster front.test 6001 quorum 2"),
        (
            "+set",
            "master mymaster 10.0.0.1 7001 down-after-milliseconds 7001",
            "master mymaster front.test 6001 down-after-milliseconds 7001",
        ),
        (
            "+slave",
            "slave 10.0.0.2:7002 10.0.0.2 7002 @ mymaster 10.0.0.1 7001",
            "slave front.test:6002 front.test 6002 @ mymaster front.test 6001",
        ),
        (
            "-sdown",
            "slave [fd00::4]:7004 fd00::4 7004 @ mymaster node-5.test 7005",
            "slave front.test:6004 front.test 6004 @ mymaster front.test 6005",
        ),
        (
            "-role-change",
            "slave 10.0.0.2:7002 10.0.0.2 7002 @ mymaster 10.0.0.1 7001 new reported role is master",
            "slave front.test:6002 front.test 6002 @ mymaster front.test 6001 new reported role is master",
        ),
        (
            "+sentinel",
            "sentinel 8a6ea2fd 10.0.0.3 7003 @ mymaster 10.0.0.1 7001",
            "sentinel 8a6ea2fd front.test 6003 @ mymaster front.test 6001",
        ),
        (
            "+sentinel-address-switch",
            "master mymaster 10.0.0.1 7001 ip 10.0.0.3 port 7003 for 8a6ea2fd",
            "master mymaster front.test 6001 ip front.test port 6003 for 8a6ea2fd",
        ),
        (
            "-dup-sentinel",
            "master mymaster 10.0.0.1 7001 #duplicate of 10.0.0.3:7003 or 8a6ea2fd",
            "master mymaster front.test 6001 #duplicate of front.test:6003 or 8a6ea2fd",
        ),
        (
            "+slave-reconf-done",
            "slave 10.9.9.9:7002 10.9.9.9 7002 @ mymaster 10.0.0.1 7001",
            "slave 10.9.9.9:7002 10.9.9.9 7002 @ mymaster front.test 6001",
        ),
    ] {
        for (real, local) in messages(channel, real).into_iter().zip(messages(channel, local)) {
            assert_eq!(shown(&rewrite_message(&real, &SENTINELS).unwrap_or_default()), shown(&local));
            // Any client may publish such a text on any channel of a data node.
            assert_eq!(rewrite_message(&real, &CLUSTER), None);
        }
    }
}

#[test]
fn what_sentinels_tell_each_other_through_the_nodes_has_our_addresses() {
    let hello = |[own, master]: [(&str, u16); 2]| {
        let ((host, port), (master_host, master_port)) = (own, master);
        messages("__sentinel__:hello", &format!("{host},{port},8a6ea2fd,1,mymaster,{master_host},{master_port},1"))
    };
    let real = hello([("10.0.0.3", 7003), ("10.0.0.1", 7001)]);
    let local = hello([(HOST, 6003), (HOST, 6001)]);
    for (real, local) in real.into_iter().zip(local) {
        for book in [&CLUSTER, &SENTINELS] {
            assert_eq!(rewrite_message(&real, book), Some(local.clone()));
        }
    }
}

#[test]
fn events_without_addresses_stay() {
    for (channel, text) in [
        ("+new-epoch", "1"),
        ("+vote-for-leader", "8a6ea2fd92b3501897c0d47e5d3d060ac527c75f 1"),
        ("+tilt", "#tilt mode entered"),
        ("+sdown", "master"),
        ("+sdown", "master mymaster 10.0.0.1"),
        ("+sdown", "slave 10.9.9.9:7002 10.0.0.2 x @ mymaster"),
        ("+switch-master", "mymaster 10.0.0.1"),
        ("+switch-master", ""),
        ("__sentinel__:hello", "10.0.0.3"),
        ("__sentinel__:hello", ""),
    ] {
        for message in messages(channel, text) {
            assert_eq!(rewrite_message(&message, &SENTINELS), None, "{channel} {text}");
        }
    }
    for message in [
        list([bulk("subscribe"), bulk("__sentinel__:hello"), integer(1)]),
        list([bulk("message"), bulk("__sentinel__:hello")]),
        line(">2\r\n$10\r\ninvalidate\r\n_"),
    ] {
        assert_eq!(rewrite_message(&message, &SENTINELS), None);
    }
}
