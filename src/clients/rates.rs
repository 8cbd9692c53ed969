//! What a server does per second, for INFO's `instantaneous_*`.

use std::sync::Mutex;
use std::time::Duration;

use crate::base::sync::MutexExt;

/// The number of samples that are averaged, ten of them a second.
const SAMPLES: usize = 16;

/// What is sampled: sums since the server began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    pub commands: u64,
    pub input_bytes: u64,
    pub output_bytes: u64,
    pub cycles: u64,
}

#[derive(Default)]
struct Window {
    last: Option<(Duration, Sums)>,
    samples: [Sums; SAMPLES],
    next: usize,
}

/// Averages over the last 1.6 seconds.
#[derive(Default)]
pub struct Rates(Mutex<Window>);

impl Rates {
    /// Adds a sample, at a time since the server began.
    pub fn sample(&self, now: Duration, sums: Sums) {
        let mut window = self.0.lock_ignoring_poison();
        if let Some((before, last)) = window.last {
            let millis = u64::try_from(now.saturating_sub(before).as_millis()).unwrap_or(u64::MAX);
            if millis == 0 {
                return;
            }
            let rate = |now: u64, last: u64| now.saturating_sub(last).saturating_mul(1000) / millis;
            let next = window.next;
            window.samples[next] = Sums {
                commands: rate(sums.commands, last.commands),
                input_bytes: rate(sums.input_bytes, last.input_bytes),
                output_bytes: rate(sums.output_bytes, last.output_bytes),
                cycles: rate(sums.cycles, last.cycles),
            };
            window.next = (next + 1) % SAMPLES;
        }
        window.last = Some((now, sums));
    }

    /// What happens per second.
    pub fn per_second(&self) -> Sums {
        let window = self.0.lock_ignoring_poison();
        let average = |of: fn(&Sums) -> u64| window.samples.iter().map(of).sum::<u64>() / SAMPLES as u64;
        Sums {
            commands: average(|sums| sums.commands),
            input_bytes: average(|sums| sums.input_bytes),
            output_bytes: average(|sums| sums.output_bytes),
            cycles: average(|sums| sums.cycles),
        }
    }

    pub fn reset(&self) {
        *self.0.lock_ignoring_poison() = Window::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_the_average_of_the_last_sixteen_samples() {
        let rates = Rates::default();
        for tick in 0..=32_u32 {
            let commands = u64::from(tick) * 10;
            rates.sample(Duration::from_millis(100) * tick, Sums { commands, ..Sums::default() });
        }
        assert_eq!(rates.per_second(), Sums { commands: 100, ..Sums::default() });
        for tick in 33..41_u32 {
            rates.sample(Duration::from_millis(100) * tick, Sums { commands: 320, ..Sums::default() });
        }
        assert_eq!(rates.per_second().commands, 50);
    }
}
