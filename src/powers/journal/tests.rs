//! What is kept is what is read, as long as there is room.

use proptest::prelude::*;

use super::record::Children;
use super::*;
use crate::protocol::OwnedWords;

/// What a test keeps of a command.
#[derive(Clone, Debug)]
struct Sent {
    client: u64,
    db: u32,
    words: Vec<Vec<u8>>,
    reply: Vec<u8>,
    fault: Option<String>,
    gates: Vec<String>,
    inside: Vec<(u8, Vec<Vec<u8>>)>,
    /// When an upstream server was sent it.
    upstream: Option<(i64, EffectOrder)>,
}

fn keep(journal: &Journal, sent: &[Sent]) {
    let mut staging = Staging::default();
    for sent in sent {
        let words: OwnedWords = sent.words.iter().collect();
        let gates: Vec<Box<str>> = sent.gates.iter().map(|gate| gate.as_str().into()).collect();
        let mut children = Children::default();
        for (depth, words) in &sent.inside {
            children.depth = *depth;
            children.push(sent.db, words.iter().collect::<OwnedWords>().as_words(), b"+OK\r\n", Some("f"));
        }
        let seq = journal.next();
        staging.push(&Line {
            seq,
            event: None,
            at: seq as i64 * 10,
            real: seq as i64 * 20,
            sent: sent.upstream.map(|(sent, _)| sent),
            order: sent.upstream.map(|(_, order)| order).unwrap_or_default(),
            client: sent.client,
            db: sent.db,
            duration: seq,
            outcome: Outcome::ALL[seq as usize % 5],
            words: words.as_words(),
            reply: &sent.reply,
            held_after: sent.fault.is_some().then_some(seq),
            fault: sent.fault.as_deref(),
            gates: &gates,
            children: (sent.upstream.is_none() || !children.is_empty()).then_some(&children),
        });
    }
    journal.append(&mut staging);
}

fn all(journal: &Journal) -> Vec<Entry> {
    journal.read(0, |all| all.map(|stored| stored.entry()).collect())
}

fn sent(client: u64, words: &str) -> Sent {
    let words = words.split(' ').map(|word| word.as_bytes().to_vec()).collect();
    let (reply, gates, inside) = (b"+OK\r\n".to_vec(), Vec::new(), Vec::new());
    Sent { client, db: 0, words, reply, fault: None, gates, inside, upstream: None }
}

fn called(client: u64, name: &str) -> (u64, ClientRecord) {
    (
        client,
        ClientRecord {
            address: format!("127.0.0.1:{client}"),
            name: name.as_bytes().to_vec(),
            process: None,
            node: None,
        },
    )
}

prop_compose! {
    fn commands()(
        client in 1..5u64,
        db in 0..16u32,
        words in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 1..8),
        reply in prop::collection::vec(any::<u8>(), 0..4000),
        fault in prop::option::of("[a-z]{1,9}"),
        gates in prop::collection::vec("[a-z]{1,9}", 0..3),
        inside in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 0..4),
        upstream in prop::option::of((any::<i32>(), prop::sample::select(&EffectOrder::ALL[1..]))),
    ) -> Sent {
        let inside = inside.into_iter().map(|word| (1, vec![word])).collect();
        let upstream = upstream.map(|(sent, order)| (sent.into(), order));
        Sent { client, db, words, reply, fault, gates, inside, upstream }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_was_kept_is_read_and_what_is_gone_was_counted(
        batches in prop::collection::vec(prop::collection::vec(commands(), 1..8), 1..40),
    ) {
        let journal = Journal::default();
        journal.start(LEAST_SIZE);
        batches.iter().for_each(|batch| keep(&journal, batch));
        let sent: Vec<Sent> = batches.concat();
        let (entries, extent) = (all(&journal), journal.stats());
        prop_assert_eq!(extent.entries, entries.len() as u64);
        prop_assert_eq!(extent.entries + extent.forgotten, sent.len() as u64);
        prop_assert!(extent.used <= LEAST_SIZE);
        for (entry, (index, sent)) in entries.iter().zip(sent.iter().enumerate().skip(extent.forgotten as usize)) {
            let seq = index as u64 + 1;
            prop_assert_eq!((entry.seq, entry.at, entry.real), (seq, seq as i64 * 10, seq as i64 * 20));
            prop_assert_eq!((entry.client, entry.db, entry.duration), (sent.client, sent.db, seq));
            prop_assert_eq!(entry.outcome, Outcome::ALL[seq as usize % 5]);
            prop_assert_eq!(&entry.words, &sent.words);
            prop_assert_eq!(&entry.reply, &sent.reply);
            prop_assert_eq!(&entry.fault, &sent.fault);
            prop_assert_eq!(&entry.gates, &sent.gates);
            let inside: Vec<_> = entry.children.iter().map(|child| child.words.clone()).collect();
            let expected: Vec<_> = sent.inside.iter().map(|(_, words)| words.clone()).collect();
            prop_assert_eq!(inside, expected);
            prop_assert_eq!(entry.sent.map(|at| (at, entry.order)), sent.upstream);
            prop_assert_eq!(entry.order == EffectOrder::Total, sent.upstream.is_none());
            prop_assert_eq!(entry.are_children_unknown, sent.upstream.is_some() && sent.inside.is_empty());
            prop_assert_eq!(entry.held_after, sent.fault.is_some().then_some(seq));
        }
    }

    #[test]
    fn no_bytes_upset_the_reader(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        if let Some((record, size)) = record::Record::read(&bytes) {
            prop_assert!(size <= bytes.len());
            record.fault();
            record.sent();
            record.gates();
            record.nested();
        }
    }
}

#[test]
fn whoever_runs_others_has_them_under_it() {
    let journal = Journal::default();
    journal.start(LEAST_SIZE);
    let word = |word: &str| vec![word.as_bytes().to_vec()];
    let inside = vec![(1, word("SET")), (2, word("GET")), (2, word("DEL")), (1, word("EVAL")), (1, word("INCR"))];
    keep(&journal, &[Sent { inside, ..sent(1, "EXEC") }]);
    let children = all(&journal).remove(0).children;
    let names = |children: &[Child]| -> Vec<Vec<u8>> { children.iter().map(|child| child.words[0].clone()).collect() };
    assert_eq!(names(&children), [b"SET".to_vec(), b"EVAL".to_vec(), b"INCR".to_vec()]);
    assert_eq!(names(&children[1].children), [b"GET".to_vec(), b"DEL".to_vec()]);
}

#[test]
fn a_name_holds_from_where_it_was_given() {
    let journal = Journal::default();
    journal.start(LEAST_SIZE);
    for name in ["", "one", "two"] {
        let (client, record) = called(3, name);
        journal.add_client(client, record);
        keep(&journal, &[sent(3, "PING"), sent(3, "PING")]);
    }
    let names: Vec<Vec<u8>> = all(&journal).into_iter().map(|entry| entry.name).collect();
    assert_eq!(names, [&b""[..], b"", b"one", b"one", b"two", b"two"]);
}

#[test]
fn clients_whose_records_are_gone_are_forgotten() {
    let journal = Journal::default();
    journal.start(LEAST_SIZE);
    for client in 1..20_000 {
        let (client, record) = called(client, "x");
        journal.add_client(client, record);
        keep(&journal, &[sent(client, "SET key value")]);
    }
    let known = journal.ring().known_clients();
    assert!(known < 6000, "{known} clients for {} entries", journal.stats().entries);
    assert!(all(&journal).iter().all(|entry| entry.address == format!("127.0.0.1:{}", entry.client)));
}

#[test]
fn only_the_replies_that_were_not_written_are_lost() {
    let journal = Journal::default();
    journal.start(LEAST_SIZE);
    let answered = |client| Sent { reply: b"$3\r\nabc\r\n".to_vec(), ..sent(client, "GET k") };
    for client in [1, 2, 1, 2, 1] {
        // Every fifth counts as answered.
        (0..4).for_each(|_| _ = journal.next());
        keep(&journal, &[answered(client)]);
    }
    // One reply and the beginning of another.
    journal.mark_replies_lost(1, 0, 10);
    use Outcome::{Answered, Lost};
    let outcomes: Vec<Outcome> = all(&journal).iter().map(|entry| entry.outcome).collect();
    assert_eq!(outcomes, [Answered, Answered, Lost, Answered, Lost]);
}

#[test]
fn nothing_is_kept_while_it_is_off() {
    let journal = Journal::default();
    keep(&journal, &[sent(1, "PING")]);
    journal.start(LEAST_SIZE);
    keep(&journal, &[sent(1, "SET a 1")]);
    journal.stop();
    keep(&journal, &[sent(1, "PING")]);
    journal.start(LEAST_SIZE * 2);
    keep(&journal, &[sent(1, "SET b 1")]);
    assert_eq!(all(&journal).len(), 2);
    journal.clear();
    assert_eq!((all(&journal).len(), journal.stats().forgotten), (0, 0));
    keep(&journal, &[sent(1, "SET c 1")]);
    assert_eq!(all(&journal)[0].seq, 5);
}
