//! Bringing a suite here, once: packages come through pip, npm and cargo, from wherever these are set up to look.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::packages::{COMMON_NODE, done, folder, node_modules, once, python, said, write};
use super::suites::{Edit, Source, Suite};

/// Where a suite is to be run, and with what.
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

/// The command that runs a crate's unit tests.
pub fn cargo_test(directory: &Path, features: &[&str], more: &[&str]) -> Command {
    let mut command = Command::new(cargo());
    command.args(["test", "--lib", "--features", &features.join(",")]).args(more).current_dir(directory);
    // Its own build folder, small: nobody looks at these programs with a debugger.
    command.arg("--target-dir").arg(directory.join("target"));
    command.env("CARGO_PROFILE_DEV_DEBUG", "0").env("CARGO_INCREMENTAL", "0");
    command
}

fn cargo() -> String {
    std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned())
}

/// Unpacks the source package of a Python library: the one kind of package that brings its tests along.
fn source_package(python: &Path, wanted: &str, package: &str, directory: &Path) -> Result<(), String> {
    let packed = directory.join("packed");
    let mut download = Command::new(python);
    download.args(["-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", package]);
    // What builds it stands in the requirements, at a fixed version as everything else.
    download.args(["--no-build-isolation", "--dest"]).arg(&packed).arg(wanted);
    done(download)?;
    let archive = only_entry(&packed)?;
    let unpacked = directory.join("unpacked");
    let mut unpack = Command::new(python);
    unpack.args(["-m", "tarfile", "--extract"]).arg(&archive).arg(&unpacked);
    done(unpack)?;
    let top = only_entry(&unpacked)?;
    for entry in entries(&top)? {
        let name = entry.file_name().unwrap_or_default();
        fs::rename(&entry, directory.join(name)).map_err(|error| format!("{}: {error}", entry.display()))?;
    }
    Ok(())
}

/// Where cargo has put a crate's source.
fn crate_source(package: &str, version: &str) -> Result<PathBuf, String> {
    let directory = folder().join("fetched").join(package);
    fs::create_dir_all(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    let manifest = directory.join("Cargo.toml");
    let text = format!(
        "[package]\nname = \"fetched\"\nedition = \"2024\"\n\n[lib]\npath = \"nothing.rs\"\n\n\
         [dependencies]\n{package} = \"={version}\"\n\n[workspace]\n"
    );
    write(&manifest, &text)?;
    write(&directory.join("nothing.rs"), "")?;
    let mut metadata = Command::new(cargo());
    metadata.args(["metadata", "--quiet", "--format-version", "1", "--manifest-path"]).arg(&manifest);
    let metadata = said(&mut metadata)?;
    // One path in a long line of JSON: between the quote before it and its well-known end.
    let end = format!("{package}-{version}");
    let at = metadata.find(&format!("/{end}/Cargo.toml\"")).ok_or_else(|| format!("cargo does not know {end}"))?;
    let start = metadata[..at].rfind('"').map_or(0, |quote| quote + 1);
    Ok(Path::new(&metadata[start..at]).join(end))
}

fn edit(directory: &Path, edits: &[Edit]) -> Result<(), String> {
    for Edit { file, from, until, with } in edits {
        let path = directory.join(file);
        let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let place = text.split_once(from).and_then(|(before, rest)| {
            let end = rest.find(until)?;
            Some((before, &rest[end..]))
        });
        let (before, after) = place.ok_or_else(|| format!("{}: no {from:?} before {until:?}", path.display()))?;
        write(&path, &format!("{before}{with}{after}"))?;
    }
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    fs::create_dir_all(to).map_err(|error| format!("{}: {error}", to.display()))?;
    for entry in entries(from)? {
        let target = to.join(entry.file_name().unwrap_or_default());
        if entry.is_dir() {
            copy(&entry, &target)?;
        } else {
            fs::copy(&entry, &target).map_err(|error| format!("{}: {error}", entry.display()))?;
        }
    }
    Ok(())
}

fn entries(directory: &Path) -> Result<Vec<PathBuf>, String> {
    let list = fs::read_dir(directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    Ok(list.filter_map(|entry| Some(entry.ok()?.path())).collect())
}

fn only_entry(directory: &Path) -> Result<PathBuf, String> {
    match &entries(directory)?[..] {
        [one] => Ok(one.clone()),
        several => Err(format!("{} files in {}", several.len(), directory.display())),
    }
}
