//! What an audit is to look for, and where its findings go: the flags that `run` and `audit` share.

use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use crate::base::error::plain;
use crate::insight::audit::{Allowance, Scope, Severity};

/// What an audit is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Judging {
    /// How bad a finding must be to fail.
    pub level: Severity,
    /// Globs of keys that are locks, and of keys that are none.
    pub locks: Vec<Vec<u8>>,
    pub not_locks: Vec<Vec<u8>>,
    /// Files with what is allowed.
    pub allow: Vec<PathBuf>,
    pub junit: Option<PathBuf>,
    pub sarif: Option<PathBuf>,
}

impl Default for Judging {
    fn default() -> Self {
        Self {
            level: Severity::Error,
            locks: Vec::new(),
            not_locks: Vec::new(),
            allow: Vec::new(),
            junit: None,
            sarif: None,
        }
    }
}

/// What is allowed, with the file and the line that say so.
pub(super) struct Allowed {
    pub allowance: Allowance,
    /// As it stands there,
    pub line: String,
    /// and where.
    pub place: String,
}

impl Judging {
    /// Takes in a flag, if it is one of these; says how many arguments that has taken, with itself.
    pub fn take(&mut self, flag: &OsStr, next: Option<&OsString>) -> Result<usize, String> {
        let (name, joined) = parted(flag);
        let (value, taken) = match joined {
            Some(value) => (Some(value), 1),
            None => (next.cloned().filter(|next| !next.as_bytes().starts_with(b"--")), 2),
        };
        let value = |what: &str| {
            let name = String::from_utf8_lossy(name);
            value.filter(|value| !value.is_empty()).ok_or_else(|| format!("{name} takes {what}"))
        };
        match name {
            b"--locks" => self.locks.push(value("a glob, as in --locks 'lock:*'")?.into_vec()),
            b"--not-locks" => self.not_locks.push(value("a glob, as in --not-locks 'cache:*'")?.into_vec()),
            b"--allow" => {
                self.allow.push(value("a file with a line CODE GLOB REASON for each kind of finding")?.into())
            }
            b"--junit" => self.junit = Some(value("a file, as in --junit audit.xml")?.into()),
            b"--sarif" => self.sarif = Some(value("a file, as in --sarif audit.sarif")?.into()),
            _ => return Ok(0),
        }
        Ok(taken)
    }

    /// Reads the files with what is allowed. The error names the file and the line that cannot be made sense of.
    pub fn allowances(&self) -> Result<Vec<Allowed>, String> {
        let files = self.allow.iter().map(|path| read_allowances(path)).collect::<Result<Vec<_>, _>>()?;
        Ok(files.into_iter().flatten().collect())
    }

    /// What an auditor is to look for.
    pub fn scope(&self, allowed: &[Allowed]) -> Scope {
        Scope {
            locks: self.locks.clone(),
            not_locks: self.not_locks.clone(),
            allowed: allowed.iter().map(|allowed| allowed.allowance.clone()).collect(),
            ..Scope::default()
        }
    }

    /// Makes the paths of what is to be written independent of where this program goes. The error says of a file why it cannot be written: better
    /// before the tests than after them.
    pub fn settle(&mut self) -> Result<(), String> {
        for path in [&mut self.junit, &mut self.sarif].into_iter().flatten() {
            settle_output(path)?;
        }
        Ok(())
    }
}

/// How bad a finding must be, by the word that flags have for it.
pub(super) fn level_of(word: &[u8]) -> Option<Severity> {
    match word {
        b"error" => Some(Severity::Error),
        b"warn" | b"warning" => Some(Severity::Warning),
        _ => None,
    }
}

/// Takes a flag apart that has its value behind a `=`.
pub(super) fn parted(flag: &OsStr) -> (&[u8], Option<OsString>) {
    let flag = flag.as_bytes();
    match memchr::memchr(b'=', flag) {
        Some(at) => (&flag[..at], Some(OsString::from_vec(flag[at + 1..].to_vec()))),
        None => (flag, None),
    }
}

/// Makes the path of a file that is to be written independent of where this program goes.
pub(super) fn settle_output(path: &mut PathBuf) -> Result<(), String> {
    let whole = std::path::absolute(&*path).map_err(|error| cannot("write", path, &plain(&error)))?;
    let folder = whole.parent().unwrap_or(Path::new("/"));
    match fs::metadata(folder) {
        Ok(folder) if !folder.is_dir() => return Err(cannot("write", path, &"it would not be in a folder")),
        Ok(_) if whole.is_dir() => return Err(cannot("write", path, &"it is a folder")),
        Ok(_) => {}
        Err(error) => return Err(cannot("write", path, &plain(&error))),
    }
    *path = whole;
    Ok(())
}

pub(super) fn cannot(what: &str, path: &Path, why: &dyn Display) -> String {
    format!("cannot {what} {}: {why}", path.display())
}

/// The lines of a file, each an allowance, empty, or a comment.
pub(super) fn read_allowances(path: &Path) -> Result<Vec<Allowed>, String> {
    let text = fs::read_to_string(path).map_err(|error| cannot("read", path, &plain(&error)))?;
    let lines =
        (1..).zip(text.lines()).filter(|(_, line)| !matches!(line.trim_start().chars().next(), None | Some('#')));
    let allowances = lines.map(|(number, line)| {
        let place = format!("{}:{number}", path.display());
        let allowance = Allowance::parse(line).map_err(|reason| format!("{place}: {reason}"))?;
        Ok(Allowed { allowance, line: line.trim().to_owned(), place })
    });
    allowances.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(words: &[&str]) -> Result<(Judging, usize), String> {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        let mut judging = Judging::default();
        judging.take(&words[0], words.get(1)).map(|taken| (judging, taken))
    }

    #[test]
    fn a_value_stands_behind_the_flag_or_behind_an_equals_sign() {
        let (judging, taken) = take(&["--locks", "lock:*"]).unwrap();
        assert_eq!((judging.locks, taken), (vec![b"lock:*".to_vec()], 2));
        let (judging, taken) = take(&["--sarif=a=b.sarif", "--"]).unwrap();
        assert_eq!((judging.sarif, taken), (Some(PathBuf::from("a=b.sarif")), 1));
        assert_eq!(take(&["--port", "1"]).unwrap().1, 0);
        assert_eq!(take(&["--junit", "--"]).unwrap_err(), "--junit takes a file, as in --junit audit.xml");
        assert_eq!(take(&["--junit="]).unwrap_err(), "--junit takes a file, as in --junit audit.xml");
    }
}
