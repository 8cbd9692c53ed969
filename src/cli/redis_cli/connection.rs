//! A connection to a server, with blocking reads and writes.

use std::io::{self, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;

use super::options::Address;
use super::value::{Value, read_value};
use crate::base::error::plain;
use crate::base::host;

pub(super) struct Connection {
    input: BufReader<Box<dyn Read>>,
    output: Box<dyn Write>,
}

impl Connection {
    pub fn open(address: &Address) -> io::Result<Self> {
        match address {
            Address::Socket(path) => {
                let stream = UnixStream::connect(path)?;
                Ok(Self::over(stream.try_clone()?, stream))
            }
            Address::Port { host, port } => {
                let stream = TcpStream::connect(resolve(host, *port)?.as_slice())?;
                stream.set_nodelay(true)?;
                Ok(Self::over(stream.try_clone()?, stream))
            }
        }
    }

    fn over(input: impl Read + 'static, output: impl Write + 'static) -> Self {
        Self { input: BufReader::new(Box::new(input)), output: Box::new(output) }
    }

    pub fn send(&mut self, words: &[Vec<u8>]) -> io::Result<()> {
        let mut request = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            request.extend(format!("${}\r\n", word.len()).bytes());
            request.extend([word.as_slice(), b"\r\n"].concat());
        }
        self.output.write_all(&request)
    }

    pub fn read(&mut self) -> io::Result<Value> {
        read_value(&mut self.input)
    }

    /// Sends a command and waits for its reply; messages in front of it are passed over.
    pub fn ask(&mut self, words: &[&[u8]]) -> io::Result<Value> {
        self.send(&words.iter().map(|word| word.to_vec()).collect::<Vec<_>>())?;
        loop {
            match self.read()? {
                Value::Push(_) => {}
                reply => return Ok(reply),
            }
        }
    }
}

/// The addresses of a host. Those of IPv6 are tried only if it has no others.
///
/// What this machine knows itself needs no C library. Other names are asked of its resolver, because a client is given the
/// names of other machines. In a static binary that works where names come from files and DNS, as in the image.
fn resolve(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    if let Ok(address) = host::resolve(host) {
        return Ok(vec![(address, port).into()]);
    }
    let (first, last): (Vec<_>, Vec<_>) = (host, port).to_socket_addrs()?.partition(SocketAddr::is_ipv4);
    Ok(if first.is_empty() { last } else { first })
}

/// What went wrong with a connection, in the words of `redis-cli`.
pub(super) fn describe(error: &io::Error) -> String {
    let text = plain(error);
    match error.kind() {
        io::ErrorKind::UnexpectedEof => "Server closed the connection".to_owned(),
        _ => text.strip_prefix("failed to lookup address information: ").unwrap_or(&text).to_owned(),
    }
}
