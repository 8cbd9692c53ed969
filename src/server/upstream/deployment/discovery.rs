//! Asking the deployment who is there: at the start, in short periods, and whenever something does not fit.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use redis_protocol::resp2::types::OwnedFrame;

use super::cluster_view::nodes_of;
use super::sentinel_view::{id_of, master_of, replicas_of, sentinels_of};
use super::view::SeenNode;
use super::{DeploymentFront, Member};
use crate::base::clock::{Clock, Stopwatch};
use crate::base::error::Error;
use crate::clients::deployment::DeploymentKind;
use crate::powers::NodeRole;
use crate::server::upstream::Target;
use crate::server::upstream::control::ControlConnection;

/// Between two rounds, if nobody is in doubt.
const PERIOD: Duration = Duration::from_millis(500);
/// Between two rounds at least.
const PAUSE: Duration = Duration::from_millis(50);
/// The longest for one node.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long nobody is asked who has not answered, as long as others do.
const PUT_OFF: Duration = Duration::from_secs(10);
/// So many nodes are asked in a round if the views of the first ones are poor.
const MOST_ASKED: usize = 4;

/// What a round keeps for the next one.
#[derive(Default)]
struct Source {
    /// The connections to those who have answered, by address.
    connections: HashMap<String, ControlConnection>,
    /// Whose view was the best.
    preferred: String,
    /// Since when somebody has not answered at all.
    silent: HashMap<String, Stopwatch>,
}

/// What a node sees.
struct View {
    nodes: Vec<SeenNode>,
    /// The number of the configuration that a Sentinel has; 0 in a Cluster.
    epoch: u64,
}

impl View {
    /// The better of two views is the greater one: a newer configuration, or more masters that can be reached.
    fn quality(&self) -> (u64, usize) {
        let serves = |seen: &&SeenNode| seen.role == NodeRole::Master && seen.is_reachable;
        let masters = self.nodes.iter().filter(serves).map(|seen| 1 + usize::from(!seen.slots.is_empty())).sum();
        (self.epoch, masters)
    }
}

impl DeploymentFront {
    /// The first look, at every seed: each tells its own id, and one tells the others. The first port is that of the first
    /// seed that answers.
    pub(super) async fn look(self: &Arc<Self>, seeds: Vec<Target>) -> Result<(), Error> {
        let tasks: Vec<_> = seeds
            .into_iter()
            .map(|seed| {
                let front = Arc::clone(self);
                tokio::spawn(async move { (front.ask(&seed, &mut Source::default()).await, seed) })
            })
            .collect();
        let (mut answering, mut silent, mut views) = (Vec::new(), Vec::new(), Vec::new());
        for task in tasks {
            match task.await {
                Ok((Ok(view), seed)) => {
                    answering.push(seed);
                    views.push(view);
                }
                Ok((Err(reason), seed)) => {
                    self.log.warn(format!("Upstream: {reason}"));
                    silent.push(seed);
                }
                Err(_) => {}
            }
        }
        let members = self.add_seeds(answering)?;
        let mut views: Vec<_> = members.into_iter().zip(views).collect();
        for (seed, view) in &views {
            let myself: Vec<SeenNode> = view.nodes.iter().filter(|seen| seen.is_myself).cloned().collect();
            self.apply(seed, &myself);
        }
        // The best view last: it is what counts.
        views.sort_by_key(|(_, view)| view.quality());
        for (seed, view) in &mut views {
            // Nodes get their numbers in the order of their addresses.
            view.nodes.sort_by(|one, other| (&one.host, one.port).cmp(&(&other.host, other.port)));
            self.apply(seed, &view.nodes);
        }
        if views.is_empty() {
            self.is_lost.store(true, Ordering::Relaxed);
            self.log.warn("Upstream: no node answers; until one does, clients are closed or refused");
        }
        silent.retain(|seed| self.member_at(seed.host(), seed.port()).is_none());
        self.add_seeds(silent).map(drop)
    }

    /// Looks again and again, as long as the server runs.
    pub async fn keep_looking(self: Arc<Self>) {
        let mut source = Source::default();
        loop {
            let _ = Clock::within(PERIOD, self.doubt.notified()).await;
            self.round(&mut source).await;
            self.rounds.send_modify(|round| *round += 1);
            Clock::sleep(PAUSE).await;
        }
    }

    async fn round(&self, source: &mut Source) {
        let mut candidates: Vec<Arc<Member>> = self.all();
        candidates.retain(|member| member.is_sentinel() != self.is_cluster());
        // Whose view was the best, then those that are thought to be reachable.
        candidates.sort_by_key(|member| {
            let is_preferred = source.preferred == member.target().address();
            (!is_preferred, !member.node.info().is_reachable)
        });
        let addresses: Vec<String> = candidates.iter().map(|member| member.target().address()).collect();
        source.connections.retain(|address, _| addresses.contains(address));
        source.silent.retain(|address, since| addresses.contains(address) && since.elapsed() < PUT_OFF);
        // Each would cost a second.
        if source.silent.len() < candidates.len() {
            candidates.retain(|member| !source.silent.contains_key(&member.target().address()));
        }
        let is_alone = self.all().iter().filter(|member| !member.node.info().id.is_empty()).count() < 2;
        let mut best: Option<(Arc<Member>, View)> = None;
        let (mut answers, mut reasons) = (0, Vec::new());
        for member in candidates {
            match self.ask(&member.target(), source).await {
                Ok(view) => {
                    answers += 1;
                    let sees = |seen: &SeenNode| seen.is_reachable || seen.role != NodeRole::Master;
                    // A node that is cut off from the others sees them all as failed, and one that was reset sees none. Of
                    // Sentinels, each may be the one that has not heard of the last failover yet.
                    let is_whole =
                        self.is_cluster() && view.nodes.iter().all(sees) && (is_alone || view.nodes.len() > 1);
                    if best.as_ref().is_none_or(|(_, other)| view.quality() > other.quality()) {
                        best = Some((member, view));
                    }
                    if is_whole || answers >= MOST_ASKED {
                        break;
                    }
                }
                Err(reason) => reasons.push(reason),
            }
        }
        match best {
            Some((member, view)) => {
                if self.is_lost.swap(false, Ordering::Relaxed) {
                    self.log.notice(format!("Upstream: {} tells again who the nodes are", member.target().address()));
                }
                source.preferred = member.target().address();
                self.apply(&member, &view.nodes);
            }
            // Said once, however long it lasts.
            None if !self.is_lost.swap(true, Ordering::Relaxed) => {
                let reason = reasons.first().map_or("there is nobody to ask", String::as_str);
                self.log.warn(format!("Upstream: nobody tells who the nodes are: {reason}"));
            }
            None => {}
        }
    }

    /// What one node sees. The error says who was asked, and what is wrong.
    async fn ask(&self, target: &Target, source: &mut Source) -> Result<View, String> {
        let address = target.address();
        let kept = source.connections.remove(&address);
        let asking = async {
            let mut connection = match kept {
                Some(connection) => connection,
                None => ControlConnection::open(target).await?,
            };
            let view = match &self.deployment.kind {
                DeploymentKind::Cluster => View { nodes: ask_cluster(&mut connection).await?, epoch: 0 },
                DeploymentKind::Sentinel { service } => ask_sentinel(&mut connection, service).await?,
            };
            Ok((view, connection))
        };
        match Clock::within(PATIENCE.min(self.timeout), asking).await {
            Some(Ok((view, connection))) => {
                source.connections.insert(address, connection);
                Ok(view)
            }
            Some(Err(reason)) => Err(reason_of(&address, reason)),
            None => {
                source.silent.insert(address.clone(), Stopwatch::start());
                Err(format!("{address} does not answer"))
            }
        }
    }
}

async fn ask_sentinel(connection: &mut ControlConnection, service: &str) -> Result<View, String> {
    let service = service.as_bytes();
    let unknown = |reason: String| match reason.contains("No such master") {
        true => format!("the Sentinel knows no master '{}'", String::from_utf8_lossy(service)),
        false => reason,
    };
    let master = connection.run(&[b"SENTINEL", b"MASTER", service]).await.map_err(unknown)?;
    let (master, epoch) = master_of(&master).ok_or("SENTINEL MASTER was answered with something else")?;
    let replicas = connection.run(&[b"SENTINEL", b"SLAVES", service]).await?;
    let sentinels = connection.run(&[b"SENTINEL", b"SENTINELS", service]).await?;
    let id = connection.run(&[b"SENTINEL", b"MYID"]).await;
    let myself = SeenNode {
        id: id.map(|id| id_of(&id)).unwrap_or_default(),
        host: String::new(),
        port: 0,
        hostname: None,
        role: NodeRole::Sentinel,
        master: None,
        slots: Vec::new(),
        is_reachable: true,
        is_myself: true,
    };
    let mut view = vec![myself];
    view.extend(sentinels_of(&sentinels));
    let (host, port) = (master.host.clone(), master.port);
    view.push(master);
    view.extend(replicas_of(&replicas).into_iter().filter(|seen| (&seen.host, seen.port) != (&host, port)));
    Ok(View { nodes: view, epoch })
}

async fn ask_cluster(connection: &mut ControlConnection) -> Result<Vec<SeenNode>, String> {
    match connection.run(&[b"CLUSTER", b"NODES"]).await? {
        OwnedFrame::BulkString(text) => Ok(nodes_of(&String::from_utf8_lossy(&text))),
        _ => Err("CLUSTER NODES was answered with something else".to_owned()),
    }
}

fn reason_of(address: &str, reason: String) -> String {
    if reason.contains(address) { reason } else { format!("{address}: {reason}") }
}
