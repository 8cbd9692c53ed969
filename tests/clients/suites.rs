//! The suites, a row each.

use super::apt::Archives;

/// The tests of a client library.
pub struct Suite {
    /// The common name, and how it runs where it runs in several ways. `CLIENT=` takes its beginning.
    pub name: &'static str,
    pub version: &'static str,
    pub source: Source,
    /// The number of its tests that redis-server 7.0.15 passes each time. Fewer mean that the suite did not run properly.
    pub passes: usize,
    /// What is left out of it beside what needs a cluster, a sentinel, modules or TLS, with the reason.
    pub leaves_out: &'static [(&'static str, &'static str)],
    /// Its duration in seconds when nothing else runs.
    pub seconds: u64,
}

/// The source of a suite; it also decides how the suite runs and how its output is read.
pub enum Source {
    /// A Python source package, run by pytest.
    Python { package: &'static str, pytest: &'static [&'static str] },
    /// The last package of ioredis that has its tests.
    Ioredis,
    /// The source package of a distribution. It starts servers through `docker`, which is a stand-in here.
    NodeRedis { archives: Archives, package: &'static str, archive: &'static str },
    /// The integration tests of the crate `redis`, which starts servers itself.
    RedisRs { protocol: &'static str },
    /// The test program of hiredis, in the source package of a distribution.
    Hiredis { archives: Archives, package: &'static str, archive: &'static str },
}

const REDIS_PY: &[&str] = &[
    "--redis-url=redis://localhost:6379/9",
    "-m",
    "not onlycluster and not redismod and not ssl and not cp_integration and not multidb_integration and not replica",
    "--ignore=tests/test_cluster.py",
    "--ignore=tests/test_asyncio/test_cluster.py",
    "--ignore=tests/test_sentinel.py",
    "--ignore=tests/test_asyncio/test_sentinel.py",
    // These want servers of a vendor's, or no server.
    "--ignore=tests/maint_notifications",
    "--ignore=tests/test_auth",
    "--ignore=tests/test_http",
    "--ignore=tests/test_multidb",
    "--ignore=tests/test_asyncio/test_multidb",
    "--ignore=tests/test_observability",
    "--ignore=tests/test_asyncio/test_observability",
    "--ignore=tests/test_scenario",
    "--ignore=tests/test_asyncio/test_scenario",
    "--deselect=tests/test_command_parser.py::TestCommandsParser::test_get_moveable_keys",
];

const WITHOUT_MIGRATE: (&str, &str) = ("TestCommandsParser::test_get_moveable_keys", "it looks for MIGRATE in COMMAND");

pub const SUITES: &[Suite] = &[
    Suite {
        name: "redis-py-resp2",
        version: "8.1.0",
        source: Source::Python { package: "redis", pytest: &["--protocol=2"] },
        passes: 2_715,
        leaves_out: &[WITHOUT_MIGRATE],
        seconds: 220,
    },
    Suite {
        name: "redis-py-resp3",
        version: "8.1.0",
        source: Source::Python { package: "redis", pytest: &["--protocol=3"] },
        passes: 2_715,
        leaves_out: &[WITHOUT_MIGRATE],
        seconds: 220,
    },
    Suite {
        name: "fakeredis",
        version: "2.40.0",
        source: Source::Python {
            package: "fakeredis",
            // It runs each test with the real server and with its own; the own ones are left out.
            pytest: &[
                "-m",
                "real or not fake",
                "--ignore=test/test_hypothesis",
                "--ignore=test/test_internals",
                "--ignore=test/test_stack",
                "--ignore=test/test_tcp_server",
                "test",
            ],
        },
        passes: 1_825,
        leaves_out: &[],
        seconds: 200,
    },
    Suite {
        name: "redis-rs-resp2",
        version: "1.8.1",
        source: Source::RedisRs { protocol: "RESP2" },
        passes: 364,
        leaves_out: &[],
        seconds: 120,
    },
    Suite {
        name: "redis-rs-resp3",
        version: "1.8.1",
        source: Source::RedisRs { protocol: "RESP3" },
        passes: 364,
        leaves_out: &[],
        seconds: 120,
    },
    Suite {
        name: "node-redis",
        version: "4.6.14",
        source: Source::NodeRedis {
            archives: Archives::Debian("sid"),
            package: "node-redis",
            archive: "node-redis_4.6.14+~1.1.2.orig.tar.gz",
        },
        passes: 1_120,
        leaves_out: &[],
        seconds: 60,
    },
    Suite {
        name: "ioredis",
        version: "2.4.0",
        source: Source::Ioredis,
        passes: 241,
        leaves_out: &[(CONNECTS_OUTSIDE, "it connects to an address outside this machine")],
        seconds: 20,
    },
    Suite {
        name: "hiredis",
        version: "1.2.0",
        source: Source::Hiredis {
            archives: Archives::Debian("trixie"),
            package: "hiredis=1.2.0-6",
            archive: "hiredis_1.2.0.orig.tar.gz",
        },
        passes: 166,
        leaves_out: &[("Async connect timeout", "it connects to an address outside this machine")],
        seconds: 10,
    },
];

/// The test of ioredis that is left out.
pub const CONNECTS_OUTSIDE: &str = "close the connection when timeout";

impl Source {
    /// What pytest gets beside the tests to run.
    pub fn common_pytest(package: &str) -> &'static [&'static str] {
        if package == "redis" { REDIS_PY } else { &[] }
    }

    /// Whether the suite starts servers itself, as `redis-server`.
    pub fn starts_servers(&self) -> bool {
        match self {
            Self::NodeRedis { .. } | Self::RedisRs { .. } => true,
            Self::Python { .. } | Self::Ioredis | Self::Hiredis { .. } => false,
        }
    }
}
