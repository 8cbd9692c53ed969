//! Fetches the suite, once: in the distribution's source package of Redis, through apt-get.

use std::fs;
use std::path::{Path, PathBuf};

use super::apt::{Archives, unpack};
use super::packages::{folder, once};

/// The unpacked suite.
pub struct Suite {
    pub directory: PathBuf,
    /// The names of its units, in its own order.
    pub units: Vec<String>,
}

/// Returns the suite of the release of redis-server that is installed.
pub fn fetch(version: &str) -> Result<Suite, String> {
    let directory = match std::env::var_os("REDIS_SOURCE") {
        Some(directory) => PathBuf::from(directory),
        None => {
            let directory = folder().join("sources").join(format!("redis-{version}"));
            let archive = format!("redis_{version}.orig.tar.gz");
            once(&directory, version, || unpack("redis", &archive, Archives::System, &directory)).map_err(|error| {
                format!("{error}\nUnpack the source of Redis {version}, and name its folder in REDIS_SOURCE.")
            })?;
            directory
        }
    };
    let units = units(&directory)?;
    Ok(Suite { directory, units })
}

/// The units that the suite runs when none is named.
fn units(directory: &Path) -> Result<Vec<String>, String> {
    let helper = directory.join("tests/test_helper.tcl");
    let text = fs::read_to_string(&helper).map_err(|error| format!("{}: {error}", helper.display()))?;
    let list = text.split_once("set ::all_tests {").and_then(|(_, rest)| rest.split_once('}'));
    let (list, _) = list.ok_or_else(|| format!("{} lists no units", helper.display()))?;
    Ok(list.split_whitespace().map(str::to_owned).collect())
}
