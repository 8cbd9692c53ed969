"""python-redis-lock, sherlock, portalocker and redis-py's own lock: processes contend for each of them."""
import time

import redis_lock
import sherlock
from portalocker.redis import RedisLock
from redis import Redis

from processes import URL, done, join, play, start

ROUNDS = 5


def worker():
    redis = Redis.from_url(URL)
    sherlock.configure(backend=sherlock.backends.REDIS, client=redis, expire=20, timeout=20, retry_interval=0.01)

    def add(name):
        before = int(redis.get(name) or 0)
        time.sleep(0.001)
        redis.set(name, before + 1)

    for _ in range(ROUNDS):
        with redis_lock.Lock(redis, "name-of-the-lock", expire=20, auto_renewal=True):
            add("first")
        with sherlock.Lock("my_lock"):
            add("second")
        with redis.lock("third-lock", timeout=20, sleep=0.01):
            add("third")
        with RedisLock("some_lock_channel_name", connection=redis, timeout=20, check_interval=0.01):
            add("fourth")


def main():
    join([start("worker") for _ in range(3)])
    redis = Redis.from_url(URL)
    for name in ("first", "second", "third", "fourth"):
        done(f"no increment is lost: {name}", redis.get(name), str(3 * ROUNDS).encode())


play({"main": main, "worker": worker})
