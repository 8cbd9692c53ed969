//! What an audit looks for and where its findings go: the flags that `run`, `audit` and `report` share.

use std::fs;
use std::path::{Path, PathBuf};

use super::outputs::{cannot, prepare};
use crate::base::error::plain;
use crate::insight::audit::{Allowance, Scope, Severity};

/// The values of the flags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AuditOptions {
    /// How bad a finding must be to fail.
    pub level: Severity,
    /// Globs of keys that are locks, and of keys that are none.
    pub locks: Vec<Vec<u8>>,
    pub not_locks: Vec<Vec<u8>>,
    /// Globs of keys with data that must not be lost.
    pub resources: Vec<Vec<u8>>,
    /// Files with the findings that are allowed.
    pub allow: Vec<PathBuf>,
    pub junit: Option<PathBuf>,
    pub sarif: Option<PathBuf>,
}

impl Default for AuditOptions {
    fn default() -> Self {
        Self {
            level: Severity::Error,
            locks: Vec::new(),
            not_locks: Vec::new(),
            resources: Vec::new(),
            allow: Vec::new(),
            junit: None,
            sarif: None,
        }
    }
}

/// A line of an `--allow` file.
#[derive(Clone)]
pub(super) struct AllowLine {
    pub allowance: Allowance,
    pub text: String,
    /// The file and the line's number.
    pub location: String,
}

impl AuditOptions {
    /// Reads the `--allow` files. The error names the file and the line that is not understood.
    pub fn read_allowed(&self) -> Result<Vec<AllowLine>, String> {
        let files = self.allow.iter().map(|path| read_allow_file(path)).collect::<Result<Vec<_>, _>>()?;
        Ok(files.into_iter().flatten().collect())
    }

    pub fn scope(&self, allowed: &[AllowLine]) -> Scope {
        Scope {
            locks: self.locks.clone(),
            not_locks: self.not_locks.clone(),
            resources: self.resources.clone(),
            allowed: allowed.iter().map(|line| line.allowance.clone()).collect(),
            ..Scope::default()
        }
    }

    /// Makes the paths of the result files absolute, and their directories.
    pub fn prepare_outputs(&mut self) -> Result<(), String> {
        [&mut self.junit, &mut self.sarif].into_iter().flatten().try_for_each(prepare)
    }
}

/// The lines of a file, each an allowance, empty, or a comment.
fn read_allow_file(path: &Path) -> Result<Vec<AllowLine>, String> {
    let text = fs::read_to_string(path).map_err(|error| cannot("read", path, &plain(&error)))?;
    let lines =
        (1..).zip(text.lines()).filter(|(_, line)| !matches!(line.trim_start().chars().next(), None | Some('#')));
    let allowed = lines.map(|(number, line)| {
        let location = format!("{}:{number}", path.display());
        let allowance = Allowance::parse(line).map_err(|reason| format!("{location}: {reason}"))?;
        Ok(AllowLine { allowance, text: line.trim().to_owned(), location })
    });
    allowed.collect()
}
