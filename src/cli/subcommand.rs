//! The subcommands: their names, and the status with which they refuse a command line.
//!
//! To add a subcommand, add a variant here, and its name to [`Subcommand::ALL`]. The compiler then asks for its help text, its
//! arguments and what it does; its flags go into [`super::flags`], its statuses into docs/exit-statuses.md.

use std::ffi::OsStr;

/// A word behind `redouble` that is no configuration file. A file of such a name can be had as `./run`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subcommand {
    Run,
    Explore,
    Record,
    Audit,
    Report,
    Explain,
}

/// The word that asks for a help text.
pub(super) const HELP: &str = "help";
/// What a help text can be about beside subcommands.
pub(super) const EXIT_STATUSES: &str = "exit-statuses";

impl Subcommand {
    pub const ALL: [Self; 6] = [Self::Run, Self::Explore, Self::Record, Self::Audit, Self::Report, Self::Explain];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Explore => "explore",
            Self::Record => "record",
            Self::Audit => "audit",
            Self::Report => "report",
            Self::Explain => "explain",
        }
    }

    pub fn by_name(name: &OsStr) -> Option<Self> {
        Self::ALL.into_iter().find(|subcommand| name == subcommand.name())
    }

    /// Whether `-- COMMAND` stands behind the flags, or can (`record`), and other flags are the server's. If not, files or
    /// codes do.
    pub const fn runs_command(self) -> bool {
        match self {
            Self::Run | Self::Explore | Self::Record => true,
            Self::Audit | Self::Report | Self::Explain => false,
        }
    }

    /// The status when the command line is not understood, or nothing can be done at all: see docs/exit-statuses.md.
    pub const fn failure_status(self) -> u8 {
        match self {
            // As `timeout` and `docker run` have it, so that the command's own status can be told from it.
            Self::Run | Self::Explore | Self::Record => 125,
            Self::Audit | Self::Explain => 2,
            Self::Report => 1,
        }
    }
}
