//! Lists of any length: chunks of elements, divided where Redis divides its nodes, which DUMP shows.

mod chunk;
#[cfg(test)]
mod tests;

use std::collections::{VecDeque, vec_deque};

use super::{ChunkLimit, ListLimits};
use crate::data::listpack::{self, Element};
pub use chunk::{Chunk, End};

/// The overhead of a listpack, and Redis's estimate of the overhead of one element.
pub(super) const AROUND_ALL: usize = 7;
const AROUND_ONE: usize = 8;

/// With this few chunks, releasing their unused memory is not worthwhile.
const FEW: usize = 16;

/// Elements in chunks.
pub struct Chunked {
    chunks: VecDeque<Chunk>,
    len: usize,
    /// The memory of the chunks in bytes.
    bytes: usize,
    limit: ChunkLimit,
    /// As in [`ListLimits`], of the last command.
    plain_from: usize,
    /// Encoded as one listpack, whatever the limit of chunks.
    packed: bool,
}

impl Clone for Chunked {
    fn clone(&self) -> Self {
        let chunks = self.chunks.clone();
        let bytes = chunks.iter().map(Chunk::size).sum();
        Self { chunks, bytes, ..*self }
    }
}

impl Chunked {
    /// An empty list, as commands create it.
    pub fn new(limits: &ListLimits) -> Self {
        let &ListLimits { chunk: limit, plain_from, packs: packed } = limits;
        Self { chunks: VecDeque::with_capacity(1), len: 0, bytes: 0, limit, plain_from, packed }
    }

    /// A list that is encoded as one listpack, of these elements.
    pub fn packed(count: usize, elements: Vec<u8>) -> Self {
        // The next command that must not have one listpack sets the limit.
        let limits = ListLimits { chunk: ChunkLimit::Elements(1), plain_from: 0, packs: true };
        let mut list = Self::new(&limits);
        if count > 0 {
            list.put_chunk(0, Chunk::of(count, elements));
            list.len = count;
        }
        list
    }

    /// A list of chunks that are not empty.
    pub fn of_chunks(chunks: impl Iterator<Item = Chunk>, limits: &ListLimits) -> Self {
        let mut list = Self { packed: false, ..Self::new(limits) };
        list.chunks.extend(chunks);
        list.len = list.chunks.iter().map(Chunk::count).sum();
        list.bytes = list.chunks.iter().map(Chunk::size).sum();
        list.pack(limits);
        list
    }

    /// A list of these elements.
    pub fn of<'e>(elements: impl Iterator<Item = &'e [u8]>, limits: &ListLimits) -> Self {
        let mut list = Self { packed: false, ..Self::new(limits) };
        elements.for_each(|element| list.push(End::Back, element));
        list.pack(limits);
        list
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// The memory outside itself, in bytes.
    pub fn size(&self) -> usize {
        self.chunks.capacity() * size_of::<Chunk>() + self.bytes
    }

    /// Whether it is encoded as one listpack.
    pub fn is_packed(&self) -> bool {
        self.packed
    }

    pub fn chunks(&self) -> vec_deque::Iter<'_, Chunk> {
        self.chunks.iter()
    }

    // ---- encoding

    /// Prepares for `count` elements with `bytes` bytes in total.
    pub fn expect(&mut self, count: usize, bytes: usize, limits: &ListLimits) {
        self.plain_from = limits.plain_from;
        if self.packed && !limits.chunk.admits(self.packed_size() + bytes, self.len + count) {
            self.packed = false;
            self.limit = limits.chunk;
        }
    }

    /// Like [`expect`](Self::expect), for these elements.
    #[inline]
    pub fn expect_all<'e>(&mut self, elements: impl ExactSizeIterator<Item = &'e [u8]>, limits: &ListLimits) {
        self.plain_from = limits.plain_from;
        if self.packed {
            self.expect(elements.len(), elements.map(<[u8]>::len).sum(), limits);
        }
    }

    /// Converts to one listpack if the list fits.
    pub fn pack(&mut self, limits: &ListLimits) {
        self.pack_within(limits.chunk, limits);
    }

    /// Converts to one listpack after a removal. The list must fit into half of the limit, so that it does not convert
    /// back and forth.
    pub fn relax(&mut self, limits: &ListLimits) {
        self.pack_within(limits.chunk.half(), limits);
    }

    fn pack_within(&mut self, limit: ChunkLimit, limits: &ListLimits) {
        let fits = match limit {
            ChunkLimit::Bytes(most) => self.packed_size() <= most,
            ChunkLimit::Elements(most) => self.len <= most,
        };
        if limits.packs && self.chunks.len() == 1 && fits && !self.chunks[0].is_plain() {
            self.packed = true;
        }
    }

    /// Whether an element of this size is a chunk of its own.
    fn is_large(&self, size: usize) -> bool {
        let is_large = if self.plain_from == 0 { size > self.limit.bytes() } else { size >= self.plain_from };
        is_large && !self.packed
    }

    fn packed_size(&self) -> usize {
        AROUND_ALL + self.chunks.front().map_or(0, |chunk| chunk.bytes().len())
    }

    /// Whether a chunk has room for one more element.
    fn admits(&self, chunk: Option<&Chunk>, element: &[u8]) -> bool {
        chunk.is_some_and(|chunk| {
            let size = AROUND_ALL + chunk.bytes().len() + element.len() + AROUND_ONE;
            self.packed || !chunk.is_plain() && self.limit.admits(size, chunk.count() + 1)
        })
    }

    /// Changes one chunk and updates the memory count.
    #[inline]
    fn work<R>(&mut self, chunk: usize, work: impl FnOnce(&mut Chunk) -> R) -> Option<R> {
        let chunk = self.chunks.get_mut(chunk)?;
        let before = chunk.size();
        let result = work(chunk);
        self.bytes = self.bytes + chunk.size() - before;
        Some(result)
    }

    fn put_chunk(&mut self, at: usize, chunk: Chunk) {
        self.bytes += chunk.size();
        self.chunks.insert(at, chunk);
    }

    fn drop_chunk(&mut self, at: usize) {
        if let Some(chunk) = self.chunks.remove(at) {
            self.bytes -= chunk.size();
        }
        // There can be as many chunks as elements.
        if self.chunks.capacity() > FEW && self.chunks.len() * 4 < self.chunks.capacity() {
            self.chunks.shrink_to(self.chunks.len() * 2);
        }
    }

    // ---- the ends

    #[inline]
    pub fn push(&mut self, end: End, element: &[u8]) {
        let usual = self.limit.bytes();
        let (last, behind) = match end {
            End::Front => (0, 0),
            End::Back => (self.chunks.len().saturating_sub(1), self.chunks.len()),
        };
        let at = if !self.is_large(element.len()) && self.admits(self.chunks.get(last), element) {
            last
        } else {
            // An inner chunk rarely grows.
            self.work(last, Chunk::fit);
            if self.is_large(element.len()) {
                self.len += 1;
                return self.put_chunk(behind, Chunk::plain(element));
            }
            self.chunks.insert(behind, Chunk::new());
            behind
        };
        self.work(at, |chunk| chunk.push(end, Element::of(element), usual));
        self.len += 1;
    }

    #[inline]
    pub fn pop(&mut self, end: End) -> Option<Vec<u8>> {
        let at = if end == End::Front { 0 } else { self.chunks.len().checked_sub(1)? };
        let (element, left) = self.work(at, |chunk| (chunk.pop(end), chunk.count()))?;
        if left == 0 {
            self.drop_chunk(at);
        }
        self.len -= usize::from(element.is_some());
        element
    }

    /// Removes `count` elements at an end.
    pub fn cut(&mut self, end: End, count: usize) {
        let mut count = count.min(self.len);
        self.len -= count;
        while count > 0 {
            let at = if end == End::Front { 0 } else { self.chunks.len() - 1 };
            let here = self.chunks[at].count();
            if here <= count {
                self.drop_chunk(at);
                count -= here;
            } else {
                self.work(at, |chunk| chunk.cut(end, count));
                count = 0;
            }
        }
    }

    // ---- access by index

    /// The chunk of an element and its index in that chunk; searched from the nearer end.
    fn locate(&self, index: usize) -> Option<(usize, usize)> {
        if index >= self.len {
            return None;
        }
        if index < self.len / 2 {
            let mut before = 0;
            for (at, chunk) in self.chunks.iter().enumerate() {
                if index < before + chunk.count() {
                    return Some((at, index - before));
                }
                before += chunk.count();
            }
        }
        let mut before = self.len;
        for (at, chunk) in self.chunks.iter().enumerate().rev() {
            before -= chunk.count();
            if index >= before {
                return Some((at, index - before));
            }
        }
        None
    }

    pub fn get(&self, index: usize) -> Option<Element<'_>> {
        self.range(index, 1).next()
    }

    /// Overwrites an element.
    pub fn set(&mut self, index: usize, element: &[u8], limits: &ListLimits) {
        let usual = self.limit.bytes();
        let Some((at, number)) = self.locate(index) else { return };
        match (self.chunks[at].is_plain(), self.is_large(element.len())) {
            (false, false) => {
                self.work(at, |chunk| chunk.replace(number, Element::of(element), usual));
            }
            (true, true) => {
                self.work(at, |chunk| *chunk = Chunk::plain(element));
            }
            // As in Redis, which divides the chunk: the new element is inserted behind the old one.
            (true, false) | (false, true) => {
                self.insert(index, true, element);
                self.len -= 1;
                if self.chunks[at].count() == 1 {
                    self.drop_chunk(at);
                } else {
                    self.work(at, |chunk| chunk.cut(End::Back, 1));
                    // Since 7.2 Redis merges what surrounds the new node.
                    if limits.packs && self.chunks.get(at + 1).is_some_and(Chunk::is_plain) {
                        self.merge_around(at + 1);
                    }
                }
            }
        }
    }

    /// Inserts an element before or behind the one at `index`.
    pub fn insert(&mut self, index: usize, behind: bool, element: &[u8]) {
        let Some((at, number)) = self.locate(index) else { return };
        let usual = self.limit.bytes();
        let (value, count) = (Element::of(element), self.chunks[at].count());
        self.len += 1;
        if self.is_large(element.len()) {
            return self.insert_plain((at, number), behind, element);
        }
        if self.admits(self.chunks.get(at), element) {
            let number = number + usize::from(behind);
            self.work(at, |chunk| {
                if number == count { chunk.push(End::Back, value, usual) } else { chunk.insert(number, value, usual) }
            });
            return;
        }
        let (outside, neighbour, end) = match behind {
            true => (number + 1 == count, Some(at + 1), End::Front),
            false => (number == 0, at.checked_sub(1), End::Back),
        };
        let neighbour = neighbour.filter(|&neighbour| outside && self.admits(self.chunks.get(neighbour), element));
        if let Some(neighbour) = neighbour {
            self.work(neighbour, |chunk| chunk.push(end, value, usual));
            return;
        }
        let mut alone = Chunk::new();
        if outside {
            alone.push(End::Back, value, usual);
            self.put_chunk(at + usize::from(behind), alone);
            return;
        }
        // Inside a full chunk: the part behind the insertion point becomes a chunk of its own. The new element joins
        // that part, or the first part if it is inserted before `index`.
        let split = number + usize::from(behind);
        if let Some(mut rest) = self.work(at, |chunk| chunk.split_off(split)) {
            if behind {
                rest.push(End::Front, value, usual);
            }
            self.put_chunk(at + 1, rest);
            if !behind {
                self.work(at, |chunk| chunk.push(End::Back, value, usual));
            }
        }
        self.merge_around(if behind { at } else { at + 1 });
    }

    /// Inserts a large element before or behind the one at this place, which may divide its chunk.
    fn insert_plain(&mut self, (at, number): (usize, usize), behind: bool, element: &[u8]) {
        let split = number + usize::from(behind);
        let count = self.chunks[at].count();
        if (1..count).contains(&split)
            && let Some(rest) = self.work(at, |chunk| chunk.split_off(split))
        {
            self.put_chunk(at + 1, rest);
        }
        self.put_chunk(if split == 0 { at } else { at + 1 }, Chunk::plain(element));
    }

    /// Merges the chunks around a split, in pairs that fit into one.
    fn merge_around(&mut self, mut center: usize) {
        if center >= 2 && self.merge(center - 2) {
            center -= 1;
        }
        self.merge(center + 1);
        if center >= 1 && self.merge(center - 1) {
            center -= 1;
        }
        self.merge(center);
    }

    /// Merges a chunk with the next one, if both fit into one.
    fn merge(&mut self, at: usize) -> bool {
        let (Some(one), Some(next)) = (self.chunks.get(at), self.chunks.get(at + 1)) else { return false };
        let size = AROUND_ALL + one.bytes().len() + next.bytes().len();
        if one.is_plain() || next.is_plain() || !self.limit.admits(size, one.count() + next.count()) {
            return false;
        }
        if let Some(next) = self.chunks.remove(at + 1) {
            self.bytes -= next.size();
            self.work(at, |chunk| chunk.append(&next));
        }
        true
    }

    /// Removes at most `most` elements that equal this one, from one end. Returns how many.
    pub fn remove(&mut self, element: &[u8], from: End, most: usize) -> usize {
        let element = Element::of(element);
        let mut places = Vec::new();
        let mut removed = 0;
        let mut passed = 0;
        while passed < self.chunks.len() && removed < most {
            let at = if from == End::Front { passed } else { self.chunks.len() - 1 - passed };
            find(&self.chunks[at], element, from, most - removed, &mut places);
            removed += places.len();
            let left = self.chunks[at].count() - places.len();
            if left == 0 {
                self.drop_chunk(at);
            } else {
                self.work(at, |chunk| chunk.remove(&places));
                passed += 1;
            }
        }
        self.len -= removed;
        removed
    }

    // ---- reads

    pub fn iter(&self) -> Elements<'_> {
        self.range(0, self.len)
    }

    /// `count` elements from `start` on.
    pub fn range(&self, start: usize, count: usize) -> Elements<'_> {
        let left = count.min(self.len.saturating_sub(start));
        let Some((at, number)) = self.locate(start) else { return Elements::none() };
        let chunk = &self.chunks[at];
        Elements { chunks: self.chunks.range(at + 1..), rest: &chunk.bytes()[chunk.position(number)..], left }
    }

    /// `count` elements from `start` towards the front.
    pub fn backwards(&self, start: usize, count: usize) -> Backwards<'_> {
        let left = count.min(start.saturating_add(1));
        let Some((at, number)) = self.locate(start) else { return Backwards(Elements::none()) };
        let chunk = &self.chunks[at];
        let rest = &chunk.bytes()[..chunk.position(number + 1)];
        Backwards(Elements { chunks: self.chunks.range(..at), rest, left })
    }
}

/// Collects the positions of at most `most` elements that equal one, beginning at an end; ascending in any case.
fn find(chunk: &Chunk, element: Element<'_>, from: End, most: usize, places: &mut Vec<(usize, usize)>) {
    places.clear();
    let bytes = chunk.bytes();
    let (mut start, mut end) = (0, bytes.len());
    while places.len() < most {
        let next = if from == End::Front { listpack::first(&bytes[start..end]) } else { listpack::last(&bytes[..end]) };
        let Some((found, size)) = next else { break };
        let at = if from == End::Front { start } else { end - size };
        if found == element {
            places.push((at, size));
        }
        if from == End::Front { start += size } else { end = at }
    }
    if from == End::Back {
        places.reverse();
    }
}

/// Iterates over elements of a list.
pub struct Elements<'l> {
    chunks: vec_deque::Iter<'l, Chunk>,
    rest: &'l [u8],
    left: usize,
}

impl Elements<'_> {
    fn none() -> Self {
        Self { chunks: vec_deque::Iter::default(), rest: &[], left: 0 }
    }
}

impl<'l> Iterator for Elements<'l> {
    type Item = Element<'l>;

    #[inline]
    fn next(&mut self) -> Option<Element<'l>> {
        self.left = self.left.checked_sub(1)?;
        if self.rest.is_empty() {
            self.rest = self.chunks.next()?.bytes();
        }
        let (element, size) = listpack::first(self.rest)?;
        self.rest = &self.rest[size..];
        Some(element)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Elements<'_> {}

/// Iterates over elements of a list in reverse.
pub struct Backwards<'l>(Elements<'l>);

impl<'l> Iterator for Backwards<'l> {
    type Item = Element<'l>;

    fn next(&mut self) -> Option<Element<'l>> {
        let Elements { chunks, rest, left } = &mut self.0;
        *left = left.checked_sub(1)?;
        if rest.is_empty() {
            *rest = chunks.next_back()?.bytes();
        }
        let (element, size) = listpack::last(rest)?;
        *rest = &rest[..rest.len() - size];
        Some(element)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl ExactSizeIterator for Backwards<'_> {}
