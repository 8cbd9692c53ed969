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
        let mut child = Command::new("redis-cli")
            .args(["--no-raw", "-h", &address.ip().to_string(), "-p", &address.port().to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("redis-cli: {error}; `make test` installs it"));
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let (sender, screen) = channel();
        std::thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
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

    /// Whether it shows nothing that was not read yet.
    pub fn shows_nothing(&self) -> bool {
        self.screen.try_recv().is_err()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // It ends by itself at the end of its input, unless it still waits for a reply.
        drop(self.keyboard.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
