"""Seats of a show are booked with an optimistic transaction.

The free seats are read first, the key is watched afterwards. What changed between the read and WATCH is not noticed:
EXEC succeeds and writes a list that does not know the other booking, so one seat is sold twice.
Keys: show:<id>:free. The lines marked ! are the evidence.
"""
import json
import multiprocessing
import os

import redis

FREE = "show:12:free"


def book(customer, has_read, may_go_on, sold):
    client = redis.Redis.from_url(os.environ["REDIS_URL"])
    with client.pipeline() as pipe:
        while True:
            try:
                free = json.loads(client.get(FREE))  # !
                has_read.set()
                may_go_on.wait(5)
                pipe.watch(FREE)  # !
                seat, rest = free[0], free[1:]
                pipe.multi()
                pipe.set(FREE, json.dumps(rest))
                pipe.execute()  # !
                sold.put((customer, seat))
                return
            except redis.WatchError:
                continue


def main():
    client = redis.Redis.from_url(os.environ["REDIS_URL"])
    client.set(FREE, json.dumps(["A1", "A2", "A3"]))
    sold = multiprocessing.Queue()
    first_read, second_read, first_booked = (multiprocessing.Event() for _ in range(3))
    first = multiprocessing.Process(target=book, args=("ada", first_read, second_read, sold))
    second = multiprocessing.Process(target=book, args=("bob", second_read, first_booked, sold))
    first.start()
    second.start()
    first.join()
    first_booked.set()
    second.join()
    bookings = dict(sold.get(timeout=2) for _ in range(2))
    if len(set(bookings.values())) == 1:
        print(f"damage: seat {bookings['ada']} was sold to {' and '.join(sorted(bookings))}")


if __name__ == "__main__":
    main()
