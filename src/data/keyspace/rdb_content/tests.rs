//! Round trips of streams, and corrupt payloads.

use proptest::prelude::*;

use super::*;
use crate::data::keyspace::stream::{NodeLimits, Trim};
use crate::data::rdb::{Checksums, PayloadError, dump};

fn load(payload: &[u8], profile: &Profile) -> Result<Content<'static>, PayloadError> {
    rdb::load(payload, profile, Checksums::Verified)
}

const LIMITS: NodeLimits = NodeLimits { bytes: 150, entries: 4 };

fn id(ms: u64, seq: u64) -> StreamId {
    StreamId { ms, seq }
}

fn profile(name: &str) -> Profile {
    name.parse().unwrap()
}

#[derive(Clone, Debug)]
enum Step {
    Add(u64, Vec<u16>),
    Delete(u64),
    Trim(u64),
    Group(u8, u64),
    Deliver(u8, u8, u64, i64, u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1..3u64, prop::collection::vec(any::<u16>(), 1..4)).prop_map(|(later, fields)| Step::Add(later, fields)),
        1 => (0..60u64).prop_map(Step::Delete),
        1 => (0..60u64).prop_map(Step::Trim),
        1 => (0..3u8, 0..60u64).prop_map(|(group, last)| Step::Group(group, last)),
        3 => (0..3u8, 0..3u8, 0..60u64, any::<i64>(), any::<u64>())
            .prop_map(|(group, consumer, ms, time, count)| Step::Deliver(group, consumer, ms, time, count)),
    ]
}

fn stream(steps: Vec<Step>) -> Stream {
    let mut stream = Stream::default();
    for step in steps {
        match step {
            Step::Add(later, fields) => {
                let words: Vec<Vec<u8>> =
                    fields.iter().flat_map(|n| [vec![b'a' + (n % 2) as u8], n.to_string().into_bytes()]).collect();
                let log = stream.log_mut();
                log.append(id(log.last().ms + later, 1), words.iter().map(Vec::as_slice), LIMITS);
            }
            Step::Delete(ms) => {
                stream.log_mut().delete(id(ms, 1));
            }
            Step::Trim(ms) => {
                stream.log_mut().trim(Trim::MinId(id(ms, 0)), false, 0, None);
            }
            Step::Group(name, last) => {
                stream.add_group(&[name], Group::new(id(last, 0), (last % 2 == 0).then_some(last as i64)));
            }
            Step::Deliver(name, consumer, ms, time, count) => {
                stream.change_group(&[name], |group, _| {
                    group.add_consumer(&[consumer], time);
                    group.deliver(id(ms, 1), &[consumer], time, count);
                    if let Some(consumer) = group.consumer_mut(&[consumer]).filter(|_| time != -1) {
                        consumer.active = Some(time);
                    }
                });
            }
        }
    }
    stream
}

/// Uses a stream as commands do. None of it may panic.
fn live_with(mut stream: Stream) {
    let ids: Vec<StreamId> =
        stream.log().range(StreamId::LEAST, StreamId::GREATEST).map(|entry| entry.id).take(20).collect();
    assert_eq!(stream.log().range_back(StreamId::LEAST, StreamId::GREATEST).take(20).count(), ids.len());
    let names: Vec<Vec<u8>> = stream.groups().map(|(name, _)| name.to_vec()).collect();
    for name in names {
        if let Some(group) = stream.group(&name) {
            stream.log().lag(group, &Profile::default());
        }
        stream.change_group(&name, |group, _| {
            ids.iter().for_each(|id| {
                group.acknowledge(*id);
            });
            let consumers: Vec<Vec<u8>> = group.consumers().map(|(name, _)| name.to_vec()).collect();
            consumers.iter().for_each(|name| {
                group.remove_consumer(name);
            });
        });
        stream.remove_group(&name);
    }
    let log = stream.log_mut();
    log.tree_nodes();
    for id in ids.iter().step_by(2) {
        log.delete(*id);
    }
    if let Some(next) = log.last().next() {
        log.append(next, [&b"f"[..], b"v"].into_iter(), LIMITS);
    }
    log.trim(Trim::MaxLen(3), true, 2, None);
    log.trim(Trim::MaxLen(2), false, 0, None);
    log.trim(Trim::MinId(StreamId::GREATEST), false, 0, None);
    stream.size();
}

fn restored(payload: &[u8], profile: &Profile) -> Option<Stream> {
    match load(payload, profile).ok()? {
        Content::Stream(content) => Stream::of_content(content),
        _ => None,
    }
}

proptest! {
    #[test]
    fn streams_that_are_dumped_are_restored(steps in prop::collection::vec(step(), 0..80)) {
        let stream = stream(steps);
        for name in ["redis-6.2", "redis-7.0", "redis-7.2", "valkey-9.1"] {
            let profile = profile(name);
            let payload = dump(&Content::Stream(stream.content()), &profile);
            let again = restored(&payload, &profile).unwrap();
            prop_assert_eq!(dump(&Content::Stream(again.content()), &profile), payload, "{}", name);
            if profile.since_redis(7, 2) {
                prop_assert_eq!(again.content(), stream.content());
            }
            live_with(again);
        }
        let newer = dump(&Content::Stream(stream.content()), &profile("redis-7.2"));
        prop_assert_eq!(load(&newer, &profile("redis-7.0")), Err(PayloadError::Footer));
    }

    #[test]
    fn no_stream_is_too_strange_to_be_read(
        steps in prop::collection::vec(step(), 0..40),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<u8>()), 1..4),
        end in any::<prop::sample::Index>(),
        cut in any::<bool>(),
    ) {
        let mut content = stream(steps).content_owned();
        // In the nodes of the stream, because a compressed payload would hide the change,
        for (node, at, byte) in &changes {
            if !content.nodes.is_empty() {
                let node = node.index(content.nodes.len());
                let bytes = content.nodes[node].1.to_mut();
                let at = at.index(bytes.len());
                bytes[at] = *byte;
            }
        }
        if let Some(stream) = Stream::of_content(content.clone()) {
            live_with(stream);
        }
        // and anywhere in the payload.
        for name in ["redis-7.0", "redis-7.2"] {
            let profile = profile(name);
            let mut payload = dump(&Content::Stream(content.clone()), &profile);
            payload.truncate(payload.len() - 10);
            for (_, at, byte) in &changes {
                let at = at.index(payload.len());
                payload[at] = *byte;
            }
            if cut {
                payload.truncate(end.index(payload.len()));
            }
            if let Some(stream) = restored(&rdb::with_footer(payload, &profile), &profile) {
                live_with(stream);
            }
        }
    }
}

impl Stream {
    fn content_owned(&self) -> rdb::Stream<'static> {
        let profile = profile("redis-7.2");
        match load(&dump(&Content::Stream(self.content()), &profile), &profile) {
            Ok(Content::Stream(content)) => content,
            _ => unreachable!("it was dumped as a stream"),
        }
    }
}
