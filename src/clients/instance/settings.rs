//! Settings and users: applying the configuration, and restoring what the server was started with.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Instance;
use crate::base::profile::{Family, Since};
use crate::clients::acl::{Rules, User};
use crate::clients::pubsub::SubscriptionKind;
use crate::data::keyspace::{EXPIRY_PAUSED, IMPORT_MODE, KEY_CHANGES, REPLICATED};
use crate::powers::Hook;

const USERS_IN_TWO_PLACES: &str = "Configuring Redis with users defined in redis.conf and at the same setting an ACL \
    file path is invalid. This setup is very likely to lead to configuration errors and security holes, please define \
    either an ACL file or declare users directly in your redis.conf, but not both.";

/// The first release that logs commands with large requests or replies.
pub const COMMAND_LOG: Since = Since::valkey(8, 1, 0);

impl Instance {
    /// Copies settings to where they are read on every command. To be called whenever the configuration has changed.
    pub fn apply_settings(&self) {
        let live = self.config.live();
        let max_string = live.max_bulk.load(Ordering::Relaxed);
        let settings = self.keyspace.settings();
        settings.max_string.store(max_string, Ordering::Relaxed);
        for (name, setting) in settings.encoding_limits.all() {
            setting.store(self.config.number(name), Ordering::Relaxed);
        }
        for (name, setting) in settings.lazy_free.all() {
            setting.store(self.config.is_on(name), Ordering::Relaxed);
        }
        self.tracking.set_most_keys(live.max_tracked_keys.load(Ordering::Relaxed));
        // The log is the process's: what a space began with may be out of date.
        if self.space.is_empty() {
            self.apply_log_level();
        }
        let import = if self.config.is_on("import-mode") { IMPORT_MODE } else { 0 };
        let wanted = live.events.load(Ordering::Relaxed) | self.apply_memory_settings() | import;
        self.keyspace.settings().set_wanted_notifications(!(KEY_CHANGES | EXPIRY_PAUSED | REPLICATED), wanted);
        self.heed_memory_limits();
        self.set_backlog_size(self.config.number("repl-backlog-size"));
        self.config.limit_replica_output();
        self.acl.configure(&self.config);
        if self.profile.has(COMMAND_LOG) {
            live.large_requests
                .threshold
                .store(self.config.number("commandlog-request-larger-than"), Ordering::Relaxed);
            live.large_replies.threshold.store(self.config.number("commandlog-reply-larger-than"), Ordering::Relaxed);
        }
        let needs = |name: &str| self.config.number::<u32>(name) != 0;
        let needs_replicas = needs("min-replicas-to-write") && needs("min-replicas-max-lag");
        let is_replica = !self.config.value("replicaof").is_empty();
        // A replica has its writes from a primary, which cares for this.
        self.active_hooks.set(Hook::NeedsReplicas, needs_replicas && !is_replica);
        self.active_hooks.set(Hook::Replica, is_replica);
        self.apply_role_to_stream();
        self.call_link();
        self.pause.set_replica(self.is_read_only_replica(), &self.active_hooks, self.keyspace.settings());
    }

    /// Whether keys are deleted once they have expired, without being asked for.
    pub fn expires_actively(&self) -> bool {
        self.debug_switches.active_expire.load(Ordering::Relaxed) && !self.keyspace.settings().is_importing()
    }

    /// Has the log keep what `loglevel` says.
    pub fn apply_log_level(&self) {
        self.log.set_least(self.config.live().log_level.load(Ordering::Relaxed));
    }

    /// Remembers settings and users for [`reset_settings`](Self::reset_settings). To be called before serving begins.
    pub fn save_initial_state(&self) {
        self.initial.get_or_init(|| (self.config.settings(), self.acl.snapshot()));
    }

    /// Restores the settings and users that the server was started with. Connections of users that did not exist then
    /// are closed.
    pub fn reset_settings(&self) {
        let Some((settings, users)) = self.initial.get() else { return };
        self.config.restore(settings);
        self.apply_settings();
        self.acl.restore(users).iter().for_each(|user| self.kill_user(user));
        self.acl.all().iter().for_each(|user| self.revoke_channels(user, &user.rules()));
        self.acl.log.clear();
    }

    /// Makes the users that the configuration or its ACL file declares.
    pub fn load_users(&self) -> Result<(), String> {
        let file = self.config.path("aclfile");
        if file.is_some() && !self.config.users().is_empty() {
            return Err(USERS_IN_TWO_PLACES.to_owned());
        }
        for words in self.config.users() {
            let Some((name, rules)) = words.split_first() else { continue };
            let rules: Vec<&[u8]> = rules.iter().map(Vec::as_slice).collect();
            let changed = self.acl.declare(name, &rules)?;
            if !changed.user.rules().enabled {
                let name = String::from_utf8_lossy(name);
                self.log.notice(format!(
                    "The user '{name}' is disabled (there is no 'on' modifier in the user description). Make sure \
                     this is not a configuration error."
                ));
            }
        }
        if let Some(file) = file {
            let errors = |errors: Vec<u8>| String::from_utf8_lossy(&errors).into_owned();
            let product = match self.profile.family() {
                Family::Redis => "Redis",
                Family::Valkey => "Valkey",
            };
            self.acl
                .load(&file)
                .map_err(|error| format!("Aborting {product} startup because of ACL errors: {}", errors(error)))?;
        }
        Ok(())
    }

    /// Closes the connections of a user.
    pub fn kill_user(&self, user: &Arc<User>) {
        self.clients_of(user).for_each(|client| self.kill(&client));
    }

    /// Closes the connections of a user that are subscribed to what these rules do not allow.
    pub fn revoke_channels(&self, user: &Arc<User>, rules: &Rules) {
        for client in self.clients_of(user) {
            let subscribed_to = |kind| self.pubsub.names(&client, kind).into_iter().map(move |name| (name, kind));
            let mut names = SubscriptionKind::ALL.into_iter().flat_map(subscribed_to);
            if names.any(|(name, kind)| !rules.allow_channel(&name, kind == SubscriptionKind::Pattern)) {
                self.kill(&client);
            }
        }
    }
}
