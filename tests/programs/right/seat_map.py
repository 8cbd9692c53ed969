"""Seats of a train are reserved in a bitmap.

SETBIT returns the old bit: 0 means that the seat was free and is ours now. GETBIT is asked first only to skip seats that
are taken; the decision is what SETBIT returned. A seat is given back by whoever has reserved it.
Keys: train:<number>:seats, hash train:<number>:passengers.
"""
import multiprocessing
import os

import redis

SEATS, PASSENGERS = "train:ICE-70:seats", "train:ICE-70:passengers"


def reserve(client, passenger):
    for seat in range(20):
        if client.getbit(SEATS, seat):
            continue
        if client.setbit(SEATS, seat, 1) == 0:
            client.hset(PASSENGERS, seat, passenger)
            return seat
    return None


def counter(name, barrier, refused):
    client = redis.Redis.from_url(os.environ["REDIS_URL"])
    barrier.wait()
    for number in range(9):
        seat = reserve(client, f"{name}-{number}")
        if seat is None:
            with refused.get_lock():
                refused.value += 1
        elif number == 0:  # changes its mind
            client.hdel(PASSENGERS, seat)
            client.setbit(SEATS, seat, 0)


def main():
    barrier, refused = multiprocessing.Barrier(3, timeout=5), multiprocessing.Value("i", 0)
    counters = [multiprocessing.Process(target=counter, args=(name, barrier, refused)) for name in ("a", "b", "c")]
    for process in counters:
        process.start()
    for process in counters:
        process.join()
    client = redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)
    passengers = client.hgetall(PASSENGERS)
    assert len(passengers) == len(set(passengers.values())) == client.bitcount(SEATS) == 20, passengers
    assert refused.value == 4
    print("ok: 20 seats have 20 passengers, four were refused")


if __name__ == "__main__":
    main()
