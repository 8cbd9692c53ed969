use std::time::Duration;

use redis::{AsyncTypedCommands, Client, ExistenceCheck::NX, SetExpiry, SetOptions};
use redouble::{Fault, Pattern, Server, Verdict};

/// Your code: takes the lock for 30 seconds, or does not.
async fn acquire(url: &str, token: &str) -> redis::RedisResult<bool> {
    let mut connection = Client::open(url)?.get_multiplexed_async_connection().await?;
    let options = SetOptions::default().conditional_set(NX).with_expiration(SetExpiry::PX(30_000));
    Ok(connection.set_options("lock:tea", token, options).await?.is_some())
}

#[tokio::test]
async fn the_lock_expires_while_its_holder_works() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::builder().spawn()?; // in this process, on a free port; gone when it is dropped
    assert!(acquire(&server.url(), "mine").await?);
    server.advance(Duration::from_millis(30_001)); // at once
    assert!(acquire(&server.url(), "theirs").await?);
    Ok(())
}

#[tokio::test]
async fn the_lock_is_taken_and_the_reply_is_lost() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::builder().spawn()?;
    let lost = server.fault(Fault::new("lost", Verdict::CloseAfter).of(Pattern::on("SET").key("lock:tea")).times(1))?;
    assert!(acquire(&server.url(), "mine").await.is_err());
    assert_eq!(lost.fired(), 1);
    assert!(!acquire(&server.url(), "mine").await?); // it holds the lock, and does not know
    Ok(())
}

#[tokio::test]
async fn a_second_client_comes_while_the_first_is_about_to_release() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::builder().spawn()?;
    let url = server.url();
    assert!(acquire(&url, "mine").await?);
    let gate = server.gate("release", Pattern::on("DEL"))?;
    let mut connection = Client::open(url.as_str())?.get_multiplexed_async_connection().await?;
    let release = tokio::spawn(async move { connection.del("lock:tea").await });
    gate.wait_for_async(1).await?; // the DEL has come, and is held; `wait_for` would block the task that sends it
    server.advance(Duration::from_millis(30_001));
    assert!(acquire(&url, "theirs").await?);
    gate.open();
    assert_eq!(release.await??, 1); // it has deleted the other one's lock
    Ok(())
}
