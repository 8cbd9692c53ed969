//! The in-process API in async tests: on a current-thread runtime, as `#[tokio::test]` makes it, waiting lets tasks run.

use std::future::Future;
use std::time::Duration;

use crate::support::spawn;
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use redouble::{Code, Error, Pattern, Server};

async fn connect(server: &Server) -> MultiplexedConnection {
    let client = redis::Client::open(server.url()).unwrap();
    client.get_multiplexed_async_connection().await.unwrap()
}

/// A command that a task of the test's own runtime sends.
fn send(connection: &MultiplexedConnection, words: &'static str) -> tokio::task::JoinHandle<redis::Value> {
    let mut connection = connection.clone();
    let mut words = words.split(' ');
    let mut command = redis::cmd(words.next().unwrap());
    words.for_each(|word| {
        command.arg(word);
    });
    tokio::spawn(async move { command.query_async(&mut connection).await.unwrap() })
}

#[tokio::test(flavor = "current_thread")]
async fn a_gate_is_waited_for_while_a_task_of_the_same_thread_comes_to_it() {
    let server = spawn();
    let mut client = connect(&server).await;
    let gate = server.gate("door", Pattern::on("SET")).unwrap();
    let set = send(&client, "SET lock token");
    gate.wait_for_async(1).await.unwrap();
    assert_eq!(gate.held(), 1);
    gate.step().unwrap();
    assert_eq!(set.await.unwrap(), redis::Value::Okay);
    assert_eq!(client.get::<_, String>("lock").await.unwrap(), "token");
}

#[tokio::test(flavor = "current_thread")]
async fn the_journal_is_waited_for_while_a_task_of_the_same_thread_sends() {
    let server = spawn();
    let client = connect(&server).await;
    let journal = server.journal();
    let sent = [send(&client, "SETNX lock a"), send(&client, "SETNX lock b")];
    assert_eq!(journal.wait_for_async(Pattern::on("SETNX"), 2).await.unwrap(), 2);
    for reply in sent {
        reply.await.unwrap();
    }
}

#[tokio::test(flavor = "current_thread")]
async fn a_finding_is_waited_for_while_a_task_of_the_same_thread_does_it() {
    let server = spawn();
    let (one, other) = (connect(&server).await, connect(&server).await);
    let audit = server.audit();
    send(&one, "CLIENT SETNAME one").await.unwrap();
    send(&other, "CLIENT SETNAME other").await.unwrap();
    send(&one, "SET lock a NX PX 30000").await.unwrap();
    let sent = [send(&other, "SET lock b NX PX 30000"), send(&other, "DEL lock")];
    let found = audit.wait_for_async(Code::BlindDelete, 1).await;
    assert_eq!(found.map_err(|error| error.to_string()), Ok(1));
    for reply in sent {
        reply.await.unwrap();
    }
}

#[tokio::test(flavor = "current_thread")]
async fn clocks_and_guards_are_at_rest_when_they_return_although_no_task_ran_meanwhile() {
    let server = spawn();
    let client = connect(&server).await;
    server.freeze();
    let gate = server.gate("door", Pattern::on("BLPOP")).unwrap();
    let popped = send(&client, "BLPOP queue 60");
    gate.wait_for_async(1).await.unwrap();
    drop(gate);
    server.advance(Duration::from_secs(60));
    assert_eq!(popped.await.unwrap(), redis::Value::Nil);
    server.reset();
}

fn text<T: std::fmt::Debug>(outcome: Result<T, Error>) -> String {
    outcome.unwrap_err().to_string()
}

const NO_TIME: Duration = Duration::ZERO;

#[tokio::test(flavor = "current_thread")]
async fn a_wait_that_blocks_the_runtime_says_so_when_it_was_in_vain() {
    const HINT: &str = " (wait_for blocks the only thread of this tokio runtime; if its tasks send the commands, await wait_for_async)";
    let server = spawn();
    let (gate, journal, audit) = (server.gate("door", Pattern::on("DEL")).unwrap(), server.journal(), server.audit());
    let blocking = [
        text(gate.wait_for_within(1, NO_TIME)),
        text(journal.wait_for_within(Pattern::on("DEL"), 1, NO_TIME)),
        text(audit.wait_for_within(Code::TwoHolders, 1, NO_TIME)),
    ];
    let awaited = [
        text(gate.wait_for_within_async(1, NO_TIME).await),
        text(journal.wait_for_within_async(Pattern::on("DEL"), 1, NO_TIME).await),
        text(audit.wait_for_within_async(Code::TwoHolders, 1, NO_TIME).await),
    ];
    for (blocking, awaited) in blocking.into_iter().zip(awaited) {
        assert_eq!(blocking, format!("{awaited}{HINT}"));
    }
}

#[test]
fn a_runtime_without_a_timer_can_wait_and_so_can_a_task_on_another_thread() {
    fn assert_send<T: Send>(future: T) -> T {
        future
    }
    let server = spawn();
    let (gate, journal, audit) = (server.gate("door", Pattern::on("DEL")).unwrap(), server.journal(), server.audit());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let too_late = |outcome: Result<(), Error>| assert!(text(outcome).contains(" 0 of 1 "));
    runtime.block_on(async {
        too_late(assert_send(gate.wait_for_within_async(1, NO_TIME)).await);
        too_late(assert_send(journal.wait_for_within_async(Pattern::on("DEL"), 1, NO_TIME)).await.map(drop));
        too_late(assert_send(audit.wait_for_within_async(Code::TwoHolders, 1, NO_TIME)).await.map(drop));
    });
}

#[test]
fn a_wait_ends_with_its_server() {
    let server = spawn();
    let gate = server.gate("door", Pattern::on("DEL")).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let held = runtime.block_on(async {
        let mut held = std::pin::pin!(gate.wait_for_within_async(1, Duration::MAX));
        let is_waiting = std::future::poll_fn(|cx| std::task::Poll::Ready(held.as_mut().poll(cx).is_pending())).await;
        assert!(is_waiting);
        drop(server);
        held.await
    });
    assert!(text(held).starts_with("gate 'door' holds 0 of 1 after "));
}
