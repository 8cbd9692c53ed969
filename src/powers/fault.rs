//! Faults: rules that say which commands go wrong, and how.
//!
//! To add a verdict, add a variant to [`Verdict`] and a line to `verdicts!`. The compiler then names what is missing: the
//! matches in this file, reading it in `commands/redouble/fault.rs`, and doing it on the engine's side. REDOUBLE HELP,
//! COMMAND DOCS and error texts follow from its line; tests ask for a row of it in `docs/faults.md`.

use std::sync::{Arc, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use super::pattern::{CommandInfo, NameMask, Pattern};
use super::wait_queue::WaitQueue;
use crate::base::clock::Clock;
use crate::base::duration::spell_duration;
use crate::base::random;
use crate::base::sync::{MutexExt, RwLockExt};

/// The most rules of a server.
const MOST_RULES: usize = 10_000;
/// The most bytes of the words of one rule.
const MOST_BYTES: usize = 64 * 1024;
/// The longest name, in bytes.
const LONGEST_NAME: usize = 128;

/// What happens to a command at which a rule fires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It does not run; the client gets this error line, with `ERR` in front unless it begins with a code such as `BUSY`.
    Error(Vec<u8>),
    /// It runs later, by the server's clock.
    Delay(Duration),
    /// It never runs: the connection is closed.
    CloseBefore,
    /// It runs, and the connection is closed instead of a reply.
    CloseAfter,
    /// It runs; the connection is closed after so many bytes of the reply.
    Truncate(usize),
    /// It does not run and gets no reply until the client gives up or the rule is removed.
    Hang,
    /// It runs; the reply is sent in parts, by the server's clock.
    Drip {
        /// The size of a part: at least 1.
        bytes: usize,
        /// The time between two parts: more than 0.
        every: Duration,
    },
    /// It never runs: the connection is reset (TCP RST).
    Reset,
    /// New connections are reset as soon as they are accepted. Commands are not affected.
    Refuse,
    /// No command runs and no reply is sent until the rule is removed.
    Pause,
    /// It runs, and its change and those behind it do not reach this replica: the address and port, the number of the instance, or
    /// `*` for all. Links stay held when the rule is gone.
    HoldLink(String),
    /// It runs, and its change and those behind it reach a replica later.
    LagLink {
        /// As in [`HoldLink`](Self::HoldLink).
        replica: String,
        /// How much later, by the server's clock.
        by: Duration,
    },
    /// It runs, and a replica is cut off before that.
    CutLink(String),
}

/// Declares the kinds of verdicts.
macro_rules! verdicts {
    ($($kind:ident = $words:literal,)*) => {
        /// Which verdict, without its values.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum VerdictKind {
            $($kind,)*
        }

        impl VerdictKind {
            pub const ALL: &[Self] = &[$(Self::$kind,)*];
            /// The words of each, in that order.
            pub const WORDS: &[&str] = &[$($words,)*];

            /// Its name and its values, in the notation of all rows: capitals stand for themselves.
            pub fn words(self) -> &'static str {
                match self {
                    $(Self::$kind => $words,)*
                }
            }
        }
    };
}

verdicts! {
    Error = "ERROR text",
    Delay = "DELAY duration",
    CloseBefore = "CLOSE-BEFORE",
    CloseAfter = "CLOSE-AFTER",
    Truncate = "TRUNCATE bytes",
    Hang = "HANG",
    Drip = "DRIP bytes EVERY duration",
    Reset = "RESET",
    Refuse = "REFUSE",
    Pause = "PAUSE",
    HoldLink = "HOLD-LINK replica",
    LagLink = "LAG-LINK replica BY duration",
    CutLink = "CUT-LINK replica",
}

/// What a verdict applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    /// A command, also inside a transaction or a script.
    Command,
    /// A request with all that it runs.
    Request,
    /// A new connection.
    Connection,
    /// The whole server.
    Server,
}

impl VerdictKind {
    /// The verdict of this name, in whatever case.
    pub fn by_name(name: &[u8]) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| name.eq_ignore_ascii_case(kind.name().as_bytes()))
    }

    fn name(self) -> &'static str {
        self.words().split(' ').next().unwrap_or_default()
    }

    fn target(self) -> Target {
        match self {
            Self::Error => Target::Command,
            Self::Delay
            | Self::CloseBefore
            | Self::CloseAfter
            | Self::Truncate
            | Self::Hang
            | Self::Drip
            | Self::Reset
            | Self::HoldLink
            | Self::LagLink
            | Self::CutLink => Target::Request,
            Self::Refuse => Target::Connection,
            Self::Pause => Target::Server,
        }
    }
}

impl Verdict {
    /// An error: `Verdict::error("BUSY come back later")`.
    pub fn error(line: impl Into<Vec<u8>>) -> Self {
        Self::Error(line.into())
    }

    pub(crate) fn kind(&self) -> VerdictKind {
        match self {
            Self::Error(_) => VerdictKind::Error,
            Self::Delay(_) => VerdictKind::Delay,
            Self::CloseBefore => VerdictKind::CloseBefore,
            Self::CloseAfter => VerdictKind::CloseAfter,
            Self::Truncate(_) => VerdictKind::Truncate,
            Self::Hang => VerdictKind::Hang,
            Self::Drip { .. } => VerdictKind::Drip,
            Self::Reset => VerdictKind::Reset,
            Self::Refuse => VerdictKind::Refuse,
            Self::Pause => VerdictKind::Pause,
            Self::HoldLink(_) => VerdictKind::HoldLink,
            Self::LagLink { .. } => VerdictKind::LagLink,
            Self::CutLink(_) => VerdictKind::CutLink,
        }
    }

    /// Its values, in the order of its words.
    fn values(&self) -> Vec<Vec<u8>> {
        match self {
            Self::Error(line) => vec![line.clone()],
            Self::Delay(duration) => vec![spell_duration(*duration).into_bytes()],
            Self::Truncate(bytes) => vec![bytes.to_string().into_bytes()],
            Self::Drip { bytes, every } => vec![bytes.to_string().into_bytes(), spell_duration(*every).into_bytes()],
            Self::HoldLink(replica) | Self::CutLink(replica) => vec![replica.clone().into_bytes()],
            Self::LagLink { replica, by } => vec![replica.clone().into_bytes(), spell_duration(*by).into_bytes()],
            Self::CloseBefore | Self::CloseAfter | Self::Hang | Self::Reset | Self::Refuse | Self::Pause => Vec::new(),
        }
    }

    /// Whether it is about a link to a replica.
    pub(crate) fn is_about_links(&self) -> bool {
        matches!(self.kind(), VerdictKind::HoldLink | VerdictKind::LagLink | VerdictKind::CutLink)
    }

    /// As it is written on the wire.
    pub(crate) fn words(&self) -> Vec<Vec<u8>> {
        let mut values = self.values().into_iter();
        let words = self.kind().words().split(' ').map(|word| match word.contains(|c: char| c.is_ascii_lowercase()) {
            true => values.next().unwrap_or_default(),
            false => word.to_ascii_lowercase().into_bytes(),
        });
        words.collect()
    }
}

/// A fault, before it is filtered.
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
    /// The name of the rule: up to 128 printable characters without spaces. No two rules have the same name.
    pub name: String,
    /// Which commands it matches.
    pub pattern: Pattern,
    /// The first match at which it fires, counted from 1.
    pub nth: u64,
    /// How often it fires at most; `None`: no limit.
    pub times: Option<u64>,
    /// The probability of firing at a match, from 0 to 1.
    pub probability: f64,
    /// The seed of the probability: the same seed gives the same draws.
    pub seed: u64,
    /// What goes wrong.
    pub verdict: Verdict,
}

impl Fault {
    /// A fault that fires at every command.
    pub fn new(name: impl Into<String>, verdict: Verdict) -> Self {
        Self { name: name.into(), pattern: Pattern::any(), nth: 1, times: None, probability: 1.0, seed: 0, verdict }
    }

    /// Only these commands.
    pub fn of(mut self, pattern: Pattern) -> Self {
        self.pattern = pattern;
        self
    }

    /// Fires at this match, counted from 1; only there, unless [`times`](Self::times) allows more.
    pub fn nth(mut self, nth: u64) -> Self {
        self.nth = nth;
        self.times = self.times.or(Some(1));
        self
    }

    /// Fires at most so often.
    pub fn times(mut self, times: u64) -> Self {
        self.times = Some(times);
        self
    }

    /// Fires with this probability at each match, from 0 to 1. The same seed gives the same draws.
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

    /// Fails for a fault that cannot work; the error says why.
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
            Verdict::Error(_)
            | Verdict::Delay(_)
            | Verdict::CloseBefore
            | Verdict::CloseAfter
            | Verdict::Truncate(_)
            | Verdict::Hang
            | Verdict::Drip { .. }
            | Verdict::Reset
            | Verdict::Refuse
            | Verdict::Pause
            | Verdict::HoldLink(_)
            | Verdict::LagLink { .. }
            | Verdict::CutLink(_) => {}
        }
        let bytes: usize = self.words().iter().map(Vec::len).sum();
        if bytes > MOST_BYTES {
            return Err(format!("the words of a fault have at most {MOST_BYTES} bytes; received {bytes}"));
        }
        Ok(())
    }
}

/// Whether a text can be the name of a fault.
fn is_name(name: &str) -> bool {
    (1..=LONGEST_NAME).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic())
}

/// An error line with a code: clients take its first word for one.
fn with_code(line: &[u8]) -> Vec<u8> {
    let line = line.strip_prefix(b"-").unwrap_or(line);
    let code = line.split(|byte| byte.is_ascii_whitespace()).next().unwrap_or_default();
    let is_code = code.len() > 1
        && code[0].is_ascii_uppercase()
        && code.iter().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || *byte == b'_');
    if is_code { line.to_vec() } else { [b"ERR ", line].concat() }
}

/// A fault that is filtered.
pub struct Rule {
    pub fault: Fault,
    counts: Mutex<Counts>,
    /// Where commands wait that hang, are delayed, or whose reply is sent in parts.
    pub queue: Arc<WaitQueue>,
}

#[derive(Clone, Copy)]
struct Counts {
    matched: u64,
    fired: u64,
    /// The state of the random generator.
    generator: u64,
}

impl Rule {
    fn new(fault: Fault) -> Self {
        let counts = Counts { matched: 0, fired: 0, generator: fault.seed };
        Self { fault, counts: Mutex::new(counts), queue: Arc::default() }
    }

    /// A rule in no list, for one command.
    pub fn of_one_command(name: &str, verdict: Verdict) -> Arc<Self> {
        Arc::new(Self::new(Fault::new(name, verdict)))
    }

    /// How many commands it matched.
    pub fn matched(&self) -> u64 {
        self.counts().matched
    }

    /// At how many of those it fired.
    pub fn fired(&self) -> u64 {
        self.counts().fired
    }

    /// Counts a match; returns whether the rule fires at it.
    fn fires(&self) -> bool {
        let Fault { nth, times, probability, .. } = self.fault;
        let mut counts = self.counts();
        counts.matched += 1;
        let is_due = counts.matched >= nth
            && times.is_none_or(|times| counts.fired < times)
            && (probability >= 1.0 || random::next_fraction(&mut counts.generator) < probability);
        counts.fired += u64::from(is_due);
        is_due
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock_ignoring_poison()
    }
}

/// The rules of a server, in the order in which they are tried.
#[derive(Default)]
pub struct Faults(RwLock<Vec<FilteredRule>>);

/// Which rules are tried first. Of those with the same precedence, the older ones are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Precedence {
    /// It cuts clients off from a node of the deployment: nothing gets through, whatever else would happen there.
    Cut,
    Usual,
    /// It slows a node down, unless something else happens there.
    Slowness,
}

/// A rule, with what tells quickly that it does not match.
struct FilteredRule {
    precedence: Precedence,
    names: NameMask,
    target: Target,
    rule: Arc<Rule>,
}

impl Faults {
    /// Arms a fault. The error says why not.
    pub fn add(&self, mut fault: Fault, precedence: Precedence) -> Result<Arc<Rule>, String> {
        fault.check()?;
        if let Verdict::Error(line) = &mut fault.verdict {
            *line = with_code(line);
        }
        let mut rules = self.rules_mut();
        if rules.iter().any(|filtered| filtered.rule.fault.name == fault.name) {
            return Err(format!("there is a fault '{}' already", fault.name));
        }
        if rules.len() >= MOST_RULES {
            return Err(format!("there are {MOST_RULES} faults already, which is the most there can be"));
        }
        let (names, target) = (fault.pattern.names(), fault.verdict.kind().target());
        let rule = Arc::new(Rule::new(fault));
        let place = rules.partition_point(|filtered| filtered.precedence <= precedence);
        rules.insert(place, FilteredRule { precedence, names, target, rule: Arc::clone(&rule) });
        Ok(rule)
    }

    /// Removes a rule and releases the commands that wait because of it.
    pub fn remove(&self, name: &str, clock: &Arc<Clock>) -> Option<Arc<Rule>> {
        let mut rules = self.rules_mut();
        let place = rules.iter().position(|filtered| filtered.rule.fault.name == name)?;
        let rule = rules.remove(place).rule;
        drop(rules);
        rule.queue.open(clock);
        Some(rule)
    }

    /// As [`remove`](Self::remove), for a rule that may have been removed already; returns whether it was there.
    pub fn remove_this(&self, rule: &Arc<Rule>, clock: &Arc<Clock>) -> bool {
        let mut rules = self.rules_mut();
        let before = rules.len();
        rules.retain(|filtered| !Arc::ptr_eq(&filtered.rule, rule));
        let is_gone = rules.len() < before;
        drop(rules);
        rule.queue.open(clock);
        is_gone
    }

    /// Removes all rules and releases every command that waits because of one.
    pub fn clear(&self, clock: &Arc<Clock>) -> Vec<Arc<Rule>> {
        let rules: Vec<_> = std::mem::take(&mut *self.rules_mut()).into_iter().map(|filtered| filtered.rule).collect();
        for rule in &rules {
            rule.queue.open(clock);
        }
        rules
    }

    pub fn is_empty(&self) -> bool {
        self.rules().is_empty()
    }

    pub fn all(&self) -> Vec<Arc<Rule>> {
        self.rules().iter().map(|filtered| Arc::clone(&filtered.rule)).collect()
    }

    /// The first rule that fires at a command. `inside` are the commands of the transaction that it runs; errors for those
    /// are found when they run.
    pub fn first_match(&self, command: &CommandInfo<'_>, inside: &[CommandInfo<'_>]) -> Option<Arc<Rule>> {
        let own = command.names();
        let all = inside.iter().map(CommandInfo::names).fold(own, NameMask::union);
        let matches = |filtered: &FilteredRule| {
            let pattern = &filtered.rule.fault.pattern;
            match filtered.target {
                Target::Command => filtered.names.intersects(own) && pattern.matches(command),
                Target::Request => {
                    filtered.names.intersects(all)
                        && (pattern.matches(command) || inside.iter().any(|command| pattern.matches(command)))
                }
                Target::Connection | Target::Server => false,
            }
        };
        self.first(matches)
    }

    /// The first error rule that fires at a command inside a transaction or a script.
    pub fn first_match_inside(&self, command: &CommandInfo<'_>) -> Option<Arc<Rule>> {
        let own = command.names();
        self.first(|filtered| {
            filtered.target == Target::Command
                && filtered.names.intersects(own)
                && filtered.rule.fault.pattern.matches(command)
        })
    }

    /// Whether a rule cuts a client off from its node. Counts no match.
    pub fn is_cut_off(&self, command: &CommandInfo<'_>) -> bool {
        let rules = self.rules();
        let mut cuts = rules.iter().take_while(|filtered| filtered.precedence == Precedence::Cut);
        cuts.any(|filtered| filtered.rule.fault.pattern.matches(command))
    }

    /// The rules of a precedence.
    pub fn with_precedence(&self, precedence: Precedence) -> Vec<Arc<Rule>> {
        let rules = self.rules();
        let found = rules.iter().filter(|filtered| filtered.precedence == precedence);
        found.map(|filtered| Arc::clone(&filtered.rule)).collect()
    }

    /// Whether a rule refuses a new connection.
    pub fn refuses_connection(&self) -> bool {
        self.first(|filtered| filtered.target == Target::Connection).is_some()
    }

    /// The rule that pauses the server; counts a match.
    pub fn pausing_rule(&self) -> Option<Arc<Rule>> {
        self.first(|filtered| filtered.target == Target::Server)
    }

    /// Whether a rule pauses the server.
    pub fn is_paused(&self) -> bool {
        self.rules().iter().any(|filtered| filtered.target == Target::Server)
    }

    /// The first rule that matches and fires.
    fn first(&self, matches: impl Fn(&FilteredRule) -> bool) -> Option<Arc<Rule>> {
        let rules = self.rules();
        rules
            .iter()
            .find(|filtered| matches(filtered) && filtered.rule.fires())
            .map(|filtered| Arc::clone(&filtered.rule))
    }

    /// The names of the rules that have not fired so far.
    pub fn unfired(&self) -> Vec<String> {
        let rules = self.rules();
        rules
            .iter()
            .filter(|filtered| filtered.rule.fired() == 0)
            .map(|filtered| filtered.rule.fault.name.clone())
            .collect()
    }

    fn rules(&self) -> RwLockReadGuard<'_, Vec<FilteredRule>> {
        self.0.read_ignoring_poison()
    }

    fn rules_mut(&self) -> RwLockWriteGuard<'_, Vec<FilteredRule>> {
        self.0.write_ignoring_poison()
    }
}

#[cfg(test)]
mod tests {
    use smallvec::smallvec;

    use super::*;
    use crate::powers::line::line_of;

    fn set() -> CommandInfo<'static> {
        CommandInfo { container: None, name: "SET", keys: smallvec![], client: 1, client_name: b"", db: 0, node: None }
    }

    fn fired(fault: Fault, matches: usize) -> Vec<bool> {
        let faults = Faults::default();
        faults.add(fault, Precedence::Usual).unwrap();
        (0..matches).map(|_| faults.first_match(&set(), &[]).is_some()).collect()
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
        faults.add(Fault { times: Some(1), ..Fault::new("first", Verdict::Hang) }, Precedence::Usual).unwrap();
        faults.add(Fault::new("second", Verdict::Reset), Precedence::Usual).unwrap();
        assert_eq!(faults.first_match(&set(), &[]).unwrap().fault.name, "first");
        assert_eq!(faults.first_match(&set(), &[]).unwrap().fault.name, "second");
        assert!(faults.unfired().is_empty());
    }

    #[test]
    fn an_error_is_for_the_command_itself_and_the_rest_for_its_transaction() {
        let faults = Faults::default();
        faults
            .add(
                Fault { pattern: Pattern::any().command("SET"), ..Fault::new("e", Verdict::Error(Vec::new())) },
                Precedence::Usual,
            )
            .unwrap();
        let exec = CommandInfo { name: "EXEC", ..set() };
        assert!(faults.first_match(&exec, &[set()]).is_none());
        assert!(faults.first_match_inside(&set()).is_some());
        faults
            .add(Fault { pattern: Pattern::any().command("SET"), ..Fault::new("h", Verdict::Hang) }, Precedence::Usual)
            .unwrap();
        assert!(faults.first_match(&exec, &[set()]).is_some());
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
        let why = |fault: Fault| Faults::default().add(fault, Precedence::Usual).err().unwrap();
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
    fn verdicts_are_read_and_spelled_back_by_the_same_words() {
        let verdicts = [
            (Verdict::error("BUSY wait"), "error \"BUSY wait\""),
            (Verdict::Delay(Duration::from_millis(1500)), "delay 1.5s"),
            (Verdict::CloseBefore, "close-before"),
            (Verdict::CloseAfter, "close-after"),
            (Verdict::Truncate(3), "truncate 3"),
            (Verdict::Hang, "hang"),
            (Verdict::Drip { bytes: 2, every: Duration::from_secs(1) }, "drip 2 every 1s"),
            (Verdict::Reset, "reset"),
            (Verdict::Refuse, "refuse"),
            (Verdict::Pause, "pause"),
            (Verdict::HoldLink("*".into()), "hold-link *"),
            (Verdict::LagLink { replica: "2".into(), by: Duration::from_millis(200) }, "lag-link 2 by 200ms"),
            (Verdict::CutLink("127.0.0.1:7001".into()), "cut-link 127.0.0.1:7001"),
        ];
        assert_eq!(verdicts.clone().map(|(verdict, _)| verdict.kind()), VerdictKind::ALL);
        for (verdict, line) in verdicts {
            assert_eq!(line_of(&verdict.words()), line);
            assert_eq!(
                VerdictKind::by_name(verdict.kind().name().to_ascii_lowercase().as_bytes()),
                Some(verdict.kind())
            );
        }
    }

    #[test]
    fn a_pause_is_for_everybody_and_a_refusal_for_connections() {
        let faults = Faults::default();
        faults.add(Fault::new("refuse", Verdict::Refuse), Precedence::Usual).unwrap();
        faults.add(Fault::new("pause", Verdict::Pause), Precedence::Usual).unwrap();
        assert!(faults.first_match(&set(), &[]).is_none());
        assert!(faults.refuses_connection() && faults.is_paused());
        assert_eq!(faults.pausing_rule().unwrap().fault.name, "pause");
    }
}
