//! REDOUBLE UPSTREAM: the real server behind this one.

use std::sync::atomic::Ordering;

use super::{Action, Power, count, expected, nothing_more, text};
use crate::base::error::CommandError;
use crate::clients::instance::UpstreamInfo;
use crate::clients::session::Signal;
use crate::commands::{Call, CommandResult};
use crate::protocol::Reply;
use crate::spec::Args;

pub(super) const UPSTREAM: Power = Power {
    default_action: Some("INFO"),
    ..Power::new("UPSTREAM", "Tells of the real server that has the data, and how well its order is known.", ACTIONS)
};

const ACTIONS: &[Action] = &[
    Action {
        words: "INFO",
        summary: "Its address, whether it is one server, a Cluster or a Sentinel set, whether its data may be deleted, the order that is kept, and who tells what scripts did.",
        run: info,
    },
    Action {
        words: "ORDER <INTERVAL | EXACT>",
        summary: "Whether commands wait for others on their keys, so that the journal has the order of their effects.",
        run: order,
    },
];

const NO_UPSTREAM: CommandError = CommandError::fixed("ERR there is no upstream: this server has its own data");

fn upstream<'a>(call: &'a Call<'_>) -> Result<&'a UpstreamInfo, CommandError> {
    call.server.upstream.as_ref().ok_or(NO_UPSTREAM)
}

fn info(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    nothing_more(args)?;
    let upstream = upstream(call)?;
    let order = if upstream.keeps_order.load(Ordering::Relaxed) { "exact" } else { "interval" };
    let disposable = if upstream.is_disposable { "yes" } else { "no" };
    let scripts = if upstream.monitors_scripts { "monitor" } else { "infer" };
    let (kind, nodes) = match &upstream.deployment {
        None => ("server", 1),
        Some(deployment) => (deployment.kind.name(), deployment.nodes().len()),
    };
    Ok(Reply::Map(vec![
        (text("address"), text(upstream.address.as_str())),
        (text("kind"), text(kind)),
        (text("nodes"), count(nodes as u64)),
        (text("disposable"), text(disposable)),
        (text("order"), text(order)),
        (text("scripts"), text(scripts)),
    ]))
}

fn order(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let word = args.optional();
    let is_exact = match word.map(<[u8]>::to_ascii_lowercase).as_deref() {
        Some(b"exact") => true,
        Some(b"interval") => false,
        _ => return Err(expected("INTERVAL or EXACT was expected", word)),
    };
    nothing_more(args)?;
    upstream(call)?.keeps_order.store(is_exact, Ordering::Relaxed);
    // Those that wait for others on their keys need not any more.
    call.server.clients.signal_all(Signal::Look);
    Ok(Reply::OK)
}
