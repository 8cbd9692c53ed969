"""A fuel depot books deliveries and withdrawals of a tank. Each booking runs in a thread under a lock with a token.

Wrong: a booking reads the level under the lock, computes for longer than the lock lasts, and then writes for the first time, without
a look at the lock. Another booking has taken it and was done in between; its change is overwritten.
"""
import os
import secrets
import threading
import time

import redis

URL = os.environ["REDIS_URL"]
RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"
LOCK, TANK = "depot:6:tank:a:lease", "depot:6:tank:a"
errors = []


def booking(litres, lease, has_read, may_write):
    try:
        r = redis.Redis.from_url(URL, decode_responses=True)
        token = secrets.token_hex(16)
        while not r.set(LOCK, token, nx=True, px=lease):
            time.sleep(0.02)
        level = int(r.hget(TANK, "litres"))
        has_read.set()
        assert may_write.wait(15)
        r.hset(TANK, "litres", level + litres)  # the first write, and the lease may be over!
        r.eval(RELEASE, 1, LOCK, token)
    except Exception as error:
        errors.append(error)


def main():
    r = redis.Redis.from_url(URL, decode_responses=True)
    r.hset(TANK, mapping={"litres": 5000, "fuel": "diesel"})
    slow_read, quick_read, quick_done, at_once = (threading.Event() for _ in range(4))
    at_once.set()
    slow = threading.Thread(target=booking, args=(-700, 300, slow_read, quick_done))
    slow.start()
    assert slow_read.wait(15)
    quick = threading.Thread(target=booking, args=(2000, 60_000, quick_read, at_once))
    quick.start()
    quick.join()
    quick_done.set()
    slow.join()
    assert not errors, errors
    level = int(r.hget(TANK, "litres"))
    print(f"damage: 5000 + 2000 - 700 litres, and the book says {level}" if level != 6300 else "ok: the level is right")


main()
