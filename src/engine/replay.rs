//! A replica of another instance of this process: what its master sends runs here, and all data that it sends are taken over.

use std::sync::{Arc, Mutex};

use super::Engine;
use crate::base::sync::MutexExt;
use crate::clients::session::{Client, Session, Transaction};
use crate::data::keyspace::Busy;
use crate::protocol::{Framer, Limits, Words, parse_integer};
use crate::spec::{CommandKind, TransactionCommand};

/// The session in which the stream of a master runs.
#[derive(Default)]
pub(super) struct Replay(Mutex<Option<Box<Session>>>);

/// How far a part of a stream has run.
pub struct Replayed {
    /// So many bytes.
    pub bytes: usize,
    /// The database that is selected behind them.
    pub selected: u32,
    /// A script holds the data, so the rest has to wait.
    pub is_held_up: bool,
}

const OF_MASTER: Limits = Limits { bulk: i64::MAX, authenticated: true };

impl Engine {
    /// Takes over all data of a master, in place of those that are here.
    pub fn load_from_master(&self, snapshot: &[u8]) -> Result<(), Busy> {
        self.backend.take_over(snapshot)
    }

    /// Runs a part of a master's stream, in the name of the link. It ends with a whole command, and with a whole transaction.
    pub fn replay(&self, link: &Arc<Client>, selected: u32, stream: &[u8]) -> Replayed {
        let mut kept = self.replay.0.lock_ignoring_poison();
        let mut session = match kept.take().filter(|session| Arc::ptr_eq(&session.client, link)) {
            Some(session) => session,
            None => {
                let user = self.instance.acl.default_user();
                let mut session = Session::new(Arc::clone(link), user, self.instance.stats.thread(0));
                session.authenticated = true;
                (session.is_master, session.import_source) = (true, true);
                Box::new(session)
            }
        };
        session.db = selected;
        let replayed = self.replay_in(&mut session, stream);
        session.count();
        *kept = Some(session);
        replayed
    }

    fn replay_in(&self, session: &mut Session, stream: &[u8]) -> Replayed {
        let mut framer = Framer::default();
        let mut out = Vec::new();
        // A transaction counts as run when it has ended.
        let mut done = Replayed { bytes: 0, selected: session.db, is_held_up: false };
        let mut at = 0;
        while let Ok(Some(request)) = framer.next(&stream[at..], OF_MASTER) {
            let words = framer.words(request, &stream[at..]);
            if self.replay_one(session, words, &mut out).is_err() {
                session.transaction = None;
                done.is_held_up = true;
                break;
            }
            out.clear();
            framer.forget();
            at += request.length();
            if session.transaction.is_none() {
                (done.bytes, done.selected) = (at, session.db);
            }
        }
        done
    }

    fn replay_one(&self, session: &mut Session, words: Words<'_>, out: &mut Vec<u8>) -> Result<(), Busy> {
        let Ok(resolved) = self.resolve(words) else {
            let name = String::from_utf8_lossy(words.get(0).unwrap_or_default()).into_owned();
            self.instance.log.warn(format!("The master has sent '{name}', which is no command here."));
            return Ok(());
        };
        let spec = resolved.row.spec;
        match spec.kind {
            _ if spec.name == "REPLCONF" || spec.name == "PING" => {}
            _ if spec.name == "SELECT" => {
                let db = words.get(1).and_then(parse_integer).and_then(|db| u32::try_from(db).ok());
                session.db = db.filter(|db| *db < self.instance.keyspace.databases()).unwrap_or(session.db);
            }
            CommandKind::Transaction(TransactionCommand::Exec) => {
                self.backend.execute(self, session, resolved, words, out, None)?;
                self.end_call(session, spec, words);
            }
            CommandKind::Transaction(_) => session.transaction = Some(Transaction::default()),
            _ if session.transaction.is_some() => {
                super::transaction::queue(session, resolved.row, words, self.instance.keyspace.databases());
            }
            _ => {
                self.backend.execute(self, session, resolved, words, out, None)?;
                self.end_call(session, spec, words);
            }
        }
        if out.first() == Some(&b'-') {
            let reason = String::from_utf8_lossy(out.trim_ascii_end()).into_owned();
            self.instance.log.warn(format!("A command of the master fails here: {reason}"));
        }
        session.executed += 1;
        Ok(())
    }

    /// Brings the replicas in this process up to date. To be called while nothing is locked.
    #[cold]
    pub(super) fn bring_replicas_up_to_date(&self) {
        if let Some(fleet) = self.instance.fleet() {
            fleet.bring_replicas_up_to_date();
        }
    }
}
