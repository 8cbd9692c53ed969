//! A sorted-set.

#[derive(Clone, Default)]
pub struct SortedSet {}

impl SortedSet {
    pub fn len(&self) -> usize {
        0
    }

    pub fn size(&self) -> usize {
        size_of::<Self>()
    }

    pub fn encoding(&self) -> &'static str {
        "sorted-set"
    }
}
