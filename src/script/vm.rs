//! One Lua state with the sandbox installed, and how scripts run in it.

use super::compiled::{Script, ScriptKind};
use super::convert::{is_counted, write_error, write_value};
use super::host::{Host, Invocation};
use super::lua::{Frame, Lua, LuaError, LuaType, RegistryRef};
use super::{api, sandbox};
use crate::base::profile::{Profile, Since};
use crate::protocol::{Words, until_nul};

/// The memory limit of one interpreter. Redis has no limit; here a script that uses too much memory gets Lua's own
/// error instead of taking the server down.
pub(super) const MEMORY_LIMIT: usize = 512 << 20;
/// The least memory in use at which the end of a script triggers a full garbage collection.
const COLLECT_ABOVE: usize = 64 << 20;
/// The number of instructions between two calls of [`Host::tick`]. Most take nanoseconds; the comparison of two long strings
/// takes milliseconds.
const TICK: u32 = 2_000;

pub(super) struct Vm {
    pub lua: Lua,
    handler: RegistryRef,
    /// Memory in use at which the next full garbage collection runs.
    collect_at: usize,
}

impl Vm {
    /// Leaves the table of the real globals on the stack, at index 1.
    pub fn new(kind: ScriptKind, profile: &Profile) -> Self {
        Self::with_limit(kind, profile, MEMORY_LIMIT)
    }

    /// As [`new`](Self::new), with a limit of memory in bytes.
    pub fn with_limit(kind: ScriptKind, profile: &Profile, limit: usize) -> Self {
        let mut lua = Lua::new(limit);
        sandbox::install(&mut lua, kind, profile);
        let mut frame = lua.frame();
        frame.set_top(1);
        frame.push_native(api::handle_error);
        let handler = frame.create_ref();
        lua.tick_every(TICK);
        Self { lua, handler, collect_at: COLLECT_ABOVE }
    }

    /// Clears the stack, and pushes the error handler.
    pub fn begin(&mut self) -> Frame<'_> {
        let mut frame = self.lua.frame();
        frame.set_top(0);
        frame.push_ref(self.handler);
        frame
    }

    /// Runs the function below its arguments, and appends its reply or its error, in the client's protocol.
    pub fn run(&mut self, arguments: usize, script: &Script, invocation: Invocation<'_>, out: &mut Vec<u8>) {
        let Invocation { host, client, .. } = invocation;
        let result = self.lua.call(Some(host), arguments, Some(1));
        let mut frame = self.lua.frame();
        match result {
            Ok(()) => {
                write_value(&mut frame, host, client, out);
                frame.set_top(0);
            }
            Err(LuaError) => {
                write_failure(&mut frame, script.name(), host, out);
                self.recover();
            }
        }
        self.collect_if_large();
    }

    /// Collects garbage if much memory is in use. Lua 5.1 does not do so by itself when memory runs out, and the
    /// garbage of one script must not count against the next.
    pub fn collect_if_large(&mut self) {
        if self.lua.used() > self.collect_at {
            self.lua.collect();
            self.collect_at = (self.lua.used() * 2).clamp(COLLECT_ABOVE, MEMORY_LIMIT / 4 * 3);
        }
    }

    /// Restores the stack and the tick interval after an error.
    pub fn recover(&mut self) {
        self.lua.frame().set_top(0);
        // The hook of a stopped script is called at every instruction.
        self.lua.tick_every(TICK);
    }
}

/// Pushes an array of words.
pub(super) fn push_words(frame: &mut Frame<'_>, words: Words<'_>) {
    frame.push_table(words.len(), 0);
    for (element, word) in (1..).zip(words.iter()) {
        frame.push_bytes(word);
        frame.raw_set_index(-2, element);
    }
}

/// Appends the error reply for the error value on top of the stack.
fn write_failure(frame: &mut Frame<'_>, name: &[u8], host: &dyn Host, out: &mut Vec<u8>) {
    if frame.kind(-1) != LuaType::Table {
        let message = frame.to_bytes(-1).unwrap_or(b"execution failure");
        let message = &message[..message.len().min(100)];
        let line = [b"ERR Error running script ", name, b", ", message].concat();
        host.answer_error(&line, false);
        return write_error(&line, out);
    }
    let mut line = match frame.raw_get_field(-1, "err") {
        LuaType::String | LuaType::Number => until_nul(frame.to_bytes(-1).unwrap_or_default()).to_vec(),
        _ => b"ERR unknown error".to_vec(),
    };
    frame.pop(1);
    let source = frame.raw_get_field(-1, "source") == LuaType::String;
    let numbered = matches!(frame.raw_get_field(-2, "line"), LuaType::Number | LuaType::String);
    if source && numbered {
        add_place(&mut line, name, host, frame.bytes(-2).unwrap_or_default());
        line.extend_from_slice(frame.to_bytes(-1).unwrap_or_default());
        line.push(b'.');
    }
    frame.pop(2);
    host.answer_error(&line, is_counted(frame, -1));
    write_error(&line, out);
}

/// Adds to an error where it was raised, up to the number of the line.
pub(super) fn add_place(error: &mut Vec<u8>, name: &[u8], host: &dyn Host, source: &[u8]) {
    error.extend_from_slice(b" script: ");
    // Valkey leaves the name of the script out.
    if !host.profile().has(UNNAMED) {
        error.extend_from_slice(name);
        error.extend_from_slice(b", ");
    }
    error.extend_from_slice(b"on ");
    error.extend_from_slice(source);
    error.push(b':');
}

const UNNAMED: Since = Since::valkey(9, 0, 0);
