//! Values that are freed when their keys are gone and the locks released: large ones on a thread of their own.

use std::sync::atomic::{AtomicBool, Ordering};

use super::entry::Entry;
use super::store::Contents;
use super::value::ValueKind;
use super::view::View;
use super::{Hash, List, Set, SortedSet, Stream};
use crate::base::profile::Profile;

/// A value of no more parts than this is freed at once: that takes less time than to do it in the background.
const FEW_PARTS: usize = 64;

/// From this many bytes on, values are freed on a thread of their own: it takes a few milliseconds for each megabyte of small
/// parts, and a thread a few microseconds.
const MANY_BYTES: usize = 1 << 20;

/// Which removals leave it to later to free a large value (`lazyfree-lazy-…`). Here all large values are freed when the locks
/// are released, and no client waits for it; clients see how they are counted.
#[derive(Default)]
pub struct LazyFreeSettings {
    pub eviction: AtomicBool,
    pub expire: AtomicBool,
    pub server_del: AtomicBool,
    pub user_del: AtomicBool,
    pub user_flush: AtomicBool,
}

impl LazyFreeSettings {
    /// Each setting with its directive.
    pub fn all(&self) -> [(&'static str, &AtomicBool); 5] {
        [
            ("lazyfree-lazy-eviction", &self.eviction),
            ("lazyfree-lazy-expire", &self.expire),
            ("lazyfree-lazy-server-del", &self.server_del),
            ("lazyfree-lazy-user-del", &self.user_del),
            ("lazyfree-lazy-user-flush", &self.user_flush),
        ]
    }
}

/// What a view removed and does not free while it holds locks. Freed when it is dropped.
#[derive(Default)]
pub(super) struct Garbage {
    tables: Vec<Contents>,
    entries: Vec<Entry>,
    bytes: usize,
}

impl Garbage {
    pub(super) fn add_tables(&mut self, tables: Vec<Contents>, bytes: usize) {
        self.tables.extend(tables);
        self.bytes += bytes;
    }

    pub(super) fn add_entry(&mut self, entry: Entry) {
        self.bytes += entry.size();
        self.entries.push(entry);
    }

    /// Whether freeing an entry takes long.
    #[inline]
    pub(super) fn is_large(entry: &Entry) -> bool {
        entry.kind() != ValueKind::String && entry.size() >= MANY_BYTES
    }
}

impl Drop for Garbage {
    fn drop(&mut self) {
        if self.bytes >= MANY_BYTES {
            let (tables, entries) = (std::mem::take(&mut self.tables), std::mem::take(&mut self.entries));
            // If there is no thread to be had, they are freed here.
            let _ = std::thread::Builder::new().name("lazy-free".to_owned()).spawn(move || drop((tables, entries)));
        }
    }
}

impl View<'_> {
    /// A key is about to be removed by a command that leaves it to later to free the value. Counts it, if it is large
    /// enough for that.
    pub fn free_lazily(&mut self, key: &[u8]) {
        if let Some(at) = self.find_to_remove(key)
            && parts(self.entry(at)) > FEW_PARTS
        {
            self.count_freed_lazily(1);
        }
    }

    /// An entry was removed. Counts it, if the setting leaves it to later to free it and it is large enough for that.
    pub(super) fn note_removed(&self, entry: &Entry, lazily: &AtomicBool) {
        if lazily.load(Ordering::Relaxed) && parts(entry) > FEW_PARTS {
            self.count_freed_lazily(1);
        }
    }
}

/// How many pieces of memory a value has in Redis.
fn parts(entry: &Entry) -> usize {
    // Releases differ only in the encoding of strings.
    let is_table = matches!(entry.encoding(&Profile::default()), "hashtable" | "skiplist");
    match entry.kind() {
        ValueKind::String => 1,
        ValueKind::List => entry.collection().map_or(1, |list: &List| list.chunks().len()),
        ValueKind::Set if is_table => entry.collection().map_or(1, Set::len),
        ValueKind::Hash if is_table => entry.collection().map_or(1, Hash::len),
        ValueKind::SortedSet if is_table => entry.collection().map_or(1, SortedSet::len),
        ValueKind::Set | ValueKind::Hash | ValueKind::SortedSet => 1,
        ValueKind::Stream => entry.collection().map_or(1, |stream: &Stream| {
            let groups = stream.groups().map(|(_, group)| 1 + group.pending().len());
            stream.log().tree_nodes() + groups.sum::<usize>()
        }),
    }
}
