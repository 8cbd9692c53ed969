//! Orders by how far they are from the usual one: first those with a single deviation, then those with two.
//!
//! With expiries, lost replies, crashes and pauses there are too many orders to try them depth first, and most mistakes need
//! one or two deviations at the right place. What was tried and what is left is kept as a whole, up to a limit.
//!
//! Sleep sets leave out what differs only in commands that commute, as in the search depth first. They depend on the order of
//! the choices of a turn, and not on when each is tried.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::chaos::Action;
use super::token::{Order, Turn};
use super::tree::{Candidate, Choice};

/// The most choices that are kept.
const MOST_CHOICES: usize = 200_000;

/// A turn that runs have come to, with its choices. The first is the usual one.
#[derive(Debug)]
struct Node {
    parent: Option<PathStep>,
    joining: u16,
    candidates: Vec<Candidate>,
    /// Choices that lead only to what is tried elsewhere.
    sleep_set: Vec<Choice>,
    /// What the turns before cost.
    cost: u32,
}

/// A choice of a turn, by index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PathStep {
    node: usize,
    candidate: usize,
}

impl Node {
    fn candidate(&self, choice: Choice) -> Option<&Candidate> {
        self.candidates.iter().find(|candidate| candidate.choice == choice)
    }

    fn is_asleep(&self, candidate: &Candidate) -> bool {
        self.sleep_set.contains(&candidate.choice)
    }

    /// The sleep set after the turn of a candidate.
    fn sleep_set_after(&self, at: usize) -> Vec<Choice> {
        let Some(chosen) = self.candidates.get(at) else { return Vec::new() };
        let before = self.candidates[..at].iter().filter(|candidate| !self.is_asleep(candidate));
        let asleep = self.sleep_set.iter().filter_map(|choice| self.candidate(*choice));
        let commutes = |other: &&Candidate| {
            // What is no client's has no order of its own.
            let is_of_another = other.choice.client != chosen.choice.client || other.choice.client == 0;
            is_of_another && other.footprint.commutes_with(&chosen.footprint)
        };
        asleep.chain(before).filter(commutes).map(|candidate| candidate.choice).collect()
    }
}

#[derive(Debug, Default)]
pub struct CheapestFirst {
    nodes: Vec<Node>,
    /// The choices that were not tried: their cost, a number that keeps those of equal cost in order, and where they are.
    pending: BinaryHeap<Reverse<(u32, usize, usize, usize)>>,
    /// The turns of the current run, as far as they are kept.
    path: Vec<PathStep>,
    /// How many choices were ever kept.
    kept: usize,
    pub skipped: u64,
    /// How many choices were dropped because there are too many.
    pub dropped: u64,
    pub is_done: bool,
}

impl CheapestFirst {
    pub fn plan(&self) -> Order {
        let turn = |step: &PathStep| {
            let node = self.nodes.get(step.node)?;
            let Choice { client, action } = node.candidates.get(step.candidate)?.choice;
            Some(Turn { joining: node.joining, client, action })
        };
        Order(self.path.iter().filter_map(turn).collect())
    }

    pub fn planned(&self, turn: usize) -> Option<&'static str> {
        let step = self.path.get(turn)?;
        Some(self.nodes.get(step.node)?.candidates.get(step.candidate)?.command)
    }

    /// Adds a turn, whose usual choice is the first candidate, and chooses it unless it is asleep. `None` if all
    /// candidates are.
    pub fn grow(&mut self, joining: u16, candidates: Vec<Candidate>) -> Option<Choice> {
        let last = self.path.last().copied();
        let (mut sleep_set, mut cost) = (Vec::new(), 0);
        if let Some((step, node)) = last.and_then(|step| Some((step, self.nodes.get(step.node)?))) {
            sleep_set = node.sleep_set_after(step.candidate);
            cost = node.cost + node.candidates.get(step.candidate).map_or(0, |candidate| candidate.cost);
        }
        sleep_set.retain(|choice| candidates.iter().any(|candidate| candidate.choice == *choice));
        if self.kept + candidates.len() > MOST_CHOICES {
            self.dropped += (candidates.len() as u64).saturating_sub(1);
            return candidates.first().map(|candidate| candidate.choice);
        }
        self.skipped += sleep_set.len() as u64;
        let node = Node { parent: last, joining, candidates, sleep_set, cost };
        let at = node.candidates.iter().position(|candidate| !node.is_asleep(candidate))?;
        let place = self.nodes.len();
        let choice = node.candidates[at].choice;
        for (index, candidate) in node.candidates.iter().enumerate() {
            if index != at && !node.is_asleep(candidate) {
                self.pending.push(Reverse((cost + candidate.cost, self.kept + index, place, index)));
            }
        }
        self.kept += node.candidates.len();
        self.nodes.push(node);
        self.path.push(PathStep { node: place, candidate: at });
        Some(choice)
    }

    /// Adds candidates that turned up for a planned turn.
    pub fn widen(&mut self, turn: usize, candidates: Vec<Candidate>) {
        let Some(step) = self.path.get(turn) else { return };
        let Some(node) = self.nodes.get_mut(step.node) else { return };
        for candidate in candidates {
            // What else can happen depends on who is there.
            let is_command = candidate.choice.action == Action::Run;
            if is_command && node.candidate(candidate.choice).is_none() && self.kept < MOST_CHOICES {
                self.pending.push(Reverse((node.cost + candidate.cost, self.kept, step.node, node.candidates.len())));
                self.kept += 1;
                node.candidates.push(candidate);
            }
        }
    }

    pub fn cut(&mut self, turn: usize) {
        self.path.truncate(turn);
    }

    /// Moves to the cheapest order that was not tried.
    pub fn advance(&mut self) {
        self.path.clear();
        let Some(Reverse((.., node, candidate))) = self.pending.pop() else {
            self.is_done = true;
            return;
        };
        let mut step = Some(PathStep { node, candidate });
        while let Some(this) = step {
            self.path.push(this);
            step = self.nodes.get(this.node).and_then(|node| node.parent);
        }
        self.path.reverse();
    }

    /// How many choices are known that were not tried.
    pub fn left(&self) -> u64 {
        self.pending.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::super::footprint::Footprint;
    use super::*;

    fn candidate(client: u16, action: Action, cost: u32) -> Candidate {
        Candidate { choice: Choice { client, action }, command: "X", footprint: Footprint::everything(), cost }
    }

    #[test]
    fn one_deviation_comes_before_two_wherever_it_is() {
        let mut search = CheapestFirst::default();
        let mut tried = Vec::new();
        while !search.is_done {
            let planned = search.plan().0.len();
            for _ in planned..2 {
                search.grow(0, vec![candidate(1, Action::Run, 0), candidate(1, Action::LostReply, 2)]);
            }
            let turns = search.plan().0;
            tried.push(turns.iter().map(|turn| if turn.action == Action::Run { '.' } else { 'x' }).collect::<String>());
            search.advance();
        }
        assert_eq!(tried, ["..", "x.", ".x", "xx"]);
    }

    #[test]
    fn what_commutes_is_tried_in_one_order() {
        let mut search = CheapestFirst::default();
        let (mut runs, mut redundant) = (0, 0);
        while !search.is_done {
            runs += 1;
            let plan = search.plan().0;
            let mut left: Vec<u16> = vec![1, 2];
            left.retain(|client| plan.iter().all(|turn| turn.client != *client));
            while !left.is_empty() {
                let own = |client: u16| {
                    let mut footprint = Footprint::default();
                    footprint.add_key(&client.to_le_bytes(), true);
                    Candidate { footprint, ..candidate(client, Action::Run, 0) }
                };
                match search.grow(0, left.iter().copied().map(own).collect()) {
                    Some(choice) => left.retain(|client| *client != choice.client),
                    None => {
                        redundant += 1;
                        break;
                    }
                }
            }
            search.advance();
        }
        assert_eq!((runs, redundant), (2, 1));
    }
}
