//! Client libraries on the Sentinels of redouble itself, beside real ones: the same answers, and no write is lost.

use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use redouble::Server;

use super::packages::{COMMON, folder, once, python};
use super::programs::compare_with_own;
use super::side::finish;
use super::sources::source_package;
use super::support::deployments::SentinelSet;
use super::support::wait_until;
use super::support::wire::Wire;
use super::verdicts::{Verdict, Verdicts};

pub fn redis_py_sees_no_difference_between_own_sentinels_and_real_ones() -> Result<(), String> {
    compare_with_own("redis_py_sentinel")
}

pub fn redis_py_with_asyncio_sees_no_difference_between_own_sentinels_and_real_ones() -> Result<(), String> {
    compare_with_own("redis_py_sentinel_asyncio")
}

pub fn ioredis_sees_no_difference_between_own_sentinels_and_real_ones() -> Result<(), String> {
    compare_with_own("ioredis_sentinel")
}

pub fn node_redis_sees_no_difference_between_own_sentinels_and_real_ones() -> Result<(), String> {
    compare_with_own("node_redis_sentinel")
}

pub fn redis_rs_sees_no_difference_between_own_sentinels_and_real_ones() -> Result<(), String> {
    compare_with_own("redis_rs_sentinel")
}

/// What redis-py's tests call the master.
const SERVICE: &str = "redis-py-test";

/// So many of the tests pass on redis-server 7.0.15, at least; some of the others want a master at port 6379.
const PASSES: usize = 96;

/// redis-py's own tests of its Sentinel client, and of its cache of replies behind Sentinels.
pub fn redis_py_passes_the_same_of_its_own_tests_on_own_sentinels_as_on_real_ones() -> Result<(), String> {
    let set = SentinelSet::start();
    let real: Vec<SocketAddr> = set.sentinels.iter().map(|node| node.address()).collect();
    let real = tested_on(set.nodes[0].address(), &real, "real")?;
    let builder = Server::builder().compat("redis-7.0".parse()?).replicas(2).sentinels(3);
    let master = builder.spawn().map_err(|error| error.to_string())?;
    let own = tested_on(master.address().ok_or("no address")?, &master.sentinels(), "own")?;
    let passed = |verdicts: &Verdicts| verdicts.named(Verdict::Passed).map(str::to_owned).collect::<BTreeSet<_>>();
    if real.passed() < PASSES {
        return Err(format!("{} pass on real Sentinels, and {PASSES} are known to", real.passed()));
    }
    let (real, own) = (passed(&real), passed(&own));
    let missing: Vec<String> = real.difference(&own).cloned().collect();
    if missing.is_empty() { Ok(()) } else { Err(format!("pass on real Sentinels alone: {}", missing.join(", "))) }
}

fn tested_on(master: SocketAddr, sentinels: &[SocketAddr], side: &str) -> Result<Verdicts, String> {
    for sentinel in sentinels {
        let mut wire = Wire::connect(*sentinel);
        wire.ask(&format!("SENTINEL REMOVE {}", SentinelSet::SERVICE));
        let reply = wire.ask(&format!("SENTINEL MONITOR {SERVICE} 127.0.0.1 {} 2", master.port()));
        if reply.is_error() {
            return Err(format!("SENTINEL MONITOR at {sentinel}: {reply:?}"));
        }
    }
    for sentinel in sentinels {
        let mut wire = Wire::connect(*sentinel);
        let mut knows = |kind: &str, count: usize| {
            let known = wire.ask(&format!("SENTINEL {kind} {SERVICE}"));
            !known.is_error() && known.items().len() == count
        };
        wait_until("the Sentinels to find each other", || knows("SENTINELS", sentinels.len() - 1));
        wait_until("the Sentinels to find the replicas", || knows("REPLICAS", 2));
    }
    let program = python(COMMON)?;
    let directory = folder().join("sources").join("clients-redis");
    let wanted = "redis==8.1.0";
    once(&directory, wanted, || source_package(&program, wanted, "redis", &directory))?;
    let logs = folder().join("logs").join("deployments");
    fs::create_dir_all(&logs).map_err(|error| format!("{}: {error}", logs.display()))?;
    let log = logs.join(format!("redis-py-tests-{side}.log"));
    let list = sentinels.iter().map(SocketAddr::to_string).collect::<Vec<_>>().join(",");
    let mut command = Command::new(program);
    command.current_dir(&directory).args(["-m", "pytest", "-q", "-rA", "--tb=short", "--timeout=60"]);
    command.args(["-p", "no:cacheprovider", "--protocol=3", &format!("--master-service={SERVICE}")]);
    command.args([format!("--redis-url=redis://{master}/0"), format!("--sentinels={list}")]);
    for file in ["test_sentinel.py", "test_sentinel_managed_connection.py"] {
        command.args([format!("tests/{file}"), format!("tests/test_asyncio/{file}")]);
    }
    command.arg("tests/test_cache.py").env("PYTHONDONTWRITEBYTECODE", "1");
    finish(command, &log, Duration::from_secs(300))?;
    let output = fs::read(&log).map_err(|error| format!("{}: {error}", log.display()))?;
    Ok(Verdicts::of_pytest(&String::from_utf8_lossy(&output)))
}
