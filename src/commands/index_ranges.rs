//! Ranges as requests give them: both ends inclusive, negative indexes counted from the end.

use std::ops::Range;

/// A range of a list, or of ranks of a sorted set.
pub(super) fn element_range(start: i64, stop: i64, len: usize) -> Range<usize> {
    let from_front = |index: i64| if index < 0 { index + len as i64 } else { index };
    let (start, stop) = (from_front(start).max(0), from_front(stop).min(len as i64 - 1));
    if start > stop { 0..0 } else { start as usize..stop as usize + 1 }
}

/// Whether both ends are negative and in the wrong order. Such a range is empty for a string of any length.
pub(super) fn is_backwards(start: i64, end: i64) -> bool {
    start < 0 && end < 0 && start > end
}

/// A range of a string. Unlike in lists, an end before the beginning of the string means its first byte.
pub(super) fn byte_range(start: i64, end: i64, length: usize) -> Range<usize> {
    let length = length as i64;
    let from_start = |index: i64| if index < 0 { (index + length).max(0) } else { index };
    let (start, end) = (from_start(start), from_start(end).min(length - 1));
    if start > end { 0..0 } else { start as usize..end as usize + 1 }
}
