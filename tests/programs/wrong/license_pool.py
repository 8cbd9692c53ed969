"""One licence for a solver, handed out as a token in a list.

A worker takes the token with BLPOP and pushes it back. A supervisor pushes it back for workers that take too long,
but the slow worker is alive and pushes it back as well: the list has two tokens for one licence, and two solve at once.
Keys: list licences:solver:free, data licences:solver:log. The lines marked ! are the evidence.
"""
import multiprocessing
import os

import redis

FREE = "licences:solver:free"


def solve(name, link):
    client = redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)
    taken = client.blpop([FREE], timeout=4)  # !
    if taken is None:
        return
    token = taken[1]
    using = client.incr("licences:solver:in-use")
    link.send(using)
    link.recv()
    client.decr("licences:solver:in-use")
    client.rpush(FREE, token)  # !
    link.send("returned")


def start(name):
    here, there = multiprocessing.Pipe()
    multiprocessing.Process(target=solve, args=(name, there), daemon=True).start()
    return here


def end(link):
    link.send("end")
    assert link.recv() == "returned"


def supervise(client):
    """Gives the token back for a worker that is over its time."""
    client.rpush(FREE, "seat-1")  # !


def main():
    client = redis.Redis.from_url(os.environ["REDIS_URL"])
    client.rpush(FREE, "seat-1")

    slow = start("slow")
    slow.recv()
    second = start("second")
    supervise(client)
    second.recv()
    end(slow)  # the second token
    third = start("third")
    using = third.recv()  # while the second one solves
    end(second)
    end(third)
    tokens = client.llen(FREE)
    if using > 1:
        print(f"damage: {using} solvers ran on one licence, and the list has {tokens} tokens now")


if __name__ == "__main__":
    main()
