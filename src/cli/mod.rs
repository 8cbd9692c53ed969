//! The program: a drop-in `redis-server`, and the subcommands `run`, `explore`, `audit` and `report`.
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
mod explore;
mod flags;
mod help;
mod messages;
mod outputs;
mod process;
mod report;
mod run;
mod run_audit;
mod run_results;
mod run_summary;
mod serve;
mod signals;
mod subcommand;
mod suggestions;

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use crate::base::profile::Profile;
use command_line::Invocation;
use subcommand::Subcommand;

/// Runs the program; returns once it has done what the arguments ask for.
pub(crate) fn run(is_static: bool) -> ExitCode {
    let mut arguments = std::env::args_os();
    let name = arguments.next().unwrap_or_else(|| "redouble".into());
    let arguments: Vec<OsString> = arguments.collect();
    let profile = messages::profile_of_name(Path::new(&name));
    if let Some(parent) = child::parent_to_end_with() {
        return child::become_command(&parent, &arguments);
    }
    let invocation = command_line::parse(&arguments);
    let program = Program { name, arguments, profile };
    match invocation {
        Invocation::Serve(sources) => program.serve(sources),
        Invocation::Run(run) => program.run(run),
        Invocation::Explore(exploration) => program.explore(&exploration),
        Invocation::Audit(journals) => audit::audit(journals),
        Invocation::Report(journals) => report::report(journals),
        Invocation::Help(subcommand) => print_line(help::help(subcommand).trim_end()),
        Invocation::Version => program.print_version(is_static),
        Invocation::Refused(reason) => print_error(reason.as_bytes()),
        Invocation::UsageError(subcommand, reason) => fail(subcommand, &reason),
    }
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
    print_error(format!("redouble {}: {text}", subcommand.name()).as_bytes());
}

/// Prints why a subcommand fails; returns its status for that.
fn fail(subcommand: Subcommand, reason: &str) -> ExitCode {
    print_note(subcommand, reason);
    ExitCode::from(subcommand.failure_status())
}
