//! Waits of commands: the start of each kind of wait, its end, and how the command continues.

use std::fmt::Display;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use super::intercept::Ran;
use super::{Engine, Fibers};
use crate::base::clock::{Alarm, Millis};
use crate::base::error::CommandError;
use crate::base::log::Log;
use crate::clients::session::{Activity, Client, Flow, Served, Session, Stage, Wait};
use crate::data::keyspace::Busy;
use crate::protocol::Reply;

/// How long a blocked command waits for a slow script before it runs again.
const RETRY_PAUSE: Duration = Duration::from_millis(1);

/// How a wait ends.
pub enum WaitEnd {
    /// Its deadline has passed, or its event has happened.
    Over,
    /// CLIENT UNBLOCK ... ERROR.
    Unblocked(CommandError),
    /// With an error, after which the connection is closed.
    Dismissed(CommandError),
    /// Another command has provided what it was blocked on.
    Served(Served),
    /// With this reply.
    Reply(Reply<'static>),
    /// With the reply of the upstream server, in its bytes.
    Passed(Vec<u8>),
}

impl WaitEnd {
    /// Whether a command is answered with an error, if `reply` is the answer to it when its time is up.
    fn is_failure(&self, reply: &Reply<'_>) -> bool {
        match self {
            Self::Over | Self::Reply(_) => matches!(reply, Reply::Error(_)),
            Self::Unblocked(_) | Self::Dismissed(_) => true,
            Self::Served(served) => served.reply.first() == Some(&b'-'),
            Self::Passed(reply) => reply.first() == Some(&b'-'),
        }
    }
}

/// The result of polling a wait.
pub enum WaitProgress {
    /// It is not over.
    Pending,
    /// The next part of a dripping reply is appended to the output. The alarm must be held until the part is written.
    Part(Option<Alarm>),
    Ended(WaitEnd),
}

impl Engine {
    /// Starts a wait. Bytes to send at once are appended to `out`.
    pub fn begin_wait(self: &Arc<Self>, session: &mut Session, wait: Box<Wait>, out: &mut Vec<u8>) {
        let clock = &self.instance.clock;
        let seen = session.client.seen();
        let in_flight = &mut session.in_flight;
        let mut wait = wait;
        match &mut *wait {
            Wait::Unpause => in_flight.alarm = self.instance.paused().map(|(until, _)| clock.alarm(until)),
            // The stage at which it is parked, and its alarm, are set already.
            Wait::ParkedRequest(_) | Wait::Delay(_) | Wait::ParkedReply { .. } | Wait::KeyTurn => {}
            Wait::Drip { reply, bytes, .. } => out.extend_from_slice(&reply.split_to((*bytes).min(reply.len()))),
            Wait::Blocked { deadline, .. } => {
                seen.timed.store(deadline.is_some(), Ordering::Relaxed);
                in_flight.alarm = first_of(*deadline, session.client.retry_at()).map(|due| clock.alarm(due));
                in_flight.stage = Stage::Blocked;
            }
            Wait::Script => {
                session.client.set_activity(Activity::Scripting);
                in_flight.stage = Stage::Blocked;
            }
            Wait::RunningJob(_) | Wait::Event(_) | Wait::Upstream => in_flight.stage = Stage::Blocked,
            Wait::ControlJob(job, reply) => {
                // In a task of its own: it runs to its end even if its client disconnects.
                let job = tokio::spawn(Arc::clone(self).run_control_job(*job));
                let reply = std::mem::replace(reply, Reply::Nothing);
                let engine = Arc::clone(self);
                *wait = Wait::RunningJob(Box::pin(async move {
                    match job_end(job, &engine.instance.log).await {
                        Ok(Ok(())) => reply,
                        Ok(Err(error)) | Err(error) => Reply::Error(error),
                    }
                }));
                in_flight.stage = Stage::Blocked;
            }
        }
        in_flight.wait = Some(wait);
        // Shown only now: whoever has seen it and then moves the clock must reach the alarm.
        seen.blocked.store(true, Ordering::Release);
    }

    /// Polls the wait of a session's command. If it is not over, the task is woken when that may have changed.
    pub fn poll_wait(&self, session: &mut Session, cx: &mut Context<'_>, out: &mut Vec<u8>) -> WaitProgress {
        let clock = &self.instance.clock;
        let in_flight = &mut session.in_flight;
        let Some(wait) = &mut in_flight.wait else { return WaitProgress::Pending };
        if matches!(**wait, Wait::KeyTurn) {
            return if self.has_turn(session) { WaitProgress::Ended(WaitEnd::Over) } else { WaitProgress::Pending };
        }
        let has_rung = in_flight.alarm.as_ref().is_some_and(|alarm| alarm.has_rung(cx.waker()));
        let is_over = match &mut **wait {
            // The connection itself resumes scripts, and the start of the wait has replaced the job by a running one.
            // Its connection hears the reply of a server.
            Wait::Script | Wait::ControlJob(..) | Wait::Upstream | Wait::KeyTurn => false,
            Wait::Unpause => match self.instance.paused() {
                None => true,
                Some((until, _)) => {
                    // The pause may have been replaced by another one with another end.
                    let alarm = clock.alarm(until);
                    let is_over = alarm.has_rung(cx.waker());
                    in_flight.alarm = Some(alarm);
                    is_over
                }
            },
            Wait::Blocked { deadline, .. } if has_rung => match session.client.retry_at() {
                Some(retry_at) if deadline.is_none_or(|deadline| retry_at < deadline) => {
                    let busy = self.retry(&session.client, retry_at).is_err();
                    let due = first_of(*deadline, session.client.retry_at());
                    let alarm =
                        if busy { Some(clock.alarm_after(RETRY_PAUSE)) } else { due.map(|due| clock.alarm(due)) };
                    in_flight.alarm = alarm;
                    return match &in_flight.alarm {
                        Some(alarm) if alarm.has_rung(cx.waker()) => self.poll_wait(session, cx, out),
                        _ => WaitProgress::Pending,
                    };
                }
                // If another client has claimed the wait, its signal is on the way.
                _ => self.instance.claim_wait(&session.client),
            },
            Wait::Blocked { .. } => false,
            Wait::ParkedRequest(permit) | Wait::ParkedReply { permit, .. } => permit.is_released(cx.waker()),
            Wait::Delay(permit) => has_rung || permit.is_released(cx.waker()),
            Wait::Drip { reply, .. } if reply.is_empty() => true,
            Wait::Drip { reply, bytes, every, permit, .. } => {
                let is_released = permit.is_released(cx.waker());
                if !has_rung && !is_released {
                    return WaitProgress::Pending;
                }
                let is_all = is_released || in_flight.alarm.as_ref().is_some_and(Alarm::is_early);
                out.extend_from_slice(&reply.split_to(if is_all { reply.len() } else { (*bytes).min(reply.len()) }));
                let next = (!reply.is_empty()).then(|| clock.alarm_after(*every));
                let due = std::mem::replace(&mut in_flight.alarm, next);
                return WaitProgress::Part(permit.take_alarm().or(due));
            }
            Wait::RunningJob(reply) | Wait::Event(reply) => match reply.as_mut().poll(cx) {
                Poll::Ready(reply) => return WaitProgress::Ended(WaitEnd::Reply(reply)),
                Poll::Pending => false,
            },
        };
        if is_over { WaitProgress::Ended(WaitEnd::Over) } else { WaitProgress::Pending }
    }

    /// Runs a blocked command again, once its time has come.
    #[cold]
    fn retry(&self, client: &Client, retry_at: Millis) -> Result<(), Busy> {
        if retry_at > self.instance.clock.millis() { Ok(()) } else { self.backend.retry_waiters_of(client) }
    }

    /// Ends the wait of a session's command, which continues from its stage; its output is appended to `out`. Returns
    /// the connection's flow, and the alarm that ended the wait, which must be held until all consequences have
    /// happened.
    pub fn resume(
        self: &Arc<Self>,
        session: &mut Box<Session>,
        end: WaitEnd,
        out: &mut Vec<u8>,
        fibers: &mut Fibers,
    ) -> (Flow, Option<Alarm>) {
        let in_flight = &mut session.in_flight;
        let Some(wait) = in_flight.wait.take() else { return (Flow::Continue, None) };
        let mut alarm = in_flight.alarm.take();
        let mut ran = Ran { start: out.len(), flow: Flow::Continue };
        let seen = session.client.seen();
        seen.timed.store(false, Ordering::Relaxed);
        // A blocked client does not count as idle.
        seen.last_used.store(self.instance.cached_now(), Ordering::Relaxed);
        show_active(session);
        // The wait may have been claimed before this connection started it.
        self.instance.claim_wait(&session.client);
        let mut messages = Vec::new();
        match *wait {
            Wait::Unpause | Wait::Script | Wait::ControlJob(..) | Wait::KeyTurn => {}
            Wait::ParkedRequest(permit) => {
                session.in_flight.note_release(&permit);
                alarm = permit.take_alarm();
            }
            Wait::Delay(permit) => alarm = permit.take_alarm().or(alarm),
            Wait::Blocked { reply, .. } => {
                let reply = self.instance.stop_awaiting(&session.client).unwrap_or(reply);
                self.end_blocked_call(session, end.is_failure(&reply));
                match end {
                    WaitEnd::Over | WaitEnd::Reply(_) | WaitEnd::Passed(_) => self.answer(session, &reply, out),
                    WaitEnd::Unblocked(error) => self.answer(session, &Reply::Error(error), out),
                    WaitEnd::Dismissed(error) => {
                        self.answer(session, &Reply::Error(error), out);
                        ran.flow = Flow::Close;
                    }
                    WaitEnd::Served(served) => {
                        self.resume_with(session, &served.reply, out);
                        alarm = served.alarm.or(alarm);
                        session.in_flight.trace.set_stamp(served.stamp);
                        messages = served.messages;
                    }
                }
            }
            Wait::ParkedReply { permit, reply, then } => {
                session.in_flight.note_release(&permit);
                alarm = permit.take_alarm();
                out.extend_from_slice(&reply);
                ran.flow = then;
            }
            Wait::Drip { then, .. } => ran.flow = then,
            Wait::Upstream => {
                if let WaitEnd::Passed(reply) = end {
                    out.extend_from_slice(&reply);
                }
            }
            Wait::RunningJob(_) | Wait::Event(_) => {
                if let WaitEnd::Reply(reply) = end {
                    self.answer_with(session, reply, out);
                }
                // Commands of the test powers meet no hooks.
                session.in_flight.stage = Stage::Done;
            }
        }
        let flow = self.proceed(session, None, ran, out, fibers);
        if matches!(flow, Flow::Continue) {
            out.append(&mut messages);
        } else if !messages.is_empty() {
            // The reply is held back; these do not wait for it.
            session.client.send(&messages);
        }
        (flow, alarm)
    }

    /// Resumes the script that a session's connection waits for. Returns the connection's flow once it has ended.
    pub fn resume_script(
        self: &Arc<Self>,
        session: &mut Box<Session>,
        out: &mut Vec<u8>,
        fibers: &mut Fibers,
    ) -> Option<Flow> {
        let start = out.len();
        let flow = fibers.resume(session, out)?;
        self.follow_script(&flow);
        show_active(session);
        session.in_flight.stage = Stage::Blocked;
        Some(self.proceed(session, None, Ran { start, flow }, out, fibers))
    }
}

/// The earlier of two instants, if there is any.
fn first_of(one: Option<Millis>, other: Option<Millis>) -> Option<Millis> {
    one.into_iter().chain(other).min()
}

/// Publishes that a session's command no longer waits.
fn show_active(session: &Session) {
    session.client.seen().blocked.store(false, Ordering::Relaxed);
    session.client.set_activity(Activity::Acting);
}

/// Waits for the end of a control job. A job that panicked or was cancelled has not done its work: that is logged, and
/// the error is the reply.
pub async fn job_end<R, E: Display>(job: impl Future<Output = Result<R, E>>, log: &Log) -> Result<R, CommandError> {
    job.await.map_err(|error| {
        log.warn(format!("A control job did not end: {error}"));
        CommandError::new(format!("ERR the job did not end: {error}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::clock::block_on;
    use std::future::{pending, ready};

    #[test]
    fn a_job_that_panics_or_is_cancelled_is_answered_with_an_error() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let panicked = runtime.spawn(async { panic!("a bug") });
        let cancelled = runtime.spawn(pending::<()>());
        cancelled.abort();
        runtime.block_on(async {
            let log = Log::silent();
            let error = job_end(panicked, &log).await.unwrap_err();
            assert!(error.line().starts_with(b"ERR the job did not end: ") && error.line().ends_with(b"\"a bug\""));
            let error = job_end(cancelled, &log).await.unwrap_err();
            assert!(error.line().starts_with(b"ERR the job did not end: ") && error.line().ends_with(b"cancelled"));
        });
        assert!(block_on(job_end(ready(Ok::<(), &str>(())), &Log::silent())).is_ok());
    }
}
