use std::cell::Cell;
use std::sync::Arc;

use super::apply::changes_of;
use super::cluster_view::nodes_of;
use super::*;
use crate::engine::addresses::AddressBook;
use crate::powers::EventKind;

const A: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
const B: &str = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

fn cluster(seeds: &str) -> Arc<DeploymentFront> {
    let config = Config::default();
    config.assign("upstream-cluster", crate::protocol::quote(seeds.as_bytes()));
    let settings = DeploymentSettings::from_config(&config).unwrap().unwrap();
    let pool = PortPool::new(vec!["127.0.0.1".to_owned()], 16, Some(0), None, None);
    let (front, seeds) = DeploymentFront::new(settings, pool, &config, &Arc::new(Log::silent()));
    front.add_seeds(seeds).unwrap();
    front
}

/// What the first seed sees.
fn see(front: &DeploymentFront, nodes: &str) {
    front.apply(&front.first().unwrap(), &nodes_of(nodes));
}

fn addresses(front: &DeploymentFront) -> Vec<String> {
    front.all().iter().map(|member| member.node.info().address.clone()).collect()
}

fn book<'c>(front: &'c DeploymentFront, member: &'c Arc<Member>, is_named: bool) -> ConnectionBook<'c> {
    let reached = Some("127.0.0.1".parse().unwrap());
    ConnectionBook { front, member, reached, is_tls: false, is_named, has_missed: Cell::new(false) }
}

#[test]
fn a_seed_by_name_and_the_node_at_its_address_are_one() {
    let front = cluster("redis://localhost:7001,127.0.0.1:7002,127.0.0.1:7001");
    see(
        &front,
        &format!(
            "{A} 127.0.0.1:7001@1 myself,master - 0 0 1 connected 0-16383\n{B} 127.0.0.1:7002@1 slave {A} 0 0 1 x"
        ),
    );
    assert_eq!(addresses(&front), ["127.0.0.1:7001", "127.0.0.1:7002"]);
    let replica = front.get(2).unwrap().node.info();
    assert_eq!((replica.role, replica.master.as_deref()), (NodeRole::Replica, Some("127.0.0.1:7001")));
}

#[test]
fn a_node_that_comes_back_elsewhere_keeps_its_port() {
    let front = cluster("redis://127.0.0.1:7001");
    let line = |port| {
        format!(
            "{A} 127.0.0.1:7001@1 myself,master - 0 0 1 connected\n{B} 10.0.0.2:{port}@1 master - 0 0 1 connected 0-5"
        )
    };
    see(&front, &line(7002));
    let local = front.get(2).unwrap().main_address();
    see(&front, &line(7009));
    assert_eq!(addresses(&front), ["127.0.0.1:7001", "10.0.0.2:7009"]);
    assert_eq!(front.get(2).unwrap().main_address(), local);
    assert_eq!(front.get(2).unwrap().target().address(), "10.0.0.2:7009");
}

#[test]
fn another_node_at_the_address_of_one_that_left_is_not_taken_for_it() {
    let front = cluster("redis://127.0.0.1:7001");
    see(
        &front,
        &format!("{A} 127.0.0.1:7001@1 myself,master - 0 0 1 connected\n{B} 10.0.0.2:7002@1 master - 0 0 1 c 0-5"),
    );
    let other = "cccccccccccccccccccccccccccccccccccccccc";
    see(
        &front,
        &format!("{A} 127.0.0.1:7001@1 myself,master - 0 0 1 connected\n{other} 10.0.0.2:7002@1 master - 0 0 1 c 0-5"),
    );
    let (left, came) = (front.get(2).unwrap().node.info(), front.get(3).unwrap().node.info());
    assert_eq!((left.id.as_str(), left.is_reachable), (B, false));
    assert_eq!((came.id.as_str(), came.is_reachable), (other, true));
}

#[test]
fn a_script_that_makes_up_a_redirection_opens_no_port() {
    let front = cluster("redis://127.0.0.1:7001");
    let first = front.first().unwrap();
    let book = book(&front, &first, false);
    assert_eq!(book.local_of("10.0.0.9", 22, None), Some(book.own()));
    assert!(book.has_missed.get());
    assert_eq!(front.all().len(), 1);
}

#[test]
fn a_node_that_only_a_reply_names_has_a_port_at_once() {
    let front = cluster("redis://127.0.0.1:7001");
    let first = front.first().unwrap();
    let book = book(&front, &first, true);
    let local = book.local_of("10.0.0.9", 7005, None).unwrap();
    assert_ne!(local, book.own());
    assert_eq!(book.real_of(&local.host, local.port), Some(("10.0.0.9".to_owned(), 7005)));
    // An empty host is that of the node that has replied.
    assert_eq!(book.local_of("", 7001, None), Some(book.own()));
    assert_eq!(book.real_of("10.0.0.9", local.port), None);
}

#[test]
fn a_replica_that_serves_slots_now_has_replaced_its_master() {
    let replica = NodeInfo {
        address: "10.0.0.2:7002".to_owned(),
        id: B.to_owned(),
        role: NodeRole::Replica,
        master: Some("10.0.0.1:7001".to_owned()),
        slots: Vec::new(),
        is_reachable: true,
    };
    let master =
        NodeInfo { role: NodeRole::Master, master: None, slots: vec![(0, 100), (200, 200)], ..replica.clone() };
    let promoted = (EventKind::Promoted, "10.0.0.2:7002".to_owned(), "10.0.0.1:7001".to_owned());
    assert_eq!(changes_of(&replica, &master, true), [promoted]);
    // CLUSTER RESET makes an empty master of a replica.
    let empty = NodeInfo { slots: Vec::new(), ..master.clone() };
    assert_eq!(changes_of(&replica, &empty, true), []);
    let fewer = NodeInfo { slots: vec![(0, 99)], ..master.clone() };
    let moved = (EventKind::Topology, "10.0.0.2:7002".to_owned(), "slots 0-99".to_owned());
    assert_eq!(changes_of(&master, &fewer, true), [moved]);
}

#[test]
fn what_contradicts_itself_is_refused() {
    let refused = |settings: &[(&str, &str)]| {
        let config = Config::default();
        settings.iter().for_each(|(name, value)| config.assign(name, *value));
        DeploymentSettings::from_config(&config).err().unwrap_or_default()
    };
    for (settings, reason) in [
        (&[("service", "m")][..], "service is the name of a master of upstream-sentinel, which is not given"),
        (&[("upstream-sentinel", "h:1")], "upstream-sentinel takes service, the name of the master in the Sentinels"),
        (
            &[("upstream-cluster", "h:1"), ("service", "m")],
            "service is for upstream-sentinel, not for upstream-cluster",
        ),
        (
            &[("upstream-cluster", "h:1"), ("upstream-sentinel", "h:2")],
            "upstream-cluster and upstream-sentinel exclude each other",
        ),
        (&[("upstream-cluster", "redis://h:1/3")], "upstream-cluster: a deployment is served in database 0"),
        (
            &[("upstream-cluster", "unix:/run/redis.sock")],
            "upstream-cluster: a node of a deployment has a host and a port, not a unix socket",
        ),
        (&[("upstream-cluster", ",")], "upstream-cluster: there is no node"),
    ] {
        assert_eq!(refused(settings), reason);
    }
}

#[test]
fn a_replica_that_has_taken_a_write_stays_master_although_others_have_not_heard_of_it() {
    let front = cluster("redis://127.0.0.1:7001");
    let stale = format!("{A} 127.0.0.1:7001@1 myself,master - 0 0 1 c 0-5\n{B} 10.0.0.2:7002@1 slave {A} 0 0 1 c");
    see(&front, &stale);
    let replica = front.get(2).unwrap();
    front.note_promotion(&replica);
    see(&front, &stale);
    assert_eq!(replica.node.info().role, NodeRole::Master);
    // Once the views know it, they are believed again.
    see(&front, &format!("{A} 127.0.0.1:7001@1 myself,slave {B} 0 0 1 c\n{B} 10.0.0.2:7002@1 master - 0 0 2 c 0-5"));
    see(&front, &stale);
    assert_eq!(replica.node.info().role, NodeRole::Replica);
}

#[test]
fn connections_to_two_nodes_from_the_same_local_port_are_two_clients() {
    let front = cluster("redis://127.0.0.1:7001,127.0.0.1:7002");
    let (one, other) = (front.get(1).unwrap(), front.get(2).unwrap());
    for (node, client) in [(1, "127.0.0.1:50001"), (2, "127.0.0.1:50002")] {
        front.note_connection(node, "127.0.0.1:40000".to_owned(), client.to_owned(), "127.0.0.1:6379".to_owned());
    }
    front.forget_connection(2, "127.0.0.1:40000".to_owned());
    let client = |member| book(&front, member, false).client_of("127.0.0.1:40000").map(|(client, _)| client);
    assert_eq!((client(&one).as_deref(), client(&other)), (Some("127.0.0.1:50001"), None));
    assert_eq!(book(&front, &other, false).shown_of("127.0.0.1:50001"), None);
}

#[test]
fn nobody_at_an_address_that_only_a_reply_has_named_is_told_the_password() {
    let front = cluster("redis://:secret@127.0.0.1:7001");
    let first = front.first().unwrap();
    book(&front, &first, true).local_of("10.0.0.2", 7002, None).unwrap();
    assert_eq!(front.get(2).unwrap().target().password(), None);
    see(&front, &format!("{A} 127.0.0.1:7001@1 myself,master - 0 0 1 c\n{B} 10.0.0.2:7002@1 slave {A} 0 0 1 c"));
    assert_eq!(front.get(2).unwrap().target().password(), Some(&b"secret"[..]));
}
