//! `redis-cli --cluster` through redouble: what an operator does to a Cluster.

use std::process::{Command, Stdio};

use super::front::Front;
use super::support::deployments::{Cluster, slot_of};
use super::support::wire::{Frame, Wire};
use super::support::{Deadline, wait_for};

/// Runs `redis-cli --cluster` and returns what it printed.
fn redis_cli(arguments: &[&str]) -> Result<String, String> {
    let output = Command::new("redis-cli")
        .arg("--cluster")
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("redis-cli: {error}"))?;
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.success() {
        Ok(text)
    } else {
        Err(format!("redis-cli --cluster {arguments:?}: {}\n{text}", output.status))
    }
}

/// `--cluster check`, until the nodes agree: after a change they need a moment.
fn check(address: &str) -> Result<String, String> {
    let deadline = Deadline::start();
    loop {
        match redis_cli(&["check", address]) {
            Ok(text) if text.contains("[OK] All 16384 slots covered.") && !text.contains("[ERR]") => return Ok(text),
            Ok(text) | Err(text) => {
                deadline.check(format_args!("--cluster check {address}: {text}"));
                std::thread::park_timeout(std::time::Duration::from_millis(200));
            }
        }
    }
}

fn must(found: bool, what: &str, text: &str) -> Result<(), String> {
    if found { Ok(()) } else { Err(format!("{what}:\n{text}")) }
}

/// redis-cli makes a Cluster of six empty servers through redouble, checks it, moves slots with their keys, adds a node and
/// removes it; and a check directly at the nodes agrees.
pub fn redis_cli_makes_and_changes_a_cluster() -> Result<(), String> {
    let nodes = Cluster::empty(7, &[]);
    let front = Front::of_cluster(&nodes.addresses(), &[]);
    let local: Vec<String> = nodes.nodes.iter().map(|node| front.address_of(node).to_string()).collect();
    let real: Vec<String> = nodes.nodes.iter().map(|node| node.address().to_string()).collect();
    let mut create = vec!["create"];
    create.extend(local[..6].iter().map(String::as_str));
    create.extend(["--cluster-replicas", "1", "--cluster-yes"]);
    let text = redis_cli(&create)?;
    must(text.contains("[OK] All 16384 slots covered."), "create", &text)?;
    for port in nodes.nodes.iter().map(|node| node.port().to_string()) {
        must(!text.contains(&port), "create shows a real port", &text)?;
    }
    for address in [&local[0], &local[5], &real[0]] {
        let text = check(address)?;
        must(text.matches("additional replica(s)").count() == 3, "check", &text)?;
    }

    // Keys move with their slots.
    let keys: Vec<String> = (0..300).map(|number| format!("key:{number}")).collect();
    write(&nodes, &keys);
    let text = redis_cli(&["info", &local[0]])?;
    must(text.contains("[OK] 300 keys in 3 masters."), "info", &text)?;
    let lines = nodes.lines();
    let masters: Vec<_> = lines.iter().filter(|line| line.is_master() && !line.slots.is_empty()).collect();
    let from_to = ["--cluster-from", &masters[0].id, "--cluster-to", &masters[1].id];
    let mut reshard = vec!["reshard", &local[2]];
    reshard.extend(from_to);
    reshard.extend(["--cluster-slots", "300", "--cluster-yes"]);
    let text = redis_cli(&reshard)?;
    must(text.contains("Moving slot "), "reshard", &text)?;
    let moved = nodes.lines();
    let count = |id: &str| moved.iter().find(|line| line.id == id).map_or(0, |line| line.count());
    if count(&masters[1].id) != masters[1].count() + 300 {
        return Err(format!("reshard: {} slots became {}", masters[1].count(), count(&masters[1].id)));
    }
    check(&local[1])?;
    let text = redis_cli(&["rebalance", &local[1], "--cluster-threshold", "1"])?;
    must(text.contains("Rebalancing across") || text.contains("No rebalancing needed"), "rebalance", &text)?;
    check(&local[3])?;
    check(&real[3])?;

    // One more node, as a replica of a master, and gone again.
    let text =
        redis_cli(&["add-node", &local[6], &local[0], "--cluster-slave", "--cluster-master-id", &masters[0].id])?;
    must(text.contains("[OK] New node added correctly."), "add-node", &text)?;
    let id = nodes.nodes[6].must("CLUSTER MYID").text();
    let text = check(&local[0])?;
    must(text.contains(&id) && text.contains(&local[6]), "check after add-node", &text)?;
    nodes.until_well();
    let text = redis_cli(&["call", &local[0], "PING"])?;
    must(text.matches("PONG").count() == 7, "call", &text)?;
    let text = redis_cli(&["del-node", &local[0], &id])?;
    must(text.contains("SHUTDOWN") || text.contains("CLUSTER RESET"), "del-node", &text)?;
    check(&local[0])?;
    check(&real[0])?;
    let text = redis_cli(&["fix", &local[0]])?;
    must(text.contains("[OK] All 16384 slots covered."), "fix", &text)?;
    for (number, key) in keys.iter().enumerate() {
        let value = read(&nodes, key);
        if value != Frame::bulk(&number.to_string()) {
            return Err(format!("{key} is {value:?} after all that"));
        }
    }
    Ok(())
}

fn owner<'a>(cluster: &'a Cluster, key: &str) -> &'a super::support::deployments::Node {
    let slot = slot_of(key);
    let lines = cluster.lines();
    cluster.at(lines.iter().find(|line| line.is_master() && line.owns(slot)).expect("a master").port)
}

fn write(cluster: &Cluster, keys: &[String]) {
    for (number, key) in keys.iter().enumerate() {
        // A node that has just joined may not have heard yet that all is well.
        wait_for(format_args!("{key} to be written"), || {
            match owner(cluster, key).ask(&format!("SET {key} {number}")) {
                reply if reply == Frame::status("OK") => Ok(()),
                reply => Err(reply),
            }
        });
    }
}

fn read(cluster: &Cluster, key: &str) -> Frame {
    Wire::connect(owner(cluster, key).address()).ask(&format!("GET {key}"))
}
