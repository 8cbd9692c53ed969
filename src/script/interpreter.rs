//! The interpreter for EVAL and its kin, and the scripts that it knows.

use std::collections::HashMap;
use std::ffi::CStr;

use foldhash::fast::FixedState;

use super::Kind;
use super::lua::{Kept, Raised};
use super::machine::{Machine, Name, Request, Script, Sha, push_words};
use super::shebang;
use crate::base::error::CommandError;
use crate::base::profile::Profile;

pub struct Interpreter {
    machine: Machine,
    scripts: HashMap<Sha, Script, FixedState>,
    /// The table of the real globals.
    globals: Kept,
    /// Bytes of source text of all scripts.
    source_bytes: usize,
}

/// What scripts are called in messages.
const NAME: &CStr = c"@user_script";

impl Interpreter {
    pub fn new(profile: &Profile) -> Self {
        let mut machine = Machine::new(Kind::Eval, profile);
        let globals = machine.lua.frame().keep();
        Self { machine, scripts: HashMap::default(), globals, source_bytes: 0 }
    }

    /// Bytes that Lua uses.
    pub fn used(&self) -> usize {
        self.machine.lua.used()
    }

    /// How many scripts are known, and the bytes of their text.
    pub fn known(&self) -> (usize, usize) {
        (self.scripts.len(), self.source_bytes)
    }

    /// A script by the name that a client gives, in whatever case.
    pub fn find(&self, name: &[u8]) -> Option<&Script> {
        let mut sha = Sha::try_from(name).ok()?;
        sha.make_ascii_lowercase();
        self.scripts.get(&sha)
    }

    /// Compiles a script, unless it is known.
    pub fn load(&mut self, source: &[u8]) -> Result<&Script, CommandError> {
        let sha = sha_of(source);
        if !self.scripts.contains_key(&sha) {
            let script = self.compile(sha, source)?;
            self.scripts.insert(sha, script);
            self.source_bytes += source.len();
        }
        self.scripts.get(&sha).ok_or(CommandError::NO_SCRIPT)
    }

    fn compile(&mut self, sha: Sha, source: &[u8]) -> Result<Script, CommandError> {
        let (flags, text) = shebang::split(source)?;
        let loaded = self.machine.lua.load(text, NAME);
        let mut frame = self.machine.lua.frame();
        let result = match loaded {
            Ok(()) => Ok(Script { name: Name::Script(sha), flags, function: frame.keep() }),
            Err(Raised) => {
                let message = frame.to_bytes(-1).unwrap_or_default();
                Err(CommandError::quoting("ERR Error compiling script (new function): ", message, ""))
            }
        };
        frame.set_top(0);
        self.machine.tidy();
        result
    }

    /// Runs a script, and appends what it returns, or its error.
    pub(super) fn run(&mut self, script: &Script, request: Request<'_>, out: &mut Vec<u8>) {
        let mut frame = self.machine.begin();
        frame.push_kept(self.globals);
        push_words(&mut frame, request.keys);
        frame.raw_set_field(-2, "KEYS");
        push_words(&mut frame, request.arguments);
        frame.raw_set_field(-2, "ARGV");
        frame.pop(1);
        frame.push_kept(script.function);
        self.machine.run(0, script, request, out);
    }
}

pub fn sha_of(source: &[u8]) -> Sha {
    let mut sha = [0; 40];
    let hex = sha1_smol::Sha1::from(source).digest().to_string();
    sha.copy_from_slice(hex.as_bytes());
    sha
}
