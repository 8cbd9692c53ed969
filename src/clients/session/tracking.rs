//! Client-side caching, as far as a connection itself must know of it.

use std::collections::BTreeMap;

/// How CLIENT TRACKING was turned on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrackingMode {
    /// The connection that is told instead; 0 for none.
    pub redirect: u64,
    /// BCAST: told of every key with a prefix, whether it was read or not.
    pub broadcast: bool,
    /// NOLOOP: not told of what the connection changes itself.
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

/// One connection's share in client-side caching.
#[derive(Default)]
pub struct SessionTracking {
    pub mode: Option<TrackingMode>,
    /// The keys that it reads are to be remembered, as far as the mode's choice goes.
    pub remembers: bool,
    /// CLIENT CACHING was given, for the next command or transaction.
    pub excepted: bool,
    /// Where its messages went to last, even if it tracks no more: what it is owed still goes there.
    pub redirect: u64,
    /// Keys that the running command changed and that the client itself has read; `None` stands for all of them.
    pub owed: Vec<Option<Box<[u8]>>>,
    /// What the running command changed, to be told to those who asked for prefixes; with the connection that did it,
    /// or none if it only ran out of time.
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

    /// Whether what the running command reads is to be remembered.
    pub fn wants_reads(&self) -> bool {
        self.mode.is_some_and(|mode| match mode.choice {
            _ if mode.broadcast => false,
            Choice::All => true,
            Choice::OptIn => self.excepted,
            Choice::OptOut => !self.excepted,
        })
    }

    /// Whether there is anything to tell at the end of the command.
    pub fn has_news(&self) -> bool {
        !self.owed.is_empty() || !self.changed.is_empty()
    }
}
