//! Configuration: what `redis-server` calls directives.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock};

/// What `enable-debug-command` can say.
pub const DEBUG_NO: u8 = 0;
pub const DEBUG_YES: u8 = 1;
pub const DEBUG_LOCAL: u8 = 2;

/// The settings that running code reads, kept in the form in which it reads them.
pub struct Live {
    pub max_clients: AtomicUsize,
    /// Seconds after which an idle connection is closed; 0 for never.
    pub timeout: AtomicU64,
    pub max_bulk: AtomicI64,
    pub query_buffer_limit: AtomicUsize,
    /// The most bytes that may wait to be sent to one client; 0 for no limit.
    pub output_limit: AtomicUsize,
    pub max_memory: AtomicUsize,
    pub protected_mode: AtomicBool,
    /// `enable-debug-command`: who may use DEBUG.
    pub debug_commands: AtomicU8,
    password: RwLock<Option<Vec<u8>>>,
    unix_socket: RwLock<Option<PathBuf>>,
}

impl Default for Live {
    fn default() -> Self {
        Self {
            max_clients: AtomicUsize::new(10_000),
            timeout: AtomicU64::new(0),
            max_bulk: AtomicI64::new(512 << 20),
            query_buffer_limit: AtomicUsize::new(1 << 30),
            output_limit: AtomicUsize::new(1 << 30),
            max_memory: AtomicUsize::new(0),
            protected_mode: AtomicBool::new(true),
            debug_commands: AtomicU8::new(DEBUG_NO),
            password: RwLock::new(None),
            unix_socket: RwLock::new(None),
        }
    }
}

impl Live {
    /// `requirepass`, if there is one.
    pub fn password(&self) -> Option<Vec<u8>> {
        self.password.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// `unixsocket`, if there is one.
    pub fn unix_socket(&self) -> Option<PathBuf> {
        self.unix_socket.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn set_unix_socket(&self, path: Option<PathBuf>) {
        *self.unix_socket.write().unwrap_or_else(PoisonError::into_inner) = path;
    }

    /// Whether a client may use DEBUG.
    pub fn allows_debug(&self, local: bool) -> bool {
        match self.debug_commands.load(Ordering::Relaxed) {
            DEBUG_YES => true,
            DEBUG_LOCAL => local,
            _ => false,
        }
    }

    pub fn set_password(&self, password: Option<Vec<u8>>) {
        *self.password.write().unwrap_or_else(PoisonError::into_inner) = password;
    }
}

/// The configuration of one server.
#[derive(Default)]
pub struct Config {
    live: Live,
}

impl Config {
    pub fn live(&self) -> &Live {
        &self.live
    }
}
