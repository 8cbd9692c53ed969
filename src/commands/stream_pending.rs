//! Pending entries of consumer groups: XPENDING, XCLAIM, XAUTOCLAIM.

use std::cell::Cell;

use super::stream_groups::{find_group, no_key_or_group, notify_new_consumer, touch_consumer};
use super::stream_ids::{entry_reply, id_reply, parse, parse_range_end, parse_range_start};
use super::stream_replication::{Delivered, Position};
use crate::base::clock::Millis;
use crate::base::error::CommandError;
use crate::base::profile::{Profile, Since};
use crate::commands::{Command, CommandResult, Handler};
use crate::data::keyspace::{Group as ConsumerGroup, Log, Pending, Stream, StreamId, View};
use crate::protocol::{Reply, parse_integer};
use crate::spec::{Args, Arity, Category, CommandSpec, Flag, Group, KeySpec};

pub(super) const ROWS: &[Command] = &[XAUTOCLAIM, XCLAIM, XPENDING];

const BAD_COUNT: CommandError = CommandError::fixed("ERR COUNT must be > 0");

/// XAUTOCLAIM visits at most so many entries for each one it may claim.
const ATTEMPTS: i64 = 10;
const MOST_COUNT: i64 = i64::MAX / 16;

const XPENDING: Command = Command::new(
    Handler::Keys(xpending),
    CommandSpec {
        usage: "key group [[IDLE min-idle-time] start end count [consumer]]",
        summary: "Lists the entries of a group that were delivered and not acknowledged.",
        complexity: "O(N) for N entries that are looked at",
        group: Group::Stream,
        since: Since::redis(5, 0, 0),
        arity: Arity::AtLeast(3),
        keys: &[KeySpec::one(1, &["RO", "access"])],
        flags: &[Flag::ReadOnly],
        categories: &[Category::Stream],
        tips: &["nondeterministic_output"],
        ..CommandSpec::new("XPENDING")
    },
);

fn xpending<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let (key, name) = (args.key()?, args.bytes()?);
    if args.is_empty() {
        let group = find_group(view, key, name)?.ok_or_else(|| no_key_or_group(key, name))?;
        return Ok(summary(group));
    }
    if !(3..=6).contains(&args.left()) {
        return Err(CommandError::SYNTAX);
    }
    let mut idle = 0;
    if args.take("IDLE") {
        idle = args.integer()?;
        if args.left() < 3 {
            return Err(CommandError::SYNTAX);
        }
    }
    let (from, to) = (args.bytes()?, args.bytes()?);
    let count = usize::try_from(args.integer()?).unwrap_or(0);
    let (from, to) = (parse_range_start(from)?, parse_range_end(to)?);
    let consumer = args.optional();
    let now = view.now();
    let group = find_group(view, key, name)?.ok_or_else(|| no_key_or_group(key, name))?;
    if from > to {
        return Ok(Reply::Array(Vec::new()));
    }
    let is_idle = |pending: &Pending| idle == 0 || now.wrapping_sub(pending.time) >= idle;
    let shown = |id: StreamId, pending: &'v Pending| {
        Reply::Array(vec![
            id_reply(id),
            Reply::bulk(&*pending.consumer),
            Reply::Integer(now.wrapping_sub(pending.time).max(0)),
            Reply::Integer(pending.count as i64),
        ])
    };
    let entries = match consumer {
        None => {
            let pending = group.pending().range(from..=to).filter(|(_, pending)| is_idle(pending));
            pending.take(count).map(|(id, pending)| shown(*id, pending)).collect()
        }
        Some(consumer) => {
            let ids = group.consumer(consumer).into_iter().flat_map(|consumer| consumer.pending().range(from..=to));
            let pending = ids.filter_map(|id| Some((*id, group.pending().get(id)?)));
            pending
                .filter(|(_, pending)| is_idle(pending))
                .take(count)
                .map(|(id, pending)| shown(id, pending))
                .collect()
        }
    };
    Ok(Reply::Array(entries))
}

fn summary(group: &ConsumerGroup) -> Reply<'_> {
    let pending = group.pending();
    let (Some((first, _)), Some((last, _))) = (pending.first_key_value(), pending.last_key_value()) else {
        return Reply::Array(vec![Reply::Integer(0), Reply::Null, Reply::Null, Reply::NullArray]);
    };
    let consumers = group.consumers().filter(|(_, consumer)| !consumer.pending().is_empty());
    let consumers = consumers.map(|(name, consumer)| {
        Reply::Array(vec![Reply::bulk(name), Reply::text(consumer.pending().len().to_string())])
    });
    let count = Reply::Integer(pending.len() as i64);
    Reply::Array(vec![count, id_reply(*first), id_reply(*last), Reply::Array(consumers.collect())])
}

const XCLAIM: Command = Command::new(
    Handler::Keys(xclaim),
    CommandSpec {
        usage: "key group consumer min-idle-time id [id ...] [IDLE ms] [TIME unix-time-milliseconds] [RETRYCOUNT count] \
            [FORCE] [JUSTID] [LASTID id]",
        summary: "Hands pending entries over to a consumer.",
        complexity: "O(log N) for N entries that are pending",
        group: Group::Stream,
        since: Since::redis(5, 0, 0),
        arity: Arity::AtLeast(6),
        keys: &[KeySpec::one(1, &["RW", "update"])],
        flags: &[Flag::Write, Flag::Fast],
        categories: &[Category::Stream],
        tips: &["nondeterministic_output"],
        ..CommandSpec::new("XCLAIM")
    },
);

/// The options of XCLAIM.
struct Claim {
    min_idle: i64,
    time: Millis,
    retries: Option<u64>,
    force: bool,
    just_ids: bool,
    last: StreamId,
    /// Whether the claim created the consumer.
    new: Cell<bool>,
}

fn named_integer(word: &[u8], name: &str, command: &str) -> Result<i64, CommandError> {
    parse_integer(word).ok_or_else(|| CommandError::new(format!("ERR Invalid {name} argument for {command}")))
}

impl Claim {
    fn new(min_idle: i64, now: Millis) -> Self {
        let (retries, last, new) = (None, StreamId::LEAST, Cell::new(false));
        Self { min_idle, time: now, retries, force: false, just_ids: false, last, new }
    }

    /// Since 7.2 the consumer is seen at once; before, only when it gets an entry.
    fn touch_claiming_consumer(&self, group: &mut ConsumerGroup, consumer: &[u8], now: Millis, profile: &Profile) {
        if profile.since_redis(7, 2) {
            self.new.set(touch_consumer(group, consumer, now));
        }
    }

    fn parse(args: &mut Args<'_>, min_idle: i64, now: Millis) -> Result<Self, CommandError> {
        let (mut time, mut retries) = (-1, -1);
        let mut claim = Self::new(min_idle, now);
        while let Some(word) = args.optional() {
            let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
            let more = !args.is_empty();
            if is("FORCE") {
                claim.force = true;
            } else if is("JUSTID") {
                claim.just_ids = true;
            } else if is("IDLE") && more {
                time = now.wrapping_sub(named_integer(args.bytes()?, "IDLE option", "XCLAIM")?);
            } else if is("TIME") && more {
                time = named_integer(args.bytes()?, "TIME option", "XCLAIM")?;
            } else if is("RETRYCOUNT") && more {
                retries = named_integer(args.bytes()?, "RETRYCOUNT option", "XCLAIM")?;
            } else if is("LASTID") && more {
                claim.last = parse(args.bytes()?, 0)?;
            } else {
                return Err(CommandError::quoting("ERR Unrecognized XCLAIM option '", word, "'"));
            }
        }
        claim.retries = u64::try_from(retries).ok();
        if (0..=now).contains(&time) {
            claim.time = time;
        }
        Ok(claim)
    }

    /// Returns whether the consumer now has the entry, and whether anything changed.
    fn apply(&self, group: &mut ConsumerGroup, log: &Log, id: StreamId, consumer: &[u8], now: Millis) -> (bool, bool) {
        if log.get(id).is_none() {
            return (false, group.acknowledge(id));
        }
        let count = match group.pending().get(&id) {
            None if !self.force => return (false, false),
            None => 1,
            Some(pending) if self.min_idle > 0 && now.wrapping_sub(pending.time) < self.min_idle => {
                return (false, false);
            }
            Some(pending) => pending.count,
        };
        let counted = if self.just_ids { count } else { count.wrapping_add(1) };
        self.new.set(touch_consumer(group, consumer, now) || self.new.get());
        group.deliver(id, consumer, self.time, self.retries.unwrap_or(counted));
        (true, true)
    }
}

fn xclaim<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let (key, name, consumer) = (args.key()?, args.bytes()?, args.bytes()?);
    let now = view.now();
    if find_group(view, key, name)?.is_none() {
        return Err(no_key_or_group(key, name));
    }
    let min_idle = named_integer(args.bytes()?, "min-idle-time", "XCLAIM")?.max(0);
    let mut ids = Vec::new();
    while let Some(id) = args.peek().and_then(|word| parse(word, 0).ok()) {
        ids.push(id);
        args.bytes()?;
    }
    let claim = Claim::parse(args, min_idle, now)?;
    let replicates = view.is_replicated();
    let mut replicated = Vec::new();
    let mut moved_to = None;
    let claimed = view.change_quietly(key, |stream| {
        stream.change_group(name, |group, log| {
            let mut moved = claim.last > group.last();
            if moved {
                group.set_last(claim.last);
            }
            claim.touch_claiming_consumer(group, consumer, now, args.profile());
            let mut changes = 0;
            ids.retain(|id| {
                let before = replicates.then(|| Delivered::of(group, *id)).flatten();
                let (claimed, changed) = claim.apply(group, log, *id, consumer, now);
                let after = replicates.then(|| Delivered::of(group, *id)).flatten();
                replicated.extend(if claimed { after } else { before.filter(|_| changed) });
                moved &= !changed;
                changes += usize::from(changed);
                claimed
            });
            mark_active(group, consumer, now, !ids.is_empty());
            moved_to = moved.then(|| Position { last: group.last(), read: group.read().unwrap_or(-1) });
            (claim.new.get(), changes + usize::from(moved))
        })
    })?;
    replicate_claims(view, key, name, &replicated);
    if let Some(position) = moved_to {
        position.replicate(view, key, name);
    }
    notify_and_count(view, key, claimed.flatten());
    Ok(claimed_reply(view, key, ids, claim.just_ids))
}

/// Sends what was claimed instead of the command that claimed it.
fn replicate_claims(view: &mut View<'_>, key: &[u8], group: &[u8], claims: &[Delivered]) {
    view.replicate_no_more();
    claims.iter().for_each(|claim| claim.replicate(view, key, group));
}

/// Marks a consumer that got an entry as active.
fn mark_active(group: &mut ConsumerGroup, consumer: &[u8], now: Millis, got: bool) {
    if let Some(consumer) = group.consumer_mut(consumer).filter(|_| got) {
        consumer.active = Some(now);
    }
}

/// Publishes the creation of a consumer, and counts the changes.
fn notify_and_count(view: &mut View<'_>, key: &[u8], done: Option<(bool, usize)>) {
    let (new, changes) = done.unwrap_or_default();
    if new {
        notify_new_consumer(view, key);
    }
    view.count_more_changes(changes);
}

fn claimed_reply<'v>(view: &'v View<'_>, key: &[u8], ids: Vec<StreamId>, just_ids: bool) -> Reply<'v> {
    if just_ids {
        return Reply::Array(ids.into_iter().map(id_reply).collect());
    }
    let log = view.peek_found_collection::<Stream>(key).map(Stream::log);
    Reply::Array(ids.into_iter().filter_map(|id| log?.get(id).map(entry_reply)).collect())
}

const XAUTOCLAIM: Command = Command::new(
    Handler::Keys(xautoclaim),
    CommandSpec {
        usage: "key group consumer min-idle-time start [COUNT count] [JUSTID]",
        summary: "Hands the entries over to a consumer that have been pending for long.",
        complexity: "O(1) if COUNT is small.",
        group: Group::Stream,
        since: Since::redis(6, 2, 0),
        arity: Arity::AtLeast(6),
        keys: &[KeySpec::one(1, &["RW", "delete"])],
        flags: &[Flag::Write, Flag::Fast],
        categories: &[Category::Stream],
        tips: &["nondeterministic_output"],
        ..CommandSpec::new("XAUTOCLAIM")
    },
);

/// The result of XAUTOCLAIM.
#[derive(Default)]
struct AutoClaimed {
    claimed: Vec<StreamId>,
    deleted: Vec<StreamId>,
    next: StreamId,
    new: bool,
}

fn xautoclaim<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let (key, name, consumer) = (args.key()?, args.bytes()?, args.bytes()?);
    let now = view.now();
    // Redis looks up the group first, but reports faulty arguments before a missing group.
    let group_exists = find_group(view, key, name).map(|group| group.is_some());
    let min_idle = named_integer(args.bytes()?, "min-idle-time", "XAUTOCLAIM")?.max(0);
    let start = parse_range_start(args.bytes()?)?;
    let (mut count, mut just_ids) = (100, false);
    while !args.is_empty() {
        if args.left() >= 2 && args.take("COUNT") {
            let asked = parse_integer(args.bytes()?).ok_or(BAD_COUNT)?;
            count = Some(asked).filter(|count| (1..=MOST_COUNT).contains(count)).ok_or(BAD_COUNT)?;
        } else if args.take("JUSTID") {
            just_ids = true;
        } else {
            return Err(CommandError::SYNTAX);
        }
    }
    if !group_exists? {
        return Err(no_key_or_group(key, name));
    }
    let claim = Claim { just_ids, ..Claim::new(min_idle, now) };
    let replicates = view.is_replicated();
    let mut replicated = Vec::new();
    let found = view.change_quietly(key, |stream| {
        stream.change_group(name, |group, log| {
            claim.touch_claiming_consumer(group, consumer, now, args.profile());
            let mut found = AutoClaimed::default();
            let attempts = usize::try_from(count.saturating_mul(ATTEMPTS)).unwrap_or(usize::MAX);
            let ids: Vec<StreamId> =
                group.pending().range(start..).take(attempts.min(group.pending().len())).map(|(id, _)| *id).collect();
            let mut at = Some(start);
            for id in ids {
                if (found.claimed.len() + found.deleted.len()) as i64 == count {
                    break;
                }
                at = id.next();
                let before = replicates.then(|| Delivered::of(group, id)).flatten();
                match claim.apply(group, log, id, consumer, now) {
                    (true, _) => {
                        found.claimed.push(id);
                        replicated.extend(replicates.then(|| Delivered::of(group, id)).flatten());
                    }
                    (false, true) => {
                        found.deleted.push(id);
                        replicated.extend(before);
                    }
                    (false, false) => {}
                }
            }
            let next = at.and_then(|at| group.pending().range(at..).next());
            found.next = next.map(|(id, _)| *id).unwrap_or_default();
            mark_active(group, consumer, now, !found.claimed.is_empty());
            found.new = claim.new.get();
            found
        })
    })?;
    let AutoClaimed { claimed, deleted, next, new } = found.flatten().unwrap_or_default();
    replicate_claims(view, key, name, &replicated);
    notify_and_count(view, key, Some((new, claimed.len() + deleted.len())));
    let mut replies = vec![id_reply(next), claimed_reply(view, key, claimed, just_ids)];
    if args.profile().since_redis(7, 0) {
        replies.push(Reply::Array(deleted.into_iter().map(id_reply).collect()));
    }
    Ok(Reply::Array(replies))
}
