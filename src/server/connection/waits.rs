//! The wait of a connection's command: polled here, started and resumed by the engine.

use std::sync::atomic::Ordering;
use std::task::Context;

use super::{Connection, Scratch, State};
use crate::clients::session::{Activity, Flow, Wait};
use crate::engine::{WaitEnd, WaitProgress};
use crate::spec::Group;

impl Connection {
    /// Ends the wait if it is over, and runs the requests that have arrived, which may start the next wait.
    pub(super) fn poll_wait(&mut self, cx: &mut Context<'_>, scratch: &mut Scratch) {
        while let Some(wait) = self.session.in_flight.wait.as_deref() {
            let is_parked = matches!(wait, Wait::ParkedRequest(_) | Wait::ParkedReply { .. });
            match self.engine.poll_wait(&mut self.session, cx, &mut scratch.output) {
                WaitProgress::Pending => return,
                WaitProgress::Part(alarm) => {
                    self.queue_output(&mut scratch.output, &mut scratch.spare);
                    // A clock move waits for each part of the reply.
                    self.due_alarms.extend(alarm);
                }
                WaitProgress::Ended(end) => {
                    let closing = &self.session.client.seen().closing;
                    // Signals that were sent since the last check are not seen here yet.
                    if is_parked && (closing.load(Ordering::Relaxed) || self.stream.has_ended()) {
                        // The next command in the queue is released instead.
                        self.state = State::Dropped;
                    }
                    if is_parked && self.state != State::Open {
                        return;
                    }
                    self.end_wait(end, scratch);
                }
            }
        }
    }

    /// Ends the wait, if there is one, and continues with the requests behind it.
    pub(super) fn end_wait(&mut self, end: WaitEnd, scratch: &mut Scratch) {
        match self.session.in_flight.wait.as_deref() {
            None => return,
            Some(Wait::Event(_)) => self.is_informed = true,
            Some(Wait::RunningJob(_)) => self.is_informed = false,
            Some(_) => {}
        }
        let mut out = Vec::new();
        let (flow, alarm) = self.engine.resume(&mut self.session, end, &mut out, &mut scratch.fibers);
        if !self.mail.is_empty() {
            let mut mail = std::mem::take(&mut self.mail);
            self.queue_output(&mut mail, &mut scratch.spare);
        }
        // What the connection does now is a consequence of the end of its wait, and of nothing else.
        self.session.is_driven = alarm.is_some() || !self.due_alarms.is_empty() || self.session.client.is_watched();
        self.go_on(flow, &mut out, scratch);
        self.session.is_driven = false;
        self.queue_output(&mut out, &mut scratch.spare);
        self.due_alarms.extend(alarm);
    }

    /// Continues as the flow of a finished command says.
    fn go_on(&mut self, flow: Flow, out: &mut Vec<u8>, scratch: &mut Scratch) {
        self.engine.instance.broadcast_invalidations(&mut self.session);
        match flow {
            Flow::Continue => self.run_input(out, scratch),
            Flow::Move(to) => {
                self.move_to(&to);
                self.run_input(out, scratch);
            }
            Flow::Close => self.state = State::Closing,
            Flow::Reset => self.state = State::Resetting,
            Flow::Drop => {
                self.dropped += out.len();
                out.clear();
                self.state = State::Dropped;
            }
            Flow::Wait(wait) => self.engine.begin_wait(&mut self.session, wait, out),
        }
    }

    /// Resumes the script. Returns whether it has ended and its consequences are done.
    pub(super) fn resume_script(&mut self, scratch: &mut Scratch) -> bool {
        let mut out = Vec::new();
        let Some(flow) = self.engine.resume_script(&mut self.session, &mut out, &mut scratch.fibers) else {
            return !scratch.fibers.has_paused(&self.session);
        };
        self.go_on(flow, &mut out, scratch);
        if !self.is_running_script() {
            self.session.is_driven = false;
        }
        self.queue_output(&mut out, &mut scratch.spare);
        !self.is_running_script()
    }

    /// Publishes the connection's activity to an auto-advancing clock.
    #[cold]
    pub(super) fn show_activity(&mut self) {
        let has_read = std::mem::take(&mut self.has_read);
        let drives = self.session.in_flight.row.is_some_and(|spec| spec.group == Group::Control);
        let activity = match self.session.in_flight.wait.as_deref() {
            Some(Wait::Script) => Activity::Scripting,
            _ if self.has_more || !self.output.is_empty() => Activity::Acting,
            Some(Wait::Event(_)) => Activity::Awaiting,
            Some(Wait::RunningJob(_)) => Activity::Driving,
            Some(_) => Activity::Waiting,
            None if drives && !self.is_informed => Activity::Driving,
            None => Activity::Idle,
        };
        let (client, clock) = (&self.session.client, &self.engine.instance.clock);
        // A client whose wait ended counts as active until now.
        if has_read || client.activity() == Activity::Acting {
            self.engine.wake_awaiting_drivers();
        }
        let before = client.set_activity(activity);
        if activity == Activity::Idle && (has_read || before != Activity::Idle) {
            client.set_idle_since(clock.uptime());
        }
        if activity != Activity::Idle || client.seen().is_subscriber() || clock.idle_grace().is_some() {
            self.engine.maybe_auto_advance();
        }
    }
}
