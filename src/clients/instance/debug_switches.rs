//! What DEBUG turns on and off.

use std::sync::atomic::{AtomicBool, Ordering};

pub struct DebugSwitches {
    /// Expired keys are deleted even if no command looks them up.
    pub active_expire: AtomicBool,
    /// Scripts may call commands with the flag `noscript`.
    pub noscript_in_scripts: AtomicBool,
    /// No periodic work is done.
    pub cron_paused: AtomicBool,
}

impl Default for DebugSwitches {
    fn default() -> Self {
        Self {
            active_expire: AtomicBool::new(true),
            noscript_in_scripts: AtomicBool::new(false),
            cron_paused: AtomicBool::new(false),
        }
    }
}

impl DebugSwitches {
    pub(super) fn reset(&self) {
        let Self { active_expire, noscript_in_scripts, cron_paused } = Self::default();
        self.active_expire.store(active_expire.into_inner(), Ordering::Relaxed);
        self.noscript_in_scripts.store(noscript_in_scripts.into_inner(), Ordering::Relaxed);
        self.cron_paused.store(cron_paused.into_inner(), Ordering::Relaxed);
    }
}
