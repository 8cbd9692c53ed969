//! Tests of a lock on tokio's two runtimes. On that with one thread, which `#[tokio::test]` makes, a test waits with
//! `wait_for_async`; on that with several, it may block.
//!
//! `cargo test --example tokio_tests`

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redouble::{Pattern, Server};

const RELEASE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end";

type TestResult = Result<(), Box<dyn std::error::Error>>;

async fn connect(url: &str) -> redis::RedisResult<MultiplexedConnection> {
    redis::Client::open(url)?.get_multiplexed_async_connection().await
}

/// Takes the lock for 30 seconds, or does not.
async fn take(client: &mut MultiplexedConnection, token: &str) -> redis::RedisResult<bool> {
    let taken: Option<String> =
        redis::cmd("SET").arg("lock:job").arg(token).arg("NX").arg("PX").arg(30_000).query_async(client).await?;
    Ok(taken.is_some())
}

/// Releases the lock, if it is still this holder's.
async fn release(client: &mut MultiplexedConnection, token: &str) -> redis::RedisResult<bool> {
    redis::Script::new(RELEASE).key("lock:job").arg(token).invoke_async(client).await
}

#[tokio::test]
async fn a_late_holder_does_not_release_the_next_ones_lock() -> TestResult {
    let server = Server::builder().spawn()?;
    server.freeze();
    let (mut slow, mut next) = (connect(&server.url()).await?, connect(&server.url()).await?);
    assert!(take(&mut slow, "slow").await?);

    // The release has come, and is held before it runs. Meanwhile the lock expires, and somebody else takes it.
    let gate = server.gate("release", Pattern::on("EVALSHA"))?;
    let releasing = tokio::spawn(async move { release(&mut slow, "slow").await });
    gate.wait_for_async(1).await?;
    server.advance(Duration::from_millis(30_001));
    assert!(take(&mut next, "next").await?);
    drop(gate);

    assert!(!releasing.await??);
    assert!(release(&mut next, "next").await?);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_eight_tasks_at_once_one_gets_the_lock() -> TestResult {
    let server = Server::builder().spawn()?;
    let gate = server.gate("start", Pattern::on("SET").key("lock:job"))?;
    let tasks: Vec<_> = (0..8)
        .map(|number| {
            let url = server.url();
            tokio::spawn(async move { take(&mut connect(&url).await?, &format!("task {number}")).await })
        })
        .collect();
    // All have sent their command before one of them runs. Other threads run the tasks, so this one may block.
    gate.wait_for(8)?;
    drop(gate);

    let mut winners = 0;
    for task in tasks {
        winners += u32::from(task.await??);
    }
    assert_eq!(winners, 1);
    Ok(())
}

#[tokio::test]
async fn a_lock_library_that_waits_for_its_turn_costs_no_time() -> TestResult {
    let server = Server::builder().spawn()?;
    // The clock jumps to the next deadline whenever every client waits.
    server.auto_advance(None);
    let mut client = connect(&server.url()).await?;
    let nothing: Option<(String, String)> = redis::cmd("BLPOP").arg("queue").arg(3600).query_async(&mut client).await?;
    assert_eq!(nothing, None);
    Ok(())
}

pub fn main() {
    println!("These are tests: cargo test --example tokio_tests");
}
