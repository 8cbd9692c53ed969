//! The bytes of a string that has an allocation of its own.

use std::ops::Deref;

use bytes::Bytes;

/// A string of at least so many bytes stays in the buffer in which its request arrived: copying it would hold up everybody for
/// milliseconds.
pub const TAKEN_OVER: usize = 8 << 20;

#[derive(Clone)]
pub enum TextBytes {
    Owned(Vec<u8>),
    /// A part of the request that wrote it.
    Received(Box<Bytes>),
}

impl TextBytes {
    /// The bytes, to be edited in place.
    pub fn to_mut(&mut self) -> &mut Vec<u8> {
        if let Self::Received(bytes) = self {
            *self = Self::Owned(std::mem::take(&mut **bytes).into());
        }
        match self {
            Self::Owned(bytes) => bytes,
            Self::Received(_) => unreachable!("what was received was just taken over"),
        }
    }

    /// How many bytes there is room for.
    pub fn capacity(&self) -> usize {
        match self {
            Self::Owned(bytes) => bytes.capacity(),
            Self::Received(bytes) => bytes.len(),
        }
    }

    /// Finds a long string in the request that has brought it.
    pub fn received(text: &[u8], request: &Bytes) -> Option<Self> {
        let (text_at, request_at) = (text.as_ptr_range(), request.as_ptr_range());
        let is_part = request_at.start <= text_at.start && text_at.end <= request_at.end;
        (text.len() >= TAKEN_OVER && is_part).then(|| Self::Received(Box::new(request.slice_ref(text))))
    }
}

impl Deref for TextBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Owned(bytes) => bytes,
            Self::Received(bytes) => bytes,
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
}
