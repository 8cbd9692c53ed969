//! Deadlocks between clients that hold locks and wait for each other's.

use std::collections::VecDeque;
use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::fast::FixedState;

use super::wording::spelled;
use crate::insight::audit::client_identity::{ClientIdentity, SameProgram};
use crate::insight::audit::client_state::ClientState;
use crate::insight::audit::code::{Code, Severity};
use crate::insight::audit::finding::JournalRef;
use crate::insight::audit::lock::LockId;
use crate::insight::audit::lock_event::LockEvent;
use crate::insight::audit::rule_context::{FindingDraft, RuleContext};

/// How long clients that may share connections have waited for each other, in microseconds, before it is reported.
const LASTING: i64 = 1_000_000;

/// What is remembered of one lock.
#[derive(Clone, Default)]
pub struct OrderState {
    /// A client that holds another lock waits for this one.
    is_wanted: bool,
}

impl OrderState {
    /// Whether nothing is remembered.
    pub fn is_initial(&self) -> bool {
        let Self { is_wanted } = self;
        !is_wanted
    }
}

/// What is remembered beyond one lock: which client waits for which.
#[derive(Clone, Default)]
pub struct GlobalOrderState {
    waits: VecDeque<Wait>,
    /// The tags of the waits, in the same order.
    tags: VecDeque<Tag>,
}

/// The hash of the wanted lock, and the client that waits. They are compared first: a wait is far away in memory.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Tag {
    lock: u64,
    client: (u16, u64),
}

impl Tag {
    fn new(id: &LockId, client: &ClientIdentity) -> Self {
        Self { lock: hash_of(id), client: connection(client) }
    }
}

fn hash_of(id: &LockId) -> u64 {
    FixedState::default().hash_one(id)
}

fn connection(client: &ClientIdentity) -> (u16, u64) {
    (client.server, client.id)
}

impl GlobalOrderState {
    /// The wait of a client for a lock.
    fn find(&self, tag: Tag, id: &LockId) -> Option<usize> {
        let tags = self.tags.iter().zip(&self.waits);
        tags.enumerate().find(|(_, (known, wait))| **known == tag && *wait.wanted == *id).map(|(at, _)| at)
    }

    fn add(&mut self, tag: Tag, wait: Wait) {
        if self.waits.len() >= MAX_WAITS {
            self.waits.pop_front();
            self.tags.pop_front();
        }
        self.waits.push_back(wait);
        self.tags.push_back(tag);
    }

    /// Nobody waits for a lock any more.
    fn forget(&mut self, id: &LockId) {
        let hash = hash_of(id);
        while let Some(at) =
            self.tags.iter().zip(&self.waits).position(|(tag, wait)| tag.lock == hash && *wait.wanted == *id)
        {
            self.waits.remove(at);
            self.tags.remove(at);
        }
    }
}

/// How many waits are remembered, and how many make a circle at most.
const MAX_WAITS: usize = 256;
const LONGEST: usize = 8;

/// A client that holds locks waits for another one.
#[derive(Clone)]
struct Wait {
    client: ClientIdentity,
    wanted: Arc<LockId>,
    holder: ClientIdentity,
    /// The command by which the holder took the wanted lock.
    taken: Arc<JournalRef>,
    first: Arc<JournalRef>,
    last: Arc<JournalRef>,
    times: u64,
    /// How many keys beside locks the waiting client had accessed at its first and at its last attempt.
    work: (u64, u64),
    is_reported: bool,
}

pub fn observe(
    context: &mut RuleContext<'_>,
    state: &mut OrderState,
    global: &mut GlobalOrderState,
    event: &LockEvent<'_>,
) {
    match event {
        LockEvent::Refused { .. } => refused(context, state, global),
        LockEvent::Acquired { .. }
        | LockEvent::Deleted { .. }
        | LockEvent::Overwritten { .. }
        | LockEvent::Expired { .. }
        | LockEvent::ConnectionClosed { .. }
        | LockEvent::KeyVanished { .. }
        | LockEvent::Doubted
            if std::mem::take(&mut state.is_wanted) =>
        {
            global.forget(&context.lock.id);
        }
        _ => {}
    }
}

fn refused(context: &mut RuleContext<'_>, state: &mut OrderState, global: &mut GlobalOrderState) {
    let Some(actor) = context.actor else { return };
    let Some(holder) =
        context.lock.holder().filter(|hold| hold.is_certain && hold.client.same_program(actor) != SameProgram::Yes)
    else {
        return;
    };
    let Some(client) = context.clients.get(&(actor.server, actor.id)) else { return };
    if client.holds.iter().all(|held| *held == context.lock.id) {
        return;
    }
    let (source, work) = (context.source.clone(), client.work);
    let tag = Tag::new(&context.lock.id, actor);
    let own = match global.find(tag, &context.lock.id) {
        Some(own) => {
            let wait = &mut global.waits[own];
            (wait.last, wait.times, wait.work.1) = (source, wait.times + 1, work);
            own
        }
        None => {
            let wait = Wait {
                client: actor.clone(),
                wanted: Arc::clone(&context.lock.id),
                holder: holder.client.clone(),
                taken: holder.acquired.clone(),
                first: source.clone(),
                last: source,
                times: 1,
                work: (work, work),
                is_reported: false,
            };
            global.add(tag, wait);
            global.waits.len() - 1
        }
    };
    state.is_wanted = true;
    if let Some(circle) = circle(global, own) {
        let waits: Vec<Wait> = circle.iter().map(|wait| global.waits[*wait].clone()).collect();
        if report(context, &waits) {
            circle.iter().for_each(|wait| global.waits[*wait].is_reported = true);
        }
    }
}

/// The shortest circle of waits through `own` that was not reported. Each of its clients was refused again since all
/// of them wait.
fn circle(global: &GlobalOrderState, own: usize) -> Option<Vec<usize>> {
    let GlobalOrderState { waits, tags } = global;
    let goes_on = |wait: &Wait| wait.times >= 2;
    if !goes_on(&waits[own]) {
        return None;
    }
    // For each wait the one before it on the path, and the length of the path.
    let mut met: Vec<Option<(usize, usize)>> = vec![None; waits.len()];
    let mut next = VecDeque::from([own]);
    met[own] = Some((own, 1));
    // The clients whose waits are all met.
    let mut followed: Vec<(u16, u64)> = Vec::new();
    while let Some(at) = next.pop_front() {
        let length = met[at]?.1;
        if waits[at].holder.is_same_connection(&waits[own].client) && length > 1 {
            let way = way_to(&met, own, at);
            let all_since = way.iter().map(|wait| waits[*wait].first.real).max()?;
            // The last client to come may have been refused only once.
            let is_closed = way.iter().all(|wait| waits[*wait].last.earliest > all_since);
            if is_closed && !way.iter().all(|wait| waits[*wait].is_reported) {
                return Some(way);
            }
            continue;
        }
        if length >= LONGEST {
            continue;
        }
        let holder = connection(&waits[at].holder);
        if followed.contains(&holder) {
            continue;
        }
        followed.push(holder);
        for (other, _) in tags.iter().enumerate().filter(|(_, tag)| tag.client == holder) {
            if met[other].is_none() && goes_on(&waits[other]) {
                met[other] = Some((at, length + 1));
                next.push_back(other);
            }
        }
    }
    None
}

/// The path to a wait.
fn way_to(met: &[Option<(usize, usize)>], own: usize, last: usize) -> Vec<usize> {
    let mut way = vec![last];
    let mut at = last;
    while at != own
        && let Some((before, _)) = met[at]
    {
        way.push(before);
        at = before;
    }
    way.reverse();
    way
}

/// Reports a circle, unless it may be none. Returns whether it did.
fn report(context: &mut RuleContext<'_>, circle: &[Wait]) -> bool {
    let name = |id: &LockId| String::from_utf8_lossy(&id.key).into_owned();
    let waits = circle.iter().map(|wait| {
        format!(
            "{} waits for `{}`, which {} holds",
            wait.client.display_name(),
            name(&wait.wanted),
            wait.holder.display_name()
        )
    });
    let all = waits.collect::<Vec<_>>().join(", and ");
    let since = circle.iter().max_by_key(|wait| wait.first.real).map_or(&context.source, |wait| &wait.first);
    let lasted = (context.source.real - since.real).max(if since.server == context.source.server {
        context.source.at - since.at
    } else {
        0
    });
    // The threads of a program may share connections without a name. A circle of theirs lasts, one of a shared connection ends as
    // soon as the holder is done.
    let is_shared =
        |wait: &Wait| may_be_shared(context.clients.get(&(wait.client.server, wait.client.id)), &wait.client);
    let are_shared = circle.iter().any(is_shared);
    if are_shared && lasted < LASTING {
        return false;
    }
    let sentence = format!("Clients wait for each other for {} already: {all}", spelled(lasted.max(1000)));
    let mut evidence = Vec::new();
    for wait in circle {
        evidence.push(wait.taken.shows(format!("took `{}`", name(&wait.wanted))));
        let refused = format!("was refused `{}`, and held its own", name(&wait.wanted));
        evidence.push(wait.first.shows(refused.clone()));
        evidence.push(wait.last.shows(refused));
    }
    // Several parts of a program may share a connection, and wait and hold each for itself.
    let has_worked = circle.iter().any(|wait| wait.work.0 != wait.work.1);
    let severity = (has_worked || are_shared).then_some(Severity::Warning);
    let culprit = circle.iter().map(|wait| wait.client.id).min().unwrap_or(0);
    context.report(FindingDraft { code: Code::LockOrder, severity, sentence, evidence, culprit });
    true
}

/// Whether a connection is one of several of its process, and has no name.
fn may_be_shared(state: Option<&ClientState>, client: &ClientIdentity) -> bool {
    let latest = state.map_or(client, |state| &state.client);
    latest.name.is_empty() && latest.process.as_ref().is_some_and(|process| !process.is_only_client())
}
