//! What scripts may reach: Redis's choice of Lua's libraries, behind tables that cannot be changed.
//!
//! Redis patches Lua to have read-only tables. Here a script gets an empty table in place of each library (and of the
//! globals), whose metatable leads look-ups to the real one and refuses assignments; the few library functions that see
//! through metatables are made to see through this, too.

use super::arguments::truncated;
use super::compiled::ScriptKind;
use super::lua::{Frame, Lua, LuaError, LuaType, push_host_error};
use super::{api, bit, cjson, cmsgpack, random, structs};
use crate::base::profile::{Family, Profile, Since};
use crate::protocol::until_nul;

/// In the metatable of a stand-in: the table that it stands for.
const REAL: &str = "redouble.real";
/// In the registry: what scripts get as the metatable of strings.
const STRING_METATABLE: &str = "redouble.string_metatable";
/// In the registry: Lua's own `next`.
const NEXT: &str = "redouble.next";

pub const READ_ONLY: &str = "Attempt to modify a readonly table";

const OS_CLOCK: Since = Since::redis(7, 2, 0);

/// Opens the libraries and shuts the doors: what is compiled from now on has stand-ins for globals. The table of the
/// real globals is left on the stack, at index 1.
pub fn install(lua: &mut Lua, kind: ScriptKind, profile: &Profile) {
    lua.open_libraries();
    let mut frame = lua.frame();
    frame.push_globals();
    for forbidden in ["print", "dofile", "loadfile", "newproxy", "getfenv", "setfenv", "debug"] {
        frame.push_nil();
        frame.raw_set_field(1, forbidden);
    }
    keep_only_clock(&mut frame, profile.has(OS_CLOCK));
    type Open = fn(&mut Frame<'_>);
    let libraries: [(&str, Open); 4] =
        [("cjson", cjson::open), ("struct", structs::open), ("cmsgpack", cmsgpack::open), ("bit", bit::open)];
    for (name, open) in libraries {
        open(&mut frame);
        frame.raw_set_field(1, name);
    }
    api::open(&mut frame, kind, profile);
    set_api_names(&mut frame, profile);
    frame.push_pcall();
    frame.raw_set_field(1, "pcall");
    frame.push_xpcall();
    frame.raw_set_field(1, "xpcall");
    if kind == ScriptKind::Eval {
        frame.push_native(api::handle_error);
        frame.raw_set_field(1, "__redis__err__handler");
        if profile.family() == Family::Valkey {
            frame.push_native(api::handle_error);
            frame.raw_set_field(1, "__server__err__handler");
        }
    }
    replace_random(&mut frame);
    guard_libraries(&mut frame);
    install_proxies(&mut frame);
    forbid_undefined(&mut frame, 1);
    push_proxy(&mut frame, 1);
    frame.push_value(-1);
    frame.raw_set_field(1, "_G");
    frame.set_globals();
}

/// Takes the library `redis` off the stack into the table at index 1, under all its names.
fn set_api_names(frame: &mut Frame<'_>, profile: &Profile) {
    if profile.family() == Family::Valkey {
        frame.push_value(-1);
        frame.raw_set_field(1, "server");
    }
    frame.raw_set_field(1, "redis");
}

/// Makes names that are not in a table an error, instead of nil.
fn forbid_undefined(frame: &mut Frame<'_>, table: i32) {
    frame.push_table(0, 1);
    frame.push_native(undefined);
    frame.raw_set_field(-2, "__index");
    frame.set_metatable(table);
}

/// Gives what is compiled from now on globals that can be exchanged. Leaves three tables on the stack: the metatable
/// whose `__index` decides, what that is to be while a library is loaded, and what it is at other times.
pub fn make_globals_switchable(lua: &mut Lua, profile: &Profile) {
    let mut frame = lua.frame();
    frame.push_globals();
    push_real_table(&mut frame, 1);
    frame.remove(1);
    // 1: the real globals. 2: those while a library is loaded.
    frame.push_table(0, 2);
    frame.insert(1);
    api::open_for_loading(&mut frame, profile);
    let api = frame.top();
    forbid_undefined(&mut frame, api);
    push_proxy(&mut frame, api);
    frame.remove(api);
    set_api_names(&mut frame, profile);
    forbid_undefined(&mut frame, 1);
    // In front of both, a table that is always empty, and of which scripts get to know nothing.
    frame.push_table(0, 0);
    let globals = frame.top();
    frame.push_table(0, 2);
    frame.push_native(read_only);
    frame.raw_set_field(-2, "__newindex");
    frame.push_value(2);
    frame.raw_set_field(-2, "__index");
    frame.push_value(-1);
    frame.insert(1);
    frame.set_metatable(globals + 1);
    frame.set_globals();
}

/// `os` with nothing but `clock`, or no `os` at all.
fn keep_only_clock(frame: &mut Frame<'_>, clock: bool) {
    frame.push_table(0, 1);
    frame.raw_get_field(1, "os");
    frame.raw_get_field(-1, "clock");
    frame.raw_set_field(-3, "clock");
    frame.pop(1);
    if !clock {
        frame.pop(1);
        frame.push_nil();
    }
    frame.raw_set_field(1, "os");
}

/// Has the functions that see through metatables treat stand-ins as what they stand for, and the others beware of what
/// scripts must not do.
fn guard_libraries(frame: &mut Frame<'_>) {
    frame.raw_get_field(1, "next");
    frame.registry_set(NEXT);
    type Guarded = (&'static str, &'static str, fn(&mut Frame<'_>) -> Result<usize, LuaError>);
    let guarded: [Guarded; 18] = [
        ("", "next", use_real_table),
        ("", "rawget", use_real_table),
        ("", "rawset", refuse_proxy),
        ("", "setmetatable", refuse_proxy),
        ("", "loadstring", refuse_compiled_string),
        ("", "load", refuse_compiled_pieces),
        ("", "collectgarbage", limit_gc_settings),
        ("", "unpack", refuse_wide_range),
        ("coroutine", "create", tick_host),
        ("coroutine", "wrap", tick_host),
        ("string", "rep", shortcut_empty_repeat),
        ("table", "insert", refuse_far_insert),
        ("table", "foreach", use_real_table),
        ("table", "maxn", use_real_table),
        ("string", "find", refuse_deep_pattern),
        ("string", "match", refuse_deep_pattern),
        ("string", "gmatch", refuse_deep_pattern),
        ("string", "gsub", refuse_deep_pattern),
    ];
    for (library, name, check) in guarded {
        if library.is_empty() {
            frame.push_value(1);
        } else {
            frame.raw_get_field(1, library);
        }
        frame.raw_get_field(-1, name);
        frame.guard(check);
        frame.raw_set_field(-2, name);
        frame.pop(1);
    }
    // An old name of the same function.
    frame.raw_get_field(1, "string");
    frame.raw_get_field(-1, "gmatch");
    frame.raw_set_field(-2, "gfind");
    frame.pop(1);
    frame.push_native(pairs);
    frame.raw_set_field(1, "pairs");
    frame.push_native(getmetatable);
    frame.raw_set_field(1, "getmetatable");
}

/// Puts a stand-in in the place of every library, and makes one for the metatable of strings.
fn install_proxies(frame: &mut Frame<'_>) {
    let mut libraries = Vec::new();
    frame.push_nil();
    while frame.next(1) {
        if frame.kind(-1) == LuaType::Table
            && let Some(name) = frame.bytes(-2).filter(|name| *name != b"_G")
        {
            libraries.push(String::from_utf8_lossy(name).into_owned());
        }
        frame.pop(1);
    }
    for name in libraries {
        frame.raw_get_field(1, &name);
        let real = frame.top();
        push_proxy(frame, real);
        frame.raw_set_field(1, &name);
        frame.pop(1);
    }
    frame.push_table(0, 1);
    frame.raw_get_field(1, "string");
    frame.raw_set_field(-2, "__index");
    let real = frame.top();
    push_proxy(frame, real);
    frame.registry_set(STRING_METATABLE);
    frame.pop(1);
}

/// Pushes an empty table that stands for the one at an index.
fn push_proxy(frame: &mut Frame<'_>, real: i32) {
    frame.push_table(0, 0);
    frame.push_table(0, 3);
    frame.push_value(real);
    frame.raw_set_field(-2, "__index");
    frame.push_value(real);
    frame.raw_set_field(-2, REAL);
    frame.push_native(read_only);
    frame.raw_set_field(-2, "__newindex");
    frame.set_metatable(-2);
}

/// Pushes the table that the value at an index stands for, if it is a stand-in.
fn push_real_table(frame: &mut Frame<'_>, index: i32) -> bool {
    if frame.kind(index) != LuaType::Table || !frame.push_metatable(index) {
        return false;
    }
    let found = frame.raw_get_field(-1, REAL) == LuaType::Table;
    frame.remove(-2);
    if !found {
        frame.pop(1);
    }
    found
}

// ---- what stands in for Lua's own functions, or in front of them

fn read_only(frame: &mut Frame<'_>) -> Result<usize, LuaError> {
    Err(frame.error(READ_ONLY))
}

fn undefined(frame: &mut Frame<'_>) -> Result<usize, LuaError> {
    if frame.top() != 2 {
        return Err(frame.error("Wrong number of arguments to luaProtectedTableError"));
    }
    let Some(name) = frame.to_bytes(2) else {
        return Err(frame.error("Second argument to luaProtectedTableError must be a string or number"));
    };
    let mut message = b"Script attempted to access nonexistent global variable '".to_vec();
    message.extend_from_slice(until_nul(name));
    message.push(b'\'');
    Err(frame.error(message))
}

fn use_real_table(frame: &mut Frame<'_>) -> Result<usize, LuaError> {
    if push_real_table(frame, 1) {
        frame.insert(1);
        frame.remove(2);
    }
    Ok(0)
}

fn refuse_proxy(frame: &mut Frame<'_>) -> Result<usize, LuaError> {
    if push_real_table(frame, 1) {
        frame.push_bytes(READ_ONLY);
        return Err(LuaError);
    }
    Ok(0)
}

/// Lua moves every element from the place of an insertion on, those before the first one included, were it a thousand
/// million.
fn refuse_far_insert(frame: &mut Frame<'_>) -> Result<usize, LuaError> {
    const FAR: f64 = -1e6;
    if frame.top() == 3 && frame.number(2).is_some_and(|position| position < FAR) {
        return Err(frame.argument_error(2, "position out of bounds"));
    }
    refuse_proxy(frame)
}

/// Lua would trust compiled code blindly. To it, text that begins so is no text.
fn refuse_compiled_string(frame: &mut Frame<'_>) -> Result<usize, LuaError> {
    const ESCAPE: u8 = 0x1b;
    // Lua complains of what is no text, and of what is no name, itself.
    let Some(text) = frame.to_bytes(1) else { return Ok(0) };
    let name = match frame.kind(2) {
        LuaType::None | LuaType::Nil => text,
        LuaType::String | LuaType::Number => frame.to_bytes(2).unwrap_or_default(),
        _ => return Ok(0),
    };
    // See `refuse_compiled_pieces` for why the name is a string of its own.
    let name = until_nul(name).to_vec();
    if text.first() == Some(&ESCAPE) {
        // What makes Lua complain about the same character, with the same text in its message.
        let harmless = [b" ", text].concat();
        frame.push_bytes(harmless);
        frame.insert(1);
    }
    frame.set_top(1);
    frame.push_bytes(name);
    Ok(0)
}

fn refuse_compiled_pieces(frame: &mut Frame<'_>) -> Result<usize, LuaError> {
    if frame.kind(1) != LuaType::Function {
        return Err(frame.type_error(1, "function"));
    }
    // Lua makes a string of the name (up to a zero byte), and keeps it alive only if it is this very one: the reader may
    // collect garbage.
    let name = match frame.kind(2) {
        LuaType::None | LuaType::Nil => Some(b"=(load)".to_vec()),
        LuaType::String => frame.bytes(2).map(|name| until_nul(name).to_vec()),
        _ => None,
    };
    if let Some(name) = name {
        frame.set_top(1);
        frame.push_bytes(name);
    }
    frame.push_text_reader(1);
    frame.insert(1);
    frame.remove(2);
    Ok(0)
}

/// No more values than these can be had at once. Lua finds out by reckoning with 32 bits, which fails for the widest
/// ranges: then it writes past the end of its stack.
fn refuse_wide_range(frame: &mut Frame<'_>) -> Result<usize, LuaError> {
    const MOST: i64 = 8000;
    let bound = |index, otherwise| match frame.kind(index) {
        LuaType::None | LuaType::Nil => Some(otherwise),
        _ => frame.number(index).map(|bound| i64::from(truncated(bound) as i32)),
    };
    // If the end is left open, it is the table's length, which is 0 at least.
    let (first, last) = (bound(2, 1), bound(3, 0));
    let wide = first.zip(last).is_some_and(|(first, last)| last - first >= MOST);
    if wide && frame.kind(1) == LuaType::Table {
        return Err(frame.error("too many results to unpack"));
    }
    Ok(0)
}

/// A script may not turn off the collection of garbage, which all scripts need, nor make it too slow.
fn limit_gc_settings(frame: &mut Frame<'_>) -> Result<usize, LuaError> {
    let (least, most) = match frame.bytes(1) {
        Some(b"stop") => {
            frame.set_top(0);
            frame.push_bytes("restart");
            return Ok(0);
        }
        Some(b"setpause") => (0.0, 400.0),
        Some(b"setstepmul") => (100.0, 10_000.0),
        _ => return Ok(0),
    };
    let asked = match frame.kind(2) {
        LuaType::None | LuaType::Nil => Some(0.0),
        _ => frame.number(2),
    };
    if let Some(percent) = asked {
        frame.set_top(1);
        frame.push_number(percent.max(least).min(most));
    }
    Ok(0)
}

/// Lua counts the instructions of each coroutine on its own: a script that made one after the other, each short, would
/// hardly ever be asked to end.
fn tick_host(frame: &mut Frame<'_>) -> Result<usize, LuaError> {
    if frame.has_host()
        && let Err(message) = frame.host().tick()
    {
        push_host_error(frame, message);
        return Err(LuaError);
    }
    Ok(0)
}

/// Nothing, repeated two thousand million times, is nothing, and not worth the seconds for which nobody could end it.
fn shortcut_empty_repeat(frame: &mut Frame<'_>) -> Result<usize, LuaError> {
    if frame.bytes(1).is_some_and(<[u8]>::is_empty) && frame.number(2).is_some_and(|times| times > 0.0) {
        frame.set_top(1);
        frame.push_number(0.0);
    }
    Ok(0)
}

/// How many items of a pattern may have Lua's matcher call itself. It takes less than 300 bytes of stack each time; see
/// the size of a script's stack.
const MAX_MATCH_DEPTH: usize = 20_000;

fn refuse_deep_pattern(frame: &mut Frame<'_>) -> Result<usize, LuaError> {
    let pattern = frame.bytes(2).unwrap_or_default();
    if pattern.len() > MAX_MATCH_DEPTH
        && pattern.iter().filter(|byte| b"?*+-()".contains(byte)).count() > MAX_MATCH_DEPTH
    {
        return Err(frame.error("pattern too complex"));
    }
    Ok(0)
}

fn pairs(frame: &mut Frame<'_>) -> Result<usize, LuaError> {
    if frame.kind(1) != LuaType::Table {
        return Err(frame.type_error(1, "table"));
    }
    frame.set_top(1);
    let is_proxy = push_real_table(frame, 1);
    frame.set_top(1);
    if is_proxy {
        // Not Lua's own: the loop goes on to ask for what is behind the stand-in.
        frame.push_native(next_in_real_table);
    } else {
        frame.registry_get(NEXT);
    }
    frame.push_value(1);
    frame.push_nil();
    Ok(3)
}

/// `next` for a loop through a stand-in.
fn next_in_real_table(frame: &mut Frame<'_>) -> Result<usize, LuaError> {
    if frame.kind(1) != LuaType::Table {
        return Err(frame.type_error(1, "table"));
    }
    frame.set_top(2);
    if push_real_table(frame, 1) {
        frame.insert(1);
        frame.remove(2);
    }
    if frame.kind(2) != LuaType::Nil {
        frame.push_value(2);
        frame.raw_get(1);
        if frame.kind(-1) == LuaType::Nil {
            frame.push_bytes("invalid key to 'next'");
            return Err(LuaError);
        }
        frame.pop(1);
    }
    if frame.next(1) {
        return Ok(2);
    }
    frame.push_nil();
    Ok(1)
}

fn getmetatable(frame: &mut Frame<'_>) -> Result<usize, LuaError> {
    match frame.kind(1) {
        LuaType::None => return Err(frame.argument_error(1, "value expected")),
        LuaType::String => {
            frame.registry_get(STRING_METATABLE);
            return Ok(1);
        }
        _ => {}
    }
    frame.set_top(1);
    if push_real_table(frame, 1) {
        // Of the globals scripts may know that they have one.
        if frame.push_metatable(2) {
            let real = frame.top();
            push_proxy(frame, real);
        } else {
            frame.push_nil();
        }
        return Ok(1);
    }
    if !frame.push_metatable(1) {
        frame.push_nil();
        return Ok(1);
    }
    if frame.raw_get_field(-1, "__metatable") == LuaType::Nil {
        frame.pop(1);
    }
    Ok(1)
}

// ---- random numbers

fn replace_random(frame: &mut Frame<'_>) {
    frame.raw_get_field(1, "math");
    frame.push_native(random);
    frame.raw_set_field(-2, "random");
    frame.push_native(randomseed);
    frame.raw_set_field(-2, "randomseed");
    frame.pop(1);
}

fn randomseed(frame: &mut Frame<'_>) -> Result<usize, LuaError> {
    let seed = frame.expect_number(1)?;
    frame.host().random().0.set(random::seeded(truncated(seed) as u32));
    Ok(0)
}

fn random(frame: &mut Frame<'_>) -> Result<usize, LuaError> {
    let held = &frame.host().random().0;
    let mut state = held.get();
    let fraction = random::fraction(&mut state);
    held.set(state);
    let (low, high, last) = match frame.top() {
        0 => {
            frame.push_number(fraction);
            return Ok(1);
        }
        1 => (1, integer_argument(frame, 1)?, 1),
        2 => (integer_argument(frame, 1)?, integer_argument(frame, 2)?, 2),
        _ => return Err(frame.error("wrong number of arguments")),
    };
    if low > high {
        return Err(frame.argument_error(last, "interval is empty"));
    }
    // As C reckons it, with integers of 32 bits for the width of the interval.
    let width = high.wrapping_sub(low).wrapping_add(1);
    frame.push_number((fraction * f64::from(width)).floor() + f64::from(low));
    Ok(1)
}

/// As C's `int`.
fn integer_argument(frame: &Frame<'_>, index: i32) -> Result<i32, LuaError> {
    Ok(frame.expect_integer(index)? as i32)
}
