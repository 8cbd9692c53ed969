//! FAILOVER: a master hands over to a replica once that has everything. Writes wait until then.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::base::clock::Millis;
use crate::base::sync::MutexExt;
use crate::clients::instance::Instance;

/// What FAILOVER asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handover {
    /// The address and port of the replica; whoever has everything first if there is none.
    pub to: Option<(Vec<u8>, i64)>,
    /// Until when the master waits for it, by its clock.
    pub until: Option<Millis>,
    /// Hands over at that time, whatever the replica lacks. Otherwise nothing is handed over then.
    pub is_forced: bool,
}

#[derive(Default)]
pub(super) struct PendingHandover {
    is_pending: AtomicBool,
    order: Mutex<Option<Handover>>,
}

impl Instance {
    /// Holds writes back until a replica has everything, and can take over.
    pub fn begin_handover(&self, order: Handover) {
        let pending = &self.replication.handover;
        *pending.order.lock_ignoring_poison() = Some(order);
        pending.is_pending.store(true, Ordering::Release);
        self.pause(Millis::MAX, true);
    }

    /// The handover that is under way.
    #[inline]
    pub fn handover(&self) -> Option<Handover> {
        let pending = &self.replication.handover;
        if !pending.is_pending.load(Ordering::Acquire) {
            return None;
        }
        pending.order.lock_ignoring_poison().clone()
    }

    /// Ends a handover, with success or without: writes go on. Whether there was one.
    pub fn end_handover(&self) -> bool {
        let pending = &self.replication.handover;
        let order = pending.order.lock_ignoring_poison().take();
        pending.is_pending.store(false, Ordering::Release);
        if order.is_some() {
            self.unpause();
        }
        order.is_some()
    }
}
