//! An interactive `redis-cli`: lines are typed into it, and its output is read.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use crate::support::wire::PATIENCE;

pub struct Terminal {
    child: Child,
    keyboard: Option<ChildStdin>,
    screen: Receiver<String>,
}

impl Terminal {
    pub fn open(address: SocketAddr) -> Self {
        let (host, port) = (address.ip().to_string(), address.port().to_string());
        // A terminal shows errors of redis-cli itself, which it writes to standard error.
        let mut child = Command::new("sh")
            .args(["-c", "exec redis-cli \"$@\" 2>&1", "redis-cli", "--no-raw", "-h", &host, "-p", &port])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("redis-cli: {error}; `make test` installs it"));
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let (sender, screen) = channel();
        let mut lines = output.lines().map_while(Result::ok).filter(|line| !is_duration(line));
        std::thread::spawn(move || lines.try_for_each(|line| sender.send(line)));
        Self { keyboard: child.stdin.take(), child, screen }
    }

    pub fn enter(&mut self, line: &str) {
        let keyboard = self.keyboard.as_mut().expect("open");
        writeln!(keyboard, "{line}").and_then(|()| keyboard.flush()).expect("redis-cli reads");
    }

    /// The next line that it shows.
    #[track_caller]
    pub fn shows(&self) -> String {
        self.screen.recv_timeout(PATIENCE).expect("redis-cli shows nothing")
    }
}

/// Whether redis-cli says with this line how long a command took, as it does for more than half a second: `(1.32s)`.
fn is_duration(line: &str) -> bool {
    let seconds = line.strip_prefix('(').and_then(|rest| rest.strip_suffix("s)"));
    seconds.is_some_and(|seconds| seconds.parse::<f64>().is_ok())
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // It ends by itself at the end of its input, unless it still waits for a reply.
        drop(self.keyboard.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
