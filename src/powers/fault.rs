//! Faults: rules that say which command goes wrong, and how.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use super::pattern::{Arrival, Names, Pattern};
use super::wait_queue::WaitQueue;
use crate::base::clock::Clock;
use crate::base::duration::spell_duration;
use crate::base::random;
use crate::base::sync::{MutexExt, RwLockExt};

/// How many rules there can be,
const MOST_RULES: usize = 10_000;
/// and how many bytes the words of one.
const MOST_BYTES: usize = 64 * 1024;
/// How long a name can be.
const LONGEST_NAME: usize = 128;

/// What happens to a command that a rule has picked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It does not run; the client gets this error line. If it does not begin with a code such as `BUSY`, it gets `ERR` in
    /// front.
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
    /// It runs; the reply comes so many bytes at a time, by the server's clock. At least one byte, and some time between.
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
    /// Nobody's commands run and nobody gets a reply, from now on until the rule goes.
    Pause,
}

/// Where a verdict can fall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    /// On a command, also inside a transaction or script.
    Command,
    /// On a request with all that it runs.
    Request,
    /// On a connection.
    Connection,
    /// On everybody.
    Everybody,
}

impl Verdict {
    /// An error: `Verdict::error("BUSY come back later")`.
    pub fn error(line: impl Into<Vec<u8>>) -> Self {
        Self::Error(line.into())
    }

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

    fn reach(&self) -> Reach {
        match self {
            Self::Error(_) => Reach::Command,
            Self::Refuse => Reach::Connection,
            Self::Pause => Reach::Everybody,
            _ => Reach::Request,
        }
    }
}

/// What is to go wrong, before it is armed.
///
/// ```
/// use redouble::{Fault, Pattern, Verdict};
///
/// // The reply to the second SET of a lock is lost.
/// let fault = Fault::new("lost", Verdict::CloseAfter).of(Pattern::any().command("SET").key("lock:*")).nth(2);
/// assert_eq!((fault.nth, fault.times), (2, Some(1)));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// What the rule is called, in up to 128 printable characters without spaces; no two have the same name.
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

    /// Fails for a fault that makes no sense, and says why it makes none.
    fn check(&self) -> Result<(), String> {
        let is_plain = self.nth == 1 && self.times.is_none() && self.probability >= 1.0;
        if !is_name(&self.name) {
            return Err(format!(
                "the name of a fault has 1 to {LONGEST_NAME} printable characters and no spaces; received '{}'",
                self.name.chars().take(LONGEST_NAME).collect::<String>().escape_debug()
            ));
        }
        if self.nth == 0 || self.times == Some(0) {
            return Err("nth and times are at least 1; received 0".to_owned());
        }
        if !(0.0..=1.0).contains(&self.probability) {
            return Err(format!("a probability from 0 to 1 was expected; received {}", self.probability));
        }
        match self.verdict {
            Verdict::Drip { bytes: 0, .. } => return Err("drip sends at least 1 byte at a time".to_owned()),
            Verdict::Drip { every, .. } if every.is_zero() => {
                return Err("drip waits between its parts; received 0ms".to_owned());
            }
            Verdict::Refuse if !self.pattern.is_any() => {
                return Err(
                    "refuse is about new connections, which have no command, key, name or database yet: it takes \
                            nth, times, probability and seed"
                        .to_owned(),
                );
            }
            Verdict::Pause if !self.pattern.is_any() || !is_plain => {
                return Err("pause is about everybody, at once, and takes no conditions; hang is for single commands"
                    .to_owned());
            }
            _ => {}
        }
        let bytes: usize = self.words().iter().map(Vec::len).sum();
        if bytes > MOST_BYTES {
            return Err(format!("the words of a fault have at most {MOST_BYTES} bytes; received {bytes}"));
        }
        Ok(())
    }
}

/// Whether something can be the name of a fault.
fn is_name(name: &str) -> bool {
    (1..=LONGEST_NAME).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic())
}

/// An error line as clients read it: they take the first word for a code.
fn with_code(line: &[u8]) -> Vec<u8> {
    let line = line.strip_prefix(b"-").unwrap_or(line);
    let code = line.split(|byte| byte.is_ascii_whitespace()).next().unwrap_or_default();
    let is_code = code.len() > 1
        && code[0].is_ascii_uppercase()
        && code.iter().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || *byte == b'_');
    if is_code { line.to_vec() } else { [b"ERR ", line].concat() }
}

/// A fault that is armed.
pub struct Rule {
    pub fault: Fault,
    counts: Mutex<Counts>,
    /// Where those wait that hang because of it, are delayed, or get their reply bit by bit.
    pub stop: Arc<WaitQueue>,
}

#[derive(Clone, Copy)]
struct Counts {
    matched: u64,
    fired: u64,
    /// The state of its chances.
    chances: u64,
}

impl Rule {
    fn new(fault: Fault) -> Self {
        let counts = Counts { matched: 0, fired: 0, chances: fault.seed };
        Self { fault, counts: Mutex::new(counts), stop: Arc::default() }
    }

    /// How many commands it was about.
    pub fn matched(&self) -> u64 {
        self.counts().matched
    }

    /// How many of those went wrong.
    pub fn fired(&self) -> u64 {
        self.counts().fired
    }

    /// Counts a match; whether the rule fires at it.
    fn fires(&self) -> bool {
        let Fault { nth, times, probability, .. } = self.fault;
        let mut counts = self.counts();
        counts.matched += 1;
        let is_due = counts.matched >= nth
            && times.is_none_or(|times| counts.fired < times)
            && (probability >= 1.0 || random::next_fraction(&mut counts.chances) < probability);
        counts.fired += u64::from(is_due);
        is_due
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock_ignoring_poison()
    }
}

/// The rules of a server, in the order in which they were added.
#[derive(Default)]
pub struct Faults(RwLock<Vec<Armed>>);

/// A rule, and what tells quickly that it is not meant.
struct Armed {
    names: Names,
    reach: Reach,
    rule: Arc<Rule>,
}

impl Faults {
    /// Arms a fault. The error says why not.
    pub fn add(&self, mut fault: Fault) -> Result<Arc<Rule>, String> {
        fault.check()?;
        if let Verdict::Error(line) = &mut fault.verdict {
            *line = with_code(line);
        }
        let mut rules = self.rules_mut();
        if rules.iter().any(|armed| armed.rule.fault.name == fault.name) {
            return Err(format!("there is a fault '{}' already", fault.name));
        }
        if rules.len() >= MOST_RULES {
            return Err(format!("there are {MOST_RULES} faults already, which is the most there can be"));
        }
        let (names, reach) = (fault.pattern.names(), fault.verdict.reach());
        let rule = Arc::new(Rule::new(fault));
        rules.push(Armed { names, reach, rule: Arc::clone(&rule) });
        Ok(rule)
    }

    /// Takes a rule away, and lets go whoever waits because of it.
    pub fn remove(&self, name: &str, clock: &Arc<Clock>) -> Option<Arc<Rule>> {
        let mut rules = self.rules_mut();
        let place = rules.iter().position(|armed| armed.rule.fault.name == name)?;
        let rule = rules.remove(place).rule;
        drop(rules);
        rule.stop.open(clock);
        Some(rule)
    }

    /// As [`remove`](Self::remove), for one that may have been removed by now; whether it was there.
    pub fn remove_this(&self, rule: &Arc<Rule>, clock: &Arc<Clock>) -> bool {
        let mut rules = self.rules_mut();
        let before = rules.len();
        rules.retain(|armed| !Arc::ptr_eq(&armed.rule, rule));
        let is_gone = rules.len() < before;
        drop(rules);
        rule.stop.open(clock);
        is_gone
    }

    /// Takes all rules away, and lets go whoever waits.
    pub fn clear(&self, clock: &Arc<Clock>) -> Vec<Arc<Rule>> {
        let rules: Vec<_> = std::mem::take(&mut *self.rules_mut()).into_iter().map(|armed| armed.rule).collect();
        for rule in &rules {
            rule.stop.open(clock);
        }
        rules
    }

    pub fn is_empty(&self) -> bool {
        self.rules().is_empty()
    }

    pub fn all(&self) -> Vec<Arc<Rule>> {
        self.rules().iter().map(|armed| Arc::clone(&armed.rule)).collect()
    }

    /// The rule that a command meets: the first that fires. `inside` are the commands of the transaction that it runs,
    /// which no error is for here: that one comes when they run.
    pub fn judge(&self, arrival: &Arrival<'_>, inside: &[Arrival<'_>]) -> Option<Arc<Rule>> {
        let own = arrival.names();
        let all = inside.iter().map(Arrival::names).fold(own, Names::and);
        let concerns = |armed: &Armed| {
            let pattern = &armed.rule.fault.pattern;
            match armed.reach {
                Reach::Command => armed.names.meet(own) && pattern.matches(arrival),
                Reach::Request => {
                    armed.names.meet(all)
                        && (pattern.matches(arrival) || inside.iter().any(|arrival| pattern.matches(arrival)))
                }
                Reach::Connection | Reach::Everybody => false,
            }
        };
        self.first(concerns)
    }

    /// The error that a command inside a transaction or script meets.
    pub fn judge_inside(&self, arrival: &Arrival<'_>) -> Option<Arc<Rule>> {
        let own = arrival.names();
        self.first(|armed| {
            armed.reach == Reach::Command && armed.names.meet(own) && armed.rule.fault.pattern.matches(arrival)
        })
    }

    /// Whether a new connection is to be refused.
    pub fn refuse(&self) -> bool {
        self.first(|armed| armed.reach == Reach::Connection).is_some()
    }

    /// The rule that pauses the server, for a command that meets it.
    pub fn pause(&self) -> Option<Arc<Rule>> {
        self.first(|armed| armed.reach == Reach::Everybody)
    }

    /// Whether the server is paused.
    pub fn pauses(&self) -> bool {
        self.rules().iter().any(|armed| armed.reach == Reach::Everybody)
    }

    /// The first rule that is meant and fires.
    fn first(&self, concerns: impl Fn(&Armed) -> bool) -> Option<Arc<Rule>> {
        let rules = self.rules();
        rules.iter().find(|armed| concerns(armed) && armed.rule.fires()).map(|armed| Arc::clone(&armed.rule))
    }

    /// The names of the rules that have not fired so far.
    pub fn unfired(&self) -> Vec<String> {
        let rules = self.rules();
        rules.iter().filter(|armed| armed.rule.fired() == 0).map(|armed| armed.rule.fault.name.clone()).collect()
    }

    fn rules(&self) -> RwLockReadGuard<'_, Vec<Armed>> {
        self.0.read_ignoring_poison()
    }

    fn rules_mut(&self) -> RwLockWriteGuard<'_, Vec<Armed>> {
        self.0.write_ignoring_poison()
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

    #[test]
    fn an_error_without_a_code_gets_one() {
        let sent = |line: &str| String::from_utf8(with_code(line.as_bytes())).unwrap();
        assert_eq!(sent("BUSY come back later"), "BUSY come back later");
        assert_eq!(sent("-LOADING wait"), "LOADING wait");
        assert_eq!(sent("READONLY"), "READONLY");
        assert_eq!(sent("oops"), "ERR oops");
        assert_eq!(sent("Connection lost"), "ERR Connection lost");
        assert_eq!(sent("I am lost"), "ERR I am lost");
    }

    #[test]
    fn a_fault_that_makes_no_sense_is_not_armed() {
        let why = |fault: Fault| Faults::default().add(fault).err().unwrap();
        let of = |verdict| Fault::new("f", verdict);
        assert!(why(Fault::new("", Verdict::Hang)).starts_with("the name of a fault"));
        assert!(why(Fault::new("a b", Verdict::Hang)).contains("received 'a b'"));
        assert!(why(Fault { nth: 0, ..of(Verdict::Hang) }).contains("received 0"));
        assert!(why(Fault { times: Some(0), ..of(Verdict::Hang) }).contains("received 0"));
        assert!(why(Fault { probability: f64::NAN, ..of(Verdict::Hang) }).contains("received NaN"));
        assert!(why(of(Verdict::Drip { bytes: 0, every: Duration::from_secs(1) })).contains("1 byte"));
        assert!(why(of(Verdict::Drip { bytes: 1, every: Duration::ZERO })).contains("0ms"));
        assert!(why(Fault { pattern: Pattern::any().command("SET"), ..of(Verdict::Refuse) }).starts_with("refuse is"));
        assert!(why(Fault { pattern: Pattern::any().db(1), ..of(Verdict::Pause) }).starts_with("pause is"));
        assert!(why(Fault { times: Some(1), ..of(Verdict::Pause) }).starts_with("pause is"));
        assert!(why(of(Verdict::Error(vec![b'x'; MOST_BYTES]))).contains("at most 65536 bytes"));
    }

    #[test]
    fn a_pause_is_for_everybody_and_a_refusal_for_connections() {
        let faults = Faults::default();
        faults.add(Fault::new("refuse", Verdict::Refuse)).unwrap();
        faults.add(Fault::new("pause", Verdict::Pause)).unwrap();
        assert!(faults.judge(&set(), &[]).is_none());
        assert!(faults.refuse() && faults.pauses());
        assert_eq!(faults.pause().unwrap().fault.name, "pause");
    }
}
