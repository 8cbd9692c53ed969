//! Redlock over five servers: whether a quorum remains when one server is down, one is unreachable for one client, and
//! the clock of one is ahead.
//!
//! `cargo run --example redlock_partition`

use std::time::Duration;

use redouble::{Server, Servers};

const QUORUM: usize = 3;

/// The number of servers on which a client gets the lock. A server that does not answer in time counts as a refusal.
fn votes(servers: &Servers, name: &str) -> usize {
    let vote = |url: String| -> redis::RedisResult<bool> {
        let mut client = redis::Client::open(url)?.get_connection()?;
        client.set_read_timeout(Some(Duration::from_secs(1)))?;
        redis::cmd("CLIENT").arg("SETNAME").arg(name).exec(&mut client)?;
        let taken: Option<String> =
            redis::cmd("SET").arg("lock").arg(name).arg("NX").arg("PX").arg(30_000).query(&mut client)?;
        Ok(taken.is_some())
    };
    servers.urls().into_iter().filter(|url| matches!(vote(url.clone()), Ok(true))).count()
}

fn release(servers: &Servers) -> Result<(), Box<dyn std::error::Error>> {
    for url in servers.urls() {
        if let Ok(mut client) = redis::Client::open(url)?.get_connection() {
            redis::cmd("DEL").arg("lock").exec(&mut client)?;
        }
    }
    Ok(())
}

pub fn main() -> Result<(), Box<dyn std::error::Error>> {
    let servers = Server::builder().instances(5).spawn_all()?;
    servers.iter().for_each(|server| server.freeze());

    assert_eq!(votes(&servers, "alice"), 5);
    assert_eq!(votes(&servers, "bob"), 0);
    println!("all up:                       alice has 5 of 5");
    release(&servers)?;

    servers[0].stop()?;
    servers[1].cut_off("alice")?;
    let (alice, bob) = (votes(&servers, "alice"), votes(&servers, "bob"));
    println!("one down, one cut off:        alice has {alice}, a quorum; bob has {bob}");
    assert!(alice == QUORUM && bob == 1);

    servers.set_ahead(2, Duration::from_secs(31))?;
    let bob = votes(&servers, "bob");
    println!("one clock 31 s ahead:         bob gets {bob} more while alice believes in her quorum");
    assert_eq!(bob, 1);

    servers[0].start_empty()?;
    let bob = 1 + bob + votes(&servers, "bob");
    println!("the one that was down forgot: bob has {bob}, a quorum, too");
    assert_eq!(bob, QUORUM);
    Ok(())
}
