//! One run of a test whose clients race: which commands are held, which one runs next, and what has run so far.

use std::sync::Arc;
use std::time::Duration;

use super::chaos::{Action, Chaos};
use super::footprint::Footprint;
use super::links::{HeldLinks, Observes, delivery_to};
use super::racer::Racer;
use super::reply_summary::summarize;
use super::taken_turn::{TakenTurn, lines_of};
use super::token::{MOST_CLIENTS, MOST_TURNS, Order, RacerNumber, Turn};
use super::tree::{Candidate, Choice, OrderTree};
use crate::base::clock::{Clock, Millis, Stopwatch};
use crate::base::duration::spell_duration;
use crate::base::random;
use crate::powers::line::line_of;
use crate::powers::wait_queue::{ParkedCommand, Permit, WaitQueue};

/// A command that is held until its turn.
pub struct RacingCommand {
    pub parked: ParkedCommand,
    pub name: &'static str,
    pub footprint: Footprint,
    /// Whether it may write.
    pub writes: bool,
    /// The instance that it was sent to.
    pub instance: u16,
    pub observes: Observes,
}

impl RacingCommand {
    fn client(&self) -> ClientOf {
        ClientOf { instance: self.instance, id: self.parked.client }
    }
}

/// A client of one of the instances that are explored together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClientOf {
    pub instance: u16,
    pub id: u64,
}

/// What a client does that is not held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RacerState {
    /// It may send a command at any time.
    Idle,
    /// Its command blocks until another client does something.
    Blocked,
    Gone,
}

/// What happens to a command that a client wants to send.
pub enum Hold {
    /// It runs at once.
    Pass,
    /// It runs at once, and whoever reads a replica is to find there what the master has.
    PassBeside,
    /// It waits for its turn.
    Park(Permit),
    /// Its client counts as dead.
    Refuse,
}

/// What the clock of an explored server shows, while it moves only for the explorer.
#[derive(Clone, Debug, Default)]
pub struct Deadlines {
    pub now: Millis,
    /// The key that expires next, and the first instant without it.
    pub key: Option<(Millis, Vec<u8>)>,
    /// When the next command that waits is answered.
    pub wait: Option<Millis>,
}

/// What the scheduler does next.
pub enum NextTurn {
    /// A command was released. Its turn is over when the clock has settled.
    Granted,
    /// Something else happens in this run. The turn is over when the clock has settled.
    Event(TurnEvent, RunId),
    /// Wait for an event, or for this much real time.
    Wait(Option<Duration>),
    /// The exploration has ended.
    Over,
}

/// What happens in a turn that is no client's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnEvent {
    /// The clock goes to this instant.
    MoveClock(Millis),
    /// From now on, links hold what is sent to replicas.
    HoldLinks,
    /// A replica gets the next change.
    Replicate(u16),
    /// A replica becomes the master, without the last so many changes.
    FailOver { to: u16, losing: u16 },
}

/// The servers around a run.
pub trait Surroundings {
    /// What a client does that is not held.
    fn state(&self, client: ClientOf) -> RacerState;

    /// `None` if the clock is another server's.
    fn deadlines(&self) -> Option<Deadlines>;

    fn links(&self) -> HeldLinks;
}

/// Which run of an exploration it is: the earlier ones that are over.
pub type RunId = u64;

/// How many times the time of `--settle` passes before something happens that only happens because nothing else moves: a
/// client that stood still goes on, or one repeats a refused command; and before the clock goes on by itself.
const BEFORE_LAST_RESORT: u32 = 20;
const BEFORE_TIME_PASSES: u32 = 100;
/// How many times in a row commands are repeated in vain, while nothing else moves, before they are no longer held.
const MOST_POLLS: u32 = 100;
/// What it costs to go on with another client than the last one, if that is done or if it is not, and what else happens.
pub(super) const COST_OF_ANOTHER: u32 = 1;
const COST_OF_PREEMPTION: u32 = 2;
pub(super) const COST_OF_CHAOS: u32 = 2;

/// The least time that a planned turn waits for its client. It is waited in full only if the test strays from its plan.
const LEAST_WAIT: Duration = Duration::from_secs(2);

/// What the next turn can be.
struct Choices {
    /// The usual one is the first.
    candidates: Vec<Candidate>,
    /// Commands that are not among them, because they are repeated in vain.
    left_out: u64,
    /// Why it is the turn of these.
    kind: ChoiceKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ChoiceKind {
    /// A client can go on.
    Usual,
    /// Clients can go on that stand still, and no others.
    AfterPause,
    /// Nothing can happen before the clock goes on.
    TimePasses,
    /// All that can happen is in vain.
    InVain,
}

/// How the turns after the planned ones are given.
#[derive(Clone, Copy, Debug)]
pub enum TurnPolicy {
    /// By the tree.
    Tree,
    /// At random; the value is the generator's state.
    Random(u64),
    /// As usual.
    Usual,
}

pub struct Run {
    id: RunId,
    /// More can happen than commands, and the clock goes on only for that.
    has_events: bool,
    /// There are replicas, whose links are held from the first command on.
    has_replicas: bool,
    are_links_held: bool,
    /// What else may happen, as often as it still may.
    chaos: Chaos,
    /// How often a client may repeat a refused command while nothing has changed, before others go on.
    most_polls: u32,
    /// How often in a row commands were repeated in vain because nothing else could move.
    polls_in_vain: u32,
    /// How many choices were left out because a command is repeated in vain.
    pub polls_left_out: u64,
    /// Commands were no longer held, because they are repeated in vain and nothing else can move.
    pub is_endless: bool,
    /// The turns that are known in advance.
    pub plan: Vec<Turn>,
    pub policy: TurnPolicy,
    settle: Duration,
    /// How many clients race, as known from earlier runs.
    expected: usize,
    racers: Vec<Racer>,
    /// How many racers have a number.
    numbered: RacerNumber,
    /// How many of these numbers were given since the last turn.
    joining: u16,
    /// The turns whose newcomers have arrived.
    joined: usize,
    taken: Vec<TakenTurn>,
    /// A released command is still running.
    is_running: bool,
    /// Restarted whenever a command arrives, a client leaves, or a turn ends.
    quiet_since: Stopwatch,
    /// Every order that begins like this was tried already.
    pub is_redundant: bool,
    /// Where and how the run left its plan.
    pub strayed: Option<String>,
    /// Some commands were not held, because the run has more turns or clients than an order can have.
    pub is_too_long: bool,
    pub has_failed: bool,
}

/// What an exploration allows each run.
pub struct RunLimits {
    pub settle: Duration,
    pub chaos: Chaos,
    pub polls: u32,
    pub has_replicas: bool,
}

impl Run {
    pub fn new(id: RunId, plan: Order, policy: TurnPolicy, limits: RunLimits, expected: usize) -> Self {
        let RunLimits { settle, chaos, polls, has_replicas } = limits;
        Self {
            id,
            has_events: has_replicas || !chaos.is_empty(),
            has_replicas,
            are_links_held: false,
            chaos,
            most_polls: polls,
            polls_in_vain: 0,
            polls_left_out: 0,
            is_endless: false,
            plan: plan.0,
            policy,
            settle,
            expected,
            racers: Vec::new(),
            numbered: 0,
            joining: 0,
            joined: 0,
            taken: Vec::new(),
            is_running: false,
            quiet_since: Stopwatch::start(),
            is_redundant: false,
            strayed: None,
            is_too_long: false,
            has_failed: false,
        }
    }

    /// How many turns were taken.
    pub fn turns(&self) -> usize {
        self.taken.len()
    }

    /// How many clients have raced.
    pub fn clients(&self) -> usize {
        self.racers.len()
    }

    /// The order so far.
    pub fn order(&self) -> Order {
        Order(self.taken.iter().map(|record| record.turn).collect())
    }

    /// The order so far, a line for each turn.
    pub fn lines(&self) -> Vec<String> {
        lines_of(&self.taken)
    }

    /// Holds a command until its turn.
    pub fn hold(&mut self, command: RacingCommand) -> Hold {
        if self.taken.len() >= MOST_TURNS {
            self.is_too_long = true;
            return Hold::Pass;
        }
        let (client, name) = (command.client(), &command.parked.client_name);
        // A client that reconnects under the name of one that has left counts as that one.
        let place = self.racers.iter().position(|racer| racer.client == client).or_else(|| {
            self.racers.iter().position(|racer| {
                (racer.is_gone || racer.is_dead || racer.may_return) && !name.is_empty() && racer.name == *name
            })
        });
        if place.is_some_and(|place| self.racers[place].is_dead) {
            return Hold::Refuse;
        }
        let place = match place {
            Some(place) => place,
            None if self.racers.len() >= MOST_CLIENTS => {
                self.is_too_long = true;
                return Hold::Pass;
            }
            None => {
                self.racers.push(Racer::new(client));
                self.racers.len() - 1
            }
        };
        let racer = &mut self.racers[place];
        racer.has_lost &= racer.client == client;
        if racer.has_lost && command.observes == Observes::EveryLink {
            racer.may_return = true;
            return Hold::Refuse;
        }
        if racer.is_free && racer.polls.is_in_vain(&command, self.most_polls) {
            return Hold::Pass;
        }
        let queue: Arc<WaitQueue> = Arc::default();
        let permit = queue.park(command.parked.clone());
        racer.client = client;
        racer.name.clone_from(name);
        (racer.is_gone, racer.may_return, racer.is_free) = (false, false, false);
        racer.held = Some((queue, command));
        self.quiet_since = Stopwatch::start();
        permit.map_or(Hold::Pass, Hold::Park)
    }

    /// What is to happen to the command of a client that was released.
    pub fn take_fate(&mut self, client: ClientOf) -> Action {
        let racer = self.racers.iter_mut().find(|racer| racer.client == client);
        racer.map_or(Action::Run, |racer| std::mem::take(&mut racer.fate))
    }

    /// Whether any command is held.
    pub fn holds_any(&self) -> bool {
        self.racers.iter().any(|racer| racer.held.is_some())
    }

    /// Keeps the reply to a client's last command.
    pub fn record_reply(&mut self, client: ClientOf, reply: &[u8]) {
        let Some(place) = self.racers.iter().position(|racer| racer.client == client) else { return };
        let racer = &mut self.racers[place];
        if let Some(record) = racer.turn.and_then(|turn| self.taken.get_mut(turn))
            && record.reply.is_none()
        {
            record.reply = Some(summarize(reply));
            if racer.polls.end(reply) {
                (racer.has_written, record.has_written) = (true, true);
                let touched = racer.touched.clone();
                self.note_change(&touched);
            }
        }
    }

    /// Something has changed, so that what was refused before may succeed.
    fn note_change(&mut self, footprint: &Footprint) {
        self.polls_in_vain = 0;
        self.racers.iter_mut().for_each(|racer| racer.polls.forget_what_conflicts(footprint));
    }

    pub fn client_left(&mut self, client: ClientOf) {
        if let Some(racer) = self.racers.iter_mut().find(|racer| racer.client == client && !racer.is_gone) {
            racer.is_gone = true;
            racer.held = None;
            self.quiet_since = Stopwatch::start();
        }
    }

    /// The released command has run as far as it can.
    pub fn turn_is_over(&mut self) {
        self.is_running = false;
        self.quiet_since = Stopwatch::start();
    }

    /// Links are open again, because the server was reset.
    pub fn links_were_opened(&mut self) {
        self.are_links_held = false;
    }

    /// Whether a client that does not race is to find at a replica what its master has.
    pub fn holds_links(&self) -> bool {
        self.are_links_held
    }

    /// Releases every held command.
    pub fn free_all(&mut self, clock: &Arc<Clock>) {
        for (queue, _) in self.racers.iter_mut().filter_map(|racer| racer.held.take()) {
            queue.open(clock);
        }
    }

    /// Releases the next command, if it is time for that.
    pub fn next_turn(&mut self, search: &mut OrderTree, around: &impl Surroundings, clock: &Arc<Clock>) -> NextTurn {
        if self.is_running {
            return NextTurn::Wait(None);
        }
        if self.has_replicas && !self.are_links_held && self.holds_any() {
            (self.are_links_held, self.is_running) = (true, true);
            return NextTurn::Event(TurnEvent::HoldLinks, self.id);
        }
        let state = |racer: &Racer| match (racer.may_return, racer.is_gone) {
            (true, _) => RacerState::Idle,
            (false, true) => RacerState::Gone,
            (false, false) => around.state(racer.client),
        };
        let (has_events, has_replicas) = (self.has_events, self.has_replicas);
        let deadlines = || if has_events { around.deadlines() } else { None };
        let deadlines = &deadlines;
        let links = &|| if has_replicas { around.links() } else { HeldLinks::default() };
        let turn = self.taken.len();
        if let Some(planned) = self.plan.get(turn).copied() {
            match self.find_planned(planned, search.planned(turn), state, deadlines, links) {
                Ok(place) => {
                    if matches!(self.policy, TurnPolicy::Tree) {
                        let choices = self.choices(state, deadlines().as_ref(), &links());
                        if choices.kind == ChoiceKind::Usual {
                            search.widen(turn, choices.candidates);
                        }
                    }
                    return self.take(place, planned.into(), deadlines, links, clock);
                }
                Err(Some(left)) => return NextTurn::Wait(Some(left)),
                Err(None) => {
                    self.plan.truncate(turn);
                    search.cut(turn);
                    // What is found on this way may not be there the next time.
                    self.is_redundant |= has_events;
                }
            }
        }
        if !self.holds_any() && !self.racers.iter().any(|racer| state(racer) == RacerState::Blocked) {
            return NextTurn::Wait(None);
        }
        let is_accounted = |racer: &Racer| racer.held.is_some() || state(racer) != RacerState::Idle;
        let knows_all = self.expected > 0 && self.racers.len() >= self.expected;
        let choices = self.choices(state, deadlines().as_ref(), &links());
        if !knows_all || !self.racers.iter().all(is_accounted) {
            let factor = match choices.kind {
                ChoiceKind::Usual => 1,
                ChoiceKind::InVain if self.polls_in_vain > 0 => 1,
                ChoiceKind::AfterPause | ChoiceKind::InVain => BEFORE_LAST_RESORT,
                ChoiceKind::TimePasses => BEFORE_TIME_PASSES,
            };
            let left = self.settle.saturating_mul(factor).saturating_sub(self.quiet_since.elapsed());
            if !left.is_zero() {
                return NextTurn::Wait(Some(left));
            }
        }
        self.number_newcomers(usize::MAX);
        let Choices { candidates, left_out, kind } = self.choices(state, deadlines().as_ref(), &links());
        if kind == ChoiceKind::InVain && !candidates.is_empty() && self.polls_in_vain >= MOST_POLLS {
            self.is_endless = true;
            for racer in &mut self.racers {
                racer.is_free = racer.held.take().is_some_and(|(queue, _)| queue.open(clock) > 0);
            }
            return NextTurn::Wait(None);
        }
        let Some(usual) = candidates.first().map(|candidate| candidate.choice) else { return NextTurn::Wait(None) };
        self.polls_left_out += left_out;
        let choice = match &mut self.policy {
            TurnPolicy::Tree if !self.is_redundant => search.grow(self.joining, candidates).unwrap_or_else(|| {
                self.is_redundant = true;
                usual
            }),
            TurnPolicy::Random(generator) => draw(generator, &candidates).unwrap_or(usual),
            TurnPolicy::Tree | TurnPolicy::Usual => usual,
        };
        if kind == ChoiceKind::InVain {
            self.polls_in_vain += 1;
        }
        let place = self.racers.iter().position(|racer| racer.number == Some(choice.client));
        if place.is_none() && choice.client > 0 {
            return NextTurn::Wait(None);
        }
        self.take(place, choice, deadlines, links, clock)
    }

    /// The index of the racer whose turn is planned. The error says how long to wait for it; `None`: it will not come.
    fn find_planned(
        &mut self,
        planned: Turn,
        command: Option<&'static str>,
        state: impl Fn(&Racer) -> RacerState,
        deadlines: impl Fn() -> Option<Deadlines>,
        links: impl Fn() -> HeldLinks,
    ) -> Result<Option<usize>, Option<Duration>> {
        let turn = self.taken.len() + 1;
        let left = self.settle.saturating_mul(20).max(LEAST_WAIT).saturating_sub(self.quiet_since.elapsed());
        let wait = (!left.is_zero()).then_some(left);
        if planned.joining > 0 && self.joined <= self.taken.len() {
            let unknown = self.racers.iter().filter(|racer| racer.number.is_none() && racer.held.is_some()).count();
            if unknown < usize::from(planned.joining) {
                if wait.is_none() {
                    self.note_stray(format!(
                        "turn {turn}: {} clients were to come, and {unknown} did",
                        planned.joining
                    ));
                }
                return Err(wait);
            }
            self.number_newcomers(usize::from(planned.joining));
            self.joined = turn;
        }
        if matches!(planned.action, Action::Replicate(_) | Action::Failover { .. }) {
            // A failover can close connections: with a command that has come, or without.
            let is_silent = |racer: &Racer| racer.held.is_none() && state(racer) == RacerState::Idle;
            let silence = self.settle.saturating_sub(self.quiet_since.elapsed());
            if self.racers.iter().any(is_silent) && !silence.is_zero() {
                return Err(Some(silence));
            }
            if links().allow(planned.action) {
                return Ok(None);
            }
            self.note_stray(format!("turn {turn}: the replica has not been sent so many changes"));
            return Err(None);
        }
        if planned.client == 0 {
            if deadlines().is_some_and(|deadlines| deadlines.key.is_some() || deadlines.wait.is_some()) {
                return Ok(None);
            }
            self.note_stray(format!("turn {turn}: there is no deadline that the clock can go past"));
            return Err(None);
        }
        let place = self.racers.iter().position(|racer| racer.number == Some(planned.client));
        let Some((place, racer)) = place.and_then(|place| Some((place, self.racers.get(place)?))) else {
            self.note_stray(format!("turn {turn}: there is no client {}", planned.client));
            return Err(None);
        };
        let said = match (&racer.held, command, state(racer)) {
            (Some((_, held)), Some(command), _) if held.name != command => {
                format!("sends {} and not {command}", held.name)
            }
            (Some(_), ..) => return Ok(Some(place)),
            (None, _, RacerState::Gone) => "has gone".to_owned(),
            (None, _, RacerState::Blocked) => "waits for something".to_owned(),
            (None, _, RacerState::Idle) if wait.is_some() => return Err(wait),
            (None, _, RacerState::Idle) => "sends nothing".to_owned(),
        };
        self.note_stray(format!("turn {turn}: client {} {said}", planned.client));
        Err(None)
    }

    fn note_stray(&mut self, how: String) {
        self.strayed.get_or_insert(how);
    }

    /// Gives the next numbers to racers that have none, at most so many. The order of connections may be chance, so they
    /// are sorted by name, then by their commands.
    fn number_newcomers(&mut self, most: usize) {
        let mut fresh: Vec<&mut Racer> =
            self.racers.iter_mut().filter(|racer| racer.number.is_none() && racer.held.is_some()).collect();
        fresh.sort_by_key(|racer| racer.client);
        fresh.truncate(most);
        fresh.sort_by_cached_key(|racer| {
            let words = racer.held.as_ref().map(|(_, command)| command.parked.words.iter().take(2).cloned().collect());
            (racer.name.clone(), words.unwrap_or_else(Vec::new), racer.client)
        });
        for racer in fresh {
            self.numbered += 1;
            self.joining += 1;
            racer.number = Some(self.numbered);
        }
    }

    /// What could have the next turn. A command that unblocks another one has the footprint of both.
    fn choices(
        &self,
        state: impl Fn(&Racer) -> RacerState,
        deadlines: Option<&Deadlines>,
        links: &HeldLinks,
    ) -> Choices {
        let waiting = |racer: &&Racer| racer.held.is_none() && state(racer) == RacerState::Blocked;
        let waiting: Vec<&Footprint> = self.racers.iter().filter(waiting).map(|racer| &racer.touched).collect();
        let footprint = |command: &RacingCommand| {
            let mut footprint = command.footprint.clone();
            // The command that it unblocks may unblock the next one.
            for _ in 0..waiting.len() {
                for other in &waiting {
                    if !other.commutes_with(&footprint) {
                        footprint.join(other);
                    }
                }
            }
            footprint
        };
        let mut held: Vec<(RacerNumber, &Racer, &RacingCommand)> =
            self.racers.iter().filter_map(|racer| Some((racer.number?, racer, &racer.held.as_ref()?.1))).collect();
        held.sort_by_key(|(number, ..)| *number);
        let is_in_vain = |racer: &Racer, command| racer.polls.is_in_vain(command, self.most_polls);
        let movable: Vec<_> = held
            .iter()
            .filter(|(_, racer, command)| !racer.is_paused && !is_in_vain(racer, command))
            .copied()
            .collect();
        let run = |&(client, _, command): &(RacerNumber, &Racer, &RacingCommand), cost| {
            let choice = Choice::run(client);
            Candidate { choice, command: command.name, footprint: footprint(command), cost }
        };
        let clock = |action, cost| Candidate {
            choice: Choice { client: 0, action },
            command: "",
            footprint: Footprint::everything(),
            cost,
        };
        let may_expire =
            self.chaos.allows(Action::Expiry) && deadlines.is_some_and(|deadlines| deadlines.key.is_some());
        let waits_for_replicas =
            |racer: &Racer| state(racer) == RacerState::Blocked && racer.observes == Observes::EveryLink;
        let is_waiting = self.racers.iter().any(|racer| racer.held.is_none() && waits_for_replicas(racer));
        let observers: Vec<Observes> = (held.iter().map(|(_, _, command)| command.observes))
            .chain(is_waiting.then_some(Observes::EveryLink))
            .collect();
        let mut deliveries = links.deliveries(&observers);
        let has_just_written = self.taken.last().is_some_and(|record| record.has_written);
        let failovers = links.failovers(&self.chaos, has_just_written);
        let mut candidates = Vec::new();
        let Some(usual) = self.usual(&movable) else {
            if let Some(first) = deliveries.first_mut() {
                first.cost = 0;
                let may_time_out = is_waiting && deadlines.is_some_and(|deadlines| deadlines.wait.is_some());
                candidates.extend(deliveries);
                candidates.extend(failovers);
                candidates.extend(may_time_out.then(|| clock(Action::TimePasses, COST_OF_CHAOS)));
                return Choices { candidates, left_out: 0, kind: ChoiceKind::Usual };
            }
            let paused: Vec<_> = held.iter().filter(|(_, racer, _)| racer.is_paused).collect();
            if !paused.is_empty() {
                // It stands still for longer than a lock lasts, if that may be.
                candidates.extend(may_expire.then(|| clock(Action::Expiry, 0)));
                candidates.extend(paused.into_iter().map(|racer| run(racer, COST_OF_ANOTHER)));
                return Choices { candidates, left_out: 0, kind: ChoiceKind::AfterPause };
            }
            if deadlines.is_some_and(|deadlines| deadlines.key.is_some() || deadlines.wait.is_some()) {
                return Choices {
                    candidates: vec![clock(Action::TimePasses, 0)],
                    left_out: 0,
                    kind: ChoiceKind::TimePasses,
                };
            }
            // One after the other.
            candidates.extend(held.iter().min_by_key(|(_, racer, _)| racer.turn).map(|racer| run(racer, 0)));
            return Choices { candidates, left_out: 0, kind: ChoiceKind::InVain };
        };
        let goes_on = self.taken.last().is_some_and(|last| last.turn.client == usual);
        let overtaken = self.overtaken();
        for entry in &movable {
            let (client, racer, command) = *entry;
            let cost = match client == usual {
                true => 0,
                false if Some(client) == overtaken => 0,
                false if goes_on => COST_OF_PREEMPTION,
                false => COST_OF_ANOTHER,
            };
            let candidate = run(entry, cost);
            let chaos = |action, footprint| Candidate {
                choice: Choice { client, action },
                footprint,
                cost: cost + COST_OF_CHAOS,
                ..candidate.clone()
            };
            let lost = (command.writes && self.chaos.allows(Action::LostReply))
                .then(|| chaos(Action::LostReply, candidate.footprint.clone()));
            // The death of another client is as good when it is its turn anyway, and before its first write it is as
            // if it had never come.
            let is_next = client == usual && racer.has_written;
            let has_company = self.racers.iter().any(|other| !other.is_gone && other.client != racer.client);
            let crash =
                (is_next && self.chaos.allows(Action::Crash)).then(|| chaos(Action::Crash, Footprint::default()));
            let pause = (is_next && has_company && self.chaos.allows(Action::Pause))
                .then(|| chaos(Action::Pause, Footprint::everything()));
            let at = if client == usual { 0 } else { candidates.len() };
            candidates.insert(at, candidate);
            candidates.extend(lost.into_iter().chain(crash).chain(pause));
        }
        candidates.extend(may_expire.then(|| clock(Action::Expiry, COST_OF_CHAOS)));
        candidates.extend(failovers);
        // A replica is read when it is up to date, unless the search says otherwise.
        let reads = movable.iter().find(|(client, ..)| *client == usual).map(|(_, _, command)| command.observes);
        let is_due = |delivery: &Candidate| match (delivery.choice.action, reads) {
            (Action::Replicate(to), Some(Observes::LinkTo(read))) => to == read,
            _ => false,
        };
        if let Some(at) = deliveries.iter().position(is_due) {
            let due = Candidate { cost: 0, ..deliveries.remove(at) };
            candidates.iter_mut().filter(|other| other.cost == 0).for_each(|other| other.cost = COST_OF_ANOTHER);
            candidates.insert(0, due);
        }
        candidates.extend(deliveries);
        let left_out = held.iter().filter(|(_, racer, command)| !racer.is_paused && is_in_vain(racer, command)).count();
        Choices { candidates, left_out: left_out as u64, kind: ChoiceKind::Usual }
    }

    /// The client that stood still during an expiry or a failover and has had no turn since: it may come back at any moment.
    fn overtaken(&self) -> Option<RacerNumber> {
        let (at, _) = self.taken.iter().enumerate().rev().find(|(_, record)| record.lets_others_go_on())?;
        let (before, since) = self.taken.split_at(at);
        let client = before.iter().rev().map(|record| record.turn.client).find(|client| *client > 0)?;
        since.iter().all(|record| record.turn.client != client).then_some(client)
    }

    /// The client that goes on as usual: the one that had the last turn. After an expiry or a failover it is the next one, as if
    /// the last one had stood still.
    fn usual(&self, movable: &[(RacerNumber, &Racer, &RacingCommand)]) -> Option<RacerNumber> {
        let first = movable.first()?.0;
        let last = self.taken.iter().rev().map(|record| record.turn.client).find(|client| *client > 0).unwrap_or(0);
        let lets_others_go_on = self.taken.last().is_some_and(TakenTurn::lets_others_go_on);
        if !lets_others_go_on && movable.iter().any(|(client, ..)| *client == last) {
            return Some(last);
        }
        let next = movable.iter().map(|(client, ..)| *client).find(|client| *client > last);
        Some(if lets_others_go_on { next.unwrap_or(first) } else { first })
    }

    /// Gives a turn.
    fn take(
        &mut self,
        place: Option<usize>,
        choice: Choice,
        deadlines: impl Fn() -> Option<Deadlines>,
        links: impl Fn() -> HeldLinks,
        clock: &Arc<Clock>,
    ) -> NextTurn {
        let Choice { client, action } = choice;
        let turn = Turn { joining: std::mem::take(&mut self.joining), client, action };
        self.chaos.spend(action);
        let replicated = match action {
            Action::Replicate(to) => Some((TurnEvent::Replicate(to), delivery_to(to))),
            Action::Failover { to, losing } => Some((TurnEvent::FailOver { to, losing }, Footprint::everything())),
            Action::Run | Action::LostReply | Action::Crash | Action::Pause | Action::Expiry | Action::TimePasses => {
                None
            }
        };
        if let Some((event, touched)) = replicated {
            let links = links();
            let mut said = links.describe(action);
            for racer in
                self.racers.iter_mut().filter(|racer| matches!(action, Action::Failover { .. }) && !racer.is_gone)
            {
                match links.keeps_address {
                    true => {
                        racer.meet_another_master(clock).iter().for_each(|what| said.push_str(&format!("; {what}")))
                    }
                    // Its connection is closed.
                    false => racer.may_return = true,
                }
            }
            self.taken.push(TakenTurn { event: Some(said), ..TakenTurn::of(turn) });
            self.note_change(&touched);
            self.is_running = true;
            return NextTurn::Event(event, self.id);
        }
        let Some(place) = place else {
            let Some(deadlines) = deadlines() else { return NextTurn::Wait(None) };
            let key = deadlines.key.as_ref().map(|(until, _)| *until);
            let wait = deadlines.wait.filter(|_| action == Action::TimePasses || key.is_none());
            let Some(to) = key.into_iter().chain(wait).min() else { return NextTurn::Wait(None) };
            let by = Duration::from_millis(to.saturating_sub(deadlines.now).max(0).unsigned_abs());
            let expired = deadlines.key.filter(|(until, _)| *until == to);
            let what = expired.map(|(_, key)| format!(": {} expires", line_of(&[key]))).unwrap_or_default();
            let event = format!("(the clock goes on by {}{what})", spell_duration(by));
            self.taken.push(TakenTurn { event: Some(event), ..TakenTurn::of(turn) });
            self.note_change(&Footprint::everything());
            self.is_running = true;
            return NextTurn::Event(TurnEvent::MoveClock(to), self.id);
        };
        let number_of_turns = self.taken.len();
        let is_name_of_one =
            |name: &[u8], racers: &[Racer]| racers.iter().filter(|racer| racer.name == name).count() == 1;
        let is_known_by_name = is_name_of_one(&self.racers[place].name, &self.racers);
        let racer = &mut self.racers[place];
        if action == Action::Pause {
            let Some((_, command)) = &racer.held else { return NextTurn::Wait(None) };
            let ParkedCommand { client_name: name, words, .. } = command.parked.clone();
            racer.is_paused = true;
            self.taken.push(TakenTurn { name, words, ..TakenTurn::of(turn) });
            self.is_running = true;
            return NextTurn::Granted;
        }
        let Some((queue, command)) = racer.held.take() else { return NextTurn::Wait(None) };
        racer.turn = Some(number_of_turns);
        racer.fate = action;
        racer.is_paused = false;
        racer.may_return = action == Action::LostReply;
        racer.is_dead = action == Action::Crash && is_known_by_name;
        racer.polls.begin(&command);
        (racer.touched, racer.observes) = (command.footprint, command.observes);
        let ParkedCommand { client_name: name, words, .. } = command.parked;
        self.taken.push(TakenTurn { name, words, ..TakenTurn::of(turn) });
        self.is_running = true;
        // If the client has just left, its turn has no effect.
        queue.release_next(clock);
        NextTurn::Granted
    }
}

/// A choice at random: in one of four turns something else than a command, if that may be.
fn draw(generator: &mut u64, candidates: &[Candidate]) -> Option<Choice> {
    let (usual, chaos): (Vec<_>, Vec<_>) =
        candidates.iter().map(|candidate| candidate.choice).partition(|choice| choice.action == Action::Run);
    let mut drawn = random::next(generator);
    let mut from = if usual.is_empty() { &chaos } else { &usual };
    if !usual.is_empty() && !chaos.is_empty() {
        if drawn.is_multiple_of(4) {
            from = &chaos;
        }
        drawn = random::next(generator);
    }
    from.get((drawn % (from.len().max(1) as u64)) as usize).copied()
}

impl From<Turn> for Choice {
    fn from(turn: Turn) -> Self {
        Self { client: turn.client, action: turn.action }
    }
}
