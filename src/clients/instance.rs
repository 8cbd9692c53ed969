//! Everything that the connections of one server share. Two servers in one process have nothing in common.

mod journal;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, Weak};
use std::task::Waker;
use std::time::Duration;

use crate::base::clock::{Clock, Millis};
use crate::base::duration::spell_duration;
use crate::base::error::{CommandError, plain};
use crate::base::files;
use crate::base::identity::Identity;
use crate::base::log::Log;
use crate::base::profile::Profile;
use crate::base::sync::MutexExt;
use crate::clients::acl::{self, Acl, Rules, User};
use crate::clients::config::{Config, OutputLimit, Settings};
use crate::clients::fleet::Fleet;
use crate::clients::pubsub::{PubSub, Publisher, Topic};
use crate::clients::session::{Blocked, Claim, Client, Clients, Session, Signal, Watching};
use crate::clients::stats::Stats;
use crate::clients::tracking::{Post, Tracking};
use crate::data::keyspace::{Busy, CHANGES, KEYEVENT_CHANNEL, KEYSPACE_CHANNEL, Keyspace, News, Scope, Tally, View};
use crate::data::seed;
use crate::insight::audit::LiveAudit;
use crate::powers::{ActiveHooks, Control, ExplorationSummary, Fault, Gate, Hook, Pattern, Rule, Side};
use crate::script::Scripts;

const USERS_IN_TWO_PLACES: &str = "Configuring Redis with users defined in redis.conf and at the same setting an ACL \
    file path is invalid. This setup is very likely to lead to configuration errors and security holes, please define \
    either an ACL file or declare users directly in your redis.conf, but not both.";

/// One running server, without its sockets.
pub struct Instance {
    /// The name of the space that this is; empty for the world that clients find when they connect.
    pub space: Box<[u8]>,
    /// Those beside it, once they are there.
    fleet: OnceLock<Weak<dyn Fleet>>,
    pub clock: Arc<Clock>,
    pub config: Config,
    pub profile: Profile,
    pub keyspace: Keyspace,
    pub scripts: Scripts,
    pub clients: Clients,
    pub pubsub: PubSub,
    /// More than should waits for some client, so that housekeeping looks for how long.
    lagging: AtomicBool,
    pub active_hooks: ActiveHooks,
    pub control: Arc<Control>,
    /// Which of the servers that are audited together this is, from 1,
    pub number: u16,
    /// and their audit.
    pub audit: Arc<LiveAudit>,
    pub tracking: Tracking,
    pub stats: Stats,
    pub log: Arc<Log>,
    /// Who may do what.
    pub acl: Acl,
    /// CLIENT PAUSE: until when, and whether only writes are held back.
    pause: Mutex<Option<(Millis, bool)>>,
    /// What the clock showed when it was last looked at for housekeeping.
    recently: AtomicI64,
    pub identity: Identity,
    /// Keys that are due are deleted although nobody asks for them (DEBUG SET-ACTIVE-EXPIRE stops that).
    pub active_expire: AtomicBool,
    monitors: Mutex<Vec<Arc<Client>>>,
    stall: Stall,
    shutdown: Arc<Shutdown>,
    /// What the server was started with.
    start: OnceLock<(Settings, acl::Snapshot)>,
}

/// DEBUG SLEEP: while somebody sleeps, nobody else runs.
#[derive(Default)]
struct Stall {
    sleepers: Mutex<usize>,
    over: Condvar,
}

/// How the server is asked to end.
#[derive(Default)]
struct Shutdown {
    asked: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl Default for Instance {
    fn default() -> Self {
        Self::new(Config::default(), Profile::default(), 16)
    }
}

impl Instance {
    pub fn new(config: Config, profile: Profile, databases: u32) -> Self {
        let clock = Arc::new(Clock::new());
        let keyspace = Keyspace::new(databases, &clock);
        Self::with_keyspace(config, profile, clock, keyspace)
    }

    fn with_keyspace(config: Config, profile: Profile, clock: Arc<Clock>, keyspace: Keyspace) -> Self {
        let identity = Identity::new(clock.millis());
        let recently = AtomicI64::new(clock.millis());
        let instance = Self {
            space: Box::default(),
            fleet: OnceLock::new(),
            clock,
            config,
            profile,
            keyspace,
            scripts: Scripts::default(),
            clients: Clients::default(),
            pubsub: PubSub::default(),
            lagging: AtomicBool::new(false),
            active_hooks: ActiveHooks::default(),
            control: Arc::default(),
            number: 1,
            audit: Arc::default(),
            tracking: Tracking::default(),
            stats: Stats::default(),
            log: Arc::new(Log::silent()),
            acl: Acl::default(),
            pause: Mutex::default(),
            recently,
            identity,
            active_expire: AtomicBool::new(true),
            monitors: Mutex::default(),
            stall: Stall::default(),
            shutdown: Arc::default(),
            start: OnceLock::new(),
        };
        instance.apply_settings();
        instance
    }

    /// Another server of the same process, set up as this one is, and audited together with it. Beside that they share
    /// nothing but the log and their end.
    pub fn sibling(&self, number: u16) -> Self {
        let clock = Arc::new(Clock::new());
        let keyspace = Keyspace::new(self.keyspace.databases(), &clock);
        Self { number, audit: Arc::clone(&self.audit), ..self.another(clock, keyspace) }
    }

    /// A world of its own behind this server's port. The clients of all of them are counted together.
    pub fn make_space(&self, name: &[u8]) -> Self {
        let clock = Arc::new(Clock::new());
        let keyspace = Keyspace::small(self.keyspace.databases(), &clock);
        let space = self.another(clock, keyspace);
        if let Some(port) = self.identity.port.get() {
            let _ = space.identity.port.set(*port);
        }
        let audit = Arc::new(self.audit.another());
        let space = Self { space: name.into(), clients: Clients::beside(&self.clients), audit, ..space };
        space.reset_journal();
        space
    }

    fn another(&self, clock: Arc<Clock>, keyspace: Keyspace) -> Self {
        let another = Self::with_keyspace(self.config.copy(), self.profile, clock, keyspace);
        Self { log: Arc::clone(&self.log), acl: self.acl.copy(), shutdown: Arc::clone(&self.shutdown), ..another }
    }

    /// Says who is beside this server; said once.
    pub fn join(&self, fleet: Weak<dyn Fleet>) {
        let _ = self.fleet.set(fleet);
    }

    /// Those beside this server, as long as it serves.
    pub fn fleet(&self) -> Option<Arc<dyn Fleet>> {
        self.fleet.get().and_then(Weak::upgrade)
    }

    // ---- settings

    /// Hands settings on to those who keep a copy; to be called whenever the configuration has changed.
    pub fn apply_settings(&self) {
        let live = self.config.live();
        let max_string = live.max_bulk.load(Ordering::Relaxed);
        let settings = self.keyspace.settings();
        settings.max_string.store(max_string, Ordering::Relaxed);
        for (name, setting) in settings.packing.all() {
            setting.store(self.config.number(name), Ordering::Relaxed);
        }
        self.tracking.set_most_keys(live.max_tracked_keys.load(Ordering::Relaxed));
        self.log.set_least(live.log_level.load(Ordering::Relaxed));
        self.keyspace.settings().want_news(!CHANGES, live.events.load(Ordering::Relaxed));
        self.acl.configure(&self.config);
    }

    /// Remembers what the server is started with. To be called when it is about to serve.
    pub fn remember_start(&self) {
        self.start.get_or_init(|| (self.config.settings(), self.acl.snapshot()));
    }

    /// Puts settings and users back to what the server was started with. Who is a user that there was not is closed.
    pub fn reset_settings(&self) {
        let Some((settings, users)) = self.start.get() else { return };
        self.config.restore(settings);
        self.apply_settings();
        self.acl.restore(users).iter().for_each(|user| self.kill_user(user));
        self.acl.all().iter().for_each(|user| self.revoke_channels(user, &user.rules()));
        self.acl.log.clear();
    }

    // ---- users

    /// Makes the users that the configuration declares, or that its ACL file does.
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
            self.acl
                .load(&file)
                .map_err(|error| format!("Aborting Redis startup because of ACL errors: {}", errors(error)))?;
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
            let listens_to = |topic| self.pubsub.names(&client, topic).into_iter().map(move |name| (name, topic));
            let mut names = Topic::ALL.into_iter().flat_map(listens_to);
            if names.any(|(name, topic)| !rules.allow_channel(&name, topic == Topic::Pattern)) {
                self.kill(&client);
            }
        }
    }

    // ---- CLIENT PAUSE

    /// Holds commands back until an instant. A pause that is in force is only ever made longer and stricter.
    pub fn pause(&self, until: Millis, writes_only: bool) {
        let mut pause = self.held_pause();
        *pause = match *pause {
            Some((longest, lenient)) if longest > self.clock.millis() => {
                Some((until.max(longest), writes_only && lenient))
            }
            _ => Some((until, writes_only)),
        };
        self.active_hooks.raise(Hook::Pause);
    }

    /// Ends a pause: whoever was held back goes on.
    pub fn unpause(&self) {
        self.end_pause(&mut self.held_pause());
    }

    /// Until when commands are held back, if they are; with whether that is only so for writes.
    pub fn paused(&self) -> Option<(Millis, bool)> {
        if !self.active_hooks.has(Hook::Pause) {
            return None;
        }
        let mut pause = self.held_pause();
        if pause.is_some_and(|(until, _)| self.clock.millis() >= until) {
            self.end_pause(&mut pause);
        }
        *pause
    }

    fn end_pause(&self, pause: &mut Option<(Millis, bool)>) {
        *pause = None;
        self.active_hooks.lower(Hook::Pause);
        self.clients.signal_all(Signal::Unpause);
    }

    fn held_pause(&self) -> MutexGuard<'_, Option<(Millis, bool)>> {
        self.pause.lock_ignoring_poison()
    }

    // ---- DEBUG SLEEP

    /// Blocks this thread, and every other command of this server, for a stretch of real time.
    pub fn stall(&self, duration: Duration) {
        *self.stall.sleepers.lock_ignoring_poison() += 1;
        self.active_hooks.raise(Hook::Stall);
        self.clock.block(duration);
        let mut sleepers = self.stall.sleepers.lock_ignoring_poison();
        *sleepers -= 1;
        if *sleepers == 0 {
            self.active_hooks.lower(Hook::Stall);
            self.stall.over.notify_all();
        }
    }

    /// Blocks this thread while another one stalls the server.
    pub fn wait_for_stall(&self) {
        let sleepers = self.stall.sleepers.lock_ignoring_poison();
        drop(self.stall.over.wait_while(sleepers, |sleepers| *sleepers > 0));
    }

    // ---- the test powers

    /// Arms a fault. The error says why not.
    pub fn add_fault(&self, fault: Fault) -> Result<Arc<Rule>, String> {
        let rule = self.control.faults.add(fault)?;
        self.heed_faults();
        Ok(rule)
    }

    /// Disarms a fault, and lets go whoever waits because of it.
    pub fn remove_fault(&self, name: &str) -> Option<Arc<Rule>> {
        let rule = self.control.faults.remove(name, &self.clock);
        self.heed_faults();
        rule.iter().for_each(|rule| self.control.remember_unfired(rule));
        rule
    }

    /// As [`remove_fault`](Self::remove_fault), for one that may have been removed by now; whether it was there.
    pub fn remove_this_fault(&self, rule: &Arc<Rule>) -> bool {
        let was_there = self.control.faults.remove_this(rule, &self.clock);
        self.heed_faults();
        was_there
    }

    /// Disarms every fault, and lets go whoever waits.
    pub fn clear_faults(&self) -> Vec<Arc<Rule>> {
        let rules = self.control.faults.clear(&self.clock);
        self.heed_faults();
        rules.iter().for_each(|rule| self.control.remember_unfired(rule));
        rules
    }

    /// Has commands look for faults as long as there are any.
    fn heed_faults(&self) {
        let faults = &self.control.faults;
        let heed = |matter, is_needed: &dyn Fn() -> bool| {
            if !is_needed() {
                self.active_hooks.lower(matter);
            }
            // Somebody may have armed one in between; and it is never down while there is one.
            if is_needed() {
                self.active_hooks.raise(matter);
            }
        };
        heed(Hook::Halt, &|| faults.is_paused());
        heed(Hook::Fault, &|| !faults.is_empty());
    }

    /// Puts up a gate, with a watchdog's time of its own if it is to have one. The error says why not.
    pub fn add_gate(
        &self,
        name: &str,
        pattern: Pattern,
        side: Side,
        timeout: Option<Duration>,
    ) -> Result<Arc<Gate>, String> {
        self.control.gates.add(name, pattern, side, timeout, &self.active_hooks)
    }

    /// Takes a gate away. Whoever is held there goes on with the job `LetGo`.
    pub fn remove_gate(&self, name: &str) -> Option<Arc<Gate>> {
        let gate = self.control.gates.remove(name, &self.active_hooks)?;
        self.open_removed(&gate);
        Some(gate)
    }

    /// As [`remove_gate`](Self::remove_gate), for one that may have been removed by now; whether it was there.
    pub fn remove_this_gate(&self, gate: &Arc<Gate>) -> bool {
        let was_there = self.control.gates.remove_this(gate, &self.active_hooks);
        if was_there {
            self.open_removed(gate);
        }
        was_there
    }

    /// Takes every gate away. Whoever is held there goes on with the job `LetGo`.
    pub fn remove_gates(&self) -> Vec<Arc<Gate>> {
        let gates = self.control.gates.remove_all(&self.active_hooks);
        gates.iter().for_each(|gate| self.open_removed(gate));
        gates
    }

    fn open_removed(&self, gate: &Arc<Gate>) {
        self.control.remember_unreached(gate);
        self.control.gates.queue_opening(gate);
    }

    /// Takes every gate away, and lets everybody go at once.
    pub fn clear_gates(&self) {
        for gate in self.control.gates.remove_all(&self.active_hooks) {
            self.control.remember_unreached(&gate);
            gate.queue.open(&self.clock);
        }
    }

    /// The watchdog: lets go whoever is held at a gate for longer than a test can have meant.
    fn free_forgotten(&self) {
        if !self.active_hooks.has(Hook::Gate) {
            return;
        }
        let usual = Duration::from_micros(self.config.live().gate_timeout.load(Ordering::Relaxed));
        for (gate, longest, guest) in self.control.gates.release_overdue(&self.clock, usual) {
            self.control.remember_timed_out(&gate);
            let (name, longest) = (&gate.name, spell_duration(longest));
            self.log.warn(format!("Gate '{name}' has held {guest} for longer than {longest}: it goes on by itself."));
        }
    }

    /// Writes everything there is, at one instant, to a file that a server can begin with. A relative path begins at `dir`.
    pub fn save(&self, path: &Path) -> Result<(), CommandError> {
        let content = self.content(path).map_err(|Busy| self.scripts.busy_error())?;
        let place = self.config.path("dir").map_or_else(|| path.to_owned(), |dir| dir.join(path));
        files::replace(&place, &content).map_err(|error| {
            let (place, reason) = (place.display(), plain(&error));
            CommandError::new(format!("ERR the file '{place}' cannot be written: {reason}"))
        })
    }

    fn content(&self, path: &Path) -> Result<Vec<u8>, Busy> {
        let interpreters = self.keyspace.patiently(|| self.scripts.try_lock())?;
        let mut view = self.keyspace.lock(Scope::Everything, 0, &self.clock)?;
        let libraries = interpreters.libraries().into_iter().flat_map(|libraries| libraries.libraries());
        let sources = libraries.map(|library| library.source.as_slice());
        let content = seed::save(&mut view, sources, &self.profile, path);
        // To look at a key whose time is up deletes it.
        self.stats.add(self.settle(view, None));
        Ok(content)
    }

    /// Ends the exploration of orders, if there is one; everybody goes on. The error says that there is none.
    pub fn stop_exploring(&self) -> Result<ExplorationSummary, &'static str> {
        let findings = self.control.explorer.stop(&self.clock);
        // Whoever is about to begin a run finds that out after having raised this.
        self.active_hooks.lower(Hook::Explore);
        findings
    }

    // ---- MONITOR

    pub fn add_monitor(&self, client: &Arc<Client>) {
        let mut monitors = self.monitors.lock_ignoring_poison();
        if !monitors.iter().any(|other| Arc::ptr_eq(other, client)) {
            monitors.push(Arc::clone(client));
        }
        self.active_hooks.raise(Hook::Monitor);
    }

    pub fn remove_monitor(&self, client: &Client) {
        let mut monitors = self.monitors.lock_ignoring_poison();
        monitors.retain(|other| other.id() != client.id());
        if monitors.is_empty() {
            self.active_hooks.lower(Hook::Monitor);
        }
    }

    /// Sends a line to every MONITOR client but the one whose command it is about; whether that is one, too. A client
    /// that does not read is closed at its output limit.
    pub fn feed_monitors(&self, line: &[u8], about: &Client) -> bool {
        let mut itself = false;
        let mut slow = Vec::new();
        for monitor in self.monitors.lock_ignoring_poison().iter() {
            if monitor.id() == about.id() {
                itself = true;
                continue;
            }
            let waiting = monitor.send(line);
            if waiting > self.output_limit(monitor).notice() {
                slow.push((Arc::clone(monitor), waiting));
            }
        }
        self.check_output(&slow);
        itself
    }

    // ---- messages

    /// Sends a message to everybody who listens to a channel, or to a shard channel, and returns how many times it was
    /// sent. `by` is the session that causes it, which may listen itself.
    pub fn publish(&self, topic: Topic, channel: &[u8], payload: &[u8], mut by: Option<&mut Session>) -> usize {
        let notice = self.config.live().subscriber_output.notice();
        let publisher = by.as_deref_mut().map(|session| {
            let id = session.client.id();
            // Redis 7.0 wrote it in front of the reply, even inside the array that EXEC answers, where no client
            // expects a push; there it goes behind.
            let behind = session.executing || self.profile.since_redis(7, 2);
            Publisher { id, heard: if behind { &mut session.aside } else { &mut session.ahead } }
        });
        let delivery = self.pubsub.publish(topic, channel, payload, publisher, notice);
        if !delivery.slow.is_empty() {
            self.check_output(&delivery.slow);
        }
        if let Some(session) = by.filter(|session| session.aside.len() + session.ahead.len() > notice) {
            self.check_own_output(session);
        }
        delivery.count
    }

    /// Closes a client that has sent itself more than may wait for it.
    #[cold]
    fn check_own_output(&self, session: &mut Session) {
        if self.output_limit(&session.client).is_hard_passed(session.aside.len() + session.ahead.len()) {
            self.kill(&session.client);
            session.aside = Vec::new();
            session.ahead = Vec::new();
        }
    }

    fn output_limit(&self, client: &Client) -> &OutputLimit {
        self.config.live().output_limit(client.seen().is_subscriber())
    }

    /// Closes those of some clients for whom too much waits, or has for too long.
    #[cold]
    pub fn check_output(&self, clients: &[(Arc<Client>, usize)]) {
        let now = self.clock.millis();
        for &(ref client, waiting) in clients {
            let limit = self.output_limit(client);
            if client.lags_for_too_long(waiting, limit, now) {
                self.kill(client);
            } else if limit.is_soft_passed(waiting) {
                self.lagging.store(true, Ordering::Relaxed);
            }
        }
    }

    /// Looks again at the clients for whom more waits than should for long.
    fn close_lagging(&self) {
        if self.lagging.swap(false, Ordering::Relaxed) {
            for client in self.clients.all() {
                let waiting = client.waiting();
                self.check_output(&[(client, waiting)]);
            }
        }
    }

    // ---- the end of a view

    /// Ends a view: whoever asked for it hears what has happened, then the locks drop. `by` is the session that did it.
    #[inline]
    pub fn settle(&self, mut view: View<'_>, by: Option<&mut Session>) -> Tally {
        self.announce(&mut view, by);
        view.finish()
    }

    /// Tells whoever asked for it what has happened in a view so far. To be called after every command, so that what is
    /// told is in order even within a transaction.
    #[inline]
    pub fn announce(&self, view: &mut View<'_>, by: Option<&mut Session>) {
        if view.has_news() {
            self.spread(view.take_news(), by);
        }
    }

    #[cold]
    fn spread(&self, news: Vec<News>, mut by: Option<&mut Session>) {
        for piece in &news {
            match piece {
                News::Event { name, db, key, .. } => self.publish_event(name, *db, key, by.as_deref_mut()),
                News::Changed { .. } | News::Flushed => {}
            }
        }
        self.invalidate(&news, by);
    }

    fn publish_event(&self, name: &str, db: u32, key: &[u8], mut by: Option<&mut Session>) {
        let channels = self.config.live().events.load(Ordering::Relaxed);
        if channels & KEYSPACE_CHANNEL != 0 {
            let channel = [format!("__keyspace@{db}__:").as_bytes(), key].concat();
            self.publish(Topic::Channel, &channel, name.as_bytes(), by.as_deref_mut());
        }
        if channels & KEYEVENT_CHANNEL != 0 {
            self.publish(Topic::Channel, format!("__keyevent@{db}__:{name}").as_bytes(), key, by);
        }
    }

    // ---- client-side caching

    /// Tells those who keep copies of keys that the keys have changed.
    fn invalidate(&self, news: &[News], mut by: Option<&mut Session>) {
        if news.iter().all(|news| matches!(news, News::Event { .. })) {
            return;
        }
        let post = self.post();
        self.tracking.spread(news, &post, by.as_deref_mut(), self.keyspace.settings());
        self.check_output(&post.into_slow());
        if let Some(session) = by.filter(|session| !session.executing) {
            self.deliver_invalidations(session);
        }
    }

    /// Sends what a command or a transaction has left to be told about keys.
    pub fn deliver_invalidations(&self, session: &mut Session) {
        if session.tracking.has_news() {
            let post = self.post();
            self.tracking.deliver(&post, session);
            self.check_output(&post.into_slow());
        }
    }

    /// Forgets some keys that clients have copies of, because there are too many.
    #[cold]
    pub fn evict_tracked_keys(&self, session: &Session, out: &mut Vec<u8>) {
        let post = self.post();
        self.tracking.evict(&post, session, out);
        self.check_output(&post.into_slow());
    }

    fn post(&self) -> Post<'_> {
        let live = self.config.live();
        Post::new(&self.clients, live.normal_output.notice().min(live.subscriber_output.notice()))
    }

    // ---- clients

    /// Closes somebody else's connection: it runs nothing more, and nobody sees it any longer.
    pub fn kill(&self, client: &Client) {
        client.seen().closing.store(true, Ordering::Relaxed);
        client.signal(Signal::Kill);
        self.remove_monitor(client);
        self.tracking.forget(client.id(), self.keyspace.settings());
        self.pubsub.forget(client);
        self.clients.remove(client.id());
    }

    /// Takes the right to end what a client waits for; only one of those who try gets it.
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

    /// Takes a client out of the queues of those who wait.
    pub fn stop_waiting(&self, client: &Client, blocked: &Blocked) {
        self.keyspace.waiters().remove(blocked.db, blocked.keys.iter().map(|key| &**key), client.id());
    }

    /// CLIENT UNBLOCK: ends what a client waits for, if it waits for anything that may be cut short.
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

    /// Forgets the keys that a connection watches.
    pub fn unwatch(&self, watching: Watching) {
        for (db, key) in &watching.keys {
            self.keyspace.unwatch(*db, key, &watching.watch);
        }
    }

    // ---- housekeeping

    /// What is to be done now and then, and when the clock was moved, beside deleting what is due: closes connections that
    /// have been idle for too long.
    pub fn cron(&self) {
        self.look_at_clock();
        self.close_idle();
        self.close_lagging();
        self.free_forgotten();
        self.tell_findings(false);
    }

    /// Takes note of the time for [`recently`](Self::recently).
    pub fn look_at_clock(&self) {
        self.recently.store(self.clock.millis(), Ordering::Relaxed);
    }

    /// The server's time, up to a tenth of a second ago: for what is counted in seconds, and asked for all the time.
    #[inline]
    pub fn recently(&self) -> Millis {
        self.recently.load(Ordering::Relaxed)
    }

    /// Closes connections that have been idle for longer than `timeout`. One that is blocked, or listens, is not idle.
    fn close_idle(&self) {
        let timeout = self.config.live().timeout.load(Ordering::Relaxed);
        if timeout == 0 {
            return;
        }
        // Who is closed here is gone when whoever moved the clock goes on.
        let oldest = self.clock.millis().saturating_sub_unsigned(timeout.saturating_mul(1000));
        for client in self.clients.all() {
            let seen = client.seen();
            let exempt =
                seen.blocked.load(Ordering::Relaxed) || seen.monitor.load(Ordering::Relaxed) || seen.is_subscriber();
            if !exempt && seen.last_used.load(Ordering::Relaxed) < oldest {
                client.expect_end(self.clock.rung_alarm());
                self.kill(&client);
            }
        }
    }

    // ---- the end

    /// Asks the process to end, with all who are beside this server.
    pub fn shut_down(&self) {
        self.shutdown.asked.store(true, Ordering::Release);
        // One of them may have the very thread that is to hear of this.
        self.scripts.abandon();
        if let Some(fleet) = self.fleet() {
            fleet.abandon_scripts();
        }
        if let Some(waker) = self.shutdown.waker.lock_ignoring_poison().take() {
            waker.wake();
        }
    }

    /// Whether the server was asked to end; if not, `waker` is called when it is.
    pub(crate) fn is_shutting_down(&self, waker: &Waker) -> bool {
        *self.shutdown.waker.lock_ignoring_poison() = Some(waker.clone());
        self.shutdown.asked.load(Ordering::Acquire)
    }
}
