//! What others have sent to a client, until its connection takes it.

use std::sync::Arc;

/// A buffer that has grown beyond this is given back once it is empty.
const KEPT: usize = 32 << 10;

/// Messages, one behind the other.
#[derive(Default)]
pub(super) struct Outbox {
    bytes: Vec<u8>,
    /// A message that other clients are sent, too, in front of everything else.
    shared: Option<Arc<[u8]>>,
}

impl Outbox {
    pub fn len(&self) -> usize {
        self.bytes.len() + self.shared.as_ref().map_or(0, |message| message.len())
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn push(&mut self, message: &[u8]) {
        self.bytes.extend_from_slice(message);
    }

    /// Adds a message that is copied only if there is something in front of it.
    pub fn push_owned(&mut self, message: Vec<u8>) {
        if self.bytes.is_empty() { self.bytes = message } else { self.push(&message) }
    }

    /// Adds a message without copying it, if it is the first one: whoever sends it to many clients is done soon, and each of
    /// them copies it when it writes.
    pub fn push_shared(&mut self, message: &Arc<[u8]>) {
        if self.is_empty() { self.shared = Some(Arc::clone(message)) } else { self.push(message) }
    }

    /// Moves everything to the end of `out`.
    pub fn take(&mut self, out: &mut Vec<u8>) {
        if let Some(message) = self.shared.take() {
            out.extend_from_slice(&message);
        }
        if out.is_empty() && self.bytes.len() > KEPT {
            std::mem::swap(out, &mut self.bytes);
        } else {
            out.extend_from_slice(&self.bytes);
        }
        self.bytes.clear();
        self.bytes.shrink_to(KEPT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_keep_their_order_whether_they_are_shared_or_not() {
        let message: Arc<[u8]> = Arc::from(&b"shared"[..]);
        let (mut outbox, mut other) = (Outbox::default(), Outbox::default());
        let taken = |outbox: &mut Outbox| {
            let (length, mut out) = (outbox.len(), b"<".to_vec());
            outbox.take(&mut out);
            assert_eq!((out.len() - 1, outbox.is_empty()), (length, true));
            String::from_utf8(out).unwrap()
        };
        outbox.push_shared(&message);
        other.push_shared(&message);
        assert_eq!((Arc::strong_count(&message), outbox.len()), (3, 6));
        assert_eq!(taken(&mut outbox), "<shared");
        assert_eq!(Arc::strong_count(&message), 2);
        other.push(b" own");
        other.push_shared(&message);
        other.push_owned(b" mine".to_vec());
        assert_eq!(taken(&mut other), "<shared ownshared mine");
        assert_eq!(Arc::strong_count(&message), 1);
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
