//! Sorted sets: members with scores, ordered by score and then by member.

mod large;

use std::ops::Range;

use super::block::{Block, block_type};
use super::compact::{self, MOST_BYTES, MOST_COMPARED, SORTED_SET};
use crate::data::listpack::Element;
use large::Large;

/// A member with its score.
#[derive(Clone, Copy)]
pub struct Scored<'s> {
    member: &'s [u8],
    score: f64,
}

impl<'s> Scored<'s> {
    #[inline]
    pub fn member(self) -> &'s [u8] {
        self.member
    }

    #[inline]
    pub fn score(self) -> f64 {
        self.score
    }

    fn is_before(self, score: f64, member: &[u8]) -> bool {
        self.score < score || (self.score == score && self.member < member)
    }
}

/// The limits at which a sorted set changes its encoding.
#[derive(Clone, Copy, Debug)]
pub struct SortedSetLimits {
    /// The most members of a listpack.
    pub packed: usize,
    /// The longest member in a listpack.
    pub longest: usize,
    /// Whether a command with many members converts the set before it writes them.
    pub converts_upfront: bool,
}

block_type! {
    /// A sorted set: in one allocation while it is short and in the listpack encoding. No score is NaN.
    #[derive(Clone)]
    SortedSet(Large)
}

/// The index of a member; valid until the set changes.
#[derive(Clone, Copy)]
pub struct MemberSlot(usize);

/// Where the members begin, behind the type and their number.
const START: usize = 2;

/// The score as the encoding stores it: a listpack stores integers where it can, and so no negative zero.
fn kept_score(score: f64, packed: bool) -> f64 {
    if packed && score == 0.0 { 0.0 } else { score }
}

/// The text of a small sorted set: the type, the number of members, and each with its score, in order.
#[derive(Clone, Copy)]
struct Small<'s> {
    text: &'s [u8],
}

impl<'s> Small<'s> {
    fn len(self) -> usize {
        usize::from(self.text[1])
    }

    #[inline]
    fn iter(self) -> Few<'s> {
        Few { rest: &self.text[START..], left: self.len() }
    }

    /// The members with their places.
    fn places(self) -> impl Iterator<Item = (Scored<'s>, Range<usize>)> {
        let mut members = self.iter();
        let mut end = START;
        std::iter::from_fn(move || {
            let scored = members.next()?;
            let start = end;
            end = self.text.len() - members.rest.len();
            Some((scored, start..end))
        })
    }

    /// The rank of a member.
    #[inline]
    fn find(self, member: &[u8]) -> Option<usize> {
        if member.len() > MOST_BYTES {
            return None;
        }
        Some(compact::find(&self.text[START..], Element::String(member), 2)?.0)
    }

    /// The member of a rank, and its place.
    #[inline]
    fn at(self, rank: usize) -> Option<(Scored<'s>, Range<usize>)> {
        let left = self.len().checked_sub(rank)?;
        let start = START + compact::size_of(&self.text[START..], 2 * rank);
        let mut members = Few { rest: self.text.get(start..)?, left };
        let scored = members.next()?;
        Some((scored, start..self.text.len() - members.rest.len()))
    }

    /// Where a member with a score belongs.
    fn place_of(self, score: f64, member: &[u8]) -> usize {
        let behind = self.places().find(|(other, _)| !other.is_before(score, member));
        behind.map_or(self.text.len(), |(_, place)| place.start)
    }
}

/// Members of a small sorted set, in order.
#[derive(Clone)]
struct Few<'s> {
    rest: &'s [u8],
    left: usize,
}

impl<'s> Iterator for Few<'s> {
    type Item = Scored<'s>;

    #[inline]
    fn next(&mut self) -> Option<Scored<'s>> {
        self.left = self.left.checked_sub(1)?;
        let (Element::String(member), size) = compact::first(self.rest)? else { return None };
        let (score, score_size) = compact::first(&self.rest[size..])?;
        self.rest = &self.rest[size + score_size..];
        let score = match score {
            Element::Integer(score) => score as f64,
            Element::String(score) => f64::from_le_bytes(score.try_into().ok()?),
        };
        Some(Scored { member, score })
    }
}

impl From<Large> for SortedSet {
    fn from(large: Large) -> Self {
        Self(Block::large(large))
    }
}

impl Default for SortedSet {
    fn default() -> Self {
        Self::new(true)
    }
}

impl SortedSet {
    /// An empty set; `packed` selects the listpack encoding.
    pub fn new(packed: bool) -> Self {
        if packed { Self(Block::keyless(&[SORTED_SET, 0])) } else { Large::new(false).into() }
    }

    /// An empty set for `count` members, of which this is the first. Some servers look only at the first member.
    pub fn for_member(first: &[u8], count: usize, limits: &SortedSetLimits) -> Self {
        let count = if limits.converts_upfront { count } else { 1 };
        Self::new(count <= limits.packed && first.len() <= limits.longest)
    }

    /// Prepares for `count` members: more than a small set can have are not added to one first.
    pub fn expect(&mut self, count: usize, limits: &SortedSetLimits) {
        if count > MOST_COMPARED {
            self.enlarge();
        }
        if limits.converts_upfront && count > limits.packed {
            self.spread();
        }
    }

    #[inline]
    fn small(&self) -> Option<Small<'_>> {
        if self.0.is_boxed() { None } else { Some(Small { text: self.0.text() }) }
    }

    /// Either form.
    #[inline]
    fn form(&self) -> Result<Small<'_>, &Large> {
        match self.0.value() {
            Some(large) => Err(large),
            None => Ok(Small { text: self.0.text() }),
        }
    }

    /// The large form, for what the small one cannot do.
    fn enlarge(&mut self) -> &mut Large {
        if let Some(small) = self.small() {
            let limits = SortedSetLimits { packed: usize::MAX, longest: usize::MAX, converts_upfront: false };
            let mut large = Large::new(true);
            small.iter().for_each(|scored| large.insert(scored.member, scored.score, &limits));
            *self = large.into();
        }
        match self.0.value_mut() {
            Some(large) => large,
            None => unreachable!("it has just been enlarged"),
        }
    }

    pub fn len(&self) -> usize {
        self.form().map_or_else(Large::len, Small::len)
    }

    /// The name of the encoding, as in OBJECT ENCODING.
    pub fn encoding(&self) -> &'static str {
        if self.is_packed() { "listpack" } else { "skiplist" }
    }

    pub fn is_packed(&self) -> bool {
        self.form().map_or_else(Large::is_packed, |_| true)
    }

    /// Converts to the skiplist encoding.
    pub fn spread(&mut self) {
        self.enlarge().spread();
    }

    /// Converts to the listpack encoding if the set is small enough. Redis does this after it has built a whole set.
    pub fn pack(&mut self, limits: &SortedSetLimits) {
        let large = self.enlarge();
        large.pack(limits);
        if large.is_packed() && large.len() <= MOST_COMPARED {
            let mut small = Self::new(true);
            if large.iter().all(|scored| small.put_small(small.0.text().len(), scored.member, scored.score)) {
                *self = small;
            }
        }
    }

    /// Adds a member to a small set at a place. `false` if there is no room; then nothing has changed.
    fn put_small(&mut self, at: usize, member: &[u8], score: f64) -> bool {
        if member.len() > MOST_BYTES {
            return false;
        }
        let mut code = compact::code_of(Element::String(member));
        let integer = score as i64;
        // So many integers are different as floats.
        if integer.unsigned_abs() <= 1 << 53 && integer as f64 == score {
            code.extend_from_slice(&compact::code_of(Element::Integer(integer)));
        } else {
            code.extend_from_slice(&compact::code_of(Element::String(&score.to_le_bytes())));
        }
        let text = self.0.text();
        let count = usize::from(text[1]) + 1;
        if count > MOST_COMPARED || text.len() + code.len() > MOST_BYTES || !self.0.splice(at..at, &code) {
            return false;
        }
        self.0.set_byte(1, count as u8);
        true
    }

    /// Removes a member of a small set.
    fn cut_small(&mut self, place: Range<usize>) {
        let count = self.0.text()[1].saturating_sub(1);
        if self.0.splice(place, b"") {
            self.0.set_byte(1, count);
        }
    }

    /// The memory outside itself, in bytes.
    pub fn size(&self) -> usize {
        self.0.size() + self.0.value().map_or(0, Large::size)
    }

    pub fn find(&self, member: &[u8]) -> Option<MemberSlot> {
        match self.form() {
            Ok(small) => small.find(member).map(MemberSlot),
            Err(large) => large.find(member),
        }
    }

    /// The score of a member.
    pub fn score_at(&self, slot: MemberSlot) -> f64 {
        match self.form() {
            Ok(small) => small.at(slot.0).map_or(f64::NAN, |(scored, _)| scored.score),
            Err(large) => large.score_at(slot),
        }
    }

    /// The rank of a member.
    pub fn rank_at(&self, slot: MemberSlot) -> usize {
        self.form().map_or_else(|large| large.rank_at(slot), |_| slot.0)
    }

    pub fn score(&self, member: &[u8]) -> Option<f64> {
        Some(self.score_at(self.find(member)?))
    }

    /// Sets the score of a member, which is added if it is new. Returns the old score.
    pub fn put(&mut self, member: &[u8], score: f64, limits: &SortedSetLimits) -> Option<f64> {
        let Some(place) = self.find(member) else {
            self.insert(member, score, limits);
            return None;
        };
        let old = self.score_at(place);
        if old != score {
            self.rescore(place, score);
        }
        Some(old)
    }

    /// Adds a new member.
    pub fn insert(&mut self, member: &[u8], score: f64, limits: &SortedSetLimits) {
        if let Some(small) = self.small()
            && small.len() < limits.packed
            && member.len() <= limits.longest
        {
            let score = kept_score(score, true);
            let at = small.place_of(score, member);
            if self.put_small(at, member, score) {
                return;
            }
        }
        self.enlarge().insert(member, score, limits);
    }

    /// Changes the score of an existing member.
    pub fn rescore(&mut self, slot: MemberSlot, score: f64) {
        let found = self.small().and_then(|small| small.at(slot.0));
        let Some((scored, place)) = found.map(|(scored, place)| (scored.member.to_vec(), place)) else {
            return self.enlarge().rescore(slot, score);
        };
        self.cut_small(place.clone());
        let score = kept_score(score, true);
        let at = self.small().map_or(START, |small| small.place_of(score, &scored));
        if !self.put_small(at, &scored, score) {
            // A longer score has no room.
            let limits = SortedSetLimits { packed: usize::MAX, longest: usize::MAX, converts_upfront: false };
            self.enlarge().insert(&scored, score, &limits);
        }
    }

    /// Removes a member. Returns its score.
    pub fn remove(&mut self, member: &[u8]) -> Option<f64> {
        let Some(small) = self.small() else { return self.enlarge().remove(member) };
        let (scored, place) = small.at(small.find(member)?)?;
        let score = scored.score;
        self.cut_small(place);
        Some(score)
    }

    /// Removes the member of this rank, and returns it with its score.
    pub fn take(&mut self, rank: usize) -> Option<(Vec<u8>, f64)> {
        let Some(small) = self.small() else { return self.enlarge().take(rank) };
        let (scored, place) = small.at(rank)?;
        let taken = (scored.member.to_vec(), scored.score);
        self.cut_small(place);
        Some(taken)
    }

    /// The member of this rank.
    pub fn get(&self, rank: usize) -> Option<Scored<'_>> {
        match self.form() {
            Ok(small) => Some(small.at(rank)?.0),
            Err(large) => large.get(rank),
        }
    }

    /// Prepares for a step of [`walk`](Self::walk).
    pub fn prepare_walk(&mut self, count: usize) {
        if let Some(large) = self.0.value_mut() {
            large.prepare_walk(count);
        }
    }

    /// One step of an iteration over the members, as in `Indexed::walk`. A small set is returned in one step.
    pub fn walk(&self, left: u64, count: usize) -> (u64, impl Iterator<Item = Scored<'_>>) {
        let (left, small, members) = match self.form() {
            Ok(small) => (0, Some(small.iter()), None),
            Err(large) => {
                let (left, members) = large.walk(left, count);
                (left, None, Some(members))
            }
        };
        (left, small.into_iter().flatten().chain(members.into_iter().flatten()))
    }

    /// The number of members whose score satisfies `before`, which must hold for all scores below one that satisfies
    /// it.
    pub fn rank_of_score(&self, before: impl Fn(f64) -> bool) -> usize {
        match self.form() {
            Ok(small) => small.iter().take_while(|scored| before(scored.score)).count(),
            Err(large) => large.rank_of_score(before),
        }
    }

    /// The number of members that satisfy `before`. Meaningful only if all scores are equal.
    pub fn rank_of_member(&self, before: impl Fn(&[u8]) -> bool) -> usize {
        match self.form() {
            Ok(small) => small.iter().take_while(|scored| before(scored.member)).count(),
            Err(large) => large.rank_of_member(before),
        }
    }

    /// The members in order.
    pub fn iter(&self) -> Members<'_> {
        self.range(0..self.len(), false)
    }

    /// The members of these ranks, in order or in reverse.
    pub fn range(&self, ranks: Range<usize>, backwards: bool) -> Members<'_> {
        match self.form() {
            Err(large) => Members(Walk::Large(large.range(ranks, backwards))),
            Ok(small) => {
                let end = ranks.end.min(small.len());
                let count = end.saturating_sub(ranks.start);
                let mut members = small.iter();
                members.by_ref().take(end - count).for_each(drop);
                members.left = count;
                Members(if backwards {
                    Walk::Backwards(members.collect::<Vec<_>>().into_iter())
                } else {
                    Walk::Small(members)
                })
            }
        }
    }
}

/// Iterates over members.
#[derive(Clone)]
pub struct Members<'s>(Walk<'s>);

#[derive(Clone)]
enum Walk<'s> {
    Small(Few<'s>),
    Backwards(std::vec::IntoIter<Scored<'s>>),
    Large(large::Members<'s>),
}

impl<'s> Iterator for Members<'s> {
    type Item = Scored<'s>;

    #[inline]
    fn next(&mut self) -> Option<Scored<'s>> {
        match &mut self.0 {
            Walk::Small(members) => members.next(),
            Walk::Backwards(members) => members.next_back(),
            Walk::Large(members) => members.next(),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match &self.0 {
            Walk::Small(members) => (members.left, Some(members.left)),
            Walk::Backwards(members) => members.size_hint(),
            Walk::Large(members) => members.size_hint(),
        }
    }
}

impl ExactSizeIterator for Members<'_> {}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;

    const LIMITS: SortedSetLimits = SortedSetLimits { packed: 4, longest: 4, converts_upfront: false };

    #[test]
    fn a_set_leaves_the_list_when_there_are_too_many_or_one_is_too_long() {
        let mut set = SortedSet::for_member(b"a", 9, &LIMITS);
        for member in [b"a", b"b", b"c", b"d", b"d"] {
            set.put(member, 1.0, &LIMITS);
        }
        assert_eq!(set.encoding(), "listpack");
        set.put(b"e", 1.0, &LIMITS);
        assert_eq!(set.encoding(), "skiplist");
        set.remove(b"e");
        assert_eq!(set.encoding(), "skiplist");
        set.pack(&LIMITS);
        assert_eq!(set.encoding(), "listpack");
        set.put(b"a", 2.0, &LIMITS);
        set.remove(b"a");
        set.put(b"aaaaa", 2.0, &LIMITS);
        assert_eq!(set.encoding(), "skiplist");
        assert_eq!(SortedSet::for_member(b"aaaaa", 1, &LIMITS).encoding(), "skiplist");
        assert_eq!(
            SortedSet::for_member(b"a", 9, &SortedSetLimits { converts_upfront: true, ..LIMITS }).encoding(),
            "skiplist"
        );
    }

    #[test]
    fn a_copy_takes_as_much_memory_as_what_it_is_a_copy_of() {
        for count in [1, 100, 200] {
            let mut set = SortedSet::default();
            for number in 0..count {
                set.put(&[b'm'; 100][..30 + number % 70], number as f64, &LIMITS);
                set.put(format!("a member of some length {number}").as_bytes(), 1.0, &LIMITS);
            }
            let mut copy = set.clone();
            assert!(copy.size() <= set.size());
            while copy.take(0).is_some() {}
            assert!(copy.size() < 2000, "{} bytes of nothing", copy.size());
        }
    }

    #[test]
    fn a_list_has_no_negative_zero() {
        let sign = |set: &SortedSet| set.score(b"a").map(f64::is_sign_negative);
        let mut set = SortedSet::new(true);
        set.put(b"a", -0.0, &LIMITS);
        assert_eq!(sign(&set), Some(false));
        let mut set = SortedSet::new(false);
        set.put(b"b", -1.0, &LIMITS);
        set.put(b"a", -0.0, &LIMITS);
        assert_eq!(sign(&set), Some(true));
        set.pack(&LIMITS);
        assert_eq!(sign(&set), Some(false));
    }

    #[test]
    fn a_walk_meets_everybody_who_stays_once_whatever_comes_and_goes_meanwhile() {
        let mut set = SortedSet::new(false);
        let name = |number: u32| format!("m{number}").into_bytes();
        for number in 0..2000 {
            set.put(&name(number), f64::from(number % 7), &LIMITS);
        }
        let mut seen: BTreeMap<Vec<u8>, u32> = BTreeMap::new();
        let (mut left, mut step) = (0, 0);
        loop {
            set.prepare_walk(50);
            let (next, members) = set.walk(left, 50);
            members.for_each(|scored| *seen.entry(scored.member().to_vec()).or_default() += 1);
            // Of the first 2,000 members every tenth stays. Others are added, and some of these removed.
            for number in (step * 120..(step + 1) * 120).filter(|number| number % 10 != 0) {
                set.remove(&name(1999_u32.saturating_sub(number)));
                set.put(&name(10_000 + number % 700), 1.0, &LIMITS);
                set.remove(&name(10_000 + (number + 350) % 700));
            }
            (left, step) = (next, step + 1);
            if left == 0 {
                break;
            }
        }
        let stays = (0..2000).filter(|number| (1999 - number) % 10 == 0).map(name);
        assert!(step > 10);
        assert_eq!(stays.filter(|member| seen.get(member) != Some(&1)).count(), 0);
        assert!(set.size() < 200_000, "{} bytes for {} members", set.size(), set.len());
    }

    /// A score as an integer with the same order.
    fn key(score: f64) -> i64 {
        score as i64
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn members_stand_in_the_order_of_their_scores(
            steps in prop::collection::vec((0..600u32, -3..40i32, 0..10u8), 0..3000),
            rare in 1..4u8,
        ) {
            let mut set = SortedSet::default();
            let mut scores: BTreeMap<Vec<u8>, i64> = BTreeMap::new();
            let mut order: BTreeSet<(i64, Vec<u8>)> = BTreeSet::new();
            for (number, score, action) in steps {
                let member = format!("m{}{number}", ["", "-of-a-great-length"][number as usize % 2]).into_bytes();
                let old = scores.get(&member).copied();
                prop_assert_eq!(set.score(&member).map(key), old);
                if action < rare {
                    prop_assert_eq!(set.remove(&member).map(key), old);
                    if let Some(old) = scores.remove(&member) {
                        order.remove(&(old, member));
                    }
                } else if action == 9 && !order.is_empty() {
                    let rank = number as usize % order.len();
                    let expected = order.iter().nth(rank).cloned().unwrap();
                    let taken = set.take(rank).unwrap();
                    prop_assert_eq!((key(taken.1), taken.0), expected.clone());
                    scores.remove(&expected.1);
                    order.remove(&expected);
                } else {
                    prop_assert_eq!(set.put(&member, f64::from(score), &LIMITS).map(key), old);
                    if let Some(old) = scores.insert(member.clone(), i64::from(score)) {
                        order.remove(&(old, member.clone()));
                    }
                    order.insert((i64::from(score), member));
                }
                prop_assert_eq!(set.len(), order.len());
            }
            let listed: Vec<_> = set.iter().map(|scored| (key(scored.score()), scored.member().to_vec())).collect();
            prop_assert!(listed.iter().eq(order.iter()));
            for (rank, (score, member)) in order.iter().enumerate() {
                prop_assert_eq!(set.find(member).map(|place| set.rank_at(place)), Some(rank));
                prop_assert_eq!(set.get(rank).map(Scored::member), Some(&**member));
                let least = set.rank_of_score(|other| other < *score as f64);
                prop_assert_eq!(least, order.iter().filter(|other| other.0 < *score).count());
            }
            let (from, to) = (order.len() / 4, order.len() / 2);
            let backwards: Vec<_> = set.range(from..to, true).map(|scored| scored.member().to_vec()).collect();
            let expected: Vec<_> = order.iter().skip(from).take(to - from).rev().map(|row| row.1.clone()).collect();
            prop_assert_eq!(backwards, expected);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        /// Removed members leave holes, which others fill or which are closed.
        #[test]
        fn a_set_that_grows_and_shrinks_keeps_its_members_and_little_more_memory(
            phases in prop::collection::vec((any::<bool>(), 1..2000u32, any::<u32>()), 1..8),
        ) {
            let mut set = SortedSet::new(false);
            let mut model: BTreeMap<Vec<u8>, i64> = BTreeMap::new();
            for (grows, count, seed) in phases {
                for step in 0..count {
                    let number = step.wrapping_add(seed).wrapping_mul(2_654_435_761) % 4001;
                    let member = format!("member-{number}").into_bytes();
                    if grows {
                        let score = i64::from(number % 50);
                        set.put(&member, score as f64, &LIMITS);
                        model.insert(member, score);
                    } else if set.len() > 1 && (seed % 2 == 0 || !model.contains_key(&member)) {
                        let (taken, _) = set.take(number as usize % set.len()).unwrap();
                        prop_assert!(model.remove(&taken).is_some());
                    } else if set.len() > 1 {
                        prop_assert_eq!(set.remove(&member).map(key), model.remove(&member));
                    }
                }
                prop_assert_eq!(set.len(), model.len());
                let listed: BTreeMap<Vec<u8>, i64> =
                    set.iter().map(|scored| (scored.member().to_vec(), key(scored.score()))).collect();
                prop_assert_eq!(&listed, &model);
                for (member, score) in &model {
                    let rank = set.find(member).map(|place| set.rank_at(place)).unwrap();
                    prop_assert_eq!(set.get(rank).map(|found| (found.member(), key(found.score()))), Some((&**member, *score)));
                }
                prop_assert!(set.size() < 40_000 + 600 * set.len(), "{} bytes for {} members", set.size(), set.len());
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// A small set answers as a large one does.
        #[test]
        fn whether_a_set_is_small_cannot_be_seen(
            steps in prop::collection::vec((0..60u32, prop_oneof![-3..70i32, any::<i32>()], 0..10u8), 0..300),
            fraction in prop_oneof![Just(1.0), Just(0.5), Just(1e300)],
            longest in prop_oneof![Just(64), Just(20)],
        ) {
            let limits = SortedSetLimits { packed: 40, longest, converts_upfront: false };
            let (mut set, mut model) = (SortedSet::default(), SortedSet::from(Large::new(true)));
            for (number, score, action) in steps {
                let member = format!("{}{number}", ["", "m", "of-a-great-length"][number as usize % 3]).into_bytes();
                let score = f64::from(score) * fraction;
                match action {
                    0 => prop_assert_eq!(set.remove(&member), model.remove(&member)),
                    1 => prop_assert_eq!(set.take(number as usize), model.take(number as usize)),
                    _ => prop_assert_eq!(set.put(&member, score, &limits), model.put(&member, score, &limits)),
                }
                if model.len() == 0 {
                    // The key is deleted.
                    (set, model) = (SortedSet::default(), SortedSet::from(Large::new(true)));
                }
                prop_assert_eq!((set.len(), set.encoding()), (model.len(), model.encoding()));
                prop_assert_eq!(set.score(&member), model.score(&member));
                let rank = |set: &SortedSet| set.find(&member).map(|place| set.rank_at(place));
                prop_assert_eq!(rank(&set), rank(&model));
                let below = |set: &SortedSet| set.rank_of_score(|other| other < score);
                prop_assert_eq!(below(&set), below(&model));
            }
            let listed = |members: Members<'_>| members.map(|one| (one.member().to_vec(), one.score())).collect::<Vec<_>>();
            prop_assert_eq!(listed(set.iter()), listed(model.iter()));
            prop_assert_eq!(listed(set.clone().iter()), listed(model.iter()));
            for start in 0..=model.len() {
                prop_assert_eq!(set.get(start).map(Scored::member), model.get(start).map(Scored::member));
                for backwards in [false, true] {
                    let range = |set: &SortedSet| listed(set.range(start..start + 5, backwards));
                    prop_assert_eq!(range(&set), range(&model));
                }
            }
        }
    }

    #[test]
    fn a_sorted_set_of_five_short_members_takes_one_allocation_of_little_more_than_their_bytes() {
        let mut set = SortedSet::default();
        let limits = SortedSetLimits { packed: 128, longest: 64, converts_upfront: false };
        for number in 0..5 {
            set.put(format!("member:{number:02}").as_bytes(), f64::from(number), &limits);
        }
        assert_eq!(set.size(), 72);
        assert_eq!(size_of::<SortedSet>(), 8);
    }
}
