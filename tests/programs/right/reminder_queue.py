"""Reminders that are due later, in a sorted set, sent by several workers.

A worker reads what is due and removes it. ZREM answers 1 to one worker only, and only that one sends; the others look
for the next reminder.
Keys: sorted set reminders:due, list reminders:sent.
"""
import multiprocessing
import os
import time

import redis

DUE, SENT = "reminders:due", "reminders:sent"


def worker(barrier, lost):
    client = redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)
    barrier.wait()
    while client.zcard(DUE):
        for reminder in client.zrangebyscore(DUE, "-inf", time.time(), start=0, num=5):
            if client.zrem(DUE, reminder) == 1:
                client.rpush(SENT, reminder)
            else:
                with lost.get_lock():
                    lost.value += 1
        time.sleep(0.001)


def main():
    client = redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)
    now = time.time()
    client.zadd(DUE, {f"reminder-{n}": now + n / 400 for n in range(120)})
    barrier, lost = multiprocessing.Barrier(3, timeout=5), multiprocessing.Value("i", 0)
    workers = [multiprocessing.Process(target=worker, args=(barrier, lost)) for _ in range(3)]
    for process in workers:
        process.start()
    for process in workers:
        process.join()
    sent = client.lrange(SENT, 0, -1)
    assert len(sent) == len(set(sent)) == 120, len(sent)
    print("ok: 120 reminders were sent once each by three workers")


if __name__ == "__main__":
    main()
