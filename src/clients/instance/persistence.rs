//! Snapshots in `dbfilename`: SAVE, BGSAVE, save points and SHUTDOWN, with `--persist yes`. Without it nothing is kept.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::{Instance, NamedBy};
use crate::base::clock::Millis;
use crate::base::error::{CommandError, plain};
use crate::base::files::{self, Creation};
use crate::base::profile::Family;
use crate::base::sync::MutexExt;
use crate::data::keyspace::Busy;
use crate::data::seed::Form;
use crate::powers::Hook;

/// Redis tries a failed background save again after this time.
const RETRY: Millis = 5000;

const NOT_KEPT: CommandError = CommandError::fixed(
    "ERR nothing is saved, because the server was started without --persist yes; REDOUBLE SAVE writes a file",
);
const IN_SPACE: CommandError = CommandError::fixed("ERR only the data outside of spaces is kept in dbfilename");
const IN_PROGRESS: CommandError = CommandError::fixed("ERR Background save already in progress");

/// A thread writes a snapshot.
const IN_BACKGROUND: u8 = 1;
/// The last background save has failed, and nothing was saved since.
const LAST_FAILED: u8 = 2;

/// What a server knows about its snapshots.
pub struct Persistence {
    /// Whether data is kept; set before serving begins.
    enabled: AtomicBool,
    /// The time of the last success in milliseconds, at first that of the start.
    last_save: AtomicI64,
    /// The time at which the last save began.
    last_try: AtomicI64,
    /// The changes of all time when the last snapshot was taken.
    saved_changes: AtomicU64,
    saves: AtomicU64,
    /// [`IN_BACKGROUND`] and [`LAST_FAILED`].
    state: AtomicU8,
    /// Held while a snapshot is written. The number says which one may be written: a thread whose snapshot is older than
    /// that of the server's end writes nothing.
    writing: Mutex<u64>,
    /// BGSAVE was asked for at a moment at which no snapshot can be taken: the periodic work begins it.
    is_scheduled: AtomicBool,
    /// How long the last background save took, in seconds; -1 if there was none.
    last_seconds: AtomicI64,
    /// The keys that the server has loaded at its start.
    loaded_keys: AtomicU64,
}

impl Persistence {
    pub(super) fn new(now: Millis) -> Self {
        Self {
            enabled: AtomicBool::new(false),
            last_save: AtomicI64::new(now),
            last_try: AtomicI64::new(0),
            saved_changes: AtomicU64::new(0),
            saves: AtomicU64::new(0),
            state: AtomicU8::new(0),
            writing: Mutex::new(0),
            is_scheduled: AtomicBool::new(false),
            last_seconds: AtomicI64::new(-1),
            loaded_keys: AtomicU64::new(0),
        }
    }

    fn is_enabled(&self) -> bool {
        self.enabled.load(Ordering::Relaxed)
    }

    fn enable(&self, loaded_keys: u64) {
        self.loaded_keys.store(loaded_keys, Ordering::Relaxed);
        self.enabled.store(true, Ordering::Relaxed);
    }

    /// When the data was last saved, in milliseconds.
    pub fn last_save(&self) -> Millis {
        self.last_save.load(Ordering::Relaxed)
    }

    pub fn is_last_ok(&self) -> bool {
        self.state.load(Ordering::Acquire) & LAST_FAILED == 0
    }

    pub fn saves(&self) -> u64 {
        self.saves.load(Ordering::Relaxed)
    }

    pub fn loaded_keys(&self) -> u64 {
        self.loaded_keys.load(Ordering::Relaxed)
    }

    pub fn is_in_background(&self) -> bool {
        self.state.load(Ordering::Acquire) & IN_BACKGROUND != 0
    }

    /// How long the last background save took, in seconds; -1 if there was none.
    pub fn last_seconds(&self) -> i64 {
        self.last_seconds.load(Ordering::Relaxed)
    }

    /// How long the present background save takes already, in seconds; -1 if there is none.
    pub fn present_seconds(&self, now: Millis) -> i64 {
        if self.is_in_background() { (now - self.last_try.load(Ordering::Relaxed)).max(0) / 1000 } else { -1 }
    }

    fn note_saved(&self, changes: u64, now: Millis) {
        self.saved_changes.store(changes, Ordering::Relaxed);
        self.last_save.store(now, Ordering::Relaxed);
        self.saves.fetch_add(1, Ordering::Relaxed);
    }

    /// Clears and sets flags in one step: whoever sees how a save has ended can begin another one.
    fn change_state(&self, clear: u8, set: u8) {
        let change = |state| Some(state & !clear | set);
        let _ = self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, change);
    }
}

impl Instance {
    /// The changes since the last snapshot was taken.
    pub fn unsaved_changes(&self) -> u64 {
        self.stats.all().changes.saturating_sub(self.persistence.saved_changes.load(Ordering::Relaxed))
    }

    /// Keeps the data from now on; what was loaded counts as saved. To be called before serving begins.
    pub fn keep_data(&self) {
        let keys = self.keyspace.sizes().iter().map(|(_, [keys, ..])| keys).sum();
        self.persistence.saved_changes.store(self.stats.all().changes, Ordering::Relaxed);
        self.persistence.enable(keys);
    }

    /// SAVE: writes a snapshot before it returns.
    pub fn save_snapshot(&self) -> Result<(), CommandError> {
        self.check_persists()?;
        let began = self.begin_save();
        let (name, changes) = (self.snapshot_name(), self.stats.all().changes);
        // Redis lets everybody wait.
        let capture = self.capture_at_once(Form::File).map_err(|Busy| self.scripts.busy_error())?;
        self.write_snapshot(&name, &capture.finish(), changes, began)
    }

    /// Whether the data of this world is kept in a file.
    pub(super) fn keeps_data(&self) -> bool {
        self.persistence.is_enabled() && self.space.is_empty()
    }

    /// DEBUG RELOAD: writes a snapshot that was just taken.
    pub(super) fn write_taken_snapshot(&self, snapshot: &[u8]) -> Result<(), CommandError> {
        let began = self.begin_save();
        self.write_snapshot(&self.snapshot_name(), snapshot, self.stats.all().changes, began)
    }

    /// DEBUG RELOAD NOSAVE: the snapshot that was written last.
    pub(super) fn read_kept_snapshot(&self) -> io::Result<Vec<u8>> {
        files::read_inside(&self.config.path("dir").unwrap_or_default(), &self.snapshot_name())
    }

    fn snapshot_name(&self) -> PathBuf {
        self.config.path("dbfilename").unwrap_or_default()
    }

    fn write_snapshot(&self, name: &Path, snapshot: &[u8], changes: u64, began: Millis) -> Result<(), CommandError> {
        let mut writing = self.persistence.writing.lock_ignoring_poison();
        *writing += 1;
        let written = self.write_file(name, snapshot, NamedBy::Client);
        drop(writing);
        match written {
            Ok(()) => {
                self.persistence.note_saved(changes, began);
                self.persistence.change_state(LAST_FAILED, 0);
                self.log.notice("DB saved on disk");
                Ok(())
            }
            Err(error) => {
                let reason = plain(&error);
                self.log.warn(format!("Failed saving the DB in {}: {reason}", name.display()));
                Err(CommandError::new(format!("ERR the file '{}' cannot be written: {reason}", name.display())))
            }
        }
    }

    /// BGSAVE: the data is written as it is now, by a thread, while clients go on. `later` is for a transaction, which has locked
    /// the data: the periodic work takes the snapshot.
    pub fn save_in_background(&self, later: bool) -> Result<(), CommandError> {
        self.check_persists()?;
        if later {
            self.persistence.is_scheduled.store(true, Ordering::Relaxed);
            return Ok(());
        }
        self.begin_background_save()
    }

    /// BGREWRITEAOF: the snapshot stands for the append-only file. Returns whether it is written now, and not later.
    pub fn rewrite_append_only(&self, later: bool) -> Result<bool, CommandError> {
        let later = later || self.persistence.is_in_background();
        if later && self.keeps_data() {
            self.persistence.is_scheduled.store(true, Ordering::Relaxed);
            return Ok(false);
        }
        self.save_in_background(false).map(|()| true)
    }

    /// The error for a write after a background save that failed.
    pub fn failed_save(&self) -> Option<CommandError> {
        let is_refused = self.active_hooks.has(Hook::UnconfirmedSave)
            && !self.persistence.is_last_ok()
            && self.config.is_on("stop-writes-on-bgsave-error")
            && !self.config.save_points().is_empty();
        let product = match self.profile.family() {
            Family::Redis => "Redis",
            Family::Valkey => "Valkey",
        };
        is_refused.then(|| {
            CommandError::new(format!(
                "MISCONF {product} is configured to save RDB snapshots, but it's currently unable to persist to disk. \
                 Commands that may modify the data set are disabled, because this instance is configured to report errors \
                 during writes if RDB snapshotting fails (stop-writes-on-bgsave-error option). Please check the {product} \
                 logs for details about the RDB error."
            ))
        })
    }

    /// Begins the saves that are due: one that was scheduled, or that of a save point.
    pub(super) fn save_if_due(&self) {
        let persistence = &self.persistence;
        if !persistence.is_enabled() || persistence.is_in_background() {
            return;
        }
        if persistence.is_last_ok() {
            self.active_hooks.disarm(Hook::UnconfirmedSave);
        }
        let is_due = persistence.is_scheduled.swap(false, Ordering::Relaxed) || self.is_save_point_reached();
        if is_due && let Err(error) = self.begin_background_save() {
            self.log.warn(format!("A background save cannot begin: {error}"));
        }
    }

    fn is_save_point_reached(&self) -> bool {
        let changes = self.unsaved_changes();
        if changes == 0 {
            return false;
        }
        let (now, persistence) = (self.clock.millis(), &self.persistence);
        if !persistence.is_last_ok() && now - persistence.last_try.load(Ordering::Relaxed) <= RETRY {
            return false;
        }
        let since = (now - persistence.last_save()) / 1000;
        let reached =
            self.config.save_points().into_iter().find(|(seconds, least)| changes >= *least && since > *seconds);
        if let Some((seconds, least)) = reached {
            self.log.notice(format!("{least} changes in {seconds} seconds. Saving..."));
        }
        reached.is_some()
    }

    /// Saves for the end of the server, if that is asked for or there are save points. The error is logged.
    pub fn save_at_end(&self, asked: Option<bool>) -> Result<(), CommandError> {
        if !self.persistence.is_enabled() {
            if asked != Some(true) {
                return Ok(());
            }
            // Data that a client asks to save is not lost silently.
            self.log.warn("SHUTDOWN SAVE is refused, because the server was started without --persist yes.");
            return Err(NOT_KEPT);
        }
        if !asked.unwrap_or_else(|| !self.config.save_points().is_empty()) {
            return Ok(());
        }
        self.log.notice("Saving the final RDB snapshot before exiting.");
        // A snapshot that a thread has still to write is older than this one.
        self.persistence.change_state(IN_BACKGROUND, 0);
        self.save_snapshot().inspect_err(|_| self.log.warn("Error trying to save the DB, can't exit."))
    }

    /// Saves for the end of a server in a program, which keeps its data if it was told to. The error is logged.
    pub fn save_when_dropped(&self) {
        if self.persistence.is_enabled() {
            let _ = self.save_at_end(Some(true));
        }
    }

    /// Saves for the end of the server by a signal, as `shutdown-on-sigterm` or `shutdown-on-sigint` says. Whether the
    /// server may end.
    pub fn save_at_signal(&self, directive: &str) -> bool {
        let words = self.config.text(directive);
        let has = |name: &str| words.split(' ').any(|word| word == name);
        let asked = match () {
            // Without `--persist`, a signal ends the server all the same.
            () if !self.persistence.is_enabled() => return true,
            () if has("nosave") => Some(false),
            () => has("save").then_some(true),
        };
        // A slow script holds the data.
        self.scripts.kill_for_shutdown();
        self.save_at_end(asked).is_ok() || has("force")
    }

    fn check_persists(&self) -> Result<(), CommandError> {
        match () {
            () if !self.space.is_empty() => Err(IN_SPACE),
            () if !self.persistence.is_enabled() => Err(NOT_KEPT),
            () if self.persistence.is_in_background() => Err(IN_PROGRESS),
            () => Ok(()),
        }
    }

    fn begin_save(&self) -> Millis {
        let now = self.clock.millis();
        self.persistence.last_try.store(now, Ordering::Relaxed);
        self.active_hooks.arm(Hook::UnconfirmedSave);
        now
    }

    fn begin_background_save(&self) -> Result<(), CommandError> {
        let began = self.begin_save();
        let (name, changes) = (self.snapshot_name(), self.stats.all().changes);
        let capture = self.capture(Form::File).map_err(|Busy| self.scripts.busy_error())?;
        let folder = self.config.path("dir").unwrap_or_default();
        let (persistence, log, clock) = (Arc::clone(&self.persistence), Arc::clone(&self.log), Arc::clone(&self.clock));
        let number = *persistence.writing.lock_ignoring_poison();
        // A clock move returns only after the snapshot is written.
        let alarm = self.clock.rung_alarm();
        self.persistence.change_state(0, IN_BACKGROUND);
        let write = move || {
            let snapshot = capture.finish();
            let writing = persistence.writing.lock_ignoring_poison();
            if *writing != number {
                persistence.change_state(IN_BACKGROUND, 0);
                return;
            }
            let written = files::write_inside(&folder, &name, &snapshot, Creation::Allowed);
            drop(writing);
            let now = clock.millis();
            persistence.last_seconds.store((now - began).max(0) / 1000, Ordering::Relaxed);
            match written {
                Ok(_) => {
                    persistence.note_saved(changes, now);
                    log.notice("DB saved on disk");
                    log.notice("Background saving terminated with success");
                    persistence.change_state(IN_BACKGROUND | LAST_FAILED, 0);
                }
                Err(error) => {
                    log.warn(format!("Failed saving the DB in {}: {}", name.display(), plain(&error)));
                    persistence.change_state(IN_BACKGROUND, LAST_FAILED);
                }
            }
            drop(alarm);
        };
        let thread = std::thread::Builder::new().name("redouble-save".into()).spawn(write);
        if let Err(error) = thread {
            self.persistence.change_state(IN_BACKGROUND, 0);
            return Err(CommandError::new(format!("ERR a background save cannot begin: {}", plain(&error))));
        }
        self.log.notice("Background saving started");
        Ok(())
    }
}
