//! The elements of a small list in one allocation.

use std::ops::Range;

use super::ChunkLimit;
use super::chunked::{AROUND_ALL, Chunked, End};
use crate::data::keyspace::block::Block;
use crate::data::keyspace::compact::{self, Code, Elements, LIST, MOST_BYTES};
use crate::data::listpack::Element;

/// The most elements, whose number takes one byte.
const MOST: usize = u8::MAX as usize;

/// Where the elements begin, behind the type and their number.
const START: usize = 2;

/// The text of an empty list.
pub(super) const EMPTY: &[u8] = &[LIST, 0];

/// The text of a small list: the type, the number of elements, and then the elements, as [`compact`] has them.
#[derive(Clone, Copy)]
pub(super) struct Small<'l>(&'l [u8]);

/// The bytes of an element, if a small list can have it.
#[inline]
fn code_of(element: Element<'_>) -> Option<Code> {
    match element {
        Element::String(bytes) if bytes.len() > MOST_BYTES => None,
        _ => Some(compact::code_of(element)),
    }
}

/// The text of these elements, if it is short enough.
pub(super) fn text_of<'e>(elements: impl ExactSizeIterator<Item = Element<'e>>) -> Option<Vec<u8>> {
    let mut text = vec![LIST, u8::try_from(elements.len()).ok()?];
    for element in elements {
        text.extend_from_slice(&code_of(element)?);
        if text.len() > MOST_BYTES {
            return None;
        }
    }
    Some(text)
}

/// Replaces a part of the text, which is so many elements, by one or none. `false` if it would be too long; then nothing has
/// changed.
#[inline]
pub(super) fn replace(
    block: &mut Block<Chunked>,
    part: Range<usize>,
    elements: usize,
    with: Option<Element<'_>>,
) -> bool {
    let code = match with.map(code_of) {
        None => Code::new(),
        Some(Some(code)) => code,
        Some(None) => return false,
    };
    let text = block.text();
    let count = usize::from(text[1]) - elements + usize::from(with.is_some());
    if count > MOST || text.len() - part.len() + code.len() > MOST_BYTES || !block.splice(part, &code) {
        return false;
    }
    block.set_byte(1, count as u8);
    true
}

impl<'l> Small<'l> {
    #[inline]
    pub(super) fn of(text: &'l [u8]) -> Self {
        Self(text)
    }

    #[inline]
    pub(super) fn len(self) -> usize {
        usize::from(self.0[1])
    }

    /// Where the elements begin.
    #[inline]
    pub(super) fn start(self) -> usize {
        START
    }

    #[inline]
    pub(super) fn end(self) -> usize {
        self.0.len()
    }

    #[inline]
    fn iter(self) -> Elements<'l> {
        Elements::new(&self.0[START..], self.len())
    }

    /// Where an element begins, or where all end.
    pub(super) fn offset(self, index: usize) -> usize {
        START + compact::size_of(&self.0[START..], index)
    }

    /// An element and its place.
    pub(super) fn element(self, index: usize) -> Option<(Element<'l>, Range<usize>)> {
        if index >= self.len() {
            return None;
        }
        let start = self.offset(index);
        let (element, size) = compact::first(&self.0[start..])?;
        Some((element, start..start + size))
    }

    /// The places of at most `most` elements that equal one, beginning at an end; ascending in any case.
    pub(super) fn places_of(self, element: Element<'_>, from: End, most: usize) -> Vec<Range<usize>> {
        let mut places = Vec::new();
        let mut elements = self.iter();
        let mut start = self.start();
        while let Some(found) = elements.next() {
            let end = self.end() - elements.rest().len();
            if found == element {
                places.push(start..end);
            }
            start = end;
        }
        match from {
            End::Front => places.truncate(most),
            End::Back => drop(places.drain(..places.len().saturating_sub(most))),
        }
        places
    }

    pub(super) fn range(self, start: usize, count: usize) -> Elements<'l> {
        let left = count.min(self.len().saturating_sub(start));
        Elements::new(&self.0[self.offset(start)..], left)
    }

    /// The elements as they stand in a listpack.
    pub(super) fn listpack(self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.iter().for_each(|element| element.append(&mut bytes));
        bytes
    }

    /// Whether it is still one listpack with `count` more elements of `bytes` bytes in total.
    #[inline]
    pub(super) fn stays_packed(self, count: usize, bytes: usize, limit: ChunkLimit) -> bool {
        let count = self.len() + count;
        let most = self.0.len() + self.len() * compact::MOST_SAVED;
        let exact = || self.iter().map(Element::size).sum::<usize>();
        limit.admits(AROUND_ALL + most + bytes, count) || limit.admits(AROUND_ALL + exact() + bytes, count)
    }
}
