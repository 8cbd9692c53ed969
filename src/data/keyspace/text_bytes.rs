//! The bytes of a string that has an allocation of its own.

use std::borrow::Cow;
use std::ops::Deref;

use bytes::Bytes;

use crate::base::segment::SHARED;

/// A string of at least so many bytes stays in the buffer in which its request arrived: copying it would hold up everybody for
/// milliseconds.
pub const TAKEN_OVER: usize = 8 << 20;

#[derive(Clone)]
pub enum TextBytes {
    Owned(Vec<u8>),
    /// A part of the request that wrote it, or bytes that replies and clones share with it.
    Shared(Box<SharedText>),
}

#[derive(Clone)]
pub struct SharedText {
    bytes: Bytes,
    /// The size of the allocation.
    room: usize,
}

/// A string as a reply takes it.
pub enum StringValue<'a> {
    Plain(Cow<'a, [u8]>),
    /// A long one, where it is.
    Shared(Bytes),
}

impl StringValue<'_> {
    /// The same, whatever becomes of the key.
    pub fn into_owned(self) -> StringValue<'static> {
        match self {
            Self::Plain(bytes) => StringValue::Plain(Cow::Owned(bytes.into_owned())),
            Self::Shared(bytes) => StringValue::Shared(bytes),
        }
    }
}

impl TextBytes {
    /// The bytes of a string that is written as a whole.
    pub fn of(text: &[u8]) -> Self {
        let bytes = text.to_vec();
        if bytes.len() < SHARED { Self::Owned(bytes) } else { Self::shared(bytes.into()) }
    }

    fn shared(bytes: Bytes) -> Self {
        Self::Shared(Box::new(SharedText { room: bytes.len(), bytes }))
    }

    /// The bytes, to be edited in place.
    pub fn to_mut(&mut self) -> &mut Vec<u8> {
        if let Self::Shared(text) = self {
            *self = Self::Owned(std::mem::take(&mut text.bytes).into());
        }
        match self {
            Self::Owned(bytes) => bytes,
            Self::Shared(_) => unreachable!("what was shared was just taken over"),
        }
    }

    /// Writes another string in the same memory, if it fits, leaves little of it unused, and nobody else has the old one.
    pub fn overwrite(&mut self, text: &[u8]) -> bool {
        let room = self.capacity();
        if text.len() > room || text.len() * 2 < room {
            return false;
        }
        match self {
            Self::Owned(bytes) => {
                bytes.clear();
                bytes.extend_from_slice(text);
            }
            Self::Shared(shared) => match std::mem::take(&mut shared.bytes).try_into_mut() {
                Ok(mut bytes) => {
                    bytes.clear();
                    bytes.extend_from_slice(text);
                    shared.bytes = bytes.freeze();
                }
                Err(bytes) => {
                    shared.bytes = bytes;
                    return false;
                }
            },
        }
        true
    }

    /// The string as a reply takes it.
    #[inline]
    pub fn value(&self) -> StringValue<'_> {
        match self {
            Self::Owned(bytes) => StringValue::Plain(Cow::Borrowed(bytes)),
            Self::Shared(text) => StringValue::Shared(text.bytes.clone()),
        }
    }

    /// How many bytes there is room for.
    pub fn capacity(&self) -> usize {
        match self {
            Self::Owned(bytes) => bytes.capacity(),
            Self::Shared(text) => text.room,
        }
    }

    /// Finds a long string in the request that has brought it.
    pub fn received(text: &[u8], request: &Bytes) -> Option<Self> {
        let (text_at, request_at) = (text.as_ptr_range(), request.as_ptr_range());
        let is_part = request_at.start <= text_at.start && text_at.end <= request_at.end;
        (text.len() >= TAKEN_OVER && is_part).then(|| Self::shared(request.slice_ref(text)))
    }
}

impl Deref for TextBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Owned(bytes) => bytes,
            Self::Shared(text) => &text.bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_long_part_of_the_request_is_taken_over_and_edits_are_the_owners_alone() {
        let request = Bytes::from(vec![b'x'; TAKEN_OVER + 2]);
        let word = &request[1..=TAKEN_OVER];
        let mut text = TextBytes::received(word, &request).expect("a part of the request");
        assert_eq!((text.as_ptr(), text.len(), text.capacity()), (word.as_ptr(), TAKEN_OVER, TAKEN_OVER));
        assert!(TextBytes::received(&word[1..], &request).is_none(), "it is too short");
        let elsewhere = word.to_vec();
        assert!(TextBytes::received(&elsewhere, &request).is_none());
        let mut copy = text.clone();
        assert_eq!(copy.as_ptr(), text.as_ptr());
        copy.to_mut()[0] = b'y';
        text.to_mut().push(b'z');
        assert!((copy[0], text[0], request[1]) == (b'y', b'x', b'x') && text.len() == copy.len() + 1);
    }

    #[test]
    fn what_a_reply_has_taken_stays_as_it_was_and_its_memory_is_used_again_once_it_is_sent() {
        let mut text = TextBytes::of(&[b'x'; SHARED]);
        let at = text.as_ptr();
        let StringValue::Shared(reply) = text.value() else { panic!("it is long") };
        assert_eq!(reply.as_ptr(), at, "it is not copied");
        assert!(!text.overwrite(&[b'y'; SHARED]), "the reply is not sent");
        assert!(reply.iter().chain(text.iter()).all(|byte| *byte == b'x'));
        drop(reply);
        for length in [SHARED - 9, SHARED, SHARED / 2] {
            assert!(text.overwrite(&vec![b'z'; length]));
            assert!((text.as_ptr(), text.len(), text.capacity()) == (at, length, SHARED) && text[length - 1] == b'z');
        }
        assert!(!text.overwrite(&[b'y'; SHARED / 2 - 1]) && !text.overwrite(&[b'y'; SHARED + 1]));
        assert_eq!(text.len(), SHARED / 2);
        assert!(matches!(TextBytes::of(&[b'x'; SHARED - 1]).value(), StringValue::Plain(_)));
    }
}
