//! Commands of this program itself to an upstream server, on a connection of their own.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;

use redis_protocol::resp2::decode::decode;
use redis_protocol::resp2::types::OwnedFrame;
use tokio::io::ReadBuf;
use tokio::runtime::Handle;

use super::{DeploymentFront, Target};
use crate::engine::Wipe;
use crate::protocol::{Protocol, Reply};
use crate::server::stream::Stream;

/// The longest reply that is read.
const MOST: usize = 16 << 20;

/// A connection to a server on which one command follows the other.
pub(super) struct ControlConnection {
    stream: Stream,
    read: Vec<u8>,
}

impl ControlConnection {
    /// Connects, and authenticates as the URL says.
    pub(super) async fn open(target: &Target) -> Result<Self, String> {
        let stream = target.connect().await.map_err(|error| format!("cannot connect to {error}"))?;
        let mut connection = Self { stream, read: Vec::new() };
        if let Some(words) = target.authentication() {
            connection.run(&words).await?;
        }
        Ok(connection)
    }

    /// Runs a command. An error that the server answers is an error here.
    pub(super) async fn run(&mut self, words: &[&[u8]]) -> Result<OwnedFrame, String> {
        let name = String::from_utf8_lossy(words.first().copied().unwrap_or_default()).into_owned();
        let reply = self.ask(words).await.map_err(|error| format!("{name}: {}", crate::base::error::plain(&error)))?;
        match reply {
            OwnedFrame::Error(line) => Err(format!("{name} was answered with '{line}'")),
            reply => Ok(reply),
        }
    }

    /// The connection, and what was read from it behind the last reply.
    pub(super) fn into_parts(self) -> (Stream, Vec<u8>) {
        (self.stream, self.read)
    }

    async fn ask(&mut self, words: &[&[u8]]) -> io::Result<OwnedFrame> {
        let mut request = Vec::new();
        Reply::Array(words.iter().map(|word| Reply::bulk(word.to_vec())).collect())
            .write(Protocol::Resp2, &mut request);
        let mut written = 0;
        while written < request.len() {
            written += poll_fn(|cx| self.stream.poll_write(cx, &request[written..])).await?;
        }
        poll_fn(|cx| self.stream.poll_flush(cx)).await?;
        loop {
            let decoded =
                decode(&self.read).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))?;
            if let Some((frame, length)) = decoded {
                self.read.drain(..length);
                return Ok(frame);
            }
            if self.read.len() > MOST {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "the reply is too long"));
            }
            let mut bytes = [0; 4096];
            let mut buffer = ReadBuf::new(&mut bytes);
            if poll_fn(|cx| self.stream.poll_read(cx, &mut buffer)).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.read.extend_from_slice(buffer.filled());
        }
    }
}

/// Deletes all data, scripts and functions of a server, by tasks of this event loop.
pub(in crate::server) fn wipe_from(target: &Arc<Target>, events: &Handle) -> Wipe {
    let (target, events) = (Arc::clone(target), events.clone());
    Box::new(move || {
        let target = Arc::clone(&target);
        let wiping = events.spawn(async move { wipe(&target).await });
        Box::pin(async move { wiping.await.map_err(|error| error.to_string())? })
    })
}

/// The same for all masters of a deployment.
pub(in crate::server) fn wipe_all_from(front: &Arc<DeploymentFront>, events: &Handle) -> Wipe {
    let (front, events) = (Arc::clone(front), events.clone());
    Box::new(move || {
        let front = Arc::clone(&front);
        let wiping = events.spawn(async move {
            let masters = front.masters();
            if masters.is_empty() {
                return Err("no master is known".to_owned());
            }
            for master in masters {
                wipe(&master.target()).await?;
            }
            Ok(())
        });
        Box::pin(async move { wiping.await.map_err(|error| error.to_string())? })
    })
}

async fn wipe(target: &Target) -> Result<(), String> {
    let mut connection = ControlConnection::open(target).await?;
    connection.run(&[b"FLUSHALL"]).await?;
    connection.run(&[b"SCRIPT", b"FLUSH"]).await?;
    match connection.run(&[b"FUNCTION", b"FLUSH"]).await {
        // Redis has functions since 7.0.
        Err(reason) if reason.contains("unknown command") => Ok(()),
        ended => ended.map(drop),
    }
}
