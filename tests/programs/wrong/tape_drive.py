"""A tape drive is used by one backup at a time; the lock is lock.foo of SETNX's page, with the time at which it is over.

A janitor looks through the locks every hour and deletes those that have longer to go than its own limit, which is shorter
than the time that a full backup announces. The backup is at work; the next one takes the drive without ever being refused.
Keys: lock lock.tape-1, data tape-1:position. The lines marked ! are the evidence.
"""
import multiprocessing
import os
import time

import redis

LOCK, POSITION = "lock.tape-1", "tape-1:position"
JANITOR_LIMIT = 60


def backup(blocks, announced, holds, may_write):
    client = redis.Redis.from_url(os.environ["REDIS_URL"])
    until = time.time() + announced + 1
    if not client.setnx(LOCK, until):  # !
        return
    position = int(client.get(POSITION))  # !
    holds.set()
    may_write.wait(5)
    client.set(POSITION, position + blocks)  # !
    if float(client.get(LOCK) or 0) == until:
        client.delete(LOCK)


def janitor():
    client = redis.Redis.from_url(os.environ["REDIS_URL"], client_name="janitor")
    for key in client.scan_iter("lock.*"):
        if float(client.get(key)) - time.time() > JANITOR_LIMIT:  # "nobody needs a lock for so long"
            client.delete(key)  # !


def main():
    client = redis.Redis.from_url(os.environ["REDIS_URL"])
    client.set(POSITION, 0)
    full_holds, small_holds, small_is_done, at_once = (multiprocessing.Event() for _ in range(4))
    at_once.set()
    full = multiprocessing.Process(target=backup, args=(5000, 7200, full_holds, small_is_done))
    full.start()
    full_holds.wait(5)
    sweep = multiprocessing.Process(target=janitor)
    sweep.start()
    sweep.join()
    small = multiprocessing.Process(target=backup, args=(300, 30, small_holds, at_once))
    small.start()
    small.join()
    small_is_done.set()
    full.join()
    position = int(client.get(POSITION))
    if small_holds.is_set() and position != 5300:
        print(f"damage: 5300 blocks were written by two backups at once, the position is {position}")


if __name__ == "__main__":
    main()
