//! A cursor over the arguments of one request.

use super::row::CommandSpec;
use super::table::ResolvedRow;
use crate::base::error::CommandError;
use crate::base::profile::Profile;
use crate::protocol::{Words, parse_integer};

/// The arguments of a request, taken one after the other.
#[derive(Clone)]
pub struct Args<'a> {
    words: Words<'a>,
    at: usize,
    spec: &'static CommandSpec,
    profile: &'a Profile,
}

impl<'a> Args<'a> {
    /// The arguments of a request with this row.
    #[inline]
    pub fn new(words: Words<'a>, row: ResolvedRow, profile: &'a Profile) -> Self {
        Self { words, at: row.at, spec: row.spec, profile }
    }

    /// All words of the request, its name included.
    pub fn words(&self) -> Words<'a> {
        self.words
    }

    /// The row of the command (or subcommand) that runs.
    pub fn spec(&self) -> &'static CommandSpec {
        self.spec
    }

    pub fn profile(&self) -> &'a Profile {
        self.profile
    }

    /// How many arguments are left.
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

    /// The next argument, if there is one.
    #[inline]
    pub fn optional(&mut self) -> Option<&'a [u8]> {
        let word = self.words.get(self.at)?;
        self.at += 1;
        Some(word)
    }

    /// The next argument, which names a key.
    #[inline]
    pub fn key(&mut self) -> Result<&'a [u8], CommandError> {
        self.bytes()
    }

    /// The next argument, as a 64-bit integer.
    pub fn integer(&mut self) -> Result<i64, CommandError> {
        parse_integer(self.bytes()?).ok_or(CommandError::NOT_AN_INTEGER)
    }

    /// Looks at the next argument without taking it.
    pub fn peek(&self) -> Option<&'a [u8]> {
        self.words.get(self.at)
    }

    /// Takes the next argument if it is this word, in whatever case.
    pub fn take(&mut self, word: &str) -> bool {
        let taken = self.peek().is_some_and(|next| next.eq_ignore_ascii_case(word.as_bytes()));
        self.at += usize::from(taken);
        taken
    }

    /// The arguments that are left, as words, without taking them.
    pub fn rest(&self) -> Words<'a> {
        self.words.from(self.at)
    }

    /// Nothing may be left over.
    pub fn end(&self) -> Result<(), CommandError> {
        if self.is_empty() { Ok(()) } else { Err(CommandError::SYNTAX) }
    }

    /// The error for arguments that are too many or too few.
    pub fn wrong_number(&self) -> CommandError {
        CommandError::new(format!("ERR wrong number of arguments for '{}' command", self.command_name()))
    }

    /// The command's name as error texts give it.
    pub fn command_name(&self) -> String {
        self.spec.name.to_ascii_lowercase()
    }
}
