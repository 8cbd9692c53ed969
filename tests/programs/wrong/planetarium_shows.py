"""Planetarium: three shows want a projector, and there are two.

Wrong: the semaphore is a sorted set whose members are counted before one is added, with ZCARD and ZADD as two
commands. Three shows count at the same time and all find room.
"""
import os
import threading
import time

import redis

PERMITS, LIT, SHOWS = "dome:projectors", "dome:lit", ("Saturn", "Pulsars", "Night sky for children")
together = threading.Barrier(len(SHOWS))
most = []


def show(title):
    r = redis.Redis.from_url(
        os.environ["REDIS_URL"], decode_responses=True, client_name=title.split()[0].lower(), max_connections=1
    )
    now = time.time()
    r.zremrangebyscore(PERMITS, "-inf", now - 3600)
    free = 2 - r.zcard(PERMITS)
    together.wait(15)
    if free <= 0:
        return
    r.zadd(PERMITS, {title: now})  # as many as counted, not as many as there are projectors !
    try:
        most.append(r.incr(LIT))
        together.wait(15)
        r.decr(LIT)
    finally:
        r.zrem(PERMITS, title)


threads = [threading.Thread(target=show, args=(title,)) for title in SHOWS]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
if most and max(most) > 2:
    print(f"damage: {max(most)} shows at once with 2 projectors")
