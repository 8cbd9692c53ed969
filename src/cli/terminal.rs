//! What the program's output goes to: a terminal, and how wide, or a file; with or without colours.
//!
//! The conventions are a few variables, read here in a few lines. The crates that read them also filter what others print, or
//! do not know FORCE_COLOR.

use std::ffi::OsStr;
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;

use rustix::termios::tcgetwinsize;

use crate::base::terminal::Ink;

/// The width of a terminal that does not say how wide it is.
const USUAL_WIDTH: usize = 80;

/// What one of the standard streams goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Screen {
    pub is_terminal: bool,
    pub ink: Ink,
    /// The columns of the terminal; no limit without one.
    pub width: usize,
    /// Whether a line can be written over, and somebody is there to see it.
    pub can_rewrite: bool,
}

impl Screen {
    pub fn stdout() -> Self {
        Self::of(&io::stdout())
    }

    pub fn stderr() -> Self {
        Self::of(&io::stderr())
    }

    fn of(stream: &(impl IsTerminal + AsFd)) -> Self {
        let columns = stream.is_terminal().then(|| {
            let size = tcgetwinsize(stream).map_or(0, |size| usize::from(size.ws_col));
            if size == 0 { USUAL_WIDTH } else { size }
        });
        Self::new(columns, |name| std::env::var_os(name))
    }

    /// Decides by the columns of the terminal, if it is one, and by the environment.
    fn new<S: AsRef<OsStr>>(columns: Option<usize>, variable: impl Fn(&str) -> Option<S>) -> Self {
        let value = |name| variable(name).filter(|value| !value.as_ref().is_empty());
        let is_no = |value: &S| ["0", "false"].iter().any(|no| value.as_ref() == *no);
        let is_on = |name| value(name).is_some_and(|value| !is_no(&value));
        let obeys = columns.is_some() && value("TERM").is_none_or(|term| term.as_ref() != "dumb");
        // https://no-color.org and https://bixense.com/clicolors; FORCE_COLOR is what programs for Node.js and Python read.
        let is_coloured = match (value("NO_COLOR"), value("FORCE_COLOR")) {
            (Some(_), _) => false,
            (None, Some(forced)) => !is_no(&forced),
            (None, None) => is_on("CLICOLOR_FORCE") || obeys,
        };
        Self {
            is_terminal: columns.is_some(),
            ink: Ink(is_coloured),
            width: columns.unwrap_or(usize::MAX),
            can_rewrite: obeys && !is_on("CI"),
        }
    }

    /// The width of text that is read as a page: not more than a reader's eye follows.
    pub fn page_width(self) -> usize {
        const WIDEST: usize = 100;
        if self.is_terminal { self.width.min(WIDEST) } else { USUAL_WIDTH }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether there are colours, and whether lines are rewritten.
    fn shown(columns: Option<usize>, variables: &[(&str, &str)]) -> (bool, bool) {
        let value = |name: &str| variables.iter().find(|(other, _)| *other == name).map(|(_, value)| value.to_owned());
        let screen = Screen::new(columns, value);
        (screen.ink.0, screen.can_rewrite)
    }

    #[test]
    fn a_terminal_has_colours_and_a_file_has_none() {
        assert_eq!(shown(Some(80), &[]), (true, true));
        assert_eq!(shown(Some(80), &[("TERM", "xterm-256color")]), (true, true));
        assert_eq!(shown(None, &[("TERM", "xterm")]), (false, false));
        assert_eq!(shown(Some(80), &[("TERM", "dumb")]), (false, false));
        assert_eq!(shown(Some(80), &[("CI", "true")]), (true, false));
        assert_eq!(shown(Some(80), &[("CI", "false")]), (true, true));
        assert_eq!(shown(None, &[("GITHUB_ACTIONS", "true"), ("CI", "true")]), (false, false));
    }

    #[test]
    fn whoever_says_so_gets_colours_or_none() {
        assert_eq!(shown(Some(80), &[("NO_COLOR", "1")]), (false, true));
        assert_eq!(shown(Some(80), &[("NO_COLOR", "")]), (true, true));
        assert_eq!(shown(None, &[("FORCE_COLOR", "1")]), (true, false));
        assert_eq!(shown(None, &[("CLICOLOR_FORCE", "1")]), (true, false));
        assert_eq!(shown(None, &[("CLICOLOR_FORCE", "0")]), (false, false));
        assert_eq!(shown(Some(80), &[("FORCE_COLOR", "0")]), (false, true));
        assert_eq!(shown(None, &[("FORCE_COLOR", "1"), ("NO_COLOR", "1")]), (false, false));
    }
}
