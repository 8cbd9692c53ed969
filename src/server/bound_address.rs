//! A listening address that can be closed and opened again.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;

use socket2::SockRef;

use super::bind::{bind_unix, listen_again, listen_on};
use super::listener::{Listener, TcpAcceptor};
use crate::base::error::Error;

pub(super) enum BoundAddress {
    Tcp {
        address: SocketAddr,
        backlog: i32,
        is_tls: bool,
        /// While the address is closed, the socket keeps the port without listening, where the system supports that.
        socket: Option<TcpListener>,
    },
    Unix {
        path: PathBuf,
        mode: u32,
        socket: Option<std::os::unix::net::UnixListener>,
    },
}

impl BoundAddress {
    pub(super) fn tcp(socket: TcpListener, backlog: i32, is_tls: bool) -> io::Result<Self> {
        Ok(Self::Tcp { address: socket.local_addr()?, backlog, is_tls, socket: Some(socket) })
    }

    pub(super) fn unix(path: PathBuf, mode: u32) -> Result<Self, Error> {
        let socket = Some(bind_unix(&path, mode)?);
        Ok(Self::Unix { path, mode, socket })
    }

    /// The address for plain connections over TCP, if it is one.
    pub(super) fn plain_address(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp { address, is_tls: false, .. } => Some(*address),
            Self::Tcp { .. } | Self::Unix { .. } => None,
        }
    }

    /// The address for TLS, if it is one.
    pub(super) fn tls_address(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp { address, is_tls: true, .. } => Some(*address),
            Self::Tcp { .. } | Self::Unix { .. } => None,
        }
    }

    /// A listener to accept connections from. Must be called inside an event loop.
    pub(super) fn listener(&self) -> io::Result<Listener> {
        let closed = || io::Error::from(io::ErrorKind::NotConnected);
        Ok(match self {
            Self::Tcp { socket, is_tls, .. } => {
                let socket = socket.as_ref().ok_or_else(closed)?.try_clone()?;
                let socket = TcpAcceptor::new(socket)?;
                if *is_tls { Listener::Tls(socket) } else { Listener::Tcp(socket) }
            }
            Self::Unix { path, socket, .. } => {
                let socket = socket.as_ref().ok_or_else(closed)?.try_clone()?;
                Listener::Unix(tokio::net::UnixListener::from_std(socket)?, path.clone())
            }
        })
    }

    /// Refuses connections from now on, including those in the accept queue.
    pub(super) fn close(&mut self) {
        match self {
            Self::Tcp { socket, .. } => {
                if !socket.as_ref().is_some_and(stop_listening) {
                    *socket = None;
                }
            }
            Self::Unix { socket, .. } => *socket = None,
        }
    }

    /// Listens again on the same address.
    pub(super) fn open(&mut self) -> Result<(), Error> {
        match self {
            Self::Tcp { address, backlog, socket, .. } => {
                let again = match socket {
                    Some(kept) => listen_again(kept, *backlog),
                    None => listen_on(*address, *backlog).map(|new| *socket = Some(new)),
                };
                again.map_err(|source| Error::Bind { address: address.to_string(), source })
            }
            Self::Unix { path, mode, socket } => {
                *socket = Some(bind_unix(path, *mode)?);
                Ok(())
            }
        }
    }
}

/// Stops listening but keeps the port. Returns whether that worked. On Linux, a shutdown of the read side ends
/// listening; the port is kept only if this socket stops sharing it.
fn stop_listening(socket: &TcpListener) -> bool {
    if !cfg!(target_os = "linux") {
        return false;
    }
    let socket = SockRef::from(socket);
    socket.shutdown(std::net::Shutdown::Both).is_ok() && socket.set_reuse_address(false).is_ok()
}
