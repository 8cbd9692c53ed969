//! The explorer's part in a command: its wait for a turn, and the task that gives turns.

use std::future::{Future, poll_fn};
use std::sync::{Arc, Weak};
use std::task::Poll;

use super::{Engine, is_exec, keys, transaction};
use crate::base::clock::{Clock, Pace};
use crate::base::error::CommandError;
use crate::clients::session::Session;
use crate::powers::{
    Action, ClientOf, Footprint, Hold, Hook, NextTurn, Observes, Permit, RacingCommand, Rule, TurnEvent, Verdict,
};
use crate::protocol::Words;
use crate::spec::{CommandKind, CommandSpec, Flag, Group, TransactionCommand};

/// What the journal calls what happens to commands in an exploration.
const LOST_REPLY: &str = "lost-reply";
const CRASH: &str = "crash";

impl Engine {
    /// Parks a command until its turn, if an exploration is running. The connection of a client that counts as dead is
    /// closed instead.
    pub(super) fn hold_for_turn(
        &self,
        session: &mut Session,
        spec: &'static CommandSpec,
        words: Words<'_>,
    ) -> Option<Permit> {
        if session.in_flight.hooks.as_ref().is_none_or(|hooks| hooks.is_explored)
            || !self.instance.active_hooks.has(Hook::Explore)
            || !self.is_authenticated(session)
            || !matters(session, spec)
        {
            return None;
        }
        let mut footprint = self.footprint(session, spec, words);
        let writes = footprint.writes();
        let observes = self.observes(session, spec);
        if self.instance.control.explorer.has_replicas() && footprint != Footprint::default() {
            footprint.add_link(self.instance.number, false);
        }
        let (parked, instance) = (self.parked_command(session, words), self.instance.number);
        let command = RacingCommand { parked, name: spec.name, footprint, writes, instance, observes };
        let hold = self.instance.control.explorer.hold(command);
        let hooks = session.in_flight.hooks.as_mut()?;
        match hold {
            Hold::Pass => None,
            Hold::PassBeside => {
                if self.instance.is_replica() {
                    self.let_links_catch_up();
                }
                None
            }
            Hold::Park(permit) => {
                hooks.is_explored = true;
                Some(permit)
            }
            Hold::Refuse => {
                hooks.rule = Some(Rule::of_one_command(CRASH, Verdict::CloseBefore));
                None
            }
        }
    }

    /// Sets what the explorer does to a command beside giving it its turn.
    pub(super) fn meet_fate(&self, session: &mut Session) {
        let client = self.client_of(session);
        let Some(hooks) = session.in_flight.hooks.as_mut().filter(|hooks| hooks.is_explored) else { return };
        let rule = match self.instance.control.explorer.take_fate(client) {
            Action::LostReply => Rule::of_one_command(LOST_REPLY, Verdict::CloseAfter),
            Action::Crash => Rule::of_one_command(CRASH, Verdict::CloseBefore),
            Action::Run
            | Action::Pause
            | Action::Expiry
            | Action::TimePasses
            | Action::Replicate(_)
            | Action::Failover { .. } => return,
        };
        hooks.rule = Some(rule);
    }

    pub(super) fn client_of(&self, session: &Session) -> ClientOf {
        ClientOf { instance: self.instance.number, id: session.client.id() }
    }

    /// Which links to replicas a command can tell apart.
    fn observes(&self, session: &Session, spec: &CommandSpec) -> Observes {
        let asks = |spec: &CommandSpec| matches!(spec.name, "WAIT" | "WAITAOF");
        if self.instance.is_replica() {
            Observes::LinkTo(self.instance.number)
        } else if asks(spec) || is_exec(spec) && session.queued().any(|queued| asks(queued.row.spec)) {
            Observes::EveryLink
        } else {
            Observes::Nothing
        }
    }

    /// The keys that a command may read and write.
    fn footprint(&self, session: &Session, spec: &CommandSpec, words: Words<'_>) -> Footprint {
        // Subscribers to keyspace events observe the order of changes.
        // What a client watches on an upstream server is not known here.
        let watches = self.backend.upstream().is_some() && is_exec(spec);
        if watches || self.instance.keyspace.settings().wants_notifications() {
            return Footprint::everything();
        }
        if !is_exec(spec) {
            return own_footprint(spec, words);
        }
        let mut footprint = Footprint::default();
        session.watching.keys.iter().for_each(|(_, key)| footprint.add_key(key, false));
        for queued in session.queued() {
            footprint.join(&own_footprint(queued.row.spec, queued.words));
        }
        footprint
    }

    /// Removes a disconnected client from the exploration.
    pub(super) fn leave_exploration(&self, session: &Session) {
        if self.instance.active_hooks.has(Hook::Explore) {
            self.instance.control.explorer.client_left(self.client_of(session));
        }
    }

    /// Resets the server, and begins the next chosen run.
    pub(super) async fn begin_run(self: &Arc<Self>) -> Result<(), CommandError> {
        self.reset_for_run().await?;
        self.arm_run();
        Ok(())
    }

    /// Resets all that is explored.
    pub(super) async fn reset_for_run(&self) -> Result<(), CommandError> {
        for other in self.explored_together().iter().filter(|other| !Arc::ptr_eq(&other.instance, &self.instance)) {
            other.reset_everything().await?;
        }
        self.reset_everything().await
    }

    /// Stops the clock, if it goes on only for the explorer.
    pub(super) fn stop_explored_clock(&self) {
        if self.instance.control.explorer.owns_clock() && self.backend.upstream().is_none() {
            self.instance.clock.set_auto(None);
            self.instance.clock.set_pace(Pace::Frozen);
            let now = self.instance.clock.micros();
            self.each_other_explored(|other| {
                other.instance.clock.set_auto(None);
                other.instance.clock.set_pace(Pace::Frozen);
                other.instance.clock.set(now);
            });
        }
    }

    /// Begins the next chosen run. Must be called on an event loop, which gives the turns from now on.
    pub fn arm_run(self: &Arc<Self>) {
        self.instance.active_hooks.arm(Hook::Explore);
        self.each_other_explored(|other| other.instance.active_hooks.arm(Hook::Explore));
        self.stop_explored_clock();
        if !self.instance.control.explorer.arm() {
            // The exploration was stopped during the reset.
            self.end_exploration();
        }
        if self.instance.control.explorer.claim_scheduling() {
            tokio::spawn(give_turns(Arc::downgrade(self)));
        }
    }

    /// The exploration was stopped: the clients of all instances go on without it.
    pub fn end_exploration(&self) {
        self.instance.active_hooks.disarm(Hook::Explore);
        if !self.instance.control.explorer.has_replicas() {
            return;
        }
        self.instance.heal_links();
        self.each_other_explored(|other| {
            other.instance.active_hooks.disarm(Hook::Explore);
            other.instance.clock.set_pace(Pace::Speed(1.0));
            other.instance.heal_links();
        });
        self.bring_replicas_up_to_date();
    }
}

/// Gives turns for as long as the exploration and the server exist.
async fn give_turns(engine: Weak<Engine>) {
    loop {
        let mut time = None;
        let went = poll_fn(|cx| {
            loop {
                let Some(engine) = engine.upgrade() else { return Poll::Ready(None) };
                match engine.look(cx.waker()) {
                    NextTurn::Granted => return Poll::Ready(Some((engine, None))),
                    NextTurn::Event(event, run) => return Poll::Ready(Some((engine, Some((event, run))))),
                    NextTurn::Over => return Poll::Ready(None),
                    NextTurn::Wait(None) => return Poll::Pending,
                    NextTurn::Wait(Some(duration)) => {
                        let time = time.insert(Box::pin(Clock::sleep(duration)));
                        if time.as_mut().poll(cx).is_pending() {
                            return Poll::Pending;
                        }
                    }
                }
            }
        });
        let Some((engine, event)) = went.await else { return };
        match event {
            Some((TurnEvent::MoveClock(to), run)) => engine.move_clocks_in_run(to, run).await,
            Some((event, run)) => engine.treat_links_in_run(event, run).await,
            None => {}
        }
        engine.wait_for_explored().await;
        engine.instance.control.explorer.turn_is_over();
    }
}

/// Whether the position of a command in the order can matter. It cannot for a command that concerns only its own
/// connection, is only queued, or reads about the server.
fn matters(session: &Session, spec: &CommandSpec) -> bool {
    if session.transaction.is_some() && transaction::is_queued(spec) {
        return false;
    }
    match spec.group {
        Group::Connection | Group::Control => false,
        Group::Server => spec.has_flag(Flag::Write),
        Group::Transactions => {
            is_exec(spec) || matches!(spec.kind, CommandKind::Transaction(TransactionCommand::Watch))
        }
        _ => true,
    }
}

fn own_footprint(spec: &CommandSpec, words: Words<'_>) -> Footprint {
    let reads_only = spec.has_flag(Flag::ReadOnly);
    let names_its_keys = match spec.kind {
        CommandKind::Keys | CommandKind::Blocking | CommandKind::Database | CommandKind::Everything => {
            !spec.computes_keys(words)
        }
        CommandKind::Transaction(TransactionCommand::Watch) => true,
        // A script may access more keys than it names.
        _ => false,
    };
    if !names_its_keys {
        return Footprint::everything();
    }
    let is_written = !reads_only && !matches!(spec.kind, CommandKind::Transaction(_));
    let mut footprint = Footprint::default();
    keys(spec, words).for_each(|key| footprint.add_key(key, is_written));
    if footprint != Footprint::default() {
        footprint
    } else if reads_only {
        Footprint::whole_view()
    } else {
        Footprint::everything()
    }
}
