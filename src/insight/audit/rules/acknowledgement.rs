//! Locks that a client trusts although WAIT has told it that fewer replicas have them than it asked for.

use super::redlock::GlobalRedlockState;
use super::wording::{acquisition, quoted, spelled};
use crate::insight::audit::code::Code;
use crate::insight::audit::finding::Evidence;
use crate::insight::audit::lock::{Hold, HoldStatus, ShortWait};
use crate::insight::audit::lock_event::LockEvent;
use crate::insight::audit::rule_context::{FindingDraft, RuleContext};

/// Whoever gives a lock back so soon after WAIT, in microseconds, does it because of the answer.
const AT_ONCE: i64 = 1_000_000;

pub fn observe(context: &mut RuleContext<'_>, redlock: &GlobalRedlockState, event: &LockEvent<'_>) {
    let holds = &context.lock.holds;
    let (at, did) = match *event {
        LockEvent::WorkedUnder { by, key } => {
            let is_its = |hold: &Hold| (hold.client.server, hold.client.id) == by;
            let Some(at) = holds.iter().position(|hold| is_its(hold) && hold.short_wait.is_some()) else { return };
            let key = String::from_utf8_lossy(key);
            (at, format!("worked on `{key}` all the same"))
        }
        LockEvent::Extended { hold: Some(at), is_own: true, .. } => (at, "extended the lock all the same".to_owned()),
        LockEvent::Deleted { hold: Some(at), is_release: true, .. } => {
            let Some(short) = &holds[at].short_wait else { return };
            let kept = context.source.at.saturating_sub(short.source.at);
            if kept < AT_ONCE {
                return;
            }
            (at, format!("kept the lock for another {}", spelled(kept)))
        }
        _ => return,
    };
    let Some(hold) = holds.get(at) else { return };
    let Some(short) = hold.short_wait.as_ref().filter(|short| !short.is_told) else { return };
    // Of a lock on several servers, one may lose it.
    if hold.status != HoldStatus::Held || !hold.is_certain || redlock.is_wide(&context.lock.id.key, &hold.token) {
        return;
    }
    let sentence = format!(
        "{} went on with {} although WAIT had told it that {}",
        hold.client.display_name(),
        quoted(context.lock),
        answer(short)
    );
    let evidence = vec![acquisition(hold), told(short), context.now(did)];
    let culprit = hold.client.id;
    context.report(FindingDraft { code: Code::WaitIgnored, severity: None, sentence, evidence, culprit });
    if let Some(short) = context.lock.holds.get_mut(at).and_then(|hold| hold.short_wait.as_mut()) {
        short.is_told = true;
    }
}

/// What WAIT has answered: `only 1 of 2 replicas had it`.
pub fn answer(short: &ShortWait) -> String {
    match (short.had, short.asked) {
        (0, 1) => "no replica had it".to_owned(),
        (0, asked) => format!("none of {asked} replicas had it"),
        (had, asked) => format!("only {had} of {asked} replicas had it"),
    }
}

/// The WAIT as evidence.
pub fn told(short: &ShortWait) -> Evidence {
    short.source.shows(format!("was told that {}", answer(short)))
}
