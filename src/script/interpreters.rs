//! The two interpreters of one server.

use super::compiled::{Script, ScriptKind};
use super::eval::EvalInterpreter;
use super::functions::FunctionInterpreter;
use super::host::{Invocation, ScratchBuffers};
use super::random::Random;
use crate::base::profile::Profile;

/// How much there is of what: for INFO.
#[derive(Clone, Copy, Debug, Default)]
pub struct ScriptStats {
    /// Bytes that Lua uses for EVAL.
    pub eval_memory: usize,
    /// Scripts known, and the bytes of their text.
    pub scripts: usize,
    pub script_text: usize,
    /// Bytes that Lua uses for functions.
    pub function_memory: usize,
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
    eval: Option<Box<EvalInterpreter>>,
    functions: Option<Box<FunctionInterpreter>>,
    scratch: ScratchBuffers,
    random: Random,
}

impl Interpreters {
    /// The interpreter for EVAL.
    pub fn eval(&mut self, profile: &Profile) -> &mut EvalInterpreter {
        self.eval.get_or_insert_with(|| Box::new(EvalInterpreter::new(profile)))
    }

    /// The interpreter for EVAL, if it was ever needed.
    pub fn started_eval(&self) -> Option<&EvalInterpreter> {
        self.eval.as_deref()
    }

    /// What one script has at hand, to be given back when it has ended.
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

    /// The interpreter for functions, if it was ever needed.
    pub fn started_functions(&self) -> Option<&FunctionInterpreter> {
        self.functions.as_deref()
    }

    /// As [`started_functions`](Self::started_functions), to take some away.
    pub fn started_functions_mut(&mut self) -> Option<&mut FunctionInterpreter> {
        self.functions.as_deref_mut()
    }

    /// Runs a script that one of the interpreters has handed out, and appends what it returns, or its error.
    pub fn run(&mut self, script: &Script, request: Invocation<'_>, out: &mut Vec<u8>) {
        let profile = request.host.profile();
        match script.kind() {
            ScriptKind::Eval => self.eval(profile).run(script, request, out),
            ScriptKind::Function => self.functions(profile).run(script, request, out),
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

    pub(super) fn stats(&self) -> ScriptStats {
        let mut stats = ScriptStats::default();
        if let Some(eval) = &self.eval {
            stats.eval_memory = eval.used();
            (stats.scripts, stats.script_text) = eval.counts();
        }
        if let Some(functions) = &self.functions {
            stats.function_memory = functions.used();
            (stats.libraries, stats.functions, stats.library_text) = functions.counts();
        }
        stats
    }
}
