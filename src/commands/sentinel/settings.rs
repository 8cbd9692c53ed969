//! SENTINEL SET and SENTINEL CONFIG.

use super::{found, seat};
use crate::base::error::CommandError;
use crate::base::glob;
use crate::clients::sentinel::{Monitored, Sentinel};
use crate::commands::{Call, CommandResult};
use crate::protocol::{Reply, parse_integer};
use crate::spec::Args;

const NO_SCRIPTS: CommandError = CommandError::fixed(
    "ERR Reconfiguration of scripts path is denied for security reasons. Check the deny-scripts-reconfig configuration \
     directive in your Sentinel configuration",
);

/// The longest value that is a text.
const LONGEST_TEXT: usize = 1024;

pub(super) fn set(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let name = args.bytes()?;
    seat(call)?.with(|desk| {
        found(desk, name)?;
        while let Some(option) = args.optional() {
            let naming = desk.sentinel().naming();
            let master = found(desk, name)?;
            let shown = set_one(master, option, args)?;
            let text = format!("{} {}", master.describe(naming), String::from_utf8_lossy(&shown));
            desk.publish("+set", &text);
        }
        Ok(Reply::OK)
    })
}

/// Sets an option. Returns it as it is announced.
fn set_one(master: &mut Monitored, option: &[u8], args: &mut Args<'_>) -> Result<Vec<u8>, CommandError> {
    let unknown = || CommandError::quoting("ERR Unknown option or number of arguments for SENTINEL SET '", option, "'");
    let name = option.to_ascii_lowercase();
    if name == b"rename-command" {
        let (Some(from), Some(to)) = (args.optional(), args.optional()) else { return Err(unknown()) };
        // Sentinels of this process send servers no commands.
        return Ok([option, b" ", limited(from)?, b" ", limited(to)?].concat());
    }
    let is_known = [
        b"down-after-milliseconds".as_slice(),
        b"failover-timeout",
        b"parallel-syncs",
        b"quorum",
        b"master-reboot-down-after-period",
        b"auth-user",
        b"auth-pass",
        b"notification-script",
        b"client-reconfig-script",
    ]
    .contains(&name.as_slice());
    let value = args.optional().filter(|_| is_known).ok_or_else(unknown)?;
    let wrong = || {
        let text = [b"ERR Invalid argument '".as_slice(), value, b"' for SENTINEL SET '", option, b"'"].concat();
        CommandError::new(text)
    };
    let number = |least: i64| parse_integer(value).filter(|number| *number >= least).ok_or_else(wrong);
    let narrow = |least: i64| number(least).and_then(|number| u32::try_from(number).map_err(|_| wrong()));
    match name.as_slice() {
        b"down-after-milliseconds" => master.down_after = number(1)?,
        b"failover-timeout" => master.failover_timeout = number(1)?,
        b"parallel-syncs" => master.parallel_syncs = narrow(0)?,
        b"quorum" => master.quorum = narrow(1)? as usize,
        // A master that was restarted is up at once, and nobody has to give it a password.
        b"master-reboot-down-after-period" => drop(number(0)?),
        b"auth-user" => drop(limited(value)?.len()),
        b"auth-pass" => return Ok([option, b" ******"].concat()),
        _ => return Err(NO_SCRIPTS),
    }
    Ok([option, b" ", value].concat())
}

fn limited(text: &[u8]) -> Result<&[u8], CommandError> {
    if text.len() > LONGEST_TEXT {
        return Err(CommandError::new(format!("ERR the value is longer than {LONGEST_TEXT} bytes")));
    }
    Ok(text)
}

// ---- SENTINEL CONFIG

const USAGE: CommandError =
    CommandError::fixed("ERR Only SENTINEL CONFIG GET <option> / SET <option> <value> are supported.");

pub(super) fn config(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    match args.left() {
        2 if args.take("GET") => {
            let pattern = args.bytes()?;
            seat(call)?.with(|desk| Ok(Reply::Map(options(desk.sentinel(), pattern))))
        }
        3 if args.take("SET") => {
            let (option, value) = (args.bytes()?, args.bytes()?);
            seat(call)?.with(|desk| set_option(desk.sentinel(), option, value))
        }
        _ => Err(USAGE),
    }
}

fn options(sentinel: &Sentinel, pattern: &[u8]) -> Vec<(Reply<'static>, Reply<'static>)> {
    let options = &sentinel.options;
    let yes_or_no = |is_on: bool| if is_on { "yes" } else { "no" }.to_owned();
    let all = [
        ("resolve-hostnames", yes_or_no(options.resolve_hostnames)),
        ("announce-hostnames", yes_or_no(options.announce_hostnames)),
        ("announce-ip", options.announce_ip.clone()),
        ("announce-port", options.announce_port.to_string()),
        ("sentinel-user", options.sentinel_user.clone()),
        ("sentinel-pass", options.sentinel_pass.clone()),
    ];
    let asked = all.into_iter().filter(|(name, _)| glob::matches(pattern, name.as_bytes(), true));
    asked.map(|(name, value)| (Reply::text(name), Reply::text(value))).collect()
}

fn set_option(sentinel: &mut Sentinel, option: &[u8], value: &[u8]) -> CommandResult<'static> {
    let wrong = || {
        let text = [b"ERR Invalid value '".as_slice(), value, b"' to SENTINEL CONFIG SET '", option, b"'"].concat();
        CommandError::new(text)
    };
    let switch = || match value.to_ascii_lowercase().as_slice() {
        b"yes" => Ok(true),
        b"no" => Ok(false),
        _ => Err(wrong()),
    };
    let text = || std::str::from_utf8(limited(value)?).map(str::to_owned).map_err(|_| wrong());
    let options = &mut sentinel.options;
    match option.to_ascii_lowercase().as_slice() {
        b"resolve-hostnames" => options.resolve_hostnames = switch()?,
        b"announce-hostnames" => options.announce_hostnames = switch()?,
        b"announce-ip" => options.announce_ip = text()?,
        b"announce-port" => {
            let port = parse_integer(value).and_then(|port| u16::try_from(port).ok());
            options.announce_port = port.ok_or_else(wrong)?;
        }
        b"sentinel-user" => options.sentinel_user = text()?,
        b"sentinel-pass" => options.sentinel_pass = text()?,
        _ => return Err(CommandError::quoting("ERR Invalid argument '", option, "' to SENTINEL CONFIG SET")),
    }
    Ok(Reply::OK)
}
