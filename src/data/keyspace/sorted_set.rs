//! Sorted sets: members with scores, ordered by score and then by member.

use std::ops::Range;

use super::indexed::{Indexed, Keyed};
use super::member::Member;
use super::rank_tree::{RankTree, Row, Rows};

/// Up to this many members are a sorted vector, which is searched linearly for a member.
const FEW: usize = 128;

/// A member with its score.
#[derive(Clone)]
pub struct Scored {
    member: Member,
    score: f64,
}

impl Scored {
    /// The placeholder of a removed member.
    fn hole() -> Self {
        Self { member: Member::new(b""), score: f64::NAN }
    }

    fn is_hole(&self) -> bool {
        self.score.is_nan()
    }

    #[inline]
    pub fn member(&self) -> &[u8] {
        self.member.as_bytes()
    }

    pub fn into_member(self) -> Vec<u8> {
        self.member.into_bytes()
    }

    pub fn score(&self) -> f64 {
        self.score
    }

    fn is_before(&self, score: f64, member: &[u8]) -> bool {
        self.score < score || (self.score == score && self.member() < member)
    }
}

impl Keyed for Scored {
    #[inline]
    fn key(&self) -> &[u8] {
        self.member.as_bytes()
    }

    #[inline]
    fn outside(&self) -> usize {
        self.member.outside()
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

/// A sorted set. No score is NaN.
#[derive(Clone)]
pub struct SortedSet {
    storage: Storage,
    /// The encoding is a listpack, not a skiplist.
    packed: bool,
}

#[derive(Clone)]
enum Storage {
    /// `outside` is the members' memory outside themselves, in bytes.
    Small {
        sorted: Vec<Scored>,
        outside: usize,
    },
    Large(Box<Large>),
}

#[derive(Clone)]
struct Large {
    /// Unordered, with holes where members were removed. Moving other members there would cost more than the rest of
    /// the removal, because their rows would have to be found.
    members: Indexed<Scored>,
    holes: Vec<u32>,
    order: RankTree,
}

/// Up to this many holes are never compacted.
const FEW_HOLES: usize = 64;

/// The index of a member; valid until the set changes.
#[derive(Clone, Copy)]
pub struct MemberSlot(usize);

impl Default for SortedSet {
    fn default() -> Self {
        Self::new(true)
    }
}

impl SortedSet {
    /// An empty set; `packed` selects the listpack encoding.
    pub fn new(packed: bool) -> Self {
        Self { storage: Storage::Small { sorted: Vec::new(), outside: 0 }, packed }
    }

    /// An empty set for `count` members, of which this is the first. Some servers look only at the first member.
    pub fn for_member(first: &[u8], count: usize, limits: &SortedSetLimits) -> Self {
        let count = if limits.converts_upfront { count } else { 1 };
        Self::new(count <= limits.packed && first.len() <= limits.longest)
    }

    /// Prepares for `count` members.
    pub fn expect(&mut self, count: usize, limits: &SortedSetLimits) {
        if limits.converts_upfront && count > limits.packed {
            self.spread();
        }
    }

    pub fn len(&self) -> usize {
        match &self.storage {
            Storage::Small { sorted, .. } => sorted.len(),
            Storage::Large(many) => many.len(),
        }
    }

    /// The name of the encoding, as in OBJECT ENCODING.
    pub fn encoding(&self) -> &'static str {
        if self.packed { "listpack" } else { "skiplist" }
    }

    pub fn is_packed(&self) -> bool {
        self.packed
    }

    /// Converts to the skiplist encoding.
    pub fn spread(&mut self) {
        self.packed = false;
    }

    /// Converts to the listpack encoding if the set is small enough. Redis does this after it has built a whole set.
    pub fn pack(&mut self, limits: &SortedSetLimits) {
        let small = |scored: &Scored| scored.member().len() <= limits.longest;
        self.packed = self.len() <= limits.packed && self.iter().all(small);
        if self.packed {
            // The order does not change.
            for rank in self.rank_of_score(|score| score < 0.0)..self.rank_of_score(|score| score <= 0.0) {
                self.set_score(rank, 0.0);
            }
        }
    }

    /// The score as the encoding stores it: a listpack stores integers where it can, and so no negative zero.
    fn kept_score(&self, score: f64) -> f64 {
        if self.packed && score == 0.0 { 0.0 } else { score }
    }

    /// Sets the score of the member of a rank, which must keep its rank.
    fn set_score(&mut self, rank: usize, score: f64) {
        match &mut self.storage {
            Storage::Small { sorted, .. } => sorted[rank].score = score,
            Storage::Large(many) => {
                let row = many.order.remove(rank);
                many.members.alter(row.place as usize).score = score;
                many.enter(row.place as usize);
            }
        }
    }

    /// The memory in bytes.
    pub fn size(&self) -> usize {
        size_of::<Self>()
            + match &self.storage {
                Storage::Small { sorted, outside } => sorted.capacity() * size_of::<Scored>() + outside,
                Storage::Large(many) => many.size(),
            }
    }

    pub fn find(&self, member: &[u8]) -> Option<MemberSlot> {
        let place = match &self.storage {
            Storage::Small { sorted, .. } => sorted.iter().position(|scored| scored.member() == member),
            Storage::Large(many) => many.members.find(member),
        };
        place.map(MemberSlot)
    }

    /// The score of a member.
    pub fn score_at(&self, MemberSlot(place): MemberSlot) -> f64 {
        match &self.storage {
            Storage::Small { sorted, .. } => sorted[place].score,
            Storage::Large(many) => many.at(place).score,
        }
    }

    /// The rank of a member.
    pub fn rank_at(&self, MemberSlot(place): MemberSlot) -> usize {
        match &self.storage {
            Storage::Small { .. } => place,
            Storage::Large(many) => many.rank(place),
        }
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
        self.packed = self.packed && self.len() < limits.packed && member.len() <= limits.longest;
        let score = self.kept_score(score);
        let scored = Scored { member: Member::new(member), score };
        match &mut self.storage {
            Storage::Small { sorted, outside } if sorted.len() < FEW => {
                *outside += scored.outside();
                let at = sorted.partition_point(|other| other.is_before(score, member));
                if sorted.len() == sorted.capacity() {
                    sorted.reserve_exact((sorted.len() / 4).max(1));
                }
                sorted.insert(at, scored);
            }
            Storage::Small { sorted, .. } => {
                let mut many = Large::of(std::mem::take(sorted));
                many.insert(scored);
                self.storage = Storage::Large(Box::new(many));
            }
            Storage::Large(many) => many.insert(scored),
        }
    }

    /// Changes the score of an existing member.
    pub fn rescore(&mut self, MemberSlot(place): MemberSlot, score: f64) {
        let score = self.kept_score(score);
        match &mut self.storage {
            Storage::Small { sorted, .. } => {
                let rest = sorted.split_at_mut(place);
                let ([scored, behind @ ..], before) = (rest.1, rest.0) else { return };
                scored.score = score;
                let member = scored.member.as_bytes();
                let up = behind.partition_point(|other| other.is_before(score, member));
                let to = before.partition_point(|other| other.is_before(score, member));
                if up > 0 {
                    sorted[place..=place + up].rotate_left(1);
                } else {
                    sorted[to..=place].rotate_right(1);
                }
            }
            Storage::Large(many) => {
                many.order.remove(many.rank(place));
                many.members.alter(place).score = score;
                many.enter(place);
            }
        }
    }

    /// Removes a member. Returns its score.
    pub fn remove(&mut self, member: &[u8]) -> Option<f64> {
        let MemberSlot(place) = self.find(member)?;
        let removed = match &mut self.storage {
            Storage::Small { .. } => self.take(place)?,
            Storage::Large(many) => {
                many.order.remove(many.rank(place));
                many.leave(place)
            }
        };
        self.forget_many_of_none();
        Some(removed.score)
    }

    /// Returns to the small form when the set is empty.
    fn forget_many_of_none(&mut self) {
        if self.len() == 0 {
            self.storage = Storage::Small { sorted: Vec::new(), outside: 0 };
        }
    }

    /// Removes the member of this rank.
    pub fn take(&mut self, rank: usize) -> Option<Scored> {
        if rank >= self.len() {
            return None;
        }
        let removed = match &mut self.storage {
            Storage::Small { sorted, outside } => {
                let removed = sorted.remove(rank);
                *outside -= removed.outside();
                if sorted.len() * 2 < sorted.capacity() {
                    sorted.shrink_to(sorted.len() + sorted.len() / 4);
                }
                removed
            }
            Storage::Large(many) => {
                let row = many.order.remove(rank);
                many.leave(row.place as usize)
            }
        };
        self.forget_many_of_none();
        Some(removed)
    }

    /// The member of this rank.
    pub fn get(&self, rank: usize) -> Option<&Scored> {
        match &self.storage {
            Storage::Small { sorted, .. } => sorted.get(rank),
            Storage::Large(many) => many.members.get(many.order.get(rank)?.place as usize),
        }
    }

    /// Prepares for a step of [`walk`](Self::walk).
    pub fn prepare_walk(&mut self, count: usize) {
        if let Storage::Large(many) = &mut self.storage {
            many.members.prepare_walk(count);
        }
    }

    /// One step of an iteration over the members, as in [`Indexed::walk`]. The small form is returned in one step.
    pub fn walk(&self, left: u64, count: usize) -> (u64, impl Iterator<Item = &Scored>) {
        let (left, some, all) = match &self.storage {
            Storage::Large(many) if !self.packed => {
                let (left, members) = many.members.walk(left, count);
                (left, Some(members), None)
            }
            _ => (0, None, Some(self.iter())),
        };
        let some = some.into_iter().flatten().filter(|scored| !scored.is_hole());
        (left, some.chain(all.into_iter().flatten()))
    }

    /// The number of members whose score satisfies `before`, which must hold for all scores below one that satisfies
    /// it.
    pub fn rank_of_score(&self, before: impl Fn(f64) -> bool) -> usize {
        match &self.storage {
            Storage::Small { sorted, .. } => sorted.partition_point(|scored| before(scored.score)),
            Storage::Large(many) => many.order.rank(|row| before(row.score)),
        }
    }

    /// The number of members that satisfy `before`. Meaningful only if all scores are equal.
    pub fn rank_of_member(&self, before: impl Fn(&[u8]) -> bool) -> usize {
        match &self.storage {
            Storage::Small { sorted, .. } => sorted.partition_point(|scored| before(scored.member())),
            Storage::Large(many) => many.order.rank(|row| before(many.at(row.place as usize).member())),
        }
    }

    /// The members in order.
    pub fn iter(&self) -> Members<'_> {
        self.range(0..self.len(), false)
    }

    /// The members of these ranks, in order or in reverse.
    pub fn range(&self, ranks: Range<usize>, backwards: bool) -> Members<'_> {
        let end = ranks.end.min(self.len());
        let start = ranks.start.min(end);
        Members(match &self.storage {
            Storage::Small { sorted, .. } => Walk::Small { rest: &sorted[start..end], backwards },
            Storage::Large(many) => {
                let first = if backwards { end.saturating_sub(1) } else { start };
                Walk::Large { members: &many.members, rows: many.order.rows(first, end - start, backwards) }
            }
        })
    }
}

/// Iterates over members.
#[derive(Clone)]
pub struct Members<'s>(Walk<'s>);

#[derive(Clone)]
enum Walk<'s> {
    Small { rest: &'s [Scored], backwards: bool },
    Large { members: &'s Indexed<Scored>, rows: Rows<'s> },
}

impl<'s> Iterator for Members<'s> {
    type Item = &'s Scored;

    #[inline]
    fn next(&mut self) -> Option<&'s Scored> {
        match &mut self.0 {
            Walk::Small { rest, backwards: false } => rest.split_off_first(),
            Walk::Small { rest, backwards: true } => rest.split_off_last(),
            Walk::Large { members, rows } => members.get(rows.next()?.place as usize),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = match &self.0 {
            Walk::Small { rest, .. } => rest.len(),
            Walk::Large { rows, .. } => rows.len(),
        };
        (left, Some(left))
    }
}

impl ExactSizeIterator for Members<'_> {}

impl Large {
    fn of(sorted: Vec<Scored>) -> Self {
        let mut many = Self { members: Indexed::new(false), holes: Vec::new(), order: RankTree::new() };
        for scored in sorted {
            let row = Row { score: scored.score, place: many.members.len() as u32 };
            many.members.push(scored);
            many.order.insert(row, |_| true);
        }
        many
    }

    fn at(&self, place: usize) -> &Scored {
        match self.members.get(place) {
            Some(scored) => scored,
            None => unreachable!("every row is of a member that is there"),
        }
    }

    /// The rank of the member at an index.
    fn rank(&self, place: usize) -> usize {
        let scored = self.at(place);
        self.order.rank(|row| self.is_before(row, scored))
    }

    #[inline]
    fn is_before(&self, row: Row, scored: &Scored) -> bool {
        row.score < scored.score
            || (row.score == scored.score && self.at(row.place as usize).member() < scored.member())
    }

    fn len(&self) -> usize {
        self.members.len() - self.holes.len()
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.members.size() + self.order.size() + self.holes.capacity() * size_of::<u32>()
    }

    fn insert(&mut self, scored: Scored) {
        let place = match self.holes.pop() {
            Some(hole) => {
                self.members.occupy(hole as usize, scored);
                hole as usize
            }
            None => {
                self.members.push(scored);
                self.members.len() - 1
            }
        };
        self.enter(place);
    }

    /// Adds the row of the member at an index.
    fn enter(&mut self, place: usize) {
        let Self { members, order, .. } = self;
        let Some(scored) = members.get(place) else { return };
        let member_of = |row: Row| members.get(row.place as usize).map_or(&[][..], Scored::member);
        order.insert(Row { score: scored.score, place: place as u32 }, |row| {
            row.score < scored.score || (row.score == scored.score && member_of(row) < scored.member())
        });
    }

    /// Removes the member at an index, whose row is removed already.
    fn leave(&mut self, place: usize) -> Scored {
        let scored = self.members.vacate(place, Scored::hole());
        self.holes.push(place as u32);
        if self.holes.len() > self.len() + FEW_HOLES {
            self.close_holes();
        }
        scored
    }

    /// Moves the last members into the holes.
    #[cold]
    fn close_holes(&mut self) {
        let mut moved = vec![0; self.members.len()];
        let mut before: Vec<usize> = (0..self.members.len()).collect();
        // From the last hole on, so that the last item is always a member, or the hole itself.
        self.holes.sort_unstable();
        while let Some(hole) = self.holes.pop() {
            self.members.remove(hole as usize);
            before.swap_remove(hole as usize);
        }
        self.holes.shrink_to_fit();
        (0..).zip(&before).for_each(|(place, before)| moved[*before] = place);
        let mut order = RankTree::new();
        for row in self.order.rows(0, self.members.len(), false) {
            order.insert(Row { place: moved[row.place as usize], ..row }, |_| true);
        }
        self.order = order;
    }
}

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
                    prop_assert_eq!((key(taken.score()), taken.member()), (expected.0, &*expected.1));
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
}
