//! The journal of a server, and the audit that reads it.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use super::Instance;
use crate::base::clock::real_micros;
use crate::base::process::SearchScope;
use crate::clients::identification::Identified;
use crate::clients::pubsub::SubscriptionKind;
use crate::clients::session::Client;
use crate::insight::audit::{AuditedServer, Finding, Judgement};
use crate::powers::{Hook, Journal, LEAST_SIZE, Urgency};

/// The channel of new findings.
pub const FINDINGS_CHANNEL: &[u8] = b"__redouble__:findings";

/// The longest mark, in bytes.
pub const LONGEST_MARK: usize = 1024;

impl Instance {
    /// Records every command in the journal, which keeps the newest of so many bytes. If it becomes smaller, the audit reads what falls
    /// out, which can take long: that is what is returned.
    pub fn start_journal(&self, bytes: usize) -> Option<impl FnOnce() + Send + use<>> {
        if bytes >= self.control.journal.stats().most {
            self.record_journal(bytes);
            return None;
        }
        let (audit, number) = (Arc::clone(&self.audit), self.number);
        Some(move || audit.resize_journal(number, bytes))
    }

    fn record_journal(&self, bytes: usize) {
        let was_on = self.control.journal.is_on();
        let together = self.journals_may_take();
        self.control.journal.limit_memory(together, bytes);
        self.control.journal.start(together.map_or(bytes, |together| bytes.min(together)));
        if !was_on {
            self.control.journal.repeat_mark((self.clock.micros(), real_micros()));
        }
        self.active_hooks.arm(Hook::Journal);
        self.clients.all().iter().for_each(|client| self.identify_present(client));
    }

    /// What all journals of the process may take together, if that was set: at least the size of the smallest one.
    pub fn journals_may_take(&self) -> Option<usize> {
        Some(self.config.number("journal-memory")).filter(|bytes| *bytes > 0).map(|bytes: usize| bytes.max(LEAST_SIZE))
    }

    /// Looks up the process of a client that has been there for some time, unless that was done.
    pub fn identify_present(&self, client: &Arc<Client>) {
        if self.active_hooks.has(Hook::Journal)
            && !client.is_identified()
            && let Some(scope) = self.identification_scope()
        {
            self.identification.of_present(client, scope);
        }
    }

    /// Looks up the process of a client that has just connected, or begins the journal. Its connection is to wait for what is returned.
    pub fn identify(&self, client: &Arc<Client>) -> Option<Identified> {
        if !self.active_hooks.has(Hook::Journal) {
            return None;
        }
        self.identification.of_new(client, self.identification_scope()?)
    }

    fn identification_scope(&self) -> Option<SearchScope> {
        match &*self.config.text("identify-clients") {
            "no" => None,
            "children" => Some(SearchScope::Children),
            _ => Some(SearchScope::Machine),
        }
    }

    /// Marks this place in the journal: what follows belongs to the test, or whatever else, that the text names.
    pub fn mark_journal(&self, text: &str) {
        self.control.journal.note_mark(text, (self.clock.micros(), real_micros()));
    }

    /// Puts the journal and the audit to their initial state: empty, and on if the configuration says so. What was found
    /// until then is archived.
    pub fn reset_journal(&self, judgement: Judgement) {
        self.active_hooks.disarm(Hook::Journal);
        self.control.journal.reset();
        self.audit.reset(self.number, judgement);
        if self.config.is_on("journal") || self.config.is_on("audit") {
            self.record_journal(self.config.number("journal-size"));
        }
    }

    /// Stops recording; the entries stay. What is returned lets the audit read them, which can take long.
    pub fn stop_journal(&self) -> impl FnOnce() + Send + use<> {
        self.active_hooks.disarm(Hook::Journal);
        self.control.journal.stop();
        let (audit, number) = (Arc::clone(&self.audit), self.number);
        move || audit.note_stop(number)
    }

    /// Removes the entries of the journal, after the audit has read them, which can take long.
    pub fn clear_journal(&self) -> impl FnOnce() + Send + use<> {
        let (audit, journal) = (Arc::clone(&self.audit), Arc::clone(&self.control.journal));
        let now = (self.clock.micros(), real_micros());
        move || {
            audit.commit_all();
            journal.clear();
            journal.repeat_mark(now);
        }
    }

    /// Registers this server's journal with its audit.
    pub fn join_audit(self: &Arc<Self>) {
        let audited: Weak<dyn AuditedServer> = Arc::<Self>::downgrade(self);
        self.audit.join(self.number, audited);
    }

    /// Lets the audit read new entries of the journal, and publishes new findings.
    #[cold]
    pub fn catch_up_audit(&self, urgency: Urgency) {
        self.audit.commit_due(urgency);
        self.publish_findings(true);
    }

    /// Publishes new findings. With `is_patient`, some may be published later.
    pub fn publish_findings(&self, is_patient: bool) {
        if self.audit.is_on() {
            let last = self.pubsub.has_subscribers(FINDINGS_CHANNEL).then(|| self.control.journal.last());
            let news = self.audit.news(self.number, last, is_patient);
            news.iter().for_each(|finding| self.publish_finding(finding));
        }
    }

    /// Starts the audit.
    pub fn start_audit(&self) {
        self.audit.turn_on();
        // Marks what was found so far as published: subscribers want only what comes.
        self.publish_findings(false);
    }
}

impl AuditedServer for Instance {
    fn journal(&self) -> &Arc<Journal> {
        &self.control.journal
    }

    fn now(&self) -> (i64, i64) {
        (self.clock.micros(), real_micros())
    }

    fn oldest_in_flight(&self) -> Option<i64> {
        self.upstream.as_ref()?;
        let sent = |client: &Arc<Client>| client.seen().oldest_sent.load(Ordering::Acquire);
        self.clients.all().iter().map(sent).filter(|sent| *sent != 0).min()
    }

    fn begin_journal(&self) {
        if !self.control.journal.is_on() {
            self.record_journal(self.config.number("journal-size"));
        }
    }

    fn keep_journal(&self, bytes: usize) {
        self.record_journal(bytes);
    }

    fn publish_finding(&self, finding: &Finding) {
        self.publish(SubscriptionKind::Channel, FINDINGS_CHANNEL, &finding.json(), None);
    }
}
