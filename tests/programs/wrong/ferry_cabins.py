"""Ferry: two counters sell cabins for the night crossing.

Wrong: a counter looks whether the cabin is in the set of those taken, and adds it if not. Between the two the other
counter looks as well; what SADD answers is not read. One passenger has a ticket and no cabin.
"""
import os
from multiprocessing import Barrier, Process, SimpleQueue

import redis

URL = os.environ["REDIS_URL"]


class Counter:
    def __init__(self, crossing, both):
        self.redis = redis.from_url(URL, decode_responses=True)
        self.taken = f"ferry:{crossing}:taken"
        self.guests = f"ferry:{crossing}:guest:"
        self.both = both

    def sell(self, cabin, passenger):
        if self.redis.sismember(self.taken, cabin):
            return None
        self.both.wait(15)
        self.redis.sadd(self.taken, cabin)  # 0 for the second one, who does not look !
        self.redis.set(self.guests + cabin, passenger)
        return f"{passenger} in cabin {cabin}"


def serve(both, passenger, tickets):
    tickets.put((passenger, Counter("0311", both).sell("712", passenger)))


if __name__ == "__main__":
    both, tickets = Barrier(2), SimpleQueue()
    counters = [Process(target=serve, args=(both, passenger, tickets)) for passenger in ("Lindqvist", "Moreau")]
    for counter in counters:
        counter.start()
    printed = dict(tickets.get() for _ in counters)
    for counter in counters:
        counter.join()
    guest = redis.from_url(URL, decode_responses=True).get("ferry:0311:guest:712")
    for passenger, ticket in printed.items():
        if ticket and passenger != guest:
            print(f"damage: the ticket says {ticket}, and the cabin belongs to {guest}")
