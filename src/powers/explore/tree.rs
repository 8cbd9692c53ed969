//! The orders that were tried and those that are left: a tree that is walked depth first.
//!
//! Of orders that only differ in commands that commute, one is enough. Sleep sets (Godefroid) see to that: when all
//! orders that begin with a command were tried, the command is asleep in those that begin with another one, for as long
//! as only commands run that commute with it. Whoever wakes it up makes a difference.

use super::footprint::Footprint;
use super::token::{Label, Order, Turn};

/// A command that could have the next turn.
#[derive(Clone, Debug)]
pub struct Candidate {
    pub client: Label,
    pub command: &'static str,
    pub footprint: Footprint,
}

/// A moment in which one of several commands is let through.
#[derive(Debug)]
struct Node {
    joining: u16,
    candidates: Vec<Candidate>,
    /// These need no turn here: the orders that would follow were tried elsewhere.
    asleep: Vec<Label>,
    /// What follows these was tried.
    done: Vec<Label>,
    chosen: Label,
}

impl Node {
    fn candidate(&self, client: Label) -> Option<&Candidate> {
        self.candidates.iter().find(|candidate| candidate.client == client)
    }

    /// Who sleeps after the chosen one has had its turn.
    fn asleep_after(&self) -> Vec<Label> {
        let Some(chosen) = self.candidate(self.chosen) else { return Vec::new() };
        let still = |client: &Label| {
            self.candidate(*client).is_some_and(|other| other.footprint.commutes_with(&chosen.footprint))
        };
        self.asleep.iter().chain(&self.done).copied().filter(still).collect()
    }

    fn left(&self) -> Option<Label> {
        let is_left = |client: &Label| !self.asleep.contains(client) && !self.done.contains(client);
        self.candidates.iter().map(|candidate| candidate.client).find(is_left)
    }
}

/// What has been tried, and the path from the first turn to where the next run is to differ.
#[derive(Debug, Default)]
pub struct Tree {
    path: Vec<Node>,
    /// Ways that were not gone, because they only lead to what was tried.
    pub skipped: u64,
    /// No way is left.
    pub is_done: bool,
}

impl Tree {
    /// The turns that the next run begins with.
    pub fn plan(&self) -> Order {
        Order(self.path.iter().map(|node| Turn { joining: node.joining, client: node.chosen }).collect())
    }

    /// The command that is to have a turn that is planned.
    pub fn planned(&self, turn: usize) -> Option<&'static str> {
        let node = self.path.get(turn)?;
        node.candidate(node.chosen).map(|candidate| candidate.command)
    }

    /// Adds a turn: one of these is to have it, the preferred one if there is nothing against it. `None` if whatever
    /// follows was tried; then nothing is added.
    pub fn grow(&mut self, joining: u16, candidates: Vec<Candidate>, preferred: Option<Label>) -> Option<Label> {
        let mut asleep = self.path.last().map(Node::asleep_after).unwrap_or_default();
        asleep.retain(|client| candidates.iter().any(|candidate| candidate.client == *client));
        let mut node = Node { joining, candidates, asleep, done: Vec::new(), chosen: 0 };
        let is_free = |client: &Label| node.candidate(*client).is_some() && !node.asleep.contains(client);
        let Some(chosen) = preferred.filter(is_free).or_else(|| node.left()) else {
            self.skipped += node.candidates.len() as u64;
            return None;
        };
        node.chosen = chosen;
        self.path.push(node);
        Some(chosen)
    }

    /// Others who could have a turn that is planned, too, as it turns out.
    pub fn widen(&mut self, turn: usize, candidates: Vec<Candidate>) {
        if let Some(node) = self.path.get_mut(turn) {
            for candidate in candidates {
                if node.candidate(candidate.client).is_none() {
                    node.candidates.push(candidate);
                }
            }
        }
    }

    /// Forgets the turns from this one on: the test did not come there again in the same way.
    pub fn cut(&mut self, turn: usize) {
        self.path.truncate(turn);
    }

    /// Goes to the next order: the last turn that leaves another choice takes it.
    pub fn advance(&mut self) {
        while let Some(node) = self.path.last_mut() {
            node.done.push(node.chosen);
            if let Some(next) = node.left() {
                node.chosen = next;
                return;
            }
            self.skipped += node.asleep.len() as u64;
            self.path.pop();
        }
        self.is_done = true;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

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
            let mut is_cut = false;
            for turn in 0.. {
                let candidates: Vec<Candidate> = (0..program.len())
                    .filter(|client| at[*client] < program[*client].len())
                    .map(|client| {
                        let (key, writes) = program[client][at[client]];
                        let mut footprint = Footprint::default();
                        footprint.add_key(key.as_bytes(), writes);
                        let footprint = if sleeps { footprint } else { Footprint::everything() };
                        Candidate { client: client as Label + 1, command: "X", footprint }
                    })
                    .collect();
                let Some(first) = candidates.first().map(|candidate| candidate.client) else { break };
                let chosen = match plan.get(turn) {
                    Some(planned) => planned.client,
                    None if is_cut => first,
                    None => tree.grow(0, candidates, None).unwrap_or_else(|| {
                        is_cut = true;
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
    fn a_test_that_went_another_way_is_followed_from_there() {
        let candidates = |clients: &[Label]| {
            let candidate = |client| Candidate { client, command: "X", footprint: Footprint::everything() };
            clients.iter().copied().map(candidate).collect::<Vec<_>>()
        };
        let mut tree = Tree::default();
        assert_eq!(tree.grow(2, candidates(&[1, 2]), None), Some(1));
        assert_eq!(tree.grow(0, candidates(&[1, 2]), Some(2)), Some(2));
        tree.cut(1);
        assert_eq!(tree.grow(0, candidates(&[2]), None), Some(2));
        tree.advance();
        assert_eq!(tree.plan(), Order(vec![Turn { joining: 2, client: 2 }]));
    }
}
