//! Deadlocks between clients that hold locks and wait for each other's.

use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasher;
use std::sync::Arc;

use arrayvec::ArrayVec;
use foldhash::fast::FixedState;
use smallvec::SmallVec;

use super::wording::spelled;
use crate::insight::audit::client_identity::{ClientIdentity, SameProgram};
use crate::insight::audit::client_state::{ClientState, ClientStates};
use crate::insight::audit::code::{Code, Severity};
use crate::insight::audit::finding::JournalRef;
use crate::insight::audit::line_form::NotedCommand;
use crate::insight::audit::lock::{LockId, push_exact};
use crate::insight::audit::lock_event::LockEvent;
use crate::insight::audit::rule_context::{FindingDraft, RuleContext};

/// How long clients that may share connections have waited for each other, in microseconds, before it is reported.
const LASTING: i64 = 1_000_000;

/// What is remembered of one lock.
#[derive(Clone, Default)]
pub struct OrderState {
    /// A client that holds another lock waits for this one.
    is_wanted: bool,
    /// The clients that were refused while they held another lock, and had not been before. Whoever is refused only once waits for
    /// nothing.
    refused: Vec<RefusedHolder>,
}

/// A client that was refused while it held another lock.
#[derive(Clone)]
struct RefusedHolder {
    client: (u16, u64),
    first: Arc<JournalRef>,
    /// How many keys beside locks it had accessed by then.
    work: u64,
    /// It was refused again, and waits.
    waits: bool,
}

impl OrderState {
    /// Whether nothing is remembered.
    pub fn is_initial(&self) -> bool {
        let Self { is_wanted, refused } = self;
        !is_wanted && refused.is_empty()
    }

    /// Notes that a client is refused while it holds another lock. Returns the attempt before, if it waits now.
    pub fn note_refused(
        &mut self,
        client: (u16, u64),
        source: &Arc<JournalRef>,
        work: u64,
    ) -> Option<(Arc<JournalRef>, u64)> {
        let new = RefusedHolder { client, first: Arc::clone(source), work, waits: false };
        let has_room = self.refused.len() < MAX_WAITS;
        match self.refused.iter_mut().find(|known| known.client == client) {
            Some(known) if known.waits => *known = new,
            Some(known) => {
                known.waits = true;
                self.is_wanted = true;
                return Some((Arc::clone(&known.first), known.work));
            }
            None if has_room => push_exact(&mut self.refused, new),
            None => {}
        }
        None
    }
}

/// What is remembered beyond one lock: which client waits for which.
#[derive(Clone, Default)]
pub struct GlobalOrderState {
    /// Each wait keeps its slot.
    waits: Vec<Option<Wait>>,
    /// The slots without waits.
    free: Vec<usize>,
    /// What is looked at of each wait, by slot: the wait itself is far away in memory.
    edges: Vec<Edge>,
    /// The slots with waits, the oldest at the front.
    order: VecDeque<usize>,
    /// The clients that wait, or are waited for. Each keeps its place.
    parties: Vec<Party>,
    /// The places without clients.
    free_parties: Vec<usize>,
    by_client: HashMap<(u16, u64), usize, FixedState>,
}

/// A client that waits, or for which others wait.
#[derive(Clone, Default)]
struct Party {
    client: (u16, u64),
    /// The slots of its waits.
    slots: Slots,
    /// How many wait for it.
    wanted: usize,
}

/// A wait in short.
#[derive(Clone, Copy, Default)]
struct Edge {
    /// The hash of the wanted lock.
    lock: u64,
    /// Who waits for whom, by their places.
    client: usize,
    holder: usize,
    /// The real time of the first attempt, and the earliest of the last one.
    first: i64,
    last: i64,
}

/// A set of slots.
type Slots = SmallVec<[usize; 4]>;

fn hash_of(id: &LockId) -> u64 {
    FixedState::default().hash_one(id)
}

fn connection(client: &ClientIdentity) -> (u16, u64) {
    (client.server, client.id)
}

impl GlobalOrderState {
    fn wait(&self, slot: usize) -> Option<&Wait> {
        self.waits.get(slot)?.as_ref()
    }

    /// The slots of a client's waits.
    fn slots_of(&self, client: (u16, u64)) -> &[usize] {
        self.by_client.get(&client).map_or(&[], |at| &self.parties[*at].slots)
    }

    /// The place of a client, which gets one if it has none.
    fn party_of(&mut self, client: (u16, u64)) -> usize {
        if let Some(at) = self.by_client.get(&client) {
            return *at;
        }
        let at = self.free_parties.pop().unwrap_or_else(|| {
            self.parties.push(Party::default());
            self.parties.len() - 1
        });
        self.parties[at].client = client;
        self.by_client.insert(client, at);
        at
    }

    /// Frees the place of a client that neither waits nor is waited for.
    fn leave(&mut self, at: usize) {
        let Party { client, slots, wanted } = &self.parties[at];
        if slots.is_empty() && *wanted == 0 {
            self.by_client.remove(client);
            self.free_parties.push(at);
        }
    }

    /// The wait of a client for a lock.
    fn find(&self, client: &ClientIdentity, id: &LockId) -> Option<usize> {
        let slots = self.slots_of(connection(client));
        let lock = if slots.is_empty() { 0 } else { hash_of(id) };
        let is_it =
            |slot: &usize| self.edges[*slot].lock == lock && self.wait(*slot).is_some_and(|wait| *wait.wanted == *id);
        slots.iter().copied().find(is_it)
    }

    fn add(&mut self, wait: Wait) {
        if self.order.len() >= MAX_WAITS
            && let Some(oldest) = self.order.front()
        {
            self.remove(*oldest);
        }
        let slot = self.free.pop().unwrap_or_else(|| {
            self.waits.push(None);
            self.edges.push(Edge::default());
            self.waits.len() - 1
        });
        let (client, holder) = (self.party_of(connection(&wait.client)), self.party_of(connection(&wait.holder)));
        self.parties[client].slots.push(slot);
        self.parties[holder].wanted += 1;
        self.edges[slot] = Edge {
            lock: hash_of(&wait.wanted),
            client,
            holder,
            first: wait.first.moment().1,
            last: wait.last.earliest(),
        };
        self.waits[slot] = Some(wait);
        self.order.push_back(slot);
    }

    fn remove(&mut self, slot: usize) {
        if self.waits.get_mut(slot).and_then(Option::take).is_none() {
            return;
        }
        self.free.push(slot);
        match self.order.front() == Some(&slot) {
            true => drop(self.order.pop_front()),
            false => self.order.retain(|other| *other != slot),
        }
        let Edge { client, holder, .. } = self.edges[slot];
        self.parties[client].slots.retain(|other| *other != slot);
        self.parties[holder].wanted -= 1;
        self.leave(client);
        if holder != client {
            self.leave(holder);
        }
    }

    /// Nobody waits for a lock any more.
    pub fn forget(&mut self, id: &LockId) {
        let hash = hash_of(id);
        for slot in 0..self.edges.len() {
            if self.edges[slot].lock == hash && self.wait(slot).is_some_and(|wait| *wait.wanted == *id) {
                self.remove(slot);
            }
        }
    }

    /// Notes that a client which waits for a lock is refused again. Returns whether it waits for it at all.
    pub fn wait_longer(
        &mut self,
        client: &ClientIdentity,
        id: &LockId,
        last: impl FnOnce() -> WaitCommand,
        work: u64,
    ) -> bool {
        let Some(own) = self.find(client, id) else { return false };
        let Some(wait) = &mut self.waits[own] else { return false };
        (wait.last, wait.work.1) = (last(), work);
        self.edges[own].last = wait.last.earliest();
        true
    }
}

/// How many waits are remembered, and how many make a circle at most.
const MAX_WAITS: usize = 256;
const MAX_PARTIES: usize = 2 * MAX_WAITS;
const LONGEST: usize = 8;

/// A command that a wait is about: as evidence shows it, or as it was noted, with the value in it.
#[derive(Clone)]
pub enum WaitCommand {
    Shown(Arc<JournalRef>),
    Noted(NotedCommand, Box<[u8]>),
}

impl WaitCommand {
    /// When it took effect: on the server's clock, and in real time.
    fn moment(&self) -> (i64, i64) {
        match self {
            Self::Shown(source) => (source.at, source.real),
            Self::Noted(command, _) => (command.at, command.real),
        }
    }

    /// The earliest real time at which it may have taken effect.
    fn earliest(&self) -> i64 {
        match self {
            Self::Shown(source) => source.earliest,
            Self::Noted(command, _) => command.real,
        }
    }

    /// The command as evidence shows it, which asked for this lock.
    fn source(&self, id: &LockId) -> Arc<JournalRef> {
        match self {
            Self::Shown(source) => Arc::clone(source),
            Self::Noted(command, value) => command.source(id.server, &id.key, value),
        }
    }
}

/// A client that holds locks waits for another one: it was refused twice at least.
#[derive(Clone)]
struct Wait {
    client: ClientIdentity,
    wanted: Arc<LockId>,
    holder: ClientIdentity,
    /// The command by which the holder took the wanted lock.
    taken: WaitCommand,
    first: WaitCommand,
    last: WaitCommand,
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
        | LockEvent::Doubted => {
            state.refused = Vec::new();
            if std::mem::take(&mut state.is_wanted) {
                global.forget(&context.lock.id);
            }
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
    let Some(work) = work_while_holding(client, &context.lock.id) else { return };
    let (source, id) = (context.source.clone(), &context.lock.id);
    if !global.wait_longer(actor, id, || WaitCommand::Shown(Arc::clone(&source)), work) {
        let Some((first, before)) = state.note_refused(connection(actor), &source, work) else { return };
        let [taken, first, last] = [holder.acquired.clone(), first, source].map(WaitCommand::Shown);
        global.note_wait(actor, id, (holder.client.clone(), taken), [(first, before), (last, work)]);
    }
    tell_circle(context, global);
}

/// How many keys beside locks a client has accessed, if it holds another lock than this one.
pub fn work_while_holding(client: &ClientState, id: &Arc<LockId>) -> Option<u64> {
    let is_other = |held: &Arc<LockId>| !Arc::ptr_eq(held, id) && held != id;
    client.holds.iter().any(is_other).then_some(client.work)
}

impl GlobalOrderState {
    /// Notes that a client which holds another lock was refused twice: it waits for this one. `holder` is who has it, and the command
    /// that took it; each attempt comes with the work so far.
    pub fn note_wait(
        &mut self,
        client: &ClientIdentity,
        id: &Arc<LockId>,
        (holder, taken): (ClientIdentity, WaitCommand),
        [(first, before), (last, now)]: [(WaitCommand, u64); 2],
    ) {
        let (client, wanted, work) = (client.clone(), Arc::clone(id), (before, now));
        self.add(Wait { client, wanted, holder, taken, first, last, work, is_reported: false });
    }

    /// Whether something is to be told of clients that wait for each other, among them this one for this lock. `now` is the time on the
    /// server's clock, and the real time, of the client's last attempt.
    pub fn has_circle(&self, clients: &ClientStates, client: &ClientIdentity, id: &LockId, now: (i64, i64)) -> bool {
        let circle = self.find(client, id).and_then(|own| circle(self, own));
        circle.is_some_and(|circle| {
            let waits: Vec<&Wait> = circle.iter().filter_map(|slot| self.wait(*slot)).collect();
            Circle::of(clients, &waits, (id.server, now)).is_told()
        })
    }
}

/// Tells of clients that wait for each other, if the one that acts is among them.
pub fn tell_circle(context: &mut RuleContext<'_>, global: &mut GlobalOrderState) {
    let own = context.actor.and_then(|actor| global.find(actor, &context.lock.id));
    if let Some(circle) = own.and_then(|own| circle(global, own)) {
        let waits: Vec<&Wait> = circle.iter().filter_map(|slot| global.wait(*slot)).collect();
        if report(context, &waits) {
            for slot in circle {
                if let Some(wait) = &mut global.waits[slot] {
                    wait.is_reported = true;
                }
            }
        }
    }
}

/// The shortest circle of waits through `own` that was not reported. Each of its clients was refused again since all
/// of them wait.
fn circle(global: &GlobalOrderState, own: usize) -> Option<Vec<usize>> {
    let Edge { client, first: since, .. } = global.edges[own];
    if global.parties[client].wanted == 0 {
        return None;
    }
    let mut steps: ArrayVec<Step, MAX_WAITS> = ArrayVec::new();
    steps.push(Step { slot: own, before: 0, length: 1 });
    let mut met = [false; MAX_WAITS];
    met[own] = true;
    // The clients whose waits are all met.
    let mut followed = [false; MAX_PARTIES];
    let mut done = 0;
    while let Some(&Step { slot, length, .. }) = steps.get(done) {
        let holder = global.edges[slot].holder;
        if holder == client && length > 1 {
            let slots = way_to(&steps, done);
            let way = || slots.iter().map(|slot| &global.edges[*slot]);
            let all_since = way().map(|edge| edge.first).max()?;
            // The last client to come may have been refused only once since.
            let is_closed = way().all(|edge| edge.last > all_since);
            let is_told = |slot: &usize| global.wait(*slot).is_some_and(|wait| wait.is_reported);
            if is_closed && !slots.iter().all(is_told) {
                return Some(slots);
            }
        } else if length < LONGEST && !std::mem::replace(&mut followed[holder], true) {
            for &other in &global.parties[holder].slots {
                // Whoever was not refused since this one waits is on no such circle.
                if global.edges[other].last > since && !std::mem::replace(&mut met[other], true) {
                    steps.push(Step { slot: other, before: done, length: length + 1 });
                }
            }
        }
        done += 1;
    }
    None
}

/// A wait on a path of waits.
#[derive(Clone, Copy)]
struct Step {
    slot: usize,
    /// The place of the step before it; of the first step, its own.
    before: usize,
    /// How many steps lead to it.
    length: usize,
}

/// The slots on the path to a step.
fn way_to(steps: &[Step], last: usize) -> Vec<usize> {
    let mut way = Vec::with_capacity(LONGEST);
    let mut at = last;
    loop {
        let Step { slot, before, length } = steps[at];
        way.push(slot);
        if length == 1 {
            break;
        }
        at = before;
    }
    way.reverse();
    way
}

/// What it depends on whether a circle is told.
struct Circle {
    /// For how many microseconds all have waited.
    lasted: i64,
    are_shared: bool,
}

impl Circle {
    fn of(clients: &ClientStates, waits: &[&Wait], (server, (at, real)): (u16, (i64, i64))) -> Self {
        let firsts = waits.iter().map(|wait| (wait.wanted.server, wait.first.moment()));
        let since = firsts.max_by_key(|(_, (_, real))| *real).unwrap_or((server, (at, real)));
        let (first_server, (first_at, first_real)) = since;
        let by_clock = if first_server == server { at - first_at } else { 0 };
        let lasted = (real - first_real).max(by_clock);
        // The threads of a program may share connections without a name. A circle of theirs lasts, one of a shared connection ends as
        // soon as the holder is done.
        let is_shared = |wait: &&Wait| may_be_shared(clients.get(&connection(&wait.client)), &wait.client);
        Self { lasted, are_shared: waits.iter().any(is_shared) }
    }

    fn is_told(&self) -> bool {
        !self.are_shared || self.lasted >= LASTING
    }
}

/// Reports a circle, unless it may be none. Returns whether it did.
fn report(context: &mut RuleContext<'_>, circle: &[&Wait]) -> bool {
    let name = |id: &LockId| String::from_utf8_lossy(&id.key).into_owned();
    let source = &context.source;
    let seen = Circle::of(context.clients, circle, (source.server, (source.at, source.real)));
    if !seen.is_told() {
        return false;
    }
    let Circle { lasted, are_shared } = seen;
    let waits = circle.iter().map(|wait| {
        format!(
            "{} waits for `{}`, which {} holds",
            wait.client.display_name(),
            name(&wait.wanted),
            wait.holder.display_name()
        )
    });
    let all = waits.collect::<Vec<_>>().join(", and ");
    let sentence = format!("Clients wait for each other for {} already: {all}", spelled(lasted.max(1000)));
    let mut evidence = Vec::new();
    for wait in circle {
        let [taken, first, last] = [&wait.taken, &wait.first, &wait.last].map(|command| command.source(&wait.wanted));
        evidence.push(taken.shows(format!("took `{}`", name(&wait.wanted))));
        let refused = format!("was refused `{}`, and held its own", name(&wait.wanted));
        evidence.push(first.shows(refused.clone()));
        evidence.push(last.shows(refused));
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
