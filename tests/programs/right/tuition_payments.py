"""Music school: tuition is booked once for each request, however often the request comes.

Right: the first one claims the request by SET NX, books, and puts the receipt in the place of its claim, both in one
transaction. The others go by the answer of SET and wait for the receipt. A claim has no lease: a booking that was
cut off stays open for the office, and is not repeated.
"""
import os
import threading
import time
from multiprocessing import Barrier, Process, SimpleQueue

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

CLAIM = "in progress"


def book(r, request, pupil, euros):
    key = f"tuition:request:{request}"
    if r.set(key, CLAIM, nx=True):
        with r.pipeline() as pipe:
            pipe.incrby(f"tuition:paid:{pupil}", euros)
            pipe.set(key, f"receipt for {euros}", xx=True)
            pipe.execute()
    while (receipt := r.get(key)) == CLAIM:
        time.sleep(0.01)
    return receipt


def office(together, receipts):
    once = Retry(NoBackoff(), 0)  # a transaction whose answer is lost is not sent again
    r = redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True, retry=once)

    def request():
        together.wait(15)
        receipts.put(book(r, "2024-09-violin", "mila", 85))

    threads = [threading.Thread(target=request) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    together, receipts = Barrier(6), SimpleQueue()
    offices = [Process(target=office, args=(together, receipts)) for _ in range(2)]
    for process in offices:
        process.start()
    for process in offices:
        process.join()
    got = {receipts.get() for _ in range(6)}
    paid = redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True).get("tuition:paid:mila")
    assert got == {"receipt for 85"} and paid == "85", (got, paid)
    print(f"ok: the request came six times, and {paid} are paid")
