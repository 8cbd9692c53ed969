//! All data and functions at one instant, written while clients go on.

use std::path::Path;

use super::listing::Listing;
use crate::base::profile::Profile;
use crate::data::keyspace::{Entry, EntryWriter, Hash, Part, PointInTime, View};
use crate::data::rdb::{KeyWriter, SnapshotWriter};

/// The extension of a snapshot file.
const SNAPSHOT: &str = "rdb";

/// As many keys are copied in less than a millisecond, in most cases: no thread is needed for them.
const FEW_KEYS: usize = 1000;
/// The same for the memory that the data takes.
const FEW_BYTES: u64 = 1 << 20;

/// How data is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A snapshot in a file. Keys are sorted, so that a small change of the data is a small change of the file. The format
    /// is one that all servers read, unless no older one than the profile's own can hold the data.
    File,
    /// The same in the format of the profile's own release.
    OwnFile,
    /// A file with readable commands. Keys are sorted.
    Listing,
    /// A snapshot for a replica.
    Replica,
    /// A snapshot for an instance of this process.
    Internal,
}

impl Form {
    /// The form of a file with this name.
    pub fn of(path: &Path) -> Self {
        if path.extension().is_some_and(|ending| ending == SNAPSHOT) { Self::File } else { Self::Listing }
    }

    fn is_sorted(self) -> bool {
        matches!(self, Self::File | Self::OwnFile | Self::Listing)
    }
}

/// All data and functions at one instant.
pub struct Capture {
    keys: Keys,
    out: Out,
    is_sorted: bool,
}

enum Keys {
    /// They are written while others change them.
    Copying(PointInTime),
    Copied(Vec<Part>),
}

/// What has been written in front of the keys.
enum Out {
    Snapshot(SnapshotWriter),
    Listing(Listing),
}

impl EntryWriter for KeyWriter {
    fn write(&self, entry: &Entry, out: &mut Vec<u8>) {
        let table = entry.collection::<Hash>().filter(|hash| !hash.is_packed() && !hash.is_timed());
        match table {
            Some(hash) => {
                let fields = hash.iter().map(|pair| [pair.field(), pair.value()]);
                self.write_table(out, entry.key(), fields, entry.deadline());
            }
            None => KeyWriter::write(self, out, entry.key(), entry.content(), entry.deadline()),
        }
    }
}

/// Writes entries as lines of a listing.
struct LineWriter(Profile);

impl EntryWriter for LineWriter {
    fn write(&self, entry: &Entry, out: &mut Vec<u8>) {
        let mut listing = Listing::lines(std::mem::take(out), self.0);
        listing.key(entry);
        *out = listing.finish();
    }
}

impl Capture {
    /// Begins with what a view of everything shows, and with these function libraries. Few keys are copied at once: then nobody
    /// has to wait for a shard that a script may hold.
    pub fn begin<'l>(
        view: &mut View<'_>,
        libraries: impl Iterator<Item = &'l [u8]>,
        profile: &Profile,
        form: Form,
    ) -> Self {
        let (out, writer): (_, Box<dyn EntryWriter>) = match form {
            Form::Listing => {
                let mut listing = Listing::new(*profile);
                libraries.for_each(|source| listing.library(source));
                (Out::Listing(listing), Box::new(LineWriter(*profile)))
            }
            Form::File | Form::OwnFile | Form::Replica | Form::Internal => {
                let mut snapshot = match form {
                    Form::Internal => SnapshotWriter::for_this_process(*profile),
                    Form::OwnFile => SnapshotWriter::new(*profile, true),
                    _ => SnapshotWriter::new(*profile, view.keys_with_field_deadlines() > 0),
                };
                libraries.for_each(|source| snapshot.library(source));
                let keys = snapshot.key_writer();
                (Out::Snapshot(snapshot), Box::new(keys))
            }
        };
        let copy = view.begin_copy(writer, form.is_sorted());
        let is_small = copy.keys() <= FEW_KEYS && view.used_bytes() <= FEW_BYTES;
        let capture = Self { keys: Keys::Copying(copy), out, is_sorted: form.is_sorted() };
        if is_small { capture.copied(view) } else { capture }
    }

    /// A snapshot of these function libraries alone.
    pub fn of_libraries<'l>(libraries: impl Iterator<Item = &'l [u8]>, profile: &Profile) -> Self {
        let mut snapshot = SnapshotWriter::new(*profile, false);
        libraries.for_each(|source| snapshot.library(source));
        Self { keys: Keys::Copied(Vec::new()), out: Out::Snapshot(snapshot), is_sorted: false }
    }

    /// With all keys copied within the view that began it.
    pub fn copied(self, view: &mut View<'_>) -> Self {
        let keys = match self.keys {
            Keys::Copying(copy) => Keys::Copied(view.finish_copy(copy)),
            copied @ Keys::Copied(_) => copied,
        };
        Self { keys, ..self }
    }

    /// Whether so little is left to do that nobody notices.
    pub fn is_copied(&self) -> bool {
        matches!(self.keys, Keys::Copied(_))
    }

    /// Writes everything, while others change it if it is not copied yet; then the caller holds no view, and waits for scripts.
    pub fn finish(self) -> Vec<u8> {
        let Self { keys, out, is_sorted } = self;
        let parts = match keys {
            Keys::Copying(copy) => copy.finish(),
            Keys::Copied(parts) => parts,
        };
        out.finish(parts, is_sorted)
    }
}

impl Out {
    fn finish(mut self, mut parts: Vec<Part>, is_sorted: bool) -> Vec<u8> {
        parts.retain(|part| part.keys > 0);
        parts.sort_by_key(|part| part.db);
        for database in parts.chunk_by_mut(|one, other| one.db == other.db) {
            self.database(database);
            if is_sorted {
                let mut entries: Vec<_> = database.iter().flat_map(Part::entries).collect();
                entries.sort_unstable_by_key(|(name, _)| *name);
                entries.into_iter().for_each(|(_, written)| self.add(written));
            }
            for part in database {
                // Its memory is given back at once.
                let written = std::mem::take(&mut part.bytes);
                if !is_sorted {
                    self.add(&written);
                }
            }
        }
        match self {
            Self::Snapshot(snapshot) => snapshot.finish(),
            Self::Listing(listing) => listing.finish(),
        }
    }

    fn database(&mut self, parts: &[Part]) {
        let db = parts.first().map_or(0, |part| part.db);
        match self {
            Self::Snapshot(snapshot) => {
                let keys = parts.iter().map(|part| part.keys).sum();
                let volatile = parts.iter().map(|part| part.volatile).sum();
                snapshot.database(db, keys, volatile);
            }
            Self::Listing(listing) => listing.database(db),
        }
    }

    fn add(&mut self, written: &[u8]) {
        match self {
            Self::Snapshot(snapshot) => snapshot.keys(written),
            Self::Listing(listing) => listing.add(written),
        }
    }
}
