//! Building and starting servers from Rust.

use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use tokio::runtime::Runtime;

use super::bind::bind_tcp;
use super::bound_address::BoundAddress;
use super::bound_servers::BoundServers;
use super::failover::address_of;
use super::handle::{Server, Servers};
use super::load::{load, load_kept};
use super::node::Node;
use super::nodes::Nodes;
use super::sentinels::{Listening, MOST_SENTINELS, open_sentinels};
use super::upstream::{
    DeploymentFront, DeploymentSettings, PortPool, PortRange, Target, TargetSettings, wipe_all_from, wipe_from,
};
use super::worker::{Workers, event_loop};
use crate::base::duration::spell_duration;
use crate::base::error::Error;
use crate::base::log::Log;
use crate::base::profile::Profile;
use crate::clients::acl::Acl;
use crate::clients::config::Config;
use crate::clients::fleet::MOST_INSTANCES;
use crate::clients::instance::{Instance, Primary, UpstreamInfo};
use crate::commands::{self, Command, Handlers};
use crate::engine::Engine;
use crate::insight::audit::{Allowance, Code, Judgement, LiveAudit, Scope};
use crate::spec::{Group, RenameError, Table};

/// The settings of a server before it starts.
pub struct Builder {
    bind: Vec<String>,
    port: Option<u16>,
    databases: u32,
    threads: usize,
    instances: usize,
    /// The replicas of each instance.
    replicas: usize,
    profile: Profile,
    config: Config,
    seeds: Vec<PathBuf>,
    /// The URLs of the real servers behind the instances, one each.
    upstreams: Vec<String>,
    scope: Scope,
    log: Arc<Log>,
    /// The commands of the server, before its profile selects among them.
    commands: Vec<&'static Command>,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            bind: vec!["127.0.0.1".to_owned()],
            port: Some(0),
            databases: 16,
            threads: 1,
            instances: 1,
            replicas: 0,
            profile: Profile::default(),
            config: Config::default(),
            seeds: Vec::new(),
            upstreams: Vec::new(),
            scope: Scope::default(),
            log: Arc::new(Log::silent()),
            commands: commands::all().collect(),
        }
    }
}

impl Builder {
    /// A server with a configuration.
    pub(crate) fn from_config(config: Config, profile: Profile, log: Arc<Log>) -> Self {
        let port: u16 = config.number("port");
        // `redis-server` treats port 0 as no TCP. Without a unix socket or TLS that would leave nothing to listen on, so
        // then it means any free port.
        let off = port == 0 && (config.path("unixsocket").is_some() || config.serves_tls());
        Self {
            bind: config.text("bind").split_whitespace().map(str::to_owned).collect(),
            port: (!off).then_some(port),
            databases: config.number("databases"),
            threads: config.number("io-threads"),
            instances: config.number("instances"),
            replicas: config.number("replicas"),
            profile,
            seeds: config.paths("load"),
            upstreams: config.upstreams(),
            scope: config.lock_scope(),
            config,
            log,
            commands: commands::all().collect(),
        }
    }

    /// A server for a command that finds it by a port: 0 is any free one, also beside a unix socket. With TLS, it is the
    /// port for TLS.
    pub(crate) fn for_command(config: Config, profile: Profile, log: Arc<Log>) -> Self {
        let port: u16 = config.number("port");
        let serves_only_tls = port == 0 && config.serves_tls();
        let builder = Self::from_config(config, profile, log);
        if serves_only_tls { builder } else { builder.port(port) }
    }

    /// The TCP port on the loopback interface; 0 selects a free one.
    pub fn port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }

    /// Listens on a unix socket only, without TCP.
    pub fn unix_socket_only(mut self, path: impl Into<PathBuf>) -> Self {
        self.port = None;
        self.unix_socket(path)
    }

    /// Listens on a unix socket, too.
    pub fn unix_socket(self, path: impl Into<PathBuf>) -> Self {
        self.config.assign("unixsocket", path.into().into_os_string().into_vec());
        self
    }

    /// The addresses to listen on. Default: `127.0.0.1`.
    pub fn bind<A: Into<String>>(mut self, addresses: impl IntoIterator<Item = A>) -> Self {
        self.bind = addresses.into_iter().map(Into::into).collect();
        self
    }

    /// Serves TLS with throw-away certificates, and nothing without TLS: [`url`](crate::World::url) is then
    /// `rediss://127.0.0.1:PORT`. What clients need stands in the directory: `ca.crt` to trust, and `client.crt` with
    /// `client.key` for those that want to show a certificate. If the directory has no such files, they are made; their
    /// names are `localhost`, `127.0.0.1`, `::1` and that of this machine.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = std::env::temp_dir().join(format!("redouble-doc-tls-{}", std::process::id()));
    /// let server = redouble::Server::builder().tls_self_signed(&folder).spawn()?;
    /// assert!(server.url().starts_with("rediss://127.0.0.1:"));
    /// assert!(folder.join("ca.crt").exists());
    /// # std::fs::remove_dir_all(&folder)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn tls_self_signed(mut self, directory: impl Into<PathBuf>) -> Self {
        self.config.assign("tls-self-signed", directory.into().into_os_string().into_vec());
        self.port = None;
        self
    }

    /// The number of databases. Default: 16.
    pub fn databases(mut self, databases: u32) -> Self {
        self.databases = databases.max(1);
        self
    }

    /// The number of threads that serve connections. Default: 1.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads.max(1);
        self
    }

    /// The server and version to imitate.
    pub fn compat(mut self, profile: Profile) -> Self {
        self.profile = profile;
        self
    }

    /// Whether clients can use the REDOUBLE commands. Default: yes. The methods of [`Server`] work either way.
    pub fn control(self, control: bool) -> Self {
        self.config.assign("control", if control { "yes" } else { "no" });
        self
    }

    /// Keeps a journal of every command from the start, in `bytes` bytes of memory. Default: off.
    pub fn journal(self, bytes: usize) -> Self {
        self.config.assign("journal", "yes");
        self.config.assign("journal-size", bytes.to_string());
        self
    }

    /// What the journals of all servers and [spaces](Server::space) may take together, in bytes. The fullest of them forgets its
    /// oldest entries first. Default: sixteen times the size of one.
    pub fn journal_memory(self, bytes: usize) -> Self {
        self.config.assign("journal-memory", bytes.to_string());
        self
    }

    /// Starts the lock auditor with the server. It needs a journal, which is switched on, too. Default: off. See
    /// [`World::audit`](crate::World::audit).
    pub fn audit(self) -> Self {
        self.config.assign("audit", "yes");
        self
    }

    /// About what the auditors of all servers and [spaces](Server::space) may take together to know who holds which lock, in
    /// bytes. The one that knows most forgets it first. Default: 1 GiB.
    pub fn audit_memory(self, bytes: usize) -> Self {
        self.config.assign("audit-memory", bytes.to_string());
        self
    }

    /// Keys that are locks, whatever clients do with them, as a glob. Can be repeated.
    pub fn locks(mut self, keys: impl Into<Vec<u8>>) -> Self {
        self.scope.locks.push(keys.into());
        self
    }

    /// Keys that are not locks, whatever clients do with them, as a glob. Can be repeated.
    pub fn not_locks(mut self, keys: impl Into<Vec<u8>>) -> Self {
        self.scope.not_locks.push(keys.into());
        self
    }

    /// Keys with data that must not be lost, as a glob: there a lost update is an error, whoever makes it. Can be
    /// repeated.
    pub fn resources(mut self, keys: impl Into<Vec<u8>>) -> Self {
        self.scope.resources.push(keys.into());
        self
    }

    /// Allows a kind of finding, or every kind (`None`), for locks whose key matches a glob, with a reason. Can be
    /// repeated.
    ///
    /// ```
    /// # fn main() -> Result<(), redouble::Error> {
    /// use redouble::{Code, Server};
    /// let server = Server::builder().audit().allow(Code::NoExpiry, "leader:*", "there is one leader for ever").spawn()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn allow(mut self, code: impl Into<Option<Code>>, keys: impl Into<Vec<u8>>, reason: impl Into<String>) -> Self {
        self.scope.allowed.push(Allowance { code: code.into(), keys: keys.into(), reason: reason.into() });
        self
    }

    /// The longest time, in real time, for which a gate holds a command before it releases it by itself. Zero means no
    /// limit. Default: one minute.
    pub fn gate_timeout(self, timeout: Duration) -> Self {
        self.config.assign("gate-timeout", spell_duration(timeout));
        self
    }

    /// SELECT enters the [space](Server::space) that is named like the database number, so that a URL with a database
    /// number is enough to isolate a test. SELECT 0 returns to the root world.
    pub fn spaces_by_database(self) -> Self {
        self.config.assign("spaces-by-database", "yes");
        self
    }

    /// The password that clients must give first.
    pub fn password(self, password: impl Into<Vec<u8>>) -> Self {
        self.config.assign("requirepass", password);
        self
    }

    /// Lets clients write files anywhere: `REDOUBLE SAVE` and `REDOUBLE JOURNAL EXPORT` with any path, over symbolic links.
    /// Default: only inside the directory in which the process runs. [`Server::save`](crate::World::save) and
    /// [`JournalGuard::export`](crate::JournalGuard::export) write anywhere either way.
    pub fn enable_paths_outside_dir(self) -> Self {
        self.config.assign("enable-paths-outside-dir", "yes");
        self
    }

    /// Loads a file at the start: a Redis snapshot (`dump.rdb`), an append-only file, or a text file with one command a
    /// line, quoted as for `redis-cli`, as `REDOUBLE SAVE` writes it. Can be repeated; files are loaded in this order,
    /// before any client is served. If a file cannot be loaded the server does not start, and the error says where and
    /// why.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let path = std::env::temp_dir().join(format!("redouble-doc-{}.txt", std::process::id()));
    /// std::fs::write(&path, "SET lock:reports worker-1\nHSET job:1 state done tries 3\n")?;
    /// let server = redouble::Server::builder().load(&path).spawn()?;
    /// # std::fs::remove_file(&path)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn load(mut self, path: impl Into<PathBuf>) -> Self {
        self.seeds.push(path.into());
        self
    }

    /// Keeps the data in a file, as `--persist` does: a Redis snapshot (`dump.rdb`), which is loaded at the start if it is
    /// there. It is written when the server is dropped, and on the clients' SAVE, BGSAVE and SHUTDOWN. Only for one
    /// instance.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = std::env::temp_dir().join(format!("redouble-doc-persist-{}", std::process::id()));
    /// # std::fs::create_dir_all(&folder)?;
    /// let server = redouble::Server::builder().persist(folder.join("dump.rdb")).spawn()?;
    /// drop(server); // a new one with the same file has the same data
    /// assert!(folder.join("dump.rdb").exists());
    /// # std::fs::remove_dir_all(&folder)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn persist(self, file: impl Into<PathBuf>) -> Self {
        let file = file.into();
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        self.config.assign("dir", folder.as_os_str().as_bytes());
        self.config.assign("dbfilename", file.file_name().unwrap_or_default().as_bytes());
        self.config.assign("save", "");
        self.config.assign("persist", "yes");
        self
    }

    /// Stands in front of a real server instead of having data: `redis://[[user]:password@]host[:port][/db]`, `rediss://…`
    /// or `unix:/path`. Each client gets a connection of its own to it. Can be repeated: each URL is one instance (see
    /// [`spawn_all`](Self::spawn_all)). The clock, spaces, and what loads or saves data are not available then.
    pub fn upstream(mut self, url: impl Into<String>) -> Self {
        self.upstreams.push(url.into());
        self.instances = self.upstreams.len();
        self
    }

    /// Stands in front of a Redis Cluster: a local port for each of its nodes, and every address that clients are told is one
    /// of those. `nodes` names one or more of them: `redis://127.0.0.1:7001,127.0.0.1:7002`.
    pub fn upstream_cluster(self, nodes: impl Into<Vec<u8>>) -> Self {
        self.config.assign("upstream-cluster", crate::protocol::quote(&nodes.into()));
        self
    }

    /// Stands in front of Sentinels and the servers of one master that they watch: a local port for each of them. The
    /// Sentinels are a list such as `127.0.0.1:26379,127.0.0.1:26380`.
    pub fn upstream_sentinel(self, sentinels: impl Into<Vec<u8>>, service: impl Into<Vec<u8>>) -> Self {
        self.config.assign("upstream-sentinel", crate::protocol::quote(&sentinels.into()));
        self.config.assign("service", service.into());
        self
    }

    /// Allows what deletes the data of the upstream servers: [`reset`](crate::World::reset) and exploring.
    pub fn upstream_disposable(self) -> Self {
        self.config.assign("upstream-disposable", "yes");
        self
    }

    /// Records the exact order of the commands on each key of an upstream server: a command waits as long as another
    /// client's on a common key has no reply. By default the order of commands that overlap is not known.
    pub fn upstream_exact_order(self) -> Self {
        self.config.assign("upstream-order", "exact");
        self
    }

    /// The number of instances, 1 to 64. They listen on consecutive ports from [`port`](Self::port) on, or each on a
    /// free one. Default: 1. See [`spawn_all`](Self::spawn_all).
    pub fn instances(mut self, instances: usize) -> Self {
        self.instances = instances;
        self
    }

    /// So many Sentinels, 1 to 9, that monitor the instances: each has a port of its own. The master is `mymaster`, that of
    /// the second instance `mymaster2`, and so on. See [`Server::sentinels`].
    pub fn sentinels(self, sentinels: usize) -> Self {
        self.config.assign("sentinels", sentinels.to_string());
        self
    }

    /// The number of replicas of each instance. They are instances themselves: their numbers and ports are behind those of all
    /// masters, first those of the first one's replicas. Together there are at most 64. Default: 0. See
    /// [`Server::replicas`](crate::Server::replicas).
    ///
    /// ```
    /// # fn main() -> Result<(), redouble::Error> {
    /// let master = redouble::Server::builder().replicas(1).spawn()?;
    /// master.hold_links()?;
    /// // a client takes a lock at master.url(), which is not replicated any more
    /// let new_master = master.fail_over()?;
    /// // another client takes the same lock at new_master.url()
    /// # Ok(())
    /// # }
    /// ```
    pub fn replicas(mut self, replicas: usize) -> Self {
        self.replicas = replicas;
        self
    }

    /// Starts the server on its own threads, and returns once it accepts connections. With [`replicas`](Self::replicas), the
    /// handle is that of the master.
    pub fn spawn(self) -> Result<Server, Error> {
        if self.instances != 1 {
            let instances = self.instances;
            return Err(Error::Config(format!("spawn starts one instance, not {instances}; spawn_all starts several")));
        }
        let mut servers = self.spawn_all()?.into_iter();
        servers.next().ok_or_else(|| Error::Config("there is no instance".into()))
    }

    /// Starts all [`instances`](Self::instances) on shared threads, and returns once all of them accept connections.
    ///
    /// ```
    /// # fn main() -> Result<(), redouble::Error> {
    /// let servers = redouble::Server::builder().instances(5).spawn_all()?;
    /// println!("{}", servers.urls().join(" "));
    /// servers[3].stop()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn spawn_all(self) -> Result<Servers, Error> {
        let (sender, receiver) = mpsc::channel();
        let thread = std::thread::Builder::new().name("redouble".into()).spawn(move || {
            let started = self.start();
            match started {
                Ok(running) => {
                    if sender.send(Ok(Arc::clone(&running.nodes))).is_ok() {
                        return running.serve();
                    }
                }
                Err(error) => drop(sender.send(Err(error))),
            }
            Ok(())
        })?;
        let nodes = receiver
            .recv()
            .unwrap_or_else(|_| Err(Error::Io(std::io::Error::other("the server's thread ended before it started"))))?;
        Ok(Servers::new(nodes, thread))
    }

    /// Adds a command and a log, for a test of this crate.
    #[cfg(test)]
    pub(super) fn with_command(mut self, command: &'static Command, log: Log) -> Self {
        self.commands.push(command);
        self.log = Arc::new(log);
        self
    }

    /// Binds every address. No connection is served before [`BoundServers::serve`].
    pub(crate) fn start(mut self) -> Result<BoundServers, Error> {
        self.check()?;
        let targets = self.targets()?;
        let (total, masters) = (self.total(), self.instances);
        let deployment = self.deployment()?;
        let main = event_loop()?;
        let others: Vec<Runtime> = (1..self.threads).map(|_| event_loop()).collect::<Result<_, _>>()?;
        let loops = std::iter::once(&main).chain(&others).map(|runtime| runtime.handle().clone());
        let workers = Arc::new(Workers::new(loops));
        let is_controlled = self.config.is_on("control");
        let handlers = Handlers::new(self.commands.iter().copied());
        let rows = commands::rows(self.commands).into_iter();
        let rows = rows.filter(|row| is_controlled || row.spec.group != Group::Control);
        // A real server can be of any release.
        let has_upstream = !targets.is_empty() || deployment.is_some();
        let mut table = if has_upstream { Table::of_every_profile(rows) } else { Table::new(rows, self.profile) };
        for rename in self.config.renames() {
            let refused = |error: RenameError| Error::Config(error.text().to_owned());
            table = table.rename(&rename.name, &rename.new).map_err(refused)?;
        }
        let mut instance = Instance::new(self.config, self.profile, self.databases);
        instance.log = self.log;
        instance.acl = Acl::new(&table);
        instance.audit = Arc::new(LiveAudit::new(table.clone(), self.scope, instance.config.is_on("audit")));
        instance.audit.limit_memory(instance.config.number("audit-memory"));
        instance.apply_settings();
        instance.load_users().map_err(Error::Config)?;
        let config = &instance.config;
        config.assign("compat", self.profile.name());
        config.assign("bind", self.bind.join(" "));
        config.assign("databases", self.databases.to_string());
        config.assign("io-threads", self.threads.to_string());
        let backlog = config.number("tcp-backlog");
        if let Some((files, is_made)) = config.use_self_signed().map_err(Error::Config)? {
            let action = if is_made { "were made in" } else { "are those of" };
            instance.log.notice(format!("The throw-away certificates {action} {}", files.directory().display()));
        }
        // Whether the plain port is off was decided above, by the builder or the configuration.
        let tls_port = config.serves_tls().then(|| config.number::<u16>("tls-port"));
        let siblings: Vec<Instance> = (2..).take(total - 1).map(|number| instance.sibling(number)).collect();
        let mut nodes: Vec<Arc<Node>> = Vec::new();
        let mut targets = targets.into_iter();
        let mut deployment = deployment;
        for (mut instance, number) in std::iter::once(instance).chain(siblings).zip(1_u16..) {
            let target = targets.next();
            if let Some(target) = &target {
                if target.is_socket() && instance.config.text("upstream-scripts") == "monitor" {
                    let address = target.address();
                    instance.log.warn(format!(
                        "Upstream {address}: upstream-scripts monitor has no effect, because MONITOR does not tell the \
                         clients of a unix socket apart; what scripts did is told from their texts and replies"
                    ));
                }
                instance.upstream =
                    Some(upstream_info(&instance, target.address(), target.is_insecure(), target.is_socket()));
            }
            if let Some(settings) = &deployment {
                instance.upstream = Some(upstream_info(&instance, settings.address(), settings.is_insecure(), false));
            }
            let mut bound = Vec::new();
            if let Some(first) = self.port.filter(|_| deployment.is_none()) {
                let port = if first == 0 { 0 } else { first + (number - 1) };
                for listener in bind_tcp(&self.bind, port, backlog, &instance.log)? {
                    bound.push(BoundAddress::tcp(listener, backlog, false)?);
                }
            }
            if tls_port.is_some() {
                let refused = |reason| Error::Config(format!("Failed to configure TLS: {reason}"));
                instance.config.start_tls().map_err(refused)?;
            }
            if let Some(first) = tls_port.filter(|_| deployment.is_none()) {
                let port = if first == 0 { 0 } else { first + (number - 1) };
                for listener in bind_tcp(&self.bind, port, backlog, &instance.log)? {
                    bound.push(BoundAddress::tcp(listener, backlog, true)?);
                }
            }
            let mut port = bound.iter().find_map(BoundAddress::plain_address).map(|address| address.port());
            let mut tls_port_bound = bound.iter().find_map(BoundAddress::tls_address).map(|address| address.port());
            let mut front = None;
            if let Some(settings) = deployment.take() {
                let range = Some(instance.config.text("port-range")).filter(|range| !range.is_empty());
                let range = range.map(|range| PortRange::parse(&range)).transpose().map_err(Error::Config)?;
                let pool = PortPool::new(self.bind.clone(), backlog, self.port, tls_port, range);
                let starting = DeploymentFront::start(settings, pool, &instance.config, &instance.log);
                let opened = main.block_on(starting)?;
                let first = opened.first();
                port = first.as_ref().map(|first| first.node.port()).filter(|port| *port != 0);
                tls_port_bound = first.as_ref().map(|first| first.node.tls_port()).filter(|port| *port != 0);
                if let Some(upstream) = &mut instance.upstream {
                    upstream.deployment = Some(Arc::clone(opened.deployment()));
                }
                front = Some(opened);
            }
            let master = master_of(usize::from(number), masters, self.replicas).and_then(|place| nodes.get(place));
            instance.config.assign("port", port.unwrap_or(0).to_string());
            instance.config.assign("tls-port", tls_port_bound.unwrap_or(0).to_string());
            if let Some(port) = port.or(tls_port_bound) {
                let _ = instance.identity.port.set(port);
            }
            if let Some(path) = instance.config.live().unix_socket() {
                let mode = u32::from_str_radix(&instance.config.text("unixsocketperm"), 8);
                bound.push(BoundAddress::unix(path, mode.unwrap_or(0))?);
            }
            if bound.is_empty() && port.or(tls_port_bound).is_none() {
                return Err(Error::Config("Configured to not listen anywhere".into()));
            }
            if let Some(master) = master {
                // Nobody else has it yet.
                if let Some(control) = Arc::get_mut(&mut instance.control) {
                    control.explorer = Arc::clone(&master.instance().control.explorer);
                }
                let Primary { host, port } = address_of(master);
                instance.config.assign("replicaof", [&host[..], b" ", port.to_string().as_bytes()].concat());
                instance.apply_settings();
            }
            let instance = Arc::new(instance);
            instance.join_audit();
            let engine = Engine::with_handlers(instance, table.clone(), handlers.clone());
            let engine = match (&target, &front) {
                (Some(target), _) => engine.in_front_of_upstream(wipe_from(target, main.handle())),
                (None, Some(front)) => engine.in_front_of_upstream(wipe_all_from(front, main.handle())),
                (None, None) => engine,
            };
            let node = Node::new(usize::from(number), engine, target, front, bound, &workers, main.handle());
            if let Some(master) = master {
                node.part().begin_as_replica_of(master.number());
            }
            let persists = node.root().instance.config.is_on("persist");
            if persists {
                load_kept(node.root())?;
            }
            if !node.part().is_first_replica() {
                self.seeds.iter().try_for_each(|path| load(node.root(), path))?;
            }
            if persists {
                node.root().instance.keep_data();
            }
            // The journal excludes loaded data.
            node.root().instance.reset_journal(Judgement::default());
            main.spawn(Arc::clone(&node.instance().clock).run_alarms());
            nodes.push(node);
        }
        let with_tls = self.port.is_none() && tls_port.is_some();
        let listening = Listening { hosts: &self.bind, port: self.port.or(tls_port), with_tls, backlog };
        let sentinels = match nodes.first() {
            Some(first) => open_sentinels(first, nodes.len(), &listening, &workers, main.handle())?,
            None => None,
        };
        let nodes = Nodes::new(nodes, sentinels);
        nodes.servers().try_for_each(|node| node.open().and_then(|()| node.open_deployment()))?;
        nodes.call_links();
        nodes.bring_replicas_up_to_date();
        nodes.begin_monitoring();
        main.spawn(Arc::clone(&nodes).watch_as_sentinels());
        for front in nodes.all().iter().filter_map(|node| node.deployment()) {
            main.spawn(Arc::clone(front).keep_looking());
        }
        let first = nodes.first().map(|node| Arc::clone(node.instance()));
        let instance = first.ok_or_else(|| Error::Config("there is no instance".into()))?;
        Ok(BoundServers { main, others, nodes, instance })
    }

    /// The Cluster or the Sentinel set behind the instance, if there is one.
    fn deployment(&self) -> Result<Option<DeploymentSettings>, Error> {
        let settings = DeploymentSettings::from_config(&self.config).map_err(Error::Config)?;
        if settings.is_some() {
            if !self.upstreams.is_empty() {
                let text =
                    "upstream is one server; with upstream-cluster or upstream-sentinel there is a deployment already";
                return Err(Error::Config(text.into()));
            }
            if self.instances != 1 {
                let text = "a deployment is one instance: instances is for servers with data of their own";
                return Err(Error::Config(text.into()));
            }
            self.check_for_upstream()?;
        } else if !self.config.text("port-range").is_empty() {
            return Err(Error::Config("port-range is for upstream-cluster and upstream-sentinel".into()));
        }
        Ok(settings)
    }

    /// The real servers behind the instances; their number is that of the instances.
    fn targets(&mut self) -> Result<Vec<Arc<Target>>, Error> {
        let settings = TargetSettings::from_config(&self.config);
        let target = |url: &String| Target::new(url, &settings).map(Arc::new).map_err(Error::Config);
        let targets: Vec<_> = self.upstreams.iter().map(target).collect::<Result<_, _>>()?;
        if targets.is_empty() {
            return Ok(targets);
        }
        self.check_for_upstream()?;
        if self.instances != 1 && self.instances != targets.len() {
            let (instances, upstreams) = (self.instances, targets.len());
            return Err(Error::Config(format!("each upstream is one instance: {upstreams} are not {instances}")));
        }
        self.instances = targets.len();
        Ok(targets)
    }

    /// Refuses what an upstream server has, and not this one.
    fn check_for_upstream(&self) -> Result<(), Error> {
        let config = &self.config;
        if self.replicas > 0 {
            return Err(Error::Config("replicas are about data, which the upstream server has".into()));
        }
        let has_data = !self.seeds.is_empty() || config.is_on("persist") || config.is_on("spaces-by-database");
        if has_data {
            let text = "load, persist and spaces-by-database are about data, which the upstream server has";
            return Err(Error::Config(text.into()));
        }
        if config.number::<usize>("sentinels") > 0 {
            let text = "sentinels are for instances with data of their own; those of real servers: upstream-sentinel";
            return Err(Error::Config(text.into()));
        }
        if config.is_on("appendonly") || config.number::<u64>("maxmemory") > 0 {
            let text = "appendonly and maxmemory are about data, which the upstream server has";
            return Err(Error::Config(text.into()));
        }
        if config.live().password().is_some() || config.path("aclfile").is_some() {
            let text = "requirepass and aclfile are about users, which the upstream server has";
            return Err(Error::Config(text.into()));
        }
        Ok(())
    }

    /// The number of instances, with their replicas.
    fn total(&self) -> usize {
        self.instances.saturating_mul(self.replicas.saturating_add(1))
    }

    /// Checks the settings for this number of instances.
    fn check(&self) -> Result<(), Error> {
        let instances = self.total();
        if self.replicas > 0 && instances > MOST_INSTANCES {
            return Err(Error::Config(format!(
                "there are at most {MOST_INSTANCES} instances, and with their replicas these would be {instances}"
            )));
        }
        if self.replicas > 0 && self.port.is_none() {
            return Err(Error::Config("replicas are found by a TCP port without TLS".into()));
        }
        if !(1..=MOST_INSTANCES).contains(&instances) {
            return Err(Error::Config(format!("instances must be 1 to {MOST_INSTANCES}, not {instances}")));
        }
        let sentinels = self.config.number::<usize>("sentinels");
        if sentinels > MOST_SENTINELS {
            return Err(Error::Config(format!("there are at most {MOST_SENTINELS} Sentinels, not {sentinels}")));
        }
        if instances > 1 && self.config.is_on("persist") {
            return Err(Error::Config(format!("{instances} instances cannot share dbfilename; --persist is for one")));
        }
        if instances > 1 && self.config.path("unixsocket").is_some() {
            return Err(Error::Config(format!(
                "{instances} instances cannot share a unix socket; each has a TCP port"
            )));
        }
        if let Some(allowance) = self.scope.allowed.iter().find(|allowance| allowance.reason.trim().is_empty()) {
            let keys = String::from_utf8_lossy(&allowance.keys);
            let code = allowance.code.map_or("*", Code::name);
            return Err(Error::Config(format!("to allow '{code}' for '{keys}' takes a reason")));
        }
        for port in self.port.into_iter().chain([self.config.number("tls-port")]) {
            if usize::from(port) + instances - 1 > usize::from(u16::MAX) {
                return Err(Error::Config(format!("there are no {instances} ports in a row from {port} on")));
            }
        }
        Ok(())
    }
}

/// The place among the instances of the master whose replica the one with this number is, if it is one.
fn master_of(number: usize, masters: usize, replicas: usize) -> Option<usize> {
    Some(number.checked_sub(masters + 1)? / replicas.max(1))
}

/// What the test powers have to know of the real servers behind an instance.
fn upstream_info(instance: &Instance, address: String, is_insecure: bool, is_socket: bool) -> UpstreamInfo {
    let config = &instance.config;
    if is_insecure {
        instance.log.warn(format!(
            "Upstream {address}: upstream-insecure is on, so nobody checks who the server is. Anybody between it and this \
             program can read and change everything."
        ));
    }
    UpstreamInfo {
        address,
        deployment: None,
        is_disposable: config.is_on("upstream-disposable"),
        keeps_order: (config.text("upstream-order") == "exact").into(),
        monitors_scripts: config.text("upstream-scripts") == "monitor" && !is_socket,
    }
}
