//! The lines of CLIENT LIST and CLIENT INFO.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use crate::base::profile::{Family, Since, Version};
use crate::clients::acl::DEFAULT_USER;
use crate::clients::session::Client;
use crate::clients::tracking::TrackingInfo;
use crate::commands::Call;
use crate::protocol::{Words, write_integer};

/// The buffers that Redis keeps for a client. Here all connections of a thread share theirs; clients are shown what the
/// release would have.
const QUERY_BUFFER: usize = 20_474;
const REPLY_BUFFER: usize = 16_384;
const SMALL_REPLY_BUFFER: usize = 1_024;
/// About as long as a line is.
const LINE: usize = 384;
/// Milliseconds after which Redis shrinks the reply buffer of a new client, and gives up the query buffer of an idle one.
const NEW: i64 = 300;
const IDLE: i64 = 2_000;
/// Since these releases, a client has a query buffer of its own only if it has sent a large request.
const SHARED_QUERY_BUFFER: Since = Since::each(Version(7, 4, 0), Version(8, 0, 0));

pub(super) fn describe_all(call: &Call<'_>, words: Words<'_>, clients: &[Arc<Client>]) -> Vec<u8> {
    let mut lines = Vec::with_capacity(clients.len() * LINE);
    clients.iter().for_each(|client| describe_into(&mut lines, call, words, client));
    lines
}

/// The line of one connection. `words` is the caller's request.
pub(super) fn describe(call: &Call<'_>, words: Words<'_>, client: &Client) -> Vec<u8> {
    let mut line = Vec::with_capacity(LINE);
    describe_into(&mut line, call, words, client);
    line
}

/// Adds the line of one connection, with the fields of the profile's release in its order.
fn describe_into(lines: &mut Vec<u8>, call: &Call<'_>, words: Words<'_>, client: &Client) {
    let profile = call.server.profile;
    let since = |major, minor| profile.since_redis(major, minor);
    let valkey = profile.family() == Family::Valkey;
    let (seen, labels) = (client.seen(), client.labels().clone());
    let now = call.now();
    let seconds_since = |then: i64| now.saturating_sub(then).max(0) / 1000;
    let is_caller = client.id() == call.session.client.id();
    // Only the caller's request is in a buffer: all others have been processed.
    let (request, encoded) = if is_caller { request_sizes(words) } else { (0, 0) };
    let shares_buffer = profile.has(SHARED_QUERY_BUFFER);
    // While memory is limited, the caller's request is counted already. Valkey shows nothing of the buffer that clients
    // share.
    let (counted, announced) = (seen.input.load(Relaxed), seen.announced.load(Relaxed));
    let input = match is_caller {
        true if shares_buffer && valkey => 0,
        true => counted.max(encoded),
        false => counted,
    };
    let output = client.waiting();
    let idle = if is_caller { 0 } else { now.saturating_sub(seen.last_used.load(Relaxed)) };
    let room = match seen.large_request(now) {
        // Redis reserves just what a big word needs.
        _ if announced > 0 => input + announced,
        Some(bytes) => bytes.max(QUERY_BUFFER),
        None if shares_buffer && (valkey || !is_caller) => 0,
        None if idle > IDLE => 0,
        None => QUERY_BUFFER,
    };
    let is_new = now.saturating_sub(client.created()) < NEW;
    let reply_buffer = if is_new { REPLY_BUFFER } else { SMALL_REPLY_BUFFER };
    let (buffered, listed) = if output <= reply_buffer { (output, 0) } else { (0, output) };
    let queued_bytes = seen.queued_bytes.load(Relaxed);

    let mut line = Line { lines, is_empty: true };
    line.number("id", client.id());
    line.text("addr", client.peer().address());
    line.text("laddr", client.peer().local_address());
    line.number("fd", client.fd());
    line.text("name", &labels.name);
    line.number("age", seconds_since(client.created()));
    line.number("idle", if is_caller { 0 } else { seconds_since(seen.last_used.load(Relaxed)) });
    let tracking = call.server.tracking.info(client.id());
    line.text("flags", flags(client, tracking.as_ref()));
    if valkey {
        line.text("capa", if seen.can_redirect.load(Relaxed) { "r" } else { "" });
    }
    line.number("db", seen.db.load(Relaxed));
    let [channels, patterns, shard_channels] = &seen.subscriptions;
    line.number("sub", channels.load(Relaxed));
    line.number("psub", patterns.load(Relaxed));
    if since(7, 0) {
        line.number("ssub", shard_channels.load(Relaxed));
    }
    line.number("multi", seen.queued.load(Relaxed));
    if since(7, 4) || valkey {
        line.number("watch", seen.watched.load(Relaxed));
    }
    line.number("qbuf", input);
    line.number("qbuf-free", room.saturating_sub(input));
    line.number("argv-mem", seen.arguments.load(Relaxed) + request);
    if since(7, 0) {
        line.number("multi-mem", queued_bytes);
        line.number("rbs", reply_buffer);
        line.number("rbp", if is_new { reply_buffer } else { buffered });
    }
    line.number("obl", buffered);
    line.number("oll", listed.div_ceil(REPLY_BUFFER));
    line.number("omem", listed);
    let beside_buffers = client.memory_beside_output().saturating_sub(counted + announced);
    line.number("tot-mem", beside_buffers + output + room.max(input) + reply_buffer + request);
    line.text("events", if output > 0 { "rw" } else { "r" });
    line.text("cmd", last_command(call, &labels.last_command));
    line.text("user", labels.user.as_ref().map_or(DEFAULT_USER, |user| user.name()));
    line.number("redir", tracking.map_or(-1, |tracking| tracking.mode.redirect as i64));
    if since(7, 0) {
        line.number("resp", if seen.resp3.load(Relaxed) { 3 } else { 2 });
    }
    if since(7, 2) {
        line.text("lib-name", &labels.library);
        line.text("lib-ver", &labels.library_version);
    }
    if profile.has(Since::redis(8, 0, 0)) {
        line.number("io-thread", 0);
    }
    if valkey {
        line.number("tot-net-in", seen.received.load(Relaxed));
        line.number("tot-net-out", seen.sent.load(Relaxed));
        line.number("tot-cmds", seen.commands.load(Relaxed));
    }
    line.lines.push(b'\n');
}

/// The bytes of all words of a request, and of the request as RESP.
fn request_sizes(words: Words<'_>) -> (usize, usize) {
    let digits = |number: usize| number.checked_ilog10().unwrap_or(0) as usize + 1;
    let line = |number: usize| digits(number) + 3;
    let plain: usize = words.iter().map(<[u8]>::len).sum();
    let framing: usize = words.iter().map(|word| line(word.len()) + 2).sum();
    (plain, line(words.len()) + framing + plain)
}

/// The flags of a connection in Redis's order; `N` if it has none.
pub(super) fn flags(client: &Client, tracking: Option<&TrackingInfo>) -> String {
    let seen = client.seen();
    let letters = [
        ('O', seen.monitor.load(Relaxed)),
        ('S', seen.replica.load(Relaxed)),
        ('M', seen.master.load(Relaxed)),
        ('P', seen.is_subscriber()),
        ('x', seen.queued.load(Relaxed) >= 0),
        ('b', seen.blocked.load(Acquire)),
        ('t', tracking.is_some()),
        ('R', tracking.is_some_and(|tracking| tracking.broken)),
        ('B', tracking.is_some_and(|tracking| tracking.mode.broadcast)),
        ('d', seen.touched.load(Relaxed)),
        ('U', client.peer().is_unix()),
        ('e', seen.no_evict.load(Relaxed)),
        ('T', seen.no_touch.load(Relaxed)),
        ('I', seen.import_source.load(Relaxed)),
    ];
    let flags: String = letters.iter().filter(|(_, is_set)| *is_set).map(|(letter, _)| letter).collect();
    if flags.is_empty() { "N".to_owned() } else { flags }
}

fn last_command(call: &Call<'_>, row: &Option<&'static crate::spec::CommandSpec>) -> String {
    match row {
        None => "NULL".to_owned(),
        Some(row) => {
            let name = call.table.full_name(row);
            // Before 7.0 subcommands had no full names.
            let shown = if call.server.profile.since_redis(7, 0) { None } else { name.split_once('|') };
            shown.map_or(name.clone(), |(container, _)| container.to_owned())
        }
    }
}

/// A line of `name=value` fields.
struct Line<'l> {
    lines: &'l mut Vec<u8>,
    is_empty: bool,
}

impl Line<'_> {
    fn text(&mut self, name: &str, value: impl AsRef<[u8]>) {
        self.name(name);
        self.lines.extend_from_slice(value.as_ref());
    }

    fn number(&mut self, name: &str, value: impl TryInto<i64>) {
        self.name(name);
        write_integer(self.lines, value.try_into().unwrap_or(i64::MAX));
    }

    fn name(&mut self, name: &str) {
        if !std::mem::take(&mut self.is_empty) {
            self.lines.push(b' ');
        }
        self.lines.extend_from_slice(name.as_bytes());
        self.lines.push(b'=');
    }
}
