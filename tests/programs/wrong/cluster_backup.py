"""A backup that one of the hosts makes, behind a lock on three independent servers.

The lock counts as taken if any() server gave it. any() stops at the first one that says yes, so the first host holds
server one, the second host is refused there and holds server two: each has one of three, and both make the backup.
Keys: lock backup:nightly on the three servers. The lines marked ! are the evidence.
"""
import multiprocessing
import os
import uuid

import redis

LOCK = "backup:nightly"
RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"


class MultiServerLock:
    def __init__(self, urls, name, ttl_ms=20_000):
        self.servers = [redis.Redis.from_url(url, socket_timeout=1) for url in urls]
        self.name, self.ttl_ms, self.token = name, ttl_ms, uuid.uuid4().hex

    def acquire(self):
        return any(server.set(self.name, self.token, nx=True, px=self.ttl_ms) for server in self.servers)  # !

    def release(self):
        for server in self.servers:
            server.eval(RELEASE, 1, self.name, self.token)


def host(name, urls, barrier, making):
    lock = MultiServerLock(urls, LOCK)
    if not lock.acquire():
        barrier.abort()
        return
    with making.get_lock():
        making.value += 1
    barrier.wait()
    print(f"{name}: {making.value} hosts are making the backup", flush=True)
    barrier.wait()
    with making.get_lock():
        making.value -= 1
    lock.release()


def main():
    urls = os.environ["REDIS_URLS"].split(",")[:3]
    barrier, making = multiprocessing.Barrier(3, timeout=5), multiprocessing.Value("i", 0)
    hosts = [multiprocessing.Process(target=host, args=(name, urls, barrier, making)) for name in ("db-1", "db-2")]
    for process in hosts:
        process.start()
    barrier.wait()
    most = making.value
    barrier.wait()
    for process in hosts:
        process.join()
    if most > 1:
        print(f"damage: {most} hosts held the backup lock at once, each on one server of three")


if __name__ == "__main__":
    main()
