"""Foundry: one crane carries the ladles, and who has its token may pour.

Wrong: the token is in a list, and a watchdog puts a new one there when it has been away for 300 ms. The pourer who
has it only takes longer: now there are two tokens, two pour at once, and one ladle is not in the melt.
"""
import os
import time
from multiprocessing import Event, Process

import redis

TOKEN, MELT = "foundry:crane:token", "foundry:melt:kg"


def connect():
    return redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)


def pourer(kilos, inside, pour):
    r = connect()
    _, token = r.blpop([TOKEN], timeout=15)
    melt = int(r.get(MELT))
    inside.set()
    pour.wait(15)
    r.set(MELT, melt + kilos)
    r.rpush(TOKEN, token)


def watchdog():
    r, away_since = connect(), time.monotonic()
    while time.monotonic() - away_since < 0.3:
        if r.llen(TOKEN):
            away_since = time.monotonic()
        time.sleep(0.05)
    r.rpush(TOKEN, "crane")  # the other token is still out !


def main():
    r = connect()
    r.set(MELT, 1000)
    r.rpush(TOKEN, "crane")
    pours = []

    def start(kilos):
        inside, pour = Event(), Event()
        process = Process(target=pourer, args=(kilos, inside, pour))
        process.start()
        assert inside.wait(15)
        pours.append((process, pour))

    start(250)
    dog = Process(target=watchdog)
    dog.start()
    start(400)
    for process, pour in pours:
        pour.set()
        process.join()
    dog.join()

    melt = int(r.get(MELT))
    if melt != 1650:
        print(f"damage: 650 kg are poured at once by two, and the melt has {melt - 1000} kg more")


if __name__ == "__main__":
    main()
