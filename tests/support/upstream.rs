//! redouble in front of another server.

use std::collections::BTreeMap;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::wire::{Frame, Wire};
use super::{Deadline, wait_until};

/// A process of this project's binary with `--upstream`, a journal and a log in a file. It is killed on drop.
pub struct Front {
    child: Child,
    addresses: Vec<SocketAddr>,
    folder: PathBuf,
}

/// An entry of the journal: the fields of JOURNAL LIST.
pub type Entry = BTreeMap<String, Frame>;

impl Front {
    /// Starts in front of one server.
    pub fn of(url: &str) -> Self {
        Self::start(&[url], &[])
    }

    /// Starts in front of several servers, with further directives.
    pub fn start(urls: &[&str], arguments: &[&str]) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("redouble-front-{}-{number}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder");
        let mut command = Command::new(env!("CARGO_BIN_EXE_redouble"));
        command.args(["--port", "0", "--journal", "yes", "--exit-with-parent", "yes"]);
        command
            .arg("--port-file")
            .arg(folder.join("port"))
            .arg("--logfile")
            .arg(folder.join("log"))
            .arg("--dir")
            .arg(&folder);
        for url in urls {
            command.args(["--upstream", url]);
        }
        let errors = fs::File::create(folder.join("errors")).expect("a file");
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors);
        let child = command.spawn().expect("the binary starts");
        let mut front = Self { child, addresses: Vec::new(), folder };
        let deadline = Deadline::start();
        while front.addresses.len() < urls.len() {
            if let Ok(Some(status)) = front.child.try_wait() {
                panic!("redouble {arguments:?} ended with {status}: {}{}", front.read("errors"), front.log());
            }
            let ports = front.read("port");
            if ports.ends_with('\n') {
                let port = |line: &str| line.trim().parse::<u16>().expect("a port");
                let address = |line: &str| SocketAddr::from((Ipv4Addr::LOCALHOST, port(line)));
                front.addresses = ports.lines().map(address).collect();
            }
            deadline.check("the port file");
        }
        front
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.folder.join(name)).unwrap_or_default()
    }

    pub fn address(&self) -> SocketAddr {
        self.addresses[0]
    }

    /// The addresses of all instances.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    pub fn url(&self) -> String {
        format!("redis://{}", self.address())
    }

    /// Where files of the test can be written.
    pub fn folder(&self) -> &PathBuf {
        &self.folder
    }

    pub fn log(&self) -> String {
        self.read("log")
    }

    /// Waits for a line of the log that has all of these words, in any case.
    #[track_caller]
    pub fn until_logged(&self, words: &[&str]) {
        let has = |line: &str| words.iter().all(|word| line.to_lowercase().contains(&word.to_lowercase()));
        let deadline = Deadline::start();
        while !self.log().lines().any(has) {
            deadline.check(format_args!("a line with {words:?} in the log:\n{}", self.log()));
        }
    }

    /// Asks the process to end.
    pub fn terminate(&self) {
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
    }

    /// Whether the process still runs.
    pub fn is_alive(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|status| status.is_none())
    }

    /// Returns the resident memory in bytes.
    pub fn resident(&self) -> usize {
        self.memory("VmRSS:")
    }

    /// Returns the most resident memory so far, in bytes.
    pub fn most_resident(&self) -> usize {
        self.memory("VmHWM:")
    }

    fn memory(&self, field: &str) -> usize {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix(field)).expect("the field");
        line.trim().trim_end_matches("kB").trim().parse::<usize>().expect("a number") * 1024
    }

    /// The entries of the journal that match a query. The connection that asks is opened and closed here.
    pub fn journal(&self, query: &str) -> Vec<Entry> {
        journal(&mut Wire::connect(self.address()), query)
    }

    /// The lines of the journal as it is written to files.
    pub fn exported(&self) -> Vec<serde_json::Value> {
        let mut wire = Wire::connect(self.address());
        // A million lines take a debug build a while.
        wire.tcp().set_read_timeout(Some(Duration::from_secs(300))).expect("a read time-out");
        let answer = wire.ask("REDOUBLE JOURNAL EXPORT journal.jsonl");
        assert!(matches!(answer, Frame::Integer(_)), "JOURNAL EXPORT: {answer:?}");
        let text = self.read("journal.jsonl");
        text.lines().map(|line| serde_json::from_str(line).expect("a JSON object a line")).collect()
    }

    /// Waits until so many entries match a query.
    #[track_caller]
    pub fn until_recorded(&self, query: &str, count: i64) {
        let mut wire = Wire::connect(self.address());
        wait_until(format_args!("{count} of {query}; there are {:?}", outcomes(&journal(&mut wire, ""))), || {
            wire.ask(&format!("REDOUBLE JOURNAL COUNT {query}")) == Frame::Integer(count)
        });
    }
}

/// The entries of a journal that match a query.
pub fn journal(wire: &mut Wire, query: &str) -> Vec<Entry> {
    let list = wire.ask(&format!("REDOUBLE JOURNAL LIST {query} limit 1000000"));
    assert!(!list.is_error(), "JOURNAL LIST {query}: {list:?}");
    let entry = |row: &Frame| row.items().chunks(2).map(|pair| (pair[0].text(), pair[1].clone())).collect();
    list.items().iter().map(entry).collect()
}

/// The words and the outcome of each entry: `SET k v: answered`.
pub fn outcomes(entries: &[Entry]) -> Vec<String> {
    let words = |entry: &Entry| entry["command"].items().iter().map(Frame::text).collect::<Vec<_>>().join(" ");
    entries.iter().map(|entry| format!("{}: {}", words(entry), entry["outcome"].text())).collect()
}

impl Drop for Front {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}
