use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

const OLD: ListLimits = ListLimits { chunk: ChunkLimit::Bytes(64), plain_from: 1 << 30, packs: false };
const NEW: ListLimits = ListLimits { chunk: ChunkLimit::Bytes(64), plain_from: 0, packs: true };

#[derive(Clone, Debug)]
enum Step {
    Push(bool, u32),
    Pop(bool),
    Cut(bool, usize),
    Set(usize, u32),
    Insert(usize, bool, u32),
    Remove(u32, bool, usize),
}

fn step() -> impl Strategy<Value = Step> {
    let value = 0..60u32;
    prop_oneof![
        6 => (any::<bool>(), value.clone()).prop_map(|(front, value)| Step::Push(front, value)),
        2 => any::<bool>().prop_map(Step::Pop),
        1 => (any::<bool>(), 0..9usize).prop_map(|(front, count)| Step::Cut(front, count)),
        2 => (any::<usize>(), value.clone()).prop_map(|(at, value)| Step::Set(at, value)),
        4 => (any::<usize>(), any::<bool>(), value.clone()).prop_map(|(at, behind, value)| Step::Insert(at, behind, value)),
        1 => (value, any::<bool>(), 0..3usize).prop_map(|(value, front, most)| Step::Remove(value, front, most)),
    ]
}

/// Integers, short strings, and strings that fill a chunk.
fn element(value: u32) -> Vec<u8> {
    match value % 4 {
        0 => (i64::from(value) << (value / 2)).to_string().into_bytes(),
        1 => format!("e{value}").into_bytes(),
        2 => vec![b'x'; value as usize],
        _ => vec![b'y'; value as usize * 3],
    }
}

fn end(front: bool) -> End {
    if front { End::Front } else { End::Back }
}

fn listed<'l>(elements: impl Iterator<Item = Element<'l>>) -> Vec<Vec<u8>> {
    elements.map(|element| element.to_bytes().into_owned()).collect()
}

proptest! {
    #[test]
    fn a_list_is_what_was_done_to_it(
        steps in prop::collection::vec(step(), 0..300),
        packs in any::<bool>(),
        by_count in any::<bool>(),
        plain_from in prop_oneof![Just(0), Just(1 << 30), 1..40usize],
    ) {
        let mut limits = if packs { NEW } else { OLD };
        if by_count {
            limits.chunk = ChunkLimit::Elements(5);
        }
        limits.plain_from = plain_from;
        let mut list = Chunked::new(&limits);
        let mut model: VecDeque<Vec<u8>> = VecDeque::new();
        for step in steps {
            match step {
                Step::Push(front, value) => {
                    let value = element(value);
                    list.expect(1, value.len(), &limits);
                    list.push(end(front), &value);
                    if front { model.push_front(value) } else { model.push_back(value) }
                }
                Step::Pop(front) => {
                    let popped = if front { model.pop_front() } else { model.pop_back() };
                    prop_assert_eq!(list.pop(end(front)), popped);
                }
                Step::Cut(front, count) => {
                    list.cut(end(front), count);
                    for _ in 0..count {
                        if front { model.pop_front() } else { model.pop_back() };
                    }
                }
                Step::Set(at, value) if !model.is_empty() => {
                    let (at, value) = (at % model.len(), element(value));
                    list.expect(1, value.len(), &limits);
                    list.set(at, &value, &limits);
                    model[at] = value;
                }
                Step::Insert(at, behind, value) if !model.is_empty() => {
                    let (at, value) = (at % model.len(), element(value));
                    list.expect(1, value.len(), &limits);
                    list.insert(at, behind, &value);
                    model.insert(at + usize::from(behind), value);
                }
                Step::Set(..) | Step::Insert(..) => {}
                Step::Remove(value, front, most) => {
                    let value = element(value);
                    let mut removed = 0;
                    while removed < most {
                        let mut places = model.iter();
                        let place = if front {
                            places.position(|other| *other == value)
                        } else {
                            places.rposition(|other| *other == value)
                        };
                        let Some(place) = place else { break };
                        model.remove(place);
                        removed += 1;
                    }
                    prop_assert_eq!(list.remove(&value, end(front), most), removed);
                }
            }
            list.relax(&limits);
            prop_assert_eq!(list.len(), model.len());
            prop_assert_eq!(list.chunks().map(Chunk::count).sum::<usize>(), model.len());
            let is_right = |chunk: &Chunk| chunk.count() == 1 || chunk.count() > 0 && !chunk.is_plain();
            prop_assert!(list.chunks().all(is_right));
            prop_assert_eq!(list.bytes, list.chunks.iter().map(Chunk::size).sum::<usize>());
        }
        prop_assert_eq!(listed(list.iter()), Vec::from(model.clone()));
        prop_assert_eq!(listed(list.clone().iter()), Vec::from(model.clone()));
        let chunks = list.chunks().cloned();
        prop_assert_eq!(listed(Chunked::of_chunks(chunks, &limits).iter()), Vec::from(model.clone()));
        for start in 0..model.len() {
            let there: Vec<_> = model.iter().skip(start).take(7).cloned().collect();
            prop_assert_eq!(listed(list.range(start, 7)), there);
            let back: Vec<_> = model.iter().take(start + 1).rev().take(7).cloned().collect();
            prop_assert_eq!(listed(list.backwards(start, 7)), back);
        }
    }
}

#[test]
fn a_short_list_is_packed_until_it_is_too_long_and_again_when_it_is_half_as_long() {
    let mut list = Chunked::new(&NEW);
    let mut lengths = Vec::new();
    for _ in 0..8 {
        list.expect(1, 10, &NEW);
        list.push(End::Back, b"0123456789");
        lengths.push(list.is_packed());
    }
    assert_eq!(lengths[..4], [true; 4]);
    assert_eq!(lengths[4..], [false; 4]);
    while !list.is_packed() {
        list.pop(End::Front);
        list.relax(&NEW);
    }
    assert_eq!(list.len(), 2);
    assert!(!Chunked::new(&OLD).is_packed());
}

#[test]
fn many_small_elements_take_little_more_than_their_bytes() {
    let limits = ListLimits { chunk: ChunkLimit::of(-2), plain_from: 1 << 30, packs: false };
    for end in [End::Front, End::Back] {
        let mut list = Chunked::new(&limits);
        for number in 0..100_000 {
            list.push(end, format!("element:{number}").as_bytes());
        }
        let bytes: usize = list.chunks().map(|chunk| chunk.bytes().len()).sum();
        assert!(list.size() < bytes + bytes / 20, "{} for {bytes}", list.size());
    }
}

#[test]
fn elements_seldom_move_when_others_come_and_go_at_the_ends() {
    let limits = ListLimits { chunk: ChunkLimit::of(-2), plain_from: 1 << 30, packs: false };
    for steady in [1, 50, 400, 790] {
        let mut list = Chunked::new(&limits);
        for _ in 0..steady {
            list.push(End::Front, b"12345678");
        }
        let mut sizes = Vec::new();
        for _ in 0..10_000 {
            list.push(End::Front, b"1234567x");
            list.pop(End::Back);
            sizes.push(list.size());
        }
        assert!(sizes.iter().all(|size| *size < 24_000), "{steady}");
    }
}
