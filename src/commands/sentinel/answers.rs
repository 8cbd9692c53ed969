//! What SENTINEL and INFO show of masters, replicas and Sentinels: fields of text, in Redis's order.

use super::{found, seat};
use crate::base::error::CommandError;
use crate::clients::fleet::InstanceState;
use crate::clients::sentinel::{Desk, Member, Monitored, Replica, Role, Scene, Sentinel};
use crate::commands::{Call, CommandResult};
use crate::protocol::Reply;
use crate::spec::Args;

/// Fields of one server, in the order of the reply.
struct Entry(Vec<(Reply<'static>, Reply<'static>)>);

impl Entry {
    fn add(&mut self, name: &'static str, value: impl ToString) {
        self.0.push((Reply::text(name), Reply::text(value.to_string())));
    }

    /// What every server has first.
    fn begin(name: &str, host: &str, port: u16, run_id: &str, flags: &[&str], connection: &Connection) -> Self {
        let mut entry = Self(Vec::with_capacity(24));
        entry.add("name", name);
        entry.add("ip", host);
        entry.add("port", port);
        entry.add("runid", run_id);
        entry.add("flags", flags.join(","));
        entry.add("link-pending-commands", connection.pending);
        entry.add("link-refcount", connection.shared);
        entry.add("last-ping-sent", connection.silent);
        entry.add("last-ok-ping-reply", connection.silent);
        entry.add("last-ping-reply", connection.silent);
        entry
    }

    fn reply(self) -> Reply<'static> {
        Reply::Map(self.0)
    }
}

/// The link from a Sentinel to a server.
struct Connection {
    pending: usize,
    shared: usize,
    /// For how many milliseconds nothing was answered.
    silent: i64,
}

pub(super) fn masters(desk: &mut Desk<'_>) -> CommandResult<'static> {
    let (scene, sentinel) = (desk.scene(), desk.sentinel());
    Ok(Reply::Array(sentinel.masters.values().map(|master| describe_master(sentinel, master, &scene)).collect()))
}

pub(super) fn master(desk: &mut Desk<'_>, name: &[u8]) -> CommandResult<'static> {
    found(desk, name)?;
    let (scene, sentinel) = (desk.scene(), desk.sentinel());
    Ok(sentinel.masters.get(name).map_or(Reply::Null, |master| describe_master(sentinel, master, &scene)))
}

pub(super) fn replicas(desk: &mut Desk<'_>, name: &[u8]) -> CommandResult<'static> {
    found(desk, name)?;
    let (scene, sentinel) = (desk.scene(), desk.sentinel());
    let master = sentinel.masters.get(name);
    let describe = |master: &Monitored| {
        let replicas = master.replicas.values();
        replicas.map(|replica| describe_replica(sentinel, master, replica, &scene)).collect()
    };
    Ok(Reply::Array(master.map_or_else(Vec::new, describe)))
}

pub(super) fn sentinels(desk: &mut Desk<'_>, name: &[u8]) -> CommandResult<'static> {
    found(desk, name)?;
    let (now, place) = (desk.now(), desk.sentinel().place);
    let Some(sentinel) = desk.all().get(place) else { return Ok(Reply::Array(Vec::new())) };
    let Some(master) = sentinel.masters.get(name) else { return Ok(Reply::Array(Vec::new())) };
    let known = desk.all().iter().filter(|other| master.known_peers.contains(&other.place));
    Ok(Reply::Array(known.map(|other| describe_peer(sentinel, master, other, now)).collect()))
}

/// The numbers of a link to an instance; `None` is one outside of the process.
fn connection(sentinel: &Sentinel, number: Option<usize>, since: i64, now: i64) -> (Connection, bool) {
    let silent_since = number.map_or(Some(since), |number| sentinel.silent_since(number));
    let silent = silent_since.map_or(0, |since| now.saturating_sub(since).max(0));
    let is_connected = number.is_some_and(|number| sentinel.is_connected(number));
    (Connection { pending: usize::from(is_connected && silent_since.is_some()), shared: 1, silent }, is_connected)
}

fn describe_master(sentinel: &Sentinel, master: &Monitored, scene: &Scene) -> Reply<'static> {
    let (now, address) = (scene.now, &master.address);
    let (connection, is_connected) = connection(sentinel, master.number, master.since, now);
    let run_id = master.number.and_then(|number| scene.member(number)).map_or("", |member| &member.run_id);
    let flags = flags(&[
        (master.down_since.is_some(), "s_down"),
        (master.objectively_down_since.is_some(), "o_down"),
        (true, "master"),
        (!is_connected, "disconnected"),
    ]);
    let host = sentinel.naming().host_of(address);
    let mut entry = Entry::begin(&master.label(), host, address.port, run_id, &flags, &connection);
    add_down_times(
        &mut entry,
        &[("s-down-time", master.down_since), ("o-down-time", master.objectively_down_since)],
        now,
    );
    entry.add("down-after-milliseconds", master.down_after);
    // One that was never reached has told nothing.
    entry.add("info-refresh", if master.number.is_some() { connection.silent } else { 0 });
    entry.add("role-reported", "master");
    entry.add("role-reported-time", now.saturating_sub(master.since));
    entry.add("config-epoch", master.config_epoch);
    entry.add("num-slaves", master.replicas.len());
    entry.add("num-other-sentinels", master.known_peers.len());
    entry.add("quorum", master.quorum);
    entry.add("failover-timeout", master.failover_timeout);
    entry.add("parallel-syncs", master.parallel_syncs);
    entry.reply()
}

fn describe_replica(sentinel: &Sentinel, master: &Monitored, replica: &Replica, scene: &Scene) -> Reply<'static> {
    let (now, address, naming) = (scene.now, &replica.address, sentinel.naming());
    let (connection, is_connected) = connection(sentinel, Some(replica.number), replica.since, now);
    let flags = flags(&[(replica.down_since.is_some(), "s_down"), (true, "slave"), (!is_connected, "disconnected")]);
    let member = scene.member(replica.number);
    let run_id = member.map_or("", |member| &member.run_id);
    let host = naming.host_of(address);
    let mut entry = Entry::begin(&address.with_port(), host, address.port, run_id, &flags, &connection);
    add_down_times(&mut entry, &[("s-down-time", replica.down_since)], now);
    entry.add("down-after-milliseconds", master.down_after);
    entry.add("info-refresh", connection.silent);
    entry.add("role-reported", replica.reported.name());
    entry.add("role-reported-time", now.saturating_sub(replica.reported_since));
    let is_linked = member.is_some_and(|member| member.is_linked);
    entry.add("master-link-down-time", 0);
    entry.add("master-link-status", if is_linked { "ok" } else { "err" });
    let followed = member.and_then(|member| member.master.as_ref());
    entry.add("master-host", followed.map_or("?", |at| naming.host_of(at)));
    entry.add("master-port", followed.map_or(0, |at| at.port));
    entry.add("slave-priority", member.map_or(100, |member| member.priority));
    entry.add("slave-repl-offset", member.map_or(0, |member| member.offset));
    entry.add("replica-announced", 1);
    entry.reply()
}

fn describe_peer(sentinel: &Sentinel, master: &Monitored, other: &Sentinel, now: i64) -> Reply<'static> {
    let address = other.announced();
    let silent = other.stopped_since.map_or(0, |since| now.saturating_sub(since).max(0));
    let down_since = master.peers.get(&other.place).and_then(|peer| peer.down_since);
    // Asked only while the master is down.
    let theirs = other.masters.values().find(|own| own.address.is_same(&master.address));
    let says_down = master.down_since.is_some() && theirs.is_some_and(|own| own.down_since.is_some());
    let flags = flags(&[
        (down_since.is_some(), "s_down"),
        (true, "sentinel"),
        (says_down, "master_down"),
        (!other.is_serving(), "disconnected"),
    ]);
    let shared = sentinel.masters.values().filter(|master| master.known_peers.contains(&other.place)).count();
    let connection = Connection { pending: 0, shared, silent };
    let host = sentinel.naming().host_of(&address);
    let mut entry = Entry::begin(&other.id, host, address.port, &other.id, &flags, &connection);
    add_down_times(&mut entry, &[("s-down-time", down_since)], now);
    entry.add("down-after-milliseconds", master.down_after);
    entry.add("last-hello-message", silent);
    let vote = theirs.and_then(|own| own.vote.as_ref()).filter(|_| master.down_since.is_some());
    entry.add("voted-leader", vote.map_or("?", |(leader, _)| leader));
    entry.add("voted-leader-epoch", vote.map_or(0, |(_, epoch)| *epoch));
    entry.reply()
}

fn flags(all: &[(bool, &'static str)]) -> Vec<&'static str> {
    all.iter().filter(|(is_set, _)| *is_set).map(|(_, name)| *name).collect()
}

fn add_down_times(entry: &mut Entry, times: &[(&'static str, Option<i64>)], now: i64) {
    for (name, since) in times {
        if let Some(since) = since {
            entry.add(name, now.saturating_sub(*since));
        }
    }
}

// ---- INFO

/// The lines of INFO about the masters.
pub(in crate::commands) fn info_lines(call: &Call<'_>) -> Result<Vec<(String, String)>, CommandError> {
    seat(call)?.with(|desk| {
        let sentinel = desk.sentinel();
        let naming = sentinel.naming();
        let mut lines: Vec<_> = [
            ("sentinel_masters", sentinel.masters.len() as i64),
            ("sentinel_tilt", 0),
            ("sentinel_tilt_since_seconds", -1),
            ("sentinel_running_scripts", 0),
            ("sentinel_scripts_queue_length", 0),
            ("sentinel_simulate_failure_flags", 0),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value.to_string()))
        .collect();
        for (place, master) in sentinel.masters.values().enumerate() {
            let status = match (master.objectively_down_since, master.down_since) {
                (Some(_), _) => "odown",
                (None, Some(_)) => "sdown",
                (None, None) => "ok",
            };
            let (host, port) = (naming.host_of(&master.address), master.address.port);
            let (name, replicas, sentinels) = (master.label(), master.replicas.len(), master.sentinels());
            lines.push((
                format!("master{place}"),
                format!("name={name},status={status},address={host}:{port},slaves={replicas},sentinels={sentinels}"),
            ));
        }
        Ok(lines)
    })
}

/// The names of masters, each with what is known of it and of its replicas: for how long it was not heard of, and the fields
/// of INFO that Sentinels read.
pub(super) fn info_cache(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let names = args.rest();
    seat(call)?.with(|desk| {
        let scene = desk.scene();
        let sentinel = desk.sentinel();
        let mut reply = Vec::new();
        for master in sentinel.masters.values().filter(|master| names.iter().any(|name| *name == *master.name)) {
            let numbers = master.number.into_iter().chain(master.replicas.keys().copied());
            let cached = |number: usize| {
                let member = scene.member(number)?;
                let silent = sentinel.silent_since(number).map_or(0, |since| scene.now.saturating_sub(since));
                Some(Reply::Array(vec![Reply::Integer(silent), Reply::text(info_of(member))]))
            };
            reply.push(Reply::bulk(master.name.clone()));
            reply.push(Reply::Array(numbers.filter_map(cached).collect()));
        }
        Ok(Reply::Array(reply))
    })
}

fn info_of(member: &Member) -> String {
    let Member { run_id, address, role, offset, .. } = member;
    let state = if member.state == InstanceState::Running { "up" } else { "down" };
    let link = if member.is_linked && state == "up" { "up" } else { "down" };
    let mut text = format!(
        "# Server\r\nrun_id:{run_id}\r\ntcp_port:{}\r\n\r\n# Replication\r\nrole:{}\r\n",
        address.port,
        role.name()
    );
    if let (Role::Replica, Some(master)) = (role, &member.master) {
        text.push_str(&format!(
            "master_host:{}\r\nmaster_port:{}\r\nmaster_link_status:{link}\r\nslave_repl_offset:{offset}\r\n\
             slave_priority:{}\r\n",
            master.ip, master.port, member.priority
        ));
    }
    text.push_str(&format!("master_repl_offset:{offset}\r\n"));
    text
}
