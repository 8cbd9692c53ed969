//! Lua's stack. The parent module says why its use is sound.

#![allow(unsafe_code)]

use std::ffi::{CStr, c_int, c_void};
use std::marker::PhantomData;
use std::ptr::{self, NonNull};

use mlua_sys as ffi;

use super::{LuaError, NativeFn, Shared, guarded, pcall, push_host_error, read_text, shared, trampoline, xpcall};
use crate::script::host::Host;

/// A reference in Lua's registry, made by [`Frame::create_ref`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegistryRef(c_int);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LuaType {
    /// The index is above the top.
    None,
    Nil,
    Boolean,
    Number,
    String,
    Table,
    Function,
    /// A value that only libraries make: userdata or a coroutine.
    Other,
}

/// More values than Lua's stack holds.
const MAX_STACK_VALUES: i32 = 1_000_000;

/// Lua's stack, as a running native function or the caller of a script sees it.
pub struct Frame<'l> {
    raw: NonNull<ffi::lua_State>,
    /// The stack size that Lua guarantees a native function, however many arguments it has; 0 elsewhere.
    granted: i32,
    lua: PhantomData<&'l ()>,
}

/// The source location of a function on the call stack.
#[derive(Debug, PartialEq, Eq)]
pub struct SourceLocation {
    /// In Lua's form: `@user_script`, or `=[C]`.
    pub source: Vec<u8>,
    /// -1 if it is unknown.
    pub line: i32,
    /// Whether the function is not written in Lua.
    pub native: bool,
}

impl<'l> Frame<'l> {
    pub(super) fn new(raw: NonNull<ffi::lua_State>) -> Self {
        Self { raw, granted: 0, lua: PhantomData }
    }

    /// The stack of a native function that has just been called.
    ///
    /// # Safety
    /// `raw` must be running a C function that has not changed its stack yet, and that goes on running for as long as
    /// the frame is used. Nobody but `push_native` may have made that function.
    pub(super) unsafe fn of_native(raw: NonNull<ffi::lua_State>) -> Self {
        let mut frame = Self::new(raw);
        frame.granted = frame.top() + ffi::LUA_MINSTACK;
        frame
    }

    /// The stack of the function that a hook has interrupted. It may be fuller than the stack of a native function.
    ///
    /// # Safety
    /// `raw` must be running a hook that has not changed its stack yet, and that goes on running for as long as the
    /// frame is used.
    pub(super) unsafe fn of_hook(raw: NonNull<ffi::lua_State>) -> Self {
        // Lua guarantees hooks the same stack space as native functions.
        // SAFETY: as said above; nobody asks a hook for what is bound to it.
        unsafe { Self::of_native(raw) }
    }

    fn raw(&self) -> *mut ffi::lua_State {
        self.raw.as_ptr()
    }

    pub(super) fn shared(&self) -> &Shared {
        // SAFETY: the interpreter's allocator was given the address of its `Shared`, which lives as long as the state.
        unsafe { shared(self.raw()) }
    }

    /// The host of the running script.
    pub fn host(&self) -> &'l dyn Host {
        match self.shared().host.get() {
            // SAFETY: set by `Lua::call` for exactly as long as natives can run, from a borrow that lives longer.
            Some(host) => unsafe { host.as_ref() },
            None => unreachable!("natives of a script are called by a script"),
        }
    }

    /// Whether a script is running.
    pub fn has_host(&self) -> bool {
        self.shared().host.get().is_some()
    }

    // ---- the stack

    pub fn top(&self) -> i32 {
        // SAFETY: only reads.
        unsafe { ffi::lua_gettop(self.raw()) }
    }

    /// Grows the stack by this many values. Returns false if it would become too large.
    #[must_use]
    pub fn reserve(&self, values: usize) -> bool {
        // SAFETY: grows the stack, or says that it cannot; memory does not run out here.
        values < MAX_STACK_VALUES as usize && unsafe { ffi::lua_checkstack(self.raw(), values as c_int) != 0 }
    }

    /// Grows the stack by a few values. Callers that push many call [`reserve`](Self::reserve) first.
    #[inline]
    pub(super) fn ensure_stack(&self, values: usize) {
        // Lua refuses to grow the stack of a function with very many arguments, but guarantees `LUA_MINSTACK` values
        // above the arguments before the call.
        let granted = values < 1000 && self.top() + values as i32 <= self.granted;
        assert!(granted || self.reserve(values), "Lua's stack is full");
    }

    /// An absolute index (from the bottom), checked to be within the stack.
    #[inline]
    fn absolute_index(&self, index: i32) -> c_int {
        let top = self.top();
        let at = if index < 0 { top + 1 + index } else { index };
        assert!(at >= 1 && at <= top, "no value at {index}");
        at
    }

    /// An absolute index that is acceptable in the sense of Lua's manual: it may be above the top, and has no type
    /// there.
    #[inline]
    fn acceptable_index(&self, index: i32) -> Option<c_int> {
        let at = if index < 0 { self.top() + 1 + index } else { index };
        (1..MAX_STACK_VALUES).contains(&at).then_some(at)
    }

    #[inline]
    fn table_index(&self, index: i32) -> c_int {
        let at = self.absolute_index(index);
        // SAFETY: the index is valid.
        assert!(unsafe { ffi::lua_type(self.raw(), at) } == ffi::LUA_TTABLE, "no table at {index}");
        at
    }

    pub fn pop(&mut self, values: usize) {
        let top = self.top() - values as i32;
        assert!(top >= 0, "popped too much");
        self.set_top(top);
    }

    /// Drops the values above, or fills up with nils.
    pub fn set_top(&mut self, top: i32) {
        if top > self.top() {
            self.ensure_stack((top - self.top()) as usize);
        }
        // SAFETY: there is room.
        unsafe { ffi::lua_settop(self.raw(), top.max(0)) };
    }

    pub fn remove(&mut self, index: i32) {
        let at = self.absolute_index(index);
        // SAFETY: the index is valid.
        unsafe { ffi::lua_remove(self.raw(), at) };
    }

    /// Moves the top value down to an index.
    pub fn insert(&mut self, index: i32) {
        let at = self.absolute_index(index);
        // SAFETY: the index is valid.
        unsafe { ffi::lua_insert(self.raw(), at) };
    }

    // ---- reading values

    #[inline]
    pub fn kind(&self, index: i32) -> LuaType {
        let Some(at) = self.acceptable_index(index) else { return LuaType::None };
        // SAFETY: Lua can be asked for the type of this index.
        match unsafe { ffi::lua_type(self.raw(), at) } {
            ffi::LUA_TNONE => LuaType::None,
            ffi::LUA_TNIL => LuaType::Nil,
            ffi::LUA_TBOOLEAN => LuaType::Boolean,
            ffi::LUA_TNUMBER => LuaType::Number,
            ffi::LUA_TSTRING => LuaType::String,
            ffi::LUA_TTABLE => LuaType::Table,
            ffi::LUA_TFUNCTION => LuaType::Function,
            _ => LuaType::Other,
        }
    }

    /// The name of a value's type, as `type` returns it; `no value` if there is none.
    pub fn type_name(&self, index: i32) -> &'static str {
        let at = if index < 0 { self.top() + 1 + index } else { index };
        if at < 1 || at > self.top() {
            return "no value";
        }
        // SAFETY: the index is valid, and the names are constants.
        let name = unsafe { CStr::from_ptr(ffi::lua_typename(self.raw(), ffi::lua_type(self.raw(), at))) };
        name.to_str().unwrap_or("userdata")
    }

    /// The truth of a value: only nil and false are false.
    pub fn boolean(&self, index: i32) -> bool {
        !matches!(self.kind(index), LuaType::None | LuaType::Nil)
            // SAFETY: the index is valid.
            && unsafe { ffi::lua_toboolean(self.raw(), self.absolute_index(index)) != 0 }
    }

    /// A number, or a numeric string.
    pub fn number(&self, index: i32) -> Option<f64> {
        if !matches!(self.kind(index), LuaType::Number | LuaType::String) {
            return None;
        }
        let at = self.absolute_index(index);
        // SAFETY: the index is valid; strings are converted on the side.
        unsafe { (ffi::lua_isnumber(self.raw(), at) != 0).then(|| ffi::lua_tonumber(self.raw(), at)) }
    }

    /// The bytes of a string; `None` for any other value.
    #[inline]
    pub fn bytes(&self, index: i32) -> Option<&[u8]> {
        let at = self.acceptable_index(index)?;
        // SAFETY: a string on the stack, which stays there for as long as `self` is borrowed.
        unsafe {
            if ffi::lua_type(self.raw(), at) != ffi::LUA_TSTRING {
                return None;
            }
            let mut length = 0;
            let bytes = ffi::lua_tolstring(self.raw(), at, &mut length);
            Some(std::slice::from_raw_parts(bytes.cast(), length))
        }
    }

    /// The bytes of a string, or of a number, which is converted in place. Must not be called on a key during
    /// [`next`](Self::next).
    pub fn to_bytes(&self, index: i32) -> Option<&[u8]> {
        if self.kind(index) == LuaType::Number {
            // SAFETY: replaces a number, which nobody can have borrowed, by a string; memory does not run out here.
            unsafe { ffi::lua_tolstring(self.raw(), self.absolute_index(index), ptr::null_mut()) };
        }
        self.bytes(index)
    }

    /// Whether a value is the null pointer.
    pub fn is_null(&self, index: i32) -> bool {
        self.kind(index) == LuaType::Other
            // SAFETY: the index is valid.
            && unsafe {
                let at = self.absolute_index(index);
                ffi::lua_type(self.raw(), at) == ffi::LUA_TLIGHTUSERDATA
                    && ffi::lua_touserdata(self.raw(), at).is_null()
            }
    }

    /// The address of a table or function, which identifies it while it lives.
    pub fn address(&self, index: i32) -> usize {
        // SAFETY: the index is valid.
        unsafe { ffi::lua_topointer(self.raw(), self.absolute_index(index)).addr() }
    }

    // ---- pushing values

    pub fn push_nil(&self) {
        self.ensure_stack(1);
        // SAFETY: there is room.
        unsafe { ffi::lua_pushnil(self.raw()) };
    }

    pub fn push_boolean(&self, value: bool) {
        self.ensure_stack(1);
        // SAFETY: there is room.
        unsafe { ffi::lua_pushboolean(self.raw(), c_int::from(value)) };
    }

    pub fn push_number(&self, value: f64) {
        self.ensure_stack(1);
        // SAFETY: there is room.
        unsafe { ffi::lua_pushnumber(self.raw(), value) };
    }

    pub fn push_bytes(&self, bytes: impl AsRef<[u8]>) {
        let bytes = bytes.as_ref();
        self.ensure_stack(1);
        // SAFETY: there is room; Lua copies the bytes.
        unsafe { ffi::lua_pushlstring(self.raw(), bytes.as_ptr().cast(), bytes.len()) };
    }

    /// Pushes a copy of a value.
    pub fn push_value(&self, index: i32) {
        let at = self.absolute_index(index);
        self.ensure_stack(1);
        // SAFETY: the index is valid, and there is room.
        unsafe { ffi::lua_pushvalue(self.raw(), at) };
    }

    pub fn push_native(&self, native: NativeFn) {
        self.ensure_stack(2);
        // SAFETY: there is room. A function pointer fits into the pointer that `trampoline` reads it from.
        unsafe {
            ffi::lua_pushlightuserdata(self.raw(), native as *mut c_void);
            ffi::lua_pushcclosure(self.raw(), trampoline, 1);
        }
    }

    /// Pushes a native function with the value on top as its upvalue, and pops that value.
    /// [`push_upvalue`](Self::push_upvalue) reads it.
    pub fn push_native_closure(&mut self, native: NativeFn) {
        self.absolute_index(-1);
        self.ensure_stack(2);
        // SAFETY: there is room, and a value below the pointer, which is as in `push_native`.
        unsafe {
            ffi::lua_pushlightuserdata(self.raw(), native as *mut c_void);
            ffi::lua_insert(self.raw(), -2);
            ffi::lua_pushcclosure(self.raw(), trampoline, 2);
        }
    }

    /// Pushes the upvalue that [`push_native_closure`](Self::push_native_closure) gave the running native function; nil
    /// if it has none.
    pub fn push_upvalue(&self) {
        assert!(self.granted > 0, "no native runs");
        self.ensure_stack(1);
        // SAFETY: a closure of `push_native` runs, see `of_native`; of those that it has not, Lua makes nil.
        unsafe { ffi::lua_pushvalue(self.raw(), ffi::lua_upvalueindex(2)) };
    }

    /// Pushes the null pointer, which stands for JSON's `null`.
    pub fn push_null(&self) {
        self.ensure_stack(1);
        // SAFETY: there is room.
        unsafe { ffi::lua_pushlightuserdata(self.raw(), ptr::null_mut()) };
    }

    /// Replaces the library function on top of the stack by one that first calls `native` with the same arguments.
    /// `native` may change the arguments or refuse them; the number that it returns is ignored.
    pub fn guard(&mut self, native: NativeFn) {
        let at = self.absolute_index(-1);
        self.ensure_stack(2);
        // SAFETY: there is room; see `guarded` for the upvalues.
        unsafe {
            assert!(ffi::lua_iscfunction(self.raw(), at) != 0, "not a library's function");
            ffi::lua_pushlightuserdata(self.raw(), native as *mut c_void);
            ffi::lua_insert(self.raw(), at);
            ffi::lua_pushcclosure(self.raw(), guarded, 2);
        }
    }

    /// Pushes Redis's `pcall`.
    pub fn push_pcall(&self) {
        self.ensure_stack(1);
        // SAFETY: there is room.
        unsafe { ffi::lua_pushcclosure(self.raw(), pcall, 0) };
    }

    /// Pushes a reader function for Lua's `load`. It calls the function at an index, and refuses compiled code.
    pub fn push_text_reader(&self, reader: i32) {
        assert!(self.kind(reader) == LuaType::Function, "no function");
        let at = self.absolute_index(reader);
        self.ensure_stack(2);
        // SAFETY: a function, and room for it; see `read_text` for the upvalues.
        unsafe {
            ffi::lua_pushvalue(self.raw(), at);
            ffi::lua_pushboolean(self.raw(), 0);
            ffi::lua_pushcclosure(self.raw(), read_text, 2);
        }
    }

    /// Pushes an `xpcall` whose handler cannot keep a script running.
    pub fn push_xpcall(&self) {
        self.ensure_stack(1);
        // SAFETY: there is room.
        unsafe { ffi::lua_pushcclosure(self.raw(), xpcall, 0) };
    }

    /// Pushes a new table, preallocated for this many elements and fields.
    pub fn push_table(&self, elements: usize, fields: usize) {
        self.ensure_stack(1);
        // These are hints. Large ones must not raise an error.
        let (elements, fields) = (elements.min(1 << 20), fields.min(1 << 20));
        // SAFETY: there is room.
        unsafe { ffi::lua_createtable(self.raw(), elements as c_int, fields as c_int) };
    }

    // ---- tables, without metamethods

    /// Replaces the key on top of the stack by its value in the table.
    pub fn raw_get(&mut self, index: i32) {
        let at = self.table_index(index);
        assert!(at < self.top(), "no key above the table");
        // SAFETY: a table and a key.
        unsafe { ffi::lua_rawget(self.raw(), at) };
    }

    /// Pushes an element.
    pub fn raw_get_index(&self, index: i32, element: i32) {
        let at = self.table_index(index);
        self.ensure_stack(1);
        // SAFETY: a table, and there is room.
        unsafe { ffi::lua_rawgeti(self.raw(), at, element.into()) };
    }

    /// Pushes a field, and returns its type.
    pub fn raw_get_field(&self, index: i32, field: &str) -> LuaType {
        let at = self.table_index(index);
        self.ensure_stack(1);
        // SAFETY: a table and a key on top of the stack.
        unsafe {
            ffi::lua_pushlstring(self.raw(), field.as_ptr().cast(), field.len());
            ffi::lua_rawget(self.raw(), at);
        }
        self.kind(-1)
    }

    /// Sets a field, and pops its key and its value, the two values on top. The key must be neither nil nor NaN.
    pub fn raw_set(&mut self, index: i32) {
        let at = self.table_index(index);
        assert!(at < self.top() - 1, "no key and value above the table");
        let fits = match self.kind(-2) {
            LuaType::Nil => false,
            LuaType::Number => !self.number(-2).is_some_and(f64::is_nan),
            _ => true,
        };
        assert!(fits, "nil or NaN as a key");
        // SAFETY: a table, a key that tables take, a value.
        unsafe { ffi::lua_rawset(self.raw(), at) };
    }

    /// Sets an element to the value on top, and pops it.
    pub fn raw_set_index(&mut self, index: i32, element: i32) {
        let at = self.table_index(index);
        assert!(at < self.top(), "no value above the table");
        // SAFETY: a table and a value.
        unsafe { ffi::lua_rawseti(self.raw(), at, element.into()) };
    }

    /// Sets a field to the value on top, and pops it.
    pub fn raw_set_field(&mut self, index: i32, field: &str) {
        let at = self.table_index(index);
        assert!(at < self.top(), "no value above the table");
        self.push_bytes(field);
        self.insert(-2);
        // SAFETY: a table, a key, a value.
        unsafe { ffi::lua_rawset(self.raw(), at) };
    }

    /// Iterates over a table: replaces the key on top (nil at the start) by the next key and its value, or pops it and
    /// returns false at the end. The table must not be changed and the key not be converted meanwhile.
    pub fn next(&mut self, index: i32) -> bool {
        let at = self.table_index(index);
        assert!(at < self.top(), "no key above the table");
        self.ensure_stack(1);
        // Lua raises an error for a key that is not in the table.
        if self.kind(-1) != LuaType::Nil {
            self.push_value(-1);
            self.raw_get(at);
            let known = self.kind(-1) != LuaType::Nil;
            self.pop(1);
            assert!(known, "the table was changed");
        }
        // SAFETY: a table, one of its keys (or nil), and room.
        unsafe { ffi::lua_next(self.raw(), at) != 0 }
    }

    /// Pushes a value's metatable. Returns false if it has none.
    pub fn push_metatable(&self, index: i32) -> bool {
        let at = self.absolute_index(index);
        self.ensure_stack(1);
        // SAFETY: the index is valid, and there is room.
        unsafe { ffi::lua_getmetatable(self.raw(), at) != 0 }
    }

    /// Sets the table on top as the metatable of a table, and pops it.
    pub fn set_metatable(&mut self, index: i32) {
        let at = self.table_index(index);
        self.table_index(-1);
        // SAFETY: two tables.
        unsafe { ffi::lua_setmetatable(self.raw(), at) };
    }

    // ---- globals and the registry

    pub fn push_globals(&self) {
        self.ensure_stack(1);
        // SAFETY: there is room.
        unsafe { ffi::lua_pushvalue(self.raw(), ffi::LUA_GLOBALSINDEX) };
    }

    /// Sets the table on top as the globals of code that is compiled from now on, and pops it.
    pub fn set_globals(&mut self) {
        self.table_index(-1);
        // SAFETY: a table.
        unsafe { ffi::lua_replace(self.raw(), ffi::LUA_GLOBALSINDEX) };
    }

    /// Pops the value on top, and stores it in the registry.
    pub fn create_ref(&mut self) -> RegistryRef {
        self.absolute_index(-1);
        self.ensure_stack(2);
        // SAFETY: a value is on the stack, and room for what this needs.
        RegistryRef(unsafe { ffi::luaL_ref(self.raw(), ffi::LUA_REGISTRYINDEX) })
    }

    pub fn push_ref(&self, kept: RegistryRef) {
        self.ensure_stack(1);
        // SAFETY: the registry is a table, and there is room.
        unsafe { ffi::lua_rawgeti(self.raw(), ffi::LUA_REGISTRYINDEX, kept.0.into()) };
    }

    pub fn free_ref(&mut self, kept: RegistryRef) {
        self.ensure_stack(2);
        // SAFETY: a reference that `keep` gave out.
        unsafe { ffi::luaL_unref(self.raw(), ffi::LUA_REGISTRYINDEX, kept.0) };
    }

    /// Pops the value on top, and stores it in the registry under a name. Scripts cannot reach the registry.
    pub fn registry_set(&mut self, name: &str) {
        self.absolute_index(-1);
        self.push_bytes(name);
        self.insert(-2);
        // SAFETY: the registry is a table; a key and a value are on the stack.
        unsafe { ffi::lua_rawset(self.raw(), ffi::LUA_REGISTRYINDEX) };
    }

    /// Pushes the value in the registry under a name, or nil.
    pub fn registry_get(&self, name: &str) {
        self.push_bytes(name);
        // SAFETY: the registry is a table; a key is on the stack.
        unsafe { ffi::lua_rawget(self.raw(), ffi::LUA_REGISTRYINDEX) };
    }

    // ---- errors

    /// Asks the host, if there is one, whether the script may continue.
    pub fn tick(&mut self) -> Result<(), LuaError> {
        if self.has_host()
            && let Err(message) = self.host().tick()
        {
            push_host_error(self, message);
            return Err(LuaError);
        }
        Ok(())
    }

    /// Counts a call of the host. Returns whether it is time for a tick: a command can take long, and is one instruction.
    pub fn counts_call(&self) -> bool {
        const CALLS: u32 = 32;
        let calls = &self.shared().calls;
        calls.set(calls.get().wrapping_add(1));
        calls.get().is_multiple_of(CALLS)
    }

    /// The length of the table at an index, without metamethods.
    pub fn raw_length(&self, index: i32) -> usize {
        let at = self.absolute_index(index);
        // SAFETY: a valid index.
        unsafe { ffi::lua_objlen(self.raw(), at) }
    }

    /// Checks the memory limit before an allocation whose size a script decides.
    pub fn check_memory(&self, bytes: usize) -> Result<(), LuaError> {
        let memory = &self.shared().memory;
        if memory.used.get().saturating_add(bytes) <= memory.limit {
            return Ok(());
        }
        self.push_bytes("not enough memory");
        Err(LuaError)
    }

    /// The location of the function at a level of the call stack: 0 is the running native function, 1 is its caller.
    pub fn location(&self, level: i32) -> Option<SourceLocation> {
        // SAFETY: plain data, which Lua fills in; the names in it are alive while the function is.
        unsafe {
            let mut debug: ffi::lua_Debug = std::mem::zeroed();
            if ffi::lua_getstack(self.raw(), level, &mut debug) == 0 {
                return None;
            }
            ffi::lua_getinfo(self.raw(), c"Sl".as_ptr(), &mut debug);
            Some(SourceLocation {
                source: CStr::from_ptr(debug.source).to_bytes().to_vec(),
                line: debug.currentline,
                native: CStr::from_ptr(debug.what) == c"C",
            })
        }
    }

    /// The prefix that Lua puts in front of messages for a level of the call stack: `user_script:1: `, or nothing.
    pub fn location_prefix(&self, level: i32) -> Vec<u8> {
        self.ensure_stack(1);
        // SAFETY: pushes a string, for which there is room, copied and popped again.
        unsafe {
            ffi::luaL_where(self.raw(), level);
            let mut length = 0;
            let text = ffi::lua_tolstring(self.raw(), -1, &mut length);
            let text = std::slice::from_raw_parts(text.cast::<u8>(), length).to_vec();
            ffi::lua_settop(self.raw(), -2);
            text
        }
    }

    /// An error whose message begins with the location of the native function's caller.
    pub fn error(&self, message: impl AsRef<[u8]>) -> LuaError {
        let mut text = self.location_prefix(1);
        text.extend_from_slice(message.as_ref());
        self.push_bytes(text);
        LuaError
    }

    /// The error that Lua's libraries raise for an argument: `bad argument #1 to 'decode' (…)`.
    pub fn argument_error(&self, argument: i32, message: impl AsRef<[u8]>) -> LuaError {
        // SAFETY: plain data, which Lua fills in; the names in it are alive while the function is.
        let (name, is_method) = unsafe {
            let mut debug: ffi::lua_Debug = std::mem::zeroed();
            let found = ffi::lua_getstack(self.raw(), 0, &mut debug) != 0
                && ffi::lua_getinfo(self.raw(), c"n".as_ptr(), &mut debug) != 0
                && !debug.name.is_null();
            if found {
                (CStr::from_ptr(debug.name).to_bytes().to_vec(), CStr::from_ptr(debug.namewhat) == c"method")
            } else {
                (b"?".to_vec(), false)
            }
        };
        let argument = argument - i32::from(is_method);
        let text = if is_method && argument == 0 {
            [b"calling '", &*name, b"' on bad self (", message.as_ref(), b")"].concat()
        } else {
            [format!("bad argument #{argument} to '").as_bytes(), &name, b"' (", message.as_ref(), b")"].concat()
        };
        self.error(text)
    }
}
