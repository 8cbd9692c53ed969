//! Writing replies, and the limits of unwritten output.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use super::Connection;
use crate::clients::stats::add;

/// Larger reply buffers, and more buffers than this, are freed instead of reused.
const REPLIES_KEPT: usize = 64 * 1024;
const SPARE: usize = 64;
/// Longer replies are written at once: while they wait they would leave the processor's cache.
pub(super) const SHORT: usize = 4 * 1024;

impl Connection {
    /// Queues replies until they are written.
    pub(super) fn queue_output(&mut self, replies: &mut Vec<u8>, spare: &mut Vec<Vec<u8>>) {
        if replies.is_empty() {
            return;
        }
        add(&self.session.counters.output_bytes, replies.len() as u64);
        add(&self.session.client.seen().sent, replies.len() as u64);
        if self.output.is_empty() {
            self.output = std::mem::replace(replies, spare.pop().unwrap_or_default());
        } else {
            self.output.append(replies);
        }
        self.publish_output();
    }

    /// Publishes how much output is unwritten.
    pub(super) fn publish_output(&mut self) {
        let (client, instance) = (&self.session.client, &self.engine.instance);
        let left = self.output.len() - self.written + self.mail.len();
        client.seen().output.store(left, Ordering::Relaxed);
        let is_replica = client.seen().replica.load(Ordering::Relaxed);
        if left > instance.config.live().output_limit(self.session.subscriber, is_replica).notice() {
            instance.check_output_limits(&[(Arc::clone(client), left)]);
        }
    }

    pub(super) fn poll_flush(&mut self, cx: &mut Context<'_>, spare: &mut Vec<Vec<u8>>) -> io::Result<Poll<()>> {
        if self.output.is_empty() {
            return self.poll_flush_stream(cx);
        }
        while self.written < self.output.len() {
            match self.stream.poll_write(cx, &self.output[self.written..])? {
                Poll::Ready(0) => return Err(io::ErrorKind::WriteZero.into()),
                Poll::Ready(written) => self.written += written,
                Poll::Pending => {
                    self.drop_written();
                    return Ok(Poll::Pending);
                }
            }
        }
        self.written = 0;
        add(&self.session.counters.writes, 1);
        self.session.in_flight.trace.written();
        let mut output = std::mem::take(&mut self.output);
        if output.capacity() <= REPLIES_KEPT && spare.len() < SPARE {
            output.clear();
            spare.push(output);
        }
        self.session.client.seen().output.store(self.mail.len(), Ordering::Relaxed);
        self.poll_flush_stream(cx)
    }

    /// Hands what is encrypted to the kernel.
    #[inline]
    fn poll_flush_stream(&mut self, cx: &mut Context<'_>) -> io::Result<Poll<()>> {
        match self.stream.poll_flush(cx) {
            Poll::Ready(flushed) => flushed.map(Poll::Ready),
            Poll::Pending => Ok(Poll::Pending),
        }
    }

    /// Releases memory once most of the output is written.
    fn drop_written(&mut self) {
        if self.written > self.output.len() / 2 {
            self.output.drain(..self.written);
            self.output.shrink_to(self.output.len() * 2);
            self.written = 0;
        }
        let left = self.output.len() - self.written + self.mail.len();
        self.session.client.seen().output.store(left, Ordering::Relaxed);
    }
}
