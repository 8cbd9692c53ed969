"""The stock of a branch is on the branch's server, the locks are on the one of the head office.

The till reads the stock before it has the lock, because the two servers are far apart, and writes what it has computed
inside. Two tills take the lock one after the other, and the second one writes from what it read before the first one's sale.
Keys: lock branch:5:lock on the first server, data branch:5:stock on the second. The lines marked ! are the evidence.
"""
import multiprocessing
import os
import secrets
import time

import redis

LOCK, STOCK = "branch:5:lock", "branch:5:stock"
RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end"


class Till:
    def __init__(self):
        head_office, branch = os.environ["REDIS_URLS"].split(",")[:2]
        self.locks = redis.Redis.from_url(head_office)
        self.stock = redis.Redis.from_url(branch)

    def sell(self, pieces, barrier):
        token = secrets.token_hex(16)
        have = int(self.stock.get(STOCK))  # !
        barrier.wait()
        while not self.locks.set(LOCK, token, nx=True, ex=20):
            time.sleep(0.01)
        try:
            if have >= pieces:
                self.stock.set(STOCK, have - pieces)  # !
        finally:
            self.locks.eval(RELEASE, 1, LOCK, token)


def till(pieces, barrier):
    Till().sell(pieces, barrier)


def main():
    branch = redis.Redis.from_url(os.environ["REDIS_URLS"].split(",")[1])
    branch.set(STOCK, 40)
    barrier = multiprocessing.Barrier(2, timeout=5)
    tills = [multiprocessing.Process(target=till, args=(pieces, barrier)) for pieces in (3, 8)]
    for process in tills:
        process.start()
    for process in tills:
        process.join()
    left = int(branch.get(STOCK))
    if left != 29:
        print(f"damage: 11 of 40 pieces were sold, {left} are left in the books")


if __name__ == "__main__":
    main()
