//! View methods for all values that hold elements.

use super::entry::Entry;
use super::notifications::EventClass;
use super::value::{Collection, Value, ValueKind};
use super::view::View;
use crate::base::error::CommandError;
use crate::protocol::Words;

impl View<'_> {
    /// The value under a key, as a read.
    pub fn collection<T: Collection>(&mut self, key: &[u8]) -> Result<Option<&T>, CommandError> {
        match self.find_for_read(key) {
            None => Ok(None),
            Some(at) => self.entry(at).collection().map(Some).ok_or(CommandError::WRONG_TYPE),
        }
    }

    /// Changes how the value under a key is kept, but not what it is. No access, no hit or miss.
    pub fn prepare<T: Collection>(&mut self, key: &[u8], prepare: impl FnOnce(&mut T)) -> Option<&T> {
        let at = self.find(key)?;
        self.rewrite_quietly(at, |entry| entry.change(prepare))?;
        self.entry(at).collection()
    }

    /// The values under several keys, as reads.
    pub fn collections<T: Collection>(&mut self, keys: Words<'_>) -> Result<Vec<Option<&T>>, CommandError> {
        for key in keys.iter() {
            self.collection::<T>(key)?;
        }
        let view = &*self;
        Ok(keys.iter().map(|key| view.peek_found(key)?.collection()).collect())
    }

    /// The entries under several keys, each of one of these types, as reads.
    pub fn entries(&mut self, keys: Words<'_>, kinds: &[ValueKind]) -> Result<Vec<Option<&Entry>>, CommandError> {
        for key in keys.iter() {
            if self.read(key).is_some_and(|entry| !kinds.contains(&entry.kind())) {
                return Err(CommandError::WRONG_TYPE);
            }
        }
        let view = &*self;
        Ok(keys.iter().map(|key| view.peek_found(key)).collect())
    }

    /// The value under a key, for a command that is about to change it.
    pub fn collection_to_write<T: Collection>(&mut self, key: &[u8]) -> Result<Option<&T>, CommandError> {
        match self.find_for_update(key) {
            None => Ok(None),
            Some(at) => self.entry(at).collection().map(Some).ok_or(CommandError::WRONG_TYPE),
        }
    }

    /// Changes the value under a key, if it exists; `change` returns how many changes it made. The key is deleted with
    /// its last element. Returns the result of `change`, and whether the key was deleted.
    pub fn change<T: Collection, R>(
        &mut self,
        key: &[u8],
        change: impl FnOnce(&mut T) -> (R, usize),
    ) -> Result<Option<(R, bool)>, CommandError> {
        let Some(at) = self.find_for_update(key) else { return Ok(None) };
        let change = |entry: &mut Entry| entry.change(|value| (change(value), value.is_removable()));
        let ((result, changes), over) = self.rewrite_quietly(at, change).ok_or(CommandError::WRONG_TYPE)?;
        if over {
            self.take(key);
        } else if changes > 0 {
            self.changed(key);
        }
        self.count_more_changes(changes.saturating_sub(1));
        Ok(Some((result, over)))
    }

    /// Like [`change`](Self::change), but creates a missing value, unless it stays empty.
    pub fn change_or_make<T: Collection, R>(
        &mut self,
        key: &[u8],
        make: impl FnOnce() -> T,
        change: impl FnOnce(&mut T) -> (R, usize),
    ) -> Result<R, CommandError> {
        let Some(at) = self.find_for_update(key) else {
            let mut value = make();
            let (result, changes) = change(&mut value);
            if !value.is_removable() {
                self.insert(Entry::of(key, value.into(), None, self.new_usage()));
                self.count_more_changes(changes.saturating_sub(1));
            }
            return Ok(result);
        };
        let change = |entry: &mut Entry| entry.change(change);
        let (result, changes) = self.rewrite_quietly(at, change).ok_or(CommandError::WRONG_TYPE)?;
        if changes > 0 {
            self.changed(key);
            self.count_more_changes(changes - 1);
        }
        Ok(result)
    }

    /// Notifies of removed elements, and of `del` if they were the last.
    pub fn notify_removal(&mut self, class: EventClass, name: &'static str, key: &[u8], gone: bool) {
        self.notify(class, name, key);
        if gone {
            self.notify(EventClass::Generic, "del", key);
        }
    }

    /// Replaces whatever is under a key by a value without a deadline.
    pub fn put_value(&mut self, key: &[u8], value: impl Into<Value>) {
        self.put(Entry::of(key, value.into(), None, self.new_usage()));
    }
}
