//! Installs suites, once: through pip, npm and cargo, from the registries that these are configured for.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::packages::{COMMON_NODE, done, folder, node_modules, once, python};
use super::sources::{cargo, copy, crate_source, edit, source_package};
use super::suites::{Source, Suite};

/// Where a suite runs, and with which interpreter or packages.
pub struct Installed {
    pub directory: PathBuf,
    pub program: PathBuf,
}

pub fn install(suite: &Suite) -> Result<Installed, String> {
    match &suite.source {
        Source::Python { package, requirements, added, edits, .. } => {
            let program = python(*requirements)?;
            let wanted = format!("{package}=={}", suite.version);
            let made_from = format!("{wanted} {requirements} {added:?} {edits:?}", requirements = requirements.text);
            let directory = folder().join("sources").join(suite.library);
            once(&directory, &made_from, || {
                source_package(&program, &wanted, package, &directory)?;
                for (file, text) in *added {
                    fs::write(directory.join(file), text).map_err(|error| format!("{file}: {error}"))?;
                }
                edit(&directory, edits)
            })?;
            Ok(Installed { directory, program })
        }
        Source::PythonExample { requirements, .. } => {
            Ok(Installed { directory: examples(), program: python(*requirements)? })
        }
        Source::NodeExample { packages, .. } => {
            Ok(Installed { directory: node_modules(*packages)?, program: "node".into() })
        }
        Source::Node { .. } => Ok(Installed { directory: node_modules(COMMON_NODE)?, program: "node".into() }),
        Source::Rust { package, features, edits } => {
            let directory = folder().join("sources").join(suite.library);
            let made_from = format!("{package}={} {features:?} {edits:?}", suite.version);
            once(&directory, &made_from, || {
                copy(&crate_source(package, suite.version)?, &directory)?;
                edit(&directory, edits)?;
                done(cargo_test(&directory, features, &["--no-run"]))
            })?;
            Ok(Installed { directory, program: cargo().into() })
        }
    }
}

/// The folder of the programs that use libraries as their READMEs show.
pub fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/locks/examples")
}

/// Returns the command that runs a crate's unit tests.
pub fn cargo_test(directory: &Path, features: &[&str], more: &[&str]) -> Command {
    let mut command = Command::new(cargo());
    command.args(["test", "--lib", "--features", &features.join(",")]).args(more).current_dir(directory);
    // A separate target folder without debug information stays small.
    command.arg("--target-dir").arg(directory.join("target"));
    command.env("CARGO_PROFILE_DEV_DEBUG", "0").env("CARGO_INCREMENTAL", "0");
    command
}
