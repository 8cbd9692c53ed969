//! A client that races.

use std::sync::Arc;

use super::chaos::Action;
use super::footprint::Footprint;
use super::links::Observes;
use super::polls::Polls;
use super::run::{ClientOf, RacingCommand};
use super::token::RacerNumber;
use crate::base::clock::Clock;
use crate::powers::line::line_of;
use crate::powers::wait_queue::{ParkedCommand, WaitQueue};

/// A client that races.
pub(super) struct Racer {
    pub(super) client: ClientOf,
    pub(super) name: Vec<u8>,
    pub(super) number: Option<RacerNumber>,
    pub(super) held: Option<(Arc<WaitQueue>, RacingCommand)>,
    /// The footprint of its last command, which counts while that command blocks.
    pub(super) touched: Footprint,
    /// What that one can tell of replicas.
    pub(super) observes: Observes,
    /// The index of its last turn in `taken`.
    pub(super) turn: Option<usize>,
    pub(super) is_gone: bool,
    /// What was refused to it since anything changed.
    pub(super) polls: Polls,
    /// A command of it has changed something.
    pub(super) has_written: bool,
    /// It stands still until nothing else can move.
    pub(super) is_paused: bool,
    /// It has died: its connections are closed when they send something.
    pub(super) is_dead: bool,
    /// Its connection was closed under it, so that it may come back.
    pub(super) may_return: bool,
    /// Its connection is closed when it asks about replicas: what it has written may be lost.
    pub(super) has_lost: bool,
    /// Its commands are no longer held, because it repeats them in vain.
    pub(super) is_free: bool,
    /// What happens to the command that was released.
    pub(super) fate: Action,
}

impl Racer {
    pub(super) fn new(client: ClientOf) -> Self {
        Self {
            client,
            name: Vec::new(),
            number: None,
            held: None,
            touched: Footprint::default(),
            observes: Observes::Nothing,
            turn: None,
            is_gone: false,
            polls: Polls::default(),
            has_written: false,
            is_paused: false,
            is_dead: false,
            may_return: false,
            has_lost: false,
            is_free: false,
            fate: Action::Run,
        }
    }

    /// Another master serves its connection from now on. That one knows nothing of what the client has written before, so WAIT
    /// closes the connection, as it would be closed by a failover. Returns what is said of that.
    pub(super) fn meet_another_master(&mut self, clock: &Arc<Clock>) -> Option<String> {
        self.has_lost |= self.has_written;
        let asks = |(_, command): &mut (_, RacingCommand)| command.observes == Observes::EveryLink;
        let (queue, command) = self.held.take_if(|held| self.has_lost && asks(held))?;
        (self.fate, self.may_return) = (Action::Crash, true);
        queue.release_next(clock);
        let ParkedCommand { client_name: name, words, .. } = &command.parked;
        let name = if name.is_empty() { "a client".into() } else { name.escape_ascii().to_string() };
        Some(format!("{name} is disconnected before {}", line_of(words)))
    }
}
