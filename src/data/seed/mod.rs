//! Seed files: data that a server loads at its start, as a snapshot or as readable commands.

mod listing;
mod source;

use std::path::Path;

use crate::base::profile::Profile;
use crate::data::keyspace::{Entry, View};
use crate::data::rdb::SnapshotWriter;
use listing::Listing;

pub use source::{Source, SourceError};

/// The extension of a snapshot file.
const SNAPSHOT: &str = "rdb";

/// The content of a file with everything in a view and with these function libraries. The file name selects the format.
/// Keys are sorted, so that a small change of the data is a small diff of the file.
pub fn save<'l>(
    view: &mut View<'_>,
    libraries: impl Iterator<Item = &'l [u8]>,
    profile: &Profile,
    path: &Path,
) -> Vec<u8> {
    if path.extension().is_some_and(|ending| ending == SNAPSHOT) {
        snapshot(view, libraries, profile, false)
    } else {
        let mut listing = Listing::new(*profile);
        libraries.for_each(|source| listing.library(source));
        for_each_key(view, |step| match step {
            Step::Database { db, .. } => listing.database(db),
            Step::Key(entry) => listing.key(entry),
        });
        listing.finish()
    }
}

/// A snapshot of everything in a view and of these function libraries: in the format of the profile's own release if `own`
/// or if no older one can hold it, otherwise in one that all servers read.
pub fn snapshot<'l>(
    view: &mut View<'_>,
    libraries: impl Iterator<Item = &'l [u8]>,
    profile: &Profile,
    own: bool,
) -> Vec<u8> {
    let mut times = own;
    for_each_database(view, |view, _| view.for_each(|entry| times |= entry.due().field.is_some()));
    let mut writer = SnapshotWriter::new(*profile, times);
    libraries.for_each(|source| writer.library(source));
    for_each_key(view, |step| match step {
        Step::Database { db, keys, volatile } => writer.database(db, keys, volatile),
        Step::Key(entry) => writer.key(entry.key(), entry.content(), entry.deadline()),
    });
    writer.finish()
}

/// A snapshot of everything for another instance of this process. Its keys are in no order, which is faster.
pub fn copy<'l>(view: &mut View<'_>, libraries: impl Iterator<Item = &'l [u8]>, profile: &Profile) -> Vec<u8> {
    let mut writer = SnapshotWriter::for_this_process(*profile);
    libraries.for_each(|source| writer.library(source));
    for_each_database(view, |view, db| {
        let keys = view.len();
        if keys > 0 {
            // Nobody asks how many have a deadline.
            writer.database(db, keys, 0);
            view.for_each(|entry| writer.key(entry.key(), entry.content(), entry.deadline()));
        }
    });
    writer.finish()
}

/// A snapshot of these function libraries alone.
pub fn libraries<'l>(libraries: impl Iterator<Item = &'l [u8]>, profile: &Profile) -> Vec<u8> {
    let mut writer = SnapshotWriter::new(*profile, false);
    libraries.for_each(|source| writer.library(source));
    writer.finish()
}

enum Step<'e> {
    /// The following keys belong to this database, which has this number of keys and of keys with a deadline.
    Database {
        db: u32,
        keys: usize,
        volatile: usize,
    },
    Key(&'e Entry),
}

/// Visits every database with keys, and its keys in order.
fn for_each_key(view: &mut View<'_>, mut visit: impl FnMut(Step<'_>)) {
    for_each_database(view, |view, db| {
        let (mut keys, mut volatile) = (Vec::new(), 0);
        view.for_each(|entry| {
            keys.push(entry.key().to_vec());
            volatile += usize::from(entry.deadline().is_some());
        });
        if keys.is_empty() {
            return;
        }
        keys.sort_unstable();
        visit(Step::Database { db, keys: keys.len(), volatile });
        for key in &keys {
            if let Some(entry) = view.peek(key) {
                visit(Step::Key(entry));
            }
        }
    });
}

/// Calls `visit` with each database while it is selected.
fn for_each_database(view: &mut View<'_>, mut visit: impl FnMut(&mut View<'_>, u32)) {
    let home = view.db();
    for db in view.held_databases() {
        view.select(db);
        visit(view, db);
    }
    view.select(home);
}
