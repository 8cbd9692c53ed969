"""Bookings on one ledger, taken in turn behind a lock.

The total is read before the lock is taken, to reject impossible bookings early, and that value is used again inside.
Whoever waited for the lock writes a total that does not know the booking made meanwhile.
Keys: lock ledger:2024:mutex, data ledger:2024:total. The lines marked ! are the evidence.
"""
import multiprocessing
import os
import secrets
import time

import redis

MUTEX, TOTAL = "ledger:2024:mutex", "ledger:2024:total"
UNLOCK = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
"""


def book(amount, has_read, may_go_on):
    client = redis.Redis.from_url(os.environ["REDIS_URL"])
    unlock = client.register_script(UNLOCK)

    total = int(client.get(TOTAL))  # !
    if total + amount > 1_000_000:
        raise ValueError("over the limit of the ledger")
    has_read.set()
    may_go_on.wait(5)

    token = secrets.token_hex(16)
    while not client.set(MUTEX, token, nx=True, ex=10):
        time.sleep(0.01)
    try:
        client.set(TOTAL, total + amount)  # !
        time.sleep(0.05)
    finally:
        unlock(keys=[MUTEX], args=[token])


def main():
    client = redis.Redis.from_url(os.environ["REDIS_URL"])
    client.set(TOTAL, 1000)
    reads = [multiprocessing.Event(), multiprocessing.Event()]
    clerks = [
        multiprocessing.Process(target=book, args=(300, reads[0], reads[1])),
        multiprocessing.Process(target=book, args=(45, reads[1], reads[0])),
    ]
    for clerk in clerks:
        clerk.start()
    for clerk in clerks:
        clerk.join()
    total = int(client.get(TOTAL))
    if total != 1345:
        print(f"damage: 345 were booked on 1000, the ledger says {total}")


if __name__ == "__main__":
    main()
