"""What Python's lock libraries do when a failover loses a lock."""

import asyncio
import functools
import os

import pottery
import redis
import redis.asyncio
import redis_lock
import redlock
import sherlock
from django.conf import settings

settings.configure()
from django_redis.cache import RedisCache

URLS = os.environ["REDIS_URLS"].split(",")
SENTINELS = [(host, int(port)) for host, port in (one.rsplit(":", 1) for one in os.environ["REDIS_SENTINELS"].split(","))]
SERVICES = [os.environ["REDIS_SENTINEL_SERVICE"] + number for number in ("", "2", "3")]
SENTINEL = redis.Sentinel(SENTINELS)
# The second master, because the first one dies.
test = redis.Redis.from_url(URLS[1], decode_responses=True)


def power(*words):
    return test.execute_command("REDOUBLE", *words)


def said(name, run):
    """The name of a method, with what its caller sees."""
    try:
        return f"`{name}` returns {run()!r}"
    except Exception as error:
        return f"`{name}` raises {type(error).__name__}"


def values(key):
    """What the masters have under a key. Three servers that disagree have what most of them have."""
    found = [SENTINEL.master_for(service).get(key) for service in SERVICES]
    return next((value for value in found if value is not None and found.count(value) > 1), found[0])


def begin():
    for url in URLS:
        redis.Redis.from_url(url).execute_command("REDOUBLE RESET")
    power("AUDIT", "CLEAR")


def fail_over(*words):
    power("INSTANCE", "STOP", 1)
    power("FAILOVER", 1, *words)


def found():
    """What the auditor says of it."""
    codes = sorted({finding["code"] for finding in power("AUDIT", "LIST", "SEVERITY", "ERROR")})
    power("INSTANCE", "START", 1)
    return ", ".join(codes) or "nothing"


def trial(library, key, steps, masters=1):
    """Client a takes the lock, its master dies before a replica has that, b asks for the lock, and a goes on.

    `steps` makes of a client's name its steps: pairs of a name and a function that take, extend and release the lock."""
    begin()
    power("LINK", 1, "HOLD")
    take, extend, release = steps("a", masters)
    first = said(*take)
    of_a = values(key)
    fail_over()
    # A lock may release itself when nobody has it any more.
    steps_of_b = steps("b", masters)
    second = said(*steps_of_b[0])
    of_b = values(key)
    extended = said(*extend) if extend else "—"
    released = said(*release)
    left = values(key)
    state = "free" if left is None else "b's" if left == of_b != of_a else "a's" if left == of_a else "another"
    print(library, masters, first, second, extended, released, state, found(), sep=" | ")


def clients(name, masters):
    return [SENTINEL.master_for(service, client_name=name) for service in SERVICES[:masters]]


def redis_py(name, _):
    lock = clients(name, 1)[0].lock("redis-py", timeout=30, blocking=False)
    return ("acquire", lock.acquire), ("extend", lambda: lock.extend(30)), ("release", lock.release)


def redis_py_asyncio(name, _, loop):
    sentinel = redis.asyncio.Sentinel(SENTINELS)
    lock = sentinel.master_for(SERVICES[0], client_name=name).lock("redis-py-asyncio", timeout=30, blocking=False)
    run = loop.run_until_complete
    return ("acquire", lambda: run(lock.acquire())), ("extend", lambda: run(lock.extend(30))), ("release", lambda: run(lock.release()))


def python_redis_lock(name, _):
    lock = redis_lock.Lock(clients(name, 1)[0], "python-redis-lock", expire=30)
    return ("acquire", lambda: lock.acquire(blocking=False)), ("extend", lock.extend), ("release", lock.release)


def of_sherlock(name, _):
    lock = sherlock.RedisLock("sherlock", client=clients(name, 1)[0], expire=30, timeout=0, retry_interval=0.001)
    return ("acquire", lambda: lock.acquire(blocking=False)), ("renew", lock.renew), ("release", lock.release)


def django_redis(name, _):
    options = {"SENTINELS": SENTINELS, "CONNECTION_FACTORY": "django_redis.pool.SentinelConnectionFactory"}
    # Caches with one URL share a pool.
    lock = RedisCache(f"redis://{SERVICES[0]}/0?client_name={name}", {"OPTIONS": options}).lock("django-redis", timeout=30, blocking=False)
    return ("acquire", lock.acquire), ("extend", lambda: lock.extend(30)), ("release", lock.release)


def of_pottery(name, masters):
    lock = pottery.Redlock(key="pottery", masters=set(clients(name, masters)), auto_release_time=30)
    return ("acquire", lambda: lock.acquire(blocking=False)), ("extend", lock.extend), ("release", lock.release)


def redlock_py(name, masters):
    locks, taken = redlock.Redlock(clients(name, masters), retry_count=1, retry_delay=0.001), []

    def lock():
        taken.append(locks.lock("redlock-py", 30_000))
        return bool(taken[0])

    return ("lock", lock), None, ("unlock", lambda: locks.unlock(taken[0]))


def measures():
    """What helps, with redis-py's `Lock`."""

    def measure(name, of_links, goes_on=lambda _: "—", minimum=0, to=()):
        begin()
        master = clients("a", 1)[0]
        master.config_set("min-replicas-to-write", minimum)
        for words in of_links:
            power("LINK", 1, *words)
        lock = master.lock("measure", timeout=30, blocking=False)
        first = said("acquire", lock.acquire)
        then = goes_on((master, lock))
        fail_over(*to)
        other = clients("b", 1)[0].lock("measure", timeout=30, blocking=False)
        print(name, first, then, said("acquire", other.acquire), found(), sep=" | ")
        redis.Redis.from_url(URLS[0]).config_set("min-replicas-to-write", 0)

    def wait(both):
        master, lock = both
        answer = master.wait(1, 100)
        return f"`wait(1, 100)` returns {answer}" + ("" if answer else ": " + said("release", lock.release))

    measure("nothing", [["HOLD"]])
    measure("WAIT, and its answer counts", [["HOLD"]], wait)
    measure("WAIT, and the other replica is promoted", [["HOLD", 5]], wait, to=("TO", 5))
    measure("`min-replicas-to-write 1`, the replicas are late", [["HOLD"]], minimum=1)
    measure("`min-replicas-to-write 1`, the replicas are cut off", [["CUT"]], minimum=1)


def main():
    loop = asyncio.new_event_loop()
    trial("redis-py 8.1.0 `Lock`", "redis-py", redis_py)
    trial("redis-py 8.1.0 asyncio `Lock`", "redis-py-asyncio", functools.partial(redis_py_asyncio, loop=loop))
    trial("python-redis-lock 4.0.1", "lock:python-redis-lock", python_redis_lock)
    trial("sherlock 0.4.1", "sherlock", of_sherlock)
    trial("django-redis 7.0.0 `cache.lock`", ":1:django-redis", django_redis)
    trial("pottery 3.0.1 `Redlock`", "redlock:pottery", of_pottery)
    trial("pottery 3.0.1 `Redlock`", "redlock:pottery", of_pottery, 3)
    trial("redlock-py 1.0.8", "redlock-py", redlock_py)
    trial("redlock-py 1.0.8", "redlock-py", redlock_py, 3)
    measures()


main()
