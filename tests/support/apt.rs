//! Fetches source packages of a distribution through apt-get. `tests/redis_suite` and `tests/clients` use it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::packages::{done, write};
use super::side::on_path;

/// Where source packages come from.
#[derive(Clone, Copy, Debug)]
#[allow(dead_code, reason = "each suite uses one")]
pub enum Archives {
    /// The archives that the system's packages come from.
    System,
    /// Another suite of Debian, from the mirror that the system uses.
    Debian(&'static str),
}

/// Unpacks the upstream archive of a source package into a folder.
pub fn unpack(package: &str, archive: &str, archives: Archives, directory: &Path) -> Result<(), String> {
    on_path("apt-get").map_err(|_| "it comes in a distribution's source package, and there is no apt-get here")?;
    let apt = Apt::new(&directory.join("apt"), archives)?;
    done(apt.command(&["update", "-qq"]))?;
    let mut source = apt.command(&["source", "-qq", "--download-only", package]);
    source.current_dir(directory);
    // Mirrors lack some of the distribution's own files at times, which are not needed.
    let fetched = done(source);
    if !directory.join(archive).is_file() {
        return Err(match fetched {
            Ok(()) => format!("the source package {package} is of another release than {archive}"),
            Err(error) => error,
        });
    }
    let mut tar = Command::new("tar");
    tar.args(["--extract", "--strip-components=1", "--file", archive]).current_dir(directory);
    done(tar)?;
    fs::remove_dir_all(directory.join("apt")).map_err(|error| error.to_string())
}

/// apt-get with lists and caches of its own. The system's stay as they are.
struct Apt {
    directory: PathBuf,
}

impl Apt {
    fn new(directory: &Path, archives: Archives) -> Result<Self, String> {
        for part in ["lists/partial", "cache/archives/partial", "sources"] {
            fs::create_dir_all(directory.join(part)).map_err(|error| format!("{part}: {error}"))?;
        }
        let (lines, stanzas) = match archives {
            Archives::System => system_archives(),
            Archives::Debian(suite) => {
                let (lines, stanzas) = system_archives();
                let mirror = mirror(&lines).or_else(|| mirror(&stanzas)).ok_or("apt-get knows no mirror of Debian")?;
                (format!("deb-src {mirror} {suite} main\n"), String::new())
            }
        };
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

/// The system's archives, as source archives: of files of one line each, and of files of stanzas.
fn system_archives() -> (String, String) {
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
    (lines, stanzas)
}

/// The mirror of Debian that a list of archives names.
fn mirror(archives: &str) -> Option<&str> {
    let is_main = |word: &&str| word.trim_end_matches('/').ends_with("/debian");
    archives.split_whitespace().find(is_main)
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
