"""Day-end bookings of several cashiers, with the Lock of redis-py as its documentation shows it.

Each booking waits for the lock with a timeout, and the error of a lock that was not got in time ends the cashier
instead of letting it go on.
Keys: lock ledger:closing, data ledger:sum and ledger:lines.
"""
import multiprocessing
import os
import time

import redis


def cashier(name, amounts, barrier):
    client = redis.Redis.from_url(os.environ["REDIS_URL"], client_name=name)
    barrier.wait()
    for amount in amounts:
        with client.lock("ledger:closing", timeout=20, blocking_timeout=15, sleep=0.005):
            total = int(client.get("ledger:sum") or 0)
            lines = client.llen("ledger:lines")
            time.sleep(0.004)
            client.rpush("ledger:lines", f"{lines + 1} {name} {amount}")
            client.set("ledger:sum", total + amount)


def main():
    barrier = multiprocessing.Barrier(3, timeout=5)
    books = {"till-1": [10, 20, 30, 40], "till-2": [5, 5, 5, 5], "till-3": [100, 1, 100, 1]}
    cashiers = [multiprocessing.Process(target=cashier, args=(*book, barrier)) for book in books.items()]
    for process in cashiers:
        process.start()
    for process in cashiers:
        process.join()
        assert process.exitcode == 0
    client = redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)
    lines = client.lrange("ledger:lines", 0, -1)
    assert [int(line.split()[0]) for line in lines] == list(range(1, 13)), lines
    assert int(client.get("ledger:sum")) == 322
    print("ok: 12 bookings of three cashiers are numbered without a gap and add up")


if __name__ == "__main__":
    main()
