//! One Lua interpreter and the scripts that it knows.

use std::collections::HashMap;
use std::ffi::CStr;

use super::convert::{write_error, write_value};
use super::lua::{Frame, Kept, Kind, Lua, Raised};
use super::sandbox;
use super::shebang::{self, Flags};
use super::{Host, api};
use crate::error::CommandError;
use crate::profile::Profile;
use crate::resp::{Protocol, Words};

/// What all scripts of one interpreter together may use. Redis knows no limit; here a script that eats memory gets Lua's
/// own error instead of taking the server down.
const MEMORY: usize = 512 << 20;
/// Beyond this, a script's end is the time to collect all garbage.
const HEAVY: usize = 64 << 20;
/// After how many scripts some garbage is collected in any case.
const STEP_EVERY: u32 = 50;
/// How many instructions may run before the host is asked whether the script may go on: well below a millisecond.
const TICK: u32 = 50_000;

/// The SHA-1 of a script's text, in hexadecimal: its name.
pub type Sha = [u8; 40];

/// A script that was compiled.
#[derive(Clone, Copy)]
pub struct Script {
    pub sha: Sha,
    pub flags: Flags,
    function: Kept,
}

/// How a script ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Returned,
    Failed,
}

/// The interpreter for EVAL and its kin.
pub struct Interpreter {
    lua: Lua,
    scripts: HashMap<Sha, Script>,
    /// The table of the real globals.
    globals: Kept,
    handler: Kept,
    /// Bytes of source text of all scripts.
    source_bytes: usize,
    /// Beyond how many bytes in use all garbage is collected.
    collect_at: usize,
    /// How many scripts have run since some garbage was.
    since_step: u32,
}

impl Interpreter {
    pub fn new(profile: &Profile) -> Self {
        let mut lua = Lua::new(MEMORY);
        sandbox::furnish(&mut lua, profile);
        let mut frame = lua.frame();
        frame.set_top(1);
        let globals = frame.keep();
        frame.push_native(api::handle_error);
        let handler = frame.keep();
        lua.tick_every(TICK);
        Self { lua, scripts: HashMap::new(), globals, handler, source_bytes: 0, collect_at: HEAVY, since_step: 0 }
    }

    /// Bytes that Lua uses.
    pub fn used(&self) -> usize {
        self.lua.used()
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
        let loaded = self.lua.load(text, NAME);
        let mut frame = self.lua.frame();
        let result = match loaded {
            Ok(()) => Ok(Script { sha, flags, function: frame.keep() }),
            Err(Raised) => {
                let message = frame.to_bytes(-1).unwrap_or_default();
                Err(CommandError::quoting("ERR Error compiling script (new function): ", message, ""))
            }
        };
        frame.set_top(0);
        self.tidy();
        result
    }

    /// Runs a script, and appends what it returns, or its error, in the client's protocol.
    pub fn run(
        &mut self,
        script: &Script,
        keys: Words<'_>,
        arguments: Words<'_>,
        host: &dyn Host,
        client: Protocol,
        out: &mut Vec<u8>,
    ) -> Outcome {
        let mut frame = self.lua.frame();
        frame.set_top(0);
        frame.push_kept(self.handler);
        frame.push_kept(self.globals);
        set_words(&mut frame, "KEYS", keys);
        set_words(&mut frame, "ARGV", arguments);
        frame.pop(1);
        frame.push_kept(script.function);
        let result = self.lua.call(Some(host), 0, Some(1));
        let mut frame = self.lua.frame();
        let outcome = match result {
            Ok(()) => {
                write_value(&mut frame, host.protocol(), client, out);
                Outcome::Returned
            }
            Err(Raised) => {
                write_failure(&mut frame, &script.sha, host.profile(), out);
                Outcome::Failed
            }
        };
        frame.set_top(0);
        // After a script was stopped Lua asks at every instruction.
        self.lua.tick_every(TICK);
        self.tidy();
        outcome
    }

    /// Collects garbage. Lua 5.1 does not do so by itself when memory runs out, and what one script has left behind must
    /// not be missing to the next.
    fn tidy(&mut self) {
        self.since_step += 1;
        if self.lua.used() > self.collect_at {
            self.lua.collect();
            self.collect_at = (self.lua.used() * 2).clamp(HEAVY, MEMORY / 4 * 3);
        } else if self.since_step >= STEP_EVERY {
            self.lua.collect_step();
            self.since_step = 0;
        }
    }
}

/// What scripts are called in messages.
const NAME: &CStr = c"@user_script";

pub fn sha_of(source: &[u8]) -> Sha {
    let mut sha = [0; 40];
    let hex = sha1_smol::Sha1::from(source).digest().to_string();
    sha.copy_from_slice(hex.as_bytes());
    sha
}

/// Sets a field of the table on top to the words.
fn set_words(frame: &mut Frame<'_>, name: &str, words: Words<'_>) {
    frame.push_table(words.len(), 0);
    for (element, word) in (1..).zip(words.iter()) {
        frame.push_bytes(word);
        frame.raw_set_index(-2, element);
    }
    frame.raw_set_field(-2, name);
}

/// Appends the reply for the error on top of the stack.
pub fn write_failure(frame: &mut Frame<'_>, name: &[u8], profile: &Profile, out: &mut Vec<u8>) {
    if frame.kind(-1) != Kind::Table {
        let message = frame.to_bytes(-1).unwrap_or(b"execution failure");
        let message = &message[..message.len().min(100)];
        let line = [b"ERR Error running script ", name, b", ", message].concat();
        return write_error(&line, out);
    }
    let mut line = match frame.raw_get_field(-1, "err") {
        Kind::String => frame.bytes(-1).unwrap_or_default().to_vec(),
        _ => b"ERR unknown error".to_vec(),
    };
    frame.pop(1);
    let source = frame.raw_get_field(-1, "source") == Kind::String;
    let numbered = matches!(frame.raw_get_field(-2, "line"), Kind::Number | Kind::String);
    if source && numbered {
        line.extend_from_slice(b" script: ");
        // Valkey keeps the name to itself.
        if profile.has(UNNAMED) {
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
    write_error(&line, out);
}

const UNNAMED: crate::profile::Since = crate::profile::Since::valkey(9, 0, 0);
