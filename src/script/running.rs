//! The scripts of one server: its interpreters, and what others may know and ask of the script that runs.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use super::{Interpreter, Scratch};
use crate::clock::Stopwatch;
use crate::error::CommandError;
use crate::profile::Profile;

/// The interpreters, and what is known of the script that one of them runs.
#[derive(Default)]
pub struct Scripts {
    interpreters: Mutex<Interpreters>,
    running: AtomicU8,
    wrote: AtomicBool,
    kill: AtomicU8,
    slow: Mutex<Option<Slow>>,
    /// Bytes that Lua uses, scripts known and the bytes of their text, as of the last script: for INFO.
    used: AtomicUsize,
    known: AtomicUsize,
    source_bytes: AtomicUsize,
}

/// Buffers that have grown beyond this are given back.
const SCRATCH_KEPT: usize = 1024 * 1024;

/// The interpreters, each started when it is first needed.
#[derive(Default)]
pub struct Interpreters {
    eval: Option<Box<Interpreter>>,
    scratch: Scratch,
}

impl Interpreters {
    /// The interpreter for EVAL.
    pub fn eval(&mut self, profile: &Profile) -> &mut Interpreter {
        self.eval.get_or_insert_with(|| Box::new(Interpreter::new(profile)))
    }

    /// The interpreter for EVAL, if it was ever needed.
    pub fn started(&self) -> Option<&Interpreter> {
        self.eval.as_deref()
    }

    /// Buffers for the calls of one script.
    pub fn take_scratch(&mut self) -> Scratch {
        std::mem::take(&mut self.scratch)
    }

    pub fn give_scratch(&mut self, scratch: Scratch) {
        if scratch.reply.capacity() <= SCRATCH_KEPT {
            self.scratch = scratch;
        }
    }

    /// Forgets all scripts.
    pub fn flush(&mut self) {
        self.eval = None;
    }
}

/// What kind of script runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    Eval = 1,
    Function = 2,
}

/// A script that has run for longer than `busy-reply-threshold`.
#[derive(Clone)]
pub struct Slow {
    pub name: Vec<u8>,
    pub command: Vec<Vec<u8>>,
    pub since: Stopwatch,
}

/// Why a script is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kill {
    /// SCRIPT KILL.
    Eval = 1,
    /// FUNCTION KILL.
    Function = 2,
    /// The server ends.
    Shutdown = 3,
}

/// Why a script was not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotKilled {
    NoneRuns,
    /// It is of the other kind.
    Other(Kind),
    /// It has written.
    Wrote,
}

impl Scripts {
    /// The interpreters, unless somebody else has them.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, Interpreters>> {
        match self.interpreters.try_lock() {
            Ok(interpreters) => Some(interpreters),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// A script begins. To be called by whoever has the interpreters.
    pub fn begin(&self, kind: Kind) {
        self.wrote.store(false, Ordering::Relaxed);
        self.kill.store(0, Ordering::Relaxed);
        self.running.store(kind as u8, Ordering::Release);
    }

    pub fn end(&self, interpreters: &Interpreters) {
        self.running.store(0, Ordering::Release);
        *self.held_slow() = None;
        self.note(interpreters);
    }

    /// Takes figures for INFO.
    pub fn note(&self, interpreters: &Interpreters) {
        let started = interpreters.started();
        let (known, source_bytes) = started.map_or((0, 0), Interpreter::known);
        self.used.store(started.map_or(0, Interpreter::used), Ordering::Relaxed);
        self.known.store(known, Ordering::Relaxed);
        self.source_bytes.store(source_bytes, Ordering::Relaxed);
    }

    /// Bytes that Lua uses, how many scripts are known, and the bytes of their text.
    pub fn figures(&self) -> (usize, usize, usize) {
        (
            self.used.load(Ordering::Relaxed),
            self.known.load(Ordering::Relaxed),
            self.source_bytes.load(Ordering::Relaxed),
        )
    }

    /// The running script writes: from now on it cannot be ended.
    pub fn note_write(&self) {
        self.wrote.store(true, Ordering::Release);
    }

    /// What kind of script runs, if one does.
    pub fn running(&self) -> Option<Kind> {
        match self.running.load(Ordering::Acquire) {
            1 => Some(Kind::Eval),
            2 => Some(Kind::Function),
            _ => None,
        }
    }

    /// What others are told while a script takes long.
    pub fn busy_error(&self) -> CommandError {
        match self.running() {
            Some(Kind::Function) => CommandError::BUSY_FUNCTION,
            _ => CommandError::BUSY,
        }
    }

    /// The running script takes long.
    pub fn set_slow(&self, slow: Slow) {
        *self.held_slow() = Some(slow);
    }

    pub fn slow(&self) -> Option<Slow> {
        self.held_slow().clone()
    }

    /// Asks the running script to end.
    pub fn kill(&self, kind: Kind) -> Result<(), NotKilled> {
        match self.running() {
            None => Err(NotKilled::NoneRuns),
            Some(other) if other != kind => Err(NotKilled::Other(other)),
            Some(_) if self.wrote.load(Ordering::Acquire) => Err(NotKilled::Wrote),
            Some(Kind::Eval) => self.set_kill(Kill::Eval),
            Some(Kind::Function) => self.set_kill(Kill::Function),
        }
    }

    /// Ends the running script whatever it has done, because the server ends.
    pub fn abandon(&self) {
        let _ = self.set_kill(Kill::Shutdown);
    }

    fn set_kill(&self, kill: Kill) -> Result<(), NotKilled> {
        self.kill.store(kill as u8, Ordering::Release);
        Ok(())
    }

    /// Whether the running script was asked to end.
    pub fn killed(&self) -> Option<Kill> {
        match self.kill.load(Ordering::Acquire) {
            1 => Some(Kill::Eval),
            2 => Some(Kill::Function),
            3 => Some(Kill::Shutdown),
            _ => None,
        }
    }

    fn held_slow(&self) -> MutexGuard<'_, Option<Slow>> {
        self.slow.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
