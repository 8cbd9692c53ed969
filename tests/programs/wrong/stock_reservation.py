"""A warehouse service with a pool of threads. The lock's value is the name of the host, so that "my own" lock can be entered again.

All threads of the service have that name: a thread that is refused finds its own host in the lock and goes in, although it
is another thread that holds it. Two reservations read the same stock.
Keys: locks reserve:<article>, data onhand:<article>. The lines marked ! are the evidence.
"""
import concurrent.futures
import os
import socket
import threading

import redis

OWNER = socket.gethostname()
KEY, STOCK = "reserve:A-77", "onhand:A-77"


def reserve(pieces, has_read, may_write):
    client = redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)
    entered = client.set(KEY, OWNER, nx=True, ex=60) or client.get(KEY) == OWNER  # !
    if not entered:
        return
    left = int(client.get(STOCK))  # !
    has_read.set()
    may_write.wait(5)
    client.set(STOCK, left - pieces)  # !
    if client.get(KEY) == OWNER:
        client.delete(KEY)


def main():
    client = redis.Redis.from_url(os.environ["REDIS_URL"])
    client.set(STOCK, 50)
    first_has_read, second_has_read, second_is_done, now = (threading.Event() for _ in range(4))
    now.set()
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        first = pool.submit(reserve, 30, first_has_read, second_is_done)
        first_has_read.wait(5)
        pool.submit(reserve, 15, second_has_read, now).result()
        second_is_done.set()
        first.result()
    left = int(client.get(STOCK))
    if left != 5:
        print(f"damage: 45 of 50 pieces are reserved, and {left} are said to be left")


if __name__ == "__main__":
    main()
