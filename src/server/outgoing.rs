//! Bytes on their way to the other side of a connection.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::task::{Context, Poll};

use arrayvec::ArrayVec;

use super::stream::Stream;
use super::turn::yield_to_others;
use crate::base::background::free_beside;
use crate::base::segment::Segment;

/// Larger buffers, and more buffers than this, are freed instead of reused.
const KEPT: usize = 128 * 1024;
const SPARE: usize = 64;
/// Bytes that come behind so many others get a buffer of their own: to copy them, or what is before them, takes longer.
const SEGMENT: usize = 256 * 1024;
/// So much is written before other connections have their turn: to copy it takes less than a millisecond.
const TURN: usize = 2 << 20;
/// So many buffers are written by one call.
const AT_ONCE: usize = 16;
/// What is left of a buffer is moved to its front, so that memory can be released, if it is no more than this.
const QUICKLY_MOVED: usize = 1 << 20;
/// Larger buffers are freed beside the other clients: a megabyte takes some 100 µs, and many connections may end at once.
const LARGE: usize = 1 << 20;

/// Bytes that wait to be written. An empty one has no buffer.
#[derive(Default)]
pub(super) struct Outgoing {
    /// What is written next. If it is empty, there is nothing behind it.
    front: Segment,
    /// How much of it is written.
    written: usize,
    behind: VecDeque<Segment>,
    bytes_behind: usize,
}

impl Outgoing {
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.front.len() - self.written + self.bytes_behind
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.front.is_empty()
    }

    /// Adds bytes.
    #[inline]
    pub(super) fn push(&mut self, bytes: &[u8], spare: &mut Vec<Vec<u8>>) {
        if bytes.is_empty() {
            return;
        }
        if self.front.is_empty() {
            let mut front = spare.pop().unwrap_or_default();
            front.extend_from_slice(bytes);
            self.front = Segment::Own(front);
        } else {
            self.last_for(bytes.len(), spare).extend_from_slice(bytes);
        }
    }

    /// Moves the bytes of a buffer here.
    #[inline]
    pub(super) fn append(&mut self, bytes: &mut Vec<u8>, spare: &mut Vec<Vec<u8>>) {
        if bytes.is_empty() {
            return;
        }
        if self.front.is_empty() {
            self.front = Segment::Own(std::mem::replace(bytes, spare.pop().unwrap_or_default()));
        } else if bytes.len() >= SEGMENT {
            self.add_behind(Segment::Own(std::mem::take(bytes)));
        } else {
            self.last_for(bytes.len(), spare).append(bytes);
        }
    }

    /// Adds bytes, without copying those that are shared.
    pub(super) fn append_segment(&mut self, segment: Segment, spare: &mut Vec<Vec<u8>>) {
        match segment {
            Segment::Own(mut bytes) => self.append(&mut bytes, spare),
            Segment::Shared(bytes) if bytes.is_empty() => {}
            Segment::Shared(bytes) if self.front.is_empty() => self.front = Segment::Shared(bytes),
            Segment::Shared(bytes) => self.add_behind(Segment::Shared(bytes)),
        }
    }

    fn add_behind(&mut self, segment: Segment) {
        self.bytes_behind += segment.len();
        self.behind.push_back(segment);
    }

    /// The buffer that so many bytes are to be added to.
    fn last_for(&mut self, length: usize, spare: &mut Vec<Vec<u8>>) -> &mut Vec<u8> {
        let last = self.behind.back().unwrap_or(&self.front);
        if matches!(last, Segment::Shared(_)) || last.len() + length > SEGMENT {
            self.behind.push_back(Segment::Own(spare.pop().unwrap_or_default()));
        }
        let last = match self.behind.back_mut() {
            Some(last) => {
                self.bytes_behind += length;
                last
            }
            None => &mut self.front,
        };
        match last {
            Segment::Own(bytes) => bytes,
            Segment::Shared(_) => unreachable!("a buffer was added behind it"),
        }
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
        let mut turn = TURN;
        while !self.front.is_empty() {
            if turn == 0 {
                yield_to_others(cx);
                self.release();
                return Poll::Pending;
            }
            match self.poll_write(stream, cx, turn)? {
                Poll::Ready(0) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(written) => {
                    turn = turn.saturating_sub(written);
                    self.note_written(written, spare);
                }
                Poll::Pending => {
                    self.release();
                    return Poll::Pending;
                }
            }
        }
        stream.poll_flush(cx)
    }

    /// Writes up to so many bytes.
    #[inline]
    fn poll_write(&self, stream: &mut Stream, cx: &mut Context<'_>, most: usize) -> Poll<io::Result<usize>> {
        let left = &self.front.as_slice()[self.written..];
        if self.behind.is_empty() || left.len() >= most {
            return stream.poll_write(cx, &left[..left.len().min(most)]);
        }
        let mut slices: ArrayVec<IoSlice<'_>, AT_ONCE> = ArrayVec::new();
        slices.push(IoSlice::new(left));
        let mut room = most - left.len();
        for segment in self.behind.iter().take(AT_ONCE - 1) {
            let bytes = segment.as_slice();
            slices.push(IoSlice::new(&bytes[..bytes.len().min(room)]));
            room = room.saturating_sub(bytes.len());
            if room == 0 {
                break;
            }
        }
        stream.poll_write_vectored(cx, &slices)
    }

    #[inline]
    fn note_written(&mut self, mut written: usize, spare: &mut Vec<Vec<u8>>) {
        loop {
            let left = self.front.len() - self.written;
            if written < left {
                self.written += written;
                return;
            }
            written -= left;
            self.next(spare);
            if written == 0 {
                return;
            }
        }
    }

    /// The first buffer is written.
    #[inline]
    fn next(&mut self, spare: &mut Vec<Vec<u8>>) {
        self.written = 0;
        let done = std::mem::take(&mut self.front);
        if let Some(next) = self.behind.pop_front() {
            self.bytes_behind -= next.len();
            self.front = next;
        }
        match done {
            Segment::Own(mut done) if done.capacity() <= KEPT && spare.len() < SPARE => {
                done.clear();
                spare.push(done);
            }
            // Whoever else has it frees it.
            Segment::Shared(done) if !done.is_unique() => {}
            done => free(done),
        }
    }

    /// Releases memory once most of the first buffer is written.
    fn release(&mut self) {
        let left = self.front.len() - self.written;
        if let Segment::Own(front) = &self.front
            && left < self.written
            && left <= QUICKLY_MOVED
        {
            let kept = front[self.written..].to_vec();
            free(std::mem::replace(&mut self.front, Segment::Own(kept)));
            self.written = 0;
        }
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        if self.front.capacity() + self.bytes_behind > LARGE {
            free_beside("redouble-output", (std::mem::take(&mut self.front), std::mem::take(&mut self.behind)));
        }
    }
}

fn free(buffer: Segment) {
    if buffer.capacity() > LARGE {
        free_beside("redouble-output", buffer);
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use bytes::Bytes;
    use proptest::prelude::*;
    use tokio::io::AsyncReadExt;
    use tokio::net::UnixStream;
    use tokio::task::yield_now;

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        Push(usize),
        Append(usize),
        Share(usize),
        Flush,
        /// The other side reads up to so many bytes.
        Read(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        let length = || prop_oneof![0..9usize, SEGMENT - 3..SEGMENT + 3, 1..3 * TURN];
        prop_oneof![
            length().prop_map(Step::Push),
            length().prop_map(Step::Append),
            length().prop_map(Step::Share),
            Just(Step::Flush),
            length().prop_map(Step::Read),
        ]
    }

    /// Bytes that come again only after so many.
    const PERIOD: usize = 65_537;

    fn sequence() -> Vec<u8> {
        let period: Vec<u8> = (0..PERIOD).map(|at| (at.wrapping_mul(40_503) >> 8) as u8).collect();
        period.repeat(2 + 3 * TURN / PERIOD)
    }

    /// What was added, and what the other side has read of it.
    #[derive(Default)]
    struct Counts {
        added: usize,
        read: usize,
    }

    async fn read(other: &mut UnixStream, most: usize, counts: &mut Counts, sequence: &[u8]) {
        let mut buffer = vec![0; most];
        let read = other.read(&mut buffer).await.expect("bytes");
        assert!(buffer[..read] == sequence[counts.read % PERIOD..][..read], "other bytes than were added");
        counts.read += read;
    }

    async fn play(steps: Vec<Step>, sequence: &[u8]) {
        let (one, mut other) = UnixStream::pair().expect("a pair of sockets");
        let (mut stream, mut spare) = (Stream::Unix(one), Vec::new());
        let (mut outgoing, mut counts) = (Outgoing::default(), Counts::default());
        for step in steps {
            // The runtime stops a task that goes on for long.
            yield_now().await;
            let next = &sequence[counts.added % PERIOD..];
            match step {
                Step::Push(length) => outgoing.push(&next[..length], &mut spare),
                Step::Append(length) => {
                    let mut bytes = next[..length].to_vec();
                    outgoing.append(&mut bytes, &mut spare);
                    assert!(bytes.is_empty());
                }
                Step::Share(length) => {
                    let shared = Segment::Shared(Bytes::copy_from_slice(&next[..length]));
                    outgoing.append_segment(shared, &mut spare);
                }
                Step::Flush => {
                    let before = outgoing.len();
                    let flushed = poll_fn(|cx| Poll::Ready(outgoing.poll_flush(&mut stream, cx, &mut spare))).await;
                    let written = before - outgoing.len();
                    assert!(written <= TURN, "others wait for {written} bytes");
                    assert_eq!(flushed.is_ready(), outgoing.is_empty());
                }
                Step::Read(most) if most > 0 && counts.added - outgoing.len() > counts.read => {
                    read(&mut other, most, &mut counts, sequence).await;
                }
                Step::Read(_) => {}
            }
            if let Step::Push(length) | Step::Append(length) | Step::Share(length) = step {
                counts.added += length;
            }
            assert!(counts.read + outgoing.len() <= counts.added);
            assert!(spare.len() <= SPARE && spare.iter().all(|buffer| buffer.is_empty() && buffer.capacity() <= KEPT));
        }
        while counts.read < counts.added {
            yield_now().await;
            let _ = poll_fn(|cx| Poll::Ready(outgoing.poll_flush(&mut stream, cx, &mut spare))).await;
            read(&mut other, TURN, &mut counts, sequence).await;
        }
        assert_eq!(outgoing.clear(), 0);
    }

    #[test]
    fn what_is_added_is_written_in_order_and_a_portion_at_a_time() {
        let sequence = sequence();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().expect("a runtime");
        proptest!(ProptestConfig::with_cases(64), |(steps in prop::collection::vec(step(), 1..20))| {
            runtime.block_on(play(steps, &sequence));
        });
    }
}
