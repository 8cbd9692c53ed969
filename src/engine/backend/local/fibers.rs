//! Fibers: commands that may run a script have a stack of their own.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use super::Local;
use crate::base::error::CommandError;
use crate::clients::session::{Client, Flow, Session, Wait};
use crate::engine::{Engine, Resolved};
use crate::powers::Staging;
use crate::protocol::{OwnedWords, Words};
use crate::script::{Fiber, FiberStack, FiberState};

/// The resources of one thread for running scripts, and its paused scripts.
#[derive(Default)]
pub struct Fibers {
    /// A stack for reuse.
    stack: Option<FiberStack>,
    /// The stand-in for a session while a script has it.
    spare: Option<Box<Session>>,
    words: OwnedWords,
    replies: Vec<u8>,
    paused: Vec<(Arc<Client>, Fiber<Finished>)>,
    /// The staging buffer that the sessions of the thread share.
    pub(in crate::engine) staging: Staging,
}

/// The result of a finished command.
struct Finished {
    session: Box<Session>,
    words: OwnedWords,
    out: Vec<u8>,
    called: std::thread::Result<Flow>,
}

impl Local {
    /// Calls a command on its own stack. If it is slow, a stand-in takes the session's place until [`Fibers::resume`]
    /// reports that the command is finished.
    pub fn call_in_fiber(
        &self,
        front: &Arc<Engine>,
        session: &mut Box<Session>,
        resolved: Resolved,
        words: Words<'_>,
        out: &mut Vec<u8>,
        fibers: &mut Fibers,
    ) -> Flow {
        let stack = match fibers.stack.take().map_or_else(FiberStack::new, Ok) {
            Ok(stack) => stack,
            Err(_) => return front.refuse(session, false, NO_STACK, out),
        };
        let spare = match fibers.spare.take() {
            Some(mut spare) => {
                // Usually it stood in for the same connection before.
                if !Arc::ptr_eq(&spare.client, &session.client) || !Arc::ptr_eq(&spare.counters, &session.counters) {
                    spare.client = Arc::clone(&session.client);
                    spare.counters = Arc::clone(&session.counters);
                }
                spare
            }
            None => Box::new(Session::new(Arc::clone(&session.client), &session.user, Arc::clone(&session.counters))),
        };
        let mut taken = std::mem::replace(session, spare);
        let mut replies = std::mem::take(&mut fibers.replies);
        let engine = Arc::clone(front);
        let mut owned = std::mem::take(&mut fibers.words);
        owned.fill(words);
        let fiber = Fiber::new(stack, move |yielder| {
            // The connection needs its session also after a panic, which goes on once it has it.
            let called = catch_unwind(AssertUnwindSafe(|| {
                let flow = engine.call(&mut taken, resolved, owned.as_words(), &mut replies, Some(yielder));
                engine.end_call(&mut taken, resolved.row.spec, owned.as_words());
                flow
            }));
            Finished { session: taken, words: owned, out: replies, called }
        });
        match fibers.step(fiber, session, out) {
            Some(flow) => flow,
            None => Flow::Wait(Box::new(Wait::Script)),
        }
    }
}

const NO_STACK: CommandError = CommandError::fixed("ERR there is no memory to run a script");

impl Fibers {
    /// Resumes the command of this session. Returns the connection's flow once the command is finished.
    pub fn resume(&mut self, session: &mut Box<Session>, out: &mut Vec<u8>) -> Option<Flow> {
        let place = self.paused.iter().position(|(client, _)| Arc::ptr_eq(client, &session.client))?;
        let (_, fiber) = self.paused.swap_remove(place);
        self.step(fiber, session, out)
    }

    /// Whether this session's command is paused.
    pub fn has_paused(&self, session: &Session) -> bool {
        self.paused.iter().any(|(client, _)| Arc::ptr_eq(client, &session.client))
    }

    fn step(&mut self, fiber: Fiber<Finished>, session: &mut Box<Session>, out: &mut Vec<u8>) -> Option<Flow> {
        match fiber.resume() {
            FiberState::Paused(fiber) => {
                self.paused.push((Arc::clone(&session.client), fiber));
                None
            }
            FiberState::Ended(finished, stack) => {
                self.stack = Some(stack);
                let mut spare = std::mem::replace(session, finished.session);
                spare.in_flight.forget_wait();
                self.spare = Some(spare);
                out.extend_from_slice(&finished.out);
                self.replies = finished.out;
                self.replies.clear();
                self.replies.shrink_to(BUFFER_KEPT);
                self.words = finished.words;
                self.words.empty(BUFFER_KEPT);
                Some(finished.called.unwrap_or_else(|panic| resume_unwind(panic)))
            }
        }
    }
}

/// Larger buffers are shrunk.
const BUFFER_KEPT: usize = 1024 * 1024;
