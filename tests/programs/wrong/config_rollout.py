"""A new configuration is rolled out by one deployer at a time. The lock has three servers for availability.

Each deployer takes the lock on the server that its own name hashes to, and uses the next one if that is down. Two
deployers with different names ask different servers, and both get what they ask for.
Keys: lock rollout:lock on one of three servers, data rollout:generation on the first. The lines marked ! are the evidence.
"""
import multiprocessing
import os
import secrets
import zlib

import redis


def lock_server(urls, name):
    start = zlib.crc32(name.encode()) % len(urls)
    for url in urls[start:] + urls[:start]:
        client = redis.Redis.from_url(url, socket_timeout=1)
        try:
            client.ping()
            return client
        except redis.ConnectionError:
            continue
    raise SystemExit("no server of the lock answers")


def deploy(name, urls, link):
    locks, store = lock_server(urls, name), redis.Redis.from_url(urls[0])
    token = secrets.token_hex(16)
    if not locks.set("rollout:lock", token, nx=True, ex=60):  # !
        link.send("refused")
        return
    generation = int(store.get("rollout:generation"))  # !
    link.send("read")
    link.recv()
    store.set("rollout:generation", generation + 1)  # !
    locks.eval("return redis.call('get', KEYS[1]) == ARGV[1] and redis.call('del', KEYS[1]) or 0", 1, "rollout:lock", token)
    link.send("rolled out")


def main():
    urls = os.environ["REDIS_URLS"].split(",")[:3]
    store = redis.Redis.from_url(urls[0])
    store.set("rollout:generation", 7)
    links = []
    for name in ("deployer-a", "deployer-b"):
        here, there = multiprocessing.Pipe()
        multiprocessing.Process(target=deploy, args=(name, urls, there), daemon=True).start()
        assert here.recv() == "read"
        links.append(here)
    for link in links:
        link.send("go on")
        assert link.recv() == "rolled out"
    generation = int(store.get("rollout:generation"))
    if generation != 9:
        print(f"damage: two roll-outs from generation 7 end at {generation}")


if __name__ == "__main__":
    main()
