"""Price feeds are merged by one worker at a time.

The release compares the value before it deletes, but everybody writes the same value, "locked". A worker whose lease
is over deletes the lock of the next one, and a third enters while that one is at work.
Keys: lock feed:merge:lock, data feed:prices. The lines marked ! are the evidence.
"""
import multiprocessing
import os
import time

import redis

LOCK, PRICES, VALUE = "feed:merge:lock", "feed:prices", "locked"
DELETE_IF = """
if redis.call('get', KEYS[1]) == ARGV[1] then
    return redis.call('del', KEYS[1])
end
return 0
"""


def merge(feed, link):
    client = redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)
    delete_if = client.register_script(DELETE_IF)
    while not client.set(LOCK, VALUE, nx=True, px=500):  # !
        time.sleep(0.02)
    prices = client.lrange(PRICES, 0, -1)  # !
    link.send("holds")
    link.recv()
    if feed != "slow":
        with client.pipeline() as pipe:
            pipe.delete(PRICES).rpush(PRICES, *prices, feed).execute()  # !
    delete_if(keys=[LOCK], args=[VALUE])  # !
    link.send("released")


def worker(feed):
    here, there = multiprocessing.Pipe()
    multiprocessing.Process(target=merge, args=(feed, there), daemon=True).start()
    assert here.recv() == "holds"
    return here


def finish(link):
    link.send("finish")
    assert link.recv() == "released"


def main():
    client = redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)
    slow = worker("slow")
    london = worker("london")
    finish(slow)  # deletes the lock of london
    tokyo = worker("tokyo")
    finish(london)
    finish(tokyo)
    prices = client.lrange(PRICES, 0, -1)
    if prices != ["london", "tokyo"]:
        print(f"damage: the feeds london and tokyo were merged, the prices are those of {' and '.join(prices)}")


if __name__ == "__main__":
    main()
