//! The states of all rules, and the order in which the rules see an event.

use std::sync::Arc;

use super::acknowledgement;
use super::clocks::{self, ClocksState};
use super::ending::{self, EndingState};
use super::expiry::{self, ExpiryState};
use super::failover::{self, FailoverState, GlobalFailoverState, LostHold, Replacement};
use super::lateness::{self, LatenessState};
use super::order::{self, GlobalOrderState, OrderState, WaitCommand};
use super::ownership::{self, OwnershipState};
use super::redlock::{self, AttemptName, GlobalRedlockState, NotedAnswer};
use super::renewal::{self, RenewalState};
use super::tokens::{self, TokensState};
use super::waiting::{self, WaitingState};
use crate::insight::audit::client_identity::ClientIdentity;
use crate::insight::audit::client_state::ClientStates;
use crate::insight::audit::finding::JournalRef;
use crate::insight::audit::line_form::NotedCommand;
use crate::insight::audit::lock::{Hold, LockId, LockKey};
use crate::insight::audit::lock_event::LockEvent;
use crate::insight::audit::rule_context::RuleContext;
use crate::insight::audit::timestamp::Timestamp;

/// What the rules remember of one lock.
#[derive(Clone, Default)]
pub struct RuleState {
    ownership: OwnershipState,
    lateness: LatenessState,
    expiry: ExpiryState,
    clocks: ClocksState,
    tokens: TokensState,
    ending: EndingState,
    waiting: WaitingState,
    renewal: RenewalState,
    order: OrderState,
    failover: FailoverState,
}

/// What the rules remember of a lock to which nothing has happened since one client took it.
#[derive(Clone)]
pub struct RestingRules {
    /// It was taken with a token that can be used a second time.
    pub has_token: bool,
    /// It was taken without an expiry.
    pub is_endless: bool,
    /// Its token is the time at which it ends.
    pub is_timed: bool,
    /// It is not told yet that others can guess the token.
    pub has_guess: bool,
}

impl RestingRules {
    /// What is remembered when a client takes a lock that is known for nothing but its name, at this time on the server's clock and in
    /// reality; `None` if there may be more to tell than that others can guess the token.
    pub fn of_taking(token: &[u8], deadline: Option<i64>, (at, real): (i64, i64)) -> Option<Self> {
        let is_usual = deadline.is_none_or(|deadline| expiry::is_usual(deadline - at.div_euclid(1000)));
        let is_timed = deadline.is_none() && Timestamp::to_come(token, at, real).is_some();
        let has_guess = !is_timed && tokens::is_guessable(token, false, deadline.is_some(), (at, real));
        (is_usual && deadline != Some(0)).then_some(Self {
            has_token: !is_timed,
            is_endless: deadline.is_none() && !is_timed,
            is_timed,
            has_guess,
        })
    }
}

impl RuleState {
    /// What is remembered of a lock that has this one hold, if that can be told in short.
    pub fn at_rest(&self, hold: &Hold) -> Option<RestingRules> {
        let Self { ownership, lateness, expiry, clocks, tokens, ending, waiting, renewal, order, failover } = self;
        let is_initial = ownership.is_initial()
            && lateness.is_initial()
            && ending.is_initial()
            && waiting.is_initial()
            && renewal.is_initial()
            && order.is_initial()
            && failover.is_initial();
        let (has_token, is_endless, is_timed) = (tokens.at_rest(hold)?, expiry.at_rest(hold)?, clocks.at_rest(hold)?);
        is_initial.then_some(RestingRules { has_token, is_endless, is_timed, has_guess: false })
    }

    /// Reads each state, so that its memory is fetched. What it returns means nothing.
    pub fn touch(&self) -> usize {
        let Self { ownership, lateness, expiry: _, clocks, tokens, ending, waiting, renewal, order, failover } = self;
        let first = [ownership.is_initial(), lateness.is_initial(), clocks.is_initial(), ending.is_initial()];
        let second = [waiting.is_initial(), renewal.is_initial(), order.is_initial(), failover.is_initial()];
        first.into_iter().chain(second).map(usize::from).sum::<usize>() ^ tokens.touch()
    }

    /// Notes that a client is refused while it holds another lock; what `order.rs` is told of a refusal that is postponed.
    pub fn note_refused_holder(&mut self, client: (u16, u64), source: &Arc<JournalRef>, work: u64) {
        self.order.note_refused(client, source, work);
    }

    pub fn of_resting(resting: &RestingRules, hold: &Hold) -> Self {
        let tokens = TokensState::of_resting(resting.has_token, hold);
        let (expiry, clocks) = (ExpiryState::of_resting(resting.is_endless, hold), ClocksState::of_resting(hold));
        Self { tokens, expiry, clocks, ..Self::default() }
    }
}

/// What the rules remember beyond one lock.
#[derive(Clone, Default)]
pub struct GlobalRuleState {
    redlock: GlobalRedlockState,
    failover: GlobalFailoverState,
    order: GlobalOrderState,
}

impl GlobalRuleState {
    /// Notes by how many microseconds a server's clock is ahead of real time at its first line.
    pub fn note_clock(&mut self, server: u16, ahead: i64) {
        self.redlock.note_clock(server, ahead);
    }

    /// Notes that a client waits for a lock while it holds another one, and was refused again. Returns whether it was known to wait.
    pub fn wait_longer(
        &mut self,
        client: &ClientIdentity,
        id: &LockId,
        last: impl FnOnce() -> WaitCommand,
        work: u64,
    ) -> bool {
        self.order.wait_longer(client, id, last, work)
    }

    /// Notes that a client waits for a lock while it holds another one: see `order.rs`.
    pub fn note_wait(
        &mut self,
        client: &ClientIdentity,
        id: &Arc<LockId>,
        held_by: (ClientIdentity, WaitCommand),
        attempts: [(WaitCommand, u64); 2],
    ) {
        self.order.note_wait(client, id, held_by, attempts);
    }

    /// Whether something is to be told of clients that wait for each other, among them this one for this lock.
    pub fn has_circle(&self, clients: &ClientStates, client: &ClientIdentity, id: &LockId, now: (i64, i64)) -> bool {
        self.order.has_circle(clients, client, id, now)
    }

    /// Tells of clients that wait for each other, if the one that acts is among them.
    pub fn tell_circle(&mut self, context: &mut RuleContext<'_>) {
        order::tell_circle(context, &mut self.order);
    }

    /// Notes what a server has answered to a client that asks for a lock with a token, which may be that of an attempt to get it from
    /// several servers.
    pub fn note_asked(&mut self, id: &LockId, token: &[u8], answer: NotedAnswer) {
        self.redlock.note_asked(id, token, answer);
    }

    /// Whether nothing is to be told of an attempt when one server gets back what it has given with this token.
    pub fn is_alone(&self, id: &LockId, token: &[u8]) -> bool {
        self.redlock.is_alone(id, token)
    }

    /// Notes that a client extends a lock that the only server which it has asked has given it with this token.
    pub fn note_used(&mut self, id: &LockId, token: &[u8], command: &NotedCommand) {
        self.redlock.note_used(id, token, command);
    }

    /// Notes that the only server that a client has asked for a lock with this token gets it back.
    pub fn note_given_back(&mut self, key: &[u8], token: &[u8]) {
        self.redlock.note_given_back(key, token);
    }

    /// Notes that the connection has ended over which a client has got a lock with this token.
    pub fn note_left(&mut self, id: &LockId, token: &[u8]) {
        self.redlock.note_out_of_reach(id, token);
        self.order.forget(id);
    }

    /// Whether somebody has asked for a lock with this token.
    pub fn was_asked(&self, key: &[u8], token: &[u8]) -> bool {
        self.redlock.was_asked(key, token)
    }

    /// Notes a command that asked for a key and never ran.
    pub fn note_unanswered(&mut self, key: &[u8]) {
        self.redlock.note_unanswered(key);
    }

    /// Notes that a node is master now; `server` is the one whose journal says so.
    pub fn note_promotion(&mut self, server: u16, node: &str) {
        self.failover.note_promotion(server, node);
        self.note_successors();
    }

    /// Notes a hold that the node in its master's place has not got. Returns the server of that node, if it is known.
    pub fn note_loss(&mut self, lost: LostHold) -> Option<u16> {
        self.failover.note_loss(lost)
    }

    /// Whether holds are known that the node in their master's place has not got.
    pub fn has_losses(&self) -> bool {
        self.failover.has_losses()
    }

    /// Notes that another node is master in a server's place.
    pub fn note_replacement(&mut self, replaced: Replacement) {
        self.failover.note_replacement(replaced);
        self.note_successors();
    }

    /// A promotion stands in one journal, and that the former master was replaced in another one.
    fn note_successors(&mut self) {
        for replaced in self.failover.replacements() {
            if let Some(server) = self.failover.server_of(&replaced.successor) {
                self.redlock.note_successor(server, replaced.server);
            }
        }
    }

    /// The servers in whose place another node is master.
    pub fn replacements(&self) -> &[Replacement] {
        self.failover.replacements()
    }

    /// The server that is the node with this name, if that was promoted.
    pub fn server_of(&self, node: &str) -> Option<u16> {
        self.failover.server_of(node)
    }

    /// Notes that a client counts on a lock no more that it has got with this token.
    pub fn note_given_up(&mut self, key: &[u8], token: &[u8]) {
        self.failover.note_given_up(key, token);
    }

    /// The attempt to get a key with this token, if locks may lie on several servers.
    pub fn attempt(&self, key: &[u8], token: &[u8]) -> Option<AttemptName> {
        self.redlock.attempt(key, token)
    }

    /// Notes that the client of an attempt to get a lock writes another key, of which `hash` is known.
    pub fn note_write(
        &mut self,
        attempt: (&LockKey, AttemptName),
        written: (u64, &[u8]),
        by: &ClientIdentity,
        source: Arc<JournalRef>,
    ) {
        self.redlock.note_write(attempt, written, by, source);
    }
}

/// Shows an event to all rules. A rule that reads another one's state comes before it.
pub fn observe(
    context: &mut RuleContext<'_>,
    state: &mut RuleState,
    global: &mut GlobalRuleState,
    event: &LockEvent<'_>,
) {
    ownership::observe(context, &mut state.ownership, event);
    lateness::observe(context, &mut state.lateness, event);
    expiry::observe(context, &mut state.expiry, event);
    clocks::observe(context, &mut state.clocks, event);
    tokens::observe(context, &mut state.tokens, event);
    ending::observe(context, &mut state.ending, &state.renewal, event);
    renewal::observe(context, &mut state.renewal, event);
    waiting::observe(context, &mut state.waiting, event);
    order::observe(context, &mut state.order, &mut global.order, event);
    failover::observe(context, &mut state.failover, event);
    failover::observe_others(context, &mut global.failover, &global.redlock, event);
    redlock::observe(context, &mut global.redlock, event);
    acknowledgement::observe(context, &global.redlock, event);
}
