//! How long locks live.

use std::sync::Arc;

use super::relation::is_claim;
use super::wording::quoted;
use crate::insight::audit::client_identity::{ClientIdentity, SameProgram};
use crate::insight::audit::code::{Code, Severity};
use crate::insight::audit::effect::{ExpiryChange, LockShape, Precondition};
use crate::insight::audit::finding::{Evidence, JournalRef};
use crate::insight::audit::lock::{Hold, HoldStatus, push_exact};
use crate::insight::audit::lock_event::LockEvent;
use crate::insight::audit::rule_context::{FindingDraft, RuleContext};

/// A time to live outside of these milliseconds is hardly meant.
const SHORTEST: i64 = 10;
const LONGEST: i64 = 86_400_000;

/// A client that gave a lock its expiry in a second command, and both commands.
type TwoSteps = (ClientIdentity, Arc<JournalRef>, Arc<JournalRef>);

/// What is remembered of one lock.
#[derive(Clone, Default)]
pub struct ExpiryState {
    /// The numbers of the commands that took the lock without an expiry, for the present holds.
    endless: Vec<u64>,
    /// The last client that gave the lock its expiry in a second command: the client and both commands.
    two_steps: Option<Box<TwoSteps>>,
}

impl ExpiryState {
    /// Whether this hold has no expiry, if nothing else is remembered.
    pub fn at_rest(&self, hold: &Hold) -> Option<bool> {
        match (&self.endless[..], &self.two_steps) {
            ([], None) => Some(false),
            ([seq], None) if *seq == hold.acquired.seq => Some(true),
            _ => None,
        }
    }

    pub fn of_resting(is_endless: bool, hold: &Hold) -> Self {
        Self { endless: is_endless.then_some(hold.acquired.seq).into_iter().collect(), two_steps: None }
    }
}

pub fn observe(context: &mut RuleContext<'_>, state: &mut ExpiryState, event: &LockEvent<'_>) {
    if context.lock.shape == LockShape::Semaphore {
        return;
    }
    match *event {
        LockEvent::Acquired { .. } => taken(context, state),
        LockEvent::Extended { hold: Some(hold), is_own, deadline: None, expiry, value, .. } => {
            no_more(context, state, hold, is_own, (expiry, value));
        }
        LockEvent::Extended { hold: Some(hold), precondition, is_own, deadline: Some(deadline), .. } => {
            extended(context, state, hold, (precondition, is_own, deadline));
        }
        LockEvent::Overwritten { hold: Some(hold), deadline: None, .. } if context.lock.deadline.is_some() => {
            removed(context, hold, Severity::Error);
        }
        LockEvent::Deleted { hold: Some(hold), is_release: true, .. } => endless(context, state, hold, false),
        // If its connection has ended, it may have been on its way to the second step.
        LockEvent::HeldAtEnd { .. }
            if state.two_steps.is_some() && !context.collector.has_connection_events(context.lock.id.server) => {}
        LockEvent::HeldAtEnd { hold } if !is_between_steps(context, state, hold) => {
            endless(context, state, hold, false)
        }
        LockEvent::ConnectionClosed { hold } => endless(context, state, hold, true),
        LockEvent::Doubted => state.endless.clear(),
        _ => {}
    }
}

/// Whether nothing is told of a time to live in milliseconds.
pub fn is_usual(left: i64) -> bool {
    (SHORTEST..=LONGEST).contains(&left)
}

fn taken(context: &mut RuleContext<'_>, state: &mut ExpiryState) {
    let Some(hold) = context.lock.holds.last() else { return };
    let (seq, deadline) = (hold.acquired.seq, hold.deadline);
    if deadline.is_none() && !hold.is_deadline_unknown && hold.timestamp.is_none() {
        let lock = &mut *context.lock;
        let endless = &mut state.endless;
        endless.retain(|seq| lock.holds.iter().any(|hold| hold.acquired.seq == *seq));
        push_exact(endless, seq);
    }
    let Some(left) = deadline.map(|deadline| deadline - context.source.at.div_euclid(1000)) else { return };
    if !is_usual(left) {
        let sentence = format!(
            "{} took {} for {}: {}",
            context.source.display_name(),
            quoted(context.lock),
            length(left),
            consequence(left)
        );
        let evidence = vec![context.now(format!("took the lock for {}", length(left)))];
        odd(context, sentence, evidence, (left < 0).then_some(Severity::Error));
    }
}

fn odd(context: &mut RuleContext<'_>, sentence: String, evidence: Vec<Evidence>, severity: Option<Severity>) {
    let culprit = context.source.client;
    context.report(FindingDraft { code: Code::OddExpiry, severity, sentence, evidence, culprit });
}

/// A client leaves the lock without an expiry.
fn no_more(
    context: &mut RuleContext<'_>,
    state: &mut ExpiryState,
    at: usize,
    is_own: bool,
    (expiry, value): (ExpiryChange, Option<&[u8]>),
) {
    let is_endless = state.endless.contains(&context.lock.holds[at].acquired.seq);
    if is_endless && is_own && expiry != ExpiryChange::Kept {
        endless(context, state, at, false);
    } else if context.lock.deadline.is_some() {
        // PERSIST has no other purpose, and whoever puts something else there does not renew the lock.
        let is_meant = is_own && value.is_none_or(|value| *value != *context.lock.holds[at].token);
        removed(context, at, if is_meant { Severity::Warning } else { Severity::Error });
    }
}

/// A client gives the lock a deadline.
fn extended(
    context: &mut RuleContext<'_>,
    state: &mut ExpiryState,
    at: usize,
    (precondition, is_own, deadline): (Precondition<'_>, bool, i64),
) {
    let hold = context.lock.holds[at].clone();
    let left = deadline - context.source.at.div_euclid(1000);
    let in_one_step = hold.acquired.seq == context.source.seq;
    let is_endless = state.endless.contains(&hold.acquired.seq);
    let is_holder = context.actor.is_some_and(|actor| actor.same_program(&hold.client) == SameProgram::Yes);
    let is_second_step =
        is_endless && is_holder && precondition == Precondition::None && hold.extensions == 0 && !in_one_step;
    if left > 0 {
        if is_second_step {
            in_second_step(context, state, &hold);
        }
        state.endless.retain(|seq| *seq != hold.acquired.seq);
    }
    if !is_own {
        return;
    }
    // An expiry of 0 releases a lock, but nobody releases what it has just taken.
    if left < 0 || (left == 0 && (is_second_step || in_one_step)) {
        let sentence = format!(
            "{} gave {} an expiry that is over already, which deleted the lock",
            hold.client.display_name(),
            quoted(context.lock)
        );
        let evidence = vec![hold.acquired.shows("took the lock"), context.now("deleted it by its expiry")];
        // What took the lock and deleted it says that the client has it. Nobody releases what it has not used.
        let is_unused = is_second_step && left < 0 && !has_worked_since(context, &hold);
        odd(context, sentence, evidence, (in_one_step || is_unused).then_some(Severity::Error));
    } else if left > 0 && !(SHORTEST..=LONGEST).contains(&left) {
        let then = consequence(left);
        let left = length(left);
        let sentence =
            format!("{} gave {} an expiry of {left}: {then}", context.source.display_name(), quoted(context.lock));
        let evidence = vec![context.now(format!("gave the lock an expiry of {left}"))];
        odd(context, sentence, evidence, None);
    }
}

/// Whether the holder has used other keys since it took the lock.
fn has_worked_since(context: &RuleContext<'_>, hold: &Hold) -> bool {
    let client = context.clients.get(&(hold.client.server, hold.client.id));
    client.is_some_and(|client| client.work > 0 && client.worked_at >= hold.acquired.at)
}

fn in_second_step(context: &mut RuleContext<'_>, state: &mut ExpiryState, hold: &Hold) {
    let sentence = format!(
        "{} took {} without an expiry and gave it one in a second command: had it died in between, the lock would have \
         stayed for ever",
        hold.client.display_name(),
        quoted(context.lock)
    );
    let evidence = vec![hold.acquired.shows("took the lock without an expiry"), context.now("gave it an expiry")];
    let steps = (hold.client.clone(), hold.acquired.clone(), context.source.clone());
    state.two_steps = Some(Box::new(steps));
    let culprit = hold.client.id;
    context.report(FindingDraft { code: Code::ExpiryInSecondStep, severity: None, sentence, evidence, culprit });
}

/// A hold without an expiry ends. `is_closed` says that its connection ended, so that the lock stays.
fn endless(context: &mut RuleContext<'_>, state: &mut ExpiryState, at: usize, is_closed: bool) {
    let Some(hold) = context.lock.holds.get(at) else { return };
    // A lock that another client deleted does not stay.
    if hold.status != HoldStatus::Held {
        return;
    }
    let Some(known) = state.endless.iter().position(|seq| *seq == hold.acquired.seq) else { return };
    let hold = hold.clone();
    state.endless.remove(known);
    let severity = is_claim(context).then_some(Severity::Note);
    let (actor, key) = (hold.client.display_name(), quoted(context.lock));
    let mut evidence = vec![hold.acquired.shows("took the lock without an expiry")];
    if !is_closed {
        let sentence =
            format!("{actor} took {key} without an expiry: had it died, the lock would have stayed for ever");
        let code = Code::NoExpiry;
        return context.report(FindingDraft { code, severity, sentence, evidence, culprit: 0 });
    }
    evidence.push(context.now("was gone before it gave the lock an expiry, or released it"));
    let Some(steps) = state.two_steps.clone().filter(|steps| is_like(&hold, steps)) else {
        let sentence = format!(
            "{actor} took {key} without an expiry, and its connection ended while it held it: the lock stays until \
             somebody deletes it"
        );
        return context.report(FindingDraft { code: Code::NoExpiry, severity, sentence, evidence, culprit: 0 });
    };
    let (other, taken, given) = *steps;
    let others = if other.same_program(&hold.client) == SameProgram::Yes { "before" } else { "as others do" };
    let sentence = format!(
        "{actor} took {key} and its connection ended before it gave the lock an expiry in a second command, {others}: the \
         lock stays until somebody deletes it"
    );
    evidence.push(taken.shows("took the lock without an expiry"));
    evidence.push(given.shows("gave it an expiry"));
    let (code, culprit) = (Code::ExpiryInSecondStep, hold.client.id);
    context.report(FindingDraft { code, severity: None, sentence, evidence, culprit });
}

/// Whether the holder may be about to give the lock an expiry, as it did before.
fn is_between_steps(context: &RuleContext<'_>, state: &ExpiryState, at: usize) -> bool {
    let steps = state.two_steps.as_deref();
    steps
        .zip(context.lock.holds.get(at))
        .is_some_and(|(steps, hold)| steps.0.same_program(&hold.client) == SameProgram::Yes)
}

/// Whether a client took the lock in the same way as one that gave it an expiry later.
fn is_like(hold: &Hold, (client, taken, _): &TwoSteps) -> bool {
    let words = |source: &JournalRef| {
        let mut words = source.line.split(' ');
        (words.next().map(str::to_ascii_lowercase), words.count())
    };
    client.same_program(&hold.client) == SameProgram::Yes || words(taken) == words(&hold.acquired)
}

/// A client took the expiry of the lock away.
fn removed(context: &mut RuleContext<'_>, at: usize, severity: Severity) {
    let hold = &context.lock.holds[at];
    let last = hold.extended.as_ref().unwrap_or(&hold.acquired);
    let held = if context.actor.is_some_and(|actor| actor.is_same_connection(&hold.client)) {
        String::new()
    } else {
        format!(", which {} held", hold.client.display_name())
    };
    let sentence = format!(
        "{} took the expiry of {} away{held}: if its holder dies now, it stays for ever",
        context.source.display_name(),
        quoted(context.lock)
    );
    let evidence = vec![last.shows("gave the lock an expiry"), context.now("took it away")];
    let culprit = context.source.client;
    context.report(FindingDraft { code: Code::ExpiryRemoved, severity: Some(severity), sentence, evidence, culprit });
}

/// What an expiry that is hardly meant leads to.
fn consequence(millis: i64) -> &'static str {
    match millis < SHORTEST {
        true => "it is over before any work is done",
        false => "if its holder dies, nobody gets it for so long",
    }
}

/// A duration in milliseconds in words.
fn length(millis: i64) -> String {
    match millis {
        ..1000 => format!("{millis} ms"),
        1000..120_000 => format!("{} s", millis / 1000),
        120_000..7_200_000 => format!("{} min", millis / 60_000),
        7_200_000..172_800_000 => format!("{} hours", millis / 3_600_000),
        _ => format!("{} days", millis / 86_400_000),
    }
}
