use proptest::prelude::*;

use super::*;

const LIMITS: ListLimits = ListLimits { chunk: ChunkLimit::Bytes(1 << 13), plain_from: 0, packs: true };

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
        8 => (any::<bool>(), value.clone()).prop_map(|(front, value)| Step::Push(front, value)),
        3 => any::<bool>().prop_map(Step::Pop),
        1 => (any::<bool>(), 0..6usize).prop_map(|(front, count)| Step::Cut(front, count)),
        2 => (any::<usize>(), value.clone()).prop_map(|(at, value)| Step::Set(at, value)),
        3 => (any::<usize>(), any::<bool>(), value.clone()).prop_map(|(at, behind, value)| Step::Insert(at, behind, value)),
        1 => (value, any::<bool>(), 0..3usize).prop_map(|(value, front, most)| Step::Remove(value, front, most)),
    ]
}

fn element(value: u32) -> Vec<u8> {
    match value % 3 {
        0 => (i64::from(value) << value).to_string().into_bytes(),
        1 => format!("e{value}").into_bytes(),
        _ => vec![b'x'; value as usize * 3],
    }
}

fn end(front: bool) -> End {
    if front { End::Front } else { End::Back }
}

fn listed<'l>(elements: impl Iterator<Item = Element<'l>>) -> Vec<Vec<u8>> {
    elements.map(|element| element.to_bytes().into_owned()).collect()
}

fn nodes<'l>(chunks: impl Iterator<Item = &'l Chunk>) -> Vec<(Vec<u8>, usize)> {
    chunks.map(|chunk| (chunk.bytes().to_vec(), chunk.count())).collect()
}

proptest! {
    /// A short list answers as one in chunks does, and changes its encoding where that one does.
    #[test]
    fn whether_a_list_is_small_cannot_be_seen(
        steps in prop::collection::vec(step(), 0..200),
        limit in prop_oneof![Just(LIMITS.chunk), Just(ChunkLimit::Bytes(200)), Just(ChunkLimit::Elements(12))],
    ) {
        let limits = ListLimits { chunk: limit, ..LIMITS };
        let (mut list, mut model) = (List::new(&limits), Chunked::new(&limits));
        for step in steps {
            match step {
                Step::Push(front, value) => {
                    let value = element(value);
                    list.expect_all([&value[..]].into_iter(), &limits);
                    model.expect_all([&value[..]].into_iter(), &limits);
                    list.push(end(front), &value);
                    model.push(end(front), &value);
                }
                Step::Pop(front) => prop_assert_eq!(list.pop(end(front)), model.pop(end(front))),
                Step::Cut(front, count) => {
                    list.cut(end(front), count);
                    model.cut(end(front), count);
                }
                Step::Set(at, value) if model.len() > 0 => {
                    let (at, value) = (at % model.len(), element(value));
                    list.expect(1, value.len(), &limits);
                    model.expect(1, value.len(), &limits);
                    list.set(at, &value, &limits);
                    model.set(at, &value, &limits);
                }
                Step::Insert(at, behind, value) if model.len() > 0 => {
                    let (at, value) = (at % model.len(), element(value));
                    list.expect(1, value.len(), &limits);
                    model.expect(1, value.len(), &limits);
                    list.insert(at, behind, &value);
                    model.insert(at, behind, &value);
                }
                Step::Set(..) | Step::Insert(..) => {}
                Step::Remove(value, front, most) => {
                    let value = element(value);
                    prop_assert_eq!(list.remove(&value, end(front), most), model.remove(&value, end(front), most));
                }
            }
            if model.len() == 0 {
                // The key is deleted.
                (list, model) = (List::new(&limits), Chunked::new(&limits));
            }
            list.relax(&limits);
            model.relax(&limits);
            prop_assert_eq!(list.len(), model.len());
            prop_assert_eq!(list.encoding(), if model.is_packed() { "listpack" } else { "quicklist" });
            let own = list.small_listpack().map_or_else(|| nodes(list.chunks()), |node| vec![node]);
            prop_assert!(own == nodes(model.chunks()) || model.len() == 0);
        }
        prop_assert_eq!(listed(list.iter()), listed(model.iter()));
        prop_assert_eq!(listed(list.clone().iter()), listed(model.iter()));
        let chunks = List::of_chunks(model.chunks().cloned(), &limits);
        prop_assert_eq!(listed(chunks.iter()), listed(model.iter()));
        for start in 0..=model.len() {
            prop_assert_eq!(list.get(start).map(Element::to_bytes), model.get(start).map(Element::to_bytes));
            prop_assert_eq!(listed(list.range(start, 7)), listed(model.range(start, 7)));
            prop_assert_eq!(listed(list.backwards(start, 7)), listed(model.backwards(start, 7)));
        }
    }
}

#[test]
fn a_list_of_ten_short_elements_takes_one_allocation_of_little_more_than_their_bytes() {
    let mut list = List::new(&LIMITS);
    (10..20).for_each(|number| list.push(End::Back, format!("element:{number}").as_bytes()));
    assert_eq!(list.size(), 120);
    assert_eq!(size_of::<List>(), 8);
    while list.small_listpack().is_some() {
        list.push(End::Back, b"element");
    }
    assert!(list.len() > 100);
}
