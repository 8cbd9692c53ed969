//! Values that Redis frees in the background, and room that is given back.

use std::sync::atomic::{AtomicBool, Ordering};

use super::entry::Entry;
use super::value::ValueKind;
use super::view::View;
use super::{Hash, List, Set, SortedSet, Stream};
use crate::base::profile::Profile;

/// A value of no more parts than this is freed at once: that takes less time than to do it in the background.
const FEW_PARTS: usize = 64;

/// Which removals leave it to later to free a large value (`lazyfree-lazy-…`). Here all values are freed when the locks are
/// released; clients see how they are counted.
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
