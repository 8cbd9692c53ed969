//! The one load that a command pays for everything that could get in its way.

use std::sync::atomic::{AtomicU32, Ordering};

/// Something that wants to see every command, or to hold it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Hook {
    /// A MONITOR client wants a copy.
    Monitor = 1,
    /// CLIENT PAUSE is in force.
    Pause = 2,
    /// DEBUG SLEEP blocks the whole server.
    DebugSleep = 4,
    /// A script takes long: others are told that the server is busy.
    Script = 8,
    /// There are fault rules.
    Fault = 16,
    /// There are gates.
    Gate = 32,
    /// The journal is being written.
    Journal = 64,
    /// A fault pauses the whole server.
    Halt = 128,
    /// The orders of a test are being explored.
    Explore = 256,
}

/// The matters for which a command is accompanied on its way, from its arrival to its reply.
const ACCOMPANY: u32 = Hook::Fault as u32 | Hook::Gate as u32 | Hook::Journal as u32 | Hook::Explore as u32;

/// Those for which every command is, whether or not anything stands in its way.
const WANT_ALL: u32 = Hook::Journal as u32 | Hook::Explore as u32;

/// Who is with a command on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookPath {
    Nobody,
    /// Only the journal, which holds nobody.
    Journal,
    /// Rules or gates, and perhaps the journal.
    Everybody,
}

/// Which matters are up. While none is, a command only looks at this once or twice.
#[derive(Default)]
pub struct ActiveHooks(AtomicU32);

impl ActiveHooks {
    /// Whether there is anything beside what accompanies commands.
    #[inline]
    pub fn is_needed(&self) -> bool {
        self.0.load(Ordering::Relaxed) & !ACCOMPANY != 0
    }

    /// Who wants to know of every command.
    #[inline]
    pub fn company(&self) -> HookPath {
        match self.0.load(Ordering::Relaxed) & ACCOMPANY {
            0 => HookPath::Nobody,
            journal if journal == Hook::Journal as u32 => HookPath::Journal,
            _ => HookPath::Everybody,
        }
    }

    /// Whether somebody wants to know also of those commands that no rule and no gate is about.
    pub fn wants_all(&self) -> bool {
        self.0.load(Ordering::Relaxed) & WANT_ALL != 0
    }

    pub fn has(&self, matter: Hook) -> bool {
        self.0.load(Ordering::Acquire) & matter as u32 != 0
    }

    pub fn raise(&self, matter: Hook) {
        self.0.fetch_or(matter as u32, Ordering::AcqRel);
    }

    pub fn lower(&self, matter: Hook) {
        self.0.fetch_and(!(matter as u32), Ordering::AcqRel);
    }
}
