//! What a server can ask of the others in its process: the spaces behind its own port, and the other instances.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crate::base::clock::Millis;
use crate::base::error::CommandError;
use crate::clients::acl::User;

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

/// A wait for changes that a link holds.
pub type HeldChanges = Pin<Box<dyn Future<Output = usize> + Send>>;

/// The other spaces and instances, as one server sees them.
pub trait Fleet: Send + Sync {
    /// The spaces behind this server's port, by name.
    fn spaces(&self) -> Vec<SpaceInfo>;

    /// The user of the root world with this name and password.
    fn root_user(&self, name: &[u8], password: &[u8]) -> Option<Arc<User>>;

    /// The default user of the root world, if it needs no password.
    fn open_root_user(&self) -> Option<Arc<User>>;

    /// Saves the data of the root world for the end of the process, if that is asked for or there are save points.
    fn save_at_end(&self, asked: Option<bool>) -> Result<(), CommandError>;

    /// Makes a space if there is none, and checks that it has a user of this name. An empty name is the root world.
    fn open_space(&self, name: &[u8], user: &[u8]) -> Result<(), CommandError>;

    /// Drops a space with its data, and closes its connections.
    fn drop_space(&self, name: &[u8]) -> Result<(), CommandError>;

    /// Whether this is a password with which the default user may enter any space.
    fn accepts(&self, password: &[u8]) -> bool;

    /// The number of this server among the instances, from 1.
    fn number(&self) -> usize;

    /// All instances, in order.
    fn instances(&self) -> Vec<InstanceInfo>;

    /// Controls an instance. If that closes its connections, the client `by` stays connected, provided that it sent the
    /// command to that very instance: it still gets its reply.
    ///
    /// The command has taken full effect when the returned future is ready.
    fn control_instance(&self, number: usize, order: InstanceCommand, by: u64) -> Result<Completion, CommandError>;

    /// Treats the links of an instance to its replicas, or to the one with this name. How many it concerned, or how many changes
    /// it let go.
    fn order_link(&self, number: usize, order: LinkOrder, replica: Option<&str>) -> Result<u64, CommandError>;

    /// Waits until the link of an instance to the replica with this name, or any of them, holds so many changes. Yields how many
    /// it holds.
    fn watch_link(&self, number: usize, replica: Option<&str>, changes: usize) -> Result<HeldChanges, CommandError>;

    /// The links of an instance to its replicas.
    fn links(&self, number: usize) -> Result<Vec<LinkInfo>, CommandError>;

    /// The instance of this process that listens at an address.
    fn instance_at(&self, host: &[u8], port: i64) -> Option<usize>;

    /// Replicas connect to their masters in this process, and run what they have been sent. Nothing may be locked.
    fn bring_replicas_up_to_date(&self);

    /// Makes this instance a primary, once it has run what its master has just sent it. Nothing may be locked.
    fn follow_no_one(&self);

    /// This instance was reset: it and those that were started as a group with it have the roles of the start again, and the
    /// same data, which are none.
    fn reset_replication(&self);

    /// Makes a replica of an instance the master in its place. The others and the former master follow it, unless the link to it
    /// is cut. The client `by` stays connected, whatever is closed.
    ///
    /// It has taken full effect when the returned future is ready.
    fn fail_over(&self, number: usize, order: FailoverOrder, by: u64)
    -> Result<(FailedOver, Completion), CommandError>;

    /// Refuses connections to a node of the deployment, and closes those of all its clients except `except`.
    fn stop_node(&self, number: u16, except: Option<u64>) -> Result<(), CommandError>;

    /// Lets clients connect to a stopped node again.
    fn start_node(&self, number: u16) -> Result<(), CommandError>;

    /// Lets clients connect to all nodes again that were stopped.
    fn start_stopped_nodes(&self) -> Result<(), CommandError>;

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
    /// Serve again, with its data or empty.
    Start {
        empty: bool,
    },
    Pause,
    Resume,
    /// Set its clock so many microseconds ahead of the first one's.
    Skew(i64),
    /// Hold the commands of clients with names that match this; they neither run nor are answered.
    Cut(Vec<u8>),
    /// End one such cut, or all of them.
    Heal(Option<Vec<u8>>),
}

/// What can be done with the links to replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkOrder {
    /// Send nothing until it is let go.
    Hold,
    /// Let so many changes go.
    Step(u64),
    /// Send everything so many milliseconds later, by the clock of the instance.
    Lag(Millis),
    /// Close it, and refuse the replica when it comes back.
    Cut,
    Heal,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LinkState {
    #[default]
    Open,
    Held,
    /// It is sent so many milliseconds later.
    Late(Millis),
    Cut,
}

impl LinkState {
    pub fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Held => "held",
            Self::Late(_) => "late",
            Self::Cut => "cut",
        }
    }
}

/// A link, as a list of them shows it.
pub struct LinkInfo {
    /// The address and port of the replica.
    pub replica: String,
    pub state: LinkState,
    /// How many changes it holds.
    pub held: usize,
    /// How many bytes of the stream the replica has, and how many it lacks.
    pub acknowledged: u64,
    pub behind: u64,
}

/// A master, and those that follow it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicationGroup {
    pub master: GroupMember,
    /// The instance that was the master when the process began. It names the group whoever is the master.
    pub origin: usize,
    /// A failover has made another instance the master, but this one is cut off from it: it follows once that is healed.
    pub is_superseded: bool,
    /// In the order of their numbers; also those that do not reach the master.
    pub replicas: Vec<GroupReplica>,
}

/// An instance as a part of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupMember {
    pub number: usize,
    /// Where clients find it; 0 if it has no TCP port.
    pub port: u16,
    pub run_id: String,
    pub state: InstanceState,
    /// How many bytes of the stream it has.
    pub offset: u64,
}

/// An instance that follows another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupReplica {
    pub member: GroupMember,
    /// How the link from its master is treated.
    pub link: LinkState,
    /// Whether the link is up.
    pub is_linked: bool,
    /// `replica-priority`: who has 0 is never promoted by itself.
    pub priority: u32,
}

/// How a failover is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FailoverOrder {
    /// The instance that becomes the master; the one that has most of the stream if there is none.
    pub to: Option<usize>,
    pub losing: Losing,
    /// Closes the clients of all instances whose role changes, as Sentinel does.
    pub closes_clients: bool,
}

/// What a failover has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailedOver {
    /// The new master, and where clients find it.
    pub number: usize,
    pub port: u16,
    /// How many changes of the former master it does not have, as far as these were on their way to it.
    pub lost: u64,
}

/// Which changes of the old master the new one does not get.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Losing {
    /// Those that its link has not let go.
    #[default]
    Unreplicated,
    /// The last ones, so many, whatever it had already.
    Last(u64),
}
