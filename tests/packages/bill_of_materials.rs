//! The bill of materials that stands beside the binary.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use super::Story;
use super::environment::{Environment, run};

pub const STORIES: &[(&str, Story)] = &[
    ("the bill of materials lists every crate whose name is found in the binary", lists_what_is_linked),
    ("the bill of materials lists what is no crate: Lua, Rust's and C's libraries", lists_what_is_no_crate),
    ("the bill of materials passes a validator of CycloneDX", is_valid),
];

/// The validator of the format's own project.
const VALIDATOR: &str = "cyclonedx-python-lib[json-validation]==11.12.0";

const VALIDATE: &str = "
import sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
error = JsonStrictValidator(SchemaVersion.V1_6).validate_str(open(sys.argv[1]).read())
sys.exit(error and str(error))
";

/// The components of the bill, as `name-version`.
fn components(environment: &Environment) -> Result<BTreeSet<String>, String> {
    let text = fs::read_to_string(environment.file("redouble-", ".cdx.json")?).map_err(|error| error.to_string())?;
    let bill: serde_json::Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let word = |component: &serde_json::Value, name: &str| component[name].as_str().map(str::to_owned);
    let components = bill["components"].as_array().ok_or("it has no components")?;
    let named =
        components.iter().map(|component| Some([word(component, "name")?, word(component, "version")?].join("-")));
    named.collect::<Option<_>>().ok_or_else(|| "a component has no name or no version".to_owned())
}

/// The crates whose sources' paths stand in the texts of panics: `…/tokio-1.54.1/src/…`.
fn crates_in(binary: &[u8]) -> BTreeSet<String> {
    let text = String::from_utf8_lossy(binary);
    let paths = text.split("/registry/src/").skip(1).filter_map(|rest| rest.split('/').nth(1));
    paths.map(str::to_owned).collect()
}

fn lists_what_is_linked(environment: &Environment) -> Result<(), String> {
    let binary = fs::read(environment.binary()?).map_err(|error| error.to_string())?;
    let (found, listed) = (crates_in(&binary), components(environment)?);
    if found.len() < 10 {
        return Err(format!("the binary names few crates, so this proves nothing: {found:?}"));
    }
    let missing: Vec<&String> = found.difference(&listed).collect();
    if missing.is_empty() { Ok(()) } else { Err(format!("not listed: {missing:?}")) }
}

fn lists_what_is_no_crate(environment: &Environment) -> Result<(), String> {
    let listed = components(environment)?;
    let natives = ["lua-5.1", "rust-std-1", "glibc-2"];
    // Only a static binary holds a C library.
    for name in &natives[..if cfg!(target_os = "linux") { 3 } else { 2 }] {
        if !listed.iter().any(|component| component.starts_with(name)) {
            return Err(format!("no {name} in {listed:?}"));
        }
    }
    Ok(())
}

fn is_valid(environment: &Environment) -> Result<(), String> {
    let folder = environment.empty("validator")?;
    run(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
    let python = folder.join("bin/python");
    run(Command::new(&python).args(["-m", "pip", "install", "--quiet", VALIDATOR]))?;
    run(Command::new(&python).args(["-c", VALIDATE]).arg(environment.file("redouble-", ".cdx.json")?)).map(drop)
}
