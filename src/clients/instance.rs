//! Everything that the connections of one server share. Two servers in one process have nothing in common.
//!
//! This file holds the struct, and how servers and spaces are made. What an instance does is in the modules, each with
//! methods of `Instance` and, where it keeps state of its own, a type for that.

mod client_control;
mod cron;
mod debug_sleep;
mod debug_switches;
mod journal;
mod memory;
mod messages;
mod monitors;
mod nodes;
mod panics;
mod pause;
mod persistence;
mod reload;
mod replica;
mod replication;
mod save;
mod settings;
mod shutdown;
mod test_powers;
mod view_end;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64};
use std::sync::{OnceLock, Weak};

use crate::base::clock::Clock;
use crate::base::identity::Identity;
use crate::base::log::Log;
use crate::base::profile::{Profile, Since};
use crate::clients::acl::{self, Acl};
use crate::clients::config::{Config, Settings};
use crate::clients::deployment::Deployment;
use crate::clients::fleet::Fleet;
use crate::clients::identification::Identification;
use crate::clients::latency::LatencyMonitor;
use crate::clients::pubsub::PubSub;
use crate::clients::rates::Rates;
use crate::clients::sentinel::SentinelSeat;
use crate::clients::session::Clients;
use crate::clients::slow_log::CommandLog;
use crate::clients::stats::{ErrorOverflow, Stats};
use crate::clients::tracking::Tracking;
use crate::data::keyspace::Keyspace;
use crate::insight::audit::LiveAudit;
use crate::powers::{ActiveHooks, Control};
use crate::script::Scripts;
use crate::spec::Table;
use debug_sleep::DebugSleep;
use debug_switches::DebugSwitches;
pub use journal::LONGEST_MARK;
use memory::EvictionProgress;
use monitors::Monitors;
pub use nodes::NodeView;
use panics::Panics;
use pause::Pause;
pub use persistence::Persistence;
use reload::LastSnapshot;
use replication::Replication;
pub use save::NamedBy;
use shutdown::Shutdown;

pub use memory::{EMPTY_SERVER, MemoryState};
pub use reload::Reload;
pub use replica::Primary;
pub use replication::{
    Acknowledgement, Due, Handover, MasterLink, ReplicaState, Rewound, SyncRequest, Synced, count_changes, each_request,
};

/// What the commands of the test powers have to know of a real server behind this one.
pub struct UpstreamInfo {
    /// Its host and port, or the path of its socket; of a deployment what the command line says.
    pub address: String,
    /// The nodes, if it is a Cluster or a Sentinel set.
    pub deployment: Option<Arc<Deployment>>,
    /// Whether its data may be deleted.
    pub is_disposable: bool,
    /// Whether commands wait for each other, so that their order on each key is known exactly.
    pub keeps_order: AtomicBool,
    /// Whether MONITOR tells what scripts did.
    pub monitors_scripts: bool,
}

/// One running server, without its sockets.
pub struct Instance {
    /// The name of the space that this is; empty for the world that clients find when they connect.
    pub space: Box<[u8]>,
    /// The other spaces and instances, once they exist.
    fleet: OnceLock<Weak<dyn Fleet>>,
    pub clock: Arc<Clock>,
    pub config: Config,
    pub profile: Profile,
    /// What this server is among the Sentinels of the process, if it is one.
    pub sentinel: Option<SentinelSeat>,
    /// The real server that has the data, if one has.
    pub upstream: Option<UpstreamInfo>,
    pub keyspace: Keyspace,
    pub scripts: Scripts,
    pub clients: Clients,
    pub pubsub: PubSub,
    /// Some client is over its soft output limit, so the next `cron` checks for how long.
    has_soft_limit_clients: AtomicBool,
    pub active_hooks: ActiveHooks,
    pub control: Arc<Control>,
    /// The number of this server among those that are audited together, from 1.
    pub number: u16,
    /// The audit that they share.
    pub audit: Arc<LiveAudit>,
    /// Looks up the processes of clients, for all servers of this process.
    identification: Arc<Identification>,
    pub tracking: Tracking,
    pub stats: Stats,
    pub slow_log: CommandLog,
    /// Commands with large requests, and with large replies (Valkey).
    pub large_requests: CommandLog,
    pub large_replies: CommandLog,
    pub latency: LatencyMonitor,
    pub rates: Rates,
    /// The most memory that was ever reported.
    pub peak_memory: AtomicU64,
    pub log: Arc<Log>,
    pub acl: Acl,
    pub persistence: Arc<Persistence>,
    /// How many files clients have created, in all spaces and instances.
    created_files: Arc<AtomicU32>,
    pause: Pause,
    /// What the clock showed at the last [`cron`](Self::cron), in milliseconds.
    cached_now: AtomicI64,
    pub identity: Identity,
    pub debug_switches: DebugSwitches,
    last_snapshot: LastSnapshot,
    monitors: Monitors,
    debug_sleep: DebugSleep,
    eviction: EvictionProgress,
    replication: Replication,
    shutdown: Arc<Shutdown>,
    panics: Arc<Panics>,
    /// The settings and users that the server was started with.
    initial: OnceLock<(Settings, acl::Snapshot)>,
}

impl Default for Instance {
    fn default() -> Self {
        Self::new(Config::default(), Profile::default(), 16)
    }
}

impl Instance {
    pub fn new(config: Config, profile: Profile, databases: u32) -> Self {
        let clock = Arc::new(Clock::new());
        let keyspace = Keyspace::new(databases, &clock);
        Self::with_keyspace(config, profile, clock, keyspace)
    }

    fn with_keyspace(config: Config, profile: Profile, clock: Arc<Clock>, keyspace: Keyspace) -> Self {
        config.imitate(profile);
        let identity = Identity::new(clock.millis());
        let cached_now = AtomicI64::new(clock.millis());
        let instance = Self {
            space: Box::default(),
            fleet: OnceLock::new(),
            clock,
            config,
            profile,
            sentinel: None,
            upstream: None,
            keyspace,
            scripts: Scripts::new(profile),
            clients: Clients::default(),
            pubsub: PubSub::default(),
            has_soft_limit_clients: AtomicBool::new(false),
            active_hooks: ActiveHooks::default(),
            control: Arc::default(),
            number: 1,
            audit: Arc::default(),
            identification: Arc::default(),
            tracking: Tracking::default(),
            stats: Stats::default(),
            slow_log: CommandLog::default(),
            large_requests: CommandLog::default(),
            large_replies: CommandLog::default(),
            latency: LatencyMonitor::default(),
            rates: Rates::default(),
            peak_memory: AtomicU64::new(0),
            log: Arc::new(Log::silent()),
            acl: Acl::default(),
            created_files: Arc::default(),
            persistence: Arc::new(Persistence::new(identity.started())),
            pause: Pause::default(),
            cached_now,
            identity,
            debug_switches: DebugSwitches::default(),
            last_snapshot: LastSnapshot::default(),
            monitors: Monitors::default(),
            debug_sleep: DebugSleep::default(),
            eviction: EvictionProgress::default(),
            replication: Replication::default(),
            shutdown: Arc::default(),
            panics: Arc::default(),
            initial: OnceLock::new(),
        };
        instance.apply_settings();
        instance.stats.set_error_overflow(error_overflow(&profile));
        instance
    }

    /// Another server of the same process, with the same settings. The two share the audit, the memory of journals, the
    /// log, the shutdown, the count of panics and the search for processes, and nothing else.
    pub fn sibling(&self, number: u16) -> Self {
        let clock = Arc::new(Clock::new());
        let keyspace = Keyspace::new(self.keyspace.databases(), &clock);
        Self { number, audit: Arc::clone(&self.audit), ..self.with_same_settings(clock, keyspace) }
    }

    /// A space behind this server's port. The clients of a server and its spaces are counted together.
    pub fn new_space(&self, name: &[u8]) -> Self {
        let clock = Arc::new(Clock::new());
        let keyspace = Keyspace::small(self.keyspace.databases(), &clock);
        let space = self.with_same_settings(clock, keyspace);
        if let Some(port) = self.identity.port.get() {
            let _ = space.identity.port.set(*port);
        }
        let audit = Arc::new(self.audit.of_space());
        let space = Self { space: name.into(), clients: Clients::beside(&self.clients), audit, ..space };
        if let Some(feed) = self.control.journal.feed() {
            space.control.journal.set_feed(feed.of_space(name));
        }
        space.reset_journal(space.audit.judge(space.number));
        space
    }

    /// A Sentinel of the process, which goes by the clock of this server. It has settings and users of its own.
    pub fn new_sentinel(&self, seat: SentinelSeat, number: u16, table: &Table) -> Self {
        let keyspace = Keyspace::small(1, &self.clock);
        let sentinel = self.with_same_settings(Arc::clone(&self.clock), keyspace);
        let of_data = ["appendonly", "maxmemory", "replicaof", "notify-keyspace-events", "journal", "audit", "persist"];
        of_data.iter().for_each(|name| sentinel.config.forget(name));
        sentinel.config.assign("requirepass", self.config.value("sentinel-requirepass"));
        let sentinel = Self { sentinel: Some(seat), number, acl: Acl::new(table), ..sentinel };
        sentinel.apply_settings();
        sentinel
    }

    fn with_same_settings(&self, clock: Arc<Clock>, keyspace: Keyspace) -> Self {
        let another = Self::with_keyspace(self.config.copy(), self.profile, clock, keyspace);
        another.control.journal.share_memory(&self.control.journal);
        Self {
            log: Arc::clone(&self.log),
            created_files: Arc::clone(&self.created_files),
            identification: Arc::clone(&self.identification),
            acl: self.acl.copy(),
            shutdown: Arc::clone(&self.shutdown),
            panics: Arc::clone(&self.panics),
            ..another
        }
    }

    /// Sets the other spaces and instances; only the first call counts.
    pub fn set_fleet(&self, fleet: Weak<dyn Fleet>) {
        let _ = self.fleet.set(fleet);
    }

    /// The other spaces and instances, as long as the server serves.
    pub fn fleet(&self) -> Option<Arc<dyn Fleet>> {
        self.fleet.get().and_then(Weak::upgrade)
    }
}

/// What the imitated release does when there are too many error codes.
fn error_overflow(profile: &Profile) -> ErrorOverflow {
    if profile.has(Since::valkey(8, 0, 0)) {
        ErrorOverflow::Together
    } else if profile.has(Since::redis(7, 4, 0)) {
        ErrorOverflow::Disable
    } else {
        ErrorOverflow::Ignore
    }
}
