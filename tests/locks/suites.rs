//! The suites, a row each: where it comes from, how it is made to run here, and what is known of it.

use super::packages::{COMMON, Requirements};
/// The tests of one library that takes locks in Redis.
pub struct Suite {
    /// What people call it; what `LIBRARY=` takes.
    pub library: &'static str,
    pub version: &'static str,
    pub source: Source,
    pub pace: Pace,
    pub servers: Servers,
    /// Commands it sends besides those for strings and keys, scripts, transactions, pub/sub and connections. Where the
    /// server does not know one of them, it says so and is not compared.
    pub needs: &'static [&'static str],
    /// How many of its tests redis-server 7.0.15 passes. Fewer, and the suite was not what it was meant to be.
    pub passes: usize,
    /// How many of those come and go from run to run, with Redis itself.
    pub unsteady: usize,
    /// Whether it uses files of fixed names, so that two runs of it must not meet.
    pub keeps_files: bool,
    /// How many seconds it takes when nothing else runs.
    pub seconds: u64,
}

/// Where a suite comes from, which also says how it runs and how its output is read.
pub enum Source {
    /// A source package for Python, run by pytest.
    Python {
        package: &'static str,
        /// The environment that it runs in.
        requirements: Requirements,
        /// Files that its package leaves out.
        added: &'static [(&'static str, &'static str)],
        edits: &'static [Edit],
        pytest: &'static [&'static str],
        environment: &'static [(&'static str, &'static str)],
    },
    /// A file of a package for Node, run by mocha; the versions are those of `node/package-lock.json`.
    Node { test: &'static str },
    /// The unit tests of a Rust crate.
    Rust { package: &'static str, features: &'static [&'static str], edits: &'static [Edit] },
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// Part of `make test`.
    Fast,
    /// Part of `make locks`.
    Slow,
    /// Takes longer than all others together: runs when it is named.
    WhenNamed,
}

pub enum Servers {
    /// So many, whose addresses it is given.
    Given { count: usize, directives: &'static [&'static str] },
    /// It starts `redis-server` itself, and finds ours under that name.
    Own,
}

/// A change to an unpacked source: the text from `from` up to `until` becomes `with`. It must be there.
#[derive(Debug)]
pub struct Edit {
    pub file: &'static str,
    pub from: &'static str,
    pub until: &'static str,
    pub with: &'static str,
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
        // A key of another type is put in the way of some locks, on purpose.
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
            // The old name is gone since Python 3.12.
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
        // The one that fails compares the text of a client of redis-py, which has grown since.
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
                // For a program of ours beside its own.
                Edit { file: "Cargo.toml", from: "autoexamples = false", until: "\n", with: "autoexamples = true" },
                // Its tests start three containers each. Here each has a database of its own on the three servers given.
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
            // It can be given servers instead of starting containers; what starts them is taken out.
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
        // The others are for stores that are not Redis, and skipped.
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
            // Some tests leave signs in files of fixed names: each run has its own.
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
                // Its own alarms are the same as those of the way in which pytest would end a test.
                "--timeout-method=thread",
                // What is about the command line, about signals, and about processes alone; a class that starts a
                // program of rq's, which would have to be installed; and two tests that bet on which of two workers
                // is there first.
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
                // Its own ask for a coverage report.
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
        // Two more do not get along with this eventlet.
        passes: 176,
        // Some sleep for exactly as long as a lock lives, and then ask.
        unsteady: 6,
        keeps_files: false,
        seconds: 360,
    },
];
