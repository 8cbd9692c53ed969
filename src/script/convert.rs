//! Values between Redis and Lua: replies of commands become Lua values, and what a script returns becomes a reply.

use std::cell::Cell;

use super::arguments::truncated;
use super::host::Host;
use super::lua::{Frame, LuaError, LuaType};
use crate::base::profile::Family;
use crate::protocol::{Protocol, Reply, parse_float, parse_integer, write_integer};

/// Pushes a reply, given in the wire format. Returns the bytes after it.
pub fn push_reply<'r>(frame: &mut Frame<'_>, reply: &'r [u8]) -> Option<&'r [u8]> {
    // A nested reply takes at most three stack slots until it is added to its parent.
    if !frame.reserve(8) {
        return None;
    }
    let (&kind, rest) = reply.split_first()?;
    let (line, rest) = split_line(rest)?;
    match kind {
        b'+' => {
            frame.push_table(0, 1);
            frame.push_bytes(line);
            frame.raw_set_field(-2, "ok");
        }
        b'-' => push_error(frame, line, false),
        b':' => frame.push_number(parse_integer(line)? as f64),
        b'$' => return push_bulk(frame, line, rest),
        b'*' | b'>' => return push_array(frame, parse_integer(line)?, rest),
        b'_' => frame.push_nil(),
        b'#' => frame.push_boolean(line == b"t"),
        b',' => {
            frame.push_table(0, 1);
            frame.push_number(parse_double(line));
            frame.raw_set_field(-2, "double");
        }
        b'(' => {
            frame.push_table(0, 1);
            frame.push_bytes(line);
            frame.raw_set_field(-2, "big_number");
        }
        b'=' => return push_verbatim(frame, parse_integer(line)?, rest),
        b'%' => return push_pairs(frame, "map", parse_integer(line)?, rest),
        b'~' => return push_pairs(frame, "set", parse_integer(line)?, rest),
        // Scripts do not get attributes: the value follows the attribute.
        b'|' => {
            let rest = push_pairs(frame, "map", parse_integer(line)?, rest)?;
            frame.pop(1);
            return push_reply(frame, rest);
        }
        _ => return None,
    }
    Some(rest)
}

/// A field in the table of an error that was counted when it was raised.
const COUNTED: &str = "ignore_error_stats_update";

/// Whether the error in a table was counted already.
pub fn is_counted(frame: &mut Frame<'_>, error: i32) -> bool {
    let counted = frame.raw_get_field(error, COUNTED) == LuaType::Boolean && frame.boolean(-1);
    frame.pop(1);
    counted
}

/// Pushes an error as the table that scripts get. `uncounted` errors are counted when they end the script.
pub fn push_error(frame: &mut Frame<'_>, line: &[u8], uncounted: bool) {
    frame.push_table(0, 2);
    frame.push_bytes(line);
    frame.raw_set_field(-2, "err");
    if !uncounted {
        frame.push_boolean(true);
        frame.raw_set_field(-2, COUNTED);
    }
}

/// Raises an error of a command: a table, without a position.
pub(super) fn raise(frame: &mut Frame<'_>, line: &[u8]) -> LuaError {
    push_error(frame, line, true);
    LuaError
}

fn push_bulk<'r>(frame: &mut Frame<'_>, length: &[u8], rest: &'r [u8]) -> Option<&'r [u8]> {
    let Ok(length) = usize::try_from(parse_integer(length)?) else {
        frame.push_boolean(false);
        return Some(rest);
    };
    frame.push_bytes(rest.get(..length)?);
    rest.get(length + 2..)
}

fn push_array<'r>(frame: &mut Frame<'_>, length: i64, mut rest: &'r [u8]) -> Option<&'r [u8]> {
    let Ok(length) = i32::try_from(length) else { return None };
    if length < 0 {
        frame.push_boolean(false);
        return Some(rest);
    }
    frame.push_table(room_for(frame, length as usize), 0);
    for element in 1..=length {
        rest = push_reply(frame, rest)?;
        frame.raw_set_index(-2, element);
    }
    Some(rest)
}

/// How many elements a table is made for. That decides what Lua takes for the length of a table with nils, which replies of RESP3
/// have: Valkey makes room for all, Redis for none.
fn room_for(frame: &Frame<'_>, length: usize) -> usize {
    let host = frame.host();
    if host.protocol() == Protocol::Resp3 && host.profile().family() == Family::Redis { 0 } else { length }
}

/// Pushes a map as `{map = {key = value}}` or a set as `{set = {element = true}}`.
fn push_pairs<'r>(frame: &mut Frame<'_>, field: &str, length: i64, mut rest: &'r [u8]) -> Option<&'r [u8]> {
    let length = usize::try_from(length).ok()?;
    frame.push_table(0, 1);
    // The table is not preallocated: the order in which Lua iterates over a table depends on how the table grew.
    frame.push_table(0, 0);
    for _ in 0..length {
        rest = push_reply(frame, rest)?;
        if field == "set" {
            frame.push_boolean(true);
        } else {
            rest = push_reply(frame, rest)?;
        }
        // A Lua table cannot have nil as a key.
        if frame.kind(-2) == LuaType::Nil { frame.pop(2) } else { frame.raw_set(-3) }
    }
    frame.raw_set_field(-2, field);
    Some(rest)
}

fn push_verbatim<'r>(frame: &mut Frame<'_>, length: i64, rest: &'r [u8]) -> Option<&'r [u8]> {
    let length = usize::try_from(length).ok()?;
    let (format, text) = rest.get(..length)?.split_at_checked(4)?;
    frame.push_table(0, 1);
    frame.push_table(0, 2);
    frame.push_bytes(text);
    frame.raw_set_field(-2, "string");
    frame.push_bytes(&format[..3]);
    frame.raw_set_field(-2, "format");
    frame.raw_set_field(-2, "verbatim_string");
    rest.get(length + 2..)
}

pub(super) fn split_line(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = memchr::memchr(b'\r', bytes)?;
    Some((&bytes[..end], bytes.get(end + 2..)?))
}

fn parse_double(text: &[u8]) -> f64 {
    if text.ends_with(b"nan") { f64::NAN } else { parse_float(text).unwrap_or_default() }
}

// ---- from Lua

/// Converts the value on top of the stack to a reply, appends it, and pops the value. `client` is the client's
/// protocol, which may differ from the script's.
pub fn write_value(frame: &mut Frame<'_>, host: &dyn Host, client: Protocol, out: &mut Vec<u8>) {
    let start = out.len();
    let max_len = start.saturating_add(MAX_REPLY_BYTES);
    let target = Target { host, client, max_len, values: Cell::new(0), refusal: Cell::new(None) };
    write_any(frame, &target, out);
    if let Some(message) = target.refusal.get() {
        host.answer_error(message.as_bytes(), false);
        out.truncate(start);
        write_error(message.as_bytes(), out);
    }
}

/// The size limit of a reply. Tables that contain each other make an endless one.
pub(super) const MAX_REPLY_BYTES: usize = 512 << 20;
pub(super) const TOO_LONG: &str = "ERR the reply of the script is too long";
/// The number of values between two calls of [`Host::tick`].
const TICK: u32 = 20_000;

/// The target of a reply, and its limits.
struct Target<'h> {
    host: &'h dyn Host,
    client: Protocol,
    /// The largest length of the output.
    max_len: usize,
    /// Values written since the last call of [`Host::tick`].
    values: Cell<u32>,
    /// The error that replaces the reply.
    refusal: Cell<Option<&'static str>>,
}

impl Target<'_> {
    /// Whether writing may continue.
    fn may_continue(&self, written: usize) -> bool {
        self.values.set(self.values.get() + 1);
        if self.refusal.get().is_none() {
            if written > self.max_len {
                self.refusal.set(Some(TOO_LONG));
            } else if self.values.get() >= TICK {
                self.values.set(0);
                self.refusal.set(self.host.tick().err());
            }
        }
        self.refusal.get().is_none()
    }
}

fn write_any(frame: &mut Frame<'_>, target: &Target<'_>, out: &mut Vec<u8>) {
    if !target.may_continue(out.len()) {
        frame.pop(1);
        return;
    }
    if !frame.reserve(8) {
        out.extend_from_slice(b"-ERR reached lua stack limit\r\n");
        frame.pop(1);
        return;
    }
    match frame.kind(-1) {
        LuaType::String => write_bulk(frame.bytes(-1).unwrap_or_default(), out),
        LuaType::Number => write_number(frame.number(-1).unwrap_or_default(), out),
        LuaType::Boolean => {
            let value = frame.boolean(-1);
            match (target.host.protocol(), target.client) {
                (Protocol::Resp3, Protocol::Resp3) => out.extend_from_slice(if value { b"#t\r\n" } else { b"#f\r\n" }),
                (Protocol::Resp2, _) if !value => write_null(target.client, out),
                _ => write_number(if value { 1.0 } else { 0.0 }, out),
            }
        }
        LuaType::Table => return write_table(frame, target, out),
        _ => write_null(target.client, out),
    }
    frame.pop(1);
}

/// Writes a table: by its special field (`err`, `ok`, `map`, …), or as an array.
fn write_table(frame: &mut Frame<'_>, target: &Target<'_>, out: &mut Vec<u8>) {
    let resp3 = target.client == Protocol::Resp3;
    for field in ["err", "ok", "double", "map", "set", "big_number", "verbatim_string"] {
        let kind = frame.raw_get_field(-1, field);
        match (field, kind) {
            ("err", LuaType::String) => {
                let is_counted = is_counted(frame, -2);
                target.host.answer_error(frame.bytes(-1).unwrap_or_default(), is_counted);
                write_error(frame.bytes(-1).unwrap_or_default(), out);
            }
            ("ok", LuaType::String) => {
                write_line(b'+', crate::protocol::until_nul(frame.bytes(-1).unwrap_or_default()), out);
            }
            ("double", LuaType::Number) => {
                let (value, is_short) = (frame.number(-1).unwrap_or_default(), target.host.profile().since_redis(7, 2));
                let reply = if is_short { Reply::ShortDouble(value) } else { Reply::Double(value) };
                reply.write(target.client, out);
            }
            ("map" | "set", LuaType::Table) => {
                write_pairs(frame, field == "map", target, out);
            }
            ("big_number", LuaType::String) if resp3 => write_line(b'(', frame.bytes(-1).unwrap_or_default(), out),
            ("big_number", LuaType::String) => {
                let digits: Vec<u8> = one_line(frame.bytes(-1).unwrap_or_default()).collect();
                write_bulk(&digits, out);
            }
            ("verbatim_string", LuaType::Table) => {
                let text = frame.raw_get_field(-1, "string") == LuaType::String;
                let format = frame.raw_get_field(-2, "format") == LuaType::String;
                if text && format {
                    write_verbatim(
                        frame.bytes(-2).unwrap_or_default(),
                        frame.bytes(-1).unwrap_or_default(),
                        resp3,
                        out,
                    );
                    frame.pop(4);
                    return;
                }
                frame.pop(3);
                continue;
            }
            _ => {
                frame.pop(1);
                continue;
            }
        }
        frame.pop(2);
        return;
    }
    write_array(frame, target, out);
    frame.pop(1);
}

/// Writes the elements up to the first nil.
fn write_array(frame: &mut Frame<'_>, target: &Target<'_>, out: &mut Vec<u8>) {
    let mut length = 0;
    loop {
        frame.raw_get_index(-1, length + 1);
        let end = frame.kind(-1) == LuaType::Nil;
        frame.pop(1);
        if end {
            break;
        }
        length += 1;
    }
    write_header(b'*', length as usize, out);
    for element in 1..=length {
        if target.refusal.get().is_some() {
            break;
        }
        frame.raw_get_index(-1, element);
        write_any(frame, target, out);
    }
}

/// Writes the pairs of the table on top as a map, or its keys as a set.
fn write_pairs(frame: &mut Frame<'_>, map: bool, target: &Target<'_>, out: &mut Vec<u8>) {
    let mut length = 0;
    frame.push_nil();
    while frame.next(-2) {
        frame.pop(1);
        length += 1;
    }
    let resp3 = target.client == Protocol::Resp3;
    let kind = if !resp3 {
        b'*'
    } else if map {
        b'%'
    } else {
        b'~'
    };
    write_header(kind, if map && !resp3 { length * 2 } else { length }, out);
    frame.push_nil();
    while frame.next(-2) {
        // `next` needs the original key, so a copy of it is written.
        frame.push_value(-2);
        write_any(frame, target, out);
        if map { write_any(frame, target, out) } else { frame.pop(1) }
    }
}

fn write_verbatim(text: &[u8], format: &[u8], resp3: bool, out: &mut Vec<u8>) {
    if !resp3 {
        return write_bulk(text, out);
    }
    write_header(b'=', text.len() + 4, out);
    // The wire format has exactly three letters.
    let format = crate::protocol::until_nul(format);
    for at in 0..3 {
        out.push(format.get(at).copied().unwrap_or(b' '));
    }
    out.push(b':');
    out.extend_from_slice(text);
    out.extend_from_slice(b"\r\n");
}

/// Writes an error line from the message of a script.
pub fn write_error(message: &[u8], out: &mut Vec<u8>) {
    // C's formatting ends at a NUL, and Redis trims line ends.
    let message = crate::protocol::until_nul(message);
    let end = message.iter().rposition(|byte| !matches!(byte, b'\r' | b'\n')).map_or(0, |last| last + 1);
    write_line(b'-', &message[..end], out);
}

pub(super) fn write_line(kind: u8, text: &[u8], out: &mut Vec<u8>) {
    out.push(kind);
    out.extend(one_line(text));
    out.extend_from_slice(b"\r\n");
}

/// Line ends become spaces, because the reply is one line.
fn one_line(text: &[u8]) -> impl Iterator<Item = u8> {
    text.iter().map(|&byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { byte })
}

pub(super) fn write_bulk(bytes: &[u8], out: &mut Vec<u8>) {
    write_header(b'$', bytes.len(), out);
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

pub(super) fn write_header(kind: u8, length: usize, out: &mut Vec<u8>) {
    out.push(kind);
    write_integer(out, length as i64);
    out.extend_from_slice(b"\r\n");
}

pub(super) fn write_null(client: Protocol, out: &mut Vec<u8>) {
    out.extend_from_slice(if client == Protocol::Resp3 { b"_\r\n" } else { b"$-1\r\n" });
}

pub(super) fn write_number(value: f64, out: &mut Vec<u8>) {
    out.push(b':');
    write_integer(out, truncated(value));
    out.extend_from_slice(b"\r\n");
}
