//! What a view can do with strings.

use super::entry::{Entry, Text, TextRef, Value};
use super::view::View;
use crate::clock::Millis;
use crate::error::CommandError;

/// What a write does to the deadline of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// The key lives until somebody deletes it.
    Never,
    /// As it was.
    Keep,
    At(Millis),
}

impl View<'_> {
    /// The string under a key, read for its value.
    #[inline]
    pub fn string(&mut self, key: &[u8]) -> Result<Option<&[u8]>, CommandError> {
        Ok(self.text(key)?.map(|text| text.bytes))
    }

    /// As [`string`](Self::string), with how it is encoded.
    #[inline]
    pub fn text(&mut self, key: &[u8]) -> Result<Option<TextRef<'_>>, CommandError> {
        match self.used(key) {
            None => Ok(None),
            Some(at) => self.entry(at).text().map(Some).ok_or(CommandError::WRONG_TYPE),
        }
    }

    /// Writes a whole string, whatever was there before.
    #[inline]
    pub fn set_string(&mut self, key: &[u8], value: &[u8], expiry: Expiry) {
        let accessed = self.access_time();
        match self.at(key) {
            Some(at) => self.rewrite(at, |entry| {
                let deadline = match expiry {
                    Expiry::Never => None,
                    Expiry::Keep => entry.deadline(),
                    Expiry::At(deadline) => Some(deadline),
                };
                entry.write_string(value, deadline);
                entry.set_accessed(accessed);
            }),
            None => {
                let deadline = match expiry {
                    Expiry::Never | Expiry::Keep => None,
                    Expiry::At(deadline) => Some(deadline),
                };
                self.insert(Entry::string(key, value, deadline, accessed));
            }
        }
    }

    /// Writes a string if nothing is under the key, whatever its type.
    #[inline]
    pub fn insert_if_absent(&mut self, key: &[u8], value: &[u8]) -> bool {
        if self.at(key).is_some() {
            return false;
        }
        let accessed = self.access_time();
        self.insert(Entry::string(key, value, None, accessed));
        true
    }

    /// Edits a string in place (an empty one if there is none), and leaves it in the `raw` encoding.
    pub fn edit_string<R>(&mut self, key: &[u8], edit: impl FnOnce(&mut Vec<u8>) -> R) -> Result<R, CommandError> {
        match self.used(key) {
            Some(at) => {
                if self.entry(at).text().is_none() {
                    return Err(CommandError::WRONG_TYPE);
                }
                let edit = |entry: &mut Entry| entry.edit_text().map(|text| edit(&mut text.bytes));
                self.rewrite(at, edit).ok_or(CommandError::WRONG_TYPE)
            }
            None => {
                let mut bytes = Vec::new();
                let result = edit(&mut bytes);
                self.insert(Entry::boxed(key, Value::String(Text { bytes, edited: true }), None, self.access_time()));
                Ok(result)
            }
        }
    }

    /// Writes a whole string in the `raw` encoding, as BITOP does.
    pub fn set_raw_string(&mut self, key: &[u8], bytes: Vec<u8>) {
        let accessed = self.access_time();
        self.put(Entry::boxed(key, Value::String(Text { bytes, edited: true }), None, accessed));
    }
}
