//! What clients do with a lock whose time is over.

use std::sync::Arc;

use super::relation::{expired_while_held, is_by_other_program, is_lost, is_pooled, is_retrying};
use super::wording::{acquisition, granted_ttl, is_renewed, quoted};
use crate::insight::audit::advice::RENEWED;
use crate::insight::audit::client_identity::{ClientIdentity, SameProgram};
use crate::insight::audit::code::{Code, Severity};
use crate::insight::audit::effect::{Intent, LockShape, Precondition};
use crate::insight::audit::finding::{Evidence, JournalRef};
use crate::insight::audit::lock::{Acquisition, Flush, Hold, HoldStatus, PastHold};
use crate::insight::audit::lock_event::LockEvent;
use crate::insight::audit::rule_context::{FindingDraft, RuleContext};

/// How often holders are too late, or nearly so, before it is reported.
const OFTEN_TOO_LATE: u64 = 2;
const OFTEN_CLOSE: u64 = 3;
/// The same for an error, if the holders write nothing afterwards.
const OFTEN_WITHOUT_WORK: u64 = 3;

/// What is remembered of one lock.
#[derive(Clone, Default)]
pub struct LatenessState {
    /// How often a holder released the lock.
    releases: u64,
    /// How many of the releases were close to the end, and the first of them.
    close: u64,
    shown: Vec<Evidence>,
    /// How often the lock expired before its holder was done, and the first of these times.
    overruns: u64,
    overrun: Vec<Evidence>,
    /// The last of these times, by the command that took the lock.
    last_overrun: u64,
    /// The client that was told last that its lock is lost when it renewed it, and the command that took that lock.
    told: Option<(u64, Arc<JournalRef>, u64)>,
    /// Somebody wrote after the end.
    has_worked: bool,
    /// Somebody wrote after the end, on the condition that nobody else had.
    is_guarded: bool,
    /// Somebody came back for its expired lock without a look at whose it is.
    is_blind: bool,
    /// The last write after the end that was not certain to be wrong.
    work: Option<DoubtfulWork>,
}

impl LatenessState {
    /// Whether nothing is remembered.
    pub fn is_initial(&self) -> bool {
        let Self {
            releases,
            close,
            shown,
            overruns,
            overrun,
            last_overrun,
            told,
            has_worked,
            is_guarded,
            is_blind,
            work,
        } = self;
        let is_marked = *has_worked || *is_guarded || *is_blind;
        let is_counted = (releases, close, overruns, last_overrun) != (&0, &0, &0, &0);
        !is_marked && !is_counted && shown.is_empty() && overrun.is_empty() && told.is_none() && work.is_none()
    }
}

/// A write after the end that may have had nothing to do with the lock.
#[derive(Clone)]
struct DoubtfulWork {
    client: u64,
    sentence: String,
    evidence: Vec<Evidence>,
    is_reported: bool,
}

impl LatenessState {
    /// Whether a client may have gone on writing after its lock was over.
    fn has_written(&self, client: u64) -> bool {
        self.has_worked || self.work.as_ref().is_some_and(|work| work.client == client)
    }
}

pub fn observe(context: &mut RuleContext<'_>, state: &mut LatenessState, event: &LockEvent<'_>) {
    match event {
        LockEvent::Acquired { .. } => renewed_anew(context),
        LockEvent::Deleted { hold: Some(hold), precondition, is_release, .. } => {
            let hold = *hold;
            if *is_release {
                released(context, state, hold);
            } else if *precondition == Precondition::None {
                came_for_another(context, state, hold);
            }
        }
        LockEvent::Deleted { hold: None, .. } => released_own_stale(context, state),
        LockEvent::Extended { hold: Some(hold), is_own: false, .. } => came_for_another(context, state, *hold),
        LockEvent::NotOwned { token, intent, had_held: true } => late(context, state, *token, *intent),
        LockEvent::WroteAfterLoss { key, is_first } => worked(context, state, key, *is_first),
        LockEvent::WroteGuarded => state.is_guarded = true,
        LockEvent::Doubted => state.work = None,
        _ => {}
    }
}

/// How long the present command comes after the end of a hold.
fn after(context: &RuleContext<'_>, past: &PastHold) -> String {
    let micros = context.source.at.saturating_sub(past.at).max(0);
    if micros < 1000 {
        "just after it had expired".to_owned()
    } else {
        format!("{} ms after it had expired", micros / 1000)
    }
}

/// A hold is released in time; it may have been close.
fn released(context: &mut RuleContext<'_>, state: &mut LatenessState, hold: usize) {
    let hold = &context.lock.holds[hold];
    // The most time that may have been left.
    let source = &context.source;
    let earliest = source.at - (source.real - source.earliest);
    let now = earliest.div_euclid(1000);
    let (span, deadline) = (granted_ttl(hold), hold.deadline);
    state.releases += 1;
    let (Some(span), Some(deadline)) = (span, deadline) else { return };
    let left = deadline.saturating_sub(now);
    if left < 0 || left.saturating_mul(10) >= span {
        return;
    }
    state.close += 1;
    if state.shown.len() < 3 {
        let renewed = if is_renewed(hold) { format!("{RENEWED} before") } else { String::new() };
        let what = format!("released it with {left} of {span} ms left{renewed}");
        state.shown.push(context.now(what));
    }
    // It happens now and then to a lock that is released very often, without meaning anything.
    if state.close < OFTEN_CLOSE || state.close.saturating_mul(10) < state.releases {
        return;
    }
    let (close, releases, evidence) = (state.close, state.releases, state.shown.clone());
    let actor = hold.client.display_name();
    let sentence = format!(
        "{} was released with less than a tenth of its time left in {close} of {releases} times, this time by {actor}: a little \
         slower, and it is lost in the middle of the work",
        quoted(context.lock)
    );
    context.report(FindingDraft { code: Code::CloseToExpiry, severity: None, sentence, evidence, culprit: 0 });
}

/// The last hold of the client that acts, if it expired.
fn ran_out_of(context: &RuleContext<'_>, token: Option<&[u8]>) -> Option<PastHold> {
    let (lock, actor) = (&*context.lock, context.actor?);
    let past = match token {
        None => lock.past_hold_of(actor).filter(|past| !is_retrying(lock, actor, &past.hold))?,
        Some(token) => {
            let own = lock
                .past_holds
                .iter()
                .rev()
                .find(|past| past.hold.client.is_same_connection(actor) && *past.hold.token == *token);
            let other =
                || lock.past_hold_with(token).filter(|past| past.hold.client.same_program(actor) != SameProgram::No);
            own.or_else(other)?
        }
    };
    expired_while_held(context, past).then(|| past.clone())
}

/// A client comes back for its expired lock, which another one holds.
fn came_for_another(context: &mut RuleContext<'_>, state: &mut LatenessState, hold: usize) {
    let is_own = context.actor.is_none_or(|actor| actor.is_same_connection(&context.lock.holds[hold].client));
    if let Some(past) = ran_out_of(context, None).filter(|_| !is_own) {
        state.is_blind = true;
        came_back(context, state, &past, "came back for it");
    }
}

/// A renewal comes after the end of the hold and sets the key anew, whoever may have had it in between.
fn renewed_anew(context: &mut RuleContext<'_>) {
    let Some(hold) = context.lock.holds.last().filter(|hold| hold.how == Acquisition::Renewed).cloned() else { return };
    let is_its = |past: &&PastHold| past.hold.client.is_same_connection(&hold.client) && past.hold.token == hold.token;
    let Some(past) = context.lock.past_holds.iter().rev().find(is_its).cloned() else { return };
    let after = after(context, &past);
    let sentence = format!(
        "{} renewed {} {after} with a SET that takes it anew: another client could have had it in between",
        hold.client.display_name(),
        quoted(context.lock)
    );
    let evidence = vec![acquisition(&past.hold), context.now(format!("set it again {after}"))];
    let (code, culprit) = (Code::LateExtension, hold.client.id);
    context.report(FindingDraft { code, severity: Some(Severity::Error), sentence, evidence, culprit });
}

/// A client deletes the value that its own expired hold left there.
fn released_own_stale(context: &mut RuleContext<'_>, state: &mut LatenessState) {
    let Some(past) = ran_out_of(context, None) else { return };
    if context.lock.value.as_deref() == Some(&*past.hold.token) {
        report_late(context, state, (&past, false), Code::LateRelease, "released");
    }
}

/// A reply tells a client that the lock which it releases or extends is not its own any more.
fn late(context: &mut RuleContext<'_>, state: &mut LatenessState, token: Option<&[u8]>, intent: Intent) {
    let Some(past) = ran_out_of(context, token) else { return };
    state.is_blind |= token.is_none();
    let past = (&past, token.is_some());
    match intent {
        Intent::Release => report_late(context, state, past, Code::LateRelease, "tried to release"),
        Intent::Extend => {
            report_late(context, state, past, Code::LateExtension, "tried to extend");
            let (past, _) = past;
            state.told = Some((past.hold.client.id, context.source.clone(), past.hold.acquired.place));
        }
        Intent::Unknown => report_late(context, state, past, Code::LateRelease, "tried to release or to extend"),
        Intent::Acquire => {}
    }
}

fn report_late(
    context: &mut RuleContext<'_>,
    state: &mut LatenessState,
    (past, is_compared): (&PastHold, bool),
    code: Code,
    what: &str,
) {
    let Some(actor) = context.actor else { return };
    let after = after(context, past);
    let sentence = format!(
        "{} {what} {} {after}: it had counted on it, and in between anybody could take it",
        actor.display_name(),
        quoted(context.lock)
    );
    let evidence = vec![acquisition(&past.hold), context.now(format!("{what} it {after}"))];
    let culprit = actor.id;
    // What it wrote since was on a condition that makes up for the lock; or it asks before it goes on.
    let has_asked = is_compared && code == Code::LateExtension && !state.has_written(culprit);
    let is_harmless = is_compared && state.is_guarded && !state.has_worked || has_asked;
    let severity = is_harmless.then_some(Severity::Note);
    context.report(FindingDraft { code, severity, sentence, evidence, culprit });
    came_back(context, state, past, &format!("{what} it"));
}

/// A client comes back to its expired lock: the expiry is too short if that happens repeatedly, and what the client
/// wrote in between was work without the lock.
fn came_back(context: &mut RuleContext<'_>, state: &mut LatenessState, past: &PastHold, what: &str) {
    let after = after(context, past);
    let now = context.now(format!("{what} {after}"));
    let client = past.hold.client.id;
    if let Some(work) = state.work.take_if(|work| work.client == client) {
        let DoubtfulWork { sentence, evidence, is_reported, .. } = work;
        let (code, severity) = (Code::WorkAfterExpiry, Some(Severity::Error));
        let draft = FindingDraft { code, severity, sentence, evidence, culprit: client };
        state.has_worked = true;
        if is_reported { context.report_update(draft) } else { context.report(draft) }
    }
    overran(context, state, past, now);
}

fn overran(context: &mut RuleContext<'_>, state: &mut LatenessState, past: &PastHold, now: Evidence) {
    let acquired = past.hold.acquired.place;
    if state.last_overrun >= acquired {
        return;
    }
    state.last_overrun = acquired;
    state.overruns += 1;
    if state.overruns <= OFTEN_TOO_LATE {
        state.overrun.extend([acquisition(&past.hold), now]);
    }
    if state.overruns < OFTEN_TOO_LATE {
        return;
    }
    let (times, evidence) = (state.overruns, state.overrun.clone());
    let sentence = format!(
        "{} expired {times} times before its holders were done with it, this time under {}: others can take it while they work",
        quoted(context.lock),
        past.hold.client.display_name()
    );
    // Whoever writes nothing afterwards, and is mostly in time, has looked before each step. A guard makes up for the lock.
    let is_rare = state.overruns < OFTEN_WITHOUT_WORK && !state.is_blind;
    let is_exception = state.releases > 0 || state.is_guarded || is_rare;
    let is_harmless = !state.has_worked && is_exception;
    let severity = is_harmless.then_some(Severity::Warning);
    context.report(FindingDraft { code: Code::ExpiryTooShort, severity, sentence, evidence, culprit: 0 });
}

/// A client writes a key that it accessed under the lock, which it has lost. One that it writes for the first time may have
/// nothing to do with the lock, unless it comes back for that.
fn worked(context: &mut RuleContext<'_>, state: &mut LatenessState, key: &[u8], is_first: bool) {
    let Some(actor) = context.actor.cloned() else { return };
    if context.lock.shape == LockShape::Semaphore {
        return;
    }
    let (hold, past) = match context.lock.hold_of(&actor) {
        Some(hold) => (hold.clone(), None),
        None => match ran_out_of(context, None) {
            Some(past) => (past.hold.clone(), Some(past)),
            None => return,
        },
    };
    let is_held = past.is_none() && hold.status == HoldStatus::Held;
    if !hold.is_certain || is_held || !is_lost(context, &hold) {
        return;
    }
    let told = state.told.as_ref().filter(|(client, _, taken)| (*client, *taken) == (actor.id, hold.acquired.place));
    let may_count_that = told.is_some() && adds_only(&context.source.line);
    if is_first && (past.is_none() || state.work.is_some() || may_count_that) {
        return;
    }
    state.has_worked |= !is_first;
    let name = String::from_utf8_lossy(key).into_owned();
    let mut evidence = vec![acquisition(&hold)];
    let how = match (&past, &hold.status) {
        (Some(past), _) => after(context, past),
        (None, HoldStatus::Deleted(source)) => {
            evidence.push(source.shows("deleted the lock while it was held"));
            format!("although {} had deleted it", source.display_name())
        }
        (None, HoldStatus::Overwritten(source)) => {
            evidence.push(source.shows("overwrote the lock while it was held"));
            format!("although {} had overwritten it", source.display_name())
        }
        (None, HoldStatus::Flushed(Flush { source, cause })) => {
            evidence.push(source.shows(format!("{} while the lock was held", cause.did())));
            format!("although {}", cause.had_been_done())
        }
        (None, HoldStatus::Evicted(source)) => {
            evidence.push(source.shows("evicted the lock while it was held"));
            "although the server had evicted it".to_owned()
        }
        (None, HoldStatus::FailedOver(source)) => {
            evidence.push(source.shows("had not got the lock"));
            "although the node that had it was replaced".to_owned()
        }
        (None, HoldStatus::Held | HoldStatus::Vanished) => return,
    };
    let other = context.lock.holder().filter(|other| !other.client.is_same_connection(&actor)).cloned();
    let held_by = match &other {
        Some(other) => {
            evidence.push(acquisition(other));
            format!(", while {} held it", other.client.display_name())
        }
        None => String::new(),
    };
    let told = told.map(|(_, told, _)| told.clone()).filter(|_| !may_count_that);
    let knew = match &told {
        Some(told) => {
            evidence.push(told.shows("was told that the lock is lost"));
            ", and was told so"
        }
        None => "",
    };
    evidence.push(context.now(format!("wrote `{name}`")));
    let sentence = format!(
        "{} went on writing `{name}` under {} {how}{held_by}{knew}",
        actor.display_name(),
        quoted(context.lock)
    );
    let severity = match told {
        Some(_) => Severity::Error,
        None if is_first => Severity::Warning,
        None => certainty(context, state, &actor, &hold, other.as_ref()),
    };
    if severity == Severity::Warning {
        let (client, sentence, evidence) = (actor.id, sentence.clone(), evidence.clone());
        state.work = Some(DoubtfulWork { client, sentence, evidence, is_reported: !is_first });
        if is_first {
            return;
        }
    }
    let culprit = actor.id;
    context.report(FindingDraft { code: Code::WorkAfterExpiry, severity: Some(severity), sentence, evidence, culprit });
    if let Some(past) = past.filter(|_| severity == Severity::Error) {
        let now = context.now(format!("went on writing `{name}` {}", after(context, &past)));
        overran(context, state, &past, now);
    }
}

/// Whether a command adds to what is there: a client that is told to stop may still log or count that.
fn adds_only(line: &str) -> bool {
    const NAMES: [&str; 12] =
        ["INCR", "INCRBY", "DECR", "DECRBY", "HINCRBY", "RPUSH", "LPUSH", "SADD", "ZADD", "ZINCRBY", "XADD", "APPEND"];
    let name = line.split(' ').next().unwrap_or_default();
    NAMES.iter().any(|known| name.eq_ignore_ascii_case(known))
}

/// How certain it is that the client works on as if it had the lock. Some clients leave a lock to its expiry on
/// purpose, and a pooled connection may work for another part of the program.
fn certainty(
    context: &RuleContext<'_>,
    state: &LatenessState,
    actor: &ClientIdentity,
    hold: &Hold,
    other: Option<&Hold>,
) -> Severity {
    let may_be_others = other.is_some_and(|other| match other.client.same_program(actor) {
        SameProgram::Yes => true,
        SameProgram::No => false,
        SameProgram::Unknown => is_pooled(context),
    });
    let is_meant = match &hold.status {
        HoldStatus::Deleted(source) | HoldStatus::Overwritten(source) => is_by_other_program(context, hold, source),
        HoldStatus::Flushed(_) => false,
        HoldStatus::Evicted(_) | HoldStatus::FailedOver(_) => true,
        HoldStatus::Held | HoldStatus::Vanished => state.releases > 0,
    };
    if is_meant && !may_be_others { Severity::Error } else { Severity::Warning }
}
