//! A connection to a server, with blocking reads and writes.

use std::io::{self, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use rustls::{ClientConnection, StreamOwned};

use super::options::{Address, TlsOptions};
use super::value::{Value, read_value};
use crate::base::error::plain;
use crate::base::host;
use crate::base::tls::{Peer, described, server_name};

pub(super) struct Connection {
    stream: BufReader<Box<dyn Duplex>>,
}

/// A stream of both directions.
trait Duplex: Read + Write {}
impl<Both: Read + Write> Duplex for Both {}

impl Connection {
    pub fn open(address: &Address, tls: Option<&TlsOptions>) -> io::Result<Self> {
        let stream: Box<dyn Duplex> = match address {
            Address::Socket(path) => Box::new(UnixStream::connect(path)?),
            Address::Port { host, port } => {
                let stream = TcpStream::connect(resolve(host, *port)?.as_slice())?;
                stream.set_nodelay(true)?;
                match tls {
                    None => Box::new(stream),
                    Some(tls) => Box::new(handshake(stream, host, tls)?),
                }
            }
        };
        Ok(Self { stream: BufReader::new(stream) })
    }

    pub fn send(&mut self, words: &[Vec<u8>]) -> io::Result<()> {
        let mut request = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            request.extend(format!("${}\r\n", word.len()).bytes());
            request.extend([word.as_slice(), b"\r\n"].concat());
        }
        let output = self.stream.get_mut();
        output.write_all(&request)?;
        output.flush()
    }

    pub fn read(&mut self) -> io::Result<Value> {
        read_value(&mut self.stream).map_err(|error| described(error, Peer::Server))
    }

    /// Sends a command and waits for its reply; messages in front of it are passed over.
    pub fn ask(&mut self, words: &[&[u8]]) -> io::Result<Value> {
        self.send(&words.iter().map(|word| word.to_vec()).collect::<Vec<_>>())?;
        loop {
            match self.read()? {
                Value::Push(_) => {}
                reply => return Ok(reply),
            }
        }
    }
}

/// Begins TLS. As in `redis-cli`, the server's certificate need not name the server, and the server hears a name only if
/// there is an option for it.
fn handshake(
    mut stream: TcpStream,
    host: &str,
    tls: &TlsOptions,
) -> io::Result<StreamOwned<ClientConnection, TcpStream>> {
    let refused = |reason: String| io::Error::new(io::ErrorKind::InvalidInput, reason);
    let mut config = Arc::unwrap_or_clone(tls.settings.load().map_err(refused)?.config);
    config.enable_sni = tls.sni.is_some();
    let name = server_name(tls.sni.as_deref().unwrap_or(host)).map_err(refused)?;
    let mut session = ClientConnection::new(Arc::new(config), name).map_err(io::Error::other)?;
    while session.is_handshaking() {
        session.complete_io(&mut stream).map_err(|error| {
            let error = described(error, Peer::Server);
            io::Error::other(format!("TLS: {}", describe(&error)))
        })?;
    }
    Ok(StreamOwned::new(session, stream))
}

/// The addresses of a host. Those of IPv6 are tried only if it has no others.
///
/// What this machine knows itself needs no C library. Other names are asked of its resolver, because a client is given the
/// names of other machines. In a static binary that works where names come from files and DNS, as in the image.
fn resolve(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    if let Ok(address) = host::resolve(host) {
        return Ok(vec![(address, port).into()]);
    }
    let (first, last): (Vec<_>, Vec<_>) = (host, port).to_socket_addrs()?.partition(SocketAddr::is_ipv4);
    Ok(if first.is_empty() { last } else { first })
}

/// What went wrong with a connection, in the words of `redis-cli`.
pub(super) fn describe(error: &io::Error) -> String {
    let text = plain(error);
    match error.kind() {
        io::ErrorKind::UnexpectedEof => "Server closed the connection".to_owned(),
        _ => text.strip_prefix("failed to lookup address information: ").unwrap_or(&text).to_owned(),
    }
}
