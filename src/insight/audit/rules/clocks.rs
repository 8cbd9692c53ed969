//! Locks whose value is the time at which they end.

use std::sync::Arc;

use super::relation::{Relation, doubtful, relation_to};
use super::wording::quoted;
use crate::insight::audit::client_identity::{ClientIdentity, SameProgram};
use crate::insight::audit::client_state::LockRead;
use crate::insight::audit::code::{Code, Severity};
use crate::insight::audit::effect::{LockShape, Precondition};
use crate::insight::audit::finding::{Evidence, JournalRef};
use crate::insight::audit::lock::{Hold, HoldEnd};
use crate::insight::audit::lock_event::LockEvent;
use crate::insight::audit::lock_reason::LockReason;
use crate::insight::audit::rule_context::{FindingDraft, RuleContext};
use crate::insight::audit::timestamp::{TimeUnit, Timestamp};

/// How many microseconds clocks may differ without a finding.
const TOLERANCE: i64 = 2_000_000;
/// How long an interval may be at most in which a claim was made.
const VAGUE: i64 = 10_000;
/// How many clients' claims are remembered of each lock.
const MAX_CLAIMS: usize = 4;

/// What is remembered of one lock.
#[derive(Clone, Default)]
pub struct ClocksState {
    /// The first claim of each client.
    claims: Vec<Claim>,
    /// The unit of the first timestamp.
    unit: Option<(TimeUnit, Arc<JournalRef>)>,
    /// The last client that deleted the lock as stale and has not taken it since.
    deleted: Option<Box<Deleted>>,
}

impl ClocksState {
    /// Whether nothing is remembered.
    pub fn is_initial(&self) -> bool {
        let Self { claims, unit, deleted } = self;
        claims.is_empty() && unit.is_none() && deleted.is_none()
    }

    /// Whether it is remembered that this hold has a timestamp, if nothing else is.
    pub fn at_rest(&self, hold: &Hold) -> Option<bool> {
        if hold.timestamp.is_none() {
            return self.is_initial().then_some(false);
        }
        let known = Self::of_resting(hold);
        let ([own], [claim]) = (&known.claims[..], &self.claims[..]) else { return None };
        let is_own = claim.client.is_same_connection(&own.client)
            && claim.client.seen == own.client.seen
            && claim.source == own.source
            && (claim.by_server, claim.by_real) == (own.by_server, own.by_real);
        (is_own && self.unit == known.unit && self.deleted.is_none()).then_some(true)
    }

    /// What is remembered of a lock to which nothing has happened since a client took it.
    pub fn of_resting(hold: &Hold) -> Self {
        let Some(timestamp) = hold.timestamp else { return Self::default() };
        let (source, unit) = (&hold.acquired, (timestamp.unit, Arc::clone(&hold.acquired)));
        let claims = vec![Claim::new(hold.client.clone(), Arc::clone(source), timestamp)];
        Self { claims, unit: Some(unit), deleted: None }
    }
}

/// How long a client claims to hold the lock.
#[derive(Clone)]
struct Claim {
    client: ClientIdentity,
    source: Arc<JournalRef>,
    /// The duration by the server's clock and by real time, in microseconds.
    by_server: i64,
    by_real: i64,
}

impl Claim {
    fn new(client: ClientIdentity, source: Arc<JournalRef>, timestamp: Timestamp) -> Self {
        Self { client, by_server: timestamp.micros - source.at, by_real: timestamp.micros - source.real, source }
    }
}

/// A client deleted a lock that it does not hold, after it had read a timestamp there.
#[derive(Clone)]
struct Deleted {
    client: ClientIdentity,
    read: LockRead,
    source: Arc<JournalRef>,
    /// How many microseconds were left by both clocks, and the holder; `None` if the time was over.
    left: Option<(i64, ClientIdentity)>,
}

pub fn observe(context: &mut RuleContext<'_>, state: &mut ClocksState, event: &LockEvent<'_>) {
    if context.lock.shape != LockShape::Value {
        return;
    }
    match event {
        LockEvent::Acquired { .. } => {
            let Some(hold) = context.lock.holds.last() else { return };
            let (value, timestamp) = (hold.token.clone(), hold.timestamp);
            taken_after_deletion(context, state, true);
            if let Some(timestamp) = timestamp {
                if !unit(context, state, timestamp) {
                    claim(context, state, timestamp);
                }
            } else {
                other_unit(context, state, &value);
            }
        }
        LockEvent::Refused { value, .. } => {
            taken_after_deletion(context, state, false);
            other_unit(context, state, value);
        }
        LockEvent::Extended { value: Some(value), is_own: true, .. } => {
            other_unit(context, state, value);
        }
        LockEvent::Overwritten { hold, value, by_getset, deadline, read } if !other_unit(context, state, value) => {
            overwritten(context, *hold, (*by_getset, value, *deadline), read.as_ref());
        }
        LockEvent::Doubted => state.deleted = None,
        LockEvent::Deleted { hold, precondition: Precondition::None, is_release: false, read: Some(read), .. } => {
            deleted(context, state, *hold, read);
        }
        _ => {}
    }
}

/// The timestamp that a client read, and whether it was past then by either clock.
fn read_time(read: &LockRead) -> Option<(Timestamp, bool)> {
    let value = read.value.as_deref()?;
    let timestamp = Timestamp::in_value(value, read.source.at, read.source.real)?;
    // At the earliest, in doubt.
    let at = read.source.at - (read.source.real - read.source.earliest);
    Some((timestamp, timestamp.left(at, read.source.earliest) < 0))
}

/// Whether two units mean the same to a client that compares numbers. Seconds with a fraction are seconds.
pub fn are_one_unit(one: TimeUnit, other: TimeUnit) -> bool {
    let plain = |unit| if unit == TimeUnit::Fractions { TimeUnit::Seconds } else { unit };
    plain(one) == plain(other)
}

/// Checks the unit of an offered value, if the lock has timestamps.
fn other_unit(context: &mut RuleContext<'_>, state: &mut ClocksState, value: &[u8]) -> bool {
    if !context.lock.reasons.has(LockReason::Timestamp) {
        return false;
    }
    let JournalRef { at, real, .. } = *context.source;
    Timestamp::in_value(value, at, real).is_some_and(|timestamp| unit(context, state, timestamp))
}

/// Reports a unit that differs from the first one. Returns whether it does.
fn unit(context: &mut RuleContext<'_>, state: &mut ClocksState, timestamp: Timestamp) -> bool {
    let Some((known, first)) = state.unit.clone() else {
        state.unit = Some((timestamp.unit, context.source.clone()));
        return false;
    };
    if are_one_unit(known, timestamp.unit) {
        return false;
    }
    let sentence = format!(
        "{} gave the time in {} in {}, and {} in {}: each takes the other's for long over, or for never over",
        first.display_name(),
        quoted(context.lock),
        known.name(),
        context.source.display_name(),
        timestamp.unit.name()
    );
    let evidence = vec![
        first.shows(format!("gave the time in {}", known.name())),
        context.now(format!("gave it in {}", timestamp.unit.name())),
    ];
    let culprit = context.source.client;
    context.report(FindingDraft { code: Code::MixedTimeUnits, severity: None, sentence, evidence, culprit });
    true
}

/// Compares the claims of clients.
fn claim(context: &mut RuleContext<'_>, state: &mut ClocksState, timestamp: Timestamp) {
    let Some(actor) = context.actor.cloned() else { return };
    let source = context.source.clone();
    // When it was written is not known well enough.
    if source.real - source.earliest > VAGUE {
        return;
    }
    let new = Claim::new(actor, source, timestamp);
    // A client that uses real time is judged by that.
    let is_over = new.by_server.max(new.by_real) < -TOLERANCE;
    if is_over {
        let behind = seconds(-new.by_server.max(new.by_real));
        let sentence = format!(
            "{} took {} with a time that was over {behind} ago: its clock seems to be behind, and others take the lock for stale at once",
            new.source.display_name(),
            quoted(context.lock)
        );
        let evidence = vec![context.now(format!("took the lock until {behind} ago"))];
        let culprit = new.source.client;
        return context.report(FindingDraft {
            code: Code::ClockDisagrees,
            severity: None,
            sentence,
            evidence,
            culprit,
        });
    }
    let claims = &mut state.claims;
    // When a test has moved the server's clock, some clients may use that one, and others real time.
    let far = |known: &&Claim| {
        let pairs = [known.by_server, known.by_real].map(|one| [one - new.by_server, one - new.by_real]);
        !known.client.is_same_connection(&new.client)
            && pairs.as_flattened().iter().all(|apart| apart.abs() > TOLERANCE)
    };
    let other = claims.iter().find(far).cloned();
    // A client whose own claims vary has varying time-outs, not another clock.
    let own = claims.iter().find(|known| known.client.is_same_connection(&new.client));
    let is_steady = own.is_none_or(|own| (own.by_server - new.by_server).abs() <= TOLERANCE);
    if own.is_none() {
        if claims.len() >= MAX_CLAIMS {
            claims.remove(0);
        }
        claims.push(new.clone());
    }
    let Some(other) = other.filter(|other| is_steady && !(is_round(other, timestamp) && is_round(&new, timestamp)))
    else {
        return;
    };
    let sentence = format!(
        "by the server's clock {} took {} for {} and {} for {}: their clocks differ, unless their time-outs do",
        other.client.display_name(),
        quoted(context.lock),
        seconds(other.by_server),
        new.client.display_name(),
        seconds(new.by_server)
    );
    let evidence = vec![
        other.source.shows(format!("took the lock for {}", seconds(other.by_server))),
        context.now(format!("took it for {}", seconds(new.by_server))),
    ];
    let culprit = new.client.id;
    context.report(FindingDraft { code: Code::ClockDisagrees, severity: None, sentence, evidence, culprit });
}

/// Whether a claim is a round duration minus the way to the server: a time-out, and no difference of clocks.
fn is_round(claim: &Claim, timestamp: Timestamp) -> bool {
    let missing = |actor: i64| (-actor).rem_euclid(100_000);
    timestamp.unit != TimeUnit::Seconds && missing(claim.by_server).min(missing(claim.by_real)) <= 20_000
}

/// A client overwrites a lock that another one holds.
fn overwritten(
    context: &mut RuleContext<'_>,
    hold: Option<usize>,
    (by_getset, value, deadline): (bool, &[u8], Option<i64>),
    read: Option<&LockRead>,
) {
    let Some(hold) = hold.map(|hold| context.lock.holds[hold].clone()) else { return };
    if context.actor.is_none_or(|actor| actor.same_program(&hold.client) == SameProgram::Yes) {
        return;
    }
    let now = context.source.clone();
    let timestamp = hold.timestamp.or_else(|| Timestamp::in_value(&hold.token, now.at, now.real));
    if let (true, Some(timestamp)) = (by_getset, timestamp.filter(|_| hold.deadline.is_none())) {
        match read.map(|read| (read, read_time(read))) {
            // Another client was quicker. GETSET returns that, as the pattern intends.
            Some((_, Some((_, true)))) => return,
            Some((read, None)) if read.value.is_none() => return,
            Some((read, Some(_))) if read.value.as_deref() == context.lock.value.as_deref() => {
                let left = timestamp.left(now.at, now.real);
                let evidence = vec![
                    hold.acquired.shows("took the lock"),
                    read.source.shows("read until when"),
                    now.shows(format!("took it over {} before", seconds(left))),
                ];
                return ahead(context, &hold.client, left, evidence);
            }
            _ => {}
        }
    }
    // To write one's token anew, with a time, over that of another program is to renew a lock.
    let is_renewal = deadline.is_some() && former_of(context, &hold, value).is_some();
    if is_renewal && context.actor.is_some_and(|actor| actor.same_program(&hold.client) == SameProgram::No) {
        context.note_reason(LockReason::Sought);
    }
    let key = quoted(context.lock);
    let mut evidence = vec![hold.acquired.shows("took the lock")];
    evidence.extend(hold.extended.as_ref().map(|extended| extended.shows("extended it")));
    evidence.push(context.now("overwrote it"));
    let (actor, holder) = (now.display_name(), hold.client.display_name());
    let (severity, sentence) = match relation_to(context, &hold, read) {
        Relation::Own => return,
        Relation::Stranger(proof) => {
            evidence.extend(proof);
            (None, format!("{actor} overwrote {key} while {holder} held it: both count on it now"))
        }
        // GETSET on a lock has no other purpose than to take it.
        Relation::Unknown if by_getset => {
            (None, format!("{actor} overwrote {key} while {holder} held it: both count on it now"))
        }
        Relation::Unknown => match mistaken(context, &hold, value, read) {
            Some(proof) => {
                evidence.push(proof);
                (None, format!("{actor} overwrote {key} while {holder} held it: both count on it now"))
            }
            None => {
                let may = "they may be the same program on two connections";
                (Some(doubtful(context)), format!("{actor} overwrote {key}, which {holder} had taken; {may}"))
            }
        },
    };
    let culprit = now.client;
    context.report(FindingDraft { code: Code::OverwroteLiveLock, severity, sentence, evidence, culprit });
}

/// The proof that whoever overwrites a lock does not have it: it found it free before the holder came, or writes the token
/// of a hold that is over.
fn mistaken(context: &RuleContext<'_>, hold: &Hold, value: &[u8], read: Option<&LockRead>) -> Option<Evidence> {
    let found_free = read.filter(|read| read.value.is_none() && read.source.place < hold.acquired.place);
    if let Some(read) = found_free {
        return Some(read.source.shows("found it free"));
    }
    let former = former_of(context, hold, value);
    former.map(|former| former.acquired.shows("took it before, with a lock that had expired by now"))
}

/// The expired hold whose token is written over another one.
fn former_of<'c>(context: &'c RuleContext<'_>, hold: &Hold, value: &[u8]) -> Option<&'c Hold> {
    let former = context.lock.past_hold_with(value).filter(|_| *hold.token != *value);
    former.filter(|past| past.end == HoldEnd::Expired && past.hold.is_certain).map(|past| &past.hold)
}

/// A client took a lock for stale that was not.
fn ahead(context: &mut RuleContext<'_>, holder: &ClientIdentity, left: i64, evidence: Vec<Evidence>) {
    let severity = if left < TOLERANCE { Severity::Warning } else { Severity::Error };
    let sentence = format!(
        "{} took {} over from {} when it had {} left by the server's clock, and both count on it: its clock seems to be ahead",
        context.source.display_name(),
        quoted(context.lock),
        holder.display_name(),
        seconds(left)
    );
    let culprit = context.source.client;
    context.report(FindingDraft { code: Code::ClockDisagrees, severity: Some(severity), sentence, evidence, culprit });
}

/// A client deletes a lock that it does not hold, and has read a timestamp there before.
fn deleted(context: &mut RuleContext<'_>, state: &mut ClocksState, hold: Option<usize>, read: &LockRead) {
    let (Some(actor), Some((timestamp, was_stale))) = (context.actor.cloned(), read_time(read)) else { return };
    let now = context.source.clone();
    let holder = hold.map(|hold| context.lock.holds[hold].clone());
    // A client that took it in between may have released it by now.
    let between = holder.as_ref().or_else(|| context.lock.past_holds.back().map(|past| &past.hold));
    let between = between.filter(|between| between.client.same_program(&actor) != SameProgram::Yes).cloned();
    if let Some(holder) = between.filter(|_| was_stale && read.times_taken < context.lock.times_taken) {
        let sentence = format!(
            "{} found {} stale and deleted it, but {} had taken it anew in between, and goes on without it",
            now.display_name(),
            quoted(context.lock),
            holder.client.display_name()
        );
        let evidence = vec![
            read.source.shows("found the lock stale"),
            holder.acquired.shows("took it anew"),
            context.now("deleted it all the same"),
        ];
        let (code, culprit) = (Code::StaleDeleteRace, now.client);
        state.deleted = None;
        return context.report(FindingDraft { code, severity: Some(Severity::Error), sentence, evidence, culprit });
    }
    if read.value.as_deref() == context.lock.value.as_deref() {
        let left = (!was_stale).then(|| timestamp.left(now.at, now.real)).filter(|left| *left > 0);
        let left = left.and_then(|left| Some((left, holder?.client)));
        let deleted = Deleted { client: actor, read: read.clone(), source: now, left };
        state.deleted = Some(Box::new(deleted));
    }
}

/// A client that may have deleted the stale lock takes it, or is refused.
fn taken_after_deletion(context: &mut RuleContext<'_>, state: &mut ClocksState, took: bool) {
    let deleted = &mut state.deleted;
    let Some(actor) = context
        .actor
        .filter(|actor| deleted.as_ref().is_some_and(|deleted| actor.is_same_connection(&deleted.client)))
        .cloned()
    else {
        return;
    };
    let Some(deleted) = deleted.take() else { return };
    let read = &deleted.read;
    if let Some((left, holder)) = &deleted.left {
        if took && holder.same_program(&actor) != SameProgram::Yes {
            let evidence = vec![
                read.source.shows("read until when"),
                deleted.source.shows(format!("deleted it {} before", seconds(*left))),
                context.now("took it"),
            ];
            ahead(context, holder, *left, evidence);
        }
        return;
    }
    // Other clients that read the same value may do the same.
    let id = &context.lock.id;
    let rivals = context.clients.values().filter(|client| client.client.same_program(&actor) != SameProgram::Yes);
    let rival = rivals.filter_map(|client| {
        let its = client.last_read_of(id)?;
        (its.times_taken == read.times_taken && its.value == read.value).then_some(its)
    });
    let rival = rival.min_by_key(|its| its.source.place).map(|its| its.source.clone());
    let key = quoted(context.lock);
    let mut evidence = vec![read.source.shows("found the lock stale")];
    let (severity, danger) = match &rival {
        Some(rival) => {
            evidence.push(rival.shows("found the same"));
            let danger = format!("{} had found the same and could have taken it in between", rival.display_name());
            (Severity::Error, danger)
        }
        None => (Severity::Warning, "another that found the same could have taken it in between".to_owned()),
    };
    evidence.push(deleted.source.shows("deleted it"));
    evidence.push(context.now(if took { "took it" } else { "tried to take it" }));
    let sentence = format!("{} deleted {key}, which was stale, to take it anew: {danger}", actor.display_name());
    let (code, culprit) = (Code::StaleDeleteRace, actor.id);
    context.report(FindingDraft { code, severity: Some(severity), sentence, evidence, culprit });
}

/// A duration in microseconds as seconds: `1.5 s`.
fn seconds(micros: i64) -> String {
    let tenths = micros.abs().saturating_add(50_000) / 100_000;
    let sign = if micros < 0 && tenths > 0 { "-" } else { "" };
    match tenths % 10 {
        0 => format!("{sign}{} s", tenths / 10),
        tenth => format!("{sign}{}.{tenth} s", tenths / 10),
    }
}
