//! Binding of listening sockets.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;

use socket2::{Domain, Protocol, SockRef, Socket, Type};

use crate::base::error::{Error, plain};
use crate::base::host::{UnknownHost, resolve};
use crate::base::log::Log;

/// An address of the `bind` setting.
struct Host<'a> {
    name: &'a str,
    /// Written with a `-` in front: it is no error if this machine does not have the address.
    optional: bool,
}

impl<'a> Host<'a> {
    fn parse(text: &'a str) -> Self {
        match text.strip_prefix('-') {
            Some(name) => Self { name, optional: true },
            None => Self { name: text, optional: false },
        }
    }

    fn ip(&self) -> Result<IpAddr, UnknownHost> {
        match self.name {
            "*" => Ok(Ipv4Addr::UNSPECIFIED.into()),
            "::*" => Ok(Ipv6Addr::UNSPECIFIED.into()),
            name => resolve(name),
        }
    }
}

/// Listens on every address. With port 0, all addresses share a port that is free on the first one.
pub(super) fn bind_tcp<S: AsRef<str>>(
    hosts: &[S],
    port: u16,
    backlog: i32,
    log: &Log,
) -> Result<Vec<std::net::TcpListener>, Error> {
    let mut listeners: Vec<std::net::TcpListener> = Vec::new();
    let mut refused = None;
    for host in hosts {
        let host = Host::parse(host.as_ref());
        let port = match listeners.first() {
            Some(first) => first.local_addr()?.port(),
            None => port,
        };
        let name = host.name;
        let refuse = |reason: &str, source| {
            log.warn(format!("Warning: Could not create server TCP listening socket {name}:{port}: {reason}"));
            Err(Error::Bind { address: format!("{name}:{port}"), source })
        };
        let ip = match host.ip() {
            Ok(ip) => ip,
            Err(unknown) => return refuse(&unknown.to_string(), io::Error::new(io::ErrorKind::NotFound, unknown)),
        };
        match listen_on(SocketAddr::new(ip, port), backlog) {
            Ok(listener) => listeners.push(listener),
            Err(source) => {
                // A missing optional address is expected. Redis logs a warning for it, which only alarms users.
                let passes = (host.optional && is_absent(&source)) || is_unsupported(&source);
                if !passes {
                    return refuse(&format!("bind: {}", plain(&source)), source);
                }
                refused = Some((name.to_owned(), source));
            }
        }
    }
    match refused {
        Some((name, source)) if listeners.is_empty() => Err(Error::Bind { address: format!("{name}:{port}"), source }),
        _ => Ok(listeners),
    }
}

pub(super) fn listen_on(address: SocketAddr, backlog: i32) -> io::Result<std::net::TcpListener> {
    let mut socket = bound(address)?;
    if address.port() == 0
        && let Some(chosen) = socket.local_addr()?.as_socket()
        && let Ok(named) = bound(chosen)
    {
        // A socket keeps its port after it stops listening only if it was bound to that port explicitly. Two sockets
        // may be bound to a port as long as neither listens.
        socket = named;
    }
    socket.listen(backlog)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// Listens again on a socket that stopped listening and kept its port.
pub(super) fn listen_again(socket: &std::net::TcpListener, backlog: i32) -> io::Result<()> {
    let socket = SockRef::from(socket);
    socket.set_reuse_address(true)?;
    socket.listen(backlog)
}

fn bound(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        // As in Redis, `::` excludes IPv4, which `*` adds.
        socket.set_only_v6(true)?;
    }
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

fn is_absent(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::AddrNotAvailable
}

/// The machine does not support the protocol, such as IPv6. No setting asked for it, so this is no error.
fn is_unsupported(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let unsupported =
        [Errno::NOPROTOOPT, Errno::PROTONOSUPPORT, Errno::SOCKTNOSUPPORT, Errno::PFNOSUPPORT, Errno::AFNOSUPPORT];
    error.raw_os_error().is_some_and(|code| unsupported.iter().any(|errno| errno.raw_os_error() == code))
}

/// Listens on a unix socket. Replaces the socket of a dead server, but no other file.
pub(super) fn bind_unix(path: &Path, mode: u32) -> Result<std::os::unix::net::UnixListener, Error> {
    let listen = || {
        if std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket()) {
            std::fs::remove_file(path)?;
        }
        let listener = std::os::unix::net::UnixListener::bind(path)?;
        if mode != 0 {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?;
        }
        listener.set_nonblocking(true)?;
        Ok(listener)
    };
    listen().map_err(|source| Error::Socket { path: path.to_owned(), source })
}
