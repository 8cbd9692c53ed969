//! REPLICAOF, FAILOVER, and what a replica asks its primary: REPLCONF, PSYNC, SYNC.

use std::sync::atomic::Ordering;

use crate::base::error::CommandError;
use crate::base::profile::Since;
use crate::clients::instance::{Handover, Primary, ReplicaState, SyncRequest};
use crate::clients::session::{Flow, SnapshotContent};
use crate::commands::{Call, Command, CommandResult, Handler};
use crate::protocol::{Reply, parse_integer};
use crate::spec::{Args, Arity, CommandSpec, Flag, Group, Secrets};

pub(super) const ROWS: &[Command] = &[REPLICAOF, SLAVEOF, FAILOVER, REPLCONF, PSYNC, SYNC];

const INVALID_PORT: CommandError = CommandError::fixed("ERR Invalid master port");
const NO_LINK: CommandError = CommandError::fixed("NOMASTERLINK Can't SYNC while not connected with my master");
const FILTERED: CommandError = CommandError::fixed("ERR Filtered replica requires EOF capability");
const NOT_TO_A_PRIMARY: CommandError = CommandError::fixed("ERR PSYNC FAILOVER can't be sent to a master.");
const OTHER_HISTORY: CommandError = CommandError::fixed("ERR PSYNC FAILOVER replid must match my replid.");
const OTHER_SERVERS: CommandError = CommandError::fixed(
    "ERR FAILOVER hands over to no server outside of this process: redouble cannot be a replica of one.",
);

const NO_FAILOVER: CommandError = CommandError::fixed("ERR No failover in progress.");

const SYNC_FLAGS: &[Flag] = &[Flag::Admin, Flag::NoScript, Flag::NoAsyncLoading, Flag::NoMulti];

/// The longest address that a replica may say it has.
const LONGEST_ADDRESS: usize = 255;
/// The first release whose replicas tell their version.
const TELLS_VERSION: Since = Since::valkey(8, 0, 0);
/// The first release whose replicas tell how much they have in their append-only files.
const TELLS_FSYNCED: Since = Since::redis(7, 2, 0);
/// The first release with replicas that want only a snapshot, and with those that want only a part of it.
const SNAPSHOT_ONLY: Since = Since::redis(6, 2, 0);
const FILTERS: Since = Since::redis(7, 0, 0);

const REPLICAOF: Command = Command::new(
    Handler::Connection(follow),
    CommandSpec {
        usage: "<host port | NO ONE>",
        summary: "Becomes a replica of another instance of this process, one whose link is down, or a primary again.",
        group: Group::Server,
        since: Since::redis(5, 0, 0),
        arity: Arity::Exactly(3),
        flags: &[Flag::Admin, Flag::NoScript, Flag::Stale, Flag::NoAsyncLoading],
        // No release takes AUTH here, but people try.
        secrets: Secrets::Handshake,
        ..CommandSpec::new("REPLICAOF")
    },
);

const SLAVEOF: Command = Command::new(
    Handler::Connection(follow),
    CommandSpec {
        since: Since::redis(1, 0, 0),
        deprecated: Some(("5.0.0", "`REPLICAOF`")),
        name: "SLAVEOF",
        ..REPLICAOF.spec
    },
);

fn follow(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let (host, port) = (args.bytes()?, args.bytes()?);
    if call.server.handover().is_some() {
        return Err(CommandError::fixed("ERR REPLICAOF not allowed while failing over."));
    }
    if host.eq_ignore_ascii_case(b"no") && port.eq_ignore_ascii_case(b"one") {
        match call.server.fleet().filter(|_| !call.session.executing && call.server.space.is_empty()) {
            Some(fleet) => fleet.follow_no_one(),
            // Data are locked inside of EXEC: the replica cannot be waited for.
            None => call.server.follow_no_one(),
        }
        return Ok(Reply::OK);
    }
    let Some(port @ 0..=65_535) = parse_integer(port) else { return Err(INVALID_PORT) };
    let primary = Primary { host: host.to_vec(), port };
    if call.server.primary().as_ref() == Some(&primary) {
        return Ok(Reply::Status("OK Already connected to specified master"));
    }
    call.server.follow(&primary);
    Ok(Reply::OK)
}

const FAILOVER: Command = Command::new(
    Handler::Connection(failover),
    CommandSpec {
        usage: "[TO host port [FORCE]] [ABORT] [TIMEOUT milliseconds]",
        summary: "Hands over to a replica in this process once it has everything, or after a time-out.",
        group: Group::Server,
        since: Since::redis(6, 2, 0),
        arity: Arity::AtLeast(1),
        flags: &[Flag::Admin, Flag::NoScript, Flag::Stale],
        ..CommandSpec::new("FAILOVER")
    },
);

fn failover(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    if args.left() == 1 && args.take("ABORT") {
        return if call.server.end_handover() { Ok(Reply::OK) } else { Err(NO_FAILOVER) };
    }
    let (mut timeout, mut target, mut is_forced) = (None, None, false);
    while !args.is_empty() {
        if timeout.is_none() && args.left() > 1 && args.take("TIMEOUT") {
            let millis = args.integer()?;
            if millis <= 0 {
                return Err(CommandError::fixed("ERR FAILOVER timeout must be greater than 0"));
            }
            timeout = Some(millis);
        } else if target.is_none() && args.left() > 2 && args.take("TO") {
            target = Some((args.bytes()?, args.integer()?));
        } else if !is_forced && args.take("FORCE") {
            is_forced = true;
        } else {
            return Err(CommandError::SYNTAX);
        }
    }
    if call.server.handover().is_some() {
        return Err(CommandError::fixed("ERR FAILOVER already in progress."));
    }
    if call.server.is_replica() {
        return Err(CommandError::fixed("ERR FAILOVER is not valid when server is a replica."));
    }
    let replicas = call.server.replication_state().replicas;
    if replicas.is_empty() {
        return Err(CommandError::fixed("ERR FAILOVER requires connected replicas."));
    }
    if is_forced && !(timeout.is_some() && target.is_some()) {
        return Err(CommandError::fixed(
            "ERR FAILOVER with force option requires both a timeout and target HOST and IP.",
        ));
    }
    let is_target = |replica: &&ReplicaState| {
        target.is_none_or(|(host, port)| replica.address.as_bytes() == host && i64::from(replica.port) == port)
    };
    let mut candidates = replicas.iter().filter(is_target).peekable();
    if candidates.peek().is_none() {
        return Err(CommandError::fixed("ERR FAILOVER target HOST and PORT is not a replica."));
    }
    if !candidates.any(|replica| replica.is_in_process) {
        return Err(OTHER_SERVERS);
    }
    call.server.begin_handover(Handover {
        to: target.map(|(host, port)| (host.to_vec(), port)),
        until: timeout.map(|timeout| call.now().saturating_add(timeout)),
        is_forced,
    });
    Ok(Reply::OK)
}

const REPLCONF: Command = Command::new(
    Handler::Connection(configure),
    CommandSpec {
        usage: "option value [option value ...]",
        summary: "Tells a primary what its replica can do, and how far it is.",
        group: Group::Server,
        since: Since::redis(3, 0, 0),
        arity: Arity::AtLeast(1),
        flags: &[Flag::Admin, Flag::NoScript, Flag::Loading, Flag::Stale, Flag::AllowBusy],
        ..CommandSpec::new("REPLCONF")
    },
);

fn configure(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    if !args.left().is_multiple_of(2) {
        return Err(CommandError::SYNTAX);
    }
    let profile = *args.profile();
    while !args.is_empty() {
        let option = args.bytes()?;
        let introduction = call.session.introduction.get_or_insert_default();
        match option.to_ascii_lowercase().as_slice() {
            b"ack" => {
                acknowledge(call, args)?;
                return Ok(Reply::Nothing);
            }
            // Only a replica has something to tell.
            b"getack" => return Ok(Reply::Nothing),
            b"listening-port" => introduction.port = u16::try_from(args.integer()?).unwrap_or(0),
            b"ip-address" => {
                let address = args.bytes()?;
                if address.len() > LONGEST_ADDRESS {
                    let text = "ERR REPLCONF ip-address provided by replica instance is too long:";
                    return Err(CommandError::new(format!("{text} {} bytes", address.len())));
                }
                introduction.address = address.to_vec();
            }
            b"capa" => match args.bytes()? {
                capability if capability.eq_ignore_ascii_case(b"psync2") => introduction.knows_ids = true,
                capability if capability.eq_ignore_ascii_case(b"eof") => introduction.knows_end = true,
                // What it can do beside that is not needed here.
                _ => {}
            },
            // Nothing that is sent depends on it.
            b"version" if profile.has(TELLS_VERSION) => {
                args.bytes()?;
            }
            b"rdb-only" if profile.has(SNAPSHOT_ONLY) => {
                introduction.snapshot_only = match args.integer()? {
                    0 => false,
                    1 => true,
                    _ => return Err(CommandError::fixed("ERR value is out of range, value must between 0 and 1")),
                };
            }
            b"rdb-filter-only" if profile.has(FILTERS) => {
                introduction.content = SnapshotContent::Nothing;
                for part in args.bytes()?.split(|byte| *byte == b' ').filter(|part| !part.is_empty()) {
                    if !part.eq_ignore_ascii_case(b"functions") {
                        return Err(CommandError::quoting("ERR Unsupported rdb-filter-only option: ", part, ""));
                    }
                    introduction.content = SnapshotContent::Functions;
                }
            }
            _ => return Err(CommandError::quoting("ERR Unrecognized REPLCONF option: ", option, "")),
        }
    }
    if call.session.client.seen().replica.load(Ordering::Relaxed) {
        // A reply would be a part of the stream.
        call.flow = Flow::Drop;
        return Ok(Reply::Nothing);
    }
    Ok(Reply::OK)
}

/// Notes how far a replica is. What is no number is passed over: there is no reply that could say so.
fn acknowledge(call: &mut Call<'_>, args: &mut Args<'_>) -> Result<(), CommandError> {
    let number = |word: &[u8]| parse_integer(word).and_then(|number| u64::try_from(number).ok());
    let offset = number(args.bytes()?);
    let has_more = args.profile().has(TELLS_FSYNCED) && args.take("fack");
    let fsynced = if has_more { number(args.bytes()?) } else { None };
    let wants_no_more = call.session.introduction.as_ref().is_some_and(|introduction| introduction.snapshot_only);
    if wants_no_more && call.session.client.seen().snapshot.load(Ordering::Relaxed) > 0 {
        call.flow = Flow::Close;
    }
    if let Some(offset) = offset {
        call.server.acknowledge(&call.session.client, offset, fsynced);
    }
    Ok(())
}

const PSYNC: Command = Command::new(
    Handler::Connection(synchronize),
    CommandSpec {
        usage: "replicationid offset",
        summary: "Sends a replica what it lacks, or all data, and then all changes.",
        group: Group::Server,
        since: Since::redis(2, 8, 0),
        arity: Arity::AtLeast(3),
        flags: SYNC_FLAGS,
        ..CommandSpec::new("PSYNC")
    },
);

fn synchronize(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let id = args.bytes()?;
    let offset = args.bytes()?;
    if args.take("FAILOVER") {
        let is_same = call.server.identity.replication_id().current.as_bytes().eq_ignore_ascii_case(id);
        return Err(match call.server.is_replica() {
            false => NOT_TO_A_PRIMARY,
            true if !is_same => OTHER_HISTORY,
            true => OTHER_SERVERS,
        });
    }
    send_stream(call, Some((id, offset)))
}

const SYNC: Command = Command::new(
    Handler::Connection(|call, _| send_stream(call, None)),
    CommandSpec {
        usage: "",
        summary: "Sends a replica all data, and then all changes, as before 2.8.",
        group: Group::Server,
        arity: Arity::Exactly(1),
        flags: SYNC_FLAGS,
        ..CommandSpec::new("SYNC")
    },
);

/// `history` is the one that the replica has, and the first byte of it that it lacks.
fn send_stream(call: &mut Call<'_>, history: Option<(&[u8], &[u8])>) -> CommandResult<'static> {
    let client = &call.session.client;
    // Asked again, it gets nothing again.
    if client.seen().replica.load(Ordering::Relaxed) {
        return Ok(Reply::Nothing);
    }
    if call.server.is_replica() {
        return Err(NO_LINK);
    }
    let about = call.session.introduction.as_deref().cloned().unwrap_or_default();
    if about.content != SnapshotContent::Everything && !about.knows_end {
        return Err(FILTERED);
    }
    if call.server.is_link_cut(client, &about) {
        call.flow = Flow::Drop;
        return Ok(Reply::Nothing);
    }
    let history = match history {
        Some((id, first)) => Some((id, parse_integer(first).ok_or(CommandError::NOT_AN_INTEGER)?)),
        None => None,
    };
    call.server.attach_replica(client, about, SyncRequest { history }).map_err(|_| call.server.scripts.busy_error())?;
    Ok(Reply::Nothing)
}
