"""A service lets each customer make some exports a day. Requests are threads that share a pool.

A request counts itself first (INCR) and compares the reply, so no two requests compare the same number. The
number of refused ones is only ever too high; an export that fails gives its own count back with DECR.
The day is part of the key, and the key is gone some time after it.
"""
import os
import threading

import redis

POOL = redis.BlockingConnectionPool.from_url(os.environ["REDIS_URL"], max_connections=5, decode_responses=True)
LIMIT, KEY = 6, "quota:customer-51:exports:2031-02-14"


def export(number, fails, made, refused, errors):
    try:
        r = redis.Redis(connection_pool=POOL)
        with r.pipeline(transaction=True) as count:
            count.incr(KEY)
            count.expire(KEY, 100_000)
            used, _ = count.execute()
        if used > LIMIT:
            refused.append(number)
        elif fails:
            r.decr(KEY)
        else:
            r.rpush("quota:customer-51:files", f"export-{number}")
            made.append(number)
    except Exception as error:
        errors.append(error)


def crowd(numbers, fails, made, refused, errors):
    threads = [threading.Thread(target=export, args=(n, fails, made, refused, errors)) for n in numbers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def main():
    made, refused, errors = [], [], []
    crowd(range(4), True, made, refused, errors)
    crowd(range(4, 16), False, made, refused, errors)
    assert not errors, errors
    files = redis.Redis(connection_pool=POOL).lrange("quota:customer-51:files", 0, -1)
    good = len(files) == len(made) == LIMIT and len(refused) == 12 - LIMIT
    print(f"ok: {len(files)} exports were made, {len(refused)} refused" if good else f"damage: {len(files)} exports of {LIMIT}")


main()
