//! One furnished Lua, and how things are run in it.

use std::sync::Arc;

use super::convert::{is_counted, write_error, write_value};
use super::lua::{Frame, Kept, Kind as Type, Lua, Raised};
use super::shebang::Flags;
use super::{Host, Kind, api, sandbox};
use crate::base::profile::{Profile, Since};
use crate::protocol::{Protocol, Words, until_nul};

/// What everything in one interpreter together may use. Redis knows no limit; here a script that eats memory gets Lua's
/// own error instead of taking the server down.
pub(super) const MEMORY: usize = 512 << 20;
/// Beyond this, a script's end is the time to collect all garbage.
const HEAVY: usize = 64 << 20;
/// How many instructions may run before the host is asked whether the script may go on: well below a millisecond.
const TICK: u32 = 50_000;

/// The SHA-1 of a script's text, in hexadecimal: its name.
pub type Sha = [u8; 40];

/// A script that was compiled, or a function that was registered.
#[derive(Clone, Debug)]
pub struct Script {
    pub(super) name: Name,
    pub flags: Flags,
    pub(super) function: Kept,
}

#[derive(Clone, Debug)]
pub(super) enum Name {
    Script(Sha),
    Function(Arc<[u8]>),
}

impl Script {
    /// What errors call it.
    pub fn name(&self) -> &[u8] {
        match &self.name {
            Name::Script(sha) => sha,
            Name::Function(name) => name,
        }
    }

    pub fn kind(&self) -> Kind {
        match self.name {
            Name::Script(_) => Kind::Eval,
            Name::Function(_) => Kind::Function,
        }
    }
}

/// Who called a script, and for what.
#[derive(Clone, Copy)]
pub struct Request<'r> {
    pub keys: Words<'r>,
    pub arguments: Words<'r>,
    pub host: &'r dyn Host,
    /// The client's protocol.
    pub client: Protocol,
}

pub(super) struct Machine {
    pub lua: Lua,
    handler: Kept,
    /// Beyond how many bytes in use all garbage is collected.
    collect_at: usize,
}

impl Machine {
    /// The table of the real globals is left on the stack, at index 1.
    pub fn new(kind: Kind, profile: &Profile) -> Self {
        let mut lua = Lua::new(MEMORY);
        sandbox::furnish(&mut lua, kind, profile);
        let mut frame = lua.frame();
        frame.set_top(1);
        frame.push_native(api::handle_error);
        let handler = frame.keep();
        lua.tick_every(TICK);
        Self { lua, handler, collect_at: HEAVY }
    }

    /// Begins with an empty stack, but for what handles errors.
    pub fn begin(&mut self) -> Frame<'_> {
        let mut frame = self.lua.frame();
        frame.set_top(0);
        frame.push_kept(self.handler);
        frame
    }

    /// Runs the function below its arguments, and appends what it returns, or its error, in the client's protocol.
    pub fn run(&mut self, arguments: usize, script: &Script, request: Request<'_>, out: &mut Vec<u8>) {
        let Request { host, client, .. } = request;
        let result = self.lua.call(Some(host), arguments, Some(1));
        let mut frame = self.lua.frame();
        match result {
            Ok(()) => {
                write_value(&mut frame, host, client, out);
                frame.set_top(0);
            }
            Err(Raised) => {
                write_failure(&mut frame, script.name(), host, out);
                self.recover();
            }
        }
        self.tidy();
    }

    /// Collects garbage if there may be much. Lua 5.1 does not do so by itself when memory runs out, and what one script has
    /// left behind must not be missing to the next.
    pub fn tidy(&mut self) {
        if self.lua.used() > self.collect_at {
            self.lua.collect();
            self.collect_at = (self.lua.used() * 2).clamp(HEAVY, MEMORY / 4 * 3);
        }
    }

    /// Makes everything as it was before something failed.
    pub fn recover(&mut self) {
        self.lua.frame().set_top(0);
        // If it was stopped, Lua asks at every instruction.
        self.lua.tick_every(TICK);
    }
}

/// Pushes a table of words.
pub(super) fn push_words(frame: &mut Frame<'_>, words: Words<'_>) {
    frame.push_table(words.len(), 0);
    for (element, word) in (1..).zip(words.iter()) {
        frame.push_bytes(word);
        frame.raw_set_index(-2, element);
    }
}

/// Appends the reply for the error on top of the stack.
fn write_failure(frame: &mut Frame<'_>, name: &[u8], host: &dyn Host, out: &mut Vec<u8>) {
    if frame.kind(-1) != Type::Table {
        let message = frame.to_bytes(-1).unwrap_or(b"execution failure");
        let message = &message[..message.len().min(100)];
        let line = [b"ERR Error running script ", name, b", ", message].concat();
        host.count_error(&line);
        return write_error(&line, out);
    }
    let mut line = match frame.raw_get_field(-1, "err") {
        Type::String | Type::Number => until_nul(frame.to_bytes(-1).unwrap_or_default()).to_vec(),
        _ => b"ERR unknown error".to_vec(),
    };
    frame.pop(1);
    let source = frame.raw_get_field(-1, "source") == Type::String;
    let numbered = matches!(frame.raw_get_field(-2, "line"), Type::Number | Type::String);
    if source && numbered {
        line.extend_from_slice(b" script: ");
        // Valkey keeps the name to itself.
        if host.profile().has(UNNAMED) {
            line.extend_from_slice(b"on ");
        } else {
            line.extend_from_slice(name);
            line.extend_from_slice(b", on ");
        }
        line.extend_from_slice(frame.bytes(-2).unwrap_or_default());
        line.push(b':');
        line.extend_from_slice(frame.to_bytes(-1).unwrap_or_default());
        line.push(b'.');
    }
    frame.pop(2);
    if !is_counted(frame, -1) {
        host.count_error(&line);
    }
    write_error(&line, out);
}

const UNNAMED: Since = Since::valkey(9, 0, 0);
