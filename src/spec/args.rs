//! A cursor over the arguments of one request.

use super::command_spec::CommandSpec;
use super::table::{ResolvedRow, RowId};
use crate::base::error::CommandError;
use crate::base::profile::Profile;
use crate::protocol::{Words, parse_integer};

/// The arguments of a request, consumed from left to right.
#[derive(Clone)]
pub struct Args<'a> {
    words: Words<'a>,
    at: usize,
    spec: &'static CommandSpec,
    row_id: RowId,
    profile: &'a Profile,
}

impl<'a> Args<'a> {
    #[inline]
    pub fn new(words: Words<'a>, row: ResolvedRow, profile: &'a Profile) -> Self {
        Self { words, at: row.at, spec: row.spec, row_id: row.id, profile }
    }

    /// All words of the request, the command name included.
    pub fn words(&self) -> Words<'a> {
        self.words
    }

    /// The row of the running command or subcommand.
    pub fn spec(&self) -> &'static CommandSpec {
        self.spec
    }

    /// Its id.
    pub fn row_id(&self) -> RowId {
        self.row_id
    }

    pub fn profile(&self) -> &'a Profile {
        self.profile
    }

    /// The number of arguments left.
    pub fn left(&self) -> usize {
        self.words.len() - self.at
    }

    pub fn is_empty(&self) -> bool {
        self.left() == 0
    }

    /// The next argument; a syntax error if there is none.
    #[inline]
    pub fn bytes(&mut self) -> Result<&'a [u8], CommandError> {
        self.optional().ok_or(CommandError::SYNTAX)
    }

    #[inline]
    pub fn optional(&mut self) -> Option<&'a [u8]> {
        let word = self.words.get(self.at)?;
        self.at += 1;
        Some(word)
    }

    /// The next `count` arguments, or all that are left if there are fewer.
    pub fn next_words(&mut self, count: usize) -> Words<'a> {
        let words = self.rest().first(count);
        self.at += words.len();
        words
    }

    /// The next argument, as the name of a key.
    #[inline]
    pub fn key(&mut self) -> Result<&'a [u8], CommandError> {
        self.bytes()
    }

    /// The next argument, as a 64-bit integer.
    pub fn integer(&mut self) -> Result<i64, CommandError> {
        parse_integer(self.bytes()?).ok_or(CommandError::NOT_AN_INTEGER)
    }

    /// The next argument, not consumed.
    pub fn peek(&self) -> Option<&'a [u8]> {
        self.words.get(self.at)
    }

    /// Consumes the next argument if it is this word, case-insensitively.
    pub fn take(&mut self, word: &str) -> bool {
        let taken = self.peek().is_some_and(|next| next.eq_ignore_ascii_case(word.as_bytes()));
        self.at += usize::from(taken);
        taken
    }

    /// The arguments that are left, not consumed.
    pub fn rest(&self) -> Words<'a> {
        self.words.from(self.at)
    }

    /// A syntax error if arguments are left.
    pub fn end(&self) -> Result<(), CommandError> {
        if self.is_empty() { Ok(()) } else { Err(CommandError::SYNTAX) }
    }

    /// The error for a wrong number of arguments.
    pub fn wrong_number(&self) -> CommandError {
        CommandError::new(format!("ERR wrong number of arguments for '{}' command", self.command_name()))
    }

    /// The command's name as error texts show it: in lower case.
    pub fn command_name(&self) -> String {
        self.spec.name.to_ascii_lowercase()
    }
}
