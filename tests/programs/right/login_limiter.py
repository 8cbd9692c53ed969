"""At most ten logins per user and window, counted over all servers.

INCR and EXPIRE NX run in one transaction: the counter cannot stay without an expiry. A successful login resets it by
DEL, whoever has counted. The counter decides by what INCR returned, never by an earlier read.
Keys: login:<user>:attempts.
"""
import multiprocessing
import os

import redis

LIMIT, WINDOW = 10, 60


class Limiter:
    def __init__(self, client):
        self.client = client

    def allow(self, user):
        key = f"login:{user}:attempts"
        with self.client.pipeline(transaction=True) as pipe:
            count, _ = pipe.incr(key).expire(key, WINDOW, nx=True).execute()
        return count <= LIMIT

    def reset(self, user):
        self.client.delete(f"login:{user}:attempts")


def server(user, attempts, barrier, allowed):
    limiter = Limiter(redis.Redis.from_url(os.environ["REDIS_URL"]))
    barrier.wait()
    for _ in range(attempts):
        if limiter.allow(user):
            with allowed.get_lock():
                allowed.value += 1


def attack(user):
    barrier, allowed = multiprocessing.Barrier(3, timeout=5), multiprocessing.Value("i", 0)
    servers = [multiprocessing.Process(target=server, args=(user, 8, barrier, allowed)) for _ in range(3)]
    for process in servers:
        process.start()
    for process in servers:
        process.join()
    return allowed.value


def main():
    client = redis.Redis.from_url(os.environ["REDIS_URL"])
    first = attack("ada")
    ttl = client.ttl("login:ada:attempts")
    Limiter(client).reset("ada")
    second = attack("ada")
    assert (first, second) == (LIMIT, LIMIT) and 0 < ttl <= WINDOW, (first, second, ttl)
    print(f"ok: {LIMIT} of 24 logins were let through, and {LIMIT} again after the reset")


if __name__ == "__main__":
    main()
