//! A stream.

#[derive(Clone, Default)]
pub struct Stream {}

impl Stream {
    pub fn len(&self) -> usize {
        0
    }

    pub fn size(&self) -> usize {
        size_of::<Self>()
    }

    pub fn encoding(&self) -> &'static str {
        "stream"
    }
}
