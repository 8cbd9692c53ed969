//! View methods for strings.

use smallvec::SmallVec;

use super::entry::{Entry, TextRef};
use super::notifications::{COUNTS_USES, OWN_INTEGERS};
use super::text_bytes::{StringValue, TAKEN_OVER, TextBytes};
use super::usage::Usage;
use super::value::{Text, ValueKind};
use super::view::{Location, View};
use crate::base::clock::Millis;
use crate::base::error::CommandError;

/// What a write does to its key's deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// Removes it.
    Never,
    /// Keeps it.
    Keep,
    At(Millis),
}

impl Expiry {
    /// The new deadline of a key with this old one.
    fn resolve(self, old: Option<Millis>) -> Option<Millis> {
        match self {
            Self::Never => None,
            Self::Keep => old,
            Self::At(deadline) => Some(deadline),
        }
    }
}

impl View<'_> {
    /// The string under a key, as a read.
    #[inline]
    pub fn string(&mut self, key: &[u8]) -> Result<Option<&[u8]>, CommandError> {
        Ok(self.text(key)?.map(|text| text.bytes))
    }

    /// Like [`string`](Self::string), as a reply takes it.
    #[inline]
    pub fn string_value(&mut self, key: &[u8]) -> Result<Option<StringValue<'_>>, CommandError> {
        match self.find_for_read(key) {
            None => Ok(None),
            Some(at) => self.entry(at).string_value().map(Some).ok_or(CommandError::WRONG_TYPE),
        }
    }

    /// The strings under several keys, as reads; `None` for a missing key or another type.
    pub fn strings<'a>(&mut self, keys: impl Iterator<Item = &'a [u8]> + Clone) -> Vec<Option<&[u8]>> {
        let places = self.find_all_for_read(keys.clone());
        let view = &*self;
        if let Some(places) = places {
            return places.into_iter().map(|at| Some(view.entry(at?).text()?.bytes)).collect();
        }
        keys.map(|key| view.peek_found_string(key)).collect()
    }

    /// The string under a key that was just found to be one.
    pub fn peek_found_string(&self, key: &[u8]) -> Option<&[u8]> {
        Some(self.peek_found(key)?.text()?.bytes)
    }

    /// Like [`string`](Self::string), with the encoding.
    #[inline]
    pub fn text(&mut self, key: &[u8]) -> Result<Option<TextRef<'_>>, CommandError> {
        match self.find_for_read(key) {
            None => Ok(None),
            Some(at) => self.entry(at).text().map(Some).ok_or(CommandError::WRONG_TYPE),
        }
    }

    /// Writes a whole string. Replaces a value of any type.
    #[inline]
    pub fn set_string(&mut self, key: &[u8], value: &[u8], expiry: Expiry) {
        match self.find_for_update(key) {
            Some(at) if self.entry(at).kind() != ValueKind::String => {
                // Clients blocked in XREADGROUP get an error.
                let deadline = self.entry(at).deadline();
                self.put(self.new_string(key, value, expiry.resolve(deadline)));
            }
            Some(at) => self.overwrite(at, value, expiry),
            None => {
                let deadline = match expiry {
                    Expiry::Never | Expiry::Keep => None,
                    Expiry::At(deadline) => Some(deadline),
                };
                self.insert(self.new_string(key, value, deadline));
            }
        }
    }

    /// Writes a string if the key does not exist.
    #[inline]
    pub fn insert_if_absent(&mut self, key: &[u8], value: &[u8], deadline: Option<Millis>) -> bool {
        if self.find_for_update(key).is_some() {
            return false;
        }
        self.insert(self.new_string(key, value, deadline));
        true
    }

    /// Writes a whole string without a deadline, and returns the old one.
    pub fn replace_string(&mut self, key: &[u8], value: &[u8]) -> Result<Option<StringValue<'static>>, CommandError> {
        let Some(at) = self.find_for_read(key) else {
            self.insert(self.new_string(key, value, None));
            return Ok(None);
        };
        let old = self.take_text(at).ok_or(CommandError::WRONG_TYPE)?;
        self.overwrite(at, value, Expiry::Never);
        Ok(Some(old))
    }

    /// Writes a whole string over one that is there.
    #[inline]
    fn overwrite(&mut self, at: Location, value: &[u8], expiry: Expiry) {
        let (wanted, usage) = (self.wanted(), Usage::at(self.begun()));
        let received = self.received_text(value);
        self.rewrite(at, |entry| {
            let deadline = expiry.resolve(entry.deadline());
            match received {
                Some(bytes) => entry.write_long_string(bytes, deadline),
                None => entry.write_string(value, deadline),
            }
            entry.note_write(wanted, usage);
        });
    }

    /// The string of an entry that is about to be replaced; `None` for another type. A long one is moved out, because copying it
    /// would hold up everybody.
    fn take_text(&mut self, at: Location) -> Option<StringValue<'static>> {
        match self.entry(at).string_value()? {
            StringValue::Plain(bytes) if bytes.len() >= TAKEN_OVER => {
                let take = |entry: &mut Entry| entry.edit_text().map(|text| std::mem::take(text.bytes.to_mut()));
                self.rewrite_quietly(at, take).map(|bytes| StringValue::Shared(bytes.into()))
            }
            value => Some(value.into_owned()),
        }
    }

    /// Replaces a string by one that is derived from it, and keeps the deadline. A `verbatim` string is text for OBJECT
    /// ENCODING even if it reads as an integer.
    pub fn rebuild_string<R>(
        &mut self,
        key: &[u8],
        verbatim: bool,
        make: impl FnOnce(Option<&[u8]>, &mut SmallVec<[u8; 32]>) -> Result<R, CommandError>,
    ) -> Result<R, CommandError> {
        let mut value = SmallVec::new();
        let Some(at) = self.find_for_update(key) else {
            let result = make(None, &mut value)?;
            let mut entry = self.new_string(key, &value, None);
            if verbatim {
                entry.set_verbatim();
            }
            self.insert(entry);
            return Ok(result);
        };
        let old = self.entry(at).text().ok_or(CommandError::WRONG_TYPE)?;
        let result = make(Some(old.bytes), &mut value)?;
        let (wanted, usage) = (self.wanted(), self.entry(at).usage());
        self.rewrite(at, |entry| {
            entry.write_string(&value, entry.deadline());
            entry.note_write(wanted, usage);
            if verbatim {
                entry.set_verbatim();
            }
        });
        Ok(result)
    }

    /// The string under a key, for a command that is about to write it.
    pub fn string_to_write(&mut self, key: &[u8]) -> Result<Option<&[u8]>, CommandError> {
        match self.find_for_update(key) {
            None => Ok(None),
            Some(at) => Ok(Some(self.entry(at).text().ok_or(CommandError::WRONG_TYPE)?.bytes)),
        }
    }

    /// Edits a string in place (an empty one if the key does not exist), and leaves it in the `raw` encoding.
    pub fn edit_string<R>(&mut self, key: &[u8], edit: impl FnOnce(&mut Vec<u8>) -> R) -> Result<R, CommandError> {
        self.edit_string_if(key, |bytes| (edit(bytes), true))
    }

    /// Like [`edit_string`](Self::edit_string), but `edit` returns whether watchers are touched.
    pub fn edit_string_if<R>(
        &mut self,
        key: &[u8],
        edit: impl FnOnce(&mut Vec<u8>) -> (R, bool),
    ) -> Result<R, CommandError> {
        let Some(at) = self.find_for_update(key) else {
            let mut bytes = Vec::new();
            let (result, changed) = edit(&mut bytes);
            self.insert_quietly(raw(key, bytes, self.new_usage()));
            if changed {
                self.changed(key);
            }
            return Ok(result);
        };
        if self.entry(at).text().is_none() {
            return Err(CommandError::WRONG_TYPE);
        }
        let edit = |entry: &mut Entry| entry.edit_text().map(|text| edit(text.bytes.to_mut()));
        let (result, changed) = self.rewrite_quietly(at, edit).ok_or(CommandError::WRONG_TYPE)?;
        if changed {
            self.changed(key);
        }
        Ok(result)
    }

    /// Edits an existing string that `check` accepts, and leaves it in the `raw` encoding. `edit` returns how many
    /// changes it made.
    pub fn edit_existing_string<R>(
        &mut self,
        key: &[u8],
        check: impl FnOnce(&[u8]) -> Result<(), CommandError>,
        edit: impl FnOnce(&mut Vec<u8>) -> (R, usize),
    ) -> Result<Option<R>, CommandError> {
        let Some(at) = self.find_for_update(key) else { return Ok(None) };
        check(self.entry(at).text().ok_or(CommandError::WRONG_TYPE)?.bytes)?;
        let edit = |entry: &mut Entry| entry.edit_text().map(|text| edit(text.bytes.to_mut()));
        let (result, changes) = self.rewrite_quietly(at, edit).ok_or(CommandError::WRONG_TYPE)?;
        if changes > 0 {
            self.changed(key);
            self.count_more_changes(changes - 1);
        }
        Ok(Some(result))
    }

    /// Writes a whole string in the `raw` encoding, as BITOP does.
    pub fn set_raw_string(&mut self, key: &[u8], bytes: Vec<u8>) {
        self.put(raw(key, bytes, self.new_usage()));
    }
}

impl View<'_> {
    /// A string that is written as a whole, under a new key.
    #[inline]
    fn new_string(&self, key: &[u8], value: &[u8], deadline: Option<Millis>) -> Entry {
        let usage = self.new_usage();
        self.unshared(match self.received_text(value) {
            Some(bytes) => Entry::long_string(key, bytes, deadline, usage),
            None => Entry::string(key, value, deadline, usage),
        })
    }

    /// An entry that shares no integer with others if none is to be shared.
    #[inline]
    pub fn unshared(&self, mut entry: Entry) -> Entry {
        if self.wanted() & OWN_INTEGERS != 0 {
            entry.set_private();
        }
        entry
    }
}

impl Entry {
    /// A string was written as a whole, under a key that exists. Its usage counts on while uses are counted.
    #[inline]
    fn note_write(&mut self, wanted: u32, usage: Usage) {
        if wanted & COUNTS_USES == 0 {
            self.set_usage(usage);
        }
        if wanted & OWN_INTEGERS != 0 {
            self.set_private();
        }
    }
}

fn raw(key: &[u8], bytes: Vec<u8>, usage: Usage) -> Entry {
    let bytes = TextBytes::Owned(bytes);
    Entry::of(key, Text { bytes, edited: true, verbatim: false }.into(), None, usage)
}
