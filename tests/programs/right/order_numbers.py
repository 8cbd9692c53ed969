"""Order numbers and daily totals, counted with INCR and HINCRBY by several shops.

The counters are atomic, so no lock is needed. A shop also reads the counters, to show them; what it reads is never
written back.
Keys: orders:number, hash orders:totals.
"""
import collections
import os
import threading

import redis

POOL = redis.ConnectionPool.from_url(os.environ["REDIS_URL"], max_connections=6)


def shop(name, orders, numbers, shown):
    client = redis.Redis(connection_pool=POOL)
    for cents in orders:
        shown.append(int(client.get("orders:number") or 0))
        number = client.incr("orders:number")
        with client.pipeline(transaction=False) as pipe:
            pipe.hincrby("orders:totals", name, cents).hincrby("orders:totals", "all", cents).execute()
        client.hget("orders:totals", "all")
        numbers.append(number)


def main():
    numbers, shown = collections.deque(), collections.deque()
    shops = [
        threading.Thread(target=shop, args=(name, [100 + n for n in range(50)], numbers, shown))
        for name in ("berlin", "paris", "rome", "oslo")
    ]
    for thread in shops:
        thread.start()
    for thread in shops:
        thread.join()
    totals = {name.decode(): int(cents) for name, cents in redis.Redis(connection_pool=POOL).hgetall("orders:totals").items()}
    assert sorted(numbers) == list(range(1, 201))
    assert totals.pop("all") == sum(totals.values()) == 4 * sum(100 + n for n in range(50))
    assert max(shown) < 200
    print("ok: 200 orders of four shops have 200 numbers, and the totals agree")


if __name__ == "__main__":
    main()
