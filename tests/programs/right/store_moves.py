"""A chain moves stock between its stores. Threads share a pool, so lock, reads and writes of a move go over different connections.

A store is locked by a key without an expiry, and only who has put the token there deletes it: a slow move keeps
everybody out, and a crashed one until somebody looks after it. Two stores are locked in the order of their names, and
written in one transaction.
"""
import os
import random
import secrets
import threading
import time

import redis

POOL = redis.BlockingConnectionPool.from_url(os.environ["REDIS_URL"], max_connections=4, decode_responses=True)
RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"
STORES, START, MOVES = ("altona", "barmbek", "city"), 100, 8


def lock(r, store, token):
    while not r.set(f"store:{store}:moving", token, nx=True):
        time.sleep(0.002)


def mover(seed, changes, errors):
    try:
        r, choice = redis.Redis(connection_pool=POOL), random.Random(seed)
        for _ in range(MOVES):
            source, target = choice.sample(STORES, 2)
            amount, token = choice.randint(1, 5), secrets.token_hex(16)
            for store in sorted((source, target)):
                lock(r, store, token)
            have, there = int(r.get(f"store:{source}:stock")), int(r.get(f"store:{target}:stock"))
            with r.pipeline(transaction=True) as move:
                move.set(f"store:{source}:stock", have - amount)
                move.set(f"store:{target}:stock", there + amount)
                move.execute()
            for store in (source, target):
                assert r.eval(RELEASE, 1, f"store:{store}:moving", token) == 1
            changes.append((source, target, amount))
    except Exception as error:
        errors.append(error)


def main():
    r = redis.Redis(connection_pool=POOL)
    for store in STORES:
        r.set(f"store:{store}:stock", START)
    changes, errors = [], []
    movers = [threading.Thread(target=mover, args=(seed, changes, errors)) for seed in range(4)]
    for thread in movers:
        thread.start()
    for thread in movers:
        thread.join()
    assert not errors, errors
    expected = {store: START for store in STORES}
    for source, target, amount in changes:
        expected[source] -= amount
        expected[target] += amount
    stock = {store: int(r.get(f"store:{store}:stock")) for store in STORES}
    print(f"ok: stock after {len(changes)} moves: {stock}" if stock == expected else f"damage: {stock}, expected {expected}")


main()
