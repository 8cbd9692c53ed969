//! REDOUBLE AUDIT: what clients did wrong with locks.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use super::words::{either, option_names};
use super::{
    Action, Power, USUAL_TIMEOUT, answer_after, beside, count, duration, expected, in_time, nothing_more, number,
    process_fields, text,
};
use crate::base::background::in_background;
use crate::base::clock::{Clock, Stopwatch};
use crate::base::duration::spell_duration;
use crate::base::error::CommandError;
use crate::base::join::joined;
use crate::commands::{Call, CommandResult};
use crate::insight::audit::{
    Allowance, AuditStatus, Code, Evidence, Finding, FindingQuery, JournalRef, LiveAudit, Severity, rest_after,
};
use crate::powers::Follower;
use crate::protocol::Reply;
use crate::spec::Args;

pub(super) const AUDIT: Power = Power {
    default_action: Some("LIST"),
    ..Power::new("AUDIT", "Finds out which keys are locks, and tells what clients did wrong with them.", ACTIONS)
};

/// Which findings are meant.
const QUERY: &str = "[KEY glob] [CODE code] [SEVERITY <ERROR | WARNING | NOTE>] [SINCE seq] [MARK glob] [ALLOWED]";
const LIST: &str = joined!(" ", ["LIST", QUERY, "[FINAL | RUN] [LIMIT number]"]);
const COUNT: &str = joined!(" ", ["COUNT", QUERY, "[FINAL | RUN]"]);
const AWAIT: &str = joined!(" ", ["AWAIT", QUERY, "count [timeout]"]);

const ACTIONS: &[Action] = &[
    Action {
        words: "ON",
        summary: "Goes through every command from now on, and through what the journal has; the journal is kept, too.",
        run: on,
    },
    Action {
        words: "OFF",
        summary: "Goes through nothing more; what was found stays, and the journal goes on.",
        run: off,
    },
    Action {
        words: "INFO",
        summary: "Whether it is on, how many findings there are, what is taken for a lock and what is allowed.",
        run: info,
    },
    Action {
        words: LIST,
        summary: "What was found: so severe or worse; the last ones (100), or the first ones after a place in the order. \
                  With final as if nothing more were to come, with run also what was found before resets. The word LIST \
                  may be left out.",
        run: list,
    },
    Action { words: COUNT, summary: "How many findings there are.", run: tally },
    Action {
        words: AWAIT,
        summary: "Answers once there are so many; an error that tells what was found instead after the timeout (4s of \
                  real time).",
        run: wait,
    },
    Action {
        words: "ALLOW <code | *> glob reason",
        summary: "Takes findings of this kind about these keys as known, and says why.",
        run: allow,
    },
    Action { words: "CLEAR", summary: "Forgets what was found; who holds what stays known.", run: clear },
];

const USUAL_LIMIT: u64 = 100;
/// How many findings an error tells of.
const IN_ERROR: usize = 5;
/// How long a reason may be, in bytes.
const LONGEST_REASON: usize = 1024;
const LONGEST_GLOB: usize = 1024;

fn on(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    nothing_more(args)?;
    call.server.start_audit();
    Ok(Reply::OK)
}

fn off(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    nothing_more(args)?;
    let audit = Arc::clone(&call.server.audit);
    beside_others(call, audit, |audit| {
        audit.turn_off();
        Reply::OK
    })
}

/// The audit, if it can have found anything: that a test finds nothing must not come from its never having been on.
pub(super) fn opened<'c>(call: &'c Call<'_>) -> Result<&'c Arc<LiveAudit>, CommandError> {
    const NEVER_ON: CommandError = CommandError::fixed("ERR the audit was never on; REDOUBLE AUDIT ON begins it");
    let audit = &call.server.audit;
    if audit.was_on() { Ok(audit) } else { Err(NEVER_ON) }
}

fn info(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    nothing_more(args)?;
    let audit = Arc::clone(&call.server.audit);
    beside_others(call, audit, |audit| settings_and_counts(audit.status()))
}

fn settings_and_counts(figures: AuditStatus) -> Reply<'static> {
    let globs = |globs: &[Vec<u8>]| Reply::Array(globs.iter().map(|glob| text(glob.as_slice())).collect());
    let allowances = figures.scope.allowed.iter().map(|allowance| {
        Reply::Map(vec![
            (text("code"), text(allowance.code.map_or("*", Code::name))),
            (text("keys"), text(allowance.keys.as_slice())),
            (text("reason"), text(allowance.reason.as_str())),
        ])
    });
    Reply::Map(vec![
        (text("state"), text(if figures.is_on { "on" } else { "off" })),
        (text("findings"), count(figures.findings as u64)),
        (text("allowed"), count(figures.allowed as u64)),
        (text("unlisted"), count(figures.unlisted)),
        (text("entries"), count(figures.records)),
        (text("missed"), count(figures.missed)),
        (text("forgotten"), count(figures.forgotten)),
        (text("bytes-together"), count(figures.memory.0 as u64)),
        (text("most-bytes-together"), count(figures.memory.1 as u64)),
        (text("locks"), globs(&figures.scope.locks)),
        (text("not-locks"), globs(&figures.scope.not_locks)),
        (text("resources"), globs(&figures.scope.resources)),
        (text("allowances"), Reply::Array(allowances.collect())),
    ])
}

/// Takes the next part of a query, if there is one.
fn take_query(query: &mut FindingQuery, args: &mut Args<'_>) -> Result<bool, CommandError> {
    if args.take("key") {
        let glob = args.optional().ok_or_else(|| expected("a glob for keys was expected", None))?;
        query.key = Some(glob.to_vec());
    } else if args.take("code") {
        query.code = Some(code(args)?);
    } else if args.take("severity") {
        let word = args.optional();
        let severity = Severity::ALL
            .into_iter()
            .find(|severity| word.is_some_and(|word| word.eq_ignore_ascii_case(severity.name().as_bytes())));
        let mut names = Severity::ALL.map(|severity| severity.name().to_owned());
        names.reverse();
        query.severity = Some(severity.ok_or_else(|| expected(&format!("{} was expected", either(&names)), word))?);
    } else if args.take("since") {
        query.since = Some(number(args, "a place in the order", 0)?);
    } else if args.take("mark") {
        let glob = args.optional().ok_or_else(|| expected("a glob for marks was expected", None))?;
        query.mark = Some(glob.to_vec());
    } else if args.take("allowed") {
        query.allowed = true;
    } else {
        return Ok(false);
    }
    Ok(true)
}

fn code(args: &mut Args<'_>) -> Result<Code, CommandError> {
    let word = args.optional();
    word.and_then(Code::by_name).ok_or_else(|| expected("the code of a finding such as two-holders was expected", word))
}

/// Fails if another argument follows the options of an action.
fn end_of_query(args: &Args<'_>, words: &str) -> Result<(), CommandError> {
    let names = || either(&option_names(words));
    if args.is_empty() { Ok(()) } else { Err(expected(&format!("{} was expected", names()), args.peek())) }
}

/// Which findings a question is about.
#[derive(Clone, Copy)]
enum Extent {
    SoFar,
    /// As if nothing more were to come.
    Final,
    /// The same, with those from before resets.
    Run,
}

/// Takes the extent that a question is about, if one is named.
fn take_extent(extent: &mut Extent, args: &mut Args<'_>) -> bool {
    let named = [("final", Extent::Final), ("run", Extent::Run)].into_iter().find(|(word, _)| args.take(word));
    *extent = named.map_or(*extent, |(_, named)| named);
    named.is_some()
}

fn found(audit: &LiveAudit, query: &FindingQuery, extent: Extent) -> Vec<Arc<Finding>> {
    let mut findings = match extent {
        Extent::SoFar => audit.findings(),
        Extent::Final => audit.findings_at_end(),
        Extent::Run => audit.findings_of_run(),
    };
    findings.retain(|finding| query.fits(finding));
    findings
}

fn list(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let (mut query, mut extent, mut limit) = (FindingQuery::default(), Extent::SoFar, USUAL_LIMIT);
    loop {
        if args.take("limit") {
            limit = number(args, "the limit", 1)?;
        } else if !take_extent(&mut extent, args) && !take_query(&mut query, args)? {
            break;
        }
    }
    end_of_query(args, LIST)?;
    answer(call, move |audit| {
        let mut findings = found(audit, &query, extent);
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let skipped = if query.since.is_some() { 0 } else { findings.len().saturating_sub(limit) };
        findings.drain(..skipped);
        findings.truncate(limit);
        Reply::Array(findings.iter().map(|finding| described(finding)).collect())
    })
}

/// Answers a question about the audit.
fn answer(
    call: &mut Call<'_>,
    find: impl FnOnce(&LiveAudit) -> Reply<'static> + Send + 'static,
) -> CommandResult<'static> {
    let audit = Arc::clone(opened(call)?);
    beside_others(call, audit, find)
}

/// Answers a question. If there are many locks, or records that the auditor has not come to, other clients do not wait meanwhile.
pub(super) fn beside_others(
    call: &mut Call<'_>,
    audit: Arc<LiveAudit>,
    find: impl FnOnce(&LiveAudit) -> Reply<'static> + Send + 'static,
) -> CommandResult<'static> {
    beside(call, "redouble-audit", audit.is_large(), move || find(&audit))
}

fn tally(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let (mut query, mut extent) = (FindingQuery::default(), Extent::SoFar);
    while take_extent(&mut extent, args) || take_query(&mut query, args)? {}
    end_of_query(args, COUNT)?;
    answer(call, move |audit| count(found(audit, &query, extent).len() as u64))
}

fn wait(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let mut query = FindingQuery::default();
    while take_query(&mut query, args)? {}
    let wanted = number(args, "the count", 1)?;
    let timeout = if args.is_empty() { USUAL_TIMEOUT } else { duration(args)? };
    nothing_more(args)?;
    let audit = Arc::clone(opened(call)?);
    let found = so_many_found(audit, query, (wanted, timeout), Clock::sleep(timeout), Clock::sleep);
    let event = async move { found.await.map_or_else(Reply::Error, count) };
    answer_after(call, event)
}

/// Waits until there are so many findings like this; how many there are then. When `time` is up, which is after
/// `timeout`, an error says what was found instead. `sleep` takes so much real time.
pub fn so_many_found<S: Future<Output = ()>>(
    audit: Arc<LiveAudit>,
    query: FindingQuery,
    (wanted, timeout): (u64, Duration),
    time: impl Future<Output = ()>,
    sleep: impl Fn(Duration) -> S,
) -> impl Future<Output = Result<u64, CommandError>> {
    // From now on, so that nothing is missed that comes before this is first asked.
    let mut followers = audit.followers();
    async move {
        let mut time = pin!(time);
        let mut is_over = false;
        loop {
            followers.iter_mut().for_each(Follower::pass_over);
            let look = Look::beside_others(&audit, &query).await;
            if look.fitting >= wanted {
                return Ok(look.fitting);
            }
            if is_over || !is_going_on(&audit, &followers) {
                return Err(too_few(audit.is_on(), &look, wanted, timeout));
            }
            let more = poll_fn(|cx| {
                // Each is to wake this, so none is left out.
                let have_more = followers.iter_mut().map(|follower| follower.poll_more(cx).is_ready());
                let has_any = have_more.fold(false, |any, has_more| any | has_more);
                if has_any || !is_going_on(&audit, &followers) { Poll::Ready(()) } else { Poll::Pending }
            });
            is_over = in_time(more, time.as_mut()).await.is_none();
            if !is_over && !look.rest.is_zero() {
                is_over = in_time(sleep(look.rest), time.as_mut()).await.is_none();
            }
        }
    }
}

/// Whether anything can still be found.
fn is_going_on(audit: &LiveAudit, journals: &[Follower]) -> bool {
    audit.is_on() && journals.iter().any(|follower| follower.journal().is_on())
}

/// The findings that there were at some time.
struct Look {
    all: Vec<Arc<Finding>>,
    /// How many of them are meant.
    fitting: u64,
    /// How long the next look is to wait.
    rest: Duration,
}

impl Look {
    fn now(audit: &LiveAudit, query: &FindingQuery) -> Self {
        let all = audit.findings();
        let fitting = all.iter().filter(|finding| query.fits(finding)).count() as u64;
        Self { all, fitting, rest: Duration::ZERO }
    }

    /// If that may take long, other clients do not wait meanwhile.
    async fn beside_others(audit: &Arc<LiveAudit>, query: &FindingQuery) -> Self {
        if audit.is_large() {
            let (audit, query) = (Arc::clone(audit), query.clone());
            let found = in_background("redouble-audit", move || {
                let looking = Stopwatch::start();
                let found = Self::now(&audit, &query);
                Self { rest: rest_after(looking.elapsed()), ..found }
            });
            if let Ok(found) = found
                && let Some(found) = found.await
            {
                return found;
            }
        }
        Self::now(audit, query)
    }
}

fn too_few(
    is_on: bool,
    Look { all: findings, fitting: there, .. }: &Look,
    wanted: u64,
    timeout: Duration,
) -> CommandError {
    let mut line = match is_on {
        true => format!("TIMEOUT {there} of {wanted} findings after {}", spell_duration(timeout)),
        false => format!("ERR {there} of {wanted} findings, and the audit is off"),
    };
    let last: Vec<String> = findings.iter().rev().take(IN_ERROR).map(|finding| in_short(finding)).collect();
    if last.is_empty() {
        line.push_str("; nothing was found");
    } else {
        line.push_str(&format!("; found: {}", last.join(", ")));
    }
    if findings.len() > last.len() {
        line.push_str(&format!(" and {} before", findings.len() - last.len()));
    }
    CommandError::new(line)
}

fn in_short(finding: &Finding) -> String {
    let allowed = if finding.allowed.is_some() { " (allowed)" } else { "" };
    format!("{} of {}{allowed}", finding.code.name(), finding.key.escape_ascii())
}

fn allow(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let code = if args.take("*") { None } else { Some(code(args)?) };
    let word = args.optional();
    let keys = word.filter(|glob| (1..=LONGEST_GLOB).contains(&glob.len()));
    let keys = keys.ok_or_else(|| expected("a glob for keys was expected", word))?;
    let reason = args.rest().iter().collect::<Vec<_>>().join(&b' ');
    let reason = String::from_utf8_lossy(&reason).trim().to_owned();
    if !(1..=LONGEST_REASON).contains(&reason.len()) {
        return Err(expected("a reason of 1 to 1024 bytes was expected", Some(reason.as_bytes())));
    }
    let allowance = Allowance { code, keys: keys.to_vec(), reason };
    let audit = Arc::clone(&call.server.audit);
    beside_others(call, audit, move |audit| match audit.allow(allowance) {
        Ok(()) => Reply::OK,
        Err(reason) => Reply::Error(CommandError::new(format!("ERR {reason}"))),
    })
}

fn clear(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    nothing_more(args)?;
    answer(call, |audit| {
        audit.clear();
        Reply::OK
    })
}

/// A finding as LIST gives it.
fn described(finding: &Finding) -> Reply<'static> {
    Reply::Map(vec![
        (text("code"), text(finding.code.name())),
        (text("severity"), text(finding.severity.name())),
        (text("key"), text(&*finding.key)),
        (text("db"), count(finding.db.into())),
        (text("server"), count(finding.server.into())),
        (text("sentence"), text(finding.sentence.as_str())),
        (text("instead"), text(finding.instead())),
        (text("docs"), text(finding.docs())),
        (text("why"), text(finding.why())),
        (text("times"), count(finding.times)),
        (text("seq"), count(finding.seq)),
        (text("last-seq"), count(finding.last_seq)),
        (text("time-us"), Reply::Integer(finding.at)),
        (text("culprit"), count(finding.culprit)),
        (text("mark"), finding.mark.as_deref().map_or(Reply::Null, text)),
        (text("allowed"), finding.allowed.as_deref().map_or(Reply::Null, text)),
        (text("evidence"), Reply::Array(finding.evidence.iter().map(shown).collect())),
    ])
}

fn shown(evidence: &Evidence) -> Reply<'static> {
    let mut fields = journal_ref_fields(&evidence.source);
    fields.push((text("what"), text(evidence.what.as_str())));
    Reply::Map(fields)
}

/// A command as evidence shows it.
pub(super) fn journal_ref_fields(source: &JournalRef) -> Vec<(Reply<'static>, Reply<'static>)> {
    let mut fields = vec![
        (text("seq"), count(source.seq)),
        (text("server"), count(source.server.into())),
        (text("client"), count(source.client)),
        (text("name"), text(&*source.name)),
    ];
    fields.extend(process_fields(source.process.as_ref().map(|process| &*process.process)));
    fields.extend(source.node.as_deref().map(|node| (text("node"), text(node))));
    fields.extend([(text("time-us"), Reply::Integer(source.at)), (text("command"), text(&*source.line))]);
    fields
}

#[cfg(test)]
mod tests {
    use super::super::words::keywords;
    use super::*;

    #[test]
    fn a_query_has_every_severity() {
        for severity in Severity::ALL {
            assert!(keywords(QUERY).any(|word| word.eq_ignore_ascii_case(severity.name())), "{}", severity.name());
        }
    }
}
