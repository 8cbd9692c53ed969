//! The latency monitor: when the server was slow, and how slow, by event.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use crate::base::sync::MutexExt;

/// The most samples of an event that are kept.
const MOST: usize = 160;

/// What can be slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LatencyEvent {
    Command,
    FastCommand,
    ExpireCycle,
    /// Eviction, as long as it took at once.
    EvictionCycle,
    /// The removal of the keys that it chose.
    EvictionDel,
}

impl LatencyEvent {
    pub fn name(self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::FastCommand => "fast-command",
            Self::ExpireCycle => "expire-cycle",
            Self::EvictionCycle => "eviction-cycle",
            Self::EvictionDel => "eviction-del",
        }
    }
}

/// How slow the server was at one time, in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatencySample {
    pub time: i64,
    pub millis: u64,
}

/// The samples of one event, oldest first; of each second the slowest.
#[derive(Clone, Debug, Default)]
pub struct LatencySeries {
    pub samples: Vec<LatencySample>,
    /// The slowest ever, in milliseconds.
    pub worst: u64,
    /// The sum of all, and their number, including those that are not kept.
    pub sum: u64,
    pub count: u64,
}

impl LatencySeries {
    fn add(&mut self, time: i64, millis: u64) {
        self.worst = self.worst.max(millis);
        self.sum += millis;
        self.count += 1;
        match self.samples.last_mut().filter(|last| last.time == time) {
            Some(last) => last.millis = last.millis.max(millis),
            None => {
                if self.samples.len() == MOST {
                    self.samples.remove(0);
                }
                self.samples.push(LatencySample { time, millis });
            }
        }
    }

    /// The slowest and the fastest of the samples.
    pub fn range(&self) -> (u64, u64) {
        let millis = || self.samples.iter().map(|sample| sample.millis);
        (millis().max().unwrap_or(0), millis().min().unwrap_or(0))
    }

    /// The average of the samples, and how far they are from it on average.
    pub fn average(&self) -> (u64, u64) {
        let count = (self.samples.len() as u64).max(1);
        let average = self.samples.iter().map(|sample| sample.millis).sum::<u64>() / count;
        let deviations: u64 = self.samples.iter().map(|sample| sample.millis.abs_diff(average)).sum();
        (average, deviations / count)
    }
}

/// The events of one server.
#[derive(Default)]
pub struct LatencyMonitor {
    events: Mutex<BTreeMap<LatencyEvent, LatencySeries>>,
}

impl LatencyMonitor {
    /// Adds a sample, at a time in seconds since 1970.
    pub fn add(&self, event: LatencyEvent, time: i64, millis: u64) {
        self.events().entry(event).or_default().add(time, millis);
    }

    /// The samples of all events.
    pub fn all(&self) -> Vec<(LatencyEvent, LatencySeries)> {
        self.events().iter().map(|(event, series)| (*event, series.clone())).collect()
    }

    /// Forgets the events whose names are wanted, and returns how many there were.
    pub fn forget(&self, mut is_wanted: impl FnMut(&str) -> bool) -> usize {
        let mut events = self.events();
        let before = events.len();
        events.retain(|event, _| !is_wanted(event.name()));
        before - events.len()
    }

    fn events(&self) -> MutexGuard<'_, BTreeMap<LatencyEvent, LatencySeries>> {
        self.events.lock_ignoring_poison()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_each_second_the_slowest_is_kept_and_of_all_the_newest() {
        let mut series = LatencySeries::default();
        for second in 0..200 {
            series.add(second, 5);
            series.add(second, 9);
            series.add(second, 7);
        }
        assert_eq!((series.samples.len(), series.count, series.worst), (MOST, 600, 9));
        assert_eq!(series.samples[0], LatencySample { time: 40, millis: 9 });
        assert_eq!((series.range(), series.average()), ((9, 9), (9, 0)));
    }
}
