//! The error replies of general use, in Redis's words, and the crate's own [`Error`].
//!
//! Clients match on these texts, so they are kept as bytes in one place, and tests compare them with a real server.

use std::borrow::Cow;
use std::fmt;

/// An error reply: the line that follows the `-`, its code first (`ERR syntax error`).
#[derive(Clone, PartialEq, Eq)]
pub struct CommandError {
    line: Cow<'static, [u8]>,
}

impl CommandError {
    pub const SYNTAX: Self = Self::fixed("ERR syntax error");
    pub const MUST_BE_POSITIVE: Self = Self::fixed("ERR value is out of range, must be positive");
    pub const NOT_AN_INTEGER: Self = Self::fixed("ERR value is not an integer or out of range");
    pub const NOT_A_FLOAT: Self = Self::fixed("ERR value is not a valid float");
    pub const WRONG_TYPE: Self = Self::fixed("WRONGTYPE Operation against a key holding the wrong kind of value");
    pub const NO_SUCH_KEY: Self = Self::fixed("ERR no such key");
    pub const OUT_OF_MEMORY: Self = Self::fixed("OOM command not allowed when used memory > 'maxmemory'.");
    pub const NO_REPLICAS: Self = Self::fixed("NOREPLICAS Not enough good replicas to write.");
    pub const READ_ONLY_REPLICA: Self = Self::fixed("READONLY You can't write against a read only replica.");
    pub const MASTER_DOWN: Self =
        Self::fixed("MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.");
    pub const NO_AUTH: Self = Self::fixed("NOAUTH Authentication required.");
    pub const STRING_TOO_LONG: Self = Self::fixed("ERR string exceeds maximum allowed size (proto-max-bulk-len)");
    pub const OFFSET_OUT_OF_RANGE: Self = Self::fixed("ERR offset is out of range");
    pub const DB_INDEX_OUT_OF_RANGE: Self = Self::fixed("ERR DB index is out of range");
    pub const INCREMENT_OVERFLOW: Self = Self::fixed("ERR increment or decrement would overflow");
    pub const NOT_IN_TRANSACTION: Self = Self::fixed("ERR Command not allowed inside a transaction");
    pub const WRONG_PASSWORD: Self = Self::fixed("WRONGPASS invalid username-password pair or user is disabled.");
    pub const NO_PASSWORD_SET: Self = Self::fixed(
        "ERR AUTH <password> called without any password configured for the default user. Are you sure your \
         configuration is correct?",
    );
    pub const UNBLOCKED: Self = Self::fixed("UNBLOCKED client unblocked via CLIENT UNBLOCK");
    pub const NOW_A_REPLICA: Self =
        Self::fixed("UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)");
    pub const MAX_CLIENTS: Self = Self::fixed("ERR max number of clients reached");

    pub const DEBUG_REFUSED: Self = Self::fixed(
        "ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", you can run it from a \
         local connection, otherwise you need to set this option in the configuration file, and then restart the server.",
    );

    /// An error with a constant text.
    pub const fn fixed(line: &'static str) -> Self {
        Self { line: Cow::Borrowed(line.as_bytes()) }
    }

    /// An error whose text contains client input. A reply is one line, so line ends become spaces.
    pub fn new(line: impl Into<Vec<u8>>) -> Self {
        let mut line = line.into();
        for byte in &mut line {
            if matches!(byte, b'\r' | b'\n') {
                *byte = b' ';
            }
        }
        Self { line: Cow::Owned(line) }
    }

    /// An error whose text quotes a word as C prints it: up to its first NUL.
    pub fn quoting(before: &str, word: &[u8], after: &str) -> Self {
        let word = word.split(|&byte| byte == 0).next().unwrap_or_default();
        Self::new([before.as_bytes(), word, after.as_bytes()].concat())
    }

    /// The whole line, without the `-` and the line end.
    pub fn line(&self) -> &[u8] {
        &self.line
    }

    /// The first word: `ERR`, `WRONGTYPE`, `NOAUTH`.
    pub fn code(&self) -> &[u8] {
        self.line.split(|&byte| byte == b' ').next().unwrap_or_default()
    }
}

impl fmt::Debug for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.line))
    }
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl std::error::Error for CommandError {}

/// Why a server cannot be configured or started, or refuses a request of its handle.
#[derive(Debug)]
pub enum Error {
    /// A flag, directive or configuration file is invalid; the text says which and why.
    Config(String),
    /// The server cannot listen on an address.
    Bind {
        /// The address.
        address: String,
        /// The operating system's error.
        source: std::io::Error,
    },
    /// A unix socket cannot be created.
    Socket {
        /// Its path.
        path: std::path::PathBuf,
        /// The operating system's error.
        source: std::io::Error,
    },
    /// A seed file cannot be loaded.
    Load {
        /// Its path.
        path: std::path::PathBuf,
        /// The line of the error, if the file has lines.
        line: Option<u64>,
        /// What is wrong there; for a command, the server's reply.
        reason: String,
    },
    /// A running server refuses a request; the text says why.
    Refused(String),
    /// Any other error of the operating system.
    Io(std::io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(text) | Self::Refused(text) => f.write_str(text),
            Self::Bind { address, source } => write!(f, "cannot listen on {address}: {source}"),
            Self::Socket { path, source } => write!(f, "cannot listen on {}: {source}", path.display()),
            Self::Load { path, line: Some(line), reason } => {
                write!(f, "cannot load {}, line {line}: {reason}", path.display())
            }
            Self::Load { path, line: None, reason } => write!(f, "cannot load {}: {reason}", path.display()),
            Self::Io(source) => write!(f, "{source}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Config(_) | Self::Refused(_) | Self::Load { .. } => None,
            Self::Bind { source, .. } | Self::Socket { source, .. } | Self::Io(source) => Some(source),
        }
    }
}

impl From<std::io::Error> for Error {
    fn from(source: std::io::Error) -> Self {
        Self::Io(source)
    }
}

/// The operating system's error without the number that Rust adds: the wording of C programs, and so of Redis.
pub(crate) fn plain(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split_once(" (os error").map_or(text.as_str(), |(text, _)| text).to_owned()
}
