//! Rows in ascending order, accessed by rank: a B+ tree whose branches count the rows below them.
//!
//! The caller defines the order: it passes a predicate that says whether a row precedes the point it looks for. So a
//! row needs no more than the score and the index of the member.

use std::mem::take;

/// The most rows of a leaf, and the most branches of an inner node.
const MOST: usize = 64;

/// A node with fewer items joins a neighbour, if both together have at most `JOINED`.
const SPARSE: usize = MOST / 2;
const JOINED: usize = MOST / 4 * 3;

/// A score and the index of its member.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C, packed(4))]
pub(super) struct Row {
    pub score: f64,
    pub place: u32,
}

#[derive(Clone)]
enum Node {
    Leaf(Vec<Row>),
    Inner(Vec<Branch>),
}

#[derive(Clone)]
struct Branch {
    /// The first row below, and the number of rows.
    first: Row,
    count: u32,
    node: Node,
}

#[derive(Clone)]
pub(super) struct RankTree {
    root: Node,
    len: usize,
    leaves: usize,
    inners: usize,
}

/// Whether a node is the first or the last of its level.
#[derive(Clone, Copy)]
struct Edge {
    first: bool,
    last: bool,
}

/// A change of the number of nodes.
#[derive(Default)]
struct Growth {
    leaves: usize,
    inners: usize,
}

impl RankTree {
    pub fn new() -> Self {
        Self { root: Node::Leaf(Vec::with_capacity(MOST)), len: 0, leaves: 1, inners: 0 }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// The number of rows for which `before` holds.
    pub fn rank(&self, mut before: impl FnMut(Row) -> bool) -> usize {
        let mut rank = 0;
        let mut node = &self.root;
        loop {
            match node {
                Node::Leaf(rows) => return rank + rows.partition_point(|row| before(*row)),
                Node::Inner(branches) => {
                    let at = child(branches, &mut before);
                    rank += branches[..at].iter().map(|branch| branch.count as usize).sum::<usize>();
                    node = &branches[at].node;
                }
            }
        }
    }

    pub fn get(&self, rank: usize) -> Option<Row> {
        let (rows, at) = self.leaf(rank);
        rows.get(at).copied()
    }

    /// The leaf of a rank, and the index in it.
    fn leaf(&self, mut rank: usize) -> (&[Row], usize) {
        let mut node = &self.root;
        loop {
            match node {
                Node::Leaf(rows) => return (rows, rank),
                Node::Inner(branches) => {
                    let (at, within) = locate(branches, rank);
                    rank = within;
                    node = &branches[at].node;
                }
            }
        }
    }

    /// Inserts a row behind those for which `before` holds.
    pub fn insert(&mut self, row: Row, mut before: impl FnMut(Row) -> bool) {
        let mut growth = Growth::default();
        let edge = Edge { first: true, last: true };
        if let Some(right) = insert(&mut self.root, row, &mut before, edge, &mut growth) {
            let left = Branch::of(take(&mut self.root));
            let mut branches = Vec::with_capacity(MOST);
            branches.extend([left, right]);
            self.root = Node::Inner(branches);
            growth.inners += 1;
        }
        self.len += 1;
        self.leaves += growth.leaves;
        self.inners += growth.inners;
    }

    /// Removes the row of this rank, which must exist.
    pub fn remove(&mut self, rank: usize) -> Row {
        let mut loss = Growth::default();
        let row = remove(&mut self.root, rank, &mut loss);
        while let Node::Inner(branches) = &mut self.root
            && branches.len() == 1
            && let Some(only) = branches.pop()
        {
            self.root = only.node;
            loss.inners += 1;
        }
        self.len -= 1;
        self.leaves -= loss.leaves;
        self.inners -= loss.inners;
        row
    }

    /// Sets the index of the member of this rank, which must exist.
    pub fn relocate(&mut self, rank: usize, place: u32) {
        relocate(&mut self.root, rank, place);
    }

    /// `count` rows from a rank on, forwards or backwards; they must exist.
    pub fn rows(&self, rank: usize, count: usize, backwards: bool) -> Rows<'_> {
        Rows { tree: self, leaf: &[], at: 0, rank, left: count, backwards }
    }

    /// The memory outside itself, in bytes.
    pub fn size(&self) -> usize {
        MOST * (self.leaves * size_of::<Row>() + self.inners * size_of::<Branch>())
    }
}

/// Iterates over rows.
#[derive(Clone)]
pub(super) struct Rows<'t> {
    tree: &'t RankTree,
    /// The leaf of the next row, if it is known, and the index in it.
    leaf: &'t [Row],
    at: usize,
    rank: usize,
    left: usize,
    backwards: bool,
}

impl Iterator for Rows<'_> {
    type Item = Row;

    #[inline]
    fn next(&mut self) -> Option<Row> {
        if self.left == 0 {
            return None;
        }
        self.left -= 1;
        if self.at >= self.leaf.len() {
            (self.leaf, self.at) = self.tree.leaf(self.rank);
        }
        let row = *self.leaf.get(self.at)?;
        // The wrapped index before a leaf's first row is outside of the leaf, too.
        let step = if self.backwards { usize::MAX } else { 1 };
        self.at = self.at.wrapping_add(step);
        self.rank = self.rank.wrapping_add(step);
        Some(row)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Rows<'_> {}

impl Default for Node {
    fn default() -> Self {
        Self::Leaf(Vec::new())
    }
}

impl Node {
    fn len(&self) -> usize {
        match self {
            Self::Leaf(rows) => rows.len(),
            Self::Inner(branches) => branches.len(),
        }
    }

    fn count(&self) -> u32 {
        match self {
            Self::Leaf(rows) => rows.len() as u32,
            Self::Inner(branches) => branches.iter().map(|branch| branch.count).sum(),
        }
    }

    /// The first row; for an empty leaf, one that is never read.
    fn first(&self) -> Row {
        let first = match self {
            Self::Leaf(rows) => rows.first().copied(),
            Self::Inner(branches) => branches.first().map(|branch| branch.first),
        };
        first.unwrap_or(Row { score: 0.0, place: 0 })
    }
}

impl Branch {
    fn of(node: Node) -> Self {
        Self { first: node.first(), count: node.count(), node }
    }
}

/// The branch of a point: the last one whose first row precedes it.
#[inline]
fn child(branches: &[Branch], before: &mut impl FnMut(Row) -> bool) -> usize {
    branches[1..].partition_point(|branch| before(branch.first))
}

/// The branch of a rank, and the rank below it.
#[inline]
fn locate(branches: &[Branch], mut rank: usize) -> (usize, usize) {
    let last = branches.len() - 1;
    for (at, branch) in branches[..last].iter().enumerate() {
        let count = branch.count as usize;
        if rank < count {
            return (at, rank);
        }
        rank -= count;
    }
    (last, rank)
}

/// Inserts a row below a node. Returns the new right neighbour if the node is split.
fn insert(
    node: &mut Node,
    row: Row,
    before: &mut impl FnMut(Row) -> bool,
    edge: Edge,
    growth: &mut Growth,
) -> Option<Branch> {
    match node {
        Node::Leaf(rows) => {
            let at = rows.partition_point(|row| before(*row));
            let right = add(rows, at, row, edge)?;
            growth.leaves += 1;
            Some(Branch::of(Node::Leaf(right)))
        }
        Node::Inner(branches) => {
            let at = child(branches, before);
            let below = Edge { first: edge.first && at == 0, last: edge.last && at + 1 == branches.len() };
            let branch = &mut branches[at];
            let right = insert(&mut branch.node, row, before, below, growth);
            branch.count += 1;
            branch.first = branch.node.first();
            let right = right?;
            branch.count -= right.count;
            let right = add(branches, at + 1, right, edge)?;
            growth.inners += 1;
            Some(Branch::of(Node::Inner(right)))
        }
    }
}

/// Inserts an item into a node. A full node is split in half. At either edge of the tree, where more rows are likely to
/// follow, only the new item moves to another node.
fn add<T>(items: &mut Vec<T>, at: usize, item: T, edge: Edge) -> Option<Vec<T>> {
    if items.len() < MOST {
        items.insert(at, item);
        return None;
    }
    let cut = match at {
        MOST if edge.last => MOST,
        0 if edge.first => 0,
        _ => MOST / 2,
    };
    let mut right = Vec::with_capacity(MOST);
    right.extend(items.drain(cut..));
    if at > cut || cut == MOST {
        right.insert(at - cut, item);
    } else {
        items.insert(at, item);
    }
    Some(right)
}

fn relocate(node: &mut Node, rank: usize, place: u32) {
    match node {
        Node::Leaf(rows) => rows[rank].place = place,
        Node::Inner(branches) => {
            let (at, within) = locate(branches, rank);
            let branch = &mut branches[at];
            relocate(&mut branch.node, within, place);
            branch.first = branch.node.first();
        }
    }
}

fn remove(node: &mut Node, rank: usize, loss: &mut Growth) -> Row {
    match node {
        Node::Leaf(rows) => rows.remove(rank),
        Node::Inner(branches) => {
            let (at, within) = locate(branches, rank);
            let branch = &mut branches[at];
            let row = remove(&mut branch.node, within, loss);
            branch.count -= 1;
            if branch.count == 0 {
                loss.count(&branches.remove(at).node);
                return row;
            }
            branch.first = branch.node.first();
            if branch.node.len() < SPARSE {
                join(branches, at, loss);
            }
            row
        }
    }
}

/// Merges a branch with its neighbour, if both are small enough.
fn join(branches: &mut Vec<Branch>, at: usize, loss: &mut Growth) {
    let length = |at: usize| branches.get(at).map_or(MOST, |branch| branch.node.len());
    let own = length(at);
    let left = if own + length(at + 1) <= JOINED {
        at
    } else if at > 0 && own + length(at - 1) <= JOINED {
        at - 1
    } else {
        return;
    };
    let right = branches.remove(left + 1);
    loss.count(&right.node);
    let branch = &mut branches[left];
    match (&mut branch.node, right.node) {
        (Node::Leaf(rows), Node::Leaf(more)) => rows.extend(more),
        (Node::Inner(branches), Node::Inner(more)) => branches.extend(more),
        _ => unreachable!("all nodes of one level are of the same kind"),
    }
    branch.count += right.count;
}

impl Growth {
    /// Counts a removed node.
    fn count(&mut self, node: &Node) {
        match node {
            Node::Leaf(_) => self.leaves += 1,
            Node::Inner(_) => self.inners += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rows_of(tree: &RankTree) -> Vec<Row> {
        tree.rows(0, tree.len, false).collect()
    }

    fn nodes(node: &Node) -> (usize, usize) {
        match node {
            Node::Leaf(rows) => {
                assert!(rows.capacity() == MOST);
                (1, 0)
            }
            Node::Inner(branches) => branches.iter().fold((0, 1), |(leaves, inners), branch| {
                assert_eq!((branch.first, branch.count), (branch.node.first(), branch.node.count()));
                let (more_leaves, more_inners) = nodes(&branch.node);
                (leaves + more_leaves, inners + more_inners)
            }),
        }
    }

    fn check(tree: &RankTree, model: &[Row]) {
        assert_eq!(rows_of(tree), model);
        assert_eq!(nodes(&tree.root), (tree.leaves, tree.inners));
    }

    #[test]
    fn what_comes_in_order_fills_the_leaves() {
        for upwards in [true, false] {
            let mut tree = RankTree::new();
            for place in 0..10_000 {
                tree.insert(Row { score: 1.0, place }, |_| upwards);
            }
            assert_eq!(tree.leaves, 10_000usize.div_ceil(MOST));
            for _ in 0..10_000 {
                tree.remove(0);
            }
            assert_eq!((tree.len, tree.inners), (0, 0));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn rows_stand_where_they_were_put(
            steps in prop::collection::vec((0..1000u32, 0..100u32), 0..6000),
            removals in 0..100u32,
        ) {
            let mut tree = RankTree::new();
            let mut model: Vec<Row> = Vec::new();
            for (place, (number, chance)) in (0..).zip(steps) {
                // Insertions prevail first, removals later.
                let fewer = if place > 3000 { 100 - removals / 2 } else { removals / 2 };
                if chance == 99 && !model.is_empty() {
                    let rank = number as usize % model.len();
                    tree.relocate(rank, place);
                    model[rank].place = place;
                } else if chance < fewer && !model.is_empty() {
                    let rank = number as usize % model.len();
                    prop_assert_eq!(tree.remove(rank), model.remove(rank));
                } else {
                    let score = f64::from(number);
                    let rank = tree.rank(|row| row.score <= score);
                    prop_assert_eq!(rank, model.partition_point(|row| row.score <= score));
                    tree.insert(Row { score, place }, |row| row.score <= score);
                    model.insert(rank, Row { score, place });
                }
                prop_assert_eq!(tree.len, model.len());
            }
            check(&tree, &model);
            for rank in [0, model.len() / 3, model.len()] {
                prop_assert_eq!(tree.get(rank), model.get(rank).copied());
                let behind = model.len() - rank;
                prop_assert!(tree.rows(rank, behind, false).eq(model[rank..].iter().copied()));
                if rank < model.len() {
                    prop_assert!(tree.rows(rank, rank + 1, true).eq(model[..=rank].iter().rev().copied()));
                }
            }
        }
    }
}
