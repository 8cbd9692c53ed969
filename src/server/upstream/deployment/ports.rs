//! The local ports of nodes: those of `--port-range`, or free ones.

use std::net::TcpListener;

use crate::base::error::Error;
use crate::base::log::Log;
use crate::server::bind::bind_tcp;
use crate::server::bound_address::BoundAddress;

/// The first and the last port of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::server) struct PortRange {
    first: u16,
    last: u16,
}

impl PortRange {
    /// Reads `7000-7100`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let port = |text: &str| text.trim().parse::<u16>().ok().filter(|port| *port > 0);
        text.split_once('-')
            .and_then(|(first, last)| Some(Self { first: port(first)?, last: port(last)? }))
            .filter(|range| range.first <= range.last)
            .ok_or_else(|| format!("port-range is two ports with a dash between, as in 7000-7100, not '{text}'"))
    }
}

/// Where nodes get their ports from.
pub(in crate::server) struct PortPool {
    /// The addresses to listen on.
    pub bind: Vec<String>,
    pub backlog: i32,
    /// The port of the first node; 0 for a free one, `None` without plain connections.
    pub plain: Option<u16>,
    /// The port for TLS of the first node.
    pub tls: Option<u16>,
    /// The ports of the others.
    pub range: Option<PortRange>,
    /// Where the next search in the range begins.
    next: u16,
}

impl PortPool {
    pub fn new(
        bind: Vec<String>,
        backlog: i32,
        plain: Option<u16>,
        tls: Option<u16>,
        range: Option<PortRange>,
    ) -> Self {
        let next = range.map_or(0, |range| range.first);
        Self { bind, backlog, plain, tls, range, next }
    }

    /// Listens for the next node.
    pub fn open(&mut self, is_first: bool, log: &Log) -> Result<Vec<BoundAddress>, Error> {
        let mut bound = Vec::new();
        for (port, is_tls) in [(self.plain, false), (self.tls, true)] {
            let Some(port) = port else { continue };
            for listener in self.listeners(port, is_first, log)? {
                bound.push(BoundAddress::tcp(listener, self.backlog, is_tls)?);
            }
        }
        Ok(bound)
    }

    fn listeners(&mut self, port: u16, is_first: bool, log: &Log) -> Result<Vec<TcpListener>, Error> {
        if is_first && port != 0 {
            return bind_tcp(&self.bind, port, self.backlog, log);
        }
        let Some(range) = self.range else { return bind_tcp(&self.bind, 0, self.backlog, log) };
        while self.next != 0 && self.next <= range.last {
            let port = self.next;
            self.next = self.next.checked_add(1).unwrap_or(0);
            // Others may have some of these ports.
            if let Ok(listeners) = bind_tcp(&self.bind, port, self.backlog, &Log::silent()) {
                return Ok(listeners);
            }
        }
        let (first, last) = (range.first, range.last);
        log.warn(format!("No port of port-range {first}-{last} is left, so this node has a free one."));
        bind_tcp(&self.bind, 0, self.backlog, log)
    }
}

#[cfg(test)]
mod tests {
    use super::PortRange;

    #[test]
    fn a_range_is_two_ports_in_order() {
        assert_eq!(PortRange::parse("7000-7100"), Ok(PortRange { first: 7000, last: 7100 }));
        for wrong in ["", "7000", "7100-7000", "0-5", "1-65536", "a-b"] {
            assert!(PortRange::parse(wrong).is_err(), "{wrong}");
        }
    }
}
