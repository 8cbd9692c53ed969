//! Runs a suite against a server.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::findings;
use super::install::{Installed, cargo_test, examples};
use super::packages::folder;
use super::side::{Side, finish, tail};
use super::suites::{Servers, Source, Suite};
use super::support::process::ServerProcess;
use super::support::wire::Wire;
use super::verdicts::Verdicts;

/// The result of a suite's run.
pub struct Run {
    pub verdicts: Verdicts,
    /// The file with all its output.
    pub log: PathBuf,
    /// The commands that its servers received, as far as they report them.
    pub sent: Vec<String>,
    /// The journals of its servers, if they keep any.
    pub journals: Option<Vec<PathBuf>>,
}

/// Runs a suite against fresh servers. All its processes have ended when this returns.
pub fn run(suite: &Suite, installed: &Installed, side: &Side) -> Result<Run, String> {
    let name = format!("{}-{}", suite.library, side.short_name());
    let mut command = command(suite, installed);
    let mut servers = Vec::new();
    match suite.servers {
        Servers::Given { count, directives } => {
            for _ in 0..count {
                servers.push(side.start(directives)?);
            }
            let urls: Vec<String> = servers.iter().map(ServerProcess::url).collect();
            command.env("LOCKS_PORT", servers[0].address().port().to_string());
            command.env("REDIS_URL", &urls[0]).env("ADDRESSES", urls.join(","));
        }
        Servers::Own => {
            let shelf = side.wrapper(&folder().join("disguised").join(&name))?;
            let path = std::env::var("PATH").unwrap_or_default();
            command.env("PATH", format!("{}:{path}", shelf.display()));
        }
    }
    let logs = folder().join("logs");
    fs::create_dir_all(&logs).map_err(|error| format!("{}: {error}", logs.display()))?;
    let log = logs.join(format!("{name}.log"));
    finish(command, &log, Duration::from_secs(60 + 3 * suite.seconds))?;
    let output = fs::read(&log).map_err(|error| format!("{}: {error}", log.display()))?;
    let output = String::from_utf8_lossy(&output);
    let verdicts = match suite.source {
        Source::Python { .. } => Verdicts::of_pytest(&output),
        Source::Node { .. } | Source::PythonExample { .. } | Source::NodeExample { .. } => Verdicts::of_tap(&output),
        Source::Rust { .. } => Verdicts::of_libtest(&output),
    };
    if verdicts.count() == 0 {
        return Err(format!("it ran no test\n{}", tail(&log)));
    }
    let sent = servers.first().map(commands_seen).unwrap_or_default();
    let journals = match side.journal && !servers.is_empty() {
        true => Some(findings::export(&name, &servers)?),
        false => None,
    };
    Ok(Run { verdicts, log, sent, journals })
}

fn command(suite: &Suite, installed: &Installed) -> Command {
    let redirect = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/locks/redirect");
    match &suite.source {
        Source::Python { pytest, environment, .. } => {
            let mut command = Command::new(&installed.program);
            command.args(["-m", "pytest", "-q", "-rA", "--tb=short", "--timeout=60", "-p", "no:cacheprovider"]);
            command.args(*pytest).current_dir(&installed.directory);
            // Both sides share the folder, so neither leaves compiled files there.
            command.env("PYTHONDONTWRITEBYTECODE", "1").env("PYTHONPATH", redirect).envs(environment.iter().copied());
            command
        }
        Source::Node { test } => {
            let mut command = Command::new(&installed.program);
            command.arg("--require").arg(redirect.join("redirect.js"));
            command.args(["mocha/bin/_mocha", "--exit", "--reporter", "tap", test]).current_dir(&installed.directory);
            command
        }
        Source::PythonExample { program, .. } => {
            let mut command = Command::new(&installed.program);
            command.arg(program).current_dir(&installed.directory).env("PYTHONDONTWRITEBYTECODE", "1");
            command
        }
        Source::NodeExample { program, .. } => {
            let mut command = Command::new(&installed.program);
            command.arg(program).current_dir(examples()).env("NODE_PATH", &installed.directory);
            command
        }
        Source::Rust { features, .. } => cargo_test(&installed.directory, features, &["--offline"]),
    }
}

/// Returns the names of the commands that the server has run, from `cmdstat_set:calls=3,…`.
fn commands_seen(server: &ServerProcess) -> Vec<String> {
    let statistics = Wire::connect(server.address()).ask("INFO commandstats").text();
    let names = statistics.lines().filter_map(|line| line.strip_prefix("cmdstat_")?.split([':', '|']).next());
    names.map(str::to_uppercase).collect()
}
