//! Lua's stack. See the parent module for what makes its use sound.

#![allow(unsafe_code)]

use std::ffi::{CStr, c_int, c_void};
use std::marker::PhantomData;
use std::ptr::{self, NonNull};

use mlua_sys as ffi;

use super::{LuaError, NativeFn, Shared, guarded, pcall, read_text, shared, trampoline, xpcall};
use crate::script::host::Host;

/// The compiled chunk or function that [`Frame::create_ref`] has put away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegistryRef(c_int);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LuaType {
    /// There is no value at this index.
    None,
    Nil,
    Boolean,
    Number,
    String,
    Table,
    Function,
    /// What scripts get only from a library: userdata, or a coroutine.
    Other,
}

/// More than fits on Lua's stack.
const MAX_STACK_VALUES: i32 = 1_000_000;

/// Lua's stack as one native function sees it, or whoever sets up a call.
pub struct Frame<'l> {
    raw: NonNull<ffi::lua_State>,
    /// Up to where a native may fill the stack without asking, however many arguments it was given; 0 elsewhere.
    granted: i32,
    lua: PhantomData<&'l ()>,
}

/// Where a function on the call stack comes from.
#[derive(Debug, PartialEq, Eq)]
pub struct SourceLocation {
    /// As Lua gives it: `@user_script`, or `=[C]`.
    pub source: Vec<u8>,
    /// -1 if it is not known.
    pub line: i32,
    /// A function that is not written in Lua.
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

    /// The stack of whatever a hook has interrupted, which may be fuller than Lua lets natives fill it.
    ///
    /// # Safety
    /// `raw` must be running a hook that has not changed its stack yet, and that goes on running for as long as the
    /// frame is used.
    pub(super) unsafe fn of_hook(raw: NonNull<ffi::lua_State>) -> Self {
        // Lua makes the same room for hooks as for functions.
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

    /// Who runs the script.
    pub fn host(&self) -> &'l dyn Host {
        match self.shared().host.get() {
            // SAFETY: set by `Lua::call` for exactly as long as natives can run, from a borrow that lives longer.
            Some(host) => unsafe { host.as_ref() },
            None => unreachable!("natives of a script are called by a script"),
        }
    }

    /// Whether a script runs, or somebody merely sets up the stack.
    pub fn has_host(&self) -> bool {
        self.shared().host.get().is_some()
    }

    // ---- the stack

    pub fn top(&self) -> i32 {
        // SAFETY: only reads.
        unsafe { ffi::lua_gettop(self.raw()) }
    }

    /// Makes room for so many more values, unless the stack would become too large.
    #[must_use]
    pub fn reserve(&self, values: usize) -> bool {
        // SAFETY: grows the stack, or says that it cannot; memory does not run out here.
        values < MAX_STACK_VALUES as usize && unsafe { ffi::lua_checkstack(self.raw(), values as c_int) != 0 }
    }

    /// Makes room for a few values. What may push many asks [`reserve`](Self::reserve) first.
    #[inline]
    pub(super) fn ensure_stack(&self, values: usize) {
        // Lua refuses to grow the stack of a function that was called with very many arguments, but has made room for
        // `LUA_MINSTACK` values more than these before it called the function.
        let granted = values < 1000 && self.top() + values as i32 <= self.granted;
        assert!(granted || self.reserve(values), "Lua's stack is full");
    }

    /// An index as counted from the bottom, known to be within the stack.
    #[inline]
    fn absolute_index(&self, index: i32) -> c_int {
        let top = self.top();
        let at = if index < 0 { top + 1 + index } else { index };
        assert!(at >= 1 && at <= top, "no value at {index}");
        at
    }

    /// An index as counted from the bottom that Lua can be asked for the type of: it says itself that there is nothing
    /// above the top.
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

    /// Drops what lies above, or fills up with nils.
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

    // ---- looking at values

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

    /// The name of a value's type, as `type` gives it; `no value` if there is none.
    pub fn type_name(&self, index: i32) -> &'static str {
        let at = if index < 0 { self.top() + 1 + index } else { index };
        if at < 1 || at > self.top() {
            return "no value";
        }
        // SAFETY: the index is valid, and the names are constants.
        let name = unsafe { CStr::from_ptr(ffi::lua_typename(self.raw(), ffi::lua_type(self.raw(), at))) };
        name.to_str().unwrap_or("userdata")
    }

    /// Anything but nil and false is true.
    pub fn boolean(&self, index: i32) -> bool {
        !matches!(self.kind(index), LuaType::None | LuaType::Nil)
            // SAFETY: the index is valid.
            && unsafe { ffi::lua_toboolean(self.raw(), self.absolute_index(index)) != 0 }
    }

    /// A number, or a string that reads as one.
    pub fn number(&self, index: i32) -> Option<f64> {
        if !matches!(self.kind(index), LuaType::Number | LuaType::String) {
            return None;
        }
        let at = self.absolute_index(index);
        // SAFETY: the index is valid; strings are converted on the side.
        unsafe { (ffi::lua_isnumber(self.raw(), at) != 0).then(|| ffi::lua_tonumber(self.raw(), at)) }
    }

    /// The bytes of a string; nothing for any other value.
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

    /// The bytes of a string, or of a number, which becomes a string in its place on the stack. Not for the key of a
    /// table that is being walked through.
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

    /// The address of a table or function, which tells it from all others that live.
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

    /// Pushes a native that has the value on top, which is popped, in reach by [`push_upvalue`](Self::push_upvalue).
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

    /// Pushes the value that the native which runs was given by [`push_native_closure`](Self::push_native_closure); nil if it
    /// was given none.
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

    /// Replaces a library's function, on top of the stack, by one that first calls `native` with the same arguments,
    /// which it may change, or refuse with an error. How many results that says it has does not matter.
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

    /// Pushes `pcall` as Redis has it.
    pub fn push_pcall(&self) {
        self.ensure_stack(1);
        // SAFETY: there is room.
        unsafe { ffi::lua_pushcclosure(self.raw(), pcall, 0) };
    }

    /// Pushes a function to read source text with, by which Lua's `load` reads what the function at an index gives.
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

    /// Pushes an `xpcall` whose handler cannot keep a script going.
    pub fn push_xpcall(&self) {
        self.ensure_stack(1);
        // SAFETY: there is room.
        unsafe { ffi::lua_pushcclosure(self.raw(), xpcall, 0) };
    }

    /// Pushes a new table, with space for so many elements and fields.
    pub fn push_table(&self, elements: usize, fields: usize) {
        self.ensure_stack(1);
        // Only hints, which must not make Lua complain.
        let (elements, fields) = (elements.min(1 << 20), fields.min(1 << 20));
        // SAFETY: there is room.
        unsafe { ffi::lua_createtable(self.raw(), elements as c_int, fields as c_int) };
    }

    // ---- tables, without metamethods

    /// Replaces the key on top of the stack by its value.
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

    /// Pushes a field, and says what it is.
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

    /// Sets a field: key and value are the two values on top, and are popped. The key must be neither nil nor NaN.
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

    /// Sets an element to the value on top, which is popped.
    pub fn raw_set_index(&mut self, index: i32, element: i32) {
        let at = self.table_index(index);
        assert!(at < self.top(), "no value above the table");
        // SAFETY: a table and a value.
        unsafe { ffi::lua_rawseti(self.raw(), at, element.into()) };
    }

    /// Sets a field to the value on top, which is popped.
    pub fn raw_set_field(&mut self, index: i32, field: &str) {
        let at = self.table_index(index);
        assert!(at < self.top(), "no value above the table");
        self.push_bytes(field);
        self.insert(-2);
        // SAFETY: a table, a key, a value.
        unsafe { ffi::lua_rawset(self.raw(), at) };
    }

    /// Walks through a table: replaces the key on top (nil to begin with) by the next key and its value; or takes it off
    /// and says `false` at the end. The table must not be changed on the way, and the key not be converted.
    pub fn next(&mut self, index: i32) -> bool {
        let at = self.table_index(index);
        assert!(at < self.top(), "no key above the table");
        self.ensure_stack(1);
        // A key that is not in the table would be an error.
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

    /// Pushes a value's metatable, if it has one.
    pub fn push_metatable(&self, index: i32) -> bool {
        let at = self.absolute_index(index);
        self.ensure_stack(1);
        // SAFETY: the index is valid, and there is room.
        unsafe { ffi::lua_getmetatable(self.raw(), at) != 0 }
    }

    /// Makes the table on top the metatable of a table; pops it.
    pub fn set_metatable(&mut self, index: i32) {
        let at = self.table_index(index);
        self.table_index(-1);
        // SAFETY: two tables.
        unsafe { ffi::lua_setmetatable(self.raw(), at) };
    }

    // ---- globals, environments, things kept

    pub fn push_globals(&self) {
        self.ensure_stack(1);
        // SAFETY: there is room.
        unsafe { ffi::lua_pushvalue(self.raw(), ffi::LUA_GLOBALSINDEX) };
    }

    /// Makes the table on top the table of globals, for whatever is compiled from now on; pops it.
    pub fn set_globals(&mut self) {
        self.table_index(-1);
        // SAFETY: a table.
        unsafe { ffi::lua_replace(self.raw(), ffi::LUA_GLOBALSINDEX) };
    }

    /// Puts the value on top away.
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

    /// Puts the value on top away under a name that scripts cannot reach.
    pub fn registry_set(&mut self, name: &str) {
        self.absolute_index(-1);
        self.push_bytes(name);
        self.insert(-2);
        // SAFETY: the registry is a table; a key and a value are on the stack.
        unsafe { ffi::lua_rawset(self.raw(), ffi::LUA_REGISTRYINDEX) };
    }

    /// Pushes what was stored under a name, or nil.
    pub fn registry_get(&self, name: &str) {
        self.push_bytes(name);
        // SAFETY: the registry is a table; a key is on the stack.
        unsafe { ffi::lua_rawget(self.raw(), ffi::LUA_REGISTRYINDEX) };
    }

    // ---- errors

    /// What grows with what a script passes asks here first: an error if the script may not have so many more bytes.
    pub fn check_memory(&self, bytes: usize) -> Result<(), LuaError> {
        let memory = &self.shared().memory;
        if memory.used.get().saturating_add(bytes) <= memory.limit {
            return Ok(());
        }
        self.push_bytes("not enough memory");
        Err(LuaError)
    }

    /// The function at a level of the call stack: 0 is the native that runs, 1 is its caller.
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

    /// Where a level of the call stack is, as Lua puts it in front of messages: `user_script:1: `, or nothing.
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

    /// An error with a message, behind the position of whoever called the native.
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
