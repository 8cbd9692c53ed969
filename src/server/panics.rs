//! Panics in handlers: a panic ends one task, and is logged and counted, so that no test mistakes it for intended
//! behaviour.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use crate::clients::instance::Instance;

/// Polls a future to its end or to its panic, which is recorded with the text of `during`.
///
/// No task sees a state that a panic left half changed: the future is dropped at once, and the state it shares is
/// behind locks whose changes are complete (see `MutexExt`).
pub(super) async fn catch_panics<F>(mut future: F, instance: Arc<Instance>, during: impl Fn() -> String)
where
    F: Future<Output = ()> + Unpin,
{
    poll_fn(|cx| {
        catch_unwind(AssertUnwindSafe(|| Pin::new(&mut future).poll(cx))).unwrap_or_else(|panic| {
            instance.record_panic(&during(), &*panic);
            Poll::Ready(())
        })
    })
    .await;
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;

    use super::super::Server;
    use crate::base::log::Log;
    use crate::commands::{Command, Handler};
    use crate::spec::{Arity, CommandSpec};

    /// A command that only this test adds to the table.
    const PANICS: Command = Command::new(
        Handler::Connection(|_, _| [].first().copied().map(crate::protocol::Reply::Integer).map(Ok).unwrap()),
        CommandSpec { arity: Arity::Exactly(1), ..CommandSpec::new("PANICS") },
    );

    #[test]
    fn a_panic_in_a_handler_closes_one_connection_and_is_logged_and_counted() {
        let path = std::env::temp_dir().join(format!("redouble-panics-{}.log", std::process::id()));
        let server = Server::builder().with_command(&PANICS, Log::file(&path).unwrap()).spawn().unwrap();
        let space = server.space("other").unwrap();
        let connect = || TcpStream::connect(server.address().unwrap()).unwrap();
        let (mut panicking, mut other) = (connect(), connect());
        let mut reply = Vec::new();
        panicking.write_all(b"PANICS\r\n").unwrap();
        panicking.read_to_end(&mut reply).unwrap();
        assert_eq!(reply, b"");
        other.write_all(b"INFO redouble\r\nQUIT\r\n").unwrap();
        other.read_to_end(&mut reply).unwrap();
        let reply = String::from_utf8(reply).unwrap();
        assert!(reply.contains("# Redouble\r\nhandler_panics:1\r\n"), "{reply}");
        assert_eq!(space.engine().instance.panics(), 1);
        drop(server);
        let log = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(log.contains(" # Panic while serving client 1: called `Option::unwrap()`"), "{log}");
    }
}
