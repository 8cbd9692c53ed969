//! Ranges of indexes as requests name them: both ends inclusive, negative indexes counted from the end.

use std::ops::Range;

/// The elements of a list, or the ranks of a sorted set, from `start` to `stop`.
pub(super) fn element_range(start: i64, stop: i64, len: usize) -> Range<usize> {
    let from_front = |index: i64| if index < 0 { index + len as i64 } else { index };
    let (start, stop) = (from_front(start).max(0), from_front(stop).min(len as i64 - 1));
    if start > stop { 0..0 } else { start as usize..stop as usize + 1 }
}

/// Whether a range counted from the end runs backwards, and so is empty however short the string is.
pub(super) fn is_backwards(start: i64, end: i64) -> bool {
    start < 0 && end < 0 && start > end
}

/// The part of a string of `length` that two indices name, both inclusive, negative ones counted from the end.
pub(super) fn byte_range(start: i64, end: i64, length: usize) -> Range<usize> {
    let length = length as i64;
    let from_start = |index: i64| if index < 0 { (index + length).max(0) } else { index };
    let (start, end) = (from_start(start), from_start(end).min(length - 1));
    if start > end { 0..0 } else { start as usize..end as usize + 1 }
}
