"""An old cron job with the lock of SETNX's page: the value is the time at which the lock is over.

A lock that is over is taken with GETSET, and only the one to whom GETSET returns the old time has it. Whoever holds
deletes the key at the end only if the time is not over yet. The lock of a dead job is there at the beginning.
Keys: lock lock.cron, data cron:runs.
"""
import multiprocessing
import os
import time

import redis

LOCK, HOLD = "lock.cron", 20


def acquire(client, barrier):
    """Returns the end of the hold, or None if somebody else has the lock."""
    until = time.time() + HOLD + 1
    if client.setnx(LOCK, until):
        return until
    current = client.get(LOCK)
    barrier.wait()  # all have seen the old time
    if current is None or float(current) > time.time():
        return None
    until = time.time() + HOLD + 1
    return until if client.getset(LOCK, until) == current else None


def job(barrier, results):
    client = redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)
    until = acquire(client, barrier)
    if until is not None:
        runs = int(client.get("cron:runs") or 0)
        barrier.wait()
        client.set("cron:runs", runs + 1)
        if time.time() < until:
            client.delete(LOCK)
    else:
        barrier.wait()
    results.put(until is not None)


def main():
    client = redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)
    client.setnx(LOCK, time.time() - 100)
    barrier, results = multiprocessing.Barrier(3, timeout=5), multiprocessing.Queue()
    jobs = [multiprocessing.Process(target=job, args=(barrier, results)) for _ in range(3)]
    for process in jobs:
        process.start()
    held = [results.get(timeout=5) for _ in jobs]
    for process in jobs:
        process.join()
    assert sum(held) == 1 and client.get("cron:runs") == "1" and not client.exists(LOCK), held
    print("ok: one of three jobs took over the lock of the dead one")


if __name__ == "__main__":
    main()
