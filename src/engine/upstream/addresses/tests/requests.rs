//! Requests in which a client names nodes and clients as it knows them.

use super::*;

/// What the server gets of a request.
fn sent(request: &str, book: &Book) -> String {
    let words: OwnedWords = request.split(' ').collect();
    let new = rewrite_request(words.as_words(), book);
    let words = new.as_ref().unwrap_or(&words).as_words();
    words.iter().map(shown).collect::<Vec<_>>().join(" ")
}

#[test]
fn nodes_and_clients_are_named_to_the_server_as_it_knows_them() {
    for (local, real) in [
        ("CLUSTER MEET front.test 6002", "CLUSTER MEET 10.0.0.2 7002"),
        ("cluster meet front.test 6002 17002", "cluster meet 10.0.0.2 7002 17002"),
        ("CLUSTER MEET front.test 6002 16002", "CLUSTER MEET 10.0.0.2 7002 17002"),
        ("MIGRATE front.test 6003 key 0 5000 REPLACE", "MIGRATE 10.0.0.3 7003 key 0 5000 REPLACE"),
        ("MIGRATE front.test 6003  0 5000 KEYS a b", "MIGRATE 10.0.0.3 7003  0 5000 KEYS a b"),
        ("FAILOVER TO front.test 6002 FORCE TIMEOUT 6002", "FAILOVER TO 10.0.0.2 7002 FORCE TIMEOUT 6002"),
        ("FAILOVER TIMEOUT 10 to front.test 6002", "FAILOVER TIMEOUT 10 to 10.0.0.2 7002"),
        ("REPLICAOF front.test 6002", "REPLICAOF 10.0.0.2 7002"),
        ("slaveof front.test 6004", "slaveof fd00::4 7004"),
        ("SENTINEL MONITOR mymaster front.test 6005 2", "SENTINEL MONITOR mymaster node-5.test 7005 2"),
        ("SENTINEL IS-MASTER-DOWN-BY-ADDR front.test 6002 1 *", "SENTINEL IS-MASTER-DOWN-BY-ADDR 10.0.0.2 7002 1 *"),
        ("sentinel is-primary-down-by-addr front.test 6002 1 *", "sentinel is-primary-down-by-addr 10.0.0.2 7002 1 *"),
        ("CLIENT KILL 192.0.2.9:40000", "CLIENT KILL 127.0.0.1:50000"),
        ("CLIENT KILL TYPE normal ADDR 192.0.2.9:40000", "CLIENT KILL TYPE normal ADDR 127.0.0.1:50000"),
        ("CLIENT KILL ID 3 4 addr 192.0.2.9:40000", "CLIENT KILL ID 3 4 addr 127.0.0.1:50000"),
        ("CLIENT KILL LADDR front.test:6001 SKIPME no", "CLIENT KILL LADDR 10.0.0.1:7001 SKIPME no"),
        ("CLIENT KILL LADDR front.test:6004", "CLIENT KILL LADDR [fd00::4]:7004"),
        ("CLIENT LIST NOT-ADDR 192.0.2.9:40000", "CLIENT LIST NOT-ADDR 127.0.0.1:50000"),
        ("CONFIG SET cluster-announce-ip front.test", "CONFIG SET cluster-announce-ip 10.0.0.1"),
        (
            "CONFIG SET maxmemory 6001 replica-announce-port 6001 REPLICA-ANNOUNCE-IP front.test",
            "CONFIG SET maxmemory 6001 replica-announce-port 7001 REPLICA-ANNOUNCE-IP 10.0.0.1",
        ),
        ("SENTINEL CONFIG SET announce-ip front.test", "SENTINEL CONFIG SET announce-ip 10.0.0.1"),
    ] {
        assert_eq!(sent(local, &CLUSTER), real);
    }
}

#[test]
fn what_is_none_of_our_addresses_stays() {
    for request in [
        "CLUSTER MEET 10.0.0.2 7002",
        "CLUSTER MEET front.test 9999",
        "CLUSTER MEET other.test 6002",
        "CLUSTER MEET front.test",
        "CLUSTER FORGET front.test 6002",
        "CLUSTER",
        "MIGRATE front.test x key 0 5000",
        "REPLICAOF NO ONE",
        "FAILOVER",
        "FAILOVER ABORT",
        "FAILOVER TO",
        "SENTINEL MONITOR front.test 6002 front.test x 2",
        "SENTINEL",
        "CLIENT KILL 127.0.0.1:1",
        "CLIENT KILL ADDR",
        "CLIENT KILL NAME addr ID 5",
        "CLIENT SETNAME 192.0.2.9:40000",
        "CLIENT",
        "CONFIG GET cluster-announce-ip front.test",
        "CONFIG SET cluster-announce-ip 10.1.1.1 cluster-announce-port 6002",
        "CONFIG SET cluster-announce-ip",
        "SET front.test 6002",
        "GET front.test:6002",
        "",
    ] {
        assert_eq!(sent(request, &CLUSTER), request);
    }
    assert!(rewrite_request(OwnedWords::default().as_words(), &CLUSTER).is_none());
}
