use std::collections::BTreeMap;

use proptest::prelude::*;

use super::log::NODE;
use super::node::Fields;
use super::*;

const LIMITS: NodeLimits = NodeLimits { bytes: 200, entries: 5 };

fn id(ms: u64, seq: u64) -> StreamId {
    StreamId { ms, seq }
}

fn words(fields: &Fields<'_>) -> Vec<Vec<u8>> {
    fields.flat_map(|(name, value)| [name, value]).map(|element| element.to_bytes().into_owned()).collect()
}

#[test]
fn ids_have_neighbours_except_at_the_ends() {
    assert_eq!(id(1, u64::MAX).next(), Some(id(2, 0)));
    assert_eq!(id(2, 0).previous(), Some(id(1, u64::MAX)));
    assert_eq!((StreamId::GREATEST.next(), StreamId::LEAST.previous()), (None, None));
    assert_eq!(StreamId::GREATEST.to_text(), b"18446744073709551615-18446744073709551615");
    assert_eq!(StreamId::from_bytes(id(3, 9).to_bytes()), id(3, 9));
}

#[test]
fn groups_know_whose_entries_are_whose() {
    let mut stream = Stream::default();
    let empty = stream.size();
    assert!(stream.add_group(b"g", Group::new(StreamId::LEAST, None)) && !stream.add_group(b"g", Group::default()));
    stream.change_group(b"g", |group, _| {
        assert!(group.add_consumer(b"a", 1) && group.add_consumer(b"b", 1) && !group.add_consumer(b"a", 1));
        group.deliver(id(1, 0), b"a", 5, 1);
        group.deliver(id(2, 0), b"a", 5, 1);
        group.deliver(id(2, 0), b"b", 6, 2);
        assert_eq!(group.consumer(b"a").unwrap().pending().len(), 1);
        assert_eq!(*group.pending()[&id(2, 0)].consumer, *b"b");
        assert!(group.acknowledge(id(1, 0)) && !group.acknowledge(id(1, 0)));
        assert_eq!((group.remove_consumer(b"b"), group.pending().len()), (Some(1), 0));
    });
    assert!(stream.size() > empty && stream.remove_group(b"g"));
    assert_eq!(stream.size(), empty);
}

proptest! {
    #[test]
    fn a_log_holds_what_was_added_and_not_taken_away(
        steps in prop::collection::vec((0..10u8, 0..3u64, 0..4u64, prop::collection::vec(0..30u32, 1..4)), 0..200),
        copied_at in 0..200usize,
    ) {
        let mut log = Log::default();
        let mut model: BTreeMap<StreamId, Vec<Vec<u8>>> = BTreeMap::new();
        let mut last = StreamId::LEAST;
        let (mut copy, mut copied) = (Log::default(), BTreeMap::new());
        for (step, (kind, ms, seq, fields)) in steps.into_iter().enumerate() {
            if step == copied_at {
                (copy, copied) = (log.clone(), model.clone());
            }
            let some = model.keys().nth(seq as usize * 3).copied().unwrap_or(id(ms, seq));
            match kind {
                0 => prop_assert_eq!(log.delete(some), model.remove(&some).is_some()),
                1 => {
                    let before = model.len();
                    model.retain(|id, _| *id >= some);
                    prop_assert_eq!(log.trim(Trim::MinId(some), false, 0, None), (before - model.len()) as u64);
                }
                2 if model.len() > 30 => {
                    while model.len() > 20 {
                        model.pop_first();
                    }
                    log.trim(Trim::MaxLen(20), false, 0, None);
                }
                _ => {
                    last = if ms == 0 { last.next().unwrap() } else { id(last.ms + ms, seq) };
                    let words: Vec<Vec<u8>> = fields
                        .iter()
                        .flat_map(|n| [format!("f{}", n % 2).into_bytes(), n.to_string().into_bytes()])
                        .collect();
                    log.append(last, words.iter().map(Vec::as_slice), LIMITS);
                    model.insert(last, words);
                }
            }
            prop_assert_eq!(log.len(), model.len() as u64);
            prop_assert_eq!(log.first(), model.keys().next().copied().unwrap_or_default());
        }
        let (from, to) = (id(5, 1), id(40, 2));
        let there: Vec<_> = log.range(from, to).map(|entry| (entry.id, words(&entry.fields))).collect();
        let mut back: Vec<_> = log.range_back(from, to).map(|entry| (entry.id, words(&entry.fields))).collect();
        back.reverse();
        let wanted: Vec<_> = model.range(from..=to).map(|(id, words)| (*id, words.clone())).collect();
        prop_assert_eq!(&there, &wanted);
        prop_assert_eq!(&back, &wanted);
        for (own, node) in log.nodes() {
            let bytes = node.to_listpack();
            prop_assert_eq!(bytes.len(), node.packed_size());
            prop_assert_eq!(Node::of_listpack(&bytes, own).unwrap().to_listpack(), bytes);
        }
        let size = log.nodes().map(|(_, node)| NODE + node.size()).sum::<usize>();
        prop_assert_eq!(log.size(), size);
        // What happened to the log behind the copy did not happen to the copy, although they share nodes.
        let all = copy.range(StreamId::LEAST, StreamId::GREATEST).map(|entry| (entry.id, words(&entry.fields)));
        prop_assert_eq!(all.collect::<Vec<_>>(), copied.into_iter().collect::<Vec<_>>());
    }

    #[test]
    fn nothing_is_too_strange_to_be_a_node(elements in prop::collection::vec(prop_oneof![0..5i64, any::<i64>()], 0..20)) {
        let members: Vec<Vec<u8>> = elements.iter().map(|value| value.to_string().into_bytes()).collect();
        let bytes = crate::data::listpack::write(members.iter().map(Vec::as_slice));
        if let Some(node) = Node::of_listpack(&bytes, StreamId::LEAST) {
            prop_assert_eq!(node.iter(StreamId::LEAST).count(), node.entries());
        }
    }

    #[test]
    fn a_node_with_a_changed_byte_is_no_node_or_a_whole_one(
        place in any::<prop::sample::Index>(), changed: u8, entries in 1..6u64,
    ) {
        let mut log = Log::default();
        for entry in 1..=entries {
            let words = [b"name".to_vec(), vec![b'v'; 100 * entry as usize], b"5".to_vec(), entry.to_string().into_bytes()];
            log.append(id(entry, 7), words.iter().map(Vec::as_slice), NodeLimits { bytes: 4096, entries: 10 });
        }
        let (own, node) = log.nodes().next().unwrap();
        let mut bytes = node.to_listpack();
        let place = place.index(bytes.len());
        bytes[place] = changed;
        if let Some(mut node) = Node::of_listpack(&bytes, own) {
            let there: Vec<_> = node.iter(own).map(|entry| (entry.id, words(&entry.fields), entry.deleted)).collect();
            let mut back: Vec<_> = node.iter_back(own).map(|entry| (entry.id, words(&entry.fields), entry.deleted)).collect();
            back.reverse();
            prop_assert_eq!(&there, &back);
            for (id, _, deleted) in &there {
                prop_assert_eq!(!deleted, node.delete(own, *id));
            }
            prop_assert_eq!((node.live(), node.entries()), (0, there.len()));
        }
    }
}
