//! A replica of another instance of this process: what its master sends runs here, and all data that it sends are taken over.

use std::sync::{Arc, Mutex};

use arrayvec::ArrayVec;

use super::transaction::{queue, selected_by};
use super::{Engine, Resolved, is_exec};
use crate::base::sync::MutexExt;
use crate::clients::session::{Client, Session};
use crate::data::keyspace::Busy;
use crate::powers::Hook;
use crate::protocol::{Framed, Framer, Limits, Words};
use crate::spec::{CommandKind, TransactionCommand};

/// The session in which the stream of a master runs, and what it is read with.
#[derive(Default)]
pub(super) struct Replay(Mutex<Reader>);

#[derive(Default)]
struct Reader {
    session: Option<Box<Session>>,
    framer: Framer,
    batch: Vec<(Framed, Option<Resolved>)>,
    /// Replies, which nobody gets.
    out: Vec<u8>,
}

/// The most requests that are framed before the first of them runs.
const BATCH: usize = 32;

/// How far a part of a stream has run.
pub struct Replayed {
    /// So many bytes.
    pub bytes: usize,
    /// The database that is selected behind them.
    pub selected: u32,
    /// A script holds the data, so the rest has to wait.
    pub is_held_up: bool,
}

/// How much room for replies is kept.
const MOST_KEPT: usize = 64 * 1024;

const OF_MASTER: Limits = Limits { bulk: i64::MAX, authenticated: true };

impl Engine {
    /// Takes over all data of a master, in place of those that are here.
    pub fn load_from_master(&self, snapshot: &[u8]) -> Result<(), Busy> {
        self.backend.take_over(snapshot)
    }

    /// Runs a part of a master's stream, in the name of the link. It ends with a whole command, and with a whole transaction.
    pub fn replay(&self, link: &Arc<Client>, selected: u32, stream: &[u8]) -> Replayed {
        let mut reader = self.replay.0.lock_ignoring_poison();
        let Reader { session, framer, batch, out } = &mut *reader;
        session.take_if(|session| !Arc::ptr_eq(&session.client, link));
        let session = session.get_or_insert_with(|| {
            let user = self.instance.acl.default_user();
            let mut session = Session::new(Arc::clone(link), user, self.instance.stats.thread(0));
            session.authenticated = true;
            (session.is_master, session.import_source) = (true, true);
            Box::new(session)
        });
        session.db = selected;
        framer.reset();
        // A transaction counts as run when it has ended.
        let mut done = Replayed { bytes: 0, selected, is_held_up: false };
        let mut at = 0;
        while !done.is_held_up {
            self.frame_ahead(session.db, framer, batch, &stream[at..]);
            if batch.is_empty() {
                break;
            }
            for (framed, resolved) in batch.drain(..) {
                session.timer.request = at;
                let words = framer.words(framed, &stream[at..]);
                if self.replay_one(session, resolved, words, out).is_err() {
                    session.transaction = None;
                    done.is_held_up = true;
                    break;
                }
                out.clear();
                at += framed.length();
                if session.transaction.is_none() {
                    (done.bytes, done.selected) = (at, session.db);
                }
            }
            framer.forget();
        }
        out.shrink_to(MOST_KEPT);
        self.instance.broadcast_invalidations(session);
        self.end_calls(session, stream);
        session.count();
        done
    }

    /// Frames some requests, and prefetches the memory that they will access.
    fn frame_ahead(&self, db: u32, framer: &mut Framer, batch: &mut Vec<(Framed, Option<Resolved>)>, stream: &[u8]) {
        let mut ahead: ArrayVec<u64, BATCH> = ArrayVec::new();
        let mut rest = stream;
        while batch.len() < BATCH
            && let Ok(Some(framed)) = framer.next(rest, OF_MASTER)
        {
            let resolved = self.resolve(framer.words(framed, rest)).ok();
            ahead.extend(resolved.as_ref().and_then(Resolved::hash));
            batch.push((framed, resolved));
            rest = &rest[framed.length()..];
        }
        if ahead.len() > 1 {
            self.fetch_ahead(db, &ahead);
        }
    }

    fn replay_one(
        &self,
        session: &mut Session,
        resolved: Option<Resolved>,
        words: Words<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), Busy> {
        let Some(resolved) = resolved else {
            let name = String::from_utf8_lossy(words.get(0).unwrap_or_default()).into_owned();
            self.instance.log.warn(format!("The master has sent '{name}', which is no command here."));
            return Ok(());
        };
        let spec = resolved.row.spec;
        let databases = self.instance.keyspace.databases();
        match spec.kind {
            CommandKind::Transaction(kind) if kind != TransactionCommand::Exec => {
                session.open_transaction();
            }
            _ if session.transaction.is_some() && !is_exec(spec) => {
                queue(session, resolved.row, words, databases);
                return Ok(());
            }
            _ if spec.name == "REPLCONF" || spec.name == "PING" => {}
            _ if spec.name == "SELECT" => session.db = selected_by(spec, words, databases).unwrap_or(session.db),
            _ => {
                self.backend.execute(self, session, resolved, words, out, None)?;
            }
        }
        if out.first() == Some(&b'-') {
            let reason = String::from_utf8_lossy(out.trim_ascii_end()).into_owned();
            self.instance.log.warn(format!("A command of the master fails here: {reason}"));
        }
        session.executed += 1;
        if self.instance.active_hooks.has(Hook::Monitor) {
            out.clear();
            self.feed_monitors(session, spec, words, out);
        }
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
