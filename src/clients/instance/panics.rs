//! Panics of the server itself: each is a bug of redouble, and a reason to distrust what a test shows after it.

use std::any::Any;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Instance;

/// How often handlers have panicked in this process. All servers of a process share one.
#[derive(Default)]
pub(super) struct Panics(AtomicU64);

impl Instance {
    /// Counts a panic and logs it; `during` says what the server did.
    pub fn record_panic(&self, during: &str, panic: &(dyn Any + Send)) {
        self.panics.0.fetch_add(1, Ordering::Relaxed);
        let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        let text = text.unwrap_or("no reason given").replace(['\r', '\n'], " ");
        self.log.warn(format!("Panic {during}: {text}. This is a bug in redouble."));
    }

    /// How often handlers have panicked, in all servers of the process. No reset forgets this.
    pub fn panics(&self) -> u64 {
        self.panics.0.load(Ordering::Relaxed)
    }
}
