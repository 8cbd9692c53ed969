//! What a view can do with sets.

use super::entry::{Entry, Value};
use super::set::{Set, SetLimits};
use super::view::View;
use crate::error::CommandError;
use crate::resp::Words;

impl View<'_> {
    /// The set under a key, read for its members.
    pub fn set(&mut self, key: &[u8]) -> Result<Option<&Set>, CommandError> {
        match self.used(key) {
            None => Ok(None),
            Some(at) => self.entry(at).set().map(Some).ok_or(CommandError::WRONG_TYPE),
        }
    }

    /// The sets under several keys, read for their members.
    pub fn sets(&mut self, keys: Words<'_>) -> Result<Vec<Option<&Set>>, CommandError> {
        for key in keys.iter() {
            self.set(key)?;
        }
        let view = &*self;
        Ok(keys.iter().map(|key| view.found(key)?.set()).collect())
    }

    /// The set under a key, looked at by a command that is about to change it.
    pub fn set_to_write(&mut self, key: &[u8]) -> Result<Option<&Set>, CommandError> {
        match self.aimed_at(key) {
            None => Ok(None),
            Some(at) => self.entry(at).set().map(Some).ok_or(CommandError::WRONG_TYPE),
        }
    }

    /// Adds members to a set, which comes into being if there is none, and tells how many of them are new.
    pub fn add_members<'m>(
        &mut self,
        key: &[u8],
        members: impl ExactSizeIterator<Item = &'m [u8]> + Clone,
        limits: &SetLimits,
    ) -> Result<usize, CommandError> {
        let count = members.len();
        let Some(first) = members.clone().next() else { return Ok(0) };
        let add = |set: &mut Set| members.filter(|member| set.add(member, limits)).count();
        let Some(at) = self.aimed_at(key) else {
            let mut set = Set::for_member(first, count, limits);
            let added = add(&mut set);
            self.insert(Entry::boxed(key, Value::Set(Box::new(set)), None, self.access_time()));
            self.count_further(added.saturating_sub(1));
            return Ok(added);
        };
        if self.entry(at).set().is_none() {
            return Err(CommandError::WRONG_TYPE);
        }
        let added = self.rewrite_quietly(at, |entry| {
            entry.set_mut().map_or(0, |set| {
                set.expect(count, limits);
                add(set)
            })
        });
        if added > 0 {
            self.changed(key);
            self.count_further(added - 1);
        }
        Ok(added)
    }

    /// Changes a set that is there, by removing members; `edit` says how many. The key goes with the last of them. Hands
    /// back what `edit` did, and whether the key is gone.
    pub fn remove_members<R>(
        &mut self,
        key: &[u8],
        edit: impl FnOnce(&mut Set) -> (R, usize),
    ) -> Result<Option<(R, bool)>, CommandError> {
        let Some(at) = self.aimed_at(key) else { return Ok(None) };
        let edit = |entry: &mut Entry| entry.set_mut().map(|set| (edit(set), set.len() == 0));
        let ((result, removed), emptied) = self.rewrite_quietly(at, edit).ok_or(CommandError::WRONG_TYPE)?;
        if emptied {
            self.take(key);
        } else if removed > 0 {
            self.changed(key);
        }
        self.count_further(removed.saturating_sub(1));
        Ok(Some((result, emptied)))
    }

    /// Puts a set in place of whatever is under a key.
    pub fn put_set(&mut self, key: &[u8], set: Set) {
        self.put(Entry::boxed(key, Value::Set(Box::new(set)), None, self.access_time()));
    }
}
