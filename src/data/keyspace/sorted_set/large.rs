//! Sorted sets of any size: a sorted vector, or a table with a tree of the order.

use std::ops::Range;

use super::{MemberSlot, Scored, SortedSetLimits, kept_score};
use crate::data::keyspace::indexed::{Indexed, Keyed};
use crate::data::keyspace::member::Member;
use crate::data::keyspace::rank_tree::{RankTree, Row, Rows};

/// Up to this many members are a sorted vector, which is searched linearly for a member.
const FEW: usize = 128;

/// A member with its score.
#[derive(Clone)]
struct Item {
    member: Member,
    score: f64,
}

impl Item {
    /// The placeholder of a removed member.
    fn hole() -> Self {
        Self { member: Member::new(b""), score: f64::NAN }
    }

    fn is_hole(&self) -> bool {
        self.score.is_nan()
    }

    #[inline]
    fn member(&self) -> &[u8] {
        self.member.as_bytes()
    }

    #[inline]
    fn scored(&self) -> Scored<'_> {
        Scored { member: self.member.as_bytes(), score: self.score }
    }

    fn is_before(&self, score: f64, member: &[u8]) -> bool {
        self.score < score || (self.score == score && self.member() < member)
    }
}

impl Keyed for Item {
    #[inline]
    fn key(&self) -> &[u8] {
        self.member.as_bytes()
    }

    #[inline]
    fn outside(&self) -> usize {
        self.member.outside()
    }
}

/// A sorted set. No score is NaN.
#[derive(Clone)]
pub struct Large {
    storage: Storage,
    /// The encoding is a listpack, not a skiplist.
    packed: bool,
}

#[derive(Clone)]
enum Storage {
    /// `outside` is the members' memory outside themselves, in bytes.
    Few {
        sorted: Vec<Item>,
        outside: usize,
    },
    Many(Box<Tree>),
}

#[derive(Clone)]
struct Tree {
    /// Unordered, with holes where members were removed. Moving other members there would cost more than the rest of
    /// the removal, because their rows would have to be found.
    members: Indexed<Item>,
    /// The indexes of holes, and indexes that were cut off at the end. Indexes are added only once none is left here.
    holes: Vec<u32>,
    order: RankTree,
    /// How many of the next members at an end are loaded already.
    loaded: u8,
}

/// Up to this many holes are left.
const FEW_HOLES: usize = 64;
/// How many holes there may be for each member. To move a member costs as much as to remove one: with more holes, most sets
/// that are emptied are empty before many were moved.
const HOLES: usize = 3;
/// How many holes go at most when a member is removed. Each removal adds a hole and lets `HOLES` fewer be.
const CLOSED: usize = 2 * (HOLES + 1);

/// How many members at an end are loaded at once, when one of them is taken.
const AHEAD: u8 = 8;

impl Large {
    /// An empty set; `packed` selects the listpack encoding.
    pub fn new(packed: bool) -> Self {
        Self { storage: Storage::Few { sorted: Vec::new(), outside: 0 }, packed }
    }

    pub fn len(&self) -> usize {
        match &self.storage {
            Storage::Few { sorted, .. } => sorted.len(),
            Storage::Many(many) => many.len(),
        }
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
        let small = |scored: Scored<'_>| scored.member.len() <= limits.longest;
        self.packed = self.len() <= limits.packed && self.iter().all(small);
        if self.packed {
            // The order does not change.
            for rank in self.rank_of_score(|score| score < 0.0)..self.rank_of_score(|score| score <= 0.0) {
                self.set_score(rank, 0.0);
            }
        }
    }

    /// Sets the score of the member of a rank, which must keep its rank.
    fn set_score(&mut self, rank: usize, score: f64) {
        match &mut self.storage {
            Storage::Few { sorted, .. } => sorted[rank].score = score,
            Storage::Many(many) => {
                let row = many.order.remove(rank);
                many.members.alter(row.place as usize).score = score;
                many.enter(row.place as usize);
            }
        }
    }

    /// The memory outside itself, in bytes.
    pub fn size(&self) -> usize {
        match &self.storage {
            Storage::Few { sorted, outside } => sorted.capacity() * size_of::<Item>() + outside,
            Storage::Many(many) => many.size(),
        }
    }

    pub fn find(&self, member: &[u8]) -> Option<MemberSlot> {
        let place = match &self.storage {
            Storage::Few { sorted, .. } => sorted.iter().position(|scored| scored.member() == member),
            Storage::Many(many) => many.members.find(member),
        };
        place.map(MemberSlot)
    }

    /// The score of a member.
    pub fn score_at(&self, MemberSlot(place): MemberSlot) -> f64 {
        match &self.storage {
            Storage::Few { sorted, .. } => sorted[place].score,
            Storage::Many(many) => many.at(place).score,
        }
    }

    /// The rank of a member.
    pub fn rank_at(&self, MemberSlot(place): MemberSlot) -> usize {
        match &self.storage {
            Storage::Few { .. } => place,
            Storage::Many(many) => many.rank(place),
        }
    }

    /// Adds a new member.
    pub fn insert(&mut self, member: &[u8], score: f64, limits: &SortedSetLimits) {
        self.packed = self.packed && self.len() < limits.packed && member.len() <= limits.longest;
        let score = kept_score(score, self.packed);
        let scored = Item { member: Member::new(member), score };
        match &mut self.storage {
            Storage::Few { sorted, outside } if sorted.len() < FEW => {
                *outside += scored.outside();
                let at = sorted.partition_point(|other| other.is_before(score, member));
                if sorted.len() == sorted.capacity() {
                    sorted.reserve_exact((sorted.len() / 4).max(1));
                }
                sorted.insert(at, scored);
            }
            Storage::Few { sorted, .. } => {
                let mut many = Tree::of(std::mem::take(sorted));
                many.insert(scored);
                self.storage = Storage::Many(Box::new(many));
            }
            Storage::Many(many) => many.insert(scored),
        }
    }

    /// Changes the score of an existing member.
    pub fn rescore(&mut self, MemberSlot(place): MemberSlot, score: f64) {
        let score = kept_score(score, self.packed);
        match &mut self.storage {
            Storage::Few { sorted, .. } => {
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
            Storage::Many(many) => {
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
            Storage::Few { .. } => self.remove_rank(place)?,
            Storage::Many(many) => {
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
            self.storage = Storage::Few { sorted: Vec::new(), outside: 0 };
        }
    }

    /// Removes the member of this rank.
    pub fn take(&mut self, rank: usize) -> Option<(Vec<u8>, f64)> {
        let removed = self.remove_rank(rank)?;
        Some((removed.member.into_bytes(), removed.score))
    }

    fn remove_rank(&mut self, rank: usize) -> Option<Item> {
        if rank >= self.len() {
            return None;
        }
        let removed = match &mut self.storage {
            Storage::Few { sorted, outside } => {
                let removed = sorted.remove(rank);
                *outside -= removed.outside();
                if sorted.len() * 2 < sorted.capacity() {
                    sorted.shrink_to(sorted.len() + sorted.len() / 4);
                }
                removed
            }
            Storage::Many(many) => {
                many.load_from(rank);
                let row = many.order.remove(rank);
                many.leave(row.place as usize)
            }
        };
        self.forget_many_of_none();
        Some(removed)
    }

    /// The member of this rank.
    pub fn get(&self, rank: usize) -> Option<Scored<'_>> {
        let item = match &self.storage {
            Storage::Few { sorted, .. } => sorted.get(rank),
            Storage::Many(many) => many.members.get(many.order.get(rank)?.place as usize),
        };
        item.map(Item::scored)
    }

    /// Prepares for a step of [`walk`](Self::walk).
    pub fn prepare_walk(&mut self, count: usize) {
        if let Storage::Many(many) = &mut self.storage {
            many.members.prepare_walk(count);
        }
    }

    /// One step of an iteration over the members, as in [`Indexed::walk`]. The small form is returned in one step.
    pub fn walk(&self, left: u64, count: usize) -> (u64, impl Iterator<Item = Scored<'_>>) {
        let (left, some, all) = match &self.storage {
            Storage::Many(many) if !self.packed => {
                let (left, members) = many.members.walk(left, count);
                (left, Some(members), None)
            }
            _ => (0, None, Some(self.iter())),
        };
        let some = some.into_iter().flatten().filter(|item| !item.is_hole()).map(Item::scored);
        (left, some.chain(all.into_iter().flatten()))
    }

    /// The number of members whose score satisfies `before`, which must hold for all scores below one that satisfies
    /// it.
    pub fn rank_of_score(&self, before: impl Fn(f64) -> bool) -> usize {
        match &self.storage {
            Storage::Few { sorted, .. } => sorted.partition_point(|scored| before(scored.score)),
            Storage::Many(many) => many.order.rank(|row| before(row.score)),
        }
    }

    /// The number of members that satisfy `before`. Meaningful only if all scores are equal.
    pub fn rank_of_member(&self, before: impl Fn(&[u8]) -> bool) -> usize {
        match &self.storage {
            Storage::Few { sorted, .. } => sorted.partition_point(|scored| before(scored.member())),
            Storage::Many(many) => many.order.rank(|row| before(many.at(row.place as usize).member())),
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
            Storage::Few { sorted, .. } => Walk::Few { rest: &sorted[start..end], backwards },
            Storage::Many(many) => {
                let first = if backwards { end.saturating_sub(1) } else { start };
                Walk::Many { members: &many.members, rows: many.order.rows(first, end - start, backwards) }
            }
        })
    }
}

/// Iterates over members.
#[derive(Clone)]
pub struct Members<'s>(Walk<'s>);

#[derive(Clone)]
enum Walk<'s> {
    Few { rest: &'s [Item], backwards: bool },
    Many { members: &'s Indexed<Item>, rows: Rows<'s> },
}

impl<'s> Iterator for Members<'s> {
    type Item = Scored<'s>;

    #[inline]
    fn next(&mut self) -> Option<Scored<'s>> {
        let item = match &mut self.0 {
            Walk::Few { rest, backwards: false } => rest.split_off_first(),
            Walk::Few { rest, backwards: true } => rest.split_off_last(),
            Walk::Many { members, rows } => members.get(rows.next()?.place as usize),
        };
        item.map(Item::scored)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = match &self.0 {
            Walk::Few { rest, .. } => rest.len(),
            Walk::Many { rows, .. } => rows.len(),
        };
        (left, Some(left))
    }
}

impl ExactSizeIterator for Members<'_> {}

impl Tree {
    fn of(sorted: Vec<Item>) -> Self {
        let mut many = Self { members: Indexed::new(false), holes: Vec::new(), order: RankTree::new(), loaded: 0 };
        for scored in sorted {
            let row = Row { score: scored.score, place: many.members.len() as u32 };
            many.members.push(scored);
            many.order.insert(row, |_| true);
        }
        many
    }

    fn at(&self, place: usize) -> &Item {
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
    fn is_before(&self, row: Row, scored: &Item) -> bool {
        row.score < scored.score
            || (row.score == scored.score && self.at(row.place as usize).member() < scored.member())
    }

    fn len(&self) -> usize {
        self.order.len()
    }

    fn hole_count(&self) -> usize {
        self.members.len() - self.len()
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.members.size() + self.order.size() + self.holes.capacity() * size_of::<u32>()
    }

    fn insert(&mut self, scored: Item) {
        let place = match self.take_hole(self.members.len()) {
            Some(hole) => {
                self.members.occupy(hole, scored);
                hole
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
        let member_of = |row: Row| members.get(row.place as usize).map_or(&[][..], Item::member);
        order.insert(Row { score: scored.score, place: place as u32 }, |row| {
            row.score < scored.score || (row.score == scored.score && member_of(row) < scored.member())
        });
    }

    /// Loads what taking the member of this rank and the next ones will read, if it is at an end: in a queue, or a timer, it is
    /// taken first that was added long ago, so nothing of it is in the cache.
    fn load_from(&mut self, rank: usize) {
        let backwards = rank != 0;
        if backwards && rank + 1 != self.len() {
            return;
        }
        self.loaded = match self.loaded.checked_sub(1) {
            Some(left) => left,
            None => {
                let ahead = usize::from(AHEAD);
                let rows = self.order.rows(rank, self.len().min(2 * ahead), backwards);
                let places = rows.map(|row| row.place as usize);
                self.members.fetch_items(places.clone());
                self.members.load_places(places.take(ahead));
                AHEAD - 1
            }
        };
    }

    /// Removes the member at an index, whose row is removed already.
    fn leave(&mut self, place: usize) -> Item {
        let scored = self.members.vacate(place, Item::hole());
        self.holes.push(place as u32);
        for _ in 0..CLOSED {
            if self.hole_count() <= HOLES * self.len() + FEW_HOLES {
                break;
            }
            self.close_hole();
        }
        scored
    }

    /// Shortens the table by its last item: a hole is cut off, a member moves into another hole.
    fn close_hole(&mut self) {
        let last = self.members.len() - 1;
        if self.at(last).is_hole() {
            self.members.remove(last);
            if self.holes.len() > 4 * self.hole_count() + FEW_HOLES {
                self.holes.retain(|place| (*place as usize) < last);
                self.holes.shrink_to(2 * self.holes.len());
            }
        } else if let Some(hole) = self.take_hole(last) {
            let rank = self.rank(last);
            self.order.relocate(rank, hole as u32);
            self.members.remove(hole);
        }
    }

    /// The index of a hole before this one, which is about to be filled.
    fn take_hole(&mut self, end: usize) -> Option<usize> {
        while let Some(place) = self.holes.pop() {
            if (place as usize) < end {
                return Some(place as usize);
            }
        }
        self.holes.shrink_to(FEW_HOLES);
        None
    }
}
