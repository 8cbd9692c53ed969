//! The suites, a row each: the source, the changes it needs to run here, and the expected results.

use super::packages::{COMMON, NodePackages, Requirements};
use super::sources::Edit;

/// The tests of one library that takes locks in Redis.
pub struct Suite {
    /// The common name; also the value of `LIBRARY=`.
    pub library: &'static str,
    pub version: &'static str,
    pub source: Source,
    pub pace: Pace,
    pub servers: Servers,
    /// Commands that it sends besides those for strings, keys, scripts, transactions, pub/sub and connections. A server
    /// that lacks one of them is not compared.
    pub needs: &'static [&'static str],
    /// The number of its tests that redis-server 7.0.15 passes. Fewer passes mean that the suite did not run properly.
    pub passes: usize,
    /// The number of tests whose result varies from run to run on redis-server as well.
    pub unsteady: usize,
    /// Whether it uses files of fixed names, so that two runs must not overlap.
    pub keeps_files: bool,
    /// Its duration in seconds when nothing else runs.
    pub seconds: u64,
}

/// The source of a suite; it also decides how the suite runs and how its output is read.
pub enum Source {
    /// A Python source package, run by pytest.
    Python {
        package: &'static str,
        /// The environment in which it runs.
        requirements: Requirements,
        /// Files that the package lacks.
        added: &'static [(&'static str, &'static str)],
        edits: &'static [Edit],
        pytest: &'static [&'static str],
        environment: &'static [(&'static str, &'static str)],
    },
    /// A test file of a Node package, run by mocha. `node/package-lock.json` fixes the versions.
    Node {
        test: &'static str,
    },
    /// The unit tests of a Rust crate.
    Rust {
        package: &'static str,
        features: &'static [&'static str],
        edits: &'static [Edit],
    },
    /// A program in `examples` that uses libraries as their READMEs show, and prints a line for each thing that it has done.
    PythonExample {
        program: &'static str,
        requirements: Requirements,
    },
    NodeExample {
        program: &'static str,
        packages: NodePackages,
    },
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// Part of `make test`.
    Fast,
    /// Part of `make locks`.
    Slow,
    /// Only runs when named: it takes longer than all others together, or is no suite.
    WhenNamed,
}

pub enum Servers {
    /// This number of servers, whose addresses the suite gets.
    Given { count: usize, directives: &'static [&'static str] },
    /// The suite starts `redis-server` itself; `PATH` leads it to the server under test.
    Own,
}

const FOR_PYTHON_REDIS_LOCK: Requirements =
    Requirements { name: "python-redis-lock", text: include_str!("python/python-redis-lock.txt") };

const ONE: Servers = Servers::Given { count: 1, directives: &[] };

pub const SUITES: &[Suite] = &[
    Suite {
        library: "redis-py",
        version: "8.1.0",
        source: Source::Python {
            package: "redis",
            requirements: COMMON,
            added: &[],
            edits: &[],
            pytest: &[
                "--redis-url",
                "redis://localhost:6379/9",
                "tests/test_lock.py",
                "tests/test_asyncio/test_lock.py",
            ],
            environment: &[],
        },
        pace: Pace::Fast,
        servers: ONE,
        needs: &[],
        passes: 92,
        unsteady: 0,
        keeps_files: false,
        seconds: 3,
    },
    Suite {
        library: "node-redlock",
        version: "4.2.0",
        source: Source::Node { test: "redlock/test.js" },
        pace: Pace::Fast,
        servers: ONE,
        // Some tests put a key of another type where the lock belongs.
        needs: &["SADD"],
        passes: 224,
        unsteady: 0,
        keeps_files: false,
        seconds: 22,
    },
    Suite {
        library: "redlock-py",
        version: "1.0.8",
        source: Source::Python {
            package: "redlock-py",
            requirements: COMMON,
            added: &[],
            // Python 3.12 has removed the old name.
            edits: &[Edit {
                file: "tests/test_redlock.py",
                from: "assertEquals",
                until: "(lock.key, key)",
                with: "assertEqual",
            }],
            pytest: &["tests"],
            environment: &[],
        },
        pace: Pace::Fast,
        servers: ONE,
        needs: &[],
        passes: 6,
        unsteady: 0,
        keeps_files: false,
        seconds: 1,
    },
    Suite {
        library: "pottery",
        version: "3.0.1",
        source: Source::Python {
            package: "pottery",
            requirements: COMMON,
            added: &[("tests/conftest.py", include_str!("added/pottery_conftest.py"))],
            edits: &[],
            pytest: &[
                "--asyncio-mode=auto",
                "tests/test_redlock.py",
                "tests/test_aioredlock.py",
                "tests/test_nextid.py",
                "tests/test_aionextid.py",
            ],
            environment: &[],
        },
        pace: Pace::Fast,
        servers: ONE,
        needs: &[],
        // One test fails: it compares the text of a redis-py client, which has changed since.
        passes: 94,
        unsteady: 0,
        keeps_files: false,
        seconds: 8,
    },
    Suite {
        library: "rslock",
        version: "0.7.3",
        source: Source::Rust {
            package: "rslock",
            features: &["tokio-comp"],
            edits: &[
                // Adds an example of this project beside the crate's own.
                Edit { file: "Cargo.toml", from: "autoexamples = false", until: "\n", with: "autoexamples = true" },
                // The tests start three containers each. Here each test uses its own database on the three given
                // servers.
                Edit {
                    file: "src/lock.rs",
                    from: "    use testcontainers::{",
                    until: "    use tokio::time::Duration;",
                    with: "",
                },
                Edit {
                    file: "src/lock.rs",
                    from: "    type Containers",
                    until: "        // Ensure all Redis instances are ready",
                    with: r#"    type Containers = ();

    async fn create_clients() -> (Containers, Vec<String>) {
        static DATABASE: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
        let database = DATABASE.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let servers = std::env::var("ADDRESSES").expect("ADDRESSES");
        let addresses: Vec<String> = servers.split(',').map(|url| format!("{url}/{database}")).collect();
        let containers = ();

"#,
                },
                Edit {
                    file: "Cargo.toml",
                    from: "[dev-dependencies.testcontainers]",
                    until: "[dev-dependencies.tokio]",
                    with: "[workspace]\n\n",
                },
            ],
        },
        pace: Pace::Fast,
        servers: Servers::Given { count: 3, directives: &["--databases", "64"] },
        needs: &[],
        passes: 27,
        unsteady: 0,
        keeps_files: false,
        seconds: 2,
    },
    Suite {
        library: "redlock-rs",
        version: "2.0.0",
        source: Source::Rust {
            package: "redlock",
            features: &[],
            // The tests accept given servers in place of containers; these edits remove the code that starts
            // containers.
            edits: &[
                Edit {
                    file: "src/redlock.rs",
                    from: "    use testcontainers::clients",
                    until: "    use super::*;",
                    with: "",
                },
                Edit {
                    file: "src/redlock.rs",
                    from: "    fn init(docker",
                    until: "    #[test]",
                    with: r#"    #[derive(Default)]
    struct Cli;

    fn init(_: &Cli) -> ((), Vec<String>) {
        ((), std::env::var("ADDRESSES").expect("ADDRESSES").split(',').map(String::from).collect())
    }

"#,
                },
                Edit {
                    file: "Cargo.toml",
                    from: "[dev-dependencies.testcontainers]",
                    until: "[features]",
                    with: "[workspace]\n\n",
                },
            ],
        },
        pace: Pace::Fast,
        servers: Servers::Given { count: 3, directives: &[] },
        needs: &[],
        passes: 11,
        unsteady: 0,
        keeps_files: false,
        seconds: 1,
    },
    Suite {
        library: "huey",
        version: "3.3.0",
        source: Source::Python {
            package: "huey",
            requirements: COMMON,
            added: &[],
            edits: &[],
            pytest: &["huey/tests"],
            environment: &[],
        },
        pace: Pace::Fast,
        servers: ONE,
        needs: &[
            "BLPOP",
            "BRPOP",
            "BZPOPMIN",
            "HDEL",
            "HEXISTS",
            "HGET",
            "HGETALL",
            "HINCRBY",
            "HLEN",
            "HSET",
            "HSETNX",
            "LLEN",
            "LPUSH",
            "LRANGE",
            "RPOP",
            "ZADD",
            "ZCARD",
            "ZPOPMIN",
            "ZRANGE",
            "ZRANGEBYSCORE",
            "ZRANK",
            "ZREM",
            "ZREMRANGEBYSCORE",
        ],
        // The others are for stores other than Redis, and skipped.
        passes: 230,
        unsteady: 0,
        keeps_files: true,
        seconds: 6,
    },
    Suite {
        library: "rq",
        version: "2.12.0",
        source: Source::Python {
            package: "rq",
            requirements: COMMON,
            added: &[],
            // Some tests write to files of fixed names. These edits give each run its own.
            edits: &[
                Edit {
                    file: "tests/test_worker.py",
                    from: "SENTINEL_FILE = '/tmp/rq-tests.txt'",
                    until: "  # noqa",
                    with: "SENTINEL_FILE = f'/tmp/rq-tests-{os.getpid()}.txt'",
                },
                Edit {
                    file: "tests/test_worker.py",
                    from: "SENTINEL_FILE = '/tmp/rq-tests.txt'",
                    until: "  # noqa",
                    with: "SENTINEL_FILE = f'/tmp/rq-tests-{os.getpid()}.txt'",
                },
                Edit {
                    file: "tests/test_worker.py",
                    from: "self.sandbox = '/tmp/rq_shutdown/'",
                    until: "\n",
                    with: "self.sandbox = f'/tmp/rq-shutdown-{os.getpid()}/'",
                },
            ],
            pytest: &[
                "tests",
                // rq uses the alarm signal itself, so pytest cannot use it for its time-outs.
                "--timeout-method=thread",
                // These tests are about the command line, signals and processes only; one class starts a program of rq,
                // which is not installed; two tests depend on which of two workers starts first.
                "--ignore=tests/test_cli.py",
                "--ignore=tests/test_timeouts.py",
                "--ignore=tests/test_worker_pool.py",
                "-k",
                "not TestWorkerSubprocess and not test_execution_order",
            ],
            environment: &[],
        },
        pace: Pace::Slow,
        servers: ONE,
        needs: &[
            "BLMOVE",
            "HDEL",
            "HEXISTS",
            "HGET",
            "HGETALL",
            "HINCRBY",
            "HINCRBYFLOAT",
            "HKEYS",
            "HSET",
            "LLEN",
            "LMOVE",
            "LPOP",
            "LPOS",
            "LPUSH",
            "LRANGE",
            "LREM",
            "RPUSH",
            "SADD",
            "SISMEMBER",
            "SMEMBERS",
            "SREM",
            "XADD",
            "XLEN",
            "XREAD",
            "XREVRANGE",
            "ZADD",
            "ZCARD",
            "ZRANGE",
            "ZRANGEBYSCORE",
            "ZREM",
            "ZREMRANGEBYRANK",
            "ZREMRANGEBYSCORE",
            "ZREVRANGE",
            "ZSCORE",
        ],
        passes: 565,
        unsteady: 0,
        keeps_files: false,
        seconds: 85,
    },
    Suite {
        library: "dramatiq",
        version: "2.2.0",
        source: Source::Python {
            package: "dramatiq",
            requirements: COMMON,
            added: &[
                ("tests/__init__.py", ""),
                ("tests/common.py", include_str!("added/dramatiq_common.py")),
                ("tests/conftest.py", include_str!("added/dramatiq_conftest.py")),
            ],
            edits: &[],
            pytest: &[
                // The package's own options ask for a coverage report.
                "--override-ini=addopts=",
                "-k",
                "redis",
                "tests/test_barrier.py",
                "tests/test_bucket_rate_limiter.py",
                "tests/test_concurrent_rate_limiter.py",
                "tests/test_window_rate_limiter.py",
                "tests/test_results.py",
                "tests/test_composition.py",
            ],
            environment: &[],
        },
        pace: Pace::Slow,
        servers: ONE,
        needs: &["BRPOPLPUSH", "LINDEX", "LPUSH", "RPOPLPUSH", "RPUSH"],
        passes: 34,
        unsteady: 0,
        keeps_files: false,
        seconds: 39,
    },
    Suite {
        library: "python-redis-lock",
        version: "4.0.1",
        source: Source::Python {
            package: "python-redis-lock",
            requirements: FOR_PYTHON_REDIS_LOCK,
            added: &[],
            edits: &[],
            pytest: &["--ignore=src", "tests"],
            environment: &[("PYTHONPATH", "src:tests"), ("DJANGO_SETTINGS_MODULE", "test_project.settings")],
        },
        pace: Pace::WhenNamed,
        servers: Servers::Own,
        needs: &["BLPOP", "LLEN", "LPUSH"],
        // Two more fail with this version of eventlet.
        passes: 176,
        // Some tests sleep for exactly the lifetime of a lock before they check it.
        unsteady: 6,
        keeps_files: false,
        seconds: 360,
    },
];
