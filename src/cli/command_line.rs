//! From arguments to what they ask for.
//!
//! The first argument decides which grammar holds. Behind a subcommand, the flags of [`super::flags`] are read by
//! `lexopt`; what else stands there are files (`audit`, `report`), codes (`explain`), or the server's own arguments, read by
//! [`super::directives`], up to the `--` in front of a command (`run`, `explore`). Without a subcommand, all arguments are
//! the server's.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use lexopt::Arg;

use super::directives::{ConfigSources, name_of, takes_next_argument};
use super::flags::{Flag, Options, Takes, find_flag, level};
use super::subcommand::{EXIT_STATUSES, HELP, Subcommand};
use super::{redis_cli, shell_quoted, suggestions};

/// What a command line asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Invocation {
    /// The help text of the program, or of a subcommand.
    Help(Option<Subcommand>),
    /// The page about exit statuses.
    ExitStatuses,
    /// The help of `redouble cli`.
    ClientHelp,
    Version,
    /// An error text for a line that is neither a subcommand's nor a server's.
    Refused(String),
    Serve(ConfigSources),
    Run(CommandRun),
    Explore(CommandRun),
    Record(CommandRun),
    Audit(JournalFiles),
    Report(JournalFiles),
    /// The words that are to be codes of findings; all codes are listed if there are none.
    Explain(Vec<String>),
    /// A key, and the journals in which it is to be explained why it is taken for a lock, or not.
    ExplainKey(Vec<u8>, JournalFiles),
    /// Arguments of a subcommand that are not understood, and why.
    UsageError(Subcommand, String),
}

/// `redouble run|explore|record [FLAGS] -- COMMAND [ARGUMENTS]`
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct CommandRun {
    pub options: Options,
    pub config: ConfigSources,
    /// The command with its arguments; empty only for `record` without one.
    pub command: Vec<OsString>,
    /// The arguments that a replay of an order needs, too: all but those that say which orders are tried.
    pub replay_arguments: Vec<OsString>,
}

/// `redouble audit|report [FLAGS] FILE ...`
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct JournalFiles {
    pub options: Options,
    /// The journal of each server, `-` for standard input; never empty.
    pub files: Vec<PathBuf>,
}

const NO_MEMORY_TEST: &str = "redouble does not test memory; use redis-server --test-memory or memtest86.";
const NO_SYSTEM_CHECK: &str = "redouble does not check the system; use redis-server --check-system.";
const NO_DASHES: &str = "-- is missing; flags for the server stand in front of it, the command behind it";
const NO_INPUT: &str = "no configuration can be read from standard input, because that is the command's";
const RUN_ONLY: &str = "--report and --strict do not go with it: they are about one run";
const TEXT_IS_NO_PAGE: &str = "--report-html writes a page: it does not go with --text; -o says where the text goes";

/// Reads the arguments that follow the program's name.
pub(super) fn parse(arguments: &[OsString]) -> Invocation {
    let Some((first, rest)) = arguments.split_first() else { return parse_server(arguments) };
    if first == HELP {
        return parse_help(rest.first());
    }
    let Some(subcommand) = Subcommand::by_name(first) else { return parse_server(arguments) };
    let parsed = match subcommand {
        Subcommand::Run => parse_command_run(subcommand, rest, Invocation::Run),
        Subcommand::Explore => parse_command_run(subcommand, rest, Invocation::Explore),
        Subcommand::Record => parse_command_run(subcommand, rest, Invocation::Record),
        Subcommand::Audit => parse_journal_files(subcommand, rest, Invocation::Audit),
        Subcommand::Report => parse_journal_files(subcommand, rest, Invocation::Report),
        Subcommand::Explain => parse_explain(rest),
    };
    parsed.unwrap_or_else(|reason| Invocation::UsageError(subcommand, reason))
}

fn parse_help(topic: Option<&OsString>) -> Invocation {
    let Some(topic) = topic.filter(|topic| ![HELP, "--help", "-h"].iter().any(|help| topic == help)) else {
        return Invocation::Help(None);
    };
    if let Some(subcommand) = Subcommand::by_name(topic) {
        return Invocation::Help(Some(subcommand));
    }
    if topic == EXIT_STATUSES {
        return Invocation::ExitStatuses;
    }
    if topic == redis_cli::SUBCOMMAND {
        return Invocation::ClientHelp;
    }
    let topic = topic.as_bytes().escape_ascii().to_string();
    let hint = match suggestions::subcommand_like(&topic) {
        Some(HELP) | None => {
            let names = Subcommand::ALL.map(Subcommand::name).join(", ");
            format!("there are {names}, {}, {EXIT_STATUSES}", redis_cli::SUBCOMMAND)
        }
        Some(name) => format!("did you mean redouble help {name}?"),
    };
    Invocation::Refused(format!("redouble help: there is no '{topic}'; {hint}"))
}

fn parse_server(arguments: &[OsString]) -> Invocation {
    // So that `--compat valkey-9.1 --version` answers for that profile.
    let first = match arguments {
        [compat, _, asked] if compat == "--compat" => Some(asked),
        _ => arguments.first(),
    };
    match first.map(|first| first.as_bytes()) {
        Some(b"-v" | b"--version") => return Invocation::Version,
        Some(b"-h" | b"--help") => return Invocation::Help(None),
        Some(b"--test-memory") => return Invocation::Refused(NO_MEMORY_TEST.to_owned()),
        Some(b"--check-system") => return Invocation::Refused(NO_SYSTEM_CHECK.to_owned()),
        _ => {}
    }
    Invocation::Serve(ConfigSources::parse(arguments))
}

/// Codes of findings, or journals with the key that is to be explained.
fn parse_explain(arguments: &[OsString]) -> Result<Invocation, String> {
    let (mut parser, mut words) = (FlagParser::new(Subcommand::Explain, arguments), Vec::new());
    if parser.read_with_words(&mut words)? {
        return Ok(Invocation::Help(Some(Subcommand::Explain)));
    }
    let options = parser.options;
    let Some(key) = options.key.clone() else {
        if options != Options::default() {
            return Err("--locks and --not-locks are about a key: they go with --key".to_owned());
        }
        return Ok(Invocation::Explain(words.iter().map(|code| code.as_bytes().escape_ascii().to_string()).collect()));
    };
    let files: Vec<PathBuf> = words.into_iter().map(PathBuf::from).collect();
    if files.is_empty() {
        return Err("no journal; as in: redouble explain --key lock:a journal.jsonl".to_owned());
    }
    check_files(&files)?;
    Ok(Invocation::ExplainKey(key, JournalFiles { options, files }))
}

fn check_files(files: &[PathBuf]) -> Result<(), String> {
    if files.iter().filter(|file| file.as_os_str() == "-").count() > 1 {
        return Err("standard input (-) can be only one of the journals".to_owned());
    }
    if files.len() > usize::from(u16::MAX) {
        return Err(format!("{} journals; there can be {} at most", files.len(), u16::MAX));
    }
    Ok(())
}

fn no_such_flag(subcommand: Subcommand, name: &str) -> String {
    format!("there is no flag '{}'; {}", name.escape_default(), suggestions::for_flag(subcommand, name))
}

fn parse_journal_files(
    subcommand: Subcommand,
    arguments: &[OsString],
    invocation: fn(JournalFiles) -> Invocation,
) -> Result<Invocation, String> {
    let (mut parser, mut words) = (FlagParser::new(subcommand, arguments), Vec::new());
    if parser.read_with_words(&mut words)? {
        return Ok(Invocation::Help(Some(subcommand)));
    }
    let options = parser.options;
    let files: Vec<PathBuf> = words.into_iter().map(PathBuf::from).collect();
    if files.is_empty() {
        return Err(format!("no journal; as in: redouble {} journal.jsonl", subcommand.name()));
    }
    check_files(&files)?;
    if options.text && options.report_html.is_some() {
        return Err(TEXT_IS_NO_PAGE.to_owned());
    }
    Ok(invocation(JournalFiles { options, files }))
}

fn parse_command_run(
    subcommand: Subcommand,
    arguments: &[OsString],
    invocation: fn(CommandRun) -> Invocation,
) -> Result<Invocation, String> {
    let name = subcommand.name();
    let no_command = || format!("no command; it stands behind --, as in: redouble {name} -- npm test");
    let mut parser = FlagParser::new(subcommand, arguments);
    let mut server_arguments: Vec<OsString> = Vec::new();
    let mut replay_arguments: Vec<OsString> = Vec::new();
    // The first server's flag that took `--` for its value.
    let mut took_dashes: Option<OsString> = None;
    // Where the first word stands that is neither a flag nor the value of one.
    let mut first_word: Option<usize> = None;
    // The flag of the subcommand that was read last, unless something of the server's stands behind it.
    let mut last_flag: Option<&'static Flag> = None;
    let mut has_dashes = false;
    let command = loop {
        let rest = &arguments[arguments.len() - parser.remaining()..];
        let Some((argument, behind)) = rest.split_first() else {
            if subcommand == Subcommand::Record && took_dashes.is_none() {
                break Vec::new();
            }
            return Err(match took_dashes {
                None if server_arguments.is_empty() => no_command(),
                None => format!("{NO_DASHES}, as in: {}", with_dashes(subcommand, arguments, first_word)),
                Some(flag) => dashes_taken(subcommand, &flag),
            });
        };
        match argument.as_bytes() {
            b"--" => {
                has_dashes = true;
                break behind.to_vec();
            }
            b"-h" | b"--help" => return Ok(Invocation::Help(Some(subcommand))),
            _ => {}
        }
        if let Some(flag) = find_own_flag(subcommand, argument) {
            parser.arguments.next().map_err(|error| error_text(&error))?;
            parser.apply(flag)?;
            if flag.is_replayed {
                let taken = rest.len() - parser.remaining();
                replay_arguments.extend_from_slice(&rest[..taken]);
            }
            last_flag = Some(flag);
            continue;
        }
        let is_flag = argument.as_bytes().starts_with(b"--");
        if is_flag && subcommand == Subcommand::Explore && find_own_flag(Subcommand::Run, argument).is_some() {
            return Err(RUN_ONLY.to_owned());
        }
        if let Some(flag) = last_flag.filter(|_| !is_flag && !server_arguments.is_empty()) {
            return Err(surplus_value(flag, argument));
        }
        last_flag = None;
        let mut taken = 1;
        if is_flag && takes_next_argument(argument, behind.first()) {
            taken = rest.len().min(2);
            if behind.first().is_some_and(|value| value == "--") {
                took_dashes.get_or_insert_with(|| argument.clone());
            }
        }
        if !is_flag {
            first_word.get_or_insert(arguments.len() - rest.len());
        }
        server_arguments.extend_from_slice(&rest[..taken]);
        replay_arguments.extend_from_slice(&rest[..taken]);
        parser.skip(taken);
    };
    if command.is_empty() && (has_dashes || subcommand != Subcommand::Record) {
        return Err(no_command());
    }
    let options = parser.finish()?;
    let config = match parse_server(&server_arguments) {
        Invocation::Serve(ConfigSources { standard_input: true, .. }) => return Err(NO_INPUT.to_owned()),
        Invocation::Serve(config) => config,
        other => return Ok(other),
    };
    Ok(invocation(CommandRun { options, config, command, replay_arguments }))
}

/// The flag of a subcommand that an argument with two dashes is, with or without a value behind a `=`.
fn find_own_flag(subcommand: Subcommand, argument: &OsStr) -> Option<&'static Flag> {
    let text = argument.as_bytes();
    let name = text.split(|byte| *byte == b'=').next().unwrap_or(text);
    find_flag(subcommand, std::str::from_utf8(name).ok()?)
}

fn example_flag(subcommand: Subcommand) -> &'static str {
    if subcommand == Subcommand::Run { " --report" } else { "" }
}

/// A command line with the `--` that one lacks: the same one, if it is short and has a word that can begin the command.
fn with_dashes(subcommand: Subcommand, arguments: &[OsString], first_word: Option<usize>) -> String {
    const LONGEST: usize = 100;
    let own = first_word.map(|at| {
        let (flags, command) = arguments.split_at(at);
        let dashes = OsString::from("--");
        let words = flags.iter().chain([&dashes]).chain(command);
        words.map(|word| format!(" {}", shell_quoted(word))).collect::<String>()
    });
    let usual = || format!("{} -- npm test", example_flag(subcommand));
    let words = own.filter(|words| words.len() <= LONGEST).unwrap_or_else(usual);
    format!("redouble {}{words}", subcommand.name())
}

/// The error text for a missing `--` that a server's flag took for its value.
fn dashes_taken(subcommand: Subcommand, flag: &OsStr) -> String {
    let name = subcommand.name();
    let hint = match suggestions::is_directive(&name_of(flag)) {
        true => format!("as in: redouble {name}{} -- npm test", example_flag(subcommand)),
        false => suggestions::for_flag(subcommand, &format!("--{}", name_of(flag))),
    };
    let flag = flag.as_bytes().escape_ascii();
    format!(
        "-- was taken for the value of '{flag}', which is no flag of redouble {name}, and those of the server have values; \
         {hint}"
    )
}

/// The error text for a word behind a flag that belongs neither to the flag nor to the server.
fn surplus_value(flag: &Flag, word: &OsStr) -> String {
    let word = word.as_bytes().escape_ascii();
    match &flag.takes {
        Takes::Nothing(_) => format!("{} takes no value; received '{word}'", flag.name),
        Takes::Value { .. } => format!("{} takes one value; received another, '{word}'", flag.name),
        Takes::OptionalLevel(_) => format!("{} takes error or warn, or nothing; received '{word}'", flag.name),
    }
}

fn error_text(error: &lexopt::Error) -> String {
    match error {
        lexopt::Error::UnexpectedValue { option, value } => {
            format!("{option} takes no value; received '{}'", value.as_bytes().escape_ascii())
        }
        other => other.to_string(),
    }
}

/// Reads a subcommand's flags into [`Options`].
struct FlagParser {
    subcommand: Subcommand,
    arguments: lexopt::Parser,
    options: Options,
    /// The first flag that is only of use together with `--audit`.
    about_audit: Option<&'static str>,
}

impl FlagParser {
    fn new(subcommand: Subcommand, arguments: &[OsString]) -> Self {
        let arguments = lexopt::Parser::from_args(arguments.iter().cloned());
        Self { subcommand, arguments, options: Options::default(), about_audit: None }
    }

    /// Reads flags with words between them. Returns whether help was asked for.
    fn read_with_words(&mut self, words: &mut Vec<OsString>) -> Result<bool, String> {
        while let Some(argument) = self.arguments.next().map_err(|error| error_text(&error))? {
            let name = match argument {
                Arg::Short('h') | Arg::Long("help") => return Ok(true),
                Arg::Short(letter) => format!("-{letter}"),
                Arg::Long(name) => format!("--{name}"),
                Arg::Value(word) => {
                    words.push(word);
                    continue;
                }
            };
            match find_flag(self.subcommand, &name) {
                Some(flag) => self.apply(flag)?,
                None => return Err(no_such_flag(self.subcommand, &name)),
            }
        }
        Ok(false)
    }

    /// How many arguments were not read yet.
    fn remaining(&mut self) -> usize {
        self.arguments.try_raw_args().map_or(0, |rest| rest.as_slice().len())
    }

    fn skip(&mut self, count: usize) {
        if let Some(rest) = self.arguments.try_raw_args() {
            rest.take(count).for_each(drop);
        }
    }

    /// Reads the value of the flag that the parser has just come across, and sets what it says.
    fn apply(&mut self, flag: &'static Flag) -> Result<(), String> {
        if flag.needs_audit && matches!(self.subcommand, Subcommand::Run | Subcommand::Explore) {
            self.about_audit.get_or_insert(flag.name);
        }
        let name = flag.name;
        let joined = self.arguments.optional_value();
        match &flag.takes {
            Takes::Nothing(set) => match joined {
                Some(value) => return Err(surplus_value(flag, &value)),
                None => set(&mut self.options),
            },
            Takes::Value { expected, set, .. } => {
                let value = match joined {
                    Some(value) => value,
                    None => self.next_value(name, expected)?,
                };
                let refusal = |_| format!("{name} takes {expected}, not '{}'", value.as_bytes().escape_ascii());
                set(&mut self.options, &value).map_err(refusal)?;
            }
            Takes::OptionalLevel(set) => {
                let given = match joined {
                    Some(value) => {
                        let refusal =
                            |_| format!("{name} takes error or warn, not '{}'", value.as_bytes().escape_ascii());
                        Some(level(&value).map_err(refusal)?)
                    }
                    None => self.optional_level(flag)?,
                };
                set(&mut self.options, given);
            }
        }
        Ok(())
    }

    /// The argument behind a flag that takes a value. One that looks like a flag has to stand behind a `=`.
    fn next_value(&mut self, name: &str, expected: &str) -> Result<OsString, String> {
        let mut rest = self.arguments.raw_args().map_err(|error| error_text(&error))?;
        let is_value = |value: &OsStr| !value.as_bytes().starts_with(b"--");
        match (rest.next_if(is_value), rest.peek()) {
            (Some(value), _) => Ok(value),
            (None, Some(other)) => Err(format!("{name} takes {expected}, not '{}'", other.as_bytes().escape_ascii())),
            (None, None) => Err(format!("{name} takes {expected}, and nothing stands behind it")),
        }
    }

    /// The level behind a flag that may do without it.
    fn optional_level(&mut self, flag: &Flag) -> Result<Option<crate::insight::audit::Severity>, String> {
        let mut rest = self.arguments.raw_args().map_err(|error| error_text(&error))?;
        if let Some(value) = rest.next_if(|value| level(value).is_ok()) {
            return Ok(level(&value).ok());
        }
        match rest.as_slice() {
            // Hardly a configuration file; and `--audit yes` is how the server itself is told.
            [word, next, ..]
                if !word.is_empty()
                    && word.as_bytes().iter().all(u8::is_ascii_lowercase)
                    && next.as_bytes().starts_with(b"--") =>
            {
                Err(surplus_value(flag, word))
            }
            _ => Ok(None),
        }
    }

    /// The options, if the flags go together.
    fn finish(self) -> Result<Options, String> {
        match self.about_audit.filter(|_| !self.options.audits) {
            Some(flag) => Err(format!("{flag} is about an audit: it goes with --audit")),
            None => Ok(self.options),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::insight::audit::Severity;
    use crate::powers::Search;

    fn parsed(arguments: &[&str]) -> Invocation {
        parse(&arguments.iter().map(OsString::from).collect::<Vec<_>>())
    }

    #[track_caller]
    fn run(arguments: &[&str]) -> CommandRun {
        match parsed(&[&["run"], arguments].concat()) {
            Invocation::Run(run) => run,
            other => panic!("{other:?}"),
        }
    }

    #[track_caller]
    fn refusal(arguments: &[&str]) -> String {
        match parsed(arguments) {
            Invocation::UsageError(_, reason) => reason,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn run_separates_its_flags_from_the_servers_and_the_command() {
        let asked = run(&["--port", "0", "--report", "--save", "--", "npm", "--", "--strict"]);
        assert_eq!(asked.command, ["npm", "--", "--strict"]);
        assert_eq!((asked.options.summary, asked.options.strict), (true, false));
        assert_eq!(asked.config.flag_lines, b"port \"0\" \nsave \"\"");
        let asked = run(&["x.conf", "--requirepass", "--strict", "--", "a"]);
        assert_eq!((asked.options.strict, asked.config.file), (false, Some(PathBuf::from("x.conf"))));
        assert_eq!(asked.config.flag_lines, b"requirepass \"--strict\" ");
        assert!(run(&["--no-control", "--strict", "--", "a"]).options.strict);
        assert!(run(&["--port=0", "--strict", "--", "a"]).options.strict);
    }

    #[test]
    fn run_takes_the_flags_of_the_auditor_and_leaves_the_servers_alone() {
        let flags =
            ["--audit", "warn", "--locks", "a:*", "--port", "0", "--junit=x.xml", "--journal-out", "j", "--", "a"];
        let CommandRun { options, config, .. } = run(&flags);
        assert!(options.audits);
        assert_eq!((options.audit.level, options.audit.locks), (Severity::Warning, vec![b"a:*".to_vec()]));
        assert_eq!((options.audit.junit, options.journal_out), (Some("x.xml".into()), Some("j".into())));
        assert_eq!(config.flag_lines, b"port \"0\" ");
        // What looks like a flag of the auditor's can be the value of one of the server's.
        let asked = run(&["--requirepass", "--audit", "--", "a"]);
        assert_eq!(
            (asked.options.audits, asked.config.flag_lines.as_slice()),
            (false, &b"requirepass \"--audit\" "[..])
        );
        // A configuration file may stand behind it.
        let asked = run(&["--audit", "x.conf", "--", "a"]);
        assert_eq!((asked.options.audits, asked.config.file), (true, Some(PathBuf::from("x.conf"))));
    }

    #[test]
    fn a_run_without_a_command_is_explained() {
        for arguments in [&["run"][..], &["run", "--report", "--"], &["explore"], &["explore", "--runs", "5", "--"]] {
            assert!(
                refusal(arguments).starts_with("no command; it stands behind --, as in: redouble "),
                "{arguments:?}"
            );
        }
        assert_eq!(refusal(&["run", "-", "--", "a"]), NO_INPUT);
        for arguments in [&["run", "npm", "test"][..], &["run", "--audit", "npm", "test"]] {
            assert!(refusal(arguments).starts_with(NO_DASHES), "{arguments:?}");
        }
        let reason = refusal(&["run", "--audit", "--json", "--", "npm", "test"]);
        assert!(reason.starts_with("-- was taken for the value of '--json'"), "{reason}");
        let reason = refusal(&["run", "--audit", "yes", "--", "a"]);
        assert_eq!(reason, "--audit takes error or warn, or nothing; received 'yes'");
    }

    #[test]
    fn explore_separates_its_flags_from_those_of_the_server_and_the_command() {
        let flags = [
            "--runs",
            "5",
            "--databases",
            "4",
            "--settle",
            "20ms",
            "--limit=9s",
            "--keep-going",
            "--",
            "npm",
            "--runs",
        ];
        let Invocation::Explore(asked) = parsed(&[&["explore"], &flags[..]].concat()) else { panic!("an exploration") };
        assert_eq!(asked.command, ["npm", "--runs"]);
        assert_eq!(asked.config.flag_lines, b"databases \"4\" ");
        assert_eq!(asked.options.search, Search::default().runs(5).settle(Duration::from_millis(20)));
        assert_eq!(asked.replay_arguments, ["--databases", "4", "--settle", "20ms", "--limit=9s"]);
        assert!(asked.options.keep_going && !asked.options.verbose);
        assert_eq!(refusal(&["explore", "--runs", "many", "--", "a"]), "--runs takes a number, not 'many'");
        let reason = refusal(&["explore", "--settle", "--", "a"]);
        assert_eq!(reason, "--settle takes a duration such as 20ms or 1.5s, not '--'");
    }

    #[test]
    fn flags_and_journals_may_stand_in_any_order() {
        let arguments = ["audit", "a.jsonl", "--level", "warn", "--locks=l:*", "-", "--json", "--", "--json"];
        let Invocation::Audit(asked) = parsed(&arguments) else { panic!("an audit") };
        assert_eq!(asked.files, ["a.jsonl", "-", "--json"].map(PathBuf::from));
        assert_eq!((asked.options.audit.level, asked.options.json), (Severity::Warning, true));
        assert_eq!(asked.options.audit.locks, [b"l:*"]);
        let arguments = ["report", "a.jsonl", "--locks", "lock:*", "-", "-o", "-", "--text", "--not-locks", "x"];
        let Invocation::Report(asked) = parsed(&arguments) else { panic!("a report") };
        assert_eq!(asked.files, ["a.jsonl", "-"].map(PathBuf::from));
        assert_eq!((asked.options.output, asked.options.text), (Some(PathBuf::from("-")), true));
        let audit = asked.options.audit;
        assert_eq!((audit.locks, audit.not_locks), (vec![b"lock:*".to_vec()], vec![b"x".to_vec()]));
    }

    #[test]
    fn journals_that_are_missing_or_too_many_are_explained() {
        for word in ["audit", "report"] {
            assert!(refusal(&[word]).starts_with("no journal; as in: redouble "), "{word}");
            assert!(refusal(&[word, "-", "-"]).contains("only one of the journals"), "{word}");
            assert!(refusal(&[word, "a", "--bogus"]).contains("no flag '--bogus'"), "{word}");
        }
        assert!(refusal(&["audit", "a", "--levels=warn"]).contains("no flag '--levels'"));
        assert_eq!(refusal(&["audit", "a", "--level", "note"]), "--level takes error or warn, not 'note'");
        assert!(refusal(&["report", "a", "-o"]).starts_with("-o takes a file"));
    }

    #[test]
    fn a_file_called_run_is_no_subcommand() {
        let Invocation::Serve(sources) = parsed(&["./run"]) else { panic!("a server") };
        assert_eq!(sources.file, Some(PathBuf::from("./run")));
    }

    #[test]
    fn the_version_of_a_profile_can_be_asked_for() {
        assert_eq!(parsed(&["-v"]), Invocation::Version);
        assert_eq!(parsed(&["--compat", "redis-7.0", "--version"]), Invocation::Version);
        assert!(matches!(parsed(&["--port", "--version"]), Invocation::Serve(_)));
    }
}
