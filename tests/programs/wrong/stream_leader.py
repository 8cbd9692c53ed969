"""One ingester writes the offsets of a stream; another one stands by.

The active ingester refreshes its mark with SET XX, "only if there is a mark". It does not ask whose mark: after a stall
it overwrites the mark of the ingester that stood in, and writes an offset that lies behind.
Keys: lock ingest:active, data ingest:offset. The lines marked ! are the evidence.
"""
import multiprocessing
import os
import time

import redis

ACTIVE, OFFSET = "ingest:active", "ingest:offset"


class Ingester:
    def __init__(self, name):
        self.name = name
        self.redis = redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)

    def become_active(self):
        while not self.redis.set(ACTIVE, self.name, nx=True, px=300):
            time.sleep(0.02)
        self.offset = int(self.redis.get(OFFSET))  # !

    def still_active(self):
        return bool(self.redis.set(ACTIVE, self.name, xx=True, px=300))  # !

    def commit(self, messages):
        self.offset += messages
        if self.still_active():
            self.redis.set(OFFSET, self.offset)  # !
            return True
        return False


def stalls(is_active, stood_in):
    ingester = Ingester("ingester-1")
    ingester.become_active()
    is_active.set()
    stood_in.wait(5)
    ingester.commit(10)


def stands_by(is_active, stood_in):
    ingester = Ingester("ingester-2")
    is_active.wait(5)
    ingester.become_active()
    ingester.commit(500)
    stood_in.set()


def main():
    client = redis.Redis.from_url(os.environ["REDIS_URL"])
    client.set(OFFSET, 2000)
    events = multiprocessing.Event(), multiprocessing.Event()
    ingesters = [multiprocessing.Process(target=part, args=events) for part in (stalls, stands_by)]
    for process in ingesters:
        process.start()
    for process in ingesters:
        process.join()
    offset, active = int(client.get(OFFSET)), (client.get(ACTIVE) or b"nobody").decode()
    if offset < 2510:
        print(f"damage: 510 messages after 2000, the offset is {offset}; {active} counts as active")


if __name__ == "__main__":
    main()
