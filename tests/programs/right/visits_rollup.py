"""Hourly figures are rolled up into one document by several processes, one at a time.

The documented lock: SET NX with an expiry that is long compared with the work, a random token, and a release by a
script that compares. The document is read and written inside the lock only.
Keys: lock rollup:lock, data rollup:document.
"""
import contextlib
import json
import multiprocessing
import os
import secrets
import time

import redis

RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end"


@contextlib.contextmanager
def rollup_lock(client, refused):
    token = secrets.token_hex(16)
    while not client.set("rollup:lock", token, nx=True, px=30_000):
        with refused.get_lock():
            refused.value += 1
        time.sleep(0.003)
    try:
        yield
    finally:
        assert client.eval(RELEASE, 1, "rollup:lock", token) == 1


def roll_up(hours, barrier, refused):
    client = redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)
    barrier.wait()
    for hour, visits in hours:
        with rollup_lock(client, refused):
            document = json.loads(client.get("rollup:document") or '{"sum": 0, "hours": []}')
            document["sum"] += visits
            document["hours"].append(hour)
            time.sleep(0.005)
            client.set("rollup:document", json.dumps(document))


def main():
    barrier, refused = multiprocessing.Barrier(3, timeout=5), multiprocessing.Value("i", 0)
    shares = [[(hour, hour * 10) for hour in range(start, 24, 3)] for start in range(3)]
    processes = [multiprocessing.Process(target=roll_up, args=(share, barrier, refused)) for share in shares]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    document = json.loads(redis.Redis.from_url(os.environ["REDIS_URL"]).get("rollup:document"))
    assert sorted(document["hours"]) == list(range(24)) and document["sum"] == 2760, document
    assert refused.value > 0
    print("ok: 24 hours from three processes are in the document, and nobody was inside with another")


if __name__ == "__main__":
    main()
