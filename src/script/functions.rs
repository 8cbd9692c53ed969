//! The interpreter for functions, with the loaded libraries.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::ffi::CStr;
use std::time::Duration;

use super::compiled::{Script, ScriptKind};
use super::host::{Host, Invocation, ScratchBuffers};
use super::lua::{Frame, LuaError, LuaType, RegistryRef};
use super::random::Random;
use super::register::{BAD_NAME, Function, JUDGED_LATER, Registered, judge_all};
use super::sandbox;
use super::shebang::{self, LibraryHeader, is_name};
use super::vm::{MEMORY_LIMIT, Vm, push_words};
use crate::base::clock::Stopwatch;
use crate::base::error::CommandError;
use crate::base::log::{Level, Log};
use crate::base::profile::Profile;
use crate::protocol::{Protocol, Words};

const NONE_REGISTERED: CommandError = CommandError::fixed("ERR No functions registered");
const NO_MEMORY: CommandError = CommandError::fixed("ERR Error compiling function: not enough memory");
const NOT_WHILE_LOADING: CommandError = CommandError::fixed("ERR libraries cannot run commands while they are loaded");

/// The time that the code of a library may run when it is loaded.
const LOAD_TIMEOUT: Duration = Duration::from_millis(500);

/// The chunk name of libraries in error messages.
const NAME: &CStr = c"@user_function";

#[derive(Debug)]
pub struct Library {
    pub name: Vec<u8>,
    /// The source text, with its shebang.
    pub source: Vec<u8>,
    pub functions: Vec<Function>,
}

/// What FUNCTION RESTORE does about libraries that exist already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestorePolicy {
    /// Delete all existing libraries.
    Flush,
    /// Keep the existing libraries; fail if one has the same name.
    Append,
    /// Replace libraries of the same name.
    Replace,
}

pub struct FunctionInterpreter {
    vm: Vm,
    /// See [`sandbox::make_globals_switchable`].
    globals_metatable: RegistryRef,
    loading_globals: RegistryRef,
    running_globals: RegistryRef,
    libraries: Libraries,
}

/// The libraries, and an index of their functions.
#[derive(Default)]
struct Libraries {
    libraries: BTreeMap<Vec<u8>, Library>,
    /// By name, in lower case.
    functions: HashMap<Vec<u8>, Script>,
    /// Bytes of the source text of all libraries.
    source_bytes: usize,
}

impl Libraries {
    fn has_function(&self, name: &[u8]) -> bool {
        self.functions.contains_key(&name.to_ascii_lowercase())
    }

    fn add(&mut self, library: Library) {
        for Function { script, .. } in &library.functions {
            self.functions.insert(script.name().to_ascii_lowercase(), script.clone());
        }
        self.source_bytes += library.source.len();
        self.libraries.insert(library.name.clone(), library);
    }

    fn take(&mut self, name: &[u8]) -> Option<Library> {
        let library = self.libraries.remove(name)?;
        for function in &library.functions {
            self.functions.remove(&function.name().to_ascii_lowercase());
        }
        self.source_bytes -= library.source.len();
        Some(library)
    }

    /// The first function of a library whose name another library has registered.
    fn collision<'l>(&self, library: &'l Library) -> Option<&'l [u8]> {
        library.functions.iter().map(Function::name).find(|name| self.has_function(name))
    }
}

impl FunctionInterpreter {
    pub fn new(profile: &Profile) -> Self {
        let mut vm = Vm::new(ScriptKind::Function, profile);
        vm.lua.frame().set_top(0);
        sandbox::make_globals_switchable(&mut vm.lua, profile);
        let mut frame = vm.lua.frame();
        let (running_globals, loading_globals, globals_metatable) =
            (frame.create_ref(), frame.create_ref(), frame.create_ref());
        Self { vm, globals_metatable, loading_globals, running_globals, libraries: Libraries::default() }
    }

    /// Bytes that Lua uses.
    pub fn used(&self) -> usize {
        self.vm.lua.used()
    }

    /// The number of libraries and of functions, and the bytes of the libraries' source text.
    pub fn counts(&self) -> (usize, usize, usize) {
        (self.libraries.libraries.len(), self.libraries.functions.len(), self.libraries.source_bytes)
    }

    /// A function by its name, in any case.
    pub fn find(&self, name: &[u8]) -> Option<&Script> {
        self.libraries.functions.get(&name.to_ascii_lowercase())
    }

    /// All libraries, by name.
    pub fn libraries(&self) -> impl Iterator<Item = &Library> {
        self.libraries.libraries.values()
    }

    /// Loads a library, and returns its name. Nothing changes if that fails.
    pub fn load(
        &mut self,
        source: &[u8],
        replace: bool,
        log: &Log,
        profile: &Profile,
    ) -> Result<Vec<u8>, CommandError> {
        let mut libraries = std::mem::take(&mut self.libraries);
        let result = self.load_to(&mut libraries, source, replace, log, profile);
        self.libraries = libraries;
        result
    }

    fn load_to(
        &mut self,
        libraries: &mut Libraries,
        source: &[u8],
        replace: bool,
        log: &Log,
        profile: &Profile,
    ) -> Result<Vec<u8>, CommandError> {
        let LibraryHeader { engine, name, code } = shebang::heading(source)?;
        if !is_name(&name) {
            return Err(CommandError::fixed(BAD_NAME));
        }
        if !engine.eq_ignore_ascii_case(b"lua") {
            return Err(CommandError::quoting("ERR Engine '", &engine, "' not found"));
        }
        if !replace && libraries.libraries.contains_key(&name) {
            return Err(CommandError::quoting("ERR Library '", &name, "' already exists"));
        }
        if self.used() + libraries.source_bytes + source.len() > MEMORY_LIMIT {
            return Err(NO_MEMORY);
        }
        let functions = self.register(code, log, profile)?;
        if functions.is_empty() {
            return Err(NONE_REGISTERED);
        }
        let library = Library { name: name.clone(), source: source.to_vec(), functions };
        let old = libraries.take(&name);
        if let Some(function) = libraries.collision(&library) {
            let error = CommandError::quoting("ERR Function ", function, " already exists");
            self.free(library.functions);
            old.into_iter().for_each(|old| libraries.add(old));
            return Err(error);
        }
        self.free(old.into_iter().flat_map(|old| old.functions));
        libraries.add(library);
        Ok(name)
    }

    /// Runs the code of a library, and returns the functions that it registers.
    fn register(&mut self, code: &[u8], log: &Log, profile: &Profile) -> Result<Vec<Function>, CommandError> {
        let loading = Loading {
            since: Stopwatch::start(),
            log,
            profile,
            scratch: RefCell::default(),
            random: Random::default(),
            registered: RefCell::default(),
        };
        self.use_globals(self.loading_globals);
        let frame = self.vm.lua.frame();
        frame.push_native(|_| Ok(1));
        let result = match self.vm.lua.load(code, NAME) {
            Ok(()) => self.vm.lua.call(Some(&loading), 0, Some(0)).map_err(|LuaError| {
                let message = message(&mut self.vm.lua.frame());
                CommandError::quoting("ERR Error registering functions: ", &message, "")
            }),
            Err(LuaError) => {
                let frame = self.vm.lua.frame();
                let message = frame.to_bytes(-1).unwrap_or_default();
                Err(CommandError::quoting("ERR Error compiling function: ", message, ""))
            }
        };
        self.vm.recover();
        self.use_globals(self.running_globals);
        let functions = loading.registered.into_inner().into_functions();
        let judged = if profile.has(JUDGED_LATER) { judge_all(&functions) } else { Ok(()) };
        match result.and(judged.map_err(CommandError::fixed)) {
            Ok(()) => Ok(functions),
            Err(error) => {
                self.free(functions);
                Err(error)
            }
        }
    }

    /// Sets the table in which global names are looked up.
    fn use_globals(&mut self, globals: RegistryRef) {
        let mut frame = self.vm.lua.frame();
        frame.set_top(0);
        frame.push_ref(self.globals_metatable);
        frame.push_ref(globals);
        frame.raw_set_field(1, "__index");
        frame.set_top(0);
    }

    /// Frees the Lua functions of a deleted library.
    fn free(&mut self, functions: impl IntoIterator<Item = Function>) {
        let mut frame = self.vm.lua.frame();
        for function in functions {
            frame.free_ref(function.script.function);
        }
    }

    /// Deletes a library. Returns whether it existed.
    pub fn delete(&mut self, name: &[u8]) -> bool {
        let Some(library) = self.libraries.take(name) else { return false };
        self.free(library.functions);
        true
    }

    /// Loads several libraries, all or none.
    pub fn restore<S: AsRef<[u8]>>(
        &mut self,
        sources: impl Iterator<Item = Result<S, CommandError>>,
        conflict: RestorePolicy,
        log: &Log,
        profile: &Profile,
    ) -> Result<(), CommandError> {
        let mut restored = Libraries::default();
        let loaded =
            self.load_all(&mut restored, sources, log, profile).and_then(|()| self.make_room(&restored, conflict));
        match loaded {
            Ok(replaced) => {
                self.free(replaced.into_iter().flat_map(|library| library.functions));
                restored.libraries.into_values().for_each(|library| self.libraries.add(library));
                Ok(())
            }
            Err(error) => {
                self.free(restored.libraries.into_values().flat_map(|library| library.functions));
                Err(error)
            }
        }
    }

    fn load_all<S: AsRef<[u8]>>(
        &mut self,
        libraries: &mut Libraries,
        sources: impl Iterator<Item = Result<S, CommandError>>,
        log: &Log,
        profile: &Profile,
    ) -> Result<(), CommandError> {
        for source in sources {
            self.load_to(libraries, source?.as_ref(), false, log, profile)?;
        }
        Ok(())
    }

    /// Removes the libraries that the policy replaces, and returns them.
    fn make_room(&mut self, restored: &Libraries, conflict: RestorePolicy) -> Result<Vec<Library>, CommandError> {
        if conflict == RestorePolicy::Flush {
            return Ok(std::mem::take(&mut self.libraries).libraries.into_values().collect());
        }
        if conflict == RestorePolicy::Append
            && let Some(name) = restored.libraries.keys().find(|name| self.libraries.libraries.contains_key(*name))
        {
            return Err(CommandError::quoting("ERR Library ", name, " already exists"));
        }
        let replaced: Vec<_> = restored.libraries.keys().filter_map(|name| self.libraries.take(name)).collect();
        let Some(name) = restored.libraries.values().find_map(|library| self.libraries.collision(library)) else {
            return Ok(replaced);
        };
        replaced.into_iter().for_each(|library| self.libraries.add(library));
        Err(CommandError::quoting("ERR Function ", name, " already exists"))
    }

    /// Calls a function, and appends its reply or its error.
    pub(super) fn run(&mut self, script: &Script, invocation: Invocation<'_>, out: &mut Vec<u8>) {
        let mut frame = self.vm.begin();
        frame.push_ref(script.function);
        push_words(&mut frame, invocation.keys);
        push_words(&mut frame, invocation.arguments);
        self.vm.run(2, script, invocation, out);
    }
}

/// The message of the error value on top of the stack.
fn message(frame: &mut Frame<'_>) -> Vec<u8> {
    const ABSENT: &[u8] = b"(null)";
    match frame.kind(-1) {
        LuaType::String | LuaType::Number => [b"ERR ", frame.to_bytes(-1).unwrap_or_default()].concat(),
        LuaType::Table => {
            frame.raw_get_field(-1, "err");
            frame.to_bytes(-1).unwrap_or(ABSENT).to_vec()
        }
        _ => ABSENT.to_vec(),
    }
}

/// The host while a library loads. The library can log and register functions, but run no commands.
struct Loading<'l> {
    since: Stopwatch,
    log: &'l Log,
    profile: &'l Profile,
    scratch: RefCell<ScratchBuffers>,
    random: Random,
    registered: RefCell<Registered>,
}

impl Host for Loading<'_> {
    fn tick(&self) -> Result<(), &'static str> {
        if self.since.elapsed() > LOAD_TIMEOUT { Err("ERR FUNCTION LOAD timeout") } else { Ok(()) }
    }

    fn call(&self, _: Words<'_>, _: &mut Vec<u8>) -> Result<(), CommandError> {
        Err(NOT_WHILE_LOADING)
    }

    fn protocol(&self) -> Protocol {
        Protocol::Resp2
    }

    fn set_protocol(&self, _: Protocol) {}

    fn may_run(&self, _: Words<'_>) -> Option<bool> {
        None
    }

    fn log(&self, level: Level, text: &str) {
        self.log.write(level, text);
    }

    fn profile(&self) -> &Profile {
        self.profile
    }

    fn scratch(&self) -> &RefCell<ScratchBuffers> {
        &self.scratch
    }

    fn random(&self) -> &Random {
        &self.random
    }

    fn registered(&self) -> Option<&RefCell<Registered>> {
        Some(&self.registered)
    }
}
