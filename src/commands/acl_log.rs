//! ACL LOG, and the recording of its entries.

use super::client_list::describe;
use super::help::versioned_syntax_error;
use crate::base::error::CommandError;
use crate::base::profile::Since;
use crate::clients::acl::{Case, Denial};
use crate::commands::{Call, Command, CommandResult, Handler};
use crate::protocol::{Reply, Words, parse_integer};
use crate::spec::{Args, Arity, CommandSpec, Flag, Group};

pub(super) const LOG: Command = Command::new(
    Handler::Connection(log),
    CommandSpec {
        usage: "[count | RESET]",
        summary: "Shows what was denied lately, or forgets it.",
        complexity: "O(N) in the number of entries shown",
        group: Group::Server,
        since: Since::redis(6, 0, 0),
        arity: Arity::AtLeast(2),
        flags: &[Flag::Admin, Flag::NoScript, Flag::Loading, Flag::Stale],
        ..CommandSpec::new("LOG")
    },
);

const DEFAULT_COUNT: i64 = 10;

fn log(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    if args.left() > 1 {
        return Err(versioned_syntax_error(args, "ACL"));
    }
    if args.take("RESET") {
        call.server.acl.log.clear();
        return Ok(Reply::OK);
    }
    let count = args.optional().map_or(Some(DEFAULT_COUNT), parse_integer).ok_or(CommandError::NOT_AN_INTEGER)?;
    let entries = call.server.acl.log.latest(usize::try_from(count).unwrap_or(0));
    let (now, numbered) = (call.now(), args.profile().since_redis(7, 2));
    let entry = |entry: crate::clients::acl::Entry| {
        let mut fields = vec![
            ("count", Reply::Integer(entry.count as i64)),
            ("reason", Reply::text(entry.case.reason)),
            ("context", Reply::text(entry.case.context)),
            ("object", Reply::bulk(entry.case.object)),
            ("username", Reply::bulk(entry.case.user)),
            ("age-seconds", Reply::Double(now.saturating_sub(entry.updated) as f64 / 1000.0)),
            ("client-info", Reply::bulk(entry.client)),
        ];
        if numbered {
            fields.push(("entry-id", Reply::Integer(entry.id as i64)));
            fields.push(("timestamp-created", Reply::Integer(entry.created)));
            fields.push(("timestamp-last-updated", Reply::Integer(entry.updated)));
        }
        Reply::Map(fields.into_iter().map(|(name, value)| (Reply::text(name), value)).collect())
    };
    Ok(Reply::Array(entries.into_iter().map(entry).collect()))
}

/// Records that a command was denied to the session's user.
pub fn record_denial(call: &Call<'_>, denial: Denial, spec: &CommandSpec, context: &'static str, words: Words<'_>) {
    let object = match denial {
        Denial::Command | Denial::Database(0) => call.table.full_name(spec).into_bytes(),
        Denial::Key(at) | Denial::Channel(at) | Denial::Database(at) => words.get(at).unwrap_or_default().to_vec(),
    };
    record(call, Case { reason: denial.reason(), context, object, user: call.session.user.name().to_vec() }, words);
}

/// Records a failed authentication.
pub(super) fn record_failed_auth(call: &Call<'_>, user: &[u8], words: Words<'_>) {
    let context = if call.session.executing { "multi" } else { "toplevel" };
    let object = words.get(0).unwrap_or_default().to_vec();
    record(call, Case { reason: "auth", context, object, user: user.to_vec() }, words);
}

fn record(call: &Call<'_>, case: Case, words: Words<'_>) {
    // The entry shows the client as CLIENT LIST would show it during the command.
    let mut client = describe(call, words, &call.session.client);
    client.truncate(client.trim_ascii_end().len());
    call.server.acl.log.record(case, client, call.now());
}
