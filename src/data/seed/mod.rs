//! Data that a server begins with, in files: a snapshot as Redis has them, or commands that a person can read.

mod listing;
mod source;

use std::path::Path;

use crate::base::profile::Profile;
use crate::data::keyspace::{Entry, View};
use crate::data::rdb::SnapshotWriter;
use listing::Listing;

pub use source::{Source, SourceError};

/// The ending of a file that is written as a snapshot.
const SNAPSHOT: &str = "rdb";

/// Everything that a view of everything sees, and these libraries of functions, as the file of this name is to hold it. The
/// keys are in order, so that little changes in the file where little has changed in the data.
pub fn save<'l>(
    view: &mut View<'_>,
    libraries: impl Iterator<Item = &'l [u8]>,
    profile: &Profile,
    path: &Path,
) -> Vec<u8> {
    if path.extension().is_some_and(|ending| ending == SNAPSHOT) {
        snapshot(view, libraries, profile)
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

fn snapshot<'l>(view: &mut View<'_>, libraries: impl Iterator<Item = &'l [u8]>, profile: &Profile) -> Vec<u8> {
    let mut times = false;
    for_each_key(view, |step| {
        if let Step::Key(entry) = step {
            times |= entry.due().field.is_some();
        }
    });
    let mut writer = SnapshotWriter::new(*profile, times);
    libraries.for_each(|source| writer.library(source));
    for_each_key(view, |step| match step {
        Step::Database { db, keys, volatile } => writer.database(db, keys, volatile),
        Step::Key(entry) => writer.key(entry.key(), entry.content(), entry.deadline()),
    });
    writer.finish()
}

enum Step<'e> {
    /// What follows is in this database, which has so many keys, and so many of them with a deadline.
    Database {
        db: u32,
        keys: usize,
        volatile: usize,
    },
    Key(&'e Entry),
}

/// Goes through all databases that have keys, and through these in order.
fn for_each_key(view: &mut View<'_>, mut visit: impl FnMut(Step<'_>)) {
    let home = view.db();
    for db in view.held_databases() {
        view.select(db);
        let (mut keys, mut volatile) = (Vec::new(), 0);
        view.for_each(|entry| {
            keys.push(entry.key().to_vec());
            volatile += usize::from(entry.deadline().is_some());
        });
        if keys.is_empty() {
            continue;
        }
        keys.sort_unstable();
        visit(Step::Database { db, keys: keys.len(), volatile });
        for key in &keys {
            if let Some(entry) = view.peek(key) {
                visit(Step::Key(entry));
            }
        }
    }
    view.select(home);
}
