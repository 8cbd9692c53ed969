//! All data for replicas: written once for all that ask meanwhile, while clients go on. What changes meanwhile is kept, and sent
//! behind it.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;

use super::links::Pending;
use super::{Replica, Stream, SyncRequest};
use crate::base::clock::{Millis, Stopwatch};
use crate::base::sync::MutexExt;
use crate::clients::instance::Instance;
use crate::clients::session::{Client, Message, ReplicaIntroduction, SnapshotContent};
use crate::data::keyspace::Busy;
use crate::data::seed::{Capture, Form};

/// A snapshot that is being written for replicas.
struct Sync {
    number: u64,
    /// The place of the stream at which it was taken.
    offset: u64,
    /// Whether all that has changed since is kept.
    is_followed: bool,
    /// What was sent since.
    since: Pending,
    /// Those that want the snapshot and nothing else.
    snapshot_only: Vec<Arc<Client>>,
    /// Since those that wait were last told that it is being written.
    told: Stopwatch,
}

/// How often replicas that wait are told so, in real time, as they give up in real time.
const TELLING: Duration = Duration::from_secs(1);

/// The snapshots that are being written for replicas: seldom more than one.
#[derive(Default)]
pub(super) struct Syncs {
    last_number: u64,
    running: Vec<Sync>,
}

impl Syncs {
    /// Begins one, and returns its number.
    fn begin(&mut self, offset: u64, is_followed: bool) -> u64 {
        self.last_number += 1;
        let number = self.last_number;
        let (since, snapshot_only, told) = (Pending::default(), Vec::new(), Stopwatch::start());
        self.running.push(Sync { number, offset, is_followed, since, snapshot_only, told });
        number
    }

    fn find(&self, number: u64) -> Option<&Sync> {
        self.running.iter().find(|sync| sync.number == number)
    }

    /// Keeps what replicas are sent for those that wait for a snapshot.
    pub(super) fn keep(&mut self, bytes: &[u8], is_change: bool) {
        for sync in &mut self.running {
            sync.since.push(bytes, is_change, None);
        }
    }

    /// How many bytes will follow a snapshot.
    pub(super) fn bytes_since(&self, number: u64) -> usize {
        self.find(number).map_or(0, |sync| sync.since.bytes())
    }

    /// Nobody is sent what is being written. Returns those that want a snapshot and nothing else, and wait for it.
    pub(super) fn forget(&mut self) -> Vec<Arc<Client>> {
        self.running.drain(..).flat_map(|sync| sync.snapshot_only).collect()
    }

    fn take(&mut self, number: u64) -> Option<Sync> {
        let at = self.running.iter().position(|sync| sync.number == number)?;
        Some(self.running.swap_remove(at))
    }
}

impl Stream {
    /// Sends an empty line to those that wait for a snapshot, so that they do not give up.
    pub(super) fn tell_waiting(&mut self, now: Millis) {
        let Self { syncs, replicas, links, .. } = self;
        for sync in syncs.running.iter_mut().filter(|sync| sync.told.elapsed() >= TELLING) {
            sync.told = Stopwatch::start();
            for client in &sync.snapshot_only {
                client.send(b"\n");
            }
            for replica in replicas.iter_mut().filter(|replica| replica.syncing == Some(sync.number)) {
                replica.deliver(&Message::new(b"\n"), false, links, || now);
            }
        }
    }

    /// Keeps no more for snapshots that nobody waits for.
    pub(super) fn forget_unwanted_syncs(&mut self) {
        let Self { syncs, replicas, .. } = self;
        let is_wanted = |sync: &Sync| {
            !sync.snapshot_only.is_empty() || replicas.iter().any(|replica| replica.syncing == Some(sync.number))
        };
        syncs.running.retain(is_wanted);
    }

    /// Sends a snapshot to those that wait for it, and what has changed since.
    fn end_sync(&mut self, number: u64, snapshot: &Bytes, now: Millis) {
        let Some(Sync { since, snapshot_only, .. }) = self.syncs.take(number) else { return };
        let head = format!("${}\r\n", snapshot.len());
        let parts = [Message::new(head.as_bytes()), Message::of(snapshot)];
        // It is counted as output only once the replica has acknowledged it.
        let count = |client: &Client| client.seen().snapshot.store(head.len() + snapshot.len(), Ordering::Relaxed);
        for client in snapshot_only {
            count(&client);
            parts.iter().for_each(|part| _ = part.send_to(&client));
        }
        let since: Vec<_> = since.parts().map(|(bytes, is_change)| (Message::new(bytes), is_change)).collect();
        let Self { replicas, links, .. } = self;
        for replica in replicas.iter_mut().filter(|replica| replica.syncing == Some(number)) {
            replica.syncing = None;
            replica.acknowledged_at = now;
            count(&replica.client);
            for (part, is_change) in
                parts.iter().map(|part| (part, false)).chain(since.iter().map(|(part, is)| (part, *is)))
            {
                replica.deliver(part, is_change, links, || now);
            }
        }
    }
}

impl Instance {
    /// Sends a client a snapshot, and from then on all that changes, unless it wants nothing more.
    pub(super) fn sync_replica(
        &self,
        client: &Arc<Client>,
        about: ReplicaIntroduction,
        request: SyncRequest<'_>,
    ) -> Result<(), Busy> {
        self.stats.full_syncs.fetch_add(1, Ordering::Relaxed);
        let is_whole = about.content == SnapshotContent::Everything;
        if is_whole && self.join_sync(client, &about, request) {
            return Ok(());
        }
        let (number, capture) = self.with_everything(|view, libraries| {
            let mut stream = self.stream();
            if !about.snapshot_only {
                self.begin_stream(&mut stream);
                stream.selected = None;
            }
            let (offset, is_followed) = (stream.offset, stream.is_on);
            let number = stream.syncs.begin(offset, is_followed);
            self.await_sync(&mut stream, number, client, &about, request);
            let capture = match about.content {
                SnapshotContent::Everything => Capture::begin(view, libraries, &self.profile, Form::Replica),
                SnapshotContent::Functions => Capture::of_libraries(libraries, &self.profile),
                SnapshotContent::Nothing => Capture::of_libraries(std::iter::empty(), &self.profile),
            };
            (number, capture)
        })?;
        let stream = Arc::clone(&self.replication.stream);
        let clock = Arc::clone(&self.clock);
        if capture.is_copied() {
            send_snapshot(&stream, number, capture.finish(), clock.millis());
            return Ok(());
        }
        // A clock move returns only after the replica was sent everything.
        let alarm = self.clock.rung_alarm();
        let thread = std::thread::Builder::new().name("redouble-sync".to_owned()).spawn(move || {
            send_snapshot(&stream, number, capture.finish(), clock.millis());
            drop(alarm);
        });
        if let Err(error) = thread {
            self.log.warn(format!("A replica cannot be sent the data: {error}"));
            self.abandon_sync(number);
        }
        Ok(())
    }

    /// Lets a client have the snapshot that is being written for another one. Whether there is one.
    fn join_sync(&self, client: &Arc<Client>, about: &ReplicaIntroduction, request: SyncRequest<'_>) -> bool {
        let mut stream = self.stream();
        let fits = |sync: &&Sync| sync.is_followed || about.snapshot_only;
        let Some(number) = stream.syncs.running.iter().find(fits).map(|sync| sync.number) else { return false };
        self.await_sync(&mut stream, number, client, about, request);
        true
    }

    /// Lets a client wait for a snapshot.
    fn await_sync(
        &self,
        stream: &mut Stream,
        number: u64,
        client: &Arc<Client>,
        about: &ReplicaIntroduction,
        request: SyncRequest<'_>,
    ) {
        let Some(sync) = stream.syncs.running.iter_mut().find(|sync| sync.number == number) else { return };
        let mut head = String::new();
        if request.history.is_some() {
            head = format!("+FULLRESYNC {} {}\r\n", self.identity.replication_id().current, sync.offset);
        }
        if about.snapshot_only {
            client.send(head.as_bytes());
            sync.snapshot_only.push(Arc::clone(client));
        } else {
            stream.add(client, about.clone(), None, self.clock.millis(), &[head.as_bytes()]);
            if let Some(replica) = stream.replicas.last_mut() {
                replica.syncing = Some(number);
            }
        }
    }

    /// Closes the connections of those that wait for a snapshot which does not come.
    fn abandon_sync(&self, number: u64) {
        let mut stream = self.stream();
        let Some(sync) = stream.syncs.take(number) else { return };
        let waiting = |replica: &&Replica| replica.syncing == Some(number);
        let mut clients: Vec<_> =
            stream.replicas.iter().filter(waiting).map(|replica| Arc::clone(&replica.client)).collect();
        drop(stream);
        clients.extend(sync.snapshot_only);
        clients.iter().for_each(|client| self.kill(client));
    }
}

/// Sends a snapshot to all that wait for it.
fn send_snapshot(stream: &Mutex<Stream>, number: u64, snapshot: Vec<u8>, now: Millis) {
    stream.lock_ignoring_poison().end_sync(number, &Bytes::from(snapshot), now);
}
