//! `redouble explore`: a test that is run again and again, each time with the commands of its clients in another order.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::future::{Future, poll_fn};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::pin::pin;
use std::process::{ExitCode, ExitStatus, Stdio};
use std::sync::Arc;
use std::task::Poll;

use rustix::process::{Pid, Signal, kill_process_group};

use super::arguments::Explore;
use super::run::{OWN_FAILURE, Signals, environment, status_of};
use super::{Start, complain, make_room, process};
use crate::base::clock::Clock;
use crate::base::duration::spell_duration;
use crate::base::error::plain;
use crate::powers::ExplorationSummary;
use crate::server::{Builder, Exploration};

/// The status for a run that has taken too long: that of `timeout`.
const TOO_LONG: u8 = 124;
/// What shells add to the number of the signal that has ended a command.
const KILLED_BY: u8 = 128;
/// How much of what a run has printed is shown: its end.
const MOST_SHOWN: u64 = 1 << 20;

/// How a run has ended.
enum End {
    Status(ExitStatus),
    TooLong,
    /// Somebody wants this program to end.
    Asked(Signal),
}

impl Start {
    /// Explores the orders of a test; returns the status of the first run that fails.
    pub(super) fn explore(self, explore: &Explore) -> ExitCode {
        match self.try_explore(explore) {
            Ok(status) => ExitCode::from(status),
            Err(reason) => {
                tell(&reason);
                ExitCode::from(OWN_FAILURE)
            }
        }
    }

    fn try_explore(&self, explore: &Explore) -> Result<u8, String> {
        let place = std::env::current_dir().map_err(|error| plain(&error))?;
        let (config, profile, log) = self.prepare(&explore.run)?;
        let seeds = config.paths("load");
        if config.number::<usize>("instances") > 1 {
            return Err("--instances does not go with it: the clients of one server are let through in turn".into());
        }
        let port = config.number("port");
        let events = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let events = events.map_err(|error| plain(&error))?;
        let _inside = events.enter();
        let mut signals = Signals::catch().map_err(|error| format!("signals cannot be caught: {}", plain(&error)))?;
        let builder = Builder::from_config(config, profile, Arc::clone(&log)).port(port);
        let servers = [builder.spawn().map_err(|error| error.to_string())?];
        let [server] = &servers;
        server.instances().iter().for_each(|instance| make_room(&instance.config, &log));
        let exploration = match &explore.replay {
            Some(token) => server.replay(token, explore.search.clone()),
            None => server.explore(explore.search.clone()),
        };
        let mut exploration = exploration.map_err(|error| error.to_string())?.load(seeds);
        let variables = environment(&servers);
        let mut status = 0;
        let mut has_ended_early = false;
        while let Some(number) = exploration.next().map_err(|error| error.to_string())? {
            let output =
                Output::new(explore.verbose).map_err(|error| format!("no file for output: {}", plain(&error)))?;
            let run = Run { explore, variables: &variables, place: &place, output: &output };
            let end = events.block_on(run.run(&mut signals))?;
            exploration.wait_for_goodbyes().map_err(|error| error.to_string())?;
            let (what, failed) = match end {
                End::Asked(signal) => {
                    tell(&format!("ended by a signal in run {number}"));
                    return Ok(KILLED_BY.saturating_add(signal.as_raw().unsigned_abs() as u8));
                }
                End::Status(status) if status.success() => {
                    if explore.replay.is_some() {
                        tell(&format!("the order passes{}", strayed(&exploration)));
                        show_order(&exploration);
                        return Ok(0);
                    }
                    continue;
                }
                End::Status(status)
                    if is_no_command(status) && exploration.order().is_ok_and(|order| order.is_empty()) =>
                {
                    output.show();
                    return Ok(status_of(status));
                }
                End::Status(status) => (status.to_string(), status_of(status)),
                End::TooLong => (format!("not done after {}", spell_duration(explore.limit)), TOO_LONG),
            };
            let token = exploration.fail().map_err(|error| error.to_string())?;
            output.show();
            tell(&format!("order {number} fails: {what}{}", strayed(&exploration)));
            show_order(&exploration);
            tell(&format!("replay: {}", self.replay_line(explore, &token)));
            status = if status == 0 { failed } else { status };
            if !explore.keeps_going || explore.replay.is_some() {
                has_ended_early = true;
                break;
            }
        }
        let findings = exploration.stop().map_err(|error| error.to_string())?;
        if findings.turns == 0 && !has_ended_early {
            return Err(
                "no command was held in any run, so nothing was explored: the test is to connect to REDIS_URL, \
                        and its clients are to fit --client"
                    .into(),
            );
        }
        if explore.replay.is_none() {
            tell(&summary(&findings, has_ended_early));
        }
        Ok(status)
    }

    /// The command line that goes through one order again.
    fn replay_line(&self, explore: &Explore, token: &str) -> String {
        let words = [&self.program, &OsString::from("explore"), &"--replay".into(), &token.into()].map(Clone::clone);
        let words = words.into_iter().chain(explore.kept.iter().cloned()).chain(["--".into()]);
        let words: Vec<String> = words.chain(explore.run.command.iter().cloned()).map(|word| quoted(&word)).collect();
        words.join(" ")
    }
}

/// Whether this is how a program ends that was not found, or cannot be run; nothing has raced then.
fn is_no_command(status: ExitStatus) -> bool {
    matches!(status.code(), Some(126 | 127))
}

/// One run of the command.
struct Run<'a> {
    explore: &'a Explore,
    variables: &'a [(&'static str, String)],
    place: &'a PathBuf,
    output: &'a Output,
}

impl Run<'_> {
    async fn run(&self, signals: &mut Signals) -> Result<End, String> {
        let mut command = process::companion(&self.explore.run.command);
        command.current_dir(self.place).envs(self.variables.iter().map(|(name, value)| (name, value)));
        // Whatever it starts is to end with it, so that it does not meddle with the next run.
        command.process_group(0).stdin(Stdio::null());
        if let Output::Kept(file) = self.output {
            let copy = || file.try_clone().map_err(|error| plain(&error));
            command.stdout(copy()?).stderr(copy()?);
        }
        let mut child = command.spawn().map_err(|error| format!("the command cannot be started: {}", plain(&error)))?;
        let group = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        let signal_all = |signal| group.is_some_and(|group| kill_process_group(group, signal).is_ok());
        let mut asked = None;
        let (mut time, mut is_over) = (pin!(Clock::sleep(self.explore.limit)), false);
        let status = {
            let mut ended = pin!(child.wait());
            poll_fn(|cx| {
                while let Poll::Ready(signal) = signals.poll(cx) {
                    asked.get_or_insert(signal);
                    signal_all(signal);
                }
                if !is_over && time.as_mut().poll(cx).is_ready() {
                    is_over = true;
                    signal_all(Signal::KILL);
                }
                ended.as_mut().poll(cx)
            })
            .await
        };
        let status = status.map_err(|error| plain(&error))?;
        signal_all(Signal::KILL);
        Ok(match asked {
            Some(signal) => End::Asked(signal),
            None if is_over => End::TooLong,
            None => End::Status(status),
        })
    }
}

/// Where the command prints.
enum Output {
    /// To where this program prints.
    Shown,
    /// Into a file without a name, until it is known whether that is of interest.
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
        let start = length.saturating_sub(MOST_SHOWN);
        if file.seek(SeekFrom::Start(start)).and_then(|_| file.take(MOST_SHOWN).read_to_end(&mut text)).is_ok() {
            // There is nobody left to tell when this fails.
            let _ = io::stderr().write_all(&text);
        }
    }
}

fn tell(text: &str) {
    let _ = complain(format!("redouble explore: {text}").as_bytes());
}

fn show_order(exploration: &Exploration) {
    let lines = exploration.order().unwrap_or_default();
    let _ = complain(
        if lines.is_empty() { b"  (no command has come)".to_vec() } else { lines.join("\n").into_bytes() }.as_slice(),
    );
}

fn strayed(exploration: &Exploration) -> String {
    let how = exploration.strayed();
    how.map(|how| format!(" (it did not follow its order: {how})")).unwrap_or_default()
}

fn summary(findings: &ExplorationSummary, has_ended_early: bool) -> String {
    let ExplorationSummary { runs, random, repeated, failed, skipped, turns, clients, strayed, too_long, .. } =
        findings;
    let mut text = format!(
        "{}, {failed} failed; up to {clients} clients and {turns} commands; {}",
        if *runs == 1 { "1 run".to_owned() } else { format!("{runs} runs") },
        match (findings.is_complete, has_ended_early) {
            (true, _) => "these are all orders",
            (false, true) => "ended at the first failure",
            (false, false) => "not all orders",
        }
    );
    let mut add = |count: u64, what: &str| {
        if count > 0 {
            text.push_str(&format!("\n  {count} {what}"));
        }
    };
    add(*random, "runs in random orders");
    add(*repeated, "runs differed from others only in commands that commute");
    add(*skipped, "choices left out that differ from others only in commands that commute");
    add(*too_long, "runs had more commands or clients than can be explored");
    if let Some(how) = findings.how.as_ref().filter(|_| *strayed > 0) {
        add(*strayed, &format!("runs did not follow their orders, so the test does not only depend on these: {how}"));
    }
    text
}

/// A word as shells read it.
fn quoted(word: &OsString) -> String {
    let text = String::from_utf8_lossy(word.as_bytes()).into_owned();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) { text } else { format!("'{}'", text.replace('\'', "'\\''")) }
}
