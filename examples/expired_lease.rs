//! A lock expires exactly on time: it exists in its last millisecond and is gone in the next. Its late holder must not
//! release the next holder's lock. The clock is moved, so nothing sleeps.
//!
//! `cargo run --example expired_lease`

use std::time::Duration;

use redouble::Server;

const RELEASE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end";

fn take(client: &mut redis::Connection, token: &str) -> redis::RedisResult<bool> {
    let taken: Option<String> =
        redis::cmd("SET").arg("lock:job").arg(token).arg("NX").arg("PX").arg(30_000).query(client)?;
    Ok(taken.is_some())
}

fn release(client: &mut redis::Connection, token: &str) -> redis::RedisResult<bool> {
    redis::Script::new(RELEASE).key("lock:job").arg(token).invoke(client)
}

pub fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::builder().spawn()?;
    let connect = || redis::Client::open(server.url())?.get_connection();
    let (mut slow, mut next) = (connect()?, connect()?);

    server.freeze();
    assert!(take(&mut slow, "slow")?);
    server.advance(Duration::from_secs(30));
    assert!(!take(&mut next, "next")?);
    println!("after 30 s:      the lock is still held, in its last millisecond");

    server.advance(Duration::from_millis(1));
    assert!(take(&mut next, "next")?);
    println!("1 ms later:      it is gone, and the next client has it");

    assert!(!release(&mut slow, "slow")?);
    assert!(release(&mut next, "next")?);
    println!("the slow client: cannot release what is no longer its own");
    Ok(())
}
