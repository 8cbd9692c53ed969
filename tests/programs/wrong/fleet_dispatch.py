"""Vehicles are claimed in one hash; claims that are too old are taken over.

A dispatcher claims with HSETNX and writes the time. A claim older than the limit belongs to a dead dispatcher: it is
removed with HDEL, and HSETNX claims anew. Two dispatchers see the same old claim. The later HDEL removes the claim that
the other one has just made, and both send the vehicle out.
Keys: hash dispatch:claims (field: the vehicle), data dispatch:van-3:trips. The lines marked ! are the evidence.
"""
import multiprocessing
import os
import time

import redis

CLAIMS, MAX_AGE = "dispatch:claims", 30


def stale(claim):
    return time.time() - float(claim.decode().split("@")[1]) > MAX_AGE


def claim(client, vehicle, dispatcher, link):
    mine = f"{dispatcher}@{time.time()}"
    if client.hsetnx(CLAIMS, vehicle, mine):
        return True
    if not stale(client.hget(CLAIMS, vehicle)):  # !
        return False
    link.send("stale")
    link.recv()
    client.hdel(CLAIMS, vehicle)  # !
    return bool(client.hsetnx(CLAIMS, vehicle, mine))  # !


def dispatcher(name, link):
    client = redis.Redis.from_url(os.environ["REDIS_URL"])
    if claim(client, "van-3", name, link):
        link.send("claimed")
        link.recv()
        client.rpush("dispatch:van-3:trips", name)
        client.hdel(CLAIMS, "van-3")
    link.send("done")


def main():
    client = redis.Redis.from_url(os.environ["REDIS_URL"])
    client.hsetnx(CLAIMS, "van-3", f"dead@{time.time() - 3600}")

    links = []
    for name in ("east", "west"):
        here, there = multiprocessing.Pipe()
        multiprocessing.Process(target=dispatcher, args=(name, there), daemon=True).start()
        assert here.recv() == "stale"
        links.append(here)
    for link in links:
        link.send("go")
        assert link.recv() == "claimed"
    for link in links:
        link.send("go")
        assert link.recv() == "done"
    trips = [name.decode() for name in client.lrange("dispatch:van-3:trips", 0, -1)]
    if len(trips) > 1:
        print(f"damage: one van was sent out by {' and '.join(trips)} at once")


if __name__ == "__main__":
    main()
