//! CLUSTER SLOTS, SHARDS, NODES and REPLICAS, and the errors that send clients to other nodes.

use super::*;

/// A range of slots and a node in CLUSTER SLOTS.
fn slots(endpoint: &[u8], port: u16, id: &str, further: &[u8]) -> Vec<u8> {
    let node = list([endpoint.to_vec(), integer(port), bulk(id), further.to_vec()]);
    list([list([integer(0), integer(5460), node])])
}

#[test]
fn a_client_that_reads_the_slots_connects_to_this_server() {
    let node = |host: &str, port: u16, id| list([bulk(host), integer(port), bulk(id), list([])]);
    let reply = |[first, second, third]: [(&str, u16); 3]| {
        list([
            list([integer(0), integer(5460), node(first.0, first.1, ID_1), node(second.0, second.1, ID_2)]),
            list([integer(5461), integer(10922), node(third.0, third.1, ID_3)]),
        ])
    };
    let real = reply([("10.0.0.1", 7001), ("10.0.0.2", 7002), ("10.0.0.3", 7003)]);
    let local = reply([(HOST, 6001), (HOST, 6002), (HOST, 6003)]);
    assert_eq!(received(AddressKind::Slots, &real, &CLUSTER), shown(&local));
}

#[test]
fn slots_of_a_server_that_is_too_old_for_ids_are_rewritten_too() {
    let reply = |host: &str, port: u16| list([list([integer(0), integer(1), list([bulk(host), integer(port)])])]);
    assert_eq!(received(AddressKind::Slots, &reply("10.0.0.2", 7002), &CLUSTER), shown(&reply(HOST, 6002)));
}

#[test]
fn a_host_name_of_a_node_is_replaced_and_so_is_its_address_beside_it() {
    for is_resp3 in [false, true] {
        let real = slots(&bulk("node-1.example"), 7001, ID_1, &fields(is_resp3, &[("ip", bulk("10.0.0.1"))]));
        let local = slots(&bulk(HOST), 6001, ID_1, &fields(is_resp3, &[("ip", bulk(HOST))]));
        assert_eq!(received(AddressKind::Slots, &real, &CLUSTER), shown(&local));
    }
}

#[test]
fn an_endpoint_that_is_unknown_stays_so_and_its_port_is_ours() {
    for (null, is_resp3) in [("$-1", false), ("_", true), ("$0\r\n", true)] {
        let further = |ip: &str, name: &str| fields(is_resp3, &[("ip", bulk(ip)), ("hostname", bulk(name))]);
        let real = slots(&line(null), 7002, ID_2, &further("10.0.0.2", "node-2.example"));
        let local = slots(&line(null), 6002, ID_2, &further(HOST, HOST));
        assert_eq!(received(AddressKind::Slots, &real, &CLUSTER), shown(&local));
    }
}

#[test]
fn a_node_without_a_host_name_where_names_are_preferred_gets_ours() {
    let real = slots(&bulk("?"), 7002, "unknown", &fields(true, &[("ip", bulk("10.0.0.2"))]));
    let local = slots(&bulk(HOST), 6002, "unknown", &fields(true, &[("ip", bulk(HOST))]));
    assert_eq!(received(AddressKind::Slots, &real, &CLUSTER), shown(&local));
}

#[test]
fn nodes_that_can_have_no_local_address_stay() {
    let reply = slots(&bulk("10.9.9.9"), 1, "unknown", &list([]));
    assert_eq!(rewrite_reply(AddressKind::Slots, &reply, &CLUSTER), None);
    let reply = slots(&bulk(""), 0, ID_2, &list([]));
    assert_eq!(rewrite_reply(AddressKind::Slots, &reply, &CLUSTER), None);
}

/// CLUSTER SHARDS with one node.
fn shards(is_resp3: bool, node: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let shard = [
        ("slots", list([integer(0), integer(5460)])),
        ("nodes", list([fields(is_resp3, node)])),
        ("id", bulk("a8d1daa66d3fc2076e9f7756dc26e3764e1c065e")),
    ];
    list([fields(is_resp3, &shard)])
}

/// The fields of a node in CLUSTER SHARDS: its ports, and its hosts.
fn shard_node(ports: &[(&'static str, u16)], host: &str, name: Option<&str>) -> Vec<(&'static str, Vec<u8>)> {
    let mut node = vec![("id", bulk(ID_2))];
    node.extend(ports.iter().map(|(name, port)| (*name, integer(*port))));
    node.extend([("ip", bulk(host)), ("endpoint", bulk(name.unwrap_or(host)))]);
    node.extend(name.map(|name| ("hostname", bulk(name))));
    node.extend([("role", bulk("replica")), ("replication-offset", integer(336)), ("health", bulk("online"))]);
    node
}

#[test]
fn the_nodes_of_shards_are_where_this_server_has_them() {
    for is_resp3 in [false, true] {
        let real = shards(is_resp3, &shard_node(&[("port", 7002)], "10.0.0.2", None));
        let local = shards(is_resp3, &shard_node(&[("port", 6002)], HOST, None));
        assert_eq!(received(AddressKind::Shards, &real, &CLUSTER), shown(&local));
        let real = shards(is_resp3, &shard_node(&[("port", 7002)], "10.0.0.2", Some("node-2.example")));
        let local = shards(is_resp3, &shard_node(&[("port", 6002)], HOST, Some(HOST)));
        assert_eq!(received(AddressKind::Shards, &real, &CLUSTER), shown(&local));
    }
}

#[test]
fn a_node_of_shards_has_the_ports_that_are_open_here_and_no_others() {
    for is_resp3 in [false, true] {
        let reply = |ports, host| shards(is_resp3, &shard_node(ports, host, None));
        let plain = reply(&[("port", 7002)], "10.0.0.2");
        let tls = reply(&[("tls-port", 7002)], "10.0.0.2");
        let both = reply(&[("port", 7002), ("tls-port", 7102)], "10.0.0.2");
        let ours = reply(&[("port", 6002), ("tls-port", 6102)], HOST);
        assert_eq!(received(AddressKind::Shards, &plain, &WITH_TLS), shown(&ours));
        assert_eq!(received(AddressKind::Shards, &both, &WITH_TLS), shown(&ours));
        let ours = reply(&[("port", 6002)], HOST);
        assert_eq!(received(AddressKind::Shards, &tls, &CLUSTER), shown(&ours));
        assert_eq!(received(AddressKind::Shards, &both, &CLUSTER), shown(&ours));
        let ours = reply(&[("tls-port", 6102)], HOST);
        assert_eq!(received(AddressKind::Shards, &plain, &ONLY_TLS), shown(&ours));
    }
}

#[test]
fn lines_of_nodes_have_our_addresses_and_keep_the_port_of_the_bus() {
    let real = format!(
        "{ID_1} 10.0.0.1:7001@17001 myself,master - 0 1795377862000 1 connected 0-5460 [93-<-{ID_2}]\n\
         {ID_2} 10.0.0.2:7002@17002,node-2.example slave {ID_1} 0 1795377864039 1 connected\n\
         {ID_3} :0@0 master,noaddr - 1795377864039 1795377864039 2 disconnected 5461-10922\n\
         7f163f37b2a9a9f6c07f81c0494fea0ada7d5833 fd00::4:7004@17004,,tls-port=0,shard-id=a8d1 slave {ID_1} 0 0 1 connected\n"
    );
    let local = format!(
        "{ID_1} front.test:6001@17001 myself,master - 0 1795377862000 1 connected 0-5460 [93-<-{ID_2}]\n\
         {ID_2} front.test:6002@17002,front.test slave {ID_1} 0 1795377864039 1 connected\n\
         {ID_3} :0@0 master,noaddr - 1795377864039 1795377864039 2 disconnected 5461-10922\n\
         7f163f37b2a9a9f6c07f81c0494fea0ada7d5833 front.test:6004@17004,,tls-port=0,shard-id=a8d1 slave {ID_1} 0 0 1 connected\n"
    );
    assert_eq!(received(AddressKind::Nodes, &bulk(&real), &CLUSTER), shown(&bulk(&local)));
    assert_eq!(received(AddressKind::Nodes, &verbatim(&real), &CLUSTER), shown(&verbatim(&local)));
    let lines = |text: &str| list(text.lines().map(bulk).collect::<Vec<_>>());
    assert_eq!(received(AddressKind::Nodes, &lines(&real), &CLUSTER), shown(&lines(&local)));
}

#[test]
fn a_node_that_does_not_know_its_own_host_is_where_the_client_has_reached_it() {
    let reply = |port: u16| bulk(&format!("{ID_1} :{port}@17001 myself,master - 0 0 0 connected 0-16383\n"));
    assert_eq!(received(AddressKind::Nodes, &reply(7001), &CLUSTER), shown(&reply(6001)));
}

#[test]
fn ports_for_tls_in_lines_of_nodes_are_ours() {
    let reply = |host: &str, ports: (u16, u16)| {
        let (port, tls_port) = ports;
        bulk(&format!("{ID_2} {host}:{port}@17002,,tls-port={tls_port},shard-id=a8 master - 0 0 0 connected\n"))
    };
    let real = reply("10.0.0.2", (7002, 7102));
    assert_eq!(received(AddressKind::Nodes, &real, &WITH_TLS), shown(&reply(HOST, (6002, 6102))));
}

#[test]
fn a_node_in_the_middle_of_a_handshake_is_known_by_its_address_only() {
    let reply = |address: &str| bulk(&format!("{ID_3} {address}@17002 handshake - 0 0 0 connected\n"));
    let real = reply("10.0.0.2:7002");
    assert_eq!(received(AddressKind::Nodes, &real, &CLUSTER), shown(&reply("front.test:6002")));
}

#[test]
fn no_error_sends_a_client_around_us() {
    for (real, local) in [
        ("-MOVED 15495 10.0.0.2:7002", "-MOVED 15495 front.test:6002"),
        ("-ASK 15495 10.0.0.2:7002", "-ASK 15495 front.test:6002"),
        ("-REDIRECT 10.0.0.2:7002", "-REDIRECT front.test:6002"),
        ("-MOVED 15495 :7001", "-MOVED 15495 :6001"),
        ("-MOVED 1 fd00::4:7004", "-MOVED 1 front.test:6004"),
        ("-MOVED 1 [fd00::4]:7004", "-MOVED 1 front.test:6004"),
        ("-MOVED 1 node-5.test:7005", "-MOVED 1 front.test:6005"),
        ("-MOVED 1 ?:7001", "-MOVED 1 front.test:6001"),
        (
            "-MOVED 1 10.0.0.2:7002 script: 8a6ea2fd92b35018, on @user_script:1.",
            "-MOVED 1 front.test:6002 script: 8a6ea2fd92b35018, on @user_script:1.",
        ),
        (
            "-ERR Target instance replied with error: MOVED 1 10.0.0.2:7002",
            "-ERR Target instance replied with error: MOVED 1 front.test:6002",
        ),
        ("!24\r\nMOVED 1547 10.0.0.2:7002", "!26\r\nMOVED 1547 front.test:6002"),
    ] {
        let (real, local) = (line(real), line(local));
        assert_eq!(shown(&rewrite_errors(&real, &CLUSTER).unwrap_or_default()), shown(&local));
        let inside = |error: &[u8]| list([line("+OK"), list([line("_"), error.to_vec()]), bulk("MOVED")]);
        assert_eq!(shown(&rewrite_errors(&inside(&real), &CLUSTER).unwrap_or_default()), shown(&inside(&local)));
        for kind in [AddressKind::Slots, AddressKind::Info, AddressKind::SentinelAddress] {
            assert_eq!(received(kind, &real, &CLUSTER), shown(&local));
        }
    }
}

#[test]
fn what_only_looks_like_a_redirect_stays() {
    for reply in [
        line("-ERR unknown command 'MOVED', with args beginning with: '1' '10.0.0.2:7002'"),
        line("-MOVED 1 10.9.9.9:7002"),
        line("-MOVED"),
        line("-MOVED x 10.0.0.2:7002"),
        line("-MOVED 1 10.0.0.2:0"),
        line("-MOVED 1 [10.0.0.2]:7002"),
        line("+MOVED 1 10.0.0.2:7002"),
        bulk("-MOVED 1 10.0.0.2:7002\r\n"),
        list([bulk("-MOVED 1 10.0.0.2:7002\r\n")]),
        b"*2\r\n-MOVED 1 10.0.0.2:7002\r\n".to_vec(),
        b"-MOVED 1 10.0.0.2:7002".to_vec(),
    ] {
        assert_eq!(rewrite_errors(&reply, &CLUSTER), None, "{}", shown(&reply));
    }
}

#[test]
fn what_a_transaction_has_asked_for_is_rewritten_by_its_commands() {
    let reply = |host: &str, port: u16, error: &str| {
        let role = list([bulk("slave"), bulk(host), integer(port), bulk("connected"), integer(14)]);
        list([bulk("10.0.0.2:7002"), role, line(error), line("$-1"), line(error)])
    };
    let kinds = [None, Some(AddressKind::Role), Some(AddressKind::Slots), None];
    let real = reply("10.0.0.2", 7002, "-MOVED 7 10.0.0.3:7003");
    let local = reply(HOST, 6002, "-MOVED 7 front.test:6003");
    assert_eq!(shown(&rewrite_elements(&real, &kinds, &CLUSTER).unwrap_or_default()), shown(&local));
    for nothing in [line("*-1"), line("_"), line("-EXECABORT Transaction discarded"), list([line("+OK")]), list([])] {
        assert_eq!(rewrite_elements(&nothing, &kinds, &CLUSTER), None);
    }
    let refused = |address: &str| line(&format!("-MOVED 1 {address}"));
    let rewritten = rewrite_elements(&refused("10.0.0.2:7002"), &kinds, &CLUSTER);
    assert_eq!(rewritten, Some(refused("front.test:6002")));
}

#[test]
fn attributes_and_messages_in_a_reply_stay_in_front_of_what_they_belong_to() {
    let aside = b"|1\r\n+ttl\r\n:3600\r\n>2\r\n+invalidate\r\n*1\r\n$1\r\na\r\n";
    let reply = |host: &str, port: u16| {
        let port = [aside.to_vec(), integer(port)].concat();
        let node = list([bulk(host), port, bulk(ID_2)]);
        [b"|1\r\n+key\r\n+value\r\n".to_vec(), list([list([integer(0), integer(1), node])])].concat()
    };
    assert_eq!(received(AddressKind::Slots, &reply("10.0.0.2", 7002), &CLUSTER), shown(&reply(HOST, 6002)));
    let reply = |host: &str, port: u16| {
        [aside.to_vec(), list([[aside.to_vec(), line(&format!("-ASK 1 {host}:{port}"))].concat()])].concat()
    };
    assert_eq!(rewrite_errors(&reply("10.0.0.2", 7002), &CLUSTER), Some(reply(HOST, 6002)));
}
