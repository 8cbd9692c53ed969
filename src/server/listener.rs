//! Accepting connections.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustls::ServerConfig;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::Interest;
use tokio::net::UnixListener;

use super::node::Node;
use super::stream::Stream;
use super::tls_stream::TlsStream;
use super::turn;
use super::upstream::Member;
use crate::base::clock::Clock;
use crate::base::error::CommandError;
use crate::clients::session::Peer;
use crate::powers::Hook;
use crate::protocol::{Protocol, Reply};

/// A listening socket.
pub(super) enum Listener {
    Tcp(TcpAcceptor),
    /// Each client begins with a handshake.
    Tls(TcpAcceptor),
    Unix(UnixListener, PathBuf),
}

/// The delay before a retry when the process has no file descriptor left.
const OUT_OF_DESCRIPTORS: Duration = Duration::from_millis(10);

const PROTECTED: &str = "DENIED redouble runs in protected mode: without a password, only clients on this machine may \
connect. Set a password with --requirepass, or allow everyone with --protected-mode no, or from this machine with \
CONFIG SET protected-mode no.";

/// Accepts connections until the task is aborted, and passes each to a worker. `member` is the node of a deployment whose
/// port it is.
pub(super) async fn accept(mut listener: Listener, node: Arc<Node>, member: Option<Arc<Member>>) {
    loop {
        match accept_one(&mut listener, &node).await {
            Ok((socket, peer)) => {
                turn::note_new();
                let is_tls = matches!(listener, Listener::Tls(_));
                admit(socket, peer, is_tls, &node, member.as_ref());
            }
            // If the client is gone already, the loop continues at once. Without free descriptors, an immediate retry
            // would fail, too.
            Err(error) if matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted) => {}
            Err(_) => Clock::sleep(OUT_OF_DESCRIPTORS).await,
        }
    }
}

/// An accepted socket, not yet bound to a worker's event loop.
pub(super) enum Socket {
    Tcp(std::net::TcpStream),
    /// A client that is about to begin its handshake.
    Tls(std::net::TcpStream, Arc<ServerConfig>),
    Unix(std::os::unix::net::UnixStream),
}

impl Socket {
    fn fd(&self) -> i32 {
        use std::os::fd::AsRawFd;
        match self {
            Self::Tcp(socket) | Self::Tls(socket, _) => socket.as_raw_fd(),
            Self::Unix(socket) => socket.as_raw_fd(),
        }
    }

    /// Binds the socket to the event loop of the thread that calls this.
    pub(super) fn into_stream(self) -> io::Result<Stream> {
        Ok(match self {
            Self::Tcp(socket) => Stream::Tcp(tokio::net::TcpStream::from_std(socket)?),
            Self::Tls(socket, config) => {
                Stream::Tls(TlsStream::accept(tokio::net::TcpStream::from_std(socket)?, config))
            }
            Self::Unix(socket) => Stream::Unix(tokio::net::UnixStream::from_std(socket)?),
        })
    }

    pub(super) fn is_tls(&self) -> bool {
        matches!(self, Self::Tls(..))
    }

    /// Ends the connection with a reset (TCP RST).
    fn reset(self) {
        if let Self::Tcp(socket) | Self::Tls(socket, _) = &self {
            let _ = SockRef::from(socket).set_linger(Some(Duration::ZERO));
        }
    }

    /// Sends the reason of a refusal, without waiting for its delivery. As in Redis, one that would have to wait for a
    /// handshake is not sent.
    fn refuse(self, error: CommandError) {
        let mut out = Vec::new();
        Reply::Error(error).write(Protocol::Resp2, &mut out);
        let _ = match self {
            Self::Tcp(socket) => io::Write::write(&mut &socket, &out),
            Self::Tls(..) => Ok(0),
            Self::Unix(socket) => io::Write::write(&mut &socket, &out),
        };
    }
}

/// Enables keep-alive probes after this many seconds of silence. On failure the connection is served without them.
pub(super) fn keep_alive(socket: &impl AsFd, seconds: u32) {
    if seconds != 0 {
        let idle = Duration::from_secs(u64::from(seconds));
        let probe = TcpKeepalive::new().with_time(idle).with_interval((idle / 3).max(Duration::from_secs(1)));
        let _ = SockRef::from(socket).set_tcp_keepalive(&probe.with_retries(3));
    }
}

async fn accept_one(listener: &mut Listener, node: &Node) -> io::Result<(Socket, Peer)> {
    match listener {
        Listener::Tcp(listener) | Listener::Tls(listener) => {
            let (socket, peer, local) = listener.accept(&node.instance().config.live().keepalive).await?;
            Ok((Socket::Tcp(socket), Peer::Tcp { peer, local }))
        }
        Listener::Unix(listener, path) => {
            let (stream, _) = listener.accept().await?;
            let pid = stream.peer_cred().ok().and_then(|peer| peer.pid()).and_then(|pid| u32::try_from(pid).ok());
            Ok((Socket::Unix(stream.into_std()?), Peer::Unix { path: path.clone(), pid: pid.filter(|pid| *pid != 0) }))
        }
    }
}

/// A listening socket, whose connections are not registered with the event loop of the thread that accepts them, but only
/// with that of their worker.
pub(super) struct TcpAcceptor {
    /// Waited on as a stream: tokio's listener would register each connection.
    socket: tokio::net::TcpStream,
    /// The address of every connection's own side, if the socket listens on only one.
    local: Option<SocketAddr>,
    inherited: Inherited,
}

/// The options that accepted connections have from the listening socket. On Linux they have those that it had when they
/// were established.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Inherited {
    Nothing,
    /// It has them, with this time of keep-alive, but connections in its queue may be older.
    Soon(u32),
    /// Its queue was empty since: all connections have them.
    All(u32),
}

impl TcpAcceptor {
    /// Must be called inside an event loop.
    pub(super) fn new(socket: TcpListener) -> io::Result<Self> {
        let local = socket.local_addr().ok().filter(|address| !address.ip().is_unspecified());
        let socket = tokio::net::TcpStream::from_std(TcpStream::from(OwnedFd::from(socket)))?;
        Ok(Self { socket, local, inherited: Inherited::Nothing })
    }

    /// Accepts a connection that sends without delay, and probes the other side after this many seconds of silence. Returns
    /// it with the addresses of both sides.
    async fn accept(&mut self, keepalive: &AtomicU32) -> io::Result<(TcpStream, SocketAddr, SocketAddr)> {
        let Self { socket: listener, inherited, .. } = self;
        let accept = || {
            let accepted = accept_from(listener);
            if let (Err(error), Inherited::Soon(keepalive)) = (&accepted, *inherited)
                && error.kind() == io::ErrorKind::WouldBlock
            {
                *inherited = Inherited::All(keepalive);
            }
            accepted
        };
        let (socket, peer) = listener.async_io(Interest::READABLE, accept).await?;
        let keepalive = keepalive.load(Ordering::Relaxed);
        if self.inherited != Inherited::All(keepalive) {
            self.set_options(&socket, keepalive)?;
        }
        let local = match self.local {
            Some(local) => local,
            None => socket.local_addr()?,
        };
        Ok((socket, peer, local))
    }
}

impl TcpAcceptor {
    /// Sets the options of a connection, and of those that come after it.
    fn set_options(&mut self, socket: &TcpStream, keepalive: u32) -> io::Result<()> {
        let set = |socket: SockRef<'_>| {
            socket.set_tcp_nodelay(true)?;
            socket.set_keepalive(keepalive != 0)
        };
        set(SockRef::from(socket))?;
        keep_alive(socket, keepalive);
        if cfg!(target_os = "linux") && self.inherited != Inherited::Soon(keepalive) {
            set(SockRef::from(&self.socket))?;
            keep_alive(&self.socket, keepalive);
            self.inherited = Inherited::Soon(keepalive);
        }
        Ok(())
    }
}

/// Accepts a connection that does not block.
fn accept_from(listener: &impl AsFd) -> io::Result<(TcpStream, SocketAddr)> {
    #[cfg(target_os = "linux")]
    let (socket, peer) = {
        use rustix::net::{SocketFlags, acceptfrom_with};
        let (socket, peer) = acceptfrom_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC)?;
        (TcpStream::from(socket), peer.and_then(|peer| SocketAddr::try_from(peer).ok()))
    };
    #[cfg(not(target_os = "linux"))]
    let (socket, peer) = {
        let (socket, peer) = SockRef::from(listener).accept()?;
        socket.set_nonblocking(true)?;
        (TcpStream::from(socket), peer.as_socket())
    };
    Ok((socket, peer.ok_or(io::ErrorKind::ConnectionAborted)?))
}

fn admit(socket: Socket, peer: Peer, is_tls: bool, node: &Arc<Node>, member: Option<&Arc<Member>>) {
    let instance = node.instance();
    let socket = match socket {
        Socket::Tcp(socket) if is_tls => match instance.config.live().tls() {
            Some(config) => Socket::Tls(socket, config),
            None => return,
        },
        socket => socket,
    };
    if instance.active_hooks.has(Hook::Fault) && instance.control.faults.refuses_connection() {
        instance.stats.rejected_connections.fetch_add(1, Ordering::Relaxed);
        return socket.reset();
    }
    let live = instance.config.live();
    if live.protected_mode.load(Ordering::Relaxed)
        && !peer.is_local()
        && instance.acl.default_user().rules().no_password
    {
        instance.stats.rejected_connections.fetch_add(1, Ordering::Relaxed);
        if is_tls {
            node.log_sparingly(&format!("{peer} is not let in over TLS: {PROTECTED}"));
        }
        return socket.refuse(CommandError::fixed(PROTECTED));
    }
    let most = live.max_clients.load(Ordering::Relaxed);
    let Some(client) = instance.clients.add(peer, socket.fd(), instance.clock.millis(), most) else {
        instance.stats.rejected_connections.fetch_add(1, Ordering::Relaxed);
        return socket.refuse(CommandError::MAX_CLIENTS);
    };
    if let Some(member) = member {
        // Before the look at whether it serves: whoever stops it lists its clients after that.
        client.set_node(member.node.number);
    }
    if !node.is_serving() || member.is_some_and(|member| !member.node.is_serving()) {
        // It was accepted just before accepting stopped.
        return instance.clients.remove(client.id());
    }
    instance.stats.connections.fetch_add(1, Ordering::Relaxed);
    node.workers().serve(socket, client, node, member);
}
