//! A sort of only the first elements, with Redis's order of elements that compare equal.

use std::cmp::Ordering;

/// Puts the first `wanted` elements into their final places. This is the quicksort of Bentley and McIlroy ("Engineering
/// a sort function", 1993), skipping partitions after those places. The choice of pivots decides the order of equal
/// elements, which clients see.
pub(super) fn partial_sort<T>(items: &mut [T], wanted: usize, compare: &impl Fn(&T, &T) -> Ordering) {
    // The partitions left to sort, as ranges. Their order does not matter.
    let mut parts = vec![(0, items.len())];
    while let Some((start, end)) = parts.pop() {
        if wanted <= start {
            continue;
        }
        let items = &mut items[start..end];
        if items.len() < 7 {
            insertion_sort(items, compare);
            continue;
        }
        items.swap(0, pivot(items, compare));
        let (less, greater) = partition(items, compare);
        parts.push((start, start + less));
        parts.push((end - greater, end));
    }
}

fn insertion_sort<T>(items: &mut [T], compare: &impl Fn(&T, &T) -> Ordering) {
    for end in 1..items.len() {
        let mut at = end;
        while at > 0 && compare(&items[at - 1], &items[at]).is_gt() {
            items.swap(at, at - 1);
            at -= 1;
        }
    }
}

/// The index of the pivot: a median of three, or of three medians of three in a large slice.
fn pivot<T>(items: &[T], compare: &impl Fn(&T, &T) -> Ordering) -> usize {
    let median = |a: usize, b: usize, c: usize| {
        let is_less = |one: usize, other: usize| compare(&items[one], &items[other]).is_lt();
        if is_less(a, b) {
            if is_less(b, c) {
                b
            } else if is_less(a, c) {
                c
            } else {
                a
            }
        } else if compare(&items[b], &items[c]).is_gt() {
            b
        } else if is_less(a, c) {
            a
        } else {
            c
        }
    };
    let (middle, last) = (items.len() / 2, items.len() - 1);
    match items.len() {
        ..=7 => middle,
        8..=40 => median(0, middle, last),
        count => {
            let step = count / 8;
            median(
                median(0, step, 2 * step),
                median(middle - step, middle, middle + step),
                median(last - 2 * step, last - step, last),
            )
        }
    }
}

/// Moves smaller elements than the first to the front and greater ones to the back. Returns the number of each.
fn partition<T>(items: &mut [T], compare: &impl Fn(&T, &T) -> Ordering) -> (usize, usize) {
    let count = items.len();
    // Elements equal to the pivot collect at both ends first: before `low_equal`, and from `high_equal` on.
    let (mut low_equal, mut low) = (1, 1);
    let (mut high, mut high_equal) = (count, count);
    loop {
        while low < high {
            match compare(&items[low], &items[0]) {
                Ordering::Greater => break,
                Ordering::Equal => {
                    items.swap(low_equal, low);
                    low_equal += 1;
                }
                Ordering::Less => {}
            }
            low += 1;
        }
        while low < high {
            match compare(&items[high - 1], &items[0]) {
                Ordering::Less => break,
                Ordering::Equal => {
                    high_equal -= 1;
                    items.swap(high - 1, high_equal);
                }
                Ordering::Greater => {}
            }
            high -= 1;
        }
        if low >= high {
            break;
        }
        items.swap(low, high - 1);
        low += 1;
        high -= 1;
    }
    let (less, greater) = (low - low_equal, high_equal - high);
    let moved = less.min(low_equal);
    swap_ranges(items, 0, low - moved, moved);
    let moved = greater.min(count - high_equal);
    swap_ranges(items, low, count - moved, moved);
    (less, greater)
}

fn swap_ranges<T>(items: &mut [T], one: usize, other: usize, count: usize) {
    for at in 0..count {
        items.swap(one + at, other + at);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_first_few_are_those_of_a_whole_sort(
            mut items in prop::collection::vec(0..50i32, 0..300),
            wanted in 0..300usize,
        ) {
            let mut sorted = items.clone();
            sorted.sort_unstable();
            let wanted = wanted.min(items.len());
            partial_sort(&mut items, wanted, &|one, other| one.cmp(other));
            prop_assert_eq!(&items[..wanted], &sorted[..wanted]);
            items.sort_unstable();
            prop_assert_eq!(items, sorted);
        }
    }
}
