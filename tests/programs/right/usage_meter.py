"""API usage is counted in Redis and moved to a database every now and then.

Servers count with INCRBY. A collector takes what has been counted with GETDEL, one atomic step, and adds it to the database;
what is counted meanwhile starts again from nothing. Two collectors run at once, and neither takes what the other has.
Usage is a figure and no invoice: what a collector had in hand when it crashed may be missing.
Keys: usage:<tenant>. The sums are in the database.
"""
import multiprocessing
import os
import sqlite3
import tempfile
import time

import redis

TENANTS = ["acme", "globex"]


def server(calls, barrier):
    client = redis.Redis.from_url(os.environ["REDIS_URL"])
    barrier.wait()
    for n in range(calls):
        client.incrby(f"usage:{TENANTS[n % 2]}", 1 + n % 3)
        client.get(f"usage:{TENANTS[n % 2]}")  # shown in a header of the answer


def collect(client, path):
    for tenant in TENANTS:
        used = client.getdel(f"usage:{tenant}")
        if used is not None:
            with sqlite3.connect(path, timeout=5) as database:
                database.execute("UPDATE usage SET units = units + ? WHERE tenant = ?", (int(used), tenant))


def collector(path, stop):
    client = redis.Redis.from_url(os.environ["REDIS_URL"])
    while not stop.is_set():
        collect(client, path)
        time.sleep(0.005)


def main():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "usage.db")
        with sqlite3.connect(path) as database:
            database.execute("CREATE TABLE usage (tenant TEXT, units INTEGER)")
            database.executemany("INSERT INTO usage VALUES (?, 0)", [(tenant,) for tenant in TENANTS])
        barrier, stop = multiprocessing.Barrier(3, timeout=5), multiprocessing.Event()
        servers = [multiprocessing.Process(target=server, args=(300, barrier)) for _ in range(3)]
        collectors = [multiprocessing.Process(target=collector, args=(path, stop)) for _ in range(2)]
        for process in servers + collectors:
            process.start()
        for process in servers:
            process.join()
        stop.set()
        for process in collectors:
            process.join()
        collect(redis.Redis.from_url(os.environ["REDIS_URL"]), path)
        with sqlite3.connect(path) as database:
            units = dict(database.execute("SELECT tenant, units FROM usage"))
        assert sum(units.values()) == 3 * sum(1 + n % 3 for n in range(300)), units
        print(f"ok: all {sum(units.values())} units of two tenants are in the database")


if __name__ == "__main__":
    main()
