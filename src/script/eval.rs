//! The interpreter for EVAL and EVALSHA, with its cache of scripts.

use std::collections::HashMap;
use std::ffi::CStr;
use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::fast::FixedState;

use super::compiled::{Script, ScriptKind, ScriptName, Sha};
use super::direct::DirectScript;
use super::host::Invocation;
use super::lua::{LuaError, RegistryRef};
use super::vm::{Vm, push_words};
use super::{shebang, texts};
use crate::base::error::CommandError;
use crate::base::profile::{Profile, Since, Version};

/// A cached script.
struct CachedScript {
    script: Script,
    source: Box<[u8]>,
}

pub struct EvalInterpreter {
    vm: Vm,
    profile: Profile,
    scripts: HashMap<Sha, CachedScript, FixedState>,
    /// The names of the cached scripts by a hash of their text: SHA-1 of a text takes longer than most scripts run.
    names: HashMap<u64, Sha, FixedState>,
    /// The scripts that only EVAL has brought, if the release evicts those.
    evictable: Option<Evictable>,
    /// The table of the real globals, which scripts see only through a read-only proxy.
    globals: RegistryRef,
    /// Bytes of the source text of all scripts.
    source_bytes: usize,
}

/// The scripts that are evicted when a new one comes, the one first that has not run for the longest time.
#[derive(Default)]
struct Evictable {
    /// Each with the number of the run in which it was last used. A script keeps its slot.
    slots: Vec<(Sha, u64)>,
    runs: u64,
    evicted: usize,
}

/// How many scripts of EVAL are kept.
const MOST_EVICTABLE: usize = 500;

/// The releases that evict scripts.
const EVICTION: Since = Since::each(Version(7, 4, 0), Version(8, 0, 0));

/// The releases in which SCRIPT LOAD protects a script that EVAL has brought.
const PROTECTED_BY_LOAD: Since = Since::valkey(8, 0, 0);

/// Who brings a script.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    Eval,
    ScriptLoad,
}

/// The chunk name of scripts in error messages.
const NAME: &CStr = c"@user_script";

impl EvalInterpreter {
    pub fn new(profile: &Profile) -> Self {
        let mut vm = Vm::new(ScriptKind::Eval, profile);
        let globals = vm.lua.frame().create_ref();
        let evictable = profile.has(EVICTION).then(Evictable::default);
        let (scripts, names) = (HashMap::default(), HashMap::default());
        Self { vm, profile: *profile, scripts, names, evictable, globals, source_bytes: 0 }
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

    /// A cached script by its text.
    pub fn find_text(&self, source: &[u8]) -> Option<&Script> {
        let name = self.names.get(&text_hash(source))?;
        self.scripts.get(name).filter(|cached| *cached.source == *source).map(|cached| &cached.script)
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

    /// The number of scripts that were evicted.
    pub fn evicted(&self) -> usize {
        self.evictable.as_ref().map_or(0, |evictable| evictable.evicted)
    }

    /// Compiles a script, unless it is cached.
    pub fn load(&mut self, source: &[u8], origin: Origin) -> Result<&Script, CommandError> {
        let known = self.find_text(source).and_then(Script::sha);
        let sha = known.unwrap_or_else(|| sha_of(source));
        if !self.scripts.contains_key(&sha) {
            let mut script = self.compile(sha, source)?;
            self.names.insert(text_hash(source), sha);
            if origin == Origin::Eval {
                script.slot = self.take_slot(sha);
            }
            self.scripts.insert(sha, CachedScript { script, source: source.into() });
            self.source_bytes += source.len();
        } else if origin == Origin::ScriptLoad && self.profile.has(PROTECTED_BY_LOAD) {
            self.protect(sha);
        }
        self.scripts.get(&sha).map(|cached| &cached.script).ok_or_else(|| texts::no_script(&self.profile))
    }

    /// A slot for a new script, that of an evicted one if all are taken. `None` if scripts are not evicted.
    fn take_slot(&mut self, sha: Sha) -> Option<u16> {
        let evictable = self.evictable.as_mut()?;
        evictable.runs += 1;
        let newest = (sha, evictable.runs);
        if evictable.slots.len() < MOST_EVICTABLE {
            evictable.slots.push(newest);
            return u16::try_from(evictable.slots.len() - 1).ok();
        }
        let slot = evictable.slots.iter().enumerate().min_by_key(|(_, (_, run))| *run).map(|(slot, _)| slot)?;
        let (oldest, _) = std::mem::replace(&mut evictable.slots[slot], newest);
        evictable.evicted += 1;
        if let Some(CachedScript { script, source }) = self.scripts.remove(&oldest) {
            self.source_bytes -= source.len();
            self.names.remove(&text_hash(&source));
            self.vm.lua.frame().free_ref(script.function);
        }
        u16::try_from(slot).ok()
    }

    /// Takes a script out of those that are evicted.
    fn protect(&mut self, sha: Sha) {
        let Some(slot) = self.scripts.get_mut(&sha).and_then(|cached| cached.script.slot.take()) else { return };
        let Some(evictable) = &mut self.evictable else { return };
        let slot = usize::from(slot);
        if slot < evictable.slots.len() {
            evictable.slots.swap_remove(slot);
        }
        // The last one has moved into the free slot.
        if let Some((moved, _)) = evictable.slots.get(slot)
            && let Some(cached) = self.scripts.get_mut(moved)
        {
            cached.script.slot = u16::try_from(slot).ok();
        }
    }

    fn compile(&mut self, sha: Sha, source: &[u8]) -> Result<Script, CommandError> {
        let (flags, text) = shebang::split(source, &self.profile)?;
        let loaded = self.vm.lua.load(text, NAME);
        let mut frame = self.vm.lua.frame();
        let result = match loaded {
            Ok(()) => {
                let direct = DirectScript::parse(text).map(Arc::new);
                Ok(Script { name: ScriptName::Script(sha), flags, function: frame.create_ref(), slot: None, direct })
            }
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
        if let Some(slot) = script.slot
            && let Some(evictable) = &mut self.evictable
            && let Some((_, run)) = evictable.slots.get_mut(usize::from(slot))
        {
            evictable.runs += 1;
            *run = evictable.runs;
        }
        if let Some(direct) = &script.direct {
            direct.run(script.name(), invocation, &mut self.vm.lua.frame(), out);
            return self.vm.collect_if_large();
        }
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

fn text_hash(source: &[u8]) -> u64 {
    FixedState::default().hash_one(source)
}

pub fn sha_of(source: &[u8]) -> Sha {
    let mut sha = [0; 40];
    let hex = sha1_smol::Sha1::from(source).digest().to_string();
    sha.copy_from_slice(hex.as_bytes());
    sha
}
