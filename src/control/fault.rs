//! Faults: rules that say which command goes wrong, and how.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::pattern::{Arrival, Pattern};
use super::stop::Stop;
use crate::clock::Clock;
use crate::duration::spell_duration;

/// How many rules there can be.
const MOST_RULES: usize = 10_000;

/// What happens to a command that a rule has picked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It does not run; the client gets this error line (`ERR ...`).
    Error(Vec<u8>),
    /// It runs later, by the server's clock.
    Delay(Duration),
    /// It never runs: the connection is closed.
    CloseBefore,
    /// It runs, and the connection is closed instead of a reply.
    CloseAfter,
    /// It runs; the connection is closed after so many bytes of the reply.
    Truncate(usize),
    /// It gets no reply and does not run, until the client gives up or the rule goes.
    Hang,
    /// It runs; the reply comes so many bytes at a time, by the server's clock.
    Drip {
        /// How many at a time.
        bytes: usize,
        /// How long it takes until the next.
        every: Duration,
    },
    /// It never runs: the connection is reset (TCP RST).
    Reset,
    /// No command: new connections are reset as soon as they are made.
    Refuse,
    /// Nobody's commands run and nobody gets a reply, until the rule goes.
    Pause,
}

impl Verdict {
    /// As it is written on the wire.
    pub(crate) fn words(&self) -> Vec<Vec<u8>> {
        let word = |word: &str| word.as_bytes().to_vec();
        match self {
            Self::Error(line) => vec![word("error"), line.clone()],
            Self::Delay(duration) => vec![word("delay"), spell_duration(*duration).into_bytes()],
            Self::CloseBefore => vec![word("close-before")],
            Self::CloseAfter => vec![word("close-after")],
            Self::Truncate(bytes) => vec![word("truncate"), bytes.to_string().into_bytes()],
            Self::Hang => vec![word("hang")],
            Self::Drip { bytes, every } => {
                vec![word("drip"), bytes.to_string().into_bytes(), word("every"), spell_duration(*every).into_bytes()]
            }
            Self::Reset => vec![word("reset")],
            Self::Refuse => vec![word("refuse")],
            Self::Pause => vec![word("pause")],
        }
    }

    /// Whether it is about commands, one by one; a pause is about all of them.
    fn concerns_commands(&self) -> bool {
        !matches!(self, Self::Refuse)
    }
}

/// What is to go wrong, before it is armed.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// What the rule is called; no two have the same name.
    pub name: String,
    /// Which commands it is about.
    pub pattern: Pattern,
    /// The first match that it fires at: 1 is the very first.
    pub nth: u64,
    /// How often it fires at most; `None`: without end.
    pub times: Option<u64>,
    /// How likely it fires when it could, from 0 to 1.
    pub probability: f64,
    /// Where its chances begin: the same seed, the same draws.
    pub seed: u64,
    /// What goes wrong.
    pub verdict: Verdict,
}

impl Fault {
    /// A fault that every command meets, every time.
    pub fn new(name: impl Into<String>, verdict: Verdict) -> Self {
        Self { name: name.into(), pattern: Pattern::any(), nth: 1, times: None, probability: 1.0, seed: 0, verdict }
    }

    /// Only these commands.
    pub fn of(mut self, pattern: Pattern) -> Self {
        self.pattern = pattern;
        self
    }

    /// Only this match, counted from 1, unless [`times`](Self::times) says that more follow.
    pub fn nth(mut self, nth: u64) -> Self {
        self.nth = nth;
        self.times = self.times.or(Some(1));
        self
    }

    /// So often at most.
    pub fn times(mut self, times: u64) -> Self {
        self.times = Some(times);
        self
    }

    /// With so much of a chance each time, from 0 to 1. The same seed draws the same chances.
    pub fn probability(mut self, probability: f64, seed: u64) -> Self {
        (self.probability, self.seed) = (probability, seed);
        self
    }

    /// The rule as it is written on the wire, without its name.
    pub(crate) fn words(&self) -> Vec<Vec<u8>> {
        let mut words = self.pattern.words();
        let mut option = |name: &str, value: String| words.extend([name.as_bytes().to_vec(), value.into_bytes()]);
        if self.nth != 1 {
            option("nth", self.nth.to_string());
        }
        if let Some(times) = self.times {
            option("times", times.to_string());
        }
        if self.probability < 1.0 {
            option("probability", self.probability.to_string());
        }
        if self.seed != 0 {
            option("seed", self.seed.to_string());
        }
        words.extend(self.verdict.words());
        words
    }
}

/// A fault that is armed.
pub struct Rule {
    pub fault: Fault,
    matched: AtomicU64,
    fired: AtomicU64,
    /// The state of its chances.
    chances: AtomicU64,
    /// Where the commands wait that hang because of it.
    pub stop: Arc<Stop>,
}

impl Rule {
    fn new(fault: Fault) -> Self {
        let chances = AtomicU64::new(fault.seed);
        Self { fault, matched: AtomicU64::new(0), fired: AtomicU64::new(0), chances, stop: Arc::default() }
    }

    /// How many commands it was about.
    pub fn matched(&self) -> u64 {
        self.matched.load(Ordering::Relaxed)
    }

    /// How many of those went wrong.
    pub fn fired(&self) -> u64 {
        self.fired.load(Ordering::Relaxed)
    }

    /// Counts a match; whether the rule fires at it. Only called by one at a time.
    fn fires(&self) -> bool {
        let matched = self.matched.fetch_add(1, Ordering::Relaxed) + 1;
        let is_due = matched >= self.fault.nth
            && self.fault.times.is_none_or(|times| self.fired() < times)
            && (self.fault.probability >= 1.0 || self.draw() < self.fault.probability);
        if is_due {
            self.fired.fetch_add(1, Ordering::Relaxed);
        }
        is_due
    }

    /// A number from 0 up to 1, by SplitMix64.
    fn draw(&self) -> f64 {
        let state =
            self.chances.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed).wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// The rules of a server, in the order in which they were added.
#[derive(Default)]
pub struct Faults(Mutex<Vec<Arc<Rule>>>);

impl Faults {
    /// Arms a fault. The error says why not.
    pub fn add(&self, fault: Fault) -> Result<Arc<Rule>, String> {
        let mut rules = self.rules();
        if rules.iter().any(|rule| rule.fault.name == fault.name) {
            return Err(format!("there is a fault '{}' already", fault.name));
        }
        if rules.len() >= MOST_RULES {
            return Err(format!("there are {MOST_RULES} faults already, which is the most there can be"));
        }
        let rule = Arc::new(Rule::new(fault));
        rules.push(Arc::clone(&rule));
        Ok(rule)
    }

    /// Takes a rule away, and lets go whoever hangs because of it.
    pub fn remove(&self, name: &str, clock: &Arc<Clock>) -> Option<Arc<Rule>> {
        let mut rules = self.rules();
        let place = rules.iter().position(|rule| rule.fault.name == name)?;
        let rule = rules.remove(place);
        drop(rules);
        rule.stop.open(clock);
        Some(rule)
    }

    /// As [`remove`](Self::remove), for one that may have been removed by now; whether it was there.
    pub fn remove_this(&self, rule: &Arc<Rule>, clock: &Arc<Clock>) -> bool {
        let mut rules = self.rules();
        let before = rules.len();
        rules.retain(|other| !Arc::ptr_eq(other, rule));
        let is_gone = rules.len() < before;
        drop(rules);
        rule.stop.open(clock);
        is_gone
    }

    /// Takes all rules away, and lets go whoever hangs.
    pub fn clear(&self, clock: &Arc<Clock>) -> Vec<Arc<Rule>> {
        let rules = std::mem::take(&mut *self.rules());
        for rule in &rules {
            rule.stop.open(clock);
        }
        rules
    }

    pub fn is_empty(&self) -> bool {
        self.rules().is_empty()
    }

    pub fn all(&self) -> Vec<Arc<Rule>> {
        self.rules().clone()
    }

    /// The rule that a command meets: the first that fires. `inside` are the commands of the transaction that it runs,
    /// which no error is for here: that one comes when they run.
    pub fn judge(&self, arrival: &Arrival<'_>, inside: &[Arrival<'_>]) -> Option<Arc<Rule>> {
        let concerns = |rule: &Rule| {
            let fault = &rule.fault;
            let is_error = matches!(fault.verdict, Verdict::Error(_));
            fault.verdict.concerns_commands()
                && (fault.pattern.matches(arrival)
                    || !is_error && inside.iter().any(|arrival| fault.pattern.matches(arrival)))
        };
        self.rules().iter().find(|rule| concerns(rule) && rule.fires()).cloned()
    }

    /// The error that a command inside a transaction or script meets.
    pub fn judge_inside(&self, arrival: &Arrival<'_>) -> Option<Arc<Rule>> {
        let concerns =
            |rule: &Rule| matches!(rule.fault.verdict, Verdict::Error(_)) && rule.fault.pattern.matches(arrival);
        self.rules().iter().find(|rule| concerns(rule) && rule.fires()).cloned()
    }

    /// Whether a new connection is to be refused.
    pub fn refuse(&self) -> bool {
        self.rules().iter().any(|rule| rule.fault.verdict == Verdict::Refuse && rule.fires())
    }

    /// The names of the rules that never fired.
    pub fn unfired(&self) -> Vec<String> {
        self.rules().iter().filter(|rule| rule.fired() == 0).map(|rule| rule.fault.name.clone()).collect()
    }

    fn rules(&self) -> MutexGuard<'_, Vec<Arc<Rule>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Words on one line, with quotes where a word would be read as several.
pub fn line_of(words: &[Vec<u8>]) -> String {
    let mut line = String::new();
    for word in words {
        if !line.is_empty() {
            line.push(' ');
        }
        let plain = !word.is_empty() && word.iter().all(|byte| byte.is_ascii_graphic() && *byte != b'"');
        let _ = match plain {
            true => write!(line, "{}", String::from_utf8_lossy(word)),
            false => write!(line, "\"{}\"", word.escape_ascii()),
        };
    }
    line
}

#[cfg(test)]
mod tests {
    use smallvec::smallvec;

    use super::*;

    fn set() -> Arrival<'static> {
        Arrival { container: None, name: "SET", keys: smallvec![], client: 1, client_name: b"", db: 0 }
    }

    fn fired(fault: Fault, matches: usize) -> Vec<bool> {
        let faults = Faults::default();
        faults.add(fault).unwrap();
        (0..matches).map(|_| faults.judge(&set(), &[]).is_some()).collect()
    }

    #[test]
    fn a_rule_fires_from_its_nth_match_on_and_so_many_times() {
        let fault = Fault { nth: 2, times: Some(2), ..Fault::new("f", Verdict::Hang) };
        assert_eq!(fired(fault, 5), [false, true, true, false, false]);
    }

    #[test]
    fn the_same_seed_draws_the_same_chances() {
        let fault = || Fault { probability: 0.5, seed: 9, ..Fault::new("f", Verdict::Hang) };
        let draws = fired(fault(), 200);
        assert_eq!(draws, fired(fault(), 200));
        assert_ne!(draws, fired(Fault { seed: 10, ..fault() }, 200));
        let count = draws.iter().filter(|fired| **fired).count();
        assert!((70..130).contains(&count), "{count}");
    }

    #[test]
    fn the_first_rule_that_fires_decides() {
        let faults = Faults::default();
        faults.add(Fault { times: Some(1), ..Fault::new("first", Verdict::Hang) }).unwrap();
        faults.add(Fault::new("second", Verdict::Reset)).unwrap();
        assert_eq!(faults.judge(&set(), &[]).unwrap().fault.name, "first");
        assert_eq!(faults.judge(&set(), &[]).unwrap().fault.name, "second");
        assert!(faults.unfired().is_empty());
    }

    #[test]
    fn an_error_is_for_the_command_itself_and_the_rest_for_its_transaction() {
        let faults = Faults::default();
        faults
            .add(Fault { pattern: Pattern::any().command("SET"), ..Fault::new("e", Verdict::Error(Vec::new())) })
            .unwrap();
        let exec = Arrival { name: "EXEC", ..set() };
        assert!(faults.judge(&exec, &[set()]).is_none());
        assert!(faults.judge_inside(&set()).is_some());
        faults.add(Fault { pattern: Pattern::any().command("SET"), ..Fault::new("h", Verdict::Hang) }).unwrap();
        assert!(faults.judge(&exec, &[set()]).is_some());
    }
}
