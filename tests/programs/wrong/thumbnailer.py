"""Thumbnails of an album are made by workers that hold a lock for the album's index.

The timeout is meant in seconds and passed in milliseconds: px=30. Every hold has expired long before its work is done,
no release ever finds its own token, and nobody looks at what the release answers.
Keys: lock album:<id>:index-lock, data album:<id>:index. The lines marked ! are the evidence.
"""
import json
import multiprocessing
import os
import secrets
import time
from contextlib import contextmanager

import redis

LOCK_TIMEOUT = 30
UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end"


@contextmanager
def index_lock(client, album):
    key, token = f"album:{album}:index-lock", secrets.token_urlsafe(16)
    while not client.set(key, token, nx=True, px=LOCK_TIMEOUT):  # !
        time.sleep(0.005)
    try:
        yield
    finally:
        client.eval(UNLOCK, 1, key, token)  # !


def make_thumbnail(photo, album, barrier=None):
    client = redis.Redis.from_url(os.environ["REDIS_URL"])
    with index_lock(client, album):
        index = json.loads(client.get(f"album:{album}:index") or "[]")  # !
        if barrier:
            barrier.wait()
        time.sleep(0.08)  # scales the picture
        index.append(photo)
        client.set(f"album:{album}:index", json.dumps(index))  # !


def main():
    client = redis.Redis.from_url(os.environ["REDIS_URL"])
    make_thumbnail("beach.jpg", "a7")
    barrier = multiprocessing.Barrier(2, timeout=5)  # the second one gets the lock while the first one scales
    workers = [multiprocessing.Process(target=make_thumbnail, args=(photo, "a7", barrier)) for photo in ("p1.jpg", "p2.jpg")]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    index = json.loads(client.get("album:a7:index"))
    if len(index) < 3:
        print(f"damage: three thumbnails were made, the index has {len(index)}: {' '.join(index)}")


if __name__ == "__main__":
    main()
