//! WAIT and WAITAOF. There is no append-only file here, only those of replicas.

use super::blocking::FROM_SCRIPTS;
use super::timeout::parse_millis;
use crate::base::clock::Millis;
use crate::base::error::CommandError;
use crate::base::profile::{Family, Since, Version};
use crate::clients::instance::Acknowledgement;
use crate::clients::session::{Flow, Wait};
use crate::commands::{Call, Command, CommandResult, Handler};
use crate::protocol::Reply;
use crate::spec::{Args, Arity, Category, CommandSpec, Flag};

pub(super) const ROWS: &[Command] = &[WAIT, WAITAOF];

const LOCAL_OUT_OF_RANGE: CommandError = CommandError::fixed("ERR value is out of range, value must between 0 and 1");
const NO_APPEND_ONLY_FILE: CommandError =
    CommandError::fixed("ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.");
const WAIT_ON_REPLICA: CommandError = CommandError::fixed(
    "ERR WAIT cannot be used with replica instances. Please also note that since Redis 4.0 if a replica is configured to \
     be writable (which is not the default) writes to replicas are just local and are not propagated.",
);
const VALKEY_WAIT_ON_REPLICA: CommandError = CommandError::fixed(
    "ERR WAIT cannot be used with replica instances. Please also note that if a replica is configured to be writable \
     (which is not the default) writes to replicas are just local and are not propagated.",
);
const WAITAOF_ON_REPLICA: CommandError = CommandError::fixed(
    "ERR WAITAOF cannot be used with replica instances. Please also note that writes to replicas are just local and are \
     not propagated.",
);

/// The releases that class these commands as blocking.
const IS_BLOCKING: Since = Since::each(Version(7, 4, 0), Version(8, 0, 0));

const WAIT: Command = Command::new(
    Handler::Connection(wait),
    CommandSpec {
        usage: "numreplicas timeout",
        summary: "Waits until so many replicas have all that this connection wrote, and tells how many have.",
        since: Since::redis(3, 0, 0),
        arity: Arity::Exactly(3),
        flags: &[Flag::NoScript],
        later_flags: &[(FROM_SCRIPTS, &[]), (IS_BLOCKING, &[Flag::Blocking])],
        categories: &[Category::Connection],
        tips: &["request_policy:all_shards", "response_policy:agg_min"],
        ..CommandSpec::new("WAIT")
    },
);

fn wait(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    if call.server.is_replica() {
        let is_redis = args.profile().family() == Family::Redis;
        return Err(if is_redis { WAIT_ON_REPLICA } else { VALKEY_WAIT_ON_REPLICA });
    }
    let replicas = args.integer()?;
    let timeout = parse_millis(call.now(), args)?;
    Ok(await_replicas(call, replicas, timeout, Acknowledgement::Received))
}

const WAITAOF: Command = Command::new(
    Handler::Connection(waitaof),
    CommandSpec {
        usage: "numlocal numreplicas timeout",
        summary: "Waits until all that this connection wrote is in the append-only files here and of so many replicas.",
        since: Since::redis(7, 2, 0),
        arity: Arity::Exactly(4),
        flags: &[Flag::NoScript],
        later_flags: &[(IS_BLOCKING, &[Flag::Blocking])],
        categories: &[Category::Connection],
        tips: &["request_policy:all_shards", "response_policy:agg_min"],
        ..CommandSpec::new("WAITAOF")
    },
);

fn waitaof(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let local = args.integer()?;
    if !(0..=1).contains(&local) {
        return Err(LOCAL_OUT_OF_RANGE);
    }
    let replicas = args.integer().ok().filter(|&replicas| replicas >= 0).ok_or(CommandError::MUST_BE_POSITIVE)?;
    let timeout = parse_millis(call.now(), args)?;
    if call.server.is_replica() {
        return Err(WAITAOF_ON_REPLICA);
    }
    if local == 1 {
        return Err(NO_APPEND_ONLY_FILE);
    }
    Ok(await_replicas(call, replicas, timeout, Acknowledgement::Fsynced))
}

/// Replies at once if so many replicas have what the connection has written, otherwise once they have, or at the deadline.
fn await_replicas(call: &mut Call<'_>, wanted: i64, deadline: Option<Millis>, kind: Acknowledgement) -> Reply<'static> {
    let (server, offset) = (call.server, call.session.replicated);
    let wanted = usize::try_from(wanted).unwrap_or(0);
    if call.session.executing {
        return kind.reply(server.count_acknowledged(offset, kind));
    }
    // The next command waits also for what others have written until now, but not for what the replicas are asked here.
    call.session.replicated = server.replication_offset();
    match server.await_replicas(&call.session.client, wanted, offset, kind) {
        Some(count) => kind.reply(count),
        None => {
            call.flow = Flow::Wait(Box::new(Wait::Blocked { deadline, reply: kind.reply(0) }));
            Reply::Nothing
        }
    }
}
