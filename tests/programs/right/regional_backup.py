"""A backup made by one region at a time, behind a Redlock over three servers.

A region holds if at least two servers gave it the lock and enough of the lease is left; otherwise it gives back what it
has, everywhere, waits for a random time and tries again. The release goes to all servers, by a script that compares.
Keys: lock backup:weekly on three servers, data backup:catalogue on the first.
"""
import json
import multiprocessing
import os
import random
import secrets
import time

import redis

NAME, TTL = "backup:weekly", 10_000
RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end"


class Redlock:
    def __init__(self, urls):
        self.servers = [redis.Redis.from_url(url, socket_timeout=2) for url in urls]
        self.quorum = len(self.servers) // 2 + 1

    def lock(self):
        while True:
            token, begin = secrets.token_hex(20), time.monotonic()
            votes = sum(self.ask(server, token) for server in self.servers)
            left = TTL - (time.monotonic() - begin) * 1000 - TTL * 0.01 - 2
            if votes >= self.quorum and left > TTL / 2:
                return token
            self.unlock(token)
            time.sleep(random.uniform(0.005, 0.03))

    def ask(self, server, token):
        try:
            return bool(server.set(NAME, token, nx=True, px=TTL))
        except redis.RedisError:
            return False

    def unlock(self, token):
        for server in self.servers:
            server.eval(RELEASE, 1, NAME, token)


def region(name, urls, barrier):
    lock, store = Redlock(urls), redis.Redis.from_url(urls[0])
    barrier.wait()
    for number in range(4):
        token = lock.lock()
        catalogue = json.loads(store.get("backup:catalogue") or "[]")
        catalogue.append(f"{name}-{number}")
        time.sleep(0.01)
        store.set("backup:catalogue", json.dumps(catalogue))
        lock.unlock(token)


def main():
    urls = os.environ["REDIS_URLS"].split(",")[:3]
    barrier = multiprocessing.Barrier(3, timeout=5)
    regions = [multiprocessing.Process(target=region, args=(name, urls, barrier)) for name in ("eu", "us", "ap")]
    for process in regions:
        process.start()
    for process in regions:
        process.join()
    catalogue = json.loads(redis.Redis.from_url(urls[0]).get("backup:catalogue"))
    assert len(catalogue) == len(set(catalogue)) == 12, catalogue
    print("ok: 12 backups of three regions are in the catalogue")


if __name__ == "__main__":
    main()
