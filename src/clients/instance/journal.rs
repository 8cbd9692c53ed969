//! The journal of a server, and the audit that goes through it.

use std::sync::{Arc, Weak};

use super::Instance;
use crate::base::clock::real_micros;
use crate::clients::pubsub::Topic;
use crate::insight::audit::AuditedServer;
use crate::powers::{Hook, Journal};

/// Where findings are published as they are found.
pub const FINDINGS_CHANNEL: &[u8] = b"__redouble__:findings";

impl Instance {
    /// Begins to keep a journal of every command, in so many bytes, or goes on with it.
    pub fn start_journal(&self, bytes: usize) {
        // What there is no more room for is not to be lost for the audit.
        self.audit.commit_all();
        self.begin_keeping(bytes);
    }

    fn begin_keeping(&self, bytes: usize) {
        self.control.journal.start(bytes);
        self.active_hooks.raise(Hook::Journal);
    }

    /// The journal as it is when the server starts: empty, and on if the configuration says so; and the audit.
    pub fn reset_journal(&self) {
        self.active_hooks.lower(Hook::Journal);
        self.audit.archive(self.number);
        self.control.journal.reset();
        self.audit.reset(self.number);
        if self.config.is_on("journal") || self.config.is_on("audit") {
            self.begin_keeping(self.config.number("journal-size"));
        }
    }

    /// Keeps nothing more in the journal; what is there stays.
    pub fn stop_journal(&self) {
        self.active_hooks.lower(Hook::Journal);
        self.control.journal.stop();
        self.audit.note_stop(self.number);
    }

    /// Forgets what is in the journal. The audit has gone through it.
    pub fn clear_journal(&self) {
        self.audit.commit_all();
        self.control.journal.clear();
    }

    /// Says which audit it is that goes through the journal of this server.
    pub fn join_audit(self: &Arc<Self>) {
        let audited: Weak<dyn AuditedServer> = Arc::<Self>::downgrade(self);
        self.audit.join(self.number, audited);
    }

    /// Has the audit keep up with the journal, to which something was added; with `is_pressing`, so much that what is
    /// older will fall out soon. Whoever listens to findings hears of new ones.
    #[cold]
    pub fn attend_audit(&self, is_pressing: bool) {
        if is_pressing {
            self.audit.commit_due();
        }
        self.tell_findings(true);
    }

    /// Publishes what was found. `is_patient` is whether some may come later.
    pub fn tell_findings(&self, is_patient: bool) {
        if self.audit.is_on() {
            let is_heard = self.pubsub.is_heard(FINDINGS_CHANNEL);
            for finding in self.audit.news(self.number, is_heard, is_patient) {
                self.publish(Topic::Channel, FINDINGS_CHANNEL, &finding.json(), None);
            }
        }
    }

    /// Has the audit go through the journals from now on.
    pub fn start_audit(&self) {
        self.audit.turn_on();
        // Whoever listens already has heard nothing so far, and wants to hear of what comes.
        self.tell_findings(false);
    }
}

impl AuditedServer for Instance {
    fn journal(&self) -> &Arc<Journal> {
        &self.control.journal
    }

    fn now(&self) -> (i64, i64) {
        (self.clock.micros(), real_micros())
    }

    fn begin_journal(&self) {
        if !self.control.journal.is_on() {
            self.begin_keeping(self.config.number("journal-size"));
        }
    }
}
