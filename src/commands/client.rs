//! CLIENT: names, lists, closes, pauses and unblocks connections.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::client_filter::{ClientFilter, ClientType, SHARED_FILTERS};
use super::client_help::help_lines;
use super::client_list::{describe, describe_all};
use super::connection::check_label;
use super::help::{help, subcommand_syntax_error};
use super::tracking::{CACHING, GETREDIR, TRACKING, TRACKINGINFO};
use crate::base::error::CommandError;
use crate::base::profile::Since;
use crate::clients::session::{Flow, Replies};
use crate::commands::{Call, Command, CommandResult, Handler, ON_EVERY_NODE};
use crate::protocol::{Reply, parse_integer};
use crate::spec::{Args, Arity, Category, CommandSpec, Flag, Group};

pub(super) const ROWS: &[Command] = &[CLIENT];

const CLIENT: Command = Command::container(
    CommandSpec {
        summary: "Everything about connections.",
        complexity: "Depends on the subcommand",
        group: Group::Connection,
        since: Since::redis(2, 4, 0),
        arity: Arity::AtLeast(2),
        ..CommandSpec::new("CLIENT")
    },
    &[
        UNBLOCK,
        ID,
        HELP,
        NO_EVICT,
        NO_TOUCH,
        CAPA,
        IMPORT_SOURCE,
        UNPAUSE,
        GETNAME,
        KILL,
        INFO,
        SETNAME,
        SETINFO,
        PAUSE,
        LIST,
        REPLY,
        TRACKING,
        CACHING,
        GETREDIR,
        TRACKINGINFO,
    ],
);

const PLAIN: &[Flag] = &[Flag::NoScript, Flag::Loading, Flag::Stale];
const VALKEY_9: Since = Since::valkey(9, 0, 0);
/// Valkey 9 runs them while a slow script runs.
const AT_ANY_TIME: &[(Since, &[Flag])] = &[(VALKEY_9, &[Flag::NoScript, Flag::Loading, Flag::Stale, Flag::AllowBusy])];
const ADMIN: &[Flag] = &[Flag::Admin, Flag::NoScript, Flag::Loading, Flag::Stale];

const NOT_IMPORTING: CommandError = CommandError::fixed("ERR Server is not in import mode");

// ---- the own connection

const ID: Command = Command::new(
    Handler::Connection(id),
    CommandSpec {
        summary: "Returns the connection's number.",
        group: Group::Connection,
        since: Since::redis(5, 0, 0),
        arity: Arity::Exactly(2),
        flags: PLAIN,
        later_flags: AT_ANY_TIME,
        categories: &[Category::Connection],
        ..CommandSpec::new("ID")
    },
);

fn id(call: &mut Call<'_>, _: &mut Args<'_>) -> CommandResult<'static> {
    Ok(Reply::Integer(call.session.client.id() as i64))
}

const GETNAME: Command = Command::new(
    Handler::Connection(getname),
    CommandSpec {
        summary: "Returns the connection's name.",
        group: Group::Connection,
        since: Since::redis(2, 6, 9),
        arity: Arity::Exactly(2),
        flags: PLAIN,
        later_flags: AT_ANY_TIME,
        categories: &[Category::Connection],
        ..CommandSpec::new("GETNAME")
    },
);

fn getname(call: &mut Call<'_>, _: &mut Args<'_>) -> CommandResult<'static> {
    let name = call.session.client.labels().name.clone();
    Ok(if name.is_empty() { Reply::Null } else { Reply::bulk(name) })
}

const SETNAME: Command = Command::new(
    Handler::Connection(setname),
    CommandSpec {
        usage: "connection-name",
        summary: "Names the connection.",
        group: Group::Connection,
        since: Since::redis(2, 6, 9),
        arity: Arity::Exactly(3),
        flags: PLAIN,
        later_flags: AT_ANY_TIME,
        categories: &[Category::Connection],
        later_tips: ON_EVERY_NODE,
        names_client: true,
        ..CommandSpec::new("SETNAME")
    },
);

fn setname(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let name = args.bytes()?;
    check_label("Client names", name)?;
    call.session.client.labels().name = name.to_vec();
    Ok(Reply::OK)
}

const SETINFO: Command = Command::new(
    Handler::Connection(setinfo),
    CommandSpec {
        usage: "<LIB-NAME libname | LIB-VER libver>",
        summary: "Says which library the client uses, and its version.",
        group: Group::Connection,
        since: Since::redis(7, 2, 0),
        arity: Arity::Exactly(4),
        flags: PLAIN,
        later_flags: AT_ANY_TIME,
        categories: &[Category::Connection],
        tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
        ..CommandSpec::new("SETINFO")
    },
);

fn setinfo(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let (option, value) = (args.bytes()?, args.bytes()?);
    let is_name = option.eq_ignore_ascii_case(b"LIB-NAME");
    if !is_name && !option.eq_ignore_ascii_case(b"LIB-VER") {
        return Err(CommandError::quoting("ERR Unrecognized option '", option, "'"));
    }
    check_label(&String::from_utf8_lossy(option), value)?;
    let mut labels = call.session.client.labels();
    *if is_name { &mut labels.library } else { &mut labels.library_version } = value.to_vec();
    Ok(Reply::OK)
}

const NO_EVICT: Command = Command::new(
    Handler::Connection(no_evict),
    CommandSpec {
        usage: "<ON | OFF>",
        summary: "Exempts the connection from being closed to free memory.",
        group: Group::Connection,
        since: Since::redis(7, 0, 0),
        arity: Arity::Exactly(3),
        flags: ADMIN,
        later_flags: &[(VALKEY_9, &[Flag::Admin, Flag::NoScript, Flag::Loading, Flag::Stale, Flag::AllowBusy])],
        categories: &[Category::Connection],
        ..CommandSpec::new("NO-EVICT")
    },
);

fn no_evict(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    call.session.client.seen().no_evict.store(parse_on_or_off(args)?, Ordering::Relaxed);
    Ok(Reply::OK)
}

const NO_TOUCH: Command = Command::new(
    Handler::Connection(no_touch),
    CommandSpec {
        usage: "<ON | OFF>",
        summary: "Keeps the connection's reads from counting as use of a key.",
        group: Group::Connection,
        since: Since::redis(7, 2, 0),
        arity: Arity::Exactly(3),
        flags: PLAIN,
        later_flags: AT_ANY_TIME,
        categories: &[Category::Connection],
        ..CommandSpec::new("NO-TOUCH")
    },
);

fn no_touch(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    call.session.no_touch = parse_on_or_off(args)?;
    Ok(Reply::OK)
}

const CAPA: Command = Command::new(
    Handler::Connection(capa),
    CommandSpec {
        usage: "capability [capability ...]",
        summary: "Says what the client can do.",
        group: Group::Connection,
        since: Since::valkey(8, 0, 0),
        arity: Arity::AtLeast(3),
        flags: &[Flag::NoScript, Flag::Loading, Flag::Stale, Flag::AllowBusy],
        categories: &[Category::Connection],
        ..CommandSpec::new("CAPA")
    },
);

/// Unknown capabilities are ignored, so that newer clients can use older servers.
fn capa(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    if args.rest().iter().any(|capability| capability.eq_ignore_ascii_case(b"redirect")) {
        call.session.client.seen().can_redirect.store(true, Ordering::Relaxed);
    }
    Ok(Reply::OK)
}

fn parse_on_or_off(args: &mut Args<'_>) -> Result<bool, CommandError> {
    match () {
        () if args.take("ON") => Ok(true),
        () if args.take("OFF") => Ok(false),
        () => Err(CommandError::SYNTAX),
    }
}

const REPLY: Command = Command::new(
    Handler::Connection(reply),
    CommandSpec {
        usage: "<ON | OFF | SKIP>",
        summary: "Chooses whether commands are answered.",
        group: Group::Connection,
        since: Since::redis(3, 2, 0),
        arity: Arity::Exactly(3),
        flags: PLAIN,
        later_flags: &[(VALKEY_9, &[Flag::NoScript, Flag::Loading, Flag::Stale, Flag::NoMulti, Flag::AllowBusy])],
        categories: &[Category::Connection],
        ..CommandSpec::new("REPLY")
    },
);

fn reply(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let replies = &mut call.session.replies;
    match () {
        () if args.take("ON") => {
            *replies = Replies::On;
            return Ok(Reply::OK);
        }
        () if args.take("OFF") => *replies = Replies::Off,
        () if !args.take("SKIP") => return Err(CommandError::SYNTAX),
        () if *replies != Replies::Off => *replies = Replies::SkipNext,
        () => {}
    }
    Ok(Reply::Nothing)
}

// ---- all connections

const INFO: Command = Command::new(
    Handler::Connection(info),
    CommandSpec {
        summary: "Describes the connection.",
        group: Group::Connection,
        since: Since::redis(6, 2, 0),
        arity: Arity::Exactly(2),
        flags: PLAIN,
        categories: &[Category::Connection],
        tips: &["nondeterministic_output"],
        ..CommandSpec::new("INFO")
    },
);

fn info(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    Ok(verbatim(describe(call, args.words(), &call.session.client)))
}

const LIST: Command = Command::new(
    Handler::Connection(list),
    CommandSpec {
        usage: "[TYPE <NORMAL | MASTER | REPLICA | PUBSUB>] [ID client-id [client-id ...]]",
        later_usages: &[
            (
                Since::valkey(8, 1, 0),
                "[TYPE <NORMAL | MASTER | REPLICA | PUBSUB>] [ID client-id [client-id ...]] [USER username] [ADDR \
                 ip:port] [LADDR ip:port] [SKIPME <YES | NO>] [MAXAGE maxage]",
            ),
            (
                Since::valkey(9, 0, 0),
                "[TYPE <NORMAL | MASTER | REPLICA | PUBSUB>] [ID client-id [client-id ...]] [USER username] [ADDR \
                 ip:port] [LADDR ip:port] [SKIPME <YES | NO>] [MAXAGE maxage] [NAME name] [IDLE idle] [FLAGS flags] \
                 [LIB-NAME lib-name] [LIB-VER lib-ver] [DB db] [CAPA capa] [IP ip] [NOT-TYPE <NORMAL | MASTER | REPLICA \
                 | PUBSUB>] [NOT-ID client-id [client-id ...]] [NOT-USER username] [NOT-ADDR ip:port] [NOT-LADDR \
                 ip:port] [NOT-NAME name] [NOT-FLAGS flags] [NOT-LIB-NAME lib-name] [NOT-LIB-VER lib-ver] [NOT-DB db] \
                 [NOT-CAPA capa] [NOT-IP ip]",
            ),
        ],
        summary: "Lists the connections.",
        complexity: "O(N) in the number of connections",
        group: Group::Connection,
        since: Since::redis(2, 4, 0),
        arity: Arity::AtLeast(2),
        flags: ADMIN,
        categories: &[Category::Connection],
        tips: &["nondeterministic_output"],
        ..CommandSpec::new("LIST")
    },
);

const BAD_ID: CommandError = CommandError::fixed("ERR Invalid client ID");

fn list(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let clients = match (args.left(), args.peek()) {
        (0, _) => call.server.clients.all_with_links(),
        (2.., _) if args.profile().has(SHARED_FILTERS) => ClientFilter::parse(call, args, false)?.admitted(call),
        (2, Some(option)) if option.eq_ignore_ascii_case(b"TYPE") => {
            args.bytes()?;
            let wanted = ClientType::parse(args.bytes()?, args.profile())?;
            call.server.clients.all_with_links().into_iter().filter(|client| ClientType::of(client) == wanted).collect()
        }
        (2.., Some(option)) if option.eq_ignore_ascii_case(b"ID") => {
            args.bytes()?;
            let mut clients = Vec::new();
            while let Some(id) = args.optional() {
                let id = parse_integer(id).ok_or(BAD_ID)?;
                clients.extend(u64::try_from(id).ok().and_then(|id| call.server.clients.get(id)));
            }
            clients
        }
        _ => return Err(CommandError::SYNTAX),
    };
    Ok(verbatim(describe_all(call, args.words(), &clients)))
}

fn verbatim(lines: Vec<u8>) -> Reply<'static> {
    Reply::Verbatim("txt", lines.into())
}

const KILL: Command = Command::new(
    Handler::Connection(kill),
    CommandSpec {
        usage: "<ip:port | [ID client-id] [TYPE <NORMAL | MASTER | SLAVE | REPLICA | PUBSUB>] [USER username] [ADDR \
            ip:port] [LADDR ip:port] [SKIPME yes/no]>",
        later_usages: &[
            (
                Since::redis(7, 4, 0),
                "<ip:port | [ID client-id] [TYPE <NORMAL | MASTER | SLAVE | REPLICA | PUBSUB>] [USER username] [ADDR \
                 ip:port] [LADDR ip:port] [SKIPME yes/no] [MAXAGE maxage]>",
            ),
            (
                Since::valkey(8, 0, 0),
                "<ip:port | [ID client-id [client-id ...]] [TYPE <NORMAL | MASTER | PRIMARY | SLAVE | REPLICA | PUBSUB>] \
                 [USER username] [ADDR ip:port] [LADDR ip:port] [SKIPME yes/no] [MAXAGE maxage]>",
            ),
        ],
        summary: "Closes connections.",
        complexity: "O(N) in the number of connections",
        group: Group::Connection,
        since: Since::redis(2, 4, 0),
        arity: Arity::AtLeast(3),
        flags: ADMIN,
        categories: &[Category::Connection],
        ..CommandSpec::new("KILL")
    },
);

const NO_SUCH_CLIENT: CommandError = CommandError::fixed("ERR No such client");

fn kill(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    if args.left() == 1 {
        let closed = close_clients(call, &ClientFilter::with_address(args.bytes()?));
        return if closed == 0 { Err(NO_SUCH_CLIENT) } else { Ok(Reply::OK) };
    }
    let filter = ClientFilter::parse(call, args, true)?;
    Ok(Reply::Integer(close_clients(call, &filter)))
}

/// Closes the connections that match a filter, and returns their number.
fn close_clients(call: &mut Call<'_>, filter: &ClientFilter<'_>) -> i64 {
    let admitted = filter.admitted(call);
    for client in &admitted {
        if !Arc::ptr_eq(client, &call.session.client) {
            call.server.kill(client);
        } else {
            // The caller gets its reply before its own connection closes.
            call.flow = Flow::Close;
        }
    }
    admitted.len() as i64
}

// ---- pausing and unblocking

const PAUSE: Command = Command::new(
    Handler::Connection(pause),
    CommandSpec {
        usage: "timeout [WRITE | ALL]",
        summary: "Holds back commands, or those that write, for some milliseconds.",
        group: Group::Connection,
        since: Since::redis(2, 9, 50),
        arity: Arity::AtLeast(3),
        flags: ADMIN,
        categories: &[Category::Connection],
        ..CommandSpec::new("PAUSE")
    },
);

fn pause(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    allow_at_most(2, args)?;
    let timeout = args.bytes()?;
    let writes_only = match () {
        () if args.take("WRITE") => true,
        () if args.take("ALL") || args.is_empty() => false,
        () => return Err(CommandError::fixed("ERR CLIENT PAUSE mode must be WRITE or ALL")),
    };
    let timeout = parse_integer(timeout).ok_or(CommandError::fixed("ERR timeout is not an integer or out of range"))?;
    if timeout < 0 {
        return Err(CommandError::fixed("ERR timeout is negative"));
    }
    let now = call.now();
    let until = match now.checked_add(timeout) {
        Some(until) => until,
        // The deadline overflows in Redis, and so lies in the past.
        None if !args.profile().since_redis(7, 2) => now,
        None => return Err(CommandError::fixed("ERR timeout is out of range")),
    };
    call.server.pause(until, writes_only);
    Ok(Reply::OK)
}

fn allow_at_most(count: usize, args: &Args<'_>) -> Result<(), CommandError> {
    if args.left() <= count || args.profile().has(Since::valkey(9, 0, 0)) {
        return Ok(());
    }
    Err(subcommand_syntax_error(args, "CLIENT"))
}

const IMPORT_SOURCE: Command = Command::new(
    Handler::Connection(import_source),
    CommandSpec {
        usage: "<ON | OFF>",
        summary: "Lets the connection see and write expired keys while the server is in import mode.",
        complexity: "O(1)",
        group: Group::Connection,
        since: Since::valkey(8, 1, 0),
        arity: Arity::Exactly(3),
        flags: PLAIN,
        categories: &[Category::Connection],
        ..CommandSpec::new("IMPORT-SOURCE")
    },
);

fn import_source(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let is_off = args.peek().is_some_and(|word| word.eq_ignore_ascii_case(b"off"));
    if !is_off && !call.server.config.is_on("import-mode") {
        return Err(NOT_IMPORTING);
    }
    call.session.import_source = parse_on_or_off(args)?;
    Ok(Reply::OK)
}

const UNPAUSE: Command = Command::new(
    Handler::Connection(unpause),
    CommandSpec {
        summary: "Lets commands run again that were held back.",
        complexity: "O(N) in the number of connections held back",
        group: Group::Connection,
        since: Since::redis(6, 2, 0),
        arity: Arity::Exactly(2),
        flags: ADMIN,
        categories: &[Category::Connection],
        ..CommandSpec::new("UNPAUSE")
    },
);

fn unpause(call: &mut Call<'_>, _: &mut Args<'_>) -> CommandResult<'static> {
    call.server.unpause();
    Ok(Reply::OK)
}

const UNBLOCK: Command = Command::new(
    Handler::Connection(unblock),
    CommandSpec {
        usage: "client-id [TIMEOUT | ERROR]",
        summary: "Ends what another connection waits for.",
        complexity: "O(log N) in the number of connections",
        group: Group::Connection,
        since: Since::redis(5, 0, 0),
        arity: Arity::AtLeast(3),
        flags: ADMIN,
        categories: &[Category::Connection],
        ..CommandSpec::new("UNBLOCK")
    },
);

fn unblock(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    allow_at_most(2, args)?;
    let id = args.bytes()?;
    let with_error = match () {
        // Valkey 9 ignores the reason if more follows.
        () if args.left() > 1 => false,
        () if args.take("ERROR") => true,
        () if args.take("TIMEOUT") || args.is_empty() => false,
        () => return Err(CommandError::fixed("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR")),
    };
    let id = parse_integer(id).ok_or(CommandError::NOT_AN_INTEGER)?;
    let client = u64::try_from(id).ok().and_then(|id| call.server.clients.get(id));
    Ok(Reply::Integer(i64::from(client.is_some_and(|client| call.server.unblock(&client, with_error)))))
}

const HELP: Command = Command::new(
    Handler::Connection(|call, _| help(call.table, "CLIENT", &help_lines(&call.server.profile))),
    CommandSpec {
        summary: "Lists the subcommands.",
        group: Group::Connection,
        since: Since::redis(5, 0, 0),
        arity: Arity::Exactly(2),
        flags: &[Flag::Loading, Flag::Stale],
        categories: &[Category::Connection],
        ..CommandSpec::new("HELP")
    },
);
