//! The scripts of one server: its interpreters, and the state of the running script that other threads read.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::time::Duration;

use super::compiled::ScriptKind;
use super::interpreters::{Interpreters, ScriptStats};
use super::texts;
use crate::base::clock::Stopwatch;
use crate::base::error::CommandError;
use crate::base::profile::Profile;
use crate::base::sync::MutexExt;

/// The interpreters, and the state of the script that one of them runs.
#[derive(Default)]
pub struct Scripts {
    profile: Profile,
    interpreters: Mutex<Interpreters>,
    running: AtomicU8,
    wrote: AtomicBool,
    kill: AtomicU8,
    busy: Mutex<Option<BusyScript>>,
    /// The longest time for a script, in milliseconds; 0 for no limit.
    longest: AtomicU64,
    /// The values of [`ScriptStats`] after the last script.
    stats: [AtomicUsize; 8],
    /// The scripts that had been evicted at the last CONFIG RESETSTAT.
    evicted_before: AtomicUsize,
}

/// A script that has run for longer than `busy-reply-threshold`.
#[derive(Clone)]
pub struct BusyScript {
    pub name: Vec<u8>,
    pub command: Vec<Vec<u8>>,
    pub since: Stopwatch,
}

/// Why the running script must end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum KillReason {
    /// SCRIPT KILL.
    Eval = 1,
    /// FUNCTION KILL.
    Function = 2,
    /// The server shuts down.
    Shutdown = 3,
}

/// Why a kill was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KillError {
    NotRunning,
    /// A script of the other kind is running.
    OtherKind(ScriptKind),
    /// The script has written: Redis's UNKILLABLE.
    Wrote,
}

impl Scripts {
    pub fn new(profile: Profile) -> Self {
        Self { profile, ..Self::default() }
    }

    /// Locks the interpreters, unless another thread has them locked.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, Interpreters>> {
        match self.interpreters.try_lock() {
            Ok(interpreters) => Some(interpreters),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Limits the time that each script may take.
    pub fn limit_time(&self, longest: Option<Duration>) {
        let millis = longest.map_or(0, |longest| u64::try_from(longest.as_millis()).unwrap_or(u64::MAX));
        self.longest.store(millis, Ordering::Relaxed);
    }

    /// Whether a script has run for longer than it may.
    pub fn is_overdue(&self, since: Stopwatch) -> bool {
        let longest = self.longest.load(Ordering::Relaxed);
        longest > 0 && since.elapsed().as_millis() > u128::from(longest)
    }

    /// Marks a script as running. The caller holds the lock of the interpreters.
    pub fn begin(&self, kind: ScriptKind) {
        self.wrote.store(false, Ordering::Relaxed);
        self.kill.store(0, Ordering::Relaxed);
        self.running.store(kind as u8, Ordering::Release);
    }

    pub fn end(&self, interpreters: &Interpreters) {
        self.running.store(0, Ordering::Release);
        self.update_stats(interpreters);
    }

    /// Copies the statistics, so that INFO reads them without locking the interpreters.
    pub fn update_stats(&self, interpreters: &Interpreters) {
        let ScriptStats {
            eval_memory,
            scripts,
            script_text,
            evicted,
            function_memory,
            libraries,
            functions,
            library_text,
        } = interpreters.stats();
        let stats = [eval_memory, scripts, script_text, evicted, function_memory, libraries, functions, library_text];
        for (noted, value) in self.stats.iter().zip(stats) {
            noted.store(value, Ordering::Relaxed);
        }
    }

    pub fn stats(&self) -> ScriptStats {
        let [eval_memory, scripts, script_text, evicted, function_memory, libraries, functions, library_text] =
            self.stats.each_ref().map(|value| value.load(Ordering::Relaxed));
        let evicted = evicted.wrapping_sub(self.evicted_before.load(Ordering::Relaxed));
        ScriptStats { eval_memory, scripts, script_text, evicted, function_memory, libraries, functions, library_text }
    }

    /// CONFIG RESETSTAT: counts evicted scripts from now on.
    pub fn reset_evicted(&self) {
        let before = self.evicted_before.load(Ordering::Relaxed).wrapping_add(self.stats().evicted);
        self.evicted_before.store(before, Ordering::Relaxed);
    }

    /// The running script has written: from now on it cannot be killed.
    pub fn note_write(&self) {
        self.wrote.store(true, Ordering::Release);
    }

    /// The kind of the running script, if there is one.
    pub fn running(&self) -> Option<ScriptKind> {
        match self.running.load(Ordering::Acquire) {
            1 => Some(ScriptKind::Eval),
            2 => Some(ScriptKind::Function),
            _ => None,
        }
    }

    /// The error that other clients get while a script is busy.
    pub fn busy_error(&self) -> CommandError {
        match self.running() {
            Some(ScriptKind::Function) => texts::busy(&self.profile, ScriptKind::Function),
            _ => texts::busy(&self.profile, ScriptKind::Eval),
        }
    }

    /// Sets the busy script when the running one exceeds the threshold, and clears it at its end.
    pub fn set_busy(&self, busy: Option<BusyScript>) {
        *self.lock_busy() = busy;
    }

    pub fn busy(&self) -> Option<BusyScript> {
        self.lock_busy().clone()
    }

    /// SCRIPT KILL or FUNCTION KILL: asks the running script to end.
    pub fn kill(&self, kind: ScriptKind) -> Result<(), KillError> {
        match self.running() {
            None => Err(KillError::NotRunning),
            Some(other) if other != kind => Err(KillError::OtherKind(other)),
            Some(_) if self.wrote.load(Ordering::Acquire) => Err(KillError::Wrote),
            Some(ScriptKind::Eval) => self.set_kill(KillReason::Eval),
            Some(ScriptKind::Function) => self.set_kill(KillReason::Function),
        }
    }

    /// Ends the running script for a shutdown, even if it has written.
    pub fn kill_for_shutdown(&self) {
        let _ = self.set_kill(KillReason::Shutdown);
    }

    fn set_kill(&self, kill: KillReason) -> Result<(), KillError> {
        self.kill.store(kill as u8, Ordering::Release);
        Ok(())
    }

    /// Whether the running script was asked to end, and why.
    pub fn kill_requested(&self) -> Option<KillReason> {
        match self.kill.load(Ordering::Acquire) {
            1 => Some(KillReason::Eval),
            2 => Some(KillReason::Function),
            3 => Some(KillReason::Shutdown),
            _ => None,
        }
    }

    fn lock_busy(&self) -> MutexGuard<'_, Option<BusyScript>> {
        self.busy.lock_ignoring_poison()
    }
}
