"""An observatory has one telescope. Who pops the baton from a list may point it, and pushes the baton back afterwards.

Wrong: a watchdog thread takes an empty list for a lost baton and pushes a new one. But the list is also empty while somebody points
the telescope: there are two batons then, and two astronomers write the log of the dome from the same state.
"""
import os
import threading

import redis

POOL = redis.ConnectionPool.from_url(os.environ["REDIS_URL"], decode_responses=True)
BATON, EXPOSURES = "dome:west:baton", "dome:west:exposures"


def astronomer(exposures, has_read, may_write, done, errors):
    try:
        r = redis.Redis(connection_pool=POOL)
        baton = r.lpop(BATON)
        assert baton, "no baton"
        count = int(r.get(EXPOSURES))
        has_read.set()
        assert may_write.wait(15)
        r.set(EXPOSURES, count + exposures)  # counted by two at once!
        done.set()
        r.rpush(BATON, baton)
    except Exception as error:
        errors.append(error)


def watchdog():
    r = redis.Redis(connection_pool=POOL)
    if r.llen(BATON) == 0:
        r.rpush(BATON, "baton")  # the baton is not lost, an astronomer has it!


def main():
    r = redis.Redis(connection_pool=POOL)
    r.set(EXPOSURES, 100)
    r.rpush(BATON, "baton")
    first_read, second_read, first_done, second_done = (threading.Event() for _ in range(4))
    errors = []
    first = threading.Thread(target=astronomer, args=(30, first_read, second_read, first_done, errors))
    first.start()
    assert first_read.wait(15)
    guard = threading.Thread(target=watchdog)
    guard.start()
    guard.join()
    second = threading.Thread(target=astronomer, args=(8, second_read, first_done, second_done, errors))
    second.start()
    for thread in (first, second):
        thread.join()
    assert not errors, errors

    count, batons = int(r.get(EXPOSURES)), r.llen(BATON)
    if count != 138 or batons != 1:
        print(f"damage: {count - 100} of 38 exposures are counted, and there are {batons} batons")
    else:
        print("ok: 38 exposures are counted")


main()
