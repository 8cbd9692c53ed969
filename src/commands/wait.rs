//! WAIT and WAITAOF: waiting for replicas and an append-only file that there never are.

use crate::clock::Millis;
use crate::error::CommandError;
use crate::profile::Since;
use crate::resp::Reply;
use crate::spec::{Args, Arity, Call, Category, CommandResult, CommandSpec, Flag, Flow, Handler, Waiting};

pub(super) const ROWS: &[CommandSpec] = &[WAIT, WAITAOF];

const TIMEOUT_NOT_AN_INTEGER: CommandError = CommandError::fixed("ERR timeout is not an integer or out of range");
const TIMEOUT_NEGATIVE: CommandError = CommandError::fixed("ERR timeout is negative");
const TIMEOUT_OUT_OF_RANGE: CommandError = CommandError::fixed("ERR timeout is out of range");
const LOCAL_OUT_OF_RANGE: CommandError = CommandError::fixed("ERR value is out of range, value must between 0 and 1");
const NO_APPEND_ONLY_FILE: CommandError =
    CommandError::fixed("ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.");

const WAIT: CommandSpec = CommandSpec {
    usage: "numreplicas timeout",
    summary: "Waits until so many replicas have all that this connection wrote, and tells how many have.",
    since: Since::redis(3, 0, 0),
    arity: Arity::Exactly(3),
    flags: &[Flag::NoScript],
    categories: &[Category::Connection],
    tips: &["request_policy:all_shards", "response_policy:agg_min"],
    ..CommandSpec::new("WAIT", Handler::Connection(wait))
};

fn wait(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let replicas = args.integer()?;
    let timeout = parse_timeout(call, args)?;
    Ok(answer(call, replicas, timeout, Reply::Integer(0)))
}

const WAITAOF: CommandSpec = CommandSpec {
    usage: "numlocal numreplicas timeout",
    summary: "Waits until all that this connection wrote is in the append-only files here and of so many replicas.",
    since: Since::redis(7, 2, 0),
    arity: Arity::Exactly(4),
    flags: &[Flag::Blocking],
    categories: &[Category::Connection],
    tips: &["request_policy:all_shards", "response_policy:agg_min"],
    ..CommandSpec::new("WAITAOF", Handler::Connection(waitaof))
};

fn waitaof(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let local = args.integer()?;
    if !(0..=1).contains(&local) {
        return Err(LOCAL_OUT_OF_RANGE);
    }
    let replicas = args.integer().ok().filter(|&replicas| replicas >= 0).ok_or(CommandError::MUST_BE_POSITIVE)?;
    let timeout = parse_timeout(call, args)?;
    if local == 1 {
        return Err(NO_APPEND_ONLY_FILE);
    }
    Ok(answer(call, replicas, timeout, Reply::Array(vec![Reply::Integer(0), Reply::Integer(0)])))
}

/// Until when to wait; `None` for ever.
fn parse_timeout(call: &Call<'_>, args: &mut Args<'_>) -> Result<Option<Millis>, CommandError> {
    let timeout = args.integer().map_err(|_| TIMEOUT_NOT_AN_INTEGER)?;
    if timeout < 0 {
        return Err(TIMEOUT_NEGATIVE);
    }
    let deadline = call.now().checked_add(timeout);
    // Before 7.2 the sum overflowed, to a deadline that never comes.
    if deadline.is_none() && args.profile().since_redis(7, 2) {
        return Err(TIMEOUT_OUT_OF_RANGE);
    }
    Ok(deadline.filter(|_| timeout > 0))
}

/// Answers at once if nobody is waited for, and otherwise when time is up.
fn answer(call: &mut Call<'_>, replicas: i64, deadline: Option<Millis>, reply: Reply<'static>) -> Reply<'static> {
    if replicas <= 0 {
        return reply;
    }
    call.flow = Flow::Wait(Box::new(Waiting::Until { deadline, reply }));
    Reply::Nothing
}
