//! Fetches the suite, once: in the distribution's source package of Redis, through apt-get.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::packages::{done, folder, once, write};
use super::side::on_path;

const NO_APT: &str = "the suite comes in the distribution's source package of Redis, which apt-get fetches, and there is no \
    apt-get here: unpack the source of the same release, and name its folder in REDIS_SOURCE";

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
            once(&directory, version, || unpack_source_package(version, &directory))?;
            directory
        }
    };
    let units = units(&directory)?;
    Ok(Suite { directory, units })
}

fn unpack_source_package(version: &str, directory: &Path) -> Result<(), String> {
    on_path("apt-get").map_err(|_| NO_APT)?;
    let apt = Apt::new(&directory.join("apt"))?;
    done(apt.command(&["update", "-qq"]))?;
    let mut source = apt.command(&["source", "-qq", "--download-only", "redis"]);
    source.current_dir(directory);
    done(source)?;
    let archive = format!("redis_{version}.orig.tar.gz");
    if !directory.join(&archive).is_file() {
        return Err(format!(
            "the distribution's source package of Redis is of another release than redis-server {version}"
        ));
    }
    let mut tar = Command::new("tar");
    tar.args(["--extract", "--strip-components=1", "--file", &archive]).current_dir(directory);
    done(tar)?;
    fs::remove_dir_all(directory.join("apt")).map_err(|error| error.to_string())
}

/// apt-get with lists and caches of its own. The system's stay as they are.
struct Apt {
    directory: PathBuf,
}

impl Apt {
    fn new(directory: &Path) -> Result<Self, String> {
        for part in ["lists/partial", "cache/archives/partial", "sources"] {
            fs::create_dir_all(directory.join(part)).map_err(|error| format!("{part}: {error}"))?;
        }
        let (mut lines, mut stanzas) = (String::new(), String::new());
        let system = Path::new("/etc/apt");
        let listed = fs::read_dir(system.join("sources.list.d")).into_iter().flatten().flatten();
        for path in std::iter::once(system.join("sources.list")).chain(listed.map(|entry| entry.path())) {
            let text = fs::read_to_string(&path).unwrap_or_default();
            match path.extension().and_then(|extension| extension.to_str()) {
                Some("list") => lines.push_str(&source_lines(&text)),
                Some("sources") => stanzas.push_str(&source_stanzas(&text)),
                _ => {}
            }
        }
        write(&directory.join("sources/all.list"), &lines)?;
        write(&directory.join("sources/all.sources"), &stanzas)?;
        Ok(Self { directory: directory.to_owned() })
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("apt-get");
        let place = |name: &str| self.directory.join(name).display().to_string();
        for (option, value) in [
            ("Dir::Etc::sourcelist", "/dev/null".to_owned()),
            ("Dir::Etc::sourceparts", place("sources")),
            ("Dir::State::lists", place("lists")),
            ("Dir::Cache", place("cache")),
            // The folder may belong to somebody whose files apt's own user cannot read.
            ("APT::Sandbox::User", "root".to_owned()),
        ] {
            command.args(["-o", &format!("{option}={value}")]);
        }
        command.args(arguments);
        command
    }
}

/// Whether an archive is the distribution's own. Others have no source packages of Redis, and often none at all.
fn is_of_distribution(text: &str) -> bool {
    ["/debian", "/ubuntu"].iter().any(|name| text.contains(name))
}

/// The binary archives of a file of one line each, as source archives.
fn source_lines(text: &str) -> String {
    let lines = text.lines().filter(|line| is_of_distribution(line));
    lines.filter_map(|line| Some(format!("deb-src {}\n", line.strip_prefix("deb ")?))).collect()
}

/// The same of a file of stanzas.
fn source_stanzas(text: &str) -> String {
    let is_of_distribution = |stanza: &&str| {
        stanza.lines().any(|line| line.to_ascii_lowercase().starts_with("uris:") && is_of_distribution(line))
    };
    let as_source = |stanza: &str| -> String {
        let kept = stanza.lines().filter(|line| !line.starts_with('#'));
        let line =
            |line: &str| if line.starts_with("Types:") { "Types: deb-src\n".to_owned() } else { format!("{line}\n") };
        kept.map(line).chain(["\n".to_owned()]).collect()
    };
    text.split("\n\n").filter(is_of_distribution).map(as_source).collect()
}

/// The units that the suite runs when none is named.
fn units(directory: &Path) -> Result<Vec<String>, String> {
    let helper = directory.join("tests/test_helper.tcl");
    let text = fs::read_to_string(&helper).map_err(|error| format!("{}: {error}", helper.display()))?;
    let list = text.split_once("set ::all_tests {").and_then(|(_, rest)| rest.split_once('}'));
    let (list, _) = list.ok_or_else(|| format!("{} lists no units", helper.display()))?;
    Ok(list.split_whitespace().map(str::to_owned).collect())
}
