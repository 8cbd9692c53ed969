//! Real servers behind the front: where they are, and the connections of clients to them.
//!
//! Each client has a connection of its own to the server, opened with it: so transactions, blocking commands, subscriptions
//! and tracking are right because nobody interprets them. Bytes pass as they came, in both directions; nothing is retried.
//! Begin with [`ProxyConnection`]; `requests` has what goes to the server, `replies` what comes from it, [`target`] where the
//! server is, `script_monitor` what scripts did there.

mod connection;
mod control;
mod deployment;
mod membership;
mod replies;
mod requests;
mod script_monitor;
mod target;

pub(super) use connection::ProxyConnection;
pub(super) use control::{wipe_all_from, wipe_from};
pub(crate) use deployment::Entrances;
pub(super) use deployment::{DeploymentFront, DeploymentSettings, Member, PortPool, PortRange};
pub(super) use membership::Destination;
pub(super) use script_monitor::ScriptMonitor;
pub(super) use target::{Target, TargetSettings};
