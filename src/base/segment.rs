//! Bytes that wait to be sent.

use bytes::Bytes;

/// So many bytes that go to several connections are shared by these. Fewer are copied: then one write takes several of them.
pub const SHARED: usize = 16 << 10;

/// Bytes that stand together.
pub enum Segment {
    /// Others can be added to them.
    Own(Vec<u8>),
    Shared(Bytes),
}

impl Segment {
    #[inline]
    pub fn len(&self) -> usize {
        self.as_slice().len()
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        match self {
            Self::Own(bytes) => bytes,
            Self::Shared(bytes) => bytes,
        }
    }

    /// How much memory it has, or shares.
    pub fn capacity(&self) -> usize {
        match self {
            Self::Own(bytes) => bytes.capacity(),
            Self::Shared(bytes) => bytes.len(),
        }
    }
}

impl Default for Segment {
    fn default() -> Self {
        Self::Own(Vec::new())
    }
}
