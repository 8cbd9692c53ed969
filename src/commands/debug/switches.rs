//! What DEBUG turns on and off.

use std::sync::atomic::Ordering;

use super::{Context, is_on};
use crate::base::error::CommandError;
use crate::clients::config::parse_memory;
use crate::commands::CommandResult;
use crate::protocol::Reply;
use crate::spec::Args;

/// Redis's limit, a little below 4 GiB.
const MOST: u64 = (1 << 32) - (1 << 20);

const BAD_THRESHOLD: CommandError =
    CommandError::fixed("ERR argument must be a memory value bigger than 1 and smaller than 4gb");

pub(super) fn set_active_expire(context: &mut Context<'_, '_, '_>, args: &mut Args<'_>) -> CommandResult<'static> {
    context.call.server.debug_switches.active_expire.store(is_on(args.bytes()?), Ordering::Relaxed);
    Ok(Reply::OK)
}

pub(super) fn set_disable_deny_scripts(
    context: &mut Context<'_, '_, '_>,
    args: &mut Args<'_>,
) -> CommandResult<'static> {
    context.call.server.debug_switches.noscript_in_scripts.store(is_on(args.bytes()?), Ordering::Relaxed);
    Ok(Reply::OK)
}

pub(super) fn pause_cron(context: &mut Context<'_, '_, '_>, args: &mut Args<'_>) -> CommandResult<'static> {
    context.call.server.debug_switches.cron_paused.store(is_on(args.bytes()?), Ordering::Relaxed);
    Ok(Reply::OK)
}

pub(super) fn set_skip_checksum_validation(
    context: &mut Context<'_, '_, '_>,
    args: &mut Args<'_>,
) -> CommandResult<'static> {
    context.view.settings().skip_checksums.store(is_on(args.bytes()?), Ordering::Relaxed);
    Ok(Reply::OK)
}

pub(super) fn packed_threshold(context: &mut Context<'_, '_, '_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let size = parse_memory(args.bytes()?).filter(|size| *size <= MOST).ok_or(BAD_THRESHOLD)?;
    let size = usize::try_from(size).map_err(|_| BAD_THRESHOLD)?;
    context.view.settings().packed_threshold.store(size, Ordering::Relaxed);
    Ok(Reply::OK)
}
