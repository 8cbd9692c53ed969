//! Nodes: contiguous runs of a stream's entries, in Redis's serialized form.
//!
//! A node is the elements of a listpack. First the master fields, those of the first entry: their number, the names, a
//! 0. Then the entries: flags, the difference of the id to the node's (two integers), the number of fields with
//! alternating names and values (only the values, if the names are the master fields), and the number of these
//! elements.

use crate::data::listpack::{self, Element};

use super::StreamId;

/// The flags of an entry.
const DELETED: u8 = 1;
const SAME_FIELDS: u8 = 2;

/// The overhead of a listpack.
const AROUND: usize = 7;

#[derive(Clone)]
pub struct Node {
    live: u32,
    deleted: u32,
    /// The offset of the first entry, and the number of master fields.
    start: u32,
    fields: u32,
    elements: Vec<u8>,
}

/// An entry of a node.
#[derive(Clone, Copy)]
pub struct NodeEntry<'n> {
    pub id: StreamId,
    pub deleted: bool,
    pub fields: Fields<'n>,
    /// Its offset in the elements.
    at: usize,
}

/// The fields of an entry with their values.
#[derive(Clone, Copy)]
pub struct Fields<'n> {
    /// The master fields' names, if the entry has only values.
    names: Option<&'n [u8]>,
    values: &'n [u8],
    left: usize,
}

impl<'n> Iterator for Fields<'n> {
    type Item = (Element<'n>, Element<'n>);

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let name = match &mut self.names {
            Some(names) => take(names)?,
            None => take(&mut self.values)?,
        };
        Some((name, take(&mut self.values)?))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Fields<'_> {}

/// Removes and returns the first element.
fn take<'e>(elements: &mut &'e [u8]) -> Option<Element<'e>> {
    let (element, size) = listpack::first(elements)?;
    *elements = elements.get(size..)?;
    Some(element)
}

fn take_integer(elements: &mut &[u8]) -> Option<i64> {
    match take(elements)? {
        Element::Integer(value) => Some(value),
        Element::String(_) => None,
    }
}

fn take_last<'e>(elements: &mut &'e [u8]) -> Option<Element<'e>> {
    let (element, size) = listpack::last(elements)?;
    *elements = elements.get(..elements.len() - size)?;
    Some(element)
}

fn push(elements: &mut Vec<u8>, value: usize) {
    Element::Integer(value as i64).append(elements);
}

impl Node {
    /// An empty node whose master fields are those of an entry with alternating names and values.
    pub fn for_entry<'w>(words: impl ExactSizeIterator<Item = &'w [u8]>) -> Self {
        let fields = words.len() / 2;
        let mut elements = Vec::with_capacity(64);
        push(&mut elements, fields);
        for name in words.step_by(2) {
            Element::of(name).append(&mut elements);
        }
        push(&mut elements, 0);
        Self { live: 0, deleted: 0, start: elements.len() as u32, fields: fields as u32, elements }
    }

    /// A node from a listpack; `None` if the listpack is no valid node. `id` is the node's.
    pub fn of_listpack(bytes: &[u8], id: StreamId) -> Option<Self> {
        let mut rest = listpack::elements(bytes)?;
        let [live, deleted] = [take_integer(&mut rest)?, take_integer(&mut rest)?];
        let elements = rest.to_vec();
        let fields = take_integer(&mut rest)?;
        if fields < 1 {
            return None;
        }
        for _ in 0..fields {
            take(&mut rest)?;
        }
        if take_integer(&mut rest)? != 0 {
            return None;
        }
        let start = u32::try_from(elements.len() - rest.len()).ok()?;
        let (live, deleted, fields) =
            (u32::try_from(live).ok()?, u32::try_from(deleted).ok()?, u32::try_from(fields).ok()?);
        let node = Self { live, deleted, start, fields, elements };
        node.is_sound(id).then_some(node)
    }

    /// Whether all entries can be read, in the right number and in ascending order. Deleted entries may be in any
    /// order: XSETID allows deleted ids to be added again.
    fn is_sound(&self, id: StreamId) -> bool {
        let mut last = None;
        let (mut live, mut deleted) = (0, 0);
        let mut rest = &self.elements[self.start as usize..];
        while !rest.is_empty() {
            let Some((entry, size)) = self.entry(self.elements.len() - rest.len(), id) else { return false };
            // All its fields were read to find its end.
            let fields = entry.fields;
            // The deleted flag must be a bit of the single byte that encodes the flags.
            if !matches!(rest.first(), Some(0..=127)) {
                return false;
            }
            if !entry.deleted && last.is_some_and(|last| entry.id <= last) {
                return false;
            }
            let Some((Element::Integer(back), _)) = listpack::last(&rest[..size]) else { return false };
            let same = fields.names.is_some();
            if back != fields.len() as i64 * if same { 1 } else { 2 } + if same { 3 } else { 4 } {
                return false;
            }
            if entry.deleted {
                deleted += 1;
            } else {
                last = Some(entry.id);
                live += 1;
            }
            rest = &rest[size..];
        }
        (live, deleted) == (self.live, self.deleted)
    }

    /// The serialized form.
    pub fn to_listpack(&self) -> Vec<u8> {
        let mut elements = Vec::with_capacity(self.elements.len() + 2 * 6);
        push(&mut elements, self.live as usize);
        push(&mut elements, self.deleted as usize);
        elements.extend_from_slice(&self.elements);
        let mut count = 0;
        let mut rest = elements.as_slice();
        while take(&mut rest).is_some() {
            count += 1;
        }
        listpack::enclose(&elements, count)
    }

    /// The number of entries that are not deleted.
    pub fn live(&self) -> usize {
        self.live as usize
    }

    /// The number of entries, including deleted ones.
    pub fn entries(&self) -> usize {
        self.live as usize + self.deleted as usize
    }

    /// The size of the serialized form in bytes.
    pub fn packed_size(&self) -> usize {
        let counted = |count: u32| Element::Integer(i64::from(count)).size();
        AROUND + counted(self.live) + counted(self.deleted) + self.elements.len()
    }

    /// The memory outside itself, in bytes.
    pub fn size(&self) -> usize {
        self.elements.capacity()
    }

    /// Releases spare capacity once no more entries will be added.
    pub fn shrink(&mut self) {
        self.elements.shrink_to_fit();
    }

    /// Appends an entry of alternating names and values; `own` is the node's id.
    pub fn append<'w>(&mut self, own: StreamId, id: StreamId, words: impl ExactSizeIterator<Item = &'w [u8]> + Clone) {
        let fields = words.len() / 2;
        let same = fields == self.fields as usize && self.has_names(words.clone().step_by(2));
        let elements = &mut self.elements;
        push(elements, usize::from(if same { SAME_FIELDS } else { 0 }));
        Element::Integer(id.ms.wrapping_sub(own.ms) as i64).append(elements);
        Element::Integer(id.seq.wrapping_sub(own.seq) as i64).append(elements);
        if same {
            words.skip(1).step_by(2).for_each(|value| Element::of(value).append(elements));
            push(elements, fields + 3);
        } else {
            push(elements, fields);
            words.for_each(|word| Element::of(word).append(elements));
            push(elements, fields * 2 + 4);
        }
        self.live += 1;
    }

    fn names(&self) -> &[u8] {
        let mut names = &self.elements[..self.start as usize];
        take(&mut names);
        names
    }

    fn has_names<'w>(&self, words: impl Iterator<Item = &'w [u8]>) -> bool {
        let mut names = self.names();
        words.into_iter().all(|word| match take(&mut names) {
            Some(Element::String(name)) => name == word,
            Some(integer) => Element::of(word) == integer,
            None => false,
        })
    }

    /// The entry at an offset, and its size in bytes.
    fn entry(&self, at: usize, own: StreamId) -> Option<(NodeEntry<'_>, usize)> {
        let whole = self.elements.get(at..)?;
        let mut rest = whole;
        let flags = take_integer(&mut rest)?;
        let ms = own.ms.wrapping_add(take_integer(&mut rest)? as u64);
        let seq = own.seq.wrapping_add(take_integer(&mut rest)? as u64);
        let same = flags & i64::from(SAME_FIELDS) != 0;
        let left = if same { self.fields as usize } else { usize::try_from(take_integer(&mut rest)?).ok()? };
        let fields = Fields { names: same.then(|| self.names()), values: rest, left };
        for _ in 0..left.checked_mul(if same { 1 } else { 2 })? {
            take(&mut rest)?;
        }
        take_integer(&mut rest)?;
        let deleted = flags & i64::from(DELETED) != 0;
        Some((NodeEntry { id: StreamId { ms, seq }, deleted, fields, at }, whole.len() - rest.len()))
    }

    /// The entries, including deleted ones. `own` is the node's id.
    pub fn iter(&self, own: StreamId) -> impl Iterator<Item = NodeEntry<'_>> {
        let mut at = self.start as usize;
        std::iter::from_fn(move || {
            let (entry, size) = self.entry(at, own)?;
            at += size;
            Some(entry)
        })
    }

    /// Like [`iter`](Self::iter), in reverse.
    pub fn iter_back(&self, own: StreamId) -> impl Iterator<Item = NodeEntry<'_>> {
        let mut end = self.elements.len();
        std::iter::from_fn(move || {
            let mut rest = &self.elements[self.start as usize..end];
            let Element::Integer(count) = take_last(&mut rest)? else { return None };
            for _ in 0..count {
                take_last(&mut rest)?;
            }
            end = self.start as usize + rest.len();
            self.entry(end, own).map(|(entry, _)| entry)
        })
    }

    /// Deletes entries from the first on. `wanted` gets each id, and whether that entry is deleted already; it says
    /// whether to delete it, and its first `None` ends this. Returns how many were not deleted before.
    pub fn delete_while(&mut self, own: StreamId, mut wanted: impl FnMut(StreamId, bool) -> Option<bool>) -> usize {
        let mut places = Vec::new();
        for entry in self.iter(own) {
            match wanted(entry.id, entry.deleted) {
                Some(true) if !entry.deleted => places.push(entry.at),
                Some(_) => {}
                None => break,
            }
        }
        places.iter().for_each(|&at| self.delete_at(at));
        places.len()
    }

    /// Deletes an entry. Returns whether it existed.
    pub fn delete(&mut self, own: StreamId, id: StreamId) -> bool {
        let found = self.iter(own).find(|entry| !entry.deleted && entry.id >= id).filter(|entry| entry.id == id);
        let Some(at) = found.map(|entry| entry.at) else { return false };
        self.delete_at(at);
        true
    }

    /// Flags are small integers, encoded as one byte each.
    fn delete_at(&mut self, at: usize) {
        self.elements[at] |= DELETED;
        self.live -= 1;
        self.deleted += 1;
    }
}
