//! How much a key is used, for OBJECT and for eviction: when it was last used or, under an LFU policy, how often.

use std::sync::atomic::{AtomicI64, Ordering};

use crate::base::clock::Millis;

/// The last 24 bits count as in Redis.
const CLOCK_BITS: u32 = 0xff_ffff;
/// The counter of a new key: it is not evicted before it had a chance to be used.
const NEW_KEY: u8 = 5;

/// The usage of one key: the second of its last use on the server's clock or, while an LFU policy is selected, the minute
/// in which its counter was last brought up to date (16 bits) and the counter (8 bits). When the policy changes, the bits
/// are read anew, as in Redis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage(u32);

/// `lfu-log-factor` and `lfu-decay-time`.
#[derive(Default)]
pub struct FrequencySettings {
    pub log_factor: AtomicI64,
    pub decay_time: AtomicI64,
}

impl Usage {
    pub fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    #[inline]
    pub fn to_bits(self) -> u32 {
        self.0
    }

    /// Used at this instant.
    #[inline]
    pub fn at(now: Millis) -> Self {
        Self(seconds(now))
    }

    /// Last used so many seconds before an instant.
    pub fn idle_for(now: Millis, idle: i64) -> Self {
        let before = i64::from(seconds(now)) - idle.min(i64::from(CLOCK_BITS));
        Self(u32::try_from(before).unwrap_or(0))
    }

    /// A counter that is up to date.
    pub fn with_frequency(now: Millis, counter: u8) -> Self {
        Self(minute(now) << 8 | u32::from(counter))
    }

    /// The counter of a new key.
    pub fn new_frequency(now: Millis) -> Self {
        Self::with_frequency(now, NEW_KEY)
    }

    /// The later of two uses.
    pub fn latest(self, other: Self) -> Self {
        Self(self.0.max(other.0))
    }

    /// The 24 bits that Redis has.
    pub fn field(self) -> u32 {
        self.0 & CLOCK_BITS
    }

    /// The seconds since the last use. They wrap after 194 days, as in Redis; a clock that was moved back shows none.
    pub fn idle_seconds(self, now: Millis) -> u32 {
        let now = seconds(now);
        if now < self.0 {
            return 0;
        }
        let (now, then) = (now & CLOCK_BITS, self.0 & CLOCK_BITS);
        if now >= then { now - then } else { now + (CLOCK_BITS - then) }
    }

    /// The counter, less one for each `lfu-decay-time` since it was up to date.
    pub fn frequency(self, now: Millis, settings: &FrequencySettings) -> u8 {
        let (now, then) = (minute(now), self.0 >> 8 & 0xffff);
        let elapsed = if now >= then { now - then } else { 0xffff - then + now };
        let counter = (self.0 & 0xff) as u8;
        let periods = match settings.decay_time.load(Ordering::Relaxed) {
            0 => 0,
            minutes => i64::from(elapsed) / minutes,
        };
        counter.saturating_sub(u8::try_from(periods).unwrap_or(u8::MAX))
    }

    /// The usage after one more use. The higher the counter, the less probable is it that it counts; `draw` is a random
    /// number from 0 to below 1.
    pub fn counted(self, now: Millis, settings: &FrequencySettings, draw: f64) -> Self {
        let counter = self.frequency(now, settings);
        let above = f64::from(counter.saturating_sub(NEW_KEY));
        let counts = draw < 1.0 / (above * settings.log_factor.load(Ordering::Relaxed) as f64 + 1.0);
        Self::with_frequency(now, counter.saturating_add(u8::from(counts)))
    }
}

#[inline]
fn seconds(now: Millis) -> u32 {
    (now.cast_unsigned() / 1000) as u32
}

fn minute(now: Millis) -> u32 {
    (seconds(now) / 60) & 0xffff
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Millis = 60_000;

    fn settings(log_factor: i64, decay_time: i64) -> FrequencySettings {
        FrequencySettings { log_factor: log_factor.into(), decay_time: decay_time.into() }
    }

    #[test]
    fn a_counter_loses_one_for_each_period_without_use_and_stops_at_zero() {
        let used = Usage::with_frequency(MINUTE, 10);
        for (minutes, decay, left) in [(0, 1, 10), (3, 1, 7), (3, 2, 9), (9, 3, 7), (500, 1, 0), (500, 0, 10)] {
            assert_eq!(used.frequency(MINUTE + minutes * MINUTE, &settings(10, decay)), left, "{minutes} {decay}");
        }
        // The minutes wrap after 45 days.
        let late = Usage::with_frequency(0xffff * MINUTE, 10);
        assert_eq!(late.frequency(0x1_0002 * MINUTE, &settings(10, 1)), 8);
    }

    #[test]
    fn a_high_counter_seldom_counts_and_never_passes_255() {
        let (ten, now) = (settings(10, 1), MINUTE);
        let next = |counter, draw| Usage::with_frequency(now, counter).counted(now, &ten, draw).frequency(now, &ten);
        assert_eq!([next(0, 0.999), next(5, 0.999), next(6, 0.09), next(6, 0.1), next(255, 0.0)], [1, 6, 7, 6, 255]);
        assert_eq!(Usage::with_frequency(now, 200).counted(now, &settings(0, 1), 0.999).field() & 0xff, 201);
    }

    #[test]
    fn idle_time_wraps_as_in_redis_and_is_none_when_the_clock_was_moved_back() {
        let now = 0x6500_1000 * 1000;
        assert_eq!(Usage::at(now - 5000).idle_seconds(now), 5);
        assert_eq!(Usage::at(now + 5000).idle_seconds(now), 0);
        assert_eq!(Usage::idle_for(now, 1000).idle_seconds(now), 1000);
        assert_eq!(Usage::idle_for(now, i64::MAX).idle_seconds(now), 0xff_fffe);
        assert_eq!(Usage::at(now - 0x100_0001 * 1000).idle_seconds(now), 1);
    }
}
