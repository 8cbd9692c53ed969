//! A local port refuses connections while its node does. Clients tell a refused connection from one that is closed: they try
//! elsewhere after the first, and some report the second.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::ReadBuf;

use super::{DeploymentFront, Member};
use crate::base::clock::{Clock, Stopwatch};
use crate::server::stream::Stream;

/// Between two attempts to reach a node that refuses connections.
const PERIOD: Duration = Duration::from_millis(50);
/// The connections of many clients end at once: one attempt counts for all of them.
const FRESH: Duration = Duration::from_millis(10);
/// The longest that the end of a connection waits for an attempt.
const PATIENCE: Duration = Duration::from_millis(100);

impl DeploymentFront {
    /// Connects to a member. The error says what is wrong.
    pub async fn connect(self: &Arc<Self>, member: &Arc<Member>) -> io::Result<Stream> {
        let connected = member.target().connect().await;
        if let Err(error) = &connected {
            self.doubt();
            self.note_refusal(member, error);
        }
        connected
    }

    /// The connection to a node has ended. Ready when its port here refuses connections, if the node does.
    pub async fn follow_refusal(self: Arc<Self>, member: Arc<Member>) {
        let attempt = async {
            let mut tried = member.tried.lock().await;
            if !member.is_refusing() && tried.is_none_or(|since| since.elapsed() >= FRESH) {
                while self.is_ending(&member).await {}
                *tried = Some(Stopwatch::start());
            }
        };
        let _ = Clock::within(PATIENCE, attempt).await;
    }

    /// Whether a node accepts connections and drops them, as a process does until its last moment.
    async fn is_ending(self: &Arc<Self>, member: &Arc<Member>) -> bool {
        match member.target().connect().await {
            Ok(stream) => !answers(stream).await,
            Err(error) => {
                self.note_refusal(member, &error);
                error.kind() == io::ErrorKind::ConnectionReset
            }
        }
    }

    fn note_refusal(self: &Arc<Self>, member: &Arc<Member>, error: &io::Error) {
        let Some(front) = self.front() else { return };
        if error.kind() == io::ErrorKind::ConnectionRefused && member.refuse() {
            front.event_loop().spawn(Arc::clone(self).end_refusal(Arc::clone(member)));
        }
    }

    /// Accepts connections again when the node does.
    async fn end_refusal(self: Arc<Self>, member: Arc<Member>) {
        while member.is_refusing() {
            Clock::sleep(PERIOD).await;
            let Some(front) = self.front() else { return };
            let connected = member.target().connect().await;
            let is_refused = connected.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
            if !is_refused && let Err(error) = member.accept_again(&front) {
                self.troubles.warn(&self.log, &format!("Upstream: {error}"));
            }
        }
    }
}

/// Whether somebody answers, if only with an error.
async fn answers(mut stream: Stream) -> bool {
    let asked = poll_fn(|cx| stream.poll_write(cx, b"PING\r\n")).await;
    let mut byte = [0];
    let mut buffer = ReadBuf::new(&mut byte);
    asked.is_ok() && matches!(poll_fn(|cx| stream.poll_read(cx, &mut buffer)).await, Ok(1..))
}
