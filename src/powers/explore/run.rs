//! One run of a test whose clients race: who is held, whose turn it is, what has happened so far.

use std::sync::Arc;
use std::time::Duration;

use super::brief::brief;
use super::footprint::Footprint;
use super::token::{Label, MOST_CLIENTS, MOST_TURNS, Order, Turn};
use super::tree::{Candidate, Tree};
use crate::base::clock::{Clock, Stopwatch};
use crate::powers::fault::line_of;
use crate::powers::wait_queue::{ParkedCommand, Permit, WaitQueue};

/// A command that has come, and may not run before its turn.
pub struct Entrant {
    pub guest: ParkedCommand,
    pub command: &'static str,
    pub footprint: Footprint,
}

/// What a client that is not held is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It may send something any moment.
    Idle,
    /// Its command waits for something that others do.
    Waits,
    Gone,
}

/// What is next.
pub enum Look {
    /// Somebody's command was let through. It has taken effect when nobody's alarm rings any more.
    Went,
    /// Nothing before something happens, or before so much real time has passed.
    Wait(Option<Duration>),
    /// There is no exploration any more.
    Over,
}

/// How long an order that is known waits for the client whose turn it is, at least. Only a test that goes another way
/// than before lets it wait.
const PATIENCE: Duration = Duration::from_secs(2);

/// One that races.
struct Member {
    client: u64,
    name: Vec<u8>,
    label: Option<Label>,
    held: Option<(Arc<WaitQueue>, Entrant)>,
    /// What its last command touches, in case that waits for others.
    touched: Footprint,
    /// Where in the record its last command stands.
    turn: Option<usize>,
    is_gone: bool,
}

/// One turn that was had.
struct Record {
    turn: Turn,
    name: Vec<u8>,
    words: Vec<Vec<u8>>,
    reply: Option<String>,
}

/// How the turns behind the plan are given.
#[derive(Clone, Copy, Debug)]
pub enum Rest {
    /// As the tree says.
    Tree,
    /// By chance; this is the state of the dice.
    Dice(u64),
    /// Who has had the last turn goes on.
    Same,
}

pub struct Run {
    /// The turns that are known beforehand.
    pub plan: Vec<Turn>,
    pub rest: Rest,
    settle: Duration,
    /// How many race, as far as is known from earlier runs.
    expected: usize,
    members: Vec<Member>,
    labels: Label,
    /// How many of these were given since the last turn.
    joining: u16,
    /// The turns for which those who were to come have come.
    joined: usize,
    record: Vec<Record>,
    /// Somebody was let through, and has not got as far as it can.
    is_under_way: bool,
    /// Since somebody came, went, or was done.
    quiet: Stopwatch,
    /// Whatever follows was tried already.
    pub is_cut: bool,
    /// Where and how it went another way than the run that it was to follow.
    pub strayed: Option<String>,
    /// Some commands were not held, as there are more than can be kept in mind.
    pub is_too_long: bool,
    pub has_failed: bool,
}

impl Run {
    pub fn new(plan: Order, rest: Rest, settle: Duration, expected: usize) -> Self {
        Self {
            plan: plan.0,
            rest,
            settle,
            expected,
            members: Vec::new(),
            labels: 0,
            joining: 0,
            joined: 0,
            record: Vec::new(),
            is_under_way: false,
            quiet: Stopwatch::start(),
            is_cut: false,
            strayed: None,
            is_too_long: false,
            has_failed: false,
        }
    }

    /// How many turns were had.
    pub fn turns(&self) -> usize {
        self.record.len()
    }

    /// How many clients have raced.
    pub fn clients(&self) -> usize {
        self.members.len()
    }

    /// The order so far.
    pub fn order(&self) -> Order {
        Order(self.record.iter().map(|record| record.turn).collect())
    }

    /// The order so far, a line for each turn.
    pub fn lines(&self) -> Vec<String> {
        let who = |record: &Record| match record.name.as_slice() {
            b"" => format!("client {}", record.turn.client),
            name => name.escape_ascii().to_string(),
        };
        let widest = self.record.iter().map(|record| who(record).len()).max().unwrap_or(0);
        let line = |(index, record): (usize, &Record)| {
            let words = line_of(&record.words);
            let reply = record.reply.as_deref().unwrap_or("(no reply)");
            format!("{:>3}. {:widest$}  {words}  -> {reply}", index + 1, who(record))
        };
        self.record.iter().enumerate().map(line).collect()
    }

    /// Holds a command until it is its turn; `None` if it is none of those that race.
    pub fn hold(&mut self, entrant: Entrant) -> Option<Permit> {
        if self.record.len() >= MOST_TURNS {
            self.is_too_long = true;
            return None;
        }
        let ParkedCommand { client, client_name: name, .. } = &entrant.guest;
        // Who comes back under the name of one that has gone is the same one.
        let place = self.members.iter().position(|member| member.client == *client).or_else(|| {
            self.members.iter().position(|member| member.is_gone && !name.is_empty() && member.name == *name)
        });
        let place = match place {
            Some(place) => place,
            None if self.members.len() >= MOST_CLIENTS => {
                self.is_too_long = true;
                return None;
            }
            None => {
                self.members.push(Member {
                    client: *client,
                    name: Vec::new(),
                    label: None,
                    held: None,
                    touched: Footprint::default(),
                    turn: None,
                    is_gone: false,
                });
                self.members.len() - 1
            }
        };
        let stop: Arc<WaitQueue> = Arc::default();
        let ticket = stop.park(entrant.guest.clone());
        let member = &mut self.members[place];
        member.client = *client;
        member.name.clone_from(name);
        member.is_gone = false;
        member.held = Some((stop, entrant));
        self.quiet = Stopwatch::start();
        ticket
    }

    /// Whether somebody is held.
    pub fn holds_anybody(&self) -> bool {
        self.members.iter().any(|member| member.held.is_some())
    }

    /// Notes what a client got for its last command.
    pub fn replied(&mut self, client: u64, reply: &[u8]) {
        let member = self.members.iter().find(|member| member.client == client);
        if let Some(record) = member.and_then(|member| member.turn).and_then(|turn| self.record.get_mut(turn))
            && record.reply.is_none()
        {
            record.reply = Some(brief(reply));
        }
    }

    pub fn left(&mut self, client: u64) {
        if let Some(member) = self.members.iter_mut().find(|member| member.client == client && !member.is_gone) {
            member.is_gone = true;
            member.held = None;
            self.quiet = Stopwatch::start();
        }
    }

    /// The one that was let through has got as far as it can.
    pub fn took_effect(&mut self) {
        self.is_under_way = false;
        self.quiet = Stopwatch::start();
    }

    /// Lets everybody go on.
    pub fn free_all(&mut self, clock: &Arc<Clock>) {
        for (stop, _) in self.members.iter_mut().filter_map(|member| member.held.take()) {
            stop.open(clock);
        }
    }

    /// Gives the next turn, if it is time for that.
    pub fn look(&mut self, tree: &mut Tree, standing: impl Fn(u64) -> Standing, clock: &Arc<Clock>) -> Look {
        if self.is_under_way {
            return Look::Wait(None);
        }
        let standing = |member: &Member| if member.is_gone { Standing::Gone } else { standing(member.client) };
        let turn = self.record.len();
        if let Some(planned) = self.plan.get(turn).copied() {
            match self.find_planned(planned, tree.planned(turn), standing) {
                Ok(place) => {
                    if matches!(self.rest, Rest::Tree) {
                        tree.widen(turn, self.candidates(standing));
                    }
                    return self.let_through(place, planned.client, clock);
                }
                Err(Some(left)) => return Look::Wait(Some(left)),
                Err(None) => {
                    self.plan.truncate(turn);
                    tree.cut(turn);
                }
            }
        }
        if !self.holds_anybody() {
            return Look::Wait(None);
        }
        let is_accounted = |member: &Member| member.held.is_some() || standing(member) != Standing::Idle;
        let knows_all = self.expected > 0 && self.members.len() >= self.expected;
        if !knows_all || !self.members.iter().all(is_accounted) {
            let left = self.settle.saturating_sub(self.quiet.elapsed());
            if !left.is_zero() {
                return Look::Wait(Some(left));
            }
        }
        self.label(usize::MAX);
        let candidates = self.candidates(standing);
        let last = self.record.last().map(|record| record.turn.client);
        let same = last.filter(|last| candidates.iter().any(|candidate| candidate.client == *last));
        let usual = same.or_else(|| candidates.first().map(|candidate| candidate.client)).unwrap_or_default();
        let client = match &mut self.rest {
            Rest::Tree if !self.is_cut => tree.grow(self.joining, candidates, same).unwrap_or_else(|| {
                self.is_cut = true;
                usual
            }),
            Rest::Dice(state) => {
                let drawn = draw(state) % (candidates.len().max(1) as u64);
                candidates.get(drawn as usize).map_or(usual, |candidate| candidate.client)
            }
            Rest::Tree | Rest::Same => usual,
        };
        let place = self.members.iter().position(|member| member.label == Some(client));
        match place {
            Some(place) => self.let_through(place, client, clock),
            None => Look::Wait(None),
        }
    }

    /// Where the client is whose turn is planned. The error is how long to wait for it; or that there is no use in that.
    fn find_planned(
        &mut self,
        planned: Turn,
        command: Option<&'static str>,
        standing: impl Fn(&Member) -> Standing,
    ) -> Result<usize, Option<Duration>> {
        let turn = self.record.len() + 1;
        let left = self.settle.saturating_mul(20).max(PATIENCE).saturating_sub(self.quiet.elapsed());
        let wait = (!left.is_zero()).then_some(left);
        if planned.joining > 0 && self.joined <= self.record.len() {
            let unknown = self.members.iter().filter(|member| member.label.is_none() && member.held.is_some()).count();
            if unknown < usize::from(planned.joining) {
                if wait.is_none() {
                    self.stray(format!("turn {turn}: {} clients were to come, and {unknown} did", planned.joining));
                }
                return Err(wait);
            }
            self.label(usize::from(planned.joining));
            self.joined = turn;
        }
        let place = self.members.iter().position(|member| member.label == Some(planned.client));
        let Some((place, member)) = place.and_then(|place| Some((place, self.members.get(place)?))) else {
            self.stray(format!("turn {turn}: there is no client {}", planned.client));
            return Err(None);
        };
        let said = match (&member.held, command, standing(member)) {
            (Some((_, entrant)), Some(command), _) if entrant.command != command => {
                format!("sends {} and not {command}", entrant.command)
            }
            (Some(_), ..) => return Ok(place),
            (None, _, Standing::Gone) => "has gone".to_owned(),
            (None, _, Standing::Waits) => "waits for something".to_owned(),
            (None, _, Standing::Idle) if wait.is_some() => return Err(wait),
            (None, _, Standing::Idle) => "sends nothing".to_owned(),
        };
        self.stray(format!("turn {turn}: client {} {said}", planned.client));
        Err(None)
    }

    fn stray(&mut self, how: String) {
        self.strayed.get_or_insert(how);
    }

    /// Gives the next numbers to those who have come, at most so many. Who connected first may be a matter of chance, so
    /// the order is that of names, then of what they ask for.
    fn label(&mut self, most: usize) {
        let mut fresh: Vec<&mut Member> =
            self.members.iter_mut().filter(|member| member.label.is_none() && member.held.is_some()).collect();
        fresh.sort_by_key(|member| member.client);
        fresh.truncate(most);
        fresh.sort_by_cached_key(|member| {
            let words = member.held.as_ref().map(|(_, entrant)| entrant.guest.words.iter().take(2).cloned().collect());
            (member.name.clone(), words.unwrap_or_else(Vec::new), member.client)
        });
        for member in fresh {
            self.labels += 1;
            self.joining += 1;
            member.label = Some(self.labels);
        }
    }

    /// Those who could have the next turn, by their numbers. Who gives somebody what he waits for does what that one does,
    /// too.
    fn candidates(&self, standing: impl Fn(&Member) -> Standing) -> Vec<Candidate> {
        let waiting = |member: &&Member| member.held.is_none() && standing(member) == Standing::Waits;
        let waiting: Vec<&Footprint> = self.members.iter().filter(waiting).map(|member| &member.touched).collect();
        let candidate = |member: &Member| {
            let (client, (_, entrant)) = (member.label?, member.held.as_ref()?);
            let mut footprint = entrant.footprint.clone();
            // Who is served may serve the next one.
            for _ in 0..waiting.len() {
                for other in &waiting {
                    if !other.commutes_with(&footprint) {
                        footprint.join(other);
                    }
                }
            }
            Some(Candidate { client, command: entrant.command, footprint })
        };
        let mut candidates: Vec<Candidate> = self.members.iter().filter_map(candidate).collect();
        candidates.sort_by_key(|candidate| candidate.client);
        candidates
    }

    fn let_through(&mut self, place: usize, client: Label, clock: &Arc<Clock>) -> Look {
        let Some((member, (stop, entrant))) =
            self.members.get_mut(place).and_then(|member| member.held.take().map(|held| (member, held)))
        else {
            return Look::Wait(None);
        };
        member.turn = Some(self.record.len());
        member.touched = entrant.footprint;
        let turn = Turn { joining: std::mem::take(&mut self.joining), client };
        let ParkedCommand { client_name, words, .. } = entrant.guest;
        self.record.push(Record { turn, name: client_name, words, reply: None });
        self.is_under_way = true;
        // If it has just gone, nothing comes of its turn.
        stop.release_next(clock);
        Look::Went
    }
}

/// A number by SplitMix64.
fn draw(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
