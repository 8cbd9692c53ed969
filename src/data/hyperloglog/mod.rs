//! HyperLogLogs: an estimate of how many different elements were added, in a few kilobytes. The value is a string in
//! Redis's own format, which GET returns and SET accepts.
//!
//! A header of sixteen bytes (`HYLL`, the encoding, three unused bytes, and the cached count with a bit that marks it
//! stale) precedes 16,384 registers. *Dense* registers are six bits each. *Sparse* ones are run-length encoded, as long
//! as that is shorter.

mod estimate;
mod murmur;
mod sparse;

use estimate::estimate;
use murmur::murmur;
use sparse::Runs;

/// The number of hash bits that select the register.
const INDEX_BITS: u32 = 14;
pub const REGISTERS: usize = 1 << INDEX_BITS;
const REGISTER_BITS: usize = 6;
const REGISTER_MAX: u8 = (1 << REGISTER_BITS) - 1;
/// The hash bits whose trailing zeros are counted. The highest register value is one more.
const COUNTED_BITS: usize = (u64::BITS - INDEX_BITS) as usize;

const MAGIC: &[u8] = b"HYLL";
const HEADER: usize = 16;
const DENSE_SIZE: usize = HEADER + REGISTERS * REGISTER_BITS / 8;
/// Dense registers are read in groups of eight, which fill whole bytes.
const GROUP: usize = 8;
const GROUP_BYTES: usize = GROUP * REGISTER_BITS / 8;
const ENCODING: usize = 4;
const COUNT: std::ops::Range<usize> = 8..16;
/// The stale bit, in the last byte of the cached count.
const STALE: u8 = 1 << 7;

const SEED: u64 = 0xadc8_3b19;

/// The encoding of the registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    Dense,
    Sparse,
}

/// The header is valid, but the registers are not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Corrupt;

/// An empty HyperLogLog.
pub fn empty() -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER + sparse::EMPTY.len());
    bytes.extend_from_slice(MAGIC);
    bytes.push(Encoding::Sparse as u8);
    bytes.resize(HEADER, 0);
    bytes.extend_from_slice(&sparse::EMPTY);
    bytes
}

/// The encoding of a string's registers, if it has the header of a HyperLogLog.
pub fn encoding(bytes: &[u8]) -> Option<Encoding> {
    if bytes.len() < HEADER || !bytes.starts_with(MAGIC) {
        return None;
    }
    match bytes[ENCODING] {
        0 => (bytes.len() == DENSE_SIZE).then_some(Encoding::Dense),
        1 => Some(Encoding::Sparse),
        _ => None,
    }
}

/// The cached count, unless it is stale.
pub fn kept_count(bytes: &[u8]) -> Option<u64> {
    let kept = bytes.get(COUNT)?;
    let count = u64::from_le_bytes(kept.try_into().ok()?);
    (kept[7] & STALE == 0).then_some(count)
}

/// Caches a count in the header.
pub fn keep_count(bytes: &mut [u8], count: u64) {
    if let Some(kept) = bytes.get_mut(COUNT) {
        kept.copy_from_slice(&count.to_le_bytes());
    }
}

/// Marks the cached count as stale.
pub fn outdate(bytes: &mut [u8]) {
    if let Some(last) = bytes.get_mut(COUNT.end - 1) {
        *last |= STALE;
    }
}

/// Adds an element. Returns whether a register changed. Converts sparse registers to dense ones when they would take
/// more than `longest` bytes, or when a value is too large for a run.
pub fn add(bytes: &mut Vec<u8>, element: &[u8], longest: usize) -> Result<bool, Corrupt> {
    let hash = murmur(element, SEED);
    let index = hash as usize % REGISTERS;
    // The guard bit ends the zeros of a hash without any other bit.
    let rest = hash >> INDEX_BITS | 1 << COUNTED_BITS;
    raise(bytes, index, rest.trailing_zeros() as u8 + 1, longest)
}

/// Raises one register to a value. Returns whether it was lower before.
fn raise(bytes: &mut Vec<u8>, index: usize, value: u8, longest: usize) -> Result<bool, Corrupt> {
    if bytes[ENCODING] == Encoding::Dense as u8 {
        return Ok(raise_dense(&mut bytes[HEADER..], index, value));
    }
    match sparse::raise(bytes, index, value, longest)? {
        Some(raised) => Ok(raised),
        None => {
            make_dense(bytes)?;
            Ok(raise_dense(&mut bytes[HEADER..], index, value))
        }
    }
}

/// Converts to the dense encoding. Returns whether the encoding was sparse before.
pub fn make_dense(bytes: &mut Vec<u8>) -> Result<bool, Corrupt> {
    if bytes[ENCODING] == Encoding::Dense as u8 {
        return Ok(false);
    }
    let mut dense = vec![0; DENSE_SIZE];
    dense[..HEADER].copy_from_slice(&bytes[..HEADER]);
    dense[ENCODING] = Encoding::Dense as u8;
    let registers = &mut dense[HEADER..];
    sparse::each_register(&bytes[HEADER..], |index, value| write_dense(registers, index, value))?;
    *bytes = dense;
    Ok(true)
}

/// The estimated number of different elements.
pub fn count(bytes: &[u8]) -> Result<u64, Corrupt> {
    let registers = &bytes[HEADER..];
    if bytes[ENCODING] == Encoding::Dense as u8 {
        return Ok(estimate(&histogram(groups(registers))));
    }
    let mut histogram = [0; REGISTER_MAX as usize + 1];
    let mut index = 0;
    for run in Runs::of(registers) {
        histogram[usize::from(run.value)] += run.length;
        index += run.length;
    }
    if index != REGISTERS {
        return Err(Corrupt);
    }
    Ok(estimate(&histogram))
}

/// The runs of sparse registers as text: `z` and `Z` for short and long runs of zeros, `v` for values.
pub fn describe_runs(bytes: &[u8]) -> String {
    let words: Vec<String> = Runs::of(&bytes[HEADER..])
        .map(|run| match (run.value, run.size) {
            (0, 1) => format!("z:{}", run.length),
            (0, _) => format!("Z:{}", run.length),
            (value, _) => format!("v:{value},{}", run.length),
        })
        .collect();
    words.join(" ")
}

/// The register values of a dense HyperLogLog.
pub fn dense_registers(bytes: &[u8]) -> impl Iterator<Item = u8> {
    groups(&bytes[HEADER..]).flatten()
}

/// The union of several HyperLogLogs: the maximum of each register.
pub struct Union {
    registers: Box<[u8]>,
}

impl Union {
    pub fn new() -> Self {
        Self { registers: vec![0; REGISTERS].into() }
    }

    pub fn add(&mut self, bytes: &[u8]) -> Result<(), Corrupt> {
        let (registers, added) = (&mut self.registers, &bytes[HEADER..]);
        if bytes[ENCODING] == Encoding::Dense as u8 {
            for (registers, added) in registers.as_chunks_mut::<GROUP>().0.iter_mut().zip(groups(added)) {
                for (register, added) in registers.iter_mut().zip(added) {
                    *register = added.max(*register);
                }
            }
            return Ok(());
        }
        sparse::each_register(added, |index, value| registers[index] = registers[index].max(value))
    }

    pub fn count(&self) -> u64 {
        estimate(&histogram(self.registers.as_chunks::<GROUP>().0.iter().copied()))
    }

    /// Raises the registers of a HyperLogLog to the union's. A corrupt one keeps what was raised before the corruption
    /// was found.
    pub fn write_to(&self, bytes: &mut Vec<u8>, longest: usize) {
        for (index, &value) in self.registers.iter().enumerate().filter(|(_, value)| **value > 0) {
            if raise(bytes, index, value, longest).is_err() {
                return;
            }
        }
    }
}

/// The dense registers in groups, one byte for each register.
#[inline]
fn groups(registers: &[u8]) -> impl Iterator<Item = [u8; GROUP]> {
    registers.as_chunks::<GROUP_BYTES>().0.iter().map(|&group| unpack(group))
}

/// Spreads a group: two fields of 24 bits become four of 12, and these eight of 6.
#[inline]
fn unpack([a, b, c, d, e, f]: [u8; GROUP_BYTES]) -> [u8; GROUP] {
    let fields = u64::from(u32::from_le_bytes([a, b, c, 0])) | u64::from(u32::from_le_bytes([d, e, f, 0])) << 32;
    let fields = fields & 0x0000_0fff_0000_0fff | (fields & 0x00ff_f000_00ff_f000) << 4;
    let fields = fields & 0x003f_003f_003f_003f | (fields & 0x0fc0_0fc0_0fc0_0fc0) << 2;
    fields.to_le_bytes()
}

/// The number of registers per value.
#[inline]
fn histogram(groups: impl Iterator<Item = [u8; GROUP]>) -> [usize; REGISTER_MAX as usize + 1] {
    // Neighbours often have the same value. With counts of their own they do not wait for each other.
    let mut counts = [[0_u32; REGISTER_MAX as usize + 1]; 4];
    for group in groups {
        for (at, register) in group.into_iter().enumerate() {
            counts[at % 4][usize::from(register & REGISTER_MAX)] += 1;
        }
    }
    std::array::from_fn(|value| counts.iter().map(|counts| counts[value] as usize).sum())
}

/// The byte and the bit at which a dense register begins.
fn place(index: usize) -> (usize, u32) {
    let bit = index * REGISTER_BITS;
    (bit / 8, (bit % 8) as u32)
}

/// The two bytes that contain a dense register; the last register needs only one.
fn word(registers: &[u8], byte: usize) -> u16 {
    u16::from(registers[byte]) | u16::from(registers.get(byte + 1).copied().unwrap_or(0)) << 8
}

#[inline]
fn read_dense(registers: &[u8], index: usize) -> u8 {
    let (byte, bit) = place(index);
    (word(registers, byte) >> bit) as u8 & REGISTER_MAX
}

#[inline]
fn write_dense(registers: &mut [u8], index: usize, value: u8) {
    let (byte, bit) = place(index);
    let word = word(registers, byte) & !(u16::from(REGISTER_MAX) << bit) | u16::from(value) << bit;
    registers[byte] = word as u8;
    if let Some(second) = registers.get_mut(byte + 1) {
        *second = (word >> 8) as u8;
    }
}

fn raise_dense(registers: &mut [u8], index: usize, value: u8) -> bool {
    let raised = value > read_dense(registers, index);
    if raised {
        write_dense(registers, index, value);
    }
    raised
}

/// PFSELFTEST's checks: registers keep what is written, both encodings agree, and the estimates are within tolerance,
/// with sparse registers of at most `longest` bytes. The error says what failed.
pub fn self_test(longest: usize) -> Result<(), String> {
    check_registers()?;
    check_counts(200_000, longest)
}

fn check_registers() -> Result<(), String> {
    let mut registers = vec![0; DENSE_SIZE - HEADER];
    for round in 0..64 {
        let value = |index: usize| murmur(&index.to_le_bytes(), round) as u8 & REGISTER_MAX;
        for index in 0..REGISTERS {
            write_dense(&mut registers, index, value(index));
        }
        for index in 0..REGISTERS {
            let (wanted, found) = (value(index), read_dense(&registers, index));
            if wanted != found {
                return Err(format!("Register {index} should be {wanted} but is {found}"));
            }
        }
    }
    Ok(())
}

fn check_counts(most: u64, longest: usize) -> Result<(), String> {
    let error = |_| "Corrupted HLL object detected".to_owned();
    let (mut sparse, mut dense) = (empty(), empty());
    make_dense(&mut dense).map_err(error)?;
    let mut checkpoint = 1;
    for added in 1..=most {
        let element = murmur(&added.to_le_bytes(), 0).to_le_bytes();
        add(&mut sparse, &element, longest).map_err(error)?;
        add(&mut dense, &element, 0).map_err(error)?;
        if added != checkpoint && added != most {
            continue;
        }
        checkpoint *= 10;
        if added < longest as u64 / 2 && encoding(&sparse) != Some(Encoding::Sparse) {
            return Err("sparse encoding not used".to_owned());
        }
        let (one, other) = (count(&sparse).map_err(error)?, count(&dense).map_err(error)?);
        if one != other {
            return Err("dense/sparse disagree".to_owned());
        }
        // Six standard errors, and at least two elements.
        let tolerated = (1.04 / (REGISTERS as f64).sqrt() * 6.0 * added as f64).ceil().max(2.0);
        if one.abs_diff(added) as f64 > tolerated {
            return Err(format!("Too big error. card:{added} abserr:{}", one.abs_diff(added)));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn it_passes_its_own_test() {
        assert_eq!(self_test(3000), Ok(()));
        assert_eq!(self_test(20), Err("sparse encoding not used".to_owned()));
    }

    #[test]
    fn nothing_counts_as_nothing() {
        assert_eq!((count(&empty()), kept_count(&empty())), (Ok(0), Some(0)));
        let mut dense = empty();
        assert_eq!(make_dense(&mut dense), Ok(true));
        assert_eq!((dense.len(), count(&dense), encoding(&dense)), (12_304, Ok(0), Some(Encoding::Dense)));
    }

    #[test]
    fn only_whole_headers_count() {
        let good = empty();
        assert_eq!(encoding(&good), Some(Encoding::Sparse));
        assert_eq!(encoding(&good[..15]), None);
        assert_eq!(encoding(&[b"hYLL", &good[4..]].concat()), None);
        assert_eq!(encoding(&[b"HYLL\x02", &good[5..]].concat()), None);
        assert_eq!(encoding(&[b"HYLL\x00", &good[5..]].concat()), None);
    }

    proptest! {
        #[test]
        fn sparse_and_dense_tell_the_same(
            elements in prop::collection::vec(0..5000u32, 0..600),
            longest in prop_oneof![Just(0usize), Just(100), Just(3000)],
        ) {
            let (mut sparse, mut dense, mut union) = (empty(), empty(), Union::new());
            make_dense(&mut dense).unwrap();
            for element in &elements {
                let element = element.to_le_bytes();
                prop_assert_eq!(add(&mut sparse, &element, longest), add(&mut dense, &element, longest));
            }
            prop_assert_eq!(count(&sparse), count(&dense));
            union.add(&sparse).unwrap();
            prop_assert_eq!(Ok(union.count()), count(&dense));
            let mut written = empty();
            union.write_to(&mut written, longest);
            make_dense(&mut sparse).unwrap();
            make_dense(&mut written).unwrap();
            prop_assert_eq!(&sparse[HEADER..], &dense[HEADER..]);
            prop_assert_eq!(&written[HEADER..], &dense[HEADER..]);
        }

        #[test]
        fn groups_tell_what_single_registers_do(seeds in prop::collection::vec(any::<u64>(), 1..4)) {
            let (mut union, mut greatest) = (Union::new(), vec![0; REGISTERS]);
            for seed in seeds {
                let mut dense = empty();
                make_dense(&mut dense).unwrap();
                let registers = &mut dense[HEADER..];
                for (byte, at) in registers.iter_mut().zip(0_u64..) {
                    *byte = murmur(&at.to_le_bytes(), seed) as u8;
                }
                let single: Vec<u8> = (0..REGISTERS).map(|index| read_dense(registers, index)).collect();
                let mut histogram = [0; REGISTER_MAX as usize + 1];
                single.iter().for_each(|&register| histogram[usize::from(register)] += 1);
                prop_assert_eq!(count(&dense), Ok(estimate(&histogram)));
                prop_assert_eq!(&dense_registers(&dense).collect::<Vec<_>>(), &single);
                greatest = greatest.into_iter().zip(single).map(|(one, other): (u8, u8)| one.max(other)).collect();
                union.add(&dense).unwrap();
                prop_assert_eq!(&union.registers[..], &greatest);
            }
        }

        #[test]
        fn no_bytes_behind_a_good_header_do_harm(
            tail in prop::collection::vec(any::<u8>(), 0..300),
            elements in prop::collection::vec(any::<u32>(), 0..50),
        ) {
            let mut bytes = [&empty()[..HEADER], &tail].concat();
            let _ = (count(&bytes), describe_runs(&bytes), Union::new().add(&bytes));
            for element in elements {
                let _ = add(&mut bytes, &element.to_le_bytes(), 200);
            }
            let _ = (count(&bytes), make_dense(&mut bytes));
        }
    }
}
