//! A list.

#[derive(Clone, Default)]
pub struct List {}

impl List {
    pub fn len(&self) -> usize {
        0
    }

    pub fn size(&self) -> usize {
        size_of::<Self>()
    }

    pub fn encoding(&self) -> &'static str {
        "list"
    }
}
