"""Services rotate the signing key of a cluster. They lock it on a majority of three servers; the keys are on the first one.

On the third server there is the rest of an attempt that got nowhere, so both others are needed. The new key is stored by a script that
compares the version that was read: the lock saves work, and who holds it no more, without noticing, is refused by the version.
"""
import multiprocessing
import os
import random
import secrets
import time

import redis

LOCK, KEYS, LEASE, ROTATIONS = "rotation:signing", "keys:signing", 30_000, 5
RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"
STORE = """
if redis.call('HGET', KEYS[1], 'version') ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'version', ARGV[1] + 1, 'key', ARGV[2], 'history', ARGV[3])
return 1
"""


def connect():
    return [redis.Redis.from_url(url, decode_responses=True) for url in os.environ["REDIS_URLS"].split(",")]


def take(servers):
    token, begin = secrets.token_hex(20), time.monotonic()
    taken = sum(bool(server.set(LOCK, token, nx=True, px=LEASE)) for server in servers)
    if taken > len(servers) // 2 and (time.monotonic() - begin) * 1000 < LEASE * 0.9:
        return token
    release(servers, token)
    return None


def release(servers, token):
    for server in servers:
        server.eval(RELEASE, 1, LOCK, token)


def service(name, together):
    servers, done = connect(), 0
    together.wait(15)
    while done < ROTATIONS:
        token = take(servers)
        if not token:
            time.sleep(random.uniform(0.002, 0.02))
            continue
        version, history = servers[0].hmget(KEYS, "version", "history")
        key = f"{name}-{done}"
        done += servers[0].eval(STORE, 1, KEYS, version, key, f"{history} {key}".strip())
        release(servers, token)


def main():
    servers = connect()
    servers[0].hset(KEYS, mapping={"version": 0, "key": "", "history": ""})
    servers[2].set(LOCK, secrets.token_hex(20), nx=True, px=600_000)
    spawn = multiprocessing.get_context("spawn")
    together = spawn.Barrier(2)
    services = [spawn.Process(target=service, args=(name, together)) for name in ("auth", "mail")]
    for process in services:
        process.start()
    for process in services:
        process.join(18)
        assert process.exitcode == 0
    keys = servers[0].hgetall(KEYS)
    expected = {f"{name}-{number}" for name in ("auth", "mail") for number in range(ROTATIONS)}
    history = keys["history"].split()
    good = set(history) == expected and int(keys["version"]) == len(history) == len(expected)
    print(f"ok: {len(history)} rotations, version {keys['version']}" if good else f"damage: {keys}")


if __name__ == "__main__":
    main()
