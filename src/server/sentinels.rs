//! The Sentinels of a process: their ports, and what they need of the instances.

use std::future::{Future, poll_fn};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::sync::{Arc, Mutex, Weak};
use std::task::Poll;

use tokio::runtime::Handle;
use tokio::sync::Notify;

use super::bind::bind_tcp;
use super::bound_address::BoundAddress;
use super::failover::NOBODY;
use super::instance_control::settled;
use super::node::Node;
use super::nodes::Nodes;
use super::worker::Workers;
use crate::base::clock::{Alarm, Millis};
use crate::base::error::{CommandError, Error};
use crate::base::sync::MutexExt;
use crate::clients::fleet::{Completion, FailoverOrder, ReplicationGroup};
use crate::clients::pubsub::SubscriptionKind;
use crate::clients::sentinel::{Sentinels, Surroundings};
use crate::commands::{self, Handlers};
use crate::engine::Engine;
use crate::spec::{Group, Table};

/// The Sentinels of a process, each with its port.
pub(super) struct SentinelPorts {
    all: Arc<Sentinels>,
    nodes: Vec<Arc<Node>>,
    /// When something is to be done if nothing happens until then.
    alarm: Mutex<Option<(Millis, Arc<Alarm>)>>,
    /// The alarm is another one.
    bell: Notify,
}

impl SentinelPorts {
    pub(super) fn new(all: Arc<Sentinels>, nodes: Vec<Arc<Node>>) -> Self {
        Self { all, nodes, alarm: Mutex::default(), bell: Notify::new() }
    }

    pub(super) fn nodes(&self) -> &[Arc<Node>] {
        &self.nodes
    }

    fn reachable_addresses(&self) -> Vec<(IpAddr, u16)> {
        self.addresses().iter().map(|address| (reachable(*address), address.port())).collect()
    }

    /// Where clients find them.
    pub(super) fn addresses(&self) -> Vec<SocketAddr> {
        self.nodes.iter().filter_map(|node| node.main_address()).collect()
    }
}

impl Nodes {
    /// Has the Sentinels monitor the masters that there are.
    pub(super) fn begin_monitoring(self: &Arc<Self>) {
        let Some(sentinels) = self.sentinels() else { return };
        let surroundings: Weak<dyn Surroundings> = Arc::<Self>::downgrade(self);
        sentinels.all.begin(surroundings, &sentinels.reachable_addresses(), self.down_after());
    }

    fn down_after(&self) -> Millis {
        self.first().map_or(0, |first| first.instance().config.number("sentinel-down-after-milliseconds"))
    }

    /// The first instance was reset: the Sentinels are as they were at the start.
    pub(super) fn reset_sentinels(&self) {
        let Some(sentinels) = self.sentinels() else { return };
        for node in &sentinels.nodes {
            node.instance().clear_faults();
            node.instance().clear_gates();
            node.instance().reset_settings();
            if !node.is_serving()
                && let Err(error) = node.start(false)
            {
                node.instance().log.warn(format!("A Sentinel cannot be started again: {error}"));
            }
        }
        sentinels.all.restore(&sentinels.reachable_addresses(), self.down_after());
    }

    /// Lets the Sentinels see that an instance is in another state, or has another part.
    pub(super) fn tell_sentinels(&self) {
        if let Some(sentinels) = self.sentinels() {
            sentinels.all.refresh();
        }
    }

    /// Does what is due at the deadlines of the Sentinels. Never returns.
    pub(super) async fn watch_as_sentinels(self: Arc<Self>) {
        let Some(sentinels) = self.sentinels() else { return };
        loop {
            let due = sentinels.next_alarm().await;
            if due.is_early() {
                // A reset ends all waits. What is to be waited for after that is known then.
                continue;
            }
            sentinels.all.refresh();
            for completion in sentinels.all.take_completions() {
                // It fails only while the process ends.
                let _ = completion.await;
            }
            // Whoever moves the clock is answered after that.
            drop(due);
        }
    }
}

impl SentinelPorts {
    /// Waits until the alarm rings, whichever it is then.
    async fn next_alarm(&self) -> Arc<Alarm> {
        loop {
            let mut changed = pin!(self.bell.notified());
            let rung = poll_fn(|cx| {
                let mut alarm = self.alarm.lock_ignoring_poison();
                if let Some((_, rung)) = alarm.take_if(|(_, alarm)| alarm.has_rung(cx.waker())) {
                    return Poll::Ready(Some(rung));
                }
                drop(alarm);
                changed.as_mut().poll(cx).map(|()| None)
            });
            if let Some(rung) = rung.await {
                return rung;
            }
        }
    }
}

impl Surroundings for Nodes {
    fn now(&self) -> Millis {
        self.first().map_or(0, |first| first.instance().clock.millis())
    }

    fn groups(&self) -> Vec<ReplicationGroup> {
        self.replication_groups()
    }

    fn host(&self) -> IpAddr {
        let address = self.first().and_then(|first| first.main_address());
        address.map_or(Ipv4Addr::LOCALHOST.into(), reachable)
    }

    fn cuts(&self) -> Vec<(usize, Vec<Vec<u8>>)> {
        self.all().iter().map(|node| (node.number(), node.cuts())).collect()
    }

    fn promote(&self, master: usize, replica: usize) -> Result<Completion, CommandError> {
        let order = FailoverOrder { to: Some(replica), closes_clients: true, ..FailoverOrder::default() };
        let (_, worlds) = self.fail_over(master, order, NOBODY)?;
        // A deadline of the Sentinels' clock can be the reason, and whoever has moved that clock waits for its worlds itself.
        let by_other_clock = |world: &Arc<Engine>| {
            self.first().is_none_or(|first| !Arc::ptr_eq(&world.instance.clock, &first.instance().clock))
        };
        Ok(settled(worlds.into_iter().filter(by_other_clock).collect()))
    }

    fn publish(&self, sentinel: usize, channel: &str, payload: &str) {
        let node = self.sentinels().and_then(|sentinels| sentinels.nodes.get(sentinel));
        let Some(instance) = node.map(|node| node.instance()) else { return };
        if instance.publish(SubscriptionKind::Channel, channel.as_bytes(), payload.as_bytes(), None) > 0 {
            // Whoever moves the clock is answered when they are written.
            for client in instance.clients.all() {
                client.hold_until_signals_end(|| instance.clock.rung_alarm());
            }
        }
    }

    fn stop(&self, sentinel: usize) {
        if let Some(node) = self.sentinels().and_then(|sentinels| sentinels.nodes.get(sentinel)) {
            // It fails if it is stopped already.
            let _ = node.stop(None);
        }
    }

    fn wake_at(&self, deadline: Option<Millis>) {
        let (Some(sentinels), Some(first)) = (self.sentinels(), self.first()) else { return };
        let mut alarm = sentinels.alarm.lock_ignoring_poison();
        if alarm.as_ref().map(|(deadline, _)| *deadline) != deadline {
            *alarm = deadline.map(|deadline| (deadline, Arc::new(first.instance().clock.alarm(deadline))));
            drop(alarm);
            sentinels.bell.notify_one();
        }
    }
}

/// The address at which a server is reached that may listen on all.
fn reachable(address: SocketAddr) -> IpAddr {
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => std::net::Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    }
}

/// How far the ports of Sentinels are above those of the instances: 26379 is above 6379.
const ABOVE: u16 = 20_000;

/// The most Sentinels of a process.
pub(super) const MOST_SENTINELS: usize = 9;

/// How Sentinels listen.
pub(super) struct Listening<'a> {
    /// The addresses of the `bind` setting.
    pub hosts: &'a [String],
    /// The port of the first instance, if it was asked for.
    pub port: Option<u16>,
    /// Each of their connections begins with a handshake, as those of the instances do.
    pub with_tls: bool,
    pub backlog: i32,
}

/// Opens the ports of the Sentinels beside an instance, if there are to be any. No connection is served yet.
pub(super) fn open_sentinels(
    first: &Arc<Node>,
    instances: usize,
    listening: &Listening<'_>,
    workers: &Arc<Workers>,
    main: &Handle,
) -> Result<Option<SentinelPorts>, Error> {
    let (beside, owner) = (first.instance(), first.root());
    let (config, backlog) = (&beside.config, listening.backlog);
    let count: u16 = config.number("sentinels");
    if count == 0 {
        return Ok(None);
    }
    let is_controlled = config.is_on("control");
    let rows = commands::rows_of_sentinel().into_iter();
    let table = Table::new(rows.filter(|row| is_controlled || row.spec.group != Group::Control), beside.profile);
    let handlers = Handlers::new(commands::of_sentinel());
    let beside_asked = || listening.port.filter(|port| *port != 0).and_then(|port| port.checked_add(ABOVE));
    let first_port = Some(config.number("sentinel-port")).filter(|port| *port != 0).or_else(beside_asked).unwrap_or(0);
    let all = Arc::<Sentinels>::default();
    let mut nodes = Vec::new();
    for place in 0..count {
        let number = instances + 1 + usize::from(place);
        let instance = beside.new_sentinel(all.add(), u16::try_from(number).unwrap_or(u16::MAX), &table);
        let port = match first_port {
            0 => 0,
            first_port => first_port
                .checked_add(place)
                .ok_or_else(|| Error::Config(format!("there are no {count} ports in a row from {first_port} on")))?,
        };
        if listening.with_tls {
            let refused = |reason| Error::Config(format!("Failed to configure TLS: {reason}"));
            instance.config.start_tls().map_err(refused)?;
        }
        let mut bound = Vec::new();
        for listener in bind_tcp(listening.hosts, port, backlog, &instance.log)? {
            bound.push(BoundAddress::tcp(listener, backlog, listening.with_tls)?);
        }
        let port = bound.iter().find_map(|bound| bound.plain_address().or(bound.tls_address()));
        let port = port.map_or(0, |address| address.port());
        let (plain, tls) = if listening.with_tls { (0, port) } else { (port, 0) };
        instance.config.assign("port", plain.to_string());
        instance.config.assign("tls-port", tls.to_string());
        let _ = instance.identity.port.set(port);
        let engine = Engine::with_handlers(Arc::new(instance), table.clone(), handlers.clone()).by_clock_of(owner);
        nodes.push(Node::new(number, engine, None, None, bound, workers, main));
    }
    Ok(Some(SentinelPorts::new(all, nodes)))
}
