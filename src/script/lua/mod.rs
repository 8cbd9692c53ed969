//! A safe interface to Lua 5.1's C API. No other module calls the C API.
//!
//! Why it is sound:
//! - Lua raises errors with `longjmp`, which must not skip Rust frames that have something to drop. So Rust code never
//!   raises: a [`NativeFn`] returns [`LuaError`], and only [`trampoline`] raises, after everything is dropped. Nothing
//!   that [`Frame`] calls raises by itself: it runs no metamethods, checks types, indices and stack space first, and
//!   memory does not run out while Rust code runs (see [`Memory`]).
//! - Strings borrowed from a [`Frame`] are on Lua's stack, which keeps them alive. Removing values from the stack needs
//!   `&mut Frame`, which ends the borrow first.

#![allow(unsafe_code)]

mod frame;

use std::alloc::{Layout, handle_alloc_error};
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::{self, NonNull};

use mlua_sys as ffi;

use super::host::Host;
use super::tokens::without_nested_brackets;

pub use frame::{Frame, LuaType, RegistryRef};

/// A Rust function that scripts can call. Its arguments are on the stack from index 1 on. It leaves its results on top
/// of the stack, and returns their number.
pub type NativeFn = fn(&mut Frame<'_>) -> Result<usize, LuaError>;

/// A Lua error: the error value is on top of the stack, and must still be raised.
#[derive(Debug)]
pub struct LuaError;

/// A Lua state.
pub struct Lua {
    raw: NonNull<ffi::lua_State>,
    shared: Box<Shared>,
}

/// The state that the C callbacks use; Lua passes them its address.
struct Shared {
    memory: Memory,
    /// The host of the running script.
    host: Cell<Option<NonNull<dyn Host>>>,
    /// How often scripts have called their host.
    calls: Cell<u32>,
    /// A panic that was caught below Lua and resumes above it.
    panic: RefCell<Option<Box<dyn Any + Send>>>,
}

/// Counts Lua's allocations. The limit holds only while Lua's own code runs: refused memory raises an error, which must
/// not happen below Rust code.
struct Memory {
    /// Allocated since the last tick, for large blocks.
    rushed: Cell<usize>,
    /// The main state, and the number of instructions between two ticks.
    ticking: Cell<Option<(NonNull<ffi::lua_State>, c_int)>>,
    used: Cell<usize>,
    limit: usize,
    limited: Cell<bool>,
}

/// The memory in use, in percent of what lived after the last collection, that starts the next one. The libraries take some 36 KB.
/// Marking them more often would cost scripts more than they allocate; less often, `used_memory_lua` would grow beyond what
/// tests of servers expect, 100 KB.
const PAUSE: c_int = 260;
/// The alignment of `max_align_t`, the largest that Lua needs.
const ALIGNMENT: usize = 16;

/// A block that is large enough to be counted for the next tick, and the bytes that bring it about.
const LARGE_BLOCK: usize = 1 << 16;
const RUSH: usize = 32 << 20;

impl Memory {
    /// Notes that a large block was asked for. To fill it takes a single instruction, but a long time, so a few of them bring
    /// the next tick forward.
    fn note_large(&self, bytes: usize) {
        let rushed = self.rushed.get().saturating_add(bytes);
        self.rushed.set(rushed);
        if let Some((main, _)) = self.ticking.get().filter(|_| rushed > RUSH) {
            // SAFETY: the state lives as long as its allocator is called. Lua means this function to be called at any time,
            // even by signal handlers: it sets numbers.
            unsafe { ffi::lua_sethook(main.as_ptr(), Some(hook), ffi::LUA_MASKCOUNT, 1) };
        }
    }

    /// Runs Rust code that Lua code has called, without the limit.
    fn without_limit<R>(&self, run: impl FnOnce() -> R) -> R {
        let before = self.limited.replace(false);
        let result = run();
        self.limited.set(before);
        result
    }
}

// SAFETY: an interpreter is used through `&mut Lua` alone, by one thread at a time, and Lua keeps no state outside of
// what it allocated; `host` is set only while a call runs, and `panic` holds what is `Send`.
unsafe impl Send for Lua {}

impl Lua {
    /// A Lua state without libraries, which may use `limit` bytes.
    pub fn new(limit: usize) -> Self {
        let (used, rushed, ticking) = (Cell::new(0), Cell::new(0), Cell::new(None));
        let memory = Memory { rushed, ticking, used, limit, limited: Cell::new(false) };
        let shared = Box::new(Shared { memory, host: Cell::new(None), calls: Cell::new(0), panic: RefCell::new(None) });
        // SAFETY: `allocate` is an allocator as Lua wants it, and the box outlives the state.
        let raw = unsafe { ffi::lua_newstate(allocate, ptr::from_ref(&*shared).cast_mut().cast()) };
        // Without a limit `allocate` never returns null, so neither does `lua_newstate`.
        let raw = NonNull::new(raw).unwrap_or_else(|| handle_alloc_error(Layout::new::<Shared>()));
        // SAFETY: only sets a number.
        unsafe { ffi::lua_gc(raw.as_ptr(), ffi::LUA_GCSETPAUSE, PAUSE) };
        Self { raw, shared }
    }

    /// The stack of the main state, while no script runs.
    pub fn frame(&mut self) -> Frame<'_> {
        Frame::new(self.raw)
    }

    /// Bytes in use.
    pub fn used(&self) -> usize {
        self.shared.memory.used.get()
    }

    /// Runs the function below its `arguments` on the stack, and replaces them by `results` values (or by all results).
    /// The error handler lies below the function. If the call fails, the handler's result is left on the stack.
    pub fn call(&mut self, host: Option<&dyn Host>, arguments: usize, results: Option<usize>) -> Result<(), LuaError> {
        let top = self.frame().top();
        assert!(top >= arguments as i32 + 2, "no function to call");
        let handler = top - arguments as i32 - 1;
        // The pointer loses its lifetime, but is removed before the borrow ends.
        let host: Option<NonNull<dyn Host + '_>> = host.map(NonNull::from);
        // SAFETY: only the lifetime changes; see above.
        let host: Option<NonNull<dyn Host>> = unsafe { std::mem::transmute(host) };
        let outer = self.shared.host.replace(host);
        self.shared.memory.limited.set(true);
        // SAFETY: function, arguments and handler are on the stack. Errors are caught.
        let status = unsafe {
            let results = results.map_or(ffi::LUA_MULTRET, |results| results as c_int);
            ffi::lua_pcall(self.raw.as_ptr(), arguments as c_int, results, handler)
        };
        self.shared.memory.limited.set(false);
        self.shared.host.set(outer);
        let panic = self.shared.panic.borrow_mut().take();
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
        if status == ffi::LUA_OK { Ok(()) } else { Err(LuaError) }
    }

    /// Compiles source text to a function on top of the stack, or leaves an error message there. Compiled code is
    /// refused, because Lua would run it unchecked.
    pub fn load(&mut self, source: &[u8], name: &CStr) -> Result<(), LuaError> {
        // Lua makes a string of the name, but does not keep it alive while it parses. This copy on the stack does.
        self.frame().push_bytes(name.to_bytes());
        self.frame().ensure_stack(1);
        self.shared.memory.limited.set(true);
        let source = without_nested_brackets(source);
        // SAFETY: Errors are caught within, and the text is only read. `load_text` sees to it that it is text.
        let status = unsafe { load_text(self.raw.as_ptr(), &source, name.as_ptr()) };
        self.shared.memory.limited.set(false);
        self.frame().remove(-2);
        if status == ffi::LUA_OK { Ok(()) } else { Err(LuaError) }
    }

    /// Opens the standard libraries as globals: the base library with `coroutine`, `table`, `string`, `math`, `os` and
    /// `debug`. The sandbox must restrict the last two.
    pub fn open_libraries(&mut self) {
        let libraries: [(ffi::lua_CFunction, &CStr); 6] = [
            (ffi::luaopen_base, c""),
            (ffi::luaopen_table, c"table"),
            (ffi::luaopen_string, c"string"),
            (ffi::luaopen_math, c"math"),
            (ffi::luaopen_os, c"os"),
            (ffi::luaopen_debug, c"debug"),
        ];
        for (open, name) in libraries {
            self.frame().ensure_stack(2);
            // SAFETY: this is how these functions are meant to be called; errors are caught, and there is room.
            unsafe {
                ffi::lua_pushcclosure(self.raw.as_ptr(), open, 0);
                ffi::lua_pushlstring(self.raw.as_ptr(), name.as_ptr(), name.count_bytes());
                ffi::lua_pcall(self.raw.as_ptr(), 1, 0, 0);
            }
        }
    }

    /// Sets the number of instructions between two calls of [`Host::tick`]; 0 turns the hook off.
    pub fn tick_every(&mut self, instructions: u32) {
        let instructions = c_int::try_from(instructions).unwrap_or(c_int::MAX);
        let mask = if instructions == 0 { 0 } else { ffi::LUA_MASKCOUNT };
        self.shared.memory.rushed.set(0);
        self.shared.memory.ticking.set((instructions > 0).then_some((self.raw, instructions)));
        // SAFETY: `hook` is a hook as Lua wants it.
        unsafe { ffi::lua_sethook(self.raw.as_ptr(), Some(hook), mask, instructions) };
    }

    /// Runs a full garbage collection.
    pub fn collect(&mut self) {
        // SAFETY: scripts cannot set finalisers (only userdata have them), so this runs no Lua code and raises nothing.
        unsafe { ffi::lua_gc(self.raw.as_ptr(), ffi::LUA_GCCOLLECT, 0) };
    }
}

impl Drop for Lua {
    fn drop(&mut self) {
        // SAFETY: nobody has the state any more, and `shared` still lives.
        unsafe { ffi::lua_close(self.raw.as_ptr()) };
    }
}

// ---- callbacks of Lua

/// # Safety
/// `raw` must be a state that [`Lua::new`] has made, or one of its coroutines.
unsafe fn shared<'s>(raw: *mut ffi::lua_State) -> &'s Shared {
    // SAFETY: the allocator was given the address of the `Shared`, which is only ever borrowed, never moved.
    unsafe {
        let mut data = ptr::null_mut();
        ffi::lua_getallocf(raw, &mut data);
        &*data.cast::<Shared>()
    }
}

/// Calls the [`NativeFn`] in its upvalue, and raises the error that it returns.
unsafe extern "C-unwind" fn trampoline(raw: *mut ffi::lua_State) -> c_int {
    // SAFETY: `push_native` has put a `NativeFn` into the upvalue. At `lua_error`, which does not come back, nothing is
    // left here to drop.
    unsafe {
        let native = ffi::lua_touserdata(raw, ffi::lua_upvalueindex(1));
        let native: NativeFn = std::mem::transmute(native);
        match shared(raw).memory.without_limit(|| run_native(raw, native)) {
            Some(results) => results,
            None => ffi::lua_error(raw),
        }
    }
}

/// Runs a native function, and returns the number of its results; `None` if it left an error on the stack.
///
/// # Safety
/// `raw` must be a state that runs a native function now.
unsafe fn run_native(raw: *mut ffi::lua_State, native: NativeFn) -> Option<c_int> {
    // SAFETY: Lua does not call anything without a state, and calls the trampoline alone, which comes here directly.
    let mut frame = unsafe { Frame::of_native(NonNull::new_unchecked(raw)) };
    // A panic must not unwind through Lua's C frames. It resumes after Lua has returned.
    match catch_unwind(AssertUnwindSafe(|| native(&mut frame))) {
        Ok(Ok(results)) => {
            assert!(results as i32 <= frame.top(), "more results than there are values");
            Some(results as c_int)
        }
        Ok(Err(LuaError)) => {
            if frame.top() == 0 {
                frame.push_nil();
            }
            None
        }
        Err(panic) => {
            *frame.shared().panic.borrow_mut() = Some(panic);
            frame.set_top(0);
            frame.push_bytes("internal error");
            None
        }
    }
}

/// The hook: asks the host whether the script may continue. After a refusal it runs at every instruction, so that a
/// script cannot catch the error and carry on.
unsafe extern "C-unwind" fn hook(raw: *mut ffi::lua_State, _: *mut ffi::lua_Debug) {
    // SAFETY: as in `trampoline`.
    unsafe {
        let goes_on = shared(raw).memory.without_limit(|| {
            let mut frame = Frame::of_hook(NonNull::new_unchecked(raw));
            let verdict = if !frame.has_host() || frame.shared().panic.borrow().is_some() {
                Ok(())
            } else {
                catch_unwind(AssertUnwindSafe(|| frame.host().tick())).unwrap_or_else(|panic| {
                    *frame.shared().panic.borrow_mut() = Some(panic);
                    Err("internal error")
                })
            };
            verdict.map_err(|message| push_host_error(&mut frame, message)).is_ok()
        });
        if !goes_on {
            ffi::lua_sethook(raw, Some(hook), ffi::LUA_MASKCOUNT, 1);
            ffi::lua_error(raw);
        }
        let memory = &shared(raw).memory;
        if let Some((main, instructions)) = memory.ticking.get()
            && memory.rushed.replace(0) > RUSH
        {
            ffi::lua_sethook(main.as_ptr(), Some(hook), ffi::LUA_MASKCOUNT, instructions);
        }
    }
}

/// Pushes the error of a host that ends a script. It is a table, as errors of commands are, so that Lua adds no
/// position when it passes through coroutines.
pub fn push_host_error(frame: &mut Frame<'_>, message: &str) {
    frame.push_table(0, 3);
    frame.push_bytes(message);
    frame.raw_set_field(-2, "err");
}

/// Calls the [`NativeFn`] in its first upvalue, which may change or refuse the arguments. Then calls the library
/// function in its second upvalue.
unsafe extern "C-unwind" fn guarded(raw: *mut ffi::lua_State) -> c_int {
    // SAFETY: `Frame::guard` has made the upvalues. The library's function is called with this function's own stack, as
    // if it were called in its place; what raises errors here leaves nothing behind to drop.
    unsafe {
        let native: NativeFn = std::mem::transmute(ffi::lua_touserdata(raw, ffi::lua_upvalueindex(1)));
        if shared(raw).memory.without_limit(|| run_native(raw, native)).is_none() {
            ffi::lua_error(raw);
        }
        match ffi::lua_tocfunction(raw, ffi::lua_upvalueindex(2)) {
            Some(function) => function(raw),
            None => 0,
        }
    }
}

/// Redis's `pcall`: for an error that is a table, as commands raise, it returns the message.
pub(super) unsafe extern "C-unwind" fn pcall(raw: *mut ffi::lua_State) -> c_int {
    // SAFETY: called by Lua, with room for a few values; nothing here is to be dropped.
    unsafe {
        if ffi::lua_gettop(raw) == 0 {
            return ffi::luaL_error(raw, c"bad argument #1 to 'pcall' (value expected)".as_ptr());
        }
        let status = ffi::lua_pcall(raw, ffi::lua_gettop(raw) - 1, ffi::LUA_MULTRET, 0);
        if status != ffi::LUA_OK && ffi::lua_type(raw, -1) == ffi::LUA_TTABLE {
            ffi::lua_pushlstring(raw, c"err".as_ptr(), 3);
            ffi::lua_rawget(raw, -2);
            if ffi::lua_isstring(raw, -1) != 0 {
                ffi::lua_replace(raw, -2);
            } else {
                ffi::lua_settop(raw, -2);
            }
        }
        if ffi::lua_checkstack(raw, 1) == 0 {
            return ffi::luaL_error(raw, c"stack overflow".as_ptr());
        }
        ffi::lua_pushboolean(raw, c_int::from(status == ffi::LUA_OK));
        ffi::lua_insert(raw, 1);
        ffi::lua_gettop(raw)
    }
}

/// Calls the reader in its first upvalue. The second upvalue is true after the first piece of text, which must not
/// begin with the signature of compiled code.
pub(super) unsafe extern "C-unwind" fn read_text(raw: *mut ffi::lua_State) -> c_int {
    // SAFETY: `Frame::push_text_reader` has made the upvalues. Called by Lua, with room for a few values; what raises
    // errors here leaves nothing behind to drop.
    unsafe {
        ffi::lua_settop(raw, 0);
        ffi::lua_pushvalue(raw, ffi::lua_upvalueindex(1));
        ffi::lua_call(raw, 0, 1);
        let begins = ffi::lua_toboolean(raw, ffi::lua_upvalueindex(2)) == 0;
        if begins && ffi::lua_type(raw, 1) == ffi::LUA_TSTRING {
            let mut length = 0;
            let text = ffi::lua_tolstring(raw, 1, &mut length);
            if length > 0 && ffi::LUA_SIGNATURE.first() == Some(&(*text as u8)) {
                // Lua still reports the same character.
                ffi::lua_pushlstring(raw, c" ".as_ptr(), 1);
                ffi::lua_insert(raw, 1);
                ffi::lua_concat(raw, 2);
            }
        }
        ffi::lua_pushboolean(raw, 1);
        ffi::lua_replace(raw, ffi::lua_upvalueindex(2));
        1
    }
}

/// `xpcall`, but the handler runs after the call has failed, not within it. Hooks do not run within a hook, so a
/// handler of the error that a hook raises could run for ever.
pub(super) unsafe extern "C-unwind" fn xpcall(raw: *mut ffi::lua_State) -> c_int {
    // SAFETY: as in `pcall`.
    unsafe {
        if ffi::lua_gettop(raw) < 2 {
            return ffi::luaL_error(raw, c"bad argument #2 to 'xpcall' (value expected)".as_ptr());
        }
        ffi::lua_settop(raw, 2);
        ffi::lua_insert(raw, 1);
        let status = ffi::lua_pcall(raw, 0, ffi::LUA_MULTRET, 0);
        if status == ffi::LUA_OK {
            ffi::lua_pushboolean(raw, 1);
            ffi::lua_replace(raw, 1);
            return ffi::lua_gettop(raw);
        }
        // The handler does not run when memory runs out.
        if status == ffi::LUA_ERRRUN && ffi::lua_pcall(raw, 1, 1, 0) != ffi::LUA_OK {
            let message = c"error in error handling";
            ffi::lua_pushlstring(raw, message.as_ptr(), message.count_bytes());
        }
        ffi::lua_pushboolean(raw, 0);
        ffi::lua_insert(raw, -2);
        2
    }
}

/// # Safety
/// `name` must be a C string; there must be room for one value on the stack.
unsafe fn load_text(raw: *mut ffi::lua_State, source: &[u8], name: *const c_char) -> c_int {
    // SAFETY: the bytes are only read, and no longer than the call lasts. `LUA_SIGNATURE` begins with the byte that
    // makes Lua take what follows for compiled code; source text cannot begin with it.
    unsafe {
        if source.first() == ffi::LUA_SIGNATURE.first() {
            let message = c"bad binary format (truncated precompiled chunk)";
            ffi::lua_pushlstring(raw, message.as_ptr(), message.count_bytes());
            return ffi::LUA_ERRSYNTAX;
        }
        ffi::luaL_loadbuffer(raw, source.as_ptr().cast(), source.len(), name)
    }
}

/// Lua's allocator: `realloc` and `free`, with the old size.
unsafe extern "C" fn allocate(data: *mut c_void, old: *mut c_void, old_size: usize, new_size: usize) -> *mut c_void {
    // SAFETY: `data` is the address of a `Shared`, whose memory counter alone is used here; Lua passes the pointers and
    // sizes that it was given, and all have this alignment.
    unsafe {
        let memory = &*ptr::addr_of!((*data.cast::<Shared>()).memory);
        let old_size = if old.is_null() { 0 } else { old_size };
        let used = memory.used.get() - old_size + new_size;
        if new_size > old_size && memory.limited.get() && used > memory.limit {
            return ptr::null_mut();
        }
        let layout = |size| Layout::from_size_align_unchecked(size, ALIGNMENT);
        let new = match (old_size, new_size) {
            (0, 0) => ptr::null_mut(),
            (_, 0) => {
                std::alloc::dealloc(old.cast(), layout(old_size));
                ptr::null_mut()
            }
            (0, _) => std::alloc::alloc(layout(new_size)),
            (_, _) => std::alloc::realloc(old.cast(), layout(old_size), new_size),
        };
        if new.is_null() && new_size > 0 {
            if memory.limited.get() {
                return ptr::null_mut();
            }
            handle_alloc_error(layout(new_size));
        }
        memory.used.set(used);
        if new_size > LARGE_BLOCK && new_size > old_size {
            memory.note_large(new_size);
        }
        new.cast()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::error::CommandError;
    use crate::base::log::Level;
    use crate::base::profile::Profile;
    use crate::protocol::{Protocol, Words};
    use crate::script::host::ScratchBuffers;
    use crate::script::random::Random;

    struct TickLimit(Cell<u32>, RefCell<ScratchBuffers>, Profile);

    impl Host for TickLimit {
        fn call(&self, _: Words<'_>, _: &mut Vec<u8>) -> Result<(), CommandError> {
            Err(CommandError::SYNTAX)
        }

        fn protocol(&self) -> Protocol {
            Protocol::Resp2
        }

        fn set_protocol(&self, _: Protocol) {}

        fn may_run(&self, _: Words<'_>) -> Option<bool> {
            None
        }

        fn log(&self, _: Level, _: &str) {}

        fn profile(&self) -> &Profile {
            &self.2
        }

        fn scratch(&self) -> &RefCell<ScratchBuffers> {
            &self.1
        }

        fn random(&self) -> &Random {
            unreachable!("no test asks for random numbers")
        }

        fn tick(&self) -> Result<(), &'static str> {
            self.0.set(self.0.get().saturating_sub(1));
            if self.0.get() == 0 { Err("time is up") } else { Ok(()) }
        }
    }

    fn keep_error(frame: &mut Frame<'_>) -> Result<usize, LuaError> {
        if frame.kind(1) == LuaType::Table {
            frame.raw_get_field(1, "err");
        }
        Ok(1)
    }

    /// Runs a script that can call `native`, and returns its result or its error as text.
    fn run(script: &str, native: NativeFn) -> Result<String, String> {
        run_for(1000, 1000, script, native)
    }

    /// As `run`, with a limit of ticks and the number of instructions between two.
    fn run_for(ticks: u32, instructions: u32, script: &str, native: NativeFn) -> Result<String, String> {
        let mut lua = Lua::new(16 << 20);
        lua.open_libraries();
        lua.tick_every(instructions);
        let mut frame = lua.frame();
        frame.push_globals();
        frame.push_native(native);
        frame.raw_set_field(1, "native");
        frame.set_top(0);
        frame.push_native(keep_error);
        let text = |lua: &mut Lua| String::from_utf8_lossy(lua.frame().to_bytes(-1).unwrap_or(b"?")).into_owned();
        if lua.load(script.as_bytes(), c"@test").is_err() {
            return Err(text(&mut lua));
        }
        let result = lua.call(Some(&TickLimit(Cell::new(ticks), RefCell::default(), Profile::default())), 0, Some(1));
        let text = text(&mut lua);
        result.map(|()| text.clone()).map_err(|LuaError| text)
    }

    fn fails(frame: &mut Frame<'_>) -> Result<usize, LuaError> {
        let owned = frame.bytes(1).unwrap_or_default().to_vec();
        Err(frame.error(owned))
    }

    fn panics(_: &mut Frame<'_>) -> Result<usize, LuaError> {
        unreachable!("on purpose")
    }

    #[test]
    fn errors_of_natives_can_be_caught_and_say_where_they_were_raised() {
        assert_eq!(run("local ok, e = pcall(native, 'x') return e", fails).unwrap(), "x");
        assert_eq!(run("\nreturn native('x')", fails).unwrap_err(), "test:2: x");
    }

    #[test]
    fn a_script_that_eats_memory_is_stopped() {
        let error = run("local t = {} while true do t[#t + 1] = string.rep('x', 100000) .. #t end", fails).unwrap_err();
        assert_eq!(error, "not enough memory");
    }

    #[test]
    fn a_script_cannot_outlive_its_time_by_catching_the_error() {
        let error = run("while true do pcall(function() while true do end end) end", fails).unwrap_err();
        assert_eq!(error, "time is up");
    }

    #[test]
    fn a_script_that_passes_on_more_values_than_natives_may_is_stopped_at_any_instruction() {
        let script = "local many = {} for i = 1, 200 do many[i] = i end many = table.concat(many, ',')
            return loadstring('local function take(...) end ' ..
                'local function pass(...) while true do take(...) end end ' ..
                'local function gather(n, ...) if n == 0 then return pass(...) end ' ..
                'return gather(n - 1, ' .. many .. ', ...) end return gather(50)')()";
        for instructions in 30_000..30_010 {
            assert_eq!(run_for(1, instructions, script, fails).unwrap_err(), "time is up");
        }
    }

    #[test]
    fn compiled_code_is_refused() {
        assert!(run("\x1bLua", fails).is_err());
    }

    #[test]
    #[should_panic(expected = "on purpose")]
    fn a_panic_passes_through_lua_unharmed() {
        let _ = run("pcall(native)", panics);
    }
}
