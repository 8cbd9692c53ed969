//! The flags of `redouble run`, `explore`, `record`, `audit` and `report`, one row each. `explain` has none.
//!
//! To add a flag, add a field to [`Options`] and a row to [`FLAGS`]: parsing, help, error texts and suggestions read the
//! row. The directives of `redis-server` are no flags of this kind; see [`super::directives`].

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

use super::audit_options::AuditOptions;
use super::environment::Variable;
use super::subcommand::Subcommand::{self, Audit, Explain, Explore, Record, Report, Run};
use crate::base::duration::parse_duration;
use crate::clients::config::parse_memory;
use crate::insight::audit::Severity;
use crate::insight::recording::ValueMode;
use crate::powers::{Chaos, Search};

/// One flag, for one or several subcommands.
pub(super) struct Flag {
    /// As it is written: `--locks`, `-o`.
    pub name: &'static str,
    pub subcommands: &'static [Subcommand],
    pub takes: Takes,
    pub help: &'static str,
    /// Whether `redouble run` and `explore` refuse the flag without `--audit`.
    pub needs_audit: bool,
    /// Whether the command line that replays an order repeats the flag.
    pub is_replayed: bool,
}

/// Whether a flag takes a value, and what becomes of it.
pub(super) enum Takes {
    Nothing(fn(&mut Options)),
    Value {
        /// The value's name in the help text.
        placeholder: &'static str,
        /// What the value is, in the words of an error text: "a number".
        expected: &'static str,
        set: fn(&mut Options, &OsStr) -> Result<(), BadValue>,
    },
    /// How bad a finding must be; the value may be left out.
    OptionalLevel(fn(&mut Options, Option<Severity>)),
}

/// A value that a flag does not take. The parser knows the flag and the value, and says so.
#[derive(Debug)]
pub(super) struct BadValue;

/// What the flags have said. Each subcommand reads the fields that its flags set.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Options {
    /// `--report`: sum up on standard error what has happened.
    pub summary: bool,
    pub strict: bool,
    /// `--env`: further variables by which the command finds its servers.
    pub variables: Vec<Variable>,
    /// `--audit` of `redouble run` and `explore`: audit what is done to locks.
    pub audits: bool,
    pub audit: AuditOptions,
    pub journal_out: Option<PathBuf>,
    pub report_html: Option<PathBuf>,

    pub search: Search,
    /// The token of the only order to run.
    pub replay: Option<String>,
    pub keep_going: bool,
    pub verbose: bool,
    /// How long one run may take, in real time.
    pub limit: Duration,

    /// `--key`: what is to be explained.
    pub key: Option<Vec<u8>>,

    pub json: bool,
    /// `--same-server`: the journals are those of several fronts before one server.
    pub same_server: bool,
    /// `--clock-error`: how far their clocks may be apart.
    pub clock_error: Option<Duration>,

    pub text: bool,
    /// `-o`: where the report or the recording goes.
    pub output: Option<PathBuf>,

    /// `--force`: the file of the recording may be there already.
    pub overwrites: bool,
    /// `--for` and `--max-size`: the longest time of a recording, and the most bytes.
    pub longest: Option<Duration>,
    pub max_size: Option<u64>,
    /// `--keys`: only commands that name such keys are recorded.
    pub keys: Vec<Vec<u8>>,
    /// `--values`: what becomes of values.
    pub values: ValueMode,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            summary: false,
            strict: false,
            variables: Vec::new(),
            audits: false,
            audit: AuditOptions::default(),
            journal_out: None,
            report_html: None,
            search: Search::default(),
            replay: None,
            keep_going: false,
            verbose: false,
            limit: Duration::from_secs(60),
            key: None,
            json: false,
            same_server: false,
            clock_error: None,
            text: false,
            output: None,
            overwrites: false,
            longest: None,
            max_size: None,
            keys: Vec::new(),
            values: ValueMode::default(),
        }
    }
}

const A_NUMBER: &str = "a number";
const A_DURATION: &str = "a duration such as 20ms or 1.5s";
const A_VARIABLE: &str = "NAME, or NAME=FORMAT with {url}, {urls}, {host}, {port}, {address}, {ca}, {cert} or {key}";
const CHAOS_KINDS: &str = "expiry, lost-reply, crash or pause, or several with commas and no spaces, each with = and a number \
                           from 1 to 100 if it may happen more than once";
const A_LEVEL: &str = "error or warn";

/// All flags, in the order in which the help texts list them.
pub(super) static FLAGS: &[Flag] = &[
    value("--env", &[Run, Explore, Record], "NAME[=FORMAT]", A_VARIABLE, |options, value| {
        push(&mut options.variables, value.to_str().and_then(Variable::parse).ok_or(BadValue))
    })
    .replayed()
    .help(
        "another variable that says where the server is, such as CACHE_URL; a name that ends in HOST, PORT, ADDR or URLS \
         gets that, every other the URL; FORMAT is text with {url}, {urls}, {host}, {port}, {address}, and for TLS {ca}, {cert}, {key}; can be said more \
         than once",
    ),
    switch("--verbose", &[Run], |options| options.verbose = true).help(
        "shows on standard error every command as it comes, with its client and its reply; also -v",
    ),
    switch("-v", &[Run, Explore], |options| options.verbose = true),
    switch("--report", &[Run], |options| options.summary = true).help(
        "says on standard error what has happened: commands, connections, locks taken; commands that are not \
         supported, faults that never fired, gates that were never reached",
    ),
    switch("--strict", &[Run], |options| options.strict = true)
        .help("fails with status 1 if there are any of the last three, or nobody connected"),
    optional_level("--audit", &[Run], audit).help(
        "says on standard error which locks were misused, and by which commands; fails with status 3 for errors, and \
         with --audit=warn for warnings, too",
    ),
    optional_level("--audit", &[Explore], audit).replayed().help(
        "an order in which a lock was misused fails, with status 3 if the test has passed; --audit=warn does the same for \
         warnings",
    ),
    value("--audit", &[Audit], "LEVEL", A_LEVEL, |options, value| set(&mut options.audit.level, level(value)))
        .help("how bad a finding must be to fail: error (the default) or warn; --level LEVEL says the same"),
    value("--level", &[Audit], "LEVEL", A_LEVEL, |options, value| set(&mut options.audit.level, level(value))),
    value("--key", &[Explain], "KEY", "a key, as in --key lock:a", |options, value| {
        set_some(&mut options.key, bytes(value))
    })
    .help("why this key is taken for a lock in the journals that are named, or why not"),
    value("--locks", &[Run, Explore, Audit, Report, Explain], "GLOB", "a glob, as in --locks 'lock:*'", |options, value| {
        push(&mut options.audit.locks, bytes(value))
    })
    .about_audit()
    .replayed()
    .help("keys that are locks whatever is done with them; can be said more than once"),
    value("--not-locks", &[Run, Explore, Audit, Report, Explain], "GLOB", "a glob, as in --not-locks 'cache:*'", |options, value| {
        push(&mut options.audit.not_locks, bytes(value))
    })
    .about_audit()
    .replayed()
    .help("keys that are none; can be said more than once"),
    value("--resources", &[Run, Explore, Audit, Report], "GLOB", "a glob, as in --resources 'account:*'", |options, value| {
        push(&mut options.audit.resources, bytes(value))
    })
    .about_audit()
    .replayed()
    .help("keys with data that must not be lost; can be said more than once"),
    value(
        "--allow",
        &[Run, Explore, Audit, Report],
        "FILE",
        "a file with a line CODE GLOB REASON for each kind of finding",
        |options, value| push(&mut options.audit.allow, path(value)),
    )
    .about_audit()
    .replayed()
    .help(
        "findings that are known and accepted: a line CODE GLOB REASON each, where the code * stands for every kind; \
         empty lines and those that begin with # are passed over",
    ),
    value("--junit", &[Run, Explore, Audit], "PATH", "a file, as in --junit audit.xml", |options, value| {
        set_some(&mut options.audit.junit, path(value))
    })
    .about_audit()
    .help("the findings as JUnit XML"),
    value("--sarif", &[Run, Explore, Audit], "PATH", "a file, as in --sarif audit.sarif", |options, value| {
        set_some(&mut options.audit.sarif, path(value))
    })
    .about_audit()
    .help("the findings as SARIF 2.1.0"),
    switch("--json", &[Audit], |options| options.json = true).help("prints the findings as lines of JSON"),
    switch("--same-server", &[Audit, Report], |options| options.same_server = true).help(
        "the files are journals of several fronts before one server: one history; files that name a node of a Cluster or a \
         Sentinel set in common are without it, too",
    ),
    value("--clock-error", &[Audit, Report], "DURATION", A_DURATION, |options, value| {
        set_some(&mut options.clock_error, duration(value))
    })
    .help("how far the clocks of these fronts are apart at most, if that is known; the commands narrow it down"),
    value("--journal-out", &[Run], "PATH", "a file, as in --journal-out journal.jsonl", |options, value| {
        set_some(&mut options.journal_out, path(value))
    })
    .help("every command that came, as lines of JSON, for redouble audit and redouble report"),
    value("--journal-out", &[Explore], "PATH", "a file, as in --journal-out journal.jsonl", |options, value| {
        set_some(&mut options.journal_out, path(value))
    })
    .help("every command of the first order that fails, as lines of JSON"),
    value("-o", &[Report], "PATH", "a file, as in -o report.html", |options, value| {
        set_some(&mut options.output, path(value))
    })
    .help("where to; report.html by default, - is standard output"),
    value("-o", &[Record], "PATH", "a file, as in -o staging.jsonl", |options, value| {
        set_some(&mut options.output, path(value))
    })
    .help("where to; a second server's journal is written beside it, as staging-2.jsonl"),
    switch("--force", &[Record], |options| options.overwrites = true).help("replaces a file that is there already"),
    value("--for", &[Record], "DURATION", "a duration such as 30s or 10m", |options, value| {
        set_some(&mut options.longest, duration(value))
    })
    .help("how long to record; without it, until the command or a signal ends it"),
    value("--max-size", &[Record], "SIZE", "a size such as 100mb", |options, value| {
        set_some(&mut options.max_size, size(value))
    })
    .help("the most bytes to write, of all files together"),
    value("--keys", &[Record], "GLOB", "a glob, as in --keys 'lock:*'", |options, value| {
        push(&mut options.keys, bytes(value))
    })
    .help(
        "records only commands that name such a key, and what must be known to judge them; can be said more than once",
    ),
    value("--values", &[Record], "MODE", "hash, redact or keep", |options, value| {
        set(&mut options.values, ValueMode::by_name(value.as_bytes()).ok_or(BadValue))
    })
    .help(
        "what becomes of values: keyed hashes (hash, the default), nothing of them (redact), or they are kept as they \
         are (keep)",
    ),
    value("--report-html", &[Run, Report], "PATH", "a file, as in --report-html report.html", |options, value| {
        set_some(&mut options.report_html, path(value))
    })
    .help("a page with a picture of who held which lock when"),
    value("--report-html", &[Explore], "PATH", "a file, as in --report-html report.html", |options, value| {
        set_some(&mut options.report_html, path(value))
    })
    .help("a page with a picture of the first order that fails: who held which lock when"),
    switch("--text", &[Report], |options| options.text = true)
        .help("tells the same story as text, on standard output without -o"),
    value("--runs", &[Explore], "N", A_NUMBER, |options, value| search(options, number(value), Search::runs))
        .help("tries at most N orders, one after the other (1000)"),
    value("--random", &[Explore], "N", A_NUMBER, |options, value| search(options, number(value), Search::random))
        .help("if there are more, tries N random ones, too (100)"),
    value("--seed", &[Explore], "N", A_NUMBER, |options, value| search(options, number(value), Search::seed))
        .help("the seed of the random orders (0)"),
    value("--settle", &[Explore], "DURATION", A_DURATION, |options, value| {
        search(options, duration(value), Search::settle)
    })
    .replayed()
    .help("how long a client may be silent before the others go on (10ms)"),
    value("--client", &[Explore], "GLOB", "a glob of names, as in --client 'worker-*'", |options, value| {
        search(options, text(value), Search::client)
    })
    .replayed()
    .help("only clients with such names race; the others are never held"),
    value("--clients", &[Explore], "N", A_NUMBER, |options, value| {
        let clients = number(value).map(|number| usize::try_from(number).unwrap_or(usize::MAX));
        search(options, clients, Search::clients)
    })
    .help("waits for so many clients before the first turn"),
    switch("--every-order", &[Explore], |options| options.search = std::mem::take(&mut options.search).every_order())
        .help("also tries orders that differ only in commands that commute"),
    value("--chaos", &[Explore], "KINDS", CHAOS_KINDS, |options, value| {
        let chaos = Chaos::parse(value.as_bytes()).ok_or(BadValue);
        search(options, chaos, Search::chaos)
    })
    .replayed()
    .help(
        "what else may happen between commands: expiry (the clock goes past the deadline of a key), lost-reply, crash, pause (a \
         client stands still until nothing else can move); one or several with commas, each at most once in a run, or as often \
         as it says: --chaos expiry,pause=2",
    ),
    value("--failovers", &[Explore], "N", A_NUMBER, |options, value| {
        let failovers = number(value).map(|number| u32::try_from(number).unwrap_or(u32::MAX));
        search(options, failovers, Search::failovers)
    })
    .replayed()
    .help("how often a replica may become the master in a run, perhaps without the last changes; with --replicas (0)"),
    value("--polls", &[Explore], "N", A_NUMBER, |options, value| {
        let polls = number(value).map(|number| u32::try_from(number).unwrap_or(u32::MAX));
        search(options, polls, Search::polls)
    })
    .replayed()
    .help("how often a client repeats a refused command before the others go on, while nothing has changed (1)"),
    value("--replay", &[Explore], "TOKEN", "the token of an order", |options, value| {
        set_some(&mut options.replay, text(value))
    })
    .help("runs this order only"),
    value("--limit", &[Explore], "DURATION", A_DURATION, |options, value| set(&mut options.limit, duration(value)))
        .replayed()
        .help("how long one run may take (60s)"),
    switch("--keep-going", &[Explore], |options| options.keep_going = true).help("goes on after an order that fails"),
    switch("--verbose", &[Explore], |options| options.verbose = true)
        .help("shows the output of every run, not only of those that fail; also -v"),
];

const fn flag(name: &'static str, subcommands: &'static [Subcommand], takes: Takes) -> Flag {
    Flag { name, subcommands, takes, help: "", needs_audit: false, is_replayed: false }
}

const fn switch(name: &'static str, subcommands: &'static [Subcommand], set: fn(&mut Options)) -> Flag {
    flag(name, subcommands, Takes::Nothing(set))
}

const fn optional_level(
    name: &'static str,
    subcommands: &'static [Subcommand],
    set: fn(&mut Options, Option<Severity>),
) -> Flag {
    flag(name, subcommands, Takes::OptionalLevel(set))
}

const fn value(
    name: &'static str,
    subcommands: &'static [Subcommand],
    placeholder: &'static str,
    expected: &'static str,
    set: fn(&mut Options, &OsStr) -> Result<(), BadValue>,
) -> Flag {
    flag(name, subcommands, Takes::Value { placeholder, expected, set })
}

impl Flag {
    /// A flag without a help text is another name of one that has a text.
    const fn help(mut self, help: &'static str) -> Self {
        self.help = help;
        self
    }

    const fn about_audit(mut self) -> Self {
        self.needs_audit = true;
        self
    }

    const fn replayed(mut self) -> Self {
        self.is_replayed = true;
        self
    }
}

/// The flags of a subcommand.
pub(super) fn flags_of(subcommand: Subcommand) -> impl Iterator<Item = &'static Flag> {
    FLAGS.iter().filter(move |flag| flag.subcommands.contains(&subcommand))
}

/// The flag that a subcommand has under a name with its dashes.
pub(super) fn find_flag(subcommand: Subcommand, name: &str) -> Option<&'static Flag> {
    flags_of(subcommand).find(|flag| flag.name == name)
}

fn audit(options: &mut Options, level: Option<Severity>) {
    options.audits = true;
    options.audit.level = level.unwrap_or(options.audit.level);
}

fn set<T>(field: &mut T, value: Result<T, BadValue>) -> Result<(), BadValue> {
    *field = value?;
    Ok(())
}

fn set_some<T>(field: &mut Option<T>, value: Result<T, BadValue>) -> Result<(), BadValue> {
    set(field, value.map(Some))
}

fn push<T>(list: &mut Vec<T>, value: Result<T, BadValue>) -> Result<(), BadValue> {
    list.push(value?);
    Ok(())
}

fn search<T>(
    options: &mut Options,
    value: Result<T, BadValue>,
    change: impl FnOnce(Search, T) -> Search,
) -> Result<(), BadValue> {
    options.search = change(std::mem::take(&mut options.search), value?);
    Ok(())
}

/// The level that a word names.
pub(super) fn level(value: &OsStr) -> Result<Severity, BadValue> {
    match value.as_bytes() {
        b"error" => Ok(Severity::Error),
        b"warn" | b"warning" => Ok(Severity::Warning),
        _ => Err(BadValue),
    }
}

fn number(value: &OsStr) -> Result<u64, BadValue> {
    value.to_str().and_then(|text| text.parse().ok()).ok_or(BadValue)
}

fn duration(value: &OsStr) -> Result<Duration, BadValue> {
    parse_duration(value.as_bytes()).ok_or(BadValue)
}

/// At least one digit, and a unit that Redis knows.
fn size(value: &OsStr) -> Result<u64, BadValue> {
    parse_memory(value.as_bytes()).filter(|size| *size > 0).ok_or(BadValue)
}

fn bytes(value: &OsStr) -> Result<Vec<u8>, BadValue> {
    if value.is_empty() { Err(BadValue) } else { Ok(value.as_bytes().to_vec()) }
}

fn text(value: &OsStr) -> Result<String, BadValue> {
    if value.is_empty() { Err(BadValue) } else { Ok(value.to_string_lossy().into_owned()) }
}

fn path(value: &OsStr) -> Result<PathBuf, BadValue> {
    if value.is_empty() { Err(BadValue) } else { Ok(OsString::from(value).into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_of_a_subcommand_names_all_its_flags() {
        let page = |subcommand| match subcommand {
            Run | Audit => include_str!("../../docs/run.md"),
            Explore => include_str!("../../docs/explorer.md"),
            Record => include_str!("../../docs/staging.md"),
            Report => include_str!("../../docs/report.md"),
            Explain => include_str!("../../docs/audit.md"),
        };
        for subcommand in Subcommand::ALL {
            for flag in flags_of(subcommand) {
                assert!(page(subcommand).contains(&format!("`{}", flag.name)), "{}", flag.name);
            }
        }
    }

    #[test]
    fn a_subcommand_has_one_flag_of_a_name() {
        for subcommand in Subcommand::ALL {
            let names: Vec<&str> = flags_of(subcommand).map(|flag| flag.name).collect();
            for (at, name) in names.iter().enumerate() {
                assert!(!names[..at].contains(name), "{name}");
            }
        }
    }
}
