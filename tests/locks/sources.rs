//! Fetches sources from the registries, and changes them. `tests/clients` uses it, too.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::packages::{done, folder, said, write};

/// A change to an unpacked source: `with` replaces the text from `from` up to `until`, which must exist.
#[derive(Debug)]
pub struct Edit {
    pub file: &'static str,
    pub from: &'static str,
    pub until: &'static str,
    pub with: &'static str,
}

pub fn cargo() -> String {
    std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned())
}

/// Unpacks the source package of a Python library; binary packages lack the tests.
pub fn source_package(python: &Path, wanted: &str, package: &str, directory: &Path) -> Result<(), String> {
    let packed = directory.join("packed");
    let mut download = Command::new(python);
    download.args(["-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", package]);
    // The requirements fix the version of the build tools, too.
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

/// Returns the folder in which cargo keeps a crate's source.
pub fn crate_source(package: &str, version: &str) -> Result<PathBuf, String> {
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
    // Finds one path in a long line of JSON: from a quote to the path's known end.
    let end = format!("{package}-{version}");
    let at = metadata.find(&format!("/{end}/Cargo.toml\"")).ok_or_else(|| format!("cargo does not know {end}"))?;
    let start = metadata[..at].rfind('"').map_or(0, |quote| quote + 1);
    Ok(Path::new(&metadata[start..at]).join(end))
}

pub fn edit(directory: &Path, edits: &[Edit]) -> Result<(), String> {
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

pub fn copy(from: &Path, to: &Path) -> Result<(), String> {
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
