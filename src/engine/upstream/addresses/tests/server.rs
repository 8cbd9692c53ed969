//! INFO, ROLE, CONFIG GET, and what shows clients.

use super::*;

fn info(real: &str, local: &str, book: &Book) {
    let [real, local] = [real, local].map(|text| text.replace('\n', "\r\n"));
    assert_eq!(received(AddressKind::Info, &bulk(&real), book), shown(&bulk(&local)));
    assert_eq!(received(AddressKind::Info, &verbatim(&real), book), shown(&verbatim(&local)));
}

#[test]
fn a_replica_says_in_info_where_its_master_is_for_clients() {
    info(
        "# Replication\nrole:slave\nmaster_host:10.0.0.2\nmaster_port:7002\nmaster_link_status:up\nmaster_host_x:10.0.0.2\n",
        "# Replication\nrole:slave\nmaster_host:front.test\nmaster_port:6002\nmaster_link_status:up\nmaster_host_x:10.0.0.2\n",
        &CLUSTER,
    );
}

#[test]
fn a_master_says_in_info_where_its_replicas_are_for_clients() {
    info(
        "role:master\nconnected_slaves:2\nslave0:ip=10.0.0.2,port=7002,state=online,offset=392,lag=0\n\
         slave1:ip=fd00::4,port=7004,state=online,offset=392,lag=0,type=replica\nmaster_replid:879c\n",
        "role:master\nconnected_slaves:2\nslave0:ip=front.test,port=6002,state=online,offset=392,lag=0\n\
         slave1:ip=front.test,port=6004,state=online,offset=392,lag=0,type=replica\nmaster_replid:879c\n",
        &CLUSTER,
    );
}

#[test]
fn a_sentinel_says_in_info_where_its_masters_are_for_clients() {
    info(
        "# Sentinel\nsentinel_masters:2\nmaster0:name=a,status=ok,address=10.0.0.2:7002,slaves=2,sentinels=3\n\
         master1:name=b,status=odown,address=fd00::4:7004,slaves=0,sentinels=1\nmaster_x:address=10.0.0.2:7002\n",
        "# Sentinel\nsentinel_masters:2\nmaster0:name=a,status=ok,address=front.test:6002,slaves=2,sentinels=3\n\
         master1:name=b,status=odown,address=front.test:6004,slaves=0,sentinels=1\nmaster_x:address=10.0.0.2:7002\n",
        &SENTINELS,
    );
}

#[test]
fn a_node_says_in_info_the_ports_that_are_open_here() {
    let real = "# Server\ntcp_port:7001\nuptime_in_seconds:7001\nlistener0:name=tcp,bind=*,bind=-::*,port=7001\n\
                listener1:name=tls,bind=10.0.0.1,bind=::1,port=7101\nlistener2:name=unix,bind=/run/redis.sock\n";
    let local = "# Server\ntcp_port:6001\nuptime_in_seconds:7001\nlistener0:name=tcp,bind=*,bind=-::*,port=6001\n\
                 listener1:name=tls,bind=front.test,port=6101\nlistener2:name=unix,bind=/run/redis.sock\n";
    info(real, local, &WITH_TLS);
    let without_tls = local.replace("listener1:name=tls,bind=front.test,port=6101\n", "");
    info(real, &without_tls, &CLUSTER);
}

#[test]
fn a_file_name_that_is_no_text_does_not_keep_addresses_in_info() {
    let reply = |port: &str| [b"$40\r\ntcp_port:", port.as_bytes(), b"\r\nexecutable:/opt/\xff/redis\r\n\r\n"].concat();
    assert_eq!(received(AddressKind::Info, &reply("7001"), &CLUSTER), shown(&reply("6001")));
}

#[test]
fn role_names_replicas_and_masters_as_clients_reach_them() {
    let master = |replicas: &[(&str, u16)]| {
        let replica = |(host, port): &(&str, u16)| list([bulk(host), bulk(&port.to_string()), bulk("336")]);
        list([bulk("master"), integer(336), list(replicas.iter().map(replica).collect::<Vec<_>>())])
    };
    let real = master(&[("10.0.0.2", 7002), ("10.9.9.9", 7003), ("fd00::4", 7004)]);
    let local = master(&[(HOST, 6002), ("10.9.9.9", 7003), (HOST, 6004)]);
    assert_eq!(received(AddressKind::Role, &real, &CLUSTER), shown(&local));
    let replica =
        |host: &str, port: u16| list([bulk("slave"), bulk(host), integer(port), bulk("connected"), integer(3)]);
    assert_eq!(received(AddressKind::Role, &replica("10.0.0.2", 7002), &CLUSTER), shown(&replica(HOST, 6002)));
    let sentinel = list([bulk("sentinel"), list([bulk("10.0.0.2"), bulk("7002")])]);
    assert_eq!(rewrite_reply(AddressKind::Role, &sentinel, &SENTINELS), None);
}

#[test]
fn what_a_node_announces_is_for_clients_where_they_reach_it() {
    let config = |is_resp3, values: [&str; 10]| {
        let names = [
            "replicaof",
            "port",
            "tls-port",
            "cluster-announce-ip",
            "cluster-announce-port",
            "cluster-announce-hostname",
            "cluster-announce-bus-port",
            "replica-announce-ip",
            "slave-announce-port",
            "maxmemory",
        ];
        fields(is_resp3, &names.into_iter().zip(values.map(bulk)).collect::<Vec<_>>())
    };
    for is_resp3 in [false, true] {
        let real = config(
            is_resp3,
            ["10.0.0.2 7002", "7001", "0", "10.0.0.1", "7001", "node-1.example", "17001", "10.0.0.1", "7001", "7001"],
        );
        let local =
            config(is_resp3, ["front.test 6002", "6001", "0", HOST, "6001", HOST, "17001", HOST, "6001", "7001"]);
        assert_eq!(received(AddressKind::Config, &real, &CLUSTER), shown(&local));
        let nothing = config(is_resp3, ["", "6001", "0", "", "0", "", "0", "", "0", "0"]);
        assert_eq!(rewrite_reply(AddressKind::Config, &nothing, &CLUSTER), None);
    }
}

#[test]
fn a_client_finds_itself_in_the_list_of_clients_by_its_own_address() {
    let line = |[client, reached]: [&str; 2]| {
        format!(
            "id=7 addr={client} laddr={reached} fd=12 name=addr=1 age=1 flags=N cmd=client|list user=default resp=2\n"
        )
    };
    let master = |address: &str| line([address, "10.0.0.1:52000"]).replace("flags=N", "flags=M");
    let real =
        line(["10.0.0.3:42410", "10.0.0.1:7001"]) + &line([CLIENT[2], "10.0.0.1:7001"]) + &master("10.0.0.2:7002");
    let own = format!("{HOST}:6001");
    let local = line(["10.0.0.3:42410", &own]) + &line([CLIENT[0], CLIENT[1]]) + &master(&format!("{HOST}:6002"));
    for encode in [bulk, verbatim] {
        assert_eq!(received(AddressKind::ClientList, &encode(&real), &CLUSTER), shown(&encode(&local)));
    }
    // The user of a client may have any bytes in its name.
    let reply = |client: &str, reached: &str| {
        let text = [b"id=7 addr=", client.as_bytes(), b" laddr=", reached.as_bytes(), b" user=\xff\n"].concat();
        [format!("${}\r\n", text.len()).as_bytes(), &text, b"\r\n"].concat()
    };
    let rewritten = rewrite_reply(AddressKind::ClientList, &reply(CLIENT[2], "10.0.0.1:7001"), &CLUSTER);
    assert_eq!(rewritten, Some(reply(CLIENT[0], CLIENT[1])));
}

#[test]
fn the_logs_name_clients_by_their_own_addresses() {
    let slow = |client: &str| {
        let words = list([bulk("SLAVEOF"), bulk(CLIENT[2])]);
        list([list([integer(2), integer(1_795_377_221), integer(3), words, bulk(client), bulk(CLIENT[2])])])
    };
    assert_eq!(received(AddressKind::SlowLog, &slow(CLIENT[2]), &CLUSTER), shown(&slow(CLIENT[0])));
    for is_resp3 in [false, true] {
        let acl = |client: &str, reached: &str| {
            let info = format!("id=7 addr={client} laddr={reached} fd=12 name= cmd=auth user=default");
            list([fields(
                is_resp3,
                &[
                    ("count", integer(1)),
                    ("object", bulk(CLIENT[2])),
                    ("client-info", bulk(&info)),
                    ("entry-id", integer(0)),
                ],
            )])
        };
        let real = acl(CLIENT[2], "10.0.0.1:7001");
        assert_eq!(received(AddressKind::AclLog, &real, &CLUSTER), shown(&acl(CLIENT[0], CLIENT[1])));
    }
}
