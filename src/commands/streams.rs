//! Streams: XADD, XLEN, XRANGE, XREVRANGE, XDEL, XTRIM, XSETID.

use super::stream_deletion::{REFERENCES, parse_references};
use super::stream_ids::{
    RequestedId, entries_reply, id_reply, parse, parse_range_end, parse_range_start, parse_requested,
};
use super::stream_replication::replicate_with;
use crate::base::error::CommandError;
use crate::base::profile::{Profile, Since};
use crate::commands::{Command, CommandResult, Handler};
use crate::data::keyspace::{EventClass, Log, References, Stream, StreamId, Trim, View};
use crate::protocol::{Reply, Words};
use crate::spec::{Args, Arity, Category, CommandSpec, Flag, Group, KeySpec, LockEffect};

pub(super) const ROWS: &[Command] = &[XADD, XDEL, XLEN, XRANGE, XREVRANGE, XSETID, XTRIM];

const LEAST_ID: CommandError = CommandError::fixed("ERR The ID specified in XADD must be greater than 0-0");
const SMALL_ID: CommandError =
    CommandError::fixed("ERR The ID specified in XADD is equal or smaller than the target stream top item");
const NO_ID_LEFT: CommandError =
    CommandError::fixed("ERR The stream has exhausted the last possible ID, unable to add more items");
const TOO_LARGE: CommandError = CommandError::fixed("ERR Elements are too large to be stored");
const TWO_STRATEGIES: CommandError =
    CommandError::fixed("ERR syntax error, MAXLEN and MINID options at the same time are not compatible");
const NEGATIVE_MAXLEN: CommandError = CommandError::fixed("ERR The MAXLEN argument must be >= 0.");
const NEGATIVE_LIMIT: CommandError = CommandError::fixed("ERR The LIMIT argument must be >= 0.");
const LIMIT_OF_NOTHING: CommandError =
    CommandError::fixed("ERR syntax error, LIMIT cannot be used without specifying a trimming strategy");
const NO_STRATEGY: CommandError =
    CommandError::fixed("ERR syntax error, XTRIM must be called with a trimming strategy");
const EXACT_LIMIT: CommandError =
    CommandError::fixed("ERR syntax error, LIMIT cannot be used without the special ~ option");
const NEGATIVE_ADDED: CommandError = CommandError::fixed("ERR entries_added must be positive");
const BELOW_GIVEN_DELETED: CommandError =
    CommandError::fixed("ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id");
const BELOW_DELETED: CommandError =
    CommandError::fixed("ERR The ID specified in XSETID is smaller than current max_deleted_entry_id");
const BELOW_TOP: CommandError =
    CommandError::fixed("ERR The ID specified in XSETID is smaller than the target stream top item");
const TOO_FEW_ADDED: CommandError =
    CommandError::fixed("ERR The entries_added specified in XSETID is smaller than the target stream length");

const XADD: Command = Command::new(
    Handler::Keys(xadd),
    CommandSpec {
        usage: "key [NOMKSTREAM] [<MAXLEN | MINID> [= | ~] threshold [LIMIT count]] <* | id> field value [field value ...]",
        later_usages: &[(
            REFERENCES,
            "key [NOMKSTREAM] [KEEPREF | DELREF | ACKED] [<MAXLEN | MINID> [= | ~] threshold [LIMIT count]] <* | id> \
             field value [field value ...]",
        )],
        summary: "Adds an entry to the end of a stream.",
        complexity: "O(1), and O(N) for N entries that are trimmed",
        group: Group::Stream,
        since: Since::redis(5, 0, 0),
        arity: Arity::AtLeast(5),
        keys: &[KeySpec::one(1, &["RW", "update"])
            .with_notes("UPDATE instead of INSERT because of the optional trimming feature")],
        flags: &[Flag::Write, Flag::DenyOom, Flag::Fast],
        categories: &[Category::Stream],
        tips: &["nondeterministic_output"],
        lock_effect: LockEffect::OtherWrite,
        ..CommandSpec::new("XADD")
    },
);

fn xadd<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let key = args.key()?;
    let options = Options::parse(view, args, true)?;
    let words = args.rest();
    if words.len() < 2 || !words.len().is_multiple_of(2) {
        return Err(wrong_arity(args));
    }
    if let Some(RequestedId::Id(StreamId::LEAST)) = options.id {
        return Err(LEAST_ID);
    }
    if !Log::has_room_for(words.iter()) {
        return Err(TOO_LARGE);
    }
    if options.no_stream && view.collection_to_write::<Stream>(key)?.is_none() {
        return Ok(Reply::Null);
    }
    let at_id = args.words().len() - words.len() - 1;
    let (now, limits) = (view.now(), view.settings().node_limits());
    let added =
        view.change_or_make(key, Stream::default, |stream: &mut Stream| match new_id(stream.log(), options.id, now) {
            Err(error) => (Err(error), 0),
            Ok(id) => {
                stream.log_mut().append(id, words.iter(), limits);
                let trimmed = options.trim(stream);
                (Ok((id, trimmed, options.exact_threshold(stream))), 1)
            }
        })?;
    let (id, trimmed, threshold) = added?;
    if view.is_replicated() {
        replicate_with(view, args.words(), Some((at_id, id)), threshold);
    }
    view.notify(EventClass::Stream, "xadd", key);
    if trimmed > 0 {
        view.notify(EventClass::Stream, "xtrim", key);
    }
    view.signal(key);
    Ok(id_reply(id))
}

fn wrong_arity(args: &Args<'_>) -> CommandError {
    CommandError::new(format!("ERR wrong number of arguments for '{}' command", args.command_name()))
}

/// The id of a new entry.
fn new_id(log: &Log, asked: Option<RequestedId>, now: i64) -> Result<StreamId, CommandError> {
    let last = log.last();
    if last == StreamId::GREATEST {
        return Err(NO_ID_LEFT);
    }
    let id = match asked {
        None => log.next_id(now).ok_or(NO_ID_LEFT)?,
        Some(RequestedId::Id(id)) => id,
        Some(RequestedId::Time(ms)) if ms == last.ms => StreamId { ms, seq: last.seq.checked_add(1).ok_or(SMALL_ID)? },
        Some(RequestedId::Time(ms)) => StreamId { ms, seq: 0 },
    };
    if id > last { Ok(id) } else { Err(SMALL_ID) }
}

/// The options of XADD before the fields, and of XTRIM after the key.
#[derive(Default)]
struct Options {
    no_stream: bool,
    trim: Option<Trim>,
    roughly: bool,
    limit: u64,
    references: Option<References>,
    /// `None` for `*`.
    id: Option<RequestedId>,
}

impl Options {
    fn parse(view: &View<'_>, args: &mut Args<'_>, adds: bool) -> Result<Self, CommandError> {
        let mut options = Self::default();
        let mut limit: Option<i64> = None;
        while let Some(word) = args.optional() {
            let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
            let more = !args.is_empty();
            if adds && word == b"*" {
                break;
            } else if is("MAXLEN") && more {
                let threshold = options.parse_strategy(args)?;
                let most = crate::protocol::parse_integer(threshold).ok_or(CommandError::NOT_AN_INTEGER)?;
                options.trim = Some(Trim::MaxLen(u64::try_from(most).map_err(|_| NEGATIVE_MAXLEN)?));
            } else if is("MINID") && more {
                let threshold = options.parse_strategy(args)?;
                options.trim = Some(Trim::MinId(parse(threshold, 0)?));
            } else if is("LIMIT") && more {
                limit = Some(args.integer()?);
                if limit < Some(0) {
                    return Err(NEGATIVE_LIMIT);
                }
            } else if let Some(references) = options.new_references(word, args.profile()) {
                options.references = Some(references);
            } else if adds && is("NOMKSTREAM") {
                options.no_stream = true;
            } else if adds {
                options.id = Some(parse_requested(word, 0)?);
                break;
            } else {
                return Err(CommandError::SYNTAX);
            }
        }
        if options.trim.is_none() && limit.is_some_and(|limit| limit > 0) {
            return Err(LIMIT_OF_NOTHING);
        }
        if options.trim.is_none() && !adds {
            return Err(NO_STRATEGY);
        }
        if limit.is_some() && !options.roughly {
            return Err(EXACT_LIMIT);
        }
        let usual = if options.roughly { view.settings().rough_trim_limit() } else { 0 };
        options.limit = u64::try_from(limit.unwrap_or(usual)).unwrap_or(0);
        Ok(options)
    }

    /// What a word says about references of groups, if the release has that and no word before has said it.
    fn new_references(&self, word: &[u8], profile: &Profile) -> Option<References> {
        parse_references(word).filter(|_| self.references.is_none() && profile.has(REFERENCES))
    }

    /// Removes entries as the options say. Returns how many.
    fn trim(&self, stream: &mut Stream) -> u64 {
        let references = self.references.unwrap_or(References::Keep);
        self.trim.map_or(0, |trim| stream.trim(trim, self.roughly, self.limit, references))
    }

    /// The threshold that trims exactly as much as a rough trim has.
    fn exact_threshold(&self, stream: &Stream) -> Option<Vec<u8>> {
        let log = stream.log();
        match self.trim.filter(|_| self.roughly)? {
            Trim::MaxLen(_) => Some(log.len().to_string().into_bytes()),
            Trim::MinId(_) => Some(log.first().to_text()),
        }
    }

    /// Parses what follows MAXLEN or MINID: `=` or `~`, then the threshold.
    fn parse_strategy<'a>(&mut self, args: &mut Args<'a>) -> Result<&'a [u8], CommandError> {
        if self.trim.is_some() {
            return Err(TWO_STRATEGIES);
        }
        self.roughly = false;
        if args.left() >= 2 {
            match args.peek() {
                Some(b"~") => {
                    self.roughly = true;
                    args.bytes()?;
                }
                Some(b"=") => {
                    args.bytes()?;
                }
                _ => {}
            }
        }
        args.bytes()
    }
}

const XLEN: Command = Command::new(
    Handler::Keys(xlen),
    CommandSpec {
        usage: "key",
        summary: "Tells how many entries a stream has.",
        group: Group::Stream,
        since: Since::redis(5, 0, 0),
        arity: Arity::Exactly(2),
        keys: &[KeySpec::one(1, &["RO"])],
        flags: &[Flag::ReadOnly, Flag::Fast],
        categories: &[Category::Stream],
        ..CommandSpec::new("XLEN")
    },
);

fn xlen<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    Ok(Reply::Integer(view.collection::<Stream>(args.key()?)?.map_or(0, |stream| stream.log().len() as i64)))
}

const XRANGE: Command = Command::new(
    Handler::Keys(xrange),
    CommandSpec {
        usage: "key start end [COUNT count]",
        summary: "Lists the entries of a stream from one id to another.",
        complexity: "O(N) for N entries that are returned",
        group: Group::Stream,
        since: Since::redis(5, 0, 0),
        arity: Arity::AtLeast(4),
        keys: &[KeySpec::one(1, &["RO", "access"])],
        flags: &[Flag::ReadOnly],
        categories: &[Category::Stream],
        ..CommandSpec::new("XRANGE")
    },
);

fn xrange<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let (key, from, to) = (args.key()?, args.bytes()?, args.bytes()?);
    range(view, args, key, (from, to), false)
}

const XREVRANGE: Command = Command::new(
    Handler::Keys(xrevrange),
    CommandSpec {
        usage: "key end start [COUNT count]",
        summary: "Lists the entries of a stream from one id to another, the last one first.",
        complexity: "O(N) for N entries that are returned",
        group: Group::Stream,
        since: Since::redis(5, 0, 0),
        arity: Arity::AtLeast(4),
        keys: &[KeySpec::one(1, &["RO", "access"])],
        flags: &[Flag::ReadOnly],
        categories: &[Category::Stream],
        ..CommandSpec::new("XREVRANGE")
    },
);

fn xrevrange<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let (key, to, from) = (args.key()?, args.bytes()?, args.bytes()?);
    range(view, args, key, (from, to), true)
}

fn range<'v>(
    view: &'v mut View<'_>,
    args: &mut Args<'v>,
    key: &[u8],
    (from, to): (&[u8], &[u8]),
    backwards: bool,
) -> CommandResult<'v> {
    let (from, to) = (parse_range_start(from)?, parse_range_end(to)?);
    let mut count = None;
    while !args.is_empty() {
        if !(args.left() >= 2 && args.take("COUNT")) {
            return Err(CommandError::SYNTAX);
        }
        let asked = args.integer()?;
        // A count of -1 means no limit, like no COUNT at all. Other negative counts mean 0.
        count = Some(u64::try_from(asked).unwrap_or(0));
    }
    let Some(stream) = view.collection::<Stream>(key)? else { return Ok(Reply::Array(Vec::new())) };
    if count == Some(0) {
        return Ok(Reply::NullArray);
    }
    let log = stream.log();
    Ok(if backwards {
        entries_reply(log.range_back(from, to), count)
    } else {
        entries_reply(log.range(from, to), count)
    })
}

const XDEL: Command = Command::new(
    Handler::Keys(xdel),
    CommandSpec {
        usage: "key id [id ...]",
        summary: "Deletes entries of a stream.",
        complexity: "O(1) for each entry",
        group: Group::Stream,
        since: Since::redis(5, 0, 0),
        arity: Arity::AtLeast(3),
        keys: &[KeySpec::one(1, &["RW", "delete"])],
        flags: &[Flag::Write, Flag::Fast],
        categories: &[Category::Stream],
        ..CommandSpec::new("XDEL")
    },
);

fn xdel<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let key = args.key()?;
    if view.collection_to_write::<Stream>(key)?.is_none() {
        return Ok(Reply::Integer(0));
    }
    let ids = parse_ids(args.rest())?;
    let deletion = view.change(key, |stream: &mut Stream| {
        let deleted = ids.iter().filter(|id| stream.log_mut().delete(**id)).count();
        (deleted, deleted)
    })?;
    let deleted = deletion.map_or(0, |(deleted, _)| deleted);
    if deleted > 0 {
        view.notify(EventClass::Stream, "xdel", key);
    }
    Ok(Reply::Integer(deleted as i64))
}

pub(super) fn parse_ids(words: Words<'_>) -> Result<Vec<StreamId>, CommandError> {
    words.iter().map(|word| parse(word, 0)).collect()
}

const XTRIM: Command = Command::new(
    Handler::Keys(xtrim),
    CommandSpec {
        usage: "key <MAXLEN | MINID> [= | ~] threshold [LIMIT count]",
        later_usages: &[(
            REFERENCES,
            "key <MAXLEN | MINID> [= | ~] threshold [LIMIT count] [KEEPREF | DELREF | ACKED]",
        )],
        summary: "Deletes the oldest entries of a stream.",
        complexity: "O(N) for N entries that are deleted",
        group: Group::Stream,
        since: Since::redis(5, 0, 0),
        arity: Arity::AtLeast(4),
        keys: &[KeySpec::one(1, &["RW", "delete"])],
        flags: &[Flag::Write],
        categories: &[Category::Stream],
        tips: &["nondeterministic_output"],
        ..CommandSpec::new("XTRIM")
    },
);

fn xtrim<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let key = args.key()?;
    let options = Options::parse(view, args, false)?;
    let trimming = view.change(key, |stream: &mut Stream| {
        let trimmed = options.trim(stream);
        ((trimmed, options.exact_threshold(stream)), trimmed as usize)
    })?;
    let (trimmed, threshold) = trimming.map_or((0, None), |(outcome, _)| outcome);
    if trimmed > 0 {
        if threshold.is_some() && view.is_replicated() {
            replicate_with(view, args.words(), None, threshold);
        }
        view.notify(EventClass::Stream, "xtrim", key);
    }
    Ok(Reply::Integer(trimmed as i64))
}

const XSETID: Command = Command::new(
    Handler::Keys(xsetid),
    CommandSpec {
        usage: "key last-id [ENTRIESADDED entries_added] [MAXDELETEDID max_deleted_entry_id]",
        summary: "Sets what a stream remembers of entries that are gone. For servers among themselves.",
        group: Group::Stream,
        since: Since::redis(5, 0, 0),
        arity: Arity::AtLeast(3),
        keys: &[KeySpec::one(1, &["RW", "update"])],
        flags: &[Flag::Write, Flag::DenyOom, Flag::Fast],
        categories: &[Category::Stream],
        ..CommandSpec::new("XSETID")
    },
);

fn xsetid<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let (key, last) = (args.key()?, parse(args.bytes()?, 0)?);
    let (mut added, mut max_deleted) = (None, StreamId::LEAST);
    while !args.is_empty() {
        if args.left() >= 2 && args.take("ENTRIESADDED") {
            added = Some(u64::try_from(args.integer()?).map_err(|_| NEGATIVE_ADDED)?);
        } else if args.left() >= 2 && args.take("MAXDELETEDID") {
            max_deleted = parse(args.bytes()?, 0)?;
            if last < max_deleted {
                return Err(BELOW_GIVEN_DELETED);
            }
        } else {
            return Err(CommandError::SYNTAX);
        }
    }
    let stream = view.collection_to_write::<Stream>(key)?.ok_or(CommandError::NO_SUCH_KEY)?;
    let log = stream.log();
    if last < log.max_deleted() && args.profile().since_redis(7, 2) {
        return Err(BELOW_DELETED);
    }
    if log.last_left().is_some_and(|top| last < top) {
        return Err(BELOW_TOP);
    }
    if !log.is_empty() && added.is_some_and(|added| added < log.len()) {
        return Err(TOO_FEW_ADDED);
    }
    let max_deleted = Some(max_deleted).filter(|id| *id != StreamId::LEAST);
    // Redis does not touch the key for WATCH.
    view.change_quietly(key, |stream| stream.log_mut().set_last(last, added, max_deleted))?;
    view.count_more_changes(1);
    view.notify(EventClass::Stream, "xsetid", key);
    Ok(Reply::OK)
}
