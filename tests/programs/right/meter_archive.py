"""Readers store the readings of a meter in one document. Each has a lease and a number from a counter that only grows.

A script opens the document: it notes the reader's number if that is the highest, and replies what is stored. Another script stores
if the noted number is still the reader's own. So who was stalled for longer than its lease is refused as soon as
another one has opened the document, and begins anew. Readers are processes.
"""
import json
import multiprocessing
import os
import time
import uuid

import redis

OPEN = """
local noted = tonumber(redis.call('HGET', KEYS[1], 'fence') or '0')
if tonumber(ARGV[1]) <= noted then return false end
redis.call('HSET', KEYS[1], 'fence', ARGV[1])
return redis.call('HGET', KEYS[1], 'readings')
"""
STORE = """
if redis.call('HGET', KEYS[1], 'fence') ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'readings', ARGV[2])
return 1
"""
RELEASE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"
LEASE, FENCE, METER = "meter:88:lease", "meter:88:fence", "meter:88:archive"


def connect():
    return redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)


def store(r, reading, lease, stall=None):
    """Stores one reading; returns how often it was refused."""
    refused = 0
    while True:
        token = str(uuid.uuid4())
        while not r.set(LEASE, token, nx=True, px=lease):
            time.sleep(0.02)
        fence = r.incr(FENCE)
        readings = r.eval(OPEN, 1, METER, fence)
        if stall and not refused:
            stall()
        if readings is not None and r.eval(STORE, 1, METER, fence, json.dumps(json.loads(readings) + [reading])):
            r.eval(RELEASE, 1, LEASE, token)
            return refused
        refused += 1
        r.eval(RELEASE, 1, LEASE, token)


def stalled_reader(opened, other_stored):
    def stall():
        opened.set()
        assert other_stored.wait(15)

    assert store(connect(), "06:00", 300, stall) >= 1


def next_reader(opened, other_stored):
    assert opened.wait(15)
    r = connect()
    store(r, "06:15", 60_000)
    other_stored.set()
    for reading in ("06:30", "06:45", "07:00"):
        store(r, reading, 60_000)


def main():
    r = connect()
    r.hset(METER, "readings", "[]")
    spawn = multiprocessing.get_context("spawn")
    opened, other_stored = spawn.Event(), spawn.Event()
    readers = [spawn.Process(target=reader, args=(opened, other_stored)) for reader in (stalled_reader, next_reader)]
    for process in readers:
        process.start()
    for process in readers:
        process.join(15)
        assert process.exitcode == 0
    stored = sorted(json.loads(r.hget(METER, "readings")))
    good = stored == ["06:00", "06:15", "06:30", "06:45", "07:00"]
    print(f"ok: {len(stored)} readings, one of them after a refusal" if good else f"damage: stored {stored}")


if __name__ == "__main__":
    main()
