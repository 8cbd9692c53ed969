//! The programs of the crate `redis`: this binary runs them as processes of their own, which print what `programs/common.py`
//! describes.

use std::io::{BufRead, stdin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redis::cluster::ClusterClientBuilder;
use redis::cluster_read_routing::RandomReplicaStrategy;
use redis::cluster_routing::{RoutingInfo, SingleNodeRoutingInfo};
use redis::sentinel::{SentinelClient, SentinelNodeConnectionInfo, SentinelServerType};
use redis::{
    Cmd, ConnectionLike, FromRedisValue, ProtocolVersion, PushKind, RedisError, RedisResult, Script, Value, cmd,
};

const WORKERS: usize = 4;
const KEYS: usize = 97;

const RELEASE: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

/// Runs a program by its name.
pub fn run(name: &str) -> Result<(), RedisError> {
    match name {
        "redis_rs_cluster" => cluster(),
        "redis_rs_cluster_async" => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(cluster_async())
        }
        "redis_rs_sentinel" => sentinel(),
        _ => panic!("no program is called {name}"),
    }
}

fn addresses(name: &str) -> Vec<String> {
    let list = std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set"));
    list.split(',').map(|address| format!("redis://{address}")).collect()
}

fn protocol() -> ProtocolVersion {
    if std::env::var("PROTOCOL").is_ok_and(|version| version == "3") {
        ProtocolVersion::RESP3
    } else {
        ProtocolVersion::RESP2
    }
}

fn cluster_builder() -> ClusterClientBuilder {
    let nodes: Vec<String> = addresses("REDIS_CLUSTER_NODES").into_iter().take(2).collect();
    ClusterClientBuilder::new(nodes).use_protocol(protocol()).response_timeout(Duration::from_secs(20)).retries(16)
}

fn show<T: std::fmt::Debug>(name: &str, result: RedisResult<T>) {
    match result {
        Ok(value) => println!("{name}: {value:?}"),
        Err(error) => println!("{name}: {:?} {error}", error.kind()),
    }
}

fn words(line: &str) -> Cmd {
    let mut words = line.split_whitespace();
    let mut command = cmd(words.next().expect("a command"));
    words.for_each(|word| {
        command.arg(word);
    });
    command
}

/// Sends a command, given as words between blanks.
fn ask<T: FromRedisValue>(connection: &mut impl ConnectionLike, line: &str) -> RedisResult<T> {
    words(line).query(connection)
}

/// What all programs do that do not wait.
fn operations(connection: &mut impl ConnectionLike) {
    for number in 0..50 {
        ask::<()>(connection, &format!("SET key:{number} {number}")).expect("SET");
    }
    show("get", (0..50).map(|number| ask(connection, &format!("GET key:{number}"))).collect::<RedisResult<Vec<u64>>>());
    show("incr", ask::<i64>(connection, "INCRBY counter 42"));
    show("append", ask::<i64>(connection, "APPEND text abc"));
    show("hash", ask::<i64>(connection, "HSET hash a 1"));
    show("fields", ask::<Value>(connection, "HGETALL hash"));
    show("wrong type", ask::<Value>(connection, "LPUSH hash 1"));
    let mut transaction = redis::pipe();
    transaction
        .atomic()
        .cmd("SET")
        .arg("{tag}a")
        .arg(1)
        .cmd("INCR")
        .arg("{tag}a")
        .cmd("LRANGE")
        .arg("{tag}n")
        .arg(0)
        .arg(-1);
    show("transaction", transaction.query::<Value>(connection));
    let mut failing = redis::pipe();
    failing.atomic().cmd("SET").arg("{tag}b").arg("x").cmd("INCR").arg("{tag}b");
    show("failing transaction", failing.query::<Value>(connection));
    let mut pipeline = redis::pipe();
    for number in 0..200 {
        pipeline.cmd("SET").arg(format!("pipe:{number}")).arg(number).ignore().cmd("GET").arg(format!("pipe:{number}"));
    }
    show("pipeline", pipeline.query::<Vec<u64>>(connection));
    let read = Script::new("return {KEYS[1], ARGV[1], redis.call('GET', KEYS[1])}");
    show("eval", read.key("counter").arg("x").invoke::<Value>(connection));
    show("script", Script::new("return redis.call('INCRBY', KEYS[1], 7)").key("scripted").invoke::<i64>(connection));
    show("nothing to pop", ask::<Value>(connection, "BLPOP queue 0.1"));
    show("push", ask::<i64>(connection, "RPUSH queue element"));
    show("pop", ask::<Value>(connection, "BLPOP queue 10"));
    show("lock", ask::<Value>(connection, "SET lock token NX PX 30000"));
    show("other lock", ask::<Value>(connection, "SET lock other NX PX 30000"));
    let release = Script::new(RELEASE);
    show("other release", release.key("lock").arg("other").invoke::<i64>(connection));
    show("release", release.key("lock").arg("token").invoke::<i64>(connection));
    show("wait", ask::<Value>(connection, "WAIT 0 100").map(|_| ()));
}

fn read_again(connection: &mut impl ConnectionLike) {
    show("get", (0..50).map(|number| ask(connection, &format!("GET key:{number}"))).collect::<RedisResult<Vec<u64>>>());
    show("values", ask::<i64>(connection, "GET counter"));
    show("fields", ask::<Value>(connection, "HGETALL hash"));
}

/// Whether all addresses in a reply to CLUSTER SLOTS are those that the program was given; how many slots they serve.
fn slots_known(reply: &Value) -> (i64, bool) {
    let known = addresses("REDIS_CLUSTER_NODES");
    let (mut slots, mut are_known) = (0, true);
    let Value::Array(ranges) = reply else { return (0, false) };
    for range in ranges {
        let Value::Array(parts) = range else { return (0, false) };
        let (Value::Int(first), Value::Int(last)) = (&parts[0], &parts[1]) else { return (0, false) };
        slots += last - first + 1;
        for server in &parts[2..] {
            let Value::Array(server) = server else { return (0, false) };
            let (host, port): (String, u16) = (
                redis::from_redis_value(server[0].clone()).unwrap_or_default(),
                redis::from_redis_value(server[1].clone()).unwrap_or_default(),
            );
            are_known &= known.contains(&format!("redis://{host}:{port}"));
        }
    }
    (slots, are_known)
}

/// Runs workers, each with what `connect` returns, until a line comes in. A worker that fails calls `connect` again.
fn load<C: ConnectionLike>(connect: impl Fn() -> RedisResult<C> + Sync) {
    println!("-- load");
    let is_over = AtomicBool::new(false);
    let work = |worker: usize| {
        let (mut number, mut unknown) = (0, Vec::new());
        let mut connection = connect().expect("a connection at the start");
        while !is_over.load(Ordering::Relaxed) {
            number += 1;
            let key = format!("w{worker}:{}", number % KEYS);
            let written = ask::<i64>(&mut connection, &format!("RPUSH {key} {number}"))
                .and_then(|_| ask::<i64>(&mut connection, &format!("INCR n{key}")));
            if let Err(error) = written {
                unknown.push(number.to_string());
                eprintln!("error {worker} {number} {:?} {error}", error.kind());
                std::thread::park_timeout(Duration::from_millis(50));
                if let Ok(another) = connect() {
                    connection = another;
                }
            }
            if number % 200 == 0 {
                println!(".");
            }
            std::thread::park_timeout(Duration::from_millis(1));
        }
        (number, unknown)
    };
    let written: Vec<(usize, Vec<String>)> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS).map(|worker| scope.spawn(move || work(worker))).collect();
        stdin().lock().read_line(&mut String::new()).expect("a line");
        is_over.store(true, Ordering::Relaxed);
        workers.into_iter().map(|worker| worker.join().expect("a worker")).collect()
    });
    print_written(&written);
}

fn print_written(written: &[(usize, Vec<String>)]) {
    for (worker, (last, unknown)) in written.iter().enumerate() {
        println!("worker {worker} {last} unknown {}", unknown.join(" "));
    }
    println!("-- after");
}

fn cluster() -> RedisResult<()> {
    let client = cluster_builder().build()?;
    let mut connection = client.get_connection()?;
    operations(&mut connection);
    show("cross-slot", ask::<Value>(&mut connection, "MSET a 1 b 2"));
    let any = RoutingInfo::SingleNode(SingleNodeRoutingInfo::Random);
    show("slots known", connection.route_command(&words("CLUSTER SLOTS"), any).map(|reply| slots_known(&reply)));
    let replicas = cluster_builder().read_routing_strategy(RandomReplicaStrategy).build()?;
    let mut reader = replicas.get_connection()?;
    show("replicas", ask::<i64>(&mut reader, "GET counter"));
    load(|| client.get_connection());
    read_again(&mut connection);
    Ok(())
}

fn sentinel() -> RedisResult<()> {
    let of = |server_type| {
        let about = redis::RedisConnectionInfo::default().set_protocol(protocol());
        let node = SentinelNodeConnectionInfo::default().set_redis_connection_info(about);
        let service = std::env::var("REDIS_SENTINEL_SERVICE").expect("a service");
        SentinelClient::build(addresses("REDIS_SENTINELS"), service, Some(node), server_type)
    };
    let mut connection = of(SentinelServerType::Master)?.get_connection()?;
    operations(&mut connection);
    show("wait", ask::<i64>(&mut connection, "WAIT 2 10000"));
    let mut replica = of(SentinelServerType::Replica)?.get_connection()?;
    show("replica", ask::<i64>(&mut replica, "GET counter"));
    show("write to a replica", ask::<Value>(&mut replica, "SET a 1"));
    load(|| of(SentinelServerType::Master)?.get_connection());
    read_again(&mut of(SentinelServerType::Master)?.get_connection()?);
    Ok(())
}

async fn cluster_async() -> RedisResult<()> {
    let (sender, mut pushes) = tokio::sync::mpsc::unbounded_channel();
    let client = cluster_builder().push_sender(sender).build()?;
    let mut connection = client.get_async_connection().await?;
    for number in 0..50 {
        words(&format!("SET key:{number} {number}")).exec_async(&mut connection).await?;
    }
    let (reader, another) = (connection.clone(), connection.clone());
    let get = |number: usize| {
        let mut reader = reader.clone();
        async move { words(&format!("GET key:{number}")).query_async::<usize>(&mut reader).await }
    };
    for number in 0..50 {
        show("get", get(number).await);
    }
    let both = tokio::join!(get(1), get(2));
    show("both", both.0.and_then(|first| Ok((first, both.1?))));
    let commands = [
        "INCRBY counter 42",
        "APPEND text abc",
        "HSET hash a 1",
        "HGETALL hash",
        "LPUSH hash 1",
        "MSET {tag}m 1 {tag}n 2",
        "MGET {tag}m {tag}n",
        "SET lock token NX PX 30000",
        "SET lock other NX PX 30000",
        "BLPOP queue 0.1",
    ];
    for line in commands {
        show(line, words(line).query_async::<Value>(&mut connection).await);
    }
    for token in ["other", "token"] {
        show("release", Script::new(RELEASE).key("lock").arg(token).invoke_async::<i64>(&mut connection).await);
    }
    let mut transaction = redis::pipe();
    transaction.atomic().cmd("SET").arg("{tag}a").arg(1).cmd("INCR").arg("{tag}a");
    show("transaction", transaction.query_async::<Value>(&mut connection).await);
    let mut across = redis::pipe();
    across.cmd("GET").arg("key:1").cmd("GET").arg("key:2");
    show("pipeline across", across.query_async::<Value>(&mut connection).await);
    let any = RoutingInfo::SingleNode(SingleNodeRoutingInfo::Random);
    show("cross-slot", connection.route_command(words("MSET a 1 b 2"), any.clone()).await);
    show("slots known", connection.route_command(words("CLUSTER SLOTS"), any).await.map(|reply| slots_known(&reply)));
    for (subscribe, publish) in [("SUBSCRIBE news", "PUBLISH news hello"), ("SSUBSCRIBE shard", "SPUBLISH shard hello")]
    {
        show(subscribe, words(subscribe).query_async::<()>(&mut connection).await);
        // How many heard it depends on the node that was asked.
        show(publish, words(publish).query_async::<i64>(&mut connection).await.map(|_| ()));
        while let Some(push) = pushes.recv().await {
            if matches!(push.kind, PushKind::Message | PushKind::SMessage) {
                println!("push: {:?} {:?}", push.kind, push.data);
                break;
            }
        }
    }
    load_async(another).await;
    for number in 0..50 {
        show("get", get(number).await);
    }
    for line in ["GET counter", "HGETALL hash", "GET {tag}a"] {
        show(line, words(line).query_async::<Value>(&mut connection).await);
    }
    Ok(())
}

/// The load over one connection that all workers share.
async fn load_async(connection: redis::cluster_async::ClusterConnection) {
    println!("-- load");
    let is_over = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&is_over);
    std::thread::spawn(move || {
        stdin().lock().read_line(&mut String::new()).expect("a line");
        flag.store(true, Ordering::Relaxed);
    });
    let mut workers = Vec::new();
    for worker in 0..WORKERS {
        let (mut connection, is_over) = (connection.clone(), Arc::clone(&is_over));
        workers.push(tokio::spawn(async move {
            let (mut number, mut unknown) = (0, Vec::new());
            while !is_over.load(Ordering::Relaxed) {
                number += 1;
                let key = format!("w{worker}:{}", number % KEYS);
                let mut written = words(&format!("RPUSH {key} {number}")).query_async::<i64>(&mut connection).await;
                if written.is_ok() {
                    written = words(&format!("INCR n{key}")).query_async(&mut connection).await;
                }
                if let Err(error) = written {
                    unknown.push(number.to_string());
                    eprintln!("error {worker} {number} {:?} {error}", error.kind());
                }
                if number % 200 == 0 {
                    println!(".");
                }
                tokio::task::yield_now().await;
            }
            (number, unknown)
        }));
    }
    let mut written = Vec::new();
    for worker in workers {
        written.push(worker.await.expect("a worker"));
    }
    print_written(&written);
}
