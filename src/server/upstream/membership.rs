//! A client's connection to one node of a deployment: the addresses in what passes.

use std::cell::Cell;
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Context;

use super::Target;
use super::connection::{ProxyConnection, Scratch};
use super::deployment::{ConnectionBook, DeploymentFront, Member};
use crate::clients::session::Peer;
use crate::engine::addresses::{
    AddressKind, rewrite_elements, rewrite_errors, rewrite_message, rewrite_reply, rewrite_request,
};
use crate::engine::{Follows, Waiting, is_error};
use crate::protocol::{OwnedWords, Words};
use crate::server::node::Node;
use crate::spec::Flag;

/// Where a client's commands go.
pub(in crate::server) struct Destination {
    pub target: Arc<Target>,
    pub membership: Option<Box<Membership>>,
}

impl Destination {
    /// The server behind an instance, or the node behind a port; `None` without an upstream.
    pub fn of(node: &Arc<Node>, member: Option<&Arc<Member>>, peer: &Peer, is_tls: bool) -> Option<Self> {
        let Some(front) = node.deployment() else {
            return Some(Self { target: Arc::clone(node.upstream()?), membership: None });
        };
        let member = Arc::clone(member?);
        let reached = match peer {
            Peer::Tcp { local, .. } => Some(local.ip()),
            Peer::Unix { .. } => None,
        };
        let target = member.target();
        let membership = Membership { front: Arc::clone(front), member, reached, is_tls, shown: None };
        Some(Self { target, membership: Some(Box::new(membership)) })
    }
}

/// The node that a client is connected to.
pub(in crate::server) struct Membership {
    pub front: Arc<DeploymentFront>,
    pub member: Arc<Member>,
    /// The address at which the client has reached this server, unless by a unix socket.
    reached: Option<IpAddr>,
    is_tls: bool,
    /// This side's address of the connection to the node, under which the node shows the client.
    shown: Option<String>,
}

impl Membership {
    /// The addresses for what this client sends and gets. `is_named`: the deployment itself has written what it gets.
    fn book(&self, is_named: bool) -> ConnectionBook<'_> {
        let (front, member) = (&*self.front, &self.member);
        let has_missed = Cell::new(false);
        ConnectionBook { front, member, reached: self.reached, is_tls: self.is_tls, is_named, has_missed }
    }

    /// Notes that the connection to the node is there.
    pub fn connected(&mut self, from: Option<SocketAddr>, peer: &Peer) {
        let Some(shown) = from.map(|from| from.to_string()) else { return };
        self.front.note_connection(self.member.node.number, shown.clone(), peer.address(), peer.local_address());
        self.shown = Some(shown);
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        if let Some(shown) = self.shown.take() {
            self.front.forget_connection(self.member.node.number, shown);
        }
    }
}

impl ProxyConnection {
    /// A replica that takes a write is master now, before discovery knows: the journal has the promotion in front of what the
    /// new master did. The first command has its reply.
    pub(super) fn note_promotion(&mut self, reply: &[u8]) {
        let Some(membership) = self.membership.as_ref().filter(|place| place.member.node.is_replica()) else { return };
        let Some(Waiting::Command(command)) = self.passed.front_mut() else { return };
        let is_write = command.row.is_some_and(|row| row.spec.has_flag(Flag::Write));
        if is_write && !is_error(reply) && !reply.is_empty() && !reply.starts_with(b"+QUEUED") {
            membership.front.note_promotion(&membership.member);
        }
    }

    /// The same request with the real addresses of nodes, if it names local ones.
    pub(super) fn with_real_addresses(&self, words: Words<'_>) -> Option<OwnedWords> {
        rewrite_request(words, &self.membership.as_ref()?.book(false))
    }

    /// Whether the next reply may have addresses of nodes: it begins with this byte.
    pub(super) fn may_have_addresses(&mut self, first: u8) -> bool {
        let Some(membership) = &self.membership else { return false };
        if matches!(first, b'-' | b'!') {
            return true;
        }
        let is_sentinel = membership.member.is_sentinel() || self.front_has_sentinels();
        if is_sentinel && (self.state.hears_messages() || first == b'>') {
            return true;
        }
        match self.passed.front_mut() {
            Some(Waiting::Command(command)) => {
                matches!(command.follows, Follows::Addresses(_) | Follows::Exec | Follows::Script)
            }
            _ => false,
        }
    }

    fn front_has_sentinels(&self) -> bool {
        self.membership.as_ref().is_some_and(|membership| membership.front.has_sentinels())
    }

    /// A whole reply with local addresses.
    pub(super) fn with_local_addresses(&mut self, reply: &[u8]) -> Rewritten {
        let Some(membership) = self.membership.take() else { return Rewritten::Unchanged };
        let rewritten = self.rewritten(&membership, reply);
        if let Rewritten::Unknown = rewritten {
            let look = Arc::clone(&membership.front).next_look();
            self.awaited_look = Some(Box::new(AwaitedLook { reply: reply.to_vec(), look: Box::pin(look) }));
        }
        self.membership = Some(membership);
        rewritten
    }

    fn rewritten(&mut self, membership: &Membership, reply: &[u8]) -> Rewritten {
        let follows = match self.passed.front_mut() {
            Some(Waiting::Command(command)) => command.follows,
            _ => Follows::Nothing,
        };
        let is_named = match follows {
            // In ROLE and INFO a client can be shown as a replica at any address.
            Follows::Addresses(kind) => membership.member.is_sentinel() || kind.is_topology(),
            _ => false,
        };
        let book = membership.book(is_named && !is_error(reply));
        let rewritten = if is_error(reply) {
            let rewritten = rewrite_errors(reply, &book);
            if rewritten.is_some() {
                // A client was sent elsewhere: slots may have moved.
                membership.front.doubt();
            }
            rewritten
        } else {
            match follows {
                Follows::Addresses(kind) => rewrite_reply(kind, reply, &book),
                Follows::Exec => {
                    let queue = self.session.queued();
                    let table = &self.engine.table;
                    let kind = |name: String| AddressKind::of(&name.to_ascii_lowercase());
                    let kinds: Vec<_> = queue.map(|queued| kind(table.full_name(queued.row.spec))).collect();
                    rewrite_elements(reply, &kinds, &book)
                }
                Follows::Script => rewrite_errors(reply, &book),
                _ => None,
            }
        };
        let has_looked = std::mem::take(&mut self.has_looked);
        match rewritten {
            // Nobody is sent anywhere by ROLE or INFO.
            Some(_) if book.has_missed.get() && !has_looked && !matches!(follows, Follows::Addresses(_)) => {
                Rewritten::Unknown
            }
            Some(bytes) => Rewritten::Changed(bytes),
            None => Rewritten::Unchanged,
        }
    }

    /// Goes on with a reply that names a node which was unknown, now that the deployment was asked.
    pub(super) fn poll_look(&mut self, cx: &mut Context<'_>, scratch: &mut Scratch) {
        let Some(awaited) = &mut self.awaited_look else { return };
        if awaited.look.as_mut().poll(cx).is_pending() {
            return;
        }
        let Some(awaited) = self.awaited_look.take() else { return };
        let mut arrived = awaited.reply;
        arrived.append(&mut self.unheard);
        self.has_looked = true;
        self.hear(&arrived, scratch);
        self.run_held(scratch);
    }

    /// A message with local addresses; `None` if it has none.
    pub(super) fn message_with_local_addresses(&self, message: &[u8]) -> Option<Vec<u8>> {
        let membership = self.membership.as_ref()?;
        // Whoever may publish on a data node can make up what the Sentinels say there.
        let rewritten = rewrite_message(message, &membership.book(membership.member.is_sentinel()));
        if rewritten.is_some() {
            membership.front.doubt();
        }
        rewritten
    }
}

/// What has become of a reply.
pub(super) enum Rewritten {
    Unchanged,
    Changed(Vec<u8>),
    /// It names a node that is unknown. It waits until the deployment was asked.
    Unknown,
}

/// A reply that waits until the deployment was asked who is there.
pub(super) struct AwaitedLook {
    pub(super) reply: Vec<u8>,
    look: Pin<Box<dyn Future<Output = ()> + Send>>,
}
