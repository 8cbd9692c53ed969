//! Authentication, protocol, database, and the end of a connection.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::acl_log::record_failed_auth;
use super::databases::parse_db_index_below;
use super::redouble::space::{by_user, go_to, powers};
use crate::base::error::CommandError;
use crate::base::profile::{Family, Profile, Since};
use crate::clients::acl::DEFAULT_USER;
use crate::clients::session::{AtRoot, Flow, Replies};
use crate::commands::{Call, Command, CommandResult, Handler};
use crate::powers::Hook;
use crate::protocol::{Protocol, Reply, parse_integer};
use crate::spec::{Args, Arity, Category, CommandSpec, DatabaseArgs, Flag, Group, Secrets};

pub(super) const ROWS: &[Command] = &[AUTH, ECHO, HELLO, PING, QUIT, RESET, SELECT, MONITOR, SHUTDOWN];

const AUTH: Command = Command::new(
    Handler::Connection(auth),
    CommandSpec {
        usage: "[username] password",
        summary: "Gives the password.",
        complexity: "O(N) in the number of passwords of the user",
        group: Group::Connection,
        since: Since::redis(1, 0, 0),
        arity: Arity::AtLeast(2),
        flags: &[Flag::NoScript, Flag::Loading, Flag::Stale, Flag::Fast, Flag::NoAuth, Flag::AllowBusy],
        categories: &[Category::Connection],
        secrets: Secrets::Credentials,
        ..CommandSpec::new("AUTH")
    },
);

fn auth(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    match (args.left(), args.bytes()?, args.optional()) {
        (1, password, None) => {
            if call.server.acl.default_user().rules().no_password {
                return Err(CommandError::NO_PASSWORD_SET);
            }
            authenticate(call, DEFAULT_USER, password, args)?;
        }
        (2, user, Some(password)) => authenticate(call, user, password, args)?,
        _ => return Err(CommandError::SYNTAX),
    }
    Ok(Reply::OK)
}

/// Authenticates the session as a user, or records the failed attempt in the ACL log.
fn authenticate(call: &mut Call<'_>, user: &[u8], password: &[u8], args: &Args<'_>) -> Result<(), CommandError> {
    if let Some(space) = by_user(call, user, password) {
        go_to(call, space, DEFAULT_USER)?;
        // The session becomes the default user of the other space.
        let user = Arc::clone(call.server.acl.default_user());
        call.session.become_user(&user, true);
        known_at_root(call, DEFAULT_USER, password);
        return Ok(());
    }
    let Some(user) = call.server.acl.authenticate(user, password) else {
        record_failed_auth(call, user, args.words());
        return Err(CommandError::WRONG_PASSWORD);
    };
    call.session.become_user(&user, true);
    known_at_root(call, user.name(), password);
    Ok(())
}

/// Notes who the client of a session in a space is to the root world, if it has said a password that counts there.
fn known_at_root(call: &mut Call<'_>, user: &[u8], password: &[u8]) {
    if matches!(call.session.at_root, AtRoot::Here) {
        return;
    }
    if let Some(user) = call.server.fleet().and_then(|fleet| fleet.root_user(user, password)) {
        call.session.at_root = AtRoot::As(user);
    }
}

const ECHO: Command = Command::new(
    Handler::Connection(echo),
    CommandSpec {
        usage: "message",
        summary: "Returns what it is given.",
        group: Group::Connection,
        since: Since::redis(1, 0, 0),
        arity: Arity::Exactly(2),
        flags: &[Flag::Loading, Flag::Stale, Flag::Fast],
        categories: &[Category::Connection],
        ..CommandSpec::new("ECHO")
    },
);

fn echo(_: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    Ok(Reply::bulk(args.bytes()?.to_vec()))
}

const HELLO: Command = Command::new(
    Handler::Connection(hello),
    CommandSpec {
        usage: "[protover [AUTH username password] [SETNAME clientname]]",
        summary: "Chooses the protocol version and says who the server is.",
        group: Group::Connection,
        since: Since::redis(6, 0, 0),
        arity: Arity::AtLeast(1),
        flags: &[Flag::NoScript, Flag::Loading, Flag::Stale, Flag::Fast, Flag::NoAuth, Flag::AllowBusy],
        categories: &[Category::Connection],
        names_client: true,
        secrets: Secrets::Handshake,
        ..CommandSpec::new("HELLO")
    },
);

const BAD_PROTOCOL: CommandError = CommandError::fixed("ERR Protocol version is not an integer or out of range");
const NO_PROTOCOL: CommandError = CommandError::fixed("NOPROTO unsupported protocol version");

fn hello(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let protocol = match args.optional() {
        None => None,
        Some(version) => Some(match parse_integer(version).ok_or(BAD_PROTOCOL)? {
            2 => Protocol::Resp2,
            3 => Protocol::Resp3,
            _ => return Err(NO_PROTOCOL),
        }),
    };
    // Before 7.2 each option took effect at once, even if a later one was wrong.
    let at_once = !args.profile().since_redis(7, 2);
    let (mut name, mut credentials) = (None, None);
    while let Some(option) = args.optional() {
        if option.eq_ignore_ascii_case(b"AUTH") && args.left() >= 2 {
            let (user, password) = (args.bytes()?, args.bytes()?);
            if at_once {
                authenticate(call, user, password, args)?;
            } else {
                credentials = Some((user, password));
            }
        } else if option.eq_ignore_ascii_case(b"SETNAME") && !args.is_empty() {
            let given = args.bytes()?;
            check_label("Client names", given)?;
            if at_once {
                call.session.client.labels().name = given.to_vec();
            } else {
                name = Some(given);
            }
        } else {
            return Err(CommandError::quoting("ERR Syntax error in HELLO option '", option, "'"));
        }
    }
    if let Some((user, password)) = credentials {
        authenticate(call, user, password, args)?;
    }
    if !call.session.authenticated {
        return Err(must_authenticate(at_once));
    }
    if let Some(name) = name {
        call.session.client.labels().name = name.to_vec();
    }
    if let Some(protocol) = protocol {
        call.session.set_protocol(protocol);
        if call.session.subscriber {
            call.server.pubsub.set_resp3(&call.session.client, protocol == Protocol::Resp3);
            // Messages sent so far are in the old protocol, and precede the reply.
            call.session.client.take_mail(&mut call.session.messages_ahead);
        }
    }
    let server = match args.profile().family() {
        Family::Redis => "redis",
        Family::Valkey => "valkey",
    };
    let is_sentinel = call.server.sentinel.is_some();
    let role = if call.server.is_replica() { "replica" } else { "master" };
    let role = (!is_sentinel).then(|| (Reply::text("role"), Reply::text(role)));
    let mut fields = vec![
        (Reply::text("server"), Reply::text(server)),
        (Reply::text("version"), Reply::text(args.profile().version().to_string())),
        (Reply::text("proto"), Reply::Integer(if call.session.protocol == Protocol::Resp3 { 3 } else { 2 })),
        (Reply::text("id"), Reply::Integer(call.session.client.id() as i64)),
        (Reply::text("mode"), Reply::text(if is_sentinel { "sentinel" } else { "standalone" })),
    ];
    fields.extend(role);
    fields.push((Reply::text("modules"), modules(args.profile())));
    Ok(Reply::Map(fields))
}

/// The loaded modules, as HELLO and MODULE LIST describe them. In Valkey, the engine of scripts is one.
pub(super) fn modules(profile: &Profile) -> Reply<'static> {
    if !profile.has(Since::valkey(9, 1, 0)) {
        return Reply::Array(Vec::new());
    }
    Reply::Array(vec![Reply::Map(vec![
        (Reply::text("name"), Reply::text("lua")),
        (Reply::text("ver"), Reply::Integer(1)),
        (Reply::text("path"), Reply::text("lua")),
        (Reply::text("args"), Reply::Array(Vec::new())),
    ])])
}

fn must_authenticate(old: bool) -> CommandError {
    let version = if old { "" } else { "<proto> " };
    CommandError::new(format!(
        "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO {version}AUTH <user> \
         <pass> option can be used to authenticate the client and select the RESP protocol version at the same time"
    ))
}

/// CLIENT LIST shows names, so they must not contain separators of fields or lines.
pub(super) fn check_label(what: &str, label: &[u8]) -> Result<(), CommandError> {
    if label.iter().all(|byte| (b'!'..=b'~').contains(byte)) {
        return Ok(());
    }
    Err(CommandError::quoting("ERR ", what.as_bytes(), " cannot contain spaces, newlines or special characters."))
}

const PING: Command = Command::new(
    Handler::Connection(ping),
    CommandSpec {
        usage: "[message]",
        summary: "Returns PONG, or the message.",
        group: Group::Connection,
        since: Since::redis(1, 0, 0),
        arity: Arity::AtLeast(1),
        flags: &[Flag::Fast],
        categories: &[Category::Connection],
        tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
        runs_subscribed: true,
        ..CommandSpec::new("PING")
    },
);

fn ping(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    // A RESP2 client that is subscribed gets a reply shaped like a message.
    let listens = call.session.subscriber && call.session.protocol == Protocol::Resp2;
    match (args.left(), args.optional()) {
        (0 | 1, message) if listens => {
            let message = message.unwrap_or_default().to_vec();
            Ok(Reply::Array(vec![Reply::text("pong"), Reply::bulk(message)]))
        }
        (_, None) => Ok(Reply::Status("PONG")),
        (1, Some(message)) => Ok(Reply::bulk(message.to_vec())),
        _ => Err(CommandError::fixed("ERR wrong number of arguments for 'ping' command")),
    }
}

const QUIT: Command = Command::new(
    Handler::Connection(quit),
    CommandSpec {
        summary: "Closes the connection.",
        group: Group::Connection,
        since: Since::redis(1, 0, 0),
        arity: Arity::AtLeast(1),
        flags: &[Flag::NoScript, Flag::Loading, Flag::Stale, Flag::Fast, Flag::NoAuth, Flag::AllowBusy],
        categories: &[Category::Connection],
        never_queued: true,
        runs_subscribed: true,
        ..CommandSpec::new("QUIT")
    },
);

fn quit(call: &mut Call<'_>, _: &mut Args<'_>) -> CommandResult<'static> {
    call.flow = Flow::Close;
    Ok(Reply::OK)
}

const RESET: Command = Command::new(
    Handler::Connection(reset),
    CommandSpec {
        summary: "Makes the connection what it was when it was opened.",
        group: Group::Connection,
        since: Since::redis(6, 2, 0),
        arity: Arity::Exactly(1),
        flags: &[Flag::NoScript, Flag::Loading, Flag::Stale, Flag::Fast, Flag::NoAuth, Flag::AllowBusy],
        categories: &[Category::Connection],
        never_queued: true,
        runs_subscribed: true,
        names_client: true,
        ..CommandSpec::new("RESET")
    },
);

fn reset(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let Call { server, session, .. } = call;
    server.remove_monitor(&session.client);
    session.client.seen().monitor.store(false, Ordering::Relaxed);
    if session.subscriber {
        server.pubsub.forget(&session.client);
        session.client.take_mail(&mut session.messages_ahead);
        session.subscriber = false;
    }
    session.transaction = None;
    server.unwatch(session);
    server.tracking.stop(session, server.keyspace.settings());
    session.db = 0;
    session.set_protocol(Protocol::Resp2);
    let user = server.acl.default_user();
    session.become_user(user, user.is_open());
    if !matches!(session.at_root, AtRoot::Here) {
        let user = server.fleet().and_then(|fleet| fleet.open_root_user());
        session.at_root = user.map_or(AtRoot::Nobody, AtRoot::As);
    }
    session.client.labels().name.clear();
    if session.replies == Replies::Off {
        session.replies = Replies::On;
    }
    // The library name and version that the client sent remain valid.
    if args.profile().since_redis(7, 2) {
        session.no_touch = false;
        session.import_source = false;
        session.client.seen().no_evict.store(false, Ordering::Relaxed);
    }
    Ok(Reply::Status("RESET"))
}

const SELECT: Command = Command::new(
    Handler::Connection(select),
    CommandSpec {
        usage: "index",
        summary: "Chooses the database that the connection uses.",
        group: Group::Connection,
        since: Since::redis(1, 0, 0),
        arity: Arity::Exactly(2),
        flags: &[Flag::Loading, Flag::Stale, Flag::Fast],
        later_flags: &[(Since::valkey(9, 0, 0), &[Flag::Loading, Flag::Stale, Flag::Fast, Flag::AllowBusy])],
        categories: &[Category::Connection],
        databases: DatabaseArgs::Selected,
        ..CommandSpec::new("SELECT")
    },
);

fn select(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let db = parse_db_index_below(call.server.keyspace.databases(), args.bytes()?)?;
    if call.server.config.live().spaces_by_database.load(Ordering::Relaxed) {
        select_space(call, db)?;
    }
    call.session.db = db;
    Ok(Reply::OK)
}

/// Moves the session to the space named like the database. Database 0 is the root space. A session in a space with
/// another name stays there.
#[cold]
fn select_space(call: &mut Call<'_>, db: u32) -> Result<(), CommandError> {
    if !powers(call) || !call.server.space.iter().all(u8::is_ascii_digit) {
        return Ok(());
    }
    let name = if db == 0 { String::new() } else { db.to_string() };
    let user = call.session.user.name().to_vec();
    go_to(call, name.as_bytes(), &user)
}

const MONITOR: Command = Command::new(
    Handler::Connection(monitor),
    CommandSpec {
        summary: "Shows every command that the server runs, as it happens.",
        group: Group::Server,
        since: Since::redis(1, 0, 0),
        arity: Arity::Exactly(1),
        flags: &[Flag::Admin, Flag::NoScript, Flag::Loading, Flag::Stale],
        for_clients: true,
        ..CommandSpec::new("MONITOR")
    },
);

fn monitor(call: &mut Call<'_>, _: &mut Args<'_>) -> CommandResult<'static> {
    if call.session.executing {
        return Err(CommandError::fixed("ERR MONITOR isn't allowed for DENY BLOCKING client"));
    }
    let client = &call.session.client;
    if client.seen().monitor.swap(true, Ordering::Relaxed) {
        // Redis does not reply to a second MONITOR.
        return Ok(Reply::Nothing);
    }
    call.server.add_monitor(&Arc::clone(client));
    Ok(Reply::OK)
}

const SHUTDOWN: Command = Command::new(
    Handler::Connection(shutdown),
    CommandSpec {
        usage: "[NOSAVE | SAVE]",
        later_usages: &[(Since::redis(7, 0, 0), "[NOSAVE | SAVE] [NOW] [FORCE] [ABORT]")],
        summary: "Ends the server.",
        complexity: "O(N) in the number of keys if they are saved, otherwise O(1)",
        group: Group::Server,
        since: Since::redis(1, 0, 0),
        arity: Arity::AtLeast(1),
        flags: &[Flag::Admin, Flag::NoScript, Flag::Loading, Flag::Stale, Flag::NoMulti, Flag::AllowBusy],
        for_clients: true,
        ..CommandSpec::new("SHUTDOWN")
    },
);

fn shutdown(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let old = !args.profile().since_redis(7, 0);
    if old && args.left() > 1 {
        return Err(CommandError::SYNTAX);
    }
    let (mut save, mut no_save, mut force, mut now, mut abort) = (false, false, false, false, false);
    while !args.is_empty() {
        let known = match () {
            () if args.take("NOSAVE") => &mut no_save,
            () if args.take("SAVE") => &mut save,
            () if !old && args.take("NOW") => &mut now,
            () if !old && args.take("FORCE") => &mut force,
            () if !old && args.take("ABORT") => &mut abort,
            () => return Err(CommandError::SYNTAX),
        };
        *known = true;
    }
    if (save && no_save) || (abort && (save || no_save || now || force)) {
        return Err(CommandError::SYNTAX);
    }
    if abort {
        // A shutdown here never waits, so there is never one to abort.
        return Err(CommandError::fixed("ERR No shutdown in progress."));
    }
    if !no_save && call.server.active_hooks.has(Hook::SlowScript) {
        return Err(call.server.scripts.busy_error());
    }
    call.permit_at_root(args)?;
    let asked = if no_save { Some(false) } else { save.then_some(true) };
    let saved = match call.server.fleet() {
        Some(fleet) => fleet.save_at_end(asked),
        None => call.server.save_at_end(asked),
    };
    if saved.is_err() && !force {
        return Err(CommandError::fixed("ERR Errors trying to SHUTDOWN. Check logs."));
    }
    call.server.shut_down();
    call.flow = Flow::Drop;
    Ok(Reply::Nothing)
}
