//! The contents of a report in any format: moments in one order, clients, locks, and who held them when.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::Journals;
use super::data_values::DataValues;
use super::readable::{readable, visible};
use super::replicas::{ReplicatingInstance, replicating_instances};
use crate::insight::audit::{
    Auditor, Code, Evidence, Finding, HoldEnd, HoldStatus, JournalRef, LockAccess, LockAccessKind, LockId, Severity,
    Span, SpanKind, grouped, plausible,
};
use crate::powers::{Event, EventKind, Item};

/// How many moments and locks a report has: first those that findings rest on, then those about locks.
pub const MAX_MOMENTS: usize = 100_000;
const MAX_LOCKS: usize = 5_000;

/// A point on each of the three axes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AxisPoint {
    /// In the order of all moments, from 0. A point between two moments is half a step before the later one.
    pub order: f64,
    /// On the server's clock, and in real time, in microseconds since 1970.
    pub at: i64,
    pub real: i64,
}

/// One line of a journal.
pub struct Moment<'a> {
    pub server: u16,
    pub item: &'a Item,
    /// The client's place in the list of clients.
    pub client: Option<usize>,
    pub kind: MomentKind,
    /// The lock's place in the list of locks.
    pub lock: Option<usize>,
}

/// What a command did to a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MomentKind {
    Other,
    Read,
    Missed,
    Extended,
    Set,
    Refused,
    Released,
    Took,
    /// It deleted or overwrote another client's lock.
    Foreign,
}

impl MomentKind {
    /// The name on the page.
    pub fn name(self) -> &'static str {
        match self {
            Self::Other => "other",
            Self::Read => "read",
            Self::Missed => "missed",
            Self::Extended => "extended",
            Self::Set => "set",
            Self::Refused => "refused",
            Self::Released => "released",
            Self::Took => "took",
            Self::Foreign => "foreign",
        }
    }

    fn of(access: LockAccessKind) -> Self {
        match access {
            LockAccessKind::Read => Self::Read,
            LockAccessKind::Missed => Self::Missed,
            LockAccessKind::Extended => Self::Extended,
            LockAccessKind::Set => Self::Set,
            LockAccessKind::Refused => Self::Refused,
            LockAccessKind::Removed => Self::Released,
            LockAccessKind::Took => Self::Took,
            LockAccessKind::Flushed | LockAccessKind::Evicted | LockAccessKind::Lost | LockAccessKind::Unknown => {
                Self::Other
            }
        }
    }
}

/// A connection.
pub struct Client {
    pub server: u16,
    pub id: u64,
    pub name: String,
    pub address: String,
    /// Its process, as `python worker.py (pid 4711)`, if it is known.
    pub process: Option<String>,
    /// The node that it is connected to, if there is a deployment.
    pub node: Option<String>,
}

impl Client {
    /// The client in a heading: its name, its process, or its number.
    pub fn title(&self) -> String {
        match &self.process {
            _ if !self.name.is_empty() => self.name.clone(),
            Some(process) => process.clone(),
            None => format!("client {}", self.id),
        }
    }

    /// Whether its heading is its number.
    pub fn is_numbered(&self) -> bool {
        self.name.is_empty() && self.process.is_none()
    }
}

/// A key that is taken for a lock.
pub struct Lock {
    pub id: Arc<LockId>,
    pub name: String,
    /// The severity of the worst finding about it.
    pub worst: Option<Severity>,
}

/// A stretch of time in which a client held a lock, or waited for it.
pub struct ClientSpan {
    pub lock: usize,
    pub client: usize,
    pub kind: SpanKind,
    pub from: AxisPoint,
    /// `None` if it had not ended with the journal.
    pub until: Option<AxisPoint>,
    pub end: Option<HoldEnd>,
    /// When and why the server ceased to agree with it.
    pub lost: Option<(AxisPoint, String)>,
    /// Until when the holder went on although the lock had expired.
    pub unnoticed: Option<AxisPoint>,
    /// How often the client was refused while it waited.
    pub attempts: usize,
}

/// A stretch of time in which the server had a lock's key, and the client that set it.
pub struct KeyPresence {
    pub lock: usize,
    pub client: Option<usize>,
    pub from: AxisPoint,
    pub until: Option<AxisPoint>,
    /// How it ended: `expired`, `deleted`, `replaced` by another value, `flushed`, `evicted` or `lost`; empty if it has not.
    pub end: &'static str,
}

/// A command or event that a finding rests on.
pub struct Proof<'a> {
    pub shown: &'a Evidence,
    pub spot: AxisPoint,
    /// The place in the list of moments, if it is one of them.
    pub moment: Option<usize>,
}

pub struct PlacedFinding<'a> {
    pub finding: &'a Finding,
    /// The place in the list of the first finding that is the same mistake; its own if it is that. They follow each other.
    pub first: usize,
    pub lock: Option<usize>,
    pub spot: AxisPoint,
    pub proofs: Vec<Proof<'a>>,
}

pub struct ReportData<'a> {
    pub servers: usize,
    pub clients: Vec<Client>,
    pub locks: Vec<Lock>,
    pub moments: Vec<Moment<'a>>,
    pub stretches: Vec<ClientSpan>,
    pub stays: Vec<KeyPresence>,
    /// By harm, and then by time.
    pub found: Vec<PlacedFinding<'a>>,
    pub values: DataValues,
    pub instances: Vec<ReplicatingInstance>,
    /// The number of commands in the journals, and of the moments, locks and findings that were left out.
    pub commands: usize,
    pub moments_left_out: usize,
    pub locks_left_out: usize,
    pub unlisted: u64,
    index: Index,
}

/// The places of the lines of each server among all moments, by number.
struct Index(HashMap<u16, Vec<(u64, usize)>>);

impl Index {
    fn of(lines: &[(u16, &Item)]) -> Self {
        let mut places: HashMap<u16, Vec<(u64, usize)>> = HashMap::new();
        for (at, (server, item)) in lines.iter().enumerate() {
            places.entry(*server).or_default().push((seq_of(item), at));
        }
        places.values_mut().for_each(|places| places.sort_unstable());
        Self(places)
    }

    fn exact(&self, server: u16, seq: u64) -> Option<usize> {
        let places = self.0.get(&server)?;
        let at = places.binary_search_by_key(&seq, |(seq, _)| *seq).ok()?;
        Some(places[at].1)
    }

    /// The first moment with this number or a higher one; the last moment if there is none.
    fn next(&self, server: u16, seq: u64) -> usize {
        let Some(places) = self.0.get(&server) else { return 0 };
        let at = places.partition_point(|(other, _)| *other < seq);
        places.get(at).or(places.last()).map_or(0, |(_, at)| *at)
    }
}

impl<'a> ReportData<'a> {
    pub fn of(journals: &'a Journals, auditor: &'a Auditor) -> Self {
        let findings = auditor.findings();
        let accesses = auditor.timeline().map(|timeline| timeline.accesses.as_slice()).unwrap_or_default();
        let spans = auditor.timeline().map(|timeline| timeline.spans.as_slice()).unwrap_or_default();
        let mut locks = locks_of(auditor, accesses, findings);
        let locks_left_out = locks.len().saturating_sub(MAX_LOCKS);
        locks.truncate(MAX_LOCKS);
        let lock_at: HashMap<Arc<LockId>, usize> =
            locks.iter().enumerate().map(|(at, lock)| (Arc::clone(&lock.id), at)).collect();
        let all = merged(journals);
        let commands = all.iter().filter(|(_, item)| matches!(item, Item::Command(_))).count();
        let (lines, moments_left_out) = chosen(all, accesses, findings, &lock_at);
        let index = Index::of(&lines);
        let mut data = ReportData {
            servers: journals.len(),
            clients: Vec::new(),
            locks,
            moments: Vec::with_capacity(lines.len()),
            stretches: Vec::new(),
            stays: Vec::new(),
            found: Vec::new(),
            values: DataValues { data: Vec::new(), uses: Vec::new(), acts: Vec::new() },
            instances: Vec::new(),
            commands,
            moments_left_out,
            locks_left_out,
            unlisted: auditor.unlisted(),
            index,
        };
        for (server, item) in lines {
            data.moments.push(Moment { server, item, client: None, kind: MomentKind::Other, lock: None });
        }
        let done = data.note_accesses(accesses, &lock_at);
        data.note_clients();
        data.note_spans(spans, &lock_at, &done);
        data.note_stays(&done);
        for group in grouped(findings, |finding| (finding.as_ref(), ())) {
            let first = data.found.len();
            for finding in group.findings {
                let found = data.found_of(finding, &lock_at, first);
                data.found.push(found);
            }
        }
        data.note_unnoticed(&done);
        data.instances = replicating_instances(&data.moments);
        data.values = DataValues::of(&data.moments, &data.found, auditor.commands());
        data
    }

    fn spot(&self, moment: usize) -> AxisPoint {
        let (at, real) = times_of(self.moments[moment].item);
        AxisPoint { order: moment as f64, at, real }
    }

    /// The point of a command or event: at a moment, or between two.
    fn spot_of(&self, mark: &JournalRef) -> (AxisPoint, Option<usize>) {
        let JournalRef { server, seq, at, real, .. } = *mark;
        let Some(moment) = self.index.exact(server, seq) else {
            let order = self.index.next(server, seq) as f64 - 0.5;
            return (AxisPoint { order, at, real }, None);
        };
        let is_command = matches!(self.moments[moment].item, Item::Command(_));
        let order = moment as f64;
        match mark.client {
            0 if &*mark.line == "(the end)" => (AxisPoint { order: order + 0.5, at, real }, None),
            0 if is_command => (AxisPoint { order: order - 0.5, at, real }, None),
            _ => (AxisPoint { order, at, real }, Some(moment)),
        }
    }

    /// Notes what commands did to locks. Returns it by lock, each with its moment.
    fn note_accesses<'d>(
        &mut self,
        accesses: &'d [LockAccess],
        locks: &HashMap<Arc<LockId>, usize>,
    ) -> Vec<Vec<(usize, &'d LockAccess)>> {
        let mut done = vec![Vec::new(); self.locks.len()];
        for access in accesses {
            let Some(&lock) = locks.get(&access.id) else { continue };
            let Some(moment) = self.index.exact(access.id.server, access.seq) else { continue };
            done[lock].push((moment, access));
            let (kind, moment) = (MomentKind::of(access.kind), &mut self.moments[moment]);
            if moment.lock.is_none() || rank(kind) > rank(moment.kind) {
                (moment.kind, moment.lock) = (kind, Some(lock));
            }
        }
        done
    }

    /// Lists the clients that sent a command, those with locks first.
    fn note_clients(&mut self) {
        let mut about_locks = Vec::new();
        let mut others = Vec::new();
        // Each with whether it has to do with a lock.
        let mut known: HashMap<(u16, u64), (bool, Client)> = HashMap::new();
        for moment in &self.moments {
            let Item::Command(entry) = moment.item else { continue };
            let key = (moment.server, entry.client);
            let (is_about_locks, client) = known.entry(key).or_insert_with(|| {
                others.push(key);
                let (server, id) = key;
                let (name, address) = (String::new(), visible(&entry.address));
                (false, Client { server, id, name, address, process: None, node: None })
            });
            if let Some(process) = &entry.process
                && client.process.is_none()
            {
                client.process = process.display_name().map(|name| visible(&name));
            }
            if let Some(node) = &entry.node {
                client.node = Some(visible(node));
            }
            if moment.lock.is_some() && !*is_about_locks {
                *is_about_locks = true;
                about_locks.push(key);
            }
            if !entry.name.is_empty() {
                client.name = readable(&entry.name);
            }
        }
        others.retain(|key| known.get(key).is_some_and(|(is_about_locks, _)| !is_about_locks));
        about_locks.extend(others);
        // The connections of one process stand side by side.
        let mut processes: Vec<&str> = Vec::new();
        let mut lanes: Vec<Vec<(u16, u64)>> = Vec::new();
        for key in about_locks {
            let process = known.get(&key).and_then(|(_, client)| client.process.as_deref());
            let place = process.and_then(|process| processes.iter().position(|known| *known == process));
            let place = place.unwrap_or_else(|| {
                processes.push(process.unwrap_or_default());
                lanes.push(Vec::new());
                lanes.len() - 1
            });
            lanes[place].push(key);
        }
        let in_order: Vec<(u16, u64)> = lanes.concat();
        let mut places = HashMap::new();
        for key in in_order {
            let Some((_, client)) = known.remove(&key) else { continue };
            places.insert(key, self.clients.len());
            self.clients.push(client);
        }
        for moment in &mut self.moments {
            let id = match moment.item {
                Item::Command(entry) => entry.client,
                Item::Event(event) => event.client,
            };
            moment.client = places.get(&(moment.server, id)).copied();
        }
    }

    fn note_spans(&mut self, spans: &[Span], locks: &HashMap<Arc<LockId>, usize>, done: &[Vec<(usize, &LockAccess)>]) {
        let clients: HashMap<(u16, u64), usize> =
            self.clients.iter().enumerate().map(|(at, client)| ((client.server, client.id), at)).collect();
        for span in spans {
            let Some(&lock) = locks.get(&span.id) else { continue };
            let Some(&client) = clients.get(&(span.client.server, span.client.id)) else { continue };
            let from = self.spot_of(&span.from).0;
            let until = span.until.as_ref().map(|mark| self.spot_of(mark).0);
            let lost = match &span.status {
                HoldStatus::Held => None,
                HoldStatus::Deleted(mark) => Some((mark, format!("{} deleted it", self.actor(mark)))),
                HoldStatus::Overwritten(mark) => Some((mark, format!("{} overwrote it", self.actor(mark)))),
                HoldStatus::Flushed(flush) => {
                    Some((&flush.source, format!("{} {}", self.actor(&flush.source), flush.cause.did())))
                }
                HoldStatus::Evicted(mark) => Some((mark, "the server evicted it".to_owned())),
                HoldStatus::FailedOver(mark) => Some((mark, "lost in the failover".to_owned())),
                HoldStatus::Vanished => None,
            };
            let lost = lost.map(|(mark, what)| {
                let (spot, moment) = self.spot_of(mark);
                (spot, moment, what)
            });
            if let Some((_, Some(moment), _)) = &lost {
                self.moments[*moment].kind = MomentKind::Foreign;
            }
            let last = until.map_or(f64::MAX, |until| until.order);
            let is_attempt = |(moment, access): &&(usize, &LockAccess)| {
                access.kind == LockAccessKind::Refused && self.moments[*moment].client == Some(client)
            };
            let tries = between(&done[lock], from.order, last);
            let attempts = if span.kind == SpanKind::Waiting { tries.iter().filter(is_attempt).count() } else { 0 };
            self.stretches.push(ClientSpan {
                lock,
                client,
                kind: span.kind,
                from,
                until,
                end: span.end.clone(),
                lost: lost.map(|(spot, _, what)| (spot, what)),
                unnoticed: None,
                attempts,
            });
        }
        self.stretches.sort_by(|one, other| {
            (one.lock, one.from.order).partial_cmp(&(other.lock, other.from.order)).unwrap_or(std::cmp::Ordering::Equal)
        });
    }

    fn actor(&self, mark: &JournalRef) -> String {
        let process = mark.process.as_ref().and_then(|process| process.process.display_name());
        match (mark.client, mark.name.is_empty(), process) {
            (0, ..) => "the server".to_owned(),
            (_, true, Some(process)) => visible(&process),
            (client, true, None) => format!("client {client}"),
            (_, false, _) => visible(&mark.name),
        }
    }

    /// Lists when the server had the keys of locks.
    fn note_stays(&mut self, done: &[Vec<(usize, &LockAccess)>]) {
        for (lock, accesses) in done.iter().enumerate() {
            let mut now: Option<(KeyPresence, usize, Option<i64>)> = None;
            for (moment, access) in accesses {
                let spot = self.spot(*moment);
                now = now.and_then(|(stay, since, deadline)| match self.passing(since, *moment, deadline) {
                    Some(until) => {
                        self.stays.push(KeyPresence { until: Some(until), end: "expired", ..stay });
                        None
                    }
                    None => Some((stay, since, deadline)),
                });
                let is_set = matches!(access.kind, LockAccessKind::Took | LockAccessKind::Set);
                now = match now.take() {
                    Some((stay, ..)) if access.is_there && !is_set => Some((stay, *moment, access.deadline)),
                    before => {
                        if let Some((stay, ..)) = before {
                            let end = end_by(access);
                            self.stays.push(KeyPresence { until: Some(spot), end, ..stay });
                        }
                        let client = self.moments[*moment].client.filter(|_| is_set);
                        let stay = KeyPresence { lock, client, from: spot, until: None, end: "" };
                        access.is_there.then_some((stay, *moment, access.deadline))
                    }
                };
            }
            if let Some((stay, since, deadline)) = now {
                let until = self.passing(since, self.moments.len() - 1, deadline);
                let end = if until.is_some() { "expired" } else { "" };
                self.stays.push(KeyPresence { until, end, ..stay });
            }
        }
    }

    /// When a deadline passed between two moments, by the server's clock.
    fn passing(&self, since: usize, until: usize, deadline: Option<i64>) -> Option<AxisPoint> {
        let deadline = deadline?;
        let server = self.moments[since].server;
        let is_over = |moment: &usize| {
            self.moments[*moment].server == server && times_of(self.moments[*moment].item).0.div_euclid(1000) > deadline
        };
        let over = (since..=until).find(is_over)?;
        let spot = self.spot(over);
        let at = deadline.saturating_add(1).saturating_mul(1000).min(spot.at);
        Some(AxisPoint { order: spot.order - 0.5, at, real: spot.real.saturating_sub(spot.at - at) })
    }

    fn found_of(&self, finding: &'a Finding, locks: &HashMap<Arc<LockId>, usize>, first: usize) -> PlacedFinding<'a> {
        let proofs: Vec<Proof<'_>> = finding
            .evidence
            .iter()
            .map(|shown| {
                let (spot, moment) = self.spot_of(&shown.source);
                Proof { shown, spot, moment }
            })
            .collect();
        let spot = match (self.index.exact(finding.server, finding.seq), proofs.last()) {
            (_, Some(last)) if last.shown.source.seq >= finding.seq => last.spot,
            (Some(moment), _) => self.spot(moment),
            (None, Some(last)) => last.spot,
            (None, None) => AxisPoint { order: 0.0, at: finding.at, real: finding.at },
        };
        let id = LockId { server: finding.server, db: finding.db, key: (&*finding.key).into() };
        PlacedFinding { finding, first, lock: locks.get(&id).copied(), spot, proofs }
    }

    /// Notes how long holders went on after their lock had expired: until they tried to release or extend it, or until
    /// the last write that was found.
    fn note_unnoticed(&mut self, done: &[Vec<(usize, &LockAccess)>]) {
        let mut unnoticed = Vec::new();
        let is_work = |found: &&PlacedFinding<'_>| found.finding.code == Code::WorkAfterExpiry;
        let works: Vec<&PlacedFinding<'_>> = self.found.iter().filter(is_work).collect();
        for stretch in &self.stretches {
            let over = stretch.until.filter(|_| stretch.end == Some(HoldEnd::Expired));
            unnoticed.push(over.and_then(|over| {
                let mut later = between(&done[stretch.lock], over.order, f64::MAX).iter();
                let own = later.find(|(moment, _)| self.moments[*moment].client == Some(stretch.client));
                let next = own.filter(|(_, access)| {
                    !matches!(
                        access.kind,
                        LockAccessKind::Took
                            | LockAccessKind::Refused
                            | LockAccessKind::Read
                            | LockAccessKind::Flushed
                            | LockAccessKind::Evicted
                            | LockAccessKind::Lost
                    )
                });
                let found = works.iter().filter(|found| found.lock == Some(stretch.lock));
                let client = &self.clients[stretch.client];
                let worked = found.flat_map(|found| &found.proofs).filter(|proof| {
                    let mark = &proof.shown.source;
                    (mark.server, mark.client) == (client.server, client.id) && proof.spot.order > over.order
                });
                let worked = worked.map(|proof| proof.spot).max_by(|one, other| one.order.total_cmp(&other.order));
                let next = next.map(|(moment, _)| self.spot(*moment));
                next.into_iter().chain(worked).max_by(|one, other| one.order.total_cmp(&other.order))
            }));
        }
        for (stretch, unnoticed) in self.stretches.iter_mut().zip(unnoticed) {
            stretch.unnoticed = unnoticed;
        }
    }

    /// How many findings of a severity are not allowed.
    pub fn count(&self, severity: Severity) -> usize {
        let is_meant =
            |found: &&PlacedFinding<'_>| found.finding.allowed.is_none() && found.finding.severity == severity;
        self.found.iter().filter(is_meant).count()
    }
}

/// The accesses between two points in the order.
/// How a command ended the presence of a key.
fn end_by(access: &LockAccess) -> &'static str {
    match access.kind {
        _ if access.is_there => "replaced",
        LockAccessKind::Flushed => "flushed",
        LockAccessKind::Evicted => "evicted",
        LockAccessKind::Lost => "lost",
        LockAccessKind::Read
        | LockAccessKind::Missed
        | LockAccessKind::Extended
        | LockAccessKind::Unknown
        | LockAccessKind::Set
        | LockAccessKind::Refused
        | LockAccessKind::Removed
        | LockAccessKind::Took => "deleted",
    }
}

fn between<'s, 'd>(accesses: &'s [(usize, &'d LockAccess)], from: f64, until: f64) -> &'s [(usize, &'d LockAccess)] {
    let first = accesses.partition_point(|(moment, _)| (*moment as f64) < from);
    let behind = accesses.partition_point(|(moment, _)| *moment as f64 <= until);
    &accesses[first..behind.max(first)]
}

fn rank(kind: MomentKind) -> u8 {
    kind as u8
}

pub fn times_of(item: &Item) -> (i64, i64) {
    let (at, real) = match item {
        Item::Command(entry) => (entry.at, entry.real),
        Item::Event(event) => (event.at, event.real),
    };
    (plausible(at), plausible(real))
}

pub fn seq_of(item: &Item) -> u64 {
    match item {
        Item::Command(entry) => entry.seq,
        Item::Event(event) => event.seq,
    }
}

/// All lines in the order of real time; those of one server stay in their order.
fn merged(journals: &Journals) -> Vec<(u16, &Item)> {
    let mut rest: Vec<(u16, &[Item])> = journals.iter().map(|(server, items)| (*server, items.as_slice())).collect();
    std::iter::from_fn(|| {
        let next = rest.iter_mut().filter(|(_, items)| !items.is_empty());
        let (server, items) = next.min_by_key(|(_, items)| items.first().map(|item| times_of(item).1))?;
        let (first, others) = items.split_first()?;
        *items = others;
        Some((*server, first))
    })
    .collect()
}

/// The lines that the report has, and how many it leaves out.
fn chosen<'a>(
    mut all: Vec<(u16, &'a Item)>,
    accesses: &[LockAccess],
    findings: &[Arc<Finding>],
    locks: &HashMap<Arc<LockId>, usize>,
) -> (Vec<(u16, &'a Item)>, usize) {
    // The end of a connection without a command is of no interest.
    let speakers: BTreeSet<(u16, u64)> = all
        .iter()
        .filter_map(|(server, item)| if let Item::Command(entry) = item { Some((*server, entry.client)) } else { None })
        .collect();
    all.retain(|(server, item)| match item {
        Item::Event(event) if event.kind == EventKind::Closed => speakers.contains(&(*server, event.client)),
        _ => true,
    });
    let left_out = all.len().saturating_sub(MAX_MOMENTS);
    if left_out == 0 {
        return (all, 0);
    }
    let evidence = findings.iter().flat_map(|finding| &finding.evidence);
    let proving: BTreeSet<_> = evidence.map(|shown| (shown.source.server, shown.source.seq)).collect();
    let about = accesses.iter().filter(|access| locks.contains_key(&access.id));
    let about: BTreeSet<_> = about.map(|access| (access.id.server, access.seq)).collect();
    let class = |server: u16, item: &Item| {
        let key = (server, seq_of(item));
        match item {
            _ if proving.contains(&key) => 0,
            Item::Event(Event { kind: EventKind::Started | EventKind::Clock | EventKind::Missing, .. }) => 0,
            Item::Event(Event { kind: EventKind::Promoted | EventKind::Mark | EventKind::Lost, .. }) => 0,
            Item::Event(Event { kind: EventKind::Link | EventKind::Replaced, .. }) => 0,
            _ if about.contains(&key) => 1,
            _ => 2,
        }
    };
    let mut ranked: Vec<(u8, usize)> =
        all.iter().enumerate().map(|(at, (server, item))| (class(*server, item), at)).collect();
    ranked.sort_unstable();
    ranked.truncate(MAX_MOMENTS);
    ranked.sort_unstable_by_key(|(_, at)| *at);
    (ranked.into_iter().map(|(_, at)| all[at]).collect(), left_out)
}

/// The locks, those with the worst findings first, then in the order in which they came.
fn locks_of(auditor: &Auditor, accesses: &[LockAccess], findings: &[Arc<Finding>]) -> Vec<Lock> {
    let mut worst: HashMap<(u16, u32, &[u8]), Severity> = HashMap::new();
    for finding in findings.iter().filter(|finding| finding.allowed.is_none()) {
        let known = worst.entry((finding.server, finding.db, &finding.key)).or_insert(finding.severity);
        *known = (*known).max(finding.severity);
    }
    let mut first: HashMap<&LockId, usize> = HashMap::new();
    for (at, access) in accesses.iter().enumerate() {
        first.entry(&access.id).or_insert(at);
    }
    let mut known = auditor.known_locks();
    known.sort_by_cached_key(|id| {
        let worst = worst.get(&(id.server, id.db, &*id.key)).copied();
        (std::cmp::Reverse(worst), first.get(&**id).copied().unwrap_or(usize::MAX))
    });
    let named = known.into_iter().map(|id| {
        let worst = worst.get(&(id.server, id.db, &*id.key)).copied();
        Lock { name: readable(&id.key), worst, id }
    });
    named.collect()
}
