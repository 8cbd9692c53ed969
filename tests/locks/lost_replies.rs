//! Runs the cases of the table on `docs/lost-replies.md`: what lock libraries do when the reply to a successful lock
//! command is lost.

use std::path::Path;
use std::process::Command;

use super::install::{Installed, install};
use super::packages::{COMMON, COMMON_NODE, node_modules, python, said, write};
use super::shows;
use super::suites::{SUITES, Source};
use super::support::process::ServerProcess;

const PAGE: &str = include_str!("../../docs/lost-replies.md");

/// Whether the page says what happens. `Err` if the programs cannot run.
pub fn page_is_right() -> Result<bool, String> {
    let mut happened = Vec::new();
    let programs = [python_program()?, node_program()?, rust_program()?];
    for mut program in programs {
        let server = ServerProcess::redouble(&[]);
        happened.extend(said(program.env("REDIS_URL", server.url()))?.lines().map(|line| format!("| {line} |")));
    }
    let shown: Vec<&str> = PAGE.lines().filter(|line| line.contains("| close-")).collect();
    Ok(shows("docs/lost-replies.md", &shown, &happened))
}

fn program(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/locks/lost_replies").join(name)
}

fn python_program() -> Result<Command, String> {
    let mut command = Command::new(python(COMMON)?);
    command.arg(program("redis_py.py"));
    Ok(command)
}

fn node_program() -> Result<Command, String> {
    let mut command = Command::new("node");
    command.arg(program("node_redlock.js")).env("NODE_PATH", node_modules(COMMON_NODE)?);
    Ok(command)
}

/// Builds the program beside rslock's own source and shares its build.
fn rust_program() -> Result<Command, String> {
    let suite = SUITES.iter().find(|suite| suite.library == "rslock").ok_or("no suite is called rslock")?;
    let Source::Rust { features, .. } = suite.source else { return Err("rslock is no crate".to_owned()) };
    let Installed { directory, program } = install(suite)?;
    write(&directory.join("examples/lost_reply.rs"), include_str!("lost_replies/rslock.rs"))?;
    let target = directory.join("target");
    let mut command = Command::new(program);
    command.args(["run", "--quiet", "--example", "lost_reply", "--features", &features.join(",")]);
    command.arg("--target-dir").arg(target).current_dir(directory);
    command.env("CARGO_PROFILE_DEV_DEBUG", "0").env("CARGO_INCREMENTAL", "0");
    Ok(command)
}
