"""A pottery has one kiln and several order desks. Who gets 1 from INCR on the gate may load the kiln.

Wrong: who is refused takes its own increment back with DECR, but later, when the gate has been deleted and taken by somebody else.
Then the gate is at 0 with a desk inside, and the next INCR gives 1 again: two load the kiln.
"""
import multiprocessing
import os

import redis

GATE, LOAD = "kiln:b:gate", "kiln:b:pieces"


def connect():
    return redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)


def busy_desk(e):
    r = connect()
    assert r.incr(GATE) == 1
    e["first_in"].set()
    assert e["refused"].wait(15)
    r.set(LOAD, int(r.get(LOAD)) + 10)
    r.delete(GATE)
    assert r.incr(GATE) == 1  # its second load
    pieces = int(r.get(LOAD))
    e["second_in"].set()
    assert e["other_has_read"].wait(15)
    r.set(LOAD, pieces + 10)
    r.delete(GATE)
    e["second_written"].set()


def slow_desk(e):
    r = connect()
    assert e["first_in"].wait(15)
    assert r.incr(GATE) == 2
    e["refused"].set()
    assert e["second_in"].wait(15)
    r.decr(GATE)  # takes away the increment of the desk that is inside now!
    e["given_back"].set()


def third_desk(e):
    r = connect()
    assert e["given_back"].wait(15)
    assert r.incr(GATE) == 1  # goes in beside the busy desk!
    pieces = int(r.get(LOAD))
    e["other_has_read"].set()
    assert e["second_written"].wait(15)
    r.set(LOAD, pieces + 3)  # the load of the busy desk is not in this sum!
    r.delete(GATE)


def main():
    r = connect()
    r.set(LOAD, 0)
    spawn = multiprocessing.get_context("spawn")
    names = ("first_in", "refused", "second_in", "given_back", "other_has_read", "second_written")
    events = {name: spawn.Event() for name in names}
    desks = [spawn.Process(target=desk, args=(events,)) for desk in (busy_desk, slow_desk, third_desk)]
    for process in desks:
        process.start()
    for process in desks:
        process.join(15)
        assert process.exitcode == 0
    pieces = int(r.get(LOAD))
    print(f"damage: 23 pieces were loaded, {pieces} are counted" if pieces != 23 else "ok: all pieces are counted")


if __name__ == "__main__":
    main()
