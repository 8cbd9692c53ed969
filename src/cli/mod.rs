//! The program: a drop-in `redis-server`, the subcommands `run`, `explore`, `record`, `audit`, `report` and `explain`, and
//! a small `redis-cli`.
//!
//! Knows arguments, configuration files, signals, child processes and exit statuses.
//! May use: every floor below it.
//! Begin with [`run`] here, which does what [`command_line`] finds in the arguments. [`flags`] is the table of all flags; each
//! subcommand has a file of its name, and a plain server has [`serve`].

mod audit;
mod audit_options;
mod audit_result;
mod child;
mod command_line;
mod directives;
mod environment;
mod explain;
mod explore;
mod flags;
mod front_files;
mod help;
mod messages;
mod outputs;
mod process;
mod progress;
mod record;
mod redis_cli;
mod report;
mod run;
mod run_audit;
mod run_results;
mod run_summary;
mod serve;
mod signals;
mod subcommand;
mod suggestions;
mod terminal;
mod verbose;

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::ExitCode;

use crate::base::profile::Profile;
use command_line::Invocation;
use subcommand::Subcommand;
use terminal::Screen;

/// Runs the program; returns once it has done what the arguments ask for.
pub(crate) fn run(is_static: bool) -> ExitCode {
    let mut arguments = std::env::args_os();
    let name = arguments.next().unwrap_or_else(|| "redouble".into());
    let arguments: Vec<OsString> = arguments.collect();
    let profile = messages::profile_of_name(Path::new(&name));
    if let Some(parent) = child::parent_to_end_with() {
        return child::become_command(&parent, &arguments);
    }
    if let Some(arguments) = client_arguments(&name, &arguments) {
        return redis_cli::run(arguments, &profile);
    }
    let invocation = command_line::parse(&arguments);
    let program = Program { name, arguments, profile };
    match invocation {
        Invocation::Serve(sources) => program.serve(sources),
        Invocation::Run(run) => program.run(run),
        Invocation::Record(recording) => program.record(recording),
        Invocation::Explore(exploration) => program.explore(exploration),
        Invocation::Audit(journals) => audit::audit(journals),
        Invocation::Report(journals) => report::report(journals),
        Invocation::Explain(words) => explain::explain(&words),
        Invocation::ExplainKey(key, journals) => explain::explain_key(&key, journals),
        Invocation::Help(subcommand) => print_line(help::help(subcommand).trim_end()),
        Invocation::ExitStatuses => print_line(help::exit_statuses(Screen::stdout()).trim_end()),
        Invocation::ClientHelp => print_line(redis_cli::HELP.trim_end()),
        Invocation::Version => program.print_version(is_static),
        Invocation::Refused(reason) => print_error(reason.as_bytes()),
        Invocation::UsageError(subcommand, reason) => fail(subcommand, &reason),
    }
}

/// The arguments of `redis-cli`, if that is what the program was started as: by its name, or as `redouble cli`.
fn client_arguments<'a>(name: &OsStr, arguments: &'a [OsString]) -> Option<&'a [OsString]> {
    let name = Path::new(name).file_name().unwrap_or_default();
    if name == "redis-cli" || name == "valkey-cli" {
        return Some(arguments);
    }
    arguments.split_first().filter(|(first, _)| *first == redis_cli::SUBCOMMAND).map(|(_, rest)| rest)
}

/// How the program was started.
struct Program {
    name: OsString,
    arguments: Vec<OsString>,
    /// The profile that the name asks for.
    profile: Profile,
}

impl Program {
    fn print_version(&self, is_static: bool) -> ExitCode {
        let profile = match self.arguments.as_slice() {
            [_, name, _] => name.to_string_lossy().parse(),
            _ => Ok(self.profile),
        };
        match profile {
            Ok(profile) if messages::is_server_name(Path::new(&self.name)) => print_line(&messages::version(&profile)),
            Ok(profile) => {
                print_line(&format!("{}\n{}", messages::version(&profile), messages::build(&profile, is_static)))
            }
            Err(reason) => print_error(reason.as_bytes()),
        }
    }
}

fn print_line(text: &str) -> ExitCode {
    match writeln!(io::stdout(), "{text}") {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn print_error(text: &[u8]) -> ExitCode {
    // There is no other place to report that standard error is closed.
    let _ = io::stderr().write_all(&[text, b"\n"].concat());
    ExitCode::FAILURE
}

/// Prints a line on standard error, with the subcommand that says it.
fn print_note(subcommand: Subcommand, text: &str) {
    let name = Screen::stderr().ink.bold(&format!("redouble {}:", subcommand.name()));
    print_error(format!("{name} {text}").as_bytes());
}

/// Prints why a subcommand fails; returns its status for that.
fn fail(subcommand: Subcommand, reason: &str) -> ExitCode {
    print_note(subcommand, reason);
    ExitCode::from(subcommand.failure_status())
}

/// A word as a shell reads it.
fn shell_quoted(word: &OsStr) -> String {
    let text = String::from_utf8_lossy(word.as_bytes()).into_owned();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) { text } else { format!("'{}'", text.replace('\'', "'\\''")) }
}
