//! `redouble explore`: a test that is run again and again, each time with the commands of its clients in another order.

use std::fs::{self, File, OpenOptions};
use std::future::{Future, poll_fn};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::pin::pin;
use std::process::{ExitCode, ExitStatus, Stdio};
use std::sync::Arc;
use std::task::Poll;

use rustix::process::{Pid, Signal, kill_process_group};

use super::audit::STATUS_FOUND;
use super::audit_result::AuditResult;
use super::child::{child_command, shell_status, signal_status};
use super::command_line::CommandRun;
use super::environment::environment;
use super::progress::Progress;
use super::run::numbered_instances;
use super::run_results::RunResults;
use super::serve::raise_file_limit;
use super::signals::ForwardedSignals;
use super::subcommand::Subcommand;
use super::terminal::Screen;
use super::{Program, fail, print_error, print_note, shell_quoted};
use crate::base::clock::Clock;
use crate::base::duration::spell_duration;
use crate::base::error::plain;
use crate::base::text::counted;
use crate::powers::ExplorationSummary;
use crate::server::{Builder, Exploration, Server};

/// The status of a run that takes too long, as `timeout` has it.
const STATUS_TIMED_OUT: u8 = 124;
/// How much of a run's output is shown: its end.
const MAX_SHOWN: u64 = 1 << 20;

/// How a run has ended.
enum RunEnd {
    Exited(ExitStatus),
    TimedOut,
    /// This program got a signal to end.
    Interrupted(Signal),
}

impl Program {
    /// Explores the orders of a test; returns the status of the first run that fails.
    pub(super) fn explore(self, explore: CommandRun) -> ExitCode {
        match self.try_explore(explore) {
            Ok(status) => ExitCode::from(status),
            Err(reason) => fail(Subcommand::Explore, &reason),
        }
    }

    fn try_explore(&self, mut explore: CommandRun) -> Result<u8, String> {
        let directory = std::env::current_dir().map_err(|error| plain(&error))?;
        let results = RunResults::prepare(&explore.options)?;
        if let Some(audit) = &results.audit {
            explore.config.flag_lines.extend(audit.directives());
        }
        let explore = &explore;
        let options = &explore.options;
        let (config, profile, log) = self.prepare_server(Subcommand::Explore, explore)?;
        if results.needs_journal() {
            config.assign("journal", "yes");
        }
        let seeds = config.paths("load");
        if config.number::<usize>("instances") > 1 {
            return Err("--instances does not go with it: the clients of one server are let through in turn".into());
        }
        let events = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let events = events.map_err(|error| plain(&error))?;
        let _inside = events.enter();
        let mut signals = ForwardedSignals::catch()?;
        let builder = Builder::for_command(config, profile, Arc::clone(&log));
        let servers = builder.spawn_all().map_err(|error| error.to_string())?;
        let server = servers.first().ok_or("there is no instance")?;
        let instances = servers.iter().flat_map(Server::instances);
        instances.for_each(|instance| raise_file_limit(&instance.config, &log));
        let exploration = match &options.replay {
            Some(token) => server.replay(token, options.search.clone()),
            None => server.explore(options.search.clone()),
        };
        let mut exploration = exploration.map_err(|error| error.to_string())?.load(seeds);
        let variables = environment(&servers, &options.variables);
        let mut status = 0;
        let mut has_ended_early = false;
        let mut failures = 0;
        // Of the last run, as long as none has failed.
        let mut audit_of_run = None;
        let numbered = numbered_instances(&servers);
        let mut progress = options.replay.is_none().then(|| Progress::new(options.verbose));
        while let Some(number) = exploration.next().map_err(|error| error.to_string())? {
            if let Some(progress) = &mut progress {
                progress.update(number - 1, failures, exploration.left());
            }
            // What was found in the run before belongs to that run.
            numbered.iter().for_each(|(_, instance)| instance.audit.forget_past());
            let output =
                Output::new(options.verbose).map_err(|error| format!("no file for output: {}", plain(&error)))?;
            let run = OneRun { explore, variables: &variables, directory: &directory, output: &output };
            let end = events.block_on(run.run(&mut signals))?;
            exploration.wait_for_goodbyes().map_err(|error| error.to_string())?;
            let audit = results.audit_run(&numbered);
            let misuse = audit.as_ref().and_then(AuditResult::failure).map(|found| format!("{found} (--audit)"));
            let passes = matches!(end, RunEnd::Exited(status) if status.success()) && misuse.is_none();
            if let Some(progress) = progress.as_mut().filter(|_| !passes) {
                progress.erase();
            }
            let (mut what, failed) = match end {
                RunEnd::Interrupted(signal) => {
                    say(&format!("ended by a signal in run {number}"));
                    return Ok(signal_status(signal));
                }
                RunEnd::Exited(_) if passes => {
                    if failures == 0 {
                        audit_of_run = audit;
                    }
                    if options.replay.is_some() {
                        say(&format!("the order passes{}", strayed_text(&exploration)));
                        show_order(&exploration);
                        results.write_run(&numbered, audit_of_run)?;
                        return Ok(0);
                    }
                    continue;
                }
                RunEnd::Exited(status) if status.success() => (String::new(), STATUS_FOUND),
                RunEnd::Exited(status)
                    if is_no_command(status) && exploration.order().is_ok_and(|order| order.is_empty()) =>
                {
                    output.show();
                    return Ok(shell_status(status));
                }
                RunEnd::Exited(status) => (status.to_string(), shell_status(status)),
                RunEnd::TimedOut => (format!("not done after {}", spell_duration(options.limit)), STATUS_TIMED_OUT),
            };
            what = [Some(what).filter(|what| !what.is_empty()), misuse]
                .into_iter()
                .flatten()
                .collect::<Vec<_>>()
                .join(", and ");
            failures += 1;
            let token = exploration.fail().map_err(|error| error.to_string())?;
            output.show();
            say(&format!("order {number} fails: {what}{}", strayed_text(&exploration)));
            show_order(&exploration);
            if let Some(audit) = &audit {
                audit.print(Subcommand::Explore, Screen::stderr());
                audit.omissions().iter().for_each(|line| say(line));
            }
            say(&format!("replay: {}", self.replay_line(explore, &token)));
            if failures == 1 {
                results.write_run(&numbered, audit)?;
            }
            status = if status == 0 { failed } else { status };
            if !options.keep_going || options.replay.is_some() {
                has_ended_early = true;
                break;
            }
        }
        drop(progress);
        if failures == 0 {
            if let Some(audit) = audit_of_run {
                audit.write_files()?;
            }
            let files = results.files_of_a_failure();
            if !files.is_empty() {
                say(&format!("no order failed, so nothing was written to {}", files.join(" and ")));
            }
        }
        let summary = exploration.stop().map_err(|error| error.to_string())?;
        if summary.turns == 0 && !has_ended_early {
            return Err(
                "no command was held in any run, so nothing was explored: the test is to connect to REDIS_URL, \
                        and its clients are to fit --client"
                    .into(),
            );
        }
        if options.replay.is_none() {
            say(&summary_text(&summary, has_ended_early));
        }
        Ok(status)
    }

    /// The command line that runs one order again.
    fn replay_line(&self, explore: &CommandRun, token: &str) -> String {
        let words = [self.name.clone(), Subcommand::Explore.name().into(), "--replay".into(), token.into()];
        let words = words.into_iter().chain(explore.replay_arguments.iter().cloned()).chain(["--".into()]);
        let words: Vec<String> = words.chain(explore.command.iter().cloned()).map(|word| shell_quoted(&word)).collect();
        words.join(" ")
    }
}

/// Whether the command was not found or could not be run.
fn is_no_command(status: ExitStatus) -> bool {
    matches!(status.code(), Some(126 | 127))
}

/// One run of the command.
struct OneRun<'a> {
    explore: &'a CommandRun,
    variables: &'a [(String, String)],
    directory: &'a PathBuf,
    output: &'a Output,
}

impl OneRun<'_> {
    async fn run(&self, signals: &mut ForwardedSignals) -> Result<RunEnd, String> {
        let cannot_start = |error: io::Error| format!("the command cannot be started: {}", plain(&error));
        let mut command = child_command(&self.explore.command).map_err(cannot_start)?;
        command.current_dir(self.directory).envs(self.variables.iter().map(|(name, value)| (name, value)));
        // A process group, so that no process of this run is left to disturb the next one.
        command.process_group(0).stdin(Stdio::null());
        if let Output::Kept(file) = self.output {
            let copy = || file.try_clone().map_err(|error| plain(&error));
            command.stdout(copy()?).stderr(copy()?);
        }
        let mut child = command.spawn().map_err(cannot_start)?;
        let group = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        let signal_all = |signal| group.is_some_and(|group| kill_process_group(group, signal).is_ok());
        let mut interrupted = None;
        let (mut limit, mut is_over) = (pin!(Clock::sleep(self.explore.options.limit)), false);
        let status = {
            let mut ended = pin!(child.wait());
            poll_fn(|cx| {
                while let Poll::Ready(signal) = signals.poll(cx) {
                    interrupted.get_or_insert(signal);
                    signal_all(signal);
                }
                if !is_over && limit.as_mut().poll(cx).is_ready() {
                    is_over = true;
                    signal_all(Signal::KILL);
                }
                ended.as_mut().poll(cx)
            })
            .await
        };
        let status = status.map_err(|error| plain(&error))?;
        signal_all(Signal::KILL);
        Ok(match interrupted {
            Some(signal) => RunEnd::Interrupted(signal),
            None if is_over => RunEnd::TimedOut,
            None => RunEnd::Exited(status),
        })
    }
}

/// Where a run's output goes.
enum Output {
    /// To this program's output.
    Shown,
    /// Into a file without a name, which is shown if the run fails.
    Kept(File),
}

impl Output {
    fn new(is_shown: bool) -> io::Result<Self> {
        if is_shown {
            return Ok(Self::Shown);
        }
        let path = std::env::temp_dir().join(format!("redouble-explore-{}", std::process::id()));
        let file = OpenOptions::new().read(true).append(true).create_new(true).open(&path)?;
        fs::remove_file(&path)?;
        Ok(Self::Kept(file))
    }

    fn show(&self) {
        let Self::Kept(file) = self else { return };
        let (mut file, mut text) = (file, Vec::new());
        let length = file.metadata().map(|about| about.len()).unwrap_or(0);
        let start = length.saturating_sub(MAX_SHOWN);
        if file.seek(SeekFrom::Start(start)).and_then(|_| file.take(MAX_SHOWN).read_to_end(&mut text)).is_ok() {
            // There is no other place to report that standard error is closed.
            let _ = io::stderr().write_all(&text);
        }
    }
}

fn say(text: &str) {
    print_note(Subcommand::Explore, text);
}

fn show_order(exploration: &Exploration) {
    let lines = exploration.order().unwrap_or_default();
    let text = if lines.is_empty() { "  (no command has come)".to_owned() } else { lines.join("\n") };
    print_error(text.as_bytes());
}

/// How the run has left its order, in brackets, if it has.
fn strayed_text(exploration: &Exploration) -> String {
    let how = exploration.strayed();
    how.map(|how| format!(" (it did not follow its order: {how})")).unwrap_or_default()
}

fn summary_text(summary: &ExplorationSummary, has_ended_early: bool) -> String {
    let ExplorationSummary { runs, random, repeated, failed, skipped, turns, clients, strayed, too_long, .. } = summary;
    let ExplorationSummary { polls, endless, dropped, .. } = summary;
    let mut text = format!(
        "{}, {failed} failed; up to {clients} clients and {turns} commands; {}",
        counted(*runs, "run"),
        match (summary.is_complete, has_ended_early) {
            (true, _) if *polls > 0 => "these are all orders but for repetitions",
            (true, _) => "these are all orders",
            (false, true) => "ended at the first failure",
            (false, false) => "not all orders",
        }
    );
    let mut add = |count: u64, noun: &str, what: &str| {
        if count > 0 {
            text.push_str(&format!("\n  {} {what}", counted(count, noun)));
        }
    };
    add(*random, "run", "in random orders");
    add(*repeated, "run", "differed from others only in commands that commute");
    add(*skipped, "choice", "left out, equal to others but for commands that commute");
    add(*polls, "choice", "left out, in which a client repeats a refused command and nothing has changed (--polls)");
    add(*dropped, "choice", "left out, because there are too many to remember");
    add(*endless, "run", "in which clients repeated refused commands without end, and nothing else could happen");
    add(*too_long, "run", "had more commands or clients than can be explored");
    if let Some(how) = summary.how.as_ref().filter(|_| *strayed > 0) {
        add(
            *strayed,
            "run",
            &format!("did not follow the planned order, so the test depends on more than the order: {how}"),
        );
    }
    text
}
