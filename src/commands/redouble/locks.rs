//! REDOUBLE LOCKS: who holds what now, and who waits.

use std::sync::Arc;

use super::audit::{beside_others, journal_ref_fields, opened};
use super::{Action, Power, count, expected, nothing_more, process_fields, text};
use crate::base::glob;
use crate::base::join::joined;
use crate::commands::{Call, CommandResult};
use crate::insight::audit::{EndedHold, JournalRef, KnownLock, LockExplanation, LockHolder, LockWaiter};
use crate::protocol::Reply;
use crate::spec::Args;

pub(super) const LOCKS: Power = Power {
    complexity: "O(N) where N is the number of locks.",
    default_action: Some("LIST"),
    ..Power::new("LOCKS", SUMMARY, ACTIONS)
};

const SUMMARY: &str =
    "Says of each lock who holds it, who waits for it, since when and until when, as the audit knows.";
const LIST: &str = "LIST [KEY glob]";

const ACTIONS: &[Action] = &[
    Action { words: LIST, summary: joined!(" ", [SUMMARY, "The word LIST may be left out."]), run: locks },
    Action {
        words: "WHY key",
        summary: "Says why a key is taken for a lock, or not, by which commands, and how to say that it is otherwise.",
        run: why,
    },
];

fn locks(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let mut glob = None;
    if args.take("key") {
        glob = Some(args.optional().ok_or_else(|| expected("a glob for keys was expected", None))?.to_vec());
    } else if !args.is_empty() {
        return Err(expected("key was expected", args.peek()));
    }
    nothing_more(args)?;
    let (audit, protocol) = (Arc::clone(opened(call)?), call.session.protocol);
    beside_others(call, audit, move |audit| {
        let mut locks = audit.locks();
        locks.retain(|lock| glob.as_ref().is_none_or(|glob| glob::matches(glob, &lock.key, false)));
        Reply::encoded_array(protocol, locks.into_iter().map(described))
    })
}

fn why(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let key = args.optional().ok_or_else(|| expected("a key was expected", None))?;
    nothing_more(args)?;
    let (key, audit) = (key.to_vec(), Arc::clone(opened(call)?));
    beside_others(call, audit, move |audit| Reply::Array(audit.explain_key(&key).into_iter().map(explained).collect()))
}

fn explained(explanation: LockExplanation) -> Reply<'static> {
    let source =
        |source: Option<JournalRef>| source.map_or(Reply::Null, |source| Reply::Map(journal_ref_fields(&source)));
    let signs = explanation.signs.into_iter().map(|sign| {
        Reply::Map(vec![
            (text("sign"), text(sign.name)),
            (text("enough"), text(if sign.is_enough { "yes" } else { "no" })),
            (text("sentence"), text(sign.sentence)),
            (text("by"), source(sign.source)),
        ])
    });
    let findings = explanation.findings.into_iter().map(|code| text(code.name()));
    Reply::Map(vec![
        (text("key"), text(&*explanation.key)),
        (text("db"), count(explanation.db.into())),
        (text("server"), count(explanation.server.into())),
        (text("verdict"), text(explanation.verdict)),
        (text("sentence"), text(explanation.sentence)),
        (text("signs"), Reply::Array(signs.collect())),
        (text("against"), source(explanation.against)),
        (text("declare"), text(explanation.declare)),
        (text("findings"), Reply::Array(findings.collect())),
    ])
}

fn described(lock: KnownLock) -> Reply<'static> {
    let reasons = lock.reasons.into_iter().map(text);
    Reply::Map(vec![
        (text("key"), text(&*lock.key)),
        (text("db"), count(lock.db.into())),
        (text("server"), count(lock.server.into())),
        (text("state"), text(lock.state)),
        (text("shape"), text(lock.shape)),
        (text("value"), lock.value.map_or(Reply::Null, text)),
        (text("deadline-ms"), lock.deadline.map_or(Reply::Null, Reply::Integer)),
        (text("holders"), Reply::Array(lock.holders.into_iter().map(holder).collect())),
        (text("waiters"), Reply::Array(lock.waiters.into_iter().map(waiter).collect())),
        (text("reasons"), Reply::Array(reasons.collect())),
        (text("ended"), Reply::Array(lock.ended.into_iter().map(ended).collect())),
    ])
}

fn holder(holder: LockHolder) -> Reply<'static> {
    let mut fields = vec![
        (text("client"), count(holder.client)),
        (text("name"), text(&*holder.name)),
        (text("address"), text(&*holder.address)),
    ];
    fields.extend(process_fields(holder.process.as_deref()));
    fields.extend([
        (text("token"), text(holder.token)),
        (text("since-us"), Reply::Integer(holder.since)),
        (text("until-us"), holder.until.map_or(Reply::Null, Reply::Integer)),
        (text("extensions"), count(holder.extensions.into())),
        (text("certain"), text(if holder.is_certain { "yes" } else { "may-hold" })),
        (text("standing"), text(holder.status)),
        (text("by"), holder.by.map_or(Reply::Null, |by| Reply::Map(journal_ref_fields(&by)))),
    ]);
    Reply::Map(fields)
}

fn waiter(waiter: LockWaiter) -> Reply<'static> {
    let mut fields = vec![
        (text("client"), count(waiter.client)),
        (text("name"), text(&*waiter.name)),
        (text("address"), text(&*waiter.address)),
    ];
    fields.extend(process_fields(waiter.process.as_deref()));
    fields.extend([
        (text("since-us"), Reply::Integer(waiter.since)),
        (text("last-us"), Reply::Integer(waiter.last)),
        (text("attempts"), count(waiter.attempts)),
    ]);
    Reply::Map(fields)
}

fn ended(hold: EndedHold) -> Reply<'static> {
    let mut fields = vec![(text("client"), count(hold.client)), (text("name"), text(&*hold.name))];
    fields.extend(process_fields(hold.process.as_deref()));
    fields.extend([
        (text("since-us"), Reply::Integer(hold.since)),
        (text("until-us"), Reply::Integer(hold.until)),
        (text("how"), text(hold.how)),
    ]);
    Reply::Map(fields)
}
