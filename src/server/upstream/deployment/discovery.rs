//! Asking the deployment who is there: at the start, in short periods, and whenever something does not fit.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use redis_protocol::resp2::types::OwnedFrame;

use super::cluster_view::nodes_of;
use super::sentinel_view::{id_of, master_of, replicas_of, sentinels_of};
use super::view::SeenNode;
use super::{DeploymentFront, Member};
use crate::base::clock::Clock;
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
/// So many nodes are asked in a round if the views of the first ones are poor.
const MOST_ASKED: usize = 4;

/// A connection on which the last round got its answer.
#[derive(Default)]
struct Source {
    kept: Option<(String, ControlConnection)>,
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
            let myself: Vec<SeenNode> = view.iter().filter(|seen| seen.is_myself).cloned().collect();
            self.apply(seed, &myself);
        }
        // The best view last: it is what counts.
        views.sort_by_key(|(_, view)| reachable_masters(view));
        for (seed, view) in &mut views {
            // Nodes get their numbers in the order of their addresses.
            view.sort_by(|one, other| (&one.host, one.port).cmp(&(&other.host, other.port)));
            self.apply(seed, view);
        }
        if views.is_empty() {
            self.is_lost.store(true, Ordering::Relaxed);
            self.log.warn("Upstream: no node answers; until one does, clients are closed at once");
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
        // Whoever has answered last, then those that are thought to be reachable.
        candidates.sort_by_key(|member| {
            let is_kept = source.kept.as_ref().is_some_and(|(kept, _)| *kept == member.target().address());
            (!is_kept, !member.node.info().is_reachable)
        });
        let mut best: Option<(Arc<Member>, Vec<SeenNode>)> = None;
        let (mut answers, mut reasons) = (0, Vec::new());
        for member in candidates {
            match self.ask(&member.target(), source).await {
                Ok(view) => {
                    answers += 1;
                    let is_whole = view.iter().all(|seen| seen.is_reachable || seen.role != NodeRole::Master);
                    if best.as_ref().is_none_or(|(_, other)| reachable_masters(&view) > reachable_masters(other)) {
                        best = Some((member, view));
                    }
                    // A node that is cut off from the others sees them all as failed.
                    if is_whole || answers >= MOST_ASKED {
                        break;
                    }
                }
                Err(reason) => {
                    source.kept = None;
                    reasons.push(reason);
                }
            }
        }
        match best {
            Some((member, view)) => {
                if self.is_lost.swap(false, Ordering::Relaxed) {
                    self.log.notice(format!("Upstream: {} tells again who the nodes are", member.target().address()));
                }
                self.apply(&member, &view);
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
    async fn ask(&self, target: &Target, source: &mut Source) -> Result<Vec<SeenNode>, String> {
        let address = target.address();
        let asking = async {
            let kept = source.kept.take().filter(|(kept, _)| *kept == address);
            let mut connection = match kept {
                Some((_, connection)) => connection,
                None => ControlConnection::open(target).await?,
            };
            let view = match &self.deployment.kind {
                DeploymentKind::Cluster => ask_cluster(&mut connection).await?,
                DeploymentKind::Sentinel { service } => self.ask_sentinel(&mut connection, service).await?,
            };
            source.kept = Some((address.clone(), connection));
            Ok(view)
        };
        match Clock::within(PATIENCE.min(self.timeout), asking).await {
            Some(Ok(view)) => Ok(view),
            Some(Err(reason)) => Err(reason_of(&address, reason)),
            None => Err(format!("{address} does not answer")),
        }
    }

    async fn ask_sentinel(&self, connection: &mut ControlConnection, service: &str) -> Result<Vec<SeenNode>, String> {
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
        // A Sentinel that has not heard of the last failover yet tells the former master.
        if self.is_new_epoch(epoch) {
            let (host, port) = (master.host.clone(), master.port);
            view.push(master);
            view.extend(replicas_of(&replicas).into_iter().filter(|seen| (&seen.host, seen.port) != (&host, port)));
        }
        Ok(view)
    }
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

fn reachable_masters(view: &[SeenNode]) -> usize {
    let serves = |seen: &&SeenNode| seen.role == NodeRole::Master && seen.is_reachable;
    view.iter().filter(serves).map(|seen| 1 + usize::from(!seen.slots.is_empty())).sum()
}
