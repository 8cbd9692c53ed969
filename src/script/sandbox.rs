//! The sandbox: Redis's choice of Lua's libraries, behind tables that scripts cannot change.
//!
//! Redis patches Lua to have read-only tables. Here scripts get an empty proxy table in place of each library and of
//! the globals. Its metatable forwards look-ups to the real table and refuses assignments. The library functions that
//! bypass metatables are guarded, so that they see the real table.

use std::borrow::Cow;

use super::arguments::truncated;
use super::compiled::ScriptKind;
use super::lua::{Frame, Lua, LuaError, LuaType};
use super::tokens::without_nested_brackets;
use super::{api, bit, cjson, cmsgpack, random, structs};
use crate::base::profile::{Family, Profile, Since, Version};
use crate::protocol::until_nul;

/// The field in the metatable of a proxy that holds the real table.
const REAL: &str = "redouble.real";
/// The registry key of the table that scripts get as the metatable of strings.
const STRING_METATABLE: &str = "redouble.string_metatable";
/// The registry key of Lua's own `next`.
const NEXT: &str = "redouble.next";

pub const READ_ONLY: &str = "Attempt to modify a readonly table";

const OS_CLOCK: Since = Since::each(Version(7, 4, 0), Version(8, 0, 0));

/// Opens the libraries and installs the sandbox: code that is compiled from now on sees proxies as globals. Leaves the
/// table of the real globals on the stack, at index 1.
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

/// Pops the library `redis`, and stores it in the table at index 1 under all its names.
fn set_api_names(frame: &mut Frame<'_>, profile: &Profile) {
    if profile.family() == Family::Valkey {
        frame.push_value(-1);
        frame.raw_set_field(1, "server");
    }
    frame.raw_set_field(1, "redis");
}

/// Makes look-ups of undefined names in a table errors, instead of nil.
fn forbid_undefined(frame: &mut Frame<'_>, table: i32) {
    frame.push_table(0, 1);
    frame.push_native(undefined);
    frame.raw_set_field(-2, "__index");
    frame.set_metatable(table);
}

/// Makes the globals of code that is compiled from now on exchangeable. Leaves three tables on the stack: the metatable
/// whose `__index` holds the current globals, the globals while a library loads, and those at other times.
pub fn make_globals_switchable(lua: &mut Lua, profile: &Profile) {
    let mut frame = lua.frame();
    frame.push_globals();
    push_real_table(&mut frame, 1);
    frame.remove(1);
    // 1: the real globals. 2: those while a library loads.
    frame.push_table(0, 2);
    frame.insert(1);
    api::open_for_loading(&mut frame, profile);
    let api = frame.top();
    forbid_undefined(&mut frame, api);
    push_proxy(&mut frame, api);
    frame.remove(api);
    set_api_names(&mut frame, profile);
    forbid_undefined(&mut frame, 1);
    // The globals that scripts see are an empty proxy in front of either.
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

/// Leaves only `clock` in `os`, or removes `os`.
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

/// Guards library functions: those that bypass metatables see the real table behind a proxy, and those that would harm
/// the server refuse some arguments.
fn guard_libraries(frame: &mut Frame<'_>) {
    frame.raw_get_field(1, "next");
    frame.registry_set(NEXT);
    type Guarded = (&'static str, &'static str, fn(&mut Frame<'_>) -> Result<usize, LuaError>);
    let guarded: [Guarded; 28] = [
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
        ("string", "byte", tick_for_long_string),
        ("string", "format", tick_for_long_string),
        ("string", "lower", tick_for_long_string),
        ("string", "reverse", tick_for_long_string),
        ("string", "upper", tick_for_long_string),
        ("", "tonumber", tick_for_long_string),
        ("table", "concat", tick_for_long_table),
        ("table", "foreachi", tick_for_long_table),
        ("table", "insert", refuse_far_insert),
        ("table", "remove", tick_for_long_table),
        ("table", "sort", tick_for_long_table),
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
    // `gfind` is an old name of the same function.
    frame.raw_get_field(1, "string");
    frame.raw_get_field(-1, "gmatch");
    frame.raw_set_field(-2, "gfind");
    frame.pop(1);
    frame.push_native(pairs);
    frame.raw_set_field(1, "pairs");
    frame.push_native(getmetatable);
    frame.raw_set_field(1, "getmetatable");
}

/// Replaces every library by a proxy, and makes one for the metatable of strings.
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

/// Pushes a proxy for the table at an index.
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

/// Pushes the real table behind the value at an index, if that is a proxy.
pub(super) fn push_real_table(frame: &mut Frame<'_>, index: i32) -> bool {
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

// ---- replacements and guards of library functions

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

/// Lua moves all elements from the position of an insertion on, which takes too long for a position far below 1. It cuts
/// the position to 32 bits first, which makes a large one negative.
fn refuse_far_insert(frame: &mut Frame<'_>) -> Result<usize, LuaError> {
    const FAR: i32 = -1_000_000;
    if frame.top() == 3 {
        if frame.number(2).is_some_and(|position| (truncated(position) as i32) < FAR) {
            return Err(frame.argument_error(2, "position out of bounds"));
        }
        tick_for_long_table(frame)?;
    }
    refuse_proxy(frame)
}

/// The length from which on a call of a library function counts as many instructions.
const LONG_STRING: usize = 1 << 20;
const LONG_TABLE: usize = 10_000;

/// Lua counts instructions, and a call is one, however long the string.
fn tick_for_long_string(frame: &mut Frame<'_>) -> Result<usize, LuaError> {
    if (1..=frame.top().min(2)).any(|at| frame.bytes(at).is_some_and(|text| text.len() > LONG_STRING)) {
        return tick_host(frame);
    }
    Ok(0)
}

/// As [`tick_for_long_string`], for functions that move or visit all elements of a table.
fn tick_for_long_table(frame: &mut Frame<'_>) -> Result<usize, LuaError> {
    if frame.kind(1) == LuaType::Table && frame.raw_length(1) > LONG_TABLE { tick_host(frame) } else { Ok(0) }
}

/// Lua would run compiled code unchecked. Code that begins with its signature is refused as a syntax error.
fn refuse_compiled_string(frame: &mut Frame<'_>) -> Result<usize, LuaError> {
    const ESCAPE: u8 = 0x1b;
    // Lua itself refuses code or a name that is not a string.
    let Some(text) = frame.to_bytes(1) else { return Ok(0) };
    let name = match frame.kind(2) {
        LuaType::None | LuaType::Nil => text,
        LuaType::String | LuaType::Number => frame.to_bytes(2).unwrap_or_default(),
        _ => return Ok(0),
    };
    // See `refuse_compiled_pieces` for why the name is a string of its own.
    let name = until_nul(name).to_vec();
    if text.first() == Some(&ESCAPE) {
        // With a space in front, Lua reports the same character with the same message.
        let harmless = [b" ", text].concat();
        frame.push_bytes(harmless);
        frame.insert(1);
    } else if let Cow::Owned(changed) = without_nested_brackets(text) {
        frame.push_bytes(changed);
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
    // Lua cuts the name at a NUL, and keeps it alive only if it is this very string. The reader may collect garbage.
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

/// Lua's limit on the number of results. Lua computes the width of the range with 32 bits, which overflows for the
/// widest ranges: then it writes past the end of its stack.
fn refuse_wide_range(frame: &mut Frame<'_>) -> Result<usize, LuaError> {
    const MOST: i64 = 8000;
    let bound = |index, otherwise| match frame.kind(index) {
        LuaType::None | LuaType::Nil => Some(otherwise),
        _ => frame.number(index).map(|bound| i64::from(truncated(bound) as i32)),
    };
    // The default end is the table's length, which is at least 0.
    let (first, last) = (bound(2, 1), bound(3, 0));
    let wide = first.zip(last).is_some_and(|(first, last)| last - first >= MOST);
    if wide && frame.kind(1) == LuaType::Table {
        return Err(frame.error("too many results to unpack"));
    }
    Ok(0)
}

/// Keeps scripts from turning garbage collection off, or making it too slow. All scripts share one collector.
fn limit_gc_settings(frame: &mut Frame<'_>) -> Result<usize, LuaError> {
    let (least, most) = match frame.bytes(1) {
        Some(b"stop") => {
            frame.set_top(0);
            frame.push_bytes("restart");
            return Ok(0);
        }
        Some(b"setpause") => (0.0, 400.0),
        Some(b"setstepmul") => (100.0, 10_000.0),
        // A collection of much memory takes long.
        _ => return tick_host(frame),
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

/// Lua counts instructions per coroutine. A script that creates many short ones would hardly ever reach a tick.
fn tick_host(frame: &mut Frame<'_>) -> Result<usize, LuaError> {
    frame.tick().map(|()| 0)
}

/// Lua would loop over all repetitions of an empty string for seconds, during which no hook can end the script.
fn shortcut_empty_repeat(frame: &mut Frame<'_>) -> Result<usize, LuaError> {
    tick_for_long_string(frame)?;
    // It cuts the number to 32 bits first, which makes some negative ones positive.
    if frame.bytes(1).is_some_and(<[u8]>::is_empty) && frame.number(2).is_some() {
        frame.set_top(1);
        frame.push_number(0.0);
        return Ok(0);
    }
    // What memory does not hold is known before.
    let times = usize::try_from(frame.number(2).map_or(0, |times| truncated(times) as i32)).unwrap_or(0);
    frame.check_memory(frame.bytes(1).map_or(0, <[u8]>::len).saturating_mul(times))?;
    Ok(0)
}

/// The largest number of pattern items for which Lua's matcher may recurse. Each takes less than 300 bytes of stack;
/// see the stack size of a fiber.
const MAX_MATCH_DEPTH: usize = 20_000;

fn refuse_deep_pattern(frame: &mut Frame<'_>) -> Result<usize, LuaError> {
    tick_for_long_string(frame)?;
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
        // Lua's own `next` would iterate over the proxy itself.
        frame.push_native(next_in_real_table);
    } else {
        frame.registry_get(NEXT);
    }
    frame.push_value(1);
    frame.push_nil();
    Ok(3)
}

/// `next` for a loop over a proxy.
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
        // Scripts may see that the globals have a metatable, as a proxy.
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
    // C computes the width of the interval with 32-bit integers.
    let width = high.wrapping_sub(low).wrapping_add(1);
    frame.push_number((fraction * f64::from(width)).floor() + f64::from(low));
    Ok(1)
}

/// An argument as a C `int`.
fn integer_argument(frame: &Frame<'_>, index: i32) -> Result<i32, LuaError> {
    Ok(frame.expect_integer(index)? as i32)
}
