//! REPLICAOF: the role of a replica. If its primary is another instance of this process, it gets what that one has
//! (`replication/follower.rs`); another server never answers, and the data stay as they are.

use super::Instance;
use crate::clients::session::Signal;
use crate::powers::Hook;
use crate::protocol::parse_integer;

/// The server that a replica follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Primary {
    pub host: Vec<u8>,
    pub port: i64,
}

impl Instance {
    /// The server that this one follows, if it is a replica.
    pub fn primary(&self) -> Option<Primary> {
        if !self.is_replica() {
            return None;
        }
        let value = self.config.value("replicaof");
        let space = value.iter().rposition(|&byte| byte == b' ')?;
        Some(Primary { host: value[..space].to_vec(), port: parse_integer(&value[space + 1..])? })
    }

    pub fn is_replica(&self) -> bool {
        self.active_hooks.has(Hook::Replica)
    }

    /// Whether clients' writes are refused because this is a replica.
    pub fn is_read_only_replica(&self) -> bool {
        self.is_replica() && self.config.is_on("replica-read-only")
    }

    /// Whether everything that reads data is refused because they can be out of date.
    pub fn is_stale_replica(&self) -> bool {
        self.is_replica() && !self.config.is_on("replica-serve-stale-data")
    }

    /// Whether `maxmemory` is the primary's concern.
    pub fn ignores_max_memory(&self) -> bool {
        self.is_replica() && self.config.is_on("replica-ignore-maxmemory")
    }

    /// Becomes a replica. Blocked clients get an error, and their connections are closed: what they wait for can only be
    /// written elsewhere.
    pub fn follow(&self, primary: &Primary) {
        let Primary { host, port } = primary;
        self.unlink();
        self.forget_past();
        self.config.assign("replicaof", [host.as_slice(), b" ", port.to_string().as_bytes()].concat());
        self.apply_settings();
        // They go on where they were once this server has a history in common with its master.
        self.close_replicas();
        for client in self.clients.all() {
            if self.claim_wait(&client) {
                client.signal(Signal::RoleChanged);
            }
        }
        let address = format!("{}:{port}", String::from_utf8_lossy(host));
        let is_in_process = self.fleet().is_some_and(|fleet| fleet.instance_at(host, *port).is_some());
        let why = match (self.space.is_empty(), is_in_process) {
            (true, true) => return self.log.notice(format!("This server is a replica of {address} now.")),
            (true, false) => "That is no instance of this process",
            (false, _) => "This is a space, which no other follows",
        };
        self.log.warn(format!(
            "This server is a replica of {address} now. {why}: nothing is copied from there, and the link stays down. \
             REPLICAOF NO ONE ends that."
        ));
    }

    /// Becomes a primary again, if it is a replica.
    pub fn follow_no_one(&self) {
        if self.is_replica() {
            self.unlink();
            self.forget_past();
            self.config.assign("replicaof", "");
            self.identity.shift_replication_id(self.replication_offset());
            self.close_replicas();
            self.begin_alone();
            self.apply_settings();
            self.log.notice("This server is a primary again.");
        }
    }
}
