//! Symbolic execution: runs a script without the data that it works on, and finds the runs that end with a given reply.
//!
//! Commands get made-up replies (a [`World`] knows which are possible), some of them unknown values. A run forks where the script
//! looks at something unknown; all branches are tried. What the consistent runs have in common has happened on the server.
//!
//! No run is left out silently: where the script would need to know what is not known, the result is [`Undecided`].

mod hypotheses;
mod matching;
mod rewrite;
mod values;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ffi::CStr;

use foldhash::fast::FixedState;

use super::compiled::{Script, ScriptKind, ScriptName, Sha};
use super::eval::sha_of;
use super::host::{Invocation, ScratchBuffers};
use super::lua::RegistryRef;
use super::random::Random;
use super::shebang;
use super::vm::{Vm, push_words};
use crate::base::profile::Profile;
use crate::protocol::{OwnedWords, Protocol, Words};
pub(super) use hypotheses::Hypotheses;
use hypotheses::{Abort, Run, Unknown};
pub use hypotheses::{Answer, Call, Choices, UnknownId, Word, World};

/// The most bytes that Lua may use.
const MEMORY: usize = 64 << 20;
/// How many compiled scripts are kept, and the largest text that is rewritten.
const MOST_SCRIPTS: usize = 500;
const MOST_SOURCE: usize = 256 << 10;

const LIBRARY: &[u8] = include_bytes!("library.lua");

/// A script that ran somewhere else.
#[derive(Clone, Copy)]
pub struct ObservedRun<'r> {
    /// The text of the script, or of the library of the function.
    pub source: &'r [u8],
    /// The name of the function, if FCALL ran it.
    pub function: Option<&'r [u8]>,
    pub keys: Words<'r>,
    pub arguments: Words<'r>,
    /// The whole reply, and its protocol.
    pub reply: &'r [u8],
    pub protocol: Protocol,
    /// The commands that it called, if they are known.
    pub calls: Option<&'r [OwnedWords]>,
}

/// Not all runs that can have led to the reply could be tried.
#[derive(Debug, PartialEq, Eq)]
pub struct Undecided;

/// A run that ends with the reply: the commands that it called. What the reply tells of unknown values is filled in.
pub type ConsistentRun = Vec<Call>;

/// A Lua state in which scripts run with unknown values.
pub struct SymbolicInterpreter {
    vm: Vm,
    profile: Profile,
    globals: RegistryRef,
    /// The rewritten scripts; `None` for one that is no Lua.
    scripts: HashMap<Sha, Option<Script>, FixedState>,
    scratch: ScratchBuffers,
}

impl SymbolicInterpreter {
    pub fn new(profile: &Profile) -> Self {
        let mut vm = Vm::with_limit(ScriptKind::Eval, profile, MEMORY);
        let globals = vm.lua.frame().create_ref();
        let mut interpreter =
            Self { vm, profile: *profile, globals, scripts: HashMap::default(), scratch: ScratchBuffers::default() };
        interpreter.install();
        interpreter
    }

    /// Runs the chunk that changes the libraries.
    fn install(&mut self) {
        self.vm.begin();
        let loaded = self.vm.lua.load(LIBRARY, c"=library");
        debug_assert!(loaded.is_ok(), "library.lua does not compile");
        let mut frame = self.vm.lua.frame();
        frame.push_ref(self.globals);
        frame.push_table(0, 32);
        frame.set_natives(values::NATIVES);
        frame.push_table(0, 8);
        frame.set_natives(values::OPERATORS);
        frame.raw_set_field(-2, "operators");
        frame.push_table(0, 16);
        frame.set_natives(values::METAMETHODS);
        frame.raw_set_field(-2, "metatable");
        let result = self.vm.lua.call(None, 2, Some(1));
        debug_assert!(result.is_ok(), "library.lua fails");
        let mut frame = self.vm.lua.frame();
        if result.is_ok() {
            frame.registry_set(values::METATABLE);
        }
        frame.set_top(0);
    }

    /// Finds the runs of a script that end with the reply that it gave.
    pub fn explore(
        &mut self,
        observed: &ObservedRun<'_>,
        mut world: Box<dyn World>,
        limits: Limits,
    ) -> Result<Vec<ConsistentRun>, Undecided> {
        let script = self.compiled(observed)?;
        world.reset();
        let hypotheses = Hypotheses {
            run: RefCell::new(Run::default()),
            world: RefCell::new(world),
            profile: &self.profile.clone(),
            known_calls: observed.calls,
            may_fail: matching::has_error(observed.reply),
            wanted: observed.function,
            callback: Cell::new(None),
            scratch: RefCell::new(std::mem::take(&mut self.scratch)),
            random: Random::default(),
        };
        let mut found = Vec::new();
        let mut reply = Vec::new();
        for _ in 0..limits.runs {
            reply.clear();
            self.run(&script, observed, &hypotheses, &mut reply);
            match hypotheses.abort() {
                Some(Abort::Undecided) => return Err(Undecided),
                Some(Abort::Excluded) => {}
                None => {
                    if let Some(run) = matching::consistent_run(&hypotheses, &reply, observed) {
                        found.push(run);
                    }
                }
            }
            if !hypotheses.advance() {
                return Ok(found);
            }
        }
        Err(Undecided)
    }

    fn compiled(&mut self, observed: &ObservedRun<'_>) -> Result<Script, Undecided> {
        let sha = sha_of(observed.source);
        if let Some(script) = self.scripts.get(&sha) {
            return script.clone().ok_or(Undecided);
        }
        if self.scripts.len() >= MOST_SCRIPTS {
            for script in std::mem::take(&mut self.scripts).into_values().flatten() {
                self.vm.lua.frame().free_ref(script.function);
            }
        }
        let script = self.compile(sha, observed);
        self.scripts.insert(sha, script.clone());
        script.ok_or(Undecided)
    }

    fn compile(&mut self, sha: Sha, observed: &ObservedRun<'_>) -> Option<Script> {
        /// As in EVAL's interpreter: the name stands in error messages.
        const NAME: &CStr = c"@user_script";
        if observed.source.len() > MOST_SOURCE {
            return None;
        }
        let text = if observed.function.is_some() {
            shebang::heading(observed.source).ok()?.code
        } else {
            shebang::split(observed.source, &self.profile).ok()?.1
        };
        let text = rewrite::rewritten(text)?;
        let loaded = self.vm.lua.load(&text, NAME);
        let mut frame = self.vm.lua.frame();
        let function = loaded.is_ok().then(|| frame.create_ref());
        frame.set_top(0);
        let flags = shebang::ScriptFlags::NO_SHEBANG;
        Some(Script { name: ScriptName::Script(sha), flags, function: function?, slot: None, direct: None })
    }

    fn run(&mut self, script: &Script, observed: &ObservedRun<'_>, hypotheses: &Hypotheses<'_>, out: &mut Vec<u8>) {
        let invocation = Invocation {
            keys: observed.keys,
            arguments: observed.arguments,
            host: hypotheses,
            client: observed.protocol,
        };
        let mut frame = self.vm.begin();
        if observed.function.is_none() {
            frame.push_ref(self.globals);
            push_words(&mut frame, observed.keys);
            frame.raw_set_field(-2, "KEYS");
            push_words(&mut frame, observed.arguments);
            frame.raw_set_field(-2, "ARGV");
            frame.pop(1);
            frame.push_ref(script.function);
            return self.vm.run(0, script, invocation, out);
        }
        // The code of the library registers its functions anew in each run.
        frame.push_ref(script.function);
        let loaded = self.vm.lua.call(Some(hypotheses), 0, Some(0));
        let callback = hypotheses.callback.take();
        let mut frame = self.vm.begin();
        if let (Ok(()), Some(callback)) = (&loaded, callback) {
            frame.push_ref(callback);
            push_words(&mut frame, observed.keys);
            push_words(&mut frame, observed.arguments);
            self.vm.run(2, script, invocation, out);
        } else {
            hypotheses.give_up();
            self.vm.recover();
        }
        if let Some(callback) = callback {
            self.vm.lua.frame().free_ref(callback);
        }
    }
}

/// How much is tried.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The most runs of one script.
    pub runs: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { runs: 2_000 }
    }
}

/// A word or an answer as far as it is known at the end of a run.
fn resolved(run: &Run, id: UnknownId) -> Option<ResolvedValue> {
    match &run.unknowns[id.0] {
        Unknown::Text { value, .. } => value.clone().map(ResolvedValue::Text),
        Unknown::Number { value, .. } => value.map(ResolvedValue::Number),
    }
}

enum ResolvedValue {
    Text(Vec<u8>),
    Number(f64),
}
