"""An archive scans documents: a producer makes a hash for each job, threads work on them and remove them when they are done.

A job is on the queue or on the list of one worker, moved by LMOVE. Result, removal from the list and removal of the hash
are one transaction; a worker that has crashed begins with what is on its list, and doing a page twice gives the same result.
The numbers of jobs are used again for the next box, so a hash is created, removed and created anew.
"""
import os
import threading

import redis

POOL = redis.ConnectionPool.from_url(os.environ["REDIS_URL"], decode_responses=True)
WORKERS, JOBS, BOXES = 4, 20, ("box-a", "box-b")


def produce(r, box):
    for number in range(JOBS):
        with r.pipeline(transaction=True) as new:
            new.hset(f"scan:job:{number}", mapping={"page": f"{box}/{number}", "state": "waiting"})
            new.lpush("scan:queue", number)
            new.execute()


def finish(r, mine, number):
    page = r.hget(f"scan:job:{number}", "page")
    r.hset(f"scan:job:{number}", "state", "running")
    with r.pipeline(transaction=True) as done:
        done.hset("scan:texts", page, f"text of {page}")
        done.lrem(mine, 1, number)
        done.delete(f"scan:job:{number}")
        done.execute()


def worker(index, crash, errors):
    try:
        r = redis.Redis(connection_pool=POOL)
        mine = f"scan:worker:{index}"
        for number in r.lrange(mine, 0, -1):
            finish(r, mine, number)
        while (number := r.lmove("scan:queue", mine, "RIGHT", "LEFT")) is not None:
            if crash:
                return  # with a job on its list
            finish(r, mine, number)
    except Exception as error:
        errors.append(error)


def main():
    r = redis.Redis(connection_pool=POOL)
    errors = []
    for box in BOXES:
        produce(r, box)
        for crashing in ({0, 1}, set()):
            threads = [threading.Thread(target=worker, args=(i, i in crashing, errors)) for i in range(WORKERS)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    assert not errors, errors
    texts = r.hgetall("scan:texts")
    expected = {f"{box}/{number}": f"text of {box}/{number}" for box in BOXES for number in range(JOBS)}
    left = sum(1 for _ in r.scan_iter("scan:job:*"))
    good = texts == expected and left == 0
    print(f"ok: {len(texts)} pages have their text, no job is left" if good else f"damage: {len(texts)} texts, {left} jobs left")


main()
