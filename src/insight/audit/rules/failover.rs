//! Locks that were held while the node that had them was replaced: a replica that had not got the write yet knows nothing
//! of the lock.
//!
//! In front of real nodes nobody sees what a replica has. The instances of one process say what is lost.

use std::collections::VecDeque;
use std::sync::Arc;

use super::acknowledgement::{answer, told};
use super::redlock::{GlobalRedlockState, is_of_attempt};
use super::wording::{acquisition, quoted, spelled};
use crate::insight::audit::client_identity::SameProgram;
use crate::insight::audit::code::{Code, Severity};
use crate::insight::audit::effect::LockShape;
use crate::insight::audit::finding::{Evidence, JournalRef};
use crate::insight::audit::lock::{Failover, Hold, HoldEnd, HoldStatus, LockKey, PastHold};
use crate::insight::audit::lock_event::{LockEvent, VanishCause};
use crate::insight::audit::lock_reason::{LockReason, LockReasons};
use crate::insight::audit::rule_context::{FindingDraft, RuleContext};

/// What is remembered of one lock.
#[derive(Clone, Default)]
pub struct FailoverState {
    /// The hold whose connection the former master has closed. Its client may come back over another one.
    cut_off: Option<Box<Hold>>,
    /// The holds that were told of, each by the command that took it, and whether another client was given the lock.
    told: Vec<(u64, bool)>,
}

impl FailoverState {
    /// Whether nothing is remembered.
    pub fn is_initial(&self) -> bool {
        let Self { cut_off, told } = self;
        cut_off.is_none() && told.is_empty()
    }
}

/// How many holds are remembered that were told of.
const MAX_TOLD: usize = 16;

/// What is remembered beyond one lock.
#[derive(Clone, Default)]
pub struct GlobalFailoverState {
    /// The nodes that are masters in the place of others, and the servers whose journals say so.
    promoted: Vec<(u16, Arc<str>)>,
    replaced: Vec<Replacement>,
    lost: VecDeque<LostHold>,
    /// The holds beside which another one was told of, each by the command that took it.
    doubled: VecDeque<(u16, u64)>,
}

/// A master that another node has replaced.
#[derive(Clone)]
pub struct Replacement {
    pub server: u16,
    pub successor: Arc<str>,
    pub source: Arc<JournalRef>,
    /// It was cut off, and went on as master.
    pub is_unaware: bool,
}

impl Replacement {
    /// Whether the server has given a lock after it was replaced.
    pub fn is_followed_by(&self, hold: &Hold) -> bool {
        hold.last_given().seq > self.source.seq
    }
}

/// A hold that the node in its master's place has not got.
#[derive(Clone)]
pub struct LostHold {
    pub db: u32,
    pub key: LockKey,
    pub hold: Hold,
    /// Why the key is a lock, as far as its master has shown.
    pub reasons: LockReasons,
    /// The node that is master now.
    pub successor: Arc<str>,
    /// The replicas that had it.
    pub had_by: Vec<Arc<str>>,
    pub source: Arc<JournalRef>,
}

/// How many promotions, and how many lost holds are remembered.
const MAX_PROMOTED: usize = 64;
const MAX_LOST: usize = 256;

impl GlobalFailoverState {
    pub fn note_promotion(&mut self, server: u16, node: &str) {
        self.promoted.retain(|(other, _)| *other != server);
        self.replaced.retain(|replaced| replaced.server != server);
        if self.promoted.len() < MAX_PROMOTED {
            self.promoted.push((server, Arc::from(node)));
        }
    }

    /// One that follows the node in its place now has been cut off before: what it has given until then counts.
    pub fn note_replacement(&mut self, new: Replacement) {
        let known = self.replaced.iter().position(|replaced| replaced.server == new.server);
        match known {
            Some(known) if new.is_unaware || !self.replaced[known].is_unaware => self.replaced[known] = new,
            Some(_) => {}
            None if self.replaced.len() < MAX_PROMOTED => self.replaced.push(new),
            None => {}
        }
    }

    pub fn replacements(&self) -> &[Replacement] {
        &self.replaced
    }

    pub fn server_of(&self, node: &str) -> Option<u16> {
        self.promoted.iter().find(|(_, promoted)| **promoted == *node).map(|(server, _)| *server)
    }

    pub fn note_given_up(&mut self, key: &[u8], token: &[u8]) {
        self.lost.retain(|lost| *lost.key != *key || *lost.hold.token != *token);
    }

    /// Whether no other hold was told of beside this one.
    fn is_first_double(&mut self, hold: &Hold) -> bool {
        let name = (hold.acquired.server, hold.acquired.seq);
        if self.doubled.contains(&name) {
            return false;
        }
        if self.doubled.len() >= MAX_LOST {
            self.doubled.pop_front();
        }
        self.doubled.push_back(name);
        true
    }

    pub fn has_losses(&self) -> bool {
        !self.lost.is_empty()
    }

    pub fn note_loss(&mut self, lost: LostHold) -> Option<u16> {
        let server = self.server_of(&lost.successor);
        if self.lost.len() >= MAX_LOST {
            self.lost.pop_front();
        }
        self.lost.push_back(lost);
        server
    }

    /// Takes out what the node of this lock has not got of it, if a hold was lost.
    fn take_lost(&mut self, context: &RuleContext<'_>) -> Option<LostHold> {
        let id = &context.lock.id;
        let is_its = |lost: &LostHold| {
            (lost.db, &lost.key) == (id.db, &id.key)
                && self.promoted.iter().any(|(server, node)| *server == id.server && *node == lost.successor)
        };
        let at = self.lost.iter().position(is_its)?;
        self.lost.remove(at)
    }
}

/// Looks for locks that two nodes have given, one in the place of the other.
pub fn observe_others(
    context: &mut RuleContext<'_>,
    state: &mut GlobalFailoverState,
    redlock: &GlobalRedlockState,
    event: &LockEvent<'_>,
) {
    if let LockEvent::GivenByTwo { .. } = event {
        return given_by_two(context, state, redlock, event);
    }
    if state.lost.is_empty() || context.lock.shape == LockShape::Semaphore {
        return;
    }
    match event {
        LockEvent::Acquired { .. } | LockEvent::GivenElsewhere => given_again(context, state, redlock),
        // It is told that its lock is gone, or gives it up.
        LockEvent::NotOwned { token: Some(token), .. } => state.note_given_up(&context.lock.id.key, token),
        LockEvent::Deleted { hold: Some(hold), is_release: true, .. } => {
            let hold = &context.lock.holds[*hold];
            state.note_given_up(&context.lock.id.key, &hold.token);
        }
        _ => {}
    }
}

/// A master that was replaced while it was cut off has given a lock, and the one in its place has given it, too.
fn given_by_two(
    context: &mut RuleContext<'_>,
    state: &mut GlobalFailoverState,
    redlock: &GlobalRedlockState,
    event: &LockEvent<'_>,
) {
    let LockEvent::GivenByTwo { old, new, reasons, replaced, successor } = *event else { return };
    let key = &context.lock.id.key;
    // Of a lock on several servers, one may be in two parts.
    let is_one_of_many = || redlock.is_wide(key, &old.token) || redlock.is_wide(key, &new.token);
    let is_one_program = new.client.same_program(&old.client) == SameProgram::Yes;
    if !old.is_certain || !new.is_certain || is_one_program || is_one_of_many() || !state.is_first_double(old) {
        return;
    }
    let (one, two) = (old.client.display_name(), new.client.display_name());
    let did = if old.acquired.seq > replaced.seq { "gave it to" } else { "extended it for" };
    let sentence = format!(
        "{one} and {two} both held {}: the master that {did} {one} was cut off, and did not know that {successor} had taken \
         its place",
        quoted(context.lock)
    );
    let mut evidence = vec![acquisition(old), acquisition(new)];
    evidence.extend(old.extended.as_ref().map(|extended| extended.shows("extended it, where it was master no more")));
    evidence.push(replaced.shows("was replaced while it was cut off, and went on"));
    context.note_reasons(reasons);
    note_double(context, old, new);
    context.report(FindingDraft { code: Code::SplitBrainHolder, severity: None, sentence, evidence, culprit: 0 });
}

/// One server would have refused the second one.
fn note_double(context: &mut RuleContext<'_>, one: &Hold, other: &Hold) {
    let is_owned = *other.token != *one.token && is_of_attempt(&other.token);
    context.note_reason(if is_owned { LockReason::Contended } else { LockReason::Alike });
}

/// The node in a master's place gives a lock, or has given it, that the master had given, too.
fn given_again(context: &mut RuleContext<'_>, state: &mut GlobalFailoverState, redlock: &GlobalRedlockState) {
    let Some(other) = context.lock.holds.last().filter(|hold| hold.status == HoldStatus::Held).cloned() else { return };
    let Some(lost) = state.take_lost(context) else { return };
    let LostHold { hold, reasons, successor, source, .. } = &lost;
    let is_over = hold.is_over(context.source.at, context.source.real);
    // Of a lock on several servers, one may lose it.
    let is_one_of_many = || redlock.is_wide(&context.lock.id.key, &hold.token);
    if is_over || !hold.is_certain || other.client.same_program(&hold.client) == SameProgram::Yes || is_one_of_many() {
        return;
    }
    state.is_first_double(hold);
    let (one, two) = (hold.client.display_name(), other.client.display_name());
    let sentence = format!(
        "{one} and {two} both held {}: {successor} took the place of the node that had given it to {one}, and had not got \
         that{}",
        quoted(context.lock),
        what_wait_told(&lost)
    );
    let mut evidence = vec![acquisition(hold), acquisition(&other)];
    evidence.push(source.shows("lost it in the failover"));
    let short = hold.short_wait.as_deref();
    evidence.extend(short.map(told));
    let wait = hold.acknowledged.as_ref().filter(|_| short.is_none() && acknowledged(hold));
    evidence.extend(wait.map(|wait| wait.shows("was told that a replica has it")));
    context.note_reasons(*reasons);
    note_double(context, hold, &other);
    context.report(FindingDraft { code: Code::LostInFailover, severity: None, sentence, evidence, culprit: 0 });
}

/// What WAIT had told the client whose lock is lost, and who had answered it.
fn what_wait_told(lost: &LostHold) -> String {
    let LostHold { hold, successor, had_by, .. } = lost;
    let others: Vec<&str> = had_by.iter().filter(|name| *name != successor).map(|name| &**name).collect();
    let others = others.join(" and ");
    match &hold.short_wait {
        Some(short) => format!("; WAIT had answered that {}", answer(short)),
        None if !acknowledged(hold) => String::new(),
        None if had_by.contains(successor) => {
            "; it had answered WAIT, and lost what it had before it was promoted".to_owned()
        }
        None if others.is_empty() => "; it was not the one that had answered WAIT".to_owned(),
        None => format!("; WAIT had been answered by {others}, which was not promoted"),
    }
}

pub fn observe(context: &mut RuleContext<'_>, state: &mut FailoverState, event: &LockEvent<'_>) {
    match event {
        LockEvent::FailedOver => {
            let past = context.lock.past_holds.back().map(|past| &past.hold);
            state.cut_off = past.filter(|hold| hold.failover.is_some()).cloned().map(Box::new);
        }
        LockEvent::Refused { .. } | LockEvent::Deleted { .. } | LockEvent::Extended { .. } => {
            note_survival(context, state)
        }
        LockEvent::Read { value } if !context.is_stale => {
            let cut_off = state.cut_off.as_ref().map(|hold| &hold.token);
            let token = context.lock.holder().map(|hold| &hold.token).or(cut_off);
            match token.is_some_and(|token| value.is_some_and(|value| **token == *value)) {
                true => note_survival(context, state),
                false => cut_off_is_lost(context, state),
            }
        }
        LockEvent::NotOwned { .. } if !context.is_stale => cut_off_is_lost(context, state),
        LockEvent::Acquired { .. } if context.lock.shape != LockShape::Semaphore => cut_off_is_lost(context, state),
        LockEvent::ConnectionClosed { hold } => {
            let hold = &context.lock.holds[*hold];
            if hold.status == HoldStatus::Held && hold.failover.is_some() {
                state.cut_off = Some(Box::new(hold.clone()));
            }
        }
        LockEvent::Expired { hold } | LockEvent::HeldAtEnd { hold } => {
            let hold = context.lock.holds[*hold].clone();
            if hold.status == HoldStatus::Held {
                may_be_lost(context, state, &hold);
            }
        }
        LockEvent::KeyVanished { cause: VanishCause::Expired } | LockEvent::AuditEnded => {
            if let Some(hold) = state.cut_off.take() {
                may_be_lost(context, state, &hold);
            }
        }
        LockEvent::KeyVanished { .. } | LockEvent::Doubted => state.cut_off = None,
        _ => {}
    }
    let told = context.lock.past_holds.back().filter(|past| past.end == HoldEnd::Noticed);
    let told = told.map(|PastHold { hold, .. }| (hold, false));
    let holds = context.lock.holds.iter().map(|hold| (hold, true)).chain(told);
    let lost = holds.filter(|(hold, _)| matches!(hold.status, HoldStatus::FailedOver(_)));
    for (hold, believes) in lost.map(|(hold, believes)| (hold.clone(), believes)).collect::<Vec<_>>() {
        is_lost(context, state, &hold, believes);
    }
}

/// The node that is master now has the lock, or had it: the failover has lost nothing.
fn note_survival(context: &mut RuleContext<'_>, state: &mut FailoverState) {
    let node = context.source.node.clone();
    let is_shown =
        |hold: &Hold| hold.failover.as_ref().is_some_and(|failover| node.as_ref() != Some(&failover.replaced));
    if context.is_stale {
        return;
    }
    for hold in context.lock.holds.iter_mut().filter(|hold| hold.status == HoldStatus::Held && is_shown(hold)) {
        hold.failover = None;
    }
    state.cut_off.take_if(|hold| is_shown(hold));
}

/// The lock is gone, and the client that held it has lost its connection before.
fn cut_off_is_lost(context: &mut RuleContext<'_>, state: &mut FailoverState) {
    let node = context.source.node.clone();
    let is_new =
        |hold: &mut Box<Hold>| hold.failover.as_ref().is_some_and(|failover| node.as_ref() != Some(&failover.replaced));
    if let Some(hold) = state.cut_off.take_if(is_new) {
        is_lost(context, state, &hold, false);
    }
}

/// Whether a hold is told of for the first time, or for the first time as one of two.
fn is_news(state: &mut FailoverState, hold: &Hold, is_double: bool) -> bool {
    if let Some((_, was_double)) = state.told.iter_mut().find(|(seq, _)| *seq == hold.acquired.seq) {
        return is_double && !std::mem::replace(was_double, true);
    }
    if state.told.len() >= MAX_TOLD {
        state.told.remove(0);
    }
    state.told.push((hold.acquired.seq, is_double));
    true
}

/// The name of the new master.
fn successor(failover: &Failover) -> &str {
    failover.source.node.as_deref().unwrap_or("another node")
}

fn proof(hold: &Hold, failover: &Failover) -> Vec<Evidence> {
    let mut evidence = vec![acquisition(hold)];
    evidence.extend(hold.extended.as_ref().map(|extended| extended.shows("extended it last")));
    let wait = hold.acknowledged.as_ref().filter(|_| acknowledged(hold));
    evidence.extend(wait.map(|wait| wait.shows("was told that a replica has what was written before")));
    evidence.push(failover.source.shows("replaced the node that had the lock"));
    evidence
}

/// Whether WAIT has told the holder that a replica has the lock as it is.
fn acknowledged(hold: &Hold) -> bool {
    hold.acknowledged.as_ref().is_some_and(|wait| wait.place > hold.last_given().place)
}

/// Nothing has shown whether the lock outlived the failover.
fn may_be_lost(context: &mut RuleContext<'_>, state: &mut FailoverState, hold: &Hold) {
    let Some(failover) = hold.failover.as_ref().filter(|_| hold.is_certain) else { return };
    if !is_news(state, hold, false) {
        return;
    }
    let left = match hold.end() {
        Some(end) => format!(" for another {}", spelled((end - 1000 - failover.source.at).max(0))),
        None => String::new(),
    };
    let (severity, known) = match acknowledged(hold) {
        true => (Severity::Note, "; a replica had it, but not necessarily this one"),
        false => (Severity::Warning, ""),
    };
    let sentence = format!(
        "{} may be lost: {} had it{left} when {} was replaced by {}, which may not have got it{known}",
        quoted(context.lock),
        hold.client.display_name(),
        failover.replaced,
        successor(failover),
    );
    report(context, severity, sentence, proof(hold, failover));
}

/// What came after the failover shows that the lock is gone. `believes` is whether its client has not been told so.
fn is_lost(context: &mut RuleContext<'_>, state: &mut FailoverState, hold: &Hold, believes: bool) {
    let Some(failover) = hold.failover.as_ref().filter(|_| hold.is_certain) else { return };
    let is_other = |other: &&Hold| {
        other.is_certain
            && other.status == HoldStatus::Held
            && other.acquired.place > hold.acquired.place
            && other.client.same_program(&hold.client) != SameProgram::Yes
    };
    let is_semaphore = context.lock.shape == LockShape::Semaphore;
    let other = context.lock.holds.iter().find(is_other).filter(|_| believes && !is_semaphore).cloned();
    if !is_news(state, hold, other.is_some()) {
        return;
    }
    let lock = quoted(context.lock);
    let (client, new) = (hold.client.display_name(), successor(failover));
    let lost = format!("{} had it and was replaced by {new}, which had not got it", failover.replaced);
    let mut evidence = proof(hold, failover);
    let (severity, sentence) = match other {
        Some(other) => {
            evidence.push(acquisition(&other));
            (Severity::Error, format!("{client} and {} both held {lock}: {lost}", other.client.display_name()))
        }
        None => {
            evidence.push(context.now("found it gone"));
            (Severity::Warning, format!("{lock} was lost while {client} held it: {lost}"))
        }
    };
    report(context, severity, sentence, evidence);
}

fn report(context: &mut RuleContext<'_>, severity: Severity, sentence: String, evidence: Vec<Evidence>) {
    let (code, severity) = (Code::HeldThroughFailover, Some(severity));
    context.report(FindingDraft { code, severity, sentence, evidence, culprit: 0 });
}
