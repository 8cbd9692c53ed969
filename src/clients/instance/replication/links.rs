//! REDOUBLE LINK: what goes to replicas is held, let go piece by piece, sent late, or cut off.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::task::{Poll, Waker};

use super::{Replica, Stream, name_of};
use crate::base::clock::Millis;
use crate::base::error::CommandError;
use crate::clients::fleet::{LinkInfo, LinkOrder, LinkState};
use crate::clients::instance::Instance;
use crate::clients::session::{Client, Message, ReplicaIntroduction};

/// The most replicas whose links can be treated apart from the others.
const MOST_NAMES: usize = 64;

/// The most that wait for changes at the links of an instance.
const MOST_WATCHERS: usize = 1024;

/// How links are treated.
#[derive(Default)]
pub(super) struct Links {
    /// Those of which nothing else was said, also of replicas that come later.
    all: LinkState,
    /// By the name of the replica.
    by_name: BTreeMap<String, LinkState>,
}

impl Links {
    /// Whether all of them are open.
    #[inline]
    pub(super) fn are_untouched(&self) -> bool {
        self.all == LinkState::Open && self.by_name.is_empty()
    }

    pub(super) fn state(&self, name: &str) -> LinkState {
        self.by_name.get(name).copied().unwrap_or(self.all)
    }

    fn set(&mut self, name: Option<&str>, state: LinkState) -> Result<(), CommandError> {
        let Some(name) = name else {
            *self = Self { all: state, by_name: BTreeMap::new() };
            return Ok(());
        };
        if !self.by_name.contains_key(name) && self.by_name.len() >= MOST_NAMES {
            return Err(CommandError::new(format!(
                "ERR the links of {MOST_NAMES} replicas are treated apart already; HEAL of all makes room"
            )));
        }
        self.by_name.insert(name.to_owned(), state);
        Ok(())
    }
}

/// Something that is sent as a whole.
struct Part {
    bytes: Vec<u8>,
    /// It is a change, and no question of the primary to its replicas.
    is_change: bool,
    /// When it is sent, if it is only late.
    due: Option<Millis>,
}

/// What a link has not let go.
#[derive(Default)]
pub(super) struct Pending {
    parts: VecDeque<Part>,
    bytes: usize,
    changes: usize,
}

impl Pending {
    pub(super) fn push(&mut self, bytes: &[u8], is_change: bool, due: Option<Millis>) -> usize {
        self.bytes += bytes.len();
        self.changes += usize::from(is_change);
        self.parts.push_back(Part { bytes: bytes.to_vec(), is_change, due });
        self.bytes
    }

    /// Takes so many changes, with everything in front of them; all there is with `None`. How many there were.
    pub(super) fn take(&mut self, most: Option<u64>) -> (Vec<u8>, u64) {
        let (mut out, mut changes) = (Vec::new(), 0);
        while most.is_none_or(|most| changes < most)
            && let Some(part) = self.parts.pop_front()
        {
            self.bytes -= part.bytes.len();
            self.changes -= usize::from(part.is_change);
            out.extend_from_slice(&part.bytes);
            changes += u64::from(part.is_change);
        }
        (out, changes)
    }

    /// Takes what is due. What is held, and what is behind that, is not.
    fn take_due(&mut self, now: Millis) -> Vec<u8> {
        let mut out = Vec::new();
        while self.parts.front().is_some_and(|part| part.due.is_some_and(|due| due <= now))
            && let Some(part) = self.parts.pop_front()
        {
            self.bytes -= part.bytes.len();
            self.changes -= usize::from(part.is_change);
            out.extend_from_slice(&part.bytes);
        }
        out
    }

    /// When the first part is due, if it is only late.
    fn next_due(&self) -> Option<Millis> {
        self.parts.front()?.due
    }

    /// Nothing of it is sent by itself any more.
    fn hold(&mut self) {
        self.parts.iter_mut().for_each(|part| part.due = None);
    }

    /// What has no time yet is sent at this one.
    fn set_due(&mut self, due: Millis) {
        self.parts.iter_mut().filter(|part| part.due.is_none()).for_each(|part| part.due = Some(due));
    }

    pub(super) fn changes(&self) -> usize {
        self.changes
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// All of it, and whether each part is a change.
    pub(super) fn parts(&self) -> impl Iterator<Item = (&[u8], bool)> {
        self.parts.iter().map(|part| (part.bytes.as_slice(), part.is_change))
    }
}

impl Instance {
    /// Treats the link to a replica, or all links, as a test wants. Returns to how many replicas that made a difference, or
    /// how many changes were let go.
    pub fn order_link(&self, order: LinkOrder, name: Option<&str>) -> Result<u64, CommandError> {
        let now = self.clock.millis();
        let mut stream = self.stream();
        let is_named = |replica: &Replica| name.is_none_or(|name| replica.name() == name);
        if let Some(name) = name
            && !stream.replicas.iter().any(is_named)
            && !stream.links.by_name.contains_key(name)
        {
            return Err(CommandError::quoting("ERR there is no replica '", name.as_bytes(), "'; LIST names them"));
        }
        let LinkOrder::Step(most) = order else {
            let state = match order {
                LinkOrder::Hold => LinkState::Held,
                LinkOrder::Lag(lag) => LinkState::Late(lag),
                LinkOrder::Cut => LinkState::Cut,
                LinkOrder::Heal | LinkOrder::Step(_) => LinkState::Open,
            };
            let before: Vec<LinkState> =
                stream.replicas.iter().map(|replica| stream.links.state(&replica.name())).collect();
            stream.links.set(name, state)?;
            let (mut changed, mut closed) = (0, Vec::new());
            for (replica, before) in stream.replicas.iter_mut().zip(before).filter(|(replica, _)| is_named(replica)) {
                changed += u64::from(before != state);
                match state {
                    LinkState::Open => {
                        let bytes = replica.pending.take(None).0;
                        replica.send(&Message::new(&bytes));
                    }
                    // What was held goes, too, as late as if it came now.
                    LinkState::Late(lag) => replica.pending.set_due(now.saturating_add(lag)),
                    LinkState::Cut => closed.push(Arc::clone(&replica.client)),
                    LinkState::Held => replica.pending.hold(),
                }
            }
            drop(stream);
            closed.iter().for_each(|client| self.kill(client));
            return Ok(changed);
        };
        let (mut sent, mut is_held) = (0, false);
        let links = std::mem::take(&mut stream.links);
        for replica in stream.replicas.iter_mut().filter(|replica| is_named(replica)) {
            if links.state(&replica.name()) == LinkState::Held {
                is_held = true;
                let (bytes, changes) = replica.pending.take(Some(most));
                replica.send(&Message::new(&bytes));
                sent = sent.max(changes);
            }
        }
        stream.links = links;
        if is_held { Ok(sent) } else { Err(CommandError::fixed("ERR no link is held; HOLD comes first")) }
    }

    /// Whether a test has cut this replica off.
    pub fn is_link_cut(&self, client: &Client, about: &ReplicaIntroduction) -> bool {
        let stream = self.stream();
        !stream.links.are_untouched() && stream.links.state(&name_of(client, about)) == LinkState::Cut
    }

    /// Whether a test has cut off the replica with this name.
    pub fn is_replica_cut(&self, name: &str) -> bool {
        self.stream().links.state(name) == LinkState::Cut
    }

    /// How the link to the replica with this name is treated.
    pub fn link_to_replica(&self, name: &str) -> LinkState {
        self.stream().links.state(name)
    }

    /// The links to replicas, and those that are cut.
    pub fn links(&self) -> Vec<LinkInfo> {
        let stream = self.stream();
        let mut links: Vec<LinkInfo> = (stream.replicas.iter())
            .map(|replica| {
                let name = replica.name();
                LinkInfo {
                    state: stream.links.state(&name),
                    replica: name,
                    held: replica.pending.changes(),
                    acknowledged: replica.acknowledged,
                    behind: stream.offset.saturating_sub(replica.acknowledged),
                }
            })
            .collect();
        let is_gone = |name: &&String| !links.iter().any(|link| link.replica == **name);
        let cut = stream.links.by_name.iter().filter(|(_, state)| **state == LinkState::Cut).map(|(name, _)| name);
        let gone: Vec<String> = cut.filter(is_gone).cloned().collect();
        links.extend(gone.into_iter().map(|replica| LinkInfo {
            replica,
            state: LinkState::Cut,
            held: 0,
            acknowledged: 0,
            behind: stream.offset,
        }));
        links
    }

    /// Sends what has been late for long enough.
    pub(super) fn send_what_is_due(stream: &mut Stream, now: Millis) {
        if stream.links.are_untouched() {
            return;
        }
        for replica in &mut stream.replicas {
            let bytes = replica.pending.take_due(now);
            if !bytes.is_empty() {
                replica.send(&Message::new(&bytes));
            }
        }
    }

    /// When the next thing that is late is due at a replica, or the time of a handover is over.
    pub fn next_link_deadline(&self) -> Option<Millis> {
        if !self.is_replicated() {
            return None;
        }
        let now = self.clock.millis();
        let stream = self.stream();
        let due = stream.replicas.iter().filter_map(|replica| replica.pending.next_due());
        due.chain(self.handover().and_then(|handover| handover.until)).filter(|due| *due > now).min()
    }

    /// Whether the link to the replica with this name, or that of all which holds most, holds so many changes: how many it
    /// holds. If it does not, `waker` is called when that may have changed.
    pub fn poll_held(&self, name: Option<&str>, wanted: usize, waker: &Waker) -> Poll<usize> {
        let mut stream = self.stream();
        let is_named = |replica: &&Replica| name.is_none_or(|name| replica.name() == name);
        let held = stream.replicas.iter().filter(is_named).map(|replica| replica.pending.changes()).max().unwrap_or(0);
        if held >= wanted {
            return Poll::Ready(held);
        }
        if !stream.watchers.iter().any(|known| known.will_wake(waker)) {
            // Who is gone leaves its waker behind until the next change. Whoever makes room asks again.
            if stream.watchers.len() >= MOST_WATCHERS {
                stream.watchers.remove(0).wake();
            }
            stream.watchers.push(waker.clone());
        }
        Poll::Pending
    }

    /// The changes that the link to each replica holds, by its name.
    pub fn held_links(&self) -> Vec<(String, Vec<Vec<u8>>)> {
        let stream = self.stream();
        let is_held = |replica: &&Replica| stream.links.state(&replica.name()) == LinkState::Held;
        let held = stream.replicas.iter().filter(is_held);
        held.map(|replica| {
            let changes = replica.pending.parts().filter(|(_, is_change)| *is_change);
            (replica.name(), changes.map(|(bytes, _)| bytes.to_vec()).collect())
        })
        .collect()
    }

    /// Heals all links.
    pub fn heal_links(&self) {
        // Only a name that is not known can be refused.
        let _ = self.order_link(LinkOrder::Heal, None);
    }
}
