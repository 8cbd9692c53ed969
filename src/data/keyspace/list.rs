//! Lists: short ones in one allocation, others in chunks.

mod chunked;
mod small;
#[cfg(test)]
mod tests;

use std::collections::vec_deque;

use super::block::{Block, block_type};
use super::compact;
use crate::data::listpack::Element;
use chunked::Chunked;
pub use chunked::{Chunk, End};
use small::Small;

/// The byte limit of a chunk whose number of elements is limited.
const SAFE_SIZE: usize = 8192;

/// The limit of a chunk, as in `list-max-listpack-size`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChunkLimit {
    Bytes(usize),
    Elements(usize),
}

impl ChunkLimit {
    /// The limit of a setting: a number of elements, or one of five sizes if negative.
    pub fn of(setting: i64) -> Self {
        match setting {
            0.. => Self::Elements(setting.clamp(1, 0x7fff) as usize),
            -1 => Self::Bytes(4096),
            -2 => Self::Bytes(8192),
            -3 => Self::Bytes(16_384),
            -4 => Self::Bytes(32_768),
            _ => Self::Bytes(65_536),
        }
    }

    fn admits(self, bytes: usize, count: usize) -> bool {
        match self {
            Self::Bytes(most) => bytes <= most,
            Self::Elements(most) => bytes <= SAFE_SIZE && count <= most,
        }
    }

    fn bytes(self) -> usize {
        match self {
            Self::Bytes(most) => most,
            Self::Elements(_) => SAFE_SIZE,
        }
    }

    fn half(self) -> Self {
        match self {
            Self::Bytes(most) => Self::Bytes(most / 2),
            Self::Elements(most) => Self::Elements(most / 2),
        }
    }
}

/// The limits at which a list changes its encoding.
#[derive(Clone, Copy, Debug)]
pub struct ListLimits {
    pub chunk: ChunkLimit,
    /// The size from which an element is a chunk of its own. 0: one that is larger than a chunk.
    pub plain_from: usize,
    /// Whether short lists are one listpack (Redis 7.2 and later).
    pub packs: bool,
}

block_type! {
    /// A list of elements: a string of them while it is short and encoded as one listpack, otherwise chunks.
    #[derive(Clone)]
    List(Chunked)
}

enum Form<'l> {
    Small(Small<'l>),
    Large(&'l Chunked),
}

impl From<Chunked> for List {
    fn from(chunked: Chunked) -> Self {
        Self(Block::large(chunked))
    }
}

impl List {
    /// An empty list, as commands create it.
    pub fn new(limits: &ListLimits) -> Self {
        if limits.packs { Self(Block::keyless(small::EMPTY)) } else { Chunked::new(limits).into() }
    }

    /// A list of chunks that are not empty.
    pub fn of_chunks(chunks: impl Iterator<Item = Chunk>, limits: &ListLimits) -> Self {
        Self::of_chunked(Chunked::of_chunks(chunks, limits))
    }

    /// A list of these elements.
    pub fn of<'e>(elements: impl Iterator<Item = &'e [u8]>, limits: &ListLimits) -> Self {
        Self::of_chunked(Chunked::of(elements, limits))
    }

    fn of_chunked(chunked: Chunked) -> Self {
        let text = if chunked.is_packed() { small::text_of(chunked.iter()) } else { None };
        text.map_or_else(|| chunked.into(), |text| Self(Block::keyless(&text)))
    }

    #[inline]
    fn form(&self) -> Form<'_> {
        match self.0.value() {
            Some(chunked) => Form::Large(chunked),
            None => Form::Small(Small::of(self.0.text())),
        }
    }

    /// The large form, for what the small one cannot do.
    fn enlarge(&mut self) -> &mut Chunked {
        if let Form::Small(small) = self.form() {
            *self = Chunked::packed(small.len(), small.listpack()).into();
        }
        match self.0.value_mut() {
            Some(chunked) => chunked,
            None => unreachable!("it has just been enlarged"),
        }
    }

    #[inline]
    pub fn len(&self) -> usize {
        match self.form() {
            Form::Small(small) => small.len(),
            Form::Large(chunked) => chunked.len(),
        }
    }

    /// The memory outside itself, in bytes.
    pub fn size(&self) -> usize {
        self.0.size() + self.0.value().map_or(0, Chunked::size)
    }

    /// The name of the encoding, as in OBJECT ENCODING.
    pub fn encoding(&self) -> &'static str {
        match self.form() {
            Form::Large(chunked) if !chunked.is_packed() => "quicklist",
            _ => "listpack",
        }
    }

    /// The chunks; a small list has none.
    pub fn chunks(&self) -> impl ExactSizeIterator<Item = &Chunk> {
        self.0.value().map_or_else(vec_deque::Iter::default, Chunked::chunks)
    }

    /// The elements of a small list as they stand in a listpack, and how many there are.
    pub fn small_listpack(&self) -> Option<(Vec<u8>, usize)> {
        match self.form() {
            Form::Small(small) => Some((small.listpack(), small.len())),
            Form::Large(_) => None,
        }
    }

    // ---- encoding

    /// Prepares for `count` elements with `bytes` bytes in total.
    pub fn expect(&mut self, count: usize, bytes: usize, limits: &ListLimits) {
        match self.form() {
            Form::Small(small) if small.stays_packed(count, bytes, limits.chunk) => {}
            _ => self.enlarge().expect(count, bytes, limits),
        }
    }

    /// Like [`expect`](Self::expect), for these elements.
    #[inline]
    pub fn expect_all<'e>(&mut self, elements: impl ExactSizeIterator<Item = &'e [u8]>, limits: &ListLimits) {
        match self.0.value_mut() {
            Some(chunked) => chunked.expect_all(elements, limits),
            None => self.expect(elements.len(), elements.map(<[u8]>::len).sum(), limits),
        }
    }

    /// Converts to one listpack after a removal. The list must fit into half of the limit, so that it does not convert
    /// back and forth.
    pub fn relax(&mut self, limits: &ListLimits) {
        if let Some(chunked) = self.0.value_mut() {
            chunked.relax(limits);
        }
    }

    // ---- the ends

    #[inline]
    pub fn push(&mut self, end: End, element: &[u8]) {
        match self.0.value_mut() {
            Some(chunked) => chunked.push(end, element),
            None => {
                let small = Small::of(self.0.text());
                let at = if end == End::Front { small.start() } else { small.end() };
                if !small::replace(&mut self.0, at..at, 0, Some(Element::of(element))) {
                    self.enlarge().push(end, element);
                }
            }
        }
    }

    #[inline]
    pub fn pop(&mut self, end: End) -> Option<Vec<u8>> {
        match self.form() {
            Form::Small(small) => {
                let at = if end == End::Front { 0 } else { small.len().checked_sub(1)? };
                let (element, place) = small.element(at)?;
                let element = element.to_bytes().into_owned();
                small::replace(&mut self.0, place, 1, None);
                Some(element)
            }
            Form::Large(_) => self.enlarge().pop(end),
        }
    }

    /// Removes `count` elements at an end.
    pub fn cut(&mut self, end: End, count: usize) {
        match self.form() {
            Form::Small(small) => {
                let count = count.min(small.len());
                let part = match end {
                    End::Front => small.start()..small.offset(count),
                    End::Back => small.offset(small.len() - count)..small.end(),
                };
                small::replace(&mut self.0, part, count, None);
            }
            Form::Large(_) => self.enlarge().cut(end, count),
        }
    }

    // ---- access by index

    pub fn get(&self, index: usize) -> Option<Element<'_>> {
        match self.form() {
            Form::Small(small) => Some(small.element(index)?.0),
            Form::Large(chunked) => chunked.get(index),
        }
    }

    /// Overwrites an element.
    pub fn set(&mut self, index: usize, element: &[u8], limits: &ListLimits) {
        if let Form::Small(small) = self.form() {
            let Some((_, place)) = small.element(index) else { return };
            if small::replace(&mut self.0, place, 1, Some(Element::of(element))) {
                return;
            }
        }
        self.enlarge().set(index, element, limits);
    }

    /// Inserts an element before or behind the one at `index`.
    pub fn insert(&mut self, index: usize, behind: bool, element: &[u8]) {
        if let Form::Small(small) = self.form() {
            let Some((_, place)) = small.element(index) else { return };
            let at = if behind { place.end } else { place.start };
            if small::replace(&mut self.0, at..at, 0, Some(Element::of(element))) {
                return;
            }
        }
        self.enlarge().insert(index, behind, element);
    }

    /// Removes at most `most` elements that equal this one, from one end. Returns how many.
    pub fn remove(&mut self, element: &[u8], from: End, most: usize) -> usize {
        match self.form() {
            Form::Small(small) => {
                let places = small.places_of(Element::of(element), from, most);
                // From the back, so that the others stay where they are.
                for place in places.iter().rev() {
                    small::replace(&mut self.0, place.clone(), 1, None);
                }
                places.len()
            }
            Form::Large(_) => self.enlarge().remove(element, from, most),
        }
    }

    // ---- reads

    pub fn iter(&self) -> Elements<'_> {
        self.range(0, self.len())
    }

    /// `count` elements from `start` on.
    pub fn range(&self, start: usize, count: usize) -> Elements<'_> {
        match self.form() {
            Form::Small(small) => Elements::Small(small.range(start, count)),
            Form::Large(chunked) => Elements::Large(chunked.range(start, count)),
        }
    }

    /// `count` elements from `start` towards the front.
    pub fn backwards(&self, start: usize, count: usize) -> Backwards<'_> {
        match self.form() {
            Form::Small(small) if start < small.len() => {
                let count = count.min(start + 1);
                Backwards::Small(small.range(start + 1 - count, count).collect::<Vec<_>>().into_iter())
            }
            Form::Small(_) => Backwards::Small(Vec::new().into_iter()),
            Form::Large(chunked) => Backwards::Large(chunked.backwards(start, count)),
        }
    }
}

/// Iterates over elements of a list.
pub enum Elements<'l> {
    Small(compact::Elements<'l>),
    Large(chunked::Elements<'l>),
}

impl<'l> Iterator for Elements<'l> {
    type Item = Element<'l>;

    #[inline]
    fn next(&mut self) -> Option<Element<'l>> {
        match self {
            Self::Small(elements) => elements.next(),
            Self::Large(elements) => elements.next(),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match self {
            Self::Small(elements) => elements.size_hint(),
            Self::Large(elements) => elements.size_hint(),
        }
    }
}

impl ExactSizeIterator for Elements<'_> {}

/// Iterates over elements of a list in reverse.
pub enum Backwards<'l> {
    Small(std::vec::IntoIter<Element<'l>>),
    Large(chunked::Backwards<'l>),
}

impl<'l> Iterator for Backwards<'l> {
    type Item = Element<'l>;

    fn next(&mut self) -> Option<Element<'l>> {
        match self {
            Self::Small(elements) => elements.next_back(),
            Self::Large(elements) => elements.next(),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match self {
            Self::Small(elements) => elements.size_hint(),
            Self::Large(elements) => elements.size_hint(),
        }
    }
}

impl ExactSizeIterator for Backwards<'_> {}
