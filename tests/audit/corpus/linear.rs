//! Whether what clients believed could have been true: an independent check that a history of a lock is linearizable.
//!
//! The lock is a thing that at most one client has. A client gets it somewhere between the moment at which it asked and the
//! one at which it was told, and has it until its belief ends. The history is right if there is an order of these moments,
//! each within its limits, in which nobody gets what another has. All orders are tried, as Wing and Gong have it, and
//! states that were met before are not tried again, as Lowe has it.

use std::collections::HashSet;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    Acquire,
    /// Released, or its time was over, or it was told.
    End,
}

/// Something that took effect between two moments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    pub client: usize,
    pub op: Op,
    pub call: usize,
    pub ret: usize,
}

/// Whether there is an order in which at most one client had the lock at a time.
pub fn is_linearizable(operations: &[Operation]) -> bool {
    let mut met = HashSet::new();
    search(operations, &mut vec![false; operations.len()], None, &mut met)
}

fn search(
    operations: &[Operation],
    done: &mut Vec<bool>,
    holder: Option<usize>,
    met: &mut HashSet<(Vec<bool>, Option<usize>)>,
) -> bool {
    if done.iter().all(|done| *done) {
        return true;
    }
    if !met.insert((done.clone(), holder)) {
        return false;
    }
    let open = || (0..operations.len()).filter(|at| !done[*at]);
    // What has returned before another was called comes before it.
    let first_return = open().map(|at| operations[at].ret).min().unwrap_or(usize::MAX);
    let next: Vec<usize> = open().filter(|at| operations[*at].call <= first_return).collect();
    for at in next {
        let Operation { client, op, call, .. } = operations[at];
        // Those of one client are in its own order.
        let is_first = (0..operations.len()).all(|other| {
            done[other]
                || other == at
                || operations[other].client != client
                || operations[other].call >= call && other > at
        });
        let after = match (op, holder) {
            _ if !is_first => continue,
            (Op::Acquire, None) => Some(client),
            (Op::End, Some(holder)) if holder == client => None,
            _ => continue,
        };
        done[at] = true;
        if search(operations, done, after, met) {
            return true;
        }
        done[at] = false;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn op(client: usize, op: Op, call: usize, ret: usize) -> Operation {
        Operation { client, op, call, ret }
    }

    #[test]
    fn one_after_the_other_is_right_and_both_at_once_is_not() {
        let one = [op(0, Op::Acquire, 1, 1), op(0, Op::End, 2, 2), op(1, Op::Acquire, 3, 3)];
        assert!(is_linearizable(&one));
        let both = [op(0, Op::Acquire, 1, 1), op(1, Op::Acquire, 2, 2), op(0, Op::End, 3, 3)];
        assert!(!is_linearizable(&both));
    }

    #[test]
    fn whoever_hears_late_may_have_got_it_late() {
        let late = [op(0, Op::Acquire, 1, 9), op(1, Op::Acquire, 2, 3), op(1, Op::End, 4, 4), op(0, Op::End, 10, 10)];
        assert!(is_linearizable(&late));
        let too_late = [op(0, Op::Acquire, 1, 5), op(1, Op::Acquire, 2, 3), op(1, Op::End, 6, 6)];
        assert!(!is_linearizable(&too_late));
    }
}
