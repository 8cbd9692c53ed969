//! EVAL, FCALL and related commands: runs scripts, and the commands that they call.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use smallvec::SmallVec;

use super::Local;
use crate::base::clock::Stopwatch;
use crate::base::error::CommandError;
use crate::base::log::Level;
use crate::base::profile::{Profile, Since};
use crate::clients::instance::Instance;
use crate::clients::session::{Flow, Session};
use crate::commands::refuse_block_in_script;
use crate::data::keyspace::{Busy, View};
use crate::engine::replies::write;
use crate::engine::transaction::may_write;
use crate::engine::{Engine, is_exec, key_hashes};
use crate::powers::{Hook, HookPath, Rule};
use crate::protocol::{Protocol, Reply, Words, parse_integer};
use crate::script::{
    BusyScript, Host, Interpreters, Invocation, KillReason, Origin, Random, ScratchBuffers, Script, ScriptFlags,
    ScriptKind, Yielder, texts,
};
use crate::spec::{Args, Arity, CommandKind, CommandSpec, Flag, ResolvedRow, ScriptCommand as Which};

const READ_ONLY: CommandError = CommandError::fixed("ERR Write commands are not allowed from read-only scripts.");
const WRITES: CommandError = CommandError::fixed("ERR Can not execute a script with write flag using *_ro command.");
const NO_FUNCTION: CommandError = CommandError::fixed("ERR Function not found");
const BAD_NUMBER_OF_KEYS: CommandError = CommandError::fixed("ERR Bad number of keys provided");
const TOO_MANY_KEYS: CommandError = CommandError::fixed("ERR Number of keys can't be greater than number of args");
const NEGATIVE_KEYS: CommandError = CommandError::fixed("ERR Number of keys can't be negative");
const NO_ROOM_FOR_SCRIPT: CommandError =
    CommandError::fixed("OOM allow-oom flag is not set on the script, can not run it when used memory > 'maxmemory'");
const STALE_FOR_SCRIPT: CommandError = CommandError::fixed(
    "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no' and 'allow-stale' flag is not set \
     on the script.",
);
const WRITES_ON_REPLICA: CommandError =
    CommandError::fixed("READONLY Can not run script with write flag on readonly replica");
const STALE: CommandError = CommandError::fixed("ERR Can not execute the command on a stale replica");

/// So many bytes of an error that a script has made are searched for the end of its code.
const LONGEST_CODE: usize = 31;

/// The first Valkey that names an unknown subcommand to scripts as to clients.
const NAMES_SUBCOMMAND: Since = Since::valkey(9, 0, 0);

/// The environment of a running script.
pub(super) struct ScriptContext<'s, 'k> {
    pub view: &'s mut View<'k>,
    pub interpreters: &'s mut Interpreters,
    /// Pauses a slow script.
    pub yielder: Option<&'s Yielder<'s>>,
}

impl Local {
    /// Runs a script in its own view.
    pub(super) fn run_script(
        &self,
        front: &Engine,
        session: &mut Session,
        which: Which,
        args: &mut Args<'_>,
        out: &mut Vec<u8>,
        yielder: Option<&Yielder<'_>>,
    ) -> Result<Option<CommandError>, Busy> {
        let mut interpreters = self.interpreters()?;
        let hashes: SmallVec<[u64; 8]> = key_hashes(args.spec(), args.words()).collect();
        let instance = &self.instance;
        let mut view = instance.keyspace.lock_growing(&hashes, session.db, &instance.clock)?;
        session.timer.begin(args.row_id(), view.real_micros(), &session.counters, instance.config.live());
        super::attribute(&mut view, session);
        session.executing = true;
        let context = ScriptContext { view: &mut view, interpreters: &mut interpreters, yielder };
        let error = self.run_script_within(front, session, context, which, args, out);
        session.executing = false;
        instance.announce(&mut view, Some(session));
        instance.deliver_invalidations(session);
        self.finish_view(&mut view, session);
        Ok(error)
    }

    /// Runs a script in a given view. Returns the error if the script could not start.
    pub(super) fn run_script_within(
        &self,
        front: &Engine,
        session: &mut Session,
        context: ScriptContext<'_, '_>,
        which: Which,
        args: &mut Args<'_>,
        out: &mut Vec<u8>,
    ) -> Option<CommandError> {
        if self.instance.active_hooks.has(Hook::Monitor) {
            front.feed_monitors_ahead(session, args.words());
        }
        let is_told = session.in_flight.trace.is_open();
        if is_told {
            session.in_flight.trace.children().depth += 1;
        }
        let result = self.try_script(front, session, context, which, args, out);
        if is_told {
            session.in_flight.trace.children().depth -= 1;
        }
        match result {
            Ok(()) => None,
            Err(error) => write(Err(error), session, out),
        }
    }

    fn try_script(
        &self,
        front: &Engine,
        session: &mut Session,
        context: ScriptContext<'_, '_>,
        which: Which,
        args: &mut Args<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), CommandError> {
        let ScriptContext { view, interpreters, yielder } = context;
        let RequestedScript { script, read_only, keys, arguments } = self.find_script(interpreters, which, args)?;
        self.admit_script(script.flags, read_only)?;
        let words = args.words();
        let (scratch, random) = interpreters.take_run_state();
        let caller = ScriptHost {
            front,
            local: self,
            spec: args.spec(),
            words,
            script: &script,
            read_only: read_only || script.flags.no_writes,
            may_grow: script.flags.allow_oom,
            has_written: Cell::new(false),
            protocol: Cell::new(Protocol::Resp2),
            since: Cell::new(None),
            slow: SlowScript { instance: &self.instance, begun: Cell::new(false) },
            yielder,
            scratch: RefCell::new(scratch),
            random,
            has_failed: Cell::new(false),
            inner: RefCell::new(Inner { session: &mut *session, view }),
        };
        let client = caller.begin();
        let invocation = Invocation { keys, arguments, host: &caller, client: client.protocol };
        interpreters.run(&script, invocation, out);
        let has_failed = caller.has_failed.get();
        interpreters.return_run_state(caller.end(client));
        self.instance.scripts.end(interpreters);
        if has_failed {
            session.counters.calls.row(args.row_id()).add_failure();
        }
        Ok(())
    }

    /// Whether a request runs a script that needs no Lua. Such a script never pauses.
    pub fn runs_directly(&self, spec: &CommandSpec, words: Words<'_>) -> bool {
        let CommandKind::Script(which) = spec.kind else { return false };
        let (Some(script), Some(interpreters)) = (words.get(1), self.instance.scripts.try_lock()) else { return false };
        let found = interpreters.started_eval().and_then(|scripts| match which {
            Which::Eval { .. } => scripts.find_text(script),
            Which::EvalSha { .. } => scripts.find(script),
            Which::Function { .. } => None,
        });
        found.is_some_and(Script::is_direct)
    }

    /// The script that a request names, with its keys and arguments.
    fn find_script<'a>(
        &self,
        interpreters: &mut Interpreters,
        which: Which,
        args: &mut Args<'a>,
    ) -> Result<RequestedScript<'a>, CommandError> {
        let text = args.bytes()?;
        let profile = &self.instance.profile;
        let (script, read_only, (keys, arguments)) = match which {
            Which::Eval { read_only } => {
                let words = keys_and_arguments(args, CommandError::NOT_AN_INTEGER)?;
                (interpreters.eval(profile).load(text, Origin::Eval)?.clone(), read_only, words)
            }
            Which::EvalSha { .. } if text.len() != 40 => return Err(texts::no_script(profile)),
            Which::EvalSha { read_only } => {
                let words = keys_and_arguments(args, CommandError::NOT_AN_INTEGER)?;
                let known = interpreters.started_eval().and_then(|interpreter| interpreter.find(text));
                (known.cloned().ok_or_else(|| texts::no_script(profile))?, read_only, words)
            }
            Which::Function { read_only } => {
                let known = interpreters.started_functions().and_then(|libraries| libraries.find(text));
                let function = known.cloned().ok_or(NO_FUNCTION)?;
                (function, read_only, keys_and_arguments(args, BAD_NUMBER_OF_KEYS)?)
            }
        };
        Ok(RequestedScript { script, read_only, keys, arguments })
    }

    /// The flags that the script of a request declares, if it runs one with flags.
    fn declared_flags(&self, spec: &CommandSpec, words: Words<'_>) -> Option<ScriptFlags> {
        let CommandKind::Script(which) = spec.kind else { return None };
        let flags = match (which, words.get(1)?) {
            (Which::Eval { .. }, text) => ScriptFlags::of(text, &self.instance.profile)?,
            (Which::EvalSha { .. }, name) => self.interpreters().ok()?.started_eval()?.find(name)?.flags,
            (Which::Function { .. }, name) => self.interpreters().ok()?.started_functions()?.find(name)?.flags,
        };
        Some(flags).filter(|flags| !flags.no_shebang)
    }

    /// Whether something is true of a request, or of one that EXEC runs: of its row and of the flags that its script declares.
    fn any_request(
        &self,
        session: &Session,
        (spec, words): (&CommandSpec, Words<'_>),
        is_true: impl Fn(&CommandSpec, Option<ScriptFlags>) -> bool,
    ) -> bool {
        let is_true = |spec: &CommandSpec, words| is_true(spec, self.declared_flags(spec, words));
        is_true(spec, words) || is_exec(spec) && session.queued().any(|queued| is_true(queued.row.spec, queued.words))
    }

    /// Whether a request runs scripts whose flags allow them to take memory.
    #[cold]
    pub fn scripts_may_grow(&self, session: &Session, spec: &CommandSpec, words: Words<'_>) -> bool {
        self.any_request(session, (spec, words), |_, flags| {
            flags.is_some_and(|flags| !flags.allow_oom && !flags.no_writes)
        })
    }

    /// Whether a request changes data, or may do so according to its scripts' flags.
    #[cold]
    pub fn will_write(&self, session: &Session, spec: &CommandSpec, words: Words<'_>) -> bool {
        self.any_request(session, (spec, words), |spec, flags| {
            flags.map_or_else(|| may_write(spec), |flags| !flags.no_writes)
        })
    }

    /// Whether a request writes, by the flags of its commands, or of its scripts where they have some.
    #[cold]
    pub fn is_write(&self, session: &Session, spec: &CommandSpec, words: Words<'_>) -> bool {
        self.any_request(session, (spec, words), |spec, flags| {
            flags.map_or_else(|| spec.has_flag(Flag::Write), |flags| !flags.no_writes)
        })
    }

    /// Whether a request is not to be answered from data that can be out of date.
    #[cold]
    pub fn needs_fresh_data(&self, session: &Session, spec: &CommandSpec, words: Words<'_>) -> bool {
        self.any_request(session, (spec, words), |spec, flags| {
            let is_stale_allowed = || spec.flags_in(&self.instance.profile).contains(&Flag::Stale);
            !flags.map_or_else(is_stale_allowed, |flags| flags.allow_stale)
        })
    }

    /// Checks whether a script may start, by its flags.
    fn admit_script(&self, flags: ScriptFlags, read_only: bool) -> Result<(), CommandError> {
        if !flags.allow_stale && self.instance.is_stale_replica() {
            return Err(if flags.no_shebang { CommandError::MASTER_DOWN } else { STALE_FOR_SCRIPT });
        }
        if flags.no_shebang || flags.no_writes {
            return Ok(());
        }
        if self.instance.is_read_only_replica() {
            return Err(WRITES_ON_REPLICA);
        }
        if read_only {
            return Err(WRITES);
        }
        if let Some(error) = self.instance.failed_save() {
            return Err(error);
        }
        if self.instance.lacks_replicas() {
            return Err(CommandError::NO_REPLICAS);
        }
        if !flags.allow_oom && self.instance.is_out_of_memory() {
            return Err(NO_ROOM_FOR_SCRIPT);
        }
        Ok(())
    }
}

/// A script with the keys and arguments of its request.
struct RequestedScript<'a> {
    script: Script,
    read_only: bool,
    keys: Words<'a>,
    arguments: Words<'a>,
}

/// The arguments behind `numkeys`, as keys and arguments.
fn keys_and_arguments<'a>(
    args: &mut Args<'a>,
    no_number: CommandError,
) -> Result<(Words<'a>, Words<'a>), CommandError> {
    let count = parse_integer(args.bytes()?).ok_or(no_number)?;
    let rest = args.rest();
    if count > rest.len() as i64 {
        return Err(TOO_MANY_KEYS);
    }
    let count = usize::try_from(count).map_err(|_| NEGATIVE_KEYS)?;
    Ok((rest.first(count), rest.from(count)))
}

/// One run of a script: the server's interface to the interpreter.
struct ScriptHost<'r, 'v, 'k> {
    front: &'r Engine,
    local: &'r Local,
    /// The request that runs the script.
    spec: &'static CommandSpec,
    words: Words<'r>,
    script: &'r Script,
    read_only: bool,
    /// Whether it may write although the memory limit is reached.
    may_grow: bool,
    has_written: Cell<bool>,
    protocol: Cell<Protocol>,
    /// The start of the run. Set at the first check: most scripts end before.
    since: Cell<Option<Stopwatch>>,
    slow: SlowScript<'r>,
    yielder: Option<&'r Yielder<'r>>,
    scratch: RefCell<ScratchBuffers>,
    random: Random,
    /// Its reply is or contains an error.
    has_failed: Cell<bool>,
    inner: RefCell<Inner<'r, 'v, 'k>>,
}

struct Inner<'r, 'v, 'k> {
    session: &'r mut Session,
    view: &'v mut View<'k>,
}

/// A slow script. Other commands get BUSY until this is dropped, even by a panic.
struct SlowScript<'r> {
    instance: &'r Instance,
    begun: Cell<bool>,
}

impl Drop for SlowScript<'_> {
    fn drop(&mut self) {
        if self.begun.get() {
            self.instance.scripts.set_busy(None);
            self.instance.active_hooks.disarm(Hook::SlowScript);
            self.instance.keyspace.set_busy(false);
        }
    }
}

/// The session state that a script can change, restored at its end.
struct SavedSelection {
    db: u32,
    protocol: Protocol,
}

impl ScriptHost<'_, '_, '_> {
    fn begin(&self) -> SavedSelection {
        let inner = self.inner.borrow();
        self.local.instance.scripts.begin(self.script.kind());
        SavedSelection { db: inner.session.db, protocol: inner.session.protocol }
    }

    fn end(self, before: SavedSelection) -> (ScratchBuffers, Random) {
        let Inner { session, view } = self.inner.into_inner();
        session.db = before.db;
        session.protocol = before.protocol;
        view.select(before.db);
        view.set_replicating(true);
        (self.scratch.into_inner(), self.random)
    }

    /// Makes other commands fail with BUSY instead of waiting.
    fn become_slow(&self, since: Stopwatch) {
        let instance = &self.local.instance;
        self.slow.begun.set(true);
        instance.scripts.set_busy(Some(BusyScript {
            name: self.script.name().to_vec(),
            command: self.words.iter().map(<[u8]>::to_vec).collect(),
            since,
        }));
        let name = String::from_utf8_lossy(self.script.name());
        let what = match self.script.kind() {
            ScriptKind::Eval => "SCRIPT KILL",
            ScriptKind::Function => "FUNCTION KILL",
        };
        instance.log.warn(format!(
            "A script has been running for {} milliseconds, and others are told BUSY. {what} ends it, unless it has \
             written. Its name is {name}.",
            since.elapsed().as_millis()
        ));
        instance.keyspace.set_busy(true);
        instance.active_hooks.arm(Hook::SlowScript);
    }

    /// Whether a script may run a command.
    fn admit(&self, session: &mut Session, spec: &'static CommandSpec, words: Words<'_>) -> Result<(), CommandError> {
        let profile = &self.local.instance.profile;
        let (arity, flags) = (spec.arity_in(profile), spec.flags_in(profile));
        if !arity.admits(words.len()) || (spec.is_container && arity != Arity::Exactly(1)) {
            return Err(texts::wrong_arity(profile));
        }
        if flags.contains(&Flag::NoScript) && !self.may_run_noscript(spec) {
            return Err(texts::not_from_script(profile));
        }
        let instance = &self.local.instance;
        if !flags.contains(&Flag::Stale) && instance.is_stale_replica() {
            return Err(STALE);
        }
        self.front.permit_in_script(session, spec, words)?;
        if self.read_only && (spec.has_flag(Flag::Write) || spec.has_flag(Flag::MayReplicate)) {
            return Err(READ_ONLY);
        }
        if spec.has_flag(Flag::Write) && instance.is_read_only_replica() {
            return Err(CommandError::READ_ONLY_REPLICA);
        }
        if spec.has_flag(Flag::Write)
            && !self.has_written.get()
            && let Some(error) = instance.failed_save()
        {
            return Err(error);
        }
        if spec.has_flag(Flag::Write) && instance.lacks_replicas() {
            return Err(CommandError::NO_REPLICAS);
        }
        // A script that has written is not stopped in the middle.
        let may_grow = self.may_grow || self.has_written.get();
        if !may_grow && flags.contains(&Flag::DenyOom) && instance.is_out_of_memory() {
            return Err(CommandError::OUT_OF_MEMORY);
        }
        if spec.has_flag(Flag::Write) {
            self.has_written.set(true);
            instance.scripts.note_write();
        }
        Ok(())
    }

    /// Whether DEBUG SET-DISABLE-DENY-SCRIPTS allows a command. It never allows what needs the interpreters, which the
    /// script holds, nor what changes the connection, which is the caller's.
    #[cold]
    fn may_run_noscript(&self, spec: &CommandSpec) -> bool {
        let needs_caller = [Flag::NoAuth, Flag::PubSub, Flag::NoMulti].into_iter().any(|flag| spec.has_flag(flag));
        let is_possible = match spec.kind {
            CommandKind::Transaction(_) | CommandKind::Script(_) | CommandKind::Library | CommandKind::Container => {
                false
            }
            CommandKind::Keys
            | CommandKind::Blocking
            | CommandKind::Database
            | CommandKind::Everything
            | CommandKind::Connection
            | CommandKind::Debug => !needs_caller && !spec.never_queued,
        };
        is_possible && self.local.instance.debug_switches.noscript_in_scripts.load(Ordering::Relaxed)
    }

    /// Runs a command that the script calls, and returns its row. An error may come from a fault rule.
    fn run_call(
        &self,
        inner: &mut Inner<'_, '_, '_>,
        words: Words<'_>,
        reply: &mut Vec<u8>,
    ) -> Result<&'static CommandSpec, (CommandError, Option<Arc<Rule>>)> {
        let Self { front, local, .. } = self;
        let Inner { session, view } = inner;
        let found = local.table.row_of(words);
        let checked = match found {
            None => {
                front.count_unsupported(words);
                let profile = &local.instance.profile;
                let named = profile.has(NAMES_SUBCOMMAND).then(|| local.table.unknown_subcommand(words)).flatten();
                Err(named.unwrap_or_else(|| texts::unknown_command(profile)))
            }
            Some(row) => self
                .admit(session, row.spec, words)
                .and_then(|()| refuse_block_in_script(words, &local.instance.profile).map_or(Ok(row), Err)),
        };
        let row = checked
            .inspect_err(|error| {
                local.instance.stats.count_error(error.code());
                front.count_rejection(session, found.map(|row| row.id));
            })
            .map_err(|error| (error, None))?;
        let ResolvedRow { spec, .. } = row;
        if local.instance.active_hooks.path() == HookPath::All
            && let Some((error, rule)) = front.fault_inside(session, spec, words)
        {
            return Err((error, Some(rule)));
        }
        session.protocol = self.protocol.get();
        // No command that scripts may call closes the connection.
        view.set_repeatable(true);
        let _: Flow = local.run_within(front, session, view, row, words, reply);
        view.set_repeatable(false);
        if session.tracking.remembers {
            // Up to 7.0, tracking remembers the declared keys of a script instead of its reads.
            if local.instance.profile.since_redis(7, 2) {
                local.track_reads(view, session, spec, words);
            } else if spec.has_flag(Flag::ReadOnly) {
                local.track_keys(view, session, self.spec, self.words);
            }
        }
        if local.instance.active_hooks.affects_processing() {
            front.feed_monitors_from_script(session, spec, words);
        }
        Ok(spec)
    }
}

impl Host for ScriptHost<'_, '_, '_> {
    fn set_replicating(&self, sends: bool) {
        self.inner.borrow_mut().view.set_replicating(sends);
    }

    fn tick(&self) -> Result<(), &'static str> {
        let scripts = &self.local.instance.scripts;
        if !self.slow.begun.get() {
            let threshold = self.local.instance.config.live().busy_threshold.load(Ordering::Relaxed);
            let since = self.since.get().unwrap_or_else(Stopwatch::start);
            self.since.set(Some(since));
            if threshold > 0 && since.elapsed().as_millis() >= u128::from(threshold) {
                self.become_slow(since);
            }
        }
        if self.slow.begun.get()
            && scripts.kill_requested().is_none()
            && let Some(yielder) = self.yielder
        {
            yielder.suspend();
        }
        match scripts.kill_requested() {
            None if self.since.get().is_some_and(|since| scripts.is_overdue(since)) => {
                Err("ERR The script takes too long for a file that is loaded.")
            }
            None => Ok(()),
            // Redis uses the same text for functions.
            Some(KillReason::Eval | KillReason::Function) => Err("ERR Script killed by user with SCRIPT KILL..."),
            Some(KillReason::Shutdown) => Err("ERR The server ends."),
        }
    }

    fn call(&self, words: Words<'_>, reply: &mut Vec<u8>) -> Result<(), CommandError> {
        let start = reply.len();
        let mut inner = self.inner.borrow_mut();
        let result = self.run_call(&mut inner, words, reply);
        let session = &mut inner.session;
        if session.in_flight.trace.is_open() {
            match &result {
                Ok(spec) => self.front.record_child(session, Some(spec), words, &reply[start..], None),
                Err((error, rule)) => {
                    let mut line = Vec::new();
                    Reply::Error(error.clone()).write(session.protocol, &mut line);
                    let fault = rule.as_ref().map(|rule| rule.fault.name.as_str());
                    self.front.record_child(session, None, words, &line, fault);
                }
            }
        }
        result.map(|_| ()).map_err(|(error, _)| error)
    }

    fn protocol(&self) -> Protocol {
        self.protocol.get()
    }

    fn set_protocol(&self, protocol: Protocol) {
        self.protocol.set(protocol);
    }

    fn may_run(&self, words: Words<'_>) -> Option<bool> {
        let acl = &self.local.instance.acl;
        let spec = match self.local.table.row_of(words) {
            Some(ResolvedRow { spec, .. }) => spec,
            None => acl.commands().absent_row(words)?.0,
        };
        let session = &self.inner.borrow().session;
        let databases = self.local.instance.database_context(session);
        Some(acl.may_run(&session.user, spec, words, databases).is_ok())
    }

    fn log(&self, level: Level, text: &str) {
        self.local.instance.log.write(level, text);
    }

    fn profile(&self) -> &Profile {
        &self.local.instance.profile
    }

    fn scratch(&self) -> &RefCell<ScratchBuffers> {
        &self.scratch
    }

    fn random(&self) -> &Random {
        &self.random
    }

    fn answer_error(&self, line: &[u8], is_counted: bool) {
        self.has_failed.set(true);
        if !is_counted {
            // As in Redis, only what stands before a space is a code, and only near the beginning.
            let line = line.trim_ascii_end();
            let space = line.iter().take(LONGEST_CODE).position(|byte| matches!(byte, b' ' | b'\r' | b'\n'));
            self.local.instance.stats.count_error(space.map_or(b"ERR", |end| &line[..end]));
        }
    }
}
