//! The library `redis`.

use super::arguments::truncated;
use super::compiled::ScriptKind;
use super::convert::{push_error, push_reply, raise};
use super::lua::{Frame, LuaError, LuaType, NativeFn};
use super::register::register_function;
use super::texts;
use crate::base::error::CommandError;
use crate::base::log::Level;
use crate::base::profile::{Family, Profile, Since, Version};
use crate::protocol::{OwnedWords, Protocol, write_integer};

const NATIVES: &[(&str, NativeFn)] = &[
    ("call", call),
    ("pcall", pcall),
    ("setresp", setresp),
    ("sha1hex", sha1hex),
    ("error_reply", error_reply),
    ("status_reply", status_reply),
    ("set_repl", set_repl),
];
/// Functions that only scripts of EVAL have.
const NATIVES_FOR_EVAL: &[(&str, NativeFn)] =
    &[("replicate_commands", replicate_commands), ("breakpoint", breakpoint), ("debug", debug)];
const LEVELS: &[(&str, u8)] = &[("LOG_DEBUG", 0), ("LOG_VERBOSE", 1), ("LOG_NOTICE", 2), ("LOG_WARNING", 3)];
const REPLICATION: &[(&str, u8)] =
    &[("REPL_NONE", 0), ("REPL_AOF", 1), ("REPL_SLAVE", 2), ("REPL_REPLICA", 2), ("REPL_ALL", 3)];

/// Pushes the table of the library, with the functions of the profile's release.
pub fn open(frame: &mut Frame<'_>, kind: ScriptKind, profile: &Profile) {
    frame.push_table(0, 32);
    frame.set_natives(NATIVES);
    if kind == ScriptKind::Eval {
        frame.set_natives(NATIVES_FOR_EVAL);
    }
    if profile.since_redis(7, 0) {
        frame.set_natives(&[("acl_check_cmd", acl_check_cmd)]);
    }
    set_numbers(frame, REPLICATION);
    set_logging(frame);
    set_versions(frame, profile);
}

/// Pushes the smaller table that the code of a library has while it loads.
pub fn open_for_loading(frame: &mut Frame<'_>, profile: &Profile) {
    frame.push_table(0, 16);
    frame.set_natives(&[("register_function", register_function)]);
    set_logging(frame);
    set_versions(frame, profile);
}

fn set_logging(frame: &mut Frame<'_>) {
    frame.set_natives(&[("log", log)]);
    set_numbers(frame, LEVELS);
}

fn set_numbers(frame: &mut Frame<'_>, numbers: &[(&str, u8)]) {
    for (name, number) in numbers {
        frame.push_number(f64::from(*number));
        frame.raw_set_field(-2, name);
    }
}

fn set_versions(frame: &mut Frame<'_>, profile: &Profile) {
    if profile.since_redis(7, 0) {
        set_version(frame, "REDIS", profile.redis_version());
    }
    if profile.family() == Family::Valkey {
        set_version(frame, "VALKEY", profile.version());
        frame.push_bytes("valkey");
        frame.raw_set_field(-2, "SERVER_NAME");
    }
}

fn set_version(frame: &mut Frame<'_>, family: &str, version: Version) {
    frame.push_bytes(version.to_string());
    frame.raw_set_field(-2, &format!("{family}_VERSION"));
    let Version(major, minor, patch) = version;
    frame.push_number(f64::from((u32::from(major) << 16) | (u32::from(minor) << 8) | u32::from(patch)));
    frame.raw_set_field(-2, &format!("{family}_VERSION_NUM"));
}

/// The error handler: makes of any error a table with its message and the place where it was raised. Lua calls it at
/// that place.
pub fn handle_error(frame: &mut Frame<'_>) -> Result<usize, LuaError> {
    frame.set_top(1);
    if frame.kind(1) != LuaType::Table {
        let mut message = b"ERR ".to_vec();
        match frame.kind(1) {
            LuaType::String | LuaType::Number => message.extend_from_slice(frame.to_bytes(1).unwrap_or_default()),
            LuaType::Boolean => message.extend_from_slice(if frame.boolean(1) { b"true" } else { b"false" }),
            LuaType::None | LuaType::Nil => message.extend_from_slice(b"nil"),
            LuaType::Function | LuaType::Other | LuaType::Table => message.extend_from_slice(name_of(frame).as_bytes()),
        }
        frame.push_table(0, 3);
        frame.push_bytes(message);
        frame.raw_set_field(2, "err");
        frame.remove(1);
    }
    // Level 0 is this function. Level 1 raised the error: a function of a library, or the script.
    let place = frame.location(1).and_then(|place| if place.native { frame.location(2) } else { Some(place) });
    if let Some(place) = place {
        frame.push_bytes(place.source);
        frame.raw_set_field(1, "source");
        frame.push_number(f64::from(place.line));
        frame.raw_set_field(1, "line");
    }
    Ok(1)
}

/// The text that `tostring` makes of a table, function or userdata.
fn name_of(frame: &Frame<'_>) -> String {
    let address = match frame.address(1) {
        0 => "(nil)".to_owned(),
        address => format!("{address:#x}"),
    };
    format!("{}: {address}", frame.type_name(1))
}

fn call(frame: &mut Frame<'_>) -> Result<usize, LuaError> {
    run(frame, true)
}

fn pcall(frame: &mut Frame<'_>) -> Result<usize, LuaError> {
    run(frame, false)
}

/// A reply of so many bytes counts as many instructions, and is checked against the limit of memory first.
const LONG_REPLY: usize = 1 << 16;

/// Runs a command. Its error is raised (`redis.call`) or returned to the script (`redis.pcall`).
fn run(frame: &mut Frame<'_>, raising: bool) -> Result<usize, LuaError> {
    if frame.counts_call() {
        frame.tick()?;
    }
    let host = frame.host();
    let mut scratch = host.scratch().borrow_mut();
    let scratch = &mut *scratch;
    scratch.reply.clear();
    let refused = match collect_words(frame, host.profile(), &mut scratch.words) {
        Ok(()) => {
            frame.set_top(0);
            host.call(scratch.words.as_words(), &mut scratch.reply).err().map(|error| (error, true))
        }
        Err(error) => Some((error, false)),
    };
    if let Some((error, counted)) = refused {
        push_error(frame, error.line(), !counted);
        return if raising { Err(LuaError) } else { Ok(1) };
    }
    if scratch.reply.len() > LONG_REPLY {
        frame.tick()?;
        frame.check_memory(scratch.reply.len())?;
    }
    let failed = scratch.reply.first() == Some(&b'-');
    if push_reply(frame, &scratch.reply).is_none() {
        return Err(frame.error("reply is nested too deeply"));
    }
    if raising && failed { Err(LuaError) } else { Ok(1) }
}

/// Reads the arguments as the words of a request. They are strings or numbers.
fn collect_words(frame: &Frame<'_>, profile: &Profile, words: &mut OwnedWords) -> Result<(), CommandError> {
    words.clear();
    let count = frame.top();
    if count == 0 {
        return Err(texts::no_arguments(profile));
    }
    for index in 1..=count {
        match frame.kind(index) {
            LuaType::String => words.push(frame.bytes(index).unwrap_or_default()),
            LuaType::Number => push_number(words, frame.number(index).unwrap_or_default(), profile),
            _ => return Err(texts::bad_argument(profile)),
        }
    }
    Ok(())
}

/// Adds a number as a word.
pub(super) fn push_number(words: &mut OwnedWords, value: f64, profile: &Profile) {
    let mut text = Vec::with_capacity(24);
    write_argument(&mut text, value, profile);
    words.push(&text);
}

/// Writes a number as a word: with 17 digits up to Redis 7.0, with the shortest digits since.
pub(super) fn write_argument(out: &mut Vec<u8>, value: f64, profile: &Profile) {
    // Redis writes the sign of NaN, too.
    if value.is_nan() && value.is_sign_negative() {
        out.push(b'-');
    }
    if !profile.since_redis(7, 2) {
        crate::protocol::write_double(out, value);
    } else if crate::protocol::is_whole(value) {
        write_integer(out, value as i64);
    } else {
        crate::protocol::write_shortest(out, value);
    }
}

/// The releases that speak of log levels.
const LOG_LEVELS: Since = Since::each(Version(7, 4, 0), Version(8, 0, 0));
/// Raises an error whose text names the library.
pub(super) fn raise_of_library(frame: &mut Frame<'_>, text: &str) -> LuaError {
    let text = texts::of_library(frame.host().profile(), text);
    raise(frame, text.as_bytes())
}

fn log(frame: &mut Frame<'_>) -> Result<usize, LuaError> {
    if frame.top() < 2 {
        return Err(raise_of_library(frame, "ERR redis.log() requires two arguments or more."));
    }
    if frame.kind(1) != LuaType::Number && frame.number(1).is_none() {
        return Err(raise(frame, b"ERR First argument must be a number (log level)."));
    }
    let level = match truncated(frame.number(1).unwrap_or_default()) {
        0 => Level::Debug,
        1 => Level::Verbose,
        2 => Level::Notice,
        3 => Level::Warning,
        _ if frame.host().profile().has(LOG_LEVELS) => return Err(raise(frame, b"ERR Invalid log level.")),
        _ => return Err(raise(frame, b"ERR Invalid debug level.")),
    };
    let parts: Vec<_> = (2..=frame.top())
        .filter_map(|index| frame.to_bytes(index))
        .map(|part| String::from_utf8_lossy(part).into_owned())
        .collect();
    frame.host().log(level, &parts.join(" "));
    Ok(0)
}

fn setresp(frame: &mut Frame<'_>) -> Result<usize, LuaError> {
    if frame.top() != 1 {
        return Err(raise_of_library(frame, "ERR redis.setresp() requires one argument."));
    }
    let protocol = match frame.number(1).map(truncated) {
        Some(2) => Protocol::Resp2,
        Some(3) => Protocol::Resp3,
        _ => return Err(raise(frame, b"ERR RESP version must be 2 or 3.")),
    };
    frame.host().set_protocol(protocol);
    Ok(0)
}

fn sha1hex(frame: &mut Frame<'_>) -> Result<usize, LuaError> {
    if frame.top() != 1 {
        return Err(raise(frame, b"ERR wrong number of arguments"));
    }
    let digest = sha1_smol::Sha1::from(frame.to_bytes(1).unwrap_or_default()).digest();
    frame.push_bytes(digest.to_string());
    Ok(1)
}

/// Returns `{err = …}`. The message begins with the code that the script gave after `-`, or with `ERR`.
fn error_reply(frame: &mut Frame<'_>) -> Result<usize, LuaError> {
    if frame.top() != 1 || frame.kind(1) != LuaType::String {
        push_error(frame, b"ERR wrong number or type of arguments", true);
        return Ok(1);
    }
    let message = frame.bytes(1).unwrap_or_default();
    let end = message.iter().rposition(|byte| !matches!(byte, b'\r' | b'\n')).map_or(0, |last| last + 1);
    let message = message[..end].strip_prefix(b"-").unwrap_or(&message[..end]);
    let line = if message.contains(&b' ') { message.to_vec() } else { [b"ERR ", message].concat() };
    push_error(frame, &line, true);
    Ok(1)
}

fn status_reply(frame: &mut Frame<'_>) -> Result<usize, LuaError> {
    if frame.top() != 1 || frame.kind(1) != LuaType::String {
        push_error(frame, b"ERR wrong number or type of arguments", true);
        return Ok(1);
    }
    frame.push_table(0, 1);
    frame.push_value(1);
    frame.raw_set_field(-2, "ok");
    Ok(1)
}

/// The flag of `redis.set_repl` for replicas.
const REPLICAS: i64 = 2;

fn set_repl(frame: &mut Frame<'_>) -> Result<usize, LuaError> {
    if frame.top() != 1 {
        let text = if frame.host().profile().since_redis(7, 2) {
            "ERR redis.set_repl() requires one argument."
        } else {
            "ERR redis.set_repl() requires two arguments."
        };
        return Err(raise_of_library(frame, text));
    }
    let flags = truncated(frame.number(1).unwrap_or_default());
    if flags & !3 != 0 {
        let text = b"ERR Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.";
        return Err(raise(frame, text));
    }
    frame.host().set_replicating(flags & REPLICAS != 0);
    Ok(0)
}

fn replicate_commands(frame: &mut Frame<'_>) -> Result<usize, LuaError> {
    frame.push_boolean(true);
    Ok(1)
}

/// There is no debugger, so no breakpoint stops.
fn breakpoint(frame: &mut Frame<'_>) -> Result<usize, LuaError> {
    frame.push_boolean(false);
    Ok(1)
}

fn debug(_: &mut Frame<'_>) -> Result<usize, LuaError> {
    Ok(0)
}

fn acl_check_cmd(frame: &mut Frame<'_>) -> Result<usize, LuaError> {
    let host = frame.host();
    let mut scratch = host.scratch().borrow_mut();
    let verdict =
        collect_words(frame, host.profile(), &mut scratch.words).map(|()| host.may_run(scratch.words.as_words()));
    match verdict {
        Ok(Some(may)) => {
            frame.push_boolean(may);
            Ok(1)
        }
        Ok(None) => Err(raise_of_library(frame, "ERR Invalid command passed to redis.acl_check_cmd()")),
        Err(error) => Err(raise(frame, error.line())),
    }
}
