//! XACKDEL and XDELEX: removal of entries with regard to the groups that refer to them.

use super::stream_groups::find_group;
use super::streams::parse_ids;
use crate::base::error::CommandError;
use crate::base::profile::Since;
use crate::commands::{Command, CommandResult, Handler};
use crate::data::keyspace::{EventClass, References, Stream, StreamId, View};
use crate::protocol::{Reply, Words, parse_integer};
use crate::spec::{Args, Arity, Category, CommandSpec, Flag, Group, KeySpec};

pub(super) const ROWS: &[Command] = &[XACKDEL, XDELEX];

/// The releases in which the removal of an entry can regard the groups.
pub(super) const REFERENCES: Since = Since::redis(8, 2, 0);

const NOT_POSITIVE: CommandError = CommandError::fixed("ERR Number of IDs must be a positive integer");
const TOO_FEW_IDS: CommandError = CommandError::fixed("ERR The `numids` parameter must match the number of arguments");
const NO_IDS: CommandError = CommandError::fixed("ERR IDS option is required");

// What both commands answer for an id.
const ABSENT: i64 = -1;
const DELETED: i64 = 1;
const STILL_REFERENCED: i64 = 2;

/// KEEPREF, DELREF or ACKED.
pub(super) fn parse_references(word: &[u8]) -> Option<References> {
    let words = [("KEEPREF", References::Keep), ("DELREF", References::Delete), ("ACKED", References::Respect)];
    words.into_iter().find(|(name, _)| word.eq_ignore_ascii_case(name.as_bytes())).map(|(_, references)| references)
}

/// The arguments behind the key, and the group.
struct Options<'a> {
    references: References,
    ids: Words<'a>,
}

impl<'a> Options<'a> {
    fn parse(args: &mut Args<'a>) -> Result<Self, CommandError> {
        let (mut references, mut ids) = (None, None);
        while !args.is_empty() {
            if args.left() >= 2 && args.take("IDS") {
                let count = parse_integer(args.bytes()?).and_then(|count| usize::try_from(count).ok());
                let count = count.filter(|count| *count > 0).ok_or(NOT_POSITIVE)?;
                if count > args.left() {
                    return Err(TOO_FEW_IDS);
                }
                ids = Some(args.next_words(count));
            } else {
                let parsed = parse_references(args.bytes()?).filter(|_| references.is_none());
                references = Some(parsed.ok_or(CommandError::SYNTAX)?);
            }
        }
        Ok(Self { references: references.unwrap_or(References::Keep), ids: ids.ok_or(NO_IDS)? })
    }

    fn all_absent(&self) -> Reply<'static> {
        Reply::Array(self.ids.iter().map(|_| Reply::Integer(ABSENT)).collect())
    }
}

/// Removes an entry to which its groups may refer. Returns whether it may go, and whether it was there.
fn remove(stream: &mut Stream, id: StreamId, references: References) -> (bool, bool) {
    match references {
        References::Keep => {}
        References::Delete => stream.forget(id),
        References::Respect if stream.is_referenced(id) => return (false, false),
        References::Respect => {}
    }
    (true, stream.log_mut().delete(id))
}

fn codes_reply(codes: Vec<i64>) -> Reply<'static> {
    Reply::Array(codes.into_iter().map(Reply::Integer).collect())
}

const XDELEX: Command = Command::new(
    Handler::Keys(xdelex),
    CommandSpec {
        usage: "key [KEEPREF | DELREF | ACKED] IDS numids id [id ...]",
        summary: "Deletes entries of a stream, and says what becomes of groups that refer to them.",
        complexity: "O(1) for each entry",
        group: Group::Stream,
        since: REFERENCES,
        arity: Arity::AtLeast(5),
        keys: &[KeySpec::one(1, &["RW", "delete"])],
        flags: &[Flag::Write, Flag::Fast],
        categories: &[Category::Stream],
        ..CommandSpec::new("XDELEX")
    },
);

fn xdelex<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let key = args.key()?;
    let exists = view.collection_to_write::<Stream>(key)?.is_some();
    let options = Options::parse(args)?;
    if !exists {
        return Ok(options.all_absent());
    }
    let ids = parse_ids(options.ids)?;
    let removal = view.change(key, |stream: &mut Stream| {
        let mut deleted = 0;
        let codes: Vec<i64> = ids
            .iter()
            .map(|id| match remove(stream, *id, options.references) {
                (false, _) => STILL_REFERENCED,
                (true, false) => ABSENT,
                (true, true) => {
                    deleted += 1;
                    DELETED
                }
            })
            .collect();
        ((codes, deleted), deleted)
    })?;
    let Some((codes, deleted)) = removal.map(|(result, _)| result) else { return Ok(options.all_absent()) };
    if deleted > 0 {
        view.notify(EventClass::Stream, "xdel", key);
    }
    Ok(codes_reply(codes))
}

const XACKDEL: Command = Command::new(
    Handler::Keys(xackdel),
    CommandSpec {
        usage: "key group [KEEPREF | DELREF | ACKED] IDS numids id [id ...]",
        summary: "Marks entries as dealt with, and deletes those that may go.",
        complexity: "O(1) for each entry",
        group: Group::Stream,
        since: REFERENCES,
        arity: Arity::AtLeast(6),
        keys: &[KeySpec::one(1, &["RW", "update", "delete"])],
        flags: &[Flag::Write, Flag::Fast],
        categories: &[Category::Stream],
        ..CommandSpec::new("XACKDEL")
    },
);

fn xackdel<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let (key, name) = (args.key()?, args.bytes()?);
    let exists = find_group(view, key, name)?.is_some();
    let options = Options::parse(args)?;
    if !exists {
        return Ok(options.all_absent());
    }
    let ids = parse_ids(options.ids)?;
    let removal = view.change(key, |stream: &mut Stream| {
        let (mut acknowledged, mut deleted) = (0, 0);
        let codes: Vec<i64> = ids
            .iter()
            .map(|id| {
                if stream.change_group(name, |group, _| group.acknowledge(*id)) != Some(true) {
                    return ABSENT;
                }
                acknowledged += 1;
                let (may_go, was_there) = remove(stream, *id, options.references);
                deleted += usize::from(was_there);
                if may_go { DELETED } else { STILL_REFERENCED }
            })
            .collect();
        ((codes, acknowledged, deleted), deleted)
    })?;
    let Some((codes, acknowledged, deleted)) = removal.map(|(result, _)| result) else {
        return Ok(options.all_absent());
    };
    view.count_more_changes(acknowledged - deleted);
    if deleted > 0 {
        view.notify(EventClass::Stream, "xdel", key);
    }
    Ok(codes_reply(codes))
}
