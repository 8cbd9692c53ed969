//! Expiry times of hash fields.

use std::collections::{BTreeMap, BTreeSet};

use crate::base::clock::Millis;

/// The fields with an expiry time, by name and by time.
#[derive(Clone, Default)]
pub struct Times {
    by_field: BTreeMap<Box<[u8]>, Millis>,
    by_time: BTreeSet<(Millis, Box<[u8]>)>,
    /// Bytes of all field names.
    names: usize,
    /// Fields whose time is before this instant are hidden. While there are any, each look-up of the hash sets it.
    pub hidden_before: Millis,
}

/// An estimate of the bytes per field in both trees, without its names.
const NODES: usize = 2 * (size_of::<Box<[u8]>>() + size_of::<Millis>()) * 3 / 2;

impl Times {
    pub fn len(&self) -> usize {
        self.by_field.len()
    }

    pub fn get(&self, field: &[u8]) -> Option<Millis> {
        self.by_field.get(field).copied()
    }

    pub fn set(&mut self, field: &[u8], time: Option<Millis>) {
        if let Some((name, old)) = self.by_field.remove_entry(field) {
            self.names -= name.len();
            self.by_time.remove(&(old, name));
        }
        if let Some(time) = time {
            self.names += field.len();
            self.by_field.insert(field.into(), time);
            self.by_time.insert((time, field.into()));
        }
    }

    pub fn earliest(&self) -> Option<Millis> {
        self.by_time.first().map(|(time, _)| *time)
    }

    /// Removes the earliest field, if it has expired.
    pub fn pop_due(&mut self, now: Millis) -> Option<Box<[u8]>> {
        if self.earliest()? >= now {
            return None;
        }
        let (_, field) = self.by_time.pop_first()?;
        self.by_field.remove(&field);
        self.names -= field.len();
        Some(field)
    }

    pub fn hides_any(&self) -> bool {
        self.earliest().is_some_and(|first| first < self.hidden_before)
    }

    /// Whether a field is hidden.
    pub fn hides(&self, field: &[u8]) -> bool {
        self.hides_any() && self.get(field).is_some_and(|time| time < self.hidden_before)
    }

    /// The memory in bytes.
    pub fn size(&self) -> usize {
        size_of::<Self>() + self.len() * NODES + 2 * self.names
    }
}
