//! The kinds of findings: name, severity, title, advice. To add a rule, begin here; see `rules/mod.rs`.

use crate::base::terminal::Ink;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Worth knowing.
    Note,
    /// Wrong only under circumstances that were not seen, or possibly intended.
    Warning,
    /// Wrong under some interleaving, and seen.
    Error,
}

impl Severity {
    /// All severities, the least first.
    pub const ALL: [Self; 3] = [Self::Note, Self::Warning, Self::Error];

    /// The name on the wire and in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }

    /// A text in the colour of the severity.
    pub(crate) fn inked(self, ink: Ink, text: &str) -> String {
        match self {
            Self::Note => ink.cyan(text),
            Self::Warning => ink.yellow(text),
            Self::Error => ink.red(text),
        }
    }
}

/// What all findings of a kind have in common.
struct About {
    name: &'static str,
    severity: Severity,
    title: &'static str,
    instead: &'static str,
}

macro_rules! codes {
    ($($(#[$doc:meta])* $code:ident = $name:literal, $severity:ident, $title:literal, $instead:literal;)*) => {
        /// The kind of a finding.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code {
            $($(#[$doc])* $code,)*
        }

        impl Code {
            /// All codes.
            pub const ALL: &[Self] = &[$(Self::$code,)*];

            const fn about(self) -> About {
                match self {
                    $(Self::$code => About {
                        name: $name,
                        severity: Severity::$severity,
                        title: $title,
                        instead: $instead,
                    },)*
                }
            }
        }
    };
}

codes! {
    /// Two clients believe that they hold the lock.
    TwoHolders = "two-holders", Error,
        "Two clients held the lock at once",
        "Take the lock with SET NX PX and a token of your own, and release it only while it still has that token.";
    /// A client released a lock that was another's by then.
    ForeignRelease = "foreign-release", Error,
        "A client released a lock that was somebody else's",
        "Release with a script, DELEX IFEQ or DELIFEQ that deletes the key only while it has your token.";
    /// A client that never held the lock deleted it.
    BlindDelete = "blind-delete", Warning,
        "A lock was deleted by a client that did not hold it",
        "Leave a lock to its holder, or to its expiry; compare its token before you delete it.";
    /// The holder deleted its lock without comparing the token.
    UncheckedRelease = "unchecked-release", Warning,
        "A lock was released without a look at whose it is",
        "Delete the key only while it has your token, in one step: a script, DELEX IFEQ or DELIFEQ.";
    /// The holder compared the token and deleted the lock in two steps.
    GetThenDelete = "get-then-delete", Error,
        "A lock was compared and released in two steps",
        "Compare and delete in one step: a script, DELEX IFEQ, DELIFEQ, or WATCH around GET and DEL.";
    /// A client tried to release a lock that it did not hold any more.
    LateRelease = "late-release", Warning,
        "A client released a lock that had expired",
        "Give the lock more time, extend it in time, or check how much is left before each step of the work.";
    /// A client tried to extend a lock that it did not hold any more.
    LateExtension = "late-extension", Warning,
        "A client extended a lock that it no longer had",
        "Extend long before the end, and stop the work when the extension says that the lock is gone.";
    /// A client went on working after its lock was over.
    WorkAfterExpiry = "work-after-expiry", Error,
        "A client went on writing after its lock was over",
        "Check the lock before each write, or guard the data with a fencing token.";
    /// A write was lost: another client overwrote it with what it had computed before.
    LostUpdate = "lost-update", Error,
        "An update was lost",
        "Hold one lock from the read to the write, or change the value in one step: INCRBY, a script, WATCH before the read.";
    /// The lock is repeatedly held for longer than it lives.
    ExpiryTooShort = "expiry-too-short", Error,
        "The lock expires before its holders are done, again and again",
        "Give the lock more time than the work ever takes, or renew it while the work goes on.";
    /// A client extended another one's lock.
    ForeignExtension = "foreign-extension", Error,
        "A client extended a lock that was somebody else's",
        "Extend only while the lock has your token, in one step: a script or SET IFEQ.";
    /// The holder extended its lock without comparing the token.
    UncheckedExtension = "unchecked-extension", Warning,
        "A lock was extended without a look at whose it is",
        "Extend only while the lock has your token, in one step: a script or SET IFEQ.";
    /// A lock that never ends by itself.
    NoExpiry = "no-expiry", Warning,
        "A lock has no expiry",
        "Take the lock with SET NX PX, so that it ends by itself if its holder dies.";
    /// SETNX first, EXPIRE then.
    ExpiryInSecondStep = "expiry-in-second-step", Error,
        "A lock got its expiry in a second step",
        "Take the lock and give it its expiry in one command: SET NX PX.";
    /// A live lock was overwritten.
    OverwroteLiveLock = "overwrote-live-lock", Error,
        "A live lock was overwritten",
        "Take a lock only with NX; take over with GETSET only what GET has shown to be over.";
    /// A client found the lock free and took it in a second step, and another one came in between.
    CheckedThenTaken = "checked-then-taken", Error,
        "A lock was looked at and taken in two steps",
        "Take the lock with one command whose reply says whether it was free: SET NX, SADD, HSETNX, INCR, or a script.";
    /// Several clients found the lock stale and deleted it.
    StaleDeleteRace = "stale-delete-race", Error,
        "A stale lock was deleted and taken anew by several at once",
        "Take a stale lock over with GETSET, and check that the value it returns is the stale one.";
    /// A client's clock disagrees with the server's.
    ClockDisagrees = "clock-disagrees", Warning,
        "A lock's time comes from a clock that disagrees",
        "Let the server keep the time: SET NX PX instead of expiry times as values.";
    /// Seconds and milliseconds in the same lock.
    MixedTimeUnits = "mixed-time-units", Error,
        "The expiry times in a lock have different units",
        "Use one unit in all programs that share the lock; better, let the server keep the time with SET NX PX.";
    /// A write took the lock's expiry away.
    ExpiryRemoved = "expiry-removed", Error,
        "A write took the lock's expiry away",
        "Give the expiry again with each SET, or add KEEPTTL.";
    /// An expiry that is hardly meant.
    OddExpiry = "odd-expiry", Warning,
        "A lock has an expiry that can hardly be meant",
        "Check the unit: EX and EXPIRE take seconds, PX and PEXPIRE milliseconds.";
    /// The work was nearly as long as the lock lives.
    CloseToExpiry = "close-to-expiry", Note,
        "Locks are released just before they expire",
        "Give the lock more time than the work ever takes, or renew it while the work goes on.";
    /// The same token for different holders.
    TokenReused = "token-reused", Error,
        "Different clients used the same token for a lock",
        "Make a new token for each attempt, from at least 16 random bytes.";
    /// The same token each time.
    TokenConstant = "token-constant", Warning,
        "A lock's token is always the same",
        "Make a new token for each attempt, from at least 16 random bytes.";
    /// A token that can be guessed.
    TokenGuessable = "token-guessable", Warning,
        "A lock's token can be guessed",
        "Make a new token for each attempt, from at least 16 random bytes.";
    /// The holder's connection ended.
    HeldAtDisconnect = "held-at-disconnect", Warning,
        "A connection ended while it held a lock",
        "Release locks before you close; keep their expiry short for the case that the program dies.";
    /// No client released the lock by the end.
    Leaked = "leaked", Warning,
        "A lock was still held at the end",
        "Release the lock on every way out of the code that takes it.";
    /// The holder stopped to renew its lock.
    RenewalStopped = "renewal-stopped", Warning,
        "The renewal of a lock stopped while it was held",
        "Watch over the task that renews the lock, and stop the work when it fails.";
    /// A lock that is renewed for ever.
    RenewalNeverStops = "renewal-never-stops", Warning,
        "A lock is renewed for ever",
        "Tie the renewal to the work: bound how often it renews, and stop it when the work is done or lost.";
    /// Attempts follow each other without a pause.
    RetryStorm = "retry-storm", Warning,
        "A client tried again and again without a pause",
        "Wait between attempts, longer each time; or wait for a message that the lock is free.";
    /// Attempts come in step.
    RetryInStep = "retry-in-step", Warning,
        "Clients tried again in step",
        "Wait a random time between attempts.";
    /// The reply was lost, and the lock that it may have granted was not released.
    LostAndNotReleased = "lost-and-not-released", Warning,
        "A lock whose reply was lost was not released",
        "After an error, release with the token that you offered: the lock may be yours.";
    /// A client was refused by the lock that it holds itself.
    RefusedByItself = "refused-by-itself", Error,
        "A client was refused by a lock that it had itself",
        "Keep one token for all tries of one attempt, and compare it with the lock's before you give up.";
    /// A client waits for a lock that it holds.
    SelfDeadlock = "self-deadlock", Warning,
        "A client waited for a lock that it held itself",
        "Do not take a lock twice, or use one that counts how often its owner has it.";
    /// Two clients wait for each other.
    LockOrder = "lock-order", Error,
        "Clients took locks in different orders and waited for each other",
        "Take several locks always in the same order, or give all of them back when one is refused.";
    /// A flush deleted live locks.
    FlushedLocks = "flushed-locks", Warning,
        "A flush deleted locks that were held",
        "Keep locks apart from what is flushed: in another database, or on another server.";
    /// A release by key alone after the lock was lost to a flush or a restart.
    ReleaseAfterFlush = "release-after-flush", Error,
        "A lock that was lost with the server's data was released by its key",
        "Release only while the lock has your token; after a restart somebody else may have it.";
    /// Memory was full, and the server chose a live lock.
    EvictedLock = "evicted-lock", Error,
        "The server evicted a lock that was held",
        "Keep locks on a server with maxmemory-policy noeviction, apart from what may be evicted.";
    /// A Cluster refuses what is done to a lock and other keys in one step.
    CrossSlot = "cross-slot", Note,
        "A lock is used in one step with keys that a Cluster keeps elsewhere",
        "Give keys that are used in one step the same hash tag: lock:{order-7} and data:{order-7}.";
    /// The node that had the lock was replaced by one that may not have it.
    HeldThroughFailover = "held-through-failover", Warning,
        "A lock was held while the node that had it was replaced",
        "Take such a lock on several masters that fail independently (Redlock), or guard the data with a fencing token.";
    /// The node that took the place of the one with the lock had not got it, and gave it to another client.
    LostInFailover = "lost-in-failover", Error,
        "A lock was given again after a failover that had lost it",
        "Take such a lock on several masters that fail independently (Redlock), or guard the data with a fencing token. WAIT helps only \
         if its answer counts, and the replica that has the write is the one that is promoted.";
    /// A master that was cut off and replaced gave a lock, and the one in its place gave it, too.
    SplitBrainHolder = "split-brain-holder", Error,
        "Two masters of one group gave the same lock",
        "Let a master without replicas refuse writes (min-replicas-to-write, short min-replicas-max-lag), take such a lock on several \
         masters that fail independently (Redlock), or guard the data with a fencing token.";
    /// WAIT answered less than asked for, and the client went on.
    WaitIgnored = "wait-ignored", Warning,
        "A lock was trusted although WAIT had answered too few replicas",
        "Compare the answer of WAIT with what you asked for; if it is less, give the lock back and try again.";
    /// Redlock: the lock was used without a quorum.
    NoQuorum = "no-quorum", Error,
        "A lock over several servers was used without a majority of them",
        "Use the lock only if more than half of the servers gave it; otherwise release it on all of them.";
    /// Redlock: the time to live was used up.
    ValidityUsedUp = "validity-used-up", Error,
        "It took so long to take the lock on all servers that none of its time was left",
        "Subtract the time that it took from the expiry, and give up if too little is left.";
    /// Redlock: instances that are one server.
    OneServer = "one-server", Note,
        "The servers of a lock are one and the same",
        "Use servers that fail independently; several connections to one server are worth one.";
    /// Redlock: a failed attempt left its locks behind.
    NotReleasedEverywhere = "not-released-everywhere", Warning,
        "An attempt that failed did not release the servers that had given the lock",
        "Release on all servers when an attempt fails, also on those that seemed to refuse.";
}

impl Code {
    /// The name on the wire, in files and in the documentation. It never changes.
    pub fn name(self) -> &'static str {
        self.about().name
    }

    /// The severity, unless the circumstances say otherwise.
    pub fn severity(self) -> Severity {
        self.about().severity
    }

    /// What is wrong, in a few words.
    pub fn title(self) -> &'static str {
        self.about().title
    }

    /// What to do instead.
    pub fn instead(self) -> &'static str {
        self.about().instead
    }

    /// Whether it says that a lock was taken and not released.
    pub(super) fn is_about_missing_release(self) -> bool {
        matches!(
            self,
            Self::Leaked
                | Self::HeldAtDisconnect
                | Self::LostAndNotReleased
                | Self::RefusedByItself
                | Self::NotReleasedEverywhere
        )
    }

    /// The code with this name.
    pub fn by_name(name: &[u8]) -> Option<Self> {
        Self::ALL.iter().copied().find(|code| name.eq_ignore_ascii_case(code.name().as_bytes()))
    }
}
