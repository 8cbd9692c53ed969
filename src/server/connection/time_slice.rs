//! How long one connection runs requests before the others are served.
//!
//! Redis serves the others behind every 16 KiB of a client's requests, however long these take. A time slice is bounded by its time
//! instead: short requests are not interrupted, and those that take long do not add up. Decision 36 has figures.

/// A time slice of so many microseconds ends with the request that runs then.
const LONGEST: i64 = 500;

/// The requests of a connection since it last waited for its client, or for the others.
#[derive(Default)]
pub(super) struct TimeSlice {
    /// When the first and the last request began, in microseconds of the machine's time; 0 if none has.
    first: i64,
    last: i64,
}

impl TimeSlice {
    /// A request that began at this time has run. Returns whether the slice is over. What the request itself took is not counted,
    /// because the clock is read only when one begins.
    #[inline]
    pub(super) fn note(&mut self, began: i64) -> bool {
        if self.first == 0 {
            self.first = began;
        }
        self.last = began;
        self.is_over()
    }

    #[inline]
    pub(super) fn is_over(&self) -> bool {
        self.last.wrapping_sub(self.first) >= LONGEST
    }

    /// The connection waits: its next request begins another slice.
    #[inline]
    pub(super) fn end(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_is_over_when_a_request_begins_late_in_it_and_the_next_one_is_another() {
        let mut slice = TimeSlice::default();
        assert!(!slice.note(5_000_000) && !slice.note(5_000_499) && !slice.is_over());
        assert!(slice.note(5_000_500) && slice.is_over());
        slice.end();
        assert!(!slice.is_over() && !slice.note(5_000_500));
        // The machine's time was set back.
        assert!(!slice.note(1_000_000) && !slice.note(1_001_000));
    }
}
