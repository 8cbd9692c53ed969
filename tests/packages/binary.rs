//! The binary alone.

use std::process::Command;

use super::Story;
use super::environment::Environment;

pub const STORIES: &[(&str, Story)] = &[("the sums beside the files are true", sums_are_true)];

fn sums_are_true(environment: &Environment) -> Result<(), String> {
    let mut check = Command::new("sha256sum");
    check.args(["--check", "--strict", "--quiet", "SHA256SUMS"]).current_dir(environment.files());
    let output = check.output().map_err(|error| format!("sha256sum: {error}"))?;
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stdout).into_owned()) }
}
