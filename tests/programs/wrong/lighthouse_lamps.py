"""Lighthouses: keepers add burning hours to the book of a lamp, with the lock whose value is the time it is over.

Wrong: a keeper who finds the time over deletes the lock and takes it by SETNX. The other one, who has found the same
old time, deletes it once more, now the new one's, and is inside as well. The documentation of SETNX warns of it.
"""
import os
import time

import redis

LOCK, HOURS = "lock.lamp.skerries", "lamp:skerries:hours"


def connect():
    return redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)


def until(seconds):
    return repr(time.time() + seconds)


class Keeper:
    """A process that does what its parent writes into a pipe, one step after the other."""

    def __init__(self, steps):
        order, self.orders = os.pipe()
        self.done, done = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            r, memory = connect(), {}
            for step in steps:
                os.read(order, 1)
                step(r, memory)
                os.write(done, b".")
            os._exit(0)

    def step(self):
        os.write(self.orders, b".")
        os.read(self.done, 1)

    def end(self):
        os.waitpid(self.pid, 0)


def find_over(r, memory):
    assert not r.setnx(LOCK, until(60))
    assert float(r.get(LOCK)) < time.time()


def take(r, memory):
    r.delete(LOCK)  # whoever has it by now !
    assert r.setnx(LOCK, until(60))


def read(r, memory):
    memory["hours"] = int(r.get(HOURS))


def write(hours):
    def step(r, memory):
        r.set(HOURS, memory["hours"] + hours)

    return step


def leave(r, memory):
    if r.get(LOCK) and float(r.get(LOCK)) > time.time():
        r.delete(LOCK)


def dies_inside(r, memory):
    assert r.setnx(LOCK, until(0.3))


control = connect()
control.set(HOURS, 900)
dead = Keeper([dies_inside])
dead.step()
dead.end()
time.sleep(0.4)

flood, ebb = (Keeper([find_over, take, read, write(hours), leave]) for hours in (11, 13))
for _ in range(5):
    flood.step()
    ebb.step()
flood.end()
ebb.end()
hours = int(control.get(HOURS))
if hours != 924:
    print(f"damage: 24 hours were entered by two keepers at once, and the book has {hours - 900} more")
