//! Runs one unit of the suite against a server that has just started.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::packages::folder;
use super::side::{Side, finish, on_path};
use super::source::Suite;
use super::verdicts::Verdicts;

/// A unit takes less than a minute.
const LIMIT: Duration = Duration::from_secs(300);

/// The first of the ports on which the suite's own process listens, and how many each lane has.
const FIRST_PORT: usize = 21_111;
const PORTS: usize = 500;

/// The result of a unit's run.
pub struct Run {
    pub verdicts: Verdicts,
    /// The file with all its output.
    pub log: PathBuf,
}

/// A copy of the suite, because runs side by side would remove each other's files.
pub struct Lane {
    directory: PathBuf,
    first_port: usize,
}

impl Lane {
    pub fn new(suite: &Suite, number: usize) -> Result<Self, String> {
        let directory = folder().join("redis-suite").join(number.to_string());
        let failed = |error: std::io::Error| format!("{}: {error}", directory.display());
        if directory.exists() {
            fs::remove_dir_all(&directory).map_err(failed)?;
        }
        for part in ["tests", "utils"] {
            copy(&suite.directory.join(part), &directory.join(part))?;
        }
        let programs = directory.join("src");
        fs::create_dir_all(&programs).map_err(failed)?;
        for program in ["redis-server", "redis-cli", "redis-benchmark"] {
            symlink(on_path(program)?, programs.join(program)).map_err(failed)?;
        }
        Ok(Self { directory, first_port: FIRST_PORT + number * PORTS })
    }
}

pub fn run(lane: &Lane, unit: &str, side: &Side) -> Result<Run, String> {
    let name = format!("{}-{}", unit.replace('/', "_"), side.short_name());
    let data = lane.directory.join("data").join(&name);
    let logs = folder().join("logs").join("redis-suite");
    for folder in [&data, &logs] {
        fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    let directory = data.to_str().ok_or("a path that is no text")?;
    let server = side.start(&["--dir", directory, "--enable-debug-command", "yes"])?;
    let port = server.address().port().to_string();
    let mut command = Command::new(on_path("tclsh")?);
    command.arg("tests/test_helper.tcl").current_dir(&lane.directory);
    command.args(["--host", "127.0.0.1", "--port", &port, "--single", unit, "--durable", "--tags", "-needs:repl"]);
    command.args(["--baseport", &lane.first_port.to_string(), "--portcount", &PORTS.to_string()]);
    let log = logs.join(format!("{name}.log"));
    finish(command, &log, LIMIT)?;
    let output = fs::read(&log).map_err(|error| format!("{}: {error}", log.display()))?;
    Ok(Run { verdicts: Verdicts::of_tcl(&String::from_utf8_lossy(&output)), log })
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", from.display());
    fs::create_dir_all(to).map_err(failed)?;
    for entry in fs::read_dir(from).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        if source.is_dir() {
            copy(&source, &target)?;
        } else {
            fs::copy(&source, &target).map_err(failed)?;
        }
    }
    Ok(())
}
