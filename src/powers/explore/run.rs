//! One run of a test whose clients race: which commands are held, which one runs next, and what has run so far.

use std::sync::Arc;
use std::time::Duration;

use super::footprint::Footprint;
use super::reply_summary::summarize;
use super::token::{MOST_CLIENTS, MOST_TURNS, Order, RacerNumber, Turn};
use super::tree::{Candidate, Tree};
use crate::base::clock::{Clock, Stopwatch};
use crate::base::random;
use crate::powers::line::line_of;
use crate::powers::wait_queue::{ParkedCommand, Permit, WaitQueue};

/// A command that is held until its turn.
pub struct RacingCommand {
    pub parked: ParkedCommand,
    pub name: &'static str,
    pub footprint: Footprint,
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

/// What the scheduler does next.
pub enum NextTurn {
    /// A command was released. Its turn is over when the clock has settled.
    Granted,
    /// Wait for an event, or for this much real time.
    Wait(Option<Duration>),
    /// The exploration has ended.
    Over,
}

/// The least time that a planned turn waits for its client. It is waited in full only if the test strays from its plan.
const LEAST_WAIT: Duration = Duration::from_secs(2);

/// A client that races.
struct Racer {
    client: u64,
    name: Vec<u8>,
    number: Option<RacerNumber>,
    held: Option<(Arc<WaitQueue>, RacingCommand)>,
    /// The footprint of its last command, which counts while that command blocks.
    touched: Footprint,
    /// The index of its last turn in `taken`.
    turn: Option<usize>,
    is_gone: bool,
}

/// A turn that was taken.
struct TakenTurn {
    turn: Turn,
    name: Vec<u8>,
    words: Vec<Vec<u8>>,
    reply: Option<String>,
}

/// How the turns after the planned ones are given.
#[derive(Clone, Copy, Debug)]
pub enum TurnPolicy {
    /// By the tree.
    Tree,
    /// At random; the value is the generator's state.
    Random(u64),
    /// To the client that had the last turn, as long as it is held.
    SameClient,
}

pub struct Run {
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

impl Run {
    pub fn new(plan: Order, policy: TurnPolicy, settle: Duration, expected: usize) -> Self {
        Self {
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
        let who = |record: &TakenTurn| match record.name.as_slice() {
            b"" => format!("client {}", record.turn.client),
            name => name.escape_ascii().to_string(),
        };
        let widest = self.taken.iter().map(|record| who(record).len()).max().unwrap_or(0);
        let line = |(index, record): (usize, &TakenTurn)| {
            let words = line_of(&record.words);
            let reply = record.reply.as_deref().unwrap_or("(no reply)");
            format!("{:>3}. {:widest$}  {words}  -> {reply}", index + 1, who(record))
        };
        self.taken.iter().enumerate().map(line).collect()
    }

    /// Holds a command until its turn; `None` if it may run at once.
    pub fn hold(&mut self, command: RacingCommand) -> Option<Permit> {
        if self.taken.len() >= MOST_TURNS {
            self.is_too_long = true;
            return None;
        }
        let ParkedCommand { client, client_name: name, .. } = &command.parked;
        // A client that reconnects under the name of one that has left counts as that one.
        let place =
            self.racers.iter().position(|racer| racer.client == *client).or_else(|| {
                self.racers.iter().position(|racer| racer.is_gone && !name.is_empty() && racer.name == *name)
            });
        let place = match place {
            Some(place) => place,
            None if self.racers.len() >= MOST_CLIENTS => {
                self.is_too_long = true;
                return None;
            }
            None => {
                self.racers.push(Racer {
                    client: *client,
                    name: Vec::new(),
                    number: None,
                    held: None,
                    touched: Footprint::default(),
                    turn: None,
                    is_gone: false,
                });
                self.racers.len() - 1
            }
        };
        let queue: Arc<WaitQueue> = Arc::default();
        let permit = queue.park(command.parked.clone());
        let racer = &mut self.racers[place];
        racer.client = *client;
        racer.name.clone_from(name);
        racer.is_gone = false;
        racer.held = Some((queue, command));
        self.quiet_since = Stopwatch::start();
        permit
    }

    /// Whether any command is held.
    pub fn holds_any(&self) -> bool {
        self.racers.iter().any(|racer| racer.held.is_some())
    }

    /// Keeps the reply to a client's last command.
    pub fn record_reply(&mut self, client: u64, reply: &[u8]) {
        let racer = self.racers.iter().find(|racer| racer.client == client);
        if let Some(record) = racer.and_then(|racer| racer.turn).and_then(|turn| self.taken.get_mut(turn))
            && record.reply.is_none()
        {
            record.reply = Some(summarize(reply));
        }
    }

    pub fn client_left(&mut self, client: u64) {
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

    /// Releases every held command.
    pub fn free_all(&mut self, clock: &Arc<Clock>) {
        for (queue, _) in self.racers.iter_mut().filter_map(|racer| racer.held.take()) {
            queue.open(clock);
        }
    }

    /// Releases the next command, if it is time for that.
    pub fn next_turn(&mut self, tree: &mut Tree, state: impl Fn(u64) -> RacerState, clock: &Arc<Clock>) -> NextTurn {
        if self.is_running {
            return NextTurn::Wait(None);
        }
        let state = |racer: &Racer| if racer.is_gone { RacerState::Gone } else { state(racer.client) };
        let turn = self.taken.len();
        if let Some(planned) = self.plan.get(turn).copied() {
            match self.find_planned(planned, tree.planned(turn), state) {
                Ok(place) => {
                    if matches!(self.policy, TurnPolicy::Tree) {
                        tree.widen(turn, self.candidates(state));
                    }
                    return self.release(place, planned.client, clock);
                }
                Err(Some(left)) => return NextTurn::Wait(Some(left)),
                Err(None) => {
                    self.plan.truncate(turn);
                    tree.cut(turn);
                }
            }
        }
        if !self.holds_any() {
            return NextTurn::Wait(None);
        }
        let is_accounted = |racer: &Racer| racer.held.is_some() || state(racer) != RacerState::Idle;
        let knows_all = self.expected > 0 && self.racers.len() >= self.expected;
        if !knows_all || !self.racers.iter().all(is_accounted) {
            let left = self.settle.saturating_sub(self.quiet_since.elapsed());
            if !left.is_zero() {
                return NextTurn::Wait(Some(left));
            }
        }
        self.number_newcomers(usize::MAX);
        let candidates = self.candidates(state);
        let last = self.taken.last().map(|record| record.turn.client);
        let same = last.filter(|last| candidates.iter().any(|candidate| candidate.client == *last));
        let usual = same.or_else(|| candidates.first().map(|candidate| candidate.client)).unwrap_or_default();
        let client = match &mut self.policy {
            TurnPolicy::Tree if !self.is_redundant => tree.grow(self.joining, candidates, same).unwrap_or_else(|| {
                self.is_redundant = true;
                usual
            }),
            TurnPolicy::Random(generator) => {
                let drawn = random::next(generator) % (candidates.len().max(1) as u64);
                candidates.get(drawn as usize).map_or(usual, |candidate| candidate.client)
            }
            TurnPolicy::Tree | TurnPolicy::SameClient => usual,
        };
        let place = self.racers.iter().position(|racer| racer.number == Some(client));
        match place {
            Some(place) => self.release(place, client, clock),
            None => NextTurn::Wait(None),
        }
    }

    /// The index of the racer whose turn is planned. The error says how long to wait for it; `None`: it will not come.
    fn find_planned(
        &mut self,
        planned: Turn,
        command: Option<&'static str>,
        state: impl Fn(&Racer) -> RacerState,
    ) -> Result<usize, Option<Duration>> {
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
        let place = self.racers.iter().position(|racer| racer.number == Some(planned.client));
        let Some((place, racer)) = place.and_then(|place| Some((place, self.racers.get(place)?))) else {
            self.note_stray(format!("turn {turn}: there is no client {}", planned.client));
            return Err(None);
        };
        let said = match (&racer.held, command, state(racer)) {
            (Some((_, held)), Some(command), _) if held.name != command => {
                format!("sends {} and not {command}", held.name)
            }
            (Some(_), ..) => return Ok(place),
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

    /// The commands that could have the next turn, by the numbers of their clients. A command that unblocks another one
    /// has the footprint of both.
    fn candidates(&self, state: impl Fn(&Racer) -> RacerState) -> Vec<Candidate> {
        let waiting = |racer: &&Racer| racer.held.is_none() && state(racer) == RacerState::Blocked;
        let waiting: Vec<&Footprint> = self.racers.iter().filter(waiting).map(|racer| &racer.touched).collect();
        let candidate = |racer: &Racer| {
            let (client, (_, command)) = (racer.number?, racer.held.as_ref()?);
            let mut footprint = command.footprint.clone();
            // The command that it unblocks may unblock the next one.
            for _ in 0..waiting.len() {
                for other in &waiting {
                    if !other.commutes_with(&footprint) {
                        footprint.join(other);
                    }
                }
            }
            Some(Candidate { client, command: command.name, footprint })
        };
        let mut candidates: Vec<Candidate> = self.racers.iter().filter_map(candidate).collect();
        candidates.sort_by_key(|candidate| candidate.client);
        candidates
    }

    fn release(&mut self, place: usize, client: RacerNumber, clock: &Arc<Clock>) -> NextTurn {
        let Some((racer, (queue, command))) =
            self.racers.get_mut(place).and_then(|racer| racer.held.take().map(|held| (racer, held)))
        else {
            return NextTurn::Wait(None);
        };
        racer.turn = Some(self.taken.len());
        racer.touched = command.footprint;
        let turn = Turn { joining: std::mem::take(&mut self.joining), client };
        let ParkedCommand { client_name, words, .. } = command.parked;
        self.taken.push(TakenTurn { turn, name: client_name, words, reply: None });
        self.is_running = true;
        // If the client has just left, its turn has no effect.
        queue.release_next(clock);
        NextTurn::Granted
    }
}
