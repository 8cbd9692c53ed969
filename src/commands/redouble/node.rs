//! REDOUBLE NODE: the nodes of the Cluster or the Sentinel set behind this server, each of which clients can lose.

use std::sync::Arc;

use super::pattern::{local_hosts, node_name};
use super::{Action, Power, client_glob, count, duration, nothing_more, settle, text};
use crate::base::duration::spell_duration;
use crate::base::error::CommandError;
use crate::clients::deployment::DeploymentNode;
use crate::clients::fleet::CLOSED;
use crate::clients::instance::NodeView;
use crate::clients::session::Flow;
use crate::commands::{Call, CommandResult};
use crate::powers::NodeInfo;
use crate::protocol::Reply;
use crate::spec::Args;

pub(super) const NODE: Power = Power::new(
    "NODE",
    "Takes a node of the Cluster or the Sentinel set behind this server away from clients, while the other nodes still see it.",
    ACTIONS,
)
.for_clients();

const ACTIONS: &[Action] = &[
    Action {
        words: "LIST",
        summary: "The nodes, each with its address, local ports, role, slots, state and clients.",
        run: list,
    },
    Action { words: "STOP node", summary: "Refuses connections to it and closes those there are.", run: stop },
    Action { words: "START node", summary: "Lets clients connect to it again, at the same port.", run: start },
    Action {
        words: "CUT node [client-name-glob]",
        summary: "Leaves all clients there, or these, without answers and messages; their commands do not run.",
        run: cut,
    },
    Action {
        words: "SLOW node duration",
        summary: "Delays each command there by so much, instead of what was said before; 0 ends it.",
        run: slow,
    },
    Action {
        words: "HEAL node",
        summary: "Takes back all cuts of it, and its slowness; what hangs runs now.",
        run: heal,
    },
];

fn refused(reason: String) -> CommandError {
    CommandError::new(format!("ERR {reason}"))
}

/// The node that the next argument names.
fn find(call: &Call<'_>, args: &mut Args<'_>) -> Result<Arc<DeploymentNode>, CommandError> {
    let deployment = call.server.deployment().map_err(refused)?;
    deployment.find(&node_name(args)?, &local_hosts(call)).map_err(refused)
}

fn list(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    nothing_more(args)?;
    let nodes = call.server.node_views().map_err(refused)?;
    Ok(Reply::Array(nodes.iter().map(describe).collect()))
}

fn describe(view: &NodeView) -> Reply<'static> {
    let NodeInfo { address, id, role, master, is_reachable, .. } = &*view.info;
    Reply::Map(vec![
        (text("number"), count(view.node.number.into())),
        (text("node"), text(address.clone())),
        (text("id"), text(id.clone())),
        (text("port"), count(view.node.port().into())),
        (text("tls-port"), count(view.node.tls_port().into())),
        (text("role"), text(role.name())),
        (text("master"), master.clone().map_or(Reply::Null, text)),
        (text("slots"), text(view.info.spelled_slots())),
        (text("state"), text(view.state())),
        (text("cut-from"), Reply::Array(view.cuts.iter().map(|clients| text(clients.clone())).collect())),
        (text("slow"), text(spell_duration(view.slowness))),
        (text("reachable"), text(if *is_reachable { "yes" } else { "no" })),
        (text("clients"), count(view.clients as u64)),
    ])
}

fn stop(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let node = find(call, args)?;
    nothing_more(args)?;
    let is_own = call.session.node.as_ref().is_some_and(|own| own.number == node.number);
    let except = is_own.then(|| call.session.client.id());
    call.server.fleet().ok_or(CLOSED)?.stop_node(node.number, except)?;
    if is_own {
        call.flow = Flow::Close;
    }
    Ok(Reply::OK)
}

fn start(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let node = find(call, args)?;
    nothing_more(args)?;
    call.server.fleet().ok_or(CLOSED)?.start_node(node.number)?;
    Ok(Reply::OK)
}

fn cut(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let node = find(call, args)?;
    let clients = if args.is_empty() { None } else { Some(client_glob(args)?) };
    nothing_more(args)?;
    call.server.cut_node(&node, clients.as_deref()).map_err(refused)?;
    Ok(Reply::OK)
}

fn slow(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let node = find(call, args)?;
    let by = duration(args)?;
    nothing_more(args)?;
    call.server.slow_node(&node, by).map_err(refused)?;
    // Those that were delayed before go on at once.
    settle(call, Reply::OK)
}

fn heal(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let node = find(call, args)?;
    nothing_more(args)?;
    call.server.heal_node(&node).map_err(refused)?;
    settle(call, Reply::OK)
}
