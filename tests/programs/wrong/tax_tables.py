"""Tax tables are updated by a nightly job and by a web form, both behind the same lock.

The form's settings name database 1 for everything but the tables. Names in two databases are two keys: each side takes
"its" lock:tax, and both change the table in database 0.
Keys: lock lock:tax in databases 0 and 1, data tax:table (a hash in database 0). The lines marked ! are the evidence.
"""
import json
import multiprocessing
import os
import uuid

import redis

RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end"


class TaxTable:
    def __init__(self, lock_database):
        url = os.environ["REDIS_URL"]
        self.tables = redis.Redis.from_url(url, db=0)
        self.locks = self.tables if lock_database == 0 else redis.Redis.from_url(url, db=lock_database)

    def change(self, country, rate, between):
        token = str(uuid.uuid4())
        if not self.locks.set("lock:tax", token, nx=True, ex=30):  # !
            raise RuntimeError("somebody changes the table")
        table = json.loads(self.tables.hget("tax:table", "rates"))  # !
        between()
        table[country] = rate
        self.tables.hset("tax:table", "rates", json.dumps(table))  # !
        self.locks.eval(RELEASE, 1, "lock:tax", token)


def job(barrier):
    def between():
        barrier.wait()

    TaxTable(0).change("DE", 19, between)
    barrier.wait()


def form(barrier):
    def between():
        barrier.wait()
        barrier.wait()

    TaxTable(1).change("FR", 20, between)


def main():
    tables = redis.Redis.from_url(os.environ["REDIS_URL"], db=0)
    tables.hset("tax:table", "rates", json.dumps({"DE": 16, "FR": 19}))
    barrier = multiprocessing.Barrier(2, timeout=5)
    parties = [multiprocessing.Process(target=party, args=(barrier,)) for party in (job, form)]
    for party in parties:
        party.start()
    for party in parties:
        party.join()
    rates = json.loads(tables.hget("tax:table", "rates"))
    if rates != {"DE": 19, "FR": 20}:
        print(f"damage: the rate of DE was set to 19 under a lock and is {rates['DE']}")


if __name__ == "__main__":
    main()
