"""Boatyard: masters put lifts into the book of the crane, with a lock over three servers.

Right: it needs two of the three, and gives back what it got if it has fewer. The lock saves work, it is not trusted:
the book is written by a script that compares it with what was read, so that a master whose lease ran out is refused
and starts over.
"""
import os
import time
from multiprocessing import Event, Process
from uuid import uuid4

import redis

LOCK, LIFTS = "boatyard:crane", "boatyard:lifts"
RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"
WRITE = "if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end redis.call('set', KEYS[1], ARGV[2]) return 1"


def servers():
    return [redis.Redis.from_url(url, decode_responses=True) for url in os.environ["REDIS_URLS"].split(",")]


def majority(nodes, lease):
    """A token when at least two servers gave it before the lease was over, else None."""
    token, begin = uuid4().hex, time.monotonic()
    given = sum(bool(node.set(LOCK, token, nx=True, px=lease)) for node in nodes)
    if given > len(nodes) // 2 and (time.monotonic() - begin) * 1000 < lease * 0.99 - 2:
        return token
    give_back(nodes, token)
    return None


def give_back(nodes, token):
    for node in nodes:
        node.eval(RELEASE, 1, LOCK, token)


def master(boat, leases, has_read, may_write):
    nodes = servers()
    for node in nodes:
        node.ping()  # connects, which is not to be counted against the lease
    while True:
        while not (token := majority(nodes, leases[0])):
            time.sleep(0.05)
        book = nodes[0].get(LIFTS)
        has_read.set()
        may_write.wait(15)
        written = boat in book or nodes[0].eval(WRITE, 1, LIFTS, book, f"{book}; {boat}")
        give_back(nodes, token)
        if written:
            return
        leases = leases[1:]


def start(boat, *leases):
    has_read, may_write = Event(), Event()
    process = Process(target=master, args=(boat, leases, has_read, may_write))
    process.start()
    assert has_read.wait(15)
    return process, may_write


def main():
    book = servers()[0]
    book.set(LIFTS, "crane greased")
    stalled = start("Gannet", 500, 60_000)
    second = start("Petrel", 60_000)  # once the lease of the first is over
    for process, may_write in (second, stalled):
        may_write.set()
        process.join()
    lifts = book.get(LIFTS)
    assert lifts == "crane greased; Petrel; Gannet", lifts
    print(f"ok: the late master was refused and came again: {lifts}")


if __name__ == "__main__":
    main()
