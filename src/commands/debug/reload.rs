//! DEBUG RELOAD and DEBUG LOADAOF.

use super::Context;
use crate::base::error::CommandError;
use crate::clients::instance::Reload;
use crate::commands::CommandResult;
use crate::protocol::Reply;
use crate::spec::Args;

const BAD_OPTION: CommandError =
    CommandError::fixed("ERR DEBUG RELOAD only supports the MERGE, NOFLUSH and NOSAVE options.");
const NOT_LOADED: CommandError = CommandError::fixed("ERR Error trying to load the RDB dump");
const IN_A_SCRIPT: CommandError = CommandError::fixed("ERR a script cannot reload the functions beside which it runs");

pub(super) fn reload(context: &mut Context<'_, '_, '_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let mut options = Reload::default();
    while !args.is_empty() {
        if args.take("MERGE") {
            options.merge = true;
        } else if args.take("NOFLUSH") {
            options.flush = false;
        } else if args.take("NOSAVE") {
            options.save = false;
        } else {
            return Err(BAD_OPTION);
        }
    }
    run(context, options)?;
    context.call.server.log.warn("DB reloaded by DEBUG RELOAD");
    Ok(Reply::OK)
}

/// Loads what an append-only file would hold: all data as they are.
pub(super) fn load_aof(context: &mut Context<'_, '_, '_>, _: &mut Args<'_>) -> CommandResult<'static> {
    run(context, Reload::default())?;
    context.call.server.log.warn("Append Only File loaded by DEBUG LOADAOF");
    Ok(Reply::OK)
}

fn run(context: &mut Context<'_, '_, '_>, options: Reload) -> Result<(), CommandError> {
    let Context { view, interpreters, call } = context;
    let interpreters = interpreters.as_deref_mut().ok_or(IN_A_SCRIPT)?;
    call.server.reload(view, interpreters, options).map_err(|reason| {
        call.server.log.warn(format!("The data cannot be loaded: {reason}"));
        NOT_LOADED
    })
}
