//! The one allocation of an entry: what is small about a key, the key, and its string, its small collection or the place of
//! its value. A collection that is under no key is a block with an empty one.
//!
//! A block is one pointer. What it points to, in this order:
//!
//! | bytes | what |
//! |---|---|
//! | 16 of an entry | a value, in front of the pointer; only if the block is boxed |
//! | 1 | flags, and in its upper half the slack: bytes at the end that are not used |
//! | 1 | room: these bytes and all that follow, in units of 16, less 8; 0 if the key is long |
//! | 1 | length of the key; `LONG` for a key of at least so many bytes |
//! | 4 | usage |
//! | 8 | room in bytes, if the key is long |
//! | 8 | deadline, if there is one |
//! | | key |
//! | | string, or all of a small collection, unless the block is boxed |
//!
//! The room is what glibc's allocator gives anyway: it hands out 16 bytes more each time, and keeps 8 for itself. So length and
//! capacity together take 12 bits. See `docs/decisions/0028-one-allocation-for-each-key.md`.

#![allow(unsafe_code)]

use std::alloc::{self, Layout};
use std::marker::PhantomData;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ops::Range;
use std::ptr::NonNull;
use std::slice;

use smallvec::SmallVec;

use super::usage::Usage;
use crate::base::clock::Millis;

const FLAGS: usize = 0;
const ROOM: usize = 1;
const KEY_LENGTH: usize = 2;
const USAGE: usize = 3;

/// The bytes of a head.
const HEAD: usize = 7;

const DEADLINE: u8 = 1;
const BOXED: u8 = 8;
/// What is special about the string, or that it is a collection.
const SPECIAL: u8 = 6;
const VERBATIM: u8 = 2;
const PRIVATE: u8 = 4;
const COLLECTION: u8 = 6;
const SLACK_SHIFT: u32 = 4;

/// A key of at least this length has its room in eight bytes of its own.
const LONG: usize = u8::MAX as usize;
/// From this slack on, it stands in the last two bytes of the room.
const MUCH_SLACK: usize = 15;
const WORD: usize = 8;
const UNIT: usize = 16;
const MOST_UNITS: usize = u8::MAX as usize;
const ALIGNMENT: usize = 8;

/// Usage, key, deadline and value of an entry in one allocation.
#[repr(transparent)]
pub struct Block<V> {
    /// Points to the flags.
    head: NonNull<u8>,
    /// A block owns its value.
    value: PhantomData<V>,
}

// SAFETY: a block has its allocation for itself, as a box has, and what lies in it are bytes and a value that can be sent.
unsafe impl<V: Send> Send for Block<V> {}
// SAFETY: a shared block is only read, and what lies in it are bytes and a value that can be shared.
unsafe impl<V: Sync> Sync for Block<V> {}

/// A type that is a block and nothing else. The value of a boxed one is its large form.
///
/// # Safety
///
/// The type must be laid out as `Block<Self::Large>` is.
pub unsafe trait OfBlock: Sized {
    type Large;
}

/// Defines a type that is a block.
macro_rules! block_type {
    ($(#[$attribute:meta])* $name:ident($large:ty)) => {
        $(#[$attribute])*
        #[repr(transparent)]
        pub struct $name($crate::data::keyspace::block::Block<$large>);

        #[allow(unsafe_code)]
        // SAFETY: it is transparent.
        unsafe impl $crate::data::keyspace::block::OfBlock for $name {
            type Large = $large;
        }

        impl $name {
            /// The bytes of the small form.
            pub fn small_text(&self) -> Option<&[u8]> {
                if self.0.is_boxed() { None } else { Some(self.0.text()) }
            }

            /// The small form that has these bytes.
            pub fn of_small_text(text: &[u8]) -> Self {
                Self($crate::data::keyspace::block::Block::keyless(text))
            }
        }
    };
}
pub(super) use block_type;

/// The parts of a new block.
struct Parts<'a> {
    flags: u8,
    usage: Usage,
    deadline: Option<Millis>,
    key: &'a [u8],
    /// Pieces of the string, one behind the other.
    text: [&'a [u8]; 3],
}

impl Parts<'_> {
    fn build<V>(&self, value: Option<V>) -> Block<V> {
        let is_long = self.key.len() >= LONG;
        let size = HEAD + (usize::from(is_long) + usize::from(self.deadline.is_some())) * WORD;
        let size = size + self.key.len() + self.text.iter().map(|piece| piece.len()).sum::<usize>();
        let units = size.saturating_sub(WORD).div_ceil(UNIT).max(1);
        let (room, units) = if is_long { (size, 0) } else { (units * UNIT + WORD, units) };
        assert!(units <= MOST_UNITS, "a string was not asked whether it fits");
        let boxed = if value.is_some() { BOXED } else { 0 };
        let timed = if self.deadline.is_some() { DEADLINE } else { 0 };
        let mut head = [0; HEAD];
        head[FLAGS] = self.flags & SPECIAL | boxed | timed;
        head[ROOM] = units as u8;
        head[KEY_LENGTH] = if is_long { LONG as u8 } else { self.key.len() as u8 };
        head[USAGE..].copy_from_slice(&self.usage.to_bits().to_le_bytes());
        let mut block = Block::allocate(room, value, |bytes| {
            let mut at = put(bytes, 0, &head);
            if is_long {
                at = put(bytes, at, &(room as u64).to_le_bytes());
            }
            if let Some(deadline) = self.deadline {
                at = put(bytes, at, &deadline.to_le_bytes());
            }
            at = put(bytes, at, self.key);
            self.text.iter().fold(at, |at, piece| put(bytes, at, piece))
        });
        block.set_slack(room - size);
        block
    }
}

/// Writes bytes at an offset, and returns the offset behind them.
#[inline]
fn put(room: &mut [MaybeUninit<u8>], at: usize, bytes: &[u8]) -> usize {
    let end = at + bytes.len();
    for (to, from) in room[at..end].iter_mut().zip(bytes) {
        to.write(*from);
    }
    end
}

impl<V> Block<V> {
    /// The bytes of a value in front of the head.
    const FRONT: usize = {
        assert!(align_of::<V>() <= ALIGNMENT, "the allocation begins with the value");
        size_of::<V>()
    };

    /// A block with a string; `None` if key or string are too long for that.
    #[inline]
    pub fn string(key: &[u8], text: &[u8], deadline: Option<Millis>, usage: Usage) -> Option<Self> {
        Self::special(0, key, [text, b"", b""], deadline, usage)
    }

    /// A block with a small collection; `None` if key or collection are too long for that.
    pub fn collection(key: &[u8], text: &[u8], deadline: Option<Millis>, usage: Usage) -> Option<Self> {
        Self::special(COLLECTION, key, [text, b"", b""], deadline, usage)
    }

    #[inline]
    fn special(flags: u8, key: &[u8], text: [&[u8]; 3], deadline: Option<Millis>, usage: Usage) -> Option<Self> {
        let size =
            HEAD + deadline.map_or(0, |_| WORD) + key.len() + text.iter().map(|piece| piece.len()).sum::<usize>();
        let fits = key.len() < LONG && size <= MOST_UNITS * UNIT + WORD;
        fits.then(|| Parts { flags, usage, deadline, key, text }.build(None))
    }

    /// A small collection under no key.
    pub fn keyless(text: &[u8]) -> Self {
        match Self::collection(b"", text, None, Usage::default()) {
            Some(block) => block,
            None => unreachable!("a small collection is smaller than the largest block"),
        }
    }

    /// A large collection under no key.
    pub fn large(value: V) -> Self {
        Self::boxed(b"", value, None, Usage::default())
    }

    pub fn boxed(key: &[u8], value: V, deadline: Option<Millis>, usage: Usage) -> Self {
        Parts { flags: 0, usage, deadline, key, text: [b""; 3] }.build(Some(value))
    }

    /// Allocates room for a value and for so many bytes, which `fill` fills from the start; the rest is zero. `fill` must write
    /// the head.
    #[inline]
    fn allocate(room: usize, value: Option<V>, fill: impl FnOnce(&mut [MaybeUninit<u8>]) -> usize) -> Self {
        let front = if value.is_some() { Self::FRONT } else { 0 };
        let layout = layout(front, room);
        // SAFETY: the layout's size is not zero, because a room has at least a head. The value is written to the start of the
        // allocation, which is aligned for it and has its size in front of the room. The slice is the room, as memory that
        // may not be initialized yet, and nothing else refers to it.
        let (head, bytes) = unsafe {
            let Some(start) = NonNull::new(alloc::alloc(layout)) else { alloc::handle_alloc_error(layout) };
            if let Some(value) = value {
                start.cast::<V>().write(value);
            }
            let head = start.add(front);
            (head, slice::from_raw_parts_mut(head.cast::<MaybeUninit<u8>>().as_ptr(), room))
        };
        let end = fill(bytes);
        bytes[end..].iter_mut().for_each(|byte| _ = byte.write(0));
        Self { head, value: PhantomData }
    }

    /// The address of the block's bytes, for prefetching.
    #[inline]
    pub fn address(&self) -> *const u8 {
        self.head.as_ptr()
    }

    #[inline]
    fn head(&self) -> &[u8; HEAD] {
        // SAFETY: a head is the first thing in every room, and is initialized since the block was allocated.
        unsafe { self.head.cast().as_ref() }
    }

    #[inline]
    fn head_mut(&mut self) -> &mut [u8; HEAD] {
        // SAFETY: as for `head`; the exclusive borrow of the block makes this the only reference into it.
        unsafe { self.head.cast().as_mut() }
    }

    #[inline]
    fn flags(&self) -> u8 {
        self.head()[FLAGS]
    }

    #[inline]
    fn room(&self) -> usize {
        match usize::from(self.head()[ROOM]) {
            0 => self.long_room(),
            units => units * UNIT + WORD,
        }
    }

    #[cold]
    fn long_room(&self) -> usize {
        // SAFETY: without units the room stands behind the head, in eight bytes that are part of it.
        let room: [u8; WORD] = unsafe { self.head.add(HEAD).cast().read() };
        u64::from_le_bytes(room) as usize
    }

    #[inline]
    fn bytes(&self) -> &[u8] {
        // SAFETY: so many bytes were allocated and initialized, and only an exclusive borrow of the block changes them.
        unsafe { slice::from_raw_parts(self.head.as_ptr(), self.room()) }
    }

    /// As [`bytes`](Self::bytes). Neither the room nor whether the block is boxed may be changed, here and in `head_mut`.
    #[inline]
    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `bytes`; the exclusive borrow of the block makes this the only reference into it.
        unsafe { slice::from_raw_parts_mut(self.head.as_ptr(), self.room()) }
    }

    #[inline]
    pub fn is_boxed(&self) -> bool {
        self.flags() & BOXED != 0
    }

    /// The address of the value of a boxed block.
    #[inline]
    fn value_address(&self) -> NonNull<V> {
        // SAFETY: callers have asked whether the block is boxed; then its allocation begins with a value.
        unsafe { self.head.sub(Self::FRONT).cast() }
    }

    #[inline]
    pub fn value(&self) -> Option<&V> {
        // SAFETY: the value is initialized as long as the block lives, and only an exclusive borrow changes it.
        self.is_boxed().then(|| unsafe { self.value_address().as_ref() })
    }

    #[inline]
    pub fn value_mut(&mut self) -> Option<&mut V> {
        // SAFETY: as for `value`; the exclusive borrow of the block makes this the only reference to its value.
        self.is_boxed().then(|| unsafe { self.value_address().as_mut() })
    }

    /// Frees the block and returns its value.
    fn into_value(self) -> Option<V> {
        let block = ManuallyDrop::new(self);
        // SAFETY: the value is read once, and the block is not dropped but only freed. Nothing uses it any more.
        unsafe {
            let value = block.is_boxed().then(|| block.value_address().read());
            block.free();
            value
        }
    }

    /// Gives the memory back.
    ///
    /// # Safety
    ///
    /// The block must not be used any more, and its value must have been moved or dropped.
    unsafe fn free(&self) {
        let front = if self.is_boxed() { Self::FRONT } else { 0 };
        // SAFETY: the room and whether there is a value in front of it are as they were when it was allocated.
        unsafe { alloc::dealloc(self.head.sub(front).as_ptr(), layout(front, self.room())) }
    }

    /// Whether the block is boxed or has a deadline. Most blocks that are looked up are not and have none.
    #[inline]
    pub fn is_plain(&self) -> bool {
        self.flags() & (BOXED | DEADLINE) == 0
    }

    /// The length of the key; `LONG` if it is longer.
    #[inline]
    fn key_length(&self) -> usize {
        usize::from(self.head()[KEY_LENGTH])
    }

    #[inline]
    fn key_start(&self) -> usize {
        let long = usize::from(self.key_length() == LONG);
        HEAD + (long + usize::from(self.flags() & DEADLINE)) * WORD
    }

    #[inline]
    fn key_end(&self) -> usize {
        match self.key_length() {
            LONG => self.room(),
            length => self.key_start() + length,
        }
    }

    #[inline]
    pub fn key(&self) -> &[u8] {
        &self.bytes()[self.key_start()..self.key_end()]
    }

    /// Whether this is the key. Keys of another length are told apart by the head.
    #[inline]
    pub fn has_key(&self, key: &[u8]) -> bool {
        if key.len() >= LONG || self.key_length() != key.len() {
            return key.len() >= LONG && self.key() == key;
        }
        let start = HEAD + usize::from(self.flags() & DEADLINE) * WORD;
        self.bytes().get(start..start + key.len()) == Some(key)
    }

    /// The string; empty in a boxed block.
    #[inline]
    pub fn text(&self) -> &[u8] {
        &self.bytes()[self.key_end()..self.end()]
    }

    /// The end of the bytes that are used.
    #[inline]
    fn end(&self) -> usize {
        let slack = match usize::from(self.flags() >> SLACK_SHIFT) {
            MUCH_SLACK => self.much_slack(),
            slack => slack,
        };
        self.room() - slack
    }

    #[cold]
    fn much_slack(&self) -> usize {
        match self.bytes() {
            [.., low, high] => usize::from(u16::from_le_bytes([*low, *high])),
            _ => unreachable!("a room has at least a head"),
        }
    }

    fn set_slack(&mut self, slack: usize) {
        let room = self.room();
        let bytes = self.bytes_mut();
        if slack >= MUCH_SLACK {
            bytes[room - 2..].copy_from_slice(&(slack as u16).to_le_bytes());
        }
        bytes[FLAGS] = bytes[FLAGS] & ((1 << SLACK_SHIFT) - 1) | (slack.min(MUCH_SLACK) as u8) << SLACK_SHIFT;
    }

    #[inline]
    pub fn deadline(&self) -> Option<Millis> {
        if self.flags() & DEADLINE == 0 {
            return None;
        }
        let end = self.key_start();
        self.bytes().get(end - WORD..end)?.try_into().ok().map(Millis::from_le_bytes)
    }

    /// Sets or removes the deadline. `false` if a string does not fit into a block with it; then nothing has changed.
    pub fn set_deadline(&mut self, deadline: Option<Millis>) -> bool {
        let end = self.end();
        if self.move_key(deadline, end) {
            return true;
        }
        if self.is_boxed() {
            self.rebuild(None, deadline);
            return true;
        }
        let rebuilt = Self::special(self.flags(), self.key(), [self.text(), b"", b""], deadline, self.usage());
        rebuilt.map(|rebuilt| *self = rebuilt).is_some()
    }

    /// Makes the room in front of the key that a deadline needs, moves what is used up to `end`, and writes the deadline.
    /// `false` if that does not fit; then nothing has changed.
    #[inline]
    fn move_key(&mut self, deadline: Option<Millis>, end: usize) -> bool {
        let start = self.key_start();
        let new_start = match (self.flags() & DEADLINE != 0, deadline) {
            (true, None) => start - WORD,
            (false, Some(_)) => start + WORD,
            _ => start,
        };
        if new_start != start {
            let (room, new_end) = (self.room(), end + new_start - start);
            // The end of a long key is that of its room.
            if new_end > room || self.key_length() == LONG {
                return false;
            }
            let bytes = self.bytes_mut();
            bytes.copy_within(start..end, new_start);
            bytes[FLAGS] ^= DEADLINE;
            self.set_slack(room - new_end);
        }
        if let Some(deadline) = deadline {
            self.bytes_mut()[new_start - WORD..new_start].copy_from_slice(&deadline.to_le_bytes());
        }
        true
    }

    /// Moves the value to a new block, under another key if there is one.
    fn rebuild(&mut self, key: Option<&[u8]>, deadline: Option<Millis>) {
        let (flags, usage, old_key) = (self.flags(), self.usage(), self.key().to_vec());
        let parts = Parts { flags, usage, deadline, key: key.unwrap_or(&old_key), text: [b""; 3] };
        // The empty block lives until the next line.
        let empty = Parts { flags: 0, usage, deadline: None, key: b"", text: [b""; 3] }.build(None);
        *self = parts.build(std::mem::replace(self, empty).into_value());
    }

    /// The value of a boxed block under another key.
    pub fn renamed(mut self, key: &[u8]) -> Self {
        let deadline = self.deadline();
        self.rebuild(Some(key), deadline);
        self
    }

    /// Overwrites the string and the deadline in the same allocation, if they fit and leave little of it unused.
    #[inline]
    pub fn rewrite(&mut self, text: &[u8], deadline: Option<Millis>) -> bool {
        let key_end = self.key_end();
        let new_key_end = key_end - usize::from(self.flags() & DEADLINE) * WORD + deadline.map_or(0, |_| WORD);
        let (room, end) = (self.room(), new_key_end + text.len());
        if self.is_boxed() || end > room || end * 2 + 64 < room || !self.move_key(deadline, key_end) {
            return false;
        }
        let bytes = self.bytes_mut();
        bytes[new_key_end..end].copy_from_slice(text);
        bytes[FLAGS] &= !SPECIAL;
        self.set_slack(room - end);
        true
    }

    /// Replaces a part of the string: in the same allocation, if that fits and leaves little of it unused. `false` if no block
    /// has so much room; then nothing has changed.
    pub fn splice(&mut self, part: Range<usize>, with: &[u8]) -> bool {
        let (start, end, room) = (self.key_end(), self.end(), self.room());
        let (from, until) = (start + part.start, start + part.end);
        assert!(from <= until && until <= end && !self.is_boxed(), "a part of a string lies in it");
        let new_end = end - part.len() + with.len();
        if new_end <= room && new_end * 2 + 64 >= room {
            let bytes = self.bytes_mut();
            if new_end != end {
                bytes.copy_within(until..end, from + with.len());
            }
            bytes[from..from + with.len()].copy_from_slice(with);
            self.set_slack(room - new_end);
            return true;
        }
        let text = self.text();
        let text = [&text[..part.start], with, &text[part.end..]];
        let rebuilt = Self::special(self.flags(), self.key(), text, self.deadline(), self.usage());
        rebuilt.map(|rebuilt| *self = rebuilt).is_some()
    }

    /// Overwrites a byte of the string.
    pub fn set_byte(&mut self, at: usize, byte: u8) {
        let start = self.key_end();
        self.bytes_mut()[start + at] = byte;
    }

    #[inline]
    pub fn is_verbatim(&self) -> bool {
        self.flags() & SPECIAL == VERBATIM
    }

    /// Marks a string as verbatim, and no longer as private: what is verbatim is no integer that could be shared.
    pub fn set_verbatim(&mut self) {
        if !self.is_collection() {
            self.mark(VERBATIM);
        }
    }

    #[inline]
    pub fn is_private(&self) -> bool {
        self.flags() & SPECIAL == PRIVATE
    }

    /// Marks a string as private, unless it is verbatim.
    pub fn set_private(&mut self) {
        if self.flags() & SPECIAL == 0 {
            self.mark(PRIVATE);
        }
    }

    pub fn clear_private(&mut self) {
        if self.is_private() {
            self.mark(0);
        }
    }

    /// Whether it is a small collection.
    #[inline]
    pub fn is_collection(&self) -> bool {
        self.flags() & (SPECIAL | BOXED) == COLLECTION
    }

    #[inline]
    fn mark(&mut self, special: u8) {
        let flags = &mut self.head_mut()[FLAGS];
        *flags = *flags & !SPECIAL | special;
    }

    /// A small collection as its type. `None` for any other block.
    #[inline]
    pub fn as_collection<T: OfBlock>(&self) -> Option<&T> {
        // SAFETY: blocks of all values are laid out alike, and so is `T`. Only a boxed block has a value, so nobody looks for one
        // of another type, and nothing that is done with a shared reference boxes it.
        self.is_collection().then(|| unsafe { &*(&raw const *self).cast::<T>() })
    }

    /// Changes a small collection as its type. If it is large then, it becomes a value. Key, deadline and usage stay as they are,
    /// even if `change` replaces all of it. `None` for any other block.
    #[inline]
    pub fn change_collection<T: OfBlock + Into<V>, R>(&mut self, change: impl FnOnce(&mut T) -> R) -> Option<R> {
        if !self.is_collection() {
            return None;
        }
        let (usage, deadline, key) = (self.usage(), self.deadline(), SmallVec::from_slice(self.key()));
        let mut lent = Lent::<V, T> { block: self, usage, deadline, key, collection: PhantomData };
        Some(change(lent.collection()))
    }

    #[inline]
    pub fn usage(&self) -> Usage {
        let [.., first, second, third, fourth] = *self.head();
        Usage::from_bits(u32::from_le_bytes([first, second, third, fourth]))
    }

    #[inline]
    pub fn set_usage(&mut self, usage: Usage) {
        self.head_mut()[USAGE..].copy_from_slice(&usage.to_bits().to_le_bytes());
    }

    /// The bytes of the allocation.
    #[inline]
    pub fn size(&self) -> usize {
        self.room() + if self.is_boxed() { Self::FRONT } else { 0 }
    }
}

#[inline]
fn layout(front: usize, room: usize) -> Layout {
    match Layout::from_size_align(front + room, ALIGNMENT) {
        Ok(layout) => layout,
        Err(_) => unreachable!("a key is shorter than half of the address space"),
    }
}

/// A block that is lent as a small collection. Until this is dropped it can be one with a value of another type.
struct Lent<'b, V, T: OfBlock + Into<V>> {
    block: &'b mut Block<V>,
    usage: Usage,
    deadline: Option<Millis>,
    key: SmallVec<[u8; 64]>,
    collection: PhantomData<T>,
}

impl<V, T: OfBlock + Into<V>> Lent<'_, V, T> {
    #[inline]
    fn collection(&mut self) -> &mut T {
        // SAFETY: blocks of all values are laid out alike, and so is `T`. The block is not looked at in another way before this is
        // dropped, which happens also while a panic unwinds; then it is again what its type says.
        unsafe { &mut *(&raw mut *self.block).cast() }
    }

    /// Whether the collection is small and under its key, as if it were changed in place.
    #[inline]
    fn is_in_place(&self) -> bool {
        self.block.is_collection() && self.block.key() == &self.key[..] && self.block.deadline() == self.deadline
    }

    /// Makes the block again of what was made of the collection.
    #[cold]
    fn rebuild(&mut self) {
        let (usage, deadline, key) = (self.usage, self.deadline, &self.key[..]);
        if !self.block.is_boxed() {
            let rebuilt =
                Parts { flags: COLLECTION, usage, deadline, key, text: [self.block.text(), b"", b""] }.build(None);
            *self.block = rebuilt;
            return;
        }
        let place = &raw mut *self.block;
        // SAFETY: what is boxed here is a large collection, so it is read as one. Nothing in between panics before the place has
        // a block again: what allocates aborts if there is no memory. The place is overwritten without a drop of what was read.
        unsafe {
            let large: T = place.cast::<T>().read();
            place.write(Parts { flags: 0, usage, deadline, key, text: [b""; 3] }.build(Some(large.into())));
        }
    }
}

impl<V, T: OfBlock + Into<V>> Drop for Lent<'_, V, T> {
    #[inline]
    fn drop(&mut self) {
        if self.is_in_place() {
            self.block.set_usage(self.usage);
        } else {
            self.rebuild();
        }
    }
}

impl<V> Drop for Block<V> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: a block is dropped once, its value before its memory is given back.
        unsafe {
            if self.is_boxed() {
                self.value_address().drop_in_place();
            }
            self.free();
        }
    }
}

impl<V: Clone> Clone for Block<V> {
    fn clone(&self) -> Self {
        let (flags, usage, deadline) = (self.flags(), self.usage(), self.deadline());
        Parts { flags, usage, deadline, key: self.key(), text: [self.text(), b"", b""] }.build(self.value().cloned())
    }
}
