//! A connected socket, TCP, TLS or unix.

use std::future::Future;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{BufMut, BytesMut};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

use super::tls_stream::TlsStream;

pub(super) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    /// Boxed, so that other connections do not pay for it.
    Tls(Box<TlsStream>),
}

impl Stream {
    /// Makes the connection end with a reset (TCP RST) when it is dropped, as if the other machine had crashed.
    pub(super) fn reset(&mut self) {
        let socket = match self {
            Self::Tcp(stream) => Some(&*stream),
            Self::Tls(stream) => {
                stream.withhold_goodbye();
                stream.socket()
            }
            Self::Unix(_) => None,
        };
        if let Some(socket) = socket {
            // If this fails, the connection ends with a normal close.
            let _ = SockRef::from(socket).set_linger(Some(Duration::ZERO));
        }
    }

    /// The address of this side, if it is one of TCP.
    pub(super) fn local_address(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(stream) => stream.local_addr().ok(),
            Self::Tls(stream) => stream.socket()?.local_addr().ok(),
            Self::Unix(_) => None,
        }
    }

    pub(super) fn is_tls(&self) -> bool {
        matches!(self, Self::Tls(_))
    }

    /// Whether the TLS handshake of this client has failed.
    pub(super) fn has_failed_handshake(&self) -> bool {
        matches!(self, Self::Tls(stream) if stream.has_failed())
    }

    /// Whether the other side has ended the connection, with nothing left to read. Asks the kernel, which may know more
    /// than the event loop.
    pub(super) fn has_ended(&mut self) -> bool {
        let socket = match self {
            Self::Tcp(stream) => SockRef::from(&*stream),
            Self::Unix(stream) => SockRef::from(&*stream),
            Self::Tls(stream) => return stream.has_ended(),
        };
        match socket.peek(&mut [MaybeUninit::uninit()]) {
            Ok(count) => count == 0,
            Err(error) => !matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted),
        }
    }

    /// Reads the available bytes into `into`. `Ok(0)` is the end of the stream.
    #[inline]
    pub(super) fn poll_read(&mut self, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<usize>> {
        let before = into.filled().len();
        let result = match self {
            Self::Tcp(stream) => Pin::new(stream).poll_read(cx, into),
            Self::Unix(stream) => Pin::new(stream).poll_read(cx, into),
            Self::Tls(stream) => stream.poll_read(cx, into),
        };
        result.map_ok(|()| into.filled().len() - before)
    }

    /// Reads available bytes behind those in the buffer, at most so many. Not for TLS, whose bytes
    /// have to be decrypted first.
    pub(super) fn poll_read_behind(
        &mut self,
        cx: &mut Context<'_>,
        into: &mut BytesMut,
        most: usize,
    ) -> Poll<io::Result<usize>> {
        let mut into = into.limit(most);
        match self {
            Self::Tcp(stream) => pin!(stream.read_buf(&mut into)).poll(cx),
            Self::Unix(stream) => pin!(stream.read_buf(&mut into)).poll(cx),
            Self::Tls(_) => Poll::Ready(Err(io::ErrorKind::Unsupported.into())),
        }
    }

    /// Writes as much as there is room for. Over TLS, what was taken may still be here: see
    /// [`poll_flush`](Self::poll_flush).
    #[inline]
    pub(super) fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self {
            Self::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Unix(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Tls(stream) => stream.poll_write(cx, bytes),
        }
    }

    /// The same for bytes in several places. Over TLS, only the first are taken.
    pub(super) fn poll_write_vectored(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self {
            Self::Tcp(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
            Self::Unix(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
            Self::Tls(stream) => stream.poll_write(cx, slices.first().map_or(&[], |first| first)),
        }
    }

    /// Hands everything that was written to the kernel.
    #[inline]
    pub(super) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(_) | Self::Unix(_) => Poll::Ready(Ok(())),
            Self::Tls(stream) => stream.poll_flush(cx),
        }
    }
}
