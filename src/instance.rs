//! Everything that the connections of one server share. Two servers in one process have nothing in common.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use crate::clock::{Clock, Millis};
use crate::config::Config;
use crate::control::{Attention, Matter};
use crate::identity::Identity;
use crate::keyspace::{Keyspace, News, Tally, View};
use crate::log::Log;
use crate::profile::Profile;
use crate::script::Scripts;
use crate::session::{Client, Clients, Session, Signal, Watching};
use crate::stats::Stats;
use crate::tracking::{Post, Tracking};

/// One running server, without its sockets.
pub struct Instance {
    pub clock: Arc<Clock>,
    pub config: Config,
    pub profile: Profile,
    pub keyspace: Keyspace,
    pub scripts: Scripts,
    pub clients: Clients,
    pub attention: Attention,
    pub tracking: Tracking,
    pub stats: Stats,
    pub log: Arc<Log>,
    /// CLIENT PAUSE: until when, and whether only writes are held back.
    pause: Mutex<Option<(Millis, bool)>>,
    /// What the clock showed when it was last looked at for housekeeping.
    recently: AtomicI64,
    pub identity: Identity,
    /// Keys that are due are deleted although nobody asks for them (DEBUG SET-ACTIVE-EXPIRE stops that).
    pub active_expire: AtomicBool,
    monitors: Mutex<Vec<Arc<Client>>>,
    stall: Stall,
    shutdown: Shutdown,
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
        let identity = Identity::new(clock.millis());
        let keyspace = Keyspace::new(databases, &clock);
        let recently = AtomicI64::new(clock.millis());
        let instance = Self {
            clock,
            config,
            profile,
            keyspace,
            scripts: Scripts::default(),
            clients: Clients::default(),
            attention: Attention::default(),
            tracking: Tracking::default(),
            stats: Stats::default(),
            log: Arc::new(Log::silent()),
            pause: Mutex::default(),
            recently,
            identity,
            active_expire: AtomicBool::new(true),
            monitors: Mutex::default(),
            stall: Stall::default(),
            shutdown: Shutdown::default(),
        };
        instance.apply_settings();
        instance
    }

    // ---- settings

    /// Hands settings on to those who keep a copy; to be called whenever the configuration has changed.
    pub fn apply_settings(&self) {
        let live = self.config.live();
        let max_string = live.max_bulk.load(Ordering::Relaxed);
        self.keyspace.settings().max_string.store(max_string, Ordering::Relaxed);
        self.tracking.set_most_keys(live.max_tracked_keys.load(Ordering::Relaxed));
        self.log.set_least(live.log_level.load(Ordering::Relaxed));
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
        self.attention.raise(Matter::Pause);
    }

    /// Ends a pause: whoever was held back goes on.
    pub fn unpause(&self) {
        self.end_pause(&mut self.held_pause());
    }

    /// Until when commands are held back, if they are; with whether that is only so for writes.
    pub fn paused(&self) -> Option<(Millis, bool)> {
        if !self.attention.has(Matter::Pause) {
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
        self.attention.lower(Matter::Pause);
        self.clients.signal_all(Signal::Unpause);
    }

    fn held_pause(&self) -> MutexGuard<'_, Option<(Millis, bool)>> {
        self.pause.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // ---- DEBUG SLEEP

    /// Blocks this thread, and every other command of this server, for a stretch of real time.
    pub fn stall(&self, duration: std::time::Duration) {
        *self.stall.sleepers.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.attention.raise(Matter::Stall);
        self.clock.block(duration);
        let mut sleepers = self.stall.sleepers.lock().unwrap_or_else(PoisonError::into_inner);
        *sleepers -= 1;
        if *sleepers == 0 {
            self.attention.lower(Matter::Stall);
            self.stall.over.notify_all();
        }
    }

    /// Blocks this thread while another one stalls the server.
    pub fn wait_for_stall(&self) {
        let sleepers = self.stall.sleepers.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.stall.over.wait_while(sleepers, |sleepers| *sleepers > 0));
    }

    // ---- MONITOR

    pub fn add_monitor(&self, client: &Arc<Client>) {
        let mut monitors = self.monitors.lock().unwrap_or_else(PoisonError::into_inner);
        if !monitors.iter().any(|other| Arc::ptr_eq(other, client)) {
            monitors.push(Arc::clone(client));
        }
        self.attention.raise(Matter::Monitor);
    }

    pub fn remove_monitor(&self, client: &Client) {
        let mut monitors = self.monitors.lock().unwrap_or_else(PoisonError::into_inner);
        monitors.retain(|other| other.id() != client.id());
        if monitors.is_empty() {
            self.attention.lower(Matter::Monitor);
        }
    }

    /// Sends a line to every MONITOR client but the one whose command it is about; whether that is one, too. A client
    /// that does not read is closed at its output limit.
    pub fn feed_monitors(&self, line: &[u8], about: &Client) -> bool {
        let limit = self.config.live().output_limit.load(Ordering::Relaxed);
        let mut itself = false;
        for monitor in self.monitors.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            if monitor.id() == about.id() {
                itself = true;
            } else if monitor.send(line) > limit && limit != 0 {
                monitor.signal(Signal::Kill);
            }
        }
        itself
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
    fn spread(&self, news: Vec<News>, by: Option<&mut Session>) {
        self.invalidate(&news, by);
    }

    // ---- client-side caching

    /// Tells those who keep copies of keys that the keys have changed.
    fn invalidate(&self, news: &[News], mut by: Option<&mut Session>) {
        if news.iter().all(|news| matches!(news, News::Event { .. })) {
            return;
        }
        self.tracking.spread(news, &self.post(), by.as_deref_mut(), self.keyspace.settings());
        if let Some(session) = by.filter(|session| !session.executing) {
            self.deliver_invalidations(session);
        }
    }

    /// Sends what a command or a transaction has left to be told about keys.
    pub fn deliver_invalidations(&self, session: &mut Session) {
        if session.tracking.has_news() {
            // Up to 7.0 what one connection was told for another did not wait for the reply.
            self.tracking.deliver(&self.post(), session, self.profile.since_redis(7, 2));
        }
    }

    /// Forgets some keys that clients have copies of, because there are too many.
    #[cold]
    pub fn evict_tracked_keys(&self, session: &Session, out: &mut Vec<u8>) {
        self.tracking.evict(&self.post(), session, out);
    }

    fn post(&self) -> Post<'_> {
        Post { clients: &self.clients, limit: self.config.live().output_limit.load(Ordering::Relaxed) }
    }

    // ---- clients

    /// Closes somebody else's connection: it runs nothing more, and nobody sees it any longer.
    pub fn kill(&self, client: &Client) {
        client.seen().closing.store(true, Ordering::Relaxed);
        client.signal(Signal::Kill);
        self.remove_monitor(client);
        self.tracking.forget(client.id(), self.keyspace.settings());
        self.clients.remove(client.id());
    }

    /// Forgets the keys that a connection watches.
    pub fn unwatch(&self, watching: Watching) {
        for (db, key) in &watching.keys {
            self.keyspace.unwatch(*db, key, &watching.watch);
        }
    }

    // ---- housekeeping

    /// What is to be done now and then, and when the clock was moved: deletes keys whose time has passed, closes
    /// connections that have been idle for too long.
    pub fn keep_house(&self) {
        self.recently.store(self.clock.millis(), Ordering::Relaxed);
        self.sweep();
        self.close_idle();
    }

    /// The server's time, up to a tenth of a second ago: for what is counted in seconds, and asked for all the time.
    #[inline]
    pub fn recently(&self) -> Millis {
        self.recently.load(Ordering::Relaxed)
    }

    /// Deletes keys whose time has passed, unless DEBUG SET-ACTIVE-EXPIRE has put an end to that.
    fn sweep(&self) {
        if !self.active_expire.load(Ordering::Relaxed) {
            return;
        }
        if let Some(view) = self.keyspace.sweep(&self.clock) {
            self.stats.add(self.settle(view, None));
        }
    }

    /// Closes connections that have been idle for longer than `timeout`. One that is blocked is not idle.
    fn close_idle(&self) {
        let timeout = self.config.live().timeout.load(Ordering::Relaxed);
        if timeout == 0 {
            return;
        }
        let oldest = self.clock.millis().saturating_sub_unsigned(timeout.saturating_mul(1000));
        for client in self.clients.all() {
            let seen = client.seen();
            let exempt = seen.blocked.load(Ordering::Relaxed) || seen.monitor.load(Ordering::Relaxed);
            if !exempt && seen.last_used.load(Ordering::Relaxed) < oldest {
                self.kill(&client);
            }
        }
    }

    // ---- the end

    /// Asks the server to end.
    pub fn shut_down(&self) {
        self.shutdown.asked.store(true, Ordering::Release);
        // It may have the very thread that is to hear of this.
        self.scripts.abandon();
        if let Some(waker) = self.shutdown.waker.lock().unwrap_or_else(PoisonError::into_inner).take() {
            waker.wake();
        }
    }

    /// Whether the server was asked to end; if not, `waker` is called when it is.
    pub(crate) fn is_shutting_down(&self, waker: &Waker) -> bool {
        *self.shutdown.waker.lock().unwrap_or_else(PoisonError::into_inner) = Some(waker.clone());
        self.shutdown.asked.load(Ordering::Acquire)
    }
}
