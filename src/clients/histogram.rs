//! A histogram of durations with two significant digits, as Redis keeps one of each command.
//!
//! The cells are those of an HdrHistogram from 1 ns to 1 s: 256 cells of 1 ns, then 128 cells for each doubling.

const NANOS: u64 = 1000;
const LEAST: u64 = 1;
const MOST: u64 = 1_000_000_000;
/// The number of cells of a doubling, as a power of two.
const HALF_BITS: u32 = 7;
/// LATENCY HISTOGRAM's first bucket ends here; each further one is twice as large.
const FIRST_BUCKET: u64 = 1024;
/// The end of the last cell.
const LAST: u64 = (1 << 30) - 1;

/// Counts of durations. Only cells that are used take memory, and there are 3,072 at most.
#[derive(Clone, Default)]
pub struct Histogram {
    /// Each cell that is used, ascending: the lowest duration in it, in nanoseconds, and the count.
    cells: Vec<(u64, u64)>,
}

/// The width of the cells around a duration, as a power of two.
fn width_bits(nanos: u64) -> u32 {
    (nanos | 0xff).ilog2().saturating_sub(HALF_BITS)
}

/// The largest duration in the cell of another one.
fn highest(nanos: u64) -> u64 {
    let bits = width_bits(nanos);
    ((nanos >> bits) << bits) + (1 << bits) - 1
}

impl Histogram {
    /// Counts durations in microseconds.
    pub fn record(&mut self, micros: u64, count: u64) {
        if count > 0 {
            let nanos = micros.saturating_mul(NANOS).clamp(LEAST, MOST);
            let bits = width_bits(nanos);
            self.add((nanos >> bits) << bits, count);
        }
    }

    fn add(&mut self, cell: u64, count: u64) {
        match self.place_of(cell) {
            Ok(at) => self.cells[at].1 += count,
            Err(at) => self.cells.insert(at, (cell, count)),
        }
    }

    fn place_of(&self, cell: u64) -> Result<usize, usize> {
        self.cells.binary_search_by_key(&cell, |(lowest, _)| *lowest)
    }

    pub fn merge(&mut self, other: &Self) {
        for &(cell, count) in &other.cells {
            self.add(cell, count);
        }
    }

    pub fn subtract(&mut self, before: &Self) {
        for &(cell, count) in &before.cells {
            if let Ok(at) = self.place_of(cell) {
                self.cells[at].1 = self.cells[at].1.saturating_sub(count);
            }
        }
        self.cells.retain(|(_, count)| *count > 0);
    }

    pub fn count(&self) -> u64 {
        self.cells.iter().map(|(_, count)| count).sum()
    }

    /// The duration in microseconds that so many percent of the counted ones do not exceed.
    pub fn percentile(&self, percent: f64) -> f64 {
        let wanted = ((percent.min(100.0) / 100.0 * self.count() as f64 + 0.5) as u64).max(1);
        let mut total = 0;
        for (cell, count) in &self.cells {
            total += count;
            if total >= wanted {
                let nanos = if percent == 0.0 { *cell } else { highest(*cell) };
                return nanos as f64 / NANOS as f64;
            }
        }
        0.0
    }

    /// The buckets of LATENCY HISTOGRAM: the longest duration of each in microseconds, with the number of calls that took
    /// no longer. Empty buckets are left out.
    pub fn buckets(&self) -> Vec<(u64, u64)> {
        let mut buckets: Vec<(u64, u64)> = Vec::new();
        let mut total = 0;
        for &(cell, count) in &self.cells {
            total += count;
            let mut end = FIRST_BUCKET;
            while cell > end {
                end *= 2;
            }
            let micros = highest(end).min(LAST) / NANOS;
            match buckets.last_mut().filter(|(last, _)| *last == micros) {
                Some((_, sum)) => *sum = total,
                None => buckets.push((micros, total)),
            }
        }
        buckets
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_have_the_digits_that_redis_prints() {
        let percentile = |micros: u64| {
            let mut histogram = Histogram::default();
            histogram.record(micros, 1);
            histogram.percentile(50.0)
        };
        // As a real server printed them for single calls.
        for (micros, shown) in
            [(0, 0.001), (1, 1.003), (8, 8.031), (10, 10.047), (11, 11.007), (12, 12.031), (22, 22.015), (24, 24.063)]
        {
            assert!((percentile(micros) - shown).abs() < 1e-9, "{micros}: {}", percentile(micros));
        }
    }

    #[test]
    fn buckets_are_cumulative_and_end_at_powers_of_two() {
        let mut histogram = Histogram::default();
        for micros in [0, 0, 1, 3, 5, 300_000] {
            histogram.record(micros, 1);
        }
        assert_eq!(histogram.buckets(), [(1, 3), (4, 4), (8, 5), (541_065, 6)]);
        let before = histogram.clone();
        histogram.record(7, 2);
        histogram.subtract(&before);
        assert_eq!((histogram.count(), histogram.buckets()), (2, vec![(8, 2)]));
    }
}
