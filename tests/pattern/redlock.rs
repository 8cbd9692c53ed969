//! Redlock over five servers: a lock that a majority grants, that outlives two of them and cannot be had from two.
//!
//! The client is written out here, as the documentation of the algorithm describes it: the crates that implement it bring
//! more than a hundred others along. Their own tests run in `tests/locks`.

use std::time::{Duration, Instant};

use redis::{ErrorKind, RedisResult, ServerErrorKind};

use crate::support::process::ServerProcess;

const RESOURCE: &str = "lock:report";

const TTL: Duration = Duration::from_secs(30);

const RELEASE: &str = r#"
    if redis.call("get", KEYS[1]) == ARGV[1] then
        return redis.call("del", KEYS[1])
    else
        return 0
    end"#;

/// Five servers that know nothing of each other; some may have been stopped.
struct Servers(Vec<Option<ServerProcess>>);

impl Servers {
    fn start() -> Self {
        Self((0..5).map(|_| Some(ServerProcess::redouble(&[]))).collect())
    }

    fn stop(&mut self, which: &[usize]) {
        for &index in which {
            self.0[index] = None;
        }
    }

    /// What each of those that run has under the resource's name.
    fn values(&self) -> Vec<Option<Vec<u8>>> {
        let ask = |server: &ServerProcess| {
            let mut connection = crate::support::client_at(&server.url());
            redis::cmd("GET").arg(RESOURCE).query(&mut connection).expect("GET")
        };
        self.0.iter().flatten().map(ask).collect()
    }
}

/// A client with its own connections to all five, made while all of them ran.
struct Client {
    connections: Vec<redis::Connection>,
    /// The name of [`RELEASE`].
    sha: String,
    token: Vec<u8>,
}

impl Client {
    /// Tokens are bytes, as with most clients: zeros, line ends and all.
    fn new(servers: &Servers, token: &[u8]) -> Self {
        let connect = |server: &ServerProcess| crate::support::client_at(&server.url());
        let mut connections: Vec<_> = servers.0.iter().flatten().map(connect).collect();
        // Only the first learns the script; at the others EVALSHA has to fall back.
        let sha = redis::cmd("SCRIPT").arg("LOAD").arg(RELEASE).query(&mut connections[0]).expect("SCRIPT LOAD");
        Self { connections, sha, token: token.to_vec() }
    }

    /// Asks every server, and has the lock if most of them granted it and time is left. Otherwise leaves nothing behind.
    #[allow(clippy::disallowed_methods, reason = "how long asking took is part of the algorithm")]
    fn acquire(&mut self) -> Option<Duration> {
        let start = Instant::now();
        let majority = self.connections.len() / 2 + 1;
        let granted = self.connections.iter_mut().filter_map(|connection| {
            let mut command = redis::cmd("SET");
            command.arg(RESOURCE).arg(&self.token).arg("NX").arg("PX").arg(TTL.as_millis() as u64);
            command.query::<Option<String>>(connection).ok().flatten()
        });
        let granted = granted.count();
        let drift = TTL / 100 + Duration::from_millis(2);
        let validity = TTL.checked_sub(start.elapsed() + drift);
        if granted >= majority && validity.is_some() {
            return validity;
        }
        self.release();
        None
    }

    /// Releases on all servers, also on those that did not grant the lock; says how many had it.
    fn release(&mut self) -> usize {
        let (sha, token) = (&self.sha, &self.token);
        let replies = self.connections.iter_mut().map(|connection| release_at(connection, sha, token));
        replies.filter(|reply| matches!(reply, Ok(1))).count()
    }
}

fn release_at(connection: &mut redis::Connection, sha: &str, token: &[u8]) -> RedisResult<i64> {
    let by_name = redis::cmd("EVALSHA").arg(sha).arg(1).arg(RESOURCE).arg(token).query(connection);
    match by_name {
        Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
            redis::cmd("EVAL").arg(RELEASE).arg(1).arg(RESOURCE).arg(token).query(connection)
        }
        other => other,
    }
}

const ALICE: &[u8] = b"alice\0\r\n\xff";
const BOB: &[u8] = b"bob\0\r\n\xfe";

#[test]
fn a_majority_grants_the_lock_and_all_release_it() {
    let servers = Servers::start();
    let (mut alice, mut bob) = (Client::new(&servers, ALICE), Client::new(&servers, BOB));

    let validity = alice.acquire().expect("nobody has the lock");
    assert!(validity > TTL / 2 && validity < TTL, "{validity:?}");
    assert_eq!(servers.values(), vec![Some(ALICE.to_vec()); 5]);

    assert_eq!(bob.acquire(), None, "alice has the lock");
    assert_eq!(bob.release(), 0, "what bob did not take he cannot release");
    assert_eq!(servers.values(), vec![Some(ALICE.to_vec()); 5]);

    assert_eq!(alice.release(), 5);
    assert_eq!(servers.values(), vec![None; 5]);
    assert!(bob.acquire().is_some(), "it is free again");
    assert_eq!(alice.release(), 0, "the lock is bob's now");
    assert_eq!(servers.values(), vec![Some(BOB.to_vec()); 5]);
}

#[test]
fn the_lock_outlives_two_of_five_servers() {
    let mut servers = Servers::start();
    let (mut alice, mut bob) = (Client::new(&servers, ALICE), Client::new(&servers, BOB));

    assert!(alice.acquire().is_some());
    servers.stop(&[1, 3]);
    assert_eq!(bob.acquire(), None, "three servers still say that alice has it");
    assert_eq!(alice.release(), 3);
    assert_eq!(servers.values(), vec![None; 3]);

    assert!(bob.acquire().is_some(), "three of five are a majority");
    assert_eq!(alice.acquire(), None);
    assert_eq!(bob.release(), 3);
    assert_eq!(servers.values(), vec![None; 3]);
}

#[test]
fn two_of_five_servers_cannot_grant_the_lock() {
    let mut servers = Servers::start();
    let (mut alice, mut bob) = (Client::new(&servers, ALICE), Client::new(&servers, BOB));

    servers.stop(&[0, 2, 4]);
    assert_eq!(alice.acquire(), None, "two are no majority");
    assert_eq!(servers.values(), vec![None; 2], "who fails to get the lock gives back what was granted");
    assert_eq!(bob.acquire(), None);
    assert_eq!(servers.values(), vec![None; 2]);
}

#[test]
fn a_lock_that_is_held_stays_held_when_three_servers_stop() {
    let mut servers = Servers::start();
    let (mut alice, mut bob) = (Client::new(&servers, ALICE), Client::new(&servers, BOB));

    assert!(alice.acquire().is_some());
    servers.stop(&[0, 1, 2]);
    assert_eq!(bob.acquire(), None, "nobody gets it any more");
    assert_eq!(servers.values(), vec![Some(ALICE.to_vec()); 2], "bob's giving back does not touch what alice holds");
    assert_eq!(alice.release(), 2);
    assert_eq!(servers.values(), vec![None; 2]);
}
