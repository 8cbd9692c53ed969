//! Finds the process that has a socket, in /proc.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::command_line;
use super::socket::{Socket, SocketQuery};
use super::{Endpoint, Process, SearchScope};
use crate::base::clock::{boot_micros, real_micros};

/// How many processes are remembered that were found.
const MAX_KNOWN: usize = 64;
/// How many file descriptors from the last one of a process on may be that of its next connection.
const NEXT_FDS: u32 = 4;
/// For how many connections at most the machine is not searched, after none was found again and again.
const LONGEST_REST: u32 = 64;
/// How far up the ancestors of a process are followed.
const MAX_ANCESTORS: usize = 64;

/// Finds processes, and remembers those that were found.
pub struct ProcessSearch {
    proc: PathBuf,
    own: u32,
    /// When the machine started, in microseconds since 1970.
    booted: i64,
    ticks_per_second: i64,
    sockets: SocketQuery,
    /// The last one found stands at the end.
    known: Vec<Known>,
    misses: u32,
    /// For how many connections the machine is not searched.
    rest: u32,
}

struct Known {
    process: Arc<Process>,
    /// The file descriptor of its last connection.
    fd: u32,
}

/// What /proc/PID/stat says.
struct Stat {
    parent: u32,
    group: u32,
    /// In ticks since the machine started.
    started: i64,
}

impl ProcessSearch {
    /// `None` if there is no /proc.
    pub fn new() -> Option<Self> {
        let search = Self::within(Path::new("/proc"));
        search.stat(search.own).is_some().then_some(search)
    }

    fn within(proc: &Path) -> Self {
        Self {
            proc: proc.to_owned(),
            own: std::process::id(),
            booted: real_micros() - boot_micros(),
            ticks_per_second: i64::try_from(rustix::param::clock_ticks_per_second()).unwrap_or(100).max(1),
            sockets: SocketQuery::new(),
            known: Vec::new(),
            misses: 0,
            rest: 0,
        }
    }

    /// The process at the other end of a connection; `None` if it is not known, or outside of the scope.
    pub fn find(&mut self, endpoint: Endpoint, scope: SearchScope) -> Option<Arc<Process>> {
        let (pid, fd) = match endpoint {
            Endpoint::Tcp { client, server } => {
                let socket = self.sockets.client_socket(&self.proc, client, server)?;
                self.holder_of(socket)?
            }
            Endpoint::Pid(pid) => (pid, 0),
        };
        if scope == SearchScope::Children && !self.is_child(pid) {
            return None;
        }
        self.process(pid, fd)
    }

    /// The process that has a socket, and as which file descriptor. Of a process and the children that it shares a socket
    /// with, it is the process: a child has the same file descriptors.
    fn holder_of(&mut self, socket: Socket) -> Option<(u32, u32)> {
        let link = format!("socket:[{}]", socket.inode);
        let (mut pid, fd) = self.guessed(&link).or_else(|| self.searched(&link, socket.user))?;
        while let Some(stat) = self.stat(pid)
            && stat.parent > 1
            && self.has(stat.parent, fd, &link)
        {
            pid = stat.parent;
        }
        Some((pid, fd))
    }

    /// Looks where the next connection of a process most likely is: in the place of its last one, or just behind it.
    fn guessed(&self, link: &str) -> Option<(u32, u32)> {
        self.known.iter().rev().find_map(|known| {
            let fds = known.fd..=known.fd.saturating_add(NEXT_FDS);
            fds.into_iter().find(|fd| self.has(known.process.pid, *fd, link)).map(|fd| (known.process.pid, fd))
        })
    }

    /// Looks into all processes: first those that were found before, then the others, in the order in which they were most
    /// likely started after the last one that was found.
    fn searched(&mut self, link: &str, user: u32) -> Option<(u32, u32)> {
        let own_user = rustix::process::geteuid();
        if !own_user.is_root() && own_user.as_raw() != user {
            return None;
        }
        let last = self.known.last().map_or(self.own, |known| known.process.pid);
        let mut gone = Vec::new();
        let mut known = self.known.iter().rev().map(|known| known.process.pid);
        let found = known.find_map(|pid| match self.fd_of(pid, link) {
            Ok(fd) => Some((pid, fd?)),
            Err(_) => {
                gone.push(pid);
                None
            }
        });
        self.known.retain(|known| !gone.contains(&known.process.pid));
        if found.is_some() {
            return found;
        }
        if self.rest > 0 {
            self.rest -= 1;
            return None;
        }
        let entries = fs::read_dir(&self.proc).ok()?.flatten();
        let mut pids: Vec<u32> = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()).collect();
        pids.retain(|pid| self.known.iter().all(|known| known.process.pid != *pid));
        // Numbers are given in ascending order, and begin anew at the end.
        pids.sort_unstable_by_key(|pid| pid.wrapping_sub(last));
        let found = pids.iter().find_map(|pid| Some((*pid, self.fd_of(*pid, link).ok()??)));
        match found {
            Some(_) => self.misses = 0,
            // Its process is one that cannot be looked into, and so will be others.
            None => {
                self.misses = (self.misses + 1).min(LONGEST_REST.ilog2());
                self.rest = (1 << self.misses) - 2;
            }
        }
        found
    }

    fn has(&self, pid: u32, fd: u32, link: &str) -> bool {
        fs::read_link(self.path(pid, &format!("fd/{fd}"))).is_ok_and(|found| found.as_os_str() == link)
    }

    /// The file descriptor as which a process has a socket. An error says that it has ended or must not be looked into.
    fn fd_of(&self, pid: u32, link: &str) -> io::Result<Option<u32>> {
        let mut entries = fs::read_dir(self.path(pid, "fd"))?.flatten();
        Ok(entries.find_map(|entry| {
            let is_it = fs::read_link(entry.path()).is_ok_and(|found| found.as_os_str() == link);
            is_it.then(|| entry.file_name().to_str()?.parse().ok()).flatten()
        }))
    }

    /// Whether a process is this one, comes from it, or belongs to its process group.
    fn is_child(&self, pid: u32) -> bool {
        let Some(own) = self.stat(self.own) else { return false };
        let mut next = pid;
        for _ in 0..MAX_ANCESTORS {
            if next == self.own {
                return true;
            }
            let Some(stat) = self.stat(next) else { return false };
            if next == pid && stat.group == own.group {
                return true;
            }
            next = stat.parent;
        }
        false
    }

    /// A process with this number, as it is now.
    fn process(&mut self, pid: u32, fd: u32) -> Option<Arc<Process>> {
        let stat = self.stat(pid)?;
        let program = match pid == self.own {
            true => String::new(),
            false => command_line::shown(&fs::read(self.path(pid, "cmdline")).ok()?),
        };
        let started = self.booted + stat.started.saturating_mul(1_000_000) / self.ticks_per_second;
        let process = Process { pid, started, parent: stat.parent, program: program.into() };
        let place = self.known.iter().position(|known| known.process.pid == pid);
        let known = place.map(|place| self.known.remove(place)).filter(|known| *known.process == process);
        let process = known.map_or_else(|| Arc::new(process), |known| known.process);
        if self.known.len() >= MAX_KNOWN {
            self.known.remove(0);
        }
        self.known.push(Known { process: Arc::clone(&process), fd });
        Some(process)
    }

    fn stat(&self, pid: u32) -> Option<Stat> {
        let text = fs::read(self.path(pid, "stat")).ok()?;
        let text = String::from_utf8_lossy(&text);
        // The name of the program, in parentheses, may have anything in it.
        let mut fields = text.rsplit_once(')')?.1.split_ascii_whitespace().skip(1);
        let parent = fields.next()?.parse().ok()?;
        let group = fields.next()?.parse().ok()?;
        let started = fields.nth(16)?.parse().ok()?;
        Some(Stat { parent, group, started })
    }

    fn path(&self, pid: u32, name: &str) -> PathBuf {
        self.proc.join(pid.to_string()).join(name)
    }
}
