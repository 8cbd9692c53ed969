//! Starting and stopping a server from Rust.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use std::task::Poll;
use std::time::Duration;

use tokio::net::{TcpListener, UnixListener};
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::bind::{bind_tcp, bind_unix};
use super::handle::Server;
use super::listener::{Listener, accept};
use super::worker::{Workers, event_loop};
use crate::acl::Acl;
use crate::clock::Clock;
use crate::commands;
use crate::config::Config;
use crate::engine::Engine;
use crate::error::Error;
use crate::instance::Instance;
use crate::log::{Level, Log};
use crate::profile::Profile;
use crate::session::Signal;
use crate::spec::{Group, Table};

/// What a server is to be like before it starts.
pub struct Builder {
    bind: Vec<String>,
    port: Option<u16>,
    databases: u32,
    threads: usize,
    profile: Profile,
    config: Config,
    log: Arc<Log>,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            bind: vec!["127.0.0.1".to_owned()],
            port: Some(0),
            databases: 16,
            threads: 1,
            profile: Profile::default(),
            config: Config::default(),
            log: Arc::new(Log::silent()),
        }
    }
}

impl Builder {
    /// A server as a configuration describes it.
    pub(crate) fn from_config(config: Config, profile: Profile, log: Arc<Log>) -> Self {
        let port: u16 = config.number("port");
        // For `redis-server` port 0 means no TCP; alone that would leave nothing to listen on, so then any port does.
        let off = port == 0 && config.path("unixsocket").is_some();
        Self {
            bind: config.text("bind").split_whitespace().map(str::to_owned).collect(),
            port: (!off).then_some(port),
            databases: config.number("databases"),
            threads: config.number("io-threads"),
            profile,
            config,
            log,
        }
    }

    /// The TCP port on the loopback interface; 0 for a free one.
    pub fn port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }

    /// No TCP at all, only a unix socket.
    pub fn unix_socket_only(mut self, path: impl Into<PathBuf>) -> Self {
        self.port = None;
        self.unix_socket(path)
    }

    /// Also listens on a unix socket.
    pub fn unix_socket(self, path: impl Into<PathBuf>) -> Self {
        self.config.assign("unixsocket", path.into().into_os_string().into_vec());
        self
    }

    /// The addresses to listen on; `127.0.0.1` unless this says otherwise.
    pub fn bind<A: Into<String>>(mut self, addresses: impl IntoIterator<Item = A>) -> Self {
        self.bind = addresses.into_iter().map(Into::into).collect();
        self
    }

    /// How many databases there are; 16 unless this says otherwise.
    pub fn databases(mut self, databases: u32) -> Self {
        self.databases = databases.max(1);
        self
    }

    /// How many threads serve connections; one unless this says otherwise.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads.max(1);
        self
    }

    /// Which server to behave as.
    pub fn compat(mut self, profile: Profile) -> Self {
        self.profile = profile;
        self
    }

    /// Whether clients have the REDOUBLE commands; they do unless this says otherwise. The handle has its powers either way.
    pub fn control(self, control: bool) -> Self {
        self.config.assign("control", if control { "yes" } else { "no" });
        self
    }

    /// A password that clients must give before anything else.
    pub fn password(self, password: impl Into<Vec<u8>>) -> Self {
        self.config.assign("requirepass", password);
        self
    }

    /// Starts the server on threads of its own and returns once it can be connected to.
    pub fn spawn(self) -> Result<Server, Error> {
        let (sender, receiver) = mpsc::channel();
        let thread = std::thread::Builder::new().name("redouble".into()).spawn(move || {
            let started = self.start();
            match started {
                Ok(running) => {
                    let handle = (Arc::clone(&running.engine), running.addresses.clone());
                    if sender.send(Ok(handle)).is_ok() {
                        return running.serve();
                    }
                }
                Err(error) => drop(sender.send(Err(error))),
            }
            Ok(())
        })?;
        let (engine, addresses) = receiver
            .recv()
            .unwrap_or_else(|_| Err(Error::Io(std::io::Error::other("the server's thread ended before it started"))))?;
        Ok(Server::new(engine, addresses, thread))
    }

    /// Binds every address; nobody is served until [`Running::serve`].
    pub(crate) fn start(self) -> Result<Running, Error> {
        let main = event_loop()?;
        let others: Vec<Runtime> = (1..self.threads).map(|_| event_loop()).collect::<Result<_, _>>()?;
        let is_controlled = self.config.is_on("control");
        let rows = commands::all().filter(|row| is_controlled || row.group != Group::Control);
        let table = Table::new(rows, self.profile);
        let mut instance = Instance::new(self.config, self.profile, self.databases);
        instance.log = self.log;
        instance.acl = Acl::new(&table);
        instance.apply_settings();
        instance.load_users().map_err(Error::Config)?;
        let config = &instance.config;
        config.assign("compat", self.profile.name());
        config.assign("bind", self.bind.join(" "));
        config.assign("databases", self.databases.to_string());
        config.assign("io-threads", self.threads.to_string());
        let (backlog, mode) = (config.number("tcp-backlog"), u32::from_str_radix(&config.text("unixsocketperm"), 8));
        let instance = Arc::new(instance);
        let engine = Arc::new(Engine::new(instance, table));
        let mut listeners = Vec::new();
        let mut addresses = Vec::new();
        let _entered = main.enter();
        if let Some(port) = self.port {
            for listener in bind_tcp(&self.bind, port, backlog, &engine.instance.log)? {
                addresses.push(listener.local_addr()?);
                listeners.push(Listener::Tcp(TcpListener::from_std(listener)?));
            }
        }
        let port = addresses.first().map_or(0, SocketAddr::port);
        engine.instance.config.assign("port", port.to_string());
        if let Some(address) = addresses.first() {
            let _ = engine.instance.identity.port.set(address.port());
        }
        if let Some(path) = engine.instance.config.live().unix_socket() {
            let listener = bind_unix(&path, mode.unwrap_or(0))?;
            listeners.push(Listener::Unix(UnixListener::from_std(listener)?, path));
        }
        if listeners.is_empty() {
            return Err(Error::Config("Configured to not listen anywhere".into()));
        }
        drop(_entered);
        Ok(Running { main, others, engine, listeners, addresses })
    }
}

/// A server that is bound and about to serve.
pub(crate) struct Running {
    main: Runtime,
    others: Vec<Runtime>,
    engine: Arc<Engine>,
    listeners: Vec<Listener>,
    addresses: Vec<SocketAddr>,
}

impl Running {
    pub(crate) fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    pub(crate) fn instance(&self) -> &Arc<Instance> {
        &self.engine.instance
    }

    /// The event loop that [`Running::serve`] runs, for what else is to run beside the server.
    pub(crate) fn event_loop(&self) -> &tokio::runtime::Handle {
        self.main.handle()
    }

    /// Serves on this thread, and on one more for each further event loop, until the server is shut down.
    pub(crate) fn serve(self) -> Result<(), Error> {
        let Self { main, others, engine, listeners, .. } = self;
        let loops = std::iter::once(&main).chain(&others).map(|runtime| runtime.handle().clone());
        let workers = Arc::new(Workers::new(loops, &engine.instance.stats));
        let others: Vec<WorkerThread> = others.into_iter().map(WorkerThread::start).collect::<Result<_, _>>()?;
        let accepting: Vec<_> = listeners
            .into_iter()
            .map(|listener| main.spawn(accept(listener, Arc::clone(&engine), Arc::clone(&workers))))
            .collect();
        main.spawn(Arc::clone(&engine.instance.clock).drive());
        main.spawn(housekeeping(Arc::clone(&engine)));
        main.block_on(async {
            poll_fn(|cx| if engine.instance.is_shutting_down(cx.waker()) { Poll::Ready(()) } else { Poll::Pending })
                .await;
            // What Redis found worth a warning until 7.2 is only a notice since.
            let level = if engine.instance.profile.since_redis(7, 2) { Level::Notice } else { Level::Warning };
            engine.instance.log.write(level, "User requested shutdown...");
            for name in engine.instance.control.faults.never_fired() {
                engine.instance.log.notice(format!("The fault '{name}' has never fired."));
            }
            accepting.iter().for_each(JoinHandle::abort);
            drain(&engine).await;
        });
        drop(others);
        drop(main);
        if let Some(path) = engine.instance.config.live().unix_socket() {
            engine.instance.log.notice("Removing the unix socket file.");
            // Somebody may have cleaned up already.
            let _ = std::fs::remove_file(path);
        }
        Ok(())
    }
}

/// Lets replies that are on their way arrive, for a while.
async fn drain(engine: &Engine) {
    const STEP: Duration = Duration::from_millis(1);
    const STEPS: usize = 500;
    let clients = &engine.instance.clients;
    clients.signal_all(Signal::Close);
    for _ in 0..STEPS {
        // One may have begun since the server was asked to end.
        engine.instance.scripts.abandon();
        // The connections of this thread get their turn before the first look, so most servers end at once.
        tokio::task::yield_now().await;
        if clients.is_empty() {
            break;
        }
        Clock::pass(STEP).await;
    }
}

/// What a server does now and then: delete keys that nobody asks for, close connections that nobody uses.
async fn housekeeping(engine: Arc<Engine>) {
    const PERIOD: Duration = Duration::from_millis(100);
    loop {
        Clock::pass(PERIOD).await;
        engine.keep_house();
    }
}

/// A thread that does nothing but run an event loop; dropping it ends both.
struct WorkerThread {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl WorkerThread {
    fn start(runtime: Runtime) -> Result<Self, Error> {
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new().name("redouble-worker".into()).spawn(move || {
            // Either way, stopped or forgotten, the thread is to end.
            let _ = runtime.block_on(stopped);
        })?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for WorkerThread {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
