//! Writing replies, and the limits of unwritten output.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use super::Connection;
use crate::base::segment::Segment;
use crate::clients::session::Session;
use crate::clients::stats::add;

/// Longer replies are written at once: while they wait they would leave the processor's cache.
pub(super) const SHORT: usize = 4 * 1024;

impl Connection {
    /// Queues replies until they are written.
    pub(super) fn queue_output(&mut self, replies: &mut Vec<u8>, spare: &mut Vec<Vec<u8>>) {
        if replies.is_empty() {
            return;
        }
        count_output(&self.session, replies.len());
        self.output.append(replies, spare);
        self.publish_output();
    }

    /// Queues messages that others are sent, too, and those behind them.
    pub(super) fn queue_segments(&mut self, segments: &mut Vec<Segment>, spare: &mut Vec<Vec<u8>>) {
        if segments.is_empty() {
            return;
        }
        for segment in segments.drain(..) {
            count_output(&self.session, segment.len());
            self.output.append_segment(segment, spare);
        }
        self.publish_output();
    }

    /// Publishes how much output is unwritten.
    pub(super) fn publish_output(&mut self) {
        let (client, instance) = (&self.session.client, &self.engine.instance);
        let left = self.output.len() + self.mail.len();
        client.seen().output.store(left, Ordering::Relaxed);
        let is_replica = client.seen().replica.load(Ordering::Relaxed);
        if left > instance.config.live().output_limit(self.session.subscriber, is_replica).notice() {
            instance.check_output_limits(&[(Arc::clone(client), left)]);
        }
    }

    pub(super) fn poll_flush(&mut self, cx: &mut Context<'_>, spare: &mut Vec<Vec<u8>>) -> io::Result<Poll<()>> {
        let had_output = !self.output.is_empty();
        let flushed = self.output.poll_flush(&mut self.stream, cx, spare);
        if had_output {
            if self.output.is_empty() {
                add(&self.session.counters.writes, 1);
                self.session.in_flight.trace.written();
            }
            self.session.client.seen().output.store(self.output.len() + self.mail.len(), Ordering::Relaxed);
        }
        match flushed {
            Poll::Ready(flushed) => flushed.map(Poll::Ready),
            Poll::Pending => Ok(Poll::Pending),
        }
    }
}

/// Counts bytes that are queued.
pub(super) fn count_output(session: &Session, bytes: usize) {
    add(&session.counters.output_bytes, bytes as u64);
    add(&session.client.seen().sent, bytes as u64);
}
