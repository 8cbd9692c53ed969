//! A connected socket, TCP or unix.

use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

pub(super) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    /// Makes the connection end with a reset (TCP RST) when it is dropped, as if the other machine had crashed.
    pub(super) fn reset(&self) {
        if let Self::Tcp(stream) = self {
            // If this fails, the connection ends with a normal close.
            let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
        }
    }

    /// Whether the other side has ended the connection, with nothing left to read. Asks the kernel, which may know more
    /// than the event loop.
    pub(super) fn has_ended(&self) -> bool {
        let socket = match self {
            Self::Tcp(stream) => SockRef::from(stream),
            Self::Unix(stream) => SockRef::from(stream),
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
        };
        result.map_ok(|()| into.filled().len() - before)
    }

    #[inline]
    pub(super) fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self {
            Self::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Unix(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }
}
