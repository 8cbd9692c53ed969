"""Packers in two processes, each with threads and one pool of connections, so that a lock is taken over one connection, kept alive by
a thread over another, and released over a third.

The packer writes only while its thread has not been told that the lease is lost; the lease is a hundred times as long as the work.
Keys: locks crate:<number>:packer, data crate:<number>:items.
"""
import os
import secrets
import subprocess
import sys
import threading

import redis

EXTEND = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) else return 0 end"
RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end"
LEASE = 30_000


class Lease:
    """A lock that a thread of its own keeps alive."""

    def __init__(self, client, key):
        self.client, self.key, self.token = client, key, secrets.token_hex(20)
        self.over, self.lost = threading.Event(), threading.Event()

    def __enter__(self):
        while not self.client.set(self.key, self.token, nx=True, px=LEASE):
            self.over.wait(0.01)
        self.keeper = threading.Thread(target=self.keep)
        self.keeper.start()
        return self

    def keep(self):
        while not self.over.wait(0.02):
            if not self.client.eval(EXTEND, 1, self.key, self.token, LEASE):
                self.lost.set()
                return

    def __exit__(self, *_):
        self.over.set()
        self.keeper.join()
        self.client.eval(RELEASE, 1, self.key, self.token)


def pack(client, crate, item):
    with Lease(client, f"crate:{crate}:packer") as lease:
        items = client.lrange(f"crate:{crate}:items", 0, -1)
        lease.over.wait(0.05)
        assert not lease.lost.is_set()
        pipe = client.pipeline(transaction=True)
        pipe.delete(f"crate:{crate}:items")
        pipe.rpush(f"crate:{crate}:items", *items, item)
        pipe.execute()


def hall(name):
    client = redis.Redis.from_url(os.environ["REDIS_URL"], max_connections=20)
    work = [(crate, f"{name}-{number}") for crate in (1, 2) for number in range(2)]
    threads = [threading.Thread(target=pack, args=(client, *each)) for each in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def main():
    halls = [subprocess.Popen([sys.executable, __file__, name]) for name in ("north", "south")]
    assert [each.wait() for each in halls] == [0, 0]
    client = redis.Redis.from_url(os.environ["REDIS_URL"])
    counts = [client.llen(f"crate:{crate}:items") for crate in (1, 2)]
    assert counts == [4, 4], counts
    print("ok: two halls packed two crates with four items each")


if __name__ == "__main__":
    hall(*sys.argv[1:]) if sys.argv[1:] else main()
