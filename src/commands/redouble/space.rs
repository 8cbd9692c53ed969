//! REDOUBLE SPACE and SPACES: private worlds behind one port.

use std::sync::Arc;

use super::{Action, Power, beside, count, expected, nothing_more, text};
use crate::base::error::CommandError;
use crate::clients::fleet::{CLOSED, Fleet, LONGEST_NAME};
use crate::clients::session::{AtRoot, Destination, Flow};
use crate::commands::{Call, CommandResult};
use crate::protocol::Reply;
use crate::spec::Args;

pub(super) const SPACE: Power = Power::new(
    "SPACE",
    "Moves the connection into a world of its own keys, clock, faults and users; or says which one it is in.",
    &[Action {
        words: "[name]",
        summary: "Moves this connection into that private world, made on first use; \"\" leads back. Without a name: which it is.",
        run: space,
    }],
)
.for_clients();

pub(super) const SPACES: Power = Power {
    default_action: Some("LIST"),
    for_clients: true,
    ..Power::new(
        "SPACES",
        "Lists the spaces with their clients and keys, or drops one.",
        &[
            Action { words: "LIST", summary: "The spaces, each with how many clients and keys it has.", run: list },
            Action {
                words: "DROP name",
                summary: "Forgets a space with all that is in it, and closes its connections.",
                run: drop_space,
            },
        ],
    )
};

const IN_SCRIPT: CommandError = CommandError::fixed("ERR a transaction or a script cannot go to another space");
const LISTENING: CommandError =
    CommandError::fixed("ERR a client that is subscribed cannot go to another space; UNSUBSCRIBE or RESET comes first");
const NOBODY_AT_ROOT: CommandError = CommandError::fixed(
    "NOPERM this connection's user is one of the space; AUTH as a user of the server, with the password there, leads back",
);
const INSIDE: CommandError =
    CommandError::fixed("ERR a space cannot be dropped from inside; REDOUBLE SPACE \"\" leads out of it");

fn space(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let Some(name) = args.optional() else { return Ok(text(call.server.space.to_vec())) };
    nothing_more(args)?;
    let user = call.session.user.name().to_vec();
    go_to(call, name, &user)?;
    Ok(Reply::OK)
}

fn list(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    nothing_more(args)?;
    let rows = fleet(call)?.spaces().into_iter().map(|space| {
        Reply::Map(vec![
            (text("name"), text(space.name)),
            (text("clients"), count(space.clients as u64)),
            (text("keys"), count(space.keys)),
        ])
    });
    Ok(Reply::Array(rows.collect()))
}

fn drop_space(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let name = args.optional().ok_or_else(|| expected("the name of a space was expected", None))?;
    nothing_more(args)?;
    call.permit_at_root(args)?;
    if !name.is_empty() && *name == *call.server.space {
        return Err(INSIDE);
    }
    let (fleet, name) = (fleet(call)?, name.to_vec());
    // What the auditor would find at the end there takes time for each lock.
    let is_audited = call.server.audit.was_on();
    beside(call, "redouble-space", is_audited, move || match fleet.drop_space(&name) {
        Ok(()) => Reply::OK,
        Err(error) => Reply::Error(error),
    })
}

fn fleet(call: &Call<'_>) -> Result<Arc<dyn Fleet>, CommandError> {
    call.server.fleet().ok_or(CLOSED)
}

/// Has the connection go to another space when the command is over, if a user of this name may. Without a name that is
/// the world that clients find when they connect.
pub(in crate::commands) fn go_to(call: &mut Call<'_>, name: &[u8], user: &[u8]) -> Result<(), CommandError> {
    if *name == *call.server.space {
        return Ok(());
    }
    if call.session.executing {
        return Err(IN_SCRIPT);
    }
    if call.session.subscriber {
        return Err(LISTENING);
    }
    if name.len() > LONGEST_NAME {
        return Err(expected("the name of a space of at most 128 bytes was expected", Some(name)));
    }
    // A user that was made in a space is nobody in the root world, even if a user there has the same name.
    if name.is_empty() && !matches!(&call.session.at_root, AtRoot::As(known) if known.name() == user) {
        return Err(NOBODY_AT_ROOT);
    }
    fleet(call)?.open_space(name, user)?;
    call.flow = Flow::Move(Box::new(Destination(name.to_vec())));
    Ok(())
}

/// The space that a user's name leads to, if this is one of those and the password is right: `space.NAME`, with the
/// default user's password.
pub(in crate::commands) fn by_user<'n>(call: &Call<'_>, user: &'n [u8], password: &[u8]) -> Option<&'n [u8]> {
    let name = user.strip_prefix(b"space.").filter(|name| !name.is_empty() && powers(call))?;
    // Users that were made under such a name are what they are.
    if call.server.acl.user(user).is_some() {
        return None;
    }
    fleet(call).ok().filter(|fleet| fleet.accepts(password)).map(|_| name)
}

/// Whether the test powers are there.
pub(in crate::commands) fn powers(call: &Call<'_>) -> bool {
    call.table.find_original(b"REDOUBLE").is_some()
}
