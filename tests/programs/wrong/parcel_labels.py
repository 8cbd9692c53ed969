"""A dispatch service numbers its labels. Its threads take a lock for each batch: a token, an expiry, a release that compares.

Wrong: the expiry is 30, meant as seconds and given as `px`. No batch is done within 30 milliseconds, so no
release ever finds its token, and the next thread goes in while the number is being worked on.
"""
import os
import secrets
import threading
import time

import redis

URL = os.environ["REDIS_URL"]
RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end"
LOCK, NUMBER = "dispatch:labels:mutex", "dispatch:labels:number"
LOCK_SECONDS = 30
released, errors = [], []


def batch(amount, start, has_read, may_write, written):
    try:
        assert start.wait(15)
        r = redis.Redis.from_url(URL, decode_responses=True)
        token = secrets.token_hex(16)
        while not r.set(LOCK, token, nx=True, px=LOCK_SECONDS):  # milliseconds!
            time.sleep(0.01)
        number = int(r.get(NUMBER))
        has_read.set()
        assert may_write.wait(15)
        while r.get(LOCK) == token:  # rendering takes longer than the lock lasts
            time.sleep(0.01)
        r.set(NUMBER, number + amount)  # nobody is kept out any more!
        released.append(r.eval(RELEASE, 1, LOCK, token))
        written.set()
    except Exception as error:
        errors.append(error)


def main():
    r = redis.Redis.from_url(URL, decode_responses=True)
    r.set(NUMBER, 1)
    at_once = threading.Event()
    at_once.set()
    read, written = [threading.Event() for _ in range(4)], [threading.Event() for _ in range(4)]
    # Two rounds: the second batch of a round reads before the first one writes.
    batches = [
        threading.Thread(target=batch, args=(10, at_once, read[0], read[1], written[0])),
        threading.Thread(target=batch, args=(10, read[0], read[1], written[0], written[1])),
        threading.Thread(target=batch, args=(10, written[1], read[2], read[3], written[2])),
        threading.Thread(target=batch, args=(10, read[2], read[3], written[2], written[3])),
    ]
    for thread in batches:
        thread.start()
    for thread in batches:
        thread.join()
    assert not errors, errors
    number = int(r.get(NUMBER))
    if number != 41 or not any(released):
        print(f"damage: {number - 1} numbers for 40 labels, {sum(released)} of {len(released)} releases found their lock")
    else:
        print("ok: 40 labels have 40 numbers")


main()
