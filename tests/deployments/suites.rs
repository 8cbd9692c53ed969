//! The parts of client libraries' own suites that need a Cluster, directly and through redouble. They run when they are named.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::front::Front;
use super::packages::{Requirements, done, folder, once, python, write};
use super::side::finish;
use super::sources::{Edit, cargo, copy, crate_source, edit, source_package};
use super::support::deployments::{Cluster, free_node_port};
use super::verdicts::Verdicts;

pub struct Suite {
    pub name: &'static str,
    pub version: &'static str,
    pub source: Source,
    /// So many of its tests pass directly on redis-server 7.0.15, at least. Fewer mean that the suite did not run properly.
    pub passes: usize,
}

pub enum Source {
    /// The tests of redis-py with the mark `onlycluster`, with a protocol.
    RedisPy { protocol: &'static str },
    /// The cluster tests of the crate `redis`, with a protocol. They start Clusters of their own.
    RedisRs { protocol: &'static str },
}

pub const SUITES: &[Suite] = &[
    Suite { name: "suite_redis_py_resp2", version: "8.1.0", source: Source::RedisPy { protocol: "2" }, passes: 520 },
    Suite { name: "suite_redis_py_resp3", version: "8.1.0", source: Source::RedisPy { protocol: "3" }, passes: 520 },
    Suite {
        name: "suite_redis_rs_resp2",
        version: "1.8.1",
        source: Source::RedisRs { protocol: "RESP2" },
        passes: 128,
    },
    Suite {
        name: "suite_redis_rs_resp3",
        version: "1.8.1",
        source: Source::RedisRs { protocol: "RESP3" },
        passes: 128,
    },
];

/// The longest time that a suite may take.
const LONGEST: Duration = Duration::from_secs(1_800);

const PYTHON: Requirements = Requirements { name: "clients", text: include_str!("../clients/python/requirements.txt") };

/// The package lacks a crate of its workspace, and the crate that starts Clusters gets something to put in front of them.
const REDIS_RS_EDITS: &[Edit] = &[
    Edit {
        file: "Cargo.toml",
        from: "[dev-dependencies.tempfile]",
        until: "\n",
        with: "[patch.crates-io.redis]\npath = \".\"\n\n[workspace]\n\n[dev-dependencies.redis-test]\npath = \"redis-test\"\n\n\
               [dev-dependencies.test_macros]\npath = \"test_macros\"\n\n[dev-dependencies.tempfile]",
    },
    // The published crate has no such setting yet; its tests are for Valkey 9.
    Edit {
        file: "tests/test_cluster.rs",
        from: "                cluster_databases: Some(16),\n",
        until: " ",
        with: "",
    },
    Edit {
        file: "tests/test_cluster_async.rs",
        from: "                cluster_databases: Some(16),\n",
        until: " ",
        with: "",
    },
    Edit {
        file: "redis-test/src/cluster.rs",
        from: "        wait_for_status_ok(&cluster);\n        cluster\n    }\n",
        until: "\n    fn wait_for_replicas",
        with: "        wait_for_status_ok(&cluster);\n        let mut cluster = cluster;\n        \
               cluster.front = put_in_front(&mut cluster.servers);\n        cluster\n    }\n",
    },
    Edit {
        file: "redis-test/src/cluster.rs",
        from: "    pub servers: Vec<RedisServer>,\n",
        until: "    pub folders",
        with: "    pub servers: Vec<RedisServer>,\n    front: Option<process::Child>,\n",
    },
    Edit {
        file: "redis-test/src/cluster.rs",
        from: "        let cluster = RedisCluster {\n            servers,\n",
        until: "            folders",
        with: "        let cluster = RedisCluster {\n            servers,\n            front: None,\n",
    },
    Edit {
        file: "redis-test/src/cluster.rs",
        from: "        self.stop()\n",
        until: "    }",
        with: "        self.stop();\n        if let Some(mut front) = self.front.take() {\n            let _ = front.kill();\n            \
               let _ = front.wait();\n        }\n",
    },
];

const IN_FRONT: &str = include_str!("redis_rs_suite/in_front.rs");

const TEST_MACROS: [&str; 2] =
    [include_str!("../clients/redis_rs/test_macros.toml"), include_str!("../clients/redis_rs/test_macros.rs")];

/// Runs a suite directly or through redouble.
pub fn run(suite: &Suite, through: bool) -> Result<(Verdicts, PathBuf), String> {
    let side = if through { "through" } else { "direct" };
    let logs = folder().join("logs").join("deployments");
    fs::create_dir_all(&logs).map_err(|error| format!("{}: {error}", logs.display()))?;
    let log = logs.join(format!("{}-{side}.log", suite.name));
    let verdicts: fn(&str) -> Verdicts = match suite.source {
        Source::RedisPy { protocol } => {
            redis_py(suite, protocol, through, &log)?;
            Verdicts::of_pytest
        }
        Source::RedisRs { protocol } => {
            redis_rs(suite, protocol, through, &log)?;
            Verdicts::of_libtest
        }
    };
    let output = fs::read(&log).map_err(|error| format!("{}: {error}", log.display()))?;
    let verdicts = verdicts(&String::from_utf8_lossy(&output));
    if verdicts.count() == 0 {
        return Err(format!("it ran no test; see {}", log.display()));
    }
    Ok((verdicts, log))
}

fn redis_py(suite: &Suite, protocol: &str, through: bool, log: &Path) -> Result<(), String> {
    let program = python(PYTHON)?;
    let wanted = format!("redis=={}", suite.version);
    let directory = folder().join("sources").join("clients-redis");
    once(&directory, &wanted, || source_package(&program, &wanted, "redis", &directory))?;
    let cluster = Cluster::start(3, 1);
    // A test of theirs expects the nodes at ports in a row.
    let ports = ports_in_a_row(cluster.nodes.len());
    let arguments = ["--port", &ports[0].to_string(), "--port-range", &format!("{}-{}", ports[1], ports[5])];
    let front = through.then(|| Front::of_cluster(&cluster.nodes[0].address().to_string(), &arguments));
    let address = front.as_ref().map_or(cluster.nodes[0].address(), Front::address);
    let mut command = Command::new(program);
    command.current_dir(&directory).args([
        "-m",
        "pytest",
        "-q",
        "-rA",
        "--tb=short",
        "--timeout=60",
        "-p",
        "no:cacheprovider",
    ]);
    command.arg(format!("--redis-url=redis://localhost:{}/0", address.port())).arg(format!("--protocol={protocol}"));
    command.args(["-m", "onlycluster and not redismod and not ssl and not cp_integration and not multidb_integration"]);
    for part in ["maint_notifications", "test_auth", "test_http", "test_multidb", "test_scenario", "test_observability"]
    {
        command.arg(format!("--ignore=tests/{part}")).arg(format!("--ignore=tests/test_asyncio/{part}"));
    }
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    let finished = finish(command, log, LONGEST);
    if let Some(front) = &front {
        fs::write(log.with_extension("redouble.log"), front.log()).map_err(|error| error.to_string())?;
    }
    finished
}

fn ports_in_a_row(count: usize) -> Vec<u16> {
    loop {
        let ports: Vec<u16> = (0..count).map(|_| free_node_port()).collect();
        if ports.windows(2).all(|pair| pair[0] + 1 == pair[1]) {
            return ports;
        }
    }
}

fn redis_rs(suite: &Suite, protocol: &str, through: bool, log: &Path) -> Result<(), String> {
    let directory = folder().join("sources").join("redis-rs-clusters");
    let made_from = format!("{} {REDIS_RS_EDITS:?} {IN_FRONT} {TEST_MACROS:?}", suite.version);
    once(&directory, &made_from, || {
        copy(&crate_source("redis", suite.version)?, &directory)?;
        let helper = directory.join("redis-test");
        copy(&crate_source("redis-test", "1.0.4")?, &helper)?;
        edit(&directory, REDIS_RS_EDITS)?;
        let clusters = helper.join("src/cluster.rs");
        let text = fs::read_to_string(&clusters).map_err(|error| format!("{}: {error}", clusters.display()))?;
        write(&clusters, &(text + IN_FRONT))?;
        let macros = directory.join("test_macros/src");
        fs::create_dir_all(&macros).map_err(|error| format!("{}: {error}", macros.display()))?;
        write(&directory.join("test_macros/Cargo.toml"), TEST_MACROS[0])?;
        write(&macros.join("lib.rs"), TEST_MACROS[1])?;
        let mut build = redis_rs_tests(&directory);
        build.arg("--no-run");
        done(build)
    })?;
    let mut command = redis_rs_tests(&directory);
    command.args(["--offline", "--no-fail-fast"]).env("PROTOCOL", protocol).args(["--", "--test-threads=1"]);
    if through {
        command.env("REDOUBLE_IN_FRONT", env!("CARGO_BIN_EXE_redouble"));
    }
    finish(command, log, LONGEST)
}

fn redis_rs_tests(directory: &Path) -> Command {
    let mut command = Command::new(cargo());
    command.args(["test", "--features", "aio,tokio-comp,connection-manager,cluster,cluster-async,sentinel"]);
    command.current_dir(directory).args(["--test", "test_cluster", "--test", "test_cluster_async"]);
    command.arg("--target-dir").arg(directory.join("target"));
    command.env("CARGO_PROFILE_DEV_DEBUG", "0").env("CARGO_INCREMENTAL", "0");
    command
}
