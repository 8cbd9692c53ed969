//! How holds end without a release: disconnects, lost replies, flushes, evictions, the end of the journal.

use std::sync::Arc;

use super::relation::is_claim;
use super::renewal::{RenewalState, is_endless};
use super::tokens::is_unique_token;
use super::wording::{key_text, spelled};
use crate::insight::audit::client_identity::{ClientIdentity, SameProgram};
use crate::insight::audit::code::{Code, Severity};
use crate::insight::audit::effect::{LockShape, Precondition};
use crate::insight::audit::finding::{Evidence, JournalRef};
use crate::insight::audit::lock::{Flush, FlushCause, Hold, HoldStatus};
use crate::insight::audit::lock_event::{LockEvent, VanishCause};
use crate::insight::audit::lock_reason::LockReason;
use crate::insight::audit::rule_context::{FindingDraft, RuleContext};

/// What is remembered of one lock.
#[derive(Clone, Default)]
pub struct EndingState {
    /// Holds that may be abandoned. More than one only in a lock that admits several.
    abandoned: Vec<Abandoned>,
    /// The hold that went with all keys of the database.
    flushed_hold: Option<Box<FlushedHold>>,
}

impl EndingState {
    /// Whether nothing is remembered.
    pub fn is_initial(&self) -> bool {
        let Self { abandoned, flushed_hold } = self;
        abandoned.is_empty() && flushed_hold.is_none()
    }
}

/// How a sentence says that a hold ended by its expiry.
const EXPIRED: &str = "until it expired";

/// How many holds are remembered that may be abandoned.
const MAX_ABANDONED: usize = 16;

/// A hold that may be abandoned: its connection ended, or its holder did not get the reply.
#[derive(Clone)]
struct Abandoned {
    hold: Hold,
    /// The end of the connection.
    closed: Option<Arc<JournalRef>>,
    /// The first refusal of another client meanwhile.
    waited: Option<Arc<JournalRef>>,
    /// The refusals of the holder itself.
    refused: Option<Refused>,
}

impl Abandoned {
    /// Whether a command certainly comes after the end of the connection.
    fn is_left_before(&self, source: &JournalRef) -> bool {
        self.closed.as_ref().is_none_or(|closed| closed.real <= source.earliest)
    }
}

#[derive(Clone)]
struct Refused {
    first: Arc<JournalRef>,
    times: u64,
    /// It may have been another part of the program.
    is_doubtful: bool,
}

/// A hold that went with all keys of the database.
#[derive(Clone)]
struct FlushedHold {
    hold: Hold,
    flush: Flush,
    /// The flush may be of another program than the holder's.
    stranger: bool,
}

pub fn observe(context: &mut RuleContext<'_>, state: &mut EndingState, renewal: &RenewalState, event: &LockEvent<'_>) {
    match *event {
        LockEvent::Acquired { old, .. } => acquired(context, state, old.is_some()),
        LockEvent::Refused { value, .. } => refused(context, state, value),
        LockEvent::Read { value: Some(value) } => known_by_its_holder(context, state, value),
        LockEvent::Deleted { hold, precondition, .. } => removed(context, state, hold, precondition),
        LockEvent::NotOwned { token, .. } => {
            missed_after_flush(context, state, token);
            if let Some(token) = token {
                state.abandoned.retain(|abandoned| *abandoned.hold.token != *token);
            }
        }
        LockEvent::Extended { is_own, .. } => {
            // A client looks after the lock.
            if is_own || context.lock.holder().is_none() {
                state.abandoned.clear();
            }
        }
        LockEvent::Overwritten { .. } => state.abandoned.clear(),
        LockEvent::WroteAfterLoss { .. } => missed_after_flush(context, state, None),
        LockEvent::Expired { hold } => {
            let token = context.lock.holds[hold].token.clone();
            report_abandoned(context, state, EXPIRED, |abandoned| {
                abandoned.hold.token == token && !abandoned.hold.is_certain
            });
        }
        LockEvent::ConnectionClosed { hold } if context.lock.holds[hold].failover.is_some() => {}
        LockEvent::ConnectionClosed { hold } => closed(context, state, renewal, hold),
        LockEvent::Flushed { hold, cause } => flushed(context, state, hold, cause),
        LockEvent::KeyVanished { cause: VanishCause::Expired } => report_abandoned(context, state, EXPIRED, |_| true),
        LockEvent::KeyVanished { cause: VanishCause::Flushed(cause) } => gone_with_all(context, state, cause),
        LockEvent::Evicted { hold } => evicted(context, hold),
        LockEvent::KeyVanished { cause: VanishCause::Evicted } => {
            report_abandoned(context, state, "until it was evicted", |_| true)
        }
        LockEvent::HeldAtEnd { hold } => leaked(context, renewal, hold),
        LockEvent::AuditEnded => {
            let JournalRef { at, real, .. } = *context.source;
            report_abandoned(context, state, "until the end", |abandoned| !abandoned.hold.is_over(at, real));
        }
        LockEvent::Doubted => *state = EndingState::default(),
        // The node has closed the connections.
        LockEvent::FailedOver => state.abandoned.retain(|abandoned| abandoned.closed.is_none()),
        LockEvent::Read { value: None }
        | LockEvent::WroteGuarded
        | LockEvent::GivenElsewhere
        | LockEvent::GivenByTwo { .. }
        | LockEvent::WorkedUnder { .. } => {}
    }
}

/// A client gets the lock.
fn acquired(context: &mut RuleContext<'_>, state: &mut EndingState, is_taken_over: bool) {
    let is_semaphore = context.lock.shape == LockShape::Semaphore;
    if is_taken_over {
        report_abandoned(context, state, "until its time was over", |_| true);
    } else if !is_semaphore {
        state.abandoned.clear();
    }
    let Some(hold) = context.lock.holds.last().cloned() else { return };
    let is_back = |flushed_hold: &FlushedHold| flushed_hold.hold.client.same_program(&hold.client) == SameProgram::Yes;
    if state.flushed_hold.as_deref().is_some_and(is_back) {
        state.flushed_hold = None;
    }
    if !hold.is_certain {
        note_abandoned(state, Abandoned { hold, closed: None, waited: None, refused: None });
    }
}

fn note_abandoned(state: &mut EndingState, abandoned: Abandoned) {
    let known = &mut state.abandoned;
    if known.len() < MAX_ABANDONED {
        known.push(abandoned);
    }
}

fn refused(context: &mut RuleContext<'_>, state: &mut EndingState, value: &[u8]) {
    let Some(actor) = context.actor else { return };
    let source = context.source.clone();
    for abandoned in &mut state.abandoned {
        let same = actor.same_program(&abandoned.hold.client);
        let has_token = *abandoned.hold.token == *value && is_unique_token(value);
        if !abandoned.hold.is_certain && (same == SameProgram::Yes || has_token) {
            // A connection with the same name that is older than the lost one may be another part of the program.
            let is_doubtful = !has_token && actor.id < abandoned.hold.client.id;
            let first = Refused { first: source.clone(), times: 0, is_doubtful };
            let refused = abandoned.refused.get_or_insert(first);
            refused.times += 1;
            refused.is_doubtful &= is_doubtful;
        } else if same != SameProgram::Yes && abandoned.waited.is_none() && abandoned.is_left_before(&source) {
            abandoned.waited = Some(source.clone());
        }
    }
}

/// A client that did not get the reply reads the lock, and knows now.
fn known_by_its_holder(context: &mut RuleContext<'_>, state: &mut EndingState, value: &[u8]) {
    let Some(actor) = context.actor.cloned() else { return };
    state.abandoned.retain(|abandoned| {
        abandoned.hold.is_certain
            || *abandoned.hold.token != *value
            || actor.same_program(&abandoned.hold.client) == SameProgram::No
    });
}

fn removed(
    context: &mut RuleContext<'_>,
    state: &mut EndingState,
    hold: Option<usize>,
    precondition: Precondition<'_>,
) {
    release_after_flush(context, state, hold, precondition);
    let is_semaphore = context.lock.shape == LockShape::Semaphore;
    state.abandoned.retain(|abandoned| match precondition {
        Precondition::Compared(Some(member)) if is_semaphore => *abandoned.hold.token != *member,
        _ => false,
    });
}

/// The connection of a holder ends while the server has the lock.
fn closed(context: &mut RuleContext<'_>, state: &mut EndingState, renewal: &RenewalState, hold: usize) {
    let hold = context.lock.holds[hold].clone();
    let source = context.source.clone();
    let known = state.abandoned.iter_mut().find(|abandoned| abandoned.hold.token == hold.token);
    if let Some(known) = known {
        known.closed = Some(source);
    } else if hold.is_certain && hold.status == HoldStatus::Held && !is_endless(context, renewal, &hold) {
        note_abandoned(state, Abandoned { hold, closed: Some(source), waited: None, refused: None });
    }
}

/// Reports holds that were abandoned until their end.
fn report_abandoned(
    context: &mut RuleContext<'_>,
    state: &mut EndingState,
    until: &str,
    is_meant: impl Fn(&Abandoned) -> bool,
) {
    if state.abandoned.is_empty() {
        return;
    }
    let all = std::mem::take(&mut state.abandoned);
    let (told, kept): (Vec<_>, Vec<_>) = all.into_iter().partition(|abandoned| is_meant(abandoned));
    state.abandoned = kept;
    for abandoned in told {
        let draft = match &abandoned.refused {
            Some(refused) => refused_by_itself(context, &abandoned, refused, until),
            None if abandoned.hold.is_certain => held_at_disconnect(context, &abandoned, until),
            None => lost_and_not_released(context, &abandoned, until),
        };
        context.report(draft);
    }
}

/// The key, and the end of the sentence, of a finding about an abandoned hold.
fn neglect(context: &RuleContext<'_>, abandoned: &Abandoned, until: &str) -> (String, String) {
    let key = key_text(context.lock);
    let is_endless =
        abandoned.hold.end().is_none() && !abandoned.hold.is_deadline_unknown && abandoned.hold.timestamp.is_none();
    let mut rest = match is_endless {
        true => {
            "nobody released it; it has no expiry, so that nobody can take it before somebody deletes it".to_owned()
        }
        false => format!("nobody released it {until}"),
    };
    if let Some(waited) = &abandoned.waited {
        rest.push_str(&format!(", and {} had to wait", waited.display_name()));
    }
    (key, rest)
}

fn proof(abandoned: &Abandoned, took: &str) -> Vec<Evidence> {
    let mut evidence = vec![abandoned.hold.acquired.shows(took)];
    evidence.extend(abandoned.closed.as_ref().map(|closed| closed.shows("its connection ended")));
    evidence.extend(abandoned.waited.as_ref().map(|waited| waited.shows("was refused meanwhile")));
    evidence
}

fn held_at_disconnect(context: &RuleContext<'_>, abandoned: &Abandoned, until: &str) -> FindingDraft {
    let (key, rest) = neglect(context, abandoned, until);
    let client = &abandoned.hold.client;
    let sentence = format!("{} still held `{key}` when its connection ended, and {rest}", client.display_name());
    let evidence = proof(abandoned, "took the lock");
    let severity = (is_left_on_purpose(context, abandoned, until) || is_claim(context)).then_some(Severity::Note);
    FindingDraft { code: Code::HeldAtDisconnect, severity, sentence, evidence, culprit: client.id }
}

/// Whether the lock may have been left to its expiry on purpose: it has expired, and nobody had to wait for it; or its holder
/// had renewed it, and so counted on that it ends when the renewals do.
fn is_left_on_purpose(context: &RuleContext<'_>, abandoned: &Abandoned, until: &str) -> bool {
    let hold = &abandoned.hold;
    let ends = hold.end().is_some() || hold.timestamp.is_some();
    // An expiry in a second step is no renewal.
    let steps =
        u32::from(context.lock.reasons.has(LockReason::ExpiryBehind) || context.lock.reasons.has(LockReason::Behind));
    ends && (abandoned.waited.is_none() && until == EXPIRED || hold.extensions > steps)
}

fn lost_and_not_released(context: &RuleContext<'_>, abandoned: &Abandoned, until: &str) -> FindingDraft {
    let (key, rest) = neglect(context, abandoned, until);
    let client = &abandoned.hold.client;
    let sentence = format!("The reply that gave {} the lock `{key}` was lost, and {rest}", client.display_name());
    let evidence = proof(abandoned, "took the lock, and has not got the reply");
    FindingDraft { code: Code::LostAndNotReleased, severity: None, sentence, evidence, culprit: client.id }
}

fn refused_by_itself(context: &RuleContext<'_>, abandoned: &Abandoned, refused: &Refused, until: &str) -> FindingDraft {
    let key = key_text(context.lock);
    let client = &abandoned.hold.client;
    let times = if refused.times == 1 { String::new() } else { format!(" {} times", refused.times) };
    let may = match refused.is_doubtful {
        true => " (unless several parts of the program share the name)",
        false => "",
    };
    let sentence = format!(
        "{} was refused{times} by the lock `{key}` that it had taken itself, in an attempt whose reply was lost{may}: \
         nobody released it {until}, and nobody could take it",
        refused.first.display_name()
    );
    let mut evidence = vec![abandoned.hold.acquired.shows("took the lock, and has not got the reply")];
    evidence.push(refused.first.shows("was refused by it"));
    let severity = refused.is_doubtful.then_some(Severity::Warning);
    FindingDraft { code: Code::RefusedByItself, severity, sentence, evidence, culprit: client.id }
}

/// A client holds the lock when the journal ends, over an open connection.
fn leaked(context: &mut RuleContext<'_>, renewal: &RenewalState, hold: usize) {
    let hold = context.lock.holds[hold].clone();
    let JournalRef { at, real, .. } = *context.source;
    let is_held = hold.is_certain && hold.status == HoldStatus::Held && !hold.may_be_over(at, real);
    // Its connection may have ended long ago.
    let may_be_gone = !context.collector.has_connection_events(context.lock.id.server);
    if !is_held || may_be_gone || is_endless(context, renewal, &hold) {
        return;
    }
    let left = match hold.end() {
        Some(end) => {
            format!("it would have expired {} later, and nobody could take it before", spelled((end - at).max(0)))
        }
        None if hold.timestamp.is_some() => "its time was not over".to_owned(),
        None if hold.is_deadline_unknown => "it may have an expiry".to_owned(),
        None => "it has no expiry, so that nobody can take it before somebody deletes it".to_owned(),
    };
    let key = key_text(context.lock);
    let sentence = format!("{} still held `{key}` at the end; {left}", hold.client.display_name());
    let evidence = vec![hold.acquired.shows("took the lock, and did not release it")];
    let (code, severity) = (Code::Leaked, is_claim(context).then_some(Severity::Note));
    context.report(FindingDraft { code, severity, sentence, evidence, culprit: hold.client.id });
}

/// All keys go while a client holds the lock over an open connection.
fn flushed(context: &mut RuleContext<'_>, state: &mut EndingState, hold: usize, cause: FlushCause) {
    let hold = context.lock.holds[hold].clone();
    let flush = Flush { source: context.source.clone(), cause };
    let is_restart = cause == FlushCause::Restart;
    let same = context.actor.map_or(SameProgram::Yes, |actor| actor.same_program(&hold.client));
    if !is_restart && same == SameProgram::No && hold.is_certain {
        report_flush(context, &hold, &flush, None);
    }
    let stranger = !is_restart && same == SameProgram::Unknown && hold.is_certain;
    state.flushed_hold = Some(Box::new(FlushedHold { hold, flush, stranger }));
}

/// The server evicts the lock that a client holds.
fn evicted(context: &mut RuleContext<'_>, hold: usize) {
    let hold = context.lock.holds[hold].clone();
    if !hold.is_certain {
        return;
    }
    let key = key_text(context.lock);
    let left = match hold.end() {
        Some(end) => format!("; it would have lived for another {}", spelled((end - context.source.at).max(0))),
        None => String::new(),
    };
    let sentence = format!(
        "The server evicted `{key}` while {} held it, because memory was full, and anybody could take it, too{left}",
        hold.client.display_name()
    );
    let evidence = vec![hold.acquired.shows("took the lock"), context.now("made room for other keys")];
    context.report(FindingDraft { code: Code::EvictedLock, severity: None, sentence, evidence, culprit: 0 });
}

/// The key went with all others, whether a client held it or not.
fn gone_with_all(context: &mut RuleContext<'_>, state: &mut EndingState, cause: FlushCause) {
    let flush = Flush { source: context.source.clone(), cause };
    if let Some(abandoned) = state.abandoned.pop().filter(|abandoned| abandoned.hold.is_certain) {
        state.flushed_hold = Some(Box::new(FlushedHold { hold: abandoned.hold, flush, stranger: false }));
    }
    state.abandoned.clear();
}

fn report_flush(context: &mut RuleContext<'_>, hold: &Hold, flush: &Flush, back: Option<Evidence>) {
    let Flush { source, cause } = flush;
    let key = key_text(context.lock);
    let sentence = format!(
        "{} {} while {} held `{key}`: from then on anybody could take it, too",
        source.display_name(),
        cause.did(),
        hold.client.display_name()
    );
    let mut evidence = vec![hold.acquired.shows("took the lock"), source.shows(cause.did())];
    evidence.extend(back);
    context.report(FindingDraft {
        code: Code::FlushedLocks,
        severity: None,
        sentence,
        evidence,
        culprit: source.client,
    });
}

/// A holder comes back to a lock that a flush took: so the flush was not its own program's.
fn missed_after_flush(context: &mut RuleContext<'_>, state: &mut EndingState, token: Option<&[u8]>) {
    let Some(actor) = context.actor else { return };
    let is_its = |flushed_hold: &FlushedHold| {
        flushed_hold.stranger
            && (actor.is_same_connection(&flushed_hold.hold.client)
                || token.is_some_and(|token| *flushed_hold.hold.token == *token))
    };
    if !state.flushed_hold.as_deref().is_some_and(is_its) {
        return;
    }
    let Some(flushed_hold) = state.flushed_hold.as_deref_mut() else { return };
    flushed_hold.stranger = false;
    let (hold, flush) = (flushed_hold.hold.clone(), flushed_hold.flush.clone());
    let back = context.now("still counted on the lock");
    report_flush(context, &hold, &flush, Some(back));
}

/// A client deletes a lock by its key after it lost it to a flush and another client took it.
fn release_after_flush(
    context: &mut RuleContext<'_>,
    state: &mut EndingState,
    hold: Option<usize>,
    precondition: Precondition<'_>,
) {
    let (Some(actor), Some(hold), Precondition::None) = (context.actor, hold, precondition) else { return };
    let new = &context.lock.holds[hold];
    let is_its = |flushed_hold: &FlushedHold| {
        flushed_hold.hold.client.same_program(actor) == SameProgram::Yes && is_other(&new.client, actor)
    };
    let Some(flushed_hold) = state.flushed_hold.as_deref().filter(|flushed_hold| is_its(flushed_hold)) else { return };
    let how = flushed_hold.flush.cause.was_done();
    let key = key_text(context.lock);
    let sentence = format!(
        "{} released `{key}` by its key alone, but had lost it when {how}, and {} held it by then",
        actor.display_name(),
        new.client.display_name()
    );
    let evidence = vec![
        flushed_hold.hold.acquired.shows("took the lock"),
        flushed_hold.flush.source.shows(how),
        new.acquired.shows("took the lock, which was free"),
        context.now("deleted it by its key"),
    ];
    let culprit = actor.id;
    state.flushed_hold = None;
    context.report(FindingDraft { code: Code::ReleaseAfterFlush, severity: None, sentence, evidence, culprit });
}

fn is_other(one: &ClientIdentity, other: &ClientIdentity) -> bool {
    one.same_program(other) != SameProgram::Yes
}
