//! Which commands of real servers have addresses of nodes in their replies, and that none of those is left when they are
//! rewritten.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use redouble::internals::addresses::{
    AddressBook, AddressKind, LocalAddress, rewrite_errors, rewrite_message, rewrite_reply, rewrite_request,
};
use redouble::internals::{OwnedWords, ReplyScanner};

use crate::support::process::{ServerProcess, free_port};
use crate::support::wire::{Frame, PATIENCE, Wire, request};
use crate::support::{wait_for, wait_until};

/// Local hosts and ports are in the documentation's address range, so that no real one is taken for one of them.
const HOST: &str = "192.0.2.1";
const FIRST_PORT: u16 = 1001;
/// What a client of the tests is told of itself.
const CLIENT: &str = "192.0.2.9:40000";

/// The real ports of nodes on this machine, which have local ports from [`FIRST_PORT`] on. The first one replies.
struct Book {
    ports: Vec<u16>,
    client: String,
    is_sentinel: bool,
}

impl Book {
    fn local(&self, index: usize) -> LocalAddress {
        let port = FIRST_PORT + u16::try_from(index).expect("few nodes");
        LocalAddress { host: HOST.to_owned(), port, plain_port: Some(port), tls_port: None }
    }
}

impl AddressBook for Book {
    fn local_of(&self, _host: &str, port: u16, _id: Option<&str>) -> Option<LocalAddress> {
        self.ports.iter().position(|known| *known == port).map(|index| self.local(index))
    }

    fn own(&self) -> LocalAddress {
        self.local(0)
    }

    fn real_of(&self, host: &str, port: u16) -> Option<(String, u16)> {
        let index = usize::from(port.checked_sub(FIRST_PORT)?);
        if host == HOST { Some(("127.0.0.1".to_owned(), *self.ports.get(index)?)) } else { None }
    }

    fn client_of(&self, address: &str) -> Option<(String, String)> {
        (address == self.client).then(|| (CLIENT.to_owned(), format!("{HOST}:{FIRST_PORT}")))
    }

    fn shown_of(&self, client_address: &str) -> Option<String> {
        (client_address == CLIENT).then(|| self.client.clone())
    }

    fn is_tls(&self) -> bool {
        false
    }

    fn is_sentinel(&self) -> bool {
        self.is_sentinel
    }
}

/// A connection that keeps replies as they come.
struct Raw {
    stream: TcpStream,
    scanner: ReplyScanner,
    read: Vec<u8>,
}

impl Raw {
    fn connect(address: SocketAddr, is_resp3: bool) -> Self {
        let stream = TcpStream::connect(address).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
        let mut raw = Self { stream, scanner: ReplyScanner::default(), read: Vec::new() };
        if is_resp3 {
            raw.ask("HELLO 3");
        }
        raw
    }

    fn ask(&mut self, line: &str) -> Vec<u8> {
        self.stream.write_all(&request(&line.split(' ').collect::<Vec<_>>())).expect("the server listens");
        self.reply()
    }

    fn reply(&mut self) -> Vec<u8> {
        let mut looked_at = 0;
        loop {
            if let Some(end) = self.scanner.next(&self.read[looked_at..]).expect("a reply") {
                return self.read.drain(..looked_at + end).collect();
            }
            looked_at = self.read.len();
            let mut piece = [0; 65536];
            let count = self.stream.read(&mut piece).expect("a reply in time");
            assert!(count > 0, "the server has closed the connection");
            self.read.extend_from_slice(&piece[..count]);
        }
    }
}

/// What a client gets of a reply. No real address may be in it, and it must be a reply.
#[track_caller]
fn received(line: &str, reply: &[u8], book: &Book) -> String {
    let words: Vec<String> = line.to_ascii_lowercase().split(' ').map(str::to_owned).collect();
    let whole = words.iter().take(2).map(String::as_str).collect::<Vec<_>>().join("|");
    let kind = AddressKind::of(&whole).or_else(|| AddressKind::of(&words[0]));
    let rewritten = match kind {
        Some(kind) => rewrite_reply(kind, reply, book),
        None => rewrite_errors(reply, book),
    };
    let new = rewritten.unwrap_or_else(|| reply.to_vec());
    assert_eq!(ReplyScanner::default().next(&new), Ok(Some(new.len())), "{line}: no reply");
    let text = String::from_utf8(new).expect("a text");
    if let Some(real) = real_address(&text, book) {
        panic!("{line}: {real} is in\n{text}");
    }
    text
}

/// A real host or port in a text. Ports of the cluster bus stay real.
fn real_address(text: &str, book: &Book) -> Option<String> {
    let hosts = ["127.0.0.1", ".example", "localhost"].into_iter().find(|host| text.contains(host)).map(str::to_owned);
    let is_digit = |char: Option<char>| char.is_some_and(|char| char.is_ascii_digit());
    let stands_alone = |port: &String| {
        text.match_indices(port.as_str()).any(|(at, _)| {
            let (before, behind) = (&text[..at], &text[at + port.len()..]);
            !is_digit(before.chars().last()) && !is_digit(behind.chars().next()) && !before.ends_with('@')
        })
    };
    hosts.or_else(|| book.ports.iter().map(u16::to_string).find(stands_alone))
}

/// The ports of three nodes: a master with a replica and another master.
fn cluster() -> [ServerProcess; 3] {
    let nodes = [(); 3].map(|()| {
        let (bus, file) = (free_port().to_string(), format!("redouble-nodes-{}.conf", free_port()));
        let options = ["--cluster-enabled", "yes", "--cluster-port", &bus, "--cluster-config-file", &file];
        ServerProcess::redis(&[&options[..], &["--save", "", "--loglevel", "notice"]].concat())
    });
    let mut wires = nodes.each_ref().map(|node| Wire::connect(node.address()));
    let bus = |wire: &mut Wire| wire.ask("CONFIG GET cluster-port").items()[1].text();
    wires[0].ask("CLUSTER ADDSLOTSRANGE 0 8191");
    wires[2].ask("CLUSTER ADDSLOTSRANGE 8192 16383");
    for (index, wire) in wires.iter_mut().enumerate() {
        wire.ask(&format!("CLUSTER SET-CONFIG-EPOCH {}", index + 1));
    }
    for (index, node) in nodes.iter().enumerate().skip(1) {
        let (port, bus) = (node.address().port(), bus(&mut wires[index]));
        wait_until("a node to be met", || {
            let known = wires[0].ask("CLUSTER NODES").text();
            let line = known.lines().find(|line| line.contains(&format!(":{port}@")));
            // A handshake that comes to nothing is forgotten.
            if line.is_none() {
                let meet = wires[0].ask(&format!("CLUSTER MEET 127.0.0.1 {port} {bus}"));
                assert_eq!(meet, Frame::status("OK"));
            }
            line.is_some_and(|line| !line.contains("handshake"))
        });
    }
    let master = wires[0].ask("CLUSTER MYID").text();
    wait_until("the replica to know its master", || {
        wires[1].ask(&format!("CLUSTER REPLICATE {master}")) == Frame::status("OK")
    });
    // A replica is among the slots when it has a part of the data.
    for wire in &mut wires {
        wait_until("all nodes to be known", || {
            let slots = format!("{:?}", wire.ask("CLUSTER SLOTS"));
            nodes.iter().all(|node| slots.contains(&format!("Integer({})", node.address().port())))
        });
    }
    nodes
}

#[test]
fn no_reply_of_a_real_cluster_names_a_real_node() {
    let nodes = cluster();
    let id = Wire::connect(nodes[0].address()).ask("CLUSTER MYID").text();
    let questions = [
        "CLUSTER SLOTS",
        "CLUSTER SHARDS",
        "CLUSTER NODES",
        &format!("CLUSTER REPLICAS {id}"),
        &format!("CLUSTER SLAVES {id}"),
        "CLUSTER LINKS",
        "ROLE",
        "INFO replication",
        "HELLO",
        "CONFIG GET *announce*",
        "CONFIG GET replicaof",
        "CONFIG GET port",
        "GET a",
        "GET b",
        "CLUSTER MEET x y",
    ];
    let endpoints = ["ip", "unknown-endpoint", "hostname"];
    for (endpoint, is_resp3) in endpoints.into_iter().flat_map(|endpoint| [(endpoint, false), (endpoint, true)]) {
        for (index, node) in nodes.iter().enumerate() {
            let mut ports: Vec<u16> = nodes.iter().map(|node| node.address().port()).collect();
            ports.rotate_left(index);
            let mut raw = Raw::connect(node.address(), is_resp3);
            let client = raw.stream.local_addr().expect("its address").to_string();
            let book = Book { ports, client, is_sentinel: false };
            raw.ask(&format!("CONFIG SET cluster-preferred-endpoint-type {endpoint}"));
            // The last node has no name, also where names are preferred.
            if endpoint == "hostname" && index < 2 {
                raw.ask(&format!("CONFIG SET cluster-announce-hostname node-{index}.example"));
            }
            for question in questions {
                received(question, &raw.ask(question), &book);
            }
            let slots = received("CLUSTER SLOTS", &raw.ask("CLUSTER SLOTS"), &book);
            assert!((0..3).all(|index| slots.contains(&format!(":{}\r\n", FIRST_PORT + index))), "{slots}");
            let listed = received("CLIENT INFO", &raw.ask("CLIENT INFO"), &book);
            assert!(listed.contains(&format!(" addr={CLIENT} laddr={HOST}:{FIRST_PORT} ")), "{listed}");
        }
    }
}

#[test]
fn a_real_server_finds_the_clients_and_nodes_that_requests_name_by_our_addresses() {
    let node = ServerProcess::redis(&[]);
    let mut raw = Raw::connect(node.address(), false);
    let mut victim = Raw::connect(node.address(), false);
    victim.ask("PING");
    let client = victim.stream.local_addr().expect("its address").to_string();
    let book = Book { ports: vec![node.address().port(), free_port()], client, is_sentinel: false };
    let mut send = |line: String| {
        let words: OwnedWords = line.split(' ').collect();
        let words = rewrite_request(words.as_words(), &book).expect("a request with our addresses");
        let words: Vec<String> = words.as_words().iter().map(|word| String::from_utf8_lossy(word).into()).collect();
        String::from_utf8(raw.ask(&words.join(" "))).expect("a text")
    };
    assert_eq!(send(format!("CLIENT KILL ADDR {CLIENT}")), ":1\r\n");
    assert_eq!(send(format!("REPLICAOF {HOST} {}", FIRST_PORT + 1)), "+OK\r\n");
    let role = raw.ask("ROLE");
    assert!(String::from_utf8_lossy(&role).contains(&format!("127.0.0.1\r\n:{}\r\n", book.ports[1])));
    assert!(received("ROLE", &role, &book).contains(&format!("{HOST}\r\n:{}\r\n", FIRST_PORT + 1)));
    received("INFO replication", &raw.ask("INFO replication"), &book);
    received("CONFIG GET replicaof", &raw.ask("CONFIG GET replicaof"), &book);
}

/// A Sentinel process. It is killed on drop.
struct Sentinel {
    child: Child,
    address: SocketAddr,
    folder: PathBuf,
}

impl Sentinel {
    /// Starts one that monitors a master.
    fn of(master: u16, with_names: bool) -> Self {
        let port = free_port();
        let folder = std::env::temp_dir().join(format!("redouble-sentinel-{}-{port}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let names = if with_names { "yes" } else { "no" };
        let host = if with_names { "localhost" } else { "127.0.0.1" };
        let config = format!(
            "port {port}\nbind 127.0.0.1\ndir {}\nsentinel resolve-hostnames yes\nsentinel announce-hostnames {names}\n\
             sentinel monitor mymaster {host} {master} 1\nsentinel down-after-milliseconds mymaster 60000\n",
            folder.display()
        );
        fs::write(folder.join("sentinel.conf"), config).expect("a file");
        let mut command = Command::new("redis-server");
        command.arg(folder.join("sentinel.conf")).arg("--sentinel").stdin(Stdio::null()).stdout(Stdio::null());
        let child = command.spawn().expect("redis-server, which `make test` installs");
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let _ = wait_for("the Sentinel", || TcpStream::connect(address));
        Self { child, address, folder }
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

#[test]
fn nothing_that_a_real_sentinel_says_names_a_real_node() {
    for with_names in [false, true] {
        let master = ServerProcess::redis(&[]);
        let master_port = master.address().port();
        let replica = ServerProcess::redis(&["--replicaof", "127.0.0.1", &master_port.to_string()]);
        let replica_port = replica.address().port();
        let sentinels = [Sentinel::of(master_port, with_names), Sentinel::of(master_port, with_names)];
        let mut wire = Wire::connect(sentinels[0].address);
        wait_until("the Sentinels to know all nodes", || {
            let replicas = wire.ask("SENTINEL REPLICAS mymaster").items().len();
            let others = wire.ask("SENTINEL SENTINELS mymaster").items().len();
            let infos = wire.ask("SENTINEL INFO-CACHE mymaster").items()[1].items().len();
            (replicas, others, infos) == (1, 1, 2)
        });
        let [own, other] = sentinels.each_ref().map(|sentinel| sentinel.address.port());
        let book =
            |client: String| Book { ports: vec![own, master_port, replica_port, other], client, is_sentinel: true };
        let mut heard = Raw::connect(sentinels[0].address, with_names);
        heard.ask("PSUBSCRIBE *");
        for is_resp3 in [false, true] {
            let mut raw = Raw::connect(sentinels[0].address, is_resp3);
            let book = book(raw.stream.local_addr().expect("its address").to_string());
            for question in [
                "SENTINEL GET-MASTER-ADDR-BY-NAME mymaster",
                "SENTINEL MASTERS",
                "SENTINEL MASTER mymaster",
                "SENTINEL REPLICAS mymaster",
                "SENTINEL SLAVES mymaster",
                "SENTINEL SENTINELS mymaster",
                "SENTINEL CONFIG GET *",
                "INFO sentinel",
                "ROLE",
                "HELLO",
            ] {
                received(question, &raw.ask(question), &book);
            }
            let info = received_cache(&raw.ask("SENTINEL INFO-CACHE mymaster"), &book);
            let lines = [
                format!("\ntcp_port:{}\r\n", FIRST_PORT + 1),
                format!("\ntcp_port:{}\r\n", FIRST_PORT + 2),
                format!("\nslave0:ip={HOST},port={},", FIRST_PORT + 2),
                format!("\nmaster_host:{HOST}\r\nmaster_port:{}\r\n", FIRST_PORT + 1),
            ];
            assert!(lines.iter().all(|line| info.contains(line)), "{info}");
        }
        wait_until("a failover", || wire.ask("SENTINEL FAILOVER mymaster") == Frame::status("OK"));
        let book = book(String::new());
        loop {
            let message = heard.reply();
            let rewritten = rewrite_message(&message, &book);
            let text = String::from_utf8(rewritten.unwrap_or(message)).expect("a text");
            assert_eq!(real_address(&text, &book), None, "{text}");
            if text.contains("+switch-master\r\n") {
                let (old, new) = (FIRST_PORT + 1, FIRST_PORT + 2);
                assert!(text.contains(&format!("\r\nmymaster {HOST} {old} {HOST} {new}\r\n")), "{text}");
                break;
            }
        }
    }
}

/// INFO-CACHE: the texts have more numbers and paths than addresses, so only their lines with addresses are looked at.
fn received_cache(reply: &[u8], book: &Book) -> String {
    let new = rewrite_reply(AddressKind::SentinelInfoCache, reply, book).expect("addresses");
    assert_eq!(ReplyScanner::default().next(&new), Ok(Some(new.len())));
    let text = String::from_utf8(new).expect("a text");
    let has_address =
        |line: &&str| ["tcp_port", "slave0", "master_host", "master_port"].iter().any(|at| line.starts_with(at));
    for line in text.lines().filter(has_address) {
        assert_eq!(real_address(line, book), None, "{line}");
    }
    text
}

/// Subcommands whose replies have no addresses of nodes or clients. What a server has beside them is looked at before it is
/// added here, or to [`AddressKind`].
const WITHOUT_ADDRESSES: &str = "
    acl|cat acl|deluser acl|dryrun acl|genpass acl|getuser acl|help acl|list acl|load acl|save acl|setuser acl|users acl|whoami
    client|caching client|capa client|getname client|getredir client|help client|id client|import-source client|kill
    client|no-evict client|no-touch client|pause client|reply client|setinfo client|setname client|tracking
    client|trackinginfo client|unblock client|unpause
    cluster|addslots cluster|addslotsrange cluster|bumpepoch cluster|cancelslotmigrations cluster|count-failure-reports
    cluster|countkeysinslot cluster|delslots cluster|delslotsrange cluster|failover cluster|flushslot cluster|flushslots
    cluster|forget cluster|getkeysinslot cluster|getslotmigrations cluster|help cluster|info cluster|keyslot cluster|links
    cluster|meet cluster|migrateslots cluster|myid cluster|myshardid cluster|replicate cluster|reset cluster|saveconfig
    cluster|set-config-epoch cluster|setslot cluster|slot-stats cluster|syncslots
    commandlog|help commandlog|len commandlog|reset config|help config|resetstat config|rewrite config|set
    slowlog|help slowlog|len slowlog|reset
    sentinel|ckquorum sentinel|debug sentinel|failover sentinel|flushconfig sentinel|help sentinel|is-master-down-by-addr
    sentinel|is-primary-down-by-addr sentinel|monitor sentinel|myid sentinel|remove sentinel|reset sentinel|set
    sentinel|simulate-failure";
/// Commands with subcommands of which some have addresses.
const CONTAINERS: [&str; 7] = ["acl", "client", "cluster", "commandlog", "config", "slowlog", "sentinel"];

#[test]
fn every_subcommand_of_a_real_server_is_known_to_have_addresses_or_none() {
    let server = ServerProcess::redis(&[]);
    let sentinel = Sentinel::of(server.address().port(), false);
    let known: BTreeSet<&str> = WITHOUT_ADDRESSES.split_whitespace().collect();
    for address in [server.address(), sentinel.address] {
        let list = Wire::connect(address).ask("COMMAND LIST");
        let names: Vec<String> = list.items().iter().map(Frame::text).collect();
        let is_member = |name: &&String| name.split_once('|').is_some_and(|(first, _)| CONTAINERS.contains(&first));
        let subcommands: Vec<&String> = names.iter().filter(is_member).collect();
        assert!(subcommands.len() > 20, "{names:?}");
        for name in subcommands {
            assert!(known.contains(name.as_str()) != AddressKind::of(name).is_some(), "{name}");
        }
    }
}
