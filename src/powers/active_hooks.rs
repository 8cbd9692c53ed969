//! Which hooks are armed: the one load that a command pays for everything that could get in its way.

use std::sync::atomic::{AtomicU32, Ordering};

/// Something that sees commands or parks them. A new hook gets a bit here, and stands in [`INTERCEPTING`] if it meets
/// commands on their way from arrival to reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Hook {
    /// A MONITOR client gets a copy of every command.
    Monitor = 1,
    /// CLIENT PAUSE is in force.
    ClientPause = 2,
    /// DEBUG SLEEP blocks the whole server.
    DebugSleep = 4,
    /// A script takes long: other commands get BUSY.
    SlowScript = 8,
    /// There are fault rules.
    Fault = 16,
    /// There are gates.
    Gate = 32,
    /// The journal is on.
    Journal = 64,
    /// A fault rule pauses the whole server.
    FaultPause = 128,
    /// The explorer gives turns to commands.
    Explore = 256,
    /// Writes need replicas (`min-replicas-to-write`).
    NeedsReplicas = 512,
    /// A save has begun, and none has succeeded since: if it fails, writes are refused (`stop-writes-on-bgsave-error`).
    UnconfirmedSave = 1024,
    /// The server is a replica (REPLICAOF), and its primary does not answer.
    Replica = 2048,
    /// There are replicas, or were some a while ago.
    Replicated = 4096,
}

/// The hooks for which a command takes the slow path from its arrival to its reply.
const INTERCEPTING: u32 = Hook::Fault as u32 | Hook::Gate as u32 | Hook::Journal as u32 | Hook::Explore as u32;

/// Those that see every command, whether or not a rule or a gate matches it.
const SEEING_EVERY_COMMAND: u32 = Hook::Journal as u32 | Hook::Explore as u32;

/// Which path a command takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookPath {
    /// The fast path: no hook intercepts commands.
    None,
    /// Only the journal is on. It parks nothing.
    JournalOnly,
    /// The slow path: rules, gates or the explorer, and perhaps the journal.
    All,
}

/// The hooks that are armed, as bits.
#[derive(Default)]
pub struct ActiveHooks(AtomicU32);

impl ActiveHooks {
    /// Whether a hook is armed that the processing of a command itself heeds, on whichever path.
    #[inline]
    pub fn affects_processing(&self) -> bool {
        self.0.load(Ordering::Relaxed) & !INTERCEPTING != 0
    }

    /// Whether nothing is armed.
    pub fn are_idle(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }

    #[inline]
    pub fn path(&self) -> HookPath {
        match self.0.load(Ordering::Relaxed) & INTERCEPTING {
            0 => HookPath::None,
            journal if journal == Hook::Journal as u32 => HookPath::JournalOnly,
            _ => HookPath::All,
        }
    }

    /// Whether a hook is armed that sees also the commands that match no rule and no gate.
    pub fn sees_every_command(&self) -> bool {
        self.0.load(Ordering::Relaxed) & SEEING_EVERY_COMMAND != 0
    }

    pub fn has(&self, hook: Hook) -> bool {
        self.0.load(Ordering::Acquire) & hook as u32 != 0
    }

    pub fn arm(&self, hook: Hook) {
        self.0.fetch_or(hook as u32, Ordering::AcqRel);
    }

    /// Arms a hook or disarms it.
    pub fn set(&self, hook: Hook, is_armed: bool) {
        if is_armed { self.arm(hook) } else { self.disarm(hook) }
    }

    pub fn disarm(&self, hook: Hook) {
        self.0.fetch_and(!(hook as u32), Ordering::AcqRel);
    }
}
