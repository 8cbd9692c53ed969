//! The scripts of one server: its interpreters, and what others may know and ask of the script that runs.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};

use super::{Functions, Interpreter, Random, Request, Scratch, Script};
use crate::base::clock::Stopwatch;
use crate::base::error::CommandError;
use crate::base::profile::Profile;
use crate::base::sync::MutexExt;

/// The interpreters, and what is known of the script that one of them runs.
#[derive(Default)]
pub struct Scripts {
    interpreters: Mutex<Interpreters>,
    running: AtomicU8,
    wrote: AtomicBool,
    kill: AtomicU8,
    slow: Mutex<Option<Slow>>,
    /// As of the last script.
    figures: [AtomicUsize; 7],
}

/// How much there is of what: for INFO.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// Bytes that Lua uses for EVAL.
    pub eval: usize,
    /// Scripts known, and the bytes of their text.
    pub scripts: usize,
    pub script_text: usize,
    /// Bytes that Lua uses for functions.
    pub function: usize,
    pub libraries: usize,
    pub functions: usize,
    /// Bytes of the text of all libraries.
    pub library_text: usize,
}

/// Buffers that have grown beyond this are given back.
const SCRATCH_KEPT: usize = 1024 * 1024;

/// The interpreters, each started when it is first needed.
#[derive(Default)]
pub struct Interpreters {
    eval: Option<Box<Interpreter>>,
    functions: Option<Box<Functions>>,
    scratch: Scratch,
    random: Random,
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

    /// What one script has at hand, to be given back when it has ended.
    pub fn take_tools(&mut self) -> (Scratch, Random) {
        (std::mem::take(&mut self.scratch), std::mem::take(&mut self.random))
    }

    pub fn give_tools(&mut self, (scratch, random): (Scratch, Random)) {
        self.random = random;
        if scratch.reply.capacity() <= SCRATCH_KEPT {
            self.scratch = scratch;
        }
    }

    /// The interpreter for functions.
    pub fn functions(&mut self, profile: &Profile) -> &mut Functions {
        self.functions.get_or_insert_with(|| Box::new(Functions::new(profile)))
    }

    /// The interpreter for functions, if it was ever needed.
    pub fn libraries(&self) -> Option<&Functions> {
        self.functions.as_deref()
    }

    /// As [`libraries`](Self::libraries), to take some away.
    pub fn libraries_mut(&mut self) -> Option<&mut Functions> {
        self.functions.as_deref_mut()
    }

    /// Runs a script that one of the interpreters has handed out, and appends what it returns, or its error.
    pub fn run(&mut self, script: &Script, request: Request<'_>, out: &mut Vec<u8>) {
        let profile = request.host.profile();
        match script.kind() {
            Kind::Eval => self.eval(profile).run(script, request, out),
            Kind::Function => self.functions(profile).run(script, request, out),
        }
    }

    /// Forgets all scripts.
    pub fn flush(&mut self) {
        self.eval = None;
    }

    /// Forgets all libraries.
    pub fn flush_libraries(&mut self) {
        self.functions = None;
    }

    fn figures(&self) -> Figures {
        let mut figures = Figures::default();
        if let Some(eval) = &self.eval {
            figures.eval = eval.used();
            (figures.scripts, figures.script_text) = eval.known();
        }
        if let Some(functions) = &self.functions {
            figures.function = functions.used();
            (figures.libraries, figures.functions, figures.library_text) = functions.known();
        }
        figures
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
        self.note(interpreters);
    }

    /// Takes figures for INFO.
    pub fn note(&self, interpreters: &Interpreters) {
        let Figures { eval, scripts, script_text, function, libraries, functions, library_text } =
            interpreters.figures();
        let figures = [eval, scripts, script_text, function, libraries, functions, library_text];
        for (noted, figure) in self.figures.iter().zip(figures) {
            noted.store(figure, Ordering::Relaxed);
        }
    }

    pub fn figures(&self) -> Figures {
        let [eval, scripts, script_text, function, libraries, functions, library_text] =
            self.figures.each_ref().map(|figure| figure.load(Ordering::Relaxed));
        Figures { eval, scripts, script_text, function, libraries, functions, library_text }
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

    /// The running script takes long, or the one that did has ended.
    pub fn set_slow(&self, slow: Option<Slow>) {
        *self.held_slow() = slow;
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
        self.slow.lock_ignoring_poison()
    }
}
