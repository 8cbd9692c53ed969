//! Sparse registers: a sequence of runs, each with a value and a number of registers.
//!
//! One byte `00llllll` stands for up to 64 zeros, two bytes `01llllll llllllll` for up to 16,384 zeros, and one byte
//! `1vvvvvll` for up to four registers with a value of up to 32. Lengths and values are stored minus one.

use arrayvec::ArrayVec;

use super::{Corrupt, HEADER, REGISTERS};

/// All registers zero: one run.
pub(super) const EMPTY: [u8; 2] = [0x7f, 0xff];

const LONG: u8 = 0x40;
const VALUE: u8 = 0x80;
const MOST_SHORT_ZEROS: usize = 64;
const MOST_VALUES: usize = 4;
const HIGHEST_VALUE: u8 = 32;

/// The number of runs that are tried for a merge after a change.
const MERGED: usize = 5;

/// Consecutive registers with the same value.
#[derive(Clone, Copy)]
pub(super) struct Run {
    pub value: u8,
    pub length: usize,
    /// The encoded size in bytes.
    pub size: usize,
}

impl Run {
    #[inline]
    fn read(bytes: &[u8]) -> Option<Self> {
        let first = *bytes.first()?;
        let low = usize::from(first & !(VALUE | LONG));
        Some(if first & VALUE != 0 {
            let length = usize::from(first & 3) + 1;
            Self { value: (first >> 2 & 31) + 1, length, size: 1 }
        } else if first & LONG != 0 {
            // Redis's strings end with a zero byte, which it reads as the missing second byte.
            let second = bytes.get(1).copied().unwrap_or(0);
            Self { value: 0, length: (low << 8 | usize::from(second)) + 1, size: 2 }
        } else {
            Self { value: 0, length: low + 1, size: 1 }
        })
    }
}

/// Iterates over encoded runs.
pub(super) struct Runs<'a>(&'a [u8]);

impl<'a> Runs<'a> {
    pub(super) fn of(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }
}

impl Iterator for Runs<'_> {
    type Item = Run;

    fn next(&mut self) -> Option<Run> {
        let run = Run::read(self.0)?;
        self.0 = self.0.get(run.size..).unwrap_or_default();
        Some(run)
    }
}

/// Calls `visit` with every register that is not zero.
pub(super) fn each_register(bytes: &[u8], mut visit: impl FnMut(usize, u8)) -> Result<(), Corrupt> {
    let mut index = 0;
    for run in Runs::of(bytes) {
        if run.value > 0 {
            if index + run.length > REGISTERS {
                return Err(Corrupt);
            }
            (index..index + run.length).for_each(|index| visit(index, run.value));
        }
        index += run.length;
    }
    if index == REGISTERS { Ok(()) } else { Err(Corrupt) }
}

/// The runs that replace one that is split.
type Parts = ArrayVec<u8, 5>;

fn push_zeros(parts: &mut Parts, length: usize) {
    if length > MOST_SHORT_ZEROS {
        let length = length - 1;
        parts.extend([LONG | (length >> 8) as u8, length as u8]);
    } else if length > 0 {
        parts.push(length as u8 - 1);
    }
}

fn push_values(parts: &mut Parts, value: u8, length: usize) {
    if length > 0 {
        parts.push(VALUE | (value - 1) << 2 | (length as u8 - 1));
    }
}

/// Raises one register to a value. Returns whether it was lower before; `None` if runs cannot express that, or not in
/// `longest` bytes. `bytes` is the whole HyperLogLog.
pub(super) fn raise(bytes: &mut Vec<u8>, index: usize, value: u8, longest: usize) -> Result<Option<bool>, Corrupt> {
    if value > HIGHEST_VALUE {
        return Ok(None);
    }
    let (mut at, mut before, mut first) = (HEADER, HEADER, 0);
    let run = loop {
        let run = bytes.get(at..).and_then(Run::read).ok_or(Corrupt)?;
        if index < first + run.length {
            break run;
        }
        before = at;
        at += run.size;
        first += run.length;
    };
    if run.value >= value {
        return Ok(Some(false));
    }
    let (left, right) = (index - first, first + run.length - 1 - index);
    let mut parts = Parts::new();
    if run.value == 0 {
        push_zeros(&mut parts, left);
        push_values(&mut parts, value, 1);
        push_zeros(&mut parts, right);
    } else {
        push_values(&mut parts, run.value, left);
        push_values(&mut parts, value, 1);
        push_values(&mut parts, run.value, right);
    }
    if parts.len() > run.size && bytes.len() + parts.len() - run.size > longest {
        return Ok(None);
    }
    let end = (at + run.size).min(bytes.len());
    if parts.len() == end - at {
        bytes[at..end].copy_from_slice(&parts);
    } else {
        bytes.splice(at..end, parts);
    }
    merge(bytes, before);
    super::outdate(bytes);
    Ok(Some(true))
}

/// Merges neighbouring runs with the same value where one run can hold both.
fn merge(bytes: &mut Vec<u8>, mut at: usize) {
    for _ in 0..MERGED {
        let Some(run) = bytes.get(at..).and_then(Run::read) else { return };
        let next = bytes.get(at + run.size..).and_then(Run::read);
        match next {
            Some(next) if run.value > 0 && next.value == run.value && run.length + next.length <= MOST_VALUES => {
                bytes[at] += next.length as u8;
                bytes.remove(at + 1);
            }
            _ => at += run.size,
        }
    }
}
