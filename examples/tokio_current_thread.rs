//! A lock on tokio's runtime with one thread, which `#[tokio::test]` makes: a late release must not take the next holder's
//! lock. What waits for the test's own tasks is `wait_for_async`, because a function that blocks would stop them.
//!
//! `cargo run --example tokio_current_thread`; in a test, `#[tokio::test]` stands in place of `#[tokio::main]`.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redouble::{Pattern, Server};

const RELEASE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end";

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
    redis::cmd("EVAL").arg(RELEASE).arg(1).arg("lock:job").arg(token).query_async(client).await
}

#[tokio::main(flavor = "current_thread")]
pub async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::builder().spawn()?;
    server.freeze();
    let (mut slow, mut next) = (connect(&server.url()).await?, connect(&server.url()).await?);
    assert!(take(&mut slow, "slow").await?);

    let gate = server.gate("release", Pattern::on("EVAL"))?;
    let releasing = tokio::spawn(async move { release(&mut slow, "slow").await });
    gate.wait_for_async(1).await?;
    println!("the release:      has come, and is held before it runs");
    server.advance(Duration::from_millis(30_001));
    assert!(take(&mut next, "next").await?);
    println!("meanwhile:        the lock has expired, and somebody else has it");
    drop(gate);

    assert!(!releasing.await??);
    assert!(release(&mut next, "next").await?);
    println!("the late release: leaves the other one's lock alone");
    Ok(())
}
