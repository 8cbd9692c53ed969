//! What goes wrong with deployments. Nothing hangs, nothing leads past redouble, and the log says what was seen.

use std::net::SocketAddr;
use std::process::Command;

use super::crawl::{Crawl, crawl_cluster, crawl_sentinels, speaking};
use super::front::Front;
use super::support::certificates::Certificates;
use super::support::deployments::{Cluster, ClusterLine, SentinelSet, free_node_port, slot_of};
use super::support::wire::{Frame, Wire};
use super::support::{Deadline, wait_for};

fn ensure(holds: bool, otherwise: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(otherwise()) }
}

fn first(cluster: &Cluster) -> String {
    cluster.nodes[0].address().to_string()
}

/// The node that owns a key's slot.
fn owner(cluster: &Cluster, key: &str) -> u16 {
    let lines = cluster.lines();
    lines.iter().find(|line| line.is_master() && line.owns(slot_of(key))).expect("a master").port
}

/// Waits until what is asked gives this.
fn until(address: SocketAddr, line: &str, is_right: impl Fn(&Frame) -> bool) {
    wait_for(format_args!("another reply of {address} to {line}"), || {
        std::thread::park_timeout(std::time::Duration::from_millis(20));
        let Ok(mut wire) = Wire::try_connect(address) else { return Err("no connection".to_owned()) };
        wire.send(format!("{line}\r\n").as_bytes());
        match wire.read() {
            Ok(reply) if is_right(&reply) => Ok(()),
            Ok(reply) => Err(format!("{reply:?}")),
            Err(error) => Err(error.to_string()),
        }
    });
}

pub fn a_seed_that_is_down_is_passed_over() -> Result<(), String> {
    let cluster = Cluster::start(3, 1);
    let down = free_node_port();
    let front = Front::of_cluster(&format!("127.0.0.1:{down},{}", first(&cluster)), &[]);
    let local = front.address_of(&cluster.nodes[0]);
    let slots = Wire::connect(local).ask("CLUSTER SLOTS");
    ensure(slots.items().len() == 3, || format!("CLUSTER SLOTS: {slots:?}"))?;
    ensure(front.log().contains(&down.to_string()), || format!("the log does not name the seed:\n{}", front.log()))
}

/// It either ends, or waits for them and says so; and it says which.
pub fn all_seeds_down_are_named() -> Result<(), String> {
    let down = free_node_port();
    let mut front = Front::spawn(&["--upstream-cluster", &format!("redis://127.0.0.1:{down}")], &[], false);
    let deadline = Deadline::start();
    while !front.log().contains(&down.to_string()) {
        deadline.check(format_args!("a word about port {down}:\n{}", front.log()));
        std::thread::park_timeout(std::time::Duration::from_millis(20));
    }
    ensure(!front.log().contains("panicked"), || front.log())?;
    if let Some(status) = front.ended() {
        return ensure(!status.success(), || format!("it ended with {status}: {}", front.log()));
    }
    Ok(())
}

/// The Cluster says that it is down, and so does redouble, until it is well again.
pub fn a_cluster_that_is_down_says_so_and_comes_back() -> Result<(), String> {
    let cluster = Cluster::start(3, 1);
    let front = Front::of_cluster(&first(&cluster), &[]);
    let port = owner(&cluster, "key");
    let local = front.address_of(cluster.at(port));
    let slot = slot_of("another");
    let owner_of_another = owner(&cluster, "another");
    for node in cluster.running() {
        node.must(&format!("CLUSTER DELSLOTS {slot}"));
    }
    until(local, "SET key 1", |reply| reply.text().starts_with("CLUSTERDOWN"));
    for protocol in [2, 3] {
        let mut wire = speaking(local, protocol);
        for line in ["CLUSTER INFO", "CLUSTER SLOTS", "CLUSTER SHARDS", "CLUSTER NODES"] {
            let reply = wire.ask(line);
            ensure(!reply.is_error(), || format!("{line} of a Cluster that is down: {reply:?}"))?;
        }
        let state = wire.ask("CLUSTER INFO").text();
        ensure(state.contains("cluster_state:fail"), || state)?;
    }
    // A front that starts now has all nodes, too.
    let late = Front::of_cluster(&first(&cluster), &[]);
    let found = late.nodes_of(cluster.running()).len();
    ensure(found == 6, || format!("{found} nodes of a Cluster that is down"))?;
    cluster.at(owner_of_another).must(&format!("CLUSTER ADDSLOTS {slot}"));
    until(local, "SET key 1", |reply| *reply == Frame::status("OK"));
    until(late.address_of(cluster.at(port)), "GET key", |reply| *reply == Frame::bulk("1"));
    Ok(())
}

/// A slot that no node has is an error of the Cluster; the others work.
pub fn a_slot_that_nobody_has_is_an_error() -> Result<(), String> {
    let cluster = Cluster::start_with(3, 0, &["cluster-require-full-coverage no"]);
    let front = Front::of_cluster(&first(&cluster), &[]);
    let slot = slot_of("nobody");
    for node in cluster.running() {
        node.must(&format!("CLUSTER DELSLOTS {slot}"));
    }
    for (port, address) in front.nodes_of(cluster.running()) {
        let [direct, through] = [cluster.at(port).address(), address].map(|at| Wire::connect(at).ask("GET nobody"));
        ensure(direct == through, || format!("direct {direct:?}, through {through:?}"))?;
        ensure(through.text().starts_with("CLUSTERDOWN Hash slot not served"), || format!("{through:?}"))?;
    }
    let port = owner(&cluster, "somebody");
    let reply = Wire::connect(front.address_of(cluster.at(port))).ask("SET somebody 1");
    ensure(reply == Frame::status("OK"), || format!("{reply:?}"))
}

/// A node that sends to one that sends back: the client goes round among the local ports, as it would directly.
pub fn a_redirect_loop_stays_a_loop_among_local_ports() -> Result<(), String> {
    let cluster = Cluster::start(3, 1);
    let front = Front::of_cluster(&first(&cluster), &[]);
    let slot = slot_of("loop");
    let from = owner(&cluster, "loop");
    let lines = cluster.lines();
    let to = lines.iter().find(|line| line.is_master() && line.port != from).expect("another");
    // The target does not know that a slot comes, so it sends back who is sent there.
    cluster.at(from).must(&format!("CLUSTER SETSLOT {slot} MIGRATING {}", to.id));
    let here = [from, to.port].map(|port| front.address_of(cluster.at(port)));
    let mut at = here[0];
    for turn in 0..20 {
        let mut wire = Wire::connect(at);
        wire.ask("ASKING");
        let reply = wire.ask("GET loop").text();
        let expected = ["ASK", "MOVED"][turn % 2];
        ensure(reply.starts_with(expected), || format!("turn {turn} at {at}: {reply}"))?;
        let next = reply.rsplit(' ').next().and_then(|address| address.parse().ok());
        ensure(next == Some(here[(turn + 1) % 2]), || {
            format!("turn {turn} at {at}: {reply}, and not {}", here[(turn + 1) % 2])
        })?;
        at = here[(turn + 1) % 2];
    }
    cluster.at(from).must(&format!("CLUSTER SETSLOT {slot} STABLE"));
    Ok(())
}

/// Each of two fronts tells its own addresses, and both follow a replica that takes over.
pub fn two_fronts_of_one_cluster_do_not_mix() -> Result<(), String> {
    let cluster = Cluster::start(3, 1);
    let fronts = [0, 1].map(|_| Front::of_cluster(&first(&cluster), &[]));
    let master = owner(&cluster, "key");
    let before: Vec<Vec<(u16, SocketAddr)>> = fronts.iter().map(|front| front.nodes_of(cluster.running())).collect();
    ensure(before[0].iter().all(|(_, address)| before[1].iter().all(|(_, other)| address != other)), || {
        format!("{before:?}")
    })?;
    let promoted = cluster.fail_over(master);
    for (front, nodes) in fronts.iter().zip(&before) {
        let address = |port: u16| nodes.iter().find(|(real, _)| *real == port).expect("it was there").1;
        until(address(promoted), "SET key 1", |reply| *reply == Frame::status("OK"));
        let moved = Wire::connect(address(master)).ask("GET key").text();
        ensure(moved.ends_with(&address(promoted).to_string()), || format!("{moved}, and not {}", address(promoted)))?;
        let after = front.nodes_of(cluster.running());
        ensure(&after == nodes, || format!("the ports have changed: {nodes:?}, {after:?}"))?;
    }
    Ok(())
}

/// Redirects come as fast as commands are asked at the wrong node, while slots move.
pub fn thousands_of_redirects_during_resharding_are_all_right() -> Result<(), String> {
    let cluster = Cluster::start(3, 0);
    let front = Front::of_cluster(&first(&cluster), &[]);
    let nodes = front.nodes_of(cluster.running());
    let known: Vec<String> = nodes.iter().map(|(_, address)| address.to_string()).collect();
    let slots: Vec<u16> = (0..1000).collect();
    std::thread::scope(|scope| {
        let moving = scope.spawn(|| cluster.move_slots(&slots));
        let mut redirects = 0;
        let mut rounds = 0;
        while !moving.is_finished() || rounds < 10 {
            rounds += 1;
            for (_, address) in &nodes {
                let mut wire = speaking(*address, 2 + (rounds % 2) as u8);
                let commands: String = (0..200).map(|number| format!("GET key:{number}\r\n")).collect();
                wire.send(commands.as_bytes());
                for number in 0..200 {
                    let reply = wire.read().map_err(|error| format!("key:{number} at {address}: {error}"))?;
                    if !reply.is_error() {
                        continue;
                    }
                    redirects += 1;
                    let text = reply.text();
                    let words: Vec<&str> = text.split(' ').collect();
                    let is_right = matches!(words[..], ["MOVED" | "ASK", slot, address]
                        if slot == slot_of(&format!("key:{number}")).to_string() && known.iter().any(|known| known == address));
                    ensure(is_right || text.starts_with("TRYAGAIN"), || format!("key:{number} at {address}: {text}"))?;
                }
            }
        }
        moving.join().map_err(|_| "the slots do not move".to_owned())?;
        ensure(redirects >= 2_000, || format!("only {redirects} redirects"))
    })
}

/// A replica that was down and comes back at another port is the same node, at the same local port.
pub fn a_node_that_comes_back_elsewhere_keeps_its_local_port() -> Result<(), String> {
    let mut cluster = Cluster::start(3, 1);
    let front = Front::of_cluster(&first(&cluster), &[]);
    let (number, before) = (5, front.address_of(&cluster.nodes[5]));
    let mut crawl = Crawl::of(cluster.nodes.iter());
    cluster.nodes[number].kill();
    cluster.nodes[number].restart_elsewhere();
    crawl.add(cluster.nodes[number].port());
    let port = cluster.nodes[number].port();
    let deadline = Deadline::start();
    while !cluster.running().all(|node| node.cluster_lines().iter().any(|line| line.port == port && !line.has("fail")))
    {
        deadline.check("the nodes to know the new port");
        std::thread::park_timeout(std::time::Duration::from_millis(50));
    }
    cluster.until_well();
    until(front.address(), "CLUSTER NODES", |reply| {
        let line = reply.text().lines().find(|line| line.contains(&before.to_string())).map(str::to_owned);
        line.is_some_and(|line| !line.contains("fail"))
    });
    until(before, "PING", |reply| *reply == Frame::status("PONG"));
    let after = front.address_of(&cluster.nodes[number]);
    ensure(after == before, || format!("the local port was {before} and is {after}"))?;
    crawl_cluster(&mut crawl, &cluster, &front);
    crawl.verdict()
}

/// A master that is killed closes its clients' connections; one that comes back is a replica at the port that it had.
pub fn a_killed_master_closes_its_clients_and_comes_back() -> Result<(), String> {
    let mut cluster = Cluster::start(3, 1);
    let front = Front::of_cluster(&first(&cluster), &[]);
    let port = owner(&cluster, "key");
    let local = front.address_of(cluster.at(port));
    let mut wire = Wire::connect(local);
    ensure(wire.ask("SET key 1") == Frame::status("OK"), || "SET".to_owned())?;
    let promoted = cluster.kill_master(port);
    ensure(wire.is_closed(), || "the connection to a node that was killed stays open".to_owned())?;
    // Who connects meanwhile is not left waiting.
    if let Ok(mut wire) = Wire::try_connect(local) {
        ensure(wire.is_closed(), || "a connection to a node that is not there stays open".to_owned())?;
    }
    let there = front.address_of(cluster.at(promoted));
    until(there, "GET key", |reply| *reply == Frame::bulk("1"));
    cluster.nodes.iter_mut().find(|node| node.port() == port).expect("it is there").restart();
    cluster.until_well();
    until(local, "GET key", |reply| reply.text().ends_with(&there.to_string()));
    Ok(())
}

/// A node that joins has a local port soon, and one that is forgotten keeps it without being told of.
pub fn a_node_that_joins_has_a_local_port() -> Result<(), String> {
    let mut cluster = Cluster::start(3, 0);
    let front = Front::of_cluster(&first(&cluster), &[]);
    let port = cluster.add_empty();
    let mut crawl = Crawl::of(cluster.nodes.iter());
    cluster.at(port).must(&format!("CLUSTER MEET 127.0.0.1 {}", cluster.nodes[0].port()));
    until(front.address(), "CLUSTER NODES", |reply| {
        reply.text().lines().count() == 4 && !reply.text().contains("handshake")
    });
    crawl_cluster(&mut crawl, &cluster, &front);
    crawl.verdict()
}

/// The name of the host, instead of its address, and no name at all.
pub fn hostnames_and_unknown_endpoints_are_local_ones() -> Result<(), String> {
    for endpoint in ["hostname", "unknown-endpoint", "ip"] {
        let preferred = format!("cluster-preferred-endpoint-type {endpoint}");
        let cluster = Cluster::start_with(3, 1, &["cluster-announce-hostname localhost", &preferred]);
        let front = Front::of_cluster(&first(&cluster), &[]);
        let mut crawl = Crawl::of(cluster.nodes.iter());
        crawl_cluster(&mut crawl, &cluster, &front);
        crawl.verdict().map_err(|error| format!("{endpoint}: {error}"))?;
        let nodes = front.nodes_of(cluster.running());
        for protocol in [2, 3] {
            let mut wire = speaking(front.address(), protocol);
            let slots = wire.ask("CLUSTER SLOTS");
            for server in slots.items().iter().flat_map(|range| &range.items()[2..]) {
                let (host, port) = (&server.items()[0], server.items()[1].integer());
                let is_here = match host {
                    Frame::NullBulk | Frame::Null => endpoint == "unknown-endpoint",
                    host => ["127.0.0.1", "localhost"].contains(&host.text().as_str()),
                };
                let is_port = nodes.iter().any(|(_, address)| i64::from(address.port()) == port);
                ensure(is_here && is_port, || format!("{endpoint}: CLUSTER SLOTS has {server:?}"))?;
            }
            let moved = nodes.iter().map(|(_, address)| speaking(*address, protocol).ask("GET key"));
            for reply in moved.filter(Frame::is_error) {
                let text = reply.text();
                let (_, address) = text.rsplit_once(' ').ok_or(&text)?;
                let (host, port) = address.rsplit_once(':').ok_or(&text)?;
                let is_port = nodes.iter().any(|(_, address)| address.port().to_string() == port);
                let is_here =
                    ["127.0.0.1", "localhost"].contains(&host) || (host.is_empty() && endpoint == "unknown-endpoint");
                ensure(is_here && is_port, || format!("{endpoint}: {text}"))?;
            }
        }
        // redis-cli of 7.0 cannot follow an address without a host, not directly either.
        if endpoint != "unknown-endpoint" {
            let text = redis_cli_c(&front, "SET key 1")?;
            ensure(text.contains("OK"), || format!("{endpoint}: redis-cli -c: {text}"))?;
        }
    }
    Ok(())
}

/// Runs one command in redis-cli, which follows redirects.
fn redis_cli_c(front: &Front, line: &str) -> Result<String, String> {
    let mut command = Command::new("redis-cli");
    command.args(["-c", "-h", "127.0.0.1", "-p", &front.address().port().to_string()]).args(line.split(' '));
    let output = command.output().map_err(|error| error.to_string())?;
    Ok(format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr)))
}

/// With `--upstream-announce-host`, clients are told that host, everywhere.
pub fn another_host_is_announced() -> Result<(), String> {
    let cluster = Cluster::start(3, 1);
    let front = Front::of_cluster(&first(&cluster), &["--upstream-announce-host", "localhost"]);
    let mut wire = Wire::connect(front.address());
    let slots = wire.ask("CLUSTER SLOTS");
    for server in slots.items().iter().flat_map(|range| &range.items()[2..]) {
        ensure(server.items()[0] == Frame::bulk("localhost"), || format!("CLUSTER SLOTS has {server:?}"))?;
    }
    let replies: Vec<Frame> = (0..20).map(|number| wire.ask(&format!("GET key:{number}"))).collect();
    let redirects: Vec<String> = replies.iter().filter(|reply| reply.is_error()).map(Frame::text).collect();
    ensure(!redirects.is_empty() && redirects.iter().all(|text| text.contains(" localhost:")), || {
        format!("{redirects:?}")
    })?;
    let mut crawl = Crawl::of(cluster.nodes.iter());
    crawl.ask(&mut wire, "CLUSTER NODES");
    crawl.verdict()
}

/// A Cluster that wants a password: redouble gives it for its clients, or each client gives its own.
pub fn passwords_are_given_by_redouble_or_by_the_client() -> Result<(), String> {
    let cluster = Cluster::start_with(3, 1, &["requirepass secret", "masterauth secret"]);
    let key_at = owner(&cluster, "key");
    let front = Front::of_cluster(&format!("redis://:secret@{}", first(&cluster)), &[]);
    let local = front.address_of(cluster.at(key_at));
    let reply = Wire::connect(local).ask("SET key 1");
    ensure(reply == Frame::status("OK"), || format!("with the password in the URL: {reply:?}"))?;
    // A client without a password that gets past redouble would be refused.
    let text = redis_cli_c(&front, "GET key")?;
    ensure(text.trim() == "1", || format!("redis-cli -c: {text}"))?;
    ensure(!front.log().contains("secret"), || "the log has the password".to_owned())?;
    for node in cluster.running() {
        node.must("ACL SETUSER worker on >word ~* &* +@all");
        node.must("ACL SETUSER reader on >word ~* +@read +cluster +client +info +hello");
    }
    let worker = Front::of_cluster(&format!("redis://worker:word@{}", first(&cluster)), &[]);
    let reply = Wire::connect(worker.address_of(cluster.at(key_at))).ask("ACL WHOAMI");
    ensure(reply.text() == "worker", || format!("with a user in the URL: {reply:?}"))?;
    let mut wire = Wire::connect(worker.address_of(cluster.at(key_at)));
    ensure(wire.ask("AUTH reader word") == Frame::status("OK"), || "AUTH".to_owned())?;
    let reply = wire.ask("SET key 2");
    ensure(reply.text().starts_with("NOPERM"), || format!("a client that gives its own user: {reply:?}"))
}

/// A wrong password is said to be one, and nothing hangs.
pub fn a_wrong_password_is_named_in_the_log() -> Result<(), String> {
    let cluster = Cluster::start_with(3, 0, &["requirepass secret", "masterauth secret"]);
    let url = format!("redis://:wrong@{}", first(&cluster));
    let mut front = Front::spawn(&["--upstream-cluster", &url], &[], false);
    let deadline = Deadline::start();
    while !front.log().contains("WRONGPASS") {
        deadline.check(format_args!("WRONGPASS in the log:\n{}", front.log()));
        std::thread::park_timeout(std::time::Duration::from_millis(20));
    }
    ensure(!front.log().contains(":wrong@"), || format!("the log has the password:\n{}", front.log()))?;
    let status = front.ended();
    ensure(status.is_none_or(|status| !status.success()), || "it ended well".to_owned())
}

/// Sentinels and nodes with passwords of their own.
pub fn sentinels_with_passwords_are_followed() -> Result<(), String> {
    let set = SentinelSet::start_with(&["requirepass secret", "masterauth secret"], &["requirepass watch"]);
    let of_nodes = ["--upstream-password", "secret"];
    let front = Front::of_sentinels(&format!("redis://:watch@{}", set.addresses()), &of_nodes);
    let master = front.address_of(set.at(set.master()));
    let reply = Wire::connect(master).ask("SET key 1");
    ensure(reply == Frame::status("OK"), || format!("{reply:?}"))?;
    ensure(!front.log().contains("secret") && !front.log().contains(":watch@"), || front.log())
}

/// TLS to the nodes and none to clients: what they are told is the plain port.
pub fn tls_to_the_nodes_is_not_told_to_plain_clients() -> Result<(), String> {
    let certificates = Certificates::new("deployments-nodes");
    let cluster = tls_cluster(&certificates);
    let url = format!("rediss://127.0.0.1:{}", cluster.nodes[0].tls_port());
    let ca = certificates.path("ca.crt");
    let front = Front::of_cluster(&url, &["--upstream-ca-cert-file", &ca]);
    let mut crawl = Crawl::of(cluster.nodes.iter());
    cluster.nodes.iter().for_each(|node| crawl.add(node.tls_port()));
    let slots = Wire::connect(front.address()).ask("CLUSTER SLOTS");
    for server in slots.items().iter().flat_map(|range| &range.items()[2..]) {
        let port = u16::try_from(server.items()[1].integer()).map_err(|error| error.to_string())?;
        let reply = Wire::connect(SocketAddr::from(([127, 0, 0, 1], port))).ask("PING");
        ensure(reply == Frame::status("PONG"), || format!("{server:?} answers {reply:?}"))?;
    }
    let text = redis_cli_c(&front, "SET key 1")?;
    ensure(text.contains("OK"), || format!("redis-cli -c: {text}"))?;
    crawl.ask(&mut Wire::connect(front.address()), "CLUSTER NODES");
    crawl.look("CLUSTER SLOTS", &slots);
    crawl.verdict()
}

/// TLS to clients and none to the nodes: every port that a client is told speaks TLS.
pub fn tls_to_clients_is_on_every_local_port() -> Result<(), String> {
    let certificates = Certificates::new("deployments-clients");
    let cluster = Cluster::start(3, 0);
    let mut arguments = certificates.directives();
    arguments.extend(["--tls-auth-clients", "no", "--tls-port", "0"].map(str::to_owned));
    let directives: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let front = Front::of_cluster(&first(&cluster), &directives);
    let client = certificates.client(None);
    let slots = Wire::connect_tls(front.address(), &client).ask("CLUSTER SLOTS");
    ensure(slots.items().len() == 3, || format!("CLUSTER SLOTS: {slots:?}"))?;
    for server in slots.items().iter().flat_map(|range| &range.items()[2..]) {
        let port = u16::try_from(server.items()[1].integer()).map_err(|error| error.to_string())?;
        let reply = Wire::connect_tls(SocketAddr::from(([127, 0, 0, 1], port)), &client).ask("PING");
        ensure(reply == Frame::status("PONG"), || format!("{server:?} answers {reply:?}"))?;
    }
    Ok(())
}

/// A Cluster whose nodes speak TLS to everybody, and to each other.
fn tls_cluster(certificates: &Certificates) -> Cluster {
    let mut lines: Vec<String> = certificates
        .directives()
        .chunks(2)
        .map(|pair| format!("{} {}", pair[0].trim_start_matches("--"), pair[1]))
        .collect();
    lines.extend(["tls-auth-clients no", "tls-cluster yes", "tls-replication yes"].map(str::to_owned));
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    Cluster::start_with(3, 1, &lines)
}

/// `redouble run` gives its command what a client needs.
pub fn run_gives_the_addresses_of_all_nodes() -> Result<(), String> {
    let cluster = Cluster::start(3, 1);
    let said = |arguments: &[&str], script: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_redouble"));
        command.arg("run").args(arguments).args(["--", "sh", "-c", script]);
        let output = command.output().map_err(|error| error.to_string())?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        ensure(output.status.success(), || format!("{}\n{}", output.status, String::from_utf8_lossy(&output.stderr)))?;
        Ok::<_, String>(text)
    };
    let seed = format!("redis://{}", first(&cluster));
    let script = "echo $REDIS_URL $REDIS_CLUSTER_NODES; redis-cli -c -u $REDIS_URL SET key 1";
    let text = said(&["--upstream-cluster", &seed], script)?;
    let words: Vec<&str> = text.split_whitespace().collect();
    ensure(
        matches!(words[..], [url, nodes, "OK"]
        if nodes.split(',').count() == 6 && url.trim_start_matches("redis://").trim_end_matches('/') == nodes.split(',').next().unwrap_or_default()
            && cluster.nodes.iter().all(|node| !nodes.contains(&node.port().to_string()))),
        || text.clone(),
    )?;
    let set = SentinelSet::start();
    let script = "echo $REDIS_URL $REDIS_SENTINELS $REDIS_SENTINEL_SERVICE; redis-cli -u $REDIS_URL SET key 1";
    let text = said(&["--upstream-sentinel", &set.addresses(), "--service", SentinelSet::SERVICE], script)?;
    let words: Vec<&str> = text.split_whitespace().collect();
    ensure(
        matches!(words[..], [_, sentinels, SentinelSet::SERVICE, "OK"]
        if sentinels.split(',').count() == 3 && set.all().all(|node| !text.contains(&node.port().to_string()))),
        || text.clone(),
    )
}

/// A Sentinel that is down is passed over, and one that is killed later, too.
pub fn sentinels_that_are_down_are_passed_over() -> Result<(), String> {
    let mut set = SentinelSet::start();
    let down = free_node_port();
    let front = Front::of_sentinels(&format!("127.0.0.1:{down},{}", set.addresses()), &[]);
    ensure(front.log().contains(&down.to_string()), || format!("the log does not name it:\n{}", front.log()))?;
    let master = set.master();
    let local = front.address_of(set.at(master));
    until(local, "SET key 1", |reply| *reply == Frame::status("OK"));
    let sentinels: Vec<SocketAddr> =
        front.nodes_of(set.sentinels.iter()).into_iter().map(|(_, address)| address).collect();
    set.sentinels[0].kill();
    let asked = format!("SENTINEL GET-MASTER-ADDR-BY-NAME {}", SentinelSet::SERVICE);
    let reply = Wire::connect(sentinels[1]).ask(&asked);
    ensure(reply.items()[1].text() == local.port().to_string(), || format!("{reply:?} and not {local}"))
}

/// Addresses that clients give are understood: a replica is told to follow another node by its local address, and back.
pub fn a_local_address_in_a_command_means_the_node() -> Result<(), String> {
    let set = SentinelSet::start();
    let front = Front::of_sentinels(&set.addresses(), &[]);
    let master = set.master();
    let replicas: Vec<u16> = set.nodes.iter().map(|node| node.port()).filter(|port| *port != master).collect();
    let [first, second] = [0, 1].map(|index| front.address_of(set.at(replicas[index])));
    let follow = |address: SocketAddr| format!("REPLICAOF {} {}", address.ip(), address.port());
    let reply = Wire::connect(second).ask(&follow(first));
    ensure(reply.text().starts_with("OK"), || format!("REPLICAOF: {reply:?}"))?;
    let now = set.at(replicas[1]).info("INFO replication", "master_port");
    // A Sentinel soon puts that right again.
    ensure(now == replicas[0].to_string() || now == master.to_string(), || format!("it follows port {now}"))?;
    let local = front.address_of(set.at(master));
    let asked = format!("SENTINEL IS-MASTER-DOWN-BY-ADDR {} {} 0 *", local.ip(), local.port());
    let reply = Wire::connect(front.address()).ask(&asked);
    ensure(reply.items().first() == Some(&Frame::Integer(0)), || format!("{asked}: {reply:?}"))?;
    // `CLIENT KILL ADDR` takes what CLIENT LIST shows.
    let mut victim = Wire::connect(local);
    victim.ask("CLIENT SETNAME victim");
    let list = Wire::connect(local).ask("CLIENT LIST").text();
    let line = list.lines().find(|line| line.contains("name=victim")).ok_or(&list)?;
    let address = line.split(' ').find_map(|field| field.strip_prefix("addr=")).ok_or(line)?;
    let own = victim.tcp().local_addr().map_err(|error| error.to_string())?;
    ensure(address == own.to_string(), || format!("{line}, and the client is {own}"))?;
    let reply = Wire::connect(local).ask(&format!("CLIENT KILL ADDR {address}"));
    ensure(reply == Frame::Integer(1), || format!("CLIENT KILL ADDR {address}: {reply:?}"))?;
    ensure(victim.is_closed(), || "the killed client stays connected".to_owned())
}

/// Sentinels that tell names instead of addresses: clients are told local addresses that they can reach.
pub fn sentinels_that_tell_hostnames_are_followed() -> Result<(), String> {
    let directives =
        ["sentinel resolve-hostnames yes", "sentinel announce-hostnames yes", "sentinel announce-ip localhost"];
    let set = SentinelSet::start_with(&["replica-announce-ip localhost"], &directives);
    let front = Front::of_sentinels(&set.addresses(), &[]);
    let mut crawl = Crawl::of(set.all());
    crawl_sentinels(&mut crawl, &set, &front);
    crawl.verdict()?;
    let asked = format!("SENTINEL GET-MASTER-ADDR-BY-NAME {}", SentinelSet::SERVICE);
    let reply = Wire::connect(front.address()).ask(&asked);
    let local = front.address_of(set.at(set.master()));
    ensure(reply.items()[1].text() == local.port().to_string(), || format!("{reply:?}, and not {local}"))
}

/// One node is away for clients; the Cluster does not notice, and all is well afterwards.
pub fn a_node_that_is_cut_off_is_there_for_the_others() -> Result<(), String> {
    let cluster = Cluster::start(3, 1);
    let front = Front::of_cluster(&first(&cluster), &[]);
    let port = owner(&cluster, "key");
    let local = front.address_of(cluster.at(port));
    let other = front.nodes_of(cluster.running()).into_iter().find(|(real, _)| *real != port).expect("another").1;
    let node = format!("127.0.0.1:{port}");
    let reply = Wire::connect(other).ask(&format!("REDOUBLE NODE CUT {node}"));
    ensure(!reply.is_error(), || format!("CUT: {reply:?}"))?;
    let mut cut = Wire::connect(local);
    cut.send(b"INCR key\r\n");
    let reply = Wire::connect(other).ask("CLUSTER INFO").text();
    ensure(reply.contains("cluster_state:ok"), || reply)?;
    ensure(!cut.has_reply(), || "a node that is cut off answers".to_owned())?;
    ensure(cluster.lines().iter().all(|line| !line.has("fail") && !line.has("fail?")), || {
        format!("{:?}", cluster.lines())
    })?;
    let reply = Wire::connect(other).ask(&format!("REDOUBLE NODE HEAL {node}"));
    ensure(!reply.is_error(), || format!("HEAL: {reply:?}"))?;
    let reply = cut.expect();
    ensure(reply == Frame::Integer(1), || format!("after HEAL: {reply:?}"))
}

/// A service that no Sentinel knows is named.
pub fn an_unknown_service_is_named() -> Result<(), String> {
    let set = SentinelSet::start();
    let mut front = Front::spawn(&["--upstream-sentinel", &set.addresses(), "--service", "nobody"], &[], true);
    let deadline = Deadline::start();
    while !front.log().contains("nobody") {
        deadline.check(format_args!("the service in the log:\n{}", front.log()));
        std::thread::park_timeout(std::time::Duration::from_millis(20));
    }
    let status = front.ended();
    ensure(status.is_none_or(|status| !status.success()), || "it ended well".to_owned())
}

/// Whoever is connected to a master that another one replaces is disconnected, as Redis does it, and finds the new one.
pub fn clients_of_a_former_master_are_disconnected() -> Result<(), String> {
    let set = SentinelSet::start();
    let front = Front::of_sentinels(&set.addresses(), &[]);
    let before = set.master();
    let local = front.address_of(set.at(before));
    let mut idle = Wire::connect(local);
    ensure(idle.ask("SET key 1") == Frame::status("OK"), || "SET".to_owned())?;
    let after = set.fail_over();
    ensure(idle.is_closed(), || "the connection to the former master stays open".to_owned())?;
    let now = front.address_of(set.at(after));
    let asked = format!("SENTINEL GET-MASTER-ADDR-BY-NAME {}", SentinelSet::SERVICE);
    until(front.address(), &asked, |reply| {
        reply.items().get(1).is_some_and(|port| port.text() == now.port().to_string())
    });
    let reply = Wire::connect(now).ask("GET key");
    ensure(reply == Frame::bulk("1"), || format!("{reply:?}"))?;
    let reply = Wire::connect(local).ask("SET key 2");
    ensure(reply.text().starts_with("READONLY"), || format!("{reply:?}"))
}

/// The lines of CLUSTER NODES have the same order, flags and slots as directly; only addresses differ.
pub fn cluster_nodes_is_the_same_but_for_addresses() -> Result<(), String> {
    let cluster = Cluster::start(3, 1);
    let front = Front::of_cluster(&first(&cluster), &[]);
    for (port, address) in front.nodes_of(cluster.running()) {
        // Times, and epochs that are under way, are another matter.
        let stable = |at: SocketAddr| {
            let text = Wire::connect(at).ask("CLUSTER NODES").text();
            let mut lines: Vec<ClusterLine> = text.lines().filter_map(ClusterLine::parse).collect();
            lines.iter_mut().for_each(|line| line.port = 0);
            lines.sort_by(|one, other| one.id.cmp(&other.id));
            lines
        };
        let (direct, through) = (stable(cluster.at(port).address()), stable(address));
        ensure(direct == through, || format!("direct {direct:?}\nthrough {through:?}"))?;
        let bus = Wire::connect(address).ask("CLUSTER NODES").text();
        let is_bus = |line: &str| line.split(' ').nth(1).is_some_and(|address| address.contains('@'));
        ensure(bus.lines().all(is_bus), || bus.clone())?;
    }
    Ok(())
}
