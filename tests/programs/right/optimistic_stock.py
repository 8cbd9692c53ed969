"""Stock is reserved without a lock, by optimistic transactions.

The key is watched first, then read, then written in MULTI. If somebody has written in between, EXEC writes nothing and
the reservation starts again with a fresh read. The writers collide in the first round by a barrier.
Keys: stock:<article>.
"""
import json
import multiprocessing
import os

import redis

KEY = "stock:mug"


def reserve(order, pieces, barrier, collisions):
    client = redis.Redis.from_url(os.environ["REDIS_URL"])
    is_first_try = True
    with client.pipeline() as pipe:
        while True:
            try:
                pipe.watch(KEY)
                stock = json.loads(pipe.get(KEY))
                if is_first_try:
                    barrier.wait()
                    is_first_try = False
                if stock["free"] < pieces:
                    return
                stock["free"] -= pieces
                stock["reserved"][order] = pieces
                pipe.multi()
                pipe.set(KEY, json.dumps(stock))
                pipe.execute()
                return
            except redis.WatchError:
                with collisions.get_lock():
                    collisions.value += 1


def main():
    client = redis.Redis.from_url(os.environ["REDIS_URL"])
    client.set(KEY, json.dumps({"free": 10, "reserved": {}}))
    barrier, collisions = multiprocessing.Barrier(4, timeout=5), multiprocessing.Value("i", 0)
    orders = [("o1", 3), ("o2", 3), ("o3", 3), ("o4", 3)]
    shops = [multiprocessing.Process(target=reserve, args=(*order, barrier, collisions)) for order in orders]
    for shop in shops:
        shop.start()
    for shop in shops:
        shop.join()
    stock = json.loads(client.get(KEY))
    assert stock["free"] == 1 and len(stock["reserved"]) == 3, stock
    assert collisions.value >= 3, collisions.value
    print("ok: three of four reservations fit, 10 pieces are accounted for, and collisions were tried again")


if __name__ == "__main__":
    main()
