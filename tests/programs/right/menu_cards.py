"""A delivery service keeps the rendered menu of each bistro in a cache. Waiters fill it with SET NX, the kitchen deletes it.

A waiter that has read the dishes before a change may fill the cache after it: that card is old, and lives for as long
as every card does. That is what the cache promises. The dishes themselves are written by the kitchen only, field by field.
"""
import json
import multiprocessing
import os
import time

import redis

DISHES, CARD, LIFE = "bistro:17:dishes", "menu:card:17", 400


def connect():
    return redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)


def card(r, between=None):
    found = r.get(CARD)
    if found is None:
        found = json.dumps(r.hgetall(DISHES))
        if between:
            between()
        r.set(CARD, found, nx=True, px=LIFE)
    return json.loads(found)


def slow_waiter(read, changed, filled):
    def between():
        read.set()
        assert changed.wait(15)

    assert card(connect(), between)["soup"] == "5"
    filled.set()


def kitchen(read, changed, filled):
    r = connect()
    assert read.wait(15)
    r.hset(DISHES, "soup", 6)
    r.delete(CARD)
    changed.set()


def quick_waiter(read, changed, filled):
    r = connect()
    assert filled.wait(15)
    card(r)
    while r.exists(CARD):
        time.sleep(0.02)
    assert card(r)["soup"] == "6"


def main():
    r = connect()
    r.hset(DISHES, mapping={"soup": 5, "pasta": 11})
    spawn = multiprocessing.get_context("spawn")
    events = [spawn.Event() for _ in range(3)]
    parties = [spawn.Process(target=party, args=events) for party in (slow_waiter, kitchen, quick_waiter)]
    for process in parties:
        process.start()
    for process in parties:
        process.join(15)
    fresh = all(process.exitcode == 0 for process in parties)
    dishes = r.hgetall(DISHES)
    if fresh and dishes == {"soup": "6", "pasta": "11"}:
        print("ok: the dishes have the new price, and the card has it after one life of the cache")
    else:
        print(f"damage: dishes {dishes}, exit codes {[process.exitcode for process in parties]}")


if __name__ == "__main__":
    main()
