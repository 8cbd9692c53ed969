"""A PDF is rendered by one worker per order; the lock keeps it from being rendered twice.

The lock expires, and the release is a DEL in `finally`. A worker that renders longer than the lease removes the lock
of the next one, so that a third renders the same order at the same time.
Keys: lock pdf:<order>:rendering, counted in pdf:<order>:renderers. The lines marked ! are the evidence.
"""
import contextlib
import multiprocessing
import os
import time

import redis


@contextlib.contextmanager
def rendering(client, order):
    key = f"pdf:{order}:rendering"
    while not client.set(key, os.getpid(), nx=True, px=400):  # !
        time.sleep(0.02)
    try:
        yield
    finally:
        client.delete(key)  # !


def worker(order, holds, may_end):
    client = redis.Redis.from_url(os.environ["REDIS_URL"])
    with rendering(client, order):
        now = client.incr(f"pdf:{order}:renderers")
        client.zadd(f"pdf:{order}:most", {"at once": now}, gt=True)
        holds.set()
        may_end.wait(5)
        client.decr(f"pdf:{order}:renderers")


def main():
    client = redis.Redis.from_url(os.environ["REDIS_URL"])
    workers, holds, ends = [], [], []
    for _ in range(3):
        holds.append(multiprocessing.Event())
        ends.append(multiprocessing.Event())
        workers.append(multiprocessing.Process(target=worker, args=("o-77", holds[-1], ends[-1])))

    workers[0].start()
    holds[0].wait(5)
    workers[1].start()  # has to wait until the lease of the first one is over
    holds[1].wait(5)
    ends[0].set()
    workers[0].join()  # and has deleted the lock of the second one
    workers[2].start()
    holds[2].wait(5)
    for end in ends:
        end.set()
    for process in workers:
        process.join()
    most = int(client.zscore("pdf:o-77:most", "at once"))
    print(f"damage: {most} workers rendered one order at once" if most > 1 else "nothing happened")


if __name__ == "__main__":
    main()
