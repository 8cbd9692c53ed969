//! Which clients hold a lock at once, and which delete and extend another's.

use super::relation::{
    Relation, doubtful, expired_while_held, is_by_other_program, is_lost, is_pooled, is_retrying, relation_to,
};
use super::wording::{acquisition, held, quoted};
use crate::insight::audit::client_identity::{ClientIdentity, SameProgram};
use crate::insight::audit::client_state::LockRead;
use crate::insight::audit::code::{Code, Severity};
use crate::insight::audit::effect::{ExpiryChange, LockShape, Precondition};
use crate::insight::audit::finding::{Evidence, JournalRef};
use crate::insight::audit::lock::{Acquisition, Flush, Hold, HoldEnd, HoldStatus, PastHold};
use crate::insight::audit::lock_event::LockEvent;
use crate::insight::audit::rule_context::{FindingDraft, RuleContext};
use crate::insight::audit::timestamp::Timestamp;

/// What is remembered of one lock.
#[derive(Clone, Default)]
pub struct OwnershipState {
    /// The last two clients that were reported to hold the lock at once, by the commands that took it.
    reported_pair: Option<(u64, u64)>,
}

impl OwnershipState {
    /// Whether nothing is remembered.
    pub fn is_initial(&self) -> bool {
        let Self { reported_pair } = self;
        reported_pair.is_none()
    }
}

pub fn observe(context: &mut RuleContext<'_>, state: &mut OwnershipState, event: &LockEvent<'_>) {
    two_holders(context, state, matches!(event, LockEvent::Acquired { .. }));
    match event {
        LockEvent::Deleted { hold: Some(hold), precondition, read, .. } => {
            if let (Precondition::Compared(_), Some(actor)) = (precondition, context.actor) {
                context.links.note_comparing(actor);
            }
            removed(context, *hold, *precondition, read.as_ref())
        }
        LockEvent::Deleted { hold: None, precondition: Precondition::None, read, .. } => {
            left_behind(context, read.as_ref())
        }
        LockEvent::Overwritten { hold: Some(hold), read, .. } => {
            let hold = context.lock.holds[*hold].clone();
            if let Relation::Stranger(_) = relation_to(context, &hold, read.as_ref()) {
                context.links.note_foreign(&context.source);
            }
        }
        LockEvent::Extended { hold: Some(hold), precondition: Precondition::None, expiry, deadline, value, .. } => {
            let is_over = deadline.is_some_and(|deadline| deadline <= context.source.at.div_euclid(1000));
            let hold = context.lock.holds[*hold].clone();
            match is_over {
                true => deleted_by_other(context, &hold, None),
                false => extended(context, &hold, (*expiry, *deadline), value.is_some()),
            }
        }
        LockEvent::Extended { hold: Some(hold), precondition: Precondition::Compared(Some(token)), .. } => {
            let hold = context.lock.holds[*hold].clone();
            extended_by_token(context, &hold, token);
        }
        LockEvent::NotOwned { token, .. } => missed(context, state, *token),
        LockEvent::Refused { value, .. } => refused(context, value),
        _ => {}
    }
}

/// A client asks for a lock over the very connection that holds it: several parts of a program share that.
fn refused(context: &mut RuleContext<'_>, value: &[u8]) {
    let Some(actor) = context.actor else { return };
    if context.lock.holder().is_some_and(|hold| hold.client.is_same_connection(actor) && *hold.token != *value) {
        context.shared.note(actor);
    }
}

/// Reports clients that hold the lock at once. A reply that comes late counts from when it comes.
fn two_holders(context: &mut RuleContext<'_>, state: &mut OwnershipState, is_new: bool) {
    let holds = &context.lock.holds;
    let Some((new, others)) = holds.split_last() else { return };
    if others.is_empty() || context.lock.shape == LockShape::Semaphore {
        return;
    }
    // Without a new hold or a late reply nothing has changed.
    if !is_new && holds.iter().all(|hold| hold.replied_at.is_none()) {
        return;
    }
    let real = context.source.real;
    let believes = |hold: &Hold| hold.replied_at.is_none_or(|told| told <= real);
    if !believes(new) {
        return;
    }
    let double = others.iter().rev().filter(|other| believes(other) && !other.client.is_same_connection(&new.client));
    let Some((other, new, severity)) = double
        .filter_map(|other| Some((other, new, weigh(context, other, new)?)))
        .max_by_key(|(.., severity)| *severity)
        .map(|(other, new, severity)| (other.clone(), new.clone(), severity))
    else {
        return;
    };
    let pair = (other.acquired.seq, new.acquired.seq);
    if state.reported_pair == Some(pair) {
        return;
    }
    state.reported_pair = Some(pair);
    report_two_holders(context, &other, &new, severity, None);
}

/// How bad it is that two clients hold the lock; `None` if they may be one program or share the lock, or if one of
/// them never got its reply.
fn weigh(context: &RuleContext<'_>, other: &Hold, new: &Hold) -> Option<Severity> {
    if !other.is_certain || !new.is_certain {
        return None;
    }
    match &other.status {
        // The server agrees with both: a lock for readers.
        HoldStatus::Held => None,
        HoldStatus::Deleted(_) if other.is_deleted_at_once() => Some(Severity::Error),
        HoldStatus::Deleted(source) | HoldStatus::Overwritten(source) => {
            is_by_other_program(context, other, source).then_some(Severity::Error)
        }
        // A client that empties the server may know that nobody works on.
        HoldStatus::Flushed(flush) => {
            (other.client.same_program_as(&flush.source) != SameProgram::Yes).then_some(Severity::Warning)
        }
        HoldStatus::Evicted(_) | HoldStatus::FailedOver(_) => Some(Severity::Error),
        // The lock may have expired.
        HoldStatus::Vanished if other.is_deadline_unknown => None,
        HoldStatus::Vanished if new.how == Acquisition::TakenOver => {
            let JournalRef { at, real, .. } = *new.acquired;
            let is_past =
                Timestamp::in_value(&other.token, at, real).is_some_and(|timestamp| timestamp.is_past(at, real));
            (!is_past).then_some(Severity::Error)
        }
        HoldStatus::Vanished => Some(Severity::Warning),
    }
}

fn report_two_holders(
    context: &mut RuleContext<'_>,
    other: &Hold,
    new: &Hold,
    severity: Severity,
    proof: Option<Evidence>,
) {
    let mut evidence = vec![acquisition(other), acquisition(new)];
    let mut culprit = new.client.id;
    let how = match &other.status {
        HoldStatus::Deleted(_) if other.is_deleted_at_once() => {
            culprit = other.client.id;
            format!(", because {} had taken it with an expiry that was over already", other.client.display_name())
        }
        HoldStatus::Deleted(source) => {
            culprit = source.client;
            let is_cut = other.shortened.as_ref().is_some_and(|cut| cut.seq == source.seq);
            let what = if is_cut { "cut its time short" } else { "deleted it" };
            evidence.push(source.shows(format!("{what} while it was held")));
            format!(", because {} had {what}", source.display_name())
        }
        HoldStatus::Overwritten(source) => {
            culprit = source.client;
            evidence.push(source.shows("overwrote the lock while it was held"));
            format!(", because {} had overwritten it", source.display_name())
        }
        HoldStatus::Flushed(Flush { source, cause }) => {
            evidence.push(source.shows(format!("{} while the lock was held", cause.did())));
            format!(", because {}", cause.had_been_done())
        }
        HoldStatus::Evicted(source) => {
            evidence.push(source.shows("evicted the lock while it was held"));
            ", because the server had evicted it".to_owned()
        }
        HoldStatus::FailedOver(source) => {
            evidence.push(source.shows("had not got it"));
            ", because the node that had it was replaced".to_owned()
        }
        HoldStatus::Held | HoldStatus::Vanished if new.how == Acquisition::TakenOver => {
            format!(", because {} took over a lock that was not over", new.client.display_name())
        }
        HoldStatus::Held | HoldStatus::Vanished => "; it is not known how the lock came free".to_owned(),
    };
    let certain = if severity == Severity::Error { "both held" } else { "may both have held" };
    let sentence = format!(
        "{} and {} {certain} {}{how}",
        other.client.display_name(),
        new.client.display_name(),
        quoted(context.lock)
    );
    let is_proof = proof.is_some();
    evidence.extend(proof);
    let draft = FindingDraft { code: Code::TwoHolders, severity: Some(severity), sentence, evidence, culprit };
    if is_proof { context.report_update(draft) } else { context.report(draft) }
}

/// A client deletes a lock that is held.
fn removed(context: &mut RuleContext<'_>, hold: usize, precondition: Precondition<'_>, read: Option<&LockRead>) {
    let hold = context.lock.holds[hold].clone();
    match precondition {
        Precondition::Compared(token) => compared(context, &hold, token),
        Precondition::None => {
            if context.actor.is_some_and(|actor| actor.is_same_connection(&hold.client)) {
                unchecked(context, &hold, read);
            } else {
                deleted_by_other(context, &hold, read);
            }
        }
    }
}

/// A client deletes a lock whose holder's connection has ended. A client that had the lock before means its own.
fn left_behind(context: &mut RuleContext<'_>, read: Option<&LockRead>) {
    let is_there =
        |past: &&PastHold| past.end == HoldEnd::Closed && context.lock.value.as_deref() == Some(&*past.hold.token);
    let Some(left) = context.lock.past_holds.iter().rev().find(is_there).map(|past| past.hold.clone()) else { return };
    if earlier(context).is_some_and(|earlier| earlier.was_lost && *earlier.hold.token != *left.token) {
        deleted_by_other(context, &Hold { is_certain: false, ..left }, read);
    }
}

/// A client compares the token before it deletes the lock.
fn compared(context: &mut RuleContext<'_>, hold: &Hold, token: Option<&[u8]>) {
    let (Some(actor), Some(token)) = (context.actor, token) else { return };
    if actor.is_same_connection(&hold.client) || *hold.token != *token {
        return;
    }
    let own = context
        .lock
        .past_holds
        .iter()
        .rev()
        .find(|past| past.hold.client.is_same_connection(actor) && *past.hold.token == *token)
        .cloned();
    match (own, actor.same_program(&hold.client)) {
        (None, SameProgram::Unknown) => {
            context.links.is_pooled = true;
            context.shared.note(actor);
        }
        // Both clients have the same token, so the comparison shows nothing.
        (Some(own), SameProgram::No) if expired_while_held(context, &own) => {
            let earlier = Earlier { hold: own.hold, words: "expired before", proof: None, was_lost: true };
            foreign_release(context, hold, &earlier, Severity::Error);
        }
        _ => {}
    }
}

/// The holder deletes its lock without comparing the token in the same step.
fn unchecked(context: &mut RuleContext<'_>, hold: &Hold, read: Option<&LockRead>) {
    if context.lock.shape == LockShape::Semaphore {
        return;
    }
    let taken = context.lock.times_taken;
    let looked = read.filter(|read| {
        read.times_taken == taken
            && read.value.as_deref() == Some(&*hold.token)
            && read.source.seq != context.source.seq
    });
    if let Some(read) = looked {
        return get_then_delete(context, hold, read, None);
    }
    // A client that writes timestamps looks at its own clock before it deletes the lock.
    if hold.timestamp.is_some() {
        return;
    }
    let (severity, why) = match hold.deadline {
        Some(_) => (Severity::Warning, "which by then could have expired and been somebody else's"),
        None => (Severity::Note, "which is only right as long as nobody else ever deletes it"),
    };
    let sentence = format!(
        "{} deleted {} without a look at whose it was, {why}",
        hold.client.display_name(),
        quoted(context.lock)
    );
    let evidence = vec![acquisition(hold), context.now("deleted it, whatever its token was")];
    let (code, severity) = (Code::UncheckedRelease, Some(severity));
    context.report(FindingDraft { code, severity, sentence, evidence, culprit: 0 });
}

/// A client reads its own token and deletes the lock in another step. `other` got the lock in between.
fn get_then_delete(context: &mut RuleContext<'_>, hold: &Hold, read: &LockRead, other: Option<&Hold>) {
    let Some(actor) = context.actor else { return };
    let lock = quoted(context.lock);
    let mut evidence = vec![
        acquisition(hold),
        read.source.shows("found its own token there"),
        context.now("deleted the lock, whoever had it by then"),
    ];
    let sentence = match other {
        Some(other) => {
            evidence.push(acquisition(other));
            format!(
                "{} found its token in {lock} and deleted the lock in a second step, when {} had got it in between",
                actor.display_name(),
                other.client.display_name()
            )
        }
        None => format!(
            "{} found its token in {lock} and deleted the lock in a second step, between which the lock could have \
             expired and become somebody else's",
            actor.display_name()
        ),
    };
    // Who releases by comparing may only clear what is left, as tests do at their end.
    let severity = (other.is_none() && context.links.is_comparing(actor)).then_some(Severity::Warning);
    let culprit = actor.id;
    context.report(FindingDraft { code: Code::GetThenDelete, severity, sentence, evidence, culprit });
}

/// What a client had to do with the lock before.
struct Earlier {
    hold: Hold,
    /// What became of its lock: it had ...
    words: &'static str,
    /// The command that took the lock from it, if one is known.
    proof: Option<Evidence>,
    /// It lost the lock without releasing it.
    was_lost: bool,
}

/// What the client that acts had to do with the lock before.
fn earlier(context: &RuleContext<'_>) -> Option<Earlier> {
    let (lock, actor) = (&context.lock, context.actor?);
    if let Some(hold) = lock.hold_of(actor).filter(|hold| hold.status != HoldStatus::Held) {
        let was_lost = hold.is_certain && is_lost(context, hold) && hold.status != HoldStatus::Vanished;
        let (words, proof) = match &hold.status {
            HoldStatus::Deleted(source) => ("been deleted", Some(source.shows("deleted the lock while it was held"))),
            HoldStatus::Overwritten(source) => ("been overwritten", Some(source.shows("overwrote the lock"))),
            HoldStatus::Flushed(Flush { source, cause }) => (cause.gone_with(), Some(source.shows(cause.did()))),
            HoldStatus::Evicted(source) => ("been evicted", Some(source.shows("evicted the lock while it was held"))),
            HoldStatus::FailedOver(source) => ("been lost in a failover", Some(source.shows("had not got it"))),
            HoldStatus::Held | HoldStatus::Vanished => ("gone", None),
        };
        return Some(Earlier { hold: hold.clone(), words, proof, was_lost });
    }
    let past = lock.past_hold_of(actor).filter(|past| !is_retrying(lock, actor, &past.hold))?;
    let was_lost = expired_while_held(context, past);
    let words = match past.end {
        HoldEnd::Expired => "expired",
        HoldEnd::Released => "been released",
        HoldEnd::Closed | HoldEnd::Noticed | HoldEnd::Unknown => "been lost",
    };
    Some(Earlier { hold: past.hold.clone(), words, proof: None, was_lost })
}

/// A client deletes a lock that another connection took, without comparing the token.
fn deleted_by_other(context: &mut RuleContext<'_>, hold: &Hold, read: Option<&LockRead>) {
    let Some(actor) = context.actor.cloned() else { return };
    let relation = if actor.is_same_connection(&hold.client) { return } else { relation_to(context, hold, read) };
    if context.lock.shape == LockShape::Semaphore && context.lock.hold_of(&actor).is_some() {
        return;
    }
    let earlier = earlier(context);
    let severity = match (&relation, actor.same_program(&hold.client), &earlier) {
        (_, SameProgram::No, Some(_)) => Some(Severity::Error),
        // The connections of a pool may have held it in turn.
        (_, SameProgram::Unknown, Some(earlier)) if earlier.was_lost && !is_pooled(context) => Some(Severity::Error),
        (_, SameProgram::Yes, Some(earlier)) if earlier.was_lost => Some(Severity::Warning),
        _ => None,
    };
    if let (Some(severity), Some(earlier)) = (severity, &earlier) {
        if severity == Severity::Error {
            context.links.note_foreign(&context.source);
        }
        foreign_release(context, hold, earlier, severity);
        let looked = read.filter(|read| {
            read.value.as_deref() == Some(&*earlier.hold.token) && read.source.place > earlier.hold.acquired.place
        });
        if let Some(read) = looked.filter(|_| severity == Severity::Error) {
            get_then_delete(context, &earlier.hold, read, Some(hold));
        }
        return;
    }
    match relation {
        Relation::Own => unchecked(context, hold, read),
        Relation::Stranger(proof) => {
            context.links.note_foreign(&context.source);
            let is_semaphore = context.lock.shape == LockShape::Semaphore;
            let severity = if hold.is_certain && !is_semaphore { Severity::Error } else { Severity::Warning };
            let sentence = format!(
                "{} deleted {} while {} {} it: from then on anybody could take it, too",
                actor.display_name(),
                quoted(context.lock),
                hold.client.display_name(),
                held(hold)
            );
            let mut evidence = vec![acquisition(hold), context.now("deleted it")];
            evidence.extend(proof);
            blind_delete(context, severity, sentence, evidence, actor.id);
        }
        Relation::Unknown => {
            let sentence = format!(
                "{} deleted {}, which {} had taken; they may be the same program on two connections",
                actor.display_name(),
                quoted(context.lock),
                hold.client.display_name()
            );
            let evidence = vec![acquisition(hold), context.now("deleted it")];
            // Who empties a semaphore of its own program begins anew.
            let is_semaphore = context.lock.shape == LockShape::Semaphore;
            let severity = if is_semaphore { Severity::Note } else { doubtful(context) };
            blind_delete(context, severity, sentence, evidence, 0);
        }
    }
}

fn blind_delete(
    context: &mut RuleContext<'_>,
    severity: Severity,
    sentence: String,
    evidence: Vec<Evidence>,
    culprit: u64,
) {
    context.report(FindingDraft { code: Code::BlindDelete, severity: Some(severity), sentence, evidence, culprit });
}

/// A client deletes another one's lock in place of its own.
fn foreign_release(context: &mut RuleContext<'_>, hold: &Hold, earlier: &Earlier, severity: Severity) {
    let Some(actor) = context.actor else { return };
    let severity = if hold.is_certain { severity } else { Severity::Warning };
    let may = if severity == Severity::Error { "released" } else { "may have released" };
    let whose = if hold.is_certain { "had got since" } else { "may have got since" };
    let sentence = format!(
        "{} {may} {}, which {} {whose}, so that anybody could take it, too: its own had {}",
        actor.display_name(),
        quoted(context.lock),
        hold.client.display_name(),
        earlier.words
    );
    let mut evidence = vec![acquisition(&earlier.hold), acquisition(hold), context.now("deleted it")];
    evidence.extend(earlier.proof.clone());
    let culprit = actor.id;
    context.report(FindingDraft { code: Code::ForeignRelease, severity: Some(severity), sentence, evidence, culprit });
}

/// A client gives a lock another deadline without comparing the token.
fn extended(context: &mut RuleContext<'_>, hold: &Hold, (expiry, deadline): (ExpiryChange, Option<i64>), is_set: bool) {
    let Some(actor) = context.actor.cloned() else { return };
    let proof = match relation_to(context, hold, None) {
        Relation::Own => return unchecked_extension(context, hold, expiry),
        // Another connection of the program may know the token, too.
        Relation::Unknown if is_set => return unchecked_extension(context, hold, expiry),
        Relation::Stranger(proof) => proof.map(|proof| (Severity::Error, proof)).or_else(|| {
            let earlier = earlier(context).map(|earlier| acquisition(&earlier.hold));
            Some((Severity::Error, earlier.unwrap_or_else(|| context.now(""))))
        }),
        Relation::Unknown => {
            let lost = earlier(context).filter(|earlier| earlier.was_lost && !is_pooled(context));
            lost.map(|earlier| (Severity::Error, acquisition(&earlier.hold)))
        }
    };
    let (severity, mut evidence) = match proof {
        Some((severity, proof)) => (severity, vec![proof]),
        None => (doubtful(context), Vec::new()),
    };
    let severity =
        if hold.is_certain && may_harm(context, hold, deadline) { severity } else { severity.min(Severity::Warning) };
    let (lock, holder) = (quoted(context.lock), hold.client.display_name());
    let (what, then) = match expiry == ExpiryChange::Never {
        true => ("took the expiry from", "if that dies, the lock stays for ever"),
        false => ("gave another expiry to", "the lock ends when the one wants it, and not when the other is done"),
    };
    let sentence = match severity {
        Severity::Error => format!("{} {what} {lock} while {holder} held it: {then}", actor.display_name()),
        _ if !hold.is_certain => format!("{} {what} {lock} while {holder} may have held it", actor.display_name()),
        _ => format!(
            "{} {what} {lock}, which {holder} had taken; they may be the same program on two connections",
            actor.display_name()
        ),
    };
    let culprit = if evidence.is_empty() { 0 } else { actor.id };
    evidence.retain(|evidence| !evidence.what.is_empty());
    evidence.extend([acquisition(hold), context.now(format!("{what} it"))]);
    context.report(FindingDraft {
        code: Code::ForeignExtension,
        severity: Some(severity),
        sentence,
        evidence,
        culprit,
    });
}

/// A client extends the lock of another one that has the same token: the comparison shows nothing.
fn extended_by_token(context: &mut RuleContext<'_>, hold: &Hold, token: &[u8]) {
    let Some(actor) = context.actor.cloned() else { return };
    if actor.same_program(&hold.client) != SameProgram::No || *hold.token != *token {
        return;
    }
    let is_its = |past: &&PastHold| past.hold.client.is_same_connection(&actor) && *past.hold.token == *token;
    let own = context.lock.past_holds.iter().rev().find(is_its).cloned();
    let Some(own) = own.filter(|own| expired_while_held(context, own)) else { return };
    let sentence = format!(
        "{} extended {}, which {} had got since with the same token, and took it for its own, which had expired",
        actor.display_name(),
        quoted(context.lock),
        hold.client.display_name()
    );
    let evidence = vec![acquisition(&own.hold), acquisition(hold), context.now("extended it, as if it were its own")];
    let (code, culprit) = (Code::ForeignExtension, actor.id);
    context.report(FindingDraft { code, severity: Some(Severity::Error), sentence, evidence, culprit });
}

/// Whether a client that gives a lock this deadline takes it from its holder, or believes that it has it itself. Who only
/// keeps for longer what never was its own, as the readers of a session do, takes nothing from anybody.
fn may_harm(context: &RuleContext<'_>, hold: &Hold, deadline: Option<i64>) -> bool {
    let is_longer = match (deadline, hold.deadline) {
        (Some(given), Some(known)) => given >= known,
        _ => false,
    };
    !is_longer || earlier(context).is_some()
}

/// The holder extends its lock without checking that it still has it.
fn unchecked_extension(context: &mut RuleContext<'_>, hold: &Hold, expiry: ExpiryChange) {
    let is_first = hold.deadline.is_none() && hold.timestamp.is_none() && hold.extensions == 0;
    if is_first || expiry == ExpiryChange::Never || context.lock.shape == LockShape::Semaphore {
        return;
    }
    let actor = context.actor.map(|actor| actor.display_name()).unwrap_or_default();
    let sentence = format!(
        "{actor} extended {} without a look at whose it was, which by then could have expired and been somebody else's",
        quoted(context.lock)
    );
    let evidence = vec![acquisition(hold), context.now("extended it, whatever its token was")];
    let code = Code::UncheckedExtension;
    context.report(FindingDraft { code, severity: None, sentence, evidence, culprit: 0 });
}

/// A reply tells a client that it does not hold the lock. If it believed to, the command that took the lock away was
/// not of its program.
fn missed(context: &mut RuleContext<'_>, state: &mut OwnershipState, token: Option<&[u8]>) {
    let Some(actor) = context.actor.cloned() else { return };
    looked_too_early(context, &actor, token);
    let ended = context.lock.past_holds.back();
    let ended = ended.filter(|past| past.ended_by.as_ref().is_some_and(|source| source.seq == context.source.seq));
    let Some(PastHold { hold, end: HoldEnd::Noticed, .. }) = ended.cloned() else { return };
    let (source, was_deleted) = match &hold.status {
        HoldStatus::Deleted(source) => (source, true),
        HoldStatus::Overwritten(source) | HoldStatus::Flushed(Flush { source, .. }) => (source, false),
        HoldStatus::Held | HoldStatus::Vanished | HoldStatus::Evicted(_) | HoldStatus::FailedOver(_) => return,
    };
    let whose = hold.client.same_program_as(source);
    if !hold.is_certain || whose == SameProgram::Yes || (whose == SameProgram::Unknown && is_pooled(context)) {
        return;
    }
    let since = context.lock.holds.iter().chain(context.lock.past_holds.iter().map(|past| &past.hold));
    let since =
        since.filter(|other| other.acquired.place > source.place && !other.client.is_same_connection(&hold.client));
    let new = since.min_by_key(|other| other.acquired.place).cloned();
    // Without a token the client may mean a later lock.
    if token.is_none() && new.is_some() {
        return;
    }
    let proof = context.now("still believed to have it");
    // Who empties a semaphore may know that its permits are over.
    let is_semaphore = context.lock.shape == LockShape::Semaphore;
    if was_deleted
        && !is_semaphore
        && hold.client.same_program_as(source) == SameProgram::Unknown
        && !is_by_other_program(context, &hold, source)
    {
        let sentence = format!(
            "{} deleted {} while {} held it and still meant to release it: from then on anybody could take it, too",
            source.display_name(),
            quoted(context.lock),
            hold.client.display_name()
        );
        let evidence = vec![acquisition(&hold), source.shows("deleted it"), proof.clone()];
        let (code, severity) = (Code::BlindDelete, Some(Severity::Error));
        context.report_update(FindingDraft { code, severity, sentence, evidence, culprit: 0 });
    }
    if let Some(new) = new.filter(|new| new.is_certain && !is_semaphore) {
        let pair = (hold.acquired.seq, new.acquired.seq);
        let is_reported = state.reported_pair == Some(pair);
        let is_certain = matches!(hold.status, HoldStatus::Flushed(_)) || !is_reported;
        if is_certain {
            report_two_holders(context, &hold, &new, Severity::Error, Some(proof));
        }
    }
}

/// A client reads its own token, and then deletes a lock that is gone by then.
fn looked_too_early(context: &mut RuleContext<'_>, actor: &ClientIdentity, token: Option<&[u8]>) {
    if token.is_some() {
        return;
    }
    let Some(client) = context.clients.get(&(actor.server, actor.id)) else { return };
    let Some(read) = client.last_read_of(&context.lock.id).cloned() else { return };
    let is_late = |past: &&PastHold| past.end == HoldEnd::Expired && !is_retrying(context.lock, actor, &past.hold);
    let Some(past) = context.lock.past_hold_of(actor).filter(is_late) else { return };
    if read.value.as_deref() == Some(&*past.hold.token) && read.source.place > past.hold.acquired.place {
        let hold = past.hold.clone();
        get_then_delete(context, &hold, &read, None);
    }
}
