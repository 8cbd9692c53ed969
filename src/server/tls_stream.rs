//! A connection over TLS, from its handshake on.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use rustls::{ConnectionCommon, ServerConfig, SideData};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::{Accept, TlsAcceptor, TlsStream as Established};

use crate::base::clock::Clock;
use crate::base::error::CommandError;
use crate::base::tls::{Peer, described};

/// The longest handshake of a client, in real time. Redis waits for ever.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// The first byte of a TLS connection: the type of its first record.
pub(super) const TLS_HANDSHAKE: u8 = 0x16;
/// The second byte: the greater number of its version.
const TLS_VERSION: u8 = 0x03;
/// The answer to a TLS handshake on a port without TLS.
pub(super) const NO_TLS_HERE: CommandError = CommandError::fixed("ERR Protocol error: TLS on a port without TLS");

/// Whether a client's first bytes begin a TLS handshake.
pub(super) fn is_tls_hello(bytes: &[u8]) -> bool {
    bytes.starts_with(&[TLS_HANDSHAKE, TLS_VERSION])
}

/// The reply to a plain request.
const PLAIN_ON_TLS: &[u8] = b"-ERR Protocol error: a request without TLS on a port for TLS\r\n";

/// What of a record the kernel may hold when the connection is asked whether it has ended.
const LOOK_AHEAD: usize = 4096;

pub(super) struct TlsStream {
    state: State,
    /// Whether the other side is told when the connection is dropped.
    says_goodbye: bool,
}

type Limit = Pin<Box<dyn Future<Output = ()> + Send>>;

enum State {
    /// A client that has not sent anything.
    Fresh {
        stream: TcpStream,
        config: Arc<ServerConfig>,
        limit: Limit,
    },
    /// A client that has not finished its handshake.
    Accepting {
        accept: Accept<TcpStream>,
        limit: Pin<Box<dyn Future<Output = ()> + Send>>,
    },
    Open {
        stream: Established<TcpStream>,
        peer: Peer,
    },
    Failed,
}

impl TlsStream {
    /// A client's connection. Its first read waits for the handshake, for a limited time.
    pub(super) fn accept(stream: TcpStream, config: Arc<ServerConfig>) -> Box<Self> {
        let limit = Box::pin(Clock::sleep(HANDSHAKE));
        Box::new(Self { state: State::Fresh { stream, config, limit }, says_goodbye: true })
    }

    /// A connection to a server, which has passed its handshake.
    pub(super) fn connected(stream: tokio_rustls::client::TlsStream<TcpStream>) -> Box<Self> {
        let state = State::Open { stream: stream.into(), peer: Peer::Server };
        Box::new(Self { state, says_goodbye: true })
    }

    pub(super) fn has_failed(&self) -> bool {
        matches!(self.state, State::Failed)
    }

    /// The socket, unless the connection has failed.
    pub(super) fn socket(&self) -> Option<&TcpStream> {
        match &self.state {
            State::Fresh { stream, .. } => Some(stream),
            State::Accepting { accept, .. } => accept.get_ref(),
            State::Open { stream, .. } => Some(stream.get_ref().0),
            State::Failed => None,
        }
    }

    /// The connection is about to be reset, so nothing more is written.
    pub(super) fn withhold_goodbye(&mut self) {
        self.says_goodbye = false;
    }

    /// Whether the other side has ended the connection, with nothing left to read. Takes records from the kernel; what
    /// they hold is read later.
    pub(super) fn has_ended(&mut self) -> bool {
        let State::Open { stream, .. } = &mut self.state else { return false };
        match stream {
            Established::Client(stream) => {
                let (socket, session) = stream.get_mut();
                has_ended(socket, session)
            }
            Established::Server(stream) => {
                let (socket, session) = stream.get_mut();
                has_ended(socket, session)
            }
        }
    }

    /// Goes on with the handshake, if it is not over.
    fn poll_handshake(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let State::Fresh { stream, limit, .. } = &mut self.state {
            let result = match poll_first_byte(stream, cx) {
                Poll::Ready(result) => result,
                Poll::Pending => std::task::ready!(limit.as_mut().poll(cx).map(|()| Err(too_slow()))),
            };
            match (result, std::mem::replace(&mut self.state, State::Failed)) {
                (Ok(()), State::Fresh { stream, config, limit }) => {
                    let accept = TlsAcceptor::from(config).accept(stream);
                    self.state = State::Accepting { accept, limit };
                }
                (result, _) => return Poll::Ready(result),
            }
        }
        let State::Accepting { accept, limit } = &mut self.state else { return Poll::Ready(Ok(())) };
        let result = match Pin::new(accept).poll(cx) {
            Poll::Ready(result) => result,
            Poll::Pending => std::task::ready!(limit.as_mut().poll(cx).map(|()| Err(too_slow()))),
        };
        match result {
            Ok(stream) => {
                self.state = State::Open { stream: stream.into(), peer: Peer::Client };
                Poll::Ready(Ok(()))
            }
            Err(error) => {
                self.state = State::Failed;
                Poll::Ready(Err(match error.kind() {
                    io::ErrorKind::UnexpectedEof => {
                        io::Error::new(error.kind(), "the client has left in the middle of the TLS handshake")
                    }
                    _ => described(error, Peer::Client),
                }))
            }
        }
    }

    pub(super) fn poll_read(&mut self, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        std::task::ready!(self.poll_handshake(cx))?;
        let State::Open { stream, peer } = &mut self.state else { return failed() };
        let peer = *peer;
        Pin::new(stream).poll_read(cx, into).map(|result| match result {
            // Messages of RESP say themselves where they end, so an end without a goodbye is an end like any other.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(()),
            result => result.map_err(|error| described(error, peer)),
        })
    }

    pub(super) fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        std::task::ready!(self.poll_handshake(cx))?;
        let State::Open { stream, peer } = &mut self.state else { return failed() };
        let peer = *peer;
        Pin::new(stream).poll_write(cx, bytes).map_err(|error| described(error, peer))
    }

    /// Writes what is encrypted and still here.
    pub(super) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.state {
            State::Open { stream, peer } => {
                let peer = *peer;
                Pin::new(stream).poll_flush(cx).map_err(|error| described(error, peer))
            }
            State::Fresh { .. } | State::Accepting { .. } | State::Failed => Poll::Ready(Ok(())),
        }
    }
}

fn has_ended<Side: SideData>(socket: &TcpStream, session: &mut ConnectionCommon<Side>) -> bool {
    while session.wants_read() {
        let mut records = [0; LOOK_AHEAD];
        let count = match socket.try_read(&mut records) {
            Ok(0) => return true,
            Ok(count) => count,
            Err(error) => return !matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted),
        };
        let mut rest = &records[..count];
        while !rest.is_empty() {
            if !matches!(session.read_tls(&mut rest), Ok(1..)) {
                return true;
            }
            match session.process_new_packets() {
                Ok(state) if state.peer_has_closed() && state.plaintext_bytes_to_read() == 0 => return true,
                Ok(_) => {}
                Err(_) => return true,
            }
        }
    }
    false
}

fn too_slow() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, format!("no TLS handshake within {} seconds", HANDSHAKE.as_secs()))
}

/// Looks at the first byte of a client. One that sends a plain request is told so in plain text; TLS's own answer would mean
/// nothing to it.
fn poll_first_byte(stream: &TcpStream, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
    let mut first = [0];
    let mut buffer = ReadBuf::new(&mut first);
    let count = std::task::ready!(stream.poll_peek(cx, &mut buffer))?;
    let reason = match first {
        _ if count == 0 => "the client has left before the TLS handshake",
        [TLS_HANDSHAKE] => return Poll::Ready(Ok(())),
        _ => {
            // A socket with unread bytes is reset when it is closed, and the answer lost.
            let _ = stream.try_read(&mut [0; LOOK_AHEAD]);
            let _ = stream.try_write(PLAIN_ON_TLS);
            "the client does not speak TLS"
        }
    };
    Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, reason)))
}

fn failed<T>() -> Poll<io::Result<T>> {
    Poll::Ready(Err(io::ErrorKind::NotConnected.into()))
}

impl Drop for TlsStream {
    fn drop(&mut self) {
        if self.says_goodbye
            && let State::Open { stream, .. } = &mut self.state
        {
            // What does not fit into the socket at once is not worth waiting for.
            let _ = Pin::new(stream).poll_shutdown(&mut Context::from_waker(Waker::noop()));
        }
    }
}
