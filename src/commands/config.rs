//! CONFIG GET, SET, RESETSTAT and REWRITE.

use super::help::help;
use crate::base::error::{CommandError, plain};
use crate::base::profile::Since;
use crate::clients::config::{Config, ConfigError};
use crate::commands::{Call, Command, CommandResult, Handler, ON_EVERY_NODE};
use crate::protocol::{Reply, until_nul};
use crate::spec::{Args, Arity, CommandSpec, Flag, Group, Secrets};

pub(super) const ROWS: &[Command] = &[CONFIG];

const CONFIG: Command = Command::container(
    CommandSpec {
        summary: "Reads and changes the server's configuration.",
        complexity: "Depends on the subcommand.",
        group: Group::Server,
        since: Since::redis(2, 0, 0),
        arity: Arity::AtLeast(2),
        ..CommandSpec::new("CONFIG")
    },
    &[
        Command::new(
            Handler::Connection(rewrite),
            CommandSpec {
                summary: "Brings the configuration file up to date.",
                group: Group::Server,
                since: Since::redis(2, 8, 0),
                arity: Arity::Exactly(2),
                flags: FLAGS,
                later_tips: ON_EVERY_NODE,
                ..CommandSpec::new("REWRITE")
            },
        ),
        Command::new(
            Handler::Connection(resetstat),
            CommandSpec {
                summary: "Sets the counters that INFO shows back to zero.",
                group: Group::Server,
                since: Since::redis(2, 0, 0),
                arity: Arity::Exactly(2),
                flags: FLAGS,
                later_tips: ON_EVERY_NODE,
                ..CommandSpec::new("RESETSTAT")
            },
        ),
        Command::new(
            Handler::Connection(get),
            CommandSpec {
                usage: "parameter [parameter ...]",
                summary: "Returns the settings that match names or patterns.",
                complexity: "O(N) with N the number of names and patterns.",
                group: Group::Server,
                since: Since::redis(2, 0, 0),
                arity: Arity::AtLeast(3),
                flags: FLAGS,
                secrets: Secrets::SettingsInReply,
                ..CommandSpec::new("GET")
            },
        ),
        Command::new(
            Handler::Connection(|call, _| help(call.table, "CONFIG", HELP)),
            CommandSpec {
                summary: "Lists the subcommands.",
                group: Group::Server,
                since: Since::redis(5, 0, 0),
                arity: Arity::Exactly(2),
                flags: &[Flag::Loading, Flag::Stale],
                ..CommandSpec::new("HELP")
            },
        ),
        Command::new(
            Handler::Connection(set),
            CommandSpec {
                usage: "parameter value [parameter value ...]",
                summary: "Changes settings, all of them or none.",
                complexity: "O(N) with N the number of settings.",
                group: Group::Server,
                since: Since::redis(2, 0, 0),
                arity: Arity::AtLeast(4),
                flags: FLAGS,
                tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
                secrets: Secrets::Settings,
                ..CommandSpec::new("SET")
            },
        ),
    ],
);

const FLAGS: &[Flag] = &[Flag::Admin, Flag::NoScript, Flag::Loading, Flag::Stale];

fn get(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let profile = args.profile();
    if args.left() > 1 && !profile.since_redis(7, 0) {
        return Err(wrong_number_6_2(args));
    }
    let found = call.server.config.matching(std::iter::from_fn(|| args.optional()), profile);
    Ok(Reply::Map(found.into_iter().map(|(name, value)| (Reply::bulk(name), Reply::bulk(value))).collect()))
}

fn set(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let profile = args.profile();
    let old = !profile.since_redis(7, 0);
    if old && args.left() > 2 {
        return Err(wrong_number_6_2(args));
    }
    if !args.left().is_multiple_of(2) {
        return Err(CommandError::SYNTAX);
    }
    let mut pairs = Vec::with_capacity(args.left() / 2);
    while !args.is_empty() {
        pairs.push((args.bytes()?, args.bytes()?));
    }
    // If there are more, one of them is unknown or comes twice, and all are refused.
    let mut first = pairs.iter().take(Config::MOST_PARAMETERS);
    let is_of_process = first.any(|(name, _)| call.server.config.is_of_process(name, profile));
    if is_of_process {
        call.permit_at_root(args)?;
    }
    let is_local = call.session.client.peer().is_local();
    let result = call.server.config.set(&pairs, profile, is_local);
    call.server.apply_settings();
    if is_of_process {
        call.server.apply_log_level();
    }
    result.map_err(|refusal| {
        if let ConfigError::Value { name, log: Some(failure), .. } = &refusal {
            let setting = String::from_utf8_lossy(name);
            call.server.log.warn(failure);
            call.server.log.warn(format!(
                "Failed applying new configuration. Possibly related to new {setting} setting. Restoring previous settings."
            ));
        }
        if old {
            set_error_6_2(refusal, pairs.first().map(|pair| pair.1).unwrap_or_default())
        } else {
            set_error(refusal)
        }
    })?;
    Ok(Reply::OK)
}

fn set_error(refusal: ConfigError) -> CommandError {
    let (mut line, rest) = match refusal {
        ConfigError::Unknown { name } => {
            let mut line = b"ERR Unknown option or number of arguments for CONFIG SET - '".to_vec();
            line.extend(until_nul(&name));
            (line, "'".to_owned())
        }
        ConfigError::Value { name, reason, .. } => {
            let mut line = b"ERR CONFIG SET failed (possibly related to argument '".to_vec();
            line.extend(until_nul(&name));
            (line, format!("') - {reason}"))
        }
    };
    line.extend(rest.into_bytes());
    CommandError::new(line)
}

/// The error of CONFIG SET in Redis 6.2, which does not distinguish unknown from immutable settings.
fn set_error_6_2(refusal: ConfigError, value: &[u8]) -> CommandError {
    match refusal {
        ConfigError::Value { name, reason, .. } if !reason.starts_with("can't set ") => {
            let mut line = b"ERR Invalid argument '".to_vec();
            line.extend(until_nul(value));
            line.extend(b"' for CONFIG SET '");
            line.extend(until_nul(&name));
            line.extend(format!("' - {reason}").into_bytes());
            CommandError::new(line)
        }
        ConfigError::Value { name, .. } | ConfigError::Unknown { name } => {
            let mut line = b"ERR Unsupported CONFIG parameter: ".to_vec();
            line.extend(until_nul(&name));
            CommandError::new(line)
        }
    }
}

fn wrong_number_6_2(args: &Args<'_>) -> CommandError {
    let mut line = b"ERR Unknown subcommand or wrong number of arguments for '".to_vec();
    line.extend(until_nul(args.words().get(1).unwrap_or_default()));
    line.extend(b"'. Try CONFIG HELP.");
    CommandError::new(line)
}

fn rewrite(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    call.permit_at_root(args)?;
    let config = &call.server.config;
    let users = if config.path("aclfile").is_none() { call.server.acl.lines() } else { Vec::new() };
    match config.rewrite(args.profile(), &users) {
        None => Err(CommandError::fixed("ERR The server is running without a config file")),
        Some(Ok(())) => {
            call.server.log.notice("CONFIG REWRITE executed with success.");
            Ok(Reply::OK)
        }
        Some(Err(error)) => {
            let reason = plain(&error);
            call.server.log.warn(format!("CONFIG REWRITE failed: {reason}"));
            Err(CommandError::new(format!("ERR Rewriting config file: {reason}")))
        }
    }
}

fn resetstat(call: &mut Call<'_>, _: &mut Args<'_>) -> CommandResult<'static> {
    call.server.reset_statistics();
    Ok(Reply::OK)
}

const HELP: &[&str] = &[
    "CONFIG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "GET <pattern>",
    "    Return parameters matching the glob-like <pattern> and their values.",
    "SET <directive> <value>",
    "    Set the configuration <directive> to <value>.",
    "RESETSTAT",
    "    Reset statistics reported by the INFO command.",
    "REWRITE",
    "    Rewrite the configuration file.",
    "HELP",
    "    Prints this help.",
];
