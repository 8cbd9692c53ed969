//! The threads that serve connections. Each has its own event loop, and a connection stays on its thread, so serving a
//! request moves nothing between threads.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::available_parallelism;

use tokio::runtime::{Builder, Handle, Runtime};

use super::connection::Connection;
use super::listener::Socket;
use super::node::Node;
use super::turn::{self, LookoutTask};
use super::upstream::{Destination, Member, ProxyConnection};
use crate::clients::identification::Identified;
use crate::clients::session::{Client, Session};

/// The worker threads, shared by all instances.
pub(super) struct Workers {
    loops: Vec<Handle>,
    next: AtomicUsize,
}

/// The event loop of one thread.
pub(super) fn event_loop() -> std::io::Result<Runtime> {
    // The interval is high, so that all ready sockets are served before the kernel is polled again.
    let runtime = Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .event_interval(1024)
        .on_thread_park(turn::end)
        .build()?;
    // With one processor, the client would rather run meanwhile.
    if available_parallelism().is_ok_and(|processors| processors.get() > 1) {
        runtime.spawn(LookoutTask);
    }
    Ok(runtime)
}

impl Workers {
    pub(super) fn new(loops: impl Iterator<Item = Handle>) -> Self {
        Self { loops: loops.collect(), next: AtomicUsize::new(0) }
    }

    /// Passes a connection to the next thread, round robin.
    pub(super) fn serve(&self, socket: Socket, client: Arc<Client>, node: &Arc<Node>, member: Option<&Arc<Member>>) {
        let thread = self.next.fetch_add(1, Ordering::Relaxed) % self.loops.len();
        let (handle, engine) = (&self.loops[thread], node.root());
        let user = engine.instance.acl.default_user();
        let mut session = Box::new(Session::new(client, user, engine.instance.stats.thread(thread)));
        session.node = member.map(|member| Arc::clone(&member.node));
        let _entered = handle.enter();
        let destination = Destination::of(node, member, session.client.peer(), socket.is_tls());
        let identified = engine.instance.identify(&session.client);
        match (socket.into_stream(), destination) {
            (Ok(stream), None) => {
                begin(handle, identified, Connection::new(Arc::clone(node), thread, session, stream));
            }
            (Ok(stream), Some(destination)) => {
                begin(handle, identified, ProxyConnection::new(Arc::clone(node), destination, session, stream));
            }
            (Err(_), _) => engine.disconnect(&mut session, &[]),
        }
    }
}

/// Serves a connection, once it is known which process its client is, if that is looked up.
fn begin(handle: &Handle, identified: Option<Identified>, connection: impl Future<Output = ()> + Send + 'static) {
    match identified {
        None => handle.spawn(connection),
        // The connection exists meanwhile: it is put in order when it is dropped.
        Some(identified) => handle.spawn(async move {
            identified.await;
            connection.await;
        }),
    };
}
