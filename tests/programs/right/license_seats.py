"""Two licences of a CAD program, handed out as tokens in a list.

The tokens are put there once, before any worker starts. A worker takes one with BLPOP, gives back the very token that
it has taken, and only once; nobody else gives tokens back.
Keys: list cad:seats.
"""
import multiprocessing
import os
import time
from contextlib import contextmanager

import redis

SEATS = "cad:seats"


@contextmanager
def seat(client):
    taken = client.blpop([SEATS], timeout=4)
    if taken is None:
        raise TimeoutError("no seat became free")
    try:
        yield taken[1]
    finally:
        client.rpush(SEATS, taken[1])


def designer(drawings, in_use, done):
    client = redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)
    for _ in range(drawings):
        with seat(client) as token:
            number = int(token.removeprefix("seat-"))
            with in_use.get_lock():
                assert in_use[number] == 0, f"{token} was given to two"
                in_use[number] = 1
            time.sleep(0.004)
            with in_use.get_lock():
                in_use[number] = 0
    done.put(drawings)


def main():
    client = redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)
    client.rpush(SEATS, "seat-0", "seat-1")
    in_use, done = multiprocessing.Array("i", 2), multiprocessing.Queue()
    designers = [multiprocessing.Process(target=designer, args=(15, in_use, done)) for _ in range(4)]
    for process in designers:
        process.start()
    for process in designers:
        process.join()
        assert process.exitcode == 0
    drawings = sum(done.get(timeout=2) for _ in designers)
    assert drawings == 60 and sorted(client.lrange(SEATS, 0, -1)) == ["seat-0", "seat-1"]
    print("ok: four designers made 60 drawings on two seats, no seat was used by two at once")


if __name__ == "__main__":
    main()
