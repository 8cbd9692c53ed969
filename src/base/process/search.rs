//! Finds the process that has a socket, in /proc.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags, open, openat, readlinkat};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::command_line;
use super::socket::{Socket, SocketQuery};
use super::{Endpoint, Process, SearchScope};
use crate::base::clock::{boot_micros, real_micros};

/// How many processes are remembered that were found: each takes a file descriptor, of which half of the reserve is used.
const MAX_KNOWN: usize = 16;
/// How many of them are asked at most where nobody should wait long.
const MAX_GUESSED: usize = 4;
/// How many numbers behind that of the last process found are tried before all processes are listed.
const NEXT_PIDS: u32 = 64;
/// How far from the last file descriptor of a process that of its next connection is looked for.
const NEAR_FDS: u32 = 4;
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
    /// The last one found, and its file descriptor, even if it has ended since.
    last: (u32, u32),
    misses: u32,
    /// For how many connections the machine is not searched.
    rest: u32,
}

struct Known {
    process: Arc<Process>,
    /// Its folder: of this process alone, even when its number is given again.
    folder: OwnedFd,
    /// The file descriptor of its last connection.
    fd: u32,
    /// Whether it was seen to come from this process.
    is_child: bool,
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
            last: (std::process::id(), 0),
            misses: 0,
            rest: 0,
        }
    }

    /// The process at the other end of a connection; `None` if it is not known, or outside of the scope.
    pub fn find(&mut self, endpoint: Endpoint, scope: SearchScope) -> Option<Arc<Process>> {
        let (pid, fd, stat) = match endpoint {
            Endpoint::Tcp { client, server } => {
                let socket = self.sockets.client_socket(&self.proc, client, server)?;
                self.holder_of(socket)?
            }
            Endpoint::Pid(pid) => (pid, 0, self.stat(pid)?),
        };
        let is_child = scope == SearchScope::Children && self.is_child(pid, &stat);
        if scope == SearchScope::Children && !is_child {
            return None;
        }
        self.process((pid, fd), &stat, is_child)
    }

    /// The same in a few microseconds; `None` if it is none of the last processes that were found, or has its connection where it
    /// was not expected.
    ///
    /// That a parent has the connection, too, is not looked for: the process was there before its connection.
    pub fn find_known(&mut self, endpoint: Endpoint, scope: SearchScope) -> Option<Arc<Process>> {
        let (place, fd) = match endpoint {
            Endpoint::Tcp { client, server } => {
                let link = self.sockets.ask(client, server)?.link();
                self.guessed(&link, MAX_GUESSED)?
            }
            Endpoint::Pid(pid) => (self.known.iter().rposition(|known| known.process.pid == pid)?, 0),
        };
        let known = &self.known[place];
        let is_in_scope = scope == SearchScope::Machine || known.is_child;
        // It may run another program by now.
        if !is_in_scope || self.program(known.process.pid, &known.folder)? != *known.process.program {
            return None;
        }
        Some(self.note_found(place, fd))
    }

    /// Makes a known process the last one that was found.
    fn note_found(&mut self, place: usize, fd: u32) -> Arc<Process> {
        let known = self.known.remove(place);
        let process = Arc::clone(&known.process);
        self.last = (process.pid, fd);
        self.known.push(Known { fd, ..known });
        process
    }

    /// The process that has a socket, and as which file descriptor. Of a process and the children that it shares a socket
    /// with, it is the process: a child has the same file descriptors.
    fn holder_of(&mut self, socket: Socket) -> Option<(u32, u32, Stat)> {
        let link = socket.link();
        let guessed = self.guessed(&link, MAX_KNOWN).map(|(place, fd)| (self.known[place].process.pid, fd));
        let (mut pid, fd) = guessed.or_else(|| self.searched(&link, socket.user))?;
        let mut stat = self.stat(pid)?;
        while stat.parent > 1
            && self.has(stat.parent, fd, &link)
            && let Some(parents) = self.stat(stat.parent)
        {
            (pid, stat) = (stat.parent, parents);
        }
        Some((pid, fd, stat))
    }

    /// Looks where the next connection of a process most likely is, in the place of its last one or near it, at so many processes.
    /// Returns the place of the process and the file descriptor.
    fn guessed(&self, link: &str, most: usize) -> Option<(usize, u32)> {
        self.known.iter().enumerate().rev().take(most).find_map(|(place, known)| {
            let near = |far| [known.fd.checked_add(far), known.fd.checked_sub(far)];
            let mut fds = std::iter::once(known.fd).chain((1..=NEAR_FDS).flat_map(near).flatten());
            let is_it = |fd: &u32| {
                let found = readlinkat(&known.folder, format!("fd/{fd}"), Vec::new());
                found.is_ok_and(|found| found.as_bytes() == link.as_bytes())
            };
            fds.find(is_it).map(|fd| (place, fd))
        })
    }

    /// Looks into all processes: first those that were found before, then the others, in the order in which they were most
    /// likely started after the last one that was found.
    fn searched(&mut self, link: &str, user: u32) -> Option<(u32, u32)> {
        let own_user = rustix::process::geteuid();
        if !own_user.is_root() && own_user.as_raw() != user {
            return None;
        }
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
        let found = self.next_process(link);
        if found.is_some() {
            self.misses = 0;
            return found;
        }
        let entries = fs::read_dir(&self.proc).ok()?.flatten();
        let mut pids: Vec<u32> = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()).collect();
        pids.retain(|pid| self.known.iter().all(|known| known.process.pid != *pid));
        // Numbers are given in ascending order, and begin anew at the end.
        pids.sort_unstable_by_key(|pid| pid.wrapping_sub(self.last.0));
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

    /// A process that was started a little after the last one that was found, with its connection in the same place: a script that calls
    /// one program again and again.
    fn next_process(&self, link: &str) -> Option<(u32, u32)> {
        let (last, fd) = self.last;
        // Threads have numbers, too, and the same file descriptors.
        let is_process = |pid: &u32| {
            let pid = i32::try_from(*pid).ok().and_then(Pid::from_raw);
            pid.is_some_and(|pid| pidfd_open(pid, PidfdFlags::empty()).is_ok())
        };
        let mut next = (1..=NEXT_PIDS).filter_map(|step| last.checked_add(step));
        next.find(|pid| self.has(*pid, fd, link) && is_process(pid)).map(|pid| (pid, fd))
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
    fn is_child(&self, pid: u32, stat: &Stat) -> bool {
        let Some(own) = self.stat(self.own) else { return false };
        if pid == self.own || stat.group == own.group {
            return true;
        }
        let mut next = stat.parent;
        for _ in 0..MAX_ANCESTORS {
            if next == self.own {
                return true;
            }
            let Some(stat) = self.stat(next) else { return false };
            next = stat.parent;
        }
        false
    }

    /// A process with this number, as it is now.
    fn process(&mut self, (pid, fd): (u32, u32), stat: &Stat, is_child: bool) -> Option<Arc<Process>> {
        let folder =
            open(self.path(pid, ""), OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).ok()?;
        let program = self.program(pid, &folder)?;
        let started = self.booted + stat.started.saturating_mul(1_000_000) / self.ticks_per_second;
        let process = Process { pid, started, parent: stat.parent, program: program.into() };
        let place = self.known.iter().position(|known| known.process.pid == pid);
        let known = place.map(|place| self.known.remove(place)).filter(|known| *known.process == process);
        let is_child = is_child || known.as_ref().is_some_and(|known| known.is_child);
        let process = known.map_or_else(|| Arc::new(process), |known| known.process);
        if self.known.len() >= MAX_KNOWN {
            self.known.remove(0);
        }
        self.last = (pid, fd);
        self.known.push(Known { process: Arc::clone(&process), folder, fd, is_child });
        Some(process)
    }

    /// What a process runs, as people are shown it.
    fn program(&self, pid: u32, folder: &OwnedFd) -> Option<String> {
        if pid == self.own {
            return Some(String::new());
        }
        let file = openat(folder, "cmdline", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
        let mut command_line = vec![0; 4096];
        let mut length = 0;
        // As much as fits comes at once.
        loop {
            length += rustix::io::read(&file, &mut command_line[length..]).ok()?;
            if length < command_line.len() {
                break;
            }
            command_line.resize(2 * length, 0);
        }
        Some(command_line::shown(&command_line[..length]))
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

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;
    use std::sync::mpsc::channel;

    use super::*;

    fn connect(listener: &TcpListener) -> (TcpStream, Endpoint) {
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let endpoint = Endpoint::tcp(client.local_addr().unwrap(), client.peer_addr().unwrap()).unwrap();
        (client, endpoint)
    }

    fn link(client: &TcpStream) -> (String, u32) {
        let fd = client.as_raw_fd();
        let link = fs::read_link(format!("/proc/self/fd/{fd}")).unwrap();
        (link.to_str().unwrap().to_owned(), fd.cast_unsigned())
    }

    #[test]
    fn a_process_that_was_found_is_found_at_once_when_it_connects_again() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut search = ProcessSearch::new().unwrap();
        let (first, endpoint) = connect(&listener);
        for scope in [SearchScope::Machine, SearchScope::Children] {
            assert_eq!(search.find_known(endpoint, scope), None, "{scope:?}");
            let found = search.find(endpoint, scope).unwrap();
            assert_eq!((found.pid, &*found.program), (std::process::id(), ""));
            assert!(Arc::ptr_eq(&search.find_known(endpoint, scope).unwrap(), &found), "{scope:?}");
        }
        // In the place of its last connection and beside it.
        let (link, fd) = link(&first);
        for last in [fd - 1, fd, fd + NEAR_FDS] {
            search.known[0].fd = last;
            assert_eq!(search.guessed(&link, 1), Some((0, fd)), "{last} {fd}");
        }
        search.known[0].fd = fd + NEAR_FDS + 1;
        assert_eq!(search.find_known(endpoint, SearchScope::Machine), None);
    }

    #[test]
    fn a_process_is_tried_whose_number_follows_and_a_thread_is_none() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (client, _) = connect(&listener);
        let ((link, fd), own) = (link(&client), std::process::id());
        let mut search = ProcessSearch::new().unwrap();
        search.last = (own - 1, fd);
        assert_eq!(search.next_process(&link), Some((own, fd)));
        search.last = (own - 1, fd + 1);
        assert_eq!(search.next_process(&link), None);
        let ((tell, told), (end, ended)) = (channel(), channel::<()>());
        let thread = std::thread::spawn(move || {
            // PID/task/TID
            let place = fs::read_link("/proc/thread-self").unwrap();
            tell.send(place.file_name().unwrap().to_str().unwrap().parse::<u32>().unwrap()).unwrap();
            let _ = ended.recv();
        });
        let number = told.recv().unwrap();
        assert!(search.has(number, fd, &link), "a thread has the file descriptors of its process");
        search.last = (number - 1, fd);
        assert_ne!(search.next_process(&link).map(|(pid, _)| pid), Some(number));
        drop(end);
        thread.join().unwrap();
    }
}
