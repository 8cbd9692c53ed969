//! The documented race of SETNX locks: two clients see an expired lock, both delete and take it, and both believe that
//! they hold it. The steps are played in a fixed order, so the race happens every time. With GETSET, as the
//! documentation advises, only one client gets the lock.
//!
//! `cargo run --example deadlock_race`

use std::thread;

use redouble::{Pattern, Server};

const NOW: u64 = 1_700_000_000;

/// Takes over an expired lock. Returns whether the client believes that it holds it.
type TakeOver = fn(&mut redis::Connection) -> redis::RedisResult<bool>;

fn with_del_and_setnx(client: &mut redis::Connection) -> redis::RedisResult<bool> {
    let expires: u64 = redis::cmd("GET").arg("lock.foo").query(client)?;
    if expires >= NOW {
        return Ok(false);
    }
    redis::cmd("DEL").arg("lock.foo").exec(client)?;
    redis::cmd("SETNX").arg("lock.foo").arg(NOW + 60).query(client)
}

fn with_getset(client: &mut redis::Connection) -> redis::RedisResult<bool> {
    let expires: u64 = redis::cmd("GET").arg("lock.foo").query(client)?;
    if expires >= NOW {
        return Ok(false);
    }
    let before: u64 = redis::cmd("GETSET").arg("lock.foo").arg(NOW + 60).query(client)?;
    Ok(before < NOW)
}

/// The clients that believe to hold the lock, when both saw that it had expired and then ran one after the other.
fn holders(take_over: TakeOver, command: &str) -> Result<Vec<&'static str>, Box<dyn std::error::Error>> {
    let server = Server::builder().spawn()?;
    let mut test = redis::Client::open(server.url())?.get_connection()?;
    redis::cmd("SET").arg("lock.foo").arg(NOW - 1).exec(&mut test)?;

    let mut racers = Vec::new();
    for name in ["C1", "C2"] {
        let gate = server.gate(name, Pattern::on(command).client(name))?;
        let mut client = redis::Client::open(server.url())?.get_connection()?;
        redis::cmd("CLIENT").arg("SETNAME").arg(name).exec(&mut client)?;
        let thread = thread::spawn(move || take_over(&mut client));
        gate.wait_for(1)?;
        racers.push((name, gate, thread));
    }
    let mut holders = Vec::new();
    for (name, gate, thread) in racers {
        gate.open();
        if thread.join().expect("the racer ends")? {
            holders.push(name);
        }
    }
    Ok(holders)
}

pub fn main() -> Result<(), Box<dyn std::error::Error>> {
    let with_del = holders(with_del_and_setnx, "DEL")?;
    println!("DEL and SETNX: {} hold the lock", with_del.join(" and "));
    assert_eq!(with_del, ["C1", "C2"]);

    let with_getset = holders(with_getset, "GETSET")?;
    println!("GETSET:        {} holds the lock", with_getset.join(" and "));
    assert_eq!(with_getset, ["C1"]);
    Ok(())
}
