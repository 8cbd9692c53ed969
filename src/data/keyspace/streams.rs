//! View methods for streams.

use std::sync::atomic::Ordering;

use super::stream::{NodeLimits, Stream};
use super::value::Collection;
use super::view::View;
use super::{Settings, number};
use crate::base::error::CommandError;

impl View<'_> {
    /// Changes the stream under a key, if it exists, without touching watchers: WATCH ignores changes of groups.
    pub fn change_quietly<R>(
        &mut self,
        key: &[u8],
        change: impl FnOnce(&mut Stream) -> R,
    ) -> Result<Option<R>, CommandError> {
        let Some(at) = self.find_for_update(key) else { return Ok(None) };
        let change = |entry: &mut super::Entry| entry.change(change);
        self.rewrite_quietly(at, change).map(Some).ok_or(CommandError::WRONG_TYPE)
    }

    /// The value under a key that was just found to have this type.
    pub fn peek_found_collection<T: Collection>(&self, key: &[u8]) -> Option<&T> {
        self.peek_found(key)?.collection()
    }
}

impl Settings {
    /// The size limits of stream nodes.
    pub fn node_limits(&self) -> NodeLimits {
        NodeLimits {
            bytes: number(&self.encoding_limits.stream_node_max_bytes),
            entries: number(&self.encoding_limits.stream_node_max_entries),
        }
    }

    /// The most entries that approximate trimming removes if the request has no LIMIT.
    pub fn rough_trim_limit(&self) -> i64 {
        match self.encoding_limits.stream_node_max_entries.load(Ordering::Relaxed).saturating_mul(100) {
            limit @ 1.. => limit.min(1_000_000),
            _ => 10_000,
        }
    }
}
