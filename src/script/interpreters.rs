//! The two interpreters of one server: one for EVAL, one for functions.

use super::compiled::{Script, ScriptKind};
use super::eval::EvalInterpreter;
use super::functions::FunctionInterpreter;
use super::host::{Invocation, ScratchBuffers};
use super::random::Random;
use crate::base::profile::Profile;

/// Statistics about scripts and functions for INFO.
#[derive(Clone, Copy, Debug, Default)]
pub struct ScriptStats {
    /// Bytes that Lua uses for EVAL.
    pub eval_memory: usize,
    /// Cached scripts, and the bytes of their source text.
    pub scripts: usize,
    pub script_text: usize,
    /// Scripts of EVAL that were evicted.
    pub evicted: usize,
    /// Bytes that Lua uses for functions.
    pub function_memory: usize,
    pub libraries: usize,
    pub functions: usize,
    /// Bytes of the source text of all libraries.
    pub library_text: usize,
}

/// Larger buffers are freed after a call.
const SCRATCH_KEPT: usize = 1024 * 1024;

/// The interpreters. Each starts at its first use.
#[derive(Default)]
pub struct Interpreters {
    eval: Option<Box<EvalInterpreter>>,
    functions: Option<Box<FunctionInterpreter>>,
    scratch: ScratchBuffers,
    random: Random,
    /// Scripts that were evicted before the last flush.
    evicted: usize,
}

impl Interpreters {
    /// The interpreter for EVAL.
    pub fn eval(&mut self, profile: &Profile) -> &mut EvalInterpreter {
        self.eval.get_or_insert_with(|| Box::new(EvalInterpreter::new(profile)))
    }

    /// The interpreter for EVAL, if it has started.
    pub fn started_eval(&self) -> Option<&EvalInterpreter> {
        self.eval.as_deref()
    }

    /// Takes the state that a run of a script needs. [`return_run_state`](Self::return_run_state) puts it back.
    pub fn take_run_state(&mut self) -> (ScratchBuffers, Random) {
        (std::mem::take(&mut self.scratch), std::mem::take(&mut self.random))
    }

    pub fn return_run_state(&mut self, (scratch, random): (ScratchBuffers, Random)) {
        self.random = random;
        if scratch.reply.capacity() <= SCRATCH_KEPT {
            self.scratch = scratch;
        }
    }

    /// The interpreter for functions.
    pub fn functions(&mut self, profile: &Profile) -> &mut FunctionInterpreter {
        self.functions.get_or_insert_with(|| Box::new(FunctionInterpreter::new(profile)))
    }

    /// The interpreter for functions, if it has started.
    pub fn started_functions(&self) -> Option<&FunctionInterpreter> {
        self.functions.as_deref()
    }

    /// As [`started_functions`](Self::started_functions), but mutable.
    pub fn started_functions_mut(&mut self) -> Option<&mut FunctionInterpreter> {
        self.functions.as_deref_mut()
    }

    /// Runs a script that one of the interpreters has compiled, and appends its reply or its error.
    pub fn run(&mut self, script: &Script, invocation: Invocation<'_>, out: &mut Vec<u8>) {
        let profile = invocation.host.profile();
        match script.kind() {
            ScriptKind::Eval => self.eval(profile).run(script, invocation, out),
            ScriptKind::Function => self.functions(profile).run(script, invocation, out),
        }
    }

    /// Forgets all scripts.
    pub fn flush(&mut self) {
        self.evicted += self.eval.take().map_or(0, |eval| eval.evicted());
    }

    /// Forgets all libraries.
    pub fn flush_libraries(&mut self) {
        self.functions = None;
    }

    pub(super) fn stats(&self) -> ScriptStats {
        let mut stats = ScriptStats { evicted: self.evicted, ..ScriptStats::default() };
        if let Some(eval) = &self.eval {
            stats.eval_memory = eval.used();
            (stats.scripts, stats.script_text) = eval.counts();
            stats.evicted += eval.evicted();
        }
        if let Some(functions) = &self.functions {
            stats.function_memory = functions.used();
            (stats.libraries, stats.functions, stats.library_text) = functions.counts();
        }
        stats
    }
}
