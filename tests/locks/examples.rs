//! Programs that use libraries as their READMEs show: lock, queue, cache, session and rate limiting libraries that nobody wrote
//! with the auditor in mind. Each starts its own workers and prints a line for each thing that it has done.
//!
//! What the auditor finds in their traffic stands in `findings`, as for the suites: no error that is not true, and no warning
//! that a maintainer would not want to know.

use super::packages::{NodePackages, Requirements};
use super::suites::{Pace, Servers, Source, Suite};

const PYTHON: Requirements = Requirements { name: "examples", text: include_str!("examples/requirements.txt") };

/// For libraries that do not work with redis-py 8.
const PYTHON_REDIS_5: Requirements =
    Requirements { name: "examples-redis-5", text: include_str!("examples/requirements-redis-5.txt") };

const NODE: NodePackages = NodePackages {
    name: "node-examples",
    package: include_str!("examples/package.json"),
    lock: include_str!("examples/package-lock.json"),
};

const NODE_MORE: NodePackages = NodePackages {
    name: "node-examples-more",
    package: include_str!("examples/package-more.json"),
    lock: include_str!("examples/package-more-lock.json"),
};

/// The name of all of them together: `LIBRARY=examples`.
pub const ALL: &str = "examples";

const fn example(library: &'static str, version: &'static str, source: Source, passes: usize, seconds: u64) -> Suite {
    Suite {
        library,
        version,
        source,
        // What is found in them depends on the order in which their processes come, and each takes seconds.
        pace: Pace::WhenNamed,
        servers: Servers::Given { count: 1, directives: &[] },
        needs: &[],
        passes,
        unsteady: 0,
        keeps_files: false,
        seconds,
    }
}

const fn python(program: &'static str) -> Source {
    Source::PythonExample { program, requirements: PYTHON }
}

const fn python_redis_5(program: &'static str) -> Source {
    Source::PythonExample { program, requirements: PYTHON_REDIS_5 }
}

const fn node(program: &'static str) -> Source {
    Source::NodeExample { program, packages: NODE }
}

const fn node_more(program: &'static str) -> Source {
    Source::NodeExample { program, packages: NODE_MORE }
}

/// An example may be about several libraries; its version is that of the first.
pub const EXAMPLES: &[Suite] = &[
    example("bullmq", "6.7.0", node("bullmq.js"), 4, 5),
    example("bull", "4.16.5", node("bull.js"), 2, 5),
    example("bee-queue", "2.0.0", node("bee_queue.js"), 3, 3),
    example("kue", "0.11.6", node("kue.js"), 1, 5),
    example("redis-semaphore", "5.8.0", node("redis_semaphore.js"), 1, 4),
    example("ioredis-lock", "4.0.0", node("ioredis_lock.js"), 1, 2),
    example("simple-redis-mutex", "3.0.0", node("simple_redis_mutex.js"), 1, 2),
    example("redis-lock", "1.0.0", node("redis_lock.js"), 1, 2),
    example("bottleneck", "2.19.5", node("bottleneck.js"), 1, 2),
    example("connect-redis", "9.0.0", node("express_session.js"), 1, 2),
    example("rate-limiter-flexible", "11.4.0", node("rate_limiters.js"), 2, 4),
    example("cache-manager", "7.2.9", node("caches.js"), 1, 3),
    example("celery", "5.7.0", python("celery_tasks.py"), 5, 12),
    example("apscheduler", "3.11.3", python("apscheduler_jobs.py"), 2, 3),
    example("dogpile.cache", "1.5.0", python("dogpile_region.py"), 1, 3),
    example("aiocache", "0.12.3", python("aiocache_stampede.py"), 1, 3),
    example("django-redis", "7.0.0", python("django_cache.py"), 2, 3),
    example("flask-session", "0.8.0", python("flask_sessions.py"), 1, 3),
    example("limits", "5.8.0", python("rate_limits.py"), 4, 3),
    example("taskiq", "0.13.0", python("taskiq_tasks.py"), 2, 8),
    example("rq-readme", "3.0.0", python("rq_jobs.py"), 1, 5),
    example("sherlock", "0.4.1", python("python_locks.py"), 4, 5),
    example("py-redis-semaphore", "0.2.0", python("semaphores.py"), 2, 3),
    example("celery-locks", "3.0.1", python("celery_locks.py"), 6, 18),
    example("python-redlocks", "3.0.1", python_redis_5("redlocks.py"), 3, 15),
    example("python-queues", "0.28.0", python_redis_5("python_queues.py"), 6, 40),
    example("python-web", "7.6.0", python_redis_5("python_web.py"), 6, 25),
    example("node-locks", "4.2.0", node_more("node_locks.js"), 10, 20),
    example("node-leaders", "0.1.0", node_more("leaders.js"), 3, 8),
    example("node-queues", "9.7.1", node_more("node_queues.js"), 3, 7),
    example("node-limiters", "3.4.1", node_more("node_limiters.js"), 5, 10),
    example("node-caches", "1.6.1", node_more("node_caches.js"), 7, 12),
    example("node-sessions", "4.0.1", node_more("node_sessions.js"), 3, 7),
];
