//! XREAD and XREADGROUP, with BLOCK.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::stream_groups::{find_group, notify_new_consumer, touch_consumer};
use super::stream_ids::{BAD_ID, entries_reply, entry_reply, id_reply, parse};
use super::stream_replication::{Delivered, Position};
use super::timeout::parse_millis;
use crate::base::clock::Millis;
use crate::base::error::CommandError;
use crate::base::profile::{Family, Profile, Since, Version};
use crate::commands::{BlockForKeys, BlockingResult, Command, Handler, ReadyKey, ReplyOrBlock};
use crate::data::keyspace::{Awaited, Group as ConsumerGroup, Log, Stream, StreamId, ValueKind, View};
use crate::protocol::{OwnedWords, Reply, Words, parse_integer, until_nul};
use crate::spec::{Args, Arity, Category, CommandSpec, Flag, Group, KeySpec};

pub(super) const ROWS: &[Command] = &[XREAD, XREADGROUP];

const GROUP_IN_XREAD: CommandError =
    CommandError::fixed("ERR The GROUP option is only supported by XREADGROUP. You called XREAD instead.");
const NOACK_IN_XREAD: CommandError =
    CommandError::fixed("ERR The NOACK option is only supported by XREADGROUP. You called XREAD instead.");
const NO_LAST_ENTRY: CommandError = CommandError::fixed("ERR the stream last element ID is 0-0");
const CLAIM_IN_XREAD: CommandError =
    CommandError::fixed("ERR The CLAIM option is only supported by XREADGROUP. You called XREAD instead.");
const NO_IDLE_TIME: CommandError = CommandError::fixed("ERR min-idle-time is not an integer or out of range");
const NEGATIVE_IDLE_TIME: CommandError = CommandError::fixed("ERR min-idle-time must be a positive integer");
const UNBALANCED: CommandError =
    CommandError::fixed("ERR Unbalanced XREAD list of streams: for each stream key an ID or '$' must be specified.");
const MISSING_GROUP: CommandError = CommandError::fixed("ERR Missing GROUP option for XREADGROUP");
const NEW_IN_XREAD: CommandError = CommandError::fixed(
    "ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option.",
);
const GROUP_GONE: CommandError =
    CommandError::fixed("NOGROUP the consumer group this client was blocked on no longer exists");
const STREAM_GONE: CommandError = CommandError::fixed("UNBLOCKED the stream key no longer exists");

/// The default COUNT for a client that blocked. Only before 7.2.
const DEFAULT_COUNT: u64 = 1000;

/// The releases in which the id `+` means the last entry.
const LAST_ENTRY: Since = Since::each(Version(7, 4, 0), Version(8, 0, 0));

/// The releases in which XREADGROUP also claims what has been pending for long.
const CLAIM: Since = Since::redis(8, 4, 0);

/// The releases in which it counts as no change to read a consumer's history.
const HISTORY_IS_NO_CHANGE: Since = Since::redis(7, 4, 0);

const XREAD: Command = Command::new(
    Handler::Blocking(xread),
    CommandSpec {
        usage: "[COUNT count] [BLOCK milliseconds] STREAMS key [key ...] id [id ...]",
        summary: "Returns the entries of streams behind given ids, or waits for some.",
        complexity: "O(N) for N entries that are returned",
        group: Group::Stream,
        since: Since::redis(5, 0, 0),
        arity: Arity::AtLeast(4),
        keys: &[KeySpec::half_after_keyword("STREAMS", 1, &["RO", "access"])],
        flags: &[Flag::ReadOnly, Flag::Blocking, Flag::MovableKeys],
        categories: &[Category::Stream],
        ..CommandSpec::new("XREAD")
    },
);

const XREADGROUP: Command = Command::new(
    Handler::Blocking(xreadgroup),
    CommandSpec {
        usage: "GROUP group consumer [COUNT count] [BLOCK milliseconds] [NOACK] STREAMS key [key ...] id [id ...]",
        later_usages: &[(
            CLAIM,
            "GROUP group consumer [COUNT count] [BLOCK milliseconds] [CLAIM min-idle-time] [NOACK] STREAMS key [key ...] \
             id [id ...]",
        )],
        summary: "Returns entries of streams that nobody in the group has got yet, or those of the consumer that are pending.",
        complexity: "O(N) for N entries that are returned",
        group: Group::Stream,
        since: Since::redis(5, 0, 0),
        arity: Arity::AtLeast(7),
        keys: &[KeySpec::half_after_keyword("STREAMS", 4, &["RO", "access"])],
        flags: &[Flag::Write, Flag::Blocking, Flag::MovableKeys],
        categories: &[Category::Stream],
        ..CommandSpec::new("XREADGROUP")
    },
);

/// The releases that ignore BLOCK in scripts.
const BLOCK_IN_SCRIPTS: Since = Since::each(Version(7, 4, 0), Version(8, 0, 0));

/// The error for BLOCK in a script, in releases that refuse it.
pub fn refuse_block_in_script(words: Words<'_>, profile: &Profile) -> Option<CommandError> {
    let name = words.get(0)?;
    let reads = [XREAD.spec.name, XREADGROUP.spec.name].iter().any(|own| name.eq_ignore_ascii_case(own.as_bytes()));
    if !reads || profile.has(BLOCK_IN_SCRIPTS) {
        return None;
    }
    let mut at = 1;
    loop {
        let word = words.get(at)?;
        match word.to_ascii_uppercase().as_slice() {
            b"BLOCK" if at + 1 < words.len() => {
                let after = " command is not allowed with BLOCK option from scripts";
                return Some(CommandError::quoting("ERR ", name, after));
            }
            b"COUNT" => at += 2,
            b"GROUP" => at += 3,
            b"NOACK" => at += 1,
            _ => return None,
        }
    }
}

/// The parsed arguments.
struct ReadRequest<'a> {
    /// The group and the consumer.
    group: Option<(&'a [u8], &'a [u8])>,
    count: Option<u64>,
    /// Whether to block, and until when.
    wait: Option<Option<Millis>>,
    no_ack: bool,
    /// Pending entries that have been idle for so many milliseconds are claimed.
    min_idle: Option<i64>,
    keys: Words<'a>,
    ids: Words<'a>,
}

/// From where to read a stream.
#[derive(Clone, Copy)]
enum ReadFrom {
    After(StreamId),
    /// XREADGROUP with `>`: entries never delivered to the group.
    New,
}

impl<'a> ReadRequest<'a> {
    fn parse(view: &View<'_>, args: &mut Args<'a>, grouped: bool) -> Result<Self, CommandError> {
        let empty = args.words().first(0);
        let (group, count, wait, min_idle) = (None, None, None, None);
        let mut request = Self { group, count, wait, no_ack: false, min_idle, keys: empty, ids: empty };
        let claims = args.profile().has(CLAIM);
        while !args.is_empty() {
            if claims && args.left() >= 2 && args.take("CLAIM") {
                if !grouped {
                    return Err(CLAIM_IN_XREAD);
                }
                let min_idle = parse_integer(args.bytes()?).ok_or(NO_IDLE_TIME)?;
                request.min_idle = Some(min_idle).filter(|min_idle| *min_idle >= 0);
                request.min_idle.ok_or(NEGATIVE_IDLE_TIME)?;
            } else if args.left() >= 2 && args.take("BLOCK") {
                request.wait = Some(parse_millis(view.now(), args)?);
            } else if args.left() >= 2 && args.take("COUNT") {
                request.count = u64::try_from(args.integer()?).ok().filter(|count| *count > 0);
            } else if args.left() >= 2 && args.take("STREAMS") {
                let rest = args.rest();
                if !rest.len().is_multiple_of(2) {
                    return Err(unbalanced(args, grouped));
                }
                request.keys = rest.first(rest.len() / 2);
                request.ids = rest.from(rest.len() / 2);
                break;
            } else if args.left() >= 3 && args.take("GROUP") {
                if !grouped {
                    return Err(GROUP_IN_XREAD);
                }
                request.group = Some((args.bytes()?, args.bytes()?));
            } else if args.take("NOACK") {
                if !grouped {
                    return Err(NOACK_IN_XREAD);
                }
                request.no_ack = true;
            } else {
                return Err(CommandError::SYNTAX);
            }
        }
        if request.keys.is_empty() {
            return Err(CommandError::SYNTAX);
        }
        if grouped && request.group.is_none() {
            return Err(MISSING_GROUP);
        }
        Ok(request)
    }

    fn streams(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        self.keys.iter().zip(self.ids.iter())
    }
}

fn unbalanced(args: &Args<'_>, grouped: bool) -> CommandError {
    if !args.profile().since_redis(7, 2) {
        return UNBALANCED;
    }
    let ids = match grouped {
        true => "ID or '>'",
        false if args.profile().has(Since::redis(8, 0, 0)) => "ID, '+', or '$'",
        false => "ID or '$'",
    };
    let name = args.command_name();
    CommandError::new(format!(
        "ERR Unbalanced '{name}' list of streams: for each stream key an {ids} must be specified."
    ))
}

/// The error for an id that only XREAD accepts.
fn meaningless_id(sign: char) -> CommandError {
    CommandError::new(format!(
        "ERR The {sign} ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer by \
         specifying a proper ID, or use the > ID to get new messages. The {sign} ID would just return an empty result set."
    ))
}

fn xread<'v>(view: &'v mut View<'_>, args: &mut Args<'v>, ready: ReadyKey<'v>) -> BlockingResult<'v> {
    let mut request = ReadRequest::parse(view, args, false)?;
    if let Some(key) = ready {
        let served = request.streams().find(|(own, _)| *own == key).and_then(|(_, id)| {
            let id = parse(id, 0).ok()?;
            let stream = view.peek_found_collection::<Stream>(key).filter(|stream| stream.log().last() > id)?;
            Some((id, stream))
        });
        let Some((id, stream)) = served else { return Ok(block(&request, None, None)) };
        let count = request.count.or(Some(DEFAULT_COUNT));
        let entries = entries_after(stream.log(), id, count);
        return Ok(ReplyOrBlock::Reply(Reply::MapOrPairs(vec![(Reply::bulk(key), entries)])));
    }
    let mut from = Vec::with_capacity(request.keys.len());
    let mut rewritten = false;
    for (key, id) in request.streams() {
        let log = view.collection::<Stream>(key)?.map(Stream::log);
        from.push(match id {
            b"$" => {
                rewritten = true;
                log.map_or(StreamId::LEAST, Log::last)
            }
            b"+" if args.profile().has(LAST_ENTRY) => before_last(log, args.profile())?,
            b">" => return Err(NEW_IN_XREAD),
            id => parse(id, 0)?,
        });
    }
    let retry = rewritten.then(|| with_resolved_ids(args.words(), &request, &from));
    let streams = view.collections::<Stream>(request.keys)?;
    let mut found = Vec::new();
    for ((stream, key), &from) in streams.into_iter().zip(request.keys.iter()).zip(&from) {
        let Some(log) = stream.map(Stream::log) else { continue };
        if log.last_left().is_some_and(|last| last > from) {
            found.push((Reply::bulk(key), entries_after(log, from, request.count)));
        }
    }
    if !found.is_empty() {
        return Ok(ReplyOrBlock::Reply(Reply::MapOrPairs(found)));
    }
    let waits = request.wait.take();
    let mut reply = block(&request, waits, retry);
    if let ReplyOrBlock::Block(block) = &mut reply
        && is_served_by_key(&request, args.profile())
    {
        block.awaited = from.into_iter().map(Awaited::EntryAfter).collect();
    }
    Ok(reply)
}

/// The id just before the last entry.
fn before_last(log: Option<&Log>, profile: &Profile) -> Result<StreamId, CommandError> {
    let last = match profile.family() {
        Family::Redis if profile.since_redis(8, 0) => log.and_then(Log::last_left),
        // Redis 7.4 and Valkey mean the last id ever added, even if that entry was deleted.
        Family::Redis | Family::Valkey => log.map(Log::last),
    };
    if last == Some(StreamId::LEAST) && profile.family() == Family::Redis {
        return Err(NO_LAST_ENTRY);
    }
    Ok(last.and_then(StreamId::previous).unwrap_or_default())
}

/// The request with each `$` replaced by the id it means now.
fn with_resolved_ids(words: Words<'_>, request: &ReadRequest<'_>, from: &[StreamId]) -> OwnedWords {
    let mut again: OwnedWords = words.first(words.len() - from.len()).into_owned();
    for (word, id) in request.ids.iter().zip(from) {
        if word == b"$" { again.push(&id.to_text()) } else { again.push(word) }
    }
    again
}

fn entries_after(log: &Log, from: StreamId, count: Option<u64>) -> Reply<'_> {
    match from.next() {
        Some(start) => entries_reply(log.range(start, StreamId::GREATEST), count),
        None => Reply::Array(Vec::new()),
    }
}

/// Blocks if the request asks for it.
fn block<'v>(
    request: &ReadRequest<'v>,
    deadline: Option<Option<Millis>>,
    retry: Option<OwnedWords>,
) -> ReplyOrBlock<'v> {
    match deadline.or(request.wait) {
        None => ReplyOrBlock::Reply(Reply::NullArray),
        Some(deadline) => {
            ReplyOrBlock::Block(BlockForKeys { retry, ..BlockForKeys::new(request.keys, ValueKind::Stream, deadline) })
        }
    }
}

/// Whether a blocked request goes by the key alone that is ready. Since 7.2 it reads all its streams again.
fn is_served_by_key(request: &ReadRequest<'_>, profile: &Profile) -> bool {
    request.keys.len() == 1 || !profile.since_redis(7, 2)
}

/// What XREADGROUP returns for one stream.
enum StreamReply<'v> {
    /// The first and the last new entry.
    New(&'v [u8], Option<(StreamId, StreamId)>),
    /// Claimed entries, and the first and the last new one. Each entry comes with its deliveries so far.
    Claimed(&'v [u8], Vec<ClaimedEntry>, Option<(StreamId, StreamId)>),
    /// Ids of pending entries.
    History(&'v [u8], Vec<StreamId>),
}

/// A pending entry that was claimed: how long it had been idle, and how often it had been delivered.
struct ClaimedEntry {
    id: StreamId,
    idle: i64,
    count: u64,
}

fn xreadgroup<'v>(view: &'v mut View<'_>, args: &mut Args<'v>, ready: ReadyKey<'v>) -> BlockingResult<'v> {
    let request = ReadRequest::parse(view, args, true)?;
    let (name, consumer) = request.group.ok_or(MISSING_GROUP)?;
    let now = view.now();
    view.replicate_no_more();
    if let Some(key) = ready {
        let stream = view.peek_found_collection::<Stream>(key).ok_or(STREAM_GONE)?;
        let group = stream.group(name).ok_or(GROUP_GONE)?;
        let from = group.last();
        if stream.log().last() <= from {
            return Ok(block(&request, None, None));
        }
        let count = request.count.or(Some(DEFAULT_COUNT));
        let delivery = Delivery { profile: args.profile(), from, count, no_ack: request.no_ack, now };
        let taken = deliver(view, key, name, consumer, &delivery)?;
        return Ok(ReplyOrBlock::Reply(stream_replies(view, vec![StreamReply::New(key, taken)])));
    }
    let mut from = Vec::with_capacity(request.keys.len());
    for (key, id) in request.streams() {
        if find_group(view, key, name)?.is_none() {
            return Err(no_group_to_read(key, name));
        }
        from.push(match id {
            b"$" => return Err(meaningless_id('$')),
            b"+" if args.profile().has(LAST_ENTRY) => return Err(meaningless_id('+')),
            b">" => ReadFrom::New,
            id => match parse(id, 0).map_err(|_| BAD_ID)? {
                StreamId::GREATEST => ReadFrom::New,
                id => ReadFrom::After(id),
            },
        });
    }
    let mut replies = Vec::new();
    // A history ends the claims of this and all later streams, as in Redis.
    let mut min_idle = request.min_idle;
    let mut oldest: Option<Millis> = None;
    for ((key, _), from) in request.streams().zip(from) {
        let Some(stream) = view.collection::<Stream>(key)? else { continue };
        let group = stream.group(name).ok_or_else(|| no_group_to_read(key, name))?;
        let last = group.last();
        let has_new = stream.log().last_left().is_some_and(|left| left > last);
        let delivered = min_idle.and_then(|_| oldest_delivery(group, stream.log()));
        oldest = delivered.into_iter().chain(oldest).min();
        match from {
            ReadFrom::After(id) => {
                min_idle = None;
                touch(view, key, name, consumer, now)?;
                let ids = redeliver(view, key, name, consumer, id, request.count, now)?;
                replies.push(StreamReply::History(key, ids));
                if args.profile().has(HISTORY_IS_NO_CHANGE) {
                    continue;
                }
            }
            ReadFrom::New if has_new || is_claimable(min_idle, delivered, now) => {
                let mut count = request.count;
                let claimed = match min_idle {
                    Some(min_idle) => Some(claim_idle(view, key, name, consumer, min_idle, count, now)?),
                    None => None,
                };
                count = count.map(|count| count - claimed.as_ref().map_or(0, Vec::len) as u64);
                let delivery = Delivery { profile: args.profile(), from: last, count, no_ack: request.no_ack, now };
                let taken =
                    if has_new && count != Some(0) { deliver(view, key, name, consumer, &delivery)? } else { None };
                replies.push(match claimed {
                    Some(claimed) => StreamReply::Claimed(key, claimed, taken),
                    None => StreamReply::New(key, taken),
                });
            }
            ReadFrom::New => {
                // Before 7.2 a consumer was not seen if it got nothing.
                if args.profile().since_redis(7, 2) {
                    touch(view, key, name, consumer, now)?;
                }
                continue;
            }
        }
        view.count_more_changes(1);
    }
    if replies.is_empty() {
        let mut reply = block(&request, None, None);
        if let ReplyOrBlock::Block(block) = &mut reply {
            let idle_at = |min_idle: i64| oldest.unwrap_or(now).saturating_add(min_idle);
            let awaited = match request.min_idle.is_none() && is_served_by_key(&request, args.profile()) {
                true => Awaited::NewInGroup { group: name.into(), consumer: consumer.into() },
                false => Awaited::ForConsumer,
            };
            block.awaited = vec![awaited; request.keys.len()];
            block.retry_at = min_idle.map(|min_idle| idle_at(min_idle).max(now.saturating_add(1)));
        }
        return Ok(reply);
    }
    Ok(ReplyOrBlock::Reply(stream_replies(view, replies)))
}

/// The earliest delivery among the pending entries that are still there.
fn oldest_delivery(group: &ConsumerGroup, log: &Log) -> Option<Millis> {
    let by_time = group.pending().iter().map(|(id, pending)| Reverse((pending.time, *id)));
    let mut by_time: BinaryHeap<_> = by_time.collect();
    std::iter::from_fn(|| by_time.pop()).find(|Reverse((_, id))| log.get(*id).is_some()).map(|Reverse((time, _))| time)
}

/// Milliseconds since a delivery. Like Redis's, it is huge if the clock has been set back.
fn idle_since(time: Millis, now: Millis) -> u64 {
    now.wrapping_sub(time) as u64
}

fn is_claimable(min_idle: Option<i64>, delivered: Option<Millis>, now: Millis) -> bool {
    min_idle.zip(delivered).is_some_and(|(min_idle, time)| idle_since(time, now) >= min_idle as u64)
}

/// Claims pending entries of the group for a consumer, those first that have been idle for the longest time.
fn claim_idle(
    view: &mut View<'_>,
    key: &[u8],
    name: &[u8],
    consumer: &[u8],
    min_idle: i64,
    count: Option<u64>,
    now: Millis,
) -> Result<Vec<ClaimedEntry>, CommandError> {
    touch(view, key, name, consumer, now)?;
    let most = count.map_or(usize::MAX, |count| usize::try_from(count).unwrap_or(usize::MAX));
    let replicates = view.is_replicated();
    let mut replicated = Vec::new();
    let claimed = view.change_quietly(key, |stream| {
        stream.change_group(name, |group, log| {
            let pending = group.pending().iter();
            let mut idle: Vec<(Millis, StreamId)> = pending
                .filter(|(_, pending)| idle_since(pending.time, now) >= min_idle as u64)
                .map(|(id, pending)| (pending.time, *id))
                .collect();
            if most < idle.len() {
                idle.select_nth_unstable(most);
                idle.truncate(most);
            }
            idle.sort_unstable();
            let mut claimed = Vec::with_capacity(idle.len());
            for (time, id) in idle.into_iter().filter(|(_, id)| log.get(*id).is_some()) {
                let Some(count) = group.pending().get(&id).map(|pending| pending.count) else { continue };
                group.deliver(id, consumer, now, count.wrapping_add(1));
                replicated.extend(replicates.then(|| Delivered::of(group, id)).flatten());
                claimed.push(ClaimedEntry { id, idle: now.wrapping_sub(time), count });
            }
            if let Some(consumer) = group.consumer_mut(consumer).filter(|_| !claimed.is_empty()) {
                consumer.active = Some(now);
            }
            claimed
        })
    })?;
    replicated.iter().for_each(|delivered| delivered.replicate(view, key, name));
    Ok(claimed.flatten().unwrap_or_default())
}

fn no_group_to_read(key: &[u8], group: &[u8]) -> CommandError {
    let (key, group) = (until_nul(key), until_nul(group));
    let (before, between) = (b"NOGROUP No such key '", b"' or consumer group '");
    CommandError::new([before, key, between, group, b"' in XREADGROUP with GROUP option"].concat())
}

/// Records that the consumer was seen, and creates it if needed.
/// Returns whether it did.
fn touch(view: &mut View<'_>, key: &[u8], name: &[u8], consumer: &[u8], now: Millis) -> Result<bool, CommandError> {
    let new =
        view.change_quietly(key, |stream| stream.change_group(name, |group, _| touch_consumer(group, consumer, now)))?;
    let is_new = new.flatten() == Some(true);
    if is_new {
        notify_new_consumer(view, key);
    }
    Ok(is_new)
}

struct Delivery<'p> {
    profile: &'p Profile,
    from: StreamId,
    count: Option<u64>,
    no_ack: bool,
    now: Millis,
}

/// Delivers new entries to a consumer. Returns the first and the last one.
fn deliver(
    view: &mut View<'_>,
    key: &[u8],
    name: &[u8],
    consumer: &[u8],
    delivery: &Delivery<'_>,
) -> Result<Option<(StreamId, StreamId)>, CommandError> {
    if touch(view, key, name, consumer, delivery.now)? && delivery.no_ack {
        view.replicate_as(&[b"XGROUP", b"CREATECONSUMER", key, name, consumer]);
    }
    let Some(start) = delivery.from.next() else { return Ok(None) };
    let count = delivery.count.map_or(usize::MAX, |count| usize::try_from(count).unwrap_or(usize::MAX));
    let replicates = view.is_replicated();
    let mut replicated = Vec::new();
    let mut position = None;
    let taken = view.change_quietly(key, |stream| {
        stream.change_group(name, |group, log| {
            let mut taken = None;
            for entry in log.range(start, StreamId::GREATEST).take(count) {
                advance(group, log, entry.id, delivery.profile);
                if !delivery.no_ack {
                    group.deliver(entry.id, consumer, delivery.now, 1);
                    replicated.extend(replicates.then(|| Delivered::of(group, entry.id)).flatten());
                } else if replicates {
                    position = Some(Position { last: group.last(), read: group.read().unwrap_or(-1) });
                }
                taken = Some((taken.map_or(entry.id, |(first, _)| first), entry.id));
            }
            if let Some(consumer) = group.consumer_mut(consumer).filter(|_| taken.is_some()) {
                consumer.active = Some(delivery.now);
            }
            taken
        })
    })?;
    replicated.iter().for_each(|delivered| delivered.replicate(view, key, name));
    if let Some(position) = position {
        position.replicate(view, key, name);
    }
    Ok(taken.flatten().flatten())
}

/// Moves the group's last delivered id to an entry.
fn advance(group: &mut ConsumerGroup, log: &Log, id: StreamId, profile: &Profile) {
    if id <= group.last() {
        return;
    }
    group.set_read(log.read_with(group, id, profile));
    group.set_last(id);
}

/// Delivers a consumer's pending entries again. Returns their ids.
fn redeliver(
    view: &mut View<'_>,
    key: &[u8],
    name: &[u8],
    consumer: &[u8],
    behind: StreamId,
    count: Option<u64>,
    now: Millis,
) -> Result<Vec<StreamId>, CommandError> {
    let Some(start) = behind.next() else { return Ok(Vec::new()) };
    let count = count.map_or(usize::MAX, |count| usize::try_from(count).unwrap_or(usize::MAX));
    let ids = view.change_quietly(key, |stream| {
        stream.change_group(name, |group, log| {
            let consumer = group.consumer(consumer);
            let ids: Vec<StreamId> = consumer
                .into_iter()
                .flat_map(|consumer| consumer.pending().range(start..))
                .take(count)
                .copied()
                .collect();
            for id in &ids {
                if log.get(*id).is_some()
                    && let Some(pending) = group.pending_mut(*id)
                {
                    pending.time = now;
                    pending.count = pending.count.wrapping_add(1);
                }
            }
            ids
        })
    })?;
    Ok(ids.flatten().unwrap_or_default())
}

/// An entry's reply, with the milliseconds since its last delivery and the number of its deliveries.
fn with_deliveries(entry: Reply<'_>, idle: i64, count: i64) -> Reply<'_> {
    match entry {
        Reply::Array(mut items) => {
            items.extend([Reply::Integer(idle), Reply::Integer(count)]);
            Reply::Array(items)
        }
        other => other,
    }
}

fn stream_replies<'v>(view: &'v View<'_>, replies: Vec<StreamReply<'v>>) -> Reply<'v> {
    let log = |key: &[u8]| view.peek_found_collection::<Stream>(key).map(Stream::log);
    let pairs = replies.into_iter().map(|replies| match replies {
        StreamReply::New(key, taken) => {
            let entries = log(key).zip(taken).map(|(log, (first, last))| entries_reply(log.range(first, last), None));
            (Reply::bulk(key), entries.unwrap_or(Reply::Array(Vec::new())))
        }
        StreamReply::Claimed(key, claimed, taken) => {
            let Some(log) = log(key) else { return (Reply::bulk(key), Reply::Array(Vec::new())) };
            let old = claimed.into_iter().filter_map(|ClaimedEntry { id, idle, count }| {
                Some(with_deliveries(entry_reply(log.get(id)?), idle, count as i64))
            });
            let new = taken.into_iter().flat_map(|(first, last)| log.range(first, last));
            let new = new.map(|entry| with_deliveries(entry_reply(entry), 0, 0));
            (Reply::bulk(key), Reply::Array(old.chain(new).collect()))
        }
        StreamReply::History(key, ids) => {
            let log = log(key);
            let entries = ids.into_iter().map(|id| match log.and_then(|log| log.get(id)) {
                Some(entry) => entry_reply(entry),
                None => Reply::Array(vec![id_reply(id), Reply::NullArray]),
            });
            (Reply::bulk(key), Reply::Array(entries.collect()))
        }
    });
    Reply::MapOrPairs(pairs.collect())
}
