"""At most two calls at a time to a partner that blocks whoever makes more.

Slots are members of a sorted set, scored by time. A caller removes those that are too old, counts with ZCARD, and adds
itself if there is room. The count and the addition are two commands: three callers count one, and all add themselves.
Keys: sorted set partner:slots. The lines marked ! are the evidence.
"""
import os
import threading
import time
import uuid

import redis

SLOTS, LIMIT = "partner:slots", 2


class Partner:
    """Counts the calls that are under way, as the partner does."""

    def __init__(self):
        self.lock, self.now, self.most = threading.Lock(), 0, 0

    def call(self, barrier):
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
        barrier.wait()
        with self.lock:
            self.now -= 1


def acquire_slot(client, barrier):
    client.zremrangebyscore(SLOTS, "-inf", time.time() - 60)
    if client.zcard(SLOTS) >= LIMIT:  # !
        return None
    barrier.wait()
    slot = uuid.uuid4().hex
    client.zadd(SLOTS, {slot: time.time()})  # !
    return slot


def caller(name, partner, barrier):
    client = redis.Redis.from_url(os.environ["REDIS_URL"], client_name=name)
    slot = acquire_slot(client, barrier)
    if slot is None:
        return
    partner.call(barrier)
    client.zrem(SLOTS, slot)


def main():
    partner, barrier = Partner(), threading.Barrier(3, timeout=5)
    callers = [threading.Thread(target=caller, args=(f"caller-{n}", partner, barrier)) for n in range(3)]
    for thread in callers:
        thread.start()
    for thread in callers:
        thread.join()
    if partner.most > LIMIT:
        print(f"damage: {partner.most} calls at a time, {LIMIT} are allowed")


if __name__ == "__main__":
    main()
