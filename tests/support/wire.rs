//! A connection at the level of bytes. Every kind of reply is a variant of [`Frame`], and nothing is converted.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::{ClientConfig, ClientConnection, StreamOwned};

use super::wait_for;

/// The time-out of every read and write: a silent server fails the test instead of hanging it.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// A reply as it is on the wire.
#[derive(Clone, Debug, PartialEq)]
pub enum Frame {
    Status(Vec<u8>),
    Error(Vec<u8>),
    Integer(i64),
    Bulk(Vec<u8>),
    /// `$-1`
    NullBulk,
    /// `*-1`
    NullArray,
    /// `_`
    Null,
    Array(Vec<Frame>),
    /// Keys and values in turn.
    Map(Vec<Frame>),
    Set(Vec<Frame>),
    Push(Vec<Frame>),
    /// Keys and values in turn, then the reply to which they belong.
    Attribute(Vec<Frame>),
    Double(Vec<u8>),
    Boolean(bool),
    BigNumber(Vec<u8>),
    Verbatim(Vec<u8>),
    BulkError(Vec<u8>),
}

impl Frame {
    pub fn bulk(text: &str) -> Self {
        Self::Bulk(text.as_bytes().to_vec())
    }

    pub fn status(text: &str) -> Self {
        Self::Status(text.as_bytes().to_vec())
    }

    pub fn error(text: &str) -> Self {
        Self::Error(text.as_bytes().to_vec())
    }

    pub fn is_error(&self) -> bool {
        matches!(self, Self::Error(_) | Self::BulkError(_))
    }

    /// The text of a bulk, verbatim or status reply.
    pub fn text(&self) -> String {
        match self {
            Self::Bulk(bytes) | Self::Verbatim(bytes) | Self::Status(bytes) | Self::Error(bytes) => {
                String::from_utf8_lossy(bytes).into_owned()
            }
            other => panic!("not a text: {other:?}"),
        }
    }

    pub fn integer(&self) -> i64 {
        match self {
            Self::Integer(value) => *value,
            other => panic!("not an integer: {other:?}"),
        }
    }

    pub fn items(&self) -> &[Frame] {
        match self {
            Self::Array(items) | Self::Map(items) | Self::Set(items) | Self::Push(items) => items,
            other => panic!("not an array: {other:?}"),
        }
    }
}

/// The reason why there is no reply.
#[derive(Debug)]
pub enum ReadError {
    /// The server closed the connection.
    Closed,
    /// Nothing arrived within [`PATIENCE`].
    TimedOut,
    /// The bytes are not a reply.
    Garbage(Vec<u8>),
    Failed(io::Error),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => f.write_str("the server closed the connection"),
            Self::TimedOut => f.write_str("no reply came"),
            Self::Garbage(bytes) => write!(f, "not a reply: {:?}", String::from_utf8_lossy(bytes)),
            Self::Failed(error) => write!(f, "{error}"),
        }
    }
}

enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

/// One connection.
pub struct Wire {
    socket: Socket,
    /// Bytes that have arrived and are not parsed yet.
    buffer: Vec<u8>,
}

impl Wire {
    pub fn connect(address: SocketAddr) -> Self {
        Self::try_connect(address).unwrap_or_else(|error| panic!("cannot connect to {address}: {error}"))
    }

    /// Connects to a server that may not be there.
    pub fn try_connect(address: SocketAddr) -> io::Result<Self> {
        let socket = TcpStream::connect(address)?;
        socket.set_nodelay(true).expect("TCP_NODELAY");
        socket.set_read_timeout(Some(PATIENCE)).expect("a read time-out");
        socket.set_write_timeout(Some(PATIENCE)).expect("a write time-out");
        Ok(Self { socket: Socket::Tcp(socket), buffer: Vec::new() })
    }

    /// Connects over TLS, to a server that is named `localhost`.
    pub fn connect_tls(address: SocketAddr, config: &Arc<ClientConfig>) -> Self {
        let plain = Self::connect(address);
        let Socket::Tcp(socket) = plain.socket else { unreachable!("it was just connected") };
        let name = "localhost".try_into().expect("a name");
        let session = ClientConnection::new(Arc::clone(config), name).expect("a session");
        Self { socket: Socket::Tls(Box::new(StreamOwned::new(session, socket))), buffer: Vec::new() }
    }

    pub fn connect_unix(path: &Path) -> Self {
        let socket =
            UnixStream::connect(path).unwrap_or_else(|error| panic!("cannot connect to {}: {error}", path.display()));
        socket.set_read_timeout(Some(PATIENCE)).expect("a read time-out");
        Self { socket: Socket::Unix(socket), buffer: Vec::new() }
    }

    pub fn tcp(&self) -> &TcpStream {
        match &self.socket {
            Socket::Tcp(socket) => socket,
            Socket::Tls(stream) => &stream.sock,
            Socket::Unix(_) => panic!("a unix socket"),
        }
    }

    /// Sends bytes and returns whether that worked. Replies that arrived before the server closed the connection can
    /// still be read.
    pub fn send(&mut self, bytes: &[u8]) -> bool {
        match &mut self.socket {
            Socket::Tcp(socket) => socket.write_all(bytes).is_ok(),
            Socket::Unix(socket) => socket.write_all(bytes).is_ok(),
            Socket::Tls(stream) => stream.write_all(bytes).and_then(|()| stream.flush()).is_ok(),
        }
    }

    /// Shuts down the sending half of the connection.
    pub fn finish_sending(&self) {
        let _ = match &self.socket {
            Socket::Tcp(socket) => socket.shutdown(std::net::Shutdown::Write),
            Socket::Unix(socket) => socket.shutdown(std::net::Shutdown::Write),
            Socket::Tls(stream) => stream.sock.shutdown(std::net::Shutdown::Write),
        };
    }

    /// Sends one command and reads its reply.
    pub fn call<W: AsRef<[u8]>>(&mut self, words: &[W]) -> Frame {
        self.send(&request(words));
        self.expect()
    }

    /// Sends one command, given as words between blanks, and reads its reply.
    pub fn ask(&mut self, line: &str) -> Frame {
        let words: Vec<&str> = line.split_whitespace().collect();
        self.call(&words)
    }

    /// Repeats a command until the text of its reply satisfies a condition.
    #[track_caller]
    pub fn ask_until(&mut self, line: &str, is_right: impl Fn(&str) -> bool) {
        wait_for(format_args!("another reply to {line}"), || {
            let text = self.ask(line).text();
            if is_right(&text) { Ok(()) } else { Err(text) }
        });
    }

    /// Reads the next reply; the test fails if there is none.
    #[track_caller]
    pub fn expect(&mut self) -> Frame {
        self.read().unwrap_or_else(|silence| panic!("{silence}"))
    }

    /// Reads the next reply.
    pub fn read(&mut self) -> Result<Frame, ReadError> {
        loop {
            match parse(&self.buffer) {
                Parsed::Whole(frame, length) => {
                    self.buffer.drain(..length);
                    return Ok(frame);
                }
                Parsed::Garbage => return Err(ReadError::Garbage(std::mem::take(&mut self.buffer))),
                Parsed::Partial => self.fill()?,
            }
        }
    }

    fn fill(&mut self) -> Result<(), ReadError> {
        let mut chunk = [0; 64 * 1024];
        let read = match &mut self.socket {
            Socket::Tcp(socket) => socket.read(&mut chunk),
            Socket::Unix(socket) => socket.read(&mut chunk),
            Socket::Tls(stream) => stream.read(&mut chunk),
        };
        match read {
            Ok(0) => Err(ReadError::Closed),
            Ok(read) => {
                self.buffer.extend_from_slice(&chunk[..read]);
                Ok(())
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                Err(ReadError::TimedOut)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            // The server closed the connection without reading everything.
            Err(error) if matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe) => {
                Err(ReadError::Closed)
            }
            Err(error) => Err(ReadError::Failed(error)),
        }
    }

    /// Reads everything until the server closes the connection.
    #[track_caller]
    pub fn read_to_end(&mut self) -> Vec<u8> {
        loop {
            match self.fill() {
                Ok(()) => {}
                Err(ReadError::Closed) => return std::mem::take(&mut self.buffer),
                Err(silence) => panic!("{silence} after {:?}", String::from_utf8_lossy(&self.buffer)),
            }
        }
    }

    /// Reads exactly this many bytes.
    #[track_caller]
    pub fn read_bytes(&mut self, count: usize) -> Vec<u8> {
        while self.buffer.len() < count {
            if let Err(silence) = self.fill() {
                panic!("{silence} after {:?}", String::from_utf8_lossy(&self.buffer));
            }
        }
        self.buffer.drain(..count).collect()
    }

    /// Whether unread bytes have arrived; does not wait for them.
    pub fn has_reply(&mut self) -> bool {
        let socket = self.tcp();
        socket.set_nonblocking(true).expect("a socket that does not wait");
        let found = socket.peek(&mut [0]);
        socket.set_nonblocking(false).expect("a socket that waits");
        !self.buffer.is_empty() || found.is_ok_and(|found| found > 0)
    }

    /// Whether a reply has begun to arrive or the connection has ended; does not wait for it.
    pub fn is_readable(&mut self) -> bool {
        let socket = self.tcp();
        socket.set_nonblocking(true).expect("a socket that does not wait");
        let found = socket.peek(&mut [0]);
        socket.set_nonblocking(false).expect("a socket that waits");
        !self.buffer.is_empty() || !found.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Whether the server closes the connection within [`PATIENCE`]. Discards what arrives before that.
    pub fn is_closed(&mut self) -> bool {
        loop {
            match self.fill() {
                Ok(()) => self.buffer.clear(),
                Err(ReadError::Closed) => return true,
                Err(_) => return false,
            }
        }
    }
}

/// Encodes a request.
pub fn request<W: AsRef<[u8]>>(words: &[W]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        let word = word.as_ref();
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// Splits a line into words as redis-cli does. `None` if quotes are unbalanced.
pub fn split(mut rest: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut words = Vec::new();
    loop {
        rest = rest.trim_ascii_start();
        let Some(&first) = rest.first() else { return Some(words) };
        let mut word = Vec::new();
        match first {
            b'"' => {
                rest = &rest[1..];
                loop {
                    match rest {
                        [] => return None,
                        [b'"', tail @ ..] => {
                            rest = tail;
                            break;
                        }
                        [b'\\', b'x', high, low, tail @ ..] => {
                            let digit = |byte: u8| (byte as char).to_digit(16);
                            word.push((digit(*high)? * 16 + digit(*low)?) as u8);
                            rest = tail;
                        }
                        [b'\\', escaped, tail @ ..] => {
                            word.push(match escaped {
                                b'n' => b'\n',
                                b'r' => b'\r',
                                b't' => b'\t',
                                b'a' => 7,
                                b'b' => 8,
                                other => *other,
                            });
                            rest = tail;
                        }
                        [byte, tail @ ..] => {
                            word.push(*byte);
                            rest = tail;
                        }
                    }
                }
            }
            _ => {
                let end = rest.iter().position(u8::is_ascii_whitespace).unwrap_or(rest.len());
                word.extend_from_slice(&rest[..end]);
                rest = &rest[end..];
            }
        }
        words.push(word);
    }
}

enum Parsed {
    Whole(Frame, usize),
    Partial,
    Garbage,
}

/// The first frame of these bytes and its length, once it is whole.
pub fn first_frame(bytes: &[u8]) -> Option<(Frame, usize)> {
    match parse(bytes) {
        Parsed::Whole(frame, length) => Some((frame, length)),
        Parsed::Partial | Parsed::Garbage => None,
    }
}

fn parse(bytes: &[u8]) -> Parsed {
    let mut at = 0;
    match frame(bytes, &mut at) {
        Ok(Some(frame)) => Parsed::Whole(frame, at),
        Ok(None) => Parsed::Partial,
        Err(()) => Parsed::Garbage,
    }
}

fn frame(bytes: &[u8], at: &mut usize) -> Result<Option<Frame>, ()> {
    let Some(end) = bytes[*at..].windows(2).position(|pair| pair == b"\r\n") else { return Ok(None) };
    let line = &bytes[*at..*at + end];
    *at += end + 2;
    let Some((kind, rest)) = line.split_first() else { return Err(()) };
    let number = || std::str::from_utf8(rest).ok().and_then(|text| text.parse::<i64>().ok()).ok_or(());
    Ok(Some(match kind {
        b'+' => Frame::Status(rest.to_vec()),
        b'-' => Frame::Error(rest.to_vec()),
        b':' => Frame::Integer(number()?),
        b'_' => Frame::Null,
        b',' => Frame::Double(rest.to_vec()),
        b'(' => Frame::BigNumber(rest.to_vec()),
        b'#' => Frame::Boolean(rest == b"t"),
        b'$' | b'=' | b'!' => {
            let length = number()?;
            if length < 0 {
                return Ok(Some(Frame::NullBulk));
            }
            let length = usize::try_from(length).map_err(drop)?;
            let Some(body) = bytes.get(*at..*at + length + 2) else { return Ok(None) };
            *at += length + 2;
            let Some(body) = body.strip_suffix(b"\r\n") else { return Err(()) };
            match kind {
                b'$' => Frame::Bulk(body.to_vec()),
                b'=' => Frame::Verbatim(body.to_vec()),
                _ => Frame::BulkError(body.to_vec()),
            }
        }
        b'*' | b'~' | b'>' | b'%' | b'|' => {
            let count = number()?;
            if count < 0 {
                return Ok(Some(Frame::NullArray));
            }
            let count = match kind {
                b'%' => count * 2,
                b'|' => count * 2 + 1,
                _ => count,
            };
            let mut items = Vec::new();
            for _ in 0..count {
                let Some(item) = frame(bytes, at)? else { return Ok(None) };
                items.push(item);
            }
            match kind {
                b'*' => Frame::Array(items),
                b'~' => Frame::Set(items),
                b'>' => Frame::Push(items),
                b'%' => Frame::Map(items),
                _ => Frame::Attribute(items),
            }
        }
        _ => return Err(()),
    }))
}
