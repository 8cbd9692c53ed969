//! The orders that were tried and those that are left: a tree that is searched depth first.
//!
//! Of orders that differ only in commands that commute, one is enough. Sleep sets (Godefroid) ensure that: once all orders
//! that begin with a command were tried, the command is in the sleep set of those that begin with another one, until a
//! command runs that does not commute with it.

use super::chaos::Action;
use super::cheapest_first::CheapestFirst;
use super::footprint::Footprint;
use super::token::{Order, RacerNumber, Turn};

/// Who has a turn, and what it does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// 0 if it is no client's.
    pub client: RacerNumber,
    pub action: Action,
}

impl Choice {
    /// A client's command runs.
    pub fn run(client: RacerNumber) -> Self {
        Self { client, action: Action::Run }
    }
}

/// What the next turn could be.
#[derive(Clone, Debug)]
pub struct Candidate {
    pub choice: Choice,
    /// The command of its client.
    pub command: &'static str,
    pub footprint: Footprint,
    /// How far it is from what is usual.
    pub cost: u32,
}

/// The orders that were tried and are left, in the order in which they are tried.
#[derive(Debug)]
pub enum OrderTree {
    /// Whose turn it is is the only choice.
    DepthFirst(Tree),
    /// More can happen.
    CheapestFirst(CheapestFirst),
}

impl OrderTree {
    pub fn new(has_chaos: bool) -> Self {
        if has_chaos { Self::CheapestFirst(CheapestFirst::default()) } else { Self::DepthFirst(Tree::default()) }
    }

    /// The turns that the next run begins with.
    pub fn plan(&self) -> Order {
        match self {
            Self::DepthFirst(tree) => tree.plan(),
            Self::CheapestFirst(search) => search.plan(),
        }
    }

    /// The command that a planned turn is for.
    pub fn planned(&self, turn: usize) -> Option<&'static str> {
        match self {
            Self::DepthFirst(tree) => tree.planned(turn),
            Self::CheapestFirst(search) => search.planned(turn),
        }
    }

    /// Adds a turn with its candidates, the usual one first, and chooses one. `None` if all that follows was tried.
    pub fn grow(&mut self, joining: u16, candidates: Vec<Candidate>) -> Option<Choice> {
        match self {
            Self::DepthFirst(tree) => {
                let usual = candidates.first().map(|candidate| candidate.choice.client);
                tree.grow(joining, in_order(candidates), usual).map(Choice::run)
            }
            Self::CheapestFirst(search) => search.grow(joining, candidates),
        }
    }

    /// Adds candidates that turned up for a planned turn.
    pub fn widen(&mut self, turn: usize, candidates: Vec<Candidate>) {
        match self {
            Self::DepthFirst(tree) => tree.widen(turn, in_order(candidates)),
            Self::CheapestFirst(search) => search.widen(turn, candidates),
        }
    }

    /// Drops the turns from this one on, since the test strayed from them.
    pub fn cut(&mut self, turn: usize) {
        match self {
            Self::DepthFirst(tree) => tree.cut(turn),
            Self::CheapestFirst(search) => search.cut(turn),
        }
    }

    /// Moves to the next order.
    pub fn advance(&mut self) {
        match self {
            Self::DepthFirst(tree) => tree.advance(),
            Self::CheapestFirst(search) => search.advance(),
        }
    }

    /// Nothing is left to try.
    pub fn is_done(&self) -> bool {
        match self {
            Self::DepthFirst(tree) => tree.is_done,
            Self::CheapestFirst(search) => search.is_done,
        }
    }

    /// How many choices were left out, because they lead only to what was tried.
    pub fn skipped(&self) -> u64 {
        match self {
            Self::DepthFirst(tree) => tree.skipped,
            Self::CheapestFirst(search) => search.skipped,
        }
    }

    /// How many choices were dropped because there are too many.
    pub fn dropped(&self) -> u64 {
        match self {
            Self::DepthFirst(_) => 0,
            Self::CheapestFirst(search) => search.dropped,
        }
    }
}

/// Candidates by the numbers of their clients.
fn in_order(mut candidates: Vec<Candidate>) -> Vec<Candidate> {
    candidates.sort_by_key(|candidate| candidate.choice.client);
    candidates
}

/// A turn, with the commands that could have it.
#[derive(Debug)]
struct Node {
    joining: u16,
    candidates: Vec<Candidate>,
    /// Clients that need no turn here, because the orders that would follow were tried elsewhere.
    sleep_set: Vec<RacerNumber>,
    /// Clients whose turn here was tried, with all that follows.
    done: Vec<RacerNumber>,
    chosen: RacerNumber,
}

impl Node {
    fn candidate(&self, client: RacerNumber) -> Option<&Candidate> {
        self.candidates.iter().find(|candidate| candidate.choice.client == client)
    }

    /// The sleep set after the chosen client's turn.
    fn sleep_set_after(&self) -> Vec<RacerNumber> {
        let Some(chosen) = self.candidate(self.chosen) else { return Vec::new() };
        let still = |client: &RacerNumber| {
            self.candidate(*client).is_some_and(|other| other.footprint.commutes_with(&chosen.footprint))
        };
        self.sleep_set.iter().chain(&self.done).copied().filter(still).collect()
    }

    fn left(&self) -> Option<RacerNumber> {
        let is_left = |client: &RacerNumber| !self.sleep_set.contains(client) && !self.done.contains(client);
        self.candidates.iter().map(|candidate| candidate.choice.client).find(is_left)
    }
}

/// The path from the first turn to the one in which the next run differs, with what was tried at each.
#[derive(Debug, Default)]
pub struct Tree {
    path: Vec<Node>,
    /// How many choices were left out, because they lead only to what was tried.
    pub skipped: u64,
    /// Nothing is left to try.
    pub is_done: bool,
}

impl Tree {
    /// The turns that the next run begins with.
    pub fn plan(&self) -> Order {
        Order(
            self.path
                .iter()
                .map(|node| Turn { joining: node.joining, client: node.chosen, action: Action::Run })
                .collect(),
        )
    }

    /// The command that a planned turn is for.
    pub fn planned(&self, turn: usize) -> Option<&'static str> {
        let node = self.path.get(turn)?;
        node.candidate(node.chosen).map(|candidate| candidate.command)
    }

    /// Adds a turn and chooses who has it: the preferred client, if it is not in the sleep set. `None`, and nothing is
    /// added, if all that follows was tried.
    pub fn grow(
        &mut self,
        joining: u16,
        candidates: Vec<Candidate>,
        preferred: Option<RacerNumber>,
    ) -> Option<RacerNumber> {
        let mut sleep_set = self.path.last().map(Node::sleep_set_after).unwrap_or_default();
        sleep_set.retain(|client| candidates.iter().any(|candidate| candidate.choice.client == *client));
        let mut node = Node { joining, candidates, sleep_set, done: Vec::new(), chosen: 0 };
        let is_free = |client: &RacerNumber| node.candidate(*client).is_some() && !node.sleep_set.contains(client);
        let Some(chosen) = preferred.filter(is_free).or_else(|| node.left()) else {
            self.skipped += node.candidates.len() as u64;
            return None;
        };
        node.chosen = chosen;
        self.path.push(node);
        Some(chosen)
    }

    /// Adds candidates that turned up for a planned turn.
    pub fn widen(&mut self, turn: usize, candidates: Vec<Candidate>) {
        if let Some(node) = self.path.get_mut(turn) {
            for candidate in candidates {
                if node.candidate(candidate.choice.client).is_none() {
                    node.candidates.push(candidate);
                }
            }
        }
    }

    /// Which part of all orders was tried, from 0 to 1, if the choices of a turn all lead to equally many.
    pub fn tried_part(&self) -> f64 {
        let (mut tried, mut part) = (0.0, 1.0);
        for node in &self.path {
            let is_asleep = |candidate: &&Candidate| node.sleep_set.contains(&candidate.choice.client);
            let choices = node.candidates.len() - node.candidates.iter().filter(is_asleep).count();
            part /= choices.max(1) as f64;
            tried += part * node.done.len() as f64;
        }
        tried
    }

    /// Drops the turns from this one on, since the test strayed from them.
    pub fn cut(&mut self, turn: usize) {
        self.path.truncate(turn);
    }

    /// Moves to the next order: changes the last turn that leaves another choice.
    pub fn advance(&mut self) {
        while let Some(node) = self.path.last_mut() {
            node.done.push(node.chosen);
            if let Some(next) = node.left() {
                node.chosen = next;
                return;
            }
            self.skipped += node.sleep_set.len() as u64;
            self.path.pop();
        }
        self.is_done = true;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn candidate(client: RacerNumber, footprint: Footprint) -> Candidate {
        Candidate { choice: Choice::run(client), command: "X", footprint, cost: 0 }
    }

    /// A program: for each client its commands, as (key, writes).
    type Program<'a> = &'a [&'a [(&'a str, bool)]];

    /// Runs a program in every order that the tree asks for. What each run came to (who wrote each key last, what each
    /// read saw), and how many runs there were.
    fn explore(program: Program<'_>, sleeps: bool) -> (BTreeSet<Vec<String>>, usize) {
        let mut tree = Tree::default();
        let (mut outcomes, mut runs) = (BTreeSet::new(), 0);
        while !tree.is_done {
            runs += 1;
            let plan = tree.plan().0;
            let mut at = vec![0; program.len()];
            let mut seen = vec![String::new(); program.len()];
            let mut written: Vec<(&str, String)> = Vec::new();
            let mut is_redundant = false;
            for turn in 0.. {
                let candidates: Vec<Candidate> = (0..program.len())
                    .filter(|client| at[*client] < program[*client].len())
                    .map(|client| {
                        let (key, writes) = program[client][at[client]];
                        let mut footprint = Footprint::default();
                        footprint.add_key(key.as_bytes(), writes);
                        let footprint = if sleeps { footprint } else { Footprint::everything() };
                        candidate(client as RacerNumber + 1, footprint)
                    })
                    .collect();
                let Some(first) = candidates.first().map(|candidate| candidate.choice.client) else { break };
                let chosen = match plan.get(turn) {
                    Some(planned) => planned.client,
                    None if is_redundant => first,
                    None => tree.grow(0, candidates, None).unwrap_or_else(|| {
                        is_redundant = true;
                        first
                    }),
                };
                let client = usize::from(chosen - 1);
                let (key, writes) = program[client][at[client]];
                at[client] += 1;
                let place = written.iter().position(|(other, _)| *other == key);
                let before = place.map(|place| written[place].1.clone()).unwrap_or_default();
                seen[client].push_str(&format!("[{before}]"));
                if writes {
                    place.map(|place| written.remove(place));
                    written.push((key, format!("{client}.{}", at[client])));
                }
            }
            written.sort();
            seen.extend(written.into_iter().map(|(key, by)| format!("{key}={by}")));
            outcomes.insert(seen);
            tree.advance();
        }
        (outcomes, runs)
    }

    #[test]
    fn every_order_of_commands_on_one_key_is_tried_once() {
        let (a, w) = ("a", true);
        assert_eq!(explore(&[&[(a, w), (a, w)], &[(a, w), (a, w)]], true).1, 6);
        assert_eq!(explore(&[&[(a, w), (a, w)], &[(a, w), (a, w)], &[(a, w)]], true).1, 30);
    }

    #[test]
    fn commands_that_commute_are_tried_in_one_order() {
        // Beside the one there are runs that are cut short as soon as they turn out to be the same.
        let (outcomes, runs) = explore(&[&[("a", true), ("a", true)], &[("b", true), ("b", true)]], true);
        assert_eq!((outcomes.len(), runs), (1, 3));
        let (outcomes, runs) = explore(&[&[("a", false)], &[("a", false)], &[("a", false)]], true);
        assert_eq!((outcomes.len(), runs), (1, 4));
    }

    #[test]
    fn no_outcome_is_missed_by_what_is_skipped() {
        let programs: &[Program<'_>] = &[
            &[&[("a", true), ("b", false)], &[("b", true), ("a", false)]],
            &[&[("a", true), ("b", true)], &[("b", true), ("a", true)], &[("a", false)]],
            &[&[("a", false), ("a", true)], &[("a", false), ("a", true)], &[("b", true), ("a", false)]],
            &[&[("a", false), ("b", true), ("c", true)], &[("c", false), ("a", true)], &[("b", false), ("c", true)]],
        ];
        for program in programs {
            let (all, every) = explore(program, false);
            let (some, runs) = explore(program, true);
            assert_eq!(all, some, "{program:?}");
            assert!(runs < every, "{program:?}: {runs} of {every}");
        }
    }

    #[test]
    fn half_of_the_orders_are_tried_when_the_first_turn_changes_between_two_clients() {
        let candidates = || {
            let candidate = |client| candidate(client, Footprint::everything());
            [1, 2].map(candidate).to_vec()
        };
        let mut tree = Tree::default();
        tree.grow(2, candidates(), None);
        tree.grow(0, candidates(), None);
        assert_eq!(tree.tried_part(), 0.0);
        tree.advance();
        assert_eq!(tree.tried_part(), 0.25);
        tree.advance();
        assert_eq!(tree.tried_part(), 0.5);
    }

    #[test]
    fn a_test_that_went_another_way_is_followed_from_there() {
        let candidates = |clients: &[RacerNumber]| {
            let candidate = |client| candidate(client, Footprint::everything());
            clients.iter().copied().map(candidate).collect::<Vec<_>>()
        };
        let mut tree = Tree::default();
        assert_eq!(tree.grow(2, candidates(&[1, 2]), None), Some(1));
        assert_eq!(tree.grow(0, candidates(&[1, 2]), Some(2)), Some(2));
        tree.cut(1);
        assert_eq!(tree.grow(0, candidates(&[2]), None), Some(2));
        tree.advance();
        assert_eq!(tree.plan(), Order(vec![Turn { joining: 2, client: 2, action: Action::Run }]));
    }
}
