//! Expiry times that clients write as the values of locks.

const DAY: i64 = 86_400_000_000;
/// How far from now a number counts as a timestamp: locks are not held for longer, and clocks do not differ by more.
const FURTHEST: i64 = 2 * DAY;

/// The unit of a timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TimeUnit {
    Seconds,
    /// With digits behind a point.
    Fractions,
    Millis,
    Micros,
    Nanos,
}

impl TimeUnit {
    pub fn name(self) -> &'static str {
        match self {
            Self::Seconds => "seconds",
            Self::Fractions => "seconds with a fraction",
            Self::Millis => "milliseconds",
            Self::Micros => "microseconds",
            Self::Nanos => "nanoseconds",
        }
    }
}

/// A time in a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timestamp {
    pub unit: TimeUnit,
    /// In microseconds since 1970.
    pub micros: i64,
    /// The client goes by real time, while the server's clock shows another time.
    pub by_real_time: bool,
}

impl Timestamp {
    /// The timestamp that a value is, or ends with after a colon, if it is near now: `at` on the server's clock, or
    /// `real` in real time, both in microseconds.
    pub fn in_value(value: &[u8], at: i64, real: i64) -> Option<Self> {
        let last = value.rsplit(|byte| *byte == b':').next().unwrap_or_default();
        let text = std::str::from_utf8(last).ok()?.trim();
        if text.len() < 9 || text.len() > 24 || !text.starts_with(|c: char| c.is_ascii_digit()) {
            return None;
        }
        let near = |unit: TimeUnit, micros: i64| {
            let is_near = |now: i64| (micros.saturating_sub(now)).abs() <= FURTHEST;
            if is_near(at) {
                return Some(Self { unit, micros, by_real_time: false });
            }
            is_near(real).then_some(Self { unit, micros, by_real_time: true })
        };
        if text.contains('.') {
            let seconds: f64 = text.parse().ok()?;
            #[expect(clippy::cast_possible_truncation, reason = "what is too large is not near now")]
            let micros = (seconds * 1e6) as i64;
            return near(TimeUnit::Fractions, micros);
        }
        let number: i64 = text.parse().ok()?;
        near(TimeUnit::Seconds, number.saturating_mul(1_000_000))
            .or_else(|| near(TimeUnit::Millis, number.saturating_mul(1000)))
            .or_else(|| near(TimeUnit::Micros, number))
            .or_else(|| near(TimeUnit::Nanos, number / 1000))
    }

    /// The timestamp in a value that is being written, if it is in the future: by the server's clock, or by real time,
    /// which programs go on using when a test has moved the server's clock.
    pub fn to_come(value: &[u8], at: i64, real: i64) -> Option<Self> {
        let found = Self::in_value(value, at, real)?;
        if !found.is_past(at, real) && found.micros != at {
            return Some(found);
        }
        // The server's present time says when something was.
        let is_now = (0..=1_000_000).contains(&(at - found.micros));
        (found.micros > real && !found.by_real_time && !is_now).then_some(Self { by_real_time: true, ..found })
    }

    /// How many microseconds are left; the lesser number if the client may go by either clock.
    pub fn left(self, at: i64, real: i64) -> i64 {
        let (by_server, by_real) = (self.micros - at, self.micros - real);
        match self.by_real_time {
            true => by_real,
            false if by_real.abs() <= FURTHEST => by_server.min(by_real),
            false => by_server,
        }
    }

    /// Whether the time is past.
    pub fn is_past(self, at: i64, real: i64) -> bool {
        self.micros < if self.by_real_time { real } else { at }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_700_000_000_000_000;

    #[test]
    fn instants_are_found_in_all_units() {
        for (value, unit, micros) in [
            ("1700000010", TimeUnit::Seconds, NOW + 10_000_000),
            ("1700000010.25", TimeUnit::Fractions, NOW + 10_250_000),
            ("1700000010000", TimeUnit::Millis, NOW + 10_000_000),
            ("1700000010000000", TimeUnit::Micros, NOW + 10_000_000),
            ("1700000010000000000", TimeUnit::Nanos, NOW + 10_000_000),
            ("f3c5:1700000010000", TimeUnit::Millis, NOW + 10_000_000),
        ] {
            let found = Timestamp::in_value(value.as_bytes(), NOW, NOW);
            assert_eq!(found, Some(Timestamp { unit, micros, by_real_time: false }), "{value}");
        }
        for value in ["", "1", "token", "17000000100", "f3c51700000010", "99999999999999999999999"] {
            assert_eq!(Timestamp::in_value(value.as_bytes(), NOW, NOW), None, "{value}");
        }
        assert_eq!(Timestamp::to_come(b"1700000000", NOW, NOW), None);
        let unmoved = Timestamp::to_come(b"1700000010", NOW + 60_000_000, NOW).unwrap();
        assert!(unmoved.by_real_time && !unmoved.is_past(NOW + 60_000_000, NOW));
        let moved = Timestamp::in_value(b"1700000010", NOW + 9 * DAY, NOW).unwrap();
        assert!(moved.by_real_time && !moved.is_past(NOW + 9 * DAY, NOW));
    }
}
