"""pottery, redlock-py and walrus: processes contend for a lock of each."""
import time

from redis import Redis

from processes import URL, done, join, play, start

ROUNDS = 5
redis = Redis.from_url(URL)


def of_pottery():
    from pottery import Redlock

    lock = Redlock(key="printer", masters={redis}, auto_release_time=10)
    return lock.__enter__, lambda: lock.__exit__(None, None, None)


def of_redlock_py():
    from redlock import Redlock

    locks = Redlock([URL], retry_count=2000, retry_delay=0.005)
    held = []
    return lambda: held.append(locks.lock("my_resource_name", 10000)), lambda: locks.unlock(held.pop())


def of_walrus():
    from walrus import Database

    lock = Database.from_url(URL).lock("walrus", ttl=10000)
    return lambda: lock.acquire(block=True), lock.release


LIBRARIES = {"pottery": of_pottery, "redlock-py": of_redlock_py, "walrus": of_walrus}


def worker(name):
    take, release = LIBRARIES[name]()
    for _ in range(ROUNDS):
        take()
        before = int(redis.get(f"sum:{name}") or 0)
        time.sleep(0.001)
        redis.set(f"sum:{name}", before + 1)
        release()
        time.sleep(0.002)


def main():
    for name in LIBRARIES:
        join([start("worker", name) for _ in range(3)])
        done(f"no increment is lost: {name}", int(redis.get(f"sum:{name}")), 3 * ROUNDS)


play({"main": main, "worker": worker})
