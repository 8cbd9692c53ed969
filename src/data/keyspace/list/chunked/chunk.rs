//! A contiguous run of a list's elements.

use crate::data::listpack::{self, Element};

/// Chunks smaller than this do not give memory back.
const SMALL: usize = 128;

/// Elements encoded as in a listpack, with free room on both sides, so that a push at either end moves no element.
pub struct Chunk {
    /// Its length is the end of the elements.
    memory: Vec<u8>,
    start: usize,
    count: u32,
    plain: bool,
}

impl Clone for Chunk {
    fn clone(&self) -> Self {
        Self { memory: self.bytes().to_vec(), start: 0, ..*self }
    }
}

/// An end of a list or a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Front,
    Back,
}

impl Chunk {
    pub fn new() -> Self {
        Self { memory: Vec::new(), start: 0, count: 0, plain: false }
    }

    /// A chunk of encoded elements.
    pub fn of(count: usize, bytes: Vec<u8>) -> Self {
        Self { memory: bytes, start: 0, count: count as u32, plain: false }
    }

    /// A chunk of one large element.
    pub fn plain(element: &[u8]) -> Self {
        let mut memory = Vec::new();
        Element::of(element).append(&mut memory);
        Self { memory, start: 0, count: 1, plain: true }
    }

    pub fn count(&self) -> usize {
        self.count as usize
    }

    /// Whether this is one large element, to which no other is added.
    pub fn is_plain(&self) -> bool {
        self.plain
    }

    /// The encoded elements.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.memory[self.start..]
    }

    /// The memory outside itself, in bytes.
    #[inline]
    pub fn size(&self) -> usize {
        self.memory.capacity()
    }

    /// Adds an element at an end; `usual` is the usual capacity of a chunk.
    #[inline]
    pub fn push(&mut self, end: End, element: Element<'_>, usual: usize) {
        let size = element.size();
        match end {
            End::Front => {
                if self.start < size {
                    self.make_room(End::Front, size, usual);
                }
                let at = self.start - size;
                element.write_to(&mut self.memory[at..self.start]);
                self.start = at;
            }
            End::Back => {
                if self.memory.capacity() - self.memory.len() < size {
                    self.make_room(End::Back, size, usual);
                }
                element.append(&mut self.memory);
            }
        }
        self.count += 1;
    }

    /// Removes and returns the element at an end.
    #[inline]
    pub fn pop(&mut self, end: End) -> Option<Vec<u8>> {
        let (element, size) = match end {
            End::Front => listpack::first(self.bytes())?,
            End::Back => listpack::last(self.bytes())?,
        };
        let element = element.to_bytes().into_owned();
        match end {
            End::Front => self.start += size,
            End::Back => self.memory.truncate(self.memory.len() - size),
        }
        self.count -= 1;
        self.give_back();
        Some(element)
    }

    /// Removes `count` elements at an end; the chunk must have more.
    pub fn cut(&mut self, end: End, count: usize) {
        match end {
            End::Front => self.start += self.position(count),
            End::Back => {
                let kept = self.position(self.count() - count);
                self.memory.truncate(self.start + kept);
            }
        }
        self.count -= count as u32;
        self.give_back();
    }

    /// The offset of an element from the first one.
    pub fn position(&self, number: usize) -> usize {
        let bytes = self.bytes();
        if number <= self.count() / 2 {
            let mut at = 0;
            for _ in 0..number {
                at += listpack::first(&bytes[at..]).map_or(0, |(_, size)| size);
            }
            return at;
        }
        let mut end = bytes.len();
        for _ in number..self.count() {
            end -= listpack::last(&bytes[..end]).map_or(0, |(_, size)| size);
        }
        end
    }

    /// Inserts an element before the one at this index.
    pub fn insert(&mut self, number: usize, element: Element<'_>, usual: usize) {
        if number == 0 {
            return self.push(End::Front, element, usual);
        }
        let at = self.position(number);
        self.splice(at, 0, Some(element), usual);
        self.count += 1;
    }

    /// Replaces the element at this index.
    pub fn replace(&mut self, number: usize, element: Element<'_>, usual: usize) {
        let at = self.position(number);
        let old = listpack::first(&self.bytes()[at..]).map_or(0, |(_, size)| size);
        self.splice(at, old, Some(element), usual);
    }

    /// Replaces a range of bytes by an element or by nothing.
    fn splice(&mut self, at: usize, old: usize, element: Option<Element<'_>>, usual: usize) {
        let new = element.map_or(0, Element::size);
        let room = self.memory.capacity() - self.memory.len();
        if new > old && room < new - old {
            self.make_room(End::Back, new - old, usual);
        }
        let at = self.start + at;
        let length = self.memory.len();
        if new > old {
            self.memory.resize(length + new - old, 0);
        }
        self.memory.copy_within(at + old..length, at + new);
        self.memory.truncate(length + new - old);
        if let Some(element) = element {
            element.write_to(&mut self.memory[at..at + new]);
        }
    }

    /// Removes the elements at these positions (offset and size), which must be ascending.
    pub fn remove(&mut self, places: &[(usize, usize)]) {
        let Some(&(first, _)) = places.first() else { return };
        let mut kept = self.start + first;
        for (number, &(at, size)) in places.iter().enumerate() {
            let from = self.start + at + size;
            let to = places.get(number + 1).map_or(self.memory.len(), |&(next, _)| self.start + next);
            self.memory.copy_within(from..to, kept);
            kept += to - from;
        }
        self.memory.truncate(kept);
        self.count -= places.len() as u32;
        self.give_back();
    }

    /// Splits off the elements from this index on.
    pub fn split_off(&mut self, number: usize) -> Self {
        let at = self.start + self.position(number);
        let rest = Self::of(self.count() - number, self.memory[at..].to_vec());
        self.memory.truncate(at);
        self.count = number as u32;
        rest
    }

    /// Appends the elements of the next chunk.
    pub fn append(&mut self, next: &Self) {
        self.memory.extend_from_slice(next.bytes());
        self.count += next.count;
    }

    /// Releases the free room on both sides.
    pub fn fit(&mut self) {
        if self.memory.capacity() - self.bytes().len() > self.memory.capacity() / 32 {
            *self = self.clone();
        }
    }

    /// Shrinks the memory when most of it is unused.
    fn give_back(&mut self) {
        let length = self.bytes().len();
        if self.memory.capacity() >= SMALL && length * 4 < self.memory.capacity() {
            self.relocate(length * 2, length / 2);
        }
    }

    /// Makes room for `size` bytes at an end. The free room stays a fixed share of the capacity, so elements move
    /// rarely. Memory grows only where it has to.
    #[cold]
    fn make_room(&mut self, end: End, size: usize, usual: usize) {
        let (length, capacity) = (self.bytes().len(), self.memory.capacity());
        let room = capacity - length;
        let spacious = room >= size && (room - size >= capacity / 4 || capacity >= usual + usual / 4);
        if spacious {
            let beside = (room - size) / 2;
            let start = if end == End::Front { beside + size } else { beside };
            let (from, until) = (self.start, self.memory.len());
            self.memory.resize(until.max(start + length), 0);
            self.memory.copy_within(from..until, start);
            self.memory.truncate(start + length);
            self.start = start;
            return;
        }
        let most = (usual + usual / 4).max(capacity + size);
        let added = (length / 2).max(size).min((most - capacity).max(size));
        match end {
            End::Front => self.relocate(capacity + added, self.start + added),
            End::Back => self.memory.reserve_exact(capacity - self.memory.len() + added),
        }
    }

    /// Moves the elements to new memory, with `start` free bytes in front.
    fn relocate(&mut self, capacity: usize, start: usize) {
        let mut memory = Vec::with_capacity(capacity);
        memory.resize(start, 0);
        memory.extend_from_slice(self.bytes());
        self.memory = memory;
        self.start = start;
    }
}
