"""Aquarium: keepers take turns to feed a tank and write down the grams of the day.

Wrong: the heartbeat keeps the lease alive by SET XX, which is content with any hold. A keeper whose heartbeat stood
still takes the lock away from the keeper who came after him, and both feed.
"""
import os
import threading
import time
import uuid
from multiprocessing import Event, Process

import redis

URL = os.environ["REDIS_URL"]
LOCK, GRAMS = "tank:rays:feeding", "tank:rays:grams"


class Turn:
    def __init__(self, lease):
        self.r = redis.Redis.from_url(URL, decode_responses=True)
        self.me, self.lease = f"keeper-{uuid.uuid4()}", lease
        self.beat_now, self.has_beaten = threading.Event(), threading.Event()
        self.unlock = self.r.register_script(
            "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"
        )

    def heartbeat(self):
        self.beat_now.wait(15)
        self.r.set(LOCK, self.me, xx=True, px=60_000)  # there is a hold, but whose !
        self.has_beaten.set()

    def __enter__(self):
        while not self.r.set(LOCK, self.me, nx=True, px=self.lease):
            time.sleep(0.05)
        threading.Thread(target=self.heartbeat, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.unlock(keys=[LOCK], args=[self.me])


def keeper(grams, lease, beats, inside, go_on):
    with Turn(lease) as turn:
        fed = int(turn.r.get(GRAMS))
        inside.set()
        go_on.wait(15)
        if beats:
            turn.beat_now.set()
            turn.has_beaten.wait(15)
        turn.r.set(GRAMS, fed + grams)


def start(grams, lease, beats):
    inside, go_on = Event(), Event()
    process = Process(target=keeper, args=(grams, lease, beats, inside, go_on))
    process.start()
    assert inside.wait(15)
    return process, go_on


if __name__ == "__main__":
    r = redis.Redis.from_url(URL, decode_responses=True)
    r.set(GRAMS, 200)
    stalled = start(80, 300, True)
    next_one = start(120, 60_000, False)  # gets in when the lease of the first is over
    for process, go_on in (stalled, next_one):
        go_on.set()
        process.join()
    grams = int(r.get(GRAMS))
    if grams != 400:
        print(f"damage: two keepers fed 200 g at once, and the book has {grams - 200} g more")
