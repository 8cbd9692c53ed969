"""Harbour: gauges count waves, and two collectors carry the counts over into a total.

Right: a collector sets the count aside under another name, by RENAMENX, and the gauges start a new one. The batch is
added and deleted in a transaction that watches it: of two collectors that have read the same batch one is refused,
and one that dies in between leaves it to the other.
"""
import os
from multiprocessing import Barrier, Event, Process

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

COUNT, BATCH, TOTAL = "tide:{pier}:count", "tide:{pier}:batch", "tide:{pier}:total"


def connect():
    return redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True, retry=Retry(NoBackoff(), 0))


def gauge(waves):
    r = connect()
    for _ in range(waves):
        r.incr(COUNT)


def collect(r, has_read=lambda: None):
    try:
        r.renamenx(COUNT, BATCH)
    except redis.ResponseError:
        pass  # nothing was counted since
    with r.pipeline() as pipe:
        pipe.watch(BATCH)
        batch = pipe.get(BATCH)
        has_read()
        if batch is None:
            return
        pipe.multi()
        pipe.incrby(TOTAL, batch)
        pipe.delete(BATCH)
        try:
            pipe.execute()
        except redis.WatchError:
            pass


def collector(same_batch, over):
    r = connect()
    collect(r, lambda: same_batch.wait(15))
    while not over.wait(0.01):
        collect(r)


def main():
    r = connect()
    gauge(7)
    same_batch, over = Barrier(2), Event()
    collectors = [Process(target=collector, args=(same_batch, over)) for _ in range(2)]
    gauges = [Process(target=gauge, args=(100,)) for _ in range(3)]
    for process in collectors + gauges:
        process.start()
    for process in gauges:
        process.join()
    over.set()
    for process in collectors:
        process.join()
    collect(r)  # a batch that was still there
    collect(r)  # and what was counted after it
    total = int(r.get(TOTAL))
    assert total == 307 and not r.exists(COUNT, BATCH), total
    print(f"ok: {total} waves were counted, and the total has each of them once")


if __name__ == "__main__":
    main()
