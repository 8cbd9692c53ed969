//! SAVE, BGSAVE and BGREWRITEAOF. Data is kept only by a server that was started with `--persist yes`.

use crate::base::error::CommandError;
use crate::base::profile::Since;
use crate::commands::{Call, Command, CommandResult, Handler};
use crate::protocol::Reply;
use crate::spec::{Args, Arity, CommandSpec, Flag, Group};

pub(super) const ROWS: &[Command] = &[BGREWRITEAOF, BGSAVE, SAVE];

const fn row(name: &'static str) -> CommandSpec {
    CommandSpec {
        complexity: "O(N) where N is the size of all data",
        group: Group::Server,
        since: Since::redis(1, 0, 0),
        flags: &[Flag::Admin, Flag::NoScript, Flag::NoAsyncLoading],
        for_clients: true,
        ..CommandSpec::new(name)
    }
}

const SAVE: Command = Command::new(
    Handler::Connection(save),
    CommandSpec {
        summary: "Writes all data into dbfilename, if the server keeps data.",
        flags: &[Flag::Admin, Flag::NoScript, Flag::NoAsyncLoading, Flag::NoMulti],
        ..row("SAVE")
    },
);

fn save(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    call.permit_at_root(args)?;
    call.server.save_snapshot()?;
    Ok(Reply::OK)
}

const BGSAVE: Command = Command::new(
    Handler::Connection(bgsave),
    CommandSpec {
        usage: "[SCHEDULE]",
        summary: "Writes all data into dbfilename while commands go on, if the server keeps data.",
        arity: Arity::AtLeast(1),
        ..row("BGSAVE")
    },
);

fn bgsave(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    if !(args.is_empty() || args.left() == 1 && args.take("SCHEDULE")) {
        return Err(CommandError::SYNTAX);
    }
    call.permit_at_root(args)?;
    let is_later = call.session.executing;
    call.server.save_in_background(is_later)?;
    let tells = args.profile().since_redis(7, 0);
    Ok(Reply::Status(if is_later && tells { "Background saving scheduled" } else { "Background saving started" }))
}

const BGREWRITEAOF: Command = Command::new(
    Handler::Connection(bgrewriteaof),
    CommandSpec {
        summary: "Writes all data into dbfilename, which stands for the append-only file, if the server keeps data.",
        ..row("BGREWRITEAOF")
    },
);

fn bgrewriteaof(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    call.permit_at_root(args)?;
    let is_now = call.server.rewrite_append_only(call.session.executing)?;
    Ok(Reply::Status(match is_now {
        true => "Background append only file rewriting started",
        false => "Background append only file rewriting scheduled",
    }))
}
