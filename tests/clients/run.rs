//! Runs a suite against a server.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::install::{Installed, redis_rs_tests};
use super::packages::folder;
use super::side::{Side, finish, tail};
use super::suites::{CONNECTS_OUTSIDE, Source, Suite};
use super::support::process::free_port;
use super::verdicts::Verdicts;

/// The result of a suite's run.
pub struct Run {
    pub verdicts: Verdicts,
    /// The file with all its output.
    pub log: PathBuf,
}

/// Runs a suite against a server that has just started, or lets it start servers itself.
pub fn run(suite: &Suite, installed: &Installed, side: &Side) -> Result<Run, String> {
    let name = format!("{}-{}", suite.name, side.short_name());
    let data = folder().join("data").join(&name);
    if data.exists() {
        fs::remove_dir_all(&data).map_err(|error| format!("{}: {error}", data.display()))?;
    }
    let logs = folder().join("logs").join("clients");
    for folder in [&data, &logs] {
        fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    let directory = data.to_str().ok_or("a path that is no text")?;
    let socket = data.join("server.sock");
    let socket = socket.to_str().ok_or("a path that is no text")?;
    let mut command = command(suite, installed);
    let _server = if suite.source.starts_servers() {
        let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/programs");
        let (shelf, path) = (side.wrapper(&data)?, std::env::var("PATH").unwrap_or_default());
        command.env("PATH", format!("{}:{}:{path}", programs.display(), shelf.display()));
        command.env("LOCKS_PORT", free_port().to_string());
        None
    } else {
        let server = side.start(&["--dir", directory, "--unixsocket", socket, "--enable-debug-command", "yes"])?;
        let port = server.address().port().to_string();
        command.env("LOCKS_PORT", &port);
        if let Source::Hiredis { .. } = suite.source {
            command.args(["-h", "127.0.0.1", "-p", &port, "-s", socket]);
        }
        Some(server)
    };
    let log = logs.join(format!("{name}.log"));
    finish(command, &log, Duration::from_secs(120 + 4 * suite.seconds))?;
    let output = fs::read(&log).map_err(|error| format!("{}: {error}", log.display()))?;
    let output = String::from_utf8_lossy(&output);
    let verdicts = match suite.source {
        Source::Python { .. } => Verdicts::of_pytest(&output),
        Source::Ioredis | Source::NodeRedis { .. } => Verdicts::of_tap(&output),
        Source::RedisRs { .. } => Verdicts::of_libtest(&output),
        Source::Hiredis { .. } => Verdicts::of_hiredis(&output),
    };
    if verdicts.count() == 0 {
        return Err(format!("it ran no test\n{}", tail(&log)));
    }
    Ok(Run { verdicts, log })
}

fn command(suite: &Suite, installed: &Installed) -> Command {
    let redirect = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/locks/redirect");
    let mut command = Command::new(&installed.program);
    command.current_dir(&installed.directory);
    match suite.source {
        Source::Python { package, pytest } => {
            command.args(["-m", "pytest", "-q", "-rA", "--tb=short", "--timeout=60", "-p", "no:cacheprovider"]);
            command.args(Source::common_pytest(package)).args(pytest);
            // Both sides share the folder, so neither leaves compiled files there.
            command.env("PYTHONDONTWRITEBYTECODE", "1").env("PYTHONPATH", redirect);
        }
        Source::Ioredis => {
            command.arg("--require").arg(redirect.join("redirect.js")).arg("../mocha/bin/_mocha");
            command.args(["--reporter", "tap", "--invert", "--grep", CONNECTS_OUTSIDE]).env("NODE_ENV", "test");
        }
        Source::NodeRedis { .. } => {
            command.args(["../../../node_modules/mocha/bin/_mocha", "--reporter", "tap", "--exit"]);
            command.args(["--require", "source-map-support/register", "--require", "ts-node/register"]);
            command.args(["./lib/**/*.spec.ts", "--redis-version", "7.0"]).env("TS_NODE_TRANSPILE_ONLY", "1");
            command.current_dir(installed.directory.join("packages/client"));
        }
        Source::RedisRs { protocol } => {
            command = redis_rs_tests(&installed.directory);
            // The tests' own watch over panics is for one test at a time.
            command.args(["--offline", "--no-fail-fast"]).env("PROTOCOL", protocol).args(["--", "--test-threads=1"]);
        }
        Source::Hiredis { .. } => {}
    }
    command
}
