//! Panics in handlers: a panic ends one task, and is logged and counted, so that no test mistakes it for intended
//! behaviour.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Poll;

use crate::clients::instance::Instance;

/// How often periodic work is started again.
const MOST_PANICS: usize = 100;

/// Polls a future to its end or to its panic, which is recorded. Returns whether it has panicked.
pub(super) async fn catch_panics(future: impl Future<Output = ()>, instance: Arc<Instance>, during: &str) -> bool {
    let mut future = Box::pin(future);
    poll_fn(|cx| {
        catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx).map(|()| false))).unwrap_or_else(|panic| {
            instance.record_panic(during, &*panic);
            Poll::Ready(true)
        })
    })
    .await
}

/// Starts a future again whenever it has panicked, some times.
pub(super) async fn restart_after_panic<F: Future<Output = bool>>(start: impl Fn() -> F) {
    for _ in 0..MOST_PANICS {
        if !start().await {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;

    use super::super::Server;
    use crate::base::log::Log;
    use crate::commands::{Command, Handler};
    use crate::data::keyspace::Entry;
    use crate::spec::{Arity, CommandSpec, Flag};

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
        assert!(
            log.contains(" # Panic while serving client 1, whose last command is 'panics': called `Option::unwrap()`"),
            "{log}"
        );
    }

    /// A command that only this test adds to the table: it does half of its work.
    const HALFWAY: Command = Command::new(
        Handler::Everything(|view, _| {
            let entry = Entry::string(b"half", b"done", None, view.access_time());
            view.replace(entry);
            [].first().copied().map(crate::protocol::Reply::Integer).map(Ok).unwrap()
        }),
        CommandSpec { arity: Arity::Exactly(1), flags: &[Flag::Write], ..CommandSpec::new("HALFWAY") },
    );

    fn ask(stream: &mut TcpStream, request: &str) -> String {
        stream.write_all(request.as_bytes()).unwrap();
        let mut reply = vec![0; 4096];
        let length = stream.read(&mut reply).unwrap();
        String::from_utf8_lossy(&reply[..length]).into_owned()
    }

    #[test]
    fn what_a_panic_leaves_half_done_is_put_right_and_told() {
        let path = std::env::temp_dir().join(format!("redouble-halfway-{}.log", std::process::id()));
        let builder = Server::builder().journal(1 << 20).with_command(&HALFWAY, Log::file(&path).unwrap());
        let server = builder.spawn().unwrap();
        let connect = || TcpStream::connect(server.address().unwrap()).unwrap();
        let (mut panicking, mut watching, mut other) = (connect(), connect(), connect());
        assert_eq!(ask(&mut watching, "WATCH unrelated\r\n"), "+OK\r\n");
        let before = server.engine().instance.keyspace.used_bytes();
        panicking.write_all(b"HALFWAY\r\n").unwrap();
        assert_eq!(panicking.read_to_end(&mut Vec::new()).unwrap(), 0);
        // Who watches takes no chance.
        assert_eq!(ask(&mut watching, "MULTI\r\n"), "+OK\r\n");
        assert_eq!(ask(&mut watching, "PING\r\n"), "+QUEUED\r\n");
        assert_eq!(ask(&mut watching, "EXEC\r\n"), "*-1\r\n");
        // Nothing stays locked, and what is there counts.
        assert_eq!(ask(&mut other, "GET half\r\n"), "$4\r\ndone\r\n");
        assert!(server.engine().instance.keyspace.used_bytes() > before);
        assert_eq!(ask(&mut other, "DEL half\r\n"), ":1\r\n");
        assert_eq!(server.engine().instance.keyspace.used_bytes(), before);
        assert_eq!(ask(&mut other, "EVAL return(1) 0\r\n"), ":1\r\n");
        // The journal does not say that it never ran.
        let entries = server.journal().entries(crate::powers::Query::default());
        let halfway = entries.iter().find(|entry| entry.words[0].eq_ignore_ascii_case(b"HALFWAY")).unwrap();
        assert!(halfway.is_lost(), "{halfway:?}");
        drop(server);
        let log = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(
            log.contains("After the panic: the connection is closed, and the command may have taken effect in part."),
            "{log}"
        );
        assert!(log.contains("for those who watch (1)"), "{log}");
    }
}
