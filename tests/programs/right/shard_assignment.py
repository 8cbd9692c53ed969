"""Shards are assigned to nodes once and for all: the first node that asks gets a shard.

HSETNX says who was first. An assignment has no end and no expiry, because it is a decision and not a lock; a node that
is taken out of service is removed by the operator, and its shards are given to the others by a plain HSET.
Keys: hash cluster:shards.
"""
import multiprocessing
import os

import redis

SHARDS = "cluster:shards"


def node(name, barrier, mine):
    client = redis.Redis.from_url(os.environ["REDIS_URL"], client_name=name, decode_responses=True)
    for shard in range(12):
        barrier.wait()
        if client.hsetnx(SHARDS, shard, name):
            mine.put((name, shard))


def retire(client, name, successor):
    shards = [shard for shard, owner in client.hgetall(SHARDS).items() if owner == name]
    if shards:
        client.hset(SHARDS, mapping={shard: successor for shard in shards})
    client.hdel("cluster:nodes", name)
    return shards


def main():
    client = redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)
    barrier, mine = multiprocessing.Barrier(3, timeout=5), multiprocessing.Queue()
    names = ["n1", "n2", "n3"]
    client.hset("cluster:nodes", mapping={name: "up" for name in names})
    nodes = [multiprocessing.Process(target=node, args=(name, barrier, mine)) for name in names]
    for process in nodes:
        process.start()
    for process in nodes:
        process.join()

    claimed = dict(reversed(mine.get(timeout=2)) for _ in range(12))
    stored = client.hgetall(SHARDS)
    assert {str(shard): name for shard, name in claimed.items()} == stored, (claimed, stored)
    retire(client, "n1", "n2")
    assert "n1" not in client.hvals(SHARDS) and client.hlen(SHARDS) == 12
    print("ok: each of 12 shards was given to one of three nodes, and to another one when a node went")


if __name__ == "__main__":
    main()
