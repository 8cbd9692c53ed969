"""An invoice service with four threads in each of two processes; each thread has a lock object of its own.

All threads share one pool. The Lock of redis-py keeps its token per thread, a release is that of the thread that has
acquired, and a thread that is refused waits.
Keys: locks invoice:<customer>:guard, data invoice:<customer>:open.
"""
import multiprocessing
import os
import threading
import time

import redis

CUSTOMERS = ["c1", "c2"]


class InvoiceService:
    def __init__(self):
        pool = redis.ConnectionPool.from_url(os.environ["REDIS_URL"], max_connections=8)
        self.client = redis.Redis(connection_pool=pool)

    def add(self, customer, cents):
        with self.client.lock(f"invoice:{customer}:guard", timeout=20, blocking_timeout=10, sleep=0.003):
            before = int(self.client.get(f"invoice:{customer}:open") or 0)
            time.sleep(0.001)
            self.client.set(f"invoice:{customer}:open", before + cents)


def serve(barrier):
    service = InvoiceService()
    barrier.wait()

    def work(cents):
        for customer in CUSTOMERS * 3:
            service.add(customer, cents)

    threads = [threading.Thread(target=work, args=(cents,)) for cents in (1, 10, 100, 1000)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def main():
    barrier = multiprocessing.Barrier(2, timeout=5)
    processes = [multiprocessing.Process(target=serve, args=(barrier,)) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    client = redis.Redis.from_url(os.environ["REDIS_URL"])
    sums = [int(client.get(f"invoice:{customer}:open")) for customer in CUSTOMERS]
    assert sums == [6666, 6666], sums
    print("ok: 48 changes of two invoices by eight threads add up")


if __name__ == "__main__":
    main()
