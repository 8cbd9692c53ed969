//! What a server can see, and ask, of those beside it: the spaces behind its own port, and the other instances of its
//! process.

use std::future::Future;
use std::pin::Pin;

use crate::base::clock::Millis;
use crate::base::error::CommandError;

/// The most spaces behind one port.
pub const MOST_SPACES: usize = 10_000;
/// The longest name of a space, in bytes.
pub const LONGEST_NAME: usize = 128;
/// The most instances in one process.
pub const MOST_INSTANCES: usize = 64;

pub const NO_SUCH_SPACE: CommandError = CommandError::fixed("ERR no such space");
pub const TOO_MANY_SPACES: CommandError =
    CommandError::fixed("ERR there are 10000 spaces already; REDOUBLE SPACES DROP makes room");
pub const CLOSED: CommandError = CommandError::fixed("ERR the server ends");

/// What one server of a process may know of the others, and have done with them.
pub trait Fleet: Send + Sync {
    /// The spaces behind this server's port, by name.
    fn spaces(&self) -> Vec<SpaceInfo>;

    /// Sees that a space is there and that a user of this name may enter it. Without a name it is the world that clients
    /// find when they connect.
    fn open_space(&self, name: &[u8], user: &[u8]) -> Result<(), CommandError>;

    /// Forgets a space with all that is in it, and closes its connections.
    fn drop_space(&self, name: &[u8]) -> Result<(), CommandError>;

    /// Whether this is a password with which the default user may enter any space.
    fn accepts(&self, password: &[u8]) -> bool;

    /// The number of this server among the instances, from 1.
    fn number(&self) -> usize;

    /// All instances, in order.
    fn instances(&self) -> Vec<InstanceInfo>;

    /// Has something done with an instance. If it loses its connections, the one with the id `by` is to be left, provided
    /// that the order came from that instance itself: whoever gave it is still to be answered.
    ///
    /// What it sets off there happens while the consequences are waited for.
    fn control_instance(&self, number: usize, order: InstanceCommand, by: u64) -> Result<Completion, CommandError>;

    /// Ends every script that runs in the process, because the process ends.
    fn abandon_scripts(&self);
}

/// What an order sets off; over when all of it has happened, or has failed.
pub type Completion = Pin<Box<dyn Future<Output = Result<(), CommandError>> + Send>>;

/// One space, as a list of them shows it.
pub struct SpaceInfo {
    pub name: Vec<u8>,
    pub clients: usize,
    pub keys: u64,
}

/// One instance, as a list of them shows it.
pub struct InstanceInfo {
    pub number: usize,
    /// 0 if it has no TCP port.
    pub port: u16,
    pub state: InstanceState,
    /// How far its clock is ahead of the first one's, in milliseconds.
    pub skew: Millis,
    /// In all of its spaces.
    pub clients: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstanceState {
    Running,
    /// Connecting is refused.
    Stopped,
    /// Connections are accepted, and nothing is answered.
    Paused,
}

impl InstanceState {
    pub fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Stopped => "stopped",
            Self::Paused => "paused",
        }
    }
}

/// What can be done with an instance.
pub enum InstanceCommand {
    Stop,
    /// Serve again, with what it held or without.
    Start {
        empty: bool,
    },
    Pause,
    Resume,
    /// Set its clock so many microseconds ahead of the first one's.
    Skew(i64),
    /// Leave the commands of clients with a name like this unanswered, and never run them.
    Cut(Vec<u8>),
    /// Take back one such order, or all of them.
    Heal(Option<Vec<u8>>),
}
