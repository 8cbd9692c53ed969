//! Configuration text: a file, standard input and flags, concatenated.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use super::directive::Directive;
use super::table::TABLE;
use super::{Config, Reason, Rename, find, store, value_of};
use crate::base::error::plain;
use crate::base::profile::Profile;
use crate::protocol::split_line;

/// A configuration and the profile that it selects.
pub struct Loaded {
    pub config: Config,
    pub profile: Profile,
}

/// Why a configuration is invalid, and where.
#[derive(Debug)]
pub struct LoadError {
    /// The number and the text of the line, unless the error concerns no single line.
    pub line: Option<(usize, Vec<u8>)>,
    pub reason: Reason,
    /// The profile as far as it was known when the error occurred.
    pub profile: Profile,
}

/// The greatest depth of includes; Redis recurses until its stack overflows.
const MOST_NESTED: usize = 16;

struct Line {
    number: usize,
    text: Vec<u8>,
    /// The words of the line, or its error.
    words: Result<Vec<Vec<u8>>, Reason>,
}

/// Parses configuration text, with `config` as the defaults. `file` is the target of CONFIG REWRITE.
pub fn load_over(config: Config, text: &[u8], file: Option<PathBuf>, profile: Profile) -> Result<Loaded, LoadError> {
    let mut lines = Vec::new();
    collect(text, 0, &mut lines);
    // The profile decides which directives exist, so its line is parsed first, wherever it is.
    let mut loader = Loader { config: Config { file, ..config }, profile, save_seen: false };
    loader.find_profile(&lines)?;
    loader.config.imitate(loader.profile);
    let names = |line: &Line, name: &[u8]| {
        line.words.as_ref().is_ok_and(|words| words.first().is_some_and(|first| first.eq_ignore_ascii_case(name)))
    };
    let pubsub_default_given = lines.iter().any(|line| names(line, b"acl-pubsub-default"));
    for line in lines {
        if let Err(reason) = line.words.and_then(|words| loader.apply(&words, (line.number, &line.text))) {
            return Err(LoadError { line: Some((line.number, line.text)), reason, profile: loader.profile });
        }
    }
    let Loader { config, profile, .. } = loader;
    config.assign("compat", profile.name());
    if !profile.since_redis(7, 0) {
        // DEBUG needed no permission in these versions.
        config.assign("enable-debug-command", "yes");
        // Neither did channels.
        if !pubsub_default_given {
            config.assign("acl-pubsub-default", "allchannels");
        }
    }
    Ok(Loaded { config, profile })
}

/// The directive names of all profiles.
pub fn directive_names() -> impl Iterator<Item = &'static str> {
    // Parsed, but no parameters of CONFIG.
    const OTHERS: [&str; 6] = ["include", "loadmodule", "rename-command", "sentinel", "threads", "user"];
    TABLE.iter().flat_map(Directive::all_names).chain(OTHERS)
}

/// Splits text into lines, and inserts the lines of included files.
fn collect(text: &[u8], depth: usize, lines: &mut Vec<Line>) {
    for (index, line) in text.split(|&byte| byte == b'\n').enumerate() {
        let text = trimmed(line);
        if text.is_empty() || text.starts_with(b"#") {
            continue;
        }
        let words = split_line(text).ok_or(Reason::Borrowed("Unbalanced quotes in configuration line"));
        let included = match words.as_deref() {
            Ok([]) => continue,
            Ok([name, pattern]) if name.eq_ignore_ascii_case(b"include") => Some(pattern.clone()),
            _ => None,
        };
        let Some(pattern) = included else {
            lines.push(Line { number: index + 1, text: text.to_vec(), words });
            continue;
        };
        match read_included(&pattern, depth) {
            Ok(texts) => texts.iter().for_each(|text| collect(text, depth + 1, lines)),
            Err(reason) => lines.push(Line { number: index + 1, text: text.to_vec(), words: Err(reason) }),
        }
    }
}

fn trimmed(line: &[u8]) -> &[u8] {
    let is_blank = |byte: &u8| b" \t\r\n".contains(byte);
    let start = line.iter().position(|byte| !is_blank(byte)).unwrap_or(line.len());
    let end = line.iter().rposition(|byte| !is_blank(byte)).map_or(start, |last| last + 1);
    &line[start..end]
}

/// The files of an `include`: one file, or the files of a directory that match a pattern.
fn read_included(pattern: &[u8], depth: usize) -> Result<Vec<Vec<u8>>, Reason> {
    if depth == MOST_NESTED {
        return Err("files include each other without end".into());
    }
    let path = super::table::path(pattern);
    let name = path.file_name().map(std::ffi::OsStr::as_encoded_bytes).unwrap_or_default();
    let read = |path: &Path| {
        std::fs::read(path)
            .map_err(|error| Cow::Owned(format!("can't open config file '{}': {}", path.display(), plain(&error))))
    };
    if !name.iter().any(|byte| b"*?[".contains(byte)) {
        return read(&path).map(|text| vec![text]);
    }
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let matches = |path: &PathBuf| {
        path.file_name().is_some_and(|file| crate::base::glob::matches(name, file.as_encoded_bytes(), false))
    };
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(matches).collect();
    files.sort();
    files.iter().map(|file| read(file)).collect()
}

/// Makes a missing directory, as for every file that the server writes.
fn make_directory(path: &Path) -> Result<(), Reason> {
    if path.exists() {
        return Ok(());
    }
    std::fs::create_dir_all(path)
        .map_err(|error| format!("'{}' does not exist and cannot be made: {}", path.display(), plain(&error)).into())
}

struct Loader {
    config: Config,
    profile: Profile,
    /// The first `save` replaces the default; further ones add to it.
    save_seen: bool,
}

impl Loader {
    fn find_profile(&mut self, lines: &[Line]) -> Result<(), LoadError> {
        for line in lines {
            let Ok([name, value]) = line.words.as_deref() else { continue };
            if name.eq_ignore_ascii_case(b"compat") {
                let line = Some((line.number, line.text.clone()));
                self.profile = String::from_utf8_lossy(value).parse().map_err(|reason| LoadError {
                    line,
                    reason: Reason::Owned(reason),
                    profile: self.profile,
                })?;
            }
        }
        Ok(())
    }

    fn apply(&mut self, words: &[Vec<u8>], line: (usize, &[u8])) -> Result<(), Reason> {
        let [name, values @ ..] = words else { return Ok(()) };
        if name.eq_ignore_ascii_case(b"user") && !values.is_empty() {
            return self.declare_user(values);
        }
        if let ([original, new], true) = (values, name.eq_ignore_ascii_case(b"rename-command")) {
            let line = (line.0, line.1.to_vec());
            self.config.renames.push(Rename { name: original.clone(), new: new.clone(), line });
            return Ok(());
        }
        let Some((place, _)) = find(name, &self.profile) else { return self.apply_other(name, values.len()) };
        let row = &TABLE[place];
        let mut stored = self.config.values();
        let before = value_of(&stored, place);
        // One argument may contain several words, as in a flag: `--save "900 1"`.
        let split = match values {
            [value] if row.takes_several_words() && !value.is_empty() => split_line(value),
            _ => None,
        };
        let values: Vec<&[u8]> = split.as_deref().unwrap_or(values).iter().map(Vec::as_slice).collect();
        if !row.takes_several_words() && values.len() != 1 {
            return Err("wrong number of arguments".into());
        }
        if row.name == "dir"
            && let [path] = values.as_slice()
        {
            make_directory(&super::table::path(path))?;
        }
        let mut value = row.read(&values, &before, &self.profile)?;
        if row.name == "save" {
            if self.save_seen && !value.is_empty() && !before.is_empty() {
                value = [before.as_slice(), &value].join(&b' ');
            }
            self.save_seen = true;
        }
        // Each occurrence adds to the previous ones.
        if matches!(
            row.name,
            "load"
                | "upstream"
                | "upstream-cluster"
                | "upstream-sentinel"
                | "locks"
                | "not-locks"
                | "resources"
                | "audit-allow"
        ) && !before.is_empty()
        {
            value = [before.as_slice(), &value].join(&b' ');
        }
        store(&mut stored, &self.config.live, place, value);
        drop(stored);
        self.config.named.insert(place);
        Ok(())
    }

    /// Collects `user NAME RULES`. The rules are parsed later, when the commands are known.
    fn declare_user(&mut self, words: &[Vec<u8>]) -> Result<(), Reason> {
        let name = &words[0];
        if self.config.users.iter().any(|user| user[0] == *name) {
            let name = String::from_utf8_lossy(name);
            let reason = "Duplicate user found. A user can only be defined once in config files";
            return Err(format!("Error in user declaration '{name}': {reason}").into());
        }
        self.config.users.push(words.to_vec());
        Ok(())
    }

    /// Directives that Redis parses but does not list as parameters.
    fn apply_other(&mut self, name: &[u8], values: usize) -> Result<(), Reason> {
        // Servers accept these without a word after they were removed.
        const OUTLIVED: [&str; 7] = [
            "dynamic-hz",
            "events-per-io-thread",
            "io-threads-do-reads",
            "list-max-ziplist-entries",
            "list-max-ziplist-value",
            "lua-replicate-commands",
            "sanitize-dump-payload",
        ];
        let name = String::from_utf8_lossy(name).to_ascii_lowercase();
        match (name.as_str(), values) {
            (name, 1) if OUTLIVED.contains(&name) => Ok(()),
            ("loadmodule", 1..) => Err("this server loads no modules".into()),
            ("sentinel", _) => Err("sentinel directive while not in sentinel mode".into()),
            _ => match TABLE.iter().flat_map(Directive::all_names).find(|known| *known == name) {
                Some(known) => {
                    self.config.foreign.push(known);
                    Ok(())
                }
                None => Err("Bad directive or wrong number of arguments".into()),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loaded(text: &str) -> Config {
        load_over(Config::default(), text.as_bytes(), None, Profile::default())
            .unwrap_or_else(|error| panic!("{}", error.reason))
            .config
    }

    fn refused(text: &str) -> (Option<usize>, String) {
        let error = load_over(Config::default(), text.as_bytes(), None, Profile::default()).err().unwrap();
        (error.line.map(|(number, _)| number), error.reason.into_owned())
    }

    #[test]
    fn the_last_line_of_a_directive_counts() {
        let config = loaded("port 1\n# a comment\n\n  PORT \"2\"  \r\n");
        assert_eq!(config.text("port"), "2");
    }

    #[test]
    fn save_lines_add_up_and_the_first_replaces_the_default() {
        assert_eq!(loaded("").text("save"), "3600 1 300 100 60 10000");
        assert_eq!(loaded("save 900 1\nsave 300 10").text("save"), "900 1 300 10");
        assert_eq!(loaded("save 900 1\nsave \"\"").text("save"), "");
        assert_eq!(loaded("save \"\"\nsave 5 6").text("save"), "5 6");
    }

    #[test]
    fn several_words_may_come_as_one() {
        assert_eq!(loaded("save \"900  1 \"").text("save"), "900 1");
        assert_eq!(loaded("save \" \"").text("save"), "");
        assert_eq!(loaded("bind \"127.0.0.1 ::1\"").text("bind"), "127.0.0.1 ::1");
        let limits = loaded("client-output-buffer-limit \"normal 8mb 0 0\"").text("client-output-buffer-limit");
        assert!(limits.starts_with("normal 8388608 0 0 slave "), "{limits}");
        assert_eq!(refused("save '\"900 1\"'"), (Some(1), "Invalid save parameters".into()));
    }

    #[test]
    fn a_fault_is_named_with_its_line() {
        assert_eq!(refused("port 1\nbogus 2"), (Some(2), "Bad directive or wrong number of arguments".into()));
        assert_eq!(refused("\nport 1 2"), (Some(2), "wrong number of arguments".into()));
        assert_eq!(refused("requirepass \"x"), (Some(1), "Unbalanced quotes in configuration line".into()));
        assert_eq!(refused("maxmemory 10%"), (Some(1), "argument must be a memory value".into()));
    }

    #[test]
    fn the_profile_counts_wherever_it_stands() {
        let loaded = |text: &str, profile: &str| {
            load_over(Config::default(), text.as_bytes(), None, profile.parse().unwrap()).unwrap().config
        };
        let config = loaded("set-max-listpack-entries 5\ncompat redis-7.2", "redis-6.2");
        assert_eq!((config.text("set-max-listpack-entries").as_str(), config.foreign.len()), ("5", 0));
        let config = loaded("set-max-listpack-entries 5", "redis-7.0");
        assert_eq!(config.foreign, ["set-max-listpack-entries"]);
        assert_eq!(config.text("set-max-listpack-entries"), "128");
    }
}
