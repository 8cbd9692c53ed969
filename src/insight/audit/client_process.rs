//! The processes of clients, and which of them are known to have lived at the same time.
//!
//! Two processes are two parties if they have lived at the same time. One that started after another one had ended may go
//! on with its work, as the commands of a shell script do.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use foldhash::fast::FixedState;

use crate::base::process::Process;

/// How many clients are remembered.
const MAX_CLIENTS: usize = 100_000;
/// How many processes are remembered that have ended.
const MAX_ENDED: usize = 256;
/// How many processes of the same time are remembered of each.
const MAX_ALONGSIDE: usize = 1024;

/// The process of a client, with what the auditor knows about it.
#[derive(Clone)]
pub struct ClientProcess {
    /// The process.
    pub process: Arc<Process>,
    /// The processes that have lived at the same time, as far as that was known when the client came.
    alongside: Arc<[Arc<Process>]>,
    /// Whether the client is the only one of its process on its server.
    is_only_client: bool,
}

/// A client, by server and number, and what is known of its process.
pub type KnownClient = ((u16, u64), Arc<ClientProcess>);

/// The processes that have to do with locks.
#[derive(Clone, Default)]
pub struct ClientProcesses {
    known: Vec<KnownProcess>,
    clients: HashMap<(u16, u64), Arc<ClientProcess>, FixedState>,
}

#[derive(Clone)]
struct KnownProcess {
    process: Arc<Process>,
    /// How many connections it has.
    open: usize,
    /// The servers to which it was connected.
    servers: Vec<u16>,
    /// When its last connection ended, in microseconds of real time.
    ended: i64,
}

impl ClientProcess {
    /// A process of which nothing else is known.
    pub(crate) fn alone(process: Arc<Process>) -> Self {
        Self { process, alongside: Arc::from([]), is_only_client: true }
    }

    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.process, &other.process) || self.process.is(&other.process)
    }

    /// Whether both are known to have lived at the same time.
    pub(crate) fn was_alongside(&self, other: &Self) -> bool {
        let has_met = |one: &Self, other: &Self| one.alongside.iter().any(|met| met.is(&other.process));
        has_met(self, other) || has_met(other, self)
    }

    /// Whether it was started by another one after a time, and so may know what that one knew then.
    pub(crate) fn may_inherit(&self, other: &Self, at: i64) -> bool {
        self.process.parent == other.process.pid && !self.process.had_started(at)
    }

    pub(crate) fn is_only_client(&self) -> bool {
        self.is_only_client
    }
}

/// The same process, whatever is known about it.
impl PartialEq for ClientProcess {
    fn eq(&self, other: &Self) -> bool {
        self.process == other.process
    }
}

impl Eq for ClientProcess {}

/// Without the processes that it has met, of which there can be many.
impl fmt::Debug for ClientProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.process.fmt(f)
    }
}

impl ClientProcesses {
    /// What is known of the process of a client that was met.
    pub fn of_client(&self, client: (u16, u64)) -> Option<&Arc<ClientProcess>> {
        self.clients.get(&client)
    }

    /// A client of a process is met for the first time. Returns the other clients of the process of which more is known now.
    pub fn meet(&mut self, client: (u16, u64), process: &Arc<Process>) -> Vec<KnownClient> {
        if self.clients.len() >= MAX_CLIENTS {
            return Vec::new();
        }
        let place = self.known.iter().position(|known| known.process.is(process));
        let place = place.unwrap_or_else(|| {
            self.forget_ended();
            let process = Arc::clone(process);
            self.known.push(KnownProcess { process, open: 0, servers: Vec::new(), ended: i64::MIN });
            self.known.len() - 1
        });
        let known = &mut self.known[place];
        let is_only_client = !known.servers.contains(&client.0);
        if is_only_client {
            known.servers.push(client.0);
        }
        known.open += 1;
        let process = Arc::clone(&known.process);
        let others = self.known.iter().filter(|other| {
            !Arc::ptr_eq(&other.process, &process) && (other.open > 0 || process.had_started(other.ended))
        });
        let alongside = others.take(MAX_ALONGSIDE).map(|other| Arc::clone(&other.process)).collect();
        let others = if is_only_client { Vec::new() } else { self.no_longer_only(client.0, &process) };
        self.clients.insert(client, Arc::new(ClientProcess { process, alongside, is_only_client }));
        others
    }

    /// The clients of a process on a server that were its only ones there.
    fn no_longer_only(&mut self, server: u16, process: &Process) -> Vec<KnownClient> {
        let of_process = |((on, _), known): &(&(u16, u64), &mut Arc<ClientProcess>)| {
            *on == server && known.is_only_client && known.process.is(process)
        };
        let changed = self.clients.iter_mut().filter(of_process).map(|(client, known)| {
            *known = Arc::new(ClientProcess { is_only_client: false, ..ClientProcess::clone(known) });
            (*client, Arc::clone(known))
        });
        changed.collect()
    }

    /// The connection of a client has ended, at a real time.
    pub fn leave(&mut self, client: (u16, u64), at: i64) {
        let Some(left) = self.clients.remove(&client) else { return };
        if let Some(known) = self.known.iter_mut().find(|known| known.process.is(&left.process)) {
            known.open = known.open.saturating_sub(1);
            known.ended = known.ended.max(at);
        }
    }

    /// Forgets the clients of a server.
    pub fn forget_server(&mut self, server: u16) {
        let mut gone: Vec<(u16, u64)> = self.clients.keys().copied().filter(|(on, _)| *on == server).collect();
        gone.sort_unstable();
        gone.into_iter().for_each(|client| self.leave(client, i64::MIN));
    }

    /// Forgets the process that ended first, if there are too many.
    fn forget_ended(&mut self) {
        let ended = self.known.iter().enumerate().filter(|(_, known)| known.open == 0);
        if ended.clone().count() >= MAX_ENDED
            && let Some((first, _)) = ended.min_by_key(|(_, known)| known.ended)
        {
            self.known.remove(first);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000;

    fn process(pid: u32, started: i64) -> Arc<Process> {
        Arc::new(Process { pid, started, parent: 1, program: "worker".into() })
    }

    #[test]
    fn what_has_ended_before_another_one_started_has_not_met_it() {
        let mut processes = ClientProcesses::default();
        let meet = |processes: &mut ClientProcesses, client, process: &Arc<Process>| {
            processes.meet((1, client), process);
            Arc::clone(processes.of_client((1, client)).unwrap())
        };
        let first = meet(&mut processes, 1, &process(10, 100 * SECOND));
        processes.leave((1, 1), 105 * SECOND);
        let second = meet(&mut processes, 2, &process(11, 106 * SECOND));
        assert!(!first.was_alongside(&second) && !second.was_alongside(&first));
        let third = meet(&mut processes, 3, &process(12, 104 * SECOND));
        assert!(third.was_alongside(&first) && first.was_alongside(&third) && second.was_alongside(&third));
        // It connects again.
        let again = meet(&mut processes, 4, &process(10, 100 * SECOND));
        assert!(again.is(&first) && again.was_alongside(&second) && !again.is_only_client());
    }

    #[test]
    fn a_number_that_is_given_again_is_another_process() {
        let mut processes = ClientProcesses::default();
        processes.meet((1, 1), &process(10, 100 * SECOND));
        processes.meet((1, 2), &process(10, 200 * SECOND));
        processes.meet((2, 1), &process(10, 100 * SECOND + 10_000));
        let of = |client| Arc::clone(processes.of_client(client).unwrap());
        assert!(!of((1, 1)).is(&of((1, 2))) && of((1, 1)).is(&of((2, 1))));
        assert!(of((1, 1)).is_only_client() && of((2, 1)).is_only_client());
    }
}
