//! HRANDFIELD.

use super::sampling::{OUT_OF_RANGE, parse_count, sample};
use crate::base::profile::Since;
use crate::commands::{Command, CommandResult, Handler};
use crate::data::keyspace::{Hash, View};
use crate::protocol::Reply;
use crate::spec::{Args, Arity, Category, CommandSpec, Flag, Group, KeySpec};

pub(super) const ROWS: &[Command] = &[HRANDFIELD];

const HRANDFIELD: Command = Command::new(
    Handler::Keys(hrandfield),
    CommandSpec {
        usage: "key [count [WITHVALUES]]",
        summary: "Returns fields of a hash at random.",
        complexity: "O(N) for N fields",
        group: Group::Hash,
        since: Since::redis(6, 2, 0),
        arity: Arity::AtLeast(2),
        keys: &[KeySpec::one(1, &["RO", "access"])],
        flags: &[Flag::ReadOnly],
        categories: &[Category::Hash],
        tips: &["nondeterministic_output"],
        ..CommandSpec::new("HRANDFIELD")
    },
);

fn hrandfield<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let (key, count) = (args.key()?, args.optional());
    let Some(count) = count else {
        let size = view.collection::<Hash>(key)?.map_or(0, Hash::len);
        let place = view.random_below(size);
        let pair = view.peek(key).and_then(|entry| entry.collection::<Hash>()?.at(place));
        return Ok(Reply::bulk_or_null(pair.map(|pair| pair.field())));
    };
    let count = parse_count(count)?;
    let with_values = args.take("WITHVALUES");
    args.end()?;
    // Each field takes two elements of the reply.
    if with_values && count.unsigned_abs() > i64::MAX as u64 / 2 {
        return Err(OUT_OF_RANGE);
    }
    let size = view.collection::<Hash>(key)?.map_or(0, Hash::len);
    if size == 0 {
        return Ok(Reply::Array(Vec::new()));
    }
    let places = sample(view, size, count)?;
    let Some(hash) = view.peek(key).and_then(|entry| entry.collection::<Hash>()) else {
        return Ok(Reply::Array(Vec::new()));
    };
    let pairs = places.into_iter().filter_map(|place| hash.at(place));
    Ok(if with_values {
        Reply::Pairs(pairs.map(|pair| (Reply::bulk(pair.field()), Reply::bulk(pair.value()))).collect())
    } else {
        Reply::Array(pairs.map(|pair| Reply::bulk(pair.field())).collect())
    })
}
