//! What others have sent to a client, until its connection takes it.

use bytes::Bytes;

use crate::base::segment::Segment;

/// A buffer that has grown beyond this is given back once it is empty.
const KEPT: usize = 32 << 10;
/// The same for the list of segments.
const SEGMENTS_KEPT: usize = 16;

/// Messages, one behind the other.
#[derive(Default)]
pub(super) struct Outbox {
    bytes: Vec<u8>,
    /// Messages that other clients are sent, too, and what comes behind these.
    behind: Vec<Segment>,
    bytes_behind: usize,
}

impl Outbox {
    pub fn len(&self) -> usize {
        self.bytes.len() + self.bytes_behind
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn push(&mut self, message: &[u8]) {
        match self.behind.last_mut() {
            None => return self.bytes.extend_from_slice(message),
            Some(Segment::Own(last)) => last.extend_from_slice(message),
            Some(Segment::Shared(_)) => self.behind.push(Segment::Own(message.to_vec())),
        }
        self.bytes_behind += message.len();
    }

    /// Adds a long message without copying it: each connection that is sent it writes it from where it is.
    pub fn push_shared(&mut self, message: &Bytes) {
        self.bytes_behind += message.len();
        self.behind.push(Segment::Shared(message.clone()));
    }

    /// Moves everything to the end of `out`.
    pub fn take(&mut self, out: &mut Vec<u8>) {
        let mut behind = Vec::new();
        self.take_segments(out, &mut behind);
        behind.iter().for_each(|segment| out.extend_from_slice(segment.as_slice()));
    }

    /// Moves everything to the end of `out`, and what is shared and behind that to `behind`.
    pub fn take_segments(&mut self, out: &mut Vec<u8>, behind: &mut Vec<Segment>) {
        if out.is_empty() && self.bytes.len() > KEPT {
            std::mem::swap(out, &mut self.bytes);
        } else {
            out.extend_from_slice(&self.bytes);
        }
        self.bytes.clear();
        self.bytes.shrink_to(KEPT);
        if !self.behind.is_empty() {
            self.bytes_behind = 0;
            behind.append(&mut self.behind);
            self.behind.shrink_to(SEGMENTS_KEPT);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_keep_their_order_whether_they_are_shared_or_not() {
        let message = Bytes::from_static(b"shared");
        let mut outbox = Outbox::default();
        let fill = |outbox: &mut Outbox| {
            outbox.push(b"first ");
            outbox.push(b"and ");
            outbox.push_shared(&message);
            outbox.push(b" own");
            outbox.push(b" and ");
            outbox.push_shared(&message);
        };
        fill(&mut outbox);
        let (length, mut out) = (outbox.len(), b"<".to_vec());
        outbox.take(&mut out);
        assert_eq!(String::from_utf8(out).unwrap(), "<first and shared own and shared");
        assert_eq!((length, outbox.len()), (31, 0));

        fill(&mut outbox);
        let (mut out, mut behind) = (b"<".to_vec(), Vec::new());
        outbox.take_segments(&mut out, &mut behind);
        assert_eq!((out.as_slice(), outbox.is_empty()), (b"<first and ".as_slice(), true));
        let behind: Vec<&[u8]> = behind.iter().map(Segment::as_slice).collect();
        assert_eq!(behind, [b"shared".as_slice(), b" own and ", b"shared"]);
        outbox.push(b"in front again");
        assert_eq!(outbox.bytes, b"in front again");
    }

    #[test]
    fn a_long_message_is_handed_over_without_a_copy() {
        let message = Bytes::from(vec![b'x'; KEPT]);
        let (mut one, mut other) = (Outbox::default(), Outbox::default());
        for outbox in [&mut one, &mut other] {
            let (mut out, mut behind) = (Vec::new(), Vec::new());
            outbox.push_shared(&message);
            outbox.take_segments(&mut out, &mut behind);
            assert!(out.is_empty() && behind.len() == 1);
            assert_eq!(behind[0].as_slice().as_ptr(), message.as_ptr());
        }
    }

    #[test]
    fn much_is_handed_over_without_a_copy() {
        let (mut outbox, mut out) = (Outbox::default(), Vec::new());
        outbox.push(&[b'x'; KEPT + 1]);
        let at = outbox.bytes.as_ptr();
        outbox.take(&mut out);
        assert!(out.as_ptr() == at && out.len() == KEPT + 1 && outbox.is_empty());
    }
}
