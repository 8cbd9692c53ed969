//! HRANDFIELD.

use super::fields_clause::is_valkey;
use super::sampling::{OUT_OF_RANGE, parse_count, sample};
use crate::base::error::CommandError;
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
    if !is_valkey(args) {
        view.expire_all_fields(key);
    }
    let Some(count) = count else {
        let (size, places) = visible(view, key)?;
        let place = view.random_below(size);
        let place = places.map_or(Some(place), |places| places.get(place).copied());
        let pair = view.peek(key).and_then(|entry| entry.collection::<Hash>()?.at(place?));
        return Ok(Reply::bulk_or_null(pair.map(|pair| pair.field())));
    };
    let count = parse_count(count)?;
    let with_values = args.take("WITHVALUES");
    args.end()?;
    // Each field takes two elements of the reply.
    if with_values && count.unsigned_abs() > i64::MAX as u64 / 2 {
        return Err(OUT_OF_RANGE);
    }
    let (size, visible) = visible(view, key)?;
    if size == 0 {
        return Ok(Reply::Array(Vec::new()));
    }
    let mut places = sample(view, size, count)?;
    if let Some(visible) = visible {
        places.iter_mut().for_each(|place| *place = visible.get(*place).copied().unwrap_or(usize::MAX));
    }
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

/// How many fields clients see, and their places, if there are others.
fn visible(view: &mut View<'_>, key: &[u8]) -> Result<(usize, Option<Vec<usize>>), CommandError> {
    let Some(hash) = view.collection::<Hash>(key)? else { return Ok((0, None)) };
    let places = hash.visible_places();
    Ok((places.as_ref().map_or(hash.len(), Vec::len), places))
}
