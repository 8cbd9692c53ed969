//! What rslock does when the reply to its lock command is lost.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use rslock::LockManager;

async fn power(test: &mut MultiplexedConnection, words: &str) {
    let _: redis::Value = redis::cmd("REDOUBLE").arg(words.split(' ').collect::<Vec<_>>()).query_async(test).await.unwrap();
}

#[tokio::main]
async fn main() {
    let url = std::env::var("REDIS_URL").unwrap();
    let client = redis::Client::open(url.as_str()).unwrap();
    let mut test = client.get_multiplexed_async_connection().await.unwrap();
    for verdict in ["close-before", "close-after"] {
        redis::cmd("FLUSHALL").exec_async(&mut test).await.unwrap();
        let manager = LockManager::new(vec![url.clone()]);
        power(&mut test, &format!("FAULT ADD f on SET,EVAL,EVALSHA key lock times 1 {verdict}")).await;
        let said = match manager.lock("lock", Duration::from_secs(30)).await {
            Ok(_) => "gives the lock".to_owned(),
            Err(error) => format!("returns {error:?}"),
        };
        let held: bool = redis::cmd("EXISTS").arg("lock").query_async(&mut test).await.unwrap();
        println!("rslock 0.7.3 | {verdict} | `lock` {said} | {}", if held { "taken" } else { "free" });
        power(&mut test, "FAULT CLEAR").await;
    }
}
