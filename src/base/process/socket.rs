//! The socket at the other end of a TCP connection of this machine.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::net::netlink::SOCK_DIAG;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with};

/// A socket, as the kernel names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Socket {
    pub inode: u64,
    /// The user who has it.
    pub user: u32,
}

impl Socket {
    /// What a file descriptor that is this socket links to.
    pub fn link(self) -> String {
        format!("socket:[{}]", self.inode)
    }
}

/// Asks the kernel about single sockets. What it cannot be asked in this way is read in /proc/net.
pub struct SocketQuery {
    kernel: Option<OwnedFd>,
}

/// The message that asks for one socket by its addresses, and that answers: the length of its header; the number of both
/// kinds of message; the flag that says that it is a request.
const HEADER: usize = 16;
const BY_FAMILY: u16 = 20;
const REQUEST: u16 = 1;
/// Where the user and the inode stand in the answer.
const USER: usize = HEADER + 64;
const INODE: usize = HEADER + 68;
const TCP: u8 = 6;

impl SocketQuery {
    pub fn new() -> Self {
        let kernel = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, Some(SOCK_DIAG));
        Self { kernel: kernel.ok() }
    }

    /// The client's socket of a connection.
    pub fn client_socket(&mut self, proc: &Path, client: SocketAddr, server: SocketAddr) -> Option<Socket> {
        let socket = self.ask(client, server);
        if self.kernel.is_some() { socket } else { listed(proc, client, server) }
    }

    /// The same; `None` also if the kernel cannot be asked.
    pub fn ask(&mut self, client: SocketAddr, server: SocketAddr) -> Option<Socket> {
        let socket = ask(self.kernel.as_ref()?, client, server);
        if socket.is_err() {
            self.kernel = None;
        }
        socket.ok().flatten()
    }
}

/// Asks for one socket. An error says that the kernel does not answer such questions here.
fn ask(kernel: &OwnedFd, client: SocketAddr, server: SocketAddr) -> rustix::io::Result<Option<Socket>> {
    let question = question(client, server);
    send(kernel, &question, SendFlags::empty())?;
    let mut answer = [0; 512];
    // The answer is there when the question is sent.
    let (_, length) = recv(kernel, &mut answer, RecvFlags::DONTWAIT)?;
    let answer = &answer[..length.min(answer.len())];
    let number = |at: usize| Some(u32::from_ne_bytes(answer.get(at..at + 4)?.try_into().ok()?));
    let is_answer = answer.get(4..6) == Some(&BY_FAMILY.to_ne_bytes());
    // Otherwise there is no such connection any more.
    let socket = is_answer.then(|| Some(Socket { inode: number(INODE)?.into(), user: number(USER)? })).flatten();
    Ok(socket.filter(|socket| socket.inode != 0))
}

fn question(client: SocketAddr, server: SocketAddr) -> Vec<u8> {
    const FAMILY_IPV4: u8 = 2;
    const FAMILY_IPV6: u8 = 10;
    const LENGTH: u32 = HEADER as u32 + 56;
    let mut bytes = Vec::with_capacity(LENGTH as usize);
    bytes.extend(LENGTH.to_ne_bytes());
    bytes.extend(BY_FAMILY.to_ne_bytes());
    bytes.extend(REQUEST.to_ne_bytes());
    // The number of the question, and who asks.
    bytes.extend([0; 8]);
    let family = if client.is_ipv4() { FAMILY_IPV4 } else { FAMILY_IPV6 };
    bytes.extend([family, TCP, 0, 0]);
    // In any state.
    bytes.extend(u32::MAX.to_ne_bytes());
    bytes.extend(client.port().to_be_bytes());
    bytes.extend(server.port().to_be_bytes());
    for address in [client.ip(), server.ip()] {
        let mut field = [0; 16];
        match address {
            IpAddr::V4(address) => field[..4].copy_from_slice(&address.octets()),
            IpAddr::V6(address) => field = address.octets(),
        }
        bytes.extend(field);
    }
    // On any interface, and without a cookie.
    bytes.extend([0; 4]);
    bytes.extend([0xff; 8]);
    bytes
}

/// Looks for a connection in the kernel's lists.
fn listed(proc: &Path, client: SocketAddr, server: SocketAddr) -> Option<Socket> {
    ["net/tcp", "net/tcp6"].iter().find_map(|list| {
        let list = fs::read_to_string(proc.join(list)).ok()?;
        list.lines().skip(1).find_map(|line| {
            let fields: Vec<&str> = line.split_ascii_whitespace().take(10).collect();
            let [_, local, remote, _, _, _, _, user, _, inode] = fields[..] else { return None };
            let is_it = address(local)? == client && address(remote)? == server;
            let socket = Socket { inode: inode.parse().ok()?, user: user.parse().ok()? };
            (is_it && socket.inode != 0).then_some(socket)
        })
    })
}

/// An address as the kernel lists it: words of four bytes in the machine's order, and the port.
fn address(text: &str) -> Option<SocketAddr> {
    let (digits, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |at: usize| Some(u32::from_str_radix(digits.get(at..at + 8)?, 16).ok()?.to_ne_bytes());
    let ip: IpAddr = match digits.len() {
        8 => Ipv4Addr::from(word(0)?).into(),
        32 => {
            let mut octets = [0; 16];
            for (place, chunk) in octets.chunks_exact_mut(4).enumerate() {
                chunk.copy_from_slice(&word(place * 8)?);
            }
            Ipv6Addr::from(octets).to_canonical()
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn the_clients_socket_is_found_by_asking_and_in_the_lists() {
        for host in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(host) else { continue };
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let inode = rustix::fs::fstat(client.as_fd()).unwrap().st_ino;
            let (from, to) = (client.local_addr().unwrap(), client.peer_addr().unwrap());
            let proc = Path::new("/proc");
            let listed = listed(proc, from, to).unwrap();
            assert_eq!(listed.inode, inode);
            assert_eq!(SocketQuery { kernel: None }.client_socket(proc, from, to), Some(listed));
            assert_eq!(SocketQuery::new().client_socket(proc, from, to), Some(listed));
            // The server's end is not the client's, and nobody else's is.
            assert_ne!(SocketQuery::new().client_socket(proc, to, from), Some(listed));
            let nobody = SocketAddr::new(from.ip(), 1);
            assert_eq!(SocketQuery::new().client_socket(proc, nobody, to), None);
        }
    }
}
