//! Bytes on their way to one side of a proxied connection.

use std::io;
use std::task::{Context, Poll};

use crate::server::stream::Stream;

/// Larger buffers, and more buffers than this, are freed instead of reused.
const KEPT: usize = 128 * 1024;
const SPARE: usize = 64;

/// Bytes that wait to be written. An empty one has no buffer.
#[derive(Default)]
pub(super) struct Outgoing {
    bytes: Vec<u8>,
    written: usize,
}

impl Outgoing {
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.bytes.len() - self.written
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    #[inline]
    pub(super) fn push(&mut self, bytes: &[u8], spare: &mut Vec<Vec<u8>>) {
        if bytes.is_empty() {
            return;
        }
        if self.bytes.capacity() == 0 {
            self.bytes = spare.pop().unwrap_or_default();
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// Drops what is not written, and returns how much that was.
    pub(super) fn clear(&mut self) -> usize {
        let left = self.len();
        *self = Self::default();
        left
    }

    /// Writes as much as the stream takes. Ready: there is nothing left.
    pub(super) fn poll_flush(
        &mut self,
        stream: &mut Stream,
        cx: &mut Context<'_>,
        spare: &mut Vec<Vec<u8>>,
    ) -> Poll<io::Result<()>> {
        if self.bytes.is_empty() {
            return stream.poll_flush(cx);
        }
        while self.written < self.bytes.len() {
            match stream.poll_write(cx, &self.bytes[self.written..])? {
                Poll::Ready(0) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(written) => self.written += written,
                Poll::Pending => {
                    if self.written > self.bytes.len() / 2 {
                        self.bytes.drain(..self.written);
                        self.written = 0;
                    }
                    return Poll::Pending;
                }
            }
        }
        self.written = 0;
        let mut bytes = std::mem::take(&mut self.bytes);
        if bytes.capacity() <= KEPT && spare.len() < SPARE {
            bytes.clear();
            spare.push(bytes);
        }
        stream.poll_flush(cx)
    }
}
