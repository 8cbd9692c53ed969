//! Starting and stopping a server from Rust.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc;
use std::task::Poll;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::net::{TcpListener, UnixListener};
use tokio::runtime::Runtime;

use super::listener::{Listener, accept};
use super::worker::{Workers, event_loop};
use crate::commands;
use crate::config::Config;
use crate::engine::Engine;
use crate::error::Error;
use crate::instance::Instance;
use crate::profile::Profile;
use crate::spec::Table;

/// What a server is to be like before it starts.
pub struct Builder {
    bind: Vec<String>,
    port: Option<u16>,
    unix_socket: Option<PathBuf>,
    databases: u32,
    threads: usize,
    profile: Profile,
    config: Config,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            bind: vec!["127.0.0.1".to_owned()],
            port: Some(0),
            unix_socket: None,
            databases: 16,
            threads: 1,
            profile: Profile::default(),
            config: Config::default(),
        }
    }
}

impl Builder {
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
    pub fn unix_socket(mut self, path: impl Into<PathBuf>) -> Self {
        self.unix_socket = Some(path.into());
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

    /// A password that clients must give before anything else.
    pub fn password(self, password: impl Into<Vec<u8>>) -> Self {
        self.config.live().set_password(Some(password.into()));
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
                        running.serve();
                    }
                }
                Err(error) => {
                    let _ = sender.send(Err(error));
                }
            }
        })?;
        let (engine, addresses) = receiver
            .recv()
            .unwrap_or_else(|_| Err(Error::Io(std::io::Error::other("the server's thread ended before it started"))))?;
        Ok(Server { engine, addresses, thread: Some(thread) })
    }

    /// Binds every address; nobody is served until [`Running::serve`].
    pub(crate) fn start(self) -> Result<Running, Error> {
        let main = event_loop()?;
        let others: Vec<Runtime> = (1..self.threads).map(|_| event_loop()).collect::<Result<_, _>>()?;
        let instance = Arc::new(Instance::new(self.config, self.profile, self.databases));
        let engine = Arc::new(Engine::new(instance, Table::new(commands::all(), self.profile)));
        let mut listeners = Vec::new();
        let mut addresses = Vec::new();
        let _entered = main.enter();
        if let Some(port) = self.port {
            for host in &self.bind {
                // With a port of 0, all addresses share the port that the first one got.
                let port = addresses.first().map_or(port, SocketAddr::port);
                let listener = bind(host, port)?;
                addresses.push(listener.local_addr()?);
                listeners.push(Listener::Tcp(listener));
            }
        }
        if let Some(path) = self.unix_socket {
            let refused = |source| Error::Bind { address: path.display().to_string(), source };
            let listener = UnixListener::bind(&path).map_err(refused)?;
            listeners.push(Listener::Unix(listener, path));
        }
        drop(_entered);
        Ok(Running { main, others, engine, listeners, addresses })
    }
}

fn bind(host: &str, port: u16) -> Result<TcpListener, Error> {
    let refused = |source| Error::Bind { address: format!("{host}:{port}"), source };
    let listener = std::net::TcpListener::bind((host, port)).map_err(refused)?;
    listener.set_nonblocking(true)?;
    Ok(TcpListener::from_std(listener)?)
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

    /// Serves on this thread, and on one more for each further event loop, until the server is shut down.
    pub(crate) fn serve(self) {
        let Self { main, others, engine, listeners, .. } = self;
        let mut loops = vec![main.handle().clone()];
        let mut threads = Vec::new();
        for other in others {
            loops.push(other.handle().clone());
            let engine = Arc::clone(&engine);
            let _ = &engine;
            threads.push(other);
        }
        let workers = Arc::new(Workers::new(loops));
        let threads: Vec<_> = threads
            .into_iter()
            .map(|other| {
                let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
                (
                    stop,
                    std::thread::spawn(move || {
                        let _ = other.block_on(stopped);
                        other.shutdown_background();
                    }),
                )
            })
            .collect();
        for listener in listeners {
            main.spawn(accept(listener, Arc::clone(&engine), Arc::clone(&workers)));
        }
        main.block_on(std::future::poll_fn(|cx| {
            if engine.instance.is_shutting_down(cx.waker()) { Poll::Ready(()) } else { Poll::Pending }
        }));
        main.shutdown_background();
        for (stop, thread) in threads {
            let _ = stop.send(());
            let _ = thread.join();
        }
    }
}

/// A running server. Dropping it stops the server and frees its port.
pub struct Server {
    engine: Arc<Engine>,
    addresses: Vec<SocketAddr>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// The first TCP address.
    pub fn address(&self) -> Option<SocketAddr> {
        self.addresses.first().copied()
    }

    /// Moves the server's clock forward.
    pub fn advance(&self, duration: Duration) {
        self.engine.instance.clock.shift(duration.as_micros() as i64);
        self.engine.instance.keyspace.sweep(&self.engine.instance.clock);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.engine.instance.shut_down();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
