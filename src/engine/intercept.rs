//! The slow path of a command: past gates, fault rules, the explorer and the journal.
//!
//! [`Engine::proceed`] is the whole of it. No command waits while it holds a lock. One parked before its run stays in the
//! input buffer, and its request is framed again; one parked after its run keeps its reply in its [`Wait`]. Commands of
//! the test powers never come here, so that a test cannot lock itself out.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;

use super::{Engine, Fibers, Resolved, Turn, is_exec, keys, transaction};
use crate::base::clock::Millis;
use crate::base::error::CommandError;
use crate::clients::fleet::LinkOrder;
use crate::clients::session::{Flow, Hooks, Session, Stage, Wait};
use crate::powers::{CommandInfo, Hook, ParkedCommand, Permit, Rule, Verdict, WaitQueue};
use crate::protocol::{Reply, Words};
use crate::spec::{CommandSpec, Flag, Group, Redaction};

/// A complete request, with its row if it names a command.
pub(super) struct Request<'w> {
    pub resolved: Result<Resolved, CommandError>,
    pub words: Words<'w>,
}

impl Request<'_> {
    fn row(&self) -> Option<&'static CommandSpec> {
        self.resolved.as_ref().ok().map(|resolved| resolved.row.spec)
    }
}

/// The result of a command that has run: its reply is the output from `start` on.
pub(super) struct Ran {
    pub start: usize,
    pub flow: Flow,
}

impl Engine {
    /// Runs a request on the slow path.
    #[cold]
    pub fn intercept(
        self: &Arc<Self>,
        session: &mut Box<Session>,
        resolved: Result<Resolved, CommandError>,
        words: Words<'_>,
        out: &mut Vec<u8>,
        fibers: &mut Fibers,
    ) -> Flow {
        let request = Request { resolved, words };
        if request.row().is_some_and(|row| row.group == Group::Control) {
            self.flush_staging(session);
            return self.process_command(session, request.resolved, words, out, fibers);
        }
        self.open_trace(session, words);
        if let Some(permit) = self.hold_if_paused(session, words) {
            return Flow::Wait(Box::new(Wait::ParkedRequest(permit)));
        }
        let ran = Ran { start: out.len(), flow: Flow::Continue };
        self.proceed(session, Some(request), ran, out, fibers)
    }

    /// Takes a command from its stage as far as possible: to its end, or to a stage at which it waits. Returns the
    /// connection's flow.
    ///
    /// Called with the request of a command that has not run yet, each time it is framed; and without one when a wait
    /// has ended. A command parked before its run then continues when the connection frames its request again.
    pub(super) fn proceed(
        self: &Arc<Self>,
        session: &mut Box<Session>,
        mut request: Option<Request<'_>>,
        mut ran: Ran,
        out: &mut Vec<u8>,
        fibers: &mut Fibers,
    ) -> Flow {
        loop {
            match session.in_flight.stage {
                Stage::Arrived => {
                    let Some(request) = &request else { return ran.flow };
                    let row = request.row();
                    let met = row.filter(|row| self.can_meet_hooks(session, row));
                    let (hooks, stage) = match met {
                        Some(row) => self.find_hooks(session, row, request.words),
                        None => (Hooks::default(), Stage::Judged),
                    };
                    if hooks.is_empty() && !self.instance.active_hooks.sees_every_command() {
                        session.in_flight.stage = Stage::Running;
                    } else {
                        session.in_flight.stage = stage;
                        session.in_flight.row = row.or(session.in_flight.row);
                        session.in_flight.hooks = Some(Box::new(hooks));
                    }
                }
                Stage::GatesBefore => {
                    let Some(request) = &request else { return ran.flow };
                    if let Some(permit) = self.park_in_front(session, request.words) {
                        return Flow::Wait(Box::new(Wait::ParkedRequest(permit)));
                    }
                    if let (Some(row), Some(mut hooks)) = (request.row(), session.in_flight.hooks.take()) {
                        self.judge(&mut hooks, session, row, request.words);
                        session.in_flight.hooks = Some(hooks);
                    }
                    session.in_flight.stage = Stage::Judged;
                }
                Stage::Judged => {
                    let Some(request) = &request else { return ran.flow };
                    // A rule delays a command only once.
                    session.in_flight.stage = Stage::Turn;
                    if let Some(wait) = self.delay(session, request.words) {
                        return Flow::Wait(Box::new(wait));
                    }
                }
                Stage::Turn => {
                    let Some(request) = &request else { return ran.flow };
                    session.in_flight.stage = Stage::Running;
                    if let Some(row) = request.row()
                        && let Some(permit) = self.hold_for_turn(session, row, request.words)
                    {
                        return Flow::Wait(Box::new(Wait::ParkedRequest(permit)));
                    }
                }
                Stage::Running => {
                    let Some(Request { resolved, words }) = request.take() else { return ran.flow };
                    self.meet_fate(session);
                    let exec = resolved.as_ref().is_ok_and(|resolved| is_exec(resolved.row.spec));
                    ran.start = out.len();
                    ran.flow = match self.verdict_instead(session, exec, out) {
                        Some(flow) => flow,
                        None if self.backend.upstream().is_some() => self.wait_for_upstream(session, words),
                        None => self.process_command(session, resolved, words, out, fibers),
                    };
                    if let Flow::Wait(wait) = ran.flow {
                        if wait.is_before_run() {
                            // It has not run, and must not meet its hooks again.
                            session.in_flight.hooks.get_or_insert_default();
                            session.in_flight.stage = Stage::Turn;
                        }
                        return Flow::Wait(wait);
                    }
                    session.in_flight.stage = Stage::GatesAfter;
                }
                // The end of the wait has written the reply.
                Stage::Blocked => session.in_flight.stage = Stage::GatesAfter,
                Stage::GatesAfter => {
                    if let Some(permit) = self.park_behind(session, ran.start, out) {
                        let reply = out.split_off(ran.start);
                        return Flow::Wait(Box::new(Wait::ParkedReply { permit, reply, then: ran.flow }));
                    }
                    session.in_flight.stage = Stage::Replying;
                }
                Stage::Replying => {
                    let hooks = session.in_flight.hooks.take();
                    self.record_command(session, hooks.as_deref(), out.get(ran.start..).unwrap_or_default(), &ran.flow);
                    session.in_flight.stage = Stage::Done;
                    if let Some(rule) = hooks.and_then(|hooks| hooks.rule) {
                        ran.flow = self.verdict_on_reply(session, &rule, ran.start, ran.flow, out);
                        if matches!(ran.flow, Flow::Wait(_)) {
                            return ran.flow;
                        }
                    }
                }
                Stage::Done => {
                    session.in_flight.stage = Stage::Arrived;
                    return ran.flow;
                }
            }
        }
    }

    /// A command goes to the upstream server next, when it has its turn on its keys.
    fn wait_for_upstream(&self, session: &mut Session, words: Words<'_>) -> Flow {
        let is_queued = session.transaction.is_some();
        let turn = self.take_turn(session, self.table.row_of(words), words, is_queued);
        session.in_flight.trace.is_ordered = turn == Turn::Taken;
        Flow::Wait(Box::new(if turn == Turn::Wait { Wait::KeyTurn } else { Wait::Upstream }))
    }

    /// Parks a command while a fault rule pauses the server.
    fn hold_if_paused(&self, session: &Session, words: Words<'_>) -> Option<Permit> {
        if !self.instance.active_hooks.has(Hook::FaultPause) {
            return None;
        }
        let rule = self.instance.control.faults.pausing_rule()?;
        park_at(&rule.queue, session, self.parked_command(session, words))
    }

    /// Whether a command can meet gates and rules. A queued command meets them with its EXEC, and a refused one does
    /// not run at all.
    fn can_meet_hooks(&self, session: &Session, spec: &CommandSpec) -> bool {
        let active_hooks = &self.instance.active_hooks;
        (active_hooks.has(Hook::Fault) || active_hooks.has(Hook::Gate))
            && (spec.has_flag(Flag::NoAuth) || self.is_authenticated(session))
            && !(session.transaction.is_some() && transaction::is_queued(spec))
    }

    /// Looks up the gates in front of a command's run; if there are none, the other hooks, too. Returns them with the
    /// command's stage.
    fn find_hooks(&self, session: &Session, spec: &'static CommandSpec, words: Words<'_>) -> (Hooks, Stage) {
        let mut hooks = Hooks::default();
        if self.instance.active_hooks.has(Hook::Gate) {
            let name = session.client.labels().name.clone();
            let (arrival, inside) = self.arrivals(session, &name, spec, words);
            let gates = &self.instance.control.gates;
            hooks.gates_before = gates.before(&arrival, &inside, || self.parked_command(session, words));
        }
        if !hooks.gates_before.is_empty() {
            return (hooks, Stage::GatesBefore);
        }
        self.judge(&mut hooks, session, spec, words);
        (hooks, Stage::Judged)
    }

    /// Looks up the rule and the gates behind a command's run. This happens after the gates in front, so that a test
    /// can arm these while it holds the command.
    fn judge(&self, hooks: &mut Hooks, session: &Session, spec: &'static CommandSpec, words: Words<'_>) {
        let control = &self.instance.control;
        let labels = session.client.labels();
        let (arrival, inside) = self.arrivals(session, &labels.name, spec, words);
        hooks.rule = control.faults.first_match(&arrival, &inside);
        if hooks.rule.is_none() && self.backend.upstream().is_some() {
            // The server runs what is queued: an error for it is the answer to EXEC.
            hooks.rule = inside.iter().find_map(|command| control.faults.first_match_inside(command));
        }
        hooks.gates_after = control.gates.after(&arrival, &inside);
        drop((arrival, inside));
        drop(labels);
        if !hooks.gates_after.is_empty() {
            hooks.parked = Some(self.parked_command(session, words));
        }
    }

    /// A command as patterns see it, with the queued commands if it is an EXEC.
    fn arrivals<'a>(
        &self,
        session: &'a Session,
        client_name: &'a [u8],
        spec: &'static CommandSpec,
        words: Words<'a>,
    ) -> (CommandInfo<'a>, Vec<CommandInfo<'a>>) {
        let mut inside: Vec<CommandInfo<'_>> = Vec::new();
        if is_exec(spec) {
            let mut db = session.db;
            for queued in session.queued() {
                let words = queued.words;
                inside.push(CommandInfo { db, ..self.arrival(session, client_name, queued.row.spec, words) });
                let databases = self.instance.keyspace.databases();
                db = transaction::selected_by(queued.row.spec, words, databases).unwrap_or(db);
            }
        }
        (self.arrival(session, client_name, spec, words), inside)
    }

    /// A command as patterns see it.
    pub(super) fn arrival<'a>(
        &self,
        session: &Session,
        client_name: &'a [u8],
        spec: &'static CommandSpec,
        words: Words<'a>,
    ) -> CommandInfo<'a> {
        let container = words.get(0).and_then(|name| self.table.find(name)).filter(|row| !std::ptr::eq(*row, spec));
        CommandInfo {
            container: container.map(|row| row.name),
            name: spec.name,
            keys: keys(spec, words).collect(),
            client: session.client.id(),
            client_name,
            db: session.db,
            node: session.node.as_ref().map(|node| node.snapshot()),
        }
    }

    /// Takes a command through the gates in front of its run, until one parks it.
    fn park_in_front(&self, session: &mut Session, words: Words<'_>) -> Option<Permit> {
        let mut hooks = session.in_flight.hooks.take()?;
        let mut parked = None;
        while parked.is_none()
            && let Some(gate) = hooks.gates_before.pop_front()
        {
            hooks.gates_met.push(gate.name.as_str().into());
            parked = park_at(&gate.queue, session, self.parked_command(session, words));
        }
        session.in_flight.hooks = Some(hooks);
        parked
    }

    /// Parks a command whose rule hangs or delays it.
    fn delay(&self, session: &mut Session, words: Words<'_>) -> Option<Wait> {
        let rule = session.in_flight.hooks.as_ref()?.rule.clone()?;
        match &rule.fault.verdict {
            Verdict::Hang => {
                park_at(&rule.queue, session, self.parked_command(session, words)).map(Wait::ParkedRequest)
            }
            Verdict::Delay(duration) if !duration.is_zero() => {
                // Set before the wait is visible to others, who may then move the clock.
                let alarm = self.instance.clock.alarm_after(*duration);
                let permit = park_at(&rule.queue, session, self.parked_command(session, words))?;
                session.in_flight.alarm = Some(alarm);
                Some(Wait::Delay(permit))
            }
            Verdict::Delay(_)
            | Verdict::Error(_)
            | Verdict::CloseBefore
            | Verdict::CloseAfter
            | Verdict::Truncate(_)
            | Verdict::Drip { .. }
            | Verdict::Reset
            | Verdict::Refuse
            | Verdict::Pause
            | Verdict::HoldLink(_)
            | Verdict::LagLink { .. }
            | Verdict::CutLink(_) => None,
        }
    }

    /// Applies a rule's verdict that replaces the run of its command, if it has one.
    fn verdict_instead(&self, session: &mut Session, exec: bool, out: &mut Vec<u8>) -> Option<Flow> {
        let rule = session.in_flight.hooks.as_ref()?.rule.clone()?;
        match &rule.fault.verdict {
            Verdict::Error(line) => {
                if exec {
                    self.discard(session);
                }
                self.answer(session, &Reply::Error(CommandError::new(line.clone())), out);
                Some(Flow::Continue)
            }
            Verdict::CloseBefore => Some(Flow::Close),
            Verdict::Reset => Some(Flow::Reset),
            Verdict::HoldLink(replica) => self.treat_link(&rule, LinkOrder::Hold, replica),
            Verdict::CutLink(replica) => self.treat_link(&rule, LinkOrder::Cut, replica),
            Verdict::LagLink { replica, by } => {
                let by = Millis::try_from(by.as_millis()).unwrap_or(Millis::MAX);
                self.treat_link(&rule, LinkOrder::Lag(by), replica)
            }
            Verdict::Delay(_)
            | Verdict::CloseAfter
            | Verdict::Truncate(_)
            | Verdict::Hang
            | Verdict::Drip { .. }
            | Verdict::Refuse
            | Verdict::Pause => None,
        }
    }

    /// Treats the links to replicas before a command runs.
    fn treat_link(&self, rule: &Rule, order: LinkOrder, replica: &str) -> Option<Flow> {
        let number = usize::from(self.instance.number);
        let replica = Some(replica).filter(|replica| *replica != "*");
        if let Some(Err(error)) = self.instance.fleet().map(|fleet| fleet.order_link(number, order, replica)) {
            self.instance.log.warn(format!("Fault '{}' has no effect: {error}", rule.fault.name));
        }
        None
    }

    /// Takes a command that has run through the gates behind, until one parks it. The reply begins at `start`.
    fn park_behind(&self, session: &mut Session, start: usize, out: &[u8]) -> Option<Permit> {
        // During a pause no command gets its reply, even if it was blocked before any hook was armed.
        if let Some(permit) = self.hold_if_paused(session, Words::new(&[], &[])) {
            return Some(permit);
        }
        let mut hooks = session.in_flight.hooks.take()?;
        if std::mem::take(&mut hooks.is_explored) {
            self.instance.control.explorer.record_reply(self.client_of(session), out.get(start..).unwrap_or_default());
        }
        let mut parked = None;
        while parked.is_none()
            && let Some(gate) = hooks.gates_after.pop_front()
        {
            hooks.gates_met.push(gate.name.as_str().into());
            parked = hooks.parked.clone().and_then(|command| park_at(&gate.queue, session, command));
        }
        session.in_flight.hooks = Some(hooks);
        parked
    }

    /// Applies a rule's verdict to the reply. Returns the connection's flow.
    fn verdict_on_reply(
        &self,
        session: &mut Session,
        rule: &Rule,
        start: usize,
        flow: Flow,
        out: &mut Vec<u8>,
    ) -> Flow {
        match rule.fault.verdict {
            Verdict::CloseAfter => {
                out.truncate(start);
                Flow::Close
            }
            Verdict::Truncate(bytes) => {
                out.truncate(start.saturating_add(bytes));
                Flow::Close
            }
            Verdict::Drip { bytes, every } if out.len().saturating_sub(start) > bytes => {
                let alarm = self.instance.clock.alarm_after(every);
                let Some(permit) = rule.queue.park(self.parked_command(session, Words::new(&[], &[]))) else {
                    return flow;
                };
                session.in_flight.alarm = Some(alarm);
                let reply = Bytes::from(out.split_off(start));
                Flow::Wait(Box::new(Wait::Drip { reply, bytes, every, permit, then: flow }))
            }
            Verdict::Drip { .. }
            | Verdict::Error(_)
            | Verdict::Delay(_)
            | Verdict::CloseBefore
            | Verdict::Hang
            | Verdict::Reset
            | Verdict::Refuse
            | Verdict::Pause
            | Verdict::HoldLink(_)
            | Verdict::LagLink { .. }
            | Verdict::CutLink(_) => flow,
        }
    }

    /// The error that a rule injects into a command of a transaction or script, with the rule.
    #[cold]
    pub(super) fn fault_inside(
        &self,
        session: &Session,
        spec: &'static CommandSpec,
        words: Words<'_>,
    ) -> Option<(CommandError, Arc<Rule>)> {
        if !self.instance.active_hooks.has(Hook::Fault) {
            return None;
        }
        let labels = session.client.labels();
        let arrival = self.arrival(session, &labels.name, spec, words);
        let rule = self.instance.control.faults.first_match_inside(&arrival)?;
        let Verdict::Error(line) = &rule.fault.verdict else { return None };
        let error = CommandError::new(line.clone());
        self.instance.stats.count_error(error.code());
        Some((error, rule))
    }

    /// A parked command as it is shown.
    pub(super) fn parked_command(&self, session: &Session, words: Words<'_>) -> ParkedCommand {
        let mut redaction = Redaction::default();
        let words = redaction.words(&self.table, words);
        ParkedCommand {
            client: session.client.id(),
            client_name: session.client.labels().name.clone(),
            words: words.iter().take(WORDS_SHOWN).map(|word| word[..word.len().min(BYTES_SHOWN)].to_vec()).collect(),
        }
    }
}

/// Parks a command in a queue, unless the queue is open. The client is marked as blocked before the command is visible
/// there.
fn park_at(queue: &Arc<WaitQueue>, session: &Session, command: ParkedCommand) -> Option<Permit> {
    let blocked = &session.client.seen().blocked;
    blocked.store(true, Ordering::Relaxed);
    let permit = queue.park(command);
    blocked.store(permit.is_some(), Ordering::Relaxed);
    permit
}

/// The most words of a parked command that are shown.
const WORDS_SHOWN: usize = 16;
const BYTES_SHOWN: usize = 128;
