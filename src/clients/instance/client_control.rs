//! What one client can have done to another: CLIENT KILL, CLIENT UNBLOCK; and what is forgotten with a client.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Instance;
use crate::base::error::CommandError;
use crate::clients::acl::{DatabaseContext, User};
use crate::clients::session::{AtRoot, BlockedCommand, Claim, Client, Session, Signal, Watching};
use crate::protocol::Words;
use crate::spec::{CommandSpec, Table};

impl Instance {
    /// Where a session's next request runs.
    pub fn database_context(&self, session: &Session) -> DatabaseContext {
        DatabaseContext { selected: session.database(), count: self.keyspace.databases() }
    }

    /// Fails if the client of a session in a space may not run this command in the root world.
    pub fn permit_at_root(
        &self,
        session: &Session,
        table: &Table,
        spec: &'static CommandSpec,
        words: Words<'_>,
    ) -> Result<(), CommandError> {
        let databases = self.database_context(session);
        let (denial, user) = match &session.at_root {
            AtRoot::Here => return Ok(()),
            AtRoot::Nobody => return Err(CommandError::NO_AUTH),
            AtRoot::As(user) => (self.acl.may_run(user, spec, words, databases), user),
        };
        denial.map_err(|denial| denial.refusal(&self.profile, user.name(), &table.full_name(spec)))
    }

    /// Closes another client's connection: it runs no further command, and is no longer listed.
    pub fn kill(&self, client: &Client) {
        client.seen().closing.store(true, Ordering::Relaxed);
        client.signal(Signal::Kill);
        if client.seen().master.load(Ordering::Relaxed) {
            self.call_link();
        }
        self.remove_monitor(client);
        self.detach_replica(client);
        self.tracking.forget(client.id(), self.keyspace.settings());
        self.pubsub.forget(client);
        self.clients.remove(client.id());
    }

    /// Claims the right to end a client's wait; only one caller gets it.
    pub fn claim_wait(&self, client: &Client) -> bool {
        match client.claim_wait() {
            None => false,
            Some(Claim::Time) => true,
            Some(Claim::Keys(blocked)) => {
                self.stop_waiting(client, &blocked);
                true
            }
        }
    }

    /// Removes a client from the queues of the keys it waits for.
    pub fn stop_waiting(&self, client: &Client, blocked: &BlockedCommand) {
        self.keyspace.waiters().remove(blocked.db, blocked.keys.iter().map(|key| &**key), client.id());
    }

    /// CLIENT UNBLOCK: ends a client's wait, if it is in one that can be unblocked; whether it was.
    pub fn unblock(&self, client: &Client, with_error: bool) -> bool {
        let claimed = self.claim_wait(client);
        if claimed {
            client.signal(if with_error { Signal::UnblockError } else { Signal::UnblockTimeout });
        }
        claimed
    }

    /// The connections of a user.
    pub fn clients_of(&self, user: &Arc<User>) -> impl Iterator<Item = Arc<Client>> {
        let clients = self.clients.all().into_iter();
        clients.filter(move |client| client.labels().user.as_ref().is_some_and(|own| Arc::ptr_eq(own, user)))
    }

    /// Removes the watches of a connection.
    pub fn unwatch(&self, session: &mut Session) {
        if let Some(Watching { keys, watch }) = session.watching.take() {
            self.keyspace.watchers().remove(&keys, &watch, |_, _, _| {});
        }
    }
}
