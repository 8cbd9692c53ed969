//! Replicas among the instances of a process: who follows whom, and bringing them up to date.
//!
//! A replica runs what it was sent in a turn of its own, and whoever takes the turn has no data locked: commands only note that
//! there is something to do, and it is done when their own locks are gone. So no thread holds the locks of two instances at once.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use super::node::Node;
use super::nodes::Nodes;
use crate::base::error::CommandError;
use crate::base::sync::MutexExt;
use crate::clients::instance::{Due, Instance, MasterLink, Primary, Rewound, Synced};
use crate::data::keyspace::Busy;

/// How much room for a stream is kept.
const MOST_KEPT: usize = 64 * 1024;

/// An instance's part in replication.
#[derive(Default)]
pub(super) struct Part {
    /// Held while it makes its link, or runs what it was sent. What it runs is here.
    turn: Mutex<Vec<u8>>,
    /// How many threads have the turn, or wait for it.
    attending: AtomicUsize,
    /// The instance that has taken its place while it was cut off. It follows that one once the link is healed.
    pub(super) successor: Mutex<Option<usize>>,
    /// What that one had when it did so.
    pub(super) had: Mutex<Option<Had>>,
    /// The instance that was its master when the process began, if it was a replica.
    first_master: OnceLock<usize>,
}

/// How much of a stream a replica has, and the database that is selected there.
#[derive(Clone, Copy)]
pub(super) struct Had {
    pub(super) offset: u64,
    pub(super) selected: u32,
}

impl Had {
    pub(super) fn of(node: &Node) -> Self {
        Self { offset: node.instance().replication_offset(), selected: node.instance().selected_by_stream() }
    }
}

impl Part {
    /// It begins as a replica of this instance.
    pub(super) fn begin_as_replica_of(&self, master: usize) {
        let _ = self.first_master.set(master);
    }

    pub(super) fn is_first_replica(&self) -> bool {
        self.first_master.get().is_some()
    }

    /// The instance that was the master of its group when the process began; `own` is its own number.
    pub(super) fn origin(&self, own: usize) -> usize {
        self.first_master.get().copied().unwrap_or(own)
    }
}

impl Nodes {
    /// Replicas connect to their masters, and run what they have been sent.
    pub(super) fn bring_replicas_up_to_date(&self) {
        /// What a replica runs is work for its own replicas; chains are not longer than this.
        const ROUNDS: usize = 64;
        for _ in 0..ROUNDS {
            // What another thread is about to run there is waited for as well.
            let is_busy =
                |node: &&Arc<Node>| node.instance().is_link_due() || node.part().attending.load(Ordering::Acquire) > 0;
            if self.all().iter().filter(is_busy).filter(|node| self.attend(node)).count() == 0 {
                return;
            }
        }
    }

    /// Has every replica look at its link.
    pub(super) fn call_links(&self) {
        self.all().iter().for_each(|node| node.instance().call_link());
    }

    /// The instance that another one follows.
    pub(super) fn master_of(&self, node: &Node) -> Option<&Arc<Node>> {
        let Primary { host, port } = node.instance().primary()?;
        self.at(&host, port)
    }

    /// The name of a replica. An instance of this process can be named by its number.
    pub(super) fn replica_named(&self, word: &str) -> String {
        let instance = word.parse().ok().and_then(|number| self.get(number));
        instance.map_or_else(|| word.to_owned(), |node| name_of(node))
    }

    /// The instance that listens at an address.
    pub(super) fn at(&self, host: &[u8], port: i64) -> Option<&Arc<Node>> {
        let is_at = |address: &SocketAddr| {
            let ip = address.ip().to_string();
            let is_local = address.ip().is_loopback() || address.ip().is_unspecified();
            let names_it = host == ip.as_bytes()
                || is_local
                    && [b"127.0.0.1".as_slice(), b"localhost", b"::1"]
                        .iter()
                        .any(|name| host.eq_ignore_ascii_case(name));
            i64::from(address.port()) == port && names_it
        };
        self.all().iter().find(|node| node.addresses().iter().chain(node.tls_addresses()).any(is_at))
    }

    /// Returns whether there was something to do.
    fn attend(&self, node: &Arc<Node>) -> bool {
        let part = node.part();
        part.attending.fetch_add(1, Ordering::AcqRel);
        let mut stream = part.turn.lock_ignoring_poison();
        let due = node.instance().take_due_link();
        match due {
            Due::Nothing => {}
            Due::Changes => run_inbox(node, &mut stream),
            Due::Everything => self.attend_in_turn(node, &mut stream),
        }
        drop(stream);
        part.attending.fetch_sub(1, Ordering::AcqRel);
        due != Due::Nothing
    }

    fn attend_in_turn(&self, node: &Arc<Node>, stream: &mut Vec<u8>) {
        let instance = node.instance();
        // What was sent before the link went down has come, and its replies may have been sent.
        run_inbox(node, stream);
        let master = self.master_of(node).filter(|master| !Arc::ptr_eq(master, node));
        let is_of_master = |link: &Arc<Instance>| master.is_some_and(|master| Arc::ptr_eq(master.instance(), link));
        if let Some(link) = instance.master_link()
            && (!link.is_up() || !node.is_serving() || !link.master.upgrade().as_ref().is_some_and(is_of_master))
        {
            instance.unlink();
        }
        let Some(master) = master else { return };
        if !instance.is_linked() && self.may_connect(node, master) && connect(node, master).is_err() {
            // A script holds the data; its end, or the next period, is another try.
            return;
        }
        run_inbox(node, stream);
    }

    fn may_connect(&self, node: &Node, master: &Node) -> bool {
        let is_fresh = !master.instance().is_replica() || master.instance().is_linked();
        node.is_serving() && master.is_serving() && is_fresh && !master.instance().is_replica_cut(&name_of(node))
    }
}

/// How the replica is called in orders for its link.
pub(super) fn name_of(node: &Node) -> String {
    node.main_address().map_or_else(String::new, |address| match address.ip() {
        ip if ip.is_unspecified() => format!("127.0.0.1:{}", address.port()),
        ip => format!("{ip}:{}", address.port()),
    })
}

fn connect(node: &Node, master: &Node) -> Result<(), Busy> {
    let (Ok(own), Ok(its)) = (name_of(node).parse(), name_of(master).parse()) else { return Ok(()) };
    let instance = node.instance();
    match instance.link_to(master.instance(), own, its)? {
        Synced::Rest { .. } => {
            instance.log.notice("MASTER <-> REPLICA sync: Master accepted a Partial Resynchronization.");
        }
        Synced::Everything { history, offset, selected, snapshot } => {
            if let Err(busy) = node.root().load_from_master(&snapshot) {
                instance.unlink();
                return Err(busy);
            }
            instance.adopt_history(&history, offset, selected);
            instance.keep_first_past(snapshot);
            instance.log.notice("MASTER <-> REPLICA sync: Finished with success");
        }
    }
    if let Some(link) = instance.master_link() {
        acknowledge(instance, &link);
    }
    instance.keep_past();
    Ok(())
}

/// Runs what has come over the link of a replica. `stream` is room for it.
fn run_inbox(node: &Node, stream: &mut Vec<u8>) {
    let instance = node.instance();
    let Some(link) = instance.master_link() else { return };
    while instance.is_answering() {
        stream.clear();
        stream.shrink_to(MOST_KEPT);
        link.inbox.take_into(stream);
        if stream.is_empty() {
            return;
        }
        let replayed = node.root().replay(&link.at_replica, instance.selected_by_stream(), stream);
        let (run, rest) = stream.split_at(replayed.bytes);
        instance.pass_on(run, replayed.selected);
        acknowledge(instance, &link);
        instance.keep_past();
        if !rest.is_empty() {
            link.inbox.put_back(rest);
        }
        if replayed.is_held_up {
            return;
        }
    }
}

/// Makes a replica what it was before its last so many changes.
pub(super) fn take_back(node: &Node, changes: u64) -> Result<(), CommandError> {
    let instance = node.instance();
    let _turn = node.part().turn.lock_ignoring_poison();
    let Some(link) = instance.master_link() else { return Ok(()) };
    let Rewound { snapshot, selected, log, offset } = instance.before_last(changes)?;
    let busy = |Busy| CommandError::new(format!("ERR instance {} runs a script", node.number()));
    node.root().load_from_master(&snapshot).map_err(busy)?;
    let replayed = node.root().replay(&link.at_replica, selected, &log);
    let history = instance.identity.replication_id().current;
    instance.adopt_history(&history, offset, replayed.selected);
    if replayed.is_held_up { Err(busy(Busy)) } else { Ok(()) }
}

/// Makes a replica a primary between two parts of the stream: nothing of its former master's runs afterwards.
pub(super) fn promote(node: &Node) {
    let _turn = node.part().turn.lock_ignoring_poison();
    node.instance().follow_no_one();
}

/// Tells the master how far its replica is.
fn acknowledge(instance: &Instance, link: &MasterLink) {
    if let Some(master) = link.master.upgrade() {
        master.acknowledge(&link.at_master, instance.replication_offset(), None);
    }
}
