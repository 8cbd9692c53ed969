//! The crate, as crates.io would get it.

use std::path::Path;
use std::process::Command;

use super::Story;
use super::environment::{Environment, run};

pub const STORIES: &[(&str, Story)] = &[
    ("the crate can be published: it builds from the files that it contains", it_builds_from_its_files),
    ("the crate is small", it_is_small),
];

/// The size of the compressed crate above which somebody added what no user needs. The sources are three quarters of it.
const MOST_BYTES: u64 = 2_000_000;

fn it_builds_from_its_files(_: &Environment) -> Result<(), String> {
    cargo(&["publish", "--dry-run", "--locked", "--allow-dirty"])
}

fn it_is_small(_: &Environment) -> Result<(), String> {
    cargo(&["package", "--no-verify", "--locked", "--allow-dirty"])?;
    let packed = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("package");
    let path = packed.join(concat!("redouble-", env!("CARGO_PKG_VERSION"), ".crate"));
    let size = std::fs::metadata(&path).map_err(|error| format!("{}: {error}", path.display()))?.len();
    if size <= MOST_BYTES { Ok(()) } else { Err(format!("{} has {size} bytes", path.display())) }
}

fn cargo(arguments: &[&str]) -> Result<(), String> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    run(cargo.args(arguments).current_dir(env!("CARGO_MANIFEST_DIR"))).map(drop)
}
