//! Looks at the connections that the nodes of a deployment have: who is at the other end of each.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use super::support::wire::Wire;

/// What was seen of the connections of a program and of its children to the nodes.
#[derive(Default, Debug)]
pub struct Seen {
    /// How often the connections were looked at.
    pub looks: usize,
    /// The program's own connections to nodes, `process 12 at port 17000`.
    pub own: BTreeSet<String>,
    /// Lines of the nodes' CLIENT LIST whose other end is neither a node nor one of the processes that may connect.
    pub strangers: BTreeSet<String>,
    /// How many lines of CLIENT LIST were looked at.
    pub clients: usize,
}

/// Looks again and again, until it is asked for what it saw.
pub struct Watch {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<Seen>,
}

impl Watch {
    /// Watches the connections to `ports`. `program` is the process of the client; `known` are those that may connect.
    pub fn start(ports: Vec<u16>, program: u32, known: Vec<u32>) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&is_over);
        let thread = std::thread::spawn(move || {
            let mut seen = Seen::default();
            while !flag.load(Ordering::Relaxed) {
                look(&ports, program, &known, &mut seen);
                std::thread::park_timeout(Duration::from_millis(250));
            }
            seen
        });
        Self { is_over, thread }
    }

    pub fn finish(self) -> Seen {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.thread().unpark();
        self.thread.join().expect("it does not panic")
    }
}

fn look(ports: &[u16], program: u32, known: &[u32], seen: &mut Seen) {
    seen.looks += 1;
    // Some clients connect anew for nearly every command, so a single look would miss them.
    for _ in 0..3 {
        let own = |program| family(program).into_iter().flat_map(sockets);
        let before: Vec<u64> = own(program).collect();
        let connections = connections();
        let own: BTreeSet<u64> = own(program).chain(before).collect();
        let at_nodes = connections.iter().filter(|((_, peer), inode)| ports.contains(peer) && own.contains(inode));
        seen.own.extend(at_nodes.map(|((local, peer), _)| format!("from port {local} to the node at {peer}")));
    }
    // The lists come before the sockets, so a connection that is gone by then has no socket any more.
    let lists: Vec<(u16, Vec<String>)> =
        ports.iter().map(|port| (*port, client_list(*port).unwrap_or_default())).collect();
    let connections = self::connections();
    let owned: BTreeSet<u64> = known.iter().flat_map(|process| family(*process)).flat_map(sockets).collect();
    for (port, lines) in lists {
        for line in lines {
            seen.clients += 1;
            let peer = line.split(' ').find_map(|field| field.strip_prefix("addr="));
            let Some(peer) = peer.and_then(|address| address.parse::<SocketAddr>().ok()) else { continue };
            let inode = connections.get(&(peer.port(), port));
            if inode.is_some_and(|inode| !owned.contains(inode)) && !is_known(peer.port(), port, known) {
                seen.strangers.insert(format!("port {port}: {line}"));
            }
        }
    }
}

/// Whether the end of a connection belongs to one of the processes, or the connection has ended.
fn is_known(local: u16, peer: u16, known: &[u32]) -> bool {
    let is_owned =
        |inode: &u64| known.iter().flat_map(|process| family(*process)).any(|process| sockets(process).contains(inode));
    // A connection that ended between the two looks is in the table and has no owner any more.
    (0..3).any(|_| match connections().get(&(local, peer)).copied() {
        None | Some(0) => true,
        Some(inode) => is_owned(&inode),
    })
}

/// The lines of a node's CLIENT LIST, if it answers.
fn client_list(port: u16) -> Option<Vec<String>> {
    let mut wire = Wire::try_connect(SocketAddr::from(([127, 0, 0, 1], port))).ok()?;
    wire.send(b"CLIENT LIST\r\n");
    let reply = wire.read().ok()?;
    (!reply.is_error()).then(|| reply.text().lines().map(str::to_owned).collect())
}

/// The numbers of the sockets of this machine's connections over IPv4 and IPv6, by the local port and the peer's.
fn connections() -> BTreeMap<(u16, u16), u64> {
    let port = |address: &str| u16::from_str_radix(address.rsplit(':').next()?, 16).ok();
    let mut found = BTreeMap::new();
    for file in ["/proc/net/tcp", "/proc/net/tcp6"] {
        let table = fs::read_to_string(file).unwrap_or_default();
        // 06 is TIME_WAIT. There can be tens of thousands.
        for line in table.lines().skip(1).filter(|line| !line.contains(" 06 ")) {
            let words: Vec<&str> = line.split_whitespace().collect();
            // 01 is ESTABLISHED, 08 CLOSE_WAIT: the node has closed it, and its end here is still open.
            let [_, local, peer, "01" | "08", _, _, _, _, _, inode, ..] = words[..] else { continue };
            if let (Some(local), Some(peer), Ok(inode)) = (port(local), port(peer), inode.parse()) {
                found.insert((local, peer), inode);
            }
        }
    }
    found
}

/// The numbers of a process's sockets.
fn sockets(process: u32) -> BTreeSet<u64> {
    let Ok(entries) = fs::read_dir(format!("/proc/{process}/fd")) else { return BTreeSet::new() };
    let number = |path: &Path| {
        let target = fs::read_link(path).ok()?;
        target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
    };
    entries.filter_map(|entry| number(&entry.ok()?.path())).collect()
}

/// A process and its children.
fn family(process: u32) -> Vec<u32> {
    let mut family = vec![process];
    let mut next = 0;
    while let Some(process) = family.get(next) {
        let Ok(threads) = fs::read_dir(format!("/proc/{process}/task")) else {
            next += 1;
            continue;
        };
        let children: Vec<u32> = threads
            .filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("children")).ok())
            .flat_map(|text| text.split_whitespace().filter_map(|id| id.parse().ok()).collect::<Vec<_>>())
            .collect();
        family.extend(children);
        next += 1;
    }
    family
}
