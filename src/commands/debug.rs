//! DEBUG, as far as tests of clients and servers use it. Needs `enable-debug-command`.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::debug_digest;
use super::help::subcommand_syntax_error;
use crate::base::error::CommandError;
use crate::base::profile::Profile;
use crate::commands::{Call, Command, CommandResult, Handler};
use crate::data::keyspace::{Entry, List, View};
use crate::data::rdb;
use crate::protocol::{Protocol, Reply, is_blank};
use crate::spec::{Args, Arity, CommandSpec, Flag, Group};

pub(super) const ROWS: &[Command] = &[DEBUG];

const DEBUG: Command = Command::new(
    Handler::Debug(debug),
    CommandSpec {
        usage: "subcommand [arg [arg ...]]",
        summary: "Looks behind the scenes, for tests; only with enable-debug-command.",
        complexity: "Depends on the subcommand.",
        group: Group::Server,
        arity: Arity::AtLeast(2),
        flags: &[Flag::Admin, Flag::NoScript, Flag::Loading, Flag::Stale],
        for_server_tests: true,
        ..CommandSpec::new("DEBUG")
    },
);

const HELP: &[&str] = &[
    "DEBUG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "CHANGE-REPL-ID",
    "    Change the replication IDs of the instance.",
    "    Dangerous: should be used only for testing the replication subsystem.",
    "DIGEST",
    "    Output a hex signature representing the current DB content.",
    "DIGEST-VALUE <key> [<key> ...]",
    "    Output a hex signature of the values of all the specified keys.",
    "ERROR <string>",
    "    Return a Redis protocol error with <string> as message. Useful for clients",
    "    unit tests to simulate Redis errors.",
    "OBJECT <key>",
    "    Show low level info about `key` and associated value.",
    "PROTOCOL <type>",
    "    Reply with a test value of the specified type. <type> can be: string,",
    "    integer, double, bignum, null, array, set, map, attrib, push, verbatim,",
    "    true, false.",
    "SET-ACTIVE-EXPIRE <0|1>",
    "    Setting it to 0 disables expiring keys in background when they are not",
    "    accessed (otherwise the Redis behavior). Setting it to 1 reenables back the",
    "    default.",
    "SLEEP <seconds>",
    "    Stop the server for <seconds>. Decimals allowed.",
    "HELP",
    "    Prints this help.",
];

fn debug<'v>(view: &'v mut View<'_>, call: &mut Call<'_>, args: &mut Args<'v>) -> CommandResult<'static> {
    let name = args.bytes()?;
    let is = |word: &str| name.eq_ignore_ascii_case(word.as_bytes());
    if is("DIGEST-VALUE") {
        let mut digests = Vec::new();
        while let Some(key) = args.optional() {
            let digest =
                view.peek(key).map(|entry| debug_digest::value_digest(entry, args.profile())).unwrap_or_default();
            digests.push(Reply::StatusText(digest.to_hex()));
        }
        return Ok(Reply::Array(digests));
    }
    let argument = args.optional();
    match argument {
        _ if !args.is_empty() => {}
        None if is("HELP") => return Ok(Reply::Array(HELP.iter().map(|line| Reply::Status(line)).collect())),
        None if is("CHANGE-REPL-ID") => {
            call.server.identity.change_replication_id();
            return Ok(Reply::OK);
        }
        None if is("DIGEST") => {
            return Ok(Reply::StatusText(debug_digest::dataset_digest(view, args.profile()).to_hex()));
        }
        // Not counted in the error statistics, because the caller asked for it.
        Some(text) if is("ERROR") => return Ok(Reply::Error(CommandError::new(text))),
        Some(key) if is("OBJECT") => return debug_object(view, key, args.profile()),
        Some(kind) if is("PROTOCOL") => return debug_protocol(kind, call.session.protocol),
        Some(flag) if is("SET-ACTIVE-EXPIRE") => {
            call.server.active_expire.store(leading_number(flag).trunc() != 0.0, Ordering::Relaxed);
            return Ok(Reply::OK);
        }
        Some(seconds) if is("SLEEP") => {
            let seconds = leading_number(seconds).max(0.0);
            call.server.debug_sleep(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::ZERO));
            return Ok(Reply::OK);
        }
        _ => {}
    }
    Err(subcommand_syntax_error(args, "DEBUG"))
}

const WRONG_PROTOCOL_TYPE: CommandError = CommandError::fixed(
    "ERR Wrong protocol type name. Please use one of the following: \
     string|integer|double|bignum|null|array|set|map|attrib|push|verbatim|true|false",
);
const NOT_IN_RESP2: CommandError = CommandError::fixed("ERR RESP2 is not supported by this command");

/// DEBUG PROTOCOL: a value of each type of the protocol.
#[expect(clippy::approx_constant, reason = "Redis answers with a rough pi")]
fn debug_protocol(kind: &[u8], protocol: Protocol) -> CommandResult<'static> {
    let three = || (0..3).map(Reply::Integer).collect();
    Ok(match kind.to_ascii_lowercase().as_slice() {
        b"string" => Reply::text("Hello World"),
        b"integer" => Reply::Integer(12345),
        b"double" => Reply::Double(3.141),
        b"null" => Reply::Null,
        b"array" => Reply::Array(three()),
        b"set" => Reply::Set(three()),
        b"map" => Reply::Map((0..3).map(|number| (Reply::Integer(number), Reply::Boolean(number == 1))).collect()),
        b"attrib" => {
            let popularity = Reply::Array(vec![Reply::text("key:123"), Reply::Integer(90)]);
            let reply = Reply::text("Some real reply following the attribute");
            Reply::Attributed(vec![(Reply::text("key-popularity"), popularity)], Box::new(reply))
        }
        b"push" if protocol == Protocol::Resp2 => return Err(NOT_IN_RESP2),
        b"push" => Reply::Several(vec![
            Reply::Push(vec![Reply::text("server-cpu-usage"), Reply::Integer(42)]),
            Reply::text("Some real reply following the push reply"),
        ]),
        b"verbatim" => Reply::Verbatim("txt", b"This is a verbatim\nstring".into()),
        b"true" => Reply::Boolean(true),
        b"false" => Reply::Boolean(false),
        b"bignum" => Reply::BigNumber("1234567999999999999999999999999999999"),
        _ => return Err(WRONG_PROTOCOL_TYPE),
    })
}

/// The bytes that DUMP adds to a value: type, version of the format, checksum.
const DUMP_FRAME: usize = 1 + 2 + 8;

/// DEBUG OBJECT: how a value is encoded.
fn debug_object(view: &mut View<'_>, key: &[u8], profile: &Profile) -> CommandResult<'static> {
    let now = view.now();
    let limit = view.settings().encoding_limits.list_max_listpack_size.load(Ordering::Relaxed);
    let Some(entry) = view.peek(key) else { return Err(CommandError::NO_SUCH_KEY) };
    let serialized = rdb::dump(&entry.content(), profile).len() - DUMP_FRAME;
    let usage = entry.usage();
    let nodes = node_details(entry, limit, profile);
    Ok(Reply::StatusText(format!(
        "Value at:{:p} refcount:{} encoding:{} serializedlength:{serialized} lru:{} lru_seconds_idle:{}{nodes}",
        entry.text().map_or(entry.address(), |text| text.bytes.as_ptr()),
        entry.references(),
        entry.encoding(),
        usage.field(),
        usage.idle_seconds(now),
    )))
}

/// The header and the end byte of a list node.
const NODE_FRAME: usize = 7;

/// The quicklist fields of DEBUG OBJECT. Empty for a list that is not a quicklist.
fn node_details(entry: &Entry, limit: i64, profile: &Profile) -> String {
    let Some(list) = entry.collection::<List>().filter(|_| entry.encoding() == "quicklist") else {
        return String::new();
    };
    let count = list.nodes().len();
    let average = list.len() as f64 / count.max(1) as f64;
    let size: usize = list.nodes().map(|(_, elements)| elements.len() + NODE_FRAME).sum();
    let unit = if profile.since_redis(7, 0) { "listpack" } else { "ziplist" };
    format!(
        " ql_nodes:{count} ql_avg_node:{average:.2} ql_{unit}_max:{limit} ql_compressed:0 ql_uncompressed_size:{size}"
    )
}

/// The number that a text begins with, as `strtod` reads it, or 0. Only as many bytes are read as a number of seconds
/// may need.
fn leading_number(text: &[u8]) -> f64 {
    const MOST: usize = 64;
    let blanks = text.iter().take_while(|&&byte| is_blank(byte)).count();
    let text = &text[blanks..];
    let text = String::from_utf8_lossy(&text[..text.len().min(MOST)]);
    let digits = |c: char| c.is_ascii_digit() || "+-.eE".contains(c);
    let longest = text.find(|c| !digits(c)).unwrap_or(text.len());
    (1..=longest).rev().find_map(|end| text[..end].parse().ok()).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_ends_where_it_no_longer_reads_as_one() {
        for (text, number) in [("1.5s", 1.5), (" \x0b2", 2.0), ("1e2e", 100.0), ("-", 0.0), ("x1", 0.0), ("", 0.0)] {
            assert_eq!(leading_number(text.as_bytes()), number, "{text:?}");
        }
        // Trying every prefix of this would take minutes.
        assert_eq!(leading_number(&vec![b'+'; 1 << 20]), 0.0);
    }
}
