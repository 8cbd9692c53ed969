//! A lock on tokio's runtime with several threads: of eight tasks that try at once, one gets it. Other threads run the tasks,
//! so the test may block.
//!
//! `cargo run --example tokio_multi_thread`; in a test, `#[tokio::test(flavor = "multi_thread")]` stands in place of
//! `#[tokio::main]`.

use redouble::{Pattern, Server};

const TASKS: usize = 8;

/// Takes the lock for 30 seconds, or does not.
async fn take(url: String, token: String) -> redis::RedisResult<bool> {
    let mut client = redis::Client::open(url)?.get_multiplexed_async_connection().await?;
    let taken: Option<String> =
        redis::cmd("SET").arg("lock:job").arg(token).arg("NX").arg("PX").arg(30_000).query_async(&mut client).await?;
    Ok(taken.is_some())
}

#[tokio::main(flavor = "multi_thread", worker_threads = 4)]
pub async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::builder().spawn()?;
    let gate = server.gate("start", Pattern::on("SET").key("lock:job"))?;
    let tasks: Vec<_> = (0..TASKS).map(|number| tokio::spawn(take(server.url(), format!("task {number}")))).collect();
    gate.wait_for(TASKS)?;
    println!("{TASKS} tasks have sent their command, and none has run");
    drop(gate);

    let mut winners = 0;
    for task in tasks {
        winners += usize::from(task.await??);
    }
    println!("{winners} of them has the lock");
    assert_eq!(winners, 1);
    Ok(())
}
