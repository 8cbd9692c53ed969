//! Client-side caching: what a session keeps for it.

use std::collections::BTreeMap;

/// How CLIENT TRACKING was turned on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrackingMode {
    /// The connection that gets the invalidations instead; 0 for none.
    pub redirect: u64,
    /// BCAST: invalidations for every key with a prefix, read or not.
    pub broadcast: bool,
    /// NOLOOP: no invalidations for what the connection changes itself.
    pub no_loop: bool,
    pub choice: Choice,
}

/// Which reads are remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    All,
    /// Only those behind CLIENT CACHING YES.
    OptIn,
    /// All but those behind CLIENT CACHING NO.
    OptOut,
}

/// The state of client-side caching of one connection.
#[derive(Default)]
pub struct SessionTracking {
    pub mode: Option<TrackingMode>,
    /// The keys that it reads are remembered, as far as the mode's choice goes.
    pub remembers: bool,
    /// CLIENT CACHING was given, for the next command or transaction.
    pub excepted: bool,
    /// Where its invalidations went last. Those that are still due go there, even if it tracks no more.
    pub redirect: u64,
    /// Keys that the running command changed and that the client itself has read; `None` stands for all of them.
    pub owed: Vec<Option<Box<[u8]>>>,
    /// What the commands of a batch changed, for clients that track prefixes; with the connection that did it, or none if the
    /// key expired.
    pub changed: BTreeMap<Box<[u8]>, Option<u64>>,
}

impl SessionTracking {
    pub fn start(&mut self, mode: TrackingMode) {
        self.mode = Some(mode);
        self.remembers = !mode.broadcast;
        self.redirect = mode.redirect;
    }

    pub fn stop(&mut self) {
        self.mode = None;
        self.remembers = false;
        self.excepted = false;
    }

    /// Whether what the running command reads is remembered.
    pub fn wants_reads(&self) -> bool {
        self.mode.is_some_and(|mode| match mode.choice {
            _ if mode.broadcast => false,
            Choice::All => true,
            Choice::OptIn => self.excepted,
            Choice::OptOut => !self.excepted,
        })
    }
}
