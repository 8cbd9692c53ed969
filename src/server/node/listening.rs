//! Listening: an instance accepts connections, or refuses them and keeps its ports.

use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};

use super::Node;
use crate::base::error::Error;
use crate::base::sync::MutexExt;
use crate::server::bound_address::BoundAddress;
use crate::server::listener::accept;

impl Node {
    /// Whether connections are accepted.
    pub(in crate::server) fn is_serving(&self) -> bool {
        self.serving.load(Ordering::SeqCst)
    }

    /// Serializes stopping and starting the instance. Taken before all other locks of a node.
    pub(in crate::server) fn lock_lifecycle(&self) -> MutexGuard<'_, ()> {
        self.lifecycle.lock_ignoring_poison()
    }

    /// Accepts connections on addresses that already listen.
    pub(in crate::server) fn open(self: &Arc<Self>) -> Result<(), Error> {
        let bound = self.bound.lock_ignoring_poison();
        let _entered = self.main.enter();
        let listeners: Vec<_> = bound.iter().map(BoundAddress::listener).collect::<Result<_, _>>()?;
        self.serving.store(true, Ordering::SeqCst);
        // Who comes by a unix socket comes to the first node of a deployment.
        let first = self.deployment.as_ref().and_then(|deployment| deployment.first());
        let tasks =
            listeners.into_iter().map(|listener| self.main.spawn(accept(listener, Arc::clone(self), first.clone())));
        *self.accept_tasks.lock_ignoring_poison() = tasks.map(|task| task.abort_handle()).collect();
        drop(bound);
        Ok(())
    }

    /// Listens on the same addresses again, and accepts connections.
    pub(in crate::server) fn reopen(self: &Arc<Self>) -> Result<(), Error> {
        let mut bound = self.bound.lock_ignoring_poison();
        let opened = bound.iter_mut().try_for_each(BoundAddress::open);
        if opened.is_err() {
            // Clients would hang on an address that listens but does not accept.
            bound.iter_mut().for_each(BoundAddress::close);
        }
        drop(bound);
        opened?;
        self.open()?;
        self.deployment.as_ref().map_or(Ok(()), |deployment| deployment.reopen(self))
    }

    /// Accepts connections on the ports of the deployment's nodes for the first time.
    pub(in crate::server) fn open_deployment(self: &Arc<Self>) -> Result<(), Error> {
        self.deployment.as_ref().map_or(Ok(()), |deployment| deployment.open(self))
    }

    /// Refuses connections from now on, and closes all clients except `except`.
    pub(in crate::server) fn close(&self, except: Option<u64>) {
        self.stop_accepting();
        for engine in self.worlds() {
            engine.instance.scripts.kill_for_shutdown();
            for client in engine.instance.clients.all() {
                if Some(client.id()) != except {
                    engine.instance.kill(&client);
                }
            }
        }
    }

    fn stop_accepting(&self) {
        let mut bound = self.bound.lock_ignoring_poison();
        // Set before the connections are listed: a connection that is being accepted sees this, or is in the list.
        self.serving.store(false, Ordering::SeqCst);
        self.accept_tasks.lock_ignoring_poison().drain(..).for_each(|task| task.abort());
        bound.iter_mut().for_each(BoundAddress::close);
        self.deployment.iter().for_each(|deployment| deployment.close());
    }

    /// Stops accepting, and releases the ports.
    pub(in crate::server) fn release_ports(&self) {
        self.stop_accepting();
        self.bound.lock_ignoring_poison().clear();
        self.deployment.iter().for_each(|deployment| deployment.release_ports());
    }
}
