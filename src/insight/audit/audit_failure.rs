//! Findings as the error of a test.

use std::fmt::{self, Debug, Display, Formatter};
use std::sync::Arc;
use std::time::Duration;

use super::code::Code;
use super::finding::{Evidence, Finding};
use crate::base::duration::spell_duration;
use crate::base::text::utf8_or_escaped;

/// The findings that are not allowed. `Display` shows for each what is wrong, the commands that prove it, and what to
/// do instead.
#[derive(Clone, PartialEq, Eq)]
pub struct AuditFailure {
    /// Those that did most harm first; never empty.
    pub findings: Vec<Arc<Finding>>,
}

impl std::error::Error for AuditFailure {}

/// The same as `Display`, since a test that unwraps shows this.
impl Debug for AuditFailure {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        Display::fmt(self, f)
    }
}

impl Display for AuditFailure {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let count = self.findings.len();
        writeln!(f, "{count} {} with locks", if count == 1 { "mistake" } else { "mistakes" })?;
        for (number, finding) in (1..).zip(&self.findings) {
            write!(f, "\n{number}. {finding}")?;
        }
        Ok(())
    }
}

impl Display for Finding {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let times = if self.times > 1 { format!(" ({} times)", self.times) } else { String::new() };
        writeln!(f, "{} {}: {}{times}", self.severity.name(), self.code.name(), self.sentence)?;
        let first = self.evidence.first().map_or(0, |evidence| evidence.source.real);
        for Evidence { source, what } in &self.evidence {
            let after = Duration::from_micros(u64::try_from(source.real - first).unwrap_or(0));
            let client = if source.client == 0 { String::new() } else { format!("{}: ", source.placed_name()) };
            writeln!(f, "     #{} +{} {client}{} -- {what}", source.seq, spell_duration(after), source.line)?;
        }
        writeln!(f, "   instead: {}", self.instead())?;
        writeln!(f, "   more: {}", self.docs())?;
        let key = utf8_or_escaped(&self.key);
        match self.code {
            Code::LostUpdate | Code::CrossSlot => {
                writeln!(f, "   meant? audit.allow(Code::{:?}, {key:?}, \"why\")", self.code)
            }
            _ => writeln!(f, "   no lock? .not_locks({key:?}) of the builder; why: audit.why({key:?})"),
        }
    }
}
