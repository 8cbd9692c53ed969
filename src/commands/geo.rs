//! GEOADD, GEODIST, GEOHASH and GEOPOS: positions encoded as scores of a sorted set.

use smallvec::SmallVec;

use super::sorted_set_bounds::parse_score;
use super::sorted_sets::{ZaddOptions, add_members};
use crate::base::error::CommandError;
use crate::base::profile::{Profile, Since};
use crate::commands::{Command, CommandResult, Handler};
use crate::data::geo::{Point, standard_hash};
use crate::data::keyspace::{SortedSet, View};
use crate::protocol::Reply;
use crate::spec::{Args, Arity, Category, CommandSpec, Flag, Group, KeySpec};

pub(super) const ROWS: &[Command] = &[GEOADD, GEODIST, GEOHASH, GEOPOS];

pub(super) const SINCE: Since = Since::redis(3, 2, 0);

/// Parses a longitude and a latitude.
pub(super) fn parse_point(args: &mut Args<'_>) -> Result<Point, CommandError> {
    let mut float = || parse_score(args.bytes()?, args.profile()).ok_or(CommandError::NOT_A_FLOAT);
    let point = Point { longitude: float()?, latitude: float()? };
    if point.is_on_map() {
        return Ok(point);
    }
    let Point { longitude, latitude } = point;
    Err(CommandError::new(format!("ERR invalid longitude,latitude pair {longitude:.6},{latitude:.6}")))
}

/// Parses a unit of length, and returns its number of meters.
pub(super) fn parse_unit(args: &mut Args<'_>) -> Result<f64, CommandError> {
    let units = [("M", 1.0), ("KM", 1000.0), ("FT", 0.3048), ("MI", 1609.34)];
    let unit = args.bytes()?;
    let known = units.iter().find(|(name, _)| unit.eq_ignore_ascii_case(name.as_bytes()));
    const UNKNOWN: CommandError = CommandError::fixed("ERR unsupported unit provided. please use M, KM, FT, MI");
    known.map(|(_, meters)| *meters).ok_or(UNKNOWN)
}

pub(super) fn distance_reply(distance: f64, profile: &Profile) -> Reply<'static> {
    if !profile.since_redis(7, 2) {
        return Reply::text(format!("{distance:.4}"));
    }
    // Later releases round to four decimals through an integer.
    let scaled = (distance * 10_000.0).round_ties_even() as i64;
    Reply::text(format!("{}.{:04}", scaled / 10_000, scaled % 10_000))
}

pub(super) fn point_reply(point: Point, profile: &Profile) -> Reply<'static> {
    let degrees = if profile.has(Since::redis(8, 0, 0)) { Reply::ShortDouble } else { Reply::LongDouble };
    Reply::Array(vec![degrees(point.longitude), degrees(point.latitude)])
}

/// The position of a member.
pub(super) fn position_of(set: &SortedSet, member: &[u8]) -> Option<Point> {
    set.score(member).map(Point::from_score)
}

const GEOADD: Command = Command::new(
    Handler::Keys(geoadd),
    CommandSpec {
        usage: "key [NX | XX] [CH] longitude latitude member [longitude latitude member ...]",
        summary: "Adds places to a sorted set, or moves them.",
        complexity: "O(log(N)) for each place, for N members of the set",
        group: Group::Geo,
        since: SINCE,
        arity: Arity::AtLeast(5),
        keys: &[KeySpec::one(1, &["RW", "update"])],
        flags: &[Flag::Write, Flag::DenyOom],
        categories: &[Category::Geo],
        ..CommandSpec::new("GEOADD")
    },
);

fn geoadd<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let key = args.key()?;
    let mut options = ZaddOptions::default();
    loop {
        let option = if args.take("NX") {
            &mut options.nx
        } else if args.take("XX") {
            &mut options.xx
        } else if args.take("CH") {
            &mut options.ch
        } else {
            break;
        };
        *option = true;
    }
    if args.is_empty() || !args.left().is_multiple_of(3) || (options.nx && options.xx) {
        return Err(CommandError::SYNTAX);
    }
    let mut members: SmallVec<[(f64, &[u8]); 4]> = SmallVec::with_capacity(args.left() / 3);
    while !args.is_empty() {
        let score = parse_point(args)?.score() as f64;
        members.push((score, args.bytes()?));
    }
    if view.is_replicated() {
        let scores: Vec<String> = members.iter().map(|(score, _)| format!("{score}")).collect();
        let flags = [(options.nx, "NX"), (options.xx, "XX"), (options.ch, "CH")];
        let mut words: Vec<&[u8]> = vec![b"zadd", key];
        words.extend(flags.iter().filter(|(is_set, _)| *is_set).map(|(_, name)| name.as_bytes()));
        words.extend(scores.iter().zip(&members).flat_map(|(score, (_, member))| [score.as_bytes(), member]));
        view.replicate_changes_as(&words);
    }
    add_members(view, key, &members, &options, args.profile())
}

const GEODIST: Command = Command::new(
    Handler::Keys(geodist),
    CommandSpec {
        usage: "key member1 member2 [M | KM | FT | MI]",
        summary: "Tells how far two places are from each other.",
        complexity: "O(1)",
        group: Group::Geo,
        since: SINCE,
        arity: Arity::AtLeast(4),
        keys: &[KeySpec::one(1, &["RO", "access"])],
        flags: &[Flag::ReadOnly],
        categories: &[Category::Geo],
        ..CommandSpec::new("GEODIST")
    },
);

fn geodist<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let (key, one, other) = (args.key()?, args.bytes()?, args.bytes()?);
    let unit = match args.left() {
        0 => 1.0,
        1 => parse_unit(args)?,
        _ => return Err(CommandError::SYNTAX),
    };
    let Some(set) = view.collection::<SortedSet>(key)? else { return Ok(Reply::Null) };
    let places = position_of(set, one).zip(position_of(set, other));
    Ok(places.map_or(Reply::Null, |(one, other)| distance_reply(one.distance(other) / unit, args.profile())))
}

const GEOHASH: Command = Command::new(
    Handler::Keys(geohash),
    CommandSpec {
        usage: "key member [member ...]",
        summary: "Tells where members are, as geohashes of eleven letters.",
        complexity: "O(N) for N members",
        group: Group::Geo,
        since: SINCE,
        arity: Arity::AtLeast(2),
        keys: &[KeySpec::one(1, &["RO", "access"])],
        flags: &[Flag::ReadOnly],
        categories: &[Category::Geo],
        ..CommandSpec::new("GEOHASH")
    },
);

fn geohash<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    reply_for_members(view, args, |place| place.map_or(Reply::Null, |place| Reply::bulk(standard_hash(place).to_vec())))
}

const GEOPOS: Command = Command::new(
    Handler::Keys(geopos),
    CommandSpec {
        usage: "key member [member ...]",
        summary: "Tells where members are, as longitudes and latitudes.",
        complexity: "O(N) for N members",
        group: Group::Geo,
        since: SINCE,
        arity: Arity::AtLeast(2),
        keys: &[KeySpec::one(1, &["RO", "access"])],
        flags: &[Flag::ReadOnly],
        categories: &[Category::Geo],
        ..CommandSpec::new("GEOPOS")
    },
);

fn geopos<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let profile = *args.profile();
    reply_for_members(view, args, |place| place.map_or(Reply::NullArray, |point| point_reply(point, &profile)))
}

/// Replies with one value for each member named.
fn reply_for_members<'v>(
    view: &'v mut View<'_>,
    args: &mut Args<'v>,
    reply: impl Fn(Option<Point>) -> Reply<'static>,
) -> CommandResult<'v> {
    let set = view.collection::<SortedSet>(args.key()?)?;
    let place = |member| position_of(set?, member);
    Ok(Reply::Array(args.rest().iter().map(|member| reply(place(member))).collect()))
}
