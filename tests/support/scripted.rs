//! A server that does what a story says, and writes down what it was sent: for the days on which a server misbehaves.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::wait_until;
use super::wire::{Frame, first_frame};

/// What the server does next on a connection.
#[derive(Clone, Debug)]
pub enum Step {
    /// Reads one request.
    Read,
    /// Reads so many requests and then what has come with them.
    ReadMany(usize),
    Send(Vec<u8>),
    /// Sends a piece so often, as long as the client takes it.
    Repeat(Vec<u8>, usize),
    /// Sends one byte after the other, each in a packet of its own.
    Drip(Vec<u8>),
    /// Sends nothing more, and goes on reading.
    FinishSending,
    Close,
    /// Closes with a reset.
    Reset,
    /// Reads nothing, sends nothing and stays connected for as long as the server lives.
    Hang,
    /// Answers each request with `+OK`.
    AnswerAll,
}

/// Sends text.
pub fn say(text: &str) -> Step {
    Step::Send(text.as_bytes().to_vec())
}

/// What happened on one connection.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Heard {
    /// The requests that arrived whole, as words between blanks.
    pub requests: Vec<String>,
    /// How many bytes were read.
    pub bytes: usize,
    /// Whether the other side has ended it.
    pub left: bool,
}

#[derive(Default)]
struct Shared {
    heard: Mutex<Vec<Heard>>,
    sockets: Mutex<Vec<TcpStream>>,
    over: AtomicBool,
}

impl Shared {
    fn heard(&self) -> MutexGuard<'_, Vec<Heard>> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sockets(&self) -> MutexGuard<'_, Vec<TcpStream>> {
        self.sockets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The server. Its first connection follows the first script, and so on; to all later ones it answers `+OK`.
pub struct ScriptedServer {
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl ScriptedServer {
    pub fn start(scripts: &[Vec<Step>]) -> Self {
        Self::listen(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port"), scripts)
    }

    pub fn listen(listener: TcpListener, scripts: &[Vec<Step>]) -> Self {
        let address = listener.local_addr().expect("its address");
        let shared = Arc::new(Shared::default());
        let (mut scripts, of_thread) = (VecDeque::from(scripts.to_vec()), shared.clone());
        std::thread::spawn(move || {
            while let Ok((socket, _)) = listener.accept() {
                if of_thread.over.load(Ordering::SeqCst) {
                    return;
                }
                let script = scripts.pop_front().unwrap_or_else(|| vec![Step::AnswerAll]);
                let number = {
                    let mut heard = of_thread.heard();
                    heard.push(Heard::default());
                    heard.len() - 1
                };
                of_thread.sockets().push(socket.try_clone().expect("a second handle"));
                let of_connection = of_thread.clone();
                std::thread::spawn(move || {
                    Played { socket, number, shared: of_connection, buffer: Vec::new() }.run(script)
                });
            }
        });
        Self { address, shared }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// What was heard on each connection so far.
    pub fn heard(&self) -> Vec<Heard> {
        self.shared.heard().clone()
    }

    /// Waits until what was heard satisfies a condition.
    #[track_caller]
    pub fn until(&self, awaited: &str, mut holds: impl FnMut(&[Heard]) -> bool) {
        wait_until(format_args!("{awaited}; the server has heard {:?}", self.heard()), || holds(&self.heard()));
    }
}

impl Drop for ScriptedServer {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::SeqCst);
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(self.address);
        for socket in self.shared.sockets().iter() {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}

/// One connection and its thread.
struct Played {
    socket: TcpStream,
    number: usize,
    shared: Arc<Shared>,
    /// What was read and is no whole request yet.
    buffer: Vec<u8>,
}

impl Played {
    fn run(mut self, script: Vec<Step>) {
        let _ = self.socket.set_nodelay(true);
        for step in script {
            match step {
                Step::Read => drop(self.read_request()),
                Step::ReadMany(count) => {
                    for _ in 0..count {
                        self.read_request();
                    }
                }
                Step::Send(bytes) => drop(self.socket.write_all(&bytes)),
                Step::Repeat(piece, times) => {
                    for _ in 0..times {
                        if self.socket.write_all(&piece).is_err() {
                            break;
                        }
                    }
                }
                Step::Drip(bytes) => {
                    for byte in bytes {
                        let _ = self.socket.write_all(&[byte]);
                    }
                }
                Step::FinishSending => drop(self.socket.shutdown(Shutdown::Write)),
                Step::Close => {
                    self.forget();
                    let _ = self.socket.shutdown(Shutdown::Both);
                    return;
                }
                Step::Reset => {
                    self.forget();
                    let socket = socket2::SockRef::from(&self.socket);
                    let _ = socket.set_linger(Some(Duration::ZERO));
                    return;
                }
                // `Shared` has a handle, which keeps the connection.
                Step::Hang => return,
                Step::AnswerAll => {
                    while self.read_request() {
                        let _ = self.socket.write_all(b"+OK\r\n");
                    }
                }
            }
        }
        while self.fill() {
            self.buffer.clear();
        }
    }

    /// Lets go of the other handle, so that this one closes the connection.
    fn forget(&self) {
        let own = self.socket.peer_addr().ok();
        self.shared.sockets().retain(|socket| socket.peer_addr().ok() != own);
    }

    fn read_request(&mut self) -> bool {
        loop {
            if let Some((frame, length)) = first_frame(&self.buffer) {
                self.buffer.drain(..length);
                let words = frame.items().iter().map(Frame::text).collect::<Vec<_>>().join(" ");
                self.shared.heard()[self.number].requests.push(words);
                return true;
            }
            if !self.fill() {
                return false;
            }
        }
    }

    fn fill(&mut self) -> bool {
        let mut chunk = [0; 64 * 1024];
        let read = self.socket.read(&mut chunk).unwrap_or(0);
        self.buffer.extend_from_slice(&chunk[..read]);
        let mut heard = self.shared.heard();
        let heard = &mut heard[self.number];
        heard.bytes += read;
        heard.left |= read == 0;
        read > 0
    }
}
