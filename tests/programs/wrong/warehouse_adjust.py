"""Two receiving desks book deliveries of one article.

The stock of an article is one JSON document. A desk reads it, adds its delivery and writes the whole document back.
Both desks have read before either writes, so the delivery that is written first is lost.
Keys: warehouse:article:<number>. There is no lock. The lines marked ! are the evidence.
"""
import json
import multiprocessing
import os

import redis

ARTICLE = "warehouse:article:4711"


def receive(quantity, has_read, may_write):
    r = redis.Redis.from_url(os.environ["REDIS_URL"])
    document = json.loads(r.get(ARTICLE))  # !
    has_read.set()
    may_write.wait(5)
    document["on_hand"] += quantity
    document["deliveries"] += 1
    r.set(ARTICLE, json.dumps(document))  # !


def main():
    r = redis.Redis.from_url(os.environ["REDIS_URL"])
    r.set(ARTICLE, json.dumps({"name": "bracket", "on_hand": 100, "deliveries": 0}))

    read_by_north, read_by_south = multiprocessing.Event(), multiprocessing.Event()
    # Each desk writes once the other one has read.
    north = multiprocessing.Process(target=receive, args=(40, read_by_north, read_by_south))
    south = multiprocessing.Process(target=receive, args=(25, read_by_south, read_by_north))
    north.start()
    south.start()
    north.join()
    south.join()

    document = json.loads(r.get(ARTICLE))
    if document["on_hand"] < 165:
        print(f"damage: 165 pieces were delivered, {document['on_hand']} are on hand after {document['deliveries']} delivery")


if __name__ == "__main__":
    main()
