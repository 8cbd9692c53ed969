//! The threads that serve connections. Each has an event loop of its own, and a connection stays with its thread, so
//! serving a request moves nothing between threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::runtime::{Builder, Handle, Runtime};

use super::connection::Connection;
use super::listener::Socket;
use crate::engine::Engine;
use crate::session::{Client, Session};
use crate::stats::{Counters, Stats};

/// Where connections are served.
pub(super) struct Workers {
    loops: Vec<(Handle, Arc<Counters>)>,
    next: AtomicUsize,
}

/// An event loop for one thread.
pub(super) fn event_loop() -> std::io::Result<Runtime> {
    // All sockets that are ready are served before the kernel is asked again which are.
    Builder::new_current_thread().enable_io().enable_time().event_interval(1024).build()
}

impl Workers {
    pub(super) fn new(loops: impl Iterator<Item = Handle>, stats: &Stats) -> Self {
        Self { loops: loops.map(|handle| (handle, stats.thread())).collect(), next: AtomicUsize::new(0) }
    }

    /// Gives a connection to the next thread in turn.
    pub(super) fn serve(&self, socket: Socket, client: Arc<Client>, engine: &Arc<Engine>) {
        let turn = self.next.fetch_add(1, Ordering::Relaxed) % self.loops.len();
        let (handle, counters) = &self.loops[turn];
        let user = engine.instance.acl.default_user();
        let mut session = Box::new(Session::new(client, user, Arc::clone(counters)));
        let _entered = handle.enter();
        match socket.into_stream() {
            Ok(stream) => {
                handle.spawn(Connection::new(Arc::clone(engine), session, stream));
            }
            Err(_) => engine.disconnect(&mut session),
        }
    }
}
