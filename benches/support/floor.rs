//! A server that answers +OK to every request, and PONG to PING: a bare loop around epoll.

use super::Outcome;

/// This program is that server if it begins with this word and a port.
pub const FLAG: &str = "--serve-ok";

#[cfg(not(target_os = "linux"))]
pub fn serve(_port: u16) -> Outcome<()> {
    Err("there is no epoll here".into())
}

#[cfg(target_os = "linux")]
pub fn serve(port: u16) -> Outcome<()> {
    use std::collections::HashMap;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use rustix::buffer::spare_capacity;
    use rustix::event::epoll;

    const LISTENER: u64 = u64::MAX;
    let listener = TcpListener::bind(("127.0.0.1", port))?;
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(&poll, &listener, epoll::EventData::new_u64(LISTENER), epoll::EventFlags::IN)?;
    let mut clients: HashMap<u64, TcpStream> = HashMap::new();
    let mut events = Vec::with_capacity(1024);
    let (mut input, mut output) = (vec![0; 64 * 1024], Vec::new());
    for next in 0.. {
        events.clear();
        epoll::wait(&poll, spare_capacity(&mut events), None)?;
        for event in &events {
            let number = event.data.u64();
            if number == LISTENER {
                let (client, _) = listener.accept()?;
                client.set_nodelay(true)?;
                let number = next * 1024 + clients.len() as u64;
                epoll::add(&poll, &client, epoll::EventData::new_u64(number), epoll::EventFlags::IN)?;
                clients.insert(number, client);
                continue;
            }
            let Some(client) = clients.get_mut(&number) else { continue };
            let length = client.read(&mut input).unwrap_or(0);
            if length == 0 {
                clients.remove(&number);
                continue;
            }
            output.clear();
            let input = &input[..length];
            match memchr::memmem::find(input, b"PING") {
                Some(_) => output.extend_from_slice(b"+PONG\r\n"),
                // Whole requests come as one write.
                None => memchr::memchr_iter(b'*', input).for_each(|_| output.extend_from_slice(b"+OK\r\n")),
            }
            if client.write_all(&output).is_err() {
                clients.remove(&number);
            }
        }
    }
    Ok(())
}
