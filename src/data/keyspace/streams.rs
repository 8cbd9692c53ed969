//! What a view can do with streams beyond what it can do with every value.

use std::sync::atomic::Ordering;

use super::stream::{NodeLimits, Stream};
use super::value::Collection;
use super::view::View;
use super::{Settings, number};
use crate::base::error::CommandError;

impl View<'_> {
    /// Changes the stream under a key, if there is one, without touching its watchers: WATCH ignores what groups do.
    pub fn change_quietly<R>(
        &mut self,
        key: &[u8],
        change: impl FnOnce(&mut Stream) -> R,
    ) -> Result<Option<R>, CommandError> {
        let Some(at) = self.find_for_update(key) else { return Ok(None) };
        let change = |entry: &mut super::Entry| entry.collection_mut().map(change);
        self.rewrite_quietly(at, change).map(Some).ok_or(CommandError::WRONG_TYPE)
    }

    /// The value under a key, which was just found to be of this type.
    pub fn peek_found_collection<T: Collection>(&self, key: &[u8]) -> Option<&T> {
        self.peek_found(key)?.collection()
    }
}

impl Settings {
    /// When a node of a stream takes no more entries.
    pub fn node_limits(&self) -> NodeLimits {
        NodeLimits {
            bytes: number(&self.encoding_limits.stream_node_max_bytes),
            entries: number(&self.encoding_limits.stream_node_max_entries),
        }
    }

    /// How many entries are trimmed at most where the request leaves that open.
    pub fn rough_trim_limit(&self) -> i64 {
        match self.encoding_limits.stream_node_max_entries.load(Ordering::Relaxed).saturating_mul(100) {
            limit @ 1.. => limit.min(1_000_000),
            _ => 10_000,
        }
    }
}
