"""A queue with acknowledgements: an order is moved to the worker's own list, and removed from it when it is done.

One worker dies with an order in its list. A supervisor, which knows that the process is dead, moves the order back.
An order may run twice that way, so each run notes its id with SADD and pays only if it is the first.
Keys: lists orders:waiting and orders:taken:<worker>, set orders:paid, counter orders:cents.
"""
import os
import subprocess
import sys
import time

import redis

WAITING = "orders:waiting"
PAY = """
if redis.call('SADD', KEYS[1], ARGV[1]) == 0 then return 0 end
return redis.call('INCRBY', KEYS[2], ARGV[2])
"""


def connect():
    return redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)


def worker(name, dies_after):
    client = connect()
    taken, done = f"orders:taken:{name}", 0
    pay = client.register_script(PAY)
    while (order := client.lmove(WAITING, taken, "RIGHT", "LEFT")) is not None:
        number, cents = order.split(":")
        pay(keys=["orders:paid", "orders:cents"], args=[number, cents])
        done += 1
        if done == dies_after:
            os._exit(1)  # paid and not acknowledged
        client.lrem(taken, 1, order)


def supervise(client, dead):
    while client.lmove(f"orders:taken:{dead}", WAITING, "RIGHT", "RIGHT") is not None:
        pass


def start(name, dies_after=0):
    return subprocess.Popen([sys.executable, __file__, name, str(dies_after)])


def main():
    client = connect()
    client.lpush(WAITING, *[f"{number}:{number * 100}" for number in range(1, 41)])
    doomed = start("w1", dies_after=3)
    while not client.scard("orders:paid"):
        time.sleep(0.001)
    others = [start("w2"), start("w3")]
    assert doomed.wait() == 1
    supervise(client, "w1")
    for process in [*others, start("w4")]:
        assert process.wait() == 0
    cents, paid = int(client.get("orders:cents")), client.scard("orders:paid")
    assert (cents, paid) == (82_000, 40), (cents, paid)
    assert client.llen(WAITING) == 0
    print("ok: 40 orders were paid once each, although a worker died")


if __name__ == "__main__":
    worker(sys.argv[1], int(sys.argv[2])) if sys.argv[1:] else main()
