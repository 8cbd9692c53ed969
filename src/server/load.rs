//! Loading data from files before a server accepts connections.

use std::io::{BufRead, BufReader, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::base::error::{Error, plain};
use crate::base::files;
use crate::clients::acl::Acl;
use crate::clients::instance::Instance;
use crate::clients::session::{Client, Flow, Peer, Session, Wait};
use crate::clients::stats::Counters;
use crate::data::keyspace::{Entry, hash_of};
use crate::data::rdb::{Key, SnapshotError, SnapshotItem, SnapshotReader, is_snapshot, suits};
use crate::data::seed::{Source, SourceError};
use crate::engine::{Engine, Fibers};
use crate::protocol::{OwnedWords, Reply, first_error};

/// How long a script may run, and how long the next bytes of a pipe may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// The number of bytes that identify a file's format.
const HEAD: u64 = 16;

/// Loads a file: a Redis snapshot, or commands.
pub(super) fn load(engine: &Arc<Engine>, path: &Path) -> Result<(), Error> {
    Loader { engine, path }.load()
}

/// Loads what an earlier server has kept in `dbfilename`, if there is such a file.
pub(super) fn load_kept(engine: &Arc<Engine>) -> Result<(), Error> {
    let Instance { config, log, .. } = &*engine.instance;
    let path = config.path("dir").unwrap_or_default().join(config.path("dbfilename").unwrap_or_default());
    let refused = |reason: String| Error::Load { path: path.clone(), line: None, reason };
    match path.metadata() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(refused(plain(&error))),
        // A pipe would make the start wait.
        Ok(found) if !found.is_file() => return Err(refused("it is no regular file".to_owned())),
        Ok(_) => {}
    }
    let bytes = std::fs::read(&path).map_err(|error| refused(plain(&error)))?;
    if !is_snapshot(&bytes) {
        return Err(refused("it is no snapshot".to_owned()));
    }
    Loader { engine, path: &path }.snapshot(&bytes)?;
    log.notice(format!("DB loaded from disk: {}", path.display()));
    Ok(())
}

struct Loader<'l> {
    engine: &'l Arc<Engine>,
    path: &'l Path,
}

impl Loader<'_> {
    fn load(&self) -> Result<(), Error> {
        let unreadable = |error: std::io::Error| self.fault(None, plain(&error));
        let mut file = files::open_patiently(self.path, PATIENCE).map_err(unreadable)?;
        let mut head = Vec::new();
        file.by_ref().take(HEAD).read_to_end(&mut head).map_err(unreadable)?;
        if !is_snapshot(&head) {
            return self.commands(Source::new(BufReader::new(head.chain(file)), 1));
        }
        // A snapshot is read whole: its values cross any buffer border.
        file.read_to_end(&mut head).map_err(unreadable)?;
        let rest = self.snapshot(&head)?;
        self.commands(Source::new(rest, 1))
    }

    fn fault(&self, line: Option<u64>, reason: String) -> Error {
        Error::Load { path: self.path.to_owned(), line, reason }
    }

    // ---- snapshots

    /// Loads a snapshot. Returns the bytes behind it.
    fn snapshot<'b>(&self, bytes: &'b [u8]) -> Result<&'b [u8], Error> {
        let fault = |reason: String| self.fault(None, reason);
        let Some(mut reader) = SnapshotReader::new(bytes) else { return Ok(bytes) };
        let mut db = 0;
        while let Some(piece) =
            reader.next().map_err(|SnapshotError { at, reason }| fault(format!("at byte {at}: {reason}")))?
        {
            match piece {
                SnapshotItem::Library(source) => self.library(&source).map_err(fault)?,
                SnapshotItem::Database(number) => db = self.database(number).map_err(fault)?,
                SnapshotItem::Key(key) => {
                    let name = key.name.escape_ascii().to_string();
                    self.key(db, key).map_err(|reason| fault(format!("the value of '{name}' {reason}")))?;
                }
            }
        }
        Ok(reader.rest())
    }

    fn library(&self, source: &[u8]) -> Result<(), String> {
        let instance = &self.engine.instance;
        if !instance.profile.since_redis(7, 0) {
            return Err(format!("it holds functions, which {} does not have", instance.profile));
        }
        let Some(mut interpreters) = instance.scripts.try_lock() else {
            return Err("a script runs".to_owned());
        };
        let loaded = interpreters.functions(&instance.profile).load(source, true, &instance.log, &instance.profile);
        instance.scripts.update_stats(&interpreters);
        loaded.map(drop).map_err(|error| error.to_string())
    }

    fn database(&self, number: usize) -> Result<u32, String> {
        let databases = self.engine.instance.keyspace.databases();
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        if number >= databases {
            return Err(format!("it holds data of database {number}, and there are {databases}, counted from 0"));
        }
        Ok(number)
    }

    fn key(&self, db: u32, key: Key) -> Result<(), String> {
        let instance = &self.engine.instance;
        let Key { name, content, deadline, idle, frequency } = key;
        if !suits(&content, &instance.profile) {
            return Err(format!("has fields with a time to live, which {} does not have", instance.profile));
        }
        let Ok(mut view) = instance.keyspace.lock_key(&name, hash_of(&name), db, &instance.clock) else {
            return Err("is locked by a script".to_owned());
        };
        if deadline.is_none_or(|deadline| deadline >= view.now()) {
            let usage = view.restored_usage(Some(idle.into()), frequency);
            let entry = Entry::of_content(&name, content, view.settings(), &instance.profile, deadline, usage);
            view.replace(view.unshared(entry.ok_or("contradicts itself")?));
        }
        instance.finish_view(view, None);
        Ok(())
    }

    // ---- commands

    fn commands<R: BufRead>(&self, mut source: Source<R>) -> Result<(), Error> {
        let scripts = &self.engine.instance.scripts;
        scripts.limit_time(Some(PATIENCE));
        let played = self.play(&mut source);
        scripts.limit_time(None);
        played
    }

    fn play<R: BufRead>(&self, source: &mut Source<R>) -> Result<(), Error> {
        let mut loader = CommandLoader::new(self.engine, self.path);
        loop {
            let played = match source.next() {
                Ok(Some(words)) => catch_unwind(AssertUnwindSafe(|| loader.play(words))).unwrap_or_else(|panic| {
                    self.engine.instance.record_panic("while loading a file", &*panic);
                    Err("the command makes the server panic, which is a bug in redouble".to_owned())
                }),
                Ok(None) => break,
                Err(damage) => Err(text_of(damage)),
            };
            played.map_err(|reason| self.fault(Some(source.line()), reason))?;
        }
        if loader.session.transaction.is_some() {
            return Err(self.fault(Some(source.line()), "the file ends after MULTI, without EXEC".to_owned()));
        }
        Ok(())
    }
}

fn text_of(damage: SourceError) -> String {
    match damage {
        SourceError::Quotes => "unbalanced quotes".to_owned(),
        SourceError::TooLong => "the line is longer than 2 GB".to_owned(),
        SourceError::Cut => "the file ends in the middle of a command".to_owned(),
        SourceError::Protocol(error) => error.to_command_error().to_string(),
        SourceError::Io(error) => plain(&error),
    }
}

/// Runs commands as a client with all permissions, which is not listed or counted.
struct CommandLoader<'p> {
    engine: &'p Arc<Engine>,
    session: Box<Session>,
    fibers: Fibers,
    reply: Vec<u8>,
}

impl<'p> CommandLoader<'p> {
    fn new(engine: &'p Arc<Engine>, path: &Path) -> Self {
        let now = engine.instance.clock.millis();
        let client = Client::new(0, Peer::Unix { path: path.to_owned(), pid: None }, -1, now);
        let nobody = Acl::new(&engine.table);
        let mut session = Session::new(Arc::new(client), nobody.default_user(), Arc::<Counters>::default());
        session.authenticated = true;
        Self { engine, session: Box::new(session), fibers: Fibers::default(), reply: Vec::new() }
    }

    /// Runs one command. The error says why it failed.
    fn play(&mut self, words: &OwnedWords) -> Result<(), String> {
        self.reply.clear();
        let words = words.as_words();
        if let Some(row) = self.engine.table.row_of(words).filter(|row| row.spec.needs_client()) {
            let name = self.engine.table.full_name(row.spec);
            return Err(format!("'{name}' is for clients of a running server, and not for a file"));
        }
        let resolved = self.engine.resolve(words);
        let mut flow = self.engine.execute(&mut self.session, resolved, words, &mut self.reply, &mut self.fibers);
        loop {
            flow = match flow {
                Flow::Continue => break,
                Flow::Close | Flow::Reset | Flow::Drop => return Err("the command ends the connection".to_owned()),
                Flow::Move(_) => return Err("what is loaded goes to the server itself, not into a space".to_owned()),
                Flow::Wait(waiting) => match *waiting {
                    // A slow script.
                    Wait::Script => loop {
                        if let Some(flow) = self.fibers.resume(&mut self.session, &mut self.reply) {
                            break flow;
                        }
                    },
                    Wait::ControlJob(job, reply) => {
                        let ended = self.engine.run_control_job_here(job);
                        let reply = ended.map_or_else(Reply::Error, |()| reply);
                        self.engine.answer(&mut self.session, &reply, &mut self.reply);
                        Flow::Continue
                    }
                    _ => return Err("the command would wait, and nobody is there to end that".to_owned()),
                },
            };
        }
        match first_error(&self.reply) {
            None => Ok(()),
            Some(error) => Err(String::from_utf8_lossy(error).into_owned()),
        }
    }
}

impl Drop for CommandLoader<'_> {
    fn drop(&mut self) {
        self.engine.disconnect(&mut self.session, &[]);
    }
}
