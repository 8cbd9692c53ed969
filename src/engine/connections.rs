//! Sessions at the end of a connection, at its move to another world, and after each command.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Engine;
use crate::clients::session::{Activity, AtRoot, Session};
use crate::clients::stats::Counters;
use crate::data::keyspace::{Busy, Recovery};
use crate::protocol::OwnedWords;
use crate::spec::{CommandSpec, Secrets};

impl Engine {
    /// Removes a closed connection. `held_back` is the reply of a command that was parked after its run.
    pub fn disconnect(&self, session: &mut Session, held_back: &[u8]) {
        self.release_session(session, held_back);
        self.instance.clients.remove(session.client.id());
    }

    /// Reports a panic during a session's command, and puts right what the command may have left half done. Its connection is
    /// closed next.
    pub fn after_panic(&self, session: &mut Session, panic: &(dyn Any + Send)) {
        let row = session.in_flight.row;
        let name = row.map_or_else(String::new, |spec| self.table.full_name(spec));
        if session.in_flight.trace.takes_effect() {
            // Nobody knows how far it came: the reply is lost, and its effect may be whole.
            let name: OwnedWords = name.split('|').collect();
            session.in_flight.keep_words(name.as_words());
            session.in_flight.trace.stamp(self.instance.control.journal.next(), self.instance.clock.micros(), None);
        }
        let during = format!("while serving client {}, whose last command is '{name}'", session.client.id());
        let is_public = row.is_none_or(|spec| spec.secrets == Secrets::None);
        self.instance.record_panic(&during, if is_public { panic } else { &"the text may quote a password" });
        match catch_unwind(AssertUnwindSafe(|| self.backend.recover())) {
            Ok(Ok(Recovery { miscounted, watches })) => self.instance.log.warn(format!(
                "After the panic: the connection is closed, and the command may have taken effect in part. All keys count as \
                 changed for those who watch ({watches}) or cache them, blocked clients were tried again, and the count of \
                 memory was off by {miscounted} bytes."
            )),
            Ok(Err(Busy)) => self.instance.log.warn("After the panic: a script runs, so nothing was put right."),
            Err(panic) => self.instance.record_panic("while putting right what a panic has left", &*panic),
        }
    }

    /// Moves a connection here from another world behind the same port, with the user of the same name. The session
    /// keeps what RESET keeps, and its name, protocol and database, and loses the rest. Returns whether the user exists
    /// here.
    pub fn move_in(&self, session: &mut Session, from: &Arc<Engine>, counters: Arc<Counters>) -> bool {
        let (here, there) = (&self.instance, &from.instance);
        let Some(user) = here.acl.user(session.user.name()) else { return false };
        session.at_root = match &session.at_root {
            _ if here.space.is_empty() => AtRoot::Here,
            AtRoot::Here => AtRoot::As(Arc::clone(&session.user)),
            known => known.clone(),
        };
        session.count();
        session.timer.end(&session.counters, there.config.live());
        from.release_session(session, &[]);
        session.in_flight.trace.change_journals();
        session.client.seen().monitor.store(false, Ordering::Relaxed);
        session.client.change_clocks(there.clock.millis(), here.clock.millis());
        session.counters = counters;
        session.become_user(&user, session.authenticated);
        here.refresh_cached_now();
        session.client.set_activity(Activity::Acting);
        session.client.set_idle_since(here.clock.uptime());
        there.clients.hand_over(session.client.id(), &here.clients);
        // It may have been the last active connection of the other world.
        from.maybe_auto_advance();
        true
    }

    fn release_session(&self, session: &mut Session, held_back: &[u8]) {
        self.instance.unwatch(session);
        self.leave_exploration(session);
        self.instance.claim_wait(&session.client);
        // It may have been served without having handled that yet.
        match session.client.take_served() {
            Some(served) => {
                session.in_flight.trace.set_stamp(served.stamp);
                self.record_abandoned(session, &served.reply);
            }
            None => self.record_abandoned(session, held_back),
        }
        self.record_disconnect(session);
        self.instance.remove_monitor(&session.client);
        self.instance.detach_replica(&session.client);
        self.instance.tracking.stop(session, self.instance.keyspace.settings());
        self.instance.pubsub.forget(&session.client);
    }

    /// CLIENT CACHING applies to one command or transaction; CLIENT's own commands in between do not count.
    #[inline]
    pub(super) fn end_caching_exception(&self, session: &mut Session, spec: Option<&'static CommandSpec>) {
        if session.tracking.excepted && session.transaction.is_none() {
            let is_client = spec.is_some_and(|spec| self.table.full_name(spec).starts_with("client|"));
            session.tracking.excepted = is_client;
        }
    }
}
