//! GEOSEARCH and GEORADIUS: the members of a geo set within an area.

use std::cmp::Ordering;
use std::sync::Arc;

use super::geo::{SINCE, distance_reply, parse_point, parse_unit, point_reply, position_of};
use super::partial_sort::partial_sort;
use super::sorted_set_bounds::parse_score;
use super::sorted_set_ranges::store;
use crate::base::error::CommandError;
use crate::base::profile::{Profile, Since};
use crate::commands::{Command, CommandResult, Handler};
use crate::data::geo::{Point, Polygon, Search, Shape};
use crate::data::keyspace::{SortedSet, View};
use crate::protocol::{Reply, parse_integer};
use crate::spec::{Args, Arity, Category, CommandSpec, Flag, Group, KeySpec};

pub(super) const ROWS: &[Command] =
    &[GEORADIUS, GEORADIUSBYMEMBER, GEORADIUSBYMEMBER_RO, GEORADIUS_RO, GEOSEARCH, GEOSEARCHSTORE];

const COMPLEXITY: &str = "O(N+log(M)) for N places near the area searched, of M in the set";
const RADIUS_FLAGS: &[Flag] = &[Flag::Write, Flag::DenyOom, Flag::MovableKeys];
/// Valkey 9 says that a request decides about these keys.
const STORES: &[(Since, &[&str])] = &[(Since::valkey(9, 0, 0), &["OW", "update", "variable_flags"])];
const READ: KeySpec = KeySpec::one(1, &["RO", "access"]);

const GEORADIUS: Command = Command::new(
    Handler::Keys(|view, args| georadius(view, args, true)),
    CommandSpec {
        usage: "key longitude latitude radius <M | KM | FT | MI> [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]] \
            [ASC | DESC] [STORE key] [STOREDIST key]",
        summary: "Finds what lies in a circle around a point.",
        complexity: COMPLEXITY,
        group: Group::Geo,
        since: SINCE,
        arity: Arity::AtLeast(6),
        keys: &[
            READ,
            KeySpec::after_keyword("STORE", 6, &["OW", "update"]).with_later_flags(STORES),
            KeySpec::after_keyword("STOREDIST", 6, &["OW", "update"]).with_later_flags(STORES),
        ],
        flags: RADIUS_FLAGS,
        categories: &[Category::Geo],
        deprecated: Some(("6.2.0", "`GEOSEARCH` and `GEOSEARCHSTORE` with the `BYRADIUS` argument")),
        ..CommandSpec::new("GEORADIUS")
    },
);

const GEORADIUS_RO: Command = Command::new(
    Handler::Keys(|view, args| georadius(view, args, false)),
    CommandSpec {
        usage: "key longitude latitude radius <M | KM | FT | MI> [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]] \
            [ASC | DESC]",
        summary: "Finds what lies in a circle around a point, and writes nothing.",
        since: Since::redis(3, 2, 10),
        keys: &[READ],
        flags: &[Flag::ReadOnly],
        deprecated: Some(("6.2.0", "`GEOSEARCH` with the `BYRADIUS` argument")),
        name: "GEORADIUS_RO",
        ..GEORADIUS.spec
    },
);

const GEORADIUSBYMEMBER: Command = Command::new(
    Handler::Keys(|view, args| georadiusbymember(view, args, true)),
    CommandSpec {
        usage: "key member radius <M | KM | FT | MI> [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]] [ASC | DESC] \
            [STORE key] [STOREDIST key]",
        summary: "Finds what lies in a circle around a member.",
        arity: Arity::AtLeast(5),
        keys: &[
            READ,
            KeySpec::after_keyword("STORE", 5, &["OW", "update"]).with_later_flags(STORES),
            KeySpec::after_keyword("STOREDIST", 5, &["OW", "update"]).with_later_flags(STORES),
        ],
        deprecated: Some(("6.2.0", "`GEOSEARCH` and `GEOSEARCHSTORE` with the `BYRADIUS` and `FROMMEMBER` arguments")),
        name: "GEORADIUSBYMEMBER",
        ..GEORADIUS.spec
    },
);

const GEORADIUSBYMEMBER_RO: Command = Command::new(
    Handler::Keys(|view, args| georadiusbymember(view, args, false)),
    CommandSpec {
        usage: "key member radius <M | KM | FT | MI> [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]] [ASC | DESC]",
        summary: "Finds what lies in a circle around a member, and writes nothing.",
        since: Since::redis(3, 2, 10),
        keys: &[READ],
        flags: &[Flag::ReadOnly],
        deprecated: Some(("6.2.0", "`GEOSEARCH` with the `BYRADIUS` and `FROMMEMBER` arguments")),
        name: "GEORADIUSBYMEMBER_RO",
        ..GEORADIUSBYMEMBER.spec
    },
);

const GEOSEARCH: Command = Command::new(
    Handler::Keys(geosearch),
    CommandSpec {
        usage: "key <FROMMEMBER member | FROMLONLAT longitude latitude> <BYRADIUS radius <M | KM | FT | MI> | BYBOX width \
            height <M | KM | FT | MI>> [ASC | DESC] [COUNT count [ANY]] [WITHCOORD] [WITHDIST] [WITHHASH]",
        later_usages: &[(
            BY_POLYGON,
            "key [FROMMEMBER member | FROMLONLAT longitude latitude] <BYRADIUS radius <M | KM | FT | MI> | BYBOX width \
             height <M | KM | FT | MI> | BYPOLYGON num-vertices longitude latitude [longitude latitude ...]> [ASC | DESC] \
             [COUNT count [ANY]] [WITHCOORD] [WITHDIST] [WITHHASH]",
        )],
        summary: "Finds what lies in a circle or in a box.",
        since: Since::redis(6, 2, 0),
        arity: Arity::AtLeast(7),
        keys: &[READ],
        flags: &[Flag::ReadOnly],
        deprecated: None,
        name: "GEOSEARCH",
        ..GEORADIUS.spec
    },
);

const GEOSEARCHSTORE: Command = Command::new(
    Handler::Keys(geosearchstore),
    CommandSpec {
        usage: "destination source <FROMMEMBER member | FROMLONLAT longitude latitude> <BYRADIUS radius <M | KM | FT | MI> \
            | BYBOX width height <M | KM | FT | MI>> [ASC | DESC] [COUNT count [ANY]] [STOREDIST]",
        later_usages: &[(
            BY_POLYGON,
            "destination source [FROMMEMBER member | FROMLONLAT longitude latitude] <BYRADIUS radius <M | KM | FT | MI> | \
             BYBOX width height <M | KM | FT | MI> | BYPOLYGON num-vertices longitude latitude [longitude latitude ...]> \
             [ASC | DESC] [COUNT count [ANY]] [STOREDIST]",
        )],
        summary: "Finds what lies in a circle or in a box, and keeps it under another key.",
        arity: Arity::AtLeast(8),
        keys: &[KeySpec::one(1, &["OW", "update"]), KeySpec::one(2, &["RO", "access"])],
        flags: &[Flag::Write, Flag::DenyOom],
        name: "GEOSEARCHSTORE",
        ..GEOSEARCH.spec
    },
);

const BY_POLYGON: Since = Since::valkey(9, 0, 0);

/// The options that a command has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CommandForm {
    /// GEORADIUS and GEORADIUSBYMEMBER. `stores` is false for their read-only forms.
    Radius {
        stores: bool,
    },
    Search,
    SearchStore,
}

#[derive(Clone, Copy)]
enum Sort {
    Nearest,
    Farthest,
}

struct Query<'a> {
    center: Option<Point>,
    /// The center is a member, and has a position only if the key exists.
    from_member: bool,
    shape: Option<(Shape, f64)>,
    with_distance: bool,
    with_hash: bool,
    with_point: bool,
    sort: Option<Sort>,
    count: Option<usize>,
    /// The option ANY: any `count` members, not the nearest.
    any: bool,
    /// The key to store the result under.
    store: Option<&'a [u8]>,
    store_distance: bool,
}

/// The first Valkey that names the member that is not there.
const NAMES_MEMBER: Since = Since::valkey(9, 0, 0);

/// The error for a center that is not in the set. Valkey prints the member as a C string, which ends at a zero byte.
#[cold]
fn no_such_member(profile: &Profile, member: &[u8]) -> CommandError {
    if !profile.has(NAMES_MEMBER) {
        return CommandError::fixed("ERR could not decode requested zset member");
    }
    let shown = member.split(|&byte| byte == 0).next().unwrap_or_default();
    CommandError::new([b"ERR member ", shown, b" does not exist"].concat())
}

fn georadius<'v>(view: &'v mut View<'_>, args: &mut Args<'v>, stores: bool) -> CommandResult<'v> {
    let key = args.key()?;
    let set = view.collection::<SortedSet>(key)?;
    let mut query = Query::new();
    query.center = Some(parse_point(args)?);
    query.shape = Some(parse_circle(args)?);
    query.parse_options(args, set, CommandForm::Radius { stores })?;
    query.run(view, key, args.profile(), "georadiusstore")
}

fn georadiusbymember<'v>(view: &'v mut View<'_>, args: &mut Args<'v>, stores: bool) -> CommandResult<'v> {
    let (key, member) = (args.key()?, args.bytes()?);
    let set = view.collection::<SortedSet>(key)?;
    let mut query = Query::new();
    query.from_member = true;
    if let Some(set) = set {
        query.center = Some(position_of(set, member).ok_or_else(|| no_such_member(args.profile(), member))?);
        query.shape = Some(parse_circle(args)?);
    } else {
        // Radius and unit are not checked when the key is absent.
        args.bytes()?;
        args.bytes()?;
    }
    query.parse_options(args, set, CommandForm::Radius { stores })?;
    query.run(view, key, args.profile(), "georadiusstore")
}

fn geosearch<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let key = args.key()?;
    let mut query = Query::new();
    query.parse_options(args, view.collection(key)?, CommandForm::Search)?;
    query.run(view, key, args.profile(), "")
}

fn geosearchstore<'v>(view: &'v mut View<'_>, args: &mut Args<'v>) -> CommandResult<'v> {
    let (destination, key) = (args.key()?, args.key()?);
    let mut query = Query::new();
    query.store = Some(destination);
    query.parse_options(args, view.collection(key)?, CommandForm::SearchStore)?;
    query.run(view, key, args.profile(), "geosearchstore")
}

fn parse_length(args: &mut Args<'_>, not_numeric: &'static str) -> Result<f64, CommandError> {
    parse_score(args.bytes()?, args.profile()).ok_or(CommandError::fixed(not_numeric))
}

fn parse_circle(args: &mut Args<'_>) -> Result<(Shape, f64), CommandError> {
    let radius = parse_length(args, "ERR need numeric radius")?;
    if radius < 0.0 {
        return Err(CommandError::fixed("ERR radius cannot be negative"));
    }
    Ok((Shape::Circle { radius }, parse_unit(args)?))
}

fn parse_box(args: &mut Args<'_>) -> Result<(Shape, f64), CommandError> {
    let width = parse_length(args, "ERR need numeric width")?;
    let height = parse_length(args, "ERR need numeric height")?;
    if width < 0.0 || height < 0.0 {
        return Err(CommandError::fixed("ERR height or width cannot be negative"));
    }
    Ok((Shape::Box { width, height }, parse_unit(args)?))
}

fn parse_polygon(args: &mut Args<'_>) -> Result<Polygon, CommandError> {
    let count = parse_integer(args.bytes()?).and_then(|count| i32::try_from(count).ok());
    let count = count.ok_or(CommandError::fixed("ERR invalid number of vertices"))?;
    let count = usize::try_from(count).ok().filter(|count| (3..=args.left() / 2).contains(count));
    let count = count.ok_or(CommandError::fixed("ERR GEOSEARCH BYPOLYGON must have at least 3 vertices"))?;
    Ok(Polygon::new((0..count).map(|_| parse_point(args)).collect::<Result<_, _>>()?))
}

struct FoundMember<'s> {
    member: &'s [u8],
    score: f64,
    point: Point,
    /// In meters.
    distance: f64,
}

impl<'a> Query<'a> {
    fn new() -> Self {
        Self {
            center: None,
            from_member: false,
            shape: None,
            with_distance: false,
            with_hash: false,
            with_point: false,
            sort: None,
            count: None,
            any: false,
            store: None,
            store_distance: false,
        }
    }

    fn parse_options(
        &mut self,
        args: &mut Args<'a>,
        set: Option<&SortedSet>,
        form: CommandForm,
    ) -> Result<(), CommandError> {
        while !args.is_empty() {
            self.parse_option(args, set, form)?;
        }
        let name = String::from_utf8_lossy(args.words().get(0).unwrap_or_default());
        if self.store.is_some() && (self.with_distance || self.with_hash || self.with_point) {
            let which = if form == CommandForm::SearchStore { "GEOSEARCHSTORE" } else { "STORE option in GEORADIUS" };
            let after = "is not compatible with WITHDIST, WITHHASH and WITHCOORD options";
            return Err(CommandError::new(format!("ERR {which} {after}")));
        }
        if !matches!(form, CommandForm::Radius { .. }) {
            if !self.from_member && self.center.is_none() {
                let before = "ERR exactly one of FROMMEMBER or FROMLONLAT can be specified for";
                return Err(CommandError::new(format!("{before} {name}")));
            }
            if self.shape.is_none() {
                let shapes =
                    if args.profile().has(BY_POLYGON) { "BYRADIUS, BYBOX and BYPOLYGON" } else { "BYRADIUS and BYBOX" };
                let before = format!("ERR exactly one of {shapes} can be specified for");
                return Err(CommandError::new(format!("{before} {name}")));
            }
        }
        if self.any && self.count.is_none() {
            return Err(CommandError::fixed("ERR the ANY argument requires COUNT argument"));
        }
        Ok(())
    }

    fn parse_option(
        &mut self,
        args: &mut Args<'a>,
        set: Option<&SortedSet>,
        form: CommandForm,
    ) -> Result<(), CommandError> {
        let search = !matches!(form, CommandForm::Radius { .. });
        let behind = args.left() - 1;
        let polygon = matches!(self.shape, Some((Shape::Polygon(_), _)));
        if args.take("WITHDIST") {
            self.with_distance = true;
        } else if args.take("WITHHASH") {
            self.with_hash = true;
        } else if args.take("WITHCOORD") {
            self.with_point = true;
        } else if args.take("ANY") {
            self.any = true;
        } else if args.take("ASC") {
            self.sort = Some(Sort::Nearest);
        } else if args.take("DESC") {
            self.sort = Some(Sort::Farthest);
        } else if behind >= 1 && args.take("COUNT") {
            let count = args.integer()?;
            if count <= 0 {
                return Err(CommandError::fixed("ERR COUNT must be > 0"));
            }
            self.count = Some(usize::try_from(count).unwrap_or(usize::MAX));
        } else if behind >= 1 && form == (CommandForm::Radius { stores: true }) && args.take("STORE") {
            self.store = Some(args.key()?);
            self.store_distance = false;
        } else if behind >= 1 && form == (CommandForm::Radius { stores: true }) && args.take("STOREDIST") {
            self.store = Some(args.key()?);
            self.store_distance = true;
        } else if behind >= 1
            && search
            && !polygon
            && (self.from_member || self.center.is_none())
            && args.take("FROMMEMBER")
        {
            let member = args.bytes()?;
            if let Some(set) = set {
                self.center = Some(position_of(set, member).ok_or_else(|| no_such_member(args.profile(), member))?);
            }
            self.from_member = true;
        } else if behind >= 2 && search && !polygon && !self.from_member && args.take("FROMLONLAT") {
            self.center = Some(parse_point(args)?);
        } else if behind >= 2
            && search
            && !polygon
            && !matches!(self.shape, Some((Shape::Box { .. }, _)))
            && args.take("BYRADIUS")
        {
            self.shape = Some(parse_circle(args)?);
        } else if behind >= 3
            && search
            && !polygon
            && !matches!(self.shape, Some((Shape::Circle { .. }, _)))
            && args.take("BYBOX")
        {
            self.shape = Some(parse_box(args)?);
        } else if behind >= 2
            && search
            && args.profile().has(BY_POLYGON)
            && self.shape.is_none()
            && self.center.is_none()
            && !self.from_member
            && args.take("BYPOLYGON")
        {
            let polygon = parse_polygon(args)?;
            self.center = Some(polygon.center());
            self.shape = Some((Shape::Polygon(Arc::new(polygon)), 1.0));
        } else if form == CommandForm::SearchStore && args.take("STOREDIST") {
            self.store_distance = true;
        } else {
            return Err(CommandError::SYNTAX);
        }
        Ok(())
    }

    /// Runs the search, and replies with the members or stores them and replies with their number.
    fn run<'v>(
        &self,
        view: &'v mut View<'_>,
        key: &[u8],
        profile: &Profile,
        stored: &'static str,
    ) -> CommandResult<'v> {
        let Some(destination) = self.store else {
            // The access was counted when the options were parsed.
            let set = view.collection_to_write::<SortedSet>(key)?;
            return Ok(Reply::Array(self.find(set).iter().map(|found| self.reply(found, profile)).collect()));
        };
        let limits = view.settings().sorted_set_limits(profile);
        let set = view.collection_to_write::<SortedSet>(key)?;
        let unit = self.unit();
        let mut result = SortedSet::new(false);
        for found in self.find(set) {
            let score = if self.store_distance { found.distance / unit } else { found.score };
            result.insert(found.member, score, &limits);
        }
        result.pack(&limits);
        view.count_more_changes(result.len().saturating_sub(1));
        Ok(store(view, destination, result, stored))
    }

    fn reply<'s>(&self, found: &FoundMember<'s>, profile: &Profile) -> Reply<'s> {
        let member = Reply::bulk(found.member);
        if !(self.with_distance || self.with_hash || self.with_point) {
            return member;
        }
        let mut items = vec![member];
        if self.with_distance {
            let unit = self.unit();
            items.push(distance_reply(found.distance / unit, profile));
        }
        if self.with_hash {
            items.push(Reply::Integer(found.score as i64));
        }
        if self.with_point {
            items.push(point_reply(found.point, profile));
        }
        Reply::Array(items)
    }

    /// Meters in the unit of the distances.
    fn unit(&self) -> f64 {
        self.shape.as_ref().map_or(1.0, |(_, unit)| *unit)
    }

    /// The members found, in the order of the reply.
    fn find<'s>(&self, set: Option<&'s SortedSet>) -> Vec<FoundMember<'s>> {
        let (Some(set), Some(center), Some((shape, unit))) = (set, self.center, self.shape.clone()) else {
            return Vec::new();
        };
        let most = self.count.unwrap_or(usize::MAX);
        let mut found = search_set(set, &Search { center, shape, unit }, if self.any { most } else { usize::MAX });
        // COUNT without ANY means the nearest members.
        let sort = self.sort.or(if self.count.is_some() && !self.any { Some(Sort::Nearest) } else { None });
        if let Some(sort) = sort {
            let compare = |one: &FoundMember<'_>, other: &FoundMember<'_>| match sort {
                Sort::Nearest => one.distance.total_cmp(&other.distance),
                Sort::Farthest => other.distance.total_cmp(&one.distance),
            };
            sort_found(&mut found, most, &compare);
        }
        found.truncate(most);
        found
    }
}

/// Sorts the members that the reply will contain.
fn sort_found<'s>(
    found: &mut [FoundMember<'s>],
    most: usize,
    compare: &impl Fn(&FoundMember<'s>, &FoundMember<'s>) -> Ordering,
) {
    if most < found.len() {
        partial_sort(found, most, compare);
    } else {
        found.sort_by(compare);
    }
}

/// Finds at most `most` members in the areas of a search.
fn search_set<'s>(set: &'s SortedSet, search: &Search, most: usize) -> Vec<FoundMember<'s>> {
    let mut found = Vec::new();
    for scores in search.areas() {
        let first = set.rank_of_score(|score| score < scores.start);
        for scored in set.range(first..set.len(), false).take_while(|scored| scored.score() < scores.end) {
            let (member, score) = (scored.member(), scored.score());
            let point = Point::from_score(score);
            let Some(distance) = search.distance_within(point) else { continue };
            found.push(FoundMember { member, score, point, distance });
            if found.len() >= most {
                return found;
            }
        }
    }
    found
}
