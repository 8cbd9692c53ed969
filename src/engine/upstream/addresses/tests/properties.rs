//! Properties of any reply.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::*;

const KINDS: [AddressKind; 13] = [
    AddressKind::Slots,
    AddressKind::Shards,
    AddressKind::Nodes,
    AddressKind::Role,
    AddressKind::Info,
    AddressKind::Config,
    AddressKind::ClientList,
    AddressKind::SlowLog,
    AddressKind::AclLog,
    AddressKind::SentinelInstances,
    AddressKind::SentinelAddress,
    AddressKind::SentinelInfoCache,
    AddressKind::SentinelScripts,
];

/// Every node is for clients where it is.
struct Identity;

impl AddressBook for Identity {
    fn local_of(&self, host: &str, port: u16, _id: Option<&str>) -> Option<LocalAddress> {
        // The host that a node does not know is the only one that has another name.
        let host = if host.is_empty() { "?" } else { host };
        Some(LocalAddress { host: host.to_owned(), port, plain_port: Some(port), tls_port: None })
    }

    fn own(&self) -> LocalAddress {
        LocalAddress { host: String::new(), port: 6379, plain_port: None, tls_port: None }
    }

    fn real_of(&self, host: &str, port: u16) -> Option<(String, u16)> {
        Some((host.to_owned(), port))
    }

    fn client_of(&self, address: &str) -> Option<(String, String)> {
        Some((address.to_owned(), String::new()))
    }

    fn shown_of(&self, client_address: &str) -> Option<String> {
        Some(client_address.to_owned())
    }

    fn is_tls(&self) -> bool {
        false
    }

    fn is_sentinel(&self) -> bool {
        true
    }
}

/// Words of replies with addresses, addresses of the tests' nodes among them.
fn word() -> impl Strategy<Value = String> {
    const WORDS: &[&str] = &[
        "master",
        "slave",
        "sentinel",
        "message",
        "pmessage",
        "+switch-master",
        "+sdown",
        "__sentinel__:hello",
        "slots",
        "nodes",
        "id",
        "port",
        "ip",
        "endpoint",
        "hostname",
        "name",
        "argv",
        "client-info",
        "master-host",
        "master-port",
        "10.0.0.2",
        "7002",
        "10.0.0.2:7002",
        "10.0.0.2:7002@17002",
        "MOVED 3 10.0.0.2:7002",
        "ASK 3",
        ID_2,
        "mymaster 10.0.0.1 7001 10.0.0.2 7002",
        "slave 10.0.0.2:7002 10.0.0.2 7002 @ mymaster 10.0.0.1 7001",
        "master_host:10.0.0.2\r\nmaster_port:7002\r\n",
        "slave0:ip=10.0.0.2,port=7002,lag=0\r\n",
        "@",
        "?",
        "",
        " ",
        ",",
        ":",
        "@:",
        ",,",
        "*",
        "0",
        "replicaof",
        "10.0.0.2 7002",
        "addr=127.0.0.1:50000 laddr=",
    ];
    prop_oneof![4 => prop::sample::select(WORDS).prop_map(str::to_owned), 1 => "[a-z0-9 .:@*$+-]{0,12}"]
}

/// The bytes of any reply. `depth` limits how deep it nests.
fn reply(depth: u32) -> BoxedStrategy<Vec<u8>> {
    let text =
        |kind: &'static str| word().prop_map(move |text| line(&format!("{kind}{}", text.replace(['\r', '\n'], " "))));
    let bulk_error = word().prop_map(|text| line(&format!("!{}\r\n{text}", text.len())));
    let simple = prop_oneof![
        4 => word().prop_map(|text| bulk(&text)),
        1 => word().prop_map(|text| verbatim(&text)),
        1 => text("+"),
        2 => text("-"),
        1 => bulk_error,
        2 => (0_i64..8000).prop_map(integer),
        1 => prop::sample::select(vec!["$-1", "*-1", "_", "#t", ",1.5"]).prop_map(line),
    ];
    if depth == 0 {
        return simple.boxed();
    }
    let some = vec(reply(depth - 1), 0..6).prop_map(list);
    let map = vec((reply(0), reply(depth - 1)), 0..5).prop_map(|pairs| {
        let values: Vec<u8> = pairs.iter().flat_map(|(key, value)| [key.clone(), value.clone()].concat()).collect();
        [line(&format!("%{}", pairs.len())), values].concat()
    });
    let with_attributes = (reply(0), reply(0), reply(depth - 1))
        .prop_map(|(key, value, behind)| [line("|1"), key, value, behind].concat());
    prop_oneof![3 => simple, 4 => some, 2 => map, 1 => with_attributes].boxed()
}

/// All rewritings of a reply.
fn rewritten(reply: &[u8], book: &dyn AddressBook) -> Vec<Vec<u8>> {
    rewritten_as(&KINDS, reply, book)
}

/// The rewritings of a reply to commands of these kinds, and those of any reply.
fn rewritten_as(kinds: &[AddressKind], reply: &[u8], book: &dyn AddressBook) -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = kinds.iter().filter_map(|kind| rewrite_reply(*kind, reply, book)).collect();
    all.extend(rewrite_errors(reply, book));
    all.extend(rewrite_message(reply, book));
    all.extend(kinds.iter().filter_map(|kind| rewrite_elements(reply, &[Some(*kind); 4], book)));
    all
}

/// A reply without what rewritings may change: texts, and lengths that follow from them.
fn shape(reply: &[u8]) -> Vec<(u8, u64, bool)> {
    Heads::new(reply).map(|head| (head.kind, head.count, head.text.is_some())).collect()
}

/// A text for which no address is taken.
fn other_text() -> impl Strategy<Value = String> {
    "[a-z]{1,8}"
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(1), failure_persistence: None, ..Default::default() })]

    #[test]
    fn where_nodes_are_what_they_say_nothing_changes(reply in reply(4)) {
        // In SLOTS and SHARDS, a node may have several names, all of which become one.
        let [AddressKind::Slots, AddressKind::Shards, kinds @ ..] = KINDS else { unreachable!() };
        prop_assert_eq!(rewritten_as(&kinds, &reply, &Identity), Vec::<Vec<u8>>::new());
    }

    #[test]
    fn what_is_rewritten_is_a_reply_of_the_same_shape(reply in reply(4)) {
        for book in [&CLUSTER, &SENTINELS] {
            for new in rewritten(&reply, book) {
                prop_assert_eq!(Heads::end_of_value(&new, 0), Some(new.len()), "{}", shown(&new));
                prop_assert_eq!(shape(&new), shape(&reply), "{}", shown(&new));
            }
        }
    }

    #[test]
    fn what_is_rewritten_has_no_address_that_is_rewritten_again(reply in reply(4)) {
        for kind in KINDS {
            if let Some(new) = rewrite_reply(kind, &reply, &CLUSTER) {
                prop_assert_eq!(rewrite_reply(kind, &new, &CLUSTER), None, "{:?} {}", kind, shown(&new));
            }
        }
        if let Some(new) = rewrite_message(&reply, &SENTINELS) {
            prop_assert_eq!(rewrite_message(&new, &SENTINELS), None);
        }
    }

    #[test]
    fn any_bytes_are_rewritten_or_stay_and_never_panic(bytes in vec(any::<u8>(), 0..80)) {
        rewritten(&bytes, &SENTINELS);
    }

    #[test]
    fn a_reply_that_is_cut_off_or_goes_on_stays(reply in reply(3), cut in any::<prop::sample::Index>()) {
        prop_assert_eq!(rewritten(&reply[..cut.index(reply.len())], &SENTINELS), Vec::<Vec<u8>>::new());
        prop_assert_eq!(rewritten(&[&reply[..], b"+OK\r\n"].concat(), &SENTINELS), Vec::<Vec<u8>>::new());
    }

    #[test]
    fn fields_that_nobody_knows_stay_beside_addresses(
        others in vec((other_text(), reply(2)), 0..4),
        more in vec((other_text(), reply(2)), 0..4),
        is_resp3 in any::<bool>(),
    ) {
        let is_known = |name: &str| matches!(name, "id" | "ip" | "port" | "name" | "slots" | "nodes");
        prop_assume!(!others.iter().chain(&more).any(|(name, _)| is_known(name)));
        let around = |inside: &[(&str, Vec<u8>)]| {
            let mut all: Vec<(&str, Vec<u8>)> = Vec::new();
            all.extend(others.iter().map(|(name, value)| (name.as_str(), value.clone())));
            all.extend(inside.iter().cloned());
            all.extend(more.iter().map(|(name, value)| (name.as_str(), value.clone())));
            fields(is_resp3, &all)
        };
        let shards = |host: &str, port: u16| {
            let node = around(&[("id", bulk(ID_2)), ("ip", bulk(host)), ("port", integer(port))]);
            list([around(&[("nodes", list([node]))])])
        };
        prop_assert_eq!(rewrite_reply(AddressKind::Shards, &shards("10.0.0.2", 7002), &CLUSTER), Some(shards(HOST, 6002)));
        let slots = |host: &str, port: u16| {
            let further = around(&[("ip", bulk(host))]);
            let node = [bulk(host), integer(port), bulk(ID_2), further].into_iter();
            let node = node.chain(others.iter().map(|(_, value)| value.clone())).collect::<Vec<_>>();
            list([list([integer(0), integer(1), list(node)])])
        };
        prop_assert_eq!(rewrite_reply(AddressKind::Slots, &slots("10.0.0.2", 7002), &CLUSTER), Some(slots(HOST, 6002)));
        let instances = |host: &str, port: u16| {
            let name = format!("{host}:{port}");
            list([around(&[("name", bulk(&name)), ("ip", bulk(host)), ("port", bulk(&port.to_string()))])])
        };
        let rewritten = rewrite_reply(AddressKind::SentinelInstances, &instances("10.0.0.2", 7002), &CLUSTER);
        prop_assert_eq!(rewritten, Some(instances(HOST, 6002)));
    }
}

#[test]
fn deep_nesting_and_huge_counts_cost_no_memory_and_no_stack() {
    let deep = |inside: &str| [line("*1").repeat(200_000), line(inside)].concat();
    for kind in KINDS {
        assert_eq!(rewrite_reply(kind, &deep("+OK"), &CLUSTER), None);
    }
    // Errors are found at any depth.
    assert_eq!(rewrite_errors(&deep("-MOVED 1 10.0.0.2:7002"), &CLUSTER), Some(deep("-MOVED 1 front.test:6002")));
    assert!(rewritten(&deep("+OK"), &SENTINELS).is_empty());
    for count in ["*9223372036854775807", "%18446744073709551615", "$18446744073709551615", "*99999999999999999999"] {
        for head in [line(count), [line(count), line("-MOVED 1 10.0.0.2:7002")].concat(), line("*1\r\n").repeat(3)] {
            assert!(rewritten(&head, &SENTINELS).is_empty());
        }
    }
}
