"""Prices are changed by several people; a change that was made from an old version is refused.

The form shows a price with its version. The script writes only if the version is still the same, and counts it up; a
refused change is shown again with the new price. No lock is held while somebody thinks.
Keys: hash price:<article> (fields cents, version).
"""
import multiprocessing
import os

import redis

KEY = "price:chair"
CHANGE = """
if redis.call('HGET', KEYS[1], 'version') ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'cents', ARGV[2], 'version', ARGV[1] + 1)
return 1
"""


def raise_price(cents, barrier, refused):
    client = redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)
    change = client.register_script(CHANGE)
    is_first = True
    while True:
        price = client.hgetall(KEY)
        if is_first:
            barrier.wait()
            is_first = False
        if change(keys=[KEY], args=[price["version"], int(price["cents"]) + cents]):
            return
        with refused.get_lock():
            refused.value += 1


def main():
    client = redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)
    client.hset(KEY, mapping={"cents": 10_000, "version": 1})
    barrier, refused = multiprocessing.Barrier(4, timeout=5), multiprocessing.Value("i", 0)
    people = [multiprocessing.Process(target=raise_price, args=(cents, barrier, refused)) for cents in (100, 250, 30, 7)]
    for person in people:
        person.start()
    for person in people:
        person.join()
    price = client.hgetall(KEY)
    assert price == {"cents": "10387", "version": "5"} and refused.value >= 3, (price, refused.value)
    print("ok: four changes add up, and those made from an old version were refused first")


if __name__ == "__main__":
    main()
