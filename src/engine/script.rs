//! EVAL and its kin: runs scripts, and runs the commands that they call.

use std::cell::{Cell, RefCell};
use std::sync::atomic::Ordering;
use std::time::Duration;

use smallvec::SmallVec;

use super::{Engine, key_hashes, write};
use crate::clock::Stopwatch;
use crate::control::Matter;
use crate::error::CommandError;
use crate::keyspace::{Busy, View};
use crate::log::Level;
use crate::profile::Profile;
use crate::resp::{Protocol, Words, parse_integer};
use crate::script::{Flags, Host, Interpreters, Kill, Kind, Outcome, Pause, Scratch, Slow};
use crate::session::Session;
use crate::spec::{Args, Arity, CommandSpec, Flag, Flow, Script as Which};

const UNKNOWN: CommandError = CommandError::fixed("ERR Unknown Redis command called from script");
const WRONG_ARITY: CommandError = CommandError::fixed("ERR Wrong number of args calling Redis command from script");
const NOT_FROM_SCRIPT: CommandError = CommandError::fixed("ERR This Redis command is not allowed from script");
const READ_ONLY: CommandError = CommandError::fixed("ERR Write commands are not allowed from read-only scripts.");
const TOO_MANY_KEYS: CommandError = CommandError::fixed("ERR Number of keys can't be greater than number of args");
const NEGATIVE_KEYS: CommandError = CommandError::fixed("ERR Number of keys can't be negative");
const NO_ROOM_FOR_SCRIPT: CommandError =
    CommandError::fixed("OOM allow-oom flag is not set on the script, can not run it when used memory > 'maxmemory'");

impl Engine {
    /// Runs a script in a view of its own.
    pub(super) fn run_script(
        &self,
        session: &mut Session,
        which: Which,
        args: &mut Args<'_>,
        out: &mut Vec<u8>,
        pause: Option<&Pause<'_>>,
    ) -> Result<Option<CommandError>, Busy> {
        let mut interpreters = self.interpreters()?;
        let hashes: SmallVec<[u64; 8]> = key_hashes(args.spec(), args.words()).collect();
        let instance = &self.instance;
        let mut view = instance.keyspace.lock_growing(&hashes, session.db, &instance.clock)?;
        view.set_touch(!session.no_touch);
        session.executing = true;
        let error = self.run_script_within(session, &mut view, &mut interpreters, which, args, out, pause);
        session.executing = false;
        let tally = instance.settle(view, Some(session));
        session.tally += tally;
        Ok(error)
    }

    /// Runs a script in a view that others have opened. Hands back the error, if the script did not run at all.
    #[expect(clippy::too_many_arguments, reason = "what a script may touch, and nothing of it belongs together")]
    pub(super) fn run_script_within(
        &self,
        session: &mut Session,
        view: &mut View<'_>,
        interpreters: &mut Interpreters,
        which: Which,
        args: &mut Args<'_>,
        out: &mut Vec<u8>,
        pause: Option<&Pause<'_>>,
    ) -> Option<CommandError> {
        match self.try_script(session, view, interpreters, which, args, out, pause) {
            Ok(()) => None,
            Err(error) => write(Err(error), session, out),
        }
    }

    #[expect(clippy::too_many_arguments, reason = "as above")]
    fn try_script(
        &self,
        session: &mut Session,
        view: &mut View<'_>,
        interpreters: &mut Interpreters,
        which: Which,
        args: &mut Args<'_>,
        out: &mut Vec<u8>,
        pause: Option<&Pause<'_>>,
    ) -> Result<(), CommandError> {
        let interpreter = interpreters.eval(&self.instance.profile);
        let text = args.bytes()?;
        if matches!(which, Which::EvalSha { .. }) && text.len() != 40 {
            return Err(CommandError::NO_SCRIPT);
        }
        let (keys, arguments) = keys_and_arguments(args)?;
        let (script, read_only) = match which {
            Which::Eval { read_only } => (*interpreter.load(text)?, read_only),
            Which::EvalSha { read_only } => (*interpreter.find(text).ok_or(CommandError::NO_SCRIPT)?, read_only),
        };
        self.admit_script(script.flags)?;
        let words = args.words();
        let caller = Caller {
            engine: self,
            words,
            name: &script.sha,
            kind: Kind::Eval,
            read_only: read_only || script.flags.no_writes,
            may_grow: script.flags.allow_oom,
            protocol: Cell::new(Protocol::Resp2),
            since: Stopwatch::start(),
            slow: Cell::new(false),
            pause,
            scratch: RefCell::new(interpreters.take_scratch()),
            inner: RefCell::new(Inner { session, view }),
        };
        let client = caller.begin();
        let interpreter = interpreters.eval(&self.instance.profile);
        let start = out.len();
        let outcome = interpreter.run(&script, keys, arguments, &caller, client.protocol, out);
        let scratch = caller.end(client);
        interpreters.give_scratch(scratch);
        self.instance.scripts.end(interpreters);
        if outcome == Outcome::Failed {
            let line = out[start..].strip_prefix(b"-").unwrap_or_default();
            let code = line.split(|byte| matches!(byte, b' ' | b'\r')).next().unwrap_or_default();
            self.instance.stats.count_error(code);
        }
        Ok(())
    }

    /// Whether a script may start, by what it says about itself.
    fn admit_script(&self, flags: Flags) -> Result<(), CommandError> {
        let limit = self.instance.config.live().max_memory.load(Ordering::Relaxed);
        let exempt = flags.unsaid || flags.allow_oom || flags.no_writes;
        if limit != 0 && !exempt && self.instance.keyspace.used_bytes() > limit {
            return Err(NO_ROOM_FOR_SCRIPT);
        }
        Ok(())
    }
}

/// The words behind `numkeys`, as keys and arguments.
fn keys_and_arguments<'a>(args: &mut Args<'a>) -> Result<(Words<'a>, Words<'a>), CommandError> {
    let count = parse_integer(args.bytes()?).ok_or(CommandError::NOT_AN_INTEGER)?;
    let rest = args.rest();
    if count > rest.len() as i64 {
        return Err(TOO_MANY_KEYS);
    }
    let count = usize::try_from(count).map_err(|_| NEGATIVE_KEYS)?;
    Ok((rest.first(count), rest.from(count)))
}

/// One run of a script: what it does to the server goes through here.
struct Caller<'r, 'v, 'k> {
    engine: &'r Engine,
    words: Words<'r>,
    name: &'r [u8],
    kind: Kind,
    read_only: bool,
    /// It may write although the memory limit is reached.
    may_grow: bool,
    protocol: Cell<Protocol>,
    since: Stopwatch,
    slow: Cell<bool>,
    pause: Option<&'r Pause<'r>>,
    scratch: RefCell<Scratch>,
    inner: RefCell<Inner<'r, 'v, 'k>>,
}

struct Inner<'r, 'v, 'k> {
    session: &'r mut Session,
    view: &'v mut View<'k>,
}

/// What a script changes about its client's session, and what is put back when it has ended.
struct Before {
    db: u32,
    protocol: Protocol,
}

impl Caller<'_, '_, '_> {
    fn begin(&self) -> Before {
        let inner = self.inner.borrow();
        self.engine.instance.scripts.begin(self.kind);
        Before { db: inner.session.db, protocol: inner.session.protocol }
    }

    fn end(self, before: Before) -> Scratch {
        let Inner { session, view } = self.inner.into_inner();
        session.db = before.db;
        session.protocol = before.protocol;
        view.select(before.db);
        if self.slow.get() {
            self.engine.instance.attention.lower(Matter::Script);
            self.engine.instance.keyspace.set_busy(false);
        }
        self.scratch.into_inner()
    }

    /// From now on others are told that the server is busy, instead of waiting.
    fn become_slow(&self, elapsed: Duration) {
        let instance = &self.engine.instance;
        self.slow.set(true);
        instance.scripts.set_slow(Slow {
            name: self.name.to_vec(),
            command: self.words.iter().map(<[u8]>::to_vec).collect(),
            since: self.since,
        });
        let (what, name) = match self.kind {
            Kind::Eval => ("SCRIPT KILL", String::from_utf8_lossy(self.name)),
            Kind::Function => ("FUNCTION KILL", String::from_utf8_lossy(self.name)),
        };
        instance.log.warn(format!(
            "A script has been running for {} milliseconds, and others are told BUSY. {what} ends it, unless it has \
             written. Its name is {name}.",
            elapsed.as_millis()
        ));
        instance.keyspace.set_busy(true);
        instance.attention.raise(Matter::Script);
    }

    /// Whether a script may run a command.
    fn admit(&self, spec: &CommandSpec, words: Words<'_>) -> Result<(), CommandError> {
        if !spec.arity.admits(words.len()) || (!spec.subcommands.is_empty() && spec.arity != Arity::Exactly(1)) {
            return Err(WRONG_ARITY);
        }
        if spec.has_flag(Flag::NoScript) {
            return Err(NOT_FROM_SCRIPT);
        }
        let instance = &self.engine.instance;
        if spec.has_flag(Flag::Write) {
            if self.read_only {
                return Err(READ_ONLY);
            }
            instance.scripts.note_write();
        }
        let limit = instance.config.live().max_memory.load(Ordering::Relaxed);
        if limit != 0 && !self.may_grow && spec.has_flag(Flag::DenyOom) && instance.keyspace.used_bytes() > limit {
            return Err(CommandError::OUT_OF_MEMORY);
        }
        Ok(())
    }
}

impl Host for Caller<'_, '_, '_> {
    fn tick(&self) -> Result<(), &'static str> {
        let scripts = &self.engine.instance.scripts;
        if !self.slow.get() {
            let threshold = self.engine.instance.config.live().busy_threshold.load(Ordering::Relaxed);
            let elapsed = self.since.elapsed();
            if threshold > 0 && elapsed.as_millis() >= u128::from(threshold) {
                self.become_slow(elapsed);
            }
        }
        if self.slow.get()
            && scripts.killed().is_none()
            && let Some(pause) = self.pause
        {
            pause.pause();
        }
        match scripts.killed() {
            None => Ok(()),
            // Of functions Redis says the same.
            Some(Kill::Eval | Kill::Function) => Err("ERR Script killed by user with SCRIPT KILL..."),
            Some(Kill::Shutdown) => Err("ERR The server ends."),
        }
    }

    fn call(&self, words: Words<'_>, reply: &mut Vec<u8>) -> Result<(), CommandError> {
        let engine = self.engine;
        let mut inner = self.inner.borrow_mut();
        let Inner { session, view } = &mut *inner;
        let checked = match engine.table.row_of(words) {
            None => Err(UNKNOWN),
            Some((spec, at)) => self.admit(spec, words).map(|()| (spec, at)),
        };
        let (spec, at) = checked.inspect_err(|error| engine.instance.stats.count_error(error.code()))?;
        session.protocol = self.protocol.get();
        // Nothing that scripts may call closes the connection.
        let _: Flow = engine.run_within(session, view, (spec, at), words, reply);
        if engine.instance.attention.is_needed() {
            engine.show_script(session, spec, words);
        }
        Ok(())
    }

    fn protocol(&self) -> Protocol {
        self.protocol.get()
    }

    fn set_protocol(&self, protocol: Protocol) {
        self.protocol.set(protocol);
    }

    fn may_run(&self, words: Words<'_>) -> Option<bool> {
        self.engine.table.row_of(words).map(|_| true)
    }

    fn log(&self, level: Level, text: &str) {
        self.engine.instance.log.write(level, text);
    }

    fn profile(&self) -> &Profile {
        &self.engine.instance.profile
    }

    fn scratch(&self) -> &RefCell<Scratch> {
        &self.scratch
    }
}
