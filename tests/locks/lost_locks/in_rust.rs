//! What the crates that take locks do when a failover loses a lock. `python_locks.py` says how.

use std::collections::{BTreeSet, HashMap};

/// A library with a client of it. Each step says what its caller sees.
trait Steps {
    fn new(addresses: &[String]) -> Self;
    fn take(&mut self) -> String;
    fn extend(&mut self) -> String;
    fn release(&mut self) -> String;
}

fn list(name: &str) -> Vec<String> {
    std::env::var(name).unwrap().split(',').map(str::to_owned).collect()
}

fn connect(url: &str) -> redis::Connection {
    redis::Client::open(url).unwrap().get_connection().unwrap()
}

fn power<T: redis::FromRedisValue>(test: &mut redis::Connection, words: &str) -> T {
    redis::cmd("REDOUBLE").arg(words.split(' ').collect::<Vec<_>>()).query(test).unwrap()
}

/// What the masters have under a key. Three servers that disagree have what most of them have.
fn value(addresses: &[String], key: &str) -> Option<Vec<u8>> {
    let get = |url: &String| redis::cmd("GET").arg(key).query(&mut connect(url)).unwrap();
    let found: Vec<Option<Vec<u8>>> = addresses.iter().map(get).collect();
    let most = found.iter().find(|value| value.is_some() && found.iter().filter(|other| other == value).count() > 1);
    most.unwrap_or(&found[0]).clone()
}

fn trial<L: Steps>(library: &str, key: &str, masters: usize) {
    let urls = list("REDIS_URLS");
    let [of_a, of_b] = ["REDIS_ENDPOINTS_OF_A", "REDIS_ENDPOINTS_OF_B"].map(list);
    for url in &urls {
        power::<redis::Value>(&mut connect(url), "RESET");
    }
    // The second master, because the first one dies.
    let mut test = connect(&urls[1]);
    power::<redis::Value>(&mut test, "AUDIT CLEAR");
    power::<redis::Value>(&mut test, "LINK 1 HOLD");
    let mut first = L::new(&of_a[..masters]);
    let taken = first.take();
    let value_of_a = value(&of_b, key);
    power::<redis::Value>(&mut test, "INSTANCE STOP 1");
    power::<redis::Value>(&mut test, "FAILOVER 1");
    let mut second = L::new(&of_b[..masters]);
    let taken_again = second.take();
    let value_of_b = value(&of_b, key);
    let extended = first.extend();
    let released = first.release();
    let state = match value(&of_b, key) {
        None => "free",
        left if left == value_of_b && left != value_of_a => "b's",
        left if left == value_of_a => "a's",
        Some(_) => "another",
    };
    let findings: Vec<HashMap<String, redis::Value>> = power(&mut test, "AUDIT LIST SEVERITY ERROR");
    let codes = findings.iter().map(|finding| redis::from_redis_value::<String>(&finding["code"]).unwrap());
    let codes: BTreeSet<String> = codes.collect();
    let codes = if codes.is_empty() { "nothing".to_owned() } else { codes.into_iter().collect::<Vec<_>>().join(", ") };
    power::<redis::Value>(&mut test, "INSTANCE START 1");
    println!("{library} | {masters} | {taken} | {taken_again} | {extended} | {released} | {state} | {codes}");
}
