//! The command line, in `redis-server`'s grammar.
//!
//! That grammar is no ordinary one: flags are lines of a configuration file without the line ends, a value may stand in
//! the same argument as its name, and every directive there is is a flag. So no library for flags can read it; what it
//! comes to is text in the form of a configuration file, read by the same code.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

use super::judging::{Judging, level_of, parted};
use super::recorded::Recordings;
use crate::base::duration::parse_duration;
use crate::powers::Search;
use crate::protocol::{quote, split_line};

/// What a command line asks for.
#[derive(Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "there is one of it")]
pub(super) enum Request {
    Help,
    Version,
    /// Something of `redis-server` that this program does not do; the text says so.
    Refused(&'static str),
    Serve(Sources),
    Run(Run),
    RunHelp,
    /// A `run` that nobody can make sense of; the text says why.
    Misused(String),
    Explore(Box<Explore>),
    ExploreHelp,
    /// The same for `explore`.
    ExploreMisused(String),
    Audit(Box<Recordings>),
    AuditHelp,
    /// The same for `audit`.
    AuditMisused(String),
    /// A `report`, with the arguments behind the word.
    Report(Vec<OsString>),
}

/// `redouble run [flags] -- command [args...]`
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Run {
    pub sources: Sources,
    pub report: bool,
    pub strict: bool,
    /// What is done to locks is to be audited.
    pub audit: Option<Judging>,
    /// Where the journal is to be written when the command has ended.
    pub journal_out: Option<PathBuf>,
    /// Where a page with a picture of it is to go.
    pub report_html: Option<PathBuf>,
    /// The command with its arguments; never empty.
    pub command: Vec<OsString>,
}

/// `redouble explore [flags] -- command [args...]`
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Explore {
    /// The server and the command.
    pub run: Run,
    pub search: Search,
    /// The token of the only order to go through.
    pub replay: Option<String>,
    /// Goes on after an order that fails.
    pub keeps_going: bool,
    /// Shows what the command prints also when it succeeds.
    pub verbose: bool,
    /// How long one run may take, in real time.
    pub limit: Duration,
    /// The arguments that a replay needs, too: all but those that say which orders are tried.
    pub kept: Vec<OsString>,
}

/// Where the configuration comes from. Later ones override earlier ones: the file, standard input, the flags.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Sources {
    pub file: Option<PathBuf>,
    pub standard_input: bool,
    /// The flags as lines of a configuration file.
    pub flags: Vec<u8>,
}

const NO_MEMORY_TEST: &str = "redouble does not test memory; use redis-server --test-memory or memtest86.";
const NO_SYSTEM_CHECK: &str = "redouble does not check the system; use redis-server --check-system.";
const NO_COMMAND: &str = "no command; it stands behind --, as in: redouble run -- npm test";
const NO_DASHES: &str = "-- is missing; flags for the server stand in front of it, the command behind it";
const NO_EXPLORED: &str = "no command; it stands behind --, as in: redouble explore -- npm test";
const NO_INPUT: &str = "no configuration can be read from standard input, because that is the command's";
const NO_SENTINEL: &str = "redouble has no sentinel mode.";

/// Flags of `run` that say nothing without `--audit`.
const NO_AUDIT: &str = "is about an audit: it goes with --audit";
const NO_EXPLORED_AUDIT: &str = "--audit, --journal-out and --report-html do not go with it: they are about one run";

/// Reads the arguments that follow the program's name.
pub(super) fn parse(arguments: &[OsString]) -> Request {
    match arguments {
        // A file of this name can be had as `./run`.
        [run, rest @ ..] if run == "run" => parse_run(rest),
        [explore, rest @ ..] if explore == "explore" => parse_explore(rest),
        [audit, help] if audit == "audit" && (help == "-h" || help == "--help") => Request::AuditHelp,
        [audit, rest @ ..] if audit == "audit" => match Recordings::parse(rest) {
            Ok(recordings) => Request::Audit(Box::new(recordings)),
            Err(reason) => Request::AuditMisused(reason),
        },
        [report, rest @ ..] if report == "report" => Request::Report(rest.to_vec()),
        _ => parse_server(arguments),
    }
}

/// Takes the arguments behind `run` apart: what is for the server is in the server's own grammar.
fn parse_run(arguments: &[OsString]) -> Request {
    let mut run = Run::default();
    let mut audit = AuditFlags::default();
    let mut flags = Vec::new();
    let mut expects_value = false;
    // The flag whose value `--` was taken for.
    let mut greedy: Option<String> = None;
    let mut rest = arguments;
    loop {
        let [argument, others @ ..] = rest else {
            return Request::Misused(match (flags.is_empty(), greedy) {
                (true, _) => NO_COMMAND.to_owned(),
                (_, Some(flag)) => format!(
                    "-- was taken for the value of '{flag}', which is no flag of redouble run, and those of the server \
                     have values; as in: redouble run --report -- npm test"
                ),
                (_, None) => format!("{NO_DASHES}, as in: redouble run --report -- npm test"),
            });
        };
        let text = argument.as_bytes();
        let is_flag = !expects_value && text.starts_with(b"--");
        if is_flag && text != b"--" {
            match audit.take(argument, others) {
                Ok(0) => {}
                Ok(taken) => {
                    rest = rest.get(taken..).unwrap_or_default();
                    continue;
                }
                Err(reason) => return Request::Misused(reason),
            }
        }
        rest = others;
        match text {
            b"--" if is_flag => break,
            b"--report" if is_flag => run.report = true,
            b"--strict" if is_flag => run.strict = true,
            b"-h" | b"--help" if !expects_value => return Request::RunHelp,
            _ => {
                if expects_value && text == b"--" {
                    greedy = greedy
                        .or_else(|| flags.last().map(|flag: &OsString| flag.as_bytes().escape_ascii().to_string()));
                }
                let alone = is_flag
                    && !text.eq_ignore_ascii_case(b"--no-control")
                    && split_line(text).is_some_and(|words| words.len() == 1);
                let before_flag = others.first().is_none_or(|next| next.as_bytes().starts_with(b"--"));
                expects_value = alone && !(before_flag && text.eq_ignore_ascii_case(b"--save"));
                flags.push(argument.clone());
            }
        }
    }
    if rest.is_empty() {
        return Request::Misused(NO_COMMAND.to_owned());
    }
    run.command = rest.to_vec();
    if let Err(reason) = audit.finish(&mut run) {
        return Request::Misused(reason);
    }
    match parse_server(&flags) {
        Request::Serve(Sources { standard_input: true, .. }) => Request::Misused(NO_INPUT.to_owned()),
        Request::Serve(sources) => Request::Run(Run { sources, ..run }),
        other => other,
    }
}

/// The flags of `run` that have to do with an audit.
#[derive(Default)]
struct AuditFlags {
    judging: Judging,
    is_asked: bool,
    /// The first that only says how.
    needs_audit: Option<String>,
    journal_out: Option<PathBuf>,
    report_html: Option<PathBuf>,
}

impl AuditFlags {
    /// Takes in a flag, if it is one of these; says how many arguments that has taken, with itself.
    fn take(&mut self, flag: &OsStr, others: &[OsString]) -> Result<usize, String> {
        let (name, joined) = parted(flag);
        let next = others.first();
        match name {
            b"--audit" => {
                self.is_asked = true;
                let word = joined.as_ref().or(next).map(|word| word.as_bytes()).unwrap_or_default();
                match level_of(word) {
                    Some(level) => {
                        self.judging.level = level;
                        Ok(if joined.is_some() { 1 } else { 2 })
                    }
                    None if joined.is_some() => {
                        Err(format!("--audit takes error or warn, not '{}'", word.escape_ascii()))
                    }
                    // Hardly a configuration file; and `--audit yes` is how the server itself is told.
                    None if !word.is_empty()
                        && word.iter().all(u8::is_ascii_lowercase)
                        && others.get(1).is_some_and(|behind| behind.as_bytes().starts_with(b"--")) =>
                    {
                        Err(format!("--audit takes error or warn, or nothing; received '{}'", word.escape_ascii()))
                    }
                    None => Ok(1),
                }
            }
            b"--journal-out" | b"--report-html" => {
                let (value, taken) = match joined {
                    Some(value) => (Some(value), 1),
                    None => (next.cloned().filter(|next| !next.as_bytes().starts_with(b"--")), 2),
                };
                let value = value.filter(|value| !value.is_empty()).map(PathBuf::from);
                let is_journal = name == b"--journal-out";
                let (flag, example) = match is_journal {
                    true => ("--journal-out", "journal.jsonl"),
                    false => ("--report-html", "report.html"),
                };
                let path = value.ok_or_else(|| format!("{flag} takes a file, as in {flag} {example}"))?;
                *if is_journal { &mut self.journal_out } else { &mut self.report_html } = Some(path);
                Ok(taken)
            }
            _ => {
                let taken = self.judging.take(flag, next)?;
                if taken > 0 && self.needs_audit.is_none() {
                    self.needs_audit = Some(String::from_utf8_lossy(name).into_owned());
                }
                Ok(taken)
            }
        }
    }

    /// Hands on what was asked for.
    fn finish(self, run: &mut Run) -> Result<(), String> {
        if let Some(flag) = self.needs_audit.filter(|_| !self.is_asked) {
            return Err(format!("{flag} {NO_AUDIT}"));
        }
        run.audit = self.is_asked.then_some(self.judging);
        (run.journal_out, run.report_html) = (self.journal_out, self.report_html);
        Ok(())
    }
}

/// Takes the arguments behind `explore` apart, as those behind `run`.
fn parse_explore(arguments: &[OsString]) -> Request {
    let mut explore = Explore {
        run: Run::default(),
        search: Search::default(),
        replay: None,
        keeps_going: false,
        verbose: false,
        limit: Duration::from_secs(60),
        kept: Vec::new(),
    };
    // The server's flags, as a run would have them, with the command behind.
    let mut others = Vec::new();
    let mut rest = arguments;
    while let [argument, behind @ ..] = rest {
        let text = argument.as_bytes();
        match text {
            b"--" => break,
            b"-h" | b"--help" => return Request::ExploreHelp,
            _ => {}
        }
        match explore.take(text, behind.first()) {
            Ok(Taken { arguments: 0, .. }) => {
                // Whatever belongs to a flag of the server's does not begin with two dashes.
                others.push(argument.clone());
                explore.kept.push(argument.clone());
                rest = behind;
            }
            Ok(Taken { arguments, is_kept }) => {
                let (taken, behind) = rest.split_at(arguments.min(rest.len()));
                if is_kept {
                    explore.kept.extend_from_slice(taken);
                }
                rest = behind;
            }
            Err(reason) => return Request::ExploreMisused(reason),
        }
    }
    others.extend_from_slice(rest);
    match parse_run(&others) {
        Request::Run(
            Run { audit: Some(_), .. } | Run { journal_out: Some(_), .. } | Run { report_html: Some(_), .. },
        ) => Request::ExploreMisused(NO_EXPLORED_AUDIT.to_owned()),
        Request::Run(run) => Request::Explore(Box::new(Explore { run, ..explore })),
        Request::Misused(reason) if reason == NO_COMMAND => Request::ExploreMisused(NO_EXPLORED.to_owned()),
        Request::Misused(reason) => {
            Request::ExploreMisused(reason.replace("redouble run --report", "redouble explore"))
        }
        other => other,
    }
}

/// How many arguments a flag of `explore` has taken, with itself; and whether a replay needs them, too.
struct Taken {
    arguments: usize,
    is_kept: bool,
}

impl Explore {
    /// Takes in a flag, if it is one of `explore`'s own.
    fn take(&mut self, flag: &[u8], value: Option<&OsString>) -> Result<Taken, String> {
        let flag = String::from_utf8_lossy(flag);
        let given = || value.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).unwrap_or_default();
        let number = || {
            let given = given();
            given.parse::<u64>().map_err(|_| format!("{flag} takes a number, not '{given}'"))
        };
        let duration = || {
            let given = given();
            let duration = parse_duration(given.as_bytes());
            duration.ok_or_else(|| format!("{flag} takes a duration such as 20ms or 1.5s, not '{given}'"))
        };
        let search = self.search.clone();
        let (arguments, is_kept) = match &*flag {
            "--keep-going" => {
                self.keeps_going = true;
                (1, false)
            }
            "--verbose" => {
                self.verbose = true;
                (1, false)
            }
            "--every-order" => {
                self.search = search.every_order();
                (1, false)
            }
            "--runs" => {
                self.search = search.runs(number()?);
                (2, false)
            }
            "--random" => {
                self.search = search.random(number()?);
                (2, false)
            }
            "--seed" => {
                self.search = search.seed(number()?);
                (2, false)
            }
            "--clients" => {
                self.search = search.clients(usize::try_from(number()?).unwrap_or(usize::MAX));
                (2, false)
            }
            "--settle" => {
                self.search = search.settle(duration()?);
                (2, true)
            }
            "--client" if value.is_some() => {
                self.search = search.client(given());
                (2, true)
            }
            "--limit" => {
                self.limit = duration()?;
                (2, true)
            }
            "--replay" if value.is_some() => {
                self.replay = Some(given());
                (2, false)
            }
            "--client" | "--replay" => return Err(format!("{flag} takes a value")),
            _ => (0, true),
        };
        Ok(Taken { arguments, is_kept })
    }
}

fn parse_server(arguments: &[OsString]) -> Request {
    let mut rest = arguments;
    // So that `--compat valkey-9.1 --version` answers for that profile.
    let first = match arguments {
        [compat, _, asked] if compat == "--compat" => Some(asked),
        _ => arguments.first(),
    };
    match first.map(|first| first.as_bytes()) {
        Some(b"-v" | b"--version") => return Request::Version,
        Some(b"-h" | b"--help") => return Request::Help,
        Some(b"--test-memory") => return Request::Refused(NO_MEMORY_TEST),
        Some(b"--check-system") => return Request::Refused(NO_SYSTEM_CHECK),
        _ => {}
    }
    let mut sources = Sources::default();
    if let [file, others @ ..] = rest
        && !file.as_bytes().starts_with(b"-")
    {
        sources.file = Some(PathBuf::from(file));
        rest = others;
    }
    let mut expects_value = false;
    for (index, argument) in rest.iter().enumerate() {
        let text = argument.as_bytes();
        let (is_first, next) = (index == 0 && sources.file.is_none(), rest.get(index + 1));
        if text == b"-" && (is_first || next.is_none()) {
            sources.standard_input = true;
        } else if let Some(directive) = text.strip_prefix(b"--")
            && !expects_value
        {
            let directive = if text.eq_ignore_ascii_case(b"--no-control") { b"control no" } else { directive };
            if text.eq_ignore_ascii_case(b"--sentinel") {
                return Request::Refused(NO_SENTINEL);
            }
            if !sources.flags.is_empty() {
                sources.flags.push(b'\n');
            }
            sources.flags.extend_from_slice(directive);
            sources.flags.push(b' ');
            // A name alone takes the next argument as its value whatever that looks like.
            expects_value = split_line(directive).is_some_and(|words| words.len() == 1);
            let followed_by_flag = next.is_none_or(|next| next.as_bytes().starts_with(b"--"));
            if expects_value && followed_by_flag && text.eq_ignore_ascii_case(b"--save") {
                // An empty list of snapshots, as programs generate it.
                sources.flags.extend_from_slice(b"\"\"");
                expects_value = false;
            }
        } else {
            sources.flags.extend(quote(text));
            sources.flags.push(b' ');
            expects_value = false;
        }
    }
    Request::Serve(sources)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(arguments: &[&str]) -> String {
        let arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
        match parse(&arguments) {
            Request::Serve(sources) => String::from_utf8(sources.flags).unwrap(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn flags_become_lines() {
        assert_eq!(flags(&["--port", "1", "--save", "900", "1"]), "port \"1\" \nsave \"900\" \"1\" ");
    }

    #[test]
    fn the_test_powers_are_switched_off_by_one_word() {
        assert_eq!(flags(&["--no-control", "--port", "1"]), "control no \nport \"1\" ");
    }

    #[test]
    fn a_value_may_stand_in_the_same_argument() {
        assert_eq!(flags(&["--save 900 1", "--requirepass secret"]), "save 900 1 \nrequirepass secret ");
    }

    #[test]
    fn a_save_without_a_value_is_an_empty_one() {
        assert_eq!(flags(&["--save", "--port", "1"]), "save \"\"\nport \"1\" ");
        assert_eq!(flags(&["--save", ""]), "save \"\" ");
        assert_eq!(flags(&["--save"]), "save \"\"");
    }

    #[test]
    fn the_value_of_a_flag_may_look_like_a_flag() {
        assert_eq!(flags(&["--requirepass", "--secret"]), "requirepass \"--secret\" ");
    }

    #[test]
    fn a_file_comes_first_and_standard_input_first_or_last() {
        let parse = |arguments: &[&str]| parse(&arguments.iter().map(OsString::from).collect::<Vec<_>>());
        let file = Some(PathBuf::from("x.conf"));
        let (standard_input, flags) = (true, Vec::new());
        assert_eq!(parse(&["x.conf"]), Request::Serve(Sources { file: file.clone(), ..Sources::default() }));
        assert_eq!(parse(&["-"]), Request::Serve(Sources { standard_input, ..Sources::default() }));
        assert_eq!(parse(&["x.conf", "-"]), Request::Serve(Sources { file, standard_input, flags }));
    }

    fn run(arguments: &[&str]) -> Request {
        let words = std::iter::once("run").chain(arguments.iter().copied());
        parse(&words.map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn run_parts_its_flags_and_the_servers_from_the_command() {
        let Request::Run(asked) = run(&["--port", "0", "--report", "--save", "--", "npm", "--", "--strict"]) else {
            panic!("a run");
        };
        assert_eq!(asked.command, ["npm", "--", "--strict"]);
        assert_eq!((asked.report, asked.strict), (true, false));
        assert_eq!(asked.sources.flags, b"port \"0\" \nsave \"\"");
        let Request::Run(asked) = run(&["x.conf", "--requirepass", "--strict", "--", "a"]) else { panic!("a run") };
        assert_eq!((asked.strict, asked.sources.file), (false, Some(PathBuf::from("x.conf"))));
        assert_eq!(asked.sources.flags, b"requirepass \"--strict\" ");
        let Request::Run(asked) = run(&["--no-control", "--strict", "--", "a"]) else { panic!("a run") };
        assert!(asked.strict);
    }

    #[test]
    fn run_takes_the_flags_of_the_auditor_and_leaves_the_servers_alone() {
        let flags =
            ["--audit", "warn", "--locks", "a:*", "--port", "0", "--junit=x.xml", "--journal-out", "j", "--", "a"];
        let Request::Run(asked) = run(&flags) else { panic!("a run") };
        let judging = asked.audit.expect("an audit");
        assert_eq!((judging.level, judging.locks), (crate::insight::audit::Severity::Warning, vec![b"a:*".to_vec()]));
        assert_eq!((judging.junit, asked.journal_out), (Some(PathBuf::from("x.xml")), Some(PathBuf::from("j"))));
        assert_eq!(asked.sources.flags, b"port \"0\" ");
        // What looks like a flag of the auditor's can be the value of one of the server's.
        let Request::Run(asked) = run(&["--requirepass", "--audit", "--", "a"]) else { panic!("a run") };
        assert_eq!((asked.audit, asked.sources.flags.as_slice()), (None, &b"requirepass \"--audit\" "[..]));
        // A configuration file may stand behind it.
        let Request::Run(asked) = run(&["--audit", "x.conf", "--", "a"]) else { panic!("a run") };
        assert_eq!((asked.audit.is_some(), asked.sources.file), (true, Some(PathBuf::from("x.conf"))));
    }

    #[test]
    fn a_run_without_a_command_is_explained() {
        assert_eq!(run(&[]), Request::Misused(NO_COMMAND.to_owned()));
        assert_eq!(run(&["--report", "--"]), Request::Misused(NO_COMMAND.to_owned()));
        assert_eq!(run(&["-", "--", "a"]), Request::Misused(NO_INPUT.to_owned()));
        assert_eq!(run(&["--help"]), Request::RunHelp);
        for words in [&["npm", "test"][..], &["--audit", "npm", "test"]] {
            let Request::Misused(reason) = run(words) else { panic!("a refusal") };
            assert!(reason.starts_with(NO_DASHES), "{reason}");
        }
        let Request::Misused(reason) = run(&["--audit", "--json", "--", "npm", "test"]) else { panic!("a refusal") };
        assert!(reason.starts_with("-- was taken for the value of '--json'"), "{reason}");
        let Request::Misused(reason) = run(&["--audit", "yes", "--", "a"]) else { panic!("a refusal") };
        assert_eq!(reason, "--audit takes error or warn, or nothing; received 'yes'");
    }

    #[test]
    fn explore_parts_its_flags_from_those_of_the_server_and_the_command() {
        let explore = |arguments: &[&str]| parse_explore(&arguments.iter().map(OsString::from).collect::<Vec<_>>());
        let flags = ["--runs", "5", "--databases", "4", "--settle", "20ms", "--keep-going", "--", "npm", "--runs", "7"];
        let Request::Explore(asked) = explore(&flags) else { panic!("an exploration") };
        assert_eq!(asked.run.command, ["npm", "--runs", "7"]);
        assert_eq!(asked.run.sources.flags, b"databases \"4\" ");
        assert_eq!(asked.search, Search::default().runs(5).settle(Duration::from_millis(20)));
        assert_eq!(asked.kept, ["--databases", "4", "--settle", "20ms"]);
        assert!(asked.keeps_going && !asked.verbose);
        let misused = |flags: &[&str], reason: &str| {
            assert_eq!(explore(flags), Request::ExploreMisused(reason.to_owned()));
        };
        misused(&["--runs", "many", "--", "a"], "--runs takes a number, not 'many'");
        misused(&["--settle", "--", "a"], "--settle takes a duration such as 20ms or 1.5s, not '--'");
        misused(&[], NO_EXPLORED);
        misused(&["--runs", "5", "--"], NO_EXPLORED);
        assert_eq!(explore(&["--help"]), Request::ExploreHelp);
    }

    #[test]
    fn a_file_called_run_is_no_subcommand() {
        let Request::Serve(sources) = parse(&[OsString::from("./run")]) else { panic!("a server") };
        assert_eq!(sources.file, Some(PathBuf::from("./run")));
    }

    #[test]
    fn the_version_of_a_profile_can_be_asked_for() {
        let parse = |arguments: &[&str]| parse(&arguments.iter().map(OsString::from).collect::<Vec<_>>());
        assert_eq!(parse(&["-v"]), Request::Version);
        assert_eq!(parse(&["--compat", "redis-7.0", "--version"]), Request::Version);
        assert!(matches!(parse(&["--port", "--version"]), Request::Serve(_)));
    }
}
