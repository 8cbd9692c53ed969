//! DEBUG RELOAD and LOADAOF: all data and functions through the format of snapshots and back.

use std::sync::{Arc, Mutex};

use super::Instance;
use crate::base::error::{CommandError, plain};
use crate::base::sync::MutexExt;
use crate::data::keyspace::{Entry, View};
use crate::data::rdb::{Key, SnapshotItem, SnapshotReader, suits};
use crate::data::seed::{Capture, Form};
use crate::script::{Interpreters, RestorePolicy};

/// What is reloaded, and what becomes of the data that are there.
pub struct Reload {
    /// The data are saved first; otherwise those that were saved last are loaded.
    pub save: bool,
    pub flush: bool,
    /// Existing keys and libraries are replaced. Otherwise, unless everything was flushed, they are an error.
    pub merge: bool,
}

impl Default for Reload {
    fn default() -> Self {
        Self { save: true, flush: true, merge: false }
    }
}

/// The snapshot that was saved last.
#[derive(Default)]
pub(super) struct LastSnapshot(Mutex<Option<Arc<[u8]>>>);

impl LastSnapshot {
    fn set(&self, snapshot: Option<Arc<[u8]>>) {
        *self.0.lock_ignoring_poison() = snapshot;
    }

    fn get(&self) -> Option<Arc<[u8]>> {
        self.0.lock_ignoring_poison().clone()
    }
}

/// What a snapshot holds.
#[derive(Default)]
struct Loaded {
    libraries: Vec<Vec<u8>>,
    keys: Vec<(u32, Entry)>,
}

impl Instance {
    /// Saves all data, and loads what was saved. The view is of everything. If the error is returned, nothing has changed.
    pub fn reload(&self, view: &mut View<'_>, interpreters: &mut Interpreters, options: Reload) -> Result<(), String> {
        if options.save {
            let libraries = interpreters.started_functions().into_iter().flat_map(|libraries| libraries.libraries());
            let sources = libraries.map(|library| library.source.as_slice());
            self.keep_snapshot(Capture::begin(view, sources, &self.profile, Form::OwnFile).copied(view).finish())?;
        }
        let snapshot = self.kept_snapshot()?;
        self.load_snapshot(view, interpreters, &snapshot, options)
    }

    /// Takes over the data and functions of a master. The view is of everything. If the error is returned, nothing has changed.
    pub fn load_from_master(
        &self,
        view: &mut View<'_>,
        interpreters: &mut Interpreters,
        snapshot: &[u8],
    ) -> Result<(), String> {
        self.load_snapshot(view, interpreters, snapshot, Reload::default())
    }

    fn load_snapshot(
        &self,
        view: &mut View<'_>,
        interpreters: &mut Interpreters,
        snapshot: &[u8],
        options: Reload,
    ) -> Result<(), String> {
        let Loaded { libraries, keys } = self.read_snapshot(snapshot, view)?;
        let home = view.db();
        if !options.flush && !options.merge {
            let exists = |(db, entry): &&(u32, Entry)| {
                view.select(*db);
                view.exists(entry.key())
            };
            if let Some((_, entry)) = keys.iter().find(exists) {
                return Err(format!("the key '{}' exists already", entry.key().escape_ascii()));
            }
        }
        self.load_libraries(interpreters, &libraries, &options).map_err(|error| error.to_string())?;
        view.without_traces(|view| {
            if options.flush {
                view.flush_everything();
            }
        });
        // Clients that cache keys are told that everything was flushed, and nothing of what is loaded.
        if options.flush {
            view.notify_flushed();
        }
        self.announce(view, None);
        view.without_traces(|view| {
            for (db, entry) in keys {
                view.select(db);
                view.replace(entry);
            }
        });
        view.select(home);
        Ok(())
    }

    /// Turns back everything that DEBUG has changed, and forgets what it has saved.
    pub fn reset_debug(&self) {
        self.debug_switches.reset();
        self.keyspace.settings().reset_debug();
        self.last_snapshot.set(None);
    }

    /// In `dbfilename`, if this server keeps data there, otherwise in memory.
    fn keep_snapshot(&self, snapshot: Vec<u8>) -> Result<(), String> {
        if self.keeps_data() {
            return self.write_taken_snapshot(&snapshot).map_err(|error| error.to_string());
        }
        self.last_snapshot.set(Some(snapshot.into()));
        Ok(())
    }

    fn kept_snapshot(&self) -> Result<Arc<[u8]>, String> {
        if self.keeps_data() {
            return self.read_kept_snapshot().map(Into::into).map_err(|error| plain(&error));
        }
        self.last_snapshot.get().ok_or_else(|| "nothing was saved".to_owned())
    }

    fn read_snapshot(&self, snapshot: &[u8], view: &View<'_>) -> Result<Loaded, String> {
        let mut reader = SnapshotReader::new(snapshot).ok_or("it is no snapshot")?;
        let (mut loaded, mut db) = (Loaded::default(), 0);
        while let Some(item) = reader.next().map_err(|error| format!("at byte {}: {}", error.at, error.reason))? {
            match item {
                SnapshotItem::Library(source) => loaded.libraries.push(source),
                SnapshotItem::Database(number) => {
                    db = u32::try_from(number).ok().filter(|db| *db < view.databases()).ok_or("no such database")?;
                }
                // A replica waits for its master to delete it.
                SnapshotItem::Key(Key { deadline: Some(deadline), .. })
                    if deadline < view.now() && !self.is_replica() => {}
                SnapshotItem::Key(Key { name, content, deadline, idle, frequency }) => {
                    let fault = || format!("the value of '{}' cannot be loaded", name.escape_ascii());
                    let usage = view.restored_usage(Some(idle.into()), frequency);
                    let entry = suits(&content, &self.profile)
                        .then(|| Entry::of_content(&name, content, view.settings(), &self.profile, deadline, usage));
                    loaded.keys.push((db, view.unshared(entry.flatten().ok_or_else(fault)?)));
                }
            }
        }
        Ok(loaded)
    }

    fn load_libraries(
        &self,
        interpreters: &mut Interpreters,
        libraries: &[Vec<u8>],
        options: &Reload,
    ) -> Result<(), CommandError> {
        if libraries.is_empty() && (interpreters.started_functions().is_none() || !options.flush) {
            return Ok(());
        }
        let policy = match options {
            Reload { flush: true, .. } => RestorePolicy::Flush,
            Reload { merge: true, .. } => RestorePolicy::Replace,
            Reload { .. } => RestorePolicy::Append,
        };
        let sources = libraries.iter().map(Ok);
        let restored = interpreters.functions(&self.profile).restore(sources, policy, &self.log, &self.profile);
        self.scripts.update_stats(interpreters);
        restored
    }
}
