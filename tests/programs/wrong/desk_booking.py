"""An office books desks. Who adds the desk to the set of busy desks (SADD gives 1) may change the desk's bookings.

Wrong: the desk is taken out of the set in a `finally` that also runs for who was refused. The refusal of one request
ends the hold of another one, and a third request goes in beside it. The requests are threads of one server.
"""
import json
import os
import threading

import redis

URL = os.environ["REDIS_URL"]
BUSY, DESK = "office:hh:desks:busy", "window-12"
BOOKINGS = f"office:hh:desk:{DESK}:bookings"


class Busy(Exception):
    pass


def book(person, has_read=None, may_write=None):
    r = redis.Redis.from_url(URL, decode_responses=True)
    try:
        if not r.sadd(BUSY, DESK):
            raise Busy(DESK)
        bookings = json.loads(r.get(BOOKINGS))
        if has_read:
            has_read.set()
            assert may_write.wait(15)
        r.set(BOOKINGS, json.dumps(bookings + [person]))  # may be from before another booking!
    finally:
        r.srem(BUSY, DESK)  # who was refused takes away the hold of another one!
        r.close()


def main():
    r = redis.Redis.from_url(URL, decode_responses=True)
    r.set(BOOKINGS, "[]")
    has_read, may_write, outcome = threading.Event(), threading.Event(), []

    def attempt(person, *events):
        try:
            book(person, *events)
            outcome.append((person, "booked"))
        except Busy:
            outcome.append((person, "refused"))

    first = threading.Thread(target=attempt, args=("Mara", has_read, may_write))
    first.start()
    assert has_read.wait(15)
    for person in ("Nils", "Okan"):
        request = threading.Thread(target=attempt, args=(person,))
        request.start()
        request.join()
    may_write.set()
    first.join()

    booked = sorted(person for person, how in outcome if how == "booked")
    stored = sorted(json.loads(r.get(BOOKINGS)))
    if booked != stored:
        print(f"damage: {len(booked)} bookings were confirmed, {len(stored)} stored")
    else:
        print("ok: every confirmed booking is stored")


main()
