//! The interpreter for EVAL and EVALSHA, with its cache of scripts.

use std::collections::HashMap;
use std::ffi::CStr;

use foldhash::fast::FixedState;

use super::compiled::{Script, ScriptKind, ScriptName, Sha};
use super::host::Invocation;
use super::lua::{LuaError, RegistryRef};
use super::vm::{Vm, push_words};
use super::{shebang, texts};
use crate::base::error::CommandError;
use crate::base::profile::Profile;

/// A cached script.
struct CachedScript {
    script: Script,
    source: Box<[u8]>,
}

pub struct EvalInterpreter {
    vm: Vm,
    profile: Profile,
    scripts: HashMap<Sha, CachedScript, FixedState>,
    /// The table of the real globals, which scripts see only through a read-only proxy.
    globals: RegistryRef,
    /// Bytes of the source text of all scripts.
    source_bytes: usize,
}

/// The chunk name of scripts in error messages.
const NAME: &CStr = c"@user_script";

impl EvalInterpreter {
    pub fn new(profile: &Profile) -> Self {
        let mut vm = Vm::new(ScriptKind::Eval, profile);
        let globals = vm.lua.frame().create_ref();
        Self { vm, profile: *profile, scripts: HashMap::default(), globals, source_bytes: 0 }
    }

    /// Bytes that Lua uses.
    pub fn used(&self) -> usize {
        self.vm.lua.used()
    }

    /// The number of cached scripts, and the bytes of their source text.
    pub fn counts(&self) -> (usize, usize) {
        (self.scripts.len(), self.source_bytes)
    }

    /// A cached script by its SHA-1, in any case.
    pub fn find(&self, name: &[u8]) -> Option<&Script> {
        self.find_cached(name).map(|cached| &cached.script)
    }

    /// The source text of a cached script, by its SHA-1 in any case.
    pub fn source(&self, name: &[u8]) -> Option<&[u8]> {
        self.find_cached(name).map(|cached| &*cached.source)
    }

    fn find_cached(&self, name: &[u8]) -> Option<&CachedScript> {
        let mut sha = Sha::try_from(name).ok()?;
        sha.make_ascii_lowercase();
        self.scripts.get(&sha)
    }

    /// Compiles a script, unless it is cached.
    pub fn load(&mut self, source: &[u8]) -> Result<&Script, CommandError> {
        let sha = sha_of(source);
        if !self.scripts.contains_key(&sha) {
            let script = self.compile(sha, source)?;
            self.scripts.insert(sha, CachedScript { script, source: source.into() });
            self.source_bytes += source.len();
        }
        self.scripts.get(&sha).map(|cached| &cached.script).ok_or_else(|| texts::no_script(&self.profile))
    }

    fn compile(&mut self, sha: Sha, source: &[u8]) -> Result<Script, CommandError> {
        let (flags, text) = shebang::split(source, &self.profile)?;
        let loaded = self.vm.lua.load(text, NAME);
        let mut frame = self.vm.lua.frame();
        let result = match loaded {
            Ok(()) => Ok(Script { name: ScriptName::Script(sha), flags, function: frame.create_ref() }),
            Err(LuaError) => {
                let message = frame.to_bytes(-1).unwrap_or_default();
                Err(CommandError::quoting("ERR Error compiling script (new function): ", message, ""))
            }
        };
        frame.set_top(0);
        self.vm.collect_if_large();
        result
    }

    /// Runs a script, and appends its reply or its error.
    pub(super) fn run(&mut self, script: &Script, invocation: Invocation<'_>, out: &mut Vec<u8>) {
        let mut frame = self.vm.begin();
        frame.push_ref(self.globals);
        push_words(&mut frame, invocation.keys);
        frame.raw_set_field(-2, "KEYS");
        push_words(&mut frame, invocation.arguments);
        frame.raw_set_field(-2, "ARGV");
        frame.pop(1);
        frame.push_ref(script.function);
        self.vm.run(0, script, invocation, out);
    }
}

pub fn sha_of(source: &[u8]) -> Sha {
    let mut sha = [0; 40];
    let hex = sha1_smol::Sha1::from(source).digest().to_string();
    sha.copy_from_slice(hex.as_bytes());
    sha
}
